//! The CPU lanes against the plain reference, bit for bit, on random graphs.

mod common;

use common::random_search::run;
use koshi::decoder::BackendChoice;

#[test]
fn short_utterances_on_random_graphs() {
    for case in 0..if cfg!(miri) { 6 } else { 20_000 } {
        run(BackendChoice::Cpu, case, 6, 1);
    }
}

#[test]
fn long_utterances_prune_on_the_way() {
    for case in 0..if cfg!(miri) { 1 } else { 300 } {
        run(BackendChoice::Cpu, 1_000_000 + case, 70, 13);
    }
}
