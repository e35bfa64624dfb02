//! Counters of loops: how often a loop runs, and whether it will run a few times more.

use crate::cfg::Cfg;
use crate::ir::ops::inverse_cmp;
use crate::ir::{Attr, Builder, Cmp, Effect, Func, Op, Sreg, Term, Ty, Value, mask};
use crate::opt::eval::eval;

/// What a loop counts.
pub struct Counter {
    /// Which parameter of the header.
    pub param: usize,
    /// What is added in every iteration, in the low bits of its type.
    step: u64,
    /// The loop goes on while the counter compares so with the bound.
    cmp: Cmp,
    signed: bool,
    /// A value from outside the loop.
    pub bound: Value,
    /// The counter is compared as the iteration found it, not as it leaves it.
    pub before: bool,
    ty: Ty,
}

/// The condition that as many iterations as asked for are left, spelled for values that do not change in the loop.
pub struct Limit<'a> {
    counter: &'a Counter,
    /// Compared with the counter.
    value: Value,
    /// Must hold, too; it does not change.
    holds: Option<Value>,
    /// For `ne`: how far the counter must be from the bound.
    apart: Value,
}

/// The counter of a loop: its header, the block that branches back, and which values are known outside.
pub fn find(f: &Func, header: u32, latch: u32, known: &dyn Fn(Value) -> bool) -> Option<Counter> {
    let Term::CondBr { cond, then, els, .. } = &f.blocks[latch as usize].term else { return None };
    let mut holds = then.block.0 == header;
    let back = if holds { then } else { els };
    let mut test = f.def_inst(*cond)?;
    while test.op == Op::Not {
        test = f.def_inst(test.args[0])?;
        holds = !holds;
    }
    if test.op != Op::ICmp {
        return None;
    }
    let (counted, bound, mut cmp) = match (known(test.args[0]), known(test.args[1])) {
        (false, true) => (test.args[0], test.args[1], test.attr.cmp),
        (true, false) => (test.args[1], test.args[0], crate::ir::ops::swap_cmp(test.attr.cmp)),
        _ => return None,
    };
    if !holds {
        cmp = inverse_cmp(cmp)?;
    }
    let ty = f.ty(counted);
    if !matches!(ty, Ty::B32 | Ty::B64) {
        return None;
    }
    for (n, &p) in f.blocks[header as usize].params.iter().enumerate() {
        let next = back.args[n];
        if counted != p && counted != next {
            continue;
        }
        if let Some(step) = step(f, p, next) {
            return Some(Counter { param: n, step, cmp, signed: test.attr.signed, bound, before: counted == p, ty });
        }
    }
    None
}

/// The constant that `next` is more than `v`, not zero.
pub fn step(f: &Func, v: Value, next: Value) -> Option<u64> {
    let d = f.def_inst(next)?;
    let by = match (d.op, d.args.as_slice()) {
        (Op::IAdd, &[a, b]) if a == v => f.constant(b)?,
        (Op::IAdd, &[a, b]) if b == v => f.constant(a)?,
        (Op::ISub, &[a, b]) if a == v => f.constant(b)?.wrapping_neg() & mask(f.ty(v)),
        _ => return None,
    };
    (by != 0).then_some(by)
}

/// True for a value that every thread of the launch computes alike.
pub fn same_for_all(f: &Func, v: Value) -> bool {
    fn look(f: &Func, v: Value, depth: u32) -> bool {
        f.def_inst(v).is_some_and(|d| match d.op {
            Op::Const | Op::Param => true,
            Op::Sreg | Op::Undef | Op::LocalAddr => false,
            op => depth > 0 && op.effect() == Effect::Pure && d.args.iter().all(|&a| look(f, a, depth - 1)),
        })
    }
    look(f, v, 6)
}

/// An unsigned bound of a 32-bit value that is below 2^31 and computed without wrapping, if one is known.
fn most(f: &Func, v: Value, depth: u32) -> Option<u64> {
    let inst = f.def_inst(v)?;
    if f.ty(v) != Ty::B32 || depth == 0 {
        return None;
    }
    let arg = |n: usize| most(f, inst.args[n], depth - 1);
    let k = |n: usize| f.constant(inst.args[n]);
    let bound = match inst.op {
        Op::Const => f.constant(v),
        Op::Sreg => match Sreg::from_sub(inst.attr.sub)? {
            Sreg::TidX | Sreg::TidY | Sreg::TidZ => Some(1023),
            Sreg::NtidX | Sreg::NtidY | Sreg::NtidZ => Some(1024),
            Sreg::Laneid => Some(31),
            _ => None,
        },
        Op::And => match (arg(0), arg(1)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        },
        Op::IAdd => arg(0).zip(arg(1)).map(|(a, b)| a + b),
        Op::IMul => arg(0).zip(arg(1)).map(|(a, b)| a * b),
        Op::Shl => arg(0).zip(k(1)).filter(|&(_, n)| n < 31).map(|(a, n)| a << n),
        _ => None,
    };
    bound.filter(|&b| b < 1 << 31)
}

/// Low bits of a value that are zero at least.
fn low_zeros(f: &Func, v: Value, depth: u32) -> u32 {
    let Some(inst) = f.def_inst(v).filter(|_| depth > 0) else { return 0 };
    let arg = |n: usize| low_zeros(f, inst.args[n], depth - 1);
    match inst.op {
        Op::Const => f.constant(v).map_or(0, |k| (k & mask(f.ty(v))).trailing_zeros()),
        Op::And => arg(0).max(arg(1)),
        Op::IAdd | Op::ISub => arg(0).min(arg(1)),
        Op::Shl => f.constant(inst.args[1]).filter(|&n| n < 32).map_or(0, |n| arg(0) + n as u32),
        _ => 0,
    }
}

/// What a value is a constant more than, and that constant (of 32 bits, with its sign).
fn root(f: &Func, mut v: Value) -> (Value, i64) {
    let mut offset = 0i64;
    for _ in 0..4 {
        let Some(d) = f.def_inst(v) else { break };
        let k = |n: usize| f.constant(d.args[n]).map(|k| i64::from(k as u32 as i32));
        (v, offset) = match d.op {
            Op::IAdd if k(1).is_some() => (d.args[0], offset + k(1).unwrap_or(0)),
            Op::IAdd if k(0).is_some() => (d.args[1], offset + k(0).unwrap_or(0)),
            Op::ISub if k(1).is_some() => (d.args[0], offset - k(1).unwrap_or(0)),
            _ => break,
        };
    }
    (v, offset)
}

/// A comparison that holds where a loop is entered.
pub struct Fact {
    cmp: Cmp,
    signed: bool,
    values: [Value; 2],
}

/// So many blocks before a loop are asked what they have led here for.
const ASKED: usize = 8;

/// What the ways to a loop's entry have asked.
pub fn facts(f: &Func, cfg: &Cfg, entry: u32) -> Vec<Fact> {
    let mut found = Vec::new();
    let mut b = entry;
    for _ in 0..ASKED {
        let &[p] = cfg.preds[b as usize].as_slice() else { break };
        if let Term::CondBr { cond, then, els, .. } = &f.blocks[p as usize].term
            && then.block != els.block
        {
            let mut holds = then.block.0 == b;
            let mut test = f.def_inst(*cond);
            while let Some(not) = test.filter(|t| t.op == Op::Not) {
                (test, holds) = (f.def_inst(not.args[0]), !holds);
            }
            if let Some(t) = test.filter(|t| t.op == Op::ICmp)
                && let Some(cmp) = if holds { Some(t.attr.cmp) } else { inverse_cmp(t.attr.cmp) }
            {
                found.push(Fact { cmp, signed: t.attr.signed, values: [t.args[0], t.args[1]] });
            }
        }
        b = p;
    }
    found
}

impl Counter {
    /// How often the loop runs if its counter begins with `start`, if that is known and at most `most`. `facts` hold where it is entered.
    pub fn trips(&self, f: &Func, start: Value, most: u64, facts: &[Fact]) -> Option<u64> {
        self.between_constants(f, start, most).or_else(|| self.above_one_value(f, start, most, facts))
    }

    /// The same where the counter begins and ends constants away from one value: only the constants matter where nothing wraps, and where both are the same.
    fn above_one_value(&self, f: &Func, start: Value, limit: u64, facts: &[Fact]) -> Option<u64> {
        if self.ty != Ty::B32 {
            return None;
        }
        let ((base, mut at), (other, bound)) = (root(f, start), root(f, self.bound));
        if base != other {
            return None;
        }
        let straight = self.straight(f, base, facts);
        let step = i64::from(self.step as u32 as i32);
        if !self.before {
            at += step;
        }
        for n in 1..=limit {
            let holds = if at == bound {
                matches!(self.cmp, Cmp::Le | Cmp::Ge | Cmp::Eq)
            } else {
                let together = |&&(least, most): &&(i64, i64)| least <= at.min(bound) && at.max(bound) <= most;
                straight.iter().find(together)?;
                let order = at.cmp(&bound);
                match self.cmp {
                    Cmp::Eq => false,
                    Cmp::Ne => true,
                    Cmp::Lt | Cmp::Le => order.is_lt(),
                    Cmp::Gt | Cmp::Ge => order.is_gt(),
                    _ => return None,
                }
            };
            if !holds {
                return Some(n);
            }
            at += step;
        }
        None
    }

    /// Ranges of constants: added to a value, those of one range are in the order in which the counter is compared, as nothing wraps between them.
    fn straight(&self, f: &Func, base: Value, facts: &[Fact]) -> Vec<(i64, i64)> {
        let mut out = Vec::new();
        if let Some(m) = most(f, base, 4) {
            out.push((0, (1 << 31) - 1 - m as i64));
        }
        // Numbers on a grid do not wrap before the next one on it, and there only the last one does.
        let grid = 1i64 << low_zeros(f, base, 4).min(30);
        let last = if self.signed { (1i64 << 31) - grid } else { -grid } as u32;
        let is = |v: Value, k: u32| f.constant(v).is_some_and(|c| c as u32 == k);
        let mut wraps = true;
        for x in facts {
            match (x.cmp, x.values) {
                (Cmp::Ne, [a, b]) => wraps &= !(a == base && is(b, last) || b == base && is(a, last)),
                (Cmp::Lt | Cmp::Gt, [a, b]) if x.signed == self.signed => {
                    let ((v, low), (w, high)) =
                        if x.cmp == Cmp::Lt { (root(f, a), root(f, b)) } else { (root(f, b), root(f, a)) };
                    if v == base && w == base && low < high {
                        out.push((low, high));
                    }
                }
                _ => {}
            }
        }
        out.push((0, grid - i64::from(wraps)));
        out
    }

    fn between_constants(&self, f: &Func, start: Value, most: u64) -> Option<u64> {
        let (mut at, bound) = (f.constant(start)?, f.constant(self.bound)?);
        if !self.before {
            at = at.wrapping_add(self.step);
        }
        for n in 1..=most {
            at &= mask(self.ty);
            if eval(Op::ICmp, self.attr(self.cmp), &[self.ty; 2], &[at, bound], Ty::P)? == 0 {
                return Some(n);
            }
            at = at.wrapping_add(self.step);
        }
        None
    }

    fn attr(&self, cmp: Cmp) -> Attr {
        Attr { cmp, signed: self.signed, ..Attr::default() }
    }

    /// True if at most one iteration is left where [`Limit::first`] and [`Limit::again`] say that there are fewer than two, for a counter
    /// that begins with `start`: nothing wraps on the way. For `ne` that takes [`Limit::first`] of what `ends` is told.
    pub fn ends(&self, f: &Func, start: Value) -> bool {
        if self.before {
            return false;
        }
        let step = if self.up() { self.step } else { self.step.wrapping_neg() & mask(self.ty) };
        // Both on a grid that the whole range of numbers is a multiple of, so that the counter meets its bound, or wraps nowhere before it.
        let grid = step.is_power_of_two() && {
            let zeros = step.trailing_zeros();
            low_zeros(f, start, 4) >= zeros && low_zeros(f, self.bound, 4) >= zeros
        };
        let small = |v: Value| most(f, v, 4).is_some_and(|m| m + step.min(1 << 31) < 1 << 31);
        match self.cmp {
            Cmp::Ne => grid,
            // The first iteration does not ask: what begins behind the bound must not wrap either.
            Cmp::Lt | Cmp::Gt => {
                (grid || self.up() && small(self.bound)) && (self.up() && small(start) || self.has_room(f, start, step))
            }
            _ => false,
        }
    }

    /// True for a constant that is an iteration or more away from where numbers wrap.
    fn has_room(&self, f: &Func, start: Value, step: u64) -> bool {
        let Some(start) = f.constant(start) else { return false };
        // Signed numbers in the order of unsigned ones.
        let sign = if self.signed { 1 << (self.ty.bits() - 1) } else { 0 };
        let at = (start & mask(self.ty)) ^ sign;
        if self.up() { at <= mask(self.ty) - step } else { at >= step }
    }

    /// True if the counter goes up.
    fn up(&self) -> bool {
        self.step >> (self.ty.bits() - 1) == 0
    }

    /// How far the counter goes in one iteration less than `by`: so far it may not come to the bound.
    fn ahead(&self, by: u64) -> Option<u64> {
        let step = if self.up() { self.step } else { self.step.wrapping_neg() & mask(self.ty) };
        let far = step.checked_mul(by - 1)?;
        (far < 1 << (self.ty.bits() - 2)).then_some(far)
    }

    /// True if [`limit`](Self::limit) knows how to ask for so many iterations.
    pub fn can_run_ahead(&self, f: &Func, by: u64) -> bool {
        // A bound that is known and nearby: the loop is left soon.
        let near = |c: u64| c < by.wrapping_mul(self.step) && self.up();
        let leads = match self.cmp {
            Cmp::Ne => true,
            Cmp::Lt | Cmp::Le => self.up(),
            Cmp::Gt | Cmp::Ge => !self.up(),
            _ => false,
        };
        leads && self.ahead(by).is_some() && !f.constant(self.bound).is_some_and(near)
    }

    /// What to compare the counter with to know that `by` iterations are left, computed once.
    pub fn limit<'a>(&'a self, b: &mut Builder, by: u64) -> Limit<'a> {
        let apart = b.constant(self.ty, self.ahead(by).unwrap_or(0));
        if self.cmp == Cmp::Ne {
            return Limit { counter: self, value: self.bound, holds: None, apart };
        }
        // The bound, less what the counter is ahead; if that wraps, it is never reached.
        let (op, cmp) = if self.up() { (Op::ISub, Cmp::Lt) } else { (Op::IAdd, Cmp::Gt) };
        let value = b.same(op, &[self.bound, apart]);
        let holds = Some(b.icmp(cmp, self.signed, value, self.bound));
        Limit { counter: self, value, holds, apart }
    }

    /// True if another iteration follows one that left (or found) the counter so.
    pub fn goes_on(&self, b: &mut Builder, counted: Value) -> Value {
        b.icmp(self.cmp, self.signed, counted, self.bound)
    }
}

impl Limit<'_> {
    /// True if there are enough iterations for a counter that begins so (at least one more than enough, where the counter is
    /// compared as iterations find it). With `round`, an `ne` whose counter begins at its bound goes through all numbers, as
    /// [`Counter::ends`] needs it.
    pub fn first(&self, b: &mut Builder, start: Value, round: bool) -> Value {
        let c = self.counter;
        if round && c.cmp == Cmp::Ne {
            let (from, to) = if c.up() { (start, self.value) } else { (self.value, start) };
            let left = b.same(Op::ISub, &[to, from]);
            let one = b.constant(c.ty, 1);
            let left = b.same(Op::ISub, &[left, one]);
            return b.icmp(Cmp::Ge, false, left, self.apart);
        }
        let enough = self.again(b, start);
        match self.holds {
            Some(holds) => b.op(Op::And, &[enough, holds], Ty::P),
            None => enough,
        }
    }

    /// The same where it was true before, for the counter that the branch back compares: then that goes back, too.
    pub fn again(&self, b: &mut Builder, counter: Value) -> Value {
        let c = self.counter;
        if c.cmp == Cmp::Ne {
            let (from, to) = if c.up() { (counter, self.value) } else { (self.value, counter) };
            let left = b.same(Op::ISub, &[to, from]);
            return b.icmp(Cmp::Gt, false, left, self.apart);
        }
        b.icmp(c.cmp, c.signed, counter, self.value)
    }
}
