fn main() -> std::process::ExitCode {
    cli::main(cli::Tool::Sassafras, std::env::args().skip(1).collect())
}
