//! The short way through the statements that texts are full of: a known head, and operands that are registers, decimal
//! integers, hexadecimal floats, names, addresses and lists of these. It works on bytes instead of tokens.
//!
//! It takes nothing that the rules of the other files would not take, gives the same, and reports nothing: at the first
//! byte that it does not expect it gives up, and the statement is read again by those rules.

use super::{Parser, Site, heads};
use crate::isa::Op;
use crate::lex::{START, WORD, is};
use crate::module::*;
use crate::names::Meaning;
use crate::types::SpecialReg;
use diag::Span;
use thin_vec::ThinVec;

/// Where the blanks end that begin at a byte.
fn blanks(src: &[u8], mut at: usize) -> usize {
    while matches!(src.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// A decimal integer of at most 18 digits, and where it ends; none for what may be more than that.
fn integer(src: &[u8], at: usize) -> Option<(i64, usize)> {
    let mut end = at;
    let mut n = 0i64;
    while let Some(d) = src.get(end).map(|b| b.wrapping_sub(b'0')).filter(|&d| d < 10) {
        if end - at == 18 {
            return None;
        }
        n = n * 10 + i64::from(d);
        end += 1;
    }
    let octal = end - at > 1 && src[at] == b'0';
    let more = src.get(end).is_some_and(|&b| is(b, WORD) || b == b'.');
    (end > at && !octal && !more).then_some((n, end))
}

impl Parser<'_> {
    /// Reads the instruction whose opcode is at hand, if it is a plain one: then it is added, and the token behind its `;`
    /// is at hand. Otherwise nothing has happened.
    pub(super) fn quick(&mut self, guard: Option<Guard>, start: u32) -> bool {
        let word = self.tok.span.start as usize;
        let (hash, end) = heads::spelling(self.src, word);
        let Some(head) = self.heads.find(self.src, hash, word, end) else { return false };
        let (op, head) = self.heads.number(head, self.bodies, &mut self.body.code);
        // Its lists have a rule of their own.
        if op == Op::Call {
            return false;
        }
        let pending = self.body.pending.len();
        let open = self.body.open.len();
        match self.quick_operands(op, end) {
            Some((last, behind)) => {
                self.body.code.push_inst(guard, head, Span::new(start, last as u32));
                self.prev_end = behind as u32;
                self.lex.seek(behind);
                self.tok = self.lex.next();
                true
            }
            None => {
                self.body.pending.truncate(pending);
                self.body.open.truncate(open);
                self.body.code.drop_operands();
                false
            }
        }
    }

    /// Operands up to the `;`: the ends of the last of them and of that.
    fn quick_operands(&mut self, op: Op, from: usize) -> Option<(usize, usize)> {
        let src = self.src;
        let mut at = blanks(src, from);
        if src.get(at) == Some(&b';') {
            return Some((from, at + 1));
        }
        loop {
            let (operand, end) = self.quick_operand(op, at)?;
            self.body.code.push_operand(operand);
            at = blanks(src, end);
            match src.get(at)? {
                b',' => at = blanks(src, at + 1),
                b';' => return Some((end, at + 1)),
                _ => return None,
            }
        }
    }

    fn quick_operand(&mut self, op: Op, at: usize) -> Option<(Operand, usize)> {
        let src = self.src;
        match *src.get(at)? {
            b'%' => {
                if let Some((reg, end)) = self.quick_register(at) {
                    return match src.get(end)? {
                        b'.' => None,
                        b'|' => {
                            let (second, end) = self.quick_register(end + 1).filter(|s| src.get(s.1) != Some(&b'.'))?;
                            let operand = |reg| Operand::Reg { reg, elem: None };
                            Some((Operand::Pair(Box::new((operand(reg), operand(second)))), end))
                        }
                        _ => Some((Operand::Reg { reg, elem: None }, end)),
                    };
                }
                self.quick_name(at)
            }
            b'[' => {
                let (base, mut end) = match self.quick_register(at + 1) {
                    Some((reg, end)) => (AddressBase::Reg(reg), end),
                    None => match self.quick_name(at + 1)? {
                        (Operand::Reg { reg, elem: None }, end) => (AddressBase::Reg(reg), end),
                        (Operand::Var { var, .. }, end) => (AddressBase::Var(var), end),
                        _ => return None,
                    },
                };
                let mut offset = 0;
                if src.get(end) == Some(&b'+') {
                    let negative = src.get(end + 1) == Some(&b'-');
                    let (n, after) = integer(src, end + 1 + usize::from(negative))?;
                    (offset, end) = (if negative { -n } else { n }, after);
                }
                let whole = src.get(end) == Some(&b']');
                Some((Operand::Mem(Address::new(base, offset).filter(|_| whole)?), end + 1))
            }
            b'{' => {
                let mut parts = ThinVec::new();
                let mut at = blanks(src, at + 1);
                loop {
                    let (reg, end) = self.quick_register(at)?;
                    parts.push(Operand::Reg { reg, elem: None });
                    at = blanks(src, end);
                    match src.get(at)? {
                        b',' => at = blanks(src, at + 1),
                        b'}' => break,
                        _ => return None,
                    }
                }
                // `{ %r1 }` of a load or store is `%r1`.
                if parts.len() == 1 && matches!(op, Op::Ld | Op::St | Op::Ldu) {
                    return None;
                }
                Some((Operand::Vector(parts), at + 1))
            }
            b'-' => integer(src, at + 1).map(|(n, end)| (Operand::Int(-n), end)),
            b'0' if matches!(src.get(at + 1), Some(b'f' | b'F')) => {
                bits(src, at + 2, 8).map(|bits| (Operand::F32(bits as u32), at + 10))
            }
            b'0' if matches!(src.get(at + 1), Some(b'd' | b'D')) => {
                bits(src, at + 2, 16).map(|bits| (Operand::F64(bits), at + 18))
            }
            b'0'..=b'9' => integer(src, at).map(|(n, end)| (Operand::Int(n), end)),
            _ => match self.quick_register(at) {
                Some((reg, end)) if !matches!(src.get(end), Some(b'.' | b'|')) => {
                    Some((Operand::Reg { reg, elem: None }, end))
                }
                Some(_) => None,
                None => self.quick_name(at),
            },
        }
    }

    /// The register of a range whose name begins at a byte, and where it ends.
    #[inline]
    fn quick_register(&mut self, at: usize) -> Option<(RegId, usize)> {
        let rest = self.src.get(at..)?;
        let mut base = 0u64;
        let mut len = 0;
        let mut bytes = rest.iter();
        let mut next = *bytes.next()?;
        if !is(next, START) {
            return None;
        }
        while is(next, WORD) && !next.is_ascii_digit() || len == 0 {
            base = base << 8 | u64::from(next);
            len += 1;
            next = *bytes.next()?;
        }
        let first = next;
        let mut number = 0u32;
        let mut digits = 0;
        while next.is_ascii_digit() {
            number = number.wrapping_mul(10).wrapping_add(u32::from(next - b'0'));
            digits += 1;
            next = *bytes.next()?;
        }
        if len > 8 || digits == 0 || digits > 9 || digits > 1 && first == b'0' || is(next, WORD) {
            return None;
        }
        self.names.in_range(base, number).map(|reg| (reg, at + len + digits))
    }

    /// The operand that is a name which begins at a byte, with nothing behind it that belongs to it, and where it ends.
    fn quick_name(&mut self, at: usize) -> Option<(Operand, usize)> {
        let src = self.src;
        let first = *src.get(at)?;
        let mut end = at + 1 + src[at + 1..].iter().position(|&b| !is(b, WORD))?;
        if !is(first, START) || end == at + 1 && matches!(first, b'%' | b'$' | b'_') {
            return None;
        }
        let dotted = src.get(end) == Some(&b'.');
        let name = &src[at..end];
        let id = self.names.intern(name);
        let operand = match self.names.meaning(id) {
            Meaning::Reg(reg) if !dotted => Operand::Reg { reg, elem: None },
            Meaning::Var(var) if !dotted => Operand::Var { var, offset: 0 },
            Meaning::Label(label) => Operand::Label(label),
            Meaning::Nothing if first == b'%' => {
                if dotted {
                    end += 1 + src[end + 1..].iter().position(|&b| !is(b, WORD))?;
                }
                let special = SpecialReg::from_name(std::str::from_utf8(&src[at..end]).ok()?)?;
                // More of a token than a name has.
                if matches!(src.get(end), Some(b':' | b'.')) {
                    return None;
                }
                Operand::Special(special)
            }
            Meaning::Nothing if !dotted && name != b"WARP_SZ" && matches!(src.get(end), Some(b';' | b',')) => {
                let span = Span::new(at as u32, end as u32);
                Operand::Label(self.pend(id, span, Site::Stmt(self.body.code.stmts.len() as u32)))
            }
            _ => return None,
        };
        // `x+4`, `x[2]`, `p|q`.
        matches!(src.get(end), Some(b' ' | b'\t' | b',' | b';' | b']' | b'+' | b'\n' | b'\r')).then_some((operand, end))
    }
}

/// A number of so many hexadecimal digits, with no name behind it.
fn bits(src: &[u8], at: usize, digits: usize) -> Option<u64> {
    let mut bits = 0;
    for &b in src.get(at..at + digits)? {
        bits = bits << 4 | u64::from((b as char).to_digit(16)?);
    }
    src.get(at + digits).is_none_or(|&b| !is(b, WORD)).then_some(bits)
}
