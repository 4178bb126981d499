//! One batch of the chain objective on a GPU: its matrices, the recursion, the derivatives.

use std::ffi::c_void;
use std::sync::Arc;

use super::api::{DevicePointer, Handle};
use super::chain_graph::{ChainGraph, small};
use super::chain_layout::{
    AddParameters, ChainOutcome, ChainParameters, DerivativeParameters, GatherParameters, Places, ROW_THREADS,
};
use super::context::{Context, Entered, Event, Stream};
use super::handed::cannot_be_right;
use super::memory::DeviceMemory;
use crate::error::{Result, try_reserve};

const WHAT: &str = "the chain objective";

/// Rows of numbers to be read. In host memory a slice ends with the last number of the last row.
#[derive(Clone, Copy, Debug)]
pub enum ChainMatrix<'a> {
    /// Numbers, and how far apart rows begin.
    Host(&'a [f32], usize),
    /// Address of the first number in memory that the GPU can read, and how far apart rows begin.
    Device(u64, usize),
}

/// Rows of numbers to be written.
#[derive(Debug)]
pub enum ChainMatrixMut<'a> {
    /// As [`ChainMatrix::Host`].
    Host(&'a mut [f32], usize),
    /// As [`ChainMatrix::Device`].
    Device(u64, usize),
}

/// What a batch is.
#[derive(Clone, Copy, Debug)]
pub struct ChainBatch<'a> {
    /// The network output: row frame * num_sequences + sequence, a column for each pdf.
    pub output: ChainMatrix<'a>,
    /// The `CUstream` whose work so far makes what is in device memory, as a number; 0 for the default one.
    pub stream: usize,
    /// Sequences.
    pub num_sequences: usize,
    /// Most frames of a sequence.
    pub frames: usize,
    /// Frames of each sequence.
    pub lengths: &'a [u32],
    /// Whether occupancies are wanted.
    pub backward: bool,
    /// How likely a leap to any state is between frames.
    pub leak: f32,
    /// Occupancies below this are drawn: they become this or 0, with the same mean. 0 for none.
    pub threshold: f32,
    /// What they are drawn from.
    pub seed: u64,
    /// Where the elements of each row begin, and their pdfs, each once: scores that the host asks for.
    pub elements: (&'a [u32], &'a [u32]),
    /// A factor of each row of the derivatives.
    pub row_weights: Option<&'a [f32]>,
    /// How many of the derivatives go to host memory.
    pub to_host: usize,
}

/// How the derivatives come about.
#[derive(Clone, Copy, Debug)]
pub struct ChainDerivative {
    /// Whether there is an objective; if not, only the l2 part is written.
    pub ok: bool,
    /// Of the supervision.
    pub weight: f32,
    /// Scale of the l2 part, the weight included.
    pub l2: f32,
    /// Scale of the penalty on scores beyond the limits.
    pub penalty: f32,
}

/// Memory and stream of a call, kept for the next.
pub(super) struct Room {
    memory: Option<DeviceMemory>,
    theirs: Event,
    /// Rows of the host side by side, where they are not so already.
    packed: Vec<f32>,
    // Behind what uses it: fields go in their order.
    stream: Stream,
}

impl Room {
    pub fn new(context: &Arc<Context>) -> Result<Room> {
        Ok(Room { memory: None, theirs: Event::new(context)?, packed: Vec::new(), stream: Stream::new(context)? })
    }

    /// Device memory of at least `bytes` bytes.
    fn reserve(&mut self, bytes: u64) -> Result<DevicePointer> {
        if let Some(memory) = self.memory.as_ref().filter(|memory| memory.bytes >= bytes) {
            return Ok(memory.at);
        }
        // Given back first: both together may not fit.
        self.memory = None;
        let memory = DeviceMemory::new(&self.stream.context, bytes, WHAT)?;
        Ok(self.memory.insert(memory).at)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let Ok(_entered) = self.stream.context.enter() else { return };
        // Of a call that failed something may still be under way in this memory, and in the caller's.
        let _ = self.stream.wait();
    }
}

/// Where the arrays of a call are.
#[derive(Clone, Copy)]
struct Arrays {
    output: DevicePointer,
    emissions: DevicePointer,
    alphas: DevicePointer,
    work: DevicePointer,
    scales: DevicePointer,
    outcomes: DevicePointer,
    lengths: DevicePointer,
    offsets: DevicePointer,
    pdfs: DevicePointer,
    values: DevicePointer,
    row_weights: DevicePointer,
    /// Derivatives on their way to the host.
    staged: [DevicePointer; 2],
}

/// A call that has begun. Whatever is under way is over when it has been dropped; [`ChainCall::done`] keeps its memory.
pub struct ChainCall<'a> {
    graph: &'a ChainGraph,
    batch: ChainBatch<'a>,
    rows: usize,
    room: Room,
    at: Arrays,
    output: (DevicePointer, usize),
    // Last: the context is left when all else is gone.
    _entered: Entered<'a>,
}

impl ChainGraph {
    /// Begins a call: takes memory, and copies what the host has to the device. [`Error::NoMemory`],
    /// [`Error::Device`], [`Error::Limit`].
    ///
    /// [`Error::NoMemory`]: crate::Error::NoMemory
    /// [`Error::Device`]: crate::Error::Device
    /// [`Error::Limit`]: crate::Error::Limit
    ///
    /// # Safety
    /// A matrix in device memory is there, with as many rows and columns as the batch and graph have, until the call
    /// is dropped; the stream is a live one of the device's primary context or 0.
    pub unsafe fn begin<'a>(&'a self, batch: ChainBatch<'a>) -> Result<ChainCall<'a>> {
        let rows = batch.num_sequences * batch.frames;
        small(rows, "rows")?;
        let entered = self.context.enter()?;
        if let ChainMatrix::Device(at, stride) = batch.output {
            self.context.check_rows(at, rows, self.num_pdfs, stride)?;
        }
        let mut room = self.room()?;
        let mut places = Places::default();
        let offsets = self.arrays(&batch, &mut places);
        let at = offsets.behind(room.reserve(places.bytes)?);
        let output = match batch.output {
            ChainMatrix::Host(..) => (at.output, self.num_pdfs),
            ChainMatrix::Device(pointer, stride) => (pointer, stride),
        };
        let mut call = ChainCall { graph: self, batch, rows, room, at, output, _entered: entered };
        call.copy_in()?;
        Ok(call)
    }

    fn arrays(&self, batch: &ChainBatch, places: &mut Places) -> Arrays {
        let ChainBatch { num_sequences: sequences, frames, .. } = *batch;
        let rows = sequences * frames;
        let elements = batch.elements.1.len();
        let (kept_rows, kept_frames) = if batch.backward { (rows, frames + 1) } else { (sequences, 2) };
        let words = 2 * self.num_groups + self.num_pieces + self.num_states;
        let on_host = matches!(batch.output, ChainMatrix::Host(..));
        let staged = |count: usize| if batch.to_host >= count { rows } else { 0 };
        Arrays {
            output: places.take(&[if on_host { rows } else { 0 }, self.num_pdfs], 4),
            emissions: places.take(&[kept_rows, self.num_pdfs], 4),
            alphas: places.take(&[sequences, kept_frames, self.num_states], 4),
            work: places.take(&[sequences, words], 4),
            scales: places.take(&[rows], 4),
            outcomes: places.take(&[sequences], size_of::<ChainOutcome>()),
            lengths: places.take(&[sequences], 4),
            offsets: places.take(&[rows + 1], 4),
            pdfs: places.take(&[elements], 4),
            values: places.take(&[elements], 4),
            row_weights: places.take(&[rows], 4),
            staged: [1, 2].map(|count| places.take(&[staged(count), self.num_pdfs], 4)),
        }
    }
}

impl Arrays {
    fn behind(self, base: DevicePointer) -> Arrays {
        Arrays {
            output: base + self.output,
            emissions: base + self.emissions,
            alphas: base + self.alphas,
            work: base + self.work,
            scales: base + self.scales,
            outcomes: base + self.outcomes,
            lengths: base + self.lengths,
            offsets: base + self.offsets,
            pdfs: base + self.pdfs,
            values: base + self.values,
            row_weights: base + self.row_weights,
            staged: self.staged.map(|at| base + at),
        }
    }
}

impl ChainCall<'_> {
    fn copy_in(&mut self) -> Result<()> {
        let ChainBatch { output, lengths, elements: (offsets, pdfs), row_weights, .. } = self.batch;
        let Room { stream, theirs, packed, .. } = &mut self.room;
        match output {
            ChainMatrix::Device(..) => {
                // SAFETY: the promise of `begin` on the stream.
                unsafe { theirs.record_raw(self.batch.stream as Handle) }?;
                stream.wait_for(theirs)?;
            }
            ChainMatrix::Host(data, stride) => {
                let cols = self.graph.num_pdfs;
                let data = if stride == cols { data } else { pack(data, stride, cols, packed)? };
                // SAFETY: room for as many; caller's and own data are left alone until all is over.
                unsafe { stream.copy_in(self.at.output, data) }?;
            }
        }
        // SAFETY: as above.
        unsafe {
            stream.copy_in(self.at.lengths, lengths)?;
            stream.copy_in(self.at.offsets, offsets)?;
            stream.copy_in(self.at.pdfs, pdfs)?;
            stream.copy_in(self.at.row_weights, row_weights.unwrap_or(&[]))
        }
    }

    /// Launches blocks over `parameters`.
    ///
    /// # Safety
    /// The kernel takes that struct, and what it points to is there.
    unsafe fn launch_one<P>(&self, kernel: Handle, blocks: usize, threads: u32, mut parameters: P) -> Result<()> {
        let mut arguments = [(&raw mut parameters).cast::<c_void>()];
        let blocks = small(blocks, "blocks")?;
        // SAFETY: this function's own promise.
        unsafe { self.room.stream.launch(kernel, blocks, threads, &mut arguments) }
    }

    /// The scores of the batch's elements.
    pub fn gather(&mut self, values: &mut Vec<f32>) -> Result<()> {
        let elements = self.batch.elements.1.len();
        resize(values, elements)?;
        if elements == 0 {
            return Ok(());
        }
        let (output, stride) = self.output;
        let parameters = GatherParameters {
            output,
            values: self.at.values,
            offsets: self.at.offsets,
            pdfs: self.at.pdfs,
            stride: stride as u64,
        };
        // SAFETY: arrays of the sizes of `arrays`; the copy is waited for.
        unsafe {
            self.launch_one(self.graph.module.chain_gather(), self.rows, ROW_THREADS, parameters)?;
            self.room.stream.copy_out(values, self.at.values)?;
        }
        self.room.stream.wait()
    }

    /// Sets the recursion going, and does not wait for it.
    pub fn launch(&mut self) -> Result<()> {
        let (graph, batch) = (self.graph, &self.batch);
        let (output, stride) = self.output;
        let arrays = graph.at;
        let parameters = ChainParameters {
            initial: arrays.initial,
            groups: arrays.groups,
            arcs_in: arrays.arcs_in,
            entering: arrays.entering,
            pdf_places: arrays.pdf_places,
            arcs_out: arrays.arcs_out,
            pieces: arrays.pieces,
            leaving: arrays.leaving,
            output,
            lengths: self.at.lengths,
            emissions: self.at.emissions,
            alphas: self.at.alphas,
            work: self.at.work,
            scales: self.at.scales,
            outcomes: self.at.outcomes,
            stride: stride as u64,
            seed: batch.seed,
            num_states: graph.num_states as u32,
            num_groups: graph.num_groups as u32,
            num_pieces: graph.num_pieces as u32,
            num_pdfs: graph.num_pdfs as u32,
            num_sequences: batch.num_sequences as u32,
            frames: batch.frames as u32,
            backward: u32::from(batch.backward),
            leak: batch.leak,
            threshold: batch.threshold,
            reserved: 0,
        };
        let passes = graph.module.chain_passes();
        for kernel in &passes[..if batch.backward { 2 } else { 1 }] {
            // SAFETY: arrays of the sizes of `arrays`.
            unsafe { self.launch_one(*kernel, batch.num_sequences, graph.threads(), parameters) }?;
        }
        Ok(())
    }

    /// Waits for the recursion: what became of each sequence, and by what each frame of each was multiplied, sequence
    /// after sequence.
    pub fn outcomes(&mut self, outcomes: &mut Vec<ChainOutcome>, scales: &mut Vec<f32>) -> Result<()> {
        resize(outcomes, self.batch.num_sequences)?;
        resize(scales, self.rows)?;
        // SAFETY: as many were written; the copies are waited for.
        unsafe {
            self.room.stream.copy_out(outcomes, self.at.outcomes)?;
            self.room.stream.copy_out(scales, self.at.scales)?;
        }
        self.room.stream.wait()
    }

    /// Writes the derivatives: `numerator` has the weighted occupancies of the elements.
    ///
    /// # Safety
    /// Matrices in device memory have a place for each number of the output.
    pub unsafe fn derivative(
        &mut self,
        what: ChainDerivative,
        numerator: &[f32],
        deriv: Option<ChainMatrixMut>,
        xent_deriv: Option<ChainMatrixMut>,
    ) -> Result<()> {
        let (output, stride) = self.output;
        let cols = self.graph.num_pdfs;
        for target in [&deriv, &xent_deriv] {
            if let Some(ChainMatrixMut::Device(at, stride)) = *target {
                self.graph.context.check_rows(at, self.rows, cols, stride)?;
            }
        }
        let mut staged = self.at.staged.into_iter();
        let mut place = |target: &Option<ChainMatrixMut>| match target {
            None => (0, cols),
            Some(ChainMatrixMut::Device(at, stride)) => (*at, *stride),
            Some(ChainMatrixMut::Host(..)) => (staged.next().unwrap_or(0), cols),
        };
        let (deriv_at, xent_at) = (place(&deriv), place(&xent_deriv));
        let parameters = DerivativeParameters {
            output,
            occupancies: self.at.emissions,
            row_weights: if self.batch.row_weights.is_some() { self.at.row_weights } else { 0 },
            numerator: self.at.values,
            offsets: self.at.offsets,
            pdfs: self.at.pdfs,
            deriv: deriv_at.0,
            xent_deriv: xent_at.0,
            stride: stride as u64,
            deriv_stride: deriv_at.1 as u64,
            xent_stride: xent_at.1 as u64,
            num_pdfs: cols as u32,
            ok: u32::from(what.ok),
            weight: what.weight,
            l2: what.l2,
            penalty: what.penalty,
            reserved: 0,
        };
        // SAFETY: arrays of the sizes of `arrays`, and this function's own promise; all is waited for.
        unsafe {
            self.room.stream.copy_in(self.at.values, numerator)?;
            self.launch_one(self.graph.module.chain_derivative(), self.rows, ROW_THREADS, parameters)?;
        }
        for (target, (from, _)) in [(deriv, deriv_at), (xent_deriv, xent_at)] {
            if let Some(ChainMatrixMut::Host(data, stride)) = target {
                self.fetch(from, data, stride)?;
            }
        }
        self.room.stream.wait()
    }

    /// Copies derivatives that are side by side on the device to rows of the host, and waits. They are finite:
    /// [`Error::Device`] where they are not.
    fn fetch(&mut self, from: DevicePointer, to: &mut [f32], stride: usize) -> Result<()> {
        let cols = self.graph.num_pdfs;
        let Room { stream, packed, .. } = &mut self.room;
        if stride == cols {
            // SAFETY: as many numbers; waited for.
            unsafe { stream.copy_out(to, from) }?;
            stream.wait()?;
            return check_finite(to);
        }
        resize(packed, self.rows * cols)?;
        // SAFETY: as above.
        unsafe { stream.copy_out(packed, from) }?;
        stream.wait()?;
        check_finite(packed)?;
        for (row, packed) in to.chunks_mut(stride).zip(packed.chunks_exact(cols)) {
            row[..cols].copy_from_slice(packed);
        }
        Ok(())
    }

    /// Adds `weight` times the occupancies to `deriv` (address and stride) in device memory, of the first frames of
    /// each sequence.
    ///
    /// # Safety
    /// The matrix has a place for each number of the output.
    pub unsafe fn add(&mut self, weight: f32, lengths: &[u32], deriv: (u64, usize)) -> Result<()> {
        self.graph.context.check_rows(deriv.0, self.rows, self.graph.num_pdfs, deriv.1)?;
        let parameters = AddParameters {
            occupancies: self.at.emissions,
            lengths: self.at.lengths,
            deriv: deriv.0,
            deriv_stride: deriv.1 as u64,
            num_pdfs: self.graph.num_pdfs as u32,
            num_sequences: self.batch.num_sequences as u32,
            weight,
            reserved: 0,
        };
        // SAFETY: the recursion is over and has no need of the lengths; this function's own promise; all is waited for.
        unsafe {
            self.room.stream.copy_in(self.at.lengths, lengths)?;
            self.launch_one(self.graph.module.chain_add(), self.rows, ROW_THREADS, parameters)?;
        }
        self.room.stream.wait()
    }

    /// The occupancies, by row and pdf. Of frames that a sequence has not they are nothing.
    pub fn occupancies(&mut self, occupancies: &mut Vec<f32>) -> Result<()> {
        resize(occupancies, self.rows * self.graph.num_pdfs)?;
        // SAFETY: as many were written; the copy is waited for.
        unsafe { self.room.stream.copy_out(occupancies, self.at.emissions) }?;
        self.room.stream.wait()
    }

    /// Ends the call and keeps its memory for the next one.
    pub fn done(self) -> Result<()> {
        let ChainCall { graph, room, .. } = self;
        let mut idle = graph.idle.lock();
        try_reserve(&mut idle, 1, WHAT)?;
        idle.push(room);
        Ok(())
    }
}

fn check_finite(derivatives: &[f32]) -> Result<()> {
    // All of them, without a branch: nearly always they are.
    match derivatives.iter().fold(true, |good, value| good & value.is_finite()) {
        true => Ok(()),
        false => Err(cannot_be_right("a derivative is not finite")),
    }
}

/// Rows side by side, in `packed`.
fn pack<'p>(data: &[f32], stride: usize, cols: usize, packed: &'p mut Vec<f32>) -> Result<&'p [f32]> {
    packed.clear();
    try_reserve(packed, data.len().div_ceil(stride) * cols, WHAT)?;
    data.chunks(stride).for_each(|row| packed.extend_from_slice(&row[..cols]));
    Ok(packed)
}

/// Makes `items` exactly `len` long.
fn resize<T: bytemuck::Pod>(items: &mut Vec<T>, len: usize) -> Result<()> {
    items.clear();
    try_reserve(items, len, WHAT)?;
    items.resize(len, T::zeroed());
    Ok(())
}
