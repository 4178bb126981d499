//! The face of the crate's own items.

use std::path::Path;
use std::sync::Arc;

use koshi::Error;
use koshi::decoder::{BatchItem, Channel, Decodable, Decoder, DecoderConfig, MatrixDecodable, SegmentEnd};
use koshi::graph::{Columns, Graph};
use koshi::lattice::{self, LanguageModel, Lattice, RawLattice};
use koshi::search::{EndpointConfig, Phrase, Rows, SearchStats};
use koshi::table::Input;

use super::{Face, Fault, Matrix, Outcome, Pull, Scores, Status, Words, own, with_backend};

pub struct Rust;

/// The status that the C face promises for an error.
pub(super) fn status(error: &Error) -> Status {
    match error.root() {
        Error::Argument(_) => Status::KOSHI_E_ARGUMENT,
        Error::Handle(_) => Status::KOSHI_E_HANDLE,
        Error::Busy(_) => Status::KOSHI_E_BUSY,
        Error::State(_) => Status::KOSHI_E_STATE,
        Error::Config(_) => Status::KOSHI_E_CONFIG,
        Error::Unsupported(_) => Status::KOSHI_E_UNSUPPORTED,
        Error::Io { .. } => Status::KOSHI_E_IO,
        Error::Format { .. } => Status::KOSHI_E_FORMAT,
        Error::Graph(_) => Status::KOSHI_E_GRAPH,
        Error::Shape(_) => Status::KOSHI_E_SHAPE,
        Error::Scores { .. } => Status::KOSHI_E_SCORES,
        Error::NoTokens { .. } => Status::KOSHI_E_NO_TOKENS,
        Error::Full(_) => Status::KOSHI_E_FULL,
        Error::Limit(_) => Status::KOSHI_E_LIMIT,
        Error::Capacity { .. } => Status::KOSHI_E_CAPACITY,
        Error::NoMemory { .. } => Status::KOSHI_E_NO_MEMORY,
        Error::NoDevice(_) => Status::KOSHI_E_NO_DEVICE,
        Error::Device(_) => Status::KOSHI_E_DEVICE,
        Error::Callback { .. } => Status::KOSHI_E_CALLBACK,
        Error::Cancelled => Status::KOSHI_E_CANCELLED,
        Error::Internal(_) | Error::Context { .. } => Status::KOSHI_E_INTERNAL,
    }
}

pub(super) fn fault(error: Error) -> Fault {
    Fault { status: status(&error), message: error.chain() }
}

fn words(path: lattice::Path) -> Words {
    let lattice::Path { ilabels, olabels, frames, graph_cost, acoustic_cost, bias_cost, .. } = path;
    Words { ilabels, olabels, frames, graph_cost, acoustic_cost, bias_cost }
}

pub(super) fn rows(matrix: Matrix) -> Outcome<Rows> {
    Rows::new(matrix.data, matrix.frames, matrix.dim, matrix.stride).map_err(fault)
}

/// [`Scores`] as the decoder asks for them.
struct Pulled<'a> {
    scores: &'a mut dyn Scores,
    how: Pull,
}

impl Decodable for Pulled<'_> {
    fn num_columns(&mut self) -> koshi::Result<usize> {
        Ok(self.scores.columns())
    }

    fn num_frames_ready(&mut self) -> koshi::Result<u64> {
        Ok(self.scores.ready())
    }

    fn is_last_frame(&mut self, frame: u64) -> koshi::Result<bool> {
        Ok(frame + 1 == self.scores.ready())
    }

    fn fill_row(&mut self, frame: u64, needed: &dyn Fn(&mut [bool]), row: &mut [f32]) -> koshi::Result<()> {
        let mut asked = vec![self.how == Pull::Rows; row.len()];
        if self.how == Pull::Single {
            needed(&mut asked);
        }
        for column in (0..row.len()).filter(|&column| asked[column]) {
            let score = self.scores.score(frame, column);
            row[column] = score.map_err(|status| Error::Callback { what: "score".into(), status })?;
        }
        Ok(())
    }
}

impl Face for Rust {
    type Graph = Arc<Graph>;
    type Decoder = Arc<Decoder>;
    type Channel = Channel;

    fn graph_from_memory(bytes: &[u8]) -> Outcome<Arc<Graph>> {
        Graph::from_memory(bytes, Columns::Labels).map(Arc::new).map_err(fault)
    }

    fn graph_read(path: &Path, columns: Option<&[i32]>) -> Outcome<Arc<Graph>> {
        let columns = columns.map_or(Columns::Labels, |table| Columns::Table(table.to_vec()));
        Graph::read(path, columns).map(Arc::new).map_err(fault)
    }

    fn num_states(graph: &Arc<Graph>) -> u32 {
        graph.num_states()
    }

    fn decoder(graph: &Arc<Graph>, config: &DecoderConfig) -> Outcome<Arc<Decoder>> {
        Decoder::new(Arc::clone(graph), with_backend(config)).map_err(fault)
    }

    fn default_decoder(graph: &Arc<Graph>) -> Outcome<Arc<Decoder>> {
        Self::decoder(graph, &DecoderConfig::default())
    }

    fn channel(decoder: &Arc<Decoder>) -> Outcome<Channel> {
        decoder.new_channel().map_err(fault)
    }

    fn begin(channel: &mut Channel) -> Outcome {
        channel.begin().map_err(fault)
    }

    fn set_bias(channel: &mut Channel, phrases: &[Phrase<'_>]) -> Outcome {
        channel.set_bias(phrases).map_err(fault)
    }

    fn push(channel: &mut Channel, matrix: Matrix) -> Outcome {
        channel.push(rows(matrix)?).map_err(fault)
    }

    fn batch(decoder: &Arc<Decoder>, items: &mut [(&mut Channel, Matrix)]) -> Vec<Result<(), Status>> {
        let mut batch: Vec<BatchItem> =
            items.iter_mut().map(|(channel, matrix)| BatchItem::new(channel, rows(*matrix).unwrap())).collect();
        decoder.advance(&mut batch).unwrap();
        batch.into_iter().map(|item| item.result.map_err(|error| status(&error))).collect()
    }

    fn pull_matrix(channel: &mut Channel, matrix: Matrix, max_frames: Option<u64>) -> Outcome<u64> {
        channel.advance(&mut MatrixDecodable::new(rows(matrix)?), max_frames).map_err(fault)
    }

    fn pull(channel: &mut Channel, scores: &mut dyn Scores, how: Pull, max_frames: Option<u64>) -> Outcome<u64> {
        channel.advance(&mut Pulled { scores, how }, max_frames).map_err(fault)
    }

    fn finish(channel: &mut Channel) -> Outcome {
        channel.finish().map_err(fault)
    }

    fn cancel(channel: &Channel) -> Outcome {
        channel.canceller().cancel();
        Ok(())
    }

    fn num_frames(channel: &Channel) -> u64 {
        channel.num_frames()
    }

    fn reached_final(channel: &Channel) -> Option<bool> {
        channel.reached_final().ok()
    }

    fn final_relative_cost(channel: &Channel) -> Option<f32> {
        channel.final_relative_cost().ok()
    }

    fn best_path(channel: &Channel, use_final: bool) -> Outcome<Words> {
        channel.best_path(use_final).map(words).map_err(fault)
    }

    fn partial(channel: &Channel) -> Outcome<(Words, usize)> {
        channel.partial().map(|(path, stable)| (words(path), stable)).map_err(fault)
    }

    fn lattice(channel: &mut Channel, use_final: bool) -> Outcome<RawLattice> {
        channel.lattice(use_final).map_err(fault)
    }

    fn stats(channel: &Channel) -> Outcome<SearchStats> {
        channel.stats().map_err(fault)
    }

    fn push_rows(channel: &mut Channel, matrix: Matrix) -> Outcome<usize> {
        channel.push_rows(rows(matrix)?).map_err(fault)
    }

    fn set_endpoint_rules(decoder: &Arc<Decoder>, config: Option<&EndpointConfig>) -> Outcome {
        decoder.set_endpoint_rules(config).map_err(fault)
    }

    fn endpoint(channel: &Channel) -> Outcome<Option<SegmentEnd>> {
        channel.endpoint().map_err(fault)
    }

    fn num_segments(channel: &Channel) -> u64 {
        channel.num_segments()
    }

    fn segment(channel: &Channel, number: u64) -> Outcome<(SegmentEnd, Words, RawLattice)> {
        let segment = channel.segment(number).map_err(fault)?;
        let lattice = Lattice::clone(&segment.lattice).into_raw().map_err(fault)?;
        Ok((segment.end, words(segment.best_path.as_ref().clone()), lattice))
    }

    fn lattice_from_memory(bytes: &[u8]) -> Outcome<RawLattice> {
        Lattice::from_bytes(bytes).and_then(Lattice::into_raw).map_err(fault)
    }

    fn lattice_best_path(bytes: &[u8], acoustic_scale: f32) -> Outcome<Words> {
        Lattice::from_bytes(bytes).and_then(|lattice| lattice.best_path(acoustic_scale)).map(words).map_err(fault)
    }

    fn lattice_prune(bytes: &[u8], beam: f32) -> Outcome<RawLattice> {
        let lattice = Lattice::from_bytes(bytes).and_then(|lattice| lattice.prune(beam, 1.0));
        lattice.and_then(Lattice::into_raw).map_err(fault)
    }

    fn lattice_nbest(bytes: &[u8], n: usize, acoustic_scale: f32) -> Outcome<Vec<(Words, f64)>> {
        let nbest = Lattice::from_bytes(bytes).and_then(|lattice| lattice.nbest(n, acoustic_scale)).map_err(fault)?;
        assert!(!nbest.cut_short);
        Ok(nbest.paths.iter().map(|path| words(path.as_ref().clone())).zip(nbest.posteriors).collect())
    }

    fn lattice_union(one: &[u8], other: &[u8]) -> Outcome<Vec<u8>> {
        let [one, other] = [one, other].map(Lattice::from_bytes);
        one.and_then(|one| one.union(&other?)?.to_bytes(true)).map_err(fault)
    }

    fn lattice_depth(bytes: &[u8]) -> Outcome<f64> {
        Lattice::from_bytes(bytes).map(|lattice| lattice.depth()).map_err(fault)
    }

    fn lattice_oracle(bytes: &[u8], reference: &[i32]) -> Outcome<(u32, Words)> {
        let oracle = Lattice::from_bytes(bytes).and_then(|lattice| lattice.oracle(reference)).map_err(fault)?;
        Ok((oracle.errors(), words(oracle.path)))
    }

    fn lattice_rescore(bytes: &[u8], old: Option<&[u8]>, new: Option<&[u8]>, scale: f32) -> Outcome<RawLattice> {
        let model = |bytes: Option<&[u8]>| {
            bytes.map(|bytes| LanguageModel::read(&mut Input::from_bytes("memory", bytes), None)).transpose()
        };
        let (old, new) = (model(old).map_err(fault)?, model(new).map_err(fault)?);
        let rescored =
            Lattice::from_bytes(bytes).and_then(|lattice| lattice.rescore(old.as_ref(), new.as_ref(), scale));
        rescored.and_then(Lattice::into_raw).map_err(fault)
    }

    fn lattice_to_memory(lattice: &RawLattice, binary: bool) -> Outcome<Vec<u8>> {
        own(|| Lattice::from(lattice.clone())).to_bytes(binary).map_err(fault)
    }
}
