//! Confidences and times against all sentences of small lattices, listed.

#[path = "support/small_lattices.rs"]
mod small_lattices;

use std::collections::BTreeMap;

use koshi::lattice::{CompactLattice, CtmFormat, LatticeArc, LatticeWeight, PartsBuilder, WordsConfig};
use koshi::table::{Input, SymbolTable};
use proptest::prelude::*;
use small_lattices::{parts_of_compact, walks};

/// From, to, word, cost.
type Arc = (u32, u32, i32, f32);

/// A lattice whose state `s` has the time `times[s]`; the last state is final.
fn lattice(times: &[u32], arcs: &[Arc]) -> CompactLattice {
    let mut builder = PartsBuilder::default();
    builder.set_start(0);
    for &(from, next, word, cost) in arcs {
        let weight = LatticeWeight { graph: cost, acoustic: 0.0 };
        let frames = times[next as usize] - times[from as usize];
        let string = vec![1; frames as usize];
        builder.add_arc(from, LatticeArc { next, ilabel: word, olabel: word, weight }, &string).unwrap();
    }
    builder.set_final(times.len() as u32 - 1, LatticeWeight::ONE, &[]).unwrap();
    CompactLattice::from_parts(builder.finish(true).unwrap()).unwrap()
}

/// Sentences with their probabilities.
fn sentences(lattice: &CompactLattice) -> BTreeMap<Vec<i32>, f64> {
    let mut sentences = BTreeMap::new();
    for walk in walks(&parts_of_compact(lattice)) {
        *sentences.entry(walk.written.0).or_insert(0.0) += (-walk.written.2 - walk.written.3).exp();
    }
    let total: f64 = sentences.values().sum();
    sentences.values_mut().for_each(|probability| *probability /= total);
    sentences
}

fn edit_distance(one: &[i32], two: &[i32]) -> f64 {
    let mut row: Vec<usize> = (0..=two.len()).collect();
    for (at, word) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for column in 1..row.len() {
            let substituted = diagonal + usize::from(*word != two[column - 1]);
            diagonal = row[column];
            row[column] = substituted.min(row[column] + 1).min(row[column - 1] + 1);
        }
    }
    row[two.len()] as f64
}

fn expected_distance(sentences: &BTreeMap<Vec<i32>, f64>, words: &[i32]) -> f64 {
    sentences.iter().map(|(sentence, probability)| probability * edit_distance(sentence, words)).sum()
}

fn labels(words: &koshi::lattice::Words) -> Vec<i32> {
    words.labels().collect()
}

/// States at rising times, arcs forward in time between any two, the last state at the end.
fn small_lattice() -> impl Strategy<Value = CompactLattice> {
    let arc = (0u32..5, 1u32..5, 0i32..4, -8i32..12);
    (prop::collection::vec(1u32..4, 4), prop::collection::vec(arc, 1..10), -8i32..8).prop_map(
        |(steps, drawn, bypass)| {
            let times: Vec<u32> = std::iter::once(0)
                .chain(steps.iter().scan(0, |time, step| {
                    *time += step;
                    Some(*time)
                }))
                .collect();
            let mut arcs: Vec<Arc> = drawn
                .iter()
                .filter(|(from, next, ..)| from < next)
                .map(|&(from, next, word, cost)| (from, next, word, cost as f32 / 4.0))
                .collect();
            // There is always a path.
            arcs.push((0, 4, 5, bypass as f32 / 4.0 + 2.0));
            lattice(&times, &arcs)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn bins_and_expected_errors(lattice in small_lattice()) {
        let sentences = sentences(&lattice);
        let mbr = lattice.words(&WordsConfig::default()).unwrap();
        let best = lattice.words(&WordsConfig { decode_mbr: false, ..WordsConfig::default() }).unwrap();
        for words in [&mbr, &best] {
            for at in 0..words.bins.len() {
                let alternatives = words.alternatives_of(at);
                let sum: f64 = alternatives.iter().map(|other| f64::from(other.posterior)).sum();
                prop_assert!((sum - 1.0).abs() < 1e-5, "{sum}");
                prop_assert!(alternatives.windows(2).all(|two| two[0].posterior >= two[1].posterior));
                for other in alternatives {
                    let end = other.start + other.frames;
                    prop_assert!(other.start > -1e-3 && other.frames > -1e-3 && end < lattice.num_frames as f32 + 1e-3);
                }
            }
            prop_assert!(words.words.iter().all(|word| (0.0..=1.0).contains(&word.confidence)));
            prop_assert!(words.words.windows(2).all(|two| two[0].start + two[0].frames < two[1].start + 1e-3));
            // The recursion bounds the true distance: it chooses an alignment for each state, not for each path.
            let truly = expected_distance(&sentences, &labels(words));
            prop_assert!(truly < words.expected_errors + 1e-6, "{} {}", truly, words.expected_errors);
        }
        // The best path is where refinement begins, and it never becomes worse.
        prop_assert!(mbr.expected_errors < best.expected_errors + 1e-3);
        let path = lattice.best_path(1.0).unwrap();
        prop_assert!(sentences.contains_key(&labels(&best)) && sentences.contains_key(&path.olabels));
        // The same again, to the bit.
        prop_assert_eq!(&lattice.words(&WordsConfig::default()).unwrap(), &mbr);
        prop_assert_eq!(&lattice.words_of(&labels(&best), &WordsConfig { decode_mbr: false, ..WordsConfig::default() }).unwrap(), &best);
    }

    #[test]
    fn a_network_of_slots(costs in prop::collection::vec(prop::collection::vec(-8i32..8, 1..4), 1..5)) {
        // In each slot some words compete; slots are independent, so posteriors are those of the slot.
        let times: Vec<u32> = (0..=costs.len() as u32).map(|slot| 2 * slot).collect();
        let arcs: Vec<Arc> = costs.iter().enumerate().flat_map(|(slot, costs)| {
            let word = move |(at, &cost): (usize, &i32)| (slot as u32, slot as u32 + 1, (10 * slot + at + 1) as i32, cost as f32 / 4.0);
            costs.iter().enumerate().map(word)
        }).collect();
        let words = lattice(&times, &arcs).words(&WordsConfig::default()).unwrap();
        prop_assert_eq!(words.words.len(), costs.len());
        for (slot, (word, costs)) in words.words.iter().zip(&costs).enumerate() {
            let weight = |cost: &i32| (-f64::from(*cost) / 4.0).exp();
            let total: f64 = costs.iter().map(weight).sum();
            let most = costs.iter().map(weight).fold(0.0, f64::max) / total;
            prop_assert!((f64::from(word.confidence) - most).abs() < 1e-5);
            prop_assert!((word.start - 2.0 * slot as f32).abs() < 1e-3 && (word.frames - 2.0).abs() < 1e-3);
        }
        let wrong: f64 = words.words.iter().map(|word| 1.0 - f64::from(word.confidence)).sum();
        prop_assert!((words.expected_errors - wrong).abs() < 1e-3);
    }
}

/// Three sentences: 1 2 with 0.4, 1 3 with 0.3, 4 3 with 0.3. No sentence is likelier than 1 2, but most say 3 last.
fn three() -> CompactLattice {
    let cost = |probability: f32| -probability.ln();
    let arcs = [
        (0, 1, 1, cost(0.4)),
        (1, 4, 2, 0.0),
        (0, 2, 1, cost(0.3)),
        (2, 4, 3, 0.0),
        (0, 3, 4, cost(0.3)),
        (3, 4, 3, 0.0),
    ];
    lattice(&[0, 5, 7, 6, 10], &arcs)
}

#[test]
fn the_words_of_least_error_are_not_those_of_the_best_path() {
    let lattice = three();
    assert_eq!(lattice.best_path(1.0).unwrap().olabels, [1, 2]);
    let words = lattice.words(&WordsConfig::default()).unwrap();
    assert_eq!(labels(&words), [1, 3]);
    // 0.3 of the errors come from 4, 0.4 from 2.
    assert!((words.expected_errors - 0.7).abs() < 1e-4, "{}", words.expected_errors);
    let near = |a: f32, b: f32| (a - b).abs() < 1e-4;
    let [first, second] = words.words[..] else { panic!("{words:?}") };
    assert!(near(first.confidence, 0.7) && near(second.confidence, 0.6), "{words:?}");
    // Means over the paths that have the word: 1 ends at 5 and 7, 3 begins at 7 and 6. Where they overlap they meet.
    let (ends, begins) = ((0.4 * 5.0 + 0.3 * 7.0) / 0.7, (0.3 * 7.0 + 0.3 * 6.0) / 0.6);
    assert!(ends < begins);
    assert!(near(first.start, 0.0) && near(first.frames, ends), "{words:?}");
    assert!(near(second.start, begins) && near(second.start + second.frames, 10.0), "{words:?}");
    let of_bin: Vec<(i32, bool)> =
        words.alternatives_of(second.bin as usize).iter().map(|other| (other.label, other.posterior > 0.5)).collect();
    assert_eq!(of_bin, [(3, true), (2, false)]);

    let exact = lattice.words(&WordsConfig { one_best_times: true, ..WordsConfig::default() }).unwrap();
    let times: Vec<(f32, f32)> = exact.words.iter().map(|word| (word.start, word.frames)).collect();
    assert_eq!(times, [(0.0, 7.0), (7.0, 3.0)]);
    let silent = lattice.words(&WordsConfig { keep_silence: true, ..WordsConfig::default() }).unwrap();
    assert_eq!(labels(&silent), [0, 1, 0, 3, 0]);
}

#[test]
fn confidences_of_given_words() {
    let lattice = three();
    let config = WordsConfig { decode_mbr: false, ..WordsConfig::default() };
    let words = lattice.words_of(&[4, 9, 3], &config).unwrap();
    assert_eq!(labels(&words), [4, 9, 3]);
    assert!((words.words[0].confidence - 0.3).abs() < 1e-4 && words.words[1].confidence == 0.0, "{words:?}");
    assert!(words.words.iter().all(|word| word.start.is_finite() && word.frames.is_finite()));
    let none = lattice.words_of(&[], &config).unwrap();
    assert_eq!((labels(&none), none.bins.len()), (vec![], 1));
    assert!((none.expected_errors - 2.0).abs() < 1e-3);
    assert!(none.mean_confidence().is_nan());
    assert!(lattice.words_of(&[-1], &config).is_err());
    // The scale counts: without costs all three sentences are alike.
    let flat = lattice.words(&WordsConfig { graph_scale: 0.0, ..config }).unwrap();
    assert!((flat.words[0].confidence - 2.0 / 3.0).abs() < 1e-4);
    for bad in [f32::NAN, f32::INFINITY] {
        assert!(lattice.words(&WordsConfig { acoustic_scale: bad, ..config }).is_err());
    }
}

#[test]
fn lattices_at_the_edge() {
    let words = CompactLattice::default().words(&WordsConfig::default()).unwrap();
    assert!(words.words.is_empty() && words.bins.is_empty() && words.expected_errors == 0.0);
    assert_eq!(words.to_ctm("u", &CtmFormat::default(), None).unwrap(), b"");
    // Nothing but silence.
    let silence = lattice(&[0, 3], &[(0, 1, 0, 1.0)]);
    let words = silence.words(&WordsConfig::default()).unwrap();
    assert!(words.words.is_empty() && words.bins.len() == 1);
    // One state, final at once.
    let point = lattice(&[0], &[]);
    assert!(point.words(&WordsConfig { one_best_times: true, ..WordsConfig::default() }).unwrap().words.is_empty());
    // Costs far apart: the other sentence has no probability left.
    let apart = lattice(&[0, 1], &[(0, 1, 1, 0.0), (0, 1, 2, 1e30)]);
    let words = apart.words(&WordsConfig::default()).unwrap();
    assert_eq!((labels(&words), words.words[0].confidence), (vec![1], 1.0));
    // Costs that leave binary32 once scaled, and paths that differ in frames.
    let config = WordsConfig { graph_scale: 1e30, ..WordsConfig::default() };
    assert!(apart.words(&config).unwrap_err().to_string().contains("too much at these scales"));
    let mut uneven = CompactLattice { times: Vec::new(), ..apart };
    assert!(uneven.words(&WordsConfig::default()).unwrap_err().to_string().contains("differ in frames"));
    uneven.set_times().unwrap();
    assert!(uneven.words(&WordsConfig::default()).is_ok());
}

#[test]
fn lines_of_a_ctm_file() {
    let lattice = three();
    let words = lattice.words(&WordsConfig { one_best_times: true, ..WordsConfig::default() }).unwrap();
    let text = |format: &CtmFormat, symbols: Option<&SymbolTable>| {
        String::from_utf8(words.to_ctm("utt-1", format, symbols).unwrap()).unwrap()
    };
    let plain = CtmFormat::default();
    assert_eq!(text(&plain, None), "utt-1 1 0.00 0.07 1 0.70\nutt-1 1 0.07 0.03 3 0.60\n");
    let longer = CtmFormat { frame_shift: 0.03, digits: 3, confidences: false };
    let symbols = SymbolTable::read(&mut Input::from_bytes("words", "one 1\nthree 3\n")).unwrap();
    assert_eq!(text(&longer, Some(&symbols)), "utt-1 1 0.000 0.210 one\nutt-1 1 0.210 0.090 three\n");
    let few = SymbolTable::read(&mut Input::from_bytes("words", "one 1\n")).unwrap();
    assert!(words.to_ctm("u", &plain, Some(&few)).unwrap_err().to_string().contains("word 3 is not in"));
    for bad in [
        CtmFormat { frame_shift: 0.0, ..plain },
        CtmFormat { frame_shift: f32::NAN, ..plain },
        CtmFormat { digits: 401, ..plain },
    ] {
        assert!(words.to_ctm("u", &bad, None).is_err());
    }
    let best = lattice.best_words(1.0, false).unwrap();
    let found = String::from_utf8(best.to_ctm("u", &longer, None).unwrap()).unwrap();
    assert_eq!(found, "u 1 0.000 0.150 1\nu 1 0.150 0.150 2\n");
}
