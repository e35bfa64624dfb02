//! `sassafras asm`: SASS text to a cubin, and a cubin to such text.
//!
//! Two kinds of text: that of a whole file, which begins with `.elf` and gives the same bytes again, and kernels written by
//! hand, which begin with `.kernel` and leave the container and, if one likes, the control fields to us.

mod dump;
mod file;
mod kernel;
mod text;

use crate::report::{self, Style, fail};
use crate::tools;
use cubin::elf::Elf;
use diag::Diagnostic;
use diag::render::Source;

/// The bytes of the cubin that a text describes.
///
/// # Errors
/// With the place in the text.
pub fn assemble(text: &str) -> Result<Vec<u8>, Diagnostic> {
    let mut lines = text::Lines::new(text);
    let whole = lines.next_words().is_some_and(|mut w| w.word().is_ok_and(|w| w == ".elf"));
    let elf = if whole { file::read(text)? } else { kernel::read(text)? };
    Ok(elf.write())
}

/// The text of a cubin, and how many of its words stand there as numbers.
///
/// # Errors
/// If the file is no cubin, or the text would not give it again.
pub fn disassemble(bytes: &[u8]) -> Result<(String, usize), String> {
    let elf = Elf::read(bytes).map_err(|d| d.message)?;
    let done = dump::dump(&elf)?;
    match assemble(&done.text) {
        Ok(again) if again == bytes => Ok((done.text, done.numbers)),
        Ok(_) => Err("its text would not give the same bytes".into()),
        Err(d) => Err(format!("its text would not be read: {}", d.message)),
    }
}

/// `sassafras asm X.sass [-o Y.cubin]` or `sassafras asm --disassemble X.cubin [-o Y.sass]`; gives the exit code.
pub fn main(args: &[String]) -> u8 {
    let mut args = args.to_vec();
    let out = match tools::take(&mut args, "-o") {
        Ok(out) => out,
        Err(m) => return fail(&m),
    };
    let back = args.iter().position(|a| a == "--disassemble").map(|i| args.remove(i)).is_some();
    let path = match tools::only(&args, "the file to assemble") {
        Ok(path) => path,
        Err(m) => return fail(&m),
    };
    let bytes = match tools::read(&path) {
        Ok(bytes) => bytes,
        Err(m) => return fail(&m),
    };
    if back {
        return match disassemble(&bytes) {
            Ok((text, _)) => match out {
                Some(file) => write(&file, text.as_bytes()),
                None => {
                    report::out(&text);
                    0
                }
            },
            Err(m) => fail(&format!("'{path}': {m}")),
        };
    }
    let source = Source::new(path.clone(), &bytes);
    let Ok(text) = std::str::from_utf8(&bytes) else { return fail(&format!("'{path}' is no text")) };
    match assemble(text) {
        Ok(cubin) => write(&out.unwrap_or_else(|| "a.cubin".into()), &cubin),
        Err(d) => {
            report::show("sassafras", &d, &source, Style::Pretty);
            1
        }
    }
}

fn write(path: &str, bytes: &[u8]) -> u8 {
    match std::fs::write(path, bytes) {
        Ok(()) => 0,
        Err(e) => fail(&format!("cannot write '{path}': {e}")),
    }
}
