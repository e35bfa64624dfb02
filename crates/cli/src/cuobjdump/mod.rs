//! `cuobjdump`: what device code cubins, fatbins, host objects, programs and archives hold, with the vendor's options and text.

mod items;
mod symbols;
mod table;

use crate::options::{self, Parsed};
use crate::report;
use cubin::elf::Elf;
use cubin::fatbin::Kind;
use diag::Severity;
use items::Item;
use std::path::Path;

const TOOL: &str = "cuobjdump";
/// What the vendor's tool exits with where a file has no device code.
const NOTHING: u8 = 255;

fn fatal(message: &str) -> u8 {
    report::plain(TOOL, Severity::Fatal, message);
    1
}

/// Runs the tool; gives the exit code.
pub fn main(args: &[String]) -> u8 {
    let parsed = match options::parse(&table::OPTIONS, args, &|file| std::fs::read_to_string(file).ok()) {
        Ok(parsed) => parsed,
        Err(message) => return fatal(&message),
    };
    if parsed.has("version") {
        report::out(&crate::ptxas::version(TOOL, "fatbinary object dump utility"));
        return 0;
    }
    if parsed.has("help") || parsed.inputs.len() != 1 {
        report::out(&options::help("cuobjdump [options] <file>", &table::OPTIONS, &|_| None));
        return 0;
    }
    if let Some(o) = parsed.given.iter().find(|g| table::OPTIONS.iter().any(|o| o.long == **g && !o.works)) {
        return fatal(&format!("Option '{o}' is not supported yet"));
    }
    match run(&parsed) {
        Ok(code) => code,
        Err(message) => fatal(&message),
    }
}

fn run(parsed: &Parsed) -> Result<u8, String> {
    let file = &parsed.inputs[0];
    let here = std::env::current_dir().unwrap_or_default();
    let path = here.join(file).display().to_string();
    let bytes = std::fs::read(file).map_err(|_| format!("Could not open input file '{path}'"))?;
    let mut found = items::find(&path, &bytes, parsed.has("all-fatbin")).map_err(|m| format!("'{path}': {m}"))?;
    if found.is_empty() {
        report::plain(TOOL, Severity::Info, &format!("File '{path}' does not contain device code"));
        return Ok(NOTHING);
    }
    if let Some(arch) = parsed.get("gpu-architecture") {
        // A cubin that is a file of its own is shown whatever it is for.
        found.retain(|i| i.entry.is_none() || i.target == arch);
    }
    let stem = Path::new(file).file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let mut member = None;
    // Cubins and PTX are counted apart.
    let (mut cubins, mut texts) = (0, 0);
    for item in &found {
        if item.member != member {
            member.clone_from(&item.member);
            report::out(&format!("\nmember {}:\n", member.as_deref().unwrap_or_default()));
        }
        let (number, ending) = match item.kind {
            Kind::Elf => (&mut cubins, "cubin"),
            Kind::Ptx => (&mut texts, "ptx"),
            _ => (&mut 0, "nvvm"),
        };
        *number += 1;
        let name = match (&item.entry, item.origin()) {
            (_, Some(origin)) => format!("{origin}.{}.{ending}", item.target),
            (Some(_), None) => format!("{stem}.{number}.{}.{ending}", item.target),
            (None, None) => format!("{stem}.{}.{ending}", item.target),
        };
        if parsed.has("extract-elf") || parsed.has("extract-ptx") {
            extract(parsed, item, *number, &name)?;
        } else if parsed.has("list-elf") || parsed.has("list-ptx") {
            let (option, what) = if item.kind == Kind::Ptx { ("list-ptx", "PTX") } else { ("list-elf", "ELF") };
            if parsed.has(option) && matches!(item.kind, Kind::Elf | Kind::Ptx) {
                report::out(&format!("{what} file {number:>4}: {name}\n"));
            }
        } else {
            dump(parsed, item)?;
        }
    }
    for (option, extraction, what, kind) in
        [("list-elf", "extract-elf", "ELF", Kind::Elf), ("list-ptx", "extract-ptx", "PTX", Kind::Ptx)]
    {
        let asked = parsed.has(option) || parsed.has(extraction);
        if asked && !found.iter().any(|i| i.kind == kind) {
            let m = format!("No {what} file found to extract from '{path}'. You may try with -all option.");
            report::plain(TOOL, Severity::Info, &m);
        }
    }
    Ok(0)
}

/// Writes an item to a file in the current folder if it is wanted.
fn extract(parsed: &Parsed, item: &Item, number: usize, name: &str) -> Result<(), String> {
    let option = match item.kind {
        Kind::Elf => "extract-elf",
        Kind::Ptx => "extract-ptx",
        _ => return Ok(()),
    };
    let wanted = parsed.values.get(option).is_some_and(|l| l.iter().any(|w| w == "all" || name.contains(w.as_str())));
    if !wanted {
        return Ok(());
    }
    let body = match item.kind {
        Kind::Ptx => text(&item.body),
        _ => &item.body,
    };
    crate::files::write(Path::new(name), body).map_err(|e| format!("Could not open output file '{name}': {e}"))?;
    report::out(&match item.kind {
        Kind::Ptx => {
            let target = item.target.trim_start_matches("sm_");
            format!("Extracting PTX file and ptxas options {number:>4}: {name} -arch=sm_{target} {}\n", item.options())
        }
        _ => format!("Extracting ELF file {number:>4}: {name}\n"),
    });
    Ok(())
}

/// PTX without the zero byte at its end.
fn text(body: &[u8]) -> &[u8] {
    let end = body.iter().position(|&b| b == 0).unwrap_or(body.len());
    &body[..end]
}

/// Prints what an item is, and what of it was asked for.
fn dump(parsed: &Parsed, item: &Item) -> Result<(), String> {
    report::out(&item.heading());
    match item.kind {
        Kind::Ptx if parsed.has("dump-ptx") => report::out(&format!("{}\n", String::from_utf8_lossy(text(&item.body)))),
        Kind::Elf => {
            if parsed.has("dump-sass") {
                sass(parsed, item)?;
            }
            if parsed.has("dump-elf-symbols") {
                let elf = Elf::read(&item.body).map_err(|d| d.message)?;
                report::out(&symbols::list(&elf).map_err(|d| d.message)?);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Names of sections with code begin so.
const TEXT: &str = ".text.";

/// Prints the machine code of a cubin, function by function.
fn sass(parsed: &Parsed, item: &Item) -> Result<(), String> {
    let elf = Elf::read(&item.body).map_err(|d| d.message)?;
    let sm = elf.sm();
    let code = |s: &&cubin::elf::Section| s.name.starts_with(TEXT);
    let functions: Vec<(&str, &[u8])> =
        elf.sections.iter().filter(code).map(|s| (&s.name[TEXT.len()..], s.data.as_slice())).collect();
    let chosen = parsed.values.get("function");
    for f in chosen.into_iter().flatten().filter(|f| !functions.iter().any(|x| x.0 == **f)) {
        report::plain(TOOL, Severity::Warning, &format!("Function listed in --function '{f}' not found"));
    }
    let accelerated = if item.target.ends_with('a') { "EF_CUDA_ACCELERATORS " } else { "" };
    let flags = format!("EF_CUDA_SM{sm} EF_CUDA_VIRTUAL_SM(EF_CUDA_SM{})", virtual_sm(&elf).unwrap_or(sm));
    let mut out = format!("\n\tcode for {}\n", item.target);
    if chosen.is_none() {
        out.push_str(&format!("\t.target\t{}\n\n", item.target));
    }
    // Addresses are numbers here, as in a listing of bare words.
    let list = |words: &[u8]| crate::nvdisasm::print_bytes(words, &["-b", &format!("SM{sm}"), "-hex"]);
    let mut parts = Vec::new();
    for (f, words) in functions {
        if chosen.is_none_or(|c| c.iter().any(|n| n == f)) {
            parts.push((f, list(words)?));
        }
    }
    // Encodings stand in one column for all functions of the file.
    const ENCODING: &str = "/* 0x";
    let column = |listing: &str| listing.lines().filter_map(|l| l.rfind(ENCODING)).max().unwrap_or(0);
    let widest = parts.iter().map(|p| column(&p.1)).max().unwrap_or(0);
    for (f, listing) in parts {
        out.push_str(&format!("\t\tFunction : {f}\n"));
        // With a choice of functions the vendor's tool says it twice, and that addresses have 64 bits.
        match chosen {
            None => out.push_str(&format!("\t.headerflags\t@\"{accelerated}{flags}\"\n")),
            Some(_) => {
                let line = format!("\t.headerflags\t@\"EF_CUDA_64BIT_ADDRESS {accelerated}{flags}\"\n");
                out.push_str(&line.repeat(2));
            }
        }
        let more = if chosen.is_none() { widest - column(&listing) } else { 0 };
        for l in listing.lines().filter(|l| l.trim_start().starts_with("/*")) {
            let (text, encoding) = l.split_at(l.rfind(ENCODING).unwrap_or(l.len()));
            out.push_str(&format!("{text}{}{encoding}\n", " ".repeat(more)));
        }
        out.push_str("\t\t..........\n\n\n");
    }
    report::out(&out);
    Ok(())
}

/// The SM of the PTX target, from `.note.nv.cuinfo`.
fn virtual_sm(elf: &Elf) -> Option<u16> {
    const BEHIND_NAME: usize = 24;
    let (_, note) = elf.section(".note.nv.cuinfo")?;
    note.data.get(BEHIND_NAME + 2..BEHIND_NAME + 4).map(|b| u16::from_le_bytes([b[0], b[1]]))
}
