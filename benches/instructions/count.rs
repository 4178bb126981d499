//! Instructions and mispredicted branches of small fixed works, as callgrind counts them, held to `baseline.txt`.
//! Unlike times they are the same in each run, also on a busy machine. x86-64, Linux and valgrind only.
//!
//! `cargo run --release --example instructions` fails where a count has grown past its bound, and tells where one has shrunk;
//! `KOSHI_BLESS=1` writes the file anew. `benches/README.md` says what the bounds stand on.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use koshi::decoder::{BackendChoice, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::lattice::DeterminizeConfig;
use koshi::search::{Rows, SearchConfig};
use koshi::table::{Matrix, MatrixHolder, SequentialReader, Transitions};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// By how much of the baseline a count may grow.
const BOUND: f64 = 0.03;
/// The C library's plain copying, whatever the processor (of which valgrind shows a part) and its caches.
const TUNABLES: &str = "glibc.cpu.hwcaps=-AVX_Fast_Unaligned_Load,-AVX,-AVX2,-AVX512F,-AVX512VL,-BMI2,-ERMS,-FSRM:\
    glibc.cpu.x86_non_temporal_threshold=0x1000000:glibc.cpu.x86_rep_movsb_threshold=0x1000000";
const BLESS: &str = "KOSHI_BLESS=1 cargo run --release --example instructions";
const WORKS: [&str; 3] = ["load", "typical", "wide"];

fn search(work: &str) -> SearchConfig {
    let (beam, lattice_beam, max_active, acoustic_scale) = match work {
        "wide" => (17.0, 10.0, i32::MAX as u32, 1.0 / 15.0),
        _ => (13.0, 6.0, 7_000, 1.0 / 12.0),
    };
    SearchConfig { beam, lattice_beam, max_active, acoustic_scale, ..SearchConfig::default() }
}

/// What is counted, and nothing else: callgrind switches on where this function begins.
#[inline(never)]
fn counted<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

/// A work by its name, in the process that is watched. Gives a number that tells what was done: arcs of the lattices,
/// or of the graph.
fn run(work: &str) -> Result<usize> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/prompts");
    let file = |name: &str| data.join(name).display().to_string();
    let transitions = Arc::new(Transitions::read_file(&file("trans.mdl"))?);
    let bytes = std::fs::read(data.join("HCLG.fst"))?;
    let load = || Graph::from_memory(&bytes, Columns::Transitions(Arc::clone(&transitions)));
    if work == "load" {
        return Ok(counted(load)?.num_arcs() as usize);
    }
    let graph = Arc::new(load()?);
    let mut utterances: Vec<Matrix<f32>> = Vec::new();
    let mut reader = SequentialReader::<MatrixHolder<f32>>::open(&format!("ark:{}", file("loglikes.ark")))?;
    while let Some((_, matrix)) = reader.next()? {
        utterances.push(matrix);
    }
    let search = search(work);
    let determinize = DeterminizeConfig {
        beam: search.lattice_beam,
        acoustic_scale: search.acoustic_scale,
        ..DeterminizeConfig::default()
    };
    // What depends on the machine is not counted: its processors, a driver for GPUs.
    let config = DecoderConfig { search, num_threads: 1, backend: BackendChoice::Cpu, ..DecoderConfig::default() };
    let decoder = Decoder::new(graph, config)?;
    counted(|| {
        let mut channel = decoder.new_channel()?;
        channel.set_determinize(Some(transitions), &determinize)?;
        let mut arcs = 0;
        for matrix in &utterances {
            channel.begin()?;
            channel.push(Rows::dense(matrix.data(), matrix.cols())?)?;
            channel.finish()?;
            arcs += channel.compact_lattice(true)?.lattice.num_arcs();
        }
        Ok(arcs)
    })
}

/// Names and values, such as `typical.instructions`.
type Counts = BTreeMap<String, u64>;

/// Runs this program once more for a work, under callgrind.
fn count(work: &str, folder: &Path, counts: &mut Counts) -> Result<()> {
    let out = folder.join(work);
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--branch-sim=yes", "--toggle-collect=instructions::counted*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .arg(work)
        .env("GLIBC_TUNABLES", TUNABLES)
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    if !ran.status.success() {
        return Err(format!("valgrind: {}\n{}", ran.status, String::from_utf8_lossy(&ran.stderr)).into());
    }
    let text = std::fs::read_to_string(out)?;
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).ok_or(format!("no line {name}"));
    let totals: Vec<u64> =
        line("totals: ")?.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
    let event = |name: &str| {
        let at = line("events: ")?.split_whitespace().position(|event| event == name);
        at.and_then(|at| totals.get(at).copied()).ok_or(format!("no event {name}"))
    };
    let arcs = String::from_utf8(ran.stdout)?.trim().parse()?;
    counts.insert(format!("{work}.arcs"), arcs);
    counts.insert(format!("{work}.instructions"), event("Ir")?);
    counts.insert(format!("{work}.mispredicted"), event("Bcm")? + event("Bim")?);
    Ok(())
}

/// The first line that a program prints of itself.
fn version(program: &str) -> Result<String> {
    let out = Command::new(program).arg("--version").output().map_err(|error| format!("{program}: {error}"))?;
    Ok(String::from_utf8(out.stdout)?.lines().next().unwrap_or_default().to_string())
}

/// What counts depend on beside the sources.
fn tools() -> Result<[String; 3]> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    Ok([version(&rustc)?, version("valgrind")?, version("ldd")?])
}

fn baseline() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/instructions/baseline.txt")
}

fn write(tools: &[String], counts: &Counts) -> Result<()> {
    let mut text = format!("# Written by {BLESS}\n");
    for tool in tools {
        writeln!(text, "# {tool}")?;
    }
    for (name, count) in counts {
        writeln!(text, "{name} {count}")?;
    }
    Ok(std::fs::write(baseline(), text)?)
}

/// Holds the counts to the baseline's. Gives what is wrong, and what is to be told.
fn compare(before: &Counts, now: &Counts) -> (Vec<String>, Vec<String>) {
    let (mut wrong, mut told) = (Vec::new(), Vec::new());
    if !before.keys().eq(now.keys()) {
        wrong.push("the baseline counts other things".to_string());
    }
    for (name, &now) in now {
        let Some(&before) = before.get(name) else { continue };
        let change = now as f64 / before as f64 - 1.0;
        let line = format!("{name}: {before} before, {now} now ({:+.2} %)", 100.0 * change);
        if name.ends_with(".arcs") && now != before {
            wrong.push(format!("{line}: not the same work"));
        } else if change > BOUND {
            wrong.push(format!("{line}, at most {:+.0} % is allowed", 100.0 * BOUND));
        } else if change < -BOUND {
            told.push(format!("{line}: the baseline is due to be written anew by {BLESS}"));
        } else {
            told.push(line);
        }
    }
    (wrong, told)
}

fn hold() -> Result<bool> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the baseline holds counts of x86-64 Linux".into());
    }
    let folder = tempfile::tempdir()?;
    let (tools, mut now) = (tools()?, Counts::new());
    for work in WORKS {
        count(work, folder.path(), &mut now)?;
    }
    if std::env::var_os("KOSHI_BLESS").is_some() {
        write(&tools, &now)?;
    }
    let text = std::fs::read_to_string(baseline())?;
    let mut before = Counts::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, count) = line.split_once(' ').ok_or("a line of baseline.txt without a count")?;
        before.insert(name.to_string(), count.parse()?);
    }
    let (wrong, told) = compare(&before, &now);
    told.iter().for_each(|line| println!("{line}"));
    wrong.iter().for_each(|line| println!("FAILED {line}"));
    let others: Vec<&String> = tools.iter().filter(|tool| !text.contains(&format!("# {tool}\n"))).collect();
    if !others.is_empty() {
        let stood: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).skip(1).collect();
        println!("counted with {others:?}; the baseline with {stood:?}: part of a change may be theirs");
    }
    if !wrong.is_empty() {
        println!("Where the change is meant, or the compiler's: {BLESS}");
    }
    Ok(wrong.is_empty())
}

fn main() -> ExitCode {
    let done = match std::env::args().nth(1) {
        Some(work) => run(&work).map(|arcs| {
            println!("{arcs}");
            true
        }),
        None => hold(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
