//! The GPU lanes on the software CUDA device against the plain reference, bit for bit.

mod common;

use common::random_search::run;
use common::soft;
use koshi::decoder::BackendChoice;

#[test]
fn short_utterances_on_random_graphs() {
    soft::load("schedule=rr");
    for case in 0..1_000 {
        run(BackendChoice::Cuda, case, 6, 1);
    }
}

#[test]
fn long_utterances_prune_on_the_way() {
    soft::load("schedule=rr");
    for case in 0..30 {
        run(BackendChoice::Cuda, 1_000_000 + case, 70, 13);
    }
}
