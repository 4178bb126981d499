//! Graph files: every form that OpenFst gives them, and bytes that are none.

mod common;
#[path = "common/openfst.rs"]
mod openfst;

use std::io::Write;
use std::sync::Arc;

use common::graph::{Rng, arc, assert_equal, assert_same, assert_sound, source};
use koshi::Error;
use koshi::graph::{Columns, Graph, VecSource};
use openfst::{Form, constant, vector};
use rustfst::prelude::{
    ConstFst, ExpandedFst, Fst, MutableFst, Semiring, SerializableFst, SymbolTable, Tr, TropicalWeight, Trs, VectorFst,
};

const INF: f32 = f32::INFINITY;
const SYMBOLS: openfst::Symbols = ("words", &[("<eps>", 0), ("a\nb", 1), ("", 7), ("zürich", 8)]);

/// Graph A: 0 -1:1-> 1, which is final.
fn graph_a() -> VecSource {
    source(Some(0), vec![(INF, vec![arc(1, 1, 0.5, 1)]), (0.25, vec![])])
}

/// Every file that has `source` in it.
fn files(source: &VecSource) -> Vec<(&'static str, Vec<u8>)> {
    let plain = Form::default();
    let symbols = Form { input_symbols: Some(SYMBOLS), output_symbols: Some(("", &[])), ..plain };
    let output = Form { output_symbols: Some(SYMBOLS), ..plain };
    let num_arcs = openfst::num_arcs(source) as i64;
    vec![
        ("vector", vector(source, &plain)),
        ("vector, symbols", vector(source, &symbols)),
        ("vector, output symbols", vector(source, &output)),
        ("vector, arcs -1", vector(source, &Form { vector_arcs: -1, ..plain })),
        ("vector, arcs told", vector(source, &Form { vector_arcs: num_arcs, ..plain })),
        ("vector, flagged aligned", vector(source, &Form { aligned: true, ..output })),
        ("vector, states -1", vector(source, &Form { open_ended: true, ..output })),
        ("const", constant(source, &plain)),
        ("const, symbols", constant(source, &symbols)),
        ("const, output symbols", constant(source, &output)),
        ("const, aligned", constant(source, &Form { aligned: true, ..plain })),
        ("const, aligned, symbols", constant(source, &Form { aligned: true, ..symbols })),
        ("const, version 1", constant(source, &Form { version_1: true, ..plain })),
        ("const, version 1, output symbols", constant(source, &Form { version_1: true, ..output })),
    ]
}

fn read(bytes: &[u8]) -> koshi::Result<Graph> {
    Graph::from_memory(bytes, Columns::Labels)
}

#[test]
fn a_const_file_byte_for_byte() {
    let bytes = [
        &b"\xd6\xfd\xb2\x7e\x05\0\0\0const\x08\0\0\0standard"[..],
        b"\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", // version, flags, properties
        b"\0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0", // start, states, arcs
        b"\0\0\x80\x7f\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0", // +inf, first arc 0, 1 arc, 0 and 0 epsilons
        b"\0\0\x80\x3e\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", // 0.25, first arc 1, none
        b"\x01\0\0\0\x01\0\0\0\0\0\0\x3f\x01\0\0\0", // 1:1/0.5 to state 1
    ];
    let bytes = bytes.concat();
    assert_eq!(bytes, constant(&graph_a(), &Form::default()));
    assert_same(&read(&bytes).unwrap(), &graph_a(), &Columns::Labels);
}

#[test]
fn all_forms_give_the_same_graph() {
    let mut rng = Rng(5);
    for round in 0..60 {
        let source = rng.graph(1 + round, 5);
        let direct = Graph::from_source(&source, Columns::Labels).unwrap();
        for (form, bytes) in files(&source) {
            let graph = read(&bytes).unwrap_or_else(|error| panic!("{form}: {error}"));
            assert_equal(&graph, &direct);
        }
    }
}

/// `source` in rustfst's form.
fn to_rustfst(source: &VecSource) -> VectorFst<TropicalWeight> {
    let mut fst = VectorFst::new();
    fst.add_states(source.states.len());
    fst.set_start(source.start.unwrap()).unwrap();
    for (state, (cost, arcs)) in (0u32..).zip(&source.states) {
        if cost.is_finite() {
            fst.set_final(state, *cost).unwrap();
        }
        for arc in arcs {
            fst.add_tr(state, Tr::new(arc.ilabel as u32, arc.olabel as u32, arc.weight, arc.next)).unwrap();
        }
    }
    fst
}

fn from_rustfst(fst: &impl ExpandedFst<TropicalWeight>) -> VecSource {
    let states = fst.states_iter().map(|state| {
        let arcs = fst.get_trs(state).unwrap();
        let arcs =
            arcs.trs().iter().map(|tr| arc(tr.ilabel as i32, tr.olabel as i32, *tr.weight.value(), tr.nextstate));
        (fst.final_weight(state).unwrap().map_or(INF, |weight| *weight.value()), arcs.collect())
    });
    source(fst.start(), states.collect())
}

#[test]
fn rustfst_writes_and_we_read() {
    let mut rng = Rng(6);
    for round in 0..40 {
        let source = rng.graph(1 + round, 5);
        let mut fst = to_rustfst(&source);
        if round % 2 == 0 {
            let mut table = SymbolTable::new();
            table.add_symbols(["one", "two", "three"]);
            fst.set_input_symbols(Arc::new(table.clone()));
            fst.set_output_symbols(Arc::new(table));
        }
        let mut bytes = Vec::new();
        fst.store(&mut bytes).unwrap();
        assert_same(&read(&bytes).unwrap(), &source, &Columns::Labels);

        bytes.clear();
        ConstFst::from(fst).store(&mut bytes).unwrap();
        assert_same(&read(&bytes).unwrap(), &source, &Columns::Labels);
    }
}

#[test]
fn rustfst_reads_what_the_tests_write() {
    let source = Rng(7).graph(40, 5);
    let dense: openfst::Symbols = ("words", &[("<eps>", 0), ("one", 1)]); // rustfst knows no gaps
    for form in [Form::default(), Form { input_symbols: Some(dense), ..Form::default() }] {
        let fst = VectorFst::<TropicalWeight>::load(&vector(&source, &form)).unwrap();
        assert_eq!(fst.input_symbols().is_some(), form.input_symbols.is_some());
        assert_eq!(from_rustfst(&fst), source);
        assert_eq!(from_rustfst(&ConstFst::load(&constant(&source, &form)).unwrap()), source);
    }
    let version_1 = constant(&source, &Form { version_1: true, ..Form::default() });
    assert_eq!(from_rustfst(&ConstFst::load(&version_1).unwrap()), source);
}

#[test]
fn bytes_after_the_fst_are_ignored() {
    let source = Rng(8).graph(10, 5);
    for (form, mut bytes) in files(&source) {
        bytes.extend(b"more");
        let graph = read(&bytes);
        if form == "vector, states -1" {
            // Its states go on to the end, so these bytes are a state that is cut short.
            assert!(matches!(graph, Err(Error::Format { .. })), "{form}");
        } else {
            assert_same(&graph.unwrap(), &source, &Columns::Labels);
        }
    }
}

#[test]
fn files_and_pipes() {
    let source = Rng(9).graph(300, 5);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("HCLG.fst");
    for (_, bytes) in files(&source) {
        std::fs::write(&path, &bytes).unwrap();
        assert_same(&Graph::read(&path, Columns::Labels).unwrap(), &source, &Columns::Labels);
    }
    let pipe = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for (_, bytes) in files(&source) {
        let to = pipe.clone();
        let writer = std::thread::spawn(move || std::fs::File::create(to).unwrap().write_all(&bytes).unwrap());
        assert_same(&Graph::read(&pipe, Columns::Labels).unwrap(), &source, &Columns::Labels);
        writer.join().unwrap();
    }
}

#[test]
fn large_files_give_their_pages_back_and_are_read_all_the_same() {
    // More states than the walk passes at a time, and labels and levels that make it walk twice.
    let mut source = Rng(13).graph(120_000, 4);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("HCLG.fst");
    for twice in [false, true] {
        if twice {
            source.states[0].1.push(arc(70_000, 1, 0.5, 0));
        }
        let direct = Graph::from_source(&source, Columns::Labels).unwrap();
        assert_eq!(direct.wide(), twice);
        for (_, bytes) in files(&source) {
            std::fs::write(&path, &bytes).unwrap();
            assert_equal(&Graph::read(&path, Columns::Labels).unwrap(), &direct);
        }
    }
}

#[test]
fn errors_name_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("HCLG.fst");
    let chain = || Graph::read(&path, Columns::Labels).unwrap_err();
    let check = |error: Error, text: &str| {
        let chain = error.chain();
        assert!(chain.contains("HCLG.fst") && chain.contains(text), "{chain}");
        error
    };
    assert!(matches!(check(chain(), "No such file"), Error::Io { .. }));
    std::fs::write(&path, []).unwrap();
    assert!(matches!(
        check(chain(), "byte 0: the magic number: the data ends 4 bytes too early"),
        Error::Format { offset: 0, .. }
    ));
    std::fs::write(&path, vector(&source(None, vec![]), &Form::default())).unwrap();
    assert!(matches!(check(chain(), "no start state").root(), Error::Graph(_)));
    std::fs::write(&path, b"\xd6\xfd\xb2\x7e\x05\0\0\0ngram\x08\0\0\0standard\x02\0\0\0\0\0\0\0").unwrap();
    assert!(matches!(check(chain(), "\"ngram\""), Error::Unsupported(_)));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(check(chain(), ""), Error::Io { .. }));
}

/// `bytes` with `new` at `at`.
fn patched(bytes: &[u8], at: usize, new: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

/// Offsets in an unaligned file of type `const` (one less, as the name is one byte longer, for `vector`).
const FST_TYPE: usize = 4;
const VERSION: usize = 25;
const START: usize = 41;
const STATES: usize = 49;
const ARCS: usize = 57;
const BODY: usize = 65;

#[test]
fn other_types_are_refused_by_name() {
    let head = |fst_type: &str, arc_type: &str, version: i32| {
        let mut bytes = b"\xd6\xfd\xb2\x7e".to_vec();
        for text in [fst_type, arc_type] {
            bytes.extend((text.len() as i32).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        bytes.extend(version.to_le_bytes());
        bytes.extend([0; 100]);
        read(&bytes).unwrap_err()
    };
    let refused = |error: Error, name: &str| {
        let Error::Unsupported(message) = error else { panic!("{error}") };
        assert!(message.contains(name), "{message}");
    };
    for name in ["compact_acceptor", "compact8_string", "ngram", "const8", "const16", "const64", "olabel_lookahead", ""]
    {
        refused(head(name, "standard", 2), &format!("fst type {name:?}"));
    }
    for name in ["log", "log64", "lattice4", "compactlattice44", "standard64", ""] {
        refused(head("vector", name, 2), &format!("arc type {name:?}"));
        refused(head("const", name, 2), &format!("arc type {name:?}"));
    }
    refused(head("vector", "standard", 1), "version 1 of fst type \"vector\"");
    refused(head("vector", "standard", 3), "version 3");
    refused(head("const", "standard", 3), "version 3");
    refused(head("const", "standard", 0), "version 0");
}

#[test]
fn other_files_are_told_apart() {
    for (bytes, text) in [
        (&b"\x1f\x8b\x08\0\0\0\0\0"[..], "gzip"),
        (b"0 1 1 1\n1\n", "text"),
        (b"\x7e\xb2\xfd\xd6\0\0\0\0", "big-endian"),
        (b"\0BFM \0\0\0\0", "0x4d464200"),
    ] {
        let error = read(bytes).unwrap_err();
        assert!(matches!(error, Error::Format { offset: 0, .. }), "{error}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn counts_that_lie() {
    let source = source(
        Some(0),
        vec![(INF, vec![arc(1, 0, 0.5, 1), arc(0, 0, 0.5, 1)]), (INF, vec![arc(2, 3, 0.5, 2)]), (0.25, vec![])],
    );
    let bytes = constant(&source, &Form::default());
    let state = |state: usize, field: usize| BODY + 20 * state + 4 * field;
    let format = |bytes: Vec<u8>, at: usize, text: &str| {
        let error = read(&bytes).unwrap_err();
        let Error::Format { offset, .. } = error else { panic!("{error}") };
        assert!(offset == at as u64 && error.to_string().contains(text), "expected byte {at}, {text}: {error}");
    };
    let word = |value: u32| value.to_le_bytes();
    let long = |value: i64| value.to_le_bytes();
    let arcs_at = BODY + 60;
    read(&bytes).unwrap();
    format(patched(&bytes, state(0, 1), &word(1)), state(0, 1), "state 0: its arcs begin at 1, expected 0");
    format(patched(&bytes, state(1, 1), &word(1)), state(1, 1), "state 1: its arcs begin at 1, expected 2");
    format(patched(&bytes, state(0, 2), &word(1)), state(1, 1), "state 1: its arcs begin at 2, expected 1");
    format(patched(&bytes, state(0, 2), &word(u32::MAX)), state(0, 2), "state 0: its 4294967295 arcs go past the 3");
    format(patched(&bytes, state(2, 2), &word(1)), state(2, 2), "state 2: its 1 arcs go past");
    format(patched(&bytes, state(1, 2), &word(0)), state(2, 1), "state 2");
    format(patched(&bytes, state(0, 3), &word(2)), state(0, 3), "state 0: said to have 2 arcs with ilabel 0, it has 1");
    format(patched(&bytes, state(1, 4), &word(1)), state(1, 4), "state 1: said to have 1 arcs with olabel 0, it has 0");
    format(patched(&bytes, STATES, &long(-1)), BODY, "number of states");
    format(patched(&bytes, ARCS, &long(-1)), BODY, "number of arcs");
    format(patched(&bytes, STATES, &long(-2)), STATES, "-2 states");
    format(patched(&bytes, ARCS, &long(i64::MIN)), ARCS, "arcs");
    format(patched(&bytes, ARCS, &long(4)), bytes.len(), "4 arcs: the data ends 16 bytes too early");
    format(patched(&bytes, ARCS, &long(2)), state(1, 2), "go past the 2 of the file");
    format(patched(&bytes, STATES, &long(1)), state(1, 0), "the states have 2 arcs together, the file says 3");
    format(patched(&bytes, STATES, &long(i64::from(i32::MAX))), bytes.len(), "2147483647 states");
    format(patched(&bytes, ARCS, &long(i64::from(u32::MAX))), bytes.len(), "4294967295 arcs");
    format(patched(&bytes, FST_TYPE, &word(u32::MAX)), FST_TYPE, "fst type is said to have -1 bytes");
    format(patched(&bytes, FST_TYPE, &word(i32::MAX as u32)), FST_TYPE, "2147483647 bytes");
    format(patched(&bytes, FST_TYPE, &word(200)), bytes.len(), "the fst type");
    format(patched(&bytes, VERSION + 4, &word(1)), BODY, "input symbol table");
    assert_eq!(bytes.len(), arcs_at + 48);

    let limit = |bytes: Vec<u8>, text: &str| {
        let Err(Error::Graph(message)) = read(&bytes) else { panic!("not refused") };
        assert!(message.contains(text), "{message}");
    };
    limit(patched(&bytes, STATES, &long(2)), "state 0, arc 1: next state"); // a state is taken for arcs
    limit(patched(&bytes, STATES, &long(1 << 31)), "2147483648 states; the limit is 2147483647");
    limit(patched(&bytes, ARCS, &long(1 << 32)), "4294967296 arcs; the limit is 4294967295");
    limit(patched(&bytes, START, &long(3)), "start state 3 is out of range: the graph has 3 states");
    limit(patched(&bytes, START, &long(-2)), "start state -2");
    limit(patched(&bytes, START, &long(i64::MAX)), "start state 9223372036854775807");

    let bytes = vector(&source, &Form::default());
    let (body, first) = (BODY + 1, BODY + 1 + 4);
    read(&bytes).unwrap();
    format(patched(&bytes, first, &long(-1)), first, "state 0 is said to have -1 arcs");
    format(patched(&bytes, first, &long(i64::MAX)), first, "state 0 is said to have 9223372036854775807 arcs");
    format(patched(&bytes, first, &long(1 << 40)), bytes.len(), "the arcs of a state");
    format(patched(&bytes, STATES + 1, &long(4)), bytes.len(), "a state: the data ends 12 bytes too early");
    format(patched(&bytes, STATES + 1, &long(i64::from(i32::MAX))), body, "25769803764 bytes");
    format(patched(&bytes, STATES + 1, &long(-2)), STATES + 1, "-2 states");
    format(patched(&bytes, ARCS + 1, &long(4)), bytes.len(), "there are 4 arcs, there are 3");
    limit(
        patched(&bytes, STATES + 1, &long(2)),
        "state 1, arc 2: next state 2 is out of range: the graph has 2 states",
    );
    limit(patched(&bytes, STATES + 1, &long(1 << 31)), "2147483648 states");
}

#[test]
fn symbol_tables_that_lie() {
    let form = Form { input_symbols: Some(SYMBOLS), output_symbols: Some(SYMBOLS), ..Form::default() };
    let bytes = constant(&graph_a(), &form);
    let refused = |at: usize, new: &[u8], text: &str| {
        let error = read(&patched(&bytes, at, new)).unwrap_err();
        assert!(matches!(error, Error::Format { .. }) && error.to_string().contains(text), "{text}: {error}");
    };
    read(&bytes).unwrap();
    let size = BODY + 4 + 4 + 5 + 8;
    refused(BODY, b"X", "expected the input symbol table");
    refused(BODY + 4, &(-1i32).to_le_bytes(), "-1 bytes");
    refused(BODY + 4, &i32::MAX.to_le_bytes(), "the input symbol table");
    refused(size, &(-1i64).to_le_bytes(), "-1 symbols");
    refused(size, &i64::MAX.to_le_bytes(), "the input symbol table");
    refused(size, &3i64.to_le_bytes(), "expected the output symbol table");
    refused(size, &5i64.to_le_bytes(), "symbol table");
}

/// Offsets of the end of the FST in its file: a cut anywhere before has to be an error.
#[test]
fn every_cut_is_an_error() {
    let source = Rng(10).graph(12, 4);
    for (form, bytes) in files(&source) {
        for end in 0..bytes.len() {
            // Where the head does not tell the number of states, a cut behind a state cannot be seen;
            // what is read must be sound then.
            match read(&bytes[..end]) {
                Err(error) => assert!(matches!(error, Error::Format { .. } | Error::Graph(_)), "{form} {end}: {error}"),
                Ok(graph) if form == "vector, states -1" => assert_sound(&graph),
                Ok(_) => panic!("{form}: read when cut at {end} of {}", bytes.len()),
            }
        }
    }
}

#[test]
fn overwritten_bytes_never_make_an_unsound_graph() {
    let mut rng = Rng(11);
    let (mut read_well, mut refused) = (0, 0);
    for _ in 0..20 {
        let source = rng.graph(10, 4);
        for (form, bytes) in files(&source) {
            for _ in 0..60 {
                let mut bytes = bytes.clone();
                for _ in 0..=rng.below(3) {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] = if rng.below(2) == 0 { rng.next() as u8 } else { bytes[at] ^ 1 << rng.below(8) };
                }
                match read(&bytes) {
                    Ok(graph) => {
                        assert_sound(&graph);
                        read_well += 1;
                    }
                    Err(Error::Format { .. } | Error::Graph(_) | Error::Unsupported(_)) => refused += 1,
                    Err(other) => panic!("{form}: {other}"),
                }
            }
        }
    }
    // Most bytes are weights, labels, symbols and properties: many changes leave a graph.
    assert!(read_well > 1000 && refused > 1000, "{read_well} read, {refused} refused");
}

#[test]
fn columns_that_a_table_lacks() {
    let bytes = constant(&source(Some(0), vec![(0.0, vec![arc(1, 0, 0.0, 0), arc(3, 0, 0.0, 0)])]), &Form::default());
    let read = |table: Vec<i32>| Graph::from_memory(&bytes, Columns::Table(table));
    assert_eq!(read(vec![-1, 5, -1, 0]).unwrap().num_columns(), 6);
    for table in [vec![], vec![-1], vec![-1, 5, 5], vec![0, 0, 0, -1], vec![0, i32::MIN, 0, 0]] {
        let Err(Error::Graph(message)) = read(table.clone()) else { panic!("{table:?}") };
        assert!(message.contains("state 0, arc ") && message.contains("has no column"), "{message}");
    }
}
