//! The model of the command: a bigram prediction network and a joint network of one layer.

use std::io::Read;

use koshi::transducer::{Model, Part, ScoreKind, Shape};
use koshi::{Error, Result};
use serde::Deserialize;

/// A model as it stands in the file. What is not named here is passed over.
#[derive(Deserialize)]
pub struct Document {
    vocab: usize,
    dim: usize,
    frames: usize,
    blank: i32,
    embed_last: Vec<Vec<f32>>,
    embed_prev: Vec<Vec<f32>>,
    joint_w: Vec<Vec<f32>>,
    joint_b: Vec<f32>,
    encoder: Vec<Vec<f32>>,
    lm_bigram: Option<Vec<Vec<f32>>>,
}

impl Document {
    /// Reads a file, or standard input for `-`.
    pub fn read(name: &str) -> Result<Document> {
        let mut text = Vec::new();
        let read = match name {
            "-" => std::io::stdin().lock().read_to_end(&mut text),
            _ => std::fs::File::open(name).and_then(|mut file| file.read_to_end(&mut text)),
        };
        read.map_err(|error| Error::io(name, error))?;
        serde_json::from_slice(&text).map_err(|error| {
            let line = text.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
            let offset = line.map(<[u8]>::len).sum::<usize>() + error.column().saturating_sub(1);
            Error::format(name, offset as u64, error.to_string())
        })
    }
}

/// The networks, in dense matrices.
pub struct Network {
    shape: Shape,
    embed_last: Vec<f32>,
    embed_prev: Vec<f32>,
    joint_w: Vec<f32>,
    joint_b: Vec<f32>,
    encoder: Vec<f32>,
    lm_bigram: Vec<f32>,
}

/// The elements of a matrix that has to have `rows` rows of `columns`.
fn dense(name: &str, matrix: Vec<Vec<f32>>, rows: usize, columns: usize) -> Result<Vec<f32>> {
    if matrix.len() != rows || matrix.iter().any(|row| row.len() != columns) {
        return Err(Error::Shape(format!("{name} must have {rows} rows of {columns} numbers")));
    }
    Ok(matrix.into_iter().flatten().collect())
}

impl Network {
    /// Checks the sizes; `name` is the file's, for messages.
    pub fn new(document: Document, name: &str) -> Result<Network> {
        let Document { vocab, dim, frames, blank, .. } = document;
        let network = || {
            let rows = |name: &str, matrix, rows, columns| dense(name, matrix, rows, columns);
            Ok(Network {
                shape: Shape {
                    vocab_size: vocab,
                    blank,
                    encoder_dim: dim,
                    output_dim: dim,
                    scores: ScoreKind::Logits,
                    has_lm: document.lm_bigram.is_some(),
                },
                embed_last: rows("embed_last", document.embed_last, vocab, dim)?,
                embed_prev: rows("embed_prev", document.embed_prev, vocab, dim)?,
                joint_w: rows("joint_w", document.joint_w, dim, vocab)?,
                joint_b: rows("joint_b", vec![document.joint_b], 1, vocab)?,
                encoder: rows("encoder", document.encoder, frames, dim)?,
                lm_bigram: match document.lm_bigram {
                    Some(matrix) => rows("lm_bigram", matrix, vocab, vocab)?,
                    None => Vec::new(),
                },
            })
        };
        network().map_err(|error: Error| error.context(name))
    }

    /// Whether there is a language model.
    pub fn has_lm(&self) -> bool {
        self.shape.has_lm
    }

    /// The encoder rows.
    pub fn encoder(&self) -> &[f32] {
        &self.encoder
    }

    /// Columns of an encoder row.
    pub fn dim(&self) -> usize {
        self.shape.encoder_dim
    }
}

fn row(matrix: &[f32], at: usize, columns: usize) -> Result<&[f32]> {
    let found = at.checked_mul(columns).and_then(|start| matrix.get(start..start.checked_add(columns)?));
    found.ok_or_else(|| Error::Internal(format!("the model has no row {at}")))
}

/// A state is the last label.
impl Model for Network {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn predict(&self, states_in: &[u64], labels: &[i32], states_out: &mut [u64], outputs: &mut [f32]) -> Result<()> {
        let dim = self.dim();
        let rows = outputs.chunks_exact_mut(dim).zip(states_out);
        for ((&before, &label), (output, state)) in states_in.iter().zip(labels).zip(rows) {
            *state = label as u64;
            let before = if label == self.shape.blank { label as u64 } else { before };
            let (last, prev) =
                (row(&self.embed_last, label as usize, dim)?, row(&self.embed_prev, before as usize, dim)?);
            for ((value, last), prev) in output.iter_mut().zip(last).zip(prev) {
                *value = (last + prev).tanh();
            }
        }
        Ok(())
    }

    fn join(&self, encoder: &[f32], outputs: &[f32], rows: usize, scores: &mut [f32]) -> Result<()> {
        let (dim, vocab) = (self.dim(), self.shape.vocab_size);
        let pairs = encoder.chunks_exact(dim).zip(outputs.chunks_exact(dim)).take(rows);
        for ((encoder, output), scores) in pairs.zip(scores.chunks_exact_mut(vocab)) {
            scores.copy_from_slice(&self.joint_b);
            for ((one, two), weights) in encoder.iter().zip(output).zip(self.joint_w.chunks_exact(vocab)) {
                let hidden = (one + two).tanh();
                scores.iter_mut().zip(weights).for_each(|(score, weight)| *score += hidden * weight);
            }
        }
        Ok(())
    }

    fn lm_predict(&self, _: &[u64], labels: &[i32], states_out: &mut [u64], log_probs: &mut [f32]) -> Result<()> {
        let vocab = self.shape.vocab_size;
        for ((&label, state), log_probs) in labels.iter().zip(states_out).zip(log_probs.chunks_exact_mut(vocab)) {
            *state = label as u64;
            log_probs.copy_from_slice(row(&self.lm_bigram, label as usize, vocab)?);
        }
        Ok(())
    }

    fn release_state(&self, _: Part, _: u64) {}
}
