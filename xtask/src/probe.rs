//! What ptxas leaves between dependent instructions, for every target, beside what our tables say.
//!
//! Compiles the kernels of `tests/kernels` and the instructions of `tests/isa` (and any PTX files that are named) with the
//! newest release, walks through each basic block of the code, and keeps for each pair of classes and each file of registers
//! the shortest distance in cycles between instructions of which the first sets no scoreboard, and how often the pair was
//! seen: reads of results, overwriting of results, overwriting of sources. A table must never say more than the vendor was
//! seen to leave.

use crate::oracle;
use sass::codec::decode;
use sass::inst::{Inst, Value};
use sass::latency::{self, Class, Latency};
use sass::reg::{File, Reg};
use sass::text::{NoLabels, print};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use testkit::isa;

/// How the second instruction depends on the first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Read,
    Overwrite,
    OverwriteSource,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Overwrite => "overwrite",
            Kind::OverwriteSource => "source",
        }
    }
}

/// Of one pair of classes: the shortest distance, how often the pair was seen, the instructions that have it.
struct Seen {
    shortest: u32,
    count: u32,
    text: String,
}

/// How they depend, file of the register, producer, consumer, whether as its guard, what the table says.
type Key = (Kind, u8, Class, Class, bool, u8);
type Table = BTreeMap<Key, Seen>;

const FILES: [(File, &str); 4] = [(File::Gpr, "R"), (File::Ugpr, "UR"), (File::Pred, "P"), (File::Upred, "UP")];

/// `cargo xtask probe-latency [--arch sm_75,...] [--quick] [--from FOLDER] [--write] [FILE.ptx ...]`; `--from` takes the
/// cubins of `FOLDER/75` and so on, in place of compiling the corpus; `--write` keeps what was seen in
/// `crates/sass/latency/seen.txt`.
pub fn run(args: &[String]) -> Result<(), String> {
    let ptxas = oracle::tool("ptxas")?;
    let oracle = ptxas.parent().and_then(Path::parent).ok_or("no folder of the oracle")?;
    let mut targets: Vec<String> = isa::TARGETS.iter().map(|t| t.to_string()).collect();
    let (mut files, mut quick, mut write, mut from) = (Vec::new(), false, false, None::<PathBuf>);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--arch" => {
                let list = args.next().ok_or("--arch needs a value")?;
                targets = list.split(',').map(|t| t.trim_start_matches("sm_").to_string()).collect();
            }
            "--quick" => quick = true,
            "--from" => from = Some(PathBuf::from(args.next().ok_or("--from needs a value")?)),
            "--write" => write = true,
            file => files.push(PathBuf::from(file)),
        }
    }
    let mut report = String::from(
        "# What the vendor's assembler leaves between two instructions of a block, of which the second needs the first:\n\
         # release 13.5 at -O1 and -O3 over tests/kernels, tests/isa, random programs and chains of matrix products\n\
         # (cargo xtask probe-latency --write). Pairs that do not stand here were never seen.\n\
         # How they depend; register; classes; for each target what the table says, the shortest seen, how often the pair\n\
         # was seen: 90a=5/5x120 is 5 by the table, 5 at least, 120 times.\n",
    );
    let mut rows: BTreeMap<(Kind, u8, Class, Class, bool), Vec<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for target in &targets {
        let mut table = Table::new();
        let sm = isa::number(target);
        let mut each = |_: &str, cubin: &[u8]| {
            for text in isa::texts(cubin, "") {
                let code: Vec<Option<Inst>> = text.words.iter().map(|&w| decode(w, sm).known().cloned()).collect();
                function(&code, sm, &mut table);
            }
        };
        if let Some(from) = &from {
            let Ok(list) = std::fs::read_dir(from.join(target)) else { continue };
            for path in list.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "cubin")) {
                each("", &std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?);
            }
        } else {
            let every = if quick { 9 } else { 1 };
            isa::kernels(oracle, target, &[1, 3], every, &mut each);
            isa::snippets(oracle, target, &[3], every * 3, &mut each);
        }
        for file in &files {
            let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
            for level in ["-O1", "-O3"] {
                let text = isa::retargeted(&text, target);
                let cubin = testkit::oracle::compile(&ptxas, &text, &[&format!("-arch=sm_{target}"), level])
                    .map_err(|m| format!("{}: {m}", file.display()))?;
                each("", &cubin);
            }
        }
        for ((kind, file, first, second, guard, cycles), seen) in &table {
            let name = FILES[*file as usize].1;
            let text = format!("{target}={cycles}/{}x{}", seen.shortest, seen.count);
            rows.entry((*kind, *file, *first, *second, *guard)).or_default().push(text);
            let guard = if *guard { " (guard)" } else { "" };
            if seen.shortest < *cycles as u32 {
                wrong.push(format!(
                    "sm_{target} {} {name} {first:?} -> {second:?}{guard}: the table says {cycles}, the vendor leaves {}: {}",
                    kind.name(),
                    seen.shortest,
                    seen.text
                ));
            }
        }
        println!(
            "sm_{target}: {} pairs of classes, {} seen",
            table.len(),
            table.values().map(|s| s.count).sum::<u32>()
        );
    }
    for ((kind, file, first, second, guard), list) in &rows {
        let guard = if *guard { " (guard)" } else { "" };
        let pair = format!("{first:?} -> {second:?}{guard}");
        let _ = writeln!(report, "{:<9} {:<2} {pair:<32} {}", kind.name(), FILES[*file as usize].1, list.join(" "));
    }
    if write {
        let path = testkit::root().join("crates/sass/latency/seen.txt");
        std::fs::write(&path, &report).map_err(|e| format!("{}: {e}", path.display()))?;
    } else {
        print!("{report}");
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// An access of a register: instruction, slot (None: its guard), word of the slot, time.
type Access = (usize, Option<u8>, u32, u32);

fn function(code: &[Option<Inst>], sm: u16, table: &mut Table) {
    let mut begins = vec![false; code.len() + 1];
    for (at, inst) in code.iter().enumerate() {
        let Some(inst) = inst else { continue };
        for op in &inst.operands {
            if let Value::Target(d) = op.value
                && let Some(flag) = usize::try_from(at as i64 + 1 + d.get() / 16).ok().and_then(|t| begins.get_mut(t))
            {
                *flag = true;
            }
        }
    }
    // Of each register: who wrote it last, and who has read it since.
    let mut written: HashMap<Reg, Access> = HashMap::new();
    let mut read: HashMap<Reg, Vec<Access>> = HashMap::new();
    let mut time = 0;
    for (at, inst) in code.iter().enumerate() {
        let Some(inst) = inst else {
            written.clear();
            read.clear();
            continue;
        };
        if begins[at] {
            written.clear();
            read.clear();
        }
        let mut note = |kind: Kind, access: Access, slot: Option<u8>, word: u32, file: File| {
            let (by, def, i, when) = access;
            let Some(Some(first)) = code.get(by) else { return };
            let need = match (kind, def, slot) {
                (Kind::Read, Some(def), _) => latency::raw_word(first, def, i, inst, slot, word, sm),
                (Kind::Overwrite, Some(def), Some(again)) => latency::waw(first, def, inst, again, sm),
                (Kind::OverwriteSource, used, Some(again)) => latency::war(first, used, inst, again, sm),
                _ => return,
            };
            let Latency::Fixed(cycles) = need else { return };
            let file = FILES.iter().position(|f| f.0 == file).unwrap_or(0) as u8;
            let guard = slot.is_none();
            let seen = table
                .entry((kind, file, first.form().class, inst.form().class, guard, cycles))
                .or_insert(Seen { shortest: u32::MAX, count: 0, text: String::new() });
            seen.count += 1;
            if time - when < seen.shortest {
                seen.shortest = time - when;
                let at = |i: &Inst| print(i, 0, &NoLabels);
                seen.text = format!("`{}` then `{}`", at(first), at(inst));
            }
        };
        let mut now = Vec::new();
        for r in inst.regs().iter().filter(|r| !r.reg.is_const() && r.reg.file() != File::Bar) {
            for word in 0..r.width as u32 {
                let reg = r.reg.offset(word);
                now.push((reg, r.def, (at, r.slot, word, time)));
                let last = written.get(&reg).copied();
                if !r.def {
                    last.into_iter().for_each(|a| note(Kind::Read, a, r.slot, word, reg.file()));
                    continue;
                }
                let readers = read.get(&reg).map_or(&[][..], Vec::as_slice);
                if readers.is_empty() {
                    last.into_iter().for_each(|a| note(Kind::Overwrite, a, r.slot, word, reg.file()));
                }
                readers.iter().for_each(|&a| note(Kind::OverwriteSource, a, r.slot, word, reg.file()));
            }
        }
        for (reg, def, access) in now {
            if def {
                read.remove(&reg);
                written.insert(reg, access);
            } else {
                read.entry(reg).or_default().push(access);
            }
        }
        time += inst.ctrl.stall as u32;
        if inst.form().effects.flow || inst.ctrl.stall == 0 {
            written.clear();
            read.clear();
        }
    }
}
