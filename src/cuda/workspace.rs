//! What the lanes of a decoder share on the device: memory, one stream, and a launch that advances every
//! staged lane by a chunk of frames.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Instant;

use super::api::Handle;
use super::context::{Context, Event, Stream};
use super::graph::DeviceGraph;
use super::layout::{
    BiasParameters, DecodeParameters, FrameReport, LaneInput, LaneReport, Plan, RowsParameters, THREADS,
};
use super::memory::{DeviceMemory, Pinned};
use super::module::Module;
use super::phrases::DeviceLabels;
use super::staging::Staging;
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::search::{SearchConfig, first_unusable};

/// Seconds that launches took so far, by the device's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageSeconds {
    /// Copying emitting tokens and rows to the device.
    pub copy_in: f64,
    /// The decode kernel.
    pub decode: f64,
    /// The kernel that prunes what it hands over.
    pub prune: f64,
    /// Copying reports to the host.
    pub reports: f64,
    /// Launches so far.
    pub launches: u64,
    /// Times that outgrew the memory of a lane, and were searched on the host.
    pub on_host: u64,
}

/// Rows of log-likelihoods in device memory.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRows {
    /// Address of the first element, in memory that the decoder's GPU can read.
    pub at: u64,
    /// Number of rows.
    pub frames: usize,
    /// Number of columns.
    pub dim: usize,
    /// Elements from one row to the next, at least `dim`.
    pub stride: usize,
    /// The `CUstream` whose work so far makes the rows, as a number; 0 for the default stream.
    pub stream: usize,
}

impl DeviceRows {
    /// The rows behind the first `count`.
    pub fn behind(self, count: usize) -> DeviceRows {
        let count = count.min(self.frames);
        let step = (count as u64).wrapping_mul(self.stride as u64).wrapping_mul(4);
        DeviceRows { at: self.at.wrapping_add(step), frames: self.frames - count, ..self }
    }
}

/// What `take_rows` found.
pub(super) struct Taken {
    /// Good rows before the first bad one.
    pub frames: usize,
    /// Column and value that make the next row a bad one.
    pub bad: Option<(usize, f32)>,
}

/// What launches with phrases need besides.
struct BiasMemory {
    work: DeviceMemory,
    labels: Arc<DeviceLabels>,
    /// They run beside those without, on a stream of their own.
    stream: Stream,
    /// What they wait for, and what is waited for after them.
    events: [Event; 2],
}

/// Memory for a plan that asks for more than there is.
pub(super) struct Enlarged {
    plan: Plan,
    work: Option<DeviceMemory>,
    out: Option<DeviceMemory>,
    input: Option<DeviceMemory>,
    bias: BiasMemory,
}

impl Enlarged {
    /// Staging memory for launches of up to `lanes` lanes by this plan.
    pub fn staging(&self, workspace: &Workspace, lanes: u32) -> Result<Staging> {
        let input = self.input.as_ref().unwrap_or(&workspace.input).at;
        Staging::new(&workspace.stream.context, &self.plan, lanes, input, workspace.costs.at)
    }
}

/// Memory and stream of a decoder's lanes.
pub(super) struct Workspace {
    pub plan: Plan,
    /// The plan without phrases, whose capacities are those of lanes without.
    plain: Plan,
    bias: Option<BiasMemory>,
    graph: Arc<DeviceGraph>,
    module: Arc<Module>,
    work: DeviceMemory,
    out: DeviceMemory,
    input: DeviceMemory,
    inputs: DeviceMemory,
    frames: DeviceMemory,
    results: DeviceMemory,
    /// Rows of the last `take_rows`: scaled, and as they are; and what is wrong with each.
    costs: DeviceMemory,
    raw: DeviceMemory,
    bad: DeviceMemory,
    host_raw: Pinned<f32>,
    host_bad: Pinned<u32>,
    /// Before the copy in, before and behind the decode kernel, behind the pruning, behind the copy
    /// of the reports.
    events: [Event; 5],
    theirs: Event,
    /// The lanes' hashes may not be empty: a launch has failed.
    dirty: bool,
    config: SearchConfig,
    pub seconds: StageSeconds,
    // Behind what uses it: fields go in their order.
    stream: Stream,
}

impl Workspace {
    /// Takes all memory of `lanes` lanes. The context is current.
    pub fn new(context: &Arc<Context>, graph: &Arc<Graph>, config: &SearchConfig, lanes: u32) -> Result<Workspace> {
        let plan = Plan::new(graph, config, lanes)?;
        let count = lanes as usize;
        log::info!("GPU {}: {lanes} lanes take {} bytes", context.device, plan.device_bytes());
        let module = Module::get(context)?;
        let stream = Stream::new(context)?;
        let graph = DeviceGraph::get(&stream, graph)?;
        let words = |words: u64| words.saturating_mul(4).saturating_mul(u64::from(lanes));
        let of_lanes = format!("{lanes} lanes");
        let memory = |bytes: u64| DeviceMemory::new(context, bytes, &of_lanes);
        let reports = count * plan.frames;
        let rows = plan.frames * plan.columns;
        let new_event = || Event::new(context);
        let mut made = Workspace {
            work: memory(words(plan.work_words))?,
            out: memory(words(plan.out_words))?,
            input: memory(words(plan.input_words))?,
            inputs: memory((count * size_of::<LaneInput>()) as u64)?,
            frames: memory((reports * size_of::<FrameReport>()) as u64)?,
            results: memory((count * size_of::<LaneReport>()) as u64)?,
            costs: memory(rows as u64 * 4)?,
            raw: memory(rows as u64 * 4)?,
            bad: memory(plan.frames as u64 * 8)?,
            host_raw: Pinned::new(context, rows, &of_lanes)?,
            host_bad: Pinned::new(context, plan.frames * 2, &of_lanes)?,
            events: [new_event()?, new_event()?, new_event()?, new_event()?, new_event()?],
            theirs: new_event()?,
            plan,
            plain: plan,
            bias: None,
            graph,
            module,
            dirty: true,
            config: *config,
            seconds: StageSeconds::default(),
            stream,
        };
        // Reports are copied to the host for all frames that a launch might do, also those that it has not done.
        // SAFETY: memory of that size.
        unsafe {
            made.stream.fill(made.frames.at, 0, made.frames.bytes as usize)?;
            made.stream.fill(made.results.at, 0, made.results.bytes as usize)?;
        }
        made.clean()?;
        Ok(made)
    }

    /// Bytes of device memory and of page-locked memory that are held, without the graph's.
    pub fn memory(&self) -> u64 {
        let device = [
            &self.work,
            &self.out,
            &self.input,
            &self.inputs,
            &self.frames,
            &self.results,
            &self.costs,
            &self.raw,
            &self.bad,
        ];
        let pinned = [self.host_raw.bytes(), self.host_bad.bytes()];
        let bias = self.bias.as_ref().map_or(0, |bias| bias.work.bytes);
        let device = device.iter().map(|memory| memory.bytes).sum::<u64>() + bias;
        device + pinned.iter().map(|&bytes| bytes as u64).sum::<u64>()
    }

    /// Takes what memory `plan`, which is for phrases, asks for beyond what there is. The context is current.
    pub fn enlarged(&self, plan: &Plan) -> Result<Enlarged> {
        let context = &self.stream.context;
        let lanes = u64::from(plan.lanes);
        let what = format!("{lanes} lanes with phrases");
        let more = |held: &DeviceMemory, words: u64| {
            let bytes = words.saturating_mul(4).saturating_mul(lanes);
            (bytes > held.bytes).then(|| DeviceMemory::new(context, bytes, &what)).transpose()
        };
        log::info!("GPU {}: {what} take {} bytes", context.device, plan.device_bytes());
        Ok(Enlarged {
            plan: *plan,
            work: more(&self.work, plan.work_words)?,
            out: more(&self.out, plan.out_words)?,
            input: more(&self.input, plan.input_words)?,
            bias: BiasMemory {
                work: DeviceMemory::new(context, plan.bias_words.saturating_mul(4).saturating_mul(lanes), &what)?,
                labels: self.graph.labels(&self.stream)?,
                stream: Stream::new(context)?,
                events: [Event::new(context)?, Event::new(context)?],
            },
        })
    }

    /// Goes over to the plan and the memory of `enlarged`. No launch is under way, and none may follow from staging memory
    /// of the plan before.
    pub fn enlarge(&mut self, enlarged: Enlarged) {
        let Enlarged { plan, work, out, input, bias } = enlarged;
        self.plan = plan;
        for (held, more) in [(&mut self.work, work), (&mut self.out, out), (&mut self.input, input)] {
            if let Some(more) = more {
                *held = more;
            }
        }
        self.bias = Some(bias);
        self.dirty = true;
    }

    /// Staging memory for launches of up to `lanes` lanes. The context is current.
    pub fn staging(&self, lanes: u32) -> Result<Staging> {
        Staging::new(&self.stream.context, &self.plan, lanes, self.input.at, self.costs.at)
    }

    /// Rows of the last [`Workspace::take_rows`], unscaled, those columns that the graph reads.
    pub fn taken(&self) -> &[f32] {
        self.host_raw.items()
    }

    /// Empties the hashes of all lanes, if they may hold something.
    fn clean(&mut self) -> Result<()> {
        if !self.dirty {
            return Ok(());
        }
        for lane in 0..u64::from(self.plan.lanes) {
            let at = self.work.at + lane * self.plan.work_words * 4;
            // SAFETY: the head of the lane's share is its hash.
            unsafe { self.stream.fill(at, 0xff, self.plan.hash_bytes()) }?;
            if let Some(bias) = &self.bias {
                let at = bias.work.at + lane * self.plan.bias_words * 4;
                // SAFETY: the head of its share for phrases is the rest of it.
                unsafe { self.stream.fill(at, 0xff, self.plan.hash_slots as usize * 4) }?;
            }
        }
        self.stream.wait()?;
        self.dirty = false;
        Ok(())
    }

    /// Checks and scales rows that lie in device memory, as many as a launch takes, behind the work
    /// of the caller's stream. Gives how many there are, and the column and value at fault of the
    /// first bad one.
    pub fn take_rows(&mut self, rows: &DeviceRows) -> Result<Taken> {
        let (frames, dim) = (rows.frames.min(self.plan.frames), rows.dim);
        let stream = &self.stream;
        // SAFETY: the caller's promise on its stream.
        unsafe { self.theirs.record_raw(rows.stream as Handle) }?;
        stream.wait_for(&self.theirs)?;
        let mut parameters = RowsParameters {
            rows: rows.at,
            costs: self.costs.at,
            raw: self.raw.at,
            bad: self.bad.at,
            stride: rows.stride as u64,
            dim: u32::try_from(rows.dim).map_err(|_| Error::Shape(format!("{} columns are too many", rows.dim)))?,
            columns: self.plan.columns as u32,
            scale: self.config.acoustic_scale,
            reserved: 0,
        };
        let mut arguments = [(&raw mut parameters).cast::<c_void>()];
        // SAFETY: the kernel takes this struct; the rows are there by the caller's promise, and the
        // other pointers have room for a launch's rows.
        let ran = unsafe {
            stream.launch(self.module.rows(), frames as u32, THREADS, &mut arguments).and_then(|()| {
                stream.copy_out(&mut self.host_bad.items_mut()[..2 * frames], self.bad.at)?;
                stream.copy_out(&mut self.host_raw.items_mut()[..frames * self.plan.columns], self.raw.at)
            })
        };
        let waited = stream.wait();
        ran.and(waited)?;
        let bad = self.host_bad.items()[..2 * frames].chunks_exact(2).position(|bad| bad[0] != u32::MAX);
        let good = bad.unwrap_or(frames);
        let bad = bad.map(|at| {
            let bad = &self.host_bad.items()[2 * at..2 * at + 2];
            (bad[0] as usize, f32::from_bits(bad[1]))
        });
        let scale = self.config.acoustic_scale;
        let rows = &self.host_raw.items()[..if dim > 0 { good * self.plan.columns } else { 0 }];
        let rightly = bad.is_none_or(|(column, value)| column < dim && first_unusable(&[value], scale).is_some());
        if !rightly || first_unusable(rows, scale).is_some() {
            return Err(Error::Device("the GPU reports of rows what cannot be right".into()));
        }
        Ok(Taken { frames: good, bad })
    }

    /// Parameters of a launch under the capacities of `capacities`.
    fn parameters(&self, capacities: &Plan) -> DecodeParameters {
        let (plan, config, graph) = (&self.plan, &self.config, &self.graph.graph);
        DecodeParameters {
            words: self.graph.words.at,
            inputs: self.inputs.at,
            input: self.input.at,
            work: self.work.at,
            out: self.out.at,
            frames: self.frames.at,
            results: self.results.at,
            work_words: plan.work_words,
            out_words: plan.out_words,
            frames_per_lane: plan.frames as u32,
            num_columns: plan.columns as u32,
            wide: u32::from(graph.wide()),
            start: graph.start(),
            max_links: plan.max_links,
            max_tokens: plan.max_tokens,
            max_waiting: plan.max_waiting,
            hash_slots: plan.hash_slots,
            candidate_capacity: capacities.candidate_capacity,
            token_capacity: capacities.token_capacity,
            link_capacity: capacities.link_capacity,
            max_active: config.max_active,
            min_active: config.min_active,
            beam: config.beam,
            lattice_beam: config.lattice_beam,
            beam_delta: config.beam_delta,
        }
    }

    /// Runs the staged lanes, and waits for their reports. Gives the seconds that it took.
    pub fn launch(&mut self, staging: &mut Staging) -> Result<f64> {
        let since = Instant::now();
        self.clean()?;
        self.dirty = true;
        let ran = self.try_launch(staging);
        if ran.is_err() {
            // Nothing may still be under way when the staged memory is used again.
            let _ = self.bias.as_ref().map_or(Ok(()), |bias| bias.stream.wait());
            let _ = self.stream.wait();
        }
        ran?;
        self.dirty = false;
        Ok(since.elapsed().as_secs_f64())
    }

    fn try_launch(&mut self, staging: &mut Staging) -> Result<()> {
        let (lanes, stream) = (staging.num_staged(), &self.stream);
        self.events[0].record(stream)?;
        // SAFETY: device memory of the size of the host's staging memory; `launch` waits before
        // the staging memory is written again.
        unsafe {
            let (input, inputs) = staging.staged();
            stream.copy_in(self.input.at, input)?;
            stream.copy_in(self.inputs.at, inputs)?;
        }
        self.events[1].record(stream)?;
        if staging.biased > 0 {
            self.launch_biased(lanes as u32)?;
        }
        if staging.biased < lanes {
            let mut parameters = self.parameters(&self.plain);
            let mut arguments = [(&raw mut parameters).cast::<c_void>()];
            // SAFETY: the kernel takes this struct; its pointers are to memory of the sizes in it.
            unsafe { stream.launch(self.module.decode(), lanes as u32, THREADS, &mut arguments) }?;
        }
        if let (1.., Some(bias)) = (staging.biased, &self.bias) {
            stream.wait_for(&bias.events[1])?;
        }
        self.events[2].record(stream)?;
        // Of a single frame everything stays: the tokens of the last time do.
        if staging.longest > 1 {
            let mut parameters = self.parameters(&self.plan);
            let mut arguments = [(&raw mut parameters).cast::<c_void>()];
            // SAFETY: as above; it works on what the first kernel has written.
            unsafe { stream.launch(self.module.lattice(), lanes as u32, THREADS, &mut arguments) }?;
        }
        self.events[3].record(stream)?;
        let reports = lanes * self.plan.frames;
        // SAFETY: the kernel has filled as many, and `wait` stands before they are read.
        unsafe {
            stream.copy_out(&mut staging.results.items_mut()[..lanes], self.results.at)?;
            stream.copy_out(&mut staging.frames.items_mut()[..reports], self.frames.at)?;
        }
        self.events[4].record(stream)?;
        stream.wait()?;
        self.seconds.copy_in += self.events[1].since(&self.events[0])?;
        self.seconds.decode += self.events[2].since(&self.events[1])?;
        self.seconds.prune += self.events[3].since(&self.events[2])?;
        self.seconds.reports += self.events[4].since(&self.events[3])?;
        self.seconds.launches += 1;
        Ok(())
    }

    /// Launches what advances the lanes that have phrases, beside what is queued from now on.
    fn launch_biased(&self, lanes: u32) -> Result<()> {
        let Some(bias) = &self.bias else {
            return Err(Error::Internal("no memory has been taken for phrases".into()));
        };
        bias.events[0].record(&self.stream)?;
        bias.stream.wait_for(&bias.events[0])?;
        let mut parameters = self.parameters(&self.plan);
        let mut more =
            BiasParameters { labels: bias.labels.at(), work: bias.work.at, work_words: self.plan.bias_words };
        let mut arguments = [(&raw mut parameters).cast::<c_void>(), (&raw mut more).cast::<c_void>()];
        // SAFETY: the kernel takes these structs; their pointers are to memory of the sizes in them.
        unsafe { bias.stream.launch(self.module.decode_biased(), lanes, THREADS, &mut arguments) }?;
        bias.events[1].record(&bias.stream)
    }

    /// Copies the output of lanes from `from` on to the host, as many as fit, and gives the first
    /// one that is not there yet.
    pub fn fetch(&mut self, staging: &mut Staging, from: usize) -> Result<usize> {
        let queued = self.queue_copies(staging, from);
        // Also after an error: copies before it may be under way.
        let waited = self.stream.wait();
        let end = queued?;
        waited?;
        if end == from {
            return Err(Error::Internal("a lane's output does not fit the staging memory".into()));
        }
        Ok(end)
    }

    fn queue_copies(&self, staging: &mut Staging, from: usize) -> Result<usize> {
        staging.fetched.clear();
        let mut used = 0;
        let mut lane = from;
        while lane < staging.num_staged() {
            let words = staging.results.items()[lane].out_words as usize;
            if words as u64 > self.plan.out_words {
                let room = self.plan.out_words;
                return Err(Error::Device(format!(
                    "the GPU reports {words} words of output, for which there are {room}"
                )));
            }
            let Some(to) = staging.out.items_mut().get_mut(used..used + words) else { break };
            let at = self.out.at + lane as u64 * self.plan.out_words * 4;
            // SAFETY: the lane has written that many words, and `fetch` waits before they are read.
            unsafe { self.stream.copy_out(to, at) }?;
            staging.fetched.push(used..used + words);
            used += words;
            lane += 1;
        }
        Ok(lane)
    }
}
