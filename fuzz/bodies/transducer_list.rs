//! N-best lists of the C face, read whole.

use std::ptr;

use koshi::ffi::*;

use super::transducer_net::VOCAB;

/// A hypothesis, floats as bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    pub labels: Vec<i32>,
    frames: Vec<u32>,
    parts: [Vec<u32>; 3],
    scores: [u64; 4],
}

impl Hypothesis {
    /// The labels of both, with the scores of the second, which are those of the whole.
    pub fn then(mut self, rest: &Hypothesis) -> Hypothesis {
        self.labels.extend(&rest.labels);
        self.frames.extend(&rest.frames);
        self.parts.iter_mut().zip(&rest.parts).for_each(|(all, part)| all.extend(part));
        self.scores = rest.scores;
        self
    }
}

pub fn read_list(list: *mut koshi_hypotheses) -> Vec<Hypothesis> {
    fn array<T: Copy>(from: impl Fn(&mut usize) -> *const T, len: usize) -> Vec<T> {
        let mut found = 7;
        let data = from(&mut found);
        assert!(found == len && (len == 0 || !data.is_null()), "{found} of {len}");
        // SAFETY: an array of the library's, which lives as long as its list.
        if len == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(data, len) }.to_vec() }
    }
    // SAFETY: a live list, places for results.
    unsafe {
        let count = usize::try_from(koshi_hypotheses_len(list)).expect("a live list");
        assert!(koshi_hypotheses_labels(list, count, ptr::null_mut()).is_null());
        assert!(koshi_hypotheses_score(list, count).is_nan());
        let sum: f64 = (0..count).map(|at| koshi_hypotheses_posterior(list, at)).sum();
        assert!(count == 0 || (sum - 1.0).abs() < 1e-6, "posteriors sum to {sum}");
        let one = |at: usize| {
            let mut len = 0;
            koshi_hypotheses_labels(list, at, &mut len);
            let labels = array(|found| koshi_hypotheses_labels(list, at, found), len);
            assert!(labels.iter().all(|label| (1..VOCAB as i32).contains(label)));
            let bits = |values: Vec<f32>| values.iter().map(|value| value.to_bits()).collect();
            let scores = [
                koshi_hypotheses_score(list, at),
                koshi_hypotheses_normalised_score(list, at),
                koshi_hypotheses_full_score(list, at),
                f64::from(koshi_hypotheses_finished(list, at)),
            ];
            assert!(scores.iter().all(|score| !score.is_nan()), "{scores:?}");
            let frames = array(|found| koshi_hypotheses_frames(list, at, found), len);
            assert!(frames.is_sorted());
            Hypothesis {
                labels,
                frames,
                parts: [
                    bits(array(|found| koshi_hypotheses_log_probs(list, at, found), len)),
                    bits(array(|found| koshi_hypotheses_lm_scores(list, at, found), len)),
                    bits(array(|found| koshi_hypotheses_bias_scores(list, at, found), len)),
                ],
                scores: scores.map(f64::to_bits),
            }
        };
        (0..count).map(one).collect()
    }
}
