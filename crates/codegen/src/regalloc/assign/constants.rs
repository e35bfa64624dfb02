//! Uniform registers for constants: where one lay before it lies again, and what others will want again is left alone while there are others.
//!
//! What describes an operand of a product, or is a coefficient in double precision, is moved to uniform registers in each block that reads it. Where
//! it lies in the same ones each time, and nothing else was there in between, the later moves go ([`crate::sched::held`]).

use super::Assign;
use crate::mir::{Func, Op, Vreg, alignment};
use crate::sched::held;
use sass::reg::File;

/// What uniform registers hold that was moved to them last.
pub(super) struct Constants {
    /// By value.
    of: Vec<Option<i64>>,
    /// By register.
    last: [Option<i64>; 64],
}

impl Constants {
    /// The constants of a function; nothing where there are none.
    pub(super) fn new(f: &Func) -> Option<Constants> {
        let mut of = Vec::new();
        for inst in f.blocks.iter().flat_map(|b| &b.insts) {
            if let Op::Sass(s) = &inst.op
                && let Some((r, k)) = held::constant(s)
                && r.is_virtual()
            {
                of.resize(f.vregs.len(), None);
                of[r.index() as usize] = Some(k);
            }
        }
        (!of.is_empty()).then_some(Constants { of, last: [None; 64] })
    }

    fn of(&self, v: Vreg) -> Option<i64> {
        self.of.get(v.index()).copied().flatten()
    }

    /// A value is put into a register.
    pub(super) fn put(&mut self, v: Vreg, r: usize) {
        let k = self.of(v);
        if let Some(last) = self.last.get_mut(r) {
            *last = k;
        }
    }

    /// What is lost if a value goes into a register: less than nothing where its constant is there.
    fn cost(&self, v: Vreg, r: usize) -> i32 {
        match (self.of(v), self.last.get(r).copied().flatten()) {
            (Some(k), Some(there)) if k == there => -2,
            (_, Some(_)) => 1,
            _ => 0,
        }
    }
}

impl Assign<'_> {
    /// The window of uniform registers for a vector where the fewest constants are lost.
    pub(super) fn uniform_window(&self, vec: usize) -> Option<usize> {
        let file = File::Ugpr as usize;
        let (bank, list) = (&self.banks[file], &self.f.vecs[vec]);
        let size = list.len();
        let free =
            |base: &usize| bank.window_free(*base, size) && (*base..*base + size).all(|r| !self.kept(file, r, vec));
        let mut windows = (0..bank.limit).step_by(alignment(size)).filter(free);
        let Some(constants) = &self.constants else { return windows.next() };
        windows.min_by_key(|&base| list.iter().enumerate().map(|(n, &v)| constants.cost(v, base + n)).sum::<i32>())
    }

    /// The free uniform register for a value where its constant is, or else where none is; nothing where all have one, or the function has none.
    pub(super) fn uniform_place(&self, v: Vreg) -> Option<usize> {
        let file = File::Ugpr as usize;
        let constants = self.constants.as_ref()?;
        let bank = &self.banks[file];
        let free = |&r: &usize| bank.free(r) && !self.kept(file, r, usize::MAX);
        let best = (0..bank.limit.min(64)).filter(free).min_by_key(|&r| constants.cost(v, r))?;
        (constants.cost(v, best) <= 0).then_some(best)
    }
}

#[cfg(test)]
mod tests {
    use crate::mir::{Op, text};
    use crate::regalloc::{self, Tightness};
    use crate::sched::held;

    /// Two blocks read the same pair of constants and each another one; what comes between them in uniform registers leaves the places of constants alone.
    #[test]
    fn constants_lie_where_they_lay() {
        let pair = |k: usize, low: u32| {
            format!("    UMOV_I Rd=%ur{k} Mask={low}\n    UMOV_I Rd=%ur{} Mask={}\n", k + 1, 0x3f0 + low)
        };
        let read = |k: usize, to: usize| {
            let (hi, v) = (k + 1, to + 1);
            format!(
                "    DADD_RU Rd={{%r{to},%r{v}}} Ra={{%r10,%r11}} Rb={{%ur{k},%ur{hi}}}\n    STS.Size=5 Ra=RZ Rb={{%r{to},%r{v}}}\n"
            )
        };
        let other = |k: usize, from: &str| {
            format!(
                "    UIADD3_UIU Rd=%ur{k} Ra={from} Rb=9 Rc=URZ\n    IADD3_RUR Rd=%r{} Ra=RZ Rb=%ur{k} Rc=RZ\n    STS Ra=RZ Rb=%r{}\n",
                600 + k,
                600 + k
            )
        };
        let t = format!(
            "func k entry max=32 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    LDS.Size=5 Rd={{%r10,%r11}} Ra=RZ\n    ULDC Rd=%ur90 Const=c[0][528]\n\
             \x20   ISETP_RI.Cmp=1 Pu=%p9 Ra=%r10 Rb=3\n{}{}{}{}{}    brif %p9, blk1(), blk2()\nblk1(): depth=0\n{}{}{}{}    br blk2()\nblk2(): depth=0\n    exit\n}}\n",
            pair(100, 7),
            read(100, 20),
            pair(102, 8),
            read(102, 22),
            other(110, "%ur90"),
            pair(200, 7),
            read(200, 30),
            pair(202, 8),
            read(202, 32),
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        regalloc::run(&mut f, true, Tightness::Tight).unwrap();
        held::run(&mut f);
        let moves = |b: &crate::mir::Block| {
            b.insts.iter().filter(|i| matches!(&i.op, Op::Sass(s) if held::constant(s).is_some())).count()
        };
        assert_eq!([moves(&f.blocks[0]), moves(&f.blocks[1])], [4, 0], "{}", text::print(&f));
    }
}
