//! Bodies of functions in a few bytes an instruction.
//!
//! A text of 100 MB has four million instructions, which take 68 bytes each as lists, and most functions are looked at one at a
//! time: until then they stay packed, in about half the bytes of their text.

use super::{Address, Body, FuncId, LabelId, NEGATED, Operand, Packed, RegId, TableId, VarId};
use diag::Span;
use std::borrow::Cow;

/// The instructions of a body, as bytes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pack {
    bytes: Box<[u8]>,
    /// How many instructions, and operands.
    count: u32,
    operands: u32,
    /// Operands of seldom kinds.
    rest: Vec<Operand>,
    /// It names functions.
    functions: bool,
    /// Everything but instructions.
    shell: Body,
}

/// What an operand is; those with numbers are followed by them.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Tag {
    Reg,
    Element,
    NotReg,
    NegReg,
    Int,
    F32,
    F64,
    Var,
    Mem,
    Label,
    Func,
    Table,
    Sink,
    Vector,
    List,
    TexMem,
    Pair,
    /// The next one of [`Pack::rest`].
    Rest,
}

const TAGS: [Tag; 18] = [
    Tag::Reg,
    Tag::Element,
    Tag::NotReg,
    Tag::NegReg,
    Tag::Int,
    Tag::F32,
    Tag::F64,
    Tag::Var,
    Tag::Mem,
    Tag::Label,
    Tag::Func,
    Tag::Table,
    Tag::Sink,
    Tag::Vector,
    Tag::List,
    Tag::TexMem,
    Tag::Pair,
    Tag::Rest,
];

impl Body {
    /// Moves everything out as [`Body::take`] does, and packs it.
    pub(crate) fn take_packed(&mut self) -> Body {
        let (count, operands) = (self.insts.len() as u32, self.operands.len() as u32);
        let mut w = Writer { bytes: Vec::with_capacity(16 * self.insts.len()), rest: Vec::new(), functions: false };
        let mut list = self.operands.drain(..);
        let (mut end, mut before) = (0, 0);
        for p in self.insts.drain(..) {
            w.signed(i64::from(p.start) - i64::from(end));
            w.signed(i64::from(p.end) - i64::from(p.start));
            w.number(u64::from(p.guard & !NEGATED) << 1 | u64::from(p.guard >> 31));
            w.number(p.head.into());
            w.number((p.operands - before).into());
            list.by_ref().take((p.operands - before) as usize).for_each(|o| w.operand(o));
            (end, before) = (p.end, p.operands);
        }
        drop(list);
        let Writer { bytes, rest, functions } = w;
        let shell = self.take();
        let pack = Pack { bytes: bytes.into(), count, operands, rest, functions, shell };
        Body { packed: Some(Box::new(pack)), ..Body::default() }
    }

    /// The body with its instructions at hand.
    pub fn unpacked(&self) -> Cow<'_, Body> {
        let Some(pack) = &self.packed else { return Cow::Borrowed(self) };
        let mut r = Reader { bytes: &pack.bytes, rest: pack.rest.iter() };
        let mut out = Body { heads: self.heads.clone(), ..pack.shell.clone() };
        out.insts.reserve_exact(pack.count as usize);
        out.operands.reserve_exact(pack.operands as usize);
        let mut at = 0;
        for _ in 0..pack.count {
            let start = (i64::from(at) + r.signed()) as u32;
            let end = (i64::from(start) + r.signed()) as u32;
            let guard = r.number();
            let head = r.number() as u32;
            let more = r.number() as usize;
            out.operands.extend((0..more).map(|_| r.operand()));
            let guard = (guard >> 1) as u32 | ((guard & 1) as u32) << 31;
            out.insts.push(Packed { start, end, guard, head, operands: out.operands.len() as u32 });
            at = end;
        }
        Cow::Owned(out)
    }

    /// Packed or not, how many instructions there are.
    pub(super) fn packed_count(&self) -> usize {
        self.packed.as_ref().map_or(self.insts.len(), |p| p.count as usize)
    }

    /// The `.pragma`s of a packed body.
    pub(super) fn packed_pragmas(&self) -> Option<&Vec<(Vec<String>, Span)>> {
        self.packed.as_ref().map(|p| &p.shell.pragmas)
    }

    /// False where no instruction names a function, as far as that is known without looking at all of them.
    pub fn may_name_functions(&self) -> bool {
        self.packed.as_ref().is_none_or(|p| p.functions)
    }
}

struct Writer {
    bytes: Vec<u8>,
    rest: Vec<Operand>,
    functions: bool,
}

impl Writer {
    /// Seven bits a byte, the lowest first; all but the last byte have the highest bit.
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }

    /// Small numbers of either sign take few bytes.
    fn signed(&mut self, n: i64) {
        self.number((n << 1 ^ n >> 63) as u64);
    }

    fn tagged(&mut self, tag: Tag, n: u32) {
        self.bytes.push(tag as u8);
        self.number(n.into());
    }

    fn list(&mut self, tag: Tag, list: impl ExactSizeIterator<Item = Operand>) {
        self.tagged(tag, list.len() as u32);
        list.for_each(|o| self.operand(o));
    }

    fn operand(&mut self, operand: Operand) {
        match operand {
            Operand::Reg { reg, elem: None } => self.tagged(Tag::Reg, reg.0),
            Operand::Reg { reg, elem: Some(elem) } => {
                self.tagged(Tag::Element, reg.0);
                self.bytes.push(elem);
            }
            Operand::NotReg(reg) => self.tagged(Tag::NotReg, reg.0),
            Operand::NegReg(reg) => self.tagged(Tag::NegReg, reg.0),
            Operand::Int(n) => {
                self.bytes.push(Tag::Int as u8);
                self.signed(n);
            }
            Operand::F32(bits) => {
                self.bytes.push(Tag::F32 as u8);
                self.bytes.extend(bits.to_le_bytes());
            }
            Operand::F64(bits) => {
                self.bytes.push(Tag::F64 as u8);
                self.bytes.extend(bits.to_le_bytes());
            }
            Operand::Var { var, offset } => {
                self.tagged(Tag::Var, var.0);
                self.signed(offset);
            }
            Operand::Mem(a) => {
                // What the base is comes lowest.
                self.tagged(Tag::Mem, a.base.rotate_left(2));
                self.signed(a.offset());
            }
            Operand::Label(l) => self.tagged(Tag::Label, l.0),
            Operand::Func(f) => {
                self.functions = true;
                self.tagged(Tag::Func, f.0);
            }
            Operand::Table(t) => {
                self.functions = true;
                self.tagged(Tag::Table, t.0);
            }
            Operand::Sink => self.bytes.push(Tag::Sink as u8),
            Operand::Vector(l) => self.list(Tag::Vector, l.into_iter()),
            Operand::List(l) => {
                // Calls have lists.
                self.functions = true;
                self.list(Tag::List, l.into_iter());
            }
            Operand::TexMem(l) => self.list(Tag::TexMem, l.into_iter()),
            Operand::Pair(p) => {
                self.bytes.push(Tag::Pair as u8);
                self.operand(p.0);
                self.operand(p.1);
            }
            Operand::Special(_) | Operand::Part { .. } => {
                self.bytes.push(Tag::Rest as u8);
                self.rest.push(operand);
            }
        }
    }
}

/// Reads what [`Writer`] has written; behind its end there are zeros.
struct Reader<'a> {
    bytes: &'a [u8],
    rest: std::slice::Iter<'a, Operand>,
}

impl Reader<'_> {
    #[inline]
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    #[inline]
    fn number(&mut self) -> u64 {
        let (mut out, mut shift) = (0, 0);
        loop {
            let b = self.byte();
            out |= u64::from(b & 0x7f) << shift;
            shift += 7;
            if b < 0x80 || shift > 63 {
                return out;
            }
        }
    }

    fn signed(&mut self) -> i64 {
        let n = self.number();
        (n >> 1) as i64 ^ -((n & 1) as i64)
    }

    fn id(&mut self) -> u32 {
        self.number() as u32
    }

    fn word<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    fn list<L: FromIterator<Operand>>(&mut self) -> L {
        let count = self.id();
        (0..count).map(|_| self.operand()).collect()
    }

    fn operand(&mut self) -> Operand {
        match TAGS.get(usize::from(self.byte())).unwrap_or(&Tag::Sink) {
            Tag::Reg => Operand::Reg { reg: RegId(self.id()), elem: None },
            Tag::Element => Operand::Reg { reg: RegId(self.id()), elem: Some(self.byte()) },
            Tag::NotReg => Operand::NotReg(RegId(self.id())),
            Tag::NegReg => Operand::NegReg(RegId(self.id())),
            Tag::Int => Operand::Int(self.signed()),
            Tag::F32 => Operand::F32(u32::from_le_bytes(self.word())),
            Tag::F64 => Operand::F64(u64::from_le_bytes(self.word())),
            Tag::Var => Operand::Var { var: VarId(self.id()), offset: self.signed() },
            Tag::Mem => {
                let base = self.id().rotate_right(2);
                let offset = self.signed();
                Operand::Mem(Address { base, offset: [offset as u32, (offset >> 32) as u32] })
            }
            Tag::Label => Operand::Label(LabelId(self.id())),
            Tag::Func => Operand::Func(FuncId(self.id())),
            Tag::Table => Operand::Table(TableId(self.id())),
            Tag::Sink => Operand::Sink,
            Tag::Vector => Operand::Vector(self.list()),
            Tag::List => Operand::List(self.list()),
            Tag::TexMem => Operand::TexMem(self.list()),
            Tag::Pair => Operand::Pair(Box::new((self.operand(), self.operand()))),
            Tag::Rest => self.rest.next().cloned().unwrap_or(Operand::Sink),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::SpecialReg;

    #[test]
    fn tags_stand_at_their_numbers() {
        assert!(TAGS.iter().enumerate().all(|(i, &t)| t as usize == i));
    }

    #[test]
    fn all_operands_come_back() {
        let r = |n| Operand::Reg { reg: RegId(n), elem: None };
        let mem = |base, offset| Operand::Mem(Address::new(base, offset).unwrap());
        let select = super::super::Select::from_name("b3210").unwrap();
        let special = SpecialReg::from_name("%tid.x").map(Operand::Special).unwrap();
        let operands = [
            r(0),
            r(u32::MAX >> 3),
            Operand::Reg { reg: RegId(300), elem: Some(3) },
            Operand::NotReg(RegId(128)),
            Operand::NegReg(RegId(127)),
            Operand::Part { reg: RegId(7), negated: true, select },
            special,
            Operand::Int(i64::MIN),
            Operand::Int(-1),
            Operand::Int(i64::MAX),
            Operand::F32(u32::MAX),
            Operand::F64(u64::MAX - 1),
            Operand::Var { var: VarId(9), offset: -4 },
            mem(super::super::AddressBase::Reg(RegId(5)), -8),
            mem(super::super::AddressBase::Var(VarId(70_000)), i64::MAX),
            mem(super::super::AddressBase::None, i64::MIN),
            Operand::Label(LabelId(1 << 20)),
            Operand::Func(FuncId(2)),
            Operand::Table(TableId(3)),
            Operand::Sink,
            Operand::Vector([r(1), r(2)].into_iter().collect()),
            Operand::List([Operand::Vector([r(4)].into_iter().collect()), Operand::Sink].into_iter().collect()),
            Operand::TexMem([r(3), Operand::Int(0)].into_iter().collect()),
            Operand::Pair(Box::new((r(8), Operand::Sink))),
        ];
        let mut body = Body::default();
        for (n, chunk) in (0u32..).zip(operands.chunks(5)) {
            chunk.iter().for_each(|o| body.push_operand(o.clone()));
            let guard = (n > 0).then(|| super::super::Guard { reg: RegId(n - 1), negated: n % 2 == 1 });
            // Texts of macros may go back.
            body.push_inst(guard, 1000 * n, diag::Span::new(100 - 7 * n, 110));
        }
        let plain = body.clone();
        let packed = body.take_packed();
        assert_eq!((packed.insts.len(), packed.count(), body.count()), (0, plain.count(), 0));
        assert_eq!(*packed.unpacked(), plain);
        assert!(packed.may_name_functions());
    }
}
