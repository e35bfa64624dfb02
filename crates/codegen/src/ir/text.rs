//! The text form, printed and parsed; what is printed parses to the same function.
//!
//! ```text
//! func saxpy entry locals=0:0 returns() {         # of a device function with `in=4,5 out=4`: the GPRs of its words
//! blk0():
//!     v0:b32 = param {imm=8 bytes=4}
//!     v1:b32 = fadd v0, v0 {fmt=f32 rnd=rz ftz}
//!     brif v2, blk1(v1), blk2()
//! ...
//! }
//! ```

mod read;

pub use read::parse;

use super::{Attr, Cmp, Edge, Fmt, Func, Inst, Mem, MemSpace, Op, Rnd, Scope, Sem, Term, Ty, Value};
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
    let registers = |key: &str, list: &[u8]| match list {
        [] => String::new(),
        list => format!(" {key}={}", list.iter().map(u8::to_string).collect::<Vec<_>>().join(",")),
    };
    let _ = writeln!(
        out,
        "func {}{kind} locals={}:{}{}{} returns({}) {{",
        f.name,
        f.local_size,
        f.local_align,
        registers("in", &f.signature.args),
        registers("out", &f.signature.rets),
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
        let device = "func d locals=0:0 in=4,5 out=4 returns(b32) {\nblk0(v0:b32, v1:b32):\n    ret v1\n}\n";
        assert_eq!(print(&parse(device).unwrap()[0]), device);
    }

    #[test]
    fn errors_name_the_line() {
        let bad = |text: &str, message: &str| {
            assert!(parse(text).unwrap_err().contains(message), "{:?}", parse(text));
        };
        bad("func k returns() {\nblk0():\n v0:b32 = wobble\n exit\n}", "line 3: no operation 'wobble'");
        bad("func k returns() {\nblk0():\n v0:b32 = not v1\n exit\n}", "v1 is not defined");
        bad("func k returns() {\nblk0():\n v0:b32 = const\n v0:b32 = const\n exit\n}", "v0 is defined twice");
        bad("func k in=4,x returns() {\nblk0():\n exit\n}", "line 1: no register 'x'");
        bad("func k returns() {\nblk1():\n exit\n}", "numbered in order");
    }
}
