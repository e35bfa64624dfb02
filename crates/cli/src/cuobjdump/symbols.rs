//! Names of symbols as the vendor's tool lists them.

use cubin::elf::{Elf, Symbol};
use diag::Diagnostic;

/// A line for each named symbol of a cubin that is no section.
///
/// # Errors
/// Where the table of symbols is damaged.
pub fn list(elf: &Elf) -> Result<String, Diagnostic> {
    let mut out = String::from("\nsymbols:\n");
    for s in elf.symbols()?.iter().skip(1).filter(|s| s.kind != 3) {
        let undefined = if s.shndx == 0 { "U" } else { " " };
        out.push_str(&format!("{}{undefined}  {}\n", columns(s), s.name));
    }
    Ok(out)
}

/// What a symbol is, in columns: kind, who sees it, what else is said of it.
pub fn columns(s: &Symbol) -> String {
    let bind = ["LOCAL", "GLOBAL", "WEAK"].get(s.bind as usize).unwrap_or(&"?");
    let visibility = ["DEFAULT", "INTERNAL", "HIDDEN", "PROTECTED"][s.other as usize & 3];
    format!("{:<14}{bind:<8}{visibility:<11}{:<34}", kind(s), other(s))
}

fn kind(s: &Symbol) -> &'static str {
    match s.kind {
        0 => "NOTYPE",
        1 => "OBJECT",
        2 => "FUNC",
        3 => "SECTION",
        4 => "FILE",
        10 => "CUDA_TEXTURE",
        11 => "CUDA_SAMPLER",
        12 => "CUDA_SURFACE",
        13 => "CUDA_OBJECT",
        _ => "?",
    }
}

/// What the other bits of `st_other` say.
fn other(s: &Symbol) -> String {
    let space = match s.other >> 5 {
        1 => "GLOBAL",
        2 => "SHARED",
        3 => "LOCAL",
        4 => "CONSTANT",
        5 => "RESERVED_SHARED",
        _ => "",
    };
    let managed = match s.other & 4 {
        0 => "",
        _ if s.kind == 2 => "UNIFIED_FUNC",
        _ => "MANAGED",
    };
    let entry = if s.other & 0x10 != 0 && s.kind == 2 { "ENTRY" } else { "" };
    let words: Vec<&str> = [space, managed, entry].into_iter().filter(|w| !w.is_empty()).collect();
    if words.is_empty() { "-".into() } else { words.join("|") }
}
