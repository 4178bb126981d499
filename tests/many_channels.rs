//! Many channels over few lanes and threads: batches of any neighbours, threads that push,
//! pull and batch at once, channels used again, cancelled, or decoded from inside a callback.
//! Real speech, and the results always those of a channel alone.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::graph::{Rng, arc, source};
use face::{Face, Matrix, MatrixScores, Pull, Results, Scores, Status, graph, open, results};
use koshi::decoder::DecoderConfig;
use koshi::graph::VecSource;
use koshi::search::SearchConfig;
use koshi::table::{MatrixHolder, SequentialReader, Transitions};

over_both_faces! {
    real_speech_in_any_batch
    real_speech_from_many_threads
    a_callback_may_decode_another_channel
    cancel_from_another_thread
    one_channel_moves_between_threads
}

/// An utterance of the bundled prompts.
struct Utterance {
    data: Vec<f32>,
    dim: usize,
}

impl Utterance {
    fn rows(&self) -> Matrix<'_> {
        Matrix::dense(&self.data, self.dim)
    }
}

fn prompts(file: &str) -> PathBuf {
    common::root().join("examples/data/prompts").join(file)
}

fn utterances() -> Vec<Utterance> {
    let rspecifier = format!("ark:{}", prompts("loglikes.ark").display());
    let mut reader = SequentialReader::<MatrixHolder<f32>>::open(&rspecifier).unwrap();
    let mut all = Vec::new();
    while let Some((_, matrix)) = reader.next().unwrap() {
        all.push(Utterance { dim: matrix.cols(), data: matrix.into_data() });
    }
    assert_eq!(all.len(), 12);
    all
}

fn speech_graph<F: Face>() -> F::Graph {
    let model = Transitions::read_file(prompts("trans.mdl").to_str().unwrap()).unwrap();
    let pdf = |id| model.pdf(id).map_or(-1, |pdf| pdf as i32);
    let columns: Vec<i32> = (0..=model.num_ids()).map(pdf).collect();
    F::graph_read(&prompts("HCLG.fst"), Some(&columns)).unwrap()
}

fn speech_config(num_lanes: u32, num_threads: u32) -> DecoderConfig {
    let search = SearchConfig {
        beam: 13.0,
        lattice_beam: 6.0,
        max_active: 700,
        acoustic_scale: 0.083_333,
        ..SearchConfig::default()
    };
    DecoderConfig { search, num_lanes, num_threads, ..DecoderConfig::default() }
}

/// The results of each utterance in a decoder of its own, whole.
fn alone<F: Face>(graph: &F::Graph, utterances: &[Utterance]) -> Vec<Results> {
    let one = |utterance: &Utterance| {
        let decoder = F::decoder(graph, &speech_config(1, 1)).unwrap();
        let mut channel = F::channel(&decoder).unwrap();
        F::begin(&mut channel).unwrap();
        F::push(&mut channel, utterance.rows()).unwrap();
        F::finish(&mut channel).unwrap();
        let found = results::<F>(&mut channel);
        assert!(found.lattices[0].num_arcs() > 100 && found.reached_final == Some(true));
        found
    };
    utterances.iter().map(one).collect()
}

fn real_speech_in_any_batch<F: Face>() {
    let utterances = utterances();
    let graph = speech_graph::<F>();
    let alone = alone::<F>(&graph, &utterances);
    let mut rng = Rng(12);
    for (num_lanes, num_threads) in [(1, 1), (8, 1), (3, 2), (8, 2)] {
        let decoder = F::decoder(&graph, &speech_config(num_lanes, num_threads)).unwrap();
        let mut channels: Vec<F::Channel> = (0..9).map(|_| F::channel(&decoder).unwrap()).collect();
        // What each channel works on: utterance, frames done. Channels are used again and again.
        let mut work: Vec<Option<(usize, usize)>> = vec![None; channels.len()];
        let mut queue: Vec<usize> = (0..utterances.len()).chain(0..utterances.len()).collect();
        rng.shuffle(&mut queue);
        let mut finished = 0;
        while finished < 2 * utterances.len() {
            for (channel, work) in channels.iter_mut().zip(&mut work) {
                if work.is_none()
                    && let Some(next) = queue.pop()
                {
                    F::begin(channel).unwrap();
                    *work = Some((next, 0));
                }
            }
            // A batch of some of them, in any order, by any number of rows.
            let mut order: Vec<usize> = (0..channels.len()).filter(|&at| work[at].is_some()).collect();
            rng.shuffle(&mut order);
            order.truncate(1 + rng.below(order.len() as u64) as usize);
            let steps: Vec<usize> = channels.iter().map(|_| rng.below(120) as usize).collect();
            let mut items: Vec<(usize, (&mut F::Channel, Matrix))> = Vec::new();
            for (at, channel) in channels.iter_mut().enumerate() {
                let Some((which, done)) = work[at].filter(|_| order.contains(&at)) else { continue };
                let rows = utterances[which].rows();
                let to = (done + steps[at]).min(rows.frames);
                items.push((order.iter().position(|&other| other == at).unwrap(), (channel, rows.part(done, to))));
                work[at] = Some((which, to));
            }
            items.sort_by_key(|(place, _)| *place);
            let mut batch: Vec<(&mut F::Channel, Matrix)> = items.into_iter().map(|(_, item)| item).collect();
            assert!(F::batch(&decoder, &mut batch).iter().all(Result::is_ok));
            for (channel, work) in channels.iter_mut().zip(&mut work) {
                if let Some((which, done)) = *work
                    && done == utterances[which].rows().frames
                {
                    F::finish(channel).unwrap();
                    assert_eq!(results::<F>(channel), alone[which], "utterance {which}");
                    *work = None;
                    finished += 1;
                }
            }
        }
    }
}

/// One utterance in one of the ways there are.
fn decode<F: Face>(decoder: &F::Decoder, channel: &mut F::Channel, rows: Matrix, way: u64, rng: &mut Rng) {
    F::begin(channel).unwrap();
    let mut done = 0;
    while done < rows.frames {
        let to = (done + 1 + rng.below(90) as usize).min(rows.frames);
        match way {
            0 => F::push(channel, rows.part(done, to)).unwrap(),
            1 => assert_eq!(F::batch(decoder, &mut [(channel, rows.part(done, to))]), [Ok(())]),
            _ => {
                let most = Some((to - done) as u64);
                let mut scores = MatrixScores::new(rows);
                let pulled = match way {
                    2 => F::pull_matrix(channel, rows, most),
                    3 => F::pull(channel, &mut scores, Pull::Rows, most),
                    _ => F::pull(channel, &mut scores, Pull::Single, most),
                };
                assert_eq!(pulled, Ok((to - done) as u64));
            }
        }
        done = to;
    }
    F::finish(channel).unwrap();
}

fn real_speech_from_many_threads<F: Face>() {
    let utterances = utterances();
    let graph = speech_graph::<F>();
    let alone = alone::<F>(&graph, &utterances);
    for (num_lanes, num_threads) in [(2, 1), (1, 2), (3, 2)] {
        let decoder = F::decoder(&graph, &speech_config(num_lanes, num_threads)).unwrap();
        thread::scope(|scope| {
            for number in 0..8 {
                let (decoder, utterances, alone) = (&decoder, &utterances, &alone);
                scope.spawn(move || {
                    let mut rng = Rng(100 + number);
                    let mut channel = F::channel(decoder).unwrap();
                    for round in 0..4 {
                        let which = rng.below(12) as usize;
                        decode::<F>(decoder, &mut channel, utterances[which].rows(), (number + round) % 5, &mut rng);
                        assert_eq!(results::<F>(&mut channel), alone[which]);
                    }
                });
            }
        });
    }
}

/// Every frame any of three labels.
fn loops() -> VecSource {
    source(Some(0), vec![(0.0, (1..=3).map(|label| arc(label, label, 0.25, 0)).collect())])
}

/// Scores that come from a decoder of their own: a second channel runs inside the callback.
struct Nested<'a, F: Face> {
    rows: Matrix<'a>,
    decoder: &'a F::Decoder,
    inner: F::Channel,
    decoded: u32,
}

impl<F: Face> Scores for Nested<'_, F> {
    fn columns(&mut self) -> usize {
        3
    }

    fn ready(&mut self) -> u64 {
        self.rows.frames as u64
    }

    fn score(&mut self, frame: u64, column: usize) -> Result<f32, i32> {
        let row = self.rows.part(frame as usize, frame as usize + 1);
        match column {
            0 => F::push(&mut self.inner, row).unwrap(),
            1 => assert_eq!(F::batch(self.decoder, &mut [(&mut self.inner, row)]), [Ok(())]),
            _ => drop(F::lattice(&mut self.inner, true).unwrap()),
        }
        self.decoded += 1;
        Ok(row.data[column])
    }
}

fn a_callback_may_decode_another_channel<F: Face>() {
    let mut rng = Rng(3);
    let data: Vec<f32> = (0..60).map(|_| -(rng.below(40) as f32) * 0.25).collect();
    let rows = Matrix::dense(&data, 3);
    // One lane: it must not be held while a callback runs.
    let config = DecoderConfig { num_lanes: 1, num_threads: 2, ..DecoderConfig::default() };
    let expected = face::solo::<F>(&loops(), &config, rows);
    for how in [Pull::Rows, Pull::Single] {
        let (decoder, mut outer) = open::<F>(&loops(), &config);
        let mut inner = F::channel(&decoder).unwrap();
        F::begin(&mut inner).unwrap();
        let mut nested = Nested::<F> { rows, decoder: &decoder, inner, decoded: 0 };
        assert_eq!(F::pull(&mut outer, &mut nested, how, None), Ok(20));
        assert_eq!(nested.decoded, 60);
        assert_eq!(F::num_frames(&nested.inner), 40);
        F::finish(&mut outer).unwrap();
        assert_eq!(results::<F>(&mut outer), expected);
    }
}

/// What another thread holds of a channel to cancel it with.
trait Cancels: Face {
    fn canceller(channel: &Self::Channel) -> Box<dyn Fn() + Send>;
}

impl Cancels for face::Rust {
    fn canceller(channel: &Self::Channel) -> Box<dyn Fn() + Send> {
        let canceller = channel.canceller();
        Box::new(move || canceller.cancel())
    }
}

impl Cancels for face::C {
    fn canceller(channel: &Self::Channel) -> Box<dyn Fn() + Send> {
        let handle = channel.pointer() as usize;
        Box::new(move || {
            // SAFETY: a handle is a number; cancel may be called at any time from any thread.
            let status = unsafe { koshi::ffi::koshi_channel_cancel(handle as *mut _, std::ptr::null_mut()) };
            assert_eq!(status, 0);
        })
    }
}

fn cancel_from_another_thread<F: Cancels>() {
    let data = vec![-1.0; 3 * 200_000];
    let rows = Matrix::dense(&data, 3);
    let config = DecoderConfig { num_lanes: 1, num_threads: 1, ..DecoderConfig::default() };
    let (decoder, mut channel) = open::<F>(&loops(), &config);
    let (mut partly, mut round) = (0, 0);
    while round < 20 || (partly < 3 && round < 200) {
        round += 1;
        F::begin(&mut channel).unwrap();
        let cancel = F::canceller(&channel);
        let pushing = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let cancel = cancel;
                while !pushing.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
                thread::sleep(std::time::Duration::from_micros(200 * (round % 20)));
                cancel();
            });
            pushing.store(true, Ordering::Release);
            let outcome = if round % 2 == 0 {
                F::push(&mut channel, rows).map_err(|fault| fault.status)
            } else {
                F::batch(&decoder, &mut [(&mut channel, rows)]).remove(0)
            };
            if outcome.is_ok() {
                return; // the machine was faster than the cancel
            }
            assert_eq!(outcome, Err(Status::KOSHI_E_CANCELLED));
            partly += u32::from(F::num_frames(&channel) > 0);
        });
        // Whether it came in time or not: no more rows, and what was searched stands.
        let frames = F::num_frames(&channel);
        assert_eq!(F::push(&mut channel, rows.part(0, 1)).unwrap_err().status, Status::KOSHI_E_CANCELLED);
        assert_eq!(F::num_frames(&channel), frames);
        if frames < 5_000 {
            F::finish(&mut channel).unwrap();
            let found = F::best_path(&channel, true).unwrap();
            assert_eq!((found.ilabels.len() as u64, found.acoustic_cost), (frames, frames as f64));
        }
    }
    assert!(partly > 0, "no push was cancelled at work");
    F::begin(&mut channel).unwrap();
    F::push(&mut channel, rows.part(0, 5)).unwrap();
    assert_eq!(F::num_frames(&channel), 5);
}

fn one_channel_moves_between_threads<F: Face>() {
    let mut rng = Rng(8);
    let data: Vec<f32> = (0..300).map(|_| -(rng.below(40) as f32) * 0.25).collect();
    let rows = Matrix::dense(&data, 3);
    let config = DecoderConfig {
        search: SearchConfig { link_budget: 40, ..SearchConfig::default() },
        num_lanes: 2,
        num_threads: 2,
        ..DecoderConfig::default()
    };
    let expected = face::solo::<F>(&loops(), &config, rows);
    let decoder = F::decoder(&graph::<F>(&loops()), &config).unwrap();
    let mut channels: Vec<F::Channel> = (0..4).map(|_| F::channel(&decoder).unwrap()).collect();
    channels.iter_mut().for_each(|channel| F::begin(channel).unwrap());
    for at in (0..100).step_by(9) {
        // Each step of each channel on a thread that is new to it.
        thread::scope(|scope| {
            for channel in &mut channels {
                scope.spawn(|| F::push(channel, rows.part(at, (at + 9).min(100))).unwrap());
            }
        });
    }
    for channel in &mut channels {
        thread::scope(|scope| scope.spawn(|| F::finish(channel).unwrap()).join().unwrap());
        assert_eq!(results::<F>(channel), expected);
    }
}
