//! Which phones begin and end words.

use std::collections::HashMap;

use super::lines::{each_line, number, room};
use crate::error::{Result, try_filled};
use crate::table::Input;

/// Where in a word a phone stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhoneKind {
    /// In no word: silence, noise.
    NonWord,
    /// First of several phones.
    Begin,
    /// Last of several phones.
    End,
    /// Neither first nor last.
    Internal,
    /// The only phone of a word.
    Singleton,
}

impl PhoneKind {
    const ALL: [(&'static str, PhoneKind); 5] = [
        ("nonword", PhoneKind::NonWord),
        ("begin", PhoneKind::Begin),
        ("end", PhoneKind::End),
        ("internal", PhoneKind::Internal),
        ("singleton", PhoneKind::Singleton),
    ];

    /// The kind's name in `word_boundary.int`.
    pub fn name(self) -> &'static str {
        PhoneKind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// The table of Kaldi's `word_boundary.int`: lines of a phone and its kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WordBoundary {
    kinds: HashMap<i32, PhoneKind>,
    /// Those of phones below [`USUAL`] once more, by phone: they are asked for at every transition-id.
    by_phone: Vec<Option<PhoneKind>>,
}

/// More phones than any model has; a table may still name others.
const USUAL: i32 = 1 << 16;

impl WordBoundary {
    /// Reads the table from the file that an rxfilename names.
    pub fn read_file(rxfilename: &str) -> Result<WordBoundary> {
        let mut input = Input::open(rxfilename)?;
        let table = WordBoundary::read(&mut input)?;
        input.close()?;
        Ok(table)
    }

    /// Reads lines `phone nonword|begin|end|internal|singleton` to the end of `input`; blank lines are passed over. A
    /// line of another form, a phone below 1 or with two kinds, and a table without phones are format errors that
    /// name the line.
    pub fn read(input: &mut Input) -> Result<WordBoundary> {
        let mut kinds = HashMap::new();
        each_line(input, |fields| add(&mut kinds, fields))?;
        if kinds.is_empty() {
            return Err(input.text_error("the word-boundary table has no phones"));
        }
        let usual = || kinds.iter().filter(|&(&phone, _)| phone < USUAL);
        let most = usual().map(|(&phone, _)| phone).max().unwrap_or(0);
        let mut by_phone = try_filled(None, most as usize + 1, WHAT)?;
        usual().for_each(|(&phone, &kind)| by_phone[phone as usize] = Some(kind));
        Ok(WordBoundary { kinds, by_phone })
    }

    /// Kind of `phone`; `None` if the table does not have it.
    pub fn kind(&self, phone: i32) -> Option<PhoneKind> {
        match usize::try_from(phone).ok().and_then(|phone| self.by_phone.get(phone)) {
            Some(&kind) => kind,
            None => self.kinds.get(&phone).copied(),
        }
    }

    /// Number of phones.
    pub fn num_phones(&self) -> usize {
        self.kinds.len()
    }
}

const WHAT: &str = "word-boundary table";

fn add(kinds: &mut HashMap<i32, PhoneKind>, fields: &[&str]) -> Result<Result<(), String>> {
    room(kinds, WHAT)?;
    Ok(entry(fields).and_then(|(phone, kind)| match kinds.insert(phone, kind) {
        Some(before) if before != kind => {
            Err(format!("phone {phone} is {}, and {} before", kind.name(), before.name()))
        }
        _ => Ok(()),
    }))
}

fn entry(fields: &[&str]) -> Result<(i32, PhoneKind), String> {
    let &[phone, name] = fields else {
        return Err(format!("{} fields; a line is a phone and its kind", fields.len()));
    };
    let phone = number(phone, 1, "phone")?;
    let Some((_, kind)) = PhoneKind::ALL.iter().find(|(known, _)| *known == name) else {
        let shown: String = name.chars().take(20).collect();
        return Err(format!("{shown:?} is none of nonword, begin, end, internal, singleton"));
    };
    Ok((phone, *kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<WordBoundary> {
        WordBoundary::read(&mut Input::from_bytes("boundary", text))
    }

    #[test]
    fn kinds_by_phone() {
        let table = read("1 nonword\n2\tbegin\r\n\n3 end\n4  internal\n5 singleton\n5 singleton").unwrap();
        let kinds: Vec<_> = (0..7).map(|phone| table.kind(phone)).collect();
        use PhoneKind::*;
        assert_eq!(kinds, [None, Some(NonWord), Some(Begin), Some(End), Some(Internal), Some(Singleton), None]);
        assert_eq!(table.num_phones(), 5);
        let far = read("2147483647 end\n70000 begin\n3 internal\n").unwrap();
        let kinds = [i32::MAX, 70000, 3, 4, 70001, -1].map(|phone| far.kind(phone));
        assert_eq!(kinds, [Some(End), Some(Begin), Some(Internal), None, None, None]);
    }

    #[test]
    fn faults_name_the_line() {
        let cases = [
            ("", "line 1: the word-boundary table has no phones"),
            ("1 nonword\nbegin 2\n", "line 2: \"begin\" is no phone"),
            ("1 nonword\n0 begin\n", "line 2: \"0\" is no phone"),
            ("1 nonword\n99999999999 begin\n", "line 2: \"99999999999\" is no phone"),
            ("1 nonword\n\n2 Begin\n", "line 3: \"Begin\" is none of"),
            ("1 nonword 2\n", "line 1: 3 fields"),
            ("1\n", "line 1: 1 fields"),
            ("1 begin\n1 end\n", "line 2: phone 1 is end, and begin before"),
        ];
        for (text, wanted) in cases {
            let found = read(text).unwrap_err().to_string();
            assert!(found.starts_with("boundary: byte ") && found.contains(wanted), "{text:?}: {found}");
        }
        let bytes = WordBoundary::read(&mut Input::from_bytes("boundary", vec![b'1', b' ', 0xff, b'\n']));
        assert!(bytes.unwrap_err().to_string().contains("not UTF-8"));
    }
}
