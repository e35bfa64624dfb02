//! File -> image: the facts of an executable cubin, found in its sections, symbols and attributes.

use super::{
    Binding, CONSTANT3, DataReloc, DataRelocKind, Function, GLOBAL, GLOBAL_INIT, Image, Kernel, Param, Shared, Space,
    Tool, Variable,
};
use crate::attr::{self, Attr};
use crate::elf::{Elf, SHT_NOBITS, Section, Symbol, string_at, u16_at, u32_at};
use arch::{Target, Variant};
use diag::Diagnostic;

fn bad(what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(format!("not a valid cubin: {what}"))
}

fn binding(symbol: &Symbol) -> Binding {
    match symbol.bind {
        0 => Binding::Local,
        2 => Binding::Weak,
        _ => Binding::Global,
    }
}

/// The value of an entry that has one byte.
fn byte(list: &[Attr], code: u8) -> Option<u8> {
    list.iter().find(|a| a.code == code).and_then(|a| a.to_words().first().copied()).map(|w| w as u8)
}

impl Image {
    /// Finds the facts of an executable file. Not everything is in a file: the order of variables is that of their symbols, and
    /// where a frame begins is not looked for.
    ///
    /// # Errors
    /// Where the file contradicts itself, or is not executable.
    pub fn read(elf: &Elf) -> Result<Image, Diagnostic> {
        if elf.header.kind != crate::elf::ET_EXEC {
            return Err(Diagnostic::error("a linkable cubin has to be linked first"));
        }
        let symbols = elf.symbols()?;
        let compat = elf.section(".nv.compat").map(|(_, s)| attr::read(&s.data)).transpose()?.unwrap_or_default();
        let accelerated = compat.iter().any(|a| a.code == 9 && a.to_words() == [1]);
        let variant = if accelerated { Variant::A } else { Variant::Plain };
        let (tool, ptx_sm) = notes(elf);
        let target = Target { sm: elf.sm() & 0xfff, variant };
        let mut image = Image {
            ptx_sm,
            independent: info_has(elf, attr::TEXMODE_INDEPENDENT)?,
            isa_class: byte(&compat, 2).unwrap_or(1),
            tensor_maps: byte(&compat, 3).unwrap_or(0),
            ..Image::new(target, tool)
        };
        let info = elf.section(".nv.info").map(|(_, s)| attr::read(&s.data)).transpose()?.unwrap_or_default();
        for (index, section) in elf.sections.iter().enumerate() {
            let Some(name) = section.name.strip_prefix(".text.") else { continue };
            if !symbols.iter().any(|s| s.shndx as usize == index && s.other & 0x10 != 0 && s.kind == 2) {
                continue;
            }
            image.kernels.push(kernel(elf, &symbols, &info, (index, section), name)?);
        }
        // The file has the entries in the reverse order of the PTX.
        image.kernels.reverse();
        image.variables = variables(elf, &symbols)?;
        Ok(image)
    }
}

fn info_has(elf: &Elf, code: u8) -> Result<bool, Diagnostic> {
    let list = elf.section(".nv.info").map(|(_, s)| attr::read(&s.data)).transpose()?.unwrap_or_default();
    Ok(list.iter().any(|a| a.code == code))
}

fn notes(elf: &Elf) -> (Tool, u16) {
    let mut tool =
        Tool { name: String::new(), version: String::new(), branch: String::new(), options: String::new(), toolkit: 0 };
    if let Some((_, s)) = elf.section(".note.nv.tkinfo") {
        let desc = s.data.get(24..).unwrap_or_default();
        let strings = desc.get(24..).unwrap_or_default();
        let text = |n: usize| string_at(strings, u32_at(desc, n * 4));
        (tool.name, tool.version, tool.branch, tool.options) = (text(2), text(3), text(4), text(5));
    }
    let cuinfo = elf.section(".note.nv.cuinfo").map(|(_, s)| s.data.get(24..).unwrap_or_default()).unwrap_or_default();
    tool.toolkit = u32_at(cuinfo, 4) as u16;
    (tool, u16_at(cuinfo, 2))
}

fn kernel(
    elf: &Elf,
    symbols: &[Symbol],
    info: &[Attr],
    (index, section): (usize, &Section),
    name: &str,
) -> Result<Kernel, Diagnostic> {
    let entry =
        symbols.iter().enumerate().find(|(_, s)| s.shndx as usize == index && s.other & 0x10 != 0 && s.kind == 2);
    let (entry_index, entry) = entry.ok_or_else(|| bad(format!("{} has no symbol of an entry", section.name)))?;
    // The value of the last word of {symbol, value} for this symbol.
    let of = |code: u8, symbol: usize| {
        let mut found = info.iter().filter(|a| a.code == code).map(Attr::to_words);
        found.find(|w| w.first() == Some(&(symbol as u32))).and_then(|w| w.get(1).copied())
    };
    let mut k = Kernel {
        name: name.to_string(),
        weak: entry.bind == 2,
        code: section.data.clone(),
        regs: of(attr::REGCOUNT, entry_index).unwrap_or(0),
        frame: of(attr::FRAME_SIZE, entry_index).unwrap_or(0),
        min_stack: of(attr::MIN_STACK_SIZE, entry_index).filter(|&n| n != u32::MAX),
        maxreg: 255,
        ..Kernel::default()
    };
    for (i, s) in symbols.iter().enumerate().filter(|(_, s)| s.shndx as usize == index && s.kind == 2) {
        if i != entry_index {
            k.functions.push(Function {
                symbol: s.name.clone(),
                offset: s.value as u32,
                size: s.size as u32,
                binding: binding(s),
                frame: of(attr::FRAME_SIZE, i).unwrap_or(0),
                return_register: 20,
            });
        }
    }
    k.functions.sort_by_key(|f| f.offset);
    if let Some((_, s)) = elf.section(&format!(".nv.constant2.{name}")) {
        (k.const2, k.const2_align) = (s.data.clone(), s.align as u32);
    }
    let used = elf.section(&format!(".rela.text.{name}")).is_some();
    if let Some((_, s)) = elf.section(&format!(".nv.shared.{name}")).filter(|(_, s)| s.kind == SHT_NOBITS) {
        let reserved = super::group::group(Target { sm: elf.sm() & 0xfff, variant: Variant::Plain });
        let reserved = reserved.map_or(0, |g| g.reserved_shared as u64);
        k.shared = Some(Shared { size: s.size.saturating_sub(reserved) as u32, align: s.align as u32, used });
    }
    let own =
        elf.section(&format!(".nv.info.{name}")).map(|(_, s)| attr::read(&s.data)).transpose()?.unwrap_or_default();
    for a in &own {
        k.read_attribute(a);
    }
    k.params.reverse();
    Ok(k)
}

fn triple(w: &[u32]) -> Option<[u32; 3]> {
    w.first_chunk().copied()
}

impl Kernel {
    /// Takes over what an attribute says; the parameters come last one first.
    pub fn read_attribute(&mut self, a: &Attr) {
        let k = self;
        let w = a.to_words();
        let first = w.first().copied().unwrap_or(0);
        match a.code {
            attr::KPARAM_INFO | attr::KPARAM_INFO_V2 if w.len() == 3 => {
                let (place, word) = (w[1], w[2]);
                let v2 = a.code == attr::KPARAM_INFO_V2;
                k.params.push(Param {
                    offset: (place >> 16) as u16,
                    size: if v2 { word as u16 } else { (word >> 18) as u16 },
                    space: (if v2 { word >> 24 } else { word >> 8 } & 15) as u8,
                    log_align: if v2 { (word >> 16) as u8 } else { word as u8 },
                });
            }
            attr::CBANK_PARAM_SIZE => k.param_bytes = first,
            attr::MAXREG_COUNT => k.maxreg = first as u16,
            attr::REG_RECONFIG => k.reconfigures = true,
            attr::CTAIDZ_USED => k.reads_ctaid_z = true,
            attr::NUM_BARRIERS => k.barriers = first as u8,
            attr::INT_WARP_WIDE_INSTR_OFFSETS => k.warp_wide_offsets = w,
            attr::COOP_GROUP_MASK_REGIDS => k.coop_offsets = w.into_iter().map(|m| (0, m)).collect(),
            attr::COOP_GROUP_INSTR_OFFSETS => {
                k.coop_offsets.resize(w.len(), (0, u32::MAX));
                for (c, at) in k.coop_offsets.iter_mut().zip(w) {
                    c.0 = at;
                }
            }
            attr::SPARSE_MMA_MASK => k.sparse_products = first as u16,
            attr::EXIT_INSTR_OFFSETS => k.exit_offsets = w,
            attr::MAX_THREADS => k.max_threads = triple(&w),
            attr::REQNTID => k.req_threads = triple(&w),
            attr::CTA_PER_CLUSTER => k.cluster = triple(&w),
            attr::MAX_CLUSTER_RANK => k.max_cluster_rank = Some(first),
            attr::EXPLICIT_CLUSTER => k.explicit_cluster = true,
            attr::BLOCKS_ARE_CLUSTERS => k.blocks_are_clusters = true,
            attr::CRS_STACK_SIZE => k.convergence = true,
            attr::INDIRECT_BRANCH_TARGETS => {
                let mut rest = w.as_slice();
                while let [at, _, n, tail @ ..] = rest {
                    let (targets, after) = tail.split_at((*n as usize).min(tail.len()));
                    k.indirect_branches.push((*at, targets.to_vec()));
                    rest = after;
                }
            }
            attr::LANGUAGE
            | attr::CUDA_API_VERSION
            | attr::PARAM_CBANK
            | attr::MERCURY_ISA_VERSION
            | attr::SW_WAR
            | attr::NVSAL_SW_WAR => {}
            _ => {
                k.others.push(a.clone());
                k.others.sort_by_key(|a| a.code);
            }
        }
    }
}

fn variables(elf: &Elf, symbols: &[Symbol]) -> Result<Vec<Variable>, Diagnostic> {
    let mut out: Vec<(usize, Variable)> = Vec::new();
    for s in symbols.iter().filter(|s| matches!(s.kind, 1 | 13)) {
        let Some(section) = elf.sections.get(s.shndx as usize) else { continue };
        let space = match section.name.as_str() {
            CONSTANT3 => Space::Constant,
            GLOBAL | GLOBAL_INIT => Space::Global,
            _ => continue,
        };
        if s.value.checked_add(s.size).is_none_or(|end| end > section.size) {
            return Err(bad(format!("'{}' lies outside of {}", s.name, section.name)));
        }
        let bytes = section.data.get(s.value as usize..).and_then(|b| b.get(..s.size as usize));
        out.push((
            s.shndx as usize,
            Variable {
                name: s.name.clone(),
                binding: binding(s),
                space,
                align: 1 << s.value.trailing_zeros().min(section.align.max(1).trailing_zeros()).min(30),
                size: s.size,
                managed: s.other & 4 != 0,
                init: if section.name == GLOBAL { None } else { bytes.map(<[u8]>::to_vec) },
                relocs: Vec::new(),
                resolved: false,
                offset: Some(s.value),
            },
        ));
    }
    for section in &elf.sections {
        let Some(target) = section.name.strip_prefix(".rela").filter(|t| [CONSTANT3, GLOBAL_INIT].contains(t)) else {
            continue;
        };
        let Some((index, _)) = elf.section(target) else { continue };
        if section.data.is_empty()
            && let Some((_, v)) = out.iter_mut().find(|(i, _)| *i == index)
        {
            v.resolved = true;
        }
        for r in section.relocs() {
            let name = symbols.get(r.symbol as usize).map(|s| s.name.clone()).unwrap_or_default();
            let kind = match r.kind {
                1 => DataRelocKind::Low32,
                3 => DataRelocKind::Generic32,
                4 => DataRelocKind::Generic64,
                0x23 => DataRelocKind::Descriptor64,
                n @ 0x4c..0x54 => DataRelocKind::AddressByte((n - 0x4c) as u8),
                n @ 0x54..0x5c => DataRelocKind::GenericByte((n - 0x54) as u8),
                n @ 0x5c..0x64 => DataRelocKind::DescriptorByte((n - 0x5c) as u8),
                n @ 0x68..0x70 => DataRelocKind::AddressByte((n - 0x68) as u8),
                _ => DataRelocKind::Address64,
            };
            for s in symbols.iter().filter(|s| s.shndx as usize == index && matches!(s.kind, 1 | 13)) {
                if (s.value..s.value.saturating_add(s.size)).contains(&r.offset)
                    && let Some((_, v)) = out.iter_mut().find(|(i, v)| *i == index && v.name == s.name)
                {
                    let offset = r.offset - s.value;
                    v.relocs.push(DataReloc { offset, kind, symbol: name.clone(), addend: r.addend });
                }
            }
        }
    }
    Ok(out.into_iter().map(|(_, v)| v).collect())
}
