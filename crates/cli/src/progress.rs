//! A bar on a terminal that tells how far a long run is. It goes to the error stream, and is gone when the run ends.

use indicatif::{ProgressBar, ProgressStyle};
use sim::Progress;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// A run shorter than this has no bar.
const PATIENCE: Duration = Duration::from_secs(1);
const EVERY: Duration = Duration::from_millis(100);

/// See the module. The bar goes when this is dropped.
pub struct Bar {
    counters: Arc<Progress>,
    shown: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Bar {
    /// A bar, if it is `wanted` and the error stream is a terminal.
    pub fn new(wanted: bool) -> Bar {
        let counters = Arc::new(Progress::default());
        let shown = (wanted && std::io::stderr().is_terminal()).then(|| {
            let (stop, stopped) = channel();
            let counters = counters.clone();
            let thread = std::thread::spawn(move || {
                let more = |wait| stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout);
                if !more(PATIENCE) {
                    return;
                }
                let bar = ProgressBar::new(0).with_style(style());
                while more(EVERY) {
                    show(&bar, &counters);
                }
                bar.finish_and_clear();
            });
            (stop, thread)
        });
        Bar { counters, shown }
    }

    /// What a run tells.
    pub fn counters(&self) -> Arc<Progress> {
        self.counters.clone()
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.shown.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

fn style() -> ProgressStyle {
    let text = "{bar:40} {pos} of {len} clusters, {msg}, {elapsed}";
    ProgressStyle::with_template(text).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn show(bar: &ProgressBar, counters: &Progress) {
    bar.set_length(counters.clusters.load(Relaxed));
    bar.set_position(counters.ended.load(Relaxed));
    bar.set_message(format!("{} million warp instructions", counters.instructions.load(Relaxed) / 1_000_000));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a terminal would show, on one that keeps it.
    #[test]
    fn it_says_how_far_the_run_is() {
        let terminal = indicatif::InMemoryTerm::new(2, 120);
        let target = indicatif::ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bar = ProgressBar::with_draw_target(Some(0), target).with_style(style());
        let counters = Progress::default();
        counters.clusters.store(12, Relaxed);
        counters.ended.store(3, Relaxed);
        counters.instructions.store(5_300_000, Relaxed);
        show(&bar, &counters);
        bar.tick();
        let text = terminal.contents();
        assert!(text.contains("3 of 12 clusters, 5 million warp instructions"), "{text}");
        bar.finish_and_clear();
        assert_eq!(terminal.contents(), "");
    }

    #[test]
    fn none_is_shown_unless_it_is_wanted() {
        let bar = Bar::new(false);
        assert!(bar.shown.is_none());
        assert_eq!(bar.counters().clusters.load(Relaxed), 0);
    }
}
