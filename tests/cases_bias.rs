//! Phrases in both faces: on real speech and by hand, side by side with other channels, and what is refused.

mod common;
#[path = "common/face/mod.rs"]
mod face;
#[path = "support/prompts.rs"]
mod prompts;

use std::collections::HashMap;

use common::graph::{arc, source};
use face::{Face, Matrix, Results, Status, graph, results};
use koshi::decoder::DecoderConfig;
use koshi::graph::VecSource;
use koshi::search::{Phrase, SearchConfig};
use prompts::{Prompt, Words, columns, file, prompts};

over_both_faces! {
    phrases_that_were_wrong_become_right
    channels_with_other_lists_beside_them
    costs_by_hand
    a_list_that_changes_on_the_way
    what_is_no_list
}

over_both_faces_on_gpu! {
    costs_by_hand
    a_list_that_changes_on_the_way
    what_is_no_list
}

#[test]
fn speech_on_a_gpu() {
    face::on_gpu(phrases_that_were_wrong_become_right::<face::Rust>);
}

fn config(num_lanes: u32, num_threads: u32) -> DecoderConfig {
    let search = SearchConfig {
        beam: 13.0,
        lattice_beam: 6.0,
        max_active: 7000,
        acoustic_scale: 0.083_333,
        ..SearchConfig::default()
    };
    DecoderConfig { search, num_lanes, num_threads, ..DecoderConfig::default() }
}

fn speech<F: Face>() -> F::Graph {
    F::graph_read(&file("HCLG.fst"), Some(&columns())).unwrap()
}

/// An utterance in a channel that is used again.
fn decode<F: Face>(channel: &mut F::Channel, prompt: &Prompt) -> Results {
    F::begin(channel).unwrap();
    F::push(channel, Matrix::dense(&prompt.data, prompt.dim)).unwrap();
    F::finish(channel).unwrap();
    results::<F>(channel)
}

/// A phrase with its bonus.
type Given = (Vec<i32>, f32);

fn phrases(list: &[Given]) -> Vec<Phrase<'_>> {
    list.iter().map(|(labels, bonus)| Phrase { labels, bonus: *bonus }).collect()
}

/// What is misheard without a phrase, and the phrase that mends it.
fn mended(words: &Words) -> [(&'static str, Given); 2] {
    [
        ("allison-confbridge-conf-end", (words.numbers("has ended"), 14.0)),
        ("allison-number-not-answering", (words.numbers("not answering"), 8.0)),
    ]
}

/// What no phrase that is said there mends.
const WRONG: &str = "allison-dir-multi9";

fn phrases_that_were_wrong_become_right<F: Face>() {
    let (graph, words, prompts) = (speech::<F>(), Words::read(), prompts());
    let decoder = F::decoder(&graph, &config(1, 1)).unwrap();
    let mut channel = F::channel(&decoder).unwrap();
    let plain: Vec<Results> = prompts.iter().map(|prompt| decode::<F>(&mut channel, prompt)).collect();
    let mended: HashMap<_, _> = mended(&words).into_iter().collect();
    for (prompt, found) in prompts.iter().zip(&plain) {
        let right = found.paths[0].olabels == words.said(&prompt.key);
        assert_eq!(right, !mended.contains_key(&*prompt.key) && prompt.key != WRONG, "{}", prompt.key);
        assert_eq!((found.paths[0].bias_cost, found.lattices[0].bias.is_empty()), (0.0, true));
    }

    // One phrase after another: its utterance is right, all others keep their words.
    for (key, given) in &mended {
        F::set_bias(&mut channel, &phrases(std::slice::from_ref(given))).unwrap();
        for (prompt, before) in prompts.iter().zip(&plain) {
            let found = decode::<F>(&mut channel, prompt);
            let (path, plain) = (&found.paths[0], &before.paths[0]);
            let cost = |path: &face::Words| path.graph_cost + 0.083_333 * path.acoustic_cost;
            if prompt.key == *key {
                assert_eq!(path.olabels, words.said(key), "{key}");
                assert!((path.bias_cost + f64::from(given.1)).abs() < 1e-5, "{key}: {}", path.bias_cost);
                assert!(cost(path) > cost(plain), "{key}: without the phrase it was not the best");
            } else {
                // Where nothing of the phrase is said, what is held on the way is given back.
                assert_eq!(path.olabels, plain.olabels, "{} with the phrase of {key}", prompt.key);
                // (to what another pruning on the way may bring)
                assert!((cost(path) - cost(plain)).abs() < 1e-3 * cost(plain).abs(), "{}", prompt.key);
                assert!(path.bias_cost.abs() < 1e-5, "{}: {}", prompt.key, path.bias_cost);
            }
        }
    }

    // All phrases at once, and then none: the old bits.
    let all: Vec<Given> = mended.into_values().collect();
    F::set_bias(&mut channel, &phrases(&all)).unwrap();
    for (prompt, before) in prompts.iter().zip(&plain) {
        let found = decode::<F>(&mut channel, prompt).paths[0].olabels.clone();
        assert_eq!(found, if prompt.key == WRONG { before.paths[0].olabels.clone() } else { words.said(&prompt.key) });
    }
    F::set_bias(&mut channel, &[]).unwrap();
    for (prompt, before) in prompts.iter().zip(&plain) {
        assert_eq!(decode::<F>(&mut channel, prompt), *before, "{}", prompt.key);
    }
}

fn channels_with_other_lists_beside_them<F: Face>() {
    let (graph, words, prompts) = (speech::<F>(), Words::read(), prompts());
    let lists: Vec<Vec<Given>> = vec![
        vec![],
        mended(&words).into_iter().map(|(_, given)| given).collect(),
        vec![(words.numbers("the conference"), 3.0), (words.numbers("conference has"), 5.0)],
        vec![(words.numbers("press"), -2.0)],
    ];
    // Few tokens, so that a neighbour's list would be felt.
    let search = SearchConfig { max_active: 700, ..config(1, 1).search };
    let set = |channel: &mut F::Channel, at: usize| {
        F::set_bias(channel, &phrases(&lists[at % lists.len()])).unwrap();
    };
    let alone: Vec<Results> = prompts
        .iter()
        .enumerate()
        .map(|(at, prompt)| {
            let decoder = F::decoder(&graph, &DecoderConfig { search, ..config(1, 1) }).unwrap();
            let mut channel = F::channel(&decoder).unwrap();
            set(&mut channel, at);
            decode::<F>(&mut channel, prompt)
        })
        .collect();
    for (lanes, threads, size) in [(1, 1, 1000), (3, 2, 25), (16, 4, 7)] {
        let decoder = F::decoder(&graph, &DecoderConfig { search, ..config(lanes, threads) }).unwrap();
        let mut channels: Vec<F::Channel> = prompts.iter().map(|_| F::channel(&decoder).unwrap()).collect();
        for (at, channel) in channels.iter_mut().enumerate() {
            set(channel, at);
            F::begin(channel).unwrap();
        }
        let most = prompts.iter().map(|prompt| prompt.data.len() / prompt.dim).max().unwrap();
        for from in (0..most).step_by(size) {
            let part = |prompt: &'static Prompt| {
                let rows = Matrix::dense(&prompt.data, prompt.dim);
                rows.part(from.min(rows.frames), (from + size).min(rows.frames))
            };
            let mut items: Vec<_> = channels.iter_mut().zip(prompts).map(|(channel, p)| (channel, part(p))).collect();
            assert!(F::batch(&decoder, &mut items).iter().all(Result::is_ok));
        }
        for ((channel, wanted), prompt) in channels.iter_mut().zip(&alone).zip(prompts) {
            F::finish(channel).unwrap();
            assert_eq!(results::<F>(channel), *wanted, "{}: {lanes} lanes, {threads} threads", prompt.key);
        }
    }
}

/// Words 1 and 2 on either of two arcs a frame, three frames; each word costs its number.
fn two_words() -> VecSource {
    let both = |next: u32| vec![arc(1, 1, 1.0, next), arc(2, 2, 2.0, next)];
    source(Some(0), vec![(f32::INFINITY, both(1)), (f32::INFINITY, both(2)), (f32::INFINITY, both(3)), (0.5, vec![])])
}

fn costs_by_hand<F: Face>() {
    let rows = Matrix::dense(&[0.0; 6], 2);
    let search = SearchConfig { beam: 20.0, lattice_beam: 20.0, ..SearchConfig::default() };
    let decoder = F::decoder(&graph::<F>(&two_words()), &DecoderConfig { search, ..config(1, 1) }).unwrap();
    let mut channel = F::channel(&decoder).unwrap();
    let mut best = |phrases: &[Phrase<'_>]| {
        F::set_bias(&mut channel, phrases).unwrap();
        F::begin(&mut channel).unwrap();
        F::push(&mut channel, rows).unwrap();
        let found = results::<F>(&mut channel);
        (found.paths[0].olabels.clone(), found.paths[0].graph_cost, found.paths[0].bias_cost, found)
    };
    let (olabels, graph, bias, found) = best(&[]);
    assert_eq!((olabels, graph, bias, found.lattices[0].num_states()), (vec![1, 1, 1], 3.5, 0.0, 4));

    // 2 2 is said once or, in 2 2 2, twice: 4 for each pays for 1 a word.
    let (olabels, graph, bias, found) = best(&[Phrase { labels: &[2, 2], bonus: 4.0 }]);
    assert_eq!((olabels, graph, bias), (vec![2, 2, 2], 6.5, -8.0));
    let lattice = &found.lattices[0];
    // States: the start; after 1, after 2; after a 1 last, a 2 last, a pair; the same at the end.
    assert_eq!((lattice.num_states(), lattice.num_arcs()), (9, 12));
    assert_eq!(lattice.times, [0, 1, 1, 2, 2, 2, 3, 3, 3]);
    assert_eq!(lattice.bias.arcs[..6], [0.0, -2.0, 0.0, -2.0, 2.0, -4.0]);
    assert_eq!(lattice.bias.finals[6..], [0.0, 2.0, 2.0], "what is held is given back");
    assert!(lattice.arcs.iter().all(|arc| arc.weight.graph == arc.olabel as f32), "graph costs are the graph's");

    // A phrase that cannot be completed changes no path and no cost.
    let (olabels, graph, bias, _) = best(&[Phrase { labels: &[1, 1, 1, 1], bonus: 8.0 }]);
    assert_eq!((olabels, graph, bias), (vec![1, 1, 1], 3.5, 0.0));
    // Below 0: 1 1 costs 3 each time; one 2 in the middle is the cheapest way around.
    let (olabels, graph, bias, _) = best(&[Phrase { labels: &[1, 1], bonus: -3.0 }]);
    assert_eq!((olabels, graph, bias), (vec![1, 2, 1], 4.5, 0.0));
}

fn a_list_that_changes_on_the_way<F: Face>() {
    let rows = Matrix::dense(&[0.0; 6], 2);
    let search = SearchConfig { beam: 20.0, lattice_beam: 20.0, ..SearchConfig::default() };
    let decoder = F::decoder(&graph::<F>(&two_words()), &DecoderConfig { search, ..config(1, 1) }).unwrap();
    let mut channel = F::channel(&decoder).unwrap();
    let words = |channel: &F::Channel| F::best_path(channel, true).unwrap();
    let two = Phrase { labels: &[2], bonus: 4.0 };
    F::begin(&mut channel).unwrap();
    F::push(&mut channel, rows.part(0, 1)).unwrap();
    F::set_bias(&mut channel, &[two]).unwrap();
    F::push(&mut channel, rows.part(1, 2)).unwrap();
    F::set_bias(&mut channel, &[]).unwrap();
    F::push(&mut channel, rows.part(2, 3)).unwrap();
    let found = words(&channel);
    assert_eq!(
        (found.olabels, found.graph_cost, found.bias_cost),
        (vec![1, 2, 1], 4.5, -4.0),
        "the second frame alone"
    );

    // Half of a phrase when its list goes: given back on the next arc.
    let pair = Phrase { labels: &[2, 2], bonus: 10.0 };
    F::set_bias(&mut channel, &[pair]).unwrap();
    F::begin(&mut channel).unwrap();
    F::push(&mut channel, rows.part(0, 1)).unwrap();
    let partial = F::best_path(&channel, false).unwrap();
    assert_eq!((partial.olabels, partial.bias_cost), (vec![1], 0.0), "an end gives back what is held");
    F::set_bias(&mut channel, &[two]).unwrap();
    F::push(&mut channel, rows.part(1, 3)).unwrap();
    let lattice = F::lattice(&mut channel, true).unwrap();
    assert_eq!(lattice.bias.arcs[..6], [0.0, -5.0, 0.0, -4.0, 5.0, 1.0]);
    let found = words(&channel);
    assert_eq!((found.olabels, found.graph_cost, found.bias_cost), (vec![1, 2, 2], 5.5, -8.0));

    // The next utterance has the last list from its start; without one it is as ever.
    F::begin(&mut channel).unwrap();
    F::push(&mut channel, rows).unwrap();
    assert_eq!(words(&channel).bias_cost, -12.0);
    F::set_bias(&mut channel, &[]).unwrap();
    F::begin(&mut channel).unwrap();
    F::push(&mut channel, rows).unwrap();
    assert_eq!(
        (words(&channel).olabels, F::lattice(&mut channel, true).unwrap().bias.is_empty()),
        (vec![1, 1, 1], true)
    );
}

fn what_is_no_list<F: Face>() {
    let rows = Matrix::dense(&[0.0; 6], 2);
    let decoder = F::decoder(&graph::<F>(&two_words()), &config(1, 1)).unwrap();
    let mut channel = F::channel(&decoder).unwrap();
    let kept = Phrase { labels: &[2], bonus: 4.0 };
    F::set_bias(&mut channel, &[kept]).unwrap();
    F::begin(&mut channel).unwrap();
    let bad: [(&[i32], f32); 7] = [
        (&[], 1.0),
        (&[1, 0], 1.0),
        (&[-5], 1.0),
        (&[1], f32::NAN),
        (&[1], f32::INFINITY),
        (&[1], f32::NEG_INFINITY),
        (&[1], 2e30),
    ];
    for (labels, bonus) in bad {
        let list = [kept, Phrase { labels, bonus }];
        let fault = F::set_bias(&mut channel, &list).unwrap_err();
        assert_eq!(fault.status, Status::KOSHI_E_CONFIG, "{fault:?}");
        assert!(fault.message.contains("phrase 1: "), "{}", fault.message);
    }
    let long = vec![1; (1 << 24) + 1];
    let fault = F::set_bias(&mut channel, &[Phrase { labels: &long, bonus: 1.0 }]).unwrap_err();
    assert_eq!(fault.status, Status::KOSHI_E_LIMIT, "{fault:?}");
    // The list from before still holds.
    F::push(&mut channel, rows).unwrap();
    assert_eq!(F::best_path(&channel, true).unwrap().bias_cost, -12.0);
}
