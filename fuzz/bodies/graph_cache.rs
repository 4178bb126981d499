//! Bytes that change a graph's cache file, its checksums made right again or not: it is refused, or searched with a
//! status for each call, and a search that ends well is over a graph whose whole check says so.
//!
//! The first byte says whether to sign, and whether input labels stand for columns or share them in pairs; then come
//! places (two bytes) and what is written there (one).

use std::cell::Cell;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;

use koshi::ffi::*;
use koshi::graph::{Columns, Graph};
use twox_hash::XxHash3_64;

use super::face::{Alone, DIM, config, free, free_made, row, status, tangle};

/// Bytes of the head, and where its checksum stands in it.
const HEAD: usize = 1320;
const SUM: std::ops::Range<usize> = 16..24;
const NUM_PARTS: usize = 7;
const INTERNAL: koshi_status = koshi_status_code::KOSHI_E_INTERNAL as koshi_status;

/// A rule for columns by which labels have ranks.
const PAIRS: [i32; 5] = [-1, 0, 0, 1, 1];

fn good(pairs: bool) -> &'static [u8] {
    static GOOD: [OnceLock<Vec<u8>>; 2] = [const { OnceLock::new() }; 2];
    GOOD[usize::from(pairs)].get_or_init(|| {
        let columns = if pairs { Columns::Table(PAIRS.to_vec()) } else { Columns::Labels };
        let graph = Graph::from_source(&tangle(), columns).expect("a good graph");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("graph");
        graph.write_cache(&path).expect("a file");
        std::fs::read(path).expect("the file")
    })
}

/// Makes the checksums of a file right again, as somebody who means harm would.
fn sign(bytes: &mut [u8]) {
    for part in 0..NUM_PARTS {
        let at = HEAD - 24 * (NUM_PARTS - part);
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes")) as usize;
        let (begin, len) = (number(at), number(at + 8));
        if let Some(data) = begin.checked_add(len).and_then(|end| bytes.get(begin..end)) {
            let sum = XxHash3_64::oneshot(data);
            bytes[at + 16..at + 24].copy_from_slice(&sum.to_le_bytes());
        }
    }
    bytes[SUM].fill(0);
    let sum = XxHash3_64::oneshot(&bytes[..HEAD]);
    bytes[SUM].copy_from_slice(&sum.to_le_bytes());
}

pub fn run(bytes: &[u8]) -> bool {
    let pairs = bytes.first().is_some_and(|first| first / 4 % 2 == 1);
    let mut file = good(pairs).to_vec();
    let len = file.len();
    for change in bytes.get(1..).unwrap_or_default().chunks_exact(3) {
        file[usize::from(u16::from_le_bytes([change[0], change[1]])) % len] = change[2];
    }
    if bytes.first().is_some_and(|first| first % 4 != 0) {
        sign(&mut file);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("graph");
    std::fs::write(&path, &file).expect("a file");
    let alone = Alone::new();
    let read = search(&path, pairs);
    alone.end();
    read
}

/// What a call makes. A look-up out of bounds before the check has ended is answered by KOSHI_E_INTERNAL.
fn made<T>(function: impl FnOnce(*mut *mut T, *mut *mut koshi_error) -> koshi_status) -> Option<*mut T> {
    let mut made: *mut T = ptr::null_mut();
    let status = status(|err| function(&mut made, err));
    assert_eq!(made.is_null(), status < 0);
    (!made.is_null()).then_some(made)
}

/// End points by words, which are looked up behind each frame, and never come.
unsafe fn rules(decoder: *mut koshi_decoder) {
    let mut config = MaybeUninit::<koshi_endpoint_config>::zeroed();
    let size = size_of::<koshi_endpoint_config>();
    // SAFETY: room for the struct, a list with its length.
    unsafe {
        status(|err| koshi_endpoint_config_init(config.as_mut_ptr(), size, err));
        let mut config = config.assume_init();
        config.silence = koshi_silence::KOSHI_SILENCE_OLABELS as i32;
        let silence = [2];
        status(|err| koshi_decoder_set_endpoint_rules(decoder, &config, silence.as_ptr(), 1, err));
    }
}

fn search(path: &Path, pairs: bool) -> bool {
    let path = CString::new(path.to_str().expect("a name")).expect("a name");
    // SAFETY: live handles, arrays with their lengths, places for results.
    unsafe {
        let read = |out, err| match pairs {
            true => koshi_graph_read_mapped(path.as_ptr(), PAIRS.as_ptr(), PAIRS.len(), out, err),
            false => koshi_graph_read(path.as_ptr(), ptr::null(), out, err),
        };
        let Some(graph) = made(read) else {
            return false;
        };
        let config = config();
        if let Some(decoder) = made(|out, err| koshi_decoder_new(graph, &config, out, err)) {
            let channel = made(|out, err| koshi_channel_new(decoder, out, err)).expect("a channel");
            rules(decoder);
            let all: Vec<f32> = (0..6).flat_map(row).collect();
            let internal = Cell::new(false);
            let status = |function: &mut dyn FnMut(*mut *mut koshi_error) -> koshi_status| {
                let status = status(function);
                internal.set(internal.get() || status == INTERNAL);
                status
            };
            let mut good = status(&mut |err| koshi_channel_begin(channel, err)) == 0;
            good &= status(&mut |err| koshi_channel_push(channel, all.as_ptr(), 6, DIM, DIM, err)) == 0;
            // Partial results follow links whose arcs nobody may have checked yet.
            let (mut stable, mut end) = (0, MaybeUninit::<koshi_endpoint>::zeroed());
            for from in [0, 1, usize::MAX] {
                let mut words = ptr::null_mut();
                status(&mut |err| koshi_channel_partial_words(channel, from, &mut words, &mut stable, err));
                free(koshi_path_free, words);
            }
            free_made(koshi_path_free, made(|out, err| koshi_channel_partial(channel, out, &mut stable, err)));
            let size = size_of::<koshi_endpoint>();
            status(&mut |err| koshi_channel_endpoint(channel, end.as_mut_ptr(), size, err));
            free_made(koshi_path_free, made(|out, err| koshi_channel_best_path(channel, 1, out, err)));
            koshi_channel_final_relative_cost(channel);
            good &= status(&mut |err| koshi_channel_finish(channel, err)) == 0;
            let lattice = made(|out, err| koshi_channel_lattice(channel, 0, out, err));
            let path = made(|out, err| koshi_channel_best_path(channel, 0, out, err));
            good &= lattice.is_some() && path.is_some();
            let check = status(&mut |err| koshi_graph_check(graph, err));
            assert!(check == 0 || !good, "a damaged graph gave results");
            assert!(check != 0 || !internal.get(), "a graph that passed its check was searched out of bounds");
            free_made(koshi_lattice_free, lattice);
            free_made(koshi_path_free, path);
            free(koshi_channel_free, channel);
            free(koshi_decoder_free, decoder);
        }
        free(koshi_graph_free, graph);
        true
    }
}
