//! Scales the costs of lattices, with the command line, files and log lines of Kaldi's `lattice-scale`.

mod support;

use std::process::ExitCode;

use koshi::lattice::{CompactLatticeHolder, LatticeWeight};
use koshi::table::{SequentialReader, TableWriter};

use support::costs::{self, Scales};
use support::exit::{self, Failure};
use support::options::Options;

const USAGE: &str = "\
Scales the costs of lattices, and writes them in the compact form.

Usage: koshi-lattice-scale [options] <lattices-rspecifier> <lattices-wspecifier>

 e.g.: koshi-lattice-scale --inv-acoustic-scale=12 ark:1.lats ark:scaled.lats

The exit status is 0 if there was at least one lattice and nothing that was read or written was broken,
else 1.
";

#[derive(Default)]
struct Config {
    scales: Scales,
    acoustic_to_graph: f32,
    graph_to_acoustic: f32,
}

fn main() -> ExitCode {
    exit::run("koshi-lattice-scale", || {
        let mut config = Config::default();
        let mut options = Options::new(USAGE);
        config.scales.add_to(&mut options);
        let doc = "This times the acoustic cost is added to the graph cost";
        options.float("acoustic2lm-scale", &mut config.acoustic_to_graph, doc);
        let doc = "This times the graph cost is added to the acoustic cost";
        options.float("lm2acoustic-scale", &mut config.graph_to_acoustic, doc);
        let Some(arguments) = options.read(2, 2)? else { return Ok(()) };
        run(&config, &arguments)
    })
}

fn run(config: &Config, arguments: &[String]) -> Result<(), Failure> {
    let argument = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    let acoustic_scale = config.scales.acoustic()?;
    // In binary64 and rounded once, as in Kaldi.
    let sum = |a: f32, x: f32, b: f32, y: f32| (f64::from(a) * f64::from(x) + f64::from(b) * f64::from(y)) as f32;
    let scaled = |LatticeWeight { graph, acoustic }| LatticeWeight {
        graph: sum(config.scales.graph, graph, config.acoustic_to_graph, acoustic),
        acoustic: sum(config.graph_to_acoustic, graph, acoustic_scale, acoustic),
    };
    let mut reader = SequentialReader::<CompactLatticeHolder>::open(argument(0))?;
    let mut writer = TableWriter::<CompactLatticeHolder>::open(argument(1))?;
    let mut done = 0u64;
    while let Some((key, mut lattice)) = reader.next()? {
        let changed = costs::change(&mut lattice, |_, weight| scaled(weight), scaled);
        changed.map_err(|error| error.context(format!("lattice {key}")))?;
        writer.write(&key, &lattice)?;
        done += 1;
    }
    reader.close()?;
    writer.close()?;
    log::info!(target: "main", "Done {done} lattices.");
    if done > 0 { Ok(()) } else { Err(Failure::Told) }
}
