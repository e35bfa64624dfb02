fn main() -> std::process::ExitCode {
    cli::main(cli::Tool::Nvlink, std::env::args().skip(1).collect())
}
