//! States and arcs of a `vector` or `const` file, read in place.

use std::ops::Range;

use super::feed::{Feed, Slice};
use super::mapped::Behind;
use super::openfst::{Head, Kind};
use super::source::{GraphArc, Source};
use crate::error::{Error, Result, try_reserve};
use crate::table::Output;

/// Bytes of an arc: `i32` ilabel, `i32` olabel, `f32` weight, `i32` next state.
pub(super) const ARC: usize = 16;
/// Bytes of a state in a `const` file: `f32` final cost, `u32` index of its first arc, of
/// its number of arcs, of those with ilabel 0, of those with olabel 0.
pub(super) const CONST_STATE: usize = 20;
/// Bytes before the arcs of a state in a `vector` file: `f32` final cost, `i64` number of arcs.
pub(super) const VECTOR_STATE: usize = 12;
/// The parts of an aligned `const` file begin at multiples of this many bytes.
pub(super) const ALIGNMENT: u64 = 16;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    match bytes[at..] {
        [a, b, c, d, ..] => u32::from_le_bytes([a, b, c, d]),
        _ => 0,
    }
}

fn f32_at(bytes: &[u8], at: usize) -> f32 {
    f32::from_bits(u32_at(bytes, at))
}

#[inline(always)]
fn arc_of(bytes: &[u8; ARC]) -> GraphArc {
    GraphArc {
        ilabel: u32_at(bytes, 0) as i32,
        olabel: u32_at(bytes, 4) as i32,
        weight: f32_at(bytes, 8),
        next: u32_at(bytes, 12),
    }
}

/// Passes over the padding of an aligned file.
pub(super) fn skip_padding(feed: &mut impl Feed) -> Result<()> {
    let padding = feed.position().next_multiple_of(ALIGNMENT) - feed.position();
    feed.take(padding, "padding").map(|_| ())
}

/// A `const` file. Its states agree with the number of its arcs.
pub(super) struct ConstRecords<'a> {
    name: &'a str,
    start: Option<u32>,
    states: &'a [[u8; CONST_STATE]],
    /// Offset of the first state, for messages.
    states_at: u64,
    arcs: &'a [[u8; ARC]],
    behind: Behind<'a>,
}

impl<'a> ConstRecords<'a> {
    /// What follows `head`. The arcs of the states must follow one another without gap or overlap.
    pub fn new(name: &'a str, head: &Head, mut rest: Slice<'a>, behind: Behind<'a>) -> Result<ConstRecords<'a>> {
        let (num_states, num_arcs) = (head.num_states.unwrap_or(0), head.num_arcs.unwrap_or(0));
        let aligned = head.kind == Kind::Const { aligned: true };
        if aligned {
            skip_padding(&mut rest)?;
        }
        let states_at = rest.position();
        let states = rest.rest();
        rest.take(u64::from(num_states) * CONST_STATE as u64, &format!("{num_states} states"))?;
        if aligned {
            skip_padding(&mut rest)?;
        }
        let arcs = rest.rest();
        rest.take(u64::from(num_arcs) * ARC as u64, &format!("{num_arcs} arcs"))?;
        let records = ConstRecords {
            name,
            start: head.start,
            states: &states.as_chunks().0[..num_states as usize],
            states_at,
            arcs: &arcs.as_chunks().0[..num_arcs as usize],
            behind,
        };
        records.check_positions()?;
        Ok(records)
    }

    fn check_positions(&self) -> Result<()> {
        let mut sum = 0u64;
        for (state, record) in (0u32..).zip(self.states) {
            let (first, count) = (u32_at(record, 4), u32_at(record, 8));
            if u64::from(first) != sum {
                return Err(self.fault(state, 4, format!("its arcs begin at {first}, expected {sum}")));
            }
            sum += u64::from(count);
            if sum > self.arcs.len() as u64 {
                let message = format!("its {count} arcs go past the {} of the file", self.arcs.len());
                return Err(self.fault(state, 8, message));
            }
        }
        if sum < self.arcs.len() as u64 {
            let end = self.states_at + (self.states.len() * CONST_STATE) as u64;
            let message = format!("the states have {sum} arcs together, the file says {}", self.arcs.len());
            return Err(Error::format(self.name, end, message));
        }
        Ok(())
    }

    fn fault(&self, state: u32, field: u64, message: String) -> Error {
        let at = self.states_at + u64::from(state) * CONST_STATE as u64 + field;
        Error::format(self.name, at, format!("state {state}: {message}"))
    }
}

impl Source for ConstRecords<'_> {
    fn num_states(&self) -> u32 {
        self.states.len() as u32
    }

    fn start(&self) -> Option<u32> {
        self.start
    }

    fn final_cost(&self, state: u32) -> f32 {
        self.states.get(state as usize).map_or(f32::INFINITY, |record| f32_at(record, 0))
    }

    #[inline]
    fn arcs(&self, state: u32) -> impl Iterator<Item = GraphArc> {
        let arcs = self.states.get(state as usize).and_then(|record| {
            let first = u32_at(record, 4) as usize;
            self.arcs.get(first..)?.get(..u32_at(record, 8) as usize)
        });
        arcs.unwrap_or(&[]).iter().map(arc_of)
    }

    fn counts(&self, state: u32) -> (u32, u32) {
        let Some(record) = self.states.get(state as usize) else { return (0, 0) };
        let (count, epsilons) = (u32_at(record, 8), u32_at(record, 12));
        let epsilons = epsilons.min(count); // more than all cannot be; the arcs will tell
        (count - epsilons, epsilons)
    }

    fn passed(&self, states: Range<u32>) {
        let Some(records) = self.states.get(states.start as usize..states.end as usize) else { return };
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return };
        let (from, to) = (u32_at(first, 4) as usize, u32_at(last, 4) as usize);
        self.behind.drop(records.as_flattened()); // read for the last time
        self.behind.drop(self.arcs.get(from..to).unwrap_or(&[]).as_flattened());
    }

    fn check_epsilons(&self, state: u32, input: u32, output: u32) -> Result<()> {
        let record = &self.states[state as usize];
        for (field, what, found) in [(12, "ilabel", input), (16, "olabel", output)] {
            let said = u32_at(record, field);
            if said != found {
                let message = format!("said to have {said} arcs with {what} 0, it has {found}");
                return Err(self.fault(state, field as u64, message));
            }
        }
        Ok(())
    }
}

/// A `vector` file. Its states and arcs are all there.
pub(super) struct VectorRecords<'a> {
    start: Option<u32>,
    bytes: &'a [u8],
    /// Number of arcs before each state, and behind the last.
    before: Vec<u32>,
    behind: Behind<'a>,
}

impl<'a> VectorRecords<'a> {
    /// What follows `head`.
    pub fn new(head: &Head, mut rest: Slice<'a>, behind: Behind<'a>) -> Result<VectorRecords<'a>> {
        let bytes = rest.rest();
        let mut before: Vec<u32> = Vec::new();
        if let Some(count) = head.num_states {
            let least = u64::from(count) * VECTOR_STATE as u64;
            if least > bytes.len() as u64 {
                return Err(rest.fault(format!("{count} states take {least} bytes; {} follow", bytes.len())));
            }
            try_reserve(&mut before, count as usize + 1, "places of states")?;
        }
        let mut sum = 0u64;
        while head.num_states.map_or(!rest.rest().is_empty(), |count| before.len() < count as usize) {
            try_reserve(&mut before, 1, "places of states")?;
            before.push(sum as u32);
            sum += skip_vector_state(&mut rest, before.len() - 1)?;
            if sum > u64::from(u32::MAX) || before.len() > i32::MAX as usize {
                let what = format!("{} states and {sum} arcs", before.len());
                return Err(Error::Graph(format!("{what}; the limits are {} and {}", i32::MAX, u32::MAX)));
            }
        }
        if let Some(said) = head.num_arcs.filter(|&said| u64::from(said) != sum) {
            return Err(rest.fault(format!("the head says that there are {said} arcs, there are {sum}")));
        }
        try_reserve(&mut before, 1, "places of states")?;
        before.push(sum as u32);
        Ok(VectorRecords { start: head.start, bytes, before, behind })
    }
}

impl VectorRecords<'_> {
    /// Where `state` begins; there is such a place behind the last state too.
    fn place(&self, state: u32) -> Option<usize> {
        let before = *self.before.get(state as usize)?;
        Some(state as usize * VECTOR_STATE + before as usize * ARC)
    }
}

/// Passes over a state of a `vector` file and gives the number of its arcs.
pub(super) fn skip_vector_state(feed: &mut impl Feed, state: usize) -> Result<u64> {
    let at = feed.position();
    let record: [u8; VECTOR_STATE] = feed.array("a state")?;
    let count = i64::from(u32_at(&record, 4)) | i64::from(u32_at(&record, 8) as i32) << 32;
    match u64::try_from(count).ok().and_then(|count| count.checked_mul(ARC as u64)) {
        Some(len) => {
            feed.take(len, "the arcs of a state")?;
            Ok(count as u64)
        }
        None => Err(Error::format(feed.name(), at + 4, format!("state {state} is said to have {count} arcs"))),
    }
}

impl Source for VectorRecords<'_> {
    fn num_states(&self) -> u32 {
        self.before.len() as u32 - 1
    }

    fn start(&self) -> Option<u32> {
        self.start
    }

    fn final_cost(&self, state: u32) -> f32 {
        let at = self.place(state);
        at.and_then(|at| self.bytes.get(at..at + VECTOR_STATE)).map_or(f32::INFINITY, |record| f32_at(record, 0))
    }

    #[inline]
    fn arcs(&self, state: u32) -> impl Iterator<Item = GraphArc> {
        let state = state as usize;
        let arcs = self.before.get(state..).and_then(|before| {
            let [from, to, ..] = *before else { return None };
            let at = (state + 1) * VECTOR_STATE + from as usize * ARC;
            self.bytes.get(at..at + (to - from) as usize * ARC)
        });
        arcs.unwrap_or(&[]).as_chunks().0.iter().map(arc_of)
    }

    fn passed(&self, states: Range<u32>) {
        if let (Some(from), Some(to)) = (self.place(states.start), self.place(states.end)) {
            self.behind.drop(self.bytes.get(from..to).unwrap_or(&[]));
        }
    }
}

/// Writes a state of a `vector` file with its arcs.
pub(super) fn write_vector_state(output: &mut Output, cost: f32, arcs: &[GraphArc]) -> Result<()> {
    output.write_all(&cost.to_le_bytes())?;
    output.write_all(&(arcs.len() as i64).to_le_bytes())?;
    for arc in arcs {
        output.write_all(&arc.ilabel.to_le_bytes())?;
        output.write_all(&arc.olabel.to_le_bytes())?;
        output.write_all(&arc.weight.to_le_bytes())?;
        output.write_all(&arc.next.to_le_bytes())?;
    }
    Ok(())
}
