fn main() -> std::process::ExitCode {
    cli::main(cli::Tool::Ptxas, std::env::args().skip(1).collect())
}
