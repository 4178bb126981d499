//! A stream that has run for a while takes no memory from the allocator but for the labels that it keeps.

#[path = "support/noting.rs"]
mod noting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koshi::Result;
use koshi::search::Rows;
use koshi::transducer::{Model, Part, ScoreKind, SearchKind, Shape, Transducer, TransducerConfig};

/// Scores by a hash of the frame and the last labels; takes no memory.
#[derive(Default)]
struct Hash {
    calls: AtomicU64,
}

const VOCAB: usize = 40;

fn value(seed: u64) -> f32 {
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / (1u64 << 24) as f32
}

impl Model for Hash {
    fn shape(&self) -> Shape {
        let scores = ScoreKind::Logits;
        Shape { vocab_size: VOCAB, blank: 0, encoder_dim: 1, output_dim: 1, scores, has_lm: true }
    }

    fn predict(&self, states_in: &[u64], labels: &[i32], states_out: &mut [u64], outputs: &mut [f32]) -> Result<()> {
        for (((state, label), out), output) in states_in.iter().zip(labels).zip(states_out).zip(outputs) {
            *out = (state * 41 + *label as u64) % 1681;
            *output = *out as f32;
        }
        Ok(())
    }

    fn join(&self, encoder: &[f32], outputs: &[f32], _: usize, scores: &mut [f32]) -> Result<()> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        for ((frame, output), scores) in encoder.iter().zip(outputs).zip(scores.chunks_mut(VOCAB)) {
            let seed = *frame as u64 * 2003 + *output as u64 * 59;
            scores.iter_mut().enumerate().for_each(|(label, score)| *score = 4.0 * value(seed + label as u64));
            scores[1 + seed as usize % (VOCAB - 1)] = 7.0;
            scores[0] = if (*frame as u64 + *output as u64).is_multiple_of(4) { 3.0 } else { 9.0 };
        }
        Ok(())
    }

    fn lm_predict(&self, _: &[u64], labels: &[i32], states_out: &mut [u64], log_probs: &mut [f32]) -> Result<()> {
        states_out.fill(3);
        for (label, row) in labels.iter().zip(log_probs.chunks_mut(VOCAB)) {
            row.iter_mut().enumerate().for_each(|(at, score)| *score = -value(*label as u64 * 77 + at as u64));
        }
        Ok(())
    }

    fn release_state(&self, _: Part, _: u64) {}
}

#[test]
fn later_rows_take_next_to_no_memory() {
    let frames: Vec<f32> = (0..4000).map(|frame| frame as f32).collect();
    let rows = Rows::dense(&frames, 1).unwrap();
    for search in [SearchKind::Greedy, SearchKind::Default, SearchKind::Tsd, SearchKind::Alsd, SearchKind::Nsc] {
        let config = TransducerConfig {
            search,
            beam: 8,
            lm_weight: 0.3,
            max_sym_exp: 3,
            nstep: 2,
            prefix_alpha: 2,
            u_max: 4000,
            max_cached: 256,
            ..TransducerConfig::default()
        };
        let model = Arc::new(Hash::default());
        let mut stream = Transducer::new(Box::new(Arc::clone(&model))).unwrap().new_stream(&config).unwrap();
        let mut taken = Vec::new();
        let mut asked = Vec::new();
        for half in 0..2 {
            let before = (noting::count(), model.calls.load(Ordering::Relaxed));
            for at in (half * 2000..half * 2000 + 2000).step_by(5) {
                stream.push(rows.slice(at, 5)).unwrap();
            }
            // One list of the streams in the batch, a push.
            taken.push(noting::count() - before.0 - 400);
            asked.push(model.calls.load(Ordering::Relaxed) - before.1);
        }
        let labels = stream.partial().unwrap().0.list[0].labels.len();
        assert!(asked[1] >= 1900 && labels > 100, "the search had work to do: {asked:?}, {labels} labels");
        assert!(taken[0] > 10, "the counter counts: {taken:?}");
        assert!(taken[1] <= 8, "{search:?}: {taken:?}");
    }
}
