//! Makes the instruction tables from `isa/*.ptxi`: the enums `Op` and `Mod` and their name tables.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::PathBuf;

/// Expands `{a,b}` and `{from..to/step}` in a word.
fn expand(word: &str) -> Vec<String> {
    let Some(open) = word.find('{') else { return vec![word.to_string()] };
    let close = open + word[open..].find('}').unwrap_or_else(|| panic!("no closing brace in {word}"));
    let inner = &word[open + 1..close];
    let alternatives: Vec<String> = match inner.split_once("..") {
        Some((from, rest)) => {
            let (to, step) = rest.split_once('/').unwrap_or((rest, "1"));
            let number = |s: &str| s.parse::<usize>().unwrap_or_else(|_| panic!("bad range in {word}"));
            (number(from)..=number(to)).step_by(number(step)).map(|n| n.to_string()).collect()
        }
        None => inner.split(',').map(str::to_string).collect(),
    };
    let tails = expand(&word[close + 1..]);
    let mut out = Vec::new();
    for a in &alternatives {
        for t in &tails {
            out.push(format!("{}{a}{t}", &word[..open]));
        }
    }
    out
}

/// `acq_rel` -> `AcqRel`, `L1::evict_first` -> `L1EvictFirst`, `2d` -> `N2d`.
fn camel(word: &str) -> String {
    let mut out = String::new();
    for part in word.split(['_', ':']).filter(|p| !p.is_empty()) {
        let mut chars = part.chars();
        let first = chars.next().expect("a part is not empty");
        if first.is_ascii_digit() && out.is_empty() {
            out.push('N');
        }
        out.push(first.to_ascii_uppercase());
        out.push_str(chars.as_str());
    }
    out
}

/// The hash of the name tables; `src/isa.rs` has the same function.
fn hash(name: &[u8]) -> u32 {
    let mut h: u32 = 0x811c_9dc5;
    for &b in name {
        h = (h ^ u32::from(b)).wrapping_mul(0x0100_0193);
    }
    h ^ (h >> 15)
}

/// An open-addressing table from name to index; 0 is empty, else index + 1.
fn table(words: &[String]) -> Vec<u16> {
    let size = (words.len() * 3).next_power_of_two();
    let mut slots = vec![0u16; size];
    for (i, w) in words.iter().enumerate() {
        let mut at = hash(w.as_bytes()) as usize & (size - 1);
        while slots[at] != 0 {
            at = (at + 1) & (size - 1);
        }
        slots[at] = i as u16 + 1;
    }
    slots
}

fn write_enum(out: &mut String, name: &str, doc: &str, dot: &str, words: &[String]) {
    let mut seen = HashSet::new();
    writeln!(
        out,
        "#[doc = \"{doc}\"]\n#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]\n#[repr(u16)]"
    )
    .unwrap();
    writeln!(out, "pub enum {name} {{").unwrap();
    for w in words {
        let variant = camel(w);
        assert!(seen.insert(variant.clone()), "{name}::{variant} twice ({w})");
        writeln!(out, "    #[doc = \"`{dot}{w}`\"]\n    {variant},").unwrap();
    }
    writeln!(
        out,
        "}}\nimpl {name} {{\n    /// Every word, in the order of the table.\n    pub const ALL: [{name}; {}] = [",
        words.len()
    )
    .unwrap();
    for w in words {
        writeln!(out, "        {name}::{},", camel(w)).unwrap();
    }
    writeln!(out, "    ];\n}}").unwrap();
    let upper = name.to_uppercase();
    writeln!(out, "static {upper}_NAMES: [&str; {}] = {words:?};", words.len()).unwrap();
    let slots = table(words);
    writeln!(out, "static {upper}_SLOTS: [u16; {}] = {slots:?};", slots.len()).unwrap();
}

/// `7.8/90` or `8.6/100f,110f` as a `Since`; a part that is not there is 0.
fn gate(text: &str, at: &str) -> String {
    let (ptx, sm) = text.split_once('/').unwrap_or((text, "0"));
    since(version(ptx, at), sm, at)
}

/// `90` is every SM from it on, `90a` that chip, `100f` its family from it on; several are joined by commas.
fn since(ptx: (u16, u16), sms: &str, at: &str) -> String {
    let mut sm = 0;
    let mut only = String::new();
    for word in sms.split(',') {
        let (digits, variant) = match word.as_bytes().last() {
            Some(b'a') => (&word[..word.len() - 1], "A"),
            Some(b'f') => (&word[..word.len() - 1], "F"),
            _ => (word, ""),
        };
        let number: u16 = digits.parse().unwrap_or_else(|_| panic!("{at}: bad SM {word}"));
        if variant.is_empty() {
            sm = number;
        } else {
            write!(only, "Target {{ sm: {number}, variant: Variant::{variant} }}, ").unwrap();
        }
    }
    format!("Since {{ ptx: {ptx:?}, sm: {sm}, only: &[{only}] }}")
}

/// The number of elements of a vector operand: `4`, `n2` (columns of the shape over 2), `x2` (the repetition times 2),
/// `g` (coordinates of the geometry).
fn count(text: &str, at: &str) -> String {
    let number = |t: &str| t.parse::<u8>().unwrap_or_else(|_| panic!("{at}: bad count {text}"));
    match text.as_bytes()[0] {
        b'n' => format!("Count::Columns({})", number(&text[1..])),
        b'x' => format!("Count::Repeat({})", number(&text[1..])),
        b'g' => "Count::Geometry".to_string(),
        b'i' => "Count::Offsets".to_string(),
        b'v' => "Count::Vector".to_string(),
        b'c' => "Count::Coordinates".to_string(),
        b'l' => "Count::Lanes".to_string(),
        _ => format!("Count::Fixed({})", number(text)),
    }
}

fn version(text: &str, at: &str) -> (u16, u16) {
    let parts = text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    parts.unwrap_or_else(|| panic!("{at}: bad version {text}"))
}

/// `0..15`, `4|8|16` or nothing: the legal values of a constant.
fn numbers(text: Option<&str>, at: &str) -> String {
    let number = |t: &str| t.parse::<i64>().unwrap_or_else(|_| panic!("{at}: bad number {t}"));
    match text {
        None => "Values::Any".to_string(),
        Some("+") => "Values::Positive".to_string(),
        Some("0+") => "Values::Natural".to_string(),
        Some("columns") => "Values::Columns".to_string(),
        Some("p2") => "Values::PowerOfTwo".to_string(),
        Some(t) if t.ends_with('n') => format!("Values::MultipleOf({})", number(&t[..t.len() - 1])),
        Some(t) => match t.split_once("..") {
            Some((a, b)) => format!("Values::Range({}, {})", number(a), number(b)),
            None => format!("Values::OneOf(&{:?})", t.split('|').map(number).collect::<Vec<_>>()),
        },
    }
}

fn plain_kind(kind: &str, at: &str) -> &'static str {
    match kind {
        "d" => "Dest",
        "dp" => "DestPred",
        "dq" => "DestAndPred",
        "db" => "DestBoth",
        "s" => "Source",
        "p" => "Pred",
        "dr" => "ConvDest",
        "sr" => "ConvSource",
        "md" => "MoveDest",
        "ms" => "MoveSource",
        "dv" => "LoadDest",
        "sv" => "StoreSource",
        "m" => "Memory",
        "l" => "Label",
        "any" => "Any",
        "_" => "Sink",
        "w" => "Word",
        "r" => "Register",
        "e" => "Offset",
        "g" => "Gradient",
        "o" => "Handle",
        "y" => "Part",
        other => panic!("{at}: unknown operand kind {other}"),
    }
}

/// `bf16x2` -> `BF16x2`, `pred` -> `Pred`: the names of `ScalarType`.
fn type_name(name: &str) -> String {
    match name {
        "pred" => "Pred".to_string(),
        _ => name.chars().map(|c| if c == 'x' { c } else { c.to_ascii_uppercase() }).collect(),
    }
}

/// One line of a form file: its opcode, the form as a Rust expression, and the sum of the bits of its words.
fn form(line: &str, sets: &HashMap<String, String>, mods: &[String], at: &str) -> (String, String, u64) {
    let (head, tail) = line.split_once(':').unwrap_or_else(|| panic!("{at}: no colon"));
    // `shared::cta` has colons of its own: the operands begin behind a colon between blanks or at the end.
    let (head, tail) = match line.find(" : ").or_else(|| line.strip_suffix(" :").map(str::len)) {
        Some(i) => (&line[..i], line[i + 2..].trim_start_matches(':').trim()),
        None => (head, tail),
    };
    let (operands, since_text) = tail.split_once(';').unwrap_or((tail, ""));
    let mut words = head.split_whitespace();
    let name = words.next().unwrap_or_else(|| panic!("{at}: no opcode"));
    let mut name = name.split('.');
    let op = name.next().unwrap_or_default().to_string();
    let mut out = format!("Form {{ op: Op::{}, name: &[", camel(&op));
    let mut known = 0u64;
    let mut know = |word: &str| {
        let n = mods.iter().position(|m| m == word).unwrap_or_else(|| panic!("{at}: unknown modifier {word}"));
        known |= 1 << (n % 64);
    };
    for word in name {
        know(word);
        write!(out, "Mod::{}, ", camel(word)).unwrap();
    }
    out.push_str("], groups: &[");
    for word in words {
        let (slot, word) = match word.split_once('=') {
            // `_=` only says that the group keeps its place among the named ones.
            Some(("_", rest)) => ("Some(Slot::Order)".to_string(), rest),
            Some((name, rest)) => (format!("Some(Slot::{name})"), rest),
            None => ("None".to_string(), word),
        };
        let (optional, word) = match word.strip_suffix('?') {
            Some(w) => (true, w),
            None => (false, word),
        };
        let mut text = word.to_string();
        while let Some(i) = text.find('$') {
            let end = text[i + 1..].find('|').map_or(text.len(), |e| i + 1 + e);
            let set = sets.get(&text[i + 1..end]).unwrap_or_else(|| panic!("{at}: no set {}", &text[i..end]));
            text.replace_range(i..end, set);
        }
        write!(out, "Group {{ slot: {slot}, optional: {optional}, words: &[").unwrap();
        for alternative in text.split('|') {
            let (name, since) = alternative.split_once('@').unwrap_or((alternative, "0.0"));
            let name = name.strip_prefix('.').unwrap_or_else(|| panic!("{at}: no dot before {name}"));
            know(name);
            write!(out, "Word {{ word: Mod::{}, since: {} }}, ", camel(name), gate(since, at)).unwrap();
        }
        out.push_str("] }, ");
    }
    out.push_str("], operands: &[");
    for word in operands.split_whitespace() {
        let (word, optional) = word.strip_suffix('?').map_or((word, false), |w| (w, true));
        let (word, when) = word.split_once("@.").map_or((word, None), |(w, m)| (w, Some(m)));
        let when = when.map_or("None".to_string(), |m| {
            assert!(mods.iter().any(|w| w == m), "{at}: unknown modifier {m}");
            format!("Some(Mod::{})", camel(m))
        });
        let (word, values) = word.split_once('=').map_or((word, None), |(w, v)| (w, Some(v)));
        let (kind, ty) = word.split_once(':').unwrap_or((word, "T"));
        let (kind, count) = match kind.split_once('*') {
            Some((k, n)) => (k, Some(count(n, at))),
            None => (kind, None),
        };
        let kind = match (kind, count) {
            ("d", Some(n)) => format!("DestVec({n})"),
            ("s", Some(n)) => format!("SourceVec({n})"),
            ("i", Some(n)) => format!("ConstantVec({n})"),
            ("t", Some(n)) if n == "Count::Coordinates" => "Texture".to_string(),
            ("t", Some(n)) => format!("Tensor({n})"),
            ("x", Some(n)) => format!("TexelDest({n})"),
            (k, Some(_)) => panic!("{at}: {k} has no count"),
            ("i", None) => format!("Constant({})", numbers(values, at)),
            ("s", None) if values.is_some() => format!("Multiple({})", numbers(values, at)),
            (k, None) => plain_kind(k, at).to_string(),
        };
        let ty = match ty {
            "T" | "U" | "V" | "X" | "Y" => format!("OperandType::Slot(Slot::{ty})"),
            "W" => "OperandType::Twice".to_string(),
            "address" => "OperandType::Address".to_string(),
            "shared" => "OperandType::Space(Space::Shared)".to_string(),
            "cluster" => "OperandType::Space(Space::SharedCluster)".to_string(),
            "global" => "OperandType::Space(Space::Global)".to_string(),
            "tensor" => "OperandType::TensorMemory".to_string(),
            fixed => format!("OperandType::Fixed(ScalarType::{})", type_name(fixed)),
        };
        write!(out, "OperandForm {{ kind: OperandKind::{kind}, ty: {ty}, optional: {optional}, when: {when} }}, ")
            .unwrap();
    }
    let mut ptx = (0, 0);
    let mut sm = "0";
    let mut clauses = since_text.split_whitespace();
    while let Some(word) = clauses.next() {
        let value = clauses.next().unwrap_or_else(|| panic!("{at}: {word} without a number"));
        match word {
            "ptx" => ptx = version(value, at),
            "sm" => sm = value,
            other => panic!("{at}: unknown clause {other}"),
        }
    }
    write!(out, "], since: {} }}", since(ptx, sm, at)).unwrap();
    (op, out, known)
}

/// Reads every form file and writes the table, the forms of an opcode side by side.
fn write_forms(out: &mut String, ops: &[String], mods: &[String]) {
    let mut files: Vec<PathBuf> = std::fs::read_dir("isa").expect("isa").map(|e| e.expect("isa").path()).collect();
    files.sort();
    let mut forms: BTreeMap<usize, Vec<(String, u64)>> = BTreeMap::new();
    for path in files {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if !name.ends_with(".ptxi") || name == "words.ptxi" {
            continue;
        }
        let mut sets: HashMap<String, String> = HashMap::new();
        for (number, line) in std::fs::read_to_string(&path).expect("a readable table").lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            let at = format!("{name}:{}", number + 1);
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                ["set", name, "=", value] => {
                    sets.insert(name.to_string(), value.to_string());
                }
                _ => {
                    // `mbarrier.{arrive,arrive_drop}` is two forms.
                    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
                    for name in expand(name) {
                        let (op, text, known) = form(&format!("{name} {rest}"), &sets, mods, &at);
                        let index =
                            ops.iter().position(|o| *o == op).unwrap_or_else(|| panic!("{at}: unknown opcode {op}"));
                        forms.entry(index).or_default().push((text, known));
                    }
                }
            }
        }
    }
    let count: usize = forms.values().map(Vec::len).sum();
    writeln!(out, "/// Every form, the forms of one opcode side by side.\npub static FORMS: [Form; {count}] = [")
        .unwrap();
    let (mut ranges, mut all) = (Vec::new(), Vec::new());
    let mut at = 0;
    for index in 0..ops.len() {
        let list = forms.get(&index).map(Vec::as_slice).unwrap_or(&[]);
        for (text, known) in list {
            writeln!(out, "    {text},").unwrap();
            all.push(*known);
        }
        ranges.push((at, at + list.len()));
        at += list.len();
    }
    writeln!(out, "];\nstatic FORM_RANGES: [(u16, u16); {}] = {ranges:?};", ops.len()).unwrap();
    writeln!(out, "static KNOWN: [u64; {count}] = {all:?};").unwrap();
}

fn main() {
    println!("cargo::rerun-if-changed=isa");
    println!("cargo::rerun-if-changed=build.rs");
    let mut ops = Vec::new();
    let mut mods = Vec::new();
    let text = std::fs::read_to_string("isa/words.ptxi").expect("isa/words.ptxi");
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("");
        let mut words = line.split_whitespace();
        let list = match words.next() {
            Some("ops") => &mut ops,
            Some("mods") => &mut mods,
            None => continue,
            Some(other) => panic!("words.ptxi:{}: unknown line '{other}'", number + 1),
        };
        for word in words.flat_map(expand) {
            // A word may have several meanings (`.b1` is a type and a byte selector) and still is one word.
            if !list.contains(&word) {
                list.push(word);
            }
        }
    }
    let mut out = String::new();
    write_enum(&mut out, "Op", "An opcode word: what stands before the first dot.", "", &ops);
    write_enum(&mut out, "Mod", "A modifier word, with everything that its `::` joins.", ".", &mods);
    write_forms(&mut out, &ops, &mods);
    let path = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("isa.rs");
    std::fs::write(path, out).expect("OUT_DIR is writable");
}
