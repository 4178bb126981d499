//! Both backends on the same rows: the lattices have to be the same.

use std::sync::Arc;
use std::time::Instant;

use koshi::decoder::{BackendChoice, Decoder};
use koshi::search::{Rows, SearchConfig};

use crate::options::{Clock, Options};
use crate::report::Report;
use crate::{Speech, told};

/// Holds the lattices of both backends to each other, of as many utterances as there is time for.
pub fn compare(
    speech: &Speech,
    options: &Options,
    search: &SearchConfig,
    clock: Clock,
    report: &mut Report,
) -> Result<(), String> {
    let decoder = |backend| told(Decoder::new(Arc::clone(&speech.graph), options.decoder(search, backend, 1)));
    let decoders = [decoder(BackendChoice::Cpu)?, decoder(BackendChoice::Cuda)?];
    let (mut same, mut held, mut frames, mut arcs, mut seconds) = (0, 0, 0, 0, [0.0; 2]);
    for (key, matrix) in &speech.utterances {
        if same > 0 && clock.is_over() {
            break;
        }
        let (mut found, mut capacities) = (Vec::new(), 0);
        for (decoder, seconds) in decoders.iter().zip(&mut seconds) {
            let mut channel = told(decoder.new_channel())?;
            told(channel.begin())?;
            let since = Instant::now();
            told(channel.push(told(Rows::dense(matrix.data(), matrix.cols()))?))?;
            *seconds += since.elapsed().as_secs_f64();
            capacities = told(channel.stats())?.capacity_held;
            found.push(told(channel.lattice(true))?);
            if decoder.backend_name() == "cuda" {
                report.cost(search, key, &told(channel.best_path(true))?)?;
            }
        }
        if capacities > 0 {
            // The CPU has no such bounds, so its lattice may be another.
            held += 1;
            continue;
        }
        if found[0] != found[1] {
            return Err(format!("{key}: the lattices of CPU and GPU differ"));
        }
        same += 1;
        frames += matrix.rows();
        arcs += found[0].num_arcs();
    }
    let all = speech.utterances.len();
    println!("{same} of {all} utterances, {frames} frames, {arcs} arcs: the lattices of CPU and GPU are the same");
    if held > 0 {
        println!("{held} utterances not compared: a default capacity of the GPU struck");
    }
    if same == 0 {
        return Err("no utterance could be compared".into());
    }
    if same + held < all {
        report.left_out(format!("{} utterances were not compared", all - same - held));
    }
    println!("one utterance after another: CPU {:.3} s (one thread), GPU {:.3} s (one lane)", seconds[0], seconds[1]);
    Ok(())
}
