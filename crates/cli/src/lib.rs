//! The faces of Sassafras: `sassafras`, and `ptxas`, `nvdisasm`, `nvlink`, `cuobjdump`, `fatbinary` with the command lines of the vendor's tools.
//!
//! Here options are parsed, files are read and written, and diagnostics are printed; the crates below do none of that.

pub mod asm;
mod compile;
pub mod cuobjdump;
pub mod fatbinary;
mod files;
mod memory;
pub mod nvdisasm;
pub mod nvlink;
mod options;
mod progress;
mod ptxas;
mod report;
mod run;
pub mod tools;

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
                 [--timing [--latency global=500,local=40,texture=600,shared=30,constant=40,operands=15,sectors=2,sms=1]] [--trace]
  check        check a PTX file: check FILE.ptx [--arch sm_90] [--diagnostics vendor|pretty|json]
                 [--time], which prints bytes, seconds of parsing and of checking to stderr
  lint         look for hazards in the code of a cubin: lint FILE.cubin
  cubin-diff   say what tells two cubins apart: cubin-diff A B
  link-diff    say what tells two linked cubins apart in what they mean: link-diff A B
  asm          assemble SASS text: asm FILE.sass [-o FILE.cubin]; the text of a cubin, which assembles
               to the same bytes: asm --disassemble FILE.cubin [-o FILE.sass]

sassafras --version prints the version. Each of the first three prints its own options with --help.
";

/// What a tool does with its arguments (without the program's name); gives the exit code.
pub type Tool = fn(Vec<String>) -> u8;

/// The program of a tool, as a file of its own. It is given the tool itself, so that the linker leaves the others out.
///
/// On Linux it starts without what Rust does before `main`: reading the table of the process's memory to find the end of the
/// stack, and a handler for its overflow, take an eighth of a millisecond, as long as parsing a small kernel.
#[macro_export]
macro_rules! program {
    ($tool:expr) => {
        #[cfg(all(target_os = "linux", target_env = "gnu", not(test)))]
        #[unsafe(no_mangle)]
        extern "C" fn main(_count: i32, _words: *const *const u8) -> i32 {
            $crate::start($tool)
        }

        #[cfg(not(all(target_os = "linux", target_env = "gnu", not(test))))]
        fn main() -> std::process::ExitCode {
            let tool: $crate::Tool = $tool;
            tool(std::env::args().skip(1).collect()).into()
        }
    };
}

/// Runs a tool with the arguments of the process, and ends it: with the code that the tool gives, or 101 where a thread panics,
/// once that is said.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn start(tool: Tool) -> ! {
    // What reads our output may end before: that is an error of writing, no signal.
    // SAFETY: no other thread runs yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    memory::keep();
    let said = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        said(panic);
        end(PANIC);
    }));
    end(tool(std::env::args().skip(1).collect()))
}

/// How a program ends that panicked, as Rust's own start says it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const PANIC: u8 = 101;

/// Ends the process, whichever thread asks.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn end(code: u8) -> ! {
    // Nothing waits for the end but what was printed: the C library's own way out looks for files of C and functions to be called.
    let _ = std::io::Write::flush(&mut std::io::stdout());
    // Of a program that counts what it runs through, that would write the counts.
    #[cfg(counting)]
    {
        unsafe extern "C" {
            fn __llvm_profile_write_file() -> std::ffi::c_int;
        }
        // SAFETY: the library that counts has it, without arguments.
        unsafe { __llvm_profile_write_file() };
    }
    // SAFETY: it ends the process.
    unsafe { libc::_exit(code.into()) }
}

/// PTX to cubin.
pub fn ptxas(args: Vec<String>) -> u8 {
    ptxas::main(&args)
}

/// Cubin to text.
pub fn nvdisasm(args: Vec<String>) -> u8 {
    nvdisasm::main(&args)
}

/// Linkable cubins to one executable.
pub fn nvlink(args: Vec<String>) -> u8 {
    nvlink::main(&args)
}

/// What device code a file holds.
pub fn cuobjdump(args: Vec<String>) -> u8 {
    cuobjdump::main(&args)
}

/// Device code to a fatbin.
pub fn fatbinary(args: Vec<String>) -> u8 {
    fatbinary::main(&args)
}

/// All of them, and those that nobody else has.
pub fn sassafras(mut args: Vec<String>) -> u8 {
    if args.is_empty() {
        report::out(USAGE);
        return 1;
    }
    let command = args.remove(0);
    match command.as_str() {
        "ptxas" => ptxas(args),
        "nvdisasm" => nvdisasm(args),
        "nvlink" => nvlink(args),
        "cuobjdump" => cuobjdump(args),
        "fatbinary" => fatbinary(args),
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
    }
}
