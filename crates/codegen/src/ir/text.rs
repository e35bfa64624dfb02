//! The text form, printed and parsed; what is printed parses to the same function.
//!
//! ```text
//! func saxpy entry locals=0:0 returns() {
//! blk0():
//!     v0:b32 = param {imm=8 bytes=4}
//!     v1:b32 = fadd v0, v0 {fmt=f32 rnd=rz ftz}
//!     brif v2, blk1(v1), blk2()
//! ...
//! }
//! ```

use super::{
    Attr, BlockData, Cmp, Def, Edge, Fmt, Func, Inst, Mem, MemSpace, Op, Rnd, Scope, Sem, Term, Ty, Value, ValueData,
};
use super::{Block, InstId};
use smallvec::SmallVec;
use std::fmt::Write;

macro_rules! names {
    ($ty:ty, $to:ident, $from:ident, $($variant:path = $text:literal),* $(,)?) => {
        fn $to(x: $ty) -> &'static str {
            match x { $($variant => $text),* }
        }
        fn $from(s: &str) -> Option<$ty> {
            match s { $($text => Some($variant),)* _ => None }
        }
    };
}

names!(Ty, ty_name, ty_from, Ty::P = "p", Ty::B16 = "b16", Ty::B32 = "b32", Ty::B64 = "b64");
names!(
    Fmt,
    fmt_name,
    fmt_from,
    Fmt::None = "none",
    Fmt::F16 = "f16",
    Fmt::F16x2 = "f16x2",
    Fmt::BF16 = "bf16",
    Fmt::BF16x2 = "bf16x2",
    Fmt::F32 = "f32",
    Fmt::F64 = "f64",
);
names!(Rnd, rnd_name, rnd_from, Rnd::Rn = "rn", Rnd::Rz = "rz", Rnd::Rm = "rm", Rnd::Rp = "rp");
names!(
    Cmp,
    cmp_name,
    cmp_from,
    Cmp::Eq = "eq",
    Cmp::Ne = "ne",
    Cmp::Lt = "lt",
    Cmp::Le = "le",
    Cmp::Gt = "gt",
    Cmp::Ge = "ge",
    Cmp::Equ = "equ",
    Cmp::Neu = "neu",
    Cmp::Ltu = "ltu",
    Cmp::Leu = "leu",
    Cmp::Gtu = "gtu",
    Cmp::Geu = "geu",
    Cmp::Num = "num",
    Cmp::Nan = "nan",
);
names!(
    MemSpace,
    space_name,
    space_from,
    MemSpace::Generic = "generic",
    MemSpace::Global = "global",
    MemSpace::Shared = "shared",
    MemSpace::Local = "local",
    MemSpace::Const = "const",
    MemSpace::Param = "param",
    MemSpace::Stack = "stack",
);
names!(
    Scope,
    scope_name,
    scope_from,
    Scope::None = "none",
    Scope::Cta = "cta",
    Scope::Cluster = "cluster",
    Scope::Gpu = "gpu",
    Scope::Sys = "sys",
);
names!(
    Sem,
    sem_name,
    sem_from,
    Sem::Weak = "weak",
    Sem::Relaxed = "relaxed",
    Sem::Acquire = "acquire",
    Sem::Release = "release",
    Sem::AcqRel = "acq_rel",
    Sem::Volatile = "volatile",
    Sem::Mmio = "mmio",
);

fn values(out: &mut String, list: &[Value]) {
    for (i, v) in list.iter().enumerate() {
        let _ = write!(out, "{}v{}", if i > 0 { ", " } else { "" }, v.0);
    }
}

fn edge(e: &Edge) -> String {
    let mut out = format!("blk{}(", e.block.0);
    values(&mut out, &e.args);
    out.push(')');
    out
}

fn attributes(inst: &Inst) -> String {
    let (a, m, d, e) = (&inst.attr, &inst.mem, Attr::default(), Mem::default());
    let mut words: Vec<String> = Vec::new();
    let mut word = |cond: bool, text: String| {
        if cond {
            words.push(text);
        }
    };
    word(a.fmt != d.fmt, format!("fmt={}", fmt_name(a.fmt)));
    word(a.fmt2 != d.fmt2, format!("fmt2={}", fmt_name(a.fmt2)));
    word(a.rnd != d.rnd, format!("rnd={}", rnd_name(a.rnd)));
    word(matches!(inst.op, Op::ICmp | Op::FCmp), format!("cmp={}", cmp_name(a.cmp)));
    word(a.ftz, "ftz".into());
    word(a.sat, "sat".into());
    word(a.signed, "signed".into());
    word(a.sub != 0, format!("sub={}", a.sub));
    word(m.space != e.space, format!("space={}", space_name(m.space)));
    word(m.bytes != 0, format!("bytes={}", m.bytes));
    word(m.sem != e.sem, format!("sem={}", sem_name(m.sem)));
    word(m.scope != e.scope, format!("scope={}", scope_name(m.scope)));
    word(m.nc, "nc".into());
    word(m.evict != 0, format!("evict={}", m.evict));
    word(m.prefetch != 0, format!("prefetch={}", m.prefetch));
    word(m.policy, "policy".into());
    word(inst.imm != 0 || inst.op == Op::Const, format!("imm={}", inst.imm));
    word(inst.loc != u32::MAX, format!("loc={}", inst.loc));
    if words.is_empty() { String::new() } else { format!(" {{{}}}", words.join(" ")) }
}

/// The text of one instruction.
pub fn print_inst(f: &Func, inst: &Inst) -> String {
    let mut out = String::new();
    for (i, &r) in inst.results.iter().enumerate() {
        let _ = write!(out, "{}v{}:{}", if i > 0 { ", " } else { "" }, r.0, ty_name(f.ty(r)));
    }
    if !inst.results.is_empty() {
        out.push_str(" = ");
    }
    out.push_str(inst.op.name());
    if !inst.args.is_empty() {
        out.push(' ');
        values(&mut out, &inst.args);
    }
    out + &attributes(inst)
}

/// The text of a function.
pub fn print(f: &Func) -> String {
    let mut out = String::new();
    let kind = if f.entry { " entry" } else { "" };
    let returns: Vec<_> = f.returns.iter().map(|&t| ty_name(t)).collect();
    let _ = writeln!(
        out,
        "func {}{kind} locals={}:{} returns({}) {{",
        f.name,
        f.local_size,
        f.local_align,
        returns.join(", ")
    );
    for (b, block) in f.blocks.iter().enumerate() {
        let params: Vec<_> = block.params.iter().map(|&p| format!("v{}:{}", p.0, ty_name(f.ty(p)))).collect();
        let rolled = if block.rolled { " rolled" } else { "" };
        let _ = writeln!(out, "blk{b}({}){rolled}:", params.join(", "));
        for &id in &block.insts {
            let _ = writeln!(out, "    {}", print_inst(f, f.inst(id)));
        }
        let uni = |u: bool| if u { ".uni" } else { "" };
        let term = match &block.term {
            Term::Br(e) => format!("br {}", edge(e)),
            Term::CondBr { cond, uniform, then, els } => {
                format!("brif{} v{}, {}, {}", uni(*uniform), cond.0, edge(then), edge(els))
            }
            Term::Switch { index, uniform, targets } => {
                let t: Vec<_> = targets.iter().map(|t| format!("blk{}", t.0)).collect();
                format!("switch{} v{}, {}", uni(*uniform), index.0, t.join(", "))
            }
            Term::Exit => "exit".into(),
            Term::Ret(v) => {
                let mut s = "ret ".to_string();
                values(&mut s, v);
                s.trim_end().to_string()
            }
            Term::Unreachable => "unreachable".into(),
        };
        let _ = writeln!(out, "    {term}");
    }
    out.push_str("}\n");
    out
}

/// Reads functions from text; an error names the line (from 1) and what is wrong there.
pub fn parse(text: &str) -> Result<Vec<Func>, String> {
    let mut funcs = Vec::new();
    let mut current: Option<Parser> = None;
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let at = |e: String| format!("line {}: {e}", n + 1);
        if let Some(header) = line.strip_prefix("func ") {
            current = Some(Parser::header(header).map_err(at)?);
        } else if line == "}" {
            funcs.push(current.take().ok_or_else(|| at("no function is open".into()))?.finish().map_err(at)?);
        } else {
            current.as_mut().ok_or_else(|| at("outside a function".into()))?.line(line).map_err(at)?;
        }
    }
    if current.is_some() { Err("the last function is not closed".into()) } else { Ok(funcs) }
}

#[derive(Default)]
struct Parser {
    func: Func,
    defined: Vec<bool>,
}

impl Parser {
    fn header(text: &str) -> Result<Parser, String> {
        let mut p = Parser::default();
        let (head, tail) = text.split_once("returns(").ok_or("no returns(...)")?;
        let types = tail.split_once(')').ok_or("no ')'")?.0;
        for t in types.split(',').map(str::trim).filter(|t| !t.is_empty()) {
            p.func.returns.push(ty_from(t).ok_or_else(|| format!("no type '{t}'"))?);
        }
        for (i, word) in head.split_whitespace().enumerate() {
            if i == 0 {
                p.func.name = word.into();
            } else if word == "entry" {
                p.func.entry = true;
            } else if let Some((size, align)) = word.strip_prefix("locals=").and_then(|w| w.split_once(':')) {
                p.func.local_size = size.parse().map_err(|_| "bad locals")?;
                p.func.local_align = align.parse().map_err(|_| "bad locals")?;
            } else {
                return Err(format!("unexpected '{word}'"));
            }
        }
        Ok(p)
    }

    fn value(&mut self, text: &str) -> Result<Value, String> {
        let n: u32 =
            text.trim().strip_prefix('v').and_then(|t| t.parse().ok()).ok_or_else(|| format!("no value '{text}'"))?;
        if n > 1 << 24 {
            return Err(format!("value number {n} is too large"));
        }
        while self.func.values.len() <= n as usize {
            self.func.new_value(Ty::B32, Def::Param(Block(u32::MAX), 0));
            self.defined.push(false);
        }
        Ok(Value(n))
    }

    fn define(&mut self, text: &str, def: Def) -> Result<Value, String> {
        let (v, ty) = text.split_once(':').ok_or_else(|| format!("'{text}' has no type"))?;
        let ty = ty_from(ty.trim()).ok_or_else(|| format!("no type '{ty}'"))?;
        let v = self.value(v)?;
        if std::mem::replace(&mut self.defined[v.index()], true) {
            return Err(format!("v{} is defined twice", v.0));
        }
        self.func.values[v.index()] = ValueData { ty, def };
        Ok(v)
    }

    fn list(&mut self, text: &str) -> Result<Vec<Value>, String> {
        text.split(',').map(str::trim).filter(|t| !t.is_empty()).map(|t| self.value(t)).collect()
    }

    fn block(text: &str) -> Result<Block, String> {
        text.trim()
            .strip_prefix("blk")
            .and_then(|t| t.parse().ok())
            .map(Block)
            .ok_or_else(|| format!("no block '{text}'"))
    }

    fn edge(&mut self, text: &str) -> Result<Edge, String> {
        let (block, args) = text.trim().trim_end_matches(')').split_once('(').ok_or("an edge is blkN(args)")?;
        Ok(Edge { block: Self::block(block)?, args: self.list(args)? })
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(head) = line.strip_prefix("blk").filter(|_| line.ends_with(':')) {
            let rolled = head.ends_with(" rolled:");
            let head = head.trim_end_matches(" rolled:");
            let (n, params) =
                head.trim_end_matches(':').trim_end_matches(')').split_once('(').ok_or("a block is blkN(params):")?;
            let b = self.func.blocks.len();
            if n.parse() != Ok(b) {
                return Err(format!("blocks are numbered in order; this is blk{b}"));
            }
            self.func.blocks.push(BlockData { rolled, ..BlockData::empty() });
            for (i, p) in params.split(',').map(str::trim).filter(|t| !t.is_empty()).enumerate() {
                let v = self.define(p, Def::Param(Block(b as u32), i as u32))?;
                self.func.blocks[b].params.push(v);
            }
            return Ok(());
        }
        if self.func.blocks.is_empty() {
            return Err("no block is open".into());
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let term = match word {
            "br" => Term::Br(self.edge(rest)?),
            "brif" | "brif.uni" => {
                let (cond, edges) = rest.split_once(',').ok_or("brif takes a condition")?;
                let (then, els) = edges.split_once("),").ok_or("brif takes two edges")?;
                let cond = self.value(cond)?;
                let (then, els) = (self.edge(then)?, self.edge(els)?);
                Term::CondBr { cond, uniform: word.ends_with("uni"), then, els }
            }
            "switch" | "switch.uni" => {
                let (index, targets) = rest.split_once(',').ok_or("switch takes targets")?;
                let index = self.value(index)?;
                let targets = targets.split(',').map(Self::block).collect::<Result<_, _>>()?;
                Term::Switch { index, uniform: word.ends_with("uni"), targets }
            }
            "exit" => Term::Exit,
            "ret" => Term::Ret(self.list(rest)?),
            "unreachable" => Term::Unreachable,
            _ => return self.inst(line),
        };
        self.func.blocks.last_mut().expect("a block is open").term = term;
        Ok(())
    }

    fn inst(&mut self, line: &str) -> Result<(), String> {
        let id = InstId(self.func.insts.len() as u32);
        let (results, rest) = match line.split_once(" = ") {
            Some((r, rest)) => (r, rest),
            None => ("", line),
        };
        let (body, attrs) = match rest.split_once('{') {
            Some((b, a)) => (b.trim(), a.trim_end_matches('}')),
            None => (rest, ""),
        };
        let (name, args) = body.split_once(' ').unwrap_or((body, ""));
        let op = Op::from_name(name).ok_or_else(|| format!("no operation '{name}'"))?;
        let mut inst = Inst {
            op,
            attr: Attr::default(),
            mem: Mem::default(),
            imm: 0,
            args: SmallVec::from_vec(self.list(args)?),
            results: SmallVec::new(),
            loc: u32::MAX,
        };
        for (n, r) in results.split(',').map(str::trim).filter(|t| !t.is_empty()).enumerate() {
            let v = self.define(r, Def::Inst(id, n as u8))?;
            inst.results.push(v);
        }
        for word in attrs.split_whitespace() {
            attribute(&mut inst, word).ok_or_else(|| format!("no attribute '{word}'"))?;
        }
        self.func.insts.push(inst);
        self.func.blocks.last_mut().expect("a block is open").insts.push(id);
        Ok(())
    }

    fn finish(self) -> Result<Func, String> {
        match self.defined.iter().position(|d| !d) {
            Some(v) => Err(format!("v{v} is not defined")),
            None => Ok(self.func),
        }
    }
}

fn attribute(inst: &mut Inst, word: &str) -> Option<()> {
    let (a, m) = (&mut inst.attr, &mut inst.mem);
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    match key {
        "fmt" => a.fmt = fmt_from(value)?,
        "fmt2" => a.fmt2 = fmt_from(value)?,
        "rnd" => a.rnd = rnd_from(value)?,
        "cmp" => a.cmp = cmp_from(value)?,
        "ftz" => a.ftz = true,
        "sat" => a.sat = true,
        "signed" => a.signed = true,
        "sub" => a.sub = value.parse().ok()?,
        "space" => m.space = space_from(value)?,
        "bytes" => m.bytes = value.parse().ok()?,
        "sem" => m.sem = sem_from(value)?,
        "scope" => m.scope = scope_from(value)?,
        "nc" => m.nc = true,
        "policy" => m.policy = true,
        "evict" => m.evict = value.parse().ok()?,
        "prefetch" => m.prefetch = value.parse().ok()?,
        "imm" => inst.imm = value.parse().ok()?,
        "loc" => inst.loc = value.parse().ok()?,
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOP: &str = "\
func k entry locals=16:8 returns() {
blk0():
    v0:b32 = const {imm=0}
    v1:b64 = param {bytes=8 imm=8}
    br blk1(v0)
blk1(v2:b32) rolled:
    v3:b32 = load v1 {space=global bytes=4 nc imm=-4}
    v4:b32 = fadd v3, v2 {fmt=f32 rnd=rz ftz loc=17}
    v5:b32, v6:p = shfl v4, v0, v0, v0 {sub=2}
    v7:p = icmp v5, v0 {cmp=lt signed}
    brif v7, blk1(v4), blk2()
blk2():
    switch.uni v5, blk3, blk3
blk3():
    exit
}
";

    #[test]
    fn text_comes_back() {
        let funcs = parse(LOOP).unwrap();
        assert_eq!(print(&funcs[0]), LOOP);
    }

    #[test]
    fn errors_name_the_line() {
        let bad = |text: &str, message: &str| {
            assert!(parse(text).unwrap_err().contains(message), "{:?}", parse(text));
        };
        bad("func k returns() {\nblk0():\n v0:b32 = wobble\n exit\n}", "line 3: no operation 'wobble'");
        bad("func k returns() {\nblk0():\n v0:b32 = not v1\n exit\n}", "v1 is not defined");
        bad("func k returns() {\nblk0():\n v0:b32 = const\n v0:b32 = const\n exit\n}", "v0 is defined twice");
        bad("func k returns() {\nblk1():\n exit\n}", "numbered in order");
    }
}
