//! Operands of instructions.

use super::{Parsed, Parser, Site};
use crate::lex::{Kind, p1};
use crate::module::*;
use crate::names::Meaning;
use crate::types::{Dim, SpecialReg};
use diag::Span;
use thin_vec::{ThinVec, thin_vec};

impl Parser<'_> {
    /// One operand, with `p|q` pairs.
    pub(super) fn operand(&mut self, site: Site) -> Parsed<Operand> {
        let first = self.nest(|p| p.single(site))?;
        if self.at_p(b'|') {
            self.bump();
            let second = self.nest(|p| p.single(site))?;
            return Ok(Operand::Pair(Box::new((first, second))));
        }
        Ok(first)
    }

    fn single(&mut self, site: Site) -> Parsed<Operand> {
        match self.tok.kind {
            Kind::Ident => self.named(site),
            Kind::F32 => {
                let bits = self.float_literal().map_or(0, |f| f.0.0);
                Ok(Operand::F32(bits))
            }
            Kind::F64 | Kind::Decimal => {
                let bits = self.float_literal().map_or(0, |f| f.1);
                Ok(Operand::F64(bits))
            }
            k if k == p1(b'[') => self.memory(site),
            k if k == p1(b'{') => {
                self.bump();
                let mut parts = ThinVec::new();
                while !self.at_p(b'}') {
                    if self.at_p(b'{') {
                        return Err(self.syntax());
                    }
                    parts.push(self.operand(site)?);
                    if !self.eat_p(b',') {
                        break;
                    }
                }
                self.expect_p(b'}')?;
                Ok(Operand::Vector(parts))
            }
            k if k == p1(b'!') || k == p1(b'-') => {
                let mut ahead = self.lex;
                let next = ahead.next();
                if next.kind == Kind::Ident {
                    let name = self.names.intern(self.bytes(next.span));
                    if let Meaning::Reg(reg) = self.names.meaning(name) {
                        self.bump();
                        self.bump();
                        if k == p1(b'-') && self.at(Kind::Dot) {
                            let word = self.text(self.tok.span).into_owned();
                            let Some(select) = Select::from_name(&word[1..]) else { return Err(self.syntax()) };
                            self.bump();
                            return Ok(Operand::Part { reg, negated: true, select });
                        }
                        return Ok(if k == p1(b'!') { Operand::NotReg(reg) } else { Operand::NegReg(reg) });
                    }
                }
                if k == p1(b'-') && matches!(next.kind, Kind::F32 | Kind::F64 | Kind::Decimal) {
                    let single = next.kind == Kind::F32;
                    let ((s, _), d) = self.float_literal().unwrap_or_default();
                    return Ok(if single { Operand::F32(s) } else { Operand::F64(d) });
                }
                Ok(Operand::Int(self.operand_constant()?))
            }
            _ => Ok(Operand::Int(self.operand_constant()?)),
        }
    }

    fn operand_constant(&mut self) -> Parsed<i64> {
        Ok(self.constant()?.bits)
    }

    fn named(&mut self, site: Site) -> Parsed<Operand> {
        let span = self.tok.span;
        let text = self.bytes(span);
        let id = self.names.intern(text);
        match self.names.meaning(id) {
            Meaning::Reg(reg) => {
                self.bump();
                let mut elem = None;
                if self.at(Kind::Dot) {
                    let selector = self.bump().span;
                    let word = self.text(selector);
                    if let Some(select) = Select::from_name(&word[1..])
                        && self.body.regs[reg.index()].vector == 1
                    {
                        return Ok(Operand::Part { reg, negated: false, select });
                    }
                    if self.body.regs[reg.index()].vector == 1 {
                        let message = format!("Unknown video selector: '{word}'");
                        return Err(self.error(selector, message));
                    }
                    let Some(dim) = Dim::from_name(&word[1..]) else {
                        let message = format!("Unknown vector selector: '{}'", &word[1..]);
                        return Err(self.error(selector, message));
                    };
                    if dim as u8 >= self.body.regs[reg.index()].vector {
                        return Err(self.error(selector, "Vector selector out of range"));
                    }
                    elem = Some(dim as u8);
                }
                Ok(Operand::Reg { reg, elem })
            }
            Meaning::Var(var) => {
                self.bump();
                let mut offset = 0i64;
                if self.at_p(b'-') {
                    return Err(self.syntax());
                }
                if self.eat_p(b'[') {
                    let n = self.constant()?.bits;
                    self.expect_p(b']')?;
                    let v = &self.module.vars[var.index()];
                    offset = n.wrapping_mul(i64::from(v.ty.bytes()) * i64::from(v.vector));
                }
                let more = self.offset()?;
                Ok(Operand::Var { var, offset: offset.wrapping_add(more) })
            }
            Meaning::Func(f) => {
                self.bump();
                Ok(Operand::Func(f))
            }
            Meaning::Label(l) => {
                self.bump();
                Ok(Operand::Label(l))
            }
            Meaning::Table(t) => {
                self.bump();
                Ok(Operand::Table(t))
            }
            Meaning::Nothing => {
                if text == b"_" {
                    self.bump();
                    return Ok(Operand::Sink);
                }
                if text == b"WARP_SZ" {
                    return Ok(Operand::Int(self.operand_constant()?));
                }
                if text[0] == b'%' {
                    return self.special(span);
                }
                self.bump();
                Ok(Operand::Label(self.pend(id, span, site)))
            }
        }
    }

    fn special(&mut self, span: Span) -> Parsed<Operand> {
        self.bump();
        let mut whole = span;
        if self.at(Kind::Dot) && self.tok.span.start == span.end {
            whole = span.to(self.bump().span);
        }
        if let Some(reg) = SpecialReg::from_name(&self.text(whole)) {
            return Ok(Operand::Special(reg));
        }
        let text = self.text(whole);
        if let Some((base, selector)) = text.split_once('.')
            && SpecialReg::from_name(base).is_some()
        {
            let message = format!("Unknown vector selector: '{selector}'");
            return Err(self.error(whole, message));
        }
        let name = self.names.intern(self.bytes(span));
        Err(self.unknown(name, span))
    }

    /// `[base + offset]`, or `[base, more...]` of texture and tensor instructions.
    fn memory(&mut self, site: Site) -> Parsed<Operand> {
        self.bump();
        let mut base = AddressBase::None;
        let mut offset = 0i64;
        if self.at(Kind::Ident) && self.bytes(self.tok.span) != b"WARP_SZ" {
            let (name, span) = self.ident()?;
            base = match self.names.meaning(name) {
                Meaning::Reg(reg) => AddressBase::Reg(reg),
                Meaning::Var(var) => AddressBase::Var(var),
                Meaning::Nothing => return Err(self.unknown(name, span)),
                _ => {
                    let text = self.names.text(name);
                    let message = format!(
                        "Illegal to use symbol '{text}' of type unexpected as address operand. Use integer or bit only."
                    );
                    return Err(self.error(span, message));
                }
            };
            if self.eat_p(b'+') {
                offset = self.constant()?.bits;
            }
        } else {
            offset = self.constant()?.bits;
        }
        if self.at_p(b',') {
            let first = match base {
                AddressBase::Reg(reg) => Operand::Reg { reg, elem: None },
                AddressBase::Var(var) => Operand::Var { var, offset },
                AddressBase::None => Operand::Int(offset),
            };
            if offset != 0 && matches!(base, AddressBase::Reg(_)) {
                return Err(self.syntax());
            }
            let mut parts = thin_vec![first];
            while self.eat_p(b',') {
                parts.push(self.operand(site)?);
            }
            self.expect_p(b']')?;
            return Ok(Operand::TexMem(parts));
        }
        self.expect_p(b']')?;
        // No text is long enough for so many names.
        Address::new(base, offset).map(Operand::Mem).ok_or(super::Stop)
    }
}
