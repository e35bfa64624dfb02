//! `.nv.info`, `.nv.info.FUNCTION`: attributes as text.
//!
//! The vendor's tool knows for each attribute what its payload is made of. The table holds that as a short string, read
//! off what release 13.5 prints for a file with one attribute of each code.

use super::sections::{Items, rows_of_bytes};
use cubin::attr::{self, Attr, Value};
use std::fmt::Write as _;

/// Code, name, payload: `w` a word, `h` a half, `b` a byte, `d` eight bytes, `o` an offset in the code, `s` a symbol;
/// `(..)` repeats to the end, each round with its number; `*` repeats the last without. What is left over is bytes.
#[rustfmt::skip]
static ATTRIBUTES: &[(u8, &str, &str)] = &[
    (0x00, "ERROR", ""), (0x01, "PAD", ""), (0x02, "IMAGE_SLOT", "sw"), (0x03, "JUMPTABLE_RELOCS", "www"),
    (0x04, "CTAIDZ_USED", ""), (0x05, "MAX_THREADS", "www"), (0x06, "IMAGE_OFFSET", "shhhh"), (0x07, "IMAGE_SIZE", "swww"),
    (0x08, "TEXTURE_NORMALIZED", "sw"), (0x09, "SAMPLER_INIT", "sbbbb"), (0x0a, "PARAM_CBANK", "shh"),
    (0x0b, "SMEM_PARAM_OFFSETS", "(w)"), (0x0c, "CBANK_PARAM_OFFSETS", "(w)"), (0x0d, "SYNC_STACK", "hhhh"),
    (0x0e, "TEXID_SAMPID_MAP", "ww"), (0x0f, "EXTERNS", "(s)"), (0x10, "REQNTID", "www"), (0x11, "FRAME_SIZE", "sw"),
    (0x12, "MIN_STACK_SIZE", "sw"), (0x13, "SAMPLER_FORCE_UNNORMALIZED", "sw"), (0x14, "BINDLESS_IMAGE_OFFSETS", "s"),
    (0x15, "BINDLESS_TEXTURE_BANK", ""), (0x16, "BINDLESS_SURFACE_BANK", ""), (0x17, "KPARAM_INFO", "shh"),
    (0x18, "SMEM_PARAM_SIZE", ""), (0x19, "CBANK_PARAM_SIZE", ""), (0x1a, "QUERY_NUMATTRIB", "bbbb"),
    (0x1b, "MAXREG_COUNT", ""), (0x1c, "EXIT_INSTR_OFFSETS", "(o)"), (0x1d, "S2RCTAID_INSTR_OFFSETS", "(o)"),
    (0x1e, "CRS_STACK_SIZE", "w"), (0x1f, "NEED_CNP_WRAPPER", ""), (0x20, "NEED_CNP_PATCH", ""),
    (0x21, "EXPLICIT_CACHING", ""), (0x22, "ISTYPEP_USED", ""), (0x23, "MAX_STACK_SIZE", "sw"), (0x24, "SUQ_USED", ""),
    (0x25, "LD_CACHEMOD_INSTR_OFFSETS", "(o)"), (0x26, "LOAD_CACHE_REQUEST", "sw"), (0x27, "ATOM_SYS_INSTR_OFFSETS", "(o)"),
    (0x28, "COOP_GROUP_INSTR_OFFSETS", "(o)"), (0x29, "COOP_GROUP_MASK_REGIDS", "(w)"), (0x2a, "UNKNOWN", ""),
    (0x2b, "WMMA_USED", ""), (0x2c, "HAS_PRE_V10_OBJECT", ""), (0x2d, "ATOMF16_EMUL_INSTR_OFFSETS", "(o)"),
    (0x2e, "ATOM16_EMUL_INSTR_REG_MAP", "(ohh)"), (0x2f, "REGCOUNT", "sw"), (0x30, "UNKNOWN", ""),
    (0x31, "INT_WARP_WIDE_INSTR_OFFSETS", "(o)"), (0x32, "SHARED_SCRATCH", "ww"), (0x33, "STATISTICS", "(w)"),
    (0x34, "INDIRECT_BRANCH_TARGETS", ""), (0x35, "UNKNOWN", ""), (0x36, "UNKNOWN", "w"), (0x37, "CUDA_API_VERSION", "w"),
    (0x38, "NUM_MBARRIERS", ""), (0x39, "MBARRIER_INSTR_OFFSETS", "(owwhbb)"), (0x3a, "COROUTINE_RESUME_ID_OFFSETS", "(wo)"),
    (0x3b, "SAM_REGION_STACK_SIZE", "sw"), (0x3c, "PER_REG_TARGET_PERF_STATS", "(dd)"), (0x3d, "CTA_PER_CLUSTER", "www"),
    (0x3e, "EXPLICIT_CLUSTER", ""), (0x3f, "MAX_CLUSTER_RANK", "w"), (0x40, "INSTR_REG_MAP", "obbhw"),
    (0x41, "RESERVED_SMEM_USED", ""), (0x42, "RESERVED_SMEM_0_SIZE", ""), (0x43, "UCODE_SECTION_DATA", "(b)"),
    (0x44, "UNUSED_LOAD_BYTE_OFFSET", "(ow)"), (0x45, "KPARAM_INFO_V2", "shhh"), (0x46, "SYSCALL_OFFSETS", "(o)"),
    (0x47, "UNKNOWN", "(o)"), (0x48, "GRAPHICS_GLOBAL_CBANK", "w"), (0x49, "SHADER_TYPE", ""), (0x4a, "VRC_CTA_INIT_COUNT", ""),
    (0x4b, "TOOLS_PATCH_FUNC", ""), (0x4c, "NUM_BARRIERS", ""), (0x4d, "TEXMODE_INDEPENDENT", ""),
    (0x4e, "PERF_STATISTICS", ""), (0x4f, "AT_ENTRY_FRAGMENTS", "(w)"), (0x50, "SPARSE_MMA_MASK", "h"),
    (0x51, "TCGEN05_1CTA_USED", ""), (0x52, "TCGEN05_2CTA_USED", ""), (0x53, "GEN_ERRBAR_AT_EXIT", ""), (0x54, "REG_RECONFIG", ""),
    (0x55, "ANNOTATIONS", "(wo)"), (0x57, "STACK_CANARY_TRAP_OFFSETS", "(o)"), (0x58, "STUB_FUNCTION_KIND", ""),
    (0x59, "LOCAL_CTA_ASYNC_STORE_OFFSETS", "(o)"), (0x5a, "UNKNOWN", "(hh)"), (0x5b, "BLOCKS_ARE_CLUSTERS", ""),
    (0x5c, "SANITIZE", "h"), (0x5d, "SYSCALLS_FALLBACK", "(s)"), (0x5e, "CUDA_REQ", "w"), (0x5f, "UNKNOWN", ""), (0x60, "UNKNOWN", ""),
    (0x61, "RTCORE_ENTRY", ""), (0x62, "CLUSTER_LAUNCH_CONTROL_USED", ""), (0x63, "UNKNOWN", ""),
    (0x64, "MIN_PER_CTA_MEMORY_SIZE", "w"), (0x65, "IGNOREOOB_CP_ASYNC_BULK_INSTR_OFFSETS", "(o)"), (0x66, "LANGUAGE", "(w)"),
    (0x67, "UNKNOWN", ""), (0x68, "GRID_ATTRIBUTES", "h"), (0x69, "STACK_OFFSET", "w"), (0x6a, "RT_LIVESTATE_SASS_MAP", "(ow)"),
    (0x6b, "UNKNOWN", ""), (0x6c, "INSTR_OFFSETS", "wo*"), (0x6d, "PREEXIT_USED", ""), (0x6e, "UNKNOWN", ""),
    (0x6f, "ERROR_LAST", ""),
];

/// The name of an attribute as other tools have it; none for an unknown code.
pub(crate) fn attribute_name(code: u8) -> Option<String> {
    known(code).filter(|a| a.1 != "UNKNOWN" && a.1 != "ERROR_LAST").map(|a| format!("EIATTR_{}", a.1))
}

fn known(code: u8) -> Option<&'static (u8, &'static str, &'static str)> {
    ATTRIBUTES.iter().find(|a| a.0 == code)
}

/// What a payload is made of, piece by piece: the letter, its offset in the payload, the number of the round it opens.
fn pieces(code: u8, bytes: &[u8]) -> Vec<(char, usize, Option<usize>)> {
    let mut out = Vec::new();
    let shape = known(code).map_or("", |a| a.2);
    let (head, round) = match (shape.strip_prefix('('), shape.strip_suffix('*')) {
        (Some(round), _) => ("", round.trim_end_matches(')')),
        (None, Some(star)) => star.split_at(star.len() - 1),
        _ => (shape, ""),
    };
    let listed = shape.starts_with('(');
    let mut at = 0;
    let mut take = |letters: &str, number: Option<usize>, at: &mut usize| -> bool {
        let size: usize = letters.chars().map(size_of).sum();
        if *at + size > bytes.len() {
            return false;
        }
        for (n, c) in letters.chars().enumerate() {
            out.push((c, *at, number.filter(|_| n == 0)));
            *at += size_of(c);
        }
        true
    };
    if head.is_empty() || take(head, None, &mut at) {
        let mut n = 0;
        while !round.is_empty() && take(round, listed.then_some(n), &mut at) {
            n += 1;
        }
    } else {
        // Too short for all of it: as many pieces as there are.
        for c in head.chars() {
            if !take(c.encode_utf8(&mut [0; 4]), None, &mut at) {
                break;
            }
        }
    }
    out
}

fn size_of(c: char) -> usize {
    match c {
        'b' => 1,
        'h' => 2,
        'd' => 8,
        _ => 4,
    }
}

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    bytes.get(at..at + size).map_or(0, |b| b.iter().rev().fold(0, |n, b| n << 8 | *b as u64))
}

/// The offsets of instructions that an attribute lists, in order.
pub(super) fn offsets(code: u8, bytes: &[u8]) -> Vec<u64> {
    if code == ANNOTATIONS {
        let list = annotations(&Attr { code, value: Value::Bytes(bytes.to_vec()) });
        return list.into_iter().filter_map(|n| n.offset).collect();
    }
    pieces(code, bytes).iter().filter(|p| p.0 == 'o').map(|p| number(bytes, p.1, 4)).collect()
}

/// Prints the attributes of a section; `label` is the number of the next label `.L_n`. `place` names an offset in the code.
pub(super) fn print(
    out: &mut String,
    list: &[Attr],
    label: &mut usize,
    items: &Items,
    place: &dyn Fn(u64) -> Option<String>,
) -> Result<(), String> {
    let mut at = 0usize;
    let mut pending: Option<usize> = None;
    for a in list {
        let name = known(a.code).map_or("<unknown>".to_string(), |k| format!("EIATTR_{}", k.1));
        let _ = write!(out, "\n\n\t//----- nvinfo : {name}\n\t.align\t\t4\n");
        if let Some(n) = pending.take() {
            let _ = writeln!(out, ".L_{n}:");
        }
        let format = match a.value {
            Value::None(_) => 1,
            Value::Byte(..) => 2,
            Value::Half(_) => 3,
            Value::Bytes(_) => 4,
        };
        let _ = writeln!(out, "        /*{at:04x}*/ \t.byte\t{format:#04x}, {:#04x}", a.code);
        match &a.value {
            Value::None(pad) => rows_of_bytes(out, at as u64 + 2, &pad.to_le_bytes()),
            Value::Byte(b, pad) => {
                byte(out, at + 2, *b);
                byte(out, at + 3, *pad);
            }
            Value::Half(h) => _ = writeln!(out, "        /*{:04x}*/ \t.short\t{h:#06x}", at + 2),
            Value::Bytes(bytes) if bytes.is_empty() => {
                let _ = writeln!(out, "        /*{:04x}*/ \t.short\t0x0000", at + 2);
            }
            Value::Bytes(bytes) => {
                let _ = writeln!(out, "        /*{:04x}*/ \t.short\t(.L_{} - .L_{})", at + 2, *label + 1, *label);
                payload(out, a.code, bytes, at + 4, *label, items, place)?;
                pending = Some(*label + 1);
                *label += 2;
                at += bytes.len();
            }
        }
        at += 4;
    }
    if let Some(n) = pending {
        let _ = writeln!(out, ".L_{n}:");
    }
    Ok(())
}

fn byte(out: &mut String, at: usize, b: u8) {
    match b {
        0 => out.push_str("\t.zero\t\t1\n"),
        b => _ = writeln!(out, "        /*{at:04x}*/ \t.byte\t{b:#04x}"),
    }
}

fn payload(
    out: &mut String,
    code: u8,
    bytes: &[u8],
    base: usize,
    label: usize,
    items: &Items,
    place: &dyn Fn(u64) -> Option<String>,
) -> Result<(), String> {
    if code == attr::INDIRECT_BRANCH_TARGETS {
        return branches(out, bytes, base, label, place);
    }
    if code == ANNOTATIONS {
        notes(out, bytes, base, label, place);
        return Ok(());
    }
    let list = pieces(code, bytes);
    let mut end = 0;
    let place = |n: u64| place(n).map_or(format!("{n:#010x}"), |l| format!("{l}@srel"));
    for (n, (c, at, round)) in list.into_iter().enumerate() {
        if let Some(round) = round {
            let _ = write!(out, "\n\n\t//   ....[{round}]....\n");
        }
        let value = number(bytes, at, size_of(c));
        if c == 's' && value != 0 {
            out.push_str("\t.align\t\t4\n");
        }
        if n == 0 {
            let _ = writeln!(out, ".L_{label}:");
        }
        let from = base + at;
        let _ = match c {
            'b' => {
                byte(out, from, value as u8);
                Ok(())
            }
            'h' => writeln!(out, "        /*{from:04x}*/ \t.short\t{value:#06x}"),
            'd' => writeln!(out, "        /*{from:04x}*/ \t.dword\t{value:#018x}"),
            'o' => writeln!(out, "        /*{from:04x}*/ \t.word\t{}", place(value)),
            's' if value != 0 => {
                let name = items.symbol(value as usize).ok_or(format!("Unknown symbol index: {value}"))?;
                writeln!(out, "        /*{from:04x}*/ \t.word\tindex@({name})")
            }
            _ => writeln!(out, "        /*{from:04x}*/ \t.word\t{value:#010x}"),
        };
        end = at + size_of(c);
    }
    if end == 0 {
        let _ = writeln!(out, ".L_{label}:");
    }
    rows_of_bytes(out, (base + end) as u64, &bytes[end..]);
    Ok(())
}

/// What the compiler noted (`ptxas -annotate`).
const ANNOTATIONS: u8 = 0x55;

/// What is said of an instruction with a note of kind 1, which has no text: it saves a register to local memory or loads it again.
pub(super) const SPILL: &str = "SpillRefill";

/// A note of the compiler: where it lies in the attribute, the instruction that it is about (none: the function), its text.
pub(super) struct Note {
    at: usize,
    kind: u64,
    /// Offset of an instruction.
    pub offset: Option<u64>,
    text: std::ops::Range<usize>,
    /// What it says.
    pub says: String,
}

/// The notes of an attribute: a kind (1 and 2: of an instruction, 3: of the function), for an instruction its offset, but with kind 1 the size of
/// a text and the text, filled up to four bytes.
pub(super) fn annotations(a: &Attr) -> Vec<Note> {
    let mut out = Vec::new();
    let (ANNOTATIONS, Value::Bytes(bytes)) = (a.code, &a.value) else { return out };
    let mut at = 0;
    while at + 8 <= bytes.len() {
        let kind = number(bytes, at, 4);
        let offset = matches!(kind, 1 | 2).then(|| number(bytes, at + 4, 4));
        if kind == 1 {
            out.push(Note { at, kind, offset, text: at + 8..at + 8, says: SPILL.into() });
            at += 8;
            continue;
        }
        let head = at + if offset.is_some() { 12 } else { 8 };
        let size = number(bytes, head - 4, 4) as usize;
        let end = head.saturating_add(size).next_multiple_of(4).min(bytes.len());
        let Some(text) = bytes.get(head..end) else { break };
        let says = text.split(|b| *b == 0).next().unwrap_or_default();
        out.push(Note { at, kind, offset, text: head..end, says: String::from_utf8_lossy(says).into_owned() });
        at = end;
    }
    out
}

fn notes(out: &mut String, bytes: &[u8], base: usize, label: usize, place: &dyn Fn(u64) -> Option<String>) {
    let _ = write!(out, "\n\n\t//   ....[0]....\n.L_{label}:\n");
    let mut end = 0;
    for note in annotations(&Attr { code: ANNOTATIONS, value: Value::Bytes(bytes.to_vec()) }) {
        let from = base + note.at;
        let _ = writeln!(out, "        /*{from:04x}*/ \t.word\t{:#010x}", note.kind);
        if let Some(n) = note.offset {
            let name = place(n).map_or(format!("{n:#010x}"), |l| format!("{l}@srel"));
            let _ = writeln!(out, "        /*{:04x}*/ \t.word\t{name}", from + 4);
        }
        if note.kind != 1 {
            let size = base + note.text.start - 4;
            let value = number(bytes, note.text.start - 4, 4);
            let _ = writeln!(out, "        /*{size:04x}*/ \t.word\t{value:#010x}");
        }
        end = note.text.end;
        rows_of_bytes(out, (base + note.text.start) as u64, &bytes[note.text]);
    }
    rows_of_bytes(out, (base + end) as u64, &bytes[end..]);
}

/// Records of an offset, two halves, a count and so many targets.
fn branches(
    out: &mut String,
    bytes: &[u8],
    base: usize,
    label: usize,
    place: &dyn Fn(u64) -> Option<String>,
) -> Result<(), String> {
    let name = |n: u64| place(n).map_or(format!("{n:#010x}"), |l| format!("{l}@srel"));
    let (mut at, mut round) = (0, 0);
    while at + 12 <= bytes.len() {
        let _ = write!(out, "\n\n\t//   ....[{round}]....\n");
        if round == 0 {
            let _ = writeln!(out, ".L_{label}:");
        }
        let (from, count) = (base + at, number(bytes, at + 8, 4));
        let _ = writeln!(out, "        /*{from:04x}*/ \t.word\t{}", name(number(bytes, at, 4)));
        for half in [4, 6] {
            let value = number(bytes, at + half, 2);
            let _ = writeln!(out, "        /*{:04x}*/ \t.short\t{value:#x}", from + half);
        }
        let _ = writeln!(out, "        /*{:04x}*/ \t.word\t{count:#x}", from + 8);
        at += 12;
        for _ in 0..count {
            if at + 4 > bytes.len() {
                return Err("Accessing out of bound memory".into());
            }
            let _ = writeln!(out, "        /*{:04x}*/ \t.word\t{}", base + at, name(number(bytes, at, 4)));
            at += 4;
        }
        round += 1;
    }
    Ok(())
}
