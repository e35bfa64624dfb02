//! Policies of the second-level cache: `createpolicy`, and the operand that accesses take them from.
//!
//! A policy is 64 bits of which the upper word says all; the lower one is zero. What the bits are was read off the vendor's code:
//! from bit 20 on of that word the priorities and a share in sixteenths, or above a range its block size, first block and blocks.

use super::{Lower, Res, unsupported};
use crate::ir::{Attr, Cmp, Fmt, Op, Rnd, Ty, Value};
use ptx::isa::Mod;
use ptx::module::Inst;

/// A share of all lines.
const SHARE: u64 = 0x100;
/// A range of addresses.
const RANGE: u64 = 0x180;
/// What shares are multiplied by.
const SIXTEENTHS: f32 = 15.99;

impl Lower<'_, '_> {
    /// The policy behind the other operands of an access, where there is one.
    pub(super) fn policy(&mut self, x: &Inst) -> Res<Option<Value>> {
        if !x.has(Mod::L2CacheHint) {
            return Ok(None);
        }
        match x.operands.len().checked_sub(1) {
            Some(last) => Ok(Some(self.arg(x, last, Ty::B64)?)),
            None => unsupported("an access without operands", x.span),
        }
    }

    pub(super) fn create_policy(&mut self, x: &Inst) -> Res {
        if x.has(Mod::Cvt) {
            // An access property of the runtime's is a policy already.
            let v = self.arg(x, 1, Ty::B64)?;
            return self.dst(x, v, false);
        }
        // The first priority, and the second where it is not to leave lines as they are.
        let first = |m: &Mod| match m {
            Mod::L2EvictLast => Some(0x40),
            Mod::L2EvictNormal => Some(0x60),
            Mod::L2EvictFirst => Some(0x20),
            Mod::L2EvictUnchanged => Some(0),
            _ => None,
        };
        let mut priorities = x.mods.iter().filter_map(|m| first(m).map(|code| (m, code)));
        let Some((_, code)) = priorities.next() else { return self.unsupported(x) };
        let code = code + priorities.next().map_or(0, |(m, _)| if *m == Mod::L2EvictFirst { 0x10 } else { 0 });
        let upper = if x.has(Mod::Range) { self.range_policy(x, code)? } else { self.share_policy(x, code)? };
        let zero = self.konst(Ty::B32, 0);
        let v = self.op(Op::Pack, &[zero, upper], Ty::B64);
        self.dst(x, v, false)
    }

    fn share_policy(&mut self, x: &Inst, code: u64) -> Res<Value> {
        let share = match x.operands.get(1) {
            Some(_) => self.arg(x, 1, Ty::B32)?,
            None => self.konst(Ty::B32, 1f32.to_bits() as u64),
        };
        let single = Attr { fmt: Fmt::F32, ..Attr::default() };
        let all = self.konst(Ty::B32, SIXTEENTHS.to_bits() as u64);
        let share = self.one(Op::FMul, single, &[share, all], Ty::B32);
        let share = self.one(Op::F2I, Attr { sub: 32, rnd: Rnd::Rz, ..single }, &[share], Ty::B32);
        let share = self.masked(share, 0xf);
        self.joined(&[(share, 0)], SHARE + code, 20)
    }

    /// The range is cut into blocks of a power of two, 4096 bytes at least, of which at most 127 are counted.
    fn range_policy(&mut self, x: &Inst, code: u64) -> Res<Value> {
        let a = self.mem_operand(x, 1)?;
        let (_, base, offset) = self.address(x, a, x.space())?;
        let start = self.add_offset(base, offset);
        let (primary, total) = (self.arg(x, 2, Ty::B32)?, self.arg(x, 3, Ty::B32)?);
        let single = Attr { fmt: Fmt::F32, ..Attr::default() };
        let size = self.one(Op::I2F, Attr { sub: 32, ..single }, &[total], Ty::B32);
        let size = self.one(Op::FLg2, Attr { sub: 1, ..single }, &[size], Ty::B32);
        let size = self.one(Op::F2I, Attr { sub: 32, rnd: Rnd::Rp, ..single }, &[size], Ty::B32);
        let (seven, twelve) = (self.konst(Ty::B32, 7), self.konst(Ty::B32, 12));
        let size = self.same(Op::ISub, &[size, seven]);
        let size = self.one(Op::IMax, Attr { signed: true, ..Attr::default() }, &[size, twelve], Ty::B32);
        let one = self.konst(Ty::B32, 1);
        let block = self.same(Op::Shl, &[one, size]);
        let more = self.same(Op::IAdd, &[block, primary]);
        let more = self.same(Op::ISub, &[more, one]);
        let more = self.op(Op::Zext, &[more], Ty::B64);
        let end = self.same(Op::IAdd, &[start, more]);
        let (first, last) = (self.same(Op::Shr, &[start, size]), self.same(Op::Shr, &[end, size]));
        let count = self.same(Op::ISub, &[last, first]);
        let most = self.konst(Ty::B64, 0x7f);
        let count = self.same(Op::IMin, &[count, most]);
        let (first, count) = (self.op(Op::Trunc, &[first], Ty::B32), self.op(Op::Trunc, &[count], Ty::B32));
        let log = self.same(Op::ISub, &[size, twelve]);
        let (log, first) = (self.masked(log, 0xf), self.masked(first, 0x7f));
        let word = self.joined(&[(log, 15), (first, 7), (count, 0)], (RANGE + code) << 15, 5)?;
        // No bytes: no lines.
        let (none, zero) = (self.konst(Ty::B32, RANGE << 20), self.konst(Ty::B32, 0));
        let any = self.b().icmp(Cmp::Ne, false, total, zero);
        Ok(self.op(Op::Select, &[word, none, any], Ty::B32))
    }

    fn masked(&mut self, v: Value, mask: u64) -> Value {
        let mask = self.konst(Ty::B32, mask);
        self.same(Op::And, &[v, mask])
    }

    /// The fields at their places and `code`, moved up by `shift`.
    fn joined(&mut self, fields: &[(Value, u64)], code: u64, shift: u64) -> Res<Value> {
        let mut word = self.konst(Ty::B32, code);
        for &(v, at) in fields {
            let at = self.konst(Ty::B32, at);
            let v = self.same(Op::Shl, &[v, at]);
            word = self.same(Op::Or, &[word, v]);
        }
        let shift = self.konst(Ty::B32, shift);
        Ok(self.same(Op::Shl, &[word, shift]))
    }
}
