//! The search on real speech: microseconds a frame, lattice included, on one thread.
//!
//! Without arguments: the graph that the repository holds. Where the larger graphs are at hand
//! (`KOSHI_SHARED`, else `../shared`) the settings that peers are timed at follow.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufReader, copy};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flate2::read::GzDecoder;
use koshi::decoder::{Channel, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph, GraphArc, VecSource};
use koshi::search::{Rows, SearchConfig};
use koshi::table::{Matrix, MatrixHolder, SequentialReader, Transitions};

struct Setting {
    beam: f32,
    lattice_beam: f32,
    max_active: u32,
    acoustic_scale: f32,
}

const UNBOUNDED: u32 = i32::MAX as u32;

fn prompts() -> [Setting; 3] {
    [(13.0, 6.0, 7_000, 1.0 / 12.0), (15.0, 8.0, 10_000, 1.0 / 15.0), (17.0, 10.0, UNBOUNDED, 1.0 / 15.0)].map(
        |(beam, lattice_beam, max_active, acoustic_scale)| Setting { beam, lattice_beam, max_active, acoustic_scale },
    )
}

fn channel(graph: &Arc<Graph>, setting: &Setting) -> Channel {
    let search = SearchConfig {
        beam: setting.beam,
        lattice_beam: setting.lattice_beam,
        max_active: setting.max_active,
        acoustic_scale: setting.acoustic_scale,
        ..SearchConfig::default()
    };
    let config = DecoderConfig { search, num_threads: 1, ..DecoderConfig::default() };
    Decoder::new(Arc::clone(graph), config).unwrap().new_channel().unwrap()
}

fn read_rows(path: &Path) -> Vec<Matrix<f32>> {
    let mut reader = SequentialReader::<MatrixHolder<f32>>::open(&format!("ark:{}", path.display())).unwrap();
    let mut rows = Vec::new();
    while let Some((_, matrix)) = reader.next().unwrap() {
        rows.push(matrix);
    }
    rows
}

fn decode(channel: &mut Channel, utterances: &[Matrix<f32>]) -> usize {
    let mut arcs = 0;
    for matrix in utterances {
        channel.begin().unwrap();
        channel.push(Rows::dense(matrix.data(), matrix.cols()).unwrap()).unwrap();
        channel.finish().unwrap();
        arcs += channel.lattice(true).unwrap().num_arcs();
    }
    arcs
}

/// One row at a time, each with a partial result behind it: microseconds from the push of a row to its
/// partial result. Gives the time that the partial results alone took.
fn rows_and_partials(channel: &mut Channel, utterances: &[Matrix<f32>]) -> Duration {
    let mut spent = Duration::ZERO;
    for matrix in utterances {
        channel.begin().unwrap();
        let mut words = 0;
        for row in matrix.iter_rows() {
            channel.push(Rows::dense(row, matrix.cols()).unwrap()).unwrap();
            let since = Instant::now();
            words = black_box(channel.partial_from(words).unwrap()).1;
            spent += since.elapsed();
        }
    }
    spent
}

fn run(criterion: &mut Criterion, group: &str, graph: &Arc<Graph>, rows: &[Matrix<f32>], settings: &[Setting]) {
    let frames: usize = rows.iter().map(Matrix::rows).sum();
    let mut group = criterion.benchmark_group(group);
    group.throughput(Throughput::Elements(frames as u64)).sample_size(10);
    for setting in settings {
        let mut channel = channel(graph, setting);
        let name = format!("({}, {}, {})", setting.beam, setting.lattice_beam, setting.max_active);
        group.bench_function(&name, |bench| bench.iter(|| black_box(decode(&mut channel, rows))));
        group.bench_function(format!("{name}, a partial result a row"), |bench| {
            bench.iter(|| black_box(rows_and_partials(&mut channel, rows)));
        });
        group.bench_function(format!("{name}, the partial results alone"), |bench| {
            bench.iter_custom(|count| (0..count).map(|_| rows_and_partials(&mut channel, rows)).sum());
        });
    }
    group.finish();
}

fn bundled(criterion: &mut Criterion) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/prompts");
    let model = Arc::new(Transitions::read_file(&data.join("trans.mdl").display().to_string()).unwrap());
    let graph = Arc::new(Graph::read(data.join("HCLG.fst"), Columns::Transitions(model)).unwrap());
    let rows = read_rows(&data.join("loglikes.ark"));
    run(criterion, "search, 42 k arcs", &graph, &rows, &prompts());
}

fn large(criterion: &mut Criterion) {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared");
    let shared = std::env::var_os("KOSHI_SHARED").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let real = shared.join("realdata");
    let chain = [(11.0, 4.0, 3_000), (13.0, 6.0, 7_000)].map(|(beam, lattice_beam, max_active)| Setting {
        beam,
        lattice_beam,
        max_active,
        acoustic_scale: 1.0,
    });
    let works: [(&str, &str, &str, &str, &[Setting]); 2] = [
        ("search, prompts-5k", "prompts-5k/HCLG.fst.gz", "prompts/trans.mdl", "prompts/loglikes.ark", &prompts()),
        (
            "search, chain-ko",
            "chain-ko/graph/HCLG.fst.gz",
            "chain-ko/graph/trans.mdl",
            "chain-ko/likes/loglikes.c8.ark",
            &chain,
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (name, packed, model, likes, settings) in works {
        let Ok(file) = File::open(real.join(packed)) else {
            eprintln!("not run: {packed} is not at hand");
            continue;
        };
        let path = dir.path().join("HCLG.fst");
        copy(&mut GzDecoder::new(BufReader::new(file)), &mut File::create(&path).unwrap()).unwrap();
        let model = Arc::new(Transitions::read_file(&real.join(model).display().to_string()).unwrap());
        let graph = Arc::new(Graph::read(&path, Columns::Transitions(model)).unwrap());
        run(criterion, name, &graph, &read_rows(&real.join(likes)), settings);
    }
}

/// Numbers below `bound` that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((self.0 >> 32) * u64::from(bound)) >> 32) as u32
    }

    fn cost(&mut self) -> f32 {
        self.below(1 << 12) as f32 / 1024.0
    }
}

const COLUMNS: u32 = 300;

/// Epsilon arcs, six deep and three wide, behind each emitting one: the closure is most of the work.
fn closures(numbers: &mut Numbers) -> VecSource {
    const LEVELS: u32 = 7;
    const WIDTH: u32 = 4_000;
    let mut state = |at: u32| {
        let level = at / WIDTH;
        let emitting = [(1 + numbers.below(COLUMNS), numbers.below(WIDTH))];
        let epsilons =
            (0..if level + 1 < LEVELS { 3 } else { 0 }).map(|_| (0, (level + 1) * WIDTH + numbers.below(WIDTH)));
        let ends: Vec<(u32, u32)> = epsilons.chain(emitting).collect();
        let arcs = ends.into_iter().map(|(label, next)| GraphArc {
            ilabel: label as i32,
            olabel: (label != 0) as i32,
            weight: numbers.cost(),
            next,
        });
        (0.0, arcs.collect())
    };
    VecSource { start: Some(0), states: (0..LEVELS * WIDTH).map(&mut state).collect() }
}

/// Thousands of arcs out of each state: a token costs little beside its arcs.
fn fans(numbers: &mut Numbers) -> VecSource {
    const STATES: u32 = 400;
    const ARCS: u32 = 3_000;
    let mut arc = || GraphArc {
        ilabel: 1 + numbers.below(COLUMNS) as i32,
        olabel: 1 + numbers.below(1_000) as i32,
        weight: numbers.cost(),
        next: numbers.below(STATES),
    };
    VecSource { start: Some(0), states: (0..STATES).map(|_| (0.0, (0..ARCS).map(|_| arc()).collect())).collect() }
}

/// Graphs of shapes that real ones have in places only.
fn shapes(criterion: &mut Criterion) {
    let mut numbers = Numbers(7);
    let setting = |beam| [Setting { beam, lattice_beam: beam / 2.0, max_active: 7_000, acoustic_scale: 1.0 }];
    for (name, source, beam) in [
        ("search, made up of closures", closures(&mut numbers), 7.0),
        ("search, made up of fans", fans(&mut numbers), 6.0),
    ] {
        let graph = Arc::new(Graph::from_source(&source, Columns::Labels).unwrap());
        let scores = (0..100 * COLUMNS).map(|_| -2.0 * numbers.cost()).collect();
        let rows = [Matrix::from_data(100, COLUMNS as usize, scores).unwrap()];
        run(criterion, name, &graph, &rows, &setting(beam));
    }
}

criterion_group!(benches, bundled, shapes, large);
criterion_main!(benches);
