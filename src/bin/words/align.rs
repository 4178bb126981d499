//! What `koshi-lattice-align-words` and `koshi-lattice-align-words-lexicon` share: the walk over the lattices.

use koshi::lattice::{AlignOutcome, Aligned, CompactLattice, CompactLatticeHolder};
use koshi::table::{SequentialReader, TableWriter};

use crate::support::exit::Failure;

/// What becomes of lattices that could not be aligned, or not to the end.
#[derive(Clone, Copy, Debug)]
pub struct OnError {
    /// Whether what there is is written.
    pub write: bool,
    /// Whether one that could not be aligned at all is written as it was.
    pub pass_through: bool,
}

/// What is counted.
#[derive(Debug, Default)]
struct Totals {
    done: u64,
    errors: u64,
}

/// Aligns each lattice of `input` by `align` and writes it to `output`. Succeeds if more lattices were aligned than
/// not.
pub fn run(
    input: &str,
    output: &str,
    on_error: OnError,
    align: impl Fn(&CompactLattice) -> koshi::Result<Aligned>,
) -> Result<(), Failure> {
    let mut reader: SequentialReader<CompactLatticeHolder> = SequentialReader::open(input)?;
    let mut writer: TableWriter<CompactLatticeHolder> = TableWriter::open(output)?;
    let mut totals = Totals::default();
    while let Some((key, lattice)) = reader.next()? {
        let aligned = align(&lattice).map_err(|error| error.context(format!("utterance {key}")))?;
        if totals.tell(&key, &aligned, on_error) {
            writer.write(&key, &aligned.lattice)?;
        }
    }
    reader.close()?;
    writer.close()?;
    let Totals { done, errors } = totals;
    log::info!(target: "main", "Successfully aligned {done} lattices; {errors} had errors.");
    if done > errors { Ok(()) } else { Err(Failure::Told) }
}

impl Totals {
    /// Counts an utterance and tells what became of it. Gives whether it is written.
    fn tell(&mut self, key: &str, aligned: &Aligned, on_error: OnError) -> bool {
        if let Some(why) = aligned.outcome.reason() {
            log::warn!(target: "align", "{key}: {why}");
        }
        if aligned.outcome == AlignOutcome::Complete && !aligned.lattice.is_empty() {
            log::trace!(target: "main", "Aligned lattice for {key}");
            self.done += 1;
            return true;
        }
        self.errors += 1;
        let not_aligned = matches!(aligned.outcome, AlignOutcome::NotAligned(_));
        if aligned.lattice.is_empty() {
            log::warn!(target: "main", "Lattice was empty for key {key}");
            false
        } else if not_aligned && on_error.pass_through {
            let what = "Lattice could not be aligned, so passing input through as output";
            log::warn!(target: "main", "{what}, for key {key}");
            true
        } else if !on_error.write {
            log::warn!(target: "main", "Lattice for {key} did not align correctly, producing no output.");
            false
        } else if not_aligned {
            log::warn!(target: "main", "Empty aligned lattice for {key}, producing no output.");
            false
        } else {
            log::warn!(target: "main", "Outputting partial lattice for {key}");
            true
        }
    }
}
