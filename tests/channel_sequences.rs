//! Calls in any order on several channels of a decoder, against a model of what a channel is:
//! each call answers what the model says, and results are at any time those of a fresh channel
//! that was given the same good rows at once.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use std::collections::HashMap;

use common::graph::{Rng, arc, source};
use face::{Face, Matrix, MatrixScores, Outcome, Pull, Results, Status, graph, results};
use koshi::decoder::DecoderConfig;
use koshi::graph::VecSource;
use koshi::search::SearchConfig;

over_both_faces! { any_calls_in_any_order }

const DIM: usize = 4;

fn tangle() -> VecSource {
    source(
        Some(0),
        vec![
            (f32::INFINITY, vec![arc(1, 1, 0.5, 0), arc(0, 2, 0.25, 2), arc(2, 3, 0.5, 1), arc(3, 0, 0.5, 3)]),
            (0.5, vec![arc(2, 4, 0.25, 1), arc(0, 5, -0.25, 3), arc(3, 1, 0.0, 0)]),
            (f32::INFINITY, vec![arc(3, 2, 0.5, 1), arc(0, 0, 0.5, 1), arc(1, 6, 0.75, 2)]),
            (0.0, vec![arc(1, 1, 0.25, 0), arc(2, 2, 0.25, 2), arc(3, 3, 0.5, 3)]),
        ],
    )
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    New,
    Open,
    Finished,
}

/// What a channel is, as the header says.
#[derive(Debug)]
struct Model {
    state: State,
    failure: Option<Status>,
    cancelled: bool,
    /// Good rows since begin, as numbers of rows of the pool.
    rows: Vec<usize>,
}

impl Model {
    fn new() -> Model {
        Model { state: State::New, failure: None, cancelled: false, rows: Vec::new() }
    }

    /// What any push answers before its rows are looked at.
    fn refuses(&self) -> Option<Status> {
        match self.state {
            State::New | State::Finished => Some(Status::KOSHI_E_STATE),
            State::Open if self.cancelled => Some(Status::KOSHI_E_CANCELLED),
            State::Open => self.failure,
        }
    }

    /// What a push of rows of the pool answers, the failing one of which stays failed.
    fn push(&mut self, pool: &Pool, rows: &[usize], dim: usize) -> Option<Status> {
        if let Some(status) = self.refuses() {
            return Some(status);
        }
        if dim < 3 && !rows.is_empty() {
            return Some(Status::KOSHI_E_SHAPE);
        }
        for &row in rows {
            if pool.fault(row).is_some() {
                self.failure = pool.fault(row);
                return self.failure;
            }
            self.rows.push(row);
        }
        None
    }
}

/// Rows to choose from: good ones, then one of NaN, one of +inf, one without any arc.
struct Pool {
    data: Vec<f32>,
    good: usize,
}

impl Pool {
    fn new(rng: &mut Rng) -> Pool {
        let good = 12;
        let mut data: Vec<f32> = (0..good * DIM).map(|_| -(rng.below(24) as f32) * 0.25).collect();
        data.extend([-1.0, -1.0, f32::NAN, -1.0]);
        data.extend([f32::INFINITY, -1.0, -1.0, -1.0]);
        data.extend([f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0]);
        Pool { data, good }
    }

    fn fault(&self, row: usize) -> Option<Status> {
        match row.checked_sub(self.good) {
            None => None,
            Some(0 | 1) => Some(Status::KOSHI_E_SCORES),
            Some(_) => Some(Status::KOSHI_E_NO_TOKENS),
        }
    }

    fn rows(&self, rows: &[usize]) -> Vec<f32> {
        rows.iter().flat_map(|&row| &self.data[row * DIM..(row + 1) * DIM]).copied().collect()
    }

    /// A few rows, seldom a bad one.
    fn some(&self, rng: &mut Rng) -> Vec<usize> {
        let one = |rng: &mut Rng| match rng.below(40) {
            0 => self.good + rng.below(3) as usize,
            _ => rng.below(self.good as u64) as usize,
        };
        (0..rng.below(9)).map(|_| one(rng)).collect()
    }
}

fn status(outcome: &Outcome<impl Sized>) -> Option<Status> {
    outcome.as_ref().err().map(|fault| fault.status)
}

fn any_calls_in_any_order<F: Face>() {
    let source = tangle();
    for seed in 0..if cfg!(miri) { 1 } else { 60 } {
        let rng = &mut Rng(seed * 2 + 1);
        let pool = Pool::new(rng);
        let search = SearchConfig {
            link_budget: [1, 30, 40_000][seed as usize % 3],
            lattice_beam: 2.5,
            max_active: 3,
            min_active: 2,
            ..SearchConfig::default()
        };
        let config = DecoderConfig {
            search,
            num_lanes: 1 + seed as u32 % 3,
            num_threads: 1 + seed as u32 % 2,
            ..DecoderConfig::default()
        };
        let decoder = F::decoder(&graph::<F>(&source), &config).unwrap();
        let mut fresh: HashMap<Vec<usize>, Results> = HashMap::new();
        let mut channels: Vec<(F::Channel, Model)> =
            (0..4).map(|_| (F::channel(&decoder).unwrap(), Model::new())).collect();
        for step in 0..if cfg!(miri) { 25 } else { 150 } {
            let name = format!("seed {seed}, step {step}");
            let at = rng.below(4) as usize;
            let (channel, model) = &mut channels[at];
            let rows = pool.some(rng);
            let data = pool.rows(&rows);
            let all = Matrix::dense(&data, DIM);
            match rng.below(16) {
                0 => {
                    F::begin(channel).unwrap();
                    *model = Model { state: State::Open, ..Model::new() };
                }
                1 => {
                    let expected = (model.state == State::New).then_some(Status::KOSHI_E_STATE);
                    assert_eq!(status(&F::finish(channel)), expected, "{name}");
                    model.state = if model.state == State::New { State::New } else { State::Finished };
                }
                2 if rng.below(4) == 0 => {
                    F::cancel(channel).unwrap();
                    model.cancelled = true;
                }
                3 if rng.below(4) == 0 => {
                    *channel = F::channel(&decoder).unwrap();
                    *model = Model::new();
                }
                4 => {
                    let narrow = Matrix { dim: 2, ..all };
                    assert_eq!(status(&F::push(channel, narrow)), model.push(&pool, &rows, 2), "{name}");
                }
                5 | 6 => {
                    // From the frame where the channel stands; a decodable of all its rows and some more.
                    let whole: Vec<usize> = model.rows.iter().chain(&rows).copied().collect();
                    let data = pool.rows(&whole);
                    let (whole, most) = (Matrix::dense(&data, DIM), Some(rng.below(6)));
                    let taken = &rows[..rows.len().min(most.unwrap_or(0) as usize)];
                    let pulled = match rng.below(2) {
                        0 => F::pull_matrix(channel, whole, most),
                        _ => F::pull(channel, &mut MatrixScores::new(whole), Pull::Rows, most),
                    };
                    assert_eq!(status(&pulled), model.push(&pool, taken, DIM), "{name}");
                    assert!(pulled.is_err() || pulled == Ok(taken.len() as u64), "{name}");
                }
                7..10 => {
                    // A batch of all channels, each with rows of its own.
                    let each: Vec<Vec<usize>> = (0..4).map(|_| pool.some(rng)).collect();
                    let data: Vec<Vec<f32>> = each.iter().map(|rows| pool.rows(rows)).collect();
                    let matrices = data.iter().map(|data| Matrix::dense(data, DIM));
                    let mut items: Vec<(&mut F::Channel, Matrix)> =
                        channels.iter_mut().map(|(channel, _)| channel).zip(matrices).collect();
                    let outcomes = F::batch(&decoder, &mut items);
                    for (((_, model), rows), outcome) in channels.iter_mut().zip(&each).zip(outcomes) {
                        assert_eq!(outcome.err(), model.push(&pool, rows, DIM), "{name}");
                    }
                }
                _ => assert_eq!(status(&F::push(channel, all)), model.push(&pool, &rows, DIM), "{name}"),
            }
            let (channel, model) = &mut channels[at];
            assert_eq!(F::num_frames(channel), model.rows.len() as u64, "{name}");
            if model.state == State::New {
                assert_eq!(status(&F::best_path(channel, true)), Some(Status::KOSHI_E_STATE), "{name}");
                assert_eq!(status(&F::lattice(channel, true)), Some(Status::KOSHI_E_STATE), "{name}");
            } else if rng.below(3) == 0 {
                let data = pool.rows(&model.rows);
                let expected = fresh
                    .entry(model.rows.clone())
                    .or_insert_with(|| face::solo::<F>(&source, &config, Matrix::dense(&data, DIM)));
                assert_eq!(results::<F>(channel), *expected, "{name}");
            }
        }
    }
}
