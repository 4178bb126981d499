//! How fast graphs are checked and laid out: a random one from memory, and the real ones
//! from files where they are at hand (`KOSHI_SHARED`, else `../shared`).

use std::fs::File;
use std::hint::black_box;
use std::io::{BufReader, copy};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flate2::read::GzDecoder;
use koshi::decoder::{Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::search::Rows;

#[path = "../tests/common/graph.rs"]
mod graphs;
#[path = "../tests/common/openfst.rs"]
mod openfst;

fn random(criterion: &mut Criterion) {
    let source = graphs::Rng(1).graph(30_000, 6);
    let mut group = criterion.benchmark_group("graph from memory");
    group.throughput(Throughput::Elements(openfst::num_arcs(&source) as u64));
    let form = openfst::Form::default();
    for (name, bytes) in [("const", openfst::constant(&source, &form)), ("vector", openfst::vector(&source, &form))] {
        group.bench_function(name, |bench| bench.iter(|| Graph::from_memory(black_box(&bytes), Columns::Labels)));
    }
}

fn real(criterion: &mut Criterion) {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared");
    let shared = std::env::var_os("KOSHI_SHARED").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let dir = tempfile::tempdir().unwrap();
    let mut group = criterion.benchmark_group("graph from file");
    group.sample_size(10);
    for (name, file) in
        [("const 5.3 M arcs", "prompts-5k/HCLG.fst.gz"), ("vector 3.3 M arcs", "chain-ko/graph/HCLG.fst.gz")]
    {
        let Ok(packed) = File::open(shared.join("realdata").join(file)) else {
            eprintln!("not run: {file} is not at hand");
            continue;
        };
        let path = dir.path().join("HCLG.fst");
        copy(&mut GzDecoder::new(BufReader::new(packed)), &mut File::create(&path).unwrap()).unwrap();
        group.bench_function(name, |bench| bench.iter(|| Graph::read(&path, Columns::Labels).unwrap()));
        let cache = dir.path().join("HCLG.koshi");
        Graph::read(&path, Columns::Labels).unwrap().write_cache(&cache).unwrap();
        let row = vec![-1.0; 8192];
        let first_frame = |wait: bool| {
            let graph = Arc::new(Graph::read(&cache, Columns::Labels).unwrap());
            let decoder = Decoder::new(Arc::clone(&graph), DecoderConfig::default()).unwrap();
            let mut channel = decoder.new_channel().unwrap();
            channel.begin().unwrap();
            channel.push(Rows::new(&row, 1, row.len(), row.len()).unwrap()).unwrap();
            if wait {
                graph.check_whole().unwrap();
            }
            channel.partial().unwrap()
        };
        // What follows each round, ending the check, is not timed.
        group.bench_function(format!("{name}: cache file, to the partial result of a first frame"), |bench| {
            bench.iter_custom(|rounds| {
                (0..rounds)
                    .map(|_| {
                        let (begin, found) = (Instant::now(), first_frame(false));
                        let took = begin.elapsed();
                        drop(found);
                        took
                    })
                    .sum()
            })
        });
        group.bench_function(format!("{name}: cache file, to the end of its check"), |bench| {
            bench.iter(|| first_frame(true))
        });
    }
}

criterion_group!(benches, random, real);
criterion_main!(benches);
