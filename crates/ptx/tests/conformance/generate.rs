//! Examples of a form of the instruction table: legal ones, and ones that miss it by a little.

use arch::{Target, Variant};
use ptx::isa::{Count, Form, Group, Mod, Op, OperandForm, OperandKind, OperandType, Since, Slot, Values};
use ptx::types::{ScalarType, Space};
use testkit::Random;

/// The targets that every form is tried on.
pub const TARGETS: [&str; 6] = ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_100a", "sm_120a"];

/// The PTX version of all examples but those of the first versions.
pub const LATEST: (u16, u16) = arch::LATEST_PTX;

/// One instruction to be judged.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Example {
    /// The target that the module names.
    pub target: &'static str,
    /// The version that the module names.
    pub version: (u16, u16),
    /// The statement.
    pub text: String,
    /// What was done to it.
    pub what: &'static str,
}

fn target(name: &str) -> Target {
    Target::parse(name).unwrap_or(Target { sm: 0, variant: Variant::Plain })
}

/// A word of each group, or none.
type Chosen = Vec<Option<Mod>>;

fn words(chosen: &Chosen) -> Vec<Mod> {
    chosen.iter().flatten().copied().collect()
}

struct Maker<'a> {
    form: &'static Form,
    random: &'a mut Random,
    out: Vec<Example>,
}

/// All examples of a form.
pub fn examples(form: &'static Form, random: &mut Random) -> Vec<Example> {
    let mut maker = Maker { form, random, out: Vec::new() };
    maker.run();
    maker.out
}

impl Maker<'_> {
    fn run(&mut self) {
        let base = |g: &Group| if g.optional { None } else { Some(g.words[0].word) };
        let plain: Chosen = self.form.groups.iter().map(base).collect();
        let home = self.home(&plain);
        // Each alternative of each group once, then some that combine them.
        let mut all = vec![plain.clone()];
        for (i, g) in self.form.groups.iter().enumerate() {
            let step = (g.words.len() / 12).max(1);
            for w in g.words.iter().step_by(step) {
                let mut c = plain.clone();
                c[i] = Some(w.word);
                if c != plain {
                    all.push(c);
                }
            }
        }
        for _ in 0..4 {
            all.push(self.form.groups.iter().map(|g| self.pick(g)).collect());
        }
        for (n, c) in all.iter().enumerate() {
            let text = self.text(&words(c), c);
            let home = self.home(c);
            if n == 0 {
                for t in TARGETS {
                    self.push(t, LATEST, &text, "target");
                }
            } else {
                self.push(home, LATEST, &text, "legal");
                let other = TARGETS[self.random.index(TARGETS.len())];
                self.push(other, LATEST, &text, "target");
            }
            let first = self.first(c);
            self.older(first, home, &text);
        }
        for c in [&plain, &all[self.random.index(all.len())]] {
            let home = self.home(c);
            self.wrong_modifiers(c, home);
            self.wrong_operands(c, home);
        }
        let _ = home;
    }

    fn push(&mut self, target: &'static str, version: (u16, u16), text: &str, what: &'static str) {
        self.out.push(Example { target, version, text: text.to_string(), what });
    }

    fn pick(&mut self, g: &Group) -> Option<Mod> {
        if g.optional && self.random.index(2) == 0 {
            return None;
        }
        Some(g.words[self.random.index(g.words.len())].word)
    }

    /// What the words and the form need together.
    fn needs(&self, chosen: &Chosen) -> Vec<Since> {
        let mut out = vec![self.form.since];
        for (g, c) in self.form.groups.iter().zip(chosen) {
            out.extend(g.words.iter().filter(|w| Some(w.word) == *c).map(|w| w.since));
        }
        out
    }

    fn first(&self, chosen: &Chosen) -> (u16, u16) {
        self.needs(chosen).iter().map(|s| s.ptx).max().unwrap_or((1, 0))
    }

    /// A target that has the form with these words, if any of them does.
    fn home(&mut self, chosen: &Chosen) -> &'static str {
        let needs = self.needs(chosen);
        let able: Vec<&'static str> = TARGETS.into_iter().filter(|t| needs.iter().all(|s| s.has(target(t)))).collect();
        if able.is_empty() { "sm_90" } else { able[self.random.index(able.len())] }
    }

    /// The version before the first, on a target that it knows.
    fn older(&mut self, first: (u16, u16), home: &'static str, text: &str) {
        let Some(i) = arch::PTX_VERSIONS.iter().position(|&v| v == first) else { return };
        for (version, what) in [(i.checked_sub(1).map(|i| arch::PTX_VERSIONS[i]), "older"), (Some(first), "first")] {
            let Some(version) = version else { continue };
            let known = |t: &&'static str| target(t).since() <= version;
            let Some(t) = [home].into_iter().chain(TARGETS.into_iter().rev()).find(known) else { continue };
            self.push(t, version, text, what);
        }
    }

    fn wrong_modifiers(&mut self, chosen: &Chosen, home: &'static str) {
        let operands = self.operands(chosen);
        let form = self.form;
        let line = |words: &[Mod]| {
            format!("{}{}{};", head(form, words), if operands.is_empty() { "" } else { " " }, operands.join(", "))
        };
        let all = words(chosen);
        for i in 0..all.len() {
            let mut w = all.clone();
            w.remove(i);
            self.push(home, LATEST, &line(&w), "missing modifier");
        }
        for (g, c) in self.form.groups.iter().zip(chosen) {
            let Some(c) = c else { continue };
            let other = g.words[self.random.index(g.words.len())].word;
            let mut w = all.clone();
            let at = w.iter().position(|m| m == c).unwrap_or(0);
            w.insert(at + 1, other);
            self.push(home, LATEST, &line(&w), "two of a group");
            if let Some(ty) = ScalarType::from_mod(*c) {
                for _ in 0..3 {
                    let other = TYPES[self.random.index(TYPES.len())];
                    let mut w = all.clone();
                    w[at] = other;
                    if other.name() != ty.name() {
                        self.push(home, LATEST, &line(&w), "wrong type");
                    }
                }
            }
        }
        // Other types with operands of these types: they are legal where another form has them.
        for (i, g) in self.form.groups.iter().enumerate() {
            if !matches!(g.slot, Some(Slot::T | Slot::U | Slot::V | Slot::X)) {
                continue;
            }
            for _ in 0..3 {
                let mut c = chosen.clone();
                c[i] = Some(TYPES[self.random.index(TYPES.len())]);
                let text = self.text(&words(&c), &c);
                self.push(home, LATEST, &text, "retyped");
            }
        }
        for _ in 0..3 {
            let mut w = all.clone();
            w.insert(self.random.index(w.len() + 1), STRAY[self.random.index(STRAY.len())]);
            self.push(home, LATEST, &line(&w), "stray modifier");
        }
        if all.len() > 1 {
            let mut w = all.clone();
            let i = self.random.index(w.len() - 1);
            w.swap(i, i + 1);
            self.push(home, LATEST, &line(&w), "order");
        }
    }

    fn wrong_operands(&mut self, chosen: &Chosen, home: &'static str) {
        let operands = self.operands(chosen);
        let all = words(chosen);
        let head = head(self.form, &all);
        let line = |o: &[String]| format!("{head}{}{};", if o.is_empty() { "" } else { " " }, o.join(", "));
        // The vendor's tool takes anything for the addresses of tensor copies, and then may compute for ever.
        let tensor = self.form.op == Op::Cp && self.form.name.contains(&Mod::Tensor);
        for i in 0..operands.len() {
            if tensor && operands[i].starts_with('[') {
                continue;
            }
            for _ in 0..3 {
                let mut o = operands.clone();
                let strays = STRAY_OPERANDS;
                let n = self.random.index(strays.len() + 2);
                o[i] = match strays.get(n) {
                    Some(s) => s.to_string(),
                    None if o[i].starts_with('{') => longer(&o[i], n == strays.len()),
                    None => strays[self.random.index(strays.len())].to_string(),
                };
                self.push(home, LATEST, &line(&o), "operand");
            }
        }
        let mut o = operands.clone();
        if o.pop().is_some() {
            self.push(home, LATEST, &line(&o), "operand missing");
        }
        let mut o = operands.clone();
        o.push(STRAY_OPERANDS[self.random.index(STRAY_OPERANDS.len())].to_string());
        self.push(home, LATEST, &line(&o), "operand too many");
    }

    fn text(&mut self, words: &[Mod], chosen: &Chosen) -> String {
        let head = head(self.form, words);
        let operands = self.operands(chosen);
        format!("{head}{}{};", if operands.is_empty() { "" } else { " " }, operands.join(", "))
    }

    fn operands(&mut self, chosen: &Chosen) -> Vec<String> {
        let all = words(chosen);
        let mut types: [Option<ScalarType>; 6] = [None; 6];
        for (g, c) in self.form.groups.iter().zip(chosen) {
            if let (Some(slot), Some(c)) = (g.slot, c) {
                types[slot as usize] = ScalarType::from_mod(*c);
            }
        }
        let called = |o: &&OperandForm| o.when.is_none_or(|w| all.contains(&w));
        let forms: Vec<&OperandForm> = self.form.operands.iter().filter(called).collect();
        let mut out = Vec::new();
        for (i, o) in forms.iter().enumerate() {
            if o.optional && self.random.index(2) == 0 && forms[i..].iter().all(|o| o.optional) {
                break;
            }
            let ty = match o.ty {
                OperandType::Slot(s) => types[s as usize],
                OperandType::Fixed(t) => Some(t),
                OperandType::Address => Some(ScalarType::U64),
                OperandType::Space(_) | OperandType::TensorMemory => None,
                OperandType::Twice => types[Slot::T as usize].map(wider),
            };
            out.push(self.operand(o, i, ty.unwrap_or(ScalarType::B32), &all));
        }
        out
    }

    fn operand(&mut self, form: &OperandForm, i: usize, ty: ScalarType, mods: &[Mod]) -> String {
        use OperandKind as K;
        let n = i + 1;
        match form.kind {
            K::Any => "%r1".to_string(),
            K::Label => "L".to_string(),
            K::Sink => "_".to_string(),
            K::Register if ty == ScalarType::Pred => ["%p2", "!%p2"][self.random.index(2)].to_string(),
            K::Multiple(Values::Range(a, b)) if self.random.index(2) == 0 => [a, b][self.random.index(2)].to_string(),
            K::Multiple(_) if self.random.index(2) == 0 => ["16", "32", "64", "8"][self.random.index(4)].to_string(),
            K::Constant(Values::Natural) => "0".to_string(),
            K::Constant(Values::Positive) => "1".to_string(),
            K::Multiple(Values::Columns) => ["%r2", "32", "512"][self.random.index(3)].to_string(),
            K::Constant(Values::Columns) => "64".to_string(),
            K::Constant(Values::PowerOfTwo) => "16".to_string(),
            K::Constant(Values::MultipleOf(n)) => n.to_string(),
            K::Constant(Values::Any) => "0".to_string(),
            K::Constant(Values::OneOf(list)) => list[self.random.index(list.len())].to_string(),
            K::Constant(Values::Range(a, b)) => [a, b][self.random.index(2)].to_string(),
            K::Memory if form.ty == OperandType::TensorMemory => "[%r1]".to_string(),
            K::Memory => {
                let near = match form.ty {
                    OperandType::Space(Space::Global) => "[gmem]",
                    OperandType::Space(_) => "[smem+16]",
                    _ => ["[gmem]", "[smem+16]"][self.random.index(2)],
                };
                ["[%rd1]", "[%rd1]", "[%rd2+16]", near][self.random.index(4)].to_string()
            }
            K::Texture => {
                let surface = matches!(self.form.op, Op::Suld | Op::Sust | Op::Sured);
                let image = ["%rd1", if surface { "surf0" } else { "tex0" }][self.random.index(2)];
                let coordinates = match mods.iter().find_map(|m| coordinates(*m)).unwrap_or(4) {
                    1 => [self.register(ty, 1), self.vector(ty, 1)][self.random.index(2)].clone(),
                    n => self.vector(ty, n),
                };
                format!("[{image}, {coordinates}]")
            }
            K::TexelDest(c) => {
                let n = count(c, mods);
                let value = if n == 1 { self.register(ty, 1) } else { self.vector(ty, n) };
                if self.form.op != Op::Suld && self.random.index(3) == 0 { format!("{value}|%p1") } else { value }
            }
            K::Offset => {
                let n = mods.iter().find_map(|m| coordinates(*m)).unwrap_or(4);
                let n = if mods.contains(&Mod::A1d) {
                    1
                } else if mods.contains(&Mod::A2d) {
                    2
                } else {
                    n
                };
                if n == 1 { "%r7".to_string() } else { self.vector(ScalarType::B32, n) }
            }
            K::Gradient => {
                let n = mods.iter().find_map(|m| coordinates(*m)).unwrap_or(4);
                let n = if mods.contains(&Mod::A1d) {
                    1
                } else if mods.contains(&Mod::A2d) {
                    2
                } else {
                    n
                };
                self.vector(ScalarType::F32, n)
            }
            K::Handle => {
                ["[%rd1]", if self.form.op == Op::Suq { "[surf0]" } else { "[tex0]" }][self.random.index(2)].to_string()
            }
            K::Part => {
                let parts: &[&str] = match (self.form.op.name().as_bytes().last(), i) {
                    (Some(b'2' | b'4'), 3) => &["", "", "", ".b3210"],
                    (Some(b'2'), _) => &["", "", ".h10", ".h1"],
                    (Some(b'4'), 0) => &["", "", ".b3210", ".b2"],
                    (Some(b'4'), _) => &["", "", ".b3210", ".b7654"],
                    _ => &["", "", ".b0", ".h1"],
                };
                format!("{}{}", self.register(ty, n), parts[self.random.index(4)])
            }
            K::Pred => ["%p2", "%p2", "!%p2"][self.random.index(3)].to_string(),
            K::DestPred if matches!(ty, ScalarType::F16x2 | ScalarType::BF16x2) => "%p1|%p2".to_string(),
            K::DestPred => ["%p1", "%p1|%p2"][self.random.index(2)].to_string(),
            K::DestBoth => format!("{}|%p1", self.register(ty, 1)),
            K::DestAndPred if self.random.index(2) == 0 => format!("{}|%p1", self.register(ty, 1)),
            K::LoadDest | K::StoreSource | K::MoveDest | K::MoveSource => {
                let count = count(Count::Vector, mods);
                if count > 1 { self.vector(ty, count) } else { self.register(ty, n) }
            }
            K::Source if self.random.index(5) == 0 && !ty.is_float() && ty != ScalarType::Pred => "3".to_string(),
            K::DestVec(Count::Vector) | K::SourceVec(Count::Vector) if count(Count::Vector, mods) == 1 => {
                self.register(ty, n)
            }
            K::DestVec(c) | K::SourceVec(c) => self.vector(ty, count(c, mods)),
            K::ConstantVec(c) => format!("{{{}}}", vec!["0"; count(c, mods)].join(", ")),
            K::Tensor(c) => format!("[%rd1, {}]", self.vector(ty, count(c, mods))),
            _ => self.register(ty, n),
        }
    }

    fn vector(&mut self, ty: ScalarType, n: usize) -> String {
        let prefix = self.prefix(ty);
        let parts: Vec<String> = (0..n).map(|i| format!("{prefix}{}", 1 + i % 250)).collect();
        format!("{{{}}}", parts.join(", "))
    }

    fn register(&mut self, ty: ScalarType, n: usize) -> String {
        format!("{}{}", self.prefix(ty), n.min(8))
    }

    /// Untyped registers most often, then those of the very type.
    fn prefix(&mut self, ty: ScalarType) -> &'static str {
        let typed = self.random.index(3) == 0;
        use ScalarType::*;
        match ty {
            Pred => "%p",
            U8 if typed => "%uc",
            S8 if typed => "%sc",
            U16 if typed => "%uh",
            S16 if typed => "%sh",
            U32 if typed => "%u",
            S32 if typed => "%s",
            U64 if typed => "%ud",
            S64 if typed => "%sd",
            F32 if typed => "%f",
            F64 if typed => "%d",
            _ => match ty.bits() {
                0..=8 => "%c",
                9..=16 => "%h",
                17..=32 => "%r",
                33..=64 => "%rd",
                _ => "%q",
            },
        }
    }
}

fn wider(t: ScalarType) -> ScalarType {
    match t {
        ScalarType::U16 => ScalarType::U32,
        ScalarType::S16 => ScalarType::S32,
        ScalarType::U32 => ScalarType::U64,
        _ => ScalarType::S64,
    }
}

/// The opcode with its name and these modifiers.
fn head(form: &Form, words: &[Mod]) -> String {
    let mods: String = form.name.iter().chain(words).map(|m| format!(".{}", m.name())).collect();
    format!("{}{mods}", form.op.name())
}

/// A vector with one element more, or less.
fn longer(text: &str, more: bool) -> String {
    let inner = text.trim_matches(['{', '}']);
    match inner.rsplit_once(", ") {
        Some((head, _)) if !more => format!("{{{head}}}"),
        _ => format!("{{{inner}, {}}}", inner.split(", ").next().unwrap_or("%r1")),
    }
}

fn count(n: Count, mods: &[Mod]) -> usize {
    let word = |f: &dyn Fn(&str) -> Option<usize>| mods.iter().find_map(|m| f(m.name()));
    let dims = || word(&|w| w.strip_suffix('d')?.trim_start_matches('a').parse().ok()).unwrap_or(1);
    let has = |w: Mod| mods.contains(&w);
    match n {
        Count::Fixed(n) => n as usize,
        Count::Columns(d) => {
            word(&|w| w.strip_prefix('m')?.split_once('n')?.1.split_once('k')?.0.parse().ok()).unwrap_or(8) / d as usize
        }
        Count::Repeat(n) => word(&|w| w.strip_prefix('x')?.parse().ok()).unwrap_or(1) * n as usize,
        Count::Vector => word(&|w| w.strip_prefix('v')?.parse().ok()).unwrap_or(1),
        Count::Geometry if has(Mod::TileGather4) || has(Mod::TileScatter4) => 5,
        Count::Geometry => dims(),
        Count::Coordinates => mods.iter().find_map(|m| coordinates(*m)).unwrap_or(4),
        Count::Lanes => {
            if has(Mod::CtaGroup2) {
                8
            } else {
                4
            }
        }
        Count::Offsets if has(Mod::Im2col) => dims().saturating_sub(2),
        Count::Offsets => 2,
    }
}

fn coordinates(word: Mod) -> Option<usize> {
    Some(match word {
        Mod::N1d => 1,
        Mod::N2d | Mod::A1d => 2,
        Mod::N3d | Mod::A2d | Mod::Cube | Mod::Acube | Mod::N2dms | Mod::A2dms => 4,
        _ => return None,
    })
}

const TYPES: [Mod; 20] = [
    Mod::U8,
    Mod::S8,
    Mod::B8,
    Mod::U16,
    Mod::S16,
    Mod::B16,
    Mod::U32,
    Mod::S32,
    Mod::B32,
    Mod::U64,
    Mod::S64,
    Mod::B64,
    Mod::F16,
    Mod::F16x2,
    Mod::Bf16,
    Mod::Bf16x2,
    Mod::F32,
    Mod::F64,
    Mod::Pred,
    Mod::B128,
];

const STRAY: [Mod; 18] = [
    Mod::Sat,
    Mod::Ftz,
    Mod::Rn,
    Mod::Rz,
    Mod::Approx,
    Mod::V2,
    Mod::Global,
    Mod::Shared,
    Mod::Sync,
    Mod::Aligned,
    Mod::Relu,
    Mod::Wide,
    Mod::Lo,
    Mod::Gpu,
    Mod::Eq,
    Mod::U32,
    Mod::Cg,
    Mod::NaN,
];

const STRAY_OPERANDS: [&str; 22] = [
    "%r3",
    "%rd3",
    "%h3",
    "%f3",
    "%d3",
    "%p3",
    "%u3",
    "%s3",
    "%sd3",
    "%c3",
    "7",
    "-1",
    "0f3F800000",
    "0d3FF0000000000000",
    "[%rd3]",
    "{%r1, %r2}",
    "{%r1, %r2, %r3, %r4}",
    "%tid.x",
    "gmem",
    "_",
    "!%p3",
    "1000000",
];
