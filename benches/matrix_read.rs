//! Cost of the way from a score archive's bytes to rows of floats: a row of 601 columns as the prompts have, in matrices
//! of 60, 300 and 3000 frames. Run with `cargo bench --bench matrix_read`.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use koshi::table::{CompressedMatrix, Input, Matrix, Method};
use koshi::table::{CompressedMatrixHolder, Holder, MatrixHolder, Output};

const COLS: usize = 601;

/// Scores that look like log-likelihoods: neither constant nor uniform.
fn scores(rows: usize) -> Vec<f32> {
    let mut seed = 7u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((seed >> 40) as f32 + 1.0) / (1 << 24) as f32
    };
    (0..rows * COLS).map(|_| 30.0 * next().ln() - 40.0 * next()).collect()
}

fn stored<H: Holder>(value: &H::Value) -> Vec<u8> {
    let mut output = Output::memory();
    H::write(&mut output, value, true).expect("writing to memory");
    output.into_bytes()
}

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("matrix_read");
    for rows in [60, 300, 3_000] {
        let data = scores(rows);
        group.throughput(Throughput::Elements((rows * COLS) as u64));
        let plain = Matrix::from_data(rows, COLS, data).expect("a matrix");
        let mut forms = vec![("plain", stored::<MatrixHolder>(&plain))];
        for (name, method) in
            [("cm", Method::SpeechFeature), ("cm2", Method::TwoByteAuto), ("cm3", Method::OneByteAuto)]
        {
            let compressed = CompressedMatrix::from_matrix(&plain, method).expect("finite scores");
            forms.push((name, stored::<CompressedMatrixHolder>(&compressed)));
        }
        for (name, bytes) in forms {
            group.bench_with_input(BenchmarkId::new(name, rows), &bytes, |bencher, bytes| {
                bencher.iter_batched(
                    || Input::from_bytes("memory", &bytes[..]),
                    |mut input| black_box(MatrixHolder::<f32>::read(&mut input).expect("own bytes")),
                    criterion::BatchSize::LargeInput,
                );
            });
        }
        group.bench_function(BenchmarkId::new("compress", rows), |bencher| {
            bencher.iter(|| CompressedMatrix::from_matrix(black_box(&plain), Method::SpeechFeature));
        });
    }
    group.finish();
}

criterion_group!(matrix_read, benches);
criterion_main!(matrix_read);
