//! The options of the command.

use koshi::transducer::{SearchKind, TransducerConfig};
use koshi::{Error, Result};

use crate::support::options::Options;

const USAGE: &str = "\
Searches a small transducer (RNN-T) and prints the n-best list as one line of JSON.

Usage: koshi-transducer [options] <model.json>

 e.g.: koshi-transducer --search=tsd --beam=8 --nbest=4 model.json

The model is an object with vocab, dim, frames, blank, embed_last and embed_prev (vocab rows of
dim numbers), joint_w (dim rows of vocab), joint_b (vocab), encoder (frames rows of dim) and
optionally lm_bigram (vocab rows of vocab log-probabilities). After labels ..., b, a the prediction
is p = tanh(embed_last[a] + embed_prev[b]), where the blank stands for what was before the first label;
the scores at frame t are tanh(encoder[t] + p) joint_w + joint_b, and the language model adds
lm_bigram[a] to those of the next label.
";

/// The options as they are given.
pub struct Config {
    search: String,
    beam: i32,
    max_symbols_per_frame: i32,
    max_expansions_per_frame: i32,
    max_sym_exp: i32,
    u_max: i32,
    nstep: i32,
    prefix_alpha: i32,
    lm_weight: f32,
    score_norm: bool,
    nbest: i32,
}

/// Bounds of the library are far above these.
fn int(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

impl Default for Config {
    fn default() -> Config {
        let config = TransducerConfig::default();
        Config {
            search: "default".into(),
            beam: int(config.beam),
            max_symbols_per_frame: int(config.max_symbols_per_frame),
            max_expansions_per_frame: int(config.max_expansions_per_frame),
            max_sym_exp: int(config.max_sym_exp),
            u_max: int(config.u_max),
            nstep: int(config.nstep),
            prefix_alpha: int(config.prefix_alpha),
            lm_weight: config.lm_weight,
            score_norm: config.score_norm,
            nbest: int(config.nbest),
        }
    }
}

impl Config {
    /// What the command line can set.
    pub fn options(&mut self) -> Options<'_> {
        let mut options = Options::new(USAGE);
        options.text("search", &mut self.search, "greedy, default, tsd, alsd or nsc");
        options.int("beam", &mut self.beam, "Hypotheses that are kept; the vocabulary bounds it");
        options.int("max-symbols-per-frame", &mut self.max_symbols_per_frame, "greedy: most labels of a frame");
        let doc = "default: a frame ends after this many expansions for each place of the beam";
        options.int("max-expansions-per-frame", &mut self.max_expansions_per_frame, doc);
        options.int("max-sym-exp", &mut self.max_sym_exp, "tsd: rounds of a frame");
        options.int("u-max", &mut self.u_max, "alsd: most labels of a finished hypothesis");
        options.int("nstep", &mut self.nstep, "nsc: label extensions of a frame");
        options.int("prefix-alpha", &mut self.prefix_alpha, "nsc: labels between a hypothesis and its prefix, at most");
        options.float("lm-weight", &mut self.lm_weight, "Weight of the language model");
        let doc = "Order the list by the score divided by the length with start symbol";
        options.flag("score-norm", &mut self.score_norm, doc);
        options.int("nbest", &mut self.nbest, "Most hypotheses to print");
        options
    }

    /// The options as the search takes them; refuses what they cannot be, before anything is opened.
    pub fn search(&self) -> Result<TransducerConfig> {
        let search = match self.search.as_str() {
            "greedy" => SearchKind::Greedy,
            "default" => SearchKind::Default,
            "tsd" => SearchKind::Tsd,
            "alsd" => SearchKind::Alsd,
            "nsc" => SearchKind::Nsc,
            other => {
                return Err(Error::Config(format!(
                    "search is {other:?}; it must be greedy, default, tsd, alsd or nsc"
                )));
            }
        };
        let unsigned = |name: &str, value: i32| {
            u32::try_from(value).map_err(|_| Error::Config(format!("{name} is {value}; it cannot be negative")))
        };
        let config = TransducerConfig {
            search,
            beam: unsigned("beam", self.beam)?,
            max_symbols_per_frame: unsigned("max-symbols-per-frame", self.max_symbols_per_frame)?,
            max_expansions_per_frame: unsigned("max-expansions-per-frame", self.max_expansions_per_frame)?,
            max_sym_exp: unsigned("max-sym-exp", self.max_sym_exp)?,
            u_max: unsigned("u-max", self.u_max)?,
            nstep: unsigned("nstep", self.nstep)?,
            prefix_alpha: unsigned("prefix-alpha", self.prefix_alpha)?,
            lm_weight: self.lm_weight,
            score_norm: self.score_norm,
            nbest: unsigned("nbest", self.nbest)?,
            ..TransducerConfig::default()
        };
        config.check()?;
        Ok(config)
    }
}
