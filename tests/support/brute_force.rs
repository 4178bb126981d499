//! Determinization the slow way: list all paths, keep the best of each word sequence; and small
//! random lattices and transition models to try it on.
#![allow(dead_code)] // each test file uses its own part

use std::cmp::Ordering;
use std::collections::BTreeMap;

use koshi::lattice::{CompactLattice, DeterminizeConfig, LatticeArc, LatticeWeight, Parts};
use koshi::table::{Input, Transitions};

use crate::small_lattices::{WrittenPath, parts_of_compact, walks, written_paths};

/// Words, and the best path that has them.
pub type Language = BTreeMap<Vec<i32>, WrittenPath>;

pub fn total(path: &WrittenPath, scale: f64) -> f64 {
    path.2 + scale * path.3
}

/// Kaldi's order of compact weights: total, then graph cost, then length, then the greater label first.
pub fn order(a: &WrittenPath, b: &WrittenPath, scale: f64) -> Ordering {
    let by = |a: f64, b: f64| a.partial_cmp(&b).unwrap();
    by(total(a, scale), total(b, scale)).then(by(a.2, b.2)).then(a.1.len().cmp(&b.1.len())).then_with(|| b.1.cmp(&a.1))
}

/// The best path of each word sequence.
pub fn language(parts: &Parts, scale: f64) -> Language {
    let mut best: Language = BTreeMap::new();
    for walk in walks(parts) {
        let path = walk.written;
        match best.get_mut(&path.0) {
            Some(known) if order(&path, known, scale).is_lt() => *known = path,
            Some(_) => {}
            None => {
                best.insert(path.0.clone(), path);
            }
        }
    }
    best
}

/// The least total of all.
pub fn least(language: &Language, scale: f64) -> f64 {
    language.values().map(|path| total(path, scale)).fold(f64::INFINITY, f64::min)
}

/// Holds a determinized lattice to the listing of all paths of what it was made from. With
/// `several_passes` alignments farther away than the beam need not be the best ones.
pub fn check(parts: &Parts, compact: &CompactLattice, config: &DeterminizeConfig, several_passes: bool) {
    let scale = f64::from(config.acoustic_scale);
    let expected = language(parts, scale);
    compact.validate().unwrap();
    for state in 0..compact.num_states() as u32 {
        let words: Vec<i32> = compact.arcs_of(state).iter().map(|arc| arc.olabel).collect();
        assert!(words.windows(2).all(|two| two[0] < two[1]) && !words.contains(&0), "state {state}: {words:?}");
    }
    let paths = written_paths(&parts_of_compact(compact));
    let found = language(&parts_of_compact(compact), scale);
    assert_eq!(paths.len(), found.len(), "a word sequence stands there twice");
    let limit = least(&expected, scale) + f64::from(config.beam);
    // States whose strings and totals are equal are one, as in Kaldi, however totals are split into graph and acoustic
    // costs. So of alignments with equal totals any may stand there, with the split of another.
    let walks = walks(parts);
    let stands = |path: &WrittenPath| {
        let same =
            |walk: &WrittenPath| (&walk.0, &walk.1) == (&path.0, &path.1) && total(walk, scale) == total(path, scale);
        walks.iter().any(|walk| same(&walk.written))
    };
    for (words, path) in &expected {
        if total(path, scale) <= limit {
            let found = found.get(words).unwrap_or_else(|| panic!("{words:?} is missing"));
            assert_eq!(total(found, scale), total(path, scale), "{words:?}");
        }
    }
    for (words, path) in &found {
        let truth = expected.get(words).unwrap_or_else(|| panic!("{words:?} is not in the lattice"));
        assert!(stands(path), "{words:?}: {path:?} is no alignment at its cost");
        // Farther away than the beam, a pass before may have dropped the better alignment.
        assert!(total(path, scale) >= total(truth, scale));
        let best = total(path, scale) == total(truth, scale);
        assert!(several_passes || best, "{words:?}: {path:?}, {truth:?}");
    }
}

/// Numbers that look random and are the same each time.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as u32) % bound
    }

    pub fn chance(&mut self, one_in: u32) -> bool {
        self.below(one_in) == 0
    }

    /// A multiple of a quarter, of few different values so that ties are frequent.
    fn cost(&mut self, from: i32, values: u32) -> f32 {
        (from + self.below(values) as i32) as f32 / 4.0
    }

    fn weight(&mut self, values: u32) -> LatticeWeight {
        LatticeWeight { graph: self.cost(-4, values), acoustic: self.cost(0, values) }
    }
}

/// A lattice as a search makes it: states lie at times, arcs with a transition-id lead to the
/// next time, epsilon arcs within one; final states lie at the last time. Ids run to `num_ids`.
pub fn timed_lattice(random: &mut Random, num_ids: i32) -> Parts {
    let frames = 1 + random.below(4);
    let width: Vec<u32> = (0..=frames).map(|time| if time == 0 { 1 } else { 1 + random.below(3) }).collect();
    let first = |time: u32| width[..time as usize].iter().sum::<u32>();
    let values = [1, 2, 8, 40][random.below(4) as usize];
    let words = 1 + random.below(3);
    let mut parts = Parts { start: Some(0), ..Parts::default() };
    for time in 0..=frames {
        for state in first(time)..first(time) + width[time as usize] {
            let word = |random: &mut Random| if random.chance(2) { 0 } else { 1 + random.below(words) as i32 };
            for next in state + 1..first(time) + width[time as usize] {
                if random.chance(3) {
                    let (olabel, weight) = (word(random), random.weight(values));
                    parts.arcs.push(LatticeArc { next, ilabel: 0, olabel, weight });
                }
            }
            if time < frames {
                for next in first(time + 1)..first(time + 1) + width[time as usize + 1] {
                    for _ in 0..random.below(3) {
                        let ilabel = 1 + random.below(num_ids as u32) as i32;
                        let (olabel, weight) = (word(random), random.weight(values));
                        parts.arcs.push(LatticeArc { next, ilabel, olabel, weight });
                    }
                }
            }
            parts.offsets.push(parts.arcs.len() as u32);
            let ends = time == frames && random.below(4) > 0;
            parts.finals.push(if ends { random.weight(values) } else { LatticeWeight::ZERO });
        }
    }
    parts
}

/// A transition model of two or three phones with one to three emitting states each.
pub fn transitions(random: &mut Random) -> Transitions {
    let phones = 2 + random.below(2);
    let mut text = "<TransitionModel> \n<Topology> \n".to_string();
    let mut triples = Vec::new();
    let mut num_ids = 0;
    for phone in 1..=phones {
        let states = 1 + random.below(3);
        text += &format!("<TopologyEntry> \n<ForPhones> \n{phone} \n</ForPhones> \n");
        for state in 0..states {
            text += &format!("<State> {state} <PdfClass> {state} ");
            if random.chance(5) {
                num_ids += 1;
                text += &format!("<Transition> {} 1 </State> \n", state + 1);
            } else {
                num_ids += 2;
                text += &format!("<Transition> {state} 0.5 <Transition> {} 0.5 </State> \n", state + 1);
            }
            triples.push(format!("{phone} {state} {} \n", triples.len()));
        }
        text += &format!("<State> {states} </State> \n</TopologyEntry> \n");
    }
    text += &format!("</Topology> \n<Triples> {} \n{}</Triples> \n", triples.len(), triples.concat());
    text += &format!("<LogProbs> \n [ 0{} ]\n</LogProbs> \n</TransitionModel> \n", " -0.5".repeat(num_ids));
    let mut input = Input::from_bytes("model", text.into_bytes());
    Transitions::read(&mut input, false).unwrap()
}
