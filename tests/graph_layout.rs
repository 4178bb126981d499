//! The graph in memory against plain lists of states and arcs.

mod common;

use common::graph::{Rng, arc, assert_same, source};
use koshi::Error;
use koshi::graph::{Columns, FinalState, Graph, GraphArc, HAS_EPSILONS, VecSource};

const INF: f32 = f32::INFINITY;

#[test]
fn a_graph_of_three_states() {
    // 0 -ε:5/0.5-> 1, 0 -1:7/1.5-> 2, 1 -3:0/2-> 1, 1 -2:0/-1-> 2; 2 is final at 0.25.
    let source = source(
        Some(0),
        vec![
            (INF, vec![arc(0, 5, 0.5, 1), arc(1, 7, 1.5, 2)]),
            (INF, vec![arc(3, 0, 2.0, 1), arc(2, 0, -1.0, 2)]),
            (0.25, vec![]),
        ],
    );
    let graph = Graph::from_source(&source, Columns::Labels).unwrap();
    assert_same(&graph, &source, &Columns::Labels);

    // Header of 2 words, emitting arc of 3 (column padded to a word), epsilon arc of 2: 7, padded to 8.
    let ids: Vec<u32> = graph.ids().collect();
    assert_eq!(ids, [0, 4, 8]);
    assert_eq!(graph.start(), HAS_EPSILONS);
    let first = [1 | 1 << 16, 0, 1.5f32.to_bits(), 8, 0, 0.5f32.to_bits(), 4, 0];
    assert_eq!(graph.words()[..8], first);
    let second = [2 | 1 << 28, 2, 2.0f32.to_bits(), (-1.0f32).to_bits(), 4, 8, 2 | 1 << 16, 0];
    assert_eq!(graph.words()[8..16], second);
    assert_eq!(graph.words()[16..18], [0, 4]);
    assert_eq!(graph.words().len(), 18 + 16);

    // Arcs are numbered emitting first; the file has the epsilon arc first.
    assert_eq!((graph.ilabel(0, 0), graph.olabel(0), graph.file_arc(0, 0)), (1, 7, 1));
    assert_eq!((graph.ilabel(0, 1), graph.olabel(1), graph.file_arc(0, 1)), (0, 5, 0));
    assert_eq!((graph.file_arc(4, 2), graph.file_arc(4, 3)), (2, 3));
    assert_eq!(graph.finals(), [FinalState { id: 8, cost: 0.25 }]);
    assert_eq!((graph.final_cost(0), graph.final_cost(8)), (INF, 0.25));
    assert_eq!((graph.max_level(), graph.num_states(), graph.num_arcs()), (1, 3, 4));
    assert_eq!((graph.num_epsilon_arcs(), graph.num_columns(), graph.wide()), (1, 3, false));
}

#[test]
fn random_graphs() {
    let mut rng = Rng(1);
    for round in 0..400 {
        let source = rng.graph(1 + round / 4, 6);
        let graph = Graph::from_source(&source, Columns::Labels).unwrap();
        assert_same(&graph, &source, &Columns::Labels);
    }
}

#[test]
fn random_tables() {
    let mut rng = Rng(2);
    for _ in 0..50 {
        let source = rng.graph(30, 6);
        let table = (0..=64).map(|_| rng.below(70_000) as i32).collect();
        let columns = Columns::Table(table);
        assert_same(&Graph::from_source(&source, columns.clone()).unwrap(), &source, &columns);
    }
}

#[test]
fn negative_zero_becomes_zero() {
    let source = source(Some(0), vec![(-0.0, vec![arc(1, 0, -0.0, 0), arc(2, 0, -0.0, 0)])]);
    let graph = Graph::from_source(&source, Columns::Labels).unwrap();
    assert_eq!(graph.state(0).weights[0].to_bits(), 0);
    assert_eq!(graph.final_cost(0).to_bits(), 0);
}

/// A state with `n_emit` emitting arcs and `n_eps` epsilon arcs, shuffled, to two further states.
fn star(n_emit: usize, n_eps: usize, rng: &mut Rng) -> VecSource {
    let mut arcs: Vec<GraphArc> = (0..n_emit).map(|at| arc(at as i32 % 9 + 1, at as i32 % 7, at as f32, 2)).collect();
    arcs.extend((0..n_eps).map(|at| arc(0, at as i32 % 3, -(at as f32), 1)));
    rng.shuffle(&mut arcs);
    source(Some(0), vec![(INF, arcs), (INF, vec![arc(1, 1, 0.0, 2)]), (0.0, vec![])])
}

#[test]
fn headers_that_do_not_fit_one_word() {
    let mut rng = Rng(3);
    for (n_emit, n_eps) in [(65_535, 0), (65_536, 0), (65_535, 4_095), (3, 4_096), (65_537, 4_097), (0, 5_000)] {
        let source = star(n_emit, n_eps, &mut rng);
        let graph = Graph::from_source(&source, Columns::Labels).unwrap();
        let escaped = n_emit > 65_535 || n_eps > 4_095;
        assert_eq!(graph.words()[0] == u32::MAX, escaped, "{n_emit} {n_eps}");
        assert_same(&graph, &source, &Columns::Labels);
    }
}

#[test]
fn levels_around_fifteen() {
    // A chain of 20 epsilon arcs, each state with an emitting arc as well.
    let mut states: Vec<_> = (0..20).map(|at| (INF, vec![arc(0, 0, 0.1, at + 1), arc(1, 2, 0.2, 20)])).collect();
    states.push((0.0, vec![]));
    let source = source(Some(0), states);
    let graph = Graph::from_source(&source, Columns::Labels).unwrap();
    assert_same(&graph, &source, &Columns::Labels);
    let levels: Vec<u32> = graph.ids().map(|id| graph.state(id).header.level).collect();
    assert_eq!(levels, (0..=20).collect::<Vec<u32>>());
    assert_eq!(graph.max_level(), 20);
    let escaped: Vec<bool> = graph.ids().map(|id| graph.words()[id as usize * 2] == u32::MAX).collect();
    assert_eq!(escaped, (0..=20).map(|level| level >= 15).collect::<Vec<bool>>());
}

#[test]
fn level_fifteen_with_full_counts_is_not_mistaken() {
    // All of word 0's bits would be set without the escape, and are not set one below.
    let mut rng = Rng(4);
    for depth in [14, 15] {
        let mut states: Vec<_> = (0..depth).map(|at| (INF, vec![arc(0, 0, 0.0, at + 1)])).collect();
        let star = star(65_535, 4_095, &mut rng);
        let shift = |(cost, arcs): (f32, Vec<GraphArc>)| {
            (cost, arcs.into_iter().map(|arc| GraphArc { next: arc.next + depth, ..arc }).collect())
        };
        states.extend(star.states.into_iter().map(shift));
        let source = source(Some(0), states);
        assert_same(&Graph::from_source(&source, Columns::Labels).unwrap(), &source, &Columns::Labels);
    }
}

#[test]
fn columns_past_sixteen_bits() {
    for (label, wide) in [(65_535, false), (65_536, false), (65_537, true), (i32::MAX, true)] {
        let arcs = vec![arc(label, 1, 0.5, 0), arc(0, 3, 1.0, 1), arc(1, 0, 1.5, 0), arc(2, 2, 2.5, 1)];
        let source = source(Some(0), vec![(INF, arcs), (0.0, vec![])]);
        let graph = Graph::from_source(&source, Columns::Labels).unwrap();
        assert_eq!((graph.wide(), graph.num_columns()), (wide, label as u32), "{label}");
        assert_same(&graph, &source, &Columns::Labels);
        graph.check_width(label as usize).unwrap();
        let error = graph.check_width(label as usize - 1).unwrap_err();
        let Error::Shape(message) = error else { panic!("{error}") };
        assert!(message.contains(&format!("ilabel {label} needs column {}", label - 1)), "{message}");
    }
}

/// Bytes of a graph whose states have their emitting arcs first.
fn bytes(graph: &Graph, of_ilabel: usize, table: usize, of_olabel: usize, num_olabels: usize) -> usize {
    let num_arcs = graph.num_arcs() as usize;
    let olabels = num_arcs.div_ceil(64) * 12 + num_olabels * of_olabel;
    graph.words().len() * 4 + graph.finals().len() * 8 + num_arcs * of_ilabel + table * 4 + olabels
}

#[test]
fn input_labels_take_what_tells_those_of_a_column_apart() {
    let mut rng = Rng(6);
    for (per_column, of_ilabel) in [(1, 0), (2, 1), (256, 1), (257, 2), (65_536, 2), (65_537, 4)] {
        // Labels of three columns in turn, and of none.
        let table: Vec<i32> = (-1..4 * per_column).map(|at| if at == -1 { -1 } else { at % 4 - 1 }).collect();
        let with_column: Vec<i32> = (1..=4 * per_column).filter(|&label| table[label as usize] >= 0).collect();
        let some = (0..200).map(|_| with_column[rng.below(with_column.len() as u64) as usize]);
        let labels = [&with_column[..3], &some.collect::<Vec<i32>>(), &with_column[with_column.len() - 3..]].concat();
        let mut arcs: Vec<_> = labels.into_iter().map(|label| arc(label, 0, 0.5, 0)).collect();
        arcs.extend((0..100).map(|_| arc(0, 0, 0.5, 1)));
        let source = source(Some(0), vec![(INF, arcs), (0.0, vec![])]);
        let columns = Columns::Table(table);
        let graph = Graph::from_source(&source, columns.clone()).unwrap();
        assert_same(&graph, &source, &columns);
        assert_eq!(graph.memory(), bytes(&graph, of_ilabel, 4 + with_column.len(), 2, 0), "{per_column}");
        // What is no arc of the state has no label.
        assert_eq!((graph.ilabel(0, 10_000), graph.ilabel(graph.finals()[0].id, 0)), (0, 0));
        assert_eq!((graph.source_of(305), graph.source_of(306), graph.source_of(u32::MAX)), (Some(0), None, None));
    }
}

#[test]
fn labels_of_columns_whose_low_bits_are_equal() {
    let table: Vec<i32> = (-1..999).map(|at| if at < 0 { -1 } else { at % 7 * 65_536 + at % 5 }).collect();
    let arcs = (1..1000).map(|label| arc(label, 0, 0.5, 0)).collect();
    let source = source(Some(0), vec![(0.0, arcs)]);
    let columns = Columns::Table(table);
    let graph = Graph::from_source(&source, columns.clone()).unwrap();
    assert!(graph.wide());
    assert_same(&graph, &source, &columns);
    assert_eq!(graph.memory(), bytes(&graph, 1, 65_537 + 999, 2, 0));
}

#[test]
fn output_labels_past_sixteen_bits() {
    for at in [0, 1, 500, 998, 999] {
        for (label, of_olabel) in [(65_535, 2), (65_536, 4), (i32::MAX, 4)] {
            let olabel = |arc| if arc == at { label } else { arc % 3 };
            let arcs = (0..1000).map(|number| arc(1 + number % 9, olabel(number), 0.5, 0)).collect();
            let source = source(Some(0), vec![(0.0, arcs)]);
            let graph = Graph::from_source(&source, Columns::Labels).unwrap();
            assert_same(&graph, &source, &Columns::Labels);
            let num_olabels = (0..1000).filter(|&number| olabel(number) != 0).count();
            assert_eq!(graph.memory(), bytes(&graph, 0, 0, of_olabel, num_olabels), "{label} at {at}");
        }
    }
}

#[test]
fn states_behind_one_with_very_many_arcs() {
    let mut rng = Rng(7);
    for at in [0, 63, 64, 100] {
        let states = (0..200u32).map(|state| {
            let count = if state == at { 40_000 } else { 5 };
            let arcs = (0..count).map(|number| {
                let epsilon = number == 0 && state < 199 && rng.below(2) == 0;
                let next = if epsilon { state + 1 } else { rng.below(200) as u32 };
                arc(if epsilon { 0 } else { 1 + number % 50 }, 0, 0.5, next)
            });
            (0.0, arcs.collect())
        });
        let source = source(Some(199), states.collect());
        assert_same(&Graph::from_source(&source, Columns::Labels).unwrap(), &source, &Columns::Labels);
    }
}

#[test]
fn infinite_weights_and_finals_are_absent() {
    // Both the arc and, as an epsilon cycle, 0 -> 1 -> 0 are only there at +inf.
    let source = source(
        Some(0),
        vec![
            (INF, vec![arc(0, 0, 0.0, 1), arc(1, 0, INF, 2)]),
            (INF, vec![arc(0, 0, INF, 0), arc(1, 0, 0.0, 2)]),
            (0.0, vec![]),
        ],
    );
    let graph = Graph::from_source(&source, Columns::Labels).unwrap();
    assert_same(&graph, &source, &Columns::Labels);
    assert_eq!((graph.max_level(), graph.finals().len()), (1, 1));
}
