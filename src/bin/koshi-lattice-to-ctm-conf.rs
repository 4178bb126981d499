//! Words of lattices with times and confidences, with the command line, files and log lines of Kaldi's program of that
//! name.

mod support;
mod words;

use std::process::ExitCode;

use koshi::Error;
use koshi::lattice::CompactLatticeHolder;
use koshi::table::{Output, SequentialReader, Wspecifier};

use support::exit::{self, Failure};
use words::ctm::{Config, Hypotheses, Totals};

fn main() -> ExitCode {
    exit::run("koshi-lattice-to-ctm-conf", || {
        let mut config = Config::default();
        let Some(arguments) = config.options().read(2, 4)? else { return Ok(()) };
        run(&config, &arguments)
    })
}

fn run(config: &Config, arguments: &[String]) -> Result<(), Failure> {
    let (config, format) = config.parts()?;
    let (Some((lattices, others)), Some(ctm)) = (arguments.split_first(), arguments.last()) else {
        return Err(Failure::Usage("arguments are missing".into()));
    };
    let mut others = others.iter().take(others.len().saturating_sub(1)).map(String::as_str);
    if Wspecifier::parse(ctm).is_ok() {
        let why = "The output ctm file should not be a wspecifier. Please use things like 1.ctm instead of ark:-";
        return Err(Error::Argument(why.into()).into());
    }
    let mut reader: SequentialReader<CompactLatticeHolder> = SequentialReader::open(lattices)?;
    let mut hypotheses = Hypotheses::open(others.next(), others.next())?;
    let mut output = Output::create(ctm)?;
    let mut totals = Totals::default();
    while let Some((key, lattice)) = reader.next()? {
        let in_utterance = |error: Error| error.context(format!("utterance {key}"));
        let Some(words) = hypotheses.words(&key, &lattice, &config).map_err(in_utterance)? else { continue };
        output.write_all(&words.to_ctm(&key, &format, None)?)?;
        totals.add(&key, &words);
    }
    reader.close()?;
    hypotheses.close()?;
    output.close()?;
    totals.tell();
    if totals.done > 0 { Ok(()) } else { Err(Failure::Told) }
}
