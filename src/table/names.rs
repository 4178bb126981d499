//! What a file name stands for: Kaldi's "rxfilenames" (to read) and "wxfilenames" (to write).

use crate::error::{Error, Result};

/// A name to read from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Readable<'a> {
    /// `-` or the empty name.
    Stdin,
    /// `command |`.
    Command(&'a str),
    /// `path` or `path:offset`.
    File(&'a str, Option<u64>),
}

/// A name to write to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Writable<'a> {
    /// `-` or the empty name.
    Stdout,
    /// `| command`.
    Command(&'a str),
    /// A path.
    File(&'a str),
}

/// Tells what an rxfilename stands for, by Kaldi's rules.
pub(super) fn readable(name: &str) -> Result<Readable<'_>> {
    if name.is_empty() || name == "-" {
        return Ok(Readable::Stdin);
    }
    if name.starts_with('|') {
        return refuse(name, "a command that is written to cannot be read from");
    }
    if let Some(command) = name.strip_suffix('|') {
        return Ok(Readable::Command(command));
    }
    refuse_common(name)?;
    if let Some((path, offset)) = split_offset(name) {
        let offset =
            offset.parse().map_err(|_| Error::Argument(format!("{name}: the offset is out of range: {offset}")))?;
        return Ok(Readable::File(path, Some(offset)));
    }
    Ok(Readable::File(name, None))
}

/// Tells what a wxfilename stands for, by Kaldi's rules.
pub(super) fn writable(name: &str) -> Result<Writable<'_>> {
    if name.is_empty() || name == "-" {
        return Ok(Writable::Stdout);
    }
    if let Some(command) = name.strip_prefix('|') {
        return Ok(Writable::Command(command));
    }
    if name.ends_with('|') {
        return refuse(name, "a command that is read from cannot be written to");
    }
    refuse_common(name)?;
    if split_offset(name).is_some() {
        return refuse(name, "cannot write at an offset");
    }
    Ok(Writable::File(name))
}

fn refuse<T>(name: &str, why: &str) -> Result<T> {
    Err(Error::Argument(format!("{name:?} is not a file name: {why}")))
}

fn refuse_common(name: &str) -> Result<()> {
    if name.starts_with(|c: char| c.is_ascii_whitespace()) || name.ends_with(|c: char| c.is_ascii_whitespace()) {
        return refuse(name, "it begins or ends with white space");
    }
    if name.contains('|') {
        return refuse(name, "a | stands inside it");
    }
    if let Some((kind, _)) = name.split_once(':')
        && kind.split(',').any(|word| word == "ark" || word == "scp")
    {
        return refuse(name, "it is the name of a table");
    }
    Ok(())
}

/// Splits `path:123` before the colon.
fn split_offset(name: &str) -> Option<(&str, &str)> {
    let (path, offset) = name.rsplit_once(':')?;
    let digits = !offset.is_empty() && offset.bytes().all(|b| b.is_ascii_digit());
    (digits && !path.is_empty()).then_some((path, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_names() {
        assert_eq!(readable("").unwrap(), Readable::Stdin);
        assert_eq!(readable("-").unwrap(), Readable::Stdin);
        assert_eq!(readable("a.ark").unwrap(), Readable::File("a.ark", None));
        assert_eq!(readable("a.ark:12").unwrap(), Readable::File("a.ark", Some(12)));
        assert_eq!(readable("c:/a:b").unwrap(), Readable::File("c:/a:b", None));
        assert_eq!(readable("a.ark2").unwrap(), Readable::File("a.ark2", None));
        assert_eq!(readable("gunzip -c a.gz |").unwrap(), Readable::Command("gunzip -c a.gz "));
        assert_eq!(readable("cat a | sort |").unwrap(), Readable::Command("cat a | sort "));
        for bad in ["|cat", " a", "a ", "a|b", "ark:a", "scp,p:a", "a:99999999999999999999"] {
            assert!(matches!(readable(bad), Err(Error::Argument(_))), "{bad}");
        }
    }

    #[test]
    fn writable_names() {
        assert_eq!(writable("").unwrap(), Writable::Stdout);
        assert_eq!(writable("-").unwrap(), Writable::Stdout);
        assert_eq!(writable("a.ark").unwrap(), Writable::File("a.ark"));
        assert_eq!(writable("| gzip -c > a.gz").unwrap(), Writable::Command(" gzip -c > a.gz"));
        for bad in ["cat|", " a", "a ", "a|b", "ark:a", "ark,scp:a,b", "a.ark:12"] {
            assert!(matches!(writable(bad), Err(Error::Argument(_))), "{bad}");
        }
    }
}
