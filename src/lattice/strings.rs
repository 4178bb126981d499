//! Strings of transition-ids, those of all arcs (or all final states) in one pool.

use crate::error::{Error, Result, try_copy, try_reserve};

/// Strings by number. String `i` is `labels[offsets[i]..offsets[i + 1]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strings {
    offsets: Vec<u32>,
    labels: Vec<i32>,
}

impl Default for Strings {
    fn default() -> Strings {
        Strings { offsets: vec![0], labels: Vec::new() }
    }
}

impl Strings {
    /// No strings, with room for `len`.
    pub fn with_capacity(len: usize) -> Result<Strings> {
        let mut strings = Strings::default();
        try_reserve(&mut strings.offsets, len, "strings of a lattice")?;
        Ok(strings)
    }

    /// Strings held.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether no string is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// String `index`; `None` past the last.
    pub fn get(&self, index: usize) -> Option<&[i32]> {
        let (from, to) = (*self.offsets.get(index)?, *self.offsets.get(index + 1)?);
        self.labels.get(from as usize..to as usize)
    }

    /// Labels in string `index`, 0 past the last.
    pub(crate) fn length(&self, index: usize) -> u32 {
        self.get(index).map_or(0, |string| string.len() as u32)
    }

    /// Appends a string.
    pub fn push(&mut self, string: &[i32]) -> Result<()> {
        for &label in string {
            self.push_label(label)?;
        }
        self.end_string()
    }

    /// Appends a label to the string that [`Strings::end_string`] will end.
    pub(crate) fn push_label(&mut self, label: i32) -> Result<()> {
        if self.labels.len() >= u32::MAX as usize {
            return Err(Error::Limit("a lattice holds more than 2^32 - 1 transition-ids".to_string()));
        }
        try_reserve(&mut self.labels, 1, "transition-ids of a lattice")?;
        self.labels.push(label);
        Ok(())
    }

    /// Ends the string that was appended label by label.
    pub(crate) fn end_string(&mut self) -> Result<()> {
        try_reserve(&mut self.offsets, 1, "strings of a lattice")?;
        self.offsets.push(self.labels.len() as u32);
        Ok(())
    }

    /// The strings of `indices` in that order.
    pub(crate) fn select(&self, indices: impl ExactSizeIterator<Item = usize>) -> Result<Strings> {
        let mut chosen = Strings::with_capacity(indices.len())?;
        for index in indices {
            chosen.push(self.get(index).unwrap_or_default())?;
        }
        Ok(chosen)
    }

    /// A copy, for which there may be no memory.
    pub(crate) fn try_clone(&self) -> Result<Strings> {
        let offsets = try_copy(&self.offsets, "strings of a lattice")?;
        Ok(Strings { offsets, labels: try_copy(&self.labels, "transition-ids of a lattice")? })
    }

    /// Labels of all strings.
    pub(crate) fn labels(&self) -> &[i32] {
        &self.labels
    }
}

#[cfg(test)]
mod tests {
    use super::Strings;

    #[test]
    fn strings_come_back_in_order() {
        let mut strings = Strings::default();
        assert!(strings.is_empty());
        strings.push(&[1, 2]).unwrap();
        strings.push(&[]).unwrap();
        strings.push(&[3]).unwrap();
        assert_eq!(strings.len(), 3);
        assert_eq!(strings.get(0), Some(&[1, 2][..]));
        assert_eq!(strings.get(1), Some(&[][..]));
        assert_eq!(strings.get(2), Some(&[3][..]));
        assert_eq!(strings.get(3), None);
        let chosen = strings.select([2usize, 0].into_iter()).unwrap();
        assert_eq!((chosen.get(0), chosen.get(1)), (Some(&[3][..]), Some(&[1, 2][..])));
    }
}
