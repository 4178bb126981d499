//! Bytes taken for a supervision and for a denominator graph: an error, or something that can be computed with, comes
//! back from what it writes, and gives numbers.

use koshi::chain::{ChainBackend, ChainConfig, DenominatorGraph, Scores, Supervision, SupervisionHolder};
use koshi::table::{Holder, Output};

const PDFS: usize = 2;
/// More tells nothing new.
const MOST_FRAMES: usize = 64;

fn written(supervision: &Supervision) -> Vec<u8> {
    let mut output = Output::memory();
    SupervisionHolder::write(&mut output, supervision, true).expect("writing to memory");
    output.into_bytes()
}

pub fn run(bytes: &[u8]) -> bool {
    let scores = vec![0.5f32; MOST_FRAMES * PDFS];
    let mut taken = false;
    if let Ok(said) = Supervision::from_memory(bytes) {
        taken = true;
        let again = Supervision::from_memory(&written(&said)).expect("own bytes are read");
        assert!(written(&again) == written(&said));
        let _ = Supervision::merge(&[&said, &said]);
        let frames = said.num_sequences().saturating_mul(said.frames_per_sequence());
        if frames <= MOST_FRAMES && said.num_pdfs() == PDFS {
            let scores = Scores::new(&scores[..frames * PDFS], frames, PDFS, PDFS).expect("as many as there are");
            // A path whose costs are beyond binary32 is an error.
            if let Ok(found) = said.forward_backward(scores, None) {
                assert!(!found.log_prob.is_nan());
            }
        }
    }
    if let Ok(den) = DenominatorGraph::from_memory(bytes, PDFS) {
        taken = true;
        let config = ChainConfig { backend: ChainBackend::Cpu, num_threads: 1, ..ChainConfig::default() };
        let scores = Scores::new(&scores[..4 * PDFS], 4, PDFS, PDFS).expect("as many as there are");
        let found = den.forward_backward(&config, scores, 2, None, None, None).expect("finite scores");
        assert!(!found.log_prob.is_nan());
    }
    taken
}
