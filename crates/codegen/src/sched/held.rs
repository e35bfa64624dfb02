//! Moves of constants to uniform registers that hold them already.
//!
//! What describes the operands of a warpgroup's product lies in four registers side by side, two of which are nearly always the same constant. In a loop each product
//! has them put in place, where they have been since before the loop. Runs on a function after register allocation: forward over its blocks, what each uniform
//! register holds on all ways to a place. Where the threads of a warp may be apart nothing is known of what any of them writes, as the sides of a branch share
//! these registers and take turns.
//! Linear, times the depth of loops.

use crate::bitset::BitSet;
use crate::cfg::Cfg;
use crate::mir::operands::{Place, sass_defs};
use crate::mir::{Block, Func, Inst, Op};
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};

/// What uniform registers hold.
#[derive(Clone)]
struct Held {
    /// A bit for each register that holds a constant.
    known: u64,
    constant: [i64; 64],
}

/// What is left of a constant that is not known any more says nothing: in a loop with several ways in it might go round for ever.
impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.known == other.known && (0..64).all(|r| self.known >> r & 1 == 0 || self.constant[r] == other.constant[r])
    }
}

impl Held {
    const NOTHING: Held = Held { known: 0, constant: [0; 64] };

    fn has(&self, r: usize, k: i64) -> bool {
        self.known >> r & 1 == 1 && self.constant[r] == k
    }

    fn set(&mut self, r: usize, k: Option<i64>) {
        self.known &= !(1 << r);
        if let Some(k) = k {
            self.known |= 1 << r;
            self.constant[r] = k;
        }
    }

    /// What holds on both ways.
    fn meet(&mut self, other: &Held) {
        for r in 0..64 {
            if !other.has(r, self.constant[r]) {
                self.known &= !(1 << r);
            }
        }
    }

    /// Behind an instruction.
    fn step(&mut self, inst: &Inst) {
        match &inst.op {
            Op::Sass(s) => match moved(s) {
                Some((r, k)) => self.set(r, Some(k)),
                None => sass_defs(s, |p| {
                    registers(p).for_each(|r| self.set(r, None));
                }),
            },
            _ => *self = Held::NOTHING,
        }
    }
}

/// The uniform registers of a place.
pub fn registers(p: Place) -> std::ops::Range<usize> {
    let first = p.reg.index() as usize;
    let uniform = p.reg.file() == File::Ugpr && !p.reg.is_const();
    if uniform { first..(first + p.width as usize).min(64) } else { 0..0 }
}

/// A uniform register, or what stands for one, and the constant that is moved to it; what a linker knows is a number beyond words.
pub fn constant(s: &Sass) -> Option<(Reg, i64)> {
    let k = match s.form {
        F::UMOV_I => match s.get(S::Mask)?.value {
            Value::Imm(k) => k.get(),
            _ => return None,
        },
        F::UMOV_U if s.get(S::Rb).and_then(Operand::as_reg) == Some(Reg::URZ) => 0,
        _ => return None,
    };
    let to = s.get(S::Rd).and_then(Operand::as_reg).filter(|r| r.file() == File::Ugpr && !r.is_const())?;
    (s.guard == Operand::reg(Reg::UPT) || s.guard == Operand::reg(Reg::PT)).then_some((to, k))
}

/// As [`constant`], of registers by number.
fn moved(s: &Sass) -> Option<(usize, i64)> {
    constant(s).map(|(r, k)| (r.index() as usize, k))
}

/// By block in which the threads of a warp may be apart: what is written there, and where others of them may be meanwhile. Those are on ways from the same
/// branch, up to where they meet: blocks that lead to each other, that one block leads to, or that lead to one.
fn turns(f: &Func, cfg: &Cfg) -> Vec<u64> {
    let n = f.blocks.len();
    let mut turns = vec![0; n];
    let (mut seen, mut split, mut met) = (BitSet::new(n), BitSet::new(n), BitSet::new(n));
    for first in (0..n as u32).filter(|&b| f.blocks[b as usize].divergent) {
        if !seen.insert(first as usize) {
            continue;
        }
        let (mut region, mut at, mut all) = (vec![first], 0, 0);
        while let Some(&b) = region.get(at) {
            at += 1;
            all |= written(&f.blocks[b as usize]);
            let (succs, preds) = (&cfg.succs[b as usize], &cfg.preds[b as usize]);
            let mut beside: Vec<u32> = succs.iter().chain(preds).copied().collect();
            preds.iter().filter(|&&p| split.insert(p as usize)).for_each(|&p| beside.extend(&cfg.succs[p as usize]));
            succs.iter().filter(|&&s| met.insert(s as usize)).for_each(|&s| beside.extend(&cfg.preds[s as usize]));
            region.extend(beside.into_iter().filter(|&x| f.blocks[x as usize].divergent && seen.insert(x as usize)));
        }
        region.iter().for_each(|&b| turns[b as usize] = all);
    }
    turns
}

/// The uniform registers that a block writes, a bit each.
fn written(block: &Block) -> u64 {
    let mut all = 0;
    for inst in &block.insts {
        match &inst.op {
            Op::Sass(s) => sass_defs(s, |p| registers(p).for_each(|r| all |= 1 << r)),
            _ => return u64::MAX,
        }
    }
    all
}

/// Runs the pass.
pub fn run(f: &mut Func) {
    let moves = |b: &crate::mir::Block| b.insts.iter().any(|i| matches!(&i.op, Op::Sass(s) if moved(s).is_some()));
    if !f.blocks.iter().any(moves) {
        return;
    }
    let cfg = f.cfg();
    let turns = turns(f, &cfg);
    // What holds behind each block; nothing is said of those that were not come to yet.
    let mut behind: Vec<Option<Held>> = vec![None; f.blocks.len()];
    let before = |b: u32, behind: &[Option<Held>]| {
        let mut ways = cfg.preds[b as usize].iter().filter_map(|&p| behind[p as usize].as_ref());
        let first = ways.next().filter(|_| b != 0);
        let mut held = first.cloned().unwrap_or(Held::NOTHING);
        ways.for_each(|w| held.meet(w));
        held
    };
    let mut changed = true;
    while changed {
        changed = false;
        for &b in &cfg.rpo {
            let block = &f.blocks[b as usize];
            let mut held = before(b, &behind);
            block.insts.iter().for_each(|i| held.step(i));
            if block.divergent {
                held.known &= !turns[b as usize];
            }
            if behind[b as usize].as_ref() != Some(&held) {
                behind[b as usize] = Some(held);
                changed = true;
            }
        }
    }
    let starts: Vec<(u32, Held)> = cfg.rpo.iter().map(|&b| (b, before(b, &behind))).collect();
    for (b, mut held) in starts {
        if f.blocks[b as usize].divergent {
            continue;
        }
        f.blocks[b as usize].insts.retain(|i| {
            let there = matches!(&i.op, Op::Sass(s) if moved(s).is_some_and(|(r, k)| held.has(r, k)));
            held.step(i);
            !there
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    #[test]
    fn what_is_not_known_any_more_is_the_same() {
        let held = |k: i64| {
            let mut h = Held::NOTHING;
            h.set(4, Some(k));
            h.set(5, Some(7));
            h
        };
        let (mut a, mut b) = (held(1), held(2));
        assert!(a != b);
        a.set(4, None);
        b.set(4, None);
        assert!(a == b);
        b.set(5, Some(8));
        assert!(a != b);
    }

    /// How many moves are left of those before a loop, in it, and behind it; `rest` stands in the loop behind the moves.
    fn left(flags: &str, rest: &str) -> [usize; 3] {
        let moves = "    UMOV_I Rd=UR5 Mask=0x40\n    UMOV_U Rd=UR6 Rb=URZ\n";
        let t = format!(
            "func k entry max=32 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{moves}    br blk1()\nblk1(): depth=1{flags}\n{moves}{rest}    \
             brif P0, blk1(), blk2()\nblk2(): depth=0\n{moves}    exit\n}}\n"
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        run(&mut f);
        [0, 1, 2]
            .map(|b| f.blocks[b].insts.iter().filter(|i| matches!(&i.op, Op::Sass(s) if moved(s).is_some())).count())
    }

    #[test]
    fn what_is_there_is_not_moved_again() {
        assert_eq!(left("", ""), [2, 0, 0]);
    }

    #[test]
    fn what_changes_in_the_loop_is() {
        assert_eq!(left("", "    UIADD3_UUU Rd=UR5 Ra=UR6 Rb=UR6 Rc=URZ\n"), [2, 1, 1]);
        assert_eq!(left("", "    UMOV_I Rd=UR6 Mask=0x7\n"), [2, 2, 1]);
    }

    #[test]
    fn nothing_is_known_where_threads_may_be_apart() {
        assert_eq!(left(" divergent", ""), [2, 2, 2]);
    }

    /// How many moves are left behind where the sides of a branch meet; one of them is two blocks, the second of which has `rest`.
    fn behind_sides(rest: &str) -> usize {
        let moves = "    UMOV_I Rd=UR5 Mask=0x40\n    UMOV_U Rd=UR6 Rb=URZ\n";
        let t = format!(
            "func k entry max=32 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n{moves}    brif P0, blk1(), blk2()\n\
             blk1(): depth=0 divergent\n    MOV_R Rd=R2 Rb=RZ\n    br blk3()\nblk2(): depth=0 divergent\n    MOV_R Rd=R3 Rb=RZ\n    br blk4()\n\
             blk3(): depth=0\n{moves}    brif P1, blk5(), blk6()\nblk4(): depth=0 divergent\n{rest}    br blk3()\n\
             blk5(): depth=0 divergent\n    UMOV_I Rd=UR5 Mask=0x7\n    br blk6()\nblk6(): depth=0\n    exit\n}}\n"
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        run(&mut f);
        f.blocks[3].insts.iter().filter(|i| matches!(&i.op, Op::Sass(s) if moved(s).is_some())).count()
    }

    #[test]
    fn what_no_side_writes_is_there_where_they_meet() {
        assert_eq!(behind_sides("    MOV_R Rd=R3 Rb=RZ\n"), 0);
        assert_eq!(behind_sides("    UMOV_I Rd=UR6 Mask=0x7\n"), 1);
        // Even what is put back: the other side may have come between.
        assert_eq!(behind_sides("    UMOV_I Rd=UR6 Mask=0x7\n    UMOV_U Rd=UR6 Rb=URZ\n"), 1);
    }
}
