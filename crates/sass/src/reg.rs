//! Registers: files, physical and virtual.

use std::fmt;

/// A register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum File {
    /// 32-bit per-lane registers R0..R254, RZ.
    Gpr = 0,
    /// 32-bit warp-uniform registers UR0..UR62, URZ.
    Ugpr = 1,
    /// Per-lane predicates P0..P6, PT.
    Pred = 2,
    /// Uniform predicates UP0..UP6, UPT.
    Upred = 3,
    /// Convergence barriers B0..B15.
    Bar = 4,
}

/// A register of any file, physical or virtual, in one word.
///
/// A physical register has its index in the file; the zero registers (RZ, URZ) have index 255 and the true predicates
/// (PT, UPT) index 7 whatever the chip encodes. A register operand that is several registers wide names the first.
///
/// A *virtual* register is the compiler's: its id is one 32-bit (or one-bit) value if the operand is one register wide,
/// or an entry of the function's vector pool if it is wider; the codec refuses virtual registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Reg(u32);

/// The bits of a register's index.
const INDEX: u32 = POOLED - 1;
/// Set where that is an entry of the pool of vectors.
const POOLED: u32 = 1 << 27;

impl Reg {
    /// The register that reads as zero.
    pub const RZ: Reg = Reg::phys(File::Gpr, 255);
    /// The uniform register that reads as zero.
    pub const URZ: Reg = Reg::phys(File::Ugpr, 255);
    /// The predicate that is always true.
    pub const PT: Reg = Reg::phys(File::Pred, 7);
    /// The uniform predicate that is always true.
    pub const UPT: Reg = Reg::phys(File::Upred, 7);

    /// Physical register `index` of `file`.
    #[inline]
    pub const fn phys(file: File, index: u8) -> Reg {
        Reg((file as u32) << 28 | index as u32)
    }

    /// Physical register `index` of the file of this number.
    pub(crate) const fn numbered(file: u8, index: u8) -> Reg {
        Reg((file as u32) << 28 | index as u32)
    }

    /// Physical register `index` of a file that is given by the bits of [`Reg::phys`]`(file, 0)`.
    #[inline(always)]
    pub(crate) const fn of_bits(file: u32, index: u8) -> Reg {
        Reg(file | index as u32)
    }

    /// Virtual register `id` of `file`, one register wide; `id` below 2^27.
    #[inline]
    pub const fn virt(file: File, id: u32) -> Reg {
        Reg(1 << 31 | (file as u32) << 28 | (id & INDEX))
    }

    /// Entry `id` of the pool of vectors, as a virtual register of `file`; `id` below 2^27.
    #[inline]
    pub const fn pooled(file: File, id: u32) -> Reg {
        Reg(Reg::virt(file, id).0 | POOLED)
    }

    /// The same virtual register, or the physical one of the same index, in another file; not for RZ and the like, whose indices files differ in.
    #[inline]
    pub const fn in_file(self, file: File) -> Reg {
        Reg(self.0 & !(7 << 28) | (file as u32) << 28)
    }

    /// `R<index>`.
    #[inline]
    pub const fn r(index: u8) -> Reg {
        Reg::phys(File::Gpr, index)
    }

    /// `UR<index>`.
    #[inline]
    pub const fn ur(index: u8) -> Reg {
        Reg::phys(File::Ugpr, index)
    }

    /// `P<index>`.
    #[inline]
    pub const fn p(index: u8) -> Reg {
        Reg::phys(File::Pred, index)
    }

    /// `UP<index>`.
    #[inline]
    pub const fn up(index: u8) -> Reg {
        Reg::phys(File::Upred, index)
    }

    /// `B<index>`.
    #[inline]
    pub const fn b(index: u8) -> Reg {
        Reg::phys(File::Bar, index)
    }

    /// Its file.
    #[inline]
    pub const fn file(self) -> File {
        match (self.0 >> 28) & 7 {
            0 => File::Gpr,
            1 => File::Ugpr,
            2 => File::Pred,
            3 => File::Upred,
            _ => File::Bar,
        }
    }

    /// True for a virtual register.
    #[inline]
    pub const fn is_virtual(self) -> bool {
        self.0 >> 31 != 0
    }

    /// True for an entry of the pool of vectors.
    #[inline]
    pub const fn is_pooled(self) -> bool {
        self.0 & POOLED != 0
    }

    /// Index of a physical register, id of a virtual one.
    #[inline]
    pub const fn index(self) -> u32 {
        self.0 & INDEX
    }

    /// Index of a physical register of this file; none for others.
    #[inline(always)]
    pub(crate) const fn index_in(self, file: File) -> Option<u32> {
        let n = self.0 ^ (file as u32) << 28;
        if n <= 255 { Some(n) } else { None }
    }

    /// True for RZ, URZ, PT and UPT.
    #[inline]
    pub const fn is_const(self) -> bool {
        !self.is_virtual()
            && match self.file() {
                File::Gpr | File::Ugpr => self.index() == 255,
                File::Pred | File::Upred => self.index() == 7,
                File::Bar => false,
            }
    }

    /// The `n`-th register after this one (physical, not a constant one: those stay themselves).
    #[inline]
    pub const fn offset(self, n: u32) -> Reg {
        if self.is_const() { self } else { Reg(self.0 + n) }
    }
}

impl fmt::Display for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.file() {
            File::Gpr => "R",
            File::Ugpr => "UR",
            File::Pred => "P",
            File::Upred => "UP",
            File::Bar => "B",
        };
        match (self.is_virtual(), self.is_const()) {
            (true, _) => write!(f, "%{}{}", prefix.to_lowercase(), self.index()),
            (_, true) if matches!(self.file(), File::Gpr | File::Ugpr) => write!(f, "{prefix}Z"),
            (_, true) => write!(f, "{prefix}T"),
            _ => write!(f, "{prefix}{}", self.index()),
        }
    }
}

impl fmt::Debug for Reg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
