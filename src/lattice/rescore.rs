//! Costs of one language model out, those of another one in.

use std::collections::HashMap;

use crate::error::{Error, Result, try_reserve};

use super::lm::{LanguageModel, Walk};
use super::topology::filled;
use super::{CompactLattice, Lattice, LatticeArc, LatticeWeight, PartsBuilder, RawLattice};

impl Lattice {
    /// The lattice whose paths cost, in the graph cost, `scale * (new - old)` more, where `old`
    /// and `new` are the costs that the models give to the path's words and the end behind them.
    /// Either may be `None`, which costs nothing; a `scale` of -1 takes away what 1 adds.
    ///
    /// The lattice is composed on the fly with both models: a state becomes one for each pair of
    /// histories that matter. A path whose words a model does not have is dropped, as composition
    /// drops it in Kaldi's `lattice-lmrescore`; without any left the lattice is empty. Costs go
    /// on the arcs of the words, rounded once. The result has the form of this lattice and is
    /// deterministic if this one is, so that the determinization of Kaldi's tool has nothing left to
    /// do there; otherwise determinize afterwards if need be.
    pub fn rescore(&self, old: Option<&LanguageModel>, new: Option<&LanguageModel>, scale: f32) -> Result<Lattice> {
        if !scale.is_finite() {
            return Err(Error::Argument(format!("scale of the language model is {scale}; it must be finite")));
        }
        let (old, new) = (old.map(LanguageModel::walk).transpose()?, new.map(LanguageModel::walk).transpose()?);
        let mut pair = Pair { old, new, scale };
        let biased = self.biased()?;
        let mut product = Product::new(&biased)?;
        product.fill(&mut pair)?;
        let mut lattice: Lattice = match self {
            Lattice::Raw(_) => RawLattice::from_parts(product.finish()?.finish(false)?)?.into(),
            Lattice::Compact(_) => CompactLattice::from_parts(product.finish()?.finish(true)?)?.into(),
        };
        match &mut lattice {
            Lattice::Raw(RawLattice { num_frames, acoustic_scale, reached_final, .. })
            | Lattice::Compact(CompactLattice { num_frames, acoustic_scale, reached_final, .. }) => {
                (*num_frames, *acoustic_scale) = (self.num_frames(), self.acoustic_scale());
                *reached_final &= self.reached_final();
            }
        }
        Ok(lattice)
    }
}

/// Both models, and what their difference counts.
struct Pair<'a> {
    old: Option<Walk<'a>>,
    new: Option<Walk<'a>>,
    scale: f32,
}

/// Histories in both models; 0 where there is no model.
type Histories = (u32, u32);

impl Pair<'_> {
    fn start(&self) -> Histories {
        let start = |walk: &Option<Walk>| walk.as_ref().map_or(0, Walk::start);
        (start(&self.old), start(&self.new))
    }

    /// What a word costs more, and the histories after it.
    fn step(&mut self, (old, new): Histories, word: i32) -> Result<Option<(f64, Histories)>> {
        let step = |walk: &mut Option<Walk>, state| match walk {
            Some(walk) => walk.step(state, word),
            None => Ok(Some((0.0, 0))),
        };
        let Some((old_cost, old)) = step(&mut self.old, old)? else { return Ok(None) };
        let Some((new_cost, new)) = step(&mut self.new, new)? else { return Ok(None) };
        Ok(Some((f64::from(self.scale) * (new_cost - old_cost), (old, new))))
    }

    /// What ending costs more.
    fn last(&self, (old, new): Histories) -> Option<f64> {
        let last = |walk: &Option<Walk>, state| walk.as_ref().map_or(0.0, |walk| walk.last(state));
        let (old, new) = (last(&self.old, old), last(&self.new, new));
        (old < f64::INFINITY && new < f64::INFINITY).then(|| f64::from(self.scale) * (new - old))
    }
}

/// The composition while it grows.
struct Product<'a> {
    lattice: &'a Lattice,
    /// For each state of the lattice the histories that lead there, and the new state of each.
    histories: Vec<Vec<(Histories, u32)>>,
    numbers: HashMap<(u32, Histories), u32>,
    links: Vec<Link>,
    /// New state, the lattice's state, final cost.
    ends: Vec<(u32, u32, LatticeWeight)>,
}

/// An arc of the composition: between new states, and the lattice's arc that it comes from.
struct Link {
    from: u32,
    next: u32,
    arc: u32,
    weight: LatticeWeight,
}

const WHAT: &str = "rescored lattice";

impl<'a> Product<'a> {
    fn new(lattice: &'a Lattice) -> Result<Product<'a>> {
        let histories = filled(lattice.num_states(), Vec::new())?;
        Ok(Product { lattice, histories, numbers: HashMap::new(), links: Vec::new(), ends: Vec::new() })
    }

    /// The new state for a state of the lattice and histories.
    fn state(&mut self, state: u32, histories: Histories) -> Result<u32> {
        if let Some(&known) = self.numbers.get(&(state, histories)) {
            return Ok(known);
        }
        let number = u32::try_from(self.numbers.len()).ok().filter(|&number| number < u32::MAX - 1);
        let number = number.ok_or_else(|| Error::Limit("a rescored lattice has more than 2^32 - 2 states".into()))?;
        let asked = (self.numbers.len() as u64 + 1) * 16;
        self.numbers.try_reserve(1).map_err(|_| Error::NoMemory { what: WHAT.to_string(), asked })?;
        self.numbers.insert((state, histories), number);
        let list = &mut self.histories[state as usize];
        try_reserve(list, 1, WHAT)?;
        list.push((histories, number));
        Ok(number)
    }

    /// Arcs lead to higher states, so a state's histories are complete when its turn comes.
    fn fill(&mut self, pair: &mut Pair) -> Result<()> {
        let lattice = self.lattice;
        let view = lattice.view();
        if view.num_states() > 0 {
            self.state(0, pair.start())?;
        }
        for state in 0..view.num_states() {
            for at in 0..self.histories[state].len() {
                let (histories, from) = self.histories[state][at];
                for arc in view.arc_range(state) {
                    let link = &view.arcs[arc];
                    let step =
                        if link.olabel == 0 { Some((0.0, histories)) } else { pair.step(histories, link.olabel)? };
                    let Some((more, after)) = step else { continue };
                    let next = self.state(link.next, after)?;
                    let weight = dearer(link.weight, more)?;
                    try_reserve(&mut self.links, 1, WHAT)?;
                    self.links.push(Link { from, next, arc: arc as u32, weight });
                }
                let last = view.finals[state];
                if let Some(more) = pair.last(histories).filter(|_| !last.is_absent()) {
                    try_reserve(&mut self.ends, 1, WHAT)?;
                    self.ends.push((from, state as u32, dearer(last, more)?));
                }
            }
        }
        Ok(())
    }
}

impl Product<'_> {
    /// The new states by those of the lattice, so that these keep their order.
    fn finish(self) -> Result<PartsBuilder> {
        let mut builder = PartsBuilder::default();
        let mut number = filled(self.numbers.len(), 0u32)?;
        for (new, (_, state)) in self.histories.iter().flatten().enumerate() {
            number[*state as usize] = new as u32;
        }
        if !number.is_empty() {
            builder.set_start(0);
        }
        for Link { from, next, arc, weight } in self.links {
            let link = self.lattice.arcs()[arc as usize];
            let link = LatticeArc { next: number[next as usize], weight, ..link };
            builder.add_arc(number[from as usize], link, self.lattice.string(arc as usize))?;
        }
        for (from, state, weight) in self.ends {
            builder.set_final(number[from as usize], weight, self.lattice.final_string(state))?;
        }
        Ok(builder)
    }
}

fn dearer(weight: LatticeWeight, more: f64) -> Result<LatticeWeight> {
    let graph = (f64::from(weight.graph) + more) as f32;
    if graph.is_finite() {
        return Ok(LatticeWeight { graph, ..weight });
    }
    Err(Error::Argument(format!("graph cost {} and {more} more are not finite together", weight.graph)))
}
