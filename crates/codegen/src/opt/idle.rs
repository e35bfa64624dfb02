//! Loops that do nothing are not run: what leads into one leads to where it ends.
//!
//! Such a loop has no effect, reads no memory, computes nothing that is read behind it, and ends at one place with the same values however it
//! ends. It is what remains of one whose results nobody wants, as strides over a grid whose body was for an argument that is not there.
//! As with any program without effects, that it ends is taken for granted: one that cannot be left is no such loop and stays.

use crate::cfg::Cfg;
use crate::ir::{Edge, Effect, Func, Term, Value};

/// Loops that are looked at together: one bit each.
const TOGETHER: usize = 64;

/// Runs the pass. Gives true if anything has changed: then blocks are left that nothing leads to.
pub fn run(f: &mut Func) -> bool {
    let cfg = f.cfg();
    let loops = cfg.loops(&cfg.dominators());
    let idle: Vec<(u32, &[u32], Edge)> = loops
        .members
        .iter()
        .filter_map(|(header, members)| Some((*header, members.as_slice(), leaves_for(f, members)?)))
        .collect();
    let mut changed = false;
    for some in idle.chunks(TOGETHER) {
        let read = read_behind(f, &cfg, some);
        for (n, (header, members, end)) in some.iter().enumerate() {
            if read >> n & 1 == 0 {
                changed |= pass_by(f, &cfg, *header, members, end);
            }
        }
    }
    changed
}

/// The one edge by which a loop of these blocks is left, however often it stands there, where nothing in the loop has an effect.
fn leaves_for(f: &Func, members: &[u32]) -> Option<Edge> {
    let mut end: Option<&Edge> = None;
    for &m in members {
        let block = &f.blocks[m as usize];
        if block.insts.iter().any(|&i| f.inst(i).op.effect() != Effect::Pure) {
            return None;
        }
        let (one, other) = match &block.term {
            Term::Br(e) => (e, e),
            Term::CondBr { then, els, .. } => (then, els),
            _ => return None,
        };
        for e in [one, other] {
            if !members.contains(&e.block.0) && **end.get_or_insert(e) != *e {
                return None;
            }
        }
    }
    end.cloned()
}

/// A bit for each of the loops: whether what it computes is read behind it, or handed on where it ends.
fn read_behind(f: &Func, cfg: &Cfg, loops: &[(u32, &[u32], Edge)]) -> u64 {
    let mut inside = vec![0u64; f.blocks.len()];
    for (n, (_, members, _)) in loops.iter().enumerate() {
        members.iter().for_each(|&m| inside[m as usize] |= 1 << n);
    }
    // By value: the loops that it is computed in.
    let mut of = vec![0u64; f.values.len()];
    for &b in &cfg.rpo {
        let block = &f.blocks[b as usize];
        let results = block.insts.iter().flat_map(|&i| &f.inst(i).results);
        block.params.iter().chain(results).for_each(|v| of[v.index()] = inside[b as usize]);
    }
    let mut read = 0;
    for &b in &cfg.rpo {
        let mut reads = |v: Value| read |= of[v.index()] & !inside[b as usize];
        let block = &f.blocks[b as usize];
        block.insts.iter().flat_map(|&i| &f.inst(i).args).for_each(|&a| reads(a));
        block.term.visit(&mut reads);
    }
    for (n, (_, _, end)) in loops.iter().enumerate() {
        read |= end.args.iter().fold(0, |all, a| all | of[a.index()]) & 1 << n;
    }
    read
}

/// What leads into the loop leads to its end.
fn pass_by(f: &mut Func, cfg: &Cfg, header: u32, members: &[u32], end: &Edge) -> bool {
    let mut changed = false;
    for &p in &cfg.preds[header as usize] {
        if members.contains(&p) {
            continue;
        }
        for e in f.blocks[p as usize].term.edges_mut() {
            if e.block.0 == header {
                *e = end.clone();
                changed = true;
            }
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};
    use crate::opt::blocks;

    /// Whether a loop of this body, which may hand `v4` on to itself and `handed` on where it ends, goes away.
    fn goes(body: &str, handed: &str, behind: &str) -> bool {
        let source = format!(
            "func k entry returns() {{\nblk0():\nv0:b64 = param\nv1:b32 = sreg\nv2:b32 = const {{imm=7}}\nbr blk1(v1)\nblk1(v3:b32):\n\
             v4:b32 = iadd v3, v2\n{body}\nv5:p = icmp v4, v2 {{cmp=lt}}\nbrif v5, blk1(v4), blk2({handed})\nblk2(v6:b32):\n\
             store v0, {behind} {{space=global bytes=4}}\nexit\n}}"
        );
        let mut f = text::parse(&source).unwrap().remove(0);
        let changed = run(&mut f);
        blocks::run(&mut f);
        verify::verify(&f).unwrap();
        let cfg = f.cfg();
        let none = cfg.loops(&cfg.dominators()).members.is_empty();
        assert_eq!(changed, none);
        none
    }

    #[test]
    fn what_nobody_waits_for_is_not_run() {
        assert!(goes("", "v1", "v6"));
        assert!(goes("v7:b32 = imul v4, v4", "v2", "v2"));
    }

    #[test]
    fn what_is_read_behind_is() {
        assert!(!goes("", "v4", "v6"));
        assert!(!goes("v7:b32 = imul v4, v4", "v2", "v7"));
        assert!(!goes("", "v1", "v4"));
    }

    #[test]
    fn what_has_an_effect_or_watches_memory_is() {
        assert!(!goes("store v0, v4 {space=global bytes=4}", "v1", "v6"));
        assert!(!goes("v7:b32 = load v0 {space=global bytes=4}", "v1", "v6"));
        assert!(!goes("v7:b32 = sreg.volatile", "v1", "v6"));
    }

    #[test]
    fn a_loop_that_is_never_left_stays() {
        let source = "func k entry returns() {\nblk0():\nv0:b32 = sreg\nbr blk1(v0)\nblk1(v1:b32):\nv2:b32 = iadd v1, v0\nbr blk1(v2)\n}";
        let mut f = text::parse(source).unwrap().remove(0);
        assert!(!run(&mut f));
    }

    #[test]
    fn loops_within_such_loops_go_with_them() {
        let source = "func k entry returns() {\nblk0():\nv0:b32 = sreg\nv7:b32 = const {imm=7}\nbr blk1(v0)\nblk1(v1:b32):\nbr blk2(v1)\n\
                      blk2(v2:b32):\nv3:b32 = iadd v2, v0\nv4:p = icmp v3, v7 {cmp=lt}\nbrif v4, blk2(v3), blk3()\nblk3():\n\
                      v5:b32 = iadd v1, v0\nv6:p = icmp v5, v7 {cmp=lt}\nbrif v6, blk1(v5), blk4()\nblk4():\nexit\n}";
        let mut f = text::parse(source).unwrap().remove(0);
        assert!(run(&mut f));
        blocks::run(&mut f);
        verify::verify(&f).unwrap();
        assert_eq!(f.blocks.len(), 1);
    }
}
