//! Changes of tensor maps, and copies of them to where the copying engine sees them.
//!
//! A map is 128 bytes; which bits say what was read off the vendor's code for `tensormap.replace`.

use super::{Lower, Res};
use crate::ir::{AtomOp, Attr, Mem, MemSpace, Op, Scope, Sem, Sreg, Ty, Value};
use ptx::isa::Mod;
use ptx::module::{Inst, Operand};

/// The bits above the usual element types that say that there is another one.
const OTHER_TYPES: u64 = 0x1_0000;
/// Set of a map whose address is of another kind than the usual one.
const OTHER_ADDRESS: u64 = 0x20_0000;
/// Part of what says how rows are swizzled.
const OTHER_SWIZZLE: u64 = 0x40_0000;

/// Where a map lies.
#[derive(Clone, Copy)]
struct Map {
    space: MemSpace,
    base: Value,
    offset: i64,
}

impl Lower<'_, '_> {
    pub(super) fn tensormap(&mut self, x: &Inst) -> Res {
        if !x.has(Mod::Replace) {
            return self.copy_map(x);
        }
        let a = self.mem_operand(x, 0)?;
        let (space, base, offset) = self.address(x, a, x.space())?;
        let map = Map { space, base, offset };
        let is = |name: &str| x.mods.iter().any(|m| m.name() == name);
        let ordinal = match x.operands.get(1) {
            Some(Operand::Int(n)) if x.operands.len() > 2 => *n as u64,
            _ => 0,
        };
        let last = x.operands.len() - 1;
        if is("global_address") {
            let v = self.arg(x, last, Ty::B64)?;
            self.map_store(map, 0, v);
            self.map_edit(map, 8, OTHER_ADDRESS, None);
            return Ok(());
        }
        if is("global_stride") {
            let v = self.arg(x, last, Ty::B64)?;
            let (low, high) = (self.shifted(v, 4, false), self.shifted(v, 36, false));
            let (low, high) = (self.op(Op::Trunc, &[low], Ty::B32), self.op(Op::Trunc, &[high], Ty::B32));
            self.map_store(map, 0xc + 4 * ordinal as i64, low);
            let high = self.shifted(high, 4 * ordinal, true);
            self.map_edit(map, 0x1c, 0xf << (4 * ordinal), Some(high));
            return Ok(());
        }
        let v = self.arg(x, last, Ty::B32)?;
        let less = |s: &mut Self| {
            let one = s.konst(Ty::B32, 1);
            s.same(Op::ISub, &[v, one])
        };
        match () {
            () if is("rank") => {
                let v = self.shifted(v, 4, true);
                self.map_edit(map, 8, 0x70, Some(v));
            }
            () if is("global_dim") => {
                let v = less(self);
                self.map_store(map, 0x20 + 4 * ordinal as i64, v);
            }
            () if is("box_dim") => {
                let v = less(self);
                let (word, shift) = if ordinal == 0 { (0x34, 24) } else { (0x38, 8 * (ordinal - 1)) };
                let v = self.shifted(v, shift, true);
                self.map_edit(map, word, 0xff << shift, Some(v));
            }
            () if is("element_stride") => {
                let v = less(self);
                let v = self.shifted(v, 3 * ordinal, true);
                self.map_edit(map, 0x34, 7 << (3 * ordinal), Some(v));
            }
            () if is("elemtype") => {
                let Some(n) = self.f.constant(v) else { return self.unsupported(x) };
                // The types with four and six bits came later.
                let (n, other) = if n > 10 { (n - 4, true) } else { (n, false) };
                if other {
                    let set = self.konst(Ty::B32, OTHER_TYPES);
                    self.map_edit(map, 8, OTHER_TYPES, Some(set));
                }
                let v = self.konst(Ty::B32, n << 7);
                self.map_edit(map, 8, 0x780, Some(v));
            }
            () if is("interleave_layout") => {
                let v = self.shifted(v, 11, true);
                self.map_edit(map, 8, 0x1800, Some(v));
            }
            // The last mode is a bit of its own.
            () if is("swizzle_mode") && self.f.constant(v) == Some(4) => {
                let v = self.konst(Ty::B32, OTHER_SWIZZLE);
                self.map_edit(map, 8, 0x6000 | OTHER_SWIZZLE, Some(v));
            }
            () if is("swizzle_mode") => {
                let v = self.shifted(v, 13, true);
                self.map_edit(map, 8, 0x6000 | OTHER_SWIZZLE, Some(v));
            }
            () if is("fill_mode") => {
                let v = self.shifted(v, 15, true);
                self.map_edit(map, 8, 0x8000, Some(v));
            }
            () => return self.unsupported(x),
        }
        Ok(())
    }

    pub(super) fn shifted(&mut self, v: Value, by: u64, left: bool) -> Value {
        let by = self.konst(Ty::B32, by);
        self.same(if left { Op::Shl } else { Op::Shr }, &[v, by])
    }

    fn map_store(&mut self, map: Map, at: i64, v: Value) {
        let mem = Mem { space: map.space, bytes: (self.f.ty(v).bits() / 8) as u8, ..Mem::default() };
        self.b().push(Op::Store, Attr::default(), mem, map.offset + at, &[map.base, v], &[]);
    }

    /// Replaces the bits `mask` of a word by those of a value, or by zeros.
    fn map_edit(&mut self, map: Map, at: i64, mask: u64, v: Option<Value>) {
        let mem = Mem { space: map.space, bytes: 4, ..Mem::default() };
        let id = self.b().push(Op::Load, Attr::default(), mem, map.offset + at, &[map.base], &[Ty::B32]);
        let old = self.f.inst(id).results[0];
        let (rest, mask) = (self.konst(Ty::B32, !mask), self.konst(Ty::B32, mask));
        let mut word = self.same(Op::And, &[old, rest]);
        if let Some(v) = v {
            let v = self.same(Op::And, &[v, mask]);
            word = self.same(Op::Or, &[word, v]);
        }
        self.map_store(map, at, word);
    }

    /// `tensormap.cp_fenceproxy`: each thread of the warp exchanges a word, so that the copying engine sees it.
    fn copy_map(&mut self, x: &Inst) -> Res {
        let (to, from) = (self.mem_operand(x, 0)?, self.mem_operand(x, 1)?);
        let (_, to, to_offset) = self.address(x, to, ptx::types::Space::Global)?;
        let (_, from, from_offset) = self.address(x, from, ptx::types::Space::Shared)?;
        let attr = Attr { sub: Sreg::Laneid as u8, ..Attr::default() };
        let lane = self.one(Op::Sreg, attr, &[], Ty::B32);
        let at = self.shifted(lane, 2, true);
        let from = self.same(Op::IAdd, &[from, at]);
        let at = self.op(Op::Zext, &[at], Ty::B64);
        let to = self.same(Op::IAdd, &[to, at]);
        let shared = Mem { space: MemSpace::Shared, bytes: 4, ..Mem::default() };
        let id = self.b().push(Op::Load, Attr::default(), shared, from_offset, &[from], &[Ty::B32]);
        let word = self.f.inst(id).results[0];
        let global = Mem { space: MemSpace::Global, bytes: 4, ..Mem::default() };
        if x.scope() == Some(ptx::access::Scope::Sys) {
            self.b().push(Op::Store, Attr::default(), global, to_offset, &[to, word], &[]);
            self.push_fence(Scope::Sys, 0);
            return Ok(());
        }
        let mem = Mem { sem: Sem::Relaxed, scope: Scope::Gpu, ..global };
        let attr = Attr { sub: AtomOp::Exch as u8, ..Attr::default() };
        self.b().push(Op::Atom, attr, mem, to_offset, &[to, word], &[Ty::B32]);
        Ok(())
    }
}
