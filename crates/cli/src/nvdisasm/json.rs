//! A file as JSON: what `-json` prints.

use super::file::Input;
use cubin::elf::SHT_NOTE;
use sass::text::listing::{Listing, quoted};
use std::fmt::Write as _;

/// The whole text: the file's properties, then its functions. `keep` are the code sections that are wanted.
pub(super) fn file(input: &Input, listing: &Listing, keep: &[usize]) -> String {
    let elf = input.elf;
    let (sm, ident) = (elf.sm() & 0xfff, &elf.header.ident);
    // Files that hold the code a second time for another assembler (from sm_100 on) are laid out otherwise.
    let layout = if elf.sections.iter().any(super::sections::is_other_assembler) { 2 } else { 4 };
    let mut out = format!(
        "[{{\"ELF\":{{\"layout-id\":{layout},\"ei_osabi\":{},\"ei_abiversion\":{}}},\"SM\":{{\"version\":{{\"major\":{},\"minor\":{}}}}},",
        ident[7],
        ident[8],
        sm / 10,
        sm % 10
    );
    let release = crate::compile::RELEASE;
    let (major, minor) = release.split_once('.').unwrap_or((release, "0"));
    let _ = write!(
        out,
        "\"SchemaVersion\":{{\"major\":{major},\"minor\":{minor},\"revision\":0}},\"Producer\":{},\"Description\":\"\"",
        quoted(&super::producer())
    );
    for (name, kind) in [(".note.nv.cuinfo", 0x3e8), (".note.nv.tkinfo", 0x7d0)] {
        if let Some((_, note)) = elf.section(name).filter(|(_, s)| s.kind == SHT_NOTE) {
            describe(&mut out, name, kind, &note.data);
        }
    }
    let wanted = |f: usize| input.code.functions.get(f).is_some_and(|f| keep.contains(&f.section));
    let _ = write!(out, "}},{}]", listing.json(&wanted));
    out
}

/// A note's values. (Notes begin with 24 bytes of head and name.)
fn describe(out: &mut String, name: &str, kind: u32, data: &[u8]) {
    let word = |at: usize| data.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let half = |at: usize| word(at) & 0xffff;
    if data.len() < 32 || word(8) != kind {
        return;
    }
    if kind == 0x3e8 {
        let _ = write!(
            out,
            ",\"{name}\":{{\"nv_note_cuinfo\":{},\"nv_note_cuinfo_virt_sm\":{},\"nv_note_cuinfo_toolVersion\":{}}}",
            half(24),
            half(26),
            half(28)
        );
        return;
    }
    let strings = data.get(48..).unwrap_or_default();
    let _ = write!(out, ",\"{name}\":{{\"nv_note_tkinfo\": {}", word(24));
    let names = ["tki_objFname", "tki_toolName", "tki_toolVersion", "tki_toolBranch", "tki_toolOptions"];
    for (n, (name, gap)) in names.iter().zip([",", ", ", ",", ",", ","]).enumerate() {
        let text = cubin::elf::string_at(strings, word(28 + n * 4));
        let _ = write!(out, "{gap}\"{name}\": {}", quoted(&text));
    }
    out.push('}');
}
