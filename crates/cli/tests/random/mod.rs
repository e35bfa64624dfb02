//! A seeded generator of PTX kernels: straight lines, branches and loops over pools of registers of every width.
//!
//! Every program is defined: divisors are not zero, NaN bits are hidden before they are looked at as integers, shuffles
//! stand where all threads are together, memory is private to a thread.

mod calls;
pub mod mutated;
pub mod sides;
pub mod ways;
mod wide;

use std::fmt::Write;

/// A xorshift generator.
pub struct Rng(pub u64);

impl Rng {
    /// The next 64 bits.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    fn pick(&mut self, list: &[&'static str]) -> &'static str {
        list[self.below(list.len())]
    }
}

const R: usize = 12;
const D: usize = 6;
const F: usize = 8;
const G: usize = 4;
const H: usize = 4;
const P: usize = 4;
/// Pairs of halves, pairs of bfloats, values of 128 bits.
const X: usize = 4;
const Y: usize = 3;
const Q: usize = 2;

/// Bytes of a thread's part of the output buffer: results, then scratch space.
pub const OUT_BYTES: usize = 512;
/// Bytes of a thread's part of the input buffer.
pub const IN_BYTES: usize = 64;
/// Offset of the scratch space.
const SCRATCH: usize = 256;

/// The registers of a kernel or function, and its own memory.
const POOLS: &str = "\t.reg .b32 %r<14>, %c<8>, %t<16>, %v<8>;\n\t.reg .b64 %d<8>, %a<8>, %u<4>;\n\t.reg .f32 %f<10>;\n\
    \t.reg .f64 %g<6>;\n\t.reg .b16 %h<6>, %i<4>;\n\t.reg .pred %p<6>, %q<4>;\n\t.reg .b32 %x<6>, %y<5>;\n\t.reg .b128 %o<3>;\n\
    \t.local .align 16 .b8 stack[32];\n";

struct Gen {
    rng: Rng,
    text: String,
    labels: u32,
    /// Nesting of branches and loops; 0 is where all threads are together.
    depth: u32,
    loops: u32,
    /// Device functions that can be called from here.
    functions: Vec<calls::Function>,
    /// All classes, not the first ones alone.
    wide: bool,
    /// Statements on both halves of words, too.
    sides: bool,
}

/// The kernel of a seed; `statements` is about how many instructions its body has. With `wide` it has all classes: halves, bytes of
/// floats, video, 128 bits, atomics of every kind, indexed branches, generic addresses, matrices, calls. From [`ways::FIRST`] on it has what [`ways`] says.
pub fn program(seed: u64, statements: usize, wide: bool) -> String {
    if (ways::FIRST..ways::MIXED).contains(&seed) {
        return ways::program(seed);
    }
    let mut g = Gen {
        rng: Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        text: String::new(),
        labels: 0,
        depth: 0,
        loops: 0,
        functions: Vec::new(),
        wide,
        sides: wide && (sides::FIRST..ways::FIRST).contains(&seed),
    };
    if seed >= ways::MIXED {
        return ways::mixed(g, seed >= ways::TOGETHER);
    }
    g.text.push_str(".version 8.7\n.target sm_90\n.address_size 64\n");
    g.text.push_str(wide::TABLE);
    if wide {
        g.write_functions();
    }
    g.head();
    let end = g.text.matches(';').count() + statements;
    while g.text.matches(';').count() < end {
        g.statement();
    }
    g.tail();
    g.text
}

impl Gen {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "\t{text};");
    }

    fn r(&mut self) -> String {
        format!("%r{}", self.rng.below(R))
    }
    fn d(&mut self) -> String {
        format!("%d{}", self.rng.below(D))
    }
    fn f(&mut self) -> String {
        format!("%f{}", self.rng.below(F))
    }
    fn g(&mut self) -> String {
        format!("%g{}", self.rng.below(G))
    }
    fn h(&mut self) -> String {
        format!("%h{}", self.rng.below(H))
    }
    fn p(&mut self) -> String {
        format!("%p{}", self.rng.below(P))
    }

    /// A 32-bit source: mostly a register, sometimes a constant.
    fn r_or_imm(&mut self) -> String {
        match self.rng.below(5) {
            0 => (self.rng.next() as i32).to_string(),
            1 => (self.rng.below(40) as i32 - 4).to_string(),
            _ => self.r(),
        }
    }

    fn head(&mut self) {
        self.text.push_str(".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)\n{\n");
        self.text.push_str(POOLS);
        if self.sides {
            self.text.push_str(sides::POOLS);
        }
        self.text.push_str("\t.shared .align 16 .b8 sm[1024];\n");
        self.text.push_str("\t.shared .align 16 .b8 warps[2048];\n");
        for l in [
            "ld.param.u64 %a0, [in]",
            "ld.param.u64 %a1, [out]",
            "ld.param.u32 %t0, [n]",
            "cvta.to.global.u64 %a0, %a0",
            "cvta.to.global.u64 %a1, %a1",
            "mov.u32 %t1, %tid.x",
            "mov.u32 %t2, %ctaid.x",
            "mov.u32 %t3, %ntid.x",
            "mad.lo.s32 %t4, %t2, %t3, %t1",
            "setp.ge.u32 %q0, %t4, %t0",
            "@%q0 bra END",
            "mul.wide.u32 %a2, %t4, 64",
            // What all threads of a block add to, and a part for each warp.
            "mov.u32 %t11, all",
            "and.b32 %t12, %t1, 15",
            "shl.b32 %t12, %t12, 2",
            "add.u32 %t12, %t12, %t11",
            "mov.u32 %t13, 0",
            "st.shared.u32 [%t12], %t13",
            "mov.u32 %t13, warps",
            "shr.u32 %t14, %t1, 5",
            "shl.b32 %t14, %t14, 10",
            "add.u32 %t13, %t13, %t14",
            "bar.sync 0",
            "add.s64 %a0, %a0, %a2",
            "mul.wide.u32 %a3, %t4, 512",
            "add.s64 %a1, %a1, %a3",
            // A thread's part of shared memory: 16 bytes, for 64 threads.
            "shl.b32 %t5, %t1, 4",
            "mov.u32 %t6, sm",
            "add.u32 %t5, %t5, %t6",
            "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%a0]",
            "ld.global.v2.u64 {%d0, %d1}, [%a0+16]",
            "ld.global.v2.f32 {%f0, %f1}, [%a0+32]",
            "ld.global.f64 %g0, [%a0+40]",
            "ld.global.u16 %h0, [%a0+48]",
            "ld.global.s16 %h1, [%a0+50]",
            "ld.global.f64 %g1, [%a0+56]",
            "mov.u32 %r4, %laneid",
            "mov.u32 %r5, %ctaid.x",
            "mov.u32 %r6, 12345",
            "cvt.u64.u32 %d2, %r0",
            "cvt.s64.s32 %d3, %r1",
            "mov.f32 %f2, 0f3FC00000",
            "cvt.rn.f32.s32 %f3, %r2",
            "mov.f64 %g2, 0d3FF8000000000000",
            "cvt.rn.f64.s32 %g3, %r3",
            "cvt.u16.u32 %h2, %r1",
            "mov.u16 %h3, 77",
            "setp.lt.s32 %p0, %r0, %r1",
            "setp.gt.u32 %p1, %r2, %r3",
            "setp.eq.u32 %p2, %r4, 7",
            "setp.ltu.f32 %p3, %f0, %f1",
            "st.shared.v2.u64 [%t5], {%d0, %d1}",
            "st.local.v2.u64 [stack], {%d0, %d1}",
            "st.local.v2.u64 [stack+16], {%d1, %d0}",
        ] {
            self.line(l);
        }
        for i in 7..R {
            self.line(&format!("add.s32 %r{i}, %r{}, {}", i - 7, i * 1000));
        }
        for i in 4..D {
            self.line(&format!("add.s64 %d{i}, %d{}, {}", i - 4, i * 77));
        }
        for i in 4..F {
            self.line(&format!("add.rn.f32 %f{i}, %f{}, 0f4048F5C3", i - 4));
        }
        if self.wide {
            self.wide_head();
        }
    }

    fn tail(&mut self) {
        for i in 0..R {
            self.line(&format!("st.global.u32 [%a1+{}], %r{i}", 4 * i));
        }
        for i in 0..D {
            self.line(&format!("st.global.u64 [%a1+{}], %d{i}", 64 + 8 * i));
        }
        for i in 0..F {
            self.line(&format!("setp.nan.f32 %q1, %f{i}, %f{i}"));
            self.line(&format!("selp.f32 %f{i}, 0f7FFFFFFF, %f{i}, %q1"));
            self.line(&format!("st.global.f32 [%a1+{}], %f{i}", 128 + 4 * i));
        }
        for i in 0..G {
            self.line(&format!("setp.nan.f64 %q1, %g{i}, %g{i}"));
            self.line(&format!("selp.f64 %g{i}, 0d7FF8000000000000, %g{i}, %q1"));
            self.line(&format!("st.global.f64 [%a1+{}], %g{i}", 160 + 8 * i));
        }
        for i in 0..H {
            self.line(&format!("st.global.u16 [%a1+{}], %h{i}", 192 + 2 * i));
        }
        for i in 0..P {
            self.line(&format!("selp.u32 %t7, 1, 0, %p{i}"));
            self.line(&format!("st.global.u8 [%a1+{}], %t7", 200 + i));
        }
        if self.wide {
            self.wide_tail();
        }
        self.line("ld.shared.v2.u64 {%u0, %u1}, [%t5]");
        self.line("st.global.v2.u64 [%a1+208], {%u0, %u1}");
        self.line("ld.local.v2.u64 {%u0, %u1}, [stack]");
        self.line("st.global.v2.u64 [%a1+224], {%u0, %u1}");
        self.text.push_str("END:\n\tret;\n}\n");
    }

    /// A label nobody else has.
    fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    fn block(&mut self, most: usize) {
        self.depth += 1;
        for _ in 0..1 + self.rng.below(most) {
            self.statement();
        }
        self.depth -= 1;
    }

    fn statement(&mut self) {
        if !self.wide {
            return self.plain_statement();
        }
        match self.rng.below(100) {
            0..6 if self.depth < 4 => self.branch(),
            6..9 if self.depth < 3 && self.loops < 3 => self.repeat(),
            9..13 if self.depth == 0 => self.warp(),
            9..13 => self.call(),
            13..20 => self.memory(),
            20..34 => self.integer32(),
            34..43 => self.integer64(),
            43..47 => self.integer16(),
            47..56 => self.single(),
            56..61 => self.double(),
            61..69 => self.convert(),
            69..74 => self.predicate(),
            74..77 => self.divide(),
            77..79 => self.call(),
            _ => self.wide(),
        }
    }

    fn plain_statement(&mut self) {
        match self.rng.below(100) {
            0..6 if self.depth < 4 => self.branch(),
            6..9 if self.depth < 3 && self.loops < 3 => self.repeat(),
            9..13 if self.depth == 0 => self.warp(),
            13..21 => self.memory(),
            21..45 => self.integer32(),
            45..57 => self.integer64(),
            57..63 => self.integer16(),
            63..74 => self.single(),
            74..81 => self.double(),
            81..91 => self.convert(),
            91..96 => self.predicate(),
            _ => self.divide(),
        }
    }

    fn branch(&mut self) {
        let (other, end) = (self.label(), self.label());
        let p = self.p();
        let not = self.rng.pick(&["", "!"]);
        self.line(&format!("@{not}{p} bra {other}"));
        self.block(5);
        if self.rng.below(2) == 0 {
            self.line(&format!("bra {end}"));
            let _ = writeln!(self.text, "{other}:");
            self.block(5);
            let _ = writeln!(self.text, "{end}:");
        } else {
            let _ = writeln!(self.text, "{other}:");
        }
    }

    fn repeat(&mut self) {
        let (head, out) = (self.label(), self.label());
        let c = format!("%c{}", self.loops);
        self.loops += 1;
        let r = self.r();
        // Different numbers of turns in different threads, or the same in all.
        if self.rng.below(3) == 0 {
            self.line(&format!("mov.u32 {c}, 3"));
        } else {
            self.line(&format!("and.b32 {c}, {r}, 3"));
        }
        let _ = writeln!(self.text, "{head}:");
        self.block(4);
        if self.rng.below(3) == 0 {
            let p = self.p();
            self.line(&format!("@{p} bra {out}"));
            self.block(2);
        }
        self.line(&format!("sub.s32 {c}, {c}, 1"));
        self.line(&format!("setp.ge.s32 %q2, {c}, 0"));
        self.line(&format!("@%q2 bra {head}"));
        let _ = writeln!(self.text, "{out}:");
        self.loops -= 1;
    }

    /// An instruction, under a guard now and then.
    fn put(&mut self, text: String) {
        if self.rng.below(9) == 0 {
            let p = self.p();
            let not = self.rng.pick(&["", "!"]);
            self.line(&format!("@{not}{p} {text}"));
        } else {
            self.line(&text);
        }
    }

    fn integer32(&mut self) {
        let (d, a, b, c) = (self.r(), self.r(), self.r_or_imm(), self.r_or_imm());
        let s = self.rng.pick(&["s32", "u32"]);
        let text = match self.rng.below(22) {
            0..3 => format!("add.{s} {d}, {a}, {b}"),
            3..5 => format!("sub.{s} {d}, {a}, {b}"),
            5 => format!("mul.lo.{s} {d}, {a}, {b}"),
            6 => format!("mul.hi.{s} {d}, {a}, {b}"),
            7 => format!("mad.lo.{s} {d}, {a}, {b}, {c}"),
            8 => format!("{}.{s} {d}, {a}, {b}", self.rng.pick(&["min", "max"])),
            9 => format!("{}.b32 {d}, {a}, {b}", self.rng.pick(&["and", "or", "xor"])),
            10 => format!("not.b32 {d}, {a}"),
            11 => format!("shl.b32 {d}, {a}, {b}"),
            12 => format!("shr.{s} {d}, {a}, {b}"),
            13 => format!(
                "shf.{}.{}.b32 {d}, {a}, {b}, {c}",
                self.rng.pick(&["l", "r"]),
                self.rng.pick(&["wrap", "clamp"])
            ),
            14 => format!("{}.b32 {d}, {a}", self.rng.pick(&["popc", "clz", "brev"])),
            15 => format!("bfind.{}{s} {d}, {a}", self.rng.pick(&["", "shiftamt."])),
            16 => format!("bfe.{s} {d}, {a}, {}, {}", self.rng.below(40), self.rng.below(40)),
            17 => format!("bfi.b32 {d}, {a}, {b}, {}, {}", self.rng.below(40), self.rng.below(40)),
            18 => format!("prmt.b32 {d}, {a}, {b}, {c}"),
            19 => format!("lop3.b32 {d}, {a}, {b}, {c}, {}", self.rng.below(256)),
            20 => {
                let p = self.p();
                format!("selp.b32 {d}, {a}, {b}, {p}")
            }
            _ => match self.rng.below(5) {
                0 => format!("abs.s32 {d}, {a}"),
                1 => format!("neg.s32 {d}, {a}"),
                2 => format!("sad.{s} {d}, {a}, {b}, {c}"),
                3 => {
                    // The vendor moves a constant out of an operand into a saturating sum, which is wrong where the
                    // operand wraps around: no operand here is a sum.
                    self.line(&format!("xor.b32 %t9, {a}, %t1"));
                    self.line(&format!("xor.b32 %t10, {b}, %t1"));
                    "add.sat.s32 ".to_string() + &d + ", %t9, %t10"
                }
                _ => format!("dp4a.{s}.{} {d}, {a}, {}, {c}", self.rng.pick(&["s32", "u32"]), self.r()),
            },
        };
        self.put(text);
    }

    fn integer64(&mut self) {
        let (d, a, b, c) = (self.d(), self.d(), self.d(), self.d());
        let s = self.rng.pick(&["s64", "u64"]);
        let n = self.r_or_imm();
        let text = match self.rng.below(18) {
            0..2 => format!("add.{s} {d}, {a}, {b}"),
            2 => format!("sub.{s} {d}, {a}, {b}"),
            3 => format!("add.{s} {d}, {a}, {}", self.rng.next() as i64),
            4 => format!("mul.lo.{s} {d}, {a}, {b}"),
            5 => format!("mul.hi.{s} {d}, {a}, {b}"),
            6 => format!("mad.lo.{s} {d}, {a}, {b}, {c}"),
            7 => format!("{}.{s} {d}, {a}, {b}", self.rng.pick(&["min", "max"])),
            8 => format!("{}.b64 {d}, {a}, {b}", self.rng.pick(&["and", "or", "xor"])),
            // ptxas takes a constant of 64 and more behind mul.wide for no shift (docs/ptxas-faults.md).
            9 => match n.parse::<i64>() {
                Ok(n) => format!("shl.b64 {d}, {a}, {}", n & 63),
                Err(_) => format!("shl.b64 {d}, {a}, {n}"),
            },
            10 => format!("shr.{s} {d}, {a}, {n}"),
            11 => format!("{}.{} {d}, {a}", self.rng.pick(&["neg", "abs"]), "s64"),
            12 => {
                let p = self.p();
                format!("selp.b64 {d}, {a}, {b}, {p}")
            }
            13 => format!("mul.wide.{} {d}, {}, {n}", self.rng.pick(&["s32", "u32"]), self.r()),
            14 => format!("mad.wide.{} {d}, {}, {n}, {a}", self.rng.pick(&["s32", "u32"]), self.r()),
            15 => format!("bfe.{s} {d}, {a}, {}, {}", self.rng.below(70), self.rng.below(70)),
            16 => format!("bfi.b64 {d}, {a}, {b}, {}, {}", self.rng.below(70), self.rng.below(70)),
            _ => {
                let r = self.r();
                format!("{} {r}, {a}", self.rng.pick(&["popc.b64", "clz.b64", "bfind.s64", "bfind.u64"]))
            }
        };
        if self.rng.below(8) == 0 {
            // A carry chain stays together.
            let (x, y, z, w) = (self.r(), self.r(), self.r(), self.r());
            let kind = self.rng.pick(&["add", "sub"]);
            self.line(&format!("{kind}.cc.u32 {x}, {y}, {z}"));
            self.line(&format!("{kind}c.u32 {w}, {z}, {y}"));
        }
        self.put(text);
    }

    fn integer16(&mut self) {
        let (d, a, b) = (self.h(), self.h(), self.h());
        let s = self.rng.pick(&["s16", "u16"]);
        let text = match self.rng.below(9) {
            0 => format!("add.{s} {d}, {a}, {b}"),
            1 => format!("sub.{s} {d}, {a}, {b}"),
            2 => format!("mul.lo.{s} {d}, {a}, {b}"),
            3 => format!("mul.hi.{s} {d}, {a}, {b}"),
            4 => format!("{}.{s} {d}, {a}, {b}", self.rng.pick(&["min", "max"])),
            5 => format!("{}.b16 {d}, {a}, {b}", self.rng.pick(&["and", "or", "xor"])),
            6 => format!("shr.{s} {d}, {a}, {}", self.rng.below(20)),
            7 => {
                let r = self.r();
                format!("mul.wide.{s} {r}, {a}, {b}")
            }
            _ => {
                let p = self.p();
                format!("selp.b16 {d}, {a}, {b}, {p}")
            }
        };
        self.put(text);
    }

    fn rounding(&mut self) -> &'static str {
        self.rng.pick(&["rn", "rn", "rn", "rz", "rm", "rp"])
    }

    fn single(&mut self) {
        let (d, a, b, c) = (self.f(), self.f(), self.f(), self.f());
        let rnd = self.rounding();
        let ftz = self.rng.pick(&["", "", "", ".ftz"]);
        let sat = self.rng.pick(&["", "", "", "", ".sat"]);
        let text = match self.rng.below(12) {
            0..2 => format!("add.{rnd}{ftz}{sat}.f32 {d}, {a}, {b}"),
            2 => format!("sub.{rnd}{ftz}{sat}.f32 {d}, {a}, {b}"),
            3..5 => format!("mul.{rnd}{ftz}{sat}.f32 {d}, {a}, {b}"),
            5..7 => format!("fma.{rnd}{ftz}{sat}.f32 {d}, {a}, {b}, {c}"),
            7 => format!("{}{ftz}.f32 {d}, {a}, {b}", self.rng.pick(&["min", "max"])),
            8 => format!("{}{ftz}.f32 {d}, {a}", self.rng.pick(&["neg", "abs"])),
            9 => format!("mul.rn.f32 {d}, {a}, 0f{:08X}", 0x3f00_0000 + (self.rng.next() as u32 & 0x00ff_ffff)),
            10 => {
                let p = self.p();
                format!("selp.f32 {d}, {a}, {b}, {p}")
            }
            _ => match self.rng.below(3) {
                0 => format!("div.{rnd}.f32 {d}, {a}, {b}"),
                1 => format!("sqrt.{rnd}.f32 {d}, {a}"),
                _ => format!("rcp.{rnd}.f32 {d}, {a}"),
            },
        };
        self.put(text);
    }

    fn double(&mut self) {
        let (d, a, b, c) = (self.g(), self.g(), self.g(), self.g());
        let rnd = self.rounding();
        let text = match self.rng.below(9) {
            0 => format!("add.{rnd}.f64 {d}, {a}, {b}"),
            1 => format!("sub.{rnd}.f64 {d}, {a}, {b}"),
            2 => format!("mul.{rnd}.f64 {d}, {a}, {b}"),
            3 => format!("fma.{rnd}.f64 {d}, {a}, {b}, {c}"),
            4 => format!("{}.f64 {d}, {a}, {b}", self.rng.pick(&["min", "max"])),
            5 => format!("{}.f64 {d}, {a}", self.rng.pick(&["neg", "abs"])),
            6 => {
                let p = self.p();
                format!("selp.f64 {d}, {a}, {b}, {p}")
            }
            7 => format!("div.{rnd}.f64 {d}, {a}, {b}"),
            _ => format!("sqrt.{rnd}.f64 {d}, {a}"),
        };
        self.put(text);
    }

    /// Moves between pools. Floats are made numbers before their bits or their integers are looked at.
    fn convert(&mut self) {
        let (r, d, f, g, h) = (self.r(), self.d(), self.f(), self.g(), self.h());
        let rnd = self.rounding();
        let int_rnd = self.rng.pick(&["rni", "rzi", "rmi", "rpi"]);
        let text = match self.rng.below(20) {
            0 => format!("cvt.u64.u32 {d}, {r}"),
            1 => format!("cvt.s64.s32 {d}, {r}"),
            2 => format!("cvt.u32.u64 {r}, {d}"),
            3 => format!("cvt.{}.{} {r}, {h}", self.rng.pick(&["s32", "u32"]), self.rng.pick(&["s16", "u16"])),
            4 => format!("cvt.u16.u32 {h}, {r}"),
            5 => format!("cvt.{}.{} {r}, {r}", self.rng.pick(&["s32", "u32"]), self.rng.pick(&["s8", "u8"])),
            6 => format!("cvt.sat.{}.s32 {h}, {r}", self.rng.pick(&["s16", "u16"])),
            7 => format!("cvt.{rnd}.f32.{} {f}, {r}", self.rng.pick(&["s32", "u32"])),
            8 => format!("cvt.{rnd}.f32.{} {f}, {d}", self.rng.pick(&["s64", "u64"])),
            9 => format!("cvt.rn.f64.{} {g}, {r}", self.rng.pick(&["s32", "u32"])),
            10 => format!("cvt.{rnd}.f64.{} {g}, {d}", self.rng.pick(&["s64", "u64"])),
            11 => format!("cvt.f64.f32 {g}, {f}"),
            12 => format!("cvt.{rnd}.f32.f64 {f}, {g}"),
            13 => format!("cvt.{int_rnd}.f32.f32 {f}, {}", self.f()),
            14 => format!("mov.b64 {d}, {{{r}, {}}}", self.r()),
            15 => format!("mov.b32 {r}, {{{h}, {}}}", self.h()),
            16 | 17 => {
                self.line(&format!("setp.nan.f32 %q3, {f}, {f}"));
                self.line(&format!("selp.f32 %f9, 0f3F800000, {f}, %q3"));
                match self.rng.below(3) {
                    0 => format!("mov.b32 {r}, %f9"),
                    1 => format!("cvt.{int_rnd}.{} {r}, %f9", self.rng.pick(&["s32.f32", "u32.f32"])),
                    _ => format!("cvt.{int_rnd}.{} {d}, %f9", self.rng.pick(&["s64.f32", "u64.f32"])),
                }
            }
            _ => {
                self.line(&format!("setp.nan.f64 %q3, {g}, {g}"));
                self.line(&format!("selp.f64 %g5, 0d3FF0000000000000, {g}, %q3"));
                match self.rng.below(3) {
                    0 => format!("mov.b64 {d}, %g5"),
                    1 => format!("cvt.{int_rnd}.{} {r}, %g5", self.rng.pick(&["s32.f64", "u32.f64"])),
                    _ => format!("cvt.{int_rnd}.{} {d}, %g5", self.rng.pick(&["s64.f64", "u64.f64"])),
                }
            }
        };
        self.put(text);
    }

    fn predicate(&mut self) {
        let (p, q) = (self.p(), self.p());
        let cmp = self.rng.pick(&["eq", "ne", "lt", "le", "gt", "ge"]);
        let fcmp = self.rng.pick(&["eq", "ne", "lt", "gt", "equ", "neu", "ltu", "geu", "num", "nan"]);
        let text = match self.rng.below(8) {
            0 | 1 => format!("setp.{cmp}.{} {p}, {}, {}", self.rng.pick(&["s32", "u32"]), self.r(), self.r_or_imm()),
            2 => format!("setp.{cmp}.{} {p}, {}, {}", self.rng.pick(&["s64", "u64"]), self.d(), self.d()),
            3 => format!("setp.{cmp}.{} {p}, {}, {}", self.rng.pick(&["s16", "u16"]), self.h(), self.h()),
            4 => format!("setp.{fcmp}.f32 {p}, {}, {}", self.f(), self.f()),
            5 => format!("setp.{fcmp}.f64 {p}, {}, {}", self.g(), self.g()),
            6 => format!(
                "setp.{cmp}.{}.s32 {p}, {}, {}, {q}",
                self.rng.pick(&["and", "or", "xor"]),
                self.r(),
                self.r_or_imm()
            ),
            _ => format!("{}.pred {p}, {q}, {}", self.rng.pick(&["and", "or", "xor"]), self.p()),
        };
        self.put(text);
    }

    fn divide(&mut self) {
        let op = self.rng.pick(&["div", "rem"]);
        match self.rng.below(4) {
            0 | 1 => {
                let (d, a, b) = (self.r(), self.r(), self.r());
                self.line(&format!("or.b32 %t8, {b}, 1"));
                let ty = self.rng.pick(&["s32", "u32"]);
                self.line(&format!("{op}.{} {d}, {a}, %t8", ty));
            }
            2 => {
                let (d, a, b) = (self.d(), self.d(), self.d());
                self.line(&format!("or.b64 %u2, {b}, 1"));
                let ty = self.rng.pick(&["s64", "u64"]);
                self.line(&format!("{op}.{} {d}, {a}, %u2", ty));
            }
            _ => {
                let (d, a) = (self.r(), self.r());
                let k = 1 + self.rng.below(1000);
                let ty = self.rng.pick(&["s32", "u32"]);
                self.line(&format!("{op}.{} {d}, {a}, {k}", ty));
            }
        }
    }

    fn memory(&mut self) {
        let text = match self.rng.below(12) {
            0 => format!("st.global.u32 [%a1+{}], {}", SCRATCH + 4 * self.rng.below(32), self.r()),
            1 => format!("ld.global.u32 {}, [%a1+{}]", self.r(), SCRATCH + 4 * self.rng.below(32)),
            2 => format!("st.global.u8 [%a1+{}], {}", SCRATCH + self.rng.below(128), self.r()),
            3 => format!(
                "ld.global.{} {}, [%a1+{}]",
                self.rng.pick(&["u8", "s8"]),
                self.r(),
                SCRATCH + self.rng.below(128)
            ),
            4 => format!("st.global.u64 [%a1+{}], {}", SCRATCH + 8 * self.rng.below(16), self.d()),
            5 => format!("ld.global.u64 {}, [%a1+{}]", self.d(), SCRATCH + 8 * self.rng.below(16)),
            6 => format!("st.shared.u32 [%t5+{}], {}", 4 * self.rng.below(4), self.r()),
            7 => format!("ld.shared.u32 {}, [%t5+{}]", self.r(), 4 * self.rng.below(4)),
            8 => format!("st.local.u16 [stack+{}], {}", 2 * self.rng.below(16), self.h()),
            9 => format!("ld.local.u32 {}, [stack+{}]", self.r(), 4 * self.rng.below(8)),
            10 => format!(
                "st.global.v4.u32 [%a1+{}], {{{}, {}, {}, {}}}",
                SCRATCH + 16 * self.rng.below(8),
                self.r(),
                self.r(),
                self.r(),
                self.r()
            ),
            _ => {
                let at = SCRATCH + 4 * self.rng.below(32);
                format!(
                    "atom.global.{} {}, [%a1+{at}], {}",
                    self.rng.pick(&["add.u32", "max.u32", "xor.b32", "exch.b32", "add.s32", "min.s32"]),
                    self.r(),
                    self.r()
                )
            }
        };
        self.put(text);
    }

    /// Where all threads are together: shuffles, votes, a barrier.
    fn warp(&mut self) {
        if self.wide && self.rng.below(2) == 0 {
            return self.wide_warp();
        }
        let (d, a, p, q) = (self.r(), self.r(), self.p(), self.p());
        let text = match self.rng.below(6) {
            0 => format!("shfl.sync.bfly.b32 {d}|{p}, {a}, {}, 31, -1", 1 + self.rng.below(31)),
            1 => format!("shfl.sync.up.b32 {d}, {a}, {}, 0, -1", 1 + self.rng.below(8)),
            2 => format!("shfl.sync.idx.b32 {d}|{p}, {a}, {}, 31, -1", self.rng.below(32)),
            3 => format!("vote.sync.ballot.b32 {d}, {p}, -1"),
            4 => format!("vote.sync.{}.pred {p}, {q}, -1", self.rng.pick(&["any", "all", "uni"])),
            _ => "bar.sync 0".to_string(),
        };
        self.line(&text);
    }
}
