//! Attributes as `-elf` prints them. Values and names are those that cuobjdump 13.5 prints for a file with one attribute of each
//! code and format.

use super::elf::Dump;
use crate::nvdisasm::attribute_name;
use cubin::attr::{self, Attr, Value};
use std::fmt::Write;

/// Names of what `.nv.compat` says.
const COMPAT: [&str; 17] = [
    "ERROR",
    "PAD",
    "ISA_CLASS",
    "INST_TENSORMAP_V1",
    "INST_TCGEN05_MMA_DEPRECATED",
    "INST_TCGEN05_MMA",
    "ENABLE_OPPORTUNISTIC_FINALIZATION",
    "",
    "",
    "CUDA_ACCELERATOR_TARGET",
    "CUDA_DRIVER_VERSION",
    "CAN_FASTPATH_FINALIZE",
    "CUDA_INTERNAL_TARGET",
    "",
    "FINALIZER_VERSION",
    "MIN_FINALIZER_VERSION_FOR_MVC",
    "ERROR_LAST",
];
const DRIVER_VERSION: u8 = 10;
const FINALIZER_VERSIONS: [u8; 2] = [14, 15];

const SPARSE: [&str; 8] =
    ["QGMMA.SP", "HGMMA.SP", "IGMMA.SP", "QMMA.SP", "HMMA.SP", "IMMA.SP", "UTC*MMASparse", "OMMA.SP"];
const LANGUAGES: [&str; 10] =
    ["UNKNOWN", "SASS", "NVSAL", "PTX", "NVVM", "CUDA_C++", "CUDA_C++_Tile", "TILEIR", "CUTILE", "FORTRAN"];
const STUBS: [&str; 4] = ["", "FUNC_UFT_STUB", "FUNC_ATENTRY_STUB", "FUNC_ATEXIT_STUB"];
const FRAGMENTS: [&str; 10] = [
    "",
    "TEST1",
    "TEST2",
    "TEST3",
    "TMEM_CTA1",
    "TMEM_CTA2",
    "TMEM_CTA1_V2",
    "TMEM_CTA2_V2",
    "RESIZE_SMEM",
    "DEVICE_MEMCPY",
];
const BARRIERS: [&str; 11] = [
    "INIT",
    "ARRIVE",
    "ARRIVE_NOCOMPLETE",
    "ARRIVE_DROP",
    "ARRIVE_DROP_NOCOMPLETE",
    "TEST_WAIT",
    "TEST_WAIT_PARITY",
    "CP_ASYNC_ARRIVE",
    "INVAL",
    "TRY_WAIT",
    "TRY_WAIT_PARITY",
];
const INSTRUCTIONS: [&str; 4] = [
    "UNKNOWN",
    "PREFETCH_L1_VALID_ADDR",
    "FENCE_PROXY_ASYNC_GENERIC_SR_SMEM_READS_RELEASE_CLUSTER",
    "FENCE_ALIAS_SR_READ_RELEASE_SYS",
];
const COROUTINES: u8 = 0x3a;
const INSTR_OFFSETS: u8 = 0x6c;

impl Dump<'_> {
    /// The attributes of a section.
    pub(super) fn attributes(&mut self, list: &[Attr], compat: bool) {
        for (i, a) in list.iter().enumerate() {
            let name = match compat {
                true => COMPAT.get(a.code as usize).filter(|n| !n.is_empty()).map(|n| format!("EICOMPAT_ATTR_{n}")),
                false => attribute_name(a.code)
                    .or(attr::name(a.code).filter(|_| a.code != attr::MERCURY_ISA_VERSION).map(String::from)),
            };
            let format = match a.value {
                Value::None(_) => "NVAL",
                Value::Byte(..) => "BVAL",
                Value::Half(_) => "HVAL",
                Value::Bytes(_) => "SVAL",
            };
            let name = name.unwrap_or("unknown Attribute".into());
            let _ = write!(self.out, "\t<0x{}>\n\tAttribute:\t{name}\n\tFormat:\tEIFMT_{format}\n", i + 1);
            let value = if compat { compat_value(a) } else { self.value(a) };
            if let Some(value) = value {
                let _ = writeln!(self.out, "\tValue:\t{value}");
            }
        }
    }

    fn named(&self, symbol: u32) -> String {
        format!("{}({symbol:#x})", self.symbols.get(symbol as usize).map_or("", |s| &s.name))
    }

    fn value(&self, a: &Attr) -> Option<String> {
        let words = a.to_words();
        if let Value::Half(h) = a.value {
            return Some(match a.code {
                attr::SPARSE_MMA_MASK if h != 0 => {
                    let set = (0..16).filter(|b| h >> b & 1 != 0);
                    let name = |b: usize| match b {
                        15 => " UNKNOWN".to_string(),
                        _ => SPARSE.get(b).map_or(String::new(), |n| format!(" {n}")),
                    };
                    format!("Used Sparse Variants :{}", set.map(name).collect::<String>())
                }
                attr::STUB_FUNCTION_KIND => STUBS.get(h as usize).copied().unwrap_or_default().into(),
                attr::NVSAL_SW_WAR => format!(" {h:#x}"),
                _ => format!("{h:#x}"),
            });
        }
        if !matches!(a.value, Value::Bytes(_)) {
            return words.first().map(|w| format!("{w:#x}"));
        }
        let function = |what: &str| Some(format!("function: {}\t{what}", self.named(*words.first()?)));
        let second = words.get(1).copied().unwrap_or(0);
        let special = match a.code {
            attr::REGCOUNT => function(&format!("register count: {second}")),
            attr::FRAME_SIZE => function(&format!("frame size: {second:#x}")),
            attr::MIN_STACK_SIZE => function(&format!("min stack size: {second:#x}")),
            attr::EXTERNS => {
                let names: String = words.iter().map(|&w| format!("\t{}", self.named(w))).collect();
                Some(format!("externs:{names}\t"))
            }
            attr::LANGUAGE => {
                let name = |w: &u32| format!(" {}", LANGUAGES.get(*w as usize).unwrap_or(&"UNKNOWN"));
                Some(format!("Language:\t{}\n", words.iter().map(name).collect::<String>()))
            }
            attr::AT_ENTRY_FRAGMENTS => {
                let name = |w: &u32| match FRAGMENTS.get(*w as usize) {
                    Some(n) if !n.is_empty() => format!(" AT_ENTRY_FRAGMENT_{n}"),
                    _ => " unknown Attribute".into(),
                };
                Some(format!("At Entry Fragments :\t{}", words.iter().map(name).collect::<String>()))
            }
            attr::KPARAM_INFO | attr::KPARAM_INFO_V2 => parameter(a.code, &words),
            attr::ATOM16_EMUL_INSTR_REG_MAP => {
                let pair = |w: &[u32]| format!("({:#x}, {})  ", w[0], w[1] & 0xffff);
                Some(words.chunks_exact(2).map(pair).collect())
            }
            COROUTINES => Some(words.chunks_exact(2).map(|w| format!("({}, {:#x})  ", w[0], w[1])).collect()),
            attr::MBARRIER_INSTR_OFFSETS => Some(words.chunks_exact(4).map(barrier).collect()),
            attr::INDIRECT_BRANCH_TARGETS => Some(branches(&words)),
            INSTR_OFFSETS => {
                let kind = words.first().and_then(|&w| INSTRUCTIONS.get(w as usize)).unwrap_or(&"UNKNOWN");
                let places: String = words.iter().skip(1).map(|w| format!("\n\t\t{w:#x}")).collect();
                Some(format!("Instruction Kind : {kind}{places}"))
            }
            _ => None,
        };
        Some(special.unwrap_or_else(|| words.iter().map(|w| format!("{w:#x} ")).collect()))
    }
}

fn compat_value(a: &Attr) -> Option<String> {
    match a.value {
        Value::Half(h) if a.code == DRIVER_VERSION => Some(format!("{}.{}", h >> 8, h & 0xff)),
        Value::Half(h) if FINALIZER_VERSIONS.contains(&a.code) => {
            Some(format!("{}.{}.{}", h >> 10, h >> 6 & 0xf, h & 0x3f))
        }
        Value::Bytes(_) => Some(a.to_words().iter().map(|w| format!("{w:#x} ")).collect()),
        _ => a.to_words().first().map(|w| format!("{w:#x}")),
    }
}

/// A parameter: its number, its place, its size.
fn parameter(code: u8, words: &[u32]) -> Option<String> {
    let &[index, place, more, ..] = words else { return None };
    let start = |size: u32| {
        let (ordinal, offset) = (place & 0xffff, place >> 16);
        format!("Index : {index:#x}\tOrdinal : {ordinal:#x}\tOffset  : {offset:#x}\tSize    : {size:#x}\n\t\t")
    };
    let end = |align: u32, space: u32| format!("Pointee's logAlignment : {align:#x}\tSpace : {space:#x}\t");
    if code == attr::KPARAM_INFO_V2 {
        return Some(start(more & 0xffff) + &end(more >> 16 & 0xff, more >> 24));
    }
    let bank = more >> 12 & 0x1f;
    let memory = if more >> 17 & 1 == 0 { "CBANK" } else { "SMEM" };
    let tail = format!("cbank : {bank:#x}\tParameter Space : {memory}\t");
    Some(start(more >> 18) + &end(more & 0xff, more >> 8 & 0xf) + &tail)
}

/// An instruction with a barrier in memory.
fn barrier(w: &[u32]) -> String {
    let kind = match BARRIERS.get(w[3] as usize & 0xf) {
        Some(n) => format!("MBARRIER_{n}"),
        None => "Unknown Instruction".into(),
    };
    let stride = 4 << (w[3] >> 4 & 0xf);
    let uniform = w[3] >> 16 & 0xff;
    format!(
        "\n\t{:#x}\t:\tInstruction Kind : {kind}\t(R{} + UR{uniform} + {})\tStride : MBARRIER_STRIDE_X{stride}",
        w[0], w[1], w[2]
    )
}

/// Indirect branches, each with its targets: offset, two numbers, how many, their offsets.
fn branches(words: &[u32]) -> String {
    let mut parts = Vec::new();
    let mut rest = words;
    while let [at, _, count, more @ ..] = rest {
        let (targets, left) = more.split_at((*count as usize).min(more.len()));
        let list: String = targets.iter().map(|t| format!("{t:#x} ")).collect();
        parts.push(format!(
            "\n\t\tOffset of Indirect Branch: {at:#x}\t Number of targets: {count}\n\t\tTargets: {list}"
        ));
        rest = left;
    }
    parts.join("\n")
}
