//! Determinization of real speech, phones and words, on one thread and in memory that is kept.
//!
//! Without arguments: what the search makes of the prompts that the repository holds. Where the
//! real data is at hand (`KOSHI_SHARED`, else `../shared`), Kaldi's own raw lattices follow.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use koshi::decoder::{Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::lattice::{DeterminizeConfig, Determinizer, RawLattice, RawLatticeHolder};
use koshi::search::{Rows, SearchConfig};
use koshi::table::{Input, Matrix, MatrixHolder, SequentialReader, Transitions};

/// Raw lattices of the bundled prompts.
fn decoded(folder: &Path, search: SearchConfig) -> Vec<RawLattice> {
    let file = |name: &str| folder.join(name).display().to_string();
    let transitions = Arc::new(Transitions::read_file(&file("trans.mdl")).unwrap());
    let graph = Arc::new(Graph::open(&file("HCLG.fst"), Columns::Transitions(transitions)).unwrap());
    let config = DecoderConfig { search, num_threads: 1, ..DecoderConfig::default() };
    let mut channel = Decoder::new(graph, config).unwrap().new_channel().unwrap();
    let mut reader = SequentialReader::<MatrixHolder<f32>>::open(&format!("ark:{}", file("loglikes.ark"))).unwrap();
    let mut lattices = Vec::new();
    while let Some((_, matrix)) = reader.next().unwrap() {
        let matrix: Matrix<f32> = matrix;
        channel.begin().unwrap();
        channel.push(Rows::dense(matrix.data(), matrix.cols()).unwrap()).unwrap();
        channel.finish().unwrap();
        lattices.push(channel.lattice(true).unwrap());
    }
    lattices
}

/// All raw lattices of a gzipped text archive.
fn archive(path: &Path) -> Vec<RawLattice> {
    let mut bytes = Vec::new();
    let mut unpacked = flate2::read::MultiGzDecoder::new(std::fs::File::open(path).unwrap());
    std::io::Read::read_to_end(&mut unpacked, &mut bytes).unwrap();
    let mut reader = SequentialReader::<RawLatticeHolder>::from_archive(Input::from_bytes("archive", bytes));
    let mut lattices = Vec::new();
    while let Some((_, lattice)) = reader.next().unwrap() {
        lattices.push(lattice);
    }
    lattices
}

fn time(bencher: &mut Criterion, name: &str, lattices: &[RawLattice], model: &Path, config: DeterminizeConfig) {
    let transitions = Transitions::read_file(&model.display().to_string()).unwrap();
    let mut work = Determinizer::default();
    let mut group = bencher.benchmark_group("determinize");
    group.throughput(Throughput::Elements(lattices.iter().map(|lattice| u64::from(lattice.num_frames)).sum()));
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            for lattice in lattices {
                black_box(work.determinize(lattice, Some(&transitions), &config).unwrap());
            }
        })
    });
    group.finish();
}

fn determinize(bencher: &mut Criterion) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = |beam, acoustic_scale| DeterminizeConfig { beam, acoustic_scale, ..DeterminizeConfig::default() };
    let demo = root.join("examples/data/prompts");
    let search = SearchConfig { beam: 16.0, lattice_beam: 10.0, acoustic_scale: 1.0 / 15.0, ..SearchConfig::default() };
    time(bencher, "demo", &decoded(&demo, search), &demo.join("trans.mdl"), config(10.0, 1.0 / 15.0));

    let shared = std::env::var_os("KOSHI_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
    let data = shared.join("realdata");
    for (folder, name, model, beam, scale) in [
        ("prompts", "typical", "trans.mdl", 6.0, 0.083_333_3),
        ("prompts", "wide", "trans.mdl", 10.0, 0.066_666_7),
        ("chain-ko", "b11u", "graph/trans.mdl", 4.0, 1.0),
    ] {
        let path = data.join(format!("{folder}/kaldi/{name}.raw-lattice.txt.gz"));
        if path.exists() {
            let model = data.join(folder).join(model);
            time(bencher, &format!("{folder} {name}"), &archive(&path), &model, config(beam, scale));
        }
    }
}

criterion_group!(benches, determinize);
criterion_main!(benches);
