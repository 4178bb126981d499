//! Lattices for benches.

use std::path::Path;
use std::sync::Arc;

use koshi::decoder::{Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::lattice::RawLattice;
use koshi::search::{Rows, SearchConfig};
use koshi::table::{Matrix, MatrixHolder, SequentialReader, Transitions};

/// Raw lattices of the bundled prompts.
pub fn decoded(folder: &Path, search: SearchConfig) -> Vec<RawLattice> {
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
