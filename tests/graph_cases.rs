//! Rows of the list of inputs that broke other decoders which concern graphs.

mod common;
#[path = "common/openfst.rs"]
mod openfst;

use common::graph::{arc, assert_same, source};
use openfst::{Form, constant, vector};
use std::sync::Arc;

use koshi::Error;
use koshi::graph::{Columns, Graph, GraphArc, VecSource};
use koshi::table::{Input, Transitions};

const INF: f32 = f32::INFINITY;

/// Graph A: 0 -`ilabel`:1-> 1, which is final.
fn graph_a(ilabel: i32) -> VecSource {
    source(Some(0), vec![(INF, vec![arc(ilabel, 1, 0.5, 1)]), (0.25, vec![])])
}

/// One phone of two states: four transition-ids, of pdfs 0, 0, 2 and 2.
fn transitions() -> Transitions {
    let text = "<TransitionModel> <Topology> <TopologyEntry> <ForPhones> 1 </ForPhones> \
        <State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State> \
        <State> 1 <PdfClass> 1 <Transition> 1 0.5 <Transition> 2 0.5 </State> \
        <State> 2 </State> </TopologyEntry> </Topology> \
        <Triples> 2 1 0 0 1 1 2 </Triples> <LogProbs> [ 0 -1 -1 -1 -1 ] </LogProbs> </TransitionModel> ";
    Transitions::read(&mut Input::from_bytes("model", text), false).unwrap()
}

/// What is wrong with `source`, which must be the same from memory and from files of both types.
fn fault(source: &VecSource, columns: &Columns) -> String {
    let from_source = Graph::from_source(source, columns.clone());
    let files = [vector(source, &Form::default()), constant(source, &Form::default())];
    let from_files = files.map(|bytes| Graph::from_memory(&bytes, columns.clone()));
    let messages = [from_source].into_iter().chain(from_files).map(|graph| match graph {
        Err(Error::Graph(message)) => message,
        other => panic!("{other:?}"),
    });
    let messages: Vec<String> = messages.collect();
    assert!(messages.iter().all(|message| *message == messages[0]), "{messages:?}");
    messages[0].clone()
}

#[test]
fn case_b31_label_past_the_columns() {
    // At load, where the rule knows the labels: arc, label and what there is are named.
    let columns = Columns::Table(vec![-1, 0, 1, 2]);
    let message = fault(&graph_a(5), &columns);
    assert_eq!(message, "state 0, arc 0: ilabel 5 has no column in the table of 4 entries");
    let columns = Columns::Transitions(Arc::new(transitions()));
    assert_eq!(fault(&graph_a(5), &columns), "state 0, arc 0: ilabel 5 is not a transition-id of the model (1 to 4)");
    assert_same(&Graph::from_source(&graph_a(4), columns.clone()).unwrap(), &graph_a(4), &columns);
    // Later, at the first rows, where it does not.
    let graph = Graph::from_source(&graph_a(5), Columns::Labels).unwrap();
    let Err(Error::Shape(message)) = graph.check_width(3) else { panic!("not refused") };
    assert_eq!(
        message,
        "rows have 3 columns, but arc 0 with ilabel 5 needs column 4: the graph was read without a transition \
        model, so that labels are columns"
    );
    graph.check_width(5).unwrap();
    // A rule is as good for other graphs as before.
    let columns = Columns::Table(vec![-1, 0, 1, 2]);
    assert_same(&Graph::from_source(&graph_a(3), columns.clone()).unwrap(), &graph_a(3), &columns);
}

#[test]
fn case_b32_no_start_state() {
    assert_eq!(fault(&source(None, vec![]), &Columns::Labels), "the graph has no start state");
    let without = VecSource { start: None, ..graph_a(1) };
    assert_eq!(fault(&without, &Columns::Labels), "the graph has no start state");
    let beyond = VecSource { start: Some(2), ..graph_a(1) };
    assert_eq!(fault(&beyond, &Columns::Labels), "start state 2 is out of range: the graph has 2 states");
}

#[test]
fn case_b33_epsilon_cycles() {
    let cycle = |states| fault(&source(Some(0), states), &Columns::Labels);
    let one = "epsilon cycle: state 0 has an epsilon arc to itself";
    let two = "epsilon cycle of 2 states: 0 -> 1 -> 0";
    for weight in [0.0, -0.5, 3.0] {
        assert_eq!(cycle(vec![(0.0, vec![arc(0, 0, weight, 0)])]), one);
        let there_and_back = vec![(0.0, vec![arc(0, 0, 0.0, 1)]), (INF, vec![arc(0, 0, weight, 0)])];
        assert_eq!(cycle(there_and_back), two);
    }
    // With an output label, it is an epsilon cycle just as well: it takes no frame.
    assert_eq!(cycle(vec![(0.0, vec![arc(0, 7, 1.0, 0)])]), one);
    // Out of reach of the start: 1 -> 2 -> 1, beside other arcs.
    let unreachable = vec![
        (0.0, vec![arc(1, 1, 0.0, 0)]),
        (INF, vec![arc(3, 0, 0.0, 0), arc(0, 0, 0.0, 2)]),
        (INF, vec![arc(0, 0, 0.0, 1), arc(0, 0, 0.0, 0)]),
    ];
    assert_eq!(cycle(unreachable), "epsilon cycle of 2 states: 1 -> 2 -> 1");
    // A way into the cycle and one out of it are not named.
    let tail: [&[u32]; 6] = [&[1], &[2], &[3], &[4, 1], &[5], &[]];
    let arcs = |next: &&[u32]| next.iter().map(|&next| arc(0, 0, 0.0, next)).collect::<Vec<GraphArc>>();
    let states = tail.iter().map(|next| (0.0, arcs(next))).collect();
    assert_eq!(cycle(states), "epsilon cycle of 3 states: 1 -> 2 -> 3 -> 1");
    // A long one: some of its states are named.
    let ring = |len: u32| (0..len).map(|at| (0.0, vec![arc(0, 0, 0.0, (at + 1) % len)])).collect::<Vec<_>>();
    assert_eq!(cycle(ring(10)), "epsilon cycle of 10 states: 0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> 8 -> 9 -> 0");
    let first_ten = "0 -> 1 -> 2 -> 3 -> 4 -> 5 -> 6 -> 7 -> 8 -> 9 -> ...";
    assert_eq!(cycle(ring(200_000)), format!("epsilon cycle of 200000 states, the first 10: {first_ten}"));
    // No cycle without its last arc, and levels come without recursion.
    let mut chain = ring(200_000);
    chain.last_mut().unwrap().1.clear();
    assert_eq!(Graph::from_source(&source(Some(0), chain), Columns::Labels).unwrap().max_level(), 199_999);
}

#[test]
fn case_b35_text_without_weights() {
    let text = VecSource::from_text("test", "0 1 1 1\n1").unwrap();
    assert_eq!(text, source(Some(0), vec![(INF, vec![arc(1, 1, 0.0, 1)]), (0.0, vec![])]));
    assert_same(&Graph::from_source(&text, Columns::Labels).unwrap(), &text, &Columns::Labels);
}

#[test]
fn case_b37_the_same_bytes_on_every_system() {
    // Labels and weights with the bytes of line ends and of Ctrl-Z in them, which a file opened
    // as text on Windows would change; parts aligned.
    let odd = |at: i32| arc(0x0d0a_1a0d + at, 0x1a0a_0d0a, f32::from_bits(0x0a0d_0a0d), 1);
    let source = source(Some(0), vec![(INF, vec![odd(0), odd(1)]), (f32::from_bits(0x1a1a_0d0a), vec![])]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("HCLG.fst");
    for form in [Form { aligned: true, ..Form::default() }, Form { version_1: true, ..Form::default() }] {
        std::fs::write(&path, constant(&source, &form)).unwrap();
        assert_same(&Graph::read(&path, Columns::Labels).unwrap(), &source, &Columns::Labels);
    }
}

#[test]
fn case_b38_a_head_that_declares_two_to_the_31_arcs() {
    // The head is all there is of the file. 2^31 arcs are legal, so it is the bytes that lack.
    let head = |kind: &[u8], states: i64, arcs: i64| {
        let mut bytes = b"\xd6\xfd\xb2\x7e".to_vec();
        bytes.extend((kind.len() as i32).to_le_bytes());
        bytes.extend(kind);
        bytes.extend(b"\x08\0\0\0standard\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        bytes.extend(states.to_le_bytes());
        bytes.extend(arcs.to_le_bytes());
        bytes
    };
    let before = peak_memory();
    for (kind, states, arcs) in [
        (&b"const"[..], 0, 1 << 31),
        (b"const", 1_000_000_000, 1 << 31),
        (b"const", 1_000_000_000, 0),
        (b"vector", 1_000_000_000, 0),
        (b"vector", 1_000_000_000, 1 << 31),
    ] {
        let error = Graph::from_memory(&head(kind, states, arcs), Columns::Labels).unwrap_err();
        assert!(matches!(error, Error::Format { .. }), "{error}");
    }
    for (kind, states, arcs) in [(&b"const"[..], 1 << 31, 0), (b"const", 1, 1 << 32), (b"vector", 1 << 31, 0)] {
        let error = Graph::from_memory(&head(kind, states, arcs), Columns::Labels).unwrap_err();
        assert!(matches!(error, Error::Graph(_)), "{error}");
    }
    // Threads of other tests reserve some hundred MiB of addresses; the counts above ask for 4 GiB and more.
    assert!(peak_memory() < before + (3 << 30), "memory was taken for counts that lie");
}

/// Most memory that the process had up to now, address space included, in bytes.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

#[test]
fn case_b39_files_cut_at_every_byte() {
    let source = common::graph::Rng(39).graph(8, 4);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("HCLG.fst");
    for bytes in [vector(&source, &Form::default()), constant(&source, &Form::default())] {
        for end in 0..bytes.len() {
            std::fs::write(&path, &bytes[..end]).unwrap();
            match Graph::read(&path, Columns::Labels) {
                Err(Error::Format { name, offset, .. }) => {
                    assert!(name.ends_with("HCLG.fst") && offset <= end as u64, "{end}: byte {offset}");
                }
                other => panic!("cut at {end}: {other:?}"),
            }
        }
        std::fs::write(&path, &bytes).unwrap();
        Graph::read(&path, Columns::Labels).unwrap();
    }
}
