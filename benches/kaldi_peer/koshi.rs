//! Koshi's side of what the scripts beside `benches/README.md` compare with other programs: one work each, timed by the
//! processor's clock, as those programs do it.
//!
//!     cargo run --release --example beside -- denominator den.fst NUM_PDFS [REPEAT]
//!     cargo run --release --example beside -- load GRAPH [REPEAT]
//!     cargo run --release --example beside -- first-frame CACHE COLUMNS
//!
//! `first-frame` is for a process of its own each time: milliseconds from opening the file to the end of the push of
//! one row, by the wall clock and of this thread (another begins to check the file meanwhile).

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use koshi::chain::{ChainBackend, ChainConfig, DenominatorGraph, Scores, ScoresMut};
use koshi::decoder::{BackendChoice, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::search::Rows;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Processor time of this thread.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is one that the system has, and `time` a place for its answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Least and median seconds of some rounds.
fn time(repeat: usize, mut work: impl FnMut() -> Result<()>) -> Result<(f64, f64)> {
    let mut seconds = Vec::new();
    for _ in 0..repeat.max(1) {
        let start = processor_time();
        work()?;
        seconds.push((processor_time() - start).as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok((seconds[0], seconds[seconds.len() / 2]))
}

/// As `chain.cc` beside this file does it: 128 sequences of 50 frames, and the same scores.
fn denominator(path: &str, pdfs: usize, repeat: usize) -> Result<()> {
    let (sequences, frames) = (128, 50);
    let graph = DenominatorGraph::read(path, pdfs)?;
    let mut bits = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (bits >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    let output: Vec<f32> = (0..sequences * frames * pdfs).map(|_| next()).collect();
    let scores = Scores::new(&output, sequences * frames, pdfs, pdfs)?;
    let config = ChainConfig {
        backend: ChainBackend::Cpu,
        num_threads: 1,
        leaky_hmm_coefficient: 0.1,
        ..ChainConfig::default()
    };
    let mut derivative = vec![0.0f32; output.len()];
    let mut log_prob = 0.0;
    let (least, median) = time(repeat, || {
        derivative.fill(0.0);
        let mut target = ScoresMut::new(&mut derivative, sequences * frames, pdfs, pdfs)?;
        log_prob = graph.forward_backward(&config, scores, sequences, None, Some((-1.0, &mut target)), None)?.log_prob;
        Ok(())
    })?;
    let squares: f64 = derivative.iter().map(|&value| f64::from(value).powi(2)).sum();
    println!("log-probability {log_prob:.3}, squares {squares:.4}, least {least:.6}, median {median:.6}");
    Ok(())
}

fn load(path: &str, repeat: usize) -> Result<()> {
    let mut arcs = 0;
    let (least, median) = time(repeat, || {
        arcs = black_box(Graph::read(path, Columns::Labels)?).num_arcs();
        Ok(())
    })?;
    println!("arcs {arcs}, least {least:.6}, median {median:.6}");
    Ok(())
}

fn first_frame(path: &str, columns: usize) -> Result<()> {
    let row = vec![-1.0; columns];
    let (start, processor) = (Instant::now(), processor_time());
    let graph = Arc::new(Graph::read(path, Columns::Labels)?);
    let config = DecoderConfig { num_threads: 1, backend: BackendChoice::Cpu, ..DecoderConfig::default() };
    let mut channel = Decoder::new(graph, config)?.new_channel()?;
    channel.begin()?;
    channel.push(Rows::dense(&row, columns)?)?;
    let (wall, processor) = (start.elapsed(), processor_time() - processor);
    println!("milliseconds: wall {:.3}, processor {:.3}", wall.as_secs_f64() * 1e3, processor.as_secs_f64() * 1e3);
    Ok(())
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["denominator", path, pdfs] => denominator(path, pdfs.parse()?, 5),
        ["denominator", path, pdfs, repeat] => denominator(path, pdfs.parse()?, repeat.parse()?),
        ["load", path] => load(path, 5),
        ["load", path, repeat] => load(path, repeat.parse()?),
        ["first-frame", path, columns] => first_frame(path, columns.parse()?),
        _ => {
            Err("usage: beside denominator DEN_FST PDFS [REPEAT] | load GRAPH [REPEAT] | first-frame CACHE COLUMNS"
                .into())
        }
    }
}
