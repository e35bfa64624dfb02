//! Programs by their seeds: which ones, and all of them on all cores.

use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Asks `failure` about every seed of `usual`, or of what `SASSAFRAS_SEEDS` names (`7` or `201..300`), on all cores.
///
/// # Panics
/// If a seed failed, with what was said of each; if `SASSAFRAS_SEEDS` is no range of numbers.
pub fn seeds(usual: RangeInclusive<u64>, failure: impl Fn(u64) -> Option<String> + Sync) {
    let seeds = match std::env::var("SASSAFRAS_SEEDS").ok() {
        Some(s) => {
            let (from, to) = s.split_once("..").unwrap_or((&s, &s));
            from.parse().expect("a number")..=to.parse().expect("a number")
        }
        None => usual,
    };
    let next = AtomicU64::new(*seeds.start());
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            s.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > *seeds.end() {
                        break;
                    }
                    let said = failure(seed);
                    failed.lock().expect("no panic").extend(said);
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no panic");
    assert!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_asked_once() {
        let asked = Mutex::new(Vec::new());
        seeds(3..=40, |seed| {
            asked.lock().expect("no panic").push(seed);
            None
        });
        let mut asked = asked.into_inner().expect("no panic");
        asked.sort_unstable();
        if std::env::var_os("SASSAFRAS_SEEDS").is_none() {
            assert_eq!(asked, (3..=40).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic(expected = "bad")]
    fn a_failure_fails() {
        seeds(1..=2, |_| Some("bad".into()));
    }
}
