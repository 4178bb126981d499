//! The face of the crate's own items.

use koshi::Error;
use koshi::chain::{ChainConfig, DenominatorGraph, ScoresMut, Supervision, chain_objective};

use super::{Face, Fault, Found, Outcome, Scores, Status};

pub struct Rust;

fn fault(error: Error) -> Fault {
    let status = match error.root() {
        Error::Argument(_) => Status::KOSHI_E_ARGUMENT,
        Error::Config(_) => Status::KOSHI_E_CONFIG,
        Error::Unsupported(_) => Status::KOSHI_E_UNSUPPORTED,
        Error::Format { .. } => Status::KOSHI_E_FORMAT,
        Error::Graph(_) => Status::KOSHI_E_GRAPH,
        Error::Shape(_) => Status::KOSHI_E_SHAPE,
        Error::Limit(_) => Status::KOSHI_E_LIMIT,
        Error::NoMemory { .. } => Status::KOSHI_E_NO_MEMORY,
        Error::NoDevice(_) => Status::KOSHI_E_NO_DEVICE,
        Error::Device(_) => Status::KOSHI_E_DEVICE,
        other => panic!("{other}"),
    };
    Fault { status, message: error.chain() }
}

fn view(scores: &Scores) -> Outcome<koshi::chain::Scores<'_>> {
    koshi::chain::Scores::new(&scores.data, scores.rows, scores.cols, scores.stride).map_err(fault)
}

impl Face for Rust {
    type Den = DenominatorGraph;
    type Supervision = Supervision;

    fn den(bytes: &[u8], num_pdfs: usize) -> Outcome<DenominatorGraph> {
        DenominatorGraph::from_memory(bytes, num_pdfs).map_err(fault)
    }

    fn supervision(bytes: &[u8]) -> Outcome<Supervision> {
        Supervision::from_memory(bytes).map_err(fault)
    }

    fn merge(parts: &[&Supervision]) -> Outcome<Supervision> {
        Supervision::merge(parts).map_err(fault)
    }

    fn objf(
        den: &DenominatorGraph,
        supervision: &Supervision,
        config: &ChainConfig,
        scores: &Scores,
        deriv_weights: Option<&[f32]>,
    ) -> Outcome<Found> {
        let view = view(scores)?;
        let (rows, cols) = (scores.rows, scores.cols);
        let (mut deriv, mut xent) = (vec![f32::NAN; rows * cols], vec![f32::NAN; rows * cols]);
        let mut target = ScoresMut::new(&mut deriv, rows, cols, cols).map_err(fault)?;
        let mut other = ScoresMut::new(&mut xent, rows, cols, cols).map_err(fault)?;
        let (target, other) = (Some(&mut target), Some(&mut other));
        let found = chain_objective(den, supervision, config, view, target, other, deriv_weights).map_err(fault)?;
        Ok(Found { value: found.objf, l2_term: found.l2_term, weight: found.weight, ok: found.ok, deriv, xent })
    }

    fn denominator(
        den: &DenominatorGraph,
        config: &ChainConfig,
        scores: &Scores,
        num_sequences: usize,
        lengths: Option<&[u32]>,
    ) -> Outcome<Found> {
        let view = view(scores)?;
        let mut deriv = vec![0.0; scores.rows * scores.cols];
        let mut target = ScoresMut::new(&mut deriv, scores.rows, scores.cols, scores.cols).map_err(fault)?;
        let target = Some((1.0, &mut target));
        let found = den.forward_backward(config, view, num_sequences, lengths, target, None).map_err(fault)?;
        Ok(Found { value: found.log_prob, l2_term: 0.0, weight: 0.0, ok: found.ok, deriv, xent: Vec::new() })
    }

    fn numerator(supervision: &Supervision, scores: &Scores) -> Outcome<Found> {
        let view = view(scores)?;
        let mut deriv = vec![0.0; scores.rows * scores.cols];
        let mut target = ScoresMut::new(&mut deriv, scores.rows, scores.cols, scores.cols).map_err(fault)?;
        let found = supervision.forward_backward(view, Some(&mut target)).map_err(fault)?;
        Ok(Found { value: found.log_prob, l2_term: 0.0, weight: 0.0, ok: found.ok, deriv, xent: Vec::new() })
    }
}
