//! What of the PTX instruction table is refused for sm_90 and sm_90a.
//!
//! Examples of every form that the checker takes are compiled one by one, verified and checked for hazards. `refused.txt` lists
//! the instructions that are refused: any other one is a failure, and so is a line that nothing needs any more, so that the list can
//! only shrink. A sample runs with the other tests; `cargo xtask conformance --audit` compiles all and prints what is refused
//! (`SASSAFRAS_AUDIT=full`; an opcode instead of `full` takes all examples of it).

#[allow(dead_code)]
#[path = "../../ptx/tests/conformance/generate.rs"]
mod generate;

use codegen::pipeline::{Kind, Options};
use ptx::isa::Form;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use testkit::Random;

/// A sample takes one of so many examples.
const SAMPLE: usize = 24;
const REFUSED: &str = include_str!("refused.txt");

/// A kernel around an instruction: a register of every kind of every type, variables of every space.
fn kernel(target: &str, line: &str) -> String {
    format!(
        ".version 9.0\n.target {target}\n.address_size 64\n.extern .shared .align 16 .b8 smem[];\n\
         .global .align 64 .b8 gmem[1024];\n.global .texref tex0;\n.global .surfref surf0;\n\
         .visible .entry k(.param .u64 p, .param .align 64 .b8 tm[128])\n{{\n\
         .reg .pred %p<9>; .reg .b8 %c<9>; .reg .b16 %h<9>; .reg .b32 %r<300>; .reg .b64 %rd<40>; .reg .b128 %q<9>; \
         .reg .u8 %uc<9>; .reg .u16 %uh<9>; .reg .u32 %u<300>; .reg .u64 %ud<40>; \
         .reg .s8 %sc<9>; .reg .s16 %sh<9>; .reg .s32 %s<300>; .reg .s64 %sd<40>; \
         .reg .f32 %f<300>; .reg .f64 %d<40>;\n{line}\nL: ret;\n}}\n"
    )
}

/// Why an example that the checker takes is refused; none where it compiles or is not legal.
fn refused(target: &str, line: &str) -> Option<String> {
    let text = kernel(target, line);
    let (module, mut errors) = ptx::parse(&text);
    let target = arch::Target::parse(target)?;
    errors.extend(ptx::check(&module, Some(&target)));
    if errors.iter().any(|d| d.is_error()) {
        return None;
    }
    // As a program, without optimization, and for a linker.
    let usual = Options { target, verify: true, threads: 1, ..Options::default() };
    let ways = [
        usual.clone(),
        Options { effort: codegen::opt::NO_EFFORT, check_stack: true, ..usual.clone() },
        Options { kind: Kind::Relocatable, ..usual },
    ];
    let why = |options: &Options| {
        let list = codegen::compile::compile(&module, options).err()?;
        Some(list.first().map(|d| d.message.clone()).unwrap_or_default())
    };
    ways.iter().find_map(why)
}

/// The lines of the list: the beginning of an instruction and why it is refused.
fn known() -> Vec<(&'static str, &'static str)> {
    let lines = REFUSED.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
    lines.map(|l| l.split_once("  ").unwrap_or((l, ""))).map(|(a, b)| (a.trim(), b.trim())).collect()
}

/// A pattern, in which `*` stands for anything, matches the beginning of a text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    parts.all(|p| match rest.find(p) {
        Some(at) => {
            rest = &rest[at + p.len()..];
            true
        }
        None => false,
    })
}

fn examples(wanted: &str) -> BTreeSet<(&'static str, String)> {
    let mut out = BTreeSet::new();
    let whole = |f: &Form| wanted == "full" || f.op.name() == wanted;
    // Each opcode has its own numbers, so that a form more of one does not change what is drawn for all others.
    let mut drawn: BTreeMap<&str, u64> = BTreeMap::new();
    for (n, form) in ptx::isa::FORMS.iter().enumerate() {
        let nth = drawn.entry(form.op.name()).or_insert(0);
        *nth += 1;
        if !whole(form) && !wanted.is_empty() {
            continue;
        }
        let name = form.op.name().bytes().fold(0x5a55, |sum: u64, b| sum.wrapping_mul(31).wrapping_add(b.into()));
        let mut random = Random(name.wrapping_add(*nth));
        for (i, e) in generate::examples(form, &mut random).into_iter().enumerate() {
            if (whole(form) || (n + i).is_multiple_of(SAMPLE)) && matches!(e.what, "legal" | "target" | "first") {
                out.insert(("sm_90", e.text.clone()));
                out.insert(("sm_90a", e.text));
            }
        }
    }
    out
}

#[test]
fn what_is_refused_is_listed() {
    let wanted = std::env::var("SASSAFRAS_AUDIT").unwrap_or_default();
    let examples: Vec<_> = examples(&wanted).into_iter().collect();
    let judged: Vec<(String, String)> =
        examples.par_iter().filter_map(|(target, text)| refused(target, text).map(|why| (text.clone(), why))).collect();
    let mut reasons: BTreeMap<&str, &str> = BTreeMap::new();
    judged.iter().for_each(|(text, why)| {
        reasons.insert(text, why);
    });
    let known = known();
    let mut unknown = Vec::new();
    let mut needed = BTreeSet::new();
    for (text, why) in &reasons {
        match known.iter().find(|k| matches(k.0, text)) {
            Some(k) => {
                needed.insert(k.0);
            }
            None => unknown.push(format!("{text}  {why}")),
        }
    }
    println!("{} examples, {} refused, {} of them not listed", examples.len(), reasons.len(), unknown.len());
    if wanted == "full" {
        reasons.iter().for_each(|(text, why)| println!("refused: {text}  {why}"));
        let idle: Vec<&str> = known.iter().map(|k| k.0).filter(|k| !needed.contains(k)).collect();
        assert!(idle.is_empty(), "nothing is refused for these lines any more: {idle:#?}");
    }
    assert!(unknown.is_empty(), "refused, but not in refused.txt:\n{}", unknown.join("\n"));
}

#[test]
fn what_is_illegal_is_not_taken_for_refused() {
    assert_eq!(refused("sm_90", "add.s32 %r0, %r1;"), None);
    assert_eq!(refused("sm_90", "add.s32 %s0, %s1, %s2;"), None);
    assert!(matches("mma.*.m8n8k4.*.f16", "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {"));
    assert!(!matches("mma.*.m8n8k4", "wmma.m8n8k4"));
}
