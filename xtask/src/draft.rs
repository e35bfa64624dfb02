//! What the bits of a word are, asked of nvdisasm: the draft of a form that the description of SASS lacks.
//!
//! The word is changed in one bit at a time. A bit that changes one number of the text belongs to that operand, and the change
//! is its weight; one that changes what begins with a dot belongs to a modifier, and neighbours of those are tried in all
//! combinations; one that brings a sign belongs to the operand behind it; one that makes the text another altogether tells the form
//! from others. Registers then get numbers of their own, so that the life ranges tell what is read and what is written. What
//! comes out is written in the language of `crates/sass/isa`, for a person to complete: names, alternatives that hang together,
//! widths.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Says what words are: their text, None where they are none.
pub type Ask<'a> = &'a mut dyn FnMut(&[u128]) -> Vec<Option<String>>;

/// Says which registers words read and write: letter and number, true for written.
pub type Roles<'a> = &'a mut dyn FnMut(u128) -> BTreeSet<(String, u32, bool)>;

/// Bits that are no operand code: guard and opcode below, control above.
const BITS: std::ops::Range<u32> = 16..105;
/// The bit of the opcode among them.
const OPCODE: u32 = 91;
/// Fields of modifiers are tried in all values up to so many bits.
const WIDEST: usize = 6;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A register: `R`, `UR`, `P`, `UP`, `B` and its number; the zero register has none.
    Register(&'static str, Option<u32>),
    Number(i128),
    /// A number that shows no bits of its own: `1.5`, `+INF`.
    Float(String),
    /// What begins with a dot.
    Modifier(String),
    /// The mnemonic, names.
    Word(String),
    /// `-`, `|`, `~`, `!`.
    Sign(char),
    Mark(char),
}

/// What flipping a bit does to the text.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Bit {
    Refused,
    Ignored,
    /// The operand, counted from 0, and by how much.
    Operand(usize, i128),
    /// The sign that comes or goes before an operand.
    Sign(char, usize),
    Modifier,
    /// Another text altogether.
    Shape,
}

fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = text.trim();
    let run = |s: &str, f: &dyn Fn(char) -> bool| s.find(|c: char| !f(c)).unwrap_or(s.len());
    let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    while let Some(c) = rest.chars().next() {
        let end = match c {
            ' ' => 1,
            '.' => 1 + run(&rest[1..], &name),
            '+' if rest[1..].starts_with(char::is_alphabetic) => 1 + run(&rest[1..], &name),
            c if name(c) => {
                let mut end = run(rest, &name);
                // A fraction, and its exponent.
                if c.is_ascii_digit() && rest[end..].starts_with('.') {
                    end += 1 + run(&rest[end + 1..], &name);
                    if rest[..end].ends_with('e') {
                        end += 1 + run(&rest[end + 1..], &name);
                    }
                }
                end
            }
            c => c.len_utf8(),
        };
        let (word, after) = rest.split_at(end);
        rest = after;
        if word == " " {
            continue;
        }
        out.push(match c {
            '.' if word.len() > 1 => Token::Modifier(word.into()),
            '+' if word.len() > 1 => Token::Float(word.into()),
            '-' | '|' | '~' | '!' => Token::Sign(c),
            c if c.is_ascii_digit() => match word.strip_prefix("0x") {
                Some(hex) => i128::from_str_radix(hex, 16).map_or(Token::Word(word.into()), Token::Number),
                None => word.parse().map_or(Token::Float(word.into()), Token::Number),
            },
            c if name(c) => register(word).unwrap_or(Token::Word(word.into())),
            c => Token::Mark(c),
        });
    }
    out
}

fn register(word: &str) -> Option<Token> {
    ["UR", "UP", "R", "P", "B"].into_iter().find_map(|letter| {
        let number = word.strip_prefix(letter)?;
        match number {
            "Z" | "T" => Some(Token::Register(letter, None)),
            n => n.parse().ok().map(|n| Token::Register(letter, Some(n))),
        }
    })
}

/// The operands of a text, without what stands between them.
fn operands(tokens: &[Token]) -> Vec<&Token> {
    tokens.iter().filter(|t| matches!(t, Token::Register(..) | Token::Number(_) | Token::Float(_))).collect()
}

/// The text without numbers, modifiers and signs.
fn skeleton(tokens: &[Token]) -> Vec<String> {
    let of = |t: &Token| match t {
        Token::Register(letter, _) => Some(letter.to_string()),
        Token::Number(_) | Token::Float(_) => Some("#".into()),
        Token::Word(w) => Some(w.clone()),
        Token::Mark(c) => Some(c.to_string()),
        Token::Modifier(_) | Token::Sign(_) => None,
    };
    tokens.iter().filter_map(of).collect()
}

fn modifiers(tokens: &[Token]) -> Vec<&str> {
    tokens.iter().filter_map(|t| if let Token::Modifier(m) = t { Some(m.as_str()) } else { None }).collect()
}

/// The signs with the number of the operand that follows.
fn signs(tokens: &[Token]) -> Vec<(char, usize)> {
    let mut n = 0;
    let mut out = Vec::new();
    for t in tokens {
        match t {
            Token::Sign(c) => out.push((*c, n)),
            Token::Register(..) | Token::Number(_) | Token::Float(_) => n += 1,
            _ => {}
        }
    }
    out
}

/// The value of an operand in its field; the zero register has all bits set.
fn value(token: &Token) -> Option<i128> {
    match token {
        Token::Register(_, n) => Some(n.map_or(-1, i128::from)),
        Token::Number(n) => Some(*n),
        _ => None,
    }
}

fn compare(base: &[Token], other: Option<&[Token]>) -> Bit {
    let Some(other) = other else { return Bit::Refused };
    if base == other {
        return Bit::Ignored;
    }
    if skeleton(base) != skeleton(other) {
        return Bit::Shape;
    }
    let (a, b) = (operands(base), operands(other));
    let differ: Vec<usize> = (0..a.len()).filter(|&n| a[n] != b[n]).collect();
    let same = (modifiers(base) == modifiers(other), signs(base) == signs(other));
    match (differ.as_slice(), same) {
        ([n], (true, true)) => match (value(a[*n]), value(b[*n])) {
            (Some(x), Some(y)) => Bit::Operand(*n, (x ^ y).abs()),
            _ => Bit::Operand(*n, 0),
        },
        ([], (false, true)) => Bit::Modifier,
        ([], (true, false)) => {
            let (a, b) = (signs(base), signs(other));
            let found = a.iter().chain(&b).find(|s| a.contains(s) != b.contains(s));
            // The second bar of an absolute value stands before the next operand.
            found.map_or(Bit::Shape, |&(c, n)| Bit::Sign(c, n))
        }
        _ => Bit::Shape,
    }
}

/// Runs of neighbours: `(first, count)`.
fn runs(bits: impl IntoIterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut out: Vec<(u32, u32)> = Vec::new();
    for bit in bits {
        match out.last_mut() {
            Some((from, n)) if *from + *n == bit => *n += 1,
            _ => out.push((bit, 1)),
        }
    }
    out
}

/// Which of some neighbouring bits hang together, as masks of neighbours; `texts` are those of all their values. Two bits do not if they bring
/// together what each brings alone.
fn parts(texts: &[Option<Vec<Token>>], bits: usize) -> Vec<usize> {
    let of = |v: usize| {
        texts[v].as_ref().map(|t| {
            let mut list: Vec<String> = modifiers(t).into_iter().map(String::from).collect();
            list.sort();
            list
        })
    };
    let apart = |a: usize, b: usize| {
        let (Some(none), Some(first), Some(second), Some(both)) = (of(0), of(a), of(b), of(a | b)) else {
            return false;
        };
        let (mut x, mut y) = ([both, none].concat(), [first, second].concat());
        x.sort();
        y.sort();
        x == y
    };
    let mut out: Vec<usize> = Vec::new();
    for bit in 0..bits {
        let mut part = 1usize << bit;
        // Everything from the lowest bit that it hangs together with.
        let low = (0..bit).find(|&b| !apart(1 << b, 1 << bit)).unwrap_or(bit);
        while let Some(last) = out.last().filter(|l| usize::BITS - 1 - l.leading_zeros() >= low as u32) {
            part |= last;
            out.pop();
        }
        out.push(part);
    }
    out
}

/// The draft of a form for a word that `ask` knows; None where it does not.
pub fn draft(word: u128, chip: &str, ask: Ask, roles: Roles) -> Option<String> {
    // No guard, no reuse, no waits: a stall of one.
    let word = word & !(0xf << 12) & !(0x1f_ffff << 105) | 7 << 12 | 0x7f2 << 105;
    let bits: Vec<u32> = BITS.filter(|b| *b != OPCODE).collect();
    let asked: Vec<u128> = std::iter::once(word).chain(bits.iter().map(|b| word ^ 1 << b)).collect();
    let texts = ask(&asked);
    let text = texts.first()?.clone()?;
    let base = tokens(&text);
    let parsed: Vec<Option<Vec<Token>>> = texts.iter().map(|t| t.as_deref().map(tokens)).collect();
    let kinds: BTreeMap<u32, Bit> =
        bits.iter().zip(&parsed[1..]).map(|(b, t)| (*b, compare(&base, t.as_deref()))).collect();
    let list = operands(&base);
    let opcode = word & 0xfff;
    let high = if word >> OPCODE & 1 != 0 { ".1" } else { "" };
    let mnemonic = base.iter().find_map(|t| if let Token::Word(w) = t { Some(w.as_str()) } else { None })?;
    let mut out = format!("form {mnemonic}_DRAFT op={opcode:03x}{high} sm={chip}\n# {text}\n");
    // Fields of operands, and a word in which each register has a number of its own.
    let mut fields: Vec<Vec<(u32, i128)>> = vec![Vec::new(); list.len()];
    for (&bit, kind) in &kinds {
        if let Bit::Operand(n, weight) = kind {
            fields[*n].push((bit, *weight));
        }
    }
    let mut apart = word;
    for (n, field) in fields.iter().enumerate() {
        let want = match list[n] {
            Token::Register("R" | "UR", _) => 8 + 8 * n as u128,
            Token::Register("P" | "UP", _) => n as u128 % 6,
            _ => continue,
        };
        for (place, (bit, _)) in field.iter().enumerate() {
            apart = apart & !(1 << bit) | (want >> place & 1) << bit;
        }
    }
    let numbered = ask(&[apart]).remove(0).map(|t| tokens(&t)).filter(|t| skeleton(t) == skeleton(&base));
    let known = if numbered.is_some() { roles(apart) } else { BTreeSet::new() };
    let numbered = numbered.unwrap_or_default();
    let numbers = operands(&numbered);
    let mut slots = Vec::new();
    for (n, field) in fields.iter().enumerate() {
        let (kind, role) = match list[n] {
            Token::Register(letter, _) => {
                let has = |written| match numbers.get(n) {
                    Some(Token::Register(l, Some(k))) => known.contains(&(l.to_string(), *k, written)),
                    _ => false,
                };
                let role = match (has(false), has(true)) {
                    (true, true) => "usedef",
                    (false, true) => "def",
                    (true, false) => "use",
                    _ => "?",
                };
                (letter.to_lowercase(), role)
            }
            Token::Number(_) => ("hex".into(), "use"),
            _ => ("f32".into(), "use"),
        };
        let places: Vec<String> =
            runs(field.iter().map(|f| f.0)).iter().map(|(from, n)| format!("{from}+{n}")).collect();
        let marks: String = kinds
            .iter()
            .filter_map(|(bit, k)| match k {
                Bit::Sign(c, k) if *k == n => Some(format!(" {}{bit}", if *c == '!' { '~' } else { *c })),
                _ => None,
            })
            .collect();
        let places = if places.is_empty() { "nobits".into() } else { places.join(",") };
        slots.push(format!("Operand{n} {role} {kind} {places}{marks}"));
    }
    let _ = writeln!(out, "  {}", slots.join("; "));
    // Modifiers: bits that change them, with what is refused between and beside them.
    let open = |b: &u32| matches!(kinds.get(b), Some(Bit::Modifier | Bit::Refused));
    for (from, count) in runs(bits.iter().copied().filter(open)) {
        let all: Vec<u32> = (from..from + count).collect();
        let shown: Vec<u32> = all.iter().copied().filter(|b| kinds.get(b) == Some(&Bit::Modifier)).collect();
        let (Some(first), Some(last)) = (shown.first(), shown.last()) else { continue };
        let field: Vec<u32> = (*first..=*last).collect();
        if field.len() > WIDEST {
            let _ = writeln!(out, "  mod M{first}@{first}+{}: too wide to try", field.len());
            continue;
        }
        let words: Vec<u128> =
            (0..1u128 << field.len()).map(|v| word & !(((1 << field.len()) - 1) << first) | v << first).collect();
        let texts: Vec<Option<Vec<Token>>> = ask(&words).into_iter().map(|t| t.map(|t| tokens(&t))).collect();
        let here = (word >> first) as usize & ((1 << field.len()) - 1);
        for part in parts(&texts, field.len()) {
            let from = first + part.trailing_zeros();
            let shift = part.trailing_zeros();
            let values: Vec<String> = (0..=part >> shift)
                .map(|v| match &texts[here & !part | v << shift] {
                    None => "!".into(),
                    Some(t) if skeleton(t) != skeleton(&base) => format!("{v}=another"),
                    Some(t) => format!("{v}:{}", modifiers(t).concat()),
                })
                .collect();
            let _ = writeln!(out, "  mod M{from}@{from}+{}: {}", part.count_ones(), values.join(" "));
        }
    }
    let fixed: Vec<String> = kinds
        .iter()
        .filter(|(_, k)| **k == Bit::Shape)
        .map(|(bit, _)| format!("{bit}+1={:#x}", word >> bit & 1))
        .collect();
    if !fixed.is_empty() {
        let _ = writeln!(out, "  fix {}", fixed.join(" "));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sass::codec::{Decoded, decode, encode};
    use sass::text::{NoLabels, parse_on, print};

    /// Our own disassembler stands for the vendor's.
    fn asked(words: &[u128]) -> Vec<Option<String>> {
        let text = |w: &u128| match decode(*w, 90) {
            Decoded::Known(inst) => Some(print(&inst, 0, &NoLabels)),
            Decoded::Unknown(_) => None,
        };
        words.iter().map(text).collect()
    }

    fn of(text: &str) -> String {
        let inst = parse_on(text, 0, &NoLabels, Some(90)).expect("parses");
        let word = encode(&inst, 90).expect("encodes");
        let mut roles = |w: u128| {
            let Decoded::Known(inst) = decode(w, 90) else { return BTreeSet::new() };
            let letter = |r: sass::reg::Reg| r.to_string().trim_end_matches(|c: char| c.is_ascii_digit()).to_string();
            inst.regs().iter().map(|r| (letter(r.reg), r.reg.index(), r.def)).collect()
        };
        draft(word, "90", &mut asked, &mut roles).expect("a draft")
    }

    #[test]
    fn fields_of_an_addition_are_found() {
        let found = of("FADD R4, R5, R6");
        assert!(found.starts_with("form FADD_DRAFT op=221 sm=90\n# FADD R4, R5, R6\n"), "{found}");
        assert!(found.contains("Operand0 def r 16+8; Operand1 use r 24+8 -72 |73; Operand2 use r 32+8"), "{found}");
        assert!(found.contains("mod M77@77+1: 0: 1:.SAT\n"), "{found}");
        assert!(found.contains("mod M78@78+2: 0: 1:.RM 2:.RP 3:.RZ\n"), "{found}");
        assert!(found.contains("mod M80@80+1: 0: 1:.FTZ\n"), "{found}");
    }

    #[test]
    fn numbers_and_predicates_are_told_apart() {
        let found = of("ISETP.GT.U32.AND P1, PT, R4, 0x12, !P2");
        assert!(found.contains("Operand3 use hex 32+31"), "{found}");
        assert!(found.contains("mod M73@73+1: 0:.GT.U32.AND 1:.GT.AND\n"), "{found}");
        assert!(found.contains("mod M74@74+2: 0:.GT.U32.AND 1:.GT.U32.OR 2:.GT.U32.XOR !\n"), "{found}");
        assert!(found.contains("mod M76@76+3: 0:.F.U32.AND 1:.LT.U32.AND"), "{found}");
        assert!(found.contains("Operand0 def p 81+3"), "{found}");
        assert!(found.contains("use p 87+3 ~90"), "{found}");
    }
}
