//! What developers run: `cargo xtask oracle | test | conformance | c-programs | probe-latency | bench | gpu`.

mod bench;
mod c_programs;
mod chips;
mod compare;
mod conformance;
mod corpus;
mod cost;
mod draft;
mod gpu;
mod instructions;
mod isa;
mod launches;
mod linking;
mod listings;
mod oracle;
mod probe;
mod profile;
mod reading;
mod semantics;
mod space;
mod test;
mod timing;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  oracle                      install the vendor's tools from PyPI into target/oracle, as black boxes to compare with
  test                        formatting, lints, oracle, all tests, conformance
  conformance [--filter NAME | --level LEVEL | --registers N]
                              run every launch of tests/kernels on three engines and compare; with a level, our code at
                              that level of --Ofast-compile, with a number, of so many registers at most
  conformance --chips sm_75,.. [--filter NAME] [--every N] [--ours [--level LEVEL]]
                              every launch of tests/kernels by two witnesses on each of these chips
  conformance --sass [--arch sm_XX,..] [--words N] [--quick]
                              the description of SASS against nvdisasm: words of ptxas and N mutated ones a target;
                              --save DIR keeps the words, --from DIR takes them, --every N takes one kernel in N
  conformance --nvdisasm [--arch sm_XX,..] [--sample N] [--seed N] [--from FOLDER] [--cache FILE]
                              our nvdisasm beside the vendor's, whole files in six ways: N (20; 0: all) files of every chip; the
                              same files through our assembler (the same bytes again) and hazard checker (silent); --cache
                              keeps hashes of what the vendor prints, --cached compares that alone; --save FOLDER, --ways
                              \"-c,asm,..\", --jobs N, --minutes N
  mine-isa [--arch sm_XX,..] [--draft N] [--only OPCODE,..] [--space N]
                              the same, with everything that the description lacks or says otherwise; --draft reads off the
                              N most frequent forms that are missing, bit by bit; --only takes examples of these PTX opcodes alone,
                              --space N words of each of the 8,192 opcodes there could be, and their neighbours
  conformance --ptx [OPCODES] judge every form of the PTX table, legal and nearly so, beside the vendor's ptxas
  conformance --instructions [OPCODE,..] [--given threads|constants|parameters|mixed] [--chip sm_90a]
                              every instruction that computes of registers by three witnesses
  conformance --linking [FROM..TO] random programs whose functions two compilers made, linked in every pairing
  conformance --links [N]     N (300) made-up links, as many of files of every kind, one of 2,000 objects, and the programs of tests/link
                              for four chips, beside nvlink
  conformance --audit [OPCODE] what our compiler refuses of all legal examples of the PTX table, for sm_90 and sm_90a
  conformance --ptx-semantics every PTX instruction up to sm_90a with the tests of its meaning
  gpu [--out FOLDER]          a folder that judges our code on a machine with a GPU (docs/gpu.md)
  probe-latency [--arch sm_75,..] [--quick] [--from FOLDER] [--write] [FILE.ptx ..] what the vendor leaves between dependent instructions, beside our latency tables
  corpus DIR                  every PTX file below a folder beside the vendor's ptxas: accepted, time, memory, code; the worst ten
  launches DIR [--seed N] [--filter WORD] [--arch sm_XX] [--level LEVEL] [--each N] [--jobs N] [--save FOLDER]
                              a made-up launch of every kernel of every PTX file below a folder by three witnesses; --each takes N
                              kernels of a file at most, --save keeps the launches on which they disagree
  c-programs [A..B] [--divided] [--generator csmith|yarpgen] [--chip sm_90,..] [--levels O3,max,O1,r32] [--quality] [--save DIR] [--jobs N]
             [--minutes N] [--clang NAME] [--csmith-headers DIR] [--ptxas FILE]
                              random C programs of these seeds (1..40), by csmith (or YARPGen) and clang: our code at each level (O0 to O3,
                              mid and max of --Ofast-compile, rN: N registers) must leave in the simulator what the processor prints; --divided
                              makes the threads of a warp go different ways, --quality compares our code with the vendor's, --save keeps
                              programs with which something is wrong, --ptxas takes a compiler that is there
  timing [--worst N] [FOLDER ..]
                              what our code takes beside the vendor's by the timing model: every launch of tests/kernels, the worst ten
  profile                     renew profile/release.profdata, by which release builds are optimized: what compiling tests/kernels runs through
  profile order               renew profile/order.txt, the order of functions in programs (needs valgrind)
  bench [PART ..]             (compiling, reading, listing, simulating, linking) time, memory and code size beside the vendor's tools
";

/// The root of the repository.
pub fn root() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.first().map(String::as_str) {
        Some("oracle") => oracle::install().map(|_| oracle::print()),
        Some("test") => test::run(),
        Some("conformance") if args.get(1).is_some_and(|a| a == "--linking") => linking::run(&args[2..]),
        Some("conformance") if args.get(1).is_some_and(|a| a == "--links") => linking::links(&args[2..]),
        Some("corpus") => corpus::run(&args[1..]),
        Some("conformance") if args.get(1).is_some_and(|a| a == "--sass") => isa::run(&args[2..], false),
        Some("conformance") if args.get(1).is_some_and(|a| a == "--nvdisasm") => listings::run(&args[2..]),
        Some("mine-isa") => isa::run(&args[1..], true),
        Some("conformance") if args.get(1).is_some_and(|a| a == "--instructions") => instructions::run(&args[2..]),
        Some("conformance") if args.get(1).is_some_and(|a| a == "--chips") => chips::run(&args[2..]),
        Some("conformance") => conformance::run(&args[1..]),
        Some("gpu") => gpu::run(&args[1..]),
        Some("probe-latency") => probe::run(&args[1..]),
        Some("launches") => launches::run(&args[1..]),
        Some("timing") => timing::run(&args[1..]),
        Some("profile") => profile::run(&args[1..]),
        Some("c-programs") => c_programs::run(&args[1..]),
        // Not for people: see there.
        Some("simulate") => c_programs::simulate(&args[1..]),
        Some("launch") => cost::launch(std::env::args_os().skip(2)),
        Some("bench") => bench::run(&args[1..]),
        _ => Err(USAGE.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
