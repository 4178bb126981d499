//! Kaldi's lattice files: by hand, on real data, and broken in every way.

#[path = "support/shared.rs"]
mod shared;

use koshi::error::Error;
use koshi::lattice::{
    CompactLattice, CompactLatticeHolder, Lattice, LatticeArc, LatticeHolder, LatticeWeight, Parts, RawLattice,
    RawLatticeHolder,
};
use koshi::table::{Holder, Input, Output, SequentialReader, TableWriter, read_file};

const RAW: &str = "\n0\t1\t4\t7\t1.5,2.25\n0\t2\t0\t0\t0,-0.125\n1\t2\t3\t0\n2\t0.25,0\n\n";
const COMPACT: &str = "\n0\t1\t7\t1.5,2.25,4_5\n0\t2\t0\t0.5,1,\n1\t2\t8\n2\t0.25,0,6\n\n";

fn arc(next: u32, ilabel: i32, olabel: i32, graph: f32, acoustic: f32) -> LatticeArc {
    LatticeArc { next, ilabel, olabel, weight: LatticeWeight { graph, acoustic } }
}

fn raw(bytes: &[u8]) -> RawLattice {
    match Lattice::from_bytes(bytes).unwrap() {
        Lattice::Raw(lattice) => lattice,
        Lattice::Compact(_) => panic!("compact"),
    }
}

fn compact(bytes: &[u8]) -> CompactLattice {
    match Lattice::from_bytes(bytes).unwrap() {
        Lattice::Compact(lattice) => lattice,
        Lattice::Raw(_) => panic!("raw"),
    }
}

/// A vector FST byte by byte, to test the reader against something it did not write.
struct Fst(Vec<u8>);

impl Fst {
    fn new(arc_type: &str, flags: i32, start: i64, states: i64) -> Fst {
        let mut fst = Fst(vec![0xd6, 0xfd, 0xb2, 0x7e]);
        fst.name("vector").name(arc_type).int(2).int(flags);
        fst.0.extend(3u64.to_le_bytes());
        fst.long(start).long(states).long(0);
        fst
    }

    fn int(&mut self, value: i32) -> &mut Fst {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn long(&mut self, value: i64) -> &mut Fst {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn name(&mut self, name: &str) -> &mut Fst {
        self.int(name.len() as i32);
        self.0.extend(name.bytes());
        self
    }

    fn floats(&mut self, values: &[f32]) -> &mut Fst {
        values.iter().for_each(|value| self.0.extend(value.to_le_bytes()));
        self
    }

    fn doubles(&mut self, values: &[f64]) -> &mut Fst {
        values.iter().for_each(|value| self.0.extend(value.to_le_bytes()));
        self
    }
}

#[test]
fn raw_text_is_read_and_written() {
    let lattice = raw(RAW.as_bytes());
    assert_eq!(lattice.arcs, [arc(1, 4, 7, 1.5, 2.25), arc(2, 0, 0, 0.0, -0.125), arc(2, 3, 0, 0.0, 0.0)]);
    assert_eq!(lattice.offsets, [0, 2, 3, 3]);
    assert_eq!(lattice.finals[2], LatticeWeight { graph: 0.25, acoustic: 0.0 });
    assert_eq!(String::from_utf8(Lattice::Raw(lattice).to_bytes(false).unwrap()).unwrap(), RAW);
}

#[test]
fn compact_text_is_read_and_written() {
    let lattice = compact(COMPACT.as_bytes());
    assert_eq!(lattice.arcs, [arc(1, 7, 7, 1.5, 2.25), arc(2, 0, 0, 0.5, 1.0), arc(2, 8, 8, 0.0, 0.0)]);
    let strings = [lattice.arc_string(0), lattice.arc_string(1), lattice.arc_string(2), lattice.final_string(2)];
    assert_eq!(strings, [&[4, 5][..], &[], &[], &[6]]);
    assert_eq!(String::from_utf8(Lattice::Compact(lattice).to_bytes(false).unwrap()).unwrap(), COMPACT);
}

#[test]
fn case_b35_weights_may_be_left_out() {
    let lattice = raw(b"0 1 1 1\n1\n");
    assert_eq!(lattice.arcs, [arc(1, 1, 1, 0.0, 0.0)]);
    assert_eq!(lattice.finals, [LatticeWeight::ZERO, LatticeWeight::ONE]);
    let lattice = compact(b"0 1 1\n1\n");
    assert_eq!(lattice.arcs, [arc(1, 1, 1, 0.0, 0.0)]);
    assert_eq!(lattice.finals, [LatticeWeight::ZERO, LatticeWeight::ONE]);
    assert_eq!(raw(b"0 1 1 1\n1").num_states(), 2);
}

#[test]
fn case_b22_unsorted_files_are_sorted() {
    // The first line's state is the start, as in files of Kaldi's determinizer.
    let lattice = raw(b"\n5\t3\t1\t2\t0.5,1\n2\t1,0\n3\t2\t4\t0\t0.25,2\n\n");
    assert_eq!(lattice.arcs, [arc(1, 1, 2, 0.5, 1.0), arc(2, 4, 0, 0.25, 2.0)]);
    let text = Lattice::Raw(lattice).to_bytes(false).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), "\n0\t1\t1\t2\t0.5,1\n1\t2\t4\t0\t0.25,2\n2\t1,0\n\n");
    let error = Lattice::from_bytes(b"0 1 1 1\n1 2 1 1\n2 1 1 1\n2\n").unwrap_err();
    assert!(matches!(&error, Error::Format { offset: 0, .. }), "{error}");
    assert!(error.to_string().contains("cycle through the states"), "{error}");
    let states: &str = &error.to_string()[error.to_string().find("states").unwrap()..];
    assert!(states.contains('1') && states.contains('2') && !states.contains('0'), "{states}");
}

#[test]
fn line_ends_of_windows_and_spaces_are_accepted() {
    assert_eq!(raw(b" \r\n0 1 4 7 1.5,2.25\r\n1 0.5,0\r\n\r\n").num_arcs(), 1);
}

#[test]
fn empty_lattices_are_read_and_written() {
    assert!(raw(b"\n\n").is_empty());
    assert_eq!(Lattice::Raw(RawLattice::default()).to_bytes(false).unwrap(), b"\n\n");
    for lattice in [Lattice::Raw(RawLattice::default()), Lattice::Compact(CompactLattice::default())] {
        let bytes = lattice.to_bytes(true).unwrap();
        assert_eq!(Lattice::from_bytes(&bytes).unwrap(), lattice);
    }
}

#[test]
fn binary_raw_has_openfst_bytes() {
    let mut fst = Fst::new("lattice4", 0, 0, 3);
    // Expanded, mutable, acyclic (also from the start), sorted, accessible, coaccessible.
    let properties = 0x1 | 0x2 | 0x8_0000_0000u64 | 0x20_0000_0000 | 0x40_0000_0000 | 0x100_0000_0000 | 0x400_0000_0000;
    fst.0[34..42].copy_from_slice(&properties.to_le_bytes());
    let infinity = f32::INFINITY;
    fst.floats(&[infinity, infinity]).long(2);
    fst.int(4).int(7).floats(&[1.5, 2.25]).int(1).int(0).int(0).floats(&[0.0, -0.125]).int(2);
    fst.floats(&[infinity, infinity]).long(1).int(3).int(0).floats(&[0.0, 0.0]).int(2);
    fst.floats(&[0.25, 0.0]).long(0);
    let lattice = raw(RAW.as_bytes());
    assert_eq!(raw(&fst.0), lattice);
    assert_eq!(Lattice::Raw(lattice).to_bytes(true).unwrap(), fst.0);
}

#[test]
fn binary_compact_has_openfst_bytes() {
    let mut fst = Fst::new("compactlattice44", 0, 0, 3);
    let properties = 0x1_0003 | 0x8_0000_0000u64 | 0x20_0000_0000 | 0x40_0000_0000 | 0x100_0000_0000 | 0x400_0000_0000;
    fst.0[42..50].copy_from_slice(&properties.to_le_bytes());
    let infinity = f32::INFINITY;
    fst.floats(&[infinity, infinity]).int(0).long(2);
    fst.int(7).int(7).floats(&[1.5, 2.25]).int(2).int(4).int(5).int(1);
    fst.int(0).int(0).floats(&[0.5, 1.0]).int(0).int(2);
    fst.floats(&[infinity, infinity]).int(0).long(1).int(8).int(8).floats(&[0.0, 0.0]).int(0).int(2);
    fst.floats(&[0.25, 0.0]).int(1).int(6).long(0);
    let lattice = compact(COMPACT.as_bytes());
    assert_eq!(compact(&fst.0), lattice);
    assert_eq!(Lattice::Compact(lattice).to_bytes(true).unwrap(), fst.0);
}

#[test]
fn binary64_costs_and_unknown_counts_are_read() {
    let infinity = f64::INFINITY;
    let mut fst = Fst::new("lattice8", 0, 0, -1);
    fst.doubles(&[infinity, infinity]).long(1).int(4).int(7).doubles(&[1.5, 2.25]).int(1);
    fst.doubles(&[0.25, 0.0]).long(0);
    assert_eq!(raw(&fst.0).arcs, [arc(1, 4, 7, 1.5, 2.25)]);
    let mut fst = Fst::new("compactlattice84", 4, 0, 2);
    fst.doubles(&[infinity, infinity]).int(0).long(1).int(7).int(7).doubles(&[1.5, 2.25]).int(1).int(4).int(1);
    fst.doubles(&[0.25, 0.0]).int(0).long(0);
    assert_eq!(compact(&fst.0).arc_string(0), [4]);
    let mut fst = Fst::new("lattice8", 0, 0, 1);
    fst.doubles(&[1e39, 0.0]).long(0);
    assert!(Lattice::from_bytes(&fst.0).unwrap_err().to_string().contains("binary32"));
}

#[test]
fn embedded_symbols_are_passed_over() {
    let mut fst = Fst::new("lattice4", 3, 0, 1);
    for _ in 0..2 {
        fst.int(2_125_658_996).name("words").long(2).long(2).name("<eps>").long(0).name("one").long(1);
    }
    fst.floats(&[0.5, 0.0]).long(0);
    assert_eq!(raw(&fst.0).finals, [LatticeWeight { graph: 0.5, acoustic: 0.0 }]);
}

#[test]
fn negative_zero_is_never_written() {
    let mut fst = Fst::new("lattice4", 0, 0, 2);
    fst.floats(&[f32::INFINITY, f32::INFINITY]).long(1).int(4).int(7).floats(&[1.0, -0.0]).int(1);
    fst.floats(&[-0.0, 1.0]).long(0);
    let mut made = raw(&fst.0);
    made.arcs[0].weight.acoustic = -0.0;
    let lattice = Lattice::Raw(made);
    assert_eq!(lattice.to_bytes(false).unwrap(), b"\n0\t1\t4\t7\t1,0\n1\t0,1\n\n");
    let parts = Parts::read(&mut Input::from_bytes("memory", lattice.to_bytes(true).unwrap())).unwrap();
    let costs =
        parts.arcs.iter().map(|arc| arc.weight).chain(parts.finals).flat_map(|weight| [weight.graph, weight.acoustic]);
    assert!(costs.into_iter().all(f32::is_sign_positive));
}

#[test]
fn costs_have_six_digits() {
    let costs = [0.1f32, 123456.7, 1234567.0, 1e-5, -3.0e20, 100000.0];
    let shown = ["0.1", "123457", "1.23457e+06", "1e-05", "-3e+20", "100000"];
    for (cost, shown) in costs.into_iter().zip(shown) {
        let mut lattice = raw(b"0 1 1 1\n1\n");
        lattice.arcs[0].weight.graph = cost;
        let text = String::from_utf8(Lattice::Raw(lattice).to_bytes(false).unwrap()).unwrap();
        assert_eq!(text, format!("\n0\t1\t1\t1\t{shown},0\n1\n\n"));
    }
}

#[test]
fn absent_arcs_are_dropped_and_bad_costs_refused() {
    let lattice = raw(b"0 1 1 1 Infinity,Infinity\n0 1 2 2 1,1\n0 Infinity,0\n1\n");
    assert_eq!(lattice.arcs, [arc(1, 2, 2, 1.0, 1.0)]);
    for bad in ["BadNumber,0", "nan,0", "-Infinity,0", "0,-inf", "1e39,0", "1", "1,2,3,4", "1,x", ",", "1,"] {
        let text = format!("0 1 1 1 {bad}\n1\n");
        let error = Lattice::from_bytes(text.as_bytes()).unwrap_err();
        assert!(matches!(error, Error::Format { .. }), "{bad}: {error}");
    }
}

#[test]
fn faults_of_the_text_name_their_byte() {
    for (text, offset, word) in [
        ("0 1 1 1\n1 2 3\n", 8, "other form"),
        ("0 1 1 1\n1 0,0,\n", 8, "other form"),
        ("0 1 1\n1 0 0 0\n", 6, "other form"),
        ("0 1 1 1 0,0 9\n", 0, "6 fields"),
        ("0 x 1 1\n", 0, "state number"),
        ("0 -1 1 1\n", 0, "state number"),
        ("0 2147483648 1 1\n", 0, "state number"),
        ("0 1 -1 1\n", 0, "label"),
        ("0 1 1 2147483648\n", 0, "label"),
        ("0 1 1 0,0,1__2\n", 0, "label"),
        ("0 1 1 0,0,_1\n", 0, "label"),
        ("  x\n", 2, "line end"),
        ("x\n", 0, "begins neither"),
        ("", 0, "should begin"),
    ] {
        match Lattice::from_bytes(text.as_bytes()).unwrap_err() {
            Error::Format { offset: found, message, .. } => {
                assert_eq!(found, offset, "{text:?}: {message}");
                assert!(message.contains(word), "{text:?}: {message}");
            }
            error => panic!("{text:?}: {error}"),
        }
    }
    assert!(Lattice::from_bytes(b"0 1 1 1\n1\n\nmore").unwrap_err().to_string().contains("follow"));
}

#[test]
fn faults_of_the_binary_form_are_named() {
    let check = |bytes: &[u8], word: &str| {
        let error = Lattice::from_bytes(bytes).unwrap_err();
        assert!(matches!(error, Error::Format { .. }) && error.to_string().contains(word), "{error}");
    };
    check(&[0xd6, 0, 0, 0], "magic");
    for (arc_type, word) in [("standard", "standard"), ("compactlattice48", "compactlattice48"), ("log", "log")] {
        check(&Fst::new(arc_type, 0, 0, 1).0, word);
    }
    let mut constant = Fst(vec![0xd6, 0xfd, 0xb2, 0x7e]);
    check(&constant.name("const").name("lattice4").0, "const");
    check(&Fst::new("lattice4", 8, 0, 1).0, "flags");
    check(&Fst::new("lattice4", 0, -2, 1).0, "start state -2");
    check(&Fst::new("lattice4", 0, 0, 1 << 31).0, "2147483648 states");
    check(Fst::new("lattice4", 0, 1, 1).floats(&[0.0, 0.0]).long(0).clone_bytes(), "start state 1");
    check(Fst::new("lattice4", 0, 0, 1).floats(&[0.0, 0.0]).long(-1).clone_bytes(), "-1 arcs");
    check(Fst::new("lattice4", 0, 0, 1).floats(&[f32::NAN, 0.0]).long(0).clone_bytes(), "NaN");
    let with_arc = |label: i32, next: i32| {
        let mut fst = Fst::new("lattice4", 0, 0, 1);
        fst.floats(&[0.0, 0.0]).long(1).int(label).int(0).floats(&[0.0, 0.0]).int(next);
        fst.0
    };
    check(&with_arc(1, 1), "state 1 of 1");
    check(&with_arc(1, -1), "state -1");
    check(&with_arc(-1, 0), "labels -1");
    let mut two_labels = Fst::new("compactlattice44", 0, 0, 2);
    two_labels.floats(&[0.0, 0.0]).int(0).long(1).int(1).int(2).floats(&[0.0, 0.0]).int(0).int(1);
    check(&two_labels.floats(&[0.0, 0.0]).int(0).long(0).0, "two labels");
    check(Fst::new("compactlattice44", 0, 0, 1).floats(&[0.0, 0.0]).int(-1).clone_bytes(), "-1 labels");
}

/// Declared sizes that nothing backs must not be believed: these would ask for gigabytes.
#[test]
fn case_b38_lying_counts_are_not_allocated() {
    let most = i32::MAX;
    let lies = [
        Fst::new("lattice4", 0, 0, i64::from(most)).0,
        Fst::new("lattice4", 0, 0, 1).floats(&[0.0, 0.0]).long(i64::from(most)).clone_bytes().to_vec(),
        Fst::new("compactlattice44", 0, 0, 1).floats(&[0.0, 0.0]).int(most).clone_bytes().to_vec(),
        Fst::new("lattice4", 1, 0, 1).int(2_125_658_996).int(most).clone_bytes().to_vec(),
        Fst::new("lattice4", 1, 0, 1).int(2_125_658_996).name("").long(0).long(i64::MAX).clone_bytes().to_vec(),
    ];
    for bytes in lies {
        assert!(matches!(Lattice::from_bytes(&bytes), Err(Error::Format { .. })));
    }
    // Far state numbers in text cost no more than near ones.
    assert_eq!(raw(b"0 2147483647 1 1\n2147483647\n").num_states(), 2);
}

impl Fst {
    fn clone_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Both forms in both encodings, of a size to break at every place.
fn small_files() -> Vec<Vec<u8>> {
    let lattices = [Lattice::Raw(raw(RAW.as_bytes())), Lattice::Compact(compact(COMPACT.as_bytes()))];
    let mut files: Vec<Vec<u8>> =
        lattices.iter().flat_map(|lattice| [true, false].map(|binary| lattice.to_bytes(binary).unwrap())).collect();
    let mut symbols = Fst::new("lattice8", 1, 0, 2);
    symbols.int(2_125_658_996).name("w").long(1).long(1).name("x").long(0);
    symbols.doubles(&[f64::INFINITY, f64::INFINITY]).long(1).int(4).int(7).doubles(&[1.5, 2.25]).int(1);
    symbols.doubles(&[0.25, 0.0]).long(0);
    files.push(symbols.0);
    files
}

/// Whatever the bytes are, the answer is a lattice that keeps its promises or an error.
fn read_any(bytes: &[u8]) -> bool {
    match Lattice::from_bytes(bytes) {
        Ok(lattice) => {
            lattice.validate().unwrap();
            for binary in [true, false] {
                let again = Lattice::from_bytes(&lattice.to_bytes(binary).unwrap()).unwrap();
                again.validate().unwrap();
                assert_eq!(again.num_states(), lattice.num_states());
            }
            let _ = lattice.best_path(1.0).unwrap();
            let _ = lattice.prune(1.0, 1.0).unwrap();
            // Sums of chains may be too large; nothing else may fail.
            if let Ok(compact) = lattice.clone().into_compact() {
                compact.validate().unwrap();
            }
            if lattice.num_frames() < 1 << 20 {
                lattice.into_raw().unwrap().validate().unwrap();
            }
            true
        }
        Err(error) => {
            assert!(matches!(error, Error::Format { .. }), "{error}");
            false
        }
    }
}

#[test]
fn case_b39_cut_anywhere_a_binary_file_is_an_error() {
    for file in small_files() {
        for cut in 0..file.len() {
            let read = read_any(&file[..cut]);
            // A text may end after any line; a binary file may not.
            assert!(!(read && file[0] == 0xd6), "cut at {cut} of {}", file.len());
        }
    }
}

#[test]
fn overwritten_bytes_never_break_the_reader() {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as usize % below
    };
    let files = small_files();
    let mut still_read = 0;
    for _ in 0..40_000 {
        let mut bytes = files[next(files.len())].clone();
        for _ in 0..1 + next(4) {
            let at = next(bytes.len());
            bytes[at] = match next(4) {
                0 => next(256) as u8,
                1 => b"0123456789\t\n ,_-.e"[next(18)],
                2 => bytes[next(bytes.len())],
                _ => [0, 1, 0x7f, 0x80, 0xff][next(5)],
            };
        }
        still_read += u32::from(read_any(&bytes));
    }
    assert!(
        still_read > 1000,
        "only {still_read} of the damaged files could be read: too much damage to test anything"
    );
}

/// Lattices as they stand in the file.
struct PartsHolder;

impl Holder for PartsHolder {
    type Value = Parts;

    fn read(input: &mut Input) -> koshi::Result<Parts> {
        Parts::read(input)
    }

    fn write(output: &mut Output, value: &Parts, binary: bool) -> koshi::Result<()> {
        value.write(output, binary)
    }
}

/// Every text archive of Kaldi's, written again from what was read.
#[test]
fn real_archives_come_back_byte_for_byte() {
    let mut arcs = 0;
    for (file, sorted) in [
        ("prompts/kaldi/typical.raw-lattice", true),
        ("prompts/kaldi/wide.raw-lattice", true),
        ("prompts/kaldi/typical.compact-lattice", false),
        ("prompts/kaldi/wide.compact-lattice", false),
        ("chain-ko/kaldi/b11u.raw-lattice", true),
        ("chain-ko/kaldi/b11u.compact-lattice", false),
        ("chain-ko/kaldi/b13u.compact-lattice", false),
    ] {
        let Some(path) = shared::shared(&format!("realdata/{file}.txt.gz")) else { return };
        let bytes = shared::read(&path);
        let (mut as_it_stands, mut as_sorted) = (Output::memory(), Output::memory());
        let mut reader = SequentialReader::<PartsHolder>::from_archive(Input::from_bytes(file, bytes.clone()));
        while let Some((key, parts)) = reader.next().unwrap() {
            arcs += parts.arcs.len();
            let lattice = match parts.strings {
                Some(_) => Lattice::Compact(CompactLattice::from_parts(parts.clone()).unwrap()),
                None => Lattice::Raw(RawLattice::from_parts(parts.clone()).unwrap()),
            };
            lattice.validate().unwrap();
            assert_eq!(lattice.times().len(), lattice.num_states(), "{file} {key}: times");
            assert_eq!((lattice.arcs().len(), lattice.num_states()), (parts.arcs.len(), parts.finals.len()));
            for output in [&mut as_it_stands, &mut as_sorted] {
                output.write_token(&key).unwrap();
            }
            parts.write(&mut as_it_stands, false).unwrap();
            lattice.write(&mut as_sorted, false).unwrap();
            let binary = lattice.to_bytes(true).unwrap();
            assert_eq!(Lattice::from_bytes(&binary).unwrap(), lattice);
        }
        assert!(as_it_stands.into_bytes() == bytes, "{file}: the parts differ");
        // Kaldi's determinized lattices are not sorted, ours are: only their order may differ.
        assert_eq!(as_sorted.into_bytes() == bytes, sorted, "{file}: the lattices");
    }
    eprintln!("{arcs} arcs read and written");
}

/// All entries of a table.
fn entries<H: Holder>(rspecifier: &str) -> Vec<(String, H::Value)> {
    let mut reader = SequentialReader::<H>::open(rspecifier).unwrap();
    let mut found = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        found.push(entry);
    }
    found
}

fn write_table<H: Holder>(wspecifier: &str, entries: &[(String, H::Value)]) {
    let mut writer = TableWriter::<H>::open(wspecifier).unwrap();
    for (key, value) in entries {
        writer.write(key, value).unwrap();
    }
    writer.close().unwrap();
}

#[test]
fn archives_hold_either_form_and_convert_on_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let mixed: Vec<(String, Lattice)> = vec![
        ("raw".to_string(), Lattice::Raw(raw(RAW.as_bytes()))),
        ("none".to_string(), Lattice::Raw(RawLattice::default())),
        ("compact".to_string(), Lattice::Compact(compact(COMPACT.as_bytes()))),
    ];
    let text = path("text.ark");
    write_table::<LatticeHolder>(&format!("ark,t:{text}"), &mixed);
    let expected = format!("raw {RAW}none \n\ncompact {COMPACT}");
    assert_eq!(std::fs::read_to_string(&text).unwrap(), expected);
    let (binary, script) = (path("binary.ark"), path("binary.scp"));
    write_table::<LatticeHolder>(&format!("ark,scp:{binary},{script}"), &mixed);
    let bytes = std::fs::read(&binary).unwrap();
    assert_eq!(bytes[..8], *b"raw \xd6\xfd\xb2\x7e");
    for table in [format!("ark:{text}"), format!("ark:{binary}"), format!("scp:{script}")] {
        assert_eq!(entries::<LatticeHolder>(&table), mixed, "{table}");
        for ((_, found), (_, written)) in entries::<RawLatticeHolder>(&table).iter().zip(&mixed) {
            assert_eq!(found, &written.clone().into_raw().unwrap());
        }
        for ((_, found), (_, written)) in entries::<CompactLatticeHolder>(&table).iter().zip(&mixed) {
            assert_eq!(found, &written.clone().into_compact().unwrap());
        }
    }
    // The script's last line names the place of the compact one: a file with an offset.
    let lines = std::fs::read_to_string(&script).unwrap();
    let place = lines.lines().last().unwrap().split_once(' ').unwrap().1;
    assert_eq!(read_file::<LatticeHolder>(place).unwrap(), mixed[2].1);
}

#[test]
fn a_fault_in_an_archive_names_the_entry_and_byte() {
    let archive = format!("first {RAW}second \n0 1 1 1\n1 0 1 1\n1\n\n");
    let second = archive.find("second").unwrap() as u64 + "second ".len() as u64;
    let mut reader = SequentialReader::<LatticeHolder>::from_archive(Input::from_bytes("memory", archive));
    assert!(reader.next().unwrap().is_some());
    let error = reader.next().unwrap_err();
    assert!(error.to_string().contains("second"), "{}", error.chain());
    assert!(matches!(error.root(), Error::Format { offset, .. } if *offset == second), "{}", error.chain());
}
