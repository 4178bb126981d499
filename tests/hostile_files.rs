//! Every function of the C header that reads a file or bytes, with files cut short and with numbers that lie: a status
//! for what is broken, an object exactly where there is none, and never more memory than a constant times the bytes.
//!
//! A reader that the table does not know is a failure. `KOSHI_LONG=1` spoils every byte instead of every fifth.

mod common;
#[path = "support/noting.rs"]
mod noting;
#[path = "common/openfst.rs"]
mod openfst;

use std::ffi::{CString, c_char};
use std::path::Path;
use std::ptr;

use common::graph::{arc, source};
use koshi::ffi::*;
use koshi::graph::{Columns, Graph, VecSource};
use koshi::table::{Holder, Input, Output, TransitionsHolder};
use openfst::{Form, constant, vector};

/// Bytes that one byte of a file may take. The most that a byte stands for is an empty list in a list that has just
/// doubled; an arc of 16 bytes in a file is held as it was read and as it is searched.
const PER_BYTE: usize = 100;
/// What a reader takes whatever the size: buffers of input and of messages.
const AT_LEAST: usize = 200_000;

/// What a call answered: a status, and whether it made something.
type Answer = (koshi_status, bool);

/// A way to read: by the name of its function, from bytes, or from a file of them.
struct Reader {
    name: &'static str,
    samples: fn() -> Vec<Vec<u8>>,
    read: fn(&[u8], &Path) -> Answer,
}

/// Calls what makes an object, and frees object and error.
fn made<T>(
    call: impl FnOnce(*mut *mut T, *mut *mut koshi_error) -> koshi_status,
    free: unsafe extern "C" fn(*mut T) -> koshi_status,
) -> Answer {
    let (mut made, mut err) = (ptr::null_mut(), ptr::null_mut());
    let status = call(&mut made, &mut err);
    // SAFETY: both are null or were made just now.
    unsafe {
        assert_eq!(err.is_null(), status >= 0);
        assert!(koshi_error_free(err) == 0 && free(made) == 0);
    }
    (status, !made.is_null())
}

fn text(text: String) -> CString {
    CString::new(text).unwrap()
}

/// The bytes as a file.
fn file(bytes: &[u8], folder: &Path) -> CString {
    let path = folder.join("file");
    // A new one each time: to cut an old one to nothing waits for the disk.
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, bytes).unwrap();
    text(path.display().to_string())
}

/// From memory, with arguments behind the bytes.
macro_rules! memory {
    ($samples:ident, $read:ident, $free:ident $(, $more:expr)*) => {
        Reader {
            name: stringify!($read),
            samples: $samples,
            // SAFETY: bytes and places of this test.
            read: |bytes, _| made(|out, err| unsafe { $read(bytes.as_ptr(), bytes.len() $(, $more)*, out, err) }, $free),
        }
    };
}

/// From a file, with arguments behind the path.
macro_rules! path {
    ($samples:ident, $read:ident, $free:ident $(, $more:expr)*) => {
        Reader {
            name: stringify!($read),
            samples: $samples,
            read: |bytes, folder| {
                let path = file(bytes, folder);
                // SAFETY: texts and places of this test.
                made(|out, err| unsafe { $read(path.as_ptr() $(, $more)*, out, err) }, $free)
            },
        }
    };
}

/// An archive of the bytes, read to its end.
macro_rules! table {
    ($samples:ident, $open:ident, $free:ident, $next:ident, $free_value:ident $(, $more:expr)*) => {
        Reader {
            name: stringify!($open),
            samples: $samples,
            read: |bytes, folder| {
                let path = file(&[b"a ", bytes, b"b ", bytes].concat(), folder);
                let specifier = text(format!("ark:{}", path.to_str().unwrap()));
                let (mut table, mut key) = (ptr::null_mut(), ptr::null::<c_char>());
                // SAFETY: texts and places of this test; the table is used by this thread alone.
                unsafe {
                    assert_eq!($open(specifier.as_ptr() $(, $more)*, &mut table, ptr::null_mut()), 0);
                    let mut last = (0, true);
                    while last == (0, true) {
                        last = made(|out, err| $next(table, &mut key, out, err), $free_value);
                    }
                    assert_eq!($free(table), 0);
                    // The end of a table is no object.
                    (last.0, last.0 == 0)
                }
            },
        }
    };
}

/// An entry of a table that is looked up, behind another one.
macro_rules! find {
    ($samples:ident, $find:ident, $free_value:ident, $kind:ident) => {
        Reader {
            name: "koshi_egs_table_open",
            samples: $samples,
            read: |bytes, folder| {
                let path = file(&[b"a ", bytes, b"b ", bytes].concat(), folder);
                let specifier = text(format!("ark:{}", path.to_str().unwrap()));
                let (mut table, kind) = (ptr::null_mut(), koshi_egs_kind::$kind as i32);
                // SAFETY: as for a table that is read to its end.
                unsafe {
                    assert_eq!(koshi_egs_table_open(specifier.as_ptr(), kind, &mut table, ptr::null_mut()), 0);
                    let found = made(|out, err| $find(table, c"b".as_ptr(), out, err), $free_value);
                    assert_eq!(koshi_egs_table_free(table), 0);
                    (found.0, found.0 == 0)
                }
            },
        }
    };
}

fn readers() -> Vec<Reader> {
    const COLUMNS: [i32; 3] = [0, 0, 1];
    vec![
        memory!(models, koshi_transitions_from_memory, koshi_transitions_free),
        path!(models, koshi_transitions_read, koshi_transitions_free),
        memory!(symbols, koshi_symbols_from_memory, koshi_symbols_free),
        path!(symbols, koshi_symbols_read, koshi_symbols_free),
        memory!(graphs, koshi_graph_from_memory, koshi_graph_free, ptr::null()),
        memory!(graphs, koshi_graph_from_memory_mapped, koshi_graph_free, COLUMNS.as_ptr(), COLUMNS.len()),
        path!(graphs, koshi_graph_read, koshi_graph_free, ptr::null()),
        path!(graphs, koshi_graph_read_mapped, koshi_graph_free, COLUMNS.as_ptr(), COLUMNS.len()),
        path!(caches, koshi_graph_read, koshi_graph_free, ptr::null()),
        memory!(boundaries, koshi_word_boundary_from_memory, koshi_word_boundary_free),
        path!(boundaries, koshi_word_boundary_read, koshi_word_boundary_free),
        memory!(lexicons, koshi_align_lexicon_from_memory, koshi_align_lexicon_free),
        path!(lexicons, koshi_align_lexicon_read, koshi_align_lexicon_free),
        memory!(language_models, koshi_language_model_from_memory, koshi_language_model_free, ptr::null()),
        path!(language_models, koshi_language_model_read, koshi_language_model_free, ptr::null()),
        memory!(lattices, koshi_lattice_from_memory, koshi_lattice_free),
        memory!(examples, koshi_example_from_memory, koshi_example_free),
        memory!(degs, koshi_degs_from_memory, koshi_degs_free),
        memory!(supervisions, koshi_supervision_from_memory, koshi_supervision_free),
        path!(supervisions, koshi_supervision_read, koshi_supervision_free),
        memory!(acceptors, koshi_den_graph_from_memory, koshi_den_graph_free, 2),
        path!(acceptors, koshi_den_graph_read, koshi_den_graph_free, 2),
        table!(
            matrices,
            koshi_matrix_reader_open,
            koshi_matrix_reader_free,
            koshi_matrix_reader_next,
            koshi_matrix_free
        ),
        table!(
            lattices,
            koshi_lattice_reader_open,
            koshi_lattice_reader_free,
            koshi_lattice_reader_next,
            koshi_lattice_free
        ),
        table!(
            examples,
            koshi_egs_reader_open,
            koshi_egs_reader_free,
            koshi_egs_reader_next,
            koshi_example_free,
            koshi_egs_kind::KOSHI_EGS_NNET as i32
        ),
        table!(
            degs,
            koshi_egs_reader_open,
            koshi_egs_reader_free,
            koshi_egs_reader_next_degs,
            koshi_degs_free,
            koshi_egs_kind::KOSHI_EGS_DISCRIMINATIVE as i32
        ),
        find!(examples, koshi_egs_table_find, koshi_example_free, KOSHI_EGS_NNET),
        find!(degs, koshi_egs_table_find_degs, koshi_degs_free, KOSHI_EGS_DISCRIMINATIVE),
    ]
}

const MODEL: &str = "<TransitionModel>\n<Topology>\n<TopologyEntry>\n<ForPhones> 1 2 </ForPhones>\n\
    <State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State>\n<State> 1 </State>\n</TopologyEntry>\n\
    </Topology>\n<Triples> 2\n1 0 0\n2 0 1\n</Triples>\n<LogProbs>\n [ 0 -0.7 -0.7 -0.7 -0.7 ]\n</LogProbs>\n\
    </TransitionModel>\n";

fn models() -> Vec<Vec<u8>> {
    let model = TransitionsHolder::read(&mut Input::from_bytes("model", MODEL)).unwrap();
    let mut output = Output::memory();
    TransitionsHolder::write(&mut output, &model, true).unwrap();
    vec![MODEL.into(), output.into_bytes()]
}

fn symbols() -> Vec<Vec<u8>> {
    let string = |text: &str| [&(text.len() as i32).to_le_bytes(), text.as_bytes()].concat();
    let mut binary =
        [&2_125_658_996i32.to_le_bytes()[..], &string("words"), &2i64.to_le_bytes(), &2i64.to_le_bytes()].concat();
    for (id, name) in [(0i64, "<eps>"), (1, "one")] {
        binary.extend([&string(name)[..], &id.to_le_bytes()].concat());
    }
    vec![b"<eps> 0\none 1\ntwo 2\n".to_vec(), binary]
}

/// Three states, an epsilon arc among the arcs.
fn small() -> VecSource {
    source(
        Some(0),
        vec![
            (f32::INFINITY, vec![arc(1, 1, 0.5, 1), arc(0, 2, 0.25, 2)]),
            (0.5, vec![arc(2, 2, 0.0, 1)]),
            (0.0, vec![]),
        ],
    )
}

fn graphs() -> Vec<Vec<u8>> {
    let words: &[(&str, i64)] = &[("<eps>", 0), ("one", 1)];
    let named = Form { output_symbols: Some(("words", words)), ..Form::default() };
    vec![
        vector(&small(), &Form::default()),
        vector(&small(), &Form { open_ended: true, ..named }),
        constant(&small(), &named),
        constant(&small(), &Form { aligned: true, ..Form::default() }),
    ]
}

fn caches() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cache");
    Graph::from_source(&small(), Columns::Labels).unwrap().write_cache(path.to_str().unwrap()).unwrap();
    vec![std::fs::read(path).unwrap()]
}

fn boundaries() -> Vec<Vec<u8>> {
    vec![b"1 nonword\n2 begin\n3 end\n4 singleton\n5 internal\n".to_vec()]
}

fn lexicons() -> Vec<Vec<u8>> {
    vec![b"0 0 1\n10 20 2 3 4\n11 11 5\n".to_vec()]
}

fn language_models() -> Vec<Vec<u8>> {
    let arpa = "\\data\\\nngram 1=4\nngram 2=2\n\n\\1-grams:\n-1 <s> -0.5\n-1 </s>\n-0.75 1 -0.25\n-1.5 2\n\n\
        \\2-grams:\n-0.5 <s> 1\n-0.25 1 2\n\n\\end\\\n";
    let mut all = graphs();
    all.push(arpa.into());
    all
}

/// Bytes that the library writes of what it has read.
fn written<T>(
    text: &str,
    read: unsafe extern "C" fn(*const u8, usize, *mut *mut T, *mut *mut koshi_error) -> koshi_status,
    write: impl Fn(*mut T, *mut *mut koshi_buffer) -> koshi_status,
    free: unsafe extern "C" fn(*mut T) -> koshi_status,
) -> Vec<Vec<u8>> {
    let (mut value, mut buffer) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: texts and places of this test; the bytes are copied before their buffer is freed.
    unsafe {
        assert_eq!(read(text.as_ptr(), text.len(), &mut value, ptr::null_mut()), 0, "{text}");
        assert_eq!(write(value, &mut buffer), 0);
        let bytes = std::slice::from_raw_parts(koshi_buffer_data(buffer), koshi_buffer_size(buffer) as usize).to_vec();
        assert!(koshi_buffer_free(buffer) == 0 && free(value) == 0);
        vec![text.into(), bytes]
    }
}

fn lattices() -> Vec<Vec<u8>> {
    let raw = "\n0\t1\t5\t3\t0.5,1.5\n0\t1\t6\t4\t1,0\n1\t2\t7\t0\t0,2\n2\n\n";
    let compact = "\n0\t1\t3\t0.5,1.5,5_7\n0\t1\t4\t1,0,6\n1\t0,1,8_9\n\n";
    let both = [raw, compact].map(|text| {
        // SAFETY: the handle was made just now.
        let write = |value: *mut koshi_lattice, out: *mut *mut koshi_buffer| unsafe {
            koshi_lattice_to_memory(value, 0, out, ptr::null_mut())
        };
        written(text, koshi_lattice_from_memory, write, koshi_lattice_free)
    });
    both.concat()
}

const REST: &str = "<InputFrames> [ 1 2\n 3 4 \n 5 -6.5 ]\n<LeftContext> 0 <SpkInfo> [ 0.5 ]\n";

fn examples() -> Vec<Vec<u8>> {
    let kinds = ["<Lab1> [ 4 0 ]\n", "<Lab2> 2 2 1 0.5 7 0.5 0 ", "<Labels> 2 1 0.25 3 0.75 "].map(|labels| {
        let text = format!("<NnetExample> {labels}{REST}</NnetExample> ");
        // SAFETY: the handle was made just now.
        let write = |value: *mut koshi_example, out: *mut *mut koshi_buffer| unsafe {
            koshi_example_to_memory(value, 1, out, ptr::null_mut())
        };
        written(&text, koshi_example_from_memory, write, koshi_example_free)
    });
    kinds.concat()
}

fn degs() -> Vec<Vec<u8>> {
    let text = format!(
        "<DiscriminativeNnetExample> <Weight> 1 <NumAli> [ 4 5 9 ]\n\n0 1 3 1.5,-2.25,4_5\n0 1 0 0,1,4_7\n1 2 8 0.5,0.25,9\n2\n\n\
         {REST}</DiscriminativeNnetExample> "
    );
    // SAFETY: the handle was made just now.
    let write = |value: *mut koshi_degs, out: *mut *mut koshi_buffer| unsafe {
        koshi_degs_to_memory(value, 1, out, ptr::null_mut())
    };
    written(&text, koshi_degs_from_memory, write, koshi_degs_free)
}

fn supervisions() -> Vec<Vec<u8>> {
    let head = "<Supervision> <Weight> 1 <NumSequences> 2 <FramesPerSeq> 2 <LabelDim> 2";
    let fst = "0 1 1 1 0.5\n1 2 2 2\n2 3 1 1\n2 3 2 2 1\n3 4 2 2\n4 0.25\n\n";
    let loops =
        "<End2End> T <Fsts> \n0 0 1 1 0.5\n0 1 2 2\n1 1 2 2 0.25\n1 0.5\n\n\n0 0 1 1\n0 1 2 2\n1 0.5\n\n</Fsts>";
    let both =
        [format!("{head} <End2End> F \n{fst}</Supervision> "), format!("{head} {loops} </Supervision> ")].map(|text| {
            // SAFETY: the handle was made just now.
            let write = |value: *mut koshi_supervision, out: *mut *mut koshi_buffer| unsafe {
                koshi_supervision_to_memory(value, 1, out, ptr::null_mut())
            };
            written(&text, koshi_supervision_from_memory, write, koshi_supervision_free)
        });
    both.concat()
}

fn acceptors() -> Vec<Vec<u8>> {
    let den = source(
        Some(0),
        vec![(f32::INFINITY, vec![arc(1, 1, 0.5, 1), arc(2, 2, 1.0, 0)]), (0.0, vec![arc(2, 2, 0.25, 0)])],
    );
    vec![vector(&den, &Form::default()), constant(&den, &Form::default())]
}

fn matrices() -> Vec<Vec<u8>> {
    use koshi::table::{CompressedMatrix, CompressedMatrixHolder, Matrix, MatrixHolder, Method};
    let matrix = Matrix::from_data(9, 3, (0..27).map(|i| (i * i % 19) as f32 - 5.5).collect()).unwrap();
    let mut all = Vec::new();
    for binary in [false, true] {
        let mut output = Output::memory();
        MatrixHolder::write(&mut output, &matrix, binary).unwrap();
        all.push(output.into_bytes());
    }
    for method in [Method::SpeechFeature, Method::TwoByteAuto, Method::OneByteAuto] {
        let mut output = Output::memory();
        CompressedMatrixHolder::write(&mut output, &CompressedMatrix::from_matrix(&matrix, method).unwrap(), true)
            .unwrap();
        all.push(output.into_bytes());
    }
    all
}

/// Reads, and holds what was answered and taken to what is promised.
fn check(reader: &Reader, bytes: &[u8], folder: &Path) -> koshi_status {
    use koshi_status_code as status;
    let mut answer = (0, false);
    // Twice in a table.
    let most = 2 * PER_BYTE * bytes.len() + AT_LEAST;
    let before = noting::held();
    let peak = noting::peak_of(|| answer = (reader.read)(bytes, folder));
    let told = || format!("{}: {} bytes: {}", reader.name, bytes.len(), bytes.escape_ascii());
    assert!(peak <= most, "{peak} bytes of memory for {}", told());
    assert_eq!(answer.0 >= 0, answer.1, "{answer:?} for {}", told());
    let broken = [status::KOSHI_E_FORMAT, status::KOSHI_E_GRAPH, status::KOSHI_E_SHAPE, status::KOSHI_E_UNSUPPORTED];
    assert!(answer.0 >= 0 || broken.iter().any(|&code| code as i32 == answer.0), "{} for {}", answer.0, told());
    // Tables of handles, once they have grown, are kept.
    assert!(noting::held() - before < 20_000, "{} bytes are left of {}", noting::held() - before, told());
    answer.0
}

/// Numbers that would be counts, sizes or places, as they stand in binary files.
fn lies() -> Vec<Vec<u8>> {
    let mut lies: Vec<Vec<u8>> = Vec::new();
    lies.extend([-1i32, i32::MAX, i32::MIN, 0x7fff_0000, 65_536].map(|lie| lie.to_le_bytes().to_vec()));
    lies.extend([-1i64, i64::MAX, 1 << 40, 1 << 31].map(|lie| lie.to_le_bytes().to_vec()));
    lies
}

fn long() -> bool {
    std::env::var_os("KOSHI_LONG").is_some_and(|value| value == "1")
}

#[test]
fn every_reader_cut_and_lied_to() {
    let folder = tempfile::tempdir().unwrap();
    let (mut reads, mut refused) = (0, 0);
    let mut attempt = |reader: &Reader, bytes: &[u8]| {
        reads += 1;
        refused += usize::from(check(reader, bytes, folder.path()) < 0);
    };
    for (number, reader) in readers().iter().enumerate() {
        for sample in (reader.samples)() {
            assert!(
                check(reader, &sample, folder.path()) >= 0,
                "{} does not read {}",
                reader.name,
                sample.escape_ascii()
            );
            for length in 0..sample.len() {
                attempt(reader, &sample[..length]);
            }
            let step = if long() { 1 } else { 5 };
            // Text: each number becomes one that is too large.
            let is_text = sample.is_ascii() && !sample.contains(&0);
            let digits: Vec<usize> = (0..sample.len())
                .filter(|&at| is_text && sample[at].is_ascii_digit() && (at == 0 || !sample[at - 1].is_ascii_digit()))
                .collect();
            for at in digits {
                let end = at + sample[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
                for lie in ["2147483647", "4294967295", "99999999999999999999", "16777217", "-1", "1e38", "nan"] {
                    attempt(reader, &[&sample[..at], lie.as_bytes(), &sample[end..]].concat());
                }
            }
            for at in (number % step..sample.len()).step_by(step).filter(|_| !is_text) {
                for lie in lies() {
                    let mut bytes = sample.clone();
                    let end = (at + lie.len()).min(bytes.len());
                    bytes[at..end].copy_from_slice(&lie[..end - at]);
                    attempt(reader, &bytes);
                }
            }
        }
    }
    assert!(reads > 10_000 && refused > reads / 4, "{refused} of {reads} were refused");
}

#[test]
fn the_table_has_every_reader_of_the_header() {
    let header = std::fs::read_to_string(common::root().join("include/koshi.h")).unwrap();
    let names: std::collections::BTreeSet<&str> = header
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|name| name.starts_with("koshi_") && header.contains(&format!(" {name}(")))
        .filter(|name| {
            let ends = ["_read", "_read_mapped", "_from_memory", "_from_memory_mapped", "_reader_open", "_table_open"];
            ends.iter().any(|end| name.ends_with(end))
        })
        .collect();
    let listed: std::collections::BTreeSet<&str> = readers().iter().map(|reader| reader.name).collect();
    assert_eq!(names, listed);
}
