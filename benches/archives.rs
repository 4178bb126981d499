//! Cost of whole archives: lattices of the bundled prompts and matrices of scores, keys included, out of memory and into
//! it. `matrix_read` and `egs` time single objects.

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use koshi::lattice::{CompactLattice, CompactLatticeHolder, DeterminizeConfig, Determinizer, RawLatticeHolder};
use koshi::search::SearchConfig;
use koshi::table::{
    CompressedMatrix, CompressedMatrixHolder, Holder, Input, Matrix, MatrixHolder, Method, Output, SequentialReader,
};

#[path = "support/prompts.rs"]
mod prompts;

fn written<H: Holder>(values: &[H::Value], binary: bool) -> Vec<u8> {
    let mut output = Output::memory();
    for (number, value) in values.iter().enumerate() {
        output.write_token(&format!("utterance-{number}")).unwrap();
        H::write(&mut output, value, binary).unwrap();
    }
    output.into_bytes()
}

fn read<H: Holder>(bytes: &[u8]) -> Vec<H::Value> {
    let mut reader = SequentialReader::<H>::from_archive(Input::from_bytes("memory", bytes));
    std::iter::from_fn(|| reader.next().unwrap()).map(|(_, value)| value).collect()
}

/// Writing and reading, in both forms.
fn both<H: Holder>(criterion: &mut Criterion, name: &str, values: &[H::Value]) {
    let mut group = criterion.benchmark_group(format!("archive of {name}"));
    for (form, binary) in [("binary", true), ("text", false)] {
        let bytes = written::<H>(values, binary);
        assert_eq!(read::<H>(&bytes).len(), values.len());
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(format!("{form}, write"), |bench| bench.iter(|| written::<H>(black_box(values), binary)));
        group.bench_function(format!("{form}, read"), |bench| bench.iter(|| read::<H>(black_box(&bytes))));
    }
    group.finish();
}

fn archives(criterion: &mut Criterion) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/prompts");
    let search = SearchConfig { beam: 16.0, lattice_beam: 10.0, acoustic_scale: 1.0 / 15.0, ..SearchConfig::default() };
    let raw = prompts::decoded(&folder, search);
    both::<RawLatticeHolder>(criterion, "raw lattices", &raw);
    let mut determinizer = Determinizer::default();
    let config = DeterminizeConfig { acoustic_scale: 1.0 / 15.0, ..DeterminizeConfig::default() };
    let compact: Vec<CompactLattice> =
        raw.iter().map(|lattice| determinizer.determinize(lattice, None, &config).unwrap().lattice).collect();
    both::<CompactLatticeHolder>(criterion, "compact lattices", &compact);

    let likes = std::fs::read(folder.join("loglikes.ark")).unwrap();
    let matrices: Vec<Matrix<f32>> = read::<MatrixHolder<f32>>(&likes);
    both::<MatrixHolder<f32>>(criterion, "matrices", &matrices);
    let compressed: Vec<CompressedMatrix> =
        matrices.iter().map(|matrix| CompressedMatrix::from_matrix(matrix, Method::SpeechFeature).unwrap()).collect();
    both::<CompressedMatrixHolder>(criterion, "compressed matrices", &compressed);
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = archives
}
criterion_main!(benches);
