//! Decodes matrices of log-likelihoods to lattices, with the command line, files and log
//! lines of Kaldi's program of that name.

mod latgen;
mod support;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use koshi::decoder::Decoder;
use koshi::graph::{Columns, Graph};
use koshi::table::{Rspecifier, Transitions};

use latgen::{Config, Graphs, Input, Job, Output};
use support::behind::behind;
use support::exit::{self, Failure};
use support::in_order::in_order;

fn main() -> ExitCode {
    exit::run("koshi-latgen-faster-mapped", || {
        let mut config = Config::default();
        let Some(mut arguments) = config.options().read(3, 6)? else { return Ok(()) };
        let (least, most) = if config.labels_are_columns { (3, 5) } else { (4, 6) };
        if !(least..=most).contains(&arguments.len()) {
            let given = arguments.len();
            return Err(Failure::Usage(format!("{least} to {most} arguments are needed, {given} given")));
        }
        if config.labels_are_columns {
            // The others keep their places.
            arguments.insert(0, String::new());
        }
        run(&config, &arguments)
    })
}

fn run(config: &Config, arguments: &[String]) -> Result<(), Failure> {
    let decoder_config = config.decoder()?;
    let determinize = config.determinizer()?;
    let argument = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    let transitions = match config.labels_are_columns {
        true => None,
        false => Some(Arc::new(Transitions::read_file(argument(0))?)),
    };
    let columns = transitions.clone().map_or(Columns::Labels, Columns::Transitions);
    let mut output = Output::open(config, determinize.is_some(), [argument(3), argument(4), argument(5)])?;
    let graphs = match Rspecifier::parse(argument(1)) {
        Ok(_) => Graphs::Table,
        Err(_) => {
            let graph = Graph::open(argument(1), columns)?;
            Graphs::One(Decoder::new(Arc::new(graph), decoder_config)?)
        }
    };
    let job = Job { transitions, graphs, decoder_config, allow_partial: config.allow_partial, determinize };

    let start = Instant::now();
    let threads = config.num_threads as usize;
    let mut input = Input::open(&job.graphs, argument(1), argument(2))?;
    let next = || input.next();
    let mut take = |outcome| output.take(outcome);
    match (&job.determinize, threads) {
        (None, _) => in_order(threads, next, || job.worker(), take)?,
        // One thread searches; a second one determinizes behind it.
        (Some(_), 1) => behind(job.determinizer(), take, |give| in_order(1, next, || job.worker(), give))?,
        (Some(_), _) => {
            let worker = || {
                let (mut decode, mut determinize) = (job.worker(), job.determinizer());
                move |utterance| determinize(decode(utterance))
            };
            in_order(threads, next, worker, &mut take)?;
        }
    }
    input.close()?;
    let totals = output.close()?;
    totals.tell(start.elapsed().as_secs_f64(), threads);
    if totals.done > 0 { Ok(()) } else { Err(Failure::Told) }
}
