//! Determinization of real speech, phones and words, on one thread and in memory that is kept.
//!
//! Without arguments: what the search makes of the prompts that the repository holds. Where the
//! real data is at hand (`KOSHI_SHARED`, else `../shared`), Kaldi's own raw lattices follow.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use koshi::lattice::{DeterminizeConfig, Determinizer, RawLattice, RawLatticeHolder};
use koshi::search::SearchConfig;
use koshi::table::{Input, SequentialReader, Transitions};

#[path = "support/prompts.rs"]
mod prompts;

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
    time(bencher, "demo", &prompts::decoded(&demo, search), &demo.join("trans.mdl"), config(10.0, 1.0 / 15.0));

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
