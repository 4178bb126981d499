//! Graph state, with its bias state if there are phrases → token of the present time: open addressing, emptied in constant time.
//!
//! A slot is live if its tag carries the present epoch, so starting a frame is a matter of
//! counting up. The tag's low bits are the token; as many as the table's size needs.

use std::hint::select_unpredictable;

use crate::error::{Error, Result};
use crate::prefetch::prefetch;

/// What names a token.
pub(super) trait Key: Copy + Eq + Default {
    /// A key and a tag.
    type Slot: Copy + Default;
    /// 32 bits, the high ones of which depend on all of the key.
    fn mixed(self) -> u32;
    /// The slot of this key with that tag.
    fn slot(self, tag: u32) -> Self::Slot;
    /// The same with more bits in the tag.
    fn tagged(slot: Self::Slot, more: u32) -> Self::Slot;
    /// In which bits two slots differ: those of the tag in the high half, in the low half at least one of the key's.
    fn difference(slot: Self::Slot, other: Self::Slot) -> u64;
}

impl Key for u32 {
    /// As one number, so that there is one of all that is done with it.
    type Slot = u64;

    #[inline(always)]
    fn mixed(self) -> u32 {
        self.wrapping_mul(0x9e37_79b1)
    }

    #[inline(always)]
    fn slot(self, tag: u32) -> u64 {
        u64::from(tag) << 32 | u64::from(self)
    }

    #[inline(always)]
    fn tagged(slot: u64, more: u32) -> u64 {
        slot | u64::from(more) << 32
    }

    #[inline(always)]
    fn difference(slot: u64, other: u64) -> u64 {
        slot ^ other
    }
}

impl Key for u64 {
    type Slot = (u64, u32);

    #[inline(always)]
    fn mixed(self) -> u32 {
        (self.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    #[inline(always)]
    fn slot(self, tag: u32) -> (u64, u32) {
        (self, tag)
    }

    #[inline(always)]
    fn tagged((key, tag): (u64, u32), more: u32) -> (u64, u32) {
        (key, tag | more)
    }

    #[inline(always)]
    fn difference(slot: (u64, u32), other: (u64, u32)) -> u64 {
        let key = slot.0 ^ other.0;
        u64::from(slot.1 ^ other.1) << 32 | u64::from((key >> 32 | key) as u32)
    }
}

/// The table. Its size follows the number of tokens expected in a frame, so that it stays in
/// the first-level cache when they are few.
pub(super) struct StateHash<K: Key> {
    slots: Vec<K::Slot>,
    /// Low bits of a tag that hold the token.
    token_bits: u32,
    epoch: u32,
    /// Slots in use for this frame: a power of two.
    size: usize,
}

const LEAST_SIZE: usize = 64;
const MOST_SIZE: usize = 1 << 31;

impl<K: Key> StateHash<K> {
    pub(super) fn new() -> StateHash<K> {
        StateHash { slots: Vec::new(), token_bits: 0, epoch: 0, size: 0 }
    }

    /// Empties the table and makes it fit about `expected` tokens: three slots each.
    pub(super) fn start(&mut self, expected: usize) -> Result<()> {
        let size = expected.saturating_mul(3).clamp(LEAST_SIZE, MOST_SIZE).next_power_of_two();
        if size > self.slots.len() {
            let mut slots = Vec::new();
            slots.try_reserve_exact(size).map_err(|_| Error::NoMemory {
                what: "state hash".into(),
                asked: (size * size_of::<K::Slot>()) as u64,
            })?;
            slots.resize(size, K::Slot::default());
            self.slots = slots;
            self.token_bits = size.trailing_zeros();
            self.epoch = 0;
        }
        self.size = size;
        self.epoch += 1;
        if u64::from(self.epoch) << self.token_bits > u64::from(u32::MAX) {
            self.slots.fill(K::Slot::default());
            self.epoch = 1;
        }
        Ok(())
    }

    /// The table as it is now, to look tokens up in.
    #[inline(always)]
    pub(super) fn slots(&mut self) -> Slots<'_, K> {
        Slots {
            live: self.epoch << self.token_bits,
            stale: u64::MAX << self.token_bits << 32,
            shift: 32 - self.size.trailing_zeros(),
            slots: &mut self.slots[..self.size],
        }
    }

    /// How many tokens load the table to three quarters, which is the most.
    #[inline(always)]
    pub(super) fn fits(&self) -> usize {
        self.size / 4 * 3
    }

    /// Moves to a table twice the size; `keys` are those of the tokens so far, in order.
    #[cold]
    pub(super) fn grow(&mut self, keys: impl Iterator<Item = K>) -> Result<()> {
        if self.size >= MOST_SIZE {
            return Err(Error::Limit("more tokens at one time than 2^30".into()));
        }
        self.start(self.size / 2)?; // three times this passes the present size
        let mut slots = self.slots();
        for (token, key) in keys.enumerate() {
            slots.find_or_insert(key, token as u32);
        }
        Ok(())
    }

    pub(super) fn memory(&self) -> usize {
        self.slots.len() * size_of::<K::Slot>()
    }
}

/// The slots of the present time, and all that a look-up needs, for a loop to keep in registers.
pub(super) struct Slots<'a, K: Key> {
    /// A power of two of them.
    slots: &'a mut [K::Slot],
    /// The tag of token 0.
    live: u32,
    /// The bits of the epoch, as they stand in a difference.
    stale: u64,
    /// What is left of 32 bits is a slot's number.
    shift: u32,
}

impl<K: Key> Slots<'_, K> {
    /// Asks for the memory of the first slot that a look-up of `key` looks at.
    #[inline(always)]
    pub(super) fn prefetch(&self, key: K) {
        prefetch(self.slots.as_ptr().wrapping_add(self.first(key)));
    }

    #[inline(always)]
    fn first(&self, key: K) -> usize {
        (key.mixed() >> self.shift) as usize
    }

    /// The token of `key`, and whether it is new: then it is `next`, the number of tokens so
    /// far. The caller keeps `next` below what [`StateHash::fits`] gives.
    #[inline(always)]
    pub(super) fn find_or_insert(&mut self, key: K, next: u32) -> (u32, bool) {
        let this = key.slot(self.live);
        let mut at = self.first(key);
        loop {
            debug_assert!(at < self.slots.len());
            // SAFETY: `shift` leaves so many bits as a number below `slots.len()` has, here and below.
            let slot = unsafe { self.slots.get_unchecked_mut(at) };
            let other = K::difference(*slot, this);
            let stale = other & self.stale; // none in a slot of this epoch
            // Occupied by another key is rare; new or found is a coin toss. So the first alone is a branch,
            // and one comparison, of which the compiler cannot make two branches.
            if other & u64::from(u32::MAX) <= stale {
                let new = stale != 0;
                let token = select_unpredictable(new, next, (other >> 32) as u32);
                *slot = K::tagged(this, token);
                return (token, new);
            }
            at = (at + 1) & (u32::MAX >> self.shift) as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn equals_a_map_over_many_frames() {
        compare(|state| state);
        compare(|state| u64::from(state % 7) << 32 | u64::from(state / 7));
    }

    fn compare<K: Key + std::hash::Hash>(key: impl Fn(u32) -> K) {
        let mut hash = StateHash::new();
        let mut seed = 7u64;
        for frame in 0..if cfg!(miri) { 12 } else { 3_000usize } {
            let count = 1 + frame % 97;
            hash.start(count / 4).unwrap();
            let mut map: HashMap<K, u32> = HashMap::new();
            let mut states = Vec::new();
            for _ in 0..count * 3 {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let state = key((seed >> 40) as u32 % 200);
                if states.len() >= hash.fits() {
                    hash.grow(states.iter().copied()).unwrap();
                }
                let (token, new) = hash.slots().find_or_insert(state, states.len() as u32);
                assert_eq!(new, !map.contains_key(&state));
                assert_eq!(token, *map.entry(state).or_insert(states.len() as u32));
                if new {
                    states.push(state);
                }
            }
        }
    }

    #[test]
    fn epochs_wrap() {
        let mut hash = StateHash::<u32>::new();
        hash.start(1 << 14).unwrap(); // 65,536 slots: 16 bits of epoch
        for _ in 0..70_000 {
            hash.start(1).unwrap();
            assert_eq!(hash.slots().find_or_insert(5, 0), (0, true));
            assert_eq!(hash.slots().find_or_insert(5, 1), (0, false));
        }
    }
}
