//! Kernels whose blocks go to each other as chance has it: loops within loops that are entered and left in several places, by some threads sooner than by
//! others, with ends in the middle. Some of it stands in a function that part of a warp calls.

use super::{Gen, OUT_BYTES, Rng, wide};
use std::fmt::Write;

/// Seeds from here on are such kernels.
pub const FIRST: u64 = 2_000_000;
/// Seeds from here on have the statements of other programs in their blocks.
pub const MIXED: u64 = 3_000_000;
/// From here on all threads of a block go the same ways, and tell each other things on them.
pub const TOGETHER: u64 = 4_000_000;

/// Numbers that each thread has: of its own, or the same in all at the beginning.
const NUMBERS: usize = 6;

/// The kernel of a seed: parameters and memory as those of [`super::program`].
pub fn program(seed: u64) -> String {
    let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut text = ".version 8.7\n.target sm_90\n.address_size 64\n".to_owned();
    let called = rng.below(3) == 0;
    if called {
        let numbers: Vec<String> = (0..NUMBERS).map(|i| format!(".param .b32 n{i}")).collect();
        let _ = writeln!(
            text,
            ".func (.param .b32 sum) f({}, .param .b32 fuel, .param .b64 place)\n{{",
            numbers.join(", ")
        );
        pools(&mut text);
        for i in 0..NUMBERS {
            let _ = writeln!(text, "\tld.param.b32 %r{i}, [n{i}];");
        }
        text.push_str("\tld.param.b32 %n, [fuel];\n\tld.param.b64 %a1, [place];\n\tmov.b32 %h, 1;\n");
        graph(&mut rng, &mut text, &["\tst.param.b32 [sum], %h;\n", "\tret;\n"].concat());
        text.push_str("}\n");
    }
    text.push_str(".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n)\n{\n");
    pools(&mut text);
    let _ = write!(
        text,
        "\tld.param.u64 %a0, [in];\n\tld.param.u64 %a1, [out];\n\tld.param.u32 %r4, [n];\n\tcvta.to.global.u64 %a0, %a0;\n\tcvta.to.global.u64 %a1, %a1;\n\
         \tmov.u32 %t0, %tid.x;\n\tmov.u32 %r5, %ctaid.x;\n\tmov.u32 %t1, %ntid.x;\n\tmad.lo.s32 %t1, %r5, %t1, %t0;\n\
         \tmul.wide.u32 %a2, %t1, 64;\n\tadd.s64 %a0, %a0, %a2;\n\tmul.wide.u32 %a2, %t1, {OUT_BYTES};\n\tadd.s64 %a1, %a1, %a2;\n\
         \tld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%a0];\n\tmov.b32 %h, 1;\n\tand.b32 %n, %t0, {};\n\tadd.s32 %n, %n, {};\n",
        rng.pick(&["0", "3", "7", "31"]),
        12 + rng.below(30),
    );
    if called {
        let arguments: Vec<String> = (0..NUMBERS).map(|i| format!("%r{i}")).collect();
        let call = format!("\tcall (%h), f, ({}, %n, %a1);\n", arguments.join(", "));
        let _ = write!(
            text,
            "\tand.b32 %t2, %t0, {};\n\tsetp.ne.s32 %p0, %t2, 0;\n\t@%p0 bra AROUND;\n{call}\tadd.s32 %r1, %r1, %h;\nAROUND:\n{call}\tadd.s32 %r0, %r0, %h;\n",
            rng.pick(&["1", "4", "0", "31"]),
        );
    }
    let mut end = String::new();
    for i in 0..NUMBERS {
        let _ = writeln!(end, "\tst.global.u32 [%a1+{}], %r{i};", 4 * i);
    }
    end.push_str("\tst.global.u32 [%a1+24], %h;\n\tst.global.u32 [%a1+28], %n;\n\tret;\n");
    graph(&mut rng, &mut text, &end);
    text.push_str("}\n");
    text
}

/// The kernel of a seed from [`MIXED`] on: statements as those of [`super::program`], in blocks that go to each other as chance has it.
pub(super) fn mixed(mut g: Gen, together: bool) -> String {
    g.text.push_str(".version 8.7\n.target sm_90\n.address_size 64\n");
    g.text.push_str(wide::TABLE);
    if g.wide {
        g.write_functions();
    }
    g.head();
    g.text.push_str(
        "\t.reg .b32 %fuel, %way, %sign;\n\t.reg .pred %spent, %goes;\n\tmad.lo.s32 %sign, %t2, 7919, %t0;\n",
    );
    let spread = if together { "0" } else { g.rng.pick(&["0", "3", "31"]) };
    let least = 4 + g.rng.below(8);
    let _ = writeln!(g.text, "\tand.b32 %fuel, %t1, {spread};\n\tadd.s32 %fuel, %fuel, {least};");
    // Statements of whole warps stand where all threads are known to be together.
    g.depth = u32::from(!together);
    let blocks = 3 + g.rng.below(12);
    let near = 2 + g.rng.below(6);
    for b in 0..blocks {
        let _ = writeln!(g.text, "W{b}:");
        for _ in 0..g.rng.below(5) {
            g.statement();
        }
        let to = (b + g.rng.below(2 * near)).saturating_sub(near).min(blocks);
        let when = match g.rng.below(8) {
            0 => continue,
            1 => String::new(),
            _ if together => {
                let mask = 1u32 << (8 + g.rng.below(8)) | 1 << (8 + g.rng.below(8));
                let _ = writeln!(
                    g.text,
                    "\tmad.lo.s32 %sign, %sign, 1103515245, {b};\n\tand.b32 %way, %sign, {mask};\n\tsetp.ne.s32 %goes, %way, 0;"
                );
                format!("@{}%goes ", g.rng.pick(&["", "!"]))
            }
            2..5 => format!("@{}{} ", g.rng.pick(&["", "!"]), g.p()),
            _ => {
                let (from, mask) = (g.r(), 1u32 << g.rng.below(4) | 1 << g.rng.below(4));
                let _ = writeln!(g.text, "\tand.b32 %way, {from}, {mask};\n\tsetp.ne.s32 %goes, %way, 0;");
                format!("@{}%goes ", g.rng.pick(&["", "!"]))
            }
        };
        if to <= b {
            let _ = writeln!(
                g.text,
                "\tsub.s32 %fuel, %fuel, 1;\n\tsetp.lt.s32 %spent, %fuel, 0;\n\t@%spent bra W{blocks};"
            );
        }
        let _ = writeln!(g.text, "\t{when}bra W{to};");
    }
    let _ = writeln!(g.text, "W{blocks}:");
    g.tail();
    g.text
}

fn pools(text: &mut String) {
    text.push_str("\t.reg .b32 %r<6>, %t<4>, %h, %n;\n\t.reg .b64 %a<3>;\n\t.reg .pred %p<2>;\n");
}

/// Blocks and the ways between them, and what stands at the end.
fn graph(rng: &mut Rng, text: &mut String, end: &str) {
    let blocks = 4 + rng.below(22);
    let near = 2 + rng.below(8);
    for b in 0..blocks {
        let _ = writeln!(text, "B{b}:");
        let number = |rng: &mut Rng| rng.below(NUMBERS);
        for _ in 0..rng.below(3) {
            let (to, from, by) = (number(rng), number(rng), number(rng));
            let op = rng.pick(&["add.s32", "sub.s32", "xor.b32", "mul.lo.s32", "max.s32"]);
            let _ = writeln!(text, "\t{op} %r{to}, %r{from}, %r{by};");
        }
        let _ = writeln!(text, "\tmad.lo.s32 %h, %h, 31, {b};");
        if rng.below(6) == 0 {
            let _ = writeln!(text, "\tst.global.u32 [%a1+{}], %h;", 32 + 4 * (b % 32));
        }
        // Whoever goes back has less left to go.
        let to = |rng: &mut Rng| (b + rng.below(2 * near)).saturating_sub(near).min(blocks);
        let goes = |rng: &mut Rng, text: &mut String, when: &str, to: usize| {
            if to <= b {
                let _ = write!(text, "\tsub.s32 %n, %n, 1;\n\tsetp.lt.s32 %p1, %n, 0;\n\t@%p1 bra B{blocks};\n");
                let bit = 1u32 << rng.below(5);
                let _ = writeln!(text, "\tadd.s32 %r{}, %r{}, {bit};", rng.below(NUMBERS), rng.below(NUMBERS));
            }
            let _ = writeln!(text, "\t{when}bra B{to};");
        };
        match rng.below(10) {
            0 => {}
            1 => {
                let to = to(rng);
                goes(rng, text, "", to);
            }
            2 if rng.below(3) == 0 => text.push_str(end),
            _ => {
                let mask = 1u32 << rng.below(4) | 1 << rng.below(4);
                let _ = writeln!(text, "\tand.b32 %t2, %r{}, {mask};\n\tsetp.ne.s32 %p0, %t2, 0;", number(rng));
                let when = rng.pick(&["@%p0 ", "@!%p0 "]);
                let to = to(rng);
                goes(rng, text, when, to);
            }
        }
    }
    let _ = write!(text, "B{blocks}:\n{end}");
}
