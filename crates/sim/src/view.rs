//! Global memory as a cluster sees it while it runs: the whole of it, or a view of its own.
//!
//! Clusters that run at the same time each have a view: what memory held before them, with their own writes on top. A view
//! knows which bytes it took from below and which it wrote. So [`crate::shape::run`] can tell whether the outcome is the
//! same as if the clusters had run one after the other, and repeat those for which it is not.

use crate::fault::MemFault;
use crate::memory::{Global, get, put};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Bytes of a page.
const PAGE: usize = 1024;
/// One bit a byte.
type Bits = [u64; PAGE / 64];

/// A page of a view: the content, and which bytes were read from below and written.
struct Page {
    data: [u8; PAGE],
    read: Bits,
    written: Bits,
}

/// Allocation and page in it.
type Place = (u32, u32);

/// Global memory for a cluster.
pub enum Memory {
    /// The memory itself, and the allocation found last.
    Whole(Global, usize),
    /// A view.
    View(View),
}

/// What a cluster sees and leaves that runs beside others.
pub struct View {
    below: Arc<Global>,
    found: usize,
    index: FxHashMap<Place, usize>,
    pages: Vec<(Place, Box<Page>)>,
    last: (Place, usize),
    alone: bool,
    printed: Vec<u8>,
}

/// The traces that a view leaves.
pub struct Trace {
    pages: Vec<(Place, Box<Page>)>,
    /// The cluster did what only one that runs alone can do.
    pub alone: bool,
    /// What it printed.
    printed: Vec<u8>,
}

/// Bytes written by clusters whose traces were applied.
#[derive(Default)]
pub struct Written(FxHashMap<Place, Bits>);

#[inline]
fn range(bits: &mut Bits, at: usize, len: usize, mut f: impl FnMut(&mut u64, u64)) {
    let (word, shift) = (at / 64, at % 64);
    let mask = if len >= 64 { u64::MAX } else { (1 << len) - 1 };
    f(&mut bits[word], mask << shift);
    if shift + len > 64 {
        f(&mut bits[word + 1], mask >> (64 - shift));
    }
}

impl View {
    /// A view on memory.
    pub fn new(below: Arc<Global>) -> View {
        View {
            below,
            found: 0,
            index: FxHashMap::default(),
            pages: Vec::new(),
            last: ((u32::MAX, 0), 0),
            alone: false,
            printed: Vec::new(),
        }
    }

    /// What it leaves.
    pub fn trace(self) -> Trace {
        Trace { pages: self.pages, alone: self.alone, printed: self.printed }
    }

    #[inline]
    fn page(&mut self, place: Place) -> &mut Page {
        if self.last.0 != place {
            let next = self.pages.len();
            let at = *self.index.entry(place).or_insert(next);
            if at == next {
                let mut page = Box::new(Page { data: [0; PAGE], read: [0; PAGE / 64], written: [0; PAGE / 64] });
                let from = &self.below.data(place.0 as usize)[place.1 as usize * PAGE..];
                let n = from.len().min(PAGE);
                page.data[..n].copy_from_slice(&from[..n]);
                self.pages.push((place, page));
            }
            self.last = (place, at);
        }
        &mut self.pages[self.last.1].1
    }

    /// Calls `f` with each piece that lies in one page: the page, the place in it, and the range of the access.
    fn pieces(
        &mut self,
        addr: u64,
        len: usize,
        mut f: impl FnMut(&mut Page, usize, usize, usize),
    ) -> Result<(), MemFault> {
        let (alloc, mut at) = self.below.find(addr, len as u32, &mut self.found)?;
        let mut done = 0;
        while done < len {
            // At most 64 bytes at a time, as the bits are set by words.
            let n = (len - done).min(PAGE - at % PAGE).min(64);
            f(self.page((alloc as u32, (at / PAGE) as u32)), at % PAGE, done, n);
            (at, done) = (at + n, done + n);
        }
        Ok(())
    }
}

impl Memory {
    /// Copies the bytes at `addr` to `to`.
    ///
    /// # Errors
    /// There are no such bytes.
    #[inline]
    pub fn read(&mut self, addr: u64, to: &mut [u8]) -> Result<(), MemFault> {
        if to.is_empty() {
            return Ok(());
        }
        match self {
            Memory::Whole(g, last) => {
                let (i, off) = g.find(addr, to.len() as u32, last)?;
                to.copy_from_slice(&g.data(i)[off..off + to.len()]);
                Ok(())
            }
            Memory::View(v) => v.pieces(addr, to.len(), |page, at, done, n| {
                to[done..done + n].copy_from_slice(&page.data[at..at + n]);
                let written = page.written;
                let mut word = at / 64;
                range(&mut page.read, at, n, |w, mask| {
                    *w |= mask & !written[word];
                    word += 1;
                });
            }),
        }
    }

    /// Copies `from` to the bytes at `addr`.
    ///
    /// # Errors
    /// There are no such bytes.
    #[inline]
    pub fn write(&mut self, addr: u64, from: &[u8]) -> Result<(), MemFault> {
        if from.is_empty() {
            return Ok(());
        }
        match self {
            Memory::Whole(g, last) => {
                let (i, off) = g.find(addr, from.len() as u32, last)?;
                g.data_mut(i)[off..off + from.len()].copy_from_slice(from);
                Ok(())
            }
            Memory::View(v) => v.pieces(addr, from.len(), |page, at, done, n| {
                page.data[at..at + n].copy_from_slice(&from[done..done + n]);
                range(&mut page.written, at, n, |w, mask| *w |= mask);
            }),
        }
    }

    /// Loads 1, 2, 4 or 8 bytes.
    ///
    /// # Errors
    /// There are no such bytes.
    #[inline]
    pub fn load(&mut self, addr: u64, size: u32) -> Result<u64, MemFault> {
        let mut bytes = [0; 8];
        self.read(addr, &mut bytes[..size as usize])?;
        Ok(get(&bytes, 0, size))
    }

    /// Stores 1, 2, 4 or 8 bytes.
    ///
    /// # Errors
    /// There are no such bytes.
    #[inline]
    pub fn store(&mut self, addr: u64, size: u32, value: u64) -> Result<(), MemFault> {
        let mut bytes = [0; 8];
        put(&mut bytes, 0, size, value);
        self.write(addr, &bytes[..size as usize])
    }

    /// A new allocation, and its address. In a view this only notes that the cluster must run alone.
    pub fn alloc(&mut self, data: Vec<u8>, align: u64, name: &str) -> u64 {
        match self {
            Memory::Whole(g, _) => g.alloc(data, align, name),
            Memory::View(v) => {
                v.alone = true;
                0
            }
        }
    }
}

impl Memory {
    /// Gives memory of [`Memory::alloc`] back; false if there is none of that name. In a view this only notes that the cluster
    /// must run alone.
    pub fn free(&mut self, base: u64, name: &str) -> bool {
        match self {
            Memory::Whole(g, _) => g.free(base, name),
            Memory::View(v) => {
                v.alone = true;
                true
            }
        }
    }

    /// Adds to what the launch prints.
    pub fn print(&mut self, text: &[u8]) {
        match self {
            Memory::Whole(g, _) => g.printed.extend_from_slice(text),
            Memory::View(v) => v.printed.extend_from_slice(text),
        }
    }
}

impl Written {
    /// True if a cluster that ran beside those written here took a byte from below that they have changed since.
    pub fn disturbs(&self, t: &Trace) -> bool {
        t.pages.iter().any(|(place, page)| {
            self.0.get(place).is_some_and(|w| page.read.iter().zip(w).any(|(read, written)| read & written != 0))
        })
    }

    /// Puts what a cluster wrote into memory.
    pub fn apply(&mut self, t: Trace, to: &mut Global) {
        to.printed.extend_from_slice(&t.printed);
        for (place, page) in t.pages {
            if page.written == [0; PAGE / 64] {
                continue;
            }
            let all = self.0.entry(place).or_insert([0; PAGE / 64]);
            let to = &mut to.data_mut(place.0 as usize)[place.1 as usize * PAGE..];
            for (word, (&bits, all)) in page.written.iter().zip(all).enumerate() {
                *all |= bits;
                if bits == u64::MAX {
                    to[64 * word..64 * word + 64].copy_from_slice(&page.data[64 * word..64 * word + 64]);
                } else {
                    (0..64).filter(|i| bits >> i & 1 != 0).for_each(|i| to[64 * word + i] = page.data[64 * word + i]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_knows_what_it_took_and_wrote() {
        let mut g = Global::new();
        let a = g.alloc((0..3000).map(|n| n as u8).collect(), 256, "argument 0");
        let run = |g: &Global, f: &dyn Fn(&mut Memory)| {
            let mut m = Memory::View(View::new(Arc::new(g.clone())));
            f(&mut m);
            let Memory::View(v) = m else { unreachable!() };
            v.trace()
        };
        // Over the edge of a page, and what was written is seen by the writer alone.
        let first = run(&g, &|m| {
            m.write(a + 1020, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
            assert_eq!(m.load(a + 1024, 4), Ok(0x0807_0605));
            assert!(m.load(a + 2999, 2).is_err());
        });
        let second = run(&g, &|m| assert_eq!(m.load(a + 1023, 1), Ok(0xff)));
        let third = run(&g, &|m| assert_eq!(m.load(a + 1028, 8), Ok(0x0b0a_0908_0706_0504)));
        let fourth = run(&g, &|m| {
            let mut all = [0; 2999];
            m.read(a, &mut all).unwrap();
            assert!(all.iter().enumerate().all(|(n, &x)| x == n as u8));
        });
        let mut w = Written::default();
        assert!(!w.disturbs(&first));
        w.apply(first, &mut g);
        assert_eq!((g.load(a + 1020, 8), g.load(a + 1019, 1)), (Ok(0x0807_0605_0403_0201), Ok(0xfb)));
        assert_eq!([&second, &third, &fourth].map(|t| w.disturbs(t)), [true, false, true]);
        // A read of what the cluster wrote itself takes nothing from below.
        let own = run(&g, &|m| {
            m.store(a + 1020, 8, 5).unwrap();
            m.load(a + 1020, 8).unwrap();
        });
        assert!(!w.disturbs(&own) && !own.alone);
    }
}
