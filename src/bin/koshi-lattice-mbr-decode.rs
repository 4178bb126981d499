//! Words of least expected error of lattices, with the command line, files and log lines of Kaldi's
//! `lattice-mbr-decode`.

mod support;
mod words;

use std::process::ExitCode;

use koshi::lattice::{CompactLatticeHolder, Words, WordsConfig};
use koshi::table::{
    BasicHolder, Holder, Int32VectorHolder, SequentialReader, SymbolTable, TableWriter, format_general,
};
use koshi::{Error, Result};

use support::costs::Scales;
use support::exit::{self, Failure};
use support::messages;
use support::options::Options;
use words::sausage::SausageHolder;
use words::times::TimesHolder;

const USAGE: &str = "\
Writes the words of least expected error of each lattice (minimum Bayes risk); and where tables for them
are given, the expected number of errors, the confusion network (bins of words with their posteriors), and
start and end of each bin in frames. An empty name stands for a table that is not wanted. Times only mean
something in lattices that are aligned with the words (koshi-lattice-align-words).

Usage: koshi-lattice-mbr-decode [options] <lattices-rspecifier> <words-wspecifier> [<risks-wspecifier>
         [<bins-wspecifier> [<times-wspecifier>]]]

 e.g.: koshi-lattice-mbr-decode --acoustic-scale=0.1 ark:1.lats ark,t:1.tra

The exit status is 0 if there was at least one lattice and nothing that was read or written was broken,
else 1.
";

#[derive(Default)]
struct Config {
    scales: Scales,
    word_symbol_table: String,
    one_best_times: bool,
}

fn main() -> ExitCode {
    exit::run("koshi-lattice-mbr-decode", || {
        let mut config = Config::default();
        let mut options = Options::new(USAGE);
        config.scales.add_to(&mut options);
        let doc = "With this table of words, print the words of each utterance to standard error";
        options.text("word-symbol-table", &mut config.word_symbol_table, doc);
        options.flag("one-best-times", &mut config.one_best_times, "Write the times of the words, not of the bins");
        let Some(arguments) = options.read(2, 5)? else { return Ok(()) };
        run(&config, &arguments)
    })
}

/// What is written; an empty name stands for nothing.
struct Outputs {
    words: Option<TableWriter<Int32VectorHolder>>,
    risks: Option<TableWriter<BasicHolder<f32>>>,
    bins: Option<TableWriter<SausageHolder>>,
    times: Option<TableWriter<TimesHolder>>,
    symbols: Option<SymbolTable>,
}

fn table<H: Holder>(name: Option<&String>) -> Result<Option<TableWriter<H>>> {
    name.filter(|name| !name.is_empty()).map(|name| TableWriter::open(name)).transpose()
}

impl Outputs {
    fn write(&mut self, key: &str, words: Words, one_best_times: bool) -> Result<()> {
        let labels: Vec<i32> = words.labels().collect();
        if let Some(symbols) = &self.symbols {
            messages::print(&support::words::line(symbols, key, &labels)?);
        }
        if let Some(table) = &mut self.words {
            table.write(key, &labels)?;
        }
        if let Some(table) = &mut self.risks {
            table.write(key, &(words.expected_errors as f32))?;
        }
        if let Some(table) = &mut self.times {
            let times = match one_best_times {
                true => words.words.iter().map(|word| (word.start, word.start + word.frames)).collect(),
                false => words.bins.iter().map(|bin| (bin.start, bin.start + bin.frames)).collect(),
            };
            table.write(key, &times)?;
        }
        match &mut self.bins {
            Some(table) => table.write(key, &words),
            None => Ok(()),
        }
    }

    fn close(self) -> Result<()> {
        let closed = [
            self.words.map_or(Ok(()), TableWriter::close),
            self.risks.map_or(Ok(()), TableWriter::close),
            self.bins.map_or(Ok(()), TableWriter::close),
            self.times.map_or(Ok(()), TableWriter::close),
        ];
        closed.into_iter().collect()
    }
}

fn run(config: &Config, arguments: &[String]) -> Result<(), Failure> {
    let decoding = WordsConfig {
        acoustic_scale: config.scales.acoustic()?,
        graph_scale: config.scales.graph,
        ..WordsConfig::default()
    };
    let Some(lattices) = arguments.first() else { return Err(Failure::Usage("arguments are missing".into())) };
    let mut reader = SequentialReader::<CompactLatticeHolder>::open(lattices)?;
    let mut outputs = Outputs {
        words: table(arguments.get(1))?,
        risks: table(arguments.get(2))?,
        bins: table(arguments.get(3))?,
        times: table(arguments.get(4))?,
        symbols: support::words::table(&config.word_symbol_table)?,
    };
    let (mut done, mut num_words, mut risk) = (0u64, 0u64, 0.0);
    while let Some((key, lattice)) = reader.next()? {
        let in_lattice = |error: Error| error.context(format!("lattice {key}"));
        let words = lattice.words(&decoding).map_err(in_lattice)?;
        done += 1;
        num_words += words.words.len() as u64;
        risk += words.expected_errors;
        outputs.write(&key, words, config.one_best_times).map_err(in_lattice)?;
    }
    reader.close()?;
    outputs.close()?;
    let mean = |count: u64| if count == 0 { "nan".to_string() } else { format_general(risk / count as f64, 6) };
    log::info!(target: "main", "Done {done} lattices.");
    let (each, word) = (mean(done), mean(num_words));
    log::info!(target: "main", "Average Bayes Risk per sentence is {each} and per word, {word}");
    if done > 0 { Ok(()) } else { Err(Failure::Told) }
}
