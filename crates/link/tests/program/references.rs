//! Made-up programs with references to textures, samplers and surfaces: in entries, in functions of other modules, through pointers,
//! and entries without any.

use std::fmt::Write;
use testkit::Random;

/// How many references a module has at most.
const MOST: usize = 7;

/// A reference: its name and `tex`, `surf` or `sampler`.
struct Reference {
    name: String,
    kind: &'static str,
}

/// The PTX of every module. Textures have samplers of their own from sm_90 on at times; before, the vendor's linker puts their words
/// where there is no memory (docs/link.md).
pub fn modules(random: &mut Random, arch: &str) -> Vec<String> {
    let older = arch.starts_with("sm_7") || arch.starts_with("sm_8");
    let apart = !older && random.index(3) == 0;
    let count = 1 + random.index(4);
    (0..count).map(|m| module(random, arch, apart, (m, count))).collect()
}

fn module(random: &mut Random, arch: &str, apart: bool, (m, count): (usize, usize)) -> String {
    let mode = if apart { ", texmode_independent" } else { "" };
    let mut text = format!(".version 8.8\n.target {arch}{mode}\n.address_size 64\n");
    let kinds: &[&str] = if apart { &["tex", "surf", "sampler"] } else { &["tex", "tex", "surf"] };
    let references: Vec<Reference> = (0..random.index(MOST))
        .map(|i| Reference {
            name: format!("{}{m}_{i}", ["a", "x", "ref"][random.index(3)]),
            kind: kinds[random.index(kinds.len())],
        })
        .collect();
    for r in &references {
        let said = match r.kind {
            "sampler" if random.index(2) == 0 => " = {addr_mode_0 = wrap, force_unnormalized_coords = 1}",
            _ => "",
        };
        writeln!(text, ".global .{}ref {}{said};", r.kind, r.name).expect("a string");
    }
    for other in (0..count).filter(|&o| o != m) {
        writeln!(text, ".extern .func (.param .b32 r) f{other} (.param .b32 a);").expect("a string");
    }
    let uses = read(random, &references, apart);
    write!(text, ".visible .func (.param .b32 r) f{m} (.param .b32 a) {{\n{HEAD}ld.param.b32 %i, [a];\n{uses}")
        .expect("a string");
    text.push_str("st.param.b32 [r], %s; ret;\n}\n");
    for e in 0..random.index(4) {
        let parameters: String = (0..random.index(5)).map(|i| format!(", .param .b32 q{i}")).collect();
        let uses = if random.index(3) == 0 { String::new() } else { read(random, &references, apart) };
        write!(text, ".visible .entry k{m}_{e} (.param .b64 p{parameters}) {{\n{HEAD}mov.u32 %i, %tid.x;\n{uses}")
            .expect("a string");
        if random.index(3) == 0 {
            let to = random.index(count);
            writeln!(
                text,
                "{{ .param .b32 a; .param .b32 r; st.param.b32 [a], %s; call (r), f{to}, (a); ld.param.b32 %s, [r]; }}"
            )
            .expect("a string");
        }
        if random.index(4) == 0 {
            let to = random.index(count);
            write!(text, "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\nmov.b64 %a, f{to};\n")
                .expect("a string");
            text.push_str("{ .param .b32 a; .param .b32 r; st.param.b32 [a], %s; call (r), %a, (a), proto; ld.param.b32 %s, [r]; }\n");
        }
        text.push_str("ld.param.b64 %a, [p]; st.global.b32 [%a], %s; ret;\n}\n");
    }
    text
}

const HEAD: &str = ".reg .b64 %a; .reg .b32 %x, %y, %z, %w, %i, %s;\nmov.b32 %s, 0;\n";

/// Reads of some references.
fn read(random: &mut Random, references: &[Reference], apart: bool) -> String {
    let samplers: Vec<&str> = references.iter().filter(|r| r.kind == "sampler").map(|r| r.name.as_str()).collect();
    let mut text = String::new();
    for r in references {
        let name = &r.name;
        match r.kind {
            _ if random.index(4) == 0 => continue,
            "surf" => write!(text, "suld.b.1d.b32.trap {{%x}}, [{name}, {{%i}}];"),
            "tex" if apart && samplers.is_empty() => continue,
            "tex" if apart => {
                let sampler = samplers[random.index(samplers.len())];
                write!(text, "tex.1d.v4.s32.s32 {{%x, %y, %z, %w}}, [{name}, {sampler}, {{%i}}];")
            }
            "tex" => write!(text, "tex.1d.v4.s32.s32 {{%x, %y, %z, %w}}, [{name}, {{%i}}];"),
            _ => continue,
        }
        .expect("a string");
        text.push_str(" add.u32 %s, %s, %x;\n");
    }
    text
}
