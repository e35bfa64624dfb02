//! What is named on a command line: kinds of files by their content, and the cubins in them.
//!
//! A file is a cubin, a fatbin, a host object or executable with fatbins in its sections, an archive of such, or PTX text.
//! Files inside of files are named `archive:member`.

use crate::object::fits;
use arch::{Target, Variant};
use cubin::archive;
use cubin::elf::{EM_CUDA, ET_REL};
use cubin::fatbin::{self, Entry, Kind, flags};
use cubin::view::View;
use diag::{Diagnostic, Severity};
use std::borrow::Cow;
use std::path::Path;

/// What the linker asks of whoever calls it.
pub trait Host {
    /// The bytes of a file that a thin archive names; none if it cannot be read.
    fn read(&self, path: &Path) -> Option<Vec<u8>>;

    /// Compiles PTX text to a relocatable cubin for the target.
    ///
    /// # Errors
    /// What is wrong with the text, or that it cannot be compiled.
    fn compile(&self, name: &str, ptx: &[u8], target: Target) -> Result<Vec<u8>, Vec<Diagnostic>>;
}

/// A cubin that was found in a file.
#[derive(Clone, Debug)]
pub struct Found<'a> {
    /// What messages call it.
    pub name: String,
    /// Its bytes.
    pub bytes: Cow<'a, [u8]>,
    /// It is part of the system's library.
    pub system: bool,
    /// Its host object tells what host code refers to.
    pub with_references: bool,
}

impl Inputs<'_> {
    /// The kernels that stay because host code refers to them; none where not every file tells what it refers to, or where they
    /// tell nothing: then all stay.
    pub fn referenced(&self) -> Option<Vec<String>> {
        let known = self.cubins.iter().all(|c| c.with_references || c.system) && !self.kernels.is_empty();
        known.then(|| [&self.kernels[..], &self.system_kernels].concat())
    }
}

impl Found<'_> {
    /// The cubin as the linker takes it.
    pub fn as_cubin(&self) -> crate::Cubin<'_> {
        crate::Cubin { name: &self.name, bytes: &self.bytes, system: self.system }
    }
}

/// What was found in all files.
#[derive(Clone, Debug, Default)]
pub struct Inputs<'a> {
    /// Cubins in order.
    pub cubins: Vec<Found<'a>>,
    /// Names of host objects with code for the linker (`__nv_module_id`, or the file's if it has none), in order.
    pub modules: Vec<String>,
    /// Kernels that host code refers to; `*` stands for anything.
    pub kernels: Vec<String>,
    /// The same of the system's library.
    pub system_kernels: Vec<String>,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

/// A fatbin's sections in a host object: with code for the linker, and with finished code.
const FATBIN_SECTIONS: [&str; 2] = ["__nv_relfatbin", ".nv_fatbin"];
/// Kernels that host code refers to: of this file, of all.
const REFERENCES: [&str; 2] = [".nvHRKI", ".nvHRKE"];
/// The name of a host object among those that are linked.
const MODULE_ID: &str = "__nv_module_id";
/// Archives in archives, deeper than this, are taken for a mistake.
const MAX_DEPTH: u32 = 8;

/// An entry of a fatbin, unpacked.
type Chosen<'b> = (Kind, Cow<'b, [u8]>);

/// Collects what files hold.
pub struct Collector<'h, 'a> {
    target: Target,
    host: &'h dyn Host,
    inputs: Inputs<'a>,
}

fn fatal(message: String) -> Vec<Diagnostic> {
    vec![Diagnostic::new(Severity::Fatal, message)]
}

impl<'h, 'a> Collector<'h, 'a> {
    /// A collector of code for a target.
    pub fn new(target: Target, host: &'h dyn Host) -> Self {
        Collector { target, host, inputs: Inputs::default() }
    }

    /// What was found.
    pub fn finish(self) -> Inputs<'a> {
        self.inputs
    }

    /// Adds what a file holds. `system` tells that it is the system's library, `name` is its path.
    ///
    /// # Errors
    /// Where it is nothing that can be linked, or damaged; the message names the file and the member.
    pub fn add(&mut self, name: &str, bytes: &'a [u8], system: bool) -> Result<(), Vec<Diagnostic>> {
        self.file(name, Cow::Borrowed(bytes), system, 0)
    }

    fn file(&mut self, name: &str, bytes: Cow<'a, [u8]>, system: bool, depth: u32) -> Result<(), Vec<Diagnostic>> {
        if archive::is_archive(&bytes) {
            return self.archive(name, bytes, system, depth);
        }
        if bytes.starts_with(b"\x7fELF") {
            let machine = bytes.get(18..20).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
            return if machine == EM_CUDA { self.cubin(name, bytes, system) } else { self.object(name, bytes, system) };
        }
        if fatbin::is_fatbin(&bytes) {
            return self.containers(name, bytes, system, false, true);
        }
        if is_ptx(&bytes) {
            return self.ptx(name, &bytes, system, false);
        }
        if is_lto(&bytes) {
            return Err(fatal(format!("LTO objects found, use -dlto: '{name}'")));
        }
        let what = if bytes.is_empty() { "is empty" } else { "is no object, archive, fatbin, cubin or PTX" };
        Err(fatal(format!("Input file '{name}' {what}")))
    }

    fn push(&mut self, name: &str, bytes: Cow<'a, [u8]>, system: bool, with_references: bool) {
        self.inputs.cubins.push(Found { name: name.to_string(), bytes, system, with_references });
    }

    fn cubin(&mut self, name: &str, bytes: Cow<'a, [u8]>, system: bool) -> Result<(), Vec<Diagnostic>> {
        let kind = bytes.get(16..18).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
        if kind != ET_REL {
            return Err(fatal(format!("Input file '{name}' is no relocatable cubin: it was linked before")));
        }
        self.push(name, bytes, system, false);
        Ok(())
    }

    fn archive(&mut self, name: &str, bytes: Cow<'a, [u8]>, system: bool, depth: u32) -> Result<(), Vec<Diagnostic>> {
        if depth >= MAX_DEPTH {
            return Err(fatal(format!("Input file '{name}' holds archives in archives too deeply")));
        }
        let wrong = |d: Diagnostic| fatal(format!("Input file '{name}' is damaged: {}", d.message));
        // The members of an owned archive are copied: it is in memory only here.
        let members: Vec<(String, Option<Cow<'a, [u8]>>)> = match bytes {
            Cow::Borrowed(b) => {
                let list = archive::read(b).map_err(wrong)?.into_iter();
                list.map(|m| (m.name.to_string(), m.data.map(Cow::Borrowed))).collect()
            }
            Cow::Owned(ref b) => {
                let list = archive::read(b).map_err(wrong)?.into_iter();
                list.map(|m| (m.name.to_string(), m.data.map(|d| Cow::Owned(d.to_vec())))).collect()
            }
        };
        for (member, data) in members {
            let full = format!("{name}:{member}");
            let data = match data {
                Some(data) => data,
                None => {
                    let path = Path::new(name).parent().unwrap_or(Path::new("")).join(&member);
                    let read = self.host.read(&path);
                    Cow::Owned(read.ok_or_else(|| fatal(format!("Could not open '{}' of '{name}'", path.display())))?)
                }
            };
            // What is no code (notes, tables of other tools) does no harm in an archive.
            if linkable(&data) {
                self.file(&full, data, system, depth + 1)?;
            }
        }
        Ok(())
    }

    fn object(&mut self, name: &str, bytes: Cow<'a, [u8]>, system: bool) -> Result<(), Vec<Diagnostic>> {
        let wrong = |d: Diagnostic| fatal(format!("Input file '{name}' is damaged: {}", d.message));
        let mut parts: Vec<(Cow<'a, [u8]>, bool)> = Vec::new();
        let (mut modules, mut kernels, mut refers) = (Vec::new(), Vec::new(), false);
        let words = |data: &[u8]| -> Vec<String> {
            let words = data.split(|&b| b == 0).filter(|w| !w.is_empty());
            words.map(|w| String::from_utf8_lossy(w).into_owned()).collect()
        };
        let mut look = |view: &View<'_>| {
            for s in &view.sections {
                if REFERENCES.contains(&s.name) {
                    refers = true;
                    kernels.extend(words(s.data));
                } else if s.name == MODULE_ID {
                    modules.extend(words(s.data));
                }
            }
        };
        match bytes {
            Cow::Borrowed(b) => {
                let view = View::read(b).map_err(wrong)?;
                look(&view);
                for s in view.sections.iter().filter(|s| FATBIN_SECTIONS.contains(&s.name)) {
                    parts.push((Cow::Borrowed(s.data), s.name == FATBIN_SECTIONS[0]));
                }
            }
            Cow::Owned(ref b) => {
                let view = View::read(b).map_err(wrong)?;
                look(&view);
                for s in view.sections.iter().filter(|s| FATBIN_SECTIONS.contains(&s.name)) {
                    parts.push((Cow::Owned(s.data.to_vec()), s.name == FATBIN_SECTIONS[0]));
                }
            }
        }
        let before = self.inputs.cubins.len();
        for (part, for_linker) in parts {
            self.containers(name, part, system, refers, for_linker)?;
        }
        if self.inputs.cubins.len() > before {
            // One without a name is called by its file.
            match modules.as_slice() {
                [] => self.inputs.modules.push(name.to_string()),
                _ => self.inputs.modules.extend(modules),
            }
            let list = if system { &mut self.inputs.system_kernels } else { &mut self.inputs.kernels };
            list.extend(kernels);
        }
        Ok(())
    }

    /// The fatbins of a file or section, one behind the other.
    fn containers(
        &mut self,
        name: &str,
        bytes: Cow<'a, [u8]>,
        system: bool,
        refers: bool,
        for_linker: bool,
    ) -> Result<(), Vec<Diagnostic>> {
        let wrong = |d: Diagnostic| fatal(format!("Input file '{name}' is damaged: {}", d.message));
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at..].iter().all(|&b| b == 0) {
                break;
            }
            if bytes[at] == 0 {
                at += 8;
                continue;
            }
            let size = fatbin::size(&bytes[at..]).map_err(wrong)?;
            let chosen = match &bytes {
                Cow::Borrowed(b) => {
                    let entries = fatbin::read(&b[at..at + size]).map_err(wrong)?;
                    self.choose(name, entries, for_linker)?
                }
                Cow::Owned(b) => {
                    let entries = fatbin::read(&b[at..at + size]).map_err(wrong)?;
                    self.choose(name, entries, for_linker)?.map(|(k, b)| (k, Cow::Owned(b.into_owned())))
                }
            };
            match chosen {
                Some((Kind::Elf, body)) => self.push(name, body, system, refers),
                Some((_, text)) => self.ptx(name, &text, system, refers)?,
                None => {}
            }
            at += size;
        }
        Ok(())
    }

    /// The entry that serves the target best, unpacked.
    fn choose<'b>(
        &mut self,
        name: &str,
        entries: Vec<Entry<'b>>,
        for_linker: bool,
    ) -> Result<Option<Chosen<'b>>, Vec<Diagnostic>> {
        let wrong = |d: Diagnostic| fatal(format!("Input file '{name}' is damaged: {}", d.message));
        let target = self.target;
        let best = entries.iter().filter(|e| serves(e, target)).max_by_key(|e| rank(e, target));
        if let Some(e) = best {
            let body = e.unpack().map_err(wrong)?;
            if e.kind == Kind::Elf {
                // Finished code is not for the linker; objects of whole programs have it.
                let kind = body.get(16..18).map_or(0, |b| u16::from_le_bytes([b[0], b[1]]));
                return Ok((for_linker || kind == ET_REL).then_some((Kind::Elf, body)));
            }
            return Ok(for_linker.then_some((Kind::Ptx, body)));
        }
        if !for_linker || entries.is_empty() {
            return Ok(None);
        }
        if entries.iter().all(|e| e.kind == Kind::Lto) {
            return Err(fatal(format!("LTO objects found, use -dlto: '{name}'")));
        }
        let has = entries.iter().map(|e| match e.kind {
            Kind::Ptx => format!("PTX for {}", e.target()),
            Kind::Lto => format!("LTO code for {}", e.target()),
            _ => e.target(),
        });
        let has = has.collect::<Vec<_>>().join(", ");
        let m = format!("SM Arch ('{target}') not found in '{name}', which has {has}");
        self.inputs.warnings.push(Diagnostic::new(Severity::Warning, m));
        Ok(None)
    }

    fn ptx(&mut self, name: &str, text: &[u8], system: bool, refers: bool) -> Result<(), Vec<Diagnostic>> {
        let text = text.strip_suffix(b"\0").unwrap_or(text);
        let cubin = self.host.compile(name, text, self.target)?;
        self.push(name, Cow::Owned(cubin), system, refers);
        Ok(())
    }
}

fn variant(e: &Entry) -> Variant {
    match e.flags {
        f if f & flags::ACCELERATED != 0 => Variant::A,
        f if f & flags::FAMILY != 0 => Variant::F,
        _ => Variant::Plain,
    }
}

/// True if the entry's code can be linked for the target, or its PTX compiled.
fn serves(e: &Entry, target: Target) -> bool {
    let own = Target { sm: e.sm.min(u16::MAX as u32) as u16, variant: variant(e) };
    match e.kind {
        Kind::Elf => match own.variant {
            Variant::A => own == target,
            Variant::F => own.sm / 10 == target.sm / 10 && own.sm <= target.sm,
            Variant::Plain => fits(own.sm, target.sm),
        },
        Kind::Ptx => target.can_run(own),
        _ => false,
    }
}

/// Code before PTX, then the newest SM, then the most special variant.
fn rank(e: &Entry, target: Target) -> (bool, u32, u8) {
    let own = match variant(e) {
        v if v == target.variant => 2,
        Variant::Plain => 1,
        _ => 0,
    };
    (e.kind == Kind::Elf, e.sm, own)
}

/// Code for link-time optimization begins so.
fn is_lto(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0xed, 0x43, 0x4e, 0x7f])
}

fn linkable(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF") || archive::is_archive(bytes) || fatbin::is_fatbin(bytes) || is_ptx(bytes)
}

/// True for text that begins, behind blanks and comments, with `.version`.
fn is_ptx(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    loop {
        rest = rest.trim_ascii_start();
        if let Some(r) = rest.strip_prefix(b"//") {
            rest = r.iter().position(|&b| b == b'\n').map_or(&[], |i| &r[i..]);
        } else if let Some(r) = rest.strip_prefix(b"/*") {
            rest = r.windows(2).position(|w| w == b"*/").map_or(&[], |i| &r[i + 2..]);
        } else {
            return rest.starts_with(b".version");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: Kind, sm: u32, flags: u64) -> Entry<'static> {
        let none = Cow::Borrowed(&[][..]);
        Entry { kind, version: (1, 8), sm, flags, identifier: none.clone(), options: None, body: none, uncompressed: 0 }
    }

    fn chosen(entries: &[Entry], target: &str) -> Option<String> {
        let target = Target::parse(target).unwrap();
        let best = entries.iter().filter(|e| serves(e, target)).max_by_key(|e| rank(e, target))?;
        Some(format!("{:?} {}", best.kind, best.target()))
    }

    #[test]
    fn the_best_entry_is_chosen_by_family() {
        use flags::{ACCELERATED, FAMILY};
        let list = [
            entry(Kind::Elf, 80, 0),
            entry(Kind::Elf, 86, 0),
            entry(Kind::Elf, 87, 0),
            entry(Kind::Elf, 90, 0),
            entry(Kind::Elf, 90, ACCELERATED),
            entry(Kind::Elf, 100, FAMILY),
            entry(Kind::Ptx, 75, 0),
            entry(Kind::Ptx, 90, 0),
        ];
        for (target, expected) in [
            ("sm_80", Some("Elf sm_80")),
            ("sm_86", Some("Elf sm_86")),
            ("sm_87", Some("Elf sm_87")),
            ("sm_89", Some("Elf sm_86")),
            ("sm_90", Some("Elf sm_90")),
            ("sm_90a", Some("Elf sm_90a")),
            ("sm_100", Some("Elf sm_100f")),
            ("sm_103", Some("Elf sm_100f")),
            ("sm_75", Some("Ptx sm_75")),
            ("sm_120", Some("Ptx sm_90")),
        ] {
            assert_eq!(chosen(&list, target).as_deref(), expected, "{target}");
        }
        assert_eq!(chosen(&list[..2], "sm_75"), None);
        assert_eq!(chosen(&list[2..3], "sm_89"), None);
    }

    #[test]
    fn text_is_known_by_its_beginning() {
        assert!(is_ptx(b" // .version\n/* x */ .version 8.0"));
        for other in [&b"// .version"[..], b"/* .version", b"version", b""] {
            assert!(!is_ptx(other));
        }
    }
}
