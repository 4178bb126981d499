//! Graphs in device memory, shared by the decoders of a device.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::context::{Context, Stream};
use super::memory::DeviceMemory;
use crate::error::Result;
use crate::graph::Graph;

/// A graph's blocks on a device.
pub(super) struct DeviceGraph {
    pub graph: Arc<Graph>,
    device: u32,
    pub words: DeviceMemory,
}

// SAFETY: a block of device memory, which does not change.
unsafe impl Send for DeviceGraph {}
// SAFETY: as above.
unsafe impl Sync for DeviceGraph {}

static GRAPHS: Mutex<Vec<Weak<DeviceGraph>>> = Mutex::new(Vec::new());

impl DeviceGraph {
    /// `graph` on the stream's device, copied if it is not there yet. The context is current.
    pub fn get(stream: &Stream, graph: &Arc<Graph>) -> Result<Arc<DeviceGraph>> {
        graph.check_whole()?;
        let context: &Arc<Context> = &stream.context;
        let mut graphs = GRAPHS.lock();
        graphs.retain(|graph| graph.strong_count() > 0);
        let same = |held: &Arc<DeviceGraph>| Arc::ptr_eq(&held.graph, graph) && held.device == context.device;
        if let Some(held) = graphs.iter().filter_map(Weak::upgrade).find(same) {
            return Ok(held);
        }
        let bytes = size_of_val(graph.words()) as u64;
        log::info!("GPU {}: the graph takes {bytes} bytes", context.device);
        let words = DeviceMemory::new(context, bytes, "the graph")?;
        // SAFETY: memory of that size; the graph is held, and the copy waited for.
        unsafe { stream.copy_in(words.at, graph.words()) }?;
        stream.wait()?;
        let held = Arc::new(DeviceGraph { graph: Arc::clone(graph), device: context.device, words });
        graphs.push(Arc::downgrade(&held));
        Ok(held)
    }
}
