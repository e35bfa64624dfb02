fn main() -> std::process::ExitCode {
    cli::main(cli::Tool::Nvdisasm, std::env::args().skip(1).collect())
}
