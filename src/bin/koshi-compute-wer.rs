//! Word error rates, with the command line and the output of Kaldi's `compute-wer`.

mod support;

use std::process::ExitCode;

use koshi::table::{Holder, Int32VectorHolder, Output, RandomAccessReader, SequentialReader, TokenVectorHolder};
use koshi::{Error, Result};

use support::exit::{self, Failure};
use support::options::Options;

const USAGE: &str = "\
Holds sentences to references, word by word, and prints the rates of words that are wrong (inserted,
deleted or substituted) and of sentences that have any.

Usage: koshi-compute-wer [options] <references-rspecifier> <hypotheses-rspecifier>

 e.g.: koshi-compute-wer --text --mode=present ark:data/test/text ark,p:hypotheses.txt

The exit status is 0 if nothing that was read was broken, and with --mode=strict no hypothesis missing,
else 1.
";

/// What becomes of a reference without a hypothesis.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Strict,
    Present,
    All,
}

fn main() -> ExitCode {
    exit::run("koshi-compute-wer", || {
        let (mut mode, mut text) = ("strict".to_string(), false);
        let mut options = Options::new(USAGE);
        let doc = "What a reference without a hypothesis is: an error (strict), not counted (present), or one whose \
            words are all missing (all)";
        options.text("mode", &mut mode, doc);
        options.flag("text", &mut text, "Sentences are words, not numbers");
        let Some(arguments) = options.read(2, 2)? else { return Ok(()) };
        let mode = match mode.as_str() {
            "strict" => Mode::Strict,
            "present" => Mode::Present,
            "all" => Mode::All,
            other => return Err(Failure::Usage(format!("--mode={other}: expected strict, present or all"))),
        };
        let totals = match text {
            true => count::<TokenVectorHolder, String>(mode, &arguments),
            false => count::<Int32VectorHolder, i32>(mode, &arguments),
        };
        print(&totals?)
    })
}

/// Errors of a sentence.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Errors {
    inserted: u64,
    deleted: u64,
    substituted: u64,
}

impl Errors {
    fn sum(self) -> u64 {
        self.inserted + self.deleted + self.substituted
    }
}

/// Of all sentences together.
#[derive(Default)]
struct Totals {
    errors: Errors,
    words: u64,
    sentences: u64,
    wrong: u64,
    absent: u64,
}

fn count<H: Holder<Value = Vec<W>>, W: PartialEq>(mode: Mode, arguments: &[String]) -> Result<Totals> {
    let argument = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    let mut references = SequentialReader::<H>::open(argument(0))?;
    let mut hypotheses = RandomAccessReader::<H>::open(argument(1))?;
    let mut totals = Totals::default();
    while let Some((key, reference)) = references.next()? {
        let hypothesis = hypotheses.get(&key)?;
        if hypothesis.is_none() {
            totals.absent += 1;
            match mode {
                Mode::Strict => {
                    let why = format!("No hypothesis for key {key} and strict mode specifier.");
                    return Err(Error::Argument(why));
                }
                Mode::Present => continue,
                Mode::All => {}
            }
        }
        let hypothesis = hypothesis.map(Vec::as_slice).unwrap_or_default();
        let Errors { inserted, deleted, substituted } = errors(&reference, hypothesis);
        totals.errors.inserted += inserted;
        totals.errors.deleted += deleted;
        totals.errors.substituted += substituted;
        totals.words += reference.len() as u64;
        totals.sentences += 1;
        totals.wrong += u64::from(reference != hypothesis);
    }
    references.close()?;
    hypotheses.close()?;
    Ok(totals)
}

/// The least number of errors between two sentences. Of equally many the kinds are those that Kaldi counts, cell by
/// cell of the usual table: an insertion before a deletion before a substitution or a word that is right.
fn errors<W: PartialEq>(reference: &[W], hypothesis: &[W]) -> Errors {
    let start = |deleted: usize| Errors { deleted: deleted as u64, ..Errors::default() };
    let mut above: Vec<Errors> = (0..=reference.len()).map(start).collect();
    for word in hypothesis {
        let mut corner = above[0];
        above[0].inserted += 1;
        for (at, said) in reference.iter().enumerate() {
            let substituted = u64::from(word != said);
            let (left, up) = (above[at], above[at + 1]);
            let stand = corner.sum() + substituted;
            above[at + 1] = if stand < up.sum() + 1 && stand < left.sum() + 1 {
                Errors { substituted: corner.substituted + substituted, ..corner }
            } else if left.sum() < up.sum() {
                Errors { deleted: left.deleted + 1, ..left }
            } else {
                Errors { inserted: up.inserted + 1, ..up }
            };
            corner = up;
        }
    }
    above.pop().unwrap_or_default()
}

/// A rate in per cent. Nothing out of nothing is no number.
fn rate(part: u64, whole: u64) -> String {
    match whole {
        0 if part == 0 => "-nan".to_string(),
        0 => "inf".to_string(),
        // In binary64 and rounded once, as in Kaldi: it tells where both digits hang on it.
        _ => format!("{:.2}", (100.0 * f64::from(part as f32) / f64::from(whole as f32)) as f32),
    }
}

fn print(totals: &Totals) -> Result<(), Failure> {
    let Totals { errors, words, sentences, wrong, absent } = totals;
    let Errors { inserted, deleted, substituted } = errors;
    let sum = errors.sum();
    let kinds = format!("{inserted} ins, {deleted} del, {substituted} sub");
    let partial = if *absent > 0 { " [PARTIAL]" } else { "" };
    let lines = format!(
        "%WER {} [ {sum} / {words}, {kinds} ]{partial}\n%SER {} [ {wrong} / {sentences} ]\n\
        Scored {sentences} sentences, {absent} not present in hyp.\n",
        rate(sum, *words),
        rate(*wrong, *sentences),
    );
    let mut output = Output::create("-")?;
    output.write_text(&lines)?;
    Ok(output.close()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ways to make one sentence of the other.
    fn least(reference: &[u8], hypothesis: &[u8]) -> u64 {
        match (reference, hypothesis) {
            ([], rest) | (rest, []) => rest.len() as u64,
            ([said, reference_rest @ ..], [word, hypothesis_rest @ ..]) => {
                let stand = least(reference_rest, hypothesis_rest) + u64::from(said != word);
                stand.min(least(reference_rest, hypothesis) + 1).min(least(reference, hypothesis_rest) + 1)
            }
        }
    }

    #[test]
    fn rates_are_rounded_as_kaldis() {
        assert_eq!(rate(1, 800), "0.12");
        assert_eq!(rate(3, 800), "0.38");
        // In binary32 alone: 66.01 and 79.38.
        assert_eq!(rate(1_347_930, 2_041_854), "66.02");
        assert_eq!(rate(4_611_627, 5_809_192), "79.39");
        assert_eq!((rate(0, 0), rate(2, 0)), ("-nan".to_string(), "inf".to_string()));
    }

    #[test]
    fn no_way_has_fewer_errors() {
        let sentences: Vec<Vec<u8>> = (0..4u32)
            .flat_map(|length| {
                (0..3usize.pow(length)).map(move |code| (0..length).map(move |at| code / 3usize.pow(at) % 3))
            })
            .map(|words| words.map(|word| word as u8).collect())
            .collect();
        for reference in &sentences {
            for hypothesis in &sentences {
                let found = errors(reference, hypothesis);
                assert_eq!(found.sum(), least(reference, hypothesis), "{reference:?} {hypothesis:?}");
                let longer = hypothesis.len() as i64 - reference.len() as i64;
                assert_eq!(found.inserted as i64 - found.deleted as i64, longer, "{reference:?} {hypothesis:?}");
            }
        }
    }
}
