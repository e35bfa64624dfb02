//! Textures, surfaces, values of 128 bits, multicast memory: instructions of the PTX interpreter whose results are computed here
//! by hand or by the formulas of the CUDA programming guide (appendix on texture fetching) for each texel.

use sim::texture::{Array, Edge, Format, Object, Sampler};
use sim::{Arg, Config, FaultKind, Launch};

const HEAD: &str = ".version 8.3\n.target sm_90\n.address_size 64\n";

fn run(text: &str, launch: &Launch) -> Result<Vec<Vec<u8>>, Box<sim::Fault>> {
    let (module, mut messages) = ptx::parse(text);
    messages.extend(ptx::check(&module, None));
    assert!(!messages.iter().any(|m| m.is_error()), "{messages:?}\n{text}");
    sim::run_ptx(&module, launch, &Config { max_instructions: 100_000, ..Config::default() }).map(|o| o.buffers)
}

/// A kernel in which each of 32 threads has 4 words (`%c0` to `%c3`) and leaves four (`%d0` to `%d3`), with handles `%t` and `%s`.
fn kernel(body: &str) -> String {
    format!(
        "{HEAD}.visible .entry k(.param .u64 t, .param .u64 s, .param .u64 in, .param .u64 out)\n{{\n\
         .reg .b64 %t, %s, %p, %q, %w<4>;\n.reg .b32 %me;\n.reg .f32 %c<4>, %f<8>;\n.reg .b32 %d<4>, %r<8>;\n.reg .b16 %h<4>;\n.reg .pred %yes;\n\
         ld.param.u64 %t, [t];\nld.param.u64 %s, [s];\nld.param.u64 %p, [in];\nld.param.u64 %q, [out];\nmov.u32 %me, %tid.x;\n\
         mad.wide.u32 %p, %me, 16, %p;\nmad.wide.u32 %q, %me, 16, %q;\nld.global.v4.f32 {{%c0, %c1, %c2, %c3}}, [%p];\n\
         mov.b32 %r0, %c0;\nmov.b32 %r1, %c1;\nmov.b32 %r2, %c2;\nmov.b32 %r3, %c3;\nmov.b32 %d0, 0;\nmov.b32 %d1, 0;\nmov.b32 %d2, 0;\nmov.b32 %d3, 0;\n\
         {body}\nst.global.v4.b32 [%q], {{%d0, %d1, %d2, %d3}};\nret;\n}}\n"
    )
}

fn launch(array: Array, t: Object, s: Object, input: &[[u32; 4]]) -> Launch {
    let data = input.iter().flatten().flat_map(|w| w.to_le_bytes()).collect();
    let buffer = |data: Vec<u8>| Arg::Buffer { data, out: None };
    Launch {
        kernel: "k".into(),
        grid: [1; 3],
        block: [input.len() as u32, 1, 1],
        args: vec![Arg::Object(t), Arg::Object(s), buffer(data), buffer(vec![0; 16 * input.len()])],
        arrays: vec![array],
        ..Launch::default()
    }
}

fn words(bytes: &[u8]) -> Vec<[u32; 4]> {
    let word = |c: &[u8], i: usize| u32::from_le_bytes(c[4 * i..4 * i + 4].try_into().unwrap());
    bytes.chunks_exact(16).map(|c| std::array::from_fn(|i| word(c, i))).collect()
}

/// Runs `body` for each input and gives the four words it leaves.
fn results(body: &str, array: Array, t: Object, input: &[[u32; 4]]) -> Vec<[u32; 4]> {
    let l = launch(array, t, Object::Sampler(Sampler::default()), input);
    let text = kernel(body);
    words(&run(&text, &l).unwrap_or_else(|f| panic!("{f}\n{body}"))[1])
}

fn floats(v: [f32; 4]) -> [u32; 4] {
    v.map(f32::to_bits)
}

fn array(size: [u32; 3], channels: u32, format: Format, data: Vec<u8>) -> Array {
    Array { name: "image".into(), size, levels: 1, samples: 1, channels, format, data, ..Array::default() }
}

/// A single-component float array whose texels are numbered.
fn numbered(size: [u32; 3]) -> Array {
    let n: u32 = size.iter().map(|s| (*s).max(1)).product();
    array(size, 1, Format::F32, (0..n).flat_map(|x| (x as f32).to_le_bytes()).collect())
}

/// `tex.1d/2d/3d` with float coordinates: nearest, and linear by the guide's formula with 1.8 fractions.
#[test]
fn filters() {
    let moves = "mov.b32 %d0, %f0;\nmov.b32 %d1, %f1;\nmov.b32 %d2, %f2;\nmov.b32 %d3, %f3;";
    // Coordinates in texels, in and around an array of 4 x 3 x 2.
    let list: Vec<[f32; 4]> =
        (0..32).map(|i| [i as f32 * 0.2109375 - 1.0, i as f32 * 0.17 - 0.6, i as f32 * 0.11 - 0.5, 0.0]).collect();
    let input: Vec<[u32; 4]> = list.iter().map(|&c| floats(c)).collect();
    for dims in 1..=3usize {
        let mut size = [4, 3, 2];
        size[dims..].fill(0);
        let coordinates = ["%c0", "%c0, %c1", "%c0, %c1, %c2, %c3"][dims - 1];
        let body = format!("tex.{dims}d.v4.f32.f32 {{%f0, %f1, %f2, %f3}}, [%t, {{{coordinates}}}];\n{moves}");
        let side = |i: usize| size[i].max(1) as i64;
        let texel = |n: [i64; 3]| -> f64 {
            // Clamped to the edge.
            let at = |i: usize| n[i].clamp(0, side(i) - 1);
            ((at(2) * side(1) + at(1)) * side(0) + at(0)) as f64
        };
        for linear in [false, true] {
            let s = Sampler { linear, ..Sampler::default() };
            let got = results(&body, numbered(size), Object::Texture(0, s), &input);
            for (c, got) in list.iter().zip(got) {
                let mut want = 0.0;
                if linear {
                    for corner in 0..1 << dims {
                        let (mut n, mut weight) = ([0i64; 3], 1.0);
                        for i in 0..dims {
                            let x = c[i] as f64 - 0.5;
                            let part = ((x - x.floor()) * 256.0).round() / 256.0;
                            let up = corner >> i & 1;
                            n[i] = x.floor() as i64 + up;
                            weight *= if up == 1 { part } else { 1.0 - part };
                        }
                        want += weight * texel(n);
                    }
                } else {
                    let n = std::array::from_fn(|i| if i < dims { c[i].floor() as i64 } else { 0 });
                    want = texel(n);
                }
                // Components that the array lacks are 0, 0, 1.
                assert_eq!(got, floats([want as f32, 0.0, 0.0, 1.0]), "{dims}d {linear} {c:?}");
            }
        }
    }
}

/// What becomes of coordinates beyond the edges, by the guide's table; normalised coordinates of a row of four.
#[test]
fn address_modes() {
    let body = "tex.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%c0}];\nmov.b32 %d0, %f0;";
    let input: Vec<[u32; 4]> = [-0.9f32, -0.1, 0.1, 0.9, 1.1, 1.9, 2.1].map(|x| floats([x, 0.0, 0.0, 0.0])).to_vec();
    for (edge, want) in [
        (Edge::Wrap, [0., 3., 0., 3., 0., 3., 0.]),
        (Edge::Mirror, [3., 0., 0., 3., 3., 0., 0.]),
        (Edge::Clamp, [0., 0., 0., 3., 3., 3., 3.]),
        (Edge::Border, [9., 9., 0., 3., 9., 9., 9.]),
    ] {
        let s = Sampler { edge: [edge; 3], normalized: true, border: [9.0; 4], ..Sampler::default() };
        let got = results(body, numbered([4, 0, 0]), Object::Texture(0, s), &input);
        assert_eq!(got.iter().map(|g| f32::from_bits(g[0])).collect::<Vec<_>>(), want, "{edge:?}");
    }
}

/// Formats, and integer coordinates; `.u32` and `.s32` read integers, `.f16` and `.f16x2` convert.
#[test]
fn formats() {
    let bytes = |v: &[u8]| v.to_vec();
    let one = [[0, 0, 0, 0], [1, 0, 0, 0]];
    let v4 = |t: &str| format!("tex.1d.v4.{t}.s32 {{%d0, %d1, %d2, %d3}}, [%t, {{%r0}}];");
    let t = Object::Texture(0, Sampler::default());
    let got = results(&v4("u32"), array([2, 0, 0], 4, Format::U8, bytes(&[1, 2, 254, 255, 5, 6, 7, 8])), t, &one);
    assert_eq!(got, [[1, 2, 254, 255], [5, 6, 7, 8]]);
    let got = results(&v4("s32"), array([2, 0, 0], 2, Format::S8, bytes(&[0x80, 0x7f, 0xff, 1])), t, &one);
    assert_eq!(got, [[-128i32 as u32, 127, 0, 1], [u32::MAX, 1, 0, 1]]);
    let float = "tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [%t, {%r0}];\nmov.b32 %d0, %f0;\nmov.b32 %d1, %f1;\nmov.b32 %d2, %f2;\nmov.b32 %d3, %f3;";
    let got = results(float, array([2, 0, 0], 4, Format::Unorm8, bytes(&[0, 51, 255, 102, 1, 2, 3, 4])), t, &one);
    assert_eq!(got[0], floats([0.0, 0.2, 1.0, 0.4]));
    let got = results(float, array([2, 0, 0], 1, Format::Snorm16, bytes(&[0, 0x80, 0xff, 0x7f])), t, &one);
    assert_eq!([got[0], got[1]], [floats([-1.0, 0.0, 0.0, 1.0]), floats([1.0, 0.0, 0.0, 1.0])]);
    let half =
        "tex.1d.v4.f16.s32 {%h0, %h1, %h2, %h3}, [%t, {%r0}];\nmov.b32 %d0, {%h0, %h1};\nmov.b32 %d1, {%h2, %h3};";
    let image = array([2, 0, 0], 2, Format::F16, bytes(&[0, 0x3e, 0, 0xc0, 0, 0, 0, 0x3c]));
    assert_eq!(results(half, image.clone(), t, &one)[0], [0xc000_3e00, 0x3c00_0000, 0, 0]);
    let pairs = "tex.1d.v2.f16x2.s32 {%d0, %d1}, [%t, {%r0}];";
    assert_eq!(results(pairs, image, t, &one)[1], [0x3c00_0000, 0x3c00_0000, 0, 0]);
    // Integers are not read as floats.
    let l = launch(array([2, 0, 0], 1, Format::U8, bytes(&[1, 2])), t, t, &one);
    let f = run(&kernel(float), &l).unwrap_err();
    assert!(f.message.contains("integers"), "{f}");
}

/// Levels: by number, by gradients, base; each half as large. Values of level n begin at 100 n.
#[test]
fn levels_of_detail() {
    let data =
        [(0, 8), (100, 4), (200, 2), (300, 1)].iter().flat_map(|&(first, n)| (first..first + n).map(|x| x as f32));
    let image = || Array {
        levels: 4,
        data: data.clone().flat_map(|x: f32| x.to_le_bytes()).collect(),
        ..array([8, 0, 0], 1, Format::F32, vec![])
    };
    let point = Sampler { normalized: true, ..Sampler::default() };
    let both = Sampler { linear_levels: true, ..point };
    // x, level
    let input = [[0.3f32, 0.0], [0.3, 0.49], [0.3, 0.5], [0.3, 2.0], [0.9, 7.0], [0.9, -3.0], [0.3, 1.25]];
    let input: Vec<[u32; 4]> = input.iter().map(|c| floats([c[0], c[1], 0.0, 0.0])).collect();
    let level = "tex.level.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%c0}], %c1;\nmov.b32 %d0, %f0;";
    let first = |got: Vec<[u32; 4]>| got.iter().map(|g| f32::from_bits(g[0])).collect::<Vec<_>>();
    let got = first(results(level, image(), Object::Texture(0, point), &input));
    assert_eq!(got, [2., 2., 101., 200., 300., 7., 101.]);
    let got = first(results(level, image(), Object::Texture(0, both), &input));
    // 0.49 is 125/256: 2 and 101; 1.25: 101 and 200.
    assert_eq!(got[1], ((131.0 * 2.0 + 125.0 * 101.0) / 256.0) as f32);
    assert_eq!(got[6], 0.75 * 101.0 + 0.25 * 200.0);
    let base = "tex.base.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%c0}];\nmov.b32 %d0, %f0;";
    assert_eq!(first(results(base, image(), Object::Texture(0, point), &input))[3], 2.0);
    // A gradient of 4 texels is level 2, the larger counts.
    let grad = "mov.f32 %f4, 0f3F000000;\nmov.f32 %f5, 0f3DCCCCCD;\ntex.grad.1d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [%t, {%c0}], {%f5}, {%f4};\nmov.b32 %d0, %f0;";
    assert_eq!(first(results(grad, image(), Object::Texture(0, point), &input))[0], 200.0);
    let clamped = Sampler { levels: Some([1.0, 1.0]), ..point };
    assert_eq!(first(results(level, image(), Object::Texture(0, clamped), &input))[3], 101.0);
}

/// Layers, cubes, samples, offsets, and the independent mode with a sampler of its own.
#[test]
fn geometries() {
    let moves = "mov.b32 %d0, %f0;";
    let t = Object::Texture(0, Sampler::default());
    let first = |got: Vec<[u32; 4]>| got.iter().map(|g| f32::from_bits(g[0])).collect::<Vec<_>>();
    let layers = Array { layers: Some(3), data: numbered([2, 2, 3]).data, ..numbered([2, 2, 0]) };
    let body = format!("tex.a2d.v4.f32.f32 {{%f0, %f1, %f2, %f3}}, [%t, {{%r0, %c1, %c2, %c3}}];\n{moves}");
    let at = |layer: u32, x: f32, y: f32| [layer, x.to_bits(), y.to_bits(), 0];
    let got = first(results(&body, layers, t, &[at(0, 0.5, 1.5), at(1, 1.5, 0.5), at(2, 1.5, 1.5), at(9, 0.0, 0.0)]));
    assert_eq!(got, [2., 5., 11., 8.]);
    let cube = Array { cube: true, data: numbered([2, 2, 6]).data, ..numbered([2, 2, 0]) };
    let body = format!("tex.cube.v4.f32.f32 {{%f0, %f1, %f2, %f3}}, [%t, {{%c0, %c1, %c2, %c3}}];\n{moves}");
    // Directions near the axes; on face +x: s = -z, t = -y, so that (1, 0.5, 0.5) is upper left.
    let list = [[1., 0.5, 0.5], [-1., 0.5, 0.5], [0.5, 1., 0.5], [0.5, -1., 0.5], [0.5, 0.5, 1.], [0.5, 0.5, -1.]];
    let input: Vec<[u32; 4]> = list.iter().map(|d: &[f32; 3]| floats([d[0], d[1], d[2], 0.0])).collect();
    let got = first(results(&body, cube, t, &input));
    assert_eq!(got, [0., 5., 11., 13., 17., 20.]);
    let ms = Array { samples: 2, data: numbered([2, 2, 2]).data, ..numbered([2, 2, 0]) };
    let body = format!("tex.2dms.v4.f32.s32 {{%f0, %f1, %f2, %f3}}, [%t, {{%r0, %r1, %r2, %r3}}];\n{moves}");
    assert_eq!(first(results(&body, ms, t, &[[0, 1, 1, 0], [1, 0, 1, 0]])), [3., 6.]);
    let body = format!("tex.2d.v4.f32.f32 {{%f0, %f1, %f2, %f3}}, [%t, {{%c0, %c1}}], {{1, -1}};\n{moves}");
    assert_eq!(first(results(&body, numbered([4, 4, 0]), t, &[floats([1.5, 2.5, 0.0, 0.0])])), [6.0]);
    // A sampler beside the texture, and references that the launch binds.
    let text = format!(
        "{}.global .texref image;\n.global .samplerref how;\n{}",
        HEAD.replace("sm_90\n", "sm_90, texmode_independent\n"),
        kernel(&format!("tex.1d.v4.f32.f32 {{%f0, %f1, %f2, %f3}}, [image, how, {{%c0}}];\n{moves}"))
            .strip_prefix(HEAD)
            .unwrap()
    );
    let s = Sampler { linear: true, ..Sampler::default() };
    let mut l = launch(numbered([4, 0, 0]), t, t, &[floats([2.0, 0.0, 0.0, 0.0])]);
    l.binds = vec![("image".into(), Object::Texture(0, Sampler::default())), ("how".into(), Object::Sampler(s))];
    assert_eq!(first(words(&run(&text, &l).unwrap()[1])), [1.5]);
    l.binds.clear();
    assert!(run(&text, &l).unwrap_err().message.contains("binds nothing to 'image'"));
}

/// `tld4`: one component of the four texels around a point, counter-clockwise from the lower left.
#[test]
fn gathers() {
    let data: Vec<u8> = (0..12).flat_map(|n| [n, 100 + n]).collect();
    let image = array([4, 3, 0], 2, Format::U8, data);
    let t = Object::Texture(0, Sampler::default());
    for (c, first) in [("r", 0), ("g", 100)] {
        let body = format!("tld4.{c}.2d.v4.u32.f32 {{%d0, %d1, %d2, %d3}}, [%t, {{%c0, %c1}}];");
        let got = results(&body, image.clone(), t, &[floats([2.1, 1.2, 0.0, 0.0]), floats([0.0, 0.0, 0.0, 0.0])]);
        // Around (2.1, 1.2): columns 1 and 2, rows 0 and 1.
        assert_eq!(got, [[5, 6, 2, 1].map(|n| first + n), [first; 4]]);
    }
}

#[test]
fn queries() {
    let image = Array { layers: Some(6), levels: 3, ..array([8, 4, 0], 2, Format::F16, vec![0; (32 + 8 + 2) * 6 * 4]) };
    let s = Sampler {
        linear: true,
        normalized: true,
        edge: [Edge::Wrap, Edge::Border, Edge::Mirror],
        ..Sampler::default()
    };
    let body = "txq.width.b32 %d0, [%t];\ntxq.height.b32 %d1, [%t];\ntxq.array_size.b32 %d2, [%t];\ntxq.num_mipmap_levels.b32 %d3, [%t];";
    let t = Object::Texture(0, s);
    assert_eq!(results(body, image.clone(), t, &[[0; 4]]), [[8, 4, 6, 3]]);
    let body = "txq.channel_data_type.b32 %d0, [%t];\ntxq.channel_order.b32 %d1, [%t];\ntxq.normalized_coords.b32 %d2, [%t];\ntxq.filter_mode.b32 %d3, [%t];";
    assert_eq!(results(body, image.clone(), t, &[[0; 4]]), [[0x10dd, 0x10b2, 1, 1]]);
    let body = "txq.addr_mode_0.b32 %d0, [%t];\ntxq.addr_mode_1.b32 %d1, [%t];\ntxq.level.width.b32 %d2, [%t], 2;\ntxq.level.height.b32 %d3, [%t], 1;";
    assert_eq!(results(body, image.clone(), t, &[[0; 4]]), [[0, 4, 2, 2]]);
    let body = "suq.width.b32 %d0, [%t];\nsuq.channel_data_type.b32 %d1, [%t];\nsuq.array_size.b32 %d2, [%t];\nsuq.channel_order.b32 %d3, [%t];";
    assert_eq!(results(body, image.clone(), Object::Surface(0), &[[0; 4]]), [[8, 0x10dd, 6, 0x10b2]]);
    let body = ["texref", "samplerref", "surfref"]
        .iter()
        .enumerate()
        .fold(String::new(), |t, (i, kind)| t + &format!("istypep.{kind} %yes, %t;\nselp.u32 %d{i}, 1, 0, %yes;\n"));
    assert_eq!(results(&body, image.clone(), Object::Texture(0, s), &[[0; 4]]), [[1, 0, 0, 0]]);
    assert_eq!(results(&body, image.clone(), Object::Sampler(s), &[[0; 4]]), [[0, 1, 0, 0]]);
    assert_eq!(results(&body, image, Object::Surface(0), &[[0; 4]]), [[0, 0, 1, 0]]);
}

/// Loads and stores by bytes, in the format of the surface, and reductions; what lies beyond the edges.
#[test]
fn surfaces() {
    let image = || array([4, 2, 0], 2, Format::U16, (0..32).collect());
    let go = |body: &str, image: Array, input: &[[u32; 4]]| {
        let t = Object::Surface(0);
        let l = launch(image, t, Object::Sampler(Sampler::default()), input);
        run(&kernel(body), &l).map(|b| (words(&b[1]), b[2].clone()))
    };
    // x counts bytes: 4 is the second texel.
    let load = "suld.b.2d.v2.b16.trap {%h0, %h1}, [%t, {%r0, %r1}];\nmov.b32 %d0, {%h0, %h1};\nsuld.b.2d.b32.zero %d1, [%t, {%r0, %r2}];\nsuld.b.2d.b32.clamp %d2, [%t, {%r3, %r2}];";
    let (got, _) = go(load, image(), &[[4, 1, 5, 400]]).unwrap();
    assert_eq!(got, [[0x1716_1514, 0, 0x1f1e_1d1c, 0]]);
    let f = go(load, image(), &[[16, 1, 0, 0]]).unwrap_err();
    assert_eq!(f.kind, FaultKind::OutOfBounds, "{f}");
    let f = go(load, image(), &[[2, 1, 0, 0]]).unwrap_err();
    assert_eq!(f.kind, FaultKind::Misaligned, "{f}");
    let store = "sust.b.2d.v2.b32.trap [%t, {%r0, %r1}], {%r2, %r3};\nsust.b.2d.b32.zero [%t, {-4, 0}], %r2;\nsust.b.2d.b32.clamp [%t, {12, 9}], 7;";
    let (_, after) = go(store, image(), &[[8, 0, 0xaabb_ccdd, 0x1122_3344]]).unwrap();
    let mut want: Vec<u8> = (0..32).collect();
    want[8..16].copy_from_slice(&[0xdd, 0xcc, 0xbb, 0xaa, 0x44, 0x33, 0x22, 0x11]);
    want[28..32].copy_from_slice(&[7, 0, 0, 0]);
    assert_eq!(after, want);
    // Formatted: integers saturate, floats are converted; x counts texels.
    let formatted = "sust.p.2d.v2.b32.trap [%t, {%r0, %r1}], {%r2, %r3};";
    let (_, after) = go(formatted, image(), &[[3, 1, 70000, 5]]).unwrap();
    assert_eq!(after[28..32], [0xff, 0xff, 5, 0]);
    let unorm = array([2, 1, 0], 4, Format::Unorm8, vec![9; 8]);
    let four = "sust.p.2d.v4.b32.trap [%t, {1, 0}], {%r0, %r1, %r2, %r3};";
    let (_, after) = go(four, unorm, &[floats([0.5, 2.0, -1.0, 0.2])]).unwrap();
    assert_eq!(after, [9, 9, 9, 9, 128, 255, 0, 51]);
    // Reductions by all threads on one word.
    let reduce = "sured.b.add.1d.u32.trap [%t, {4}], %r0;\nsured.b.max.1d.s32.trap [%t, {8}], %r1;\nsured.b.or.1d.b32.trap [%t, {12}], %r2;\nsured.p.min.1d.b32.trap [%t, {0}], %r1;";
    let data: Vec<u8> = [5i32, 10, -100, 1].iter().flat_map(|x| x.to_le_bytes()).collect();
    let input: Vec<[u32; 4]> = (1..=8).map(|n| [n, (-(n as i32)) as u32, 1 << n, 0]).collect();
    let (_, after) = go(reduce, array([4, 0, 0], 1, Format::S32, data), &input).unwrap();
    let after: Vec<i32> = after.chunks(4).map(|c| i32::from_le_bytes(c.try_into().unwrap())).collect();
    assert_eq!(after, [-8, 10 + 36, -1, 0x1ff]);
    // Layers.
    let layers = Array { layers: Some(2), ..array([2, 0, 0], 1, Format::U32, vec![0; 16]) };
    let (_, after) = go("sust.b.a1d.b32.trap [%t, {%r0, %r1}], %r2;", layers, &[[1, 4, 77, 0]]).unwrap();
    assert_eq!(after[12..], [77, 0, 0, 0]);
    let f = go("mov.b64 %t, 12345;\nsuld.b.1d.b32.trap %d0, [%t, {0}];", image(), &[[0; 4]]).unwrap_err();
    assert!(f.message.contains("no handle"), "{f}");
}

fn plain(body: &str, input: &[[u32; 4]]) -> Vec<[u32; 4]> {
    let t = Object::Sampler(Sampler::default());
    let l = launch(numbered([1, 0, 0]), t, t, input);
    words(&run(&kernel(body), &l).unwrap_or_else(|f| panic!("{f}\n{body}"))[1])
}

/// Values of 128 bits, and vectors.
#[test]
fn wide_values() {
    let body = ".reg .b128 %x, %y, %z;\n.shared .align 16 .b8 m[32];\n.reg .b64 %a;\n\
        mov.b64 %w0, {%r0, %r1};\nmov.b64 %w1, {%r2, %r3};\nmov.b128 %x, {%w0, %w1};\nst.shared.b128 [m], %x;\nld.shared.b128 %y, [m];\n\
        mov.b128 {%w2, %w3}, %y;\nmov.b64 {%d0, %d1}, %w3;\nmov.b64 {%d2, %d3}, %w2;";
    assert_eq!(plain(body, &[[1, 2, 3, 4]]), [[3, 4, 1, 2]]);
    // Compare and swap: only where both halves are equal; then exchange.
    let body = ".reg .b128 %x, %y, %z;\n.shared .align 16 .b8 m[16];\n\
        mov.b64 %w0, {%r0, %r1};\nmov.b64 %w1, {%r2, %r3};\nmov.b128 %x, {%w0, %w1};\nst.shared.b128 [m], %x;\nmov.b128 %y, {%w1, %w0};\n\
        atom.shared.cas.b128 %z, [m], %y, %y;\natom.shared.cas.b128 %z, [m], %x, %y;\natom.shared.exch.b128 %z, [m], %x;\n\
        mov.b128 {%w2, %w3}, %z;\nmov.b64 {%d0, %d1}, %w2;\nmov.b64 {%d2, %d3}, %w3;";
    assert_eq!(plain(body, &[[1, 2, 3, 4]]), [[3, 4, 1, 2]]);
    // A swap by a vector move.
    let body = "mov.v2.b32 {%r0, %r1}, {%r1, %r0};\nmov.v4.b32 {%d0, %d1, %d2, %d3}, {%r0, %r1, %r2, %r3};";
    assert_eq!(plain(body, &[[1, 2, 3, 4]]), [[2, 1, 3, 4]]);
}

/// `set` of pairs of halves: 1.0, or 0xffff where the result is an integer, in each half.
#[test]
fn comparisons_of_pairs() {
    // 1.0 and 2.0 against 2.0 and 2.0.
    let input = [[0x4000_3c00, 0x4000_4000, 0, 0]];
    let body = "set.lt.f16x2.f16x2 %d0, %r0, %r1;\nset.ge.u32.f16x2 %d1, %r0, %r1;\nsetp.eq.u32 %yes, %r2, 1;\nset.eq.or.f16x2.f16x2 %d2, %r0, %r1, %yes;\nset.le.and.s32.f16x2 %d3, %r0, %r1, %yes;";
    assert_eq!(plain(body, &input), [[0x0000_3c00, 0xffff_0000, 0x3c00_0000, 0]]);
    let input = [[0x4000_3f80, 0x3f80_3f80, 0, 0]];
    let body = "set.gt.bf16x2.bf16x2 %d0, %r0, %r1;\nset.eq.s32.bf16x2 %d1, %r0, %r1;";
    assert_eq!(plain(body, &input), [[0x3f80_0000, 0xffff, 0, 0]]);
}

/// A multicast address of a team of one device is its memory.
#[test]
fn multicast_memory() {
    let body = "multimem.st.relaxed.gpu.global.u32 [%q], %r0;\nmultimem.red.relaxed.gpu.global.add.u32 [%q], 5;\n\
        multimem.ld_reduce.relaxed.gpu.global.add.u32 %d0, [%q];\nmultimem.red.relaxed.gpu.global.max.s32 [%q], 40;\n\
        multimem.ld_reduce.relaxed.gpu.global.min.s32 %d1, [%q];\nmultimem.st.weak.global.v4.f32 [%q], {%c0, %c1, %c2, %c3};\n\
        multimem.red.relaxed.gpu.global.add.v4.f32 [%q], {%c3, %c2, %c1, %c0};\nmultimem.ld_reduce.relaxed.gpu.global.add.v4.f32 {%f0, %f1, %f2, %f3}, [%q];\n\
        mov.b32 %d2, %f1;\nmov.b32 %d3, %f3;";
    let text = kernel(body).replace(".target sm_90\n", ".target sm_90a\n");
    let t = Object::Sampler(Sampler::default());
    let input = [[3u32, 1.5f32.to_bits(), 2.25f32.to_bits(), 0.5f32.to_bits()]];
    let l = launch(numbered([1, 0, 0]), t, t, &input);
    let got = words(&run(&text, &l).unwrap_or_else(|f| panic!("{f}"))[1]);
    // The fourth sum has the denormal 3, which float addition in global memory flushes.
    assert_eq!(got, [[8, 40, 3.75f32.to_bits(), 0.5f32.to_bits()]]);
    // Copies in bulk from shared memory, plain and adding.
    let body = ".shared .align 16 .b8 m[16];\nst.shared.v4.b32 [m], {%r0, %r1, %r2, %r3};\nfence.proxy.async;\n\
        multimem.cp.async.bulk.global.shared::cta.bulk_group [%q], [m], 16;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n\
        multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%q], [m], 16;\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n\
        ld.global.v4.b32 {%d0, %d1, %d2, %d3}, [%q];";
    let text = kernel(body).replace(".version 8.3", ".version 9.1");
    let l = launch(numbered([1, 0, 0]), t, t, &[[1, 20, 300, 4000]]);
    assert_eq!(words(&run(&text, &l).unwrap_or_else(|f| panic!("{f}"))[1]), [[2, 40, 600, 8000]]);
}
