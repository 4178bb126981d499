//! The options of the command.

use koshi::decoder::{BackendChoice, DecoderConfig};
use koshi::lattice::DeterminizeConfig;
use koshi::search::SearchConfig;
use koshi::{Error, Result};

use crate::support::options::{Kind, Options};

const USAGE: &str = "\
Decodes matrices of log-likelihoods to lattices. Of the model only the transition model
is used: it says which column belongs to which transition-id of the graph.

Usage: koshi-latgen-faster-mapped [options] <model> (<graph>|<graphs-rspecifier>) <log-likelihoods-rspecifier>
           <lattices-wspecifier> [<words-wspecifier> [<alignments-wspecifier>]]
   or: koshi-latgen-faster-mapped --labels-are-columns [options] (<graph>|<graphs-rspecifier>) ...

 e.g.: koshi-latgen-faster-mapped --acoustic-scale=0.083333 final.mdl HCLG.fst ark:loglikes.ark \\
           'ark:|gzip -c > lat.1.gz'

Lattices are determinized: compact ones with one path for each word sequence, on another
thread while the next utterance is searched.

With --labels-are-columns there is no model, as with the graph of a CTC network: input label i of the
graph reads column i - 1.

With a table of graphs each utterance is decoded with the graph of its key. An utterance
without rows, without surviving tokens or (without --allow-partial) without a final state
counts as failed. The exit status is 0 if at least one utterance was decoded and nothing
that was read or written was broken, else 1.
";

/// The options, with Kaldi's defaults.
pub struct Config {
    beam: f32,
    lattice_beam: f32,
    max_active: i32,
    min_active: i32,
    beam_delta: f32,
    acoustic_scale: f32,
    /// Whether utterances that end outside a final state give results.
    pub allow_partial: bool,
    determinize_lattice: bool,
    delta: f32,
    max_mem: i32,
    phone_determinize: bool,
    word_determinize: bool,
    minimize: bool,
    /// File of the words' names, or nothing.
    pub word_symbol_table: String,
    /// Threads, at least 1 once [`Config::decoder`] has succeeded.
    pub num_threads: i32,
    /// Whether there is no model.
    pub labels_are_columns: bool,
    use_gpu: String,
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
            delta: 1.0 / 1024.0,
            max_mem: 50_000_000,
            phone_determinize: true,
            word_determinize: true,
            minimize: false,
            word_symbol_table: String::new(),
            num_threads: 1,
            labels_are_columns: false,
            use_gpu: "no".to_string(),
        }
    }
}

impl Config {
    /// What the command line can set.
    pub fn options(&mut self) -> Options<'_> {
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
        let doc = "Write determinized (compact) lattices; else state-level ones";
        options.flag("determinize-lattice", &mut self.determinize_lattice, doc);
        options.float("delta", &mut self.delta, "Costs within this count as equal in determinization");
        let doc = "Bytes that determinization may hold before it makes do with a smaller beam; 0 or less for no cap";
        options.int("max-mem", &mut self.max_mem, doc);
        let doc = "Determinize on words and phones first";
        options.flag("phone-determinize", &mut self.phone_determinize, doc);
        options.flag("word-determinize", &mut self.word_determinize, "Determinize on words");
        options.flag("minimize", &mut self.minimize, "Push and minimize what was determinized");
        let doc = "With this table of words, print the words of each utterance to standard error";
        options.text("word-symbol-table", &mut self.word_symbol_table, doc);
        let doc = "Threads, or on a GPU how many utterances are searched together; results do not depend on it";
        options.int("num-threads", &mut self.num_threads, doc);
        let doc = "Without a model: input label i of the graph reads column i - 1";
        options.flag("labels-are-columns", &mut self.labels_are_columns, doc);
        options.text("use-gpu", &mut self.use_gpu, "Search on a GPU: yes, no, or optional (where there is one)");
        accept_without_effect(&mut options);
        options
    }

    /// The decoder's options; refuses what they cannot be, before anything is opened.
    pub fn decoder(&self) -> Result<DecoderConfig> {
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
        let num_threads = unsigned("num-threads", self.num_threads)?;
        let most = DecoderConfig::MOST_THREADS;
        if !(1..=most).contains(&num_threads) {
            return Err(Error::Config(format!("num-threads is {num_threads}; it must be 1 to {most}")));
        }
        let backend = match self.use_gpu.as_str() {
            "yes" => BackendChoice::Cuda,
            "no" => BackendChoice::Cpu,
            "optional" => BackendChoice::Auto,
            other => return Err(Error::Config(format!("use-gpu is {other:?}; it can be yes, no or optional"))),
        };
        let default = DecoderConfig::default();
        // On the CPU each thread advances a channel of its own, so the decoder needs lanes and no threads.
        let on_cpu = backend == BackendChoice::Cpu;
        let config = DecoderConfig {
            search,
            backend,
            num_lanes: num_threads,
            num_threads: if on_cpu { 1 } else { default.num_threads },
            queue_frames: u32::MAX,
            ..default
        };
        config.check()?;
        Ok(config)
    }

    /// The options of determinization; `None` where lattices are not determinized.
    pub fn determinizer(&self) -> Result<Option<DeterminizeConfig>> {
        if !self.determinize_lattice {
            return Ok(None);
        }
        let config = DeterminizeConfig {
            beam: self.lattice_beam,
            acoustic_scale: self.acoustic_scale,
            phone_determinize: self.phone_determinize,
            word_determinize: self.word_determinize,
            minimize: self.minimize,
            delta: self.delta,
            max_mem: u64::try_from(self.max_mem).unwrap_or(0),
        };
        config.check()?;
        Ok(Some(config))
    }
}

/// Options of Kaldi's program that have nothing to act on here.
fn accept_without_effect(options: &mut Options<'_>) {
    options.ignored("prune-interval", Kind::Int, "When tokens are pruned does not change what is kept");
    options.ignored("hash-ratio", Kind::Float, "Of Kaldi's hash table");
    options.ignored("memory-pool-links-block-size", Kind::Int, "Of Kaldi's memory pool");
    options.ignored("memory-pool-tokens-block-size", Kind::Int, "Of Kaldi's memory pool");
    options.ignored("num-threads-total", Kind::Int, "Of Kaldi's thread pool");
}
