//! One run in the simulator as a process of its own: whatever a program does to the simulator, the others go on.

use sim::{Config, Launch};
use std::path::Path;

/// What a run left.
pub enum Left {
    /// The words of its first buffer, and how many warp instructions it took.
    Words(Vec<u32>, u64),
    /// The kind of the fault, and what it says.
    Fault(String, String),
}

impl Left {
    /// What [`simulate`] has printed.
    pub fn read(text: &str) -> Option<Left> {
        let (first, rest) = text.split_once('\n')?;
        let (word, more) = first.split_once(' ')?;
        match word {
            "left" => {
                let words = rest.split_whitespace().map(|w| u32::from_str_radix(w, 16)).collect::<Result<_, _>>();
                Some(Left::Words(words.ok()?, more.parse().ok()?))
            }
            "fault" => Some(Left::Fault(more.into(), rest.trim_end().replace('\n', "; "))),
            _ => None,
        }
    }
}

/// Runs a module (PTX or a cubin), with a launch file and at most so many warp instructions: the arguments. Prints what [`Left::read`] reads.
///
/// # Errors
/// Arguments or files are wrong.
pub fn simulate(args: &[String]) -> Result<(), String> {
    let [module, launch, steps] = args else { return Err("simulate MODULE LAUNCH STEPS".into()) };
    let read = |file: &Path| std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()));
    let text = String::from_utf8(read(Path::new(launch))?).map_err(|e| e.to_string())?;
    let folder = Path::new(launch).parent().unwrap_or(Path::new("."));
    let launch = Launch::parse(&text, &mut |f| read(&folder.join(f)))
        .map_err(|list| list.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; "))?;
    let max_instructions = steps.parse().map_err(|_| format!("{steps} is no number"))?;
    let config = Config { max_instructions, threads: 1, ..Config::default() };
    let bytes = read(Path::new(module))?;
    let outcome = if bytes.starts_with(b"\x7fELF") {
        sim::run_sass(&bytes, &launch, &config)
    } else {
        let (m, list) = ptx::parse_bytes(&bytes);
        if let Some(d) = list.iter().find(|d| d.is_error()) {
            return Err(format!("{module}: {}", d.message));
        }
        sim::run_ptx(&m, &launch, &config)
    };
    match outcome {
        Ok(o) => {
            let words = o.buffers.first().map_or(&[][..], |b| &b[..]).chunks_exact(4);
            let words: Vec<String> =
                words.map(|w| format!("{:x}", u32::from_le_bytes([w[0], w[1], w[2], w[3]]))).collect();
            println!("left {}\n{}", o.stats.warp_instructions, words.join("\n"));
        }
        Err(f) => println!("fault {}\n{f}", f.kind.name()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        assert!(matches!(Left::read("left 77\n1\nff\n"), Some(Left::Words(w, 77)) if w == [1, 255]));
        assert!(
            matches!(Left::read("fault stack overflow\na\nb\n"), Some(Left::Fault(k, m)) if k == "stack overflow" && m == "a; b")
        );
        assert!(Left::read("thread 'main' panicked\n").is_none());
    }
}
