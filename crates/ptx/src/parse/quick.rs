//! The short way through the statements that texts are full of: a known head, and operands that are registers, decimal
//! integers, hexadecimal floats, names, addresses and lists of these. It works on bytes instead of tokens.
//!
//! It takes nothing that the rules of the other files would not take, gives the same, and reports nothing: at the first
//! byte that it does not expect it gives up, and the statement is read again by those rules.

use super::{Parser, Site, heads};
use crate::isa::Op;
use crate::lex::{START, WORD, is};
use crate::module::*;
use crate::names::Meaning;
use crate::types::{ScalarType, SpecialReg};
use diag::Span;
use thin_vec::ThinVec;

/// The byte at a place; 0 behind the end, which is no byte of a token.
#[inline(always)]
fn byte(src: &[u8], at: usize) -> u8 {
    src.get(at).copied().unwrap_or(0)
}

/// Where the blanks end that begin at a byte.
#[inline(always)]
fn blanks(src: &[u8], mut at: usize) -> usize {
    while matches!(byte(src, at), b' ' | b'\t' | b'\n' | b'\r') {
        at += 1;
    }
    at
}

/// A name like `%rd12` of at most seven bytes that begins at a byte: its base, as the bytes of a little-endian number, its
/// number, and where it ends. None for any other, and near the end of the text. The base may hold bytes of no name: then
/// it is none that anybody knows.
#[inline(always)]
fn numbered(src: &[u8], at: usize) -> Option<(u64, u32, usize)> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    let word = u64::from_le_bytes(*src.get(at..)?.first_chunk::<8>()?);
    if !is(word as u8, START) {
        return None;
    }
    // The high bit of each byte that is no digit: 0 to 9 are the bytes that are below 10 once '0' is taken away by
    // exclusive or, and those from 0x80 on keep their own high bit.
    let low = word ^ (ONES * 0x30);
    let other = (((low & (ONES * 0x7f)) + ONES * (0x80 - 10)) | low) & HIGH;
    let base = (!other & HIGH).trailing_zeros() / 8;
    if base == 0 || base == 8 {
        return None;
    }
    let behind = other >> (8 * base);
    let digits = behind.trailing_zeros() / 8;
    // All eight bytes are of the name: it may go on.
    if behind == 0 || digits > 1 && (low >> (8 * base)) & 0xff == 0 {
        return None;
    }
    let end = at + (base + digits) as usize;
    if is(byte(src, end), WORD) {
        return None;
    }
    // The digits as eight, with zeros in front: then pairs, fours and the whole.
    let eight = (low >> (8 * base)) << (64 - 8 * digits);
    let pairs = (eight * 10 + (eight >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let number = fours * 10_000 + (fours >> 32);
    Some((word & ((1 << (8 * base)) - 1), number as u32, end))
}

/// A decimal integer of at most 18 digits, and where it ends; none for what may be more than that.
fn integer(src: &[u8], at: usize) -> Option<(i64, usize)> {
    let mut end = at;
    let mut n = 0i64;
    while let Some(d) = src.get(end).map(|b| b.wrapping_sub(b'0')).filter(|&d| d < 10) {
        if end - at == 18 {
            return None;
        }
        n = n * 10 + i64::from(d);
        end += 1;
    }
    let octal = end - at > 1 && src[at] == b'0';
    let more = src.get(end).is_some_and(|&b| is(b, WORD) || b == b'.');
    (end > at && !octal && !more).then_some((n, end))
}

/// True where `.loc` and a blank stand.
fn loc(src: &[u8], at: usize) -> bool {
    matches!(src.get(at..at + 5), Some(b".loc " | b".loc\t"))
}

/// Where a word ends that stands at a byte.
fn word(src: &[u8], at: usize, word: &[u8]) -> Option<usize> {
    let end = at + word.len();
    (src.get(at..end)? == word && !is(byte(src, end), WORD)).then_some(end)
}

/// Three numbers: file, line and column; and where they end.
fn place(src: &[u8], at: usize) -> Option<((u32, u32, u32), usize)> {
    let number = |at: usize| {
        let (n, end) = integer(src, blanks(src, at))?;
        Some((u32::try_from(n).ok()?, end))
    };
    let (file, at) = number(at)?;
    let (line, at) = number(at)?;
    let (column, end) = number(at)?;
    Some(((file, line, column), end))
}

impl Parser<'_> {
    /// Reads the plain instructions, labels and `.loc` that begin at the token at hand, a name, `@` or `.loc`; the token behind the last
    /// is at hand then. False where the first is none: then nothing has happened.
    pub(super) fn quick(&mut self) -> bool {
        let src = self.src;
        let first = self.tok.span.start as usize;
        let mut at = first;
        if !self.quickly {
            return false;
        }
        loop {
            let messages = self.diags.len();
            // Where the statement ends, and where the next is looked for.
            let read = match byte(src, at) {
                b'$' | b'_' | b'A'..=b'Z' => self.quick_label(at).map(|end| (end, end)),
                b'.' => self.quick_loc(at),
                _ => self.quick_instruction(at).map(|end| (end, end)),
            };
            let Some((end, behind)) = read else { break };
            self.prev_end = end as u32;
            at = blanks(src, behind);
            if byte(src, at) == b'/'
                && let Some(end) = self.lex.behind_blanks(at)
            {
                at = end;
            }
            // The rules count them.
            if self.diags.len() > messages {
                break;
            }
        }
        if at == first {
            return false;
        }
        self.lex.seek(at);
        self.tok = self.lex.next();
        true
    }

    /// Adds the label that begins at a byte: where it ends, behind its `:`. If it is none, or one of a table, nothing happens.
    fn quick_label(&mut self, at: usize) -> Option<usize> {
        let src = self.src;
        let end = at + 1 + src[at + 1..].iter().position(|&b| !is(b, WORD))?;
        // What a directive may follow is for the rules, and so is `$` alone, which is no name.
        if src[end] != b':' || src[at] == b'$' && end == at + 1 {
            return None;
        }
        let next = blanks(src, end + 1);
        if matches!(byte(src, next), b'.' | b'/' | b'\\' | 0x0b | 0x0c) && !loc(src, next) {
            return None;
        }
        self.new_label(Span::new(at as u32, end as u32));
        Some(end + 1)
    }

    /// Adds the `.loc` that begins at a byte: where it ends, and where to go on. If it is none, or not a plain one, nothing happens.
    fn quick_loc(&mut self, start: usize) -> Option<(usize, usize)> {
        let src = self.src;
        if !loc(src, start) {
            return None;
        }
        let ((file, line, column), mut end) = place(src, start + 4)?;
        let mut next = blanks(src, end);
        let mut inlined = None;
        if byte(src, next) == b',' {
            let at = word(src, blanks(src, next + 1), b"function_name")?;
            let name = blanks(src, at);
            let behind = name + 1 + src.get(name + 1..)?.iter().position(|&b| !is(b, WORD))?;
            if !is(src[name], START) || behind == name + 1 {
                return None;
            }
            let mut at = blanks(src, behind);
            let mut offset = 0;
            if byte(src, at) == b'+' {
                let (n, end) = integer(src, blanks(src, at + 1))?;
                (offset, at) = (n, blanks(src, end));
            }
            if byte(src, at) != b',' {
                return None;
            }
            let at = word(src, blanks(src, at + 1), b"inlined_at")?;
            let (call, behind_call) = place(src, at)?;
            if !self.places.contains(&call) {
                return None;
            }
            let function = super::text(&src[name..behind]).into_owned();
            inlined = Some(Box::new(Inlined { function, offset, at: call }));
            (end, next) = (behind_call, behind_call);
        } else {
            if byte(src, next) == b'/' {
                let mut ahead = self.lex;
                next = ahead.behind_blanks(next)?;
            }
            // Whatever is no beginning of a statement may belong to it.
            let first = byte(src, next);
            if !is(first, START) && !matches!(first, b'.' | b'@' | b'{' | b'}') {
                return None;
            }
        }
        self.places.insert((file, line, column));
        self.body.code.push_loc(Loc { file, line, column, inlined });
        Some((end, next))
    }

    /// Adds the instruction that begins at a byte: where it ends, behind its `;`. If it is no plain one, nothing happens.
    #[inline]
    fn quick_instruction(&mut self, start: usize) -> Option<usize> {
        let src = self.src;
        let mut at = start;
        let mut guard = None;
        if byte(src, at) == b'@' {
            let negated = byte(src, at + 1) == b'!';
            let (reg, end) = self.quick_register(at + 1 + usize::from(negated))?;
            if self.body.regs[reg.index()].ty != ScalarType::Pred {
                return None;
            }
            guard = Some(Guard { reg, negated });
            at = blanks(src, end);
            if at == end {
                return None;
            }
        }
        let (key, end) = heads::spelling(src, at)?;
        let head = self.heads.find(&key)?;
        let op = self.heads.op(head);
        // Its lists have a rule of their own.
        if op == Op::Call {
            return None;
        }
        let (pending, open) = (self.body.pending.len(), self.body.open.len());
        let Some((last, behind)) = self.quick_operands(op, end) else {
            self.body.pending.truncate(pending);
            self.body.open.truncate(open);
            self.body.code.drop_operands();
            return None;
        };
        self.body.code.push_inst(guard, head, Span::new(start as u32, last as u32));
        Some(behind)
    }

    /// Operands up to the `;`: the ends of the last of them and of that.
    #[inline]
    fn quick_operands(&mut self, op: Op, from: usize) -> Option<(usize, usize)> {
        let src = self.src;
        let mut at = blanks(src, from);
        if byte(src, at) == b';' {
            return Some((from, at + 1));
        }
        loop {
            let end = self.quick_operand(op, at)?;
            at = blanks(src, end);
            match byte(src, at) {
                b',' => at = blanks(src, at + 1),
                b';' => return Some((end, at + 1)),
                _ => return None,
            }
        }
    }

    /// Adds the operand that begins at a byte: where it ends.
    fn quick_operand(&mut self, op: Op, at: usize) -> Option<usize> {
        let src = self.src;
        let reg = |reg| Operand::Reg { reg, elem: None };
        // Most are registers.
        if let Some((base, number, end)) = numbered(src, at)
            && !matches!(byte(src, end), b'.' | b'|')
            && let Some(register) = self.names.in_range(base, number)
        {
            self.body.code.push_operand(reg(register));
            return Some(end);
        }
        match *src.get(at)? {
            b'[' => {
                let (base, mut end) = match self.quick_register(at + 1) {
                    Some((reg, end)) => (AddressBase::Reg(reg), end),
                    None => match self.quick_name(at + 1)? {
                        (Operand::Reg { reg, elem: None }, end) => (AddressBase::Reg(reg), end),
                        (Operand::Var { var, .. }, end) => (AddressBase::Var(var), end),
                        _ => return None,
                    },
                };
                let mut offset = 0;
                if src.get(end) == Some(&b'+') {
                    let negative = src.get(end + 1) == Some(&b'-');
                    let (n, after) = integer(src, end + 1 + usize::from(negative))?;
                    (offset, end) = (if negative { -n } else { n }, after);
                }
                let whole = src.get(end) == Some(&b']');
                self.body.code.push_operand(Operand::Mem(Address::new(base, offset).filter(|_| whole)?));
                Some(end + 1)
            }
            b'{' => {
                let mut parts = ThinVec::new();
                let mut at = blanks(src, at + 1);
                loop {
                    let (register, end) = self.quick_register(at)?;
                    parts.push(reg(register));
                    at = blanks(src, end);
                    match src.get(at)? {
                        b',' => at = blanks(src, at + 1),
                        b'}' => break,
                        _ => return None,
                    }
                }
                // `{ %r1 }` of a load or store is `%r1`.
                if parts.len() == 1 && matches!(op, Op::Ld | Op::St | Op::Ldu | Op::Sust) {
                    return None;
                }
                self.body.code.push_operand(Operand::Vector(parts));
                Some(at + 1)
            }
            b'-' => {
                let (n, end) = integer(src, at + 1)?;
                self.body.code.push_operand(Operand::Int(-n));
                Some(end)
            }
            b'0' if matches!(src.get(at + 1), Some(b'f' | b'F')) => {
                self.body.code.push_operand(Operand::F32(bits(src, at + 2, 8)? as u32));
                Some(at + 10)
            }
            b'0' if matches!(src.get(at + 1), Some(b'd' | b'D')) => {
                self.body.code.push_operand(Operand::F64(bits(src, at + 2, 16)?));
                Some(at + 18)
            }
            b'0'..=b'9' => {
                let (n, end) = integer(src, at)?;
                self.body.code.push_operand(Operand::Int(n));
                Some(end)
            }
            _ => match self.quick_register(at) {
                Some((first, end)) => match src.get(end)? {
                    b'.' => None,
                    b'|' => {
                        let (second, end) = self.quick_register(end + 1).filter(|s| src.get(s.1) != Some(&b'.'))?;
                        self.body.code.push_operand(Operand::Pair(Box::new((reg(first), reg(second)))));
                        Some(end)
                    }
                    _ => {
                        self.body.code.push_operand(reg(first));
                        Some(end)
                    }
                },
                None => {
                    let (operand, end) = self.quick_name(at)?;
                    self.body.code.push_operand(operand);
                    Some(end)
                }
            },
        }
    }

    /// The register of a range whose name begins at a byte, and where it ends.
    #[inline]
    fn quick_register(&mut self, at: usize) -> Option<(RegId, usize)> {
        let (base, number, end) = match numbered(self.src, at) {
            Some(found) => found,
            None => self.long_numbered(at)?,
        };
        self.names.in_range(base, number).map(|reg| (reg, end))
    }

    /// The same as [`numbered`] for a longer name.
    fn long_numbered(&self, at: usize) -> Option<(u64, u32, usize)> {
        let rest = self.src.get(at..)?;
        let len = 1 + rest.get(1..)?.iter().position(|&b| !is(b, WORD) || b.is_ascii_digit())?;
        let digits = rest[len..].iter().position(|b| !b.is_ascii_digit())?;
        let more = is(rest[len + digits], WORD);
        if len > 8 || digits == 0 || digits > 9 || digits > 1 && rest[len] == b'0' || more || !is(rest[0], START) {
            return None;
        }
        let number = rest[len..len + digits].iter().fold(0, |n, b| n * 10 + u32::from(b - b'0'));
        Some((rest[..len].iter().rev().fold(0, |k, &b| (k << 8) | u64::from(b)), number, at + len + digits))
    }

    /// The operand that is a name which begins at a byte, with nothing behind it that belongs to it, and where it ends.
    fn quick_name(&mut self, at: usize) -> Option<(Operand, usize)> {
        let src = self.src;
        let first = *src.get(at)?;
        let mut end = at + 1 + src[at + 1..].iter().position(|&b| !is(b, WORD))?;
        if !is(first, START) || end == at + 1 && matches!(first, b'%' | b'$' | b'_') {
            return None;
        }
        let dotted = src.get(end) == Some(&b'.');
        let name = &src[at..end];
        let id = self.names.intern(name);
        let operand = match self.names.meaning(id) {
            Meaning::Reg(reg) if !dotted => Operand::Reg { reg, elem: None },
            Meaning::Var(var) if !dotted => Operand::Var { var, offset: 0 },
            Meaning::Label(label) => Operand::Label(label),
            Meaning::Nothing if first == b'%' => {
                if dotted {
                    end += 1 + src[end + 1..].iter().position(|&b| !is(b, WORD))?;
                }
                let special = SpecialReg::from_name(std::str::from_utf8(&src[at..end]).ok()?)?;
                // More of a token than a name has.
                if matches!(src.get(end), Some(b':' | b'.')) {
                    return None;
                }
                Operand::Special(special)
            }
            Meaning::Nothing if !dotted && name != b"WARP_SZ" && matches!(src.get(end), Some(b';' | b',')) => {
                let span = Span::new(at as u32, end as u32);
                Operand::Label(self.pend(id, span, Site::Inst(InstId(self.body.code.count() as u32))))
            }
            _ => return None,
        };
        // `x+4`, `x[2]`, `p|q`.
        matches!(src.get(end), Some(b' ' | b'\t' | b',' | b';' | b']' | b'+' | b'\n' | b'\r')).then_some((operand, end))
    }
}

/// A number of so many hexadecimal digits, with no name behind it.
fn bits(src: &[u8], at: usize, digits: usize) -> Option<u64> {
    let mut bits = 0;
    for &b in src.get(at..at + digits)? {
        bits = (bits << 4) | u64::from((b as char).to_digit(16)?);
    }
    src.get(at + digits).is_none_or(|&b| !is(b, WORD)).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_with;

    #[test]
    fn numbered_names() {
        let of = |text: &str| {
            let text = format!("{text}, and more");
            numbered(text.as_bytes(), 0).map(|(base, number, end)| {
                let base = base.to_le_bytes();
                let len = base.iter().position(|&b| b == 0).unwrap_or(8);
                (String::from_utf8_lossy(&base[..len]).into_owned(), number, end)
            })
        };
        for (text, base, number) in [("%r1", "%r", 1), ("%rd1234", "%rd", 1234), ("a0", "a", 0), ("_$1020", "_$", 1020)]
        {
            assert_eq!(of(text), Some((base.to_string(), number, text.len())), "{text}");
        }
        for text in ["%r", "%r01", "%r1a", "%r1_", "12", "%rd12345", "%longer1", "%r99999a"] {
            assert_eq!(of(text), None, "{text}");
        }
        // Bytes that are no ASCII are no digits, whatever their low bits are.
        assert_eq!(numbered(b"%r\xb1, and more", 0), None);
        assert_eq!(numbered(b"%r1", 0), None);
        // Every number of up to five digits, and every byte behind it.
        for n in (0..100_000u32).step_by(37).chain(0..2000) {
            assert_eq!(of(&format!("%r{n}")), Some(("%r".to_string(), n, 2 + n.to_string().len())));
        }
        for b in 0..=255u8 {
            let text = [b'%', b'r', b'7', b, b' ', b' ', b' ', b' ', b' ', b' ', b' '];
            let number = if b.is_ascii_digit() { 70 + u32::from(b - b'0') } else { 7 };
            let word = b.is_ascii_alphabetic() || b == b'_' || b == b'$';
            assert_eq!(numbered(&text, 0).map(|f| f.1), (!word).then_some(number), "{b}");
        }
    }

    /// Every change of one byte, and every end, of statements with `.loc` that have everything which such may have.
    #[test]
    fn places_by_the_short_way_and_by_the_rules() {
        let head = ".version 8.4\n.target sm_90\n.address_size 64\n.file 1 \"a\"\n.entry k() {\n.reg .b32 %r<9>;\n";
        let body = "$a: .loc 1 2 3\n\t.loc\t1 4 5 // a comment\n$b:\n .loc 2 6 7, function_name $c, inlined_at 1 2 3 // another\nmov.u32 %r1, 1;\n\
                    .loc 2 6 8, function_name $d+12, inlined_at 2 6 7\n$e: .loc 1 0 0 /* one */ mov.u32 %r2, 2;\n.loc 1 9 9\n@!p ret;\nret;\n}\n";
        let same = |body: &[u8]| {
            let text = [head.as_bytes(), body].concat();
            let (quick, rules) = (parse_with(&text, true, false), parse_with(&text, false, false));
            assert!(quick == rules, "{}", String::from_utf8_lossy(&text));
            quick
        };
        let whole = same(body.as_bytes()).0;
        let body_of = whole.funcs[0].body.as_ref().unwrap();
        let locs = body_of.stmts().filter(|s| matches!(s, Stmt::Loc(_))).count();
        assert_eq!(locs, 6);
        for at in 0..body.len() {
            same(&body.as_bytes()[..at]);
            for b in *b" \t\n\\,.;:+-/*0189aU_$%@{}\x0b\xff" {
                let mut changed = body.as_bytes().to_vec();
                changed[at] = b;
                same(&changed);
                changed.insert(at + 1, body.as_bytes()[at]);
                same(&changed);
            }
        }
    }

    /// What is behind an operand, an offset, a name: everything that the short way has to look at.
    const PIECES: [&str; 34] = [
        "0",
        "1",
        "x",
        "%r1",
        "%r",
        ".x",
        "|",
        ",",
        ";",
        ":",
        " ",
        "\n",
        "//",
        "/*",
        "[",
        "]",
        "{",
        "}",
        "+",
        "-",
        "!",
        "@",
        "_",
        "0f3F800000",
        "0d3FF0000000000000",
        "WARP_SZ",
        "%tid.x",
        "U",
        "ret",
        "mov.u32",
        ".",
        "\\\n",
        "\x7f",
        "é",
    ];

    #[test]
    fn the_short_way_and_the_rules_say_the_same() {
        let mut random = testkit::Random(4);
        let mut plain = 0;
        for file in testkit::corpus() {
            let text = std::fs::read_to_string(&file).unwrap();
            let same = |text: &str| {
                let (quick, rules) =
                    (parse_with(text.as_bytes(), true, false), parse_with(text.as_bytes(), false, false));
                assert!(quick == rules, "{}:\n{text}", file.display());
                let packed = parse_with(text.as_bytes(), true, true);
                assert!(packed.1 == quick.1, "{}:\n{text}", file.display());
                for (f, plain) in packed.0.funcs.iter().zip(&quick.0.funcs) {
                    let body = f.body.as_ref().map(|b| b.unpacked().into_owned());
                    assert!(body == plain.body, "{}:\n{text}", file.display());
                }
                quick.0.funcs.iter().filter_map(|f| f.body.as_ref()).map(|b| b.insts().count()).sum::<usize>()
            };
            plain += same(&text);
            let starts: Vec<usize> = text.char_indices().map(|(i, _)| i).collect();
            for _ in 0..40 {
                let mut changed = text.clone();
                let at = starts[random.index(starts.len())];
                match random.index(3) {
                    0 => changed.insert_str(at, PIECES[random.index(PIECES.len())]),
                    1 => drop(changed.remove(at)),
                    _ => drop(
                        changed.drain(at..starts.get(starts.partition_point(|&s| s < at) + 3).copied().unwrap_or(at)),
                    ),
                }
                same(&changed);
            }
        }
        assert!(plain > 1000, "{plain}");
    }
}
