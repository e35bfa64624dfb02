//! Archives of `ar`: the common form, the GNU form with long names, the BSD form, and thin ones, whose members are files of
//! their own.

use diag::Diagnostic;

/// What a common archive begins with.
pub const MAGIC: &[u8; 8] = b"!<arch>\n";
/// What a thin archive begins with.
pub const THIN_MAGIC: &[u8; 8] = b"!<thin>\n";

/// A member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// Its name; in a thin archive the path of the file, relative to the folder of the archive.
    pub name: &'a str,
    /// Its bytes; none in a thin archive.
    pub data: Option<&'a [u8]>,
}

/// True for bytes that begin as an archive does.
pub fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || bytes.starts_with(THIN_MAGIC)
}

fn bad(what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(format!("not a valid archive: {what}"))
}

fn text(bytes: &[u8]) -> Result<&str, Diagnostic> {
    std::str::from_utf8(bytes).map(|t| t.trim_end_matches(' ')).map_err(|_| bad("a name or size is no text"))
}

/// The members in order, without the tables of symbols and names.
///
/// # Errors
/// Where the file is no archive or a member does not end inside of it.
pub fn read(bytes: &[u8]) -> Result<Vec<Member<'_>>, Diagnostic> {
    if !is_archive(bytes) {
        return Err(bad("it does not begin with `!<arch>`"));
    }
    let thin = bytes.starts_with(THIN_MAGIC);
    let mut names: &[u8] = &[];
    let mut out = Vec::new();
    let mut at = 8;
    while at < bytes.len() {
        let n = out.len() + 1;
        let cut = || bad(format!("member {n} is cut off"));
        let head = bytes.get(at..at + 60).ok_or_else(cut)?;
        if head[58..] != *b"`\n" {
            return Err(bad(format!("member {n} has no header")));
        }
        let size: usize =
            text(&head[48..58])?.parse().map_err(|_| bad(format!("the size of member {n} is no number")))?;
        let name = text(&head[..16])?;
        at += 60;
        // Tables are in the file also where the members are not.
        let table = matches!(name, "/" | "//" | "/SYM64/");
        let data: &[u8] = if thin && !table {
            &[]
        } else {
            let end = at.checked_add(size).filter(|&e| e <= bytes.len()).ok_or_else(cut)?;
            let data = &bytes[at..end];
            at = end + (end & 1);
            data
        };
        match name {
            "/" | "/SYM64/" | "__.SYMDEF" | "__.SYMDEF SORTED" => {}
            "//" => names = data,
            _ => {
                let (name, data) = if let Some(offset) = name.strip_prefix('/') {
                    let offset: usize = offset.parse().map_err(|_| bad(format!("member {n} has no name")))?;
                    let rest = names.get(offset..).ok_or_else(|| bad(format!("the name of member {n} is missing")))?;
                    let end = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
                    (text(&rest[..end])?.trim_end_matches('/'), data)
                } else if let Some(len) = name.strip_prefix("#1/") {
                    let len: usize = len.parse().map_err(|_| bad(format!("member {n} has no name")))?;
                    let (name, data) = data.split_at_checked(len).ok_or_else(cut)?;
                    (text(name)?.trim_end_matches('\0'), data)
                } else {
                    (name.trim_end_matches('/'), data)
                };
                if !name.starts_with("__.SYMDEF") {
                    out.push(Member { name, data: (!thin).then_some(data) });
                }
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, data: &[u8]) -> Vec<u8> {
        let mut out = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len()).into_bytes();
        out.extend(data);
        if data.len() % 2 == 1 {
            out.push(b'\n');
        }
        out
    }

    #[test]
    fn every_form_of_name() {
        let mut file = MAGIC.to_vec();
        file.extend(member("/", b"abcd"));
        file.extend(member("//", b"a_very_long_name_of_a_member.o/\n"));
        file.extend(member("short.o/", b"123"));
        file.extend(member("/0", b"45"));
        file.extend(member("#1/8", b"bsd.o\0\0\0rest"));
        let list = read(&file).unwrap();
        let expected = [("short.o", &b"123"[..]), ("a_very_long_name_of_a_member.o", b"45"), ("bsd.o", b"rest")];
        assert_eq!(list.iter().map(|m| (m.name, m.data.unwrap())).collect::<Vec<_>>(), expected);
        for n in 1..8 {
            assert!(read(&file[..file.len() - n]).is_err());
        }
    }

    #[test]
    fn thin_archives_name_files() {
        let mut file = THIN_MAGIC.to_vec();
        file.extend(member("//", b"dir/one.o/\n"));
        file.extend(&member("/0", b"")[..60]);
        assert_eq!(read(&file).unwrap(), [Member { name: "dir/one.o", data: None }]);
    }
}
