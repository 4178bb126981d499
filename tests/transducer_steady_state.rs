//! A stream that has run for a while takes no memory from the allocator but for the labels that it keeps, and
//! keeps none that were committed.

#[path = "support/noting.rs"]
mod noting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use koshi::Result;
use koshi::search::Rows;
use koshi::transducer::{
    Hypothesis, Model, Part, Phrase, ScoreKind, SearchKind, Shape, Stream, Transducer, TransducerConfig,
};

/// Scores by a hash of the frame and the last labels, about a label in three frames; takes no memory.
struct Hash {
    vocab: usize,
    calls: AtomicU64,
}

impl Hash {
    fn new(vocab: usize) -> Hash {
        Hash { vocab, calls: AtomicU64::new(0) }
    }
}

fn value(seed: u64) -> f32 {
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / (1u64 << 24) as f32
}

impl Model for Hash {
    fn shape(&self) -> Shape {
        let scores = ScoreKind::Logits;
        Shape { vocab_size: self.vocab, blank: 0, encoder_dim: 1, output_dim: 2, scores, has_lm: true }
    }

    fn predict(&self, states_in: &[u64], labels: &[i32], states_out: &mut [u64], outputs: &mut [f32]) -> Result<()> {
        // How many labels there were, and what the last two are.
        for (((state, label), out), output) in
            states_in.iter().zip(labels).zip(states_out).zip(outputs.chunks_exact_mut(2))
        {
            let count = if *label == 0 { 0 } else { (state >> 16) + 1 };
            let recent = ((state & 0xffff) * 41 + *label as u64) % 1681;
            *out = count << 16 | recent;
            output.copy_from_slice(&[count as f32, recent as f32]);
        }
        Ok(())
    }

    fn join(&self, encoder: &[f32], outputs: &[f32], _: usize, scores: &mut [f32]) -> Result<()> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let rows = outputs.chunks_exact(2).zip(scores.chunks_exact_mut(self.vocab));
        for (frame, (output, scores)) in encoder.iter().zip(rows) {
            let seed = *frame as u64 * 2003 + output[1] as u64 * 59;
            scores.iter_mut().enumerate().for_each(|(label, score)| *score = 4.0 * value(seed + label as u64));
            scores[1 + seed as usize % (self.vocab - 1)] = 7.0;
            scores[0] = if output[0] * 3.0 < *frame { 3.0 } else { 9.0 };
        }
        Ok(())
    }

    fn lm_predict(&self, _: &[u64], labels: &[i32], states_out: &mut [u64], log_probs: &mut [f32]) -> Result<()> {
        states_out.fill(3);
        for (label, row) in labels.iter().zip(log_probs.chunks_mut(self.vocab)) {
            row.iter_mut().enumerate().for_each(|(at, score)| *score = -value(*label as u64 * 77 + at as u64));
        }
        Ok(())
    }

    fn release_state(&self, _: Part, _: u64) {}
}

const SEARCHES: [SearchKind; 5] =
    [SearchKind::Greedy, SearchKind::Default, SearchKind::Tsd, SearchKind::Alsd, SearchKind::Nsc];

#[test]
fn later_rows_take_next_to_no_memory() {
    let frames: Vec<f32> = (0..4000).map(|frame| frame as f32).collect();
    let rows = Rows::dense(&frames, 1).unwrap();
    for search in SEARCHES {
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
        let model = Arc::new(Hash::new(40));
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

/// Adds the labels of `more` to `all`, and what goes with them.
fn append(all: &mut Hypothesis, more: &Hypothesis) {
    all.labels.extend(&more.labels);
    all.frames.extend(&more.frames);
    all.log_probs.extend(&more.log_probs);
    all.lm_scores.extend(&more.lm_scores);
    all.bias_scores.extend(&more.bias_scores);
}

/// Room for `count` labels.
fn roomy(count: usize) -> Hypothesis {
    let mut made = Hypothesis { labels: Vec::with_capacity(count), ..Hypothesis::default() };
    made.frames.reserve(count);
    for list in [&mut made.log_probs, &mut made.lm_scores, &mut made.bias_scores] {
        list.reserve(count);
    }
    made
}

const FRAMES: usize = 200_000;

/// Pushes all frames, and commits now and then; what was committed, and the memory held after each quarter.
fn long_run(stream: &mut Stream, commits: bool) -> (Hypothesis, [i64; 4]) {
    let mut committed = roomy(FRAMES);
    let mut held = [0; 4];
    let start = noting::held();
    for at in (0..FRAMES).step_by(10) {
        let frames: [f32; 10] = std::array::from_fn(|frame| (at + frame) as f32);
        stream.push(Rows::dense(&frames, 1).unwrap()).unwrap();
        if commits && at % 50 == 0 {
            let (partial, stable) = stream.partial().unwrap();
            let more = stream.commit().unwrap();
            let labels = &partial.list[0].labels;
            assert!(more.labels.len() <= stable && labels.starts_with(&more.labels));
            assert!(labels.len() < 400, "a partial result tells what is new, not {} labels", labels.len());
            append(&mut committed, &more);
        }
        if (at + 10) % (FRAMES / 4) == 0 {
            held[at * 4 / FRAMES] = noting::held() - start;
        }
    }
    (committed, held)
}

#[test]
fn an_endless_stream_needs_no_more_memory() {
    for search in SEARCHES {
        let config = TransducerConfig {
            search,
            beam: 3,
            lm_weight: 0.3,
            u_max: FRAMES as u32,
            nstep: 2,
            prefix_alpha: 2,
            max_cached: 100,
            commit_frames: 30,
            nbest: 3,
            ..TransducerConfig::default()
        };
        let transducer = Transducer::new(Box::new(Hash::new(8))).unwrap();
        let phrases = [[1, 7], [7, 3]];
        transducer.set_phrases(&phrases.each_ref().map(|labels| Phrase { labels, bonus: 0.7 })).unwrap();
        let mut stream = transducer.new_stream(&config).unwrap();
        let (committed, held) = long_run(&mut stream, true);
        let found = stream.finish().unwrap();
        assert!(committed.labels.len() > FRAMES / 8, "{search:?}: {}", committed.labels.len());
        // A quarter adds tens of thousands of labels, of 36 bytes each.
        assert!(held[3] - held[0] < 20_000 && held[3] < 200_000, "{search:?}: {held:?}");
        let mut stream = transducer.new_stream(&config).unwrap();
        let (_, held) = long_run(&mut stream, false);
        assert!(held[3] - held[0] > 400_000, "{search:?}: what is not committed is kept: {held:?}");
        let wanted = stream.finish().unwrap();
        assert_eq!(found.list.len(), wanted.list.len());
        for (found, wanted) in found.list.into_iter().zip(wanted.list) {
            let mut whole = Hypothesis { labels: committed.labels.clone(), ..found.clone() };
            for (list, begin) in [
                (&mut whole.log_probs, &committed.log_probs),
                (&mut whole.lm_scores, &committed.lm_scores),
                (&mut whole.bias_scores, &committed.bias_scores),
            ] {
                list.clone_from(begin);
            }
            whole.frames.clone_from(&committed.frames);
            append(&mut whole, &found);
            assert!(whole == wanted, "{search:?}: with commits it is the same bit for bit");
        }
    }
}
