//! How fast the engines are: `speed FILE.ptx LAUNCH.toml TIMES [FILE.cubin]` prints thread instructions a second of
//! elapsed time and, on Linux, of processor time of all threads; first with one thread of this machine, then with two, and how
//! much faster those are.

use std::time::Instant;

/// Processor time of this process so far in seconds, that of threads which have ended included, where the system tells.
fn processor() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // After the name, which may hold anything but ends with the last bracket: state is field 3, user and system time 14 and 15.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |n: usize| fields.get(n - 3)?.parse::<f64>().ok();
    // A tick is a hundredth of a second on every Linux.
    Some((ticks(14)? + ticks(15)?) / 100.0)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let [_, ptx, launch, times, rest @ ..] = args.as_slice() else {
        eprintln!("usage: speed FILE.ptx LAUNCH.toml TIMES [FILE.cubin]");
        std::process::exit(2);
    };
    let times: u32 = times.parse().unwrap();
    let dir = std::path::Path::new(launch).parent().unwrap();
    let text = std::fs::read_to_string(launch).unwrap();
    let launch = sim::Launch::parse(&text, &mut |p| std::fs::read(dir.join(p)).map_err(|e| e.to_string())).unwrap();
    let (module, _) = ptx::parse(&std::fs::read_to_string(ptx).unwrap());
    let report = |what: &str, f: &dyn Fn() -> u64| -> f64 {
        let (start, before) = (Instant::now(), processor());
        let n: u64 = (0..times).map(|_| f()).sum();
        let t = start.elapsed().as_secs_f64();
        let rate = |t: f64| n as f64 / t / 1e6;
        print!("{what}: {n} thread instructions in {t:.3} s, {:.1} M/s", rate(t));
        match (before, processor()) {
            (Some(a), Some(b)) => println!("; processor {:.3} s, {:.1} M/s", b - a, rate(b - a)),
            _ => println!(),
        }
        rate(t)
    };
    let config = sim::Config::default();
    let cubin = rest.first().map(|f| std::fs::read(f).unwrap());
    let mut rates = [Vec::new(), Vec::new()];
    for threads in [1, 2] {
        let config = sim::Config { threads, ..config.clone() };
        let on = if threads == 1 { "one thread" } else { "two threads" };
        let rates = &mut rates[threads - 1];
        let ptx = || sim::run_ptx(&module, &launch, &config).unwrap().stats.thread_instructions;
        rates.push(("PTX", report(&format!("PTX, {on}"), &ptx)));
        let Some(cubin) = &cubin else { continue };
        for check_hazards in [true, false] {
            let config = sim::Config { check_hazards, ..config.clone() };
            let name = if check_hazards { "SASS, hazards checked" } else { "SASS" };
            let sass = || sim::run_sass(cubin, &launch, &config).unwrap().stats.thread_instructions;
            rates.push((name, report(&format!("{name}, {on}"), &sass)));
        }
    }
    for (one, two) in rates[0].iter().zip(&rates[1]) {
        println!("{}: two threads are {:.2} times as fast as one", one.0, two.1 / one.1);
    }
}
