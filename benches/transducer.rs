//! What transducer searches cost a frame, the caller's networks not counted.
//!
//! Rows of scores come out of a pool, so that a callback is a copy; the time in callbacks is measured
//! and taken off. The rows are like those of a trained model: now and then a label is due, with a few that
//! compete, and the blank is sure until the next one. With `PYTHON` set to an interpreter that has numpy, `benches/transducer_peer.py` runs
//! the same searches on the same rows in turn, the best hypotheses are compared, and the ratio is printed.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use koshi::Result;
use koshi::search::Rows;
use koshi::transducer::{Model, Part, ScoreKind, SearchKind, Shape, Transducer, TransducerConfig};

const FRAMES: usize = 60;
const POOL: usize = 512;

struct Pool {
    vocab: usize,
    rows: Vec<f32>,
    /// Nanoseconds in callbacks.
    inside: AtomicU64,
}

impl Pool {
    fn new(vocab: usize) -> Pool {
        // A value by its place, so that the Python program has the same ones.
        let random = |at: usize| {
            let mixed = ((at as u64) ^ 0x9e37_79b9).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (((mixed ^ (mixed >> 29)) >> 16) & 0xff_ffff) as f32 / (1u64 << 24) as f32
        };
        let mut rows: Vec<f32> = (0..POOL * vocab).map(|at| 2.0 * random(at)).collect();
        for (row, scores) in rows.chunks_exact_mut(vocab).enumerate() {
            scores[0] = if row.is_multiple_of(5) { 8.0 } else { 14.0 };
            for nth in 0..3 {
                let at = POOL * vocab + 2 * (3 * row + nth);
                let label = 1 + (random(at) * (vocab - 1) as f32) as usize;
                scores[label.min(vocab - 1)] = if row.is_multiple_of(5) { 9.0 + 4.0 * random(at + 1) } else { 6.0 };
            }
        }
        Pool { vocab, rows, inside: AtomicU64::new(0) }
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
            for (((state, label), out), output) in states_in.iter().zip(labels).zip(states_out).zip(outputs) {
                // Number of labels, and what they are.
                let (count, hash) = (state >> 12, state & 4095);
                *out = ((count + u64::from(*label != 0)) << 12) | ((hash * 31 + *label as u64 + 7) % 4096);
                *output = *out as f32;
            }
        })
    }

    fn join(&self, encoder: &[f32], outputs: &[f32], _: usize, scores: &mut [f32]) -> Result<()> {
        self.timed(|| {
            for ((frame, output), scores) in encoder.iter().zip(outputs).zip(scores.chunks_mut(self.vocab)) {
                let (frame, output) = (*frame as usize, *output as usize);
                let (count, hash) = (output >> 12, output & 4095);
                let due = frame.is_multiple_of(5) && 5 * count <= frame;
                let row = (frame * 5 + hash * 25) % POOL / 5 * 5 + usize::from(!due);
                scores.copy_from_slice(&self.rows[row * self.vocab..(row + 1) * self.vocab]);
            }
        })
    }

    fn release_state(&self, _: Part, _: u64) {}
}

const SEARCHES: [(&str, SearchKind); 5] = [
    ("greedy", SearchKind::Greedy),
    ("default", SearchKind::Default),
    ("tsd", SearchKind::Tsd),
    ("alsd", SearchKind::Alsd),
    ("nsc", SearchKind::Nsc),
];

/// What a search cost, in microseconds a frame without the callbacks, and its best hypothesis.
struct Figure {
    micros: f64,
    labels: usize,
    score: f64,
    /// Rows of scores a frame.
    rows: f64,
}

/// The least of many times `rounds` searches: what else runs on the machine only adds to it.
fn ours(pool: &Arc<Pool>, search: SearchKind, beam: u32, rounds: u32) -> Figure {
    let transducer = Transducer::new(Box::new(Arc::clone(pool))).unwrap();
    let frames: Vec<f32> = (0..FRAMES).map(|frame| frame as f32).collect();
    let config = TransducerConfig { search, beam, max_sym_exp: 3, nstep: 2, u_max: 100, ..Default::default() };
    let mut best = (0, 0.0);
    let mut least = f64::INFINITY;
    for _ in 0..if rounds > 1 { 60 } else { 1 } {
        pool.inside.store(0, Ordering::Relaxed);
        let start = Instant::now();
        for _ in 0..rounds {
            let found = transducer.search(&config, &[Rows::dense(&frames, 1).unwrap()]).unwrap().remove(0).unwrap();
            best = (found.list[0].labels.len(), found.list[0].score);
        }
        let all = start.elapsed();
        let inside = Duration::from_nanos(pool.inside.load(Ordering::Relaxed));
        least = least.min(all.saturating_sub(inside).as_secs_f64() * 1e6 / f64::from(rounds) / FRAMES as f64);
    }
    let before = transducer.call_counts().join_rows;
    transducer.search(&config, &[Rows::dense(&frames, 1).unwrap()]).unwrap().remove(0).unwrap();
    let rows = (transducer.call_counts().join_rows - before) as f64 / FRAMES as f64;
    Figure { micros: least, labels: best.0, score: best.1, rows }
}

/// The same in plain Python, or by ESPnet's own searches where `ESPNET` is a folder that they are in.
fn peer(python: &str, name: &str, vocab: usize, beam: u32) -> Figure {
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/benches");
    let script = if std::env::var_os("ESPNET").is_some() { "transducer_espnet.py" } else { "transducer_peer.py" };
    let script = format!("{scripts}/{script}");
    let output = Command::new(python).args([&script, name, &vocab.to_string(), &beam.to_string()]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.split_whitespace().map(|word| word.parse::<f64>().unwrap());
    let mut next = || numbers.next().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    Figure { micros: next(), labels: next() as usize, score: next(), rows: 0.0 }
}

fn main() {
    let real = std::env::args().any(|argument| argument == "--bench");
    let python = std::env::var("PYTHON").ok().filter(|_| real);
    println!("vocabulary beam search   us/frame rows/frame  Python  ratio  labels");
    for vocab in if real { vec![500, 5_000] } else { vec![40] } {
        let pool = Arc::new(Pool::new(vocab));
        for beam in [4, 16] {
            for (name, search) in SEARCHES {
                let found = ours(&pool, search, beam, if real { 4 } else { 1 });
                print!("{vocab:10} {beam:4} {name:8} {:8.2} {:10.1}", found.micros, found.rows);
                if let Some(python) = &python {
                    let other = peer(python, name, vocab, beam);
                    print!(" {:7.0} {:6.0}", other.micros, other.micros / found.micros);
                    let same = found.labels == other.labels && (found.score - other.score).abs() < 0.01;
                    let both = (found.labels, found.score, other.labels, other.score);
                    assert!(same, "{name} finds something else: {both:?}");
                }
                println!(" {:7}", found.labels);
            }
        }
    }
}
