//! Memory: small blocks from lists of our own, and large pages, where it is much.
//!
//! A compiler asks for many small blocks and gives them back soon. Blocks of up to 1 KiB come from lists of blocks of one
//! size, a set of lists a thread: taking one is reading a pointer, giving one back is writing one, and what was given back last,
//! which the processor still holds, is taken first. With the system's allocator it was a fifth of all instructions of
//! compiling a small kernel. Nothing goes back to the system before the process ends.
//!
//! A module of 25 MB of PTX takes 60 MB beside its text. In pages of 4 KiB the first touch of each, 21,000 traps into the
//! system, is a quarter of the time of reading it; Linux gives pages of 2 MiB to those who ask (`madvise`, where
//! `transparent_hugepage` says so). We ask for large blocks, which have pages of their own, and for the heap of small
//! ones once it is large. A large page takes as long at its first touch as 40 to 80 small ones, by what else the machine does: where the text to
//! be compiled lets expect that the heap will have more pages, it goes on with large ones from there ([`expect`]). Small kernels take no notice.

use std::alloc::{GlobalAlloc, Layout, System};

#[global_allocator]
static HEAP: Heap = Heap;

/// Bytes of a block that has pages of its own, which go back to the system with it.
const APART: usize = 1 << 20;

/// Lists of small blocks; the system's allocator for the others, which is told of those from [`ENOUGH`] bytes on.
struct Heap;

/// Bytes of four large pages: what is lost at the ends of a block is little beside it.
const ENOUGH: usize = 8 << 20;

/// Bytes of a large page.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE: usize = 2 << 20;

/// Bytes of a page.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const PAGE: usize = 4096;

/// Bytes of a block at which we look how far the heap has grown: few blocks are so large.
const SEEN: usize = 8 << 10;

// SAFETY: every block comes from `System` or `small`, and goes back to where blocks of its layout come from; `advise` does not
// change what is in one.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match small::class(layout) {
            Some(class) => small::take(class),
            // SAFETY: the caller keeps what `System` wants.
            None => advised(unsafe { System.alloc(layout) }, layout.size()),
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(class) = small::class(layout) else {
            // SAFETY: as above.
            return advised(unsafe { System.alloc_zeroed(layout) }, layout.size());
        };
        let block = small::take(class);
        if !block.is_null() {
            // SAFETY: blocks of the class have at least this size.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match small::class(layout) {
            // SAFETY: the block came from `take` of the same class, as the layout is the same.
            Some(class) => unsafe { small::give(class, block) },
            // SAFETY: as above.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that `size`, rounded up to the alignment, is a size.
        let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        let (from, to) = (small::class(layout), small::class(new));
        if from.is_none() && to.is_none() {
            // SAFETY: as above.
            return advised(unsafe { System.realloc(block, layout, size) }, size);
        }
        // SAFETY: a block of a class that is the last one taken may become one of another class.
        if from == to || from.zip(to).is_some_and(|(from, to)| unsafe { small::resize(block, from, to) }) {
            return block;
        }
        // SAFETY: both blocks hold what is copied, and are not the same one; the old one is given back once.
        unsafe {
            let into = self.alloc(new);
            if !into.is_null() {
                into.copy_from_nonoverlapping(block, layout.size().min(size));
                self.dealloc(block, layout);
            }
            into
        }
    }
}

/// Small blocks.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod small {
    use super::{ENOUGH, advised};
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::UnsafeCell;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Sizes are multiples of this, and blocks lie at multiples of it.
    const STEP: usize = 16;
    /// Up to here there is a class for each multiple of [`STEP`]; above, four for each power of two.
    const FINE: usize = 128;
    /// Largest block.
    pub const MOST: usize = 1 << 10;
    /// Number of classes.
    pub const CLASSES: usize = FINE / STEP + 4 * (MOST / FINE).ilog2() as usize;
    /// Bytes that the first piece of memory to cut blocks from has.
    const PIECE: usize = 8 << 10;

    /// What a thread has: blocks given back, of each class, and the rest of a piece.
    struct Lists {
        free: [*mut u8; CLASSES],
        next: *mut u8,
        end: *mut u8,
    }

    thread_local! {
        // Without a destructor: it may be used as long as there is a thread.
        static LISTS: UnsafeCell<Lists> = const {
            let none = std::ptr::null_mut();
            UnsafeCell::new(Lists { free: [none; CLASSES], next: none, end: none })
        };
    }

    /// Bytes in pieces so far, of all threads.
    static TAKEN: AtomicUsize = AtomicUsize::new(0);

    /// The class of blocks that have room for the layout; none where it is not small.
    #[inline]
    pub fn class(layout: Layout) -> Option<usize> {
        let size = layout.size();
        if size > MOST || layout.align() > STEP {
            return None;
        }
        Some(if size <= FINE {
            size.saturating_sub(1) / STEP
        } else {
            // The first two bits below the highest one.
            let power = (size - 1).ilog2();
            FINE / STEP + 4 * (power - FINE.ilog2()) as usize + (((size - 1) >> (power - 2)) & 3)
        })
    }

    /// Bytes of the blocks of a class.
    #[inline]
    pub fn size(class: usize) -> usize {
        match class.checked_sub(FINE / STEP) {
            None => (class + 1) * STEP,
            Some(n) => (5 + n % 4) << (FINE.ilog2() as usize + n / 4 - 2),
        }
    }

    /// A block of the class; null where the system has no more memory.
    #[inline]
    pub fn take(class: usize) -> *mut u8 {
        LISTS.with(|lists| {
            // SAFETY: nothing else looks at the lists of this thread while this runs: it calls nothing that takes a block.
            let lists = unsafe { &mut *lists.get() };
            let block = lists.free[class];
            if !block.is_null() {
                // SAFETY: `give` wrote the pointer to the next one there.
                lists.free[class] = unsafe { block.cast::<*mut u8>().read() };
                return block;
            }
            let size = size(class);
            if lists.end.addr() - lists.next.addr() < size && !lists.refill() {
                return std::ptr::null_mut();
            }
            let block = lists.next;
            // SAFETY: there is as much left of the piece.
            lists.next = unsafe { block.add(size) };
            block
        })
    }

    /// Puts a block to those that may be taken.
    ///
    /// # Safety
    /// It came from [`take`] of this class, by any thread, and nobody has it any more.
    #[inline]
    pub unsafe fn give(class: usize, block: *mut u8) {
        LISTS.with(|lists| {
            // SAFETY: as in `take`; a block has room for a pointer, and is aligned for one.
            unsafe {
                let lists = &mut *lists.get();
                block.cast::<*mut u8>().write(lists.free[class]);
                lists.free[class] = block;
            }
        })
    }

    /// Makes a block of one class one of another; false where that cannot be done without moving it.
    ///
    /// # Safety
    /// The block is one of class `from`.
    pub unsafe fn resize(block: *mut u8, from: usize, to: usize) -> bool {
        LISTS.with(|lists| {
            // SAFETY: as in `take`.
            let lists = unsafe { &mut *lists.get() };
            let last = block.addr() + size(from) == lists.next.addr() && block.addr() + size(to) <= lists.end.addr();
            if last {
                lists.next = block.with_addr(block.addr() + size(to));
            }
            last
        })
    }

    impl Lists {
        /// Gets a new piece, large enough for any block; what is left of the old one is lost. False where there is none.
        #[cold]
        fn refill(&mut self) -> bool {
            // Steps grow with what there is, so that little is lost; from `ENOUGH` on they are worth large pages.
            let taken = TAKEN.load(Relaxed);
            let piece = if taken >= ENOUGH { ENOUGH } else { (taken / 4).next_power_of_two().max(PIECE) };
            // SAFETY: the size is not zero.
            let start = unsafe { System.alloc(Layout::from_size_align_unchecked(piece, STEP)) };
            if start.is_null() {
                return false;
            }
            TAKEN.fetch_add(piece, Relaxed);
            self.next = advised(start, piece);
            // SAFETY: the piece has this size.
            self.end = unsafe { start.add(piece) };
            true
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn classes_fit() {
            for bytes in 0..=MOST {
                let class = class(Layout::from_size_align(bytes, 8).unwrap()).unwrap();
                assert!(class < CLASSES && size(class) >= bytes && size(class).is_multiple_of(STEP), "{bytes}");
                assert!(class == 0 || size(class - 1) < bytes, "{bytes}: a smaller class would do");
            }
            assert_eq!(size(CLASSES - 1), MOST);
            assert_eq!(class(Layout::from_size_align(MOST + 1, 8).unwrap()), None);
            assert_eq!(class(Layout::from_size_align(64, 64).unwrap()), None);
        }

        #[test]
        fn blocks_that_were_given_back_come_again() {
            let a = take(3);
            // SAFETY: it is of this class, and used no more.
            unsafe { give(3, a) };
            assert_eq!(take(3), a);
            assert_ne!(take(3), a);
        }

        #[test]
        fn only_the_last_block_grows_in_place() {
            let class = |n| class(Layout::from_size_align(n, 8).unwrap()).unwrap();
            let (small, large) = (class(640), class(MOST));
            // Until what was given back is used up, and a piece has room for the larger block.
            for _ in 0..1000 {
                let (a, b) = (take(small), take(small));
                // SAFETY: both are of this class.
                unsafe {
                    assert!(!resize(a, small, large));
                    if resize(b, small, large) {
                        let next = take(small).addr();
                        assert!(next >= b.addr() + MOST || next + size(small) <= b.addr());
                        return;
                    }
                }
            }
            panic!("no block grew in place");
        }
    }
}

/// Tells the system's allocator to keep what it gets: a list that grows beyond 128 KiB would have pages of its own, fresh ones
/// each time it moves, and what is given back at the end of the heap would go to the system and come again.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn keep() {
    // SAFETY: these are parameters of the allocator, which may change at any time.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, APART as i32);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
    }
    ALONE.store(true, std::sync::atomic::Ordering::Relaxed);
}

/// A program of its own said what it keeps: no thread but the first has asked for memory.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
static ALONE: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Where the part of the heap ends that has been asked for.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
static ASKED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// This PTX will be compiled, and there is no other thread yet: where it is long enough the heap continues in large pages, else what it will need is
/// asked for at once.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn expect(text: &[u8]) {
    /// Bytes that reading and compiling a statement takes as if they were text.
    const STATEMENT: usize = 40;
    /// Such bytes whose compilation touches seventy pages: with fewer, clearing a large one takes as long.
    const PAYS: usize = 20_000;
    if !ALONE.load(std::sync::atomic::Ordering::Relaxed) {
        return;
    }
    // Counted in bytes, sixteen at a time, as long as they do not overflow.
    let count = |part: &[u8]| usize::from(part.iter().map(|&b| u8::from(b == b';')).sum::<u8>());
    // What follows in longer texts decides nothing.
    let statements = text[..text.len().min(PAYS)].chunks(u8::MAX.into()).map(count).sum::<usize>();
    if text.len() + STATEMENT * statements >= PAYS {
        continue_large();
    } else {
        continue_small(text.len(), statements);
    }
}

/// Asks for the pages that compiling a text of so many bytes and statements is going to touch, those of the heap and those of the stack: one by one, as they are
/// touched, they take half as long again. A page too many costs twice as much as one too few: remarks and tables for debuggers are text, too, so that both counts
/// must say so.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn continue_small(text: usize, statements: usize) {
    /// Bytes of a text for each page, and statements, ...
    const EACH: (usize, usize) = (180, 4);
    /// ... beyond those of any; kernels of a thousand bytes touch fourteen, of eight thousand fifty, five of them before they are read.
    const LEAST: (usize, usize) = (3, 2);
    /// Pages of the stack that even the shortest kernel comes to.
    const STACK: usize = 6;
    let populate = |start: usize, end: usize| {
        let (start, end) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
        let at = std::ptr::without_provenance_mut(start);
        // SAFETY: what the pages hold stays as it is. That a system does not know this advice is no error.
        unsafe { libc::madvise(at, end.saturating_sub(start), libc::MADV_POPULATE_WRITE) };
    };
    let size = (LEAST.0 + text / EACH.0).min(LEAST.1 + statements / EACH.1) * PAGE;
    // SAFETY: the block, if there is one, is given back as it was taken.
    unsafe {
        let block = libc::malloc(size);
        populate(block.addr(), block.addr() + size);
        libc::free(block);
    }
    // The stack is there, down to far below, before it is used (Linux makes 128 KiB of it).
    let here = (&raw const size).addr();
    populate(here - STACK * PAGE, here);
}

/// Elsewhere nothing is asked for.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn expect(_text: &[u8]) {}

/// Lets the heap go on where a large page begins. The system's allocator takes what follows as the step of somebody else, beyond which it
/// continues; what is left of its memory before that is taken from it, or it would first use that up, page by page.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn continue_large() {
    use std::sync::atomic::Ordering::Relaxed;
    /// Bytes the heap grows by: of those nobody touches there are no pages.
    const STEP: usize = 32 << 20;
    /// As the allocator has it.
    const USUAL: usize = 128 << 10;
    /// Bytes of a small block with what the allocator writes beside it, at most.
    const BLOCK: usize = 64;
    // SAFETY: blocks that are never given back, and steps of the end of the heap while no other thread may make one.
    unsafe {
        let end = || libc::sbrk(0).addr();
        // A call whose block nobody looks at would be left out.
        let take = |size| std::hint::black_box(libc::malloc(size)).addr();
        let last = take(2 * SEEN);
        let rest = end().wrapping_sub(last + 2 * SEEN);
        if last == 0 || rest > ENOUGH {
            return;
        }
        if rest > 2 * BLOCK {
            take(rest - 2 * BLOCK);
        }
        // The allocator writes at the beginning of what it gets, before anybody can ask for large pages there: that is in the page before.
        let start = (end() + PAGE).next_multiple_of(LARGE);
        libc::sbrk((start - PAGE - end()) as isize);
        libc::mallopt(libc::M_TOP_PAD, STEP as i32);
        let first = take(PAGE - BLOCK);
        let end = end();
        if (start - PAGE..start).contains(&first) && end >= start + LARGE {
            ask(start, end);
            ASKED.store(end, Relaxed);
        } else {
            libc::mallopt(libc::M_TOP_PAD, USUAL as i32);
        }
    }
}

/// Gives pages to the system that nobody uses at the moment: for once, when much has become free.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_back() {
    // SAFETY: blocks that are in use stay where they are.
    unsafe { libc::malloc_trim(0) };
}

/// Elsewhere nothing was kept.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

/// Elsewhere the system's allocator has all blocks.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod small {
    use std::alloc::Layout;

    pub fn class(_layout: Layout) -> Option<usize> {
        None
    }

    pub fn take(_class: usize) -> *mut u8 {
        std::ptr::null_mut()
    }

    pub unsafe fn give(_class: usize, _block: *mut u8) {}

    pub unsafe fn resize(_block: *mut u8, _from: usize, _to: usize) -> bool {
        false
    }
}

/// The block; the system has been asked to back it, or the heap that it may lie in, with large pages.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn advised(block: *mut u8, size: usize) -> *mut u8 {
    use std::sync::atomic::Ordering::Relaxed;
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
    let (start, end) = (start.next_multiple_of(PAGE), end / PAGE * PAGE);
    // SAFETY: the advice leaves the contents of the pages alone, whoever has them. That it is not taken is no error.
    unsafe { libc::madvise(std::ptr::without_provenance_mut(start), end.saturating_sub(start), libc::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn advised(block: *mut u8, _size: usize) -> *mut u8 {
    block
}

/// Most bytes of memory that the process has had so far, where the system tells. (`getrusage` counts in what the process had that started it.)
#[cfg(target_os = "linux")]
pub fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    Some(kib.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(not(target_os = "linux"))]
pub fn peak() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    #[test]
    fn blocks_keep_their_contents_on_their_way_through_all_sizes() {
        let mut lists: Vec<Vec<u16>> = vec![Vec::new(); 50];
        for n in 0..20_000u16 {
            let at = (n as usize * 7) % lists.len();
            lists[at].push(n);
            if n % 1000 == 999 {
                lists[at].truncate(3);
                lists[at].shrink_to_fit();
            }
        }
        let given = std::thread::spawn(move || lists.iter().flatten().map(|&n| n as u64).sum::<u64>());
        let mut kept = vec![Vec::new(); 50];
        for n in 0..20_000u16 {
            let at = (n as usize * 7) % kept.len();
            kept[at].push(n as u64);
            if n % 1000 == 999 {
                kept[at].truncate(3);
            }
        }
        assert_eq!(given.join().unwrap(), kept.iter().flatten().sum::<u64>());
        assert!((0..15_000).all(|n| vec![0u8; n].iter().all(|&b| b == 0)));
    }

    #[test]
    fn large_blocks_keep_their_contents() {
        let mut block: Vec<u32> = (0..3 << 20).collect();
        block.reserve_exact(9 << 20);
        block.extend(0..3 << 20);
        assert!(block.iter().enumerate().all(|(n, &v)| v as usize == n % (3 << 20)));
        assert!(vec![0u8; super::ENOUGH + 1].iter().all(|&b| b == 0));
    }
}
