//! Text -> [`Module`]: a recursive-descent parser that goes on after an error.
//!
//! Names are resolved while parsing; labels may be used before their definition and are settled when their scope closes.
//! Time and memory are linear in the length of the text.

mod decl;
mod expr;
mod func;
mod heads;
mod initial;
mod operand;
mod quick;
mod section;
mod stmt;

use crate::lex::{Kind, Lexer, Token, p1};
use crate::module::*;
use crate::names::{Meaning, NameId, Names};
use diag::{Diagnostic, Severity, Span};
use std::borrow::Cow;
use std::sync::Arc;

/// An error has been reported; the statement at hand is given up.
pub(crate) struct Stop;

/// The value of a rule, or nothing after a reported error.
pub(crate) type Parsed<T> = Result<T, Stop>;

/// Messages after which parsing ends: a text with more is no PTX.
const MAX_ERRORS: usize = 100;

/// Bytes of one message.
const MAX_MESSAGE: usize = 1000;

/// Nesting of braces, parentheses and operators in one construct.
const MAX_NESTING: u32 = 200;

/// Elements of all initialisers together that the text does not spell out (padding of inner braces).
const MAX_PADDING: u64 = 1 << 22;

/// Registers of one function: more is refused instead of filling the memory.
const MAX_REGS: u64 = 1 << 22;

/// A use of a name that may turn out to be a label or table of an open scope.
struct Pending {
    name: NameId,
    span: Span,
    site: Site,
    settled: Option<Meaning>,
}

#[derive(Clone, Copy)]
enum Site {
    Inst(InstId),
    Table(TableId),
}

/// Marks a [`LabelId`] as an index into the pending uses.
const PENDING: u32 = 1 << 31;

/// What belongs to the function at hand.
#[derive(Default)]
struct Body {
    regs: Vec<Register>,
    reg_names: Vec<RegName>,
    labels: Vec<Label>,
    tables: Vec<Table>,
    code: crate::module::Body,
    pending: Vec<Pending>,
    /// Indices of `pending` that are not settled, and the marks of the open scopes in it.
    open: Vec<u32>,
    marks: Vec<usize>,
    /// Operands of the instruction at hand that are sums: their place, the register and the number.
    sums: Vec<(usize, RegId, i64)>,
}

impl Body {
    /// Forgets everything but the room for the next function.
    fn clear(&mut self) {
        let Body { regs, reg_names, labels, tables, code, pending, open, marks, sums } = self;
        regs.clear();
        reg_names.clear();
        labels.clear();
        tables.clear();
        code.clear();
        pending.clear();
        open.clear();
        marks.clear();
        sums.clear();
    }

    /// A register that is no part of a range.
    fn register(&mut self, name: String, ty: crate::types::ScalarType, vector: u8) {
        self.reg_names.push(RegName { first: self.regs.len() as u32, base: name, range: false });
        self.regs.push(Register { ty, vector });
    }
}

/// The state of parsing one text.
pub(crate) struct Parser<'a> {
    src: &'a [u8],
    lex: Lexer<'a>,
    tok: Token,
    prev_end: u32,
    module: Module,
    diags: Vec<Diagnostic>,
    names: Names,
    heads: heads::Heads,
    quickly: bool,
    pack: bool,
    body: Body,
    func: Option<FuncId>,
    /// How many names there were before those that only the function at hand has.
    local_names: Option<usize>,
    nesting: u32,
    /// The places that `.loc` directives have named.
    places: rustc_hash::FxHashSet<(u32, u32, u32)>,
    /// The numbers that `.file` directives have used.
    file_numbers: rustc_hash::FxHashSet<u32>,
    padding: u64,
}

/// Parses PTX text. The module holds everything that could be understood; without an error among the messages it is the
/// whole text. Never fails, never panics.
pub fn parse(text: &str) -> (Module, Vec<Diagnostic>) {
    parse_bytes(text.as_bytes())
}

/// Parses PTX that may hold any bytes; only comments and strings may hold other than ASCII.
pub fn parse_bytes(text: &[u8]) -> (Module, Vec<Diagnostic>) {
    parse_with(text, true, false)
}

/// As [`parse_bytes`], with bodies that are packed until somebody asks for them ([`crate::module::Body::unpacked`]): for large texts.
pub fn parse_packed(text: &[u8]) -> (Module, Vec<Diagnostic>) {
    parse_with(text, true, true)
}

/// Targets whose operations in f32 flush subnormal numbers, whatever the text says: their processors know no others. The vendor's compiler makes such operations
/// for newer processors, too (observed with 13.5).
const FLUSHING: [&str; 4] = ["sm_10", "sm_11", "sm_12", "sm_13"];

/// The same; where `quickly` is false without the short way for plain instructions.
fn parse_with(text: &[u8], quickly: bool, pack: bool) -> (Module, Vec<Diagnostic>) {
    if text.len() >= u32::MAX as usize {
        let module = Module { address_size: 64, ..Module::default() };
        return (module, vec![Diagnostic::new(Severity::Fatal, "PTX text of 4 GB or more is not supported")]);
    }
    let mut lex = Lexer::new(text);
    let tok = lex.next();
    let mut parser = Parser {
        src: text,
        lex,
        tok,
        prev_end: 0,
        module: Module { address_size: 64, ..Module::default() },
        diags: Vec::new(),
        names: Names::new(),
        heads: heads::Heads::new(),
        quickly,
        pack,
        body: Body::default(),
        func: None,
        local_names: None,
        nesting: 0,
        places: Default::default(),
        file_numbers: Default::default(),
        padding: 0,
    };
    let _ = parser.run();
    let mut heads: Arc<[Head]> = parser.heads.all().into();
    if parser.module.target.iter().any(|t| FLUSHING.contains(&t.as_str())) {
        heads = heads.iter().map(Head::flushing).collect();
    }
    for body in parser.module.funcs.iter_mut().filter_map(|f| f.body.as_mut()) {
        body.heads = heads.clone();
    }
    (parser.module, parser.diags)
}

/// Bytes as text; what is no UTF-8 is replaced.
pub(crate) fn text(bytes: &[u8]) -> Cow<'_, str> {
    // Much the faster where it succeeds.
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

impl<'a> Parser<'a> {
    // ---- tokens ----

    fn bytes(&self, span: Span) -> &'a [u8] {
        &self.src[span.start as usize..span.end as usize]
    }

    /// The text of a token; lexer words are ASCII, strings need not be UTF-8.
    fn text(&self, span: Span) -> Cow<'a, str> {
        text(self.bytes(span))
    }

    fn bump(&mut self) -> Token {
        let t = self.tok;
        self.prev_end = t.span.end;
        self.tok = self.lex.next();
        t
    }

    fn at(&self, kind: Kind) -> bool {
        self.tok.kind == kind
    }

    fn at_p(&self, byte: u8) -> bool {
        self.tok.kind == p1(byte)
    }

    fn eat_p(&mut self, byte: u8) -> bool {
        let yes = self.at_p(byte);
        if yes {
            self.bump();
        }
        yes
    }

    fn expect_p(&mut self, byte: u8) -> Parsed<()> {
        if self.eat_p(byte) { Ok(()) } else { Err(self.syntax()) }
    }

    fn at_dot(&self, word: &str) -> bool {
        self.tok.kind == Kind::Dot && &self.bytes(self.tok.span)[1..] == word.as_bytes()
    }

    fn eat_dot(&mut self, word: &str) -> bool {
        let yes = self.at_dot(word);
        if yes {
            self.bump();
        }
        yes
    }

    /// The identifier at hand.
    fn ident(&mut self) -> Parsed<(NameId, Span)> {
        if !self.at(Kind::Ident) {
            return Err(self.syntax());
        }
        let span = self.bump().span;
        Ok((self.names.intern(self.bytes(span)), span))
    }

    /// The string at hand, without its quotes.
    fn string(&mut self) -> Parsed<String> {
        if !self.at(Kind::Str) {
            return Err(self.syntax());
        }
        let span = self.bump().span;
        Ok(self.text(Span::new(span.start + 1, span.end - 1)).into_owned())
    }

    /// An unsigned number of at most 32 bits.
    fn number(&mut self) -> Parsed<u32> {
        let span = self.tok.span;
        let value = self.literal()?;
        match u32::try_from(value.bits) {
            Ok(n) if !(value.unsigned && value.bits < 0) => Ok(n),
            _ => Err(self.error(span, "Constant overflow")),
        }
    }

    // ---- messages ----

    fn push(&mut self, mut d: Diagnostic) {
        // A name of many megabytes is not repeated in its message.
        if d.message.len() > MAX_MESSAGE {
            let cut = (0..=MAX_MESSAGE).rev().find(|&i| d.message.is_char_boundary(i)).unwrap_or(0);
            d.message.truncate(cut);
            d.message.push_str("...");
        }
        if self.diags.len() < MAX_ERRORS {
            self.diags.push(d);
        }
    }

    fn error(&mut self, span: Span, message: impl Into<String>) -> Stop {
        self.push(Diagnostic::error(message).at(span));
        Stop
    }

    fn fatal(&mut self, span: Span, message: impl Into<String>) -> Stop {
        self.push(Diagnostic::new(Severity::Fatal, message).at(span));
        Stop
    }

    /// The message for a token that cannot stand here.
    fn syntax(&mut self) -> Stop {
        let span = self.tok.span;
        let mut text = self.text(span).into_owned();
        if text.len() > 60 {
            let cut = (0..=60).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
            text.truncate(cut);
            text.push_str("...");
        }
        let bad = self.tok.kind == Kind::Bad;
        let message = if bad && (text.starts_with("/*") || text.starts_with(".DEFINE")) {
            "Parsing error near '': unexpected EOF while scanning".to_string()
        } else if bad && text == ".IF" {
            "Ill formed conditional".to_string()
        } else {
            format!("Parsing error near '{text}': syntax error")
        };
        // One place gives one message: what follows from it says nothing new.
        if self.diags.last().is_none_or(|d| d.span != Some(span)) {
            self.push(Diagnostic::new(Severity::Fatal, message).at(span));
        }
        Stop
    }

    fn unknown(&mut self, name: NameId, span: Span) -> Stop {
        let message = format!("Unknown symbol '{}'", self.names.text(name));
        self.error(span, message)
    }

    /// Skips to behind the next `;`, or before a brace or the end.
    fn recover(&mut self) {
        loop {
            match self.tok.kind {
                Kind::Eof => return,
                k if k == p1(b';') => {
                    self.bump();
                    return;
                }
                k if k == p1(b'}') || k == p1(b'{') => {
                    // The braces of a vector operand are no block.
                    let before = self.src.get((self.prev_end as usize).wrapping_sub(1));
                    let mut ahead = self.lex;
                    let behind = ahead.next().kind;
                    let operand = if k == p1(b'{') {
                        matches!(before, Some(b',' | b'[' | b'('))
                    } else {
                        [b',', b']', b';', b'|'].map(p1).contains(&behind)
                    };
                    if !operand {
                        return;
                    }
                    self.bump();
                }
                _ => {
                    self.bump();
                }
            }
        }
    }

    fn nest<T>(&mut self, f: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nesting >= MAX_NESTING {
            let span = self.tok.span;
            return Err(self.error(span, format!("More than {MAX_NESTING} levels of nesting are not supported")));
        }
        self.nesting += 1;
        let out = f(self);
        self.nesting -= 1;
        out
    }

    // ---- the module ----

    fn run(&mut self) -> Parsed<()> {
        self.header()?;
        while !self.at(Kind::Eof) {
            if self.diags.len() >= MAX_ERRORS {
                break;
            }
            let before = self.tok.span;
            if self.module_item().is_err() {
                self.recover_module(before);
            }
        }
        Ok(())
    }

    /// After an error at module scope: behind the next `;`, or behind a whole `{ }`.
    fn recover_module(&mut self, before: Span) {
        self.recover();
        if self.at_p(b'{') {
            let mut depth = 0u32;
            while !self.at(Kind::Eof) {
                match self.tok.kind {
                    k if k == p1(b'{') => depth += 1,
                    k if k == p1(b'}') => depth -= 1,
                    _ => {}
                }
                self.bump();
                if depth == 0 {
                    // The end of a declaration with an initialiser.
                    self.eat_p(b';');
                    break;
                }
            }
        }
        if self.tok.span == before {
            self.bump();
        }
    }

    fn missing(&mut self, directive: &str) -> Stop {
        let span = self.tok.span;
        self.push(
            Diagnostic::new(Severity::Fatal, format!("Missing .{directive} directive at start of file '{{file}}'"))
                .at(span),
        );
        Stop
    }

    fn header(&mut self) -> Parsed<()> {
        if !self.eat_dot("version") {
            // The vendor's tool notices it behind the directive that stands there instead.
            if self.at_dot("target") {
                self.target()?;
            }
            return Err(self.missing("version"));
        }
        let span = self.tok.span;
        let text = self.text(span);
        let version = (self.at(Kind::Decimal))
            .then(|| text.split_once('.'))
            .flatten()
            .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        let Some(version) = version else {
            let span = Span::new(self.prev_end, self.prev_end);
            let message = "Missing .version directive at start of file '{file}'";
            self.push(Diagnostic::new(Severity::Fatal, message).at(span));
            return Err(Stop);
        };
        self.bump();
        self.module.version = version;
        if !arch::is_ptx_version(version) {
            let (a, b) = arch::LATEST_PTX;
            let message = format!("Unsupported .version {text}; current version is '{a}.{b}'");
            self.push(Diagnostic::new(Severity::Fatal, message).at(span));
            return Err(Stop);
        }
        if !self.at_dot("target") {
            return Err(self.missing("target"));
        }
        self.target()?;
        if self.eat_dot("address_size") {
            let span = self.tok.span;
            if self.module.version < (2, 3) {
                self.error(span, "Feature '.address_size directive' requires PTX ISA .version 2.3 or later");
            }
            match self.number()? {
                n @ (32 | 64) => self.module.address_size = n as u8,
                _ => {
                    self.error(span, "Illegal value for .address_size directive (must be 32 or 64)");
                }
            }
        }
        Ok(())
    }

    fn target(&mut self) -> Parsed<()> {
        self.bump();
        loop {
            let (_, span) = self.ident()?;
            let word = self.text(span).into_owned();
            let known = matches!(word.as_str(), "texmode_unified" | "texmode_independent" | "debug" | "map_f64_to_f32")
                || arch::Target::parse(&word.replacen("compute_", "sm_", 1)).is_some();
            if word == "map_f64_to_f32"
                && self.module.target.iter().any(|w| arch::Target::parse(w).is_some_and(|t| t.sm >= 13))
            {
                self.error(span, "Directive map_f64_to_f32 is not supported with SM 1.3 or higher");
            }
            if !known {
                self.push(Diagnostic::new(Severity::Fatal, format!("Unsupported .target '{word}'")).at(span));
                return Err(Stop);
            }
            if let Some(target) = arch::Target::parse(&word.replacen("compute_", "sm_", 1)) {
                let (a, b) = self.module.version;
                if (a, b) < target.since() && a != 0 {
                    self.error(span, format!("PTX .version {a}.{b} does not support .target {target}"));
                }
            }
            let texmode = |w: &String| w.starts_with("texmode_") && *w != word;
            if word.starts_with("texmode_") && self.module.target.iter().any(texmode) {
                self.error(span, format!("Conflicting .target option '{word}'"));
            }
            if self.module.target.is_empty() && !word.starts_with("sm_") && !word.starts_with("compute_") {
                let message = "Target architecture not defined at start of file '{file}'";
                self.push(Diagnostic::new(Severity::Fatal, message).at(span));
                return Err(Stop);
            }
            self.module.target.push(word);
            if !self.eat_p(b',') {
                break;
            }
        }
        if !self.module.target.iter().any(|w| w.starts_with("sm_") || w.starts_with("compute_")) {
            let span = Span::new(self.prev_end, self.prev_end);
            let message = "Target architecture not defined at start of file '{file}'";
            self.push(Diagnostic::new(Severity::Fatal, message).at(span));
            return Err(Stop);
        }
        Ok(())
    }

    fn module_item(&mut self) -> Parsed<()> {
        if !self.at(Kind::Dot) {
            return Err(self.syntax());
        }
        if self.at_dot("section") {
            return self.section();
        }
        let at = self.tok.span;
        if self.eat_dot("pragma") {
            let words = self.pragma()?;
            self.module.items.push(Item::Pragma { words, span: at });
            return Ok(());
        }
        if self.eat_dot("file") {
            return self.file();
        }
        if self.eat_dot("alias") {
            return self.alias();
        }
        if self.at_dot("MACRO") {
            return self.macro_definition();
        }
        let mut linkage = Linkage::Internal;
        if self.at(Kind::Dot) {
            let word = match &self.bytes(self.tok.span)[1..] {
                b"extern" => Some(Linkage::Extern),
                b"visible" => Some(Linkage::Visible),
                b"weak" => Some(Linkage::Weak),
                b"common" => Some(Linkage::Common),
                _ => None,
            };
            if let Some(word) = word {
                linkage = word;
                self.bump();
            }
        }
        if linkage == Linkage::Common && (self.at_dot("entry") || self.at_dot("func")) {
            return Err(self.syntax());
        }
        if self.eat_dot("entry") {
            return self.function(FuncKind::Entry, linkage);
        }
        if self.eat_dot("func") {
            return self.function(FuncKind::Func, linkage);
        }
        let Some(space) = self.declared_space() else { return Err(self.syntax()) };
        if matches!(space, crate::types::Space::Reg | crate::types::Space::Param) {
            let span = self.tok.span;
            let name = space.name();
            let message = format!("Module-scoped variables in .{name} state space are not allowed with ABI");
            return Err(self.error(span, message));
        }
        self.bump();
        let mut ids = Vec::new();
        let done = self.variables(space, linkage, &mut ids);
        self.module.items.extend(ids.into_iter().map(Item::Var));
        done
    }

    fn pragma(&mut self) -> Parsed<Vec<String>> {
        let mut words = vec![self.string()?];
        while self.eat_p(b',') {
            words.push(self.string()?);
        }
        self.expect_p(b';')?;
        Ok(words)
    }

    fn file(&mut self) -> Parsed<()> {
        let index = self.number()?;
        let name = self.string()?;
        let mut stamp = None;
        if self.eat_p(b',') {
            let time = self.literal()?.bits as u64;
            self.expect_p(b',')?;
            stamp = Some((time, self.literal()?.bits as u64));
        }
        if !self.file_numbers.insert(index) {
            let at = self.tok.span;
            self.error(at, format!("Duplicate file index #{index}"));
        }
        self.module.items.push(Item::File(self.module.files.len() as u32));
        self.module.files.push(FileEntry { index, name, stamp });
        Ok(())
    }

    fn alias(&mut self) -> Parsed<()> {
        let span = self.tok.span;
        let mut funcs = [FuncId(0); 2];
        for (i, f) in funcs.iter_mut().enumerate() {
            if i == 1 {
                self.expect_p(b',')?;
            }
            let (name, span) = self.ident()?;
            match self.names.meaning(name) {
                Meaning::Func(id) => *f = id,
                _ => return Err(self.unknown(name, span)),
            }
        }
        self.expect_p(b';')?;
        self.module.items.push(Item::Alias { alias: funcs[0], target: funcs[1], span });
        Ok(())
    }

    /// `.MACRO name parameter, parameter;`, which the vendor's tool reads and refuses.
    fn macro_definition(&mut self) -> Parsed<()> {
        let span = self.bump().span;
        self.ident()?;
        if self.at(Kind::Ident) {
            self.ident()?;
            while self.eat_p(b',') {
                self.ident()?;
            }
        }
        self.expect_p(b';')?;
        self.error(span, "Unimplemented feature: macro definitions");
        Ok(())
    }
}
