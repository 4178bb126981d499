//! How many arcs cross a frame.

use super::Lattice;

impl Lattice {
    /// The average number of arcs that cross a frame: transition-ids on all arcs (and, in a
    /// compact lattice, all final strings) by the frames of the lattice, as Kaldi's
    /// `lattice-depth` counts. A lattice without frames has depth 1, as there.
    pub fn depth(&self) -> f64 {
        let ids = match self {
            Lattice::Raw(lattice) => lattice.arcs.iter().filter(|arc| arc.ilabel != 0).count(),
            Lattice::Compact(lattice) => lattice.arc_strings.labels().len() + lattice.final_strings.labels().len(),
        };
        if self.num_frames() == 0 { 1.0 } else { ids as f64 / f64::from(self.num_frames()) }
    }
}
