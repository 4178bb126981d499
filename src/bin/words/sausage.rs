//! Tables of confusion networks: bins of words with their posteriors.

use koshi::lattice::Words;
use koshi::table::{Holder, Input, Output};
use koshi::{Error, Result};

/// Bins of words with posteriors, in the form of Kaldi's posteriors of frames: in binary counts and pairs of an `int32`
/// and a binary32, in text `[ word posterior word posterior ] [ ... ]` on a line.
pub struct SausageHolder;

impl Holder for SausageHolder {
    type Value = Words;

    fn read(_: &mut Input) -> Result<Self::Value> {
        Err(Error::Unsupported("confusion networks are only written".into()))
    }

    fn write(output: &mut Output, words: &Words, binary: bool) -> Result<()> {
        let count = |number: usize| {
            i32::try_from(number).map_err(|_| Error::Unsupported(format!("{number} are too many for the format")))
        };
        output.write_header(binary)?;
        if binary {
            output.write_i32(true, count(words.bins.len())?)?;
        }
        for bin in 0..words.bins.len() {
            let alternatives = words.alternatives_of(bin);
            if binary {
                output.write_i32(true, count(alternatives.len())?)?;
            } else {
                output.write_text("[ ")?;
            }
            for alternative in alternatives {
                output.write_i32(binary, alternative.label)?;
                output.write_f32(binary, alternative.posterior)?;
            }
            if !binary {
                output.write_text("] ")?;
            }
        }
        if binary { Ok(()) } else { output.write_text("\n") }
    }
}
