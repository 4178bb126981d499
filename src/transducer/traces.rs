//! Where labels came from: for each hypothesis a chain of its labels with their frames and
//! scores, shared with those that it comes from. Merged hypotheses have one history of labels
//! but may differ in frames, so these chains are apart from the tree of histories.
//!
//! What all chains begin with can be taken out: they begin behind it from then on.

use crate::error::{Result, try_reserve};

/// No chain: the empty hypothesis.
pub(super) const EMPTY: u32 = u32::MAX;

/// A label of a hypothesis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Emission {
    pub label: i32,
    /// Frame at which it was taken.
    pub frame: u32,
    /// Log-probability by the transducer.
    pub log_prob: f32,
    /// What the language model added, weighted.
    pub lm: f32,
    /// What biasing added.
    pub bias: f32,
}

#[derive(Clone, Copy)]
struct Link {
    emission: Emission,
    before: u32,
    /// Chains that go on from here, and hypotheses that end here.
    uses: u32,
}

/// All chains of a stream.
pub(super) struct Traces {
    links: Vec<Link>,
    free: Vec<u32>,
    /// What all chains begin with, its own emission taken out too; [`EMPTY`] before anything was.
    root: u32,
}

impl Default for Traces {
    fn default() -> Traces {
        Traces { links: Vec::new(), free: Vec::new(), root: EMPTY }
    }
}

impl Traces {
    /// Links in use.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.links.len() - self.free.len()
    }

    /// A chain one longer than `before`, in use once.
    pub fn push(&mut self, before: u32, emission: Emission) -> Result<u32> {
        let link = Link { emission, before, uses: 1 };
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                try_reserve(&mut self.links, 1, "traces of hypotheses")?;
                // So that giving back never needs memory.
                let capacity = self.links.capacity();
                try_reserve(&mut self.free, capacity, "traces of hypotheses")?;
                self.links.push(link);
                self.links.len() as u32 - 1
            }
        };
        self.links[at as usize] = link;
        self.keep(before);
        Ok(at)
    }

    /// One more use of a chain.
    pub fn keep(&mut self, trace: u32) {
        if trace != EMPTY {
            self.links[trace as usize].uses += 1;
        }
    }

    /// One use less; what nobody uses is given back.
    pub fn give_back(&mut self, mut trace: u32) {
        while trace != EMPTY {
            let link = &mut self.links[trace as usize];
            link.uses -= 1;
            if link.uses > 0 {
                return;
            }
            self.free.push(trace);
            trace = link.before;
        }
    }

    /// The chain one shorter; [`EMPTY`] has none.
    fn before(&self, trace: u32) -> Option<u32> {
        self.links.get(trace as usize).map(|link| link.before)
    }

    /// The emissions of a chain, last first, without those that were taken out.
    pub fn backwards(&self, mut trace: u32) -> impl Iterator<Item = &Emission> {
        std::iter::from_fn(move || {
            let link = self.links.get(trace as usize).filter(|_| trace != self.root)?;
            trace = link.before;
            Some(&link.emission)
        })
    }

    /// The chain `count` shorter; [`EMPTY`] if it has not so many.
    pub fn shortened(&self, trace: u32, count: u32) -> u32 {
        (0..count).try_fold(trace, |trace, _| self.before(trace)).unwrap_or(EMPTY)
    }

    /// The longest chain that two others begin with. Each comes with its number of labels.
    pub fn common(&self, mut one: (u32, u32), mut two: (u32, u32)) -> (u32, u32) {
        while one.0 != two.0 {
            let longer = if one.1 >= two.1 { &mut one } else { &mut two };
            let Some(before) = self.before(longer.0) else { break };
            *longer = (before, longer.1 - 1);
        }
        one
    }

    /// Takes out `trace`, which all chains begin with.
    pub fn take_out(&mut self, trace: u32) {
        if trace == self.root {
            return;
        }
        self.keep(trace);
        let before = std::mem::replace(&mut self.links[trace as usize].before, EMPTY);
        let root = std::mem::replace(&mut self.root, trace);
        self.give_back(before);
        self.give_back(root);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emission(label: i32) -> Emission {
        Emission { label, frame: label as u32, log_prob: 0.0, lm: 0.0, bias: 0.0 }
    }

    #[test]
    fn chains_share_and_are_given_back() {
        let mut traces = Traces::default();
        let one = traces.push(EMPTY, emission(1)).unwrap();
        let two = traces.push(one, emission(2)).unwrap();
        let three = traces.push(one, emission(3)).unwrap();
        traces.give_back(one);
        let labels = |traces: &Traces, trace| traces.backwards(trace).map(|e| e.label).collect::<Vec<_>>();
        assert_eq!((labels(&traces, two), labels(&traces, three)), (vec![2, 1], vec![3, 1]));
        traces.give_back(two);
        assert_eq!((traces.len(), labels(&traces, three)), (2, vec![3, 1]));
        traces.give_back(three);
        assert_eq!(traces.len(), 0);
        assert_eq!(traces.push(EMPTY, emission(4)).unwrap(), one, "places are used again");
        assert!(labels(&traces, EMPTY).is_empty());
    }

    #[test]
    fn what_all_begin_with_can_be_taken_out() {
        let mut traces = Traces::default();
        let mut stem = EMPTY;
        for label in 1..=4 {
            let longer = traces.push(stem, emission(label)).unwrap();
            traces.give_back(stem);
            stem = longer;
        }
        let (five, six) = (traces.push(stem, emission(5)).unwrap(), traces.push(stem, emission(6)).unwrap());
        let seven = traces.push(six, emission(7)).unwrap();
        traces.give_back(stem);
        traces.give_back(six);
        assert_eq!(traces.common((five, 5), (seven, 6)), (stem, 4));
        assert_eq!((traces.shortened(seven, 2), traces.shortened(seven, 7)), (stem, EMPTY));
        let labels = |traces: &Traces, trace| traces.backwards(trace).map(|e| e.label).collect::<Vec<_>>();
        let two = traces.shortened(seven, 4);
        for (taken, chain, links) in [(two, vec![7, 6, 4, 3], 6), (stem, vec![7, 6], 4), (stem, vec![7, 6], 4)] {
            traces.take_out(taken);
            assert_eq!((labels(&traces, seven), traces.len()), (chain, links));
            assert_eq!(traces.common((five, 5), (seven, 6)), (stem, 4));
        }
        traces.give_back(five);
        assert!(labels(&traces, stem).is_empty() && traces.len() == 3);
        traces.take_out(seven);
        assert!(labels(&traces, seven).is_empty() && traces.len() == 1);
        let eight = traces.push(seven, emission(8)).unwrap();
        traces.give_back(seven);
        assert_eq!(traces.common((eight, 7), (eight, 7)), (eight, 7));
        traces.give_back(eight);
        assert_eq!(traces.len(), 1, "what was taken out of all is kept as their begin");
    }
}
