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
        while let Some(level) = self.next() {
            self.heads[level] = NONE;
        }
        self.pool.clear();
        self.first_word = 0;
    }

    /// Room for `more` tokens.
    pub(super) fn reserve(&mut self, more: usize) -> Result<()> {
        try_reserve(&mut self.pool, more, "epsilon levels")
    }

    /// Adds a token of `level`, which is above the last one taken.
    #[inline(always)]
    pub(super) fn push(&mut self, level: u32, token: u32) -> Result<()> {
        try_reserve(&mut self.pool, 1, "epsilon levels")?;
        let head = &mut self.heads[level as usize];
        self.pool.push((token, *head));
        *head = self.pool.len() as u32 - 1;
        self.waiting[level as usize / 64] |= 1 << (level % 64);
        Ok(())
    }

    /// The least level that waits, whose tokens take the place of what is in `tokens`.
    pub(super) fn take(&mut self, tokens: &mut Vec<u32>) -> Result<Option<u32>> {
        tokens.clear();
        let Some(level) = self.next() else { return Ok(None) };
        let mut next = std::mem::replace(&mut self.heads[level], NONE);
        try_reserve(tokens, self.pool.len(), "epsilon levels")?;
        while next != NONE {
            let (token, after) = self.pool[next as usize];
            tokens.push(token);
            next = after;
        }
        Ok(Some(level as u32))
    }

    /// The least level that waits, which does so no more.
    fn next(&mut self) -> Option<usize> {
        while let Some(word) = self.waiting.get_mut(self.first_word) {
            if *word != 0 {
                let level = self.first_word * 64 + word.trailing_zeros() as usize;
                *word &= *word - 1;
                return Some(level);
            }
            self.first_word += 1;
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
    fn levels_come_in_order_also_what_came_later() {
        let mut queue = LevelQueue::new(200).unwrap();
        let mut tokens = vec![7];
        queue.push(130, 1).unwrap();
        queue.push(0, 2).unwrap();
        queue.push(0, 3).unwrap();
        assert_eq!(queue.take(&mut tokens).unwrap(), Some(0));
        tokens.sort();
        assert_eq!(tokens, [2, 3]);
        queue.push(1, 4).unwrap();
        assert_eq!((queue.take(&mut tokens).unwrap(), tokens.as_slice()), (Some(1), &[4][..]));
        assert_eq!((queue.take(&mut tokens).unwrap(), tokens.as_slice()), (Some(130), &[1][..]));
        assert_eq!((queue.take(&mut tokens).unwrap(), tokens.len()), (None, 0));
        for level in [3, 70] {
            queue.clear();
            queue.push(level, 9).unwrap();
        }
        queue.clear();
        assert_eq!(queue.take(&mut tokens).unwrap(), None);
        queue.clear();
        queue.push(3, 5).unwrap();
        assert_eq!((queue.take(&mut tokens).unwrap(), tokens.as_slice()), (Some(3), &[5][..]));
    }
}
