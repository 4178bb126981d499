//! The measurements: a live stream's latency, and a sweep over lanes and chunks.

use std::sync::Arc;
use std::time::Instant;

use koshi::cuda::{CudaLanes, StageSeconds};
use koshi::decoder::{BackendChoice, BatchItem, Channel, Decoder};
use koshi::search::{Rows, SearchConfig};
use rayon::prelude::*;

use crate::options::{Clock, Options};
use crate::report::Report;
use crate::{Speech, told};

/// Quantiles of times, in microseconds.
pub struct Latency {
    pub pushes: usize,
    /// Median and 99th percentile of a push of one frame, and of it with the partial result.
    pub push: [f64; 2],
    pub partial: [f64; 2],
}

fn quantiles(mut times: Vec<f64>) -> [f64; 2] {
    times.sort_by(f64::total_cmp);
    [0.5, 0.99].map(|share| times.get((times.len().saturating_sub(1) as f64 * share) as usize).map_or(0.0, |t| t * 1e6))
}

/// One channel, one frame a push. Gives the median seconds of a push.
pub fn latency(
    speech: &Speech,
    options: &Options,
    search: &SearchConfig,
    clock: Clock,
    report: &mut Report,
) -> Result<f64, String> {
    let decoder = told(Decoder::new(Arc::clone(&speech.graph), options.decoder(search, BackendChoice::Cuda, 1)))?;
    let mut channel = told(decoder.new_channel())?;
    let (mut pushes, mut partials) = (Vec::new(), Vec::new());
    'all: for (_, matrix) in speech.utterances.iter().cycle() {
        told(channel.begin())?;
        for row in matrix.iter_rows() {
            let since = Instant::now();
            told(channel.push(told(Rows::dense(row, matrix.cols()))?))?;
            pushes.push(since.elapsed().as_secs_f64());
            told(channel.partial())?;
            partials.push(since.elapsed().as_secs_f64());
            if clock.is_over() {
                break 'all;
            }
        }
    }
    let latency = Latency { pushes: pushes.len(), push: quantiles(pushes), partial: quantiles(partials) };
    report.latency(search, &latency)?;
    Ok(latency.push[0] * 1e-6)
}

/// A row of the sweep.
pub struct Cell {
    pub lanes: u32,
    pub chunk: usize,
    pub seconds: f64,
    pub frames: usize,
    pub stages: StageSeconds,
}

/// A channel, its utterance, and the frames of it that are done.
struct Caller {
    channel: Channel,
    utterance: usize,
    done: usize,
}

/// Each number of lanes with each length of chunks, while there is time. `a_frame`: seconds that a lane takes for
/// a frame, from which a batch's time is foretold before anything is known of larger ones.
pub fn sweep(
    speech: &Speech,
    options: &Options,
    search: &SearchConfig,
    clock: Clock,
    mut a_frame: f64,
    report: &mut Report,
) -> Result<(), String> {
    let device_bytes = |lanes| told(CudaLanes::device_bytes(&speech.graph, search, lanes));
    report.sweep(device_bytes(2)? - device_bytes(1)?);
    let mut cells_left = options.lanes.len() * options.chunks.len();
    for &lanes in &options.lanes {
        // Made where something of it fits: its memory takes time too.
        let mut decoder = None;
        for &chunk in &options.chunks {
            let share = 1.0 / cells_left as f64;
            cells_left -= 1;
            // Twice: a batch to warm up, and one that counts.
            if 2.0 * a_frame * f64::from(lanes) * chunk as f64 > clock.left() {
                report.left_out(format!("{lanes} lanes, chunk {chunk}"));
                continue;
            }
            let config = options.decoder(search, BackendChoice::Cuda, lanes);
            let made = decoder.get_or_insert_with(|| Decoder::new(Arc::clone(&speech.graph), config));
            match made {
                Ok(decoder) => {
                    let cell = throughput(speech, decoder, lanes, chunk, clock.part(share, options.seconds))?;
                    a_frame = cell.seconds / cell.frames.max(1) as f64;
                    report.cell(search, &cell)?;
                }
                Err(error) => report.no_decoder(lanes, chunk, &error.chain()),
            }
        }
    }
    report.best(search);
    Ok(())
}

/// As many channels as lanes, all busy, `chunk` frames a push; utterances that end hand over their lattice.
fn throughput(speech: &Speech, decoder: &Arc<Decoder>, lanes: u32, chunk: usize, clock: Clock) -> Result<Cell, String> {
    let mut callers = Vec::new();
    for at in 0..lanes as usize {
        let mut channel = told(decoder.new_channel())?;
        told(channel.begin())?;
        // Not all begin with the same one.
        callers.push(Caller { channel, utterance: at % speech.utterances.len(), done: 0 });
    }
    batch(speech, decoder, &mut callers, chunk)?;
    let (before, begun) = (decoder.stage_seconds().unwrap_or_default(), Instant::now());
    let mut frames = 0;
    while frames == 0 || !clock.is_over() {
        frames += batch(speech, decoder, &mut callers, chunk)?;
    }
    let (seconds, now) = (begun.elapsed().as_secs_f64(), decoder.stage_seconds().unwrap_or_default());
    let stages = StageSeconds {
        copy_in: now.copy_in - before.copy_in,
        decode: now.decode - before.decode,
        prune: now.prune - before.prune,
        reports: now.reports - before.reports,
        launches: now.launches - before.launches,
        on_host: now.on_host - before.on_host,
    };
    Ok(Cell { lanes, chunk, seconds, frames, stages })
}

/// One push to each channel. Gives how many frames were done.
fn batch(speech: &Speech, decoder: &Decoder, callers: &mut [Caller], chunk: usize) -> Result<usize, String> {
    let mut items = Vec::new();
    let mut frames = 0;
    for Caller { channel, utterance, done } in &mut *callers {
        let matrix = &speech.utterances[*utterance].1;
        let rows = told(Rows::dense(matrix.data(), matrix.cols()))?.slice(*done, chunk);
        *done += rows.frames();
        frames += rows.frames();
        items.push(BatchItem::new(channel, rows));
    }
    told(decoder.advance(&mut items))?;
    items.into_iter().try_for_each(|item| told(item.result))?;
    // On all threads, as a server would.
    callers.par_iter_mut().try_for_each(|Caller { channel, utterance, done }| {
        if *done >= speech.utterances[*utterance].1.rows() {
            std::hint::black_box(told(channel.lattice(true))?);
            told(channel.begin())?;
            (*utterance, *done) = ((*utterance + 1) % speech.utterances.len(), 0);
        }
        Ok::<(), String>(())
    })?;
    Ok(frames)
}
