//! The tree of label histories: one node a history, so that equal histories are the same node,
//! with what the networks said after it.
//!
//! A node is held by the hypotheses that stand on it, and by children whose predictions still
//! need its states. What is held has its predictions. What is not may be come back to, so up to a
//! number of such predictions stay, the longest idle go first. The root is where all living
//! hypotheses still agree: what lies beside it can never be reached again and goes at once.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::model::Part;
use crate::error::{Error, Result, try_reserve};

pub(super) const NONE: u32 = u32::MAX;

/// What a network said after a history.
#[derive(Clone, Copy)]
struct Said {
    /// Place of the row, [`NONE`] if nothing was said yet.
    row: u32,
    state: u64,
}

const NOTHING: Said = Said { row: NONE, state: 0 };

#[derive(Clone, Copy)]
struct Node {
    parent: u32,
    label: i32,
    /// Labels of the history.
    depth: u32,
    child: u32,
    next: u32,
    previous: u32,
    holds: u32,
    said: [Said; 2],
    /// Whether it holds its parent, whose states its predictions need.
    waits: bool,
    /// Asked for in the batch that is being made.
    queued: [bool; 2],
    /// When it became idle, 0 if it is held or nothing is kept of it.
    idle_since: u64,
    /// A note of the search, valid in one round.
    mark: (u64, u32),
}

/// Mixes the two halves of a key; the map is small and its keys are not an adversary's.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }
}

/// Rows of one width, in places that are used again.
#[derive(Default)]
struct RowStore {
    width: usize,
    data: Vec<f32>,
    free: Vec<u32>,
}

impl RowStore {
    fn reserve(&mut self, rows: usize) -> Result<()> {
        let more = rows.saturating_sub(self.free.len());
        try_reserve(&mut self.data, more.saturating_mul(self.width), "predictions")?;
        let places = self.data.capacity() / self.width.max(1);
        let missing = places.saturating_sub(self.free.len());
        try_reserve(&mut self.free, missing, "predictions")
    }

    fn put(&mut self, row: &[f32]) -> u32 {
        let place = self.free.pop().unwrap_or((self.data.len() / self.width.max(1)) as u32);
        let start = place as usize * self.width;
        match self.data.get_mut(start..start + self.width) {
            Some(old) => old.copy_from_slice(row),
            None => self.data.extend_from_slice(row),
        }
        place
    }

    fn get(&self, place: u32) -> &[f32] {
        let start = place as usize * self.width;
        self.data.get(start..start + self.width).unwrap_or(&[])
    }
}

/// The histories of a stream.
pub(super) struct Histories {
    nodes: Vec<Node>,
    free: Vec<u32>,
    children: HashMap<u64, u32, BuildHasherDefault<Mix>>,
    root: u32,
    rows: [RowStore; 2],
    /// Whether the language model is part of a complete prediction.
    with_lm: bool,
    /// Idle nodes in the order in which they became so; entries may be out of date.
    idle: VecDeque<(u32, u64)>,
    num_idle: usize,
    max_idle: usize,
    clock: u64,
    round: u64,
    /// States to hand back.
    released: Vec<(Part, u64)>,
    /// States that are held.
    states: usize,
}

fn key(parent: u32, label: i32) -> u64 {
    u64::from(parent) << 32 | u64::from(label as u32)
}

impl Histories {
    /// The empty history alone, held once.
    pub fn new(blank: i32, output_dim: usize, lm_dim: Option<usize>, max_idle: usize) -> Result<Histories> {
        let mut histories = Histories {
            nodes: Vec::new(),
            free: Vec::new(),
            children: HashMap::default(),
            root: NONE,
            rows: [output_dim, lm_dim.unwrap_or(0)].map(|width| RowStore { width, ..RowStore::default() }),
            with_lm: lm_dim.is_some(),
            idle: VecDeque::new(),
            num_idle: 0,
            max_idle,
            clock: 0,
            round: 0,
            released: Vec::new(),
            states: 0,
        };
        histories.root = histories.node(NONE, blank, 0)?;
        histories.hold(histories.root);
        Ok(histories)
    }

    /// Nodes in use.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// The empty history, or the longest one that all others go on from.
    pub fn root(&self) -> u32 {
        self.root
    }

    /// The history without its last label, [`NONE`] at the root.
    pub fn parent(&self, node: u32) -> u32 {
        self.nodes[node as usize].parent
    }

    /// The last label; the blank for the empty history.
    pub fn label(&self, node: u32) -> i32 {
        self.nodes[node as usize].label
    }

    /// Labels of a history.
    pub fn depth(&self, node: u32) -> u32 {
        self.nodes[node as usize].depth
    }

    fn node(&mut self, parent: u32, label: i32, depth: u32) -> Result<u32> {
        let node = Node {
            parent,
            label,
            depth,
            child: NONE,
            next: NONE,
            previous: NONE,
            holds: 0,
            said: [NOTHING; 2],
            waits: false,
            queued: [false; 2],
            idle_since: 0,
            mark: (0, 0),
        };
        if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            return Ok(at);
        }
        try_reserve(&mut self.nodes, 1, "label histories")?;
        // So that giving back never needs memory.
        let capacity = self.nodes.capacity();
        try_reserve(&mut self.free, capacity, "label histories")?;
        self.nodes.push(node);
        Ok(self.nodes.len() as u32 - 1)
    }

    /// The history one label longer, if there is such a node.
    pub fn find(&self, parent: u32, label: i32) -> Option<u32> {
        self.children.get(&key(parent, label)).copied()
    }

    /// The history one label longer, held once more. `parent` is complete.
    pub fn child(&mut self, parent: u32, label: i32) -> Result<u32> {
        let child = match self.find(parent, label) {
            Some(child) => child,
            None => self.add(parent, label)?,
        };
        self.hold(child);
        Ok(child)
    }

    fn add(&mut self, parent: u32, label: i32) -> Result<u32> {
        let asked = self.children.len() as u64 + 1;
        let no_memory = |_| Error::NoMemory { what: "label histories".into(), asked: asked * 16 };
        self.children.try_reserve(1).map_err(no_memory)?;
        let depth = self.nodes[parent as usize].depth;
        let depth = depth.checked_add(1).ok_or_else(|| Error::Limit(format!("{depth} labels are the most")))?;
        let child = self.node(parent, label, depth)?;
        let sibling = self.nodes[parent as usize].child;
        self.nodes[child as usize].next = sibling;
        if sibling != NONE {
            self.nodes[sibling as usize].previous = child;
        }
        self.nodes[parent as usize].child = child;
        self.children.insert(key(parent, label), child);
        Ok(child)
    }

    fn complete(&self, node: u32) -> bool {
        let said = &self.nodes[node as usize].said;
        said[0].row != NONE && (!self.with_lm || said[1].row != NONE)
    }

    /// One more hold.
    pub fn hold(&mut self, node: u32) {
        let at = &mut self.nodes[node as usize];
        at.holds += 1;
        if at.idle_since != 0 {
            at.idle_since = 0;
            self.num_idle -= 1;
        }
        let (waits, parent) = (at.waits, at.parent);
        if !waits && parent != NONE && !self.complete(node) {
            self.nodes[node as usize].waits = true;
            self.hold(parent);
        }
    }

    /// One hold less.
    pub fn let_go(&mut self, node: u32) {
        let at = &mut self.nodes[node as usize];
        at.holds -= 1;
        if at.holds > 0 {
            return;
        }
        let above = std::mem::take(&mut at.waits).then_some(at.parent);
        // Before its parent: what rests there makes others go, with them all that is bare, and so maybe this node.
        if at.said.iter().all(|said| said.row == NONE) {
            self.remove_if_bare(node);
        } else {
            self.rest(node);
        }
        if let Some(parent) = above {
            self.let_go(parent);
        }
    }

    /// Keeps the predictions of a node that nobody holds, for a while.
    fn rest(&mut self, node: u32) {
        self.clock += 1;
        if self.idle.len() >= self.max_idle.saturating_mul(4).saturating_add(64) {
            let nodes = &self.nodes;
            self.idle.retain(|(node, since)| nodes[*node as usize].idle_since == *since);
        }
        if self.max_idle == 0 || self.idle.try_reserve(1).is_err() {
            self.forget(node);
            return;
        }
        self.nodes[node as usize].idle_since = self.clock;
        self.idle.push_back((node, self.clock));
        self.num_idle += 1;
        while self.num_idle > self.max_idle {
            let Some((oldest, since)) = self.idle.pop_front() else { return };
            if self.nodes[oldest as usize].idle_since == since {
                self.forget(oldest);
            }
        }
    }

    /// Hands back what the networks said after a node that nobody holds.
    fn forget(&mut self, node: u32) {
        self.release(node);
        self.remove_if_bare(node);
    }

    fn release(&mut self, node: u32) {
        let at = &mut self.nodes[node as usize];
        if at.idle_since != 0 {
            at.idle_since = 0;
            self.num_idle -= 1;
        }
        for part in Part::ALL {
            let said = std::mem::replace(&mut at.said[part as usize], NOTHING);
            if said.row != NONE {
                self.rows[part as usize].free.push(said.row);
                self.released.push((part, said.state));
                self.states -= 1;
            }
        }
    }

    /// Removes a node that nobody holds, of which nothing is kept and from which nothing goes on;
    /// then its parent if that is so now.
    fn remove_if_bare(&mut self, mut node: u32) {
        loop {
            let at = self.nodes[node as usize];
            let bare = at.holds == 0 && at.child == NONE && at.said.iter().all(|said| said.row == NONE);
            if !bare || node == self.root || at.parent == NONE {
                return;
            }
            self.unlink(node);
            node = at.parent;
        }
    }

    /// Takes a node out of the tree.
    fn unlink(&mut self, node: u32) {
        let at = self.nodes[node as usize];
        if at.previous != NONE {
            self.nodes[at.previous as usize].next = at.next;
        } else {
            self.nodes[at.parent as usize].child = at.next;
        }
        if at.next != NONE {
            self.nodes[at.next as usize].previous = at.previous;
        }
        self.children.remove(&key(at.parent, at.label));
        self.free.push(node);
    }

    /// Whether `part` has yet to be asked about a node for the batch that is being made; notes that it is.
    pub fn queue(&mut self, part: Part, node: u32) -> bool {
        let at = &mut self.nodes[node as usize];
        let wanted = at.said[part as usize].row == NONE && !at.queued[part as usize];
        at.queued[part as usize] |= wanted;
        wanted
    }

    /// The state that `part` reads the last label of `node` in.
    pub fn state_before(&self, part: Part, node: u32) -> u64 {
        match self.nodes[node as usize].parent {
            NONE => 0,
            parent => self.nodes[parent as usize].said[part as usize].state,
        }
    }

    /// Makes room for answers, so that [`Histories::answer`] needs no memory.
    pub fn reserve(&mut self, part: Part, count: usize) -> Result<()> {
        self.rows[part as usize].reserve(count)?;
        let states = self.states + count;
        try_reserve(&mut self.released, states, "states to hand back")
    }

    /// What `part` said after a node, for which there is room.
    pub fn answer(&mut self, part: Part, node: u32, state: u64, row: &[f32]) {
        let place = self.rows[part as usize].put(row);
        let at = &mut self.nodes[node as usize];
        at.queued[part as usize] = false;
        at.said[part as usize] = Said { row: place, state };
        self.states += 1;
        if self.complete(node) && std::mem::take(&mut self.nodes[node as usize].waits) {
            let parent = self.nodes[node as usize].parent;
            self.let_go(parent);
        }
    }

    /// The row that `part` gave after a node; empty if there is none.
    pub fn row(&self, part: Part, node: u32) -> &[f32] {
        match self.nodes[node as usize].said[part as usize].row {
            NONE => &[],
            place => self.rows[part as usize].get(place),
        }
    }

    /// Begins a round of marks.
    pub fn new_round(&mut self) {
        self.round += 1;
    }

    /// Marks a node for this round.
    pub fn mark(&mut self, node: u32, value: u32) {
        self.nodes[node as usize].mark = (self.round, value);
    }

    /// The mark that a node got in this round.
    pub fn marked(&self, node: u32) -> Option<u32> {
        let (round, value) = self.nodes[node as usize].mark;
        (round == self.round).then_some(value)
    }

    /// The longest history that two others go on from.
    pub fn common(&self, mut one: u32, mut two: u32) -> u32 {
        while one != two {
            let deeper = if self.depth(one) >= self.depth(two) { &mut one } else { &mut two };
            let parent = self.nodes[*deeper as usize].parent;
            if parent == NONE {
                return self.root;
            }
            *deeper = parent;
        }
        one
    }

    /// All histories that hypotheses stand on go on from `stem`: forgets what lies beside it and before it.
    pub fn move_root(&mut self, mut stem: u32) {
        if self.nodes[stem as usize].waits {
            stem = self.parent(stem);
        }
        let mut at = stem;
        while at != self.root {
            let parent = self.parent(at);
            let mut child = self.nodes[parent as usize].child;
            while child != NONE {
                let next = self.nodes[child as usize].next;
                if child != at {
                    self.cut(child);
                }
                child = next;
            }
            at = parent;
        }
        let mut at = stem;
        while at != self.root {
            let parent = self.parent(at);
            self.unlink_from_above(at);
            self.release(parent);
            at = parent;
        }
        if stem != self.root {
            let mut above = self.nodes[stem as usize].parent;
            while above != NONE {
                self.free.push(above);
                above = self.nodes[above as usize].parent;
            }
            self.nodes[stem as usize].parent = NONE;
            self.root = stem;
        }
    }

    fn unlink_from_above(&mut self, node: u32) {
        let at = self.nodes[node as usize];
        self.children.remove(&key(at.parent, at.label));
        self.nodes[at.parent as usize].child = NONE;
    }

    /// Takes a whole branch, which nobody holds, out of the tree.
    fn cut(&mut self, top: u32) {
        let mut at = top;
        loop {
            while self.nodes[at as usize].child != NONE {
                at = self.nodes[at as usize].child;
            }
            let parent = self.nodes[at as usize].parent;
            self.release(at);
            self.unlink(at);
            if at == top {
                return;
            }
            at = parent;
        }
    }

    /// Hands all states back to the model; the tree is of no use afterwards.
    pub fn clear(&mut self, release: impl Fn(Part, u64)) {
        for node in 0..self.nodes.len() as u32 {
            self.release(node);
        }
        self.hand_back(release);
        self.nodes.clear();
        self.free.clear();
        self.children.clear();
        self.idle.clear();
        self.num_idle = 0;
    }

    /// Hands back the states that nothing needs any more.
    pub fn hand_back(&mut self, release: impl Fn(Part, u64)) {
        while let Some((part, state)) = self.released.pop() {
            release(part, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_goes_with_its_child_is_free_once() {
        let mut histories = Histories::new(0, 1, None, 1).unwrap();
        let said = |histories: &mut Histories, node| {
            histories.reserve(Part::Predictor, 1).unwrap();
            histories.answer(Part::Predictor, node, 7, &[0.5]);
        };
        let root = histories.root();
        said(&mut histories, root);
        let mut way = vec![root];
        for label in 1..4 {
            let node = histories.child(way[label as usize - 1], label).unwrap();
            said(&mut histories, node);
            way.push(node);
        }
        let [_, one, two, three] = way[..] else { panic!("{way:?}") };
        histories.let_go(two);
        histories.let_go(three); // and the prediction of `two`, which rested longer, is forgotten
        assert_eq!(histories.child(one, 2).unwrap(), two);
        histories.let_go(one); // `two` waits for it
        histories.let_go(two); // `one` rests, `three` is forgotten, and nothing is left of `two`
        assert_eq!(histories.len(), 2);
        let made: Vec<u32> = (4..8).map(|label| histories.child(root, label).unwrap()).collect();
        assert!(made.iter().enumerate().all(|(at, node)| !made[..at].contains(node)), "{made:?}");
    }
}
