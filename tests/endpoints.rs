//! End points on random graphs, held to rules that are tried on a best path which is traced anew after
//! every frame; and what becomes of a search at one: it goes on, stops, or begins a new segment.

mod common;

use std::sync::Arc;

use common::graph::Rng;
use common::random_endpoints::{Case, endpoint};
use common::reference::{Reference, Stop};
use koshi::Error;
use koshi::decoder::{BackendChoice, BatchItem, Channel, Decoder, DecoderConfig, SegmentEnd};
use koshi::graph::{Columns, Graph};
use koshi::lattice::Path;
use koshi::search::{EndpointAction, EndpointConfig, EndpointRule, Rows, Silence};

/// Pushes of one to nine rows, now and then as a batch, from `from` on; how many were taken in all.
fn push_on(channel: &mut Channel, rows: Rows<'_>, from: usize, rng: &mut Rng) -> (usize, Result<(), Error>) {
    let push = rows.slice(from, 1 + rng.below(9) as usize);
    if rng.below(2) == 0 {
        let before = channel.num_frames();
        let result = channel.push_rows(push);
        let done = (channel.num_frames() - before) as usize;
        assert!(result.as_ref().is_ok_and(|&counted| counted == done) || result.is_err());
        return (done, result.map(drop));
    }
    let decoder = Arc::clone(channel.decoder());
    let mut items = [BatchItem::new(channel, push)];
    decoder.advance(&mut items).unwrap();
    let [BatchItem { done, result, .. }] = items;
    (done, result)
}

fn found(channel: &Channel) -> Option<SegmentEnd> {
    channel.endpoint().unwrap()
}

/// Noted or stopped at: the end point is the reference's, and the search goes on as if there were none.
fn noted(backend: BackendChoice, case: u64, frames: u64, action: EndpointAction) -> bool {
    let (case, mut rng) = Case::new(case, frames, action);
    let Some(mut channel) = case.channel(backend) else { return false };
    let Ok(mut reference) = Reference::begin(&case.source, case.search) else { return false };
    let (name, rows) = (&case.name, case.rows());
    let (mut expected, mut done) = (None, 0);
    while done < rows.frames() {
        let awaited = found(&channel).is_none();
        let (more, result) = push_on(&mut channel, rows, done, &mut rng);
        for at in done..done + more {
            reference.advance(rows.row(at)).unwrap();
            expected = expected.or_else(|| endpoint(&reference, &case.config));
        }
        done += more;
        let expected = expected.map(|endpoint| SegmentEnd { segment: 0, first_frame: 0, endpoint });
        assert_eq!(found(&channel), expected, "{name}");
        if let (EndpointAction::Stop, true, Some(end)) = (action, awaited, expected) {
            assert_eq!(end.frames(), done as u64, "stopped behind it: {name}");
            assert_eq!(channel.lattice(true).unwrap(), reference.lattice(true), "{name}");
        }
        if result.is_err() {
            reference.advance(rows.row(done)).unwrap_err();
            break;
        }
        // A further push goes on behind the end point.
        assert!(more > 0, "{name}");
    }
    for use_final in [true, false] {
        assert_eq!(channel.lattice(use_final).unwrap(), reference.lattice(use_final), "{name}");
    }
    expected.is_some()
}

/// As segments: each is what its rows alone give, and no row is lost. Gives how many there were.
fn segmented(backend: BackendChoice, case: u64, frames: u64) -> usize {
    let (case, mut rng) = Case::new(case, frames, EndpointAction::Segment);
    let Some(mut channel) = case.channel(backend) else { return 0 };
    let (name, rows) = (&case.name, case.rows());
    let mut done = 0;
    let mut failed = None;
    while done < rows.frames() && failed.is_none() {
        let (more, result) = push_on(&mut channel, rows, done, &mut rng);
        done += more;
        failed = result.err();
    }
    assert_eq!(channel.num_frames(), done as u64, "{name}");
    let Ok(mut reference) = Reference::begin(&case.source, case.search) else { return 0 };
    let (mut first, mut closed) = (0, 0);
    let in_time = |mut path: Path, first: usize| {
        path.frames.iter_mut().for_each(|frame| *frame += first as u32);
        path
    };
    for at in 0..done {
        reference.advance(rows.row(at)).unwrap();
        let Some(endpoint) = endpoint(&reference, &case.config) else { continue };
        let segment = channel.segment(closed).unwrap();
        assert_eq!(segment.end, SegmentEnd { segment: closed, first_frame: first as u64, endpoint }, "{name}");
        assert_eq!(*segment.best_path, in_time(reference.best_path(true), first), "{name}");
        assert_eq!((*segment.lattice).clone().into_raw().unwrap(), reference.lattice(true), "{name}");
        closed += 1;
        first = at + 1;
        reference = Reference::begin(&case.source, case.search).unwrap();
    }
    assert_eq!(channel.num_segments(), closed, "{name}");
    assert!(matches!(channel.segment(closed), Err(Error::Argument(_))));
    // The open one.
    assert_eq!(channel.lattice(false).unwrap(), reference.lattice(false), "{name}");
    assert_eq!(channel.partial().unwrap().0, in_time(reference.best_path(false), first), "{name}");
    if let Some(error) = failed {
        let expected = match reference.advance(rows.row(done)).unwrap_err() {
            Stop::NoTokens { frame } | Stop::Capacity { frame } | Stop::Scores { frame, .. } => frame,
            other => panic!("{other:?} {name}"),
        };
        let named = match *error.root() {
            Error::NoTokens { frame } | Error::Capacity { frame, .. } | Error::Scores { frame, .. } => frame,
            ref other => panic!("{other} {name}"),
        };
        assert_eq!(named, expected + first as u64, "{name}");
        assert_eq!(channel.push(rows).unwrap_err().to_string(), error.to_string());
    }
    closed as usize
}

#[test]
fn rules_hold_where_the_reference_says() {
    for action in [EndpointAction::Note, EndpointAction::Stop] {
        let found = (0..3_000).filter(|&case| noted(BackendChoice::Cpu, case, 14, action)).count();
        let late = (0..150).filter(|&case| noted(BackendChoice::Cpu, 1_000_000 + case, 60, action)).count();
        assert!(found > 500 && late > 30, "end points found: {found}, {late}");
    }
}

#[test]
fn rules_hold_where_the_reference_says_on_the_gpu() {
    common::gpu();
    for action in [EndpointAction::Note, EndpointAction::Stop] {
        let found = (0..60).filter(|&case| noted(BackendChoice::Cuda, 2_000_000 + case, 24, action)).count();
        assert!(found > 10, "end points found: {found}");
    }
}

#[test]
fn segments_are_what_their_rows_alone_give() {
    let segments: usize = (0..1_500).map(|case| segmented(BackendChoice::Cpu, case, 30)).sum();
    assert!(segments > 2_000, "segments: {segments}");
}

#[test]
fn segments_are_what_their_rows_alone_give_on_the_gpu() {
    common::gpu();
    let segments: usize = (0..60).map(|case| segmented(BackendChoice::Cuda, 3_000_000 + case, 24)).sum();
    assert!(segments > 60, "segments: {segments}");
}

#[test]
fn values_out_of_their_ranges_are_refused() {
    let source = common::graph::source(Some(0), vec![(0.0, vec![common::graph::arc(1, 1, 0.0, 0)])]);
    let graph = Arc::new(Graph::from_source(&source, Columns::Labels).unwrap());
    let decoder =
        Decoder::new(graph, DecoderConfig { backend: BackendChoice::Cpu, ..DecoderConfig::default() }).unwrap();
    let good = EndpointConfig {
        rules: EndpointRule::DEFAULTS,
        silence: Silence::Ilabels(vec![1]),
        action: EndpointAction::Note,
        segments_kept: 1,
    };
    decoder.set_endpoint_rules(Some(&good)).unwrap();
    let with = |change: &dyn Fn(&mut EndpointConfig)| {
        let mut config = good.clone();
        change(&mut config);
        decoder.set_endpoint_rules(Some(&config)).unwrap_err().to_string()
    };
    for bad in [f64::NAN, -0.1, f64::NEG_INFINITY] {
        let message = with(&|config| config.rules[2].min_trailing_silence = bad);
        assert!(message.starts_with("min_trailing_silence of rule 3 is"), "{message}");
        let message = with(&|config| config.rules[4].min_utterance_length = bad);
        assert!(message.starts_with("min_utterance_length of rule 5 is"), "{message}");
        let message = with(&|config| config.rules[0].max_relative_cost = bad as f32);
        assert!(message.starts_with("max_relative_cost of rule 1 is"), "{message}");
    }
    for bad in [0, -1, i32::MIN] {
        let message = with(&|config| config.silence = Silence::Olabels(vec![2, bad]));
        assert!(message.contains(&format!("label {bad} ")), "{message}");
    }
    let message = with(&|config| config.silence = Silence::Phones(vec![1]));
    assert!(message.contains("transition model"), "{message}");
}
