//! Registers around calls of the system's functions, and where threads hand registers over.

use codegen::{Options, Output};
use std::fmt::Write;

fn compile(text: &str) -> Output {
    compile_with(text, codegen::opt::MOST_EFFORT)
}

fn compile_with(text: &str, effort: u8) -> Output {
    let (m, mut d) = ptx::parse(text);
    let target = arch::Target::parse("sm_90a").expect("a target");
    d.extend(ptx::check(&m, Some(&target)));
    assert!(d.is_empty(), "{d:?}\n{text}");
    let options = Options { target, verify: true, effort, ..Options::default() };
    codegen::compile(&m, &options).unwrap_or_else(|e| panic!("{e:?}\n{text}"))
}

/// Instructions that load `n` values from `%a`, and that store what neighbours add up to.
fn values(n: usize) -> (String, String) {
    let (mut load, mut store) = (String::new(), String::new());
    for i in 0..n {
        let _ = writeln!(load, "ld.volatile.global.b32 %v{i}, [%a+{}];", 4 * i);
        let _ = writeln!(store, "add.u32 %t, %v{i}, %v{};\nst.volatile.global.b32 [%a+{}], %t;", (i + 7) % n, 4 * i);
    }
    (load, store)
}

const HEAD: &str = ".version 8.7\n.target sm_90a\n.address_size 64\n";

#[test]
fn functions_of_the_system_keep_every_register_from_r16_on() {
    // More than the 126 of the ABI, fewer than the 168 that there are.
    let (load, store) = values(140);
    let text = format!(
        "{HEAD}.extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.visible .entry k(.param .u64 p) .maxntid 384 .minnctapersm 1 {{
.reg .b64 %a; .reg .b32 %v<140>, %t; .reg .pred %p;
ld.param.u64 %a, [p];
{load}setp.ne.u32 %p, %v3, 5;
@%p bra GOOD;
{{ .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
st.param.b64 [a], %a; st.param.b64 [b], %a; st.param.b32 [c], 7; st.param.b64 [d], %a; st.param.b64 [e], 1;
call.uni __assertfail, (a, b, c, d, e); }}
GOOD:
{store}ret;
}}"
    );
    let out = compile(&text);
    assert_eq!((out.log[0].spill_stores, out.log[0].stack_frame), (0, 0));
}

#[test]
fn what_lies_high_moves_where_threads_give_up_registers() {
    // 60 values are alive before the roles part; one side keeps 30 of them with 40 registers, the other all with 232.
    let (load, store) = values(60);
    let (_, few) = values(30);
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p) .maxntid 384 .minnctapersm 1 {{
.reg .b64 %a; .reg .b32 %v<60>, %t, %me; .reg .pred %p;
ld.param.u64 %a, [p];
mov.u32 %me, %tid.x;
{load}setp.lt.u32 %p, %me, 128;
@%p bra PRODUCER;
setmaxnreg.inc.sync.aligned.u32 232;
{store}bra END;
PRODUCER:
setmaxnreg.dec.sync.aligned.u32 40;
{few}END:
ret;
}}"
    );
    let out = compile(&text);
    assert!(out.notes.is_empty(), "{:?}", out.notes);
    assert_eq!((out.log[0].registers, out.log[0].spill_stores), (168, 0));
}

#[test]
fn threads_begin_with_what_the_launch_bounds_leave() {
    // 126 values are alive where threads have 128 registers, 150 where they have 160: a few of the first go to the stack, and
    // nothing else does.
    let (load, _) = values(126);
    let (all, store) = values(150);
    let more: String = all.lines().skip(126).map(|l| format!("{l}\n")).collect();
    let (_, few) = values(12);
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p) .maxntid 512 .minnctapersm 1 {{
.reg .b64 %a; .reg .b32 %v<150>, %t, %me; .reg .pred %p;
ld.param.u64 %a, [p];
mov.u32 %me, %tid.x;
{load}setp.lt.u32 %p, %me, 128;
@%p bra PRODUCER;
setmaxnreg.inc.sync.aligned.u32 160;
{more}{store}bra END;
PRODUCER:
setmaxnreg.dec.sync.aligned.u32 32;
{few}END:
ret;
}}"
    );
    let out = compile(&text);
    assert!(out.notes.is_empty(), "{:?}", out.notes);
    assert!(out.log[0].spill_stores <= 48, "{}", out.log[0].spill_stores);
}

/// In the order of the text 400 loads come first, each under its condition.
#[test]
fn far_too_many_values_get_all_passes_at_the_least_effort() {
    let n = 400;
    let (mut load, mut store) = (String::new(), String::new());
    for i in 0..n {
        let _ = writeln!(
            load,
            "mov.u32 %v{i}, 0;\nsetp.lt.u32 %p, %me, {};\n@%p ld.global.nc.b32 %v{i}, [%a+{}];",
            i + 1,
            4 * i
        );
        let _ = writeln!(store, "setp.gt.u32 %p, %me, {};\n@%p st.global.b32 [%b+{}], %v{i};", i + 1, 4 * i);
    }
    let text = format!(
        "{HEAD}.visible .entry k(.param .u64 p, .param .u64 q) {{
.reg .b64 %a, %b; .reg .b32 %v<{n}>, %me; .reg .pred %p;
ld.param.u64 %a, [p];
ld.param.u64 %b, [q];
mov.u32 %me, %tid.x;
{load}{store}ret;
}}"
    );
    let spills = |effort| compile_with(&text, effort).log[0].spill_loads;
    assert_eq!(spills(codegen::opt::LEAST_EFFORT), spills(codegen::opt::MOST_EFFORT));
}

/// A loop that hands on fourteen values and does `what` with two of them.
fn seldom(what: &str, ty: &str) -> String {
    let hand: String = (0..12).map(|i| format!("add.u32 %v{i}, %v{i}, %v{};\n", (i + 1) % 12)).collect();
    let (load, _) = values(12);
    let load = load.replace("%a+", "%a+64+");
    let store: String = (0..12).map(|i| format!("st.global.b32 [%a+{}], %v{i};\n", 4 * i)).collect();
    format!(
        "{HEAD}.visible .entry k(.param .u64 p, .param .u32 n) {{
.reg .b64 %a, %c; .reg .b32 %v<12>, %n; .reg .pred %p; .reg .{ty} %x, %y, %z;
ld.param.u64 %a, [p];
ld.param.u32 %n, [n];
{load}LOOP:
ld.global.{ty} %x, [%a];
ld.global.{ty} %y, [%a+8];
{what}
st.global.{ty} [%a], %z;
{hand}sub.u32 %n, %n, 1;
setp.ne.u32 %p, %n, 0;
@%p bra LOOP;
{store}ret;
}}"
    )
}

/// Registers that such a routine may change lie behind all that lives across its call: it must do with few, and spill nothing.
#[test]
fn routines_for_seldom_cases_do_with_few_registers() {
    let mut all = Vec::new();
    for rnd in ["rn", "rz", "rm", "rp"] {
        for what in ["div", "rcp", "sqrt"] {
            let from = if what == "div" { "%x, %y" } else { "%x" };
            all.push((format!("{what}.{rnd}.f32 %z, {from};"), "f32", 30));
        }
        all.push((format!("div.{rnd}.f64 %z, %x, %y;"), "f64", 34));
        all.push((format!("rcp.{rnd}.f64 %z, %x;"), "f64", 34));
    }
    for what in ["div", "rem"] {
        for ty in ["u64", "s64"] {
            all.push((format!("{what}.{ty} %z, %x, %y;"), ty, 34));
        }
    }
    for (what, ty, most) in all {
        for effort in [codegen::opt::LEAST_EFFORT, codegen::opt::MOST_EFFORT] {
            let log = &compile_with(&seldom(&what, ty), effort).log[0];
            assert_eq!((log.spill_stores, log.stack_frame), (0, 0), "{what} at {effort}");
            assert!(log.registers <= most || effort == codegen::opt::LEAST_EFFORT, "{what}: {}", log.registers);
        }
    }
}
