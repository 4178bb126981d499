//! Rows of the list of inputs that broke other decoders: transducer searches.

mod common;
#[path = "common/transducer/mod.rs"]
mod transducer;

use std::sync::Arc;

use koshi::transducer::{Phrase, ScoreKind, TransducerConfig};
use transducer::{
    Face, Item, Matrix, Net, Random, SearchKind, Status, Table, Toy, all_kinds, best, exhaustive_scores, rows, search,
};

over_both_transducer_faces! {
    case_b4_row_of_length_0
    case_b63_batched_streams_keep_their_frames
    case_b80_frame_0_is_used
    case_b81_equal_labels_become_one
    case_b82_beam_at_and_above_the_vocabulary
    case_b83_exit_of_the_default_search
    case_b84_labels_per_frame_of_greedy
    case_b85_nsc_counts_the_closing_blank
    case_b87_the_last_label_stays
    case_b88_nothing_finished
    case_b89_blank_never_among_the_best
    case_b90_caps_of_greedy
    case_b91_a_cap_of_one_skips_no_frame
    case_b93_merging_with_a_language_model_of_zeros
    case_b95_the_start_context
    case_b96_log_probabilities_and_frames
    case_b97_phrases_that_are_not_completed
    case_b99_a_constant_language_model
    case_b100_times_after_merging
}

fn with(search: SearchKind) -> TransducerConfig {
    TransducerConfig {
        search,
        beam: 4,
        max_sym_exp: 3,
        nstep: 2,
        prefix_alpha: 2,
        nbest: 10,
        ..TransducerConfig::default()
    }
}

const BEAMS: [SearchKind; 4] = [SearchKind::Default, SearchKind::Tsd, SearchKind::Alsd, SearchKind::Nsc];

/// Probabilities by a function of utterance, frame and history.
fn toy(
    vocab: usize,
    probs: impl Fn(usize, usize, &[i32]) -> Vec<f32> + Send + Sync + 'static,
) -> Arc<Toy<impl Net + 'static>> {
    let logs = move |utterance: usize, frame: usize, history: &[i32]| {
        probs(utterance, frame, history).into_iter().map(f32::ln).collect()
    };
    Arc::new(Toy::new(Table { vocab, blank: 0, kind: ScoreKind::LogProbs, scores: logs, lm: None }))
}

/// Blank and label 1 in a vocabulary of five, so that a beam has room for more than two.
fn of_five(two: [f32; 2]) -> Vec<f32> {
    vec![two[0], two[1], 0.0, 0.0, 0.0]
}

fn close(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 1e-5, "{found} for {wanted}");
}

fn case_b4_row_of_length_0<F: Face>() {
    // Label 1 whatever comes, but for a blank once a history has three.
    let net = |_: usize, _: usize, history: &[i32]| {
        if history.len() < 3 { vec![0.1, 0.9] } else { vec![1.0, 0.0] }
    };
    for config in all_kinds() {
        let model = toy(2, net);
        let transducer = F::transducer(model.clone()).unwrap();
        let data = rows(1, 4);
        let (none, four) = (Matrix { data: &[], frames: 0, dim: 2, stride: 2 }, Matrix::dense(&data, 2));
        let alone = search::<F>(toy(2, net), &config, four).unwrap();
        // Rows behind those that are counted are never looked at.
        let padded = Matrix { data: &data, frames: 0, dim: 2, stride: 2 };
        for utterances in [[none, four, none], [padded, four, padded]] {
            let found = F::search(&transducer, &config, &utterances).unwrap();
            assert_eq!(found[1].clone().unwrap(), alone);
            assert!(!alone.list[0].labels.is_empty(), "{config:?}");
            for at in [0, 2] {
                let found = found[at].clone().unwrap();
                assert!(!found.partial && found.list.len() == 1);
                let best = &found.list[0];
                assert!(best.labels.is_empty() && best.finished && best.score == 0.0 && best.posterior == 1.0);
            }
        }
        assert_eq!(model.living(), 0);
    }
}

fn case_b63_batched_streams_keep_their_frames<F: Face>() {
    for config in all_kinds() {
        let config = TransducerConfig { lm_weight: 0.3, nbest: 5, ..config };
        let net = Random { most: 4, ..Random::new(11, 6) };
        let data: Vec<Vec<f32>> = (0..3).map(|utterance| rows(utterance, 9 + utterance)).collect();
        let alone: Vec<_> = data
            .iter()
            .map(|data| search::<F>(Arc::new(Toy::new(net)), &config, Matrix::dense(data, 2)).unwrap())
            .collect();
        let model = Arc::new(Toy::new(net));
        let transducer = F::transducer(model.clone()).unwrap();
        let mut streams: Vec<_> = (0..3).map(|_| F::stream(&transducer, &config).unwrap()).collect();
        // Stream 1 begins two batches after stream 0, stream 2 takes rows in other pieces.
        let mut at = [0usize; 3];
        for round in 0..12 {
            let mut items = Vec::new();
            for (stream, stream_at) in streams.iter_mut().enumerate().map(|(at, stream)| (stream, at)) {
                let total = data[stream_at].len() / 2;
                let count = [1, if round < 2 { 0 } else { 2 }, round % 3][stream_at].min(total - at[stream_at]);
                let rows = Matrix::dense(&data[stream_at], 2).part(at[stream_at], at[stream_at] + count);
                at[stream_at] += count;
                items.push(Item { stream, rows, last: false });
            }
            for outcome in F::advance(&transducer, items).unwrap() {
                outcome.unwrap();
            }
        }
        for ((stream, wanted), (data, at)) in streams.iter_mut().zip(&alone).zip(data.iter().zip(at)) {
            F::push(stream, Matrix::dense(data, 2).part(at, data.len() / 2)).unwrap();
            assert_eq!(&F::finish(stream).unwrap(), wanted, "{config:?}");
        }
        assert_eq!(model.living(), 0);
    }
}

fn case_b80_frame_0_is_used<F: Face>() {
    let model =
        toy(2, |_, frame, history| if frame == 0 && history.is_empty() { vec![0.1, 0.9] } else { vec![1.0, 0.0] });
    let found = best::<F>(model, &with(SearchKind::Alsd), Matrix::dense(&rows(0, 2), 2));
    assert_eq!((found.labels, found.frames), (vec![1], vec![0]));
    close(found.score, 0.9f64.ln());
}

fn case_b81_equal_labels_become_one<F: Face>() {
    // Label 1 at frame 0 (0.2) or at frame 1 (0.8 * 0.375 = 0.3).
    let net = |_: usize, frame: usize, history: &[i32]| {
        of_five(match (frame, history.len()) {
            (0, 0) => [0.8, 0.2],
            (1, 0) => [0.625, 0.375],
            _ => [1.0, 0.0],
        })
    };
    for kind in [SearchKind::Tsd, SearchKind::Alsd, SearchKind::Nsc] {
        let found = search::<F>(toy(5, net), &with(kind), Matrix::dense(&rows(0, 2), 2)).unwrap();
        let ones: Vec<_> = found.list.iter().filter(|entry| entry.labels == [1]).collect();
        assert_eq!(ones.len(), 1, "{kind:?}");
        close(ones[0].score, 0.5f64.ln());
        let total: f64 = found.list.iter().map(|entry| entry.posterior).sum();
        close(total, 1.0);
    }
}

fn case_b82_beam_at_and_above_the_vocabulary<F: Face>() {
    let net = Random { most: 3, ..Random::new(3, 3) };
    for config in all_kinds() {
        let list = |beam: u32| {
            let config = TransducerConfig { beam, nbest: 20, ..config };
            search::<F>(Arc::new(Toy::new(net)), &config, Matrix::dense(&rows(0, 4), 2)).unwrap().list
        };
        let (three, ten, huge) = (list(3), list(10), list(u32::MAX));
        assert!(three == ten && three == huge, "{config:?}: the vocabulary bounds the beam");
        for entry in three {
            assert!(entry.labels.iter().all(|label| (1..3).contains(label)), "{entry:?}");
        }
    }
}

fn case_b83_exit_of_the_default_search<F: Face>() {
    // One frame, one label: the probability of k labels is 0.3^k * 0.7.
    let model = toy(2, |_, _, _| vec![0.7, 0.3]);
    let config = TransducerConfig { beam: 2, score_norm: false, ..with(SearchKind::Default) };
    let found = search::<F>(model, &config, Matrix::dense(&rows(0, 1), 2)).unwrap();
    assert!(!found.partial);
    let labels: Vec<usize> = found.list.iter().map(|entry| entry.labels.len()).collect();
    assert_eq!(labels, [0, 1], "two closed ones beat all open ones, the best of which has 0.09");
    close(found.list[0].score, 0.7f64.ln());
    close(found.list[1].score, 0.21f64.ln());
    // With a label of 0.8 the open ones stay better for long: 0.2 has to beat 0.8^k for the first, 0.16 for the second.
    let model = toy(2, |_, _, _| vec![0.2, 0.8]);
    let found = search::<F>(model.clone(), &config, Matrix::dense(&rows(0, 1), 2)).unwrap();
    let scores: Vec<f64> = found.list.iter().map(|entry| entry.score.exp()).collect();
    close(scores[0], 0.2);
    close(scores[1], 0.16);
    assert_eq!(model.calls(2), 9, "0.8^9 is the first power below 0.16");
}

fn case_b84_labels_per_frame_of_greedy<F: Face>() {
    let net = |_: usize, _: usize, history: &[i32]| match history {
        [] => vec![0.1, 0.8, 0.1],
        [1] => vec![0.2, 0.1, 0.7],
        _ => vec![0.9, 0.05, 0.05],
    };
    for (cap, wanted, score) in [(1, vec![1], 0.8f64), (2, vec![1, 2], 0.56), (3, vec![1, 2], 0.56)] {
        let config = TransducerConfig { max_symbols_per_frame: cap, ..with(SearchKind::Greedy) };
        let found = best::<F>(toy(3, net), &config, Matrix::dense(&rows(0, 1), 2));
        assert_eq!(found.labels, wanted, "a cap of 1 is ESPnet's");
        close(found.score, score.ln());
        close(found.full_score, if cap == 3 { (score * 0.9).ln() } else { score.ln() });
    }
    // The beam searches find what greedy finds with a wide cap.
    for kind in BEAMS {
        let found = best::<F>(
            toy(3, net),
            &TransducerConfig { score_norm: false, ..with(kind) },
            Matrix::dense(&rows(0, 1), 2),
        );
        assert_eq!(found.labels, [1, 2], "{kind:?}");
    }
}

fn case_b85_nsc_counts_the_closing_blank<F: Face>() {
    let net = |_: usize, _: usize, history: &[i32]| if history.is_empty() { vec![0.4, 0.6] } else { vec![0.25, 0.75] };
    let config = TransducerConfig { score_norm: false, beam: 2, ..with(SearchKind::Nsc) };
    let list = |nstep: u32| {
        let config = TransducerConfig { nstep, ..config };
        search::<F>(toy(2, net), &config, Matrix::dense(&rows(0, 1), 2)).unwrap().list
    };
    // Two rounds: [1 1] is closed as well, 0.6 * 0.75 * 0.25.
    let two = list(2);
    assert_eq!(two.iter().map(|entry| entry.labels.len()).collect::<Vec<_>>(), [0, 1]);
    close(two[0].score, 0.4f64.ln());
    close(two[1].score, 0.15f64.ln());
    // One round: no blank behind the label, as in ESPnet and the reference lists.
    let one = list(1);
    assert_eq!(one[0].labels, [1]);
    close(one[0].score, 0.6f64.ln());
}

fn case_b87_the_last_label_stays<F: Face>() {
    let script = [1, 3, 2, 3];
    let model = move || {
        toy(4, move |_, frame, history| {
            let next = if history.len() == frame { script[frame] as usize } else { 0 };
            (0..4).map(|label| if label == next { 0.97 } else { 0.01 }).collect()
        })
    };
    for config in all_kinds() {
        let found = best::<F>(model(), &config, Matrix::dense(&rows(0, 4), 2));
        assert_eq!((found.labels, found.frames), (script.to_vec(), vec![0, 1, 2, 3]), "{config:?}");
    }
}

fn case_b88_nothing_finished<F: Face>() {
    // A label is always far better than the blank, and the beam has no room for both.
    let net = |_: usize, _: usize, _: &[i32]| vec![0.001, 0.999];
    for frames in [1, 3] {
        let config = TransducerConfig { beam: 1, u_max: 2, ..with(SearchKind::Alsd) };
        let found = search::<F>(toy(2, net), &config, Matrix::dense(&rows(0, frames), 2)).unwrap();
        // With one frame it is closed at each step: these results count although they are not in the beam.
        assert_eq!(found.list.len(), if frames == 1 { 3 } else { 1 });
        assert_eq!(found.list[0].finished, frames == 1);
        assert_eq!(found.partial, frames != 1);
        assert_eq!(found.list[0].labels.len(), if frames == 1 { 2 } else { frames + 2 });
    }
}

fn case_b89_blank_never_among_the_best<F: Face>() {
    let net = |_: usize, _: usize, _: &[i32]| vec![0.02, 0.49, 0.49];
    for (kind, partial) in [(SearchKind::Default, true), (SearchKind::Tsd, false), (SearchKind::Nsc, false)] {
        let config = TransducerConfig { beam: 2, ..with(kind) };
        let found = search::<F>(toy(3, net), &config, Matrix::dense(&rows(0, 3), 2)).unwrap();
        assert_eq!(found.partial, partial, "{kind:?}");
        assert!(found.list.iter().all(|entry| entry.finished && !entry.labels.contains(&0)));
    }
    // The cap of the default search is what is asked for.
    for cap in [1, 3] {
        let config = TransducerConfig { beam: 2, max_expansions_per_frame: cap, ..with(SearchKind::Default) };
        let model = toy(3, net);
        assert!(search::<F>(model.clone(), &config, Matrix::dense(&rows(0, 3), 2)).unwrap().partial);
        assert_eq!(model.calls(2), 3 * 2 * cap as usize);
    }
    let config = TransducerConfig { beam: 2, ..with(SearchKind::Alsd) };
    let found = search::<F>(toy(3, net), &config, Matrix::dense(&rows(0, 3), 2)).unwrap();
    assert!(found.partial && found.list.iter().all(|entry| !entry.finished));
}

fn case_b90_caps_of_greedy<F: Face>() {
    let net = |_: usize, _: usize, _: &[i32]| vec![0.0, 0.4, 0.6];
    for (cap, frames) in [(1, 5), (3, 4)] {
        let config = TransducerConfig { max_symbols_per_frame: cap, ..with(SearchKind::Greedy) };
        let found = best::<F>(toy(3, net), &config, Matrix::dense(&rows(0, frames), 2));
        assert_eq!(found.labels, vec![2; cap as usize * frames]);
    }
    let config = TransducerConfig { max_symbols_per_frame: 0, ..with(SearchKind::Greedy) };
    let fault = search::<F>(toy(3, net), &config, Matrix::dense(&rows(0, 2), 2)).unwrap_err();
    assert_eq!(fault.status, Status::KOSHI_E_CONFIG);
    assert!(fault.message.contains("max_symbols_per_frame"), "{}", fault.message);
}

fn case_b91_a_cap_of_one_skips_no_frame<F: Face>() {
    let net = |_: usize, _: usize, _: &[i32]| vec![0.1, 0.9];
    let found = best::<F>(toy(2, net), &with(SearchKind::Greedy), Matrix::dense(&rows(0, 3), 2));
    assert_eq!((found.labels, found.frames), (vec![1, 1, 1], vec![0, 1, 2]));
}

fn case_b93_merging_with_a_language_model_of_zeros<F: Face>() {
    let probs = |_: usize, frame: usize, history: &[i32]| {
        let row = of_five(match (frame, history.len()) {
            (0, 0) => [0.8, 0.2],
            (1, 0) => [0.625, 0.375],
            _ => [1.0, 0.0],
        });
        row.into_iter().map(f32::ln).collect()
    };
    for kind in [SearchKind::Tsd, SearchKind::Alsd, SearchKind::Nsc] {
        let net =
            Table { vocab: 5, blank: 0, kind: ScoreKind::LogProbs, scores: probs, lm: Some(|_: &[i32]| vec![0.0; 5]) };
        let config = TransducerConfig { lm_weight: 0.7, ..with(kind) };
        let found = search::<F>(Arc::new(Toy::new(net)), &config, Matrix::dense(&rows(0, 2), 2)).unwrap();
        let entry = found.list.iter().find(|entry| entry.labels == [1]).unwrap();
        close(entry.score, 0.5f64.ln());
        assert_eq!(entry.lm_scores, [0.0]);
    }
}

fn case_b95_the_start_context<F: Face>() {
    // The model checks itself that a history begins with the blank in state 0, whatever the blank is.
    for blank in [0, 2] {
        for config in all_kinds() {
            let net = Random { blank, most: 3, ..Random::new(9, 3) };
            let model = Arc::new(Toy::new(net));
            let config = TransducerConfig { lm_weight: 0.5, ..config };
            search::<F>(model.clone(), &config, Matrix::dense(&rows(0, 3), 2)).unwrap();
            assert!(model.handed_out() > 0 && model.living() == 0);
        }
    }
}

fn case_b96_log_probabilities_and_frames<F: Face>() {
    // 1 at frame 0 (0.9), 2 at frame 2 (0.8), 3 at frame 2 (0.7); blanks of 0.95.
    let net = |_: usize, frame: usize, history: &[i32]| match (frame, history) {
        (0, []) => vec![0.02, 0.9, 0.04, 0.04],
        (2, [1]) => vec![0.1, 0.05, 0.8, 0.05],
        (2, [1, 2]) => vec![0.1, 0.1, 0.1, 0.7],
        _ => vec![0.95, 0.01, 0.02, 0.02],
    };
    for config in all_kinds() {
        let found = best::<F>(toy(4, net), &config, Matrix::dense(&rows(0, 4), 2));
        assert_eq!((found.labels, found.frames), (vec![1, 2, 3], vec![0, 2, 2]), "{config:?}");
        let wanted = [0.9f32, 0.8, 0.7].map(f32::ln);
        for (found, wanted) in found.log_probs.iter().zip(wanted) {
            assert_eq!(*found, wanted);
        }
        assert_eq!(found.lm_scores, [0.0; 3]);
    }
}

fn case_b97_phrases_that_are_not_completed<F: Face>() {
    // 3 at frame 0, 1 at the last frame; blanks otherwise. Label 1 alone would also do at frames 1 and 2.
    let net = |_: usize, frame: usize, history: &[i32]| match (frame, history) {
        (0, []) => vec![0.05, 0.02, 0.03, 0.9],
        (3, [3]) => vec![0.1, 0.85, 0.03, 0.02],
        _ => vec![0.9, 0.05, 0.04, 0.01],
    };
    for kind in BEAMS {
        let config = TransducerConfig { score_norm: false, beam: 4, ..with(kind) };
        let plain = best::<F>(toy(4, net), &config, Matrix::dense(&rows(0, 4), 2));
        assert_eq!(plain.labels, [3, 1], "{kind:?}");
        let transducer = F::transducer(toy(4, net)).unwrap();
        F::set_bias(&transducer, &[Phrase { labels: &[1, 2], bonus: 5.0 }]).unwrap();
        let data = rows(0, 4);
        let found = F::search(&transducer, &config, &[Matrix::dense(&data, 2)]).unwrap().remove(0).unwrap();
        for entry in &found.list {
            let bias: f32 = entry.bias_scores.iter().sum();
            let completed = entry.labels.windows(2).filter(|pair| pair == &[1, 2]).count();
            let held = if entry.labels.last() == Some(&1) { 2.5 } else { 0.0 };
            assert_eq!(bias, 5.0 * completed as f32 + held, "{kind:?}: {entry:?}");
        }
        let same = found.list.iter().find(|entry| entry.labels == [3, 1]).expect("the tail is kept");
        assert!((same.score - plain.score).abs() < 0.05, "{kind:?}: what is only held does not count at the end");
        assert!(
            found.list.iter().all(|entry| !entry.labels.windows(2).any(|pair| pair == [1, 1])),
            "{kind:?}: no loop"
        );
        // A phrase that is spoken is found although the network alone prefers another label.
        let spoken = |_: usize, frame: usize, history: &[i32]| match (frame, history.len()) {
            (0, 0) => vec![0.01, 0.4, 0.01, 0.58],
            (1, 1) => vec![0.01, 0.01, 0.4, 0.58],
            _ => vec![0.97, 0.01, 0.01, 0.01],
        };
        let transducer = F::transducer(toy(4, spoken)).unwrap();
        let data = rows(0, 2);
        let labels = |phrases: &[Phrase<'_>]| {
            F::set_bias(&transducer, phrases).unwrap();
            let found = F::search(&transducer, &config, &[Matrix::dense(&data, 2)]).unwrap().remove(0).unwrap();
            found.list[0].labels.clone()
        };
        assert_eq!(labels(&[]), [3, 3], "{kind:?}");
        assert_eq!(labels(&[Phrase { labels: &[1, 2], bonus: 2.0 }]), [1, 2], "{kind:?}");
        assert_eq!(labels(&[]), [3, 3], "{kind:?}: forgotten");
    }
}

fn case_b99_a_constant_language_model<F: Face>() {
    // There is no end-of-sentence label in this search: the model is asked about histories, and nothing is added
    // at the end. A constant lowers every label alike; where it is 0 nothing changes at all.
    let script = |_: usize, frame: usize, history: &[i32]| {
        let next = if history.len() <= frame / 2 { 1 + (frame / 2) % 3 } else { 0 };
        (0..4).map(|label| if label == next { 0.94f32 } else { 0.02 }.ln()).collect::<Vec<f32>>()
    };
    for kind in BEAMS {
        let lists: Vec<_> = [None, Some((|_| vec![0.0; 4]) as fn(&[i32]) -> Vec<f32>), Some(|_| vec![-0.5; 4])]
            .into_iter()
            .map(|lm| {
                let net = Table { vocab: 4, blank: 0, kind: ScoreKind::LogProbs, scores: script, lm };
                let config = TransducerConfig { lm_weight: 0.5, ..with(kind) };
                search::<F>(Arc::new(Toy::new(net)), &config, Matrix::dense(&rows(0, 6), 2)).unwrap().list
            })
            .collect();
        assert_eq!(lists[0], lists[1], "{kind:?}");
        let (plain, lowered) = (&lists[0][0], &lists[2][0]);
        assert_eq!((&plain.labels, &plain.frames), (&lowered.labels, &lowered.frames), "{kind:?}");
        assert_eq!(lowered.lm_scores, vec![-0.25; plain.labels.len()], "{kind:?}");
        // Where alignments are merged, which of them the beam holds depends on the scores too.
        let change = plain.score - 0.25 * plain.labels.len() as f64 - lowered.score;
        assert!(change.abs() < if kind == SearchKind::Default { 1e-5 } else { 0.2 }, "{kind:?}: {change}");
    }
}

fn case_b100_times_after_merging<F: Face>() {
    // Label 1 at frame 0, 1 or 2: the second is the best alignment of the same labels.
    let net = |_: usize, frame: usize, history: &[i32]| {
        of_five(match (frame, history.len()) {
            (0, 0) => [0.8, 0.2],
            (1, 0) => [0.5, 0.5],
            (2, 0) => [0.4, 0.6],
            _ => [1.0, 0.0],
        })
    };
    for kind in [SearchKind::Tsd, SearchKind::Alsd, SearchKind::Nsc] {
        let found = best::<F>(toy(5, net), &with(kind), Matrix::dense(&rows(0, 3), 2));
        assert_eq!((found.labels, found.frames), (vec![1], vec![1]), "{kind:?}");
        assert_eq!(found.log_probs, [0.5f32.ln()]);
        close(found.score, (0.2 + 0.4 + 0.24f64).ln());
    }
    // Over random networks: the times are those of the best alignment, and never run backwards.
    for seed in 0..20 {
        let net = Random { live: 3, most: 2, lm: false, ..Random::new(seed, 40) };
        let wanted = exhaustive_scores(&net, 0, 3, 3, 2, 0.0);
        for kind in [SearchKind::Tsd, SearchKind::Alsd, SearchKind::Nsc] {
            let config =
                TransducerConfig { beam: 40, nbest: 40, max_sym_exp: 4, nstep: 3, prefix_alpha: 3, ..with(kind) };
            let found = search::<F>(Arc::new(Toy::new(net)), &config, Matrix::dense(&rows(0, 3), 2)).unwrap();
            for entry in found.list {
                assert!(entry.frames.is_sorted());
                let (_, _, frames) = wanted.iter().find(|(labels, _, _)| *labels == entry.labels).unwrap();
                assert_eq!(&entry.frames, frames, "{kind:?} {seed}");
            }
        }
    }
}
