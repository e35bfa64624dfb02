//! Functions: headers, directives, bodies and their scopes.

use super::{MAX_REGS, PENDING, Parsed, Parser, Pending, Site};
use crate::lex::{Kind, p1};
use crate::module::*;
use crate::names::{Meaning, NameId};
use crate::types::{ScalarType, Space};
use diag::Span;

impl Parser<'_> {
    /// A function or entry, behind `.func` or `.entry`.
    pub(super) fn function(&mut self, kind: FuncKind, linkage: Linkage) -> Parsed<()> {
        let mut attributes = Vec::new();
        if kind == FuncKind::Func && self.eat_dot("attribute") {
            self.attributes(false, &mut attributes)?;
        }
        self.body.clear();
        self.names.open();
        // The id that the function will have: parameters carry it.
        let next = FuncId(self.module.funcs.len() as u32);
        self.func = Some(next);
        let done = self.function_rest(kind, linkage, next, attributes);
        // However many scopes an error left open, the module's is the one that goes on.
        self.names.close_all();
        if let Some(count) = self.local_names.take() {
            self.names.shrink(count);
        }
        self.func = None;
        done
    }

    fn params(&mut self, entry: bool) -> Parsed<Vec<(Variable, NameId)>> {
        let mut out = Vec::new();
        self.expect_p(b'(')?;
        while !self.at_p(b')') {
            let new = self.parameter()?;
            // The tool names the line of what stands behind it.
            if entry && new.0.dims.iter().any(|d| d.is_none_or(|n| n == 0)) {
                self.error(self.tok.span, "Parameter to entry function cannot be an incomplete array.");
            }
            out.push(new);
            if !self.eat_p(b',') {
                break;
            }
            if self.at_p(b')') {
                return Err(self.syntax());
            }
        }
        self.expect_p(b')')?;
        Ok(out)
    }

    fn function_rest(&mut self, kind: FuncKind, linkage: Linkage, next: FuncId, attributes: Vec<String>) -> Parsed<()> {
        let returns = if kind == FuncKind::Func && self.at_p(b'(') { self.params(false)? } else { Vec::new() };
        let (name, span) = self.ident()?;
        // From here on only names of the function come: it has its own meaning from the outermost scope.
        self.local_names = Some(self.names.count());
        let params = if self.at_p(b'(') { self.params(kind == FuncKind::Entry)? } else { Vec::new() };
        let directives = self.directives(kind)?;
        let define = self.at_p(b'{');
        let text = self.names.text(name);
        let known = match self.names.meaning(name) {
            Meaning::Func(id) => Some(id),
            Meaning::Nothing => None,
            _ => {
                self.duplicate("function", name, span);
                None
            }
        };
        if let Some(id) = known {
            let old = &self.module.funcs[id.index()];
            let shape = |v: &Variable| (v.ty, v.vector, v.dims.clone(), v.space);
            let aligned = |ids: &[VarId], new: &[(Variable, NameId)]| {
                ids.iter().zip(new).all(|(&i, n)| self.module.vars[i.index()].align == n.0.align)
            };
            let same = |ids: &[VarId], new: &[(Variable, NameId)]| {
                ids.len() == new.len()
                    && ids.iter().zip(new).all(|(&i, n)| shape(&self.module.vars[i.index()]) == shape(&n.0))
            };
            if old.kind != kind {
                self.error(span, format!("Inconsistent redefinition of '{text}' as entry and function"));
            } else if old.params.len() != params.len() || old.returns.len() != returns.len() {
                self.error(span, format!("Inconsistent prototypes of '{text}', number of parameters differ"));
            } else if !same(&old.params, &params) || !same(&old.returns, &returns) {
                self.error(span, format!("Inconsistent prototypes of '{text}', parameter types differ"));
            } else if !aligned(&old.params, &params) || !aligned(&old.returns, &returns) {
                self.error(span, format!("Inconsistent prototypes of '{text}', parameter alignment differ"));
            } else if old.body.is_some() {
                self.duplicate("function", name, span);
            } else if define && old.linkage == Linkage::Extern
                || !matches!((old.linkage, linkage), (a, b) if a == b || b == Linkage::Internal)
            {
                self.error(span, format!("Inconsistent redefinition of variable '{text}'"));
            }
        }
        if known.is_none() && define && linkage == Linkage::Extern {
            let message = format!("Function definition conflicts with '.extern' declaration for function '{text}'");
            self.error(span, message);
        }
        if returns.len() > 1 && returns.iter().any(|r| r.0.space != Space::Reg) {
            self.error(span, "Multiple return parameters require .register state space");
        }
        let id = known.unwrap_or(next);
        let scope = Some(id);
        let place = |p: &mut Self, new: Vec<(Variable, NameId)>, old: Vec<VarId>| -> Vec<VarId> {
            let reuse = old.len() == new.len();
            let mut ids = Vec::new();
            for (i, (mut v, name)) in new.into_iter().enumerate() {
                v.scope = scope;
                let span = v.span;
                let (ty, vector, space) = (v.ty, v.vector, v.space);
                let id = if reuse {
                    p.module.vars[old[i].index()] = v;
                    old[i]
                } else {
                    p.new_var(v)
                };
                ids.push(id);
                if p.names.text(name) == "_" {
                    continue;
                }
                let meaning = if space == Space::Reg {
                    let reg = RegId(p.body.regs.len() as u32);
                    let text = p.names.text(name);
                    p.body.register(text, ty, vector);
                    Meaning::Reg(reg)
                } else {
                    Meaning::Var(id)
                };
                p.bind_new("variable", name, span, meaning);
            }
            ids
        };
        let (old_returns, old_params) = match known {
            Some(id) => {
                let f = &self.module.funcs[id.index()];
                // A declaration after the definition changes nothing.
                if f.body.is_some() {
                    if !define {
                        self.end_of_prototype(kind)?;
                        self.module.items.push(Item::Func { func: id, define });
                        return Ok(());
                    }
                    (Vec::new(), Vec::new())
                } else {
                    (f.returns.clone(), f.params.clone())
                }
            }
            None => (Vec::new(), Vec::new()),
        };
        let returns = place(self, returns, old_returns);
        let params = place(self, params, old_params);
        let function = Function {
            name: text,
            span,
            kind,
            linkage,
            returns,
            params,
            attributes,
            directives,
            regs: Vec::new(),
            reg_names: Vec::new(),
            labels: Vec::new(),
            tables: Vec::new(),
            body: None,
        };
        match known {
            Some(id) => self.module.funcs[id.index()] = function,
            None => {
                self.module.funcs.push(function);
                self.names.bind_outermost(name, Meaning::Func(id));
            }
        }
        self.func = Some(id);
        self.module.items.push(Item::Func { func: id, define });
        if !define {
            return self.end_of_prototype(kind);
        }
        self.body(id)
    }

    /// The `;` behind a prototype, which that of an entry must have; the vendor's tool (13.5) wants none behind others, in no version.
    fn end_of_prototype(&mut self, kind: FuncKind) -> Parsed<()> {
        if kind == FuncKind::Func && !self.at_p(b';') { Ok(()) } else { self.expect_p(b';') }
    }

    fn body(&mut self, id: FuncId) -> Parsed<()> {
        self.bump();
        let from = self.prev_end as usize;
        self.body.code.make_room(self.src.len() - from);
        let done = self.statements();
        self.settle_all();
        // The last large one needs no copy: nobody wants its room.
        let end = self.prev_end as usize;
        let (own, rest) = (end.saturating_sub(from), self.src.len().saturating_sub(end));
        let last = rest < own / 2;
        let body = &mut self.body;
        let f = &mut self.module.funcs[id.index()];
        f.regs = exact(&mut body.regs);
        f.reg_names = exact(&mut body.reg_names);
        f.labels = exact(&mut body.labels);
        f.tables = exact(&mut body.tables);
        f.body = Some(match () {
            _ if self.pack => body.code.take_packed(),
            _ if last => std::mem::take(&mut body.code),
            _ => body.code.take(),
        });
        done
    }

    /// Directives between header and body.
    fn directives(&mut self, kind: FuncKind) -> Parsed<Vec<Directive>> {
        let mut out = Vec::new();
        while self.at(Kind::Dot) {
            let span = self.tok.span;
            let word = self.text(span).into_owned();
            // What is no directive of a function is the next item: its prototype has ended.
            if kind == FuncKind::Func && !known_directive(&word[1..]) {
                break;
            }
            self.bump();
            let of_others =
                if kind == FuncKind::Func { LAUNCHES.contains(&&word[1..]) } else { CALLS.contains(&&word[1..]) };
            if of_others {
                return Err(self.fatal(span, format!("Parsing error near '{word}': syntax error")));
            }
            out.push(match &word[1..] {
                "maxntid" => Directive::MaxNtid(self.triple()?),
                "reqntid" => Directive::ReqNtid(self.triple()?),
                "reqnctapercluster" => Directive::ReqNctaPerCluster(self.triple()?),
                "minnctapersm" => Directive::MinNctaPerSm(self.number()?),
                "maxnctapersm" => Directive::MaxNctaPerSm(self.number()?),
                "maxnreg" => Directive::MaxNreg(self.number()?),
                "maxclusterrank" => Directive::MaxClusterRank(self.number()?),
                "noreturn" => Directive::NoReturn,
                "explicitcluster" => Directive::ExplicitCluster,
                "blocksareclusters" => Directive::BlocksAreClusters,
                "pragma" => Directive::Pragma(self.pragma()?),
                "abi_preserve" | "abi_preserve_control" | "local_maxnreg" | "language" => {
                    Directive::Other(word[1..].to_string(), vec![u64::from(self.number()?)])
                }
                _ => {
                    let message = format!("Parsing error near '{word}': syntax error");
                    return Err(self.fatal(span, message));
                }
            });
        }
        Ok(out)
    }

    fn triple(&mut self) -> Parsed<[u32; 3]> {
        let mut out = [1; 3];
        for n in &mut out {
            *n = self.number()?;
            if !self.eat_p(b',') {
                break;
            }
        }
        Ok(out)
    }

    /// The statements of a body, behind its `{`, with its `}`.
    fn statements(&mut self) -> Parsed<()> {
        let mut depth = 0u32;
        self.body.marks.clear();
        loop {
            match self.tok.kind {
                Kind::Eof => return Err(self.syntax()),
                k if k == p1(b'{') => {
                    self.bump();
                    depth += 1;
                    self.names.open();
                    self.body.marks.push(self.body.open.len());
                    self.body.code.push_stmt(Stmt::Open);
                }
                k if k == p1(b'}') => {
                    self.bump();
                    if depth == 0 {
                        return Ok(());
                    }
                    depth -= 1;
                    let mark = self.body.marks.pop().unwrap_or(0);
                    self.settle(mark);
                    self.names.close();
                    self.body.code.push_stmt(Stmt::Close);
                }
                _ => {
                    if self.diags.len() >= super::MAX_ERRORS {
                        return Err(super::Stop);
                    }
                    let before = self.tok.span;
                    if self.statement().is_err() {
                        self.recover();
                        if self.tok.span == before && !self.at_p(b'{') && !self.at_p(b'}') {
                            self.bump();
                        }
                    }
                }
            }
        }
    }

    // ---- labels that are used before they are defined ----

    /// A label operand for a name that means nothing yet.
    pub(super) fn pend(&mut self, name: NameId, span: Span, site: Site) -> LabelId {
        let index = self.body.pending.len() as u32;
        self.body.pending.push(Pending { name, span, site, settled: None });
        self.body.open.push(index);
        LabelId(PENDING | index)
    }

    /// Settles the uses since `mark` whose names now mean something in the scope that closes.
    fn settle(&mut self, mark: usize) {
        let mut kept = mark;
        for i in mark..self.body.open.len() {
            let index = self.body.open[i];
            let name = self.body.pending[index as usize].name;
            match self.names.meaning(name) {
                m @ (Meaning::Label(_) | Meaning::Table(_)) => self.body.pending[index as usize].settled = Some(m),
                _ => {
                    self.body.open[kept] = index;
                    kept += 1;
                }
            }
        }
        self.body.open.truncate(kept);
    }

    /// At the end of the function: settles what is left, reports the rest, and puts the answers in place.
    fn settle_all(&mut self) {
        self.settle(0);
        for index in std::mem::take(&mut self.body.open) {
            let Pending { name, span, .. } = self.body.pending[index as usize];
            self.unknown(name, span);
            let id = self.label_of_nothing(self.names.text(name), span);
            self.body.pending[index as usize].settled = Some(Meaning::Label(id));
        }
        let pending = std::mem::take(&mut self.body.pending);
        for (index, p) in pending.iter().enumerate() {
            let Some(meaning) = p.settled else { continue };
            let placeholder = LabelId(PENDING | index as u32);
            let label = match meaning {
                Meaning::Label(l) => l,
                _ => {
                    let name = self.names.text(p.name);
                    self.error(p.span, format!("Label expected for forward reference of '{name}'"));
                    self.label_of_nothing(name, p.span)
                }
            };
            match p.site {
                // The last one may have been given up.
                Site::Inst(inst) if inst.index() < self.body.code.count() => {
                    let operands = self.body.code.operands_mut(inst).iter_mut();
                    operands.filter(|o| **o == Operand::Label(placeholder)).for_each(|o| *o = Operand::Label(label));
                }
                Site::Inst(_) => {}
                Site::Table(t) => {
                    if let Some(Table::Branch { targets, .. }) = self.body.tables.get_mut(t.index()) {
                        targets.iter_mut().filter(|x| **x == placeholder).for_each(|x| *x = label);
                    }
                }
            }
        }
    }

    /// An id for a label that is missing: every id of a module is one of its tables, also after errors.
    fn label_of_nothing(&mut self, name: String, span: Span) -> LabelId {
        let id = LabelId(self.body.labels.len() as u32);
        self.body.labels.push(Label { name, span });
        id
    }

    /// `.reg .b32 %r<5>, %x;` behind `.reg`.
    pub(super) fn registers(&mut self) -> Parsed<()> {
        let at = self.tok.span;
        let kin = self.kindred()?;
        if kin.ty == ScalarType::F16x2 {
            if self.sm() < 53 {
                self.error(at, "Feature '.f16x2 packed data-type' requires .target sm_53 or higher");
            }
            if self.module.version < (4, 2) {
                self.error(at, "Feature '.f16x2 packed data-type' requires PTX ISA .version 4.2 or later");
            }
        }
        if kin.vector > 1 && kin.ty == ScalarType::Pred {
            self.error(at, "Predicate type can only be used to define scalar register variables");
        } else if kin.ty.is_opaque() {
            self.error(at, "Texture/surface variable must be at module or entry parameter scope");
        } else if kin.ty == ScalarType::B128 && self.module.version < (8, 3) {
            self.error(at, "Feature 'Type .b128' requires PTX ISA .version 8.3 or later");
        } else if u32::from(kin.vector) * kin.ty.bits() > 128 {
            self.error(at, "Vector type too large, exceeds 128 bit limit");
        }
        if self.eat_p(b';') {
            return Ok(());
        }
        let mut run: Option<u32> = None;
        loop {
            let (name, span) = self.new_name()?;
            let count = self.range()?;
            let first = self.body.regs.len() as u32;
            if u64::from(first) + u64::from(count.unwrap_or(1)) > MAX_REGS {
                return Err(self.error(span, format!("More than {MAX_REGS} registers of a function are not supported")));
            }
            let base = self.names.text(name);
            match count {
                None if self.at_p(b'[') => {
                    return Err(self.error(span, format!("Variable '{base}' cannot be allocated into a register")));
                }
                None => {
                    self.body.register(base, kin.ty, kin.vector);
                    self.bind_new("variable", name, span, Meaning::Reg(RegId(first)));
                    run.get_or_insert(first);
                }
                Some(count) => {
                    self.end_run(&mut run, first);
                    self.body.reg_names.push(RegName { first, base: base.clone(), range: true });
                    let register = Register { ty: kin.ty, vector: kin.vector };
                    self.body.regs.resize(self.body.regs.len() + count as usize, register);
                    match self.names.bind_range(name, RegId(first), count) {
                        Some(taken) => {
                            for i in taken {
                                let name = self.names.intern(format!("{base}{i}").as_bytes());
                                self.duplicate("variable", name, span);
                            }
                        }
                        None => {
                            for i in 0..count {
                                let name = self.names.intern(format!("{base}{i}").as_bytes());
                                self.bind_new("variable", name, span, Meaning::Reg(RegId(first + i)));
                            }
                        }
                    }
                    let declared = Regs { first: RegId(first), count, range: Some(base) };
                    self.body.code.push_regs(declared);
                }
            }
            if !self.eat_p(b',') {
                break;
            }
        }
        let end = self.body.regs.len() as u32;
        self.end_run(&mut run, end);
        self.expect_p(b';')
    }

    fn end_run(&mut self, run: &mut Option<u32>, end: u32) {
        if let Some(first) = run.take() {
            let declared = Regs { first: RegId(first), count: end - first, range: None };
            self.body.code.push_regs(declared);
        }
    }

    /// A table behind `name:`; the directive is at hand.
    pub(super) fn table(&mut self, label: NameId, span: Span) -> Parsed<()> {
        let word = self.bump().span;
        let id = TableId(self.body.tables.len() as u32);
        let name = self.names.text(label);
        let table = match &self.text(word)[1..] {
            "branchtargets" => {
                let mut targets = Vec::new();
                loop {
                    let (n, at) = self.ident()?;
                    targets.push(match self.names.meaning(n) {
                        Meaning::Label(l) => l,
                        Meaning::Nothing => self.pend(n, at, Site::Table(id)),
                        _ => return Err(self.error(at, "Illegal branch target, label expected")),
                    });
                    if !self.eat_p(b',') {
                        break;
                    }
                }
                Table::Branch { name, targets }
            }
            "calltargets" => {
                let mut targets = Vec::new();
                loop {
                    let (n, at) = self.ident()?;
                    match self.names.meaning(n) {
                        Meaning::Func(f) => targets.push(f),
                        _ => return Err(self.error(at, "Illegal call target, device function expected")),
                    }
                    if !self.eat_p(b',') {
                        break;
                    }
                }
                Table::Call { name, targets }
            }
            _ => {
                let returns = if self.at_p(b'(') { self.params(false)? } else { Vec::new() };
                if self.bytes(self.tok.span) != b"_" {
                    return Err(self.syntax());
                }
                if returns.len() > 1 && returns.iter().any(|r| r.0.space != Space::Reg) {
                    self.error(span, "Multiple return parameters require .register state space");
                }
                self.bump();
                let params = if self.at_p(b'(') { self.params(false)? } else { Vec::new() };
                let mut noreturn = false;
                let mut directives = Vec::new();
                'directives: while self.at(Kind::Dot) {
                    if self.eat_dot("noreturn") {
                        noreturn = true;
                        continue;
                    }
                    for name in ["abi_preserve", "abi_preserve_control"] {
                        let at = self.tok.span;
                        if self.eat_dot(name) {
                            if self.module.version < (9, 0) {
                                let message = format!("Feature '.{name}' requires PTX ISA .version 9.0 or later");
                                self.error(at, message);
                            }
                            directives.push(Directive::Other(name.to_string(), vec![u64::from(self.number()?)]));
                            continue 'directives;
                        }
                    }
                    return Err(self.syntax());
                }
                if noreturn && !returns.is_empty() {
                    let message = "Invalid directive '.noreturn' for function 'protoype with return parameters'";
                    self.error(span, message);
                }
                let mut make = |list: Vec<(Variable, NameId)>| -> Vec<VarId> {
                    list.into_iter().map(|(v, _)| self.new_var(v)).collect()
                };
                let returns = make(returns);
                let params = make(params);
                Table::Prototype { name, returns, params, noreturn, directives }
            }
        };
        self.expect_p(b';')?;
        self.body.tables.push(table);
        self.body.code.push_stmt(Stmt::Table(id));
        self.bind_new("label", label, span, Meaning::Table(id));
        Ok(())
    }
}

/// Directives between header and body that entries alone have.
const LAUNCHES: [&str; 9] = [
    "maxntid",
    "reqntid",
    "reqnctapercluster",
    "minnctapersm",
    "maxnctapersm",
    "maxnreg",
    "maxclusterrank",
    "explicitcluster",
    "blocksareclusters",
];

/// Those that functions alone have.
const CALLS: [&str; 3] = ["noreturn", "abi_preserve", "abi_preserve_control"];

/// Those that both have.
const SHARED: [&str; 3] = ["pragma", "local_maxnreg", "language"];

/// True for a directive between header and body.
fn known_directive(word: &str) -> bool {
    LAUNCHES.contains(&word) || CALLS.contains(&word) || SHARED.contains(&word)
}
