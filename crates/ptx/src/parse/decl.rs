//! Variables: declarations, parameters.

use super::{MAX_REGS, Parsed, Parser};
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
    pub ptr: Option<(Option<Pointee>, u32)>,
    pub attributes: Vec<String>,
}

/// The types that a variable or register may have.
fn declarable(ty: ScalarType) -> bool {
    use ScalarType::*;
    matches!(ty, B8 | B16 | B32 | B64 | B128 | U8 | U16 | U32 | U64 | S8 | S16 | S32 | S64)
        || matches!(ty, F16 | F16x2 | F32 | F64 | TexRef | SamplerRef | SurfRef | Pred)
}

/// Values of fields of textures and samplers that have names.
const WORDS: [&str; 7] = ["nearest", "linear", "wrap", "mirror", "clamp_ogl", "clamp_to_edge", "clamp_to_border"];

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
            // Behind the type only the words of a pointer may follow.
            if typed && out.ptr.is_none() && &text[1..] != "ptr" {
                return Err(self.syntax());
            }
            match &text[1..] {
                // Of what a pointer points to once, and behind all else.
                "align" if out.ptr.is_some_and(|p| p.1 != 0) => return Err(self.syntax()),
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
                    self.attributes(true, &mut out.attributes)?;
                }
                "ptr" => {
                    self.bump();
                    out.ptr = Some((None, 0));
                }
                word => {
                    let Some(m) = Mod::from_name(word) else { return Err(self.syntax()) };
                    if let Some(ty) = ScalarType::from_mod(m) {
                        if let Some((to @ None, 0)) = &mut out.ptr
                            && ty.is_opaque()
                        {
                            *to = Some(Pointee::Object(ty));
                            self.bump();
                            continue;
                        }
                        if typed {
                            return Err(self.syntax());
                        }
                        if !declarable(ty) && !text.starts_with(".e") {
                            return Err(self.syntax());
                        }
                        if !declarable(ty) {
                            let message = format!("Type {text} may only be used as an instruction type");
                            return Err(self.error(span, message));
                        }
                        typed = true;
                        out.ty = ty;
                    } else if let Some(ptr) = &mut out.ptr {
                        let space = Space::from_mod(m);
                        let pointed = matches!(
                            space,
                            Some(Space::Global | Space::Const | Space::Shared | Space::Local | Space::Generic)
                        );
                        if !pointed || *ptr != (None, 0) {
                            return Err(self.syntax());
                        }
                        ptr.0 = space.map(Pointee::Memory);
                    } else {
                        out.vector = match m {
                            Mod::V2 => 2,
                            Mod::V4 => 4,
                            _ => return Err(self.syntax()),
                        };
                    }
                    self.bump();
                }
            }
        }
        if typed { Ok(out) } else { Err(self.syntax()) }
    }

    /// `(.managed, .unified(1, 2))`, behind `.attribute`; a function has no `.managed`.
    pub(super) fn attributes(&mut self, variable: bool, out: &mut Vec<String>) -> Parsed<()> {
        self.expect_p(b'(')?;
        loop {
            let start = self.tok.span.start;
            if variable && self.eat_dot("managed") {
            } else if self.eat_dot("unified") {
                self.expect_p(b'(')?;
                self.literal()?;
                self.expect_p(b',')?;
                self.literal()?;
                self.expect_p(b')')?;
            } else {
                return Err(self.syntax());
            }
            out.push(self.text(Span::new(start, self.prev_end)).into_owned());
            if !self.eat_p(b',') {
                return self.expect_p(b')');
            }
        }
    }

    /// A name that is declared: `_` and `WARP_SZ` cannot be.
    pub(super) fn new_name(&mut self) -> Parsed<(NameId, Span)> {
        if self.at(Kind::Ident) && matches!(self.bytes(self.tok.span), b"_" | b"WARP_SZ") {
            return Err(self.syntax());
        }
        self.ident()
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
                let n = self.literal()?.bits;
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
        if self.eat_p(b';') {
            return Ok(());
        }
        loop {
            let (name, span) = self.new_name()?;
            let range = self.range()?;
            let mut dims = self.dims()?;
            let mut init = None;
            let mut fields = Vec::new();
            let mut early = false;
            if self.at_p(b'=') {
                if range.is_some() {
                    return Err(self.syntax());
                }
                // Its own address may be in it.
                if matches!(self.names.meaning(name), Meaning::Nothing) {
                    early = true;
                    self.names.bind(name, Meaning::Var(VarId(self.module.vars.len() as u32)));
                }
                let at = self.bump().span;
                if linkage == Linkage::Extern {
                    let name = self.names.text(name);
                    self.error(at, format!("No initial value is allowed for external symbol '{name}'"));
                }
                if matches!(space, Space::Local | Space::Param | Space::Shared) {
                    let name = self.names.text(name);
                    self.error(at, format!("No initial value is allowed for '{name}' in this state space"));
                }
                if kin.ty.is_opaque() {
                    self.fields(kin.ty, &dims, &mut fields)?;
                } else {
                    init = Some(self.initializer(&kin, &dims)?);
                }
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
                    fields: fields.clone(),
                    scope: self.func,
                });
                if self.func.is_none()
                    && let Meaning::Var(old) = self.names.meaning(name)
                    && old != id
                {
                    self.redefined(old, id, span);
                }
                if self.func.is_none() && crate::types::SpecialReg::from_name(&self.names.text(name)).is_some() {
                    let name = self.names.text(name);
                    self.error(span, format!("Inconsistent redefinition of variable '{name}'"));
                }
                let again = match self.names.meaning(name) {
                    // An `.extern` declaration may be repeated, and may be followed by the definition.
                    Meaning::Var(old) if self.names.is_here(name) && self.func.is_none() => {
                        linkage == Linkage::Extern || self.module.vars[old.index()].linkage == Linkage::Extern
                    }
                    _ => false,
                };
                if again || early {
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

    /// A second declaration of a variable of the module, the first or this one `.extern`: they must say the same.
    fn redefined(&mut self, old: VarId, new: VarId, span: Span) {
        let (a, b) = (&self.module.vars[old.index()], &self.module.vars[new.index()]);
        if a.linkage != Linkage::Extern && b.linkage != Linkage::Extern {
            return;
        }
        let name = b.name.clone();
        let open = |v: &Variable| v.dims.first().is_some_and(Option::is_none);
        let dims = if open(a) || open(b) {
            a.dims.len() != b.dims.len() || a.dims.get(1..) != b.dims.get(1..)
        } else {
            a.dims != b.dims
        };
        let differ = (a.ty, a.vector, a.space) != (b.ty, b.vector, b.space) || dims;
        let hidden = a.linkage == Linkage::Extern && b.linkage == Linkage::Internal;
        if differ {
            self.error(span, format!("Inconsistent redefinition of variable '{name}'"));
        } else if hidden {
            self.error(span, format!("'.extern' variable '{name}' cannot be resolved by a '.static'"));
        }
    }

    /// `{ width = 4, filter_mode = linear }`: what a texture, surface or sampler is; in an array one for each.
    fn fields(&mut self, ty: ScalarType, dims: &[Option<u64>], out: &mut Vec<Vec<(String, String)>>) -> Parsed<()> {
        let span = self.tok.span;
        if !self.at_p(b'{') {
            return Err(self.fatal(span, "Initial value type mismatch"));
        }
        self.bump();
        let mut own = Vec::new();
        while !self.at_p(b'}') {
            if self.at_p(b'{') && !dims.is_empty() {
                self.nest(|p| p.fields(ty, &[], out))?;
            } else {
                let (_, at) = self.ident()?;
                let name = self.text(at).into_owned();
                self.expect_p(b'=')?;
                let value = self.tok.span;
                if self.at(Kind::Ident) {
                    self.bump();
                    if !WORDS.contains(&&*self.text(value)) {
                        let word = self.text(value).into_owned();
                        return Err(self.error(value, format!("Unrecognized initial value symbol '{word}'")));
                    }
                } else if self.float_literal().is_none() {
                    self.constant()?;
                }
                let sampling = matches!(
                    name.as_str(),
                    "filter_mode" | "addr_mode_0" | "addr_mode_1" | "addr_mode_2" | "force_unnormalized_coords"
                );
                let image = matches!(
                    name.as_str(),
                    "width"
                        | "height"
                        | "depth"
                        | "channel_data_type"
                        | "channel_order"
                        | "normalized_coords"
                        | "array_size"
                        | "num_mipmap_levels"
                        | "num_samples"
                );
                let known = match ty {
                    ScalarType::TexRef => sampling || image,
                    ScalarType::SamplerRef => sampling,
                    _ => image && name != "normalized_coords" || name == "memory_layout",
                };
                if !known {
                    let message = format!("Unrecognized field name '{name}' in opaque struct initializer");
                    return Err(self.fatal(at, message));
                }
                own.push((name, self.text(Span::new(value.start, self.prev_end)).into_owned()));
            }
            if !self.eat_p(b',') {
                break;
            }
            if self.at_p(b'}') {
                return Err(self.syntax());
            }
        }
        if dims.is_empty() || !own.is_empty() {
            out.push(own);
        }
        self.expect_p(b'}')
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
            fields: Vec::new(),
            scope: self.func,
        };
        Ok((v, name))
    }

    /// `+ n` behind a name; 0 where there is none.
    pub(super) fn offset(&mut self) -> Parsed<i64> {
        if self.eat_p(b'+') {
            return Ok(self.constant()?.bits);
        }
        Ok(0)
    }

    /// A float literal with its sign, or a sum or product of such, as the bits of both widths, the narrow ones with whether it was
    /// written so; none, and nothing consumed, where none stands.
    pub(super) fn float_literal(&mut self) -> Option<((u32, bool), u64)> {
        let first = self.one_float()?;
        if !matches!(self.tok.kind, k if [b'+', b'-', b'*', b'/'].map(p1).contains(&k)) {
            return Some(first);
        }
        // Sums of products, from left to right.
        let value = |f: ((u32, bool), u64)| f64::from_bits(f.1);
        let (mut sum, mut product) = (0.0, value(first));
        loop {
            let op = self.tok.kind;
            if ![b'+', b'-', b'*', b'/'].map(p1).contains(&op) {
                break;
            }
            let at = self.bump().span;
            let Some(next) = self.one_float() else {
                self.error(at, "Constant expression type mismatch");
                break;
            };
            match op {
                k if k == p1(b'*') => product *= value(next),
                k if k == p1(b'/') => product /= value(next),
                k => {
                    sum += product;
                    product = if k == p1(b'-') { -value(next) } else { value(next) };
                }
            }
        }
        let total = sum + product;
        Some((((total as f32).to_bits(), false), total.to_bits()))
    }

    fn one_float(&mut self) -> Option<((u32, bool), u64)> {
        let mut negative = false;
        if self.at_p(b'-') {
            let mut ahead = self.lex;
            match ahead.next().kind {
                Kind::F32 | Kind::F64 => {
                    self.bump();
                    self.syntax();
                }
                Kind::Decimal => {
                    self.bump();
                    negative = true;
                }
                _ => return None,
            }
        }
        let span = self.tok.span;
        let hex = |s: &str| u64::from_str_radix(&s[2..], 16).unwrap_or(0);
        let (single, double) = match self.tok.kind {
            Kind::F32 => {
                let bits = hex(&self.text(span)) as u32;
                ((bits, true), f64::from(f32::from_bits(bits)).to_bits())
            }
            Kind::F64 => {
                let bits = hex(&self.text(span));
                (((f64::from_bits(bits) as f32).to_bits(), false), bits)
            }
            Kind::Decimal => {
                let value: f64 = self.text(span).parse().unwrap_or(f64::INFINITY);
                if value.is_infinite() {
                    self.error(span, "Constant overflow");
                }
                (((value as f32).to_bits(), false), value.to_bits())
            }
            _ => return None,
        };
        self.bump();
        Some(if negative { ((single.0 ^ 1 << 31, single.1), double ^ 1 << 63) } else { (single, double) })
    }
}
