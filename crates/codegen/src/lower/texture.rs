//! Textures, surfaces, samplers.
//!
//! A handle is the lower word of a 64-bit value, or a word that the driver puts behind the kernel's parameters for each
//! reference of the module. What operands an instruction of the machine takes in which order was read off the vendor's code.

use super::{Lower, Res, unsupported};
use crate::ir::texel::{Access, Fetch, Image, Shape, Table, Texel};
use crate::ir::{Attr, CallSite, Cmp, Fmt, Mem, MemSpace, Op, Sem, Ty, Value};
use ptx::access::CacheOp;
use ptx::isa::{Mod, Op as P};
use ptx::module::{AddressBase, Function, Inst, Operand, VarId};
use ptx::types::ScalarType as T;

/// The level that stands where PTX names none: the hardware cuts it to the first there is.
const FIRST_LEVEL: u32 = 0xc200_0000;
/// The bits of a handle that number a texture, before sm_90; those above number its sampler.
const TEXTURE: u64 = 0xf_ffff;
/// The bits that number a sampler of its own.
const SAMPLER: u64 = 0xfff;
/// Upper word of the address of a reference: what it is to.
fn reference_kind(t: T) -> u64 {
    match t {
        T::TexRef => 0x2000_0000,
        T::SamplerRef => 0x4000_0000,
        _ => 0x8000_0000,
    }
}

/// The most layers there are; a number beyond is that of the last.
const LAST_LAYER: u64 = 0xffff;

/// True for the opcodes that are lowered here.
pub(super) fn is_ours(x: &Inst) -> bool {
    matches!(x.op, P::Tex | P::Tld4 | P::Txq | P::Suld | P::Sust | P::Sured | P::Suq)
}

/// Shape and whether there are samples.
fn shape(x: &Inst) -> Option<(Shape, bool)> {
    const SHAPES: [(&str, Shape, bool); 9] = [
        ("1d", Shape::D1, false),
        ("2d", Shape::D2, false),
        ("3d", Shape::D3, false),
        ("cube", Shape::Cube, false),
        ("a1d", Shape::A1, false),
        ("a2d", Shape::A2, false),
        ("acube", Shape::ACube, false),
        ("2dms", Shape::D2, true),
        ("a2dms", Shape::A2, true),
    ];
    x.mods.iter().find_map(|m| SHAPES.iter().find(|s| s.0 == m.name())).map(|s| (s.1, s.2))
}

impl Lower<'_, '_> {
    pub(super) fn texture(&mut self, x: &Inst) -> Res {
        match x.op {
            P::Tex | P::Tld4 => self.fetch(x),
            P::Txq | P::Suq => self.query(x),
            _ => self.surface(x),
        }
    }

    // ---- handles ----------------------------------------------------------------------------------------------------

    /// The word behind the parameters that the driver fills with the handle of a reference.
    pub(super) fn reference(&mut self, var: VarId, x: &Inst) -> Res<Value> {
        let v = &self.m.vars[var.index()];
        if !v.ty.is_opaque() || !v.dims.is_empty() {
            return unsupported(format!("'{}' as a texture, surface or sampler", v.name), x.span);
        }
        match self.handle_of(var) {
            Some(word) => Ok(word),
            None => unsupported(format!("the reference '{}' here", v.name), x.span),
        }
    }

    /// The word of a reference, of which a linker says where it lies in a relocatable module.
    fn handle_of(&mut self, var: VarId) -> Option<Value> {
        if self.cx.layout.relocatable {
            let opaque = self.m.vars[var.index()].ty.is_opaque();
            return opaque.then(|| self.with_imm(Op::Handle, var.0.into(), Ty::B32));
        }
        let n = self.cx.handles.iter().position(|&h| h == var)?;
        let at = self.cx.param_bytes.next_multiple_of(4) as i64 + 4 * n as i64;
        let mem = Mem { space: MemSpace::Param, bytes: 4, ..Mem::default() };
        let id = self.b().push(Op::Param, Attr::default(), mem, at, &[], &[Ty::B32]);
        Some(self.f.inst(id).results[0])
    }

    /// The address of a reference: its handle below.
    pub(super) fn reference_address(&mut self, var: VarId) -> Option<Value> {
        let lo = self.handle_of(var)?;
        let hi = self.konst(Ty::B32, reference_kind(self.m.vars[var.index()].ty));
        Some(self.op(Op::Pack, &[lo, hi], Ty::B64))
    }

    /// `istypep`: the upper word of a handle says what it is to.
    pub(super) fn is_reference(&mut self, x: &Inst) -> Res {
        let v = self.arg(x, 1, Ty::B64)?;
        let hi = self.op(Op::Hi, &[v], Ty::B32);
        let bit = self.konst(Ty::B32, reference_kind(x.ty()));
        let bit = self.same(Op::And, &[hi, bit]);
        let zero = self.konst(Ty::B32, 0);
        let is = self.b().icmp(Cmp::Ne, false, bit, zero);
        self.dst(x, is, false)
    }

    fn handle(&mut self, o: &Operand, x: &Inst) -> Res<Value> {
        match o {
            Operand::Var { var, .. } => self.reference(*var, x),
            Operand::Reg { reg, .. } => {
                let v = self.read_reg(*reg, None);
                Ok(self.b().resize(v, Ty::B32, false))
            }
            _ => unsupported("this handle", x.span),
        }
    }

    /// Object, sampler where it is apart, and coordinates of `[a, b, {c}]`.
    fn texel_address(&mut self, x: &Inst) -> Res<(Value, Option<Value>, Vec<Operand>)> {
        let parts = x.operands.iter().find_map(|o| match o {
            Operand::TexMem(parts) => Some(parts.to_vec()),
            _ => None,
        });
        match parts.as_deref() {
            Some([object, coordinates]) => Ok((self.handle(object, x)?, None, self.vector_operands(coordinates))),
            Some([object, sampler, coordinates]) => {
                let (object, sampler) = (self.handle(object, x)?, self.handle(sampler, x)?);
                Ok((object, Some(sampler), self.vector_operands(coordinates)))
            }
            _ => unsupported("this address of a texel", x.span),
        }
    }

    fn clamp_layer(&mut self, layer: Value) -> Value {
        let last = self.konst(Ty::B32, LAST_LAYER);
        self.same(Op::IMin, &[layer, last])
    }

    // ---- textures ---------------------------------------------------------------------------------------------------

    fn fetch(&mut self, x: &Inst) -> Res {
        let Some((mut shape, samples)) = shape(x) else { return self.unsupported(x) };
        let types = x.types();
        let [to, of] = types.as_slice() else { return self.unsupported(x) };
        let (to, whole) = (*to, *of == T::S32);
        let (object, sampler, coordinates) = self.texel_address(x)?;
        let dims = shape.dims();
        let mut parts = coordinates.iter();
        let mut next = |s: &mut Self| match parts.next() {
            Some(o) => s.src(o, Ty::B32, x.span),
            None => unsupported("an address without coordinates", x.span),
        };
        let sample = if samples { Some(next(self)?) } else { None };
        let layer = if shape.layered() { Some(next(self)?) } else { None };
        let mut at: Vec<Value> = Vec::new();
        for _ in 0..dims {
            at.push(next(self)?);
        }
        let rest = Rest::of(x, self.pf);
        let mut t = Texel { apart: sampler.is_some(), sample: samples, ..Texel::default() };
        t.fetch = match () {
            () if x.op == P::Tld4 => Fetch::Gather,
            () if x.has(Mod::Grad) => Fetch::Gradients,
            () if whole => Fetch::Texel,
            () => Fetch::Sample,
        };
        let mut slopes: Vec<Vec<Value>> = Vec::new();
        for n in rest.gradients.into_iter().flatten() {
            let list = self.vector_operands(&x.operands[n]);
            let list: Res<Vec<Value>> = list.iter().take(dims).map(|o| self.src(o, Ty::B32, x.span)).collect();
            slopes.push(list?);
        }
        let word = |s: &mut Self, n: Option<usize>| n.map(|n| s.arg(x, n, Ty::B32)).transpose();
        let (level, depth) = (word(self, rest.level)?, word(self, rest.depth)?);
        if let Some(name) = system_function(x, self.pf, self.cx.independent) {
            let sm = self.cx.layout.sm;
            if !crate::chips::one_handle(sm) {
                // The vendor's code for these chips calls nothing: four lanes of a quad fetch for each of them in turn.
                return unsupported(
                    format!("a fetch with gradients in three dimensions or with a comparison on sm_{sm}"),
                    x.span,
                );
            }
            let coordinates: Vec<Value> = layer.into_iter().chain(at).collect();
            let offsets = rest.offset.map(|n| x.operands[n].clone());
            return self.fetch_of_system(x, &name, &coordinates, &slopes, offsets, depth);
        }
        if matches!(shape, Shape::Cube | Shape::ACube) {
            self.onto_cube(&mut at);
        }
        let layer = layer.map(|l| self.clamp_layer(l));
        let offset = match rest.offset {
            Some(n) => Some(self.offsets(&x.operands[n], dims, x)?),
            None => None,
        };

        // There is no sampling in one dimension, but in two with a height of one.
        if shape == Shape::D1 && t.fetch != Fetch::Texel {
            shape = Shape::D2;
            at.push(self.konst(Ty::B32, 0));
            slopes.iter_mut().for_each(|s| s.push(at[1]));
        }
        t.shape = shape;
        let mut a: Vec<Value> = Vec::new();
        let mut b: Vec<Value> = Vec::new();
        t.offset = offset.is_some();
        t.depth = depth.is_some();
        if t.fetch == Fetch::Gradients {
            a.extend(&at);
            let sixteen = self.konst(Ty::B32, 16);
            let above = offset.map(|o| self.same(Op::Shl, &[o, sixteen]));
            match (layer, above) {
                (Some(l), Some(o)) => a.push(self.same(Op::Or, &[l, o])),
                (l, o) => a.extend(l.or(o)),
            }
            b.extend(slopes[0].iter().zip(&slopes[1]).flat_map(|(&x, &y)| [x, y]));
        } else {
            a.extend(layer);
            a.extend(&at);
            let zero = |s: &Self, v: Value| s.f.constant(v) == Some(0);
            match t.fetch {
                Fetch::Sample => {
                    let v = match level {
                        Some(v) => v,
                        None => self.konst(Ty::B32, FIRST_LEVEL as u64),
                    };
                    t.level = !zero(self, v);
                    b.extend(t.level.then_some(v));
                }
                Fetch::Texel => {
                    let given = level.filter(|&v| !zero(self, v));
                    t.level = given.is_some();
                    b.extend(given);
                }
                _ => {}
            }
            b.extend(offset);
            b.extend(sample);
            b.extend(depth);
        }
        let component = [Mod::R, Mod::G, Mod::B, Mod::A].iter().position(|&m| x.has(m));
        t.component = component.unwrap_or(0) as u8;
        (t.first, t.second) = (a.len() as u8, b.len() as u8);
        let mut args = self.fetch_handles(object, sampler, x)?;
        t.apart = args.len() > 1;
        args.extend(a);
        args.extend(b);
        let mut results = vec![Ty::B32; 4];
        let (texel, there) = destination(x);
        if there.is_some() {
            t.missing = true;
            results.push(Ty::P);
        }
        let id = self.b().push(Op::Texture, Attr::default(), Mem::default(), t.pack(), &args, &results);
        let results = self.f.inst(id).results.to_vec();
        self.write_texel(&texel, to, &results[..4])?;
        if let Some(p) = there {
            let there = self.same(Op::Not, &[results[4]]);
            self.write(&p, there, false)?;
        }
        Ok(())
    }

    /// The handles that a fetch takes: before sm_90 a texture and its sampler have one.
    fn fetch_handles(&mut self, texture: Value, sampler: Option<Value>, x: &Inst) -> Res<Vec<Value>> {
        let Some(sampler) = sampler else { return Ok(vec![texture]) };
        let sm = self.cx.layout.sm;
        if crate::chips::one_handle(sm) {
            return Ok(vec![texture, sampler]);
        }
        // Of references the driver would write both into one word.
        let named = |o: &Operand| match o {
            Operand::TexMem(parts) => parts.iter().any(|p| matches!(p, Operand::Var { .. })),
            _ => false,
        };
        if x.operands.iter().any(named) {
            return unsupported(format!("a reference to a texture or sampler of their own on sm_{sm}"), x.span);
        }
        let (own, above) = (self.konst(Ty::B32, TEXTURE), self.konst(Ty::B32, TEXTURE.count_ones() as u64));
        let texture = self.same(Op::And, &[texture, own]);
        let sampler = self.same(Op::Shl, &[sampler, above]);
        Ok(vec![self.same(Op::Or, &[texture, sampler])])
    }

    /// A fetch that the system does in a function. Handles of 64 bits in R4 and R6, a value for comparison in R6 where no handle
    /// has it; coordinates from R8, the first gradient from R12; the second, offsets and what else to compare with on the stack,
    /// 16 bytes each. In R4 comes whether texels are there, behind it the texel.
    fn fetch_of_system(
        &mut self,
        x: &Inst,
        name: &str,
        coordinates: &[Value],
        slopes: &[Vec<Value>],
        offsets: Option<Operand>,
        depth: Option<Value>,
    ) -> Res {
        let number = self.cx.layout.fetches.iter().position(|f| f == name);
        let Some(far) = number.map(|n| (self.cx.layout.externs.len() + n) as u32) else { return self.unsupported(x) };
        let Some(Operand::TexMem(parts)) = x.operands.iter().find(|o| matches!(o, Operand::TexMem(_))).cloned() else {
            return self.unsupported(x);
        };
        let (mut regs, mut values) = (Vec::new(), Vec::new());
        let mut put = |reg: u8, v: Value| {
            regs.push(reg);
            values.push(v);
        };
        let mut next = 4;
        for o in &parts[..parts.len() - 1] {
            let v = match o {
                Operand::Reg { reg, .. } => self.read_reg(*reg, None),
                Operand::Var { var, .. } => {
                    let lo = self.reference(*var, x)?;
                    let hi = self.konst(Ty::B32, reference_kind(self.m.vars[var.index()].ty));
                    self.op(Op::Pack, &[lo, hi], Ty::B64)
                }
                _ => return self.unsupported(x),
            };
            let (lo, hi) = self.b().halves(v);
            put(next, lo);
            put(next + 1, hi);
            next += 2;
        }
        let behind = depth.filter(|_| next > 6);
        if let Some(d) = depth.filter(|_| next == 6) {
            put(next, d);
        }
        coordinates.iter().zip(8..).for_each(|(&v, r)| put(r, v));
        slopes[0].iter().zip(12..).for_each(|(&v, r)| put(r, v));
        let mut stack: Vec<(u32, Value)> = slopes[1].iter().enumerate().map(|(n, &v)| (4 * n as u32, v)).collect();
        if let Some(o) = &offsets {
            for (n, o) in self.vector_operands(o).iter().take(slopes[0].len()).enumerate() {
                let v = self.src(o, Ty::B32, x.span)?;
                stack.push((16 + 4 * n as u32, v));
            }
        }
        let mut bytes = 16 + 16 * offsets.is_some() as u32;
        if let Some(d) = behind {
            stack.push((bytes, d));
            bytes += 16;
        }
        let zero = self.konst(Ty::B32, 0);
        let top = self.f.grows.then(|| self.callee_stack(bytes));
        for (at, v) in stack {
            self.stack_argument(top, at, v);
        }
        if let Some(top) = top {
            regs.push(3);
            values.push(top);
        }
        let to = x.types().first().copied().unwrap_or(T::F32);
        let halves = matches!(to, T::F16 | T::F16x2);
        let rets: Vec<u8> = (4..if halves { 7 } else { 9 }).collect();
        let types = vec![Ty::B32; rets.len()];
        let site = self.call_site(CallSite {
            callee: None,
            far: Some(far),
            top: top.map(|_| bytes),
            args: regs,
            rets,
            stack: if top.is_some() { 0 } else { bytes },
            ..CallSite::default()
        });
        let id = self.b().push(Op::Call, Attr::default(), Mem::default(), site, &values, &types);
        let results = self.f.inst(id).results.to_vec();
        let (texel, there) = destination(x);
        let words: Vec<Value> = match to {
            T::F16 => results[1..].iter().flat_map(|&w| <[Value; 2]>::from(self.b().halves(w))).collect(),
            _ => results[1..].to_vec(),
        };
        for (o, v) in self.vector_operands(&texel).iter().zip(words) {
            self.write(o, v, false)?;
        }
        if let Some(p) = there {
            let there = self.b().icmp(Cmp::Ne, false, results[0], zero);
            self.write(&p, there, false)?;
        }
        Ok(())
    }

    /// Writes four words, which are halves or pairs of halves in the end where PTX asks for them.
    fn write_texel(&mut self, to: &Operand, ty: T, words: &[Value]) -> Res {
        let to = self.vector_operands(to);
        let values: Vec<Value> = match ty {
            T::F16 => {
                let attr = Attr { fmt: Fmt::F16, fmt2: Fmt::F32, ..Attr::default() };
                words.iter().map(|&w| self.one(Op::F2F, attr, &[w], Ty::B16)).collect()
            }
            T::F16x2 => {
                let attr = Attr { fmt: Fmt::F16x2, fmt2: Fmt::F32, ..Attr::default() };
                words.chunks(2).map(|w| self.one(Op::F2FPack, attr, &[w[1], w[0]], Ty::B32)).collect()
            }
            _ => words.to_vec(),
        };
        for (o, v) in to.iter().zip(values) {
            self.write(o, v, false)?;
        }
        Ok(())
    }

    /// Divides coordinates by the one farthest out, as the machine wants them on the faces of a cube.
    fn onto_cube(&mut self, at: &mut [Value]) {
        let single = Attr { fmt: Fmt::F32, ..Attr::default() };
        let sizes: Vec<Value> = at.iter().map(|&c| self.one(Op::FAbs, single, &[c], Ty::B32)).collect();
        let most = self.one(Op::FMax, single, &sizes[..2], Ty::B32);
        let most = self.one(Op::FMax, single, &[sizes[2], most], Ty::B32);
        let part = self.one(Op::FRcp, Attr { sub: 1, ..single }, &[most], Ty::B32);
        for c in at {
            *c = self.one(Op::FMul, single, &[*c, part], Ty::B32);
        }
    }

    /// Offsets in one word: 4 bits each, of `tld4` 6 bits in a byte each.
    fn offsets(&mut self, o: &Operand, dims: usize, x: &Inst) -> Res<Value> {
        let (bits, step) = if x.op == P::Tld4 { (0x3f, 8) } else { (0xf, 4) };
        let mut word = None;
        for (n, o) in self.vector_operands(o).iter().take(dims).enumerate() {
            let v = self.src(o, Ty::B32, x.span)?;
            let (mask, shift) = (self.konst(Ty::B32, bits), self.konst(Ty::B32, n as u64 * step));
            let v = self.same(Op::And, &[v, mask]);
            let v = self.same(Op::Shl, &[v, shift]);
            word = Some(match word {
                None => v,
                Some(w) => self.same(Op::Or, &[w, v]),
            });
        }
        match word {
            Some(w) => Ok(w),
            None => unsupported("an empty list of offsets", x.span),
        }
    }

    // ---- sizes and formats ------------------------------------------------------------------------------------------

    fn query(&mut self, x: &Inst) -> Res {
        let (var, object) = match x.operands.get(1) {
            Some(Operand::Mem(a)) => match a.base() {
                AddressBase::Reg(r) => {
                    let v = self.read_reg(r, None);
                    (None, self.b().resize(v, Ty::B32, false))
                }
                AddressBase::Var(v) => (Some(v), self.reference(v, x)?),
                AddressBase::None => return self.unsupported(x),
            },
            Some(Operand::TexMem(parts)) if parts.len() == 1 => {
                let o = parts[0].clone();
                (None, self.handle(&o, x)?)
            }
            _ => return self.unsupported(x),
        };
        let sizes = [(Mod::Width, 1), (Mod::Height, 2), (Mod::Depth, 4)];
        if let Some((_, bit)) = sizes.iter().find(|s| x.has(s.0)) {
            let level = match x.operands.get(2) {
                Some(_) => self.arg(x, 2, Ty::B32)?,
                None => self.konst(Ty::B32, 0),
            };
            let t = Texel { fetch: Fetch::Size, component: *bit, first: 1, ..Texel::default() };
            let id =
                self.b().push(Op::Texture, Attr::default(), Mem::default(), t.pack(), &[object, level], &[Ty::B32]);
            let v = self.f.inst(id).results[0];
            return self.dst(x, v, false);
        }
        let sampling = [Mod::AddrMode0, Mod::AddrMode1, Mod::AddrMode2, Mod::FilterMode, Mod::ForceUnnormalizedCoords];
        let table = match () {
            () if x.op == P::Suq => Table::Surfaces,
            () if !self.cx.independent => Table::Unified,
            () if x.mods.iter().any(|m| sampling.contains(m)) => Table::Samplers,
            () => Table::Textures,
        };
        let wrong = |ty: T| match table {
            Table::Surfaces => ty != T::SurfRef,
            Table::Samplers => ty != T::SamplerRef,
            _ => ty != T::TexRef,
        };
        if var.is_some_and(|v| wrong(self.m.vars[v.index()].ty)) {
            return self.unsupported(x);
        }
        let Some(at) = place(table, x) else { return self.unsupported(x) };
        let v = self.description(object, table, at);
        self.dst(x, v, false)
    }

    /// The word at byte `at` of the entry of an object in a table of the driver's.
    fn description(&mut self, object: Value, table: Table, at: u64) -> Value {
        let object = if crate::chips::one_handle(self.cx.layout.sm) {
            object
        } else {
            let own = self.konst(Ty::B32, if table == Table::Samplers { SAMPLER } else { TEXTURE });
            self.same(Op::And, &[object, own])
        };
        let size = self.with_imm(Op::EntrySize, table as i64, Ty::B32);
        let at = self.konst(Ty::B32, at);
        let at = self.op(Op::IMad, &[object, size, at], Ty::B32);
        let at = self.op(Op::Zext, &[at], Ty::B64);
        let number = match table {
            Table::Unified | Table::Textures => 0,
            Table::Samplers => 1,
            Table::Surfaces => 2,
        };
        let base = self.with_imm(Op::TableAddr, number, Ty::B64);
        let address = self.same(Op::IAdd, &[base, at]);
        let mem = Mem { space: MemSpace::Global, bytes: 4, nc: true, sem: Sem::Weak, ..Mem::default() };
        let id = self.b().push(Op::Load, Attr::default(), mem, 0, &[address], &[Ty::B32]);
        self.f.inst(id).results[0]
    }

    // ---- surfaces ---------------------------------------------------------------------------------------------------

    fn surface(&mut self, x: &Inst) -> Res {
        let Some((shape, false)) = shape(x) else { return self.unsupported(x) };
        let (object, _, coordinates) = self.texel_address(x)?;
        let mut parts = coordinates.iter();
        let mut next = |s: &mut Self| match parts.next() {
            Some(o) => s.src(o, Ty::B32, x.span),
            None => unsupported("an address without coordinates", x.span),
        };
        let layer = if shape.layered() { Some(next(self)?) } else { None };
        let mut args = vec![object];
        for _ in 0..shape.dims() {
            args.push(next(self)?);
        }
        args.extend(layer);
        let t = x.ty();
        let mut i = Image { shape, formatted: x.has(Mod::P), place: args.len() as u8 - 1, ..Image::default() };
        i.beyond = match () {
            () if x.has(Mod::Zero) => 0,
            () if x.has(Mod::Clamp) => 1,
            () => 2,
        };
        i.cache = match x.cache() {
            Some(CacheOp::Cs) => 1,
            Some(CacheOp::Cg | CacheOp::Cv | CacheOp::Wt) => 2,
            _ => 0,
        };
        match x.op {
            P::Suld => {
                let to = self.vector_operands(&x.operands[0]);
                i.bytes = (t.bits() / 8) as u8 * to.len() as u8;
                let words = (i.bytes as usize).div_ceil(4);
                let id =
                    self.b().push(Op::Surface, Attr::default(), Mem::default(), i.pack(), &args, &vec![Ty::B32; words]);
                let words = self.f.inst(id).results.to_vec();
                for (n, o) in to.iter().enumerate() {
                    let v = self.element_of(&words, n, t);
                    self.write(o, v, false)?;
                }
                Ok(())
            }
            P::Sust => {
                let from = match x.operands.last() {
                    Some(o) => self.vector_operands(o),
                    None => return self.unsupported(x),
                };
                i.access = Access::Store;
                i.bytes = (t.bits() / 8) as u8 * from.len() as u8;
                let words = self.packed_elements(&from, t, x)?;
                args.extend(words);
                self.b().push(Op::Surface, Attr::default(), Mem::default(), i.pack(), &args, &[]);
                Ok(())
            }
            _ => {
                use ptx::access::AtomOp as A;
                let ops = [A::Add, A::Min, A::Max, A::Inc, A::Dec, A::And, A::Or, A::Xor];
                let op = x.mods.iter().find_map(|&m| A::from_mod(m));
                let Some(op) = op.and_then(|o| ops.iter().position(|&p| p == o)) else {
                    return self.unsupported(x);
                };
                i.access = Access::Reduce;
                i.op = op as u8;
                i.bytes = (t.bits() / 8) as u8;
                let compares = matches!(ops[op], A::Min | A::Max);
                // As the machine numbers them; the last two take the sign of the surface's format.
                i.ty = match t {
                    T::S32 if compares => 1,
                    T::U64 => 2,
                    T::S64 => 5,
                    T::B32 if compares => 6,
                    T::B64 => 7,
                    _ => 0,
                };
                let Some(o) = x.operands.last().cloned() else { return self.unsupported(x) };
                let ty = if t.bits() == 64 { Ty::B64 } else { Ty::B32 };
                args.push(self.src(&o, ty, x.span)?);
                self.b().push(Op::Surface, Attr::default(), Mem::default(), i.pack(), &args, &[]);
                Ok(())
            }
        }
    }

    /// Element `n` of type `t` in words of memory.
    fn element_of(&mut self, words: &[Value], n: usize, t: T) -> Value {
        let bytes = t.bits() as usize / 8;
        match bytes {
            8 => self.op(Op::Pack, &[words[2 * n], words[2 * n + 1]], Ty::B64),
            4 => words[n],
            _ => {
                let at = n * bytes;
                let v = words[at / 4];
                let (from, len) = (self.konst(Ty::B32, 8 * (at % 4) as u64), self.konst(Ty::B32, 8 * bytes as u64));
                self.op(Op::Bfe, &[v, from, len], Ty::B32)
            }
        }
    }

    /// Elements of type `t` as words of memory.
    fn packed_elements(&mut self, from: &[Operand], t: T, x: &Inst) -> Res<Vec<Value>> {
        let bytes = t.bits() as usize / 8;
        let mut words: Vec<Value> = Vec::new();
        for (n, o) in from.iter().enumerate() {
            if bytes == 8 {
                words.push(self.src(o, Ty::B64, x.span)?);
                continue;
            }
            let v = self.src(o, Ty::B32, x.span)?;
            if bytes == 4 {
                words.push(v);
                continue;
            }
            let (mask, shift) = (self.konst(Ty::B32, (1 << (8 * bytes)) - 1), 8 * (n * bytes % 4) as u64);
            let v = self.same(Op::And, &[v, mask]);
            let shift_by = self.konst(Ty::B32, shift);
            let v = self.same(Op::Shl, &[v, shift_by]);
            match words.last_mut() {
                Some(w) if shift != 0 => *w = self.same(Op::Or, &[*w, v]),
                _ => words.push(v),
            }
        }
        Ok(words)
    }
}

/// The texel, and the predicate that says whether it is there.
fn destination(x: &Inst) -> (Operand, Option<Operand>) {
    match &x.operands[0] {
        Operand::Pair(p) => (p.0.clone(), Some(p.1.clone())),
        o => (o.clone(), None),
    }
}

/// The operands behind an address, by number.
#[derive(Default)]
struct Rest {
    gradients: Option<[usize; 2]>,
    level: Option<usize>,
    offset: Option<usize>,
    depth: Option<usize>,
}

impl Rest {
    fn of(x: &Inst, f: &Function) -> Rest {
        let mut next = x.operands.iter().position(|o| matches!(o, Operand::TexMem(_))).map_or(0, |n| n + 1);
        let mut rest = Rest::default();
        if x.has(Mod::Grad) {
            rest.gradients = Some([next, next + 1]);
            next += 2;
        } else if x.has(Mod::Level) {
            rest.level = Some(next);
            next += 1;
        }
        let offset = x.operands.get(next).is_some_and(|o| match o {
            Operand::Vector(_) | Operand::Int(_) => true,
            Operand::Reg { reg, .. } => {
                let reg = &f.regs[reg.index()];
                reg.vector > 1 || reg.ty != T::F32
            }
            _ => false,
        });
        if offset {
            rest.offset = Some(next);
            next += 1;
        }
        rest.depth = (next < x.operands.len()).then_some(next);
        rest
    }
}

/// The function of the system that does what `x` asks for where the machine has no instruction for it: fetches with gradients in
/// three dimensions or with a comparison. `independent`: samplers are apart in this module.
pub fn system_function(x: &Inst, f: &Function, independent: bool) -> Option<String> {
    if x.op != P::Tex || !x.has(Mod::Grad) {
        return None;
    }
    let (shape, _) = shape(x)?;
    let rest = Rest::of(x, f);
    if shape.dims() < 3 && rest.depth.is_none() {
        return None;
    }
    let geometry = match shape {
        Shape::D1 => "1d",
        Shape::D2 => "2d",
        Shape::D3 => "3d",
        Shape::Cube => "cube",
        Shape::A1 => "a1d",
        Shape::A2 => "a2d",
        Shape::ACube => "acube",
    };
    let ty = match x.types().first()? {
        T::U32 => "u32",
        T::S32 => "s32",
        T::F32 => "f32",
        _ => "f16",
    };
    let said = |yes: bool, text: &'static str| if yes { text } else { "" };
    let there = said(destination(x).1.is_some(), "pred_");
    let offset = said(rest.offset.is_some(), "_offset");
    let depth = said(rest.depth.is_some(), "_depth_compare");
    let apart = said(independent, "_texmode_independent");
    Some(format!("__cuda_syscall_tex_grad_{there}{geometry}_v4_{ty}_f32{apart}{offset}{depth}"))
}

/// Where a word stands in an entry of a table, as the vendor's code loads it.
fn place(table: Table, x: &Inst) -> Option<u64> {
    const UNIFIED: &[(Mod, u64)] = &[
        // Samplers without textures are not known here: what the vendor's code reads is the first word.
        (Mod::ForceUnnormalizedCoords, 0),
        (Mod::AddrMode0, 0xc),
        (Mod::AddrMode1, 0x10),
        (Mod::AddrMode2, 0x14),
        (Mod::FilterMode, 0x18),
        (Mod::NormalizedCoords, 0x1c),
        (Mod::ChannelDataType, 0x20),
        (Mod::ChannelOrder, 0x24),
        (Mod::ArraySize, 0x28),
        (Mod::NumMipmapLevels, 0x2c),
        (Mod::NumSamples, 0x30),
    ];
    const TEXTURES: &[(Mod, u64)] = &[
        (Mod::NormalizedCoords, 0xc),
        (Mod::ChannelDataType, 0x10),
        (Mod::ChannelOrder, 0x14),
        (Mod::ArraySize, 0x18),
        (Mod::NumMipmapLevels, 0x1c),
        (Mod::NumSamples, 0x20),
    ];
    const SAMPLERS: &[(Mod, u64)] = &[
        (Mod::AddrMode0, 0),
        (Mod::AddrMode1, 4),
        (Mod::AddrMode2, 8),
        (Mod::FilterMode, 0xc),
        (Mod::ForceUnnormalizedCoords, 0x10),
    ];
    const SURFACES: &[(Mod, u64)] =
        &[(Mod::ChannelDataType, 0xc), (Mod::ChannelOrder, 0x10), (Mod::MemoryLayout, 0x14), (Mod::ArraySize, 0x1c)];
    let list = match table {
        Table::Unified => UNIFIED,
        Table::Textures => TEXTURES,
        Table::Samplers => SAMPLERS,
        Table::Surfaces => SURFACES,
    };
    list.iter().find(|p| x.has(p.0)).map(|p| p.1)
}
