//! Blocks, branches and guards.

use super::{Lower, Res, unsupported};
use crate::ir::{Block, Edge, Term, Ty, Value};
use diag::Diagnostic;
use ptx::isa::{Mod, Op as P};
use ptx::module::{Body, Directive, FuncKind, Guard, Inst, InstId, Operand, Stmt, Table};
use std::ops::Range;

/// Targets of an indexed branch, at most: what the vendor's tool says.
const MOST_TARGETS: usize = 16_380;

/// True if a `.pragma` asks that loops are not unrolled.
fn stays_rolled(words: &[String]) -> bool {
    words.iter().any(|w| w == "nounroll")
}

impl Lower<'_, '_> {
    /// Lowers the statements of the function, blocks in an order in which a block comes after its only predecessor.
    pub(super) fn body(&mut self) -> Res {
        let Some(body) = self.body else { return Ok(()) };
        let (starts, leaders, rolled) = self.split(body);
        let n = starts.len();
        // Successors of each PTX block, to know predecessors before anything is lowered.
        let mut succs = vec![crate::cfg::Blocks::new(); n];
        for (i, list) in succs.iter_mut().enumerate() {
            let end = starts.get(i + 1).copied().unwrap_or(body.count());
            let last = (starts[i] < end).then(|| body.inst(InstId(end as u32 - 1)));
            let (targets, falls) = last.map_or((vec![], true), |x| self.flow(&x));
            list.extend(targets.iter().map(|&l| leaders[l]));
            if falls && i + 1 < n {
                list.push(i as u32 + 1);
            }
        }
        let cfg = crate::cfg::Cfg::new(succs);
        let dominators = cfg.dominators();
        // IR block 0 holds the entry; PTX block 0 may be a loop header, so it gets a block of its own.
        let blocks: Vec<Block> = (0..n).map(|_| self.f.new_block()).collect();
        self.label_block = leaders.iter().map(|&l| if l == u32::MAX { Block(0) } else { blocks[l as usize] }).collect();
        let Some(&first) = blocks.first() else {
            self.f.blocks[0].term = self.end_of_function();
            return Ok(());
        };
        self.f.blocks[0].term = Term::Br(self.edge(first));
        let all = self.pf.directives.iter().any(|d| matches!(d, Directive::Pragma(words) if stays_rolled(words)));
        for b in if all { (0..n).collect() } else { rolled } {
            self.f.blocks[blocks[b].index()].rolled = true;
        }
        for &b in &cfg.rpo {
            let block = blocks[b as usize];
            let preds = &cfg.preds[b as usize];
            if b == 0 && preds.is_empty() {
                self.ssa.set_through(block, Block(0));
            } else if preds.len() == 1 && b != 0 && cfg.rpo_index[preds[0] as usize] < cfg.rpo_index[b as usize] {
                // The predecessor's last IR block is where this one hangs; it is known once it is lowered.
                let from = self.block_end(blocks[preds[0] as usize]);
                self.ssa.set_through(block, from);
            } else if dominators.idom[b as usize] != crate::cfg::NONE {
                let dominator = dominators.idom[b as usize];
                let from = self.block_end(blocks[dominator as usize]);
                self.ssa.join(&cfg, b, dominator, block, from);
            }
            self.ssa.begin(b, n);
            self.cur = block;
            let i = b as usize;
            let end = starts.get(i + 1).copied().unwrap_or(body.count());
            let next = if i + 1 < n { Some(blocks[i + 1]) } else { None };
            self.statements(body, starts[i]..end, next)?;
            self.set_block_end(block);
        }
        Ok(())
    }

    /// The first instruction of each PTX block, for each label its block number (`u32::MAX` where undefined), and the blocks
    /// whose loops stay loops.
    fn split(&self, body: &Body) -> (Vec<usize>, Vec<u32>, Vec<usize>) {
        let mut rolled = Vec::new();
        let mut starts = Vec::new();
        let mut leaders = vec![u32::MAX; self.pf.labels.len()];
        let mut fresh = true; // the next instruction starts a block
        let mut only_labels = false;
        let mut i = 0; // the next instruction
        for s in body {
            match s {
                Stmt::Label(l) => {
                    if !only_labels {
                        starts.push(i);
                    }
                    only_labels = true;
                    fresh = false;
                    leaders[l.index()] = starts.len() as u32 - 1;
                }
                Stmt::Inst(x) => {
                    if fresh {
                        starts.push(i);
                    }
                    only_labels = false;
                    let x = body.inst(x);
                    fresh = matches!(x.op, P::Bra | P::Brx | P::Ret | P::Exit) || self.never_returns(&x);
                    i += 1;
                }
                Stmt::Pragma(id) if !fresh && stays_rolled(body.pragma(id)) => rolled.push(starts.len() - 1),
                _ => {}
            }
        }
        (starts, leaders, rolled)
    }

    /// Label targets of an instruction, and whether control can go on after it.
    fn flow(&self, x: &Inst) -> (Vec<usize>, bool) {
        let guarded = x.guard.is_some();
        match x.op {
            P::Bra => (self.labels(x), guarded),
            P::Brx => (self.table_targets(x), guarded),
            P::Ret | P::Exit => (vec![], guarded),
            _ => (vec![], !self.never_returns(x)),
        }
    }

    /// What ends all that come here: a trap, as to the vendor's tool, or a call of a function that ends the thread: one that says so,
    /// or the failure of an assertion, of which the declaration that compilers write does not say it. Nothing is alive behind it.
    pub(super) fn never_returns(&self, x: &Inst) -> bool {
        if x.op != P::Call || x.guard.is_some() {
            return x.op == P::Trap && x.guard.is_none();
        }
        match x.operands.get(1) {
            Some(Operand::Func(f)) => {
                let f = &self.m.funcs[super::call::target(self.m, *f).index()];
                let says = f.directives.iter().any(|d| matches!(d, Directive::NoReturn));
                says || f.body.is_none() && f.name == "__assertfail"
            }
            _ => false,
        }
    }

    fn labels(&self, x: &Inst) -> Vec<usize> {
        x.operands.iter().filter_map(|o| if let Operand::Label(l) = o { Some(l.index()) } else { None }).collect()
    }

    fn table_targets(&self, x: &Inst) -> Vec<usize> {
        x.operands
            .iter()
            .find_map(|o| match o {
                Operand::Table(t) => match &self.pf.tables[t.index()] {
                    Table::Branch { targets, .. } => Some(targets.iter().map(|l| l.index()).collect()),
                    _ => None,
                },
                _ => None,
            })
            .unwrap_or_default()
    }

    /// `exit` for a kernel, `ret` for a device function.
    fn end_of_function(&mut self) -> Term {
        if self.pf.kind == FuncKind::Entry { Term::Exit } else { self.return_term() }
    }

    fn statements(&mut self, body: &Body, range: Range<usize>, next: Option<Block>) -> Res {
        for x in range {
            let x = &body.inst(InstId(x as u32));
            self.loc = x.span.start;
            if super::meaning::unknown_modifier(x).is_some() {
                return self.unsupported(x);
            }
            let guard = x.guard.map(|g| self.guard_value(g));
            if self.terminator(x, guard, next)? {
                return Ok(());
            }
            match guard {
                None => self.inst(x)?,
                Some(p) if is_pure(x) => {
                    self.guard = Some(p);
                    let done = self.inst(x);
                    self.guard = None;
                    done?;
                }
                Some(p) => self.guarded(x, p)?,
            }
        }
        let term = match next {
            Some(b) => Term::Br(self.edge(b)),
            None => self.end_of_function(),
        };
        self.set_term(term);
        Ok(())
    }

    fn set_term(&mut self, term: Term) {
        let cur = self.cur.index();
        self.f.blocks[cur].term = term;
        self.f.blocks[cur].loc = self.loc;
    }

    fn guard_value(&mut self, g: Guard) -> Value {
        let v = self.read_reg(g.reg, None);
        if g.negated { self.op(crate::ir::Op::Not, &[v], Ty::P) } else { v }
    }

    /// Ends the block if the instruction does; true if it did.
    fn terminator(&mut self, x: &Inst, guard: Option<Value>, next: Option<Block>) -> Res<bool> {
        let uniform = x.has(Mod::Uni);
        let taken = match x.op {
            P::Bra => {
                let l = self.labels(x);
                let Some(&l) = l.first() else { return unsupported("a branch without a label", x.span) };
                Term::Br(self.edge(self.label_block[l]))
            }
            P::Brx => {
                let index = self.arg(x, 0, Ty::B32)?;
                let targets: Vec<Block> = self.table_targets(x).into_iter().map(|l| self.label_block[l]).collect();
                if targets.is_empty() {
                    return Err(Diagnostic::error("'brx.idx' has an empty target list").at(x.span));
                }
                if targets.len() > MOST_TARGETS {
                    return Err(Diagnostic::error(format!(
                        "Indirect branch table is too large to encode: {} targets exceed the maximum of {MOST_TARGETS} targets per indirect branch",
                        targets.len()
                    ))
                    .at(x.span));
                }
                return self.switch(index, uniform, targets, guard, next).map(|()| true);
            }
            P::Exit => Term::Exit,
            P::Ret => self.end_of_function(),
            P::Call | P::Trap if self.never_returns(x) => {
                self.inst(x)?;
                // Should it come back nevertheless, the thread ends.
                Term::Exit
            }
            _ => return Ok(false),
        };
        match guard {
            None => self.set_term(taken),
            Some(cond) => {
                let then = match taken {
                    Term::Br(e) => e,
                    other => {
                        let b = self.f.new_block();
                        self.f.blocks[b.index()].term = other;
                        self.f.blocks[b.index()].loc = self.loc;
                        self.edge(b)
                    }
                };
                let els = match next {
                    Some(b) => self.edge(b),
                    None => {
                        let b = self.f.new_block();
                        self.f.blocks[b.index()].term = self.end_of_function();
                        self.edge(b)
                    }
                };
                self.set_term(Term::CondBr { cond, uniform, then, els });
            }
        }
        Ok(true)
    }

    /// A switch, each target through a block of its own (targets may need arguments, switch edges carry none).
    fn switch(
        &mut self,
        index: Value,
        uniform: bool,
        targets: Vec<Block>,
        guard: Option<Value>,
        next: Option<Block>,
    ) -> Res {
        let mut through: rustc_hash::FxHashMap<Block, Block> = Default::default();
        let mut list = Vec::with_capacity(targets.len());
        for t in targets {
            let b = *through.entry(t).or_insert_with(|| {
                let b = self.f.new_block();
                self.f.blocks[b.index()].term = Term::Br(Edge { block: t, args: vec![] });
                b
            });
            list.push(b);
        }
        let mut from = self.cur;
        if let Some(cond) = guard {
            let b = self.f.new_block();
            let Some(next) = next else { return unsupported("a guarded brx at the end", diag::Span::default()) };
            let (then, els) = (self.edge(b), self.edge(next));
            self.set_term(Term::CondBr { cond, uniform: false, then, els });
            self.ssa.set_through(b, from);
            from = b;
        }
        for b in &list {
            self.ssa.set_through(*b, from);
        }
        self.f.blocks[from.index()].term = Term::Switch { index, uniform, targets: list };
        self.f.blocks[from.index()].loc = self.loc;
        Ok(())
    }

    /// A guarded instruction with an effect: branches around it. What it writes gets a parameter at the join.
    fn guarded(&mut self, x: &Inst, cond: Value) -> Res {
        let before = self.cur;
        let (then, join) = (self.f.new_block(), self.f.new_block());
        let term = Term::CondBr { cond, uniform: false, then: self.edge(then), els: self.edge(join) };
        self.set_term(term);
        self.ssa.set_through(then, before);
        self.ssa.set_through(join, before);
        self.cur = then;
        self.inst(x)?;
        let written = self.written(x);
        // Old values must be read before the join exists as a block of its own.
        let mut then_args = Vec::new();
        let mut else_args = Vec::new();
        for &var in &written {
            then_args.push(self.read_var(var));
            else_args.push(self.read_at(before, var));
        }
        let from = self.cur.index();
        self.f.blocks[from].term = Term::Br(Edge { block: join, args: then_args });
        if let Term::CondBr { els, .. } = &mut self.f.blocks[before.index()].term {
            els.args = else_args;
        }
        self.cur = join;
        for var in written {
            let v = self.f.add_param(join, self.var_ty[var as usize]);
            self.write_var(var, v);
        }
        Ok(())
    }

    /// The SSA variables that an instruction writes.
    fn written(&self, x: &Inst) -> Vec<u32> {
        let mut out = Vec::new();
        let first = x.operands.first();
        match x.op {
            P::Bar if !x.has(Mod::Red) => {}
            P::Red | P::Sust | P::Sured => {}
            P::St => {
                if let Some(Operand::Mem(a)) = first
                    && let ptx::module::AddressBase::Var(v) = a.base()
                    && let Some(&(first, n)) = self.param_words.get(&v)
                {
                    out.extend(first..first + n);
                }
            }
            P::Call => {
                if let Some(Operand::List(rets)) = first {
                    rets.iter().for_each(|r| self.destinations(r, &mut out));
                }
            }
            _ => {
                if let Some(o) = first {
                    self.destinations(o, &mut out);
                }
            }
        }
        out
    }

    /// The SSA variables that a destination operand stands for.
    fn destinations(&self, o: &Operand, out: &mut Vec<u32>) {
        match o {
            Operand::Pair(p) => {
                self.destinations(&p.0, out);
                self.destinations(&p.1, out);
            }
            Operand::Var { var, .. } => {
                if let Some(&(first, n)) = self.param_words.get(var) {
                    out.extend(first..first + n);
                }
            }
            _ => {
                for o in self.vector_operands(o) {
                    if let Operand::Reg { reg, elem } = o {
                        out.push(self.reg_var(reg, elem));
                        // A register of 128 bits is two words.
                        let wide = self.pf.regs.get(reg.index()).is_some_and(|r| r.ty == ptx::types::ScalarType::B128);
                        if wide && elem.is_none() {
                            out.push(self.reg_var(reg, Some(1)));
                        }
                    }
                }
            }
        }
    }
}

/// True for an instruction whose only effect is its result, so that it may run with the guard false.
fn is_pure(x: &Inst) -> bool {
    if super::asynchronous::is_ours(x) {
        return matches!(x.op, P::Mapa | P::Getctarank);
    }
    if super::texture::is_ours(x) {
        return false;
    }
    !matches!(
        x.op,
        P::Ld
            | P::Ldu
            | P::St
            | P::Atom
            | P::Red
            | P::Bar
            | P::Barrier
            | P::Membar
            | P::Fence
            | P::Shfl
            | P::Vote
            | P::Match
            | P::Redux
            | P::Activemask
            | P::Elect
            | P::Call
            | P::Trap
            | P::Brkpt
            | P::Nanosleep
            | P::Prefetch
            | P::Prefetchu
            | P::Ldmatrix
            | P::Mma
            | P::Multimem
            | P::Tensormap
            | P::Movmatrix
            | P::Stmatrix
            | P::Setmaxnreg
            | P::Wgmma
            | P::Wmma
    ) || (x.op == P::Ld && x.space() == ptx::types::Space::Param)
}
