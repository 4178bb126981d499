//! Each allocation that grows with the input fails once, in turn: the call answers
//! KOSHI_E_NO_MEMORY, nothing ends the process, and the same call then works and gives the same.

mod common;
#[path = "common/face/mod.rs"]
mod face;
#[path = "support/refusing.rs"]
mod refusing;

use std::cell::Cell;
use std::ffi::CString;
use std::ptr;
use std::sync::Arc;

use common::graph::{Rng, arc, source};
use face::openfst::{Form, constant};
use face::{C, Face, Fault, Matrix, Outcome, Rust, Status};
use koshi::Error;
use koshi::decoder::{BackendChoice, Channel, Decoder, DecoderConfig};
use koshi::ffi::*;
use koshi::graph::{Columns, Graph, VecSource};
use koshi::lattice::DeterminizeConfig;
use koshi::search::{CommitConfig, Rows, SearchConfig};

/// Allocations below this are of fixed size (handles, messages, a thread's stack of names); the
/// language gives no way to meet their failure.
const LEAST: usize = 1024;

/// Whether a face copies for the tests, which is not the library's.
fn exempt() -> bool {
    face::OWN.try_with(Cell::get).unwrap_or(true)
}

/// Calls `step` with its first, second, ... large allocation refused until none is; returns how many there
/// were, and what it gave in the end.
fn each_refused<T>(what: &str, mut step: impl FnMut() -> Outcome<T>) -> (usize, T) {
    for at in 0.. {
        match refusing::refusing(Some(at), LEAST, &mut step) {
            (false, Ok(made)) => return (at, made),
            (false, Err(fault)) => panic!("{what} fails with all memory it wants: {fault:?}"),
            // One that could do without.
            (true, Ok(_)) => {}
            (true, Err(fault)) => {
                assert_eq!(fault.status, Status::KOSHI_E_NO_MEMORY, "{what}, allocation {at}: {}", fault.message);
            }
        }
    }
    unreachable!()
}

/// Wide enough that all arrays pass [`LEAST`].
fn busy_graph(rng: &mut Rng) -> VecSource {
    let (num_states, dim) = (2_000, 64);
    let states = (0..num_states).map(|state| {
        let arcs = (0..6).map(|place| {
            let epsilon = place == 0 && state + 1 < num_states && rng.below(3) == 0;
            let next = if epsilon { state + 1 + rng.below(num_states - state - 1) } else { rng.below(num_states) };
            let ilabel = if epsilon { 0 } else { 1 + rng.below(dim) as i32 };
            arc(ilabel, rng.below(5) as i32, rng.below(80) as f32 / 20.0, next as u32)
        });
        (0.0, arcs.collect())
    });
    source(Some(0), states.collect())
}

fn every_call<F: Face>() {
    let rng = &mut Rng(5);
    let bytes = constant(&busy_graph(rng), &Form::default());
    let data: Vec<f32> = (0..60 * 64).map(|_| -(rng.below(400) as f32) / 40.0).collect();
    let rows = Matrix::dense(&data, 64);
    let search = SearchConfig { beam: 9.0, lattice_beam: 6.0, link_budget: 4_000, ..SearchConfig::default() };
    let config = DecoderConfig { search, num_threads: 1, num_lanes: 1, ..DecoderConfig::default() };

    let (count, graph) = each_refused("graph", || F::graph_from_memory(&bytes));
    assert!(count > 5, "the graph takes memory: {count}");
    let (_, decoder) = each_refused("decoder", || F::decoder(&graph, &config));
    let (_, mut expected) = each_refused("channel", || F::channel(&decoder));
    F::begin(&mut expected).unwrap();
    F::push(&mut expected, rows).unwrap();

    // A lane of its own, whose working space has not grown yet.
    let decoder = F::decoder(&graph, &config).unwrap();
    let mut channel = F::channel(&decoder).unwrap();
    let (mut pushes, mut queries) = (each_refused("begin", || F::begin(&mut channel)).0, 0);
    for frame in 0..rows.frames {
        pushes += each_refused("push", || {
            let outcome = F::push(&mut channel, rows.part(frame, frame + 1));
            assert_eq!(F::num_frames(&channel), (frame + usize::from(outcome.is_ok())) as u64);
            outcome
        })
        .0;
        if frame % 9 == 3 {
            let mut twin = F::channel(&decoder).unwrap();
            F::begin(&mut twin).unwrap();
            F::push(&mut twin, rows.part(0, frame + 1)).unwrap();
            let (count, lattice) = each_refused("lattice", || F::lattice(&mut channel, true));
            assert_eq!(lattice, F::lattice(&mut twin, true).unwrap());
            queries += count;
            let (count, path) = each_refused("best path", || F::best_path(&channel, true));
            assert_eq!(path, F::best_path(&twin, true).unwrap());
            queries += count;
            let (count, partial) = each_refused("partial", || F::partial(&channel));
            assert_eq!(partial, F::partial(&twin).unwrap());
            queries += count;
        }
    }
    assert!(pushes > 30 && queries > 10, "{pushes} {queries}");
    let lattice = F::lattice(&mut channel, true).unwrap();
    assert_eq!(lattice, F::lattice(&mut expected, true).unwrap());
    let (count, bytes) = each_refused("writing", || F::lattice_to_memory(&lattice, true));
    assert!(count > 0);
    for what in 0..3 {
        let (count, ()) = each_refused("reading", || match what {
            0 => F::lattice_from_memory(&bytes).map(|_| ()),
            1 => F::lattice_best_path(&bytes, 1.0).map(|_| ()),
            _ => F::lattice_prune(&bytes, 3.0).map(|_| ()),
        });
        assert!(count > 5, "{count}");
    }
}

/// One refusal in the course of a whole utterance, at each place where there can be one: the push that
/// meets it is made again, and the results are as if nothing had been.
fn once_an_utterance<F: Face>() {
    let rng = &mut Rng(9);
    let graph = face::graph::<F>(&busy_graph(rng));
    let data: Vec<f32> = (0..70 * 64).map(|_| -(rng.below(400) as f32) / 40.0).collect();
    let rows = Matrix::dense(&data, 64);
    let search = SearchConfig { beam: 10.0, lattice_beam: 10.0, link_budget: 2_000, ..SearchConfig::default() };
    let config = DecoderConfig { search, num_threads: 1, num_lanes: 1, ..DecoderConfig::default() };
    let decode = |at: Option<usize>| {
        let decoder = F::decoder(&graph, &config).unwrap();
        let mut channel = F::channel(&decoder).unwrap();
        let (refused_once, faults) = refusing::refusing(at, LEAST, || {
            let mut faults = u32::from(F::begin(&mut channel).is_err_and(|fault| refused(&fault)));
            if faults > 0 {
                F::begin(&mut channel).unwrap();
            }
            let mut frame = 0;
            while frame < rows.frames {
                match F::push(&mut channel, rows.part(frame, rows.frames.min(frame + 3))) {
                    Ok(()) => {}
                    Err(fault) => faults += u32::from(refused(&fault)),
                }
                frame = F::num_frames(&channel) as usize;
            }
            faults
        });
        assert_eq!(faults, u32::from(refused_once));
        (refused_once, face::results::<F>(&mut channel))
    };
    let (_, expected) = decode(None);
    assert!(expected.lattices[0].num_arcs() > 1_000);
    let mut places = 0;
    while let (true, found) = decode(Some(places)) {
        assert_eq!(found, expected, "allocation {places}");
        places += 1;
    }
    assert!(places > 50, "{places}");
}

fn refused(fault: &face::Fault) -> bool {
    assert_eq!(fault.status, Status::KOSHI_E_NO_MEMORY, "{}", fault.message);
    true
}

#[test]
fn once_an_utterance_through_rust() {
    once_an_utterance::<Rust>();
}

#[test]
fn once_an_utterance_through_c() {
    once_an_utterance::<C>();
}

#[test]
fn through_rust() {
    every_call::<Rust>();
}

#[test]
fn through_c() {
    every_call::<C>();
}

/// Commits, and compact lattices that are determinized on the way: a refused push, settling or lattice is
/// asked for again, and all is as in a channel that was refused nothing.
#[test]
fn endless_streams() {
    let rng = &mut Rng(5);
    let graph = Arc::new(Graph::from_source(&busy_graph(rng), Columns::Labels).unwrap());
    let data: Vec<f32> = (0..400 * 64).map(|_| -(rng.below(400) as f32) / 40.0).collect();
    let search = SearchConfig { beam: 8.0, lattice_beam: 5.0, link_budget: 4_000, ..SearchConfig::default() };
    let backend = BackendChoice::Cpu;
    let config = DecoderConfig { search, num_threads: 1, num_lanes: 1, backend, ..DecoderConfig::default() };
    let decoder = Decoder::new(graph, config).unwrap();
    let channel = || {
        let mut channel = decoder.new_channel().unwrap();
        channel.set_commit(Some(CommitConfig { frames: 256, lattice_frames: 1_000 })).unwrap();
        channel.set_determinize(None, &DeterminizeConfig { beam: 3.0, ..DeterminizeConfig::default() }).unwrap();
        channel.begin().unwrap();
        channel
    };
    let (mut spared, mut tried) = (channel(), channel());
    let (mut pushes, mut settles) = (0, 0);
    for (frame, row) in data.chunks(64).enumerate() {
        let rows = Rows::dense(row, 64).unwrap();
        spared.push(rows).unwrap();
        // Looks are taken with the first frame behind a multiple of 64.
        let count = if frame % 64 == 0 { each_refused("push", || tried.push(rows).map_err(fault)).0 } else { 0 };
        pushes += count;
        if frame % 64 != 0 {
            tried.push(rows).unwrap();
        }
        if frame % 100 == 99 {
            spared.settle().unwrap();
            settles += each_refused("settle", || tried.settle().map_err(fault)).0;
        }
    }
    assert!(pushes > 10 && settles > 10, "{pushes} {settles}");
    let lattice = tried.lattice(false).unwrap();
    assert!(lattice == spared.lattice(false).unwrap());
    let (count, compact) = each_refused("compact lattice", || tried.compact_lattice(false).map_err(fault));
    let best = compact.lattice.best_path(1.0).unwrap();
    assert!(count > 5 && best.olabels == lattice.best_path(1.0).unwrap().olabels);
    assert!(tried.committed_frames() > 100 && tried.stats().unwrap().frames == 400);
    let pieces =
        |channel: &mut Channel| -> Vec<_> { std::iter::from_fn(|| channel.take_committed().unwrap()).collect() };
    assert!(pieces(&mut tried) == pieces(&mut spared));
}

fn fault(error: Error) -> Fault {
    let no_memory = matches!(error.root(), Error::NoMemory { .. });
    let status = if no_memory { Status::KOSHI_E_NO_MEMORY } else { Status::KOSHI_E_INTERNAL };
    Fault { status, message: error.chain() }
}

/// A call that makes something.
fn made<T>(call: impl FnOnce(*mut *mut T, *mut *mut koshi_error) -> koshi_status) -> Outcome<*mut T> {
    let (mut made, mut err) = (ptr::null_mut(), ptr::null_mut());
    let status = call(&mut made, &mut err);
    if status >= 0 {
        return Ok(made);
    }
    assert!(made.is_null());
    assert_eq!(status, Status::KOSHI_E_NO_MEMORY as i32);
    // SAFETY: made by the call, or null.
    unsafe { koshi_error_free(err) };
    Err(Fault { status: Status::KOSHI_E_NO_MEMORY, message: String::new() })
}

/// What examples of both kinds end with, each array longer than [`LEAST`].
fn rest_of_example(frames: usize) -> String {
    let rows: String = (0..frames).map(|row| format!("\n  {row} 2.5 {}", row % 7)).collect();
    format!("<InputFrames>  [{rows} ]\n<LeftContext> 0 <SpkInfo>  [ {}]\n", "0.5 ".repeat(frames))
}

#[test]
fn examples_of_both_kinds() {
    const FRAMES: usize = 400;
    let (ids, rest) = ("5 ".repeat(FRAMES), rest_of_example(FRAMES));
    let arcs: String = (0..FRAMES).map(|state| format!("{state}\t{}\t3\t1,2,5\n", state + 1)).collect();
    let example = format!("<NnetExample> <Lab1> [ {ids}]\n{rest}</NnetExample> ");
    let degs = format!(
        "<DiscriminativeNnetExample> <Weight> 1 <NumAli> [ {ids}]\n\n{arcs}{FRAMES}\n\n{rest}</DiscriminativeNnetExample> "
    );
    let folder = tempfile::tempdir().unwrap();
    let table = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("k {text}")).unwrap();
        CString::new(format!("ark:{}", path.display())).unwrap()
    };
    let (nnet, discriminative) = (table("a", &example), table("d", &degs));
    let take = |place: &str, least: usize, count: usize| assert!(count >= least, "{place}: {count}");
    // SAFETY: places, texts and handles of this test.
    unsafe {
        let (count, made_example) = each_refused("reading", || {
            made(|out, err| koshi_example_from_memory(example.as_ptr(), example.len(), out, err))
        });
        take("reading", 4, count);
        let (count, cut) =
            each_refused("cutting", || made(|out, err| koshi_example_extract(made_example, 0, -1, -1, -1, out, err)));
        take("cutting", 4, count);
        let (count, buffer) = each_refused("writing", || made(|out, err| koshi_example_to_memory(cut, 1, out, err)));
        take("writing", 1, count);
        koshi_buffer_free(buffer);
        for example in [made_example, cut] {
            koshi_example_free(example);
        }

        let mut opened = ptr::null_mut();
        let kind = koshi_egs_kind::KOSHI_EGS_NNET as i32;
        assert_eq!(koshi_egs_table_open(nnet.as_ptr(), kind, &mut opened, ptr::null_mut()), 0);
        // Read once; then what takes memory is the copy.
        for least in [0, 4] {
            let find = || made(|out, err| koshi_egs_table_find(opened, c"k".as_ptr(), out, err));
            let (count, found) = if least == 0 { (0, find().unwrap()) } else { each_refused("finding", find) };
            take("finding", least, count);
            koshi_example_free(found);
        }
        koshi_egs_table_free(opened);

        let kind = koshi_egs_kind::KOSHI_EGS_DISCRIMINATIVE as i32;
        assert_eq!(koshi_egs_table_open(discriminative.as_ptr(), kind, &mut opened, ptr::null_mut()), 0);
        let find = || made(|out, err| koshi_egs_table_find_degs(opened, c"k".as_ptr(), out, err));
        koshi_degs_free(find().unwrap());
        let (count, found) = each_refused("finding", find);
        take("finding", 8, count);
        let (count, lattice) = each_refused("lattice", || made(|out, err| koshi_degs_lattice(found, out, err)));
        take("lattice", 5, count);
        assert_eq!(koshi_lattice_free(lattice), 0);
        let (count, buffer) = each_refused("writing", || made(|out, err| koshi_degs_to_memory(found, 1, out, err)));
        take("writing", 1, count);
        koshi_buffer_free(buffer);
        koshi_degs_free(found);
        koshi_egs_table_free(opened);
    }
}
