//! `examples/gpu_check.sh` and `koshi_bench_gpu`, which are made for a machine with a GPU, whole on the software
//! device: it stands in the driver's place in the loader's path, and the programs cannot tell.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use common::c::text;
use common::soft;
use koshi::decoder::{BackendChoice, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::search::{Rows, SearchConfig};
use koshi::table::Transitions;

/// The tests that are bundled: all that a bundle can hold takes minutes on the software device.
const TESTS: &str = "cuda_reference 200 200\ncases_life 200 0 gpu::";
/// Little enough for the software device.
const BENCH: &str = "--settings 8,5,300,0.083333;6,4,200,0.083333 --frames 6 --utterances 2 --lanes 1,2 --chunks 1,4 \
                     --seconds 0.2";

fn script() -> PathBuf {
    common::root().join("examples/gpu_check.sh")
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// What the script bundles of what `cargo test` has built, and its source kind a copy of the image's.
fn bundle() -> &'static Path {
    static BUNDLE: OnceLock<tempfile::TempDir> = OnceLock::new();
    let made = BUNDLE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let made = run(Command::new("bash")
            .arg(script())
            .arg("bundle")
            .arg(folder.path())
            .env("KOSHI_CHECK_KINDS", "image")
            .env("KOSHI_CHECK_BENCH", "dev")
            .env("KOSHI_CHECK_TESTS", TESTS));
        assert!(made.status.success(), "{}", text(&made));
        fs::create_dir(folder.path().join("source")).unwrap();
        let program = |kind: &str| folder.path().join(kind).join("cuda_reference");
        fs::copy(program("image"), program("source")).unwrap();
        // What was copied from one machine to another may have lost the right to be run.
        fs::set_permissions(program("source"), fs::Permissions::from_mode(0o644)).unwrap();
        folder
    });
    made.path()
}

/// Whether there is a bundle to test: without nvcc a bundle is refused, since it would hold no machine code.
fn bundled() -> bool {
    let image = include_bytes!(concat!(env!("OUT_DIR"), "/kernels.fatbin"));
    assert!(!image.is_empty() || std::env::var("KOSHI_REQUIRE_NVCC").as_deref() != Ok("1"), "no nvcc was found");
    if image.is_empty() {
        eprintln!("not run: no nvcc was found");
    }
    !image.is_empty()
}

/// A command that finds the software device where a driver would be.
fn on_the_device(program: impl AsRef<std::ffi::OsStr>, settings: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", soft::build(None)).env("KOSHI_SOFT", common::with_kernels(settings));
    command
}

/// `gpu_check.sh run` over a folder: whether all is well, the table, and all that was printed.
fn check(folder: &Path, results: &Path, command: &mut Command) -> (bool, Vec<String>, String) {
    let output = run(command.arg(script()).arg("run").arg(folder).arg(results));
    let table = fs::read_to_string(results.join("table.txt")).unwrap_or_else(|_| panic!("{}", text(&output)));
    (output.status.success(), table.lines().map(str::to_string).collect(), text(&output))
}

/// What the table says of a check.
fn said<'a>(table: &'a [String], name: &str) -> &'a str {
    let line = table.iter().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {table:#?}"));
    line[name.len()..].trim_start()
}

#[test]
fn all_checks_together_fit_in_eight_minutes() {
    let output = run(Command::new("bash").arg(script()).arg("limits"));
    assert!(output.status.success(), "{}", text(&output));
    let listed = String::from_utf8(output.stdout).unwrap();
    let limits: Vec<(u32, &str)> = listed
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(seconds, name)| (seconds.parse().unwrap(), name))
        .collect();
    for name in ["image cuda_reference", "source cuda_reference", "image cuda_lanes", "benchmark, prompts", "initcheck"]
    {
        assert!(limits.iter().any(|(_, listed)| *listed == name), "{limits:?}");
    }
    assert!(limits.iter().map(|(seconds, _)| seconds).sum::<u32>() <= 475, "{limits:?}");
}

#[test]
fn a_bundle_runs_and_its_table_tells() {
    if !bundled() {
        return;
    }
    let results = tempfile::tempdir().unwrap();
    let mut command = on_the_device("bash", "");
    command.env("KOSHI_CHECK_TESTS", TESTS).env("KOSHI_CHECK_BENCH_OPTIONS", BENCH).env("KOSHI_TEST_CASES", "4");
    let (ok, table, printed) = check(bundle(), results.path(), command.env("KOSHI_CHECK_SECONDS", "560"));
    assert!(ok, "{printed}");
    for name in ["image cuda_reference", "image cases_life", "source cuda_reference", "benchmark, prompts"] {
        assert!(said(&table, name).starts_with("ok "), "{table:#?}");
    }
    for tool in ["memcheck", "racecheck", "initcheck", "synccheck"] {
        assert_eq!(said(&table, tool), "not run: no compute-sanitizer");
    }
    assert!(said(&table, "Kaldi beside it").starts_with("not run: its wheel is not in the bundle"));
    assert!(table.last().unwrap().starts_with("4 ok, 0 failed, 5 not run; "), "{table:#?}");
    let log = fs::read_to_string(results.path().join("log.txt")).unwrap();
    assert!(log.contains("short_utterances_on_random_graphs ... ok") && log.contains("c_gpu::"), "{log}");
    assert_figures(&results.path().join("prompts.txt"), &results.path().join("prompts.csv"));
}

fn number_of(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

/// Holds the benchmark's table and its file to each other and to sense.
fn assert_figures(table: &Path, csv: &Path) {
    let table = fs::read_to_string(table).unwrap();
    assert!(
        table.starts_with("GPU 0: Software device 0 (7.5, 4 multiprocessors, 4 GiB; driver for CUDA 13.0)\n"),
        "{table}"
    );
    assert_eq!(table.matches("2 of 2 utterances, 12 frames").count(), 2, "{table}");
    assert_eq!(table.matches("a lane takes ").count(), 2, "{table}");
    assert!(table.contains("GPU 0: the kernels are loaded from machine code\n"), "{table}");
    let rows = |measure: &str| -> Vec<Vec<String>> {
        let csv = fs::read_to_string(csv).unwrap();
        let names: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
        assert_eq!((names[5], names.len()), ("measure", 18));
        let fields = csv.lines().skip(1).map(|line| line.split(',').map(str::to_string).collect::<Vec<_>>());
        let rows: Vec<Vec<String>> = fields.filter(|fields| fields[5] == measure).collect();
        assert!(rows.iter().all(|row| row.len() == names.len()), "{csv}");
        rows
    };
    let number = |row: &[String], at: usize| row[at].parse::<f64>().unwrap();
    for measure in ["push", "push_and_partial"] {
        let rows = rows(measure);
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert!(
                number(&row, 8) >= 1.0 && number(&row, 16) > 0.0 && number(&row, 17) >= number(&row, 16),
                "{row:?}"
            );
        }
    }
    let sweep = rows("sweep");
    let cells: Vec<[&str; 3]> = sweep.iter().map(|row| [row[1].as_str(), row[6].as_str(), row[7].as_str()]).collect();
    let expected: Vec<[&str; 3]> = ["8", "6"]
        .into_iter()
        .flat_map(|beam| [("1", "1"), ("1", "4"), ("2", "1"), ("2", "4")].map(|(lanes, chunk)| [beam, lanes, chunk]))
        .collect();
    assert_eq!(cells, expected, "{table}");
    for row in &sweep {
        let (frames, seconds, rate) = (number(row, 8), number(row, 9), number(row, 10));
        let device: f64 = (11..15).map(|at| number(row, at)).sum();
        assert!(frames >= number(row, 6) && number(row, 15) >= 1.0, "{row:?}");
        assert!((rate / (frames / seconds) - 1.0).abs() < 0.05, "{row:?}");
        assert!(device > 0.0 && device <= seconds * 1.01, "{row:?}");
        // The same row stands in the table.
        let told = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).any(|words| {
            words.len() > 3
                && words[..2] == [row[6].as_str(), row[7].as_str()]
                && (number_of(words[2]) - rate).abs() <= 1.0
        });
        assert!(told, "{row:?} in {table}");
    }
    assert_eq!(table.matches("saturated at ").count(), 2, "{table}");
    assert!(!table.contains("left out"), "{table}");
}

/// A failing kernel launch, in one of the tests.
#[test]
fn one_failing_check_fails_all() {
    if !bundled() {
        return;
    }
    let results = tempfile::tempdir().unwrap();
    let mut command = on_the_device("bash", "fail=cuLaunchKernel:9:719");
    command.env("KOSHI_CHECK_TESTS", "cuda_reference 200 200").env("KOSHI_TEST_CASES", "2");
    command.env("KOSHI_CHECK_KINDS", "image").env("KOSHI_CHECK_BENCH_OPTIONS", "--help");
    let (ok, table, printed) = check(bundle(), results.path(), &mut command);
    assert!(!ok && said(&table, "image cuda_reference").starts_with("FAILED (status 101)"), "{table:#?}");
    assert!(said(&table, "benchmark, prompts").starts_with("FAILED (status 1)"), "{table:#?}");
    assert!(printed.contains("cuLaunchKernel answered 719"), "{printed}");
}

/// A folder with shell scripts in place of the programs.
fn stubs(programs: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, body) in programs {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/bash\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

const PASSED: &str = "echo 'test result: ok. 3 passed; 0 failed'";

#[test]
fn what_does_not_end_and_what_tests_nothing_has_failed() {
    let folder = stubs(&[
        ("image/good", PASSED),
        ("image/slow", "sleep 600"),
        ("image/filtered", "echo 'test result: ok. 0 passed; 0 failed; 7 filtered out'"),
        ("image/late", "sleep 600"),
        ("koshi_bench_gpu", "exit 0"),
    ]);
    let results = tempfile::tempdir().unwrap();
    let since = Instant::now();
    let mut command = Command::new("bash");
    command.env("KOSHI_CHECK_TESTS", "good 9 0\nslow 1 0\nfiltered 9 0\nlate 9 0").env("KOSHI_CHECK_SECONDS", "6");
    // No run-time compiler anywhere: no Python to ask, and nothing in the loader's path.
    command.env("KOSHI_CHECK_KINDS", "image source").env_remove("LD_LIBRARY_PATH").env("PATH", "/usr/bin:/bin");
    let (ok, table, printed) = check(folder.path(), results.path(), &mut command);
    assert!(!ok, "{printed}");
    assert!(said(&table, "image good").starts_with("ok "), "{table:#?}");
    assert!(said(&table, "image slow").starts_with("FAILED (not done in 1 s)"), "{table:#?}");
    assert!(said(&table, "image filtered").starts_with("FAILED (no test ran)"), "{table:#?}");
    assert!(said(&table, "image late").starts_with("FAILED (not done in "), "{table:#?}");
    assert!(said(&table, "benchmark, prompts").starts_with("FAILED (no time left)"), "{table:#?}");
    if !Path::new("/usr/local/cuda").exists() {
        assert_eq!(said(&table, "tests with kernels from source"), "not run: no libnvrtc");
    }
    assert!(since.elapsed().as_secs() < 300);
}

/// What is known when all of it is cut off, without a word, stands in the results.
#[test]
fn results_outlive_the_run() {
    let folder =
        stubs(&[("image/good", PASSED), ("image/slow", "echo half; while [ -e \"$MARK\" ]; do sleep 0.1; done")]);
    let results = tempfile::tempdir().unwrap();
    let mut command = Command::new("bash");
    command.arg(script()).arg("run").arg(folder.path()).arg(results.path());
    // What runs goes when the folder does: the script's own group does not reach it.
    command.process_group(0).env("MARK", results.path());
    command.env("KOSHI_CHECK_TESTS", "good 60 0\nslow 500 0").env("KOSHI_CHECK_KINDS", "image");
    let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let read = |name: &str| fs::read_to_string(results.path().join(name)).unwrap_or_default();
    while !read("running.txt").contains("half") {
        assert!(child.try_wait().unwrap().is_none(), "{}", read("log.txt"));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // SAFETY: the group of the child, which leads it.
    assert_eq!(unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) }, 0);
    child.wait().unwrap();
    let table: Vec<String> = read("table.txt").lines().map(str::to_string).collect();
    assert!(said(&table, "image good").starts_with("ok ") && table[0].starts_with("GPU "), "{table:#?}");
    assert!(read("log.txt").contains("test result: ok. 3 passed"), "{}", read("log.txt"));
}

#[test]
fn the_sanitizers_run_where_they_are_found() {
    let tools = stubs(&[(
        "compute-sanitizer",
        "tool=$2; shift 4; \"$@\" || exit; if [ $tool = racecheck ]; then echo 'a race'; exit 9; fi",
    )]);
    let folder = stubs(&[("image/cuda_reference", PASSED), ("koshi_bench_gpu", "exit 0")]);
    let results = tempfile::tempdir().unwrap();
    let mut command = Command::new("bash");
    command.env("PATH", format!("{}:/usr/bin:/bin", tools.path().display()));
    command.env("KOSHI_CHECK_TESTS", "cuda_reference 9 0").env("KOSHI_CHECK_KINDS", "image");
    let (ok, table, printed) = check(folder.path(), results.path(), &mut command);
    assert!(!ok, "{printed}");
    for tool in ["memcheck", "initcheck", "synccheck"] {
        assert!(said(&table, tool).starts_with("ok "), "{table:#?}");
    }
    assert!(said(&table, "racecheck").starts_with("FAILED (status 9)"), "{table:#?}");
    assert!(table.last().unwrap().starts_with("5 ok, 1 failed, 1 not run; "), "{table:#?}");
}

#[test]
fn the_benchmark_ends_when_its_time_is_over() {
    if !bundled() {
        return;
    }
    let program = bundle().join("koshi_bench_gpu");
    let since = Instant::now();
    let output = run(on_the_device(&program, "").args(BENCH.split(' ')).args([
        "--lanes",
        "1,2,512",
        "--chunks",
        "4,64",
        "--seconds",
        "0.1",
        "--budget",
        "8",
        "--frames",
        "70",
    ]));
    assert!(output.status.success(), "{}", text(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.contains("out of time (--budget 8), left out: "), "{printed}");
    assert!(printed.contains("512 lanes, chunk 64"), "{printed}");
    // A batch under way is not cut off.
    assert!(since.elapsed().as_secs() < 300, "{:?}", since.elapsed());
    for (arguments, message) in [
        (&["--lanes", "0"][..], "--lanes 0: cannot be read"),
        (&["--settings", "8,5,300"], "--settings 8,5,300: cannot be read"),
        (&["--what", "1"], "--what is not an option"),
        (&["--seconds"], "--seconds needs a value"),
    ] {
        let output = run(on_the_device(&program, "").args(arguments));
        assert!(!output.status.success());
        assert!(String::from_utf8(output.stderr).unwrap().starts_with(message), "{message}");
    }
    let output = run(on_the_device(&program, "devices=0").args(BENCH.split(' ')));
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(text(&output).contains("no GPU: cuInit answered 100"), "{}", text(&output));
}

/// What another decoder is given: `benches/beside_riva.py` reads it, relabels the graph and finds best paths. The decoder
/// itself needs a GPU.
#[test]
fn the_peer_gets_the_same_graph_and_scores() {
    let Some(mut python) = common::python("numpy") else { return };
    if !bundled() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let bench = BENCH.replace("--chunks 1,4", "--chunks 1");
    let output = run(on_the_device(bundle().join("koshi_bench_gpu"), "")
        .args(bench.split(' '))
        .arg("--export")
        .arg(file("export")));
    assert!(output.status.success(), "{}", text(&output));
    let script = common::root().join("benches/beside_riva.py");
    let data = common::root().join("examples/data/prompts");
    let output = run(python
        .arg(&script)
        .arg("--check")
        .arg("--export")
        .arg(file("export"))
        .arg("--graph")
        .arg(data.join("HCLG.fst"))
        .arg("--words")
        .arg(data.join("words.txt"))
        .arg("--relabelled")
        .arg(file("columns.fst")));
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "42248 arcs relabelled, 2 utterances, 12 frames, 2 settings\n"
    );

    // Labels of columns in place of transition-ids: the same search, the same costs.
    let model = Transitions::read_file(data.join("trans.mdl").to_str().unwrap()).unwrap();
    let ours = Graph::read(data.join("HCLG.fst"), Columns::Transitions(Arc::new(model))).unwrap();
    let theirs = Graph::read(file("columns.fst"), Columns::Labels).unwrap();
    let rows: Vec<f32> = fs::read(file("export/rows.f32"))
        .unwrap()
        .chunks_exact(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    let search =
        SearchConfig { beam: 8.0, lattice_beam: 5.0, max_active: 300, acoustic_scale: 0.083_333, ..Default::default() };
    let config = DecoderConfig { search, backend: BackendChoice::Cpu, ..DecoderConfig::default() };
    let costs = [ours, theirs].map(|graph| {
        let decoder = Decoder::new(Arc::new(graph), config).unwrap();
        let mut channel = decoder.new_channel().unwrap();
        channel.begin().unwrap();
        channel.push(Rows::dense(&rows[..6 * rows.len() / 12], rows.len() / 12).unwrap()).unwrap();
        let path = channel.best_path(true).unwrap();
        (path.graph_cost, path.acoustic_cost, path.olabels)
    });
    assert_eq!(costs[0], costs[1]);
    let told = fs::read_to_string(file("export/costs.txt")).unwrap();
    let first: Vec<&str> = told.lines().next().unwrap().split(' ').collect();
    assert_eq!((first[0], first[2]), ("8,5,300,0.083333", "6"), "{told}");
    assert!((number_of(first[3]) - costs[0].0).abs() < 1e-3, "{told}");
    assert!((number_of(first[4]) - costs[0].1 * 0.083_333).abs() < 1e-3, "{told}");
}
