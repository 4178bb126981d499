//! Rows of the list of inputs that broke other decoders which concern graphs, as far as a
//! caller of either face meets them. What the reader itself says of each file stands in
//! `graph_cases.rs`.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use common::graph::{Rng, arc, source};
use face::openfst::{Form, constant, vector};
use face::{Face, Fault, Matrix, MatrixScores, Outcome, Pull, Status, chain, graph, graph_a, open, results, solo};
use koshi::decoder::DecoderConfig;
use koshi::graph::VecSource;

const INF: f32 = f32::INFINITY;

over_both_faces! {
    case_b31_label_past_the_rows
    case_b32_no_start_state
    case_b33_epsilon_cycles
    case_b35_text_without_weights
    case_b37_binary_files_on_every_system
    case_b38_counts_that_lie
    case_b39_files_cut_at_every_byte
}

over_both_faces_on_gpu! {
    case_b31_label_past_the_rows
}

/// Graph A with another input label.
fn labelled(ilabel: i32) -> VecSource {
    source(Some(0), vec![(INF, vec![arc(ilabel, 1, 0.0, 1)]), (0.0, vec![])])
}

/// The fault of a call that must fail.
fn fault<T>(outcome: Outcome<T>) -> Fault {
    outcome.err().expect("the call must fail")
}

/// What is wrong with `source`: the same for both types of file, from memory and from a file.
fn refused<F: Face>(source: &VecSource, columns: Option<&[i32]>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("HCLG.fst");
    let mut messages = Vec::new();
    for bytes in [vector(source, &Form::default()), constant(source, &Form::default())] {
        if columns.is_none() {
            let fault = fault(F::graph_from_memory(&bytes));
            assert_eq!(fault.status, Status::KOSHI_E_GRAPH, "{}", fault.message);
            messages.push(fault.message);
        }
        std::fs::write(&path, &bytes).unwrap();
        let fault = fault(F::graph_read(&path, columns));
        assert_eq!(fault.status, Status::KOSHI_E_GRAPH, "{}", fault.message);
        let message = fault.message.strip_prefix(&format!("{}: ", path.display())).expect("the file is named");
        messages.push(message.to_string());
    }
    assert!(messages.iter().all(|message| *message == messages[0]), "{messages:?}");
    messages.remove(0)
}

fn case_b31_label_past_the_rows<F: Face>() {
    // The width is known at load through a table.
    let message = refused::<F>(&labelled(5), Some(&[-1, 0, 1, 2]));
    assert_eq!(message, "state 0, arc 0: ilabel 5 has no column in the table of 4 entries");
    let message = refused::<F>(&labelled(2), Some(&[0, 1, -1]));
    assert_eq!(message, "state 0, arc 0: ilabel 2 has no column in the table of 3 entries");
    // Else the first push meets it, and names arc, label and width, whichever way the rows come.
    let message = "rows have 3 columns, but arc 0 with ilabel 5 needs column 4: the graph was read without a transition \
        model, so that labels are columns";
    let narrow = Matrix::dense(&[-1.0; 9], 3);
    let (decoder, mut channel) = open::<F>(&labelled(5), &DecoderConfig::default());
    let refusals = [
        F::push(&mut channel, narrow),
        F::pull_matrix(&mut channel, narrow, None).map(|_| ()),
        F::pull(&mut channel, &mut MatrixScores::new(narrow), Pull::Rows, None).map(|_| ()),
        F::pull(&mut channel, &mut MatrixScores::new(narrow), Pull::Single, None).map(|_| ()),
        F::push(&mut channel, Matrix { data: &[], frames: 3, dim: 0, stride: 0 }),
    ];
    for (at, outcome) in refusals.into_iter().enumerate() {
        let fault = fault(outcome);
        assert_eq!(fault.status, Status::KOSHI_E_SHAPE);
        assert_eq!(fault.message, if at == 4 { message.replace('3', "0") } else { message.to_string() });
    }
    let mut neighbour = F::channel(&decoder).unwrap();
    F::begin(&mut neighbour).unwrap();
    let data = [-1.0; 5];
    let wide = Matrix::dense(&data, 5);
    let mut items = [(&mut channel, narrow), (&mut neighbour, wide)];
    assert_eq!(F::batch(&decoder, &mut items), [Err(Status::KOSHI_E_SHAPE), Ok(())]);
    // Everything stays usable, this utterance too.
    let expected = solo::<F>(&labelled(5), &DecoderConfig::default(), wide);
    assert_eq!(F::num_frames(&channel), 0);
    F::push(&mut channel, wide).unwrap();
    for channel in [&mut channel, &mut neighbour] {
        F::finish(channel).unwrap();
        assert_eq!(results::<F>(channel), expected);
    }
    // In the middle of an utterance a narrow push takes nothing, and the next one goes on.
    F::begin(&mut channel).unwrap();
    let (_decoder, mut channel) = open::<F>(&chain(5), &DecoderConfig::default());
    let data = [-1.0; 25];
    F::push(&mut channel, Matrix::dense(&data[..10], 5)).unwrap();
    assert_eq!(fault(F::push(&mut channel, Matrix::dense(&data[..4], 4))).status, Status::KOSHI_E_SHAPE);
    F::push(&mut channel, Matrix::dense(&data[..15], 5)).unwrap();
    assert_eq!(results::<F>(&mut channel).paths[0].olabels, [1, 2, 3, 4, 5]);
}

fn case_b32_no_start_state<F: Face>() {
    for (start, states, message) in [
        (None, vec![], "the graph has no start state"),
        (None, graph_a().states, "the graph has no start state"),
        (Some(2), graph_a().states, "start state 2 is out of range: the graph has 2 states"),
    ] {
        assert_eq!(refused::<F>(&VecSource { start, states }, None), message);
    }
    // No final state is no fault.
    let found = solo::<F>(
        &source(Some(0), vec![(INF, vec![arc(1, 1, 0.0, 0)])]),
        &DecoderConfig::default(),
        Matrix::dense(&[-1.0], 1),
    );
    assert_eq!((found.reached_final, &found.paths[0].olabels[..]), (Some(false), &[1][..]));
}

fn case_b33_epsilon_cycles<F: Face>() {
    for weight in [0.0, -0.5, 3.0, -INF] {
        if weight > -INF {
            let one = source(Some(0), vec![(0.0, vec![arc(0, 0, weight, 0)])]);
            assert_eq!(refused::<F>(&one, None), "epsilon cycle: state 0 has an epsilon arc to itself");
            let two = source(Some(0), vec![(0.0, vec![arc(0, 0, 0.0, 1)]), (INF, vec![arc(0, 0, weight, 0)])]);
            assert_eq!(refused::<F>(&two, None), "epsilon cycle of 2 states: 0 -> 1 -> 0");
        } else {
            let wrong = source(Some(0), vec![(0.0, vec![arc(0, 0, weight, 0)])]);
            assert_eq!(refused::<F>(&wrong, None), "state 0, arc 0: its weight is -inf (ilabel 0)");
        }
    }
    // An arc of +inf is none, so there is no cycle; and a cycle that takes frames is fine.
    let broken =
        source(Some(0), vec![(INF, vec![arc(0, 1, 0.5, 1)]), (0.0, vec![arc(0, 0, INF, 0), arc(1, 2, 0.0, 0)])]);
    let found = solo::<F>(&broken, &DecoderConfig::default(), Matrix::dense(&[-1.0, -1.0], 1));
    assert_eq!(found.paths[0].olabels, [1, 2, 1, 2, 1]);
}

fn case_b35_text_without_weights<F: Face>() {
    // The functions read text lattices (text graphs are for tests, see `graph_cases.rs`).
    let lattice = F::lattice_from_memory(b"\n0 1 1 1\n1\n\n").unwrap();
    assert_eq!((lattice.num_states(), lattice.num_arcs()), (2, 1));
    assert_eq!((lattice.arcs[0].weight.graph, lattice.arcs[0].weight.acoustic), (0.0, 0.0));
    assert_eq!((lattice.finals[1].graph, lattice.finals[1].acoustic), (0.0, 0.0));
    let mixed = F::lattice_best_path(b"\n0 1 1 1\n0 1 2 2 -0.5,0\n1 1 0.25\n\n", 1.0);
    assert!(mixed.is_err(), "{mixed:?}"); // a self loop, since `1 1 0.25` is an arc
    let mixed = F::lattice_best_path(b"\n0 1 1 1\n0 1 2 2 -0.5,0\n1 0.25,0\n\n", 1.0).unwrap();
    assert_eq!((&mixed.olabels[..], mixed.graph_cost), (&[2][..], -0.25));
}

fn case_b37_binary_files_on_every_system<F: Face>() {
    // Bytes of line ends and of Ctrl-Z in labels and weights; parts aligned.
    let odd = |at: i32| arc(1 + at, 0x0d0a_1a0d + at, f32::from_bits(0x0a0d_0a0d), 1);
    let odd = source(Some(0), vec![(INF, vec![odd(0), odd(1)]), (f32::from_bits(0x1a1a_0d0a), vec![])]);
    let expected = solo::<F>(&odd, &DecoderConfig::default(), Matrix::dense(&[-2.0, -1.0], 2));
    assert_eq!(expected.paths[0].olabels, [0x0d0a_1a0e]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("HCLG.fst");
    let symbols: &[(&str, i64)] = &[("<eps>", 0), ("a\r\n\u{1a}b", 1)];
    let forms = [
        Form::default(),
        Form { aligned: true, ..Form::default() },
        Form { version_1: true, ..Form::default() },
        Form {
            input_symbols: Some(("in\n", symbols)),
            output_symbols: Some(("out", symbols)),
            aligned: true,
            ..Form::default()
        },
    ];
    for form in forms {
        for bytes in [constant(&odd, &form), vector(&odd, &Form { aligned: false, ..form })] {
            std::fs::write(&path, &bytes).unwrap();
            for graph in [F::graph_read(&path, None).unwrap(), F::graph_from_memory(&bytes).unwrap()] {
                assert_eq!(F::num_states(&graph), 2);
                let decoder = F::decoder(&graph, &DecoderConfig::default()).unwrap();
                let mut channel = F::channel(&decoder).unwrap();
                F::begin(&mut channel).unwrap();
                F::push(&mut channel, Matrix::dense(&[-2.0, -1.0], 2)).unwrap();
                F::finish(&mut channel).unwrap();
                assert_eq!(results::<F>(&mut channel), expected);
            }
        }
    }
    let fault = fault(F::graph_read(&folder.path().join("none.fst"), None));
    assert_eq!(fault.status, Status::KOSHI_E_IO);
    assert!(fault.message.contains("none.fst"), "{}", fault.message);
}

fn case_b38_counts_that_lie<F: Face>() {
    // A head is all there is of the file, or one more state; it declares what memory does not have.
    let head = |kind: &[u8], states: i64, arcs: i64| {
        let mut bytes = b"\xd6\xfd\xb2\x7e".to_vec();
        bytes.extend((kind.len() as i32).to_le_bytes());
        bytes.extend(kind);
        bytes.extend(b"\x08\0\0\0standard\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        bytes.extend(states.to_le_bytes());
        bytes.extend(arcs.to_le_bytes());
        bytes
    };
    let counts = [0, 1, 1_000_000_000, 1 << 31, 1 << 32, i64::MAX, -1, i64::MIN];
    for kind in [&b"const"[..], b"vector"] {
        for states in counts {
            for arcs in counts {
                let mut bytes = head(kind, states, arcs);
                for with_state in [false, true] {
                    if with_state && kind == b"vector" && (states == 1 || states == -1) && arcs == 0 {
                        F::graph_from_memory(&bytes).unwrap(); // one state, final, without arcs: whole
                        continue;
                    }
                    let fault = fault(F::graph_from_memory(&bytes));
                    let known = matches!(fault.status, Status::KOSHI_E_FORMAT | Status::KOSHI_E_GRAPH);
                    assert!(known, "{states} states, {arcs} arcs: {fault:?}");
                    // A state of a vector file that declares as many arcs.
                    bytes.extend(0.0f32.to_le_bytes());
                    bytes.extend(arcs.to_le_bytes());
                }
            }
        }
    }
    // What was refused cost nothing: the next graph loads.
    graph::<F>(&graph_a());
}

fn case_b39_files_cut_at_every_byte<F: Face>() {
    let source = Rng(39).graph(12, 4);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("HCLG.fst");
    for bytes in [vector(&source, &Form::default()), constant(&source, &Form { aligned: true, ..Form::default() })] {
        for end in 0..bytes.len() {
            let from_memory = fault(F::graph_from_memory(&bytes[..end]));
            assert_eq!(from_memory.status, Status::KOSHI_E_FORMAT, "cut at {end}: {}", from_memory.message);
            assert!(from_memory.message.starts_with("memory: byte "), "{}", from_memory.message);
            std::fs::write(&path, &bytes[..end]).unwrap();
            let from_file = fault(F::graph_read(&path, None));
            assert_eq!(from_file.status, Status::KOSHI_E_FORMAT, "cut at {end}: {}", from_file.message);
            assert!(from_file.message.contains("HCLG.fst: byte "), "{}", from_file.message);
        }
        F::graph_from_memory(&bytes).unwrap();
    }
    // Lattices too. A text may be cut where it is whole already: behind its last line.
    let lattice = solo::<F>(&chain(4), &DecoderConfig::default(), Matrix::dense(&[-1.5; 16], 4)).lattices[0].clone();
    let bytes = F::lattice_to_memory(&lattice, true).unwrap();
    for end in 0..bytes.len() {
        assert_eq!(fault(F::lattice_from_memory(&bytes[..end])).status, Status::KOSHI_E_FORMAT, "cut at {end}");
    }
    let text = F::lattice_to_memory(&lattice, false).unwrap();
    for end in 0..text.len() {
        // Where a line is cut between two fields it may be that of a compact lattice.
        if let Err(fault) = F::lattice_best_path(&text[..end], 1.0) {
            assert_eq!(fault.status, Status::KOSHI_E_FORMAT, "cut at {end}: {}", fault.message);
        }
    }
}
