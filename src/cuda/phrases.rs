//! Phrases and output labels on a device, as `kernels/bias.cuh` reads them.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::context::{Context, Stream};
use super::memory::DeviceMemory;
use crate::error::{Result, try_reserve};
use crate::graph::Graph;
use crate::search::Phrases;

/// A list of phrases on a device.
pub(super) struct DevicePhrases {
    phrases: Arc<Phrases>,
    pub words: DeviceMemory,
}

// SAFETY: a block of device memory, which does not change.
unsafe impl Send for DevicePhrases {}
// SAFETY: as above.
unsafe impl Sync for DevicePhrases {}

/// The output labels of a graph on a device.
pub(super) struct DeviceLabels {
    memory: DeviceMemory,
    /// Words before the counts, and before the labels.
    parts: [u64; 2],
}

impl DeviceLabels {
    pub fn new(stream: &Stream, graph: &Graph) -> Result<DeviceLabels> {
        let ((labelled, before), labels) = (graph.labelled_arcs(), graph.olabels()?);
        let parts = [labelled.len() as u64 * 2, labelled.len() as u64 * 2 + before.len() as u64];
        let memory = DeviceMemory::new(&stream.context, (parts[1] + labels.len() as u64) * 4, "output labels")?;
        log::info!("GPU {}: the output labels of the graph take {} bytes", stream.context.device, memory.bytes);
        // SAFETY: memory of that size; all that is copied is there until the copies have been waited for.
        let copied = unsafe {
            let counts =
                stream.copy_in(memory.at, labelled).and_then(|()| stream.copy_in(memory.at + parts[0] * 4, before));
            counts.and_then(|()| stream.copy_in(memory.at + parts[1] * 4, &labels))
        };
        copied.and(stream.wait())?;
        Ok(DeviceLabels { memory, parts })
    }

    /// Addresses of the bits, the counts and the labels.
    pub fn at(&self) -> [u64; 3] {
        [self.memory.at, self.memory.at + self.parts[0] * 4, self.memory.at + self.parts[1] * 4]
    }
}

/// The lists that a decoder has on its device: each once, while anybody has it.
pub(super) struct Lists {
    held: Mutex<Held>,
}

struct Held {
    /// Made with the first list. Copies wait for no launch.
    stream: Option<Stream>,
    lists: Vec<Weak<DevicePhrases>>,
}

impl Lists {
    pub fn new() -> Lists {
        Lists { held: Mutex::new(Held { stream: None, lists: Vec::new() }) }
    }

    /// `phrases` on the context's device, copied if it is not there yet. The context is current.
    pub fn get(&self, context: &Arc<Context>, phrases: &Arc<Phrases>) -> Result<Arc<DevicePhrases>> {
        let mut held = self.held.lock();
        let Held { stream, lists } = &mut *held;
        lists.retain(|list| list.strong_count() > 0);
        if let Some(list) = lists.iter().filter_map(Weak::upgrade).find(|list| Arc::ptr_eq(&list.phrases, phrases)) {
            return Ok(list);
        }
        let stream = match stream {
            Some(stream) => stream,
            None => stream.insert(Stream::new(context)?),
        };
        let laid_out = lay_out(phrases)?;
        let words = DeviceMemory::new(context, laid_out.len() as u64 * 4, "phrases")?;
        // SAFETY: memory of that size; the words are there until the copy has been waited for.
        let copied = unsafe { stream.copy_in(words.at, &laid_out) };
        copied.and(stream.wait())?;
        try_reserve(lists, 1, "phrases")?;
        let list = Arc::new(DevicePhrases { phrases: Arc::clone(phrases), words });
        lists.push(Arc::downgrade(&list));
        Ok(list)
    }

    /// Bytes of device memory that they take now.
    pub fn memory(&self) -> u64 {
        self.held.lock().lists.iter().filter_map(Weak::upgrade).map(|list| list.words.bytes).sum()
    }
}

/// Words of a list: where labels, their ends and known labels begin, and how many words of 64 known labels there are, less
/// one; for each state where its arcs begin, its fallback, what is held and what is completed, and once more where arcs
/// end; labels of arcs, those of a state ascending; the states that they lead to; known labels.
fn lay_out(phrases: &Phrases) -> Result<Vec<u32>> {
    let states = phrases.num_states();
    let known: &[u32] = bytemuck::cast_slice(phrases.known());
    let arcs: usize = (0..states).map(|state| phrases.arcs(state).len()).sum();
    let labels = 4 + 4 * (states as usize + 1);
    let mut words = Vec::new();
    try_reserve(&mut words, labels + 2 * arcs + known.len(), "phrases")?;
    words.extend([labels as u32, (labels + arcs) as u32, (labels + 2 * arcs) as u32, phrases.known().len() as u32 - 1]);
    let mut first = 0;
    for state in 0..states {
        let (fallback, held, completed) = phrases.state(state);
        words.extend([first, fallback, held.to_bits(), completed.to_bits()]);
        first += phrases.arcs(state).len() as u32;
    }
    words.extend([first, 0, 0, 0]);
    words.extend((0..states).flat_map(|state| phrases.arcs(state).map(|(label, _)| label as u32)));
    words.extend((0..states).flat_map(|state| phrases.arcs(state).map(|(_, to)| to)));
    words.extend_from_slice(known);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Phrase;

    #[test]
    fn a_list_by_hand() {
        let given = [(&[7, 9][..], 4.0), (&[7, 8], 2.0), (&[9], 1.0)];
        let given = given.map(|(labels, bonus)| Phrase { labels, bonus });
        let phrases = Phrases::new(&given, |_| true).unwrap();
        let words = lay_out(&phrases).unwrap();
        // States: none, 7, 7 9, 7 8, 9.
        assert_eq!(words[..4], [28, 32, 36, 0]);
        let state = |first, fallback, held: f32, completed: f32| [first, fallback, held.to_bits(), completed.to_bits()];
        let states = [
            state(0, 0, 0.0, 0.0),
            state(2, 0, 2.0, 0.0),
            state(4, 4, 0.0, 5.0),
            state(4, 0, 0.0, 2.0),
            state(4, 0, 0.0, 1.0),
            [4, 0, 0, 0],
        ];
        assert_eq!(words[4..28], states.concat());
        assert_eq!(words[28..36], [7, 9, 8, 9, 1, 4, 3, 2]);
        assert_eq!(words[36..], *bytemuck::cast_slice::<u64, u32>(phrases.known()));
        assert_eq!(lay_out(&Phrases::none()).unwrap(), [12, 12, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
