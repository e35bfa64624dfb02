//! The options of cuobjdump: those of the vendor's 13.5.

use crate::options::Kind::{Flag, List, Text};
use crate::options::{Opt, on};

/// Every option, in the order of help.
#[rustfmt::skip]
pub static OPTIONS: [Opt; 19] = [
    on("all-fatbin", "all", Flag, "", "Show code for the linker, too, where there is finished code.", ""),
    on("dump-elf", "elf", Flag, "", "Print every section of cubins.", ""),
    on("dump-elf-symbols", "symbols", Flag, "", "Print names of symbols.", ""),
    on("dump-ptx", "ptx", Flag, "", "Print PTX.", ""),
    on("dump-resource-usage", "res-usage", Flag, "", "Print what functions need.", ""),
    on("dump-sass", "sass", Flag, "", "Print machine code.", ""),
    on("extract-elf", "xelf", List, "<part of a name>,...", "Write cubins with one of these in their names to files; all for all.", ""),
    on("extract-ptx", "xptx", List, "<part of a name>,...", "Write PTX with one of these in its name to files; all for all.", ""),
    on("extract-text", "xtext", List, "<part of a name>,...", "Write code of functions to files.", ""),
    on("function", "fun", List, "<function>,...", "Show only these functions.", ""),
    on("function-index", "findex", Text, "<index>", "Show only the function whose symbol has this index.", ""),
    on("gpu-architecture", "arch", Text, "<gpu name>", "Show only what is for this GPU.", ""),
    on("help", "h", Flag, "", "Print this help.", ""),
    on("list-elf", "lelf", Flag, "", "List cubins.", ""),
    on("list-ptx", "lptx", Flag, "", "List PTX.", ""),
    on("list-text", "ltext", Flag, "", "List code of functions.", ""),
    on("options-file", "optf", List, "<file>,...", "Read options from these files.", ""),
    on("sort-functions", "sort", Flag, "", "Sort functions when printing machine code.", ""),
    on("version", "V", Flag, "", "Print the version.", ""),
];
