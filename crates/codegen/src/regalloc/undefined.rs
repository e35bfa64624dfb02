//! Values that the program has not made: what a register holds that nothing has been written to will do.
//!
//! Ways that leave a row of loads early meet behind it with values of those that were not loaded. Until registers are assigned zeros stand for them, made by an instruction
//! that no program asks for ([`zero`]); those that only the edges behind their block read become values that begin where the block ends ([`Op::Hold`]), and no
//! edge moves them. Runs on SSA form; what is left stays zero.

use crate::mir::{Func, Inst, Op, Vreg};
use sass::enums;
use sass::form::{ModName as M, SlotName as S};
use sass::forms as F;
use sass::inst::{Inst as Sass, Operand};
use sass::reg::{File, Reg};

/// The instruction that stands for such a value: the register that reads as zero, which no program can ask for.
pub fn zero(to: Reg) -> Sass {
    let sr = Operand::imm(enums::sr::SRZ as i64);
    Sass::new(F::CS2R).with(S::Rd, to).with(S::Sr, sr).with_mod(M::W, enums::cs2rw::B32)
}

/// True for such an instruction, whose register has been given to nobody.
pub fn is(s: &Sass) -> bool {
    s.form == F::CS2R && s.get(S::Rd).and_then(Operand::as_reg).is_some_and(|to| to.is_virtual() && *s == zero(to))
}

/// What such an instruction makes.
pub fn made(inst: &Inst) -> Option<Vreg> {
    let Op::Sass(s) = &inst.op else { return None };
    s.get(S::Rd).and_then(Operand::as_reg).filter(|_| is(s)).map(|to| Vreg(to.index()))
}

/// Makes them plain zeros.
pub fn settle(f: &mut Func) {
    for inst in f.blocks.iter_mut().flat_map(|b| &mut b.insts) {
        if let Some(v) = made(inst) {
            inst.op = Op::Sass(Sass::new(F::MOV_R).with(S::Rd, Reg::virt(File::Gpr, v.0)).with(S::Rb, Reg::RZ));
        }
    }
}

/// Takes the instructions out of which nobody but an edge behind their block reads what they make.
pub fn run(f: &mut Func) {
    let stands = |f: &Func, b: usize| f.blocks[b].insts.iter().any(|i| made(i).is_some());
    let blocks: Vec<usize> = (0..f.blocks.len()).filter(|&b| stands(f, b)).collect();
    if blocks.is_empty() {
        return;
    }
    let reads = reads(f);
    for b in blocks {
        let block = &f.blocks[b];
        let mut here = vec![0u32; f.vregs.len()];
        block.term.edges().iter().flat_map(|e| &e.args).for_each(|v| here[v.index()] += 1);
        let free = |i: &Inst| made(i).filter(|v| here[v.index()] == reads[v.index()]);
        let begins: Vec<Vreg> = block.insts.iter().filter_map(free).collect();
        let insts = &mut f.blocks[b].insts;
        insts.retain(|i| free(i).is_none());
        if begins.is_empty() {
            continue;
        }
        insts.push(Inst::new(Op::Hold { ends: Vec::new(), begins }, u32::MAX));
    }
    settle(f);
}

/// By value: how often it is read.
fn reads(f: &Func) -> Vec<u32> {
    let mut reads = vec![0u32; f.vregs.len()];
    for block in &f.blocks {
        for inst in &block.insts {
            f.uses(&inst.op, |v| reads[v.index()] += 1);
        }
        f.term_uses(&block.term, |v| reads[v.index()] += 1);
        block.term.edges().iter().flat_map(|e| &e.args).for_each(|v| reads[v.index()] += 1);
    }
    reads
}

/// By value: true where it is whatever its register holds. Empty where there is none.
pub fn values(f: &Func) -> Vec<bool> {
    let mut list = Vec::new();
    for inst in f.blocks.iter().flat_map(|b| &b.insts) {
        if let Op::Hold { begins, .. } = &inst.op
            && !begins.is_empty()
        {
            list.resize(f.vregs.len(), false);
            begins.iter().for_each(|v| list[v.index()] = true);
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use crate::mir::text;
    use crate::regalloc::{self, Tightness};

    fn assigned(body: &str) -> String {
        let head = "func k entry max=253 outgoing=0 fixed=0 size=0 align=8 {\n";
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        // The checker takes part.
        regalloc::run(&mut f, true, Tightness::Tight).unwrap();
        text::print(&f)
    }

    const NONE: &str = "CS2R.W=0 Rd=%r5 Sr=0xff";

    /// One of two ways has loaded, and nothing is moved or cleared on the other.
    #[test]
    fn an_edge_without_a_value_moves_nothing() {
        let t = assigned(&format!(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    ISETP_RI.Cmp=1 Pu=%p1 Ra=%r0 Rb=0x5\n    brif %p1, blk1(), blk2()\n\
             blk1(): depth=0\n    LDS Rd=%r2 Ra=%r0\n    IADD3_RRR Rd=%r3 Ra=%r0 Rb=%r2\n    br blk3(%r2, %r3)\n\
             blk2(): depth=0\n    {NONE}\n    S2R Rd=%r4 Sr=0x22\n    br blk3(%r4, %r5)\n\
             blk3(%r6, %r7): depth=0\n    STS Ra=%r0 Rb=%r6\n    @%p1 STS Ra=%r0 Rb=%r7 Imm=0x40\n    exit\n"
        ));
        assert!(!t.contains("MOV") && !t.contains("CS2R"), "{t}");
    }

    /// What something else reads, too, is made.
    #[test]
    fn what_is_read_is_zero() {
        let t = assigned(&format!(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    {NONE}\n    STS Ra=%r0 Rb=%r5\n    br blk1(%r5)\nblk1(%r6): depth=0\n    STS Ra=%r0 Rb=%r6\n    exit\n"
        ));
        assert!(t.contains("MOV_R Rd=R") && !t.contains("CS2R"), "{t}");
    }
}
