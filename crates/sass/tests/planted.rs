//! Faults planted into the vendor's code: of those that a simulation of ready times confirms, the hazard checker finds all.
//!
//! The simulation goes straight through the text, knows nothing of the checker's facts, and uses the latency tables alone:
//! it notes for each register when and by which instruction it was written and read, and which scoreboards have been
//! waited for since. It forgets everything where control does not fall through.

mod common;

use common::{Text, corpus};
use sass::codec::{Decoded, decode, decode_control, encode_control};
use sass::control::Control;
use sass::inst::Inst;
use sass::latency::{self, Class, Latency};
use sass::lint::{CfgHints, Kind, Stated, check, check_stated};
use sass::reg::{File, Reg};
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
    /// Scoreboard that tells of its end.
    sb: Option<u8>,
    done: bool,
    /// The predicate that guards it, as long as nobody has written it.
    guard: Option<(Reg, bool)>,
}

#[derive(Default)]
struct Register {
    writes: Vec<Access>,
    reads: Vec<Access>,
}

/// Queues in which a later end proves an earlier one, as the checker states them.
fn queue(class: Class) -> u8 {
    match class {
        Class::Xu => 1,
        Class::Global => 2,
        Class::Shared | Class::Shuffle => 3,
        Class::Local => 4,
        Class::Const => 5,
        Class::Match => 6,
        Class::SpecialReg => 7,
        _ => 0,
    }
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
        let done = |a: &mut Access| a.done |= a.sb.is_some_and(|sb| waited >> sb & 1 != 0);
        for r in registers.values_mut() {
            r.writes.iter_mut().for_each(done);
            r.reads.iter_mut().for_each(done);
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
        let mut bad = |a: &Access, need: Latency| {
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
                bad(a, latency::raw_word(first(a), def, a.word, inst, slot, word, sm));
            }
        }
        for (reg, slot, _) in touched(true) {
            let Some(r) = registers.get(&reg) else { continue };
            let slot = slot.expect("a result has a slot");
            let ordered = |a: &Access, all: bool| {
                let (x, y) = (queue(first(a).form().class), queue(inst.form().class));
                x != 0
                    && (x == y && (all || matches!(x, 1 | 3 | 6))
                        || all && (2..=4).contains(&x) && (2..=4).contains(&y))
            };
            for a in r.writes.iter().filter(|a| !apart(a, Some(slot)) && !ordered(a, false)) {
                bad(a, latency::waw(first(a), a.slot.expect("a slot"), inst, slot, sm));
            }
            for a in r.reads.iter().filter(|a| !apart(a, Some(slot)) && !ordered(a, true)) {
                bad(a, latency::war(first(a), a.slot, inst, slot, sm));
            }
        }
        // What this one begins. A scoreboard of a later one of the same queue tells of the earlier, too: then nothing is
        // known for sure, and the earlier one is forgotten.
        let mine = queue(inst.form().class);
        if mine != 0 && (c.write_sb.is_some() || c.read_sb.is_some()) {
            for r in registers.values_mut() {
                let same = |a: &Access| queue(code[a.by].as_ref().expect("noted").form().class);
                r.writes.retain(|a| same(a) != mine);
                r.reads.retain(|a| !((2..=4).contains(&mine) && (2..=4).contains(&same(a))) && same(a) != mine);
            }
        }
        let fixed = inst.form().class.is_fixed();
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
                let sb = if fixed { None } else { c.read_sb.or(c.write_sb) };
                let access = Access { by: at, slot, word, time, sb, done: false, guard: own };
                registers.entry(reg).or_default().reads.push(access);
            }
        }
        for (reg, slot, word) in defs {
            let sb = if fixed { None } else { c.write_sb };
            let both = inst.form().mnemonic == "ATOM" && reg.file() == File::Pred;
            let access = Access { by: at, slot, word, time, sb, done: both, guard: own };
            registers.entry(reg).or_default().writes.push(access);
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

fn known(words: &[u128]) -> Vec<Option<Inst>> {
    let inst = |w: &u128| match decode(*w, 90) {
        Decoded::Known(inst) => Some(inst),
        Decoded::Unknown(_) => None,
    };
    words.iter().map(inst).collect()
}

/// Where the words alone do not say that control goes: jump tables, and functions that are called through pointers (what
/// stands behind a return).
fn hints(text: &Text) -> CfgHints {
    let code = known(&text.words);
    let inside = |t: &&u64| (**t).is_multiple_of(16) && **t < text.words.len() as u64 * 16;
    let mnemonic = |n: usize| code.get(n).and_then(|i| i.as_ref()).map_or("", |i| i.form().mnemonic);
    let branches = (0..code.len()).filter(|&n| mnemonic(n) == "BRX");
    CfgHints {
        entries: (1..code.len())
            .filter(|&n| matches!(mnemonic(n - 1), "RET" | "EXIT"))
            .map(|n| n as u64 * 16)
            .collect(),
        indirect: branches.map(|n| (n as u64 * 16, text.table.iter().filter(inside).copied().collect())).collect(),
    }
}

/// Words with one fault: a broken control field, or a guarded instruction before the one that it follows.
fn plant(text: &Text, random: &mut Random, kind: usize) -> Option<Vec<u128>> {
    let mut words = text.words.clone();
    for _ in 0..20 {
        let n = random.index(words.len());
        if let Some((_, fault)) = FAULTS.get(kind) {
            let Some(broken) = fault(decode_control(words[n]), random.index(64)) else { continue };
            words[n] = words[n] & !(0x1f_ffff << 105) | encode_control(&broken).ok()?;
            return Some(words);
        }
        // The control fields stay where they are.
        let (Some(a), Some(b)) = (words.get(n).copied(), words.get(n + 1).copied()) else { continue };
        let movable = |w: u128| decode(w, 90).known().is_some_and(|i| !i.form().effects.flow && !i.form().effects.sync);
        let guarded = decode(b, 90).known().is_some_and(|i| i.guard.as_reg().is_some_and(|r| !r.is_const()));
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

#[test]
fn every_confirmed_fault_is_found() {
    let oracles = releases();
    if oracles.is_empty() {
        return;
    }
    let dir = Scratch::new("planted");
    let texts = corpus(&oracles[..1], &dir, &[3]);
    // SASSAFRAS_PLANTED=2000 asks for more.
    let wanted: usize = std::env::var("SASSAFRAS_PLANTED").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    let mut random = Random(7);
    let mut clean: HashMap<usize, Vec<(usize, usize)>> = HashMap::new();
    let mut silent: HashMap<usize, bool> = HashMap::new();
    let (mut confirmed, mut missed) = (BTreeMap::new(), Vec::new());
    let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
    let mut total = 0;
    for round in 0.. {
        if total >= wanted || round > wanted * 20 {
            break;
        }
        let (t, kind) = (random.index(texts.len()), round % (FAULTS.len() + 1));
        let Some(words) = plant(&texts[t], &mut random, kind) else { continue };
        let old = clean.entry(t).or_insert_with(|| violations(&known(&texts[t].words), 90));
        let new = violations(&known(&words), 90);
        if new.iter().all(|v| old.contains(v)) {
            continue;
        }
        total += 1;
        let name = FAULTS.get(kind).map_or("guard moved earlier", |f| f.0);
        *confirmed.entry(name).or_insert(0) += 1;
        let hints = hints(&texts[t]);
        let before = silent.entry(t).or_insert_with(|| check(&texts[t].words, 90, &hints).is_empty());
        assert!(*before, "{}", texts[t].name);
        let hazards = check(&words, 90, &hints);
        if hazards.is_empty() {
            missed.push(format!("{name} in {}: {new:x?}", texts[t].name));
        }
        for hazard in hazards {
            // One sentence that names both.
            assert_eq!(hazard.message.matches('`').count(), 4, "{hazard}");
            *kinds.entry(hazard.kind).or_default() += 1;
        }
    }
    eprintln!("{total} confirmed: {confirmed:?}; {kinds:?}");
    let noise: usize = clean.values().map(Vec::len).sum();
    eprintln!("{noise} pairs of the vendor's own code that the simulation calls too soon");
    assert!(missed.is_empty(), "{} of {total} missed: {:#?}", missed.len(), &missed[..missed.len().min(10)]);
    assert!(total >= wanted, "only {total} confirmed");
    assert_eq!(confirmed.len(), FAULTS.len() + 1, "{confirmed:?}");
    assert_eq!(noise, 0);
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
        let most = known(&text.words)
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
