//! Constant expressions: C's operators on 64-bit integers, signed unless an operand is unsigned.

use super::{Parsed, Parser};
use crate::lex::{Kind, p1, p2};
use crate::names::Meaning;

/// The value of a constant expression: 64 bits, and whether they are to be read as unsigned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub bits: i64,
    pub unsigned: bool,
}

/// Binary operators with their precedence; a higher one binds closer.
static BINARY: [(Kind, u8); 18] = [
    (p2(b'|', b'|'), 1),
    (p2(b'&', b'&'), 2),
    (p1(b'|'), 3),
    (p1(b'^'), 4),
    (p1(b'&'), 5),
    (p2(b'=', b'='), 6),
    (p2(b'!', b'='), 6),
    (p1(b'<'), 7),
    (p1(b'>'), 7),
    (p2(b'<', b'='), 7),
    (p2(b'>', b'='), 7),
    (p2(b'<', b'<'), 8),
    (p2(b'>', b'>'), 8),
    (p1(b'+'), 9),
    (p1(b'-'), 9),
    (p1(b'*'), 10),
    (p1(b'/'), 10),
    (p1(b'%'), 10),
];

impl Parser<'_> {
    /// An integer literal.
    pub(super) fn literal(&mut self) -> Parsed<Value> {
        if !self.at(Kind::Int) {
            return Err(self.syntax());
        }
        let span = self.bump().span;
        let mut digits = self.bytes(span);
        let mut unsigned = false;
        if let [rest @ .., b'U'] = digits {
            digits = rest;
            unsigned = true;
        }
        let radix = match digits {
            [b'0', b'x' | b'X', rest @ ..] => {
                digits = rest;
                16
            }
            [b'0', b'b' | b'B', rest @ ..] => {
                digits = rest;
                2
            }
            [b'0', rest @ ..] => {
                digits = rest;
                8
            }
            _ => 10,
        };
        let mut value: u64 = 0;
        for &b in digits {
            let digit = u64::from((b as char).to_digit(radix).unwrap_or(0));
            match value.checked_mul(u64::from(radix)).and_then(|v| v.checked_add(digit)) {
                Some(v) => value = v,
                None => return Err(self.error(span, "Constant overflow")),
            }
        }
        Ok(Value { bits: value as i64, unsigned: unsigned || value > i64::MAX as u64 })
    }

    /// A whole constant expression.
    pub(super) fn constant(&mut self) -> Parsed<Value> {
        self.nest(|p| {
            let cond = p.binary(1)?;
            if !p.eat_p(b'?') {
                return Ok(cond);
            }
            let yes = p.constant()?;
            p.expect_p(b':')?;
            let no = p.constant()?;
            let unsigned = yes.unsigned || no.unsigned;
            Ok(Value { bits: if cond.bits != 0 { yes.bits } else { no.bits }, unsigned })
        })
    }

    fn binary(&mut self, min: u8) -> Parsed<Value> {
        let mut left = self.nest(Self::unary)?;
        while let Some(&(op, prec)) = BINARY.iter().find(|b| b.0 == self.tok.kind) {
            if prec < min {
                break;
            }
            let span = self.bump().span;
            let right = self.nest(|p| p.binary(prec + 1))?;
            left = match apply(op, left, right) {
                Some(v) => v,
                None => return Err(self.fatal(span, "Constant expression has division by zero")),
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Value> {
        let Kind::Punct(c) = self.tok.kind else {
            if self.at(Kind::Ident) {
                let span = self.tok.span;
                if self.bytes(span) == b"WARP_SZ" {
                    self.bump();
                    return Ok(Value { bits: 32, unsigned: false });
                }
                let name = self.names.intern(self.bytes(span));
                if self.names.meaning(name) == Meaning::Nothing {
                    return Err(self.unknown(name, span));
                }
                return Err(self.syntax());
            }
            return self.literal();
        };
        if !matches!(c as u8, b'(' | b'+' | b'-' | b'!' | b'~') || c > 0xff {
            return Err(self.syntax());
        }
        self.bump();
        if c as u8 == b'(' {
            for (word, unsigned) in [("s64", false), ("u64", true)] {
                if self.eat_dot(word) {
                    self.expect_p(b')')?;
                    let v = self.nest(Self::unary)?;
                    return Ok(Value { bits: v.bits, unsigned });
                }
            }
            if self.at(Kind::Ident) && self.bytes(self.tok.span) != b"WARP_SZ" {
                return Err(self.syntax());
            }
            let v = self.constant()?;
            self.expect_p(b')')?;
            return Ok(v);
        }
        let v = self.nest(Self::unary)?;
        Ok(match c as u8 {
            b'-' => Value { bits: v.bits.wrapping_neg(), unsigned: v.unsigned },
            b'~' => Value { bits: !v.bits, unsigned: v.unsigned },
            b'!' => Value { bits: i64::from(v.bits == 0), unsigned: false },
            _ => v,
        })
    }
}

/// The value of a binary operator; none for a division by zero.
fn apply(op: Kind, a: Value, b: Value) -> Option<Value> {
    let unsigned = a.unsigned || b.unsigned;
    let (x, y) = (a.bits, b.bits);
    let (ux, uy) = (x as u64, y as u64);
    let Kind::Punct(code) = op else { return None };
    let [first, second] = code.to_le_bytes();
    let shift = if uy > 63 { None } else { Some(uy as u32) };
    let truth = |t: bool| Value { bits: i64::from(t), unsigned: false };
    let less = if unsigned { ux < uy } else { x < y };
    let whole = |bits: i64| Value { bits, unsigned };
    Some(match (first, second) {
        (b'|', b'|') => truth(x != 0 || y != 0),
        (b'&', b'&') => truth(x != 0 && y != 0),
        (b'=', _) => truth(x == y),
        (b'!', _) => truth(x != y),
        (b'<', 0) => truth(less),
        (b'>', b'=') => truth(!less),
        (b'<', b'=') => truth(less || x == y),
        (b'>', 0) => truth(!less && x != y),
        (b'<', b'<') => Value { bits: shift.map_or(0, |s| x << s), unsigned: a.unsigned },
        (b'>', b'>') if a.unsigned => Value { bits: shift.map_or(0, |s| (ux >> s) as i64), unsigned: true },
        (b'>', b'>') => Value { bits: x >> shift.unwrap_or(63), unsigned: false },
        (b'|', _) => whole(x | y),
        (b'^', _) => whole(x ^ y),
        (b'&', _) => whole(x & y),
        (b'+', _) => whole(x.wrapping_add(y)),
        (b'-', _) => whole(x.wrapping_sub(y)),
        (b'*', _) => whole(x.wrapping_mul(y)),
        (b'/', _) if unsigned => whole(ux.checked_div(uy)? as i64),
        (b'%', _) if unsigned => whole(ux.checked_rem(uy)? as i64),
        (b'/', _) => whole(if y == 0 { return None } else { x.wrapping_div(y) }),
        (b'%', _) => whole(if y == 0 { return None } else { x.wrapping_rem(y) }),
        _ => return None,
    })
}
