//! FSTs in archives, behind offsets and in pipes.

mod common;
#[path = "common/openfst.rs"]
mod openfst;

use common::graph::{Rng, arc, assert_same, source};
use koshi::Error;
use koshi::graph::{Columns, FstBytes, FstHolder, Graph, VecSource};
use koshi::table::{Holder, Input, Output, SequentialReader};
use openfst::{Form, constant, vector};

const INF: f32 = f32::INFINITY;
const SYMBOLS: openfst::Symbols = ("words", &[("<eps>", 0), ("one", 1)]);

fn write(source: &VecSource, binary: bool) -> Vec<u8> {
    let mut output = Output::memory();
    source.write(&mut output, binary).unwrap();
    output.into_bytes()
}

#[test]
fn an_archive_of_every_form() {
    let mut rng = Rng(21);
    let symbols = Form { input_symbols: Some(SYMBOLS), output_symbols: Some(SYMBOLS), ..Form::default() };
    let (mut archive, mut expected) = (Vec::new(), Vec::new());
    for round in 0..30 {
        let source = rng.graph(1 + round, 5);
        archive.extend(format!("utt{round} ").as_bytes());
        match round % 5 {
            0 => archive.extend(vector(&source, &Form::default())),
            1 => archive.extend(vector(&source, &symbols)),
            2 => archive.extend(constant(&source, &Form::default())),
            3 => archive.extend(constant(&source, &symbols)),
            _ => archive.extend(write(&source, true)),
        }
        expected.push(source);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graphs.ark");
    std::fs::write(&path, &archive).unwrap();
    let mut reader = SequentialReader::<FstHolder>::open(&format!("ark:{}", path.display())).unwrap();
    for (round, expected) in expected.iter().enumerate() {
        let (key, fst) = reader.next().unwrap().unwrap();
        assert_eq!(key, format!("utt{round}"));
        assert_eq!(fst.to_source().unwrap(), *expected);
        assert_same(&fst.graph(Columns::Labels).unwrap(), expected, &Columns::Labels);
    }
    assert!(reader.next().unwrap().is_none());
}

#[test]
fn a_text_archive() {
    // As Kaldi writes it, with Windows line ends once, and without the last empty line.
    let text = b"one \n0\t1\t1\t1\n1\n\ntwo  \r\n3 0 0 7 1.5\r\n0 2.5\r\n\r\nthree \n0 0 1 0";
    let mut input = Input::from_bytes("text", &text[..]);
    let mut next = |key: &str| {
        for letter in key.bytes() {
            assert_eq!(input.read_byte().unwrap(), letter);
        }
        FstHolder::read(&mut input).unwrap()
    };
    let one = next("one ");
    assert_eq!(one.to_source().unwrap(), source(Some(0), vec![(INF, vec![arc(1, 1, 0.0, 1)]), (0.0, vec![])]));
    let two = next("two ").to_source().unwrap();
    let none = (INF, vec![]);
    assert_eq!(two, source(Some(3), vec![(2.5, vec![]), none.clone(), none, (INF, vec![arc(0, 7, 1.5, 0)])]));
    let three = next("three ");
    assert_eq!(three.graph(Columns::Labels).unwrap().num_arcs(), 1);
    assert!(input.at_end().unwrap());
}

#[test]
fn what_is_written_comes_back() {
    let mut rng = Rng(22);
    for round in 0..40 {
        let mut source = rng.graph(1 + round, 5);
        source.states.push((0.0, vec![])); // a last state that nothing leads to would be lost in text otherwise
        source.states[0].1.push(arc(3, 0, INF, 0));
        for binary in [true, false] {
            let bytes = write(&source, binary);
            let mut input = Input::from_bytes("memory", [&bytes[..], b"next"].concat());
            let fst = FstHolder::read(&mut input).unwrap();
            assert_eq!(fst.to_source().unwrap(), source);
            assert_eq!(input.read_array::<4>().unwrap(), *b"next");
            let mut output = Output::memory();
            FstHolder::write(&mut output, &fst, binary).unwrap();
            assert_eq!(output.into_bytes(), bytes);
        }
    }
}

#[test]
fn offsets_and_pipes() {
    let source = Rng(23).graph(50, 5);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graphs.ark");
    for form in
        [Form::default(), Form { aligned: true, ..Form::default() }, Form { version_1: true, ..Form::default() }]
    {
        // The padding of an aligned FST follows from its offset in the file, so it is made for that.
        for offset in [0, 4, 5, 16] {
            let bytes = [vec![b'x'; offset], openfst::constant_at(&source, &form, offset), b"after".to_vec()].concat();
            std::fs::write(&path, bytes).unwrap();
            let name = format!("{}:{offset}", path.display());
            assert_same(&Graph::open(&name, Columns::Labels).unwrap(), &source, &Columns::Labels);
        }
    }
    std::fs::write(&path, vector(&source, &Form { open_ended: true, ..Form::default() })).unwrap();
    let name = path.display().to_string();
    assert_same(&Graph::open(&name, Columns::Labels).unwrap(), &source, &Columns::Labels);
    koshi::table::set_allow_commands(true);
    assert_same(&Graph::open(&format!("cat {name} |"), Columns::Labels).unwrap(), &source, &Columns::Labels);
    assert!(matches!(Graph::open("exit 1 |", Columns::Labels).unwrap_err().root(), Error::Format { .. }));
}

#[test]
fn cuts_and_faults_name_the_place() {
    let source = Rng(24).graph(12, 4);
    let aligned = Form { aligned: true, output_symbols: Some(SYMBOLS), ..Form::default() };
    for bytes in [vector(&source, &Form::default()), constant(&source, &aligned)] {
        for end in 0..bytes.len() {
            let error = FstBytes::read(&mut Input::from_bytes("cut", &bytes[..end])).unwrap_err();
            assert!(matches!(error, Error::Format { offset, .. } if offset <= end as u64), "{error}");
        }
    }
    // A head that lies, in a stream: what is not there is not waited for in memory.
    let mut lying = constant(&source, &Form::default());
    lying[57..65].copy_from_slice(&u64::from(u32::MAX).to_le_bytes());
    let error = FstBytes::read(&mut Input::from_bytes("lie", lying)).unwrap_err();
    assert!(error.to_string().contains("4294967295 arcs: the data ends"), "{error}");
    // Faults in the graph name the input; faults in a text its offset.
    let read = |bytes: &[u8]| FstBytes::read(&mut Input::from_bytes("place", bytes));
    let error = read(b"\n0 0 0 0\n").unwrap().graph(Columns::Labels).unwrap_err();
    assert!(matches!(error.root(), Error::Graph(_)) && error.chain().starts_with("place: epsilon cycle"), "{error}");
    let error = read(b"\n0 0 1 1\n0 x\n").unwrap().graph(Columns::Labels).unwrap_err();
    assert!(matches!(error, Error::Format { offset: 9, .. }) && error.to_string().contains("line 2"), "{error}");
    assert!(matches!(read(b" 0 0 1 1\n").unwrap_err(), Error::Format { .. }));
    assert!(matches!(read(b"\n").unwrap().graph(Columns::Labels).unwrap_err().root(), Error::Graph(_)));
}
