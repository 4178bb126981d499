//! What transducer searches promise, on networks small enough to try everything, through Rust and through C.

mod common;
#[path = "common/transducer/mod.rs"]
mod transducer;

use std::sync::Arc;

use koshi::transducer::{Hypotheses, Hypothesis, Part, Phrase, ScoreKind, TransducerConfig};
use transducer::{
    Face, Fails, Item, Matrix, Net, Outcome, REFUSED, Random, SearchKind, Status, Table, Toy, Watched, alignments,
    all_kinds, exhaustive_scores, rows, search, sequences,
};

over_both_transducer_faces! {
    wide_searches_find_every_sequence
    the_default_search_finds_every_alignment
    sure_networks_leave_no_choice
    any_cut_gives_the_same_bits
    a_batch_is_each_alone
    calls_are_batched
    no_history_is_read_twice
    what_is_not_needed_is_released_at_once
    an_endless_stream_stays_small
    failing_callbacks_fail_their_utterance_alone
    nan_names_frame_and_label
    what_is_forbidden_is_never_taken
    cancelling
    stable_labels_stay
    commits_change_nothing_else
    old_labels_are_decided
    labels_are_decided_when_they_are_old_enough
    the_blank_may_be_any_label
    the_smallest_sizes
    options_out_of_range
    a_frame_has_a_bound_whatever_the_model
    cancelling_takes_effect_between_calls
    calls_out_of_order
    phrases_out_of_range
    ties_go_to_the_smaller_label
    ties_go_to_the_smaller_label_before_the_older_hypothesis
    phrases_are_found_beyond_the_best_labels
}

const MERGING: [SearchKind; 3] = [SearchKind::Tsd, SearchKind::Alsd, SearchKind::Nsc];

/// So wide that nothing is pruned where the vocabulary is 64.
fn wide(search: SearchKind) -> TransducerConfig {
    TransducerConfig {
        search,
        beam: 64,
        max_expansions_per_frame: 1000,
        max_sym_exp: 4,
        u_max: 9,
        nstep: 4,
        prefix_alpha: 4,
        score_norm: false,
        nbest: 64,
        ..TransducerConfig::default()
    }
}

/// A few labels that can be taken, among many that cannot.
fn tiny(seed: u64, live: usize, most: usize) -> Random {
    Random { live, most, ..Random::new(seed, 64) }
}

fn wide_searches_find_every_sequence<F: Face>() {
    for (seed, live, frames, lm_weight) in (0..12u64).flat_map(|seed| {
        [(2, 1), (2, 3), (3, 1), (3, 2), (3, 3)]
            .map(|(live, frames)| (seed, live, frames, if seed % 2 == 0 { 0.0 } else { 0.4 }))
    }) {
        let net = tiny(seed, live, 2);
        let wanted = exhaustive_scores(&net, 0, frames, 3, 2, lm_weight);
        for kind in MERGING {
            // The prefix search of NSC leaves the language model out, as in the reference lists.
            if kind == SearchKind::Nsc && lm_weight != 0.0 {
                continue;
            }
            let config = TransducerConfig { lm_weight, ..wide(kind) };
            let what = format!("{kind:?}, seed {seed}, {live} labels, {frames} frames");
            let found = search::<F>(Arc::new(Toy::new(net)), &config, Matrix::dense(&rows(0, frames), 2)).unwrap();
            assert!(!found.partial);
            assert_eq!(found.list.len(), wanted.len(), "{what}");
            for (entry, (labels, score, frames)) in found.list.iter().zip(&wanted) {
                assert_eq!((&entry.labels, &entry.frames), (labels, frames), "{what}");
                assert!((entry.score - score).abs() < 1e-5, "{what}: {} for {score}", entry.score);
                assert!((entry.normalised_score - score / (labels.len() + 1) as f64).abs() < 1e-5);
                assert!(entry.finished && entry.full_score == entry.score);
            }
        }
    }
}

fn the_default_search_finds_every_alignment<F: Face>() {
    for seed in 0..12 {
        for (live, frames) in [(2, 1), (2, 3), (3, 1), (3, 2), (3, 3)] {
            let net = tiny(seed, live, 2);
            let mut wanted = alignments(&net, 0, frames, 9, 2, 0.3);
            wanted.sort_by(|one, two| two.1.total_cmp(&one.1));
            let config = TransducerConfig { lm_weight: 0.3, ..wide(SearchKind::Default) };
            let found = search::<F>(Arc::new(Toy::new(net)), &config, Matrix::dense(&rows(0, frames), 2)).unwrap();
            assert_eq!(found.list.len(), wanted.len(), "equal labels that come by different ways stay apart");
            for (entry, (labels, score)) in found.list.iter().zip(&wanted) {
                let pairs: Vec<_> = entry.labels.iter().copied().zip(entry.frames.iter().copied()).collect();
                assert_eq!(&pairs, labels);
                assert!((entry.score - score).abs() < 1e-5);
            }
            assert!(sequences(&wanted).len() <= wanted.len());
        }
    }
}

/// At each frame and history one symbol is all but sure.
fn sure(seed: u64, vocab: usize) -> impl Net + Clone {
    let base = Random { scale: 1.0, lm: false, ..Random::new(seed, vocab) };
    #[derive(Clone)]
    struct Sure(Random);
    impl Net for Sure {
        fn vocab(&self) -> usize {
            self.0.vocab
        }
        fn scores(&self, utterance: usize, frame: usize, history: &[i32]) -> Vec<f32> {
            let mut scores = self.0.scores(utterance, frame, history);
            // A label in each second frame.
            let label = frame.is_multiple_of(2) && history.len() == frame / 2;
            let best = (0..self.0.vocab)
                .filter(|symbol| (*symbol != 0) == label)
                .max_by(|one, two| scores[*one].total_cmp(&scores[*two]));
            scores.iter_mut().for_each(|score| *score -= 60.0);
            scores[best.unwrap()] = 0.0;
            scores
        }
        fn kind(&self) -> ScoreKind {
            ScoreKind::Logits
        }
    }
    Sure(base)
}

fn sure_networks_leave_no_choice<F: Face>() {
    for seed in 0..10 {
        for beam in [1, 2, 4] {
            let lists: Vec<_> = all_kinds()
                .into_iter()
                .map(|config| {
                    let config = TransducerConfig { beam, score_norm: false, ..config };
                    let model = Arc::new(Toy::new(sure(seed, 5)));
                    search::<F>(model, &config, Matrix::dense(&rows(0, 12), 2)).unwrap()
                })
                .collect();
            assert!(!lists[0].list[0].labels.is_empty());
            for found in &lists[1..] {
                let (greedy, best) = (&lists[0].list[0], &found.list[0]);
                assert_eq!((&greedy.labels, &greedy.frames), (&best.labels, &best.frames), "seed {seed}, beam {beam}");
                assert!((best.score - greedy.full_score).abs() < 1e-6);
            }
        }
    }
}

/// Searches whose bounds strike here and there, with language model and phrases.
fn mixed() -> Vec<TransducerConfig> {
    let mut all = Vec::new();
    for config in all_kinds() {
        for (beam, max_cached) in [(1, 0), (3, 2), (6, 1024)] {
            all.push(TransducerConfig { beam, max_cached, lm_weight: 0.3, nbest: 6, u_max: 7, ..config });
        }
    }
    all
}

const PHRASES: [Phrase<'static>; 2] =
    [Phrase { labels: &[1, 2], bonus: 1.5 }, Phrase { labels: &[2, 1, 3], bonus: 2.0 }];

fn any_cut_gives_the_same_bits<F: Face>() {
    for (at, config) in mixed().into_iter().enumerate() {
        let net = Random::new(at as u64, 7);
        let data = rows(0, 13);
        let whole = Matrix::dense(&data, 2);
        let model = Arc::new(Toy::new(net));
        let transducer = F::transducer(model.clone()).unwrap();
        F::set_bias(&transducer, &PHRASES).unwrap();
        let wanted = F::search(&transducer, &config, &[whole]).unwrap().remove(0).unwrap();
        assert!(!wanted.list.is_empty());
        for cut in [1, 2, 5, 13] {
            let mut stream = F::stream(&transducer, &config).unwrap();
            let mut from = 0;
            while from < 13 {
                let to = (from + cut).min(13);
                F::push(&mut stream, whole.part(from, to)).unwrap();
                F::push(&mut stream, whole.part(to, to)).unwrap();
                from = to;
            }
            assert_eq!(F::finish(&mut stream).unwrap(), wanted, "{config:?} in pieces of {cut}");
        }
        // Rows that lie apart.
        let apart: Vec<f32> = data.chunks(2).flat_map(|row| [row[0], row[1], f32::NAN, f32::NAN, f32::NAN]).collect();
        let apart = Matrix { data: &apart[..12 * 5 + 2], frames: 13, dim: 2, stride: 5 };
        assert_eq!(F::search(&transducer, &config, &[apart]).unwrap().remove(0).unwrap(), wanted);
        drop(transducer);
        assert_eq!(model.living(), 0, "{config:?}");
        assert_eq!(model.handed_out(), model.released.load(std::sync::atomic::Ordering::Relaxed));
    }
}

fn a_batch_is_each_alone<F: Face>() {
    for (at, config) in mixed().into_iter().enumerate() {
        let net = Random::new(at as u64 + 100, 7);
        let data: Vec<Vec<f32>> = [9, 0, 4, 14, 1].iter().enumerate().map(|(at, frames)| rows(at, *frames)).collect();
        let views: Vec<Matrix<'_>> = data.iter().map(|data| Matrix::dense(data, 2)).collect();
        let transducer = F::transducer(Arc::new(Toy::new(net))).unwrap();
        let together = F::search(&transducer, &config, &views).unwrap();
        for (view, found) in views.iter().zip(together) {
            let alone = F::search(&transducer, &config, &[*view]).unwrap().remove(0);
            assert_eq!(found, alone, "{config:?}");
        }
    }
}

fn calls_are_batched<F: Face>() {
    for config in all_kinds() {
        let config = TransducerConfig { beam: 4, lm_weight: 0.3, ..config };
        let net = Random { most: 5, ..Random::new(5, 9) };
        let data: Vec<Vec<f32>> = (0..6).map(|utterance| rows(utterance, 10)).collect();
        let views: Vec<Matrix<'_>> = data.iter().map(|data| Matrix::dense(data, 2)).collect();
        // The steps of each alone: a step has exactly one join.
        let steps = |views: &[Matrix<'_>]| {
            let model = Arc::new(Toy::new(net));
            let transducer = F::transducer(model.clone()).unwrap();
            for result in F::search(&transducer, &config, views).unwrap() {
                result.unwrap();
            }
            [0, 1, 2].map(|which| model.calls(which))
        };
        let alone: Vec<[usize; 3]> = views.iter().map(|view| steps(&[*view])).collect();
        let together = steps(&views);
        let longest = alone.iter().map(|calls| calls[2]).max().unwrap();
        assert_eq!(together[2], longest, "{config:?}: as many joins as the longest of them has");
        assert!(together[0] <= longest && together[1] <= longest, "{config:?}: {together:?}");
        // Time-synchronous: one join a round, whatever the beam.
        if config.search == SearchKind::Tsd {
            assert!(longest <= 10 * config.max_sym_exp as usize);
        }
        if config.search == SearchKind::Alsd {
            assert!(longest <= 10 + config.u_max as usize);
        }
        if config.search == SearchKind::Nsc {
            assert!(longest <= 10 * (config.nstep as usize + 1), "prefix search and first round share a call");
        }
    }
}

fn no_history_is_read_twice<F: Face>() {
    for config in all_kinds() {
        let config = TransducerConfig { beam: 6, lm_weight: 0.3, ..config };
        let model = Arc::new(Toy::new(Random::new(3, 8)));
        search::<F>(model.clone(), &config, Matrix::dense(&rows(0, 20), 2)).unwrap();
        assert_eq!(model.most_predicted(Part::Predictor), 1, "{config:?}");
        if config.search != SearchKind::Greedy {
            assert_eq!(model.most_predicted(Part::LanguageModel), 1, "{config:?}");
        }
        assert!(model.handed_out() > 1);
    }
}

fn what_is_not_needed_is_released_at_once<F: Face>() {
    for config in all_kinds() {
        let config = TransducerConfig { beam: 3, max_cached: 0, lm_weight: 0.3, max_expansions_per_frame: 5, ..config };
        let model = Arc::new(Toy::new(Random { scale: 2.0, ..Random::new(21, 8) }));
        let transducer = F::transducer(model.clone()).unwrap();
        let mut stream = F::stream(&transducer, &config).unwrap();
        let data = rows(0, 60);
        for frame in 0..60 {
            F::push(&mut stream, Matrix::dense(&data, 2).part(frame, frame + 1)).unwrap();
            // Predictor and language model of each hypothesis and, for those not yet predicted, of what they come from;
            // NSC also of up to two labels before.
            let most = if config.search == SearchKind::Nsc { 2 * 3 * 3 } else { 2 * 2 * 6 };
            assert!(model.living() <= most, "{config:?}, frame {frame}: {}", model.living());
        }
        F::finish(&mut stream).unwrap();
        assert_eq!(model.living(), 0);
    }
}

fn an_endless_stream_stays_small<F: Face>() {
    for config in all_kinds() {
        let config = TransducerConfig { u_max: 1000, max_cached: 50, lm_weight: 0.2, ..config };
        // About one label in three frames.
        let net = |utterance: usize, frame: usize, history: &[i32]| {
            let mut scores = Random { lm: false, scale: 2.0, ..Random::new(2, 6) }.scores(utterance, frame, history);
            scores[0] = if history.len() * 3 > frame { 8.0 } else { 1.0 };
            scores
        };
        let net = Table { vocab: 6, blank: 0, kind: ScoreKind::Logits, scores: net, lm: Some(|_| vec![-1.5; 6]) };
        let model = Arc::new(Toy::new(net));
        let transducer = F::transducer(model.clone()).unwrap();
        let mut stream = F::stream(&transducer, &config).unwrap();
        let mut early = 0;
        for part in 0..30 {
            let data: Vec<f32> = (part * 40..part * 40 + 40).flat_map(|frame| [0.0, frame as f32]).collect();
            F::push(&mut stream, Matrix::dense(&data, 2)).unwrap();
            if part == 3 {
                early = model.most_living();
            }
            assert!(model.living() < 300, "{config:?}: {}", model.living());
        }
        assert!(model.most_living() <= early + 200, "{config:?}: {} after {early}", model.most_living());
        let (partial, stable) = F::partial(&stream).unwrap();
        let labels = partial.list[0].labels.len();
        assert!(labels > 200 && labels - stable < 100, "{config:?}: {stable} of {labels} are stable");
        F::finish(&mut stream).unwrap();
        assert_eq!(model.living(), 0);
    }
}

fn failing_callbacks_fail_their_utterance_alone<F: Face>() {
    for config in all_kinds() {
        let config = TransducerConfig { lm_weight: 0.3, nbest: 3, ..config };
        // Utterance 1 alone ever reaches label 6.
        let net = |utterance: usize, frame: usize, history: &[i32]| {
            let mut scores = Random { lm: false, most: 6, ..Random::new(8, 7) }.scores(utterance, frame, history);
            scores[6] = if utterance == 1 && frame == 2 && !history.contains(&6) { 9.0 } else { f32::NEG_INFINITY };
            scores
        };
        let net = || Table { vocab: 7, blank: 0, kind: ScoreKind::Logits, scores: net, lm: Some(|_| vec![-1.5; 7]) };
        let data: Vec<Vec<f32>> = (0..3).map(|utterance| rows(utterance, 8)).collect();
        let views: Vec<Matrix<'_>> = data.iter().map(|data| Matrix::dense(data, 2)).collect();
        let wanted = F::search(&F::transducer(Arc::new(Toy::new(net()))).unwrap(), &config, &views).unwrap();
        let fails = [
            Fails { join: Some((1, 4)), ..Fails::default() },
            Fails { predict: Some(6), ..Fails::default() },
            Fails { lm: Some(6), ..Fails::default() },
        ];
        for (name, fails) in ["join", "predict", "lm_predict"].into_iter().zip(fails) {
            if name == "lm_predict" && config.search == SearchKind::Greedy {
                continue;
            }
            let model = Arc::new(Toy::failing(net(), fails));
            let transducer = F::transducer(model.clone()).unwrap();
            let found = F::search(&transducer, &config, &views).unwrap();
            let fault = found[1].clone().unwrap_err();
            assert_eq!(fault.status, Status::KOSHI_E_CALLBACK, "{config:?}: {}", fault.message);
            let told = fault.message.contains(name) && fault.message.contains(&REFUSED.to_string());
            assert!(told && fault.message.contains("utterance 1"), "{}", fault.message);
            assert_eq!((&found[0], &found[2]), (&wanted[0], &wanted[2]), "{config:?}, {name}");
            assert_eq!(model.living(), 0, "{config:?}, {name}");
            // A stream says the same again and again, keeps what it had, and the others go on.
            let mut streams: Vec<_> = (0..3).map(|_| F::stream(&transducer, &config).unwrap()).collect();
            let batch = |streams: &mut Vec<F::Stream>, from: usize, to: usize| {
                let items = streams.iter_mut().zip(&views);
                let items = items.map(|(stream, rows)| Item { stream, rows: rows.part(from, to), last: false });
                F::advance(&transducer, items.collect()).unwrap()
            };
            assert!(batch(&mut streams, 0, 2).iter().all(Outcome::is_ok));
            let before = F::partial(&streams[1]).unwrap().0;
            for (from, to) in [(2, 6), (6, 8)] {
                let outcomes = batch(&mut streams, from, to);
                assert!(outcomes[0].is_ok() && outcomes[2].is_ok());
                assert_eq!(outcomes[1].clone().unwrap_err().status, Status::KOSHI_E_CALLBACK);
            }
            let after = F::partial(&streams[1]).unwrap().0;
            assert!(!after.list.is_empty() && after.list[0].labels.len() >= before.list[0].labels.len());
            assert_eq!(F::push(&mut streams[1], views[1]).unwrap_err().status, Status::KOSHI_E_CALLBACK);
            assert_eq!(F::finish(&mut streams[1]).unwrap_err().status, Status::KOSHI_E_CALLBACK);
            assert_eq!(F::commit(&mut streams[1]).unwrap_err().status, Status::KOSHI_E_CALLBACK);
            for at in [0, 2] {
                assert_eq!(Ok(F::finish(&mut streams[at]).unwrap()), wanted[at]);
            }
            assert_eq!(model.living(), 0);
        }
    }
}

fn nan_names_frame_and_label<F: Face>() {
    for config in all_kinds() {
        for bad in [f32::NAN, f32::INFINITY] {
            for kind in [ScoreKind::Logits, ScoreKind::LogProbs] {
                let scores = move |utterance: usize, frame: usize, _: &[i32]| {
                    let mut scores = vec![0.05f32.ln(), 0.05f32.ln(), 0.9f32.ln()];
                    if (utterance, frame) == (2, 3) {
                        scores[1] = bad;
                    }
                    scores
                };
                let model = Arc::new(Toy::new(Table { vocab: 3, blank: 2, kind, scores, lm: None }));
                let data: Vec<Vec<f32>> = (1..4).map(|utterance| rows(utterance, 5)).collect();
                let views: Vec<Matrix<'_>> = data.iter().map(|data| Matrix::dense(data, 2)).collect();
                let found = F::search(&F::transducer(model.clone()).unwrap(), &config, &views).unwrap();
                assert!(found[0].is_ok() && found[2].is_ok());
                let fault = found[1].clone().unwrap_err();
                assert_eq!(fault.status, Status::KOSHI_E_SCORES, "{config:?}");
                for part in ["utterance 1", "frame 3", "column 1"] {
                    assert!(fault.message.contains(part), "{}", fault.message);
                }
                assert_eq!(model.living(), 0);
            }
        }
        // Of the language model.
        if config.search != SearchKind::Greedy {
            let scores = |_: usize, _: usize, _: &[i32]| vec![0.5f32.ln(), 0.3f32.ln(), 0.2f32.ln()];
            let net = Table {
                vocab: 3,
                blank: 0,
                kind: ScoreKind::LogProbs,
                scores,
                lm: Some(|_| vec![0.0, -1.0, f32::NAN]),
            };
            let config = TransducerConfig { lm_weight: 1.0, ..config };
            let fault = search::<F>(Arc::new(Toy::new(net)), &config, Matrix::dense(&rows(0, 2), 2)).unwrap_err();
            assert_eq!(fault.status, Status::KOSHI_E_SCORES);
            assert!(
                fault.message.contains("language model") && fault.message.contains("column 2"),
                "{}",
                fault.message
            );
        }
    }
}

fn what_is_forbidden_is_never_taken<F: Face>() {
    let low = f32::NEG_INFINITY;
    for config in all_kinds() {
        let config = TransducerConfig { nbest: 50, lm_weight: 1.0, ..config };
        // Label 1 by the network, label 2 by the language model.
        let scores = move |_: usize, _: usize, history: &[i32]| {
            if history.len() < 3 { vec![0.1, low, 0.0, 0.2] } else { vec![0.0, low, low, low] }
        };
        let net = Table {
            vocab: 4,
            blank: 0,
            kind: ScoreKind::Logits,
            scores,
            lm: Some(move |_| vec![0.0, 0.0, f32::NEG_INFINITY, -0.1]),
        };
        let greedy = config.search == SearchKind::Greedy;
        let found = search::<F>(Arc::new(Toy::new(net)), &config, Matrix::dense(&rows(0, 4), 2)).unwrap();
        for entry in &found.list {
            assert!(entry.score.is_finite() && entry.labels.iter().all(|label| greedy || *label == 3), "{entry:?}");
        }
        // Nothing at all is allowed in frame 2.
        let scores = move |_: usize, frame: usize, history: &[i32]| match (frame, history.len()) {
            (2, _) => vec![low; 3],
            (_, 2) => vec![0.5, low, low],
            _ => vec![0.5, 0.0, 0.0],
        };
        let model = Arc::new(Toy::new(Table { vocab: 3, blank: 0, kind: ScoreKind::Logits, scores, lm: None }));
        let transducer = F::transducer(model.clone()).unwrap();
        let mut stream = F::stream(&transducer, &TransducerConfig { u_max: 50, ..config }).unwrap();
        let outcome =
            F::push(&mut stream, Matrix::dense(&rows(0, 5), 2)).and_then(|()| F::finish(&mut stream).map(|_| ()));
        let fault = outcome.unwrap_err();
        assert_eq!(fault.status, Status::KOSHI_E_NO_TOKENS, "{config:?}");
        assert!(fault.message.contains("frame 2"), "{}", fault.message);
        assert!(F::partial(&stream).unwrap().0.list.iter().all(|entry| !entry.finished));
        assert_eq!(model.living(), 0);
    }
}

fn cancelling<F: Face>() {
    for config in all_kinds() {
        let model = Arc::new(Toy::new(Random::new(4, 6)));
        let transducer = F::transducer(model.clone()).unwrap();
        let mut stream = F::stream(&transducer, &config).unwrap();
        let data = rows(0, 6);
        F::push(&mut stream, Matrix::dense(&data, 2).part(0, 4)).unwrap();
        let before = F::partial(&stream).unwrap().0;
        assert!(model.living() > 0);
        F::cancel(&stream);
        assert_eq!(
            F::push(&mut stream, Matrix::dense(&data, 2).part(4, 6)).unwrap_err().status,
            Status::KOSHI_E_CANCELLED
        );
        assert_eq!(model.living(), 0);
        assert_eq!(F::partial(&stream).unwrap().0, before);
        assert_eq!(F::finish(&mut stream).unwrap_err().status, Status::KOSHI_E_CANCELLED);
        drop(stream);
        // Also between the last rows and the result.
        let mut stream = F::stream(&transducer, &config).unwrap();
        let items = vec![Item { stream: &mut stream, rows: Matrix::dense(&data, 2), last: true }];
        assert_eq!(F::advance(&transducer, items).unwrap(), [Ok(())]);
        F::cancel(&stream);
        assert_eq!(F::finish(&mut stream).unwrap_err().status, Status::KOSHI_E_CANCELLED);
        drop(stream);
        // A stream that is dropped halfway gives its states back too.
        let mut stream = F::stream(&transducer, &config).unwrap();
        F::push(&mut stream, Matrix::dense(&data, 2).part(0, 4)).unwrap();
        assert!(model.living() > 0);
        drop(transducer);
        F::push(&mut stream, Matrix::dense(&data, 2).part(4, 5)).unwrap();
        drop(stream);
        assert_eq!(model.living(), 0);
        assert_eq!(Arc::strong_count(&model), 1, "nothing holds the networks any more");
    }
}

fn stable_labels_stay<F: Face>() {
    for config in all_kinds() {
        for seed in 0..6 {
            let config = TransducerConfig { u_max: 100, lm_weight: 0.2, ..config };
            let transducer = F::transducer(Arc::new(Toy::new(Random::new(seed, 6)))).unwrap();
            let mut stream = F::stream(&transducer, &config).unwrap();
            let data = rows(0, 40);
            let mut stable: Vec<i32> = Vec::new();
            for frame in 0..40 {
                F::push(&mut stream, Matrix::dense(&data, 2).part(frame, frame + 1)).unwrap();
                let (partial, count) = F::partial(&stream).unwrap();
                let labels = &partial.list[0].labels;
                assert!(count >= stable.len() && labels.starts_with(&stable), "{config:?}, seed {seed}, frame {frame}");
                stable = labels[..count].to_vec();
            }
            let last = F::finish(&mut stream).unwrap();
            assert!(last.list.iter().all(|entry| entry.labels.starts_with(&stable)), "{config:?}");
        }
    }
}

/// `entry` with the labels that were committed before it.
fn behind(committed: &Hypothesis, entry: &Hypothesis) -> Hypothesis {
    fn joined<T: Clone>(one: &[T], two: &[T]) -> Vec<T> {
        [one, two].concat()
    }
    Hypothesis {
        labels: joined(&committed.labels, &entry.labels),
        frames: joined(&committed.frames, &entry.frames),
        log_probs: joined(&committed.log_probs, &entry.log_probs),
        lm_scores: joined(&committed.lm_scores, &entry.lm_scores),
        bias_scores: joined(&committed.bias_scores, &entry.bias_scores),
        ..entry.clone()
    }
}

fn all_behind(committed: &Hypothesis, found: &Hypotheses) -> Vec<Hypothesis> {
    found.list.iter().map(|entry| behind(committed, entry)).collect()
}

fn commits_change_nothing_else<F: Face>() {
    let data = rows(0, 40);
    let whole = Matrix::dense(&data, 2);
    for (at, config) in mixed().into_iter().enumerate() {
        for (commit_frames, every) in [(0, 1), (0, 7), (6, 1), (6, 5)] {
            let u_max = if config.beam == 3 { config.u_max } else { 100 };
            let config = TransducerConfig { commit_frames, u_max, ..config };
            let model = Arc::new(Toy::new(Random { scale: 4.0, ..Random::new(at as u64 + 300, 7) }));
            let transducer = F::transducer(model.clone()).unwrap();
            F::set_bias(&transducer, &PHRASES).unwrap();
            let wanted = F::search(&transducer, &config, &[whole]).unwrap().remove(0).unwrap();
            let mut stream = F::stream(&transducer, &config).unwrap();
            let mut done = Hypothesis::default();
            for frame in 0..40 {
                F::push(&mut stream, whole.part(frame, frame + 1)).unwrap();
                if frame % every == 0 {
                    let (before, stable) = F::partial(&stream).unwrap();
                    let more = F::commit(&mut stream).unwrap();
                    assert!(more.labels.len() <= stable && !more.finished && more.posterior == 1.0);
                    let sum = |list: &[f32]| list.iter().map(|part| f64::from(*part)).sum::<f64>();
                    let score = sum(&more.log_probs) + sum(&more.lm_scores) + sum(&more.bias_scores);
                    assert!((more.score - score).abs() < 1e-9);
                    let before = all_behind(&done, &before);
                    done = behind(&done, &more);
                    let (after, left) = F::partial(&stream).unwrap();
                    assert_eq!((all_behind(&done, &after), left), (before, stable - more.labels.len()));
                    assert!(F::commit(&mut stream).unwrap().labels.is_empty(), "each is handed out once");
                }
            }
            let found = F::finish(&mut stream).unwrap();
            let what = format!("{config:?}, each {every}");
            assert_eq!(all_behind(&done, &found), wanted.list, "{what}");
            // Alignment-length synchronous search may stay in one frame for as many labels as there may be.
            if commit_frames > 0 && config.search != SearchKind::Alsd {
                let left = &found.list[0].frames;
                assert!(done.labels.len() > 4 && left.iter().all(|frame| *frame > 20), "{what}: {left:?} are left");
            }
            drop(stream);
            assert_eq!(model.living(), 0);
        }
    }
}

fn old_labels_are_decided<F: Face>() {
    // Label 1 or 2 in frame 0, all but equally likely; label 3 in each frame after that, now and then 4.
    let scores = |_: usize, frame: usize, history: &[i32]| match (frame, history.len()) {
        (0, 0) => vec![-9.0, 1.0, 0.99, -9.0, -9.0],
        (frame, labels) if labels == frame => vec![-9.0, -9.0, -9.0, 1.0, -1.0],
        _ => vec![1.0, -9.0, -9.0, -9.0, -9.0],
    };
    for config in all_kinds().into_iter().filter(|config| config.search != SearchKind::Greedy) {
        let run = |commit_frames: u32| {
            let config = TransducerConfig { beam: 2, nbest: 2, commit_frames, score_norm: false, ..config };
            let config = TransducerConfig { u_max: 200, max_cached: 0, ..config };
            let net = Table { vocab: 5, blank: 0, kind: ScoreKind::Logits, scores, lm: None };
            let transducer = F::transducer(Arc::new(Toy::new(net))).unwrap();
            let mut stream = F::stream(&transducer, &config).unwrap();
            let data = rows(0, 60);
            F::push(&mut stream, Matrix::dense(&data, 2)).unwrap();
            let committed = F::commit(&mut stream).unwrap().labels;
            let found = F::finish(&mut stream).unwrap();
            let firsts: Vec<i32> = found.list.iter().filter_map(|entry| entry.labels.first().copied()).collect();
            (committed.len(), committed.first().copied(), firsts)
        };
        let (committed, _, firsts) = run(0);
        assert!(committed == 0 && firsts == [1, 2], "{config:?}: both live on: {committed}, {firsts:?}");
        for commit_frames in [1, 10] {
            let (committed, first, _) = run(commit_frames);
            assert!(committed >= 30 && first == Some(1), "{config:?}: the better one does: {committed}, {first:?}");
        }
    }
}

fn labels_are_decided_when_they_are_old_enough<F: Face>() {
    // Two labels that are almost as likely in one frame, the blank alone in all others.
    for search in [SearchKind::Default, SearchKind::Tsd, SearchKind::Nsc] {
        for (rivals, decided) in [(9, 20), (10, 30), (19, 30)] {
            let scores = move |_: usize, frame: usize, history: &[i32]| match frame == rivals && history.is_empty() {
                true => vec![f32::NEG_INFINITY, 0.0, -0.01],
                false => vec![0.0, f32::NEG_INFINITY, f32::NEG_INFINITY],
            };
            let net = Table { vocab: 3, blank: 0, kind: ScoreKind::Logits, scores, lm: None };
            let transducer = F::transducer(Arc::new(Toy::new(net))).unwrap();
            let config = TransducerConfig { search, nbest: 9, commit_frames: 10, ..TransducerConfig::default() };
            let mut stream = F::stream(&transducer, &config).unwrap();
            for frame in 0..40 {
                F::push(&mut stream, Matrix::dense(&[0.0, frame as f32], 2)).unwrap();
                let consumed = frame + 1;
                let wanted = if (rivals + 1..decided).contains(&consumed) { 2 } else { 1 };
                let found = F::partial(&stream).unwrap().0.list.len();
                assert_eq!(found, wanted, "{search:?}, rivals in frame {rivals}, {consumed} frames");
            }
        }
    }
}

fn the_blank_may_be_any_label<F: Face>() {
    // The same network with labels 0 and 3 exchanged gives the same lists with the labels exchanged.
    let exchange = |label: i32| match label {
        0 => 3,
        3 => 0,
        other => other,
    };
    for config in all_kinds() {
        let config = TransducerConfig { nbest: 5, ..config };
        let base = Random { lm: false, most: 6, ..Random::new(17, 5) };
        let plain = Table {
            vocab: 5,
            blank: 0,
            kind: ScoreKind::Logits,
            scores: move |u: usize, f: usize, h: &[i32]| base.scores(u, f, h),
            lm: None,
        };
        let scores = move |u: usize, f: usize, h: &[i32]| {
            let history: Vec<i32> = h.iter().map(|label| exchange(*label)).collect();
            let mut scores = base.scores(u, f, &history);
            scores.swap(0, 3);
            scores
        };
        let exchanged = Table { vocab: 5, blank: 3, kind: ScoreKind::Logits, scores, lm: None };
        let one = search::<F>(Arc::new(Toy::new(plain)), &config, Matrix::dense(&rows(0, 7), 2)).unwrap();
        let two = search::<F>(Arc::new(Toy::new(exchanged)), &config, Matrix::dense(&rows(0, 7), 2)).unwrap();
        assert_eq!(one.list.len(), two.list.len());
        for (one, two) in one.list.iter().zip(&two.list) {
            let labels: Vec<i32> = two.labels.iter().map(|label| exchange(*label)).collect();
            assert_eq!((&one.labels, &one.frames), (&labels, &two.frames), "{config:?}");
            assert!((one.score - two.score).abs() < 1e-5);
        }
    }
}

fn the_smallest_sizes<F: Face>() {
    for (config, vocab, seed) in all_kinds()
        .into_iter()
        .flat_map(|config| [2, 3].into_iter().flat_map(move |vocab| (0..6).map(move |seed| (config, vocab, seed))))
    {
        let config = TransducerConfig { beam: 9, nbest: 9, max_symbols_per_frame: 4, score_norm: false, ..config };
        // No search may stop before the last label.
        let net = Random { most: 3, ..Random::new(seed, vocab) };
        let found = |frames| search::<F>(Arc::new(Toy::new(net)), &config, Matrix::dense(&rows(0, frames), 2)).unwrap();
        let none = found(0).list;
        assert_eq!(none.len(), 1);
        assert!(none[0].labels.is_empty() && none[0].finished && none[0].score == 0.0 && none[0].posterior == 1.0);
        // In one frame each sequence has one alignment: whatever is pruned, scores are those of trying everything.
        let wanted = exhaustive_scores(&net, 0, 1, 3, 3, 0.0);
        let found = found(1);
        assert!(!found.partial && found.list.is_sorted_by(|one, two| one.score >= two.score));
        for entry in &found.list {
            let (_, score, frames) = wanted.iter().find(|(labels, ..)| *labels == entry.labels).unwrap();
            assert_eq!(&entry.frames, frames);
            assert!(entry.finished && (entry.full_score - score).abs() < 1e-5, "{config:?}, seed {seed}: {entry:?}");
        }
        let found: Vec<_> = found.list.into_iter().map(|entry| entry.labels).collect();
        assert!((1..found.len()).all(|at| !found[..at].contains(&found[at])), "each once: {found:?}");
        match config.search {
            SearchKind::Greedy => assert_eq!(found.len(), 1),
            // With one label nothing is pruned on the way; a beam is two then.
            _ if vocab == 2 => assert!(found.len() >= 2 && (0..2).all(|at| found[at] == wanted[at].0), "{config:?}"),
            _ => assert!(found.len() >= 2),
        }
    }
}

fn options_out_of_range<F: Face>() {
    let config = TransducerConfig::default();
    let refused = |config: TransducerConfig, name: &str| {
        let model = Arc::new(Toy::new(Random::new(1, 4)));
        let transducer = F::transducer(model).unwrap();
        let outcomes = [F::stream(&transducer, &config).map(|_| ()), F::search(&transducer, &config, &[]).map(|_| ())];
        for outcome in outcomes {
            let fault = outcome.unwrap_err();
            assert_eq!(fault.status, Status::KOSHI_E_CONFIG);
            assert!(fault.message.contains(name), "{}", fault.message);
        }
    };
    let most = TransducerConfig::MOST_A_FRAME;
    for bad in [0, most + 1, u32::MAX] {
        refused(TransducerConfig { max_symbols_per_frame: bad, ..config }, "max_symbols_per_frame");
        refused(TransducerConfig { max_expansions_per_frame: bad, ..config }, "max_expansions_per_frame");
        refused(TransducerConfig { max_sym_exp: bad, ..config }, "max_sym_exp");
        refused(TransducerConfig { nstep: bad, ..config }, "nstep");
    }
    for bad in [most + 1, u32::MAX] {
        refused(TransducerConfig { prefix_alpha: bad, ..config }, "prefix_alpha");
    }
    for bad in [TransducerConfig::MOST_LABELS + 1, u32::MAX] {
        refused(TransducerConfig { u_max: bad, ..config }, "u_max");
    }
    refused(TransducerConfig { beam: 0, ..config }, "beam");
    refused(TransducerConfig { nbest: 0, ..config }, "nbest");
    for lm_weight in [f32::NAN, f32::INFINITY] {
        refused(TransducerConfig { lm_weight, ..config }, "lm_weight");
    }
    // Sizes of the model.
    for (vocab, blank) in [(1, 0), (4, 4), (4, -1)] {
        let fault = F::transducer(Arc::new(Toy::new(Random { blank, ..Random::new(1, vocab) }))).err().unwrap();
        assert_eq!(fault.status, Status::KOSHI_E_CONFIG);
    }
}

/// All bounds as wide as they may be.
fn widest(search: SearchKind) -> TransducerConfig {
    let most = TransducerConfig::MOST_A_FRAME;
    TransducerConfig {
        search,
        beam: 2,
        max_symbols_per_frame: most,
        max_expansions_per_frame: most,
        max_sym_exp: most,
        u_max: TransducerConfig::MOST_LABELS,
        nstep: most,
        prefix_alpha: most,
        ..TransducerConfig::default()
    }
}

/// Label 1 again and again, whatever is said: the blank all but never.
fn babble() -> impl Net {
    let scores = |_: usize, _: usize, _: &[i32]| vec![-3000.0, 0.0, -9.0];
    Table { vocab: 3, blank: 0, kind: ScoreKind::Logits, scores, lm: Some(|_| vec![-0.1; 3]) }
}

fn a_frame_has_a_bound_whatever_the_model<F: Face>() {
    let data = rows(0, 2);
    for search in all_kinds().map(|config| config.search) {
        let model = Arc::new(Toy::new(babble()));
        let transducer = F::transducer(model.clone()).unwrap();
        let mut stream = F::stream(&transducer, &widest(search)).unwrap();
        F::push(&mut stream, Matrix::dense(&data, 2)).unwrap();
        let found = F::finish(&mut stream).unwrap();
        let most = TransducerConfig::MOST_A_FRAME as usize;
        let (labels, joins, partial) = (found.list[0].labels.len(), model.calls(2), found.partial);
        let wanted = match search {
            SearchKind::Greedy => (2 * most, 2 * most, false),
            // Of a beam of two: every second expansion is the less likely label's.
            SearchKind::Default => (labels, 2 * 2 * most, true),
            SearchKind::Tsd => (labels, 2 * most, false),
            SearchKind::Alsd => (2 * most, 2 * most + 2, false),
            SearchKind::Nsc => (labels, 2 * (most + 1), false),
        };
        assert_eq!((labels, joins, partial), wanted, "{search:?}");
        assert!(labels <= 2 * most && model.living() == 0);
        // A model that takes the blank when it should is at its end soon, however much it may take.
        let net = |_: usize, frame: usize, history: &[i32]| match history.len() <= frame {
            true => vec![-40.0, 0.0, -9.0],
            false => vec![0.0, -40.0, -50.0],
        };
        let net = Table { vocab: 3, blank: 0, kind: ScoreKind::Logits, scores: net, lm: None };
        let model = Arc::new(Toy::new(net));
        let found = F::search(&F::transducer(model.clone()).unwrap(), &widest(search), &[Matrix::dense(&data, 2)]);
        assert_eq!(found.unwrap().remove(0).unwrap().list[0].labels, [1, 1], "{search:?}");
        assert!(model.calls(2) <= 2 * most + 2, "{search:?}: {}", model.calls(2));
    }
}

fn cancelling_takes_effect_between_calls<F: Face>() {
    let data = rows(0, 1);
    for search in all_kinds().map(|config| config.search) {
        for (kind, name) in ["predict", "lm_predict", "join"].into_iter().enumerate() {
            if kind == 1 && search == SearchKind::Greedy {
                continue;
            }
            let model = Arc::new(Watched::new(Toy::new(babble())));
            let transducer = F::transducer(model.clone()).unwrap();
            let config = TransducerConfig { lm_weight: 0.5, ..widest(search) };
            let mut stream = F::stream(&transducer, &config).unwrap();
            // Deep in the one frame there is.
            model.set(kind, 30, F::canceller(&stream));
            let outcome = F::push(&mut stream, Matrix::dense(&data, 2)).and_then(|()| F::finish(&mut stream));
            assert_eq!(outcome.unwrap_err().status, Status::KOSHI_E_CANCELLED, "{search:?}, {name}");
            let then = model.then.load(std::sync::atomic::Ordering::Relaxed);
            assert!(then >= 30 && model.calls() == then, "{search:?}, {name}: {} after {then}", model.calls());
            assert_eq!(model.inner.living(), 0);
        }
    }
}

fn calls_out_of_order<F: Face>() {
    let transducer = F::transducer(Arc::new(Toy::new(Random::new(1, 4)))).unwrap();
    let mut stream = F::stream(&transducer, &TransducerConfig::default()).unwrap();
    let data = rows(0, 6);
    for dim in [1, 3] {
        let rows = Matrix { data: &data, frames: 2, dim, stride: dim };
        assert_eq!(F::push(&mut stream, rows).unwrap_err().status, Status::KOSHI_E_SHAPE);
        let outcome = F::search(&transducer, &TransducerConfig::default(), &[rows]).unwrap().remove(0);
        assert_eq!(outcome.unwrap_err().status, Status::KOSHI_E_SHAPE);
    }
    F::push(&mut stream, Matrix::dense(&data, 2)).unwrap();
    let found = F::finish(&mut stream).unwrap();
    assert!(found.list[0].finished);
    assert_eq!(F::finish(&mut stream).unwrap_err().status, Status::KOSHI_E_STATE);
    assert_eq!(F::push(&mut stream, Matrix::dense(&data, 2)).unwrap_err().status, Status::KOSHI_E_STATE);
    assert_eq!(F::commit(&mut stream).unwrap_err().status, Status::KOSHI_E_STATE);
    let (after, stable) = F::partial(&stream).unwrap();
    assert_eq!((after.list, stable), (found.list.clone(), found.list[0].labels.len()));
    // A stream of another transducer is that item's matter.
    let other = F::transducer(Arc::new(Toy::new(Random::new(1, 4)))).unwrap();
    let mut stream = F::stream(&other, &TransducerConfig::default()).unwrap();
    let items = vec![Item { stream: &mut stream, rows: Matrix::dense(&data, 2), last: true }];
    let outcome = F::advance(&transducer, items).unwrap().remove(0);
    assert_eq!(outcome.unwrap_err().status, Status::KOSHI_E_ARGUMENT);
    // Last rows leave nothing to do for finish.
    let items = vec![Item { stream: &mut stream, rows: Matrix::dense(&data, 2), last: true }];
    assert_eq!(F::advance(&other, items).unwrap(), [Ok(())]);
    assert_eq!(F::push(&mut stream, Matrix::dense(&data, 2)).unwrap_err().status, Status::KOSHI_E_STATE);
    assert_eq!(F::finish(&mut stream).unwrap().list, found.list);
}

fn phrases_out_of_range<F: Face>() {
    let transducer = F::transducer(Arc::new(Toy::new(Random { blank: 2, ..Random::new(1, 4) }))).unwrap();
    let bad: [(&[i32], f32); 7] =
        [(&[], 1.0), (&[2], 1.0), (&[4], 1.0), (&[-1], 1.0), (&[1], -1.0), (&[1], f32::NAN), (&[1, 3, 1], 3e38)];
    for (labels, bonus) in bad {
        let fault = F::set_bias(&transducer, &[Phrase { labels, bonus }]).unwrap_err();
        assert_eq!(fault.status, Status::KOSHI_E_CONFIG, "{}", fault.message);
    }
    F::set_bias(&transducer, &[Phrase { labels: &[0, 1, 3], bonus: 0.0 }]).unwrap();
}

fn ties_go_to_the_smaller_label<F: Face>() {
    let scores = |_: usize, _: usize, history: &[i32]| {
        if history.is_empty() {
            vec![-9.0, 1.0, 1.0, 1.0, 1.0]
        } else {
            vec![0.0, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY]
        }
    };
    for config in all_kinds() {
        let config = TransducerConfig { beam: 3, nbest: 3, score_norm: false, ..config };
        let net = Table { vocab: 5, blank: 0, kind: ScoreKind::Logits, scores, lm: None };
        let found: Hypotheses = search::<F>(Arc::new(Toy::new(net)), &config, Matrix::dense(&rows(0, 1), 2)).unwrap();
        let labels: Vec<_> = found.list.into_iter().map(|entry| entry.labels).collect();
        let wanted: &[Vec<i32>] = &[vec![1], vec![2], vec![3]];
        assert_eq!(labels, wanted[..labels.len()], "{config:?}");
    }
}

fn ties_go_to_the_smaller_label_before_the_older_hypothesis<F: Face>() {
    // First 1 or 2, then 3 or 4 after 1 (the older one), and 1 or 3 after 2; all equally likely.
    let scores = |_: usize, _: usize, history: &[i32]| {
        let (allowed, log_prob): (&[usize], f32) = match history {
            [] => (&[1, 2], -1.0),
            [1] => (&[3, 4], -1.0),
            [2] => (&[1, 3], -1.0),
            _ => (&[0], 0.0),
        };
        (0..5).map(|label| if allowed.contains(&label) { log_prob } else { f32::NEG_INFINITY }).collect()
    };
    for config in all_kinds().into_iter().filter(|config| config.search != SearchKind::Greedy) {
        let config = TransducerConfig { beam: 2, nbest: 2, score_norm: false, ..config };
        let net = Table { vocab: 5, blank: 0, kind: ScoreKind::LogProbs, scores, lm: None };
        let found = search::<F>(Arc::new(Toy::new(net)), &config, Matrix::dense(&rows(0, 1), 2)).unwrap();
        let labels: Vec<_> = found.list.into_iter().map(|entry| entry.labels).collect();
        assert_eq!(labels, [[2, 1], [1, 3]], "{config:?}");
    }
}

fn phrases_are_found_beyond_the_best_labels<F: Face>() {
    // The beam has room for label 1 alone, but the phrase wants label 3.
    let scores = |_: usize, _: usize, history: &[i32]| match history {
        [] => [0.3f32, 0.4, 0.2, 0.1].map(f32::ln).to_vec(),
        _ => [0.997f32, 0.001, 0.001, 0.001].map(f32::ln).to_vec(),
    };
    for config in all_kinds().into_iter().filter(|config| config.search != SearchKind::Greedy) {
        let config = TransducerConfig { beam: 1, score_norm: false, ..config };
        let net = Table { vocab: 4, blank: 0, kind: ScoreKind::LogProbs, scores, lm: None };
        let transducer = F::transducer(Arc::new(Toy::new(net))).unwrap();
        let data = rows(0, 1);
        let best = || F::search(&transducer, &config, &[Matrix::dense(&data, 2)]).unwrap().remove(0).unwrap().list;
        assert_ne!(best()[0].labels, [3], "{config:?}");
        F::set_bias(&transducer, &[Phrase { labels: &[3], bonus: 5.0 }]).unwrap();
        assert_eq!(best()[0].labels, [3], "{config:?}");
    }
}
