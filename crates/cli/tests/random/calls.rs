//! Device functions, and calls of them: parameters and results of every kind, from straight code, branches and loops, directly
//! and through tables.

use super::{D, F, G, Gen, H, P, POOLS, Q, R, X, Y};
use std::fmt::Write;

/// A function that can be called, as its declaration tells.
#[derive(Clone)]
pub struct Function {
    name: String,
    /// Kinds of parameters and of the result, by pool.
    params: Vec<char>,
    result: char,
}

/// The type of a pool's registers as a parameter.
fn ty(pool: char) -> &'static str {
    match pool {
        'r' => ".b32",
        'd' => ".b64",
        'f' => ".f32",
        'g' => ".f64",
        'h' => ".b16",
        // A structure: two words of one pool.
        _ => ".align 8 .b8",
    }
}

fn declared(pool: char, name: &str) -> String {
    let array = if pool == 's' { "[20]" } else { "" };
    format!(".param {} {name}{array}", ty(pool))
}

impl Gen {
    /// Up to three functions; a later one may call those before it.
    pub(super) fn write_functions(&mut self) {
        for n in 0..self.rng.below(4) {
            let pools = ['r', 'r', 'd', 'f', 'g', 'h', 's'];
            let params = (0..self.rng.below(9)).map(|_| pools[self.rng.below(pools.len())]).collect();
            let result = pools[self.rng.below(pools.len())];
            let function = Function { name: format!("fun{n}"), params, result };
            self.write_function(&function);
            self.functions.push(function);
        }
    }

    fn write_function(&mut self, f: &Function) {
        let _ = write!(
            self.text,
            ".func ({}) {}(.param .b64 p_out, .param .b32 p_sm",
            declared(f.result, "result"),
            f.name
        );
        for (n, &pool) in f.params.iter().enumerate() {
            let _ = write!(self.text, ", {}", declared(pool, &format!("p{n}")));
        }
        let _ = writeln!(self.text, ")\n{{");
        self.text.push_str(POOLS);
        if self.sides {
            self.text.push_str(super::sides::POOLS);
        }
        for l in [
            "ld.param.b64 %a1, [p_out]",
            "ld.param.b32 %t5, [p_sm]",
            "mov.u32 %t1, %tid.x",
            "and.b32 %t12, %t1, 15",
            "shl.b32 %t12, %t12, 2",
            "mov.u32 %t11, all",
            "add.u32 %t12, %t12, %t11",
        ] {
            self.line(l);
        }
        for i in 0..R {
            self.line(&format!("add.u32 %r{i}, %t1, {}", i * 77));
        }
        for i in 0..D {
            self.line(&format!("mul.wide.u32 %d{i}, %r{i}, {}", 123_456_789 * (i + 1)));
        }
        for i in 0..F {
            self.line(&format!("cvt.rn.f32.u32 %f{i}, %r{i}"));
        }
        for i in 0..G {
            self.line(&format!("cvt.rn.f64.u32 %g{i}, %r{i}"));
        }
        for i in 0..H {
            self.line(&format!("cvt.u16.u32 %h{i}, %r{i}"));
        }
        for i in 0..P {
            self.line(&format!("setp.lt.u32 %p{i}, %r{i}, {}", 100 * i));
        }
        for i in 0..X {
            self.line(&format!("cvt.rn.f16x2.f32 %x{i}, %f{i}, %f{}", i + 1));
        }
        for i in 0..Y {
            self.line(&format!("cvt.rn.bf16x2.f32 %y{i}, %f{i}, %f{}", i + 1));
        }
        for i in 0..Q {
            self.line(&format!("mov.b128 %o{i}, {{%d{i}, %d{}}}", i + 1));
        }
        self.line("st.local.v2.u64 [stack], {%d0, %d1}");
        self.line("st.local.v2.u64 [stack+16], {%d1, %d0}");
        for (n, &pool) in f.params.iter().enumerate() {
            match pool {
                'r' => self.line(&format!("ld.param.b32 %r{}, [p{n}]", n % R)),
                'd' => self.line(&format!("ld.param.b64 %d{}, [p{n}]", n % D)),
                'f' => self.line(&format!("ld.param.f32 %f{}, [p{n}]", n % F)),
                'g' => self.line(&format!("ld.param.f64 %g{}, [p{n}]", n % G)),
                'h' => self.line(&format!("ld.param.b16 %h{}, [p{n}]", n % H)),
                _ => {
                    self.line(&format!("ld.param.b64 %d{}, [p{n}]", n % D));
                    self.line(&format!("ld.param.b32 %r{}, [p{n}+8]", n % R));
                    self.line(&format!("ld.param.f32 %f{}, [p{n}+12]", n % F));
                    self.line(&format!("ld.param.u8 %r{}, [p{n}+17]", (n + 1) % R));
                }
            }
        }
        // Nobody knows here whether all threads are together.
        self.depth = 1;
        for _ in 0..2 + self.rng.below(14) {
            self.statement();
        }
        self.depth = 0;
        match f.result {
            'r' => self.line("st.param.b32 [result], %r3"),
            'd' => self.line("st.param.b64 [result], %d2"),
            'f' => self.line("st.param.f32 [result], %f1"),
            'g' => self.line("st.param.f64 [result], %g1"),
            'h' => self.line("st.param.b16 [result], %h1"),
            _ => {
                self.line("st.param.b64 [result], %d1");
                self.line("st.param.b32 [result+8], %r1");
                self.line("st.param.f32 [result+12], %f2");
                self.line("st.param.b32 [result+16], %r5");
            }
        }
        self.text.push_str("\tret;\n}\n");
    }

    /// A call of any function that is there.
    pub(super) fn call(&mut self) {
        if self.functions.is_empty() {
            return self.integer32();
        }
        let f = self.functions[self.rng.below(self.functions.len())].clone();
        let guard = (self.rng.below(5) == 0).then(|| self.label());
        if let Some(skip) = &guard {
            let p = self.p();
            self.line(&format!("@{p} bra {skip}"));
        }
        self.text.push_str("\t{\n");
        let mut names = vec!["a_out".to_string(), "a_sm".to_string()];
        self.line(".param .b64 a_out");
        self.line(".param .b32 a_sm");
        self.line("st.param.b64 [a_out], %a1");
        self.line("st.param.b32 [a_sm], %t5");
        for (n, &pool) in f.params.iter().enumerate() {
            let name = format!("a{n}");
            self.line(&declared(pool, &name));
            match pool {
                'r' => {
                    let r = self.r_or_imm();
                    self.line(&format!("st.param.b32 [{name}], {r}"));
                }
                's' => {
                    let (d, r, x, f) = (self.d(), self.r(), self.r(), self.f());
                    self.line(&format!("st.param.b64 [{name}], {d}"));
                    self.line(&format!("st.param.b32 [{name}+8], {r}"));
                    self.line(&format!("st.param.f32 [{name}+12], {f}"));
                    self.line(&format!("st.param.b32 [{name}+16], {x}"));
                }
                _ => {
                    let v = match pool {
                        'd' => self.d(),
                        'f' => self.f(),
                        'g' => self.g(),
                        _ => self.h(),
                    };
                    self.line(&format!("st.param{} [{name}], {v}", ty(pool)));
                }
            }
            names.push(name);
        }
        self.line(&declared(f.result, "a_res"));
        let uni = if self.depth == 0 && guard.is_none() { self.rng.pick(&["", ".uni"]) } else { "" };
        self.line(&format!("call{uni} (a_res), {}, ({})", f.name, names.join(", ")));
        match f.result {
            's' => {
                let (d, r, x, f) = (self.d(), self.r(), self.r(), self.f());
                self.line(&format!("ld.param.b64 {d}, [a_res]"));
                self.line(&format!("ld.param.b32 {r}, [a_res+8]"));
                self.line(&format!("ld.param.f32 {f}, [a_res+12]"));
                self.line(&format!("ld.param.b32 {x}, [a_res+16]"));
            }
            pool => {
                let v = match pool {
                    'r' => self.r(),
                    'd' => self.d(),
                    'f' => self.f(),
                    'g' => self.g(),
                    _ => self.h(),
                };
                self.line(&format!("ld.param{} {v}, [a_res]", ty(pool)));
            }
        }
        self.text.push_str("\t}\n");
        if let Some(skip) = guard {
            let _ = writeln!(self.text, "{skip}:");
        }
    }
}
