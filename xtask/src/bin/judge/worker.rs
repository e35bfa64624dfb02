//! The process that uses the GPU. It runs one launch after the other, each in a context of its own, writes what it
//! left to files, and says so on its output; it ends at the first error, as a fault may leave the driver in any state.

use crate::cuda::{Driver, Missing};
use crate::list::Item;
use crate::objects::{self, Objects};
use sim::{Arg, Launch};
use std::path::Path;

/// How often.
#[derive(Clone, Copy)]
pub struct Times {
    /// Further runs that must leave the same memory.
    pub repeat: usize,
    /// Launches that are timed, after as many tenths to warm up.
    pub timed: usize,
}

/// Runs the items from `first` on; prints `begin N`, then `done N key=value ...` or `failed N why`.
pub fn run(root: &Path, items: &[Item], first: usize, device: i32, times: Times, out: &Path) -> Result<(), String> {
    let driver = Driver::open().map_err(|m| match m {
        Missing::Gpu(m) | Missing::Other(m) => m,
    })?;
    for (n, item) in items.iter().enumerate().skip(first) {
        println!("begin {n}");
        match one(root, item, &driver, device, times, &out.join(n.to_string())) {
            Ok(line) => println!("done {n} {line}"),
            Err(why) => {
                println!("failed {n} {}", why.replace('\n', " "));
                return Ok(());
            }
        }
    }
    Ok(())
}

fn one(root: &Path, item: &Item, driver: &Driver, device: i32, times: Times, out: &Path) -> Result<String, String> {
    let launch = item.launch(root)?;
    let cubin = std::fs::read(root.join(&item.cubin)).map_err(|e| format!("{}: {e}", item.cubin))?;
    let context = driver.context(device)?;
    let kernel = context.load(&cubin, &launch.kernel)?;
    let has = kernel.resources()?;
    kernel.allow(launch.shared, launch.cluster.is_some_and(|c| c.iter().product::<u32>() > 8))?;
    let objects = Objects::new(&context, &kernel, &launch)?;
    let sizes = sizes(&cubin, &launch.kernel)?;
    let (mut args, mut buffers) = (Vec::new(), Vec::new());
    // By argument; tensor maps name buffers, which may come after them.
    let mut places = vec![0; launch.args.len()];
    for (n, a) in launch.args.iter().enumerate() {
        if let Arg::Buffer { data, .. } = a {
            places[n] = context.alloc(data.len())?;
            buffers.push((places[n], data));
        }
    }
    for (n, a) in launch.args.iter().enumerate() {
        match a {
            Arg::Value(bytes) => args.push(bytes.clone()),
            Arg::Buffer { .. } => args.push(places[n].to_le_bytes().to_vec()),
            Arg::Object(o) => args.push(objects.handle(o)?.to_le_bytes().to_vec()),
            Arg::TensorMap { map, buffer } => {
                let base = *places.get(*buffer).ok_or("a tensor map names no buffer")?;
                let bytes = objects::map(&context, map, base)?;
                if sizes.get(n) == Some(&bytes.len()) {
                    args.push(bytes);
                } else {
                    let at = context.alloc(bytes.len())?;
                    context.upload(at, &bytes)?;
                    args.push(at.to_le_bytes().to_vec());
                }
            }
        }
    }
    let run = |args: &mut [Vec<u8>]| -> Result<Vec<Vec<u8>>, String> {
        for (at, data) in &buffers {
            context.upload(*at, data)?;
        }
        objects.upload()?;
        kernel.launch(&launch, args)?;
        context.synchronize()?;
        let mut left = Vec::new();
        for (at, data) in &buffers {
            let mut bytes = vec![0; data.len()];
            context.download(&mut bytes, *at)?;
            left.push(bytes);
        }
        left.extend(objects.download()?);
        Ok(left)
    };
    let left = run(&mut args)?;
    std::fs::create_dir_all(out).map_err(|e| e.to_string())?;
    for (n, bytes) in left.iter().enumerate() {
        std::fs::write(out.join(format!("{n}.bin")), bytes).map_err(|e| e.to_string())?;
    }
    let mut changed = 0;
    for _ in 0..times.repeat {
        changed += (run(&mut args)? != left) as u32;
    }
    let mut list = Vec::new();
    for n in 0..times.timed + times.timed / 10 {
        for (at, data) in &buffers {
            context.upload(*at, data)?;
        }
        objects.upload()?;
        let t = timed(&kernel, &launch, &mut args)?;
        if n >= times.timed / 10 {
            list.push(t);
        }
    }
    list.sort_by(f32::total_cmp);
    let at = |share: f64| list.get((share * list.len() as f64) as usize).copied().unwrap_or(f32::NAN);
    Ok(format!(
        "registers={} shared={} local={} changed={changed} median={} low={} high={}",
        has.registers,
        has.shared,
        has.local,
        at(0.5),
        at(0.1),
        at(0.9)
    ))
}

/// Bytes of each parameter of a kernel.
fn sizes(cubin: &[u8], kernel: &str) -> Result<Vec<usize>, String> {
    let elf = cubin::elf::Elf::read(cubin).map_err(|d| d.message)?;
    let loaded = cubin::load::Loaded::load(&elf).map_err(|d| d.message)?;
    let found = loaded.kernels.iter().find(|k| k.name == kernel).ok_or_else(|| format!("no kernel '{kernel}'"))?;
    Ok(found.params.iter().map(|p| p.size as usize).collect())
}

fn timed(kernel: &crate::cuda::Kernel<'_>, launch: &Launch, args: &mut [Vec<u8>]) -> Result<f32, String> {
    kernel.time(launch, args)
}
