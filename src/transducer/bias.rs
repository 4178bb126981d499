//! Phrases of a transducer: output labels of its vocabulary that are made more likely.

use crate::error::{Error, Result};
use crate::search::{Phrase, Phrases};

/// [`Error::Config`] names a phrase that is empty, has a label outside `0..vocab_size` or the
/// blank, or a bonus that is negative or no finite number, or with which the bonuses add up to more than 1e30.
pub(super) fn phrases(phrases: &[Phrase<'_>], vocab_size: usize, blank: i32) -> Result<Phrases> {
    // A search that looks for the labels of its phrases among all others has no use for unlikely ones.
    if let Some(at) = phrases.iter().position(|phrase| phrase.bonus < 0.0) {
        let bonus = phrases.get(at).map_or(f32::NAN, |phrase| phrase.bonus);
        return Err(Error::Config(format!("phrase {at}: its bonus is {bonus}; it must be finite and at least 0")));
    }
    let in_vocabulary = |label: i32| usize::try_from(label).is_ok_and(|label| label < vocab_size);
    Phrases::new(phrases, |label| label != blank && in_vocabulary(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_phrase_is_refused() {
        let bad = |labels: &[i32], bonus| {
            let error = phrases(&[Phrase { labels, bonus }], 4, 2).unwrap_err();
            assert!(matches!(&error, Error::Config(message) if message.starts_with("phrase 0: ")), "{error}");
        };
        bad(&[], 1.0);
        bad(&[1, 2], 1.0);
        bad(&[4], 1.0);
        bad(&[-1], 1.0);
        for bonus in [-1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            bad(&[1], bonus);
        }
        bad(&[1, 3, 1], 3e38);
        phrases(&[Phrase { labels: &[0, 3], bonus: 0.0 }], 4, 2).unwrap();
    }
}
