//! Makes the static tables of the ISA from `isa/*.isa` (the language of those files is described in `isa/README.md`).
//!
//! Everything that can be wrong with a description is found here: overlapping fields, bits outside of the word, unknown
//! names, duplicate names, two forms that one word could be.

#[path = "build/emit.rs"]
mod emit;
#[path = "build/parse.rs"]
mod parse;
#[path = "build/shapes.rs"]
mod shapes;

use std::collections::{BTreeMap, HashMap};
use std::fs;

const CONTROL: u128 = 0x1f_ffff << 105;
const GUARD: u128 = 0xf << 12;
const OPCODE: u128 = 0xfff;

type Bits = Vec<(u8, u8)>;

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
    sms: Vec<(u16, u16)>,
    fixed: u128,
    /// Bits that `fix` names: they tell the form from others.
    explicit: u128,
    fixed_mask: u128,
    wide: u128,
    /// Suffix of the register of an address, by slot.
    variants: Vec<FormDef>,
    uniform: bool,
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
    widths: HashMap<String, String>,
    slots: HashMap<String, SlotDef>,
    mods: HashMap<String, String>,
    forms: Vec<FormDef>,
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

fn main() {
    println!("cargo:rerun-if-changed=isa");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    let mut isa = Isa::default();
    let mut files: Vec<_> = fs::read_dir("isa").expect("isa/").map(|f| f.expect("isa/").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "isa"));
    // common.isa first: it defines what the others use.
    files.sort_by_key(|f| (f.file_stem().is_none_or(|s| s != "common"), f.clone()));
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
                let others = std::iter::once(&forms[n]).chain(&forms[n].variants);
                if others.flat_map(|o| &o.sms).any(|o| form.sms.iter().any(|s| s.0 <= o.1 && o.0 <= s.1)) {
                    bad(&form.at, format!("{} defined twice for one chip", form.name));
                }
                forms[n].variants.push(form);
            }
        }
    }
    isa.forms = forms;
    emit::write(&isa);
}
