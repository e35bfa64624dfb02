//! The launch file: which kernel, how many threads, which arguments.
//!
//! ```toml
//! kernel = "saxpy"
//! grid = [3, 1, 1]
//! block = [128, 1, 1]
//! shared = 0            # bytes of dynamic shared memory, optional
//!
//! [[arg]]
//! f32 = 2.0
//!
//! [[arg]]
//! buffer = { file = "x.bin" }
//! out = "y.bin"
//! ```
//!
//! Integers may be written in any base of TOML; a float is a number, `nan`, `inf`, or its bits as a hexadecimal integer
//! (`f32 = 0x7fc00000`, or the same as a string). Paths are kept as written: whoever calls [`Launch::parse`] gives the
//! function that reads them, so nothing here touches a file. `tests/kernels/README.md` lists all keys.

mod memory;
mod objects;

pub use memory::{Memory, Pointer};

use crate::num::soft::{BF16, F16, Round, from_f64};
use crate::tensormap::TensorMap;
use crate::texture::{Array, Object};
use diag::{Diagnostic, Span};
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Largest buffer or dynamic shared memory that a launch file may ask for, in bytes: 4 GiB.
const MAX_BYTES: u64 = 1 << 32;

/// A kernel launch.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Launch {
    /// Name of the entry.
    pub kernel: String,
    /// CTAs in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a CTA in x, y, z.
    pub block: [u32; 3],
    /// CTAs of a cluster in x, y, z; `None` where the launch does not ask for clusters.
    pub cluster: Option<[u32; 3]>,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Arguments, one a parameter, in order.
    pub args: Vec<Arg>,
    /// Arrays of texels, for textures and surfaces.
    pub arrays: Vec<Array>,
    /// Texture, surface and sampler references of the module, by name.
    pub binds: Vec<(String, Object)>,
    /// Memory that is no argument.
    pub memory: Vec<Memory>,
    /// Addresses that are written before the launch.
    pub pointers: Vec<Pointer>,
}

/// An argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// The bytes of a parameter, little-endian.
    Value(Vec<u8>),
    /// Global memory; the parameter is its 64-bit address.
    Buffer {
        /// Content before the launch.
        data: Vec<u8>,
        /// Where the content after the launch shall be written, as the launch file says.
        out: Option<String>,
    },
    /// A texture, surface or sampler; the parameter is its 64-bit handle.
    Object(Object),
    /// A tensor map: the parameter is the object of 128 bytes, or the 64-bit address of one in global memory.
    TensorMap {
        /// The map; its address is an offset in the buffer.
        map: TensorMap,
        /// Number of the argument that is the buffer, or of the memory, as in a [`Pointer`].
        buffer: usize,
    },
}

impl Launch {
    /// Reads a launch file. `read` gives the content of a file that the text names (path as written, relative to the
    /// launch file), or says why it cannot.
    ///
    /// # Errors
    /// Every mistake found, with its place in `text`.
    pub fn parse(text: &str, read: &mut dyn FnMut(&str) -> Result<Vec<u8>, String>) -> Result<Launch, Vec<Diagnostic>> {
        let table = match DeTable::parse(text) {
            Ok(table) => table.into_inner(),
            Err(e) => {
                let d = Diagnostic::error(e.message().to_string());
                return Err(vec![match e.span() {
                    Some(s) => d.at(span(s)),
                    None => d,
                }]);
            }
        };
        let mut reader = Reader { errors: Vec::new(), wanted: Vec::new(), read };
        let launch = reader.launch(&table, text.len());
        if reader.errors.is_empty() { Ok(launch) } else { Err(reader.errors) }
    }

    /// Checks what no kernel can run with.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        if self.grid.contains(&0) || self.block.contains(&0) {
            return Err("a grid or block without threads".into());
        }
        if self.threads() > 1024 {
            return Err(format!("a block has at most 1024 threads, not {}", self.threads()));
        }
        if let Some(c) = self.cluster
            && (c.contains(&0) || (0..3).any(|i| !self.grid[i].is_multiple_of(c[i])) || c.iter().product::<u32>() > 16)
        {
            return Err("the grid is no multiple of the cluster, or a cluster has more than 16 CTAs".into());
        }
        Ok(())
    }

    /// Where the final contents go that a run gives: names of the launch file, buffers in the order of the arguments,
    /// then memory, then arrays.
    pub fn outputs(&self) -> Vec<Option<&str>> {
        let buffers = self.args.iter().filter_map(|a| match a {
            Arg::Buffer { out, .. } => Some(out.as_deref()),
            _ => None,
        });
        let memory = self.memory.iter().map(|m| m.out.as_deref());
        buffers.chain(memory).chain(self.arrays.iter().map(|a| a.out.as_deref())).collect()
    }

    /// Threads of one CTA.
    pub fn threads(&self) -> u64 {
        self.block.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64))
    }

    /// CTAs of the grid.
    pub fn ctas(&self) -> u64 {
        self.grid.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64))
    }
}

fn span(r: Range<usize>) -> Span {
    Span::new(r.start as u32, r.end as u32)
}

type Entry<'a, 'i> = (&'a Spanned<std::borrow::Cow<'i, str>>, &'a Spanned<DeValue<'i>>);

struct Reader<'r> {
    errors: Vec<Diagnostic>,
    /// Names of arrays that objects want, and of memory that tensor maps do, with where these are: an argument or a reference.
    wanted: Vec<(String, Range<usize>, Result<usize, usize>)>,
    read: &'r mut dyn FnMut(&str) -> Result<Vec<u8>, String>,
}

impl Reader<'_> {
    fn error(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.errors.push(Diagnostic::error(message).at(span(at)));
    }

    fn launch(&mut self, table: &DeTable<'_>, end: usize) -> Launch {
        let mut launch = Launch::default();
        let mut pointers = Vec::new();
        let mut seen = [false; 3];
        for (key, value) in table.iter() {
            match key.get_ref().as_ref() {
                "kernel" => {
                    seen[0] = true;
                    match value.get_ref().as_str() {
                        Some(name) if !name.is_empty() => launch.kernel = name.to_string(),
                        _ => self.error(value.span(), "'kernel' takes the name of an entry"),
                    }
                }
                "grid" => {
                    seen[1] = true;
                    launch.grid = self.dims(value, "grid", [0x7fff_ffff, 65535, 65535]);
                }
                "block" => {
                    seen[2] = true;
                    launch.block = self.dims(value, "block", [1024, 1024, 64]);
                    if launch.threads() > 1024 {
                        self.error(value.span(), format!("a block has at most 1024 threads, not {}", launch.threads()));
                    }
                }
                "cluster" => launch.cluster = Some(self.dims(value, "cluster", [16, 16, 16])),
                "shared" => match self.integer(value, 0, 227 * 1024) {
                    Some(n) => launch.shared = n as u32,
                    None => self.error(value.span(), "'shared' takes a number of bytes from 0 to 232448"),
                },
                "arg" => match value.get_ref().as_array() {
                    Some(list) => {
                        for item in list.iter() {
                            match item.get_ref().as_table() {
                                Some(t) => {
                                    let wanted = self.wanted.len();
                                    launch.args.extend(self.arg(t, item.span()));
                                    for w in &mut self.wanted[wanted..] {
                                        w.2 = Ok(launch.args.len().wrapping_sub(1));
                                    }
                                }
                                None => self.error(item.span(), "an argument is a table: [[arg]]"),
                            }
                        }
                    }
                    None => self.error(value.span(), "arguments are written as [[arg]], one a parameter"),
                },
                "array" => match value.get_ref().as_array() {
                    Some(list) => list.iter().for_each(|item| launch.arrays.extend(self.array(item))),
                    None => self.error(value.span(), "arrays are written as [[array]]"),
                },
                "memory" => match value.get_ref().as_array() {
                    Some(list) => list.iter().for_each(|item| launch.memory.extend(self.memory(item))),
                    None => self.error(value.span(), "memory is written as [[memory]]"),
                },
                "pointer" => match value.get_ref().as_array() {
                    Some(list) => list.iter().for_each(|item| pointers.extend(self.pointer(item))),
                    None => self.error(value.span(), "pointers are written as [[pointer]]"),
                },
                "bind" => match value.get_ref().as_array() {
                    Some(list) => {
                        for item in list.iter() {
                            if let Some((name, object, array)) = self.bind(item) {
                                if let Some((array, at)) = array {
                                    self.wanted.push((array, at, Err(launch.binds.len())));
                                }
                                launch.binds.push((name, object));
                            }
                        }
                    }
                    None => self.error(value.span(), "references are written as [[bind]]"),
                },
                other => {
                    let d = Diagnostic::error(format!("unknown key '{other}' in a launch file"))
                        .at(span(key.span()))
                        .help("known are kernel, grid, block, cluster, shared, [[arg]], [[array]], [[memory]], [[pointer]] and [[bind]]");
                    self.errors.push(d);
                }
            }
        }
        let arguments = launch.args.len();
        for (name, at, place) in std::mem::take(&mut self.wanted) {
            if let Ok(i) = place
                && let Some(Arg::TensorMap { buffer, .. }) = launch.args.get_mut(i)
            {
                match launch.memory.iter().position(|m| m.name == name) {
                    Some(n) => *buffer = arguments + n,
                    None => self.error(at, format!("there is no memory '{name}'")),
                }
                continue;
            }
            let Some(n) = launch.arrays.iter().position(|a| a.name == name) else {
                self.error(at, format!("there is no array '{name}'"));
                continue;
            };
            let object = match place {
                Ok(i) => launch.args.get_mut(i).and_then(|a| match a {
                    Arg::Object(o) => Some(o),
                    _ => None,
                }),
                Err(i) => launch.binds.get_mut(i).map(|b| &mut b.1),
            };
            if let Some(Object::Texture(a, _) | Object::Surface(a)) = object {
                *a = n;
            }
        }
        if self.errors.is_empty() {
            self.pointers(pointers, &mut launch);
        }
        let maps = launch.args.iter().filter_map(|a| match a {
            Arg::TensorMap { buffer, .. } => Some(*buffer),
            _ => None,
        });
        for n in maps {
            if launch.memory_at(n).is_none() && self.errors.is_empty() {
                self.error(end..end, format!("argument {n} is no buffer, and a tensor map names it"));
            }
        }
        for (name, seen) in ["kernel", "grid", "block"].iter().zip(seen) {
            if !seen {
                self.error(end..end, format!("'{name}' is missing"));
            }
        }
        if let Some(c) = launch.cluster
            && seen[1]
            && (0..3).any(|i| c[i] == 0 || launch.grid[i] % c[i] != 0)
        {
            self.error(end..end, "the grid is no multiple of the cluster");
        }
        launch
    }

    fn dims(&mut self, value: &Spanned<DeValue<'_>>, name: &str, max: [u32; 3]) -> [u32; 3] {
        let mut out = [1; 3];
        let Some(list) = value.get_ref().as_array().filter(|l| (1..=3).contains(&l.len())) else {
            self.error(value.span(), format!("'{name}' takes [x, y, z]"));
            return out;
        };
        for (i, item) in list.iter().enumerate() {
            match self.integer(item, 1, max[i] as i128) {
                Some(n) => out[i] = n as u32,
                None => self.error(item.span(), format!("a number from 1 to {} is wanted here", max[i])),
            }
        }
        out
    }

    fn integer(&mut self, value: &Spanned<DeValue<'_>>, min: i128, max: i128) -> Option<i128> {
        let i = value.get_ref().as_integer()?;
        let n = i128::from_str_radix(i.as_str(), i.radix()).ok()?;
        (min..=max).contains(&n).then_some(n)
    }

    fn arg(&mut self, table: &DeTable<'_>, at: Range<usize>) -> Option<Arg> {
        let mut value: Option<Arg> = None;
        let mut out = None;
        let mut count = 0;
        for (key, v) in table.iter() {
            let name = key.get_ref().as_ref();
            if name == "out" {
                match v.get_ref().as_str() {
                    Some(path) => out = Some((path.to_string(), key.span())),
                    None => self.error(v.span(), "'out' takes a file name"),
                }
                continue;
            }
            count += 1;
            value = self.arg_value(name, (key, v));
        }
        if count != 1 {
            self.error(at, format!("an argument has exactly one value, not {count}"));
            return None;
        }
        match (value?, out) {
            (Arg::Buffer { data, .. }, out) => Some(Arg::Buffer { data, out: out.map(|o| o.0) }),
            (_, Some((_, at))) => {
                self.error(at, "'out' belongs to a buffer");
                None
            }
            (value, None) => Some(value),
        }
    }

    fn arg_value(&mut self, name: &str, (key, v): Entry<'_, '_>) -> Option<Arg> {
        let int = |bits: u32, signed: bool| {
            let max = if signed { (1i128 << (bits - 1)) - 1 } else { (1i128 << bits) - 1 };
            (bits, if signed { -(1i128 << (bits - 1)) } else { 0 }, max)
        };
        let (bits, min, max) = match name {
            "u8" => int(8, false),
            "u16" => int(16, false),
            "u32" => int(32, false),
            "u64" => int(64, false),
            "s8" => int(8, true),
            "s16" => int(16, true),
            "s32" => int(32, true),
            "s64" => int(64, true),
            "f16" | "bf16" | "f32" | "f64" => {
                let bytes = self.float(name, v);
                if bytes.is_none() {
                    let m = format!("'{name}' takes a number, nan, inf, or its bits as a hexadecimal number");
                    self.error(v.span(), m);
                }
                return bytes.map(Arg::Value);
            }
            "bytes" => return self.hex(v).map(Arg::Value),
            "buffer" => return self.buffer(v),
            "tensormap" => return self.tensormap(v),
            "texture" | "surface" | "sampler" => {
                let (object, array) = self.object(name, v)?;
                // Which argument it is, the caller knows.
                self.wanted.extend(array.map(|(array, at)| (array, at, Ok(0))));
                return Some(Arg::Object(object));
            }
            _ => {
                let d = Diagnostic::error(format!("unknown kind of argument '{name}'")).at(span(key.span())).help(
                    "known are u8 u16 u32 u64 s8 s16 s32 s64 f16 bf16 f32 f64, bytes = \"hex\", and buffer, texture, surface, sampler, tensormap = { ... }",
                );
                self.errors.push(d);
                return None;
            }
        };
        let Some(n) = self.integer(v, min, max) else {
            self.error(v.span(), format!("'{name}' takes an integer from {min} to {max}"));
            return None;
        };
        Some(Arg::Value(n.to_le_bytes()[..bits as usize / 8].to_vec()))
    }

    fn float(&mut self, name: &str, v: &Spanned<DeValue<'_>>) -> Option<Vec<u8>> {
        let bytes = match name {
            "f64" => 8,
            "f32" => 4,
            _ => 2,
        };
        let from_bits = |digits: &str| {
            let n = u64::from_str_radix(digits, 16).ok()?;
            (bytes == 8 || n >> (8 * bytes) == 0).then(|| n.to_le_bytes()[..bytes].to_vec())
        };
        let text = match v.get_ref() {
            DeValue::Integer(i) if i.radix() == 16 => return from_bits(i.as_str()),
            DeValue::Integer(i) if i.radix() == 10 => i.as_str().to_string(),
            DeValue::Float(f) => f.as_str().to_string(),
            DeValue::String(s) => return from_bits(s.strip_prefix("0x")?),
            _ => return None,
        };
        // The quiet NaN with an empty payload; the sign of a NaN is not carried by text.
        if text.ends_with("nan") {
            let n: u64 = match name {
                "f64" => 0x7ff8_0000_0000_0000,
                "f32" => 0x7fc0_0000,
                "f16" => 0x7e00,
                _ => 0x7fc0,
            };
            return Some(n.to_le_bytes()[..bytes].to_vec());
        }
        Some(match name {
            "f64" => text.parse::<f64>().ok()?.to_le_bytes().to_vec(),
            "f32" => text.parse::<f32>().ok()?.to_le_bytes().to_vec(),
            "f16" => (from_f64(&F16, text.parse().ok()?, Round::Rn) as u16).to_le_bytes().to_vec(),
            _ => (from_f64(&BF16, text.parse().ok()?, Round::Rn) as u16).to_le_bytes().to_vec(),
        })
    }

    fn hex(&mut self, v: &Spanned<DeValue<'_>>) -> Option<Vec<u8>> {
        let digits: Option<Vec<u8>> = v.get_ref().as_str().and_then(|s| {
            s.bytes().filter(|b| !b.is_ascii_whitespace()).map(|b| (b as char).to_digit(16).map(|d| d as u8)).collect()
        });
        match digits {
            Some(d) if d.len() % 2 == 0 => Some(d.chunks(2).map(|p| p[0] << 4 | p[1]).collect()),
            _ => {
                self.error(v.span(), "a string of hexadecimal digits, two a byte, is wanted here");
                None
            }
        }
    }

    fn buffer(&mut self, v: &Spanned<DeValue<'_>>) -> Option<Arg> {
        let Some(table) = v.get_ref().as_table() else {
            self.error(v.span(), "a buffer is { file = \"...\" }, { bytes = N, fill = 0 } or { hex = \"...\" }");
            return None;
        };
        let mut data = None;
        let (mut size, mut fill, mut kinds) = (None, None, 0);
        for (key, value) in table.iter() {
            match key.get_ref().as_ref() {
                "file" => {
                    kinds += 1;
                    let Some(path) = value.get_ref().as_str() else {
                        self.error(value.span(), "'file' takes a file name");
                        return None;
                    };
                    match (self.read)(path) {
                        Ok(bytes) => data = Some(bytes),
                        Err(why) => {
                            self.error(value.span(), format!("cannot read '{path}': {why}"));
                            return None;
                        }
                    }
                }
                "hex" => {
                    kinds += 1;
                    data = Some(self.hex(value)?);
                }
                "bytes" => {
                    kinds += 1;
                    size = self.integer(value, 0, MAX_BYTES as i128);
                    if size.is_none() {
                        self.error(value.span(), format!("'bytes' takes a number from 0 to {MAX_BYTES}"));
                        return None;
                    }
                }
                "fill" => {
                    fill = self.integer(value, 0, 255).map(|n| (n as u8, key.span()));
                    if fill.is_none() {
                        self.error(value.span(), "'fill' takes a byte, 0 to 255");
                        return None;
                    }
                }
                other => {
                    self.error(key.span(), format!("unknown key '{other}' in a buffer"));
                    return None;
                }
            }
        }
        if kinds != 1 {
            self.error(v.span(), "a buffer has exactly one of file, bytes and hex");
            return None;
        }
        if let (Some((_, at)), None) = (&fill, size) {
            self.error(at.clone(), "'fill' belongs to 'bytes'");
            return None;
        }
        let data = data.unwrap_or_else(|| vec![fill.map_or(0, |f| f.0); size.unwrap_or(0) as usize]);
        Some(Arg::Buffer { data, out: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Launch, Vec<Diagnostic>> {
        Launch::parse(text, &mut |p| if p == "in.bin" { Ok(vec![1, 2, 3]) } else { Err("no such file".into()) })
    }

    #[test]
    fn every_kind_of_argument() {
        let l = parse(
            r#"kernel = "k"
grid = [2, 3]
block = [32]
shared = 64
[[arg]]
u8 = 255
[[arg]]
s16 = -2
[[arg]]
u64 = 0xffff_ffff_ffff_ffff
[[arg]]
f16 = 1.5
[[arg]]
bf16 = -2
[[arg]]
f32 = nan
[[arg]]
f32 = 0x3f800000
[[arg]]
f64 = -inf
[[arg]]
f32 = "0x80000000"
[[arg]]
bytes = "0aFF"
[[arg]]
buffer = { file = "in.bin" }
out = "o.bin"
[[arg]]
buffer = { bytes = 2, fill = 7 }
[[arg]]
buffer = { hex = "" }
"#,
        )
        .unwrap();
        assert_eq!((l.grid, l.block, l.shared, l.cluster), ([2, 3, 1], [32, 1, 1], 64, None));
        let v = |b: &[u8]| Arg::Value(b.to_vec());
        let want = [
            v(&[255]),
            v(&[0xfe, 0xff]),
            v(&[0xff; 8]),
            v(&0x3e00u16.to_le_bytes()),
            v(&0xc000u16.to_le_bytes()),
            v(&0x7fc00000u32.to_le_bytes()),
            v(&0x3f800000u32.to_le_bytes()),
            v(&f64::NEG_INFINITY.to_le_bytes()),
            v(&0x80000000u32.to_le_bytes()),
            v(&[0x0a, 0xff]),
            Arg::Buffer { data: vec![1, 2, 3], out: Some("o.bin".into()) },
            Arg::Buffer { data: vec![7, 7], out: None },
            Arg::Buffer { data: vec![], out: None },
        ];
        assert_eq!(l.args, want);
    }

    #[test]
    fn mistakes_have_a_place() {
        let head = "kernel = \"k\"\ngrid = [1]\nblock = [1]\n";
        for (text, message, at) in [
            ("kernel = 3\ngrid = [1]\nblock = [1]", "'kernel' takes the name of an entry", "3"),
            ("kernel = \"k\"\ngrid = [1]", "'block' is missing", ""),
            ("kernel = \"k\"\ngrid = [0]\nblock = [1]", "a number from 1 to 2147483647 is wanted here", "0"),
            ("kernel = \"k\"\ngrid = [1]\nblock = [64, 64]", "a block has at most 1024 threads, not 4096", "[64, 64]"),
            ("[[arg]]\nu8 = 256", "'u8' takes an integer from 0 to 255", "256"),
            ("[[arg]]\ns32 = 1.5", "'s32' takes an integer from -2147483648 to 2147483647", "1.5"),
            (
                "[[arg]]\nf32 = 0x1ffffffff",
                "'f32' takes a number, nan, inf, or its bits as a hexadecimal number",
                "0x1ffffffff",
            ),
            ("[[arg]]\nu32 = 1\nout = \"x\"", "'out' belongs to a buffer", "out"),
            ("[[arg]]\nbuffer = { file = \"no\" }", "cannot read 'no': no such file", "\"no\""),
            ("[[arg]]\nbytes = \"abc\"", "a string of hexadecimal digits, two a byte, is wanted here", "\"abc\""),
            ("[[arg]]\nbuffer = { hex = \"\", fill = 1 }", "'fill' belongs to 'bytes'", "fill"),
            ("[[arg]]\nint = 1", "unknown kind of argument 'int'", "int"),
            ("threads = 3", "unknown key 'threads' in a launch file", "threads"),
        ] {
            let text = if text.starts_with("kernel") { text.to_string() } else { format!("{head}{text}") };
            let errors = parse(&text).unwrap_err();
            assert_eq!(errors[0].message, message);
            let s = errors[0].span.unwrap();
            assert_eq!(&text[s.start as usize..s.end as usize], at, "{message}");
        }
        assert!(parse("kernel = ").is_err());
        assert!(parse(&format!("{head}[[arg]]\n")).unwrap_err()[0].message.contains("exactly one value, not 0"));
    }
}
