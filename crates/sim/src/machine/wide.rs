//! Integers of sm_120, whose forms have a type among the words of their name: 32 or 64 bits, in both files of registers.

use super::alu::{AluOp, Fetch};
use super::byname::take;
use super::decode::{Result, gap};
use super::named::{some, sources};
use super::program::{In, Out};
use super::seen::Seen;
use sass::form::{ModName as M, SlotName as S};

/// The integers of an operation.
#[derive(Clone, Copy)]
struct Kind {
    long: bool,
    signed: bool,
}

impl Kind {
    /// By a word of a name; signed where there is none.
    fn of(w: &mut Vec<String>) -> Kind {
        let types = [("64", true, true), ("S64", true, true), ("U64", true, false), ("U32", false, false)];
        let found = types.into_iter().find(|t| take(w, t.0));
        take(w, "S32");
        let (long, signed) = found.map_or((false, true), |t| (t.1, t.2));
        Kind { long, signed }
    }

    fn fetch(self, slots: &[S]) -> Vec<Fetch> {
        slots.iter().map(|&s| if self.long { Fetch::Two(s) } else { Fetch::One(s) }).collect()
    }

    /// Source `n` of a lane.
    #[inline]
    fn get(self, i: &In<'_>, n: usize, l: usize) -> u64 {
        match self.long {
            true => i.s[2 * n][l] as u64 | (i.s[2 * n + 1][l] as u64) << 32,
            false => i.s[n][l] as u64,
        }
    }

    #[inline]
    fn put(self, o: &mut Out, l: usize, x: u64) {
        (o.r[0][l], o.r[1][l]) = (x as u32, (x >> 32) as u32);
    }

    /// A value that compares as an unsigned one.
    #[inline]
    fn ordered(self, x: u64) -> u64 {
        let bits = if self.long { 64 } else { 32 };
        if self.signed { x ^ 1 << (bits - 1) } else { x }
    }

    fn registers(self) -> u8 {
        1 + self.long as u8
    }
}

/// The operation of an instruction with these words behind its mnemonic, which it takes out.
///
/// # Errors
/// What of it is not modelled.
pub fn op(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    match inst.form().mnemonic.trim_start_matches('U') {
        "IADD" => sum(inst, w),
        "ISETP" => compare(inst, w),
        "IMNMX" => least(inst, w),
        "SEL" => select(inst, w),
        _ => {
            let kind = Kind::of(w);
            let slots = sources(inst, 1)?;
            let f = some(move |i, o, l| kind.put(o, l, kind.get(i, 0, l)));
            Ok(AluOp { fetch: kind.fetch(&slots), pin: vec![], nd: kind.registers(), pout: vec![], f })
        }
    }
}

/// `IADD.64.X R2, P0, -R4, R6, P1`: a sum with a carry in and out.
fn sum(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let carries = take(w, "X");
    let kind = Kind::of(w);
    let slots = sources(inst, 2)?;
    let flags = [slots[0], slots[1]].map(|s| inst.with_flags(s).map_or((false, false), |o| (o.neg, o.inv)));
    let bits = if kind.long { 64 } else { 32 };
    let mask = u64::MAX >> (64 - bits);
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        let term = |n: usize| {
            let (neg, inv) = flags[n];
            let x = kind.get(i, n, l);
            (if neg != inv { !x & mask } else { x }) as u128 + neg as u128
        };
        let sum = term(0) + term(1) + if carries { (i.p[0] >> l & 1) as u128 } else { 0 };
        kind.put(o, l, sum as u64 & mask);
        o.p[0] = o.p[0] & !(1 << l) | ((sum >> bits != 0) as u32) << l;
    });
    let pin = if carries { vec![S::Pp] } else { vec![] };
    Ok(AluOp { fetch: kind.fetch(&slots), pin, nd: kind.registers(), pout: vec![S::Pu], f })
}

/// `ISETP.LE.U64.AND.EX P0, P1, R2, R4, P2, P3`: with `.EX`, equal upper parts leave the answer to the last predicate.
fn compare(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let extends = take(w, "EX");
    let kind = Kind::of(w);
    let (cmp, bop) = (inst.modifier(M::Cmp), inst.modifier(M::Bool));
    for m in [M::Cmp, M::Bool] {
        take(w, inst.text(m).unwrap_or_default().trim_start_matches('.'));
    }
    if bop > 2 {
        return gap("this combination");
    }
    let slots = sources(inst, 2)?;
    // Those of "never" and "always" are fixed.
    let lower = extends && (1..=6).contains(&cmp);
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        let (a, b) = (kind.ordered(kind.get(i, 0, l)), kind.ordered(kind.get(i, 1, l)));
        let r = match a.cmp(&b) {
            std::cmp::Ordering::Less => cmp & 1 != 0,
            std::cmp::Ordering::Equal if lower => i.p[1] >> l & 1 != 0,
            std::cmp::Ordering::Equal => cmp & 2 != 0,
            std::cmp::Ordering::Greater => cmp & 4 != 0,
        };
        let p = i.p[0] >> l & 1 != 0;
        let with = |r: bool| match bop {
            0 => r & p,
            1 => r | p,
            _ => r ^ p,
        };
        for (k, r) in [(0, r), (1, !r)] {
            o.p[k] = o.p[k] & !(1 << l) | (with(r) as u32) << l;
        }
    });
    let pin = if extends { vec![S::Pp, S::Pr] } else { vec![S::Pp] };
    Ok(AluOp { fetch: kind.fetch(&slots), pin, nd: 0, pout: vec![S::Pu, S::Pv], f })
}

/// `IMNMX.S64 PT, PT, R2, R4, R6, P0, !PT`: the smaller one; with a false predicate the larger. What its other predicates are for is
/// not known, as no code has been seen that uses them.
fn least(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let kind = Kind::of(w);
    let slots = sources(inst, 2)?;
    let plain = |slot, neg| inst.get(slot).is_some_and(|o| o.as_reg().is_some_and(|r| r.is_const()) && o.inv == neg);
    if !plain(S::Pu, false) || !plain(S::Pv, false) || !plain(S::Pq, true) {
        return gap("its predicates");
    }
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        let (a, b) = (kind.get(i, 0, l), kind.get(i, 1, l));
        let smaller = kind.ordered(a) < kind.ordered(b);
        kind.put(o, l, if smaller == (i.p[0] >> l & 1 != 0) { a } else { b });
    });
    Ok(AluOp { fetch: kind.fetch(&slots), pin: vec![S::Pp], nd: kind.registers(), pout: vec![], f })
}

/// `SEL.64 R2, R4, R6, P0`
fn select(inst: &Seen<'_>, w: &mut Vec<String>) -> Result<AluOp> {
    let kind = Kind::of(w);
    let slots = sources(inst, 2)?;
    let f = some(move |i: &In<'_>, o: &mut Out, l: usize| {
        kind.put(o, l, kind.get(i, if i.p[0] >> l & 1 != 0 { 0 } else { 1 }, l));
    });
    Ok(AluOp { fetch: kind.fetch(&slots), pin: vec![S::Pp], nd: kind.registers(), pout: vec![], f })
}
