//! How many words can no longer change: those that the best paths to all emitting tokens begin with.

use std::collections::HashMap;

use crate::error::{Error, Result, try_filled, try_reserve};

use super::backtrace::{Links, Name, Place};

/// The words of the emitting tokens' best paths as a tree, grown from one time that is looked at to
/// the next: only the frames in between are walked back.
///
/// A token's best path goes through an emitting token of each earlier time, so its words are those
/// of that token and the ones behind it. Equal words are one node, whatever tokens they come from.
#[derive(Debug, Default)]
pub(super) struct StableWords {
    /// The time that was looked at last.
    time: Option<usize>,
    /// Its emitting tokens.
    last: Vec<Known>,
    nodes: Vec<Node>,
    /// Nodes that are not in use.
    free: Vec<u32>,
    children: HashMap<(u32, i32), u32>,
    /// Where the tree begins: the words up to there are those of all.
    root: u32,
    stable: usize,
    /// Words of what has been committed, and so of all.
    committed: usize,
    /// Links followed back so far.
    pub followed: u64,
}

/// A token whose words are known.
#[derive(Clone, Copy, Debug)]
struct Known {
    place: u32,
    name: Name,
    node: u32,
}

/// What is known of the tokens since the time that was looked at last.
struct Since {
    first: usize,
    /// Where the tokens of each time begin.
    begins: Vec<usize>,
    /// Their nodes, or [`NONE`].
    nodes: Vec<u32>,
    /// The best links into those of the windows, where they have been looked for, and at which times they have.
    links: Vec<u32>,
    looked: Vec<bool>,
    /// Tokens on the way back, each with the word of its best link.
    way: Vec<(usize, i32)>,
}

/// A word behind those of another node.
#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    word: i32,
    /// Tokens whose words end here.
    tokens: u32,
    /// Nodes behind it, and the sum of their numbers: where there is one, it is that.
    children: u32,
    sum: u32,
}

/// No node, or none that is known.
const NONE: u32 = u32::MAX;
/// What the memory of this file is for, in messages.
const WHAT: &str = "stable words";

impl StableWords {
    /// Forgets everything; memory is kept.
    pub fn clear(&mut self) {
        self.committed = 0;
        self.forget();
        self.followed = 0;
    }

    fn forget(&mut self) {
        self.time = None;
        self.last.clear();
        self.nodes.clear();
        self.free.clear();
        self.children.clear();
        self.stable = self.committed;
    }

    /// What lies before time `time`, with `words` words, has been committed.
    pub fn commit(&mut self, time: usize, words: usize) {
        self.committed = words;
        if self.time.is_none_or(|looked| looked < time) {
            // The way back to what is known is gone; all words begin with those committed.
            self.forget();
        }
    }

    /// Bytes held, about.
    pub fn memory(&self) -> usize {
        self.last.capacity() * size_of::<Known>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.free.capacity() * 4
            + self.children.capacity() * size_of::<((u32, i32), u32)>()
    }

    /// The number of words at the head of the best paths to the tokens `emitting` of `time` that all
    /// of them have in common. It never falls from one time to a later one.
    pub fn count(
        &mut self,
        links: &Links<'_>,
        time: usize,
        emitting: impl ExactSizeIterator<Item = u32>,
    ) -> Result<usize> {
        if self.time == Some(time) {
            return Ok(self.stable);
        }
        let grown = self.grow(links, time, emitting);
        if grown.is_err() {
            // Half grown it would be wrong: the next time it begins anew.
            self.forget();
        }
        grown.map(|()| self.stable)
    }

    fn grow(&mut self, links: &Links<'_>, time: usize, emitting: impl ExactSizeIterator<Item = u32>) -> Result<()> {
        if self.time.is_none() {
            self.root = self.new_node(NONE, 0)?;
        }
        let mut since = self.since(links, time)?;
        let mut now = Vec::new();
        try_reserve(&mut now, emitting.len(), WHAT)?;
        for place in emitting {
            let at = Place { time, token: place };
            let node = self.node_of(links, &mut since, at)?;
            self.nodes[node as usize].tokens += 1;
            now.push(Known { place, name: links.name(at), node });
        }
        for token in std::mem::replace(&mut self.last, now) {
            self.nodes[token.node as usize].tokens -= 1;
            self.drop_unused(token.node)?;
        }
        self.time = Some(time);
        self.advance_root()
    }

    /// Room for the tokens up to `time`, with those that are known.
    fn since(&mut self, links: &Links<'_>, time: usize) -> Result<Since> {
        let first = self.time.unwrap_or(links.trace.base());
        let mut begins = Vec::new();
        try_reserve(&mut begins, (time + 1).saturating_sub(first), WHAT)?;
        let mut tokens = 0;
        for time in first..=time {
            begins.push(tokens);
            tokens += links.num_tokens(time);
        }
        let mut nodes = try_filled(NONE, tokens, WHAT)?;
        if links.is_raw(first) {
            for token in &self.last {
                nodes[token.place as usize] = token.node;
            }
        } else {
            // They have other places now, those that survived.
            self.last.sort_unstable_by_key(|token| token.name);
            for token in 0..links.num_tokens(first) as u32 {
                let name = links.name(Place { time: first, token });
                if let Ok(at) = self.last.binary_search_by_key(&name, |token| token.name) {
                    nodes[token as usize] = self.last[at].node;
                }
            }
        }
        let (links, looked) = (try_filled(NONE, tokens, WHAT)?, try_filled(false, begins.len(), WHAT)?);
        Ok(Since { first, begins, nodes, links, looked, way: Vec::new() })
    }

    /// The node of a token, by way of its best path back to a token whose node is known.
    fn node_of(&mut self, links: &Links<'_>, since: &mut Since, token: Place) -> Result<u32> {
        let Since { first, begins, nodes, links: best, looked, way } = since;
        let mut at = token;
        let mut node = loop {
            let Some(begin) = at.time.checked_sub(*first).and_then(|time| begins.get(time)) else {
                return Err(Error::Internal("a best path goes around the tokens that emitted".into()));
            };
            let index = begin + at.token as usize;
            if nodes[index] != NONE {
                break nodes[index];
            }
            try_reserve(way, 1, WHAT)?;
            let step = if links.is_in_windows(at.time) {
                if !std::mem::replace(&mut looked[at.time - *first], true) {
                    links.best_links(at.time, &mut best[*begin..begin + links.num_tokens(at.time)]);
                }
                links.step_over(at.time, best[index])
            } else {
                links.best_link(at)
            };
            let Some(step) = step else {
                way.push((index, 0));
                break self.root;
            };
            self.followed += 1;
            way.push((index, links.graph.olabel(step.arc)));
            at = step.from;
        };
        while let Some((index, word)) = way.pop() {
            if word != 0 {
                node = self.child(node, word)?;
            }
            nodes[index] = node;
        }
        Ok(node)
    }

    /// The node for `word` behind `parent`, made if it is not there.
    fn child(&mut self, parent: u32, word: i32) -> Result<u32> {
        if let Some(&child) = self.children.get(&(parent, word)) {
            return Ok(child);
        }
        let asked = (self.children.len() as u64 + 1) * size_of::<((u32, i32), u32)>() as u64;
        self.children.try_reserve(1).map_err(|_| Error::NoMemory { what: WHAT.into(), asked })?;
        let child = self.new_node(parent, word)?;
        self.children.insert((parent, word), child);
        let parent = &mut self.nodes[parent as usize];
        parent.children += 1;
        parent.sum = parent.sum.wrapping_add(child);
        Ok(child)
    }

    fn new_node(&mut self, parent: u32, word: i32) -> Result<u32> {
        let node = Node { parent, word, tokens: 0, children: 0, sum: 0 };
        if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            return Ok(at);
        }
        try_reserve(&mut self.nodes, 1, WHAT)?;
        self.nodes.push(node);
        Ok(self.nodes.len() as u32 - 1)
    }

    /// Drops a node that no token's words end at or pass through, and those before it that it alone kept.
    fn drop_unused(&mut self, mut at: u32) -> Result<()> {
        while at != self.root {
            let Node { parent, word, tokens, children, .. } = self.nodes[at as usize];
            if tokens > 0 || children > 0 {
                break;
            }
            self.release(at, parent, word)?;
            let above = &mut self.nodes[parent as usize];
            above.children -= 1;
            above.sum = above.sum.wrapping_sub(at);
            at = parent;
        }
        Ok(())
    }

    fn release(&mut self, node: u32, parent: u32, word: i32) -> Result<()> {
        try_reserve(&mut self.free, 1, WHAT)?;
        self.free.push(node);
        self.children.remove(&(parent, word));
        Ok(())
    }

    /// Moves the root on while all words go on alike.
    fn advance_root(&mut self) -> Result<()> {
        loop {
            let Node { tokens, children, sum, .. } = self.nodes[self.root as usize];
            if tokens > 0 || children != 1 {
                return Ok(());
            }
            let word = self.nodes[sum as usize].word;
            self.release(self.root, self.root, word)?;
            self.root = sum;
            self.stable += 1;
        }
    }
}
