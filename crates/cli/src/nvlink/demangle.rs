//! Names of C++ as the vendor's tool spells them: parameters of a function template are `T1`, `T2` where its signature names them,
//! values have their types in front of them, files' own namespaces are left out. (Read off what nvlink 13.5 prints.)

/// What stands in front of a name of its type, and what behind it.
#[derive(Clone, Default)]
struct Type {
    left: String,
    right: String,
    /// A class that the function's own name names: stars stand at it without a space.
    tight: bool,
}

fn plain(text: impl Into<String>) -> Type {
    Type { left: text.into(), ..Type::default() }
}

impl Type {
    fn text(&self) -> String {
        format!("{}{}", self.left, self.right)
    }

    /// A pointer or reference to it.
    fn to(mut self, mark: &str) -> Type {
        if self.right.starts_with(['(', '[']) {
            self.left.push_str(" (");
            self.right.insert(0, ')');
        } else if !self.tight && !self.left.ends_with(['*', '(']) {
            self.left.push(' ');
        }
        self.left.push_str(mark);
        self
    }

    fn qualified(mut self, words: &str) -> Type {
        if words.is_empty() {
            return self;
        }
        if self.right.starts_with('(') {
            self.right = format!("{} {words}", self.right);
        } else if self.left.ends_with(['*', '&']) {
            self.left.push_str(words);
        } else {
            self.left = format!("{words} {}", self.left);
        }
        self
    }
}

/// A name, and what of it says whether a type is returned.
struct Name {
    text: String,
    /// Behind the list of parameters.
    qualifiers: String,
    template: bool,
    /// A constructor, a destructor or a conversion: no type in front.
    special: bool,
}

/// Types and prefixes nest no deeper.
const DEEPEST: u32 = 64;

/// Bytes of a name, and of the parts that it may name again: each may stand twice in the next, which would double the name with
/// every few bytes of the symbol.
pub const LONGEST: usize = 1 << 16;

struct Reader<'a> {
    rest: &'a str,
    known: Vec<Type>,
    /// Bytes of parts that have been named again.
    again: usize,
    depth: u32,
}

/// The name that a symbol stands for; none of what is not a function of C++, or is made of expressions.
pub fn demangle(symbol: &str) -> Option<String> {
    let mangled = symbol.strip_prefix("_Z").filter(|m| m.len() <= LONGEST)?;
    // A function of one file has a number behind its name.
    let end = mangled.rfind('$').filter(|&d| mangled[d + 1..].bytes().all(|b| b.is_ascii_digit()));
    let mut r = Reader { rest: &mangled[..end.unwrap_or(mangled.len())], known: Vec::new(), again: 0, depth: 0 };
    let text = r.encoding()?;
    r.rest.is_empty().then_some(text)
}

fn builtin(code: char) -> Option<&'static str> {
    Some(match code {
        'v' => "void",
        'w' => "wchar_t",
        'b' => "bool",
        'c' => "char",
        'a' => "signed char",
        'h' => "unsigned char",
        's' => "short",
        't' => "unsigned short",
        'i' => "int",
        'j' => "unsigned int",
        'l' => "long",
        'm' => "unsigned long",
        'x' => "long long",
        'y' => "unsigned long long",
        'n' => "__int128",
        'o' => "unsigned __int128",
        'f' => "float",
        'd' => "double",
        'e' => "long double",
        'z' => "...",
        _ => return None,
    })
}

/// Operators by their codes.
#[rustfmt::skip]
const OPERATORS: [(&str, &str); 43] = [
    ("ng", "-"), ("ps", "+"), ("ad", "&"), ("de", "*"), ("co", "~"), ("pl", "+"),
    ("mi", "-"), ("ml", "*"), ("dv", "/"), ("rm", "%"), ("an", "&"), ("or", "|"),
    ("eo", "^"), ("aS", "="), ("pL", "+="), ("mI", "-="), ("mL", "*="), ("dV", "/="),
    ("rM", "%="), ("aN", "&="), ("oR", "|="), ("eO", "^="), ("ls", "<<"), ("rs", ">>"),
    ("lS", "<<="), ("rS", ">>="), ("eq", "=="), ("ne", "!="), ("lt", "<"), ("gt", ">"),
    ("le", "<="), ("ge", ">="), ("nt", "!"), ("aa", "&&"), ("oo", "||"), ("pp", "++"),
    ("mm", "--"), ("cm", ","), ("pm", "->*"), ("pt", "->"), ("cl", "()"), ("ix", "[]"),
    ("nw", "new"),
];

impl<'a> Reader<'a> {
    fn eat(&mut self, what: &str) -> bool {
        match self.rest.strip_prefix(what) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn first(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn digits(&mut self) -> &'a str {
        let end = self.rest.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits
    }

    /// A number of base 36 and `_`: none is 0, `0_` is 1.
    fn sequence(&mut self, base: u32) -> Option<usize> {
        let end = self.rest.find('_')?;
        let digits = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        match digits {
            "" => Some(0),
            _ => Some(u16::from_str_radix(digits, base).ok()? as usize + 1),
        }
    }

    /// A function with its parameters, or a variable.
    fn encoding(&mut self) -> Option<String> {
        let name = self.name()?;
        if matches!(self.first(), None | Some('E')) {
            return Some(name.text);
        }
        let result = match name.template && !name.special {
            true => Some(self.ty()?),
            false => None,
        };
        let parameters = self.parameters()?;
        let (before, behind) = result.map_or_else(Default::default, |t| (format!("{} ", t.left), t.right));
        Some(format!("{before}{}({parameters}){behind}{}", name.text, name.qualifiers))
    }

    /// The name of a function or type.
    fn name(&mut self) -> Option<Name> {
        if self.eat("N") {
            return self.nested();
        }
        if self.eat("Z") {
            self.depth = (self.depth < DEEPEST).then_some(self.depth + 1)?;
            let function = self.encoding()?;
            self.eat("E").then_some(())?;
            let name = self.name()?;
            self.depth -= 1;
            return Some(Name { text: format!("{function}::{}", name.text), ..name });
        }
        let mut name = Name { text: String::new(), qualifiers: String::new(), template: false, special: false };
        if self.rest.starts_with('S') && !self.rest.starts_with("St") {
            name.text = self.known()?.text();
        } else {
            let std = if self.eat("St") { "std::" } else { "" };
            name.text = format!("{std}{}", self.component("", &mut name.special)?);
            if self.first() == Some('I') {
                self.known.push(plain(name.text.clone()));
            }
        }
        if self.first() == Some('I') {
            name.text.push_str(&self.arguments()?);
            name.template = true;
        }
        Some(name)
    }

    fn nested(&mut self) -> Option<Name> {
        let mut words = Vec::new();
        for (code, word) in [("r", "__restrict__"), ("V", "volatile"), ("K", "const")] {
            if self.eat(code) {
                words.insert(0, word);
            }
        }
        let mut qualifiers: String = words.iter().map(|w| format!(" {w}")).collect();
        for (code, mark) in [("R", " &"), ("O", " &&")] {
            if self.eat(code) {
                qualifiers.push_str(mark);
            }
        }
        let mut name = Name { text: String::new(), qualifiers, template: false, special: false };
        let mut last = String::new();
        while !self.eat("E") {
            match self.first()? {
                'S' if name.text.is_empty() && !self.rest.starts_with("St") => {
                    name.text = self.known()?.text();
                    last = name.text.rsplit("::").next()?.to_string();
                    continue;
                }
                'S' if name.text.is_empty() => {
                    self.eat("St");
                    name.text = "std".into();
                    continue;
                }
                'T' if name.text.is_empty() => name.text = self.parameter()?,
                'I' => {
                    name.text.push_str(&self.arguments()?);
                    name.template = true;
                }
                _ => {
                    let class = last.split('<').next().unwrap_or_default().to_string();
                    last = self.component(&class, &mut name.special)?;
                    if !last.is_empty() {
                        let between = if name.text.is_empty() { "" } else { "::" };
                        name.text.push_str(between);
                        name.text.push_str(&last);
                    }
                    name.template = false;
                }
            }
            if self.first() != Some('E') {
                self.known.push(Type { tight: true, ..plain(name.text.clone()) });
            }
        }
        Some(name)
    }

    /// One part of a name; empty for the namespace of a file's own names.
    fn component(&mut self, class: &str, special: &mut bool) -> Option<String> {
        *special = false;
        self.eat("L");
        if self.first()?.is_ascii_digit() {
            let size: usize = self.digits().parse().ok()?;
            let name = self.rest.get(..size)?;
            self.rest = &self.rest[size..];
            return Some(match name {
                n if n.starts_with("_INTERNAL_") => String::new(),
                n if n.contains("_GLOBAL__N_") => "<unnamed>".into(),
                n => n.into(),
            });
        }
        for code in ["C1", "C2", "C3", "D0", "D1", "D2"] {
            if self.eat(code) {
                *special = true;
                return Some(if code.starts_with('D') { format!("~{class}") } else { class.into() });
            }
        }
        if self.eat("Ul") {
            let parameters = self.parameters()?;
            self.eat("E").then_some(())?;
            return Some(format!("[lambda({parameters}) (instance {})]", self.sequence(10)? + 1));
        }
        if self.eat("cv") {
            *special = true;
            return Some(format!("operator {}", self.ty()?.text()));
        }
        let (code, sign) = OPERATORS.iter().find(|o| self.rest.starts_with(o.0))?;
        self.eat(code);
        Some(format!("operator {sign}"))
    }

    /// What was named before.
    fn known(&mut self) -> Option<Type> {
        self.eat("S").then_some(())?;
        let number = self.sequence(36)?;
        let ty = self.known.get(number)?;
        self.again += ty.left.len() + ty.right.len();
        (self.again <= LONGEST).then(|| ty.clone())
    }

    fn parameter(&mut self) -> Option<String> {
        self.eat("T").then_some(())?;
        Some(format!("T{}", self.sequence(10)? + 1))
    }

    /// `<int, (int)3>`.
    fn arguments(&mut self) -> Option<String> {
        self.eat("I").then_some(())?;
        let mut list = Vec::new();
        self.list(&mut list)?;
        Some(format!("<{}>", list.join(", ")))
    }

    fn list(&mut self, out: &mut Vec<String>) -> Option<()> {
        self.depth = (self.depth < DEEPEST).then_some(self.depth + 1)?;
        while !self.eat("E") {
            match self.first()? {
                'J' => {
                    self.eat("J");
                    self.list(out)?;
                }
                'L' => out.push(self.literal()?),
                'X' => {
                    self.eat("X");
                    let value = self.value()?;
                    self.eat("E").then_some(())?;
                    out.push(value);
                }
                _ => out.push(self.ty()?.text()),
            }
        }
        self.depth -= 1;
        Some(())
    }

    /// A value of parameters: one, an address, or an operation on two.
    fn value(&mut self) -> Option<String> {
        if self.eat("adL_Z") {
            let name = self.name()?.text;
            // Of a function the name is enough.
            if self.first() != Some('E') {
                self.parameters()?;
            }
            return self.eat("E").then(|| format!("&{name}"));
        }
        match OPERATORS.iter().find(|o| self.rest.starts_with(o.0)) {
            Some((code, sign)) => {
                self.eat(code);
                Some(format!("{}{sign}{}", self.operand()?, self.operand()?))
            }
            None => self.operand(),
        }
    }

    fn operand(&mut self) -> Option<String> {
        match self.first()? {
            'T' => self.parameter(),
            'L' => self.literal(),
            _ => {
                self.eat("st").then_some(())?;
                Some(format!("sizeof({})", self.ty()?.text()))
            }
        }
    }

    /// `(int)-5`.
    fn literal(&mut self) -> Option<String> {
        self.eat("L").then_some(())?;
        let ty = self.ty()?.text();
        let sign = if self.eat("n") { "-" } else { "" };
        let digits = self.digits();
        (!digits.is_empty() && self.eat("E")).then(|| format!("({ty}){sign}{digits}"))
    }

    /// Types up to the end, or the end of a type of functions.
    fn parameters(&mut self) -> Option<String> {
        let mut list = Vec::new();
        while !matches!(self.first(), None | Some('E')) {
            list.push(self.ty()?.text());
        }
        Some(if list == ["void"] { String::new() } else { list.join(", ") })
    }

    fn ty(&mut self) -> Option<Type> {
        self.depth = (self.depth < DEEPEST).then_some(self.depth + 1)?;
        let ty = self.any_type();
        self.depth -= 1;
        ty
    }

    fn any_type(&mut self) -> Option<Type> {
        let first = self.first()?;
        if let Some(name) = builtin(first) {
            self.rest = &self.rest[1..];
            return Some(plain(name));
        }
        for (code, name) in [("Ds", "char16_t"), ("Di", "char32_t"), ("Dn", "std::nullptr_t")] {
            if self.eat(code) {
                return Some(plain(name));
            }
        }
        let ty = match first {
            'P' | 'R' | 'O' => {
                self.rest = &self.rest[1..];
                let mark = match first {
                    'P' => "*",
                    'R' => "&",
                    _ => "&&",
                };
                self.ty()?.to(mark)
            }
            'r' | 'V' | 'K' => {
                let (restrict, volatile, constant) = (self.eat("r"), self.eat("V"), self.eat("K"));
                let words = [(constant, "const"), (volatile, "volatile"), (restrict, "__restrict__")];
                let words: Vec<&str> = words.iter().filter(|w| w.0).map(|w| w.1).collect();
                self.ty()?.qualified(&words.join(" "))
            }
            'F' => {
                self.eat("F");
                let result = self.ty()?;
                let parameters = self.parameters()?;
                self.eat("E").then_some(())?;
                Type { left: result.left, right: format!("({parameters}){}", result.right), tight: false }
            }
            'A' => {
                self.eat("A");
                let size = match self.first()? {
                    'T' => self.parameter()?,
                    _ => self.digits().to_string(),
                };
                self.eat("_").then_some(())?;
                let of = self.ty()?;
                Type { left: of.left, right: format!("[{size}]{}", of.right), tight: false }
            }
            'M' => {
                self.eat("M");
                let class = self.ty()?.text();
                let of = self.ty()?;
                match of.right.starts_with('(') {
                    true => Type {
                        left: format!("{} ( :: {class}::*", of.left),
                        right: format!("){}", of.right),
                        tight: false,
                    },
                    false => Type { left: format!("{}  :: {class}::*", of.left), right: of.right, tight: false },
                }
            }
            'T' => {
                let parameter = plain(self.parameter()?);
                match self.first() {
                    Some('I') => {
                        self.known.push(parameter.clone());
                        plain(parameter.left + &self.arguments()?)
                    }
                    _ => parameter,
                }
            }
            'S' if !self.rest.starts_with("St") => {
                let known = self.known()?;
                if self.first() != Some('I') {
                    return Some(known);
                }
                Type { left: known.left + &self.arguments()?, ..known }
            }
            'D' => {
                self.eat("Dp").then_some(())?;
                let mut pack = self.ty()?;
                pack.right.push_str("...");
                pack
            }
            _ => {
                let name = self.name()?;
                if name.special {
                    return None;
                }
                plain(name.text)
            }
        };
        self.known.push(ty.clone());
        Some(ty)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_that_double_have_an_end() {
        // A0<int, int>, A1<A0<int, int>, A0<int, int>> and so on, one parameter each.
        let doubled = |times: u32| {
            let types = (1..times).fold("2A0IiiE".to_string(), |all, n| {
                // Each class has two numbers: its template, and it with its arguments, which is S0_ of the first.
                let with = char::from_digit(2 * n - 2, 36).expect("a digit").to_ascii_uppercase();
                let name = format!("A{n}");
                format!("{all}{}{name}IS{with}_S{with}_E", name.len())
            });
            super::demangle(&format!("_Z1f{types}"))
        };
        let name = doubled(3).expect("a name");
        assert!(name.ends_with("A2<A1<A0<int, int>, A0<int, int>>, A1<A0<int, int>, A0<int, int>>>)"), "{name}");
        assert!(doubled(10).is_some_and(|n| n.len() > 5_000));
        assert_eq!(doubled(18), None);
    }

    /// Names of the vendor's compiler, and what nvlink 13.5 makes of them.
    #[test]
    fn names_are_spelled_as_the_vendor_spells_them() {
        for (symbol, name) in [
            ("_ZN35_INTERNAL_d5e80aca_5_t3_cu_1ca575282stEN1a1b1XE", "st(a::b::X)"),
            ("_Z2v1PViPVKcPiPvPKv$11", "v1(volatile int *, const volatile char *, int *, void *, const void *)"),
            (
                "_Z2v2PFiiPN1a1b1XEERA4_iPA3_KiMS1_iMS1_KFiiE$10",
                "v2(int (*)(int, a::b::X *), int (&)[4], const int (*)[3], int  :: a::b::X::*, int ( :: a::b::X::*)(int) const)",
            ),
            (
                "_Z2v3ON1a1b1XERKS1_PS1_PS5_jmyxstabfdwDs$9",
                "v3(a::b::X &&, const a::b::X &, a::b::X *, a::b::X **, unsigned int, unsigned long, unsigned long long, long long, short, unsigned short, signed char, bool, float, double, wchar_t, char16_t)",
            ),
            (
                "_ZN35_INTERNAL_d5e80aca_5_t3_cu_1ca5752837_GLOBAL__N__d5e80aca_5_t3_cu_1ca575283hidERNS0_3HidE",
                "<unnamed>::hid(<unnamed>::Hid &)",
            ),
            (
                "_ZN35_INTERNAL_d5e80aca_5_t3_cu_1ca5752837_GLOBAL__N__d5e80aca_5_t3_cu_1ca575284anonEi",
                "<unnamed>::anon(int)",
            ),
            ("_Z2fiiPN1a1b1XE", "fi(int, a::b::X *)"),
            ("_Z2g2if", "g2(int, float)"),
            ("_ZN1CD1Ev", "C::~C()"),
            ("_ZN1CaSERKS_", "C::operator =(const C&)"),
            ("_ZN1CppEv", "C::operator ++()"),
            ("_ZN1CpLEi", "C::operator +=(int)"),
            ("_ZN1CngEv", "C::operator -()"),
            ("_ZN1CmiEj", "C::operator -(unsigned int)"),
            ("_ZN1CntEv", "C::operator !()"),
            ("_ZN1CpmEi", "C::operator ->*(int)"),
            ("_ZN1WIiE4convIdEET_iS2_PS_IS2_E", "T1 W<int>::conv<double>(int, T1, W<T1>*)"),
            ("_ZNV1CdeEv", "C::operator *() volatile"),
            ("_ZNK1CeqERKS_", "C::operator ==(const C&) const"),
            ("_ZN1C4makeEv", "C::make()"),
            ("_ZN1C2asIdEET_S1_i", "T1 C::as<double>(T1, int)"),
            ("_Z4ptrvIXadL_Z4globEEEiv", "int ptrv<&glob>()"),
            ("_Z3valIcLc97EET_S0_", "T1 val<char, (char)97>(T1)"),
            ("_Z3valIlLl7EET_S0_", "T1 val<long, (long)7>(T1)"),
            ("_Z3valIiLin5EET_S0_", "T1 val<int, (int)-5>(T1)"),
            ("_Z2fpIiJifEET_PFS0_DpT0_ES2_", "T1 fp<int, int, float>(T1 (*)(T2...), T2...)"),
            ("_Z4intsIJLi1ELi2ELin3EEEii", "int ints<(int)1, (int)2, (int)-3>(int)"),
            ("_Z5packpIJifEEiDpPT_", "int packp<int, float>(T1 *...)"),
            ("_Z4packIJifxEEiDpT_", "int pack<int, float, long long>(T1...)"),
            ("_ZN1a1b3ArrIiLi4EEixEi", "a::b::Arr<int, (int)4>::operator [](int)"),
            ("_ZN1a1b3ArrIiLi2EEixEi", "a::b::Arr<int, (int)2>::operator [](int)"),
            ("_ZNK1a1b3ArrIiLi4EE4sizeEv", "a::b::Arr<int, (int)4>::size() const"),
            (
                "_Z3arrIiLi4EEiRAT0__T_PN1a1b3ArrIS0_XT0_EEENS5_INS5_IS0_Li2EEEXT0_EEE",
                "int arr<int, (int)4>(T1 (&)[T2], a::b::Arr<T1, T2> *, a::b::Arr<a::b::Arr<T1, (int)2>, T2>)",
            ),
            ("_Z2v5v", "v5()"),
            ("_Z2v46float44dim3N1a1b1KENS2_1X1YEz", "v4(float4, dim3, a::b::K, a::b::X::Y, ...)"),
            ("_ZN1WIiEC1Ei", "W<int>::W(int)"),
            ("_ZN1CC1EiPKS_", "C::C(int, const C*)"),
            ("_ZN2ns1P2stEPS0_$5", "ns::P::st(ns::P*)"),
            ("_Z5innerIiEN1SIT_E2InES1_", "S<T1>::In inner<int>(T1)"),
            ("_Z4refrIiERT_S1_", "T1 & refr<int>(T1 &)"),
            ("_Z3useIZ1kPiPS0_EUliE0_EiT_i", "int use<k(int *, int **)::[lambda(int) (instance 2)]>(T1, int)"),
            ("_ZZ4deepiEN1L2goEi", "deep(int)::L::go(int)"),
            (
                "_Z5firstIiLm2EET_RK3arrIS0_XT0_EES1_IPKS0_XplT0_Li1EEE",
                "T1 first<int, (unsigned long)2>(const arr<T1, T2> &, arr<const T1 *, T2+(int)1>)",
            ),
            ("_Z2sfIiEN2EnIXeqstT_Li4EEE4typeES1_", "En<sizeof(T1)==(int)4>::type sf<int>(T1)"),
            ("_Z3inci", "inc(int)"),
            ("_Z7throughIXadL_Z3inciEEEii", "int through<&inc>(int)"),
            ("_Z2ttI1SEiT_IiE", "int tt<S>(T1<int>)"),
            ("_ZlsIiET_RK1SIS0_ES0_", "T1 operator <<<int>(const S<T1> &, T1)"),
            ("_ZNK2OpplERKS_", "Op::operator +(const Op&) const"),
            ("_ZNK2OpcviEv", "Op::operator int() const"),
            ("_ZNK2ns1P3getIdEET_S2_", "T1 ns::P::get<double>(T1) const"),
            ("_ZNK2OpclEi", "Op::operator ()(int) const"),
            (
                "_Z5flagsILb1ELc120ELy5ELN2ns1EE1EE1SIiES3_",
                "S<int> flags<(bool)1, (char)120, (unsigned long long)5, (ns::E)1>(S<int>)",
            ),
            ("_Z3ptrIfEPKT_PKS2_P1SIS5_IS0_EE", "const T1 * ptr<float>(const T1 *const *, S<S<T1>> *)"),
            ("_Z4fillILi3EEvPi", "void fill<(int)3>(int *)"),
            ("_Z5identIxET_S0_", "T1 ident<long long>(T1)"),
            ("_Z5identIfET_S0_", "T1 ident<float>(T1)"),
            ("_Z5identIiET_S0_", "T1 ident<int>(T1)"),
        ] {
            assert_eq!(super::demangle(symbol).as_deref(), Some(name), "{symbol}");
        }
    }

    /// Not names of functions, expressions, and what ends too soon.
    #[test]
    fn what_is_no_name_is_none() {
        let deep = format!("_Z1f{}i", "P".repeat(100_000));
        for symbol in [
            "plain",
            "_Z",
            "_Z1",
            "_Z9ab",
            "_Z1fIi",
            "_ZN1a",
            "_Z1fS9_",
            "_Z1fT18446744073709551614_",
            "_Z1fPFiE_",
            "_Z1fé",
            "_Z1fN1a1b",
            &deep,
        ] {
            assert_eq!(super::demangle(symbol), None, "{symbol}");
        }
    }
}
