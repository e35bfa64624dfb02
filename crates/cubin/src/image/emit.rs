//! Image -> file: sections, symbols, attributes and program headers in the vendor's order.

use super::draft::{
    ALLOC, CAP, Draft, EXEC, Head, INFO, Info, LINES, PROGBITS, PTX_LINES, PTX_TEXT, SymbolId, WRITE, bind, finish,
    rela, reloc,
};
use super::frame::{Fixup, frames};
use super::group::{Group, group};
use super::info;
use super::{Binding, CONSTANT3, CONSTANT4, GLOBAL, GLOBAL_INIT, Image, Kernel, Layout, ReferenceKind, Variable};
use crate::elf::{Elf, Reloc, SHT_LOPROC, SHT_NOBITS, Segment, Symbol};
use crate::lines::write::{File, Place, Sequence, write};
use diag::Diagnostic;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;

/// Largest memory of a module, in bytes.
const MAX_MEMORY: u64 = 1 << 32;
/// `st_other` of an entry.
const ENTRY: u8 = 0x10;
/// `st_other` of a managed variable.
const MANAGED: u8 = 4;

impl Image {
    /// Makes the file.
    ///
    /// # Errors
    /// For a target whose files cannot be written yet, and for an address of a name that the image does not have.
    pub fn emit(&self) -> Result<Elf, Diagnostic> {
        let elf = self.build()?;
        Ok(place(elf, self.kernels.iter().map(|k| (text(k), k.code.clone()))))
    }

    /// As [`Image::emit`], without a copy of the code.
    ///
    /// # Errors
    /// As [`Image::emit`].
    pub fn into_elf(self) -> Result<Elf, Diagnostic> {
        let elf = self.build()?;
        Ok(place(elf, self.kernels.into_iter().map(|k| (text(&k), k.code))))
    }

    /// The file without its code, and without places.
    fn build(&self) -> Result<Elf, Diagnostic> {
        let Some(group) = group(self.target) else {
            return Err(Diagnostic::error(format!("cubins for {} cannot be written yet", self.target)));
        };
        let head = Head {
            tool: &self.tool,
            ptx_sm: self.ptx_sm,
            isa_class: self.isa_class,
            tensor_maps: self.tensor_maps,
            debug: self.debug.as_ref(),
        };
        let mut draft = Draft::begin(&head, &group, PTX_TEXT)?;
        let d = &mut draft;

        let layout = Layout::of(&self.variables);
        for (v, at) in self.variables.iter().zip(&layout.offsets) {
            if at.checked_add(v.size).is_none_or(|end| end > MAX_MEMORY) || !v.align.is_power_of_two() {
                return Err(Diagnostic::error(format!(
                    "the variables do not fit into memory, '{}' is too far",
                    v.name
                )));
            }
        }
        let mut entries = vec![SymbolId::Local(0); self.kernels.len()];
        let mut functions = vec![Vec::new(); self.kernels.len()];
        let mut variables = vec![SymbolId::Local(0); self.variables.len()];
        let mut handles = vec![Vec::new(); self.kernels.len()];
        let mut references = vec![None; self.references.len()];
        let mut cap = false;
        // The vendor's tool begins with the last entry, then takes the variables, then the other entries.
        let mut rest = self.kernels.iter().enumerate().rev();
        if let Some((i, kernel)) = rest.next() {
            entries[i] = entry(d, kernel);
            handles[i] = kernel_handles(d, kernel, self, &mut references);
            shared(d, kernel, &group);
            reserved(d, &group, &mut cap, kernel);
            other_references(d, self, &mut references);
            module_variables(d, self, &layout, &mut variables);
            functions[i] = device_functions(d, kernel);
        } else {
            reserved(d, &group, &mut cap, &Kernel::default());
            module_variables(d, self, &layout, &mut variables);
        }
        for (i, kernel) in rest {
            entries[i] = entry(d, kernel);
            handles[i] = kernel_handles(d, kernel, self, &mut references);
            use_cap(d, &group, &mut cap, kernel);
            shared(d, kernel, &group);
            functions[i] = device_functions(d, kernel);
        }
        let externs: Vec<SymbolId> = external_functions(d, self);
        let sizes = entry_sizes(d, self);
        if !self.kernels.is_empty() {
            d.section_symbol(".debug_frame", ".debug_frame");
        }
        d.debug_symbols(self.debug.as_ref(), PTX_TEXT);
        d.section_symbol(".nv.callgraph", ".nv.callgraph");
        for kernel in self.kernels.iter().rev() {
            let name = format!(".nv.constant0.{}", kernel.name);
            let bank = vec![0; (group.param_base + kernel.bank0_bytes()) as usize];
            d.add(19, &name, PROGBITS, ALLOC | INFO, 4, bank).info = Info::Section(text(kernel));
            // Where there are handles the bank has its symbol beside that of the code.
            if kernel.handles.is_empty() {
                d.tail.push(name);
            }
        }
        let lists: Vec<u8> = (1..=4i32).flat_map(|n| [0, -n]).flat_map(i32::to_le_bytes).collect();
        let calls = d.add(9, ".nv.callgraph", SHT_LOPROC + 1, 0, 4, lists);
        (calls.section.entsize, calls.link) = (8, ".symtab");

        self.relocations(d, &layout, (&entries, &handles), &variables, &externs, &sizes)?;
        d.sort();
        let own: Vec<u32> = entries.iter().map(|&e| d.index(e)).collect();
        let outside: Vec<u32> = externs.iter().map(|&e| d.index(e)).collect();
        if let Some(part) = d.part(".nv.callgraph") {
            // Between the lists' heads: who calls whom.
            let edges = self.kernels.iter().zip(&own).rev().flat_map(|(k, &caller)| {
                k.externs.iter().rev().filter_map(|&n| Some([caller, *outside.get(n as usize)?])).collect::<Vec<_>>()
            });
            let bytes: Vec<u8> = edges.flatten().flat_map(u32::to_le_bytes).collect();
            part.section.data.splice(8..8, bytes);
        }
        let inner: Vec<Vec<u32>> = functions.iter().map(|l| l.iter().map(|&f| d.index(f)).collect()).collect();
        let mut tail = (1 + d.locals.len() + d.others.len()) as u32;
        let mut symbols =
            info::Symbols { entries: own, functions: inner, externs: outside, ..info::Symbols::default() };
        symbols.banks = vec![0; self.kernels.len()];
        let locals = d.first_locals();
        for (i, kernel) in self.kernels.iter().enumerate().rev() {
            let name = format!(".nv.constant0.{}", kernel.name);
            symbols.banks[i] = match locals.get(name.as_str()) {
                Some(&n) => n,
                None => {
                    tail += 1;
                    tail - 1
                }
            };
        }
        symbols.handles = handles.iter().map(|l| l.iter().map(|&h| d.index(h)).collect()).collect();
        symbols.references = references.iter().map(|r| r.map(|id| d.index(id))).collect();
        info::attributes(self, &group, &symbols, &mut |name, data| {
            if let Some(part) = d.part(name) {
                part.section.data = data;
            }
        });
        let mut elf = finish(draft);
        if group.old {
            registers_in_header(&mut elf, self.kernels.iter());
        }
        elf.header.flags |= (self.target.sm as u32) << 8 | group.flags;
        Ok(elf)
    }

    /// The relocation sections, all of class 11 in their order.
    fn relocations(
        &self,
        d: &mut Draft,
        layout: &Layout,
        (entries, handles): (&[SymbolId], &[Vec<SymbolId>]),
        variables: &[SymbolId],
        externs: &[SymbolId],
        sizes: &[(String, SymbolId)],
    ) -> Result<(), Diagnostic> {
        for kernel in self.kernels.iter().rev() {
            let mut list = Vec::new();
            for (at, name) in kernel.entry_sizes.iter().rev() {
                if let Some((_, symbol)) = sizes.iter().find(|s| s.0 == *name) {
                    list.push(reloc(d, *at as u64, 0x37, *symbol, 0));
                }
            }
            if !list.is_empty() || !kernel.functions.is_empty() || kernel.shared.is_some_and(|s| s.used) {
                rela(d, &text(kernel), list);
            }
        }
        let places = OnceCell::new();
        let find = |name: &str| -> Result<SymbolId, Diagnostic> {
            let places: &FxHashMap<&str, SymbolId> = places.get_or_init(|| {
                let kernels = self.kernels.iter().map(|k| k.name.as_str()).zip(entries.iter().copied()).rev();
                let own = self.variables.iter().map(|v| v.name.as_str()).zip(variables.iter().copied()).rev();
                kernels.chain(own).collect()
            });
            places
                .get(name)
                .copied()
                .ok_or_else(|| Diagnostic::error(format!("a variable has the address of the unknown name '{name}'")))
        };
        let mut slots: Vec<(u32, SymbolId)> = externs.iter().enumerate().map(|(n, &s)| (8 * n as u32, s)).collect();
        let first = 8 * externs.len() as u32;
        for &i in &layout.order {
            slots.extend(layout.slots[i].map(|at| (at + first, variables[i])));
        }
        if !slots.is_empty() {
            let list = slots.iter().rev().map(|&(at, s)| reloc(d, at as u64, 2, s, 0)).collect();
            rela(d, CONSTANT4, list);
        }
        for kernel in self.kernels.iter().rev().filter(|k| !k.const2.is_empty()) {
            rela(d, &format!(".nv.constant2.{}", kernel.name), Vec::new());
        }
        for section in [CONSTANT3, GLOBAL_INIT] {
            let mut list = Vec::new();
            let mut any = false;
            for (i, v) in self.variables.iter().enumerate().filter(|(_, v)| v.section() == section) {
                any |= v.resolved;
                for r in &v.relocs {
                    let at = layout.offsets[i] + r.offset;
                    list.push(reloc(d, at, r.kind.number(), find(&r.symbol)?, r.addend));
                }
            }
            list.sort_by_key(|r| std::cmp::Reverse(r.offset));
            if any || !list.is_empty() {
                rela(d, section, list);
            }
        }
        for (kernel, symbols) in self.kernels.iter().zip(handles).rev().filter(|(k, _)| !k.handles.is_empty()) {
            let base = (self.param_base()? + kernel.param_bytes.next_multiple_of(4)) as u64;
            let words = kernel.handles.iter().zip(symbols).enumerate().rev();
            let list = words.map(|(n, (h, &s))| reloc(d, base + 4 * n as u64, h.kind.relocation(), s, 0)).collect();
            rela(d, &format!(".nv.constant0.{}", kernel.name), list);
        }
        if let Some(debug) = &self.debug {
            self.lines(d, LINES, &debug.files, |k| &k.lines, entries);
            self.lines(d, PTX_LINES, &[], |k| &k.ptx_lines, entries);
            d.debug_relocations(debug, true, &find)?;
        }
        if self.kernels.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        let mut lists = Vec::new();
        for (i, kernel) in self.kernels.iter().enumerate().rev() {
            let mut fixups: Vec<Fixup> = frames(&mut bytes, kernel);
            fixups.sort_by_key(|f| (f.in_cie, std::cmp::Reverse(f.offset)));
            let list: Vec<Reloc> = fixups.iter().map(|f| reloc(d, f.offset, 2, entries[i], f.addend)).collect();
            lists.push(list);
        }
        if let Some(part) = d.part(".debug_frame") {
            part.section.data = bytes;
        }
        rela(d, ".debug_frame", lists.into_iter().rev().flatten().collect());
        Ok(())
    }
}

impl Image {
    /// Where parameters begin in constant bank 0.
    fn param_base(&self) -> Result<u32, Diagnostic> {
        match group(self.target) {
            Some(g) => Ok(g.param_base),
            None => Err(Diagnostic::error(format!("cubins for {} cannot be written yet", self.target))),
        }
    }
}

/// The symbols of the handles of an entry, and of the section they lie in.
fn kernel_handles(d: &mut Draft, kernel: &Kernel, image: &Image, references: &mut [Option<SymbolId>]) -> Vec<SymbolId> {
    let symbol = |name: &str, kind: ReferenceKind, bind: u8| Symbol {
        name: name.to_string(),
        kind: kind.symbol(),
        bind,
        ..Symbol::default()
    };
    let mut out = Vec::new();
    for h in &kernel.handles {
        let known = image.references.iter().position(|r| r.name == h.name).filter(|_| h.parameter.is_none());
        out.push(match known {
            Some(n) => *references[n].get_or_insert_with(|| d.other(symbol(&h.name, h.kind, 1), "")),
            None => d.local(symbol(&h.name, h.kind, 0), &text(kernel)),
        });
    }
    if !out.is_empty() {
        let bank = format!(".nv.constant0.{}", kernel.name);
        d.section_symbol(&bank, &bank);
    }
    out
}

/// The symbols of references that the last entry does not name.
fn other_references(d: &mut Draft, image: &Image, references: &mut [Option<SymbolId>]) {
    for (r, id) in image.references.iter().zip(references) {
        let symbol = || Symbol { name: r.name.clone(), kind: r.kind.symbol(), bind: 1, ..Symbol::default() };
        id.get_or_insert_with(|| d.other(symbol(), ""));
    }
}

/// The symbols of sizes that the system knows.
fn entry_sizes(d: &mut Draft, image: &Image) -> Vec<(String, SymbolId)> {
    let mut out: Vec<(String, SymbolId)> = Vec::new();
    for (_, name) in image.kernels.iter().rev().flat_map(|k| &k.entry_sizes) {
        if !out.iter().any(|o| o.0 == *name) {
            let symbol = Symbol { name: name.clone(), bind: 2, kind: 1, size: 4, ..Symbol::default() };
            out.push((name.clone(), d.other(symbol, "")));
        }
    }
    out
}

impl Image {
    /// Fills in a table of lines, and where it has to be relocated.
    fn lines(
        &self,
        d: &mut Draft,
        name: &str,
        files: &[File],
        lines: impl Fn(&Kernel) -> &Vec<(u64, Place)>,
        entries: &[SymbolId],
    ) {
        let (mut sequences, mut symbols) = (Vec::new(), Vec::new());
        for (kernel, &entry) in self.kernels.iter().zip(entries).rev().filter(|(k, _)| !lines(k).is_empty()) {
            sequences.push(Sequence { size: kernel.code.len() as u64, places: lines(kernel).clone() });
            symbols.push(entry);
        }
        let (data, addresses) = write(files, &sequences);
        if let Some(part) = d.part(name) {
            part.section.data = data;
        }
        let list: Vec<Reloc> = addresses.iter().zip(symbols).map(|(&at, s)| reloc(d, at, 2, s, 0)).collect();
        if !list.is_empty() {
            rela(d, name, list);
        }
    }
}

/// Puts the code of entries into its sections, by their names, and gives everything its place.
fn place(mut elf: Elf, code: impl Iterator<Item = (String, Vec<u8>)>) -> Elf {
    let mut code: FxHashMap<String, Vec<u8>> = code.collect();
    for s in &mut elf.sections {
        if let Some(data) = code.remove(&s.name) {
            s.data = data;
        }
    }
    // The pages of a segment follow from the places of its sections.
    let count = segments(&elf).len() + 2;
    elf.lay_out(count);
    let table = Segment {
        flags: 4,
        offset: elf.header.phoff,
        filesz: 0x38 * count as u64,
        memsz: 0x38 * count as u64,
        align: 8,
        ..Segment::default()
    };
    elf.segments = vec![Segment { kind: 6, ..table }, Segment { kind: 1, ..table }];
    let rest = segments(&elf);
    elf.segments.extend(rest);
    elf
}

pub(super) fn text(kernel: &Kernel) -> String {
    format!(".text.{}", kernel.name)
}

/// The code of an entry: section, section symbol, symbol; its table bank.
fn entry(d: &mut Draft, kernel: &Kernel) -> SymbolId {
    let name = text(kernel);
    let info = d.add(8, &format!(".nv.info.{}", kernel.name), SHT_LOPROC, INFO, 4, Vec::new());
    (info.link, info.info) = (".symtab", Info::Section(name.clone()));
    d.section_symbol(&name, &name);
    if !kernel.const2.is_empty() {
        let bank = format!(".nv.constant2.{}", kernel.name);
        d.add(13, &bank, PROGBITS, ALLOC | INFO, kernel.const2_align.max(4) as u64, kernel.const2.clone()).info =
            Info::Section(name.clone());
        d.section_symbol(&bank, &format!(".nv.constant.optimizer.{}", kernel.name));
    }
    let symbol = Symbol {
        name: kernel.name.clone(),
        bind: if kernel.weak { 2 } else { 1 },
        kind: 2,
        other: ENTRY,
        size: kernel.code.len() as u64,
        ..Symbol::default()
    };
    let id = d.other(symbol, &name);
    // The code itself comes last: it is most of the file.
    let part = d.add(15, &name, PROGBITS, ALLOC | EXEC, 128, Vec::new());
    (part.link, part.info) = (".symtab", Info::Symbol(id));
    id
}

/// The shared memory of an entry; that of the first entry takes its place before the variables of the module.
fn shared(d: &mut Draft, kernel: &Kernel, group: &Group) {
    let Some(shared) = kernel.shared else { return };
    let name = format!(".nv.shared.{}", kernel.name);
    let part = d.add(17, &name, SHT_NOBITS, WRITE | ALLOC | INFO, shared.align.max(1) as u64, Vec::new());
    part.section.size = (group.reserved_shared + shared.size) as u64;
    part.info = Info::Section(text(kernel));
    if shared.used && shared.size > 0 {
        d.section_symbol(&name, &name);
    }
}

/// Where the symbol that marks the use of shared memory stood, on sm_90 a nameless one stays behind.
fn use_cap(d: &mut Draft, group: &Group, cap: &mut bool, kernel: &Kernel) {
    if !*cap && kernel.shared.is_some_and(|s| s.used) {
        *cap = true;
        let name = CAP.into();
        let symbol = if group.reserved_address == 0 {
            Symbol { name, other: 1, ..Symbol::default() }
        } else {
            Symbol { name, bind: 2, kind: 1, value: group.reserved_shared.into(), size: 4, ..Symbol::default() }
        };
        d.other(symbol, "");
    }
}

fn device_functions(d: &mut Draft, kernel: &Kernel) -> Vec<SymbolId> {
    let section = text(kernel);
    let list = kernel.functions.iter().map(|f| {
        let symbol = Symbol {
            name: f.symbol.clone(),
            bind: bind(f.binding),
            kind: 2,
            value: f.offset as u64,
            size: f.size as u64,
            ..Symbol::default()
        };
        match f.binding {
            Binding::Local => d.local(symbol, &section),
            _ => d.other(symbol, &section),
        }
    });
    list.collect()
}

/// The functions of the system that are called: names without a place, and room for their addresses.
fn external_functions(d: &mut Draft, image: &Image) -> Vec<SymbolId> {
    if image.externs.is_empty() {
        return Vec::new();
    }
    if d.part(CONSTANT4).is_none() {
        d.add(13, CONSTANT4, PROGBITS, ALLOC, 8, Vec::new());
        d.section_symbol(CONSTANT4, CONSTANT4);
    }
    if let Some(part) = d.part(CONSTANT4) {
        part.section.data.extend(vec![0; 8 * image.externs.len()]);
    }
    let symbol = |name: &String| Symbol { name: name.clone(), bind: 1, kind: 2, ..Symbol::default() };
    image.externs.iter().map(|name| d.other(symbol(name), "")).collect()
}

/// Writes how many registers a function has into the header of its section, as the ABI before sm_90 asks.
pub(super) fn registers_in_header<'a>(elf: &mut Elf, kernels: impl Iterator<Item = &'a Kernel>) {
    let at: std::collections::HashMap<String, usize> =
        elf.sections.iter().enumerate().map(|(i, s)| (s.name.clone(), i)).collect();
    for kernel in kernels {
        if let Some(&i) = at.get(&text(kernel)) {
            elf.sections[i].info |= kernel.regs.min(255) << 24;
        }
    }
}

/// The memory that the system reserves in front of every entry's own.
fn reserved(d: &mut Draft, group: &Group, cap: &mut bool, kernel: &Kernel) {
    if group.old {
        // Nothing is reserved, and there is no symbol for it.
        *cap = true;
        return;
    }
    let name = ".nv.shared.reserved.0";
    let value = group.reserved_address;
    d.add(17, name, SHT_NOBITS, WRITE | ALLOC, 1, Vec::new()).section.size = value;
    let offset =
        Symbol { name: ".nv.reservedSmem.offset0".into(), bind: 2, kind: 1, size: 4, value, ..Symbol::default() };
    d.other(offset, "");
    let alias = "__nv_reservedSMEM_offset_0_alias".into();
    d.other(Symbol { name: alias, bind: 2, other: 0xa0, value, ..Symbol::default() }, name);
    use_cap(d, group, cap, kernel);
}

fn module_variables(d: &mut Draft, image: &Image, layout: &Layout, ids: &mut [SymbolId]) {
    for &i in &layout.order {
        let v: &Variable = &image.variables[i];
        let section = v.section();
        if d.part(section).is_none() {
            let (class, kind, flags) = match section {
                CONSTANT3 => (13, PROGBITS, ALLOC),
                GLOBAL => (17, SHT_NOBITS, WRITE | ALLOC),
                _ => (16, PROGBITS, WRITE | ALLOC),
            };
            d.add(class, section, kind, flags, 1, Vec::new());
            d.section_symbol(section, section);
        }
        let at = layout.offsets[i];
        if let Some(part) = d.part(section) {
            let s = &mut part.section;
            s.align = s.align.max(v.align);
            s.size = s.size.max(at + v.size);
            if s.kind != SHT_NOBITS {
                s.data.resize(s.size as usize, 0);
                if let Some(init) = &v.init {
                    let n = init.len().min(v.size as usize);
                    s.data[at as usize..][..n].copy_from_slice(&init[..n]);
                }
            }
        }
        let symbol = Symbol {
            name: v.name.clone(),
            bind: bind(v.binding),
            kind: 1,
            other: if v.managed { MANAGED } else { 0 },
            value: at,
            size: v.size,
            ..Symbol::default()
        };
        ids[i] = match v.binding {
            Binding::Local => d.local(symbol, section),
            _ => d.other(symbol, section),
        };
        if layout.slots[i].is_some() {
            if d.part(CONSTANT4).is_none() {
                d.add(13, CONSTANT4, PROGBITS, ALLOC, 8, Vec::new());
                d.section_symbol(CONSTANT4, CONSTANT4);
            }
            if let Some(part) = d.part(CONSTANT4) {
                part.section.data.extend([0; 8]);
            }
        }
    }
}

/// One segment a run of loaded sections of equal permission.
fn segments(elf: &Elf) -> Vec<Segment> {
    let mut out: Vec<Segment> = Vec::new();
    let mut end = 0;
    for s in elf.sections.iter().filter(|s| s.flags & ALLOC != 0) {
        let flags = 4 | (if s.flags & WRITE != 0 { 2 } else { 0 }) | (s.flags & EXEC != 0) as u32;
        if out.last().is_none_or(|l| l.flags != flags) {
            out.push(Segment { kind: 1, flags, offset: s.offset, align: 8, ..Segment::default() });
            end = s.offset;
        }
        let Some(segment) = out.last_mut() else { continue };
        // Sections without bytes follow one another in memory only.
        end = end.next_multiple_of(s.align.max(1));
        if s.kind == SHT_NOBITS {
            if segment.filesz == segment.memsz {
                segment.filesz = s.offset - segment.offset;
            }
            end += s.size;
        } else {
            end = s.offset + s.size;
            segment.filesz = end - segment.offset;
        }
        segment.memsz = end - segment.offset;
    }
    out
}
