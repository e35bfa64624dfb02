//! [`Module`] -> text that parses to the same module.

use crate::module::*;
use crate::types::ScalarType;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt::Write;

/// The PTX text of a module. `parse(print(m))` is `m` but for spans, for every module that [`parse`](crate::parse) gives
/// without an error.
pub fn print(module: &Module) -> String {
    let mut p = Printer { m: module, f: None, out: String::new() };
    p.module();
    p.out
}

/// The PTX text of one instruction of a function, without its semicolon.
pub fn print_inst(module: &Module, func: FuncId, inst: &Inst) -> String {
    let mut p = Printer { m: module, f: module.funcs.get(func.index()), out: String::new() };
    p.inst(inst);
    p.out
}

struct Printer<'a> {
    m: &'a Module,
    f: Option<&'a Function>,
    out: String,
}

macro_rules! put {
    ($p:expr, $($arg:tt)*) => {{
        // Writing to a String cannot fail.
        let _ = write!($p.out, $($arg)*);
    }};
}

fn linkage(l: Linkage) -> &'static str {
    match l {
        Linkage::Internal => "",
        Linkage::Extern => ".extern ",
        Linkage::Visible => ".visible ",
        Linkage::Weak => ".weak ",
        Linkage::Common => ".common ",
    }
}

impl Printer<'_> {
    fn module(&mut self) {
        let m = self.m;
        put!(self, ".version {}.{}\n", m.version.0, m.version.1);
        put!(self, ".target {}\n", m.target.join(", "));
        // Before, there is no such directive.
        if m.version >= (2, 3) {
            put!(self, ".address_size {}\n", m.address_size);
        }
        for item in &m.items {
            match item {
                Item::Var(id) => self.var(*id),
                Item::Func { func, define } => self.function(*func, *define),
                Item::File(i) => {
                    let f = &m.files[*i as usize];
                    put!(self, ".file {} \"{}\"", f.index, f.name);
                    if let Some((time, size)) = f.stamp {
                        put!(self, ", {time}, {size}");
                    }
                    self.out.push('\n');
                }
                Item::Section { name, body } => put!(self, ".section {name}\n{{\n{body}\n}}\n"),
                Item::Pragma { words, .. } => self.pragma(words),
                Item::Alias { alias, target, .. } => {
                    put!(self, ".alias {}, {};\n", m.funcs[alias.index()].name, m.funcs[target.index()].name)
                }
            }
        }
    }

    fn pragma(&mut self, words: &[String]) {
        let words: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
        put!(self, ".pragma {};\n", words.join(", "));
    }

    /// Everything of a variable but its linkage, initialiser and semicolon.
    fn var_head(&mut self, v: &Variable) {
        put!(self, ".{}", v.space.name());
        if v.align_written {
            put!(self, " .align {}", v.align);
        }
        if !v.attributes.is_empty() {
            put!(self, " .attribute({})", v.attributes.join(", "));
        }
        if v.vector > 1 {
            put!(self, " .v{}", v.vector);
        }
        put!(self, " .{}", v.ty.name());
        if let Some((space, align)) = v.ptr {
            self.out.push_str(" .ptr");
            if let Some(s) = space {
                put!(self, " .{}", s.name());
            }
            if align != 0 {
                put!(self, " .align {align}");
            }
        }
        put!(self, " {}", v.name);
        for d in &v.dims {
            match d {
                Some(n) => put!(self, "[{n}]"),
                None => self.out.push_str("[]"),
            }
        }
    }

    fn var(&mut self, id: VarId) {
        let v = &self.m.vars[id.index()];
        self.out.push_str(linkage(v.linkage));
        self.var_head(v);
        if let Some(init) = &v.init {
            self.out.push_str(" = ");
            // Elements in one item of each level, from the outermost.
            let mut sizes: SmallVec<[usize; 4]> = SmallVec::new();
            let mut size = v.vector as usize;
            if v.vector > 1 {
                sizes.push(1);
            }
            for d in v.dims.iter().rev() {
                sizes.push(size);
                size *= d.unwrap_or(1).max(1) as usize;
            }
            sizes.reverse();
            self.rows(v.ty, init, &sizes);
        }
        if !v.fields.is_empty() {
            let one = |f: &Vec<(String, String)>| {
                let parts: Vec<String> = f.iter().map(|(name, value)| format!("{name} = {value}")).collect();
                format!("{{{}}}", parts.join(", "))
            };
            let all: Vec<String> = v.fields.iter().map(one).collect();
            let all = all.join(", ");
            if v.dims.is_empty() {
                put!(self, " = {all}");
            } else {
                put!(self, " = {{{all}}}");
            }
        }
        self.out.push_str(";\n");
    }

    /// Values in as many braces as there are levels.
    fn rows(&mut self, ty: ScalarType, values: &[InitValue], sizes: &[usize]) {
        let Some((&size, inner)) = sizes.split_first() else {
            return values.iter().for_each(|v| self.init(ty, v));
        };
        self.out.push('{');
        for (i, row) in values.chunks(size.max(1)).enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.rows(ty, row, inner);
        }
        self.out.push('}');
    }

    fn init(&mut self, ty: ScalarType, value: &InitValue) {
        match value {
            InitValue::Bits(b) if ty == ScalarType::F32 => put!(self, "0f{b:08X}"),
            InitValue::Bits(b) if ty == ScalarType::F64 => put!(self, "0d{b:016X}"),
            InitValue::Bits(b) => put!(self, "{b}"),
            InitValue::Var { var, offset, generic, mask } => {
                if let Some(mask) = mask {
                    put!(self, "0x{mask:X}(");
                }
                let name = &self.m.vars[var.index()].name;
                if *generic {
                    put!(self, "generic({name})");
                } else {
                    self.out.push_str(name);
                }
                if *offset != 0 {
                    put!(self, "+{offset}");
                }
                if mask.is_some() {
                    self.out.push(')');
                }
            }
            InitValue::FuncByte(f, mask) => put!(self, "0x{mask:X}({})", self.m.funcs[f.index()].name),
            InitValue::Func(f) => self.out.push_str(&self.m.funcs[f.index()].name),
        }
    }

    fn params(&mut self, ids: &[VarId]) {
        self.out.push('(');
        for (i, id) in ids.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.var_head(&self.m.vars[id.index()]);
        }
        self.out.push(')');
    }

    fn function(&mut self, id: FuncId, define: bool) {
        let f = &self.m.funcs[id.index()];
        self.f = Some(f);
        self.out.push_str(linkage(f.linkage));
        match f.kind {
            FuncKind::Entry => self.out.push_str(".entry "),
            FuncKind::Func => self.out.push_str(".func "),
        }
        if !f.attributes.is_empty() {
            put!(self, ".attribute({}) ", f.attributes.join(", "));
        }
        if !f.returns.is_empty() {
            self.params(&f.returns);
            self.out.push(' ');
        }
        self.out.push_str(&f.name);
        if !f.params.is_empty() || f.kind == FuncKind::Func {
            self.params(&f.params);
        }
        self.out.push('\n');
        for d in &f.directives {
            self.directive(d);
        }
        if !define {
            self.out.push_str(";\n");
            return;
        }
        self.out.push_str("{\n");
        if let Some(Cow::Owned(body)) = f.body.as_ref().map(Body::unpacked) {
            let whole = Function { body: Some(body), ..f.clone() };
            whole.body.iter().flatten().for_each(|s| self.stmt(&whole, s));
        } else {
            f.body.iter().flatten().for_each(|s| self.stmt(f, s));
        }
        self.out.push_str("}\n");
        self.f = None;
    }

    fn directive(&mut self, d: &Directive) {
        let triple = |t: &[u32; 3]| format!("{}, {}, {}", t[0], t[1], t[2]);
        match d {
            Directive::MaxNtid(t) => put!(self, ".maxntid {}\n", triple(t)),
            Directive::ReqNtid(t) => put!(self, ".reqntid {}\n", triple(t)),
            Directive::MinNctaPerSm(n) => put!(self, ".minnctapersm {n}\n"),
            Directive::MaxNctaPerSm(n) => put!(self, ".maxnctapersm {n}\n"),
            Directive::MaxNreg(n) => put!(self, ".maxnreg {n}\n"),
            Directive::NoReturn => self.out.push_str(".noreturn\n"),
            Directive::ReqNctaPerCluster(t) => put!(self, ".reqnctapercluster {}\n", triple(t)),
            Directive::MaxClusterRank(n) => put!(self, ".maxclusterrank {n}\n"),
            Directive::ExplicitCluster => self.out.push_str(".explicitcluster\n"),
            Directive::BlocksAreClusters => self.out.push_str(".blocksareclusters\n"),
            Directive::Pragma(words) => self.pragma(words),
            Directive::Other(word, args) => {
                self.other(word, args);
                self.out.push('\n');
            }
        }
    }

    /// A directive that has no form of its own.
    fn other(&mut self, word: &str, args: &[u64]) {
        put!(self, ".{word}");
        for a in args {
            put!(self, " {a}");
        }
    }

    fn stmt(&mut self, f: &Function, s: Stmt) {
        match s {
            Stmt::Inst(id) => {
                self.out.push('\t');
                f.body.iter().for_each(|b| self.inst(&b.inst(id)));
                self.out.push_str(";\n");
            }
            Stmt::Label(l) => put!(self, "{}:\n", f.labels[l.index()].name),
            Stmt::Open => self.out.push_str("\t{\n"),
            Stmt::Close => self.out.push_str("\t}\n"),
            Stmt::Regs(declared) => {
                let Some(body) = &f.body else { return };
                let Regs { first, count, range } = body.regs(declared);
                let Some(r) = f.regs.get(first.index()) else {
                    // `%r<0>` declares nothing: any type will do.
                    if let Some(base) = range {
                        put!(self, "\t.reg .b32 {base}<0>;\n");
                    }
                    return;
                };
                self.out.push_str("\t.reg ");
                if r.vector > 1 {
                    put!(self, ".v{} ", r.vector);
                }
                put!(self, ".{} ", r.ty.name());
                match range {
                    Some(base) => put!(self, "{base}<{count}>"),
                    None => {
                        let names: Vec<String> = (first.0..first.0 + count).map(|r| f.reg_name(RegId(r))).collect();
                        self.out.push_str(&names.join(", "));
                    }
                }
                self.out.push_str(";\n");
            }
            Stmt::Var(id) => {
                self.out.push('\t');
                self.var(id);
            }
            Stmt::Loc(l) => {
                let Some(l) = f.body.as_ref().map(|b| b.loc(l)) else { return };
                put!(self, "\t.loc {} {} {}", l.file, l.line, l.column);
                if let Some(Inlined { function, offset, at: (file, line, column) }) = l.inlined.as_deref() {
                    put!(self, ", function_name {function}");
                    if *offset != 0 {
                        put!(self, "+{offset}");
                    }
                    put!(self, ", inlined_at {file} {line} {column}");
                }
                self.out.push('\n');
            }
            Stmt::Pragma(words) => {
                self.out.push('\t');
                f.body.iter().for_each(|b| self.pragma(b.pragma(words)));
            }
            Stmt::Table(t) => self.table(f, &f.tables[t.index()]),
        }
    }

    fn table(&mut self, f: &Function, t: &Table) {
        match t {
            Table::Branch { name, targets } => {
                let names: Vec<&str> = targets.iter().map(|l| f.labels[l.index()].name.as_str()).collect();
                put!(self, "\t{name}: .branchtargets {};\n", names.join(", "));
            }
            Table::Call { name, targets } => {
                let names: Vec<&str> = targets.iter().map(|l| self.m.funcs[l.index()].name.as_str()).collect();
                put!(self, "\t{name}: .calltargets {};\n", names.join(", "));
            }
            Table::Prototype { name, returns, params, noreturn, directives } => {
                put!(self, "\t{name}: .callprototype ");
                if !returns.is_empty() {
                    self.params(returns);
                    self.out.push(' ');
                }
                self.out.push_str("_ ");
                self.params(params);
                if *noreturn {
                    self.out.push_str(" .noreturn");
                }
                for d in directives {
                    if let Directive::Other(word, args) = d {
                        self.out.push(' ');
                        self.other(word, args);
                    }
                }
                self.out.push_str(";\n");
            }
        }
    }

    fn inst(&mut self, inst: &Inst) {
        if let Some(g) = inst.guard {
            self.out.push_str(if g.negated { "@!" } else { "@" });
            self.reg(g.reg);
            self.out.push(' ');
        }
        self.out.push_str(inst.op.name());
        for m in inst.mods {
            self.out.push('.');
            self.out.push_str(m.name());
        }
        let operands = inst.operands;
        if inst.op == crate::isa::Op::Call {
            self.call(operands);
            return;
        }
        for (i, o) in operands.iter().enumerate() {
            self.out.push_str(if i == 0 { " " } else { ", " });
            self.operand(o);
        }
    }

    fn call(&mut self, operands: &[Operand]) {
        let empty = |o: Option<&Operand>| matches!(o, Some(Operand::List(l)) if l.is_empty());
        let mut first = true;
        for (i, o) in operands.iter().enumerate() {
            let skip = (i == 0 || (i == 2 && operands.len() == 3)) && empty(Some(o));
            if skip {
                continue;
            }
            self.out.push_str(if first { " " } else { ", " });
            first = false;
            self.operand(o);
        }
    }

    fn reg(&mut self, id: RegId) {
        match self.f.filter(|f| f.regs.len() > id.index()) {
            Some(f) => self.out.push_str(&f.reg_name(id)),
            None => put!(self, "%?{}", id.0),
        }
    }

    fn list(&mut self, items: &[Operand], open: char, close: char) {
        self.out.push(open);
        for (i, o) in items.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.operand(o);
        }
        self.out.push(close);
    }

    fn operand(&mut self, o: &Operand) {
        match o {
            Operand::Reg { reg, elem } => {
                self.reg(*reg);
                if let Some(e) = elem {
                    self.out.push_str([".x", ".y", ".z", ".w"][*e as usize & 3]);
                }
            }
            Operand::NotReg(r) => {
                self.out.push('!');
                self.reg(*r);
            }
            Operand::NegReg(r) => {
                self.out.push('-');
                self.reg(*r);
            }
            Operand::Part { reg, negated, select } => {
                if *negated {
                    self.out.push('-');
                }
                self.operand(&Operand::Reg { reg: *reg, elem: None });
                put!(self, ".{}", select.name());
            }
            Operand::Pair(p) => {
                self.operand(&p.0);
                self.out.push('|');
                self.operand(&p.1);
            }
            Operand::Special(s) => self.out.push_str(&s.name()),
            Operand::Int(i) => put!(self, "{i}"),
            Operand::F32(b) => put!(self, "0f{b:08X}"),
            Operand::F64(b) => put!(self, "0d{b:016X}"),
            Operand::Var { var, offset } => {
                self.out.push_str(&self.m.vars[var.index()].name);
                if *offset != 0 {
                    put!(self, "+{offset}");
                }
            }
            Operand::Mem(a) => {
                self.out.push('[');
                match a.base() {
                    AddressBase::Reg(r) => self.reg(r),
                    AddressBase::Var(v) => self.out.push_str(&self.m.vars[v.index()].name),
                    AddressBase::None => put!(self, "{}", a.offset()),
                }
                if a.offset() != 0 && a.base() != AddressBase::None {
                    put!(self, "+{}", a.offset());
                }
                self.out.push(']');
            }
            Operand::TexMem(parts) => self.list(parts, '[', ']'),
            Operand::Label(l) => match self.f.and_then(|f| f.labels.get(l.index())) {
                Some(l) => self.out.push_str(&l.name),
                None => put!(self, "$?{}", l.0),
            },
            Operand::Func(f) => self.out.push_str(&self.m.funcs[f.index()].name),
            Operand::Table(t) => {
                if let Some(Table::Branch { name, .. } | Table::Call { name, .. } | Table::Prototype { name, .. }) =
                    self.f.and_then(|f| f.tables.get(t.index()))
                {
                    self.out.push_str(name);
                }
            }
            Operand::Vector(parts) => self.list(parts, '{', '}'),
            Operand::List(parts) => self.list(parts, '(', ')'),
            Operand::Sink => self.out.push('_'),
        }
    }
}
