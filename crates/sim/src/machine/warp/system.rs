//! Functions that the system provides to kernels: `vprintf`, `malloc`, `free`, `__assertfail`, and fetches of textures
//! that have no instruction.
//!
//! Arguments are in R4 and above, 64-bit ones in pairs that begin at an even register; the result is in R4. The function
//! returns to what R20 and R21 hold.

use super::*;
use crate::machine::image::SYSTEM;
use crate::num::soft::{F16, Round, from_f64};
use crate::texture::{At, Fetch, Lod};

/// How the names begin of the functions that fetch with gradients.
const GRADIENTS: &str = "__cuda_syscall_tex_grad_";
/// Most bytes that `malloc` gives at once.
const HEAP: u64 = 1 << 28;
/// What its memory is called.
const MALLOC: &str = "malloc";

/// What the name of a function says that fetches with gradients.
struct Gradients {
    dims: usize,
    cube: bool,
    layered: bool,
    independent: bool,
    offset: bool,
    depth: bool,
    /// Two components in a register.
    halves: bool,
}

impl Gradients {
    /// The form behind `__cuda_syscall_tex_grad_`: `pred_` where the predicate is asked for, the geometry, `v4_f32_f32` (or s32,
    /// u32, f16), and at its end what else is passed.
    fn named(name: &str) -> Option<Gradients> {
        let (geometry, rest) = name.strip_prefix("pred_").unwrap_or(name).split_once("_v4_")?;
        let (dims, cube, layered) = match geometry {
            "1d" => (1, false, false),
            "2d" => (2, false, false),
            "3d" => (3, false, false),
            "cube" => (3, true, false),
            "a1d" => (1, false, true),
            "a2d" => (2, false, true),
            "acube" => (3, true, true),
            _ => return None,
        };
        let (kind, rest) = rest.split_once("_f32")?;
        let halves = match kind {
            "f32" | "s32" | "u32" => false,
            "f16" => true,
            _ => return None,
        };
        let (rest, depth) = rest.strip_suffix("_depth_compare").map_or((rest, false), |r| (r, true));
        let (rest, offset) = rest.strip_suffix("_offset").map_or((rest, false), |r| (r, true));
        let (rest, independent) = rest.strip_suffix("_texmode_independent").map_or((rest, false), |r| (r, true));
        rest.is_empty().then_some(Gradients { dims, cube, layered, independent, offset, depth, halves })
    }
}

impl Warp {
    /// Calls the function where the target, a pair of registers, is one of the system; false where it is another.
    pub(super) fn calls_system(&mut self, env: &mut Env<'_>, pc: u32, (low, high): (Src, Src), m: u32) -> Res<bool> {
        let (low, high) = (*self.src(env.p, low), *self.src(env.p, high));
        let target = |i: usize| low[i] as u64 | (high[i] as u64) << 32;
        let mut left = lanes(m).filter(|&i| target(i) >= SYSTEM).fold(0, |r, i| r | 1 << i);
        if left == 0 {
            return Ok(false);
        }
        if left != m {
            return Err(stop(FaultKind::Unsupported, "a call of the system and of other code at once", left, pc));
        }
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let name = env.system.get(((target(i) - SYSTEM) / 16) as usize).map_or("?", |s| s.as_str());
            let argument = |w: &Warp, r: usize| w.r.0[r][i] as u64 | (w.r.0[r + 1][i] as u64) << 32;
            match name {
                "malloc" => {
                    let size = argument(self, 4);
                    let a = if size > HEAP { 0 } else { env.global.alloc(vec![0; size as usize], 16, MALLOC) };
                    self.leave(4, i, a as u32);
                    self.leave(5, i, (a >> 32) as u32);
                }
                "free" => {
                    let a = argument(self, 4);
                    if a != 0 && !env.global.free(a, MALLOC) {
                        let message = format!("free of {a:#x}, where malloc has given nothing");
                        return Err(stop(FaultKind::OutOfBounds, message, 1 << i, pc));
                    }
                }
                "vprintf" => {
                    let used = self.print(env, (i, pc), argument(self, 4), argument(self, 6))?;
                    self.leave(4, i, used);
                }
                "__assertfail" => {
                    let [what, file, function] = [4, 6, 10].map(|r| self.words_at(env, argument(self, r), i));
                    let line = self.r.0[8][i];
                    let message = format!("{file}:{line}: {function}: assertion failed: {what}");
                    return Err(stop(FaultKind::Trap, message, 1 << i, pc));
                }
                _ if name.starts_with(GRADIENTS) => {
                    let texel = self.gradients(env, (i, pc), &name[GRADIENTS.len()..])?;
                    // Whether the texels are there comes first.
                    self.leave(4, i, 1);
                    (0..4).for_each(|k| self.leave(5 + k as u8, i, texel[k]));
                }
                _ => {
                    let message = format!("'{name}' is not modelled by the SASS simulator");
                    return Err(stop(FaultKind::Unsupported, message, 1 << i, pc));
                }
            }
        }
        self.jump(env.p, (self.r.0[20], 0), m, pc)?;
        Ok(true)
    }

    /// A result of a function of the system for a lane.
    fn leave(&mut self, reg: u8, lane: usize, value: u32) {
        self.put(Dst::R(reg), 1 << lane, &[value; 32]);
        if let Some(init) = &mut self.init {
            init.filled(reg, 1 << lane);
        }
    }

    /// A fetch with gradients that has no instruction: the texel of a lane. `what` is the rest of the function's name.
    ///
    /// The handle is in R4 and R5; one of a sampler in R6 and R7, else the depth to compare with in R6. Coordinates, with the
    /// layer first, are in R8 to R11, the first gradient in R12 to R15. What is left lies on the stack, 16 bytes each: the
    /// second gradient, offsets, the depth where a sampler has its registers. (What the vendor's compiler passes.)
    fn gradients(&mut self, env: &mut Env<'_>, (i, pc): (usize, u32), what: &str) -> Res<[u32; 4]> {
        let form = Gradients::named(what).ok_or_else(|| {
            let message = format!("'{GRADIENTS}{what}' is not modelled by the SASS simulator");
            stop(FaultKind::Unsupported, message, 1 << i, pc)
        })?;
        let fault = |e| memory(e, i, pc);
        let r = |w: &Warp, n: usize| w.r.0[n][i];
        let words = [r(self, 4), if form.independent { r(self, 6) } else { 0 }];
        let mut stack = [0; 48];
        let pieces = 1 + form.offset as usize + (form.depth && form.independent) as usize;
        for (at, piece) in (u64::from(r(self, 1))..).step_by(16).zip(stack.chunks_mut(16).take(pieces)) {
            self.read(env, Space::Local, at, piece, i).map_err(fault)?;
        }
        let word = |piece: usize, k: usize| get(&stack, 16 * piece + 4 * k, 4) as u32;
        let used = |k: usize| k < form.dims;
        let first = 8 + form.layered as usize;
        let depth = if form.independent { word(pieces - 1, 0) } else { r(self, 6) };
        let f = Fetch {
            dims: form.dims,
            cube: form.cube,
            layer: form.layered.then(|| r(self, 8)),
            sample: None,
            at: At::Point([0, 1, 2].map(|k| if used(k) { f32::from_bits(r(self, first + k)) } else { 0.0 })),
            lod: Lod::Grad([
                [0, 1, 2].map(|k| if used(k) { f32::from_bits(r(self, 12 + k)) } else { 0.0 }),
                [0, 1, 2].map(|k| if used(k) { f32::from_bits(word(0, k)) } else { 0.0 }),
            ]),
            offset: [0, 1, 2].map(|k| if form.offset && used(k) { word(1, k) as i32 } else { 0 }),
            compare: form.depth.then(|| f32::from_bits(depth)),
        };
        let (array, sampler) = env.textures.named(words).map_err(fault)?;
        let message = "a texture without a sampler";
        let sampler = sampler.ok_or_else(|| stop(FaultKind::OutOfBounds, message, 1 << i, pc))?;
        let got = array.fetch(env.global, sampler, &f).map_err(fault)?;
        let half = |k: usize| from_f64(&F16, f32::from_bits(got[k]) as f64, Round::Rn) as u32 & 0xffff;
        Ok(if form.halves { [half(0) | half(1) << 16, half(2) | half(3) << 16, 0, 0] } else { got })
    }

    /// `vprintf` of a lane; gives how many arguments were used.
    fn print(&mut self, env: &mut Env<'_>, (i, pc): (usize, u32), format: u64, mut next: u64) -> Res<u32> {
        let format = self.words_at(env, format, i);
        // Two readers of memory: each has it in turn.
        let both = std::cell::RefCell::new((&mut *self, &mut *env));
        let done = crate::printf::format(
            format.as_bytes(),
            &mut |size| {
                let a = next.checked_next_multiple_of(size as u64).unwrap_or(u64::MAX);
                next = a.wrapping_add(size as u64);
                let mut bytes = [0; 8];
                let (w, env) = &mut *both.borrow_mut();
                w.read(env, Space::Generic, a, &mut bytes[..size as usize], i).map_err(|e| memory(e, i, pc))?;
                Ok(u64::from_le_bytes(bytes))
            },
            &mut |a| {
                let (w, env) = &mut *both.borrow_mut();
                Ok(w.words_at(env, a, i).into_bytes())
            },
            &|m| stop(FaultKind::Unsupported, m, 1 << i, pc),
        );
        let (text, used) = done?;
        env.global.print(&text);
        Ok(used)
    }

    /// The text at a generic address, as far as it can be read.
    fn words_at(&mut self, env: &mut Env<'_>, a: u64, lane: usize) -> String {
        let mut byte = |k: u64| {
            let mut b = [0];
            self.read(env, Space::Generic, a + k, &mut b, lane).ok().map(|_| b[0])
        };
        let bytes: Vec<u8> = (0..crate::printf::LONGEST as u64).map_while(&mut byte).take_while(|&b| b != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
