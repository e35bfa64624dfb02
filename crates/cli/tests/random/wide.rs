//! The wider classes: halves, bytes of floats, video, 128 bits, atomics of every kind, addresses that differ among threads, tables
//! of branches, and what a warp does together.

use super::{Gen, Q, SCRATCH, X, Y};
use std::fmt::Write;

/// What indexed loads from constant memory read, and what all functions share.
pub(super) const TABLE: &str = ".const .align 16 .b32 table[16] = {1, 2, 3, 5, 7, 11, 13, 4294967295, 2147483648, 17, 19, 23, 29, 31, 37, 41};\n\
    .shared .align 16 .b8 all[64];\n";

/// Where the results of this file lie in a thread's output.
const AT: usize = 384;

impl Gen {
    pub(super) fn x(&mut self) -> String {
        format!("%x{}", self.rng.below(X))
    }
    pub(super) fn y(&mut self) -> String {
        format!("%y{}", self.rng.below(Y))
    }
    fn o(&mut self) -> String {
        format!("%o{}", self.rng.below(Q))
    }

    pub(super) fn wide_head(&mut self) {
        for l in [
            "cvt.rn.f16x2.f32 %x0, %f0, %f1",
            "cvt.rn.f16x2.f32 %x1, %f2, %f3",
            "mov.b32 %x2, 0x3c007bff",
            "cvt.rn.f16x2.f32 %x3, 0f3F000000, %f5",
            "cvt.rn.bf16x2.f32 %y0, %f0, %f2",
            "cvt.rn.bf16x2.f32 %y1, %f1, %f4",
            "mov.b32 %y2, 0x3f80bf00",
            "mov.b128 %o0, {%d0, %d1}",
            "mov.b128 %o1, {%d2, %d3}",
        ] {
            self.line(l);
        }
    }

    pub(super) fn wide_tail(&mut self) {
        for i in 0..X {
            let x = format!("%x{i}");
            self.clean("f16", &x);
            self.line(&format!("st.global.u32 [%a1+{}], %v0", AT + 4 * i));
        }
        for i in 0..Y {
            let y = format!("%y{i}");
            self.clean("bf16", &y);
            self.line(&format!("st.global.u32 [%a1+{}], %v0", AT + 16 + 4 * i));
        }
        for i in 0..Q {
            self.line(&format!("st.global.b128 [%a1+{}], %o{i}", AT + 32 + 16 * i));
        }
        self.line("bar.sync 0");
        self.line("ld.shared.u32 %v0, [%t12]");
        self.line(&format!("st.global.u32 [%a1+{}], %v0", AT + 64));
    }

    /// The two halves of `source` in `%v0`, every NaN the same one.
    fn clean(&mut self, ty: &str, source: &str) {
        self.line(&format!("mov.b32 {{%i0, %i1}}, {source}"));
        for i in ["%i0", "%i1"] {
            self.line(&format!("setp.nan.{ty} %q3, {i}, {i}"));
            self.line(&format!("selp.b16 {i}, 0x7fff, {i}, %q3"));
        }
        self.line("mov.b32 %v0, {%i0, %i1}");
    }

    pub(super) fn wide(&mut self) {
        if self.sides && self.rng.below(2) == 0 {
            return self.sides();
        }
        match self.rng.below(20) {
            0..4 => self.halves(),
            4..6 => self.brain(),
            6..8 => self.narrow(),
            8..10 => self.video(),
            10..12 => self.wide_bits(),
            12..15 => self.atomic(),
            15..17 => self.indexed(),
            17 => self.switch(),
            _ => self.odd(),
        }
    }

    fn halves(&mut self) {
        let (d, a, b, c) = (self.x(), self.x(), self.x(), self.x());
        let ftz = self.rng.pick(&["", "", ".ftz"]);
        let sat = self.rng.pick(&["", "", "", ".sat"]);
        let text = match self.rng.below(11) {
            0 => format!("add.rn{ftz}{sat}.f16x2 {d}, {a}, {b}"),
            1 => format!("sub.rn{ftz}{sat}.f16x2 {d}, {a}, {b}"),
            2 => format!("mul.rn{ftz}{sat}.f16x2 {d}, {a}, {b}"),
            3 | 4 => format!("fma.rn{ftz}{sat}.f16x2 {d}, {a}, {b}, {c}"),
            5 => format!(
                "{}{ftz}{}.f16x2 {d}, {a}, {b}",
                self.rng.pick(&["min", "max"]),
                self.rng.pick(&["", ".NaN", ".xorsign.abs"])
            ),
            6 => format!("{}.f16x2 {d}, {a}", self.rng.pick(&["neg", "abs"])),
            7 => format!("fma.rn.relu.f16x2 {d}, {a}, {b}, {c}"),
            8 => {
                let (p, r) = (self.p(), self.r());
                let l = format!("setp.{}.f16x2 {p}|%q3, {a}, {b}", self.rng.pick(&["lt", "geu", "ne", "num"]));
                self.line(&l);
                format!("selp.b32 {d}, {a}, {r}, %q3")
            }
            9 => {
                // Scalars out of the pair, and back.
                self.line(&format!("mov.b32 {{%i0, %i1}}, {a}"));
                self.line(&format!("mov.b32 {{%i2, %i3}}, {b}"));
                let op = self.rng.pick(&["add.rn", "sub.rn", "mul.rn", "min", "max"]);
                self.line(&format!("{op}.f16 %i0, %i0, %i3"));
                self.line("fma.rn.f16 %i1, %i0, %i2, %i1");
                format!("mov.b32 {d}, {{%i1, %i0}}")
            }
            _ => {
                let p = self.p();
                format!("selp.b32 {d}, {a}, {b}, {p}")
            }
        };
        self.put(text);
    }

    fn brain(&mut self) {
        let (d, a, b, c) = (self.y(), self.y(), self.y(), self.y());
        let text = match self.rng.below(8) {
            0 => format!("add.rn.bf16x2 {d}, {a}, {b}"),
            1 => format!("sub.rn.bf16x2 {d}, {a}, {b}"),
            2 => format!("mul.rn.bf16x2 {d}, {a}, {b}"),
            3 => format!("fma.rn{}.bf16x2 {d}, {a}, {b}, {c}", self.rng.pick(&["", ".relu"])),
            4 => format!("{}{}.bf16x2 {d}, {a}, {b}", self.rng.pick(&["min", "max"]), self.rng.pick(&["", ".NaN"])),
            5 => format!("{}.bf16x2 {d}, {a}", self.rng.pick(&["neg", "abs"])),
            6 => {
                let f = self.f();
                self.line(&format!("mov.b32 {{%i0, %i1}}, {a}"));
                self.line(&format!("cvt.f32.bf16 {f}, %i1"));
                let l = format!("cvt.{}.bf16.f32 %i0, {f}", self.rng.pick(&["rn", "rz"]));
                self.line(&l);
                format!("mov.b32 {d}, {{%i1, %i0}}")
            }
            _ => {
                let p = self.p();
                let l = format!("setp.{}.bf16x2 {p}|%q3, {a}, {b}", self.rng.pick(&["lt", "geu", "ne"]));
                self.line(&l);
                format!("selp.b32 {d}, {a}, {b}, %q3")
            }
        };
        self.put(text);
    }

    /// Conversions to and from halves and bytes.
    fn narrow(&mut self) {
        let (f, f2, x, y, r, h) = (self.f(), self.f(), self.x(), self.y(), self.r(), self.h());
        let text = match self.rng.below(10) {
            0 => format!("cvt.{}.f16x2.f32 {x}, {f}, {f2}", self.rng.pick(&["rn", "rz", "rn.relu"])),
            1 => format!("cvt.{}.bf16x2.f32 {y}, {f}, {f2}", self.rng.pick(&["rn", "rz", "rn.relu"])),
            2 => {
                self.line(&format!("mov.b32 {{%i0, %i1}}, {x}"));
                format!("cvt{}.f32.f16 {f}, %i1", self.rng.pick(&["", ".ftz"]))
            }
            3 => format!(
                "cvt.rn.satfinite{}.{}.f32 {h}, {f}, {f2}",
                self.rng.pick(&["", ".relu"]),
                self.rng.pick(&["e4m3x2", "e5m2x2"])
            ),
            4 => format!("cvt.rn.satfinite.{}.f16x2 {h}, {x}", self.rng.pick(&["e4m3x2", "e5m2x2"])),
            5 => format!("cvt.rn.f16x2.{} {x}, {h}", self.rng.pick(&["e4m3x2", "e5m2x2"])),
            6 => {
                let l = format!("cvt.rn.f16.{} %i0, {r}", self.rng.pick(&["s32", "u32"]));
                self.line(&l);
                let l = format!("cvt.rz.f16.{} %i1, {h}", self.rng.pick(&["s16", "u16"]));
                self.line(&l);
                format!("mov.b32 {x}, {{%i0, %i1}}")
            }
            7 => {
                self.clean("f16", &x);
                self.line("mov.b32 {%i0, %i1}, %v0");
                self.line("setp.nan.f16 %q3, %i0, %i0");
                self.line("selp.b16 %i0, 0x3c00, %i0, %q3");
                format!("cvt.{}.{}.f16 {r}, %i0", self.rng.pick(&["rni", "rzi", "rmi"]), self.rng.pick(&["s32", "u32"]))
            }
            8 => {
                self.clean("f16", &x);
                format!("mov.b32 {r}, %v0")
            }
            _ => {
                self.clean("bf16", &y);
                format!("mov.b32 {r}, %v0")
            }
        };
        self.put(text);
    }

    fn video(&mut self) {
        let (d, a, b, c) = (self.r(), self.r(), self.r(), self.r());
        let (t, u, v) =
            (self.rng.pick(&["s32", "u32"]), self.rng.pick(&["s32", "u32"]), self.rng.pick(&["s32", "u32"]));
        let part = |g: &mut Gen| g.rng.pick(&["", ".b0", ".b1", ".b2", ".b3", ".h0", ".h1"]);
        let (pa, pb) = (part(self), part(self));
        let text = match self.rng.below(9) {
            0 => format!(
                "{}.{t}.{u}.{v} {d}, {a}{pa}, {b}{pb}",
                self.rng.pick(&["vadd", "vsub", "vmin", "vmax", "vabsdiff"])
            ),
            1 => format!(
                "{}.{t}.{u}.u32.{} {d}, {a}{pa}, {b}{pb}",
                self.rng.pick(&["vshl", "vshr"]),
                self.rng.pick(&["clamp", "wrap"])
            ),
            2 => format!("vmad.{u}.{u}.{u} {d}, {a}{pa}, {b}{pb}, {c}"),
            3 => format!("vset.{u}.{v}.{} {d}, {a}{pa}, {b}{pb}", self.rng.pick(&["lt", "ge", "eq"])),
            4 | 5 => format!(
                "{}.{t}.{t}.{t}{} {d}, {a}, {b}, {c}",
                self.rng.pick(&["vadd2", "vsub2", "vavrg2", "vmin2", "vmax2", "vabsdiff2"]),
                self.rng.pick(&["", ".sat"])
            ),
            6 | 7 => format!(
                "{}.{t}.{t}.{t}{} {d}, {a}, {b}, {c}",
                self.rng.pick(&["vadd4", "vsub4", "vavrg4", "vmin4", "vmax4", "vabsdiff4"]),
                self.rng.pick(&["", ".sat"])
            ),
            _ => format!("vset4.{u}.{v}.{} {d}, {a}, {b}, {c}", self.rng.pick(&["lt", "ge", "ne"])),
        };
        self.put(text);
    }

    /// Values of 128 bits, and what makes many values at once.
    fn wide_bits(&mut self) {
        let (o, d, e) = (self.o(), self.d(), self.d());
        let at = SCRATCH + 16 * self.rng.below(8);
        let text = match self.rng.below(7) {
            0 | 1 => format!("mov.b128 {o}, {{{d}, {e}}}"),
            2 => {
                self.line(&format!("mov.b128 {{%u2, %u3}}, {o}"));
                format!("xor.b64 {d}, %u2, %u3")
            }
            3 => format!("st.global.b128 [%a1+{at}], {o}"),
            4 => format!("ld.global.b128 {o}, [%a1+{at}]"),
            5 => format!("atom.global.exch.b128 {o}, [%a1+{at}], {}", self.o()),
            _ => format!("mov.b128 {o}, {}", self.o()),
        };
        self.put(text);
    }

    fn atomic(&mut self) {
        let (r, a, b, d, e, f) = (self.r(), self.r(), self.r(), self.d(), self.d(), self.d());
        let own = format!("[%a1+{}]", SCRATCH + 8 * self.rng.below(16));
        let shared = format!("[%t5+{}]", 8 * self.rng.below(2));
        let (space, at) = if self.rng.below(2) == 0 { ("global", own.clone()) } else { ("shared", shared) };
        let text = match self.rng.below(14) {
            0 => format!("atom.{space}.cas.b32 {r}, {at}, {a}, {b}"),
            1 => format!("atom.{space}.cas.b64 {d}, {at}, {e}, {f}"),
            2 => format!("atom.{space}.exch.b64 {d}, {at}, {e}"),
            3 => format!("atom.{space}.{}.u64 {d}, {at}, {e}", self.rng.pick(&["add", "min", "max"])),
            4 => format!("atom.{space}.{}.s64 {d}, {at}, {e}", self.rng.pick(&["min", "max"])),
            5 => format!("atom.{space}.{}.b64 {d}, {at}, {e}", self.rng.pick(&["and", "or", "xor"])),
            6 => format!("atom.{space}.{}.u32 {r}, {at}, {a}", self.rng.pick(&["inc", "dec", "add", "min", "max"])),
            7 => format!(
                "red.{space}.{} {at}, {a}",
                self.rng.pick(&["add.u32", "and.b32", "or.b32", "xor.b32", "max.s32", "inc.u32"])
            ),
            8 => format!("red.{space}.{} {at}, {d}", self.rng.pick(&["add.u64", "and.b64", "xor.b64", "min.s64"])),
            9 => {
                let h = self.h();
                format!("atom.{space}.cas.b16 {h}, {at}, {}, {}", self.h(), self.h())
            }
            10 => {
                // Floats of a known kind before and after.
                let (g, a) = (self.g(), self.g());
                self.line(&format!("st.{space}.f64 {at}, 0d3FF8000000000000"));
                // Which bits a NaN has is open, and memory is read as integers.
                self.line(&format!("setp.nan.f64 %q3, {a}, {a}"));
                self.line(&format!("selp.f64 %g5, 0d3FF0000000000000, {a}, %q3"));
                format!("atom.{space}.add.f64 {g}, {at}, %g5")
            }
            11 => {
                let f = self.f();
                self.line(&format!("st.{space}.f32 {at}, 0f3FC00000"));
                format!("atom.{space}.add.f32 {f}, {at}, {}", self.f())
            }
            12 => {
                // All threads add to a few words: the order does not matter.
                format!("red.shared.add.u32 [%t12], {}", self.r_or_imm())
            }
            _ => {
                let x = self.x();
                self.line("mov.b32 %v1, 0x3c003c00");
                self.line(&format!("st.global.b32 {own}, %v1"));
                format!("atom.global.add.noftz.f16x2 {x}, {own}, {}", self.x())
            }
        };
        self.put(text);
    }

    /// Addresses that differ among threads, in every space, and generic ones.
    fn indexed(&mut self) {
        let (r, a) = (self.r(), self.r());
        match self.rng.below(7) {
            0 => {
                self.line(&format!("and.b32 %v0, {a}, 15"));
                self.line("shl.b32 %v0, %v0, 2");
                self.line("mov.u32 %v1, table");
                self.line("add.u32 %v0, %v0, %v1");
                self.put(format!("ld.const.u32 {r}, [%v0]"));
            }
            1 => {
                self.line(&format!("and.b32 %v0, {a}, 7"));
                self.line("shl.b32 %v0, %v0, 2");
                self.line("mov.u32 %v1, stack");
                self.line("add.u32 %v0, %v0, %v1");
                let b = self.r();
                self.put(format!("st.local.u32 [%v0], {b}"));
                self.put(format!("ld.local.u32 {r}, [%v0]"));
            }
            2 => {
                self.line(&format!("and.b32 %v0, {a}, 3"));
                self.line("shl.b32 %v0, %v0, 2");
                self.line("add.u32 %v0, %v0, %t5");
                self.put(format!("ld.shared.u32 {r}, [%v0]"));
            }
            3 => {
                self.line(&format!("and.b32 %v0, {a}, 124"));
                self.line("cvt.u64.u32 %u2, %v0");
                self.line("add.u64 %u2, %u2, %a1");
                let ty =
                    self.rng.pick(&["ld.global.u32", "ld.u32", "ld.volatile.global.u32", "ld.relaxed.gpu.global.u32"]);
                self.put(format!("{ty} {r}, [%u2+{SCRATCH}]"));
            }
            4 => {
                // Generic addresses of two spaces, chosen by a predicate.
                let p = self.p();
                self.line("cvt.u64.u32 %u2, %t5");
                self.line("cvta.shared.u64 %u2, %u2");
                let l = format!("add.u64 %u3, %a1, {}", SCRATCH + 16 * self.rng.below(7));
                self.line(&l);
                self.line(&format!("selp.b64 %u2, %u2, %u3, {p}"));
                let b = self.r();
                self.put(format!("st.u32 [%u2+4], {b}"));
                self.put(format!("ld.u32 {r}, [%u2+4]"));
            }
            5 => {
                self.line("cvta.local.u64 %u2, stack");
                let p = self.p();
                self.put(format!("st.u64 [%u2+{}], {}", 8 * (self.text.len() % 4), "%d0"));
                self.line("cvta.to.local.u64 %u3, %u2");
                self.line(&format!("isspacep.local {p}, %u2"));
                self.put(format!("ld.local.u16 {}, [%u3+6]", "%h1"));
            }
            _ => {
                let (b, c) = (self.r(), self.r());
                let l = format!("add.u64 %u2, %a1, {}", SCRATCH + 16 * self.rng.below(8));
                self.line(&l);
                self.put(format!("st.v2.u16 [%u2+8], {{{}, {}}}", "%h0", "%h2"));
                self.put(format!("ld.v4.u32 {{{r}, {b}, {c}, %v3}}, [%u2]"));
            }
        }
    }

    /// A table of branch targets.
    fn switch(&mut self) {
        if self.depth >= 4 {
            return self.odd();
        }
        let n = 2 + self.rng.below(3);
        let (table, end) = (self.label(), self.label());
        let targets: Vec<String> = (0..n).map(|_| self.label()).collect();
        let (a, v) = (self.r(), "%v2");
        self.line(&format!("rem.u32 {v}, {a}, {n}"));
        let _ = writeln!(self.text, "{table}: .branchtargets {};", targets.join(", "));
        self.line(&format!("brx.idx {v}, {table}"));
        for t in &targets {
            let _ = writeln!(self.text, "{t}:");
            self.block(3);
            if self.rng.below(4) != 0 {
                self.line(&format!("bra {end}"));
            }
        }
        let _ = writeln!(self.text, "{end}:");
    }

    /// Instructions of which there are few of a kind.
    fn odd(&mut self) {
        let (d, a, b, c) = (self.r(), self.r(), self.r_or_imm(), self.r());
        let s = self.rng.pick(&["s32", "u32"]);
        let text = match self.rng.below(16) {
            0 => format!("prmt.b32.{} {d}, {a}, {c}, {b}", self.rng.pick(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"])),
            1 => format!("bmsk.{}.b32 {d}, {a}, {b}", self.rng.pick(&["clamp", "wrap"])),
            2 => format!("szext.{}.{s} {d}, {a}, {b}", self.rng.pick(&["clamp", "wrap"])),
            3 => format!("slct.{s}.s32 {d}, {a}, {b}, {c}"),
            4 => format!("dp2a.{}.{s}.{s} {d}, {a}, {c}, {b}", self.rng.pick(&["lo", "hi"])),
            5 => format!("mul24.{}.{s} {d}, {a}, {b}", self.rng.pick(&["lo", "hi"])),
            6 => format!("mad24.lo.{s} {d}, {a}, {b}, {c}"),
            7 => format!("mad.hi.{s} {d}, {a}, {b}, {c}"),
            8 => format!("set.{}.u32.s32 {d}, {a}, {b}", self.rng.pick(&["lt", "ge", "eq"])),
            9 => {
                let (f, g) = (self.f(), self.f());
                // The sign of a NaN is nobody's business.
                self.line(&format!("setp.nan.f32 %q3, {g}, {g}"));
                self.line(&format!("selp.f32 %f9, 0fBF800000, {g}, %q3"));
                format!("copysign.f32 {f}, %f9, {}", self.f())
            }
            10 => {
                // Without a guard: ptxas forgets it (docs/ptxas-faults.md).
                let (p, f) = (self.p(), self.f());
                let l = format!(
                    "testp.{}.f32 {p}, {f}",
                    self.rng.pick(&["finite", "infinite", "number", "normal", "subnormal"])
                );
                return self.line(&l);
            }
            11 => {
                let (d, a) = (self.d(), self.d());
                self.line(&format!("mad.lo.cc.u32 %v0, {c}, {b}, %t1"));
                self.line(&format!("madc.hi.cc.u32 %v1, {c}, {b}, %t1"));
                self.line("addc.u32 %v2, %t1, 0");
                self.line("mov.b64 %u2, {%v0, %v1}");
                format!("add.u64 {d}, {a}, %u2")
            }
            12 => {
                let (d, a) = (self.d(), self.d());
                self.line(&format!("add.cc.u64 %u2, {d}, {a}"));
                self.line(&format!("addc.u64 %u3, {a}, {d}"));
                format!("xor.b64 {d}, %u2, %u3")
            }
            13 => format!("fns.b32 {d}, {a}, 3, {}", self.rng.pick(&["1", "2", "-1"])),
            14 => format!("{}.s16x2 {d}, {a}, {c}", self.rng.pick(&["add", "min", "max"])),
            _ => format!("{}.relu.s32 {d}, {a}, {b}", self.rng.pick(&["min", "max"])),
        };
        self.put(text);
    }

    /// Where all threads are together.
    pub(super) fn wide_warp(&mut self) {
        let (d, a, b, p) = (self.r(), self.r(), self.r(), self.p());
        let text = match self.rng.below(10) {
            0 => format!("shfl.sync.down.b32 {d}|{p}, {a}, {}, 31, -1", 1 + self.rng.below(16)),
            1 => format!("shfl.sync.idx.b32 {d}, {a}, {b}, 0x181f, -1"),
            2 => format!("match.any.sync.b32 {d}, {a}, -1"),
            3 => format!("match.all.sync.b32 {d}|{p}, {a}, -1"),
            4 => format!(
                "redux.sync.{} {d}, {a}, -1",
                self.rng.pick(&["add.u32", "min.s32", "max.u32", "and.b32", "xor.b32"])
            ),
            5 => format!("bar.red.{} {d}, 0, {p}", "popc.u32"),
            6 => format!("bar.red.{}.pred {p}, 0, {}", self.rng.pick(&["and", "or"]), self.p()),
            7 => {
                // Every thread adds, then all read.
                self.line("bar.sync 0");
                self.line(&format!("ld.shared.u32 {d}, [%t12]"));
                "bar.sync 0".into()
            }
            8 => {
                let (e, f, g) = (self.r(), self.r(), self.r());
                let l = format!(
                    "mma.sync.aligned.m8n8k16.row.col.s32.{}.s8.s32 {{%v0, %v1}}, {{{a}}}, {{{b}}}, {{{e}, {f}}}",
                    self.rng.pick(&["s8", "u8"])
                );
                self.line(&l);
                self.line(&format!("xor.b32 {g}, %v0, %v1"));
                format!("add.u32 {d}, %v1, {a}")
            }
            _ => {
                let matrix = self.rng.pick(&["", ".trans"]);
                self.line("and.b32 %v0, %t1, 31");
                self.line("shl.b32 %v0, %v0, 4");
                self.line("add.u32 %v0, %v0, %t13");
                self.line("bar.warp.sync -1");
                self.line(&format!("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%v0], {{{a}, {b}, {d}, %t1}}"));
                self.line("bar.warp.sync -1");
                self.line(&format!("ldmatrix.sync.aligned.m8n8.x4{matrix}.shared.b16 {{{d}, %v1, %v2, %v3}}, [%v0]"));
                self.line("bar.warp.sync -1");
                format!("add.u32 {d}, {d}, %v2")
            }
        };
        self.line(&text);
    }
}
