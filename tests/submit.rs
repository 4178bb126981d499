//! Rows that are queued for the decoder's own threads: results are those of a push, bit for bit, and all
//! that can happen meanwhile does no harm. Over both faces, on the CPU and on the (software) GPU.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::graph::{Rng, arc, source};
use common::random_search::{COLUMNS, random_config, random_graph, random_rows};
use cudarc::driver::{CudaContext, DevicePtr};
use face::queued::Growing;
use face::{Event, Face, Matrix, Outcome, Queued, Results, Rust, Status, graph, solo};
use koshi::cuda::DeviceRows;
use koshi::decoder::{Decodable, DecoderConfig, Source};
use koshi::graph::VecSource;
use koshi::search::SearchConfig;

over_both_faces! {
    results_are_those_of_a_push_from_16_threads
    results_do_not_depend_on_chunks_lanes_and_waits
    one_queue_filled_by_many_threads
    the_queue_is_bounded
    states_of_a_queued_channel
    failures_end_the_utterance
    cancel_empties_the_queue
    queries_see_the_last_batch
    pulled_by_the_scheduler
    pulls_that_fail
    events_come_in_order
    new_words_are_told_when_there_are
    new_words_are_those_of_the_utterance
    events_of_ends
    everything_from_inside_a_callback
    a_listener_is_replaced_or_dropped
    a_slow_listener_holds_up_no_search
    a_long_queue_does_not_hold_up_others
    metrics_count
    case_b48_queued_channel_used_again
    case_b49_finished_and_freed_from_two_threads
    case_b50_destroyed_with_a_slow_callback
    case_b51_decoders_come_and_go
    case_b54_submitted_buffer_overwritten
    case_b60_silence_tells_no_second_end
}

over_both_faces_on_gpu! {
    results_are_those_of_a_push_from_16_threads
    the_queue_is_bounded
    failures_end_the_utterance
    cancel_empties_the_queue
    pulled_by_the_scheduler
    events_come_in_order
    events_of_ends
    a_slow_listener_holds_up_no_search
    case_b48_queued_channel_used_again
    case_b50_destroyed_with_a_slow_callback
    rows_of_the_device_never_pass_the_queue
}

const DIM: usize = 4;

/// Every label at every time, with words, epsilons and a final state.
fn tangle() -> VecSource {
    source(
        Some(0),
        vec![
            (f32::INFINITY, vec![arc(1, 1, 0.5, 0), arc(0, 2, 0.25, 2), arc(2, 3, 0.5, 1), arc(3, 0, 0.5, 3)]),
            (0.5, vec![arc(2, 4, 0.25, 1), arc(0, 5, -0.25, 3), arc(3, 1, 0.0, 0)]),
            (f32::INFINITY, vec![arc(3, 2, 0.5, 1), arc(0, 0, 0.5, 1), arc(1, 6, 0.75, 2)]),
            (0.0, vec![arc(1, 1, 0.25, 0), arc(2, 2, 0.25, 2), arc(4, 3, 0.5, 3)]),
        ],
    )
}

fn rows(rng: &mut Rng, frames: usize) -> Vec<f32> {
    (0..frames * DIM).map(|_| -(rng.below(40) as f32) * 0.25).collect()
}

fn config() -> DecoderConfig {
    let search = SearchConfig { link_budget: 60, lattice_beam: 4.0, ..SearchConfig::default() };
    DecoderConfig { search, num_lanes: 3, num_threads: 2, chunk_frames: 4, ..DecoderConfig::default() }
}

fn decoder<F: Face>(config: &DecoderConfig) -> F::Decoder {
    F::decoder(&graph::<F>(&tangle()), config).unwrap()
}

fn open_line<F: Queued>(decoder: &F::Decoder) -> F::Line {
    let line = F::line(decoder).unwrap();
    F::begin_line(&line).unwrap();
    line
}

fn status<T: std::fmt::Debug>(outcome: Outcome<T>) -> Status {
    outcome.unwrap_err().status
}

fn done<F: Queued>(line: &F::Line) {
    assert_eq!(F::wait(line, 60.0), Ok(true));
}

/// Submits all of `rows` in random pieces with random pauses; again where the queue is full.
fn submit_all<F: Queued>(line: &F::Line, rows: Matrix, rng: &mut Rng) {
    let mut from = 0;
    while from < rows.frames {
        let to = (from + rng.below(9) as usize).min(rows.frames);
        match F::submit(line, rows.part(from, to)) {
            Ok(()) => from = to,
            Err(fault) => assert_eq!(fault.status, Status::KOSHI_E_FULL),
        }
        if rng.below(3) == 0 {
            thread::sleep(Duration::from_micros(rng.below(400)));
        }
    }
}

/// A listener that notes what it is told.
fn noting<F: Queued>(line: &F::Line) -> Receiver<Event> {
    let (told, events) = channel();
    let told = Mutex::new((told, 0));
    let ear = move |event| {
        let mut told = told.lock().unwrap();
        told.1 += 1;
        // Told without end, they would take all memory before a test fails.
        assert!(told.1 < 100_000, "{event:?} again and again");
        told.0.send(event).unwrap_or(());
    };
    F::listen(line, Some(Arc::new(ear))).unwrap();
    events
}

fn results_are_those_of_a_push_from_16_threads<F: Queued>() {
    let config = DecoderConfig { queue_frames: 24, ..config() };
    let mut rng = Rng(16);
    let utterances: Vec<Vec<f32>> = (0..6).map(|at| rows(&mut rng, 1 + 13 * at)).collect();
    let alone: Vec<Results> =
        utterances.iter().map(|data| solo::<F>(&tangle(), &config, Matrix::dense(data, DIM))).collect();
    let decoder = decoder::<F>(&config);
    thread::scope(|scope| {
        for number in 0..16 {
            let (decoder, utterances, alone) = (&decoder, &utterances, &alone);
            scope.spawn(move || {
                let mut rng = Rng(100 + number);
                let line = F::line(decoder).unwrap();
                for _ in 0..4 {
                    let which = rng.below(6) as usize;
                    F::begin_line(&line).unwrap();
                    submit_all::<F>(&line, Matrix::dense(&utterances[which], DIM), &mut rng);
                    // Behind the rows or when they are done.
                    if rng.below(2) == 0 {
                        done::<F>(&line);
                    }
                    F::finish_line(&line).unwrap();
                    done::<F>(&line);
                    assert_eq!(F::line_results(&line), alone[which]);
                }
                F::free(line);
            });
        }
    });
    let metrics = F::metrics(&decoder);
    assert_eq!((metrics.queued_frames, metrics.channels, metrics.cancelled), (0, 0, 0));
    assert!(metrics.batches > 0 && metrics.mean_batch >= 1.0 && metrics.mean_batch <= 3.0, "{metrics:?}");
}

fn results_do_not_depend_on_chunks_lanes_and_waits<F: Queued>() {
    let data = rows(&mut Rng(2), 70);
    let all = Matrix::dense(&data, DIM);
    let alone = solo::<F>(&tangle(), &config(), all);
    for (chunk_frames, num_lanes, max_batch_wait) in [(1, 1, 0.0), (7, 2, 0.002), (1000, 9, 0.0)] {
        let decoder = decoder::<F>(&DecoderConfig { chunk_frames, num_lanes, max_batch_wait, ..config() });
        let lines: Vec<F::Line> = (0..5).map(|_| open_line::<F>(&decoder)).collect();
        for at in (0..70).step_by(10) {
            lines.iter().for_each(|line| F::submit(line, all.part(at, at + 10)).unwrap());
        }
        // Rows of other widths, with padding: it is never read.
        for line in &lines {
            F::finish_line(line).unwrap();
            done::<F>(line);
            assert_eq!(F::line_results(line), alone);
        }
    }
    // Each row wider than the one before.
    let decoder = decoder::<F>(&config());
    let line = open_line::<F>(&decoder);
    for at in 0..70 {
        let (dim, stride) = (DIM + at % 3, DIM + 3);
        let mut wide = vec![f32::NAN; stride];
        wide[..dim].fill(-1.0);
        wide[..DIM].copy_from_slice(&data[at * DIM..][..DIM]);
        F::submit(&line, Matrix { data: &wide, frames: 1, dim, stride }).unwrap();
    }
    F::finish_line(&line).unwrap();
    done::<F>(&line);
    assert_eq!(F::line_results(&line), alone);
}

/// Rows of one utterance from many threads: each call's rows stay together, and none is lost.
fn one_queue_filled_by_many_threads<F: Queued>() {
    // The one word of a frame says whose it is: label i has word i.
    let loops = source(Some(0), vec![(0.0, (1..=4).map(|label| arc(label, label, 0.0, 0)).collect())]);
    let config = DecoderConfig { queue_frames: 10, ..config() };
    let decoder = F::decoder(&graph::<F>(&loops), &config).unwrap();
    let line = open_line::<F>(&decoder);
    thread::scope(|scope| {
        for number in 0..4 {
            let line = &line;
            scope.spawn(move || {
                let mut row = [-9.0; 4];
                row[number] = 0.0;
                let three = [row; 3].concat();
                for _ in 0..20 {
                    while let Err(fault) = F::submit(line, Matrix::dense(&three, 4)) {
                        assert_eq!(fault.status, Status::KOSHI_E_FULL);
                        thread::yield_now();
                    }
                }
            });
        }
    });
    F::finish_line(&line).unwrap();
    done::<F>(&line);
    let words = F::line_words(&line).unwrap();
    assert_eq!(words.len(), 240);
    assert!(words.chunks(3).all(|three| three.iter().all(|word| *word == three[0])));
    assert!((1..=4).all(|label| words.iter().filter(|word| **word == label).count() == 60));
}

/// Begins an utterance of which nothing is searched yet, behind one that has begun: a callback of the one before does not return until it is told to.
fn held_up<F: Queued>(line: &F::Line) -> Sender<()> {
    let (go, hold) = channel::<()>();
    let (held, inside) = channel();
    let hold = Mutex::new((held, hold));
    let ear = move |event| {
        let hold = hold.lock().unwrap();
        if matches!(event, Event::Failed(_)) {
            hold.0.send(()).unwrap();
            let _ = hold.1.recv();
        }
    };
    F::listen(line, Some(Arc::new(ear))).unwrap();
    F::cancel_line(line).unwrap();
    inside.recv().unwrap();
    F::begin_line(line).unwrap();
    go
}

fn the_queue_is_bounded<F: Queued>() {
    let config = DecoderConfig { queue_frames: 8, ..config() };
    let data = rows(&mut Rng(3), 40);
    let all = Matrix::dense(&data, DIM);
    let decoder = decoder::<F>(&config);
    let line = open_line::<F>(&decoder);
    let go = held_up::<F>(&line);

    assert_eq!(status(F::submit(&line, all.part(0, 9))), Status::KOSHI_E_LIMIT);
    F::submit(&line, all.part(0, 5)).unwrap();
    let full = F::submit(&line, all.part(5, 9)).unwrap_err();
    assert_eq!(full.status, Status::KOSHI_E_FULL);
    assert!(full.message.contains("5 frames are queued") && full.message.contains('8'), "{}", full.message);
    F::submit(&line, all.part(5, 8)).unwrap();
    F::submit(&line, all.part(8, 8)).unwrap();
    assert_eq!(status(F::submit(&line, all.part(8, 9))), Status::KOSHI_E_FULL);
    assert_eq!(F::wait(&line, 0.0), Ok(false));
    assert_eq!(F::wait(&line, 0.01), Ok(false));
    let metrics = F::metrics(&decoder);
    assert_eq!((metrics.queued_frames, metrics.rejected, metrics.channels), (8, 2, 1));

    go.send(()).unwrap();
    done::<F>(&line);
    assert_eq!(F::metrics(&decoder).queued_frames, 0);
    F::submit(&line, all.part(8, 16)).unwrap();
    F::finish_line(&line).unwrap();
    done::<F>(&line);
    assert_eq!(F::line_results(&line), solo::<F>(&tangle(), &config, all.part(0, 16)));
}

/// What a push is told while rows are queued, rows in the device's memory are told too; and nothing has changed.
fn rows_of_the_device_never_pass_the_queue<F: Queued>() {
    let data = rows(&mut Rng(33), 12);
    let all = Matrix::dense(&data, DIM);
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let memory = stream.clone_htod(&data).unwrap();
    stream.synchronize().unwrap();
    let at = memory.device_ptr(&stream).0;
    let given = DeviceRows { at, frames: 12, dim: DIM, stride: DIM, stream: stream.cu_stream() as usize };
    let decoder = decoder::<F>(&config());
    let line = open_line::<F>(&decoder);
    let go = held_up::<F>(&line);
    F::submit(&line, all.part(0, 5)).unwrap();
    for rows in [given, DeviceRows { frames: 0, ..given }, DeviceRows { at: 0, ..given }] {
        let fault = F::push_device_line(&line, rows).unwrap_err();
        let pushed = F::push_line(&line, all.part(0, rows.frames)).unwrap_err();
        assert_eq!((fault.status, &fault), (Status::KOSHI_E_BUSY, &pushed));
    }
    assert_eq!((F::line_frames(&line), F::metrics(&decoder).queued_frames), (0, 5));
    go.send(()).unwrap();
    done::<F>(&line);
    // Behind the queue, between two of its own, and in front of rows that are queued.
    F::push_device_line(&line, DeviceRows { frames: 7, ..given.behind(5) }).unwrap();
    F::submit(&line, all.part(0, 5)).unwrap();
    done::<F>(&line);
    F::push_device_line(&line, given.behind(5)).unwrap();
    F::finish_line(&line).unwrap();
    done::<F>(&line);
    assert_eq!(status(F::push_device_line(&line, given)), Status::KOSHI_E_STATE);
    let twice = data.repeat(2);
    assert_eq!(F::line_results(&line), solo::<F>(&tangle(), &config(), Matrix::dense(&twice, DIM)));
}

fn states_of_a_queued_channel<F: Queued>() {
    let data = rows(&mut Rng(4), 12);
    let all = Matrix::dense(&data, DIM);
    let decoder = decoder::<F>(&config());
    let line = F::line(&decoder).unwrap();
    assert_eq!(status(F::submit(&line, all)), Status::KOSHI_E_STATE);
    assert_eq!(status(F::finish_line(&line)), Status::KOSHI_E_STATE);
    assert_eq!(F::wait(&line, 0.0), Ok(true), "nothing to wait for");
    F::begin_line(&line).unwrap();
    let narrow = F::submit(&line, Matrix::dense(&data, 3)).unwrap_err();
    assert_eq!(narrow.status, Status::KOSHI_E_SHAPE);
    assert!(narrow.message.contains('3'), "{}", narrow.message);
    assert_eq!(status(F::submit(&line, Matrix { stride: 1, ..all })), Status::KOSHI_E_SHAPE);
    F::submit(&line, Matrix { data: &[], frames: 0, dim: 0, stride: 0 }).unwrap();
    F::submit(&line, all).unwrap();
    done::<F>(&line);
    assert_eq!(F::line_frames(&line), 12);
    // A push goes on where the queue has ended, and the other way round.
    F::push_line(&line, all).unwrap();
    F::submit(&line, all).unwrap();
    F::finish_line(&line).unwrap();
    F::finish_line(&line).unwrap();
    assert_eq!(status(F::submit(&line, all)), Status::KOSHI_E_STATE);
    done::<F>(&line);
    assert_eq!(status(F::submit(&line, all)), Status::KOSHI_E_STATE);
    assert_eq!(status(F::push_line(&line, all)), Status::KOSHI_E_STATE);
    let thrice = [&data[..], &data, &data].concat();
    assert_eq!(F::line_results(&line), solo::<F>(&tangle(), &config(), Matrix::dense(&thrice, DIM)));
    F::finish_line(&line).unwrap();
    // With nothing queued, finish is done when it returns.
    F::begin_line(&line).unwrap();
    F::submit(&line, all).unwrap();
    done::<F>(&line);
    F::finish_line(&line).unwrap();
    assert_eq!(F::line_results(&line), solo::<F>(&tangle(), &config(), all));
    // Rows of an utterance that is begun over are forgotten.
    F::begin_line(&line).unwrap();
    F::submit(&line, all).unwrap();
    F::begin_line(&line).unwrap();
    F::submit(&line, all.part(0, 3)).unwrap();
    done::<F>(&line);
    F::finish_line(&line).unwrap();
    assert_eq!(F::line_results(&line), solo::<F>(&tangle(), &config(), all.part(0, 3)));
}

fn failures_end_the_utterance<F: Queued>() {
    let decoder = decoder::<F>(&config());
    let line = F::line(&decoder).unwrap();
    let events = noting::<F>(&line);
    for (bad, wanted) in [(f32::NAN, Status::KOSHI_E_SCORES), (f32::NEG_INFINITY, Status::KOSHI_E_NO_TOKENS)] {
        let mut data = rows(&mut Rng(5), 30);
        data[10 * DIM..11 * DIM].fill(bad);
        let all = Matrix::dense(&data, DIM);
        F::begin_line(&line).unwrap();
        F::submit(&line, all).unwrap();
        let fault = F::wait(&line, 60.0).unwrap_err();
        assert_eq!(fault.status, wanted);
        assert!(fault.message.contains("frame 10"), "{}", fault.message);
        assert_eq!(status(F::submit(&line, all)), wanted);
        assert_eq!(status(F::push_line(&line, all)), wanted);
        assert_eq!(status(F::wait(&line, 60.0)), wanted);
        assert_eq!(F::line_frames(&line), 10);
        F::finish_line(&line).unwrap();
        assert_eq!(F::line_results(&line), solo::<F>(&tangle(), &config(), all.part(0, 10)));
        let ends: Vec<Event> = events.try_iter().filter(|event| *event != Event::Partial).collect();
        assert_eq!(ends, [Event::Failed(wanted)]);
    }
    assert_eq!(F::metrics(&decoder).queued_frames, 0);
}

fn cancel_empties_the_queue<F: Queued>() {
    let data = rows(&mut Rng(6), 3000);
    let all = Matrix::dense(&data, DIM);
    let decoder = decoder::<F>(&config());
    let line = F::line(&decoder).unwrap();
    let mut cancelled = 0;
    for round in 0..6 {
        let events = if round % 2 == 0 { Some(noting::<F>(&line)) } else { None };
        F::begin_line(&line).unwrap();
        F::submit(&line, all).unwrap();
        if round < 4 {
            thread::sleep(Duration::from_micros(300 * round));
        } else {
            F::finish_line(&line).unwrap();
        }
        F::cancel_line(&line).unwrap();
        F::cancel_line(&line).unwrap();
        if round >= 4 && F::metrics(&decoder).cancelled == cancelled {
            // All was searched and finished before this thread came to it.
            done::<F>(&line);
            F::listen(&line, None).unwrap();
            continue;
        }
        cancelled += 1;
        assert_eq!(status(F::submit(&line, all)), Status::KOSHI_E_CANCELLED);
        assert_eq!(status(F::wait(&line, 60.0)), Status::KOSHI_E_CANCELLED);
        let frames = F::line_frames(&line) as usize;
        assert!(frames <= 3000 && F::metrics(&decoder).queued_frames == 0, "{frames} frames");
        assert_eq!(status(F::push_line(&line, all)), Status::KOSHI_E_CANCELLED);
        F::finish_line(&line).unwrap();
        if frames < 200 {
            assert_eq!(F::line_results(&line), solo::<F>(&tangle(), &config(), all.part(0, frames)));
        }
        if let Some(events) = events {
            let ends: Vec<Event> = events.try_iter().filter(|event| *event != Event::Partial).collect();
            assert_eq!(ends, [Event::Failed(Status::KOSHI_E_CANCELLED)]);
            F::listen(&line, None).unwrap();
        }
    }
    assert!(cancelled >= 4 && F::metrics(&decoder).cancelled == cancelled);
    F::begin_line(&line).unwrap();
    F::submit(&line, all.part(0, 5)).unwrap();
    done::<F>(&line);
    assert_eq!(F::line_frames(&line), 5);
}

/// Whoever asks while rows are searched waits for the batch, is never refused, and holds up nothing.
fn queries_see_the_last_batch<F: Queued>() {
    let data = rows(&mut Rng(7), 2000);
    let all = Matrix::dense(&data, DIM);
    let decoder = decoder::<F>(&DecoderConfig { chunk_frames: 8, ..config() });
    let line = open_line::<F>(&decoder);
    F::submit(&line, all).unwrap();
    // Before others ask: where all is searched by now this call finishes the channel itself, with nobody in the way.
    F::finish_line(&line).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !over.load(Ordering::Relaxed) {
                    let frames = F::line_frames(&line);
                    assert!(frames >= last && (frames.is_multiple_of(8) || frames == 2000), "{frames}");
                    last = frames;
                    F::line_words(&line).unwrap();
                }
            });
        }
        let waited = F::wait(&line, 120.0);
        over.store(true, Ordering::Relaxed);
        assert_eq!(waited, Ok(true), "queries without a pause do not keep the scheduler out");
    });
    assert_eq!(F::line_frames(&line), 2000);
}

fn pulled_by_the_scheduler<F: Queued>() {
    let data = rows(&mut Rng(8), 40);
    let all = Matrix::dense(&data, DIM);
    let decoder = decoder::<F>(&config());
    for by_column in [false, true] {
        let line = open_line::<F>(&decoder);
        let scores = Growing::new(all, by_column, None);
        F::submit_growing(&line, &scores).unwrap();
        done::<F>(&line);
        assert_eq!(F::line_frames(&line), 0);
        for ready in [1, 2, 9, 9, 30] {
            scores.set_ready(ready);
            F::submit_growing(&line, &scores).unwrap();
            done::<F>(&line);
            assert_eq!(F::line_frames(&line), ready);
        }
        // What is ready when it is finished belongs to the utterance.
        scores.set_ready(40);
        F::finish_line(&line).unwrap();
        done::<F>(&line);
        assert_eq!(status(F::submit_growing(&line, &scores)), Status::KOSHI_E_STATE);
        assert_eq!(F::line_results(&line), solo::<F>(&tangle(), &config(), all));
    }
}

fn pulls_that_fail<F: Queued>() {
    let data = rows(&mut Rng(9), 40);
    let all = Matrix::dense(&data, DIM);
    let decoder = decoder::<F>(&config());
    for by_column in [false, true] {
        let line = F::line(&decoder).unwrap();
        let events = noting::<F>(&line);
        F::begin_line(&line).unwrap();
        let scores = Growing::new(all, by_column, Some((6, -7)));
        scores.set_ready(40);
        F::submit_growing(&line, &scores).unwrap();
        let fault = F::wait(&line, 60.0).unwrap_err();
        assert_eq!(fault.status, Status::KOSHI_E_CALLBACK);
        assert!(fault.message.contains("-7"), "{}", fault.message);
        // What was pulled before is searched.
        assert_eq!(F::line_frames(&line), 6);
        F::finish_line(&line).unwrap();
        assert_eq!(F::line_results(&line), solo::<F>(&tangle(), &config(), all.part(0, 6)));
        let ends: Vec<Event> = events.try_iter().filter(|event| *event != Event::Partial).collect();
        assert_eq!(ends, [Event::Failed(Status::KOSHI_E_CALLBACK)]);
    }
    // Freed before the end.
    let line = open_line::<F>(&decoder);
    let scores = Growing::new(all, false, None);
    F::submit_growing(&line, &scores).unwrap();
    done::<F>(&line);
    drop(scores);
    F::finish_line(&line).unwrap();
    let ended = F::wait(&line, 60.0);
    assert!(ended.is_ok() || status(ended) == Status::KOSHI_E_HANDLE);
}

/// Each event where it belongs: partials when the words change, and the end once and last.
fn events_come_in_order<F: Queued>() {
    // A word a frame: label i has word i.
    let loops = source(Some(0), vec![(0.0, (1..=3).map(|label| arc(label, label % 3, 0.0, 0)).collect())]);
    let decoder = F::decoder(&graph::<F>(&loops), &DecoderConfig { chunk_frames: 1, ..config() }).unwrap();
    let line = F::line(&decoder).unwrap();
    let events = noting::<F>(&line);
    for round in 0..3 {
        F::begin_line(&line).unwrap();
        let mut words = 0;
        for label in [2, 0, 2, 2, 1, 0, 2] {
            let mut row = [-5.0; 3];
            row[label] = 0.0;
            F::submit(&line, Matrix::dense(&row, 3)).unwrap();
            done::<F>(&line);
            words += usize::from(label < 2);
            // Label 3 has no word, so its frame changes nothing.
            let told: Vec<Event> = events.try_iter().collect();
            assert_eq!(told, vec![Event::Partial; usize::from(label < 2)]);
            assert_eq!(F::line_words(&line).unwrap().len(), words);
        }
        // In one go, the end behind the last words; a batch that is searched before the one in front was told is
        // told with it.
        let row = [0.0, -5.0, -5.0];
        (0..4).for_each(|_| F::submit(&line, Matrix::dense(&row, 3)).unwrap());
        F::finish_line(&line).unwrap();
        done::<F>(&line);
        let told: Vec<Event> = events.try_iter().collect();
        let partials = told.len() - 1;
        assert!((1..=4).contains(&partials), "round {round}: {told:?}");
        assert_eq!(told, [vec![Event::Partial; partials], vec![Event::Finished]].concat(), "round {round}");
        F::finish_line(&line).unwrap();
        F::cancel_line(&line).unwrap();
        assert_eq!(events.try_iter().count(), 0, "the end comes once");
    }
}

/// The same words in the next utterance are new ones.
fn new_words_are_those_of_the_utterance<F: Queued>() {
    let loops = source(Some(0), vec![(0.0, (1..=3).map(|label| arc(label, label, 0.0, 0)).collect())]);
    let decoder = F::decoder(&graph::<F>(&loops), &config()).unwrap();
    let line = F::line(&decoder).unwrap();
    let events = noting::<F>(&line);
    for round in 0..3 {
        F::begin_line(&line).unwrap();
        F::submit(&line, Matrix::dense(&[0.0, -5.0, -5.0], 3)).unwrap();
        done::<F>(&line);
        assert_eq!(events.try_iter().collect::<Vec<_>>(), [Event::Partial], "round {round}");
    }
}

/// Random searches: after each batch a partial is told exactly if the words are others than behind the one before.
fn new_words_are_told_when_there_are<F: Queued>() {
    let (mut changes, mut batches) = (0, 0);
    for case in 0..150 {
        let rng = &mut Rng(7_000 + case);
        let source = random_graph(rng);
        let (search, rows) = (random_config(rng), random_rows(rng, 40));
        let all = Matrix::dense(&rows, COLUMNS as usize);
        let decoder =
            F::decoder(&graph::<F>(&source), &DecoderConfig { search, chunk_frames: 99, ..config() }).unwrap();
        let line = F::line(&decoder).unwrap();
        let events = noting::<F>(&line);
        if F::begin_line(&line).is_err() {
            continue;
        }
        let (mut words, mut frame) = (Vec::new(), 0);
        while frame < 40 {
            let next = (frame + 1 + rng.below(5) as usize).min(40);
            F::submit(&line, all.part(frame, next)).unwrap();
            if F::wait(&line, 60.0).is_err() {
                break;
            }
            let now = F::line_words(&line).unwrap();
            let wanted = if now == words { vec![] } else { vec![Event::Partial] };
            let told: Vec<Event> = events.try_iter().collect();
            assert_eq!(told, wanted, "case {case}, frame {next}: {words:?}, then {now:?}");
            (changes, batches) = (changes + wanted.len(), batches + 1);
            (words, frame) = (now, next);
        }
    }
    assert!(changes > 300 && batches > changes + 200, "{changes} changes in {batches} batches");
}

fn events_of_ends<F: Queued>() {
    let data = rows(&mut Rng(10), 20);
    let all = Matrix::dense(&data, DIM);
    let decoder = decoder::<F>(&config());
    let line = F::line(&decoder).unwrap();
    let events = noting::<F>(&line);
    let ends = || events.try_iter().filter(|event| *event != Event::Partial).collect::<Vec<Event>>();
    // Of nothing.
    F::begin_line(&line).unwrap();
    F::finish_line(&line).unwrap();
    done::<F>(&line);
    assert_eq!(ends(), [Event::Finished]);
    // Of an utterance that was pushed.
    F::begin_line(&line).unwrap();
    F::push_line(&line, all).unwrap();
    F::finish_line(&line).unwrap();
    done::<F>(&line);
    assert_eq!(ends(), [Event::Finished]);
    assert_eq!(F::line_results(&line), solo::<F>(&tangle(), &config(), all));
    // Cancelled before anything came.
    F::begin_line(&line).unwrap();
    F::cancel_line(&line).unwrap();
    assert_eq!(status(F::wait(&line, 60.0)), Status::KOSHI_E_CANCELLED);
    assert_eq!(ends(), [Event::Failed(Status::KOSHI_E_CANCELLED)]);
    // Begun over: none.
    F::begin_line(&line).unwrap();
    F::submit(&line, all).unwrap();
    F::begin_line(&line).unwrap();
    done::<F>(&line);
    assert_eq!(ends(), []);
    F::finish_line(&line).unwrap();
    done::<F>(&line);
    assert_eq!(ends(), [Event::Finished]);
    // Freed: none.
    F::begin_line(&line).unwrap();
    F::submit(&line, all).unwrap();
    F::free(line);
    assert_eq!(ends(), []);
    assert!(events.recv().is_err(), "the listener is let go of when free returns");
}

/// A line that its own listener uses. Where the listener frees it, its owner must not.
struct Own<F: Queued>(Mutex<Option<std::mem::ManuallyDrop<Arc<F::Line>>>>);

fn everything_from_inside_a_callback<F: Queued>() {
    let data = rows(&mut Rng(11), 24);
    let decoder = Arc::new(decoder::<F>(&config()));
    for what in 0..8 {
        let line = std::mem::ManuallyDrop::new(Arc::new(F::line(&decoder).unwrap()));
        let own = Arc::new(Own::<F>(Mutex::new(Some(line.clone()))));
        let (told, events) = channel();
        let (told, rows, used) = (Mutex::new(told), data.clone(), Arc::clone(&own));
        let ends = AtomicUsize::new(0);
        let ear = move |event: Event| {
            let line = used.0.lock().unwrap().clone().unwrap();
            assert_eq!(status(F::wait(&line, 0.0)), Status::KOSHI_E_BUSY);
            assert!(F::line_words(&line).is_ok() && F::line_frames(&line) <= 24);
            if event == Event::Partial {
                return;
            }
            let first = ends.fetch_add(1, Ordering::Relaxed) == 0;
            match what {
                // The next utterance, from inside; and its end.
                0 if first => {
                    F::begin_line(&line).unwrap();
                    F::submit(&line, Matrix::dense(&rows, DIM)).unwrap();
                    F::finish_line(&line).unwrap();
                }
                1 => F::cancel_line(&line).unwrap(),
                2 => F::listen(&line, None).unwrap(),
                3 => F::free_within(&line),
                4 => drop(F::line_results(&line)),
                5 if first => {
                    F::begin_line(&line).unwrap();
                    F::push_line(&line, Matrix::dense(&rows, DIM)).unwrap();
                    F::finish_line(&line).unwrap();
                }
                6 => assert_eq!(status(F::submit(&line, Matrix::dense(&rows, DIM))), Status::KOSHI_E_STATE),
                _ => {}
            }
            told.lock().unwrap().send(event).unwrap();
        };
        F::listen(&line, Some(Arc::new(ear))).unwrap();
        F::begin_line(&line).unwrap();
        F::submit(&line, Matrix::dense(&data, DIM)).unwrap();
        F::finish_line(&line).unwrap();
        let ends = if matches!(what, 0 | 5) { 2 } else { 1 };
        for _ in 0..ends {
            assert_eq!(events.recv_timeout(Duration::from_secs(60)), Ok(Event::Finished), "{what}");
        }
        if what == 3 {
            continue;
        }
        done::<F>(&line);
        if what != 1 {
            assert_eq!(F::line_results(&line), solo::<F>(&tangle(), &config(), Matrix::dense(&data, DIM)), "{what}");
        }
        own.0.lock().unwrap().take();
        F::listen(&line, None).unwrap();
        assert!(events.try_recv().is_err(), "{what}");
        F::free_within(&line);
    }
}

/// Counts how often it is let go of.
struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn a_listener_is_replaced_or_dropped<F: Queued>() {
    let data = rows(&mut Rng(12), 60);
    let all = Matrix::dense(&data, DIM);
    let decoder = decoder::<F>(&DecoderConfig { chunk_frames: 1, ..config() });
    let line = open_line::<F>(&decoder);
    let drops = Arc::new(AtomicUsize::new(0));
    let inside = Arc::new(AtomicUsize::new(0));
    for round in 0..20 {
        F::submit(&line, all.part(round * 3, round * 3 + 3)).unwrap();
        let (dropped, inside, current) = (Dropped(Arc::clone(&drops)), Arc::clone(&inside), Arc::clone(&drops));
        let ear = move |_| {
            let _whole = &dropped;
            inside.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_micros(300));
            // Nobody lets go of it while it runs, nor calls it once the next one is set. It may be called before the
            // one in front is let go of.
            assert!(current.load(Ordering::SeqCst) <= round);
            inside.fetch_sub(1, Ordering::SeqCst);
        };
        F::listen(&line, Some(Arc::new(ear))).unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), round, "the one before is let go of");
    }
    F::listen(&line, None).unwrap();
    assert_eq!((drops.load(Ordering::SeqCst), inside.load(Ordering::SeqCst)), (20, 0));
    done::<F>(&line);
    assert_eq!(F::line_frames(&line), 60);
}

/// While a callback does not return, other channels are searched to the end of their queues; their new words are
/// told once, and their ends behind that. The channel of the callback stays as it is.
fn a_slow_listener_holds_up_no_search<F: Queued>() {
    let loops = source(Some(0), vec![(0.0, (1..=3).map(|label| arc(label, label, 0.0, 0)).collect())]);
    let decoder = F::decoder(&graph::<F>(&loops), &DecoderConfig { chunk_frames: 2, ..config() }).unwrap();
    let (slow, other) = (F::line(&decoder).unwrap(), F::line(&decoder).unwrap());
    let ((entered, inside), (go, hold)) = (channel(), channel::<()>());
    let held = Mutex::new((entered, hold));
    let ear = move |event| {
        let held = held.lock().unwrap();
        held.0.send(event).unwrap();
        // Until `go` is dropped, for good then.
        assert!(held.1.recv().is_err());
    };
    F::listen(&slow, Some(Arc::new(ear))).unwrap();
    let events = noting::<F>(&other);
    let row = Matrix::dense(&[0.0, -5.0, -5.0], 3);
    F::begin_line(&slow).unwrap();
    F::begin_line(&other).unwrap();
    F::submit(&slow, row).unwrap();
    assert_eq!(inside.recv_timeout(Duration::from_secs(60)), Ok(Event::Partial));
    for _ in 0..9 {
        F::submit(&slow, row).unwrap();
        F::submit(&other, row).unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while F::line_frames(&other) < 9 {
        assert!(Instant::now() < deadline, "nothing is searched");
        thread::sleep(Duration::from_micros(200));
    }
    assert_eq!(F::line_words(&other).unwrap().len(), 9);
    F::finish_line(&other).unwrap();
    assert_eq!(F::wait(&other, 0.0), Ok(false), "nothing of it is told");
    assert_eq!(events.try_iter().count(), 0);
    assert_eq!(F::line_frames(&slow), 1, "searched under its own callback");
    drop(go);
    done::<F>(&other);
    assert_eq!(events.try_iter().collect::<Vec<_>>(), [Event::Partial, Event::Finished]);
    F::listen(&slow, None).unwrap();
    done::<F>(&slow);
    assert_eq!(F::line_frames(&slow), 10);
}

fn a_long_queue_does_not_hold_up_others<F: Queued>() {
    let data = rows(&mut Rng(13), 4000);
    let all = Matrix::dense(&data, DIM);
    let config = DecoderConfig { chunk_frames: 2, num_lanes: 1, num_threads: 1, ..config() };
    let decoder = decoder::<F>(&config);
    let (long, short) = (open_line::<F>(&decoder), open_line::<F>(&decoder));
    // On a busy machine all may be searched before this thread looks: then once more.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        F::begin_line(&long).unwrap();
        F::submit(&long, all).unwrap();
        F::submit(&short, all.part(0, 1)).unwrap();
        done::<F>(&short);
        let overtaken = F::line_frames(&long) < 4000;
        done::<F>(&long);
        if overtaken {
            break;
        }
        assert!(Instant::now() < deadline, "one row waits for 4000 others");
    }
}

fn metrics_count<F: Queued>() {
    let data = rows(&mut Rng(14), 50);
    let all = Matrix::dense(&data, DIM);
    let decoder = decoder::<F>(&DecoderConfig { max_batch_wait: 0.05, num_lanes: 2, ..config() });
    let zero = F::metrics(&decoder);
    assert_eq!((zero.batches, zero.mean_batch, zero.frames, zero.latency_max, zero.seconds), (0, 0.0, 0, 0.0, 0.0));
    let lines = [open_line::<F>(&decoder), open_line::<F>(&decoder)];
    let since = Instant::now();
    for line in &lines {
        F::submit(line, all).unwrap();
    }
    lines.iter().for_each(done::<F>);
    let took = since.elapsed().as_secs_f64();
    let metrics = F::metrics(&decoder);
    assert_eq!((metrics.channels, metrics.frames, metrics.queued_frames, metrics.rejected), (2, 100, 0, 0));
    // 50 rows of each in chunks of 4, by two threads, each with one channel at a time.
    assert_eq!((metrics.batches, metrics.mean_batch), (26, 1.0));
    assert!(metrics.seconds > 0.0 && metrics.seconds <= 2.0 * took, "{metrics:?}");
    assert!(metrics.latency_p50 > 0.0 && metrics.latency_p50 <= metrics.latency_p90, "{metrics:?}");
    assert!(metrics.latency_p90 <= metrics.latency_p99 && metrics.latency_p99 <= metrics.latency_max, "{metrics:?}");
    assert!(metrics.latency_max <= 1.06 * took, "{metrics:?} in {took}");
    F::push_line(&lines[0], all).unwrap();
    assert_eq!(F::metrics(&decoder).frames, 100, "pushes are not counted");
}

fn case_b48_queued_channel_used_again<F: Queued>() {
    let mut rng = Rng(48);
    let decoder = decoder::<F>(&config());
    let line = F::line(&decoder).unwrap();
    for round in 0..6 {
        let data = rows(&mut rng, [30, 1, 0, 17, 60, 3][round]);
        F::begin_line(&line).unwrap();
        assert_eq!((F::line_frames(&line), F::line_words(&line).unwrap()), (0, vec![]), "nothing old is to be seen");
        F::submit(&line, Matrix::dense(&data, DIM)).unwrap();
        F::finish_line(&line).unwrap();
        done::<F>(&line);
        assert_eq!(F::line_results(&line), solo::<F>(&tangle(), &config(), Matrix::dense(&data, DIM)));
    }
}

fn case_b49_finished_and_freed_from_two_threads<F: Queued>() {
    let data = rows(&mut Rng(49), 40);
    let decoder = decoder::<F>(&config());
    for round in 0..10 {
        let lines: Vec<F::Line> = (0..6).map(|_| open_line::<F>(&decoder)).collect();
        let (finished, to_free) = channel();
        thread::scope(|scope| {
            let all = Matrix::dense(&data, DIM);
            scope.spawn(move || {
                for line in lines {
                    F::submit(&line, all).unwrap();
                    F::finish_line(&line).unwrap();
                    finished.send(line).unwrap();
                }
            });
            scope.spawn(move || {
                for (at, line) in to_free.into_iter().enumerate() {
                    // Some are freed with their rows still in the queue.
                    if (at + round) % 2 == 0 {
                        done::<F>(&line);
                        assert_eq!(F::line_frames(&line), 40);
                    }
                    F::free(line);
                }
            });
        });
        let metrics = F::metrics(&decoder);
        assert_eq!(metrics.channels, 0, "free makes room at once");
    }
}

fn case_b50_destroyed_with_a_slow_callback<F: Queued>() {
    let data = rows(&mut Rng(50), 40);
    for round in 0..12 {
        let decoder = decoder::<F>(&DecoderConfig { chunk_frames: 3, ..config() });
        let line = F::line(&decoder).unwrap();
        let alive = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&alive);
        let ear = move |_| {
            thread::sleep(Duration::from_micros(500));
            assert!(seen.load(Ordering::SeqCst), "a callback ran after free had returned");
        };
        F::listen(&line, Some(Arc::new(ear))).unwrap();
        F::begin_line(&line).unwrap();
        F::submit(&line, Matrix::dense(&data, DIM)).unwrap();
        F::finish_line(&line).unwrap();
        thread::sleep(Duration::from_micros(200 * (round % 6)));
        if round < 6 {
            drop(decoder);
            F::free(line);
            alive.store(false, Ordering::SeqCst);
        } else {
            F::free(line);
            alive.store(false, Ordering::SeqCst);
            drop(decoder);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn case_b51_decoders_come_and_go<F: Queued>() {
    let data = rows(&mut Rng(51), 20);
    let all = Matrix::dense(&data, DIM);
    let alone = solo::<F>(&tangle(), &config(), all);
    for round in 0..10 {
        let decoder = decoder::<F>(&config());
        let lines: Vec<F::Line> = (0..3).map(|_| open_line::<F>(&decoder)).collect();
        for line in &lines {
            F::submit(line, all).unwrap();
            F::finish_line(line).unwrap();
        }
        if round % 2 == 0 {
            // The channels keep what they need.
            drop(decoder);
        }
        for (at, line) in lines.into_iter().enumerate() {
            if at + round % 3 != 1 {
                done::<F>(&line);
                assert_eq!(F::line_results(&line), alone);
            }
        }
    }
}

fn case_b54_submitted_buffer_overwritten<F: Queued>() {
    let data = rows(&mut Rng(54), 60);
    let decoder = decoder::<F>(&config());
    let line = open_line::<F>(&decoder);
    let mut buffer = vec![0.0; 5 * DIM];
    for chunk in data.chunks(5 * DIM) {
        buffer.copy_from_slice(chunk);
        F::submit(&line, Matrix::dense(&buffer, DIM)).unwrap();
        buffer.fill(f32::NAN);
    }
    F::finish_line(&line).unwrap();
    done::<F>(&line);
    assert_eq!(F::line_results(&line), solo::<F>(&tangle(), &config(), Matrix::dense(&data, DIM)));
}

/// 600 frames of silence: whatever they are, one end of one utterance is told, and no words twice.
fn case_b60_silence_tells_no_second_end<F: Queued>() {
    let loops = source(Some(0), vec![(0.0, vec![arc(1, 0, 0.0, 0), arc(2, 7, 0.0, 0)])]);
    let decoder = F::decoder(&graph::<F>(&loops), &config()).unwrap();
    let line = F::line(&decoder).unwrap();
    let events = noting::<F>(&line);
    F::begin_line(&line).unwrap();
    for _ in 0..60 {
        F::submit(&line, Matrix::dense(&[0.0, -9.0].repeat(10), 2)).unwrap();
        done::<F>(&line);
    }
    F::finish_line(&line).unwrap();
    done::<F>(&line);
    let told: Vec<Event> = events.try_iter().filter(|event| *event != Event::Endpoint).collect();
    assert_eq!(told, [Event::Finished]);
}

/// A source that panics: the channel is lost, with a status, and nothing else.
#[test]
fn a_panic_is_contained() {
    struct Bomb;
    impl Source for Bomb {
        fn with(&self, _: &mut dyn FnMut(&mut dyn Decodable) -> koshi::Result<()>) -> koshi::Result<()> {
            panic!("a bomb");
        }
    }
    let decoder = decoder::<Rust>(&config());
    let (line, other) = (open_line::<Rust>(&decoder), open_line::<Rust>(&decoder));
    line.submit_from(Arc::new(Bomb)).unwrap();
    let fault = Rust::wait(&line, 60.0).unwrap_err();
    assert_eq!(fault.status, Status::KOSHI_E_INTERNAL);
    assert!(fault.message.contains("tests/submit.rs:"), "{}", fault.message);
    assert!(matches!(line.read().map(drop), Err(koshi::Error::Handle(_))), "poisoned");
    assert!(line.begin().is_err());
    let data = rows(&mut Rng(1), 9);
    Rust::submit(&other, Matrix::dense(&data, DIM)).unwrap();
    done::<Rust>(&other);
    assert_eq!(Rust::line_frames(&other), 9);
}
