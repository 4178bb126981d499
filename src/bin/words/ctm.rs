//! The parts of `koshi-lattice-to-ctm-conf`: its options, what it reads beside the lattices, what it tells.

use koshi::lattice::{CompactLattice, CtmFormat, Words, WordsConfig};
use koshi::table::{Int32VectorHolder, RandomAccessReader, format_general};
use koshi::{Error, Result};

use super::times::TimesHolder;
use crate::support::costs::Scales;
use crate::support::options::Options;

const USAGE: &str = "Writes the words of lattices with times and confidences, as a CTM file.
The words are those of least expected error, beginning from those of the best path, or from 1best where it is given;
with --decode-mbr=false they stay as they are. Times only mean something in lattices that are aligned with the words
(koshi-lattice-align-words). Utterances that a table of 1best or times lacks are left out; what the times are has no
effect on the result.

Usage: koshi-lattice-to-ctm-conf [options] <lattice-rspecifier> [<1best-rspecifier> [<times-rspecifier>]] <ctm-wxfilename>
 e.g.: koshi-lattice-to-ctm-conf --acoustic-scale=0.1 ark:1.lats 1.ctm
";

/// Options of the command.
#[derive(Debug)]
pub struct Config {
    scales: Scales,
    frame_shift: f32,
    confidence_digits: i32,
    decode_mbr: bool,
    print_silence: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            scales: Scales::default(),
            frame_shift: 0.01,
            confidence_digits: 2,
            decode_mbr: true,
            print_silence: false,
        }
    }
}

impl Config {
    /// The options, which write into this struct.
    pub fn options(&mut self) -> Options<'_> {
        let mut options = Options::new(USAGE);
        self.scales.add_to(&mut options);
        options.float("frame-shift", &mut self.frame_shift, "Seconds from one frame to the next");
        options.int("confidence-digits", &mut self.confidence_digits, "Digits behind the point in the CTM file");
        options.flag("decode-mbr", &mut self.decode_mbr, "Whether the words are those of least expected error");
        options.flag("print-silence", &mut self.print_silence, "Whether places without a word are written, as word 0");
        options
    }

    /// The options of the decoding and of the file.
    pub fn parts(&self) -> Result<(WordsConfig, CtmFormat)> {
        let acoustic_scale = self.scales.acoustic()?;
        let digits = u32::try_from(self.confidence_digits);
        let digits = digits.map_err(|_| Error::Config("confidence-digits cannot be negative".into()))?;
        let config = WordsConfig {
            acoustic_scale,
            graph_scale: self.scales.graph,
            decode_mbr: self.decode_mbr,
            keep_silence: self.print_silence,
            one_best_times: false,
        };
        Ok((config, CtmFormat { frame_shift: self.frame_shift, digits, confidences: true }))
    }
}

/// Where the words begin from.
pub struct Hypotheses {
    words: Option<RandomAccessReader<Int32VectorHolder>>,
    times: Option<RandomAccessReader<TimesHolder>>,
}

impl Hypotheses {
    /// Opens the tables that are given.
    pub fn open(words: Option<&str>, times: Option<&str>) -> Result<Hypotheses> {
        let words = words.filter(|name| !name.is_empty());
        let times = times.filter(|name| !name.is_empty());
        Ok(Hypotheses {
            words: words.map(RandomAccessReader::open).transpose()?,
            times: times.map(RandomAccessReader::open).transpose()?,
        })
    }

    /// The words of an utterance; `None`, and it is told, if a table lacks it.
    pub fn words(&mut self, key: &str, lattice: &CompactLattice, config: &WordsConfig) -> Result<Option<Words>> {
        let Some(table) = &mut self.words else { return lattice.words(config).map(Some) };
        let Some(hypothesis) = table.get(key)? else {
            log::warn!(target: "main", "No 1-best present for utterance {key}");
            return Ok(None);
        };
        if let Some(times) = &mut self.times
            && !times.has(key)?
        {
            log::warn!(target: "main", "No 'times' present for utterance {key}");
            return Ok(None);
        }
        lattice.words_of(hypothesis, config).map(Some)
    }

    /// Ends reading.
    pub fn close(self) -> Result<()> {
        let words = self.words.map_or(Ok(()), RandomAccessReader::close);
        let times = self.times.map_or(Ok(()), RandomAccessReader::close);
        words.and(times)
    }
}

/// Counts and sums of a run.
#[derive(Debug, Default)]
pub struct Totals {
    /// Utterances written.
    pub done: u64,
    words: u64,
    risk: f64,
}

impl Totals {
    /// Counts an utterance and tells of it.
    pub fn add(&mut self, key: &str, words: &Words) {
        self.done += 1;
        self.words += words.words.len() as u64;
        self.risk += words.expected_errors;
        let (risk, mean) = (short(words.expected_errors), short(words.mean_confidence()));
        log::info!(target: "main", "For utterance {key}, Bayes Risk {risk}, avg. confidence per-word {mean}");
    }

    /// Tells of the run.
    pub fn tell(&self) {
        log::info!(target: "main", "Done {} lattices.", self.done);
        let (each, word) = (short(self.risk / self.done as f64), short(self.risk / self.words as f64));
        log::info!(target: "main", "Overall average Bayes Risk per sentence is {each} and per word, {word}");
    }
}

/// A number as Kaldi's log has it; what has no value is `nan`, without a sign.
fn short(number: f64) -> String {
    if number.is_nan() { "nan".to_string() } else { format_general(number, 6) }
}
