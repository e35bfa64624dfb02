//! Files that are written whole or not at all.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

/// Writes a file under a temporary name beside it, then renames it, so that no reader sees a part and a failure leaves the
/// old one. What is no regular file (a terminal, `/dev/null`) is written in place.
///
/// # Errors
/// Where the place cannot be written; nothing is left behind.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(m) if m.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(m) if !m.is_file() => return fs::write(path, bytes),
        // A file that may not be written shall not be replaced either.
        Ok(_) => drop(OpenOptions::new().write(true).open(path)?),
        Err(_) => {}
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let done = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
    if done.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    done
}
