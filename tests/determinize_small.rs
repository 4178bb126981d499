//! Determinization of lattices small enough to list all of their paths.

#[path = "support/brute_force.rs"]
mod brute_force;
#[path = "support/small_lattices.rs"]
mod small_lattices;

use brute_force::*;
use koshi::error::Error;
use koshi::lattice::{
    CompactLattice, DeterminizeConfig, Determinized, Determinizer, Lattice, LatticeArc, LatticeWeight, Parts,
    PartsBuilder, RawLattice,
};
use koshi::table::Transitions;
use proptest::prelude::*;
use small_lattices::*;

/// A power of two: scaled sums stay exact.
const SCALE: f32 = 0.5;

fn config() -> DeterminizeConfig {
    DeterminizeConfig { beam: f32::INFINITY, acoustic_scale: SCALE, ..DeterminizeConfig::default() }
}

fn arc(next: u32, ilabel: i32, olabel: i32, graph: f32, acoustic: f32) -> LatticeArc {
    LatticeArc { next, ilabel, olabel, weight: LatticeWeight { graph, acoustic } }
}

/// A raw lattice from arcs with their source, and final states of cost 0.
fn raw(arcs: &[(u32, LatticeArc)], finals: &[u32]) -> RawLattice {
    let mut builder = PartsBuilder::default();
    builder.set_start(0);
    arcs.iter().for_each(|&(state, arc)| builder.add_arc(state, arc, &[]).unwrap());
    finals.iter().for_each(|&state| builder.set_final(state, LatticeWeight::ONE, &[]).unwrap());
    RawLattice::from_parts(builder.finish(false).unwrap()).unwrap()
}

fn strings(lattice: &CompactLattice) -> Vec<&[i32]> {
    (0..lattice.num_arcs()).map(|arc| lattice.arc_string(arc)).collect()
}

#[test]
fn a_word_spoken_in_two_ways_keeps_the_better_one() {
    // Word 7 over 1 2 (cost 3) or over 1 3 (cost 2); then word 8 over 4.
    let lattice = raw(
        &[
            (0, arc(1, 1, 7, 1.0, 2.0)),
            (1, arc(2, 2, 0, 1.0, 0.0)),
            (1, arc(2, 3, 0, 0.0, 0.0)),
            (2, arc(3, 4, 8, 0.25, 0.5)),
        ],
        &[3],
    );
    let found = lattice.determinize(None, &config()).unwrap();
    assert_eq!(found.effective_beam, f32::INFINITY);
    let compact = found.lattice;
    compact.validate().unwrap();
    assert_eq!(compact.arcs, [arc(1, 7, 7, 1.0, 2.0), arc(2, 8, 8, 0.25, 0.5)]);
    assert_eq!(strings(&compact), [&[1, 3][..], &[4]]);
    assert_eq!((compact.times.as_slice(), compact.num_frames, compact.reached_final), (&[0, 2, 3][..], 3, true));
}

#[test]
fn what_all_ways_share_is_put_first() {
    // After word 7 the paths 1 2 3 and 1 2 4 lead to different words: 1 2 stands on the arc of 7.
    let lattice = raw(
        &[
            (0, arc(1, 1, 7, 0.0, 1.0)),
            (1, arc(2, 2, 0, 0.0, 1.0)),
            (2, arc(3, 3, 0, 0.0, 1.0)),
            (2, arc(4, 4, 0, 0.0, 2.0)),
            (3, arc(5, 5, 8, 0.0, 0.0)),
            (4, arc(5, 5, 9, 0.0, 0.0)),
        ],
        &[5],
    );
    let compact = lattice.determinize(None, &config()).unwrap().lattice;
    assert_eq!(compact.arcs, [arc(1, 7, 7, 0.0, 3.0), arc(2, 8, 8, 0.0, 0.0), arc(2, 9, 9, 0.0, 1.0)]);
    assert_eq!(strings(&compact), [&[1, 2][..], &[3, 5], &[4, 5]]);
}

#[test]
fn ties_go_to_lower_graph_cost_then_shorter_then_greater_string() {
    let tie = |ways: &[&[(i32, f32, f32)]]| {
        // Each way is a chain of (transition-id, graph, acoustic) from 0 to 1 that starts with word 7.
        let mut arcs = Vec::new();
        let mut fresh = 2;
        for way in ways {
            let mut state = 0;
            for (at, &(id, graph, acoustic)) in way.iter().enumerate() {
                let next = if at + 1 == way.len() { 1 } else { fresh };
                arcs.push((state, arc(next, id, if at == 0 { 7 } else { 0 }, graph, acoustic)));
                (state, fresh) = (next, fresh + 1);
            }
        }
        let compact = raw(&arcs, &[1]).determinize(None, &config()).unwrap().lattice;
        assert_eq!((compact.num_states(), compact.num_arcs()), (2, 1));
        [compact.arc_string(0), compact.final_string(1)].concat()
    };
    // Totals at scale 0.5 are all 1.
    assert_eq!(tie(&[&[(5, 1.0, 0.0)], &[(3, 0.5, 1.0)]]), [3]);
    assert_eq!(tie(&[&[(5, 1.0, 0.0), (5, 0.0, 0.0)], &[(3, 1.0, 0.0)]]), [3]);
    assert_eq!(tie(&[&[(3, 1.0, 0.0)], &[(5, 1.0, 0.0)]]), [5]);
    assert_eq!(tie(&[&[(3, 1.0, 0.0), (9, 0.0, 0.0)], &[(5, 1.0, 0.0), (1, 0.0, 0.0)]]), [5, 1]);
}

#[test]
fn empty_lattices_stay_empty() {
    let found = RawLattice::empty(0.25).determinize(None, &config()).unwrap();
    assert!(found.lattice.is_empty());
    assert_eq!((found.lattice.acoustic_scale, found.effective_beam), (0.25, f32::INFINITY));
    assert!(Lattice::from(CompactLattice::default()).determinize(None, &config()).unwrap().lattice.is_empty());
    // A start that is final: one state, no arc.
    let point = raw(&[], &[0]).determinize(None, &config()).unwrap().lattice;
    assert_eq!((point.num_states(), point.num_arcs(), point.finals[0]), (1, 0, LatticeWeight::ONE));
}

#[test]
fn settings_out_of_range_are_refused() {
    let lattice = raw(&[(0, arc(1, 1, 7, 0.0, 1.0))], &[1]);
    for bad in [
        DeterminizeConfig { beam: -1.0, ..config() },
        DeterminizeConfig { beam: f32::NAN, ..config() },
        DeterminizeConfig { acoustic_scale: f32::INFINITY, ..config() },
        DeterminizeConfig { delta: f32::NAN, ..config() },
        DeterminizeConfig { delta: -0.5, ..config() },
    ] {
        assert!(matches!(lattice.determinize(None, &bad), Err(Error::Config(_))), "{bad:?}");
    }
}

fn check_all(parts: &Parts, transitions: &Transitions, beam: f32, work: &mut Determinizer) {
    let lattice = RawLattice::from_parts(parts.clone()).unwrap();
    let config = DeterminizeConfig { beam, ..config() };
    for minimize in [false, true] {
        let config = DeterminizeConfig { minimize, ..config };
        for model in [None, Some(transitions)] {
            let found = work.determinize(&lattice, model, &config).unwrap();
            assert_eq!(found.effective_beam, beam);
            check(parts, &found.lattice, &config, model.is_some());
            if minimize {
                // The language is what counts: pushing changes no path.
                let plain = work.determinize(&lattice, model, &DeterminizeConfig { minimize: false, ..config });
                let plain = plain.unwrap().lattice;
                let all = |lattice| language(&parts_of_compact(lattice), 0.5);
                assert_eq!(all(&found.lattice), all(&plain));
                assert!(found.lattice.num_states() <= plain.num_states());
            }
        }
    }
}

#[test]
fn case_b41_all_word_sequences_of_timed_lattices_keep_their_best_alignment() {
    let mut random = Random(1);
    let mut work = Determinizer::default();
    for _ in 0..6000 {
        let transitions = transitions(&mut random);
        let parts = timed_lattice(&mut random, transitions.num_ids());
        let beam = [0.0, 0.25, 1.0, 2.0, 4.0, f32::INFINITY][random.below(6) as usize];
        check_all(&parts, &transitions, beam, &mut work);
    }
}

/// What lies within the beam that is told is there at its true cost, however little memory there was.
#[test]
fn with_a_cap_the_result_is_whole_within_the_effective_beam() {
    let mut random = Random(3);
    let mut work = Determinizer::default();
    let (mut partial, mut zero) = (0, 0);
    for _ in 0..4000 {
        let transitions = transitions(&mut random);
        let parts = timed_lattice(&mut random, transitions.num_ids());
        let lattice = RawLattice::from_parts(parts.clone()).unwrap();
        let beam = [1.0, 4.0, 16.0, f32::INFINITY][random.below(4) as usize];
        let max_mem = [1, 700, 1500, 4000][random.below(4) as usize];
        let config = DeterminizeConfig { beam, max_mem, ..config() };
        for model in [None, Some(&transitions)] {
            let Determinized { lattice, effective_beam } = work.determinize(&lattice, model, &config).unwrap();
            partial += usize::from(effective_beam < beam);
            zero += usize::from(effective_beam == 0.0);
            assert!(effective_beam >= 0.0 && effective_beam <= beam);
            lattice.validate().unwrap();
            let (expected, found) = (language(&parts, 0.5), language(&parts_of_compact(&lattice), 0.5));
            assert_eq!(written_paths(&parts_of_compact(&lattice)).len(), found.len());
            assert_eq!(least(&found, 0.5), least(&expected, 0.5));
            let limit = least(&expected, 0.5) + f64::from(effective_beam);
            for (words, path) in expected.iter().filter(|(_, path)| total(path, 0.5) < limit) {
                assert_eq!(found.get(words), Some(path), "{words:?}");
            }
            for (words, path) in &found {
                assert!(total(path, 0.5) >= total(&expected[words], 0.5));
            }
        }
    }
    assert!(partial > 1000 && zero > 100, "{partial} narrower, {zero} with the best path alone");
}

/// 12 frames of 8 words side by side.
fn dense() -> RawLattice {
    let frame = |frame: u32| (1..=8).map(move |word| (frame, arc(frame + 1, word, word, word as f32 / 4.0, 0.0)));
    let arcs: Vec<(u32, LatticeArc)> = (0..12).flat_map(frame).collect();
    raw(&arcs, &[12])
}

#[test]
fn case_b40_a_cap_narrows_the_beam_and_keeps_the_best_path() {
    let lattice = dense();
    let config = DeterminizeConfig { beam: 8.0, max_mem: 1000, ..config() };
    let found = lattice.determinize(None, &config).unwrap();
    assert!((0.0..8.0).contains(&found.effective_beam), "{}", found.effective_beam);
    found.lattice.validate().unwrap();
    assert_eq!(found.lattice.best_path(SCALE).unwrap(), lattice.best_path(SCALE).unwrap());
    // With memory enough all is there; the cap of 0 is none.
    for max_mem in [0, 50_000_000] {
        let whole = lattice.determinize(None, &DeterminizeConfig { max_mem, ..config }).unwrap();
        assert_eq!((whole.effective_beam, whole.lattice.num_arcs()), (8.0, 96));
    }
}

#[test]
fn case_b42_equal_endings_are_merged() {
    // 1 or 2, then 5 6; written as two chains.
    let lattice = raw(
        &[
            (0, arc(1, 1, 1, 1.0, 0.0)),
            (0, arc(2, 2, 2, 0.5, 0.0)),
            (1, arc(3, 5, 5, 0.25, 0.0)),
            (2, arc(4, 5, 5, 0.25, 0.0)),
            (3, arc(5, 6, 6, 0.0, 1.0)),
            (4, arc(6, 6, 6, 0.0, 1.0)),
        ],
        &[5, 6],
    );
    let plain = lattice.determinize(None, &config()).unwrap().lattice;
    let least = lattice.determinize(None, &DeterminizeConfig { minimize: true, ..config() }).unwrap().lattice;
    assert_eq!((plain.num_states(), least.num_states(), least.num_arcs()), (7, 4, 4));
    let paths = |lattice| written_paths(&parts_of_compact(lattice));
    assert_eq!(paths(&least), paths(&plain));
    let mut again = plain.clone();
    again.minimize(SCALE, 0.0).unwrap();
    assert_eq!(again, least);
    assert!(again.minimize(SCALE, -1.0).is_err() && again.minimize(f32::NAN, 0.0).is_err());
}

#[test]
fn case_b34_cycles_are_refused() {
    let mut builder = PartsBuilder::default();
    builder.set_start(0);
    builder.add_arc(0, arc(1, 1, 7, 0.0, 1.0), &[]).unwrap();
    builder.add_arc(1, arc(0, 2, 8, 0.0, 1.0), &[]).unwrap();
    builder.set_final(1, LatticeWeight::ONE, &[]).unwrap();
    let error = RawLattice::from_parts(builder.finish(false).unwrap()).unwrap_err();
    assert!(matches!(&error, Error::Argument(why) if why.contains("cycle")), "{error}");
    for text in ["\n0 1 1 7 0,1\n1 0 2 8 0,1\n1 0,0\n\n", "\n0 1 7 0,1,1_2\n1 0 8 0,1,3\n1 0,0,\n\n"] {
        let error = Lattice::from_bytes(text.as_bytes()).unwrap_err();
        assert!(matches!(error.root(), Error::Format { message, .. } if message.contains("cycle")), "{error}");
    }
    // A struct that was filled by hand.
    let mut lattice = raw(&[(0, arc(1, 1, 7, 0.0, 1.0)), (1, arc(2, 1, 7, 0.0, 1.0))], &[2]);
    lattice.arcs[1].next = 0;
    assert!(matches!(lattice.determinize(None, &config()), Err(Error::Argument(_))));
}

#[test]
fn broken_structs_are_refused_not_followed() {
    let whole = raw(&[(0, arc(1, 1, 7, 1.0, 2.0)), (1, arc(2, 4, 8, 1.0, 2.0))], &[2]);
    let breaks: [fn(&mut RawLattice); 13] = [
        |lattice| lattice.arcs[0].next = 0,
        |lattice| lattice.arcs[0].next = u32::MAX,
        |lattice| lattice.arcs[0].ilabel = -1,
        |lattice| lattice.arcs[1].olabel = i32::MIN,
        |lattice| lattice.arcs[0].weight.graph = f32::NAN,
        |lattice| lattice.arcs[0].weight.acoustic = f32::INFINITY,
        |lattice| lattice.arcs[0].weight.acoustic = f32::NEG_INFINITY,
        |lattice| lattice.offsets[1] = 7,
        |lattice| lattice.offsets[1] = 0,
        |lattice| lattice.finals[2] = LatticeWeight::ZERO,
        |lattice| lattice.finals.truncate(1),
        |lattice| lattice.offsets.truncate(1),
        |lattice| lattice.offsets.clear(),
    ];
    let model = transitions(&mut Random(4));
    for (index, damage) in breaks.into_iter().enumerate() {
        let mut broken = whole.clone();
        damage(&mut broken);
        for model in [None, Some(&model)] {
            let answer = broken.determinize(model, &config());
            assert!(matches!(answer, Err(Error::Argument(_))), "break {index}: {answer:?}");
        }
    }
    // A transition-id that the model has not.
    let foreign = raw(&[(0, arc(1, 1, 7, 1.0, 2.0)), (1, arc(2, 4000, 8, 1.0, 2.0))], &[2]);
    assert!(matches!(foreign.determinize(Some(&model), &config()), Err(Error::Argument(_))));
    foreign.determinize(None, &config()).unwrap();
    // Sums that leave binary32.
    let dear = raw(&[(0, arc(1, 1, 7, f32::MAX, 0.0)), (1, arc(2, 1, 0, f32::MAX, 0.0))], &[2]);
    assert!(matches!(dear.determinize(None, &config()), Err(Error::Argument(_))));
    // The largest labels.
    let large = raw(&[(0, arc(1, i32::MAX, i32::MAX, 0.0, 0.0)), (1, arc(2, 1, i32::MAX - 1, 0.0, 0.0))], &[2]);
    let compact = large.determinize(None, &config()).unwrap().lattice;
    assert_eq!(compact.best_path(1.0).unwrap().olabels, [i32::MAX, i32::MAX - 1]);
    assert_eq!(compact.best_path(1.0).unwrap().ilabels, [i32::MAX, 1]);
}

/// Random damage to random lattices: an answer or a refusal, never a panic.
#[test]
fn hostile_structs_never_panic() {
    let mut random = Random(11);
    let mut refused = 0;
    for _ in 0..20_000 {
        let model = transitions(&mut random);
        let parts = timed_lattice(&mut random, model.num_ids());
        let mut lattice = RawLattice::from_parts(parts).unwrap();
        for _ in 0..1 + random.below(2) {
            damage(&mut lattice, &mut random);
        }
        let config = DeterminizeConfig {
            beam: 2.0,
            minimize: random.chance(2),
            word_determinize: !random.chance(4),
            max_mem: u64::from(random.below(3)) * 1000,
            ..config()
        };
        match lattice.determinize(Some(&model), &config) {
            Ok(found) => found.lattice.validate().unwrap(),
            Err(_) => refused += 1,
        }
        let compact = CompactLattice { arcs: lattice.arcs, offsets: lattice.offsets, ..CompactLattice::default() };
        let _ = Lattice::from(compact).determinize(None, &config);
    }
    assert!(refused > 5000, "{refused}");
}

fn damage(lattice: &mut RawLattice, random: &mut Random) {
    let number = [0, 1, 2, 7, u32::MAX, 1 << 31][random.below(6) as usize];
    let cost = [f32::NAN, f32::INFINITY, f32::MAX, -f32::MAX, -0.0, 1e-40][random.below(6) as usize];
    let (arcs, states) = (lattice.arcs.len() as u32, lattice.finals.len() as u32);
    let arc = random.below(arcs.max(1)) as usize;
    let state = random.below(states.max(1)) as usize;
    match random.below(9) {
        0 => lattice.arcs.iter_mut().skip(arc).take(1).for_each(|arc| arc.next = number),
        1 => lattice.arcs.iter_mut().skip(arc).take(1).for_each(|arc| arc.ilabel = number as i32),
        2 => lattice.arcs.iter_mut().skip(arc).take(1).for_each(|arc| arc.olabel = number as i32),
        3 => lattice.arcs.iter_mut().skip(arc).take(1).for_each(|arc| arc.weight.graph = cost),
        4 => lattice.finals.iter_mut().skip(state).take(1).for_each(|last| last.acoustic = cost),
        5 => lattice.offsets.iter_mut().skip(state).take(1).for_each(|offset| *offset = number),
        6 => lattice.finals.truncate(state),
        7 => lattice.arcs.truncate(arc),
        _ => lattice.num_frames = number,
    }
}

#[test]
fn strings_are_as_long_as_the_utterance() {
    let mut random = Random(77);
    for _ in 0..1000 {
        let transitions = transitions(&mut random);
        let parts = timed_lattice(&mut random, transitions.num_ids());
        let lattice = RawLattice::from_parts(parts).unwrap();
        let compact = lattice.determinize(Some(&transitions), &config()).unwrap().lattice;
        assert_eq!(compact.times.len(), compact.num_states());
        for path in written_paths(&parts_of_compact(&compact)) {
            assert_eq!(path.1.len(), lattice.num_frames as usize);
        }
    }
}

#[test]
fn without_a_pass_on_words_all_alignments_of_the_best_phones_stay() {
    let mut random = Random(5);
    for _ in 0..1000 {
        let transitions = transitions(&mut random);
        let parts = timed_lattice(&mut random, transitions.num_ids());
        let lattice = RawLattice::from_parts(parts.clone()).unwrap();
        let config = DeterminizeConfig { word_determinize: false, ..config() };
        let compact = lattice.determinize(Some(&transitions), &config).unwrap().lattice;
        compact.validate().unwrap();
        // Nothing new, and the best of each word sequence.
        let all = written_paths(&parts);
        let kept = written_paths(&parts_of_compact(&compact));
        assert!(kept.iter().all(|path| all.contains(path)));
        assert_eq!(language(&parts_of_compact(&compact), 0.5), language(&parts, 0.5));
        // Neither pass: a change of form alone.
        let config = DeterminizeConfig { phone_determinize: false, ..config };
        let plain = lattice.determinize(Some(&transitions), &config).unwrap().lattice;
        assert_eq!(plain, lattice.to_compact().unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_word_sequences_of_any_lattice_keep_their_best_alignment(parts in raw_parts(), beam in 0u8..16, seed in 0u64..1000) {
        let mut random = Random(seed);
        let mut model = transitions(&mut random);
        while model.num_ids() < 2 {
            model = transitions(&mut random);
        }
        check_all(&parts, &model, f32::from(beam) / 4.0, &mut Determinizer::default());
    }

    #[test]
    fn compact_lattices_go_through_their_raw_form(parts in compact_parts(), beam in 0u8..16) {
        let lattice = CompactLattice::from_parts(parts.clone()).unwrap();
        let config = DeterminizeConfig { beam: f32::from(beam) / 4.0, ..config() };
        let found = Lattice::from(lattice).determinize(None, &config).unwrap();
        check(&parts, &found.lattice, &config, false);
    }
}
