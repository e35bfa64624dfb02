//! From the PTX module to a [`Program`]: every operand a slot, every instruction what it does.
//!
//! Only what the kernel can reach is decoded. An instruction that the interpreter does not model becomes
//! [`Exec::Unsupported`], a fault when a thread gets there.

mod asynchronous;
mod compare;
mod control;
mod matrix;
mod memory;
mod tensormap;
mod texture;
mod video;
mod wgmma;
mod wide;

use super::float;
use super::lanes::{c2, l1, l3, mask, sx};
use super::layout::{FUNCTION, Layout, Place};
use super::program::*;
use super::{cvt, int};
use crate::memory::{CONST, LOCAL, PARAM, SHARED};
use crate::num::fp;
use crate::num::soft::Round;
use memory::{element, order};
use ptx::access::{AtomOp, BoolOp, MulMode, ShiftMode};
use ptx::isa::{Mod, Op};
use ptx::module::{AddressBase, FuncId, FuncKind, Function, Inst, Module, Operand, RegId, Stmt, Table};
use ptx::types::{ScalarType as T, Space as PSpace, SpecialReg};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

/// Why an instruction is not modelled.
type Gap = String;
type Result<X> = std::result::Result<X, Gap>;

/// Decodes everything that `entry` can reach.
///
/// `handles` gives the handle of a texture, surface or sampler reference.
pub fn decode(m: &Module, l: &Layout, entry: FuncId, clusters: bool, handles: &Handles<'_>) -> Program {
    let mut d = Decoder {
        m,
        l,
        p: Program { entry: entry.0, shared: l.shared, preds: 1, ..Program::default() },
        consts: FxHashMap::default(),
        regs: Vec::new(),
        func: entry,
        label_pc: Vec::new(),
        fixups: Vec::new(),
        keys: Vec::new(),
        work: vec![entry],
        seen: vec![false; m.funcs.len()],
        clusters,
        handles,
        line: (0, 0),
        results: Vec::new(),
        byte: Slot::NONE,
    };
    d.p.files = m.files.iter().map(|f| f.name.clone()).collect();
    d.p.funcs = m.funcs.iter().enumerate().map(|(i, f)| d.signature(i, f)).collect();
    for v in &m.vars {
        for value in v.init.iter().flatten() {
            d.work.extend(value.function());
        }
    }
    while let Some(f) = d.work.pop() {
        if !std::mem::replace(&mut d.seen[f.index()], true) && m.funcs[f.index()].body.is_some() {
            d.function(f);
        }
    }
    d.p.registers = m.funcs[entry.index()].directives.iter().find_map(|d| match d {
        ptx::module::Directive::MaxNreg(n) => Some(*n),
        _ => None,
    });
    d.p.constant = l.constant.clone();
    d.p
}

/// See [`decode`].
pub type Handles<'a> = dyn Fn(ptx::module::VarId) -> Option<u64> + 'a;

struct Decoder<'a> {
    m: &'a Module,
    l: &'a Layout,
    p: Program,
    consts: FxHashMap<u64, Slot>,
    /// By register of the function: first slot (or predicate) and width.
    regs: Vec<(u32, u32)>,
    func: FuncId,
    label_pc: Vec<u32>,
    /// Instructions whose targets are still labels.
    fixups: Vec<u32>,
    keys: Vec<(Op, SmallVec<[Mod; 6]>)>,
    work: Vec<FuncId>,
    seen: Vec<bool>,
    clusters: bool,
    handles: &'a Handles<'a>,
    /// Results of the function in registers.
    results: Vec<Returned>,
    /// A slot of the function for the byte that a predicate is in the frame.
    byte: Slot,
    /// Source file and line of the instruction at hand.
    line: (u32, u32),
}

/// A result in registers: where it goes when the function returns, the bytes of a register, and the registers; or the predicate that
/// the byte is made of before.
#[derive(Clone)]
struct Returned {
    addr: Addr,
    size: u8,
    from: SmallVec<[Slot; 4]>,
    pred: Option<PRef>,
}

fn gap<X>(what: impl Into<String>) -> Result<X> {
    Err(what.into())
}

impl<'a> Decoder<'a> {
    fn signature(&self, i: usize, f: &Function) -> Func {
        let room = |v: &ptx::module::Variable| match v.dims.contains(&None) {
            true => super::layout::OPEN_ROOM,
            false => v.size() as u32,
        };
        let places = |vars: &[ptx::module::VarId]| {
            vars.iter()
                .map(|v| match self.l.places[v.index()] {
                    Place::Frame(off) | Place::Param(off) => (off, room(&self.m.vars[v.index()])),
                    _ => (u32::MAX, 0),
                })
                .collect()
        };
        Func {
            name: f.name.clone(),
            entry: u32::MAX,
            params: places(&f.params),
            returns: places(&f.returns),
            frame: self.l.frames[i],
            defined: f.body.is_some(),
        }
    }

    fn function(&mut self, id: FuncId) {
        let f = &self.m.funcs[id.index()];
        (self.func, self.line) = (id, (0, 0));
        self.p.funcs[id.index()].entry = self.p.code.len() as u32;
        let (mut slots, mut preds) = (0, 1);
        self.regs.clear();
        for r in &f.regs {
            let n = r.vector.max(1) as u32;
            if r.ty == T::Pred {
                self.regs.push((preds, 1));
                preds += n;
            } else {
                self.regs.push((slots, r.ty.bits()));
                slots += n * r.ty.bits().div_ceil(64);
            }
        }
        let formals = f.returns.iter().chain(&f.params);
        if formals.into_iter().any(|v| self.m.vars[v.index()].ty == T::Pred) {
            self.byte = Slot(slots);
            slots += 1;
        }
        self.p.slots = self.p.slots.max(slots as usize);
        self.p.preds = self.p.preds.max(preds as usize);
        self.label_pc = vec![u32::MAX; f.labels.len()];
        self.fixups.clear();
        let mut last = f.span;
        self.results.clear();
        self.formals(f);
        for (body, stmt) in f.body.iter().flat_map(|b| b.stmts().map(move |s| (b, s))) {
            match stmt {
                Stmt::Label(l) => self.label_pc[l.index()] = self.p.code.len() as u32,
                Stmt::Inst(id) => {
                    let inst = body.inst(id);
                    last = inst.span;
                    self.inst(&inst);
                }
                Stmt::Loc(l) => {
                    let l = body.loc(l);
                    let file = self.m.files.iter().position(|f| f.index == l.file);
                    self.line = file.map_or((0, 0), |f| (f as u32, l.line));
                }
                _ => {}
            }
        }
        self.hand_back(PRef::TRUE, last);
        self.p.code.push(Ins { guard: PRef::TRUE, exec: Exec::Ret, span: last, line: self.line });
        for &at in &self.fixups {
            match &mut self.p.code[at as usize].exec {
                Exec::Bra { target } => *target = self.label_pc[*target as usize],
                Exec::Brx { targets, .. } => targets.iter_mut().for_each(|t| *t = self.label_pc[*t as usize]),
                _ => {}
            }
        }
    }

    /// Formals in registers: their values lie in the frame when the function is entered, and when it is left.
    fn formals(&mut self, f: &Function) {
        if f.kind != FuncKind::Func {
            return;
        }
        let zero = self.constant(0);
        for (n, v) in f.returns.iter().chain(&f.params).enumerate() {
            let var = &self.m.vars[v.index()];
            let (PSpace::Reg, Place::Frame(offset)) = (var.space, self.l.places[v.index()]) else { continue };
            let reg = (0..f.regs.len() as u32).map(RegId).find(|&r| f.reg_name(r) == var.name);
            let addr = Addr { base: zero, offset: offset as i64, frame: true, mask: u64::MAX };
            // A value of 128 bits lies in two slots.
            let wide = var.ty.bits() == 128;
            if let Some(r) = reg.filter(|&r| self.is_pred(r)) {
                let (slot, size, byte) = (self.regs[r.index()].0, 1, self.byte);
                if n < f.returns.len() {
                    let pred = Some(PRef { slot, neg: false });
                    self.results.push(Returned { addr, size, from: smallvec![byte], pred });
                    continue;
                }
                let (order, space, d) = (Order::default(), Space::Local, smallvec![byte]);
                let load = Exec::Load { order, space, addr, size, d, sign: None };
                let set = Exec::Compare { p: Some(slot), q: None, s: [byte, zero], f: c2(|a, b| a != b), with: None };
                for exec in [load, set] {
                    self.p.code.push(Ins { guard: PRef::TRUE, exec, span: f.span, line: (0, 0) });
                }
                continue;
            }
            let (n_slots, size) = if wide { (2, Ok(8)) } else { (var.vector.max(1), element(var.ty)) };
            let exec = match (reg, size) {
                (Some(r), Ok(size)) if wide || self.is_value(r, None) => {
                    let d: SmallVec<[Slot; 4]> = (0..n_slots).map(|e| self.reg(r, Some(e))).collect();
                    if n < f.returns.len() {
                        self.results.push(Returned { addr, size, from: d, pred: None });
                        continue;
                    }
                    Exec::Load { order: Order::default(), space: Space::Local, addr, size, d, sign: None }
                }
                _ => Exec::Unsupported(format!(
                    "the formal parameter '{}' is not modelled by the PTX interpreter",
                    var.name
                )),
            };
            self.p.code.push(Ins { guard: PRef::TRUE, exec, span: f.span, line: (0, 0) });
        }
    }

    /// Before a return: results in registers go to the frame.
    fn hand_back(&mut self, guard: PRef, span: diag::Span) {
        for Returned { addr, size, from, pred } in self.results.clone() {
            if let Some(p) = pred {
                let exec = Exec::Select { d: self.byte, a: self.constant(1), b: self.constant(0), p };
                self.p.code.push(Ins { guard, exec, span, line: self.line });
            }
            let exec = Exec::Store { order: Order::default(), space: Space::Local, addr, size, s: from };
            self.p.code.push(Ins { guard, exec, span, line: self.line });
        }
    }

    fn inst(&mut self, inst: &Inst) {
        let guard = match inst.guard {
            Some(g) => PRef { slot: self.regs[g.reg.index()].0, neg: g.negated },
            None => PRef::TRUE,
        };
        let guard_is_pred = inst.guard.is_none_or(|g| self.is_pred(g.reg));
        let guard = if guard_is_pred { guard } else { PRef::TRUE };
        let exec =
            match self.exec(inst).and_then(|e| if guard_is_pred { Ok(e) } else { gap("its guard is no predicate") }) {
                Ok(exec) => exec,
                Err(why) => {
                    let mods: String = inst.mods.iter().map(|m| format!(".{}", m.name())).collect();
                    let why = if why.is_empty() { String::new() } else { format!(" ({why})") };
                    Exec::Unsupported(format!("'{}{mods}' is not modelled by the PTX interpreter{why}", inst.op.name()))
                }
            };
        if matches!(exec, Exec::Ret) {
            self.hand_back(guard, inst.span);
        }
        if matches!(exec, Exec::Bra { .. } | Exec::Brx { .. }) {
            self.fixups.push(self.p.code.len() as u32);
        }
        self.p.code.push(Ins { guard, exec, span: inst.span, line: self.line });
    }

    fn constant(&mut self, value: u64) -> Slot {
        let consts = &mut self.p.consts;
        *self.consts.entry(value).or_insert_with(|| {
            consts.push([value; 32]);
            Slot(Slot::CONST + consts.len() as u32 - 1)
        })
    }

    fn special(&mut self, s: Special) -> Slot {
        let i = self.p.specials.iter().position(|&x| x == s).unwrap_or_else(|| {
            self.p.specials.push(s);
            self.p.specials.len() - 1
        });
        Slot(Slot::SPECIAL + i as u32)
    }

    fn shared_address(&mut self, off: u32) -> Slot {
        if self.clusters { self.special(Special::Shared(off)) } else { self.constant(off as u64) }
    }

    fn is_pred(&self, reg: RegId) -> bool {
        self.m.funcs[self.func.index()].regs[reg.index()].ty == T::Pred
    }

    /// A register of at most 64 bits, or a component that it has.
    fn is_value(&self, reg: RegId, elem: Option<u8>) -> bool {
        let r = &self.m.funcs[self.func.index()].regs[reg.index()];
        r.ty != T::Pred && r.ty.bits() <= 64 && elem.unwrap_or(0) < r.vector.max(1)
    }

    fn reg(&self, reg: RegId, elem: Option<u8>) -> Slot {
        Slot(self.regs[reg.index()].0 + elem.unwrap_or(0) as u32)
    }

    fn width(&self, op: &Operand) -> u32 {
        match op {
            Operand::Reg { reg, .. } | Operand::NegReg(reg) => self.regs[reg.index()].1,
            Operand::Pair(p) => self.width(&p.0),
            Operand::Vector(v) => v.first().map_or(64, |o| self.width(o)),
            _ => 64,
        }
    }

    /// The elements of a vector operand, be it a list or a vector register, or the operand itself.
    fn elements(&self, op: &Operand) -> SmallVec<[Operand; 4]> {
        match op {
            Operand::Vector(list) => list.iter().cloned().collect(),
            one => match self.m.funcs[self.func.index()].elements_of(one) {
                Some(list) => list.into_iter().collect(),
                None => smallvec![one.clone()],
            },
        }
    }

    /// A source operand of a type.
    fn src(&mut self, op: &Operand, t: T) -> Result<Slot> {
        let bits = t.bits();
        Ok(match op {
            Operand::Reg { reg, elem } if self.is_value(*reg, *elem) => self.reg(*reg, *elem),
            Operand::Special(s) => match s {
                SpecialReg::Whole(_) => return gap("a whole vector register"),
                SpecialReg::Clock
                | SpecialReg::ClockHi
                | SpecialReg::Clock64
                | SpecialReg::Globaltimer
                | SpecialReg::GlobaltimerLo
                | SpecialReg::GlobaltimerHi => return gap("a clock outside mov"),
                s => self.special(Special::Reg(*s)),
            },
            Operand::Int(n) => {
                let value = match t {
                    T::F32 => (*n as f32).to_bits() as u64,
                    T::F64 => (*n as f64).to_bits(),
                    _ => *n as u64 & mask(bits),
                };
                self.constant(value)
            }
            Operand::F32(b) if t == T::F64 => self.constant((f32::from_bits(*b) as f64).to_bits()),
            Operand::F32(b) => self.constant(*b as u64),
            Operand::F64(b) if bits == 64 => self.constant(*b),
            Operand::F64(b) => self.constant((f64::from_bits(*b) as f32).to_bits() as u64),
            Operand::Var { var, offset: 0 } if self.m.vars[var.index()].ty.is_opaque() => self.handle(*var)?,
            Operand::Var { var, offset } => match self.l.places[var.index()] {
                Place::Global(a) => self.constant(a.wrapping_add(*offset as u64)),
                Place::Const(off) | Place::Param(off) => self.constant((off as u64).wrapping_add(*offset as u64)),
                Place::Shared(off) => self.shared_address((off as u64).wrapping_add(*offset as u64) as u32),
                _ => return gap("an address of this variable"),
            },
            Operand::Func(f) => {
                self.work.push(*f);
                self.constant(FUNCTION + f.0 as u64)
            }
            _ => return gap("this kind of operand"),
        })
    }

    fn dst(&self, op: &Operand) -> Result<Slot> {
        match op {
            Operand::Reg { reg, elem } if self.is_value(*reg, *elem) => Ok(self.reg(*reg, *elem)),
            Operand::Sink => Ok(Slot::NONE),
            _ => gap("this kind of destination"),
        }
    }

    fn pdst(&self, op: &Operand) -> Result<Option<u32>> {
        match op {
            Operand::Reg { reg, .. } if self.is_pred(*reg) => Ok(Some(self.regs[reg.index()].0)),
            Operand::Sink => Ok(None),
            _ => gap("this kind of destination"),
        }
    }

    fn psrc(&self, op: &Operand) -> Result<PRef> {
        match op {
            Operand::Reg { reg, .. } if self.is_pred(*reg) => Ok(PRef { slot: self.regs[reg.index()].0, neg: false }),
            Operand::NotReg(reg) if self.is_pred(*reg) => Ok(PRef { slot: self.regs[reg.index()].0, neg: true }),
            Operand::Int(n) => Ok(PRef { slot: 0, neg: *n == 0 }),
            _ => gap("this kind of predicate"),
        }
    }

    fn sources(&mut self, inst: &Inst, first: usize, n: usize) -> Result<[Slot; 4]> {
        let types = inst.types();
        let t = inst.ty();
        let mut s = [Slot::NONE; 4];
        if inst.operands.len() < first + n || n > 4 {
            return gap("operands are missing");
        }
        for i in 0..n {
            // Types of operands that are not the instruction's: the accumulator of .wide, shift amounts, dp4a's c.
            let t = match (inst.op, i) {
                (Op::Mul | Op::Mad, 2) if inst.mul_mode() == Some(MulMode::Wide) => T::U64,
                (Op::Shl | Op::Shr, 1) | (Op::Bfe, 1..) | (Op::Bfi, 2..) => T::U32,
                (Op::Dp4a | Op::Dp2a, _) => T::U32,
                (Op::Cvt, _) => *types.get(1).unwrap_or(&t),
                (Op::Fns, 2) => T::S32,
                _ => t,
            };
            s[i] = self.src(&inst.operands[first + i], t)?;
        }
        let zero = self.constant(0);
        for x in &mut s[n..] {
            *x = zero;
        }
        Ok(s)
    }

    fn alu(&mut self, inst: &Inst, (n, f): (usize, AluFn)) -> Result<Exec> {
        let d = self.dst(&inst.operands[0])?;
        Ok(Exec::Alu { d, s: self.sources(inst, 1, n)?, n: n as u8, f })
    }

    fn exec(&mut self, inst: &Inst) -> Result<Exec> {
        let t = inst.ty();
        let ops = &inst.operands;
        let arg = |i: usize| ops.get(i).ok_or_else(|| "an operand is missing".to_string());
        match inst.op {
            Op::Mov => self.mov(inst),
            Op::And | Op::Or | Op::Xor | Op::Not if t == T::Pred => {
                let Some(d) = self.pdst(arg(0)?)? else { return Ok(Exec::Nop) };
                let a = self.psrc(arg(1)?)?;
                Ok(match inst.op {
                    Op::Not => Exec::Pred { d, a: PRef { neg: !a.neg, ..a }, b: PRef::TRUE, op: Combine::And },
                    Op::And => Exec::Pred { d, a, b: self.psrc(arg(2)?)?, op: Combine::And },
                    Op::Or => Exec::Pred { d, a, b: self.psrc(arg(2)?)?, op: Combine::Or },
                    _ => Exec::Pred { d, a, b: self.psrc(arg(2)?)?, op: Combine::Xor },
                })
            }
            Op::Add | Op::Sub | Op::Addc | Op::Subc | Op::Mad | Op::Madc
                if inst.has(Mod::Cc) || matches!(inst.op, Op::Addc | Op::Subc | Op::Madc) =>
            {
                self.carry(inst)
            }
            Op::Setp => self.setp(inst),
            Op::Set => self.set(inst),
            Op::Selp => Ok(Exec::Select {
                d: self.dst(arg(0)?)?,
                a: self.src(arg(1)?, t)?,
                b: self.src(arg(2)?, t)?,
                p: self.psrc(arg(3)?)?,
            }),
            Op::Slct => {
                let c = *inst.types().get(1).unwrap_or(&T::S32);
                let (zero, s3) = (self.constant(0), self.src(arg(3)?, c)?);
                let s = [self.src(arg(1)?, t)?, self.src(arg(2)?, t)?, s3, zero];
                let f: AluFn = if c == T::F32 {
                    let ftz = inst.ftz();
                    l3(move |a, b, c| {
                        let c = f32::from_bits(c as u32);
                        if c >= 0.0 || ftz && c.is_subnormal() { a } else { b }
                    })
                } else {
                    l3(|a, b, c| if c as u32 as i32 >= 0 { a } else { b })
                };
                Ok(Exec::Alu { d: self.dst(arg(0)?)?, s, n: 3, f })
            }
            Op::Lop3 => self.lop3(inst),
            Op::Testp => {
                let f = float::test(inst).ok_or("")?;
                let a = self.src(arg(1)?, t)?;
                Ok(Exec::Compare { p: self.pdst(arg(0)?)?, q: None, s: [a, a], f, with: None })
            }
            Op::Cvt => {
                let width = self.width(arg(0)?);
                let f = cvt::alu(inst, width).ok_or("")?;
                self.alu(inst, f)
            }
            Op::Cvta => self.cvta(inst),
            Op::Isspacep => {
                let a = self.src(arg(1)?, T::U64)?;
                let f = match inst.space() {
                    PSpace::Shared | PSpace::SharedCluster => c2(|a, _| a >> 32 == SHARED >> 32),
                    PSpace::Local => c2(|a, _| a >> 32 == LOCAL >> 32),
                    PSpace::Const => c2(|a, _| a >> 32 == CONST >> 32),
                    PSpace::Param | PSpace::ParamEntry => c2(|a, _| a >> 32 == PARAM >> 32),
                    PSpace::Global => c2(|a, _| [SHARED, LOCAL].iter().all(|w| a >> 32 != w >> 32)),
                    _ => return gap("this state space"),
                };
                Ok(Exec::Compare { p: self.pdst(arg(0)?)?, q: None, s: [a, a], f, with: None })
            }
            Op::Mapa => {
                let s = [self.src(arg(1)?, t)?, self.src(arg(2)?, T::U32)?, self.constant(0), self.constant(0)];
                let f = l3(|a, b, _| (a & !0xff00_0000) | (b & 0xff) << 24);
                Ok(Exec::Alu { d: self.dst(arg(0)?)?, s, n: 2, f })
            }
            Op::Getctarank => {
                let f = l1(|a| a >> 24 & 0xff);
                self.alu(inst, (1, f))
            }
            Op::Ld | Op::Ldu if t.bits() == 128 => self.load_wide(inst, arg(0)?, arg(1)?),
            Op::St if t.bits() == 128 => self.store_wide(inst, arg(0)?, arg(1)?),
            Op::Multimem => self.multimem(inst),
            Op::Istypep => {
                let a = self.src(arg(1)?, T::U64)?;
                let f = match t {
                    T::TexRef => c2(|a, _| a & 0xfffff != 0 && a >> 20 & 0xfff != 0),
                    T::SamplerRef => c2(|a, _| a & 0xfffff == 0 && a >> 20 & 0xfff != 0),
                    _ => c2(|a, _| a & 0xfffff != 0 && a >> 20 & 0xfff == 0),
                };
                Ok(Exec::Compare { p: self.pdst(arg(0)?)?, q: None, s: [a, a], f, with: None })
            }
            Op::Ld | Op::Ldu => {
                let (space, addr) = (self.space(inst, arg(1)?)?, self.addr(arg(1)?)?);
                let list = self.elements(arg(0)?);
                let d: SmallVec<[Slot; 4]> = list.iter().map(|o| self.dst(o)).collect::<Result<_>>()?;
                let size = element(t)?;
                let width = self.width(arg(0)?);
                let sign = (t.is_signed() && width > size as u32 * 8).then_some(width);
                if d.len() != inst.vector() as usize {
                    return gap("the vector does not fit the operand");
                }
                Ok(Exec::Load { order: order(inst), space, addr, size, d, sign })
            }
            Op::St if inst.has(Mod::Async) => self.async_store(inst),
            Op::St => {
                let (space, addr) = (self.space(inst, arg(0)?)?, self.addr(arg(0)?)?);
                let list = self.elements(arg(1)?);
                let part = |o: &Operand| if *o == Operand::Sink { Ok(Slot::NONE) } else { self.src(o, t) };
                let s: SmallVec<[Slot; 4]> = list.iter().map(part).collect::<Result<_>>()?;
                if s.len() != inst.vector() as usize {
                    return gap("the vector does not fit the operand");
                }
                Ok(Exec::Store { order: order(inst), space, addr, size: element(t)?, s })
            }
            Op::Atom | Op::Red => self.atom(inst),
            Op::Cp => self.copy(inst),
            Op::Mbarrier => self.mbarrier(inst),
            Op::Vadd | Op::Vsub | Op::Vabsdiff | Op::Vmin | Op::Vmax | Op::Vshl | Op::Vshr | Op::Vmad | Op::Vset => {
                self.video(inst)
            }
            Op::Vadd2 | Op::Vsub2 | Op::Vabsdiff2 | Op::Vmin2 | Op::Vmax2 | Op::Vavrg2 | Op::Vset2 => self.video(inst),
            Op::Vadd4 | Op::Vsub4 | Op::Vabsdiff4 | Op::Vmin4 | Op::Vmax4 | Op::Vavrg4 | Op::Vset4 => self.video(inst),
            Op::Alloca => Ok(Exec::Stack {
                d: self.dst(arg(0)?)?,
                how: Stack::Alloca(
                    self.src(arg(1)?, t)?,
                    match ops.get(2) {
                        Some(Operand::Int(n)) => *n as u32,
                        _ => 8,
                    },
                ),
            }),
            Op::Stacksave => Ok(Exec::Stack { d: self.dst(arg(0)?)?, how: Stack::Save }),
            Op::Stackrestore => Ok(Exec::Stack { d: Slot::NONE, how: Stack::Restore(self.src(arg(0)?, t)?) }),
            Op::Wmma => self.wmma(inst),
            Op::Mma => self.mma(inst),
            Op::Wgmma => self.wgmma(inst),
            Op::Tensormap => self.tensormap(inst),
            Op::Tex | Op::Tld4 => self.tex(inst),
            Op::Suld | Op::Sust | Op::Sured => self.surface(inst),
            Op::Txq | Op::Suq => self.texture_query(inst),
            Op::Movmatrix => self.movmatrix(inst),
            Op::Fence if inst.has(Mod::Proxy) && inst.has(Mod::Async) => Ok(Exec::ProxyFence),
            Op::Fence if inst.has(Mod::TensormapGeneric) => {
                Ok(Exec::MapFence(ops.first().map(|at| self.addr(at)).transpose()?))
            }
            Op::Membar | Op::Fence if !inst.has(Mod::Proxy) && !inst.has(Mod::MbarrierInit) => Ok(Exec::Fence),
            Op::Membar | Op::Fence | Op::Prefetch | Op::Prefetchu | Op::Pmevent | Op::Discard | Op::Applypriority => {
                Ok(Exec::Nop)
            }
            Op::Griddepcontrol => Ok(Exec::Nop),
            Op::Setmaxnreg => self.registers(inst),
            Op::Createpolicy => {
                let s = [self.constant(0); 4];
                Ok(Exec::Alu { d: self.dst(arg(0)?)?, s, n: 0, f: l1(|_| 0) })
            }
            Op::Bar | Op::Barrier => self.barrier(inst),
            Op::Shfl | Op::Vote | Op::Match | Op::Redux | Op::Elect => self.collective(inst),
            Op::Ldmatrix | Op::Stmatrix if inst.has(Mod::M8n8) && t == T::B16 => {
                let load = inst.op == Op::Ldmatrix;
                let (regs, at) = if load { (arg(0)?, arg(1)?) } else { (arg(1)?, arg(0)?) };
                let r: SmallVec<[Slot; 4]> = self
                    .elements(regs)
                    .iter()
                    .map(|o| if load { self.dst(o) } else { self.src(o, T::B32) })
                    .collect::<Result<_>>()?;
                let (space, addr) = (self.space(inst, at)?, self.addr(at)?);
                let mask = self.constant(0xffff_ffff);
                let key = self.key(inst);
                let op = Collective::Matrix { load, trans: inst.has(Mod::Trans), space, addr, r };
                Ok(Exec::Collective { mask, key, op })
            }
            Op::Activemask => Ok(Exec::ActiveMask { d: self.dst(arg(0)?)? }),
            Op::Nanosleep => Ok(Exec::Sleep),
            Op::Bra => match arg(0)? {
                Operand::Label(l) => Ok(Exec::Bra { target: l.0 }),
                _ => gap("this kind of target"),
            },
            Op::Brx => {
                let Operand::Table(table) = arg(1)? else { return gap("this kind of target") };
                match &self.m.funcs[self.func.index()].tables[table.index()] {
                    Table::Branch { targets, .. } => {
                        let targets = targets.iter().map(|l| l.0).collect();
                        Ok(Exec::Brx { s: self.src(arg(0)?, T::U32)?, targets })
                    }
                    _ => gap("this kind of table"),
                }
            }
            Op::Call => self.call(inst),
            Op::Ret => Ok(Exec::Ret),
            Op::Exit => Ok(Exec::Exit),
            Op::Trap | Op::Brkpt => Ok(Exec::Trap),
            _ => {
                let f = int::alu(inst).or_else(|| float::alu(inst)).ok_or("")?;
                self.alu(inst, f)
            }
        }
    }

    fn mov(&mut self, inst: &Inst) -> Result<Exec> {
        let (Some(to), Some(from)) = (inst.operands.first(), inst.operands.get(1)) else { return gap("operands") };
        let t = inst.ty();
        if t == T::Pred {
            let Some(d) = self.pdst(to)? else { return Ok(Exec::Nop) };
            return Ok(Exec::Pred { d, a: self.psrc(from)?, b: PRef::TRUE, op: Combine::And });
        }
        let piece = |n: usize| match t {
            T::B16 => T::B8,
            T::B32 if n == 4 => T::B8,
            T::B32 => T::B16,
            T::B64 if n == 4 => T::B16,
            T::B64 => T::B32,
            _ => T::B64,
        };
        if t.bits() == 128 {
            return self.mov_wide(to, from);
        }
        if inst.vector() > 1 {
            return self.mov_vector(to, from, inst.vector(), t);
        }
        let f = &self.m.funcs[self.func.index()];
        let packed =
            |o: &Operand| f.elements_of(o).map_or_else(|| o.clone(), |e| Operand::Vector(e.into_iter().collect()));
        let (to, from) = (&packed(to), &packed(from));
        match (to, from) {
            (Operand::Vector(list), _) if t.bits() <= 64 => {
                let d: SmallVec<[Slot; 4]> = list.iter().map(|o| self.dst(o)).collect::<Result<_>>()?;
                let bits = t.bits() / d.len().max(1) as u32;
                Ok(Exec::Unpack { s: self.src(from, t)?, d, bits })
            }
            (_, Operand::Vector(list)) if t.bits() <= 64 => {
                let e = piece(list.len());
                let s: SmallVec<[Slot; 4]> = list.iter().map(|o| self.src(o, e)).collect::<Result<_>>()?;
                let bits = t.bits() / s.len().max(1) as u32;
                Ok(Exec::Pack { d: self.dst(to)?, s, bits })
            }
            (_, Operand::Var { var, offset }) if matches!(self.l.places[var.index()], Place::Frame(_)) => {
                let Place::Frame(off) = self.l.places[var.index()] else { return gap("") };
                Ok(Exec::FrameAddr { d: self.dst(to)?, offset: offset + off as i64, base: 0 })
            }
            (_, Operand::Special(s)) => match s {
                SpecialReg::Clock | SpecialReg::Clock64 | SpecialReg::Globaltimer | SpecialReg::GlobaltimerLo => {
                    Ok(Exec::Clock { d: self.dst(to)?, high: false })
                }
                SpecialReg::ClockHi | SpecialReg::GlobaltimerHi => Ok(Exec::Clock { d: self.dst(to)?, high: true }),
                _ => Ok(Exec::Mov { d: self.dst(to)?, s: self.src(from, t)? }),
            },
            _ => Ok(Exec::Mov { d: self.dst(to)?, s: self.src(from, t)? }),
        }
    }

    fn cvta(&mut self, inst: &Inst) -> Result<Exec> {
        let to = inst.has(Mod::To);
        let base = match inst.space() {
            PSpace::Global => 0,
            PSpace::Shared | PSpace::SharedCluster => SHARED,
            PSpace::Local => LOCAL,
            PSpace::Const => CONST,
            PSpace::Param | PSpace::ParamEntry => PARAM,
            _ => return gap("this state space"),
        };
        let d = self.dst(&inst.operands[0])?;
        if let Some(Operand::Var { var, offset }) = inst.operands.get(1)
            && let Place::Frame(off) = self.l.places[var.index()]
        {
            return Ok(Exec::FrameAddr { d, offset: offset + off as i64, base: LOCAL });
        }
        let zero = self.constant(0);
        let a = self.src(inst.operands.get(1).ok_or("")?, T::U64)?;
        let f: AluFn = if to { l1(move |a| a.wrapping_sub(base)) } else { l1(move |a| a.wrapping_add(base)) };
        if base == 0 {
            return Ok(Exec::Mov { d, s: a });
        }
        Ok(Exec::Alu { d, s: [a, zero, zero, zero], n: 1, f })
    }
}

fn combine(op: BoolOp) -> Combine {
    match op {
        BoolOp::And => Combine::And,
        BoolOp::Or => Combine::Or,
        BoolOp::Xor => Combine::Xor,
    }
}
