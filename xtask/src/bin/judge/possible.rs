//! What the driver's interface can launch.

use sim::texture::Object;
use sim::{Arg, Launch};

/// Whether a launch can be made with the driver's interface.
///
/// # Errors
/// Why not, though PTX and the simulator know what it takes.
pub fn possible(launch: &Launch) -> Result<(), &'static str> {
    if launch.arrays.iter().any(|a| a.samples > 1) {
        return Err("the driver makes no arrays with several samples a texel");
    }
    if !launch.memory.is_empty() || !launch.pointers.is_empty() {
        return Err("the judge writes no addresses into memory");
    }
    let objects = launch.args.iter().filter_map(|a| match a {
        Arg::Object(o) => Some(o),
        _ => None,
    });
    for o in objects.chain(launch.binds.iter().map(|b| &b.1)) {
        if let Object::Sampler(_) = o {
            return Err("the driver makes no samplers apart from textures");
        }
    }
    Ok(())
}
