//! Prunes lattices at a beam, with the command line, files and log lines of Kaldi's `lattice-prune`.

mod support;

use std::process::ExitCode;

use koshi::Error;
use koshi::lattice::{CompactLatticeHolder, RawLattice, RawLatticeHolder};
use koshi::table::{SequentialReader, TableWriter, format_general};

use support::costs::Scales;
use support::exit::{self, Failure};
use support::options::Options;

const USAGE: &str = "\
Leaves out what lies on no path whose scaled cost is within the beam of the best one's, and writes
lattices in the compact form with the costs that they had.

Usage: koshi-lattice-prune [options] <lattices-rspecifier> <lattices-wspecifier>

 e.g.: koshi-lattice-prune --acoustic-scale=0.1 --beam=4 ark:1.lats ark:pruned.lats

The exit status is 0 if there was at least one lattice and nothing that was read or written was broken,
else 1.
";

fn main() -> ExitCode {
    exit::run("koshi-lattice-prune", || {
        let (mut scales, mut beam) = (Scales::default(), 10.0);
        let mut options = Options::new(USAGE);
        scales.add_acoustic_to(&mut options);
        options.float("beam", &mut beam, "Beam, of scaled costs");
        let Some(arguments) = options.read(2, 2)? else { return Ok(()) };
        run(&scales, beam, &arguments)
    })
}

/// States and arcs, of all lattices together.
#[derive(Default)]
struct Size {
    states: usize,
    arcs: usize,
}

impl Size {
    fn add(&mut self, lattice: &RawLattice) {
        self.states += lattice.num_states();
        self.arcs += lattice.num_arcs();
    }
}

fn run(scales: &Scales, beam: f32, arguments: &[String]) -> Result<(), Failure> {
    let argument = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    let acoustic_scale = scales.acoustic()?;
    if acoustic_scale == 0.0 {
        return Err(Error::Config("Do not use a zero acoustic scale (cannot be inverted)".into()).into());
    }
    let mut reader = SequentialReader::<RawLatticeHolder>::open(argument(0))?;
    let mut writer = TableWriter::<CompactLatticeHolder>::open(argument(1))?;
    let (mut before, mut after, mut done) = (Size::default(), Size::default(), 0u64);
    while let Some((key, lattice)) = reader.next()? {
        let in_lattice = |error: Error| error.context(format!("lattice {key}"));
        let pruned = lattice.prune(beam, acoustic_scale).map_err(in_lattice)?;
        let states = format!("#states from {} to {}", lattice.num_states(), pruned.num_states());
        let arcs = format!("#arcs from {} to {}", lattice.num_arcs(), pruned.num_arcs());
        log::info!(target: "main", "For utterance {key}, pruned {states} and {arcs}");
        writer.write(&key, &pruned.to_compact().map_err(in_lattice)?)?;
        before.add(&lattice);
        after.add(&pruned);
        done += 1;
    }
    reader.close()?;
    writer.close()?;
    let mean = |sum: usize| format_general(sum as f64 / done.max(1) as f64, 6);
    let states = format!("from on average {} to {} states", mean(before.states), mean(after.states));
    let arcs = format!("from {} to {} arcs", mean(before.arcs), mean(after.arcs));
    log::info!(target: "main", "Overall, pruned {states}, and {arcs}, over {done} utterances.");
    log::info!(target: "main", "Done {done} lattices.");
    if done > 0 { Ok(()) } else { Err(Failure::Told) }
}
