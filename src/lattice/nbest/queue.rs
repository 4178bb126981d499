//! What is still open in the search for sentences, the best first.

use std::cmp::Ordering;

use crate::error::{Result, try_reserve};

use super::subset::Element;

/// A tree of words: what sentences begin with.
#[derive(Default)]
pub(super) struct Prefixes(Vec<Prefix>);

struct Prefix {
    /// The prefix one word shorter; the root is its own.
    parent: u32,
    /// A prefix much shorter, so that two long prefixes are compared in a logarithm of steps: of two
    /// equally long ones these are equally long too (Myers 1983, "An applicative random-access stack").
    jump: u32,
    word: i32,
    length: u32,
}

impl Prefixes {
    /// Adds a prefix: `parent` and one word more, or the empty one.
    pub fn add(&mut self, parent: Option<u32>, word: i32) -> Result<u32> {
        let number = self.0.len() as u32;
        let length = parent.map_or(0, |parent| self.0[parent as usize].length + 1);
        let jump = parent.map_or(number, |parent| {
            let jump = self.0[parent as usize].jump;
            let [near, middle, far] = [parent, jump, self.0[jump as usize].jump].map(|at| self.0[at as usize].length);
            if near - middle == middle - far { self.0[jump as usize].jump } else { parent }
        });
        try_reserve(&mut self.0, 1, "n-best list")?;
        self.0.push(Prefix { parent: parent.unwrap_or(number), jump, word, length });
        Ok(number)
    }

    /// The words of a prefix.
    pub fn words(&self, mut prefix: u32, words: &mut Vec<i32>) -> Result<()> {
        words.clear();
        try_reserve(words, self.0[prefix as usize].length as usize, "n-best list")?;
        while self.0[prefix as usize].length > 0 {
            words.push(self.0[prefix as usize].word);
            prefix = self.0[prefix as usize].parent;
        }
        words.reverse();
        Ok(())
    }

    pub fn bytes(&self) -> usize {
        self.0.len() * size_of::<Prefix>()
    }

    /// The first `length` words of a prefix that has as many.
    fn cut(&self, mut prefix: u32, length: u32) -> u32 {
        while self.0[prefix as usize].length > length {
            let Prefix { parent, jump, .. } = self.0[prefix as usize];
            prefix = if self.0[jump as usize].length >= length { jump } else { parent };
        }
        prefix
    }

    /// Word by word, a prefix of the other first.
    fn compare(&self, one: u32, other: u32) -> Ordering {
        let at = |prefix: u32| &self.0[prefix as usize];
        let length = at(one).length.min(at(other).length);
        let (mut a, mut b) = (self.cut(one, length), self.cut(other, length));
        if a == b {
            return at(one).length.cmp(&at(other).length);
        }
        while at(a).parent != at(b).parent {
            (a, b) = if at(a).jump != at(b).jump { (at(a).jump, at(b).jump) } else { (at(a).parent, at(b).parent) };
        }
        at(a).word.cmp(&at(b).word)
    }
}

/// A prefix to be explored, or a whole sentence.
pub(super) struct Entry {
    /// Cost of the best sentence that begins so.
    pub bound: f64,
    pub prefix: u32,
    /// Log-sum of the costs of a whole sentence's paths.
    pub sum: f64,
    /// The states that the prefix leads to; `None` for a whole sentence.
    pub elements: Option<Vec<Element>>,
}

/// A binary heap whose order needs the tree of words.
#[derive(Default)]
pub(super) struct Queue {
    heap: Vec<Entry>,
    elements: usize,
}

/// Of equal bounds the lower words come first, and a whole sentence before what goes on from it.
fn order(a: &Entry, b: &Entry, prefixes: &Prefixes) -> Ordering {
    let whole = |entry: &Entry| entry.elements.is_none();
    let by_bound = a.bound.total_cmp(&b.bound);
    by_bound.then_with(|| prefixes.compare(a.prefix, b.prefix)).then_with(|| whole(b).cmp(&whole(a)))
}

impl Queue {
    pub fn push(&mut self, entry: Entry, prefixes: &Prefixes) -> Result<()> {
        try_reserve(&mut self.heap, 1, "n-best list")?;
        self.elements += entry.elements.as_ref().map_or(0, Vec::len);
        self.heap.push(entry);
        let mut at = self.heap.len() - 1;
        while at > 0 && order(&self.heap[at], &self.heap[(at - 1) / 2], prefixes).is_lt() {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
        Ok(())
    }

    pub fn pop(&mut self, prefixes: &Prefixes) -> Option<Entry> {
        let last = self.heap.len().checked_sub(1)?;
        self.heap.swap(0, last);
        let entry = self.heap.pop()?;
        self.elements -= entry.elements.as_ref().map_or(0, Vec::len);
        self.sift_down(0, prefixes);
        Some(entry)
    }

    fn sift_down(&mut self, mut at: usize, prefixes: &Prefixes) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && order(&self.heap[child], &self.heap[least], prefixes).is_lt() {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    /// Drops what is worse than the best `count`, now and then.
    pub fn keep_best(&mut self, count: usize, prefixes: &Prefixes) {
        if self.heap.len() / 2 <= count.max(32) {
            return;
        }
        self.heap.select_nth_unstable_by(count, |a, b| order(a, b, prefixes));
        self.heap.truncate(count);
        self.elements = self.heap.iter().map(|entry| entry.elements.as_ref().map_or(0, Vec::len)).sum();
        (0..self.heap.len() / 2).rev().for_each(|at| self.sift_down(at, prefixes));
    }

    pub fn bytes(&self) -> usize {
        self.heap.len() * size_of::<Entry>() + self.elements * size_of::<Element>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_ordered_as_their_words() {
        let mut prefixes = Prefixes::default();
        let mut all = vec![prefixes.add(None, 0).unwrap()];
        for at in 0..400u32 {
            // Long lines and forks near their ends; no two with one word after the same prefix.
            let parent = all[if at % 7 == 0 { at - at / 5 } else { at } as usize];
            all.push(prefixes.add(Some(parent), (at * 37 % 401) as i32).unwrap());
        }
        let words = |prefix| {
            let mut words = Vec::new();
            prefixes.words(prefix, &mut words).unwrap();
            words
        };
        let mut longest = 0;
        for &one in &all {
            longest = longest.max(words(one).len());
            for &other in &all {
                assert_eq!(prefixes.compare(one, other), words(one).cmp(&words(other)), "{one} {other}");
            }
        }
        assert!(longest > 50, "{longest}");
    }
}
