//! Files under construction: sections and symbols that have no numbers yet, and what both kinds of files consist of.

use super::group::Group;
use super::{Binding, Debug, DebugTarget, Tool};
use crate::attr;
use crate::elf::{
    EM_CUDA, ET_EXEC, Elf, Header, RESERVED, Reloc, SHT_LOPROC, SHT_NOTE, SHT_RELA, SHT_STRTAB, SHT_SYMTAB,
    SHT_SYMTAB_SHNDX, Section, Symbol, XINDEX,
};
use diag::Diagnostic;
use rustc_hash::FxHashMap;

/// A section before its number is known. `class` orders sections; those of one class keep the order of their making.
pub(super) struct Part {
    pub class: u8,
    pub section: Section,
    /// Section to link to, by name.
    pub link: &'static str,
    pub info: Info,
}

pub(super) enum Info {
    Value(u32),
    /// Index of the section of this name.
    Section(String),
    /// Index of a symbol, as its place in the list of its kind.
    Symbol(SymbolId),
}

/// A symbol that has no final index yet: its list, and its place there.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum SymbolId {
    Local(usize),
    Other(usize),
}

pub(super) struct Draft {
    parts: Vec<Part>,
    /// The first part of each name: modules have tens of thousands of them.
    by_name: FxHashMap<String, usize>,
    /// Local symbols, each with the name of its section.
    pub locals: Vec<(Symbol, String)>,
    /// Symbols behind them: global, weak, and those local ones that the vendor puts there.
    pub others: Vec<(Symbol, String)>,
    /// Names of the constant banks that close the symbol table.
    pub tail: Vec<String>,
    /// Strings behind the names of the symbols.
    pub strings: Vec<u8>,
}

/// What a file says of itself before its content.
pub(super) struct Head<'a> {
    pub tool: &'a Tool,
    pub ptx_sm: u16,
    pub isa_class: u8,
    pub tensor_maps: u8,
    pub debug: Option<&'a Debug>,
}

/// Sections of a file of one kernel.
const USUAL: usize = 28;

impl Draft {
    /// The sections that every file begins with; `text` is the name of that for the PTX text.
    pub fn begin(head: &Head, group: &Group, text: &str) -> Result<Draft, Diagnostic> {
        let mut draft = Draft {
            parts: Vec::with_capacity(USUAL),
            by_name: FxHashMap::with_capacity_and_hasher(USUAL, Default::default()),
            locals: Vec::new(),
            others: Vec::new(),
            tail: Vec::new(),
            strings: Vec::new(),
        };
        let d = &mut draft;
        for (i, name) in [".shstrtab", ".strtab"].into_iter().enumerate() {
            d.add(i as u8, name, SHT_STRTAB, 0, 1, Vec::new());
        }
        let symtab = d.add(2, ".symtab", SHT_SYMTAB, 0, 8, Vec::new());
        (symtab.section.entsize, symtab.link) = (24, ".strtab");
        d.add(3, ".debug_frame", PROGBITS, 0, 1, Vec::new());
        if let Some(debug) = head.debug {
            d.add(3, LINES, PROGBITS, 0, 1, Vec::new());
            if !debug.strings.is_empty() {
                d.add(3, STRINGS, PROGBITS, 0, 1, debug.strings.clone());
            }
            d.add(3, PTX_LINES, PROGBITS, 0, 1, Vec::new());
            d.add(3, text, PROGBITS, 0, 1, debug.ptx.clone());
            for s in &debug.sections {
                d.add(3, &s.name, PROGBITS, 0, 1, s.bytes.clone());
            }
        }
        d.add(4, ".note.nv.tkinfo", SHT_NOTE, 0x200_0000, 4, tool_note(head.tool));
        let mut info = 2u16.to_le_bytes().to_vec();
        info.extend(head.ptx_sm.to_le_bytes());
        info.extend((head.tool.toolkit as u32).to_le_bytes());
        let cuinfo = d.add(5, ".note.nv.cuinfo", SHT_NOTE, 0x100_0000 | INFO, 4, note(1000, &info));
        (cuinfo.link, cuinfo.info) = (".note.nv.tkinfo", Info::Section(".nv.compat".into()));
        d.section_symbol(".note.nv.tkinfo", ".note.nv.tkinfo");
        d.section_symbol(".note.nv.cuinfo", ".note.nv.cuinfo");
        d.add(6, ".nv.info", SHT_LOPROC, 0, 4, Vec::new()).link = ".symtab";
        if !group.compat.is_empty() {
            let mut list = attr::read(&group.compat)?;
            for a in &mut list {
                match (a.code, &mut a.value) {
                    (2, attr::Value::Byte(class, _)) => *class = head.isa_class,
                    (3, attr::Value::Byte(maps, _)) => *maps = head.tensor_maps,
                    _ => {}
                }
            }
            d.add(7, ".nv.compat", SHT_LOPROC + 0x86, 0, 4, attr::write(&list));
        }
        Ok(draft)
    }

    /// Where strings that are no names begin in the string table, once all symbols are there.
    pub fn names_end(&self) -> u32 {
        let names = self.locals.iter().chain(&self.others).map(|s| &s.0.name).chain(&self.tail);
        1 + names.map(|n| n.len() as u32 + 1).sum::<u32>()
    }

    pub fn add(&mut self, class: u8, name: &str, kind: u32, flags: u64, align: u64, data: Vec<u8>) -> &mut Part {
        let size = data.len() as u64;
        let section = Section { name: name.to_string(), kind, flags, align, data, size, ..Section::default() };
        self.parts.push(Part { class, section, link: "", info: Info::Value(0) });
        let last = self.parts.len() - 1;
        self.by_name.entry(name.to_string()).or_insert(last);
        &mut self.parts[last]
    }

    pub fn part(&mut self, name: &str) -> Option<&mut Part> {
        self.by_name.get(name).map(|&i| &mut self.parts[i])
    }

    /// Puts the parts into the order of their classes.
    pub fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.parts.len()).collect();
        order.sort_by_key(|&i| self.parts[i].class);
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, &from)| places[from] = to);
        self.parts.sort_by_key(|p| p.class);
        self.by_name.values_mut().for_each(|i| *i = places[*i]);
    }

    /// The first of the local symbols that lie in each section.
    pub fn first_locals(&self) -> FxHashMap<&str, u32> {
        let mut out = FxHashMap::default();
        for (i, (_, section)) in self.locals.iter().enumerate() {
            out.entry(section.as_str()).or_insert(i as u32 + 1);
        }
        out
    }

    pub fn local(&mut self, symbol: Symbol, section: &str) -> SymbolId {
        self.locals.push((symbol, section.to_string()));
        SymbolId::Local(self.locals.len() - 1)
    }

    pub fn other(&mut self, symbol: Symbol, section: &str) -> SymbolId {
        self.others.push((symbol, section.to_string()));
        SymbolId::Other(self.others.len() - 1)
    }

    /// The symbols of the debugging sections; `text` as for [`Draft::begin`].
    pub fn debug_symbols(&mut self, debug: Option<&Debug>, text: &str) {
        let Some(debug) = debug else { return };
        let own = debug.sections.iter().map(|s| s.name.as_str());
        for section in [LINES, STRINGS, PTX_LINES, text].into_iter().chain(own) {
            if self.part(section).is_some() {
                self.section_symbol(section, section);
            }
        }
    }

    /// The relocations of the debugging sections; with `linked` a word that refers to a section holds the place itself.
    ///
    /// # Errors
    /// A reference to something that is not there or does not fit into its word.
    pub fn debug_relocations(
        &mut self,
        debug: &Debug,
        linked: bool,
        find: &dyn Fn(&str) -> Result<SymbolId, Diagnostic>,
    ) -> Result<(), Diagnostic> {
        let mut places: FxHashMap<String, SymbolId> = FxHashMap::default();
        for (i, (_, section)) in self.locals.iter().enumerate().filter(|l| l.1.0.kind == 3) {
            places.entry(section.clone()).or_insert(SymbolId::Local(i));
        }
        for s in &debug.sections {
            let mut list = Vec::new();
            for r in &s.refs {
                let kind = if r.size == 8 { 2 } else { 1 };
                match &r.target {
                    DebugTarget::Section(_, at) if linked => {
                        let (start, size) = (r.offset as usize, r.size as usize);
                        let word = self.part(&s.name).and_then(|p| p.section.data.get_mut(start..start + size));
                        let Some(word) = word.filter(|_| size <= 8) else {
                            return Err(Diagnostic::error(format!("a word beyond the end of '{}'", s.name)));
                        };
                        word.copy_from_slice(&at.to_le_bytes()[..size]);
                    }
                    DebugTarget::Section(name, at) => {
                        let Some(&id) = places.get(name) else {
                            return Err(Diagnostic::error(format!(
                                "'{}' refers to '{name}', which is not there",
                                s.name
                            )));
                        };
                        list.push(reloc(self, r.offset, kind, id, *at));
                    }
                    DebugTarget::Symbol(name, at) => list.push(reloc(self, r.offset, kind, find(name)?, *at)),
                }
            }
            list.reverse();
            if !list.is_empty() {
                rela(self, &s.name, list);
            }
        }
        Ok(())
    }

    /// The symbol of a section; `name` where it differs from the section's.
    pub fn section_symbol(&mut self, section: &str, name: &str) {
        self.local(Symbol { name: name.to_string(), kind: 3, ..Symbol::default() }, section);
    }

    pub fn index(&self, id: SymbolId) -> u32 {
        1 + match id {
            SymbolId::Local(i) => i as u32,
            SymbolId::Other(i) => (self.locals.len() + i) as u32,
        }
    }

    pub fn section_index(&self, name: &str) -> u32 {
        self.by_name.get(name).map_or(0, |&i| i as u32 + 1)
    }
}

/// The sections of symbols, by number, where their own fields have no room for it.
const EXTENDED: &str = ".symtab_shndx";
/// Lines of the source files.
pub(super) const LINES: &str = ".debug_line";
/// Names.
pub(super) const STRINGS: &str = ".debug_str";
/// Lines of the PTX text.
pub(super) const PTX_LINES: &str = ".nv_debug_line_sass";
/// That text.
pub(super) const PTX_TEXT: &str = ".nv_debug_ptx_txt";

pub(super) const WRITE: u64 = 1;
pub(super) const ALLOC: u64 = 2;
pub(super) const EXEC: u64 = 4;
pub(super) const INFO: u64 = 0x40;
pub(super) const PROGBITS: u32 = 1;
/// Stands for the section of variables that the linker makes one of.
pub(super) const COMMON: &str = "*COM*";

/// The name is in the string table, but the symbol does not refer to it.
pub(super) const CAP: &str = ".nv.reservedSmem.cap";

pub(super) fn reloc(d: &Draft, offset: u64, kind: u32, symbol: SymbolId, addend: i64) -> Reloc {
    Reloc { offset, kind, symbol: d.index(symbol), addend }
}

pub(super) fn rela(d: &mut Draft, target: &str, list: Vec<Reloc>) {
    let data = list.iter().flat_map(Reloc::bytes).collect();
    let part = d.add(11, &format!(".rela{target}"), SHT_RELA, INFO, 8, data);
    part.section.entsize = 24;
    (part.link, part.info) = (".symtab", Info::Section(target.to_string()));
}

pub(super) fn note(kind: u32, desc: &[u8]) -> Vec<u8> {
    let owner = b"NVIDIA Corp\0";
    let size = desc.len().next_multiple_of(4);
    let mut out: Vec<u8> = [owner.len() as u32, size as u32, kind].into_iter().flat_map(u32::to_le_bytes).collect();
    out.extend(owner);
    out.extend(desc);
    out.resize(12 + owner.len() + size, 0);
    out
}

pub(super) fn tool_note(tool: &Tool) -> Vec<u8> {
    let mut strings = vec![0u8];
    let mut words = vec![2u32, 0];
    for text in [&tool.name, &tool.version, &tool.branch, &tool.options] {
        words.push(strings.len() as u32);
        strings.extend(text.as_bytes());
        strings.push(0);
    }
    let mut desc: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    desc.extend(strings);
    note(2000, &desc)
}

pub(super) fn bind(binding: Binding) -> u8 {
    match binding {
        Binding::Local => 0,
        Binding::Global => 1,
        Binding::Weak => 2,
    }
}

/// Numbers sections and symbols, and writes the tables.
pub(super) fn finish(mut d: Draft) -> Elf {
    // The null section comes on top.
    let extended = d.parts.len() + 1 >= RESERVED;
    if extended {
        let part = d.add(3, EXTENDED, SHT_SYMTAB_SHNDX, 0, 4, Vec::new());
        (part.section.entsize, part.link) = (4, ".symtab");
        d.sort();
    }
    let mut names = vec![0u8];
    for i in 0..d.parts.len() {
        d.parts[i].section.name_offset = names.len() as u32;
        names.extend(d.parts[i].section.name.as_bytes());
        names.push(0);
        let link = d.section_index(d.parts[i].link);
        let info = match &d.parts[i].info {
            Info::Value(n) => *n,
            Info::Section(name) => d.section_index(name),
            Info::Symbol(id) => d.index(*id),
        };
        (d.parts[i].section.link, d.parts[i].section.info) = (link, info);
    }
    // Room for the name of a table of extended section numbers, whether it is there or not.
    names.extend([0; EXTENDED.len() + 1]);
    let mut strings = vec![0u8];
    let mut symbols = vec![0u8; 24];
    let tail: Vec<(Symbol, String)> = std::mem::take(&mut d.tail)
        .into_iter()
        .map(|name| (Symbol { name: name.clone(), kind: 3, ..Symbol::default() }, name))
        .collect();
    let mut last_local = 0;
    let mut numbers = vec![0u8; 4];
    for (i, (symbol, section)) in d.locals.iter().chain(&d.others).chain(&tail).enumerate() {
        let name_offset = if symbol.name == CAP && symbol.other != 0 { 0 } else { strings.len() as u32 };
        strings.extend(symbol.name.as_bytes());
        strings.push(0);
        let (shndx, number) = match section.as_str() {
            "" => (0, 0),
            COMMON => (0xfff2, 0),
            name => match d.section_index(name) {
                n if n as usize >= RESERVED => (XINDEX, n),
                n => (n as u16, 0),
            },
        };
        if extended {
            numbers.extend(number.to_le_bytes());
        }
        symbols.extend(Symbol { name: String::new(), name_offset, shndx, ..*symbol }.bytes());
        if symbol.bind == 0 {
            last_local = i as u32 + 1;
        }
    }
    strings.extend(&d.strings);
    let numbers = if extended { numbers } else { Vec::new() };
    for (name, data) in [(".shstrtab", names), (".strtab", strings), (".symtab", symbols), (EXTENDED, numbers)] {
        if let Some(part) = d.part(name) {
            part.section.data = data;
        }
    }
    if let Some(part) = d.part(".symtab") {
        part.section.info = last_local + 1;
    }
    let cuinfo = d.section_index(".note.nv.cuinfo");
    let mut sections = vec![Section::default()];
    sections.extend(d.parts.into_iter().map(|p| p.section));
    let mut ident = [0; 16];
    ident[..9].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0x41, 8]);
    let header = Header {
        ident,
        kind: ET_EXEC,
        machine: EM_CUDA,
        version: 1,
        entry: 0,
        phoff: 0,
        shoff: 0,
        flags: cuinfo << 24,
        sizes: [0x40, 0x38, 0x40],
        shstrndx: 1,
    };
    let mut elf = Elf { header, sections, segments: Vec::new(), gaps: Vec::new(), len: 0 };
    elf.lay_out(0);
    elf
}
