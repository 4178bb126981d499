//! Measures the GPU decoder: many lanes, a live stream, and where the time of a launch goes.
//!
//! `cargo run --release --example koshi_bench_gpu -- [--OPTION VALUE]...` (see `options.rs`)
//!
//! Without options it decodes the prompts of `examples/data`. First each utterance's lattice on the
//! GPU is held to the CPU's, bit for bit: times of a decoder that is wrong are worth nothing.
//! All of it ends within `--budget`, however slow the device is.

mod compare;
mod measure;
mod options;
mod report;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use koshi::cuda;
use koshi::graph::{Columns, Graph};
use koshi::table::{Matrix, MatrixHolder, SequentialReader, Transitions};
use options::{Clock, Options};
use report::Report;

/// Prints where the kernels come from: machine code, or what the driver makes of something else.
struct Kernels;

impl log::Log for Kernels {
    fn enabled(&self, metadata: &log::Metadata) -> bool {
        metadata.target() == "koshi::cuda::module"
    }

    fn log(&self, record: &log::Record) {
        if self.enabled(record.metadata()) {
            println!("{}", record.args());
        }
    }

    fn flush(&self) {}
}

fn main() -> ExitCode {
    if log::set_logger(&Kernels).is_ok() {
        log::set_max_level(log::LevelFilter::Info);
    }
    match Options::read(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// The error as a line.
fn told<T>(result: koshi::Result<T>) -> Result<T, String> {
    result.map_err(|error| error.chain())
}

/// What is decoded.
struct Speech {
    graph: Arc<Graph>,
    utterances: Vec<(String, Matrix)>,
}

fn run(options: &Options) -> Result<(), String> {
    let clock = Clock::new(options.budget);
    let devices = cuda::devices().map_err(|reason| format!("no GPU: {reason}"))?;
    for (at, device) in devices.iter().enumerate() {
        let (major, minor) = device.compute_capability;
        let gib = device.total_memory >> 30;
        let cuda::DeviceInfo { name, multiprocessors, driver_version: driver, .. } = device;
        let driver = format!("{}.{}", driver / 1000, driver % 1000 / 10);
        println!(
            "GPU {at}: {name} ({major}.{minor}, {multiprocessors} multiprocessors, {gib} GiB; driver for CUDA {driver})"
        );
    }
    let speech = read(options)?;
    let mut report = Report::new(options)?;
    for (at, search) in options.settings.iter().enumerate() {
        // What one setting leaves over goes to the next.
        let clock = clock.part(1.0 / (options.settings.len() - at) as f64, f64::INFINITY);
        report.setting(search)?;
        compare::compare(&speech, options, search, clock.part(0.3, f64::INFINITY), &mut report)?;
        let a_frame = measure::latency(&speech, options, search, clock.part(0.15, options.seconds), &mut report)?;
        measure::sweep(&speech, options, search, clock, a_frame, &mut report)?;
    }
    report.end()
}

fn read(options: &Options) -> Result<Speech, String> {
    let since = Instant::now();
    let model = told(Transitions::read_file(&options.model))?;
    let pdfs: Vec<i32> = (1..=model.num_ids()).map(|id| model.pdf(id).map_or(-1, |pdf| pdf as i32)).collect();
    let columns = Columns::Transitions(Arc::new(model));
    let graph = Arc::new(told(Graph::read(Path::new(&options.graph), columns))?);
    let mut utterances = Vec::new();
    let mut reader = told(SequentialReader::<MatrixHolder<f32>>::open(&options.likes))?;
    while let Some((key, matrix)) = told(reader.next())? {
        if utterances.len() == options.utterances {
            break;
        }
        let rows = matrix.rows().min(options.frames);
        if rows > 0 {
            let cols = matrix.cols();
            utterances.push((key, told(Matrix::from_data(rows, cols, matrix.data()[..rows * cols].to_vec()))?));
        }
    }
    if utterances.is_empty() {
        return Err(format!("{}: no frames", options.likes));
    }
    let frames: usize = utterances.iter().map(|(_, matrix)| matrix.rows()).sum();
    println!(
        "{} states, {} arcs; {} utterances, {frames} frames; read in {:.2} s",
        graph.num_states(),
        graph.num_arcs(),
        utterances.len(),
        since.elapsed().as_secs_f64()
    );
    let speech = Speech { graph, utterances };
    if let Some(folder) = &options.export {
        let folder = Path::new(folder);
        export(folder, &pdfs, &speech.utterances).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    Ok(speech)
}

/// Writes rows as they are (little-endian floats, utterance behind utterance), their sizes, and the column of each
/// transition-id from 1 on.
fn export(folder: &Path, columns: &[i32], utterances: &[(String, Matrix)]) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let create = |name| File::create(folder.join(name)).map(BufWriter::new);
    let (mut sizes, mut rows, mut ids) = (create("utterances.txt")?, create("rows.f32")?, create("columns.txt")?);
    for (key, matrix) in utterances {
        writeln!(sizes, "{key} {} {}", matrix.rows(), matrix.cols())?;
        matrix.data().iter().try_for_each(|value| rows.write_all(&value.to_le_bytes()))?;
    }
    columns.iter().try_for_each(|column| writeln!(ids, "{column}"))?;
    [sizes, rows, ids].iter_mut().try_for_each(BufWriter::flush)
}
