//! Files of chain training with bytes that are wrong: an error, never a panic, never memory that is not needed. And
//! calls after the first ask for no memory at all.

#[path = "common/chain/mod.rs"]
mod chain;
mod common;
#[path = "support/noting.rs"]
mod noting;

use chain::{Random, bytes, end_to_end, supervision};
use koshi::chain::{
    ChainBackend, ChainConfig, DenominatorGraph, Scores, ScoresMut, Supervision, SupervisionHolder, chain_objective,
};
use koshi::table::{Holder, Output};

/// More than any of the small files needs, buffers included.
const ENOUGH: usize = 1 << 20;

/// Calls `read` with every prefix, and with each byte changed in several ways. Returns how often it failed.
fn attack(bytes: &[u8], read: impl Fn(&[u8]) -> bool) -> usize {
    let mut failures = 0;
    let mut attempt = |bytes: &[u8]| {
        let largest = noting::largest_of(|| failures += usize::from(!read(bytes)));
        assert!(largest <= ENOUGH, "{largest} bytes were asked for at once");
    };
    for end in 0..bytes.len() {
        attempt(&bytes[..end]);
    }
    let mut copy = bytes.to_vec();
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, bytes[at] ^ 0x10, bytes[at].wrapping_add(1)] {
            copy[at] = value;
            attempt(&copy);
        }
        copy[at] = bytes[at];
    }
    failures
}

const FST: &str = "0 1 1 1 0.5;0 2 2 2;1 3 2 2;2 3 1 1 0.25;3 4 1 1;3 5 2 2;4 6 2 2;5 6 2 2;6 0.5";
const LOOPS: &str = "0 0 1 1 0.5;0 1 2 2;1 1 2 2 0.25;1 0 1 1;1 0.5;0";

fn binary(text: &[u8]) -> Vec<u8> {
    let mut output = Output::memory();
    SupervisionHolder::write(&mut output, &Supervision::from_memory(text).unwrap(), true).unwrap();
    output.into_bytes()
}

#[test]
fn supervisions_of_any_bytes() {
    let scores = vec![0.5f32; 4 * 2];
    for text in [supervision([2, 2, 2], FST), end_to_end([2, 2, 2], &[LOOPS, LOOPS])] {
        for bytes in [binary(&text), text] {
            assert!(Supervision::from_memory(&bytes).is_ok());
            let failures = attack(&bytes, |bytes| match Supervision::from_memory(bytes) {
                Err(_) => false,
                // What is let through must be fit for use.
                Ok(said) => {
                    if let Ok(found) = said.forward_backward(Scores::new(&scores, 4, 2, 2).unwrap(), None) {
                        assert!(found.log_prob.is_finite());
                    }
                    let _ = Supervision::merge(&[&said, &said]);
                    true
                }
            });
            assert!(failures > bytes.len(), "{failures}");
        }
    }
}

#[test]
fn graphs_of_any_bytes() {
    let source = Random(9).graph(4, 2);
    let scores = vec![0.5f32; 4 * 2];
    let config = ChainConfig { backend: ChainBackend::Cpu, num_threads: 1, ..ChainConfig::default() };
    let bytes = bytes(&source);
    let failures = attack(&bytes, |bytes| match DenominatorGraph::from_memory(bytes, 2) {
        Err(_) => false,
        Ok(den) => {
            let scores = Scores::new(&scores, 4, 2, 2).unwrap();
            let found = den.forward_backward(&config, scores, 2, None, None, None).unwrap();
            assert!(found.log_prob.is_finite());
            true
        }
    });
    assert!(failures > bytes.len(), "{failures}");
}

#[test]
fn counts_that_lie() {
    // 2^31 - 1 sequences, frames, or states, of which there is nothing.
    for text in [
        "<Supervision> <Weight> 1 <NumSequences> 2147483647 <FramesPerSeq> 2147483647 <LabelDim> 2147483647 <End2End> T <Fsts> ",
        "<Supervision> <Weight> 1 <NumSequences> 1 <FramesPerSeq> 2147483647 <LabelDim> 1 <End2End> F \n0 1 1 1\n1\n\n</Supervision> ",
        "<Supervision> <Weight> 1 <NumSequences> 1 <FramesPerSeq> 1 <LabelDim> 1 <End2End> F \n0 2147483646 1 1\n1\n\n</Supervision> ",
        "<Supervision> <Weight> nan <NumSequences> 1 <FramesPerSeq> 1 <LabelDim> 1 <End2End> F \n0 1 1 1\n1\n\n</Supervision> ",
        "<Supervision> <Weight> 1 <NumSequences> 0 <FramesPerSeq> 1 <LabelDim> 1 <End2End> F \n0 1 1 1\n1\n\n</Supervision> ",
    ] {
        let largest = noting::largest_of(|| assert!(Supervision::from_memory(text.as_bytes()).is_err(), "{text}"));
        assert!(largest <= ENOUGH, "{text}");
    }
    let good = binary(&supervision([2, 2, 2], FST));
    let states = good.windows(8).position(|bytes| bytes == 7i64.to_le_bytes()).unwrap();
    for lie in [i64::MAX, i64::from(i32::MAX) - 1, -1, -2] {
        let mut bytes = good.clone();
        bytes[states..states + 8].copy_from_slice(&lie.to_le_bytes());
        let largest = noting::largest_of(|| assert!(Supervision::from_memory(&bytes).is_err(), "{lie} states"));
        assert!(largest <= ENOUGH, "{lie} states");
    }
}

#[test]
fn calls_after_the_first_take_no_memory() {
    let den = DenominatorGraph::from_source(&Random(7).graph(30, 2), 2).unwrap();
    for text in [supervision([2, 2, 2], FST), end_to_end([2, 2, 2], &[LOOPS, LOOPS])] {
        let said = Supervision::from_memory(&text).unwrap();
        for backend in [ChainBackend::Cpu, ChainBackend::Cuda] {
            common::gpu();
            let config = ChainConfig { backend, num_threads: 1, l2_regularize: 0.1, ..ChainConfig::default() };
            // Rows side by side, and with something between them.
            let (output, stride) = (Random(8).scores(4, 3, 3.0).data, 3);
            let (mut deriv, mut xent) = (vec![0.0; 8], vec![0.0; 12]);
            let mut taken = Vec::new();
            for _ in 0..4 {
                let before = noting::count();
                let scores = Scores::new(&output, 4, 2, stride).unwrap();
                let mut target = ScoresMut::new(&mut deriv, 4, 2, 2).unwrap();
                let mut other = ScoresMut::new(&mut xent, 4, 2, stride).unwrap();
                let outputs = (Some(&mut target), Some(&mut other));
                assert!(chain_objective(&den, &said, &config, scores, outputs.0, outputs.1, None).unwrap().ok);
                let mut target = ScoresMut::new(&mut xent, 4, 2, stride).unwrap();
                let target = Some((1.0, &mut target));
                assert!(den.forward_backward(&config, scores, 2, None, target, None).unwrap().ok);
                taken.push(noting::count() - before);
            }
            assert!(taken[0] > 0 && taken[1..] == [0, 0, 0], "{backend:?}: {taken:?}");
        }
    }
}
