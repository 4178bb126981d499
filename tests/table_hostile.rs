//! Broken and lying files: every reader answers with an error or a value, and never asks for much more memory than the
//! file has bytes. The tests run each case in the thread that counts its memory.

#[path = "support/noting.rs"]
mod noting;
#[path = "support/shared.rs"]
mod shared;

use koshi::egs::{DiscriminativeNnetExampleHolder, NnetExampleHolder};
use koshi::error::{Error, Result};
use koshi::table::{
    BasicHolder, BasicVectorVectorHolder, CompressedMatrix, CompressedMatrixHolder, Holder, Input, Int32VectorHolder,
    Matrix, MatrixHolder, Method, Output, SequentialReader, SymbolTable, TokenHolder, TokenVectorHolder,
    TransitionsHolder, VectorHolder,
};

/// A file and a function that reads it to its end.
struct Sample {
    name: &'static str,
    bytes: Vec<u8>,
    read: fn(Input) -> Result<()>,
    /// In a binary file no cut is a whole file; in text it may be (`12` is cut to `1`).
    binary: bool,
}

fn one<H: Holder>(mut input: Input) -> Result<()> {
    H::read(&mut input).map(drop)
}

fn archive<H: Holder>(input: Input) -> Result<()> {
    let mut reader = SequentialReader::<H>::from_archive(input);
    while reader.next()?.is_some() {}
    reader.close()
}

fn sample<H: Holder>(name: &'static str, value: &H::Value, binary: bool) -> Sample {
    let mut output = Output::memory();
    H::write(&mut output, value, binary).unwrap();
    Sample { name, bytes: output.into_bytes(), read: one::<H>, binary }
}

const MODEL: &str = "<TransitionModel> \n<Topology> \n<TopologyEntry> \n<ForPhones> \n1 3 \n</ForPhones> \n\
    <State> 0 <ForwardPdfClass> 0 <SelfLoopPdfClass> 1 <Transition> 0 0.5 <Transition> 1 0.5 </State> \n\
    <State> 1 <ForwardPdfClass> 0 <SelfLoopPdfClass> 1 <Transition> 1 0.75 <Transition> 2 0.25 </State> \n\
    <State> 2 </State> \n</TopologyEntry> \n</Topology> \n<Tuples> 3 \n1 0 3 2 \n1 1 0 1 \n3 1 0 5 \n</Tuples> \n\
    <LogProbs> \n [ 0 -0.5 -0.25 -1 -2 -3 -4 ]\n</LogProbs> \n</TransitionModel> \n";

fn symbols_binary() -> Vec<u8> {
    let string = |text: &str| [&(text.len() as i32).to_le_bytes(), text.as_bytes()].concat();
    let mut bytes =
        [&2125658996i32.to_le_bytes()[..], &string("words"), &3i64.to_le_bytes(), &3i64.to_le_bytes()].concat();
    for (id, name) in ["<eps>", "one", "two"].into_iter().enumerate() {
        bytes.extend(string(name));
        bytes.extend((id as i64).to_le_bytes());
    }
    bytes
}

fn samples() -> Vec<Sample> {
    let matrix = Matrix::from_data(9, 3, (0..27).map(|i| (i * i % 19) as f32 - 5.5).collect()).unwrap();
    let wide = Matrix::from_data(2, 2, vec![0.1f64, -2.0, 3e200, 4.0]).unwrap();
    let model = TransitionsHolder::read(&mut Input::from_bytes("model", MODEL)).unwrap();
    let words = vec!["a".to_string(), "bc".to_string()];
    let mut all = Vec::new();
    for binary in [true, false] {
        all.push(sample::<MatrixHolder>("matrix", &matrix, binary));
        all.push(sample::<MatrixHolder<f64>>("double matrix", &wide, binary));
        all.push(sample::<VectorHolder>("vector", &vec![1.5, -2.25, 1e-40], binary));
        all.push(sample::<VectorHolder<f64>>("double vector", &vec![0.1, 1e300], binary));
        for method in [Method::SpeechFeature, Method::TwoByteAuto, Method::OneByteAuto] {
            let compressed = CompressedMatrix::from_matrix(&matrix, method).unwrap();
            all.push(sample::<CompressedMatrixHolder>("compressed matrix", &compressed, binary));
        }
        all.push(sample::<BasicHolder<i32>>("int32", &-77, binary));
        all.push(sample::<BasicHolder<f32>>("float", &-7.25, binary));
        all.push(sample::<BasicHolder<f64>>("double", &-7.25, binary));
        all.push(sample::<BasicHolder<bool>>("bool", &true, binary));
        all.push(sample::<Int32VectorHolder>("int32 list", &vec![1, -20, 300], binary));
        all.push(sample::<BasicVectorVectorHolder<i32>>("list of lists", &vec![vec![1, 2], vec![], vec![3]], binary));
        all.push(sample::<TransitionsHolder>("transition model", &model, binary));
    }
    all.extend(examples());
    all.push(sample::<TokenHolder>("word", &words[1], false));
    all.push(sample::<TokenVectorHolder>("words", &words, false));
    let symbols = |mut input: Input| SymbolTable::read(&mut input).map(drop);
    all.push(Sample { name: "symbols", bytes: b"<eps> 0\none 1\ntwo 2\n".to_vec(), read: symbols, binary: false });
    // By itself, since no bytes at all are an empty table in text.
    let symbols = |mut input: Input| SymbolTable::read_binary(&mut input).map(drop);
    all.push(Sample { name: "binary symbols", bytes: symbols_binary(), read: symbols, binary: true });
    let matrices: Vec<u8> = [true, false, true]
        .map(|binary| [b"key ".to_vec(), sample::<MatrixHolder>("", &matrix, binary).bytes].concat())
        .concat();
    all.push(Sample { name: "archive", bytes: matrices, read: archive::<MatrixHolder>, binary: false });
    all
}

/// Training examples: each kind of labels, each kind of frames, a lattice, and tables of them.
fn examples() -> Vec<Sample> {
    const FRAMES: &str = "<InputFrames> [ 1 2\n 3 4 \n 5 -6.5 ] <LeftContext> 1 <SpkInfo> [ 0.5 ]\n</NnetExample> ";
    const LATTICE: &str = "\n0 1 3 1.5,-2.25,4_5\n0 1 0 0,1,4_7\n1 2 8 0.5,0.25,9\n2\n\n";
    let text = |labels: &str| format!("<NnetExample> {labels}{FRAMES}");
    let discriminative = format!(
        "<DiscriminativeNnetExample> <Weight> 1 <NumAli> [ 4 5 9 ]\n{LATTICE}<InputFrames> [ 1 2\n 3 4\n 5 6\n ]\n\
         <LeftContext> 0 <SpkInfo> [ ]\n</DiscriminativeNnetExample> "
    );
    let mut all = Vec::new();
    for labels in ["<Lab1> [ 4 0 ]\n", "<Lab2> 2 2 1 0.5 7 0.5 0 ", "<Labels> 2 1 0.25 3 0.75 "] {
        let text = text(labels);
        let value = NnetExampleHolder::read(&mut Input::from_bytes("text", text.as_bytes())).unwrap();
        all.push(sample::<NnetExampleHolder>("example", &value, true));
        all.push(sample::<NnetExampleHolder>("example", &value, false));
        all.push(Sample { name: "example", bytes: text.into_bytes(), read: one::<NnetExampleHolder>, binary: false });
    }
    let value =
        DiscriminativeNnetExampleHolder::read(&mut Input::from_bytes("text", discriminative.as_bytes())).unwrap();
    let binary = sample::<DiscriminativeNnetExampleHolder>("discriminative example", &value, true);
    let table = [b"a ".to_vec(), binary.bytes.clone(), b"b ".to_vec(), binary.bytes.clone()].concat();
    all.push(binary);
    all.push(sample::<DiscriminativeNnetExampleHolder>("discriminative example", &value, false));
    all.push(Sample {
        name: "table of examples",
        bytes: table,
        read: archive::<DiscriminativeNnetExampleHolder>,
        binary: false,
    });
    all
}

/// Reads the bytes; they may be refused for what they are, and in no other way.
fn check(sample: &Sample, bytes: &[u8]) -> Result<()> {
    let input = Input::from_bytes("hostile", bytes);
    let mut result = Ok(());
    let peak = noting::peak_of(|| result = (sample.read)(input));
    // The most that a byte of any format stands for is an empty list, in a list that has doubled just now.
    let most = 100 * bytes.len() + 20_000;
    assert!(peak <= most, "{}: {} bytes took {peak}: {}", sample.name, bytes.len(), bytes.escape_ascii());
    if let Err(error) = &result {
        let named = error.chain().contains("hostile: byte ");
        assert!(matches!(error.root(), Error::Format { .. }) && named, "{}: {}", sample.name, error.chain());
        let Error::Format { offset, .. } = error.root() else { unreachable!() };
        assert!(*offset <= bytes.len() as u64, "{}: {}", sample.name, error.chain());
    }
    result
}

#[test]
fn whole_files_are_read() {
    for sample in samples() {
        check(&sample, &sample.bytes).unwrap();
    }
}

#[test]
fn case_b39_files_cut_at_every_byte() {
    for sample in samples() {
        for length in 0..sample.bytes.len() {
            let result = check(&sample, &sample.bytes[..length]);
            assert!(!sample.binary || result.is_err(), "{} cut at {length}", sample.name);
        }
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit.max(1)
    }
}

/// One to four changes: bytes and numbers overwritten, parts taken out, put in twice or cut off.
fn spoil(bytes: &mut Vec<u8>, random: &mut Random) {
    const NUMBERS: [i32; 8] = [-1, 0, 1, i32::MIN, i32::MAX, 0x0100_0000, 0x00ff_ffff, 65_536];
    const LETTERS: &[u8] = b"\0\n\r\t []<>;-+.0129eEinfBCFDMTV\x04\x08\xfc\x80\xff";
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => {
                let end = (at + random.below(9)).min(bytes.len());
                bytes.drain(at..end);
            }
            2 => {
                let part = bytes[at..(at + random.below(30)).min(bytes.len())].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            3 => {
                let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                for (place, byte) in bytes.iter_mut().skip(at).zip(number) {
                    *place = byte;
                }
            }
            4 | 5 if at < bytes.len() => bytes[at] = LETTERS[random.below(LETTERS.len())],
            _ if at < bytes.len() => bytes[at] = random.next() as u8,
            _ => {}
        }
    }
}

#[test]
fn files_with_random_changes() {
    let mut random = Random(1);
    let mut refused = 0;
    for sample in samples() {
        for _ in 0..5_000 {
            let mut bytes = sample.bytes.clone();
            spoil(&mut bytes, &mut random);
            refused += usize::from(check(&sample, &bytes).is_err());
        }
    }
    assert!(refused > 50_000, "only {refused} files were found to be broken");
}

/// The real model, cut and changed; every fifth byte, to end in seconds.
#[test]
fn a_real_model_cut_and_changed() {
    let Some(path) = shared::shared("realdata/prompts/trans.mdl") else { return };
    let bytes = std::fs::read(path).unwrap();
    let sample = Sample { name: "trans.mdl", bytes, read: one::<TransitionsHolder>, binary: true };
    check(&sample, &sample.bytes).unwrap();
    for length in (0..sample.bytes.len()).step_by(5) {
        assert!(check(&sample, &sample.bytes[..length]).is_err(), "cut at {length}");
    }
    let mut random = Random(2);
    for _ in 0..2_000 {
        let mut bytes = sample.bytes.clone();
        spoil(&mut bytes, &mut random);
        let _ = check(&sample, &bytes);
    }
}
