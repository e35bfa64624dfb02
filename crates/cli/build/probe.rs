//! Asks of a program what the start of its process must have seen to, and says what it found. `build.rs` links it with the C library's
//! start and with ours (`start.rs`): both must say the same, word for word.

use std::cell::{Cell, RefCell};
use std::io::{Read, Seek, Write};
use std::process::Command;

unsafe extern "C" {
    fn atexit(call: extern "C" fn()) -> i32;
    fn gnu_get_libc_version() -> *const std::ffi::c_char;
    fn sysconf(name: i32) -> i64;
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some("child") => return println!("child of {:?}", std::env::var("PROBE_PARENT")),
        Some("panic") => panic!("as asked"),
        _ => {}
    }
    // SAFETY: the library has it for good.
    println!("library {}", unsafe { std::ffi::CStr::from_ptr(gnu_get_libc_version()) }.to_string_lossy());
    println!("words {words:?}");
    println!("environment {:?} {:?}", std::env::var("PROBE"), std::env::var("PROBE_NOT"));
    guards();
    threads();
    panics();
    copies();
    files(&words);
    numbers();
    children();
    // SAFETY: the function is there until the end. Names of Linux: page size, processors, room for a signal's handler.
    unsafe {
        println!("page {} processors {} stack {}", sysconf(30), sysconf(84) > 0, sysconf(250) >= 2048);
        println!("at exit {}", atexit(last));
    }
    print!("not flushed");
    std::process::exit(23);
}

extern "C" fn last() {
    println!("last words");
}

/// The words at the thread's pointer that code in C compares, and that nothing can be written to and run.
fn guards() {
    let (guard, secret): (u64, u64);
    // SAFETY: every thread has these words.
    unsafe { std::arch::asm!("mov {}, fs:[0x28]", "mov {}, fs:[0x30]", out(reg) guard, out(reg) secret) };
    println!("guards {} {} {}", guard != 0, guard & 0xff, secret != 0);
    let maps = || std::fs::read_to_string("/proc/self/maps").map(|maps| maps.contains("rwx"));
    println!("writable code {:?} {:?}", maps().ok(), std::thread::spawn(maps).join().unwrap().ok());
}

fn threads() {
    struct Said<'a>(&'a str);
    impl Drop for Said<'_> {
        fn drop(&mut self) {
            COUNT.fetch_add(self.0.len(), std::sync::atomic::Ordering::SeqCst);
        }
    }
    static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    thread_local! {
        static PLAIN: Cell<u64> = const { Cell::new(7) };
        static DROPPED: RefCell<Option<Said<'static>>> = const { RefCell::new(None) };
    }
    fn deep(n: u64) -> u64 {
        let room = std::hint::black_box([n; 512]);
        if n == 0 { 0 } else { room[n as usize % 512] + deep(n - 1) }
    }
    let work = |n: u64| {
        PLAIN.set(PLAIN.get() + n);
        DROPPED.with_borrow_mut(|d| *d = Some(Said("three")));
        let list: Vec<u64> = (0..10_000 * n).collect();
        deep(100) + list.iter().sum::<u64>() + PLAIN.get()
    };
    let threads: Vec<_> = (1..9).map(|n| std::thread::spawn(move || work(n))).collect();
    let sums: Vec<u64> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    let large = std::thread::Builder::new().stack_size(64 << 20).spawn(|| deep(4_000)).unwrap().join().unwrap();
    println!("threads {sums:?} {large} {} {}", PLAIN.get(), COUNT.load(std::sync::atomic::Ordering::SeqCst));
}

fn panics() {
    struct Flag<'a>(&'a Cell<bool>);
    impl Drop for Flag<'_> {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    std::panic::set_hook(Box::new(|_| {}));
    let dropped = Cell::new(false);
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _flag = Flag(&dropped);
        [1u8, 2].iter().for_each(|&n| assert!(std::hint::black_box(n) < 2, "{n}"));
    }));
    let text = caught.unwrap_err().downcast_ref::<String>().cloned();
    println!("panic {text:?} {} {}", dropped.get(), std::thread::spawn(|| panic!("there")).join().is_err());
    let _ = std::panic::take_hook();
}

/// Copies, moves, fills and compares of every length that takes another way through the library.
fn copies() {
    let mut seed = 1u64;
    let mut next = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) as usize
    };
    let source: Vec<u8> = (0..40 << 20).map(|_| next() as u8).collect();
    let mut into = vec![0u8; source.len()];
    let lengths =
        (0..600).chain((0..200).map(|n| n * 47)).chain([1 << 16, 1 << 20, (5 << 20) + 3, (9 << 20) + 1, 39 << 20]);
    let (mut wrong, mut all) = (0, 0);
    for n in lengths {
        let (from, to) = (next() % 300, next() % 300);
        into[to..to + n].copy_from_slice(&source[from..from + n]);
        let same = into[to..to + n].iter().zip(&source[from..from + n]).all(|(a, b)| a == b);
        // Over itself, both ways.
        into.copy_within(to..to + n, from);
        let moved = into[from..from + n].iter().zip(&source[from..from + n]).all(|(a, b)| a == b);
        into.copy_within(from..from + n, to);
        let equal = into[to..to + n] == source[from..from + n];
        into[to..to + n].fill(n as u8);
        let filled = into[to..to + n].iter().all(|&b| b == n as u8);
        wrong += usize::from(!(same && moved && equal && filled));
        all += 1;
    }
    let mut grown: Vec<u64> = Vec::new();
    (0..3_000_000).for_each(|n| grown.push(n));
    let text = "x".repeat(1000) + "needle";
    println!("copies {all} wrong {wrong} grown {} found {:?}", grown.iter().sum::<u64>(), text.find("needle"));
}

fn files(words: &[String]) {
    let path = std::path::Path::new(words.last().map_or(".", String::as_str)).join("probe.txt");
    let done = (|| {
        let mut file = std::fs::File::options().create(true).truncate(true).read(true).write(true).open(&path)?;
        file.write_all(&[b'a'; 100_000])?;
        file.rewind()?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        std::fs::remove_file(&path)?;
        std::io::Result::Ok(text.len())
    })();
    println!("file {:?} {:?}", done.ok(), std::fs::read(&path).map_err(|e| e.kind()));
}

fn numbers() {
    let x = std::hint::black_box(0.5f64);
    println!("numbers {} {} {} {}", x.mul_add(3.0, 0.25), (x + 1.3).floor(), (x + 1.3).sqrt(), (2.0 * x).ln());
    let began = std::time::Instant::now();
    std::thread::sleep(std::time::Duration::from_millis(2));
    println!("time {}", began.elapsed().as_micros() >= 2000);
    println!("cores {}", std::thread::available_parallelism().is_ok_and(|n| n.get() > 0));
}

fn children() {
    let Ok(itself) = std::env::current_exe() else { return println!("nobody") };
    let child = Command::new(&itself).arg("child").env("PROBE_PARENT", "yes").output();
    println!("child {:?}", child.map(|c| (c.status.code(), String::from_utf8_lossy(&c.stdout).into_owned())).ok());
    let child = Command::new(&itself).arg("panic").output();
    println!("child {:?}", child.map(|c| (c.status.code(), c.stdout.len(), !c.stderr.is_empty())).ok());
}
