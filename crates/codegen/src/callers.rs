//! Which registers somebody needs when a function is called: a function that its convention has keep a register may change it where no caller, nor a
//! caller's caller, has anything in it.
//!
//! By its convention a function saves what it takes of R16 to R31 and of half of the registers above. Where all callers are known they have been
//! assigned before, and most of these registers hold nothing there: what begins in a kernel has no callers at all. What is called through a pointer, or
//! from other files, or calls itself by whatever way, keeps to its convention.

use crate::mir::operands::sass_defs;
use crate::mir::{CallTarget, Func, Inst, Op, Term};
use crate::registers::{Set, live_out, put, step};

/// Nobody knows.
const ALL: Set = [u64::MAX; 4];

/// What callers need, of each function of a kernel.
pub struct Callers {
    /// Functions by number, callers before callees as far as that can be.
    order: Vec<usize>,
    needed: Vec<Set>,
}

impl Callers {
    /// `calls`: the functions that each one calls directly, that of the kernel first; `known`: of each, whether nobody else calls it.
    pub fn new(calls: &[Vec<u32>], known: impl Fn(usize) -> bool) -> Callers {
        let order = order(calls);
        let mut place = vec![usize::MAX; calls.len()];
        order.iter().enumerate().for_each(|(at, &n)| place[n] = at);
        let mut needed: Vec<Set> =
            (0..calls.len()).map(|n| if n == 0 || known(n) { Set::default() } else { ALL }).collect();
        for (n, list) in calls.iter().enumerate() {
            for &callee in list {
                // Who is assigned later cannot be asked.
                if place[callee as usize] <= place[n] {
                    needed[callee as usize] = ALL;
                }
            }
        }
        Callers { order, needed }
    }

    /// The functions, callers first.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The registers that nobody needs who calls the function.
    pub fn vacant(&self, n: usize) -> Set {
        self.needed[n].map(|w| !w)
    }

    /// Function `n` has its registers assigned: what it and its callers have where it calls others.
    pub fn assigned(&mut self, n: usize, f: &Func) {
        if called(f).is_empty() {
            return;
        }
        // What it writes it has saved, if somebody needs it.
        let mut through = self.needed[n];
        let mut written = Set::default();
        let cfg = f.cfg();
        for inst in f.blocks.iter().flat_map(|b| &b.insts) {
            if let Op::Sass(s) = &inst.op {
                sass_defs(s, |p| put(&mut written, p));
            }
        }
        (0..4).for_each(|k| through[k] &= !written[k]);
        let mut end = Set::default();
        if !f.entry {
            (0..256u32).filter(|&r| !f.keeps.preserves(r)).for_each(|r| end[r as usize / 64] |= 1 << (r % 64));
        }
        let outs = live_out(f, &cfg);
        for &b in &cfg.rpo {
            let block = &f.blocks[b as usize];
            let mut live = outs[b as usize];
            if matches!(block.term, Term::Ret(_)) {
                (0..4).for_each(|k| live[k] |= end[k]);
            }
            for inst in block.insts.iter().rev() {
                if let Op::Call(c) = &inst.op
                    && let CallTarget::Func(callee) = c.target
                {
                    let needed = &mut self.needed[callee as usize];
                    (0..4).for_each(|k| needed[k] |= if c.ends { 0 } else { through[k] | live[k] });
                }
                step(inst, &mut live);
            }
        }
    }
}

/// The functions that a function calls directly.
pub fn called(f: &Func) -> Vec<u32> {
    let target = |i: &Inst| match &i.op {
        Op::Call(c) => match c.target {
            CallTarget::Func(n) => Some(n),
            _ => None,
        },
        _ => None,
    };
    f.blocks.iter().flat_map(|b| b.insts.iter().filter_map(target)).collect()
}

/// All functions, each before those that it calls but for ways around, the kernel first of all.
fn order(calls: &[Vec<u32>]) -> Vec<usize> {
    let mut seen = vec![false; calls.len()];
    let mut out = Vec::with_capacity(calls.len());
    for root in (1..calls.len()).chain([0]) {
        if std::mem::replace(&mut seen[root], true) {
            continue;
        }
        let mut stack = vec![(root, 0)];
        while let Some((n, next)) = stack.last_mut() {
            let callee = calls[*n].get(*next).map(|&c| c as usize);
            *next += 1;
            match callee {
                Some(c) if std::mem::replace(&mut seen[c], true) => {}
                Some(c) => stack.push((c, 0)),
                None => {
                    out.push(*n);
                    stack.pop();
                }
            }
        }
    }
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    fn holds(set: Set, r: u32) -> bool {
        set[r as usize / 64] >> (r % 64) & 1 != 0
    }

    /// Assigned code: a kernel or function with `body` in its only block.
    fn function(head: &str, body: &str, end: &str) -> Func {
        let text = format!(
            "func f{head} max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{body}    {end}\n}}\n"
        );
        text::parse(&text).expect("it is well formed").remove(0)
    }

    #[test]
    fn callers_come_first() {
        // Function 3 is called by 1 and 4, which stand on both sides of it, and 4 by pointers alone.
        assert_eq!(order(&[vec![1], vec![3, 2], vec![], vec![2], vec![3]]), [0, 4, 1, 3, 2]);
        assert_eq!(order(&[vec![]]), [0]);
    }

    #[test]
    fn what_nobody_has_is_vacant() {
        let calls = [vec![1, 1], vec![2], vec![]];
        let mut c = Callers::new(&calls, |_| true);
        // R17 is read behind the second call only, R18 behind none.
        let kernel = function(
            " entry",
            "    MOV_I Rd=R16 Rb=1\n    MOV_I Rd=R18 Rb=1\n    call f1 () -> ()\n    MOV_I Rd=R17 Rb=2\n    call f1 () -> ()\n    \
             STG URc=UR4 Ra=RZ Rb=R16\n    STG URc=UR4 Ra=RZ Rb=R17\n",
            "exit",
        );
        c.assigned(0, &kernel);
        let vacant = |c: &Callers, n, r| holds(c.vacant(n), r);
        assert_eq!([16, 17, 18, 19].map(|r| vacant(&c, 1, r)), [false, false, true, true]);
        // It has R19 across its call, and has saved R17, which it writes: whom it calls may change that.
        let middle = function(
            "",
            "    STL Ra=R1 Rb=R17\n    MOV_I Rd=R17 Rb=1\n    MOV_I Rd=R19 Rb=1\n    call f2 () -> ()\n    STG URc=UR4 Ra=RZ Rb=R19\n    \
             LDL Rd=R17 Ra=R1\n",
            "ret ()",
        );
        c.assigned(1, &middle);
        assert_eq!([16, 17, 18, 19].map(|r| vacant(&c, 2, r)), [false, true, true, false]);
    }

    #[test]
    fn whoever_calls_unasked_finds_everything_kept() {
        let kernel = function(" entry", "    call f1 () -> ()\n", "exit");
        // Through a pointer, by themselves, from below.
        for (calls, known) in
            [(vec![vec![1], vec![]], false), (vec![vec![1], vec![1]], true), (vec![vec![1], vec![2], vec![1]], true)]
        {
            let mut c = Callers::new(&calls, |_| known);
            c.assigned(0, &kernel);
            assert_eq!(c.vacant(1), [0; 4], "{calls:?}");
        }
    }

    #[test]
    fn nothing_lives_across_what_does_not_come_back() {
        let kernel = function(
            " entry",
            "    MOV_I Rd=R16 Rb=1\n    call ends f1 () -> ()\n    STG URc=UR4 Ra=RZ Rb=R16\n",
            "exit",
        );
        let mut c = Callers::new(&[vec![1], vec![]], |_| true);
        c.assigned(0, &kernel);
        assert!(holds(c.vacant(1), 16));
    }
}
