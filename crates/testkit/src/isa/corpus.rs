//! The PTX corpus, compiled by the vendor's ptxas: the kernels of `tests/kernels`, the instructions of `tests/isa` and other lines of PTX, each
//! with a kernel around it.

use super::code;
use crate::{Random, Scratch};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// A statement as the examples of the PTX table have them, with the register names of the corpus: there `%d` is any register of
/// 64 bits, `%g` one for doubles.
pub fn snippet(statement: &str) -> String {
    const NAMES: [(&str, char); 10] = [
        ("rd", 'd'),
        ("ud", 'd'),
        ("sd", 'd'),
        ("uc", 'c'),
        ("sc", 'c'),
        ("uh", 'h'),
        ("sh", 'h'),
        ("u", 'r'),
        ("s", 'r'),
        ("d", 'g'),
    ];
    let mut parts = statement.split('%');
    let mut out = parts.next().unwrap_or("").to_string();
    for part in parts {
        out.push('%');
        let letters = part.bytes().take_while(u8::is_ascii_lowercase).count();
        let (name, rest) = part.split_at(letters);
        match NAMES.iter().find(|n| n.0 == name && rest.starts_with(|c: char| c.is_ascii_digit())) {
            Some(&(_, letter)) => out.push(letter),
            None => out.push_str(name),
        }
        out.push_str(rest);
    }
    out
}

/// The distinct words of lines of PTX, each in kernels of its own: with values from memory, from parameters, and, at the last
/// level, with constants in place of all and of every second register, as they become immediates. One kernel in `every`.
///
/// # Panics
/// If ptxas cannot be run.
pub fn statements(oracle: &Path, target: &str, levels: &[u8], every: usize, lines: &[String]) -> BTreeSet<u128> {
    let mut found = BTreeSet::new();
    let dir = Scratch::new("statements");
    let constants = [None, Some(0), Some(1)].map(Inputs::Constants);
    let best = levels.last().copied().unwrap_or(3);
    for (inputs, levels) in [(&[Inputs::Memory, Inputs::Parameters][..], levels), (&constants, &[best])] {
        let kinds = |s: &String| inputs.iter().map(|&i| entry(&snippet(s), i)).collect::<Vec<_>>();
        let entries: Vec<String> = lines.iter().flat_map(kinds).step_by(every).collect();
        for chunk in entries.chunks(100) {
            batch(oracle, target, levels, &head(target), &named(chunk), &dir, &mut |_, cubin| {
                found.extend(code(cubin))
            });
        }
    }
    found
}

/// Takes the name of what was compiled and its cubin.
pub type Each<'a> = &'a mut dyn FnMut(&str, &[u8]);

/// The instructions of `tests/isa` compiled for `target` at these levels, a hundred kernels to a cubin; of one in `every`.
/// Those that the target lacks are left out.
///
/// # Panics
/// If the corpus cannot be read or ptxas cannot be run.
pub fn snippets(oracle: &Path, target: &str, levels: &[u8], every: usize, each: Each) {
    let dir = Scratch::new("corpus");
    for (name, entries) in corpus_entries(every) {
        for (n, chunk) in entries.chunks(100).enumerate() {
            let mut part = 0;
            batch(oracle, target, levels, &head(target), &named(chunk), &dir, &mut |level, cubin| {
                part += 1;
                each(&format!("{name}-{n}.{part} -O{level}"), cubin);
            });
        }
    }
}

/// The kernels of `tests/kernels` compiled for `target` at these levels; one in `every`. Those that the target lacks the
/// instructions for are left out.
///
/// # Panics
/// If the corpus cannot be read or ptxas cannot be run.
pub fn kernels(oracle: &Path, target: &str, levels: &[u8], every: usize, each: Each) {
    let dir = Scratch::new("corpus");
    for path in crate::corpus().into_iter().step_by(every) {
        let text = std::fs::read_to_string(&path).expect("readable");
        let text = retargeted(&text, target);
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for level in levels {
            if let Ok(cubin) = run(oracle, target, *level, &text, &dir) {
                each(&format!("{name} -O{level}"), &cubin);
            }
        }
    }
}

/// The instructions of `tests/isa` as kernels, by file; of one in `every`.
pub(super) fn corpus_entries(every: usize) -> Vec<(String, Vec<String>)> {
    let of = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).expect("readable");
        let lines = text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
        let entries = lines
            .flat_map(expand)
            .flat_map(|s| [entry(&s, Inputs::Memory), entry(&s, Inputs::Parameters)])
            .step_by(every)
            .collect();
        (path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), entries)
    };
    crate::files("tests/isa", "txt").into_iter().map(of).collect()
}

/// A PTX text for another target, in the newest version of PTX that all releases take for it.
pub fn retargeted(ptx: &str, target: &str) -> String {
    let line = |l: &str| match l.trim_start() {
        t if t.starts_with(".target") => target_line(target),
        // Older versions do not know the newer targets.
        t if t.starts_with(".version") => ".version 9.0".into(),
        _ => l.to_string(),
    };
    ptx.lines().flat_map(|l| [line(l), "\n".into()]).collect()
}

pub(super) fn target_line(target: &str) -> String {
    format!(".target sm_{target}")
}

/// Every choice of `<a|b|c>` in a line; of very many, a sample.
fn expand(line: &str) -> Vec<String> {
    const MOST: usize = 96;
    let mut parts: Vec<Vec<&str>> = Vec::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('<') {
        let Some((inside, after)) = after.split_once('>') else { break };
        parts.push(vec![before]);
        parts.push(inside.split('|').collect());
        rest = after;
    }
    parts.push(vec![rest]);
    let total: usize = parts.iter().map(Vec::len).product();
    let mut random = Random(line.len() as u64);
    let mut found = BTreeSet::new();
    for n in 0..total.min(MOST) {
        let mut n = if total <= MOST { n } else { random.index(total) };
        let mut text = String::new();
        for part in &parts {
            text.push_str(part[n % part.len()]);
            n /= part.len();
        }
        found.insert(text);
    }
    found.into_iter().collect()
}

/// Registers of a snippet: letter, PTX type, bytes.
const REGISTERS: [(char, &str, usize); 8] = [
    ('c', "b8", 1),
    ('r', "b32", 4),
    ('d', "b64", 8),
    ('h', "b16", 2),
    ('f', "f32", 4),
    ('g', "f64", 8),
    ('p', "pred", 4),
    ('q', "b128", 16),
];

/// Where the values of a snippet's registers come from.
#[derive(Clone, Copy, PartialEq)]
enum Inputs {
    Memory,
    Parameters,
    /// The program: all, or those whose number leaves this rest by two, while the others come from memory.
    Constants(Option<u32>),
}

/// A kernel around a snippet: its registers are loaded before and stored after; without its name.
fn entry(snippet: &str, inputs: Inputs) -> String {
    use std::fmt::Write as _;
    // Numbers of which no part is zero, alike for floats and integers and different for each register.
    let constant = |n: u32, bytes: usize| {
        let word = 0x3f81_4040_3f82_4020u64.wrapping_add(n as u64 * 0x0010_0300_0011_0301);
        format!("{:#x}", if bytes < 8 { word & ((1 << (8 * bytes)) - 1) } else { word })
    };
    let mut named = BTreeSet::new();
    for part in snippet.split('%').skip(1) {
        let mut chars = part.chars();
        let Some(kind) = chars.next() else { continue };
        let number: String = chars.as_str().chars().take_while(char::is_ascii_digit).collect();
        let after = part[1 + number.len()..].chars().next().unwrap_or(' ');
        if let (Ok(n), false, Some(&(_, of, bytes))) = (
            number.parse::<u32>(),
            after.is_ascii_alphanumeric() || after == '_',
            REGISTERS.iter().find(|r| r.0 == kind),
        ) {
            named.insert((kind, n, of, bytes));
        }
    }
    let mut out = String::from("(.param .u64 ptr, .param .align 16 .b8 pars[2048]) .maxntid 128 {\n");
    out.push_str(".reg .b32 %tx, %pt; .reg .b64 %bs, %of; .local .align 16 .b8 lm[64];\n");
    for (kind, of, _) in REGISTERS {
        // Older targets lack 128-bit registers.
        if of != "b128" || named.iter().any(|n| n.0 == 'q') {
            let _ = writeln!(out, ".reg .{of} %{kind}<300>;");
        }
    }
    out.push_str("ld.param.u64 %bs, [ptr]; mov.u32 %tx, %tid.x; mul.wide.u32 %of, %tx, 1024; add.s64 %bs, %bs, %of;\n");
    let mut stores = String::new();
    let mut offset = 0usize;
    for (kind, n, of, bytes) in named {
        offset = offset.next_multiple_of(bytes);
        let uniform = inputs == Inputs::Parameters && of != "b128";
        let (from, space) = match uniform {
            true => (format!("[pars+{offset}]"), "param"),
            false => (format!("[%bs+{offset}]"), "global"),
        };
        let held = matches!(inputs, Inputs::Constants(rest) if rest.is_none_or(|r| r == n % 2));
        let _ = match kind {
            'p' if held => writeln!(out, "setp.ne.s32 %p{n}, 1, {};", n / 2 % 2),
            // There is no move of one byte or sixteen.
            'r' | 'd' | 'h' | 'f' | 'g' if held => {
                writeln!(out, "mov.b{} %{kind}{n}, {};", 8 * bytes, constant(n, bytes))
            }
            'p' => writeln!(out, "ld.{space}.b32 %pt, {from}; setp.ne.s32 %p{n}, %pt, 0;"),
            _ => writeln!(out, "ld.{space}.{of} %{kind}{n}, {from};"),
        };
        let _ = match kind {
            'p' => writeln!(stores, "selp.b32 %pt, 1, 0, %p{n}; st.global.b32 [%bs+{offset}], %pt;"),
            _ => writeln!(stores, "st.global.{of} [%bs+{offset}], %{kind}{n};"),
        };
        offset += bytes;
    }
    out.push_str(snippet);
    out.push('\n');
    out.push_str(&stores);
    out.push_str("L: ret; }\n");
    out
}

pub(super) fn head(target: &str) -> String {
    format!(
        ".version 9.3\n{}\n.address_size 64\n.shared .align 128 .b8 smem[1024];\n.global .align 64 .b8 gmem[1024];\n\
         .global .texref tex0;\n.global .surfref surf0;\n\
         .visible .func (.param .b32 o) helper(.param .b32 i) {{ .reg .b32 %t; ld.param.b32 %t, [i]; add.s32 %t, %t, 3; \
         st.param.b32 [o], %t; ret; }}\n",
        target_line(target)
    )
}

pub(super) fn run(oracle: &Path, target: &str, level: u8, ptx: &str, dir: &Path) -> Result<Vec<u8>, String> {
    let (input, output) = (dir.join("in.ptx"), dir.join("out.cubin"));
    std::fs::write(&input, ptx).expect("writable");
    let mut command = Command::new(oracle.join("bin/ptxas"));
    command.arg(format!("-arch=sm_{target}")).arg(format!("-O{level}")).arg(&input).arg("-o").arg(&output);
    let done = command.output().expect("ptxas runs");
    if done.status.success() {
        std::fs::read(&output).map_err(|e| e.to_string())
    } else {
        Err(String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr))
    }
}

/// Entries with names.
pub(super) fn named(entries: &[String]) -> Vec<String> {
    entries.iter().enumerate().map(|(n, entry)| format!(".visible .entry k{n}{entry}")).collect()
}

/// Compiles pieces of PTX in one file at each level, without those that the target lacks; in several where together they are too
/// much.
pub(super) fn batch(
    oracle: &Path,
    target: &str,
    levels: &[u8],
    head: &str,
    pieces: &[String],
    dir: &Path,
    found: &mut dyn FnMut(u8, &[u8]),
) {
    let all = pieces.iter().collect();
    let (live, mut first) = accepted(oracle, target, levels[0], head, all, dir);
    let mut parts = vec![live];
    while let Some(part) = parts.pop().filter(|p| !p.is_empty()) {
        let text = joined(head, &part);
        let first = first.take().map_or_else(|| run(oracle, target, levels[0], &text, dir), Ok);
        match first {
            Ok(cubin) => {
                found(levels[0], &cubin);
                for level in &levels[1..] {
                    if let Ok(cubin) = run(oracle, target, *level, &text, dir) {
                        found(*level, &cubin);
                    }
                }
            }
            // Each was taken alone: these are too many.
            Err(_) if part.len() > 1 => {
                let (low, high) = part.split_at(part.len() / 2);
                parts.extend([high.to_vec(), low.to_vec()]);
            }
            Err(_) => {}
        }
    }
}

fn joined(head: &str, pieces: &[&String]) -> String {
    let mut ptx = head.to_string();
    ptx.extend(pieces.iter().map(|p| p.as_str()));
    ptx
}

/// The pieces that the target takes, and their cubin if they were compiled together: what is left out is told by the lines of the
/// errors, or found by halves.
fn accepted<'a>(
    oracle: &Path,
    target: &str,
    level: u8,
    head: &str,
    mut live: Vec<&'a String>,
    dir: &Path,
) -> (Vec<&'a String>, Option<Vec<u8>>) {
    while !live.is_empty() {
        let errors = match run(oracle, target, level, &joined(head, &live), dir) {
            Ok(cubin) => return (live, Some(cubin)),
            Err(errors) => errors,
        };
        let mut from = head.lines().count() + 1;
        let lines = live.iter().map(|p| {
            from += p.lines().count();
            from - p.lines().count()
        });
        let lines: Vec<usize> = lines.collect();
        let mut bad = BTreeSet::new();
        for message in errors.lines().filter(|l| l.contains("error") || l.contains("fatal")) {
            let Some((_, after)) = message.split_once("line ") else { continue };
            let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
            if let Ok(line) = digits.parse::<usize>() {
                bad.insert(lines.partition_point(|from| *from <= line).wrapping_sub(1));
            }
        }
        bad.retain(|n| *n < live.len());
        if !bad.is_empty() {
            live = live.into_iter().enumerate().filter(|(n, _)| !bad.contains(n)).map(|(_, e)| e).collect();
        } else if live.len() == 1 {
            live.clear();
        } else {
            let high = live.split_off(live.len() / 2);
            let mut taken = accepted(oracle, target, level, head, live, dir).0;
            taken.extend(accepted(oracle, target, level, head, high, dir).0);
            return (taken, None);
        }
    }
    (live, None)
}
