//! Compares two raw lattices of one utterance arc for arc, though neither says which graph
//! state its states stand for.
//!
//! Two states are taken for the same if both lattices have a whole path through them with
//! the same labels and costs, arc by arc: then both stand at the same time, and, but for
//! twins in the graph, at the same graph state. All such pairs come from the product of
//! the two lattices (pairs of arcs with the same labels and costs), trimmed to whole paths.
//! A state of either lattice may then still have several partners. So pairs are weighed
//! by the share of their arcs that have a partner too; the best pair of both of its states
//! is settled, its rivals are dropped, and with them whatever no longer lies on a path of
//! pairs, until every state has at most one partner. Where all is equal (twins whose
//! futures and pasts are the same) the lowest numbers are taken: which of them is which
//! makes no difference.
//!
//! What a search lost or found in addition keeps the rest from nothing: every state that
//! both lattices have lies on its own best path, which both have, since lattices are
//! pruned by the cost of that path.
#![allow(dead_code)] // each test file uses its own part

use std::collections::BTreeSet;

use koshi::lattice::{LatticeArc, LatticeWeight, RawLattice};

/// Costs count as the same within `1e-5` relative plus `1e-3`: reference texts have six
/// digits, and Kaldi takes an offset off its acoustic costs in binary32.
pub fn same_cost(a: f32, b: f32) -> bool {
    let (a, b) = (f64::from(a), f64::from(b));
    a == b || (a - b).abs() <= 1e-5 * a.abs().max(b.abs()) + 1e-3
}

fn same_weight(a: LatticeWeight, b: LatticeWeight) -> bool {
    same_cost(a.graph, b.graph) && same_cost(a.acoustic, b.acoustic)
}

/// An arc or a final cost that only one of the lattices has.
#[derive(Clone, Debug, PartialEq)]
pub struct Extra {
    /// The state that the arc leaves, or that is final.
    pub state: u32,
    /// The arc's number; `None` for a final cost.
    pub arc: Option<u32>,
    /// Cost of the best path through it above the best path of its lattice.
    pub above_best: f64,
}

/// What a comparison found. In pairs ours comes first.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Arcs of the two lattices.
    pub arcs: [usize; 2],
    /// States of the two lattices.
    pub states: [usize; 2],
    /// Arcs that both have, at the same costs.
    pub matched: usize,
    /// Pairs of states.
    pub matched_states: usize,
    /// Arcs and final costs that only one has.
    pub extra: [Vec<Extra>; 2],
    /// Cost of the best path of each lattice, infinite when it is empty.
    pub best: [f64; 2],
    /// Largest difference of the graph costs, and of the acoustic costs, of matched arcs.
    pub difference: [f64; 2],
    /// States with several partners before any was settled.
    pub ambiguous: usize,
}

/// Compares two lattices of the same utterance; distances are at `acoustic_scale`.
pub fn compare(ours: &RawLattice, theirs: &RawLattice, acoustic_scale: f32) -> Comparison {
    let mut product = Product::new(ours, theirs);
    product.trim();
    let ambiguous = product.conflicts(0).len() + product.conflicts(1).len();
    product.settle();
    let matched = product.matched_arcs();
    let mut found = Comparison {
        arcs: [ours.num_arcs(), theirs.num_arcs()],
        states: [ours.num_states(), theirs.num_states()],
        matched: matched.len(),
        matched_states: product.pairs.iter().filter(|pair| pair.alive).count(),
        ambiguous,
        ..Comparison::default()
    };
    for &(a, b) in &matched {
        let (a, b) = (ours.arcs[a as usize].weight, theirs.arcs[b as usize].weight);
        found.difference[0] = found.difference[0].max(f64::from((a.graph - b.graph).abs()));
        found.difference[1] = found.difference[1].max(f64::from((a.acoustic - b.acoustic).abs()));
    }
    for (side, lattice) in [ours, theirs].into_iter().enumerate() {
        let costs = PathCosts::new(lattice, acoustic_scale);
        let arcs: BTreeSet<u32> = matched.iter().map(|&(a, b)| [a, b][side]).collect();
        let finals = product.matched_finals(side);
        found.best[side] = costs.best();
        found.extra[side] = costs.extras(lattice, acoustic_scale, &arcs, &finals);
    }
    found
}

/// Least costs from the start and to the end, by state. Plain sums, apart from the library's own.
struct PathCosts {
    from_start: Vec<f64>,
    to_end: Vec<f64>,
}

impl PathCosts {
    fn new(lattice: &RawLattice, scale: f32) -> PathCosts {
        let states = lattice.num_states();
        let mut from_start = vec![f64::INFINITY; states];
        let mut to_end: Vec<f64> = lattice.finals.iter().map(|weight| cost(*weight, scale)).collect();
        from_start.iter_mut().take(1).for_each(|first| *first = 0.0);
        for state in 0..states as u32 {
            for arc in lattice.arcs_of(state) {
                let reached = from_start[state as usize] + cost(arc.weight, scale);
                from_start[arc.next as usize] = from_start[arc.next as usize].min(reached);
            }
        }
        for state in (0..states as u32).rev() {
            for arc in lattice.arcs_of(state) {
                to_end[state as usize] =
                    to_end[state as usize].min(cost(arc.weight, scale) + to_end[arc.next as usize]);
            }
        }
        PathCosts { from_start, to_end }
    }

    fn best(&self) -> f64 {
        self.to_end.first().copied().unwrap_or(f64::INFINITY)
    }

    fn extras(&self, lattice: &RawLattice, scale: f32, arcs: &BTreeSet<u32>, finals: &BTreeSet<u32>) -> Vec<Extra> {
        let mut extras = Vec::new();
        for state in 0..lattice.num_states() as u32 {
            let before = self.from_start[state as usize] - self.best();
            for arc in lattice.arc_range(state).filter(|&arc| !arcs.contains(&(arc as u32))) {
                let LatticeArc { weight, next, .. } = lattice.arcs[arc];
                let above_best = before + cost(weight, scale) + self.to_end[next as usize];
                extras.push(Extra { state, arc: Some(arc as u32), above_best });
            }
            let last = lattice.finals[state as usize];
            if last != LatticeWeight::ZERO && !finals.contains(&state) {
                extras.push(Extra { state, arc: None, above_best: before + cost(last, scale) });
            }
        }
        extras
    }
}

fn cost(weight: LatticeWeight, scale: f32) -> f64 {
    if weight == LatticeWeight::ZERO {
        return f64::INFINITY;
    }
    f64::from(weight.graph) + f64::from(scale) * f64::from(weight.acoustic)
}

/// A state of each lattice, reached by one sequence of labels and costs.
struct Pair {
    states: [u32; 2],
    both_final: bool,
    alive: bool,
    settled: bool,
    /// Edges that arrive and that leave.
    edges: [Vec<u32>; 2],
}

/// An arc of each lattice with the same labels and costs, from one pair to another.
struct Edge {
    pairs: [u32; 2],
    arcs: [u32; 2],
}

struct Product {
    pairs: Vec<Pair>,
    edges: Vec<Edge>,
    /// Pairs by state, for each lattice.
    by_state: [Vec<Vec<u32>>; 2],
    /// Arcs in and out of each state, for each lattice.
    degree: [Vec<u32>; 2],
}

impl Product {
    fn new(ours: &RawLattice, theirs: &RawLattice) -> Product {
        let by_state = [ours, theirs].map(|lattice| vec![Vec::new(); lattice.num_states()]);
        let mut product =
            Product { pairs: Vec::new(), edges: Vec::new(), by_state, degree: [degrees(ours), degrees(theirs)] };
        if ours.is_empty() || theirs.is_empty() {
            return product;
        }
        product.pair([0, 0], ours, theirs);
        let sorted = [sorted_arcs(ours), sorted_arcs(theirs)];
        // Every arc leads to a higher state, so all pairs of a state are known when its turn comes.
        for state in 0..ours.num_states() {
            for pair in product.by_state[0][state].clone() {
                product.follow(pair, ours, theirs, &sorted);
            }
        }
        product
    }

    /// The number of a pair, new or known.
    fn pair(&mut self, states: [u32; 2], ours: &RawLattice, theirs: &RawLattice) -> u32 {
        let known = &self.by_state[0][states[0] as usize];
        if let Some(&pair) = known.iter().find(|&&pair| self.pairs[pair as usize].states == states) {
            return pair;
        }
        let (a, b) = (ours.finals[states[0] as usize], theirs.finals[states[1] as usize]);
        let both_final = a != LatticeWeight::ZERO && b != LatticeWeight::ZERO && same_weight(a, b);
        let pair = self.pairs.len() as u32;
        self.pairs.push(Pair { states, both_final, alive: true, settled: false, edges: [Vec::new(), Vec::new()] });
        for side in [0, 1] {
            self.by_state[side][states[side] as usize].push(pair);
        }
        pair
    }

    fn follow(&mut self, from: u32, ours: &RawLattice, theirs: &RawLattice, sorted: &[Vec<u32>; 2]) {
        let [u, v] = self.pairs[from as usize].states;
        let (us, vs) = (&sorted[0][ours.arc_range(u)], &sorted[1][theirs.arc_range(v)]);
        let mut first = 0;
        for &a in us {
            let arc = &ours.arcs[a as usize];
            while first < vs.len() && labels(&theirs.arcs[vs[first] as usize]) < labels(arc) {
                first += 1;
            }
            let same_labels = vs[first..].iter().take_while(|&&b| labels(&theirs.arcs[b as usize]) == labels(arc));
            for &b in same_labels.filter(|&&b| same_weight(theirs.arcs[b as usize].weight, arc.weight)) {
                let to = self.pair([arc.next, theirs.arcs[b as usize].next], ours, theirs);
                let edge = self.edges.len() as u32;
                self.edges.push(Edge { pairs: [from, to], arcs: [a, b] });
                self.pairs[to as usize].edges[0].push(edge);
                self.pairs[from as usize].edges[1].push(edge);
            }
        }
    }

    /// Living pairs at the other ends of the edges that arrive (0) or leave (1).
    fn neighbours(&self, pair: u32, direction: usize) -> impl Iterator<Item = &Edge> {
        let edges = self.pairs[pair as usize].edges[direction].iter().map(|&edge| &self.edges[edge as usize]);
        edges.filter(move |edge| self.pairs[edge.pairs[direction] as usize].alive)
    }

    /// Drops the pairs on no whole path of pairs.
    fn trim(&mut self) {
        let all: Vec<u32> = (0..self.pairs.len() as u32).collect();
        self.drop_dead_ends(all);
    }

    /// Drops pairs of `suspects` that no longer lie on a path, and whatever that leaves on none.
    fn drop_dead_ends(&mut self, mut suspects: Vec<u32>) {
        while let Some(suspect) = suspects.pop() {
            let pair = &self.pairs[suspect as usize];
            let begins = pair.states == [0, 0] || self.neighbours(suspect, 0).next().is_some();
            let ends = pair.both_final || self.neighbours(suspect, 1).next().is_some();
            if pair.alive && !(begins && ends) {
                suspects.extend(self.kill(suspect));
            }
        }
    }

    /// Drops a pair; gives its neighbours.
    fn kill(&mut self, pair: u32) -> Vec<u32> {
        self.pairs[pair as usize].alive = false;
        let around = |direction| self.neighbours(pair, direction).map(move |edge: &Edge| edge.pairs[direction]);
        around(0).chain(around(1)).collect()
    }

    fn living(&self, side: usize, state: usize) -> impl Iterator<Item = u32> + '_ {
        self.by_state[side][state].iter().copied().filter(|&pair| self.pairs[pair as usize].alive)
    }

    /// States of a lattice with more than one living pair.
    fn conflicts(&self, side: usize) -> Vec<usize> {
        (0..self.by_state[side].len()).filter(|&state| self.living(side, state).nth(1).is_some()).collect()
    }

    /// The share of the arcs of both states that have a partner on a living edge.
    fn score(&self, pair: u32) -> f64 {
        let Pair { states: [u, v], both_final, .. } = self.pairs[pair as usize];
        let mut partnered = [BTreeSet::new(), BTreeSet::new()];
        for edge in [0, 1].into_iter().flat_map(|direction| self.neighbours(pair, direction)) {
            partnered[0].insert(edge.arcs[0]);
            partnered[1].insert(edge.arcs[1]);
        }
        let shared = partnered[0].len() + partnered[1].len() + 2 * usize::from(both_final);
        shared as f64 / f64::from(self.degree[0][u as usize] + self.degree[1][v as usize]).max(1.0)
    }

    /// Gives every state at most one partner.
    fn settle(&mut self) {
        loop {
            let mut rivals = BTreeSet::new();
            for side in [0, 1] {
                rivals.extend(self.conflicts(side).into_iter().flat_map(|state| self.living(side, state)));
            }
            if rivals.is_empty() {
                return;
            }
            let scores: std::collections::BTreeMap<u32, f64> =
                rivals.iter().map(|&pair| (pair, self.score(pair))).collect();
            // Strictly better than every rival at both of its states.
            let leads = |pair: u32| {
                [0, 1].into_iter().all(|side| {
                    let state = self.pairs[pair as usize].states[side] as usize;
                    self.living(side, state).all(|other| other == pair || scores[&other] < scores[&pair])
                })
            };
            let mut chosen: Vec<u32> = rivals.iter().copied().filter(|&pair| leads(pair)).collect();
            if chosen.is_empty() {
                // Twins: the best score, then the lowest states.
                let order = |pair: &u32| (self.pairs[*pair as usize].states, *pair);
                let best = rivals.iter().max_by(|a, b| scores[a].total_cmp(&scores[b]).then(order(b).cmp(&order(a))));
                chosen.extend(best);
            }
            for pair in chosen {
                if self.pairs[pair as usize].alive {
                    self.settle_on(pair);
                }
            }
        }
    }

    fn settle_on(&mut self, pair: u32) {
        self.pairs[pair as usize].settled = true;
        for side in [0, 1] {
            let state = self.pairs[pair as usize].states[side] as usize;
            let rivals: Vec<u32> = self.living(side, state).filter(|&other| other != pair).collect();
            for rival in rivals {
                let around = self.kill(rival);
                self.drop_dead_ends(around);
            }
        }
    }

    /// Pairs of arcs between settled pairs of states, each arc at most once, nearest costs first.
    fn matched_arcs(&self) -> Vec<(u32, u32)> {
        let mut used = [BTreeSet::new(), BTreeSet::new()];
        let mut matched = Vec::new();
        for edge in &self.edges {
            if edge.pairs.iter().all(|&pair| self.pairs[pair as usize].alive)
                && !used[0].contains(&edge.arcs[0])
                && !used[1].contains(&edge.arcs[1])
            {
                used[0].insert(edge.arcs[0]);
                used[1].insert(edge.arcs[1]);
                matched.push((edge.arcs[0], edge.arcs[1]));
            }
        }
        matched
    }

    fn matched_finals(&self, side: usize) -> BTreeSet<u32> {
        self.pairs.iter().filter(|pair| pair.alive && pair.both_final).map(|pair| pair.states[side]).collect()
    }
}

fn labels(arc: &LatticeArc) -> (i32, i32) {
    (arc.ilabel, arc.olabel)
}

/// Arc numbers, those of each state in the order of labels and costs.
fn sorted_arcs(lattice: &RawLattice) -> Vec<u32> {
    let mut order: Vec<u32> = (0..lattice.num_arcs() as u32).collect();
    for state in 0..lattice.num_states() as u32 {
        order[lattice.arc_range(state)].sort_by(|&a, &b| {
            let (a, b) = (&lattice.arcs[a as usize], &lattice.arcs[b as usize]);
            let costs = |arc: &LatticeArc| arc.weight.graph;
            labels(a).cmp(&labels(b)).then(costs(a).total_cmp(&costs(b)))
        });
    }
    order
}

/// Arcs in and out of each state, and one for being final.
fn degrees(lattice: &RawLattice) -> Vec<u32> {
    let mut degrees = vec![0; lattice.num_states()];
    for (state, arc) in lattice.arcs_with_source() {
        degrees[state as usize] += 1;
        degrees[arc.next as usize] += 1;
    }
    for (state, weight) in lattice.finals.iter().enumerate() {
        degrees[state] += u32::from(*weight != LatticeWeight::ZERO);
    }
    degrees
}
