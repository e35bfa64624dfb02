//! The small commands: `check`, `lint`, `cubin-diff`, `link-diff`.

use crate::report::{self, Style, fail};
use cubin::attr::{self, Attr};
use cubin::elf::{ET_REL, Elf};
use cubin::load::{Loaded, LoadedKernel};
use diag::Diagnostic;
use diag::render::Source;
use sass::lint::CfgHints;
use std::time::Instant;

/// The value of `--name`, and the arguments that are left; an error for an option without a value.
pub(crate) fn take(args: &mut Vec<String>, name: &str) -> Result<Option<String>, String> {
    let mut found = None;
    while let Some(i) = args.iter().position(|a| a == name || a.starts_with(&format!("{name}="))) {
        let arg = args.remove(i);
        found = match arg.split_once('=') {
            Some((_, value)) => Some(value.to_string()),
            None if i < args.len() => Some(args.remove(i)),
            None => return Err(format!("{name} takes a value")),
        };
    }
    Ok(found)
}

/// The only argument that is left.
pub(crate) fn only(args: &[String], what: &str) -> Result<String, String> {
    match args {
        [one] if !one.starts_with("--") => Ok(one.clone()),
        [] => Err(format!("{what} is missing")),
        [.., last] => {
            Err(format!("unexpected argument '{}'", args.iter().find(|a| a.starts_with("--")).unwrap_or(last)))
        }
    }
}

pub(crate) fn read(path: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|e| format!("cannot read '{path}': {e}"))
}

/// `sassafras check FILE.ptx [--arch sm_90] [--diagnostics STYLE] [--time]`: 1 if the file has an error.
pub(crate) fn check(args: &[String]) -> u8 {
    let run = || -> Result<u8, String> {
        let mut args = args.to_vec();
        let style = match take(&mut args, "--diagnostics")? {
            Some(s) => {
                Style::parse(&s).ok_or_else(|| format!("--diagnostics takes vendor, pretty or json, not '{s}'"))?
            }
            None => Style::Pretty,
        };
        let target = match take(&mut args, "--arch")? {
            Some(a) => Some(arch::Target::parse(&a).ok_or_else(|| format!("unknown target '{a}'"))?),
            None => None,
        };
        let time = args.iter().position(|a| a == "--time").map(|i| args.remove(i)).is_some();
        let path = only(&args, "the file to check")?;
        let text = read(&path)?;
        let source = Source::new(path, &text);
        let start = Instant::now();
        let (module, mut list) = ptx::parse_bytes(&text);
        let parsed = start.elapsed();
        if !list.iter().any(Diagnostic::is_error) {
            list.extend(ptx::check(&module, target.as_ref()));
        }
        let checked = start.elapsed() - parsed;
        for d in &list {
            report::show("sassafras", d, &source, style);
        }
        if time {
            report::err(&format!("{} {} {}\n", text.len(), parsed.as_secs_f64(), checked.as_secs_f64()));
        }
        Ok(list.iter().any(Diagnostic::is_error) as u8)
    };
    run().unwrap_or_else(|m| fail(&m))
}

/// The hazards in the code of a cubin, a line each.
///
/// # Errors
/// If the file is no cubin, or for a machine that is not known.
pub fn hazards(bytes: &[u8]) -> Result<Vec<String>, String> {
    let elf = Elf::read(bytes).map_err(|d| d.message)?;
    let sm = elf.sm() & 0xfff;
    let functions = match elf.header.kind {
        ET_REL => linkable(&elf).map_err(|d| d.message)?,
        _ => kernels(&elf).map_err(|d| d.message)?,
    };
    if arch::bank0(sm).is_none() {
        return Err(format!("the hazard checker does not know sm_{sm}"));
    }
    let mut found = Vec::new();
    for f in &functions {
        let stated = sass::lint::Stated {
            // A kernel that takes registers from others while it runs states what it begins with.
            registers: f.registers.filter(|_| !reconfigures(&elf, &f.name)),
            barriers: Some(barriers(&elf, &f.name).max(f.barriers)),
        };
        let stated = sass::lint::check_stated(&f.words, sm, &stated);
        for hazard in sass::lint::check(&f.words, sm, &f.hints).into_iter().chain(stated) {
            found.push(format!("{}+{:#06x}: {}", f.name, hazard.offset, hazard.message));
        }
    }
    Ok(found)
}

/// A section of code as the hazard checker takes it.
struct Code {
    name: String,
    words: Vec<u128>,
    registers: Option<u32>,
    barriers: u32,
    hints: CfgHints,
}

fn branches(list: &[(u32, Vec<u32>)]) -> Vec<(u64, Vec<u64>)> {
    list.iter().map(|(at, to)| (*at as u64, to.iter().map(|&t| t as u64).collect())).collect()
}

/// The kernels of an executable file.
fn kernels(elf: &Elf) -> Result<Vec<Code>, Diagnostic> {
    let code = |k: &LoadedKernel| Code {
        name: k.name.clone(),
        words: k.words(),
        registers: Some(k.regs),
        barriers: k.barriers,
        hints: CfgHints {
            entries: k.functions.iter().map(|f| f.1 as u64).collect(),
            indirect: branches(&k.indirect_branches),
            elsewhere: Vec::new(),
        },
    };
    Ok(Loaded::load(elf)?.kernels.iter().map(code).collect())
}

/// The kernels and functions of a file to be linked.
fn linkable(elf: &Elf) -> Result<Vec<Code>, Diagnostic> {
    let symbols = elf.symbols()?;
    let counts = elf.section(".nv.info").map(|(_, s)| attr::read(&s.data)).transpose()?.unwrap_or_default();
    let mut out = Vec::new();
    for (i, section) in elf.sections.iter().enumerate() {
        let Some(name) = section.name.strip_prefix(".text.") else { continue };
        let inside = |symbol: usize| symbols.get(symbol).filter(|s| s.shndx as usize == i && s.kind == 2);
        let count = |a: &Attr| match a.to_words()[..] {
            [symbol, count] if a.code == attr::REGCOUNT && inside(symbol as usize).is_some() => Some(count),
            _ => None,
        };
        let mut kernel = cubin::image::Kernel::default();
        for info in elf.sections.iter().filter(|s| s.info as usize == i && s.name.starts_with(".nv.info.")) {
            attr::read(&info.data)?.iter().for_each(|a| kernel.read_attribute(a));
        }
        let relocated = elf.sections.iter().filter(|s| s.info as usize == i).flat_map(|s| s.relocs());
        let mut elsewhere: Vec<u64> = relocated.map(|r| r.offset).collect();
        elsewhere.sort_unstable();
        out.push(Code {
            name: name.to_string(),
            words: section
                .data
                .chunks_exact(16)
                .filter_map(|c| Some(u128::from_le_bytes(c.try_into().ok()?)))
                .collect(),
            registers: counts.iter().filter_map(count).max(),
            barriers: kernel.barriers as u32,
            hints: CfgHints {
                entries: (0..symbols.len()).filter_map(inside).map(|s| s.value).collect(),
                indirect: branches(&kernel.indirect_branches),
                elsewhere,
            },
        });
    }
    Ok(out)
}

/// The named barriers that the header of a section of code states, as files before sm_90 have it.
fn barriers(elf: &Elf, kernel: &str) -> u32 {
    elf.section(&format!(".text.{kernel}")).map_or(0, |(_, s)| (s.flags >> 20 & 0x7f) as u32)
}

/// True where a kernel changes its number of registers (`setmaxnreg`).
fn reconfigures(elf: &Elf, kernel: &str) -> bool {
    let info = elf.section(&format!(".nv.info.{kernel}"));
    let list = info.and_then(|(_, s)| cubin::attr::read(&s.data).ok()).unwrap_or_default();
    list.iter().any(|a| a.code == cubin::attr::REG_RECONFIG)
}

/// `sassafras lint CUBIN`: one line a hazard, 1 if there is one.
pub(crate) fn lint(args: &[String]) -> u8 {
    let run = || -> Result<u8, String> {
        let path = only(args, "the cubin to check")?;
        let found = hazards(&read(&path)?).map_err(|m| format!("'{path}': {m}"))?;
        found.iter().for_each(|line| report::out(&format!("{line}\n")));
        Ok(!found.is_empty() as u8)
    };
    run().unwrap_or_else(|m| fail(&m))
}

/// `sassafras cubin-diff A B`: one line a difference, 1 if there is one.
pub(crate) fn cubin_diff(args: &[String]) -> u8 {
    let run = || -> Result<u8, String> {
        let [a, b] = args else { return Err("cubin-diff takes two cubins".into()) };
        let open = |path: &String| Elf::read(&read(path)?).map_err(|d| format!("'{path}': {}", d.message));
        let list = cubin::diff::diff(&open(a)?, &open(b)?);
        for d in &list {
            report::out(&format!("{d}\n"));
        }
        Ok(!list.is_empty() as u8)
    };
    run().unwrap_or_else(|m| fail(&m))
}

/// `sassafras link-diff A B`: one line a difference, 1 if there is one.
pub(crate) fn link_diff(args: &[String]) -> u8 {
    let run = || -> Result<u8, String> {
        let [a, b] = args else { return Err("link-diff takes two cubins".into()) };
        let list = link::diff(&read(a)?, &read(b)?).map_err(|d| format!("'{a}', '{b}': {}", d.message))?;
        list.iter().for_each(|d| report::out(&format!("{d}\n")));
        Ok(!list.is_empty() as u8)
    };
    run().unwrap_or_else(|m| fail(&m))
}
