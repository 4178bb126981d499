//! Determinization of lattices that grow: whatever the pieces, the same word sequences, costs and
//! alignments as of the whole, and work that follows the last piece.

#[path = "support/brute_force.rs"]
mod brute_force;
#[path = "support/compare_languages.rs"]
mod compare_languages;
#[path = "support/pieces.rs"]
mod pieces;
#[path = "support/shared.rs"]
mod shared;
#[path = "support/small_lattices.rs"]
mod small_lattices;

use std::sync::Arc;

use brute_force::*;
use compare_languages::{Comparison, alignment, compare, cost_of_alignment};
use koshi::Error;
use koshi::lattice::{
    CompactLattice, DeterminizeConfig, Determinized, Determinizer, Exit, Exits, IncrementalDeterminizer, LatticeArc,
    LatticePiece, LatticeWeight, RawLattice, RawLatticeHolder,
};
use koshi::table::{Input, SequentialReader, Transitions};
use pieces::pieces;
use small_lattices::*;

/// A power of two: scaled sums stay exact.
const SCALE: f32 = 0.5;

fn config(beam: f32) -> DeterminizeConfig {
    DeterminizeConfig { beam, acoustic_scale: SCALE, ..DeterminizeConfig::default() }
}

fn grown(model: Option<&Arc<Transitions>>, config: &DeterminizeConfig, pieces: &[LatticePiece]) -> Determinized {
    let mut growing = IncrementalDeterminizer::new(model.cloned(), config).unwrap();
    let (last, before) = pieces.split_last().unwrap();
    for piece in before {
        growing.extend(piece).unwrap();
    }
    growing.compact(last).unwrap()
}

/// Some of the times of a lattice at which it may be cut.
fn random_cuts(random: &mut Random, frames: u32) -> Vec<u32> {
    (0..frames).filter(|_| random.below(3) > 0).collect()
}

#[test]
fn pieces_of_small_lattices_give_the_word_sequences_of_the_whole() {
    let mut random = Random(11);
    let (mut settled, mut several) = (0, 0);
    for round in 0..6000 {
        let model = Arc::new(transitions(&mut random));
        let parts = timed_lattice(&mut random, model.num_ids());
        let lattice = RawLattice::from_parts(parts.clone()).unwrap();
        if lattice.is_empty() {
            continue;
        }
        let beam = [0.0, 0.25, 1.0, 2.0, 4.0, f32::INFINITY][random.below(6) as usize];
        let config = DeterminizeConfig { minimize: random.chance(4), ..config(beam) };
        let cuts = random_cuts(&mut random, lattice.num_frames);
        let pieces = pieces(&lattice, &cuts, random.below(3), SCALE);
        for model in [None, Some(&model)] {
            let found = grown(model, &config, &pieces);
            assert_eq!(found.effective_beam, beam, "round {round}");
            check(&parts, &found.lattice, &config, true);
        }
        let mut growing = IncrementalDeterminizer::new(None, &config).unwrap();
        pieces[..pieces.len() - 1].iter().for_each(|piece| growing.extend(piece).unwrap());
        settled += usize::from(growing.num_settled() > 0);
        several += usize::from(pieces.len() > 2);
    }
    assert!(settled > 1000 && several > 1500, "{settled} had something settled, {several} more than two pieces");
}

#[test]
fn with_a_cap_the_best_path_stays_and_all_within_the_effective_beam() {
    let mut random = Random(12);
    let (mut partial, mut zero) = (0, 0);
    for _ in 0..4000 {
        let model = Arc::new(transitions(&mut random));
        let parts = timed_lattice(&mut random, model.num_ids());
        let lattice = RawLattice::from_parts(parts.clone()).unwrap();
        if lattice.is_empty() {
            continue;
        }
        let beam = [1.0, 4.0, 16.0, f32::INFINITY][random.below(4) as usize];
        let max_mem = [1, 700, 1500, 4000][random.below(4) as usize];
        let config = DeterminizeConfig { max_mem, ..config(beam) };
        let cuts = random_cuts(&mut random, lattice.num_frames);
        let pieces = pieces(&lattice, &cuts, random.below(3), SCALE);
        for model in [None, Some(&model)] {
            let Determinized { lattice, effective_beam } = grown(model, &config, &pieces);
            partial += usize::from(effective_beam < beam);
            zero += usize::from(effective_beam == 0.0);
            lattice.validate().unwrap();
            let (expected, found) = (language(&parts, 0.5), language(&parts_of_compact(&lattice), 0.5));
            assert_eq!(written_paths(&parts_of_compact(&lattice)).len(), found.len());
            assert_eq!(least(&found, 0.5), least(&expected, 0.5));
            let limit = least(&expected, 0.5) + f64::from(effective_beam);
            for (words, path) in expected.iter().filter(|(_, path)| total(path, 0.5) < limit) {
                // Of alignments with equal totals and transition-ids either may give the costs.
                let found = &found[words];
                assert_eq!((&found.1, total(found, 0.5)), (&path.1, total(path, 0.5)), "{words:?}");
            }
            for (words, path) in &found {
                assert!(total(path, 0.5) >= total(&expected[words], 0.5));
            }
        }
    }
    assert!(partial > 1000 && zero > 100, "{partial} narrower, {zero} with best paths alone");
}

#[test]
fn a_lattice_can_be_asked_for_on_the_way() {
    let mut random = Random(13);
    for _ in 0..300 {
        let lattice = RawLattice::from_parts(timed_lattice(&mut random, 4)).unwrap();
        if lattice.num_frames < 2 {
            continue;
        }
        let config = config(2.0);
        let all = pieces(&lattice, &[0, 1], 1, SCALE);
        let mut growing = IncrementalDeterminizer::new(None, &config).unwrap();
        growing.extend(&all[0]).unwrap();
        // As if it ended at time 1: asking leaves no trace.
        let Exits::On(exits) = &all[1].exits else { panic!() };
        let ends = exits.iter().map(|exit| (exit.state, LatticeWeight::ONE)).collect();
        let early = LatticePiece { exits: Exits::Ends(ends), ..all[1].clone() };
        growing.compact(&early).unwrap().lattice.validate().unwrap();
        growing.extend(&all[1]).unwrap();
        assert_eq!(growing.compact(&all[2]).unwrap(), grown(None, &config, &all));
        let again = growing.compact(&all[2]).unwrap();
        growing.clear();
        all[..2].iter().for_each(|piece| growing.extend(piece).unwrap());
        assert_eq!(growing.compact(&all[2]).unwrap(), again);
    }
}

/// `words` words of two ways each, each way of three frames, between frames of silence.
fn sentence(words: u32) -> RawLattice {
    let mut lattice = RawLattice { times: vec![0], ..RawLattice::default() };
    let mut arcs = Vec::new();
    let arc = |next, ilabel, olabel, acoustic| LatticeArc {
        next,
        ilabel,
        olabel,
        weight: LatticeWeight { graph: 0.25, acoustic },
    };
    for word in 0..words {
        let (state, label) = (8 * word, 1 + word as i32 % 50);
        arcs.push((state, arc(state + 1, 1, label, 1.0)));
        arcs.push((state, arc(state + 2, 2, label + 50, 2.0)));
        for (from, to) in [(1, 3), (2, 4), (3, 5), (4, 6)] {
            arcs.push((state + from, arc(state + to, 3 + from as i32, 0, 0.5)));
        }
        arcs.push((state + 5, arc(state + 7, 9, 0, 0.5)));
        arcs.push((state + 6, arc(state + 7, 9, 0, 0.5)));
        arcs.push((state + 7, arc(state + 8, 10, 0, 0.5)));
        let time = 5 * word;
        lattice.times.extend([1, 1, 2, 2, 3, 3, 4, 5].map(|frames| time + frames));
    }
    for state in 0..=8 * words {
        lattice.arcs.extend(arcs.iter().filter(|(from, _)| *from == state).map(|(_, arc)| *arc));
        lattice.offsets.push(lattice.arcs.len() as u32);
        lattice.finals.push(if state == 8 * words { LatticeWeight::ONE } else { LatticeWeight::ZERO });
    }
    lattice.num_frames = 5 * words;
    lattice.validate().unwrap();
    lattice
}

#[test]
fn the_last_call_does_not_work_more_for_a_longer_lattice() {
    let work = |words: u32| {
        let lattice = sentence(words);
        let cuts: Vec<u32> = (1..lattice.num_frames - 4).step_by(7).collect();
        let all = pieces(&lattice, &cuts, 4, SCALE);
        let mut growing = IncrementalDeterminizer::new(None, &config(4.0)).unwrap();
        let mut most = 0;
        for piece in &all[..all.len() - 1] {
            growing.extend(piece).unwrap();
            most = most.max(growing.links_of_last_call());
        }
        let found = growing.compact(all.last().unwrap()).unwrap().lattice;
        assert_eq!(found.num_arcs(), 2 * words as usize);
        (most, growing.links_of_last_call())
    };
    let (short, long) = (work(14), work(14 * 20));
    assert_eq!(short, long);
    assert!(long.1 < 60, "{long:?}");
}

#[test]
fn what_breaks_a_promise_is_refused() {
    let whole = pieces(&sentence(2), &[3], 1, SCALE);
    let exit = Exit { state: 0, key: 1, extra: 0.0 };
    let on = |exit| Exits::On(vec![exit]);
    let breaks: [&dyn Fn(&mut LatticePiece); 11] = [
        &|piece| piece.arcs[0].next = 0,
        &|piece| piece.arcs[0].next = u32::MAX,
        &|piece| piece.arcs[0].olabel = -1,
        &|piece| piece.arcs[0].weight.graph = f32::NAN,
        &|piece| piece.offsets[0] = 1,
        &|piece| piece.offsets.truncate(2),
        &|piece| piece.offsets.clear(),
        &|piece| piece.entries = vec![3, 2],
        &|piece| piece.exits = on(Exit { state: 99, ..exit }),
        &|piece| piece.exits = on(Exit { key: LatticePiece::START, ..exit }),
        &|piece| piece.exits = on(Exit { extra: f32::NAN, ..exit }),
    ];
    for (index, damage) in breaks.iter().enumerate() {
        let mut piece = whole[0].clone();
        damage(&mut piece);
        let answer = IncrementalDeterminizer::new(None, &config(1.0)).unwrap().extend(&piece);
        assert!(matches!(answer, Err(Error::Argument(_))), "break {index}: {answer:?}");
    }
    let mut growing = IncrementalDeterminizer::new(None, &config(1.0)).unwrap();
    assert!(matches!(growing.extend(&whole[1]), Err(Error::Argument(_))));
    assert!(matches!(growing.compact(&whole[0]), Err(Error::Argument(_))));
    let words = DeterminizeConfig { word_determinize: false, ..config(1.0) };
    assert!(matches!(IncrementalDeterminizer::new(None, &words), Err(Error::Config(_))));
    // Keys that nothing before had lead nowhere: an empty lattice.
    growing.extend(&whole[0]).unwrap();
    let foreign = LatticePiece { entries: whole[1].entries.iter().map(|key| key + 1).collect(), ..whole[1].clone() };
    assert!(growing.compact(&foreign).unwrap().lattice.is_empty());
}

/// Real lattices in pieces of 8 frames: within the beam the word sequences, costs and alignments of the whole.
#[test]
fn real_lattices_in_pieces() {
    let Some(folder) = shared::shared("realdata/prompts") else { return };
    let model = Arc::new(Transitions::read_file(folder.join("trans.mdl").to_str().unwrap()).unwrap());
    let bytes = shared::read(&folder.join("kaldi/typical.raw-lattice.txt.gz"));
    let mut reader = SequentialReader::<RawLatticeHolder>::from_archive(Input::from_bytes("archive", bytes));
    let config = DeterminizeConfig { beam: 6.0, acoustic_scale: 0.083_333_3, ..DeterminizeConfig::default() };
    let (mut pairs, mut pieces_done) = (0, 0);
    while let Some((key, lattice)) = reader.next().unwrap() {
        let cuts: Vec<u32> = (8..lattice.num_frames.saturating_sub(1)).step_by(8).collect();
        let all = pieces(&lattice, &cuts, 12, config.acoustic_scale);
        for phones in [Some(&model), None] {
            let whole = Determinizer::default().determinize(&lattice, phones.map(AsRef::as_ref), &config).unwrap();
            let found = grown(phones, &config, &all);
            assert_eq!((found.effective_beam, whole.effective_beam), (6.0, 6.0));
            pairs += agrees(&key, &lattice, &found.lattice, &whole.lattice, &config);
            pieces_done += all.len();
        }
    }
    println!("{pieces_done} pieces, {pairs} pairs of arcs");
    assert!(pieces_done > 500 && pairs > 1000);
}

fn agrees(
    key: &str,
    raw: &RawLattice,
    ours: &CompactLattice,
    whole: &CompactLattice,
    config: &DeterminizeConfig,
) -> usize {
    ours.validate().unwrap();
    let scale = config.acoustic_scale;
    let Comparison { best, only, difference, strings, pairs } = compare([ours, whole], scale);
    assert!((best[0] - best[1]).abs() < 1e-4, "{key}: {best:?}");
    let outside = |only: &Vec<(Vec<i32>, f64)>| only.iter().all(|(_, above)| *above > f64::from(config.beam) - 1e-3);
    assert!(only.iter().all(outside), "{key}: {only:?}");
    // Three times the delta within which states are merged.
    assert!(difference[0].abs().max(difference[1].abs()) < 3e-3, "{key}: {difference:?}");
    for (words, _) in &strings {
        let ids = [ours, whole].map(|lattice| alignment(lattice, words).unwrap());
        let costs = [0, 1].map(|side| cost_of_alignment(raw, words, &ids[side], scale).unwrap());
        assert!((costs[0] - costs[1]).abs() < 3e-3, "{key}: other transition-ids for {words:?}: {costs:?}");
    }
    pairs
}
