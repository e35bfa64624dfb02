//! Tensor maps, arrays, textures, surfaces and samplers of a launch file.

use super::*;
use crate::tensormap::{Im2col, Interleave, Swizzle, TensorMap, Type};
use crate::texture::{Array, Compare, Edge, Format, Object, Sampler};

type Value<'i> = Spanned<DeValue<'i>>;
/// The name of an array, and where it is written.
type Named = (String, Range<usize>);

impl Reader<'_> {
    /// The table that a value is.
    fn table<'v, 'i>(&mut self, v: &'v Value<'i>, what: &str) -> Option<&'v DeTable<'i>> {
        let table = v.get_ref().as_table();
        if table.is_none() {
            self.error(v.span(), format!("'{what}' takes a table: {{ ... }}"));
        }
        table
    }

    fn unknown<X>(&mut self, at: Range<usize>, key: &str, known: &str) -> Option<X> {
        let d = Diagnostic::error(format!("unknown key '{key}'")).at(span(at)).help(format!("known are {known}"));
        self.errors.push(d);
        None
    }

    fn string<'v>(&mut self, v: &'v Value<'_>, what: &str) -> Option<&'v str> {
        let s = v.get_ref().as_str();
        if s.is_none() {
            self.error(v.span(), format!("'{what}' takes a string"));
        }
        s
    }

    fn flag(&mut self, v: &Value<'_>, what: &str) -> Option<bool> {
        let b = v.get_ref().as_bool();
        if b.is_none() {
            self.error(v.span(), format!("'{what}' is true or false"));
        }
        b
    }

    fn number(&mut self, v: &Value<'_>, what: &str, min: i128, max: i128) -> Option<i128> {
        let n = self.integer(v, min, max);
        if n.is_none() {
            self.error(v.span(), format!("'{what}' takes a number from {min} to {max}"));
        }
        n
    }

    /// A list of integers, or one.
    fn numbers(&mut self, v: &Value<'_>, what: &str, most: usize, (min, max): (i128, i128)) -> Option<Vec<i128>> {
        let list: Vec<&Value<'_>> = match v.get_ref().as_array() {
            Some(list) => list.iter().collect(),
            None => vec![v],
        };
        if list.is_empty() || list.len() > most {
            self.error(v.span(), format!("'{what}' takes 1 to {most} numbers"));
            return None;
        }
        list.into_iter().map(|n| self.number(n, what, min, max)).collect()
    }

    fn real(&mut self, v: &Value<'_>, what: &str) -> Option<f32> {
        let n = match v.get_ref() {
            DeValue::Float(f) => f.as_str().parse().ok(),
            DeValue::Integer(i) if i.radix() == 10 => i.as_str().parse().ok(),
            _ => None,
        };
        if n.is_none() {
            self.error(v.span(), format!("'{what}' takes numbers"));
        }
        n
    }

    fn reals<const N: usize>(&mut self, v: &Value<'_>, what: &str) -> Option<[f32; N]> {
        let list: Option<Vec<f32>> = match v.get_ref().as_array().filter(|l| l.len() == N) {
            Some(list) => list.iter().map(|n| self.real(n, what)).collect(),
            None => {
                self.error(v.span(), format!("'{what}' takes {N} numbers"));
                return None;
            }
        };
        list?.try_into().ok()
    }

    /// One of several words.
    fn word<X: Copy>(&mut self, v: &Value<'_>, what: &str, words: &[(&str, X)]) -> Option<X> {
        let found = v.get_ref().as_str().and_then(|s| words.iter().find(|w| w.0 == s)).map(|w| w.1);
        if found.is_none() {
            let list: Vec<&str> = words.iter().map(|w| w.0).collect();
            self.error(v.span(), format!("'{what}' is one of {}", list.join(", ")));
        }
        found
    }

    /// `[[array]]`
    pub(super) fn array(&mut self, v: &Value<'_>) -> Option<Array> {
        const KNOWN: &str = "name, size, layers, cube, levels, samples, channels, format, data and out";
        let before = self.errors.len();
        let table = self.table(v, "array")?;
        let mut a = Array { levels: 1, samples: 1, channels: 1, ..Array::default() };
        let mut data = None;
        for (key, value) in table.iter() {
            let name = key.get_ref().as_ref();
            match name {
                "name" => a.name = self.string(value, name)?.to_string(),
                "size" => {
                    let list = self.numbers(value, name, 3, (1, 1 << 17))?;
                    (0..list.len()).for_each(|i| a.size[i] = list[i] as u32);
                }
                "layers" => a.layers = Some(self.number(value, name, 1, 2048)? as u32),
                "cube" => a.cube = self.flag(value, name)?,
                "levels" => a.levels = self.number(value, name, 1, 18)? as u32,
                "samples" => a.samples = self.number(value, name, 1, 16)? as u32,
                "channels" => a.channels = self.number(value, name, 1, 4)? as u32,
                "format" => {
                    let words: Vec<_> = Format::ALL.iter().map(|f| (f.1, f.0)).collect();
                    a.format = self.word(value, name, &words)?;
                }
                "data" => match self.buffer(value)? {
                    Arg::Buffer { data: bytes, .. } => data = Some(bytes),
                    _ => return None,
                },
                "out" => a.out = Some(self.string(value, name)?.to_string()),
                other => return self.unknown(key.span(), other, KNOWN),
            }
        }
        if a.size[0] == 0 || a.name.is_empty() {
            self.error(v.span(), "an array has a name and a size");
            return None;
        }
        // Without data all is zero.
        a.data = data.unwrap_or_else(|| vec![0; a.bytes().min(MAX_BYTES) as usize]);
        if let Err(e) = a.check() {
            self.error(v.span(), e);
        }
        (self.errors.len() == before).then_some(a)
    }

    /// `texture = { ... }`, `surface = { ... }`, `sampler = { ... }`; the array stays a name until all are known.
    pub(super) fn object(&mut self, kind: &str, v: &Value<'_>) -> Option<(Object, Option<Named>)> {
        const KNOWN: &str = "array, address, filter, mip_filter, normalized, border, bias, levels and compare";
        let table = self.table(v, kind)?;
        let (mut s, mut array) = (Sampler::default(), None);
        let filter = [("nearest", false), ("linear", true)];
        let edges = [("wrap", Edge::Wrap), ("mirror", Edge::Mirror), ("clamp", Edge::Clamp), ("border", Edge::Border)];
        for (key, value) in table.iter() {
            let name = key.get_ref().as_ref();
            match name {
                "array" if kind != "sampler" => array = Some((self.string(value, name)?.to_string(), value.span())),
                _ if kind == "surface" => return self.unknown(key.span(), name, "array"),
                "address" => match value.get_ref().as_array() {
                    Some(list) if (1..=3).contains(&list.len()) => {
                        for (i, one) in list.iter().enumerate() {
                            s.edge[i] = self.word(one, name, &edges)?;
                        }
                    }
                    _ => s.edge = [self.word(value, name, &edges)?; 3],
                },
                "filter" => s.linear = self.word(value, name, &filter)?,
                "mip_filter" => s.linear_levels = self.word(value, name, &filter)?,
                "normalized" => s.normalized = self.flag(value, name)?,
                "border" => s.border = self.reals(value, name)?,
                "bias" => s.bias = self.real(value, name)?,
                "levels" => s.levels = Some(self.reals(value, name)?),
                "compare" => s.compare = self.word(value, name, &Compare::ALL)?,
                other => return self.unknown(key.span(), other, KNOWN),
            }
        }
        if kind != "sampler" && array.is_none() {
            self.error(v.span(), format!("a {kind} names its array"));
            return None;
        }
        Some((
            match kind {
                "texture" => Object::Texture(0, s),
                "surface" => Object::Surface(0),
                _ => Object::Sampler(s),
            },
            array,
        ))
    }

    /// `[[bind]]`: a reference of the module and its object.
    pub(super) fn bind(&mut self, v: &Value<'_>) -> Option<(String, Object, Option<Named>)> {
        let table = self.table(v, "bind")?;
        let (mut name, mut object) = (None, None);
        for (key, value) in table.iter() {
            match key.get_ref().as_ref() {
                "name" => name = Some(self.string(value, "name")?.to_string()),
                kind @ ("texture" | "surface" | "sampler") => object = Some(self.object(kind, value)?),
                other => return self.unknown(key.span(), other, "name, texture, surface and sampler"),
            }
        }
        let (Some(name), Some((object, array))) = (name, object) else {
            self.error(v.span(), "[[bind]] has a name, and a texture, surface or sampler");
            return None;
        };
        Some((name, object, array))
    }

    /// `tensormap = { ... }`
    pub(super) fn tensormap(&mut self, v: &Value<'_>) -> Option<Arg> {
        const KNOWN: &str = "buffer, offset, type, dims, strides, box, steps, interleave, swizzle, fill and im2col";
        let table = self.table(v, "tensormap")?;
        let (mut m, mut buffer) = (TensorMap { rank: 0, ..TensorMap::default() }, None);
        let mut strides = None;
        for (key, value) in table.iter() {
            let name = key.get_ref().as_ref();
            match name {
                // Which memory has the name is known when all is read.
                "buffer" => match value.get_ref().as_str() {
                    Some(memory) => {
                        self.wanted.push((memory.to_string(), value.span(), Ok(0)));
                        buffer = Some(0);
                    }
                    None => buffer = Some(self.number(value, name, 0, 4095)? as usize),
                },
                "offset" => m.address = self.number(value, name, 0, MAX_BYTES as i128)? as u64,
                "type" => {
                    let words: Vec<_> = Type::ALL.iter().map(|t| (t.1, t.0)).collect();
                    m.ty = self.word(value, name, &words)?;
                }
                "dims" => {
                    let list = self.numbers(value, name, 5, (1, 1 << 32))?;
                    m.rank = list.len();
                    (0..list.len()).for_each(|i| m.dims[i] = list[i] as u64);
                }
                "strides" => strides = Some((self.numbers(value, name, 4, (0, (1 << 40) - 1))?, value.span())),
                "box" => {
                    let list = self.numbers(value, name, 5, (1, 256))?;
                    (0..list.len()).for_each(|i| m.box_dims[i] = list[i] as u32);
                }
                "steps" => {
                    let list = self.numbers(value, name, 5, (1, 8))?;
                    (0..list.len()).for_each(|i| m.steps[i] = list[i] as u32);
                }
                "interleave" => {
                    m.interleave = match self.number(value, name, 0, 32)? {
                        0 => Interleave::None,
                        16 => Interleave::Slices16,
                        32 => Interleave::Slices32,
                        _ => {
                            self.error(value.span(), "'interleave' is 0, 16 or 32");
                            return None;
                        }
                    }
                }
                "swizzle" => {
                    let n = self.number(value, name, 0, 128)?;
                    let all = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128];
                    let Some(&s) = all.iter().find(|s| s.width() as i128 == n) else {
                        self.error(value.span(), "'swizzle' is 0, 32, 64 or 128");
                        return None;
                    };
                    m.swizzle = s;
                }
                "fill" => m.nan = self.word(value, name, &[("zero", false), ("nan", true)])?,
                "im2col" => m.im2col = Some(self.im2col(value)?),
                other => return self.unknown(key.span(), other, KNOWN),
            }
        }
        let Some(buffer) = buffer.filter(|_| m.rank > 0) else {
            self.error(
                v.span(),
                "a tensor map has a buffer (the number of an argument or the name of a memory) and dims",
            );
            return None;
        };
        match strides {
            Some((list, at)) if list.len() + 1 != m.rank => {
                self.error(at, format!("{} strides for {} dimensions; each but the first has one", list.len(), m.rank));
                return None;
            }
            Some((list, _)) => (0..list.len()).for_each(|i| m.strides[i] = list[i] as u64),
            // Without gaps.
            None => {
                let mut n = m.ty.bytes() as u64;
                for i in 0..m.rank - 1 {
                    n = n.saturating_mul(m.dims[i]);
                    m.strides[i] = n;
                }
            }
        }
        if let Err(e) = m.check() {
            self.error(v.span(), e);
            return None;
        }
        Some(Arg::TensorMap { map: m, buffer })
    }

    fn im2col(&mut self, v: &Value<'_>) -> Option<Im2col> {
        let table = self.table(v, "im2col")?;
        let mut x = Im2col { channels: 1, pixels: 1, ..Im2col::default() };
        for (key, value) in table.iter() {
            let name = key.get_ref().as_ref();
            match name {
                "lower" | "upper" => {
                    let list = self.numbers(value, name, 3, (-32768, 32767))?;
                    let to = if name == "lower" { &mut x.lower } else { &mut x.upper };
                    (0..list.len()).for_each(|i| to[i] = list[i] as i32);
                }
                "channels" => x.channels = self.number(value, name, 1, 256)? as u32,
                "pixels" => x.pixels = self.number(value, name, 1, 1024)? as u32,
                other => return self.unknown(key.span(), other, "lower, upper, channels and pixels"),
            }
        }
        Some(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Launch, Vec<Diagnostic>> {
        let head = "kernel = \"k\"\ngrid = [1]\nblock = [1]\n";
        Launch::parse(&format!("{head}{text}"), &mut |_| Err("no file".into()))
    }

    #[test]
    fn textures_and_tensor_maps() {
        let l = parse(
            r#"
[[array]]
name = "a"
size = [4, 2]
format = "u8"
channels = 2
data = { bytes = 16, fill = 3 }
out = "a.bin"
[[array]]
name = "b"
size = [8]
layers = 2
[[arg]]
buffer = { bytes = 1024 }
[[arg]]
texture = { array = "b", filter = "linear", address = ["wrap", "border"], normalized = true, border = [1, 0.5, 0, 1] }
[[arg]]
surface = { array = "a" }
[[arg]]
tensormap = { buffer = 0, offset = 64, type = "f16", dims = [32, 4], box = [8, 2], swizzle = 32, fill = "nan" }
[[bind]]
name = "s"
sampler = { mip_filter = "linear", levels = [0, 2] }
"#,
        )
        .unwrap();
        assert_eq!((l.arrays.len(), l.arrays[0].data.len(), l.arrays[1].data.len()), (2, 16, 64));
        let want = Sampler {
            linear: true,
            edge: [Edge::Wrap, Edge::Border, Edge::Clamp],
            normalized: true,
            border: [1.0, 0.5, 0.0, 1.0],
            ..Sampler::default()
        };
        assert_eq!(l.args[1], Arg::Object(Object::Texture(1, want)));
        assert_eq!(l.args[2], Arg::Object(Object::Surface(0)));
        let Arg::TensorMap { map, buffer: 0 } = l.args[3] else { panic!("{:?}", l.args[3]) };
        assert_eq!((map.rank, map.strides[0], map.address, map.swizzle), (2, 64, 64, Swizzle::B32));
        assert!(matches!(&l.binds[0], (name, Object::Sampler(s)) if name == "s" && s.levels == Some([0.0, 2.0])));
        assert_eq!(l.outputs(), [None, Some("a.bin"), None]);
    }

    #[test]
    fn mistakes() {
        for (text, message) in [
            ("[[array]]\nname = \"a\"", "an array has a name and a size"),
            ("[[array]]\nname = \"a\"\nsize = [2]\nformat = \"x\"", "'format' is one of unorm8"),
            ("[[array]]\nname = \"a\"\nsize = [2]\ndata = { bytes = 3 }", "3 bytes of texels where the array has 8"),
            ("[[arg]]\ntexture = { array = \"no\" }", "there is no array 'no'"),
            ("[[arg]]\nsurface = { array = \"no\", filter = \"linear\" }", "unknown key 'filter'"),
            ("[[arg]]\ntensormap = { buffer = 0 }", "a tensor map has a buffer"),
            (
                "[[arg]]\ntensormap = { buffer = 0, dims = [4], box = [4] }",
                "a tensor map whose box has rows of 4 bytes",
            ),
            ("[[arg]]\ntensormap = { buffer = 0, dims = [16], box = [16] }", "argument 0 is no buffer"),
            ("[[bind]]\nname = \"x\"", "[[bind]] has a name"),
        ] {
            let errors = parse(text).unwrap_err();
            assert!(errors[0].message.starts_with(message), "{text}: {}", errors[0].message);
        }
    }
}
