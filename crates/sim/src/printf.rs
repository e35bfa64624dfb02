//! `vprintf`: a C format string and the arguments behind it, as the CUDA programming guide describes them (formatted output).
//!
//! The buffer of arguments has each at a multiple of its size: integers of 4 bytes (8 with `l`, `ll`), floats as doubles, pointers of
//! 8 bytes.

/// Longest string, in bytes, that a format or `%s` may have.
pub const LONGEST: usize = 4096;
/// Most characters that a field is padded to.
const WIDEST: usize = 1024;

/// What a conversion is written with.
#[derive(Default)]
struct Spec {
    left: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
    wide: bool,
    /// `h`, `hh`: bits of the integer.
    short: Option<u32>,
}

/// Formats text. `argument` gives the next argument of so many bytes, `string` the bytes at an address. Gives the text and the number
/// of arguments used.
///
/// # Errors
/// What `argument` and `string` say; a conversion that there is not.
pub fn format<E>(
    text: &[u8],
    argument: &mut dyn FnMut(u32) -> Result<u64, E>,
    string: &mut dyn FnMut(u64) -> Result<Vec<u8>, E>,
    unknown: &dyn Fn(String) -> E,
) -> Result<(Vec<u8>, u32), E> {
    let (mut out, mut used, mut at) = (Vec::new(), 0, 0);
    while let Some(&c) = text.get(at) {
        at += 1;
        if c != b'%' {
            out.push(c);
            continue;
        }
        let mut s = Spec::default();
        while let Some(&flag) = text.get(at) {
            match flag {
                b'-' => s.left = true,
                b'+' => s.plus = true,
                b' ' => s.space = true,
                b'#' => s.alternate = true,
                b'0' => s.zero = true,
                _ => break,
            }
            at += 1;
        }
        let mut number = |at: &mut usize, used: &mut u32| -> Result<Option<i64>, E> {
            if text.get(*at) == Some(&b'*') {
                *at += 1;
                *used += 1;
                return Ok(Some(argument(4)? as u32 as i32 as i64));
            }
            let mut n = None;
            while let Some(d) = text.get(*at).filter(|d| d.is_ascii_digit()) {
                n = Some((n.unwrap_or(0) * 10 + (d - b'0') as i64).min(WIDEST as i64));
                *at += 1;
            }
            Ok(n)
        };
        if let Some(n) = number(&mut at, &mut used)? {
            s.left |= n < 0;
            s.width = n.unsigned_abs().min(WIDEST as u64) as usize;
        }
        if text.get(at) == Some(&b'.') {
            at += 1;
            // A negative precision is none.
            let n = number(&mut at, &mut used)?.unwrap_or(0);
            s.precision = usize::try_from(n).ok().map(|n| n.min(WIDEST));
        }
        while let Some(&length) = text.get(at) {
            match length {
                b'l' | b'j' | b'z' | b't' | b'L' => s.wide = true,
                b'h' => s.short = Some(if s.short.is_some() { 8 } else { 16 }),
                _ => break,
            }
            at += 1;
        }
        let Some(&kind) = text.get(at) else { break };
        at += 1;
        if kind == b'%' {
            out.push(b'%');
            continue;
        }
        used += 1;
        let (sign, body): (&str, Vec<u8>) = match kind {
            b'd' | b'i' => {
                let bits = if s.wide { argument(8)? } else { argument(4)? };
                let bits_of = s.short.unwrap_or(if s.wide { 64 } else { 32 });
                let n = (bits << (64 - bits_of)) as i64 >> (64 - bits_of);
                (sign(&s, n < 0), digits(&s, n.unsigned_abs(), 10, false))
            }
            b'u' | b'o' | b'x' | b'X' => {
                let bits = if s.wide { argument(8)? } else { argument(4)? };
                let bits_of = s.short.unwrap_or(if s.wide { 64 } else { 32 });
                let n = bits << (64 - bits_of) >> (64 - bits_of);
                let base = match kind {
                    b'u' => 10,
                    b'o' => 8,
                    _ => 16,
                };
                let mut d = digits(&s, n, base, kind == b'X');
                if s.alternate && base == 8 && d.first() != Some(&b'0') {
                    d.insert(0, b'0');
                }
                let prefix = match kind {
                    b'x' if s.alternate && n != 0 => "0x",
                    b'X' if s.alternate && n != 0 => "0X",
                    _ => "",
                };
                (prefix, d)
            }
            b'p' => ("0x", std::format!("{:x}", argument(8)?).into_bytes()),
            b'c' => ("", vec![argument(4)? as u8]),
            b's' => {
                let a = argument(8)?;
                let mut text = if a == 0 { b"(null)".to_vec() } else { string(a)? };
                text.truncate(s.precision.unwrap_or(LONGEST));
                ("", text)
            }
            b'f' | b'F' | b'e' | b'E' | b'g' | b'G' | b'a' | b'A' => {
                let x = f64::from_bits(argument(8)?);
                let mut body = float(&s, x.abs(), kind.to_ascii_lowercase());
                if kind.is_ascii_uppercase() {
                    body.make_ascii_uppercase();
                }
                s.zero &= x.is_finite();
                (sign(&s, x.is_sign_negative()), body)
            }
            other => return Err(unknown(std::format!("vprintf with the conversion '%{}'", other as char))),
        };
        if s.precision.is_some() && b"diouxX".contains(&kind) || b"cs".contains(&kind) {
            s.zero = false;
        }
        let pad = s.width.saturating_sub(sign.len() + body.len());
        if !s.left && !s.zero {
            out.resize(out.len() + pad, b' ');
        }
        out.extend_from_slice(sign.as_bytes());
        if !s.left && s.zero {
            out.resize(out.len() + pad, b'0');
        }
        out.extend_from_slice(&body);
        if s.left {
            out.resize(out.len() + pad, b' ');
        }
    }
    Ok((out, used))
}

fn sign(s: &Spec, negative: bool) -> &'static str {
    match (negative, s.plus, s.space) {
        (true, _, _) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    }
}

fn digits(s: &Spec, n: u64, base: u64, upper: bool) -> Vec<u8> {
    let text = match (base, upper) {
        (8, _) => std::format!("{n:o}"),
        (16, false) => std::format!("{n:x}"),
        (16, true) => std::format!("{n:X}"),
        _ => n.to_string(),
    };
    let text = if n == 0 && s.precision == Some(0) { String::new() } else { text };
    let zeros = s.precision.unwrap_or(1).saturating_sub(text.len());
    [vec![b'0'; zeros], text.into_bytes()].concat()
}

/// A float that is not negative, as `%f`, `%e`, `%g` or `%a`.
fn float(s: &Spec, x: f64, kind: u8) -> Vec<u8> {
    if x.is_nan() {
        return b"nan".to_vec();
    }
    if x.is_infinite() {
        return b"inf".to_vec();
    }
    let precision = s.precision.unwrap_or(6);
    let point = |mut t: String| {
        if s.alternate && !t.contains('.') {
            t.push('.');
        }
        t
    };
    let exponent = |precision: usize| -> (String, i32) {
        let t = std::format!("{x:.precision$e}");
        let (m, e) = t.split_once('e').unwrap_or((&t, "0"));
        (m.to_string(), e.parse().unwrap_or(0))
    };
    let scientific = |m: String, e: i32| std::format!("{m}e{}{:02}", if e < 0 { '-' } else { '+' }, e.abs());
    let text = match kind {
        b'f' => point(std::format!("{x:.precision$}")),
        b'e' => {
            let (m, e) = exponent(precision);
            scientific(point(m), e)
        }
        b'g' => {
            let p = precision.max(1);
            let (m, e) = exponent(p - 1);
            // Without trailing zeros.
            let trim = |t: String| {
                if s.alternate || !t.contains('.') {
                    point(t)
                } else {
                    t.trim_end_matches('0').trim_end_matches('.').to_string()
                }
            };
            if e < -4 || e >= p as i32 {
                scientific(trim(m), e)
            } else {
                trim(std::format!("{x:.*}", (p as i32 - 1 - e) as usize))
            }
        }
        _ => hexadecimal(s, x),
    };
    text.into_bytes()
}

/// `%a`: one digit before the point, as many behind it as are needed or asked for.
fn hexadecimal(s: &Spec, x: f64) -> String {
    let bits = x.to_bits();
    let (mut mantissa, mut e) = (bits & ((1 << 52) - 1), (bits >> 52) as i32 - 1023);
    let mut lead = 1;
    if bits >> 52 == 0 {
        (lead, e) = (0, if mantissa == 0 { 0 } else { -1022 });
    }
    if let Some(p) = s.precision.filter(|&p| p < 13) {
        // To nearest, ties to even.
        let cut = 52 - 4 * p as u32;
        let whole = lead << 52 | mantissa;
        let (kept, rest) = (whole >> cut, whole & ((1 << cut) - 1));
        let half = 1u64 << (cut - 1);
        let kept = kept + (rest > half || rest == half && kept & 1 != 0) as u64;
        (lead, mantissa) = (kept << cut >> 52, (kept << cut) & ((1 << 52) - 1));
    }
    let all = std::format!("{mantissa:013x}");
    let fraction = match s.precision {
        Some(p) => std::format!("{all:0<p$}")[..p].to_string(),
        None => all.trim_end_matches('0').to_string(),
    };
    let point = if fraction.is_empty() && !s.alternate { "" } else { "." };
    std::format!("0x{lead}{point}{fraction}p{}{}", if e < 0 { '-' } else { '+' }, e.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(text: &str, arguments: &[u64]) -> String {
        let mut list = arguments.iter();
        let done = format::<String>(
            text.as_bytes(),
            &mut |_| list.next().copied().ok_or("no argument".into()),
            &mut |a| Ok(std::format!("<{a}>").into_bytes()),
            &|m| m,
        );
        String::from_utf8(done.unwrap().0).unwrap()
    }

    fn f(x: f64) -> u64 {
        x.to_bits()
    }

    /// What the C library's printf gives.
    #[test]
    fn conversions() {
        for (text, arguments, want) in [
            ("a%%b", vec![], "a%b"),
            (
                "%d|%i|%5d|%-5d|%05d|%+d|% d",
                vec![-1i32 as u32 as u64, 2, 3, 4, 5, 6, 7],
                "-1|2|    3|4    |00005|+6| 7",
            ),
            ("%u %x %X %#x %o %#o", vec![4294967295, 255, 255, 255, 8, 8], "4294967295 ff FF 0xff 10 010"),
            ("%lld %llx %hhd %hu", vec![u64::MAX, u64::MAX, 0x1ff, 0x1_ffff], "-1 ffffffffffffffff -1 65535"),
            ("%.3d|%8.3d|%-8.3d|%08.3d|%.0d", vec![5, 5, 5, 5, 0], "005|     005|005     |     005|"),
            ("%c%3c|%-3c|", vec![65, 66, 67], "A  B|C  |"),
            ("%s|%6s|%-6s|%.2s", vec![1, 2, 3, 4], "<1>|   <2>|<3>   |<4"),
            ("%s %p", vec![0, 0x7f00], "(null) 0x7f00"),
            (
                "%f %.2f %8.1f|%-8.1f|%08.1f %+.0f %#.0f",
                vec![f(1.5), f(-2.345), f(9.96), f(9.96), f(-9.96), f(2.5), f(2.5)],
                "1.500000 -2.35     10.0|10.0    |-00010.0 +2 2.",
            ),
            (
                "%e %.0e %E %.3e",
                vec![f(12345.678), f(5.0), f(1e-10), f(0.0)],
                "1.234568e+04 5e+00 1.000000E-10 0.000e+00",
            ),
            (
                "%g %g %g %g %g %.3g %#g",
                vec![f(100000.0), f(1e6), f(0.0001), f(0.00001), f(0.5), f(1234.0), f(1.0)],
                "100000 1e+06 0.0001 1e-05 0.5 1.23e+03 1.00000",
            ),
            (
                "%a %a %.1a %A %a",
                vec![f(1.0), f(-0.1), f(1.96875), f(255.5), f(0.0)],
                "0x1p+0 -0x1.999999999999ap-4 0x2.0p+0 0X1.FFP+7 0x0p+0",
            ),
            ("%f %F %5.1f %g", vec![f(f64::NAN), f(f64::INFINITY), f(f64::NEG_INFINITY), f(-0.0)], "nan INF  -inf -0"),
            ("%*d|%-*d|%.*f", vec![4, 1, 4, 2, 1, f(0.25)], "   1|2   |0.2"),
            ("100%", vec![], "100"),
        ] {
            assert_eq!(show(text, &arguments), want, "{text}");
        }
        let bad = format::<String>(b"%y", &mut |_| Ok(0), &mut |_| Ok(vec![]), &|m| m);
        assert!(bad.unwrap_err().contains("'%y'"));
    }
}
