//! Global value numbering with simplification: one walk over the dominator tree.
//!
//! Pure instructions with equal operation, attributes and arguments become the first of them that dominates; each
//! instruction is simplified first. Shuffles of the same values in one block, which the same threads execute, are one; what is the
//! same number in all threads is not shuffled.

use super::simplify::{Simpler, simplify};
use super::{identity, resolve, substitute};
use crate::ir::{Attr, Effect, Func, Inst, InstId, Mem, Op, Value};

const NONE: u32 = u32::MAX;

/// So many shuffles back one looks for one that is the same.
const NEAR: usize = 32;

/// The instructions that dominate the place at hand, to be found by what they compute. They leave in the order opposite to that
/// in which they came, so lists of those that share a place need no search.
struct Table {
    /// For each place the last entry that belongs there.
    heads: Vec<u32>,
    entries: Vec<Entry>,
}

struct Entry {
    inst: InstId,
    place: u32,
    /// The entry before it that belongs to the same place.
    before: u32,
}

impl Table {
    /// For about `n` instructions.
    fn new(n: usize) -> Table {
        Table { heads: vec![NONE; n.next_power_of_two()], entries: Vec::new() }
    }

    /// An instruction that computes the same as `id`; if there is none, `id` stands there from now on.
    fn find_or_add(&mut self, f: &Func, id: InstId) -> Option<InstId> {
        let place = hash(f, f.inst(id)) as usize & (self.heads.len() - 1);
        let mut at = self.heads[place];
        while let Some(e) = self.entries.get(at as usize) {
            if same(f, f.inst(e.inst), f.inst(id)) {
                return Some(e.inst);
            }
            at = e.before;
        }
        self.entries.push(Entry { inst: id, place: place as u32, before: self.heads[place] });
        self.heads[place] = self.entries.len() as u32 - 1;
        None
    }

    /// Leaves the first `n` entries.
    fn truncate(&mut self, n: usize) {
        while self.entries.len() > n
            && let Some(e) = self.entries.pop()
        {
            self.heads[e.place as usize] = e.before;
        }
    }
}

/// The first two arguments may change places.
fn commutes(op: Op) -> bool {
    use Op as O;
    matches!(op, O::IAdd | O::IMul | O::IMulWide | O::IMulHi | O::And | O::Or | O::Xor | O::FAdd | O::FMul)
}

/// A number of what tells most instructions apart; those that are [`same`] have the same.
fn hash(f: &Func, inst: &Inst) -> u64 {
    /// Odd, without a pattern: a part of the golden ratio.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let attr = inst.attr;
    let how = [inst.op as u64, attr.cmp as u64, attr.fmt as u64, attr.sub as u64, f.ty(inst.results[0]) as u64];
    let how = how.iter().fold(0, |h, part| h << 8 ^ part);
    let mut h = how ^ (inst.imm as u64).wrapping_mul(SPREAD);
    // Without an order, where it does not count.
    match inst.args[..] {
        [a, b] if commutes(inst.op) => {
            h = h.wrapping_add((u64::from(a.0.max(b.0)) << 32 | u64::from(a.0.min(b.0))).wrapping_mul(SPREAD))
        }
        ref args => args.iter().for_each(|a| h = (h ^ u64::from(a.0)).wrapping_mul(SPREAD)),
    }
    // The upper bits of a product depend on all bits below them.
    (h ^ h >> 32).wrapping_mul(SPREAD) >> 32
}

/// True if two pure instructions compute the same.
fn same(f: &Func, a: &Inst, b: &Inst) -> bool {
    let args = match (&a.args[..], &b.args[..]) {
        (&[a0, a1], &[b0, b1]) if commutes(a.op) => (a0, a1) == (b0, b1) || (a0, a1) == (b1, b0),
        (a, b) => a == b,
    };
    args && a.op == b.op
        && a.attr == b.attr
        && a.mem == b.mem
        && a.imm == b.imm
        && f.ty(a.results[0]) == f.ty(b.results[0])
}

/// Runs the pass.
pub fn run(f: &mut Func) {
    let cfg = f.cfg();
    let dom = cfg.dominators();
    let mut replaced = identity(f);
    let mut table = Table::new(f.blocks.iter().map(|b| b.insts.len()).sum());
    // A block, how many of its children in the tree were seen to, entries of the table before it.
    let mut stack: Vec<(u32, usize, usize)> = Vec::new();
    let mut enter = (!f.blocks.is_empty()).then_some(0);
    let mut visited = 0;
    loop {
        if let Some(b) = enter.take() {
            stack.push((b, 0, table.entries.len()));
            block(f, b as usize, &mut table, &mut replaced);
            visited += 1;
        }
        let Some((b, next, before)) = stack.last_mut() else { break };
        enter = dom.children[*b as usize].get(*next).copied();
        *next += 1;
        if enter.is_none() {
            table.truncate(*before);
            stack.pop();
        }
    }
    // A value stands in front of whatever reads it: every reader in a block that was walked was given its replacement.
    if visited < f.blocks.len() {
        substitute(f, &mut replaced);
    }
}

fn block(f: &mut Func, b: usize, table: &mut Table, replaced: &mut [Value]) {
    let mut insts = std::mem::take(&mut f.blocks[b].insts);
    let mut shuffles: Vec<InstId> = Vec::new();
    insts.retain(|&id| {
        stays(f, id, table, replaced) && (f.inst(id).op != Op::Shfl || exchanges(f, id, &mut shuffles, replaced))
    });
    f.blocks[b].insts = insts;
    let mut term = std::mem::replace(&mut f.blocks[b].term, crate::ir::Term::Unreachable);
    term.map(|v| resolve(replaced, v));
    f.blocks[b].term = term;
}

/// Simplifies an instruction; false where its results are known to be other values.
fn stays(f: &mut Func, id: InstId, table: &mut Table, replaced: &mut [Value]) -> bool {
    for a in &mut f.insts[id.0 as usize].args {
        *a = resolve(replaced, *a);
    }
    for _ in 0..8 {
        match simplify(f, f.inst(id)) {
            Some(Simpler::Value(v)) => {
                let r = f.inst(id).results[0];
                replaced[r.index()] = resolve(replaced, v);
                return false;
            }
            Some(Simpler::Const(bits)) => {
                let i = &mut f.insts[id.0 as usize];
                i.op = Op::Const;
                i.attr = Attr::default();
                i.mem = Mem::default();
                i.imm = bits as i64;
                i.args.clear();
                break;
            }
            Some(Simpler::Inst(new)) => f.insts[id.0 as usize] = new,
            None => break,
        }
    }
    let inst = f.inst(id);
    if inst.op.effect() == Effect::Pure
        && !inst.results.is_empty()
        && inst.op != Op::Undef
        && let Some(first) = table.find_or_add(f, id)
    {
        for (mine, its) in inst.results.iter().zip(&f.inst(first).results) {
            replaced[mine.index()] = *its;
        }
        return false;
    }
    true
}

/// False for a shuffle that one of `before`, those of the block so far, is, too.
fn exchanges(f: &Func, id: InstId, before: &mut Vec<InstId>, replaced: &mut [Value]) -> bool {
    let inst = f.inst(id);
    let near = before.len().saturating_sub(NEAR);
    if let Some(&first) = before[near..].iter().rev().find(|&&first| same(f, f.inst(first), inst)) {
        for (mine, its) in inst.results.iter().zip(&f.inst(first).results) {
            replaced[mine.index()] = resolve(replaced, *its);
        }
        return false;
    }
    // Whether the other thread is there, the second result, is still asked.
    if f.constant(inst.args[0]).is_some() {
        replaced[inst.results[0].index()] = inst.args[0];
    }
    before.push(id);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    fn after(body: &str) -> String {
        let mut f = text::parse(&format!("func k returns(b32) {{\n{body}\n}}")).unwrap().remove(0);
        run(&mut f);
        super::super::dce::run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    #[test]
    fn equal_values_are_computed_once() {
        let t = after(
            "blk0():\nv0:b32 = sreg\nv1:b32 = iadd v0, v0\nbr blk1()\nblk1():\nv2:b32 = iadd v0, v0\nv3:b32 = imul v2, v1\nret v3",
        );
        assert!(t.contains("imul v1, v1") && t.matches("iadd").count() == 1, "{t}");
    }

    #[test]
    fn blocks_that_nobody_comes_to_name_what_is_left() {
        let t = after(
            "blk0():\nv0:b32 = sreg\nv1:b32 = iadd v0, v0\nv2:b32 = iadd v0, v0\nret v2\nblk1():\nv3:b32 = not v2\nret v3",
        );
        assert!(t.matches("iadd").count() == 1 && t.contains("not v1"), "{t}");
    }

    #[test]
    fn instructions_that_are_the_same_have_one_number() {
        let f = text::parse(
            "func k returns(b32) {\nblk0():\nv0:b32 = sreg\nv1:b32 = const {imm=1}\nv2:b32 = iadd v0, v1\nv3:b32 = iadd v1, v0\n\
             v4:b32 = isub v0, v1\nv5:b32 = isub v1, v0\nret v2\n}",
        )
        .unwrap()
        .remove(0);
        let number = |n: usize| hash(&f, &f.insts[n]);
        assert_eq!(number(2), number(3));
        assert_ne!(number(4), number(5));
        // A thousand constants spread over a table of their number: by chance a third of the places stays empty.
        let mut places: Vec<u64> = (0..1024).map(|imm| hash(&f, &Inst { imm, ..f.insts[1].clone() }) % 1024).collect();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() > 500, "{} places", places.len());
    }

    #[test]
    fn branches_do_not_share_with_each_other() {
        let t = after(
            "blk0():\nv0:b32 = sreg\nv1:p = sreg.volatile\nbrif v1, blk1(), blk2()\nblk1():\nv2:b32 = not v0\nret v2\nblk2():\nv3:b32 = not v0\nret v3",
        );
        assert_eq!(t.matches("not v0").count(), 2, "{t}");
    }

    #[test]
    fn shuffles_of_one_block_are_shared() {
        let shuffle =
            |r: usize, p: usize, what: &str| format!("v{r}:b32, v{p}:p = shfl {what}, v1, v2, v3 {{sub=3}}\n");
        let head =
            "blk0():\nv0:b32 = sreg\nv1:b32 = const {imm=16}\nv2:b32 = const {imm=31}\nv3:b32 = const {imm=-1}\n";
        let sum = |a: &str, between: &str, b: &str| {
            let (a, b) = (shuffle(4, 5, a), shuffle(6, 7, b));
            let sum = "v8:b32 = imad v4, v1, v6\nret v8";
            after(&format!("{head}{a}{between}{b}{sum}")).matches("shfl").count()
        };
        assert_eq!(sum("v0", "", "v0"), 1);
        assert_eq!(sum("v0", "br blk1()\nblk1():\n", "v0"), 2);
        assert_eq!(sum("v0", "", "v2"), 1);
        assert_eq!(sum("v0", "", "v4"), 2);
        assert_eq!(sum("v1", "", "v2"), 0);
    }

    #[test]
    fn constants_fold() {
        let t = after("blk0():\nv0:b32 = const {imm=6}\nv1:b32 = const {imm=7}\nv2:b32 = imul v0, v1\nret v2");
        assert!(t.contains("const {imm=42}") && !t.contains("imul"), "{t}");
    }
}
