//! Functions side by side, their results in the order of the text.
//!
//! Plain threads that take the next function until there is none left: a pool whose idle threads wait awake burned more
//! processor time on small modules than compiling them took.

use ptx::module::{FuncId, Module};
use std::sync::atomic::{AtomicUsize, Ordering};

/// More threads than this help nobody.
const MOST_THREADS: usize = 1024;
/// Instructions of PTX below which a thread costs more than it saves, where the caller leaves their number open.
const WORTH: usize = 4000;

/// Applies `f` to each function of `ids`, on `threads` threads (0: as many as the machine has cores, where the functions are
/// long enough), and gives the results in order.
pub(crate) fn map<R: Send>(m: &Module, ids: &[FuncId], threads: usize, f: impl Fn(FuncId) -> R + Sync) -> Vec<R> {
    let statements = || -> usize { m.funcs.iter().filter_map(|f| f.body.as_ref()).map(|b| b.count()).sum() };
    let threads = match threads {
        _ if ids.len() < 2 => 1,
        0 if statements() < WORTH => 1,
        0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
        n => n,
    };
    let helpers = threads.min(ids.len()).min(MOST_THREADS).saturating_sub(1);
    if helpers == 0 {
        return ids.iter().map(|&id| f(id)).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut mine = Vec::new();
        while let n = next.fetch_add(1, Ordering::Relaxed)
            && let Some(&id) = ids.get(n)
        {
            mine.push((n, f(id)));
        }
        mine
    };
    let mut all = std::thread::scope(|scope| {
        // Where the system gives no thread, the others do its work.
        let started: Vec<_> =
            (0..helpers).map_while(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let mut all = work();
        for thread in started {
            match thread.join() {
                Ok(mine) => all.extend(mine),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_unstable_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, r)| r).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_keep_their_order() {
        let ids: Vec<FuncId> = (0..100).map(FuncId).collect();
        for threads in [0, 1, 2, 7, 5000] {
            let got = map(&Module::default(), &ids, threads, |id| 3 * id.0);
            assert_eq!(got, (0..100).map(|n| 3 * n).collect::<Vec<_>>(), "{threads}");
        }
        assert!(map(&Module::default(), &[], 3, |id| id).is_empty());
    }
}
