//! What only moves to uniform registers read is computed right before them.
//!
//! LLVM computes the descriptors of a loop's products where the loop begins, all of one base and an immediate. There are more of them at once than uniform
//! registers; each right before its product, there are two.

use super::forms::uniform_form;
use crate::mir::operands::names_physical;
use crate::mir::{Func, Inst, Op, Vreg};
use rustc_hash::FxHashMap;
use sass::form::SlotName as S;
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand, Value};
use sass::reg::{File, Reg};
use smallvec::SmallVec;

/// Constants that moves to uniform registers read are made there at once; true if there were any.
pub(super) fn constants(f: &mut Func, sm: u16) -> bool {
    if !F::UMOV_I.get().on(sm) {
        return false;
    }
    let mut known: FxHashMap<Vreg, i64> = FxHashMap::default();
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        if let Op::Sass(s) = &inst.op
            && s.form == F::MOV_I
            && s.guard == Operand::reg(Reg::PT)
            && let (Some(d), Some(Value::Imm(bits))) =
                (s.get(S::Rd).and_then(Operand::as_reg), s.get(S::Rb).map(|o| o.value))
            && d.is_virtual()
        {
            known.insert(Vreg(d.index()), i64::from(bits.get() as u32));
        }
    }
    let mut found = false;
    for inst in f.blocks.iter_mut().flat_map(|b| &mut b.insts) {
        if let Some(&bits) = source(&inst.op).and_then(|v| known.get(&v))
            && let Op::Sass(s) = &mut inst.op
            && let Some(d) = s.get(S::Rd).and_then(Operand::as_reg)
        {
            *s = Sass::new(F::UMOV_I).with(S::Rd, d).with(S::Mask, Operand::imm(bits));
            found = true;
        }
    }
    found
}

/// True if there are several such moves in a block where the warp is whole.
pub(super) fn wanted(f: &Func) -> bool {
    (0..f.blocks.len()).any(|b| several(f, b))
}

fn several(f: &Func, b: usize) -> bool {
    let moves = |i: &&Inst| matches!(&i.op, Op::Sass(s) if s.form == F::R2UR);
    !f.blocks[b].divergent && f.blocks[b].insts.iter().filter(moves).nth(1).is_some()
}

/// Gives, in these blocks, each move to a uniform register of what is computed of one register an instruction of its own that computes it, right before it. What
/// nothing else reads is computed nowhere else then. No value lives longer for it but the one that such instructions read, which something else reads, too.
pub(super) fn run(f: &mut Func) {
    let blocks: Vec<usize> = (0..f.blocks.len()).filter(|&b| several(f, b)).collect();
    // By value: how often it is read, by such moves and at all.
    let (mut moved, mut read) = (vec![0u32; f.vregs.len()], vec![0u32; f.vregs.len()]);
    for (b, block) in f.blocks.iter().enumerate() {
        let here = blocks.contains(&b);
        for inst in &block.insts {
            f.uses(&inst.op, |v| read[v.index()] += 1);
            if let Some(v) = source(&inst.op).filter(|_| here) {
                moved[v.index()] += 1;
            }
        }
        f.term_uses(&block.term, |v| read[v.index()] += 1);
        block.term.edges().iter().flat_map(|e| &e.args).for_each(|v| read[v.index()] += 1);
    }
    // What makes them.
    let mut makers: FxHashMap<Vreg, (Inst, bool)> = FxHashMap::default();
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        if let Some(v) = single(f, &inst.op, &read).filter(|v| moved[v.index()] > 0) {
            makers.insert(v, (inst.clone(), moved[v.index()] == read[v.index()]));
        }
    }
    if makers.is_empty() {
        return;
    }
    for b in 0..f.blocks.len() {
        let here = blocks.contains(&b);
        let mut insts = std::mem::take(&mut f.blocks[b].insts);
        let mut out = Vec::with_capacity(insts.len());
        for inst in &mut insts {
            let maker = source(&inst.op).filter(|_| here).and_then(|v| makers.get(&v));
            if let (Some((maker, _)), Op::Sass(s)) = (maker, &mut inst.op)
                && let Op::Sass(made) = &maker.op
            {
                let own = Reg::virt(File::Gpr, f.new_vreg(File::Gpr).0);
                out.push(Inst::new(Op::Sass(made.clone().with(S::Rd, own)), maker.loc));
                *s = s.clone().with(S::Ra, own);
            }
            let gone = single(f, &inst.op, &read).and_then(|v| makers.get(&v)).is_some_and(|m| m.1);
            if !gone {
                inst.move_to(&mut out);
            }
        }
        f.blocks[b].insts = out;
    }
}

/// What a move to a uniform register reads.
fn source(op: &Op) -> Option<Vreg> {
    let Op::Sass(s) = op else { return None };
    let read = s.get(S::Ra).filter(|_| s.form == F::R2UR)?.as_reg()?;
    read.is_virtual().then(|| Vreg(read.index()))
}

/// The value that an instruction makes which may be made elsewhere as well: it has a uniform form and no guard, and reads one register that something else
/// reads, too.
fn single(f: &Func, op: &Op, read: &[u32]) -> Option<Vreg> {
    let Op::Sass(s) = op else { return None };
    let plain = uniform_form(s).is_some() && !names_physical(s, s.registers().reads, true);
    let (mut sources, mut made): (SmallVec<[Vreg; 4]>, SmallVec<[Vreg; 2]>) = Default::default();
    f.uses(op, |v| sources.push(v));
    f.defs(op, |v| made.push(v));
    let one = |v: Vreg| f.vregs[v.index()] == File::Gpr;
    let fits = plain && sources.len() == 1 && made.len() == 1 && one(sources[0]) && one(made[0]);
    (fits && read.get(sources[0].index()).is_some_and(|&n| n > 1)).then(|| made[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mir::{text, verify};

    /// The names of a block's instructions, and what they define and read.
    fn after(body: &str) -> Vec<String> {
        let head =
            "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    S2R Rd=%r0 Sr=0x25\n";
        let mut f = text::parse(&format!("{head}{body}    exit\n}}\n")).unwrap().remove(0);
        assert!(wanted(&f));
        run(&mut f);
        verify::ssa(&f).unwrap();
        let name = |i: &Inst| if let Op::Sass(s) = &i.op { s.form().name.to_string() } else { "copy".into() };
        f.blocks[0].insts.iter().skip(1).map(name).collect()
    }

    const MOVES: &str = "    R2UR Rd=%ur10 Ra=%r1\n    R2UR Rd=%ur11 Ra=%r2\n    R2UR Rd=%ur12 Ra=%r1\n";

    #[test]
    fn each_move_has_its_own() {
        let made = "    IADD3_RIR Rd=%r1 Ra=%r0 Rb=2\n    IADD3_RIR Rd=%r2 Ra=%r0 Rb=4\n";
        let one = ["IADD3_RIR", "R2UR"];
        assert_eq!(after(&format!("{made}{MOVES}")), [one, one, one].concat());
        // What something else reads stays where it is, too.
        let read = format!("{made}{MOVES}    STG.Size=4 Ra=RZ Rb=%r1 URc=UR4\n");
        assert_eq!(after(&read), [&["IADD3_RIR"][..], &one, &one, &one, &["STG"]].concat());
    }

    #[test]
    fn what_would_live_longer_for_it_stays() {
        let moves = ["R2UR", "R2UR", "R2UR"];
        let two = "    S2R Rd=%r3 Sr=0x21\n    IADD3_RRR Rd=%r1 Ra=%r0 Rb=%r3\n    IADD3_RRR Rd=%r2 Ra=%r0 Rb=%r3\n";
        assert_eq!(after(&format!("{two}{MOVES}")), [&["S2R", "IADD3_RRR", "IADD3_RRR"][..], &moves].concat());
        let last = "    IADD3_RIR Rd=%r1 Ra=%r0 Rb=2\n    LDS Rd=%r2 Ra=%r1\n";
        assert_eq!(after(&format!("{last}{MOVES}")), [&["IADD3_RIR", "LDS"][..], &moves].concat());
        let chain = "    IADD3_RIR Rd=%r1 Ra=%r0 Rb=2\n    IADD3_RIR Rd=%r2 Ra=%r1 Rb=4\n";
        assert_eq!(after(&format!("{chain}{MOVES}")), ["IADD3_RIR", "R2UR", "IADD3_RIR", "R2UR", "R2UR"]);
    }

    #[test]
    fn constants_are_made_in_uniform_registers() {
        let t = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\nblk0(): depth=0\n    MOV_I Rd=%r1 Rb=5\n    LDS Rd=%r2 Ra=RZ\n    R2UR Rd=%ur10 Ra=%r1\n    \
                 R2UR Rd=%ur11 Ra=%r2\n    exit\n}\n";
        let mut f = text::parse(t).unwrap().remove(0);
        assert!(constants(&mut f, 90) && !constants(&mut f, 90));
        let t = text::print(&f);
        assert!(t.contains("UMOV_I Rd=%ur10 Mask=0x5") && t.contains("R2UR Rd=%ur11"), "{t}");
    }
}
