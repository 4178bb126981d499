//! Another face's decoders on the GPU backend: on the software CUDA device, or the
//! machine's own GPU (see `common::gpu`).

use std::marker::PhantomData;
use std::path::Path;

use koshi::decoder::{BackendChoice, DecoderConfig};
use koshi::lattice::RawLattice;
use koshi::search::SearchStats;

use super::{Face, Matrix, Outcome, Pull, Scores, Status, Words};

pub struct Gpu<F>(PhantomData<F>);

impl<F: Face> Face for Gpu<F> {
    type Graph = F::Graph;
    type Decoder = F::Decoder;
    type Channel = F::Channel;

    fn graph_from_memory(bytes: &[u8]) -> Outcome<F::Graph> {
        F::graph_from_memory(bytes)
    }

    fn graph_read(path: &Path, columns: Option<&[i32]>) -> Outcome<F::Graph> {
        F::graph_read(path, columns)
    }

    fn num_states(graph: &F::Graph) -> u32 {
        F::num_states(graph)
    }

    fn decoder(graph: &F::Graph, config: &DecoderConfig) -> Outcome<F::Decoder> {
        crate::common::gpu();
        F::decoder(graph, &DecoderConfig { backend: BackendChoice::Cuda, ..*config })
    }

    fn default_decoder(graph: &F::Graph) -> Outcome<F::Decoder> {
        Self::decoder(graph, &DecoderConfig::default())
    }

    fn channel(decoder: &F::Decoder) -> Outcome<F::Channel> {
        F::channel(decoder)
    }

    fn begin(channel: &mut F::Channel) -> Outcome {
        F::begin(channel)
    }

    fn push(channel: &mut F::Channel, rows: Matrix) -> Outcome {
        F::push(channel, rows)
    }

    fn batch(decoder: &F::Decoder, items: &mut [(&mut F::Channel, Matrix)]) -> Vec<Result<(), Status>> {
        F::batch(decoder, items)
    }

    fn pull_matrix(channel: &mut F::Channel, rows: Matrix, max_frames: Option<u64>) -> Outcome<u64> {
        F::pull_matrix(channel, rows, max_frames)
    }

    fn pull(channel: &mut F::Channel, scores: &mut dyn Scores, how: Pull, max_frames: Option<u64>) -> Outcome<u64> {
        F::pull(channel, scores, how, max_frames)
    }

    fn finish(channel: &mut F::Channel) -> Outcome {
        F::finish(channel)
    }

    fn cancel(channel: &F::Channel) -> Outcome {
        F::cancel(channel)
    }

    fn num_frames(channel: &F::Channel) -> u64 {
        F::num_frames(channel)
    }

    fn reached_final(channel: &F::Channel) -> Option<bool> {
        F::reached_final(channel)
    }

    fn final_relative_cost(channel: &F::Channel) -> Option<f32> {
        F::final_relative_cost(channel)
    }

    fn best_path(channel: &F::Channel, use_final: bool) -> Outcome<Words> {
        F::best_path(channel, use_final)
    }

    fn partial(channel: &F::Channel) -> Outcome<(Words, usize)> {
        F::partial(channel)
    }

    fn lattice(channel: &mut F::Channel, use_final: bool) -> Outcome<RawLattice> {
        F::lattice(channel, use_final)
    }

    fn stats(channel: &F::Channel) -> Outcome<SearchStats> {
        F::stats(channel)
    }

    fn lattice_from_memory(bytes: &[u8]) -> Outcome<RawLattice> {
        F::lattice_from_memory(bytes)
    }

    fn lattice_best_path(bytes: &[u8], acoustic_scale: f32) -> Outcome<Words> {
        F::lattice_best_path(bytes, acoustic_scale)
    }

    fn lattice_prune(bytes: &[u8], beam: f32) -> Outcome<RawLattice> {
        F::lattice_prune(bytes, beam)
    }

    fn lattice_to_memory(lattice: &RawLattice, binary: bool) -> Outcome<Vec<u8>> {
        F::lattice_to_memory(lattice, binary)
    }
}
