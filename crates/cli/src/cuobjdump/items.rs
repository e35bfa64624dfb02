//! The device code in a file: a cubin, a fatbin, a host object or program, or an archive of such.

use cubin::elf::EM_CUDA;
use cubin::fatbin::{self, Entry, Kind, flags};
use cubin::view::View;
use cubin::{archive, attr};
use std::borrow::Cow;
use std::path::Path;

/// A piece of device code.
pub struct Item {
    /// The archive's member that it stands in, as it is shown.
    pub member: Option<String>,
    /// What it is; none of an entry for a cubin that is a file of its own.
    pub entry: Option<Entry<'static>>,
    /// It was compressed together with others: what is said of all of them, at the first.
    pub group: Option<Option<String>>,
    /// Its kind.
    pub kind: Kind,
    /// What it is made for.
    pub target: String,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// A section with finished code, and one with code for the linker.
const SECTIONS: [&str; 2] = [".nv_fatbin", "__nv_relfatbin"];

/// The device code in the bytes of a file. `all` asks for code for the linker also where there is finished code; `read` gives
/// the files that a thin archive names.
///
/// # Errors
/// Where a part of the file is damaged.
pub fn find(path: &str, bytes: &[u8], all: bool, read: &dyn Fn(&Path) -> Option<Vec<u8>>) -> Result<Vec<Item>, String> {
    let mut out = Vec::new();
    if !archive::is_archive(bytes) {
        file(bytes, all, None, &mut out)?;
        return Ok(out);
    }
    for m in archive::read(bytes).map_err(|d| d.message)? {
        let data = match m.data {
            Some(data) => Cow::Borrowed(data),
            // Of a thin archive the members lie elsewhere.
            None => {
                let place = Path::new(path).with_file_name(m.name);
                let missing = || format!("the member '{}' of the thin archive cannot be read", m.name);
                Cow::Owned(read(&place).ok_or_else(missing)?)
            }
        };
        file(&data, all, Some(format!("{path}:{}", m.name)), &mut out)?;
    }
    Ok(out)
}

fn file(bytes: &[u8], all: bool, member: Option<String>, out: &mut Vec<Item>) -> Result<(), String> {
    if fatbin::is_fatbin(bytes) {
        return containers(bytes, &member, out);
    }
    if !bytes.starts_with(b"\x7fELF") {
        return Ok(());
    }
    let view = View::read(bytes).map_err(|d| d.message)?;
    if view.machine == EM_CUDA {
        let target = target(&view);
        out.push(Item { member, entry: None, group: None, kind: Kind::Elf, target, body: bytes.to_vec() });
        return Ok(());
    }
    for name in SECTIONS {
        let before = out.len();
        for s in view.sections.iter().filter(|s| s.name == name) {
            containers(s.data, &member, out)?;
        }
        if out.len() > before && !all {
            break;
        }
    }
    Ok(())
}

/// The fatbins of a file or section, one behind the other.
fn containers(bytes: &[u8], member: &Option<String>, out: &mut Vec<Item>) -> Result<(), String> {
    let mut at = 0;
    while at < bytes.len() && bytes[at..].iter().any(|&b| b != 0) {
        if bytes[at] == 0 {
            at += 8;
            continue;
        }
        let size = fatbin::size(&bytes[at..]).map_err(|d| d.message)?;
        let groups = fatbin::groups(&bytes[at..at + size]).map_err(|d| d.message)?;
        let entries = groups.into_iter().flat_map(|g| {
            let heading = g.whole.as_ref().map(group_heading);
            // The first of a group says what is said of all.
            g.entries.into_iter().enumerate().map(move |(i, e)| (e, heading.clone().map(|h| (i == 0).then_some(h))))
        });
        for (e, group) in entries {
            let body = match e.kind {
                Kind::Elf => {
                    let mut body = e.unpack().map_err(|d| d.message)?.into_owned();
                    body.truncate(elf_size(&body));
                    body
                }
                Kind::Ptx => e.unpack().map_err(|d| d.message)?.into_owned(),
                _ => Vec::new(),
            };
            let entry = Entry {
                kind: e.kind,
                version: e.version,
                sm: e.sm,
                flags: e.flags,
                identifier: Cow::Owned(e.identifier.to_vec()),
                options: e.options.as_ref().map(|o| Cow::Owned(o.to_vec())),
                body: Cow::Borrowed(&[]),
                uncompressed: e.uncompressed,
            };
            let (kind, target) = (e.kind, e.target());
            out.push(Item { member: member.clone(), entry: Some(entry), group, kind, target, body });
        }
        at += size;
    }
    Ok(())
}

/// Where an ELF file ends: behind its tables of headers. In a fatbin zero bytes may follow.
fn elf_size(bytes: &[u8]) -> usize {
    let number = |at: usize, n: usize| {
        let part = bytes.get(at..at + n).unwrap_or_default();
        part.iter().rev().fold(0u64, |sum, &b| sum << 8 | b as u64)
    };
    let end = |table: usize, size: usize| number(table, 8).saturating_add(number(size, 2) * number(size + 2, 2));
    let size = end(32, 54).max(end(40, 58));
    if size == 0 { bytes.len() } else { usize::try_from(size).unwrap_or(bytes.len()) }
}

/// `sm_90a`, by the file's flags and `.nv.compat`.
fn target(view: &View) -> String {
    let list = view.section(".nv.compat").and_then(|s| attr::read(s.data).ok()).unwrap_or_default();
    let accelerated = list.iter().any(|a| a.code == attr::COMPAT_ACCELERATED && a.to_words() == [1]);
    format!("sm_{}{}", view.flags >> 8 & 0xffff, if accelerated { "a" } else { "" })
}

/// What is said of every entry.
fn about(e: &Entry) -> Vec<String> {
    let mut out = vec![
        format!("code version = [{},{}]", e.version.0, e.version.1),
        format!("host = {}", if e.flags & flags::LINUX != 0 { "linux" } else { "unknown" }),
        format!("compile_size = {}bit", if e.flags & flags::BITS64 != 0 { 64 } else { 32 }),
    ];
    if e.flags & flags::DEBUG != 0 {
        out.push("has debug info".into());
    }
    if e.flags & (flags::LZ4 | flags::ZSTD) != 0 {
        out.push("compressed".into());
    }
    out
}

/// What the tool says above entries that were compressed together.
fn group_heading(whole: &Entry) -> String {
    let title = "Fatbin concatenated entry code:";
    format!("\n{title}\n{}\n{}\n", "=".repeat(title.len()), about(whole).join("\n"))
}

impl Item {
    /// What the tool says above it.
    pub fn heading(&self) -> String {
        let Some(e) = &self.entry else { return String::new() };
        let (what, options) = match e.kind {
            Kind::Ptx => ("ptx", Some("ptxasOptions")),
            Kind::Elf => ("elf", None),
            Kind::Lto => ("nvvm", Some("nvvmOptions")),
            Kind::Other(_) => ("unknown", None),
        };
        let mut out = self.group.clone().flatten().unwrap_or_default();
        let indent = if self.group.is_some() { "\t" } else { "" };
        let title = format!("Fatbin {what} code:");
        out.push_str(&format!("\n{indent}{title}\n{indent}{}\n", "=".repeat(title.len())));
        let mut line = |text: &str| {
            out.push_str(indent);
            out.push_str(text);
            out.push('\n');
        };
        line(&format!("arch = {}", self.target));
        about(e).iter().for_each(|l| line(l));
        if !e.identifier.is_empty() {
            line(&format!("identifier = {}", String::from_utf8_lossy(&e.identifier)));
        }
        if let Some(options) = options {
            line(&format!("{options} = {}", self.options()));
        }
        out
    }

    /// The name of what it was made from, without ending, if the entry says it.
    pub fn origin(&self) -> Option<String> {
        let identifier = &self.entry.as_ref()?.identifier;
        let name = String::from_utf8_lossy(identifier).into_owned();
        let stem = Path::new(&name).file_stem()?;
        Some(stem.to_string_lossy().into_owned())
    }

    /// The options that an entry was compiled with.
    pub fn options(&self) -> String {
        let text = self.entry.as_ref().and_then(|e| e.options.as_deref()).unwrap_or_default();
        let end = text.iter().position(|&b| b == 0).unwrap_or(text.len());
        String::from_utf8_lossy(&text[..end]).into_owned()
    }
}
