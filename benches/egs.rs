//! Cost of examples between a file's bytes and memory: read, written, copied, cut. Run with `cargo bench --bench egs`.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use koshi::egs::{Cut, Labels, NnetExample, NnetExampleHolder};
use koshi::table::{CompressedMatrix, Holder, Input, Method, Output, SequentialReader};

/// Examples of `frames` labelled frames with 13 rows of context on either side and 40 columns, as recipes make them.
fn archive(frames: usize, count: usize) -> Vec<u8> {
    let rows = frames + 26;
    let mut output = Output::memory();
    for number in 0..count {
        let data: Vec<f32> =
            (0..rows * 40).map(|at| ((at * 7919 + number * 131) % 1009) as f32 / 50.0 - 10.0).collect();
        let pdfs: Vec<i32> = (0..frames).map(|frame| ((number + frame) % 3000) as i32).collect();
        let example = NnetExample {
            labels: Labels::simple(&pdfs).expect("labels"),
            input_frames: CompressedMatrix::compress(&data, rows, 40, 40, Method::Auto).expect("finite frames"),
            left_context: 13,
            spk_info: vec![],
        };
        output.write_token(&format!("utt{number:06}-0")).expect("a key");
        NnetExampleHolder::write(&mut output, &example, true).expect("writing to memory");
    }
    output.into_bytes()
}

fn examples(bytes: &[u8]) -> Vec<NnetExample> {
    let mut reader = SequentialReader::<NnetExampleHolder>::from_archive(Input::from_bytes("memory", bytes));
    std::iter::from_fn(|| reader.next().expect("own bytes")).map(|(_, example)| example).collect()
}

fn benches(criterion: &mut Criterion) {
    for frames in [1, 8] {
        let bytes = archive(frames, 200);
        let all = examples(&bytes);
        let mut group = criterion.benchmark_group(format!("egs_of_{frames}_frames"));
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function("read", |bencher| bencher.iter(|| black_box(examples(&bytes)).len()));
        group.bench_function("write", |bencher| {
            bencher.iter(|| {
                let mut output = Output::memory();
                for example in &all {
                    NnetExampleHolder::write(&mut output, example, true).expect("writing to memory");
                }
                black_box(output.into_bytes()).len()
            });
        });
        let cut = Cut { start_frame: 0, num_frames: 1, left_context: 4, right_context: 4 };
        group.bench_function("cut", |bencher| {
            bencher.iter(|| all.iter().for_each(|example| drop(black_box(example.extract(cut).expect("a cut")))));
        });
        group.bench_function("expand", |bencher| {
            bencher.iter(|| {
                all.iter().for_each(|example| drop(black_box(example.input_frames.to_matrix().expect("memory"))))
            });
        });
        group.finish();
    }
}

criterion_group!(egs, benches);
criterion_main!(egs);
