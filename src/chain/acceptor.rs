//! Acceptors: FSTs with one label an arc, as OpenFst stores them compactly.
//!
//! ```text
//! i32 magic, string "compact_acceptor", string "standard", i32 version, i32 flags, u64 properties,
//! i64 start, i64 states, i64 arcs, symbol tables where flags 1 and 2 say so,
//! u32 offsets[states + 1], then elements of i32 label, f32 cost, i32 next
//! ```
//!
//! A final cost is an element with label and next state -1, the first of its state. Version 1, or flag 4, pads to 16
//! bytes before both arrays. Facts from OpenFst's `compact-fst.h`.

use crate::error::{Error, Result, try_copy, try_filled, try_reserve};
use crate::graph::{FstBytes, VecSource};
use crate::table::{Input, Output, SymbolTable};

const MAGIC: i32 = 0x7eb2_fdd6;
const HAS_ISYMBOLS: i32 = 1;
const HAS_OSYMBOLS: i32 = 2;
const IS_ALIGNED: i32 = 4;
/// Property bits that hold of all acceptors: expanded, acceptor.
const PROPERTIES: u64 = 0x1_0001;
const NO_LABEL: i32 = -1;
const TYPE: &str = "compact_acceptor";
const WHAT: &str = "supervision FST";

/// An arc of an [`Acceptor`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AcceptorArc {
    /// Pdf + 1.
    pub label: i32,
    /// Cost.
    pub cost: f32,
    /// Destination.
    pub next: u32,
}

/// States and arcs; the start state is 0. What was read is checked: labels are above 0, states there, costs neither
/// NaN nor `-inf`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Acceptor {
    /// Arcs of state s are `offsets[s]..offsets[s + 1]`.
    pub(super) offsets: Vec<u32>,
    pub(super) arcs: Vec<AcceptorArc>,
    /// Final cost of each state, `+inf` where it is not final.
    pub(super) finals: Vec<f32>,
}

impl Acceptor {
    /// A copy; fails only for lack of memory.
    pub(super) fn try_clone(&self) -> Result<Acceptor> {
        Ok(Acceptor {
            offsets: try_copy(&self.offsets, WHAT)?,
            arcs: try_copy(&self.arcs, WHAT)?,
            finals: try_copy(&self.finals, WHAT)?,
        })
    }

    /// Adds copies of `fsts` to a list; fails only for lack of memory.
    pub(super) fn copy_all(fsts: &[Acceptor], to: &mut Vec<Acceptor>) -> Result<()> {
        try_reserve(to, fsts.len(), WHAT)?;
        for fst in fsts {
            to.push(fst.try_clone()?);
        }
        Ok(())
    }

    /// Number of states.
    pub fn num_states(&self) -> usize {
        self.finals.len()
    }

    /// Arcs of a state, in the order of the file; none for a state that is not there.
    pub fn arcs(&self, state: usize) -> &[AcceptorArc] {
        let bounds = (self.offsets.get(state), self.offsets.get(state.saturating_add(1)));
        let (Some(&begin), Some(&end)) = bounds else { return &[] };
        self.arcs.get(begin as usize..end as usize).unwrap_or_default()
    }

    /// Final cost of each state, `+inf` where it is not final.
    pub fn finals(&self) -> &[f32] {
        &self.finals
    }

    /// Number of arcs.
    pub fn num_arcs(&self) -> usize {
        self.arcs.len()
    }

    /// Ends the arcs of a state.
    pub(super) fn end_state(&mut self, final_cost: f32) -> Result<()> {
        if self.offsets.is_empty() {
            try_reserve(&mut self.offsets, 1, WHAT)?;
            self.offsets.push(0);
        }
        let end = u32::try_from(self.arcs.len());
        let end = end.map_err(|_| Error::Limit(format!("{WHAT}: more than 2^32 - 1 arcs")))?;
        try_reserve(&mut self.offsets, 1, WHAT)?;
        try_reserve(&mut self.finals, 1, WHAT)?;
        self.offsets.push(end);
        self.finals.push(final_cost);
        Ok(())
    }

    /// Adds an arc to the state that is being made.
    pub(super) fn push(&mut self, arc: AcceptorArc) -> Result<()> {
        try_reserve(&mut self.arcs, 1, WHAT)?;
        self.arcs.push(arc);
        Ok(())
    }

    /// Reads one acceptor, in binary a `compact_acceptor`, in text lines up to an empty one. Labels are checked to be
    /// 1 to `most`.
    pub(super) fn read(input: &mut Input, binary: bool, most: i32) -> Result<Acceptor> {
        let at = input.offset();
        let (acceptor, start) = match binary {
            true => read_compact(input)?,
            false => from_source(&FstBytes::read(input)?.to_source()?)?,
        };
        let checked = acceptor.check(start, most);
        checked.map_err(|error| error.context(format!("{}: FST at byte {at}", input.name())))?;
        Ok(acceptor)
    }

    fn check(&self, start: Option<u32>, most: i32) -> Result<()> {
        let fault = |state: usize, what: String| Err(Error::Graph(format!("state {state}: {what}")));
        match start {
            Some(0) => {}
            Some(state) => return Err(Error::Graph(format!("the start state is {state}; it must be 0"))),
            None => return Err(Error::Graph("there is no start state".to_string())),
        }
        if self.num_states() == 0 {
            return Err(Error::Graph("there are no states".to_string()));
        }
        let bad = |cost: f32| cost.is_nan() || cost == f32::NEG_INFINITY;
        for (state, &final_cost) in self.finals.iter().enumerate() {
            if bad(final_cost) {
                return fault(state, format!("the final cost is {final_cost}"));
            }
            for arc in self.arcs(state) {
                if arc.label == 0 {
                    return fault(state, "an arc has label 0: epsilons have to be removed first".to_string());
                }
                if !(1..=most).contains(&arc.label) {
                    return fault(state, format!("an arc has label {}; it must be 1 to {most}", arc.label));
                }
                if arc.next as usize >= self.num_states() {
                    return fault(state, format!("an arc leads to state {} of {}", arc.next, self.num_states()));
                }
                if bad(arc.cost) {
                    return fault(state, format!("an arc has cost {}", arc.cost));
                }
            }
        }
        if self.finals.iter().all(|cost| *cost == f32::INFINITY) {
            return Err(Error::Graph("there is no final state".to_string()));
        }
        Ok(())
    }

    /// Writes the acceptor in the form that is read.
    pub(super) fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        if !binary {
            return self.write_text(output);
        }
        output.write_all(&MAGIC.to_le_bytes())?;
        for name in [TYPE, "standard"] {
            output.write_all(&(name.len() as i32).to_le_bytes())?;
            output.write_all(name.as_bytes())?;
        }
        output.write_all(&2i32.to_le_bytes())?; // version
        output.write_all(&0i32.to_le_bytes())?; // flags
        output.write_all(&PROPERTIES.to_le_bytes())?;
        for number in [0, self.num_states(), self.num_arcs()] {
            output.write_all(&(number as i64).to_le_bytes())?;
        }
        let mut offset = 0u32;
        output.write_all(&offset.to_le_bytes())?;
        for (state, &cost) in self.finals.iter().enumerate() {
            let elements = self.arcs(state).len() as u32 + u32::from(cost != f32::INFINITY);
            let end = offset.checked_add(elements);
            offset = end.ok_or_else(|| Error::Unsupported(format!("{WHAT}: too many arcs for the format")))?;
            output.write_all(&offset.to_le_bytes())?;
        }
        let mut element = |label: i32, cost: f32, next: i32| {
            output.write_all(&label.to_le_bytes())?;
            output.write_all(&cost.to_le_bytes())?;
            output.write_all(&next.to_le_bytes())
        };
        for (state, &cost) in self.finals.iter().enumerate() {
            if cost != f32::INFINITY {
                element(NO_LABEL, cost, NO_LABEL)?;
            }
            for arc in self.arcs(state) {
                element(arc.label, arc.cost, arc.next as i32)?;
            }
        }
        Ok(())
    }

    fn write_text(&self, output: &mut Output) -> Result<()> {
        let cost = |cost: f32| match cost {
            0.0 => String::new(),
            f32::INFINITY => "\tInfinity".to_string(),
            cost => format!("\t{}", crate::table::format_general(cost.into(), 7)),
        };
        output.write_text("\n")?;
        for (state, &final_cost) in self.finals.iter().enumerate() {
            for arc in self.arcs(state) {
                let AcceptorArc { label, next, .. } = arc;
                output.write_text(&format!("{state}\t{next}\t{label}\t{label}{}\n", cost(arc.cost)))?;
            }
            if final_cost != f32::INFINITY {
                output.write_text(&format!("{state}{}\n", cost(final_cost)))?;
            }
        }
        output.write_text("\n")
    }
}

fn from_source(source: &VecSource) -> Result<(Acceptor, Option<u32>)> {
    let mut acceptor = Acceptor::default();
    for (final_cost, arcs) in &source.states {
        for arc in arcs {
            acceptor.push(AcceptorArc { label: arc.ilabel, cost: arc.weight, next: arc.next })?;
        }
        acceptor.end_state(*final_cost)?;
    }
    Ok((acceptor, source.start))
}

fn read_compact(input: &mut Input) -> Result<(Acceptor, Option<u32>)> {
    let (start, num_states, aligned) = read_head(input)?;
    skip_padding(input, aligned)?;
    let at = input.offset();
    let offsets = input.read_values(num_states + 1, "offsets of an FST", u32::from_le_bytes)?;
    if offsets.first() != Some(&0) || !offsets.is_sorted() {
        return Err(input.format_error_at(at, "the offsets of the states do not rise from 0"));
    }
    skip_padding(input, aligned)?;
    let at = input.offset();
    let count = u64::from(offsets.last().copied().unwrap_or(0));
    let elements = input.read_values(count, "arcs of an FST", |bytes: [u8; 12]| {
        let part = |from: usize| [bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]];
        (i32::from_le_bytes(part(0)), f32::from_le_bytes(part(4)), i32::from_le_bytes(part(8)))
    })?;
    let mut acceptor = Acceptor::default();
    for (state, bounds) in offsets.windows(2).enumerate() {
        let mut final_cost = f32::INFINITY;
        let own = elements.get(bounds[0] as usize..bounds[1] as usize).unwrap_or_default();
        for (place, &(label, cost, next)) in own.iter().enumerate() {
            if (label, next, place) == (NO_LABEL, NO_LABEL, 0) {
                final_cost = cost;
                continue;
            }
            let Ok(next) = u32::try_from(next) else {
                let byte = at + 12 * (u64::from(bounds[0]) + place as u64);
                return Err(input.format_error_at(byte, format!("state {state}: an arc leads to state {next}")));
            };
            acceptor.push(AcceptorArc { label, cost, next })?;
        }
        acceptor.end_state(final_cost)?;
    }
    Ok((acceptor, start))
}

/// Start state, number of states, and whether arrays are padded.
fn read_head(input: &mut Input) -> Result<(Option<u32>, u64, bool)> {
    let at = input.offset();
    let magic = i32::from_le_bytes(input.read_array()?);
    if magic != MAGIC {
        return Err(
            input.format_error_at(at, format!("expected OpenFst's magic number {MAGIC:#010x}, found {magic:#010x}"))
        );
    }
    for expected in [TYPE, "standard"] {
        let found = read_name(input)?;
        if found != expected {
            return Err(
                input.format_error_at(at, format!("an FST is of type {found:?} where it should be {expected:?}"))
            );
        }
    }
    let version = i32::from_le_bytes(input.read_array()?);
    let flags = i32::from_le_bytes(input.read_array()?);
    if !(1..=2).contains(&version) || flags & !(HAS_ISYMBOLS | HAS_OSYMBOLS | IS_ALIGNED) != 0 {
        return Err(input.format_error_at(at, format!("an FST has version {version} and flags {flags:#x}")));
    }
    let _properties: [u8; 8] = input.read_array()?;
    let place = input.offset();
    let start = i64::from_le_bytes(input.read_array()?);
    let states = i64::from_le_bytes(input.read_array()?);
    let _arcs: [u8; 8] = input.read_array()?;
    let in_range = |number: i64| (-1..i64::from(i32::MAX)).contains(&number);
    let (true, true, Ok(num_states)) = (in_range(start), in_range(states), u64::try_from(states)) else {
        return Err(input.format_error_at(place, format!("an FST has start state {start} of {states} states")));
    };
    for flag in [HAS_ISYMBOLS, HAS_OSYMBOLS] {
        if flags & flag != 0 {
            SymbolTable::skip_binary(input)?;
        }
    }
    Ok((u32::try_from(start).ok(), num_states, version == 1 || flags & IS_ALIGNED != 0))
}

fn read_name(input: &mut Input) -> Result<String> {
    const LONGEST: i32 = 256;
    let at = input.offset();
    let length = i32::from_le_bytes(input.read_array()?);
    if !(0..=LONGEST).contains(&length) {
        return Err(input.format_error_at(at, format!("the type of an FST is said to have {length} bytes")));
    }
    Ok(String::from_utf8_lossy(&input.read_bounded(length as u64, "the type of an FST")?).into_owned())
}

/// Arrays of an aligned FST begin at a multiple of 16 bytes of the file.
fn skip_padding(input: &mut Input, aligned: bool) -> Result<()> {
    let padding = if aligned { input.offset().wrapping_neg() % 16 } else { 0 };
    input.skip(padding, "padding of an FST")
}

/// The time of each state, in arcs from the start: all paths to it must have the same length, states must come in the
/// order of their times, and all final states must have the last one.
pub(super) fn times(fst: &Acceptor) -> Result<Vec<u32>> {
    const UNKNOWN: u32 = u32::MAX;
    let mut times = try_filled(UNKNOWN, fst.num_states(), WHAT)?;
    if let Some(first) = times.first_mut() {
        *first = 0;
    }
    let (mut last, mut end) = (0, None);
    for state in 0..fst.num_states() {
        let time = times[state];
        if time == UNKNOWN {
            return Err(Error::Graph(format!("state {state} is not reached from a state before it")));
        }
        if time < last {
            return Err(Error::Graph(format!("state {state} has time {time}, one before it {last}")));
        }
        last = time;
        for arc in fst.arcs(state) {
            let next = &mut times[arc.next as usize];
            if arc.next as usize <= state || (*next != UNKNOWN && *next != time + 1) {
                let found = if *next == UNKNOWN { "none".to_string() } else { next.to_string() };
                let what = format!("an arc from state {state} at time {time} to state {}", arc.next);
                return Err(Error::Graph(format!("{what}, whose time is {found}")));
            }
            *next = time + 1;
        }
        if fst.finals[state] != f32::INFINITY {
            if end.is_some_and(|end| end != time) {
                return Err(Error::Graph(format!("final states differ in time: state {state} has {time}")));
            }
            end = Some(time);
        }
    }
    // Rows are looked up by time: there is none for what would come behind the last frame.
    if let Some(end) = end.filter(|&end| last > end) {
        return Err(Error::Graph(format!("a state has time {last}, behind the final ones at {end}")));
    }
    Ok(times)
}
