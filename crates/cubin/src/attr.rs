//! Attributes: the entries of `.nv.info`, `.nv.info.<function>` and `.nv.compat`.
//!
//! An entry is a format, a code, and a payload: nothing (padded to two bytes), one byte (padded), two bytes, or a 16-bit length
//! and that many bytes. Names are those that `cuobjdump -elf` of 13.5 prints for each code.

use crate::elf::{u16_at, u32_at};
use diag::Diagnostic;

/// Of `.nv.compat`, not of `.nv.info`: 1 where the code is for a target with an `a`.
pub const COMPAT_ACCELERATED: u8 = 9;

/// An attribute without a value that entries for sm_80 to sm_88 have; `cuobjdump` has no name for it.
pub const SW2861232_WAR: u8 = 0x35;

/// An attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attr {
    /// What it says; for `.nv.info` one of the constants of this module.
    pub code: u8,
    /// Its value.
    pub value: Value,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Its presence is what it says; two bytes that are 0.
    None(u16),
    /// A byte, and one that is 0.
    Byte(u8, u8),
    /// Two bytes.
    Half(u16),
    /// Bytes.
    Bytes(Vec<u8>),
}

macro_rules! codes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        $(#[doc = concat!("`", $text, "`")] pub const $name: u8 = $code;)*

        /// The name of an attribute of `.nv.info`; none for an unknown code.
        pub fn name(code: u8) -> Option<&'static str> {
            match code { $($code => Some($text),)* _ => None }
        }
    };
}

codes! {
    CTAIDZ_USED = 0x04, "EIATTR_CTAIDZ_USED";
    MAX_THREADS = 0x05, "EIATTR_MAX_THREADS";
    SAMPLER_INIT = 0x09, "EIATTR_SAMPLER_INIT";
    PARAM_CBANK = 0x0a, "EIATTR_PARAM_CBANK";
    EXTERNS = 0x0f, "EIATTR_EXTERNS";
    REQNTID = 0x10, "EIATTR_REQNTID";
    FRAME_SIZE = 0x11, "EIATTR_FRAME_SIZE";
    MIN_STACK_SIZE = 0x12, "EIATTR_MIN_STACK_SIZE";
    SAMPLER_FORCE_UNNORMALIZED = 0x13, "EIATTR_SAMPLER_FORCE_UNNORMALIZED";
    BINDLESS_TEXTURE_BANK = 0x15, "EIATTR_BINDLESS_TEXTURE_BANK";
    BINDLESS_SURFACE_BANK = 0x16, "EIATTR_BINDLESS_SURFACE_BANK";
    KPARAM_INFO = 0x17, "EIATTR_KPARAM_INFO";
    CBANK_PARAM_SIZE = 0x19, "EIATTR_CBANK_PARAM_SIZE";
    MAXREG_COUNT = 0x1b, "EIATTR_MAXREG_COUNT";
    EXIT_INSTR_OFFSETS = 0x1c, "EIATTR_EXIT_INSTR_OFFSETS";
    CRS_STACK_SIZE = 0x1e, "EIATTR_CRS_STACK_SIZE";
    MAX_STACK_SIZE = 0x23, "EIATTR_MAX_STACK_SIZE";
    COOP_GROUP_INSTR_OFFSETS = 0x28, "EIATTR_COOP_GROUP_INSTR_OFFSETS";
    COOP_GROUP_MASK_REGIDS = 0x29, "EIATTR_COOP_GROUP_MASK_REGIDS";
    WMMA_USED = 0x2b, "EIATTR_WMMA_USED";
    ATOM16_EMUL_INSTR_REG_MAP = 0x2e, "EIATTR_ATOM16_EMUL_INSTR_REG_MAP";
    REGCOUNT = 0x2f, "EIATTR_REGCOUNT";
    INT_WARP_WIDE_INSTR_OFFSETS = 0x31, "EIATTR_INT_WARP_WIDE_INSTR_OFFSETS";
    SHARED_SCRATCH = 0x32, "EIATTR_SHARED_SCRATCH";
    INDIRECT_BRANCH_TARGETS = 0x34, "EIATTR_INDIRECT_BRANCH_TARGETS";
    SW_WAR = 0x36, "EIATTR_SW_WAR";
    CUDA_API_VERSION = 0x37, "EIATTR_CUDA_API_VERSION";
    NUM_MBARRIERS = 0x38, "EIATTR_NUM_MBARRIERS";
    MBARRIER_INSTR_OFFSETS = 0x39, "EIATTR_MBARRIER_INSTR_OFFSETS";
    CTA_PER_CLUSTER = 0x3d, "EIATTR_CTA_PER_CLUSTER";
    EXPLICIT_CLUSTER = 0x3e, "EIATTR_EXPLICIT_CLUSTER";
    MAX_CLUSTER_RANK = 0x3f, "EIATTR_MAX_CLUSTER_RANK";
    RESERVED_SMEM_USED = 0x41, "EIATTR_RESERVED_SMEM_USED";
    UNUSED_LOAD_BYTE_OFFSET = 0x44, "EIATTR_UNUSED_LOAD_BYTE_OFFSET";
    KPARAM_INFO_V2 = 0x45, "EIATTR_KPARAM_INFO_V2";
    SYSCALL_OFFSETS = 0x46, "EIATTR_SYSCALL_OFFSETS";
    VRC_CTA_INIT_COUNT = 0x4a, "EIATTR_VRC_CTA_INIT_COUNT";
    TOOLS_PATCH_FUNC = 0x4b, "EIATTR_TOOLS_PATCH_FUNC";
    NUM_BARRIERS = 0x4c, "EIATTR_NUM_BARRIERS";
    TEXMODE_INDEPENDENT = 0x4d, "EIATTR_TEXMODE_INDEPENDENT";
    AT_ENTRY_FRAGMENTS = 0x4f, "EIATTR_AT_ENTRY_FRAGMENTS";
    SPARSE_MMA_MASK = 0x50, "EIATTR_SPARSE_MMA_MASK";
    TCGEN05_1CTA_USED = 0x51, "EIATTR_TCGEN05_1CTA_USED";
    TCGEN05_2CTA_USED = 0x52, "EIATTR_TCGEN05_2CTA_USED";
    GEN_ERRBAR_AT_EXIT = 0x53, "EIATTR_GEN_ERRBAR_AT_EXIT";
    REG_RECONFIG = 0x54, "EIATTR_REG_RECONFIG";
    ANNOTATIONS = 0x55, "EIATTR_ANNOTATIONS";
    STUB_FUNCTION_KIND = 0x58, "EIATTR_STUB_FUNCTION_KIND";
    BLOCKS_ARE_CLUSTERS = 0x5b, "EIATTR_BLOCKS_ARE_CLUSTERS";
    SANITIZE = 0x5c, "EIATTR_SANITIZE";
    MERCURY_ISA_VERSION = 0x5f, "EIATTR_MERCURY_ISA_VERSION";
    CLUSTER_LAUNCH_CONTROL_USED = 0x62, "EIATTR_CLUSTER_LAUNCH_CONTROL_USED";
    LANGUAGE = 0x66, "EIATTR_LANGUAGE";
    GRID_ATTRIBUTES = 0x68, "EIATTR_GRID_ATTRIBUTES";
    NVSAL_SW_WAR = 0x6b, "EIATTR_NVSAL_SW_WAR";
    PREEXIT_USED = 0x6d, "EIATTR_PREEXIT_USED";
}

/// Reads the attributes of a section.
///
/// # Errors
/// Where an entry has an unknown format or does not end inside of the section.
pub fn read(data: &[u8]) -> Result<Vec<Attr>, Diagnostic> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let cut = || Diagnostic::error(format!("not a valid cubin: the attribute at 0x{at:x} is cut off"));
        if data.len() - at < 4 {
            return Err(cut());
        }
        let (code, word) = (data[at + 1], u16_at(data, at + 2));
        let mut end = at + 4;
        let value = match data[at] {
            1 => Value::None(word),
            2 => Value::Byte(word as u8, (word >> 8) as u8),
            3 => Value::Half(word),
            4 => {
                end += word as usize;
                Value::Bytes(data.get(at + 4..end).ok_or_else(cut)?.to_vec())
            }
            n => {
                let m = format!("not a valid cubin: the attribute at 0x{at:x} has the unknown format {n}");
                return Err(Diagnostic::error(m));
            }
        };
        out.push(Attr { code, value });
        at = end;
    }
    Ok(out)
}

/// The bytes of a list of attributes. A payload longer than 65535 bytes cannot be written; only the part that fits is.
pub fn write(attrs: &[Attr]) -> Vec<u8> {
    let mut out = Vec::new();
    for a in attrs {
        let (format, word) = match &a.value {
            Value::None(pad) => (1, *pad),
            Value::Byte(b, pad) => (2, *b as u16 | (*pad as u16) << 8),
            Value::Half(h) => (3, *h),
            Value::Bytes(b) => (4, b.len().min(u16::MAX as usize) as u16),
        };
        out.extend([format, a.code]);
        out.extend(word.to_le_bytes());
        if let Value::Bytes(b) = &a.value {
            out.extend(&b[..word as usize]);
        }
    }
    out
}

impl Attr {
    /// An attribute without a value.
    pub fn none(code: u8) -> Attr {
        Attr { code, value: Value::None(0) }
    }

    /// A byte.
    pub fn byte(code: u8, n: u8) -> Attr {
        Attr { code, value: Value::Byte(n, 0) }
    }

    /// Two bytes.
    pub fn half(code: u8, n: u16) -> Attr {
        Attr { code, value: Value::Half(n) }
    }

    /// What a compiler notes of a function under `-annotate`: kind 3, the length of the text with its end, the text, padding to
    /// whole words (as ptxas 13.5.37 writes it).
    pub fn function_note(text: &str) -> Attr {
        let mut bytes = 3u32.to_le_bytes().to_vec();
        bytes.extend((text.len() as u32 + 1).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        Attr { code: ANNOTATIONS, value: Value::Bytes(bytes) }
    }

    /// 32-bit words.
    pub fn words(code: u8, words: impl IntoIterator<Item = u32>) -> Attr {
        Attr { code, value: Value::Bytes(words.into_iter().flat_map(u32::to_le_bytes).collect()) }
    }

    /// The payload as 32-bit words; a scalar value is one word.
    pub fn to_words(&self) -> Vec<u32> {
        match &self.value {
            Value::None(_) => Vec::new(),
            Value::Byte(b, _) => vec![*b as u32],
            Value::Half(h) => vec![*h as u32],
            Value::Bytes(b) => (0..b.len() / 4).map(|i| u32_at(b, i * 4)).collect(),
        }
    }
}
