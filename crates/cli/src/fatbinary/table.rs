//! The options of fatbinary: those of the vendor's 13.5.

use crate::options::Kind::{Choice, Flag, List, Text};
use crate::options::{Opt, on};

const BOOL: [&str; 2] = ["true", "false"];

/// Every option, in the order of help.
#[rustfmt::skip]
pub static OPTIONS: [Opt; 21] = [
    on("32", "32", Flag, "", "Code for addresses of 32 bits: of PTX, for cubins have 64.", ""),
    on("64", "64", Flag, "", "Code for addresses of 64 bits; there is no other.", ""),
    on("cicc-cmdline", "cicc-cmdline", Text, "<options>", "Options of the front end; they are not kept.", ""),
    on("cmdline", "cmdline", Text, "<options>", "Options that the code was compiled with.", ""),
    on("compress", "compress", Choice(&BOOL), "<true|false>", "Compress PTX, and everything with debug information.", "true"),
    on("compress-all", "compress-all", Flag, "", "Compress everything.", ""),
    on("compress-mode", "compress-mode", Choice(&["default", "size", "speed", "balance", "none"]), "<mode>",
        "How to compress: speed is LZ4, none is nothing, others are zstd.", ""),
    on("concat", "concat", Flag, "", "Join entries to compress them better.", ""),
    on("create", "create", Text, "<file>", "The fatbin to write.", ""),
    on("debug", "g", Flag, "", "The code has debug information.", ""),
    on("device-c", "c", Flag, "", "The code is for the linker.", ""),
    on("embedded-fatbin", "fatbin", Text, "<file>", "The C file to write, which makes the fatbin part of a program.", ""),
    on("help", "h", Flag, "", "Print this help.", ""),
    on("ident", "ident", Text, "<name>", "The name of what the code is made from.", ""),
    on("image2", "image2", List, "kind=<tileir>,file=<file>", "Files for several targets: of TileIR, which is refused.", ""),
    on("image3", "image3", List, "kind=<elf|ptx>,sm=<SM>,file=<file>", "A file, its kind and its target; for each one an option.", ""),
    on("link", "link", Flag, "", "The code was linked.", ""),
    on("no-asm", "no-asm", Flag, "", "Write numbers of C instead of assembly text.", ""),
    on("options-file", "optf", List, "<file>,...", "Read options from these files.", ""),
    on("tileir-cmdline", "tileir-cmdline", Text, "<options>", "Options of another front end; they are not kept.", ""),
    on("version", "V", Flag, "", "Print the version.", ""),
];
