//! Files that are written whole or not at all.

use std::fs::{self, File};
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
    let mut there = false;
    match fs::metadata(path) {
        Ok(m) if m.is_dir() => return Err(io::Error::from(io::ErrorKind::IsADirectory)),
        Ok(m) if !m.is_file() => return write(path),
        // A file that may not be written shall not be replaced either.
        Ok(_) => {
            writable(path)?;
            there = true;
        }
        Err(_) => {}
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
    let temporary = path.with_file_name(format!(".{name}.{}.tmp", std::process::id()));
    let done = write(&temporary).and_then(|()| match there && exchange(&temporary, path) {
        true => fs::remove_file(&temporary),
        false => fs::rename(&temporary, path),
    });
    if done.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    done
}

/// Fails where a file may not be written.
#[cfg(target_os = "linux")]
fn writable(path: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the name ends with a zero and lives as long as the call.
    match unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::W_OK, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// As above, by opening it: what rights say elsewhere is not known.
#[cfg(not(target_os = "linux"))]
fn writable(path: &Path) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(path).map(drop)
}

/// Lets two files have each other's names; false where that cannot be done. A file system that takes a new file instead of an old one (ext4) first
/// writes the new one to the disk, and the compiler waits: a fifth of a millisecond of its time, and several on the clock. Names that are exchanged do not wait.
#[cfg(target_os = "linux")]
fn exchange(a: &Path, b: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let name = |p: &Path| std::ffi::CString::new(p.as_os_str().as_bytes());
    let (Ok(a), Ok(b)) = (name(a), name(b)) else { return false };
    let here = libc::AT_FDCWD;
    // SAFETY: both names end with a zero and live as long as the call.
    unsafe { libc::syscall(libc::SYS_renameat2, here, a.as_ptr(), here, b.as_ptr(), libc::RENAME_EXCHANGE) == 0 }
}

/// Elsewhere nothing is known of it.
#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_else_is_left() {
        let folder = std::env::temp_dir().join(format!("sassafras-files-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("out");
        for text in ["the first", "the second, which is longer", "third"] {
            write(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        }
        #[cfg(unix)]
        {
            // Through a link the link is replaced, not what it leads to.
            let link = folder.join("link");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            write(&link, b"fourth").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "third");
            assert!(fs::symlink_metadata(&link).unwrap().is_file());
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
