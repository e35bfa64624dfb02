//! What ptxas leaves between a result of fixed latency and its reader, beside what our tables say.
//!
//! Compiles the corpus, and any PTX files that are named, with the newest release, walks through each basic block of the
//! code, and keeps for each class of producer and consumer the shortest distance in cycles. A table must never say more than
//! the vendor was seen to leave.

use crate::oracle;
use cubin::elf::Elf;
use sass::codec::decode;
use sass::inst::{Inst, Value};
use sass::latency::{self, Class, Latency};
use sass::reg::{File, Reg};
use sass::text::{NoLabels, print};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// Of one pair of classes: the shortest distance, how often the pair was seen, the instructions that have it.
struct Seen {
    shortest: u32,
    count: u32,
    text: String,
}

/// File of the register, producer, consumer, whether as its guard, what the table says.
type Key = (String, Class, Class, bool, u8);

/// `cargo xtask probe-latency [FILE.ptx ...]`.
pub fn run(args: &[String]) -> Result<(), String> {
    let ptxas = oracle::tool("ptxas")?;
    let files: Vec<PathBuf> = testkit::corpus().into_iter().chain(args.iter().map(PathBuf::from)).collect();
    let mut table: BTreeMap<Key, Seen> = BTreeMap::new();
    for file in &files {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        for level in ["-O1", "-O3"] {
            let arch = testkit::oracle::arch(&text);
            let cubin = testkit::oracle::compile(&ptxas, &text, &["-arch", arch, level])
                .map_err(|m| format!("{}: {m}", file.display()))?;
            let elf = Elf::read(&cubin).map_err(|d| d.message)?;
            for s in elf.sections.iter().filter(|s| s.name.starts_with(".text.")) {
                let words = s.data.chunks_exact(16).filter_map(|c| Some(u128::from_le_bytes(c.try_into().ok()?)));
                let code: Vec<Option<Inst>> = words.map(|w| decode(w, elf.sm()).known().cloned()).collect();
                function(&code, elf.sm(), &mut table);
            }
        }
    }
    println!("file  producer -> consumer                 table  seen  count");
    let mut wrong = Vec::new();
    for ((file, first, second, guard, cycles), seen) in &table {
        let guard = if *guard { " (guard)" } else { "" };
        let name = format!("{first:?} -> {second:?}{guard}");
        println!("{file:<5} {name:<36} {cycles:>5} {:>5} {:>6}", seen.shortest, seen.count);
        if seen.shortest < *cycles as u32 {
            wrong.push(format!(
                "{file} {name}: the table says {cycles}, the vendor leaves {}: {}",
                seen.shortest, seen.text
            ));
        }
    }
    println!("{} pairs of classes in {} files", table.len(), files.len());
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn function(code: &[Option<Inst>], sm: u16, table: &mut BTreeMap<Key, Seen>) {
    let mut begins = vec![false; code.len() + 1];
    for (at, inst) in code.iter().enumerate() {
        let Some(inst) = inst else { continue };
        for op in &inst.operands {
            if let Value::Target(d) = op.value
                && let Some(flag) = usize::try_from(at as i64 + 1 + d / 16).ok().and_then(|t| begins.get_mut(t))
            {
                *flag = true;
            }
        }
    }
    // Of each register: who wrote it last, into which slot, which word of it, when.
    let mut written: HashMap<Reg, (usize, u8, u32, u32)> = HashMap::new();
    let mut time = 0;
    for (at, inst) in code.iter().enumerate() {
        let Some(inst) = inst else {
            written.clear();
            continue;
        };
        if begins[at] || inst.ctrl.stall == 0 {
            written.clear();
        }
        for r in inst.regs().iter().filter(|r| !r.reg.is_const() && r.reg.file() != File::Bar) {
            for word in 0..r.width as u32 {
                let reg = r.reg.offset(word);
                if let (true, Some(slot)) = (r.def, r.slot) {
                    written.insert(reg, (at, slot, word, time));
                    continue;
                }
                let Some(&(by, slot, i, when)) = written.get(&reg) else { continue };
                let Some(Some(first)) = code.get(by) else { continue };
                let Latency::Fixed(cycles) = latency::raw_word(first, slot, i, inst, r.slot, word, sm) else {
                    continue;
                };
                let key =
                    (format!("{:?}", reg.file()), first.form().class, inst.form().class, r.slot.is_none(), cycles);
                let seen = table.entry(key).or_insert(Seen { shortest: u32::MAX, count: 0, text: String::new() });
                seen.count += 1;
                if time - when < seen.shortest {
                    seen.shortest = time - when;
                    let at = |i: &Inst| print(i, 0, &NoLabels);
                    seen.text = format!("`{}` then `{}`", at(first), at(inst));
                }
            }
        }
        time += inst.ctrl.stall as u32;
        if inst.form().effects.flow {
            written.clear();
        }
    }
}
