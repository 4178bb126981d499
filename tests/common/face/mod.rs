//! One trait over the two ways in: the crate's own items, and the exported C functions called
//! as a C program calls them. Each behaviour test is written once and runs over both.
#![allow(dead_code, unused_imports)] // each test file uses its own part

mod c;
#[path = "../openfst.rs"]
pub mod openfst;
pub mod queued;
mod rust;

use std::cell::Cell;
use std::path::Path;

use koshi::decoder::{BackendChoice, DecoderConfig, SegmentEnd};
use koshi::lattice::RawLattice;
use koshi::search::{EndpointConfig, Phrase, SearchStats};

use crate::common::graph::arc;
pub use c::C;
pub use koshi::ffi::koshi_status_code as Status;
use koshi::graph::VecSource;
use openfst::Form;
pub use queued::{Ear, Event, Queued};
pub use rust::Rust;

/// A call that failed: its status, and the message with all causes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub status: Status,
    pub message: String,
}

pub type Outcome<T = ()> = Result<T, Fault>;

/// What both faces tell of a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Words {
    pub ilabels: Vec<i32>,
    pub olabels: Vec<i32>,
    pub frames: Vec<u32>,
    pub graph_cost: f64,
    pub acoustic_cost: f64,
    pub bias_cost: f64,
}

/// Rows as a caller hands them over: nothing of it needs to fit together.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    pub data: &'a [f32],
    pub frames: usize,
    pub dim: usize,
    pub stride: usize,
}

impl<'a> Matrix<'a> {
    pub fn dense(data: &'a [f32], dim: usize) -> Matrix<'a> {
        assert!(data.len().is_multiple_of(dim));
        Matrix { data, frames: data.len() / dim, dim, stride: dim }
    }

    /// Rows `from..to`.
    pub fn part(self, from: usize, to: usize) -> Matrix<'a> {
        Matrix { data: &self.data[(from * self.stride).min(self.data.len())..], frames: to - from, ..self }
    }
}

/// Scores that a channel pulls.
pub trait Scores {
    fn columns(&mut self) -> usize;
    fn ready(&mut self) -> u64;
    /// `Err` with a status of the callback's choice.
    fn score(&mut self, frame: u64, column: usize) -> Result<f32, i32>;
}

/// How scores are pulled: a whole matrix at once, by rows, or one by one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pull {
    Rows,
    Single,
}

/// A matrix as [`Scores`], with notes on what was asked.
pub struct MatrixScores<'a> {
    pub matrix: Matrix<'a>,
    pub asked: Vec<(u64, usize)>,
}

impl<'a> MatrixScores<'a> {
    pub fn new(matrix: Matrix<'a>) -> MatrixScores<'a> {
        MatrixScores { matrix, asked: Vec::new() }
    }
}

impl Scores for MatrixScores<'_> {
    fn columns(&mut self) -> usize {
        self.matrix.dim
    }

    fn ready(&mut self) -> u64 {
        self.matrix.frames as u64
    }

    fn score(&mut self, frame: u64, column: usize) -> Result<f32, i32> {
        self.asked.push((frame, column));
        Ok(self.matrix.data[frame as usize * self.matrix.stride + column])
    }
}

thread_local! {
    /// Whether this thread runs a face's own code: copies for the tests, not the library.
    pub static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Runs code that is a face's own.
fn own<T>(body: impl FnOnce() -> T) -> T {
    let before = OWN.replace(true);
    let made = body();
    OWN.set(before);
    made
}

thread_local! {
    /// Whether decoders that this thread makes without naming a backend are on the GPU.
    static ON_GPU: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test whose decoders are on the GPU.
pub fn on_gpu<T>(test: impl FnOnce() -> T) -> T {
    crate::common::gpu();
    let before = ON_GPU.replace(true);
    let made = test();
    ON_GPU.set(before);
    made
}

/// The options, with a backend in any case: which one "auto" takes depends on what the other tests of
/// the program have loaded.
fn with_backend(config: &DecoderConfig) -> DecoderConfig {
    let backend = match config.backend {
        BackendChoice::Auto if ON_GPU.get() => BackendChoice::Cuda,
        BackendChoice::Auto => BackendChoice::Cpu,
        named => named,
    };
    if backend == BackendChoice::Cuda {
        // The first look for a GPU is the only one of a process: it must not find none.
        crate::common::gpu();
    }
    DecoderConfig { backend, ..*config }
}

/// A way to use the library.
pub trait Face {
    type Graph;
    type Decoder: Sync;
    type Channel: Send;

    /// A graph file's bytes, or the file; column of label i is i - 1, or `columns[i]`.
    fn graph_from_memory(bytes: &[u8]) -> Outcome<Self::Graph>;
    fn graph_read(path: &Path, columns: Option<&[i32]>) -> Outcome<Self::Graph>;
    fn num_states(graph: &Self::Graph) -> u32;

    fn decoder(graph: &Self::Graph, config: &DecoderConfig) -> Outcome<Self::Decoder>;
    /// With all options left at their defaults.
    fn default_decoder(graph: &Self::Graph) -> Outcome<Self::Decoder>;
    fn channel(decoder: &Self::Decoder) -> Outcome<Self::Channel>;

    fn begin(channel: &mut Self::Channel) -> Outcome;
    fn set_bias(channel: &mut Self::Channel, phrases: &[Phrase<'_>]) -> Outcome;
    fn push(channel: &mut Self::Channel, rows: Matrix) -> Outcome;
    /// The same, and how many rows were searched.
    fn push_rows(channel: &mut Self::Channel, rows: Matrix) -> Outcome<usize> {
        let before = Self::num_frames(channel);
        Self::push(channel, rows)?;
        Ok((Self::num_frames(channel) - before) as usize)
    }
    fn batch(decoder: &Self::Decoder, items: &mut [(&mut Self::Channel, Matrix)]) -> Vec<Result<(), Status>>;
    fn pull_matrix(channel: &mut Self::Channel, rows: Matrix, max_frames: Option<u64>) -> Outcome<u64>;
    fn pull(channel: &mut Self::Channel, scores: &mut dyn Scores, how: Pull, max_frames: Option<u64>) -> Outcome<u64>;
    fn finish(channel: &mut Self::Channel) -> Outcome;
    fn cancel(channel: &Self::Channel) -> Outcome;

    fn num_frames(channel: &Self::Channel) -> u64;
    fn reached_final(channel: &Self::Channel) -> Option<bool>;
    fn final_relative_cost(channel: &Self::Channel) -> Option<f32>;
    fn best_path(channel: &Self::Channel, use_final: bool) -> Outcome<Words>;
    fn partial(channel: &Self::Channel) -> Outcome<(Words, usize)>;
    fn lattice(channel: &mut Self::Channel, use_final: bool) -> Outcome<RawLattice>;
    fn stats(channel: &Self::Channel) -> Outcome<SearchStats>;

    fn set_endpoint_rules(decoder: &Self::Decoder, config: Option<&EndpointConfig>) -> Outcome;
    fn endpoint(channel: &Self::Channel) -> Outcome<Option<SegmentEnd>>;
    fn num_segments(channel: &Self::Channel) -> u64;
    fn segment(channel: &Self::Channel, number: u64) -> Outcome<(SegmentEnd, Words, RawLattice)>;

    /// Lattices of either form from a file's bytes: as a raw one, its best path, and what
    /// is left of it within a beam.
    fn lattice_from_memory(bytes: &[u8]) -> Outcome<RawLattice>;
    fn lattice_best_path(bytes: &[u8], acoustic_scale: f32) -> Outcome<Words>;
    fn lattice_prune(bytes: &[u8], beam: f32) -> Outcome<RawLattice>;
    /// The n best paths with their posteriors.
    fn lattice_nbest(bytes: &[u8], n: usize, acoustic_scale: f32) -> Outcome<Vec<(Words, f64)>>;
    /// All paths of two lattices, as a file's bytes.
    fn lattice_union(one: &[u8], other: &[u8]) -> Outcome<Vec<u8>>;
    fn lattice_depth(bytes: &[u8]) -> Outcome<f64>;
    fn lattice_oracle(bytes: &[u8], words: &[i32]) -> Outcome<(u32, Words)>;
    /// Costs of one language model (the bytes of a file) out, those of another one in.
    fn lattice_rescore(bytes: &[u8], old: Option<&[u8]>, new: Option<&[u8]>, scale: f32) -> Outcome<RawLattice>;
    /// The lattice as a file's bytes.
    fn lattice_to_memory(lattice: &RawLattice, binary: bool) -> Outcome<Vec<u8>>;
}

/// Runs `fn name<F: Face>()` as a test of its own over each face.
#[macro_export]
macro_rules! over_both_faces {
    ($($name:ident)*) => {
        mod rust {
            $(#[test] fn $name() { super::$name::<super::face::Rust>() })*
        }
        mod c {
            $(#[test] fn $name() { super::$name::<super::face::C>() })*
        }
    };
}

/// The same over the GPU backend: each face on the software CUDA device (see `common::gpu`).
#[macro_export]
macro_rules! over_both_faces_on_gpu {
    ($($name:ident)*) => {
        mod rust_gpu {
            $(#[test] fn $name() { super::face::on_gpu(super::$name::<super::face::Rust>) })*
        }
        mod c_gpu {
            $(#[test] fn $name() { super::face::on_gpu(super::$name::<super::face::C>) })*
        }
    };
}

/// Graph A of the cases: 0 -1:1-> 1, which is final.
pub fn graph_a() -> VecSource {
    chain(1)
}

/// States 0 to `len` in a row, arc i -> i + 1 with ilabel and olabel i + 1; the last is final.
pub fn chain(len: i32) -> VecSource {
    let arcs = |at: i32| if at < len { vec![arc(at + 1, at + 1, 0.0, at as u32 + 1)] } else { vec![] };
    let cost = |at: i32| if at == len { 0.0 } else { f32::INFINITY };
    VecSource { start: Some(0), states: (0..=len).map(|at| (cost(at), arcs(at))).collect() }
}

/// The graph of `source`, by way of a file's bytes.
pub fn graph<F: Face>(source: &VecSource) -> F::Graph {
    F::graph_from_memory(&openfst::vector(source, &Form::default())).unwrap()
}

/// A decoder with a channel that has begun.
pub fn open<F: Face>(source: &VecSource, config: &DecoderConfig) -> (F::Decoder, F::Channel) {
    let decoder = F::decoder(&graph::<F>(source), config).unwrap();
    let mut channel = F::channel(&decoder).unwrap();
    F::begin(&mut channel).unwrap();
    (decoder, channel)
}

/// All that a channel tells of its utterance; times that depend on the clock left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Results {
    pub frames: u64,
    pub reached_final: Option<bool>,
    pub final_relative_cost: Option<u32>,
    pub paths: [Words; 2],
    pub partial: (Words, usize),
    pub lattices: [RawLattice; 2],
    /// Costs of both lattices bit for bit, which `==` on floats does not see.
    pub bits: Vec<u32>,
}

/// Everything that can be asked of a channel now.
pub fn results<F: Face>(channel: &mut F::Channel) -> Results {
    let lattices = [true, false].map(|use_final| F::lattice(channel, use_final).unwrap());
    let weights = lattices
        .iter()
        .flat_map(|lattice| lattice.arcs.iter().map(|arc| arc.weight).chain(lattice.finals.iter().copied()));
    let bits = weights.flat_map(|weight| [weight.graph.to_bits(), weight.acoustic.to_bits()]).collect();
    for lattice in &lattices {
        lattice.validate().unwrap();
    }
    Results {
        frames: F::num_frames(channel),
        reached_final: F::reached_final(channel),
        final_relative_cost: F::final_relative_cost(channel).map(f32::to_bits),
        paths: [true, false].map(|use_final| F::best_path(channel, use_final).unwrap()),
        partial: F::partial(channel).unwrap(),
        lattices,
        bits,
    }
}

/// The results of `rows` in one push, in a channel of its own.
pub fn solo<F: Face>(source: &VecSource, config: &DecoderConfig, rows: Matrix) -> Results {
    let (_decoder, mut channel) = open::<F>(source, config);
    F::push(&mut channel, rows).unwrap();
    F::finish(&mut channel).unwrap();
    results::<F>(&mut channel)
}
