//! Modifiers of which an instruction takes one, written twice: what the vendor's tool says of each kind.

use crate::access::{AtomOp, CacheOp, CmpOp, Rounding, Scope};
use crate::isa::{Mod, Op};
use crate::module::Inst;

/// Modifiers that may be written twice.
pub(super) const MAY_REPEAT: [Mod; 9] =
    [Mod::Sync, Mod::Sat, Mod::Satfinite, Mod::NaN, Mod::Approx, Mod::Relu, Mod::Cc, Mod::Uni, Mod::Shiftamt];

/// Of what there may be one: `None` where the words are told apart otherwise.
fn kind(op: Op, word: Mod) -> Option<&'static str> {
    let name = word.name();
    let compares = matches!(op, Op::Setp | Op::Set | Op::Vset | Op::Vset2 | Op::Vset4);
    let bars = matches!(op, Op::Bar | Op::Barrier);
    let reduces =
        matches!(op, Op::Atom | Op::Red | Op::Redux | Op::Multimem | Op::Cp | Op::Sured | Op::Lop3 | Op::Tcgen05);
    Some(match word {
        _ if Rounding::from_mod(word).is_some() => "Multiple rounding modifiers specified",
        _ if compares && CmpOp::from_mod(word).is_some() => "Multiple comparisons set",
        _ if reduces && AtomOp::from_mod(word).is_some() => "Multiple instruction post-operation flags set",
        _ if Scope::from_mod(word).is_some() && !matches!(op, Op::Bar | Op::Barrier) => {
            "Multiple scope modifiers specified"
        }
        _ if CacheOp::from_mod(word).is_some() => "Multiple cache operation modifiers specified",
        Mod::And | Mod::Or | Mod::Xor if compares => "Multiple instruction post-operation flags set",
        Mod::And | Mod::Or | Mod::Popc if bars => "Multiple instruction post-operation flags set",
        Mod::X1 | Mod::X2 | Mod::X4 | Mod::X8 | Mod::X16 | Mod::X32 | Mod::X64 | Mod::X128 => {
            "Multiple .num modifiers specified"
        }
        Mod::L2 => "Multiple cache operation modifiers specified",
        Mod::V2 | Mod::V4 | Mod::V8 => "Multiple vector modifiers specified",
        Mod::Up | Mod::Down | Mod::Bfly | Mod::Idx if op == Op::Shfl => "Multiple shuffle modifiers specified",
        Mod::F4e | Mod::B4e | Mod::Rc8 | Mod::Ecl | Mod::Ecr | Mod::Rc16 => "Multiple permute modifiers specified",
        Mod::Clamp | Mod::Wrap | Mod::Zero | Mod::Trap => "Multiple clamp modifiers specified",
        Mod::Finite | Mod::Infinite | Mod::Number | Mod::Notanumber | Mod::Normal | Mod::Subnormal => {
            "Multiple testp operation modifiers specified"
        }
        Mod::Sp | Mod::SpOrderedMetadata => "Multiple sparsity modifiers specified",
        Mod::Width
        | Mod::Height
        | Mod::Depth
        | Mod::ChannelDataType
        | Mod::ChannelOrder
        | Mod::NormalizedCoords
        | Mod::ForceUnnormalizedCoords
        | Mod::FilterMode
        | Mod::AddrMode0
        | Mod::AddrMode1
        | Mod::AddrMode2
        | Mod::ArraySize
        | Mod::NumMipmapLevels
        | Mod::NumSamples
        | Mod::MemoryLayout => "Multiple query modifiers specified",
        Mod::Min | Mod::Max | Mod::Add if op.name().starts_with('v') => "Multiple instruction post-operation flags set",
        Mod::N1d
        | Mod::N2d
        | Mod::N3d
        | Mod::N4d
        | Mod::N5d
        | Mod::A1d
        | Mod::A2d
        | Mod::Cube
        | Mod::Acube
        | Mod::N2dms
        | Mod::A2dms => "Multiple dimension modifiers specified",
        Mod::Tile
        | Mod::TileGather4
        | Mod::TileScatter4
        | Mod::Im2col
        | Mod::Im2colW
        | Mod::Im2colW128
        | Mod::Im2colNoOffs => "Multiple .load_mode modifiers specified",
        Mod::All | Mod::Any | Mod::Uni | Mod::Ballot if op == Op::Vote => "Multiple vote modifiers specified",
        Mod::B8x16 | Mod::B6x16P32 | Mod::B4x16P64 if op != Op::Cvt => return None,
        _ if name.starts_with("collector::") => "Multiple .collector_usage modifiers specified",
        _ if name.starts_with("kind::") => "Multiple .kind modifiers specified",
        _ if name.starts_with("scale_vec::") => "Multiple .scale_vec_size modifiers specified",
        _ if is_shape(name) => "Multiple matrix shape modifiers specified",
        _ => return None,
    })
}

/// `m16n8k16`, `m8n8`, `32x32b`.
pub(super) fn is_shape(name: &str) -> bool {
    let number = |c: Option<u8>| c.is_some_and(|b| b.is_ascii_digit());
    let bytes = name.as_bytes();
    bytes.first() == Some(&b'm') && number(bytes.get(1).copied()) && name.contains('n')
        || number(bytes.first().copied()) && name.contains('x') && name.contains('b')
}

/// The message for an instruction that has something twice, if it has.
pub(super) fn repeated(inst: &Inst) -> Option<String> {
    let layouts = inst.mods.iter().filter(|m| matches!(m, Mod::Row | Mod::Col)).count();
    let wmma = matches!(inst.op, Op::Wmma) && !inst.has(Mod::Mma);
    if wmma && layouts > 1 {
        return Some(format!("layout modifier required for instruction '{}'", super::forms::name(inst)));
    }
    if matches!(inst.op, Op::Ldmatrix | Op::Tcgen05) {
        let formats = |m: &&Mod| matches!(m, Mod::B8x16 | Mod::B6x16P32 | Mod::B4x16P64);
        let formats = inst.mods.iter().filter(formats).count();
        if !matches!(formats, 0 | 2) && inst.types().iter().all(|t| t.name().contains("x16")) {
            return Some("Unexpected number of 'format conversion' modifiers specified".to_string());
        }
    }
    if matches!(inst.op, Op::Mma | Op::Wmma) && layouts > 2 {
        let last = inst.mods.iter().rev().find(|m| matches!(m, Mod::Row | Mod::Col))?;
        return Some(format!("Parsing error near '.{}': too many layout specifiers", last.name()));
    }
    let order = |m: &&Mod| matches!(m, Mod::Relaxed | Mod::Acquire | Mod::Release | Mod::AcqRel | Mod::Sc);
    if let [_, second, ..] = inst.mods.iter().filter(order).collect::<Vec<_>>()[..]
        && !matches!(inst.op, Op::Fence)
    {
        return Some(format!("Duplicate .{} modifier", second.name()));
    }
    for (i, &word) in inst.mods.iter().enumerate() {
        let before = &inst.mods[..i];
        if let Some(kind_here) = kind(inst.op, word) {
            if before.iter().any(|&b| kind(inst.op, b) == Some(kind_here)) {
                let plain = |m: &Mod| matches!(m, Mod::N1d | Mod::N2d | Mod::N3d | Mod::N4d | Mod::N5d);
                let geometries = || inst.mods.iter().filter(|&&m| kind(inst.op, m) == Some(kind_here));
                if kind_here.contains("dimension") && !geometries().all(plain) {
                    return Some("Multiple texture modifiers specified".to_string());
                }
                return Some(kind_here.to_string());
            }
            continue;
        }
        if matches!(word, Mod::CtaGroup1 | Mod::CtaGroup2)
            && before.iter().any(|b| matches!(b, Mod::CtaGroup1 | Mod::CtaGroup2))
        {
            return Some(format!("Multiple .{} modifiers specified", word.name()));
        }
        if !before.contains(&word) || crate::types::ScalarType::from_mod(word).is_some() {
            continue;
        }
        let message = match word {
            Mod::Popc if inst.op == Op::Mma => {
                let shape = inst.mods.iter().find(|m| is_shape(m.name())).map_or("", |m| m.name());
                Some(format!("Unexpected number of operations specified for mma with shape '.{shape}'"))
            }
            Mod::Ftz
            | Mod::Oob
            | Mod::Volatile
            | Mod::Nc
            | Mod::Relaxed
            | Mod::Acquire
            | Mod::Release
            | Mod::AcqRel
            | Mod::Sc
            | Mod::Weak
            | Mod::Noftz
            | Mod::Mmio => Some(format!("Duplicate .{} modifier", word.name())),
            word if MAY_REPEAT.contains(&word) => None,
            _ if crate::types::Space::from_mod(word).is_some() => None,
            Mod::Lo | Mod::Hi | Mod::Wide | Mod::Full | Mod::Row | Mod::Col => None,
            _ => Some(format!("Multiple .{} modifiers specified", word.name())),
        };
        if message.is_some() {
            return message;
        }
    }
    None
}
