//! Graphs that are refused, and graphs that are only remarked on.

mod common;

use common::graph::{arc, assert_same, source};
use koshi::Error;
use koshi::graph::{Columns, Graph, VecSource};

const INF: f32 = f32::INFINITY;

fn refused(source: &VecSource) -> String {
    match Graph::from_source(source, Columns::Labels) {
        Err(Error::Graph(message)) => message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn arcs_and_finals_out_of_their_ranges() {
    // The fault is in the second arc of state 1, which is number 3 of the graph.
    let with = |bad| source(Some(0), vec![(INF, vec![arc(1, 1, 0.0, 1); 2]), (0.0, vec![arc(0, 0, 0.0, 0), bad])]);
    assert_eq!(refused(&with(arc(-1, 0, 0.0, 0))), "state 1, arc 3: ilabel -1 is negative");
    assert_eq!(refused(&with(arc(i32::MIN, 0, 0.0, 0))), "state 1, arc 3: ilabel -2147483648 is negative");
    assert_eq!(refused(&with(arc(4, -7, 0.0, 0))), "state 1, arc 3: olabel -7 is negative (ilabel 4)");
    let range = "is out of range: the graph has 2 states (ilabel 4)";
    assert_eq!(refused(&with(arc(4, 0, 0.0, 2))), format!("state 1, arc 3: next state 2 {range}"));
    assert_eq!(refused(&with(arc(4, 0, 0.0, u32::MAX))), format!("state 1, arc 3: next state -1 {range}"));
    assert_eq!(refused(&with(arc(4, 0, f32::NAN, 0))), "state 1, arc 3: its weight is NaN (ilabel 4)");
    assert_eq!(refused(&with(arc(0, 0, -f32::NAN, 0))), "state 1, arc 3: its weight is NaN (ilabel 0)");
    assert_eq!(refused(&with(arc(4, 0, -INF, 0))), "state 1, arc 3: its weight is -inf (ilabel 4)");
    for (cost, text) in [(f32::NAN, "NaN"), (-INF, "-inf")] {
        let source = source(Some(0), vec![(0.0, vec![]), (cost, vec![])]);
        assert_eq!(refused(&source), format!("state 1: its final cost is {text}"));
    }
}

#[test]
fn the_first_fault_is_named() {
    let states = vec![(0.0, vec![arc(1, 0, 0.0, 0)]), (0.0, vec![arc(1, 0, 0.0, 9)]), (0.0, vec![arc(-1, 0, 0.0, 0)])];
    assert!(refused(&source(Some(0), states)).starts_with("state 1, arc 1: next state 9"));
}

#[test]
fn what_is_only_remarked_on() {
    // 0 -> 1 -> 2 (final); 3 -> 2 is out of reach; 1 -> 4 is a dead end; the arc 0 -> 5 and the
    // final cost of 5 are +inf, and so is the only arc out of 5.
    let source = source(
        Some(0),
        vec![
            (INF, vec![arc(1, 9, 0.0, 1), arc(1, 0, INF, 5)]),
            (INF, vec![arc(0, 0, 0.0, 2), arc(7, 0, 0.0, 4)]),
            (1.5, vec![]),
            (INF, vec![arc(2, 0, 0.0, 2)]),
            (INF, vec![arc(3, 0, 0.0, 4)]),
            (INF, vec![arc(3, 0, INF, 2)]),
        ],
    );
    let graph = Graph::from_source(&source, Columns::Labels).unwrap();
    assert_same(&graph, &source, &Columns::Labels);
    let info = graph.info().unwrap();
    assert_eq!(info, graph.info().unwrap());
    assert_eq!((info.num_states, info.num_arcs, info.num_epsilon_arcs, info.num_infinite_arcs), (6, 7, 1, 2));
    assert_eq!((info.num_finals, info.num_unreachable, info.num_dead_ends), (1, 2, 2));
    assert_eq!((info.max_level, info.max_ilabel, info.max_olabel, info.num_columns), (1, 7, 9, 7));
    assert_eq!(info.memory, graph.memory() as u64);
}

#[test]
fn no_final_state_and_no_arc() {
    let info = |states| Graph::from_source(&source(Some(0), states), Columns::Labels).unwrap().info().unwrap();
    let alone = info(vec![(INF, vec![])]);
    assert_eq!((alone.num_finals, alone.num_unreachable, alone.num_dead_ends, alone.num_columns), (0, 0, 1, 0));
    let alone = info(vec![(0.0, vec![])]);
    assert_eq!((alone.num_finals, alone.num_unreachable, alone.num_dead_ends, alone.max_ilabel), (1, 0, 0, 0));
    let loops = info(vec![(INF, vec![arc(1, 2, 0.0, 1)]), (INF, vec![arc(2, 1, 0.0, 0)])]);
    assert_eq!((loops.num_finals, loops.num_unreachable, loops.num_dead_ends), (0, 0, 2));
}

#[test]
fn reach_of_random_graphs() {
    // Against closures by repeated passes.
    let mut rng = common::graph::Rng(12);
    for round in 0..200 {
        let mut source = rng.graph(1 + round / 2, 3);
        for arc in source.states.iter_mut().flat_map(|state| &mut state.1) {
            if rng.below(5) == 0 {
                arc.weight = INF;
            }
        }
        let arcs = |state: usize| source.states[state].1.iter().filter(|arc| arc.weight < INF);
        let num_states = source.states.len();
        let mut reached: Vec<bool> = (0..num_states).map(|state| Some(state as u32) == source.start).collect();
        let mut alive: Vec<bool> = source.states.iter().map(|state| state.0 < INF).collect();
        for _ in 0..num_states {
            for state in 0..num_states {
                for arc in arcs(state) {
                    reached[arc.next as usize] |= reached[state];
                    alive[state] |= alive[arc.next as usize];
                }
            }
        }
        let count = |flags: &[bool]| flags.iter().filter(|flag| !**flag).count() as u32;
        let info = Graph::from_source(&source, Columns::Labels).unwrap().info().unwrap();
        assert_eq!((info.num_unreachable, info.num_dead_ends), (count(&reached), count(&alive)));
    }
}

#[test]
fn text_form() {
    let text = "2 0 5 6 1.5\n\n0\t1  7 0 -0.25\r\n0 2 0 3 Infinity\n1 1e1\n2 2 1 1\n1 0.5\n5\n";
    let expected = source(
        Some(2),
        vec![
            (INF, vec![arc(7, 0, -0.25, 1), arc(0, 3, INF, 2)]),
            (0.5, vec![]),
            (INF, vec![arc(5, 6, 1.5, 0), arc(1, 1, 0.0, 2)]),
            (INF, vec![]),
            (INF, vec![]),
            (0.0, vec![]),
        ],
    );
    assert_eq!(VecSource::from_text("test", text).unwrap(), expected);
    assert_eq!(VecSource::from_text("test", "").unwrap(), VecSource::default());
    assert_eq!(VecSource::from_text("test", " \n\n").unwrap().start, None);
}

#[test]
fn text_faults() {
    for (line, text) in [
        ("0 1 2", "expected 1, 2, 4 or 5 fields"),
        ("0 1 2 3 4 5", "expected 1, 2, 4 or 5 fields"),
        ("-1", "not a state number"),
        ("x 1 1 1", "not a state number"),
        ("0 1.5 1 1", "not a state number"),
        ("0 1 a 1", "not a label"),
        ("0 1 1 2147483648", "not a label"),
        ("0 1 1 1 x", "not a weight"),
        ("0 1,5", "not a cost"),
        ("0 4000000000 1 1", "a state number far above"),
        ("2000000 0 1 1", "a state number far above"),
    ] {
        let error = VecSource::from_text("test", &format!("0 0 1 1\n{line}\n")).unwrap_err();
        assert!(matches!(error, Error::Format { offset: 8, .. }), "{error}");
        assert!(error.to_string().contains(&format!("line 2: {text}")), "{error}");
    }
}
