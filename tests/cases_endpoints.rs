//! Rows of the list of inputs that broke other decoders: end points.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use common::graph::{arc, source};
use face::{Face, Matrix, Status, graph};
use koshi::decoder::{DecoderConfig, SegmentEnd};
use koshi::graph::VecSource;
use koshi::search::{Endpoint, EndpointAction, EndpointConfig, EndpointRule, Silence};

over_both_faces! {
    case_b58_frame_shift_with_subsampling
    case_b60_silence_for_minutes
    case_b61_which_rule_ends_the_utterance
    finals_that_cost_keep_an_utterance_open
    questions_about_segments
}

over_both_faces_on_gpu! {
    case_b58_frame_shift_with_subsampling
    case_b60_silence_for_minutes
    case_b61_which_rule_ends_the_utterance
    finals_that_cost_keep_an_utterance_open
    questions_about_segments
}

const NEVER: EndpointRule = EndpointRule {
    must_contain_nonsilence: false,
    min_trailing_silence: f64::INFINITY,
    max_relative_cost: f32::INFINITY,
    min_utterance_length: 0.0,
};

/// One state with two loops: label 1 is silence, label 2 the word 7.
fn two_loops(final_cost: f32) -> VecSource {
    source(Some(0), vec![(final_cost, vec![arc(1, 0, 0.0, 0), arc(2, 7, 0.0, 0)])])
}

fn silence(frames: usize) -> Vec<f32> {
    [0.0, -9.0].repeat(frames)
}

fn speech(frames: usize) -> Vec<f32> {
    [-9.0, 0.0].repeat(frames)
}

fn rules(rules: [EndpointRule; 5], action: EndpointAction) -> EndpointConfig {
    EndpointConfig { rules, silence: Silence::Ilabels(vec![1]), action, segments_kept: 2 }
}

fn defaults(action: EndpointAction) -> EndpointConfig {
    rules(EndpointRule::DEFAULTS, action)
}

fn open<F: Face>(source: &VecSource, frame_shift: f64, rules: &EndpointConfig) -> (F::Decoder, F::Channel) {
    let decoder = F::decoder(&graph::<F>(source), &DecoderConfig { frame_shift, ..DecoderConfig::default() }).unwrap();
    F::set_endpoint_rules(&decoder, Some(rules)).unwrap();
    let mut channel = F::channel(&decoder).unwrap();
    F::begin(&mut channel).unwrap();
    (decoder, channel)
}

fn push<F: Face>(channel: &mut F::Channel, rows: &[f32]) -> usize {
    F::push_rows(channel, Matrix::dense(rows, 2)).unwrap()
}

/// Rule, frames and trailing silence of the end point.
fn found<F: Face>(channel: &F::Channel) -> Option<(u32, u64, u64)> {
    F::endpoint(channel).unwrap().map(|end| (end.endpoint.rule, end.frames(), end.endpoint.trailing_silence))
}

fn case_b58_frame_shift_with_subsampling<F: Face>() {
    let first = EndpointRule { min_trailing_silence: 0.3, ..NEVER };
    let config = rules([first, NEVER, NEVER, NEVER, NEVER], EndpointAction::Note);
    let (_decoder, mut channel) = open::<F>(&two_loops(0.0), 0.03, &config);
    for frame in 1..=12 {
        push::<F>(&mut channel, &silence(1));
        assert_eq!(found::<F>(&channel), (frame >= 10).then_some((1, 10, 10)), "after {frame} frames");
    }
    // With rows of 0.01 s it takes 30 of them.
    let (_decoder, mut channel) = open::<F>(&two_loops(0.0), 0.01, &config);
    push::<F>(&mut channel, &silence(29));
    assert_eq!(found::<F>(&channel), None);
    push::<F>(&mut channel, &silence(9));
    assert_eq!(found::<F>(&channel), Some((1, 30, 30)));
}

fn case_b60_silence_for_minutes<F: Face>() {
    // Noted once, however long it goes on, and again only after begin.
    let (_decoder, mut channel) = open::<F>(&two_loops(0.0), 0.01, &defaults(EndpointAction::Note));
    for _ in 0..2 {
        push::<F>(&mut channel, &silence(499));
        assert_eq!(found::<F>(&channel), None);
        push::<F>(&mut channel, &silence(101));
        assert_eq!(found::<F>(&channel), Some((1, 500, 500)));
        push::<F>(&mut channel, &silence(1_500));
        assert_eq!(found::<F>(&channel), Some((1, 500, 500)), "once");
        assert_eq!(F::num_segments(&channel), 0);
        F::begin(&mut channel).unwrap();
        assert_eq!(found::<F>(&channel), None, "re-armed");
    }
    // Stopped at once: the lattice is that of 500 frames, and what comes then is not stopped again.
    let (_decoder, mut channel) = open::<F>(&two_loops(0.0), 0.01, &defaults(EndpointAction::Stop));
    assert_eq!(push::<F>(&mut channel, &silence(600)), 500);
    assert_eq!(F::lattice(&mut channel, true).unwrap().num_frames, 500);
    assert_eq!(push::<F>(&mut channel, &silence(600)), 600);
    // As segments: one for each five seconds, which the caller can tell are empty.
    let (_decoder, mut channel) = open::<F>(&two_loops(0.0), 0.01, &defaults(EndpointAction::Segment));
    assert_eq!(push::<F>(&mut channel, &silence(600)), 600);
    assert_eq!((F::num_segments(&channel), F::num_frames(&channel)), (1, 600));
    let (end, words, lattice) = F::segment(&channel, 0).unwrap();
    assert_eq!((end.frames(), words.olabels.len(), lattice.num_frames), (500, 0, 500));
    // Without rules nothing is found.
    let (decoder, mut channel) = open::<F>(&two_loops(0.0), 0.01, &defaults(EndpointAction::Segment));
    F::set_endpoint_rules(&decoder, None).unwrap();
    push::<F>(&mut channel, &silence(600));
    assert_eq!(F::num_segments(&channel), 1, "the rules are those of begin");
    F::begin(&mut channel).unwrap();
    push::<F>(&mut channel, &silence(600));
    assert_eq!((F::num_segments(&channel), found::<F>(&channel)), (0, None));
}

fn case_b61_which_rule_ends_the_utterance<F: Face>() {
    let rows = [speech(100), silence(700)].concat();
    // Rule 1 counts silence at the end, not from the start: it would hold five seconds behind the speech,
    // but rule 2 holds sooner, where an end is likely.
    let (_decoder, mut channel) = open::<F>(&two_loops(0.0), 0.01, &defaults(EndpointAction::Note));
    push::<F>(&mut channel, &rows);
    assert_eq!(found::<F>(&channel), Some((2, 150, 50)));
    let first = EndpointRule::DEFAULTS[0];
    assert!(!first.must_contain_nonsilence);
    let config = rules([first, NEVER, NEVER, NEVER, NEVER], EndpointAction::Note);
    let (_decoder, mut channel) = open::<F>(&two_loops(0.0), 0.01, &config);
    push::<F>(&mut channel, &rows);
    assert_eq!(found::<F>(&channel), Some((1, 600, 500)));
    // Speech alone ends by its length.
    let (_decoder, mut channel) = open::<F>(&two_loops(0.0), 0.01, &defaults(EndpointAction::Note));
    push::<F>(&mut channel, &speech(2_001));
    assert_eq!(found::<F>(&channel), Some((5, 2_000, 0)));
    // Silence by words: behind the word 7 nothing is silent, before it everything is.
    for (words, expected) in [(vec![8], None), (vec![7], Some((1, 500, 500)))] {
        let config = EndpointConfig { silence: Silence::Olabels(words), ..config.clone() };
        let (_decoder, mut channel) = open::<F>(&two_loops(0.0), 0.01, &config);
        push::<F>(&mut channel, &rows);
        assert_eq!(found::<F>(&channel), expected);
    }
}

fn finals_that_cost_keep_an_utterance_open<F: Face>() {
    let rows = [speech(10), silence(300)].concat();
    let cases = [(2.0, (2, 60, 50)), (2.5, (3, 110, 100)), (8.5, (4, 210, 200)), (f32::INFINITY, (4, 210, 200))];
    for (final_cost, expected) in cases {
        let (_decoder, mut channel) = open::<F>(&two_loops(final_cost), 0.01, &defaults(EndpointAction::Note));
        push::<F>(&mut channel, &rows);
        assert_eq!(found::<F>(&channel), Some(expected), "final cost {final_cost}");
        assert_eq!(F::endpoint(&channel).unwrap().unwrap().endpoint.relative_cost, final_cost);
    }
}

fn questions_about_segments<F: Face>() {
    let decoder = F::decoder(&graph::<F>(&two_loops(0.0)), &DecoderConfig::default()).unwrap();
    F::set_endpoint_rules(&decoder, Some(&defaults(EndpointAction::Segment))).unwrap();
    let mut channel = F::channel(&decoder).unwrap();
    assert_eq!(F::endpoint(&channel).unwrap_err().status, Status::KOSHI_E_STATE);
    F::begin(&mut channel).unwrap();
    assert_eq!((F::num_segments(&channel), found::<F>(&channel)), (0, None));
    assert_eq!(F::segment(&channel, 0).unwrap_err().status, Status::KOSHI_E_ARGUMENT);
    // Five times one word and half a second, in one push; two segments are kept.
    let rows = [speech(1), silence(50)].concat().repeat(5);
    push::<F>(&mut channel, &rows);
    assert_eq!((F::num_segments(&channel), F::num_frames(&channel)), (5, 255));
    for number in 0..3 {
        assert_eq!(F::segment(&channel, number).unwrap_err().status, Status::KOSHI_E_STATE, "{number}");
    }
    for number in [3, 4] {
        let (end, words, lattice) = F::segment(&channel, number).unwrap();
        let endpoint = Endpoint { rule: 2, frames: 51, trailing_silence: 50, relative_cost: 0.0 };
        assert_eq!(end, SegmentEnd { segment: number, first_frame: 51 * number, endpoint });
        assert_eq!((words.olabels, words.frames), (vec![7], vec![51 * number as u32]));
        assert_eq!(lattice.num_frames, 51);
    }
    assert_eq!(F::segment(&channel, 5).unwrap_err().status, Status::KOSHI_E_ARGUMENT);
    assert_eq!(F::segment(&channel, u64::MAX).unwrap_err().status, Status::KOSHI_E_ARGUMENT);
    // What is left belongs to the open segment; counts are of all.
    push::<F>(&mut channel, &speech(2));
    F::finish(&mut channel).unwrap();
    let path = F::best_path(&channel, true).unwrap();
    assert_eq!((path.olabels, path.frames), (vec![7, 7], vec![255, 256]));
    assert_eq!((F::partial(&channel).unwrap().1, F::stats(&channel).unwrap().frames), (2, 257));
    assert_eq!(F::endpoint(&channel).unwrap().unwrap().segment, 4);
    F::begin(&mut channel).unwrap();
    assert_eq!((F::num_segments(&channel), F::num_frames(&channel)), (0, 0));
}
