//! PTX to IR: one kernel with every device function it reaches.
//!
//! Needs a checked module. Registers become SSA values ([`ssa`]); `.param` variables of calls become words in the
//! registers of the ABI ([`call`]); guards become selects where the instruction has no effect, branches where it has.

mod arith;
pub mod asynchronous;
mod atomic;
pub mod call;
mod control;
mod convert;
pub(crate) mod copies;
mod formals;
mod fragment;
mod matrix;
mod meaning;
mod memory;
mod multimem;
pub(crate) mod narrow;
mod operand;
mod policy;
mod quads;
mod special;
mod ssa;
mod stack;
mod tensormap;
pub mod texture;
mod video;
mod warp;
pub mod warpgroup;

use crate::ir::{self, Attr, Block, Builder, CallSite, Mem, Op, Ty, Value};
use crate::layout::{Layout, Shared};
use diag::{Diagnostic, Span};
use ptx::module::{self, Body, FuncId, Module, Operand, RegId, Stmt, VarId};
use ptx::types::{ScalarType, Space};

/// A kernel and what it calls, as IR.
#[derive(Debug)]
pub struct Program {
    /// The entry, then each reachable device function.
    pub funcs: Vec<ir::Func>,
    /// The PTX function of each.
    pub ids: Vec<FuncId>,
    /// Functions that indirect calls may reach, by number in `funcs`; the pointer of entry `i` is `8 * (i + 1)`.
    pub table: Vec<u32>,
    /// Shared memory.
    pub shared: Shared,
    /// Offset of each kernel parameter.
    pub params: Vec<u32>,
    /// Bytes of kernel parameters.
    pub param_bytes: u32,
    /// Functions outside the module that are called.
    pub externs: Vec<FuncId>,
    /// References to textures, samplers and surfaces, whose handles lie behind the parameters.
    pub handles: Vec<VarId>,
}

/// Lowers the kernel `entry` of a checked module with the functions it reaches; in a relocatable module the function alone.
///
/// # Errors
/// A diagnostic for each construct that is not supported, with its place.
pub fn lower(m: &Module, entry: FuncId, layout: &Layout) -> Result<Program, Vec<Diagnostic>> {
    let reach = match layout.relocatable {
        true => call::Reach::alone(entry),
        false => call::reachable(m, entry, &layout.taken),
    };
    let mut shared = Shared::new(m, &reach.shared);
    let (params, param_bytes) = kernel_params(m, entry, layout.sm);
    let handles = handles(m, entry, &reach);
    // Nobody calls through pointers, and no stack moves below what a call has put there.
    let grows = |f: &FuncId| m.funcs[f.index()].body.as_ref().is_some_and(|b| b.module_has(stack::is_ours));
    let beyond = !layout.relocatable && reach.table.is_empty() && !reach.funcs.iter().any(grows);
    let mut funcs = Vec::new();
    let mut errors = Vec::new();
    for &id in &reach.funcs {
        let cx = Context {
            m,
            layout,
            shared: &shared,
            reach: &reach,
            params: &params,
            param_bytes,
            handles: &handles,
            independent: crate::layout::independent_textures(m),
            beyond,
        };
        let body = m.funcs[id.index()].body.as_ref().map(Body::unpacked);
        match Lower::function(&cx, id, body.as_deref()) {
            Ok(f) => funcs.push(f),
            Err(e) => errors.push(e),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let table = reach.table.iter().map(|&f| reach.number(f)).collect();
    shared.asked = funcs.iter().any(|f: &ir::Func| f.asks_shared);
    Ok(Program { funcs, ids: reach.funcs, table, shared, params, param_bytes, externs: reach.externs, handles })
}

/// The references whose handles a kernel wants: its parameters first, then those of the module that it and its functions use.
fn handles(m: &Module, entry: FuncId, reach: &call::Reach) -> Vec<VarId> {
    let params = m.funcs[entry.index()].params.iter().copied();
    let mut out: Vec<VarId> = params.filter(|p| m.vars[p.index()].ty.is_opaque()).collect();
    let more = reach.handles.iter().filter(|v| !out.contains(v)).copied().collect::<Vec<_>>();
    out.extend(more);
    out
}

/// Offsets of a kernel's parameters from their first byte and their total size: each address at its own alignment, in order.
/// References have no place among them.
pub fn kernel_params(m: &Module, entry: FuncId, sm: u16) -> (Vec<u32>, u32) {
    // Alignment is that of the address, which begins where the parameters do in the constant bank.
    let first = arch::bank0(sm).map_or(0, |b| b.params as u32);
    let mut end = 0u32;
    let mut offsets = Vec::new();
    for &p in &m.funcs[entry.index()].params {
        let v = &m.vars[p.index()];
        if v.ty.is_opaque() {
            offsets.push(u32::from(u16::MAX));
            continue;
        }
        let align = v.align.max(1);
        end = (first + end).div_ceil(align) * align - first;
        offsets.push(end);
        end += v.size() as u32;
    }
    (offsets, end)
}

/// What lowering of all functions of one kernel shares.
struct Context<'m> {
    m: &'m Module,
    layout: &'m Layout,
    shared: &'m Shared,
    reach: &'m call::Reach,
    params: &'m [u32],
    param_bytes: u32,
    /// As [`Program::handles`].
    handles: &'m [VarId],
    /// Samplers are apart from textures.
    independent: bool,
    /// Arguments for which the window of the ABI has no room travel in registers behind it ([`crate::beyond`]).
    beyond: bool,
}

/// Lowering of one function.
struct Lower<'m, 'c> {
    cx: &'c Context<'m>,
    m: &'m Module,
    pf: &'m module::Function,
    /// Its statements.
    body: Option<&'c Body>,
    f: ir::Func,
    /// Where instructions go.
    cur: Block,
    loc: u32,
    ssa: ssa::Ssa,
    /// Type of each variable of the SSA construction: registers (four a PTX register, for vector components), the carry
    /// flag, then words of `.param` variables.
    var_ty: Vec<Ty>,
    /// First SSA variable of each `.param` variable of this function.
    param_words: rustc_hash::FxHashMap<VarId, (u32, u32)>,
    /// The parameter without a size, and where it begins on the caller's stack.
    open_param: Option<(VarId, u32)>,
    /// The SSA variable with the address of a result that registers do not hold.
    result_pointer: Option<u32>,
    /// Room in the frame for such results of calls: offset among the locals, bytes.
    result_room: Option<(u32, u32)>,
    /// Offset of each local variable in the frame.
    locals: rustc_hash::FxHashMap<VarId, u32>,
    /// IR block of each PTX label.
    label_block: Vec<Block>,
    /// Result variables of the statement under a guard, with their values before it.
    guard: Option<Value>,
    undef_block: Block,
}

type Res<T = ()> = Result<T, Diagnostic>;

fn unsupported<T>(what: impl std::fmt::Display, span: Span) -> Res<T> {
    Err(Diagnostic::error(format!("{what} is not supported yet")).at(span))
}

/// The IR type of a PTX type; `None` for what does not fit a register here.
fn ir_ty(t: ScalarType) -> Option<Ty> {
    if t == ScalarType::Pred {
        return Some(Ty::P);
    }
    match t.bits() {
        1..=16 => Some(Ty::B16),
        32 => Some(Ty::B32),
        64 => Some(Ty::B64),
        _ => None,
    }
}

impl<'m, 'c> Lower<'m, 'c> {
    fn function(cx: &'c Context<'m>, id: FuncId, body: Option<&'c Body>) -> Res<ir::Func> {
        let pf = &cx.m.funcs[id.index()];
        let entry = pf.kind == module::FuncKind::Entry;
        let linkable = cx.layout.relocatable;
        let shape = pf.directives.iter().find_map(|d| match d {
            module::Directive::ReqNtid(n) => Some(*n),
            _ => None,
        });
        let shape = shape.filter(|n| entry && n.iter().all(|&n| n > 0));
        let mut f = ir::Func { name: pf.name.clone(), entry, linkable, shape, ..ir::Func::default() };
        let start = f.new_block();
        // Most statements become one instruction with one result, and so do their constants.
        let register = |o: &&module::Operand| matches!(o, module::Operand::Reg { .. });
        let room = body.map_or(0, |b| b.count() + b.operands().iter().filter(|o| !register(o)).count());
        f.insts.reserve(room);
        f.values.reserve(room);
        let mut var_ty = Vec::with_capacity(pf.regs.len() * 4 + 1);
        for r in &pf.regs {
            // Two words are two of the four variables.
            let ty = if r.ty == ScalarType::B128 { Some(Ty::B64) } else { ir_ty(r.ty) };
            let Some(ty) = ty else {
                return unsupported(format!("a register of type .{}", r.ty.name()), pf.span);
            };
            var_ty.extend([ty; 4]);
        }
        var_ty.push(Ty::P); // the carry flag
        var_ty.push(Ty::B32); // the end of the stack
        let mut lower = Lower {
            cx,
            m: cx.m,
            pf,
            body,
            f,
            cur: start,
            loc: u32::MAX,
            ssa: ssa::Ssa::default(),
            var_ty,
            param_words: Default::default(),
            open_param: None,
            result_pointer: None,
            result_room: None,
            locals: Default::default(),
            label_block: Vec::new(),
            guard: None,
            undef_block: start,
        };
        lower.place_locals();
        lower.signature()?;
        let here = |b: &&Body| b.module_has(stack::is_ours);
        if body.iter().copied().filter(here).flat_map(|b| b.insts()).any(|x| stack::is_ours(x.op)) {
            lower.begin_stack();
        }
        lower.body()?;
        lower.finish_ssa();
        Ok(lower.f)
    }

    /// Gives every local variable of the function its place in the frame.
    fn place_locals(&mut self) {
        let mut end = 0u64;
        let mut align = 1u32;
        let own = self.body.into_iter().flatten().filter_map(|s| match s {
            Stmt::Var(v) if self.m.vars[v.index()].space == Space::Local => Some(v),
            _ => None,
        });
        for v in own.chain(self.addressed()) {
            let var = &self.m.vars[v.index()];
            // A parameter is written there by words.
            let least = if var.space == Space::Param { 4 } else { 1 };
            let a = var.align.max(least);
            end = end.next_multiple_of(a.into());
            self.locals.insert(v, end as u32);
            align = align.max(a);
            end += var.size().next_multiple_of(least.into());
        }
        self.f.local_size = end as u32;
        self.f.local_align = align;
    }

    fn carry_var(&self) -> u32 {
        self.pf.regs.len() as u32 * 4
    }

    // ---- writing IR -------------------------------------------------------------------------------------------------

    fn b(&mut self) -> Builder<'_> {
        let mut b = Builder::new(&mut self.f, self.cur);
        b.loc = self.loc;
        b
    }

    fn konst(&mut self, ty: Ty, bits: u64) -> Value {
        self.b().constant(ty, bits)
    }

    fn one(&mut self, op: Op, attr: Attr, args: &[Value], ty: Ty) -> Value {
        self.b().one(op, attr, args, ty)
    }

    fn op(&mut self, op: Op, args: &[Value], ty: Ty) -> Value {
        self.b().op(op, args, ty)
    }

    fn same(&mut self, op: Op, args: &[Value]) -> Value {
        self.b().same(op, args)
    }

    fn with_imm(&mut self, op: Op, imm: i64, ty: Ty) -> Value {
        let id = self.b().push(op, Attr::default(), Mem::default(), imm, &[], &[ty]);
        self.f.inst(id).results[0]
    }

    fn edge(&self, block: Block) -> ir::Edge {
        ir::Edge { block, args: Vec::new() }
    }

    // ---- registers --------------------------------------------------------------------------------------------------

    fn reg_var(&self, reg: RegId, elem: Option<u8>) -> u32 {
        reg.0 * 4 + elem.unwrap_or(0) as u32
    }

    fn reg_ty(&self, reg: RegId) -> Ty {
        self.var_ty[reg.index() * 4]
    }

    fn read_reg(&mut self, reg: RegId, elem: Option<u8>) -> Value {
        self.read_var(self.reg_var(reg, elem))
    }

    /// Writes a register; under a guard the old value stays where the guard is false.
    fn write_var_guarded(&mut self, var: u32, value: Value) {
        let value = match self.guard {
            Some(p) => {
                let old = self.read_var(var);
                let ty = self.f.ty(value);
                self.op(Op::Select, &[value, old, p], ty)
            }
            None => value,
        };
        self.write_var(var, value);
    }

    /// Stores an instruction's result, which has the width of the destination register or is cut or extended to it.
    fn write(&mut self, dst: &Operand, value: Value, signed: bool) -> Res {
        match dst {
            Operand::Reg { reg, elem } => {
                let ty = self.reg_ty(*reg);
                let value =
                    if ty == Ty::P || self.f.ty(value) == Ty::P { value } else { self.b().resize(value, ty, signed) };
                let var = self.reg_var(*reg, *elem);
                self.write_var_guarded(var, value);
                Ok(())
            }
            Operand::Sink => Ok(()),
            _ => unsupported("this destination operand", Span::default()),
        }
    }

    fn call_site(&mut self, site: CallSite) -> i64 {
        self.f.calls.push(site);
        self.f.calls.len() as i64 - 1
    }
}
