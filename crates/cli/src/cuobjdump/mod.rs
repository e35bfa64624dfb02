//! `cuobjdump`: what device code cubins, fatbins, host objects, programs and archives hold, with the vendor's options and text.

mod attributes;
mod code;
mod dwarf;
mod dwarf_names;
mod elf;
mod frame;
mod items;
mod lines;
mod symbols;
mod table;
mod usage;

use crate::options::{self, Parsed};
use crate::report;
use arch::{GpuKind, GpuName};
use cubin::elf::Elf;
use cubin::fatbin::Kind;
use diag::Severity;
use items::Item;
use std::path::Path;

const TOOL: &str = "cuobjdump";
/// Where a cubin in a fatbin comes from, if the fatbin does not say it.
const NAMELESS: &str = "x";
/// What the vendor's tool exits with where a file has no device code.
const NOTHING: u8 = 255;

fn fatal(message: &str) -> u8 {
    report::fatal(TOOL, message)
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
    if let Some(o) = parsed.without_effect(&table::OPTIONS) {
        return fatal(&format!("Option '{o}' is not supported yet"));
    }
    match run(&parsed) {
        Ok(code) => code,
        Err(message) => fatal(&message),
    }
}

fn run(parsed: &Parsed) -> Result<u8, String> {
    if let Some(arch) = parsed.get("gpu-architecture")
        && GpuName::parse(arch).is_none_or(|g| g.kind != GpuKind::Sm)
    {
        return Err(format!("Value '{arch}' is not defined for option 'gpu-architecture'"));
    }
    let file = &parsed.inputs[0];
    let here = std::env::current_dir().unwrap_or_default();
    let path = here.join(file).display().to_string();
    let bytes = std::fs::read(file).map_err(|_| format!("Could not open input file '{path}'"))?;
    let read = |file: &Path| file.is_file().then(|| std::fs::read(file).ok()).flatten();
    let all = parsed.has("all-fatbin");
    let mut found = items::find(&path, &bytes, all, &read).map_err(|m| format!("'{path}': {m}"))?;
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
    let (mut cubins, mut texts, mut functions) = (0, 0, 0);
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
        } else if parsed.has("list-text") || parsed.has("extract-text") {
            let from = match item.entry {
                None => stem.clone(),
                Some(_) => item.origin().unwrap_or(NAMELESS.into()),
            };
            code::files(parsed, item, &from, &mut functions)?;
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

/// What `-elf` and `-res-usage` print of a cubin.
///
/// # Errors
/// Where the bytes are no cubin or damaged.
pub fn print_bytes(bytes: &[u8]) -> Result<String, String> {
    let elf = Elf::read(bytes).map_err(|d| d.message)?;
    let all = code::Choice::default();
    Ok(usage::text(&elf, &all)? + &elf::text(&elf, "sm_0")?.0)
}

/// What `-all -elf -ptx -res-usage` prints of a file of any kind.
///
/// # Errors
/// Where the file or a cubin in it is damaged.
pub fn print_file(bytes: &[u8]) -> Result<String, String> {
    let mut out = String::new();
    for item in items::find("x", bytes, true, &|_| None)? {
        out.push_str(&item.heading());
        match item.kind {
            Kind::Elf => out.push_str(&print_bytes(&item.body)?),
            _ => out.push_str(&String::from_utf8_lossy(text(&item.body))),
        }
    }
    Ok(out)
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
        Kind::Ptx if parsed.has("dump-ptx") => {
            let indent = if item.group.is_some() { "\t" } else { "" };
            report::out(&format!("{indent}{}\n", String::from_utf8_lossy(text(&item.body))));
        }
        Kind::Elf => {
            let asked = |o: &str| parsed.has(o);
            if !["dump-resource-usage", "dump-sass", "dump-elf", "dump-elf-symbols"].into_iter().any(asked) {
                return Ok(());
            }
            let elf = Elf::read(&item.body).map_err(|d| d.message)?;
            let choice = code::Choice::of(parsed, &elf)?;
            if asked("dump-elf") {
                let (text, wrong) = elf::text(&elf, &item.target)?;
                report::out(&text);
                if !wrong.is_empty() {
                    return Err(format!("damaged debugging information: {}", wrong.join("; ")));
                }
            }
            if asked("dump-resource-usage") {
                report::out(&usage::text(&elf, &choice)?);
            }
            if asked("dump-sass") {
                code::list(&elf, &item.target, &choice)?;
            }
            if asked("dump-elf-symbols") {
                report::out(&symbols::list(&elf).map_err(|d| d.message)?);
            }
        }
        _ => {}
    }
    Ok(())
}
