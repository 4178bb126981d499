//! What is done with an utterance, on whichever thread.

use std::sync::Arc;

use koshi::decoder::{Channel, Decoder, DecoderConfig};
use koshi::graph::{Columns, FstBytes};
use koshi::lattice::{Path, RawLattice};
use koshi::search::Rows;
use koshi::table::{Matrix, Transitions};
use koshi::{Error, Result};

use super::input::Utterance;

/// What the threads share.
pub struct Job {
    /// Says which column an input label reads.
    pub transitions: Arc<Transitions>,
    /// What is searched.
    pub graphs: Graphs,
    /// Options of the search.
    pub decoder_config: DecoderConfig,
    /// Whether utterances that end outside a final state give results.
    pub allow_partial: bool,
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
    /// A warning on the way.
    pub warning: Option<String>,
    /// `None` if it failed and the run goes on; an error ends the run.
    pub result: Result<Option<Decoded>>,
}

/// The results of an utterance.
pub struct Decoded {
    /// The best path.
    pub path: Path,
    /// The lattice.
    pub lattice: RawLattice,
    /// Frames of the utterance.
    pub num_frames: u64,
}

impl Job {
    /// Decodes one utterance after another, in one channel as long as the graph is the same.
    pub fn worker(&self) -> impl FnMut(Utterance) -> Outcome {
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
