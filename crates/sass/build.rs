//! Makes the static tables of the ISA from `isa/*.isa` (the language of those files is described in `isa/README.md`).
//!
//! Everything that can be wrong with a description is found here: overlapping fields, bits outside of the word, unknown
//! names, duplicate names, two forms that one word could be.

#[path = "build/emit.rs"]
mod emit;
#[path = "build/parse.rs"]
mod parse;
#[path = "build/pool.rs"]
mod pool;
#[path = "build/shapes.rs"]
mod shapes;

use std::collections::{BTreeMap, HashMap};
use std::fs;

const CONTROL: u128 = 0x1f_ffff << 105;
const GUARD: u128 = 0xf << 12;
const OPCODE: u128 = 0xfff;

type Bits = Vec<(u8, u8)>;
/// Ranges of SM numbers, both ends included.
type Chips = Vec<(u16, u16)>;

#[derive(Clone, Default)]
struct SlotDef {
    name: String,
    role: String,
    kind: String,
    bits: Bits,
    width: String,
    neg: Option<u8>,
    abs: Option<u8>,
    inv: Option<u8>,
    reuse: Option<u8>,
    default_inv: bool,
    default_reg: Option<u8>,
    shift: u8,
    xor: u8,
    spaced: bool,
}

#[derive(Clone)]
struct ModDef {
    name: String,
    bits: Bits,
    values: String,
    default: u8,
}

#[derive(Clone, Default)]
struct FormDef {
    at: String,
    name: String,
    sms: Chips,
    fixed: u128,
    /// Bits that `fix` names: they tell the form from others.
    explicit: u128,
    /// Bits that tell the form from others by being 0, where no field covers them.
    zero: u128,
    fixed_mask: u128,
    wide: u128,
    /// Suffix of the register of an address, by slot.
    variants: Vec<FormDef>,
    uniform: bool,
    /// Forms of a lower rank are asked first: 0 with `first`, 2 from a file `X.more.isa`, else 1.
    rank: u8,
    /// Guarded by UP although its registers are not all uniform.
    upguard: bool,
    class: String,
    effects: Vec<String>,
    slots: Vec<SlotDef>,
    mods: Vec<ModDef>,
    text: String,
    mnemonic: String,
}

struct EnumDef {
    idents: Vec<(String, usize)>,
    values: Vec<Option<String>>,
}

#[derive(Default)]
struct Isa {
    enums: BTreeMap<String, EnumDef>,
    widths: HashMap<String, Vec<u8>>,
    slots: HashMap<String, SlotDef>,
    mods: HashMap<String, String>,
    forms: Vec<FormDef>,
    /// The first chip on which fields of uniform registers have 8 bits where 6 are written.
    wide_from: u16,
    /// Forms that chips lack: place, name, chips.
    without: Vec<(String, String, Chips)>,
}

fn bad(at: &str, what: impl std::fmt::Display) -> ! {
    eprintln!("error: {at}: {what}");
    std::process::exit(1)
}

fn number<T: TryFrom<u128>>(at: &str, text: &str) -> T {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16),
        None => text.parse(),
    };
    match parsed.ok().and_then(|n| T::try_from(n).ok()) {
        Some(n) => n,
        None => bad(at, format!("not a number: {text}")),
    }
}

/// `16+8,80+1` (low part first); `16` is one bit.
fn bits(at: &str, text: &str) -> Bits {
    text.split(',')
        .map(|part| {
            let (from, count) = part.split_once('+').unwrap_or((part, "1"));
            (number(at, from), number(at, count))
        })
        .collect()
}

fn mask(at: &str, bits: &[(u8, u8)]) -> u128 {
    let mut m = 0u128;
    for &(from, count) in bits {
        if count == 0 || from as u32 + count as u32 > 128 {
            bad(at, format!("bad bits {from}+{count}"));
        }
        let part = (!0u128 >> (128 - count as u32)) << from;
        if m & part != 0 {
            bad(at, "a field overlaps itself");
        }
        m |= part;
    }
    m
}

/// Takes chips out of a list of ranges.
fn without(from: &mut Chips, sms: &[(u16, u16)]) {
    for &(first, last) in sms {
        let parts = std::mem::take(from)
            .into_iter()
            .flat_map(|(a, b)| [(a, b.min(first - 1)), (a.max(last.saturating_add(1)), b)]);
        *from = parts.filter(|(a, b)| a <= b).collect();
    }
}

/// The last chip that reads constants through a descriptor in uniform registers.
const LAST_BINDLESS: u16 = 90;

/// The form that reads `cx[UR][offset]` where `base` reads `c[bank][offset]`: bit 91 is set, the descriptor lies in bits 37:32, the
/// bits of the bank mean nothing. Variants likewise.
fn bindless(base: &FormDef) -> Option<FormDef> {
    let one = |form: &FormDef| {
        let n = form.slots.iter().position(|s| s.kind == "const" && s.bits == [(40, 14), (54, 5)])?;
        let free = form.fixed_mask & !form.explicit & 0x3f << 32 == 0x3f << 32;
        if !free || form.fixed >> 91 & 1 != 0 || form.slots.iter().any(|s| s.name == "UR") {
            return None;
        }
        let mut form = FormDef { name: format!("{}_CX", form.name), variants: Vec::new(), ..form.clone() };
        without(&mut form.sms, &[(LAST_BINDLESS + 1, 999)]);
        (form.slots[n].kind, form.slots[n].bits, form.slots[n].shift) = ("cx".into(), vec![(40, 14)], 2);
        let bits = vec![(32, 6)];
        form.fixed_mask = form.fixed_mask & !mask(&form.at, &bits) | 0x1f << 54;
        form.slots.push(SlotDef {
            name: "UR".into(),
            role: "use".into(),
            kind: "u".into(),
            bits,
            width: "2".into(),
            ..Default::default()
        });
        form.fixed |= 1 << 91;
        form.wide = 0;
        (!form.sms.is_empty()).then_some(form)
    };
    let mut forms = std::iter::once(base).chain(&base.variants).filter_map(one);
    let mut first = forms.next()?;
    first.variants = forms.collect();
    Some(first)
}

fn main() {
    println!("cargo:rerun-if-changed=isa");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    let mut isa = Isa::default();
    let mut files: Vec<_> = fs::read_dir("isa").expect("isa/").map(|f| f.expect("isa/").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "isa"));
    // common.isa first: it defines what the others use. `X.other.isa` after them: it says how other chips differ; `X.more.isa` last.
    let rank = |f: &std::path::PathBuf| match f.file_stem().and_then(|s| s.to_str()) {
        Some("common") => 0,
        Some(stem) if stem.ends_with(".other") => 2,
        Some(stem) if stem.ends_with(".more") => 3,
        _ => 1,
    };
    files.sort_by_key(|f| (rank(f), f.clone()));
    for definitions in [true, false] {
        for file in &files {
            let name = file.display().to_string();
            let text = fs::read_to_string(file).unwrap_or_else(|e| bad(&name, e));
            isa.parse(&name, &text, definitions);
        }
    }
    // Forms of one name are variants of the first.
    let mut base: BTreeMap<String, usize> = BTreeMap::new();
    let mut forms: Vec<FormDef> = Vec::new();
    for form in std::mem::take(&mut isa.forms) {
        match base.get(&form.name) {
            None => {
                base.insert(form.name.clone(), forms.len());
                forms.push(form);
            }
            Some(&n) => {
                if form.sms.contains(&(75, 999)) {
                    bad(&form.at, format!("{} defined twice", form.name));
                }
                // A later one takes over its chips.
                let sms = form.sms.clone();
                without(&mut forms[n].sms, &sms);
                forms[n].variants.iter_mut().for_each(|v| without(&mut v.sms, &sms));
                forms[n].variants.push(form);
            }
        }
    }
    for (at, name, sms) in std::mem::take(&mut isa.without) {
        match base.get(&name) {
            Some(&n) => without(&mut forms[n].sms, &sms),
            None => bad(&at, format!("no form {name}")),
        }
    }
    let bindless: Vec<FormDef> = forms.iter().filter_map(bindless).collect();
    forms.extend(bindless);
    isa.forms = forms;
    emit::write(&isa);
}
