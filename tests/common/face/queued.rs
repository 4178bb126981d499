//! The faces of channels whose rows are queued.

use std::ffi::{c_char, c_void};
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use koshi::cuda::DeviceRows;
use koshi::decoder::{Decodable, DecoderMetrics, Listener, SharedChannel, Source};
use koshi::ffi::*;

use crate::common::aloud::aloud;

use super::c::{Handle, call, code, handle};
use super::rust::{fault, rows, status};
use super::{C, Face, Matrix, Outcome, Results, Rust, Status, results};

/// What a listener is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    Partial,
    Endpoint,
    Finished,
    Failed(Status),
}

/// What a listener does with it.
pub type Ear = Arc<dyn Fn(Event) + Send + Sync>;

/// A way to use queued channels. All calls may come from any thread.
pub trait Queued: Face + 'static {
    type Line: Send + Sync + 'static;

    fn line(decoder: &Self::Decoder) -> Outcome<Self::Line>;
    fn begin_line(line: &Self::Line) -> Outcome;
    fn submit(line: &Self::Line, rows: Matrix) -> Outcome;
    /// Lets the scheduler pull from a matrix of which more and more rows are ready; the same one each time.
    fn submit_growing(line: &Self::Line, scores: &Growing) -> Outcome;
    /// `false` if time is up before.
    fn wait(line: &Self::Line, seconds: f64) -> Outcome<bool>;
    fn finish_line(line: &Self::Line) -> Outcome;
    fn cancel_line(line: &Self::Line) -> Outcome;
    fn listen(line: &Self::Line, ear: Option<Ear>) -> Outcome;
    fn push_line(line: &Self::Line, rows: Matrix) -> Outcome;
    /// The same for rows in the device's memory, which are there until the call returns.
    fn push_device_line(line: &Self::Line, rows: DeviceRows) -> Outcome;
    fn line_frames(line: &Self::Line) -> u64;
    fn line_words(line: &Self::Line) -> Outcome<Vec<i32>>;
    fn line_results(line: &Self::Line) -> Results;
    fn metrics(decoder: &Self::Decoder) -> DecoderMetrics;
    /// What its owner does in the end.
    fn free(line: Self::Line);
    /// The same from inside a callback, which owns nothing: the handle is dead behind it.
    fn free_within(line: &Self::Line);
}

/// A matrix whose rows become ready one after the other.
pub struct Growing {
    data: Vec<f32>,
    dim: usize,
    /// Whether single columns are asked for.
    by_column: bool,
    ready: Arc<Mutex<u64>>,
    /// The status that the callback answers for this frame.
    fails: Option<(u64, i32)>,
    c: Mutex<Option<Handle<koshi_decodable>>>,
}

impl Growing {
    pub fn new(rows: Matrix, by_column: bool, fails: Option<(u64, i32)>) -> Growing {
        assert_eq!(rows.dim, rows.stride);
        let ready = Arc::new(Mutex::new(0));
        Growing { data: rows.data.to_vec(), dim: rows.dim, by_column, ready, fails, c: Mutex::new(None) }
    }

    pub fn set_ready(&self, frames: u64) {
        *self.ready.lock().unwrap() = frames;
    }
}

struct Ready {
    data: Vec<f32>,
    dim: usize,
    by_column: bool,
    ready: Arc<Mutex<u64>>,
    fails: Option<(u64, i32)>,
}

impl Ready {
    fn of(growing: &Growing) -> Ready {
        let Growing { data, dim, by_column, ready, fails, .. } = growing;
        let (dim, by_column, fails) = (*dim, *by_column, *fails);
        Ready { data: data.clone(), dim, by_column, ready: Arc::clone(ready), fails }
    }

    fn score(&self, frame: u64, column: usize) -> Result<f32, i32> {
        assert!(frame < *self.ready.lock().unwrap());
        match self.fails {
            Some((at, status)) if at == frame => Err(status),
            _ => Ok(self.data[frame as usize * self.dim + column]),
        }
    }
}

impl Decodable for &Ready {
    fn num_columns(&mut self) -> koshi::Result<usize> {
        Ok(self.dim)
    }

    fn num_frames_ready(&mut self) -> koshi::Result<u64> {
        Ok(*self.ready.lock().unwrap())
    }

    fn is_last_frame(&mut self, _: u64) -> koshi::Result<bool> {
        Ok(false)
    }

    fn fills_whole_rows(&self) -> bool {
        !self.by_column
    }

    fn fill_row(&mut self, frame: u64, needed: &dyn Fn(&mut [bool]), row: &mut [f32]) -> koshi::Result<()> {
        let mut asked = vec![!self.by_column; row.len()];
        if self.by_column {
            needed(&mut asked);
        }
        for column in (0..row.len()).filter(|&column| asked[column]) {
            let score = self.score(frame, column);
            row[column] = score.map_err(|status| koshi::Error::Callback { what: "score".into(), status })?;
        }
        Ok(())
    }
}

impl Source for Ready {
    fn with(&self, body: &mut dyn FnMut(&mut dyn Decodable) -> koshi::Result<()>) -> koshi::Result<()> {
        body(&mut &*self)
    }
}

/// An [`Ear`] as the decoder knows it.
struct Ears(Ear);

impl Listener for Ears {
    fn partial(&self) {
        aloud(|| (self.0)(Event::Partial));
    }

    fn endpoint(&self) {
        aloud(|| (self.0)(Event::Endpoint));
    }

    fn finished(&self) {
        aloud(|| (self.0)(Event::Finished));
    }

    fn failed(&self, error: &koshi::Error) {
        aloud(|| (self.0)(Event::Failed(status(error))));
    }
}

impl Queued for Rust {
    type Line = Arc<SharedChannel>;

    fn line(decoder: &Self::Decoder) -> Outcome<Self::Line> {
        decoder.new_channel().and_then(SharedChannel::new).map_err(fault)
    }

    fn begin_line(line: &Self::Line) -> Outcome {
        line.begin().map_err(fault)
    }

    fn submit(line: &Self::Line, matrix: Matrix) -> Outcome {
        line.submit(rows(matrix)?).map_err(fault)
    }

    fn submit_growing(line: &Self::Line, scores: &Growing) -> Outcome {
        line.submit_from(Arc::new(Ready::of(scores))).map_err(fault)
    }

    fn wait(line: &Self::Line, seconds: f64) -> Outcome<bool> {
        line.wait(Duration::try_from_secs_f64(seconds).ok()).map_err(fault)
    }

    fn finish_line(line: &Self::Line) -> Outcome {
        line.finish().map_err(fault)
    }

    fn cancel_line(line: &Self::Line) -> Outcome {
        line.cancel();
        Ok(())
    }

    fn listen(line: &Self::Line, ear: Option<Ear>) -> Outcome {
        line.set_listener(ear.map(|ear| Arc::new(Ears(ear)) as Arc<dyn Listener>)).map_err(fault)
    }

    fn push_line(line: &Self::Line, matrix: Matrix) -> Outcome {
        line.write_unqueued().and_then(|mut channel| channel.push(rows(matrix).unwrap())).map_err(fault)
    }

    fn push_device_line(line: &Self::Line, rows: DeviceRows) -> Outcome {
        // SAFETY: memory and a stream of the device.
        line.write_unqueued().and_then(|mut channel| unsafe { channel.push_device(rows) }).map(drop).map_err(fault)
    }

    fn line_frames(line: &Self::Line) -> u64 {
        line.read().unwrap().num_frames()
    }

    fn line_words(line: &Self::Line) -> Outcome<Vec<i32>> {
        line.read().and_then(|channel| channel.best_path(false)).map(|path| path.olabels).map_err(fault)
    }

    fn line_results(line: &Self::Line) -> Results {
        results::<Rust>(&mut line.write().unwrap())
    }

    fn metrics(decoder: &Self::Decoder) -> DecoderMetrics {
        decoder.metrics()
    }

    fn free(line: Self::Line) {
        line.close();
    }

    fn free_within(line: &Self::Line) {
        line.close();
    }
}

unsafe fn told(user_data: *mut c_void, event: Event) {
    // SAFETY: `listen` passes such a box, which lives until its drop runs.
    let ear = unsafe { &*user_data.cast::<Ear>() };
    aloud(|| ear(event));
}

unsafe extern "C" fn partial(user_data: *mut c_void, channel: *mut koshi_channel) {
    assert!(!channel.is_null());
    // SAFETY: the user data of `listen`.
    unsafe { told(user_data, Event::Partial) };
}

unsafe extern "C" fn endpoint(user_data: *mut c_void, _: *mut koshi_channel) {
    // SAFETY: the user data of `listen`.
    unsafe { told(user_data, Event::Endpoint) };
}

unsafe extern "C" fn finished(user_data: *mut c_void, _: *mut koshi_channel) {
    // SAFETY: the user data of `listen`.
    unsafe { told(user_data, Event::Finished) };
}

unsafe extern "C" fn failed(user_data: *mut c_void, _: *mut koshi_channel, status: i32, message: *const c_char) {
    // SAFETY: the user data of `listen`, and a text.
    unsafe {
        assert!(*message != 0);
        told(user_data, Event::Failed(code(status)));
    }
}

unsafe extern "C" fn forget(user_data: *mut c_void) {
    // SAFETY: the box of `listen`, whose only drop this is.
    drop(unsafe { Box::from_raw(user_data.cast::<Ear>()) });
}

unsafe fn source<'a>(user_data: *mut c_void) -> &'a Ready {
    // SAFETY: `submit_growing` passes such a box, which lives until its drop runs.
    unsafe { &*user_data.cast::<Ready>() }
}

unsafe extern "C" fn score(user_data: *mut c_void, frame: i64, index: i32, out: *mut f32) -> koshi_status {
    // SAFETY: the user data of `submit_growing`, and a place for the score.
    unsafe {
        match source(user_data).score(frame as u64, index as usize) {
            Ok(score) => {
                *out = score;
                0
            }
            Err(status) => status,
        }
    }
}

unsafe extern "C" fn row(user_data: *mut c_void, frame: i64, row: *mut f32, dim: usize) -> koshi_status {
    // SAFETY: `row` has `dim` places.
    (0..dim).map(|column| unsafe { score(user_data, frame, column as i32, row.add(column)) }).min().unwrap_or(0)
}

unsafe extern "C" fn num_ready(user_data: *mut c_void) -> i64 {
    // SAFETY: the user data of `submit_growing`.
    *unsafe { source(user_data) }.ready.lock().unwrap() as i64
}

unsafe extern "C" fn is_last(_: *mut c_void, _: i64) -> i32 {
    0
}

unsafe extern "C" fn num_columns(user_data: *mut c_void) -> i32 {
    // SAFETY: the user data of `submit_growing`.
    unsafe { source(user_data) }.dim as i32
}

unsafe extern "C" fn forget_source(user_data: *mut c_void) {
    // SAFETY: the box of `submit_growing`, whose only drop this is.
    drop(unsafe { Box::from_raw(user_data.cast::<Ready>()) });
}

/// The handle as one that a test owns for a moment.
fn lent(line: &Handle<koshi_channel>) -> ManuallyDrop<Handle<koshi_channel>> {
    ManuallyDrop::new(handle(line.pointer(), koshi_channel_free))
}

// SAFETY of all below: live handles, arrays with their lengths, and places for results.
impl Queued for C {
    type Line = Handle<koshi_channel>;

    fn line(decoder: &Self::Decoder) -> Outcome<Self::Line> {
        C::channel(decoder)
    }

    fn begin_line(line: &Self::Line) -> Outcome {
        C::begin(&mut lent(line))
    }

    fn submit(line: &Self::Line, rows: Matrix) -> Outcome {
        let Matrix { data, frames, dim, stride } = rows;
        // SAFETY: as above.
        call(|err| unsafe { koshi_channel_submit(line.pointer(), data.as_ptr(), frames, dim, stride, err) })
    }

    fn submit_growing(line: &Self::Line, scores: &Growing) -> Outcome {
        let mut made = scores.c.lock().unwrap();
        if made.is_none() {
            let ops = koshi_decodable_ops {
                struct_size: size_of::<koshi_decodable_ops>() as u32,
                reserved: 0,
                log_likelihood: Some(score),
                frame_log_likelihoods: (!scores.by_column).then_some(row),
                num_frames_ready: Some(num_ready),
                is_last_frame: Some(is_last),
                num_indices: Some(num_columns),
            };
            let data = Box::into_raw(Box::new(Ready::of(scores))).cast();
            let mut out = ptr::null_mut();
            // SAFETY: as above; the box is dropped by `forget_source`.
            call(|err| unsafe { koshi_decodable_new(&ops, data, Some(forget_source), &mut out, err) })?;
            *made = Some(handle(out, koshi_decodable_free));
        }
        let decodable = made.as_ref().unwrap().pointer();
        // SAFETY: as above.
        call(|err| unsafe { koshi_channel_submit_decodable(line.pointer(), decodable, err) })
    }

    fn wait(line: &Self::Line, seconds: f64) -> Outcome<bool> {
        let mut done = true;
        let outcome = call(|err| {
            // SAFETY: as above.
            let status = unsafe { koshi_channel_wait(line.pointer(), seconds, err) };
            done = status != Status::KOSHI_OK_PARTIAL as koshi_status;
            status.min(0)
        });
        outcome.map(|()| done)
    }

    fn finish_line(line: &Self::Line) -> Outcome {
        C::finish(&mut lent(line))
    }

    fn cancel_line(line: &Self::Line) -> Outcome {
        C::cancel(line)
    }

    fn listen(line: &Self::Line, ear: Option<Ear>) -> Outcome {
        let listener = koshi_channel_listener {
            struct_size: size_of::<koshi_channel_listener>() as u32,
            reserved: 0,
            partial: Some(partial),
            endpoint: Some(endpoint),
            finished: Some(finished),
            failed: Some(failed),
        };
        let (listener, data, drop): (*const _, _, koshi_drop_fn) = match ear {
            Some(ear) => (&listener, Box::into_raw(Box::new(ear)).cast(), Some(forget)),
            None => (ptr::null(), ptr::null_mut(), None),
        };
        // SAFETY: as above; the box is dropped by `forget`.
        call(|err| unsafe { koshi_channel_set_listener(line.pointer(), listener, data, drop, err) })
    }

    fn push_line(line: &Self::Line, rows: Matrix) -> Outcome {
        C::push(&mut lent(line), rows)
    }

    fn push_device_line(line: &Self::Line, rows: DeviceRows) -> Outcome {
        let DeviceRows { at, frames, dim, stride, stream } = rows;
        let stream = ptr::without_provenance_mut(stream);
        // SAFETY: as above.
        call(|err| unsafe { koshi_channel_push_device(line.pointer(), at, frames, dim, stride, stream, err) })
    }

    fn line_frames(line: &Self::Line) -> u64 {
        C::num_frames(line)
    }

    fn line_words(line: &Self::Line) -> Outcome<Vec<i32>> {
        C::best_path(line, false).map(|path| path.olabels)
    }

    fn line_results(line: &Self::Line) -> Results {
        results::<C>(&mut lent(line))
    }

    fn metrics(decoder: &Self::Decoder) -> DecoderMetrics {
        let mut metrics = MaybeUninit::<koshi_metrics>::zeroed();
        let size = size_of::<koshi_metrics>();
        // SAFETY: as above; the struct is plain numbers.
        let found = unsafe {
            call(|err| koshi_decoder_metrics(decoder.pointer(), metrics.as_mut_ptr(), size, err)).unwrap();
            metrics.assume_init()
        };
        let metrics = DecoderMetrics {
            channels: u64::from(found.num_channels),
            queued_frames: found.queued_frames,
            batches: found.batches,
            mean_batch: found.mean_batch,
            frames: found.frames,
            seconds: found.seconds,
            rejected: found.rejected,
            cancelled: found.cancelled,
            latency_p50: found.latency_p50,
            latency_p90: found.latency_p90,
            latency_p99: found.latency_p99,
            latency_max: found.latency_max,
        };
        assert_eq!(found.frames_per_second, metrics.frames_per_second());
        metrics
    }

    fn free(line: Self::Line) {
        drop(line);
    }

    fn free_within(line: &Self::Line) {
        // SAFETY: as above.
        assert_eq!(unsafe { koshi_channel_free(line.pointer()) }, 0);
    }
}
