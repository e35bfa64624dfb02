//! Values that a loop carries for nothing: nobody has written them, and each way through the loop either leaves them as they are or does not read them.
//!
//! A kernel that does one tile after the other begins each with products that do not add to anything, but where there is nothing to multiply it stores what
//! it has: sums of nobody. To the program these are the sums of the tile before, so that all of them live through the whole loop. Whether there is
//! something to multiply is the same for all tiles: where there is not, no tile ever wrote them. So what is known about the loop's own conditions is
//! taken for true in one look and for false in another; where the value is not read, or comes back as it went in, in both, it is no value at all.

use crate::cfg::{Blocks, Cfg};
use crate::converge;
use crate::ir::ops::inverse_cmp;
use crate::ir::{Cmp, Def, Func, Op, Term, Value};
use crate::opt;
use rustc_hash::{FxHashMap, FxHashSet};

/// So many conditions of a loop are tried.
const CONDITIONS: usize = 4;
/// So far a value is followed backwards.
const DEEP: u32 = 16;

/// Runs the pass.
pub fn run(f: &mut Func) {
    let undefined = |f: &Func, v: Value| f.def_inst(v).is_some_and(|i| i.op == Op::Undef);
    if !f.insts.iter().any(|i| i.op == Op::Undef) {
        return;
    }
    let cfg = f.cfg();
    let loops = cfg.loops(&cfg.dominators());
    let mut replaced: Vec<Value> = Vec::new();
    let (mut home, mut readers): (Vec<u32>, Vec<Blocks>) = Default::default();
    for (h, members) in &loops.members {
        let inside: FxHashSet<u32> = members.iter().copied().collect();
        // By parameter: what it begins with, if nobody has written it and it is the same wherever control comes from.
        let count = f.blocks[*h as usize].params.len();
        let begins: Vec<Option<Value>> = (0..count)
            .map(|n| {
                let mut from = edges_into(f, &cfg, *h).filter(|e| !inside.contains(&e.0)).map(|e| e.1[n]);
                let first = from.next()?;
                (undefined(f, first) && from.all(|v| v == first)).then_some(first)
            })
            .collect();
        if begins.iter().all(Option::is_none) {
            continue;
        }
        if home.is_empty() {
            (home, readers) = (homes(f), converge::readers(f));
        }
        let mut worlds: Vec<[World; 2]> = Vec::new();
        for &c in conditions(f, members, &inside, &home).iter().take(CONDITIONS) {
            worlds.push([false, true].map(|holds| World::new(f, &cfg, *h, &inside, Some((c, holds)))));
        }
        let plain = World::new(f, &cfg, *h, &inside, None);
        for (n, first) in begins.iter().enumerate() {
            let Some(first) = *first else { continue };
            let v = f.blocks[*h as usize].params[n];
            let read = &readers[v.index()];
            if read.iter().any(|b| !inside.contains(b)) {
                continue;
            }
            if plain.spares(v, n, read) || worlds.iter().any(|both| both.iter().all(|w| w.spares(v, n, read))) {
                if replaced.is_empty() {
                    replaced = (0..f.values.len() as u32).map(Value).collect();
                }
                replaced[v.index()] = first;
            }
        }
    }
    if !replaced.is_empty() {
        opt::substitute(f, &mut replaced);
    }
}

/// The edges into a block: where from, and what they hand over.
fn edges_into<'a>(f: &'a Func, cfg: &'a Cfg, b: u32) -> impl Iterator<Item = (u32, &'a [Value])> {
    cfg.preds[b as usize].iter().flat_map(move |&p| {
        let edges = f.blocks[p as usize].term.edges();
        edges.into_iter().filter(move |e| e.block.0 == b).map(move |e| (p, e.args.as_slice()))
    })
}

/// What branches in these blocks ask that is the same in every iteration.
fn conditions(f: &Func, members: &[u32], inside: &FxHashSet<u32>, home: &[u32]) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::new();
    for &b in members {
        if let Term::CondBr { cond, .. } = f.blocks[b as usize].term {
            let asked = comparison(f, cond).map_or(cond, |c| c.0);
            if !inside.contains(&home[asked.index()]) && !out.contains(&cond) {
                out.push(cond);
            }
        }
    }
    out
}

/// By value: the block that it comes from.
fn homes(f: &Func) -> Vec<u32> {
    let mut home = vec![u32::MAX; f.values.len()];
    for (b, block) in (0..).zip(&f.blocks) {
        let results = block.insts.iter().flat_map(|&i| &f.inst(i).results);
        block.params.iter().chain(results).for_each(|v| home[v.index()] = b);
    }
    home
}

/// Of a comparison with a constant: what is compared, how, with what, and whether that is signed.
fn comparison(f: &Func, cond: Value) -> Option<(Value, Cmp, i128, bool)> {
    let inst = f.def_inst(cond).filter(|i| i.op == Op::ICmp)?;
    let bits = f.ty(inst.args[0]).bits();
    let k = f.constant(inst.args[1])?;
    let k = if inst.attr.signed { ((k << (64 - bits)) as i64 >> (64 - bits)) as i128 } else { k as i128 };
    Some((inst.args[0], inst.attr.cmp, k, inst.attr.signed))
}

/// The numbers that such a comparison is true of, as one range.
fn range(cmp: Cmp, k: i128) -> Option<(i128, i128)> {
    const FAR: i128 = 1 << 80;
    Some(match cmp {
        Cmp::Eq => (k, k),
        Cmp::Lt => (-FAR, k - 1),
        Cmp::Le => (-FAR, k),
        Cmp::Gt => (k + 1, FAR),
        Cmp::Ge => (k, FAR),
        _ => return None,
    })
}

/// A loop in which a condition that never changes is known.
struct World<'a> {
    f: &'a Func,
    cfg: &'a Cfg,
    header: u32,
    inside: &'a FxHashSet<u32>,
    known: Option<(Value, bool)>,
    /// The blocks that control comes to.
    reached: FxHashSet<u32>,
}

impl<'a> World<'a> {
    fn new(
        f: &'a Func,
        cfg: &'a Cfg,
        header: u32,
        inside: &'a FxHashSet<u32>,
        known: Option<(Value, bool)>,
    ) -> World<'a> {
        let mut world = World { f, cfg, header, inside, known, reached: FxHashSet::default() };
        let mut work = vec![header];
        world.reached.insert(header);
        while let Some(b) = work.pop() {
            for s in cfg.succs[b as usize].iter().copied() {
                if inside.contains(&s) && world.goes(b, s) && world.reached.insert(s) {
                    work.push(s);
                }
            }
        }
        world
    }

    /// What a condition is, as far as that is known here.
    fn tells(&self, cond: Value) -> Option<bool> {
        let (known, holds) = self.known?;
        if cond == known {
            return Some(holds);
        }
        let ((x, c, k, signed), (y, d, l, other)) = (comparison(self.f, known)?, comparison(self.f, cond)?);
        if x != y || signed != other {
            return None;
        }
        let (low, high) = range(if holds { c } else { inverse_cmp(c)? }, k)?;
        let within = |cmp: Cmp| range(cmp, l).is_some_and(|(from, to)| from <= low && high <= to);
        match (within(d), inverse_cmp(d).is_some_and(within)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }

    /// True if control may go from one block to another.
    fn goes(&self, from: u32, to: u32) -> bool {
        match &self.f.blocks[from as usize].term {
            Term::CondBr { cond, then, els, .. } => match self.tells(*cond) {
                Some(true) => then.block.0 == to,
                Some(false) => els.block.0 == to,
                None => true,
            },
            _ => true,
        }
    }

    /// True if parameter `n` of the loop, which is `v`, is not read in any of the blocks that may, or comes back as it went in.
    fn spares(&self, v: Value, n: usize, readers: &[u32]) -> bool {
        !self.reads(v, readers)
            || self.latches().all(|(_, args)| self.stays(args[n], v, DEEP, &mut FxHashMap::default()))
    }

    /// The edges back to the beginning of the loop.
    fn latches(&self) -> impl Iterator<Item = (u32, &'a [Value])> {
        let (f, cfg, header) = (self.f, self.cfg, self.header);
        edges_into(f, cfg, header).filter(move |e| self.reached.contains(&e.0) && self.goes(e.0, header))
    }

    fn reads(&self, v: Value, readers: &[u32]) -> bool {
        readers.iter().filter(|b| self.reached.contains(b)).any(|&b| {
            let block = &self.f.blocks[b as usize];
            if block.insts.iter().any(|&i| self.f.inst(i).args.contains(&v)) {
                return true;
            }
            let handed = |e: &crate::ir::Edge| e.args.contains(&v) && self.goes(b, e.block.0);
            match &block.term {
                Term::Br(e) => handed(e),
                Term::CondBr { cond, then, els, .. } => *cond == v || handed(then) || handed(els),
                other => {
                    let mut read = false;
                    other.visit(|a| read |= a == v);
                    read
                }
            }
        })
    }

    /// True if `x` is `v`, or nothing that anybody has written, by all ways that lead there.
    fn stays(&self, x: Value, v: Value, deep: u32, seen: &mut FxHashMap<Value, bool>) -> bool {
        if x == v || self.f.def_inst(x).is_some_and(|i| i.op == Op::Undef) {
            return true;
        }
        if let Some(&known) = seen.get(&x) {
            return known;
        }
        let Def::Param(b, n) = self.f.values[x.index()].def else { return false };
        if deep == 0 || !self.reached.contains(&b.0) || b.0 == self.header || !self.inside.contains(&b.0) {
            return false;
        }
        // What leads back here is as the rest.
        seen.insert(x, true);
        let mut from = edges_into(self.f, self.cfg, b.0).filter(|e| self.reached.contains(&e.0) && self.goes(e.0, b.0));
        let all = from.all(|(_, args)| self.stays(args[n as usize], v, deep - 1, seen));
        seen.insert(x, all);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    /// What the way past `made` hands over after the pass, where the loop carries `v4` and `back` comes back.
    fn handed(made: &str, behind: &str, back: &str) -> String {
        let source = format!(
            "func k entry returns() {{\nblk0():\nv0:b32 = param {{bytes=4}}\nv1:b32 = const {{imm=0}}\nv2:b32 = undef\nv3:p = icmp v0, v1 {{cmp=gt signed}}\n\
             v10:b32 = const {{imm=2}}\nv11:p = icmp v0, v10 {{cmp=lt signed}}\nv12:b64 = param {{bytes=8}}\nbr blk1(v2)\nblk1(v4:b32):\nbrif v3, blk2(), blk3(v4)\n\
             blk2():\n{made}\nbr blk3(v5)\nblk3(v6:b32):\n{behind}\nblk4(v7:b32):\nstore v12, v7 {{space=global bytes=4}}\n\
             v8:b32 = sreg.volatile\nv9:p = icmp v8, v1 {{cmp=ne}}\nbrif v9, blk1({back}), blk5()\nblk5():\nexit\n{SIDE}}}"
        );
        let mut f = text::parse(&source).unwrap().remove(0);
        verify::verify(&f).unwrap();
        run(&mut f);
        verify::verify(&f).unwrap();
        let Term::CondBr { els, .. } = &f.blocks[1].term else { panic!("no branch") };
        format!("v{}", els.args[0].0)
    }

    const SREG: &str = "v5:b32 = sreg.volatile";
    /// A block that changes it.
    const SIDE: &str = "blk6():\nv13:b32 = iadd v6, v0\nbr blk4(v13)\n";

    #[test]
    fn what_comes_back_as_it_went_in_where_it_is_read_is_nothing() {
        assert_eq!(handed(SREG, "br blk4(v6)", "v7"), "v2");
    }

    #[test]
    fn what_the_loop_changes_where_it_is_read_stays() {
        assert_eq!(handed("v5:b32 = iadd v4, v0", "br blk4(v6)", "v7"), "v4");
        assert_eq!(handed(SREG, "br blk6()", "v7"), "v4");
        assert_eq!(handed(SREG, "br blk4(v6)", "v0"), "v4");
    }

    #[test]
    fn one_comparison_tells_of_another() {
        // Where nothing is above zero, all is below two.
        assert_eq!(handed(SREG, "brif v11, blk4(v6), blk6()", "v7"), "v2");
        assert_eq!(handed(SREG, "brif v11, blk6(), blk4(v6)", "v7"), "v4");
    }
}
