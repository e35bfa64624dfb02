//! Words to test the description of SASS with: the PTX corpus of `tests/isa`, compiled for any target, mutations of its words,
//! and what the vendor's nvdisasm says of words.

use crate::{Random, Scratch};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The targets that the description covers, as `-arch=sm_XX` names them.
pub const TARGETS: [&str; 14] =
    ["75", "80", "86", "87", "88", "89", "90", "90a", "100", "100a", "103a", "110a", "120a", "121a"];

/// The number of a target: 100 for `100a`.
pub fn number(target: &str) -> u16 {
    target.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}

/// False for text of a word that nvdisasm itself finds odd.
pub fn meant(text: &str) -> bool {
    !text.contains("???") && !text.contains("INVALID")
}

/// What nvdisasm prints for each word, the n-th at address 16 n; None where it refuses the word.
///
/// # Panics
/// If nvdisasm cannot be run.
pub fn disassemble(oracle: &Path, dir: &Path, target: &str, words: &[u128]) -> Vec<Option<String>> {
    let mut texts = vec![None; words.len()];
    // Refused words are replaced by a NOP, so that addresses stay.
    let nop = 0x000f_c000_0000_0000_0000_0000_0000_7918u128;
    let mut asked: Vec<u128> = words.to_vec();
    let mut refused = vec![false; words.len()];
    loop {
        let raw = dir.join("words.bin");
        let bytes: Vec<u8> = asked.iter().flat_map(|w| w.to_le_bytes()).collect();
        std::fs::write(&raw, bytes).expect("writable");
        let tool = oracle.join("bin/nvdisasm");
        let out = Command::new(tool).args(["-b", target, "-hex"]).arg(&raw).output().expect("nvdisasm runs");
        let errors = String::from_utf8_lossy(&out.stderr);
        let mut again = false;
        for part in errors.split("at address 0x").skip(1) {
            let digits: String = part.chars().take_while(char::is_ascii_hexdigit).collect();
            let n = usize::from_str_radix(&digits, 16).expect("an address") / 16;
            (asked[n], refused[n], again) = (nop, true, true);
        }
        if again {
            continue;
        }
        for line in String::from_utf8_lossy(&out.stdout).lines() {
            let Some((at, rest)) = line.trim_start().strip_prefix("/*").and_then(|l| l.split_once("*/")) else {
                continue;
            };
            let Ok(at) = usize::from_str_radix(at, 16) else { continue };
            let Some((text, _)) = rest.rsplit_once(';') else { continue };
            if !refused[at / 16] {
                texts[at / 16] = Some(text.trim().to_string());
            }
        }
        return texts;
    }
}

/// The words that are known not to print as nvdisasm prints them: `tests/isa/known.list`, a line for each opcode (bits 11:0, bit
/// 91 above them, in hexadecimal), mnemonic and list of chips (`*` for all), with the reason after ` -- `.
pub struct Known(Vec<(u16, String, Vec<u16>)>);

impl Known {
    /// Reads the list.
    ///
    /// # Panics
    /// If it cannot be read, or a line has no reason.
    pub fn read() -> Known {
        let path = crate::root().join("tests/isa/known.list");
        let text = std::fs::read_to_string(&path).expect("readable");
        let lines = text.lines().filter(|l| !l.trim().is_empty() && !l.starts_with('#'));
        let entry = |line: &str| {
            let (what, _) = line.split_once(" -- ").unwrap_or_else(|| panic!("known.list: no reason in {line}"));
            let mut words = what.split_whitespace();
            let mut word = || words.next().unwrap_or_else(|| panic!("known.list: {line}"));
            let opcode = u16::from_str_radix(word(), 16).expect("an opcode");
            let (mnemonic, chips) = (word().to_string(), word());
            let chips = chips.split(',').filter(|c| *c != "*").map(number).collect();
            (opcode, mnemonic, chips)
        };
        Known(lines.map(entry).collect())
    }

    /// True if words of this opcode and mnemonic are known to differ on the chip.
    pub fn has(&self, word: u128, mnemonic: &str, sm: u16) -> bool {
        let opcode = (word & 0xfff | (word >> 91 & 1) << 12) as u16;
        self.0.iter().any(|(o, m, chips)| *o == opcode && m == mnemonic && (chips.is_empty() || chips.contains(&sm)))
    }
}

/// What comes first in a text after the guard: `FADD` of `@P0 FADD.FTZ R0, R1, R2`.
pub fn mnemonic(text: &str) -> &str {
    text.split([' ', '.']).find(|w| !w.starts_with('@')).unwrap_or("")
}

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

/// `count` words that differ from one of `words` in one to three bits outside of the control field, distinct.
pub fn mutate(words: &[u128], count: usize, random: &mut Random) -> Vec<u128> {
    if words.is_empty() {
        return Vec::new();
    }
    // As many of each opcode: the compiler emits some far more often than others.
    let mut by_opcode: BTreeMap<u128, Vec<u128>> = BTreeMap::new();
    for word in words {
        by_opcode.entry(word & 0xfff | (word >> 91 & 1) << 12).or_default().push(*word);
    }
    let lists: Vec<Vec<u128>> = by_opcode.into_values().collect();
    let mut found = BTreeSet::new();
    for _ in 0..count * 4 {
        let list = &lists[random.index(lists.len())];
        let mut word = list[random.index(list.len())] & !(0x1f_ffffu128 << 105) | 0x7f2u128 << 105;
        for _ in 0..=random.bits() % 3 {
            let at = random.index(107) as u32;
            word ^= 1u128 << if at < 105 { at } else { at + 21 };
        }
        found.insert(word);
        if found.len() == count {
            break;
        }
    }
    found.into_iter().collect()
}

/// The distinct words of the corpus (`tests/isa` and `tests/kernels`) compiled for `target` at these levels; of one kernel in
/// `every` (1 for all). `more` are more lines of PTX, each for a kernel of its own.
///
/// # Panics
/// If the corpus cannot be read or ptxas cannot be run.
pub fn words(oracle: &Path, target: &str, levels: &[u8], every: usize, more: &[String]) -> Vec<u128> {
    let mut found = statements(oracle, target, levels, every, more);
    let mut each = |_: &str, cubin: &[u8]| found.extend(code(cubin));
    snippets(oracle, target, levels, every, &mut each);
    kernels(oracle, target, levels, every, &mut each);
    found.into_iter().collect()
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
            batch(oracle, target, levels, chunk, &dir, &mut |_, cubin| found.extend(code(cubin)));
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
            batch(oracle, target, levels, chunk, &dir, &mut |level, cubin| {
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

/// A file of the corpus before it is compiled: a kernel of `tests/kernels`, or a hundred instructions of `tests/isa`.
pub struct Source {
    /// What it is, with the level of optimization.
    pub name: String,
    level: u8,
    text: Content,
}

enum Content {
    Kernel(std::path::PathBuf),
    Snippets(Vec<String>),
}

/// All files of the corpus at these levels, for any target; nothing is compiled yet.
///
/// # Panics
/// If the corpus cannot be read.
pub fn sources(levels: &[u8]) -> Vec<Source> {
    let mut found = Vec::new();
    for path in crate::corpus() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for &level in levels {
            found.push(Source { name: format!("{name} -O{level}"), level, text: Content::Kernel(path.clone()) });
        }
    }
    for (name, entries) in corpus_entries(1) {
        for (n, chunk) in entries.chunks(100).enumerate() {
            for &level in levels {
                let name = format!("{name}-{n} -O{level}");
                found.push(Source { name, level, text: Content::Snippets(chunk.to_vec()) });
            }
        }
    }
    found
}

impl Source {
    /// Compiles it; the cubins go to `each`: none where the target lacks what a kernel uses.
    ///
    /// # Panics
    /// If the file cannot be read or ptxas cannot be run.
    pub fn compile(&self, oracle: &Path, target: &str, each: Each) {
        let dir = Scratch::new("corpus");
        match &self.text {
            Content::Kernel(path) => {
                let text = std::fs::read_to_string(path).expect("readable");
                if let Ok(cubin) = run(oracle, target, self.level, &retargeted(&text, target), &dir) {
                    each(&self.name, &cubin);
                }
            }
            Content::Snippets(entries) => {
                batch(oracle, target, &[self.level], entries, &dir, &mut |_, cubin| each(&self.name, cubin));
            }
        }
    }
}

/// The instructions of `tests/isa` as kernels, by file; of one in `every`.
fn corpus_entries(every: usize) -> Vec<(String, Vec<String>)> {
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

fn target_line(target: &str) -> String {
    format!(".target sm_{target}")
}

fn little(elf: &[u8], at: usize, bytes: usize) -> usize {
    let mut n = [0; 8];
    match elf.get(at..at + bytes) {
        Some(from) => n[..bytes].copy_from_slice(from),
        None => return 0,
    }
    u64::from_le_bytes(n) as usize
}

/// A `.text` section of a cubin.
pub struct Text {
    /// What was compiled, then the function.
    pub name: String,
    /// Its words.
    pub words: Vec<u128>,
    /// What stands in its constant bank 2: byte offsets that indexed branches go to.
    pub table: Vec<u64>,
}

/// The `.text` sections of a cubin; `name` says what was compiled.
pub fn texts(elf: &[u8], name: &str) -> Vec<Text> {
    let number = |at, bytes| little(elf, at, bytes);
    let (table, count, names) = (number(0x28, 8), number(0x3c, 2), number(0x3e, 2));
    let header = |n: usize| table + 64 * n;
    let data = |n: usize| {
        let (from, size) = (number(header(n) + 24, 8), number(header(n) + 32, 8));
        elf.get(from..from + size).unwrap_or_default()
    };
    let title = |n: usize| {
        let from = number(header(names) + 24, 8) + number(header(n), 4);
        let text = elf.get(from..).unwrap_or_default().split(|b| *b == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    };
    let mut found = Vec::new();
    for n in 0..count {
        let Some(function) = title(n).strip_prefix(".text.").map(String::from) else { continue };
        let words = data(n).chunks_exact(16).map(|c| c.try_into().map(u128::from_le_bytes).unwrap_or(0)).collect();
        let table = (0..count)
            .filter(|&m| title(m) == format!(".nv.constant2.{function}"))
            .flat_map(|m| data(m).chunks_exact(4))
            .map(|c| c.try_into().map(u32::from_le_bytes).unwrap_or(0) as u64)
            .collect();
        found.push(Text { name: format!("{name} {function}"), words, table });
    }
    found
}

/// The words of all code sections of a cubin.
pub fn code(elf: &[u8]) -> Vec<u128> {
    let number = |at, bytes| little(elf, at, bytes);
    let (table, count) = (number(0x28, 8), number(0x3c, 2));
    let mut words = Vec::new();
    for n in 0..count {
        let header = table + 64 * n;
        // Code: a section of data with the flag of executable sections.
        if number(header + 4, 4) == 1 && number(header + 8, 8) & 4 != 0 {
            let (from, size) = (number(header + 24, 8), number(header + 32, 8));
            let bytes = elf.get(from..from + size).unwrap_or_default();
            words.extend(bytes.chunks_exact(16).map(|c| c.try_into().map(u128::from_le_bytes).unwrap_or(0)));
        }
    }
    words
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

fn head(target: &str) -> String {
    format!(
        ".version 9.3\n{}\n.address_size 64\n.shared .align 128 .b8 smem[1024];\n.global .align 64 .b8 gmem[1024];\n\
         .global .texref tex0;\n.global .surfref surf0;\n\
         .visible .func (.param .b32 o) helper(.param .b32 i) {{ .reg .b32 %t; ld.param.b32 %t, [i]; add.s32 %t, %t, 3; \
         st.param.b32 [o], %t; ret; }}\n",
        target_line(target)
    )
}

fn run(oracle: &Path, target: &str, level: u8, ptx: &str, dir: &Path) -> Result<Vec<u8>, String> {
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

/// Compiles entries in one file; those that the target lacks are dropped, by the lines of the errors, or by halves.
fn batch(oracle: &Path, target: &str, levels: &[u8], entries: &[String], dir: &Path, found: &mut dyn FnMut(u8, &[u8])) {
    let mut live: Vec<&String> = entries.iter().collect();
    while !live.is_empty() {
        let mut ptx = head(target);
        let mut lines = Vec::new();
        for (n, entry) in live.iter().enumerate() {
            lines.push(ptx.lines().count() + 1);
            ptx.push_str(&format!(".visible .entry k{n}{entry}"));
        }
        let errors = match run(oracle, target, levels[0], &ptx, dir) {
            Ok(cubin) => {
                found(levels[0], &cubin);
                for level in &levels[1..] {
                    if let Ok(cubin) = run(oracle, target, *level, &ptx, dir) {
                        found(*level, &cubin);
                    }
                }
                return;
            }
            Err(errors) => errors,
        };
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
            return;
        } else {
            let (low, high): (Vec<_>, Vec<_>) = live.iter().enumerate().partition(|(n, _)| n % 2 == 0);
            for half in [low, high] {
                let half: Vec<String> = half.into_iter().map(|(_, e)| (*e).clone()).collect();
                batch(oracle, target, levels, &half, dir, found);
            }
            return;
        }
    }
}

/// What nvdisasm says that an instruction does to registers: file (`GPR`, `PRED`, `UGPR`, `UPRED`) and number.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Those that it reads.
    pub reads: BTreeSet<(String, u32)>,
    /// Those that it writes.
    pub writes: BTreeSet<(String, u32)>,
}

/// What nvdisasm says that each word reads and writes: its life ranges (`-plr`) of a kernel whose code is replaced by the words.
/// The words must be legal, and none may change the flow.
///
/// # Panics
/// If the vendor's tools cannot be run or do not print the life ranges.
pub fn registers(oracle: &Path, dir: &Path, target: &str, words: &[u128]) -> Vec<Registers> {
    let exit = 0x000f_ea00_0380_0000_0000_0000_0000_794du128;
    // A kernel with as many instructions.
    let mut ptx = format!(
        ".version 9.0\n{}\n.address_size 64\n.visible .entry k(.param .u64 a) {{\n.reg .b32 %r0; .reg .b64 %d0;\n\
         ld.param.u64 %d0, [a]; ld.global.u32 %r0, [%d0];\n",
        target_line(target)
    );
    for n in 0..words.len() {
        ptx.push_str(&format!("mad.lo.u32 %r0, %r0, %r0, {};\n", n * 7919 + 13));
    }
    ptx.push_str("st.global.u32 [%d0], %r0; ret; }\n");
    let mut elf = run(oracle, target, 1, &ptx, dir).expect("compiles");
    let (from, size) = first_code(&elf).expect("code");
    assert!(words.len() * 16 < size, "{} words do not fit {size} bytes", words.len());
    for (n, place) in elf[from..from + size].chunks_exact_mut(16).enumerate() {
        place.copy_from_slice(&words.get(n).unwrap_or(&exit).to_le_bytes());
    }
    let cubin = dir.join("ranges.cubin");
    std::fs::write(&cubin, elf).expect("writable");
    let out =
        Command::new(oracle.join("bin/nvdisasm")).args(["-c", "-plr"]).arg(&cubin).output().expect("nvdisasm runs");
    let text = String::from_utf8_lossy(&out.stdout);
    let tables: Vec<&str> = text.lines().filter_map(|l| l.find("// |").map(|at| &l[at..])).collect();
    assert!(tables.len() > 3, "no life ranges: {}", String::from_utf8_lossy(&out.stderr));
    // The first two lines of the table are titles and register numbers.
    let files = tables[0].split('|').skip(1).map(|title| title.trim().to_string());
    let numbers = tables[1].split('|').skip(1);
    let columns: Vec<(String, &str)> = files.zip(numbers).collect();
    let mut found: Vec<Registers> = (0..words.len()).map(|_| Registers::default()).collect();
    for line in text.lines() {
        let Some((at, _)) = line.trim_start().strip_prefix("/*").and_then(|l| l.split_once("*/")) else { continue };
        let (Ok(at), Some(table)) = (usize::from_str_radix(at, 16), line.find("// |")) else { continue };
        let Some(registers) = found.get_mut(at / 16) else { continue };
        for ((file, head), cells) in columns.iter().zip(line[table..].split('|').skip(1)) {
            let mut place = 0;
            for number in head.split(' ') {
                // A mark stands below a digit of the number.
                let mark = cells.get(place..place + number.len()).unwrap_or("").trim();
                place += number.len() + 1;
                let Ok(number) = number.parse() else { continue };
                if matches!(mark, "v" | "x") {
                    registers.reads.insert((file.clone(), number));
                }
                if matches!(mark, "^" | "x") {
                    registers.writes.insert((file.clone(), number));
                }
            }
        }
    }
    found
}

/// Where the first code section of a cubin lies: offset and size in bytes.
fn first_code(elf: &[u8]) -> Option<(usize, usize)> {
    let (table, count) = (little(elf, 0x28, 8), little(elf, 0x3c, 2));
    let headers = (0..count).map(|n| table + 64 * n);
    let code = headers.into_iter().find(|h| little(elf, h + 4, 4) == 1 && little(elf, h + 8, 8) & 4 != 0)?;
    Some((little(elf, code + 24, 8), little(elf, code + 32, 8)))
}
