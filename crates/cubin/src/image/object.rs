//! A relocatable file: what a compiler gives a linker.
//!
//! Sections, symbols and their order are those of what the vendor's ptxas 13.5 writes for sm_90 with `-c`: every function has a
//! section of its own, variables keep their names and have no addresses, and lists say who calls whom and what functions take.
//! Files for older chips have the same sections in the same order; they know no unified functions, and nothing is reserved.

use super::draft::{
    ALLOC, CAP, COMMON, Draft, EXEC, Head, INFO, Info, LINES, PROGBITS, PTX_LINES, SymbolId, WRITE, bind, finish, rela,
    reloc,
};
use super::emit::{registers_in_header, text};
use super::frame::object_frame;
use super::group::{Group, group};
use super::info::kernel_attributes;
use super::{
    Binding, CONSTANT3, DataReloc, DataRelocKind, Debug, GLOBAL, GLOBAL_INIT, Kernel, Layout, Reference, Tool, Variable,
};
use crate::attr::{self, Attr};
use crate::elf::{ET_EXTENSIBLE, ET_REL, Elf, Reloc, SHT_LOPROC, Symbol};
use crate::lines::write::{Sequence, write};
use arch::Target;
use diag::Diagnostic;
use rustc_hash::{FxHashMap, FxHashSet};

/// A relocatable module.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// What the code is for.
    pub target: Target,
    /// SM number of the PTX module's `.target`.
    pub ptx_sm: u16,
    /// Entries and functions, callees before their callers.
    pub texts: Vec<Text>,
    /// Variables of the module that are defined here, in the order of the PTX.
    pub variables: Vec<Datum>,
    /// Names of functions and variables that are defined elsewhere.
    pub externs: Vec<Extern>,
    /// Other names of functions: the name, the function, who sees it.
    pub aliases: Vec<(String, String, Binding)>,
    /// Functions whose address is known outside of calls, and those of other modules, with what they take, in the notation of
    /// [`Text::prototype`].
    pub taken: Vec<(String, String)>,
    /// As [`super::Image::isa_class`].
    pub isa_class: u8,
    /// The code copies tensors.
    pub tensor_maps: u8,
    /// Who made it.
    pub tool: Tool,
    /// As [`super::Image::debug`].
    pub debug: Option<Debug>,
    /// The file says that it is a whole program which a library extends: `-ewp`.
    pub extensible: bool,
    /// References to textures, samplers and surfaces, for whose handles the linker finds places.
    pub references: Vec<Reference>,
    /// As [`super::Image::independent`].
    pub independent: bool,
}

/// A function in a section of its own.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Text {
    /// Code and figures; what is said of entries alone is not looked at where it is none.
    pub kernel: Kernel,
    /// It is an entry.
    pub entry: bool,
    /// Who sees it.
    pub binding: Binding,
    /// Where names stand in its code.
    pub relocs: Vec<TextReloc>,
    /// Functions that it calls by name.
    pub calls: Vec<String>,
    /// Functions whose address it takes.
    pub takes: Vec<String>,
    /// What functions take and give that it calls through pointers.
    pub indirect: Vec<String>,
    /// What it takes and gives itself: `#`, the result, the parameters; `v` nothing, `i` 32 bits, `l` 64, `f` and `d` floating
    /// point, `b` and a number of bytes.
    pub prototype: String,
    /// The first register of the pair with the return address, where it is not R20.
    pub return_register: Option<u8>,
    /// Registers that the frame keeps for the caller, with their distance from the top of the frame, and the offset in the code
    /// behind which they are all there.
    pub saved: Vec<(u8, u32)>,
}

/// A relocation of code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextReloc {
    /// Byte offset of the instruction.
    pub offset: u32,
    /// Number of the relocation.
    pub kind: u32,
    /// The name; None for the tables of the function itself.
    pub symbol: Option<String>,
    /// What is added.
    pub addend: i64,
}

/// By what name a relocation speaks of a reference that is a parameter of an entry.
pub fn parameter_name(entry: &str, parameter: &str) -> String {
    format!("{entry}.{parameter}")
}

/// A variable that a linker places.
#[derive(Clone, Debug, PartialEq)]
pub struct Datum {
    /// Name, size, content.
    pub variable: Variable,
    /// The memory it goes to.
    pub memory: Memory,
}

/// Memories of a relocatable file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Global or constant memory, as the variable says.
    Module,
    /// Global memory, one for all modules that have it.
    Common,
    /// Shared memory of every entry that reaches it.
    Shared,
    /// Shared memory of this entry.
    SharedOf(String),
}

/// A name of another module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extern {
    /// It.
    pub name: String,
    /// What it is.
    pub kind: ExternKind,
    /// It may be missing.
    pub weak: bool,
}

/// Kinds of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternKind {
    /// A function.
    Function,
    /// A variable in global memory of this many bytes, managed or not.
    Global(u64, bool),
    /// A constant.
    Constant(u64),
    /// Shared memory whose size the launch says, with this alignment, or of another module with this size.
    Shared(u64, u64),
}

const CUDA_OBJECT: u8 = 13;
const FUNC: u8 = 2;
/// What `st_other` says of the memory of an object.
const SPACE_GLOBAL: u8 = 0x20;
const SPACE_SHARED: u8 = 0x40;
const SPACE_CONSTANT: u8 = 0x80;
const MANAGED: u8 = 4;
const ENTRY: u8 = 0x10;
/// `st_other` of the tables of a function.
const TABLE: u8 = 0x81;
/// Shared memory of the module.
const MODULE_SHARED: &str = ".nv_debug.shared";
/// Names that stand for the tables of unified functions; the linker drops those that nobody needs.
const UNIFIED: [&str; 8] =
    ["__UDT_OFFSET", "__UFT_OFFSET", "__UFT_CANONICAL", "__UDT_CANONICAL", "__UFT", "__UDT", "__UFT_END", "__UDT_END"];
/// Where the system's bytes of shared memory end.
const RESERVED_END: u64 = 0x400;
/// R_CUDA_UNIFIED: the address of a function in data.
const FUNCTION_ADDRESS: u32 = 0x66;

/// The first byte of one; the others follow.
const FUNCTION_BYTE: u32 = 0x68;
/// R_CUDA_64.
const ADDRESS: u32 = 2;
/// R_CUDA_ABS32_32: a word of the code.
const WORD: u32 = 0x37;
/// R_CUDA_UNUSED_CLEAR64.
const CLEAR: u32 = 0x49;

/// The symbols of a file by name.
struct Names {
    list: FxHashMap<String, SymbolId>,
}

impl Names {
    fn find(&self, name: &str) -> Result<SymbolId, Diagnostic> {
        let found = self.list.get(name).copied();
        found.ok_or_else(|| Diagnostic::error(format!("the module refers to the unknown name '{name}'")))
    }
}

impl Object {
    /// Makes the file.
    ///
    /// # Errors
    /// For a target whose files cannot be written yet, and for a reference to a name that the module does not have.
    pub fn emit(&self) -> Result<Elf, Diagnostic> {
        let Some(group) = group(self.target) else {
            return Err(Diagnostic::error(format!("linkable files for {} cannot be written yet", self.target)));
        };
        let head = Head {
            tool: &self.tool,
            ptx_sm: self.ptx_sm,
            isa_class: self.isa_class,
            tensor_maps: self.tensor_maps,
            debug: self.debug.as_ref(),
        };
        let ptx_text = self.debug.as_ref().map_or(String::new(), |d| format!(".nv_debug_ptx_txt.{}", digest(&d.ptx)));
        let mut draft = Draft::begin(&head, &group, &ptx_text)?;
        let d = &mut draft;
        let mut names = Names { list: Default::default() };
        self.texts(d, &mut names, &ptx_text, &group);
        self.others(d, &mut names);
        self.banks(d, &group);
        self.relocations(d, &names, &group)?;
        if !self.texts.is_empty() {
            self.frames(d, &names)?;
        }
        d.sort();
        self.calls(d, &names)?;
        self.attributes(d, &group, &names)?;
        let mut elf = finish(draft);
        if group.old {
            registers_in_header(&mut elf, self.texts.iter().map(|t| &t.kernel));
        }
        elf.header.kind = if self.extensible { ET_EXTENSIBLE } else { ET_REL };
        elf.header.sizes[1] = 0;
        elf.header.flags |= (self.target.sm as u32) << 8 | group.flags;
        elf.lay_out(0);
        elf.header.phoff = 0;
        Ok(elf)
    }

    /// Sections and symbols of the code; the variables of the module come behind the first function.
    fn texts(&self, d: &mut Draft, names: &mut Names, ptx_text: &str, group: &Group) {
        let mut late: Vec<(Symbol, String)> = Vec::new();
        let mut shared: FxHashMap<&str, Vec<&Datum>> = FxHashMap::default();
        for v in &self.variables {
            if let Memory::SharedOf(name) = &v.memory {
                shared.entry(name).or_default().push(v);
            }
        }
        for (i, t) in self.texts.iter().enumerate() {
            let k = &t.kernel;
            let section = text(k);
            let symbol = Symbol {
                name: k.name.clone(),
                bind: bind(t.binding),
                kind: FUNC,
                other: if t.entry { ENTRY } else { 0 },
                size: k.code.len() as u64,
                ..Symbol::default()
            };
            let id = if t.binding == Binding::Local && !t.entry {
                let id = d.local(symbol, &section);
                names.list.insert(k.name.clone(), id);
                Some(id)
            } else {
                late.push((symbol, section.clone()));
                None
            };
            d.section_symbol(&section, &section);
            for h in &k.handles {
                let symbol = Symbol { name: h.name.clone(), kind: h.kind.symbol(), ..Symbol::default() };
                let id = d.local(symbol, &section);
                names.list.insert(parameter_name(&k.name, &h.name), id);
            }
            let info = d.add(8, &format!(".nv.info.{}", k.name), SHT_LOPROC, INFO, 4, Vec::new());
            (info.link, info.info) = (".symtab", Info::Section(section.clone()));
            if !k.const2.is_empty() {
                let bank = bank2(k);
                let align = k.const2_align.max(4) as u64;
                d.add(13, &bank, SHT_LOPROC + 0x66, ALLOC | INFO, align, k.const2.clone()).info =
                    Info::Section(section.clone());
                d.section_symbol(&bank, &format!(".nv.constant.optimizer.{}", k.name));
                let size = k.const2.len() as u64;
                let symbol = Symbol { name: table(k), kind: CUDA_OBJECT, other: TABLE, size, ..Symbol::default() };
                let id = d.local(symbol, &bank);
                names.list.insert(table(k), id);
            }
            let part = d.add(15, &section, PROGBITS, ALLOC | EXEC, 128, k.code.clone());
            part.link = ".symtab";
            if let Some(id) = id {
                part.info = Info::Symbol(id);
            }
            if i == 0 {
                self.variables(d, names, &mut late);
            }
            if let Some(own) = shared.get(k.name.as_str()) {
                self.shared_of(d, names, t, own);
            }
        }
        if self.texts.is_empty() {
            self.variables(d, names, &mut late);
        }
        if !self.texts.is_empty() {
            d.section_symbol(".debug_frame", ".debug_frame");
        }
        d.debug_symbols(self.debug.as_ref(), ptx_text);
        d.section_symbol(".nv.callgraph", ".nv.callgraph");
        if self.texts.iter().any(|t| !t.entry && t.binding != Binding::Local) {
            let part = d.add(10, PROTOTYPES, SHT_LOPROC + 2, 0, 4, Vec::new());
            (part.section.entsize, part.link) = (8, ".symtab");
            d.section_symbol(PROTOTYPES, PROTOTYPES);
        }
        let size = |name: &str, size| Symbol { name: name.into(), bind: 2, kind: 1, size, ..Symbol::default() };
        if !group.old {
            for name in UNIFIED {
                names.list.insert(name.into(), d.other(size(name, 8), ""));
            }
            d.other(size(".nv.reservedSmem.offset0", 4), "");
        }
        for r in &self.references {
            let symbol = Symbol { name: r.name.clone(), bind: 1, kind: r.kind.symbol(), ..Symbol::default() };
            names.list.insert(r.name.clone(), d.other(symbol, ""));
        }
        for (_, name) in self.texts.iter().flat_map(|t| &t.kernel.entry_sizes) {
            if !names.list.contains_key(name) {
                names.list.insert(name.clone(), d.other(size(name, 4), ""));
            }
        }
        for (symbol, section) in late {
            let name = symbol.name.clone();
            let id = d.other(symbol, &section);
            names.list.insert(name, id);
            if let Some(part) = d.part(&section)
                && section.starts_with(".text.")
            {
                part.info = Info::Symbol(id);
            }
        }
        let shared = |m: &Datum| matches!(m.memory, Memory::Shared | Memory::SharedOf(_));
        let outside = |e: &Extern| matches!(e.kind, ExternKind::Shared(..));
        if !group.old && (self.variables.iter().any(shared) || self.externs.iter().any(outside)) {
            d.other(Symbol { value: RESERVED_END, ..size(CAP, 4) }, "");
        }
    }

    /// Symbols and sections of variables; symbols that others see go to `late`.
    fn variables(&self, d: &mut Draft, names: &mut Names, late: &mut Vec<(Symbol, String)>) {
        let plain: Vec<Variable> = self.variables.iter().map(|v| v.variable.clone()).collect();
        let placed: Vec<usize> = (0..plain.len()).filter(|&i| self.variables[i].memory == Memory::Module).collect();
        let list: Vec<Variable> = placed.iter().map(|&i| plain[i].clone()).collect();
        let layout = Layout::of(&list);
        for (i, datum) in self.variables.iter().enumerate() {
            let v = &datum.variable;
            let mut symbol = Symbol {
                name: v.name.clone(),
                bind: bind(v.binding),
                kind: CUDA_OBJECT,
                value: v.align,
                size: v.size,
                ..Symbol::default()
            };
            let section = match &datum.memory {
                Memory::SharedOf(_) => continue,
                Memory::Common => {
                    (symbol.bind, symbol.other) = (1, SPACE_GLOBAL);
                    COMMON
                }
                Memory::Shared => {
                    symbol.other = SPACE_SHARED;
                    shared(d, MODULE_SHARED, None, v);
                    MODULE_SHARED
                }
                Memory::Module => {
                    let Ok(n) = placed.binary_search(&i) else { continue };
                    let at = layout.offsets[n];
                    symbol.value = at;
                    let section = v.section();
                    symbol.other = match section {
                        CONSTANT3 => SPACE_CONSTANT,
                        _ => SPACE_GLOBAL | if v.managed { MANAGED } else { 0 },
                    };
                    module_section(d, section, v, at);
                    section
                }
            };
            if v.binding == Binding::Local && datum.memory != Memory::Common {
                let id = d.local(symbol, section);
                names.list.insert(v.name.clone(), id);
            } else {
                late.push((symbol, section.to_string()));
            }
        }
    }

    /// The shared variables of one entry, `own`.
    fn shared_of(&self, d: &mut Draft, names: &mut Names, t: &Text, own: &[&Datum]) {
        let section = format!(".nv.shared.{}", t.kernel.name);
        for &datum in own {
            let v = &datum.variable;
            shared(d, &section, Some(text(&t.kernel)), v);
            let symbol = Symbol {
                name: v.name.clone(),
                kind: CUDA_OBJECT,
                other: SPACE_SHARED,
                value: v.align,
                size: v.size,
                ..Symbol::default()
            };
            let id = d.local(symbol, &section);
            names.list.insert(v.name.clone(), id);
        }
    }

    /// Symbols of what is defined elsewhere, and of other names.
    fn others(&self, d: &mut Draft, names: &mut Names) {
        for e in &self.externs {
            let (kind, other, value, size) = match e.kind {
                ExternKind::Function => (FUNC, 0, 0, 0),
                ExternKind::Global(size, managed) => {
                    (CUDA_OBJECT, SPACE_GLOBAL | if managed { MANAGED } else { 0 }, 0, size)
                }
                ExternKind::Constant(size) => (CUDA_OBJECT, SPACE_CONSTANT, 0, size),
                ExternKind::Shared(size, align) => (CUDA_OBJECT, SPACE_SHARED, align, size),
            };
            let bind = if e.weak { 2 } else { 1 };
            let symbol = Symbol { name: e.name.clone(), bind, kind, other, value, size, ..Symbol::default() };
            let id = d.other(symbol, "");
            names.list.insert(e.name.clone(), id);
        }
        for (name, of, binding) in &self.aliases {
            let symbol = Symbol { name: name.clone(), bind: bind(*binding), kind: FUNC, ..Symbol::default() };
            let id = d.other(symbol, &format!(".text.{of}"));
            names.list.insert(name.clone(), id);
        }
    }

    /// Parameter banks of the entries.
    fn banks(&self, d: &mut Draft, group: &Group) {
        for t in self.texts.iter().filter(|t| t.entry) {
            let name = format!(".nv.constant0.{}", t.kernel.name);
            let bank = vec![0; (group.param_base + t.kernel.param_bytes) as usize];
            d.add(19, &name, SHT_LOPROC + 0x64, ALLOC | INFO, 4, bank).info = Info::Section(text(&t.kernel));
            d.tail.push(name);
        }
        let lists: Vec<u8> = (1..=4i32).flat_map(|n| [0, -n]).flat_map(i32::to_le_bytes).collect();
        let calls = d.add(9, ".nv.callgraph", SHT_LOPROC + 1, 0, 4, lists);
        (calls.section.entsize, calls.link) = (8, ".symtab");
    }

    fn relocations(&self, d: &mut Draft, names: &Names, group: &Group) -> Result<(), Diagnostic> {
        for t in &self.texts {
            let mut list = Vec::new();
            for r in &t.relocs {
                let id = match &r.symbol {
                    Some(name) => names.find(name)?,
                    None => names.find(&table(&t.kernel))?,
                };
                list.push(reloc(d, r.offset as u64, r.kind, id, r.addend));
            }
            for (at, name) in &t.kernel.entry_sizes {
                list.push(reloc(d, u64::from(*at), WORD, names.find(name)?, 0));
            }
            list.sort_by_key(|r| std::cmp::Reverse(r.offset));
            if !list.is_empty() {
                rela(d, &text(&t.kernel), list);
            }
            if !t.kernel.const2.is_empty() {
                rela(d, &bank2(&t.kernel), Vec::new());
            }
        }
        let module: Vec<&Variable> =
            self.variables.iter().filter(|v| v.memory == Memory::Module).map(|v| &v.variable).collect();
        let list: Vec<Variable> = module.iter().map(|&v| v.clone()).collect();
        let layout = Layout::of(&list);
        let own = self.texts.iter().filter(|t| !t.entry).map(|t| t.kernel.name.as_str());
        let others = self.externs.iter().filter(|e| e.kind == ExternKind::Function).map(|e| e.name.as_str());
        let aliases = self.aliases.iter().map(|a| a.0.as_str());
        let functions: FxHashSet<&str> = own.chain(others).chain(aliases).collect();
        for section in [CONSTANT3, GLOBAL_INIT] {
            let mut list = Vec::new();
            for (v, at) in module.iter().zip(&layout.offsets).filter(|(v, _)| v.section() == section) {
                for DataReloc { offset, kind, symbol, addend } in &v.relocs {
                    let unified = functions.contains(symbol.as_str()) && !group.old;
                    let kind = match *kind {
                        DataRelocKind::AddressByte(n) if unified => FUNCTION_BYTE + u32::from(n),
                        _ if unified => FUNCTION_ADDRESS,
                        kind => kind.number(),
                    };
                    list.push(reloc(d, at + offset, kind, names.find(symbol)?, *addend));
                }
            }
            list.sort_by_key(|r| std::cmp::Reverse(r.offset));
            if !list.is_empty() {
                rela(d, section, list);
            }
        }
        if let Some(debug) = &self.debug {
            for (name, files, ptx) in [(LINES, &debug.files[..], false), (PTX_LINES, &[], true)] {
                let (mut sequences, mut symbols) = (Vec::new(), Vec::new());
                for t in &self.texts {
                    let places = if ptx { &t.kernel.ptx_lines } else { &t.kernel.lines };
                    if !places.is_empty() {
                        sequences.push(Sequence { size: t.kernel.code.len() as u64, places: places.clone() });
                        symbols.push(names.find(&t.kernel.name)?);
                    }
                }
                let (data, addresses) = write(files, &sequences);
                if let Some(part) = d.part(name) {
                    part.section.data = data;
                }
                let list: Vec<Reloc> =
                    addresses.iter().zip(symbols).map(|(&at, s)| reloc(d, at, ADDRESS, s, 0)).collect();
                if !list.is_empty() {
                    rela(d, name, list);
                }
            }
            d.debug_relocations(debug, false, &|name| names.find(name))?;
        }
        Ok(())
    }

    fn frames(&self, d: &mut Draft, names: &Names) -> Result<(), Diagnostic> {
        let own = d.locals.iter().position(|s| s.0.kind == 3 && s.1 == ".debug_frame").map(SymbolId::Local);
        let Some(own) = own else { return Ok(()) };
        let (mut bytes, mut list) = (Vec::new(), Vec::new());
        for t in &self.texts {
            let symbol = names.find(&t.kernel.name)?;
            let f = object_frame(&mut bytes, t);
            list.push(reloc(d, f.cie_pointer, ADDRESS, own, f.cie as i64));
            list.push(reloc(d, f.start, ADDRESS, symbol, 0));
            list.push(reloc(d, f.start + 8, CLEAR, symbol, 0));
        }
        list.reverse();
        if let Some(part) = d.part(".debug_frame") {
            part.section.data = bytes;
        }
        rela(d, ".debug_frame", list);
        Ok(())
    }

    /// Who calls whom, and what functions take.
    fn calls(&self, d: &mut Draft, names: &Names) -> Result<(), Diagnostic> {
        let base = d.names_end();
        let mut known: FxHashMap<String, u32> = FxHashMap::default();
        let mut strings: Vec<u8> = Vec::new();
        let mut at = |prototype: &str| match known.get(prototype) {
            Some(&at) => at,
            None => {
                let at = base + strings.len() as u32;
                strings.extend(prototype.as_bytes());
                strings.push(0);
                known.insert(prototype.to_string(), at);
                at
            }
        };
        let mut lists: [Vec<u32>; 4] = Default::default();
        let mut prototypes: Vec<u32> = Vec::new();
        for t in &self.texts {
            let caller = d.index(names.find(&t.kernel.name)?);
            for callee in &t.calls {
                lists[0].extend([caller, d.index(names.find(callee)?)]);
            }
            for p in &t.indirect {
                lists[2].extend([caller, at(p)]);
            }
            for f in &t.takes {
                lists[3].extend([caller, d.index(names.find(f)?)]);
            }
            if !t.entry && t.binding != Binding::Local {
                prototypes.extend([caller, at(&t.prototype)]);
            }
        }
        for (name, of, _) in &self.aliases {
            lists[0].extend([d.index(names.find(name)?), d.index(names.find(of)?)]);
        }
        for (f, p) in &self.taken {
            lists[1].extend([d.index(names.find(f)?), at(p)]);
        }
        let bytes = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        let graph: Vec<u8> =
            (1i32..).zip(&lists).flat_map(|(n, list)| [bytes(&[0, -n as u32]), bytes(list)].concat()).collect();
        d.strings = strings;
        if let Some(part) = d.part(".nv.callgraph") {
            part.section.data = graph;
        }
        if let Some(part) = d.part(PROTOTYPES) {
            part.section.data = bytes(&prototypes);
        }
        Ok(())
    }

    fn attributes(&self, d: &mut Draft, group: &Group, names: &Names) -> Result<(), Diagnostic> {
        let mut all = Vec::new();
        for (i, t) in self.texts.iter().rev().enumerate() {
            let symbol = d.index(names.find(&t.kernel.name)?);
            all.push(Attr::words(attr::REGCOUNT, [symbol, t.kernel.regs]));
            if i == 0 {
                for r in self.references.iter().rev() {
                    all.extend(r.attributes(d.index(names.find(&r.name)?)));
                }
            }
            all.push(Attr::words(attr::MAX_STACK_SIZE, [symbol, 0]));
            all.push(Attr::words(attr::FRAME_SIZE, [symbol, t.kernel.frame]));
        }
        if self.texts.is_empty() {
            all.push(Attr::half(attr::MERCURY_ISA_VERSION, 0x101));
        } else if self.independent {
            all.push(Attr::none(attr::TEXMODE_INDEPENDENT));
        }
        let mut lists = vec![(".nv.info".to_string(), all)];
        let mut bank = (1 + d.locals.len() + d.others.len()) as u32;
        let outside: FxHashSet<&str> = self.externs.iter().map(|e| e.name.as_str()).collect();
        for t in &self.texts {
            let outside = |name: &&String| outside.contains(name.as_str());
            let mut externs: Vec<u32> = Vec::new();
            for name in t.calls.iter().chain(&t.takes).filter(outside) {
                let n = d.index(names.find(name)?);
                if !externs.contains(&n) {
                    externs.push(n);
                }
            }
            let more = if externs.is_empty() { Vec::new() } else { vec![Attr::words(attr::EXTERNS, externs)] };
            let mut handles = Vec::new();
            for h in &t.kernel.handles {
                handles.push(d.index(names.find(&parameter_name(&t.kernel.name, &h.name))?));
            }
            let mut list = kernel_attributes(&t.kernel, more, self.tool.toolkit, group, bank, &handles);
            // Where the words of handles lie is the linker's to say.
            list.retain(|a| !matches!(a.code, attr::BINDLESS_TEXTURE_BANK | attr::BINDLESS_SURFACE_BANK));
            if t.entry {
                bank += 1;
            } else {
                list.retain(|a| OF_FUNCTIONS.contains(&a.code));
            }
            lists.push((format!(".nv.info.{}", t.kernel.name), list));
        }
        for (name, list) in lists {
            if let Some(part) = d.part(&name) {
                part.section.data = attr::write(&list);
            }
        }
        Ok(())
    }
}

/// Attributes that functions have, too.
const OF_FUNCTIONS: [u8; 16] = [
    attr::LANGUAGE,
    attr::CUDA_API_VERSION,
    attr::SPARSE_MMA_MASK,
    attr::NUM_BARRIERS,
    attr::EXTERNS,
    attr::ANNOTATIONS,
    attr::MERCURY_ISA_VERSION,
    attr::INT_WARP_WIDE_INSTR_OFFSETS,
    attr::COOP_GROUP_MASK_REGIDS,
    attr::COOP_GROUP_INSTR_OFFSETS,
    attr::MBARRIER_INSTR_OFFSETS,
    attr::NUM_MBARRIERS,
    attr::INDIRECT_BRANCH_TARGETS,
    attr::CRS_STACK_SIZE,
    attr::NVSAL_SW_WAR,
    attr::PREEXIT_USED,
];

const PROTOTYPES: &str = ".nv.prototype";

fn bank2(kernel: &Kernel) -> String {
    format!(".nv.constant2.{}", kernel.name)
}

/// The name of a function's tables.
fn table(kernel: &Kernel) -> String {
    format!("{}.const_opt.0.{}", kernel.name, kernel.const2.len())
}

/// A number that tells texts apart (FNV-1a).
fn digest(data: &[u8]) -> u32 {
    data.iter().fold(0x811c_9dc5, |h, &b| (h ^ b as u32).wrapping_mul(0x0100_0193))
}

/// Makes room for a shared variable.
fn shared(d: &mut Draft, section: &str, of: Option<String>, v: &Variable) {
    if d.part(section).is_none() {
        let flags = WRITE | ALLOC | if of.is_some() { INFO } else { 0 };
        let part = d.add(17, section, SHT_LOPROC + 0xa, flags, 1, Vec::new());
        if let Some(of) = of {
            part.info = Info::Section(of);
        }
        d.section_symbol(section, section);
    }
    if let Some(part) = d.part(section) {
        let s = &mut part.section;
        s.align = s.align.max(v.align);
        s.size = s.size.next_multiple_of(v.align.max(1)).saturating_add(v.size);
    }
}

/// Puts a variable into a section of the module.
fn module_section(d: &mut Draft, section: &str, v: &Variable, at: u64) {
    if d.part(section).is_none() {
        let (class, kind, flags) = match section {
            CONSTANT3 => (13, SHT_LOPROC + 0x67, ALLOC),
            GLOBAL => (17, SHT_LOPROC + 7, WRITE | ALLOC),
            _ => (16, SHT_LOPROC + 8, WRITE | ALLOC),
        };
        d.add(class, section, kind, flags, 1, Vec::new());
        d.section_symbol(section, section);
    }
    if let Some(part) = d.part(section) {
        let s = &mut part.section;
        s.align = s.align.max(v.align);
        s.size = s.size.max(at + v.size);
        if section != GLOBAL {
            s.data.resize(s.size as usize, 0);
            if let Some(init) = &v.init {
                let n = init.len().min(v.size as usize);
                s.data[at as usize..][..n].copy_from_slice(&init[..n]);
            }
        }
    }
}
