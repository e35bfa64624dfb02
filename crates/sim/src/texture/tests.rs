//! Tests of arrays, fetches and surfaces.

use super::*;
use crate::view::Memory;

fn world(a: Array) -> (Textures, Memory) {
    a.check().unwrap();
    let mut g = Global::new();
    let t = Textures::place(&[a], Handles::Marked, &mut g);
    (t, Memory::Whole(g, 0))
}

fn floats(size: [u32; 3], n: u32) -> Array {
    let data = (0..n).flat_map(|x| (x as f32).to_le_bytes()).collect();
    Array { name: "a".into(), size, levels: 1, samples: 1, channels: 1, data, ..Array::default() }
}

fn at(x: f32, y: f32) -> Fetch {
    let at = At::Point([x, y, 0.0]);
    Fetch { dims: 2, cube: false, layer: None, sample: None, at, lod: Lod::Base, offset: [0; 3], compare: None }
}

/// 4 x 2 texels of values 0 to 7.
#[test]
fn nearest_and_linear() {
    let (t, mut m) = world(floats([4, 2, 0], 8));
    let a = &t.arrays[0];
    let mut get = |s: &Sampler, f: Fetch| f32::from_bits(a.fetch(&mut m, s, &f).unwrap()[0]);
    let near = Sampler::default();
    assert_eq!(get(&near, at(2.9, 1.5)), 6.0);
    assert_eq!(get(&near, at(-3.0, 9.0)), 4.0);
    let wrap = Sampler { normalized: true, edge: [Edge::Wrap; 3], ..near };
    assert_eq!(get(&wrap, at(1.3, -0.4)), 5.0);
    let mirror = Sampler { normalized: true, edge: [Edge::Mirror; 3], ..near };
    assert_eq!(get(&mirror, at(1.1, 0.0)), 3.0);
    let linear = Sampler { linear: true, edge: [Edge::Border; 3], border: [100.0; 4], ..near };
    // Halfway between 1, 2, 5, 6; then a quarter outside of the left edge: 3/4 of 0 and 1/4 of the border.
    assert_eq!(get(&linear, at(2.0, 1.0)), 3.5);
    assert_eq!(get(&linear, at(0.25, 0.5)), 25.0);
    // The fraction 1/512 is half a unit of 1/256 and rounds up.
    assert_eq!(get(&linear, at(1.5 + 1.0 / 512.0, 0.5)), 1.0 + 1.0 / 256.0);
    let moved = Fetch { offset: [1, -1, 0], ..at(1.5, 1.5) };
    assert_eq!(get(&near, moved), 2.0);
}

#[test]
fn gathers_counter_clockwise() {
    let (t, mut m) = world(floats([4, 2, 0], 8));
    let got = t.arrays[0].gather(&mut m, &Sampler::default(), &at(2.0, 1.0), 0).unwrap();
    assert_eq!(got.map(f32::from_bits), [5.0, 6.0, 2.0, 1.0]);
}

#[test]
fn levels() {
    // 4 + 2 + 1 texels of one row.
    let (t, mut m) = world(Array { levels: 3, ..floats([4, 0, 0], 7) });
    let a = &t.arrays[0];
    let mut get = |s: &Sampler, lod: Lod| {
        let f = Fetch { dims: 1, lod, ..at(0.6, 0.0) };
        f32::from_bits(a.fetch(&mut m, s, &f).unwrap()[0])
    };
    let near = Sampler { normalized: true, ..Sampler::default() };
    assert_eq!(get(&near, Lod::Base), 2.0);
    assert_eq!(get(&near, Lod::Level(0.6)), 5.0);
    assert_eq!(get(&near, Lod::Level(9.0)), 6.0);
    let both = Sampler { linear_levels: true, ..near };
    assert_eq!(get(&both, Lod::Level(1.25)), 5.25);
    // Two texels of the first level from one pixel to the next.
    assert_eq!(get(&near, Lod::Grad([[0.5, 0.0, 0.0], [0.1, 0.0, 0.0]])), 5.0);
}

#[test]
fn cubes_and_layers() {
    let (t, mut m) = world(Array { cube: true, ..floats([1, 1, 0], 6) });
    let a = &t.arrays[0];
    for (n, p) in
        [[2., 1., 1.], [-2., 1., 1.], [1., 2., 1.], [1., -2., 1.], [1., 1., 2.], [1., 1., -2.]].iter().enumerate()
    {
        let f = Fetch { dims: 3, cube: true, at: At::Point(*p), ..at(0.0, 0.0) };
        let got = a.fetch(&mut m, &Sampler::default(), &f).unwrap()[0];
        assert_eq!(f32::from_bits(got), n as f32);
    }
    let (t, mut m) = world(Array { layers: Some(3), ..floats([2, 0, 0], 6) });
    for (layer, want) in [(0, 1.0), (2, 5.0), (7, 5.0)] {
        let f = Fetch { dims: 1, layer: Some(layer), at: At::Texel([1, 0, 0]), ..at(0.0, 0.0) };
        let got = t.arrays[0].fetch(&mut m, &Sampler::default(), &f).unwrap();
        assert_eq!(f32::from_bits(got[0]), want);
    }
    assert!(t.arrays[0].fetch(&mut m, &Sampler::default(), &at(0.0, 0.0)).is_err());
}

#[test]
fn formats() {
    for (f, bits, value) in [
        (Format::Unorm8, 255, 1.0),
        (Format::Snorm8, 0x80, -1.0),
        (Format::Snorm16, 0x8001, -1.0),
        (Format::S8, 0xff, -1.0),
        (Format::U16, 0xffff, 65535.0),
        (Format::F16, 0x3e00, 1.5),
    ] {
        assert_eq!(f.value(bits), value, "{f:?}");
    }
    for (f, word, bits) in [
        (Format::Unorm8, 0.5f32.to_bits(), 128),
        (Format::Snorm8, (-2.0f32).to_bits(), 0x81),
        (Format::U8, 300, 255),
        (Format::S16, -40000i32 as u32, 0x8000),
        (Format::F16, 1.5f32.to_bits(), 0x3e00),
    ] {
        assert_eq!(f.stored(word), bits, "{f:?}");
    }
}

#[test]
fn surfaces_and_handles() {
    let (mut t, mut m) = world(floats([4, 2, 0], 8));
    let h = t.handle(&Object::Surface(0)).unwrap();
    let a = t.array(h).unwrap().clone();
    let s = |x: i64, y: i64, bytes, beyond| a.surface((2, None), [x, y, 0], bytes, beyond);
    assert_eq!(s(8, 1, Some(4), Beyond::Trap), Ok(Some(a.base + 24)));
    assert_eq!(s(2, 1, None, Beyond::Trap), Ok(Some(a.base + 24)));
    assert_eq!(s(8, 1, Some(8), Beyond::Trap), Ok(Some(a.base + 24)));
    assert!(s(6, 0, Some(4), Beyond::Trap).is_err() && s(16, 0, Some(4), Beyond::Trap).is_err());
    assert_eq!(s(16, 0, Some(4), Beyond::Zero), Ok(None));
    assert_eq!(s(16, -1, Some(4), Beyond::Clamp), Ok(Some(a.base + 12)));
    a.put_texel(&mut m, a.base, &[2.5f32.to_bits()]).unwrap();
    assert_eq!(m.load(a.base, 4), Ok(2.5f32.to_bits() as u64));
    assert!(t.array(0).is_err() && t.array(9).is_err() && t.sampler(h).is_err());
    let s = Sampler { linear: true, ..Sampler::default() };
    let h = t.handle(&Object::Texture(0, s)).unwrap();
    assert_eq!(t.sampler(h), Ok(&s));
    assert_eq!(t.query(h, Query::Width, 0), Ok(4));
    assert_eq!(t.query(h, Query::Filter, 0), Ok(1));
}
