//! Lattices in archives and scripts.

use crate::error::Result;
use crate::lattice::{CompactLattice, Lattice, RawLattice, StoredLattice};
use crate::table::{Holder, Input, Output};

/// Lattices in the form that the file has.
pub struct LatticeHolder;

/// Raw lattices; compact ones are converted as they are read.
pub struct RawLatticeHolder;

/// Compact lattices; raw ones are converted as they are read.
pub struct CompactLatticeHolder;

/// Lattices as they stand in the file.
pub struct StoredLatticeHolder;

macro_rules! holder {
    ($holder:ty, $lattice:ty) => {
        impl Holder for $holder {
            type Value = $lattice;

            fn read(input: &mut Input) -> Result<$lattice> {
                <$lattice>::read(input)
            }

            fn write(output: &mut Output, value: &$lattice, binary: bool) -> Result<()> {
                value.write(output, binary)
            }
        }
    };
}

holder!(LatticeHolder, Lattice);
holder!(RawLatticeHolder, RawLattice);
holder!(CompactLatticeHolder, CompactLattice);
holder!(StoredLatticeHolder, StoredLattice);
