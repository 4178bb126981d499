//! `koshi-chain-objf`: what it prints and writes, and how it fails.

#[path = "common/chain/mod.rs"]
mod chain;
mod common;
#[path = "support/shared.rs"]
mod shared;

use std::path::Path;
use std::process::{Command, Output};

use chain::{Face, Random, Rust, bytes, end_to_end, supervision};
use koshi::chain::{ChainBackend, ChainConfig};
use koshi::table::{Matrix, MatrixHolder, read_file, write_file};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_koshi-chain-objf")).args(arguments).output().unwrap()
}

/// The fields of the last line.
fn fields(output: &Output) -> Vec<String> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().last().unwrap().split(' ').map(str::to_string).collect()
}

fn near(text: &str, value: f64) {
    let found: f64 = text.parse().unwrap();
    assert!((found - value).abs() <= 1e-8 * value.abs().max(1e-3), "{text}, not {value}");
}

fn matrix(path: &Path) -> Matrix {
    read_file::<MatrixHolder>(path.to_str().unwrap()).unwrap()
}

#[test]
fn one_line_and_the_matrices_that_were_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let mut random = Random(3);
    let den = bytes(&random.graph(6, 2));
    std::fs::write(path("den.fst"), &den).unwrap();
    let mut scores = random.scores(4, 2, 3.0);
    scores.data[5] = 35.0;
    let output = Matrix::from_data(4, 2, scores.data.clone()).unwrap();
    write_file::<MatrixHolder>(&path("out"), &output, false).unwrap();
    let loops = "0 0 1 1 0.5;0 1 2 2;1 1 2 2 0.25;1 0 1 1;1 0.5;0";
    let joined = "0 1 1 1;1 2 2 2;2 3 1 1;3 4 2 2;4";
    let options = ["--leaky-hmm-coefficient=0.1", "--l2-regularize=0.01", "--out_of_range_regularize=0.5"];
    for said in [supervision([2, 2, 2], joined), end_to_end([2, 2, 2], &[loops, loops])] {
        std::fs::write(path("said"), &said).unwrap();
        let config = ChainConfig {
            backend: ChainBackend::Cpu,
            leaky_hmm_coefficient: 0.1,
            l2_regularize: 0.01,
            out_of_range_regularize: 0.5,
            ..ChainConfig::default()
        };
        // The text of the matrix has fewer digits.
        let stored = chain::Scores::dense(matrix(Path::new(&path("out"))).data(), 2);
        let (graph, supervision) = (Rust::den(&den, 2).unwrap(), Rust::supervision(&said).unwrap());
        let expected = Rust::objf(&graph, &supervision, &config, &stored, None).unwrap();
        for count in 0..=2 {
            let files = [path("den.fst"), path("said"), path("out"), path("deriv"), path("xent")];
            let mut words = options.to_vec();
            words.extend(files[..3 + count].iter().map(String::as_str));
            let fields = fields(&run(&words));
            near(&fields[0], expected.value);
            near(&fields[1], expected.l2_term);
            assert_eq!(fields[2..], ["4", "ok"]);
        }
        assert!(std::fs::read(path("deriv")).unwrap().starts_with(b"\0BFM "));
        assert_eq!(matrix(Path::new(&path("deriv"))).data(), expected.deriv);
        assert_eq!(matrix(Path::new(&path("xent"))).data(), expected.xent);
    }
}

#[test]
fn failures_end_with_status_1() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("den.fst"), bytes(&Random(3).graph(6, 2))).unwrap();
    std::fs::write(path("said"), supervision([1, 2, 2], "0 1 1 1;1 2 2 2;2")).unwrap();
    std::fs::write(path("out"), " [\n  1 2\n  3 4 ]\n").unwrap();
    std::fs::write(path("long"), " [\n  1 2\n  3 4\n  5 6 ]\n").unwrap();
    std::fs::write(path("wide"), " [\n  1 2 3\n  3 4 5 ]\n").unwrap();
    std::fs::write(path("empty"), " [ ]\n").unwrap();
    let (den, said, out) = (path("den.fst"), path("said"), path("out"));
    assert_eq!(fields(&run(&[&den, &said, &out]))[3], "ok");
    let fails = |arguments: &[&str]| {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    };
    for bad in ["long", "wide", "empty", "absent"] {
        fails(&[&den, &said, &path(bad)]);
    }
    fails(&[&said, &said, &out]);
    fails(&[&den, &den, &out]);
    fails(&["--leaky-hmm-coefficient=1", &den, &said, &out]);
    fails(&["--l2-regularize=-1", &den, &said, &out]);
    fails(&["--num-threads=0", &den, &said, &out]);
    fails(&["--no-such-option", &den, &said, &out]);
    fails(&["--use-gpu=maybe", &den, &said, &out]);
    fails(&[&den, &said]);
    fails(&[&den, &said, &out, "/dev/full"]);
}

/// In processes that find the software device by LD_LIBRARY_PATH, or a driver without a device.
#[test]
fn on_the_gpu_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let mut random = Random(4);
    std::fs::write(path("den.fst"), bytes(&random.graph(40, 3))).unwrap();
    std::fs::write(path("said"), supervision([2, 2, 3], "0 1 1 1;1 2 2 2;2 3 3 3;3 4 2 2;4")).unwrap();
    write_file::<MatrixHolder>(&path("out"), &Matrix::from_data(4, 3, random.scores(4, 3, 3.0).data).unwrap(), true)
        .unwrap();
    let driver = common::soft::build(None);
    let run = |use_gpu: &str, settings: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_koshi-chain-objf"));
        command.args([use_gpu, "--verbose=1"]).args(["den.fst", "said", "out", "deriv"].map(path));
        command.env("LD_LIBRARY_PATH", &driver).env("KOSHI_SOFT", common::with_kernels(settings));
        command.output().unwrap()
    };
    let [cpu, gpu, optional] = ["--use-gpu=no", "--use-gpu=yes", "--use-gpu=optional"].map(|option| {
        let output = run(option, "");
        let on_gpu = String::from_utf8_lossy(&output.stderr).contains("the denominator graph takes");
        assert_eq!(on_gpu, option != "--use-gpu=no", "{}", String::from_utf8_lossy(&output.stderr));
        (fields(&output), matrix(Path::new(&path("deriv"))).data().to_vec())
    });
    assert_eq!(gpu, optional);
    let [one, other]: [f64; 2] = [&cpu, &gpu].map(|found| found.0[0].parse().unwrap());
    assert!((one - other).abs() < 1e-5 * one.abs(), "{one} {other}");
    assert!(cpu.1.iter().zip(&gpu.1).all(|(one, other)| (one - other).abs() < 1e-5), "{cpu:?} {gpu:?}");
    // No device: said, or gone without.
    let output = run("--use-gpu=yes", "devices=0");
    assert!(output.status.code() == Some(1) && !output.stderr.is_empty());
    assert_eq!(fields(&run("--use-gpu=optional", "devices=0")), cpu.0);
}

#[test]
fn beside_kaldi() {
    let Some(folder) = shared::shared("oracles/chain") else { return };
    let own = tempfile::tempdir().unwrap();
    let path = |name: &str| own.path().join(name).to_str().unwrap().to_string();
    let file = |name: &str| folder.join(name).to_str().unwrap().to_string();
    let npy = |name: &str| {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        let begin = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let values = bytes[begin..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        let data: Vec<f32> = values.collect();
        Matrix::from_data(data.len() / 145, 145, data).unwrap()
    };
    write_file::<MatrixHolder>(&path("out"), &npy("inputs/merged8.npy"), true).unwrap();
    let words = ["--leaky-hmm-coefficient=0.1", "--l2-regularize=5e-5", "--out-of-range-regularize=0.02"];
    for said in ["supervision/merged8.bin", "supervision/merged8.txt"] {
        let files = [file("graphs/den.fst"), file(said), path("out"), path("deriv"), path("xent")];
        let words: Vec<&str> = words.into_iter().chain(files.iter().map(String::as_str)).collect();
        let fields = fields(&run(&words));
        let [objf, l2]: [f64; 2] = [0, 1].map(|at| fields[at].parse().unwrap());
        assert!((objf + 759.663086).abs() < 1e-2 && (l2 + 5.86599445).abs() < 1e-4, "{fields:?}");
        assert_eq!(fields[2..], ["400", "ok"]);
        let expected = npy("outputs/objf8.nnet_output_deriv.npy");
        for (found, expected) in matrix(Path::new(&path("deriv"))).data().iter().zip(expected.data()) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
    }
}
