//! Measures the GPU decoder: many lanes, a live stream, and where the time of a launch goes.
//!
//! `cargo run --release --example koshi_bench_gpu -- [--graph HCLG.fst] [--model trans.mdl]
//! [--likes ark:loglikes.ark] [--seconds 3] [--lanes 1,32,128,256] [--chunks 1,16,64]`
//!
//! Without options it decodes the prompts of `examples/data`. First each utterance's lattice on the
//! GPU is held to the CPU's, bit for bit: times of a decoder that is wrong are worth nothing.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use koshi::cuda::{self, StageSeconds};
use koshi::decoder::{BackendChoice, BatchItem, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::search::{Rows, SearchConfig};
use koshi::table::{Matrix, MatrixHolder, SequentialReader, Transitions};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// What is measured, and how long.
struct Options {
    graph: String,
    model: String,
    likes: String,
    seconds: f64,
    lanes: Vec<u32>,
    chunks: Vec<usize>,
    search: SearchConfig,
}

impl Options {
    fn read() -> Result<Options, String> {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/prompts");
        let file = |name: &str| data.join(name).display().to_string();
        let mut options = Options {
            graph: file("HCLG.fst"),
            model: file("trans.mdl"),
            likes: format!("ark:{}", file("loglikes.ark")),
            seconds: 3.0,
            lanes: vec![1, 32, 128, 256, 512, 1024],
            chunks: vec![1, 16, 64],
            search: SearchConfig {
                beam: 13.0,
                lattice_beam: 6.0,
                max_active: 7_000,
                acoustic_scale: 0.083_333,
                ..SearchConfig::default()
            },
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            let bad = || format!("{name} {value}: not a number");
            match name.as_str() {
                "--graph" => options.graph = value,
                "--model" => options.model = value,
                "--likes" => options.likes = value,
                "--seconds" => options.seconds = value.parse().map_err(|_| bad())?,
                "--lanes" => options.lanes = numbers(&value).ok_or_else(bad)?,
                "--chunks" => options.chunks = numbers(&value).ok_or_else(bad)?,
                "--beam" => options.search.beam = value.parse().map_err(|_| bad())?,
                "--lattice-beam" => options.search.lattice_beam = value.parse().map_err(|_| bad())?,
                "--max-active" => options.search.max_active = value.parse().map_err(|_| bad())?,
                "--acoustic-scale" => options.search.acoustic_scale = value.parse().map_err(|_| bad())?,
                _ => return Err(format!("{name} is not an option")),
            }
        }
        Ok(options)
    }

    fn config(&self, backend: BackendChoice, num_lanes: u32) -> DecoderConfig {
        DecoderConfig { search: self.search, backend, num_lanes, ..DecoderConfig::default() }
    }
}

/// Numbers with commas between them.
fn numbers<T: std::str::FromStr>(text: &str) -> Option<Vec<T>> {
    text.split(',').map(|number| number.parse().ok()).collect()
}

/// The error as a line.
fn told<T>(result: koshi::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.chain())
}

fn run() -> Result<(), String> {
    let options = Options::read()?;
    let devices = cuda::devices().map_err(|reason| format!("no GPU: {reason}"))?;
    for device in devices {
        let (major, minor) = device.compute_capability;
        println!("{} ({major}.{minor}, {} multiprocessors)", device.name, device.multiprocessors);
    }
    let model = told(Transitions::read_file(&options.model))?;
    let columns = Columns::Transitions(Arc::new(model));
    let graph = Arc::new(told(Graph::read(Path::new(&options.graph), columns))?);
    let mut utterances = Vec::new();
    let mut reader = told(SequentialReader::<MatrixHolder<f32>>::open(&options.likes))?;
    while let Some((key, matrix)) = told(reader.next())? {
        utterances.push((key, matrix));
    }
    if utterances.iter().all(|(_, matrix)| matrix.rows() == 0) {
        return Err(format!("{}: no frames", options.likes));
    }
    compare(&graph, &options, &utterances)?;
    latency(&graph, &options, &utterances)?;
    println!("\nlanes  chunk   frames/s    x real time   copy in  decode  prune  reports  host    launches");
    for &lanes in &options.lanes {
        for &chunk in &options.chunks {
            throughput(&graph, &options, &utterances, lanes, chunk)?;
        }
    }
    Ok(())
}

/// Holds the lattices of both backends to each other.
fn compare(graph: &Arc<Graph>, options: &Options, utterances: &[(String, Matrix)]) -> Result<(), String> {
    let decoders = [BackendChoice::Cpu, BackendChoice::Cuda]
        .map(|backend| told(Decoder::new(Arc::clone(graph), options.config(backend, 1))));
    let [cpu, gpu] = decoders;
    let (cpu, gpu) = (cpu?, gpu?);
    let (mut arcs, mut seconds) = (0, [0.0; 2]);
    for (key, matrix) in utterances {
        let mut found = Vec::new();
        for (decoder, seconds) in [&cpu, &gpu].into_iter().zip(&mut seconds) {
            let mut channel = told(decoder.new_channel())?;
            told(channel.begin())?;
            let since = Instant::now();
            told(channel.push(told(Rows::dense(matrix.data(), matrix.cols()))?))?;
            *seconds += since.elapsed().as_secs_f64();
            if told(channel.stats())?.capacity_held > 0 {
                return Err(format!("{key}: a capacity struck; the comparison does not hold"));
            }
            found.push(told(channel.lattice(true))?);
        }
        if found[0] != found[1] {
            return Err(format!("{key}: the lattices of CPU and GPU differ"));
        }
        arcs += found[0].num_arcs();
    }
    let frames: usize = utterances.iter().map(|(_, matrix)| matrix.rows()).sum();
    println!("{} utterances, {frames} frames, {arcs} arcs: the lattices of CPU and GPU are the same", utterances.len());
    println!("one utterance after another: CPU {:.2} s, GPU {:.2} s (one lane)", seconds[0], seconds[1]);
    Ok(())
}

/// One channel, one frame a push.
fn latency(graph: &Arc<Graph>, options: &Options, utterances: &[(String, Matrix)]) -> Result<(), String> {
    let decoder = told(Decoder::new(Arc::clone(graph), options.config(BackendChoice::Cuda, 1)))?;
    let mut channel = told(decoder.new_channel())?;
    let (mut times, begun) = (Vec::new(), Instant::now());
    'all: for (_, matrix) in utterances.iter().cycle() {
        told(channel.begin())?;
        for row in matrix.iter_rows() {
            let since = Instant::now();
            told(channel.push(told(Rows::dense(row, matrix.cols()))?))?;
            told(channel.partial())?;
            times.push(since.elapsed().as_secs_f64() * 1e6);
            if begun.elapsed().as_secs_f64() > options.seconds {
                break 'all;
            }
        }
    }
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("a frame and its partial result, one channel: median {:.0} us, 99 % {:.0} us", at(0.5), at(0.99));
    Ok(())
}

/// As many channels as lanes, all busy, `chunk` frames a push.
fn throughput(
    graph: &Arc<Graph>,
    options: &Options,
    utterances: &[(String, Matrix)],
    lanes: u32,
    chunk: usize,
) -> Result<(), String> {
    let decoder = match Decoder::new(Arc::clone(graph), options.config(BackendChoice::Cuda, lanes)) {
        Ok(decoder) => decoder,
        Err(error) => {
            println!("{lanes:5}  {chunk:5}   {}", error.chain());
            return Ok(());
        }
    };
    let mut channels = Vec::new();
    for at in 0..lanes as usize {
        let mut channel = told(decoder.new_channel())?;
        told(channel.begin())?;
        // Channel, its utterance, frames done: not all begin with the same one.
        channels.push((channel, at % utterances.len(), 0));
    }
    let (before, begun) = (decoder.stage_seconds().unwrap_or_default(), Instant::now());
    let mut frames = 0;
    while begun.elapsed().as_secs_f64() < options.seconds {
        let mut items = Vec::new();
        for (channel, utterance, done) in &mut channels {
            let matrix = &utterances[*utterance].1;
            let rows = told(Rows::dense(matrix.data(), matrix.cols()))?.slice(*done, chunk);
            *done += rows.frames();
            frames += rows.frames();
            items.push(BatchItem::new(channel, rows));
        }
        told(decoder.advance(&mut items))?;
        for item in items {
            told(item.result)?;
        }
        for (channel, utterance, done) in &mut channels {
            if *done >= utterances[*utterance].1.rows() {
                std::hint::black_box(told(channel.lattice(true))?);
                told(channel.begin())?;
                (*utterance, *done) = ((*utterance + 1) % utterances.len(), 0);
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let stages = decoder.stage_seconds().unwrap_or_default();
    let share = |of: fn(&StageSeconds) -> f64| 100.0 * (of(&stages) - of(&before)) / seconds;
    let device = [share(|s| s.copy_in), share(|s| s.decode), share(|s| s.prune), share(|s| s.reports)];
    let rate = frames as f64 / seconds;
    let host = 100.0 - device.iter().sum::<f64>();
    println!(
        "{lanes:5}  {chunk:5}  {rate:9.0}  {:11.0}    {:5.1} %  {:5.1} %  {:4.1} %  {:5.1} %  {host:5.1} %  {}",
        rate / 100.0,
        device[0],
        device[1],
        device[2],
        device[3],
        stages.launches - before.launches,
    );
    Ok(())
}
