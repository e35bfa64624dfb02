//! Words to test the description of SASS with: those of the PTX corpus compiled for any target (`corpus`, `sources`), mutations of
//! them, and what the vendor's nvdisasm says of words.

mod corpus;
mod sources;

pub use corpus::{Each, kernels, retargeted, snippet, snippets, statements};
pub use sources::{Source, modules, sources, words};

use crate::Random;
use corpus::{run, target_line};
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
