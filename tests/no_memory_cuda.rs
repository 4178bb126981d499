//! On the software GPU each allocation that grows with the input fails once, in the whole life of a decoder and in calls of
//! the chain objective: the call answers that there is no memory, and works when it is made again; nothing is left behind.

#[path = "common/chain/mod.rs"]
mod chain;
mod common;
#[path = "support/refusing.rs"]
mod refusing;

use std::sync::Arc;

use chain::{Random, supervision};
use common::graph::Rng;
use common::soft::{self, Soft};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr};
use koshi::chain::{ChainBackend, ChainConfig, DenominatorGraph, Scores, ScoresMut, Supervision, chain_objective};
use koshi::cuda::DeviceRows;
use koshi::decoder::{BackendChoice, BatchItem, Channel, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::lattice::{Path, RawLattice};
use koshi::search::{Phrase, Rows, SearchConfig};
use koshi::{Error, Result};

/// What is promised of (docs/security.md): smaller allocations may end the process.
const LEAST: usize = 4096;

const FRAMES: usize = 12;

fn exempt() -> bool {
    false
}

/// Makes a call again that fails for want of memory, and notes that.
fn insist<T>(refused: &mut usize, mut call: impl FnMut() -> Result<T>) -> T {
    loop {
        match call() {
            Ok(made) => return made,
            Err(error) => {
                assert!(matches!(error.root(), Error::NoMemory { .. }), "{}", error.chain());
                *refused += 1;
                assert!(*refused < 3, "{}", error.chain());
            }
        }
    }
}

struct Work {
    graph: Arc<Graph>,
    rows: Vec<f32>,
    dim: usize,
    /// The rows in device memory.
    memory: CudaSlice<f32>,
    stream: Arc<CudaStream>,
}

/// What comes of the utterances of a life.
type Found = (RawLattice, Path, Path, usize, RawLattice);

impl Work {
    fn rows(&self, from: usize, to: usize) -> Rows<'_> {
        Rows::dense(&self.rows, self.dim).unwrap().slice(from, to - from)
    }

    /// The life of a decoder: an utterance with phrases that change on the way, and at last from device memory; and two in
    /// batches. Calls that are refused something are made again.
    fn live(&self, backend: BackendChoice, lists: &[Vec<Phrase<'_>>; 2], refused: &mut usize) -> Found {
        // A window is full after a few frames.
        let search =
            SearchConfig { beam: 8.0, lattice_beam: 6.0, max_active: 300, link_budget: 50, ..Default::default() };
        let config = DecoderConfig { search, backend, num_lanes: 2, num_threads: 1, ..DecoderConfig::default() };
        let decoder = insist(refused, || Decoder::new(Arc::clone(&self.graph), config));
        let mut channels: Vec<Channel> = (0..3).map(|_| insist(refused, || decoder.new_channel())).collect();
        let [biased, one, other] = &mut channels[..] else { unreachable!() };
        insist(refused, || biased.set_bias(&lists[0]));
        insist(refused, || biased.begin());
        let mut push = |biased: &mut Channel, to: usize| {
            insist(refused, || biased.push(self.rows(biased.num_frames() as usize, to)));
        };
        push(biased, 1);
        push(biased, 10);
        insist(refused, || biased.set_bias(&lists[1]));
        let partial = insist(refused, || biased.partial());
        let (at, stream) = (self.memory.device_ptr(&self.stream).0, self.stream.cu_stream() as usize);
        let all = DeviceRows { at, frames: FRAMES, dim: self.dim, stride: self.dim, stream };
        match backend {
            BackendChoice::Cuda => insist(refused, || {
                // SAFETY: memory and a stream of the device, which live until the test ends.
                unsafe { biased.push_device(all.behind(biased.num_frames() as usize)) }
            }),
            _ => insist(refused, || biased.push_rows(self.rows(10, FRAMES))),
        };
        let lattice = insist(refused, || biased.lattice(false));
        let path = insist(refused, || biased.best_path(true));

        insist(refused, || one.begin());
        insist(refused, || other.begin());
        insist(refused, || {
            let rest = |channel: &Channel| self.rows(channel.num_frames() as usize, FRAMES);
            let rests = [rest(one), rest(other)];
            let [first, second] = rests;
            let mut batch = [BatchItem::new(one, first), BatchItem::new(other, second)];
            decoder.advance(&mut batch)?;
            batch.into_iter().try_for_each(|item| item.result)
        });
        assert!(insist(refused, || one.best_path(true)) == insist(refused, || other.best_path(true)));
        let other = insist(refused, || one.lattice(false));
        (lattice, path, partial.0, partial.1, other)
    }
}

/// What a driver has given out, and what this process holds.
fn given(soft: &Soft) -> ([usize; 3], i64) {
    ([soft.memory_used(0), soft.pinned_used(), soft.stats().objects as usize], refusing::held())
}

#[test]
fn the_life_of_a_decoder() {
    let (_alone, soft) = soft::alone("");
    let (source, rows, dim) = Rng(5).busy();
    let graph = Arc::new(Graph::from_source(&source, Columns::Labels).unwrap());
    let rows = rows[..FRAMES * dim].to_vec();
    let stream = CudaContext::new(0).unwrap().new_stream().unwrap();
    let memory = stream.clone_htod(&rows).unwrap();
    stream.synchronize().unwrap();
    let labels = [7, 11].map(|step| (0..300).map(|at| [1 + at % 5, 1 + at * step % 4, 5 + at]).collect::<Vec<_>>());
    let phrase = |labels| Phrase { labels, bonus: 1.0 };
    let lists = [0, 1].map(|list| labels[list].iter().map(|labels: &[i32; 3]| phrase(&labels[..])).collect());
    let work = Work { graph, rows, dim, memory, stream };
    koshi::cuda::devices().unwrap();
    let expected = work.live(BackendChoice::Cpu, &lists, &mut 0);
    assert!(work.live(BackendChoice::Cuda, &lists, &mut 0) == expected);
    let before = given(soft);
    let mut places = 0;
    loop {
        let mut refused = 0;
        let (any, found) =
            refusing::refusing(Some(places), LEAST, || work.live(BackendChoice::Cuda, &lists, &mut refused));
        assert!(refused <= usize::from(any) && found == expected, "allocation {places}");
        drop(found);
        assert_eq!(given(soft), before, "allocation {places}");
        if !any {
            break;
        }
        places += 1;
    }
    assert!(places > 50, "{places}");
}

/// Numbers of two derivatives, and of the objective.
type Scored = (Vec<f32>, Vec<f32>, [f64; 2]);

#[test]
fn the_chain_objective() {
    let (_alone, soft) = soft::alone("");
    let mut random = Random(9);
    let (pdfs, sequences, frames) = (1_500, 3, 4);
    let rows = sequences * frames;
    let source = random.graph(2_000, pdfs);
    let text: String = (0..rows).map(|at| format!("{at} {} {label} {label};", at + 1, label = at + 1)).collect();
    let said = supervision([sequences, frames, pdfs], &format!("{text}{rows}"));
    let said = Supervision::from_memory(&said).unwrap();
    // Something between rows, so that they are put side by side on the way.
    let stride = pdfs + 3;
    let scores = random.scores(rows, stride, 2.0).data;
    let config = ChainConfig { backend: ChainBackend::Cuda, num_threads: 1, ..ChainConfig::default() };
    let run = |at: Option<usize>| -> (bool, Scored) {
        let [mut deriv, mut xent] = [(); 2].map(|()| vec![0.0f32; rows * stride]);
        let (any, values) = refusing::refusing(at, LEAST, || {
            let mut refused = 0;
            let den = insist(&mut refused, || DenominatorGraph::from_source(&source, pdfs));
            let scores = Scores::new(&scores, rows, pdfs, stride).unwrap();
            let found = insist(&mut refused, || {
                let mut target = ScoresMut::new(&mut deriv, rows, pdfs, stride).unwrap();
                let mut other = ScoresMut::new(&mut xent, rows, pdfs, stride).unwrap();
                chain_objective(&den, &said, &config, scores, Some(&mut target), Some(&mut other), None)
            });
            deriv.fill(0.0);
            let added = insist(&mut refused, || {
                let mut target = ScoresMut::new(&mut deriv, rows, pdfs, stride).unwrap();
                den.forward_backward(&config, scores, sequences, None, Some((1.0, &mut target)), None)
            });
            assert!(found.ok && added.ok);
            [found.objf, added.log_prob]
        });
        (any, (deriv, xent, values))
    };
    koshi::cuda::devices().unwrap();
    let (_, expected) = run(None);
    let before = given(soft);
    let mut places = 0;
    while let (true, found) = run(Some(places)) {
        assert!(found == expected, "allocation {places}");
        drop(found);
        assert_eq!(given(soft), before, "allocation {places}");
        places += 1;
    }
    assert!(places > 20, "{places}");
}
