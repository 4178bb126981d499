//! Where words stand on one path.

use super::Word;
use super::word_lattice::WordLattice;
use crate::error::{Error, Result, try_filled};

const WHAT: &str = "times of words";

/// Gives the words the times that they have on the likeliest path that says exactly these words, silence aside. Leaves
/// them as they are where there is none.
pub(super) fn exact_times(lattice: &WordLattice, words: &mut [Word]) -> Result<()> {
    let mut said: Vec<&mut Word> = words.iter_mut().filter(|word| word.label != 0).collect();
    let columns = said.len() + 1;
    let cells = lattice.num_states().checked_mul(columns);
    let cells = cells.ok_or_else(|| Error::Limit("too many words for this lattice".to_string()))?;
    // By state and words said so far: log-probability, and the arc that led there.
    let mut best = try_filled((f64::NEG_INFINITY, 0u32), cells, WHAT)?;
    best[0].0 = 0.0;
    for state in 1..lattice.num_states() {
        for at in lattice.offsets[state]..lattice.offsets[state + 1] {
            let arc = lattice.arcs[at as usize];
            let step = usize::from(arc.word != 0);
            for count in step..columns {
                if step == 1 && said[count - 1].label != arc.word {
                    continue;
                }
                let candidate = best[arc.from as usize * columns + count - step].0 + f64::from(arc.log_prob);
                let cell = &mut best[state * columns + count];
                if candidate > cell.0 {
                    *cell = (candidate, at);
                }
            }
        }
    }
    let (mut state, mut count) = (lattice.num_states() - 1, columns - 1);
    if best[state * columns + count].0 == f64::NEG_INFINITY {
        return Ok(());
    }
    while state != 0 {
        let arc = lattice.arcs[best[state * columns + count].1 as usize];
        if arc.word != 0 {
            count -= 1;
            let start = lattice.times[arc.from as usize];
            said[count].start = start as f32;
            said[count].frames = (lattice.times[state] - start) as f32;
        }
        state = arc.from as usize;
    }
    Ok(())
}
