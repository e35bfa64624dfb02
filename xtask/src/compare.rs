//! When two results agree: bit for bit, or within the bounds of `tests/kernels/bounds.toml` where PTX leaves bits open.

use std::collections::HashMap;

/// How far apart results may be: near by either measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Bytes of a number: 4 or 8.
    pub bytes: usize,
    /// Representable numbers between two results.
    pub ulp: u64,
    /// Their difference.
    pub absolute: f64,
}

/// What is allowed to a kernel. Without a bound the bytes are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// With contraction off.
    pub exact: Option<Bound>,
    /// With contraction on.
    pub contracted: Option<Bound>,
    /// Contraction makes other numbers altogether, as it may: it is not compared.
    pub skip: bool,
}

/// The table `bounds.toml`, by kernel or launch.
///
/// # Errors
/// What is wrong with the text.
pub fn bounds(text: &str) -> Result<HashMap<String, Bounds>, String> {
    let table: toml::Table = toml::from_str(text).map_err(|e| format!("bounds.toml: {e}"))?;
    let mut out: HashMap<String, Bounds> = HashMap::new();
    if let Some(part) = table.keys().find(|k| !["exact", "contracted"].contains(&k.as_str())) {
        return Err(format!("bounds.toml: '{part}' is neither exact nor contracted"));
    }
    for (name, value) in table.get("exact").and_then(toml::Value::as_table).into_iter().flatten() {
        out.entry(name.clone()).or_default().exact = Some(bound(name, value)?);
    }
    for (name, value) in table.get("contracted").and_then(toml::Value::as_table).into_iter().flatten() {
        let bounds = out.entry(name.clone()).or_default();
        match value.get("skip") {
            Some(_) => bounds.skip = true,
            None => bounds.contracted = Some(bound(name, value)?),
        }
    }
    Ok(out)
}

fn bound(name: &str, value: &toml::Value) -> Result<Bound, String> {
    let bytes = match value.get("type").and_then(toml::Value::as_str) {
        Some("f32") => 4,
        Some("f64") => 8,
        _ => return Err(format!("bounds.toml: '{name}' has no type f32 or f64")),
    };
    let ulp = value.get("ulp").and_then(toml::Value::as_integer).and_then(|n| u64::try_from(n).ok());
    let ulp = ulp.ok_or_else(|| format!("bounds.toml: '{name}' has no ulp"))?;
    let absolute = value.get("absolute").and_then(toml::Value::as_float).unwrap_or(0.0);
    Ok(Bound { bytes, ulp, absolute })
}

/// Says how the buffers of two runs differ, if they do by more than the bound.
///
/// # Errors
/// The first difference.
pub fn compare(want: &[Vec<u8>], got: &[Vec<u8>], bound: Option<Bound>) -> Result<(), String> {
    if want.len() != got.len() {
        return Err(format!("{} and {} buffers", want.len(), got.len()));
    }
    for (n, (w, g)) in want.iter().zip(got).enumerate() {
        if w == g {
            continue;
        }
        let at = w.iter().zip(g).position(|(x, y)| x != y).unwrap_or(0);
        let Some(bound) = bound else { return Err(format!("buffer {n} differs at byte {at}")) };
        if w.len() != g.len() || !w.len().is_multiple_of(bound.bytes) {
            return Err(format!("buffer {n}: {} and {} bytes hold no whole numbers", w.len(), g.len()));
        }
        if let Some((i, x, y)) = far(w, g, bound) {
            return Err(format!("buffer {n}, number {i}: {x:#x} and {y:#x}"));
        }
    }
    Ok(())
}

/// The first pair of numbers that are further apart than the bound, with its place.
fn far(want: &[u8], got: &[u8], bound: Bound) -> Option<(usize, u64, u64)> {
    let width = bound.bytes;
    let word = |b: &[u8]| b.iter().rev().fold(0u64, |n, &b| n << 8 | b as u64);
    let sign = 1u64 << (8 * width - 1);
    let infinity = if width == 4 { 0x7f80_0000 } else { 0x7ff0_0000_0000_0000 };
    let nan = |x: u64| x & !sign > infinity;
    let value = |x: u64| if width == 4 { f32::from_bits(x as u32) as f64 } else { f64::from_bits(x) };
    // Zeros of two signs are not near, unless a distance is allowed.
    let apart = |x, y| if x == y { 0.0 } else { (value(x) - value(y)).abs().max(f64::MIN_POSITIVE) };
    // Of one sign, numbers lie in the order of their bits.
    let near = |x: u64, y: u64| match (nan(x), nan(y)) {
        (true, true) => true,
        // The largest number is no infinity, however near their bits are.
        _ if x & !sign == infinity || y & !sign == infinity => x == y,
        (false, false) => (x ^ y) & sign == 0 && x.abs_diff(y) <= bound.ulp || apart(x, y) <= bound.absolute,
        _ => false,
    };
    let pairs = want.chunks(width).zip(got.chunks(width)).map(|(w, g)| (word(w), word(g)));
    pairs.enumerate().find(|(_, (x, y))| !near(*x, *y)).map(|(i, (x, y))| (i, x, y))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_counted_in_numbers() {
        let f32s = |list: &[f32]| list.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let bound = Bound { bytes: 4, ulp: 1, absolute: 0.0 };
        let next = f32::from_bits(1.0f32.to_bits() + 1);
        let after = f32::from_bits(1.0f32.to_bits() + 2);
        assert_eq!(far(&f32s(&[2.0, 1.0, -1.0]), &f32s(&[2.0, next, -next]), bound), None);
        assert!(far(&f32s(&[2.0, 1.0]), &f32s(&[2.0, after]), bound).is_some_and(|f| f.0 == 1));
        assert_eq!(far(&f32s(&[f32::NAN]), &f32s(&[-f32::NAN]), bound), None);
        assert!(far(&f32s(&[f32::NAN]), &f32s(&[1.0]), bound).is_some());
        assert!(far(&f32s(&[0.0]), &f32s(&[-0.0]), bound).is_some(), "the sign of zero is defined");
        let wide = Bound { absolute: 1e-6, ..bound };
        assert_eq!(far(&f32s(&[0.0, 1e-7]), &f32s(&[-0.0, -1e-7]), wide), None);
        assert!(far(&f32s(&[0.0]), &f32s(&[2e-6]), wide).is_some());
        assert!(far(&f32s(&[f32::INFINITY]), &f32s(&[f32::MAX]), wide).is_some());
    }

    #[test]
    fn the_table_is_readable() {
        let table = bounds(include_str!("../../tests/kernels/bounds.toml")).expect("bounds.toml");
        let doubles = Bound { bytes: 8, ulp: 0, absolute: 0.0 };
        assert_eq!(table.get("doubles").and_then(|b| b.exact), Some(doubles));
    }
}
