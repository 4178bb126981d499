//! The fuzz targets without a fuzzer: each body of `fuzz/bodies` over the inputs of `fuzz/seeds`, and over changes of
//! them that a seed decides.
//!
//! `KOSHI_FUZZ_SECONDS=15` goes on for so long, `KOSHI_FUZZ_SEED=7` begins with another seed, `KOSHI_FUZZ_INPUT=file`
//! runs that one input. An input that fails is made smaller and left in `target/fuzz`; one that ends the process is
//! there as `NAME.last`.

#[path = "../fuzz/bodies/mod.rs"]
mod bodies;
mod common;

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use koshi::random::SplitMix;
use memmap2::MmapMut;

/// A longer input tells little more.
const MOST_BYTES: usize = 1 << 14;
/// An input that takes longer hangs, on the slowest of machines.
const HANGS: Duration = Duration::from_secs(300);
/// No input takes as much memory, nor do those of all targets together.
const MOST_MEMORY: u64 = 2 << 30;
/// Runs of a body that make an input smaller.
const MOST_TRIES: usize = 2_000;

/// `name: inputs`: so many changed inputs where no time is given.
macro_rules! targets {
    ($($name:ident: $inputs:literal,)*) => {
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        $(#[test] fn $name() { Target { name: stringify!($name), body: bodies::$name::run }.run($inputs) })*
    };
}

targets! {
    align_tables: 30_000,
    api_script: 1_000,
    arpa: 30_000,
    chain_files: 20_000,
    chain_script: 500,
    command_options: 2_000,
    config_bytes: 300,
    egs_read: 30_000,
    egs_script: 2_000,
    gpu_script: 40,
    graph_cache: 300,
    graph_read: 30_000,
    lattice_read: 50_000,
    table_archive: 20_000,
    table_lookup: 300,
    table_matrix: 20_000,
    table_names: 50_000,
    table_symbols: 50_000,
    table_transitions: 20_000,
    transducer_json: 300,
    transducer_script: 2_000,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name}={value}")))
}

#[test]
fn every_body_has_its_target() {
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    let declared: Vec<&str> = manifest.lines().filter_map(|line| line.strip_prefix("name = \"")).skip(1).collect();
    assert_eq!(declared, NAMES.iter().map(|name| format!("{name}\"")).collect::<Vec<_>>());
    for name in NAMES {
        let target = fs::read_to_string(root().join(format!("fuzz/fuzz_targets/{name}.rs"))).unwrap();
        assert!(target.contains(&format!("bodies::{name}::run(bytes)")), "{name}");
    }
}

struct Target {
    name: &'static str,
    body: fn(&[u8]) -> bool,
}

impl Target {
    fn run(&self, inputs: u64) {
        if self.name == "gpu_script" {
            common::soft::load(&common::with_kernels(""));
        }
        if let Some(path) = std::env::var_os("KOSHI_FUZZ_INPUT") {
            (self.body)(&fs::read(path).unwrap());
            return;
        }
        let kept = Kept::new(self.name);
        let seeds = self.seeds();
        for (path, bytes) in &seeds {
            // What a fault was found with may be refused since.
            let taken = self.one(&kept, bytes, &format!("{}", path.display()));
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(taken || name.starts_with("found") || name.starts_with("refused"), "{name} is refused");
        }
        let seeds: Vec<Vec<u8>> = seeds.into_iter().map(|(_, bytes)| bytes).collect();
        let start = Instant::now();
        let limit = number("KOSHI_FUZZ_SECONDS").map(Duration::from_secs);
        let seed = number("KOSHI_FUZZ_SEED").unwrap_or(1);
        let (mut tried, mut taken) = (0, 0);
        while limit.map_or(tried < inputs, |limit| start.elapsed() < limit) {
            let mut random = Random(SplitMix::new(seed.wrapping_shl(40) + tried));
            let bytes = random.input(&seeds);
            taken += u64::from(self.one(&kept, &bytes, &format!("KOSHI_FUZZ_SEED={seed}, input {tried}")));
            tried += 1;
        }
        let (name, stored, time) = (self.name, seeds.len(), start.elapsed());
        println!("{name}: {stored} stored and {tried} changed inputs, {taken} of them taken, in {time:.1?}");
    }

    /// Stored inputs, by name.
    fn seeds(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let folder = root().join("fuzz/seeds").join(self.name);
        let mut paths: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        assert!(!paths.is_empty(), "{} is empty", folder.display());
        paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }

    /// Whether the body takes it, `None` where it panics.
    fn takes(&self, bytes: &[u8]) -> Option<bool> {
        catch_unwind(AssertUnwindSafe(|| (self.body)(bytes))).ok()
    }

    fn fails(&self, bytes: &[u8]) -> bool {
        self.takes(bytes).is_none()
    }

    fn one(&self, kept: &Kept, bytes: &[u8], which: &str) -> bool {
        kept.keep(bytes);
        self.takes(bytes).unwrap_or_else(|| {
            let small = self.smaller(kept, bytes);
            let path = kept.folder.join(format!("{}.failed", self.name));
            fs::write(&path, &small).unwrap();
            panic!("{}: {which} fails; {} bytes that do are in {}", self.name, small.len(), path.display());
        })
    }

    /// Takes pieces out while the rest fails.
    fn smaller(&self, kept: &Kept, bytes: &[u8]) -> Vec<u8> {
        let (mut small, mut tries) = (bytes.to_vec(), 0);
        let mut piece = small.len().div_ceil(2);
        while piece > 0 {
            let mut at = 0;
            while at < small.len() && tries < MOST_TRIES {
                let mut without = small.clone();
                without.drain(at..(at + piece).min(small.len()));
                tries += 1;
                kept.keep(&without);
                if self.fails(&without) { small = without } else { at += piece }
            }
            piece /= 2;
        }
        small
    }
}

/// The input at work, in a file that outlives the process, and a watch on how long it takes.
struct Kept {
    folder: PathBuf,
    map: std::cell::RefCell<MmapMut>,
    count: Arc<AtomicU64>,
}

impl Kept {
    fn new(name: &'static str) -> Kept {
        let folder = root().join("target/fuzz");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{name}.last"));
        let _ = fs::remove_file(&path);
        let file: File = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(MOST_BYTES as u64 + 8).unwrap();
        // SAFETY: a new file, which nobody cuts short.
        let map = unsafe { MmapMut::map_mut(&file).unwrap().into() };
        let count = Arc::new(AtomicU64::new(0));
        std::thread::spawn({
            let count = Arc::downgrade(&count);
            move || watch(name, &count)
        });
        Kept { folder, map, count }
    }

    /// The file is the input, then zeros, then the input's length.
    fn keep(&self, bytes: &[u8]) {
        let mut map = self.map.borrow_mut();
        let len = bytes.len().min(MOST_BYTES);
        map[..len].copy_from_slice(&bytes[..len]);
        map[len..MOST_BYTES].fill(0);
        map[MOST_BYTES..].copy_from_slice(&(len as u64).to_le_bytes());
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Ends the process where one input takes too long, or where memory grows without a bound.
fn watch(name: &str, count: &Weak<AtomicU64>) {
    let (mut seen, mut since) = (0, Instant::now());
    while let Some(count) = count.upgrade() {
        if memory() > MOST_MEMORY {
            end_with(&format!("an input of {name}, or of a target beside it, takes {} bytes", memory()));
        }
        let now = count.load(Ordering::Relaxed);
        if now != seen {
            (seen, since) = (now, Instant::now());
        } else if since.elapsed() > HANGS {
            end_with(&format!("{name}: an input hangs; it is in target/fuzz/{name}.last"));
        }
        drop(count);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Not by eprintln!, whose words the test harness holds back.
fn end_with(words: &str) {
    let _ = std::io::stderr().write_all(format!("{words}\n").as_bytes());
    std::process::abort();
}

/// Bytes of memory that the process has in use.
fn memory() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    resident.unwrap_or(0u64) * 4096
}

struct Random(SplitMix);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        (self.0.next_bits() % bound.max(1) as u64) as usize
    }

    /// One of the seeds, changed in a few places; seldom bytes of no form at all.
    fn input(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        if self.below(16) == 0 {
            return (0..self.below(600)).map(|_| self.0.next_bits() as u8).collect();
        }
        let mut bytes = seeds[self.below(seeds.len())].clone();
        let changes = 1 + self.below(2) * self.below(4);
        for _ in 0..changes {
            self.change(&mut bytes, seeds);
        }
        bytes.truncate(MOST_BYTES);
        bytes
    }

    fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let start = self.below(len + 1);
        let most = if self.below(4) == 0 { len } else { 8 };
        start..(start + self.below(most + 1)).min(len)
    }

    fn change(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        const NUMBERS: [&str; 16] = [
            "0",
            "-1",
            "1",
            "2",
            "1e30",
            "-1e39",
            "nan",
            "inf",
            "-inf",
            "2147483647",
            "-2147483648",
            "2147483648",
            "4294967296",
            "18446744073709551615",
            "1e-45",
            "0.5",
        ];
        const WORDS: [u32; 10] = [0, 1, 2, u32::MAX, 1 << 31, i32::MAX as u32, 0x7f80_0000, 0x7fc0_0000, 1 << 24, 255];
        let at = self.below(bytes.len());
        match self.below(20) {
            0..4 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
            4 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b' ', b'\n'][self.below(7)],
            5 => drop(bytes.drain(self.range(bytes.len()))),
            6 => {
                let copy = bytes[self.range(bytes.len())].to_vec();
                bytes.splice(at..at, copy);
            }
            7 | 8 => {
                let other = &seeds[self.below(seeds.len())];
                let copy = other[self.range(other.len())].to_vec();
                let range = self.range(bytes.len());
                bytes.splice(range, copy);
            }
            9..12 if bytes.len() >= 4 => {
                let at = self.below(bytes.len() - 3);
                bytes[at..at + 4].copy_from_slice(&WORDS[self.below(WORDS.len())].to_le_bytes());
            }
            12..19 => {
                // A number of a text becomes another one.
                let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.".contains(byte);
                let Some(start) = (at..bytes.len()).find(|&at| is_part(&bytes[at])) else { return };
                let len = bytes[start..].iter().take_while(|byte| is_part(byte)).count();
                bytes.splice(start..start + len, NUMBERS[self.below(NUMBERS.len())].bytes());
            }
            _ => bytes.truncate(at),
        }
    }
}

#[test]
fn an_input_that_fails_is_found_and_made_small() {
    let target = Target {
        name: "planted",
        body: |bytes| {
            assert!(!bytes.contains(&0xff) || bytes.len() < 3);
            true
        },
    };
    let kept = Kept::new("planted");
    let long: Vec<u8> = (0..200).map(|at| if at == 77 { 0xff } else { 1 }).collect();
    assert!(!target.fails(&[0xff, 1]) && target.fails(&long));
    assert_eq!(target.smaller(&kept, &long).len(), 3);
    let failed = catch_unwind(AssertUnwindSafe(|| target.one(&kept, &long, "a planted one"))).unwrap_err();
    assert!(failed.downcast::<String>().unwrap().contains("3 bytes that do are in"));
}
