//! Merges nests of AND, OR, XOR and NOT into operations on three inputs.
//!
//! A logic operation takes in the logic operations that it alone reads, as long as no more than three different inputs are
//! left, of which at most one is a constant (the machine has one place for one). Runs late: other passes know the plain
//! operations better. What was taken in is dead afterwards. What is asked of a logic operation is asked so that it says it itself ([`tests`]).

use crate::ir::{Attr, Block, Builder, Cmp, Def, Func, Inst, InstId, Mem, Op, Ty, Value};
use smallvec::{SmallVec, smallvec};

/// Truth tables of the inputs.
const INPUT: [u8; 3] = [0xf0, 0xcc, 0xaa];

/// An expression over at most three values.
#[derive(Clone)]
struct Expr {
    leaves: SmallVec<[Value; 4]>,
    table: u8,
}

/// Runs the pass.
pub fn run(f: &mut Func) {
    let Found { mut uses, logic, asking } = look(f);
    let shared = shared(f, &uses, &logic);
    for id in logic {
        if let Some(e) = merged(f, id, &uses, &shared) {
            let inst = &mut f.insts[id.0 as usize];
            for a in &inst.args {
                uses[a.index()] -= 1;
            }
            inst.op = Op::Lop3;
            inst.attr = Attr { sub: e.table, ..Attr::default() };
            let mut args: SmallVec<[Value; 3]> = e.leaves.iter().copied().collect();
            // An input that the table does not look at: one of the others again.
            while args.len() < 3 {
                let again = args.iter().copied().find(|&v| constant_of(f, v).is_none()).unwrap_or(args[0]);
                args.push(again);
            }
            args.iter().for_each(|a| uses[a.index()] += 1);
            f.insts[id.0 as usize].args = args;
        }
    }
    halves(f, &asking, &mut uses);
    tests(f, &asking, &uses);
}

/// What a walk over the function finds.
struct Found {
    /// By value, as [`super::uses`] counts.
    uses: Vec<u32>,
    /// Logic operations, in order.
    logic: Vec<InstId>,
    /// Blocks that ask whether something is zero.
    asking: Vec<usize>,
}

fn look(f: &Func) -> Found {
    let mut found = Found { uses: vec![0; f.values.len()], logic: Vec::new(), asking: Vec::new() };
    for (b, block) in f.blocks.iter().enumerate() {
        let mut asks = false;
        for &id in &block.insts {
            f.inst(id).args.iter().for_each(|a| found.uses[a.index()] += 1);
            if logic(f, id) {
                found.logic.push(id);
            }
            asks |= asks_zero(f, f.inst(id));
        }
        block.term.visit(|v| found.uses[v.index()] += 1);
        if asks {
            found.asking.push(b);
        }
    }
    found
}

/// True for a question whether something is zero or is not.
fn asks_zero(f: &Func, inst: &Inst) -> bool {
    inst.op == Op::ICmp && matches!(inst.attr.cmp, Cmp::Eq | Cmp::Ne) && constant_of(f, inst.args[1]) == Some(0)
}

/// What logic operations alone read, all of which can take it in: then it is not needed, and no register holds it from the first to the last of them. Only operations
/// with a constant, so that no more is alive for it. `operations`: those of logic.
fn shared(f: &Func, uses: &[u32], operations: &[InstId]) -> Vec<bool> {
    let mut by_logic = vec![false; f.values.len()];
    for &id in operations {
        f.inst(id).args.iter().for_each(|a| by_logic[a.index()] = true);
    }
    let of_logic = |v: Value| matches!(f.def(v), Def::Inst(def, 0) if logic(f, def));
    let mut takers = vec![0u32; f.values.len()];
    for &id in operations {
        let inst = f.inst(id);
        // It must have room, and not be taken in itself.
        let [a, b] = inst.args[..] else { continue };
        let taken = uses[inst.results[0].index()] == 1 && by_logic[inst.results[0].index()];
        if a == b || taken || constant_of(f, a).is_some() || constant_of(f, b).is_some() {
            continue;
        }
        for (v, other) in [(a, b), (b, a)] {
            takers[v.index()] += u32::from(!of_logic(other));
        }
    }
    let with_constant = |v: Value| {
        f.def_inst(v)
            .is_some_and(|d| d.args.len() == 2 && d.args.iter().filter(|&&a| constant_of(f, a).is_some()).count() == 1)
    };
    let all = |v: Value| {
        let few = uses[v.index()] > 1 && takers[v.index()] == uses[v.index()] && f.ty(v) == Ty::B32;
        few && of_logic(v) && with_constant(v)
    };
    (0..f.values.len() as u32).map(|v| all(Value(v))).collect()
}

/// What is asked.
struct Asked {
    of: Value,
    /// The half of 64 bits that holds all bits that are asked for.
    half: Option<Op>,
    mask: u64,
}

/// Whether bits of one half of 64 are set is asked of that half, and whether bits that were shifted down are, of where they were.
fn halves(f: &mut Func, asking: &[usize], uses: &mut Vec<u32>) {
    for &b in asking {
        let found: Vec<(usize, Asked)> =
            f.blocks[b].insts.iter().enumerate().filter_map(|(n, &id)| Some((n, asked(f, id, uses)?))).collect();
        if found.is_empty() {
            continue;
        }
        let old = std::mem::take(&mut f.blocks[b].insts);
        let mut found = found.into_iter().peekable();
        for (n, id) in old.into_iter().enumerate() {
            if let Some((_, Asked { of, half, mask })) = found.next_if(|x| x.0 == n) {
                let loc = f.inst(id).loc;
                let mut at = Builder::new(f, Block(b as u32));
                at.loc = loc;
                let word = half.map_or(of, |half| at.op(half, &[of], Ty::B32));
                let mask = at.constant(Ty::B32, mask);
                let set = at.op(Op::And, &[word, mask], Ty::B32);
                let zero = at.constant(Ty::B32, 0);
                uses.resize(f.values.len(), 1);
                f.insts[id.0 as usize].args = smallvec![set, zero];
            }
            f.blocks[b].insts.push(id);
        }
    }
}

/// What this comparison asks, if that can be asked of less.
fn asked(f: &Func, id: InstId, uses: &[u32]) -> Option<Asked> {
    let inst = f.inst(id);
    if !asks_zero(f, inst) {
        return None;
    }
    let and = f.def_inst(inst.args[0]).filter(|d| d.op == Op::And && uses[inst.args[0].index()] == 1)?;
    let kept = constant_of(f, and.args[1])?;
    let bits = f.ty(and.args[0]).bits();
    let shifted =
        f.def_inst(and.args[0]).filter(|d| d.op == Op::Shr && constant_of(f, d.args[1]).is_some()).and_then(|d| {
            let by = constant_of(f, d.args[1]).filter(|&n| n < u64::from(bits))?;
            // Not what a shift puts in from above.
            (kept >> (u64::from(bits) - by).min(63) == 0 || by == 0).then(|| (d.args[0], kept << by))
        });
    let part = |(of, mask): (Value, u64), moved: bool| match f.ty(of) {
        Ty::B64 if mask as u32 == 0 => Some(Asked { of, half: Some(Op::Hi), mask: mask >> 32 }),
        Ty::B64 if mask >> 32 == 0 => Some(Asked { of, half: Some(Op::Trunc), mask }),
        Ty::B32 if moved => Some(Asked { of, half: None, mask }),
        _ => None,
    };
    // Where they were, they may lie in both halves.
    shifted.and_then(|s| part(s, true)).or_else(|| part((and.args[0], kept), false))
}

/// What is zero is not what is not zero: that a logic operation says itself, where nothing else reads it, and readers of predicates take the
/// opposite for nothing.
fn tests(f: &mut Func, asking: &[usize], uses: &[u32]) {
    for &b in asking {
        let mut opposites: Vec<(usize, InstId)> = Vec::new();
        for n in 0..f.blocks[b].insts.len() {
            let id = f.blocks[b].insts[n];
            let inst = f.inst(id);
            if inst.attr.cmp != Cmp::Eq || !asks_zero(f, inst) {
                continue;
            }
            let tested = inst.args[0];
            let Def::Inst(def, 0) = f.def(tested) else { continue };
            let word = uses[tested.index()] == 1 && f.ty(tested) == Ty::B32;
            if !word || !matches!(f.inst(def).op, Op::And | Op::Or | Op::Lop3) {
                continue;
            }
            let (loc, asked) = (inst.loc, inst.results[0]);
            let other = f.new_value(Ty::P, Def::Inst(id, 0));
            let comparison = &mut f.insts[id.0 as usize];
            comparison.attr.cmp = Cmp::Ne;
            comparison.results[0] = other;
            let (attr, mem) = (Attr::default(), Mem::default());
            let not = Inst { op: Op::Not, attr, mem, imm: 0, args: smallvec![other], results: SmallVec::new(), loc };
            let not = f.new_inst(not, &[]);
            f.insts[not.0 as usize].results = smallvec![asked];
            f.values[asked.index()].def = Def::Inst(not, 0);
            opposites.push((n, not));
        }
        if opposites.is_empty() {
            continue;
        }
        let old = std::mem::take(&mut f.blocks[b].insts);
        let mut opposites = opposites.into_iter().peekable();
        let mut new = Vec::with_capacity(old.len() + opposites.len());
        for (n, id) in old.into_iter().enumerate() {
            new.push(id);
            new.extend(opposites.next_if(|o| o.0 == n).map(|o| o.1));
        }
        f.blocks[b].insts = new;
    }
}

fn constant_of(f: &Func, v: Value) -> Option<u64> {
    f.constant(v)
}

fn logic(f: &Func, id: InstId) -> bool {
    let inst = f.inst(id);
    let one = inst.results.len() == 1 && matches!(f.ty(inst.results[0]), Ty::B32 | Ty::B64);
    one && matches!(inst.op, Op::And | Op::Or | Op::Xor | Op::Not | Op::Lop3)
}

/// True where both words of a value of 64 bits are there to be computed with: of a known one little is left by itself.
fn whole(f: &Func, v: Value) -> bool {
    let known = |d: &Inst| match d.op {
        Op::Const | Op::Zext | Op::Pack => true,
        Op::Shl | Op::Shr => constant_of(f, d.args[1]).is_some(),
        _ => false,
    };
    f.ty(v) != Ty::B64 || !f.def_inst(v).is_some_and(known)
}

/// The operation as an expression over its arguments.
fn plain(f: &Func, id: InstId) -> Expr {
    let inst = f.inst(id);
    let mut leaves: SmallVec<[Value; 4]> = SmallVec::new();
    let at: SmallVec<[u8; 3]> = inst.args.iter().map(|&a| INPUT[place(&mut leaves, a)]).collect();
    let table = match inst.op {
        Op::And => at[0] & at[1],
        Op::Or => at[0] | at[1],
        Op::Xor => at[0] ^ at[1],
        Op::Not => !at[0],
        _ => compose(inst.attr.sub, at[0], at[1], at[2]),
    };
    Expr { leaves, table }
}

fn place(leaves: &mut SmallVec<[Value; 4]>, v: Value) -> usize {
    leaves.iter().position(|&l| l == v).unwrap_or_else(|| {
        leaves.push(v);
        leaves.len() - 1
    })
}

/// The table `outer` over the tables of its inputs.
fn compose(outer: u8, a: u8, b: u8, c: u8) -> u8 {
    (0..8)
        .filter(|bit| {
            let row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
            outer >> row & 1 != 0
        })
        .fold(0, |t, bit| t | 1 << bit)
}

/// The expression with as many of its inputs taken in as possible, if any can be.
fn merged(f: &Func, id: InstId, uses: &[u32], shared: &[bool]) -> Option<Expr> {
    if !logic(f, id) {
        return None;
    }
    let mut best: Option<Expr> = None;
    let mut now = plain(f, id);
    // Each round takes in one more input; three rounds see all that was there at first.
    for _ in 0..3 {
        let found = (0..now.leaves.len()).find_map(|k| {
            let v = now.leaves[k];
            let crate::ir::Def::Inst(def, 0) = f.def(v) else { return None };
            let alone = uses[v.index()] == 1 || f.inst(def).op == Op::Not || shared[v.index()];
            if !alone || !logic(f, def) {
                return None;
            }
            let inner = plain(f, def);
            let mut leaves: SmallVec<[Value; 4]> = now.leaves.iter().copied().filter(|&l| l != v).collect();
            inner.leaves.iter().for_each(|&l| {
                place(&mut leaves, l);
            });
            if leaves.len() > 3 || leaves.iter().filter(|&&l| constant_of(f, l).is_some()).count() > 1 {
                return None;
            }
            if !leaves.iter().all(|&l| whole(f, l)) {
                return None;
            }
            let input = |l: &Value| INPUT[leaves.iter().position(|x| x == l).unwrap_or(0)];
            let of = |e: &Expr, inputs: &[u8]| {
                let get = |n: usize| inputs.get(n).copied().unwrap_or(0);
                compose(e.table, get(0), get(1), get(2))
            };
            let inner_inputs: SmallVec<[u8; 3]> = inner.leaves.iter().map(input).collect();
            let inner_table = of(&inner, &inner_inputs);
            let outer_inputs: SmallVec<[u8; 3]> =
                now.leaves.iter().map(|l| if *l == v { inner_table } else { input(l) }).collect();
            let table = of(&now, &outer_inputs);
            Some(Expr { leaves, table })
        });
        match found {
            Some(e) => {
                now = e;
                best = Some(now.clone());
            }
            None => break,
        }
    }
    best.filter(|e| !e.leaves.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{text, verify};

    fn after(body: &str) -> String {
        let mut f = text::parse(&format!("func k returns(b32) {{\nblk0():\n{body}\n}}")).unwrap().remove(0);
        run(&mut f);
        super::super::dce::run(&mut f);
        verify::verify(&f).unwrap();
        text::print(&f)
    }

    const THREE: &str = "v0:b32 = sreg\nv1:b32 = sreg {imm=1}\nv2:b32 = sreg {imm=2}\n";

    #[test]
    fn bits_of_one_half_are_asked_of_it() {
        let body = |mask: u64, more: &str| {
            after(&format!(
                "v0:b64 = param {{bytes=8}}\nv1:b64 = const {{imm={mask}}}\nv2:b64 = and v0, v1\nv3:b64 = const {{imm=0}}\nv4:p = icmp v2, v3 {{cmp=eq}}\n\
                 v5:b32 = sreg\nv6:b32 = select v5, v5, v4\n{more}ret v6"
            ))
        };
        let t = body(1 << 40, "");
        assert!(
            t.contains("hi v0") && t.contains("imm=256") && !t.contains("b64 = and") && t.contains("cmp=ne"),
            "{t}"
        );
        let t = body(6, "");
        assert!(t.contains("trunc v0") && t.contains("imm=6") && !t.contains("b64 = and"), "{t}");
        // What a shift brought down.
        let down = |by: u32, mask: u32, signed: &str| {
            after(&format!(
                "v0:b32 = sreg\nv1:b32 = const {{imm={by}}}\nv2:b32 = shr v0, v1 {{{signed}}}\nv3:b32 = const {{imm={mask}}}\nv4:b32 = and v2, v3\n\
                 v5:b32 = const {{imm=0}}\nv6:p = icmp v4, v5 {{cmp=ne}}\nv7:b32 = select v0, v0, v6\nret v7"
            ))
        };
        assert!(down(14, 3, "").contains("imm=49152") && !down(14, 3, "").contains("shr"));
        assert!(down(30, 3, "signed").contains("imm=3221225472") && !down(30, 3, "signed").contains("shr"));
        assert!(down(30, 7, "signed").contains("shr"));
        // What comes of both halves is asked of the half that it was brought to.
        let t = after(
            "v0:b64 = param {bytes=8}\nv1:b32 = const {imm=28}\nv2:b64 = shr v0, v1\nv3:b64 = const {imm=255}\nv4:b64 = and v2, v3\n\
             v5:b64 = const {imm=0}\nv6:p = icmp v4, v5 {cmp=ne}\nv7:b32 = sreg\nv8:b32 = select v7, v7, v6\nret v8",
        );
        assert!(t.contains("trunc v2") && t.contains("imm=255") && !t.contains("b64 = and"), "{t}");
        // Bits of both, and what somebody else reads.
        assert!(body(1 << 40 | 1, "").contains("b64 = and"));
        assert!(body(6, "store v0, v2 {space=global bytes=8}\n").contains("b64 = and"));
    }

    #[test]
    fn nests_become_one() {
        let t = after(&format!("{THREE}v3:b32 = and v0, v1\nv4:b32 = xor v3, v2\nret v4"));
        assert!(t.contains("lop3") && !t.contains("xor") && !t.contains("= and"), "{t}");
        // (a & b) ^ (~a & c): three inputs, four operations.
        let t = after(&format!(
            "{THREE}v3:b32 = and v0, v1\nv4:b32 = not v0\nv5:b32 = and v4, v2\nv6:b32 = xor v3, v5\nret v6"
        ));
        assert!(t.matches("lop3").count() == 1 && !t.contains("xor"), "{t}");
    }

    #[test]
    fn nests_of_64_bits_become_one_where_both_words_are_there() {
        let body = |third: &str| {
            format!(
                "v0:b64 = param {{bytes=8}}\nv1:b64 = param {{bytes=8 imm=8}}\nv2:b64 = {third}\nv3:b64 = and v0, v1\nv4:b64 = xor v3, v2\nv5:b32 = hi v4\nret v5"
            )
        };
        let after = |third: &str| after(&body(third)).matches("lop3").count();
        assert_eq!((after("param {bytes=8 imm=16}"), after("const {imm=4294967296}")), (1, 0));
    }

    #[test]
    fn tables_compose() {
        assert_eq!(compose(0xc0, 0xf0, 0xcc, 0), 0xc0);
        assert_eq!(compose(0xca, INPUT[0], INPUT[1], INPUT[2]), 0xca);
        assert_eq!(compose(0x3c, 0xc0, 0xaa, 0), 0xc0 ^ 0xaa);
    }

    #[test]
    fn what_logic_alone_reads_goes_into_all_of_it() {
        let body = |rest: &str| {
            let all = "v3:b32 = const {imm=4}\nv4:b32 = or v0, v3\nv5:b32 = or v4, v1\nv6:b32 = or v4, v2\n";
            after(&format!("{THREE}{all}{rest}"))
        };
        let t = body("v7:b32 = imul v5, v6\nret v7");
        assert!(t.matches("lop3").count() == 2 && !t.contains("= or"), "{t}");
        // Not where somebody else reads it, ...
        let t = body("v7:b32 = imul v5, v6\nv8:b32 = imul v7, v4\nret v8");
        assert!(!t.contains("lop3") && t.matches("= or").count() == 3, "{t}");
        // ... nor into what is taken in itself.
        let t = body("v7:b32 = xor v5, v2\nv8:b32 = imul v7, v6\nret v8");
        assert!(t.matches("lop3").count() == 1 && t.matches("= or").count() == 2, "{t}");
    }

    #[test]
    fn shared_operations_stay() {
        let t = after(&format!("{THREE}v3:b32 = and v0, v1\nv4:b32 = xor v3, v2\nv5:b32 = iadd v3, v4\nret v5"));
        assert!(t.contains("= and") && t.contains("xor"), "{t}");
    }
}
