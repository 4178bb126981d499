//! Words of aligned linear lattices with times, with the command line, files and log lines of Kaldi's
//! `nbest-to-ctm`.

mod support;

use std::process::ExitCode;

use koshi::Error;
use koshi::lattice::{CompactLattice, CompactLatticeHolder, CtmFormat};
use koshi::table::{Output, SequentialReader};

use support::exit::{self, Failure};
use support::options::Options;

const USAGE: &str = "\
Writes the words of lattices of one path each, whose arcs are aligned with the words, with their times as
a CTM file: lines of key, 1, start and duration in seconds, and the number of the word.

Usage: koshi-nbest-to-ctm [options] <aligned-linear-lattices-rspecifier> <ctm-wxfilename>

 e.g.: koshi-lattice-1best --acoustic-scale=0.1 ark:1.lats ark:- | \\
         koshi-lattice-align-words word_boundary.int final.mdl ark:- ark:- | koshi-nbest-to-ctm ark:- 1.ctm

A lattice of no path or of several counts as failed. The exit status is 0 if there was one of a single
path and nothing that was read or written was broken, else 1.
";

struct Config {
    frame_shift: f32,
    precision: i32,
    print_silence: bool,
}

fn main() -> ExitCode {
    exit::run("koshi-nbest-to-ctm", || {
        let mut config = Config { frame_shift: 0.01, precision: 2, print_silence: false };
        let mut options = Options::new(USAGE);
        options.float("frame-shift", &mut config.frame_shift, "Seconds from one frame to the next");
        options.int("precision", &mut config.precision, "Digits behind the point of times");
        options.flag("print-silence", &mut config.print_silence, "Whether arcs without a word are written, as word 0");
        let Some(arguments) = options.read(2, 2)? else { return Ok(()) };
        run(&config, &arguments)
    })
}

fn run(config: &Config, arguments: &[String]) -> Result<(), Failure> {
    let argument = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    let digits = u32::try_from(config.precision);
    let digits = digits.map_err(|_| Error::Config("precision cannot be negative".into()))?;
    let format = CtmFormat { frame_shift: config.frame_shift, digits, confidences: false };
    let mut reader = SequentialReader::<CompactLatticeHolder>::open(argument(0))?;
    let mut output = Output::create(argument(1))?;
    let (mut done, mut failed) = (0u64, 0u64);
    while let Some((key, lattice)) = reader.next()? {
        if !is_linear(&lattice) {
            log::warn!(target: "main", "Format conversion failed for key {key}");
            failed += 1;
            continue;
        }
        let words = lattice.best_words(1.0, config.print_silence)?;
        output.write_all(&words.to_ctm(&key, &format, None)?)?;
        done += 1;
    }
    reader.close()?;
    output.close()?;
    log::info!(target: "main", "Converted {done} linear lattices to ctm format; {failed} had errors.");
    if done > 0 { Ok(()) } else { Err(Failure::Told) }
}

/// Whether there is one path. States are sorted and each lies on a path.
fn is_linear(lattice: &CompactLattice) -> bool {
    let ends = lattice.finals.iter().filter(|weight| !weight.is_absent()).count();
    ends == 1 && lattice.num_arcs() + 1 == lattice.num_states()
}
