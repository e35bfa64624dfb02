//! Functions that the system provides to kernels: `malloc`, `free`, `__assertfail`.
//!
//! Arguments are in R4 and above, 64-bit ones in pairs that begin at an even register; the result is in R4. The function
//! returns to what R20 and R21 hold.

use super::*;
use crate::machine::image::{SYSTEM, SYSTEM_FUNCTIONS};

/// Bytes of a text that is shown.
const TEXT: u64 = 512;

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
            let name = SYSTEM_FUNCTIONS.get(((target(i) - SYSTEM) / 16) as usize).copied().unwrap_or("?");
            let argument = |w: &Warp, r: usize| w.r.0[r][i] as u64 | (w.r.0[r + 1][i] as u64) << 32;
            let result = match name {
                "malloc" => {
                    let size = argument(self, 4);
                    if size > 1 << 28 { 0 } else { env.global.alloc(vec![0; size as usize], 16, "malloc") }
                }
                "free" => 0,
                "__assertfail" => {
                    let (message, file) =
                        (self.words_at(env, argument(self, 4)), self.words_at(env, argument(self, 6)));
                    let line = self.r.0[8][i];
                    let message = format!("{file}:{line}: assertion failed: {message}");
                    return Err(stop(FaultKind::Trap, message, 1 << i, pc));
                }
                _ => {
                    let message = format!("'{name}' is not modelled by the SASS simulator");
                    return Err(stop(FaultKind::Unsupported, message, 1 << i, pc));
                }
            };
            if name == "malloc" {
                self.put(Dst::R(4), 1 << i, &[result as u32; 32]);
                self.put(Dst::R(5), 1 << i, &[(result >> 32) as u32; 32]);
            }
        }
        self.jump(env.p, (self.r.0[20], 0), m, pc)?;
        Ok(true)
    }

    /// The text at a generic address.
    fn words_at(&self, env: &mut Env<'_>, a: u64) -> String {
        let byte = |k: u64| match resolve(Space::Generic, a + k) {
            (Space::Generic, a) => env.constant.load(a & 0xffff_ffff, 1, "constant").ok().map(|b| b as u8),
            (_, a) => {
                let mut b = [0];
                env.global.read(a, &mut b).ok().map(|_| b[0])
            }
        };
        let bytes: Vec<u8> = (0..TEXT).map_while(byte).take_while(|&b| b != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
