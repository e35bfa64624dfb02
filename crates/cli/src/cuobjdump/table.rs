//! The options of cuobjdump: those of the vendor's 13.5.

use crate::options::Kind::{Flag, List, Text};
use crate::options::{Opt, no, on};

/// Every option, in the order of help.
#[rustfmt::skip]
pub static OPTIONS: [Opt; 19] = [
    on("all-fatbin", "all", Flag, "", "Show code for the linker, too, where there is finished code.", ""),
    no("dump-elf", "elf", Flag, "", "Print every section of cubins.", ""),
    on("dump-elf-symbols", "symbols", Flag, "", "Print names of symbols.", ""),
    on("dump-ptx", "ptx", Flag, "", "Print PTX.", ""),
    no("dump-resource-usage", "res-usage", Flag, "", "Print what functions need.", ""),
    on("dump-sass", "sass", Flag, "", "Print machine code.", ""),
    on("extract-elf", "xelf", List, "<part of a name>,...", "Write cubins with one of these in their names to files; all for all.", ""),
    on("extract-ptx", "xptx", List, "<part of a name>,...", "Write PTX with one of these in its name to files; all for all.", ""),
    no("extract-text", "xtext", List, "<part of a name>,...", "Write code of functions to files.", ""),
    on("function", "fun", List, "<function>,...", "Print only the machine code of these functions.", ""),
    no("function-index", "findex", List, "<index>,...", "Print only the machine code of functions by their symbols' indices.", ""),
    on("gpu-architecture", "arch", Text, "<gpu name>", "Show only what is for this GPU.", ""),
    on("help", "h", Flag, "", "Print this help.", ""),
    on("list-elf", "lelf", Flag, "", "List cubins.", ""),
    on("list-ptx", "lptx", Flag, "", "List PTX.", ""),
    no("list-text", "ltext", Flag, "", "List code of functions.", ""),
    on("options-file", "optf", List, "<file>,...", "Read options from these files.", ""),
    no("sort-functions", "sort", Flag, "", "Sort functions when printing machine code.", ""),
    on("version", "V", Flag, "", "Print the version.", ""),
];
