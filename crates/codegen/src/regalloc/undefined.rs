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

/// Takes the instructions out of which nobody but an edge behind their block reads what they make; what begins for such edges ([`crate::sched::holds`]) begins
/// behind everything else in its block, too, whatever has been put there since: spilling and assignment then know that nothing is put away for it.
pub fn run(f: &mut Func) {
    let begins = |i: &Inst| matches!(&i.op, Op::Hold { begins, .. } if !begins.is_empty());
    let stands = |f: &Func, b: usize| f.blocks[b].insts.iter().any(|i| made(i).is_some() || begins(i));
    let blocks: Vec<usize> = (0..f.blocks.len()).filter(|&b| stands(f, b)).collect();
    if blocks.is_empty() {
        return;
    }
    let reads = reads(f);
    for b in blocks {
        let block = &mut f.blocks[b];
        let mut here = vec![0u32; reads.len()];
        block.term.edges().iter().flat_map(|e| &e.args).for_each(|v| here[v.index()] += 1);
        let free = |v: &mut Vreg| here[v.index()] == reads[v.index()];
        let mut begins: Vec<Vreg> = Vec::new();
        block.insts.retain_mut(|inst| {
            let zero = made(inst).filter(|v| free(&mut v.clone()));
            begins.extend(zero);
            let Op::Hold { ends, begins: list } = &mut inst.op else { return zero.is_none() };
            begins.extend(list.extract_if(.., free));
            !ends.is_empty() || !list.is_empty()
        });
        if !begins.is_empty() {
            block.insts.push(Inst::new(Op::Hold { ends: Vec::new(), begins }, u32::MAX));
        }
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

    /// What begins for a loop's parameters before the end of its block goes to nowhere, though the loop has no register for it.
    #[test]
    fn what_begins_early_is_not_put_away() {
        let list = |from: usize, n: usize| (from..from + n).map(|k| format!("%r{k}")).collect::<Vec<_>>().join(", ");
        let lines = |from: usize, n: usize, line: &str| {
            (from..from + n).map(|k| line.replace('$', &k.to_string())).collect::<String>()
        };
        let body = format!(
            "blk0(): depth=0\n    S2R Rd=%r0 Sr=0x21\n    hold  -> {}\n{}    br blk1({})\n\
             blk1({}): depth=1\n    hold {} ->\n{}    STS Ra=RZ Rb=%r0\n    ISETP_RI.Cmp=1 Pu=%p1 Ra=%r0 Rb=5\n    brif %p1, blk2(), blk3()\n\
             blk2(): depth=1\n    br blk1({})\nblk3(): depth=0\n{}    exit\n",
            list(100, 16),
            lines(200, 16, "    LDS Rd=%r$ Ra=RZ Imm=$\n"),
            list(100, 16),
            list(300, 16),
            list(300, 16),
            lines(400, 4, "    LDS Rd=%r$ Ra=RZ Imm=$\n") + &lines(400, 4, "    STS Ra=RZ Rb=%r$\n"),
            list(300, 16),
            lines(200, 16, "    STS Ra=RZ Rb=%r$\n"),
        );
        let head = "func k entry max=28 outgoing=0 fixed=0 size=0 align=8 {\n";
        let mut f = text::parse(&format!("{head}{body}}}\n")).unwrap().remove(0);
        let stats = regalloc::run(&mut f, true, Tightness::Free).unwrap();
        let before = stats.spill_stores;
        assert!(before <= 4 * 12, "{stats:?}\n{}", text::print(&f));
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
