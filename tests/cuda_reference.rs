//! The GPU lanes against the plain reference, bit for bit: on the software CUDA device, or, with
//! `KOSHI_TEST_GPU=1`, on the GPU of the machine.

mod common;

use common::random_search::run;
use koshi::decoder::BackendChoice;

/// How many cases: `KOSHI_TEST_CASES`, where a tool makes each slow.
fn cases(usual: u64) -> u64 {
    std::env::var("KOSHI_TEST_CASES").map_or(usual, |count| count.parse().unwrap())
}

#[test]
fn short_utterances_on_random_graphs() {
    common::gpu();
    for case in 0..cases(500) {
        run(BackendChoice::Cuda, case, 6, 1);
    }
}

#[test]
fn long_utterances_prune_on_the_way() {
    common::gpu();
    for case in 0..cases(20) {
        run(BackendChoice::Cuda, 1_000_000 + case, 70, 13);
    }
}

/// Launches of many frames: what is handed over has been pruned on the device.
#[test]
fn whole_utterances_in_one_push() {
    common::gpu();
    for case in 0..cases(120) {
        common::random_search::run_whole(BackendChoice::Cuda, 2_000_000 + case, 2 + case % 50);
    }
}
