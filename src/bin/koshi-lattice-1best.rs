//! The best paths of lattices as lattices of their own, with the command line, files and log lines of Kaldi's
//! `lattice-1best`.

mod support;

use std::process::ExitCode;

use koshi::lattice::{CompactLattice, CompactLatticeHolder, Lattice, Route};
use koshi::table::{SequentialReader, TableWriter};
use koshi::{Error, Result};

use support::costs::{self, Scales};
use support::exit::{self, Failure};
use support::options::Options;

const USAGE: &str = "\
Writes the best path of each lattice as a compact lattice, with the key and the costs that it had.

Usage: koshi-lattice-1best [options] <lattices-rspecifier> <lattices-wspecifier>

 e.g.: koshi-lattice-1best --acoustic-scale=0.1 ark:1.lats ark:1best.lats

A lattice without any path counts as failed. The exit status is 0 if there was a path in at least one
and nothing that was read or written was broken, else 1.
";

#[derive(Default)]
struct Config {
    scales: Scales,
    penalty: f32,
}

fn main() -> ExitCode {
    exit::run("koshi-lattice-1best", || {
        let mut config = Config::default();
        let mut options = Options::new(USAGE);
        config.scales.add_to(&mut options);
        let doc = "What each word costs while the path is looked for, besides the scaled costs";
        options.float("word-ins-penalty", &mut config.penalty, doc);
        let Some(arguments) = options.read(2, 2)? else { return Ok(()) };
        run(&config, &arguments)
    })
}

fn run(config: &Config, arguments: &[String]) -> Result<(), Failure> {
    let argument = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    let acoustic_scale = config.scales.acoustic()?;
    if acoustic_scale == 0.0 || config.scales.graph == 0.0 {
        return Err(Error::Config("Do not use exactly zero acoustic or LM scale (cannot be inverted)".into()).into());
    }
    let mut reader = SequentialReader::<CompactLatticeHolder>::open(argument(0))?;
    let mut writer = TableWriter::<CompactLatticeHolder>::open(argument(1))?;
    let (mut done, mut failed) = (0u64, 0u64);
    while let Some((key, lattice)) = reader.next()? {
        let route = best_route(&lattice, config, acoustic_scale);
        let route = route.map_err(|error| error.context(format!("lattice {key}")))?;
        if route.last.is_none() {
            log::warn!(target: "main", "Possibly empty lattice for utterance-id {key}(no output)");
            failed += 1;
            continue;
        }
        writer.write(&key, &lattice.linear_along(&route)?)?;
        done += 1;
    }
    reader.close()?;
    writer.close()?;
    log::info!(target: "main", "Done converting {done} to best path, {failed} had errors.");
    if done > 0 { Ok(()) } else { Err(Failure::Told) }
}

fn best_route(lattice: &CompactLattice, config: &Config, acoustic_scale: f32) -> Result<Route> {
    let mut weighed = lattice.clone();
    weighed.scale(config.scales.graph, acoustic_scale)?;
    costs::add_penalty(&mut weighed, config.penalty)?;
    Lattice::from(weighed).best_route(1.0, 1.0)
}
