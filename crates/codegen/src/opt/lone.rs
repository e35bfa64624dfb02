//! Where one thread of a warp at most comes, nothing needs to be done in turns.
//!
//! The bulk engine and barriers in shared memory are asked once for a warp; where several threads may want it, lowering has them take
//! turns in a loop that elects one after the other ([`Op::Leader`]). Most programs ask in one thread alone: `tid.x == 0`
//! where the PTX says that the CTA is a row, an elected thread, a lane. There the leader is known, and with it
//! the branches of the loop: [`super::blocks`] then takes it apart. So it does where the engine shall forget what it knows of a map, or copy from
//! shared memory to memory, and all threads that come together name the same: once is enough, as what the engine has under way is counted for the
//! warp. What the directives say of the shape of a CTA becomes constants.

use crate::cfg::{Cfg, DomTree, NONE};
use crate::converge;
use crate::ir::{Attr, Cmp, Effect, Func, Inst, InstId, Mem, Op, Sreg, Term, Ty, Value};
use crate::lower::asynchronous::Bulk;

/// Lanes of a warp.
const LANES: u32 = 32;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let listed = |f: &Func| f.blocks.iter().flat_map(|b| b.insts.clone()).collect::<Vec<_>>();
    if let Some(shape) = f.shape {
        for id in listed(f) {
            let inst = &mut f.insts[id.0 as usize];
            if inst.op == Op::Sreg
                && let Some(known) = Sreg::from_sub(inst.attr.sub).and_then(|s| extent(s, shape))
            {
                (inst.op, inst.attr, inst.mem, inst.imm) = (Op::Const, Attr::default(), Mem::default(), known.into());
            }
        }
    }
    if !f.blocks.iter().flat_map(|b| &b.insts).any(|&i| f.inst(i).op == Op::Leader) {
        return;
    }
    let uniform = f.insts.iter().any(repeats).then(|| converge::uniform(f));
    let cfg = f.cfg();
    let dom = cfg.dominators();
    for &b in &cfg.rpo {
        let Some(&first) = f.blocks[b as usize].insts.iter().find(|&&i| f.inst(i).op == Op::Leader) else { continue };
        let once = uniform.as_ref().is_some_and(|uniform| once_for_all(f, b, first, uniform));
        if once || alone(f, &cfg, &dom, b, f.shape) {
            let inst = &mut f.insts[first.0 as usize];
            (inst.op, inst.attr, inst.mem, inst.imm) = (Op::Const, Attr::default(), Mem::default(), 1);
        }
    }
}

/// True if of the threads of a warp at most one comes to block `b`, the same one each time or one at a time, where the CTA has this shape.
pub(crate) fn alone(f: &Func, cfg: &Cfg, dom: &DomTree, b: u32, shape: Option<[u32; 3]>) -> bool {
    let mut at = b;
    while at != NONE && dom.idom[at as usize] != NONE {
        let up = dom.idom[at as usize];
        // Who comes here took the branch above this way: by any other way the block itself was passed before.
        let entered = |p: &u32| *p == up || dom.dominates(at, *p);
        if let Term::CondBr { cond, then, els, .. } = &f.blocks[up as usize].term
            && cfg.preds[at as usize].iter().all(entered)
        {
            let (yes, no) = (then.block.0 == at, els.block.0 == at);
            if yes != no && one_thread(f, shape, *cond, yes, 0) {
                return true;
            }
        }
        at = up;
    }
    false
}

/// True of what has no further effect on memory when the bulk engine does it again: to forget a tensor map, and to copy from shared memory to memory.
fn repeats(inst: &Inst) -> bool {
    inst.op == Op::Bulk && matches!(Bulk::unpack(inst.imm).kind, Bulk::MAP_FORGET | Bulk::STORE | Bulk::TENSOR_STORE)
}

/// True if what the one that `leader` chooses in block `b` does is one thing that [`repeats`], the same for all that are there.
fn once_for_all(f: &Func, b: u32, leader: InstId, uniform: &[bool]) -> bool {
    let Term::CondBr { cond, then, .. } = &f.blocks[b as usize].term else { return false };
    let mut done =
        f.blocks[then.block.index()].insts.iter().map(|&i| f.inst(i)).filter(|i| i.op.effect() != Effect::Pure);
    f.inst(leader).results[0] == *cond
        && done.next().is_some_and(|i| repeats(i) && i.args.iter().all(|a| uniform[a.index()]))
        && done.next().is_none()
}

/// What a register of the shape of a CTA holds, where it is the same for all threads.
fn extent(s: Sreg, shape: [u32; 3]) -> Option<u32> {
    match s {
        Sreg::NtidX => Some(shape[0]),
        Sreg::NtidY => Some(shape[1]),
        Sreg::NtidZ => Some(shape[2]),
        Sreg::TidY if shape[1] == 1 => Some(0),
        Sreg::TidZ if shape[2] == 1 => Some(0),
        _ => None,
    }
}

/// Deepest nest of conditions that is looked at.
const DEEPEST: u32 = 6;

/// True if of the threads of a warp at most one ever sees `v` as `sense`: the same one each time, or one at a time.
fn one_thread(f: &Func, shape: Option<[u32; 3]>, v: Value, sense: bool, depth: u32) -> bool {
    let Some(inst) = f.def_inst(v).filter(|_| depth < DEEPEST) else { return false };
    let arg = |n: usize| inst.args[n];
    match inst.op {
        Op::Not => one_thread(f, shape, arg(0), !sense, depth + 1),
        Op::And if sense => inst.args.iter().any(|&a| one_thread(f, shape, a, true, depth + 1)),
        Op::Or if !sense => inst.args.iter().any(|&a| one_thread(f, shape, a, false, depth + 1)),
        // All threads of the warp must come for the next one to be elected.
        Op::Elect => sense && f.constant(arg(0)) == Some(0xffff_ffff),
        Op::ICmp if matches!((inst.attr.cmp, sense), (Cmp::Eq, true) | (Cmp::Ne, false)) => {
            let pair = |a: Value, b: Value| distinct(f, shape, a) && fixed(f, b);
            f.ty(arg(0)) == Ty::B32 && (pair(arg(0), arg(1)) || pair(arg(1), arg(0)))
        }
        _ => false,
    }
}

/// True if the numbers of threads in x follow each other in every warp, from a multiple of its size: the CTA is a row, or its rows fill warps.
pub fn filled(f: &Func) -> bool {
    fills(f.shape)
}

fn fills(shape: Option<[u32; 3]>) -> bool {
    shape.is_some_and(|[x, y, z]| y == 1 && z == 1 || x % LANES == 0)
}

/// True if no two threads of a warp have the same `v`, and each always has the same.
fn distinct(f: &Func, shape: Option<[u32; 3]>, v: Value) -> bool {
    let Some(inst) = f.def_inst(v) else { return false };
    let of_thread = |v: Value| {
        let inst = f.def_inst(v).filter(|i| i.op == Op::Sreg)?;
        Sreg::from_sub(inst.attr.sub)
    };
    // Threads of a warp follow each other in x, then y, then z.
    let row = shape.is_some_and(|[_, y, z]| y == 1 && z == 1);
    match inst.op {
        Op::Sreg => match of_thread(v) {
            Some(Sreg::Laneid) => true,
            Some(Sreg::TidX) => row || shape.is_some_and(|[x, ..]| x >= LANES),
            _ => false,
        },
        Op::And => {
            let lanes = |a: Value, mask: Value| {
                let whole = fills(shape);
                let number = match of_thread(a) {
                    Some(Sreg::TidX) => whole,
                    Some(Sreg::Laneid) => true,
                    _ => false,
                };
                number && f.constant(mask).is_some_and(|m| m as u32 & (LANES - 1) == LANES - 1)
            };
            lanes(inst.args[0], inst.args[1]) || lanes(inst.args[1], inst.args[0])
        }
        _ => false,
    }
}

/// True if `v` is the same for all threads of a CTA, and never changes.
fn fixed(f: &Func, v: Value) -> bool {
    f.def_inst(v).is_some_and(|i| match i.op {
        Op::Const | Op::Param => true,
        Op::Sreg => Sreg::from_sub(i.attr.sub).is_some_and(|s| matches!(s, Sreg::CtaidX | Sreg::CtaidY | Sreg::CtaidZ)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};
    use crate::opt::blocks;

    const ROW: Option<[u32; 3]> = Some([128, 1, 1]);

    /// True if the threads that `cond`, computed of v0 to v3, lets through still take turns.
    fn in_turns(shape: Option<[u32; 3]>, cond: &str) -> bool {
        // By a block of its own, and straight into the loop.
        let [by, straight] = ["blk1", "blk2"].map(|first| turns(shape, cond, first));
        assert_eq!(by, straight);
        by
    }

    fn turns(shape: Option<[u32; 3]>, cond: &str, first: &str) -> bool {
        let sreg = |n: usize, s: Sreg| format!("v{n}:b32 = sreg {{sub={}}}\n", s as u8);
        // Every number must be that of a value.
        let unused = (4..9).filter(|n| !cond.contains(&format!("v{n}:")));
        let unused: String = unused.map(|n| format!("v{n}:b32 = const {{imm=0}}\n")).collect();
        let body = format!(
            "func k entry returns() {{\nblk0():\n{}{}v2:b32 = const {{imm=0}}\nv3:b32 = const {{imm=-1}}\n{unused}{cond}\nbrif v9, {first}(), blk5()\nblk1():\nbr blk2()\nblk2():\nv10:p = leader\nbrif v10, blk3(), blk4()\nblk3():\nv11:b32 = sreg.volatile {{sub={}}}\nbr blk4()\nblk4():\nbrif v10, blk5(), blk2()\nblk5():\nexit\n}}",
            sreg(0, Sreg::TidX),
            sreg(1, Sreg::Laneid),
            Sreg::Clock as u8,
        );
        let mut f = text::parse(&body).unwrap().remove(0);
        verify::verify(&f).unwrap();
        f.shape = shape;
        run(&mut f);
        blocks::run(&mut f);
        verify::verify(&f).unwrap();
        let turns = f.blocks.iter().flat_map(|b| &b.insts).any(|&i| f.inst(i).op == Op::Leader);
        assert_eq!(turns, f.blocks.len() > 4, "{}", text::print(&f));
        turns
    }

    #[test]
    fn one_thread_takes_no_turns() {
        let first = "v9:p = icmp v0, v2 {cmp=eq}";
        assert!(!in_turns(ROW, first));
        assert!(!in_turns(Some([32, 4, 1]), first));
        assert!(!in_turns(None, "v9:p = icmp v2, v1 {cmp=eq}"));
        assert!(!in_turns(None, "v9:p = elect v3"));
        assert!(!in_turns(
            ROW,
            "v4:p = icmp v0, v3 {cmp=lt}\nv5:p = icmp v0, v2 {cmp=ne}\nv6:p = not v5\nv9:p = and v4, v6"
        ));
        assert!(!in_turns(ROW, "v4:b32 = const {imm=31}\nv5:b32 = and v0, v4\nv9:p = icmp v5, v2 {cmp=eq}"));
    }

    #[test]
    fn several_threads_do() {
        let first = "v9:p = icmp v0, v2 {cmp=eq}";
        // Two rows of a CTA of 16 threads in x lie in one warp.
        assert!(in_turns(None, first) && in_turns(Some([16, 2, 1]), first));
        assert!(in_turns(ROW, "v9:p = icmp v0, v2 {cmp=ne}"));
        assert!(in_turns(ROW, "v4:p = icmp v0, v2 {cmp=eq}\nv9:p = not v4"));
        assert!(in_turns(ROW, "v4:b32 = const {imm=15}\nv5:b32 = and v0, v4\nv9:p = icmp v5, v2 {cmp=eq}"));
        // Each thread has a number of its own to compare with.
        assert!(in_turns(ROW, "v9:p = icmp v0, v1 {cmp=eq}"));
        assert!(in_turns(None, "v9:p = elect v0"));
    }

    #[test]
    fn what_all_name_is_done_once() {
        let turns = |map: &str, kind: u8| {
            let bulk = Bulk { kind, second: 2, ..Bulk::default() }.pack();
            let tid = Sreg::TidX as u8;
            let body = format!(
                "func k entry returns() {{\nblk0():\nv0:b64 = param\nv1:b32 = sreg {{sub={tid}}}\nv2:b64 = zext v1\nv3:b64 = iadd v0, v2\nbr blk1()\nblk1():\nv4:p = leader\nbrif v4, blk2(), blk3()\nblk2():\nbulk {map} {{imm={bulk}}}\nbr blk3()\nblk3():\nbrif v4, blk4(), blk1()\nblk4():\nexit\n}}"
            );
            let mut f = text::parse(&body).unwrap().remove(0);
            run(&mut f);
            blocks::run(&mut f);
            verify::verify(&f).unwrap();
            f.blocks.iter().flat_map(|b| &b.insts).any(|&i| f.inst(i).op == Op::Leader)
        };
        for kind in [Bulk::MAP_FORGET, Bulk::STORE, Bulk::TENSOR_STORE] {
            assert!(!turns("v0", kind));
            // Each thread names its own.
            assert!(turns("v3", kind));
        }
        // What is added is added by each, what is brought is counted for each, and what is prefetched is asked for by each.
        assert!(turns("v0", Bulk::TENSOR_REDUCE) && turns("v0", Bulk::REDUCE));
        assert!(turns("v0", Bulk::TENSOR_LOAD) && turns("v0", Bulk::SEND));
        assert!(turns("v0", Bulk::PREFETCH));
    }

    #[test]
    fn the_shape_of_a_cta_is_known() {
        let sreg = |n: usize, s: Sreg| format!("v{n}:b32 = sreg {{sub={}}}\n", s as u8);
        let head = "func k entry returns() {\nblk0():\n";
        let list = [Sreg::NtidX, Sreg::NtidY, Sreg::TidX, Sreg::TidY, Sreg::TidZ];
        let body: String = list.iter().enumerate().map(|(n, &s)| sreg(n, s)).collect();
        let mut f = text::parse(&format!("{head}{body}exit\n}}")).unwrap().remove(0);
        f.shape = Some([64, 2, 1]);
        run(&mut f);
        let known: Vec<_> = (0..5).map(|v| f.constant(Value(v))).collect();
        assert_eq!(known, [Some(64), Some(2), None, None, Some(0)]);
    }
}
