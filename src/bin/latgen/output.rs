//! What is written, and what is told.

use koshi::lattice::{CompactLatticeHolder, Lattice, RawLatticeHolder};
use koshi::table::{Int32VectorHolder, SymbolTable, TableWriter, format_general};
use koshi::{Error, Result};

use super::config::Config;
use super::job::{Decoded, Outcome};
use crate::support::{messages, words};

/// The files that are written, and what is counted on the way.
pub struct Output {
    lattices: Lattices,
    words: Option<TableWriter<Int32VectorHolder>>,
    alignments: Option<TableWriter<Int32VectorHolder>>,
    symbols: Option<SymbolTable>,
    totals: Totals,
}

/// Lattices of one form.
enum Lattices {
    Raw(TableWriter<RawLatticeHolder>),
    Compact(TableWriter<CompactLatticeHolder>),
}

impl Lattices {
    fn open(compact: bool, name: &str) -> Result<Lattices> {
        Ok(match compact {
            true => Lattices::Compact(TableWriter::open(name)?),
            false => Lattices::Raw(TableWriter::open(name)?),
        })
    }

    fn write(&mut self, key: &str, lattice: &Lattice) -> Result<()> {
        match (self, lattice) {
            (Lattices::Raw(writer), Lattice::Raw(lattice)) => writer.write(key, lattice),
            (Lattices::Compact(writer), Lattice::Compact(lattice)) => writer.write(key, lattice),
            _ => Err(Error::Internal("a lattice of the other form".into())),
        }
    }

    fn close(self) -> Result<()> {
        match self {
            Lattices::Raw(writer) => writer.close(),
            Lattices::Compact(writer) => writer.close(),
        }
    }
}

/// Counts and sums of a run.
#[derive(Default)]
pub struct Totals {
    /// Utterances decoded.
    pub done: u64,
    failed: u64,
    frames: u64,
    log_likelihood: f64,
}

impl Output {
    /// Opens the lattices, `compact` ones or raw ones, words and alignments; of the last two an
    /// empty name stands for none.
    pub fn open(config: &Config, compact: bool, [lattices, words, alignments]: [&str; 3]) -> Result<Output> {
        let optional = |name: &str| if name.is_empty() { Ok(None) } else { TableWriter::open(name).map(Some) };
        let symbols = words::table(&config.word_symbol_table)?;
        Ok(Output {
            lattices: Lattices::open(compact, lattices)?,
            words: optional(words)?,
            alignments: optional(alignments)?,
            symbols,
            totals: Totals::default(),
        })
    }

    /// Writes and tells what became of an utterance.
    pub fn take(&mut self, outcome: Outcome) -> Result<()> {
        let Outcome { key, warnings, result } = outcome;
        for warning in warnings {
            log::warn!(target: "decode", "{warning}");
        }
        match result? {
            None => self.totals.failed += 1,
            Some(decoded) => {
                let written = self.write(&key, &decoded);
                written.map_err(|error| error.context(format!("writing the results of utterance {key}")))?;
                self.totals.add(&key, &decoded);
            }
        }
        Ok(())
    }

    fn write(&mut self, key: &str, decoded: &Decoded) -> Result<()> {
        if let Some(words) = &mut self.words {
            words.write(key, &decoded.path.olabels)?;
        }
        if let Some(alignments) = &mut self.alignments {
            alignments.write(key, &decoded.path.ilabels)?;
        }
        if let Some(symbols) = &self.symbols {
            messages::print(&words::line(symbols, key, &decoded.path.olabels)?);
        }
        self.lattices.write(key, &decoded.lattice)
    }

    /// Only now is it certain that everything was written.
    pub fn close(self) -> Result<Totals> {
        let others = [self.words, self.alignments].into_iter().flatten().map(TableWriter::close);
        let others: Vec<Result<()>> = others.collect();
        self.lattices.close()?;
        others.into_iter().collect::<Result<()>>()?;
        Ok(self.totals)
    }
}

impl Totals {
    fn add(&mut self, key: &str, decoded: &Decoded) {
        let (path, frames) = (&decoded.path, decoded.num_frames);
        let log_likelihood = -path.total_cost();
        self.done += 1;
        self.frames += frames;
        self.log_likelihood += log_likelihood;
        let per_frame = ratio(log_likelihood, frames);
        log::info!(target: "decode", "Log-like per frame for utterance {key} is {per_frame} over {frames} frames.");
        let acoustic_cost = f64::from(path.acoustic_scale) * path.acoustic_cost;
        let (graph, acoustic) = (short(path.graph_cost), short(acoustic_cost));
        log::trace!(target: "decode", "Cost for utterance {key} is {graph} + {acoustic}");
    }

    /// Tells the summary of the run, which took `seconds` on `threads` threads.
    pub fn tell(&self, seconds: f64, threads: usize) {
        let Totals { done, failed, frames, log_likelihood } = self;
        if threads > 1 {
            log::info!(target: "main", "Decoded with {threads} threads.");
        }
        let factor = ratio(seconds * 100.0, *frames);
        let taken = short(seconds);
        log::info!(target: "main", "Time taken {taken}s: real-time factor assuming 100 frames/sec is {factor}");
        log::info!(target: "main", "Done {done} utterances, failed for {failed}");
        let per_frame = ratio(*log_likelihood, *frames);
        log::info!(target: "main", "Overall log-likelihood per frame is {per_frame} over {frames} frames.");
    }
}

/// A figure for each frame; without frames `inf` or `nan`, never with a sign.
fn ratio(sum: f64, frames: u64) -> String {
    match frames {
        0 if sum == 0.0 => "nan".to_string(),
        0 => "inf".to_string(),
        _ => short(sum / frames as f64),
    }
}

/// A number as Kaldi's log has it.
fn short(number: f64) -> String {
    format_general(number, 6)
}
