//! Tensor copies and tensor maps in the PTX interpreter. Expected values: each element of a box is looked up by the formulas of
//! section 5.5 of the PTX ISA (coordinates, traversal strides, bounds, im2col), one by one, and put where the tables of swizzling
//! patterns have it.

mod common;

use sim::tensormap::{Im2col, Interleave, Swizzle, TensorMap, Type};
use sim::{Arg, Config, FaultKind, Launch};
use testkit::Random;

const SHARED: usize = 32 * 1024;

fn run(text: &str, cluster: u32, args: Vec<Arg>) -> Result<Vec<Vec<u8>>, Box<sim::Fault>> {
    let (module, mut messages) = ptx::parse(text);
    messages.extend(ptx::check(&module, None));
    assert!(!messages.iter().any(|m| m.is_error()), "{messages:?}\n{text}");
    let launch = Launch {
        kernel: "k".into(),
        grid: [cluster, 1, 1],
        block: [32, 1, 1],
        cluster: (cluster > 1).then_some([cluster, 1, 1]),
        shared: SHARED as u32 + 1024,
        args,
        ..Launch::default()
    };
    let config = Config { max_instructions: 1_000_000, ..Config::default() };
    let done = sim::run_ptx(&module, &launch, &config)?.buffers;
    common::witness(text, &launch, &done);
    Ok(done)
}

/// A kernel: shared memory from a buffer, `body` by the first thread (`%sm`: shared memory, `%bar`: an mbarrier), shared memory to
/// a buffer. `%map` is the address of the map, `%c0` to `%c4` are its coordinates.
fn kernel(body: &str) -> String {
    let coordinates: String = (0..5).map(|i| format!("ld.param.b32 %c{i}, [c+{}];\n", 4 * i)).collect();
    format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 s[];\n.shared .align 8 .b64 bar;\n.shared .align 128 .b8 obj[128];\n\
         .visible .entry k(.param .align 64 .b8 map[128], .param .align 4 .b8 c[20], .param .u64 in, .param .u64 out, .param .u64 tensor)\n{{\n\
         .reg .b64 %map, %p, %q, %t, %d, %v64;\n.reg .b32 %c<5>, %me, %i, %sm, %bar, %v, %at, %obj, %rank;\n.reg .b16 %h;\n.reg .pred %one, %more;\n\
         mov.b64 %t, map;\ncvta.param.u64 %map, %t;\n{coordinates}ld.param.u64 %p, [in];\nld.param.u64 %q, [out];\n\
         mov.u32 %me, %tid.x;\nmov.u32 %sm, s;\nmov.u32 %bar, bar;\nmov.u32 %obj, obj;\nmov.u32 %rank, %cluster_ctarank;\nmul.lo.u32 %i, %me, 8;\n\
         IN:\nadd.u32 %at, %sm, %i;\ncvt.u64.u32 %t, %i;\nadd.u64 %t, %p, %t;\nld.global.b64 %v64, [%t];\nst.shared.b64 [%at], %v64;\n\
         add.u32 %i, %i, 256;\nsetp.lt.u32 %more, %i, {SHARED};\n@%more bra IN;\n\
         setp.eq.u32 %one, %me, 0;\n@!%one bra READY;\nmbarrier.init.shared.b64 [%bar], 1;\nREADY:\nfence.proxy.async;\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n\
         @!%one bra DONE;\n{body}\nDONE:\nbarrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n\
         mul.wide.u32 %t, %rank, {SHARED};\nadd.u64 %q, %q, %t;\nmul.lo.u32 %i, %me, 8;\n\
         OUT:\nadd.u32 %at, %sm, %i;\ncvt.u64.u32 %t, %i;\nadd.u64 %t, %q, %t;\nld.shared.b64 %v64, [%at];\nst.global.b64 [%t], %v64;\n\
         add.u32 %i, %i, 256;\nsetp.lt.u32 %more, %i, {SHARED};\n@%more bra OUT;\nret;\n}}\n"
    )
}

/// A load that is waited for.
fn load(instruction: &str, bytes: u32) -> String {
    format!(
        "mbarrier.arrive.expect_tx.shared.b64 _, [%bar], {bytes};\n{instruction}\n\
         WAIT:\nmbarrier.try_wait.parity.shared.b64 %more, [%bar], 0;\n@!%more bra WAIT;"
    )
}

fn braces(rank: usize) -> String {
    format!("{{{}}}", (0..rank).map(|i| format!("%c{i}")).collect::<Vec<_>>().join(", "))
}

fn args(map: &TensorMap, c: &[i32], shared: Vec<u8>, tensor: Vec<u8>, ctas: usize) -> Vec<Arg> {
    let coordinates = (0..5).flat_map(|i| c.get(i).copied().unwrap_or(0).to_le_bytes()).collect();
    vec![
        Arg::TensorMap { map: *map, buffer: 4 },
        Arg::Value(coordinates),
        Arg::Buffer { data: shared, out: None },
        Arg::Buffer { data: vec![0; ctas * SHARED], out: None },
        Arg::Buffer { data: tensor, out: None },
    ]
}

/// Where a byte of a box comes to lie: piece `p` of line `n` of 128 bytes goes to `p` xor the low bits of `n`.
fn swizzled(s: Swizzle, at: usize) -> usize {
    let pieces = match s {
        Swizzle::None => return at,
        Swizzle::B32 => 2,
        Swizzle::B64 => 4,
        Swizzle::B128 => 8,
    };
    let (line, piece) = (at / 128, at / 16 % 8);
    line * 128 + (piece ^ (line % pieces)) * 16 + at % 16
}

/// Index of an element in the tensor's bytes, if it is inside; without interleaving.
fn element(m: &TensorMap, at: &[i64]) -> Option<usize> {
    let inside = at.iter().zip(&m.dims).all(|(&x, &d)| x >= 0 && (x as u64) < d);
    let size = m.ty.bytes() as usize;
    inside.then(|| {
        let rows: usize = (1..m.rank).map(|i| at[i] as usize * m.strides[i - 1] as usize).sum();
        m.address as usize + at[0] as usize * size + rows
    })
}

/// A list of what a tile moves: place in the box (before the swizzle) and in the tensor.
fn tile(m: &TensorMap, c: &[i32]) -> Vec<(usize, Option<usize>)> {
    let size = m.ty.bytes() as usize;
    let step = |i: usize| if i == 0 { 1 } else { m.steps[i] as usize };
    let count: Vec<usize> = (0..m.rank).map(|i| (m.box_dims[i] as usize).div_ceil(step(i))).collect();
    let width = [0, 32, 64, 128][m.swizzle as usize];
    let pitch = (count[0] * size).max(width);
    let mut list = Vec::new();
    for n in 0..count.iter().product() {
        let mut rest: usize = n;
        let index: Vec<usize> = count
            .iter()
            .map(|&d| {
                let i = rest % d;
                rest /= d;
                i
            })
            .collect();
        let at: Vec<i64> = (0..m.rank).map(|i| c[i] as i64 + (index[i] * step(i)) as i64).collect();
        list.push((n / count[0] * pitch + index[0] * size, element(m, &at)));
    }
    list
}

/// The same of an im2col map: pixels of the box in order, `channels` each.
fn column(m: &TensorMap, x: &Im2col, c: &[i32], offsets: &[i64]) -> Vec<(usize, Option<usize>)> {
    let size = m.ty.bytes() as usize;
    let spatial = m.rank - 2;
    // All pixels of the boxes of all images from the first on.
    let mut pixels: Vec<Vec<i64>> = vec![vec![]];
    for d in (1..m.rank).rev() {
        let range: Vec<i64> = if d == m.rank - 1 {
            (c[d] as i64..c[d] as i64 + 8).collect()
        } else {
            let (low, high) = (x.lower[d - 1] as i64, m.dims[d] as i64 - 1 + x.upper[d - 1] as i64);
            (low..=high).step_by(m.steps[d] as usize).collect()
        };
        pixels = pixels.iter().flat_map(|p| range.iter().map(|&i| [vec![i], p.clone()].concat())).collect();
    }
    let first: Vec<i64> = c[1..].iter().map(|&i| i as i64).collect();
    let start = pixels.iter().position(|p| *p == first).expect("the first pixel is in the box");
    let mut list = Vec::new();
    for (n, pixel) in pixels[start..].iter().take(x.pixels as usize).enumerate() {
        for channel in 0..x.channels as usize {
            let mut at = vec![c[0] as i64 + channel as i64];
            at.extend((0..pixel.len()).map(|i| pixel[i] + if i < spatial { offsets[i] } else { 0 }));
            list.push(((n * x.channels as usize + channel) * size, element(m, &at)));
        }
    }
    list
}

fn map(rank: usize, ty: Type, dims: [u64; 5], box_dims: [u32; 5], gap: u64) -> TensorMap {
    let mut m = TensorMap { ty, rank, dims, box_dims, ..TensorMap::default() };
    let mut stride = (dims[0] * ty.bytes() as u64).next_multiple_of(16);
    for i in 0..rank - 1 {
        m.strides[i] = stride + gap;
        stride = m.strides[i] * dims[i + 1];
    }
    m
}

fn bytes_of(m: &TensorMap) -> usize {
    let last = m.rank - 1;
    let n = if last == 0 { m.dims[0] * m.ty.bytes() as u64 } else { m.strides[last - 1] * m.dims[last] };
    m.address as usize + n as usize
}

/// What shared memory holds after the load of a list.
fn loaded(m: &TensorMap, list: &[(usize, Option<usize>)], before: &[u8], tensor: &[u8], base: usize) -> Vec<u8> {
    let size = m.ty.bytes() as usize;
    let mut want = before.to_vec();
    for &(at, from) in list {
        let to = base + swizzled(m.swizzle, at);
        let zero = vec![0; size];
        want[to..to + size].copy_from_slice(from.map_or(&zero[..], |a| &tensor[a..a + size]));
    }
    want
}

fn check_load(m: &TensorMap, c: &[i32], instruction: &str, list: &[(usize, Option<usize>)], random: &mut Random) {
    let tensor: Vec<u8> = (0..bytes_of(m)).map(|_| random.index(256) as u8).collect();
    let before: Vec<u8> = (0..SHARED).map(|_| random.index(256) as u8).collect();
    let text = kernel(&load(instruction, (list.len() * m.ty.bytes() as usize) as u32));
    let got = run(&text, 1, args(m, c, before.clone(), tensor.clone(), 1))
        .unwrap_or_else(|f| panic!("{f}\n{instruction} {m:?} {c:?}"));
    let want = loaded(m, list, &before, &tensor, 0);
    let at = got[1].iter().zip(&want).position(|(x, y)| x != y);
    assert!(at.is_none(), "{instruction} {m:?} {c:?}: byte {at:?}");
}

fn load_tile(m: &TensorMap, c: &[i32], random: &mut Random) {
    let r = m.rank;
    let instruction = format!(
        "cp.async.bulk.tensor.{r}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%sm], [%map, {}], [%bar];",
        braces(r)
    );
    check_load(m, c, &instruction, &tile(m, c), random);
}

#[test]
fn tiles_of_every_rank_and_type() {
    let random = &mut Random(11);
    for (ty, _) in Type::ALL {
        // Values of these change on the way: see below.
        if matches!(ty, Type::F32Ftz | Type::TF32 | Type::TF32Ftz) {
            continue;
        }
        let inner = 16 / ty.bytes();
        for rank in 1..=5 {
            let dims = [3 * inner as u64 + 1, 5, 4, 3, 2];
            let m = map(rank, ty, dims, [2 * inner, 3, 2, 2, 2], 16);
            for _ in 0..4 {
                let c: Vec<i32> = (0..rank).map(|i| random.index(dims[i] as usize + 4) as i32 - 2).collect();
                load_tile(&m, &c, random);
            }
        }
    }
}

#[test]
fn swizzles_and_steps() {
    let random = &mut Random(12);
    for (swizzle, width) in [(Swizzle::B32, 32), (Swizzle::B64, 64), (Swizzle::B128, 128)] {
        for ty in [Type::U8, Type::F16, Type::U32, Type::F64] {
            for part in [1, 2] {
                // Rows as wide as the swizzle, and narrower ones.
                let inner = width / ty.bytes() / part;
                let mut m = map(3, ty, [200 / ty.bytes() as u64, 20, 5, 1, 1], [inner, 12, 3, 1, 1], 32);
                m.swizzle = swizzle;
                m.address = 64;
                load_tile(&m, &[1, 3, 1], random);
                m.steps = [1, 3, 2, 1, 1];
                load_tile(&m, &[-1, -3, 0], random);
            }
        }
    }
}

#[test]
fn columns() {
    let random = &mut Random(13);
    for rank in 3..=5 {
        for (ty, swizzle) in [(Type::F16, Swizzle::None), (Type::U8, Swizzle::B32), (Type::F32, Swizzle::B128)] {
            let channels = if swizzle == Swizzle::None { 8 } else { [0, 32, 64, 128][swizzle as usize] / ty.bytes() };
            let mut m = map(rank, ty, [40, 6, 5, 4, 3], [1; 5], 16);
            m.dims[rank - 1] = 3;
            m.swizzle = swizzle;
            let x = Im2col { lower: [-1, -2, 0], upper: [-2, 1, -1], channels, pixels: 11 };
            m.im2col = Some(x);
            let spatial = rank - 2;
            let offsets: Vec<i64> = (0..spatial).map(|i| [2, 1, 1][i]).collect();
            let mut c = vec![3, 1, -1, 1, 0];
            c.truncate(rank);
            c[rank - 1] = 1;
            let immediates: Vec<String> = offsets.iter().map(|o| o.to_string()).collect();
            let instruction = format!(
                "cp.async.bulk.tensor.{rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%sm], [%map, {}], [%bar], {{{}}};",
                braces(rank),
                immediates.join(", ")
            );
            check_load(&m, &c, &instruction, &column(&m, &x, &c, &offsets), random);
            // Every second pixel, from a corner that the steps meet.
            m.steps = [1, 2, 1, 1, 1];
            check_load(&m, &c, &instruction, &column(&m, &x, &c, &offsets), random);
        }
    }
}

/// Stores move what is inside; reductions combine it.
#[test]
fn stores_and_reductions() {
    let random = &mut Random(14);
    type F = fn(u64, u64) -> u64;
    let table: [(Type, &str, F); 9] = [
        (Type::F16, "", |_, b| b),
        (Type::U32, ".add", |a, b| (a as u32).wrapping_add(b as u32) as u64),
        (Type::S32, ".min", |a, b| (a as i32).min(b as i32) as u32 as u64),
        (Type::U32, ".max", |a, b| a.max(b)),
        (Type::U32, ".inc", |a, b| if a >= b { 0 } else { a + 1 }),
        (Type::U32, ".dec", |a, b| if a == 0 || a > b { b } else { a - 1 }),
        (Type::U64, ".and", |a, b| a & b),
        (Type::S64, ".or", |a, b| a | b),
        (Type::U32, ".xor", |a, b| a ^ b),
    ];
    for (ty, op, f) in table {
        for swizzle in [Swizzle::None, Swizzle::B64] {
            let size = ty.bytes() as usize;
            let mut m = map(2, ty, [100 / size as u64, 7, 1, 1, 1], [64 / size as u32, 5, 1, 1, 1], 16);
            m.swizzle = swizzle;
            let c = [100 / size as i32 - 9, -2];
            let tensor: Vec<u8> = (0..bytes_of(&m)).map(|_| random.index(256) as u8).collect();
            let before: Vec<u8> = (0..SHARED).map(|_| random.index(256) as u8).collect();
            let copy = match op {
                "" => "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group".to_string(),
                op => format!("cp.reduce.async.bulk.tensor.2d.global.shared::cta{op}.tile.bulk_group"),
            };
            let instruction = format!(
                "{copy} [%map, {{%c0, %c1}}], [%sm];\n\
                 cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;"
            );
            let got = run(&kernel(&instruction), 1, args(&m, &c, before.clone(), tensor.clone(), 1));
            let got = got.unwrap_or_else(|e| panic!("{e}\n{instruction}"));
            let mut want = tensor.clone();
            let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |n, &b| n << 8 | b as u64);
            for (at, to) in tile(&m, &c) {
                let Some(to) = to else { continue };
                let from = swizzled(swizzle, at);
                let new = f(number(&tensor[to..to + size]), number(&before[from..from + size]));
                want[to..to + size].copy_from_slice(&new.to_le_bytes()[..size]);
            }
            assert_eq!(got[2], want, "{instruction}");
        }
    }
    // A store in im2col mode goes where a load without offsets comes from.
    let x = Im2col { lower: [0, -1, 0], upper: [0, -1, 0], channels: 16, pixels: 9 };
    let m = TensorMap { im2col: Some(x), ..map(4, Type::U8, [32, 4, 3, 3, 1], [1; 5], 0) };
    let c = [16, 2, 0, 1];
    let tensor = vec![0; bytes_of(&m)];
    let before: Vec<u8> = (0..SHARED).map(|_| random.index(256) as u8).collect();
    let instruction = "cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%map, {%c0, %c1, %c2, %c3}], [%sm];\n\
                       cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;";
    let got = run(&kernel(instruction), 1, args(&m, &c, before.clone(), tensor.clone(), 1)).unwrap();
    let mut want = tensor;
    for (at, to) in column(&m, &x, &c, &[0, 0]) {
        if let Some(to) = to {
            want[to] = before[at];
        }
    }
    assert_eq!(got[2], want);
}

/// By hand: elements outside are NaN where asked for; denormals and the low bits of tf32 go.
#[test]
fn values_that_change() {
    let words: Vec<u32> =
        vec![0x3f80_1000, 0x3f80_3000, 0x0000_0001, 0x8000_1001, 0x7f80_0000, 0x3f80_0fff, 0x3f80_1001, 5];
    let tensor: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    let instruction =
        "cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes [%sm], [%map, {%c0}], [%bar];";
    for (ty, nan, want) in [
        (
            Type::F32,
            true,
            [0x7ff7_7ff7, 0x3f80_1000, 0x3f80_3000, 1, 0x8000_1001, 0x7f80_0000, 0x3f80_0fff, 0x3f80_1001],
        ),
        (Type::F32Ftz, false, [0, 0x3f80_1000, 0x3f80_3000, 0, 0x8000_0000, 0x7f80_0000, 0x3f80_0fff, 0x3f80_1001]),
        (Type::TF32, false, [0, 0x3f80_0000, 0x3f80_4000, 0, 0x8000_2000, 0x7f80_0000, 0x3f80_0000, 0x3f80_2000]),
        (
            Type::TF32Ftz,
            true,
            [0x7ff7_7ff7, 0x3f80_0000, 0x3f80_4000, 0, 0x8000_0000, 0x7f80_0000, 0x3f80_0000, 0x3f80_2000],
        ),
    ] {
        let m = TensorMap { nan, ..map(1, ty, [8, 1, 1, 1, 1], [8, 1, 1, 1, 1], 0) };
        let text = kernel(&load(instruction, 32));
        let got = run(&text, 1, args(&m, &[-1], vec![0; SHARED], tensor.clone(), 1)).unwrap_or_else(|f| panic!("{f}"));
        let got: Vec<u32> = got[1][..32].chunks(4).map(|c| u32::from_le_bytes(c.try_into().unwrap())).collect();
        assert_eq!(got, want, "{ty:?}");
        assert!(!nan || f32::from_bits(got[0]).is_nan());
    }
}

/// By hand: channels in slices of 16 bytes, each slice with all its pixels, in memory and in the box.
#[test]
fn interleaved_channels() {
    let m = TensorMap {
        interleave: Interleave::Slices16,
        ty: Type::F16,
        rank: 4,
        // 16 channels (two slices), 3 x 2 pixels, 2 images.
        dims: [16, 3, 2, 2, 1],
        strides: [16, 48, 192, 0],
        box_dims: [16, 2, 2, 1, 1],
        ..TensorMap::default()
    };
    let tensor: Vec<u8> = (0..384).map(|n| (n / 2) as u8).collect();
    let instruction = "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%sm], [%map, {%c0, %c1, %c2, %c3}], [%bar];";
    let text = kernel(&load(instruction, 128));
    let got = run(&text, 1, args(&m, &[0, 1, 0, 1], vec![0; SHARED], tensor.clone(), 1)).unwrap();
    let mut want = Vec::new();
    for slice in 0..2 {
        for y in 0..2 {
            let at = 192 + slice * 96 + y * 48 + 16;
            want.extend_from_slice(&tensor[at..at + 32]);
        }
    }
    assert_eq!(got[1][..128], want);
}

/// Both CTAs of a cluster get what the first asks for.
#[test]
fn multicast() {
    let random = &mut Random(15);
    let m = map(2, Type::U16, [32, 8, 1, 1, 1], [16, 4, 1, 1, 1], 0);
    let tensor: Vec<u8> = (0..bytes_of(&m)).map(|_| random.index(256) as u8).collect();
    let body = "mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 128;\nsetp.ne.u32 %more, %rank, 0;\n@%more bra WAIT;\nmov.b16 %h, 3;\n\
        cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%sm], [%map, {%c0, %c1}], [%bar], %h;\n\
        WAIT:\nmbarrier.try_wait.parity.shared.b64 %more, [%bar], 0;\n@!%more bra WAIT;";
    let got =
        run(&kernel(body), 2, args(&m, &[3, 2], vec![0; SHARED], tensor.clone(), 2)).unwrap_or_else(|f| panic!("{f}"));
    let want = loaded(&m, &tile(&m, &[3, 2]), &vec![0; SHARED], &tensor, 0);
    assert!(got[1][..SHARED] == want[..] && got[1][SHARED..] == want[..]);
}

/// A map is copied, every field of it replaced, published, and used.
#[test]
fn maps_are_replaced() {
    let random = &mut Random(16);
    let mut m = map(3, Type::F16, [40, 6, 5, 1, 1], [32, 3, 2, 1, 1], 32);
    m.swizzle = Swizzle::B64;
    m.steps = [1, 2, 1, 1, 1];
    let tensor: Vec<u8> = (0..bytes_of(&m) + 256).map(|_| random.index(256) as u8).collect();
    let before: Vec<u8> = (0..SHARED).map(|_| random.index(256) as u8).collect();
    let replace = |field: &str, ty: &str, value: String| {
        format!("tensormap.replace.tile.{field}.shared::cta.b1024.{ty} [%obj], {value};\n")
    };
    let mut body = String::from("ld.param.u64 %d, [tensor];\n");
    for i in (0..128).step_by(8) {
        body += &format!("st.shared.b64 [%obj+{i}], 0;\n");
    }
    body += &replace("global_address", "b64", "%d".into());
    body += &replace("rank", "b32", "2".into());
    body += &replace("elemtype", "b32", "6".into());
    body += &replace("interleave_layout", "b32", "0".into());
    body += &replace("swizzle_mode", "b32", "2".into());
    body += &replace("fill_mode", "b32", "0".into());
    for i in 0..3 {
        body += &replace("box_dim", "b32", format!("{i}, {}", m.box_dims[i]));
        body += &replace("global_dim", "b32", format!("{i}, {}", m.dims[i]));
        body += &replace("element_stride", "b32", format!("{i}, {}", m.steps[i]));
    }
    for i in 0..2 {
        body += &replace("global_stride", "b64", format!("{i}, {}", m.strides[i]));
    }
    // The object is published by the whole warp, behind the tensor.
    let room = bytes_of(&m).next_multiple_of(128);
    let size = room + 256;
    body += "bar.warp.sync 1;\n";
    let text = kernel(&format!("{body}DONE0:\nbra DONE1;\nDONE1:\n"));
    let publish = format!(
        "ld.param.u64 %d, [tensor];\nadd.u64 %d, %d, {room};\n\
         tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%d], [%obj], 128;\n\
         fence.proxy.tensormap::generic.acquire.gpu [%d], 128;\n@!%one bra LAST;\n{}\nLAST:\nbar.warp.sync -1;\n",
        load(
            "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%sm], [%d, {%c0, %c1, %c2}], [%bar];",
            (tile(&m, &[4, 1, -1]).len() * 2) as u32
        )
    );
    let text = text.replacen("DONE:\n", &format!("DONE:\nbar.warp.sync -1;\n{publish}"), 1);
    let mut tensor = tensor;
    tensor.resize(size, 0);
    let got = run(&text, 1, args(&m, &[4, 1, -1], before.clone(), tensor.clone(), 1))
        .unwrap_or_else(|f| panic!("{f}\n{text}"));
    let want = loaded(&m, &tile(&m, &[4, 1, -1]), &before, &tensor, 0);
    assert!(got[1] == want);
    // The object is the one that the launch makes of the same map, but for its address.
    let object = m.object();
    assert_eq!(got[2][room + 8..room + 128], object[8..]);
}

#[test]
fn misuse_is_caught() {
    let copy = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%sm], [%map, {%c0, %c1}], [%bar];";
    let m = map(2, Type::U16, [32, 8, 1, 1, 1], [16, 4, 1, 1, 1], 0);
    let fault = |m: &TensorMap, body: String, tensor: usize| {
        run(&kernel(&body), 1, args(m, &[0, 0], vec![0; SHARED], vec![0; tensor], 1)).expect_err(&body)
    };
    let all = bytes_of(&m);
    let f = fault(&m, load(&copy.replace("[%sm]", "[%sm+64]"), 128), all);
    assert!(f.kind == FaultKind::Misaligned && f.message.contains("128"), "{f}");
    // The buffer is smaller than the map says.
    let f = fault(&m, load(copy, 128), 100);
    assert_eq!(f.kind, FaultKind::OutOfBounds, "{f}");
    // Another rank, another mode.
    let f = fault(&m, load(&copy.replace("2d", "1d").replace("%c0, %c1", "%c0"), 128), all);
    assert!(f.message.contains("rank 2 is used with 1"), "{f}");
    let x = TensorMap {
        im2col: Some(Im2col { channels: 16, pixels: 2, ..Im2col::default() }),
        ..map(3, Type::U16, [32, 8, 2, 1, 1], [1; 5], 0)
    };
    let f = fault(&x, load(&copy.replace("2d", "3d").replace("%c0, %c1", "%c0, %c1, %c2"), 128), bytes_of(&x));
    assert!(f.message.contains("im2col tensor map"), "{f}");
    // No map at all.
    let f = fault(&m, format!("mov.b64 %map, 64;\n{}", load(copy, 128)), all);
    assert_eq!(f.kind, FaultKind::OutOfBounds, "{f}");
    // Read before it was waited for.
    let f = fault(
        &m,
        format!("mbarrier.arrive.expect_tx.shared.b64 _, [%bar], 128;\n{copy}\nld.shared.b32 %v, [%sm];"),
        all,
    );
    assert!(f.kind == FaultKind::Race && f.message.contains("before the asynchronous copy"), "{f}");
    // Too many bytes expected: nobody ends the phase.
    let f = fault(&m, load(copy, 256), all);
    assert!(matches!(f.kind, FaultKind::Watchdog | FaultKind::Deadlock), "{f}");
    // A store of what was written without a fence between the proxies.
    let store =
        "st.shared.b32 [%sm], %me;\ncp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {%c0, %c1}], [%sm];";
    let f = fault(&m, store.into(), all);
    assert!(f.message.contains("without fence.proxy.async"), "{f}");
    // The source changes before the group was waited for: between copy and wait, and without a wait.
    let store =
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {%c0, %c1}], [%sm];\ncp.async.bulk.commit_group;";
    for wait in ["cp.async.bulk.wait_group.read 0;", "cp.async.bulk.wait_group 1;", ""] {
        let f = fault(&m, format!("{store}\nst.shared.b32 [%sm+4], 77;\n{wait}"), all);
        assert!(f.kind == FaultKind::Race && f.message.contains("not waited for") && f.other.is_some(), "{wait}: {f}");
    }
    let fine = format!("{store}\ncp.async.bulk.wait_group.read 0;\nst.shared.b32 [%sm+4], 77;");
    assert!(run(&kernel(&fine), 1, args(&m, &[0, 0], vec![0; SHARED], vec![0; all], 1)).is_ok());
    // A stride that is no multiple of 16.
    let f = fault(&m, "tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%obj], 0, 24;".into(), all);
    assert!(f.message.contains("multiple of 16"), "{f}");
}
