//! Copies training examples, some or all of them, whole or cut, to one or more tables: the command line, files and log
//! lines of Kaldi's `nnet-copy-egs`.

mod egs;
mod support;

use std::process::ExitCode;

use koshi::Error;
use koshi::egs::{Cut, NnetExample, NnetExampleHolder};
use koshi::table::SequentialReader;

use egs::{Choice, Outputs};
use support::exit::{self, Failure};
use support::options::Options;

const USAGE: &str = "\
Copies examples for neural network training, possibly changing between binary and text.
With several outputs, examples are written to them in turn. Keys stay.

Usage: koshi-nnet-copy-egs [options] <egs-rspecifier> <egs-wspecifier1> [<egs-wspecifier2> ...]

 e.g.: koshi-nnet-copy-egs ark:train.egs ark,t:text.egs
   or: koshi-nnet-copy-egs --frame=random --left-context=4 ark:train.egs ark:1.egs ark:2.egs

The exit status is 1 when nothing was written, or when something that was read or written
was broken.
";

#[derive(Default)]
struct Config {
    copying: egs::Config,
    frame: String,
    cut: Cut,
}

/// Which labelled frame is kept.
#[derive(Clone, Copy)]
enum Frame {
    All,
    One(i32),
    Random,
}

fn main() -> ExitCode {
    exit::run("koshi-nnet-copy-egs", || {
        let mut config = Config::default();
        let Some(arguments) = config.options().read(2, usize::MAX)? else { return Ok(()) };
        run(&config, &arguments)
    })
}

impl Config {
    fn options(&mut self) -> Options<'_> {
        let mut options = Options::new(USAGE);
        self.copying.register(&mut options);
        let doc = "Keep a single labelled frame: its number, from 0, or 'random'; examples without it are left out";
        options.text("frame", &mut self.frame, doc);
        options.int("left-context", &mut self.cut.left_context, "Keep so many frames of left context; -1 for all");
        options.int("right-context", &mut self.cut.right_context, "Keep so many frames of right context; -1 for all");
        options
    }

    fn frame(&self) -> Result<Frame, Failure> {
        match self.frame.as_str() {
            "" => Ok(Frame::All),
            "random" => Ok(Frame::Random),
            number => match number.parse() {
                Ok(number @ 0..) => Ok(Frame::One(number)),
                _ => {
                    let message = format!("frame is {number:?}; it must be a number from 0 on, or random");
                    Err(Error::Config(message).into())
                }
            },
        }
    }
}

fn run(config: &Config, arguments: &[String]) -> Result<(), Failure> {
    let mut choice = config.copying.choice()?;
    let mut scissors = Scissors { frame: config.frame()?, cut: config.cut, told_left: false, told_right: false };
    for (name, context) in [("left-context", config.cut.left_context), ("right-context", config.cut.right_context)] {
        if context < -1 {
            return Err(Error::Config(format!("{name} is {context}; it must be 0 or more, or -1 for all")).into());
        }
    }
    let (rspecifier, wspecifiers) = arguments.split_first().ok_or(Failure::Told)?;
    let mut reader = SequentialReader::<NnetExampleHolder>::open(rspecifier)?;
    let mut outputs = Outputs::<NnetExampleHolder>::open(wspecifiers)?;
    let (mut read, mut written) = (0u64, 0u64);
    while let Some((key, example)) = reader.next()? {
        read += 1;
        for _ in 0..choice.copies() {
            let output = choice.output(written, outputs.len());
            if scissors.cut_nothing() {
                outputs.write(output, &key, &example)?;
            } else {
                let cut = scissors.cut(&example, &mut choice);
                let Some(cut) = cut.map_err(|error| error.context(format!("example {key}")))? else { continue };
                outputs.write(output, &key, &cut)?;
            }
            written += 1;
        }
    }
    reader.close()?;
    outputs.close()?;
    log::info!(target: "main", "Read {read} neural-network training examples, wrote {written}");
    if written > 0 { Ok(()) } else { Err(Failure::Told) }
}

/// Cuts examples, and says once what could not be had.
struct Scissors {
    frame: Frame,
    cut: Cut,
    told_left: bool,
    told_right: bool,
}

impl Scissors {
    fn cut_nothing(&self) -> bool {
        matches!(self.frame, Frame::All) && self.cut.left_context == -1 && self.cut.right_context == -1
    }

    /// `None` for an example that does not have the frame: the last one of an utterance may be short.
    fn cut(&mut self, example: &NnetExample, choice: &mut Choice) -> koshi::Result<Option<NnetExample>> {
        let there = example.labels.num_frames();
        let cut = match self.frame {
            Frame::All => self.cut,
            Frame::Random if there == 0 => return Ok(None),
            // No file has more frames than an int32 counts.
            Frame::Random => Cut { start_frame: choice.random.below(there) as i32, num_frames: 1, ..self.cut },
            Frame::One(frame) if frame as usize >= there => return Ok(None),
            Frame::One(frame) => Cut { start_frame: frame, num_frames: 1, ..self.cut },
        };
        let extracted = example.extract(cut)?;
        let sides = [
            (extracted.less_left, &mut self.told_left, "left", cut.left_context, i64::from(example.left_context)),
            (extracted.less_right, &mut self.told_right, "right", cut.right_context, example.right_context()),
        ];
        for (less, told, side, wanted, there) in sides {
            if less && !std::mem::replace(told, true) {
                log::warn!(
                    target: "NnetExample",
                    "Requested {side}-context {wanted} exceeds input {side}-context {there}, will not warn again."
                );
            }
        }
        Ok(Some(extracted.example))
    }
}
