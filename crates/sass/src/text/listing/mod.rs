//! The code of a file as a listing: what the vendor's `nvdisasm` prints for `.text` sections, line by line.
//!
//! Read off what release 13.5 prints for code that releases 13.0 and 13.5 made for sm_90.

mod code;
mod graph;
mod json;
mod labels;
mod live;

pub use code::Options;
pub use graph::Graph;
pub use json::quoted;
pub use live::Ranges;

use crate::codec::{Decoded, decode_all};
use crate::form::{Slot, SlotKind};
use crate::inst::{Operand, Value};
use labels::{Places, number};

/// Binding of a function's symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Seen in its file alone.
    Local,
    /// Visible.
    Global,
    /// Visible, and may be replaced.
    Weak,
}

/// A function's symbol.
#[derive(Clone, Debug)]
pub struct Function {
    /// Name as in the symbol table.
    pub name: String,
    /// Index into [`File::sections`].
    pub section: usize,
    /// First byte, from the section's begin.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Binding.
    pub binding: Binding,
    /// A kernel (symbol flag `STO_CUDA_ENTRY`).
    pub entry: bool,
    /// Its symbol stands behind that of its section in the table of symbols: then it is shown before it.
    pub leads: bool,
}

/// What a relocation puts into an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// A whole value in the 32-bit immediate.
    Value,
    /// The low half of an address in the 32-bit immediate.
    Low,
    /// The high half of an address in the 32-bit immediate.
    High,
    /// The low half of a function's address, which may be a unified function.
    UnifiedLow,
    /// The high half of such an address.
    UnifiedHigh,
    /// The distance of an address from its register.
    Distance,
    /// The same in LDGSTS, which holds it four bits further up.
    DistanceInShared,
    /// The offset of a constant.
    Constant,
    /// The address that is called.
    Call,
    /// The opcode: a linker makes the instruction a NOP where nobody needs it (YIELD, up to sm_89).
    Opcode,
}

impl Field {
    /// The field of an ELF relocation's type; None for those that print nothing. The numbers are those that ptxas 13.0
    /// and 13.5 write into sm_90 code, and 13.5 into code for sm_75 to sm_121.
    pub fn of_type(kind: u32) -> Option<Field> {
        Some(match kind {
            0x37 | 0x3b => Field::Value,
            0x38 => Field::Low,
            0x39 => Field::High,
            0x70 => Field::UnifiedLow,
            0x71 => Field::UnifiedHigh,
            0x40 | 0x42 | 0x73 => Field::Constant,
            0x3a | 0x4b | 0x72 => Field::Call,
            0x44 => Field::Opcode,
            0x4a => Field::Distance,
            0x64 => Field::DistanceInShared,
            _ => return None,
        })
    }

    /// How the operand shows that a relocation against `place` fills it.
    fn text(self, place: &str) -> String {
        match self {
            Field::Low => format!("32@lo({place})"),
            Field::High => format!("32@hi({place})"),
            Field::UnifiedLow => format!("32@lo(fun@unified({place}))"),
            Field::UnifiedHigh => format!("32@hi(fun@unified({place}))"),
            _ => format!("`({place})"),
        }
    }

    /// Whether an operand in this slot is the one.
    fn fits(self, slot: &Slot, op: &Operand) -> bool {
        let from = slot.bits.first().map(|b| b.0);
        match self {
            Field::Constant => matches!(op.value, Value::Const { .. }),
            Field::Call => !matches!(op.value, Value::Reg(_)) && slot.bits.iter().any(|b| b.0 == 34),
            Field::Distance => matches!(op.value, Value::Imm(_)) && from == Some(40),
            Field::DistanceInShared => matches!(op.value, Value::Imm(_)) && from == Some(44),
            Field::Opcode => false,
            _ => matches!(slot.kind, SlotKind::Imm { .. }) && from == Some(32),
        }
    }
}

/// A relocation of a `.text` section.
#[derive(Clone, Debug)]
pub struct Relocation {
    /// The instruction's first byte, from the section's begin.
    pub offset: u64,
    /// Which bits.
    pub field: Field,
    /// Name of the symbol.
    pub symbol: String,
    /// Index into [`File::functions`], if the symbol is a function that is defined here.
    pub function: Option<usize>,
    /// The value of a symbol that the file defines.
    pub value: Option<u64>,
    /// Added to the symbol's value.
    pub addend: i64,
}

/// A `.text` section.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Name: `.text.kernel`.
    pub name: String,
    /// Alignment in bytes.
    pub align: u64,
    /// Directives between the section's first line and its alignment: `.sectioninfo\t@"SHI_REGISTERS=40"`.
    pub properties: Vec<String>,
    /// The code, in words of 16 bytes.
    pub words: Vec<u128>,
    /// How many registers the file says its functions have (`REGCOUNT`); 0 where it does not.
    pub registers: u32,
    /// The last general register that the file leaves to the code, if it says so.
    pub last_register: Option<u32>,
    /// Its relocations, in any order.
    pub relocations: Vec<Relocation>,
    /// The offsets of instructions in the attributes of `.nv.info.kernel` that list such (`EXIT_INSTR_OFFSETS`,
    /// `COOP_GROUP_INSTR_OFFSETS`, `INT_WARP_WIDE_INSTR_OFFSETS`, `SYSCALL_OFFSETS`, the first word of each pair of
    /// `UNUSED_LOAD_BYTE_OFFSET` and of each four of `MBARRIER_INSTR_OFFSETS`, and of
    /// `INDIRECT_BRANCH_TARGETS` the branch and then its targets), in their order.
    pub marks: Vec<u64>,
    /// Each indirect branch with its targets, as `INDIRECT_BRANCH_TARGETS` has them.
    pub branches: Vec<(u64, Vec<u64>)>,
    /// In a relocatable file, the targets in the kernel's jump tables (the objects in `.nv.constant2.kernel`), in order.
    pub tables: Vec<u64>,
    /// Comments before instructions, by offset: lines without a tab before them. Where one stands for several offsets, all
    /// are shown, in order.
    pub comments: Vec<(u64, String)>,
    /// What is noted of instructions in assembly text, by offset.
    pub notes: Vec<(u64, String)>,
    /// For JSON, what is noted of an instruction (its offset) or of the whole: objects, as text.
    pub annotations: Vec<(Option<u64>, String)>,
}

/// The code of one file.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// Number of the SM.
    pub sm: u16,
    /// An object yet to be linked (`ET_REL`), in which indirect branches show what they are relative to.
    pub relocatable: bool,
    /// `.text` sections in the order of section headers.
    pub sections: Vec<Section>,
    /// Functions that are defined, in the order of symbols.
    pub functions: Vec<Function>,
    /// Places in code that relocations of other sections (debug information) name: index into `sections` and offset, by
    /// section and offset of the relocation.
    pub named: Vec<(usize, u64)>,
}

/// A file with its words decoded and its labels numbered: what every way of printing starts from.
///
/// For a file the vendor's tool prints `\t.target\tsm_90\n\n\t.elftype\t@"ET_EXEC"\n` first, then two empty lines before
/// each section, and the undefined symbols at the end.
#[derive(Debug)]
pub struct Listing<'a> {
    file: &'a File,
    code: Vec<Vec<Decoded>>,
    places: Vec<Places>,
}

impl<'a> Listing<'a> {
    /// Decodes and numbers.
    pub fn new(file: &'a File) -> Listing<'a> {
        let code = file.sections.iter().map(|s| decode_all(&s.words, file.sm)).collect::<Vec<_>>();
        let places = number(file, &code);
        Listing { file, code, places }
    }

    /// The name of a place in a section: a label; None where nothing has named it.
    pub fn label(&self, section: usize, offset: u64) -> Option<&str> {
        self.places.get(section)?.get(&offset).map(String::as_str)
    }

    /// As [`Listing::label`]; where a function begins, its name.
    pub fn place(&self, section: usize, offset: u64) -> Option<&str> {
        let function = labels::function_at(self.file, section, offset).map(|f| f.name.as_str());
        function.or_else(|| self.label(section, offset))
    }

    /// The first word that is no known instruction: the section and the offset.
    pub fn unknown(&self) -> Option<(&'a Section, u64, u128)> {
        self.code.iter().zip(&self.file.sections).find_map(|(code, section)| {
            let at = code.iter().position(|d| d.known().is_none())?;
            Some((section, at as u64 * 16, section.words[at]))
        })
    }
}
