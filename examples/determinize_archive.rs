//! Determinizes an archive of raw lattices and tells the time it took, reading and writing left out.
//!
//!     cargo run --release --example determinize_archive -- \
//!         trans.mdl ark:raw.ark ACOUSTIC_SCALE BEAM [REPEATS [WSPECIFIER]]
//!
//! With several repeats the least time counts. An empty model name leaves the pass on phones out.

use std::time::{Duration, Instant};

use koshi::lattice::{CompactLatticeHolder, DeterminizeConfig, Determinizer, RawLattice, RawLatticeHolder};
use koshi::table::{SequentialReader, TableWriter, Transitions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, archive, scale, beam, rest @ ..] = arguments.as_slice() else {
        return Err("usage: determinize_archive MODEL RSPECIFIER ACOUSTIC_SCALE BEAM [REPEATS [WSPECIFIER]]".into());
    };
    let repeats: u32 = rest.first().map_or(Ok(1), |text| text.parse())?;
    let transitions = if model.is_empty() { None } else { Some(Transitions::read_file(model)?) };
    let config =
        DeterminizeConfig { acoustic_scale: scale.parse()?, beam: beam.parse()?, ..DeterminizeConfig::default() };

    let mut lattices: Vec<(String, RawLattice)> = Vec::new();
    let mut reader = SequentialReader::<RawLatticeHolder>::open(archive)?;
    while let Some(entry) = reader.next()? {
        lattices.push(entry);
    }
    let mut determinizer = Determinizer::default();
    let mut least = Duration::MAX;
    let (mut states, mut arcs) = (0, 0);
    for _ in 0..repeats.max(1) {
        let start = Instant::now();
        (states, arcs) = (0, 0);
        for (_, lattice) in &lattices {
            let found = determinizer.determinize(lattice, transitions.as_ref(), &config)?;
            states += found.lattice.num_states();
            arcs += found.lattice.num_arcs();
        }
        least = least.min(start.elapsed());
    }
    let frames: u64 = lattices.iter().map(|(_, lattice)| u64::from(lattice.num_frames)).sum();
    let arcs_in: usize = lattices.iter().map(|(_, lattice)| lattice.num_arcs()).sum();
    let micros = least.as_secs_f64() * 1e6;
    println!("{} lattices, {frames} frames, {arcs_in} arcs: {states} states, {arcs} arcs", lattices.len());
    println!(
        "{micros:.0} us, {:.3} us a frame, {:.1} ns an arc",
        micros / frames as f64,
        1e3 * micros / arcs_in as f64
    );
    if let Some(wspecifier) = rest.get(1) {
        let mut writer = TableWriter::<CompactLatticeHolder>::open(wspecifier)?;
        for (key, lattice) in &lattices {
            writer.write(key, &determinizer.determinize(lattice, transitions.as_ref(), &config)?.lattice)?;
        }
        writer.close()?;
    }
    Ok(())
}
