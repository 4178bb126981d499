//! The pronunciations by which a lattice is aligned.

use std::collections::HashMap;

use super::lines::{each_line, number, room};
use crate::error::{Result, try_reserve};
use crate::table::Input;

/// Kaldi's `align_lexicon.int`: lines of a word as it stands in the lattice, the word as it will stand in the aligned
/// one, and phones. Word 0 stands for silence, which has no word in the lattice.
#[derive(Clone, Debug, Default)]
pub struct AlignLexicon {
    /// New word, by word and phones.
    entries: HashMap<Vec<i32>, i32>,
    /// Least and most phones of each word.
    num_phones: HashMap<i32, (usize, usize)>,
    /// By phones: the words that have pronunciations which begin with these and go on.
    going_on: HashMap<Vec<i32>, Vec<i32>>,
}

impl AlignLexicon {
    /// Reads the table from the file that an rxfilename names.
    pub fn read_file(rxfilename: &str) -> Result<AlignLexicon> {
        let mut input = Input::open(rxfilename)?;
        let table = AlignLexicon::read(&mut input)?;
        input.close()?;
        Ok(table)
    }

    /// Reads lines `word new-word phone…` to the end of `input`; blank lines are passed over. Negative numbers, phone
    /// 0, word 0 without phones, one pronunciation with two new words and a table without lines are format errors that
    /// name the line.
    pub fn read(input: &mut Input) -> Result<AlignLexicon> {
        let mut lexicon = AlignLexicon::default();
        each_line(input, |fields| match entry(fields)? {
            Ok(entry) => lexicon.add(&entry),
            Err(why) => Ok(Err(why)),
        })?;
        if lexicon.entries.is_empty() {
            return Err(input.text_error("the lexicon has no lines"));
        }
        lexicon.going_on.values_mut().for_each(|words| {
            words.sort_unstable();
            words.dedup();
        });
        Ok(lexicon)
    }

    /// Pronunciations held.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no pronunciation is held.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The word that will stand for `word` with `phones`; `None` if it is not pronounced so.
    pub fn new_word(&self, word: i32, phones: &[i32]) -> Option<i32> {
        let mut key = Vec::with_capacity(phones.len() + 1);
        key.push(word);
        key.extend_from_slice(phones);
        self.entries.get(&key).copied()
    }

    /// Least and most phones of `word`; `None` if it is not in the lexicon.
    pub fn num_phones(&self, word: i32) -> Option<(usize, usize)> {
        self.num_phones.get(&word).copied()
    }

    /// Whether a pronunciation of silence or of `word` begins with `phones` and goes on.
    pub(super) fn goes_on(&self, phones: &[i32], word: i32) -> bool {
        let words = self.going_on.get(phones);
        words.is_some_and(|words| words.first() == Some(&0) || words.binary_search(&word).is_ok())
    }

    /// `entry` is word, new word, phones.
    fn add(&mut self, entry: &[i32]) -> Result<Result<(), String>> {
        let &[word, new_word, ref phones @ ..] = entry else {
            return Ok(Err("a line needs two words".into()));
        };
        if word == 0 && phones.is_empty() {
            return Ok(Err("word 0 without phones".into()));
        }
        let mut key = copy(&[word])?;
        try_reserve(&mut key, phones.len(), WHAT)?;
        key.extend_from_slice(phones);
        room(&mut self.entries, WHAT)?;
        match self.entries.insert(key, new_word) {
            Some(before) if before != new_word => {
                return Ok(Err(format!("word {word} with these phones becomes {new_word}, and {before} before")));
            }
            _ => {}
        }
        room(&mut self.num_phones, WHAT)?;
        let (least, most) = self.num_phones.entry(word).or_insert((phones.len(), phones.len()));
        (*least, *most) = ((*least).min(phones.len()), (*most).max(phones.len()));
        for len in 1..phones.len() {
            room(&mut self.going_on, WHAT)?;
            let words = match self.going_on.get_mut(&phones[..len]) {
                Some(words) => words,
                None => self.going_on.entry(copy(&phones[..len])?).or_default(),
            };
            if words.last() != Some(&word) {
                try_reserve(words, 1, WHAT)?;
                words.push(word);
            }
        }
        Ok(Ok(()))
    }
}

const WHAT: &str = "alignment lexicon";

/// Longest pronunciation: its beginnings are held one by one.
const MOST_PHONES: usize = 1000;

fn copy(values: &[i32]) -> Result<Vec<i32>> {
    let mut copy = Vec::new();
    try_reserve(&mut copy, values.len(), WHAT)?;
    copy.extend_from_slice(values);
    Ok(copy)
}

fn entry(fields: &[&str]) -> Result<Result<Vec<i32>, String>> {
    let mut entry = Vec::new();
    try_reserve(&mut entry, fields.len(), WHAT)?;
    if fields.len() > MOST_PHONES + 2 {
        return Ok(Err(format!("{} phones; at most {MOST_PHONES} are taken", fields.len() - 2)));
    }
    for (at, field) in fields.iter().enumerate() {
        match if at < 2 { number(field, 0, "word") } else { number(field, 1, "phone") } {
            Ok(value) => entry.push(value),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AlignLexicon> {
        AlignLexicon::read(&mut Input::from_bytes("lexicon", text))
    }

    #[test]
    fn pronunciations_by_word() {
        let lexicon = read("0 9 1\n5 5 2 3 4\n5 5 2\n6 7\n8 8 2 3 3\n5 5 2\n").unwrap();
        assert_eq!(lexicon.len(), 5);
        assert_eq!((lexicon.new_word(0, &[1]), lexicon.new_word(6, &[])), (Some(9), Some(7)));
        assert_eq!((lexicon.new_word(5, &[2, 3, 4]), lexicon.new_word(5, &[2, 3])), (Some(5), None));
        assert_eq!(
            (lexicon.num_phones(5), lexicon.num_phones(6), lexicon.num_phones(3)),
            (Some((1, 3)), Some((0, 0)), None)
        );
        assert!(lexicon.goes_on(&[2, 3], 5) && lexicon.goes_on(&[2], 8));
        assert!(!lexicon.goes_on(&[2, 3, 4], 5) && !lexicon.goes_on(&[2, 3], 6) && !lexicon.goes_on(&[], 5));
    }

    #[test]
    fn faults_name_the_line() {
        let cases = [
            ("", "line 1: the lexicon has no lines"),
            ("5 5 2\n6\n", "line 2: a line needs two words"),
            ("5 5 2\n6 x 2\n", "line 2: \"x\" is no word"),
            ("5 5 2\n6 6 0\n", "line 2: \"0\" is no phone"),
            ("5 5 2\n-6 6 1\n", "line 2: \"-6\" is no word"),
            ("5 5 2\n\n5 6 2\n", "line 3: word 5 with these phones becomes 6, and 5 before"),
            ("0 0\n", "line 1: word 0 without phones"),
        ];
        for (text, wanted) in cases {
            let found = read(text).unwrap_err().to_string();
            assert!(found.starts_with("lexicon: byte ") && found.contains(wanted), "{text:?}: {found}");
        }
        let long = format!("5 5{}\n", " 7".repeat(MOST_PHONES + 1));
        assert!(read(&long).unwrap_err().to_string().contains("at most 1000"));
    }
}
