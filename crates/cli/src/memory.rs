//! Memory in large pages, where it is much.
//!
//! A module of 25 MB of PTX takes 60 MB beside its text. In pages of 4 KiB the first touch of each, 21,000 traps into the
//! system, is a quarter of the time of reading it; Linux gives pages of 2 MiB to those who ask (`madvise`, where
//! `transparent_hugepage` says so). We ask for large blocks, which have pages of their own, and for the heap of small
//! ones once it is large. Small kernels take no notice.

use std::alloc::{GlobalAlloc, Layout, System};

#[global_allocator]
static LARGE: Large = Large;

/// The system's allocator, which is told of blocks from [`ENOUGH`] bytes on.
struct Large;

/// Bytes of four large pages: what is lost at the ends of a block is little beside it.
const ENOUGH: usize = 8 << 20;

/// Bytes of a block at which we look how far the heap has grown: few blocks are so large.
const SEEN: usize = 8 << 10;

// SAFETY: every block comes from `System` and goes back to it; `advise` does not change what is in one.
unsafe impl GlobalAlloc for Large {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps what `System` wants.
        advised(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        advised(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        advised(unsafe { System.realloc(block, layout, size) }, size)
    }
}

/// The block; the system has been asked to back it, or the heap that it may lie in, with large pages.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn advised(block: *mut u8, size: usize) -> *mut u8 {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    /// Where the part of the heap ends that has been asked for.
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    if size >= ENOUGH && !block.is_null() {
        ask(block.addr(), block.addr() + size);
    } else if size >= SEEN {
        // SAFETY: a step of nothing tells where the heap ends, without asking the system.
        let end = unsafe { libc::sbrk(0) }.addr();
        let asked = ASKED.load(Relaxed);
        if asked == 0 {
            ASKED.store(end + ENOUGH, Relaxed);
        } else if end > asked {
            // From now on the heap grows in steps that are worth a large page.
            // SAFETY: these are parameters of the allocator, which may change at any time.
            unsafe { libc::mallopt(libc::M_TOP_PAD, ENOUGH as i32) };
            ask(asked, end);
            ASKED.store(end, Relaxed);
        }
    }
    block
}

/// Asks for large pages between two addresses.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn ask(start: usize, end: usize) {
    const PAGE: usize = 4096;
    let (start, end) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
    // SAFETY: the advice leaves the contents of the pages alone, whoever has them. That it is not taken is no error.
    unsafe { libc::madvise(std::ptr::without_provenance_mut(start), end.saturating_sub(start), libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn advised(block: *mut u8, _size: usize) -> *mut u8 {
    block
}

/// Most bytes of memory that the process has had so far, where the system tells.
#[cfg(target_os = "linux")]
pub fn peak() -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is large enough, and all zeroes are a value of it.
    let usage = unsafe {
        if libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) != 0 {
            return None;
        }
        usage.assume_init()
    };
    Some(usage.ru_maxrss as u64 * 1024)
}

#[cfg(not(target_os = "linux"))]
pub fn peak() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn large_blocks_keep_their_contents() {
        let mut block: Vec<u32> = (0..3 << 20).collect();
        block.reserve_exact(9 << 20);
        block.extend(0..3 << 20);
        assert!(block.iter().enumerate().all(|(n, &v)| v as usize == n % (3 << 20)));
        assert!(vec![0u8; super::ENOUGH + 1].iter().all(|&b| b == 0));
    }
}
