//! Made-up programs of many modules: functions that call across modules, variables of every memory, weak and static names,
//! pointers to functions, recursion.

#[allow(dead_code)]
pub mod references;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::Random;

/// What a program is like.
#[derive(Clone, Debug)]
pub struct Shape {
    pub modules: usize,
    /// Functions and entries of a module.
    pub functions: usize,
    pub entries: usize,
    /// Out of 100 functions, so many have such a thing.
    pub shared: usize,
    pub frames: usize,
    pub pointers: usize,
    pub recursion: usize,
    pub barriers: usize,
}

impl Shape {
    pub fn random(random: &mut Random) -> Shape {
        let mut some = |n: usize| if random.index(2) == 0 { 0 } else { random.index(n) };
        Shape {
            shared: some(60),
            frames: some(60),
            pointers: some(40),
            recursion: some(12),
            barriers: some(50),
            modules: 1 + random.index(5),
            functions: random.index(6),
            entries: 1 + random.index(3),
        }
    }
}

pub fn options(arch: &str) -> link::Options {
    let tool = cubin::image::Tool {
        name: "nvlink".into(),
        version: "test".into(),
        branch: "test".into(),
        options: String::new(),
        toolkit: 135,
    };
    link::Options {
        target: arch::Target::parse(arch).expect("a target"),
        tool,
        relocatable: false,
        preserve_relocs: false,
        debug: false,
        strip_debug: false,
        keep: link::Keep::All,
        report_arch: false,
        quiet_stack: false,
        keep_system: false,
        tools_patch: false,
    }
}

/// The classes of differences that docs/link.md lists.
pub fn explained(d: &link::Difference) -> bool {
    // The vendor rounds the alignment of some entries' shared memory up to 16.
    d.part.starts_with(".nv.shared.") && d.what.starts_with("alignment 0x")
}

/// Compiles modules with the vendor's compiler, two at a time.
pub fn compile(bin: &Path, dir: &Path, modules: &[String], arch: &str) -> Vec<PathBuf> {
    let file = |i: usize| dir.join(format!("m{i}.cubin"));
    let work = |from: usize| {
        for i in (from..modules.len()).step_by(2) {
            let text = dir.join(format!("m{i}.ptx"));
            std::fs::write(&text, &modules[i]).expect("writable");
            let mut ptxas = Command::new(bin.join("ptxas"));
            ptxas.args(["-c", "-arch", arch]).arg(&text).arg("-o").arg(file(i));
            let done = ptxas.output().expect("ptxas runs");
            let said = String::from_utf8_lossy(&done.stderr).into_owned() + &String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success(), "{said}\n{}", modules[i]);
        }
    };
    std::thread::scope(|s| {
        s.spawn(|| work(1));
        work(0);
    });
    (0..modules.len()).map(file).collect()
}

/// A variable that any module may use.
struct Variable {
    name: String,
    module: usize,
    space: &'static str,
    align: usize,
    size: usize,
    init: bool,
}

/// The PTX of every module.
pub fn modules(random: &mut Random, shape: &Shape, arch: &str) -> Vec<String> {
    let mut variables = Vec::new();
    for module in 0..shape.modules {
        for i in 0..random.index(5) {
            let space = ["global", "const", "shared"][random.index(3)];
            let align = 1 << random.index(5);
            let size = 1 + random.index(40);
            let init = space != "shared" && random.index(2) == 0;
            variables.push(Variable { name: format!("v{module}_{i}"), module, space, align, size, init });
        }
    }
    (0..shape.modules).map(|m| module(random, shape, arch, m, &variables)).collect()
}

fn declaration(v: &Variable) -> String {
    let init = if v.init { " = {7}" } else { "" };
    format!(".visible .{} .align {} .b8 {}[{}]{init};\n", v.space, v.align, v.name, v.size)
}

fn module(random: &mut Random, shape: &Shape, arch: &str, m: usize, variables: &[Variable]) -> String {
    let version = if arch.starts_with("sm_1") { "8.8" } else { "8.0" };
    let mut head = format!(".version {version}\n.target {arch}\n.address_size 64\n");
    let mut used = vec![false; variables.len()];
    let mut called: Vec<String> = Vec::new();
    let mut body = String::new();
    let own = |v: &&Variable| v.module == m;
    for v in variables.iter().filter(own) {
        head.push_str(&declaration(v));
    }
    // Names that every module has: one of them is linked, others are lost; and static ones.
    head.push_str(".weak .global .align 4 .b8 weakling[12] = {1, 2, 3};\n");
    writeln!(head, ".global .align 8 .b8 private[{}];", 8 * (1 + m % 3)).expect("a string");
    head.push_str(".extern .shared .align 8 .b8 dynamic[];\n");
    let signature = |name: &str| format!("(.param .b32 r) {name} (.param .b32 a)");
    let mut order = vec![format!(".weak .func {} {{\n{}", signature("template"), simple("weakling"))];
    order.push(format!(".func {} {{\n{}", signature("helper"), simple("private")));
    let names: Vec<String> = (0..shape.functions).map(|f| format!("f{m}_{f}")).collect();
    let calls = |random: &mut Random, f: usize, called: &mut Vec<String>, body: &mut String| {
        for _ in 0..random.index(4) {
            let recursive = random.index(100) < shape.recursion;
            let target = match random.index(4) {
                0 => "template".to_string(),
                1 => "helper".to_string(),
                _ => {
                    // Calls go to later functions, so that only those meant to be are recursive.
                    let (tm, tf) = (random.index(shape.modules), random.index(shape.functions.max(1)));
                    if shape.functions == 0 || !recursive && (tm, tf) <= (m, f) {
                        continue;
                    }
                    format!("f{tm}_{tf}")
                }
            };
            if !called.contains(&target) {
                called.push(target.clone());
            }
            writeln!(
                body,
                "{{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r1; call (q), {target}, (p); ld.param.b32 %r1, [q]; }}"
            )
            .expect("a string");
        }
    };
    let inside = |random: &mut Random, used: &mut Vec<bool>, body: &mut String| {
        if random.index(100) < shape.frames {
            let size = 4 * (1 + random.index(20));
            writeln!(body, ".local .align 4 .b8 frame[{size}]; .reg .b64 %l<3>; and.b32 %r3, %r1, {};", size / 4 - 1)
                .expect("a string");
            body.push_str("mov.b64 %l1, frame; mul.wide.u32 %l2, %r3, 4; add.u64 %l1, %l1, %l2;\n");
            body.push_str("st.local.b32 [frame], %r1; st.local.b32 [%l1], %r1; ld.local.b32 %r1, [%l1];\n");
        }
        if random.index(100) < shape.shared {
            let size = 1 + random.index(48);
            writeln!(body, ".shared .align {} .b8 own[{size}]; st.shared.b8 [own], %r1;", 1 << random.index(4))
                .expect("a string");
            if random.index(4) == 0 {
                body.push_str("st.shared.b8 [dynamic + 3], %r1;\n");
            }
        }
        if random.index(100) < shape.barriers {
            writeln!(body, "bar.sync {};", random.index(15)).expect("a string");
        }
        for (i, v) in variables.iter().enumerate() {
            if random.index(variables.len().max(4)) < 2 && (v.space != "shared" || random.index(100) < shape.shared) {
                used[i] = true;
                let (space, name) = (v.space, &v.name);
                writeln!(body, "ld.{space}.u8 %r2, [{name}]; add.u32 %r1, %r1, %r2;").expect("a string");
            }
        }
    };
    for (f, name) in names.iter().enumerate() {
        let mut text = format!(".visible .func {} {{\n.reg .b32 %r<8>; ld.param.b32 %r1, [a];\n", signature(name));
        inside(random, &mut used, &mut text);
        calls(random, f, &mut called, &mut text);
        text.push_str("st.param.b32 [r], %r1; ret;\n}\n");
        order.push(text);
    }
    if random.index(100) < shape.pointers && !names.is_empty() {
        writeln!(body, ".visible .global .align 8 .u64 table{m}[1] = {{{}}};", names[0]).expect("a string");
    }
    for e in 0..shape.entries {
        let mut text = format!(".visible .entry k{m}_{e} (.param .b64 out) {{\n.reg .b32 %r<8>; .reg .b64 %d<4>;\n");
        text.push_str("mov.u32 %r1, %tid.x; ld.param.b64 %d1, [out];\n");
        inside(random, &mut used, &mut text);
        calls(random, 0, &mut called, &mut text);
        if random.index(100) < shape.pointers && !names.is_empty() {
            let name = &names[random.index(names.len())];
            text.push_str("proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n");
            writeln!(text, "mov.b64 %d2, {name}; st.global.b64 [%d1 + 8], %d2; ld.global.b64 %d2, [%d1 + 16];")
                .expect("a string");
            text.push_str("{ .param .b32 p; .param .b32 q; st.param.b32 [p], %r1;\n");
            text.push_str("call (q), %d2, (p), proto; ld.param.b32 %r1, [q]; }\n");
        }
        text.push_str("st.global.b32 [%d1], %r1; ret;\n}\n");
        order.push(text);
    }
    for (v, _) in variables.iter().zip(&used).filter(|(v, used)| **used && v.module != m) {
        writeln!(head, ".extern .{} .align {} .b8 {}[{}];", v.space, v.align, v.name, v.size).expect("a string");
    }
    for name in names.iter().chain(called.iter().filter(|c| !names.contains(c) && c.starts_with('f'))) {
        let linkage = if names.contains(name) { ".visible" } else { ".extern" };
        writeln!(head, "{linkage} .func {};", signature(name)).expect("a string");
    }
    head + &body + &order.concat()
}

fn simple(variable: &str) -> String {
    format!(
        ".reg .b32 %r<4>; ld.param.b32 %r1, [a]; ld.global.u8 %r2, [{variable}]; add.u32 %r1, %r1, %r2;\n\
         st.global.b8 [{variable}], %r1; st.param.b32 [r], %r1; ret;\n}}\n"
    )
}
