//! Tokens waiting for the epsilon closure, by level.

use crate::error::{Result, try_reserve};

const NONE: u32 = u32::MAX;

/// One stack a level, as linked lists in one pool, and a bitmap of the levels that wait.
/// Constant work a token, whatever the number of levels.
#[derive(Debug)]
pub(super) struct LevelQueue {
    heads: Vec<u32>,
    waiting: Vec<u64>,
    /// (token, next entry)
    pool: Vec<(u32, u32)>,
    /// No level below this word of `waiting` waits.
    first_word: usize,
}

impl LevelQueue {
    /// A queue for levels up to `max_level`.
    pub(super) fn new(max_level: u32) -> Result<LevelQueue> {
        let levels = max_level as usize + 1;
        let (mut heads, mut waiting) = (Vec::new(), Vec::new());
        try_reserve(&mut heads, levels, "epsilon levels")?;
        heads.resize(levels, NONE);
        try_reserve(&mut waiting, levels / 64 + 1, "epsilon levels")?;
        waiting.resize(levels / 64 + 1, 0);
        Ok(LevelQueue { heads, waiting, pool: Vec::new(), first_word: 0 })
    }

    /// Forgets what an abandoned frame left.
    pub(super) fn clear(&mut self) {
        while self.pop().is_some() {}
        self.pool.clear();
        self.first_word = 0;
    }

    /// Room for `more` tokens.
    pub(super) fn reserve(&mut self, more: usize) -> Result<()> {
        try_reserve(&mut self.pool, more, "epsilon levels")
    }

    /// Adds a token of `level`, which is above that of the last one popped.
    #[inline(always)]
    pub(super) fn push(&mut self, level: u32, token: u32) -> Result<()> {
        try_reserve(&mut self.pool, 1, "epsilon levels")?;
        let head = &mut self.heads[level as usize];
        self.pool.push((token, *head));
        *head = self.pool.len() as u32 - 1;
        self.waiting[level as usize / 64] |= 1 << (level % 64);
        Ok(())
    }

    /// A token of the least level that waits.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<u32> {
        while let Some(&word) = self.waiting.get(self.first_word) {
            if word == 0 {
                self.first_word += 1;
                continue;
            }
            let level = self.first_word * 64 + word.trailing_zeros() as usize;
            let (token, next) = self.pool[self.heads[level] as usize];
            self.heads[level] = next;
            if next == NONE {
                self.waiting[self.first_word] &= word - 1;
            }
            return Some(token);
        }
        None
    }

    pub(super) fn memory(&self) -> usize {
        self.heads.len() * 4 + self.waiting.len() * 8 + self.pool.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::LevelQueue;

    #[test]
    fn pops_by_level_also_what_came_later() {
        let mut queue = LevelQueue::new(200).unwrap();
        queue.push(130, 1).unwrap();
        queue.push(0, 2).unwrap();
        queue.push(0, 3).unwrap();
        let mut first = [queue.pop(), queue.pop()];
        first.sort();
        assert_eq!(first, [Some(2), Some(3)]);
        queue.push(1, 4).unwrap();
        assert_eq!(queue.pop(), Some(4));
        assert_eq!(queue.pop(), Some(1));
        assert_eq!(queue.pop(), None);
        queue.clear();
        queue.push(3, 9).unwrap();
        queue.clear();
        assert_eq!(queue.pop(), None);
    }
}
