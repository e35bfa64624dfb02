//! Prints the text form of every function of a PTX file after a pass: `passes FILE.ptx PASS [CUBIN]` (`all` for every
//! pass), and writes the cubin where a third argument names a file.

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(pass)) = (args.next(), args.next()) else {
        eprintln!("usage: passes FILE.ptx PASS");
        std::process::exit(2);
    };
    let text = std::fs::read_to_string(&file).expect("a readable file");
    let (m, _) = ptx::parse(&text);
    let options = codegen::Options {
        verify: std::env::var_os("NOVERIFY").is_none(),
        fmad: false,
        print_after: Some(pass),
        ..codegen::Options::default()
    };
    match codegen::compile(&m, &options) {
        Ok(out) => {
            out.dumps.iter().for_each(|d| println!("{d}"));
            if let Some(path) = args.next() {
                std::fs::write(path, &out.cubin).expect("writable");
            }
        }
        Err(e) => e.iter().for_each(|d| eprintln!("{}", d.message)),
    }
}
