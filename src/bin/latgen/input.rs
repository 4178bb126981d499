//! What is read, utterance by utterance.

use koshi::Result;
use koshi::graph::{FstBytes, FstHolder};
use koshi::table::{Matrix, MatrixHolder, RandomAccessReader, SequentialReader};

use super::job::Graphs;

/// What is read for an utterance.
pub struct Utterance {
    pub key: String,
    /// `None` where a table of graphs has an utterance that the scores lack.
    pub scores: Option<Matrix<f32>>,
    /// Its own graph, from a table.
    pub graph: Option<FstBytes>,
}

/// Where utterances come from.
pub enum Input {
    Scores(SequentialReader<MatrixHolder<f32>>),
    Graphs(SequentialReader<FstHolder>, Box<RandomAccessReader<MatrixHolder<f32>>>),
}

impl Input {
    /// Opens the scores, and the table of graphs if there is one.
    pub fn open(graphs: &Graphs, graphs_name: &str, scores_name: &str) -> Result<Input> {
        Ok(match graphs {
            Graphs::One(_) => Input::Scores(SequentialReader::open(scores_name)?),
            Graphs::Table => {
                Input::Graphs(SequentialReader::open(graphs_name)?, Box::new(RandomAccessReader::open(scores_name)?))
            }
        })
    }

    /// The next utterance, `None` after the last.
    pub fn next(&mut self) -> Result<Option<Utterance>> {
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

    /// Ends reading.
    pub fn close(self) -> Result<()> {
        match self {
            Input::Scores(reader) => reader.close(),
            Input::Graphs(graphs, scores) => graphs.close().and(scores.close()),
        }
    }
}
