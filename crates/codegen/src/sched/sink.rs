//! Computes again, near their uses, values that cost one cheap instruction: constants and words of constant banks.
//!
//! PTX reads the parameters of a kernel at its start. A register that waits from there to the last block is worth more than
//! a second `LDC`: each block that reads such a value gets one of its own. What a loop reads is computed before the
//! loop, in the block that dominates it and lies no deeper than the definition; where the loop is crowded, and what reads it is a small part of it, in the
//! loop ([`levels`]). Runs on SSA form, before scheduling.

use super::prepass::DEEPER;
use crate::cfg::Cfg;
use crate::mir::liveness::Liveness;
use crate::mir::operands::{Place, sass_uses};
use crate::mir::{Func, Inst, Op, Term, Vreg};
use crate::regalloc::{pressures, undefined};
use rustc_hash::FxHashMap;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};
use smallvec::SmallVec;

/// Most blocks that compute a value again; one that is read in more stays in its register.
const MOST: usize = 4;
const NONE: u32 = u32::MAX;
/// The constant banks with parameters, and with addresses of variables.
const PARAMETERS: u8 = 0;
const ADDRESSES: u8 = 4;
/// What computes such a value: its block, the instruction, where that comes from, and what it makes.
type Cheap = (u32, Sass, u32, SmallVec<[Vreg; 2]>);
/// Where no more registers are taken than these, one less is worth nothing.
const FEW: u32 = 24;
/// Blocks that take less than the most registers by no more than this part of them count as crowded.
const CROWD: u32 = 4;
/// What a word of a constant bank costs where it is read, in instructions: something waits for it.
const AGAIN: u64 = 4;

/// Runs the pass.
pub fn run(f: &mut Func) {
    if f.blocks.len() < 2 {
        return;
    }
    // By scalar: which of the cheap instructions defines it.
    let mut of = vec![NONE; f.vregs.len()];
    let mut cheap: Vec<Cheap> = Vec::new();
    for b in 0..f.blocks.len() {
        for inst in &f.blocks[b].insts {
            let Op::Sass(s) = &inst.op else { continue };
            if !repeatable(s) {
                continue;
            }
            let mut defs: SmallVec<[Vreg; 2]> = SmallVec::new();
            f.defs(&inst.op, |v| defs.push(v));
            defs.iter().for_each(|v| of[v.index()] = cheap.len() as u32);
            cheap.push((b as u32, s.clone(), inst.loc, defs));
        }
    }
    if cheap.is_empty() {
        return;
    }
    let cfg = f.cfg();
    let dom = cfg.dominators();
    let levels = levels(f, &cfg, &cheap, &of);
    let target = |f: &Func, n: u32, used: u32| -> u32 {
        let (mut at, def) = (used, cheap[n as usize].0);
        while at != def && f.blocks[at as usize].depth > levels[n as usize] {
            at = dom.idom[at as usize];
        }
        at
    };
    // Where each is wanted.
    let mut wanted: Vec<SmallVec<[u32; 4]>> = vec![SmallVec::new(); cheap.len()];
    for &b in &cfg.rpo {
        each_use(f, b as usize, |v| {
            let n = of[v.index()];
            if n == NONE {
                return;
            }
            let at = target(f, n, b);
            let list = &mut wanted[n as usize];
            if list.len() <= MOST && !list.contains(&at) {
                list.push(at);
            }
        });
    }
    // New names: (definition, block where it is computed) -> scalars.
    let mut names: FxHashMap<(u32, u32), SmallVec<[Vreg; 2]>> = FxHashMap::default();
    let mut first: Vec<Vec<Inst>> = vec![Vec::new(); f.blocks.len()];
    for (n, list) in wanted.iter().enumerate() {
        let home = cheap[n].0;
        if list.len() > MOST {
            continue;
        }
        for &at in list.iter().filter(|&&at| at != home) {
            let (s, loc, defs) = (cheap[n].1.clone(), cheap[n].2, cheap[n].3.clone());
            let new: SmallVec<[Vreg; 2]> = defs.iter().map(|v| f.new_vreg(f.vregs[v.index()])).collect();
            let r = f.vector(&new);
            first[at as usize].push(Inst::new(Op::Sass(s.with(S::Rd, r)), loc));
            names.insert((n as u32, at), new);
        }
    }
    if names.is_empty() {
        return;
    }
    let old = of.len();
    for &b in &cfg.rpo {
        let mut to = |f: &Func, v: Vreg| -> Vreg {
            let n = if v.index() < old { of[v.index()] } else { NONE };
            if n == NONE {
                return v;
            }
            let at = target(f, n, b);
            let k = cheap[n as usize].3.iter().position(|&d| d == v).unwrap_or(0);
            names.get(&(n, at)).map_or(v, |new| new[k])
        };
        rename(f, b as usize, &mut to);
    }
    for (b, code) in first.into_iter().enumerate() {
        if code.is_empty() {
            continue;
        }
        // Behind what must stand at the start of a block and reads none of it.
        let mut new: SmallVec<[Vreg; 4]> = SmallVec::new();
        code.iter().for_each(|i| f.defs(&i.op, |v| new.push(v)));
        let reads = |i: &Inst| {
            let mut any = false;
            f.uses(&i.op, |v| any |= new.contains(&v));
            any
        };
        let at = f.blocks[b].insts.iter().take_while(|i| stays_first(i) && !reads(i)).count();
        f.blocks[b].insts.splice(at..at, code);
    }
    drop_unread(f, &of, old);
}

/// How deep in loops each value may be computed again: where its definition lies, but deeper where one register less is worth it, as a loop that is crowded
/// would keep it for a few reads that are a small part of it.
fn levels(f: &Func, cfg: &Cfg, cheap: &[Cheap], of: &[u32]) -> Vec<u32> {
    let depth = |b: u32| f.blocks[b as usize].depth;
    let mut out: Vec<u32> = cheap.iter().map(|c| depth(c.0)).collect();
    // The blocks, in loops that it is not computed in, that read each.
    let mut inner: Vec<SmallVec<[u32; 4]>> = vec![SmallVec::new(); cheap.len()];
    for &b in cfg.rpo.iter().filter(|&&b| depth(b) > 0) {
        each_use(f, b as usize, |v| {
            let n = of[v.index()] as usize;
            if of[v.index()] != NONE && depth(b) > out[n] && inner[n].len() <= MOST && !inner[n].contains(&b) {
                inner[n].push(b);
            }
        });
    }
    if inner.iter().all(SmallVec::is_empty) {
        return out;
    }
    let live = Liveness::new(f, cfg);
    let (most, by_block) = pressures(f, cfg, &live);
    let most = most.max[File::Gpr as usize];
    if most <= FEW {
        return out;
    }
    let crowded = |b: u32| by_block[b as usize][File::Gpr as usize] >= most - most / CROWD;
    let mut through = vec![false; cheap.len()];
    for &b in cfg.rpo.iter().filter(|&&b| depth(b) > 0 && crowded(b)) {
        for &v in &live.live_in[b as usize] {
            let n = of[v.index()] as usize;
            if of[v.index()] != NONE && depth(b) > out[n] && !inner[n].contains(&b) {
                through[n] = true;
            }
        }
    }
    let often = |b: u32| 1u64 << (DEEPER * depth(b).min(4));
    let all: u64 = cfg.rpo.iter().map(|&b| f.blocks[b as usize].insts.len() as u64 * often(b)).sum();
    for (n, list) in inner.iter().enumerate() {
        if list.is_empty() || list.len() > MOST || !through[n] {
            continue;
        }
        let wait = if cheap[n].1.form == F::LDC { AGAIN } else { 1 };
        let more: u64 = list.iter().map(|&b| wait * often(b)).sum();
        if 2 * more * u64::from(most) < all * cheap[n].3.len() as u64 {
            out[n] = list.iter().map(|&b| depth(b)).max().unwrap_or(out[n]);
        }
    }
    out
}

fn stays_first(i: &Inst) -> bool {
    matches!(&i.op, Op::Sass(s) if s.form().effects.flow || s.form().effects.sync)
}

/// True for an instruction that gives the same wherever it stands, and costs next to nothing.
fn repeatable(s: &Sass) -> bool {
    let zero = |name| s.get(name).and_then(Operand::as_reg).is_none_or(|r| r == Reg::RZ);
    let plain =
        || s.guard == Operand::reg(Reg::PT) && s.get(S::Rd).and_then(Operand::as_reg).is_some_and(Reg::is_virtual);
    let cheap = match s.form {
        F::MOV_I => true,
        F::MOV_R => s.get(S::Rb).and_then(Operand::as_reg) == Some(Reg::RZ),
        F::CS2R => undefined::is(s),
        F::LDC => {
            let bank = s.get(S::Const).map(|o| o.value);
            let plain = matches!(bank, Some(Value::Const { bank: PARAMETERS | ADDRESSES, .. }));
            plain && zero(S::Ra) && s.modifier(M::Mode) == 0
        }
        _ => false,
    };
    cheap && plain()
}

/// Every read in a block, its terminator and the arguments of its edges among them.
pub(super) fn each_use(f: &Func, b: usize, mut use_of: impl FnMut(Vreg)) {
    for inst in &f.blocks[b].insts {
        f.uses(&inst.op, &mut use_of);
    }
    f.term_uses(&f.blocks[b].term, &mut use_of);
    for e in f.blocks[b].term.edges() {
        e.args.iter().copied().for_each(&mut use_of);
    }
}

/// Every read in a block becomes that of what `to` says.
pub(crate) fn rename(f: &mut Func, b: usize, to: &mut impl FnMut(&Func, Vreg) -> Vreg) {
    let mut insts = std::mem::take(&mut f.blocks[b].insts);
    for inst in &mut insts {
        match &mut inst.op {
            Op::Sass(s) => {
                // Most read nothing that has another name.
                let mut any = false;
                f.sass_reads(s, |v| any |= to(f, v) != v);
                if !any {
                    continue;
                }
                let mut places: SmallVec<[Place; 8]> = SmallVec::new();
                sass_uses(s, |p| places.push(p));
                for p in places.into_iter().filter(|p| p.reg.is_virtual()) {
                    let list = f.scalars(p.reg);
                    let new: SmallVec<[Vreg; 4]> = list.iter().map(|&v| to(f, v)).collect();
                    if new == list {
                        continue;
                    }
                    let r = Value::Reg(f.vector(&new));
                    match p.slot {
                        Some(n) => s.operands[n as usize].value = r,
                        None => s.guard.value = r,
                    }
                }
            }
            Op::Copy(pairs) => {
                for (_, s) in pairs.iter_mut().filter(|p| p.1.is_virtual()) {
                    *s = f.reg(to(f, Vreg(s.index())));
                }
            }
            Op::Call(c) => {
                c.args.iter_mut().for_each(|a| a.0 = to(f, a.0));
                c.target.values_mut().into_iter().for_each(|v| *v = to(f, *v));
            }
            // What is read for longer is what was read, whatever is made again for others.
            Op::LoadIncoming { .. } | Op::Hold { .. } => {}
        }
    }
    let mut term = std::mem::replace(&mut f.blocks[b].term, Term::Unreachable);
    match &mut term {
        Term::Switch { index, .. } if *index != Vreg::NONE => *index = to(f, *index),
        Term::Ret(values) => values.iter_mut().for_each(|v| v.0 = to(f, v.0)),
        Term::CondBr { cond: Operand { value: Value::Reg(r), .. }, .. } if r.is_virtual() => {
            *r = f.reg(to(f, Vreg(r.index())));
        }
        _ => {}
    }
    for e in term.edges_mut() {
        e.args.iter_mut().for_each(|v| *v = to(f, *v));
    }
    f.blocks[b].term = term;
    f.blocks[b].insts = insts;
}

/// Takes out the first computations that nothing reads any more.
fn drop_unread(f: &mut Func, of: &[u32], old: usize) {
    let mut read = vec![false; f.vregs.len()];
    for b in 0..f.blocks.len() {
        each_use(f, b, |v| read[v.index()] = true);
    }
    let mut blocks = std::mem::take(&mut f.blocks);
    for block in &mut blocks {
        block.insts.retain(|i| {
            let mut keep = !matches!(&i.op, Op::Sass(s) if repeatable(s));
            if keep {
                return true;
            }
            f.defs(&i.op, |v| keep |= v.index() >= old || of[v.index()] == NONE || read[v.index()]);
            keep
        });
    }
    f.blocks = blocks;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    fn after(body: &str) -> Func {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        run(&mut f);
        verify::ssa(&f).unwrap();
        f
    }

    const FIRST: &str = "blk0(): depth=0\n    LDC Rd=%r0 Const=c[0x0][0x210] Ra=RZ\n    S2R Rd=%r1 Sr=0x21\n    ISETP_RR Pu=%p2 Ra=%r1 Rb=RZ\n    brif %p2, blk1(), blk2()\n";

    #[test]
    fn words_of_banks_move_to_the_blocks_that_read_them() {
        let f = after(&format!(
            "{FIRST}blk1(): depth=0\n    IADD3_RRR Rd=%r3 Ra=%r0 Rb=%r1 Rc=RZ\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    exit\nblk2(): depth=0\n    exit\n"
        ));
        let loads =
            |b: usize| f.blocks[b].insts.iter().filter(|i| matches!(&i.op, Op::Sass(s) if s.form == F::LDC)).count();
        assert_eq!([loads(0), loads(1), loads(2)], [0, 1, 0]);
    }

    /// Addresses of variables stand in bank 4, as pairs; what banks of other kinds hold is left alone.
    #[test]
    fn addresses_of_variables_move_as_parameters_do() {
        let pairs = |bank: u32| {
            let load = format!("LDC.Size=5 Rd={{%r5,%r6}} Const=c[{bank:#x}][0x10] Ra=RZ");
            let f = after(&format!(
                "{}blk1(): depth=0\n    STG.Size=4 Ra=RZ Rb=%r5 URc=UR4\n    STG.Size=4 Ra=RZ Rb=%r6 URc=UR4\n    exit\nblk2(): depth=0\n    exit\n",
                FIRST.replace("LDC Rd=%r0 Const=c[0x0][0x210] Ra=RZ", &load)
            ));
            [0, 1]
                .map(|b| f.blocks[b].insts.iter().filter(|i| matches!(&i.op, Op::Sass(s) if s.form == F::LDC)).count())
        };
        assert_eq!([pairs(0), pairs(4), pairs(3)], [[0, 1], [0, 1], [1, 0]]);
    }

    #[test]
    fn what_a_block_begins_with_may_read_them() {
        let f = after(&format!(
            "{FIRST}blk1(): depth=0\n    WARPSYNC Ra=%r0\n    STG.Size=4 Ra=RZ Rb=%r1 URc=UR4\n    exit\nblk2(): depth=0\n    exit\n"
        ));
        assert!(matches!(&f.blocks[1].insts[0].op, Op::Sass(s) if s.form == F::LDC));
    }

    #[test]
    fn loops_keep_what_they_read_in_registers() {
        let f = after(&format!(
            "{FIRST}blk1(): depth=1 divergent\n    IADD3_RRR Rd=%r3 Ra=%r0 Rb=%r1 Rc=RZ\n    STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n    brif %p2, blk1(), blk2()\nblk2(): depth=0\n    exit\n"
        ));
        assert!(f.blocks[1].insts.iter().all(|i| !matches!(&i.op, Op::Sass(s) if s.form == F::LDC)));
    }

    /// A loop of two blocks: the first keeps `values` alive that it computes, the second reads a word of a bank and `more` instructions are in it.
    fn crowded_loop(values: usize, more: usize) -> [usize; 3] {
        let list = |line: &dyn Fn(usize) -> String, n: usize| (0..n).map(line).collect::<String>();
        let load = list(&|k| format!("    LDS Rd=%r{} Ra=%r1\n", 10 + k), values);
        let store = list(&|k| format!("    STG.Size=4 Ra=RZ Rb=%r{} URc=UR4\n", 10 + k), values);
        let rest = "    STG.Size=4 Ra=RZ Rb=%r1 URc=UR4\n".repeat(more);
        let f = after(&format!(
            "{}blk1(): depth=1 divergent\n{load}{store}    br blk2()\nblk2(): depth=1 divergent\n    IADD3_RRR Rd=%r3 Ra=%r0 Rb=%r1 Rc=RZ\n    \
             STG.Size=4 Ra=RZ Rb=%r3 URc=UR4\n{rest}    brif %p2, blk1(), blk3()\nblk3(): depth=0\n    exit\n",
            FIRST.replace("blk2", "blk3")
        ));
        let loads =
            |b: usize| f.blocks[b].insts.iter().filter(|i| matches!(&i.op, Op::Sass(s) if s.form == F::LDC)).count();
        [loads(0), loads(1), loads(2)]
    }

    #[test]
    fn loops_that_are_crowded_read_words_of_banks_where_that_is_little_of_them() {
        // Before the loop, in its crowded part, where it is read.
        assert_eq!(crowded_loop(40, 400), [0, 0, 1]);
        assert_eq!(crowded_loop(40, 0), [1, 0, 0]);
        assert_eq!(crowded_loop(10, 400), [1, 0, 0]);
    }
}
