//! How fast the engines are: `speed FILE.ptx LAUNCH.toml TIMES [FILE.cubin]` prints thread instructions a second.

use std::time::Instant;

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
    let report = |what: &str, f: &dyn Fn() -> u64| {
        let start = Instant::now();
        let n: u64 = (0..times).map(|_| f()).sum();
        let t = start.elapsed().as_secs_f64();
        println!("{what}: {n} thread instructions in {t:.3} s, {:.1} M/s", n as f64 / t / 1e6);
    };
    let config = sim::Config::default();
    report("ptx", &|| sim::run_ptx(&module, &launch, &config).unwrap().stats.thread_instructions);
    if let [cubin] = rest {
        let cubin = std::fs::read(cubin).unwrap();
        for check_hazards in [true, false] {
            let config = sim::Config { check_hazards, ..config.clone() };
            let name = if check_hazards { "sass, hazards checked" } else { "sass" };
            report(name, &|| sim::run_sass(&cubin, &launch, &config).unwrap().stats.thread_instructions);
        }
    }
}
