//! Cache files: a graph that is mapped is the graph that was written, and bytes that are not such a graph are found
//! out, without harm meanwhile.

mod common;
#[path = "common/openfst.rs"]
mod openfst;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use common::graph::{Rng, arc, assert_equal, assert_sound, source};
use common::random_search::{COLUMNS, random_config, random_graph, random_rows};
use koshi::Error;
use koshi::decoder::{BackendChoice, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph, VecSource};
use koshi::lattice::{Path, RawLattice};
use koshi::search::Rows;
use tempfile::TempDir;
use twox_hash::XxHash3_64;

const INF: f32 = f32::INFINITY;
/// Bytes of the head, and where its checksum stands in it.
const HEAD: usize = 1320;
const SUM: std::ops::Range<usize> = 16..24;
/// Where it lists pages.
const LIST: std::ops::Range<usize> = 128..1152;
const NUM_PARTS: usize = 7;

fn built(source: &VecSource, columns: Columns) -> Graph {
    Graph::from_source(source, columns).unwrap()
}

/// A cache file in a folder of its own.
struct Cache {
    path: PathBuf,
    _dir: TempDir,
}

impl Cache {
    fn of(graph: &Graph) -> Cache {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("graph.koshi");
        graph.write_cache(&path).unwrap();
        Cache { path, _dir: dir }
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    /// Reads a file of other bytes, in the folder of this one.
    fn read_other(&self, bytes: &[u8]) -> koshi::Result<Graph> {
        self.read_other_by(bytes, Columns::Labels)
    }

    /// The same by a rule for columns.
    fn read_other_by(&self, bytes: &[u8], columns: Columns) -> koshi::Result<Graph> {
        let path = self.path.with_extension("other");
        let _ = fs::remove_file(&path); // a new file: the one before may be mapped still
        fs::write(&path, bytes).unwrap();
        Graph::read(path, columns)
    }
}

fn same_again(graph: &Graph, columns: Columns) {
    let cache = Cache::of(graph);
    let mapped = Graph::read(&cache.path, columns).unwrap();
    mapped.check_whole().unwrap();
    mapped.check_so_far().unwrap();
    assert_equal(&mapped, graph);
    assert_sound(&mapped);
    // And once more from there.
    let again = cache.path.with_extension("again");
    mapped.write_cache(&again).unwrap();
    assert!(fs::read(again).unwrap() == cache.bytes());
}

#[test]
fn a_mapped_graph_is_the_graph_that_was_written() {
    let mut rng = Rng(1);
    for round in 0..60 {
        same_again(&built(&rng.graph(1 + round, 5), Columns::Labels), Columns::Labels);
        same_again(&built(&random_graph(&mut rng), Columns::Labels), Columns::Labels);
    }
}

#[test]
fn all_forms_of_blocks_and_labels() {
    let one_state = source(Some(0), vec![(0.0, vec![])]);
    let wide = source(Some(0), vec![(INF, vec![arc(70_000, 1, 0.5, 1)]), (0.5, vec![arc(1, 2, 0.0, 1)])]);
    let many = source(Some(0), vec![(0.0, (0..66_000).map(|at| arc(1 + at % 9, at % 3, 1.0, 0)).collect())]);
    let mixed = source(
        Some(0),
        vec![(INF, vec![arc(0, 3, 0.5, 1), arc(2, 1, 0.5, 1), arc(0, 0, INF, 0)]), (1.0, vec![arc(1, 0, -1.0, 0)])],
    );
    let deep: Vec<_> = (0..40).map(|at| (0.0, if at < 39 { vec![arc(0, 1, 0.25, at + 1)] } else { vec![] })).collect();
    for source in [one_state, wide, many, mixed, source(Some(0), deep)] {
        same_again(&built(&source, Columns::Labels), Columns::Labels);
    }
    // Input labels that take 0, 1, 2 and 4 bytes, output labels of 4.
    for (labels, columns) in [(7, 7), (80, 7), (80_000, 300), (80_000, 7), (80_000, 1)] {
        let table = Columns::Table((0..=labels).map(|label| label % columns).collect());
        let arcs = [1, labels / 2, labels].map(|label| arc(label, 70_000 * (label % 2), 0.5, 0)).to_vec();
        same_again(&built(&source(Some(0), vec![(0.0, arcs)]), table.clone()), table);
    }
}

/// Lattice and best path of `rows`, or why there are none. Some partial results are asked for on the way.
fn search(graph: &Arc<Graph>, config: &DecoderConfig, rows: &[f32]) -> koshi::Result<(RawLattice, Path)> {
    let mut channel = Decoder::new(Arc::clone(graph), *config)?.new_channel()?;
    channel.begin()?;
    for row in rows.chunks(2 * COLUMNS as usize) {
        channel.push(Rows::new(row, row.len() / COLUMNS as usize, COLUMNS as usize, COLUMNS as usize)?)?;
        channel.partial()?;
    }
    channel.finish()?;
    Ok((channel.lattice(true)?, channel.best_path(true)?))
}

#[test]
fn searches_find_the_same() {
    common::gpu();
    for case in 0..150 {
        let mut rng = Rng(900 + case);
        let graph = Arc::new(built(&random_graph(&mut rng), Columns::Labels));
        let rows = random_rows(&mut rng, 1 + case % 12);
        let config = DecoderConfig {
            search: random_config(&mut rng),
            backend: if case % 5 == 0 { BackendChoice::Cuda } else { BackendChoice::Cpu },
            num_lanes: 1,
            ..DecoderConfig::default()
        };
        let cache = Cache::of(&graph);
        let mapped = Arc::new(Graph::read(&cache.path, Columns::Labels).unwrap());
        match (search(&mapped, &config, &rows), search(&graph, &config, &rows)) {
            (Ok(mapped), Ok(built)) => assert_eq!(mapped, built, "case {case}"),
            (mapped, built) => {
                let [mapped, built] = [mapped, built].map(|found| found.map(drop).map_err(|error| error.to_string()));
                assert_eq!(mapped, built, "case {case}");
            }
        }
    }
}

/// The same over a graph that may be damaged: a look-up out of bounds is a panic, which the C face answers with
/// KOSHI_E_INTERNAL.
fn quiet_search(graph: &Arc<Graph>, config: &DecoderConfig, rows: &[f32]) -> koshi::Result<(RawLattice, Path)> {
    let panicked = |_| Err(Error::Internal("a panic".into()));
    catch_unwind(AssertUnwindSafe(|| search(graph, config, rows))).unwrap_or_else(panicked)
}

/// Makes the checksums of a file right again, as somebody who means harm would.
fn sign(bytes: &mut [u8]) {
    for part in 0..NUM_PARTS {
        let at = HEAD - 24 * (NUM_PARTS - part);
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
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

/// Whether byte `at` is worth damaging: bytes of the head, and few of those that are 0 in the long list and in parts.
fn says_something(good: &[u8], at: usize) -> bool {
    let zeros = LIST.start + 32..LIST.end;
    good[at] != 0 || at < HEAD && !zeros.contains(&at) || at.is_multiple_of(64)
}

/// A graph with epsilon arcs of two levels, mixed with others, and labels of all kinds.
fn tangle() -> VecSource {
    source(
        Some(0),
        vec![
            (INF, vec![arc(0, 4, 0.5, 1), arc(1, 0, 0.25, 0), arc(2, 3, 0.5, 2), arc(3, 0, INF, 1)]),
            (0.5, vec![arc(0, 0, -0.25, 2), arc(6, 1, 0.5, 1), arc(5, 9, 0.5, 0)]),
            (0.0, vec![arc(4, 0, 1.0, 2), arc(2, 2, 0.5, 0)]),
        ],
    )
}

/// The same with a label that is too large for 16 bits.
fn long_tangle() -> VecSource {
    let mut source = tangle();
    source.states[1].1[2].olabel = 70_000;
    source
}

/// Two labels to a column.
fn pairs() -> Columns {
    Columns::Table(vec![-1, 0, 0, 1, 1, 2, 2])
}

#[test]
fn every_damaged_byte_is_found() {
    for (source, columns) in [(tangle(), Columns::Labels), (tangle(), pairs()), (long_tangle(), pairs())] {
        finds_every_damaged_byte(&built(&source, columns.clone()), &columns);
    }
}

fn finds_every_damaged_byte(graph: &Graph, columns: &Columns) {
    let cache = Cache::of(graph);
    let good = cache.bytes();
    let rows = random_rows(&mut Rng(5), 6);
    let config = DecoderConfig { backend: BackendChoice::Cpu, num_lanes: 1, ..DecoderConfig::default() };
    let mut of_no_part = 0;
    for at in (0..good.len()).filter(|&at| says_something(&good, at)) {
        for flip in [1u8, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= flip;
            let Ok(read) = cache.read_other_by(&bytes, columns.clone()) else { continue };
            let read = Arc::new(read);
            // Searched before the check has ended, or while it goes on: nothing is handed out.
            let found = quiet_search(&read, &config, &rows);
            match read.check_whole() {
                Ok(()) => {
                    // The bytes between the parts.
                    of_no_part += 1;
                    assert!(at >= HEAD && good[at] == 0 && found.is_ok(), "byte {at}");
                }
                Err(error) => {
                    assert!(matches!(error.root(), Error::Format { .. }), "byte {at}: {error}");
                    assert!(found.is_err(), "byte {at}");
                    assert!(read.check_so_far().is_err());
                }
            }
        }
    }
    assert!(of_no_part > 100);
}

#[test]
fn a_file_cut_short_at_any_byte_is_refused() {
    let cache = Cache::of(&built(&tangle(), Columns::Labels));
    let good = cache.bytes();
    for len in (0..good.len()).filter(|len| *len < 200 || len % 7 == 0) {
        assert!(cache.read_other(&good[..len]).is_err(), "{len} bytes");
    }
    assert!(cache.read_other(&[&good[..], b"\0"].concat()).is_err());
}

/// Bytes that somebody changed and signed: what they say is refused, or is a graph that can be searched.
#[test]
fn damage_under_a_right_checksum_does_no_harm() {
    for (source, columns) in [(tangle(), Columns::Labels), (tangle(), pairs()), (long_tangle(), pairs())] {
        withstands_damage(&built(&source, columns.clone()), &columns);
    }
}

fn withstands_damage(graph: &Graph, columns: &Columns) {
    let cache = Cache::of(graph);
    let good = cache.bytes();
    let rows = random_rows(&mut Rng(6), 6);
    let config = DecoderConfig { backend: BackendChoice::Cpu, num_lanes: 1, ..DecoderConfig::default() };
    let (mut refused, mut fine) = (0, 0);
    for at in (24..good.len()).filter(|&at| good[at] != 0 || at < HEAD && says_something(&good, at)) {
        for value in [0, 1, 2, 0x7f, 0x80, 0xff, good[at] ^ 4, good[at].wrapping_add(1)] {
            let mut bytes = good.clone();
            if bytes[at] == value {
                continue;
            }
            bytes[at] = value;
            sign(&mut bytes);
            let Ok(read) = cache.read_other_by(&bytes, columns.clone()) else {
                refused += 1;
                continue;
            };
            let read = Arc::new(read);
            let found = quiet_search(&read, &config, &rows);
            match read.check_whole() {
                Ok(()) => {
                    assert_sound(&read);
                    let good = found.map_or_else(|error| matches!(error.root(), Error::NoTokens { .. }), |_| true);
                    assert!(good, "byte {at}");
                    fine += 1;
                }
                Err(error) => {
                    assert!(matches!(error.root(), Error::Graph(_)), "byte {at}: {error}");
                    assert!(found.is_err(), "byte {at}");
                    refused += 1;
                }
            }
        }
    }
    // A changed weight, label or final cost may stand; places, counts and levels may not.
    assert!(refused > 500 && fine > 100, "{refused} refused, {fine} fine");
}

#[track_caller]
fn refused(read: koshi::Result<Graph>, because: &str) {
    let error = read.unwrap_err();
    assert!(error.chain().contains(because), "{because:?} is not in {:?}", error.chain());
}

#[test]
fn another_rule_for_columns_is_refused() {
    let graph = source(Some(0), vec![(0.0, vec![arc(1, 1, 0.5, 0), arc(2, 1, 0.5, 0)])]);
    let [one, two] = [vec![-1, 0, 1], vec![-1, 1, 0]].map(Columns::Table);
    let cache = Cache::of(&built(&graph, one.clone()));
    same_again(&built(&graph, one.clone()), one);
    refused(
        Graph::read(&cache.path, two),
        "made with a table of 3 columns, not with a table of 3 columns, another one",
    );
    refused(Graph::read(&cache.path, Columns::Labels), "not with label i reads column i - 1");
    let cache = Cache::of(&built(&graph, Columns::Labels));
    refused(Graph::read(&cache.path, Columns::Table(vec![-1, 0, 1])), "made with label i reads column i - 1");
}

#[test]
fn other_versions_and_machines_are_named() {
    let cache = Cache::of(&built(&tangle(), Columns::Labels));
    let with = |at: usize, byte: u8| {
        let mut bytes = cache.bytes();
        bytes[at] = byte;
        sign(&mut bytes);
        cache.read_other(&bytes)
    };
    refused(with(8, 2), "version 2, not 3");
    refused(with(8, 4), "version 4, not 3");
    refused(with(12, 9), "order of bytes");
    refused(with(80, 77), "do not fit together");
    assert!(matches!(with(8, 2).unwrap_err().root(), Error::Unsupported(_)));
    // Only a file by its name can be mapped.
    refused(Graph::from_memory(&cache.bytes(), Columns::Labels), "cache");
    refused(Graph::open(&format!("{}:0", cache.path.display()), Columns::Labels), "a graph cache can be read from");
    assert!(Graph::open(&format!("{}:8", cache.path.display()), Columns::Labels).is_err());
}

/// A list of pages under a right checksum: pages that the file does not have, or has twice, are refused; others may be
/// of no use, but do no harm.
#[test]
fn pages_that_are_listed_are_of_the_file() {
    let graph = built(&tangle(), Columns::Labels);
    let cache = Cache::of(&graph);
    let pages = cache.bytes().len().div_ceil(4096) as u32;
    let with = |runs: &[[u32; 2]]| {
        let mut bytes = cache.bytes();
        assert_eq!(bytes[LIST.start..LIST.start + 12], [1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], "the blocks' page");
        for (run, place) in runs.iter().zip(bytes[LIST].chunks_exact_mut(8)) {
            place.copy_from_slice(&run.map(u32::to_le_bytes).concat());
        }
        sign(&mut bytes);
        cache.read_other(&bytes)
    };
    for runs in [&[][..], &[[0, pages]], &[[0, 0]], &[[0, 1], [9, 0], [2, 1]], &[[pages - 1, 1], [u32::MAX, 0]]] {
        let read = with(runs).unwrap();
        read.check_whole().unwrap();
        assert_equal(&read, &graph);
    }
    for runs in [
        &[[0, pages + 1]][..],
        &[[pages, 1]],
        &[[1, u32::MAX]],
        &[[u32::MAX, u32::MAX]],
        &[[2, 1], [1, 1]],
        &[[1, 2], [2, 1]],
    ] {
        refused(with(runs), "do not fit together");
    }
}

#[test]
fn a_cache_takes_the_place_of_a_file_whole_or_not_at_all() {
    let [one, two] = [tangle(), random_graph(&mut Rng(8))].map(|source| built(&source, Columns::Labels));
    let dir = tempfile::tempdir().unwrap();
    let names = || {
        let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let (path, link) = (dir.path().join("graph"), dir.path().join("link"));
    one.write_cache(&path).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    // Replaced while it is in use, through a link: who has it keeps it.
    let held = Graph::read(&path, Columns::Labels).unwrap();
    two.write_cache(&link).unwrap();
    held.check_whole().unwrap();
    assert_equal(&held, &one);
    assert_equal(&Graph::read(&path, Columns::Labels).unwrap(), &two);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(names(), ["graph", "link"]);
    for there in [dir.path().to_path_buf(), PathBuf::from("/dev/null")] {
        assert!(matches!(one.write_cache(there).unwrap_err(), Error::Argument(_)));
    }
    assert!(fs::metadata("/dev/null").is_ok_and(|null| !null.is_file()));
    assert!(matches!(one.write_cache(dir.path().join("none/graph")).unwrap_err(), Error::Io { .. }));
    assert_eq!(names(), ["graph", "link"]);
}

/// Processes of containers have the same number again and again: what one that was killed has left does not count.
#[test]
fn a_file_that_a_killed_process_left_is_in_nobodys_way() {
    let graph = built(&tangle(), Columns::Labels);
    let dir = tempfile::tempdir().unwrap();
    // Names in the form of those under which files are made, for all that this process may take.
    for count in 0..2000 {
        fs::write(dir.path().join(format!("graph.{}.{count}.new", std::process::id())), "left").unwrap();
    }
    let path = dir.path().join("graph");
    graph.write_cache(&path).unwrap();
    assert_equal(&Graph::read(&path, Columns::Labels).unwrap(), &graph);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2001);
}

/// Run by the next test in a process of its own, where no file may grow over 4,096 bytes.
#[test]
#[ignore = "the next test runs it"]
fn a_write_that_fails() {
    let path = PathBuf::from(std::env::var_os("KOSHI_TEST_CACHE").unwrap());
    // SAFETY: changes how this process, made for it, meets a limit.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: 4096, rlim_max: 4096 };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    let error = built(&random_graph(&mut Rng(8)), Columns::Labels).write_cache(&path).unwrap_err();
    assert!(matches!(error.root(), Error::Io { .. }), "{error}");
}

#[test]
fn a_failed_write_leaves_what_was_there() {
    let cache = Cache::of(&built(&tangle(), Columns::Labels));
    let before = cache.bytes();
    let path = cache.path.to_str().unwrap().to_string();
    common::soft::pass_alone("a_write_that_fails", &[("KOSHI_TEST_CACHE", path)]);
    assert!(cache.bytes() == before);
    assert_eq!(fs::read_dir(cache.path.parent().unwrap()).unwrap().count(), 1);
}

#[test]
fn what_is_dropped_at_once_is_not_checked_to_its_end() {
    let cache = Cache::of(&built(&Rng(3).graph(20_000, 8), Columns::Labels));
    for _ in 0..20 {
        drop(Graph::read(&cache.path, Columns::Labels).unwrap());
    }
}

/// The memory of a mapped graph is the file's, so that processes share it; what the check has read of labels is given
/// back.
#[cfg(target_os = "linux")]
#[test]
fn a_mapped_graph_takes_no_memory_of_its_own() {
    let graph = built(&Rng(3).graph(100_000, 8), Columns::Labels);
    let cache = Cache::of(&graph);
    let mapped = Graph::read(&cache.path, Columns::Labels).unwrap();
    mapped.check_whole().unwrap();
    let at = mapped.words().as_ptr() as usize;
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = maps.lines().skip_while(|line| {
        let range = line.split(' ').next().unwrap().split_once('-');
        let [Some(from), Some(to)] = [range.map(|range| range.0), range.map(|range| range.1)]
            .map(|number| number.and_then(|number| usize::from_str_radix(number, 16).ok()))
        else {
            return true;
        };
        !(from..to).contains(&at)
    });
    let line = lines.next().unwrap();
    assert!(line.contains(" r--") && line.ends_with("graph.koshi"), "{line}");
    let resident = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
    let resident = 1024 * resident.trim().trim_end_matches(" kB").parse::<usize>().unwrap();
    let blocks = size_of_val(mapped.words());
    // The kernel brings in some pages around the one that is asked for.
    let some = 512 << 10;
    assert!(cache.bytes().len() > blocks + 2 * some, "the labels are large enough to be seen");
    assert!(resident <= blocks + some, "{resident} bytes for {blocks} of blocks");
}

fn koshi_graph(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_koshi-graph")).arg("--print-args=false").args(arguments).output().unwrap()
}

#[test]
fn the_command_describes_checks_and_writes() {
    let dir = tempfile::tempdir().unwrap();
    let [fst, cache] = ["HCLG.fst", "HCLG.koshi"].map(|name| dir.path().join(name));
    let [fst, cache] = [&fst, &cache].map(|path| path.to_str().unwrap());
    fs::write(fst, openfst::vector(&tangle(), &openfst::Form::default())).unwrap();
    let text = "states 3\narcs 9\nepsilon-arcs 2\ninfinite-arcs 1\nfinal-states 2\nunreachable-states 0\n\
                dead-end-states 0\nlongest-epsilon-path 2\nmax-ilabel 6\nmax-olabel 9\ncolumns 6\n";
    let made = koshi_graph(&["cache", fst, cache]);
    assert!(made.status.success() && made.stdout.is_empty() && made.stderr.is_empty(), "{made:?}");
    for graph in [fst, cache] {
        let info = koshi_graph(&["info", graph]);
        assert!(info.status.success() && info.stderr.is_empty(), "{info:?}");
        let printed = String::from_utf8(info.stdout).unwrap();
        let bytes: u64 = printed.strip_prefix(text).unwrap().strip_prefix("bytes ").unwrap().trim().parse().unwrap();
        assert!(bytes > 100);
        assert!(koshi_graph(&["check", graph]).status.success());
    }
    let piped = koshi_graph(&["info", &format!("cat '{cache}' |")]);
    assert!(!piped.status.success() && String::from_utf8_lossy(&piped.stderr).contains("from a file of its own only"));
    let mut bytes = fs::read(cache).unwrap();
    bytes[4096] ^= 1;
    fs::write(cache, bytes).unwrap();
    let stderr = String::from_utf8(koshi_graph(&["check", cache]).stderr).unwrap();
    assert_eq!(stderr.matches(&format!("{cache}: byte 4096: state blocks are not")).count(), 1, "{stderr}");
    assert_eq!(stderr.matches(&format!("{cache}: ")).count(), 1, "{stderr}");
    // A cache file is mapped: a stream cannot be.
    let streamed = koshi_graph(&["cache", fst, "-"]);
    assert!(String::from_utf8_lossy(&streamed.stderr).contains("has a name, not -"), "{streamed:?}");
    assert!(!PathBuf::from("-").exists());
    for words in [
        &["cache", fst, "-"][..],
        &["check", cache],
        &["info", cache],
        &["check", "/nonexistent"],
        &["check"],
        &["chew", fst],
    ] {
        let failed = koshi_graph(words);
        assert_eq!(failed.status.code(), Some(1));
        assert!(failed.stdout.is_empty() && !failed.stderr.is_empty());
    }
}

/// A state that an arc says has no epsilon arcs, and that leads back to that arc along epsilon arcs all the same: while the
/// file is still being checked the search must not walk in that circle.
#[test]
fn a_circle_of_epsilon_arcs_in_a_file_that_is_being_checked_is_an_error() {
    let mut states = vec![
        (0.0, vec![arc(1, 0, 0.0, 1)]),
        (0.0, vec![arc(1, 0, 0.0, 1), arc(0, 0, -1.0, 2)]),
        (0.0, vec![arc(1, 0, 0.0, 1), arc(0, 0, 0.0, 3)]),
        (0.0, vec![arc(1, 0, 0.0, 1)]),
    ];
    // They keep the check busy.
    let many = 200_000u32;
    states.extend(
        (0..many).map(|at| (0.0, (1..9).map(|label| arc(label, 0, 0.5, (at * 7 + label as u32) % many)).collect())),
    );
    let graph = built(&source(Some(0), states), Columns::Labels);
    let ids: Vec<u32> = graph.ids().take(4).collect();
    let at = (graph.state(ids[2]).eps_dsts.as_ptr() as usize - graph.words().as_ptr() as usize) / 4;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("graph.koshi");
    graph.write_cache(&path).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    // Blocks begin behind a page.
    bytes[4096 + 4 * at..][..4].copy_from_slice(&ids[1].to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let graph = Arc::new(Graph::read(&path, Columns::Labels).unwrap());
    let config = DecoderConfig { num_threads: 1, backend: BackendChoice::Cpu, ..DecoderConfig::default() };
    let mut channel = Decoder::new(graph, config).unwrap().new_channel().unwrap();
    channel.begin().unwrap();
    let pushed = channel.push(Rows::dense(&[0.0; 16], 8).unwrap());
    assert!(pushed.is_err());
}
