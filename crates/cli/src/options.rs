//! Command lines in the vendor's manner: `--long value`, `--long=value`, `-short value`, `-short=value`, options files.
//!
//! A tool's options are a table; names, messages and the rules of spelling are those that the vendor's tools show.

use std::collections::BTreeMap;

/// What follows an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Flag,
    /// A word.
    Text,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// Words, separated by commas; repeating the option adds to them.
    List,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A number that is written together with the short name (`-O3`) or left out.
    Level,
}

/// An option.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// Name behind two dashes.
    pub long: &'static str,
    /// Name behind one dash; empty where there is none.
    pub short: &'static str,
    /// What follows.
    pub kind: Kind,
    /// How help calls what follows.
    pub value: &'static str,
    /// What it does.
    pub help: &'static str,
    /// What it is without being given, as help says it; empty for nothing.
    pub default: &'static str,
    /// False for one that is understood and changes nothing yet.
    pub works: bool,
}

/// An option that works.
pub const fn on(
    long: &'static str,
    short: &'static str,
    kind: Kind,
    value: &'static str,
    help: &'static str,
    default: &'static str,
) -> Opt {
    Opt { long, short, kind, value, help, default, works: true }
}

/// An option that is understood and changes nothing yet.
pub const fn no(
    long: &'static str,
    short: &'static str,
    kind: Kind,
    value: &'static str,
    help: &'static str,
    default: &'static str,
) -> Opt {
    Opt { works: false, ..on(long, short, kind, value, help, default) }
}

/// A command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// Options by long name, with their values; flags have none.
    pub values: BTreeMap<&'static str, Vec<String>>,
    /// Options in the order given.
    pub given: Vec<&'static str>,
    /// What is no option.
    pub inputs: Vec<String>,
    /// Complaints that do not stop.
    pub warnings: Vec<String>,
}

impl Parsed {
    /// True if the option was given.
    pub fn has(&self, long: &str) -> bool {
        self.values.contains_key(long)
    }

    /// The value of an option.
    pub fn get(&self, long: &str) -> Option<&str> {
        self.values.get(long)?.last().map(String::as_str)
    }

    /// The first option given that is understood and changes nothing yet.
    pub fn without_effect(&self, table: &[Opt]) -> Option<&'static str> {
        self.given.iter().copied().find(|g| table.iter().any(|o| o.long == *g && !o.works))
    }

    /// The value of a Bool.
    pub fn is(&self, long: &str, default: bool) -> bool {
        self.get(long).map_or(default, |v| v == "true")
    }
}

/// Depth of options files that name options files.
const MAX_DEPTH: u32 = 8;

/// Reads a command line. `read` gives the text of an options file.
///
/// # Errors
/// The message for the first mistake.
pub fn parse(table: &'static [Opt], args: &[String], read: &dyn Fn(&str) -> Option<String>) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    parse_into(table, args, read, &mut parsed, 0)?;
    Ok(parsed)
}

fn parse_into(
    table: &'static [Opt],
    args: &[String],
    read: &dyn Fn(&str) -> Option<String>,
    parsed: &mut Parsed,
    depth: u32,
) -> Result<(), String> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let Some(name) = arg.strip_prefix('-').filter(|n| !n.is_empty()) else {
            parsed.inputs.push(arg.clone());
            continue;
        };
        let (bare, mut value) = match name.split_once('=') {
            Some((n, v)) => (n, Some(v.to_string())),
            None => (name, None),
        };
        let found = match bare.strip_prefix('-') {
            Some(long) => table.iter().find(|o| o.long == long),
            None => table.iter().find(|o| o.short == bare && !bare.is_empty()),
        };
        // `-O3` and `-m64`: the value of a one-letter option may stand behind the letter.
        let found = found.or_else(|| {
            let letter = name.get(..1)?;
            let o = table.iter().find(|o| o.short == letter && o.kind != Kind::Flag)?;
            value = Some(name[1..].to_string());
            Some(o)
        });
        let Some(o) = found else { return Err(format!("Unknown option '{bare}'")) };
        let shown = arg.split('=').next().unwrap_or(arg);
        match o.kind {
            Kind::Flag => {
                if value.is_some() {
                    return Err(format!("no argument expected after '{shown}'"));
                }
                parsed.values.entry(o.long).or_default();
                parsed.given.push(o.long);
                continue;
            }
            Kind::Level if !arg.starts_with("--") => value = Some(value.unwrap_or_else(|| "3".into())),
            _ => {}
        }
        let value = match value.or_else(|| args.next().cloned()) {
            Some(v) => v,
            None => return Err(format!("argument expected after '{shown}'")),
        };
        check(o, &value)?;
        if o.long == "options-file" {
            for file in value.split(',') {
                let text = read(file).ok_or_else(|| format!("Could not open options file '{file}'"))?;
                if depth >= MAX_DEPTH {
                    return Err(format!("options file '{file}' names options files too deeply"));
                }
                parse_into(table, &words(&text), read, parsed, depth + 1)?;
            }
            continue;
        }
        let values = parsed.values.entry(o.long).or_default();
        if o.kind == Kind::List {
            values.extend(value.split(',').map(str::to_string));
        } else {
            if values.last().is_some_and(|v| *v != value) {
                let warning = "incompatible redefinition for option";
                parsed.warnings.push(format!("{warning} '{}', the last value of this option was used", o.long));
            }
            *values = vec![value];
        }
        parsed.given.push(o.long);
    }
    Ok(())
}

fn check(o: &Opt, value: &str) -> Result<(), String> {
    match o.kind {
        Kind::Number | Kind::Level if value.parse::<i64>().is_err() => Err(format!("'{value}': expected a number")),
        Kind::Bool if value != "true" && value != "false" => Err(format!("'{value}': expected true or false")),
        Kind::Choice(list) if !list.contains(&value) => {
            Err(format!("Value '{value}' is not defined for option '{}'", o.long))
        }
        _ => Ok(()),
    }
}

/// The words of an options file: separated by blanks, quoted by " or '.
fn words(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => out.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    out.extend(word);
    out
}

/// The help of a tool: usage, then every option with its names, what follows, what it does, allowed values, default.
pub fn help(usage: &str, table: &[Opt], extra: &dyn Fn(&str) -> Option<String>) -> String {
    let mut out = format!("\nUsage  : {usage}\n\nOptions\n=======\n\n");
    for o in table {
        let long = if o.value.is_empty() { format!("--{}", o.long) } else { format!("--{} {}", o.long, o.value) };
        let short = if o.short.is_empty() { String::new() } else { format!("(-{})", o.short) };
        out.push_str(format!("{long:<51} {short:<27}").trim_end());
        out.push('\n');
        let mut text = o.help.to_string();
        if !o.works {
            text.push_str(" Understood, but without effect yet.");
        }
        wrap(&text, &mut out);
        let allowed = match o.kind {
            Kind::Choice(list) => Some(list.iter().map(|v| format!("'{v}'")).collect::<Vec<_>>().join(", ")),
            _ => extra(o.long),
        };
        if let Some(list) = allowed {
            wrap(&format!("Allowed values for this option: {list}."), &mut out);
        }
        if !o.default.is_empty() {
            wrap(&format!("Default value: {}.", o.default), &mut out);
        }
        out.push('\n');
    }
    out
}

fn wrap(text: &str, out: &mut String) {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > 80 {
            out.push_str(&format!("        {line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        out.push_str(&format!("        {line}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn opt(long: &'static str, short: &'static str, kind: Kind) -> Opt {
        Opt { long, short, kind, value: "", help: "", default: "", works: true }
    }

    static TABLE: [Opt; 6] = [
        opt("gpu-name", "arch", Kind::Text),
        opt("opt-level", "O", Kind::Level),
        opt("verbose", "v", Kind::Flag),
        opt("entry", "e", Kind::List),
        opt("fmad", "fmad", Kind::Bool),
        opt("options-file", "optf", Kind::List),
    ];

    fn run(args: &[&str]) -> Result<Parsed, String> {
        let args: Vec<String> = args.iter().map(|a| a.to_string()).collect();
        let read = |file: &str| match file {
            "f" => Some("-arch sm_90\n 'a b' -v".to_string()),
            "loop" => Some("-optf loop".to_string()),
            _ => None,
        };
        parse(&TABLE, &args, &read)
    }

    #[test]
    fn every_spelling() {
        for args in [&["-arch", "sm_90"][..], &["-arch=sm_90"], &["--gpu-name", "sm_90"], &["--gpu-name=sm_90"]] {
            assert_eq!(run(args).unwrap().get("gpu-name"), Some("sm_90"));
        }
        assert_eq!(run(&["-O2", "x"]).unwrap().get("opt-level"), Some("2"));
        assert_eq!(run(&["-O", "2"]).unwrap().inputs, ["2"]);
        assert_eq!(run(&["--opt-level", "2"]).unwrap().get("opt-level"), Some("2"));
        assert_eq!(run(&["-e", "a,b", "--entry=c"]).unwrap().values["entry"], ["a", "b", "c"]);
        let parsed = run(&["-optf", "f", "-"]).unwrap();
        assert_eq!((parsed.get("gpu-name"), parsed.has("verbose")), (Some("sm_90"), true));
        assert_eq!(parsed.inputs, ["a b", "-"]);
    }

    #[test]
    fn mistakes() {
        for (args, message) in [
            (&["--bogus"][..], "Unknown option '-bogus'"),
            (&["-verbose"], "Unknown option 'verbose'"),
            (&["-arch"], "argument expected after '-arch'"),
            (&["-v=true"], "no argument expected after '-v'"),
            (&["-fmad", "maybe"], "'maybe': expected true or false"),
            (&["-Ox"], "'x': expected a number"),
            (&["-optf", "none"], "Could not open options file 'none'"),
            (&["-optf", "loop"], "options file 'loop' names options files too deeply"),
        ] {
            assert_eq!(run(args).unwrap_err(), message);
        }
        let warning = "incompatible redefinition for option 'gpu-name', the last value of this option was used";
        assert_eq!(run(&["-arch=a", "-arch=b"]).unwrap().warnings, [warning]);
    }
}
