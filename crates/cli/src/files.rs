//! Files that are written whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

/// Writes a file under a temporary name beside it, then renames it, so that no reader sees a part and a failure leaves the
/// old one. What is no regular file (a terminal, `/dev/null`) is written in place. A file that has these very bytes is left as it
/// is, and gets the time of now.
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
        Ok(_) if unchanged(path, content) => return Ok(()),
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

/// Whether a file has what `content` writes already, and has been given the time of now: what is built again mostly comes out as before, and
/// making a new file and removing the old one takes the system as long as half a small kernel takes the compiler. A link is another file than the
/// one it leads to.
#[cfg(unix)]
fn unchanged(path: &Path, content: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> bool {
    use std::os::{fd::AsRawFd, unix::fs::OpenOptionsExt};
    let file = fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path);
    let Ok(file) = file else { return false };
    let mut old = BufWriter::new(Old { file, read: Vec::new() });
    if content(&mut old).and_then(|()| old.flush()).is_err() {
        // What differs shall not be compared once more when it is dropped.
        drop(old.into_parts());
        return false;
    }
    let mut file = &old.get_ref().file;
    // SAFETY: the file is open; without times it gets those of now.
    matches!(file.read(&mut [0]), Ok(0)) && unsafe { libc::futimens(file.as_raw_fd(), std::ptr::null()) } == 0
}

/// Elsewhere each file is made anew.
#[cfg(not(unix))]
fn unchanged(_: &Path, _: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> bool {
    false
}

/// A file with which what is written to it is compared.
#[cfg(unix)]
struct Old {
    file: File,
    read: Vec<u8>,
}

#[cfg(unix)]
impl Write for Old {
    /// Fails at the first piece that the file does not have.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.read.resize(bytes.len(), 0);
        self.file.read_exact(&mut self.read)?;
        match self.read == bytes {
            true => Ok(bytes.len()),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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
        // What is there already stays, whatever is longer or shorter does not.
        for (text, same) in [("third", true), ("thirty", false), ("third", false), ("", false), ("", true)] {
            let before = fs::metadata(&path).unwrap();
            let then = before.modified().unwrap() - std::time::Duration::from_secs(1000);
            File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
            write(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            let after = fs::metadata(&path).unwrap();
            assert!(after.modified().unwrap() > then, "it is as new as if it had been written");
            #[cfg(unix)]
            {
                use std::os::unix::fs::MetadataExt;
                assert_eq!(before.ino() == after.ino(), same, "{text}");
            }
        }
        write(&path, b"third").unwrap();
        #[cfg(unix)]
        {
            // Through a link the link is replaced, not what it leads to.
            let link = folder.join("link");
            std::os::unix::fs::symlink(&path, &link).unwrap();
            write(&link, b"fourth").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "third");
            assert!(fs::symlink_metadata(&link).unwrap().is_file());
            // Also one that leads to what is written.
            fs::remove_file(&link).unwrap();
            std::os::unix::fs::symlink(&path, &link).unwrap();
            write(&link, b"third").unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_file());
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
