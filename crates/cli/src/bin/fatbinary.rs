fn main() -> std::process::ExitCode {
    cli::main(cli::Tool::Fatbinary, std::env::args().skip(1).collect())
}
