//! Line information: which line of the source and of the PTX text each instruction comes from.
//!
//! `.loc` holds for the instructions behind it up to the next one of the function. What it names as inlined hangs on the
//! last `.loc` of the same place before it.

use cubin::image::Debug;
use cubin::lines::write::{File, Inlined, Place};
use ptx::module::{Body, Function, Item, Module, Stmt};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Calls through which a place is followed: more of them are left out, the innermost stay.
const MAX_DEPTH: u32 = 64;

/// The places of a module.
pub struct Lines {
    /// Where the lines of the text begin.
    starts: Vec<u32>,
    /// Where each instruction begins, rising, and one more than its place; 0 for one before every `.loc`.
    insts: Vec<(u32, u32)>,
    places: Vec<Place>,
    /// What the file says about the sources.
    pub debug: Debug,
}

impl Lines {
    /// Of a module and the text it was read from.
    pub fn new(m: &Module, text: &[u8]) -> Lines {
        let (strings, labels) = strings(m);
        let files = m.files.iter().map(|f| {
            let (time, size) = f.stamp.unwrap_or_default();
            File { path: f.name.clone(), time, size }
        });
        let mut starts = vec![0];
        let ptx = ptx_text(text, &mut starts);
        let debug = Debug { files: files.collect(), strings, ptx, sections: Vec::new() };
        let mut lines = Lines { starts, insts: Vec::new(), places: Vec::new(), debug };
        m.funcs.iter().for_each(|f| lines.function(m, f, &labels));
        lines.insts.sort_unstable();
        lines
    }

    fn function(&mut self, m: &Module, f: &Function, labels: &FxHashMap<String, u32>) {
        let Some(body) = f.body.as_ref().map(Body::unpacked) else { return };
        // The last place of each file, line and column, and how many calls it came through.
        let mut last: FxHashMap<(u32, u32, u32), (u32, u32)> = FxHashMap::default();
        // Where nothing is inlined nobody asks for it.
        let mut locs = body.stmts().filter_map(|s| if let Stmt::Loc(id) = s { Some(body.loc(id)) } else { None });
        let asked = locs.any(|l| l.inlined.is_some());
        let mut here = 0;
        for s in body.stmts() {
            match s {
                Stmt::Inst(id) => self.insts.push((body.inst(id).span.start, here)),
                Stmt::Loc(id) => {
                    let l = body.loc(id);
                    let file = m.files.iter().position(|f| f.index == l.file).map_or(0, |n| n as u32 + 1);
                    let call = l.inlined.as_deref().and_then(|i| {
                        let &(at, depth) = last.get(&i.at).filter(|(_, depth)| *depth < MAX_DEPTH)?;
                        let at = self.places[at as usize].clone();
                        let name = labels.get(&i.function).copied().unwrap_or(0);
                        let function = name.wrapping_add(i.offset as u32);
                        Some((Arc::new(Inlined { function, at }), depth + 1))
                    });
                    let depth = call.as_ref().map_or(0, |c| c.1);
                    let place = Place { file, line: l.line, inlined: call.map(|c| c.0) };
                    if asked {
                        last.insert((l.file, l.line, l.column), (self.places.len() as u32, depth));
                    }
                    self.places.push(place);
                    here = self.places.len() as u32;
                }
                _ => {}
            }
        }
    }

    /// Of code whose instructions come from these bytes of the text (one entry a change): the places in the sources, and those
    /// in the PTX text.
    pub fn of(&self, code: &[(u32, u32)]) -> [Vec<(u64, Place)>; 2] {
        let mut out = [Vec::new(), Vec::new()];
        for &(at, from) in code {
            let inst = self.insts.partition_point(|i| i.0 <= from).checked_sub(1).map_or(0, |i| self.insts[i].1);
            let source = (inst as usize).checked_sub(1).map(|i| self.places[i].clone()).filter(|p| p.file != 0);
            let line = self.starts.partition_point(|&s| s <= from) as u32;
            let text = Some(Place { file: 0, line, inlined: None });
            for (list, place) in out.iter_mut().zip([source, text]) {
                let Some(place) = place else { continue };
                // What stands before the first place belongs to it.
                let at = if list.is_empty() { 0 } else { at.into() };
                if list.last().is_none_or(|(_, p): &(u64, Place)| *p != place) {
                    list.push((at, place));
                }
            }
        }
        out
    }
}

/// Does a module carry debugging information? Then its lines are wanted without being asked for.
pub fn has_sections(m: &Module) -> bool {
    m.items.iter().any(|i| matches!(i, Item::Section { name, .. } if name.starts_with(".debug_")))
}

/// What bytes say, read as text.
fn number(bytes: &[u8], read: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    std::str::from_utf8(bytes).ok().and_then(read)
}

/// The bytes of `.debug_str`, and where its labels stand in them.
fn strings(m: &Module) -> (Vec<u8>, FxHashMap<String, u32>) {
    let mut bytes = Vec::new();
    let mut labels = FxHashMap::default();
    for item in &m.items {
        let Item::Section { name, body } = item else { continue };
        if name != ".debug_str" {
            continue;
        }
        let mut size = 1;
        let lines = body.as_bytes().split(|&b| b == b'\n').map(|l| match memchr::memchr(b'/', l) {
            Some(n) => l.windows(2).skip(n).position(|w| w == b"//").map_or(l, |more| &l[..n + more]),
            None => l,
        });
        for word in lines.flat_map(|l| l.split(|b| matches!(b, b' ' | b'\t' | b',' | b'\r'))).filter(|w| !w.is_empty())
        {
            let number = match word {
                // Most are the bytes of strings.
                [b'0'..=b'9'] | [b'0'..=b'9', b'0'..=b'9'] | [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
                    Some(word.iter().fold(0, |n, b| n * 10 + u64::from(b - b'0')))
                }
                [b'0', b'x', hex @ ..] => number(hex, |t| u64::from_str_radix(t, 16).ok()),
                _ => number(word, |t| t.parse::<u64>().ok().or(t.parse::<i64>().ok().map(|n| n as u64))),
            };
            match (word, number) {
                (b".b8", _) => size = 1,
                (b".b16", _) => size = 2,
                (b".b32", _) => size = 4,
                (b".b64", _) => size = 8,
                (_, Some(n)) => bytes.extend_from_slice(&n.to_le_bytes()[..size]),
                (label, None) => {
                    if let Some(label) = label.strip_suffix(b":") {
                        labels.insert(String::from_utf8_lossy(label).into_owned(), bytes.len() as u32);
                    }
                }
            }
        }
    }
    (bytes, labels)
}

/// The lines of the text as the vendor's tool keeps them: without blanks in front; of comments, `.file`, `.loc` and the
/// bytes of sections only the empty line stays, so that numbers still fit. Adds to `starts` where each line but the first begins.
fn ptx_text(text: &[u8], starts: &mut Vec<u32>) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let clean = memchr::memchr(0, text).is_none();
    let mut from = 0;
    for end in memchr::memchr_iter(b'\n', text).chain([text.len()]) {
        let last = end == text.len();
        if !last {
            starts.push(end as u32 + 1);
        } else if from == end && from > 0 {
            // Nothing stands behind the last end of a line.
            break;
        }
        let line = &text[from..end];
        from = end + 1;
        let line = line.strip_suffix(b"\r").unwrap_or(line).trim_ascii_start();
        let left_out = match line {
            [b'/', b'/', ..] => true,
            [b'.', rest @ ..] => {
                let word = |name: &[u8]| {
                    rest.strip_prefix(name).is_some_and(|r| r.first().is_none_or(u8::is_ascii_whitespace))
                };
                match rest.first() {
                    Some(b'l') => word(b"loc"),
                    Some(b'b') => [&b"b8"[..], b"b16", b"b32", b"b64"].into_iter().any(word),
                    Some(b'f') => word(b"file"),
                    _ => false,
                }
            }
            _ => false,
        };
        if left_out {
        } else if clean {
            out.extend_from_slice(line);
        } else {
            out.extend(line.iter().copied().filter(|&b| b != 0));
        }
        out.push(0);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#".version 8.4
.target sm_90
.address_size 64
.file 1 "/src/a.cu"
.file 2 "/inc/b.h", 1700000000, 1234
.visible .entry k(.param .u64 p)
{
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [p];
	.loc 1 12 7
	mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y;
	.loc 2 300 9, function_name $name, inlined_at 1 12 7
	add.u32 %r3, %r2, %r3;
	.loc 2 301 9, function_name $name+1, inlined_at 2 300 9
	.local .b32 x;
	st.global.u32 [%rd1], %r3;
}
.section .debug_str {
.b8 0
$name: // the name of it
 .b8 95,90
.b8 0
}
"#;

    #[test]
    fn places_of_instructions() {
        let (m, diagnostics) = ptx::parse(TEXT);
        assert!(!diagnostics.iter().any(diag::Diagnostic::is_error), "{diagnostics:?}");
        assert!(has_sections(&m));
        let lines = Lines::new(&m, TEXT.as_bytes());
        assert_eq!(lines.debug.strings, [0, 95, 90, 0]);
        assert_eq!(lines.debug.files[1], File { path: "/inc/b.h".into(), time: 1_700_000_000, size: 1234 });
        let at = |what: &str| TEXT.find(what).unwrap() as u32;
        let starts = [at("ld.param"), at("mov.u32 %r3"), at("add.u32"), at("mov.u32 %r2"), at("st.global")];
        let code: Vec<(u32, u32)> = starts.iter().enumerate().map(|(i, &s)| (0x10 + 16 * i as u32, s)).collect();
        let [source, ptx] = lines.of(&code);
        let call = |file, line, function, at| Place { file, line, inlined: Some(Arc::new(Inlined { function, at })) };
        let own = Place { file: 1, line: 12, inlined: None };
        let inner = call(2, 300, 1, own.clone());
        let expected = [(0, own.clone()), (0x30, inner.clone()), (0x40, own), (0x50, call(2, 301, 2, inner))];
        assert_eq!(source, expected);
        let numbers: Vec<(u64, u32)> = ptx.iter().map(|(a, p)| (*a, p.line)).collect();
        assert_eq!(numbers, [(0, 10), (0x20, 12), (0x30, 14), (0x40, 12), (0x50, 17)]);
        let text = String::from_utf8(lines.debug.ptx.clone()).unwrap();
        let kept: Vec<&str> = text.split('\0').collect();
        assert_eq!(kept.len(), TEXT.lines().count() + 1);
        assert_eq!(kept[3..6], ["", "", ".visible .entry k(.param .u64 p)"]);
        assert_eq!(kept[15], ".local .b32 x;");
        assert_eq!(kept[18..], [".section .debug_str {", "", "$name: // the name of it", "", "", "}", ""]);
    }

    /// A chain of calls of any length takes bounded room.
    #[test]
    fn long_chains_are_cut() {
        let mut text =
            String::from(".version 8.4\n.target sm_90\n.address_size 64\n.file 1 \"a\"\n.entry k() {\n.loc 1 1 1\n");
        for n in 2..5000 {
            text += &format!(".loc 1 {n} 1, function_name f, inlined_at 1 {} 1\n", n - 1);
        }
        text += "ret;\n}\n";
        let (m, diagnostics) = ptx::parse(&text);
        assert!(!diagnostics.iter().any(diag::Diagnostic::is_error), "{diagnostics:?}");
        let lines = Lines::new(&m, text.as_bytes());
        let [source, _] = lines.of(&[(0, text.find("ret").unwrap() as u32)]);
        let mut depth = 0;
        let mut place = &source[0].1;
        while let Some(call) = &place.inlined {
            (place, depth) = (&call.at, depth + 1);
        }
        assert!(depth <= MAX_DEPTH, "{depth}");
    }
}
