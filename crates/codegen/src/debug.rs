//! The debugging sections of a PTX text (`.section .debug_info { ... }`): their bytes, and what their words refer to.
//!
//! A word may name a label of code, a label of a section, a section, a parameter, or a variable, with a number added, or the
//! distance of two labels. What a label of code stands before is found in the finished code. Of
//! parameters the words hold their place in constant bank 0, as the vendor's files do.

use crate::emit::Code;
use crate::lower::Program;
use cubin::image::{DebugRef, DebugSection, DebugTarget};
use ptx::module::{Body, FuncId, FuncKind, Item, Module, Stmt};
use rustc_hash::FxHashMap;

/// What a word refers to, with a number that is added.
#[derive(Clone, Debug, PartialEq)]
struct Word {
    offset: usize,
    size: usize,
    name: String,
    /// A label whose place is taken off.
    minus: Option<String>,
    addend: i64,
}

/// A label of code: its function, and where the first instruction behind it begins in the text.
#[derive(Clone, Copy, Debug)]
struct CodeLabel {
    function: u32,
    /// None at the end of the function.
    from: Option<u32>,
    first: bool,
}

/// The sections of a module.
struct Sections {
    list: Vec<(String, Vec<u8>, Vec<Word>)>,
    /// Labels within them: which, where.
    labels: FxHashMap<String, (usize, usize)>,
    code: FxHashMap<String, CodeLabel>,
}

/// The finished code of a function, or of a kernel with the functions within it.
struct Placed<'a> {
    /// The symbol that addresses are relative to.
    symbol: &'a str,
    /// Number of the function in the module, and its first and last byte.
    functions: Vec<(u32, u32, u32)>,
    /// Where in the text code comes from: offset, byte of the text; one entry a change.
    lines: &'a [(u32, u32)],
}

impl Sections {
    /// Reads the sections of a module. What stands in `.debug_str` is among them.
    fn new(m: &Module) -> Sections {
        let mut out = Sections { list: Vec::new(), labels: FxHashMap::default(), code: FxHashMap::default() };
        // Entries that nobody could read are left out, as by the vendor's tool.
        let named = |wanted: &str| m.items.iter().any(|i| matches!(i, Item::Section { name, .. } if name == wanted));
        let readable = named(".debug_abbrev");
        for item in &m.items {
            if let Item::Section { name, body } = item
                && (readable || name != ".debug_info")
            {
                out.section(name, body);
            }
        }
        if out.list.iter().all(|s| s.2.is_empty()) {
            return out;
        }
        for (n, f) in m.funcs.iter().enumerate() {
            let Some(body) = f.body.as_ref().map(Body::unpacked) else { continue };
            let mut waiting: Vec<String> = Vec::new();
            let mut first = true;
            let mut add = |waiting: &mut Vec<String>, from, first| {
                for name in waiting.drain(..) {
                    out.code.insert(name, CodeLabel { function: n as u32, from, first });
                }
            };
            for s in body.stmts() {
                match s {
                    Stmt::Label(id) => waiting.push(f.labels[id.index()].name.clone()),
                    Stmt::Inst(id) => {
                        add(&mut waiting, Some(body.inst(id).span.start), first);
                        first = false;
                    }
                    _ => {}
                }
            }
            add(&mut waiting, None, first);
        }
        out
    }

    fn section(&mut self, section: &str, body: &str) {
        let number = self.list.len();
        let (mut bytes, mut words, mut size) = (Vec::new(), Vec::new(), 1);
        let lines = body.lines().map(|l| l.split("//").next().unwrap_or(""));
        for word in lines.flat_map(|l| l.split([' ', '\t', ',', '\r'])).filter(|w| !w.is_empty()) {
            match word {
                ".b8" => size = 1,
                ".b16" => size = 2,
                ".b32" => size = 4,
                ".b64" => size = 8,
                _ => {
                    if let Some(n) = integer(word) {
                        bytes.extend_from_slice(&n.to_le_bytes()[..size]);
                    } else if let Some(label) = word.strip_suffix(':') {
                        self.labels.insert(label.to_string(), (number, bytes.len()));
                    } else {
                        words.push(reference(word, bytes.len(), size));
                        bytes.resize(bytes.len() + size, 0);
                    }
                }
            }
        }
        self.list.push((section.to_string(), bytes, words));
    }

    /// Where a label of code lies: the symbol, and the place relative to it.
    fn place<'a>(&self, label: CodeLabel, code: &'a [Placed]) -> Option<(&'a str, u64)> {
        let of = |p: &'a Placed<'a>| p.functions.iter().find(|f| f.0 == label.function).map(|f| (p, f.1, f.2));
        let (p, start, end) = code.iter().find_map(of)?;
        let at = match label.from {
            _ if label.first => start,
            None => end,
            // The first instruction of the text behind the label of which there is code.
            Some(from) => {
                let own = p.lines.iter().filter(|l| l.0 >= start && l.0 < end && l.1 >= from);
                own.min_by_key(|l| (l.1, l.0)).map_or(end, |l| l.0)
            }
        };
        Some((p.symbol, at.into()))
    }

    /// The sections with what they refer to. `memory` gives the place of a parameter or a variable of a function, where a word
    /// is to hold it; for other names `symbol` gives the symbol and what is added; where it knows none the word is 0.
    fn resolve(
        mut self,
        code: &[Placed],
        memory: &dyn Fn(&str) -> Option<u64>,
        symbol: &dyn Fn(&str) -> Option<(String, i64)>,
    ) -> Vec<DebugSection> {
        let list = std::mem::take(&mut self.list);
        let names: Vec<String> = list.iter().map(|s| s.0.clone()).collect();
        let mut out = Vec::new();
        for (name, mut bytes, words) in list {
            let mut refs = Vec::new();
            for w in words {
                let mut put = |value: i64| {
                    bytes[w.offset..w.offset + w.size].copy_from_slice(&value.to_le_bytes()[..w.size]);
                };
                if let Some(minus) = &w.minus {
                    put(self.distance(&w.name, minus, code).unwrap_or(0) + w.addend);
                    continue;
                }
                let target = if let Some(&(section, at)) = self.labels.get(&w.name) {
                    DebugTarget::Section(names[section].clone(), at as i64 + w.addend)
                } else if let Some(&label) = self.code.get(&w.name) {
                    let Some((symbol, at)) = self.place(label, code) else { continue };
                    DebugTarget::Symbol(symbol.to_string(), at as i64 + w.addend)
                } else if names.contains(&w.name) || w.name == ".debug_line" {
                    DebugTarget::Section(w.name.clone(), w.addend)
                } else if let Some(at) = memory(&w.name) {
                    put(at as i64 + w.addend);
                    continue;
                } else if let Some((symbol, at)) = symbol(&w.name) {
                    DebugTarget::Symbol(symbol, at + w.addend)
                } else {
                    continue;
                };
                // A symbol's address has 64 bits.
                if w.size == 8 || w.size == 4 && matches!(target, DebugTarget::Section(..)) {
                    refs.push(DebugRef { offset: w.offset as u64, size: w.size as u8, target });
                }
            }
            out.push(DebugSection { name, bytes, refs });
        }
        out
    }

    /// How far apart two labels of one section or of one function's code are.
    fn distance(&self, to: &str, from: &str, code: &[Placed]) -> Option<i64> {
        if let (Some(a), Some(b)) = (self.labels.get(to), self.labels.get(from)) {
            return (a.0 == b.0).then_some(a.1 as i64 - b.1 as i64);
        }
        let (a, b) = (self.place(*self.code.get(to)?, code)?, self.place(*self.code.get(from)?, code)?);
        (a.0 == b.0).then_some(a.1 as i64 - b.1 as i64)
    }
}

fn integer(word: &str) -> Option<u64> {
    let (negative, digits) = match word.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, word),
    };
    let value = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some(if negative { value.wrapping_neg() } else { value })
}

/// `name`, `name+12`, `name-other`.
fn reference(word: &str, offset: usize, size: usize) -> Word {
    let mut w = Word { offset, size, name: word.to_string(), minus: None, addend: 0 };
    if let Some((name, rest)) = word.split_once(['+', '-']) {
        let negative = word.as_bytes()[name.len()] == b'-';
        match integer(rest) {
            Some(n) => w.addend = if negative { (n as i64).wrapping_neg() } else { n as i64 },
            None if negative => w.minus = Some(rest.to_string()),
            None => return w,
        }
        w.name = name.to_string();
    }
    w
}

/// Where what the sections speak of lies in the code of a kernel or function.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Number of each function in the module, its first byte and the one behind its last.
    functions: Vec<(u32, u32, u32)>,
    lines: Vec<(u32, u32)>,
    /// Parameters and shared variables by name.
    memory: Vec<(String, u64)>,
}

impl Places {
    /// Of the code of `entry`, with where parameters begin in constant bank 0 and variables in shared memory.
    pub fn new(m: &Module, entry: FuncId, program: &Program, code: &Code, (params, shared_base): (u32, u32)) -> Places {
        let ranges = program.ids.iter().zip(&code.functions);
        let functions = ranges.map(|(id, f)| (id.0, f.offset, f.offset + f.size)).collect();
        let own = &m.funcs[entry.index()];
        let mut memory = Vec::new();
        if own.kind == FuncKind::Entry {
            let places = own.params.iter().zip(&program.params);
            memory.extend(places.map(|(v, at)| (m.vars[v.index()].name.clone(), (params + at).into())));
        }
        let shared = program.shared.offset.iter();
        memory.extend(shared.map(|&(v, at)| (m.vars[v.index()].name.clone(), (shared_base + at).into())));
        Places { functions, lines: code.lines.clone(), memory }
    }
}

/// The sections of an executable; `symbol` knows the names of its variables.
pub fn of_executable(
    m: &Module,
    code: &[(String, Places)],
    symbol: &dyn Fn(&str) -> Option<(String, i64)>,
) -> Vec<DebugSection> {
    let memory = |name: &str| code.iter().flat_map(|c| &c.1.memory).find(|x| x.0 == name).map(|x| x.1);
    resolve(m, code, &memory, symbol)
}

/// The sections of a relocatable file: variables of shared memory are symbols there, too.
pub fn of_object(
    m: &Module,
    code: &[(String, Places)],
    symbol: &dyn Fn(&str) -> Option<(String, i64)>,
) -> Vec<DebugSection> {
    let memory = |name: &str| {
        let all = code.iter().flat_map(|c| &c.1.memory);
        all.filter(|x| symbol(&x.0).is_none()).find(|x| x.0 == name).map(|x| x.1)
    };
    resolve(m, code, &memory, symbol)
}

fn resolve(
    m: &Module,
    code: &[(String, Places)],
    memory: &dyn Fn(&str) -> Option<u64>,
    symbol: &dyn Fn(&str) -> Option<(String, i64)>,
) -> Vec<DebugSection> {
    let placed: Vec<Placed> =
        code.iter().map(|(name, p)| Placed { symbol: name, functions: p.functions.clone(), lines: &p.lines }).collect();
    let mut out = Sections::new(m).resolve(&placed, memory, symbol);
    out.retain(|s| s.name != ".debug_str");
    // The vendor's files begin with what the others build on.
    out.sort_by_key(|s| s.name != ".debug_abbrev");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#".version 8.4
.target sm_90, debug
.address_size 64
.visible .entry k(.param .u64 p)
{
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
$begin:
	ld.param.u64 %rd1, [p];
$first:
	mov.u32 %r2, %tid.x;
$second:
	st.global.u32 [%rd1], %r2;
	ret;
$end:
}
.section .debug_info
{
.b32 .debug_abbrev
.b64 $begin
.b64 $second
.b64 $end
$here:
.b32 .debug_loc+133, $here
.b64 p
.b32 $end-$first
.b16 0x1234
.b8 -1
}
.section .debug_abbrev
{
.b8 1,2
}
"#;

    #[test]
    fn words_of_sections() {
        let (m, d) = ptx::parse(TEXT);
        assert!(!d.iter().any(diag::Diagnostic::is_error), "{d:?}");
        let at = |what: &str| TEXT.find(what).unwrap() as u32;
        let places = Places {
            functions: vec![(0, 0, 0x80)],
            // The load has no code, and the store stands before the read of the register.
            lines: vec![(0x10, at("st.global")), (0x20, at("mov.u32")), (0x30, at("ret"))],
            memory: vec![("p".into(), 0x210)],
        };
        let out = of_executable(&m, &[("k".into(), places)], &|_| None);
        assert_eq!((out[0].name.as_str(), out[0].bytes.as_slice()), (".debug_abbrev", &[1, 2][..]));
        let info = &out[1];
        let word = |at: usize, n: usize| info.bytes[at..at + n].iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
        assert_eq!((word(36, 8), word(44, 4), word(48, 2), word(50, 1)), (0x210, 0x60, 0x1234, 0xff));
        let of = |name: &str, at| DebugTarget::Section(name.into(), at);
        let code = |at| DebugTarget::Symbol("k".into(), at);
        let targets: Vec<(u64, DebugTarget)> = info.refs.iter().map(|r| (r.offset, r.target.clone())).collect();
        let expected = [
            (0, of(".debug_abbrev", 0)),
            (4, code(0)),
            (12, code(0x10)),
            (20, code(0x80)),
            (32, of(".debug_info", 28)),
        ];
        assert_eq!(targets, expected);
    }
}
