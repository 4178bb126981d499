//! The search as processors without vector instructions run it: against the plain reference, and
//! against what is run here otherwise.

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};

use common::random_search::run;
use koshi::cpu::set_portable;
use koshi::decoder::{BackendChoice, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::lattice::RawLattice;
use koshi::search::{Rows, SearchConfig};
use koshi::table::{Matrix, MatrixHolder, SequentialReader, Transitions};

/// What is set holds for all of the process.
static TURN: Mutex<()> = Mutex::new(());

fn portable<T>(on: bool, work: impl FnOnce() -> T) -> T {
    set_portable(on);
    let made = work();
    set_portable(false);
    made
}

#[test]
fn equals_the_reference_on_random_graphs() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    portable(true, || {
        for case in 0..4_000 {
            run(BackendChoice::Cpu, 2_000_000 + case, 6, 1);
        }
        for case in 0..60 {
            run(BackendChoice::Cpu, 3_000_000 + case, 70, 13);
        }
    });
}

#[test]
fn real_speech_gives_the_same_lattices() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/prompts");
    let model = Arc::new(Transitions::read_file(&data.join("trans.mdl").display().to_string()).unwrap());
    let graph = Arc::new(Graph::read(data.join("HCLG.fst"), Columns::Transitions(model)).unwrap());
    let likes = format!("ark:{}", data.join("loglikes.ark").display());
    let mut reader = SequentialReader::<MatrixHolder<f32>>::open(&likes).unwrap();
    let (_, matrix) = reader.next().unwrap().unwrap();
    let decode = |matrix: &Matrix<f32>| -> RawLattice {
        let search = SearchConfig { beam: 14.0, lattice_beam: 8.0, acoustic_scale: 0.08, ..SearchConfig::default() };
        let config = DecoderConfig { search, num_threads: 1, ..DecoderConfig::default() };
        let mut channel = Decoder::new(Arc::clone(&graph), config).unwrap().new_channel().unwrap();
        channel.begin().unwrap();
        channel.push(Rows::dense(matrix.data(), matrix.cols()).unwrap()).unwrap();
        channel.finish().unwrap();
        channel.lattice(true).unwrap()
    };
    let (plain, vectors) = (portable(true, || decode(&matrix)), portable(false, || decode(&matrix)));
    assert!(plain.num_arcs() > 100);
    assert_eq!(plain, vectors);
}
