//! Parses and checks PTX files and prints the messages: `cargo run -p sassafras-ptx --example ptx-check -- sm_90 a.ptx`.
//! With `--time` it prints bytes, seconds of parsing and of checking instead, if there is no error.

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let time = args.iter().position(|a| a == "--time").map(|i| args.remove(i)).is_some();
    let target = args.first().and_then(|a| arch::Target::parse(a));
    for path in &args[usize::from(target.is_some())..] {
        let bytes = match std::fs::read(path) {
            Ok(b) => b,
            Err(e) => {
                eprintln!("{path}: {e}");
                continue;
            }
        };
        let start = std::time::Instant::now();
        let (module, mut diags) = ptx::parse_bytes(&bytes);
        let parsed = start.elapsed();
        if !diags.iter().any(|d| d.is_error()) {
            diags.extend(ptx::check(&module, target.as_ref()));
        }
        let all = start.elapsed();
        if time && !diags.iter().any(|d| d.is_error()) {
            println!("{} {} {}", bytes.len(), parsed.as_secs_f64(), (all - parsed).as_secs_f64());
            continue;
        }
        for d in diags {
            let line = d.span.map_or(0, |s| 1 + bytes[..s.start as usize].iter().filter(|&&b| b == b'\n').count());
            println!("{path}, line {line}; {:?}: {}", d.severity, d.message);
        }
    }
}
