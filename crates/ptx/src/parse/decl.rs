//! Variables: declarations, parameters, initialisers.

use super::{MAX_PADDING, MAX_REGS, Parsed, Parser};
use crate::isa::Mod;
use crate::lex::{Kind, p1};
use crate::module::*;
use crate::names::{Meaning, NameId};
use crate::types::{ScalarType, Space};
use diag::Span;

/// What stands before the name of a variable.
#[derive(Clone)]
pub(super) struct Kindred {
    pub align: Option<u32>,
    pub ty: ScalarType,
    pub vector: u8,
    pub ptr: Option<(Option<Space>, u32)>,
    pub attributes: Vec<String>,
}

/// The types that a variable or register may have.
fn declarable(ty: ScalarType) -> bool {
    use ScalarType::*;
    matches!(ty, B8 | B16 | B32 | B64 | B128 | U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64)
        || matches!(ty, F16 | F16x2 | F32 | F64 | TexRef | SamplerRef | SurfRef | Pred)
}

impl Parser<'_> {
    /// The state space that the directive at hand declares variables in.
    pub(super) fn declared_space(&self) -> Option<Space> {
        if !self.at(Kind::Dot) {
            return None;
        }
        Some(match &self.bytes(self.tok.span)[1..] {
            b"global" => Space::Global,
            b"shared" => Space::Shared,
            b"const" => Space::Const,
            b"local" => Space::Local,
            b"param" => Space::Param,
            b"reg" => Space::Reg,
            b"tex" => Space::Tex,
            _ => return None,
        })
    }

    /// `.align n .attribute(...) .v4 .f32 .ptr .global .align n`, in any order that makes sense.
    pub(super) fn kindred(&mut self) -> Parsed<Kindred> {
        let mut out = Kindred { align: None, ty: ScalarType::B32, vector: 1, ptr: None, attributes: Vec::new() };
        let mut typed = false;
        while self.at(Kind::Dot) {
            let span = self.tok.span;
            let text = self.text(span);
            match &text[1..] {
                "align" => {
                    self.bump();
                    let at = self.tok.span;
                    let n = self.number()?;
                    if !n.is_power_of_two() || n > 1 << 28 {
                        return Err(self.error(at, "Alignment must be a power of two"));
                    }
                    match &mut out.ptr {
                        Some(p) => p.1 = n,
                        None => out.align = Some(n),
                    }
                }
                "attribute" => {
                    self.bump();
                    self.expect_p(b'(')?;
                    let start = self.tok.span.start;
                    let mut depth = 1;
                    while depth > 0 {
                        match self.tok.kind {
                            k if k == p1(b'(') => depth += 1,
                            k if k == p1(b')') => depth -= 1,
                            Kind::Eof | Kind::Bad => return Err(self.syntax()),
                            _ => {}
                        }
                        if depth > 0 {
                            self.bump();
                        }
                    }
                    out.attributes.push(self.text(Span::new(start, self.prev_end.max(start))).into_owned());
                    self.bump();
                }
                "ptr" => {
                    self.bump();
                    out.ptr = Some((None, 0));
                }
                word => {
                    let Some(m) = Mod::from_name(word) else { return Err(self.syntax()) };
                    if let Some(ty) = ScalarType::from_mod(m) {
                        if typed {
                            return Err(self.syntax());
                        }
                        if !declarable(ty) {
                            return Err(self.syntax());
                        }
                        typed = true;
                        out.ty = ty;
                    } else if let (Some(ptr), Some(space)) = (&mut out.ptr, Space::from_mod(m)) {
                        ptr.0 = Some(space);
                    } else {
                        out.vector = match m {
                            Mod::V2 => 2,
                            Mod::V4 => 4,
                            Mod::V8 => 8,
                            _ => return Err(self.syntax()),
                        };
                    }
                    self.bump();
                }
            }
        }
        if typed { Ok(out) } else { Err(self.syntax()) }
    }

    /// `[4][]...` after a name.
    fn dims(&mut self) -> Parsed<Vec<Option<u64>>> {
        let mut dims = Vec::new();
        while self.eat_p(b'[') {
            if self.at_p(b']') {
                if !dims.is_empty() {
                    return Err(self.syntax());
                }
                dims.push(None);
            } else {
                let span = self.tok.span;
                if self.at_p(b'-') {
                    return Err(self.syntax());
                }
                let n = self.constant()?.bits;
                if n < 0 {
                    return Err(self.error(span, "Array size must not be negative"));
                }
                dims.push(Some(n as u64));
            }
            self.expect_p(b']')?;
        }
        Ok(dims)
    }

    /// Makes a variable and gives its name a meaning.
    pub(super) fn new_var(&mut self, v: Variable) -> VarId {
        let id = VarId(self.module.vars.len() as u32);
        self.module.vars.push(v);
        id
    }

    pub(super) fn duplicate(&mut self, what: &str, name: NameId, span: Span) {
        let message = format!("Duplicate definition of {what} '{}'", self.names.text(name));
        self.error(span, message);
    }

    pub(super) fn bind_new(&mut self, what: &str, name: NameId, span: Span, meaning: Meaning) {
        if self.names.is_here(name) {
            self.duplicate(what, name, span);
        } else {
            self.names.bind(name, meaning);
        }
    }

    /// The number of a `name<n>` declaration; none where there is none.
    pub(super) fn range(&mut self) -> Parsed<Option<u32>> {
        if !self.eat_p(b'<') {
            return Ok(None);
        }
        let span = self.tok.span;
        let n = self.number()?;
        self.expect_p(b'>')?;
        if u64::from(n) > MAX_REGS {
            return Err(self.error(span, format!("More than {MAX_REGS} names of one declaration are not supported")));
        }
        Ok(Some(n))
    }

    /// Variables of one declaration, behind its space; gives the ids to `out`.
    pub(super) fn variables(&mut self, space: Space, linkage: Linkage, out: &mut Vec<VarId>) -> Parsed<()> {
        let kin = self.kindred()?;
        loop {
            let (name, span) = self.ident()?;
            let range = self.range()?;
            let mut dims = self.dims()?;
            let mut init = None;
            if self.at_p(b'=') {
                let at = self.bump().span;
                if matches!(space, Space::Local | Space::Param | Space::Shared) {
                    let name = self.names.text(name);
                    self.error(at, format!("No initial value is allowed for '{name}' in this state space"));
                }
                init = Some(self.initializer(&kin, &dims)?);
            }
            if let (Some(values), Some(first @ None)) = (&init, dims.first_mut()) {
                let row = kin.vector as u64;
                *first = Some((values.len() as u64).div_ceil(row.max(1)));
            }
            let names = match range {
                None => vec![(self.names.text(name), name)],
                Some(n) => {
                    let base = self.names.text(name);
                    (0..n).map(|i| format!("{base}{i}")).map(|s| (s.clone(), self.names.intern(s.as_bytes()))).collect()
                }
            };
            for (text, name) in names {
                let id = self.new_var(Variable {
                    name: text,
                    span,
                    space,
                    linkage,
                    align: kin.align.unwrap_or(kin.ty.bytes() * kin.vector as u32),
                    align_written: kin.align.is_some(),
                    ty: kin.ty,
                    vector: kin.vector,
                    dims: dims.clone(),
                    init: init.clone(),
                    ptr: kin.ptr,
                    attributes: kin.attributes.clone(),
                    scope: self.func,
                });
                let again = match self.names.meaning(name) {
                    // An `.extern` declaration may be repeated, and may be followed by the definition.
                    Meaning::Var(old) if self.names.is_here(name) && self.func.is_none() => {
                        linkage == Linkage::Extern || self.module.vars[old.index()].linkage == Linkage::Extern
                    }
                    _ => false,
                };
                if again {
                    self.names.bind(name, Meaning::Var(id));
                } else {
                    self.bind_new("variable", name, span, Meaning::Var(id));
                }
                out.push(id);
            }
            if !self.eat_p(b',') {
                break;
            }
        }
        self.expect_p(b';')
    }

    /// One parameter: `.param .u64 x`, `.reg .u32 a`.
    pub(super) fn parameter(&mut self) -> Parsed<(Variable, NameId)> {
        let Some(space @ (Space::Param | Space::Reg)) = self.declared_space() else { return Err(self.syntax()) };
        self.bump();
        let kin = self.kindred()?;
        let (name, span) = self.ident()?;
        let dims = self.dims()?;
        let v = Variable {
            name: self.names.text(name),
            span,
            space,
            linkage: Linkage::Internal,
            align: kin.align.unwrap_or(kin.ty.bytes() * kin.vector as u32),
            align_written: kin.align.is_some(),
            ty: kin.ty,
            vector: kin.vector,
            dims,
            init: None,
            ptr: kin.ptr,
            attributes: kin.attributes,
            scope: self.func,
        };
        Ok((v, name))
    }

    /// What stands behind `=`: flattened, inner braces padded with zeros.
    fn initializer(&mut self, kin: &Kindred, dims: &[Option<u64>]) -> Parsed<Vec<InitValue>> {
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
            self.braces(kin.ty, &rows, 0, &mut out)?;
        } else {
            out.push(self.init_value(kin.ty)?);
        }
        let limit = dims.iter().fold(kin.vector as u64, |n, d| n.saturating_mul(d.unwrap_or(u64::MAX)));
        if out.len() as u64 > limit {
            return Err(self.fatal(span, "Greater number of elements in array initializer"));
        }
        Ok(out)
    }

    fn braces(&mut self, ty: ScalarType, rows: &[u64], level: usize, out: &mut Vec<InitValue>) -> Parsed<()> {
        self.expect_p(b'{')?;
        while !self.at_p(b'}') {
            if self.at_p(b'{') {
                let start = out.len() as u64;
                self.nest(|p| p.braces(ty, rows, level + 1, out))?;
                let row = rows.get(level).copied().unwrap_or(1);
                let missing = row.saturating_sub(out.len() as u64 - start);
                self.padding = self.padding.saturating_add(missing);
                if self.padding > MAX_PADDING {
                    let span = self.tok.span;
                    return Err(self.error(span, "Initializers that leave out millions of elements are not supported"));
                }
                out.extend((0..missing).map(|_| InitValue::Bits(0)));
            } else {
                out.push(self.init_value(ty)?);
            }
            if !self.eat_p(b',') {
                break;
            }
        }
        self.expect_p(b'}')
    }

    fn init_value(&mut self, ty: ScalarType) -> Parsed<InitValue> {
        if self.at(Kind::Ident) && self.bytes(self.tok.span) != b"WARP_SZ" {
            return self.init_address(None);
        }
        if let Some((single, double)) = self.float_literal() {
            let bits = match ty {
                ScalarType::F64 => double,
                ScalarType::F32 | ScalarType::B32 => u64::from(single),
                ScalarType::B64 => double,
                _ => {
                    let span = self.tok.span;
                    return Err(self.fatal(span, "Initial value type mismatch"));
                }
            };
            return Ok(InitValue::Bits(bits));
        }
        let span = self.tok.span;
        let value = self.constant()?;
        if self.at_p(b'(') {
            self.bump();
            let v = self.init_address(Some(value.bits as u64))?;
            self.expect_p(b')')?;
            return Ok(v);
        }
        if ty.is_float() {
            return Err(self.fatal(span, "Initial value type mismatch"));
        }
        let bits = ty.bits().min(64);
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        Ok(InitValue::Bits(value.bits as u64 & mask))
    }

    /// `x`, `x + 4`, `generic(x)`, `generic(x) + 4`, a function.
    fn init_address(&mut self, mask: Option<u64>) -> Parsed<InitValue> {
        let generic = self.at(Kind::Ident) && self.bytes(self.tok.span) == b"generic";
        if generic {
            self.bump();
            self.expect_p(b'(')?;
        }
        let (name, span) = self.ident()?;
        let mut offset = self.offset()?;
        if generic {
            self.expect_p(b')')?;
            offset = offset.wrapping_add(self.offset()?);
        }
        match self.names.meaning(name) {
            Meaning::Var(var) => Ok(InitValue::Var { var, offset, generic, mask }),
            Meaning::Func(f) if mask.is_none() && offset == 0 => Ok(InitValue::Func(f)),
            Meaning::Nothing => {
                let message = format!("Invalid initial value symbol '{}'", self.names.text(name));
                Err(self.fatal(span, message))
            }
            _ => Err(self.syntax()),
        }
    }

    /// `+ n` or `- n` behind a name; 0 where there is none.
    pub(super) fn offset(&mut self) -> Parsed<i64> {
        if self.eat_p(b'+') {
            return Ok(self.constant()?.bits);
        }
        if self.eat_p(b'-') {
            return Ok(self.constant()?.bits.wrapping_neg());
        }
        Ok(0)
    }

    /// A float literal with its sign, as the bits of both widths; none, and nothing consumed, where none stands.
    pub(super) fn float_literal(&mut self) -> Option<(u32, u64)> {
        let mut negative = false;
        if self.at_p(b'-') {
            let mut ahead = self.lex;
            if !matches!(ahead.next().kind, Kind::F32 | Kind::F64 | Kind::Decimal) {
                return None;
            }
            self.bump();
            negative = true;
        }
        let span = self.tok.span;
        let hex = |s: &str| u64::from_str_radix(&s[2..], 16).unwrap_or(0);
        let (single, double) = match self.tok.kind {
            Kind::F32 => {
                let bits = hex(&self.text(span)) as u32;
                (bits, f64::from(f32::from_bits(bits)).to_bits())
            }
            Kind::F64 => {
                let bits = hex(&self.text(span));
                ((f64::from_bits(bits) as f32).to_bits(), bits)
            }
            Kind::Decimal => {
                let value: f64 = self.text(span).parse().unwrap_or(f64::INFINITY);
                ((value as f32).to_bits(), value.to_bits())
            }
            _ => return None,
        };
        self.bump();
        Some(if negative { (single ^ 1 << 31, double ^ 1 << 63) } else { (single, double) })
    }
}
