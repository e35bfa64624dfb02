//! The faces of Sassafras: `sassafras`, and `ptxas`, `nvdisasm`, `nvlink`, `cuobjdump`, `fatbinary` with the command lines of the vendor's tools.
//!
//! Here options are parsed, files are read and written, and diagnostics are printed; the crates below do none of that.

pub mod asm;
mod compile;
pub mod cuobjdump;
mod fatbinary;
mod files;
mod memory;
pub mod nvdisasm;
mod nvlink;
mod options;
mod progress;
mod ptxas;
mod report;
mod run;
pub mod tools;

use std::process::ExitCode;

/// Which tool a program is, or a subcommand of `sassafras` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// All of them, and those that nobody else has.
    Sassafras,
    /// PTX to cubin.
    Ptxas,
    /// Cubin to text.
    Nvdisasm,
    /// Linkable cubins to one executable.
    Nvlink,
    /// What device code a file holds.
    Cuobjdump,
    /// Device code to a fatbin.
    Fatbinary,
}

const USAGE: &str = "\
sassafras: an open PTX compiler and device linker

Usage: sassafras <command> [options]

Commands:
  ptxas        compile PTX to a cubin, with the command line of the vendor's ptxas
  nvdisasm     print the code of a cubin, as the vendor's nvdisasm prints it
  nvlink       link cubins, with the command line of the vendor's nvlink
  cuobjdump    show and extract the device code of cubins, fatbins, objects, programs and archives
  fatbinary    make a fatbin of cubins and PTX
  run          run a kernel of a PTX file or cubin on the CPU:
                 run MODULE.{ptx,cubin} --launch FILE.toml [--out DIR] [--arch sm_90] [--engine ptx|sass]
                 [--timing [--latency global=500,texture=600,shared=30,constant=40,sectors=2,sms=1]] [--trace]
  check        check a PTX file: check FILE.ptx [--arch sm_90] [--diagnostics vendor|pretty|json]
                 [--time], which prints bytes, seconds of parsing and of checking to stderr
  lint         look for hazards in the code of a cubin: lint FILE.cubin
  cubin-diff   say what tells two cubins apart: cubin-diff A B
  link-diff    say what tells two linked cubins apart in what they mean: link-diff A B
  asm          assemble SASS text: asm FILE.sass [-o FILE.cubin]; the text of a cubin, which assembles
               to the same bytes: asm --disassemble FILE.cubin [-o FILE.sass]

sassafras --version prints the version. Each of the first three prints its own options with --help.
";

/// Runs a tool with these arguments (without the program's name).
pub fn main(tool: Tool, args: Vec<String>) -> ExitCode {
    let code = match tool {
        Tool::Sassafras => return sassafras(args),
        Tool::Ptxas => ptxas::main(&args),
        Tool::Nvdisasm => nvdisasm::main(&args),
        Tool::Nvlink => nvlink::main(&args),
        Tool::Cuobjdump => cuobjdump::main(&args),
        Tool::Fatbinary => fatbinary::main(&args),
    };
    ExitCode::from(code)
}

fn sassafras(mut args: Vec<String>) -> ExitCode {
    if args.is_empty() {
        report::out(USAGE);
        return ExitCode::from(1);
    }
    let command = args.remove(0);
    let code = match command.as_str() {
        "ptxas" => return main(Tool::Ptxas, args),
        "nvdisasm" => return main(Tool::Nvdisasm, args),
        "nvlink" => return main(Tool::Nvlink, args),
        "cuobjdump" => return main(Tool::Cuobjdump, args),
        "fatbinary" => return main(Tool::Fatbinary, args),
        "run" => run::main(&args),
        "check" => tools::check(&args),
        "lint" => tools::lint(&args),
        "cubin-diff" => tools::cubin_diff(&args),
        "link-diff" => tools::link_diff(&args),
        "asm" => asm::main(&args),
        "--help" | "-h" | "help" => {
            report::out(USAGE);
            0
        }
        "--version" | "-V" => {
            report::out(&format!("sassafras {}\n", env!("CARGO_PKG_VERSION")));
            0
        }
        other => report::fail(&format!("unknown command '{other}'; sassafras --help lists them")),
    };
    ExitCode::from(code)
}
