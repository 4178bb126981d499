//! Copies examples for discriminative training, some or all of them, to one or more tables: the command line, files and
//! log lines of Kaldi's `nnet-copy-egs-discriminative`.

mod egs;
mod support;

use std::process::ExitCode;

use koshi::egs::DiscriminativeNnetExampleHolder;
use koshi::table::SequentialReader;

use egs::{Config, Outputs};
use support::exit::{self, Failure};
use support::options::Options;

const USAGE: &str = "\
Copies examples for discriminative neural network training, possibly changing between
binary and text. With several outputs, examples are written to them in turn. The keys of
the copies are new: 0, 1, 2 and so on, in the order of writing.

Usage: koshi-nnet-copy-egs-discriminative [options] <egs-rspecifier> <egs-wspecifier1> [<egs-wspecifier2> ...]

 e.g.: koshi-nnet-copy-egs-discriminative ark:train.degs ark,t:text.degs
   or: koshi-nnet-copy-egs-discriminative ark:train.degs ark:1.degs ark:2.degs

The exit status is 1 when nothing was written, or when something that was read or written
was broken.
";

fn main() -> ExitCode {
    exit::run("koshi-nnet-copy-egs-discriminative", || {
        let mut config = Config::default();
        let mut options = Options::new(USAGE);
        config.register(&mut options);
        let Some(arguments) = options.read(2, usize::MAX)? else { return Ok(()) };
        run(&config, &arguments)
    })
}

fn run(config: &Config, arguments: &[String]) -> Result<(), Failure> {
    let mut choice = config.choice()?;
    let (rspecifier, wspecifiers) = arguments.split_first().ok_or(Failure::Told)?;
    let mut reader = SequentialReader::<DiscriminativeNnetExampleHolder>::open(rspecifier)?;
    let mut outputs = Outputs::<DiscriminativeNnetExampleHolder>::open(wspecifiers)?;
    let (mut read, mut written, mut frames) = (0u64, 0u64, 0u64);
    while let Some((_, example)) = reader.next()? {
        read += 1;
        for _ in 0..choice.copies() {
            let output = choice.output(written, outputs.len());
            outputs.write(output, &written.to_string(), &example)?;
            written += 1;
            frames += example.num_ali.len() as u64;
        }
    }
    reader.close()?;
    outputs.close()?;
    log::info!(
        target: "main",
        "Read {read} discriminative neural-network training examples, wrote {written}, consisting of {frames} frames."
    );
    if written > 0 { Ok(()) } else { Err(Failure::Told) }
}
