//! `nvlink`: linking is not supported yet; this says so, and answers `--version` and `--help`.

use crate::report;
use diag::Severity;

/// What the vendor's tool exits with after a fatal error.
const FATAL: u8 = 1;

/// Runs the tool; gives the exit code.
pub fn main(args: &[String]) -> u8 {
    if args.iter().any(|a| a == "--version" || a == "-V") {
        report::out(&crate::ptxas::version("nvlink", "Cuda linker"));
        return 0;
    }
    if args.is_empty() || args.iter().any(|a| a == "--help" || a == "-h") {
        report::out("\nUsage  : nvlink [options] <cubin or ptx file>,...\n\nLinking is not supported yet.\n");
        return 0;
    }
    report::plain("nvlink", Severity::Fatal, "Linking is not supported yet");
    FATAL
}
