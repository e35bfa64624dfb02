//! One input: its parts, and whether it may be linked for the target.

use crate::unified::STUB;
use crate::{Cubin, Options, fatal};
use arch::{Target, Variant};
use cubin::elf::{EM_CUDA, ET_REL, SHT_LOPROC};
use cubin::view::{SymbolView, View};
use diag::Diagnostic;

/// Names of sections of a capsule, a second form of the same code from sm_100 on, begin so. It is not needed to link.
const CAPSULE_SECTIONS: [&str; 2] = [".nv.merc.", ".nv.capmerc."];

/// A relocatable cubin.
pub(crate) struct Object<'a> {
    pub name: &'a str,
    pub system: bool,
    pub view: View<'a>,
    pub symbols: Vec<SymbolView<'a>>,
    /// For each section of code, the symbol that stands for it.
    pub heads: Vec<u32>,
}

/// Which sections of functions belong to a section of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Text,
    Info,
    Constant(u8),
    Shared,
    /// Relocations of another section.
    Reloc,
    Frame,
    Note,
    ModuleInfo,
    Compat,
    Callgraph,
    Prototype,
    Global,
    GlobalInit,
    /// Unified variables; entries of unified functions and variables.
    Unified,
    UnifiedEntries,
    DebugShared,
    /// Strings, symbols, the null section.
    Table,
    /// Part of the capsule.
    Capsule,
    /// Copied and joined by name.
    Other,
}

/// What a section is, by its type, name and flags.
pub(crate) fn role(kind: u32, name: &str) -> Role {
    match kind {
        0 | 2 | 3 => return Role::Table,
        4 | 9 => return if name.starts_with(CAPSULE_SECTIONS[0]) { Role::Capsule } else { Role::Reloc },
        7 => return Role::Note,
        _ => {}
    }
    if CAPSULE_SECTIONS.iter().any(|p| name.starts_with(p)) {
        return Role::Capsule;
    }
    let bank = name.strip_prefix(".nv.constant").and_then(|r| r.split('.').next()).and_then(|n| n.parse::<u8>().ok());
    match (kind.wrapping_sub(SHT_LOPROC), name) {
        (0, ".nv.info") => Role::ModuleInfo,
        (0, _) => Role::Info,
        (1, _) => Role::Callgraph,
        (2, _) => Role::Prototype,
        (7, _) => Role::Global,
        (8, _) => Role::GlobalInit,
        (0x11 | 0x14, _) => Role::UnifiedEntries,
        (0x12, _) => Role::Unified,
        (0xa, ".nv_debug.shared") => Role::DebugShared,
        (0xa, _) => Role::Shared,
        (0x86, _) => Role::Compat,
        (0x64..=0x75, _) => Role::Constant(bank.unwrap_or((kind - SHT_LOPROC - 0x64) as u8)),
        (_, ".debug_frame") => Role::Frame,
        (_, n) if n.starts_with(".text.") || n.starts_with(STUB.0) => Role::Text,
        _ => Role::Other,
    }
}

impl<'a> Object<'a> {
    /// Reads a cubin and checks that it may be linked.
    pub fn read(input: &Cubin<'a>, options: &Options) -> Result<Object<'a>, Vec<Diagnostic>> {
        let name = input.name;
        let wrong = |d: Diagnostic| fatal(format!("Input file '{name}' is damaged: {}", d.message));
        let view = View::read(input.bytes).map_err(wrong)?;
        if view.machine != EM_CUDA || view.kind != ET_REL {
            return Err(fatal(format!("Input file '{name}' is no relocatable cubin")));
        }
        if view.abi != [0x41, 8] {
            return Err(fatal(format!("Input file '{name}' has ABI version {}, not 8 of CUDA 13", view.abi[1])));
        }
        let symbols = view.symbols().map_err(wrong)?;
        let mut object = Object { name, system: input.system, view, symbols, heads: Vec::new() };
        object.check_target(options)?;
        object.check_sections().map_err(wrong)?;
        object.find_heads();
        Ok(object)
    }

    /// The target that the cubin was made for. Whether it has an `a` stands in `.nv.compat`.
    pub fn target(&self) -> Target {
        let sm = (self.view.flags >> 8) as u16 & 0xfff;
        let compat = self.view.sections.iter().find(|s| role(s.kind, s.name) == Role::Compat);
        let list = compat.and_then(|s| cubin::attr::read(s.data).ok()).unwrap_or_default();
        let accelerated = list.iter().any(|a| a.code == cubin::attr::COMPAT_ACCELERATED && a.to_words() == [1]);
        Target { sm, variant: if accelerated { Variant::A } else { Variant::Plain } }
    }

    fn check_target(&self, options: &Options) -> Result<(), Vec<Diagnostic>> {
        let (own, wanted) = (self.target(), options.target);
        if !fits(own.sm, wanted.sm) {
            return Err(fatal(format!("Input file '{}' arch does not match target '{wanted}'", self.name)));
        }
        if own.variant == Variant::A && wanted.variant != Variant::A {
            let m = "cannot link accelerated arch to non-accelerated";
            return Err(fatal(format!("{m}: '{}' is made for '{own}', the target is '{wanted}'", self.name)));
        }
        let toolkit = self.toolkit();
        if let Some(n) = toolkit.filter(|&n| n > options.tool.toolkit as u32) {
            let m = format!("Input file '{}' newer than toolkit ({n} vs {})", self.name, options.tool.toolkit);
            return Err(fatal(m));
        }
        let first = arch::files(own.sm).first_toolkit;
        if first > 0 && toolkit.is_none_or(|n| n < first) {
            let (major, minor) = (first / 10, first % 10);
            let m = format!("Input file '{}' must be recompiled with toolkit >= Cuda {major}.{minor}", self.name);
            return Err(fatal(m));
        }
        Ok(())
    }

    /// The release that made the file, times ten, from `.note.nv.cuinfo`.
    fn toolkit(&self) -> Option<u32> {
        let note = self.view.section(".note.nv.cuinfo")?;
        let word = |at: usize| note.data.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        let at = 12 + (word(0)? as usize).next_multiple_of(4);
        word(at + 4)
    }

    /// Indices of sections and symbols that later phases rely on.
    pub fn check_sections(&self) -> Result<(), Diagnostic> {
        let bad = |m: String| Err(Diagnostic::error(m));
        for s in &self.view.sections {
            if !s.align.is_power_of_two() && s.align != 0 || s.align > 0x1_0000 {
                return bad(format!("section {} has the alignment 0x{:x}", s.name, s.align));
            }
            if s.data.is_empty() && s.size > 1 << 40 {
                return bad(format!("section {} has 0x{:x} bytes", s.name, s.size));
            }
            let r = role(s.kind, s.name);
            let names_section = matches!(r, Role::Reloc | Role::Info) || r == Role::Shared && s.flags & 0x40 != 0;
            if names_section && s.info as usize >= self.view.sections.len() {
                return bad(format!("section {} belongs to section {}, which is not there", s.name, s.info));
            }
            if r == Role::Reloc {
                let size = if s.kind == 4 { 24 } else { 16 };
                if !s.data.len().is_multiple_of(size) {
                    return bad(format!("the size of {} is no multiple of {size}", s.name));
                }
                let target = &self.view.sections[s.info as usize];
                for r in s.relocs() {
                    if r.symbol as usize >= self.symbols.len() {
                        return bad(format!("{} names symbol {}, which is not there", s.name, r.symbol));
                    }
                    if r.offset >= target.size {
                        return bad(format!("{} has a place at 0x{:x}, outside of its section", s.name, r.offset));
                    }
                }
            }
        }
        for s in self.symbols.iter().filter(|s| s.shndx != 0 && s.shndx < 0xff00 && s.kind != 3) {
            let section = &self.view.sections[s.shndx as usize];
            let in_shared = matches!(role(section.kind, section.name), Role::Shared | Role::DebugShared);
            // The value of a shared variable is its alignment.
            let end = if in_shared { s.size } else { s.value.saturating_add(s.size) };
            if end > section.size && s.name != ".nv.reservedSmem.cap" {
                return bad(format!("'{}' ends outside of section {}", s.name, section.name));
            }
            if in_shared && s.value != 0 && !s.value.is_power_of_two() {
                return bad(format!("the shared variable '{}' has the alignment 0x{:x}", s.name, s.value));
            }
        }
        Ok(())
    }

    pub fn find_heads(&mut self) {
        self.heads = vec![0; self.view.sections.len()];
        for (i, s) in self.view.sections.iter().enumerate() {
            if role(s.kind, s.name) != Role::Text {
                continue;
            }
            // Before sm_90 the upper byte is the number of registers.
            let stated = (s.info & 0xff_ffff) as usize;
            let stands = |s: &SymbolView| s.kind == 2 && s.shndx as usize == i;
            self.heads[i] = match self.symbols.get(stated).filter(|s| stands(s)) {
                Some(_) => stated as u32,
                None => self.symbols.iter().position(stands).unwrap_or(0) as u32,
            };
        }
    }
}

/// True if code for one SM runs on another: the same one, or a later one of the same major number. Embedded chips (sm_87) are
/// apart: their code runs nowhere else.
pub(crate) fn fits(own: u16, wanted: u16) -> bool {
    own == wanted || own / 10 == wanted / 10 && own < wanted && own != 87
}
