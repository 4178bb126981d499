//! The pages that a cache file lists are those that the first frames touch: told by the search itself, whose every page
//! is closed to it at first, and by a plain walk over the graph.
#![cfg(target_os = "linux")]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};

use common::graph::{Rng, arc, source};
use koshi::decoder::{BackendChoice, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph, HAS_EPSILONS, VecSource};
use koshi::search::Rows;

const PAGE: usize = 4096;
const MOST_PAGES: usize = 128;
/// Where the list stands in the head.
const LIST: usize = 128;
const COLUMNS: usize = 64;

/// The pages that a file lists.
fn listed(path: &Path) -> BTreeSet<usize> {
    let bytes = fs::read(path).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let runs = (0..MOST_PAGES).map(|run| LIST + 8 * run).map(|at| (number(at), number(at + 4)));
    runs.flat_map(|(first, count)| first..first + count).collect()
}

/// Pages of a file with the blocks of the states that each frame reaches first, the first that which the beginning does.
/// Blocks begin with page 1.
fn by_frames(graph: &Graph) -> Vec<BTreeSet<usize>> {
    let mut frames = Vec::new();
    let (mut seen, mut now) = (BTreeSet::new(), vec![graph.start()]);
    while !now.is_empty() {
        let (mut pages, mut next) = (BTreeSet::new(), Vec::new());
        while let Some(word) = now.pop() {
            let id = word & !HAS_EPSILONS;
            if !seen.insert(id) {
                continue;
            }
            let state = graph.state(id);
            let begin = id as usize * 2;
            let columns = if graph.wide() { state.weights.len() } else { state.weights.len().div_ceil(2) };
            let body = 2 * state.weights.len() + columns + 2 * state.eps_weights.len();
            let end = (state.header.body + body).next_multiple_of(2) + 16; // vector code may read so much more
            pages.extend((begin * 4 / PAGE..(end * 4).div_ceil(PAGE)).map(|page| 1 + page));
            let live = |weight: &f32| *weight < f32::INFINITY;
            let arcs = |weights: &[f32], dsts: &[u32]| -> Vec<u32> {
                weights.iter().zip(dsts).filter(|arc| live(arc.0)).map(|arc| *arc.1).collect()
            };
            now.extend(arcs(state.eps_weights, state.eps_dsts));
            next.extend(arcs(state.weights, state.dsts));
        }
        frames.push(pages);
        now = next;
    }
    frames
}

fn written(source: &VecSource, path: &Path) -> Graph {
    let graph = Graph::from_source(source, Columns::Labels).unwrap();
    graph.write_cache(path).unwrap();
    graph
}

/// A graph from whose start `arcs` arcs lead to states far from each other, from those one or two each, and so on, with
/// an epsilon arc here and there.
fn scattered(rng: &mut Rng, num_states: u64, arcs: u64) -> VecSource {
    let states = (0..num_states).map(|state| {
        let arcs = if state == 0 { arcs } else { 1 + rng.below(2) };
        let arcs = (0..arcs).map(|_| {
            let next = 1 + rng.below(num_states - 1);
            let epsilon = next > state && rng.below(3) == 0;
            let weight = if rng.below(20) == 0 { f32::INFINITY } else { rng.below(8) as f32 };
            arc(if epsilon { 0 } else { 1 + rng.below(COLUMNS as u64) as i32 }, 0, weight, next as u32)
        });
        (0.0, arcs.collect())
    });
    source(Some(0), states.collect())
}

#[test]
fn the_list_is_what_a_plain_walk_finds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("graph");
    let mut rng = Rng(7);
    // States with long headers and columns of 32 bits, and one that lies on many pages.
    let wide = |label: i32| {
        source(Some(0), vec![(0.0, vec![arc(label, 0, 0.5, 1)]), (0.0, vec![arc(0, 0, 0.5, 2)]), (0.0, vec![])])
    };
    let large = |arcs: u32| {
        let state = |arcs: u32| (0.0, (0..arcs).map(|at| arc(1 + at as i32 % 9, 0, 1.0, at % 3)).collect());
        source(Some(1), vec![state(5), state(arcs), state(9)])
    };
    let mut sources = vec![wide(1), wide(70_000), large(3_000), large(70_000)];
    for (num_states, arcs) in [(3, 2), (2_000, 20), (40_000, 3), (40_000, 12), (40_000, 60), (60_000, 400)] {
        sources.push(scattered(&mut rng, num_states, arcs));
    }
    let (mut whole, mut full) = (0, 0);
    for (number, source) in sources.iter().enumerate() {
        let graph = written(source, &path);
        let listed = listed(&path);
        let mut reached = BTreeSet::new();
        for pages in by_frames(&graph) {
            let before = reached.clone();
            reached.extend(pages);
            if reached.len() > MOST_PAGES {
                assert!(listed.len() == MOST_PAGES && listed.is_superset(&before), "graph {number}");
                assert!(listed.is_subset(&reached), "graph {number}");
                full += 1;
                break;
            }
        }
        if reached.len() <= MOST_PAGES {
            assert_eq!(listed, reached, "graph {number}");
            whole += 1;
        }
    }
    assert!(whole >= 4 && full >= 4, "{whole} lists are all there is, {full} are full");
}

/// The map whose pages are closed: where it begins, how many pages it has, and who searches.
static BEGIN: AtomicUsize = AtomicUsize::new(0);
static PAGES: AtomicUsize = AtomicUsize::new(0);
static SEARCHER: AtomicI32 = AtomicI32::new(0);
static TOUCHED: [AtomicBool; 4096] = [const { AtomicBool::new(false) }; 4096];
/// Whether the search has ended, so that others may open pages, too.
static SEARCHED: AtomicBool = AtomicBool::new(false);

fn thread() -> i32 {
    // SAFETY: no arguments.
    unsafe { libc::gettid() }
}

/// Notes the page that the searcher touched, and opens it. Who else touches one, as the check of the whole file touches all,
/// waits for the end of the search: a page that is open already would not be noted. Uses nothing that a signal handler
/// must not.
extern "C" fn touched(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives the information on the signal with it; the page lies in the map.
    unsafe {
        let page = ((*info).si_addr() as usize).wrapping_sub(BEGIN.load(SeqCst)) / PAGE;
        if page >= PAGES.load(SeqCst) {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL); // a fault of another kind: it comes again, and ends the test
            return;
        }
        if thread() == SEARCHER.load(SeqCst) {
            TOUCHED[page].store(true, SeqCst);
        } else {
            while !SEARCHED.load(SeqCst) {
                libc::poll(std::ptr::null_mut(), 0, 1); // a millisecond
            }
        }
        libc::mprotect((BEGIN.load(SeqCst) + page * PAGE) as *mut libc::c_void, PAGE, libc::PROT_READ);
    }
}

/// While it lives, pages are closed to all but the searcher.
struct Closed;

impl Drop for Closed {
    fn drop(&mut self) {
        SEARCHED.store(true, SeqCst);
    }
}

/// Has `touched` told of pages of the map that `graph` stands in. Only one graph at a time.
fn close(graph: &Graph, path: &Path) -> Closed {
    // Blocks begin with page 1.
    let begin = graph.words().as_ptr() as usize - PAGE;
    let pages = (fs::metadata(path).unwrap().len() as usize).div_ceil(PAGE);
    assert!(begin.is_multiple_of(PAGE) && pages <= TOUCHED.len());
    BEGIN.store(begin, SeqCst);
    PAGES.store(pages, SeqCst);
    SEARCHER.store(thread(), SeqCst);
    SEARCHED.store(false, SeqCst);
    let closed = Closed;
    // SAFETY: the handler is one that does what handlers may; the pages are those of the map, whose readers go on behind
    // it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = touched as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()), 0);
        assert_eq!(libc::mprotect(begin as *mut libc::c_void, pages * PAGE, libc::PROT_NONE), 0);
    }
    closed
}

fn touched_pages() -> BTreeSet<usize> {
    (0..TOUCHED.len()).filter(|&page| TOUCHED[page].load(SeqCst)).collect()
}

#[test]
fn the_first_frames_touch_nothing_that_is_not_listed() {
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng(11);
    for round in 0..6 {
        let path = dir.path().join(format!("graph{round}"));
        drop(written(&scattered(&mut rng, 100_000, 12 + 4 * round), &path));
        let graph = Arc::new(Graph::read(&path, Columns::Labels).unwrap());
        TOUCHED.iter().for_each(|page| page.store(false, SeqCst));
        let closed = close(&graph, &path);
        let mut search = DecoderConfig::default().search;
        (search.beam, search.max_active) = (1e6, 1_000_000);
        let config = DecoderConfig { search, backend: BackendChoice::Cpu, num_lanes: 1, ..DecoderConfig::default() };
        let mut channel = Decoder::new(Arc::clone(&graph), config).unwrap().new_channel().unwrap();
        channel.begin().unwrap();
        let rows = [0.0; COLUMNS];
        let (mut counts, listed) = (Vec::new(), listed(&path));
        for _ in 0..2 {
            channel.push(Rows::new(&rows, 1, COLUMNS, COLUMNS).unwrap()).unwrap();
            let (touched, listed) = (touched_pages(), &listed);
            assert!(touched.is_subset(listed), "round {round}: {:?} are not listed", &touched - listed);
            counts.push(touched.len());
        }
        drop((channel, closed));
        // It is a list of few among many, and the search has been seen.
        assert!(PAGES.load(SeqCst) > 5 * MOST_PAGES);
        assert!(counts[0] >= 5 && counts[1] >= 20, "round {round}: {counts:?} pages");
        graph.check_whole().unwrap();
    }
}
