//! The transition model: what a transition-id stands for.

/// The transition model of an acoustic model.
#[derive(Debug, Default)]
pub struct Transitions {
    pdfs: Vec<u32>,
}

impl Transitions {
    /// Number of transition-ids; they run from 1 to this.
    pub fn num_ids(&self) -> i32 {
        self.pdfs.len() as i32
    }

    /// Pdf of a transition-id, `None` outside `1..=num_ids`.
    pub fn pdf(&self, id: i32) -> Option<u32> {
        let at = usize::try_from(id).ok()?.checked_sub(1)?;
        self.pdfs.get(at).copied()
    }
}
