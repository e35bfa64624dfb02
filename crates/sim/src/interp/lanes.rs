//! Scalar functions made into functions over 32 lanes.

use super::program::{AluFn, CmpFn};

/// The lowest `bits` bits set.
#[inline]
pub fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// The lowest `bits` bits (1 to 64) as a signed number.
#[inline]
pub fn sx(x: u64, bits: u32) -> i64 {
    ((x << (64 - bits)) as i64) >> (64 - bits)
}

/// One source, cheap: computed for all lanes.
pub fn l1(f: impl Fn(u64) -> u64 + Send + Sync + 'static) -> AluFn {
    Box::new(move |s, d, _| {
        for i in 0..32 {
            d[i] = f(s[0][i]);
        }
    })
}

/// Two sources.
pub fn l2(f: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) -> AluFn {
    Box::new(move |s, d, _| {
        for i in 0..32 {
            d[i] = f(s[0][i], s[1][i]);
        }
    })
}

/// Three sources.
pub fn l3(f: impl Fn(u64, u64, u64) -> u64 + Send + Sync + 'static) -> AluFn {
    Box::new(move |s, d, _| {
        for i in 0..32 {
            d[i] = f(s[0][i], s[1][i], s[2][i]);
        }
    })
}

/// Four sources.
pub fn l4(f: impl Fn(u64, u64, u64, u64) -> u64 + Send + Sync + 'static) -> AluFn {
    Box::new(move |s, d, _| {
        for i in 0..32 {
            d[i] = f(s[0][i], s[1][i], s[2][i], s[3][i]);
        }
    })
}

/// One source, costly: computed for the lanes that count.
pub fn m1(f: impl Fn(u64) -> u64 + Send + Sync + 'static) -> AluFn {
    Box::new(move |s, d, m| each(m, |i| d[i] = f(s[0][i])))
}

/// Two sources, costly.
pub fn m2(f: impl Fn(u64, u64) -> u64 + Send + Sync + 'static) -> AluFn {
    Box::new(move |s, d, m| each(m, |i| d[i] = f(s[0][i], s[1][i])))
}

/// Three sources, costly.
pub fn m3(f: impl Fn(u64, u64, u64) -> u64 + Send + Sync + 'static) -> AluFn {
    Box::new(move |s, d, m| each(m, |i| d[i] = f(s[0][i], s[1][i], s[2][i])))
}

/// A relation.
pub fn c2(f: impl Fn(u64, u64) -> bool + Send + Sync + 'static) -> CmpFn {
    Box::new(move |s| {
        let mut r = 0;
        for i in 0..32 {
            r |= (f(s[0][i], s[1][i]) as u32) << i;
        }
        r
    })
}

/// Calls `f` for every set bit, lowest first.
#[inline]
pub fn each(mut m: u32, mut f: impl FnMut(usize)) {
    while m != 0 {
        f(m.trailing_zeros() as usize);
        m &= m - 1;
    }
}
