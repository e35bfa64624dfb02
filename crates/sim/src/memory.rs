//! Memory: global allocations with gaps between them, and the windows of shared, local, constant and parameter memory.
//!
//! A generic address is 64 bits; its upper half tells the window. Global buffers lie at [`GLOBAL`] and above, each
//! aligned to 256 bytes and followed by a gap that no access may touch.

use crate::fault::{FaultKind, MemFault};

/// Generic address of the first global allocation.
pub const GLOBAL: u64 = 0x7f00_0000_0000;
/// Upper half of a generic address of shared memory; the lower half is `rank << 24 | offset`.
pub const SHARED_HIGH: u32 = 0x7e00;
/// Generic base of the shared window.
pub const SHARED: u64 = (SHARED_HIGH as u64) << 32;
/// Generic base of the local window.
pub const LOCAL: u64 = 0x7d00_0000_0000;
/// Generic base of constant memory.
pub const CONST: u64 = 0x7c00_0000_0000;
/// Generic base of kernel parameters.
pub const PARAM: u64 = 0x7b00_0000_0000;
/// Bytes at the start of every CTA's shared memory that belong to the system (sm_90 and later).
pub const SHARED_RESERVED: u32 = 0x400;
/// Largest shared memory of a CTA, in bytes (sm_90).
pub const MAX_SHARED: u32 = 227 * 1024;
/// Local memory of a thread, in bytes: accesses beyond are faults.
pub const LOCAL_SIZE: u32 = 512 * 1024;

const GAP: u64 = 1 << 16;

/// One global allocation.
#[derive(Clone, Debug)]
pub struct Alloc {
    /// First address.
    pub base: u64,
    /// Content.
    pub data: Vec<u8>,
    /// What it is, for messages: `argument 2`, `variable x`.
    pub name: String,
}

/// Global memory.
#[derive(Clone, Debug, Default)]
pub struct Global {
    allocs: Vec<Alloc>,
    next: u64,
    /// What the launch printed.
    pub(crate) printed: Vec<u8>,
}

/// Checks the alignment of an access of `size` bytes.
#[inline]
pub fn check_aligned(addr: u64, size: u32, space: &str) -> Result<(), MemFault> {
    if addr & (size as u64 - 1) == 0 {
        return Ok(());
    }
    let message = format!("{space} address {addr:#x} is not aligned to the {size} bytes of the access");
    Err(MemFault::new(FaultKind::Misaligned, message))
}

/// Reads up to 8 bytes, little-endian. `size` is 1, 2, 4 or 8 and the range is inside.
#[inline]
pub fn get(data: &[u8], at: usize, size: u32) -> u64 {
    match size {
        1 => data[at] as u64,
        2 => u16::from_le_bytes(data[at..at + 2].try_into().unwrap()) as u64,
        4 => u32::from_le_bytes(data[at..at + 4].try_into().unwrap()) as u64,
        _ => u64::from_le_bytes(data[at..at + 8].try_into().unwrap()),
    }
}

/// Writes up to 8 bytes, little-endian.
#[inline]
pub fn put(data: &mut [u8], at: usize, size: u32, value: u64) {
    match size {
        1 => data[at] = value as u8,
        2 => data[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes()),
        4 => data[at..at + 4].copy_from_slice(&(value as u32).to_le_bytes()),
        _ => data[at..at + 8].copy_from_slice(&value.to_le_bytes()),
    }
}

impl Global {
    /// Empty memory.
    pub fn new() -> Global {
        Global { next: GLOBAL, ..Global::default() }
    }

    /// Adds an allocation and gives its address.
    pub fn alloc(&mut self, data: Vec<u8>, align: u64, name: impl Into<String>) -> u64 {
        let base = self.next.next_multiple_of(align.max(256));
        self.next = base + data.len() as u64 + GAP;
        self.allocs.push(Alloc { base, data, name: name.into() });
        base
    }

    /// Gives an allocation of that name back: its bytes are gone. False if there is none at the address.
    pub fn free(&mut self, base: u64, name: &str) -> bool {
        match self.allocs.binary_search_by_key(&base, |a| a.base) {
            Ok(i) if self.allocs[i].name == name => {
                (self.allocs[i].data, self.allocs[i].name) = (Vec::new(), format!("freed memory of {name}"));
                true
            }
            _ => false,
        }
    }

    /// The allocation that starts at `base`.
    pub fn at(&self, base: u64) -> Option<&Alloc> {
        self.allocs.binary_search_by_key(&base, |a| a.base).ok().map(|i| &self.allocs[i])
    }

    /// Finds `size` bytes at `addr`: allocation and offset. `last` is the allocation that is tried first.
    ///
    /// # Errors
    /// There are no such bytes.
    #[inline]
    pub fn find(&self, addr: u64, size: u32, last: &mut usize) -> Result<(usize, usize), MemFault> {
        if let Some(a) = self.allocs.get(*last) {
            let off = addr.wrapping_sub(a.base);
            if off < a.data.len() as u64 && a.data.len() as u64 - off >= size as u64 {
                return Ok((*last, off as usize));
            }
        }
        let i = self.allocs.partition_point(|a| a.base <= addr);
        if i > 0 {
            let a = &self.allocs[i - 1];
            let off = addr - a.base;
            if off < a.data.len() as u64 && a.data.len() as u64 - off >= size as u64 {
                *last = i - 1;
                return Ok((i - 1, off as usize));
            }
        }
        Err(self.outside(addr, size))
    }

    #[cold]
    fn outside(&self, addr: u64, size: u32) -> MemFault {
        let i = self.allocs.partition_point(|a| a.base <= addr);
        let near = match (i.checked_sub(1).map(|i| &self.allocs[i]), self.allocs.get(i)) {
            (Some(a), _) if addr - (a.base + a.data.len() as u64).min(addr) < GAP => {
                format!(", {} bytes past the start of {} ({} bytes)", addr - a.base, a.name, a.data.len())
            }
            (_, Some(a)) if a.base - addr < GAP => format!(", {} bytes before {}", a.base - addr, a.name),
            _ => String::new(),
        };
        let message = format!("no memory at global address {addr:#x} for an access of {size} bytes{near}");
        MemFault::new(FaultKind::OutOfBounds, message)
    }

    /// The content of an allocation.
    pub(crate) fn data(&self, alloc: usize) -> &[u8] {
        &self.allocs[alloc].data
    }

    /// The content of an allocation, to be written.
    pub(crate) fn data_mut(&mut self, alloc: usize) -> &mut [u8] {
        &mut self.allocs[alloc].data
    }

    /// Loads up to 8 bytes.
    ///
    /// # Errors
    /// There are no such bytes.
    pub fn load(&self, addr: u64, size: u32) -> Result<u64, MemFault> {
        let (i, off) = self.find(addr, size, &mut 0)?;
        Ok(get(&self.allocs[i].data, off, size))
    }

    /// Stores up to 8 bytes.
    ///
    /// # Errors
    /// There are no such bytes.
    pub fn store(&mut self, addr: u64, size: u32, value: u64) -> Result<(), MemFault> {
        let (i, off) = self.find(addr, size, &mut 0)?;
        put(&mut self.allocs[i].data, off, size, value);
        Ok(())
    }
}

/// A small memory that starts at a fixed offset: shared memory of a CTA, local memory of a thread, a constant bank.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// Offset of the first byte.
    pub start: u32,
    /// Content.
    pub data: Vec<u8>,
}

/// Which CTA's shared memory an address of the shared window (without its upper half) means, and the offset in it.
#[inline]
pub(crate) fn shared(windows: &[Window], a: u64) -> Result<(usize, u64), MemFault> {
    let (rank, off) = ((a >> 24) as usize, a & 0xff_ffff);
    if rank < windows.len() {
        return Ok((rank, off));
    }
    let message = format!("shared address {a:#x} is outside of the cluster");
    Err(MemFault::new(FaultKind::OutOfBounds, message))
}

impl Window {
    /// Loads up to 8 bytes.
    #[inline]
    pub fn load(&self, addr: u64, size: u32, space: &str) -> Result<u64, MemFault> {
        Ok(get(&self.data, self.find(addr, size, space)?, size))
    }

    /// Stores up to 8 bytes.
    #[inline]
    pub fn store(&mut self, addr: u64, size: u32, value: u64, space: &str) -> Result<(), MemFault> {
        let at = self.find(addr, size, space)?;
        put(&mut self.data, at, size, value);
        Ok(())
    }

    /// Index of the byte at `addr`, where `size` bytes lie inside.
    #[inline]
    pub fn find(&self, addr: u64, size: u32, space: &str) -> Result<usize, MemFault> {
        let off = addr.wrapping_sub(self.start as u64);
        if off < self.data.len() as u64 && self.data.len() as u64 - off >= size as u64 {
            return Ok(off as usize);
        }
        Err(self.outside(addr, size, space))
    }

    #[cold]
    fn outside(&self, addr: u64, size: u32, space: &str) -> MemFault {
        let message = format!(
            "{space} address {addr:#x} for an access of {size} bytes; the kernel has {} bytes of {space} memory from {:#x}",
            self.data.len(),
            self.start
        );
        MemFault::new(FaultKind::OutOfBounds, message)
    }

    /// Loads from memory that grows with zeros up to `limit` bytes (local memory).
    #[inline]
    pub fn grow_for(&mut self, addr: u64, size: u32, limit: u32) {
        let end = addr.saturating_add(size as u64);
        if end > self.data.len() as u64 && end <= limit as u64 {
            self.data.resize((end as usize).next_multiple_of(256).min(limit as usize), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_gaps() {
        let mut g = Global::new();
        let a = g.alloc(vec![1, 2, 3, 4, 5, 6, 7, 8], 1, "argument 0");
        let b = g.alloc(vec![0; 4], 1, "argument 1");
        let empty = g.alloc(vec![], 1, "argument 2");
        assert!(b - a >= GAP && empty > b && a.is_multiple_of(256));
        assert_eq!(g.load(a + 4, 4), Ok(0x08070605));
        g.store(b, 4, 0xdead_beef).unwrap();
        assert_eq!(g.load(b, 4), Ok(0xdead_beef));
        assert_eq!(g.load(a + 1, 2), Ok(0x0302));
        for (addr, size) in [(a + 8, 1), (a + 6, 4), (a - 1, 1), (b + 4, 4), (0, 4), (empty, 1), (u64::MAX, 8)] {
            let fault = g.load(addr, size).unwrap_err();
            assert_eq!(fault.kind, FaultKind::OutOfBounds, "{addr:#x}");
        }
        assert!(g.load(a + 8, 4).unwrap_err().message.contains("8 bytes past the start of argument 0 (8 bytes)"));
        assert!(check_aligned(a + 2, 4, "global").is_err());
        assert!(check_aligned(a + 4, 4, "global").is_ok());
    }

    #[test]
    fn windows() {
        let mut w = Window { start: 0x400, data: vec![0; 16] };
        w.store(0x408, 8, 7, "shared").unwrap();
        assert_eq!(w.load(0x408, 8, "shared"), Ok(7));
        assert!(w.load(0x40c, 8, "shared").is_err());
        assert!(w.load(0x3ff, 1, "shared").is_err());
        assert!(w.load(u64::MAX, 8, "shared").is_err());
        w.grow_for(0x410, 4, 0x1000);
        assert!(w.data.len() >= 0x414);
    }
}
