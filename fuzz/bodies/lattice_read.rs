//! Bytes taken for a lattice: an error, or a lattice that keeps its promises and comes back from what it writes.

use koshi::lattice::Lattice;

/// Expanding strings can make a raw lattice of many arcs; past this it tells nothing new.
const MOST_FRAMES: u32 = 1 << 16;

pub fn run(bytes: &[u8]) -> bool {
    let Ok(lattice) = Lattice::from_bytes(bytes) else { return false };
    lattice.validate().expect("a lattice that was read is valid");
    let binary = lattice.to_bytes(true).expect("writing to memory");
    assert_eq!(Lattice::from_bytes(&binary).expect("own bytes are read"), lattice);
    // Six digits are coarser than the costs, and a text may fit both forms: only its shape stays.
    let text = lattice.to_bytes(false).expect("writing to memory");
    let again = Lattice::from_bytes(&text).expect("own text is read");
    assert_eq!((again.num_states(), again.arcs().len()), (lattice.num_states(), lattice.arcs().len()));
    let best = lattice.best_path(1.0).expect("best path");
    assert_eq!(best.reached_final, !lattice.is_empty());
    let pruned = lattice.prune(1.0, 1.0).expect("pruning");
    pruned.validate().expect("a pruned lattice is valid");
    // Only a sum of costs beyond binary32 may fail here.
    if let Ok(compact) = lattice.clone().into_compact() {
        compact.validate().expect("a converted lattice is valid");
    }
    if lattice.num_frames() < MOST_FRAMES {
        lattice.into_raw().expect("expanding").validate().expect("an expanded lattice is valid");
    }
    true
}
