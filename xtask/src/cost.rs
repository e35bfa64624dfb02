//! What a run of a program takes: CPU time and peak memory.
//!
//! Linux counts to the peak of a process what its parent had where it was started. Whoever holds the texts of a corpus would find that every
//! compiler takes 17 MB. So each is started by a launcher, which is this program again and has nothing yet.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};

/// What one run took.
#[derive(Clone, Copy, Default)]
pub struct Cost {
    /// Seconds of user and system time.
    pub cpu: f64,
    /// Peak memory.
    pub kib: i64,
}

/// Where a launcher says what its program took.
pub struct Note(PathBuf);

/// A command that runs `tool` with the arguments that are added to it, and where its cost will be.
///
/// # Errors
/// Where this program cannot be found.
pub fn launcher(tool: &Path) -> Result<(Command, Note), String> {
    static LAUNCHED: AtomicU32 = AtomicU32::new(0);
    let number = LAUNCHED.fetch_add(1, Ordering::Relaxed);
    let note = std::env::temp_dir().join(format!("sassafras-cost-{}-{number}", std::process::id()));
    let mut command = Command::new(std::env::current_exe().map_err(|e| e.to_string())?);
    command.arg("launch").arg(&note).arg(tool);
    Ok((command, Note(note)))
}

impl Note {
    /// Waits for the launcher; gives the exit code of its program (-1 where a signal ended it) and what that took.
    ///
    /// # Errors
    /// Where the program could not be run.
    pub fn wait(self, mut launcher: Child) -> Result<(i32, Cost), String> {
        launcher.wait().map_err(|e| e.to_string())?;
        let text = std::fs::read_to_string(&self.0).map_err(|_| "a program could not be run")?;
        let _ = std::fs::remove_file(&self.0);
        let mut words = text.split(' ');
        let mut next = || words.next().ok_or("a launcher said too little");
        let code = next()?.parse().map_err(|_| "a launcher gave no exit code")?;
        let cpu = next()?.parse().map_err(|_| "a launcher gave no time")?;
        let kib = next()?.parse().map_err(|_| "a launcher gave no memory")?;
        Ok((code, Cost { cpu, kib }))
    }
}

/// The launcher: `args` are where to say what was taken, a program, and its arguments.
///
/// # Errors
/// Where the program cannot be run.
pub fn launch(args: impl IntoIterator<Item = OsString>) -> Result<(), String> {
    let mut args = args.into_iter();
    let (Some(note), Some(tool)) = (args.next(), args.next()) else { return Err("launch NOTE PROGRAM ..".into()) };
    let child = Command::new(&tool).args(args).spawn();
    let child = child.map_err(|e| format!("cannot run {}: {e}", tool.display()))?;
    let (code, cost) = wait(child.id() as i32)?;
    std::fs::write(note, format!("{code} {:.6} {}", cost.cpu, cost.kib)).map_err(|e| e.to_string())
}

/// Waits for a child and asks the system what it took.
fn wait(pid: i32) -> Result<(i32, Cost), String> {
    let mut status = 0;
    // SAFETY: both pointers are to live values of the right types; the child is ours and is waited for once.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        if libc::wait4(pid, &mut status, 0, &mut usage) != pid {
            return Err("cannot wait for a compiler".into());
        }
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    let cost = Cost { cpu: seconds(usage.ru_utime) + seconds(usage.ru_stime), kib: usage.ru_maxrss };
    Ok((if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }, cost))
}
