//! Makes the threads of a warp go different ways through one of csmith's programs: of the constants in the text of its functions some become
//! different by thread (`C ^ (TID & M)`), and so do bounds of loops, so that loops end sooner in some threads, conditions and returns. What each thread computes and which
//! blocks it comes to is summed up by hooks (`hit`, `seen_..`: [`super::sources`]), whose sum does not depend on the order in
//! which operands are evaluated, which C leaves open.
//!
//! What must be a constant, or must be what it is for the program to mean something, stays: sizes and indices of arrays, labels of cases, null
//! pointers, the loops that fill arrays. What is undefined all the same is found when the processor runs it, and is not judged.

use testkit::Random;

/// What csmith's programs compute with.
const TYPES: [&str; 8] = ["int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t", "int64_t", "uint64_t"];

/// Which bits of a thread's number a constant may take.
const MASKS: [u32; 8] = [31, 31, 1, 2, 3, 7, 16, 24];

/// The largest bound of a loop that is made smaller: loops that count to more make no index.
const BOUND: u64 = 64;

/// How much of a program is changed.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Tenths of the constants; of those that initialise arrays and structures a quarter of that.
    pub constants: usize,
    /// Tenths of the conditions that some threads find otherwise, of those that decide no `goto`.
    pub conditions: usize,
    /// Tenths of the returns in the middle of functions that some threads do not take: most of csmith's functions end before they have begun.
    pub returns: usize,
    /// One in so many operations is seen by a hook, and every block.
    pub seen: usize,
}

/// The changed text of a program.
pub fn divide(text: &str, share: Share, random: &mut Random) -> String {
    let tokens = tokens(text);
    let mut out: Vec<String> = tokens.iter().map(|t| t.text.to_string()).collect();
    let mut change = Change { tokens: &tokens, out: &mut out, share, random, sites: 0 };
    for body in bodies(&tokens) {
        if body.name != "main" {
            change.body(&body);
        }
    }
    out.concat()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Blanks, and lines of the preprocessor.
    Space,
    Comment,
    Word,
    Number,
    Text,
    Mark,
}

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
}

/// The text in pieces: put together they are the text.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut list = Vec::new();
    let mut rest = text;
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let until = |s: &str, end: &str, from: usize| s[from..].find(end).map_or(s.len(), |n| from + n + end.len());
    let mut line_start = true;
    while let Some(c) = rest.chars().next() {
        let (kind, len) = if c == '#' && line_start {
            (Kind::Space, rest.find('\n').unwrap_or(rest.len()))
        } else if c.is_whitespace() {
            (Kind::Space, rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len()))
        } else if rest.starts_with("/*") {
            (Kind::Comment, until(rest, "*/", 2))
        } else if rest.starts_with("//") {
            (Kind::Comment, rest.find('\n').unwrap_or(rest.len()))
        } else if c.is_ascii_digit() {
            let mut last = c;
            let end = rest.find(|c: char| {
                let more = word(c) || c == '.' || matches!(c, '+' | '-') && matches!(last, 'e' | 'E' | 'p' | 'P');
                // The `e` of a hexadecimal number is a digit.
                let digit = rest.starts_with("0x") && matches!(last, 'e' | 'E') && matches!(c, '+' | '-');
                last = c;
                !more || digit
            });
            (Kind::Number, end.unwrap_or(rest.len()))
        } else if word(c) {
            (Kind::Word, rest.find(|c| !word(c)).unwrap_or(rest.len()))
        } else if c == '"' || c == '\'' {
            let mut escaped = false;
            let end = rest[1..].find(|d: char| {
                let ends = d == c && !escaped;
                escaped = d == '\\' && !escaped;
                ends
            });
            (Kind::Text, end.map_or(rest.len(), |n| n + 2))
        } else {
            let two = ["<=", ">=", "==", "!=", "+=", "-=", "++", "--", "&&", "||", "<<", ">>", "->"];
            (Kind::Mark, if two.iter().any(|t| rest.starts_with(t)) { 2 } else { c.len_utf8() })
        };
        let (piece, more) = rest.split_at(len);
        line_start = kind == Kind::Space && (piece.contains('\n') || line_start && !piece.starts_with('#'));
        list.push(Token { kind, text: piece });
        rest = more;
    }
    list
}

/// The next token from `at` on that says something.
fn next(tokens: &[Token<'_>], at: usize) -> usize {
    let more = tokens[at.min(tokens.len())..].iter().position(|t| !matches!(t.kind, Kind::Space | Kind::Comment));
    more.map_or(tokens.len(), |n| at + n)
}

/// What stands before `at` and says something, nearest first.
fn before<'t, 'a>(tokens: &'t [Token<'a>], at: usize) -> impl Iterator<Item = &'a str> + use<'t, 'a> {
    tokens[..at].iter().rev().filter(|t| !matches!(t.kind, Kind::Space | Kind::Comment)).map(|t| t.text)
}

/// Where the bracket at `open` is closed.
fn closed(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0i32;
    for (i, t) in tokens.iter().enumerate().skip(open) {
        match (t.kind, t.text) {
            (Kind::Mark, "(" | "[" | "{") => depth += 1,
            (Kind::Mark, ")" | "]" | "}") => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return i;
        }
    }
    tokens.len() - 1
}

/// A function's body.
struct Body<'a> {
    name: &'a str,
    /// The type that it returns, if it is one of [`TYPES`].
    gives: Option<&'a str>,
    open: usize,
    close: usize,
}

/// The bodies of a text's functions.
fn bodies<'a>(tokens: &[Token<'a>]) -> Vec<Body<'a>> {
    let mut list = Vec::new();
    let (mut at, mut begin) = (0, 0);
    while at < tokens.len() {
        match tokens[at].text {
            "{" => {
                let close = closed(tokens, at);
                if before(tokens, at).next() == Some(")") {
                    let said = |t: &&Token<'_>| !matches!(t.kind, Kind::Space | Kind::Comment);
                    let head: Vec<&str> = tokens[begin..at].iter().filter(said).map(|t| t.text).collect();
                    let paren = head.iter().position(|&t| t == "(").unwrap_or(0);
                    let (words, name) = (&head[..paren.saturating_sub(1)], head.get(paren.wrapping_sub(1)));
                    let quiet = |t: &&&str| !["static", "const", "volatile", "inline"].contains(t);
                    let types: Vec<&&str> = words.iter().filter(quiet).collect();
                    let gives = match types[..] {
                        [one] => TYPES.iter().find(|t| *t == one).copied(),
                        _ => None,
                    };
                    list.push(Body { name: name.copied().unwrap_or_default(), gives, open: at, close });
                }
                at = close;
                begin = at + 1;
            }
            ";" => begin = at + 1,
            _ => {}
        }
        at += 1;
    }
    list
}

/// The type that one of csmith's functions computes (`safe_add_func_int16_t_s_s`), if it is a whole number's.
fn computed(name: &str) -> Option<&'static str> {
    let (_, rest) = name.strip_prefix("safe_")?.split_once("_func_")?;
    TYPES.into_iter().find(|t| rest.strip_prefix(t).is_some_and(|r| r.starts_with("_u") || r.starts_with("_s")))
}

/// A whole number and its value.
fn whole(t: &Token<'_>) -> Option<u64> {
    if t.kind != Kind::Number {
        return None;
    }
    let digits = t.text.trim_end_matches(['u', 'U', 'l', 'L']);
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}

struct Change<'c, 'a> {
    tokens: &'c [Token<'a>],
    out: &'c mut Vec<String>,
    share: Share,
    random: &'c mut Random,
    /// Hooks so far.
    sites: u32,
}

impl Change<'_, '_> {
    fn site(&mut self) -> u32 {
        self.sites += 1;
        self.sites
    }

    fn mask(&mut self) -> u32 {
        MASKS[self.random.index(MASKS.len())]
    }

    fn body(&mut self, body: &Body<'_>) {
        let tokens = self.tokens;
        let mut at = body.open + 1;
        // The end of the initialiser that we are in.
        let mut initial = 0;
        while at < body.close {
            let t = tokens[at];
            match (t.kind, t.text) {
                (Kind::Mark, "[") => at = closed(tokens, at),
                (Kind::Mark, "{") if before(tokens, at).next() == Some("=") => initial = closed(tokens, at),
                (Kind::Word, "case") => at += tokens[at..].iter().position(|t| t.text == ":").unwrap_or(0),
                (Kind::Word, "for") => {
                    let open = next(tokens, at + 1);
                    let close = closed(tokens, open);
                    self.header(open, close);
                    at = close;
                }
                (Kind::Word, "if") => self.condition(at),
                (Kind::Word, "return") => self.leave(at, body),
                (Kind::Word, name) if name.starts_with("safe_") => self.operation(name, at),
                (Kind::Comment, text) if before(tokens, at).next() == Some("{") => {
                    if let Some(id) = text.split_once("block id: ").and_then(|(_, n)| n.split_whitespace().next()) {
                        self.out[at] += &format!(" hit({id});");
                    }
                }
                (Kind::Number, _) => self.constant(at, at < initial),
                _ => {}
            }
            at += 1;
        }
    }

    /// Has some threads find a condition otherwise, if chance has it.
    fn condition(&mut self, at: usize) {
        let tokens = self.tokens;
        let open = next(tokens, at + 1);
        let close = closed(tokens, open);
        // Who goes back whatever is found goes round for ever.
        let then = tokens.get(next(tokens, close + 1)).is_none_or(|t| t.text == "goto");
        if !then && self.random.index(10) < self.share.conditions {
            self.out[open] += "!(";
            self.out[close].insert_str(0, &format!(") == (TID >> {} & 1)", self.random.index(5)));
        }
    }

    /// Has a hook see what a function returns, and some threads go on where it is not the function's end.
    fn leave(&mut self, at: usize, body: &Body<'_>) {
        let tokens = self.tokens;
        let begin = next(tokens, at + 1);
        let end = at + tokens[at..].iter().position(|t| t.text == ";").unwrap_or(0);
        if let (Some(ty), true) = (body.gives, begin < end) {
            let site = self.site();
            self.out[at] += &format!(" seen_{ty}(");
            self.out[end].insert_str(0, &format!(", {site})"));
        }
        if next(tokens, end + 1) == body.close {
            let seen = self.locals(body);
            self.out[at].insert_str(0, &seen);
        } else if self.random.index(10) < self.share.returns {
            self.out[at].insert_str(0, &format!("{{ if (TID % {} == 0) ", 2 + self.random.index(4)));
            self.out[end] += " }";
        }
    }

    /// Calls of hooks that see what is left in some of a function's variables: what nobody sees is not computed.
    fn locals(&mut self, body: &Body<'_>) -> String {
        let tokens = self.tokens;
        let (mut at, mut calls) = (next(tokens, body.open + 1), String::new());
        while at < body.close {
            let first = next(tokens, if tokens[at].text == "const" { at + 1 } else { at });
            let name = next(tokens, first + 1);
            let behind = tokens.get(next(tokens, name + 1)).map_or("", |t| t.text);
            let ty = TYPES.iter().find(|t| **t == tokens[first].text);
            if let (Some(ty), Kind::Word, "=" | "[" | ";") = (ty, tokens[name].kind, behind) {
                let (name, array) = (tokens[name].text, behind == "[");
                if self.random.index(if array { 4 } else { 2 }) == 0 {
                    let site = self.site();
                    calls += &match array {
                        true => format!("all_{ty}((const {ty} *){name}, sizeof {name}, {site}); "),
                        false => format!("seen_{ty}({name}, {site}); "),
                    };
                }
            }
            // On to the next statement: behind a semicolon, or a block that is no initialiser.
            while at < body.close && tokens[at].text != ";" {
                if tokens[at].text == "{" {
                    let initial = before(tokens, at).next() == Some("=");
                    at = closed(tokens, at);
                    if !initial {
                        break;
                    }
                }
                at += 1;
            }
            at = next(tokens, at + 1);
        }
        calls
    }

    /// Has a hook see what an operation gives.
    fn operation(&mut self, name: &str, at: usize) {
        let open = next(self.tokens, at + 1);
        if let Some(ty) = computed(name)
            && self.tokens.get(open).is_some_and(|t| t.text == "(")
            && self.random.index(self.share.seen) == 0
        {
            let (site, close) = (self.site(), closed(self.tokens, open));
            self.out[at].insert_str(0, &format!("seen_{ty}("));
            self.out[close] += &format!(", {site})");
        }
    }

    /// Makes a constant different by thread, if chance has it.
    fn constant(&mut self, at: usize, initial: bool) {
        let null = before(self.tokens, at).take(4).eq([")", "*", "void", "("]);
        // csmith's numbers have suffixes: this is a pointer, the first member of a union.
        let null = null || initial && self.tokens[at].text == "0";
        if null || whole(&self.tokens[at]).is_none() {
            return;
        }
        let rarer = if initial { 4 } else { 1 };
        if self.random.index(10 * rarer) < self.share.constants {
            let mask = self.mask();
            self.out[at] = format!("({} ^ (TID & {mask}))", self.tokens[at].text);
        }
    }

    /// Has a loop `for (x = A; (x <= N); x += B)` end sooner in some threads, if chance has it, and so one that counts down. Loops without these
    /// parentheses fill arrays, and others may not end any more.
    fn header(&mut self, open: usize, close: usize) {
        let tokens = self.tokens;
        let Some(semi) = (open..close).find(|&i| tokens[i].text == ";") else { return };
        let cond = next(tokens, semi + 1);
        if tokens[cond].text != "(" {
            return;
        }
        let end = closed(tokens, cond);
        let mut inside = before(tokens, end);
        let (_, op) = (inside.next(), inside.next());
        let Some(number) = (cond..end).rev().find(|&i| !matches!(tokens[i].kind, Kind::Space | Kind::Comment)) else {
            return;
        };
        let Some(n) = whole(&tokens[number]).filter(|&n| n <= BOUND) else { return };
        let steps = |a, b| tokens[end..close].iter().any(|t| t.text == a || t.text == b);
        let (up, down) = (steps("+=", "++"), steps("-=", "--"));
        if self.random.index(10) >= self.share.constants {
            return;
        }
        let mask = self.mask();
        match op {
            Some("<" | "<=") if up => self.out[number] = format!("({n} - (int)((TID & {mask}) % {}))", n + 1),
            Some(">" | ">=") if down => self.out[number] = format!("({n} + (int)((TID & {mask}) % 4))"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "\
#include \"csmith.h\"
/* 1 */ struct S0 { unsigned f1 : 14; };
static int32_t func_1(void)
{ /* block id: 0 */
    int64_t l_2[9][2] = {{9L,3L},{0x1BL,(-1L)}};
    union U0 l_8 = {0};
    int8_t *l_3[2] = {(void*)0,(void*)0};
    int i;
    float l_4 = 0x1.8p+1f;
    for (i = 0; i < 2; i++)
        l_3[i] = 0;
    for (l_5 = 0; (l_5 <= 7); l_5 += 1)
    { /* block id: 5 */
        l_2[8][1] = (safe_add_func_int8_t_s_s(l_6, 0xE-1));
        for (p->f = 3; (p->f >= 1); --p->f) { /* block id: 6 */ break; }
        for (l_7 = 9; (l_7 != 0); l_7++) { continue; }
    }
    return l_5;
}
static int8_t * func_2(int16_t p_1)
{ /* block id: 7 */
    return safe_f(12);
}
int main (void) { func_1(); return 0; }
";

    fn changed(constants: usize, seen: usize) -> String {
        divide(PROGRAM, Share { constants, conditions: 0, returns: 0, seen }, &mut Random(1))
    }

    #[test]
    fn pieces_are_the_text() {
        let text: String = tokens(PROGRAM).iter().map(|t| t.text).collect();
        assert_eq!(text, PROGRAM);
        let kinds = |s| tokens(s).iter().map(|t| (t.kind, t.text.to_string())).collect::<Vec<_>>();
        let number = |s: &str| (Kind::Number, s.to_string());
        assert_eq!(kinds("0xE-1"), [number("0xE"), (Kind::Mark, "-".into()), number("1")]);
        assert_eq!(kinds("1e-5f"), [number("1e-5f")]);
        assert_eq!(kinds("0x1p-5"), [number("0x1p-5")]);
    }

    #[test]
    fn hooks_see_blocks_operations_and_what_is_returned() {
        let text = changed(0, 1);
        for line in [
            "{ /* block id: 0 */ hit(0);",
            "{ /* block id: 5 */ hit(5);",
            "(seen_int8_t(safe_add_func_int8_t_s_s(l_6, 0xE-1), 1));",
            "return seen_int32_t( l_5, 2);",
            // A pointer is another one on each machine.
            "return safe_f(12);",
            "int main (void) { func_1(); return 0; }",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        assert_eq!(text.matches("hit(").count(), 4);
    }

    #[test]
    fn what_must_be_constant_stays() {
        let text = changed(10, 1000);
        for line in [
            "unsigned f1 : 14;",
            "int64_t l_2[9][2] = {{",
            "int8_t *l_3[2] = {(void*)0,(void*)0};",
            "l_8 = {0};",
            "l_4 = 0x1.8p+1f;",
            "for (i = 0; i < 2; i++)",
            "l_2[8][1] = (",
            "for (l_7 = 9; (l_7 != 0); l_7++)",
            "return 0; }",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
    }

    #[test]
    fn constants_and_bounds_become_different() {
        let text = changed(10, 1000);
        let line = |begin: &str| text.lines().find(|l| l.contains(begin)).unwrap_or_default().to_string();
        assert!(line("l_2[8][1]").contains("(0xE ^ (TID & "), "{text}");
        assert!(line("(12").contains("safe_f((12 ^ (TID & "), "{text}");
        assert!(line("for (l_5").contains("(l_5 <= (7 - (int)((TID & "), "{text}");
        assert!(line("for (l_5").contains(") % 8))); l_5 += 1)"), "{text}");
        assert!(line("p->f >=").contains("(p->f >= (1 + (int)((TID & "), "{text}");
        // Of initialisers a quarter: this seed's first.
        let many = (0..40).filter(|&s| {
            let text = divide(PROGRAM, Share { constants: 10, conditions: 0, returns: 0, seen: 1 }, &mut Random(s));
            text.contains("{(9L ^ (TID & ")
        });
        assert!((4..20).contains(&many.count()));
    }

    #[test]
    fn conditions_and_returns_become_different() {
        let program = "int8_t f(void)\n{ if (a) goto b; if (c < 1) { return 1; } else return 2; return 3; }\n";
        let share = Share { constants: 0, conditions: 10, returns: 10, seen: 1 };
        let text = divide(program, share, &mut Random(1));
        let digit = |t: &str| t.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect::<String>();
        let want = "int8_t f(void)\n{ if (a) goto b; if (!(c < 1) == (TID >> 0 & 1)) { { if (TID % 2 == 0) return seen_int8_t( 1, 1); } } \
            else { if (TID % 2 == 0) return seen_int8_t( 2, 2); } return seen_int8_t( 3, 3); }\n";
        assert_eq!(digit(&text), digit(want));
    }

    #[test]
    fn hooks_see_variables_at_the_end_of_functions() {
        let program = "void f(void)\n{ const int8_t l_1 = 1; int16_t l_2[2][3] = {{0},{1}}; int8_t *l_3 = &l_1; struct S l_4; \
            if (a) { int8_t l_5; } int64_t l_6; return; }\n";
        let calls = |seed| {
            let share = Share { constants: 0, conditions: 0, returns: 0, seen: 1 };
            let text = divide(program, share, &mut Random(seed));
            let (begin, end) = (text.find("l_6; ").unwrap() + 5, text.find("return").unwrap());
            text[begin..end].to_string()
        };
        let all = "seen_int8_t(l_1, 1); all_int16_t((const int16_t *)l_2, sizeof l_2, 2); seen_int64_t(l_6, 3); ";
        assert!((0..200).any(|seed| calls(seed) == all), "{}", calls(1));
        assert!((0..200).any(|seed| calls(seed).is_empty()));
    }

    #[test]
    fn without_hooks_and_changes_nothing_but_blocks_and_returns_is_new() {
        let text = changed(0, usize::MAX);
        let less = text.replace(" hit(0);", "").replace(" hit(5);", "").replace(" hit(6);", "").replace(" hit(7);", "");
        assert_eq!(less.replace(" seen_int32_t( l_5, 1)", " l_5"), PROGRAM);
    }
}
