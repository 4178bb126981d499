//! Scales and penalties of costs, as Kaldi's commands take them.

use koshi::lattice::{CompactLattice, LatticeWeight};
use koshi::{Error, Result};

use super::options::Options;

/// Factors of the two costs.
#[derive(Debug)]
pub struct Scales {
    acoustic: f32,
    inverse: f32,
    /// Multiplies graph costs.
    pub graph: f32,
}

impl Default for Scales {
    fn default() -> Scales {
        Scales { acoustic: 1.0, inverse: 1.0, graph: 1.0 }
    }
}

impl Scales {
    /// Adds the options for both.
    pub fn add_to<'a>(&'a mut self, options: &mut Options<'a>) {
        options.float("lm-scale", &mut self.graph, "Multiplies graph costs");
        add_acoustic(&mut self.acoustic, &mut self.inverse, options);
    }

    /// Adds the options for acoustic costs alone.
    pub fn add_acoustic_to<'a>(&'a mut self, options: &mut Options<'a>) {
        add_acoustic(&mut self.acoustic, &mut self.inverse, options);
    }

    /// What acoustic costs are multiplied by. Fails where it is given twice.
    pub fn acoustic(&self) -> Result<f32> {
        match (self.acoustic, self.inverse) {
            (scale, 1.0) => Ok(scale),
            (1.0, inverse) => Ok(1.0 / inverse),
            _ => Err(Error::Config("acoustic-scale and inv-acoustic-scale are both given".into())),
        }
    }
}

fn add_acoustic<'a>(scale: &'a mut f32, inverse: &'a mut f32, options: &mut Options<'a>) {
    options.float("acoustic-scale", scale, "Multiplies acoustic costs");
    options.float("inv-acoustic-scale", inverse, "Its inverse, which may be given instead");
}

/// Changes all costs of a lattice. Fails where one is no longer finite.
pub fn change(
    lattice: &mut CompactLattice,
    arc: impl Fn(i32, LatticeWeight) -> LatticeWeight,
    last: impl Fn(LatticeWeight) -> LatticeWeight,
) -> Result<()> {
    let arcs = lattice.arcs.iter_mut().map(|place| (arc(place.olabel, place.weight), &mut place.weight));
    let finals = lattice.finals.iter_mut().filter(|weight| !weight.is_absent());
    for (changed, weight) in arcs.chain(finals.map(|weight| (last(*weight), weight))) {
        if !(changed.graph.is_finite() && changed.acoustic.is_finite()) {
            let (from, to) = (*weight, changed);
            let why = format!("costs {},{} become {},{}", from.graph, from.acoustic, to.graph, to.acoustic);
            return Err(Error::Argument(why));
        }
        *weight = changed.canonical();
    }
    Ok(())
}

/// Adds a penalty to the graph cost of each word.
pub fn add_penalty(lattice: &mut CompactLattice, penalty: f32) -> Result<()> {
    let of_word = |word, LatticeWeight { graph, acoustic }| LatticeWeight {
        graph: if word == 0 { graph } else { graph + penalty },
        acoustic,
    };
    change(lattice, of_word, |weight| weight)
}
