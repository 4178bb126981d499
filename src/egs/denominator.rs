//! The lattice inside a discriminative example: kept as the file has it, in its own order of states.

use crate::error::{Error, Result};
use crate::lattice::{CompactLattice, Parts, StoredLattice};
use crate::table::{Input, Output};

/// A compact lattice as it stands in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct DenominatorLattice(StoredLattice);

impl Default for DenominatorLattice {
    /// The empty lattice.
    fn default() -> DenominatorLattice {
        CompactLattice::default().into()
    }
}

impl From<CompactLattice> for DenominatorLattice {
    fn from(lattice: CompactLattice) -> DenominatorLattice {
        DenominatorLattice(lattice.into())
    }
}

impl DenominatorLattice {
    /// States and arcs as the file has them.
    pub fn parts(&self) -> &Parts {
        self.0.parts()
    }

    /// The lattice sorted and trimmed; [`Error::Argument`](crate::error::Error::Argument) if it has a cycle.
    pub fn lattice(&self) -> Result<CompactLattice> {
        CompactLattice::of_parts(self.parts())
    }

    pub(super) fn try_clone(&self) -> Result<DenominatorLattice> {
        self.0.try_clone().map(DenominatorLattice)
    }

    /// Reads a lattice, binary or text, of any arc type; a raw one is converted as Kaldi does.
    ///
    /// Kaldi's own text cannot be read by Kaldi: the line end before the first line comes twice, and it takes the empty
    /// line for the end. Here any number of them is passed over.
    pub fn read(input: &mut Input, binary: bool) -> Result<DenominatorLattice> {
        if !binary {
            input.skip_space()?;
            if !input.peek()?.is_some_and(|byte| byte.is_ascii_digit()) {
                // An empty lattice has no lines; what follows will be looked at by whoever expects it.
                return Ok(DenominatorLattice::default());
            }
        }
        let start = input.offset();
        let compact = StoredLattice::read(input)?.into_compact();
        compact.map(DenominatorLattice).map_err(|error| match error {
            Error::Argument(message) => input.format_error_at(start, message),
            other => other,
        })
    }

    /// Writes the lattice with the bytes that Kaldi writes for it.
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        self.0.write_inside(output, binary)
    }
}
