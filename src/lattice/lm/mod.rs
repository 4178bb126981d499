//! Language models as rescoring needs them: the cost of one more word after some words.
//!
//! Two kinds. An n-gram model (`ngram`, read from ARPA files by `arpa`) backs off only where
//! it does not list an n-gram, as the model is meant and as Kaldi's
//! `lattice-lmrescore-const-arpa` does. A grammar FST (`grammar`, Kaldi's `G.fst`) has the cost
//! of the best of all its paths, as composition in Kaldi's `lattice-lmrescore` gives: there an
//! epsilon arc to the shorter history may be taken though the longer one lists the word.

mod arpa;
mod grammar;
mod ngram;

use crate::error::Result;
use crate::graph::{FstBytes, Source, VecSource};
use crate::table::{Input, SymbolTable};

use grammar::{Grammar, GrammarWalk};
use ngram::NGram;

/// First byte of an OpenFst file, which no ARPA file begins with.
const FIRST_FST_BYTE: u8 = 0xd6;

/// The backoff symbol of Kaldi's grammars.
const BACKOFF: &str = "#0";

/// A language model over word ids. Costs are negative natural logs.
#[derive(Debug)]
pub struct LanguageModel(Kind);

#[derive(Debug)]
enum Kind {
    NGram(NGram),
    Grammar(Grammar),
}

impl LanguageModel {
    /// Reads an ARPA file or an OpenFst file (`vector` or `const`, standard arcs), whichever it is;
    /// `rxfilename` may be a command. See [`LanguageModel::read`].
    pub fn read_file(rxfilename: &str, symbols: Option<&SymbolTable>) -> Result<LanguageModel> {
        let mut input = Input::open(rxfilename)?;
        let model = LanguageModel::read(&mut input, symbols)?;
        input.close()?;
        Ok(model)
    }

    /// Reads a model of either kind.
    ///
    /// ARPA: log10 probabilities become costs in natural logs. Words get their ids from `symbols`;
    /// n-grams with a word that is not there are left out, and so are those whose beginning is
    /// not listed, and those with `<s>` behind or `</s>` before another word, as Kaldi's reader
    /// does; a warning counts them. Without `symbols` words are ids. `<s>` begins and `</s>` ends
    /// each sentence; words that the model does not list have the probability of `<unk>` (or
    /// `<UNK>`), if it has that, else no path. Missing backoff weights are 0. Anything that is no ARPA
    /// file, an n-gram that comes twice, and more n-grams than the head promises are
    /// [`Error::Format`](crate::Error::Format) with the line. Memory grows with the lines that are there.
    ///
    /// FST: words are its output labels; label 0, and that of `#0` if `symbols` has it, is none.
    /// Refused as by [`LanguageModel::from_graph`].
    pub fn read(input: &mut Input, symbols: Option<&SymbolTable>) -> Result<LanguageModel> {
        if input.peek()? == Some(FIRST_FST_BYTE) {
            let name = input.name().to_string();
            let source = FstBytes::read(input)?.to_source()?;
            let backoff = symbols.and_then(|symbols| symbols.find(BACKOFF));
            return LanguageModel::from_graph(&source, backoff).map_err(|error| error.context(name));
        }
        arpa::read(input, symbols).map(|model| LanguageModel(Kind::NGram(model)))
    }

    /// A grammar FST in memory. Its output labels are the words; label 0 and `backoff` stand for
    /// none. [`Error::Graph`](crate::Error::Graph) for no start state, states out of range, negative
    /// labels, costs of NaN or `-inf`, and a cycle of arcs without a word.
    pub fn from_graph(source: &impl Source, backoff: Option<i32>) -> Result<LanguageModel> {
        Grammar::new(source, backoff).map(|grammar| LanguageModel(Kind::Grammar(grammar)))
    }

    /// The cost of a whole sentence, its end included; `None` where the model does not have it.
    pub fn cost(&self, words: &[i32]) -> Result<Option<f64>> {
        let mut walk = self.walk()?;
        let (mut state, mut cost) = (walk.start(), 0.0);
        for &word in words {
            let Some((step, next)) = walk.step(state, word)? else { return Ok(None) };
            (state, cost) = (next, cost + step);
        }
        let cost = cost + walk.last(state);
        Ok((cost < f64::INFINITY).then_some(cost))
    }

    /// An n-gram model as a grammar FST: a state for each history that matters, arcs of words
    /// (both labels), arcs to the shorter history with `backoff` as input label and output label
    /// 0, and costs of `</s>` as final costs: what Kaldi's `arpa2fst --disambig-symbol` makes, before
    /// it drops redundant states. With a `backoff` of 0 it can be searched, and rescored with, as
    /// a grammar. `None` for a model that was a grammar to begin with.
    pub fn to_graph(&self, backoff: i32) -> Result<Option<VecSource>> {
        match &self.0 {
            Kind::NGram(model) => model.to_graph(backoff).map(Some),
            Kind::Grammar(_) => Ok(None),
        }
    }

    /// Begins to ask for costs.
    pub(super) fn walk(&self) -> Result<Walk<'_>> {
        match &self.0 {
            Kind::NGram(model) => Ok(Walk::NGram(model)),
            Kind::Grammar(grammar) => GrammarWalk::new(grammar).map(Walk::Grammar),
        }
    }
}

/// Asks a model for costs. States stand for what was said so far; they are small numbers.
pub(super) enum Walk<'a> {
    NGram(&'a NGram),
    Grammar(GrammarWalk<'a>),
}

impl Walk<'_> {
    /// The state before the first word.
    pub fn start(&self) -> u32 {
        match self {
            Walk::NGram(model) => model.start(),
            Walk::Grammar(walk) => walk.start(),
        }
    }

    /// The cost of `word` after `state`, and the state after it.
    pub fn step(&mut self, state: u32, word: i32) -> Result<Option<(f64, u32)>> {
        match self {
            Walk::NGram(model) => Ok(model.step(state, word)),
            Walk::Grammar(walk) => walk.step(state, word),
        }
    }

    /// The cost of ending after `state`; `+inf` where that is not possible.
    pub fn last(&self, state: u32) -> f64 {
        match self {
            Walk::NGram(model) => model.last(state),
            Walk::Grammar(walk) => walk.last(state),
        }
    }
}
