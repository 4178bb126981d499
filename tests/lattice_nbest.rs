//! n-best lists, unions, depths and oracle paths: small lattices by hand and against the
//! listing of all paths, and Kaldi's own n-best lists on real ones.

#[path = "support/sentences.rs"]
mod sentences;
#[path = "support/shared.rs"]
mod shared;
#[path = "support/small_lattices.rs"]
mod small_lattices;

use std::collections::BTreeMap;
use std::sync::Arc;

use koshi::lattice::{
    CompactLattice, DeterminizeConfig, Lattice, LatticeArc, LatticeWeight, Parts, PartsBuilder, Path, RawLattice,
};
use koshi::table::{Input, SequentialReader, Transitions};
use proptest::prelude::*;
use sentences::Sentences;
use shared::{read, shared};
use small_lattices::*;

/// A power of two: scaled sums stay exact.
const SCALE: f32 = 0.5;

fn total(walk: &Walk) -> f64 {
    walk.written.2 + f64::from(SCALE) * walk.written.3
}

fn lattice(text: &str) -> Lattice {
    Lattice::from_bytes(text.as_bytes()).unwrap()
}

fn words(paths: &[Arc<Path>]) -> Vec<Vec<i32>> {
    paths.iter().map(|path| path.olabels.clone()).collect()
}

/// Every word sequence with its least cost and its share, by cost and then by words.
fn all_sentences(walks: &[Walk]) -> Vec<(f64, Vec<i32>, f64)> {
    let mut best: BTreeMap<&[i32], (f64, f64)> = BTreeMap::new();
    let whole: f64 = walks.iter().map(|walk| (-total(walk)).exp()).sum();
    for walk in walks {
        let entry = best.entry(&walk.written.0).or_insert((f64::INFINITY, 0.0));
        *entry = (entry.0.min(total(walk)), entry.1 + (-total(walk)).exp() / whole);
    }
    let mut sentences: Vec<_> = best.into_iter().map(|(words, (cost, share))| (cost, words.to_vec(), share)).collect();
    sentences.sort_by(|a, b| a.partial_cmp(b).unwrap());
    sentences
}

/// Edit distance of two word sequences, by the textbook.
fn edit_distance(one: &[i32], other: &[i32]) -> u32 {
    let mut row: Vec<u32> = (0..=other.len() as u32).collect();
    for (at, a) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at as u32 + 1;
        for (place, b) in other.iter().enumerate() {
            let stands = diagonal + u32::from(a != b);
            diagonal = row[place + 1];
            row[place + 1] = stands.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[other.len()]
}

#[test]
fn two_sentences_by_hand() {
    // "7 9" and "7" in two alignments each, "8 9" and "8" in one.
    let lattice = lattice("0 1 1 7 1,2\n0 1 2 7 0,3\n0 1 2 8 2,4\n1 2 3 9 1,0\n1 3,0\n2 0.5,0\n");
    let nbest = lattice.nbest(10, 1.0).unwrap();
    assert_eq!(words(&nbest.paths), [vec![7, 9], vec![7], vec![8, 9], vec![8]]);
    assert_eq!(nbest.paths[0].ilabels, [1, 3], "of equal alignments the first arc");
    assert_eq!(nbest.paths[0].frames, [0, 1]);
    let costs: Vec<_> = nbest.paths.iter().map(|path| (path.graph_cost, path.acoustic_cost)).collect();
    assert_eq!(costs, [(2.5, 2.0), (4.0, 2.0), (3.5, 4.0), (5.0, 4.0)]);
    let shares = [2.0 * (-4.5f64).exp(), 2.0 * (-6.0f64).exp(), (-7.5f64).exp(), (-9.0f64).exp()];
    let whole: f64 = shares.iter().sum();
    for (posterior, share) in nbest.posteriors.iter().zip(shares) {
        assert!((posterior - share / whole).abs() < 1e-12);
    }
    assert!(!nbest.cut_short);
    assert_eq!(words(&lattice.nbest(2, 1.0).unwrap().paths), [vec![7, 9], vec![7]]);
    assert!(lattice.nbest(0, 1.0).unwrap().paths.is_empty());
    assert!(lattice.nbest(1, f32::NAN).is_err());
    // Other scales, another order: the graph alone, and the costs turned round.
    let order = |graph, acoustic| {
        let routes = lattice.nbest_routes(9, graph, acoustic).unwrap();
        routes.iter().map(|route| lattice.path_along(route, 1.0).unwrap().olabels).collect::<Vec<_>>()
    };
    assert_eq!(order(1.0, 0.0), [vec![7, 9], vec![7], vec![8, 9], vec![8]]);
    assert_eq!(order(-1.0, -1.0), [vec![8], vec![8, 9], vec![7], vec![7, 9]]);
    assert!(lattice.nbest_routes(1, f32::INFINITY, 1.0).is_err());
}

#[test]
fn case_b07_one_state_has_one_empty_sentence() {
    for text in ["0 2,3\n", "0 2,3,\n", "0 2,3,4_5\n"] {
        let nbest = lattice(text).nbest(5, 1.0).unwrap();
        assert_eq!((words(&nbest.paths), nbest.posteriors), (vec![vec![]], vec![1.0]), "{text}");
        assert_eq!(nbest.paths[0].total_cost(), 5.0);
    }
}

#[test]
fn case_b08_no_path_no_sentence() {
    // No states; and a final state that is out of reach.
    let unconnected = lattice("0 1 1 1\n2\n");
    for lattice in [Lattice::Raw(RawLattice::default()), Lattice::Compact(CompactLattice::default()), unconnected] {
        assert_eq!(lattice.nbest(3, 1.0).unwrap(), koshi::lattice::NBest::default());
        assert!(lattice.random_routes(3, 1).unwrap().is_empty());
        assert!(lattice.oracle(&[1]).is_err());
        assert_eq!(lattice.depth(), 1.0);
        assert!(lattice.union(&lattice).unwrap().is_empty());
        let other = self::lattice("0 1 1 1\n1\n");
        assert_eq!(words(&lattice.union(&other).unwrap().nbest(3, 1.0).unwrap().paths), [vec![1]]);
        assert_eq!(words(&other.union(&lattice).unwrap().nbest(3, 1.0).unwrap().paths), [vec![1]]);
    }
}

#[test]
fn case_b20_strings_are_not_turned_round() {
    let lattice = lattice("0 1 5 0,0,1_2\n1 2 6 0,0,3\n2\n");
    assert_eq!(lattice.nbest(1, 1.0).unwrap().paths[0].ilabels, [1, 2, 3]);
}

#[test]
fn case_b35_missing_weights_are_0() {
    assert_eq!(lattice("0 1 1 1\n1\n").nbest(2, 1.0).unwrap().paths[0].total_cost(), 0.0);
}

#[test]
fn a_path_alone_has_the_shape_that_kaldi_writes() {
    // The word-less arc in the middle and the final string join the word before them.
    let lattice = lattice("0 1 5 1,2,1_2\n1 2 0 0.5,1,3\n2 3 6 1,1,4\n3 0.25,0.5,9\n");
    let route = &lattice.nbest_routes(1, 1.0, 1.0).unwrap()[0];
    let linear = lattice.linear_along(route).unwrap();
    let text = String::from_utf8(linear.to_bytes(false)).unwrap();
    assert_eq!(text, "\n0\t1\t5\t1.5,3,1_2_3\n1\t2\t6\t1.25,1.5,4_9\n2\n\n");
    assert_eq!(linear.num_frames, 5);
}

/// The bytes of a lattice, whatever its form.
trait ToBytes {
    fn to_bytes(&self, binary: bool) -> Vec<u8>;
}

impl ToBytes for CompactLattice {
    fn to_bytes(&self, binary: bool) -> Vec<u8> {
        Lattice::Compact(self.clone()).to_bytes(binary).unwrap()
    }
}

#[test]
fn routes_of_another_lattice_are_refused() {
    let (one, other) = (lattice("0 1 1 1\n1 2 1 1\n2\n"), lattice("0 1 1 1\n1\n"));
    let route = one.best_route(1.0, 1.0).unwrap();
    assert!(other.path_along(&route, 1.0).is_err() && other.linear_along(&route).is_err());
    let mut cut = route.clone();
    cut.arcs.pop();
    assert!(one.path_along(&cut, 1.0).is_err());
    cut.last = None;
    assert!(one.path_along(&cut, 1.0).is_err());
}

#[test]
fn depth_counts_arcs_at_a_frame() {
    // Two arcs at the first frame, one at the second; epsilon arcs do not count.
    assert_eq!(lattice("0 1 1 1\n0 1 2 2\n1 2 0 0\n2 3 1 0\n3\n").depth(), 1.5);
    assert_eq!(lattice("0 1 1 0,0,1_1\n0 1 2 0,0,1_1\n1 0,0,3\n").depth(), 5.0 / 3.0);
}

#[test]
fn oracle_by_hand() {
    let lattice = lattice("0 1 1 1 5,0\n0 1 1 2 0,0\n1 2 1 3\n1 2 1 0\n2\n");
    let oracle = lattice.oracle(&[1, 3]).unwrap();
    assert_eq!((oracle.errors(), oracle.path.olabels, oracle.path.graph_cost), (0, vec![1, 3], 5.0));
    let oracle = lattice.oracle(&[4]).unwrap();
    assert_eq!((oracle.substitutions, oracle.insertions, oracle.deletions), (1, 0, 0));
    assert_eq!(oracle.path.olabels, [2], "of equal errors the least cost");
    let oracle = lattice.oracle(&[]).unwrap();
    assert_eq!((oracle.insertions, oracle.errors()), (1, 1));
    let oracle = lattice.oracle(&[2, 9, 3, 4]).unwrap();
    assert_eq!((oracle.deletions, oracle.errors(), oracle.path.olabels), (2, 2, vec![2, 3]));
    assert!(lattice.oracle(&[1, 0]).is_err() && lattice.oracle(&[-1]).is_err());
}

fn check_nbest(lattice: &Lattice, parts: &Parts, n: usize) -> Result<(), TestCaseError> {
    let walks = walks(parts);
    let sentences = all_sentences(&walks);
    let nbest = lattice.nbest(n, SCALE).unwrap();
    prop_assert_eq!(nbest.paths.len(), sentences.len().min(n));
    for (at, (path, (cost, words, share))) in nbest.paths.iter().zip(&sentences).enumerate() {
        prop_assert_eq!((&path.olabels, path.total_cost()), (words, *cost));
        prop_assert!((nbest.posteriors[at] - share).abs() < 1e-9);
        let written = (path.olabels.clone(), path.ilabels.clone(), path.graph_cost, path.acoustic_cost);
        prop_assert!(walks.iter().any(|walk| walk.written == written));
    }
    prop_assert!(nbest.posteriors.iter().sum::<f64>() <= 1.0);
    if n >= sentences.len() && n > 0 && !sentences.is_empty() {
        prop_assert!((nbest.posteriors.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        prop_assert_eq!(nbest.paths[0].total_cost(), lattice.best_path(SCALE).unwrap().total_cost());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nbest_is_the_head_of_all_sentences(raw in raw_parts(), compact in compact_parts(), n in 0usize..12) {
        let raw = RawLattice::from_parts(raw).unwrap();
        check_nbest(&raw.clone().into(), &parts_of_raw(&raw), n)?;
        let compact = CompactLattice::from_parts(compact).unwrap();
        check_nbest(&compact.clone().into(), &parts_of_compact(&compact), n)?;
    }

    #[test]
    fn a_union_has_the_paths_of_both(one in raw_parts(), other in raw_parts(), compact in compact_parts()) {
        let (one, other) = (RawLattice::from_parts(one).unwrap(), RawLattice::from_parts(other).unwrap());
        let union = Lattice::from(one.clone()).union(&other.clone().into()).unwrap().into_raw().unwrap();
        union.validate().unwrap();
        let mut both = written_paths(&parts_of_raw(&one));
        both.extend(written_paths(&parts_of_raw(&other)));
        both.sort_by(|a, b| a.partial_cmp(b).unwrap());
        prop_assert_eq!(written_paths(&parts_of_raw(&union)), both);

        let compact = CompactLattice::from_parts(compact).unwrap();
        let union = Lattice::from(one.clone()).union(&compact.clone().into()).unwrap();
        prop_assert!(union.is_compact());
        union.validate().unwrap();
        let mut both = written_paths(&parts_of_raw(&one));
        both.extend(written_paths(&parts_of_compact(&compact)));
        both.sort_by(|a, b| a.partial_cmp(b).unwrap());
        prop_assert_eq!(written_paths(&parts_of_compact(&union.into_compact().unwrap())), both);
    }

    #[test]
    fn the_oracle_is_the_nearest_of_all_paths(parts in raw_parts(), reference in prop::collection::vec(1i32..4, 0..5)) {
        let lattice = RawLattice::from_parts(parts).unwrap();
        let walks = walks(&parts_of_raw(&lattice));
        let lattice = Lattice::from(lattice);
        let least = walks.iter().map(|walk| edit_distance(&walk.written.0, &reference)).min();
        let Some(least) = least else {
            prop_assert!(lattice.oracle(&reference).is_err());
            return Ok(());
        };
        let oracle = lattice.oracle(&reference).unwrap();
        prop_assert_eq!((oracle.errors(), edit_distance(&oracle.path.olabels, &reference)), (least, least));
        prop_assert_eq!(oracle.path.olabels.len() as u32 + oracle.deletions, reference.len() as u32 + oracle.insertions);
        let near = walks.iter().filter(|walk| edit_distance(&walk.written.0, &reference) == least);
        let cheapest = near.map(|walk| walk.written.2 + walk.written.3).fold(f64::INFINITY, f64::min);
        prop_assert_eq!(oracle.path.graph_cost + oracle.path.acoustic_cost, cheapest);
    }

    #[test]
    fn random_routes_are_paths_and_repeat(parts in raw_parts(), seed in 0u64..1000) {
        let lattice = Lattice::from(RawLattice::from_parts(parts).unwrap());
        let routes = lattice.random_routes(5, seed).unwrap();
        prop_assert_eq!(routes.len(), if lattice.is_empty() { 0 } else { 5 });
        for route in &routes {
            lattice.path_along(route, 1.0).unwrap();
            lattice.linear_along(route).unwrap().validate().unwrap();
        }
        prop_assert_eq!(lattice.random_routes(5, seed).unwrap(), routes);
    }
}

#[test]
fn random_routes_are_spread_evenly() {
    let mut builder = PartsBuilder::default();
    builder.set_start(0);
    for olabel in 1..=3 {
        let arc =
            LatticeArc { next: 1, ilabel: 1, olabel, weight: LatticeWeight { graph: olabel as f32, acoustic: 0.0 } };
        builder.add_arc(0, arc, &[]).unwrap();
    }
    builder.set_final(1, LatticeWeight::ONE, &[]).unwrap();
    let lattice = Lattice::from(RawLattice::from_parts(builder.finish(false).unwrap()).unwrap());
    let mut counts = [0; 3];
    for route in lattice.random_routes(30_000, 7).unwrap() {
        counts[route.arcs[0] as usize] += 1;
    }
    assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
}

/// Lines of a key and numbers.
fn lines(file: &str) -> BTreeMap<String, Vec<f64>> {
    let text = String::from_utf8(read(&shared(file).unwrap())).unwrap();
    let line = |line: &str| {
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        (key.to_string(), rest.split_whitespace().map(|number| number.parse().unwrap()).collect())
    };
    text.lines().map(line).collect()
}

/// Kaldi's n-best list of one utterance: words, graph cost, acoustic cost.
type List = Vec<Sentence>;
type Sentence = (Vec<i32>, f64, f64);

fn kaldi_lists(prefix: &str) -> BTreeMap<String, List> {
    let [words, graph, acoustic] = ["words", "lmcost", "accost"].map(|kind| lines(&format!("{prefix}.nbest.{kind}")));
    let mut lists: BTreeMap<String, Vec<(usize, Sentence)>> = BTreeMap::new();
    for (key, list) in words {
        let (utterance, number) = key.rsplit_once('-').unwrap();
        let entry = (list.iter().map(|&word| word as i32).collect(), graph[&key][0], acoustic[&key][0]);
        lists.entry(utterance.to_string()).or_default().push((number.parse().unwrap(), entry));
    }
    let sorted = |mut list: Vec<(usize, _)>| {
        list.sort_by_key(|&(number, _)| number);
        list.into_iter().map(|(_, entry)| entry).collect()
    };
    lists.into_iter().map(|(key, list)| (key, sorted(list))).collect()
}

/// The 20-best lists of a setting from the lattices of one file: the same words at the same
/// costs, in the same order but for what differs by less than the six digits of the text.
fn compare_with_kaldi(prefix: &str, file: &str, scale: f32, beam: f64, through: impl Fn(Lattice) -> Lattice) {
    let lists = kaldi_lists(prefix);
    let lattices = read(&shared(&format!("{prefix}.{file}")).unwrap());
    let mut reader = SequentialReader::<koshi::lattice::LatticeHolder>::from_archive(Input::from_bytes(file, lattices));
    let (mut utterances, mut entries, mut swapped, mut lost) = (0, 0, 0, 0);
    while let Some((key, lattice)) = reader.next().unwrap() {
        let (theirs, lattice) = (&lists[&key], through(lattice));
        // More than they have: sentences that are equal at the end of the list, and those that Kaldi lost.
        let mut ours = lattice.nbest(theirs.len() + 100, scale).unwrap().paths;
        // Sentences that Kaldi's determinization lost lie at the edge of its beam.
        let best = ours[0].total_cost();
        let last = theirs.last().map_or(best, |last| last.1 + f64::from(scale) * last.2);
        ours.retain(|path| {
            let known = theirs.iter().any(|(words, ..)| *words == path.olabels);
            if !known && path.total_cost() < last - 2e-5 * last.abs() {
                assert!(path.total_cost() - best >= 0.5 * beam, "{key}: {} above the best", path.total_cost() - best);
                lost += 1;
            }
            known
        });
        let total = |graph: f64, acoustic: f64| graph + f64::from(scale) * acoustic;
        for (at, (words, graph, acoustic)) in theirs.iter().enumerate() {
            let found = ours.iter().position(|path| path.olabels == *words);
            let found = found.unwrap_or_else(|| panic!("{prefix} {file} {key}: entry {} is missing", at + 1));
            let path = &ours[found];
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-5 * b.abs() + 2e-2;
            assert!(close(path.graph_cost, *graph) && close(path.acoustic_cost, *acoustic), "{key} {at}: {path:?}");
            if found != at {
                swapped += 1;
                let there = total(theirs[found.min(theirs.len() - 1)].1, theirs[found.min(theirs.len() - 1)].2);
                let tie = (total(*graph, *acoustic) - there).abs();
                assert!(
                    tie <= 2e-5 * there.abs(),
                    "{prefix} {file} {key}: entry {} is number {found}, {tie} apart",
                    at + 1
                );
            }
            entries += 1;
        }
        if theirs.len() < 20 && file.starts_with("compact") {
            assert_eq!(lattice.nbest(1000, scale).unwrap().paths.len(), theirs.len(), "{key}");
        }
        utterances += 1;
    }
    assert_eq!(utterances, lists.len());
    eprintln!(
        "{prefix}, {file}: {entries} entries of {utterances} lists, {swapped} of them in another order, {lost} that Kaldi lacks"
    );
}

/// Settings with their acoustic scales and lattice beams.
const PROMPTS: [(&str, f32, f32); 2] =
    [("realdata/prompts/kaldi/typical", 0.083_333, 6.0), ("realdata/prompts/kaldi/wide", 0.066_666_7, 10.0)];

#[test]
fn kaldis_nbest_lists_from_its_compact_lattices() {
    if shared("").is_none() {
        return;
    }
    for (prefix, scale, beam) in PROMPTS {
        compare_with_kaldi(prefix, "compact-lattice.txt.gz", scale, beam.into(), |lattice| lattice);
    }
    for prefix in ["realdata/chain-ko/kaldi/b11", "realdata/chain-ko/kaldi/b11u"] {
        compare_with_kaldi(prefix, "compact-lattice.txt.gz", 1.0, 4.0, |lattice| lattice);
    }
}

/// From the state-level lattices, as they are and determinized as Kaldi's were.
#[test]
fn kaldis_nbest_lists_from_its_raw_lattices() {
    let Some(model) = shared("realdata/prompts/trans.mdl") else { return };
    let model = Transitions::read_file(model.to_str().unwrap()).unwrap();
    for (prefix, acoustic_scale, beam) in PROMPTS {
        compare_with_kaldi(prefix, "raw-lattice.txt.gz", acoustic_scale, beam.into(), |lattice| lattice);
        let config = DeterminizeConfig { beam, acoustic_scale, ..DeterminizeConfig::default() };
        let determinize = |lattice: Lattice| lattice.determinize(Some(&model), &config).unwrap().lattice.into();
        compare_with_kaldi(prefix, "raw-lattice.txt.gz", acoustic_scale, beam.into(), determinize);
    }
}

/// The search needs no determinized lattice: the lists come out of the state-level ones too.
#[test]
fn the_same_lists_as_the_plain_search_gives_from_raw_lattices() {
    let Some(file) = shared("realdata/prompts/kaldi/typical.raw-lattice.txt.gz") else { return };
    let input = Input::from_bytes("raw lattices", read(&file));
    let mut reader = SequentialReader::<koshi::lattice::RawLatticeHolder>::from_archive(input);
    let scale = 0.083_333;
    while let Some((key, lattice)) = reader.next().unwrap() {
        let plain = Sentences::new(&lattice, scale).best(50);
        let nbest = Lattice::from(lattice).nbest(50, scale).unwrap();
        assert_eq!(nbest.paths.len(), plain.len(), "{key}");
        for (path, sentence) in nbest.paths.iter().zip(&plain) {
            assert_eq!(path.olabels, sentence.words, "{key}");
            assert!((path.total_cost() - sentence.cost.total).abs() < 1e-9 * sentence.cost.total, "{key}");
            assert_eq!(path.ilabels.len(), nbest.paths[0].ilabels.len(), "{key}");
        }
    }
}
