//! The C around a generated program: headers in place of a library's, which a GPU has none of, and what calls the program on either machine.
//! Both machines are given the same headers.

use super::Kind;
use std::path::Path;

/// What a program is called where its `main` was: nothing but the code around it is to be seen from outside. And something that
/// every machine can do, for what csmith takes for a function of all of them.
const RENAME: &str =
    "#define main static program\n#define __builtin_ia32_crc32qi(a, b) (31 * (unsigned)(a) ^ (unsigned char)(b))\n";

/// Headers, by name. What clang itself brings (`stdint.h`, `limits.h`, `float.h`, `stddef.h`) is not here.
const HEADERS: [(&str, &str); 6] = [
    ("string.h", STRING),
    ("stdio.h", "#pragma once\n#include <stddef.h>\n#define printf(...) 0\n"),
    ("stdlib.h", "#pragma once\n#include <stddef.h>\n#define abort() __builtin_trap()\n"),
    ("assert.h", "#undef assert\n#define assert(x) ((void)(x))\n"),
    ("math.h", MATH),
    ("hooks.h", HOOKS),
];

/// Under names of their own: the compiler knows what functions of these names do.
const STRING: &str = "\
#pragma once
#include <stddef.h>
static inline void *own_memcpy(void *to, const void *from, size_t n) {
  for (size_t i = 0; i < n; i++) ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
  return to;
}
static inline void *own_memset(void *to, int c, size_t n) {
  for (size_t i = 0; i < n; i++) ((unsigned char *)to)[i] = (unsigned char)c;
  return to;
}
static inline int own_memcmp(const void *a, const void *b, size_t n) {
  const unsigned char *x = a, *y = b;
  for (size_t i = 0; i < n; i++) if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  return 0;
}
#define memcpy own_memcpy
#define memset own_memset
#define memcmp own_memcmp
";

const MATH: &str = "\
#pragma once
static inline float own_fabsf(float x) { return __builtin_fabsf(x); }
static inline double own_fabs(double x) { return __builtin_fabs(x); }
#define fabsf own_fabsf
#define fabs own_fabs
";

/// Of each thread a sum of where it was and what it computed there. Sums do not depend on the order in which operands are evaluated.
const HOOKS: &str = "\
#pragma once
#include <stddef.h>
#include <stdint.h>
static uint32_t way[32];
static inline void hit(uint32_t block) { way[TID] += (block + 1) * 0x9E3779B1u ^ block << 13; }
#define SEEN(T) static inline T seen_##T(T x, uint32_t site) { \\
  uint64_t wide = (uint64_t)x; \\
  way[TID] += ((uint32_t)wide + site) * 0x85EBCA6Bu ^ ((uint32_t)(wide >> 32) + site) * 0xC2B2AE35u; \\
  return x; } \\
static inline void all_##T(const T *x, size_t bytes, uint32_t site) { \\
  for (size_t i = 0; i < bytes / sizeof(T); i++) seen_##T(x[i], site + i); }
SEEN(int8_t) SEEN(uint8_t) SEEN(int16_t) SEEN(uint16_t) SEEN(int32_t) SEEN(uint32_t) SEEN(int64_t) SEEN(uint64_t)
";

/// A thread's number on either machine.
const DEVICE_TID: &str = "#define TID __nvvm_read_ptx_sreg_tid_x()\n";
const HOST_TID: &str = "static unsigned thread;\n#define TID thread\n";

/// What both machines compile, where the processor's part prints what the kernel leaves in its buffer, a word a line in
/// hexadecimal digits.
struct Around {
    /// Before the program, after `TID`.
    includes: &'static str,
    /// The kernel's statements.
    kernel: String,
    /// Those of the processor's `main`.
    main: &'static str,
}

fn around(kind: Kind, who: u32) -> Around {
    match kind {
        Kind::Single => Around {
            includes: "#include \"program.c\"\n",
            kernel: format!("if (TID != {who}) return;\n  program();\n  out[0] = crc32_context ^ 0xFFFFFFFFU;"),
            main: "program();\n  printf(\"%x\\n\", crc32_context ^ 0xFFFFFFFFU);",
        },
        Kind::Divided => Around {
            // There are no globals to sum up, and no table is wanted for it.
            includes: "#include \"hooks.h\"\n#include \"csmith.h\"\n#define crc32_gentab() ((void)0)\n#include \"program.c\"\n",
            kernel: "program();\n  out[TID] = way[TID];".into(),
            main: "for (thread = 0; thread < 32; thread++) program();\n  for (int i = 0; i < 32; i++) printf(\"%x\\n\", way[i]);",
        },
        Kind::Yarpgen => Around {
            includes: "#include \"driver.c\"\n#include \"func.c\"\n",
            kernel: format!("if (TID != {who}) return;\n  program();\n  out[0] = seed; out[1] = seed >> 32;"),
            main: "program();\n  printf(\"%x\\n%x\\n\", (unsigned)seed, (unsigned)(seed >> 32));",
        },
    }
}

/// The kernel's name.
pub const KERNEL: &str = "kernel";

/// Writes `device.c` and `host.c`, which include the program, and the folder `include`. Of a kernel that one thread runs,
/// `who` is its number.
///
/// # Errors
/// A file cannot be written.
pub fn write(folder: &Path, kind: Kind, who: u32) -> Result<(), String> {
    let a = around(kind, who);
    let device = format!(
        "{DEVICE_TID}{RENAME}{}#undef main\n__attribute__((nvptx_kernel)) void {KERNEL}(unsigned *out) {{\n  {}\n}}\n",
        a.includes, a.kernel
    );
    let host = format!(
        "{HOST_TID}{RENAME}{}#undef main\n#undef printf\nint printf(const char *, ...);\nint main(void) {{\n  {}\n  return 0;\n}}\n",
        a.includes, a.main
    );
    let include = folder.join("include");
    std::fs::create_dir_all(&include).map_err(|e| format!("{}: {e}", include.display()))?;
    let own = HEADERS.iter().map(|(name, text)| (include.join(name), *text));
    for (file, text) in own.chain([(folder.join("device.c"), &*device), (folder.join("host.c"), &*host)]) {
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}
