//! Graphs in device memory, shared by the decoders of a device.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::context::{Context, Stream};
use super::memory::DeviceMemory;
use super::phrases::DeviceLabels;
use crate::error::Result;
use crate::graph::Graph;

/// A graph's blocks on a device.
pub(super) struct DeviceGraph {
    pub graph: Arc<Graph>,
    device: u32,
    pub words: DeviceMemory,
    /// Its output labels, once an utterance has phrases.
    labels: Mutex<Option<Arc<DeviceLabels>>>,
}

// SAFETY: blocks of device memory, which do not change.
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
        let held =
            Arc::new(DeviceGraph { graph: Arc::clone(graph), device: context.device, words, labels: Mutex::new(None) });
        graphs.push(Arc::downgrade(&held));
        Ok(held)
    }
    /// Its output labels on the device, copied if they are not there yet. The context is current.
    pub fn labels(&self, stream: &Stream) -> Result<Arc<DeviceLabels>> {
        let mut labels = self.labels.lock();
        if let Some(labels) = &*labels {
            return Ok(Arc::clone(labels));
        }
        let made = Arc::new(DeviceLabels::new(stream, &self.graph)?);
        *labels = Some(Arc::clone(&made));
        Ok(made)
    }
}
