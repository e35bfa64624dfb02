//! Random programs of functions that call each other, in two modules: what tests of calling conventions link from the files of
//! two compilers.
//!
//! Every function mixes its parameters into a sum, calls others (by name and through pointers, under conditions that differ between
//! threads, recursively until a counter is spent), keeps values over the calls, and makes its result of the sum. Parameters and
//! results have every type and size: words of 8 to 128 bits, structures with their alignments, pointers, open lists of values.

use crate::Random;
use std::fmt::Write;

/// A program: the text of each module, and one module with all functions.
#[derive(Clone, Debug)]
pub struct Program {
    /// The two modules; the first one has the kernel `k(.u64 in, .u64 out)`, which reads [`IN_WORDS`] words a thread and writes
    /// [`OUT_WORDS`].
    pub modules: [String; 2],
    /// The same functions as one module.
    pub whole: String,
}

/// Words that a thread reads.
pub const IN_WORDS: usize = 4;
/// Words that a thread writes.
pub const OUT_WORDS: usize = 2;

/// A parameter or result.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// `.param .TYPE`: the type and its bytes.
    Scalar(&'static str, u32),
    /// `.param .align A .b8 x[N]`
    Bytes(u32, u32),
    /// The address of [`POINTED`] words in the caller's frame.
    Pointer,
    /// `.param .align A .b8 x[]`, with as many bytes as the call passes.
    Open(u32),
}

/// Words behind a pointer.
const POINTED: u32 = 4;
/// Bytes that calls pass for an open list.
const OPEN_BYTES: u32 = 24;

const SCALARS: [(&str, u32); 9] =
    [("b32", 4), ("u32", 4), ("f32", 4), ("b64", 8), ("s64", 8), ("f64", 8), ("b16", 2), ("b8", 1), ("b128", 16)];

#[derive(Clone, Debug)]
struct Function {
    name: String,
    module: usize,
    params: Vec<Kind>,
    /// Which parameter counts how deep calls may still go.
    depth: usize,
    result: Option<Kind>,
    weak: bool,
    /// Directives that say what it keeps, each with a blank before it.
    keeps: String,
}

impl Kind {
    fn random(r: &mut Random, result: bool) -> Kind {
        match r.index(if result { 7 } else { 8 }) {
            0..3 => {
                let (name, bytes) = SCALARS[r.index(SCALARS.len())];
                Kind::Scalar(name, bytes)
            }
            3..7 => {
                let align = 1 << r.index(5);
                let most = if result { 96 } else { 40 };
                Kind::Bytes(align, 1 + r.index(most) as u32)
            }
            _ => Kind::Pointer,
        }
    }

    fn declare(self, name: &str) -> String {
        match self {
            Kind::Scalar(ty, _) => format!(".param .{ty} {name}"),
            Kind::Bytes(align, n) => format!(".param .align {align} .b8 {name}[{n}]"),
            Kind::Pointer => format!(".param .b64 {name}"),
            Kind::Open(align) => format!(".param .align {align} .b8 {name}[]"),
        }
    }

    /// The declaration in a call.
    fn argument(self, name: &str) -> String {
        match self {
            Kind::Open(align) => format!(".param .align {align} .b8 {name}[{OPEN_BYTES}]"),
            other => other.declare(name),
        }
    }

    /// Accesses that cover it: offset, bytes.
    fn pieces(self) -> Vec<(u32, u32)> {
        let (align, n) = match self {
            // By halves: 13.5's ptxas reads the upper half of a whole one as 0.
            Kind::Scalar(_, 16) => return vec![(0, 8), (8, 8)],
            Kind::Scalar(_, n) => return vec![(0, n)],
            Kind::Pointer => return vec![(0, 8)],
            Kind::Bytes(align, n) => (align, n),
            Kind::Open(align) => (align, OPEN_BYTES),
        };
        let mut out = Vec::new();
        let mut at = 0;
        while at < n {
            let mut size = align.min(8);
            while size > n - at || !at.is_multiple_of(size) {
                size /= 2;
            }
            out.push((at, size));
            at += size;
        }
        out
    }
}

/// Makes the program of a seed.
pub fn program(seed: u64) -> Program {
    made(seed, false)
}

/// The same program, most of whose functions say what they keep for their callers: `.abi_preserve`, `.abi_preserve_control`.
pub fn keeping(seed: u64) -> Program {
    made(seed, true)
}

/// A program of one module whose kernel alone knows its functions: they are called by name, each calls only those behind it, and most are too
/// long to take the place of their calls. They have up to ten parameters, more than the window of the ABI has room for.
pub fn own(seed: u64) -> String {
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x0123_4567_89ab_cdef);
    let functions: Vec<Function> = (0..1 + r.index(5))
        .map(|n| {
            let many = [3, 11][r.index(2)];
            let kind = |r: &mut Random| match Kind::random(r, false) {
                Kind::Pointer if r.index(3) > 0 => Kind::Bytes(16, 16),
                kind => kind,
            };
            let mut params: Vec<Kind> = (0..r.index(many)).map(|_| kind(&mut r)).collect();
            let depth = r.index(params.len() + 1);
            params.insert(depth, Kind::Scalar("b32", 4));
            let result = (r.index(6) > 0).then(|| Kind::random(&mut r, true));
            Function { name: format!("f{n}"), module: 0, params, depth, result, weak: false, keeps: String::new() }
        })
        .collect();
    let mut out = ".version 8.7\n.target sm_75\n.address_size 64\n".to_string();
    for (n, f) in functions.iter().enumerate().rev() {
        out.push_str(header(f, "").trim_start_matches(".visible "));
        out.push_str(&format!("\n{}", body(&mut r, &functions, Some(n), true)));
    }
    out + ".visible .entry k(.param .u64 in, .param .u64 out)\n" + &body(&mut r, &functions, None, true)
}

/// Directives of a function with these parameters and results.
fn keeps(r: &mut Random, params: &[Kind], result: Option<Kind>) -> String {
    const REGISTERS: [u32; 14] = [0, 1, 2, 3, 4, 5, 8, 9, 12, 16, 20, 31, 60, 100];
    let words = |k: &Kind| k.pieces().iter().map(|p| p.1).sum::<u32>().div_ceil(16) * 4;
    let few = params.iter().map(words).sum::<u32>() <= 8 && result.iter().map(words).sum::<u32>() <= 8;
    let mut out = String::new();
    if r.index(4) > 0 {
        // With less than two the return address would lie where arguments may be.
        let least = if few { 0 } else { 2 };
        let _ = write!(out, " .abi_preserve {}", REGISTERS[least + r.index(REGISTERS.len() - least)]);
    }
    if r.index(2) == 0 {
        let _ = write!(out, " .abi_preserve_control {}", r.index(12));
    }
    out
}

fn made(seed: u64, keeping: bool) -> Program {
    let mut other = Random(seed ^ 0x0d1e_c71e);
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d);
    let functions: Vec<Function> = (0..4 + r.index(4))
        .map(|n| {
            let mut params: Vec<Kind> = (0..r.index(7)).map(|_| Kind::random(&mut r, false)).collect();
            let depth = r.index(params.len() + 1);
            params.insert(depth, Kind::Scalar("b32", 4));
            if r.index(4) == 0 {
                params.push(Kind::Open(4 << r.index(2)));
            }
            let result = (r.index(6) > 0).then(|| Kind::random(&mut r, true));
            let keeps = if keeping { keeps(&mut other, &params, result) } else { String::new() };
            Function { name: format!("f{n}"), module: (n + 1) % 2, params, depth, result, weak: r.index(5) == 0, keeps }
        })
        .collect();
    let mut bodies: Vec<String> = Vec::new();
    for f in 0..functions.len() {
        bodies.push(body(&mut r, &functions, Some(f), false));
    }
    let kernel =
        format!(".visible .entry k(.param .u64 in, .param .u64 out)\n{}", body(&mut r, &functions, None, false));
    // Pointers to functions lie in a table of the first module.
    let table = |functions: &[Function]| {
        let list: Vec<&str> = functions.iter().map(|f| f.name.as_str()).collect();
        format!(".visible .global .align 8 .u64 table[{}] = {{{}}};\n", list.len(), list.join(", "))
    };
    let outside = |functions: &[Function]| format!(".extern .global .align 8 .u64 table[{}];\n", functions.len());
    let text = |module: Option<usize>| {
        let version = if keeping { "9.0" } else { "8.7" };
        let mut out = format!(".version {version}\n.target sm_90\n.address_size 64\n");
        for f in &functions {
            out.push_str(&header(f, if module.is_none_or(|m| m == f.module) { "" } else { ".extern " }));
            out.push_str(";\n");
        }
        out.push_str(&if module == Some(1) { outside(&functions) } else { table(&functions) });
        for (f, body) in functions.iter().zip(&bodies) {
            if module.is_none_or(|m| m == f.module) {
                out.push_str(&header(f, ""));
                out.push('\n');
                out.push_str(body);
            }
        }
        if module != Some(1) {
            out.push_str(&kernel);
        }
        out
    };
    Program { modules: [text(Some(0)), text(Some(1))], whole: text(None) }
}

fn header(f: &Function, outside: &str) -> String {
    let linkage = match outside {
        "" if f.weak => ".weak ",
        "" => ".visible ",
        other => other,
    };
    let result = f.result.map_or(String::new(), |k| format!("({}) ", k.declare("result")));
    let params: Vec<String> = f.params.iter().enumerate().map(|(i, k)| k.declare(&format!("p{i}"))).collect();
    format!("{linkage}.func {result}{}({}){}", f.name, params.join(", "), f.keeps)
}

/// The text of a body: of a function, or of the kernel.
struct Text<'a> {
    r: &'a mut Random,
    out: String,
    /// Numbers of temporaries.
    next: u32,
}

impl Text<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, " {text}");
    }

    /// Mixes a register of 32 bits into the sum.
    fn mix(&mut self, word: &str) {
        let k = self.r.bits() as u32 | 1;
        self.line(&format!("mad.lo.u32 %sum, %sum, {k}, {word};"));
    }

    /// Mixes what the pieces of a parameter hold into the sum.
    fn take(&mut self, kind: Kind, name: &str) {
        if kind == Kind::Pointer {
            self.line(&format!("ld.param.b64 %d0, [{name}];"));
            for w in 0..POINTED {
                self.line(&format!("ld.u32 %t0, [%d0+{}];", 4 * w));
                self.mix("%t0");
            }
            self.line("add.u32 %t0, %sum, 5;");
            self.line("st.u32 [%d0+8], %t0;");
            return;
        }
        for (at, size) in kind.pieces() {
            match size {
                8 => {
                    self.line(&format!("ld.param.b64 %d0, [{name}+{at}];"));
                    self.line("mov.b64 {%t0, %t1}, %d0;");
                    self.mix("%t0");
                    self.mix("%t1");
                }
                4 => {
                    self.line(&format!("ld.param.b32 %t0, [{name}+{at}];"));
                    self.mix("%t0");
                }
                2 => {
                    self.line(&format!("ld.param.u16 %h0, [{name}+{at}];"));
                    self.line("cvt.u32.u16 %t0, %h0;");
                    self.mix("%t0");
                }
                _ => {
                    self.line(&format!("ld.param.u8 %t0, [{name}+{at}];"));
                    self.mix("%t0");
                }
            }
        }
    }

    /// Fills the pieces of a parameter from the sum.
    fn give(&mut self, kind: Kind, name: &str) {
        if kind == Kind::Pointer {
            for w in 0..POINTED {
                self.line(&format!("add.u32 %t0, %sum, {};", self.next + w));
                self.line(&format!("st.local.u32 [room+{}], %t0;", 4 * w));
            }
            self.line("mov.u64 %d0, room;");
            self.line("cvta.local.u64 %d0, %d0;");
            self.line(&format!("st.param.b64 [{name}], %d0;"));
            return;
        }
        for (at, size) in kind.pieces() {
            let k = self.r.bits() as u32;
            self.line(&format!("xor.b32 %t0, %sum, {k};"));
            match size {
                8 => {
                    self.line("mov.b64 %d0, {%t0, %sum};");
                    self.line(&format!("st.param.b64 [{name}+{at}], %d0;"));
                }
                4 => self.line(&format!("st.param.b32 [{name}+{at}], %t0;")),
                2 => {
                    self.line("cvt.u16.u32 %h0, %t0;");
                    self.line(&format!("st.param.b16 [{name}+{at}], %h0;"));
                }
                _ => self.line(&format!("st.param.b8 [{name}+{at}], %t0;")),
            }
        }
    }

    /// A call; `depth` is the register with what its callee may still call.
    fn call(&mut self, f: usize, functions: &[Function], depth: &str, own: bool) {
        let callee = &functions[f];
        self.next += 1;
        let n = self.next;
        self.line("{");
        for (i, &k) in callee.params.iter().enumerate() {
            let line = format!("{};", k.argument(&format!("a{i}")));
            self.line(&line);
        }
        if let Some(k) = callee.result {
            let line = format!("{};", k.argument("back"));
            self.line(&line);
        }
        for (i, &k) in callee.params.iter().enumerate() {
            let name = format!("a{i}");
            if i == callee.depth {
                self.line(&format!("st.param.b32 [{name}], {depth};"));
            } else {
                self.give(k, &name);
            }
        }
        let args: Vec<String> = (0..callee.params.len()).map(|i| format!("a{i}")).collect();
        let back = if callee.result.is_some() { "(back), " } else { "" };
        if !own && self.r.index(3) == 0 {
            let result = callee.result.map_or(String::new(), |k| format!("({}) ", k.declare("_")));
            let params: Vec<String> = callee.params.iter().map(|k| k.declare("_")).collect();
            self.line(&format!("proto{n}: .callprototype {result}_ ({}){};", params.join(", "), callee.keeps));
            if self.r.index(2) == 0 {
                self.line(&format!("mov.u64 %f, {};", callee.name));
            } else {
                self.line("mov.u64 %f, table;");
                self.line(&format!("ld.global.u64 %f, [%f+{}];", 8 * f));
            }
            self.line(&format!("call {back}%f, ({}), proto{n};", args.join(", ")));
        } else {
            self.line(&format!("call {back}{}, ({});", callee.name, args.join(", ")));
        }
        if let Some(k) = callee.result {
            if k == Kind::Pointer {
                self.line("ld.param.b64 %d0, [back];");
                self.line("mov.b64 {%t0, %t1}, %d0;");
                self.mix("%t0");
            } else {
                self.take(k, "back");
            }
        }
        if callee.params.contains(&Kind::Pointer) {
            self.line("ld.local.u32 %t0, [room+8];");
            self.mix("%t0");
        }
        self.line("}");
    }
}

/// Steps that make a function too long to take the place of its calls, in a loop that threads leave apart.
fn churn(t: &mut Text) {
    let steps = [3, 25, 45][t.r.index(3)];
    let turns = 1 + t.r.index(3);
    t.line(&format!("and.b32 %n, %sum, {turns};"));
    t.out.push_str("CHURN:\n");
    for _ in 0..steps {
        let k = t.r.bits() as u32;
        match t.r.index(4) {
            0 => t.line(&format!("xor.b32 %t0, %sum, {k};\n shf.l.wrap.b32 %sum, %sum, %t0, {};", k % 31)),
            1 => t.line(&format!("setp.lt.u32 %p2, %sum, {k};\n @%p2 add.u32 %sum, %sum, {};", k >> 7)),
            2 => t.line("mul.wide.u32 %d1, %sum, %sum;\n mov.b64 {%t0, %t1}, %d1;\n sub.u32 %sum, %t0, %t1;"),
            _ => t.mix("%n"),
        }
    }
    t.line("sub.u32 %n, %n, 1;\n setp.ge.s32 %p2, %n, 0;\n @%p2 bra CHURN;");
}

/// Which functions a body calls that calls only those behind it.
fn behind(r: &mut Random, functions: usize, of: Option<usize>) -> Vec<usize> {
    let first = of.map_or(0, |f| f + 1);
    let calls = match of {
        None => 2 + r.index(5),
        _ if first == functions => 0,
        _ => 1 + r.index(2),
    };
    (0..calls).map(|_| first + r.index(functions - first)).collect()
}

fn body(r: &mut Random, functions: &[Function], of: Option<usize>, own: bool) -> String {
    let mut t = Text { r, out: String::new(), next: 0 };
    let kept = [0, 3, 8, 20, 45][t.r.index(5)];
    t.line(&format!(".reg .b32 %t<4>, %sum, %depth, %less, %me, %n, %turn, %k<{}>;", kept + 1));
    t.line(".reg .b64 %d<4>, %f, %in, %out; .reg .b16 %h<2>; .reg .pred %p<4>;");
    t.line(".local .align 8 .b8 room[16];");
    t.line("mov.u32 %me, %tid.x;");
    match of {
        Some(f) => {
            let f = &functions[f];
            t.line(&format!("ld.param.b32 %depth, [p{}];", f.depth));
            t.line("mov.u32 %sum, %depth;");
            for (i, &k) in f.params.iter().enumerate().filter(|&(i, _)| i != f.depth) {
                t.take(k, &format!("p{i}"));
            }
        }
        None => {
            t.line("ld.param.u64 %in, [in];\n cvta.to.global.u64 %in, %in;");
            t.line("ld.param.u64 %out, [out];\n cvta.to.global.u64 %out, %out;");
            t.line(&format!("mad.wide.u32 %in, %me, {}, %in;", 4 * IN_WORDS));
            t.line(&format!("mad.wide.u32 %out, %me, {}, %out;", 4 * OUT_WORDS));
            t.line("mov.u32 %depth, 3;\n mov.u32 %sum, 1;");
            for w in 0..IN_WORDS {
                t.line(&format!("ld.global.u32 %t0, [%in+{}];", 4 * w));
                t.mix("%t0");
            }
        }
    }
    for k in 0..kept {
        let n = t.r.bits() as u32;
        t.line(&format!("xor.b32 %k{k}, %sum, {n};"));
    }
    t.line("setp.eq.u32 %p0, %depth, 0;\n @%p0 bra DONE;\n sub.u32 %less, %depth, 1;");
    if own && of.is_some() {
        churn(&mut t);
    }
    // The order of what is drawn is that of before there were functions of a kernel's own.
    let mut list = if own { behind(t.r, functions.len(), of) } else { vec![0; 1 + t.r.index(2)] };
    for (c, f) in list.iter_mut().enumerate() {
        if !own {
            *f = t.r.index(functions.len());
        }
        let f = *f;
        let again = own && t.r.index(3) == 0;
        if again {
            t.line("mov.u32 %turn, 0;");
            t.out.push_str(&format!("AGAIN{c}:\n"));
        }
        let apart = t.r.index(3) == 0;
        if apart {
            let bit = 1 << t.r.index(4);
            t.line(&format!("and.b32 %t0, %sum, {bit};"));
            t.line(&format!("setp.eq.u32 %p1, %t0, 0;\n @%p1 bra AFTER{c};"));
        }
        t.call(f, functions, "%less", own);
        if apart {
            t.line("add.u32 %sum, %sum, 9;");
            t.out.push_str(&format!("AFTER{c}:\n"));
        }
        if again {
            t.line(&format!("add.u32 %turn, %turn, 1;\n setp.lt.u32 %p3, %turn, 2;\n @%p3 bra AGAIN{c};"));
        }
    }
    t.out.push_str("DONE:\n");
    for k in 0..kept {
        t.line(&format!("add.u32 %t0, %k{k}, {k};"));
        t.mix("%t0");
    }
    match of {
        Some(f) => {
            if let Some(k) = functions[f].result {
                if k == Kind::Pointer {
                    t.line("mov.b64 %d0, {%sum, %depth};\n st.param.b64 [result], %d0;");
                } else {
                    t.give(k, "result");
                }
            }
        }
        None => {
            t.line("st.global.u32 [%out], %sum;");
            t.line("xor.b32 %t0, %sum, %me;\n st.global.u32 [%out+4], %t0;");
        }
    }
    t.line("ret;");
    format!("{{\n{}}}\n", t.out)
}
