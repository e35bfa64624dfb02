//! Which forms of the table the modifiers of an instruction fit, and what is wrong where they fit none.

use super::Checker;
use crate::access::{CmpOp, Rounding};
use crate::isa::{Count, Form, Mod, Op, OperandForm, Slot};
use crate::module::{Inst, Operand};
use crate::types::ScalarType;
use diag::Diagnostic;
use smallvec::SmallVec;
use std::rc::Rc;

/// The types that a form's slots have in an instruction.
pub(super) type Types = [Option<ScalarType>; 6];

/// A form that the modifiers fit.
pub(super) struct Fit {
    pub form: &'static Form,
    pub types: Types,
    /// The operands that the modifiers call for.
    pub operands: SmallVec<[&'static OperandForm; 6]>,
}

/// The forms that a head fits.
pub(super) type Fits = Rc<[Fit]>;

/// Fits of the heads of the module by their number, and what has passed of each; nothing for one without fits and for one
/// that is reported each time.
#[derive(Default)]
pub(super) struct Cache(pub(super) Vec<Option<(Fits, super::shape::Passed)>>);

/// How far modifiers are from a form.
struct Miss {
    form: &'static Form,
    /// The types of the modifiers that fit.
    found: Types,
    extra: Vec<Mod>,
    missing: Option<&'static crate::isa::Group>,
    types: bool,
    /// The operation of an `atom` or `red` is another one.
    operation: bool,
    /// Words of the name that are not there.
    unnamed: usize,
}

impl Miss {
    /// Lower is nearer. A wrong type counts most: the others are told for the form that the types name.
    fn distance(&self) -> usize {
        self.extra.len() * 2
            + usize::from(self.missing.is_some())
            + if self.types { 20 } else { 0 }
            + if self.operation { 40 } else { 0 }
            + self.unnamed * 1000
    }
}

/// Fits the modifiers to a form. How far they are from it is said only if `thorough`: few instructions fit no form of their
/// operation, and most forms are not the one.
fn fit(form: &'static Form, all: &[Mod], thorough: bool) -> Result<Fit, Option<Miss>> {
    let named = all.iter().zip(form.name).take_while(|(a, b)| a == b).count();
    if named < form.name.len() {
        return Err(thorough.then(|| Miss {
            form,
            found: [None; 6],
            extra: Vec::new(),
            missing: None,
            types: false,
            operation: false,
            unnamed: form.name.len() - named,
        }));
    }
    let mods = &all[named..];
    let mut used: u32 = 0;
    let mut types: Types = [None; 6];
    let mut extra = Vec::new();
    let mut wrong_type = false;
    for &m in mods {
        let found = form.groups.iter().enumerate().find(|&(i, g)| {
            // Types are told apart by their order, as are ordered words; all others by their words.
            let before = |h: &crate::isa::Group| match g.slot {
                None => false,
                Some(Slot::Order) => h.slot == Some(Slot::Order) && class(h.words[0].word) == class(g.words[0].word),
                Some(_) => h.slot.is_some_and(|s| s != Slot::Order),
            };
            let in_order = || (0..i).all(|j| !before(&form.groups[j]) || used & 1 << j != 0);
            used & 1 << i == 0 && g.words.iter().any(|w| w.word == m) && in_order()
        });
        match found {
            Some((i, g)) => {
                used |= 1 << i;
                if let Some(slot) = g.slot {
                    types[slot as usize] = ScalarType::from_mod(m);
                }
            }
            // These may be written twice.
            None if super::repeat::MAY_REPEAT.contains(&m)
                && all.iter().filter(|&&o| o == m).count() > 1
                && (form.name.contains(&m) || form.groups.iter().any(|g| g.words.iter().any(|w| w.word == m))) => {}
            None if !thorough => return Err(None),
            None => {
                wrong_type |= ScalarType::from_mod(m).is_some();
                extra.push(m);
            }
        }
    }
    let missing = form.groups.iter().enumerate().find(|(i, g)| !g.optional && used & 1 << i == 0).map(|(_, g)| g);
    if extra.is_empty() && missing.is_none() {
        let called = |o: &&OperandForm| o.when.is_none_or(|w| all.contains(&w));
        return Ok(Fit { form, types, operands: form.operands.iter().filter(called).collect() });
    }
    if !thorough {
        return Err(None);
    }
    let missing_type = form.groups.iter().enumerate().any(|(i, g)| {
        !g.optional && used & 1 << i == 0 && g.words.iter().all(|w| ScalarType::from_mod(w.word).is_some())
    });
    let operation =
        matches!(form.op, Op::Atom | Op::Red) && extra.iter().any(|&m| crate::access::AtomOp::from_mod(m).is_some());
    Err(Some(Miss { form, found: types, extra, missing, types: wrong_type || missing_type, operation, unnamed: 0 }))
}

/// A form as the reference spells it: `add{.rn|.rz|.rm|.rp}{.ftz}{.sat}.f32`; long lists are cut.
fn spelled(form: &Form) -> String {
    let mut out = form.op.name().to_string();
    for m in form.name {
        out.push('.');
        out.push_str(m.name());
    }
    for g in form.groups {
        let mut words: Vec<String> = g.words.iter().take(6).map(|w| format!(".{}", w.word.name())).collect();
        if g.words.len() > 6 {
            words.push("...".to_string());
        }
        let words = words.join("|");
        out += &match (g.optional, g.words.len()) {
            (true, _) => format!("{{{words}}}"),
            (false, 1) => words,
            (false, _) => format!("({words})"),
        };
    }
    out
}

/// Is it an `atom` or `red` of one type that some operation has?
fn atomic(inst: &Inst) -> bool {
    use ScalarType::*;
    let some = |t: &ScalarType| !matches!(t, B8 | U8 | S8 | B16 | U16 | S16 | Pred | B128);
    matches!(inst.op, Op::Atom | Op::Red) && !inst.has(Mod::Async) && matches!(inst.types()[..], [t] if some(&t))
}

/// The message for a group of which a word must be written.
fn missing(inst: &Inst, group: &crate::isa::Group, name: &str) -> String {
    let word = group.words[0].word;
    let text = word.name();
    let layouts = inst.mods.iter().filter(|m| matches!(m, Mod::Row | Mod::Col)).count();
    let what = match (inst.op, word) {
        (Op::Membar, _) => "Membar level",
        (Op::Tensormap, Mod::B1024) => "Tensormap size modifier",
        (Op::Tensormap, Mod::Tile) => ".tile modifier",
        (Op::Mma, Mod::Sp | Mod::SpOrderedMetadata) => ".sp modifier",
        (Op::Cp, Mod::Ca | Mod::Cg) => "'.ca or .cg' modifier",
        (Op::Wgmma, Mod::Sp) => {
            let shape = inst.mods.iter().find(|m| super::repeat::is_shape(m.name())).map_or("", |m| m.name());
            return format!("Illegal matrix shape '.{shape}' for instruction '{name}'");
        }
        (Op::Mma | Op::Wmma, Mod::Xor) => {
            return format!("Illegal reduction operation for instruction '{name}.s32.s32'");
        }
        (Op::Sured, Mod::Add | Mod::Min | Mod::And) => {
            return format!("Illegal operation '(null)' for instruction '{name}'");
        }
        (Op::Fence, Mod::Alias | Mod::TensormapGeneric | Mod::AsyncGeneric | Mod::Async) => ".proxykind modifier",
        (Op::Multimem, Mod::V2 | Mod::V4) => return format!("Unexpected instruction types specified for '{name}'"),
        (Op::Tensormap, _) if !matches!(word, Mod::Global) => "Tensormap field modifier",
        (
            Op::Tex | Op::Tld4 | Op::Suld | Op::Sust | Op::Sured,
            Mod::N1d | Mod::N2d | Mod::N3d | Mod::Cube | Mod::N2dms,
        ) => "Geometry modifier",
        (Op::Cp, Mod::N1d | Mod::N2d | Mod::N3d) => ".dim modifier",
        (Op::Ldmatrix | Op::Stmatrix | Op::Tcgen05, Mod::X1 | Mod::X2) => ".num modifier",
        (Op::Max | Op::Min, Mod::Xorsign) => return "Modifier '.abs' requires modifier '.xorsign'".to_string(),
        (Op::Max | Op::Min, Mod::Abs) => return "Modifier '.xorsign' requires modifier '.abs'".to_string(),
        (Op::Bar | Op::Barrier, Mod::And | Mod::Popc) => {
            let ty = inst.types().first().map_or("", |t| t.name());
            return format!("Illegal reduction operation for instruction '{name}.{ty}'");
        }
        (_, Mod::Trap) => "Clamp modifier",
        (Op::Cp, Mod::L2) => ".level modifier",
        (Op::Cvt, Mod::Satfinite) => {
            let ty = inst.types().first().map_or("", |t| t.name());
            return format!("'.satfinite' modifier required for instruction '{name}' with destination type '.{ty}'");
        }
        (Op::Red | Op::Atom, Mod::Noftz) => {
            let ty = inst.types().first().map_or("", |t| t.name());
            return format!("'.noftz' modifier required for instruction '{name}' with type '.{ty}'");
        }
        (Op::Cp | Op::Multimem, Mod::Noftz) => {
            let ty = inst.types().first().map_or("", |t| t.name());
            return format!(
                "Modifier '.noftz' required for instruction '{name}' with type '.{ty}' and operation '.add'"
            );
        }
        (Op::Fence, Mod::Cta) => "Scope modifier",
        (Op::Shfl, Mod::Up) => "Shuffle modifier",
        (Op::Shf, Mod::Clamp) => "Clamp modifier",
        (Op::Tex, Mod::V2 | Mod::V4) => {
            let ty = inst.types().first().map_or("", |t| t.name());
            return format!("Instruction '{name}.{ty}' requires .{text} type");
        }
        (Op::Wmma, Mod::Row | Mod::Col) if !inst.has(Mod::Mma) => "layout modifier",
        (_, Mod::Row | Mod::Col) if layouts == 0 => "'.alayout' modifier",
        (_, Mod::Row | Mod::Col) => "'.blayout' modifier",
        (_, Mod::Sync | Mod::Aligned | Mod::Trans | Mod::BlockScale | Mod::Popc | Mod::Noftz) => {
            return format!(".{text} modifier required for instruction '{name}'");
        }
        (_, Mod::MbarrierCompleteTxBytes | Mod::BulkGroup) => ".completion_mechanism modifier",
        (_, Mod::CtaGroup1 | Mod::CtaGroup2) => ".cta_group modifier",
        _ if text.starts_with("kind::") => ".kind modifier",
        _ if text.starts_with("scale_vec::") => ".scale_vec_size modifier",
        _ if super::repeat::is_shape(text) => "Shape modifier",
        (Op::Atom | Op::Red | Op::Multimem | Op::Cp, _) if crate::access::AtomOp::from_mod(word).is_some() => {
            "Reduction operation is"
        }
        _ if crate::types::Space::from_mod(word).is_some()
            && (inst.op == Op::Tensormap || inst.op == Op::Cp && !inst.has(Mod::Bulk)) =>
        {
            return format!("Unexpected number of state spaces specified in instruction '{name}'");
        }
        _ if crate::types::Space::from_mod(word).is_some() => {
            return format!("State space incorrect for instruction '{name}'");
        }
        _ => {
            let words: Vec<String> = group.words.iter().take(8).map(|w| format!(".{}", w.word.name())).collect();
            return format!("Modifier {} required for instruction '{name}'", words.join(" or "));
        }
    };
    format!("{what} required for instruction '{name}'")
}

/// What is wrong with the types of an `mma`: those of the factors decide which message it is.
fn mma_types(inst: &Inst, shape: &str, name: &str) -> String {
    use ScalarType::*;
    let types = inst.types();
    let sparse = inst.has(Mod::Sp) || inst.has(Mod::SpOrderedMetadata);
    let kind = inst.mods.iter().any(|m| m.name().starts_with("kind::"));
    let incorrect = format!("Incorrect instruction type specified for mma with shape '.{shape}'");
    let unexpected = format!("Unexpected instruction types specified for '{name}'");
    let factor = |t| matches!(t, U4 | S4 | B1 | BF16 | TF32);
    let sums = match types[..] {
        [d, a, c] if d == c => d == S32 && matches!(a, U4 | S4 | B1) || d == F32 && matches!(a, BF16 | TF32),
        [d, a, b, c] if d == c && matches!(d, S32 | F32) => (factor(a) || a == BF16x2) && factor(b),
        [F32, a, b, c, F32] => matches!(a, BF16 | TF32) && a == b && b == c,
        // Sums and factors have changed places.
        [a, S32, b, S32] | [S32, a, S32, b] => matches!(a, U4 | S4 | B1) && matches!(b, U4 | S4 | B1),
        [TF32, F32, TF32, F32] => true,
        _ => false,
    };
    match types[..] {
        _ if kind => unexpected,
        [F32, E2M1, E2M1, F32, UE8M0 | UE4M3] => incorrect,
        [S32, B1, _, _, S32] => {
            format!("Unexpected number of instruction types specified for mma with shape '.{shape}'")
        }
        [S32, U4 | S4, _, _, S32] if sparse => {
            format!("Unexpected number of instruction types specified for Sparse mma with shape '.{shape}'")
        }
        [S32, U4 | S4, _, _, S32] => format!("Argument vector size mismatch for instruction '{name}'"),
        [S32, ..] if types.len() == 5 => unexpected,
        [U32, U8 | S8 | U4 | S4 | B1, _, S32] => incorrect,
        _ if sums => incorrect,
        _ => unexpected,
    }
}

/// How many words of the longest name of the opcode stand behind it.
fn name_length(inst: &Inst) -> usize {
    let named = |f: &Form| inst.mods.starts_with(f.name).then_some(f.name.len());
    inst.op.forms().iter().filter_map(named).max().unwrap_or(0)
}

/// The opcode as messages name it: `mul.wide`, `cvta.to`.
pub(super) fn name(inst: &Inst) -> String {
    let named = |f: &Form| inst.mods.starts_with(f.name).then_some(f.name);
    let longest = inst.op.forms().iter().filter_map(named).max_by_key(|n| n.len()).unwrap_or(&[]);
    if !longest.is_empty() {
        let words: String = longest.iter().map(|m| format!(".{}", m.name())).collect();
        // What is joined by `::` is one name to the parser, but not in messages.
        return format!("{}{}", inst.op.name(), words.split("::").next().unwrap_or(""));
    }
    let first = inst.mods.first().copied();
    let sub = match (inst.op, first) {
        (Op::Mul | Op::Mad | Op::Mul24 | Op::Mad24 | Op::Madc, Some(m @ (Mod::Lo | Mod::Hi | Mod::Wide))) => Some(m),
        (Op::Cvta, Some(m @ Mod::To)) | (Op::Brx, Some(m @ Mod::Idx)) => Some(m),
        (Op::Bar | Op::Barrier, Some(m @ (Mod::Arrive | Mod::Red))) => Some(m),
        (Op::Shf, Some(m @ (Mod::L | Mod::R))) => Some(m),
        _ => None,
    };
    match sub {
        Some(m) => format!("{}.{}", inst.op.name(), m.name()),
        None => inst.op.name().to_string(),
    }
}

/// Ordered words have their order among those of their class: state spaces, layouts, others.
fn class(word: Mod) -> u8 {
    match word {
        Mod::Row | Mod::Col => 1,
        _ if crate::types::Space::from_mod(word).is_some() => 2,
        _ if ScalarType::from_mod(word).is_some() => 3,
        _ => 4,
    }
}

/// How many elements a vector operand has in an instruction.
pub(super) fn count(inst: &Inst, n: Count) -> usize {
    let word = |f: &dyn Fn(&str) -> Option<usize>| inst.mods.iter().find_map(|m| f(m.name()));
    match n {
        Count::Fixed(n) => n as usize,
        Count::Columns(d) => word(&columns).unwrap_or(0) / d as usize,
        Count::Repeat(n) => word(&|w| w.strip_prefix('x')?.parse().ok()).unwrap_or(1) * n as usize,
        Count::Vector => inst.vector() as usize,
        Count::Geometry if inst.has(Mod::TileGather4) || inst.has(Mod::TileScatter4) => 5,
        Count::Geometry => dimensions(inst),
        Count::Coordinates => inst.mods.iter().find_map(|m| geometry(*m)).unwrap_or(4),
        Count::Lanes => {
            if inst.has(Mod::CtaGroup2) {
                8
            } else {
                4
            }
        }
        Count::Offsets if inst.has(Mod::Im2col) => dimensions(inst).saturating_sub(2),
        Count::Offsets => 2,
    }
}

/// `m64n16k8` -> 16.
fn columns(word: &str) -> Option<usize> {
    let (_, rest) = word.strip_prefix('m')?.split_once('n')?;
    rest.split_once('k')?.0.parse().ok()
}

/// The coordinates of a texture's geometry, as a vector.
fn geometry(word: Mod) -> Option<usize> {
    Some(match word {
        Mod::N1d => 1,
        Mod::N2d | Mod::A1d => 2,
        Mod::N3d | Mod::A2d | Mod::Cube | Mod::Acube | Mod::N2dms | Mod::A2dms => 4,
        _ => return None,
    })
}

fn dimensions(inst: &Inst) -> usize {
    let word = |m: &&Mod| matches!(m, Mod::N1d | Mod::N2d | Mod::N3d | Mod::N4d | Mod::N5d);
    inst.mods.iter().find(word).map_or(0, |m| usize::from(m.name().as_bytes()[0] - b'0'))
}

impl Checker<'_> {
    /// The forms that the modifiers of an instruction fit; reports and gives none where there is none.
    pub(super) fn fits(&mut self, inst: &Inst) -> Fits {
        self.gated = false;
        if let Some(Some((fits, _))) = self.cache.0.get(inst.head as usize) {
            return fits.clone();
        }
        let forms = inst.op.forms();
        if forms.is_empty() {
            self.error(inst.span, format!("instruction '{}' is not supported yet", name(inst)));
            return Rc::new([]);
        }
        let written = inst.mods.iter().fold(0, |bits, m| bits | m.bit());
        let mut fits: Vec<Fit> =
            inst.op.forms_with(written).filter_map(|form| fit(form, inst.mods, false).ok()).collect();
        // The first versions of these were aligned without saying so.
        if fits.is_empty() && inst.op == Op::Wmma && self.version < (6, 3) && !inst.has(Mod::Aligned) {
            let mut mods: SmallVec<[Mod; 12]> = inst.mods.into();
            mods.push(Mod::Aligned);
            let forms = inst.op.forms_with(written | Mod::Aligned.bit());
            fits = forms.filter_map(|form| fit(form, &mods, false).ok()).collect();
        }
        if fits.is_empty() {
            // The more of the name is there, the nearer.
            let far = |m: &Miss| m.distance() + 500 * (name_length(inst) - m.form.name.len().min(name_length(inst)));
            let misses = forms.iter().filter_map(|form| fit(form, inst.mods, true).err().flatten());
            if let Some(miss) = misses.min_by_key(far) {
                self.report(inst, &miss);
            }
            return Rc::new([]);
        }
        let fits: Fits = fits.into();
        self.gated = self.gates(inst, &fits);
        // An error is due each time.
        if !self.gated {
            let head = inst.head as usize;
            if self.cache.0.len() <= head {
                self.cache.0.resize_with(head + 1, || None);
            }
            self.cache.0[head] = Some((fits.clone(), Default::default()));
        }
        fits
    }

    /// Do the operands not even fit the nearest form?
    fn mismatched(&self, inst: &Inst, miss: &Miss) -> bool {
        let called = |o: &&OperandForm| o.when.is_none_or(|w| inst.mods.contains(&w));
        let operands: SmallVec<[&'static OperandForm; 6]> = miss.form.operands.iter().filter(called).collect();
        let least = operands.iter().filter(|o| !o.optional).count();
        let fit = Fit { form: miss.form, types: miss.found, operands };
        let given = inst.operands.len();
        (least..=fit.operands.len()).contains(&given) && self.misfits(inst, &fit)
    }

    /// Messages that one instruction alone has, before the general ones.
    fn precise(&self, inst: &Inst, miss: &Miss, name: &str) -> Option<String> {
        let extra = |m: Mod| miss.extra.contains(&m);
        let lacks = |m: Mod| miss.missing.is_some_and(|g| g.words.iter().any(|w| w.word == m));
        let types = inst.types();
        let last = types.last().map_or("", |t| t.name());
        let mismatch = || Some(format!("Arguments mismatch for instruction '{name}'"));
        let unexpected = || Some(format!("Unexpected instruction types specified for '{name}'"));
        let spaces = inst.mods.iter().filter(|&&m| crate::types::Space::from_mod(m).is_some()).count();
        let scope = inst.mods.iter().find(|&&m| crate::access::Scope::from_mod(m).is_some());
        let order = [Mod::Weak, Mod::Relaxed, Mod::Acquire, Mod::Release].into_iter().find(|&m| inst.has(m));
        match inst.op {
            Op::Cvt if self.clash(inst).is_some() && types.first() != Some(&ScalarType::TF32) => self.clash(inst),
            Op::Prefetch if miss.missing.is_some() && miss.extra.is_empty() => {
                Some(format!("Cache level modifier required for instruction '{name}'"))
            }
            Op::Cvt => {
                let given = inst.operands.len();
                if [Mod::Relu, Mod::Satfinite].into_iter().any(extra)
                    || inst.has(Mod::Relu) && miss.types
                    || inst.has(Mod::Satfinite) && types.first().is_some_and(|t| t.is_int())
                {
                    return unexpected();
                }
                let called = |o: &&OperandForm| !o.optional && o.when.is_none_or(|w| inst.mods.contains(&w));
                let counts = miss.form.operands.iter().filter(called).count();
                (!miss.types && given != counts).then(mismatch).flatten()
            }
            Op::Min | Op::Max if extra(Mod::Relu) || inst.has(Mod::Relu) && miss.types => match types[..] {
                [t] if t.is_int() && t != ScalarType::S64 => {
                    Some(format!("Illegal modifier '.relu' for instruction '{name}' with type '.{last}'"))
                }
                [ScalarType::F32 | ScalarType::F64] => unexpected(),
                _ => None,
            },
            Op::Cp | Op::Multimem if extra(Mod::Noftz) && inst.has(Mod::Reduce) => {
                Some(format!("Illegal modifier '.noftz' for instruction '{name}' with type '.{last}'"))
            }
            Op::Cp if !inst.has(Mod::Bulk) && !inst.has(Mod::Mbarrier) && spaces != 2 && inst.has(Mod::Async) => {
                let named = |m: Mod| matches!(m, Mod::CommitGroup | Mod::WaitGroup | Mod::WaitAll);
                (!inst.mods.iter().any(|&m| named(m)))
                    .then(|| format!("Unexpected number of state spaces specified in instruction '{name}'"))
            }
            Op::Tensormap if inst.has(Mod::CpFenceproxy) && spaces != 2 => {
                Some(format!("Unexpected number of state spaces specified in instruction '{name}'"))
            }
            Op::Multimem if lacks(Mod::BulkGroup) => {
                Some(format!(".bulk_group modifier required for instruction '{name}'"))
            }
            Op::Red if inst.has(Mod::Async) && order.is_none() => {
                Some(format!("order modifier required for instruction '{name}'"))
            }
            Op::Red | Op::St if inst.has(Mod::Async) && order.is_some_and(|o| o != Mod::Weak) && scope.is_none() => {
                let order = order.map_or("", |m| m.name());
                Some(format!("Modifier '.{order}' requires scope with '{name}' instruction"))
            }
            Op::Red | Op::St if inst.has(Mod::Async) && lacks(Mod::MbarrierCompleteTxBytes) => {
                let has = scope.map_or(".shared::cluster".to_string(), |s| format!(".{}", s.name()));
                Some(format!(
                    "Modifier '{has}' requires modifier '.mbarrier::complete_tx::bytes' for instruction '{name}'"
                ))
            }
            Op::Fence if inst.has(Mod::TensormapGeneric) && lacks(Mod::Release) => {
                Some(format!(".acquire/.release modifier required for instruction '{name}'"))
            }
            Op::Vshl | Op::Vshr | Op::Bmsk | Op::Szext if lacks(Mod::Clamp) => {
                Some(format!("Clamp modifier required for instruction '{name}'"))
            }
            Op::Vset | Op::Vset2 | Op::Vset4 if lacks(Mod::Eq) => {
                Some(format!("Comparison modifier required for instruction '{name}'"))
            }
            Op::Add | Op::Sub | Op::Addc | Op::Subc | Op::Mad | Op::Mad24
                if extra(Mod::Sat) && matches!(types[..], [t] if t.is_int() && t.bits() >= 32) && !miss.types =>
            {
                Some(format!("Modifier '.sat' does not apply to '.{last}' type"))
            }
            Op::Tex
                if matches!(types[..], [ScalarType::F16x2, ScalarType::S32 | ScalarType::F32])
                    && inst.vector() == 4 =>
            {
                if self.texels(inst) {
                    mismatch()
                } else {
                    Some(format!("Instruction '{name}.f16x2' requires .v2 type"))
                }
            }
            Op::Tex if matches!(types[..], [ScalarType::B32, _]) => None,
            Op::Tex if matches!(types[..], [_, ScalarType::U32]) => {
                Some("Integer coordinates require .s32 instruction type".to_string())
            }
            Op::Tex if matches!(types[..], [ScalarType::F16x2, _]) && inst.vector() == 4 && self.texels(inst) => {
                mismatch()
            }
            Op::Tex if matches!(types[..], [ScalarType::F16, _]) && inst.vector() == 2 && self.texels(inst) => {
                mismatch()
            }
            Op::Tex if !matches!(types[..], [_, ScalarType::S32 | ScalarType::F32]) => None,
            Op::Tex if inst.vector() == 2 && types.first().is_some_and(|t| t.bits() == 32 && !t.is_packed()) => {
                (types.len() == 2).then(|| format!("Instruction '{name}.{}' requires .v4 type", types[0].name()))
            }
            Op::Ldmatrix | Op::Tcgen05
                if types.iter().any(|t| !t.name().contains("x16"))
                    && inst.mods.iter().any(|m| matches!(m, Mod::B8x16 | Mod::B6x16P32 | Mod::B4x16P64)) =>
            {
                unexpected()
            }
            Op::Mma if inst.has(Mod::BlockScale) && matches!(types[..], [ScalarType::F32, _, _, ScalarType::F32]) => {
                mismatch()
            }
            Op::Mma
                if miss.missing.is_some_and(|g| g.words[0].word.name().starts_with("kind::")) && types.len() == 5 =>
            {
                let shape = inst.mods.iter().find(|m| super::repeat::is_shape(m.name())).map_or("", |m| m.name());
                Some(format!("Incorrect instruction type specified for mma with shape '.{shape}'"))
            }
            Op::Tcgen05 if miss.missing.is_some_and(|g| g.words[0].word.name().starts_with("scale_vec::")) => {
                let kind = inst.mods.iter().find(|m| m.name().starts_with("kind::")).map_or("", |m| m.name());
                Some(format!("Modifier '.{kind}' requires modifier '.scale_vectorsize' for instruction '{name}'"))
            }
            Op::Tcgen05 if inst.has(Mod::Red) && lacks(Mod::Min) && !self.able(inst.op) => {
                let shape = inst.mods.iter().find(|m| super::repeat::is_shape(m.name())).map_or("", |m| m.name());
                Some(format!("Feature '.{shape}' not supported on .target '{}'", self.target))
            }
            Op::Wmma if types.len() == 1 && (inst.has(Mod::Load) || inst.has(Mod::Store)) => {
                // Another shape has the type: the fragment is wrong in size, or in the type of its registers.
                let element = match types[0] {
                    ScalarType::F16 => ScalarType::F16x2,
                    t @ (ScalarType::F32 | ScalarType::F64 | ScalarType::S32) => t,
                    t if t.bits() <= 8 && t != ScalarType::Pred || t == ScalarType::BF16 || t == ScalarType::TF32 => {
                        ScalarType::B32
                    }
                    _ => return None,
                };
                let shaped = |m: &Mod| super::repeat::is_shape(m.name()) || ScalarType::from_mod(*m).is_some();
                let known = inst.op.forms().iter().filter(|f| inst.mods.starts_with(f.name)).any(|f| {
                    let first = f.groups.iter().find(|g| g.slot == Some(Slot::T));
                    first.is_some_and(|g| g.words.iter().any(|w| ScalarType::from_mod(w.word) == Some(types[0])))
                });
                if !known || !miss.extra.iter().all(shaped) || miss.extra.is_empty() {
                    return None;
                }
                let f = self.func.and_then(|i| self.m.funcs.get(i.index()))?;
                let data = inst.operands.get(usize::from(inst.has(Mod::Store)))?;
                let Operand::Vector(parts) = data else { return None };
                let fits = |p: &Operand| match p {
                    Operand::Reg { reg, elem } => {
                        self.reg(f, *reg, *elem).is_ok_and(|t| super::inst::exact(t, element))
                    }
                    _ => false,
                };
                if parts.iter().all(fits) {
                    return Some(format!("Argument vector size mismatch for instruction '{name}'"));
                }
                mismatch()
            }
            Op::Griddepcontrol | Op::Fma | Op::Tcgen05 if self.clash(inst).is_some() => self.clash(inst),
            Op::Mma if types.len() == 4 && !inst.has(Mod::BlockScale) => {
                use ScalarType::{F16, F32};
                let mixed = matches!(types[..], [F16, F16, F16, F32] | [F32, F16, F16, F16]);
                mixed.then(mismatch).flatten()
            }
            _ => None,
        }
    }

    /// Has the target any form of an opcode?
    fn able(&self, op: Op) -> bool {
        op.forms().iter().any(|f| f.since.has(self.target))
    }

    /// Are the texels registers, of another type than the instruction's?
    fn texels(&self, inst: &Inst) -> bool {
        let Some(f) = self.func.and_then(|i| self.m.funcs.get(i.index())) else { return false };
        let ty = inst.types().first().copied();
        let value = match inst.operands.first() {
            Some(Operand::Pair(p)) => &p.0,
            Some(o) => o,
            None => return false,
        };
        let Operand::Vector(parts) = value else { return false };
        parts.iter().any(|p| match p {
            Operand::Reg { reg, elem } => {
                let reg = self.reg(f, *reg, *elem);
                reg.is_ok_and(|r| ty.is_some_and(|t| !super::inst::exact(r, t)))
            }
            _ => false,
        })
    }

    /// Modifiers that exclude each other.
    fn clash(&self, inst: &Inst) -> Option<String> {
        let pairs: &[(Mod, Mod)] = match inst.op {
            Op::Cvt => {
                &[(Mod::Relu, Mod::Sat), (Mod::Relu, Mod::Ftz), (Mod::Satfinite, Mod::Sat), (Mod::Satfinite, Mod::Ftz)]
            }
            Op::Fma => &[(Mod::Relu, Mod::Sat), (Mod::Ftz, Mod::Oob)],
            Op::Griddepcontrol => &[(Mod::LaunchDependents, Mod::Wait)],
            _ => &[],
        };
        let mut found = pairs.iter().copied().find(|&(a, b)| inst.has(a) && inst.has(b));
        if inst.op == Op::Tcgen05 {
            let scale = inst.mods.iter().copied().find(|m| m.name().starts_with("scale_vec::"));
            let block = inst.mods.iter().copied().find(|m| matches!(m, Mod::Block16 | Mod::Block32));
            found = scale.zip(block);
        }
        let (a, b) = found?;
        Some(format!("Modifier '.{}' cannot be combined with modifier '.{}'", a.name(), b.name()))
    }

    fn report(&mut self, inst: &Inst, miss: &Miss) {
        let name = name(inst);
        if let Some(message) = super::repeat::repeated(inst) {
            return self.error(inst.span, message);
        }
        let layouts: SmallVec<[Mod; 2]> =
            inst.mods.iter().copied().filter(|m| matches!(m, Mod::Row | Mod::Col)).collect();
        if inst.op == Op::Mma || inst.op == Op::Wmma && inst.has(Mod::Mma) {
            let message = match layouts[..] {
                [] => Some(format!("'.alayout' modifier required for instruction '{name}'")),
                [_] => Some(format!("'.blayout' modifier required for instruction '{name}'")),
                [Mod::Col, _] if miss.extra.contains(&Mod::Col) || miss.extra.contains(&Mod::Row) => {
                    Some(format!("Illegal alayout '.col' for instruction '{name}'"))
                }
                [_, b] if miss.extra.contains(&b) => {
                    Some(format!("Illegal blayout '.{}' for instruction '{name}'", b.name()))
                }
                _ => None,
            };
            if let Some(message) = message {
                return self.error(inst.span, message);
            }
        }
        if let Some(message) = self.precise(inst, miss, &name) {
            return self.error(inst.span, message);
        }
        // The operands are looked at before most modifiers are.
        let early = miss.form.name.is_empty()
            && !matches!(
                inst.op,
                Op::Mma | Op::Ldmatrix | Op::Stmatrix | Op::Movmatrix | Op::Tex | Op::Tld4 | Op::Fence | Op::Membar
            )
            || matches!(inst.op, Op::Multimem);
        if early && !miss.types && miss.unnamed == 0 && self.mismatched(inst, miss) {
            return self.error(inst.span, format!("Arguments mismatch for instruction '{name}'"));
        }
        let product = |m: Mod| matches!(m, Mod::Lo | Mod::Hi | Mod::Wide);
        let compares = |m: Mod| CmpOp::from_mod(m).is_some() && !matches!(inst.op, Op::Setp | Op::Set);
        let spaces = inst.mods.iter().filter(|&&m| crate::types::Space::from_mod(m).is_some()).count();
        let has = |f: &dyn Fn(Mod) -> bool| miss.extra.iter().copied().find(|&m| f(m));
        let rounding = |m: Mod| Rounding::from_mod(m).is_some();
        let message = if inst.mods.iter().filter(|&&m| rounding(m)).count() > 1 {
            "Multiple rounding modifiers specified".to_string()
        } else if matches!(inst.op, Op::Setp | Op::Set) && has(&|m| CmpOp::from_mod(m).is_some()).is_some() {
            "Mismatch between instruction type and comparison qualifier".to_string()
        } else if matches!(inst.op, Op::Abs | Op::Neg)
            && has(&|m| matches!(m, Mod::U16 | Mod::U32 | Mod::U64)).is_some()
        {
            format!("Instruction '{name}' applies only to signed numeric types")
        } else if let Some(m) = has(&|m| matches!(m, Mod::Wide | Mod::Full)) {
            format!("Unknown modifier '.{}'", m.name())
        } else if let (Op::Wgmma, Some(m)) = (inst.op, has(&|m| super::repeat::is_shape(m.name()))) {
            format!("Illegal matrix shape '.{}' for instruction '{name}'", m.name())
        } else if has(&compares).is_some() {
            format!("Comparison qualifier is not allowed for instruction '{name}'")
        } else if matches!(inst.op, Op::Mul | Op::Mad)
            && (has(&product).is_some() || miss.missing.is_some_and(|g| product(g.words[0].word)))
        {
            format!("Unexpected instruction types specified for '{name}'")
        } else if let (true, Some(operation)) = (miss.types && atomic(inst), inst.atom_op()) {
            let word = inst.mods.iter().find(|&&m| crate::access::AtomOp::from_mod(m) == Some(operation));
            let word = word.map_or("", |w| w.name());
            let mut types: Vec<String> = Vec::new();
            for form in inst.op.forms() {
                if form.groups.iter().any(|g| g.slot.is_none() && g.words.iter().any(|w| w.word.name() == word)) {
                    for w in form.groups.iter().filter(|g| g.slot.is_some()).flat_map(|g| g.words) {
                        let text = format!(".{}", w.word.name());
                        if !types.contains(&text) {
                            types.push(text);
                        }
                    }
                }
            }
            format!("Operation .{word} requires {} type for instruction '{name}'", types.join(" or "))
        } else if let (true, Some(op), [ty]) = (
            matches!(inst.op, Op::Cp | Op::Multimem),
            has(&|m| crate::access::AtomOp::from_mod(m).is_some()),
            &inst.types()[..],
        ) {
            format!("Incorrect type '.{}' for operation '.{}' in instruction '{name}'", ty.name(), op.name())
        } else if let (true, Op::Mma, Some(shape)) =
            (miss.types, inst.op, inst.mods.iter().find(|m| super::repeat::is_shape(m.name())))
        {
            mma_types(inst, shape.name(), &name)
        } else if miss.types
            && inst.op == Op::Tensormap
            && matches!(inst.types()[..], [] | [ScalarType::B32 | ScalarType::B64])
        {
            format!("Arguments mismatch for instruction '{name}'")
        } else if miss.types {
            format!("Unexpected instruction types specified for '{name}'")
        } else if has(&rounding).is_some() {
            format!("Illegal rounding modifier for instruction '{name}'")
        } else if let Some(m) = has(&|m| crate::types::Space::from_mod(m).is_some()) {
            let _ = m;
            let copies = inst.has(Mod::Bulk) && !inst.has(Mod::Prefetch) && matches!(inst.op, Op::Cp | Op::Multimem);
            let pair = inst.op == Op::Cp && !inst.has(Mod::Prefetch) || inst.has(Mod::CpFenceproxy);
            if !copies && spaces > 1 && !(pair && spaces == 2) {
                return self
                    .error(inst.span, format!("Unexpected number of state spaces specified in instruction '{name}'"));
            }
            let takes = inst.op.forms().iter().any(|f| {
                inst.mods.starts_with(f.name)
                    && f.groups.iter().any(|g| g.words.iter().any(|w| crate::types::Space::from_mod(w.word).is_some()))
            });
            let alone = [Mod::CommitGroup, Mod::WaitGroup, Mod::WaitAll].into_iter().any(|m| inst.has(m));
            if takes && !alone {
                format!("State space incorrect for instruction '{name}'")
            } else {
                format!("No state space qualifier expected for instruction '{name}'")
            }
        } else if let Some(m) = has(&|m| matches!(m, Mod::V2 | Mod::V4 | Mod::V8)) {
            let _ = m;
            if matches!(inst.op, Op::Mma | Op::Wgmma | Op::Wmma) {
                format!("Argument vector size mismatch for instruction '{name}'")
            } else {
                format!("Vector qualifier is not allowed for instruction '{name}'")
            }
        } else if let Some(m) = miss.extra.first() {
            format!("Illegal modifier '.{}' for instruction '{name}'", m.name())
        } else if let Some(group) = miss.missing {
            let word = group.words[0].word;
            if rounding(word) {
                let approx = inst.op.forms().iter().any(|f| f.groups.iter().any(|g| g.words[0].word == Mod::Approx));
                let or = if approx { " or '.approx' modifier" } else { "" };
                format!("Rounding modifier{or} required for instruction '{name}'")
            } else if word == Mod::Approx
                && inst.op.forms().iter().any(|f| f.groups.iter().any(|g| rounding(g.words[0].word)))
            {
                format!("Rounding modifier or '.approx' modifier required for instruction '{name}'")
            } else if CmpOp::from_mod(word).is_some() && matches!(inst.op, Op::Setp | Op::Set) {
                format!("Comparison modifier required for instruction '{name}'")
            } else if word == Mod::Approx {
                format!(".approx modifier required for instruction '{name}'")
            } else {
                missing(inst, group, &name)
            }
        } else {
            format!("Unexpected instruction types specified for '{name}'")
        };
        let help = format!("the nearest form is `{}`", spelled(miss.form));
        self.push(Diagnostic::error(message).at(inst.span).help(help));
    }
}

impl Fit {
    /// The type of an operand; none where the instruction gives none (`bar.sync`).
    pub(super) fn operand_type(&self, ty: crate::isa::OperandType) -> Option<ScalarType> {
        use crate::isa::OperandType as O;
        match ty {
            O::Slot(s) => self.types[s as usize],
            O::Fixed(t) => Some(t),
            O::Address | O::Space(_) | O::TensorMemory => None,
            O::Twice => self.types[Slot::T as usize].map(|t| match t {
                ScalarType::U16 => ScalarType::U32,
                ScalarType::S16 => ScalarType::S32,
                ScalarType::U32 => ScalarType::U64,
                _ => ScalarType::S64,
            }),
        }
    }
}
