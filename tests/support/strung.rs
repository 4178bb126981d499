//! Long speech: the bundled prompts one after another, and a decoder for them.
#![allow(dead_code)] // each test file uses its own part

use std::path::PathBuf;
use std::sync::Arc;

use koshi::decoder::{BackendChoice, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::search::SearchConfig;
use koshi::table::{MatrixHolder, SequentialReader, Transitions};

pub const SCALE: f32 = 0.083_333;

pub fn prompts(file: &str) -> PathBuf {
    crate::common::root().join("examples/data/prompts").join(file)
}

pub fn model() -> Arc<Transitions> {
    Arc::new(Transitions::read_file(prompts("trans.mdl").to_str().unwrap()).unwrap())
}

/// The scores of the twelve prompts, and their width.
pub fn scores() -> (Vec<Vec<f32>>, usize) {
    let rspecifier = format!("ark:{}", prompts("loglikes.ark").display());
    let mut reader = SequentialReader::<MatrixHolder<f32>>::open(&rspecifier).unwrap();
    let (mut all, mut dim) = (Vec::new(), 0);
    while let Some((_, matrix)) = reader.next().unwrap() {
        dim = matrix.cols();
        all.push(matrix.into_data());
    }
    (all, dim)
}

/// A decoder of the prompts, at their acoustic scale.
pub fn speech(search: SearchConfig) -> Arc<Decoder> {
    speech_on(search, BackendChoice::Cpu)
}

pub fn speech_on(search: SearchConfig, backend: BackendChoice) -> Arc<Decoder> {
    let graph = Graph::read(prompts("HCLG.fst"), Columns::Transitions(model())).unwrap();
    let search = SearchConfig { acoustic_scale: SCALE, ..search };
    let config = DecoderConfig { search, num_lanes: 1, num_threads: 1, backend, ..DecoderConfig::default() };
    Decoder::new(Arc::new(graph), config).unwrap()
}

/// Prompts one after another, as one utterance of `frames` frames.
pub fn strung(all: &[Vec<f32>], dim: usize, frames: usize) -> Vec<f32> {
    all.iter().cycle().flat_map(|data| data.iter().copied()).take(frames * dim).collect()
}
