//! What a transducer says of every label sequence, by trying all alignments.

use std::collections::BTreeMap;

use koshi::transducer::ScoreKind;

use super::Net;

/// Log-probabilities of a row, in double precision.
fn log_probs(net: &dyn Net, utterance: usize, frame: usize, history: &[i32]) -> Vec<f64> {
    let scores = net.scores(utterance, frame, history);
    match net.kind() {
        ScoreKind::LogProbs => scores.into_iter().map(f64::from).collect(),
        ScoreKind::Logits => {
            let sum: f64 = scores.iter().map(|score| f64::from(*score).exp()).sum();
            scores.into_iter().map(|score| f64::from(score) - sum.ln()).collect()
        }
    }
}

/// All ways through an utterance with at most `per_frame` labels a frame and `most` in all: labels with
/// their frames, and the score.
pub fn alignments(
    net: &dyn Net,
    utterance: usize,
    frames: usize,
    per_frame: usize,
    most: usize,
    lm_weight: f32,
) -> Vec<(Vec<(i32, u32)>, f64)> {
    let mut found = Vec::new();
    let mut open = vec![(Vec::new(), 0.0, 0, 0)];
    while let Some((labels, score, frame, here)) = open.pop() {
        if frame == frames {
            found.push((labels, score));
            continue;
        }
        let history: Vec<i32> = labels.iter().map(|(label, _)| *label).collect();
        let row = log_probs(net, utterance, frame, &history);
        let lm = if lm_weight == 0.0 { vec![0.0; net.vocab()] } else { net.lm(&history) };
        for (label, log_prob) in row.into_iter().enumerate().filter(|(_, log_prob)| *log_prob > f64::NEG_INFINITY) {
            if label as i32 == net.blank() {
                open.push((labels.clone(), score + log_prob, frame + 1, 0));
            } else if here < per_frame && labels.len() < most {
                let mut longer = labels.clone();
                longer.push((label as i32, frame as u32));
                open.push((longer, score + log_prob + f64::from(lm_weight * lm[label]), frame, here + 1));
            }
        }
    }
    found
}

/// The same with the alignments of each label sequence added up, best first; with each its best alignment's frames.
pub fn sequences(alignments: &[(Vec<(i32, u32)>, f64)]) -> Vec<(Vec<i32>, f64, Vec<u32>)> {
    let mut sums: BTreeMap<Vec<i32>, (f64, f64, Vec<u32>)> = BTreeMap::new();
    for (labels, score) in alignments {
        let (labels, frames): (Vec<i32>, Vec<u32>) = labels.iter().copied().unzip();
        let entry = sums.entry(labels).or_insert((0.0, f64::NEG_INFINITY, Vec::new()));
        entry.0 += score.exp();
        if *score > entry.1 {
            (entry.1, entry.2) = (*score, frames);
        }
    }
    let mut list: Vec<_> = sums.into_iter().map(|(labels, (sum, _, frames))| (labels, sum.ln(), frames)).collect();
    list.sort_by(|one, two| two.1.total_cmp(&one.1));
    list
}

/// [`sequences`] of all [`alignments`].
pub fn exhaustive_scores(
    net: &dyn Net,
    utterance: usize,
    frames: usize,
    per_frame: usize,
    most: usize,
    lm_weight: f32,
) -> Vec<(Vec<i32>, f64, Vec<u32>)> {
    sequences(&alignments(net, utterance, frames, per_frame, most, lm_weight))
}
