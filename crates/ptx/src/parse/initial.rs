//! What variables begin as: the values behind `=`.

use super::decl::Kindred;
use super::{MAX_PADDING, Parsed, Parser};
use crate::lex::{Kind, p1};
use crate::module::*;
use crate::names::Meaning;
use crate::types::{ScalarType, Space};
use diag::Span;

impl Parser<'_> {
    /// What stands behind `=`: flattened, inner braces padded with zeros.
    pub(super) fn initializer(&mut self, kin: &Kindred, dims: &[Option<u64>]) -> Parsed<Vec<InitValue>> {
        let mut out = Vec::new();
        let span = self.tok.span;
        // Elements of one row per brace level below the outermost.
        let mut rows: Vec<u64> = Vec::new();
        let mut row = kin.vector as u64;
        for d in dims.iter().rev() {
            rows.push(row);
            row = row.saturating_mul(d.unwrap_or(1));
        }
        rows.reverse();
        if dims.is_empty() && kin.vector > 1 {
            rows.push(1);
        }
        if kin.vector > 1 && !dims.is_empty() {
            rows.push(1);
        }
        if self.at_p(b'{') {
            if rows.is_empty() {
                return Err(self.fatal(span, "Initial value type mismatch"));
            }
            self.braces(kin.ty, kin.vector, &rows, 0, &mut out)?;
        } else {
            if !dims.is_empty() || kin.vector > 1 {
                return Err(self.fatal(span, "Initial value type mismatch"));
            }
            out.push(self.init_value(kin.ty)?);
        }
        let limit = dims.iter().fold(kin.vector as u64, |n, d| n.saturating_mul(d.unwrap_or(u64::MAX)));
        if out.len() as u64 > limit {
            return Err(self.fatal(span, "Greater number of elements in array initializer"));
        }
        Ok(out)
    }

    fn braces(
        &mut self,
        ty: ScalarType,
        vector_size: u8,
        rows: &[u64],
        level: usize,
        out: &mut Vec<InitValue>,
    ) -> Parsed<()> {
        let first = self.tok.span;
        self.expect_p(b'{')?;
        // Elements of a vector are all there, rows may be shorter.
        let vector = vector_size > 1 && level + 1 == rows.len();
        let begin = out.len() as u64;
        while !self.at_p(b'}') {
            if self.at_p(b'{') {
                if level + 1 >= rows.len() {
                    let message = if vector {
                        "Incorrect number of elements in vector initializer"
                    } else {
                        "Initial value type mismatch"
                    };
                    return Err(self.fatal(first, message));
                }
                let start = out.len() as u64;
                self.nest(|p| p.braces(ty, vector_size, rows, level + 1, out))?;
                let row = rows.get(level).copied().unwrap_or(1);
                let missing = row.saturating_sub(out.len() as u64 - start);
                self.padding = self.padding.saturating_add(missing);
                if self.padding > MAX_PADDING {
                    let span = self.tok.span;
                    return Err(self.error(span, "Initializers that leave out millions of elements are not supported"));
                }
                out.extend((0..missing).map(|_| InitValue::Bits(0)));
            } else {
                if level + 1 < rows.len() {
                    // A row is in braces of its own.
                    return Err(self.fatal(first, "Initial value type mismatch"));
                }
                self.plain_numbers(ty, out);
                out.push(self.init_value(ty)?);
            }
            if !self.eat_p(b',') {
                break;
            }
            if self.at_p(b'}') {
                return Err(self.syntax());
            }
        }
        if vector && out.len() as u64 - begin != u64::from(vector_size) {
            return Err(self.fatal(first, "Incorrect number of elements in vector initializer"));
        }
        self.expect_p(b'}')
    }

    /// Values of a list that are decimal numbers as they mostly are, up to one that is something else, or the last: tables of 100,000 of them
    /// stand in programs that throw dice.
    fn plain_numbers(&mut self, ty: ScalarType, out: &mut Vec<InitValue>) {
        /// Digits that have room in 64 bits.
        const MOST: usize = 18;
        if ty.is_float() || ty.bits() == 0 {
            return;
        }
        let blanks = |mut at: usize| {
            while self.src.get(at).is_some_and(u8::is_ascii_whitespace) {
                at += 1;
            }
            at
        };
        let mask = u64::MAX >> 64u32.saturating_sub(ty.bits());
        let begin = self.tok.span.start as usize;
        let mut at = begin;
        loop {
            let digits = self.src[at..].iter().take(MOST + 1).take_while(|b| b.is_ascii_digit()).count();
            let number = &self.src[at..at + digits];
            // Other bases begin with a zero.
            if !(1..=MOST).contains(&digits) || digits > 1 && number[0] == b'0' {
                break;
            }
            let comma = blanks(at + digits);
            if self.src.get(comma) != Some(&b',') {
                break;
            }
            let next = blanks(comma + 1);
            if !self.src.get(next).is_some_and(u8::is_ascii_digit) {
                break;
            }
            let value = number.iter().fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0'));
            out.push(InitValue::Bits(value & mask));
            at = next;
        }
        if at > begin {
            self.lex.seek(at);
            self.tok = self.lex.next();
        }
    }

    fn init_value(&mut self, ty: ScalarType) -> Parsed<InitValue> {
        if self.at(Kind::Ident) && self.bytes(self.tok.span) != b"WARP_SZ" {
            let span = self.tok.span;
            let value = self.init_address(None)?;
            if !matches!(ty, ScalarType::U32 | ScalarType::U64) {
                return Err(self.misfit(span));
            }
            return Ok(value);
        }
        if ty == ScalarType::F16 && !self.at(Kind::Ident) {
            let at = self.tok.span;
            return Err(self.fatal(at, "No initial value is allowed for .f16 type"));
        }
        let span = self.tok.span;
        if let Some((single, double)) = self.float_literal() {
            let written = if single.1 { u64::from(single.0) } else { double };
            let bits = match ty {
                ScalarType::F32 | ScalarType::B32 => u64::from(single.0),
                // Its bits as they are written, as many as there is room for.
                ScalarType::F64 | ScalarType::B64 | ScalarType::B128 => written,
                ScalarType::B16 => written & 0xffff,
                ScalarType::B8 => written & 0xff,
                _ => {
                    return Err(self.misfit(span));
                }
            };
            return Ok(InitValue::Bits(bits));
        }
        let span = self.tok.span;
        let value = self.constant()?;
        if self.at_p(b'(') {
            self.bump();
            let mask = value.bits as u64;
            let byte = mask != 0 && mask >> (mask.trailing_zeros() & !7) == 0xff;
            if ty.bits() != 8 {
                return Err(self.fatal(span, "Initial value type mismatch"));
            }
            if !byte {
                return Err(self.error(span, format!("Invalid mask value '{mask:#x}' used in initializer")));
            }
            let v = self.init_address(Some(mask))?;
            self.expect_p(b')')?;
            return Ok(v);
        }
        if ty.is_float() {
            return Err(self.misfit(span));
        }
        let bits = ty.bits().min(64);
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        Ok(InitValue::Bits(value.bits as u64 & mask))
    }

    /// A value of another type than the variable's; what follows must be right even so.
    fn misfit(&mut self, span: Span) -> super::Stop {
        if [b',', b';', b'}'].map(p1).contains(&self.tok.kind) {
            self.fatal(span, "Initial value type mismatch")
        } else {
            self.syntax()
        }
    }

    /// `x`, `x + 4`, `generic(x)`, `generic(x) + 4`, a function.
    fn init_address(&mut self, mask: Option<u64>) -> Parsed<InitValue> {
        let generic = self.at(Kind::Ident) && self.bytes(self.tok.span) == b"generic";
        if generic {
            self.bump();
            self.expect_p(b'(')?;
        }
        let (name, span) = self.ident()?;
        if generic {
            self.expect_p(b')')?;
        }
        let offset = self.offset()?;
        match self.names.meaning(name) {
            Meaning::Var(var) => {
                let space = self.module.vars.get(var.index()).map_or(Space::Global, |v| v.space);
                if !matches!(space, Space::Global | Space::Const) {
                    let message = "Variable used as initial value not in .global or .const state space";
                    return Err(self.fatal(span, message));
                }
                Ok(InitValue::Var { var, offset, generic, mask })
            }
            Meaning::Func(_) if offset != 0 => Err(self.fatal(span, "Initial value type mismatch")),
            Meaning::Func(_) if generic => Err(self.fatal(span, "Invalid initial value expression")),
            Meaning::Func(f) => Ok(mask.map_or(InitValue::Func(f), |mask| InitValue::FuncByte(f, mask))),
            Meaning::Nothing => {
                let message = format!("Invalid initial value symbol '{}'", self.names.text(name));
                Err(self.fatal(span, message))
            }
            _ => Err(self.syntax()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::module::InitValue;

    /// What the variable of a module of this line begins as, or the first message.
    fn values(line: &str) -> Result<Vec<InitValue>, String> {
        let text = format!(".version 8.0\n.target sm_90\n.address_size 64\n{line}\n");
        let (m, d) = crate::parse(&text);
        match d.first() {
            Some(d) => Err(d.message.clone()),
            None => Ok(m.vars[0].init.clone().unwrap_or_default()),
        }
    }

    #[test]
    fn tables_of_plain_numbers_are_what_expressions_are() {
        let bits = |list: &[u64]| Ok(list.iter().copied().map(InitValue::Bits).collect::<Vec<_>>());
        let bytes = ".global .b8 t[9] = {1, 012, 0x3 ,300,\n5U,\t-1, (7), 8 /* one */, 9};";
        assert_eq!(values(bytes), bits(&[1, 10, 3, 44, 5, 255, 7, 8, 9]));
        assert_eq!(values(".global .u16 t[4] = {65535, 65536, 1 + 1, 2};"), bits(&[65535, 0, 2, 2]));
        let long = ".global .u64 t[3] = {999999999999999999, 18446744073709551615, 1};";
        assert_eq!(values(long), bits(&[999_999_999_999_999_999, u64::MAX, 1]));
        assert_eq!(values(".global .b8 t[2][2] = {{1, 2}, {3, 4}};"), bits(&[1, 2, 3, 4]));
        for wrong in ["{1, 2, }", "{1, , 2}", "{1 2}", "{1, 2", "{1, 2;"] {
            assert!(values(&format!(".global .b8 t[2] = {wrong};")).is_err(), "{wrong}");
        }
    }
}
