//! How the kernels of `testkit::calls` are launched.

use sim::{Arg, Launch};
use testkit::{Random, calls};

const THREADS: usize = 48;

/// A launch of `k` with two buffers: numbers of this seed to read, and room for the results.
pub fn launch(seed: u64) -> Launch {
    let mut r = Random(seed);
    let data = (0..THREADS * calls::IN_WORDS).flat_map(|_| (r.bits() as u32).to_le_bytes()).collect();
    Launch {
        kernel: "k".into(),
        grid: [1, 1, 1],
        block: [THREADS as u32, 1, 1],
        args: vec![
            Arg::Buffer { data, out: None },
            Arg::Buffer { data: vec![0; THREADS * calls::OUT_WORDS * 4], out: None },
        ],
        ..Launch::default()
    }
}
