//! Calls: which functions a kernel reaches, where arguments and results travel, `.param` variables of calls.
//!
//! Arguments and results are placed by the vendor's ABI ([`crate::abi`]). A `.param` variable of a body is not memory: it is a row of 32-bit words, each an SSA variable.

use super::{Lower, Res, unsupported};
use crate::abi::{Convention, Keeps, Place, Placed, Shape};
use crate::ir::{Attr, CallSite, Mem, MemSpace, Op, Term, Ty, Value};
use diag::{Diagnostic, Span};
use ptx::isa::Op as P;
use ptx::module::{AddressBase, Body, Directive, FuncId, FuncKind, Inst, Item, Module, Operand, Stmt, Table, VarId};
use ptx::types::{ScalarType as T, Space};

/// What a kernel reaches.
#[derive(Debug, Default)]
pub struct Reach {
    /// The kernel, then the device functions, in order of first sight.
    pub funcs: Vec<FuncId>,
    /// Functions whose address is taken, if the kernel makes indirect calls; sorted.
    pub table: Vec<FuncId>,
    /// Shared variables used.
    pub shared: Vec<VarId>,
    /// References to textures, samplers and surfaces that are used.
    pub handles: Vec<VarId>,
    /// Functions without a body.
    pub externs: Vec<FuncId>,
}

impl Reach {
    /// A function and nothing else: one of a relocatable module reaches others by name.
    pub fn alone(f: FuncId) -> Reach {
        Reach { funcs: vec![f], ..Reach::default() }
    }

    /// The number of a reached function in the kernel's list.
    pub fn number(&self, f: FuncId) -> u32 {
        self.funcs.iter().position(|&g| g == f).map_or(u32::MAX, |i| i as u32)
    }
}

/// The function that a name means: itself, or what it is another name of.
pub fn target(m: &Module, f: FuncId) -> FuncId {
    if m.funcs[f.index()].body.is_some() {
        return f;
    }
    let aliases = m
        .items
        .iter()
        .filter_map(|i| if let Item::Alias { alias, target, .. } = i { Some((alias, target)) } else { None });
    aliases.filter(|a| *a.0 == f).map(|a| *a.1).next().unwrap_or(f)
}

/// Every function of the module whose address is taken, in code or in an initialiser; sorted.
pub fn address_taken(m: &Module) -> Vec<FuncId> {
    let mut taken = Vec::new();
    if m.funcs.iter().all(|f| f.kind != FuncKind::Func) {
        return taken;
    }
    for v in &m.vars {
        for i in v.init.iter().flatten() {
            taken.extend(i.function());
        }
    }
    for f in &m.funcs {
        let body = f.body.as_ref().filter(|b| b.may_name_functions()).map(Body::unpacked);
        for x in body.iter().flat_map(|b| b.insts()) {
            if x.op != P::Call {
                taken.extend(x.operands.iter().filter_map(|o| if let Operand::Func(f) = o { Some(*f) } else { None }));
            }
        }
    }
    taken.retain(|f| m.funcs[f.index()].kind == FuncKind::Func);
    taken.iter_mut().for_each(|f| *f = target(m, *f));
    taken.sort_unstable();
    taken.dedup();
    taken
}

/// Walks the call graph from a kernel; `taken`: the functions of the module whose address is taken.
pub fn reachable(m: &Module, entry: FuncId, taken: &[FuncId]) -> Reach {
    let mut r = Reach::alone(entry);
    let mut next = 0;
    while let Some(&f) = r.funcs.get(next) {
        next += 1;
        let mut callees = Vec::new();
        let body = m.funcs[f.index()].body.as_ref().map(Body::unpacked);
        for o in body.iter().flat_map(|b| b.operands()) {
            visit_vars(o, &mut |v| {
                if m.vars[v.index()].space == Space::Shared {
                    r.shared.push(v);
                }
                if m.vars[v.index()].ty.is_opaque() && !r.handles.contains(&v) {
                    r.handles.push(v);
                }
            });
        }
        for x in body.iter().filter(|b| b.module_has(|op| op == P::Call)).flat_map(|b| b.insts()) {
            if x.op == P::Call {
                match x.operands.get(1) {
                    Some(Operand::Func(g)) => callees.push(*g),
                    _ if r.table.is_empty() => {
                        r.table = taken.to_vec();
                        callees.extend(&r.table);
                    }
                    _ => {}
                }
            }
        }
        for g in callees {
            let g = target(m, g);
            if m.funcs[g.index()].body.is_none() {
                if !r.externs.contains(&g) {
                    r.externs.push(g);
                }
            } else if !r.funcs.contains(&g) {
                r.funcs.push(g);
            }
        }
    }
    r
}

fn visit_vars(o: &Operand, f: &mut impl FnMut(VarId)) {
    match o {
        Operand::Var { var, .. } => f(*var),
        Operand::Mem(a) => {
            if let AddressBase::Var(v) = a.base() {
                f(v);
            }
        }
        Operand::Vector(l) | Operand::List(l) | Operand::TexMem(l) => l.iter().for_each(|o| visit_vars(o, f)),
        Operand::Pair(p) => {
            visit_vars(&p.0, f);
            visit_vars(&p.1, f);
        }
        _ => {}
    }
}

impl Lower<'_, '_> {
    fn shape(&self, vars: &[VarId]) -> Vec<Shape> {
        Shape::of(self.m, vars)
    }

    /// SSA variables for a `.param` variable of this function: its first word and how many.
    pub(super) fn words_of(&mut self, v: VarId) -> (u32, u32) {
        if let Some(&w) = self.param_words.get(&v) {
            return w;
        }
        let words = self.shape(&[v])[0].words;
        let first = self.var_ty.len() as u32;
        self.var_ty.extend(std::iter::repeat_n(Ty::B32, words as usize));
        self.param_words.insert(v, (first, words));
        (first, words)
    }

    /// Sets up parameters and results of a device function: block 0 has one parameter a register word.
    pub(super) fn signature(&mut self) -> Res {
        let pf = self.pf;
        for s in self.body.into_iter().flatten() {
            if let Stmt::Var(v) = s
                && self.m.vars[v.index()].space == Space::Param
            {
                self.words_of(v);
            }
        }
        if pf.kind == FuncKind::Entry {
            return Ok(());
        }
        for v in pf.returns.iter().chain(&pf.params) {
            if self.m.vars[v.index()].space == Space::Param {
                self.words_of(*v);
            }
        }
        let convention = self.convention(&pf.directives);
        let shape = self.shape(&pf.params);
        let returns = self.shape(&pf.returns);
        let mut placed = convention.place(&shape, &returns, &pf.name).map_err(|e| Diagnostic::error(e).at(pf.span))?;
        if self.cx.beyond {
            beyond(convention, &mut placed, &shape);
        }
        let rets = result_registers(&returns, &placed);
        let mut args = Vec::new();
        if placed.buffer {
            args.push(4);
            let pointer = self.f.add_param(self.cur, Ty::B32);
            let var = self.var_ty.len() as u32;
            self.var_ty.push(Ty::B32);
            self.write_var(var, pointer);
            self.result_pointer = Some(var);
        }
        for ((&v, &Shape { words, open, .. }), place) in pf.params.iter().zip(&shape).zip(placed.params) {
            if let (true, Place::Stack(at)) = (open, place) {
                self.open_param = Some((v, at));
                continue;
            }
            let mut word = |w: u32| match place {
                Place::Reg(r) => {
                    args.push(r + w as u8);
                    self.f.add_param(self.cur, Ty::B32)
                }
                Place::Stack(at) => {
                    let zero = self.konst(Ty::B32, 0);
                    let mem = Mem { space: MemSpace::Stack, bytes: 4, ..Mem::default() };
                    let at = (at + 4 * w) as i64;
                    let id = self.b().push(Op::Load, Attr::default(), mem, at, &[zero], &[Ty::B32]);
                    self.f.inst(id).results[0]
                }
            };
            let values: Vec<Value> = (0..words).map(&mut word).collect();
            self.set_formal(v, &values)?;
        }
        self.f.returns = vec![Ty::B32; rets.len()];
        self.f.signature = CallSite { args, rets, stack: placed.stack, convention, ..CallSite::default() };
        Ok(())
    }

    /// What directives ask for. Where all code is in one section every function is called by those that know it: then they ask for nothing.
    fn convention(&self, directives: &[Directive]) -> Convention {
        if self.cx.layout.relocatable { Convention::of(directives) } else { Convention::default() }
    }

    /// `ret` of a device function.
    pub(super) fn return_term(&mut self) -> Term {
        let mut out = Vec::new();
        for v in self.pf.returns.clone() {
            // A register that does not exist was diagnosed by the signature.
            out.extend(self.formal_words(v).unwrap_or_default());
        }
        if let Some(var) = self.result_pointer {
            let to = self.read_var(var);
            for (w, v) in out.drain(..).enumerate() {
                let mem = Mem { space: MemSpace::Local, bytes: 4, ..Mem::default() };
                self.b().push(Op::Store, Attr::default(), mem, 4 * w as i64, &[to, v], &[]);
            }
        }
        Term::Ret(out)
    }

    /// `ld.param` of a function parameter or of a call's result.
    pub(super) fn load_call_param(&mut self, x: &Inst, v: VarId, offset: i64, dsts: &[Operand], t: T) -> Res {
        // Registers of 128 bits come in halves.
        let bytes = (t.bytes() as i64).min(8);
        let words = match self.open_param {
            Some((open, at)) if open == v => self.open_words(at, offset, bytes * dsts.len() as i64, x)?,
            _ => self.formal_words(v)?,
        };
        let offset = if self.open_param.is_some_and(|(open, _)| open == v) { offset % 4 } else { offset };
        // What lies beyond the parameter has no value that anybody may count on, as where a vector of four is read of twelve bytes: zero.
        let beyond = self.konst(Ty::B32, 0);
        let word = |at: usize| words.get(at).copied().unwrap_or(beyond);
        for (i, d) in dsts.iter().enumerate() {
            let at = offset + i as i64 * bytes;
            let Some(n) = usize::try_from(at).ok().map(|at| at / 4) else {
                return out_of_param(self.variable_name(v), x.span);
            };
            let value = match bytes {
                8 => self.pack(word(n), word(n.saturating_add(1))),
                4 => word(n),
                _ => {
                    let (at, width) = (self.konst(Ty::B32, (at as u64 % 4) * 8), self.konst(Ty::B32, bytes as u64 * 8));
                    let attr = Attr { signed: t.is_signed(), ..Attr::default() };
                    self.one(Op::Bfe, attr, &[word(n), at, width], Ty::B32)
                }
            };
            self.write(d, value, t.is_signed())?;
        }
        Ok(())
    }

    /// The words of a parameter without a size that hold these bytes of it; it stands on the caller's stack.
    fn open_words(&mut self, base: u32, offset: i64, bytes: i64, x: &Inst) -> Res<Vec<Value>> {
        if !(0..MOST_STACK).contains(&offset) {
            return Err(Diagnostic::error("access outside of a parameter").at(x.span));
        }
        let (first, end) = (offset / 4, (offset + bytes + 3) / 4);
        let words = (first..end).map(|w| {
            let zero = self.konst(Ty::B32, 0);
            let mem = Mem { space: MemSpace::Stack, bytes: 4, ..Mem::default() };
            let id = self.b().push(Op::Load, Attr::default(), mem, base as i64 + 4 * w, &[zero], &[Ty::B32]);
            self.f.inst(id).results[0]
        });
        Ok(words.collect())
    }

    /// `st.param` of a call's argument or of a function's result.
    pub(super) fn store_call_param(&mut self, x: &Inst, v: VarId, offset: i64, values: &[Value], bytes: u32) -> Res {
        let (first, n) = self.words_of(v);
        for (i, &value) in values.iter().enumerate() {
            let at = offset + i as i64 * bytes as i64;
            if at < 0 {
                return out_of_param(self.variable_name(v), x.span);
            }
            // What would lie beyond the parameter is written nowhere.
            let word = at / 4;
            if word >= n as i64 {
                continue;
            }
            let var = first + word as u32;
            match bytes {
                8 => {
                    let (lo, hi) = self.b().halves(value);
                    self.write_var(var, lo);
                    if word + 1 < n as i64 {
                        self.write_var(var + 1, hi);
                    }
                }
                4 => self.write_var(var, value),
                _ => {
                    let old = self.read_var(var);
                    let (at, width) = (self.konst(Ty::B32, (at as u64 % 4) * 8), self.konst(Ty::B32, bytes as u64 * 8));
                    let new = self.op(Op::Bfi, &[value, old, at, width], Ty::B32);
                    self.write_var(var, new);
                }
            }
        }
        Ok(())
    }

    /// What a call names: the function, or a prototype.
    fn callee(&self, x: &Inst) -> Res<Callee<'_>> {
        let named = |f: FuncId, known: bool| {
            let g = &self.m.funcs[f.index()];
            let convention = self.convention(&g.directives);
            Callee { id: known.then_some(f), name: &g.name, params: &g.params, returns: &g.returns, convention }
        };
        if let Some(Operand::Func(f)) = x.operands.get(1) {
            let f = if self.cx.layout.relocatable { *f } else { target(self.m, *f) };
            let g = &self.m.funcs[f.index()];
            if g.body.is_none() && !self.cx.layout.externs.contains(&f) && !self.cx.layout.relocatable {
                return Err(Diagnostic::new(diag::Severity::Fatal, format!("Unresolved extern function '{}'", g.name)));
            }
            return Ok(named(f, true));
        }
        match x.operands.get(3) {
            Some(Operand::Table(t)) => match &self.pf.tables[t.index()] {
                Table::Prototype { name, params, returns, directives, .. } => {
                    Ok(Callee { id: None, name, params, returns, convention: self.convention(directives) })
                }
                Table::Call { targets, .. } => match targets.first() {
                    Some(&f) => Ok(named(f, false)),
                    None => unsupported("an empty call target list", x.span),
                },
                Table::Branch { .. } => unsupported("a branch table as call targets", x.span),
            },
            _ => unsupported("an indirect call without a prototype", x.span),
        }
    }

    pub(super) fn call(&mut self, x: &Inst) -> Res {
        let Callee { id: callee, name, params, returns, mut convention } = self.callee(x)?;
        let (name, params, returns) = (name.to_string(), params.to_vec(), returns.to_vec());
        let (Some(Operand::List(rets)), Some(Operand::List(args))) = (x.operands.first(), x.operands.get(2)) else {
            return unsupported("this form of call", x.span);
        };
        if args.len() != params.len() || rets.len() != returns.len() {
            return Err(Diagnostic::error("call does not match the parameters of the function").at(x.span));
        }
        let mut shape = self.shape(&params);
        for (s, arg) in shape.iter_mut().zip(args).filter(|(s, _)| s.open) {
            if let Operand::Var { var, .. } = arg {
                s.words = self.shape(&[*var])[0].words;
            }
        }
        let results = self.shape(&returns);
        let mut placed = convention.place(&shape, &results, &name).map_err(|e| Diagnostic::error(e).at(x.span))?;
        if self.cx.beyond && callee.is_some_and(|f| self.m.funcs[f.index()].body.is_some()) {
            beyond(convention, &mut placed, &shape);
        }
        let (ret_regs, stack) = (result_registers(&results, &placed), placed.stack);
        let mut regs = Vec::new();
        let mut values = Vec::new();
        let mut buffer = None;
        if placed.buffer {
            let at = self.result_buffer(&returns);
            let address = self.with_imm(Op::LocalAddr, at as i64, Ty::B32);
            regs.push(4);
            values.push(address);
            buffer = Some(address);
        }
        let top = self.f.grows.then(|| self.callee_stack(stack));
        for ((arg, &Shape { words, .. }), place) in args.iter().zip(&shape).zip(placed.params) {
            let list = self.call_argument(arg, words, x)?;
            for (w, v) in list.into_iter().enumerate() {
                match place {
                    Place::Reg(r) => {
                        regs.push(r + w as u8);
                        values.push(v);
                    }
                    Place::Stack(at) => self.stack_argument(top, at + 4 * w as u32, v),
                }
            }
        }
        let far = callee.and_then(|f| self.cx.layout.externs.iter().position(|&g| g == f)).map(|n| n as u32);
        let number = callee.filter(|_| far.is_none()).map(|f| match self.cx.layout.relocatable {
            true => f.0,
            false => self.cx.reach.number(f),
        });
        if let Some(top) = top {
            regs.push(3);
            values.push(top);
        }
        let indirect = callee.is_none();
        if indirect {
            let target = self.arg(x, 1, Ty::B64)?;
            values.insert(0, target);
        }
        let types = vec![Ty::B32; ret_regs.len()];
        if callee.is_some_and(|f| self.m.funcs[f.index()].body.is_none()) && CAREFUL.contains(&name.as_str()) {
            convention.keeps = Keeps::System;
        }
        let site = self.call_site(CallSite {
            callee: number,
            far,
            convention,
            top: top.map(|_| stack.next_multiple_of(4)),
            args: regs,
            rets: ret_regs,
            stack: if top.is_some() { 0 } else { stack },
            ends: self.never_returns(x),
        });
        let op = if indirect { Op::CallIndirect } else { Op::Call };
        let id = self.b().push(op, Attr::default(), Mem::default(), site, &values, &types);
        let mut results = self.f.inst(id).results.to_vec();
        if let Some(address) = buffer {
            let words: u32 = self.shape(&returns).iter().map(|s| s.words).sum();
            for w in 0..words as i64 {
                let mem = Mem { space: MemSpace::Local, bytes: 4, ..Mem::default() };
                let id = self.b().push(Op::Load, Attr::default(), mem, 4 * w, &[address], &[Ty::B32]);
                results.push(self.f.inst(id).results[0]);
            }
        }
        let mut at = 0;
        for (ret, Shape { words, .. }) in rets.clone().iter().zip(self.shape(&returns)) {
            let list = &results[at..at + words as usize];
            at += words as usize;
            self.call_result(ret, list)?;
        }
        Ok(())
    }

    /// Room for a result in the frame; all calls share it.
    fn result_buffer(&mut self, returns: &[VarId]) -> u32 {
        let bytes = 4 * self.shape(returns).iter().map(|s| s.words).sum::<u32>();
        let (at, room) = self.result_room.unwrap_or((self.f.local_size.next_multiple_of(8), 0));
        let room = room.max(bytes);
        self.result_room = Some((at, room));
        self.f.local_size = self.f.local_size.max(at + room);
        at
    }

    fn call_argument(&mut self, arg: &Operand, words: u32, x: &Inst) -> Res<Vec<Value>> {
        let list = match arg {
            Operand::Var { var, offset: 0 } if self.m.vars[var.index()].space == Space::Param => {
                self.formal_words(*var)?
            }
            parts if self.parts_of(parts).is_some() => self.parts_words(parts),
            Operand::Reg { reg, .. } => {
                let ty = self.reg_ty(*reg);
                let v = self.src(arg, ty, x.span)?;
                self.value_words(v)
            }
            other => {
                let v = self.src(other, if words == 2 { Ty::B64 } else { Ty::B32 }, x.span)?;
                self.value_words(v)
            }
        };
        if list.len() != words as usize {
            return Err(Diagnostic::error("argument does not match the parameter of the function").at(x.span));
        }
        Ok(list)
    }

    fn call_result(&mut self, ret: &Operand, words: &[Value]) -> Res {
        match ret {
            Operand::Var { var, .. } => {
                let (first, _) = self.words_of(*var);
                for (i, &v) in words.iter().enumerate() {
                    self.write_var(first + i as u32, v);
                }
                Ok(())
            }
            Operand::Sink => Ok(()),
            parts if self.parts_of(parts).is_some() => self.write_parts(parts, words),
            other => {
                let predicate = matches!(other, Operand::Reg { reg, .. } if self.reg_ty(*reg) == Ty::P);
                let v = match words {
                    [lo, hi] => self.pack(*lo, *hi),
                    [one] if predicate => {
                        let zero = self.konst(Ty::B32, 0);
                        self.b().icmp(crate::ir::Cmp::Ne, false, *one, zero)
                    }
                    [one] => *one,
                    _ => return unsupported("this call result", Span::default()),
                };
                self.write(other, v, false)
            }
        }
    }
}

/// What is called.
struct Callee<'a> {
    /// The function, if it is known.
    id: Option<FuncId>,
    /// Its name, or that of the prototype.
    name: &'a str,
    params: &'a [VarId],
    returns: &'a [VarId],
    convention: Convention,
}

/// What has its place on the stack gets it in registers, where all of it can and the window is the usual one.
fn beyond(convention: Convention, placed: &mut Placed, shape: &[Shape]) {
    if convention != Convention::default() || shape.iter().any(|s| s.open) {
        return;
    }
    for place in &mut placed.params {
        if let Place::Stack(at) = *place
            && let Some(r) = crate::beyond::register(at, placed.stack)
        {
            *place = Place::Reg(r);
        }
    }
    if placed.params.iter().all(|p| matches!(p, Place::Reg(_))) {
        placed.stack = 0;
    }
}

/// The register of each word of results that travel in registers.
fn result_registers(shape: &[Shape], placed: &Placed) -> Vec<u8> {
    let mut out = Vec::new();
    for (&Shape { words, .. }, place) in shape.iter().zip(&placed.returns) {
        if let Place::Reg(r) = place {
            out.extend((0..words as u8).map(|w| r + w));
        }
    }
    out
}

/// Functions of the system around which the vendor's code was seen to keep values in every register from R16 on (ptxas 13.5,
/// sm_90a, with and without `-c`).
const CAREFUL: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];

/// Bytes of a stack.
const MOST_STACK: i64 = 1 << 19;

fn out_of_param<T>(name: &str, span: Span) -> Res<T> {
    Err(Diagnostic::error(format!("access outside of parameter '{name}'")).at(span))
}
