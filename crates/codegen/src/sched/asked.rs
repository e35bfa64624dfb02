//! Comparisons made again for what reads them, where predicates are short.
//!
//! There are seven predicates. A condition that is asked once and heeded all through a block holds one of them all the time, and where more wait than there are, a
//! general register (`regalloc::spill`). So in blocks with more of them a comparison of what is there anyway is made again before each of its readers that stand apart.
//! Runs on SSA form, in an order that keeps few values alive. Linear.

use super::conditions::compares;
use crate::mir::liveness::Liveness;
use crate::mir::operands::{Place, sass_uses};
use crate::mir::{Func, Inst, Op, Vreg};
use sass::form::SlotName as S;
use sass::inst::{Inst as Sass, Value};
use sass::reg::File;
use smallvec::SmallVec;

/// Readers that stand no further apart share an outcome.
const NEAR: u32 = 6;
/// Most times that one comparison is made.
const MOST: usize = 8;
/// So many predicates that wait in general registers are too many, however many of these there are.
const FAR: u32 = 16;

/// Runs the pass on blocks in which more predicates are alive than there are, by far or so that general registers do not suffice either; `pressure` says how many of each
/// file are, at most, and `limits` how many general registers and predicates there are. True if anything changed.
pub(super) fn run(f: &mut Func, live: &Liveness, pressure: &[[u32; 4]], limits: [u32; 2]) -> bool {
    let mut changed = false;
    let short = |p: &[u32; 4]| {
        let waiting = p[File::Pred as usize].saturating_sub(limits[1]);
        waiting >= FAR || waiting > 0 && p[File::Gpr as usize] + waiting > limits[0]
    };
    for b in (0..f.blocks.len()).filter(|&b| short(&pressure[b])) {
        if let Some(insts) = again(f, b, live) {
            f.blocks[b].insts = insts;
            changed = true;
        }
    }
    changed
}

/// What is known of a value in the block.
#[derive(Clone, Default)]
struct Known {
    /// Instructions that read it, in order.
    readers: SmallVec<[u32; 4]>,
    /// It is read behind the instructions of the block, or by what is no instruction.
    behind: bool,
}

/// A comparison that is made again.
struct Again {
    /// Before which instruction, and up to which instruction what reads the outcome reads this one.
    at: u32,
    end: u32,
    /// Which one, its outcome, and the new one.
    of: u32,
    outcome: Vreg,
    name: Vreg,
}

/// The instructions of block `b` with comparisons made again; `None` where there is nothing to make.
fn again(f: &mut Func, b: usize, live: &Liveness) -> Option<Vec<Inst>> {
    let known = known(f, b, live);
    let mut list: Vec<Again> = Vec::new();
    for i in 0..f.blocks[b].insts.len() {
        if !own(&f.blocks[b].insts[i].op) {
            continue;
        }
        let op = f.blocks[b].insts[i].op.clone();
        let mut outcome = Vreg::NONE;
        f.defs(&op, |v| outcome = v);
        let k = &known[outcome.index()];
        let Some(&last) = k.readers.last().filter(|_| !k.behind) else { continue };
        // What it compares is there until then without it, but for one word that is read behind the first reader anyway.
        let mut longer = 0;
        f.uses(&op, |v| {
            let until = |at: u32| known[v.index()].behind || known[v.index()].readers.last().is_some_and(|&r| r >= at);
            longer += if until(last) {
                0
            } else if until(k.readers[0] + 1) {
                1
            } else {
                2
            };
        });
        let starts: SmallVec<[u32; 4]> = k.readers.windows(2).filter(|w| w[1] - w[0] > NEAR).map(|w| w[1]).collect();
        if longer > 1 || starts.is_empty() || starts.len() >= MOST {
            continue;
        }
        for (n, &at) in starts.iter().enumerate() {
            let end = starts.get(n + 1).copied().unwrap_or(u32::MAX);
            list.push(Again { at, end, of: i as u32, outcome, name: f.new_vreg(File::Pred) });
        }
    }
    if list.is_empty() {
        return None;
    }
    list.sort_by_key(|x| x.at);
    let old = &f.blocks[b].insts;
    let mut out = Vec::with_capacity(old.len() + list.len());
    let mut next = 0;
    for (i, inst) in (0..).zip(old) {
        while let Some(a) = list.get(next).filter(|a| a.at == i) {
            let mut new = old[a.of as usize].clone();
            if let Op::Sass(s) = &mut new.op {
                s.set(S::Pu, f.reg(a.name).into());
            }
            out.push(new);
            next += 1;
        }
        let mut inst = inst.clone();
        if let Op::Sass(s) = &mut inst.op {
            rename(s, |p| {
                let reads = |a: &&Again| a.outcome.0 == p && a.end > i;
                list[..next].iter().rev().find(reads).map(|a| Value::Reg(f.reg(a.name)))
            });
        }
        out.push(inst);
    }
    Some(out)
}

/// Of each value of the function what reads it in block `b`.
fn known(f: &Func, b: usize, live: &Liveness) -> Vec<Known> {
    let mut known = vec![Known::default(); f.vregs.len()];
    for (i, inst) in (0..).zip(&f.blocks[b].insts) {
        let sass = matches!(inst.op, Op::Sass(_));
        f.uses(&inst.op, |v| {
            let k = &mut known[v.index()];
            if k.readers.last() != Some(&i) {
                k.readers.push(i);
            }
            k.behind |= !sass;
        });
    }
    let term = &f.blocks[b].term;
    f.term_uses(term, |v| known[v.index()].behind = true);
    term.edges().iter().flat_map(|e| &e.args).for_each(|v| known[v.index()].behind = true);
    live.live_out[b].iter().for_each(|v| known[v.index()].behind = true);
    known
}

/// Gives the predicates that an instruction reads the names that `to` says.
fn rename(s: &mut Sass, to: impl Fn(u32) -> Option<Value>) {
    let mut places: SmallVec<[Place; 8]> = SmallVec::new();
    sass_uses(s, |p| places.push(p));
    for p in places.into_iter().filter(|p| p.reg.is_virtual() && p.reg.file() == File::Pred) {
        let Some(r) = to(p.reg.index()) else { continue };
        match p.slot {
            Some(n) => s.operands[n as usize].value = r,
            None => s.guard.value = r,
        }
    }
}

/// A comparison whose outcome is a value of the function.
fn own(op: &Op) -> bool {
    matches!(op, Op::Sass(s) if compares(s) && s.get(S::Pu).and_then(|o| o.as_reg()).is_some_and(|r| r.is_virtual()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    /// A comparison with a reader, sixteen other instructions, and another reader; `rest` stands behind. As if `alive` predicates were alive beside eight values, for
    /// which there are registers.
    fn after(rest: &str, alive: u32) -> Option<String> {
        let far = |n: usize| format!("    IADD3_RIR Rd=%r{n} Ra=%r0 Rb={n:#x}\n    STS Ra=%r1 Rb=%r{n}\n");
        let far: String = (2..10).map(far).collect();
        let t = format!(
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {{\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    S2R Rd=%r1 Sr=0x25\n    \
             ISETP_RI.Cmp=1 Pu=%p20 Ra=%r0 Rb=0x7\n    @%p20 STS Ra=%r1 Rb=%r1\n{far}    @!%p20 STS Ra=%r1 Rb=%r1\n{rest}    exit\n}}\n"
        );
        let mut f = text::parse(&t).unwrap().remove(0);
        let live = Liveness::new(&f, &f.cfg());
        let changed = run(&mut f, &live, &[[8, 0, alive, 0]; 2], [8, 7]);
        verify::ssa(&f).unwrap();
        changed.then(|| text::print(&f))
    }

    #[test]
    fn what_reads_far_apart_has_its_own() {
        let t = after("", 8).unwrap();
        assert_eq!(t.matches("ISETP").count(), 2, "{t}");
        let again = "    ISETP_RI.Cmp=1 Pu=%p21 Ra=%r0 Rb=0x7\n    @!%p21 STS Ra=%r1 Rb=%r1\n";
        assert!(t.contains(again) && t.contains("@%p20 STS Ra=%r1"), "{t}");
    }

    #[test]
    fn where_predicates_suffice_nothing_is_asked_again() {
        assert_eq!(after("", 7), None);
    }

    /// What somebody reads behind the block is alive there anyway.
    #[test]
    fn what_is_read_behind_the_block_stays() {
        assert_eq!(after("    brif %p20, blk1(), blk1()\nblk1(): depth=0\n", 8), None);
    }
}
