//! `.debug_frame`: how to find the caller's frame, in the DWARF-64 form that the vendor writes, one CIE a function.

use super::{Kernel, Text};

/// DWARF numbers of registers are `0x0500_0000 | n`, as ULEB128.
fn register(n: u8) -> [u8; 4] {
    [0x80 | n & 0x7f, 0x80 | n >> 7, 0x80, 0x28]
}

const R1: u8 = 1;
const RZ: u8 = 255;

fn uleb(mut n: u32, out: &mut Vec<u8>) {
    loop {
        let byte = n as u8 & 0x7f;
        n >>= 7;
        out.push(byte | ((n != 0) as u8) << 7);
        if n == 0 {
            return;
        }
    }
}

/// An entry of the section: its length is filled in here, its end is padded to 8 bytes.
fn entry(out: &mut Vec<u8>, body: &[u8]) {
    let size = (12 + body.len()).next_multiple_of(8) - 12;
    out.extend([0xff; 4]);
    out.extend((size as u64).to_le_bytes());
    out.extend(body);
    out.resize(out.len() + size - body.len(), 0);
}

/// A place in the section that takes the address of the entry plus an addend.
pub(super) struct Fixup {
    pub offset: u64,
    pub addend: i64,
    /// True in a CIE, false for the start of a function: the file lists the latter first.
    pub in_cie: bool,
}

/// Appends the frames of an entry and its device functions; gives the places that need the entry's address.
pub(super) fn frames(out: &mut Vec<u8>, kernel: &Kernel) -> Vec<Fixup> {
    let mut fixups = Vec::new();
    let own = kernel.functions.iter().map(|f| f.offset).min().unwrap_or(kernel.code.len() as u32);
    let mut all = vec![(0, own, None)];
    all.extend(kernel.functions.iter().map(|f| (f.offset, f.size, Some(f.return_register))));
    for (offset, size, return_register) in all {
        let cie = out.len() as u64;
        let mut body = vec![0xff; 8];
        body.extend([3, 0, 4, 0x7c]);
        match return_register {
            None => body.extend([0xff, 0xff, 0xff, 0xff, 0x0f]),
            // The pseudo-register that the expression below computes.
            Some(_) => body.extend([0x80, 0x82, 0x80, 0x28]),
        }
        body.push(0xc);
        body.extend(register(R1));
        body.extend([0, 8]);
        body.extend(register(RZ));
        body.push(8);
        body.extend(register(R1));
        if let Some(n) = return_register {
            body.push(8);
            body.extend(register(n));
            body.extend([0x16, 0x80, 0x82, 0x80, 0x28, 0x10, 3]);
            fixups.push(Fixup { offset: cie + 12 + body.len() as u64, addend: 0, in_cie: true });
            body.extend([0; 8]);
            body.push(0x92);
            body.extend(register(n));
            body.extend([0, 0x22]);
        }
        entry(out, &body);
        let mut body = cie.to_le_bytes().to_vec();
        fixups.push(Fixup { offset: out.len() as u64 + 12 + 8, addend: offset as i64, in_cie: false });
        body.extend([0; 8]);
        body.extend((size as u64).to_le_bytes());
        if return_register.is_none() {
            body.push(4);
            body.extend((kernel.frame_offset / 4).to_le_bytes());
            body.push(0xc);
            body.extend(register(R1));
            uleb(kernel.frame, &mut body);
        }
        entry(out, &body);
    }
    fixups
}

/// Where a frame of a relocatable file takes addresses.
pub(super) struct ObjectFixup {
    /// Where its CIE begins.
    pub cie: u64,
    /// Where the place of its CIE stands.
    pub cie_pointer: u64,
    /// Where the start of the function stands; its size is behind.
    pub start: u64,
}

/// Appends the frame of an entry or function of a relocatable file.
pub(super) fn object_frame(out: &mut Vec<u8>, text: &Text) -> ObjectFixup {
    let cie = out.len() as u64;
    let mut body = vec![0xff; 8];
    body.extend([3, 0, 4, 0x7c]);
    let back = text.return_register.unwrap_or(RETURN);
    match text.entry {
        true => body.extend([0xff, 0xff, 0xff, 0xff, 0x0f]),
        false => body.extend(register(back)),
    }
    body.push(0xc);
    body.extend(register(R1));
    body.push(0);
    let same: &[u8] = if text.entry { &[RZ, R1] } else { &[RZ, R1, back, back + 1] };
    for &r in same {
        body.push(8);
        body.extend(register(r));
    }
    entry(out, &body);
    let at = out.len() as u64 + 12;
    let mut body = vec![0; 16];
    body.extend((text.kernel.code.len() as u64).to_le_bytes());
    body.push(4);
    body.extend((text.kernel.frame_offset / 4).to_le_bytes());
    body.push(0xc);
    body.extend(register(R1));
    uleb(text.kernel.frame, &mut body);
    for &(r, distance) in &text.saved {
        body.push(5);
        body.extend(register(r));
        uleb(distance / 4, &mut body);
    }
    entry(out, &body);
    ObjectFixup { cie, cie_pointer: at, start: at + 8 }
}

/// The register of the return address, as a rule.
const RETURN: u8 = 20;
