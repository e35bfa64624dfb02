//! What a compiler knows about its output, and the executable cubin made of it.
//!
//! [`Image::emit`] writes the file, [`Image::read`] finds the same facts in a file. What stands where is what the vendor's
//! ptxas 13.5 writes for the same kernel on sm_90; what differs between SM groups is in `group.rs`.

mod draft;
mod emit;
mod frame;
mod group;
mod info;
mod object;
mod read;

pub use object::{Datum, Extern, ExternKind, Memory, Object, Text, TextReloc, parameter_name};

use crate::lines::write::{File, Place};
use arch::Target;

/// An executable module.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// What the code is for.
    pub target: Target,
    /// SM number of the PTX module's `.target`.
    pub ptx_sm: u16,
    /// The entries, in the order of the PTX.
    pub kernels: Vec<Kernel>,
    /// The variables of the module in global and constant memory, in the order of the PTX.
    pub variables: Vec<Variable>,
    /// Functions of the system that the code calls: their addresses are the first words of constant bank 4, in this order.
    pub externs: Vec<String>,
    /// The references of the module to textures, samplers and surfaces, in the order of the PTX. They are not read from files.
    pub references: Vec<Reference>,
    /// Samplers are apart from textures (`texmode_independent`).
    pub independent: bool,
    /// What its code needs of a machine, as `.nv.compat` has it: 4 with products of warpgroups, 2 with textures, surfaces, tensor
    /// copies or changes of the register count, otherwise 1 (observed; not all that makes it 2 or 4 is known).
    pub isa_class: u8,
    /// What it does with tensor maps, as `.nv.compat` has it: 1 if it copies by them, 2 if it writes fields of them, 3 if both.
    pub tensor_maps: u8,
    /// Who made it.
    pub tool: Tool,
    /// What a debugger and a profiler want to know; none where nobody asked. It is not read from files.
    pub debug: Option<Debug>,
}

impl Image {
    /// A file for `target` with nothing in it.
    pub fn new(target: Target, tool: Tool) -> Image {
        Image {
            target,
            ptx_sm: target.sm,
            kernels: Vec::new(),
            variables: Vec::new(),
            externs: Vec::new(),
            references: Vec::new(),
            independent: false,
            isa_class: 1,
            tensor_maps: 0,
            tool,
            debug: None,
        }
    }
}

/// The texts that code comes from: `.debug_line`, `.nv_debug_line_sass` and what they refer to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Debug {
    /// The source files, by the numbers of [`Kernel::lines`] from 1 on.
    pub files: Vec<File>,
    /// `.debug_str`, where the names of inlined functions stand; no section where it is empty.
    pub strings: Vec<u8>,
    /// `.nv_debug_ptx_txt`: the lines of the PTX text, each with a zero behind it.
    pub ptx: Vec<u8>,
    /// The debugging sections of the PTX text but `.debug_str`, in the order of the file.
    pub sections: Vec<DebugSection>,
}

/// A debugging section of the PTX text.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DebugSection {
    /// Its name, as `.debug_info`.
    pub name: String,
    /// Its bytes, with zeros where it refers to something.
    pub bytes: Vec<u8>,
    /// What it refers to, by rising offset.
    pub refs: Vec<DebugRef>,
}

/// A word of a debugging section that holds the place of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugRef {
    /// Offset of the word in its section.
    pub offset: u64,
    /// Bytes of the word: 4 or 8, and 8 for a symbol.
    pub size: u8,
    /// What it refers to.
    pub target: DebugTarget,
}

/// What a word of a debugging section refers to, with a number that is added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DebugTarget {
    /// A symbol: of a kernel, a function, a variable.
    Symbol(String, i64),
    /// The start of a debugging section. An executable holds the number itself; a relocatable file has a relocation for it.
    Section(String, i64),
}

/// Who made a file: the content of its notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Name of the tool.
    pub name: String,
    /// Version, one line.
    pub version: String,
    /// Build, one line.
    pub branch: String,
    /// Options in short spelling, each followed by a blank, without file names.
    pub options: String,
    /// Release that the format follows, times ten: 135 is 13.5.
    pub toolkit: u16,
}

impl Tool {
    /// The bytes of the note `.note.nv.tkinfo` that names it.
    pub fn note(&self) -> Vec<u8> {
        draft::tool_note(self)
    }
}

/// Who sees a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Binding {
    /// This module.
    #[default]
    Local,
    /// Everyone (`.visible`).
    Global,
    /// Everyone, unless another definition is there (`.weak`).
    Weak,
}

/// Memory of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Space {
    /// `.global`.
    #[default]
    Global,
    /// `.const`.
    Constant,
}

/// A variable of the module.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Who sees it.
    pub binding: Binding,
    /// Where it lies.
    pub space: Space,
    /// Alignment in bytes, a power of two.
    pub align: u64,
    /// Size in bytes.
    pub size: u64,
    /// True for `.managed`.
    pub managed: bool,
    /// Its bytes; where there are fewer than `size` the rest is 0. None where the PTX has no initialiser.
    pub init: Option<Vec<u8>>,
    /// Addresses in its bytes that are known when the module is loaded.
    pub relocs: Vec<DataReloc>,
    /// True where the compiler itself put in numbers of functions.
    pub resolved: bool,
    /// Where it lies in its section; None lets [`Layout::of`] choose. Known of variables that were read from a file.
    pub offset: Option<u64>,
}

/// An address in the bytes of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataReloc {
    /// Offset in the variable.
    pub offset: u64,
    /// Which address, and how wide.
    pub kind: DataRelocKind,
    /// The variable or entry.
    pub symbol: String,
    /// What is added.
    pub addend: i64,
}

/// Relocations of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataRelocKind {
    /// Low half of the address in its own memory.
    Low32,
    /// Address in its own memory.
    Address64,
    /// Low half of the generic address.
    Generic32,
    /// Generic address: what `generic(x)`, and a variable's name alone, give on current machines.
    Generic64,
    /// Descriptor of an entry.
    Descriptor64,
    /// One byte of the address in its own memory, by number.
    AddressByte(u8),
    /// One byte of the generic address.
    GenericByte(u8),
    /// One byte of the descriptor of an entry.
    DescriptorByte(u8),
}

impl DataRelocKind {
    /// The number in the file.
    pub fn number(self) -> u32 {
        match self {
            DataRelocKind::Low32 => 1,
            DataRelocKind::Address64 => 2,
            DataRelocKind::Generic32 => 3,
            DataRelocKind::Generic64 => 4,
            DataRelocKind::Descriptor64 => 0x23,
            DataRelocKind::AddressByte(n) => 0x4c + u32::from(n),
            DataRelocKind::GenericByte(n) => 0x54 + u32::from(n),
            DataRelocKind::DescriptorByte(n) => 0x5c + u32::from(n),
        }
    }
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// True for `.weak`.
    pub weak: bool,
    /// Machine code: the entry, the device functions behind it, padding to [`padded_text_size`].
    pub code: Vec<u8>,
    /// Device functions inside of `code`.
    pub functions: Vec<Function>,
    /// Registers a thread: the highest one used plus 3.
    pub regs: u32,
    /// Bytes of the entry's own stack frame.
    pub frame: u32,
    /// Where in the code the frame is there: the end of the instruction that moves R1; 0 where none does.
    pub frame_offset: u32,
    /// Bytes of stack that the deepest chain of calls needs, the entry included; none where it is unknown (recursion).
    pub min_stack: Option<u32>,
    /// Parameters in order.
    pub params: Vec<Param>,
    /// Bytes of all parameters.
    pub param_bytes: u32,
    /// Shared memory; none for an entry of a module that has none to offer.
    pub shared: Option<Shared>,
    /// Named barriers: the highest number used plus 1.
    pub barriers: u8,
    /// Bank 2: tables for indexed branches.
    pub const2: Vec<u8>,
    /// Alignment of bank 2: that of its widest word, 4 for branch tables.
    pub const2_align: u32,
    /// Offsets of EXIT instructions.
    pub exit_offsets: Vec<u32>,
    /// Offsets of warp-synchronous instructions, and the register with the mask of lanes (`0x0500_0000 | n`, or `u32::MAX`).
    pub coop_offsets: Vec<(u32, u32)>,
    /// Offsets of votes, shuffles and the like that the compiler introduced.
    pub warp_wide_offsets: Vec<u32>,
    /// Which products of sparse matrices there are, a bit for each family of instructions: `QGMMA`, `HGMMA`, `IGMMA`, `QMMA`, `HMMA`,
    /// `IMMA`, those of tensor memory, `OMMA`.
    pub sparse_products: u16,
    /// Its threads change the number of their registers.
    pub reconfigures: bool,
    /// Offsets of indexed branches with their targets.
    pub indirect_branches: Vec<(u32, Vec<u32>)>,
    /// References whose handles lie behind the parameters, in this order.
    pub handles: Vec<Handle>,
    /// Immediates in the code that the system replaces by the size of an entry of a table: byte offset, name of the size.
    pub entry_sizes: Vec<(u32, String)>,
    /// Functions of the system that it calls, by number in [`Image::externs`].
    pub externs: Vec<u32>,
    /// Byte offsets of those calls.
    pub syscall_offsets: Vec<u32>,
    /// Limit of registers: `.maxnreg`, or what the launch bounds leave, 255 without a limit.
    pub maxreg: u16,
    /// `.maxntid`.
    pub max_threads: Option<[u32; 3]>,
    /// `.reqntid`.
    pub req_threads: Option<[u32; 3]>,
    /// `.reqnctapercluster`.
    pub cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`.
    pub max_cluster_rank: Option<u32>,
    /// `.explicitcluster`.
    pub explicit_cluster: bool,
    /// `.blocksareclusters`.
    pub blocks_are_clusters: bool,
    /// True if the code has convergence barriers or calls.
    pub convergence: bool,
    /// Where in the sources the code comes from: offsets, rising, and places. Looked at if the image has [`Debug`].
    pub lines: Vec<(u64, Place)>,
    /// The same for the PTX text; its file has the number 0.
    pub ptx_lines: Vec<(u64, Place)>,
    /// Its code reads `%ctaid.z`, which files before sm_90 say.
    pub reads_ctaid_z: bool,
    /// Attributes that have no field here, as they stand in `.nv.info.<name>`, each at the place of its code.
    pub others: Vec<crate::attr::Attr>,
}

/// What a reference is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReferenceKind {
    /// A texture.
    #[default]
    Texture,
    /// A sampler.
    Sampler,
    /// A surface.
    Surface,
}

impl ReferenceKind {
    /// Type of its symbol.
    fn symbol(self) -> u8 {
        10 + self as u8
    }

    /// The relocation of the word that takes its handle.
    fn relocation(self) -> u32 {
        match self {
            ReferenceKind::Texture => 6,
            ReferenceKind::Sampler => 0x65,
            ReferenceKind::Surface => 0x34,
        }
    }

    /// What the description of a parameter has in the place of its memory.
    pub fn parameter(self) -> u8 {
        match self {
            ReferenceKind::Texture => 6,
            ReferenceKind::Sampler => 8,
            ReferenceKind::Surface => 7,
        }
    }
}

/// A reference of the module to a texture, a sampler or a surface.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Reference {
    /// Its name.
    pub name: String,
    /// What it is to.
    pub kind: ReferenceKind,
    /// What the module says of a sampler: bytes for the three edges and the filter, 0xff where it says nothing, the first lowest.
    pub sampler: Option<u32>,
    /// What it says of coordinates that are never normalised.
    pub unnormalized: Option<bool>,
}

/// A word behind the parameters of an entry, for the handle of a reference.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Handle {
    /// Name of the reference.
    pub name: String,
    /// What it is to.
    pub kind: ReferenceKind,
    /// The number of the parameter that it is; none for one of the module.
    pub parameter: Option<u32>,
}

/// A device function in the code of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Function {
    /// Its symbol: [`function_symbol`] for one of the module.
    pub symbol: String,
    /// Where it begins in the entry's code.
    pub offset: u32,
    /// Its size in bytes; that of the last one includes the padding.
    pub size: u32,
    /// Who sees it.
    pub binding: Binding,
    /// Bytes of its stack frame; 0 for one that is called directly, which the entry's `min_stack` covers.
    pub frame: u32,
    /// The register that holds the return address (20 by convention; helpers choose).
    pub return_register: u8,
}

/// Shared memory of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Shared {
    /// Bytes of its static variables, rounded up to the alignment of dynamic ones where there are such; without the bytes that
    /// the system reserves.
    pub size: u32,
    /// Alignment: the largest of all variables that it may see.
    pub align: u32,
    /// True if the code uses it. A module with dynamic shared memory gives a section to entries that do not.
    pub used: bool,
}

/// A parameter of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Param {
    /// Offset from the first parameter.
    pub offset: u16,
    /// Size in bytes.
    pub size: u16,
    /// Memory that `.ptr` names: 0 none, 1 local, 2 shared, 3 constant, 4 global, 5 generic; 6 a texture, 7 a surface, 8 a sampler.
    pub space: u8,
    /// Binary logarithm of the alignment that `.ptr` promises.
    pub log_align: u8,
}

impl Param {
    /// A reference as a parameter: it has no place among the others.
    pub fn reference(kind: ReferenceKind) -> Param {
        Param { offset: u16::MAX, size: 0, space: kind.parameter(), log_align: 0 }
    }
}

impl Kernel {
    /// Bytes of its parameters with the handles behind them.
    pub fn bank0_bytes(&self) -> u32 {
        match self.handles.len() as u32 {
            0 => self.param_bytes,
            n => self.param_bytes.next_multiple_of(4) + 4 * n,
        }
    }
}

/// The symbol of a device function of the module inside of an entry's code.
pub fn function_symbol(entry: &str, function: &str) -> String {
    format!("${entry}${function}")
}

/// The symbol of the `n`-th helper that the compiler added, from 0.
pub fn helper_symbol(n: usize, helper: &str) -> String {
    format!("$__internal_{n}_${helper}")
}

/// The size of a code section for `len` bytes of code up to and with the branch to itself that ends it; the rest is NOPs.
/// Observed: a multiple of 128, and from sm_80 on 128 bytes more.
pub fn padded_text_size(sm: u16, len: u32) -> u32 {
    len.next_multiple_of(128) + group::text_tail(sm)
}

/// Variables whose addresses stand in constant bank 4, at most: of its 64 KiB some are left for functions of the system. Others are counted from one of
/// these that lies in the same section.
pub const MOST_SLOTS: usize = 7680;

/// Where variables lie. Constants: visible ones first, in order; globals: by falling alignment, then rising size.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Layout {
    /// Offset of each variable in its section ([`Variable::section`]).
    pub offsets: Vec<u64>,
    /// Offset in constant bank 4 of the address of each variable; none for constants, and for global variables beyond [`MOST_SLOTS`].
    pub slots: Vec<Option<u32>>,
    /// The order in which the file names the variables: visible ones, then static ones.
    pub order: Vec<usize>,
}

impl Layout {
    /// The layout of a module's variables.
    pub fn of(variables: &[Variable]) -> Layout {
        let mut order: Vec<usize> = (0..variables.len()).collect();
        order.sort_by_key(|&i| variables[i].binding == Binding::Local);
        let mut layout =
            Layout { offsets: vec![0; variables.len()], slots: vec![None; variables.len()], order: order.clone() };
        let mut globals: Vec<usize> = order.iter().copied().filter(|&i| variables[i].space == Space::Global).collect();
        if globals.len() > MOST_SLOTS {
            // One of each section, from which others are counted, then those of which the system may decide alone where they lie.
            let first = |section| globals.iter().copied().find(|&i| variables[i].section() == section);
            let anchors = [first(GLOBAL_INIT), first(GLOBAL)];
            globals.sort_by_key(|&i| (!anchors.contains(&Some(i)), !variables[i].managed));
            globals.truncate(MOST_SLOTS);
        }
        for (n, i) in globals.into_iter().enumerate() {
            layout.slots[i] = Some(8 * n as u32);
        }
        for section in [CONSTANT3, GLOBAL_INIT, GLOBAL] {
            let mut here: Vec<usize> = order.iter().copied().filter(|&i| variables[i].section() == section).collect();
            if section != CONSTANT3 {
                here.sort_by_key(|&i| (std::cmp::Reverse(variables[i].align), variables[i].size));
            }
            let mut at = 0u64;
            for i in here {
                let place = variables[i].offset.unwrap_or(at.next_multiple_of(variables[i].align.max(1)));
                layout.offsets[i] = place;
                at = place.saturating_add(variables[i].size);
            }
        }
        layout
    }
}

/// Section of `.const` variables.
pub const CONSTANT3: &str = ".nv.constant3";
/// Section of addresses.
pub const CONSTANT4: &str = ".nv.constant4";
/// Section of initialised `.global` variables.
pub const GLOBAL_INIT: &str = ".nv.global.init";
/// Section of other `.global` variables.
pub const GLOBAL: &str = ".nv.global";

impl Variable {
    /// The section that it lies in.
    pub fn section(&self) -> &'static str {
        match self.space {
            Space::Constant => CONSTANT3,
            Space::Global if self.init.is_some() => GLOBAL_INIT,
            Space::Global => GLOBAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, binding: Binding, align: u64, size: u64, init: bool) -> Variable {
        let init = init.then(|| vec![1]);
        Variable { name: name.into(), binding, align, size, init, ..Variable::default() }
    }

    /// The places that the vendor's tool gives to these variables.
    #[test]
    fn variables_lie_where_the_vendor_puts_them() {
        use Binding::{Global, Local, Weak};
        let mut list = vec![
            variable("a1", Local, 4, 32, true),
            variable("a2", Local, 4, 4, true),
            variable("a3", Local, 4, 16, true),
            variable("v1", Global, 4, 8, true),
            variable("v2", Global, 4, 64, true),
            variable("v3", Global, 4, 4, true),
            variable("b1", Local, 8, 16, true),
            variable("b2", Local, 8, 8, true),
            variable("c1", Local, 2, 2, true),
            variable("w1", Weak, 4, 12, true),
            variable("z1", Local, 4, 32, false),
            variable("z4", Global, 4, 8, false),
        ];
        let constants = [("k1", Local, 4, 32), ("k2", Local, 4, 4), ("k3", Global, 8, 4), ("k4", Local, 8, 4)];
        for (name, binding, align, size) in constants {
            list.push(Variable { space: Space::Constant, ..variable(name, binding, align, size, true) });
        }
        let layout = Layout::of(&list);
        let at = |name: &str| {
            let i = list.iter().position(|v| v.name == name).unwrap();
            (layout.offsets[i], layout.slots[i])
        };
        assert_eq!([at("b2").0, at("b1").0, at("v3").0, at("a2").0], [0, 8, 0x18, 0x1c]);
        assert_eq!([at("v1").0, at("w1").0, at("a3").0, at("a1").0, at("v2").0], [0x20, 0x28, 0x34, 0x44, 0x64]);
        assert_eq!([at("z4").0, at("z1").0], [0, 8]);
        assert_eq!([at("k3"), at("k1"), at("k2"), at("k4")], [(0, None), (4, None), (0x24, None), (0x28, None)]);
        assert_eq!([at("v1").1, at("w1").1, at("z4").1, at("a1").1], [Some(0), Some(24), Some(32), Some(40)]);
    }

    #[test]
    fn more_variables_than_bank_4_has_room_for() {
        let mut list: Vec<Variable> =
            (0..9000).map(|n| variable(&format!("v{n}"), Binding::Global, 4, 4, true)).collect();
        list.push(variable("plain", Binding::Local, 4, 4, false));
        list.push(Variable { managed: true, ..variable("managed", Binding::Local, 4, 4, true) });
        let layout = Layout::of(&list);
        let mut slots: Vec<u32> = layout.slots.iter().flatten().copied().collect();
        slots.sort_unstable();
        assert!(slots.iter().copied().eq((0..MOST_SLOTS as u32).map(|n| 8 * n)));
        assert!([0, 9000, 9001].iter().all(|&i| layout.slots[i].is_some()));
        // However many are managed, others can be counted from one of their section.
        list.iter_mut().take(8999).for_each(|v| v.managed = true);
        let layout = Layout::of(&list);
        assert!([0, 9000].iter().all(|&i| layout.slots[i].is_some()));
    }

    fn an_image() -> Image {
        let options = String::new();
        let tool = Tool { name: "t".into(), version: "v".into(), branch: "b".into(), options, toolkit: 135 };
        Image::new(Target::parse("sm_90").unwrap(), tool)
    }

    #[test]
    fn an_image_that_cannot_be_written_says_why() {
        let mut image = an_image();
        let mut v = variable("v", Binding::Local, 8, 8, true);
        let kind = DataRelocKind::Generic64;
        v.relocs.push(DataReloc { offset: 0, kind, symbol: "nowhere".into(), addend: 0 });
        image.variables.push(v);
        assert_eq!(image.emit().unwrap_err().message, "a variable has the address of the unknown name 'nowhere'");
        image.variables.clear();
        assert!(image.emit().is_ok());
        image.target = Target::parse("sm_75").unwrap();
        let elf = image.emit().expect("files for the older ABI");
        assert_eq!((elf.sm() & 0xfff, elf.section(".nv.compat").is_some()), (75, false));
    }

    #[test]
    fn symbols_find_sections_beyond_sixteen_bits() {
        use crate::elf::{Elf, RESERVED, SHT_SYMTAB, SHT_SYMTAB_SHNDX, XINDEX};
        let mut image = an_image();
        let kernel = |n: u32| Kernel { name: format!("k{n}"), code: n.to_le_bytes().repeat(4), ..Kernel::default() };
        image.kernels = (0..22_000).map(kernel).collect();
        let elf = image.emit().unwrap();
        assert!(elf.sections.len() > RESERVED);
        let bytes = elf.write();
        let mut streamed = Vec::new();
        elf.write_to(&mut streamed).unwrap();
        assert!(bytes == streamed);
        let again = Elf::read(&bytes).unwrap();
        assert!(again.sections == elf.sections && again.write() == bytes);
        // No reader of ours takes such a symbol for one that lies elsewhere.
        assert!(again.symbols().unwrap_err().message.contains("65280"));
        let view = crate::view::View::read(&bytes).unwrap();
        assert_eq!((view.sections.len(), view.symbols().is_err()), (elf.sections.len(), true));
        let table = |kind| &elf.sections.iter().find(|s| s.kind == kind).unwrap().data;
        let (symbols, numbers) = (table(SHT_SYMTAB), table(SHT_SYMTAB_SHNDX));
        assert_eq!(symbols.len() / 24, numbers.len() / 4);
        let mut far = 0;
        for (s, n) in symbols.chunks_exact(24).zip(numbers.chunks_exact(4)) {
            let (said, number) = (crate::elf::u16_at(s, 6), crate::elf::u32_at(n, 0) as usize);
            assert_eq!(said == XINDEX, number >= RESERVED);
            far += usize::from(said == XINDEX);
            assert!(number == 0 || elf.sections[number].name.starts_with(".nv.constant0.k"));
        }
        assert!(far > 500, "{far}");
    }
}
