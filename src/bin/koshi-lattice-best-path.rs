//! Words and alignments of the best paths of lattices, with the command line, files and log lines of
//! Kaldi's `lattice-best-path`.

mod support;

use std::process::ExitCode;

use koshi::lattice::{CompactLatticeHolder, Lattice, LatticeHolder, Path};
use koshi::table::{Int32VectorHolder, SequentialReader, SymbolTable, TableWriter, format_general};
use koshi::{Error, Result};

use support::exit::{self, Failure};
use support::messages;
use support::options::Options;
use support::words;

const USAGE: &str = "\
Writes the words and the transition-ids of the best path of each lattice.

Usage: koshi-lattice-best-path [options] <lattices-rspecifier> [<words-wspecifier> [<alignments-wspecifier>]]

 e.g.: koshi-lattice-best-path --acoustic-scale=0.1 ark:1.lats ark:1.tra ark:1.ali

A lattice without any path counts as failed. The exit status is 0 if there was a path in at least one
and nothing that was read or written was broken, else 1.
";

struct Config {
    acoustic_scale: f32,
    lm_scale: f32,
    word_symbol_table: String,
    write_lattices: String,
}

fn main() -> ExitCode {
    exit::run("koshi-lattice-best-path", || {
        let (word_symbol_table, write_lattices) = (String::new(), String::new());
        let mut config = Config { acoustic_scale: 1.0, lm_scale: 1.0, word_symbol_table, write_lattices };
        let mut options = Options::new(USAGE);
        options.float("acoustic-scale", &mut config.acoustic_scale, "Multiplies acoustic costs");
        let doc = "Multiplies graph costs; only the ratio of the two scales decides on the path";
        options.float("lm-scale", &mut config.lm_scale, doc);
        let doc = "With this table of words, print the words of each utterance to standard error";
        options.text("word-symbol-table", &mut config.word_symbol_table, doc);
        let doc = "Table to which the best path of each utterance is written as a compact lattice";
        options.text("write-lattices", &mut config.write_lattices, doc);
        let Some(arguments) = options.read(1, 3)? else { return Ok(()) };
        run(&config, &arguments)
    })
}

/// What is written; an empty name stands for nothing.
struct Outputs {
    words: Option<TableWriter<Int32VectorHolder>>,
    alignments: Option<TableWriter<Int32VectorHolder>>,
    lattices: Option<TableWriter<CompactLatticeHolder>>,
    symbols: Option<SymbolTable>,
}

impl Outputs {
    fn write(
        &mut self,
        key: &str,
        path: &Path,
        best: impl FnOnce() -> Result<koshi::lattice::CompactLattice>,
    ) -> Result<()> {
        if let Some(words) = &mut self.words {
            words.write(key, &path.olabels)?;
        }
        if let Some(alignments) = &mut self.alignments {
            alignments.write(key, &path.ilabels)?;
        }
        if let Some(symbols) = &self.symbols {
            messages::print(&words::line(symbols, key, &path.olabels)?);
        }
        match &mut self.lattices {
            Some(lattices) => lattices.write(key, &best()?),
            None => Ok(()),
        }
    }

    fn close(self) -> Result<()> {
        let lists = [self.words, self.alignments].into_iter().flatten().map(TableWriter::close);
        let lists: Vec<Result<()>> = lists.collect();
        self.lattices.map_or(Ok(()), TableWriter::close)?;
        lists.into_iter().collect()
    }
}

/// Counts and sums of a run.
#[derive(Default)]
struct Totals {
    done: u64,
    failed: u64,
    frames: u64,
    graph: f64,
    acoustic: f64,
}

fn run(config: &Config, arguments: &[String]) -> Result<(), Failure> {
    let argument = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    if !config.write_lattices.is_empty() && (config.acoustic_scale == 0.0 || config.lm_scale == 0.0) {
        let why = "with --write-lattices neither scale can be 0 (use a very small one instead)";
        return Err(Error::Config(why.into()).into());
    }
    let mut reader = SequentialReader::<LatticeHolder>::open(argument(0))?;
    let lists = |name: &str| if name.is_empty() { Ok(None) } else { TableWriter::open(name).map(Some) };
    let mut outputs = Outputs {
        words: lists(argument(1))?,
        alignments: lists(argument(2))?,
        lattices: match config.write_lattices.as_str() {
            "" => None,
            name => Some(TableWriter::open(name)?),
        },
        symbols: words::table(&config.word_symbol_table)?,
    };
    let mut totals = Totals::default();
    while let Some((key, lattice)) = reader.next()? {
        one(config, &key, &lattice, &mut outputs, &mut totals)
            .map_err(|error| error.context(format!("lattice {key}")))?;
    }
    reader.close()?;
    outputs.close()?;
    totals.tell();
    if totals.done > 0 { Ok(()) } else { Err(Failure::Told) }
}

fn one(config: &Config, key: &str, lattice: &Lattice, outputs: &mut Outputs, totals: &mut Totals) -> Result<()> {
    let route = lattice.best_route(config.lm_scale, config.acoustic_scale)?;
    if route.last.is_none() {
        log::warn!(target: "main", "Best-path failed for key {key}");
        totals.failed += 1;
        return Ok(());
    }
    let path = lattice.path_along(&route, config.acoustic_scale)?;
    let graph = f64::from(config.lm_scale) * path.graph_cost;
    let acoustic = f64::from(config.acoustic_scale) * path.acoustic_cost;
    let sum = short(graph + acoustic);
    log::info!(target: "main", "For utterance {key}, best cost {} + {} = {sum}", short(graph), short(acoustic));
    outputs.write(key, &path, || lattice.linear_along(&route))?;
    totals.done += 1;
    totals.frames += path.ilabels.len() as u64;
    totals.graph += graph;
    totals.acoustic += acoustic;
    Ok(())
}

impl Totals {
    fn tell(&self) {
        let Totals { done, failed, frames, graph, acoustic } = self;
        let a_frame = |cost: f64| short(cost / *frames as f64);
        let (sum, graph, acoustic) = (a_frame(graph + acoustic), a_frame(*graph), a_frame(*acoustic));
        let parts = format!("{sum} = {graph} [graph] + {acoustic} [acoustic]");
        log::info!(target: "main", "Overall score per frame is {parts} over {frames} frames.");
        log::info!(target: "main", "Done {done} lattices, failed for {failed}");
    }
}

/// A number as Kaldi's log has it.
fn short(number: f64) -> String {
    format_general(number, 6)
}
