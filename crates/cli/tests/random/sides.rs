//! The same computed of both halves of words, half by half: what the compiler makes operations on words of, and what is nearly that.

use super::Gen;
use std::fmt::Write;

/// Seeds from here on have such statements; those before stay the programs that they were.
pub const FIRST: u64 = 1_000_000;

/// The registers of these statements: lower halves, upper ones, a number of turns.
pub(super) const POOLS: &str = "\t.reg .b16 %j<8>, %k<8>;\n\t.reg .b32 %n<2>;\n\t.reg .pred %z<2>;\n";

impl Gen {
    /// A few operations on both halves, maybe in a loop, with what is put together or read of them.
    pub(super) fn sides(&mut self) {
        let brain = self.rng.below(3) == 0;
        let ty = if brain { "bf16" } else { "f16" };
        let word = |g: &mut Self| if brain { g.y() } else { g.x() };
        for n in 0..3 {
            let w = word(self);
            self.line(&format!("mov.b32 {{%j{n}, %k{n}}}, {w}"));
        }
        for (n, side) in [(3, 'j'), (3, 'k')] {
            let bits = self.rng.pick(&["0", "0x8000", "0x3c00", "0x3f80", "1"]);
            self.line(&format!("mov.b16 %{side}{n}, {bits}"));
        }
        for n in 4..6 {
            let from = self.rng.below(4);
            self.line(&format!("mov.b16 %j{n}, %j{from}"));
            let from = if self.rng.below(6) == 0 { self.rng.below(4) } else { from };
            self.line(&format!("mov.b16 %k{n}, %k{from}"));
        }
        let repeats = self.rng.below(2) == 0;
        let head = self.label();
        if repeats {
            let r = self.r();
            self.line(&format!("and.b32 %n0, {r}, 3"));
            let _ = writeln!(self.text, "{head}:");
        }
        for _ in 0..1 + self.rng.below(3) {
            self.operations(ty);
        }
        if self.rng.below(3) == 0 {
            self.line("st.local.b16 [stack+8], %j4");
            self.operations(ty);
        }
        if repeats {
            self.line("sub.s32 %n0, %n0, 1");
            self.line("setp.gt.s32 %z0, %n0, 0");
            self.line(&format!("@%z0 bra {head}"));
        }
        let d = word(self);
        for i in ["%j4", "%k4", "%j5", "%k5"] {
            // What is put together is hidden where it is read; what is read as a number must be.
            if self.rng.below(8) == 0 {
                let f = self.f();
                let to = if brain { format!("cvt.f32.bf16 {f}, {i}") } else { format!("cvt.f32.f16 {f}, {i}") };
                self.line(&to);
            }
        }
        self.line("mov.b16 %j6, 0");
        self.line("st.local.b16 [stack+8], %j6");
        let parts = self.rng.pick(&["%j4, %k4", "%j5, %k5", "%j4, %k4", "%k4, %j4", "%j4, %k5"]);
        self.line(&format!("mov.b32 {d}, {{{parts}}}"));
    }

    /// One to four operations on lower halves, and on upper ones mostly the same.
    fn operations(&mut self, ty: &str) {
        let (mut lower, mut upper) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.rng.below(4) {
            let ftz = if ty == "f16" { self.rng.pick(&["", "", ".ftz"]) } else { "" };
            let sat = if ty == "f16" { self.rng.pick(&["", "", "", ".sat"]) } else { "" };
            let (op, sources) = match self.rng.below(10) {
                0 => (format!("add.rn{ftz}{sat}"), 2),
                1 => (format!("sub.rn{ftz}{sat}"), 2),
                2 => (format!("mul.rn{ftz}{sat}"), 2),
                3..6 => (format!("fma.rn{ftz}{sat}"), 3),
                6 => ("fma.rn.relu".into(), 3),
                7 => {
                    let nan = self.rng.pick(&["", ".NaN", ".xorsign.abs"]);
                    (format!("{}{ftz}{nan}", self.rng.pick(&["min", "max"])), 2)
                }
                8 => (self.rng.pick(&["neg", "abs"]).to_string(), 1),
                _ => (format!("mul.rn{ftz}"), 2),
            };
            let to = 4 + self.rng.below(3).min(1);
            let (mut l, mut u) = (format!("{op}.{ty} %j{to}"), format!("{op}.{ty} %k{to}"));
            for _ in 0..sources {
                let n = self.rng.below(6);
                let (x, y) = match self.rng.below(12) {
                    0 | 1 => (format!("%j{n}"), format!("%j{n}")),
                    2 => (format!("%k{n}"), format!("%k{n}")),
                    3 if self.rng.below(3) == 0 => (format!("%j{n}"), format!("%k{}", self.rng.below(6))),
                    _ => (format!("%j{n}"), format!("%k{n}")),
                };
                l += &format!(", {x}");
                u += &format!(", {y}");
            }
            lower.push(l);
            upper.push(u);
        }
        if self.rng.below(2) == 0 {
            let mixed: Vec<String> = lower.into_iter().zip(upper).flat_map(|(l, u)| [l, u]).collect();
            mixed.iter().for_each(|l| self.line(l));
        } else {
            lower.iter().chain(&upper).for_each(|l| self.line(l));
        }
    }
}
