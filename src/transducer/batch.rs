//! Steps of many streams together: each step makes at most one call of the prediction network, one
//! of the language model and one of the joint network, for all hypotheses of all streams.

use std::ops::Range;

use super::model::Part;
use super::networks::Transducer;
use super::row_scan::Wanted;
use super::stream::Stream;
use crate::error::{Result, try_reserve};

/// Arrays for the model's calls, used again and again.
#[derive(Default)]
pub(super) struct Buffers {
    states_in: Vec<u64>,
    states_out: Vec<u64>,
    labels: Vec<i32>,
    /// Who asks: stream and node.
    askers: Vec<(u32, u32)>,
    rows: Vec<f32>,
    encoder: Vec<f32>,
    outputs: Vec<f32>,
    scores: Vec<f32>,
    /// Streams that take part in this step, and which rows of the call are theirs.
    active: Vec<(u32, Range<usize>)>,
}

/// Searches all streams, which are of one transducer, until each needs further rows, has
/// ended or has failed. What becomes of one does not touch the others.
pub(super) fn run(transducer: &Transducer, streams: &mut [&mut Stream], buffers: &mut Buffers) {
    loop {
        if let Err(error) = plan(streams, buffers) {
            // Memory for the batch itself could not be had: none of them has been searched to the end.
            streams.iter_mut().for_each(|stream| stream.fail(super::stream::copy(&error)));
            return;
        }
        if buffers.active.is_empty() {
            break;
        }
        predict(transducer, streams, buffers, Part::Predictor);
        if transducer.shape().has_lm {
            predict(transducer, streams, buffers, Part::LanguageModel);
        }
        join(transducer, streams, buffers);
        for stream in streams.iter_mut() {
            stream.hand_back();
        }
    }
    streams.iter_mut().for_each(|stream| stream.drop_rows());
}

/// Lets each stream say what it wants.
fn plan(streams: &mut [&mut Stream], buffers: &mut Buffers) -> Result<()> {
    buffers.active.clear();
    try_reserve(&mut buffers.active, streams.len(), "streams of a batch")?;
    for (at, stream) in streams.iter_mut().enumerate() {
        if stream.plan() {
            buffers.active.push((at as u32, 0..0));
        }
    }
    Ok(())
}

/// Asks one network about all histories that it has not been asked about yet.
fn predict(transducer: &Transducer, streams: &mut [&mut Stream], buffers: &mut Buffers, part: Part) {
    let mut active = std::mem::take(&mut buffers.active);
    active.retain(|(at, _)| streams[*at as usize].goes_on());
    buffers.askers.clear();
    for (at, span) in &mut active {
        let start = buffers.askers.len();
        if let Err(error) = list_askers(streams[*at as usize], *at, part, buffers) {
            buffers.askers.truncate(start);
            streams[*at as usize].fail(error);
        }
        *span = start..buffers.askers.len();
    }
    let all = 0..buffers.askers.len();
    if !all.is_empty() {
        let asking = active.iter().filter(|(_, span)| !span.is_empty()).count();
        let result = ask(transducer, streams, buffers, part, all);
        if let Err(error) = result {
            // Whose fault it is shows when each is asked for alone.
            for (at, span) in active.iter().filter(|(_, span)| !span.is_empty()) {
                if !streams[*at as usize].goes_on() {
                    continue;
                }
                let alone = match asking {
                    1 => Err(super::stream::copy(&error)),
                    _ => ask(transducer, streams, buffers, part, span.clone()),
                };
                if let Err(error) = alone {
                    streams[*at as usize].fail(error);
                }
            }
        }
    }
    active.retain(|(at, _)| streams[*at as usize].is_open());
    buffers.active = active;
}

/// Lists the histories of a stream that `part` has to be asked about, with room for the answers.
fn list_askers(stream: &mut Stream, at: u32, part: Part, buffers: &mut Buffers) -> Result<()> {
    let base = stream.base();
    if part == Part::LanguageModel && !base.uses_lm {
        return Ok(());
    }
    let start = buffers.askers.len();
    try_reserve(&mut buffers.askers, base.asks.len(), "histories of a batch")?;
    for ask in &base.asks {
        if (part == Part::Predictor || matches!(ask.wanted, Wanted::Best(_))) && base.histories.queue(part, ask.node) {
            buffers.askers.push((at, ask.node));
        }
    }
    let count = buffers.askers.len() - start;
    base.histories.reserve(part, count)
}

/// Asks `part` about some of the listed histories, in one call.
fn ask(
    transducer: &Transducer,
    streams: &mut [&mut Stream],
    buffers: &mut Buffers,
    part: Part,
    range: Range<usize>,
) -> Result<()> {
    let width = transducer.width(part);
    let count = range.len();
    let askers = buffers.askers.get(range).unwrap_or(&[]);
    buffers.states_in.clear();
    buffers.labels.clear();
    try_reserve(&mut buffers.states_in, count, "states")?;
    try_reserve(&mut buffers.labels, count, "labels")?;
    for (at, node) in askers {
        let histories = &mut streams[*at as usize].base().histories;
        buffers.states_in.push(histories.state_before(part, *node));
        buffers.labels.push(histories.label(*node));
    }
    let states_out = room(&mut buffers.states_out, count, "states")?;
    let rows = room(&mut buffers.rows, count.saturating_mul(width), "predictions")?;
    transducer.ask(part, &buffers.states_in, &buffers.labels, states_out, rows)?;
    for (place, (at, node)) in askers.iter().enumerate() {
        let row = rows.get(place * width..(place + 1) * width).unwrap_or(&[]);
        streams[*at as usize].base().histories.answer(part, *node, states_out[place], row);
    }
    Ok(())
}

/// Has all pairs scored, and lets the streams go on.
fn join(transducer: &Transducer, streams: &mut [&mut Stream], buffers: &mut Buffers) {
    let mut active = std::mem::take(&mut buffers.active);
    active.retain(|(at, _)| streams[*at as usize].goes_on());
    buffers.encoder.clear();
    buffers.outputs.clear();
    let mut rows = 0;
    for (at, span) in &mut active {
        let stream = &mut streams[*at as usize];
        match list_pairs(stream, buffers) {
            Ok(count) => *span = rows..rows + count,
            Err(error) => {
                stream.fail(error);
                *span = rows..rows;
                buffers.encoder.truncate(rows * transducer.shape().encoder_dim);
                buffers.outputs.truncate(rows * transducer.shape().output_dim);
            }
        }
        rows = span.end;
    }
    active.retain(|(_, span)| !span.is_empty());
    let whole = score(transducer, buffers, 0..rows);
    for (at, span) in &active {
        if whole.is_err() && active.len() > 1 && !streams[*at as usize].goes_on() {
            continue;
        }
        let result = match &whole {
            Ok(()) => Ok(span.clone()),
            Err(error) if active.len() == 1 => Err(super::stream::copy(error)),
            // Whose fault it is shows when each is asked for alone.
            Err(_) => score(transducer, buffers, span.clone()).map(|()| 0..span.len()),
        };
        let stream = &mut streams[*at as usize];
        match result {
            Ok(span) => {
                let vocab_size = transducer.shape().vocab_size;
                let rows = buffers.scores.get(span.start * vocab_size..span.end * vocab_size).unwrap_or(&[]);
                stream.take(rows);
            }
            Err(error) => stream.fail(error),
        }
    }
    buffers.active = active;
}

/// Copies the pairs of a stream to the call's arrays.
fn list_pairs(stream: &mut Stream, buffers: &mut Buffers) -> Result<usize> {
    let base = stream.base();
    let count = base.asks.len();
    try_reserve(&mut buffers.encoder, count.saturating_mul(base.shape.encoder_dim), "pairs to be scored")?;
    try_reserve(&mut buffers.outputs, count.saturating_mul(base.shape.output_dim), "pairs to be scored")?;
    for ask in &base.asks {
        buffers.encoder.extend_from_slice(base.rows.row(ask.frame));
        buffers.outputs.extend_from_slice(base.histories.row(Part::Predictor, ask.node));
    }
    Ok(count)
}

/// Scores some of the listed pairs, in one call.
fn score(transducer: &Transducer, buffers: &mut Buffers, range: Range<usize>) -> Result<()> {
    if range.is_empty() {
        return Ok(());
    }
    let shape = transducer.shape();
    let scores = room(&mut buffers.scores, range.len().saturating_mul(shape.vocab_size), "scores")?;
    let part = |rows: &'_ [f32], dim: usize| -> Range<usize> {
        let end = (range.end * dim).min(rows.len());
        (range.start * dim).min(end)..end
    };
    let encoder = &buffers.encoder[part(&buffers.encoder, shape.encoder_dim)];
    let outputs = &buffers.outputs[part(&buffers.outputs, shape.output_dim)];
    transducer.join(encoder, outputs, range.len(), scores)
}

/// The first `len` places, which a call is about to fill.
fn room<'a, T: Clone + Default>(vec: &'a mut Vec<T>, len: usize, what: &str) -> Result<&'a mut [T]> {
    if vec.len() < len {
        try_reserve(vec, len - vec.len(), what)?;
        vec.resize(len, T::default());
    }
    Ok(&mut vec[..len])
}
