//! The files of a link: those that are named, libraries that are looked for, a copy of all for a report.

use crate::compile::{self, Kind, Request};
use crate::options::Parsed;
use arch::Target;
use diag::render::Source;
use diag::{Diagnostic, Severity};
use link::input::{Collector, Host, Inputs};
use std::path::{Path, PathBuf};

/// A file.
pub struct Listed {
    /// As it was named, or as it was found.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// It is the system's library.
    pub system: bool,
}

/// The system's library, which is left out where nothing refers to it.
const SYSTEM: &str = "cudadevrt";

/// Reads the files that a command line names. A library that is nowhere is left out, as the vendor's tool does.
pub fn find(parsed: &Parsed) -> Result<Vec<Listed>, String> {
    let mut out: Vec<Listed> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    let is_system = |path: &str| Path::new(path).file_name().is_some_and(|n| n == "libcudadevrt.a");
    for name in &parsed.inputs {
        let bytes = std::fs::read(name).map_err(|_| format!("Could not open input file '{name}'"))?;
        // An archive that is named twice is taken once; an object twice is a mistake that linking tells.
        if cubin::archive::is_archive(&bytes) {
            let path = std::fs::canonicalize(name).unwrap_or_else(|_| name.into());
            if seen.contains(&path) {
                continue;
            }
            seen.push(path);
        }
        out.push(Listed { name: name.clone(), bytes, system: is_system(name) });
    }
    let folders = parsed.values.get("library-path").cloned().unwrap_or_default();
    for library in parsed.values.get("library").into_iter().flatten() {
        let found = folders.iter().map(|f| Path::new(f).join(format!("lib{library}.a"))).find(|p| p.is_file());
        let Some(path) = found else { continue };
        let full = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        if seen.contains(&full) {
            continue;
        }
        seen.push(full);
        let name = path.display().to_string();
        let bytes = std::fs::read(&path).map_err(|_| format!("Could not open input file '{name}'"))?;
        out.push(Listed { name, bytes, system: library == SYSTEM });
    }
    if out.is_empty() {
        return Err("No input files specified; use option --help for more information".into());
    }
    Ok(out)
}

/// What the linker asks of the command line.
struct Files {
    /// Options for the compiler.
    options: Vec<String>,
}

impl Files {
    fn new(parsed: &Parsed) -> Files {
        let mut options = parsed.values.get("Xptxas").cloned().unwrap_or_default();
        options.extend(parsed.get("maxrregcount").map(|n| format!("-maxrregcount={n}")));
        for (ours, theirs) in [("verbose2", "--verbose2"), ("link-as-tools-patch", "--compile-as-tools-patch")] {
            options.extend(parsed.has(ours).then(|| theirs.to_string()));
        }
        Files { options }
    }
}

impl Host for Files {
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        std::fs::read(path).ok()
    }

    fn compile(&self, name: &str, ptx: &[u8], target: Target) -> Result<Vec<u8>, Vec<Diagnostic>> {
        // With options the compiler says itself what is wrong, as the vendor's does.
        if !self.options.is_empty() {
            let failed =
                |_| vec![Diagnostic::new(Severity::Fatal, format!("elfLink fatbinary error: PTX of '{name}'"))];
            return crate::ptxas::compile_for_linker(&self.options, name, ptx, target).map_err(failed);
        }
        // The linker has no text to show a place in: the message says it.
        let source = Source::new(name, ptx);
        let placed = |list: Vec<Diagnostic>| -> Vec<Diagnostic> {
            let errors = list.into_iter().filter(Diagnostic::is_error).map(|d| {
                let place = d.span.map_or(String::new(), |s| format!(", line {}", source.position(s.start).0));
                Diagnostic::new(d.severity, format!("PTX of '{name}'{place}: {}", d.message))
            });
            errors.collect()
        };
        let (module, mut list) = ptx::parse_bytes(ptx);
        if !list.iter().any(Diagnostic::is_error) {
            list.extend(ptx::check(&module, Some(&target)));
        }
        if list.iter().any(Diagnostic::is_error) {
            return Err(placed(list));
        }
        compile::compile(&module, &Request::new(target, Kind::Relocatable)).map(|o| o.cubin).map_err(placed)
    }
}

/// The cubins in the files.
pub fn collect<'a>(files: &'a [Listed], target: Target, parsed: &Parsed) -> Result<Inputs<'a>, Vec<Diagnostic>> {
    let host = Files::new(parsed);
    let mut collector = Collector::new(target, &host);
    for f in files {
        collector.add(&f.name, &f.bytes, f.system)?;
    }
    Ok(collector.finish())
}

/// Copies all inputs and the command to a folder.
pub fn save(folder: &Path, files: &[Listed], args: &[String]) -> Result<(), String> {
    let wrong = |e: std::io::Error| format!("Could not write to '{}': {e}", folder.display());
    std::fs::create_dir_all(folder).map_err(wrong)?;
    let mut list = String::new();
    for (i, f) in files.iter().enumerate() {
        let base = Path::new(&f.name).file_name().map_or("input".into(), |n| n.to_string_lossy());
        let name = format!("{i:04}-{base}");
        std::fs::write(folder.join(&name), &f.bytes).map_err(wrong)?;
        list.push_str(&format!("{name} {}\n", f.name));
    }
    std::fs::write(folder.join("inputs.txt"), list).map_err(wrong)?;
    let quoted = args.iter().map(|a| format!("'{}'", a.replace('\'', "'\\''"))).collect::<Vec<_>>().join(" ");
    std::fs::write(folder.join("command.txt"), format!("nvlink {quoted}\n")).map_err(wrong)
}
