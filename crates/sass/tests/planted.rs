//! Faults planted into the vendor's code: of those that a simulation of ready times confirms, the hazard checker finds all.
//!
//! The simulation goes straight through the text, knows nothing of the checker's facts, and uses the latency tables alone:
//! it notes for each register when and by which instruction it was written and read, and which scoreboards have been
//! waited for since. It forgets everything where control does not fall through.

mod common;

use common::{Text, corpus, hints};
use sass::codec::{Decoded, decode, decode_control, encode_control};
use sass::control::Control;
use sass::form::SlotName;
use sass::inst::Inst;
use sass::latency::queue::{in_order, queue, read_in_order};
use sass::latency::{self, Class, Latency};
use sass::lint::{Kind, Stated, check, check_stated};
use sass::reg::{File, Reg};
use sass::text::{NoLabels, print};
use std::collections::{BTreeMap, HashMap};
use testkit::oracle::releases;
use testkit::{Random, Scratch};

/// One access of a register that later ones must respect.
#[derive(Clone)]
struct Access {
    by: usize,
    slot: Option<u8>,
    word: u32,
    time: u32,
    /// Scoreboards that tell of its end, a bit each: a result that is there tells that the sources have been read.
    sb: u8,
    done: bool,
    /// Of a product of a warpgroup: groups that have ended since, its own among them.
    groups: Option<u8>,
    /// The predicate that guards it, as long as nobody has written it.
    guard: Option<(Reg, bool)>,
}

#[derive(Default)]
struct Register {
    writes: Vec<Access>,
    reads: Vec<Access>,
}

/// How many groups of products `WARPGROUP.DEPBAR.LE gsb0, n` leaves.
fn products_left(inst: &Inst) -> Option<u8> {
    if inst.form().mnemonic != "WARPGROUP" {
        return None;
    }
    let text = print(inst, 0, &NoLabels);
    let (_, n) = text.split_once("WARPGROUP.DEPBAR.LE gsb0, 0x")?;
    u8::from_str_radix(n, 16).ok()
}

/// The pairs (first, second) of instructions of which the second comes too soon.
fn violations(code: &[Option<Inst>], sm: u16) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let mut registers: HashMap<Reg, Register> = HashMap::new();
    let mut time = 0;
    for (at, inst) in code.iter().enumerate() {
        let Some(inst) = inst else {
            registers.clear();
            continue;
        };
        let c = inst.ctrl;
        let mut waited = c.wait;
        if inst.form().mnemonic == "DEPBAR" {
            // Counts what may be left: taken as a wait, so that nothing is called a violation that is none.
            waited = 63;
        }
        let done = |a: &mut Access| a.done |= a.sb & waited != 0;
        for r in registers.values_mut() {
            r.writes.iter_mut().for_each(done);
            r.reads.iter_mut().for_each(done);
        }
        if let Some(left) = products_left(inst) {
            for a in registers.values_mut().flat_map(|r| r.writes.iter_mut().chain(&mut r.reads)) {
                a.done |= a.groups.is_some_and(|n| n > left);
            }
        }
        if latency::drains_reads(inst, sm) {
            let memory = |a: &Access| (2..=4).contains(&queue(code[a.by].as_ref().expect("noted"), sm));
            registers.values_mut().for_each(|r| r.reads.retain(|a| !memory(a)));
        }
        let guard = inst.guard.as_reg().filter(|r| !r.is_const()).map(|r| (r, inst.guard.inv));
        let touched = |def: bool| {
            inst.regs()
                .into_iter()
                .filter(move |r| r.def == def && !r.reg.is_const() && r.reg.file() != File::Bar)
                .flat_map(|r| (0..r.width as u32).map(move |w| (r.reg.offset(w), r.slot, w)))
                .collect::<Vec<_>>()
        };
        let apart = |a: &Access, slot: Option<u8>| {
            slot.is_some() && matches!((a.guard, guard), (Some(x), Some(y)) if x.0 == y.0 && x.1 != y.1)
        };
        let product = inst.form().class == Class::Gmma;
        let operand = |slot: Option<u8>| slot.is_some_and(|n| inst.form().slots[n as usize].name == SlotName::Ra);
        let mut bad = |a: &Access, need: Latency, slot: Option<u8>| {
            if a.groups.is_some() {
                if !a.done && (!product || operand(slot)) {
                    out.push((a.by, at));
                }
                return;
            }
            let late = match need {
                Latency::Fixed(n) => time - a.time >= n as u32,
                Latency::Scoreboard => a.done,
            };
            if !late && !a.done {
                out.push((a.by, at));
            }
        };
        let first = |a: &Access| code[a.by].as_ref().expect("noted");
        for (reg, slot, word) in touched(false) {
            for a in registers.get(&reg).iter().flat_map(|r| &r.writes).filter(|a| !apart(a, slot)) {
                let def = a.slot.expect("a result has a slot");
                bad(a, latency::raw_word(first(a), def, a.word, inst, slot, word, sm), slot);
            }
        }
        for (reg, slot, _) in touched(true) {
            let Some(r) = registers.get(&reg) else { continue };
            let slot = slot.expect("a result has a slot");
            let ordered = |a: &Access, all: bool| {
                let (x, y) = (queue(first(a), sm), queue(inst, sm));
                if all { read_in_order(x, y) } else { in_order(x, y) }
            };
            for a in r.writes.iter().filter(|a| !apart(a, Some(slot)) && !ordered(a, false)) {
                bad(a, latency::waw(first(a), a.slot.expect("a slot"), inst, slot, sm), Some(slot));
            }
            for a in r.reads.iter().filter(|a| !apart(a, Some(slot)) && !ordered(a, true)) {
                bad(a, latency::war(first(a), a.slot, inst, slot, sm), Some(slot));
            }
        }
        // What this one begins. A scoreboard of a later one of the same queue tells of the earlier, too: then nothing is
        // known for sure, and the earlier one is forgotten.
        let mine = queue(inst, sm);
        if mine != 0 && (c.write_sb.is_some() || c.read_sb.is_some()) {
            for r in registers.values_mut() {
                let same = |a: &Access| queue(code[a.by].as_ref().expect("noted"), sm);
                r.writes.retain(|a| same(a) != mine);
                r.reads.retain(|a| !((2..=4).contains(&mine) && (2..=4).contains(&same(a))) && same(a) != mine);
            }
        }
        let bit = |sb: Option<u8>| sb.map_or(0, |n| 1u8 << n);
        let fixed = inst.form().class.is_fixed(sm);
        let defs = touched(true);
        for (reg, ..) in &defs {
            if guard.is_none() {
                registers.remove(reg);
            }
            for a in registers.values_mut().flat_map(|r| r.writes.iter_mut().chain(&mut r.reads)) {
                if a.guard.is_some_and(|g| g.0 == *reg) {
                    a.guard = None;
                }
            }
        }
        let own = guard.filter(|g| !defs.iter().any(|d| d.0 == g.0));
        for (reg, slot, word) in touched(false) {
            if slot.is_some() && !(guard.is_none() && defs.iter().any(|d| d.0 == reg)) {
                let sb = if fixed { 0 } else { bit(c.read_sb) | bit(c.write_sb) };
                let groups = product.then_some(0).filter(|_| reg.file() == File::Gpr);
                let access = Access { by: at, slot, word, time, sb, done: false, groups, guard: own };
                registers.entry(reg).or_default().reads.push(access);
            }
        }
        for (reg, slot, word) in defs {
            let sb = if fixed { 0 } else { bit(c.write_sb) };
            let both = inst.form().mnemonic == "ATOM" && reg.file() == File::Pred;
            let groups = product.then_some(0).filter(|_| reg.file() == File::Gpr);
            let access = Access { by: at, slot, word, time, sb, done: both, groups, guard: own };
            registers.entry(reg).or_default().writes.push(access);
        }
        if product && print(inst, 0, &NoLabels).ends_with("gsb0") {
            for a in registers.values_mut().flat_map(|r| r.writes.iter_mut().chain(&mut r.reads)) {
                a.groups = a.groups.map(|n| n.saturating_add(1));
            }
        }
        time += c.stall as u32;
        let falls = !(inst.form().effects.flow && inst.guard.as_reg().is_none_or(Reg::is_const));
        let leaves = matches!(inst.form().class, Class::Branch | Class::Convergence | Class::Bmov);
        if c.stall == 0 || !falls || leaves && inst.form().mnemonic != "BRA" && inst.form().mnemonic != "EXIT" {
            registers.clear();
        }
    }
    out
}

/// How a control field may be broken; a number chooses among several.
type Fault = fn(Control, usize) -> Option<Control>;

const FAULTS: [(&str, Fault); 5] = [
    ("stall shortened", |c, n| {
        (c.stall > 1).then(|| Control { stall: 1 + (n % (c.stall as usize - 1)) as u8, bit109: true, ..c })
    }),
    ("wait dropped", |c, n| {
        let bits: Vec<u8> = (0..6).filter(|b| c.wait >> b & 1 != 0).collect();
        (!bits.is_empty()).then(|| Control { wait: c.wait & !(1 << bits[n % bits.len()]), ..c })
    }),
    ("write scoreboard swapped", |c, n| {
        c.write_sb.map(|sb| Control { write_sb: Some((sb + 1 + n as u8 % 5) % 6), ..c })
    }),
    ("write scoreboard dropped", |c, _| c.write_sb.map(|_| Control { write_sb: None, ..c })),
    ("read scoreboard dropped", |c, _| c.read_sb.map(|_| Control { read_sb: None, ..c })),
];

fn known(words: &[u128], sm: u16) -> Vec<Option<Inst>> {
    let inst = |w: &u128| match decode(*w, sm) {
        Decoded::Known(inst) => Some(inst),
        Decoded::Unknown(_) => None,
    };
    words.iter().map(inst).collect()
}

/// The fault of a wait for products that is not there.
const PRODUCTS: &str = "products not waited for";

/// Words with one fault: a broken control field, a guarded instruction before the one that it follows, or a NOP in place of a wait for
/// products.
fn plant(text: &Text, sm: u16, random: &mut Random, kind: usize) -> Option<Vec<u128>> {
    let mut words = text.words.clone();
    if kind > FAULTS.len() {
        let waits = |w: &u128| decode(*w, sm).known().is_some_and(|i| products_left(i).is_some());
        let at: Vec<usize> = (0..words.len()).filter(|&n| waits(&words[n])).collect();
        let n = *at.get(random.index(at.len().max(1)))?;
        words[n] = words[n] & 0x1f_ffff << 105 | 0x7918;
        return Some(words);
    }
    for _ in 0..20 {
        let n = random.index(words.len());
        if let Some((_, fault)) = FAULTS.get(kind) {
            let Some(broken) = fault(decode_control(words[n]), random.index(64)) else { continue };
            words[n] = words[n] & !(0x1f_ffff << 105) | encode_control(&broken).ok()?;
            return Some(words);
        }
        // The control fields stay where they are.
        let (Some(a), Some(b)) = (words.get(n).copied(), words.get(n + 1).copied()) else { continue };
        let movable = |w: u128| decode(w, sm).known().is_some_and(|i| !i.form().effects.flow && !i.form().effects.sync);
        let guarded = decode(b, sm).known().is_some_and(|i| i.guard.as_reg().is_some_and(|r| !r.is_const()));
        if !guarded || !movable(a) || !movable(b) {
            continue;
        }
        let control = 0x1f_ffffu128 << 105;
        words[n] = b & !control | a & control;
        words[n + 1] = a & !control | b & control;
        return Some(words);
    }
    None
}

/// The vendor's code for a target: every kernel and one snippet in three if `all`, else a few kernels; or the cubins in
/// `SASSAFRAS_CUBINS/75` and so on.
fn vendor(oracle: &std::path::Path, target: &str, all: bool) -> Vec<Text> {
    let mut found = Vec::new();
    let mut each = |name: &str, cubin: &[u8]| found.extend(testkit::isa::texts(cubin, name));
    if let Some(folder) = std::env::var_os("SASSAFRAS_CUBINS") {
        let entries = std::fs::read_dir(std::path::Path::new(&folder).join(target)).expect("a folder for the target");
        let mut files: Vec<_> = entries.flatten().map(|e| e.path()).collect();
        files.retain(|f| f.extension().is_some_and(|e| e == "cubin"));
        files.sort();
        files.iter().for_each(|f| each(&f.to_string_lossy(), &std::fs::read(f).expect("readable")));
    } else if all {
        testkit::isa::kernels(oracle, target, &[1, 3], 1, &mut each);
        testkit::isa::snippets(oracle, target, &[3], 3, &mut each);
    } else {
        testkit::isa::kernels(oracle, target, &[3], 9, &mut each);
        testkit::isa::snippets(oracle, target, &[3], 101, &mut each);
    }
    found
}

/// Plants `wanted` confirmed faults into texts that the checker is silent about; gives a line of counts.
fn faults(target: &str, texts: &[Text], wanted: usize) -> Result<String, String> {
    let sm = testkit::isa::number(target);
    let mut random = Random(7);
    let mut clean: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
    let (mut confirmed, mut missed) = (BTreeMap::new(), Vec::new());
    let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
    let mut total = 0;
    for round in 0.. {
        if total >= wanted || round > wanted * 40 {
            break;
        }
        let (t, kind) = (random.index(texts.len()), round % (FAULTS.len() + 2));
        let Some(words) = plant(&texts[t], sm, &mut random, kind) else { continue };
        let old = clean.entry(t).or_insert_with(|| violations(&known(&texts[t].words, sm), sm));
        let new = violations(&known(&words, sm), sm);
        if new.iter().all(|v| old.contains(v)) {
            continue;
        }
        total += 1;
        let other = if kind == FAULTS.len() { "guard moved earlier" } else { PRODUCTS };
        let name = FAULTS.get(kind).map_or(other, |f| f.0);
        *confirmed.entry(name).or_insert(0) += 1;
        let hazards = check(&words, sm, &hints(&texts[t], sm));
        if hazards.is_empty() {
            missed.push(format!("{name} in {}: {new:x?}", texts[t].name));
        }
        for hazard in hazards {
            // One sentence that names both.
            assert_eq!(hazard.message.matches('`').count(), 4, "{hazard}");
            *kinds.entry(hazard.kind).or_default() += 1;
        }
    }
    let noise: Vec<_> = clean.iter().filter(|(_, v)| !v.is_empty()).map(|(&t, v)| (&texts[t].name, v)).collect();
    if !missed.is_empty() {
        return Err(format!("{} of {total} missed: {:#?}", missed.len(), &missed[..missed.len().min(10)]));
    }
    if !noise.is_empty() {
        return Err(format!(
            "the simulation calls the vendor's own code too soon: {:x?}",
            &noise[..noise.len().min(10)]
        ));
    }
    // Products of warpgroups are on sm_90a alone.
    let kinds_of = confirmed.keys().filter(|k| **k != PRODUCTS).count();
    let products = target != "90a" || confirmed.contains_key(PRODUCTS);
    if total < wanted || (kinds_of <= FAULTS.len() || !products) && wanted >= 400 {
        return Err(format!("only {total} confirmed: {confirmed:?}"));
    }
    Ok(format!("{total} confirmed and found: {confirmed:?}; {kinds:?}"))
}

/// Silent about the vendor's code for every target, and finds every planted fault. SASSAFRAS_PLANTED=2000 asks for all
/// the code and so many faults a target; SASSAFRAS_TARGETS=75,90a for these targets.
#[test]
fn every_target() {
    let Some(oracle) = testkit::oracle::latest() else { return };
    let asked: Option<usize> = std::env::var("SASSAFRAS_PLANTED").ok().and_then(|n| n.parse().ok());
    let only = std::env::var("SASSAFRAS_TARGETS").ok();
    let mut wrong = Vec::new();
    for target in testkit::isa::TARGETS {
        if only.as_ref().is_some_and(|list| !list.split(',').any(|t| t == target)) {
            continue;
        }
        let sm = testkit::isa::number(target);
        let texts = vendor(&oracle, target, asked.is_some());
        assert!(texts.len() >= 10, "sm_{target}: {} functions", texts.len());
        let count: usize = texts.iter().map(|t| t.words.len()).sum();
        // What the instruction set does not know yet is not a hazard.
        let (silent, loud): (Vec<Text>, Vec<Text>) = texts.into_iter().partition(|text| {
            let hazards = check(&text.words, sm, &hints(text, sm));
            let stated = check_stated(&text.words, sm, &Stated::default());
            let all: Vec<_> = hazards.iter().chain(&stated).filter(|h| h.kind != Kind::Unknown).collect();
            wrong.extend(all.first().map(|h| format!("sm_{target} {}: {h}", text.name)));
            all.is_empty() && hazards.is_empty()
        });
        eprintln!(
            "sm_{target}: {} functions, {count} instructions, {} not known or not silent",
            silent.len(),
            loud.len()
        );
        match faults(target, &silent, asked.unwrap_or(30)) {
            Ok(counts) => eprintln!("    {counts}"),
            Err(reason) => wrong.push(format!("sm_{target}: {reason}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong[..wrong.len().min(20)].join("\n"));
}

#[test]
fn what_a_file_states_holds_for_the_corpus() {
    let oracles = releases();
    if oracles.is_empty() {
        return;
    }
    let dir = Scratch::new("stated");
    let mut random = Random(3);
    for text in corpus(&oracles[..1], &dir, &[3]) {
        let stated = check_stated(&text.words, 90, &Stated::default());
        assert!(stated.is_empty(), "{}: {}", text.name, stated[0]);
        // The number of registers that the code needs, and one less.
        let most = known(&text.words, 90)
            .iter()
            .flatten()
            .flat_map(|i| i.regs())
            .filter(|r| r.reg.file() == File::Gpr && !r.reg.is_const())
            .map(|r| r.reg.index() + r.width as u32)
            .max()
            .unwrap_or(0);
        let says = |registers| check_stated(&text.words, 90, &Stated { registers: Some(registers), barriers: None });
        assert!(says(most + 2).is_empty(), "{}", text.name);
        assert!(most == 0 || says(most + 1).iter().any(|h| h.kind == Kind::Registers), "{}", text.name);
        // A reuse flag where bit 109 is clear.
        let Some(n) = (0..20).map(|_| random.index(text.words.len())).find(|&n| {
            let i = decode(text.words[n], 90);
            i.known().is_some_and(|i| i.form().slots.iter().any(|s| s.reuse.is_some()))
        }) else {
            continue;
        };
        let mut words = text.words.clone();
        words[n] = words[n] & !(1 << 109) | 7 << 122;
        assert!(check_stated(&words, 90, &Stated::default()).iter().any(|h| h.kind == Kind::Reuse), "{}", text.name);
    }
}
