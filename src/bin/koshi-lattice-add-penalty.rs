//! Adds a penalty for each word of lattices, with the command line, files and log lines of Kaldi's
//! `lattice-add-penalty`.

mod support;

use std::process::ExitCode;

use koshi::lattice::CompactLatticeHolder;
use koshi::table::{SequentialReader, TableWriter};

use support::costs;
use support::exit::{self, Failure};
use support::options::Options;

const USAGE: &str = "\
Adds a penalty, a cost in the unit of graph costs, to the graph cost of each word of lattices, and writes
them in the compact form.

Usage: koshi-lattice-add-penalty [options] <lattices-rspecifier> <lattices-wspecifier>

 e.g.: koshi-lattice-add-penalty --word-ins-penalty=0.5 ark:- ark:-

The exit status is 0 if there was at least one lattice and nothing that was read or written was broken,
else 1.
";

fn main() -> ExitCode {
    exit::run("koshi-lattice-add-penalty", || {
        let mut penalty = 0.0;
        let mut options = Options::new(USAGE);
        options.float("word-ins-penalty", &mut penalty, "What each word costs");
        let Some(arguments) = options.read(2, 2)? else { return Ok(()) };
        run(penalty, &arguments)
    })
}

fn run(penalty: f32, arguments: &[String]) -> Result<(), Failure> {
    let argument = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    let mut reader = SequentialReader::<CompactLatticeHolder>::open(argument(0))?;
    let mut writer = TableWriter::<CompactLatticeHolder>::open(argument(1))?;
    let mut done = 0u64;
    while let Some((key, mut lattice)) = reader.next()? {
        costs::add_penalty(&mut lattice, penalty).map_err(|error| error.context(format!("lattice {key}")))?;
        writer.write(&key, &lattice)?;
        done += 1;
    }
    reader.close()?;
    writer.close()?;
    log::info!(target: "main", "Done adding word insertion penalty to {done} lattices.");
    if done > 0 { Ok(()) } else { Err(Failure::Told) }
}
