//! Statements of a body.

use super::{Parsed, Parser, Site};
use crate::isa::{Mod, Op};
use crate::lex::Kind;
use crate::module::*;
use crate::names::Meaning;
use crate::types::{ScalarType, Space};
use diag::Span;
use smallvec::SmallVec;
use thin_vec::ThinVec;

impl Parser<'_> {
    /// One statement that is no brace.
    pub(super) fn statement(&mut self) -> Parsed<()> {
        match self.tok.kind {
            Kind::Dot => self.directive(),
            Kind::Ident => {
                let word = self.bump().span;
                if self.at_p(b':') {
                    self.bump();
                    return self.label(word);
                }
                self.instruction(word, None, word.start)
            }
            _ if self.at_p(b'@') => {
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
            _ if self.at_p(b';') => {
                self.bump();
                Ok(())
            }
            _ => Err(self.syntax()),
        }
    }

    fn label(&mut self, span: Span) -> Parsed<()> {
        let name = self.names.intern(self.bytes(span));
        if self.at_dot("branchtargets") || self.at_dot("calltargets") || self.at_dot("callprototype") {
            return self.table(name, span);
        }
        let id = LabelId(self.body.labels.len() as u32);
        self.body.labels.push(Label { name: self.names.text(name), span });
        self.body.code.stmts.push(Stmt::Label(id));
        self.bind_new("label", name, span, Meaning::Label(id));
        Ok(())
    }

    fn directive(&mut self) -> Parsed<()> {
        if let Some(space) = self.declared_space() {
            self.bump();
            if space == Space::Reg {
                return self.registers();
            }
            let mut ids = Vec::new();
            let done = self.variables(space, Linkage::Internal, &mut ids);
            self.body.code.stmts.extend(ids.into_iter().map(Stmt::Var));
            return done;
        }
        if self.eat_dot("loc") {
            return self.loc();
        }
        if self.eat_dot("pragma") {
            let words = self.pragma()?;
            self.body.code.stmts.push(Stmt::Pragma(words.into()));
            return Ok(());
        }
        Err(self.syntax())
    }

    fn loc(&mut self) -> Parsed<()> {
        let file = self.number()?;
        let line = self.number()?;
        let column = if self.at(Kind::Int) { self.number()? } else { 0 };
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
            let at = (self.number()?, self.number()?, self.number()?);
            inlined = Some((self.names.text(name), offset, at.0, at.1, at.2));
        }
        self.body.code.stmts.push(Stmt::Loc(Box::new(Loc { file, line, column, inlined })));
        Ok(())
    }

    fn instruction(&mut self, word: Span, guard: Option<Guard>, start: u32) -> Parsed<()> {
        let text = std::str::from_utf8(self.bytes(word)).unwrap_or("");
        let Some(op) = Op::from_name(text) else {
            // A name alone is a syntax error, as `ret}` is: only what looks like an instruction is named as one.
            let message = format!("Not a name of any known instruction: '{text}'");
            return Err(self.error(word, message));
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
                    self.error(span, message);
                }
            }
        }
        let site = Site::Stmt(self.body.code.stmts.len() as u32);
        let mut operands: SmallVec<[Operand; 4]> = SmallVec::new();
        if op == Op::Call {
            self.call(&mut operands, site)?;
        } else if !self.at_p(b';') {
            loop {
                operands.push(self.operand(site)?);
                if !self.eat_p(b',') {
                    break;
                }
            }
        }
        let span = Span::new(start, self.prev_end);
        self.expect_p(b';')?;
        if matches!(op, Op::Ld | Op::St | Op::Ldu) {
            // `{ %r1 }` is `%r1` here: consumers see one shape.
            for o in &mut operands {
                if let Operand::Vector(parts) = o
                    && parts.len() == 1
                {
                    *o = parts.remove(0);
                }
            }
        }
        if failed {
            return Ok(());
        }
        self.body.code.push_inst(guard, op, &mods, operands, span);
        Ok(())
    }

    /// `(returns), target, (arguments), table`, of which only the target must be there.
    fn call(&mut self, out: &mut SmallVec<[Operand; 4]>, site: Site) -> Parsed<()> {
        let returns = if self.at_p(b'(') {
            let list = self.list(site)?;
            self.expect_p(b',')?;
            list
        } else {
            ThinVec::new()
        };
        out.push(Operand::List(returns));
        let (name, span) = self.ident()?;
        out.push(match self.names.meaning(name) {
            Meaning::Func(f) => Operand::Func(f),
            Meaning::Reg(reg) => Operand::Reg { reg, elem: None },
            Meaning::Nothing => return Err(self.unknown(name, span)),
            _ => return Err(self.error(span, "Function or register expected as the target of 'call'")),
        });
        let mut arguments = ThinVec::new();
        let mut table = None;
        if self.eat_p(b',') {
            if self.at_p(b'(') {
                arguments = self.list(site)?;
                if self.eat_p(b',') {
                    table = Some(self.operand(site)?);
                }
            } else {
                table = Some(self.operand(site)?);
            }
        }
        out.push(Operand::List(arguments));
        out.extend(table);
        Ok(())
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
