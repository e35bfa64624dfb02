//! What both ways of a branch begin with stands before it.
//!
//! A loop that need not run at all has the same zeros for its sums on the way in and on the way around it: a hundred registers of a product are
//! cleared by one piece of code instead of two. Runs on a function after register allocation. An instruction of one way joins its equal of the other
//! if nothing before either reads or writes what it writes, or writes what it reads.

use super::{each, reads, writes};
use crate::mir::operands::Place;
use crate::mir::{Func, Inst, Op, Term};
use rustc_hash::FxHashMap;
use sass::inst::Inst as Sass;
use sass::latency::Class;

/// So many instructions of each way are looked at.
const FAR: usize = 256;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let cfg = f.cfg();
    // From the end: what has come before one branch may go before another.
    for &b in cfg.rpo.iter().rev() {
        let Term::CondBr { cond, then, els } = &f.blocks[b as usize].term else { continue };
        let ways = [then.block.0, els.block.0];
        // The function begins in the first block, too.
        let alone = |w: u32| w != 0 && w != b && cfg.preds[w as usize].len() == 1;
        if ways[0] == ways[1] || !ways.into_iter().all(alone) {
            continue;
        }
        let mut asked = Vec::new();
        if let Some(reg) = cond.as_reg() {
            each(Place { slot: None, reg, width: 1 }, &mut |u, _| asked.push(u));
        }
        let [mut one, mut other] = ways.map(|w| std::mem::take(&mut f.blocks[w as usize].insts));
        let pairs = common(&one, &other, &asked);
        for &(i, _) in &pairs {
            f.blocks[b as usize].insts.push(one[i].clone());
        }
        let [first, second]: [Vec<usize>; 2] =
            [pairs.iter().map(|p| p.0).collect(), pairs.iter().map(|p| p.1).collect()];
        leave_out(&mut one, first);
        leave_out(&mut other, second);
        f.blocks[ways[0] as usize].insts = one;
        f.blocks[ways[1] as usize].insts = other;
    }
}

fn leave_out(insts: &mut Vec<Inst>, mut gone: Vec<usize>) {
    gone.sort_unstable();
    let mut at = 0;
    insts.retain(|_| {
        at += 1;
        gone.binary_search(&(at - 1)).is_err()
    });
}

/// The instructions that a list begins with, as far as they are arithmetic or moves and nothing else.
fn lead(insts: &[Inst]) -> Vec<&Sass> {
    let plain = |i: &'_ Inst| -> bool {
        let Op::Sass(s) = &i.op else { return false };
        let form = s.form();
        let e = form.effects;
        matches!(form.class, Class::Alu | Class::Fma | Class::FmaInt | Class::Half)
            && !(e.flow || e.sync || e.cross_lane || e.load || e.store)
    };
    let list = insts.iter().take(FAR).take_while(|i| plain(i));
    list.filter_map(|i| if let Op::Sass(s) = &i.op { Some(s) } else { None }).collect()
}

/// Equal instructions of two lists that may stand before both, in order; none writes a unit of `asked`.
fn common(one: &[Inst], other: &[Inst], asked: &[usize]) -> Vec<(usize, usize)> {
    let (one, other) = (lead(one), lead(other));
    let mut pairs = Vec::new();
    if one.is_empty() || other.is_empty() {
        return pairs;
    }
    let mut made: FxHashMap<usize, usize> = FxHashMap::default();
    for (j, s) in other.iter().enumerate() {
        writes(s, |u, _| {
            made.entry(u).or_insert(j);
        });
    }
    let mut stays = [vec![true; one.len()], vec![true; other.len()]];
    for (i, s) in one.iter().enumerate() {
        let mut first = None;
        let mut free = true;
        writes(s, |u, _| {
            first = first.or(Some(u));
            free &= !asked.contains(&u);
        });
        let Some(&j) = first.filter(|_| free).and_then(|u| made.get(&u)) else { continue };
        let passes = |list: &[&Sass], stays: &[bool]| {
            !list.iter().zip(stays).any(|(before, &stays)| stays && ordered(before, s))
        };
        if stays[1][j] && *s == other[j] && passes(&one[..i], &stays[0]) && passes(&other[..j], &stays[1]) {
            stays[0][i] = false;
            stays[1][j] = false;
            pairs.push((i, j));
        }
    }
    pairs
}

/// True if the second must stay behind the first.
fn ordered(first: &Sass, second: &Sass) -> bool {
    let mut touched = [Vec::new(), Vec::new()];
    reads(first, |u, _| touched[0].push(u));
    writes(first, |u, _| touched[1].push(u));
    let mut hit = false;
    writes(second, |u, _| hit |= touched[0].contains(&u) || touched[1].contains(&u));
    reads(second, |u, _| hit |= touched[1].contains(&u));
    hit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::text;

    /// The blocks of a function whose first branches on P0 to the others, behind the pass.
    fn after(one: &str, other: &str) -> Vec<String> {
        let t = format!(
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    brif P0, blk1(), blk2()\n\
             blk1(): depth=0\n{one}    br blk3()\nblk2(): depth=0\n{other}    br blk3()\nblk3(): depth=0\n    exit\n}}\n"
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        run(&mut f);
        text::print(&f).split("blk").map(str::to_string).collect()
    }

    fn count(f: &Func, b: usize) -> usize {
        f.blocks[b].insts.len()
    }

    fn counts(one: &str, other: &str) -> [usize; 3] {
        let t = after(one, other).join("blk");
        let f = text::parse(&t).unwrap().remove(0);
        [0, 1, 2].map(|b| count(&f, b))
    }

    const ZERO: &str = "    MOV_R Rd=R4 Rb=RZ\n";

    #[test]
    fn what_both_ways_begin_with_stands_before_them() {
        assert_eq!(counts(ZERO, ZERO), [1, 0, 0]);
        let more = "    MOV_R Rd=R5 Rb=RZ\n";
        assert_eq!(counts(&format!("{ZERO}{more}"), &format!("{more}{ZERO}")), [2, 0, 0]);
        let sum = "    IADD3_RRR Rd=R6 Ra=R7 Rb=R8 Rc=RZ\n";
        assert_eq!(counts(&format!("{sum}{ZERO}"), ZERO), [1, 1, 0]);
    }

    #[test]
    fn what_is_read_or_written_before_keeps_its_place() {
        let reads = "    IADD3_RRR Rd=R6 Ra=R4 Rb=R8 Rc=RZ\n";
        assert_eq!(counts(&format!("{reads}{ZERO}"), ZERO), [0, 2, 1]);
        assert_eq!(counts(ZERO, &format!("{reads}{ZERO}")), [0, 1, 2]);
        let copy = "    MOV_R Rd=R4 Rb=R9\n";
        let made = "    MOV_R Rd=R9 Rb=RZ\n";
        assert_eq!(counts(&format!("{made}{copy}"), copy), [0, 2, 1]);
    }

    #[test]
    fn what_the_branch_asks_stays_behind_it() {
        let asked = "    ISETP_RI.Cmp=1 Pu=P0 Ra=R4 Rb=7\n";
        assert_eq!(counts(asked, asked), [0, 1, 1]);
        let free = "    ISETP_RI.Cmp=1 Pu=P1 Ra=R4 Rb=7\n";
        assert_eq!(counts(free, free), [1, 0, 0]);
    }

    /// What a store stands before is not looked at.
    #[test]
    fn only_arithmetic_is_passed() {
        let store = "    STG URc=UR4 Rb=R9\n";
        assert_eq!(counts(&format!("{store}{ZERO}"), ZERO), [0, 2, 1]);
    }
}
