//! One trait over the two ways in: the crate's own items, and the exported C functions.
#![allow(dead_code, unused_imports)] // each test file uses its own part

mod c;
mod rust;

use koshi::chain::ChainConfig;
use koshi::graph::{GraphArc, VecSource};
use koshi::table::Output;

pub use c::{C, options};
pub use koshi::ffi::koshi_status_code as Status;
pub use rust::Rust;

/// The status of a failed call, and its message with all causes.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub status: Status,
    pub message: String,
}

pub type Outcome<T> = Result<T, Fault>;

/// What a call gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub value: f64,
    pub l2_term: f64,
    pub weight: f64,
    pub ok: bool,
    pub deriv: Vec<f32>,
    pub xent: Vec<f32>,
}

impl Found {
    /// Nothing that is not a number came out.
    pub fn is_finite(&self) -> bool {
        let all = self.deriv.iter().chain(&self.xent);
        [self.value, self.l2_term, self.weight].iter().all(|value| value.is_finite())
            && all.clone().all(|value| value.is_finite())
    }
}

/// A network output.
#[derive(Clone, Debug)]
pub struct Scores {
    pub data: Vec<f32>,
    pub rows: usize,
    pub cols: usize,
    pub stride: usize,
}

impl Scores {
    pub fn dense(data: &[f32], cols: usize) -> Scores {
        Scores { data: data.to_vec(), rows: data.len() / cols, cols, stride: cols }
    }
}

pub trait Face {
    type Den;
    type Supervision;
    fn den(bytes: &[u8], num_pdfs: usize) -> Outcome<Self::Den>;
    fn supervision(bytes: &[u8]) -> Outcome<Self::Supervision>;
    fn merge(parts: &[&Self::Supervision]) -> Outcome<Self::Supervision>;
    fn objf(
        den: &Self::Den,
        supervision: &Self::Supervision,
        config: &ChainConfig,
        scores: &Scores,
        deriv_weights: Option<&[f32]>,
    ) -> Outcome<Found>;
    fn denominator(
        den: &Self::Den,
        config: &ChainConfig,
        scores: &Scores,
        num_sequences: usize,
        lengths: Option<&[u32]>,
    ) -> Outcome<Found>;
    fn numerator(supervision: &Self::Supervision, scores: &Scores) -> Outcome<Found>;
}

/// Tests that run over both faces, on the CPU and on the software GPU.
#[macro_export]
macro_rules! over_both_chain_faces {
    ($($name:ident)*) => {
        mod through_rust {
            $(#[test] fn $name() { super::BACKENDS.into_iter().for_each(super::$name::<super::chain::Rust>); })*
        }
        mod through_c {
            $(#[test] fn $name() { super::BACKENDS.into_iter().for_each(super::$name::<super::chain::C>); })*
        }
    };
}

/// An arc of a denominator graph: pdf, probability, destination.
pub fn arc(pdf: i32, prob: f32, next: u32) -> GraphArc {
    GraphArc { ilabel: pdf + 1, olabel: pdf + 1, weight: -prob.ln(), next }
}

/// A graph that starts at state 0, none of its states final.
pub fn graph(states: Vec<Vec<GraphArc>>) -> VecSource {
    VecSource { start: Some(0), states: states.into_iter().map(|arcs| (f32::INFINITY, arcs)).collect() }
}

pub fn bytes(source: &VecSource) -> Vec<u8> {
    let mut output = Output::memory();
    source.write(&mut output, true).unwrap();
    output.into_bytes()
}

/// A supervision in text; `fst` is its lines with spaces, joined by semicolons.
pub fn supervision([sequences, frames, pdfs]: [usize; 3], fst: &str) -> Vec<u8> {
    let lines = fst.replace(';', "\n");
    let head = format!("<Weight> 1 <NumSequences> {sequences} <FramesPerSeq> {frames} <LabelDim> {pdfs}");
    format!("<Supervision> {head} <End2End> F \n{lines}\n\n</Supervision> \n").into_bytes()
}

/// The same, end-to-end: an FST a sequence.
pub fn end_to_end([sequences, frames, pdfs]: [usize; 3], fsts: &[&str]) -> Vec<u8> {
    let head = format!("<Weight> 1 <NumSequences> {sequences} <FramesPerSeq> {frames} <LabelDim> {pdfs}");
    let fsts: String = fsts.iter().map(|fst| format!("\n{}\n\n", fst.replace(';', "\n"))).collect();
    format!("<Supervision> {head} <End2End> T <Fsts> {fsts}</Fsts> </Supervision> \n").into_bytes()
}

/// Numbers that are the same in each run.
pub struct Random(pub u64);

impl Random {
    /// Below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    /// From -`size` to `size`.
    pub fn number(&mut self, size: f32) -> f32 {
        (self.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0) * size
    }

    pub fn scores(&mut self, rows: usize, cols: usize, size: f32) -> Scores {
        let data: Vec<f32> = (0..rows * cols).map(|_| self.number(size)).collect();
        Scores::dense(&data, cols)
    }

    /// A graph in which each state goes somewhere.
    pub fn graph(&mut self, states: usize, pdfs: usize) -> VecSource {
        let out = |random: &mut Random| {
            let count = 1 + random.below(4);
            let arcs = (0..count).map(|_| {
                let prob = 0.05 + random.below(100) as f32 / 200.0;
                arc(random.below(pdfs) as i32, prob, random.below(states) as u32)
            });
            arcs.collect()
        };
        graph((0..states).map(|_| out(self)).collect())
    }
}
