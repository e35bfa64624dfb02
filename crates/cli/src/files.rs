//! Files that are written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes a file under a temporary name beside it, then renames it, so that no reader sees a part and a failure leaves the
/// old one. What is no regular file (a terminal, `/dev/null`) is written in place.
///
/// # Errors
/// Where the place cannot be written; nothing is left behind.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, &|out| out.write_all(bytes))
}

/// As [`write`], what `content` writes.
///
/// # Errors
/// As [`write`].
pub fn write_with(path: &Path, content: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let write = |path: &Path| {
        let mut out = BufWriter::new(File::create(path)?);
        content(&mut out)?;
        out.flush()
    };
    match fs::metadata(path) {
        Ok(m) if m.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(m) if !m.is_file() => return write(path),
        // A file that may not be written shall not be replaced either.
        Ok(_) => drop(OpenOptions::new().write(true).open(path)?),
        Err(_) => {}
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let done = write(&temporary).and_then(|()| fs::rename(&temporary, path));
    if done.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    done
}
