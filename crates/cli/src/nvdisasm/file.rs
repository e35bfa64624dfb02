//! A cubin's code as the listing wants it.

use cubin::attr;
use cubin::elf::{ET_REL, Elf, Reloc, SHT_REL, Symbol};
use diag::Diagnostic;
use sass::text::listing::{Binding, Field, File, Function, Relocation, Section, quoted};

/// What the printers share: the file, its symbols, its code.
pub(crate) struct Input<'a> {
    pub elf: &'a Elf,
    pub symbols: Vec<Symbol>,
    pub code: File,
    /// The section of the file that each section of `code` is.
    pub texts: Vec<usize>,
    /// For each symbol, its number among the functions of `code`.
    pub numbers: Vec<Option<usize>>,
}

/// The relocations of a section, in the order of the file; where a table has no addends (`SHT_REL`, before sm_90), they
/// stand in the section.
pub(super) fn relocations(elf: &Elf, section: usize) -> Vec<Reloc> {
    let data = elf.sections.get(section).map_or(&[][..], |s| &s.data);
    let mut out = Vec::new();
    for table in elf.sections.iter().filter(|t| t.info as usize == section) {
        let inside = table.kind == SHT_REL;
        for mut r in table.relocs() {
            let size = match r.kind {
                _ if !inside => 0,
                1 => 4,
                2 => 8,
                _ => 0,
            };
            let at = usize::try_from(r.offset).unwrap_or(usize::MAX);
            if let Some(bytes) = data.get(at..at.saturating_add(size)).filter(|b| !b.is_empty()) {
                r.addend = bytes.iter().rev().fold(0, |n, b| n << 8 | *b as i64);
            }
            out.push(r);
        }
    }
    out
}

impl<'a> Input<'a> {
    /// Reads the code of a file.
    pub fn new(elf: &'a Elf) -> Result<Input<'a>, Diagnostic> {
        let symbols = elf.symbols()?;
        let relocatable = elf.header.kind == ET_REL;
        let mut code = File { sm: elf.sm() & 0xfff, relocatable, ..File::default() };
        let texts: Vec<usize> =
            elf.sections.iter().enumerate().filter(|(_, s)| s.name.starts_with(".text.")).map(|(i, _)| i).collect();
        let mut numbers = vec![None; symbols.len()];
        for (n, s) in symbols.iter().enumerate().filter(|(_, s)| s.kind == 2) {
            let Some(section) = texts.iter().position(|&t| t == s.shndx as usize) else { continue };
            numbers[n] = Some(code.functions.len());
            let binding = match s.bind {
                0 => Binding::Local,
                2 => Binding::Weak,
                _ => Binding::Global,
            };
            let (name, entry) = (s.name.clone(), s.other & 0x10 != 0);
            let leads = symbols.iter().position(|t| t.kind == 3 && t.shndx == s.shndx).is_none_or(|t| t < n);
            code.functions.push(Function { name, section, offset: s.value, size: s.size, binding, entry, leads });
        }
        let mut input = Input { elf, symbols, code, texts, numbers };
        for n in 0..input.texts.len() {
            let section = input.section(input.texts[n])?;
            input.code.sections.push(section);
        }
        input.name_places();
        Ok(input)
    }

    fn section(&self, text: usize) -> Result<Section, Diagnostic> {
        let s = &self.elf.sections[text];
        let words = s.data.chunks_exact(16).filter_map(|c| Some(u128::from_le_bytes(c.try_into().ok()?))).collect();
        let mut section = Section { name: s.name.clone(), align: s.align, words, ..Section::default() };
        // Before the newer ABI the section's header says how many barriers and registers the code uses.
        let (barriers, registers) = (s.flags >> 20 & 0x7f, s.info >> 24);
        if barriers != 0 {
            section.properties.push(format!(".sectionflags\t@\"SHF_BARRIERS={barriers}\""));
        }
        if registers != 0 {
            section.properties.push(format!(".sectioninfo\t@\"SHI_REGISTERS={registers}\""));
        }
        let name = &s.name[".text.".len()..];
        for info in self
            .elf
            .sections
            .iter()
            .filter(|i| i.info as usize == text && !i.data.is_empty() && i.name.starts_with(".nv.info."))
        {
            attributes(&attr::read(&info.data)?, &mut section);
        }
        let counts = self.elf.section(".nv.info").map(|(_, s)| attr::read(&s.data)).transpose()?.unwrap_or_default();
        for a in counts.iter().filter(|a| a.code == attr::REGCOUNT) {
            if let [symbol, count] = a.to_words()[..]
                && self.symbols.get(symbol as usize).is_some_and(|s| s.shndx as usize == text)
            {
                section.registers = count;
            }
        }
        if let (true, Some((_, table))) = (self.code.relocatable, self.elf.section(&format!(".nv.constant2.{name}"))) {
            let words = table.data.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]]) as u64);
            // Constants of the compiler stand there, too.
            section.tables = words.filter(|w| section.branches.iter().any(|b| b.1.contains(w))).collect();
        }
        section.last_register = section.registers.checked_sub(1);
        for r in self.elf.sections.iter().filter(|r| r.info as usize == text).flat_map(|r| r.relocs()) {
            let (Some(field), Some(symbol)) = (Field::of_type(r.kind), self.symbols.get(r.symbol as usize)) else {
                continue;
            };
            section.relocations.push(Relocation {
                offset: r.offset,
                field,
                symbol: symbol.name.clone(),
                function: self.numbers[r.symbol as usize],
                value: (symbol.shndx != 0).then_some(symbol.value),
                addend: r.addend,
            });
        }
        Ok(section)
    }

    /// Takes over what the compiler noted, for JSON.
    pub fn annotate(&mut self) -> Result<(), Diagnostic> {
        for (section, &text) in self.code.sections.iter_mut().zip(&self.texts) {
            for info in self.elf.sections.iter().filter(|i| i.info as usize == text && i.name.starts_with(".nv.info."))
            {
                for note in attr::read(&info.data)?.iter().flat_map(super::info::annotations) {
                    let says = objects(&note.says, note.offset.is_some());
                    section.annotations.extend(says.into_iter().map(|text| (note.offset, text)));
                }
            }
        }
        Ok(())
    }

    /// Places in functions that relocations of other sections name.
    fn name_places(&mut self) {
        let mut named = Vec::new();
        // Code that is not finished has a symbol table of its own: what it names is no place here.
        let unfinished = |s: &str| s.starts_with(".nv.merc.") || s.starts_with(".nv.capmerc.");
        let others = self.elf.sections.iter().enumerate();
        let others = others.filter(|(i, s)| !self.texts.contains(i) && !unfinished(&s.name));
        for (target, _) in others {
            let mut relocs = relocations(self.elf, target);
            relocs.retain(|r| r.addend != 0);
            relocs.sort_by_key(|r| r.offset);
            for r in relocs {
                let number = self.numbers.get(r.symbol as usize).copied().flatten();
                let Some(f) = number.and_then(|n| self.code.functions.get(n)) else { continue };
                let place = (f.section, f.offset.wrapping_add_signed(r.addend));
                if !self.code.functions.iter().any(|f| (f.section, f.offset) == place) {
                    named.push(place);
                }
            }
        }
        self.code.named = named;
    }
}

/// A note as JSON: `0x80000005 - Not unrolled: ...` of an instruction, `instr/R-regs: 469 instructions, 32 R-regs` of a
/// function.
fn objects(says: &str, of_instruction: bool) -> Vec<String> {
    let counts = says.strip_prefix("instr/R-regs: ").and_then(|s| s.split_once(" instructions, "));
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty();
    let counts = counts.and_then(|(count, rest)| Some((count, rest.strip_suffix(" R-regs")?)));
    if let Some((count, registers)) = counts.filter(|c| !of_instruction && number(c.0) && number(c.1)) {
        return vec![
            format!("{{\"type\":\"instructions\",\"count\":{count}}}"),
            format!("{{\"type\":\"register\",\"R-regs\":{registers}}}"),
        ];
    }
    let text = says.split_once(" - ").map_or(says, |s| s.1);
    vec![format!("{{\"type\":\"program-analysis\",\"info\":{}}}", quoted(text))]
}

/// The offsets that attributes list, in their order.
fn attributes(list: &[attr::Attr], section: &mut Section) {
    for a in list {
        let words: Vec<u64> = a.to_words().into_iter().map(u64::from).collect();
        if a.code == attr::INDIRECT_BRANCH_TARGETS {
            let mut rest = words.as_slice();
            while let [branch, _, count, tail @ ..] = rest {
                let (targets, after) = tail.split_at((*count as usize).min(tail.len()));
                section.marks.push(*branch);
                section.marks.extend(targets);
                section.branches.push((*branch, targets.to_vec()));
                rest = after;
            }
            continue;
        }
        let spills = super::info::annotations(a).into_iter().filter(|n| n.says == super::info::SPILL);
        section.notes.extend(spills.filter_map(|n| Some((n.offset?, n.says))));
        if let attr::Value::Bytes(bytes) = &a.value {
            section.marks.extend(super::info::offsets(a.code, bytes));
        }
    }
}
