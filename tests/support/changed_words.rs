//! Words that change on their way from the software device to the host.

use std::fmt::Debug;

use koshi::ffi::koshi_status_code as Status;

use crate::common::graph::Rng;
use crate::common::soft::Soft;

/// How often a changed word was refused, let through without harm, and let through with another outcome.
#[derive(Debug, Default)]
pub struct Counts {
    pub refused: usize,
    pub same: usize,
    pub other: usize,
}

/// Changes one bit of what `run` copies to the host, `times` times another one. `run` gives what came out in the end and
/// what its calls answered that failed, each of which it made once more. What is refused is KOSHI_E_DEVICE, and right when
/// asked for again; `can_be` says whether another outcome (the first) may stand in the place of the right one.
pub fn each_changed<T: PartialEq, F: Debug>(
    soft: &Soft,
    rng: &mut Rng,
    times: usize,
    status: impl Fn(&F) -> Status,
    mut run: impl FnMut() -> (T, Vec<F>),
    can_be: impl Fn(&T, &T) -> bool,
) -> Counts {
    let before = soft.stats().copies_out;
    let (expected, faults) = run();
    assert!(faults.is_empty(), "{faults:?}");
    let copies = soft.stats().copies_out - before;
    let mut counts = Counts::default();
    for _ in 0..times {
        // Most of what a launch reports is of frames that it has not.
        let most = [40, 1 << 20][rng.below(2) as usize];
        let (copy, word, bit) = (1 + rng.below(copies), rng.below(most), rng.below(32));
        soft.configure(&format!("flip={copy}:{word}:{}", 1u64 << bit));
        let (found, faults) = run();
        let case = format!("copy {copy} of {copies}, {}, bit {bit}: {faults:?}", soft.report());
        soft.reset();
        assert!(case.contains("changed as asked"), "{case}");
        assert!(faults.len() <= 1 && faults.iter().all(|fault| status(fault) == Status::KOSHI_E_DEVICE), "{case}");
        if !faults.is_empty() {
            assert!(found == expected, "what was refused can be asked for again: {case}");
            counts.refused += 1;
        } else if found == expected {
            counts.same += 1;
            continue;
        } else {
            assert!(can_be(&found, &expected), "{case}");
            counts.other += 1;
        }
        let (next, faults) = run();
        assert!(faults.is_empty() && next == expected, "the one after {case} {faults:?}");
    }
    counts
}
