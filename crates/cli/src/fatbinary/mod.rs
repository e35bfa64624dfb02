//! `fatbinary`: cubins and PTX become a fatbin, or a C file that makes one part of a program, with the vendor's options.

mod embed;
mod table;

use crate::options::{self, Parsed};
use crate::report;
use cubin::attr;
use cubin::elf::EM_CUDA;
use cubin::fatbin::{Entry, Kind, flags};
use cubin::view::View;
use std::borrow::Cow;
use std::path::Path;

const TOOL: &str = "fatbinary";

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
        report::out(&crate::ptxas::version(TOOL, "fatbinary creation tool"));
        return 0;
    }
    if args.is_empty() || parsed.has("help") {
        report::out(&options::help("fatbinary [options]", &table::OPTIONS, &|_| None));
        return 0;
    }
    if parsed.has("32") && parsed.has("64") {
        return fatal("Options '--32' and '--64' exclude one another");
    }
    run(&parsed).map_or_else(|m| fatal(&m), |()| 0)
}

fn run(parsed: &Parsed) -> Result<(), String> {
    let list = |option: &str| parsed.values.get(option).map_or(&[][..], Vec::as_slice);
    // Files of TileIR are for no target.
    if list("image2").iter().any(|w| w.starts_with("sm=")) {
        return Err("Keyword 'sm' is not defined for option 'image2'".into());
    }
    let images = images(&[list("image2"), list("image3")].concat())?;
    let mut entries = Vec::with_capacity(images.len());
    for image in &images {
        entries.push(entry(parsed, image)?);
    }
    let entries = match parsed.has("concat") {
        true => concat(parsed, entries)?,
        false => entries.into_iter().map(|e| compress(parsed, e)).collect(),
    };
    let bytes = cubin::fatbin::write(&entries);
    let write = |path: &str, bytes: &[u8]| {
        let written = crate::files::write(Path::new(path), bytes);
        written.map_err(|_| format!("Could not open output file '{path}'"))
    };
    if let Some(path) = parsed.get("create") {
        write(path, &bytes)?;
    }
    if let Some(path) = parsed.get("embedded-fatbin") {
        let text = embed::source(&bytes, parsed.has("device-c"), parsed.has("link"), parsed.has("no-asm"));
        write(path, text.as_bytes())?;
    }
    Ok(())
}

/// A fatbin of one image.
///
/// # Errors
/// Where the options are wrong, or the image is none of the kind.
pub fn pack(args: &[String], kind: Kind, sm: &str, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let parsed = options::parse(&table::OPTIONS, args, &|_| None)?;
    let image = Image { kind, sm: sm.into(), name: "x".into(), bytes };
    Ok(cubin::fatbin::write(&[compress(&parsed, entry(&parsed, &image)?)]))
}

/// A file on the command line.
struct Image {
    kind: Kind,
    /// `90a`.
    sm: String,
    name: String,
    bytes: Vec<u8>,
}

/// The images of a list of `kind=`, `sm=`, `file=`; a kind begins the next one if the one before has its kind.
fn images(words: &[String]) -> Result<Vec<Image>, String> {
    let mut lists: Vec<Vec<(&str, &str)>> = Vec::new();
    for word in words {
        let (key, value) = word.split_once('=').ok_or_else(|| format!("Unknown keyword '{word}' in image3"))?;
        match lists.last_mut() {
            Some(last) if last.iter().all(|k| k.0 != key) => last.push((key, value)),
            _ => lists.push(vec![(key, value)]),
        }
    }
    let image = |list: &Vec<(&str, &str)>| {
        let get = |key: &str| list.iter().find(|k| k.0 == key).map(|k| k.1);
        let kind = match get("kind") {
            Some("elf") => Kind::Elf,
            Some("ptx") => Kind::Ptx,
            Some("nvvm") => return Err("Code for link-time optimization (kind=nvvm) is not supported yet".to_string()),
            Some("tileir") => return Err("Code of TileIR (kind=tileir) is not supported yet".to_string()),
            _ => return Err("Missing or unknown kind in image3".to_string()),
        };
        let sm = get("sm").ok_or("Missing sm in image3")?.to_string();
        let name = get("file").ok_or("Missing file in image3")?.to_string();
        let bytes = std::fs::read(&name).map_err(|_| format!("Could not open input file '{name}'"))?;
        Ok(Image { kind, sm, name, bytes })
    };
    lists.iter().map(image).collect()
}

/// What a fatbin holds of an image, not compressed.
fn entry<'a>(parsed: &Parsed, image: &'a Image) -> Result<Entry<'a>, String> {
    let (number, letter) = image.sm.split_at(image.sm.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
    let sm: u32 = number.parse().map_err(|_| format!("Missing sm in image3: '{}' is none", image.sm))?;
    let mut bits = flags::LINUX | if parsed.has("32") { 0 } else { flags::BITS64 };
    bits |= match letter {
        "" => 0,
        "a" => flags::ACCELERATED,
        "f" => flags::FAMILY,
        _ => return Err(format!("Missing sm in image3: '{}' is none", image.sm)),
    };
    if parsed.has("debug") {
        bits |= flags::DEBUG;
    }
    let identifier = Cow::Owned(parsed.get("ident").map_or_else(Vec::new, |i| i.as_bytes().to_vec()));
    let mut entry = Entry {
        kind: image.kind,
        version: (1, 8),
        sm,
        flags: bits,
        identifier,
        options: None,
        body: Cow::Borrowed(&image.bytes),
        uncompressed: 0,
    };
    if image.kind == Kind::Ptx {
        entry.version =
            ptx_version(&image.bytes).ok_or_else(|| format!("could not find ptx version in '{}'", image.name))?;
        entry.options = Some(Cow::Owned(parsed.get("cmdline").unwrap_or_default().as_bytes().to_vec()));
        entry.body = Cow::Owned([&without_comments(&image.bytes)[..], &[0]].concat());
        return Ok(entry);
    }
    let wrong = |what: &str| format!("fatbinary elf mismatch: {what} ('{}')", image.name);
    let view = View::read(&image.bytes).map_err(|d| format!("'{}': {}", image.name, d.message))?;
    if parsed.has("32") {
        return Err(wrong("elf size doesn't match user-specified size"));
    }
    if view.machine != EM_CUDA {
        return Err(wrong("elf is no cubin"));
    }
    if view.flags >> 8 & 0xffff != sm {
        return Err(wrong("elf arch does not match user-specified arch"));
    }
    // A cubin with a capsule says what it needs.
    const CAPSULE: u32 = 2;
    if view.flags & CAPSULE != 0 {
        entry.flags |= flags::CAPSULE;
        entry.options =
            view.section(".nv.compat").filter(|s| attr::read(s.data).is_ok()).map(|s| Cow::Borrowed(s.data));
    }
    Ok(entry)
}

fn compress<'a>(parsed: &Parsed, entry: Entry<'a>) -> Entry<'a> {
    let mode = parsed.get("compress-mode").unwrap_or("default");
    if !parsed.is("compress", true) || mode == "none" {
        return entry;
    }
    let all = ["compress-all", "device-c", "debug"].iter().any(|o| parsed.has(o)) || mode == "size";
    match entry.kind {
        Kind::Elf if !all => entry,
        _ if mode == "speed" => entry.compress_lz4(),
        _ => entry.compress_zstd(),
    }
}

/// Entries that are alike are compressed together: texts, cubins, cubins with capsules. Those that are alone come first.
fn concat<'a>(parsed: &Parsed, entries: Vec<Entry<'a>>) -> Result<Vec<Entry<'a>>, String> {
    let mode = parsed.get("compress-mode").unwrap_or("default");
    if !parsed.is("compress", true) || mode == "none" {
        return Err(
            "Option '--concat' requires compression to be enabled; it is incompatible with '--compress=false' and \
                    '--compress-mode=none'"
                .into(),
        );
    }
    let class = |e: &Entry| match e.kind {
        Kind::Ptx => 0,
        _ if e.flags & flags::CAPSULE == 0 => 1,
        _ => 2,
    };
    let mut groups: [Vec<Entry>; 3] = Default::default();
    let counts = [0, 1, 2].map(|c| entries.iter().filter(|e| class(e) == c).count());
    let mut out = Vec::new();
    for e in entries {
        match class(&e) {
            c if counts[c] > 1 => groups[c].push(e),
            _ => out.push(compress(parsed, e)),
        }
    }
    for group in groups.iter().filter(|g| !g.is_empty()) {
        let joined = cubin::fatbin::join(group);
        out.push(if mode == "speed" { joined.compress_lz4() } else { joined.compress_zstd() });
    }
    Ok(out)
}

/// The two numbers behind `.version`.
fn ptx_version(text: &[u8]) -> Option<(u16, u16)> {
    let text = without_comments(text);
    let text = String::from_utf8_lossy(&text);
    let rest = text.split(".version").nth(1)?.trim_start();
    let word = rest.split(|c: char| c != '.' && !c.is_ascii_digit()).next()?;
    let (major, minor) = word.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// PTX without comments, without blanks at the beginnings of lines, and with one blank where there are several.
fn without_comments(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    // A comment is as if it were not there, but the line does not begin behind it.
    let mut blank = true;
    while let Some(&c) = rest.first() {
        let skip = match c {
            b'"' => {
                let end = rest[1..].iter().position(|&c| c == b'"' || c == b'\n').map_or(rest.len(), |i| i + 2);
                out.extend(&rest[..end]);
                blank = false;
                end
            }
            b'/' if rest.starts_with(b"//") => rest.iter().position(|&c| c == b'\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with(b"/*") => {
                blank = false;
                rest.windows(2).skip(2).position(|w| w == b"*/").map_or(rest.len(), |i| i + 4)
            }
            b' ' | b'\t' => {
                if !std::mem::replace(&mut blank, true) {
                    out.push(c);
                }
                1
            }
            _ => {
                out.push(c);
                blank = c == b'\n';
                1
            }
        };
        rest = &rest[skip..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the vendor's tool left a text.
    #[test]
    fn comments_and_blanks_go() {
        let text = b".version 8.0\n.target sm_80 // x\n/* a\n b */ .global .b8 s[] = {1,  2};\t\t// c\n   .func  f(  )   {\n\tret ;\n\n  }\n.file 1 \"a  b//c\"\n";
        let kept = ".version 8.0\n.target sm_80 \n .global .b8 s[] = {1, 2};\t\n.func f( ) {\nret ;\n\n}\n.file 1 \"a  b//c\"\n";
        assert_eq!(String::from_utf8(without_comments(text)).as_deref(), Ok(kept));
        assert_eq!(ptx_version(text), Some((8, 0)));
        assert_eq!(ptx_version(b"// .version 1.2\n"), None);
    }
}
