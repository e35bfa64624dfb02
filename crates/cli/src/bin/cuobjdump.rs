fn main() -> std::process::ExitCode {
    cli::main(cli::Tool::Cuobjdump, std::env::args().skip(1).collect())
}
