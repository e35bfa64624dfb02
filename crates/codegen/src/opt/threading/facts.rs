//! What the branches on the way to a place say about values there.

use crate::ir::ops::inverse_cmp;
use crate::ir::{Cmp, Def, Effect, Func, Inst, Op, Ty, Value, mask};
use crate::opt::eval::eval;

const NONE: u32 = u32::MAX;

/// So many operations behind one another are looked through.
const DEEP: u32 = 4;

/// A comparison of a value that holds.
struct Told {
    value: Value,
    cmp: Cmp,
    with: Value,
    signed: bool,
    /// The entry before it about the same value.
    before: u32,
}

/// An edge that a place is looked at from: a block, and what comes to its parameters.
#[derive(Clone, Copy)]
pub struct Way<'a> {
    /// The block that the edge leads to.
    pub block: u32,
    /// A value for each of its parameters.
    pub args: &'a [Value],
}

/// What holds at one place. Facts go in the order opposite to that in which they came.
pub struct Facts<'a> {
    f: &'a Func,
    /// By value: what a condition is known to be, as 1 + its bit, or 0.
    bits: Vec<u8>,
    /// The conditions that are known, in their order.
    conditions: Vec<Value>,
    told: Vec<Told>,
    /// By value: the last comparison of it.
    last: Vec<u32>,
}

impl<'a> Facts<'a> {
    /// Nothing is known yet.
    pub fn new(f: &'a Func) -> Facts<'a> {
        let n = f.values.len();
        Facts { f, bits: vec![0; n], conditions: Vec::new(), told: Vec::new(), last: vec![NONE; n] }
    }

    /// How much is known: what [`Facts::forget`] takes.
    pub fn count(&self) -> (usize, usize) {
        (self.conditions.len(), self.told.len())
    }

    /// Forgets what was learned since.
    pub fn forget(&mut self, (conditions, told): (usize, usize)) {
        self.conditions.drain(conditions..).for_each(|v| self.bits[v.index()] = 0);
        while self.told.len() > told
            && let Some(t) = self.told.pop()
        {
            self.last[t.value.index()] = t.before;
        }
    }

    /// Learns that a condition holds, or does not.
    pub fn learn(&mut self, cond: Value, holds: bool) {
        if self.bits[cond.index()] != 0 {
            return;
        }
        self.bits[cond.index()] = 1 + holds as u8;
        self.conditions.push(cond);
        let f = self.f;
        let Some(inst) = f.def_inst(cond) else { return };
        match inst.op {
            Op::Not => self.learn(inst.args[0], !holds),
            // Both parts of a conjunction that holds hold.
            Op::And if holds => inst.args.iter().for_each(|&a| self.learn(a, true)),
            Op::Or if !holds => inst.args.iter().for_each(|&a| self.learn(a, false)),
            Op::ICmp => {
                let cmp = if holds { Some(inst.attr.cmp) } else { inverse_cmp(inst.attr.cmp) };
                cmp.into_iter().for_each(|cmp| self.compared(inst.args[0], cmp, inst.args[1], inst.attr.signed));
            }
            _ => {}
        }
    }

    /// Learns that a comparison holds.
    fn compared(&mut self, value: Value, cmp: Cmp, with: Value, signed: bool) {
        let before = std::mem::replace(&mut self.last[value.index()], self.told.len() as u32);
        self.told.push(Told { value, cmp, with, signed, before });
    }

    /// The bits of a value behind an edge, as far as they are known.
    pub fn value(&self, v: Value, way: Way) -> Option<u64> {
        self.deep(v, way, DEEP)
    }

    fn deep(&self, v: Value, way: Way, deep: u32) -> Option<u64> {
        let f = self.f;
        let v = through(f, v, way);
        if self.bits[v.index()] != 0 {
            return Some(u64::from(self.bits[v.index()] - 1));
        }
        if let Some(k) = f.constant(v) {
            return Some(k);
        }
        if let Some(k) = self.equal(v) {
            return Some(k);
        }
        let inst = f.def_inst(v)?;
        if deep == 0 || inst.op.effect() != Effect::Pure || inst.results.len() != 1 {
            return None;
        }
        let arg = |n: usize| self.deep(inst.args[n], way, deep - 1);
        match inst.op {
            Op::And | Op::Or if f.ty(v) == Ty::P => {
                let decides = (inst.op == Op::Or) as u64;
                match (arg(0), arg(1)) {
                    (Some(a), _) | (_, Some(a)) if a == decides => Some(decides),
                    (Some(a), Some(_)) => Some(a),
                    _ => None,
                }
            }
            Op::ICmp => {
                let (a, b) = (through(f, inst.args[0], way), through(f, inst.args[1], way));
                self.asked(inst, a, b).or_else(|| self.computed(inst, v, way, deep))
            }
            _ => self.computed(inst, v, way, deep),
        }
    }

    /// What a pure instruction gives where its arguments are known.
    fn computed(&self, inst: &Inst, v: Value, way: Way, deep: u32) -> Option<u64> {
        if inst.args.is_empty() || inst.args.len() > 3 {
            return None;
        }
        let (mut args, mut tys) = ([0; 3], [Ty::P; 3]);
        for (n, &a) in inst.args.iter().enumerate() {
            args[n] = self.deep(a, way, deep - 1)?;
            tys[n] = self.f.ty(a);
        }
        let n = inst.args.len();
        eval(inst.op, inst.attr, &tys[..n], &args[..n], self.f.ty(v))
    }

    /// The comparisons of a value that hold.
    fn about(&self, v: Value) -> impl Iterator<Item = &Told> {
        let mut at = self.last[v.index()];
        std::iter::from_fn(move || {
            let t = self.told.get(at as usize)?;
            at = t.before;
            Some(t)
        })
    }

    /// The constant that a value is known to be equal to.
    fn equal(&self, v: Value) -> Option<u64> {
        self.about(v).filter(|t| t.cmp == Cmp::Eq).find_map(|t| self.f.constant(t.with))
    }

    /// Whether a comparison of `a` with `b` holds, by what is known of `a`.
    fn asked(&self, inst: &Inst, a: Value, b: Value) -> Option<u64> {
        let asked = Told { value: a, cmp: inst.attr.cmp, with: b, signed: inst.attr.signed, before: NONE };
        self.about(a).find_map(|t| self.implies(t, &asked)).map(u64::from)
    }

    /// What a comparison that holds says of another one of the same value.
    fn implies(&self, told: &Told, asked: &Told) -> Option<bool> {
        let either_way = |c: Cmp| matches!(c, Cmp::Eq | Cmp::Ne);
        if told.signed != asked.signed && !either_way(told.cmp) && !either_way(asked.cmp) {
            return None;
        }
        if told.with == asked.with {
            let (is, may) = (orders(told.cmp)?, orders(asked.cmp)?);
            return decide(is & !may == 0, is & may == 0);
        }
        let signed = if either_way(told.cmp) { asked.signed } else { told.signed };
        let ty = self.f.ty(told.value);
        let number = |v: Value| Some(number(self.f.constant(v)?, ty, signed));
        let (low, high) = range(told.cmp, number(told.with)?, ty, signed)?;
        let l = number(asked.with)?;
        match asked.cmp {
            Cmp::Ne => decide(l < low || l > high, l == low && l == high),
            cmp => {
                let (from, to) = range(cmp, l, ty, signed)?;
                decide(from <= low && high <= to, high < from || to < low)
            }
        }
    }
}

fn decide(holds: bool, fails: bool) -> Option<bool> {
    if holds { Some(true) } else { fails.then_some(false) }
}

/// A set of less (1), equal (2) and greater (4).
fn orders(cmp: Cmp) -> Option<u8> {
    Some(match cmp {
        Cmp::Lt => 1,
        Cmp::Eq => 2,
        Cmp::Le => 3,
        Cmp::Gt => 4,
        Cmp::Ne => 5,
        Cmp::Ge => 6,
        _ => return None,
    })
}

/// The number that some bits stand for.
fn number(bits: u64, ty: Ty, signed: bool) -> i128 {
    let above = 64 - ty.bits();
    if signed { i128::from((bits << above) as i64 >> above) } else { i128::from(bits) }
}

/// The numbers that such a comparison is true of, as one range.
fn range(cmp: Cmp, k: i128, ty: Ty, signed: bool) -> Option<(i128, i128)> {
    let all = i128::from(mask(ty));
    let (least, most) = if signed { (-(all >> 1) - 1, all >> 1) } else { (0, all) };
    Some(match cmp {
        Cmp::Eq => (k, k),
        Cmp::Lt => (least, k - 1),
        Cmp::Le => (least, k),
        Cmp::Gt => (k + 1, most),
        Cmp::Ge => (k, most),
        Cmp::Ne if k == least => (k + 1, most),
        Cmp::Ne if k == most => (least, k - 1),
        _ => return None,
    })
}

/// The value behind an edge that `v` is: what comes to it, where it is a parameter of the block.
fn through(f: &Func, v: Value, way: Way) -> Value {
    match f.def(v) {
        Def::Param(b, n) if b.0 == way.block => way.args.get(n as usize).copied().unwrap_or(v),
        _ => v,
    }
}
