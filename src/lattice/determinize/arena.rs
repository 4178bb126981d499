//! Strings of transition-ids as nodes of a tree, each string once.
//!
//! A node is a string: that of its parent and one more label. A (parent, label) pair has at
//! most one node, so equal strings are equal numbers. Each node carries the polynomial hash
//! of its string, from which the hash of what follows a prefix is had without walking.

use std::cmp::Ordering;

use crate::error::{Error, Result, try_reserve};

use super::index::{Index, spread};

/// The empty string.
pub(super) const ROOT: u32 = 0;

const BASE: u64 = 0xd6e8_feb8_6659_fd93;

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    label: i32,
    depth: u32,
    hash: u64,
}

/// All strings of a pass.
#[derive(Debug)]
pub(super) struct Arena {
    nodes: Vec<Node>,
    children: Index,
    /// Powers of the hash's base, up to the greatest depth.
    powers: Vec<u64>,
}

impl Default for Arena {
    fn default() -> Arena {
        Arena {
            nodes: vec![Node { parent: ROOT, label: 0, depth: 0, hash: 0 }],
            children: Index::default(),
            powers: vec![1],
        }
    }
}

/// Part of a string: the labels of `node` past the first `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub node: u32,
    pub from: u32,
}

impl Tail {
    pub const EMPTY: Tail = Tail { node: ROOT, from: 0 };
}

fn child_hash(parent: u32, label: i32) -> u64 {
    spread((u64::from(parent) << 32 | u64::from(label as u32)).wrapping_mul(BASE))
}

impl Arena {
    pub fn clear(&mut self) {
        self.nodes.truncate(1);
        self.children.clear();
    }

    /// Bytes that the strings take.
    pub fn bytes(&self) -> usize {
        self.nodes.len() * (size_of::<Node>() + Index::BYTES_AN_ENTRY)
    }

    /// Labels in a string.
    pub fn depth(&self, node: u32) -> u32 {
        self.nodes[node as usize].depth
    }

    fn parent(&self, node: u32) -> u32 {
        self.nodes[node as usize].parent
    }

    /// The string of `node` and then `label`.
    pub fn child(&mut self, node: u32, label: i32) -> Result<u32> {
        let hash = child_hash(node, label);
        let is_it = |other: u32| {
            let other = &self.nodes[other as usize];
            other.parent == node && other.label == label
        };
        if let Some(found) = self.children.find(hash, is_it) {
            return Ok(found);
        }
        if self.nodes.len() >= u32::MAX as usize {
            return Err(Error::Limit("determinization: more than 2^32 - 2 strings".to_string()));
        }
        let parent = self.nodes[node as usize];
        let depth = parent.depth + 1;
        if self.powers.len() <= depth as usize {
            try_reserve(&mut self.powers, 1, "determinization: strings")?;
            self.powers.push(self.powers[depth as usize - 1].wrapping_mul(BASE));
        }
        // A label counts by more than its low bits, and label 0 counts too.
        let hash_of_string = parent.hash.wrapping_mul(BASE).wrapping_add(spread(u64::from(label as u32) + 1));
        try_reserve(&mut self.nodes, 1, "determinization: strings")?;
        let fresh = self.nodes.len() as u32;
        self.nodes.push(Node { parent: node, label, depth, hash: hash_of_string });
        let nodes = &self.nodes;
        let hash_of = |other: u32| child_hash(nodes[other as usize].parent, nodes[other as usize].label);
        self.children.insert(hash, fresh, hash_of)?;
        Ok(fresh)
    }

    /// The string of `node` and then `labels`.
    pub fn append(&mut self, node: u32, labels: &[i32]) -> Result<u32> {
        labels.iter().try_fold(node, |node, &label| self.child(node, label))
    }

    /// The first `depth` labels of a string at least so long.
    fn cut(&self, mut node: u32, depth: u32) -> u32 {
        while self.depth(node) > depth {
            node = self.parent(node);
        }
        node
    }

    /// The longest prefix of both.
    pub fn common_prefix(&self, a: u32, b: u32) -> u32 {
        if a == b {
            return a;
        }
        let (mut a, mut b) = (self.cut(a, self.depth(b)), self.cut(b, self.depth(a)));
        while a != b {
            (a, b) = (self.parent(a), self.parent(b));
        }
        a
    }

    /// Hash of what follows the string `prefix` in `node`, of which it is a prefix.
    pub fn tail_hash(&self, node: u32, prefix: u32) -> u64 {
        let (node, prefix) = (&self.nodes[node as usize], &self.nodes[prefix as usize]);
        let power = self.powers[(node.depth - prefix.depth) as usize];
        node.hash.wrapping_sub(prefix.hash.wrapping_mul(power))
    }

    /// Whether two tails are the same labels.
    pub fn same_tail(&self, a: Tail, b: Tail) -> bool {
        let length = self.depth(a.node) - a.from;
        if length != self.depth(b.node) - b.from {
            return false;
        }
        let (mut a, mut b) = (a.node, b.node);
        for _ in 0..length {
            if a == b {
                return true;
            }
            let (x, y) = (&self.nodes[a as usize], &self.nodes[b as usize]);
            if x.label != y.label {
                return false;
            }
            (a, b) = (x.parent, y.parent);
        }
        true
    }

    /// `Less` where `a` is the better string: the shorter; of equally long ones the one with
    /// the greater label where they first differ (Kaldi's `Compare` of compact weights).
    pub fn order(&self, a: u32, b: u32) -> Ordering {
        if a == b {
            return Ordering::Equal;
        }
        let by_length = self.depth(a).cmp(&self.depth(b));
        if by_length != Ordering::Equal {
            return by_length;
        }
        let (mut a, mut b) = (a, b);
        while self.parent(a) != self.parent(b) {
            (a, b) = (self.parent(a), self.parent(b));
        }
        self.nodes[b as usize].label.cmp(&self.nodes[a as usize].label)
    }

    /// Labels in a tail.
    pub fn tail_len(&self, tail: Tail) -> usize {
        (self.depth(tail.node) - tail.from) as usize
    }

    /// Writes the labels of a tail into `out`, which is as long as it is.
    pub fn write_tail(&self, tail: Tail, out: &mut [i32]) {
        let mut node = tail.node;
        for place in out.iter_mut().rev() {
            let Node { label, parent, .. } = self.nodes[node as usize];
            *place = label;
            node = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(node: u32, from: u32) -> Tail {
        Tail { node, from }
    }

    #[test]
    fn each_string_is_there_once() {
        let mut arena = Arena::default();
        let abc = arena.append(ROOT, &[1, 2, 3]).unwrap();
        let ab = arena.append(ROOT, &[1, 2]).unwrap();
        assert_eq!(arena.child(ab, 3).unwrap(), abc);
        let abd = arena.append(ab, &[4]).unwrap();
        assert_eq!((arena.common_prefix(abc, abd), arena.common_prefix(abd, ab)), (ab, ab));
        let other = arena.append(ROOT, &[7]).unwrap();
        assert_eq!(arena.common_prefix(other, abc), ROOT);
        let mut labels = [0; 2];
        arena.write_tail(tail(abd, 1), &mut labels);
        assert_eq!(labels, [2, 4]);
    }

    #[test]
    fn the_shorter_and_then_the_greater_string_is_better() {
        let mut arena = Arena::default();
        let strings: Vec<u32> =
            [&[9][..], &[5, 1], &[3, 9], &[3, 8]].iter().map(|labels| arena.append(ROOT, labels).unwrap()).collect();
        for (i, &a) in strings.iter().enumerate() {
            for (j, &b) in strings.iter().enumerate() {
                assert_eq!(arena.order(a, b), i.cmp(&j));
            }
        }
    }

    #[test]
    fn tails_are_compared_without_their_prefix() {
        let mut arena = Arena::default();
        let x = arena.append(ROOT, &[5]).unwrap();
        let y = arena.append(ROOT, &[6, 6]).unwrap();
        let (xt, yt) = (arena.append(x, &[1, 2, 1]).unwrap(), arena.append(y, &[1, 2, 1]).unwrap());
        let yu = arena.append(y, &[1, 2, 2]).unwrap();
        assert_eq!(arena.tail_hash(xt, x), arena.tail_hash(yt, y));
        assert_ne!(arena.tail_hash(xt, x), arena.tail_hash(yu, y));
        assert!(arena.same_tail(tail(xt, 1), tail(yt, 2)));
        assert!(!arena.same_tail(tail(xt, 1), tail(yu, 2)));
        assert!(!arena.same_tail(tail(xt, 0), tail(yt, 2)));
        assert_eq!(arena.tail_hash(x, x), arena.tail_hash(y, y));
    }
}
