//! Page-locked memory in which a launch is put together and out of which its results are taken: the host's part of
//! a launch, for which nobody else need wait.

use std::ops::Range;
use std::sync::Arc;

use super::api::DevicePointer;
use super::context::Context;
use super::layout::{BIAS_WORDS, EMITTER_WORDS, FrameReport, LaneInput, LaneReport, Plan, status};
use super::memory::Pinned;
use crate::error::{Error, Result, try_reserve};
use crate::search::{Steps, bias_state};

/// Least number of words of output that the host looks at in one go, where the lanes have as many.
const OUTPUT_STAGING: u64 = 1 << 24;

/// How far an item of a batch is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Frames done.
    pub done: usize,
    /// Its lane in the launch at hand, and how many rows it has there.
    pub lane: Option<usize>,
    pub rows: usize,
    /// Whether an end point has stopped it.
    pub stopped: bool,
}

/// The tokens of a channel that emit next.
pub(super) struct Emitting<'a> {
    /// State, cost above the best, and place of each.
    pub triples: &'a [u32],
    pub next_beam: f32,
    pub bias: Option<BiasedTokens<'a>>,
}

/// What emitting tokens have besides, where there are phrases.
pub(super) struct BiasedTokens<'a> {
    /// The list of the next time, on the device.
    pub list: DevicePointer,
    pub steps: Steps<'a>,
    /// Bias states of all tokens of the time, by place.
    pub states: &'a [u32],
}

impl Emitting<'_> {
    fn len(&self) -> usize {
        self.triples.len() / EMITTER_WORDS
    }

    /// Words that they take in the input.
    fn words(&self) -> usize {
        self.triples.len() + if self.bias.is_some() { BIAS_WORDS * self.len() } else { 0 }
    }

    /// Writes them to their place there.
    pub fn write(&self, words: &mut [u32]) {
        let (triples, pairs) = words.split_at_mut(self.triples.len());
        triples.copy_from_slice(self.triples);
        if let Some(bias) = &self.bias {
            for (pair, triple) in pairs.chunks_exact_mut(BIAS_WORDS).zip(self.triples.chunks_exact(EMITTER_WORDS)) {
                let (state, back) = bias.steps.entered(bias_state(bias.states, triple[2] as usize));
                pair.copy_from_slice(&[state, back.to_bits()]);
            }
        }
    }
}

/// Words that the emitting tokens of a lane take in the input.
fn emitter_words(input: &LaneInput) -> usize {
    input.num_emitters as usize * (EMITTER_WORDS + if input.phrases != 0 { BIAS_WORDS } else { 0 })
}

fn no_room() -> Error {
    Error::Internal("no room to stage a lane".into())
}

/// What is staged for a launch of up to a number of lanes, and what came back.
pub(super) struct Staging {
    pub plan: Plan,
    /// Where the input goes on the device, and where rows of `Workspace::take_rows` lie.
    input_at: DevicePointer,
    costs_at: DevicePointer,
    input: Pinned<u32>,
    inputs: Pinned<LaneInput>,
    pub frames: Pinned<FrameReport>,
    pub results: Pinned<LaneReport>,
    pub out: Pinned<u32>,
    /// Words of the input that are staged, and lanes.
    used: usize,
    lanes: usize,
    /// Most frames of a staged lane.
    pub longest: u32,
    /// Lanes that have phrases.
    pub biased: usize,
    /// Where the output of each lane stands in `out`, of those fetched last.
    pub fetched: Vec<Range<usize>>,
    /// How far each item of the batch at hand is.
    pub progress: Vec<Progress>,
}

impl Staging {
    /// For up to `lanes` lanes.
    pub fn new(
        context: &Arc<Context>,
        plan: &Plan,
        lanes: u32,
        input_at: DevicePointer,
        costs_at: DevicePointer,
    ) -> Result<Staging> {
        let (count, of_lanes) = (lanes as usize, format!("{lanes} lanes"));
        let words = |words: u64| usize::try_from(words.saturating_mul(u64::from(lanes))).unwrap_or(usize::MAX);
        let out = words(plan.out_words).min(OUTPUT_STAGING.max(plan.out_words) as usize);
        let mut fetched = Vec::new();
        try_reserve(&mut fetched, count, &of_lanes)?;
        Ok(Staging {
            plan: *plan,
            input_at,
            costs_at,
            input: Pinned::new(context, words(plan.input_words), &of_lanes)?,
            inputs: Pinned::new(context, count, &of_lanes)?,
            frames: Pinned::new(context, count * plan.frames, &of_lanes)?,
            results: Pinned::new(context, count, &of_lanes)?,
            out: Pinned::new(context, out, &of_lanes)?,
            used: 0,
            lanes: 0,
            longest: 0,
            biased: 0,
            fetched,
            progress: Vec::new(),
        })
    }

    /// Bytes of page-locked memory.
    pub fn memory(&self) -> u64 {
        let parts =
            [self.input.bytes(), self.inputs.bytes(), self.frames.bytes(), self.results.bytes(), self.out.bytes()];
        parts.iter().map(|&bytes| bytes as u64).sum()
    }

    /// Begins to stage a launch.
    pub fn start(&mut self) {
        self.used = 0;
        self.lanes = 0;
        self.longest = 0;
        self.biased = 0;
    }

    /// Whether another lane can be staged.
    pub fn has_lane(&self) -> bool {
        self.lanes < self.inputs.items().len()
    }

    /// Stages the next lane, with room for its tokens `emitting` and up to `frames` rows; both are
    /// filled in later, lanes side by side. Gives the lane and how many rows there is room for.
    pub fn reserve(&mut self, emitting: &Emitting<'_>, frames: usize) -> Result<(usize, usize)> {
        let frames = frames.min(self.plan.frames);
        let first_row = self.used + emitting.words();
        let at = self.input_at + first_row as u64 * 4;
        let lane = self.lanes;
        self.put(emitting, frames as u32, at, false)?;
        self.used += frames * self.plan.columns;
        if self.used > self.input.items().len() {
            return Err(no_room());
        }
        Ok((lane, frames))
    }

    /// The places of the staged lanes, to be filled in.
    pub fn places(&mut self) -> Places<'_> {
        let columns = self.plan.columns;
        let inputs = &self.inputs.items()[..self.lanes];
        Places { inputs, columns, words: self.input.items_mut().as_mut_ptr(), len: self.used }
    }

    /// Says how many rows a staged lane really has.
    pub fn set_frames(&mut self, lane: usize, frames: usize) {
        if let Some(input) = self.inputs.items_mut().get_mut(lane) {
            input.frames = frames as u32;
        }
    }

    /// Stages the next lane with `frames` rows of the last `Workspace::take_rows`.
    pub fn stage_taken(&mut self, emitting: &Emitting<'_>, frames: usize) -> Result<()> {
        let at = self.costs_at;
        let lane = self.lanes;
        self.put(emitting, frames as u32, at, false)?;
        let places = self.places();
        // SAFETY: nobody else asks.
        emitting.write(unsafe { places.emitters(lane) });
        Ok(())
    }

    /// Stages the next lane for time 0.
    pub fn stage_begin(&mut self) -> Result<()> {
        let at = self.costs_at;
        self.put(&Emitting { triples: &[], next_beam: f32::INFINITY, bias: None }, 1, at, true)
    }

    fn put(&mut self, emitting: &Emitting<'_>, frames: u32, rows: DevicePointer, begin: bool) -> Result<()> {
        let end = self.used + emitting.words();
        if end > self.input.items().len() {
            return Err(no_room());
        }
        *self.inputs.items_mut().get_mut(self.lanes).ok_or_else(no_room)? = LaneInput {
            emitters: self.used as u64,
            rows,
            phrases: emitting.bias.as_ref().map_or(0, |bias| bias.list),
            num_emitters: emitting.len() as u32,
            frames,
            begin: u32::from(begin),
            next_beam: emitting.next_beam,
        };
        self.used = end;
        self.lanes += 1;
        self.biased += usize::from(emitting.bias.is_some());
        self.longest = self.longest.max(frames);
        Ok(())
    }

    /// The input of the staged lanes: words, and what stands where.
    pub fn staged(&self) -> (&[u32], &[LaneInput]) {
        (&self.input.items()[..self.used], &self.inputs.items()[..self.lanes])
    }

    /// Lanes that are staged.
    pub fn num_staged(&self) -> usize {
        self.lanes
    }

    /// What the last fetch, which began with lane `first`, has brought; `taken` are the rows of the last
    /// `Workspace::take_rows`, where these were staged.
    pub fn fetched<'a>(&'a self, first: usize, taken: &'a [f32]) -> Fetched<'a> {
        Fetched {
            first,
            inputs: self.inputs.items(),
            results: self.results.items(),
            frames: self.frames.items(),
            frames_per_lane: self.plan.frames,
            columns: self.plan.columns,
            words: self.out.items(),
            ranges: &self.fetched,
            taken,
        }
    }
}

/// The places of staged lanes in the input. They do not overlap, so they may be filled side by side.
pub(super) struct Places<'a> {
    inputs: &'a [LaneInput],
    columns: usize,
    words: *mut u32,
    len: usize,
}

// SAFETY: the words are borrowed for as long, and whoever asks for a lane's is the only one to.
unsafe impl Sync for Places<'_> {}

impl Places<'_> {
    /// # Safety
    /// One caller a lane and part at a time.
    #[allow(clippy::mut_from_ref)] // that is the promise
    unsafe fn part(&self, from: usize, count: usize) -> &mut [u32] {
        assert!(from.checked_add(count).is_some_and(|end| end <= self.len));
        // SAFETY: inside the input, and lanes' parts do not overlap: each begins where the one
        // before ends.
        unsafe { std::slice::from_raw_parts_mut(self.words.add(from), count) }
    }

    /// Where the emitting tokens of a lane go.
    ///
    /// # Safety
    /// One caller a lane at a time.
    #[allow(clippy::mut_from_ref)] // that is the promise
    pub unsafe fn emitters(&self, lane: usize) -> &mut [u32] {
        let input = &self.inputs[lane];
        // SAFETY: the caller's promise.
        unsafe { self.part(input.emitters as usize, emitter_words(input)) }
    }

    /// Where the scaled rows of a lane go.
    ///
    /// # Safety
    /// One caller a lane at a time.
    #[allow(clippy::mut_from_ref)] // that is the promise
    pub unsafe fn rows(&self, lane: usize) -> &mut [f32] {
        let input = &self.inputs[lane];
        let from = input.emitters as usize + emitter_words(input);
        // SAFETY: the caller's promise.
        bytemuck::cast_slice_mut(unsafe { self.part(from, input.frames as usize * self.columns) })
    }
}

/// What lanes have handed over, as far as it is on the host.
#[derive(Clone, Copy)]
pub(super) struct Fetched<'a> {
    first: usize,
    inputs: &'a [LaneInput],
    results: &'a [LaneReport],
    frames: &'a [FrameReport],
    frames_per_lane: usize,
    pub columns: usize,
    words: &'a [u32],
    ranges: &'a [Range<usize>],
    /// Rows that were taken from device memory, unscaled, those columns that the graph reads.
    pub taken: &'a [f32],
}

impl<'a> Fetched<'a> {
    /// How a lane ended, the reports of its frames, and its output. [`Error::Device`] where it says that it ended as it
    /// cannot have.
    pub fn lane(&self, lane: usize) -> Result<(LaneReport, &'a [FrameReport], &'a [u32])> {
        let (result, asked) = (self.results[lane], self.inputs[lane].frames);
        let LaneReport { frames, status, detail, .. } = result;
        // It goes on to the last frame unless something stops it.
        let ended = frames <= asked && (status == status::DONE) == (frames == asked);
        if !ended || status > status::WORKSPACE || (status == status::CAPACITY && detail > 2) {
            let outcome = format!("status {status} ({detail}) after {frames} of {asked} frames");
            return Err(Error::Device(format!("the GPU reports of a lane what cannot be: {outcome}")));
        }
        let first = lane * self.frames_per_lane;
        let range = lane.checked_sub(self.first).and_then(|at| self.ranges.get(at)).cloned().unwrap_or_default();
        Ok((result, &self.frames[first..first + frames as usize], &self.words[range]))
    }
}
