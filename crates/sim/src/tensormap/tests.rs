//! Tests of tensor maps and of what copies by them move.

use super::*;
use crate::memory::get;

fn map() -> TensorMap {
    TensorMap {
        address: 0x7f00_0000_1000,
        ty: Type::F16,
        rank: 3,
        dims: [16, 5, 3, 1, 1],
        strides: [32, 160, 0, 0],
        box_dims: [8, 2, 2, 1, 1],
        ..TensorMap::default()
    }
}

#[test]
fn objects_hold_maps() {
    let tiled = TensorMap { swizzle: Swizzle::B64, nan: true, ty: Type::TF32Ftz, ..map() };
    assert_eq!(TensorMap::read(&tiled.object()), Ok(tiled));
    let x = Im2col { lower: [-1, -2, 0], upper: [-3, 1, 0], channels: 8, pixels: 20 };
    let column = TensorMap { im2col: Some(x), steps: [1, 2, 1, 1, 1], strides: [32, 1 << 38, 0, 0], ..map() };
    assert_eq!(TensorMap::read(&column.object()), Ok(column));
    // The places that ptxas's code for tensormap.replace writes to.
    let o = tiled.object();
    assert_eq!(get(&o, 0x0c, 4), 2);
    assert_eq!(get(&o, 0x20, 4), 15);
    assert_eq!((o[0x37], o[0x38]), (7, 1));
    assert_eq!(get(&o, 8, 4), 2 << 4 | 8 << 7 | 1 << 16 | 2 << 13 | 1 << 15);
    assert!(TensorMap::read(&[0xff; SIZE]).is_err());
}

#[test]
fn fields_are_held_to_their_ranges() {
    let mut o = map().object();
    for (field, value) in [
        (Field::Address, 8),
        (Field::Rank, 5),
        (Field::Box(1), 0),
        (Field::Box(1), 257),
        (Field::Stride(0), 24),
        (Field::Step(0), 9),
        (Field::Type, 13),
        (Field::Swizzle, 4),
    ] {
        assert!(replace(&mut o, field, value).is_err(), "{field:?}");
    }
    assert_eq!(o, map().object());
}

/// By hand: a box of 8 x 2 x 2 halves from (12, 4, -1) on; only 4 x 1 elements of its second plane are inside.
#[test]
fn tiles_end_at_the_tensor() {
    let m = map();
    let runs = m.runs(&[12, 4, -1], None).unwrap();
    assert_eq!(m.bytes(), 64);
    let inside: Vec<Run> = runs.iter().copied().filter(|r| r.global.is_some()).collect();
    assert_eq!(inside, [Run { shared: 32, global: Some(m.address + 4 * 32 + 24), bytes: 8 }]);
    assert_eq!(runs.iter().map(|r| r.bytes).sum::<u32>(), 64);
    assert!(m.runs(&[0, 0], None).is_err() && m.runs(&[0, 0, 0], Some(&[0])).is_err());
}

/// By hand: a 4 x 3 image, box from (-1, -1) to (2, 1), every pixel one row of 16 bytes.
#[test]
fn columns_walk_the_box() {
    let m = TensorMap {
        dims: [8, 4, 3, 2, 1],
        strides: [16, 64, 192, 0],
        rank: 4,
        im2col: Some(Im2col { lower: [-1, -1, 0], upper: [-1, -1, 0], channels: 8, pixels: 6 }),
        ..map()
    };
    let runs = m.runs(&[0, 2, 1, 0], Some(&[1, 0])).unwrap();
    // (2,1) is the last of the box; then (-1,-1) .. (2,-1) and (-1,0) of the next image, each shifted by W+1.
    let want = [Some(64 + 48), None, None, None, None, Some(192)];
    let got: Vec<_> = runs.iter().map(|r| r.global.map(|a| a - m.address)).collect();
    assert_eq!(got, want);
}

/// The permutation as the tables of the document give it: line n of 128 bytes has its pieces at n xor piece.
#[test]
fn swizzles() {
    assert_eq!(Swizzle::B128.place(0x400 + 3 * 128 + 16), 0x400 + 3 * 128 + 2 * 16);
    assert_eq!(Swizzle::B64.place(0x400 + 3 * 128 + 5 * 16), 0x400 + 3 * 128 + 6 * 16);
    assert_eq!(Swizzle::B32.place(0x400 + 3 * 128 + 5 * 16), 0x400 + 3 * 128 + 4 * 16);
    assert_eq!(Swizzle::None.place(0x590), 0x590);
}

/// Rows of a swizzled box are as wide as the swizzle.
#[test]
fn rows_take_the_width_of_the_swizzle() {
    let m = TensorMap { swizzle: Swizzle::B32, ..map() };
    let runs = m.runs(&[0, 0, 0], None).unwrap();
    assert_eq!(runs.iter().map(|r| r.shared).collect::<Vec<_>>(), [0, 32, 64, 96]);
    assert_eq!(m.bytes(), 64);
}

/// Slices of 8 channels, each with all pixels: channel 9 of pixel (1, 0) is in the second slice.
#[test]
fn interleaved_channels() {
    let m = TensorMap {
        interleave: Interleave::Slices16,
        dims: [16, 4, 3, 1, 1],
        strides: [16, 256, 0, 0],
        box_dims: [16, 2, 1, 1, 1],
        ..map()
    };
    let runs = m.runs(&[0, 1, 0], None).unwrap();
    let got: Vec<_> = runs.iter().map(|r| (r.shared, r.global.map(|a| a - m.address))).collect();
    assert_eq!(got, [(0, Some(16)), (16, Some(32)), (32, Some(64 + 16)), (48, Some(64 + 32))]);
}
