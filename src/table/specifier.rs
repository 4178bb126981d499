//! Kaldi's names of tables: "rspecifiers" (to read) and "wspecifiers" (to write).

use crate::error::{Error, Result};

/// Where the entries of a table that is read come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `ark:`, keys and objects in one stream.
    Archive,
    /// `scp:`, lines of a key and the name of a file.
    Script,
}

/// An rspecifier taken apart: `[options,]ark:rxfilename` or `[options,]scp:rxfilename`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rspecifier {
    /// Archive or script.
    pub kind: Kind,
    /// The archive's or script's rxfilename.
    pub file: String,
    /// `o`: each key is asked for once, so that its object can be forgotten.
    pub once: bool,
    /// `s`: the keys are sorted, as strings of bytes.
    pub sorted: bool,
    /// `cs`: keys are asked for in sorted order.
    pub called_sorted: bool,
    /// `p`: entries that cannot be read count as absent, a broken archive as ended.
    pub permissive: bool,
    /// `bg`: reading ahead in the background is allowed. It has no effect on results and at present none at all.
    pub background: bool,
}

impl Rspecifier {
    /// Takes an rspecifier apart. Options are separated by commas or spaces and may stand on either side of `ark` or `scp`;
    /// of contradicting ones the last counts; `b` and `t` are accepted and mean nothing.
    pub fn parse(text: &str) -> Result<Rspecifier> {
        let refuse = |why: &str| Error::Argument(format!("{text:?} is not a table to read: {why}"));
        let (words, file) = split(text).map_err(|why| refuse(&why))?;
        let mut found = Rspecifier {
            kind: Kind::Archive,
            file: file.to_string(),
            once: false,
            sorted: false,
            called_sorted: false,
            permissive: false,
            background: false,
        };
        let mut kind = None;
        for word in words {
            match word {
                "ark" | "scp" if kind.is_some() => return Err(refuse("it is one of ark and scp, once")),
                "ark" => kind = Some(Kind::Archive),
                "scp" => kind = Some(Kind::Script),
                "b" | "t" => {}
                "o" => found.once = true,
                "no" => found.once = false,
                "s" => found.sorted = true,
                "ns" => found.sorted = false,
                "cs" => found.called_sorted = true,
                "ncs" => found.called_sorted = false,
                "p" => found.permissive = true,
                "np" => found.permissive = false,
                "bg" => found.background = true,
                other => return Err(refuse(&format!("unknown option {other:?}"))),
            }
        }
        match kind {
            Some(kind) => Ok(Rspecifier { kind, ..found }),
            None => Err(refuse("neither ark nor scp is given")),
        }
    }
}

/// A wspecifier taken apart: `ark:wxfilename`, `scp:rxfilename` or `ark,scp:wxfilename,wxfilename`, with options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wspecifier {
    /// The archive to write.
    pub archive: Option<String>,
    /// With an archive the script to write, which points into it; alone a script to *read*, which says where to write the
    /// object of each key.
    pub script: Option<String>,
    /// `b` (the default) or `t`: the form of the objects.
    pub binary: bool,
    /// `f`: flush after each object; `nf` (the default) not.
    pub flush: bool,
    /// `p`: with a script alone, keys that it lacks are not written and no error.
    pub permissive: bool,
}

impl Wspecifier {
    /// Takes a wspecifier apart, by the rules of [`Rspecifier::parse`].
    pub fn parse(text: &str) -> Result<Wspecifier> {
        let refuse = |why: &str| Error::Argument(format!("{text:?} is not a table to write: {why}"));
        let (words, file) = split(text).map_err(|why| refuse(&why))?;
        let (mut archive, mut script) = (false, false);
        let mut found = Wspecifier { archive: None, script: None, binary: true, flush: false, permissive: false };
        for word in words {
            match word {
                "ark" if archive || script => return Err(refuse("ark comes first, and once")),
                "ark" => archive = true,
                "scp" if script => return Err(refuse("scp is given twice")),
                "scp" => script = true,
                "b" => found.binary = true,
                "t" => found.binary = false,
                "f" => found.flush = true,
                "nf" => found.flush = false,
                "p" => found.permissive = true,
                other => return Err(refuse(&format!("unknown option {other:?}"))),
            }
        }
        match (archive, script) {
            (true, false) => found.archive = Some(file.to_string()),
            (false, true) => found.script = Some(file.to_string()),
            (true, true) => match file.split_once(',') {
                Some((archive, script)) => {
                    found.archive = Some(archive.to_string());
                    found.script = Some(script.to_string());
                }
                None => return Err(refuse("two file names are needed, with a comma between them")),
            },
            (false, false) => return Err(refuse("neither ark nor scp is given")),
        }
        Ok(found)
    }
}

/// The words before the first colon, and what comes after it.
fn split(text: &str) -> Result<(impl Iterator<Item = &str>, &str), String> {
    let (before, file) = text.split_once(':').ok_or("it has no colon")?;
    if file.ends_with(|c: char| c.is_ascii_whitespace()) {
        return Err("it ends with white space".to_string());
    }
    Ok((before.split([',', ' ']).filter(|word| !word.is_empty()), file))
}

/// Takes the range off the end of a name in a script: `a.ark:12[0:9]` is `a.ark:12` and `0:9`.
pub(super) fn split_range(name: &str) -> Result<(&str, Option<&str>)> {
    let Some(inside) = name.strip_suffix(']') else { return Ok((name, None)) };
    match inside.split_once('[') {
        Some((file, range)) if !file.is_empty() && !range.is_empty() && !range.contains('[') => Ok((file, Some(range))),
        _ => Err(Error::Argument(format!("{name:?} ends with ] but not with a range such as [0:9]"))),
    }
}

/// Rows and columns that a range such as `0:9`, `0:9,3:5` or `:,3:5` picks from a matrix of the given size. Both ends of
/// a range belong to it; `:` stands for all.
pub fn parse_range(range: &str, rows: usize, cols: usize) -> Result<(std::ops::Range<usize>, std::ops::Range<usize>)> {
    let refuse = || Error::Argument(format!("the range [{range}] does not fit a matrix of {rows} by {cols}"));
    let axis = |part: &str, size: usize| {
        if part == ":" {
            return Some(0..size);
        }
        let (first, last) = part.split_once(':')?;
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last && last < size).then(|| first..last + 1)
    };
    let (row_part, col_part) = range.split_once(',').unwrap_or((range, ":"));
    match (axis(row_part, rows), axis(col_part, cols)) {
        (Some(row_range), Some(col_range)) => Ok((row_range, col_range)),
        _ => Err(refuse()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rspecifiers() {
        let plain = Rspecifier::parse("ark:a.ark").unwrap();
        assert_eq!((plain.kind, plain.file.as_str()), (Kind::Archive, "a.ark"));
        assert!(!plain.once && !plain.sorted && !plain.called_sorted && !plain.permissive);
        let all = Rspecifier::parse("o, s,cs p,scp,bg,t:cat a:b |").unwrap();
        assert_eq!((all.kind, all.file.as_str()), (Kind::Script, "cat a:b |"));
        assert!(all.once && all.sorted && all.called_sorted && all.permissive && all.background);
        let none = Rspecifier::parse("o,no,s,ns,cs,ncs,p,np,ark:-").unwrap();
        assert!(!none.once && !none.sorted && !none.called_sorted && !none.permissive);
        assert_eq!(Rspecifier::parse("ark:").unwrap().file, "");
        for bad in ["", "a.ark", "ark", "ark:a ", "x,ark:a", "ark,scp:a,b", "scp,ark:a", "ark,ark:a", "b:a", "f,ark:a"]
        {
            assert!(matches!(Rspecifier::parse(bad), Err(Error::Argument(_))), "{bad}");
        }
    }

    #[test]
    fn wspecifiers() {
        let plain = Wspecifier::parse("ark:a").unwrap();
        assert_eq!((plain.archive.as_deref(), plain.script.as_deref()), (Some("a"), None));
        assert!(plain.binary && !plain.flush && !plain.permissive);
        let both = Wspecifier::parse("ark,t,f,scp:a,b,c").unwrap();
        assert_eq!((both.archive.as_deref(), both.script.as_deref()), (Some("a"), Some("b,c")));
        assert!(!both.binary && both.flush);
        let script = Wspecifier::parse("scp,p,t,b,f,nf:a").unwrap();
        assert_eq!((script.archive.as_deref(), script.script.as_deref()), (None, Some("a")));
        assert!(script.binary && !script.flush && script.permissive);
        for bad in
            ["", "a", "ark:a ", "scp,ark:a,b", "ark,scp:a", "ark,ark:a", "scp,scp:a", "t:a", "o,ark:a", "s,scp:a"]
        {
            assert!(matches!(Wspecifier::parse(bad), Err(Error::Argument(_))), "{bad}");
        }
    }

    #[test]
    fn ranges() {
        assert_eq!(split_range("a:1").unwrap(), ("a:1", None));
        assert_eq!(split_range("a:1[0:9,3:5]").unwrap(), ("a:1", Some("0:9,3:5")));
        for bad in ["[0:1]", "a[]", "a]", "a[[0:1]", "a[0][1]"] {
            assert!(split_range(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_range("0:9", 10, 4).unwrap(), (0..10, 0..4));
        assert_eq!(parse_range("3:3,1:2", 10, 4).unwrap(), (3..4, 1..3));
        assert_eq!(parse_range(":,1:2", 10, 4).unwrap(), (0..10, 1..3));
        for bad in [
            "",
            ",",
            "0:10",
            "2:1",
            "0",
            "0:1,",
            "0:1,0:4",
            "0:1,0:1,0:1",
            "a:b",
            "-1:2",
            "0:1:2",
            "0:18446744073709551615",
        ] {
            assert!(parse_range(bad, 10, 4).is_err(), "{bad}");
        }
    }
}
