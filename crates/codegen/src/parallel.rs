//! Functions side by side, their results in the order of the text.
//!
//! Plain threads that take the next function until there is none left: a pool whose idle threads wait awake burned more
//! processor time on small modules than compiling them took.

use crate::pipeline::Options;
use ptx::module::{FuncId, Module};
use std::any::Any;
use std::fmt::Debug;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};

/// More threads than this help nobody.
const MOST_THREADS: usize = 1024;
/// Instructions of PTX below which a thread costs more than it saves, where the caller leaves their number open.
const WORTH: usize = 4000;

/// Leave to run threads, which somebody gives who counts them for several programs.
pub trait Permits: Debug + Send + Sync + RefUnwindSafe + UnwindSafe {
    /// Leave for one more thread if there is some now; it is given back when the value is dropped.
    fn take(&self) -> Option<Box<dyn Any + Send>>;
}

/// Applies `f` to each function of `ids`, on `options.threads` threads (0: as many as the machine has cores, where the functions
/// are long enough) and no more than `options.permits` allows, and gives the results in order.
pub(crate) fn map<R: Send>(m: &Module, ids: &[FuncId], options: &Options, f: impl Fn(FuncId) -> R + Sync) -> Vec<R> {
    let statements = || -> usize { m.funcs.iter().filter_map(|f| f.body.as_ref()).map(|b| b.count()).sum() };
    let threads = match options.threads {
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
    let one = || {
        let n = next.fetch_add(1, Ordering::Relaxed);
        ids.get(n).map(|&id| (n, f(id)))
    };
    let mut all = std::thread::scope(|scope| {
        let mut started = Vec::new();
        // Where the system gives no thread, the others do its work.
        let start = || {
            let leave = match &options.permits {
                Some(permits) => Some(permits.take()?),
                None => None,
            };
            let work = move || {
                let _leave = leave;
                std::iter::from_fn(one).collect::<Vec<_>>()
            };
            std::thread::Builder::new().spawn_scoped(scope, work).ok()
        };
        let mut all = Vec::new();
        // Leave may come while this thread works.
        while let left = ids.len().saturating_sub(next.load(Ordering::Relaxed))
            && left > 0
        {
            let wanted = helpers.saturating_sub(started.len()).min(left.saturating_sub(1));
            started.extend((0..wanted).map_while(|_| start()));
            all.extend(one());
        }
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

    use std::sync::Arc;

    fn on(threads: usize, permits: Option<Arc<dyn Permits>>) -> Options {
        Options { threads, permits, ..Options::default() }
    }

    #[test]
    fn results_keep_their_order() {
        let ids: Vec<FuncId> = (0..100).map(FuncId).collect();
        for threads in [0, 1, 2, 7, 5000] {
            let got = map(&Module::default(), &ids, &on(threads, None), |id| 3 * id.0);
            assert_eq!(got, (0..100).map(|n| 3 * n).collect::<Vec<_>>(), "{threads}");
        }
        assert!(map(&Module::default(), &[], &on(3, None), |id| id).is_empty());
    }

    /// Leave for so many threads, and how many of them ran at most at once.
    #[derive(Debug)]
    struct Few {
        left: Arc<AtomicUsize>,
        taken: AtomicUsize,
    }

    struct Leave(Arc<AtomicUsize>);

    impl Drop for Leave {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Permits for Few {
        fn take(&self) -> Option<Box<dyn Any + Send>> {
            let one = |n: usize| n.checked_sub(1);
            self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one).ok()?;
            self.taken.fetch_add(1, Ordering::SeqCst);
            Some(Box::new(Leave(self.left.clone())))
        }
    }

    #[test]
    fn no_thread_runs_without_leave_and_all_leave_is_given_back() {
        let ids: Vec<FuncId> = (0..40).map(FuncId).collect();
        for (permits, threads, most) in [(0, 8, 1), (2, 8, 3), (9, 4, 4)] {
            let few = Arc::new(Few { left: Arc::new(AtomicUsize::new(permits)), taken: AtomicUsize::new(0) });
            let (running, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let work = |id: FuncId| {
                peak.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(std::time::Duration::from_millis(1));
                running.fetch_sub(1, Ordering::SeqCst);
                id.0
            };
            let got = map(&Module::default(), &ids, &on(threads, Some(few.clone())), work);
            assert_eq!(got, (0..40).collect::<Vec<_>>());
            assert!(peak.into_inner() <= most, "{permits} permits, {threads} threads");
            assert_eq!(few.taken.load(Ordering::SeqCst) > 0, permits > 0);
            assert_eq!(few.left.load(Ordering::SeqCst), permits);
            // Whoever panics gives it back, too.
            let panics = || map(&Module::default(), &ids, &on(threads, Some(few.clone())), |id| assert!(id.0 < 9));
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
            assert_eq!(few.left.load(Ordering::SeqCst), permits);
        }
    }
}
