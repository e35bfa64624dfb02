//! Instruction selection: IR to machine instructions with virtual registers.
//!
//! Blocks are walked backwards, and instructions in a block from the last to the first: when an instruction is reached,
//! every use of it has been selected, so what nobody asked for (because its user swallowed it) is not emitted. Which
//! machine instruction an operation becomes is said by the ISLE rules in `rules/`; memory, control flow, calls and
//! warp-wide operations, which touch the function's shape, are written in Rust beside them.

mod asm;
mod asynchronous;
mod atomic;
pub mod chip;
mod control;
mod direct;
mod isle;
mod matrix;
mod memory;
mod operand;
mod packed;
mod special;
mod texture;
mod together;
mod warp;
pub mod warpgroup;

use crate::converge::Convergence;
use crate::ir::{self, Effect, InstId, Op as I, Ty, Value};
use crate::layout::Layout;
use crate::mir::{self, Frame, Func, Vreg};
use diag::{Diagnostic, Span};
use sass::form::Registers;
use sass::inst::{Inst as Sass, Operand, Value as Content};
use sass::reg::{File, Reg};

/// The scalars of a value: one, or low and high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Regs {
    /// Low word, or the predicate.
    pub lo: Vreg,
    /// High word of a 64-bit value.
    pub hi: Option<Vreg>,
}

/// Selection of one function.
pub struct Sel<'a> {
    f: &'a ir::Func,
    layout: &'a Layout,
    conv: &'a Convergence,
    m: Func,
    /// Registers of each value that something asked for.
    regs: Vec<Option<Regs>>,
    /// How often each value is used.
    uses: Vec<u32>,
    /// Values that live in uniform registers.
    in_uniform: Vec<bool>,
    /// Instructions of the block at hand: of each IR instruction in order, those of the last one first.
    out: Vec<mir::Inst>,
    /// Where in `out` those of the current IR instruction begin, ...
    from: usize,
    /// ... and those of the ones before.
    starts: Vec<usize>,
    loc: u32,
    /// The block being selected.
    block: usize,
    /// How many loops there are around each block.
    depth: Vec<u32>,
    /// The block of each instruction; empty where there are no loops.
    place: Vec<u32>,
    /// How many vectors there were before the current IR instruction.
    vectors: usize,
    /// Blocks already selected.
    done: Vec<bool>,
    bank0: &'static arch::Bank0,
    /// Barriers that a function saves, with the registers that hold them.
    saved: Vec<(u8, Vreg)>,
    /// Cache policies that are known, in uniform registers from the beginning of a kernel; `None` where calls would not keep them.
    policies: Option<Vec<(u64, [Vreg; 2])>>,
    /// Handles of textures and surfaces that the current block asks for, by their words in constant banks.
    handles: Vec<texture::Shared>,
    /// Uniform registers are kept through the whole function.
    keeps_uniform: bool,
    checks: Checks,
    error: Option<Diagnostic>,
}

/// What code shall look after at run time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checks {
    /// A kernel waits at its exits until errors of its memory accesses have shown.
    pub errors_at_exit: bool,
    /// Whatever takes more of the stack traps where there is none left.
    pub stack: bool,
    /// A function with arrays on the stack traps at its end where something has written beyond them.
    pub overflow: bool,
}

/// Bytes of locals from which on a function has something that may be written beyond (the vendor's compiler was seen to begin here).
const WORTH_GUARDING: u32 = 16;

/// Selects a function; `max_gprs` goes through to the register allocator.
///
/// # Errors
/// A diagnostic for an operation that has no rule.
pub fn select(
    f: &ir::Func,
    layout: &Layout,
    conv: &Convergence,
    max_gprs: u32,
    checks: Checks,
) -> Result<Func, Diagnostic> {
    let outgoing = f.calls.iter().map(|c| c.stack).max().unwrap_or(0).next_multiple_of(16);
    let fixed = (outgoing + f.local_size).next_multiple_of(4);
    let frame = Frame {
        outgoing,
        fixed,
        slots: fixed,
        size: 0,
        align: f.local_align.max(8),
        grows: f.grows,
        checked: checks.stack,
        guarded: checks.overflow && !f.entry && (f.grows || f.local_size >= WORTH_GUARDING),
    };
    let Some(bank0) = arch::bank0(layout.sm) else {
        return Err(Diagnostic::error(format!("no constant bank layout for sm_{}", layout.sm)));
    };
    let kept = f.signature.convention.keeps;
    let m = Func {
        name: f.name.clone(),
        entry: f.entry,
        linkable: f.linkable,
        keeps: kept,
        frame,
        max_gprs,
        ..Func::default()
    };
    room(f, max_gprs)?;
    let keeps = keeps_uniform(f);
    let foreign = !layout.externs.is_empty() || !layout.fetches.is_empty();
    let mut sel = Sel {
        f,
        layout,
        conv,
        m,
        regs: vec![None; f.values.len()],
        uses: count_uses(f),
        in_uniform: uniform_values(f, conv, f.linkable || foreign && comes_back(f)),
        out: Vec::new(),
        from: 0,
        starts: Vec::new(),
        loc: u32::MAX,
        block: 0,
        depth: Vec::new(),
        place: Vec::new(),
        vectors: 0,
        done: vec![false; f.blocks.len()],
        bank0,
        saved: Vec::new(),
        policies: keeps.then(Vec::new),
        handles: Vec::new(),
        keeps_uniform: keeps,
        checks,
        error: None,
    };
    sel.run();
    match sel.error {
        Some(e) => Err(e),
        None => Ok(sel.m),
    }
}

/// Fixed registers of a function and its callees, of which threads must have enough.
fn room(f: &ir::Func, max_gprs: u32) -> Result<(), Diagnostic> {
    let own = (!f.entry).then_some(&f.signature);
    for site in f.calls.iter().chain(own) {
        let pair = u32::from(site.convention.keeps.return_pair());
        let highest = site.args.iter().chain(&site.rets).map(|&r| u32::from(r)).max().unwrap_or(0);
        if highest.max(pair + 1) >= max_gprs {
            let message = format!(
                "function '{}' may use {max_gprs} registers, but its arguments and return addresses, or those of what it calls, lie in registers up to R{}",
                f.name,
                highest.max(pair + 1)
            );
            return Err(Diagnostic::error(message));
        }
    }
    Ok(())
}

/// Most values that selection keeps in uniform registers; there are 55 to give away.
const MOST_UNIFORM: usize = 40;

/// Values for uniform registers: 32-bit kernel parameters read where all threads are together, if every use is an
/// operand that may be a uniform register.
fn uniform_values(f: &ir::Func, conv: &Convergence, far: bool) -> Vec<bool> {
    let mut out = vec![false; f.values.len()];
    // A function of the system does not keep them.
    if !f.entry || far {
        return out;
    }
    let mut any = false;
    for (b, block) in f.blocks.iter().enumerate() {
        if conv.divergent[b] {
            continue;
        }
        for &i in &block.insts {
            let inst = f.inst(i);
            if inst.op == I::Param && inst.mem.bytes == 4 {
                out[inst.results[0].index()] = true;
                any = true;
            }
        }
    }
    if !any {
        return out;
    }
    for block in &f.blocks {
        for &i in &block.insts {
            let inst = f.inst(i);
            let wide = inst.results.first().is_some_and(|&r| f.ty(r) == Ty::B64);
            let takes = match inst.op {
                I::IAdd | I::ISub | I::IMul | I::IMad | I::And | I::Or | I::Xor | I::Lop3 => !wide,
                I::ICmp => f.ty(inst.args[0]) == Ty::B32,
                I::FAdd | I::FMul | I::FFma | I::FCmp => inst.attr.fmt == ir::Fmt::F32,
                _ => false,
            };
            // Two of them in one operation would need a move.
            let both = inst.args.iter().filter(|a| out[a.index()]).count() > 1;
            if !takes || both {
                inst.args.iter().for_each(|a| out[a.index()] = false);
            }
        }
        block.term.visit(|v| out[v.index()] = false);
    }
    // Uniform registers are not spilled: leave room for other uses.
    let mut left = MOST_UNIFORM;
    for u in out.iter_mut().filter(|u| **u) {
        *u = left > 0;
        left = left.saturating_sub(1);
    }
    out
}

/// True for a kernel that calls nobody who would not keep uniform registers.
fn keeps_uniform(f: &ir::Func) -> bool {
    f.entry && !f.linkable && !comes_back(f)
}

/// True if there is a call that comes back, unlike the failure of an assertion.
fn comes_back(f: &ir::Func) -> bool {
    let ends = |i: &ir::Inst| f.calls.get(i.imm as usize).is_some_and(|site| site.ends);
    let calls = |i: &ir::Inst| i.op == I::CallIndirect || i.op == I::Call && !ends(i);
    f.blocks.iter().flat_map(|b| &b.insts).any(|&i| calls(f.inst(i)))
}

fn count_uses(f: &ir::Func) -> Vec<u32> {
    let mut uses = vec![0u32; f.values.len()];
    for b in &f.blocks {
        for &i in &b.insts {
            for a in &f.inst(i).args {
                uses[a.index()] += 1;
            }
        }
        b.term.visit(|v| uses[v.index()] += 1);
    }
    uses
}

/// The block of each instruction.
fn places(f: &ir::Func) -> Vec<u32> {
    let mut out = vec![0; f.insts.len()];
    for (b, block) in f.blocks.iter().enumerate() {
        block.insts.iter().for_each(|i| out[i.0 as usize] = b as u32);
    }
    out
}

impl Sel<'_> {
    fn run(&mut self) {
        let cfg = self.f.cfg();
        let loops = cfg.loops(&cfg.dominators());
        let n = self.f.blocks.len();
        for b in 0..n {
            self.m.blocks.push(mir::Block {
                params: Vec::new(),
                insts: Vec::new(),
                term: mir::Term::Unreachable,
                loc: self.f.blocks[b].loc,
                depth: loops.depth[b],
                divergent: self.conv.divergent[b],
            });
        }
        if loops.depth.iter().any(|&d| d > 0) {
            self.place = places(self.f);
        }
        self.depth = loops.depth;
        self.keep_barriers();
        for (i, &p) in self.f.blocks[0].params.iter().enumerate() {
            let v = self.regs_of(p);
            self.m.live_in.push((v.lo, Reg::r(self.f.signature.args[i])));
        }
        for &b in cfg.rpo.iter().rev() {
            self.select_block(b as usize);
        }
        self.return_address();
        // Parameters nobody reads are dropped with their arguments by the edges: both sides ask `regs`.
        self.finish_params();
    }

    fn select_block(&mut self, b: usize) {
        self.block = b;
        self.out.reserve(self.f.blocks[b].insts.len());
        self.loc = self.f.blocks[b].loc;
        let term = self.terminator(b);
        self.next();
        for &id in self.f.blocks[b].insts.iter().rev() {
            let inst = self.f.inst(id);
            self.loc = inst.loc;
            let wanted = inst.results.iter().any(|r| self.regs[r.index()].is_some());
            if !wanted && matches!(inst.op.effect(), Effect::Pure | Effect::Read) {
                continue;
            }
            self.select_inst(id);
            self.next();
        }
        // What stands before the block's own instructions (a BSYNC of a join) comes first.
        self.begin_block(b);
        self.next();
        let mut insts = std::mem::take(&mut self.out);
        // Turned round where they lie, and those of each IR instruction again.
        insts.reverse();
        let count = insts.len();
        let mut end = std::mem::take(&mut self.from);
        while let Some(start) = self.starts.pop() {
            if end - start > 1 {
                insts[count - end..count - start].reverse();
            }
            end = start;
        }
        if self.conv.divergent[b] {
            together::thin(&mut insts);
        }
        self.m.blocks[b].insts = insts;
        self.m.blocks[b].term = term;
    }

    /// What is put out from here on stands before what has been.
    fn next(&mut self) {
        if self.out.len() > self.from {
            self.starts.push(self.from);
            self.from = self.out.len();
        }
    }

    fn select_inst(&mut self, id: InstId) {
        self.vectors = self.m.vecs.len();
        let done = match self.f.inst(id).op {
            I::LoadReduce => self.load_reduce(id),
            I::Load | I::Store | I::Atom | I::Red | I::Fence | I::Prefetch | I::LdMatrix | I::StMatrix | I::IsSpace => {
                self.memory(id)
            }
            I::Bar
            | I::WarpSync
            | I::Shfl
            | I::Vote
            | I::Match
            | I::Redux
            | I::ActiveMask
            | I::Nanosleep
            | I::Trap
            | I::Elect
            | I::GridDep
            | I::SetMaxReg
            | I::PmEvent
            | I::CheckStack
            | I::SregVolatile
            | I::Sreg => self.warp(id),
            I::FCmp2
            | I::FSet2
            | I::IAdd2
            | I::IMin2
            | I::IMax2
            | I::IPack
            | I::F2Tf32
            | I::Fp8Pack
            | I::Fp8FromHalf
            | I::HalfFromFp8 => self.packed(id),
            I::FEx2 | I::FTanh if self.f.inst(id).attr.fmt != ir::Fmt::F32 => self.packed(id),
            I::Leader | I::MBarrier | I::CopyAsync | I::AsyncOrder | I::Bulk | I::RemoteStore => self.asynchronous(id),
            I::Wgmma | I::WgmmaOrder => self.warpgroup(id),
            I::Mma | I::MovMatrix | I::Unpack8 => self.matrices(id),
            I::Texture | I::Surface | I::SameAsOne | I::Handle | I::EntrySize | I::TableAddr => self.textures(id),
            I::Call | I::Routine | I::CallIndirect => self.call(id),
            I::AddC | I::SubC => self.carry(id),
            I::IMadWideC => self.wide_carry(id),
            _ => match isle::constructor_select(self, id) {
                Some(r) => {
                    self.define(id, 0, r);
                    Some(())
                }
                None => None,
            },
        };
        if done.is_none() && self.error.is_none() {
            let inst = self.f.inst(id);
            let text = ir::text::print_inst(self.f, inst);
            let mut d = Diagnostic::error(format!("no machine code for operation '{}' yet", inst.op.name()));
            if inst.loc != u32::MAX {
                d = d.at(Span::new(inst.loc, inst.loc));
            }
            self.error = Some(d.note(text));
        }
    }

    /// Says that result `n` of an instruction is in `r`: a copy into the registers that its users already name.
    fn define(&mut self, id: InstId, n: usize, r: Regs) {
        let v = self.f.inst(id).results[n];
        let Some(want) = self.regs[v.index()] else { return };
        // The instruction that defines `r` was just emitted, and nothing else can know `r`: rename instead of copying,
        // unless it is an older value handed through.
        let halves = std::iter::once((want.lo, r.lo)).chain(want.hi.zip(r.hi));
        let mut pairs = Vec::new();
        for (w, fresh) in halves {
            if !self.rename(w, fresh) {
                pairs.push((self.m.reg(w), self.m.reg(fresh)));
            }
        }
        if !pairs.is_empty() {
            self.push_op(mir::Op::Copy(pairs));
        }
    }

    /// Makes `fresh`, defined once by what was put out last, be called `want`; false if that does not define it.
    fn rename(&mut self, want: Vreg, fresh: Vreg) -> bool {
        if want == fresh {
            return true;
        }
        let same = self.m.vregs[want.0 as usize] == self.m.vregs[fresh.0 as usize];
        if let [mir::Inst { op: mir::Op::Sass(s), .. }] = &mut self.out[self.from..]
            && s.registers().all_single()
        {
            // What makes it does not read it.
            let is = |o: &Operand| matches!(o.value, Content::Reg(r) if r.is_virtual() && r.index() == fresh.0);
            let Some(at) = bits(s.registers().writes).find(|&i| same && is(&s.operands[i])) else { return false };
            s.operands[at].value = Content::Reg(self.m.reg(want));
            self.forget(fresh);
            return true;
        }
        let found = |inst: &mir::Inst| matches!(&inst.op, mir::Op::Sass(s) if defines(s, &self.m, fresh));
        if !same || !self.out[self.from..].iter().any(found) {
            return false;
        }
        let Sel { out, from, m, .. } = self;
        for inst in out[*from..].iter_mut() {
            match &mut inst.op {
                mir::Op::Sass(s) => rename_in(s, m, want, fresh),
                mir::Op::Copy(pairs) => {
                    let (w, f) = (m.reg(want), m.reg(fresh));
                    for (d, s) in pairs {
                        for r in [d, s] {
                            if *r == f {
                                *r = w;
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        self.forget(fresh);
        true
    }

    /// Nothing names a register any more: the next one takes its number, so that what is kept by register stays short.
    fn forget(&mut self, fresh: Vreg) {
        if fresh.index() + 1 == self.m.vregs.len() && self.m.vecs.len() == self.vectors {
            self.m.vregs.pop();
        }
    }

    // ---- registers ------------------------------------------------------------------------------------------------

    /// The registers of a value: asking makes it wanted.
    fn regs_of(&mut self, v: Value) -> Regs {
        if let Some(r) = self.regs[v.index()] {
            return r;
        }
        let r = if self.in_uniform[v.index()] {
            Regs { lo: self.m.new_vreg(File::Ugpr), hi: None }
        } else {
            self.fresh(self.f.ty(v))
        };
        self.regs[v.index()] = Some(r);
        r
    }

    /// New registers for a value of type `ty`.
    fn fresh(&mut self, ty: Ty) -> Regs {
        match ty {
            Ty::P => Regs { lo: self.m.new_vreg(File::Pred), hi: None },
            Ty::B64 => {
                let lo = self.m.new_vreg(File::Gpr);
                Regs { lo, hi: Some(self.m.new_vreg(File::Gpr)) }
            }
            _ => Regs { lo: self.m.new_vreg(File::Gpr), hi: None },
        }
    }

    fn push_op(&mut self, op: mir::Op) {
        self.out.push(mir::Inst::new(op, self.loc));
    }
}

/// The numbers of the bits of a mask.
fn bits(mut mask: u16) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let n = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (n < u16::BITS as usize).then_some(n)
    })
}

/// The virtual register in operand `i`, and whether it is one scalar: else it is a vector.
fn virtual_in(s: &Sass, registers: Registers, i: usize) -> Option<(Reg, bool)> {
    let reg = s.operands[i].as_reg().filter(|r| r.is_virtual())?;
    Some((reg, registers.single >> i & 1 != 0 || s.slot_width(i) == 1))
}

/// True if the instruction writes `v`.
fn defines(s: &Sass, m: &Func, v: Vreg) -> bool {
    let registers = s.registers();
    bits(registers.writes).filter_map(|i| virtual_in(s, registers, i)).any(|(reg, scalar)| match scalar {
        true => reg.index() == v.0,
        false => m.vecs[reg.index() as usize].contains(&v),
    })
}

fn rename_in(s: &mut Sass, m: &mut Func, want: Vreg, fresh: Vreg) {
    if s.guard.as_reg().is_some_and(|r| r.is_virtual() && r.index() == fresh.0) {
        s.guard.value = Content::Reg(m.reg(want));
    }
    let registers = s.registers();
    for i in bits(registers.reads | registers.writes) {
        match virtual_in(s, registers, i) {
            Some((reg, true)) if reg.index() == fresh.0 => {
                s.operands[i].value = Content::Reg(m.reg(want));
            }
            // Made with `fresh`, which only the instructions at hand name.
            Some((reg, false)) => {
                m.vecs[reg.index() as usize].iter_mut().filter(|v| **v == fresh).for_each(|v| *v = want);
            }
            _ => {}
        }
    }
}
