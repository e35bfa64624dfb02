//! Listings of whole code sections against what the vendor's nvdisasm prints for the same file.

mod common;

use common::compile;
use sass::text::listing::{Binding, Field, File, Function, Options, Relocation, Section, listing};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Just enough of ELF to hand a cubin's code to the listing.
struct Elf<'a>(&'a [u8]);

impl<'a> Elf<'a> {
    fn int(&self, at: usize, bytes: usize) -> usize {
        self.0[at..at + bytes].iter().rev().fold(0, |n, b| n << 8 | *b as usize)
    }

    fn count(&self) -> usize {
        self.int(0x3c, 2)
    }

    fn header(&self, n: usize) -> usize {
        self.int(0x28, 8) + 64 * n
    }

    fn data(&self, n: usize) -> &'a [u8] {
        &self.0[self.int(self.header(n) + 24, 8)..][..self.int(self.header(n) + 32, 8)]
    }

    fn string(&self, table: usize, at: usize) -> String {
        let bytes = self.data(table)[at..].split(|b| *b == 0).next().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    fn name(&self, n: usize) -> String {
        self.string(self.int(0x3e, 2), self.int(self.header(n), 4))
    }

    fn find(&self, name: &str) -> Option<usize> {
        (0..self.count()).find(|&n| self.name(n) == name)
    }
}

fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, b| n << 8 | *b as u64)
}

/// The attributes that list offsets: all of them in order, and the tables of indirect branches.
fn attributes(info: &[u8], section: &mut Section) {
    let mut at = 0;
    while at + 4 <= info.len() {
        let (format, code, size) = (info[at], info[at + 1], little(&info[at + 2..at + 4]) as usize);
        let value = if format == 4 { &info[at + 4..at + 4 + size] } else { &[] };
        at += 4 + value.len();
        let words: Vec<u64> = value.chunks_exact(4).map(little).collect();
        match code {
            0x1c | 0x28 | 0x31 | 0x46 => section.marks.extend(words),
            // Each with a mask of bytes.
            0x44 => section.marks.extend(words.chunks_exact(2).map(|pair| pair[0])),
            0x39 => section.marks.extend(words.chunks_exact(4).map(|record| record[0])),
            0x34 => {
                // Offset, a 16-bit 0 and a 16-bit 0, count, targets.
                let mut words = words.as_slice();
                while let [branch, _, count, rest @ ..] = words {
                    let (targets, rest) = rest.split_at(*count as usize);
                    section.marks.push(*branch);
                    section.marks.extend(targets);
                    section.branches.push((*branch, targets.to_vec()));
                    words = rest;
                }
            }
            _ => {}
        }
    }
}

fn file(bytes: &[u8]) -> File {
    let elf = Elf(bytes);
    let mut file = File { sm: 90, relocatable: elf.int(16, 2) == 1, ..File::default() };
    let texts: Vec<usize> = (0..elf.count()).filter(|&n| elf.name(n).starts_with(".text.")).collect();
    let symbols = elf.find(".symtab").expect("a symbol table");
    let strings = elf.find(".strtab").expect("a string table");
    let mut function_of = std::collections::HashMap::new();
    let entries = elf.data(symbols).chunks_exact(24);
    let names: Vec<String> = entries.clone().map(|s| elf.string(strings, little(&s[..4]) as usize)).collect();
    for (n, symbol) in entries.enumerate() {
        let section = texts.iter().position(|t| *t as u64 == little(&symbol[6..8]));
        if let (2, Some(section)) = (symbol[4] & 15, section) {
            function_of.insert(n, file.functions.len());
            file.functions.push(Function {
                name: names[n].clone(),
                section,
                offset: little(&symbol[8..16]),
                size: little(&symbol[16..24]),
                binding: [Binding::Local, Binding::Global, Binding::Weak][(symbol[4] >> 4) as usize],
                entry: symbol[5] & 0x10 != 0,
            });
        }
    }
    for &text in &texts {
        let name = elf.name(text);
        let mut section = Section {
            align: elf.int(elf.header(text) + 48, 8) as u64,
            words: elf.data(text).chunks_exact(16).map(|c| u128::from_le_bytes(c.try_into().expect("16"))).collect(),
            ..Section::default()
        };
        if let Some(info) = elf.find(&format!(".nv.info{}", &name[5..])) {
            attributes(elf.data(info), &mut section);
        }
        if let (true, Some(table)) = (file.relocatable, elf.find(&format!(".nv.constant2.{}", &name[6..]))) {
            section.tables = elf.data(table).chunks_exact(4).map(little).collect();
        }
        for entry in elf.find(&format!(".rela{name}")).map_or(&[][..], |n| elf.data(n)).chunks_exact(24) {
            let symbol = little(&entry[12..16]) as usize;
            section.relocations.extend(Field::of_type(little(&entry[8..12]) as u32).map(|field| Relocation {
                offset: little(&entry[..8]),
                field,
                symbol: names[symbol].clone(),
                function: function_of.get(&symbol).copied(),
                addend: little(&entry[16..24]) as i64,
            }));
        }
        section.name = name;
        file.sections.push(section);
    }
    file
}

fn nvdisasm(oracle: &Path, args: &[&str], cubin: &Path) -> String {
    let out = Command::new(oracle.join("bin/nvdisasm")).args(args).arg(cubin).output().expect("nvdisasm runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

/// The parts of nvdisasm's output that are code sections.
fn code_sections(output: &str) -> Vec<&str> {
    let starts: Vec<usize> = output.match_indices("//--------------------- .").map(|m| m.0).collect();
    let symbols = output.find("//--------------------- SYMBOLS").unwrap_or(output.len());
    let ends = starts.iter().skip(1).copied().chain([symbols]);
    let parts = starts.iter().zip(ends).map(|(&from, to)| &output[from..to]);
    parts.filter(|p| p.starts_with("//--------------------- .text.")).collect()
}

/// Compares, and says at which line the first section differs.
fn compare(cubin: &[u8], theirs: &str, options: Options) -> Result<usize, String> {
    let ours = listing(&file(cubin), options);
    let theirs = code_sections(theirs);
    if ours.len() != theirs.len() {
        return Err(format!("{} sections, not {}", ours.len(), theirs.len()));
    }
    for (ours, theirs) in ours.iter().zip(theirs) {
        let (mut a, mut b) = (ours.lines(), theirs.trim_end().lines());
        loop {
            match (a.next(), b.next()) {
                (None, None) => break,
                (a, b) if a == b => {}
                (a, b) => return Err(format!("\n{a:?}, not\n{b:?}")),
            }
        }
    }
    Ok(ours.len())
}

/// Every way of printing one source: compiled by each release, and by the latest as an object to be linked. Gives how many
/// sections are the same, and what differs.
fn one(oracles: &[PathBuf], n: usize, source: &Path, dir: &Path) -> (usize, Vec<String>) {
    let cubin = dir.join(format!("{n}.cubin"));
    let (mut sections, mut wrong) = (0, Vec::new());
    let runs = oracles.iter().map(|o| (o, "-O3")).chain(oracles.first().map(|o| (o, "-c")));
    for (run, (oracle, option)) in runs.enumerate() {
        if !compile(oracle, source, &[option], &cubin) {
            continue;
        }
        let bytes = std::fs::read(&cubin).expect("readable");
        let mut ways = vec![(vec!["-hex", "-c"], Options { hex: true, ..Options::default() })];
        // The other ways of printing share all but the columns: each for a part of the files.
        if run == 0 {
            match n % 3 {
                0 => ways.push((vec!["-c"], Options::default())),
                1 => ways.push((vec![], Options::default())),
                _ => ways.push((vec!["-c", "-raw"], Options { raw: true, ..Options::default() })),
            }
        }
        for (args, options) in ways {
            match compare(&bytes, &nvdisasm(&oracles[0], &args, &cubin), options) {
                Ok(count) => sections += count,
                Err(what) => {
                    wrong.push(format!("{} by {} {option} {args:?}: {what}", source.display(), oracle.display()))
                }
            }
        }
    }
    let _ = std::fs::remove_file(cubin);
    (sections, wrong)
}

#[test]
fn corpus_is_listed_as_the_vendor_lists_it() {
    let oracles = testkit::oracle::releases();
    if oracles.is_empty() {
        return;
    }
    let dir = testkit::Scratch::new("listing");
    // Each kernel costs several runs of nvdisasm: every third one, which are other ones in the four ways of calling it.
    let sources: Vec<_> = testkit::corpus().into_iter().step_by(3).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut sections, mut wrong) = (0, Vec::new());
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(source) = sources.get(n) else { return (sections, wrong) };
            let (count, more) = one(&oracles, n, source, &dir);
            sections += count;
            wrong.extend(more);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let results: Vec<(usize, Vec<String>)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|r| r.join().expect("no panic")).collect()
    });
    let sections: usize = results.iter().map(|r| r.0).sum();
    let wrong: Vec<String> = results.into_iter().flat_map(|r| r.1).collect();
    eprintln!("{sections} sections compared");
    assert!(sections >= 3 * sources.len(), "only {sections} sections");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(10)].join("\n"));
}
