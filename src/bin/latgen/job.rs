//! What is done with an utterance, on whichever thread.

use std::sync::Arc;

use koshi::decoder::{Decoder, DecoderConfig, SharedChannel};
use koshi::graph::{Columns, FstBytes};
use koshi::lattice::{DeterminizeConfig, Determinizer, Lattice, Path, RawLattice};
use koshi::search::Rows;
use koshi::table::{Matrix, Transitions};
use koshi::{Error, Result};

use super::input::Utterance;

/// What the threads share.
pub struct Job {
    /// Says which column an input label reads; without it label i reads column i - 1.
    pub transitions: Option<Arc<Transitions>>,
    /// What is searched.
    pub graphs: Graphs,
    /// Options of the search.
    pub decoder_config: DecoderConfig,
    /// Whether utterances that end outside a final state give results.
    pub allow_partial: bool,
    /// Options of determinization; `None` where lattices stay as they are.
    pub determinize: Option<DeterminizeConfig>,
}

/// What is searched.
pub enum Graphs {
    /// One for all utterances.
    One(Arc<Decoder>),
    /// A table that has one for each.
    Table,
}

/// What became of an utterance.
pub struct Outcome {
    pub key: String,
    /// Warnings on the way.
    pub warnings: Vec<String>,
    /// `None` if it failed and the run goes on; an error ends the run.
    pub result: Result<Option<Decoded>>,
}

/// The results of an utterance.
pub struct Decoded {
    /// The best path.
    pub path: Path,
    /// The lattice.
    pub lattice: Lattice,
    /// Frames of the utterance.
    pub num_frames: u64,
}

impl Job {
    /// Decodes one utterance after another, in one channel as long as the graph is the same.
    pub fn worker(&self) -> impl FnMut(Utterance) -> Outcome {
        let mut channel = None;
        move |utterance| {
            let Utterance { key, scores, graph } = utterance;
            let mut warnings = Vec::new();
            let result = self.decode(&key, scores, graph, &mut channel, &mut warnings);
            let result = result.map_err(|error| error.context(format!("utterance {key}")));
            Outcome { key, warnings, result }
        }
    }

    /// Determinizes the lattices of one utterance after another, in the same memory.
    pub fn determinizer(&self) -> impl FnMut(Outcome) -> Outcome {
        let mut work = Determinizer::default();
        move |outcome| {
            let Outcome { key, mut warnings, result } = outcome;
            let result = result.and_then(|decoded| {
                let determinized = decoded.map(|decoded| self.determinize(&key, decoded, &mut work, &mut warnings));
                determinized.transpose().map_err(|error| error.context(format!("utterance {key}")))
            });
            Outcome { key, warnings, result }
        }
    }

    fn determinize(
        &self,
        key: &str,
        decoded: Decoded,
        work: &mut Determinizer,
        warnings: &mut Vec<String>,
    ) -> Result<Decoded> {
        let (Some(config), Lattice::Raw(lattice)) = (&self.determinize, &decoded.lattice) else { return Ok(decoded) };
        let found = work.determinize(lattice, self.transitions.as_deref(), config)?;
        if found.effective_beam < config.beam {
            let beams = format!("{} instead of {}", found.effective_beam, config.beam);
            warnings.push(format!("Determinization finished earlier than the beam for utterance {key}: {beams}"));
        }
        Ok(Decoded { lattice: found.lattice.into(), ..decoded })
    }

    fn decode(
        &self,
        key: &str,
        scores: Option<Matrix<f32>>,
        graph: Option<FstBytes>,
        kept: &mut Option<Arc<SharedChannel>>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Decoded>> {
        let Some(scores) = scores else {
            warnings.push(format!("Not decoding utterance {key} because no loglikes available."));
            return Ok(None);
        };
        if scores.rows() == 0 {
            warnings.push(format!("Zero-length utterance: {key}"));
            return Ok(None);
        }
        self.check_width(&scores)?;
        let channel = match kept {
            Some(channel) if graph.is_none() => channel,
            _ => kept.insert(self.channel(graph)?),
        };
        let rows = Rows::new(scores.data(), scores.rows(), scores.cols(), scores.cols())?;
        match self.search(channel, rows) {
            Ok(()) => {}
            Err(error) if matches!(error.root(), Error::NoTokens { .. }) => {
                warnings.push(format!("Failed to decode utterance with id {key}: {error}"));
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        let mut channel = channel.write()?;
        if !channel.reached_final()? {
            if !self.allow_partial {
                let why = "since no final-state reached and --allow-partial=false.";
                warnings.push(format!("Not producing output for utterance {key} {why}"));
                return Ok(None);
            }
            warnings.push(format!("Outputting partial output for utterance {key} since no final-state reached"));
        }
        let num_frames = channel.num_frames();
        let lattice: RawLattice = channel.lattice(true)?;
        Ok(Some(Decoded { path: channel.best_path(true)?, lattice: lattice.into(), num_frames }))
    }

    /// A graph may use fewer columns than the model has; scores of another model are refused all the same.
    fn check_width(&self, scores: &Matrix<f32>) -> Result<()> {
        let (cols, pdfs) = (scores.cols(), self.transitions.as_ref().map_or(0, |model| model.num_pdfs()));
        if i64::try_from(cols).is_ok_and(|cols| cols < i64::from(pdfs)) {
            return Err(Error::Shape(format!("the matrix has {cols} columns, the model has {pdfs} pdfs")));
        }
        Ok(())
    }

    fn channel(&self, graph: Option<FstBytes>) -> Result<Arc<SharedChannel>> {
        let channel = match (&self.graphs, graph) {
            (_, Some(graph)) => {
                let graph = graph.graph(self.transitions.clone().map_or(Columns::Labels, Columns::Transitions))?;
                Decoder::new(Arc::new(graph), self.decoder_config)?.new_channel()?
            }
            (Graphs::One(decoder), None) => decoder.new_channel()?,
            (Graphs::Table, None) => return Err(Error::Internal("an utterance of a table without its graph".into())),
        };
        SharedChannel::new(channel)
    }

    /// Searches an utterance: on this thread, or on a GPU together with those of the other threads.
    fn search(&self, channel: &SharedChannel, rows: Rows<'_>) -> Result<()> {
        channel.begin()?;
        if channel.read()?.decoder().backend_name() == "cuda" {
            channel.submit(rows)?;
            channel.finish()?;
            return channel.wait(None).map(drop);
        }
        let mut channel = channel.write_unqueued()?;
        channel.push(rows)?;
        channel.finish()
    }
}
