//! Bytes taken for a graph: an error, or a graph that a search may walk without looking.

use koshi::graph::{Columns, FstBytes, Graph, HAS_EPSILONS, VecSource};
use koshi::table::{Input, Output};

pub fn run(bytes: &[u8]) -> bool {
    let table = Columns::Table((-1..300).map(|label| if label == 200 { 70_000 } else { label }).collect());
    let graph = Graph::from_memory(bytes, Columns::Labels);
    let narrow = Graph::from_memory(bytes, table);
    for graph in [&graph, &narrow].into_iter().flatten() {
        check(graph);
    }
    assert!(graph.is_ok() || narrow.is_err(), "labels alone ask for less than a table");

    // What is read in place and what is taken from a stream is the same.
    let fst = FstBytes::read(&mut Input::from_bytes("fuzz", bytes));
    if let Ok(graph) = &graph {
        let streamed = fst.as_ref().expect("a stream is read as memory is").graph(Columns::Labels);
        assert!(streamed.expect("a stream is read as memory is").words() == graph.words());
    }
    // Whatever has states and arcs can be written, and comes back.
    if let Ok(source) = fst.and_then(|fst| fst.to_source()) {
        let again = |binary| {
            let mut output = Output::memory();
            source.write(&mut output, binary).expect("writing to memory");
            let fst = FstBytes::read(&mut Input::from_bytes("again", output.into_bytes())).expect("own bytes are read");
            fst.to_source().expect("own bytes are read")
        };
        let same = |other: &VecSource| format!("{other:?}") == format!("{source:?}"); // NaN equals NaN so
        assert!(same(&again(true)));
        if let Ok(graph) = &graph {
            let built = Graph::from_source(&again(true), Columns::Labels).expect("as good as before");
            assert!(built.words() == graph.words());
        }
    }
    let text = std::str::from_utf8(bytes).ok();
    let read = text
        .map(|text| VecSource::from_text("fuzz", text).and_then(|source| Graph::from_source(&source, Columns::Labels)));
    graph.is_ok() || read.is_some_and(|graph| graph.is_ok())
}

/// Holds every word of the blocks to what the search takes for granted.
fn check(graph: &Graph) {
    let ids: Vec<u32> = graph.ids().collect();
    let level = |dst: u32| {
        let id = dst & !HAS_EPSILONS;
        assert!(ids.binary_search(&id).is_ok());
        let header = graph.state(id).header;
        assert_eq!(dst != id, header.n_eps > 0);
        header.level
    };
    level(graph.start());
    let mut arcs = 0;
    for &id in &ids {
        let view = graph.state(id);
        assert_eq!(view.header.first_arc, arcs);
        for place in 0..view.header.n_emit {
            level(view.dsts[place]);
            assert!(view.weights[place] > f32::NEG_INFINITY && view.column(place) < graph.num_columns());
        }
        for place in 0..view.header.n_eps {
            let above = level(view.eps_dsts[place]) > view.header.level;
            assert!(view.eps_weights[place] == f32::INFINITY || above && view.eps_weights[place] > f32::NEG_INFINITY);
        }
        let end = arcs + (view.header.n_emit + view.header.n_eps) as u32;
        for arc in arcs..end {
            assert!((arcs..end).contains(&graph.file_arc(id, arc)));
            assert!(graph.ilabel(id, arc) >= 0 && graph.olabel(arc) >= 0);
        }
        arcs = end;
    }
    assert_eq!(arcs, graph.num_arcs());
    let info = graph.info().expect("small graphs need little memory");
    assert!(info.num_unreachable < info.num_states && info.num_dead_ends <= info.num_states);
}
