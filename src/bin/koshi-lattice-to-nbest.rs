//! The n best paths of lattices as lattices of their own, with the command line, files and log lines of
//! Kaldi's `lattice-to-nbest`.

mod support;

use std::process::ExitCode;

use koshi::lattice::{CompactLatticeHolder, LatticeHolder};
use koshi::table::{SequentialReader, TableWriter, format_general};
use koshi::{Error, Result};

use support::exit::{self, Failure};
use support::options::Options;

const USAGE: &str = "\
Writes the n best paths of each lattice, the best first, each as a compact lattice of its own. Paths
of the utterance x have the keys x-1, x-2 and so on. Their words differ, whatever the lattice is like
(Kaldi's program gives the same words several times where a lattice is not determinized).

Usage: koshi-lattice-to-nbest [options] <lattices-rspecifier> <lattices-wspecifier>

 e.g.: koshi-lattice-to-nbest --acoustic-scale=0.1 --n=10 ark:1.lats ark:nbest.lats

The exit status is 0 if there was a path in at least one lattice and nothing that was read or written
was broken, else 1.
";

struct Config {
    acoustic_scale: f32,
    lm_scale: f32,
    n: i32,
    random: bool,
    srand: i32,
}

fn main() -> ExitCode {
    exit::run("koshi-lattice-to-nbest", || {
        let mut config = Config { acoustic_scale: 1.0, lm_scale: 1.0, n: 1, random: false, srand: 0 };
        let mut options = Options::new(USAGE);
        options.float("acoustic-scale", &mut config.acoustic_scale, "Multiplies acoustic costs");
        options.float("lm-scale", &mut config.lm_scale, "Multiplies graph costs");
        options.int("n", &mut config.n, "How many paths of each lattice at most");
        let doc = "Write n paths drawn at random, which may repeat, instead of the best";
        options.flag("random", &mut config.random, doc);
        let doc = "Seed for --random; paths repeat for a seed, they are not those that Kaldi draws";
        options.int("srand", &mut config.srand, doc);
        let Some(arguments) = options.read(2, 2)? else { return Ok(()) };
        run(&config, &arguments)
    })
}

impl Config {
    fn check(&self) -> Result<usize> {
        if self.acoustic_scale == 0.0 || self.lm_scale == 0.0 {
            return Err(Error::Config("Do not use a zero acoustic or LM scale (cannot be inverted)".into()));
        }
        match usize::try_from(self.n) {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(Error::Config(format!("n is {}; it must be 1 or more", self.n))),
        }
    }
}

fn run(config: &Config, arguments: &[String]) -> Result<(), Failure> {
    let n = config.check()?;
    let argument = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    let mut reader = SequentialReader::<LatticeHolder>::open(argument(0))?;
    let mut writer = TableWriter::<CompactLatticeHolder>::open(argument(1))?;
    let (mut done, mut paths, mut seed) = (0u64, 0u64, config.srand as u64);
    while let Some((key, lattice)) = reader.next()? {
        let routes = if config.random {
            // Each lattice has numbers of its own.
            seed = seed.wrapping_add(1 << 32);
            lattice.random_routes(n, seed)
        } else {
            lattice.nbest_routes(n, config.lm_scale, config.acoustic_scale)
        };
        let routes = routes.map_err(|error| error.context(format!("lattice {key}")))?;
        if routes.is_empty() {
            log::warn!(target: "main", "Possibly empty lattice for utterance-id {key}(no N-best entries)");
            continue;
        }
        for (at, route) in routes.iter().enumerate() {
            let number = at + 1;
            writer.write(&format!("{key}-{number}"), &lattice.linear_along(route)?)?;
        }
        done += 1;
        paths += routes.len() as u64;
    }
    reader.close()?;
    writer.close()?;
    let average = format_general(if done == 0 { 0.0 } else { paths as f64 / done as f64 }, 6);
    let what = format!("{done} lattices with n = {n}, average actual #paths is {average}");
    log::info!(target: "main", "Done applying N-best algorithm to {what}");
    if done > 0 { Ok(()) } else { Err(Failure::Told) }
}
