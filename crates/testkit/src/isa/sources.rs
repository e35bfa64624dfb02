//! The files of the corpus before they are compiled: each kernel alone, or many of them in one module, as a run of the vendor's
//! tools takes a quarter of a second before it looks at its file.

use super::corpus::{Each, batch, corpus_entries, head, named, retargeted, run, statements, target_line};
use crate::Scratch;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A file of the corpus before it is compiled.
pub struct Source {
    /// What it is, with the level of optimization.
    pub name: String,
    level: u8,
    text: Content,
}

enum Content {
    /// A file of `tests/kernels`.
    Kernel(PathBuf),
    /// Instructions of `tests/isa`, each with a kernel around it.
    Snippets(Vec<String>),
    /// Many files of `tests/kernels`: what stands after the target, and their texts without head and with names of their own.
    Kernels(&'static str, Vec<String>),
}

/// All files of the corpus at these levels, for any target, each kernel of `tests/kernels` alone and a hundred
/// instructions of `tests/isa` in a file; nothing is compiled yet.
///
/// # Panics
/// If the corpus cannot be read.
pub fn sources(levels: &[u8]) -> Vec<Source> {
    let mut found = Vec::new();
    for path in paths() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.extend(levels.iter().map(|&level| Source {
            name: format!("{name} -O{level}"),
            level,
            text: Content::Kernel(path.clone()),
        }));
    }
    found.extend(instructions(levels, 100));
    found
}

/// The same kernels at these levels in as few files as may be: forty files of `tests/kernels` in one, a thousand instructions of `tests/isa`.
///
/// # Panics
/// If the corpus cannot be read.
pub fn modules(levels: &[u8]) -> Vec<Source> {
    let mut kinds: [(&str, Vec<String>); 2] = [("", Vec::new()), (", texmode_independent", Vec::new())];
    for path in paths() {
        let text = std::fs::read_to_string(&path).expect("readable");
        let kind = usize::from(text.lines().any(|l| l.trim_start().starts_with(".target") && l.contains(kinds[1].0)));
        kinds[kind].1.push(text);
    }
    let mut found = Vec::new();
    for (mode, texts) in kinds {
        for (n, texts) in texts.chunks(40).enumerate() {
            let pieces = apart(texts);
            found.extend(levels.iter().map(|&level| Source {
                name: format!("kernels{}-{n} -O{level}", mode.trim_start_matches(", ")),
                level,
                text: Content::Kernels(mode, pieces.clone()),
            }));
        }
    }
    found.extend(instructions(levels, 1000));
    found
}

/// The distinct words of the corpus (`tests/isa` and `tests/kernels`) compiled for `target` at these levels; of one file of
/// `modules` in `every` (1 for all). `more` are more lines of PTX, each for a kernel of its own.
///
/// # Panics
/// If the corpus cannot be read or ptxas cannot be run.
pub fn words(oracle: &Path, target: &str, levels: &[u8], every: usize, more: &[String]) -> Vec<u128> {
    let mut found = statements(oracle, target, levels, every, more);
    for source in modules(levels).iter().step_by(every) {
        source.compile(oracle, target, &mut |_, cubin| found.extend(super::code(cubin)));
    }
    found.into_iter().collect()
}

/// All kernels of `tests/kernels`.
fn paths() -> Vec<PathBuf> {
    let mut found = crate::corpus();
    found.extend(crate::files("tests/kernels/features", "ptx"));
    found
}

/// The instructions of `tests/isa`, so many to a file.
fn instructions(levels: &[u8], most: usize) -> Vec<Source> {
    let mut found = Vec::new();
    for (name, entries) in corpus_entries(1) {
        for (n, chunk) in entries.chunks(most).enumerate() {
            found.extend(levels.iter().map(|&level| Source {
                name: format!("{name}-{n} -O{level}"),
                level,
                text: Content::Snippets(chunk.to_vec()),
            }));
        }
    }
    found
}

impl Source {
    /// Compiles it; the cubins go to `each`: none where the target lacks what all of it uses, several where it is too much for one.
    ///
    /// # Panics
    /// If the file cannot be read or ptxas cannot be run.
    pub fn compile(&self, oracle: &Path, target: &str, each: Each) {
        let dir = Scratch::new("corpus");
        let (head, pieces) = match &self.text {
            Content::Kernel(path) => {
                let text = std::fs::read_to_string(path).expect("readable");
                if let Ok(cubin) = run(oracle, target, self.level, &retargeted(&text, target), &dir) {
                    each(&self.name, &cubin);
                }
                return;
            }
            Content::Snippets(entries) => (head(target), &named(entries)),
            Content::Kernels(mode, pieces) => {
                (format!(".version 9.3\n{}{mode}\n.address_size 64\n", target_line(target)), pieces)
            }
        };
        batch(oracle, target, &[self.level], &head, pieces, &dir, &mut |_, cubin| each(&self.name, cubin));
    }
}

/// Modules as pieces of one: without their heads, and a name that an earlier one has gets the number of the piece.
fn apart(texts: &[String]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let piece = |(n, text): (usize, &String)| {
        let head = |l: &&str| [".version", ".target", ".address_size"].iter().any(|h| l.trim_start().starts_with(h));
        let mut text: String = text.lines().filter(|l| !head(l)).flat_map(|l| [l, "\n"]).collect();
        for name in names(&text) {
            if !taken.insert(name.clone()) {
                text = renamed(&text, &name, &format!("{name}_{n}"));
            }
        }
        text
    };
    texts.iter().enumerate().map(piece).collect()
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_$%".contains(c)
}

/// What a module defines or declares outside of all braces.
fn names(text: &str) -> BTreeSet<String> {
    let mut outside = String::new();
    let mut depth = 0;
    for line in text.lines() {
        for c in line.split("//").next().unwrap_or("").chars() {
            depth -= i32::from(c == '}');
            match c {
                // A body ends a statement; values belong to a variable.
                '{' | '}' if depth == 0 => outside.push(';'),
                _ if depth == 0 => outside.push(c),
                _ => {}
            }
            depth += i32::from(c == '{');
        }
        outside.push('\n');
    }
    let words = |s: &str| -> Vec<String> {
        s.split(|c| !in_name(c) && c != '.').filter(|w| !w.is_empty()).map(String::from).collect()
    };
    let mut found = BTreeSet::new();
    for statement in outside.split(';') {
        // What a function returns stands in parentheses before its name.
        let statement = match statement.split_once(".func") {
            Some((_, after)) if after.trim_start().starts_with('(') => after.split_once(')').map_or("", |s| s.1),
            _ => statement,
        };
        let statement = statement.split(['(', '=']).next().unwrap_or("");
        for part in statement.split(',') {
            let name = words(part).into_iter().find(|w| !w.starts_with(|c: char| c == '.' || c.is_ascii_digit()));
            found.extend(name);
        }
    }
    found
}

/// The text with one name in place of another; words of instructions stay.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(from) {
        let (before, after) = (&rest[..at], &rest[at + from.len()..]);
        out.push_str(before);
        let part = before.ends_with(|c| in_name(c) || c == '.') || after.starts_with(|c| in_name(c) || c == '.');
        out.push_str(if part { from } else { to });
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_outside_of_functions() {
        let text = ".extern .shared .align 16 .b8 tile[];\n.global .align 4 .u32 a, b[2] = {1, 2}; // not this\n.const .u64 t[1] = {f};\n\
                    .func (.reg .b32 %o) twice (.reg .b32 %i) { .reg .b32 x; ret; }\n.visible .entry add(.param .u64 p) { ret; }\n";
        let found: Vec<String> = names(text).into_iter().collect();
        assert_eq!(found, ["a", "add", "b", "t", "tile", "twice"]);
    }

    #[test]
    fn a_name_that_is_taken_is_changed_where_it_stands() {
        let text = ".entry add() { add.s32 %add, %x, tile; mov.b64 %d, tile2; call add, (); }\n".to_string();
        let second = &apart(&[text.clone(), text])[1];
        assert_eq!(second, ".entry add_1() { add.s32 %add, %x, tile; mov.b64 %d, tile2; call add_1, (); }\n");
    }
}
