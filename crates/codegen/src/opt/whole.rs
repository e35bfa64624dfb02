//! Comparisons of converted integers with constants, as comparisons of the integers.
//!
//! `for (i = 1; i <= log2f(16); i++)` counts in integers and asks in floats. What is asked of the integer needs no conversion, and says how often the
//! loop runs (`unroll`).

use crate::ir::{Attr, Block, Builder, Cmp, Fmt, Func, Inst, Op, Ty, Value, ops};
use smallvec::SmallVec;

/// Constants of this size and more are left alone: below it every integer is a number of single precision, and what lies above it stays above when it
/// is rounded, to whichever side.
const EXACT: f64 = (1u32 << 24) as f64;

/// Runs the pass.
pub fn run(f: &mut Func) {
    for b in 0..f.blocks.len() {
        if !f.blocks[b].insts.iter().any(|&id| question(f, f.inst(id)).is_some()) {
            continue;
        }
        for id in std::mem::take(&mut f.blocks[b].insts) {
            if let Some((counted, cmp, signed, bound)) = question(f, f.inst(id)) {
                let loc = f.inst(id).loc;
                let mut to = Builder::new(f, Block(b as u32));
                to.loc = loc;
                let value = to.constant(Ty::B32, u64::from(bound));
                let inst = &mut f.insts[id.0 as usize];
                inst.op = Op::ICmp;
                inst.attr = Attr { cmp, signed, ..Attr::default() };
                inst.args = SmallVec::from_slice(&[counted, value]);
            }
            f.blocks[b].insts.push(id);
        }
    }
}

/// What a comparison of floats asks of an integer: the integer, how it compares, whether it is signed, and with what.
fn question(f: &Func, inst: &Inst) -> Option<(Value, Cmp, bool, u32)> {
    if inst.op != Op::FCmp || !matches!(inst.attr.fmt, Fmt::F32 | Fmt::F64) {
        return None;
    }
    let &[a, b] = inst.args.as_slice() else { return None };
    let number = |v: Value| {
        f.constant(v).map(|c| match inst.attr.fmt {
            Fmt::F32 => f64::from(f32::from_bits(c as u32)),
            _ => f64::from_bits(c),
        })
    };
    let (v, c, cmp) = match (number(a), number(b)) {
        (None, Some(c)) => (a, c, inst.attr.cmp),
        (Some(c), None) => (b, c, ops::swap_cmp(inst.attr.cmp)),
        _ => return None,
    };
    let d =
        f.def_inst(v).filter(|d| d.op == Op::I2F && d.attr.fmt == inst.attr.fmt && !d.attr.sat && d.attr.sub == 32)?;
    let (counted, signed) = (d.args[0], d.attr.signed);
    // Also false for what is no number.
    let least = if signed { -EXACT } else { 0.0 };
    if f.ty(counted) != Ty::B32 || !(least < c && c < EXACT) {
        return None;
    }
    let (cmp, bound) = match cmp {
        Cmp::Lt | Cmp::Ltu => (Cmp::Lt, c.ceil()),
        Cmp::Ge | Cmp::Geu => (Cmp::Ge, c.ceil()),
        Cmp::Le | Cmp::Leu => (Cmp::Le, c.floor()),
        Cmp::Gt | Cmp::Gtu => (Cmp::Gt, c.floor()),
        Cmp::Eq | Cmp::Equ if c == c.floor() => (Cmp::Eq, c),
        Cmp::Ne | Cmp::Neu if c == c.floor() => (Cmp::Ne, c),
        _ => return None,
    };
    Some((counted, cmp, signed, bound as i32 as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    /// The comparison that is left of one of `v0`, an integer, and the constant `c` of single precision.
    fn left(c: f32, cmp: &str, signed: bool) -> String {
        let signed = if signed { " signed" } else { "" };
        let body = format!(
            "blk0():\nv0:b32 = sreg\nv1:b32 = const {{imm={}}}\nv2:b32 = i2f v0 {{fmt=f32 sub=32{signed}}}\nv3:p = fcmp v2, v1 {{fmt=f32 cmp={cmp}}}\nexit",
            c.to_bits()
        );
        let mut f = text::parse(&format!("func k entry returns() {{\n{body}\n}}")).unwrap().remove(0);
        run(&mut f);
        verify::verify(&f).unwrap();
        let Some(d) = f.def_inst(Value(3)) else { return String::new() };
        match d.op {
            Op::ICmp => format!("{:?} {}", d.attr.cmp, f.constant(d.args[1]).unwrap() as u32 as i32),
            _ => "as it was".to_owned(),
        }
    }

    #[test]
    fn between_two_integers_the_nearer_one_is_asked_for() {
        assert_eq!(left(4.0, "le", true), "Le 4");
        assert_eq!(left(3.5, "le", true), "Le 3");
        assert_eq!(left(3.5, "lt", true), "Lt 4");
        assert_eq!(left(-3.5, "gt", true), "Gt -4");
        assert_eq!(left(-3.5, "geu", true), "Ge -3");
        assert_eq!(left(7.0, "neu", false), "Ne 7");
    }

    #[test]
    fn constants_that_integers_round_to_are_left() {
        for c in [16777216.0, -16777216.0, f32::NAN, f32::INFINITY, 1e-42] {
            let expected = if c == 1e-42 { "Lt 1" } else { "as it was" };
            assert_eq!(left(c, "lt", true), expected, "{c}");
        }
        assert_eq!(left(-1.0, "lt", false), "as it was");
        assert_eq!(left(0.5, "eq", true), "as it was");
    }
}
