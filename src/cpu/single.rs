//! Single times of channels that another backend holds.

use std::sync::Arc;

use super::channel::{CpuChannel, Shared};
use super::expand::{Emitter, Emitters};
use super::lanes::CpuLanes;
use crate::error::{Result, try_reserve};
use crate::search::{ChannelState, SearchConfig, SearchStats, TimeSearch};

impl TimeSearch for CpuLanes {
    fn search_time(&self, config: &SearchConfig, lent: ChannelState<'_>, row: Option<&[f32]>) -> Result<()> {
        let mut scratch = self.scratches.take()?;
        let shared = Arc::new(Shared { graph: Arc::clone(&self.shared.graph), config: *config });
        let mut channel = CpuChannel::new(shared);
        channel.emitters.unpack(lent.emitting, lent.history.last_bias())?;
        channel.next_beam = *lent.next_beam;
        channel.stats = *lent.stats;
        std::mem::swap(&mut channel.history, lent.history);
        let least = channel.history.least;
        let searched = match row {
            Some(row) => channel.advance_frame(row, &mut scratch),
            None => channel.search_time_0(&mut scratch),
        };
        let taken = searched.and_then(|()| channel.emitters.pack(lent.emitting).inspect_err(|_| channel.undo(least)));
        std::mem::swap(&mut channel.history, lent.history);
        if taken.is_ok() {
            *lent.next_beam = channel.next_beam;
            *lent.stats = channel.stats;
        } else if row.is_none() {
            lent.emitting.clear();
            *lent.stats = SearchStats::default();
        }
        taken
    }
}

impl CpuChannel {
    /// Takes the last time back out of the history, whose least cost before it was `least`.
    fn undo(&mut self, least: f32) {
        if let Some(start) = self.history.younger.starts.pop() {
            self.history.younger.cut(start);
        }
        self.history.least = least;
    }
}

impl Emitters {
    /// Takes triples of state, cost and place; `bias` states are those of all tokens of the time, if they have any.
    fn unpack(&mut self, triples: &[u32], bias: &[u32]) -> Result<()> {
        let count = triples.len() / 3;
        try_reserve(&mut self.list, count, "emitting tokens")?;
        let emitter = |triple: &[u32]| Emitter { state: triple[0], cost: f32::from_bits(triple[1]), token: triple[2] };
        self.list.extend(triples.chunks_exact(3).map(emitter));
        if !bias.is_empty() {
            try_reserve(&mut self.bias, count, "emitting tokens")?;
            self.bias.extend(self.list.iter().map(|emitter| bias[emitter.token as usize]));
        }
        Ok(())
    }

    /// Gives triples of state, cost and place. On an error `triples` is as it was.
    fn pack(&self, triples: &mut Vec<u32>) -> Result<()> {
        try_reserve(triples, (3 * self.list.len()).saturating_sub(triples.len()), "emitting tokens")?;
        triples.clear();
        for &Emitter { state, cost, token } in &self.list {
            triples.extend_from_slice(&[state, cost.to_bits(), token]);
        }
        Ok(())
    }
}
