//! What transducer searches cost a frame, the caller's networks not counted.
//!
//! Rows of scores come out of a pool, so that a callback is a copy; the time in callbacks is measured
//! and taken off. The rows are like those of a trained model: a sure blank in most frames, a few labels
//! that compete in the others. `benches/transducer_peer.py` runs the same searches in plain Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use koshi::Result;
use koshi::search::Rows;
use koshi::transducer::{Model, Part, ScoreKind, SearchKind, Shape, Transducer, TransducerConfig};

const FRAMES: usize = 200;
const POOL: usize = 512;

struct Pool {
    vocab: usize,
    rows: Vec<f32>,
    next: AtomicU64,
    /// Nanoseconds in callbacks.
    inside: AtomicU64,
}

impl Pool {
    fn new(vocab: usize) -> Pool {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 24) as f32
        };
        let mut rows = Vec::with_capacity(POOL * vocab);
        for row in 0..POOL {
            let start = rows.len();
            rows.extend((0..vocab).map(|_| 2.0 * random()));
            rows[start] = if row.is_multiple_of(5) { 8.0 } else { 14.0 };
            for _ in 0..3 {
                let label = 1 + (random() * (vocab - 1) as f32) as usize;
                rows[start + label.min(vocab - 1)] = if row.is_multiple_of(5) { 9.0 + 4.0 * random() } else { 6.0 };
            }
        }
        Pool { vocab, rows, next: AtomicU64::new(0), inside: AtomicU64::new(0) }
    }

    fn timed(&self, body: impl FnOnce()) -> Result<()> {
        let start = Instant::now();
        body();
        self.inside.fetch_add(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
        Ok(())
    }
}

impl Model for Pool {
    fn shape(&self) -> Shape {
        Shape {
            vocab_size: self.vocab,
            blank: 0,
            encoder_dim: 1,
            output_dim: 1,
            scores: ScoreKind::Logits,
            has_lm: false,
        }
    }

    fn predict(&self, states_in: &[u64], labels: &[i32], states_out: &mut [u64], outputs: &mut [f32]) -> Result<()> {
        self.timed(|| {
            self.next.fetch_add(labels.len() as u64, Ordering::Relaxed);
            for (((state, label), out), output) in states_in.iter().zip(labels).zip(states_out).zip(outputs) {
                *out = (state * 31 + *label as u64 + 7) % 65_536;
                *output = *out as f32;
            }
        })
    }

    fn join(&self, encoder: &[f32], outputs: &[f32], _: usize, scores: &mut [f32]) -> Result<()> {
        self.timed(|| {
            for ((frame, output), scores) in encoder.iter().zip(outputs).zip(scores.chunks_mut(self.vocab)) {
                // A frame is blank for all histories or for none.
                let row =
                    (*frame as usize * 5 + (*output as usize * 25) + usize::from(!(*frame as usize).is_multiple_of(5)))
                        % POOL;
                let row = if (*frame as usize).is_multiple_of(5) { row / 5 * 5 } else { row };
                scores.copy_from_slice(&self.rows[row * self.vocab..(row + 1) * self.vocab]);
            }
        })
    }

    fn release_state(&self, _: Part, _: u64) {}
}

fn searches(criterion: &mut Criterion) {
    let frames: Vec<f32> = (0..FRAMES).map(|frame| frame as f32).collect();
    let rows = Rows::dense(&frames, 1).unwrap();
    for vocab in [500, 5_000] {
        let pool = Arc::new(Pool::new(vocab));
        let transducer = Transducer::new(Box::new(Arc::clone(&pool))).unwrap();
        for beam in [4, 16] {
            let mut group = criterion.benchmark_group(format!("transducer, vocabulary {vocab}, beam {beam}"));
            group.throughput(Throughput::Elements(FRAMES as u64));
            for (name, search) in [
                ("greedy", SearchKind::Greedy),
                ("default", SearchKind::Default),
                ("tsd", SearchKind::Tsd),
                ("alsd", SearchKind::Alsd),
                ("nsc", SearchKind::Nsc),
            ] {
                let config =
                    TransducerConfig { search, beam, max_sym_exp: 3, nstep: 2, u_max: 100, ..Default::default() };
                group.bench_function(BenchmarkId::from_parameter(name), |bench| {
                    bench.iter_custom(|rounds| {
                        let mut total = Duration::ZERO;
                        for _ in 0..rounds {
                            pool.inside.store(0, Ordering::Relaxed);
                            let start = Instant::now();
                            let found = transducer.search(&config, &[rows]).unwrap();
                            let all = start.elapsed();
                            assert!(found[0].is_ok());
                            total += all.saturating_sub(Duration::from_nanos(pool.inside.load(Ordering::Relaxed)));
                        }
                        total
                    });
                });
            }
            group.finish();
        }
    }
}

criterion_group! {
    name = transducer;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_millis(800));
    targets = searches
}
criterion_main!(transducer);
