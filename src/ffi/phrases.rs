//! Phrases, as channels and transducers take them.

use super::arg;
use super::config;
use crate::error::{Result, try_reserve};
use crate::search::Phrase;

/// A phrase that is made more likely.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct koshi_phrase {
    /// Its labels: for a channel output labels (words) of the graph, all above 0; for a transducer
    /// labels of its vocabulary but the blank.
    pub labels: *const i32,
    /// Number of labels, at least 1.
    pub len: usize,
    /// Added to a score, or taken off a cost, each time that the phrase is completed; finite, and 1e30
    /// at most over all phrases, whatever their signs. After k of its n labels k/n of it is held, and
    /// given back when it is not completed. Below 0, for channels only, the phrase is made less likely,
    /// and nothing of it is held before it is complete.
    pub bonus: f32,
    /// Must be 0.
    pub reserved: u32,
}

/// The phrases of an array.
///
/// # Safety
/// The header's promise on arrays, for the phrases and the labels of each.
pub(super) unsafe fn read<'a>(phrases: *const koshi_phrase, count: usize) -> Result<Vec<Phrase<'a>>> {
    // SAFETY: the caller's promise.
    let given = unsafe { arg::array(phrases, count, "phrases") }?;
    let mut read = Vec::new();
    try_reserve(&mut read, given.len(), "phrases")?;
    for phrase in given {
        config::reserved(phrase.reserved, "phrases")?;
        // SAFETY: the caller's promise.
        let labels = unsafe { arg::array(phrase.labels, phrase.len, "labels of a phrase") }?;
        read.push(Phrase { labels, bonus: phrase.bonus });
    }
    Ok(read)
}
