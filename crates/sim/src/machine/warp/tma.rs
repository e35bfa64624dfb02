//! Copies of parts of tensors: `UTMALDG`, `UTMASTG`, `UTMAREDG`. They are done at once, but the bytes that they bring to
//! shared memory count as under way until the phase of their barrier ends.

use super::*;
use crate::copies::Piece;
use crate::machine::decode::{float_atom, integer_atom};
use crate::tensormap::{self, TensorMap, Type};

/// The operation of a reduction on elements of a type, by its number in the instruction.
fn reduction(op: u8, t: Type) -> Option<AtomFn> {
    use sass::enums::atomftype as ft;
    let f = match t {
        Type::U32 => integer_atom(op, 32, false),
        Type::S32 => integer_atom(op, 32, true),
        Type::U64 => integer_atom(op, 64, false),
        Type::S64 => integer_atom(op, 64, true),
        Type::F16 => float_atom(op, ft::F16X2_RN).map(|f| f.1),
        Type::BF16 => float_atom(op, ft::BF16X2_RN).map(|f| f.1),
        Type::F32 => float_atom(op, ft::F32_RN).map(|f| f.1),
        Type::F32Ftz => float_atom(op, ft::F32_FTZ_RN).map(|f| f.1),
        Type::F64 => float_atom(op, ft::F64_RN).map(|f| f.1),
        _ => return None,
    };
    f.ok()
}

impl Warp {
    pub(super) fn tensor(&mut self, env: &mut Env<'_>, pc: u32, x: &Tensor, m: u32) -> Res<()> {
        let i = m.trailing_zeros() as usize;
        let fault = |e| memory(e, i, pc);
        let refuse = |what: String| stop(FaultKind::OutOfBounds, what, 1 << i, pc);
        let word = |w: &Warp, s: Src| w.src(env.p, s)[i];
        let words: Vec<u32> = x.words.iter().map(|&s| word(self, s)).collect();
        let at = word(self, x.map[0]) as u64 | (word(self, x.map[1]) as u64) << 32;
        let more = x.more.map_or(0, |s| word(self, s));
        check_aligned(at, tensormap::ALIGN, "tensor map").map_err(fault)?;
        let mut object = [0u8; tensormap::SIZE];
        for (k, part) in object.chunks_mut(16).enumerate() {
            self.read(env, Space::Generic, at + 16 * k as u64, part, i).map_err(fault)?;
        }
        let map = TensorMap::read(&object).map_err(&refuse)?;
        map.check().map_err(&refuse)?;
        let (head, coordinates) = words.split_at(1 + x.load as usize);
        let coordinates: Vec<i32> = coordinates.iter().map(|&c| c as i32).collect();
        // One offset of 16 bits, two of 8, three of 5.
        let offsets: Vec<u32> = match (x.im2col, x.dims) {
            (false, _) => Vec::new(),
            (true, 3) => vec![more & 0xffff],
            (true, 4) => vec![more & 0xff, more >> 8 & 0xff],
            (true, _) => vec![more & 31, more >> 5 & 31, more >> 10 & 31],
        };
        let offsets = if x.load { &offsets[..] } else { &[] };
        let runs = map.runs(&coordinates, x.im2col.then_some(offsets)).map_err(&refuse)?;
        let size = map.ty.bytes();
        let who = Who { warp: env.id, lane: i as u32, pc };
        let to = head[0];
        let needed = if map.swizzle.width() > 0 { 128 } else { 16 };
        check_aligned(to as u64 & 0xff_ffff, needed, "shared").map_err(fault)?;
        if !x.load {
            let f = match x.reduce {
                Some(op) => Some(reduction(op, map.ty).ok_or_else(|| {
                    stop(FaultKind::Unsupported, format!("this reduction of {:?}", map.ty), 1 << i, pc)
                })?),
                None => None,
            };
            for run in &runs {
                let a = map.swizzle.place(to as u64 + run.shared);
                let place = self.here(env, a, 1).map_err(fault)?;
                env.shadow.proxy_reads(place, run.bytes, env.id).map_err(fault)?;
                let Some(global) = run.global else { continue };
                let mut data = env.shared[place.0].data[place.1..][..run.bytes as usize].to_vec();
                if let Some(f) = &f {
                    let mut old = vec![0u8; run.bytes as usize];
                    env.global.read(global, &mut old).map_err(fault)?;
                    super::sync::combine(&mut old, &data, f, size as usize);
                    data = old;
                }
                env.global.write(global, &data).map_err(fault)?;
            }
            return Ok(());
        }
        let mask = if x.multicast { more >> 16 } else { 0 };
        let targets: Vec<(u32, u32)> = match x.multicast {
            true => (0..16)
                .filter(|r| mask >> r & 1 != 0)
                .map(|r| ((to & 0xff_ffff) | r << 24, (head[1] & 0xff_ffff) | r << 24))
                .collect(),
            false => vec![(to, head[1])],
        };
        for (to, done) in targets {
            let object = self.here(env, done as u64, 8).map_err(fault)?;
            for run in &runs {
                let mut data = vec![0u8; run.bytes as usize];
                match run.global {
                    Some(a) => env.global.read(a, &mut data).map_err(fault)?,
                    None if map.nan => data
                        .chunks_mut(size as usize)
                        .for_each(|d| d.copy_from_slice(&map.ty.nan().to_le_bytes()[..size as usize])),
                    None => {}
                }
                for element in data.chunks_mut(size as usize) {
                    let mut bits = [0u8; 8];
                    bits[..size as usize].copy_from_slice(element);
                    let bits = map.ty.loaded(u64::from_le_bytes(bits));
                    element.copy_from_slice(&bits.to_le_bytes()[..size as usize]);
                }
                let a = map.swizzle.place(to as u64 + run.shared);
                let place = self.here(env, a, 1).map_err(fault)?;
                let end = env.shared[place.0].data.len();
                let Some(target) = env.shared[place.0].data.get_mut(place.1..place.1 + run.bytes as usize) else {
                    return Err(refuse(format!("a tensor copy to shared memory goes beyond its {end} bytes")));
                };
                target.copy_from_slice(&data);
                env.shadow.start(place, run.bytes, who).map_err(fault)?;
                env.shadow.started_by_proxy(place, run.bytes);
                env.shadow.complete_on(object, Piece { place, size: run.bytes, who });
            }
            let bytes = map.bytes() as i64;
            self.change(env, (done as u64, i, pc), |o| o.expect(-bytes))?;
        }
        Ok(())
    }
}
