//! Decodes matrices of log-likelihoods to lattices, with the command line, files and log
//! lines of Kaldi's program of that name.

mod support;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use koshi::decoder::{BackendChoice, Channel, Decoder, DecoderConfig};
use koshi::graph::{Columns, FstBytes, FstHolder, Graph};
use koshi::lattice::{Path, RawLattice, RawLatticeHolder};
use koshi::search::{Rows, SearchConfig};
use koshi::table::{
    Int32VectorHolder, Matrix, MatrixHolder, RandomAccessReader, Rspecifier, SequentialReader, SymbolTable,
    TableWriter, Transitions, format_general,
};
use koshi::{Error, Result};

use support::exit::{self, Failure};
use support::in_order::in_order;
use support::messages;
use support::options::{Kind, Options};

const USAGE: &str = "\
Decodes matrices of log-likelihoods to lattices. Of the model only the transition model
is used: it says which column belongs to which transition-id of the graph.

Usage: koshi-latgen-faster-mapped [options] <model> (<graph>|<graphs-rspecifier>) <log-likelihoods-rspecifier>
           <lattices-wspecifier> [<words-wspecifier> [<alignments-wspecifier>]]

 e.g.: koshi-latgen-faster-mapped --determinize-lattice=false --acoustic-scale=0.083333 \\
           final.mdl HCLG.fst ark:loglikes.ark 'ark:|gzip -c > lat.1.gz'

With a table of graphs each utterance is decoded with the graph of its key. An utterance
without rows, without surviving tokens or (without --allow-partial) without a final state
counts as failed. The exit status is 0 if at least one utterance was decoded and nothing
that was read or written was broken, else 1.
";

/// The options, with Kaldi's defaults.
struct Config {
    beam: f32,
    lattice_beam: f32,
    max_active: i32,
    min_active: i32,
    beam_delta: f32,
    acoustic_scale: f32,
    allow_partial: bool,
    determinize_lattice: bool,
    word_symbol_table: String,
    num_threads: i32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            beam: 16.0,
            lattice_beam: 10.0,
            max_active: i32::MAX,
            min_active: 200,
            beam_delta: 0.5,
            acoustic_scale: 0.1,
            allow_partial: false,
            determinize_lattice: true,
            word_symbol_table: String::new(),
            num_threads: 1,
        }
    }
}

impl Config {
    fn options(&mut self) -> Options<'_> {
        let mut options = Options::new(USAGE);
        options.float("beam", &mut self.beam, "Tokens further than this from the best one are dropped");
        options.float("lattice-beam", &mut self.lattice_beam, "What lies within this of the best path is kept");
        options.int("max-active", &mut self.max_active, "About how many tokens are followed at most");
        options.int("min-active", &mut self.min_active, "As long as there are no more tokens, all are followed");
        let doc = "Added to the beam of the next frame where max-active or min-active changed that of this one";
        options.float("beam-delta", &mut self.beam_delta, doc);
        options.float("acoustic-scale", &mut self.acoustic_scale, "Multiplies log-likelihoods");
        let doc = "Also give results for utterances that end outside a final state";
        options.flag("allow-partial", &mut self.allow_partial, doc);
        let doc = "Write determinized lattices; not there yet, so that false has to be given";
        options.flag("determinize-lattice", &mut self.determinize_lattice, doc);
        let doc = "With this table of words, print the words of each utterance to standard error";
        options.text("word-symbol-table", &mut self.word_symbol_table, doc);
        options.int("num-threads", &mut self.num_threads, "Threads; results do not depend on it");
        accept_without_effect(&mut options);
        options
    }

    /// The decoder's options; refuses what [`Decoder::new`] refuses.
    fn decoder(&self) -> Result<DecoderConfig> {
        let unsigned = |name: &str, value: i32| {
            u32::try_from(value).map_err(|_| Error::Config(format!("{name} is {value}; it cannot be negative")))
        };
        let search = SearchConfig {
            beam: self.beam,
            lattice_beam: self.lattice_beam,
            max_active: unsigned("max-active", self.max_active)?,
            min_active: unsigned("min-active", self.min_active)?,
            beam_delta: self.beam_delta,
            acoustic_scale: self.acoustic_scale,
            ..SearchConfig::default()
        };
        // Each thread advances a channel of its own, so the decoder needs no threads.
        let num_lanes = unsigned("num-threads", self.num_threads)?;
        let config = DecoderConfig {
            search,
            backend: BackendChoice::Cpu,
            num_lanes,
            num_threads: 1,
            ..DecoderConfig::default()
        };
        if num_lanes == 0 {
            return Err(Error::Config("num-threads is 0; it must be at least 1".into()));
        }
        config.check()?;
        if self.determinize_lattice {
            let why = "determinized lattices cannot be written yet; give --determinize-lattice=false for raw ones";
            return Err(Error::Unsupported(why.into()));
        }
        Ok(config)
    }
}

/// Options of Kaldi's program that have nothing to act on here.
fn accept_without_effect(options: &mut Options<'_>) {
    let determinizer = "Of determinization, which is not there yet";
    options.ignored("delta", Kind::Float, determinizer);
    options.ignored("max-mem", Kind::Int, determinizer);
    options.ignored("minimize", Kind::Bool, determinizer);
    options.ignored("phone-determinize", Kind::Bool, determinizer);
    options.ignored("word-determinize", Kind::Bool, determinizer);
    options.ignored("prune-interval", Kind::Int, "When tokens are pruned does not change what is kept");
    options.ignored("hash-ratio", Kind::Float, "Of Kaldi's hash table");
    options.ignored("memory-pool-links-block-size", Kind::Int, "Of Kaldi's memory pool");
    options.ignored("memory-pool-tokens-block-size", Kind::Int, "Of Kaldi's memory pool");
    options.ignored("num-threads-total", Kind::Int, "Of Kaldi's thread pool");
}

fn main() -> ExitCode {
    exit::run("koshi-latgen-faster-mapped", || {
        let mut config = Config::default();
        let Some(arguments) = config.options().read(4, 6)? else { return Ok(()) };
        run(&config, &arguments)
    })
}

fn run(config: &Config, arguments: &[String]) -> Result<(), Failure> {
    let decoder_config = config.decoder()?;
    let argument = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    let transitions = Arc::new(Transitions::read_file(argument(0))?);
    let mut output = Output::open(config, [argument(3), argument(4), argument(5)])?;
    let graphs = match Rspecifier::parse(argument(1)) {
        Ok(_) => Graphs::Table,
        Err(_) => {
            let graph = Graph::open(argument(1), Columns::Transitions(Arc::clone(&transitions)))?;
            Graphs::One(Decoder::new(Arc::new(graph), decoder_config)?)
        }
    };
    let job = Job { transitions, graphs, decoder_config, allow_partial: config.allow_partial };

    let start = Instant::now();
    let threads = config.num_threads as usize;
    let mut input = Input::open(&job.graphs, argument(1), argument(2))?;
    in_order(threads, || input.next(), || job.worker(), |outcome| output.take(outcome))?;
    input.close()?;
    let totals = output.close()?;
    totals.tell(start.elapsed().as_secs_f64(), threads);
    if totals.done > 0 { Ok(()) } else { Err(Failure::Told) }
}

/// What the threads share.
struct Job {
    transitions: Arc<Transitions>,
    graphs: Graphs,
    decoder_config: DecoderConfig,
    allow_partial: bool,
}

enum Graphs {
    /// One for all utterances.
    One(Arc<Decoder>),
    /// A table that has one for each.
    Table,
}

/// What is read for an utterance.
struct Utterance {
    key: String,
    /// `None` where a table of graphs has an utterance that the scores lack.
    scores: Option<Matrix<f32>>,
    /// Its own graph, from a table.
    graph: Option<FstBytes>,
}

/// Where utterances come from.
enum Input {
    Scores(SequentialReader<MatrixHolder<f32>>),
    Graphs(SequentialReader<FstHolder>, Box<RandomAccessReader<MatrixHolder<f32>>>),
}

impl Input {
    fn open(graphs: &Graphs, graphs_name: &str, scores_name: &str) -> Result<Input> {
        Ok(match graphs {
            Graphs::One(_) => Input::Scores(SequentialReader::open(scores_name)?),
            Graphs::Table => {
                Input::Graphs(SequentialReader::open(graphs_name)?, Box::new(RandomAccessReader::open(scores_name)?))
            }
        })
    }

    fn next(&mut self) -> Result<Option<Utterance>> {
        match self {
            Input::Scores(reader) => {
                let entry = reader.next()?;
                Ok(entry.map(|(key, scores)| Utterance { key, scores: Some(scores), graph: None }))
            }
            Input::Graphs(graphs, scores) => {
                let Some((key, graph)) = graphs.next()? else { return Ok(None) };
                let scores = scores.get(&key)?.cloned();
                Ok(Some(Utterance { key, scores, graph: Some(graph) }))
            }
        }
    }

    fn close(self) -> Result<()> {
        match self {
            Input::Scores(reader) => reader.close(),
            Input::Graphs(graphs, scores) => graphs.close().and(scores.close()),
        }
    }
}

/// What became of an utterance.
struct Outcome {
    key: String,
    /// Warnings on the way.
    warning: Option<String>,
    /// `None` if it failed and the run goes on; an error ends the run.
    result: Result<Option<Decoded>>,
}

struct Decoded {
    path: Path,
    lattice: RawLattice,
    num_frames: u64,
}

impl Job {
    /// Decodes one utterance after another, in one channel as long as the graph is the same.
    fn worker(&self) -> impl FnMut(Utterance) -> Outcome {
        let mut channel = None;
        move |utterance| {
            let Utterance { key, scores, graph } = utterance;
            let mut warning = None;
            let result = self.decode(&key, scores, graph, &mut channel, &mut warning);
            let result = result.map_err(|error| error.context(format!("utterance {key}")));
            Outcome { key, warning, result }
        }
    }

    fn decode(
        &self,
        key: &str,
        scores: Option<Matrix<f32>>,
        graph: Option<FstBytes>,
        kept: &mut Option<Channel>,
        warning: &mut Option<String>,
    ) -> Result<Option<Decoded>> {
        let Some(scores) = scores else {
            *warning = Some(format!("Not decoding utterance {key} because no loglikes available."));
            return Ok(None);
        };
        if scores.rows() == 0 {
            *warning = Some(format!("Zero-length utterance: {key}"));
            return Ok(None);
        }
        self.check_width(&scores)?;
        let channel = match kept {
            Some(channel) if graph.is_none() => channel,
            _ => kept.insert(self.channel(graph)?),
        };
        let rows = Rows::new(scores.data(), scores.rows(), scores.cols(), scores.cols())?;
        match channel.begin().and_then(|()| channel.push(rows)) {
            Ok(()) => {}
            Err(error) if matches!(error.root(), Error::NoTokens { .. }) => {
                *warning = Some(format!("Failed to decode utterance with id {key}: {error}"));
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        channel.finish()?;
        if !channel.reached_final()? {
            if !self.allow_partial {
                let why = "since no final-state reached and --allow-partial=false.";
                *warning = Some(format!("Not producing output for utterance {key} {why}"));
                return Ok(None);
            }
            *warning = Some(format!("Outputting partial output for utterance {key} since no final-state reached"));
        }
        let num_frames = channel.num_frames();
        Ok(Some(Decoded { path: channel.best_path(true)?, lattice: channel.lattice(true)?, num_frames }))
    }

    /// A graph may use fewer columns than the model has; scores of another model are refused all the same.
    fn check_width(&self, scores: &Matrix<f32>) -> Result<()> {
        let (cols, pdfs) = (scores.cols(), self.transitions.num_pdfs());
        if i64::try_from(cols).is_ok_and(|cols| cols < i64::from(pdfs)) {
            return Err(Error::Shape(format!("the matrix has {cols} columns, the model has {pdfs} pdfs")));
        }
        Ok(())
    }

    fn channel(&self, graph: Option<FstBytes>) -> Result<Channel> {
        match (&self.graphs, graph) {
            (_, Some(graph)) => {
                let graph = graph.graph(Columns::Transitions(Arc::clone(&self.transitions)))?;
                Decoder::new(Arc::new(graph), self.decoder_config)?.new_channel()
            }
            (Graphs::One(decoder), None) => decoder.new_channel(),
            (Graphs::Table, None) => Err(Error::Internal("an utterance of a table without its graph".into())),
        }
    }
}

/// The files that are written, and what is counted on the way.
struct Output {
    lattices: TableWriter<RawLatticeHolder>,
    words: Option<TableWriter<Int32VectorHolder>>,
    alignments: Option<TableWriter<Int32VectorHolder>>,
    symbols: Option<SymbolTable>,
    totals: Totals,
}

#[derive(Default)]
struct Totals {
    done: u64,
    failed: u64,
    frames: u64,
    log_likelihood: f64,
}

impl Output {
    /// Opens the lattices, words and alignments; of the last two an empty name stands for none.
    fn open(config: &Config, [lattices, words, alignments]: [&str; 3]) -> Result<Output> {
        let optional = |name: &str| if name.is_empty() { Ok(None) } else { TableWriter::open(name).map(Some) };
        let symbols = match config.word_symbol_table.as_str() {
            "" => None,
            file => Some(SymbolTable::read_file(file)?),
        };
        Ok(Output {
            lattices: TableWriter::open(lattices)?,
            words: optional(words)?,
            alignments: optional(alignments)?,
            symbols,
            totals: Totals::default(),
        })
    }

    /// Writes and tells what became of an utterance.
    fn take(&mut self, outcome: Outcome) -> Result<()> {
        let Outcome { key, warning, result } = outcome;
        if let Some(warning) = warning {
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
            messages::print(&text(symbols, key, &decoded.path.olabels)?);
        }
        self.lattices.write(key, &decoded.lattice)
    }

    /// Only now is it certain that everything was written.
    fn close(self) -> Result<Totals> {
        let others = [self.words, self.alignments].into_iter().flatten().map(TableWriter::close);
        let others: Vec<Result<()>> = others.collect();
        self.lattices.close()?;
        others.into_iter().collect::<Result<()>>()?;
        Ok(self.totals)
    }
}

/// A line of an utterance's key and words.
fn text(symbols: &SymbolTable, key: &str, words: &[i32]) -> Result<String> {
    let mut line = format!("{key} ");
    for &word in words {
        let name = symbols.name(word).ok_or_else(|| Error::Argument(format!("Word-id {word} not in symbol table.")))?;
        line.push_str(&String::from_utf8_lossy(name));
        line.push(' ');
    }
    line.push('\n');
    Ok(line)
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

    fn tell(&self, seconds: f64, threads: usize) {
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
