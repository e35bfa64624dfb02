//! Memory that is no argument, and addresses in memory and in parameters by value: `[[memory]]` and `[[pointer]]` of a launch file.

use super::*;

type Value<'i> = Spanned<DeValue<'i>>;

/// Global memory that the kernel reaches through an address in a parameter by value or in other memory.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Memory {
    /// What a launch file calls it.
    pub name: String,
    /// Content before the launch.
    pub data: Vec<u8>,
    /// Where the content after the launch shall be written, as the launch file says.
    pub out: Option<String>,
}

/// A 64-bit address that is written before the launch. Places are numbered: arguments first, then [`Launch::memory`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The place that holds the address: the bytes of an argument by value, or memory.
    pub place: usize,
    /// First of its eight bytes.
    pub at: usize,
    /// The memory whose address it is.
    pub to: usize,
}

impl Launch {
    /// The content of a place that is memory.
    pub(crate) fn memory_at(&self, place: usize) -> Option<&[u8]> {
        match self.args.get(place) {
            Some(Arg::Buffer { data, .. }) => Some(data),
            Some(_) => None,
            None => self.memory.get(place - self.args.len()).map(|m| m.data.as_slice()),
        }
    }

    /// Checks that a pointer lies in its place and leads to memory.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check_pointer(&self, p: &Pointer) -> Result<(), String> {
        if self.memory_at(p.to).is_none() {
            return Err(format!("a pointer to {}, which is no buffer and no memory", p.to));
        }
        let size = match self.args.get(p.place) {
            Some(Arg::Value(bytes)) => Some(bytes.len()),
            _ => self.memory_at(p.place).map(<[u8]>::len),
        };
        match size {
            None => Err(format!("a pointer in {}, which has no bytes of its own", p.place)),
            Some(n) if n < 8 || p.at > n - 8 => Err(format!("a pointer at byte {} of {n}", p.at)),
            Some(_) => Ok(()),
        }
    }
}

/// A pointer whose places may be names still, and where it is written.
pub(super) struct Named {
    place: Name,
    at: usize,
    to: Name,
    span: Range<usize>,
}

/// The number of an argument or the name of a memory.
enum Name {
    Argument(usize),
    Memory(String),
}

impl Reader<'_> {
    /// `[[memory]]`
    pub(super) fn memory(&mut self, v: &Value<'_>) -> Option<Memory> {
        let Some(table) = v.get_ref().as_table() else {
            self.error(v.span(), "memory is written as [[memory]]");
            return None;
        };
        let (mut m, mut seen) = (Memory::default(), false);
        for (key, value) in table.iter() {
            match (key.get_ref().as_ref(), value.get_ref().as_str()) {
                ("name", Some(name)) => m.name = name.to_string(),
                ("out", Some(path)) => m.out = Some(path.to_string()),
                ("data", _) => {
                    let Arg::Buffer { data, .. } = self.buffer(value)? else { return None };
                    (m.data, seen) = (data, true);
                }
                _ => {
                    self.error(key.span(), "[[memory]] has name, data and out");
                    return None;
                }
            }
        }
        if m.name.is_empty() || !seen {
            self.error(v.span(), "[[memory]] has a name and data");
            return None;
        }
        Some(m)
    }

    /// `[[pointer]]`
    pub(super) fn pointer(&mut self, v: &Value<'_>) -> Option<Named> {
        let Some(table) = v.get_ref().as_table() else {
            self.error(v.span(), "pointers are written as [[pointer]]");
            return None;
        };
        let (mut place, mut at, mut to) = (None, None, None);
        for (key, value) in table.iter() {
            match key.get_ref().as_ref() {
                "in" => place = self.place(value),
                "to" => to = self.place(value),
                "at" => at = self.integer(value, 0, MAX_BYTES as i128),
                other => self.error(key.span(), format!("unknown key '{other}'; [[pointer]] has in, at and to")),
            }
        }
        let (Some(place), Some(at), Some(to)) = (place, at, to) else {
            self.error(v.span(), "[[pointer]] has in, at and to: numbers of arguments or names of memory, and a byte");
            return None;
        };
        Some(Named { place, at: at as usize, to, span: v.span() })
    }

    fn place(&mut self, v: &Value<'_>) -> Option<Name> {
        match v.get_ref().as_str() {
            Some(name) => Some(Name::Memory(name.to_string())),
            None => self.integer(v, 0, 4095).map(|n| Name::Argument(n as usize)),
        }
    }

    /// Puts numbers for the names, when all are known.
    pub(super) fn pointers(&mut self, list: Vec<Named>, launch: &mut Launch) {
        for p in list {
            let number = |name: &Name| match name {
                Name::Argument(n) if *n < launch.args.len() => Ok(*n),
                Name::Argument(n) => Err(format!("there is no argument {n}")),
                Name::Memory(name) => {
                    let n = launch.memory.iter().position(|m| m.name == *name);
                    n.map(|n| launch.args.len() + n).ok_or_else(|| format!("there is no memory '{name}'"))
                }
            };
            let made = number(&p.place).and_then(|place| Ok(Pointer { place, at: p.at, to: number(&p.to)? }));
            match made.and_then(|p| launch.check_pointer(&p).map(|()| p)) {
                Ok(p) => launch.pointers.push(p),
                Err(e) => self.error(p.span, e),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Launch, Vec<Diagnostic>> {
        let head = "kernel = \"k\"\ngrid = [1]\nblock = [1]\n";
        Launch::parse(&format!("{head}{text}"), &mut |_| Err("no file".into()))
    }

    const HEAD: &str =
        "[[arg]]\nbytes = \"00000000000000000000000000000000\"\n[[arg]]\nbuffer = { bytes = 8 }\n[[arg]]\nu32 = 1\n";

    #[test]
    fn names_become_places() {
        let text = "[[memory]]\nname = \"m\"\ndata = { bytes = 16, fill = 1 }\nout = \"m.bin\"\n[[pointer]]\nin = 0\nat = 8\nto = \"m\"\n[[pointer]]\nin = \"m\"\nat = 0\nto = 1\n";
        let l = parse(&format!("{HEAD}{text}")).unwrap();
        assert_eq!(l.memory[0].data, [1; 16]);
        assert_eq!(l.pointers, [Pointer { place: 0, at: 8, to: 3 }, Pointer { place: 3, at: 0, to: 1 }]);
        assert_eq!(l.outputs(), [None, Some("m.bin")]);
    }

    #[test]
    fn mistakes() {
        for (text, message) in [
            ("[[memory]]\nname = \"m\"", "[[memory]] has a name and data"),
            ("[[memory]]\nsize = 3", "[[memory]] has name, data and out"),
            ("[[pointer]]\nin = 0", "[[pointer]] has in, at and to"),
            ("[[pointer]]\nin = 0\nat = 0\nto = \"m\"", "there is no memory 'm'"),
            ("[[pointer]]\nin = 9\nat = 0\nto = 1", "there is no argument 9"),
            ("[[pointer]]\nin = 0\nat = 9\nto = 1", "a pointer at byte 9 of 16"),
            ("[[pointer]]\nin = 2\nat = 0\nto = 1", "a pointer at byte 0 of 4"),
            ("[[pointer]]\nin = 0\nat = 0\nto = 2", "a pointer to 2, which is no buffer"),
        ] {
            let errors = parse(&format!("{HEAD}{text}")).unwrap_err();
            assert!(errors[0].message.starts_with(message), "{text}: {}", errors[0].message);
        }
    }
}
