//! Graphs and utterances of unusual shape, through both faces, held to the plain reference:
//! a million columns, states with more arcs than the packed header counts, epsilon chains
//! longer than it has levels, tokens by the ten thousand, utterances without end.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use common::graph::{Rng, arc, source};
use common::reference::Reference;
use face::{Face, Matrix, Status, chain, open, results};
use koshi::decoder::DecoderConfig;
use koshi::graph::VecSource;
use koshi::search::SearchConfig;

const INF: f32 = f32::INFINITY;

over_both_faces! {
    a_million_columns
    states_with_more_arcs_than_the_header_counts
    epsilon_chains_longer_than_the_header_has_levels
    epsilon_arcs_by_the_hundred_thousand
    tokens_by_the_ten_thousand
    an_utterance_without_end
    limits_of_frames_and_channels
    the_trace_is_pruned_on_the_way
}

over_both_faces_on_gpu! {
    states_with_more_arcs_than_the_header_counts
    epsilon_chains_longer_than_the_header_has_levels
    limits_of_frames_and_channels
}

/// Decodes row by row and holds everything to the reference after each.
fn check<F: Face>(source: &VecSource, search: SearchConfig, rows: Matrix) {
    let config = DecoderConfig { search, num_threads: 1, num_lanes: 1, ..DecoderConfig::default() };
    let (_decoder, mut channel) = open::<F>(source, &config);
    let mut reference = Reference::begin(source, search).unwrap();
    for frame in 0..=rows.frames {
        let found = results::<F>(&mut channel);
        assert_eq!(found.lattices, [true, false].map(|use_final| reference.lattice(use_final)), "frame {frame}");
        for (path, use_final) in found.paths.iter().zip([true, false]) {
            let expected = reference.best_path(use_final);
            assert_eq!((&path.ilabels, &path.olabels), (&expected.ilabels, &expected.olabels), "frame {frame}");
            assert_eq!((path.graph_cost, path.acoustic_cost), (expected.graph_cost, expected.acoustic_cost));
        }
        if frame < rows.frames {
            let row = rows.part(frame, frame + 1);
            reference.advance(&row.data[..row.dim]).unwrap();
            F::push(&mut channel, row).unwrap();
        }
    }
}

fn a_million_columns<F: Face>() {
    const COLUMNS: usize = 1_000_000;
    let label = |label: i32| arc(label, label, 0.25, 0);
    // The last column, and those on both sides of what 16 bits hold.
    let labels = [1, 65_535, 65_536, 65_537, 65_538, COLUMNS as i32];
    let wide = source(Some(0), vec![(0.0, labels.map(label).to_vec())]);
    let mut rng = Rng(1);
    let mut data = vec![-50.0; 3 * COLUMNS];
    for row in data.chunks_mut(COLUMNS) {
        labels.iter().for_each(|&label| row[label as usize - 1] = -(rng.below(40) as f32) * 0.25);
    }
    check::<F>(&wide, SearchConfig::default(), Matrix::dense(&data, COLUMNS));
    // The rows that a channel keeps for its raw links are few when they are wide.
    let config = DecoderConfig { num_lanes: 1, num_threads: 1, ..DecoderConfig::default() };
    let (_decoder, mut channel) = open::<F>(&wide, &config);
    for _ in 0..25 {
        F::push(&mut channel, Matrix::dense(&data, COLUMNS)).unwrap();
    }
    let memory = F::stats(&channel).unwrap().memory;
    assert!(memory < 160_000_000, "{memory} bytes after 75 rows of 4 MB");
    // One column less is refused; a bad value in a column that nothing reads is not overlooked.
    let (_decoder, mut channel) = open::<F>(&wide, &DecoderConfig::default());
    let narrow = Matrix { data: &data, frames: 1, dim: COLUMNS - 1, stride: COLUMNS };
    assert_eq!(F::push(&mut channel, narrow).unwrap_err().status, Status::KOSHI_E_SHAPE);
    data[777_777] = f32::NAN;
    let fault = F::push(&mut channel, Matrix::dense(&data, COLUMNS)).unwrap_err();
    assert!(fault.message.starts_with("frame 0, column 777777: "), "{}", fault.message);
    // At the edge of 16 bits itself.
    for last in [65_535, 65_536, 65_537] {
        let edge = source(Some(0), vec![(0.0, vec![label(1), label(last)])]);
        let mut row = vec![-9.0; last as usize];
        row[last as usize - 1] = -1.0;
        check::<F>(&edge, SearchConfig::default(), Matrix::dense(&row, last as usize));
    }
}

fn states_with_more_arcs_than_the_header_counts<F: Face>() {
    let mut rng = Rng(2);
    // 16 bits of emitting arcs, 12 bits of epsilon arcs: one less, as many, and more.
    for (n_emit, n_eps) in [(65_535, 4_095), (65_536, 0), (70_000, 4_096), (1, 4_096), (3, 5_000)] {
        let mut arcs: Vec<_> = (0..n_emit)
            .map(|at| arc(1 + at % 5, at, rng.below(4_000) as f32 * 0.01, 1 + rng.below(50) as u32))
            .collect();
        arcs.extend((0..n_eps).map(|at| arc(0, at, rng.below(4_000) as f32 * 0.01, 1 + rng.below(50) as u32)));
        rng.shuffle(&mut arcs);
        let mut states = vec![(INF, arcs)];
        states.extend((0..50).map(|at| (at as f32 * 0.1, vec![arc(1 + at % 5, 7, 0.5, 1 + rng.below(50) as u32)])));
        let data: Vec<f32> = (0..10).map(|_| -(rng.below(8) as f32) * 0.25).collect();
        let search = SearchConfig { beam: 6.0, lattice_beam: 2.0, min_active: 0, ..SearchConfig::default() };
        check::<F>(&source(Some(0), states), search, Matrix::dense(&data, 5));
    }
}

fn epsilon_chains_longer_than_the_header_has_levels<F: Face>() {
    let mut rng = Rng(3);
    for len in [13, 14, 15, 16, 200] {
        // A chain against the order of the states, with short cuts, negative weights, and ways out.
        let mut states = vec![(INF, vec![])];
        for at in 1..=len {
            let mut arcs =
                vec![arc(0, at, rng.below(5) as f32 * 0.25 - 0.5, at as u32 - 1), arc(1 + at % 3, at, 0.5, len as u32)];
            arcs.extend((at > 3).then(|| arc(0, 0, 0.25, rng.below(at as u64 - 1) as u32)));
            rng.shuffle(&mut arcs);
            states.push((if at % 7 == 0 { 0.5 } else { INF }, arcs));
        }
        states[0] = (0.0, vec![arc(2, 9, 0.0, len as u32)]);
        let data: Vec<f32> = (0..12).map(|_| -(rng.below(8) as f32) * 0.25).collect();
        let search = SearchConfig { beam: 8.0, lattice_beam: 3.0, min_active: 2, ..SearchConfig::default() };
        check::<F>(&source(Some(len as u32), states), search, Matrix::dense(&data, 3));
    }
}

/// Deep without recursion: the words of two hundred thousand epsilon arcs.
fn epsilon_arcs_by_the_hundred_thousand<F: Face>() {
    let len = 200_000;
    let deep = (0..=len).map(|at| match at {
        _ if at == len => (0.0, vec![arc(1, 3, 0.0, 0)]),
        _ => (INF, vec![arc(0, 1 + at % 2, 0.0, at as u32 + 1)]),
    });
    let (_decoder, mut channel) = open::<F>(&source(Some(0), deep.collect()), &DecoderConfig::default());
    F::push(&mut channel, Matrix::dense(&[-1.0], 1)).unwrap();
    F::finish(&mut channel).unwrap();
    let path = F::best_path(&channel, true).unwrap();
    assert_eq!((path.olabels.len() as i32, path.ilabels.len()), (2 * len + 1, 1));
    let (partial, stable) = F::partial(&channel).unwrap();
    assert!(stable <= partial.olabels.len());
    let lattice = F::lattice(&mut channel, true).unwrap();
    assert_eq!(lattice.num_arcs() as i32, 2 * len + 1);
    lattice.validate().unwrap();
}

fn tokens_by_the_ten_thousand<F: Face>() {
    // All of 20,000 states alive at once: the state hash grows in the closure, and capacities strike.
    let count = 20_000u32;
    let mut rng = Rng(4);
    let mut states = vec![(INF, (1..=count / 2).map(|to| arc(1, 0, rng.below(300) as f32 * 0.01, to)).collect())];
    for at in 1..=count {
        let far = if at <= count / 2 { vec![arc(0, 1, rng.below(100) as f32 * 0.01, at + count / 2)] } else { vec![] };
        let back = arc(1 + (at % 2) as i32, 2, rng.below(100) as f32 * 0.01, 1 + rng.below(count.into()) as u32);
        states.push((0.0, [far, vec![back]].concat()));
    }
    let many = source(Some(0), states);
    let data = [-1.0, -1.25, -1.0, -1.5];
    for search in [
        SearchConfig { lattice_beam: 0.5, ..SearchConfig::default() },
        SearchConfig { lattice_beam: 0.5, max_active: 9_999, min_active: 9_999, ..SearchConfig::default() },
        SearchConfig { lattice_beam: 0.5, token_capacity: 7_000, ..SearchConfig::default() },
        SearchConfig { lattice_beam: 0.5, link_capacity: 12_345, candidate_capacity: 9_000, ..SearchConfig::default() },
    ] {
        check::<F>(&many, search, Matrix::dense(&data, 2));
    }
}

fn an_utterance_without_end<F: Face>() {
    // Memory follows the beams, not the length: a path of its own is all that stays of each frame.
    let loops = source(Some(0), vec![(0.0, (1..=3).map(|label| arc(label, label, 0.25, 0)).collect())]);
    let search = SearchConfig { lattice_beam: 2.0, link_budget: 500, ..SearchConfig::default() };
    let config = DecoderConfig { search, num_lanes: 1, num_threads: 1, ..DecoderConfig::default() };
    let (_decoder, mut channel) = open::<F>(&loops, &config);
    let data = [-1.0, -1.5, -9.0, -9.0, -1.0, -9.0].repeat(5_000);
    let rows = Matrix::dense(&data, 3);
    for _ in 0..20 {
        F::push(&mut channel, rows).unwrap();
    }
    let frames = 20 * rows.frames;
    assert_eq!(F::num_frames(&channel), frames as u64);
    let stats = F::stats(&channel).unwrap();
    // In every second frame one more link is within the lattice beam.
    assert!((stats.trace_links as usize) < 2 * frames, "{stats:?}");
    assert!((stats.memory as usize) < 100 * frames, "{stats:?}");
    let path = F::best_path(&channel, true).unwrap();
    assert!(path.olabels.chunks(2).all(|pair| pair == [1, 2]) && path.olabels.len() == frames);
    assert_eq!(path.acoustic_cost, frames as f64);
    assert_eq!(path.graph_cost, frames as f64 * 0.25);
    let (_, stable) = F::partial(&channel).unwrap();
    assert_eq!(stable, frames);
    let lattice = F::lattice(&mut channel, true).unwrap();
    assert_eq!((lattice.num_states(), lattice.num_arcs()), (frames + 1, frames * 3 / 2));
}

fn limits_of_frames_and_channels<F: Face>() {
    let search = SearchConfig { max_frames: 4, ..SearchConfig::default() };
    let config = DecoderConfig { search, ..DecoderConfig::default() };
    let (_decoder, mut channel) = open::<F>(&chain(9), &config);
    let data = [-1.0; 81];
    for round in 0..3 {
        let rows = Matrix::dense(&data, 9);
        let fault = match round {
            0 => F::push(&mut channel, rows).unwrap_err(),
            1 => (0..9).try_for_each(|at| F::push(&mut channel, rows.part(at, at + 1))).unwrap_err(),
            _ => F::pull_matrix(&mut channel, rows, None).unwrap_err(),
        };
        assert_eq!(fault.status, Status::KOSHI_E_LIMIT);
        assert!(fault.message.contains("max_frames"), "{}", fault.message);
        // What came before the limit stands, and the limit too.
        assert_eq!(F::push(&mut channel, rows.part(0, 1)).unwrap_err(), fault);
        F::push(&mut channel, rows.part(0, 0)).unwrap();
        assert_eq!(F::best_path(&channel, true).unwrap().olabels, [1, 2, 3, 4]);
        F::finish(&mut channel).unwrap();
        assert_eq!(results::<F>(&mut channel).frames, 4);
        F::begin(&mut channel).unwrap();
    }
    // max_channels counts those that exist, whichever way they went.
    let few = DecoderConfig { max_channels: 3, ..DecoderConfig::default() };
    let (decoder, first) = open::<F>(&chain(1), &few);
    let mut all = vec![first];
    for _ in 0..10 {
        while let Ok(channel) = F::channel(&decoder) {
            all.push(channel);
        }
        assert_eq!(all.len(), 3);
        all.truncate(1);
    }
}

/// Many tokens at a time, and ways that stay alive for long: the trace is pruned again and again.
fn the_trace_is_pruned_on_the_way<F: Face>() {
    let mut rng = Rng(6);
    let num_states = 400;
    let states = (0..num_states).map(|state| {
        let arcs = (0..3).map(|place| {
            let epsilon = place == 0 && state + 1 < num_states && rng.below(4) == 0;
            let next = if epsilon { state + 1 + rng.below(num_states - state - 1) } else { rng.below(num_states) };
            let ilabel = if epsilon { 0 } else { 1 + rng.below(8) as i32 };
            arc(ilabel, rng.below(5) as i32, rng.below(64) as f32 / 16.0, next as u32)
        });
        (if state % 9 == 0 { 0.5 } else { INF }, arcs.collect())
    });
    let graph = source(Some(0), states.collect());
    let data: Vec<f32> = (0..260 * 8).map(|_| -(rng.below(64) as f32) / 16.0).collect();
    let rows = Matrix::dense(&data, 8);
    for (lattice_beam, beam, link_budget) in [(9.0, 9.0, 1), (9.0, 9.0, 15_000), (4.0, 7.0, 3_000)] {
        let search = SearchConfig { beam, lattice_beam, link_budget, ..SearchConfig::default() };
        let config = DecoderConfig { search, num_threads: 1, num_lanes: 1, ..DecoderConfig::default() };
        let (_decoder, mut channel) = open::<F>(&graph, &config);
        let mut reference = Reference::begin(&graph, search).unwrap();
        let (mut fell, mut links) = (0, 0);
        for frame in 0..rows.frames {
            F::push(&mut channel, rows.part(frame, frame + 1)).unwrap();
            reference.advance(&data[frame * 8..frame * 8 + 8]).unwrap();
            let now = F::stats(&channel).unwrap().trace_links;
            fell += u32::from(now < links);
            links = now;
            if frame % 83 == 0 || frame + 1 == rows.frames {
                let found = results::<F>(&mut channel);
                let expected = [true, false].map(|use_final| reference.lattice(use_final));
                assert!(found.lattices == expected, "frame {frame}, lattice beam {lattice_beam}");
                let best = reference.best_path(true);
                assert_eq!((&found.paths[0].olabels, &found.paths[0].ilabels), (&best.olabels, &best.ilabels));
            }
        }
        assert!(links > 20_000 && (fell > 1 || link_budget > 1), "{fell} {links}");
    }
}
