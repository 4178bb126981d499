//! Each allocation of 4 KiB or more fails once, in turn, in every call of the C header that makes, reads, writes or changes
//! something that grows with its input: the answer is KOSHI_E_NO_MEMORY, nothing is handed out or left, and the same
//! call then works. Searches and their lattices are in `no_memory.rs`, those on the GPU in `no_memory_cuda.rs`.

mod common;
#[path = "common/openfst.rs"]
mod openfst;
#[path = "support/refusing.rs"]
mod refusing;

use std::ffi::{CString, c_char, c_void};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::ptr;
use std::sync::{Mutex, MutexGuard};

use common::graph::{Rng, arc, source};
use koshi::ffi::*;
use koshi::graph::VecSource;
use openfst::{Form, constant, vector};

/// What is promised of (docs/security.md): smaller allocations may end the process.
const LEAST: usize = 4096;

fn exempt() -> bool {
    false
}

const NO_MEMORY: koshi_status = koshi_status_code::KOSHI_E_NO_MEMORY as koshi_status;

/// Calls `step` with its first, second, ... large allocation refused until none is. How many there were.
fn each_refused(what: &str, mut step: impl FnMut() -> koshi_status) -> usize {
    for at in 0.. {
        match refusing::refusing(Some(at), LEAST, &mut step) {
            (false, status) => {
                assert!(status >= 0, "{what} fails with all memory that it wants: {status}");
                return at;
            }
            // One that could do without.
            (true, status) if status >= 0 => {}
            (true, status) => assert_eq!(status, NO_MEMORY, "{what}, allocation {at}"),
        }
    }
    unreachable!()
}

/// The same for a call that makes an object, which is freed but for the last one; at least `least` allocations.
fn each_made<T>(
    what: &str,
    least: usize,
    call: impl Fn(*mut *mut T, *mut *mut koshi_error) -> koshi_status,
    free: unsafe extern "C" fn(*mut T) -> koshi_status,
) -> *mut T {
    let mut last = ptr::null_mut();
    let count = each_refused(what, || {
        let (mut made, mut err) = (ptr::null_mut(), ptr::null_mut());
        let status = call(&mut made, &mut err);
        assert_eq!((made.is_null(), err.is_null()), (status < 0, status >= 0), "{what}");
        // SAFETY: handles that were made, or null.
        unsafe { assert!(koshi_error_free(err) == 0 && free(last) == 0) };
        last = made;
        status
    });
    assert!(count >= least, "{what}: {count} allocations");
    last
}

/// As [`each_made`], freed at the end.
fn each<T>(
    what: &str,
    least: usize,
    call: impl Fn(*mut *mut T, *mut *mut koshi_error) -> koshi_status,
    free: unsafe extern "C" fn(*mut T) -> koshi_status,
) {
    let last = each_made(what, least, call, free);
    // SAFETY: the last one that was made.
    unsafe { assert_eq!(free(last), 0) };
}

/// Something from bytes.
macro_rules! read {
    ($least:expr, $bytes:expr, $read:ident, $free:ident $(, $more:expr)*) => {{
        let bytes: &[u8] = &$bytes;
        // SAFETY: bytes and places of this test.
        each_made(stringify!($read), $least, |out, err| unsafe { $read(bytes.as_ptr(), bytes.len() $(, $more)*, out, err) }, $free)
    }};
}

const COUNT: usize = 1_500;

/// A model of many phones, of one state each.
fn model() -> String {
    let mut text = String::from("<TransitionModel>\n<Topology>\n<TopologyEntry>\n<ForPhones> ");
    (1..=COUNT).for_each(|phone| write!(text, "{phone} ").unwrap());
    text += "</ForPhones>\n<State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State>\n<State> 1 </State>\n\
        </TopologyEntry>\n</Topology>\n";
    writeln!(text, "<Triples> {COUNT}").unwrap();
    (1..=COUNT).for_each(|phone| writeln!(text, "{phone} 0 {}", phone - 1).unwrap());
    text += "</Triples>\n<LogProbs>\n [ 0";
    (0..2 * COUNT).for_each(|_| text += " -0.7");
    text + " ]\n</LogProbs>\n</TransitionModel>\n"
}

fn symbols() -> String {
    (0..COUNT).map(|id| format!("w{id} {id}\n")).collect()
}

/// Words 1 to COUNT - 1 in a row, two ways for each, with the transition-ids of phones.
fn lattice() -> String {
    let mut text = String::from("\n");
    for word in 1..400 {
        writeln!(text, "{}\t{word}\t{word}\t0.5,1,{}_{}", word - 1, 2 * word, 2 * word - 1).unwrap();
        writeln!(text, "{}\t{word}\t{}\t1.5,1,{}_{}", word - 1, word + 1, 2 * word + 2, 2 * word + 1).unwrap();
    }
    text + "399\t0,0,\n\n"
}

fn raw_lattice() -> String {
    let mut text = String::from("\n");
    for word in 1..400 {
        writeln!(text, "{}\t{word}\t{}\t{word}\t0.5,1", word - 1, 2 * word).unwrap();
        writeln!(text, "{}\t{word}\t{}\t{}\t1.5,1", word - 1, 2 * word + 2, word + 1).unwrap();
    }
    text + "399\n\n"
}

fn arpa() -> String {
    let mut text =
        format!("\\data\\\nngram 1={}\nngram 2={}\n\n\\1-grams:\n-1 <s> -0.5\n-1 </s>\n", COUNT + 1, COUNT - 2);
    (1..COUNT).for_each(|word| writeln!(text, "-1 {word} -0.5").unwrap());
    text += "\n\\2-grams:\n";
    (1..COUNT - 1).for_each(|word| writeln!(text, "-0.5 {word} {}", word + 1).unwrap());
    text + "\n\\end\\\n"
}

/// A graph of two labels on each of many states, with epsilon arcs.
fn graph() -> VecSource {
    let rng = &mut Rng(3);
    let states = 2_000u64;
    let state = |at: u64| {
        let mut arcs: Vec<_> = (0..3)
            .map(|_| arc(1 + rng.below(64) as i32, 1 + rng.below(9) as i32, 0.5, rng.below(states) as u32))
            .collect();
        if at + 1 < states {
            arcs.push(arc(0, 0, 1.0, at as u32 + 1));
        }
        (0.5, arcs)
    };
    source(Some(0), (0..states).map(state).collect())
}

fn take<T>(
    least: usize,
    what: &str,
    bytes: &str,
    read: unsafe extern "C" fn(*const u8, usize, *mut *mut T, *mut *mut koshi_error) -> koshi_status,
    free: unsafe extern "C" fn(*mut T) -> koshi_status,
) -> *mut T {
    // SAFETY: bytes and places of this test.
    each_made(what, least, |out, err| unsafe { read(bytes.as_ptr(), bytes.len(), out, err) }, free)
}

fn kept<T>(call: impl FnOnce(*mut *mut T) -> koshi_status) -> *mut T {
    let mut made = ptr::null_mut();
    assert!(call(&mut made) >= 0);
    made
}

/// One test at a time: what is refused of all threads is refused of other tests too.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[test]
fn models_and_symbols() {
    let _alone = alone();
    let transitions = take(3, "transitions", &model(), koshi_transitions_from_memory, koshi_transitions_free);
    let table = take(3, "symbols", &symbols(), koshi_symbols_from_memory, koshi_symbols_free);
    // SAFETY: handles that were made just now.
    unsafe { assert!(koshi_transitions_free(transitions) == 0 && koshi_symbols_free(table) == 0) };
}

#[test]
fn tables_of_words_and_phones() {
    let _alone = alone();
    let kinds: String = (1..=COUNT).map(|phone| format!("{phone} singleton\n")).collect();
    let boundary = take(1, "word boundary", &kinds, koshi_word_boundary_from_memory, koshi_word_boundary_free);
    let words: String = (1..COUNT).map(|word| format!("{word} {word} {word}\n")).collect();
    let lexicon = take(1, "lexicon", &words, koshi_align_lexicon_from_memory, koshi_align_lexicon_free);
    let (model, text) = (model(), lattice());
    // SAFETY: handles, bytes and places of this test.
    unsafe {
        let transitions = kept(|out| koshi_transitions_from_memory(model.as_ptr(), model.len(), out, ptr::null_mut()));
        let lattice = kept(|out| koshi_lattice_from_memory(text.as_ptr(), text.len(), out, ptr::null_mut()));
        let aligned = |what: &str, call: &dyn Fn(*mut *mut koshi_lattice, *mut *mut koshi_error) -> koshi_status| {
            each(what, 5, call, koshi_lattice_free);
        };
        let none = ptr::null_mut();
        aligned("aligning", &|out, err| {
            koshi_lattice_align_words(lattice, transitions, boundary, ptr::null(), out, none, err)
        });
        aligned("aligning by a lexicon", &|out, err| {
            koshi_lattice_align_words_lexicon(lattice, transitions, lexicon, ptr::null(), out, none, err)
        });
        assert!(koshi_word_boundary_free(boundary) == 0 && koshi_align_lexicon_free(lexicon) == 0);
        assert!(koshi_transitions_free(transitions) == 0 && koshi_lattice_free(lattice) == 0);
    }
}

#[test]
fn language_models_and_rescoring() {
    let _alone = alone();
    let arpa = take_model(arpa().as_bytes());
    let text = lattice();
    // SAFETY: handles, bytes and places of this test.
    unsafe {
        let lattice = kept(|out| koshi_lattice_from_memory(text.as_ptr(), text.len(), out, ptr::null_mut()));
        each(
            "rescoring",
            5,
            |out, err| koshi_lattice_rescore(lattice, ptr::null(), arpa, 1.0, out, err),
            koshi_lattice_free,
        );
        let words: Vec<i32> = (1..400).collect();
        let count = each_refused("cost", || {
            let mut cost = -1.0;
            koshi_language_model_cost(arpa, words.as_ptr(), words.len(), &mut cost, ptr::null_mut())
        });
        assert!(count < 100, "{count}");
        let bytes = vector(&graph(), &Form::default());
        let fst = take_model(&bytes);
        assert!(koshi_language_model_free(fst) == 0 && koshi_language_model_free(arpa) == 0);
        assert_eq!(koshi_lattice_free(lattice), 0);
    }
}

fn take_model(bytes: &[u8]) -> *mut koshi_language_model {
    read!(3, bytes, koshi_language_model_from_memory, koshi_language_model_free, ptr::null())
}

#[test]
fn lattices() {
    let _alone = alone();
    let table = symbols();
    let model = model();
    // SAFETY: handles, bytes and places of this test.
    unsafe {
        let symbols = kept(|out| koshi_symbols_from_memory(table.as_ptr(), table.len(), out, ptr::null_mut()));
        let transitions = kept(|out| koshi_transitions_from_memory(model.as_ptr(), model.len(), out, ptr::null_mut()));
        for text in [lattice(), raw_lattice()] {
            let lattice = take(3, "lattice", &text, koshi_lattice_from_memory, koshi_lattice_free);
            let compact = kept(|out| koshi_lattice_to_compact(lattice, out, ptr::null_mut()));
            let made = |what: &str, call: &dyn Fn(*mut *mut koshi_lattice, *mut *mut koshi_error) -> koshi_status| {
                each(what, 1, call, koshi_lattice_free);
            };
            made("scale", &|out, err| koshi_lattice_scale(lattice, 2.0, 0.5, out, err));
            made("bias", &|out, err| koshi_lattice_apply_bias(lattice, 1.0, out, err));
            made("prune", &|out, err| koshi_lattice_prune(lattice, 1e6, 1.0, out, err));
            made("to raw", &|out, err| koshi_lattice_to_raw(lattice, out, err));
            made("to compact", &|out, err| koshi_lattice_to_compact(lattice, out, err));
            made("push", &|out, err| koshi_lattice_push(compact, 1.0, out, err));
            made("minimize", &|out, err| koshi_lattice_minimize(compact, 1.0, 0.001, out, err));
            made("union", &|out, err| koshi_lattice_union(lattice, compact, out, err));
            made("determinize", &|out, err| {
                koshi_lattice_determinize(lattice, ptr::null(), ptr::null(), out, ptr::null_mut(), err)
            });
            made("determinize on phones", &|out, err| {
                koshi_lattice_determinize(lattice, transitions, ptr::null(), out, ptr::null_mut(), err)
            });
            let bytes = |what: &str, call: &dyn Fn(*mut *mut koshi_buffer, *mut *mut koshi_error) -> koshi_status| {
                each(what, 1, call, koshi_buffer_free);
            };
            for format in [0, 1] {
                bytes("to memory", &|out, err| koshi_lattice_to_memory(lattice, format, out, err));
            }
            bytes("to JSON", &|out, err| koshi_lattice_to_json(lattice, symbols, out, err));
            bytes("to DOT", &|out, err| koshi_lattice_to_dot(lattice, symbols, out, err));

            let paths =
                each_made("nbest", 2, |out, err| koshi_lattice_nbest(lattice, 20, 1.0, out, err), koshi_paths_free);
            bytes("paths to JSON", &|out, err| koshi_paths_to_json(paths, symbols, out, err));
            assert_eq!(koshi_paths_free(paths), 0);
            let reference: Vec<i32> = (1..50).collect();
            each(
                "oracle",
                1,
                |out, err| {
                    let mut errors = 0;
                    koshi_lattice_oracle(lattice, reference.as_ptr(), reference.len(), &mut errors, out, err)
                },
                koshi_path_free,
            );
            let path =
                each_made("best path", 0, |out, err| koshi_lattice_best_path(lattice, 1.0, out, err), koshi_path_free);
            let mut text = vec![0; 1 << 16];
            each_refused("text", || {
                koshi_path_text(path, symbols, text.as_mut_ptr(), text.len(), ptr::null_mut(), ptr::null_mut())
            });
            assert_eq!(koshi_path_free(path), 0);

            let words =
                each_made("words", 2, |out, err| koshi_lattice_words(lattice, ptr::null(), out, err), koshi_words_free);
            bytes("words to CTM", &|out, err| {
                koshi_words_to_ctm(words, c"key".as_ptr(), ptr::null(), symbols, out, err)
            });
            bytes("words to JSON", &|out, err| koshi_words_to_json(words, c"key".as_ptr(), 0.01, symbols, out, err));
            let said = words_said();
            each(
                "words of",
                2,
                |out, err| koshi_lattice_words_of(lattice, said.as_ptr(), said.len(), ptr::null(), out, err),
                koshi_words_free,
            );
            each("best words", 1, |out, err| koshi_lattice_best_words(lattice, 1.0, 1, out, err), koshi_words_free);
            assert_eq!(koshi_words_free(words), 0);
            assert!(koshi_lattice_free(lattice) == 0 && koshi_lattice_free(compact) == 0);
        }
        assert!(koshi_symbols_free(symbols) == 0 && koshi_transitions_free(transitions) == 0);
    }
}

fn words_said() -> Vec<i32> {
    (1..400).collect()
}

#[test]
fn graphs_and_caches() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let name = |file: &str| CString::new(folder.path().join(file).display().to_string()).unwrap();
    let columns: Vec<i32> = (-1..64).collect();
    for (file, bytes) in
        [("vector", vector(&graph(), &Form::default())), ("const", constant(&graph(), &Form::default()))]
    {
        std::fs::write(folder.path().join(file), &bytes).unwrap();
        let (path, cache) = (name(file), name("cache"));
        // SAFETY: handles, texts and places of this test.
        unsafe {
            let graph =
                each_made(file, 3, |out, err| koshi_graph_read(path.as_ptr(), ptr::null(), out, err), koshi_graph_free);
            each(
                "columns",
                3,
                |out, err| koshi_graph_read_mapped(path.as_ptr(), columns.as_ptr(), columns.len(), out, err),
                koshi_graph_free,
            );
            each_refused("writing a cache", || koshi_graph_write_cache(graph, cache.as_ptr(), ptr::null_mut()));
            let names: Vec<PathBuf> =
                std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert!(names.len() <= 3, "unfinished files are left: {names:?}");
            let mapped = each_made(
                "cache",
                0,
                |out, err| koshi_graph_read(cache.as_ptr(), ptr::null(), out, err),
                koshi_graph_free,
            );
            each_refused("check", || koshi_graph_check(mapped, ptr::null_mut()));
            assert!(koshi_graph_free(mapped) == 0 && koshi_graph_free(graph) == 0);
        }
    }
}

#[test]
fn chain() {
    let _alone = alone();
    let den: Vec<_> =
        (0..500u32).map(|at| (f32::INFINITY, vec![arc(1, 1, 0.7, (at + 1) % 500), arc(2, 2, 1.4, at)])).collect();
    let bytes = vector(&source(Some(0), den), &Form::default());
    let den = read!(2, bytes, koshi_den_graph_from_memory, koshi_den_graph_free, 2);
    let frames = 300;
    let mut text =
        format!("<Supervision> <Weight> 1 <NumSequences> 1 <FramesPerSeq> {frames} <LabelDim> 2 <End2End> F \n");
    (0..frames).for_each(|at| writeln!(text, "{at} {} 1 1\n{at} {} 2 2", at + 1, at + 1).unwrap());
    write!(text, "{frames}\n\n</Supervision> ").unwrap();
    let said = take(2, "supervision", &text, koshi_supervision_from_memory, koshi_supervision_free);
    // SAFETY: handles, arrays and places of this test.
    unsafe {
        let both = [said.cast_const(), said.cast_const()];
        each("merging", 2, |out, err| koshi_supervision_merge(both.as_ptr(), 2, out, err), koshi_supervision_free);
        each("copying", 1, |out, err| koshi_supervision_merge(both.as_ptr(), 1, out, err), koshi_supervision_free);
        for binary in [0, 1] {
            each("writing", 1, |out, err| koshi_supervision_to_memory(said, binary, out, err), koshi_buffer_free);
        }
        let mut config = std::mem::zeroed();
        assert_eq!(koshi_chain_config_init(&mut config, size_of_val(&config), ptr::null_mut()), 0);
        config.backend = koshi_backend::KOSHI_BACKEND_CPU as i32;
        config.num_threads = 1;
        let output = vec![0.25f32; frames * 2];
        let (mut deriv, mut xent) = (vec![0.0f32; frames * 2], vec![0.0f32; frames * 2]);
        let (mut objf, mut wanted) = (f64::NAN, f64::NAN);
        let mut call = |objf: &mut f64| {
            koshi_chain_objf(
                den,
                said,
                &config,
                output.as_ptr(),
                frames,
                2,
                2,
                objf,
                ptr::null_mut(),
                ptr::null_mut(),
                deriv.as_mut_ptr(),
                2,
                xent.as_mut_ptr(),
                2,
                ptr::null_mut(),
            )
        };
        let count = each_refused("objective", || call(&mut objf));
        assert!(count >= 1, "{count}");
        assert_eq!(call(&mut wanted), 0);
        assert_eq!(objf, wanted);
        let mut logprob = 0.0;
        each_refused("denominator", || {
            koshi_chain_denominator(
                den,
                &config,
                1,
                ptr::null(),
                output.as_ptr(),
                frames,
                2,
                2,
                &mut logprob,
                1.0,
                deriv.as_mut_ptr(),
                2,
                ptr::null_mut(),
            )
        });
        each_refused("numerator", || {
            koshi_chain_numerator(
                said,
                output.as_ptr(),
                frames,
                2,
                2,
                &mut logprob,
                deriv.as_mut_ptr(),
                2,
                ptr::null_mut(),
            )
        });
        assert!(koshi_den_graph_free(den) == 0 && koshi_supervision_free(said) == 0);
    }
}

const VOCAB: usize = 1_200;

unsafe extern "C" fn predict(
    _: *mut c_void,
    states_in: *const u64,
    _: *const i32,
    n: usize,
    states_out: *mut u64,
    outputs: *mut f32,
) -> koshi_status {
    for at in 0..n {
        // SAFETY: the library's arrays of `n`.
        unsafe { (*states_out.add(at), *outputs.add(at)) = (*states_in.add(at) + 1, 0.0) };
    }
    0
}

unsafe extern "C" fn join(_: *mut c_void, _: *const f32, _: *const f32, n: usize, scores: *mut f32) -> koshi_status {
    // SAFETY: the library's array of `n` rows.
    let scores = unsafe { std::slice::from_raw_parts_mut(scores, n * VOCAB) };
    scores.iter_mut().enumerate().for_each(|(at, score)| *score = -((at % VOCAB) as f32) / 100.0);
    0
}

/// Of a whole utterance each allocation fails once: the utterance fails, and the next one is right.
#[test]
fn transducers() {
    let _alone = alone();
    // SAFETY: callbacks, arrays and places of this test.
    unsafe {
        let mut ops: koshi_transducer_ops = std::mem::zeroed();
        ops.struct_size = size_of_val(&ops) as u32;
        (ops.vocab_size, ops.encoder_dim, ops.output_dim) = (VOCAB as u32, 2, 1);
        ops.predict = Some(predict);
        ops.join = Some(join);
        let transducer = kept(|out| koshi_transducer_new(&ops, ptr::null_mut(), None, out, ptr::null_mut()));
        let rows = [0.5f32; 2 * 40];
        let labels: Vec<i32> = (1..1000).collect();
        let phrase = koshi_phrase { labels: labels.as_ptr(), len: labels.len(), bonus: 1.0, reserved: 0 };
        let count = each_refused("phrases", || koshi_transducer_set_bias(transducer, &phrase, 1, ptr::null_mut()));
        assert!(count > 0);
        for search in 0..5 {
            let mut config = std::mem::zeroed();
            assert_eq!(koshi_transducer_config_init(&mut config, size_of_val(&config), ptr::null_mut()), 0);
            config.search = search;
            let result = |list: *mut koshi_hypotheses| {
                let score = koshi_hypotheses_score(list, 0);
                assert_eq!(koshi_hypotheses_free(list), 0);
                score
            };
            let whole = || -> (koshi_status, f64) {
                let (mut stream, mut list) = (ptr::null_mut(), ptr::null_mut());
                let mut status = koshi_transducer_stream_new(transducer, &config, &mut stream, ptr::null_mut());
                if status >= 0 {
                    status = koshi_transducer_stream_push(stream, rows.as_ptr(), 40, 2, 2, ptr::null_mut());
                }
                if status >= 0 {
                    status = koshi_transducer_stream_finish(stream, &mut list, ptr::null_mut());
                }
                assert_eq!(koshi_transducer_stream_free(stream), 0);
                (status, result(list))
            };
            let (_, wanted) = whole();
            let count = each_refused("stream", || whole().0);
            assert!(count > 0, "search {search}: {count}");
            assert_eq!(whole().1, wanted);
        }
        assert_eq!(koshi_transducer_free(transducer), 0);
    }
}

/// Tables, from files and to files.
#[test]
fn tables() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let specifier = |file: &str| CString::new(format!("ark:{}", folder.path().join(file).display())).unwrap();
    let matrix: String = (0..600).map(|row| format!("\n  {row} 2.5 {}", row % 7)).collect();
    std::fs::write(folder.path().join("matrices"), format!("a  [{matrix} ]\n")).unwrap();
    std::fs::write(folder.path().join("lattices"), format!("a {}", lattice())).unwrap();
    // SAFETY: handles, texts and places of this test.
    unsafe {
        let (name, key) = (specifier("matrices"), ptr::null::<c_char>());
        each(
            "matrices",
            1,
            |out, err| {
                let mut reader = ptr::null_mut();
                let mut status = koshi_matrix_reader_open(name.as_ptr(), &mut reader, err);
                if status >= 0 {
                    status = koshi_matrix_reader_next(reader, &mut key.clone(), out, err);
                }
                assert_eq!(koshi_matrix_reader_free(reader), 0);
                status
            },
            koshi_matrix_free,
        );
        let name = specifier("lattices");
        let lattice = each_made(
            "lattices",
            3,
            |out, err| {
                let mut reader = ptr::null_mut();
                let mut status = koshi_lattice_reader_open(name.as_ptr(), &mut reader, err);
                if status >= 0 {
                    status = koshi_lattice_reader_next(reader, &mut key.clone(), out, err);
                }
                assert_eq!(koshi_lattice_reader_free(reader), 0);
                status
            },
            koshi_lattice_free,
        );
        let (out, integers) = (specifier("written"), words_said());
        each_refused("writing lattices", || {
            let mut writer = ptr::null_mut();
            let mut status = koshi_lattice_writer_open(out.as_ptr(), &mut writer, ptr::null_mut());
            if status >= 0 {
                status = koshi_lattice_writer_write(writer, c"a".as_ptr(), lattice, ptr::null_mut());
                let closed = koshi_lattice_writer_close(writer, ptr::null_mut());
                status = if status >= 0 { closed } else { status };
            }
            assert_eq!(koshi_lattice_writer_free(writer), 0);
            status
        });
        each_refused("writing integers", || {
            let mut writer = ptr::null_mut();
            let mut status = koshi_int_writer_open(out.as_ptr(), &mut writer, ptr::null_mut());
            if status >= 0 {
                status =
                    koshi_int_writer_write(writer, c"a".as_ptr(), integers.as_ptr(), integers.len(), ptr::null_mut());
                let closed = koshi_int_writer_close(writer, ptr::null_mut());
                status = if status >= 0 { closed } else { status };
            }
            assert_eq!(koshi_int_writer_free(writer), 0);
            status
        });
        assert_eq!(koshi_lattice_free(lattice), 0);
    }
}

/// Examples of both kinds: made of parts, written to tables and read from them, handed from thread to thread.
#[test]
fn examples() {
    let _alone = alone();
    const FRAMES: usize = 1_200;
    let folder = tempfile::tempdir().unwrap();
    let specifier =
        |form: &str, file: &str| CString::new(format!("{form}:{}", folder.path().join(file).display())).unwrap();
    let labels = vec![koshi_label { pdf: 3, weight: 0.5 }; FRAMES];
    let (rows, ids): (Vec<f32>, Vec<i32>) = ((0..4 * FRAMES).map(|at| at as f32 / 7.0).collect(), vec![5; FRAMES]);
    let none = ptr::null_mut();
    // SAFETY: handles, arrays, texts and places of this test.
    unsafe {
        let mut parts: koshi_example_parts = std::mem::zeroed();
        assert_eq!(koshi_example_parts_init(&mut parts, size_of_val(&parts), none), 0);
        let few = parts;
        (parts.labels, parts.num_frames, parts.speaker, parts.speaker_dim) =
            (labels.as_ptr(), FRAMES as u64, rows.as_ptr(), FRAMES as u64);
        (parts.rows, parts.num_rows, parts.dim, parts.stride) = (rows.as_ptr(), FRAMES as u64, 4, 4);
        let example = each_made("example", 4, |out, err| koshi_example_new(&parts, out, err), koshi_example_free);
        let mut count = 0;
        let frames = || refusing::refusing(Some(0), LEAST, || koshi_example_frames(example, &mut 0, &mut 0).is_null());
        assert_eq!([frames(), frames()], [(true, true), (true, true)]);
        assert!(!koshi_example_frames(example, &mut count, ptr::null_mut()).is_null() && count == FRAMES);

        let text = (0..FRAMES).map(|at| format!("{at}\t{}\t3\t1,2,5\n", at + 1)).collect::<String>();
        let text = format!("\n{text}{FRAMES}\n\n");
        let lattice = kept(|out| koshi_lattice_from_memory(text.as_ptr(), text.len(), out, none));
        let mut parts: koshi_degs_parts = std::mem::zeroed();
        assert_eq!(koshi_degs_parts_init(&mut parts, size_of_val(&parts), none), 0);
        (parts.alignment, parts.num_frames, parts.lattice) = (ids.as_ptr(), FRAMES as u64, lattice);
        (parts.rows, parts.num_rows, parts.dim, parts.stride) = (rows.as_ptr(), FRAMES as u64, 4, 4);
        let degs = each_made("degs", 4, |out, err| koshi_degs_new(&parts, out, err), koshi_degs_free);

        for (at, form) in ["ark", "ark,t"].into_iter().enumerate() {
            for kind in [koshi_egs_kind::KOSHI_EGS_NNET, koshi_egs_kind::KOSHI_EGS_DISCRIMINATIVE] {
                let (is_nnet, kind) = (kind == koshi_egs_kind::KOSHI_EGS_NNET, kind as i32);
                let name = specifier(form, "egs");
                let wrote = each_refused("writing", || {
                    let mut writer = ptr::null_mut();
                    let mut status = koshi_egs_writer_open(name.as_ptr(), kind, &mut writer, none);
                    if status >= 0 {
                        status = match is_nnet {
                            true => koshi_egs_writer_write(writer, c"a".as_ptr(), example, none),
                            false => koshi_egs_writer_write_degs(writer, c"a".as_ptr(), degs, none),
                        };
                        let closed = koshi_egs_writer_close(writer, none);
                        status = if status >= 0 { closed } else { status };
                    }
                    assert_eq!(koshi_egs_writer_free(writer), 0);
                    status
                });
                let name = specifier("ark", "egs");
                let (mut first, mut second) = (ptr::null_mut(), ptr::null_mut());
                let read = each_refused("reading", || {
                    assert!(koshi_example_free(first) == 0 && koshi_degs_free(second) == 0);
                    (first, second) = (ptr::null_mut(), ptr::null_mut());
                    let (mut reader, mut key) = (ptr::null_mut(), ptr::null());
                    let mut status = koshi_egs_reader_open(name.as_ptr(), kind, &mut reader, none);
                    if status >= 0 {
                        status = match is_nnet {
                            true => koshi_egs_reader_next(reader, &mut key, &mut first, none),
                            false => koshi_egs_reader_next_degs(reader, &mut key, &mut second, none),
                        };
                    }
                    assert_eq!(koshi_egs_reader_free(reader), 0);
                    status
                });
                assert!(wrote >= 1 && read >= 4, "{at} {kind}: {wrote} {read}");
                assert!(first.is_null() != is_nnet && second.is_null() == is_nnet, "what was written is there");
                assert!(koshi_example_free(first) == 0 && koshi_degs_free(second) == 0);
            }
        }

        const COUNT: usize = 700;
        let many: Vec<_> = (0..COUNT).map(|_| kept(|out| koshi_example_new(&few, out, none))).collect();
        let repository = kept(|out| koshi_examples_repository_new(COUNT, out, none));
        let accepted =
            each_refused("accepting", || koshi_examples_repository_accept(repository, many.as_ptr(), COUNT, none));
        let (mut fetched, mut count) = (vec![ptr::null_mut::<koshi_example>(); COUNT], 7);
        let provided = each_refused("providing", || {
            assert!(count == 7 && fetched.iter().all(|handle| handle.is_null()));
            koshi_examples_repository_provide(repository, fetched.as_mut_ptr(), COUNT, &mut count, none)
        });
        assert!(accepted >= 3 && provided >= 1, "{accepted} {provided}");
        assert!(count == COUNT && fetched == many);
        assert_eq!(koshi_examples_repository_free(repository), 0);
        assert!(many.into_iter().all(|handle| koshi_example_free(handle) == 0));
        assert!(koshi_example_free(example) == 0 && koshi_degs_free(degs) == 0 && koshi_lattice_free(lattice) == 0);
    }
}

/// Queued rows, segments and phrases: what is refused on the decoder's own thread fails that utterance, and the next one is
/// right.
#[test]
fn queued_rows() {
    let _alone = alone();
    let bytes = constant(&graph(), &Form::default());
    let rng = &mut Rng(7);
    let frames = 30;
    let rows: Vec<f32> = (0..frames * 64).map(|_| -(rng.below(400) as f32) / 40.0).collect();
    // SAFETY: handles, arrays and places of this test.
    unsafe {
        let graph = kept(|out| koshi_graph_from_memory(bytes.as_ptr(), bytes.len(), ptr::null(), out, ptr::null_mut()));
        let mut config = std::mem::zeroed();
        assert_eq!(koshi_decoder_config_init(&mut config, size_of_val(&config), ptr::null_mut()), 0);
        config.backend = koshi_backend::KOSHI_BACKEND_CPU as i32;
        (config.num_lanes, config.num_threads, config.beam, config.lattice_beam) = (1, 1, 6.0, 4.0);
        let mut rules = std::mem::zeroed();
        assert_eq!(koshi_endpoint_config_init(&mut rules, size_of_val(&rules), ptr::null_mut()), 0);
        rules.silence = koshi_silence::KOSHI_SILENCE_ILABELS as i32;
        rules.action = koshi_endpoint_action::KOSHI_ENDPOINT_SEGMENT as i32;
        rules.rules[4].min_utterance_length = 0.12;
        let (silence, word) = ([1i32], [3i32, 4]);
        let phrase = koshi_phrase { labels: word.as_ptr(), len: 2, bonus: 1.0, reserved: 0 };
        let utterance = |decoder: *mut koshi_decoder| -> (koshi_status, Option<(f64, i64)>) {
            let mut channel = ptr::null_mut();
            let none = ptr::null_mut();
            let mut status = koshi_channel_new(decoder, &mut channel, none);
            let mut step = |call: &dyn Fn() -> koshi_status| {
                if status >= 0 {
                    status = call();
                }
            };
            let made = channel;
            step(&|| koshi_channel_set_bias(made, &phrase, 1, none));
            step(&|| koshi_channel_begin(made, none));
            step(&|| koshi_channel_submit(made, rows.as_ptr(), frames, 64, 64, none));
            step(&|| koshi_channel_finish(made, none));
            step(&|| koshi_channel_wait(made, -1.0, none));
            let mut path = ptr::null_mut();
            let place = &raw mut path;
            step(&|| koshi_channel_best_path(made, 1, place, none));
            let result = (status >= 0).then(|| (koshi_path_graph_cost(path), koshi_channel_num_segments(made)));
            assert!(koshi_path_free(path) == 0 && koshi_channel_free(made) == 0);
            (status, result)
        };
        let new_decoder = || {
            let decoder = kept(|out| koshi_decoder_new(graph, &config, out, ptr::null_mut()));
            let status = koshi_decoder_set_endpoint_rules(decoder, &rules, silence.as_ptr(), 1, ptr::null_mut());
            assert_eq!(status, 0);
            decoder
        };
        let decoder = new_decoder();
        let (status, wanted) = utterance(decoder);
        assert!(status == 0 && wanted.unwrap().1 > 0, "{status} {wanted:?}");
        assert_eq!(koshi_decoder_free(decoder), 0);
        let mut places = 0;
        loop {
            // Working space that has not grown yet.
            let decoder = new_decoder();
            let (refused, (status, found)) = refusing::refusing_anywhere(places, LEAST, || utterance(decoder));
            if status >= 0 {
                assert_eq!(found, wanted, "allocation {places}");
            } else {
                assert!(refused && status == NO_MEMORY, "allocation {places}: {status}");
            }
            assert_eq!(utterance(decoder), (0, wanted), "the one after allocation {places}");
            assert_eq!(koshi_decoder_free(decoder), 0);
            if !refused {
                break;
            }
            places += 1;
        }
        assert!(places > 20, "{places}");
        assert_eq!(koshi_graph_free(graph), 0);
    }
}
