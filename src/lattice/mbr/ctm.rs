//! Words as lines of a NIST "CTM" file.

use std::io::Write as _;

use super::{Word, Words};
use crate::error::{Error, Result, try_reserve};
use crate::lattice::CompactLattice;
use crate::lattice::best_path::{Scales, best_route, check_scale};
use crate::table::SymbolTable;

/// How CTM lines are written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CtmFormat {
    /// Seconds from one frame to the next. Default 0.01.
    pub frame_shift: f32,
    /// Digits behind the point of times and confidences. Default 2.
    pub digits: u32,
    /// Whether confidences stand at the ends of lines. Default true.
    pub confidences: bool,
}

impl Default for CtmFormat {
    fn default() -> CtmFormat {
        CtmFormat { frame_shift: 0.01, digits: 2, confidences: true }
    }
}

/// More digits than any binary64 has that is not 0.
const MOST_DIGITS: u32 = 400;

impl Words {
    /// Lines `key 1 start duration word [confidence]`, as `lattice-to-ctm-conf` and (without confidences)
    /// `nbest-to-ctm` write them: times in seconds, multiplied in binary32; words as symbols where there is a table.
    ///
    /// Fails with [`Error::Config`] for a frame shift that is not finite and above 0 or over 400 digits, with
    /// [`Error::Argument`] for a word that is not in the table.
    pub fn to_ctm(&self, key: &str, format: &CtmFormat, symbols: Option<&SymbolTable>) -> Result<Vec<u8>> {
        if !(format.frame_shift.is_finite() && format.frame_shift > 0.0) {
            return Err(Error::Config(format!("frame-shift is {}; it must be finite and above 0", format.frame_shift)));
        }
        if format.digits > MOST_DIGITS {
            return Err(Error::Config(format!("{} digits; at most {MOST_DIGITS} are written", format.digits)));
        }
        let (digits, shift) = (format.digits as usize, format.frame_shift);
        let mut text = Vec::new();
        for word in &self.words {
            let number = word.label.to_string();
            let name = match symbols {
                None => number.as_bytes(),
                Some(table) => table
                    .name(word.label)
                    .ok_or_else(|| Error::Argument(format!("word {} is not in the symbol table", word.label)))?,
            };
            // Times have at most 39 digits before the point.
            const REST: usize = 160;
            try_reserve(&mut text, key.len() + name.len() + 3 * digits + REST, "CTM lines")?;
            // Writing to a vector does not fail.
            let (start, frames) = (shift * word.start, shift * word.frames);
            let _ = write!(text, "{key} 1 {start:.digits$} {frames:.digits$} ");
            text.extend_from_slice(name);
            if format.confidences {
                let _ = write!(text, " {:.digits$}", word.confidence);
            }
            text.push(b'\n');
        }
        Ok(text)
    }
}

impl CompactLattice {
    /// The words of the best path (see [`CompactLattice::best_path`]) with the times of their arcs, confidence 1, and
    /// no bins. With `keep_silence`, arcs without a word that have transition-ids are there too, as word 0.
    pub fn best_words(&self, acoustic_scale: f32, keep_silence: bool) -> Result<Words> {
        check_scale(acoustic_scale)?;
        let route = best_route(self.view(), Scales::acoustic(acoustic_scale))?;
        let mut words = Words { num_frames: self.num_frames, ..Words::default() };
        let mut start = 0;
        for arc in route.arcs {
            let label = self.arcs[arc as usize].olabel;
            let frames = self.arc_strings.length(arc as usize);
            if label != 0 || (keep_silence && frames > 0) {
                try_reserve(&mut words.words, 1, "words of a lattice")?;
                let bin = words.words.len() as u32;
                words.words.push(Word { label, bin, start: start as f32, frames: frames as f32, confidence: 1.0 });
            }
            start += frames;
        }
        Ok(words)
    }
}
