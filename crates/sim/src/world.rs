//! What a launch puts into memory before it begins: buffers, other memory, arrays, tensor maps, and the values of the parameters. The same
//! for both engines.

use crate::launch::{Arg, Launch};
use crate::memory::Global;
use crate::tensormap;
use crate::texture::{Handles, Object, Sampler, Textures};

/// The arguments of a launch.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    /// Bytes of each parameter.
    pub values: Vec<Vec<u8>>,
    /// Where the contents lie that the outcome gives: see [`Launch::outputs`].
    pub outputs: Vec<u64>,
    /// Arrays and objects.
    pub textures: Textures,
    /// Handles of the module's references, by name.
    pub binds: Vec<(String, u64)>,
}

impl World {
    /// Puts all into memory. `sizes` are the bytes of the parameters, as many as there are arguments; `handles` as the
    /// engine wants them.
    ///
    /// # Errors
    /// What does not fit.
    pub fn place(launch: &Launch, sizes: &[usize], handles: Handles, global: &mut Global) -> Result<World, String> {
        let mut w = World::default();
        let mut buffers = vec![0; launch.args.len()];
        for (i, arg) in launch.args.iter().enumerate() {
            if let Arg::Buffer { data, .. } = arg {
                buffers[i] = global.alloc(data.clone(), 256, format!("argument {i}"));
                w.outputs.push(buffers[i]);
            }
        }
        for m in &launch.memory {
            let base = global.alloc(m.data.clone(), 256, format!("memory {}", m.name));
            buffers.push(base);
            w.outputs.push(base);
        }
        w.textures = Textures::place(&launch.arrays, handles, global);
        w.outputs.extend(w.textures.arrays.iter().map(|a| a.base));
        for (i, arg) in launch.args.iter().enumerate() {
            let value = match arg {
                Arg::Value(bytes) => bytes.clone(),
                Arg::Buffer { .. } => buffers[i].to_le_bytes().to_vec(),
                Arg::Object(o) => w.textures.handle(o)?.to_le_bytes().to_vec(),
                Arg::TensorMap { map, buffer } => {
                    let base = buffers.get(*buffer).copied().filter(|&b| b != 0);
                    let mut map = *map;
                    map.address +=
                        base.ok_or_else(|| format!("argument {buffer} is no buffer, and a tensor map names it"))?;
                    map.check()?;
                    let object = map.object().to_vec();
                    if sizes.get(i) == Some(&tensormap::SIZE) {
                        object
                    } else {
                        global.alloc(object, 256, format!("tensor map of argument {i}")).to_le_bytes().to_vec()
                    }
                }
            };
            w.values.push(value);
        }
        for p in &launch.pointers {
            launch.check_pointer(p)?;
            match launch.args.get(p.place) {
                Some(Arg::Value(_)) => w.values[p.place][p.at..p.at + 8].copy_from_slice(&buffers[p.to].to_le_bytes()),
                _ => global.store(buffers[p.place] + p.at as u64, 8, buffers[p.to]).map_err(|f| f.message)?,
            }
        }
        for (name, o) in &launch.binds {
            let handle = w.textures.handle(o)?;
            w.binds.push((name.clone(), handle));
        }
        Ok(w)
    }

    /// A sampler that the module itself describes, where the launch binds none.
    ///
    /// # Errors
    /// None for a sampler.
    pub fn describe(&mut self, name: &str, s: Sampler) -> Result<(), String> {
        if !self.binds.iter().any(|b| b.0 == name) {
            let handle = self.textures.handle(&Object::Sampler(s))?;
            self.binds.push((name.to_string(), handle));
        }
        Ok(())
    }

    /// The final contents that the outcome gives.
    pub fn contents(&self, global: &Global) -> Vec<Vec<u8>> {
        self.outputs.iter().map(|&at| global.at(at).map(|a| a.data.clone()).unwrap_or_default()).collect()
    }
}
