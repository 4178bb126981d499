//! A denominator graph in device memory.

use std::sync::Arc;

use parking_lot::Mutex;

use super::api::DevicePointer;
use super::chain_call::Room;
use super::chain_layout::{ChainArc, ChainGroup, Places, THREADS};
use super::context::{Context, Stream};
use super::memory::DeviceMemory;
use super::module::Module;
use crate::error::{Error, Result};

/// A denominator graph as the kernels walk it. Offsets have one entry more than what they divide.
#[derive(Clone, Copy, Debug)]
pub struct ChainArrays<'a> {
    /// Initial probability of each state.
    pub initial: &'a [f32],
    /// Groups of arcs by the state that they enter, then by pdf; one more at the end, which has no arcs.
    pub groups: &'a [ChainGroup],
    /// Arcs of the groups, in their order; `at` is the source state.
    pub arcs_in: &'a [ChainArc],
    /// Where the groups that enter each state begin.
    pub entering: &'a [u32],
    /// Where the places of the groups of each pdf begin.
    pub pdf_places: &'a [u32],
    /// Arcs by source state; `at` is the group.
    pub arcs_out: &'a [ChainArc],
    /// Where each piece of `arcs_out` begins; a piece is of one state.
    pub pieces: &'a [u32],
    /// Where the pieces of each state begin.
    pub leaving: &'a [u32],
}

/// Where the arrays are on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrayPointers {
    pub initial: DevicePointer,
    pub groups: DevicePointer,
    pub arcs_in: DevicePointer,
    pub entering: DevicePointer,
    pub pdf_places: DevicePointer,
    pub arcs_out: DevicePointer,
    pub pieces: DevicePointer,
    pub leaving: DevicePointer,
}

/// A denominator graph on a GPU, and what calls on it leave for those to come.
pub struct ChainGraph {
    pub(super) context: Arc<Context>,
    pub(super) module: Arc<Module>,
    /// Memory and streams of calls that are over.
    pub(super) idle: Mutex<Vec<Room>>,
    pub(super) at: ArrayPointers,
    pub(super) num_states: usize,
    pub(super) num_groups: usize,
    pub(super) num_pieces: usize,
    pub(super) num_pdfs: usize,
    _memory: DeviceMemory,
}

impl std::fmt::Debug for ChainGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChainGraph on GPU {}", self.context.device)
    }
}

impl ChainGraph {
    /// Copies a graph to GPU `device`, from 0. [`Error::NoDevice`], [`Error::Device`], [`Error::NoMemory`].
    pub fn new(device: u32, arrays: &ChainArrays) -> Result<ChainGraph> {
        let context = Context::new(device)?;
        let entered = context.enter()?;
        let module = Module::get(&context)?;
        let stream = Stream::new(&context)?;
        let mut places = Places::default();
        let mut place = |bytes: &[u8]| places.take(&[bytes.len()], 1);
        let parts: [&[u8]; 8] = [
            bytemuck::cast_slice(arrays.initial),
            bytemuck::cast_slice(arrays.groups),
            bytemuck::cast_slice(arrays.arcs_in),
            bytemuck::cast_slice(arrays.entering),
            bytemuck::cast_slice(arrays.pdf_places),
            bytemuck::cast_slice(arrays.arcs_out),
            bytemuck::cast_slice(arrays.pieces),
            bytemuck::cast_slice(arrays.leaving),
        ];
        let offsets = parts.map(&mut place);
        let memory = DeviceMemory::new(&context, places.bytes, "the denominator graph")?;
        log::info!("GPU {device}: the denominator graph takes {} bytes", places.bytes);
        let mut copied = Ok(());
        for (part, offset) in parts.into_iter().zip(offsets) {
            // SAFETY: a place of that size, and the copies are waited for.
            copied = copied.and_then(|()| unsafe { stream.copy_in(memory.at + offset, part) });
        }
        let waited = stream.wait();
        copied.and(waited)?;
        let [initial, groups, arcs_in, entering, pdf_places, arcs_out, pieces, leaving] =
            offsets.map(|offset| memory.at + offset);
        drop(stream);
        drop(entered);
        let count = |offsets: &[u32]| offsets.len().saturating_sub(1);
        Ok(ChainGraph {
            at: ArrayPointers { initial, groups, arcs_in, entering, pdf_places, arcs_out, pieces, leaving },
            num_states: arrays.initial.len(),
            num_groups: arrays.groups.len().saturating_sub(1),
            num_pieces: count(arrays.pieces),
            num_pdfs: count(arrays.pdf_places),
            context,
            module,
            idle: Mutex::default(),
            _memory: memory,
        })
    }

    /// Index of the GPU.
    pub fn device(&self) -> u32 {
        self.context.device
    }

    /// Threads of the block that takes a sequence through its frames. It depends on the graph alone, and with it the
    /// order of sums.
    pub(super) fn threads(&self) -> u32 {
        let most = self.num_states.max(self.num_groups).next_multiple_of(32);
        u32::try_from(most).unwrap_or(THREADS).clamp(32, THREADS)
    }

    /// Takes a room that a call has left, or makes one. The context is current.
    pub(super) fn room(&self) -> Result<Room> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| Room::new(&self.context), Ok)
    }
}

/// A number as the kernels count it.
pub(super) fn small(value: usize, what: &str) -> Result<u32> {
    let number = i32::try_from(value).map_err(|_| Error::Limit(format!("{value} {what} are too many for a GPU")))?;
    Ok(number as u32)
}
