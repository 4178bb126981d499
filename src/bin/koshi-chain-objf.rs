//! Scores one network output with the chain objective, and writes its derivatives.

mod support;

use std::io::Write;
use std::process::ExitCode;

use koshi::Error;
use koshi::chain::{
    ChainBackend, ChainConfig, DenominatorGraph, Objective, Scores, ScoresMut, Supervision, chain_objective,
};
use koshi::table::{Matrix, MatrixHolder, format_general, read_file, write_file};

use support::exit::{self, Failure};
use support::options::Options;

const USAGE: &str = "Computes the chain (LF-MMI) objective of one minibatch and, where files are named for them, its
derivatives. Prints a line: objective, l2 term, weight, and \"ok\", or \"fallback\" where no objective can be had.

Usage: koshi-chain-objf [options] <den.fst> <supervision> <network-output> [<deriv> [<xent-deriv>]]
 e.g.: koshi-chain-objf --leaky-hmm-coefficient=0.1 den.fst supervision.bin output.mat deriv.mat
Row t * sequences + n of the network output is frame t of sequence n; it has a column for each pdf. The derivative is
that of objective, l2 term and out-of-range penalty, which is applied at exactly the scale given; the other one is that
of the cross-entropy objective, not multiplied by its scale.
";

fn main() -> ExitCode {
    exit::run("koshi-chain-objf", || {
        let mut config = ChainConfig::default();
        let mut num_threads = config.num_threads as i32;
        let mut use_gpu = "no".to_string();
        let mut options = Options::new(USAGE);
        let leak = "How likely a leap to any state is between frames; 0 or more, below 1";
        options.float("leaky-hmm-coefficient", &mut config.leaky_hmm_coefficient, leak);
        options.float("l2-regularize", &mut config.l2_regularize, "Scale of the l2 penalty on the network output");
        let xent = "Scale of the cross-entropy objective; what is written is not multiplied by it";
        options.float("xent-regularize", &mut config.xent_regularize, xent);
        let range = "Scale of the penalty on outputs beyond -30 and 30, in the derivative only";
        options.float("out-of-range-regularize", &mut config.out_of_range_regularize, range);
        let gpu = "yes: on the first GPU, or not at all; optional: there if one can be used; no: on the CPU";
        options.text("use-gpu", &mut use_gpu, gpu);
        options.int("num-threads", &mut num_threads, "Threads; results do not depend on their number");
        let Some(arguments) = options.read(3, 5)? else { return Ok(()) };
        config.num_threads = u32::try_from(num_threads).unwrap_or(0);
        config.backend = backend(&use_gpu)?;
        config.check()?;
        run(&config, &arguments)
    })
}

fn backend(use_gpu: &str) -> Result<ChainBackend, Error> {
    match use_gpu {
        "yes" => Ok(ChainBackend::Cuda),
        "optional" => Ok(ChainBackend::Auto),
        "no" => Ok(ChainBackend::Cpu),
        other => Err(Error::Config(format!("--use-gpu={other}: it must be yes, no or optional"))),
    }
}

fn run(config: &ChainConfig, arguments: &[String]) -> Result<(), Failure> {
    let [den, supervision, output, outputs @ ..] = arguments else { return Ok(()) };
    let supervision = Supervision::open(supervision)?;
    let output: Matrix = read_file::<MatrixHolder>(output)?;
    let (rows, cols) = (output.rows(), output.cols());
    let graph = DenominatorGraph::read(den, cols)?;
    let mut matrices = Vec::new();
    for _ in outputs {
        matrices.push(Matrix::from_data(rows, cols, koshi::error::try_filled(0.0, rows * cols, "derivative")?)?);
    }
    let mut views = matrices.iter_mut().map(|matrix| ScoresMut::new(matrix.data_mut(), rows, cols, cols));
    let (mut deriv, mut xent_deriv) = (views.next().transpose()?, views.next().transpose()?);
    let scores = Scores::new(output.data(), rows, cols, cols)?;
    let found = chain_objective(&graph, &supervision, config, scores, deriv.as_mut(), xent_deriv.as_mut(), None)?;
    for (name, matrix) in outputs.iter().zip(&matrices) {
        write_file::<MatrixHolder>(name, matrix, true)?;
    }
    let mut out = std::io::stdout().lock();
    let written = out.write_all(line(&found).as_bytes()).and_then(|()| out.flush());
    Ok(written.map_err(|error| Error::io("standard output", error))?)
}

fn line(found: &Objective) -> String {
    let [objf, l2_term, weight] = [found.objf, found.l2_term, found.weight].map(|value| format_general(value, 9));
    format!("{objf} {l2_term} {weight} {}\n", if found.ok { "ok" } else { "fallback" })
}
