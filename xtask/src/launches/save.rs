//! Writes a made-up launch as a launch file, with the contents of memory beside it.

use sim::texture::{Format, Object};
use sim::{Arg, Launch};
use std::fmt::Write;
use std::path::Path;

/// Writes `NAME.ptx`, `NAME.toml` and the contents of its memory into a folder.
///
/// # Errors
/// A file cannot be written.
pub fn save(folder: &Path, name: &str, ptx: &Path, launch: &Launch) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    std::fs::copy(ptx, folder.join(format!("{name}.ptx"))).map_err(|e| e.to_string())?;
    let mut files = Vec::new();
    let text = text(launch, name, &mut files);
    for (file, data) in files {
        std::fs::write(folder.join(file), data).map_err(|e| e.to_string())?;
    }
    std::fs::write(folder.join(format!("{name}.toml")), text).map_err(|e| e.to_string())
}

/// The launch file, and the files that it names.
fn text<'l>(l: &'l Launch, name: &str, files: &mut Vec<(String, &'l [u8])>) -> String {
    let mut t = format!("kernel = {:?}\ngrid = {:?}\nblock = {:?}\nshared = {}\n", l.kernel, l.grid, l.block, l.shared);
    if let Some(c) = l.cluster {
        let _ = writeln!(t, "cluster = {c:?}");
    }
    // The argument or memory of that number.
    let place = |n: usize| match n.checked_sub(l.args.len()) {
        None => n.to_string(),
        Some(n) => format!("{:?}", l.memory[n].name),
    };
    for (i, arg) in l.args.iter().enumerate() {
        t += "\n[[arg]]\n";
        let _ = match arg {
            Arg::Value(bytes) => {
                let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
                writeln!(t, "bytes = \"{hex}\"")
            }
            Arg::Buffer { data, .. } => {
                files.push((format!("{name}.{i}.bin"), data));
                writeln!(t, "buffer = {{ file = \"{name}.{i}.bin\" }}\nout = \"{i}.out\"")
            }
            Arg::TensorMap { map, buffer } => {
                let ty = sim::tensormap::Type::ALL.iter().find(|t| t.0 == map.ty).map_or("u8", |t| t.1);
                let (r, swizzle) = (map.rank, map.swizzle.width());
                let (dims, boxes, strides) = (&map.dims[..r], &map.box_dims[..r], &map.strides[..r - 1]);
                let strides = if r > 1 { format!(", strides = {strides:?}") } else { String::new() };
                let place = place(*buffer);
                writeln!(
                    t,
                    "tensormap = {{ buffer = {place}, type = \"{ty}\", dims = {dims:?}, box = {boxes:?}{strides}, swizzle = {swizzle} }}"
                )
            }
            // The samplers that are made up are the usual ones.
            Arg::Object(Object::Texture(n, _)) => writeln!(t, "texture = {{ array = {:?} }}", l.arrays[*n].name),
            Arg::Object(Object::Surface(n)) => writeln!(t, "surface = {{ array = {:?} }}", l.arrays[*n].name),
            Arg::Object(Object::Sampler(_)) => writeln!(t, "sampler = {{}}"),
        };
    }
    for a in &l.arrays {
        let format = Format::ALL.iter().find(|f| f.0 == a.format).map_or("f32", |f| f.1);
        let size: Vec<u32> = a.size.iter().copied().filter(|&n| n > 0).collect();
        let layers = a.layers.map_or(String::new(), |n| format!("layers = {n}\n"));
        files.push((format!("{name}.{}.bin", a.name), &a.data));
        let _ = write!(
            t,
            "\n[[array]]\nname = \"{0}\"\nsize = {size:?}\n{layers}cube = {1}\nchannels = {2}\nformat = \"{format}\"\ndata = {{ file = \"{name}.{0}.bin\" }}\n",
            a.name, a.cube, a.channels
        );
    }
    for m in &l.memory {
        files.push((format!("{name}.{}.bin", m.name), &m.data));
        let _ = write!(
            t,
            "\n[[memory]]\nname = \"{0}\"\ndata = {{ file = \"{name}.{0}.bin\" }}\nout = \"{0}.out\"\n",
            m.name
        );
    }
    for p in &l.pointers {
        let _ = write!(t, "\n[[pointer]]\nin = {}\nat = {}\nto = {}\n", place(p.place), p.at, place(p.to));
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::launch::{Memory, Pointer};
    use sim::tensormap::{Swizzle, TensorMap, Type};
    use sim::texture::{Array, Sampler};

    #[test]
    fn what_is_written_is_read_again() {
        let map = TensorMap {
            ty: Type::F16,
            rank: 2,
            dims: [64, 8, 1, 1, 1],
            strides: [128, 0, 0, 0],
            box_dims: [32, 4, 1, 1, 1],
            swizzle: Swizzle::B64,
            ..TensorMap::default()
        };
        let memory = |name: &str| Memory { name: name.into(), data: vec![7; 1024], out: Some(format!("{name}.out")) };
        let launch = Launch {
            kernel: "k\u{e4}".into(),
            grid: [2, 1, 1],
            block: [32, 1, 1],
            cluster: Some([2, 1, 1]),
            shared: 64,
            args: vec![
                Arg::Value(vec![1; 16]),
                Arg::Buffer { data: vec![2; 8], out: Some("1.out".into()) },
                Arg::TensorMap { map, buffer: 5 },
                Arg::Object(Object::Texture(0, Sampler::default())),
            ],
            arrays: vec![Array {
                name: "x".into(),
                size: [4, 2, 0],
                layers: Some(2),
                levels: 1,
                samples: 1,
                channels: 4,
                format: Format::U8,
                data: vec![3; 64],
                ..Array::default()
            }],
            memory: vec![memory("a"), memory("b")],
            pointers: vec![Pointer { place: 0, at: 8, to: 4 }, Pointer { place: 4, at: 16, to: 1 }],
            ..Launch::default()
        };
        let mut files = Vec::new();
        let text = text(&launch, "n", &mut files);
        let read = Launch::parse(&text, &mut |f| {
            Ok(files.iter().find(|x| x.0 == f).map(|x| x.1.to_vec()).unwrap_or_default())
        });
        assert_eq!(read.unwrap(), launch);
    }
}
