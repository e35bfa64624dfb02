//! What the phases work on: the symbols, sections and functions of all inputs together.

use crate::Options;
use crate::object::Object;
use crate::unified::Entries;
use diag::{Diagnostic, Severity};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Number of a symbol of the output.
pub(crate) type SymbolId = u32;
/// Number of a section of the output.
pub(crate) type SectionId = u32;
/// Number of a function.
pub(crate) type FunctionId = u32;
/// No symbol, section or function.
pub(crate) const NONE: u32 = u32::MAX;

/// Where a symbol lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Undefined,
    /// In a section of the output, [`Symbol::value`] bytes from its start.
    Section(SectionId),
    /// Nowhere yet: the largest definition of its name gets memory.
    Common,
    /// In shared memory: number in [`World::shared`].
    Shared(u32),
    /// It names another function.
    Alias(FunctionId),
}

/// Classes of sections, in the order of the output.
pub(crate) mod class {
    /// Names, strings, symbols.
    pub const TABLE: u8 = 1;
    /// For debuggers.
    pub const DEBUG: u8 = 2;
    /// `.note.nv.tkinfo`.
    pub const TKINFO: u8 = 3;
    /// `.note.nv.cuinfo`.
    pub const CUINFO: u8 = 4;
    /// `.nv.info`.
    pub const INFO: u8 = 5;
    /// `.nv.compat`.
    pub const COMPAT: u8 = 6;
    /// `.nv.info.<function>`.
    pub const INFOS: u8 = 8;
    /// `.nv.callgraph`.
    pub const CALLGRAPH: u8 = 9;
    /// `.nv.prototype`.
    pub const PROTOTYPE: u8 = 10;
    /// `.nv.rel.action`.
    pub const ACTIONS: u8 = 11;
    /// Relocations, and what is joined by name.
    pub const RELOC: u8 = 12;
    /// Constant banks.
    pub const CONSTANT: u8 = 13;
    /// Code.
    pub const TEXT: u8 = 15;
    /// Variables with values.
    pub const INIT: u8 = 16;
    /// Other variables, shared memory.
    pub const ZERO: u8 = 17;
    /// The capsule.
    pub const CAPSULE: u8 = 18;
}

/// A symbol.
#[derive(Clone, Debug)]
pub(crate) struct Symbol<'a> {
    pub name: &'a str,
    pub bind: u8,
    pub kind: u8,
    pub other: u8,
    pub place: Place,
    pub value: u64,
    pub size: u64,
    /// The object that defines it, or the first that names it.
    pub object: u32,
    pub function: FunctionId,
    /// An address of it was asked for where nothing defines it.
    pub wanted: bool,
    /// Not in the output.
    pub hidden: bool,
    /// Index in the output's table.
    pub index: u32,
}

/// A section.
#[derive(Clone, Debug)]
pub(crate) struct Section<'a> {
    pub name: Cow<'a, str>,
    /// Sections are sorted by this.
    pub class: u8,
    pub kind: u32,
    pub flags: u64,
    pub align: u64,
    pub entsize: u64,
    pub size: u64,
    pub parts: Vec<Part<'a>>,
    /// The section that it belongs to, or whose places its relocations are.
    pub owner: SectionId,
    pub function: FunctionId,
    /// Left out of the output.
    pub dead: bool,
    /// Index of its symbol in the output's table; 0 for none. Of a part of a capsule what `sh_info` says if that is no section.
    pub symbol: u32,
    /// Of a part of a capsule: its table of symbols, or that table's strings.
    pub link: SectionId,
    /// The section whose bytes it shares.
    pub shares: SectionId,
    /// Index in the output.
    pub index: u32,
    /// Offset in the output.
    pub offset: u64,
}

/// Bytes of an input in a section.
#[derive(Clone, Debug)]
pub(crate) struct Part<'a> {
    pub offset: u64,
    pub data: Cow<'a, [u8]>,
}

/// A function with code.
#[derive(Clone, Debug)]
pub(crate) struct Function<'a> {
    pub symbol: SymbolId,
    pub text: SectionId,
    pub object: u32,
    /// Its section in that object.
    pub input: u32,
    pub entry: bool,
    /// In the output.
    pub alive: bool,
    pub registers: u32,
    pub frame: u32,
    pub barriers: u32,
    /// The limit of registers that its code was made for.
    pub max_registers: u32,
    /// Its attributes.
    pub info: &'a [u8],
    /// What it says that it may call outside of its file.
    pub externs: Vec<SymbolId>,
    /// It has a section for attributes.
    pub has_info: bool,
    pub constant0: SectionId,
    pub shared: SectionId,
}

/// A variable in shared memory.
#[derive(Clone, Debug)]
pub(crate) struct SharedVariable {
    pub align: u64,
    pub size: u64,
    /// The entry in whose section it stands; NONE for those that anyone may use.
    pub entry: FunctionId,
    /// Its size is known when the entry is launched.
    pub dynamic: bool,
    /// The section of the output that it is listed in.
    pub home: SectionId,
    /// What its symbol says of it: its alignment in a file that links again, otherwise its address.
    pub value: u64,
}

/// An element of the list of local symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Local {
    Section(SectionId),
    Symbol(SymbolId),
}

/// Where the parts of an input went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    /// Symbols of the output.
    pub symbols: Vec<SymbolId>,
    /// Sections of the output and offsets in them.
    pub sections: Vec<(SectionId, u64)>,
    /// Sections with code of functions that another input defines.
    pub lost: Vec<bool>,
}

/// Everything.
pub(crate) struct World<'a> {
    pub options: &'a Options,
    pub objects: Vec<Object<'a>>,
    pub maps: Vec<Map>,
    pub symbols: Vec<Symbol<'a>>,
    pub sections: Vec<Section<'a>>,
    pub functions: Vec<Function<'a>>,
    pub shared: Vec<SharedVariable>,
    pub by_name: FxHashMap<&'a str, SymbolId>,
    pub section_by_name: FxHashMap<&'a str, SectionId>,
    pub locals: Vec<Local>,
    pub globals: Vec<SymbolId>,
    /// Relocations of inputs in order: object and section.
    pub reloc_sections: Vec<(u32, u32, SectionId)>,
    /// Sections of relocations of the output, by what they change and their type.
    pub reloc_by: FxHashMap<(SectionId, u32), SectionId>,
    /// Functions with attributes, in the order of their sections in the output.
    pub info_order: Vec<FunctionId>,
    /// Attributes of modules, in the order of inputs: object, its attributes.
    pub module_info: Vec<(u32, &'a [u8])>,
    pub notes: Vec<&'a [u8]>,
    pub cuinfo: Option<(&'a [u8], u64)>,
    pub compat: Option<Vec<u8>>,
    /// No file states compatibility: the form of files before sm_90.
    pub compat_missing: bool,
    /// Shared variables that belong to no entry are there.
    pub debug_shared: SectionId,
    /// It is made of capsules: symbols keep the types of inputs.
    pub capsule: bool,
    /// There is a capsule beside it in the output.
    pub has_capsule: bool,
    /// Entries of unified functions and variables, in the order of inputs.
    pub unified: Vec<Entries<'a>>,
    pub warnings: Vec<Diagnostic>,
}

impl<'a> World<'a> {
    pub fn new(objects: Vec<Object<'a>>, options: &'a Options) -> World<'a> {
        World {
            options,
            objects,
            maps: Vec::new(),
            symbols: Vec::new(),
            sections: Vec::new(),
            functions: Vec::new(),
            shared: Vec::new(),
            by_name: FxHashMap::default(),
            section_by_name: FxHashMap::default(),
            locals: Vec::new(),
            globals: Vec::new(),
            reloc_sections: Vec::new(),
            reloc_by: FxHashMap::default(),
            info_order: Vec::new(),
            module_info: Vec::new(),
            notes: Vec::new(),
            cuinfo: None,
            compat: None,
            compat_missing: false,
            debug_shared: NONE,
            capsule: false,
            has_capsule: false,
            unified: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// True for sections of the output whose bytes are in the file.
    pub fn in_file(&self, id: SectionId) -> bool {
        cubin::view::in_file(self.sections[id as usize].kind)
    }

    pub fn symbol(&self, id: SymbolId) -> &Symbol<'a> {
        &self.symbols[id as usize]
    }

    /// A new section, empty and aligned to one byte.
    pub fn make_section(&mut self, name: impl Into<Cow<'a, str>>, class: u8, kind: u32, flags: u64) -> SectionId {
        self.sections.push(Section {
            name: name.into(),
            class,
            kind,
            flags,
            align: 1,
            entsize: 0,
            size: 0,
            parts: Vec::new(),
            owner: NONE,
            function: NONE,
            dead: false,
            symbol: 0,
            link: NONE,
            shares: NONE,
            index: 0,
            offset: 0,
        });
        self.sections.len() as u32 - 1
    }

    /// The section of the output of that name that belongs to all functions and has that size; NONE if there is none.
    pub fn section_of(&self, name: &str, size: u64) -> SectionId {
        let fits = |s: &Section| s.name == name && s.owner == NONE && !s.dead && s.size == size;
        self.sections.iter().position(fits).map_or(NONE, |i| i as u32)
    }

    pub fn section(&mut self, id: SectionId) -> &mut Section<'a> {
        &mut self.sections[id as usize]
    }

    pub fn function(&self, id: FunctionId) -> &Function<'a> {
        &self.functions[id as usize]
    }

    pub fn name_of(&self, id: FunctionId) -> &'a str {
        self.symbol(self.function(id).symbol).name
    }

    pub fn file(&self, object: u32) -> &'a str {
        self.objects[object as usize].name
    }

    /// The function that a symbol names, through aliases.
    pub fn called(&self, id: SymbolId) -> Option<FunctionId> {
        let s = self.symbol(id);
        match s.place {
            Place::Alias(f) => Some(f),
            _ if s.function != NONE => Some(s.function),
            _ => None,
        }
    }

    /// True for a function that no file defines, and for a kernel: calls of neither are settled by linking.
    pub fn is_external(&self, id: SymbolId) -> bool {
        let s = self.symbol(id);
        s.place == Place::Undefined || s.function != NONE && self.function(s.function).entry
    }

    pub fn warn(&mut self, message: String) {
        self.warnings.push(Diagnostic::new(Severity::Warning, message));
    }
}

/// True for names of the tables of unified functions and variables, which files of sm_90 and later name whether they use them
/// or not.
pub(crate) fn is_unified_table(name: &str) -> bool {
    name.starts_with("__UFT") || name.starts_with("__UDT")
}

/// True for names that the driver defines when it loads a module.
pub(crate) fn is_system(name: &str) -> bool {
    matches!(name, "vprintf" | "malloc" | "free" | "__assertfail")
        || name.starts_with("__cuda_syscall_")
        || name.strip_prefix("cnp").is_some_and(|n| LAUNCH.contains(&n))
}

/// What the system's library of CUDA 13 calls by names that begin with `cnp`.
const LAUNCH: [&str; 20] = [
    "CtxSynchronize",
    "EventCreate",
    "EventDestroy",
    "EventRecord",
    "DeviceGetAttribute",
    "FuncGetAttribute",
    "GetCacheConfig",
    "GetDevice",
    "GetDeviceCount",
    "GetLastError",
    "GetLimit",
    "GetParameterBuffer",
    "GetParameterBufferV2",
    "GetSharedMemConfig",
    "LaunchDevice",
    "LaunchDeviceV2",
    "SetLastError",
    "StreamCreate",
    "StreamDestroy",
    "StreamWaitEvent",
];

/// The size of an entry's parameters, which a file names without defining it. (Observed: nvlink 13.5 writes -1 for it.)
pub(crate) const PARAMETERS_SIZE: (&str, u64) = (".nv.ptx.const0.size", u64::MAX);
