//! Statements of a body.

use super::{MAX_ERRORS, Parsed, Parser, Pending, Site, Stop};
use crate::isa::{Mod, Op};
use crate::lex::Kind;
use crate::module::*;
use crate::names::Meaning;
use crate::types::{ScalarType, Space};
use diag::{Diagnostic, Span};
use smallvec::SmallVec;
use thin_vec::ThinVec;

impl Parser<'_> {
    /// One statement that is no brace.
    pub(super) fn statement(&mut self) -> Parsed<()> {
        match self.tok.kind {
            Kind::Dot => {
                if self.at_dot("loc") && self.quick() {
                    return Ok(());
                }
                self.directive()
            }
            Kind::Ident => {
                if self.quick() {
                    return Ok(());
                }
                let word = self.bump().span;
                if self.at_p(b':') {
                    self.bump();
                    return self.label(word);
                }
                self.instruction(word, None, word.start)
            }
            _ if self.at_p(b'@') => {
                if self.quick() {
                    return Ok(());
                }
                let start = self.bump().span.start;
                let negated = self.eat_p(b'!');
                let (name, span) = self.ident()?;
                let guard = match self.names.meaning(name) {
                    Meaning::Reg(reg) if self.body.regs[reg.index()].ty == ScalarType::Pred => Guard { reg, negated },
                    Meaning::Nothing => return Err(self.unknown(name, span)),
                    _ => return Err(self.error(span, "Predicate expression expected")),
                };
                if !self.at(Kind::Ident) {
                    return Err(self.syntax());
                }
                let word = self.bump().span;
                self.instruction(word, Some(guard), start)
            }
            _ => Err(self.syntax()),
        }
    }

    fn label(&mut self, span: Span) -> Parsed<()> {
        if self.at_dot("branchtargets") || self.at_dot("calltargets") || self.at_dot("callprototype") {
            let name = self.names.intern(self.bytes(span));
            return self.table(name, span);
        }
        self.new_label(span);
        Ok(())
    }

    /// Adds the label whose name stands at a place.
    pub(super) fn new_label(&mut self, span: Span) {
        let name = self.names.intern(self.bytes(span));
        let id = LabelId(self.body.labels.len() as u32);
        self.body.labels.push(Label { name: self.names.text(name), span });
        self.body.code.push_stmt(Stmt::Label(id));
        self.bind_new("label", name, span, Meaning::Label(id));
    }

    fn directive(&mut self) -> Parsed<()> {
        if let Some(space) = self.declared_space() {
            self.bump();
            if space == Space::Reg {
                return self.registers();
            }
            let mut ids = Vec::new();
            let done = self.variables(space, Linkage::Internal, &mut ids);
            ids.into_iter().for_each(|id| self.body.code.push_stmt(Stmt::Var(id)));
            return done;
        }
        if self.eat_dot("loc") {
            return self.loc();
        }
        let at = self.tok.span;
        if self.eat_dot("pragma") {
            let words = self.pragma()?;
            self.body.code.push_pragma(words, at);
            return Ok(());
        }
        Err(self.syntax())
    }

    fn loc(&mut self) -> Parsed<()> {
        let file = self.number()?;
        let line = self.number()?;
        let column = self.number()?;
        let mut inlined = None;
        if self.eat_p(b',') {
            if self.bytes(self.tok.span) != b"function_name" {
                return Err(self.syntax());
            }
            self.bump();
            let (name, _) = self.ident()?;
            let offset = self.offset()?;
            self.expect_p(b',')?;
            if self.bytes(self.tok.span) != b"inlined_at" {
                return Err(self.syntax());
            }
            self.bump();
            let place = self.tok.span;
            let at = (self.number()?, self.number()?, self.number()?);
            if !self.places.contains(&at) {
                let (a, b, c) = at;
                let message = format!(
                    "Source location {a} {b} {c} used in inlined_at directive must be used in a preceding .loc directive"
                );
                self.error(place, message);
            }
            inlined = Some(Box::new(Inlined { function: self.names.text(name), offset, at }));
        }
        self.places.insert((file, line, column));
        self.body.code.push_loc(Loc { file, line, column, inlined });
        Ok(())
    }

    fn instruction(&mut self, word: Span, guard: Option<Guard>, start: u32) -> Parsed<()> {
        let head = self.head(word)?;
        let site = Site::Inst(InstId(self.body.code.count() as u32));
        self.body.sums.clear();
        let done = self.operands(head.map(|h| h.0), site);
        let span = Span::new(start, self.prev_end);
        let done = done.and_then(|()| self.expect_p(b';'));
        match (head, &done) {
            (Some((_, head)), Ok(())) => {
                if !self.body.sums.is_empty() {
                    self.push_sums(head, site, span)?;
                }
                self.body.code.push_inst(guard, head, span);
            }
            _ => self.body.code.drop_operands(),
        }
        done
    }

    /// `+ n` behind a source register: the vendor's tool (13.5) adds the number, in every version.
    #[cold]
    fn sum(&mut self, operand: Operand) -> Parsed<()> {
        let Operand::Reg { reg, elem: None } = operand else { return Err(self.syntax()) };
        if self.body.regs[reg.index()].vector > 1 || self.body.regs[reg.index()].ty == ScalarType::Pred {
            return Err(self.syntax());
        }
        let n = self.body.code.new_operands().len();
        let number = self.offset()?;
        self.body.sums.push((n, reg, number));
        Ok(())
    }

    /// Additions ahead of the instruction whose operands are sums, into registers of their own: modulo the width of the register, which
    /// is at least that of the instruction.
    #[cold]
    fn push_sums(&mut self, head: u32, site: Site, span: Span) -> Parsed<()> {
        let mut operands: Vec<Operand> = self.body.code.new_operands().to_vec();
        self.body.code.drop_operands();
        let mut types = self.heads.mods(head).iter().filter_map(|&m| ScalarType::from_mod(m));
        let (op, float) = (self.heads.op(head), types.next_back().is_some_and(|t| t.is_float()));
        let sums = std::mem::take(&mut self.body.sums);
        for &(n, reg, number) in &sums {
            if n == 0 {
                return Err(self.error(span, format!("Result register required for instruction '{}'", op.name())));
            }
            let ty = self.body.regs[reg.index()].ty;
            let add = match ty.bits() {
                16 => Mod::U16,
                32 => Mod::U32,
                64 => Mod::U64,
                _ => Mod::Pred,
            };
            if float || ty.is_float() || ty.is_packed() || add == Mod::Pred {
                return Err(self.error(span, "sums of registers and constants other than integers are not supported"));
            }
            let result = RegId(self.body.regs.len() as u32);
            let name = format!("%__sum{}", result.0);
            let id = self.names.intern(name.as_bytes());
            self.body.register(name, ty, 1);
            self.bind_new("variable", id, span, Meaning::Reg(result));
            self.body.code.push_regs(Regs { first: result, count: 1, range: None });
            for operand in [result, reg].map(|reg| Operand::Reg { reg, elem: None }) {
                self.body.code.push_operand(operand);
            }
            self.body.code.push_operand(Operand::Int(number));
            let add = self.heads.head(Op::Add, SmallVec::from_slice(&[add]));
            self.body.code.push_inst(None, add, span);
            operands[n] = Operand::Reg { reg: result, elem: None };
        }
        // Labels of the instruction that are not known yet belong to a later number now.
        if let Site::Inst(old) = site {
            let new = InstId(self.body.code.count() as u32);
            // They are the last.
            let own = |p: &&mut Pending| matches!(p.site, Site::Inst(at) if at == old);
            self.body.pending.iter_mut().rev().take_while(own).for_each(|p| p.site = Site::Inst(new));
        }
        operands.into_iter().for_each(|o| self.body.code.push_operand(o));
        Ok(())
    }

    /// What stands before the operands: the opcode and the number of it with its modifiers; none after an unknown modifier.
    fn head(&mut self, word: Span) -> Parsed<Option<(Op, u32)>> {
        let end = self.lex.end_of_head(word.end);
        let name = std::str::from_utf8(self.bytes(word)).unwrap_or("");
        let Some(op) = Op::from_name(name) else {
            // A name alone is a syntax error, as `ret}` is: only what looks like an instruction is named as one.
            let message = format!("Not a name of any known instruction: '{name}'");
            let mut d = Diagnostic::error(message).at(word);
            d.help = Op::nearest(name).map(|n| format!("did you mean `{n}`?"));
            self.push(d);
            return Err(Stop);
        };
        let mut mods: SmallVec<[Mod; 6]> = SmallVec::new();
        let mut failed = false;
        while self.at(Kind::Dot) {
            let span = self.bump().span;
            let text = std::str::from_utf8(&self.bytes(span)[1..]).unwrap_or("");
            match Mod::from_name(text) {
                Some(m) => mods.push(m),
                None => {
                    failed = true;
                    let message = format!("Unknown modifier '.{text}'");
                    let mut d = Diagnostic::error(message).at(span);
                    // Only the first messages are kept: a text of nothing else must not be searched for ever.
                    if self.diags.len() < MAX_ERRORS {
                        d.help = Mod::nearest(text).map(|n| format!("did you mean `.{n}`?"));
                    }
                    self.push(d);
                }
            }
        }
        if failed {
            return Ok(None);
        }
        let head = self.heads.head(op, mods);
        // Without blanks between them.
        if self.prev_end == end
            && let Some((key, whole)) = super::heads::spelling(self.src, word.start as usize)
            && whole == end as usize
            && !self.at_p(b':')
        {
            self.heads.keep(&key, head);
        }
        Ok(Some((op, head)))
    }

    /// The SM of the target.
    #[cold]
    pub(super) fn sm(&self) -> u16 {
        let target = self.module.target.iter().find_map(|w| arch::Target::parse(&w.replacen("compute_", "sm_", 1)));
        target.map_or(0, |t| t.sm)
    }

    fn operands(&mut self, op: Option<Op>, site: Site) -> Parsed<()> {
        if op == Some(Op::Call) {
            return self.call(site);
        }
        if !self.at_p(b';') {
            loop {
                let operand = self.operand(site)?;
                if self.at_p(b'+') {
                    self.sum(operand.clone())?;
                }
                self.body.code.push_operand(operand);
                if !self.eat_p(b',') {
                    break;
                }
            }
        }
        if matches!(op, Some(Op::Ld | Op::St | Op::Ldu | Op::Sust)) {
            // `{ %r1 }` is `%r1` here: consumers see one shape.
            for o in self.body.code.new_operands() {
                if let Operand::Vector(parts) = o
                    && parts.len() == 1
                {
                    *o = parts.remove(0);
                }
            }
        }
        Ok(())
    }

    /// `(returns), target, (arguments), table`, of which only the target must be there.
    fn call(&mut self, site: Site) -> Parsed<()> {
        let returns = if self.at_p(b'(') {
            let list = self.list(site)?;
            self.expect_p(b',')?;
            list
        } else {
            ThinVec::new()
        };
        self.body.code.push_operand(Operand::List(returns));
        let (name, span) = self.ident()?;
        let mut nothing = false;
        let target = match self.names.meaning(name) {
            Meaning::Func(f) => Operand::Func(f),
            Meaning::Reg(reg) => Operand::Reg { reg, elem: None },
            // That the name is unknown is told at the end of the function.
            Meaning::Nothing => {
                nothing = true;
                Operand::Label(self.pend(name, span, site))
            }
            _ => return Err(self.error(span, "Function or register expected as the target of 'call'")),
        };
        self.body.code.push_operand(target);
        let mut arguments = ThinVec::new();
        let mut table = None;
        if self.eat_p(b',') {
            if self.at_p(b'(') {
                arguments = self.list(site)?;
                if self.eat_p(b',') {
                    table = Some(self.declared(site)?);
                }
            } else {
                table = Some(self.declared(site)?);
            }
        }
        if nothing {
            let message = format!("Call to '{}' requires call prototype", self.names.text(name));
            self.error(span, message);
        }
        self.body.code.push_operand(Operand::List(arguments));
        table.into_iter().for_each(|t| self.body.code.push_operand(t));
        Ok(())
    }

    /// A table, which must stand before its use.
    fn declared(&mut self, site: Site) -> Parsed<Operand> {
        if self.at(Kind::Ident) {
            let span = self.tok.span;
            let name = self.names.intern(self.bytes(span));
            if matches!(self.names.meaning(name), Meaning::Nothing) {
                return Err(self.unknown(name, span));
            }
        }
        self.operand(site)
    }

    fn list(&mut self, site: Site) -> Parsed<ThinVec<Operand>> {
        self.expect_p(b'(')?;
        let mut out = ThinVec::new();
        while !self.at_p(b')') {
            out.push(self.operand(site)?);
            if !self.eat_p(b',') {
                break;
            }
        }
        self.expect_p(b')')?;
        Ok(out)
    }
}
