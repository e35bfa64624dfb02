//! Programs that need more than a constant bank has room for, or reach its far end.

mod compiled;

use compiled::{cubin, words};
use std::fmt::Write;
use testkit::Scratch;
use testkit::tool::run;

const HEAD: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

/// A kernel that stores what `body` leaves in `%r0`, of the number of the thread in `%r1`, with `decls` of the module before it.
fn kernel(decls: &str, body: &str) -> String {
    format!(
        "{HEAD}{decls}.visible .entry k(.param .u64 out)\n{{\n.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<3>;\nld.param.u64 %d0, [out];\n\
         mov.u32 %r1, %tid.x;\nmul.wide.u32 %d1, %r1, 4;\nadd.u64 %d0, %d0, %d1;\nmov.u32 %r0, %r1;\n{body}st.global.u32 [%d0], %r0;\nret;\n}}\n"
    )
}

/// Constant bank 4 has room for 8,192 addresses of variables. Here are 9,000, with content, without, and managed, some of which are read.
#[test]
fn more_variables_than_there_are_addresses_in_a_bank() {
    let dir = Scratch::new("limits-variables");
    let (mut decls, mut body) = (String::new(), String::new());
    for n in 0..9000 {
        match n % 4 {
            0 => writeln!(decls, ".global .align 4 .u32 v{n} = {};", n * 7 + 1),
            1 => writeln!(decls, ".visible .global .align 8 .u32 v{n}[2] = {{ {n}, {} }};", n * 3),
            2 => writeln!(decls, ".global .align 4 .u32 v{n};"),
            _ if n % 400 == 3 => writeln!(decls, ".visible .global .attribute(.managed) .u32 v{n} = {n};"),
            _ => writeln!(decls, ".global .align 16 .u64 v{n} = v{};", n - 3),
        }
        .expect("a string takes all");
    }
    for n in (0..9000).filter(|n| n % 97 == 0 || *n > 8980) {
        let load = match n % 4 {
            1 => format!("ld.global.u32 %r2, [v{n}+4];\n"),
            2 => format!("st.global.u32 [v{n}], {n};\nmov.u64 %d2, v{n};\nld.global.u32 %r2, [%d2];\n"),
            3 if n % 400 != 3 => format!("ld.global.u64 %d2, [v{n}];\nld.global.u32 %r2, [%d2];\n"),
            _ => format!("ld.global.u32 %r2, [v{n}];\n"),
        };
        body += &format!("{load}mad.lo.u32 %r0, %r0, 31, %r2;\n");
    }
    let [interpreted, ours] = words(&dir, &kernel(&decls, &body), 32, 32);
    assert_eq!(interpreted, ours);
    assert_ne!(ours[0], 0);
}

/// Offsets in a bank have 16 bits, of which the upper half is written as negative numbers.
#[test]
fn the_far_end_of_a_constant_bank() {
    let dir = Scratch::new("limits-far");
    let numbers: Vec<String> = (0..15_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_string()).collect();
    let decls = format!(".const .align 4 .u32 c[15000] = {{ {} }};\n", numbers.join(", "));
    let body = "ld.const.u32 %r2, [c+40000];\nmov.u32 %r3, c;\nshl.b32 %r4, %r1, 2;\nadd.u32 %r3, %r3, %r4;\nld.const.u32 %r5, [%r3+59000];\n\
                ld.const.u32 %r6, [%r3+32764];\nadd.u32 %r0, %r2, %r5;\nxor.b32 %r0, %r0, %r6;\n";
    let [interpreted, ours] = words(&dir, &kernel(&decls, body), 32, 32);
    assert_eq!(interpreted, ours);
    assert_ne!(ours[0], ours[1]);
}

/// A branch to one of `targets` blocks, each of which goes to one of them again while `%r7` is not 0.
fn interpreter(targets: usize) -> String {
    let names: Vec<String> = (0..targets).map(|n| format!("T{n}")).collect();
    let mut body = format!(
        "mov.u32 %r7, 20;\nts: .branchtargets {};\nrem.u32 %r3, %r0, {targets};\nbrx.idx %r3, ts;\n",
        names.join(", ")
    );
    for n in 0..targets {
        body += &format!(
            "T{n}:\nmad.lo.u32 %r0, %r0, {}, {n};\nadd.u32 %r7, %r7, -1;\nsetp.eq.u32 %p0, %r7, 0;\n@%p0 bra DONE;\nrem.u32 %r3, %r0, {targets};\nbrx.idx %r3, ts;\n",
            2 * n + 1
        );
    }
    kernel("", &format!("{body}DONE:\n"))
}

/// What branches to the same blocks has one table: 150 of 150 targets would take more than a bank.
#[test]
fn an_interpreter_has_few_tables() {
    let dir = Scratch::new("limits-tables");
    let [interpreted, ours] = words(&dir, &interpreter(150), 32, 32);
    assert_eq!(interpreted, ours);
    let file = cubin(&dir, &interpreter(150));
    let elf = cubin::elf::Elf::read(&file).expect("a cubin");
    let bank = elf.sections.iter().find(|s| s.name == ".nv.constant2.k").expect("a table");
    // One for each order in which blocks move values ahead of the next operation.
    assert!(bank.data.len() <= 4 * 4 * 150, "{}", bank.data.len());
}

/// A table that is too large is said to be.
#[test]
fn a_table_that_no_bank_holds() {
    let dir = Scratch::new("limits-table");
    let names: Vec<String> = (0..16_381).map(|n| format!("T{n}")).collect();
    let targets: String = names.iter().map(|n| format!("{n}: add.u32 %r0, %r0, 1;\n")).collect();
    let body = format!("ts: .branchtargets {};\nbrx.idx %r1, ts;\n{targets}", names.join(", "));
    std::fs::write(dir.join("k.ptx"), kernel("", &body)).expect("written");
    let done = run(env!("CARGO_BIN_EXE_ptxas"), &dir, &["-arch=sm_90", "k.ptx", "-o", "k.cubin"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.contains("16381 targets exceed the maximum of 16380 targets per indirect branch"), "{said}");
    assert!(said.contains("line 13"), "{said}");
    assert!(!dir.join("k.cubin").exists());
}

/// So is one of functions: a bank holds the places of 8,191.
#[test]
fn more_functions_than_a_bank_has_places() {
    let dir = Scratch::new("limits-functions");
    let text = |functions: usize| {
        let (mut decls, mut body) = (String::new(), String::from("mov.b64 %d2, 0;\n"));
        for n in 0..functions {
            decls += &format!(".func f{n}() {{ ret; }}\n");
            body += &format!("mov.u64 %d3, f{n};\nxor.b64 %d2, %d2, %d3;\n");
        }
        kernel(&decls, &format!("{body}P: .callprototype _ ();\ncall %d2, P;\n"))
    };
    let compile = |functions: usize| {
        std::fs::write(dir.join("k.ptx"), text(functions)).expect("written");
        let done = run(env!("CARGO_BIN_EXE_ptxas"), &dir, &["-arch=sm_90", "k.ptx", "-o", "k.cubin"]);
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (right, said) = compile(8192);
    assert!(
        !right && said.contains("called functions of 'k' take more than the 65536 bytes of constant bank 2"),
        "{said}"
    );
    assert!(!dir.join("k.cubin").exists());
    let (right, said) = compile(8191);
    assert!(right, "{said}");
}
