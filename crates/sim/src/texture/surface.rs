//! What surfaces address and store.

use super::{Placed, bad};
use crate::fault::{FaultKind, MemFault};
use crate::memory::put;
use crate::view::Memory;

/// What surfaces do beyond their edges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beyond {
    /// A fault.
    Trap,
    /// The nearest texel.
    Clamp,
    /// Loads give zero, stores do nothing.
    Zero,
}

impl Placed {
    /// Address of what a surface instruction accesses: `x` counts bytes if `bytes` is the size of the access, texels otherwise.
    /// `None` where nothing is to be accessed.
    ///
    /// # Errors
    /// Beyond the edges with [`Beyond::Trap`]; not aligned; another geometry.
    pub fn surface(
        &self,
        (dims, layer): (usize, Option<i64>),
        at: [i64; 3],
        bytes: Option<u32>,
        beyond: Beyond,
    ) -> Result<Option<u64>, MemFault> {
        let a = &self.array;
        // A cube is a surface with six layers.
        self.fits(dims, a.cube, layer.is_some() && (!a.cube || a.layers.is_some()), false)?;
        let texel = a.texel() as i64;
        let (mut at, mut layer) = (at, layer.unwrap_or(0));
        let within = bytes.map_or(0, |_| at[0].rem_euclid(texel));
        if let Some(n) = bytes {
            if at[0] % n as i64 != 0 {
                let message = format!("surface coordinate {} is not aligned to the {n} bytes of the access", at[0]);
                return Err(MemFault::new(FaultKind::Misaligned, message));
            }
            at[0] = at[0].div_euclid(texel);
        }
        let size: [i64; 3] = a.size.map(|s| s.max(1) as i64);
        let last = bytes.map_or(0, |n| (within + n as i64 - 1) / texel);
        let inside = (0..3).all(|i| at[i] >= 0 && at[i] < size[i]) && at[0] + last < size[0];
        let layers = a.slices() as i64;
        if !inside || layer < 0 || layer >= layers {
            match beyond {
                Beyond::Trap => {
                    let [x, y, z] = at;
                    return Err(bad(format!(
                        "texel ({x}, {y}, {z}), layer {layer} of the surface '{}' is outside",
                        a.name
                    )));
                }
                Beyond::Zero => return Ok(None),
                Beyond::Clamp => {
                    (0..3).for_each(|i| at[i] = at[i].clamp(0, size[i] - 1));
                    at[0] = at[0].min(size[0] - 1 - last);
                    layer = layer.clamp(0, layers - 1);
                }
            }
        }
        Ok(Some(self.address(0, layer as u32, 0, at) + within as u64))
    }

    /// `sust.p`: a texel of 32-bit words is converted to the format and stored; missing words are zero.
    ///
    /// # Errors
    /// None that a placed texel could cause.
    pub fn put_texel(&self, mem: &mut Memory, at: u64, words: &[u32]) -> Result<(), MemFault> {
        let each = self.array.format.bytes();
        let mut bytes = [0; 16];
        for i in 0..self.array.channels as usize {
            put(&mut bytes, i * each as usize, each, self.array.format.stored(words.get(i).copied().unwrap_or(0)));
        }
        mem.write(at, &bytes[..self.array.texel() as usize])
    }
}
