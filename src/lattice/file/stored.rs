//! Lattices that are only passed on.

use super::{Written, binary, part_strings, read, text, write};
use crate::error::Result;
use crate::lattice::{CompactLattice, PartStrings, Parts, RawLattice};
use crate::table::{Input, Output};

/// A lattice as it stands in a file, neither sorted nor trimmed, with what the head of a binary
/// file says of it: written again in the same form it is the same bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredLattice {
    parts: Parts,
    /// OpenFst's property bits, where a binary file told them.
    properties: Option<u64>,
}

impl StoredLattice {
    /// As [`Parts::read`].
    pub fn read(input: &mut Input) -> Result<StoredLattice> {
        let (parts, properties) = read(input)?;
        Ok(StoredLattice { parts, properties })
    }

    /// Writes what was read. Not kept: symbol tables, costs of binary64, the space that text had.
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        self.write_with_digits(output, binary, text::DIGITS)
    }

    /// As [`StoredLattice::write`], for a lattice inside a larger object: Kaldi then gives costs in text one digit more.
    pub fn write_inside(&self, output: &mut Output, binary: bool) -> Result<()> {
        self.write_with_digits(output, binary, text::INNER_DIGITS)
    }

    fn write_with_digits(&self, output: &mut Output, binary: bool, digits: usize) -> Result<()> {
        self.parts.check()?;
        let strings = part_strings(&self.parts);
        let properties = self.properties.unwrap_or(binary::properties(strings.is_some(), false));
        let start = self.parts.start;
        write(output, binary, Written { view: self.parts.view(), strings, start, properties, as_is: true, digits })
    }

    /// A copy, for which there may be no memory.
    pub(crate) fn try_clone(&self) -> Result<StoredLattice> {
        Ok(StoredLattice { parts: self.parts.try_clone()?, properties: self.properties })
    }

    /// States and arcs as the file has them.
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// Whether it has strings; text that fits both forms is taken for raw.
    pub fn is_compact(&self) -> bool {
        self.parts.strings.is_some()
    }

    /// In compact form: as it is, or sorted, trimmed and converted ([`RawLattice::to_compact`]).
    pub fn into_compact(self) -> Result<StoredLattice> {
        if self.is_compact() {
            return Ok(self);
        }
        RawLattice::from_parts(self.parts)?.to_compact().map(StoredLattice::from)
    }

    /// In raw form: as it is, or sorted, trimmed and converted ([`CompactLattice::to_raw`]).
    pub fn into_raw(self) -> Result<StoredLattice> {
        if !self.is_compact() {
            return Ok(self);
        }
        CompactLattice::from_parts(self.parts)?.to_raw().map(StoredLattice::from)
    }
}

impl From<RawLattice> for StoredLattice {
    fn from(lattice: RawLattice) -> StoredLattice {
        let start = (!lattice.is_empty()).then_some(0);
        let RawLattice { arcs, offsets, finals, .. } = lattice;
        let parts = Parts { start, offsets, arcs, finals, strings: None };
        StoredLattice { parts, properties: Some(binary::properties(false, true)) }
    }
}

impl From<CompactLattice> for StoredLattice {
    fn from(lattice: CompactLattice) -> StoredLattice {
        let start = (!lattice.is_empty()).then_some(0);
        let CompactLattice { arcs, offsets, finals, arc_strings, final_strings, .. } = lattice;
        let strings = Some(PartStrings { arcs: arc_strings, finals: final_strings });
        let parts = Parts { start, offsets, arcs, finals, strings };
        StoredLattice { parts, properties: Some(binary::properties(true, true)) }
    }
}
