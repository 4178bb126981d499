//! Plain graphs, random graphs, and the comparison of a laid out graph with a plain one.
#![allow(dead_code)] // each test file uses its own part

use koshi::graph::{Columns, FinalState, Graph, GraphArc, HAS_EPSILONS, VecSource};

pub fn arc(ilabel: i32, olabel: i32, weight: f32, next: u32) -> GraphArc {
    GraphArc { ilabel, olabel, weight, next }
}

pub fn source(start: Option<u32>, states: Vec<(f32, Vec<GraphArc>)>) -> VecSource {
    VecSource { start, states }
}

/// A small generator (xorshift64*), so that a test repeats for its seed.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// A graph of `num_states` states without an epsilon cycle: epsilon arcs follow a random order of the states.
    pub fn graph(&mut self, num_states: u64, max_arcs: u64) -> VecSource {
        let mut rank: Vec<u32> = (0..num_states as u32).collect();
        self.shuffle(&mut rank);
        let states = (0..num_states).map(|state| {
            let cost = if self.below(3) == 0 { self.below(100) as f32 / 10.0 } else { f32::INFINITY };
            let arcs = (0..self.below(max_arcs + 1)).map(|_| {
                let next = self.below(num_states) as u32;
                let forward = rank[next as usize] > rank[state as usize];
                let ilabel = if forward && self.below(2) == 0 { 0 } else { 1 + self.below(64) as i32 };
                let olabel = if self.below(2) == 0 { 0 } else { 1 + self.below(100_000) as i32 };
                arc(ilabel, olabel, self.below(200) as f32 / 10.0 - 5.0, next)
            });
            (cost, arcs.collect())
        });
        let states = states.collect();
        source(Some(self.below(num_states) as u32), states)
    }

    /// A graph of 3,000 states on which a search has much to do, 400 rows for it, and their width.
    pub fn busy(&mut self) -> (VecSource, Vec<f32>, usize) {
        let (num_states, dim) = (3_000, 64);
        // Every state has a way on; epsilon arcs lead to higher states only.
        let states = (0..num_states).map(|state| {
            let arcs = (0..6).map(|place| {
                let epsilon = place == 0 && state + 1 < num_states && self.below(3) == 0;
                let next =
                    if epsilon { state + 1 + self.below(num_states - state - 1) } else { self.below(num_states) };
                let ilabel = if epsilon { 0 } else { 1 + self.below(dim as u64) as i32 };
                arc(ilabel, self.below(5) as i32, self.below(80) as f32 / 20.0, next as u32)
            });
            (0.0, arcs.collect())
        });
        let graph = source(Some(0), states.collect());
        let rows = (0..400 * dim).map(|_| -(self.below(400) as f32) / 40.0).collect();
        (graph, rows, dim)
    }

    /// A graph that leads to and fro between 300 states and 1,000: of the 300, one, which costs least, has 40,000 arcs,
    /// more than a lane of a GPU keeps costs of, and some have none. Some output labels need more than 16 bits. And four rows for it, and
    /// their width.
    pub fn fans(&mut self) -> (VecSource, Vec<f32>, usize) {
        let (hubs, leaves, dim) = (300, 1_000, 40);
        let olabels = [0, 0, 1, 2, 65_535, 65_536, 65_537, 2 * 65_536 + 1, i32::MAX];
        let mut to = |next: u64, weight: f32| {
            let olabel = olabels[self.below(olabels.len() as u64) as usize];
            arc(1 + self.below(dim as u64) as i32, olabel, weight + self.below(32) as f32 / 8.0, next as u32)
        };
        let large = 77;
        let mut states = vec![(0.0, (0..hubs).map(|hub| to(1 + hub, if hub == large { -4.0 } else { 0.0 })).collect())];
        for hub in 0..hubs {
            let degree = if hub == large { 40_000 } else { hub * 37 % 260 * u64::from(hub % 5 > 0) };
            states.push((0.0, (0..degree).map(|at| to(1 + hubs + (at * 7 + hub) % leaves, 1.0)).collect()));
        }
        states.extend(
            (0..leaves).map(|leaf| (0.0, vec![to(1 + leaf % hubs, if leaf % hubs == large { -4.0 } else { 0.0 })])),
        );
        let rows = (0..4 * dim).map(|_| -(self.below(64) as f32) / 16.0).collect();
        (source(Some(0), states), rows, dim)
    }
}

/// Levels by relaxation, round after round: slow and plain.
pub fn levels(source: &VecSource) -> Vec<u32> {
    let mut levels = vec![0u32; source.states.len()];
    loop {
        let mut quiet = true;
        for (state, (_, arcs)) in source.states.iter().enumerate() {
            for arc in arcs.iter().filter(|arc| arc.ilabel == 0 && arc.weight < f32::INFINITY) {
                if levels[arc.next as usize] < levels[state] + 1 {
                    levels[arc.next as usize] = levels[state] + 1;
                    quiet = false;
                }
            }
        }
        if quiet {
            return levels;
        }
    }
}

/// Holds every accessor of `graph` to the plain lists.
pub fn assert_same(graph: &Graph, source: &VecSource, columns: &Columns) {
    let levels = levels(source);
    let ids: Vec<u32> = graph.ids().collect();
    assert_eq!(ids.len(), source.states.len());
    assert!(ids.is_sorted_by(|a, b| a < b));
    let word = |state: u32| {
        let epsilons = source.states[state as usize].1.iter().any(|arc| arc.ilabel == 0);
        ids[state as usize] | if epsilons { HAS_EPSILONS } else { 0 }
    };
    assert_eq!(graph.start(), word(source.start.unwrap()));
    assert_eq!(graph.max_level(), levels.iter().copied().max().unwrap());
    assert_eq!(graph.num_states() as usize, ids.len());

    let (mut first_arc, mut num_columns, mut num_epsilons) = (0u32, 0, 0);
    for (state, (cost, arcs)) in source.states.iter().enumerate() {
        let id = ids[state];
        let view = graph.state(id);
        assert_eq!(view.header.level, levels[state]);
        assert_eq!(view.header.first_arc, first_arc);
        assert_eq!(graph.final_cost(id), *cost);

        // Arcs of each kind with their place in the file.
        let (emitting, epsilons): (Vec<_>, Vec<_>) =
            (first_arc..).zip(arcs).partition(|(_, arc): &(u32, &GraphArc)| arc.ilabel != 0);
        assert_eq!((view.header.n_emit, view.header.n_eps), (emitting.len(), epsilons.len()));
        for (place, (_, arc)) in emitting.iter().enumerate() {
            assert_eq!(view.weights[place], arc.weight);
            assert_eq!(view.dsts[place], word(arc.next));
            let column = columns.column(arc.ilabel).unwrap();
            assert_eq!(view.column(place), column);
            num_columns = num_columns.max(column + 1);
        }
        for (place, (_, arc)) in epsilons.iter().enumerate() {
            assert_eq!(view.eps_weights[place], arc.weight);
            assert_eq!(view.eps_dsts[place], word(arc.next));
        }
        for (number, (index, arc)) in (first_arc..).zip(emitting.iter().chain(&epsilons)) {
            assert_eq!((graph.ilabel(id, number), graph.olabel(number)), (arc.ilabel, arc.olabel));
            assert_eq!(graph.file_arc(id, number), *index);
        }
        first_arc += arcs.len() as u32;
        num_epsilons += epsilons.len() as u32;
    }
    assert_eq!((graph.num_arcs(), graph.num_epsilon_arcs()), (first_arc, num_epsilons));
    assert_eq!(graph.num_columns(), num_columns);
    let finals = ids.iter().zip(&source.states).filter(|(_, state)| state.0 < f32::INFINITY);
    assert_eq!(graph.finals(), finals.map(|(&id, state)| FinalState { id, cost: state.0 }).collect::<Vec<_>>());
}

/// Holds all that can be asked of two graphs to be equal.
pub fn assert_equal(one: &Graph, two: &Graph) {
    assert!(one.words() == two.words());
    assert_eq!(one.start(), two.start());
    assert!(one.finals() == two.finals());
    assert_eq!(one.info().unwrap(), two.info().unwrap());
    for id in one.ids() {
        let header = one.state(id).header;
        for arc in (header.first_arc..).take(header.n_emit + header.n_eps) {
            assert_eq!((one.ilabel(id, arc), one.olabel(arc)), (two.ilabel(id, arc), two.olabel(arc)));
            assert_eq!(one.file_arc(id, arc), two.file_arc(id, arc));
        }
    }
}

/// Holds a graph of unknown origin to what a search relies on.
pub fn assert_sound(graph: &Graph) {
    let ids: Vec<u32> = graph.ids().collect();
    let check_dst = |dst: u32| {
        let id = dst & !HAS_EPSILONS;
        assert!(ids.binary_search(&id).is_ok());
        assert_eq!(dst != id, graph.state(id).header.n_eps > 0);
        graph.state(id).header.level
    };
    check_dst(graph.start());
    let mut arcs = 0;
    for &id in &ids {
        let view = graph.state(id);
        assert_eq!(view.header.first_arc, arcs);
        assert!(view.header.level <= graph.max_level());
        for place in 0..view.header.n_emit {
            check_dst(view.dsts[place]);
            assert!(view.weights[place] > f32::NEG_INFINITY && view.column(place) < graph.num_columns());
            assert!(graph.ilabel(id, arcs + place as u32) > 0);
        }
        for place in 0..view.header.n_eps {
            let level = check_dst(view.eps_dsts[place]);
            assert!(view.eps_weights[place] > f32::NEG_INFINITY);
            assert!(level > view.header.level || view.eps_weights[place] == f32::INFINITY);
            assert_eq!(graph.ilabel(id, arcs + (view.header.n_emit + place) as u32), 0);
        }
        let end = arcs + (view.header.n_emit + view.header.n_eps) as u32;
        let mut indices: Vec<u32> = (arcs..end).map(|arc| graph.file_arc(id, arc)).collect();
        indices.sort_unstable();
        assert!(indices.into_iter().eq(arcs..end));
        assert!((arcs..end).all(|arc| graph.olabel(arc) >= 0));
        arcs = end;
    }
    assert_eq!((ids.len() as u32, arcs), (graph.num_states(), graph.num_arcs()));
    let info = graph.info().unwrap();
    assert!(info.num_unreachable < info.num_states && info.num_dead_ends <= info.num_states);
    for &FinalState { id, cost } in graph.finals() {
        assert!(ids.binary_search(&id).is_ok() && cost.is_finite());
    }
}
