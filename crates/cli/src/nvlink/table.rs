//! The options of nvlink: those of the vendor's 13.5, and our own.

use crate::options::Kind::{Choice, Flag, List, Text};
use crate::options::{Kind, Opt};

/// Every option, in the order of help.
#[rustfmt::skip]
pub static OPTIONS: [Opt; 47] = [
    no("Ofast-compile", "Ofc", Choice(&["0", "min", "mid", "max"]), "<0|min|mid|max>",
        "How much speed of the code to give up for speed of compilation (link-time optimization only).", "'0'"),
    no("Xnvvm", "Xnvvm", List, "<options>,...", "Options for the optimizer (link-time optimization only).", ""),
    no("Xptxas", "Xptxas", List, "<options>,...", "Options for the compiler (link-time optimization only).", ""),
    on("arch", "arch", Text, "<gpu name>", "The GPU to link for, an sm_ name.", ""),
    on("cpu-arch", "cpu-arch", Choice(&["AARCH64", "ARMv7", "PPC64LE", "RISCV64", "X86", "X86_64", "unknown"]), "<cpu>",
        "The host's processor.", "'unknown'"),
    on("debug", "g", Flag, "", "Keep debug information; it is kept anyway.", ""),
    no("device-stack-protector", "device-stack-protector", Flag, "",
        "Guard stack frames by canaries (link-time optimization only).", ""),
    on("disable-infos", "disable-infos", Flag, "", "Print no information.", ""),
    on("disable-warnings", "w", Flag, "", "Print no warnings.", ""),
    on("dlto", "dlto", Flag, "", "Link-time optimization; it is not supported yet.", ""),
    on("dump-callgraph", "dump-callgraph", Flag, "", "Print who calls whom.", ""),
    on("dump-callgraph-no-demangle", "dump-callgraph-no-demangle", Flag, "",
        "Print who calls whom, with the names of the file.", ""),
    on("emit-ptx", "emit-ptx", Flag, "", "Write PTX (link-time optimization only); it is not supported yet.", ""),
    on("extra-warnings", "extrawarn", Flag, "", "Print more warnings.", ""),
    on("gen-host-linker-script", "ghls", Choice(&["lcs-abs", "lcs-aug"]), "<lcs-abs|lcs-aug>",
        "Write a script for the host's linker: a whole one, or one to add to another.", ""),
    on("help", "h", Flag, "", "Print this help.", ""),
    on("host-ccbin", "ccbin", Text, "<path>", "The host's compiler, as nvcc names it.", ""),
    on("ignore-host-info", "ignore-host-info", Flag, "", "Keep kernels that host code does not refer to.", ""),
    on("keep-system-libraries", "keep-system-libraries", Flag, "", "Keep the system's library also where nothing refers to it.", ""),
    on("kernels-used", "kernels-used", List, "<kernel>,...", "Keep only kernels with one of these in their names.", ""),
    on("library", "l", List, "<library>,...", "Link lib<library>.a, which is looked for in the folders of -L.", ""),
    on("library-path", "L", List, "<folder>,...", "Where to look for libraries.", ""),
    no("link-as-tools-patch", "astoolspatch", Flag, "", "Link patch code for tools.", ""),
    on("link-time-opt", "lto", Flag, "", "Link-time optimization; it is not supported yet.", ""),
    on("machine", "m", Choice(&["64"]), "<bits>", "Width of addresses.", "64"),
    no("maxrregcount", "maxrregcount", Text, "<N>", "Limit of registers (link-time optimization only).", ""),
    no("nvvm-latest", "nvvm-latest", Flag, "", "Use the newest optimizer (link-time optimization only).", ""),
    no("nvvmpath", "nvvmpath", Text, "<folder>", "Where the optimizer is (link-time optimization only).", ""),
    on("options-file", "optf", List, "<file>,...", "Read options from these files.", ""),
    on("output-file", "o", Text, "<file>", "Where to write the output.", ""),
    on("preserve-relocs", "preserve-relocs", Flag, "", "Keep resolved relocations as sections of their own.", ""),
    on("register-link-binaries", "", Text, "<file>", "Write the names of linked host objects there.", ""),
    on("relocatable-link", "r", Flag, "", "Make a file that can be linked again.", ""),
    on("report-arch", "report-arch", Flag, "", "Name the target in messages about symbols.", ""),
    on("save-repro", "", Text, "<folder>", "Our own: copy all inputs and the command there, for a report.", ""),
    no("split-compile", "split-compile", Text, "<N>", "Threads of the optimizer (link-time optimization only).", "1"),
    no("split-compile-extended", "split-compile-extended", Text, "<N>", "Threads of the compiler (link-time optimization only).", "1"),
    on("suppress-arch-warning", "suppress-arch-warning", Flag, "", "Do not warn of files without code for the target.", ""),
    on("suppress-debug-info", "suppress-debug-info", Flag, "", "With --debug: leave debug information out.", ""),
    on("suppress-stack-size-warning", "suppress-stack-size-warning", Flag, "", "Do not warn of unknown stack sizes.", ""),
    on("time", "time", Text, "<file>", "Append the time of every phase to a table there; - for standard output.", ""),
    on("uidx-file", "uidx", Text, "<file>", "Indices of unified functions; they are not supported yet.", ""),
    on("use-host-info", "use-host-info", Flag, "", "Remove kernels that host code does not refer to.", ""),
    on("variables-used", "variables-used", List, "<variable>,...", "Variables that are used. Given without --kernels-used it removes every kernel, as the vendor's tool does.", ""),
    on("verbose", "v", Flag, "", "Print what kernels need.", ""),
    on("version", "V", Flag, "", "Print the version.", ""),
    on("warning-as-error", "Werror", Flag, "", "Make warnings errors.", ""),
];

/// An option that works.
const fn on(
    long: &'static str,
    short: &'static str,
    kind: Kind,
    value: &'static str,
    help: &'static str,
    default: &'static str,
) -> Opt {
    Opt { long, short, kind, value, help, default, works: true }
}

/// An option that is understood and changes nothing yet.
const fn no(
    long: &'static str,
    short: &'static str,
    kind: Kind,
    value: &'static str,
    help: &'static str,
    default: &'static str,
) -> Opt {
    Opt { works: false, ..on(long, short, kind, value, help, default) }
}
