//! Kaldi's lattice files: OpenFst vector FSTs or lines of text, raw or compact.
//!
//! A lattice in a file is either the bytes of an OpenFst vector FST of arc type
//! `lattice4`, `lattice8`, `compactlattice44` or `compactlattice84`, without Kaldi's
//! `\0B` in front, or text: a line end, one line an arc or final state, an empty line.
//! In an archive this follows the key and a space. Acoustic costs are unscaled.

mod binary;
mod holder;
mod stored;
mod text;

use crate::error::{Error, Result, try_reserve};
use crate::table::{Input, Output};

pub use holder::{CompactLatticeHolder, LatticeHolder, RawLatticeHolder, StoredLatticeHolder};
pub use stored::StoredLattice;

use super::{CompactLattice, Lattice, LatticeWeight, Parts, RawLattice};

/// First byte of OpenFst's magic number, which no text begins with.
const FIRST_MAGIC_BYTE: u8 = 0xd6;

impl Parts {
    /// Reads one lattice of either form, binary or text, as it stands. `input` is at the
    /// start of the object: in an archive, after the key and one space. Errors:
    /// [`Error::Format`] with the offset, [`Error::Io`], [`Error::NoMemory`].
    pub fn read(input: &mut Input) -> Result<Parts> {
        read(input).map(|(parts, _)| parts)
    }

    /// Writes the lattice as it stands, states in their order.
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        self.check()?;
        let written = Written::new(self.view(), part_strings(self), self.start, false);
        write(output, binary, written)
    }
}

/// Reads the parts, and the property bits of a binary form.
fn read(input: &mut Input) -> Result<(Parts, Option<u64>)> {
    let start = input.offset();
    let (parts, properties) = match input.peek()? {
        None => return Err(input.format_error("the data ends where a lattice should begin")),
        Some(FIRST_MAGIC_BYTE) => {
            let (parts, properties) = binary::read(input)?;
            (parts, Some(properties))
        }
        Some(byte) if byte.is_ascii_whitespace() || byte.is_ascii_digit() => (text::read(input)?, None),
        Some(byte) => {
            return Err(input.format_error(format!("byte {byte:#04x} begins neither a binary nor a text lattice")));
        }
    };
    parts.check().map_err(|error| at(input, start, error))?;
    Ok((parts, properties))
}

fn part_strings(parts: &Parts) -> Option<(&super::Strings, &super::Strings)> {
    parts.strings.as_ref().map(|strings| (&strings.arcs, &strings.finals))
}

/// What a writer needs of a lattice.
struct Written<'a> {
    view: super::topology::View<'a>,
    /// Strings of arcs and of states, in a compact lattice.
    strings: Option<(&'a super::Strings, &'a super::Strings)>,
    start: Option<u32>,
    /// Property bits of the binary form.
    properties: u64,
    /// Whether costs are written with the sign of a zero that they have.
    as_is: bool,
    /// Significant digits of costs in text.
    digits: usize,
}

impl<'a> Written<'a> {
    /// A lattice that is `sorted` and trimmed, or one of which nothing is known.
    fn new(
        view: super::topology::View<'a>,
        strings: Option<(&'a super::Strings, &'a super::Strings)>,
        start: Option<u32>,
        sorted: bool,
    ) -> Written<'a> {
        let properties = binary::properties(strings.is_some(), sorted);
        Written { view, strings, start, properties, as_is: false, digits: text::DIGITS }
    }

    fn weight(&self, weight: LatticeWeight) -> LatticeWeight {
        if self.as_is { weight } else { weight.canonical() }
    }

    fn arc_string(&self, arc: usize) -> Option<&[i32]> {
        self.strings.map(|(arcs, _)| arcs.get(arc).unwrap_or_default())
    }

    fn final_string(&self, state: usize) -> Option<&[i32]> {
        self.strings.map(|(_, finals)| finals.get(state).unwrap_or_default())
    }
}

fn write(output: &mut Output, binary: bool, lattice: Written) -> Result<()> {
    if binary { binary::write(output, &lattice) } else { text::write(output, &lattice) }
}

/// Turns a fault of what was read into a format error at the start of that lattice.
fn at(input: &Input, start: u64, error: Error) -> Error {
    match error {
        Error::Argument(message) => input.format_error_at(start, message),
        other => other,
    }
}

impl Lattice {
    /// Reads one lattice, binary or text, and sorts and trims it (see
    /// [`RawLattice::from_parts`]). Its form is that of the file; text that fits both (no
    /// arc, no weight) is taken for raw. Errors are those of [`Parts::read`]; a cycle is an
    /// [`Error::Format`] that names its states.
    pub fn read(input: &mut Input) -> Result<Lattice> {
        let start = input.offset();
        let parts = Parts::read(input)?;
        let lattice = match parts.strings {
            Some(_) => CompactLattice::from_parts(parts).map(Lattice::Compact),
            None => RawLattice::from_parts(parts).map(Lattice::Raw),
        };
        lattice.map_err(|error| at(input, start, error))
    }

    /// Writes the lattice in its form, as Kaldi would after the key and a space of an archive.
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        match self {
            Lattice::Raw(lattice) => lattice.write(output, binary),
            Lattice::Compact(lattice) => lattice.write(output, binary),
        }
    }

    /// Reads one lattice from memory; bytes after it are refused.
    pub fn from_bytes(bytes: &[u8]) -> Result<Lattice> {
        let mut copy: Vec<u8> = Vec::new();
        try_reserve(&mut copy, bytes.len(), "a lattice in memory")?;
        copy.extend_from_slice(bytes);
        let mut input = Input::from_bytes("memory", copy);
        let lattice = Lattice::read(&mut input)?;
        if input.at_end()? { Ok(lattice) } else { Err(input.format_error("bytes follow the lattice")) }
    }

    /// What [`Lattice::write`] writes.
    pub fn to_bytes(&self, binary: bool) -> Result<Vec<u8>> {
        let mut output = Output::memory();
        self.write(&mut output, binary)?;
        Ok(output.into_bytes())
    }
}

impl RawLattice {
    /// As [`Lattice::read`]; a compact lattice is converted.
    pub fn read(input: &mut Input) -> Result<RawLattice> {
        let start = input.offset();
        Lattice::read(input)?.into_raw().map_err(|error| at(input, start, error))
    }

    /// As [`Lattice::write`].
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        let start = (!self.is_empty()).then_some(0);
        write(output, binary, Written::new(self.view(), None, start, true))
    }
}

impl CompactLattice {
    /// As [`Lattice::read`]; a raw lattice is converted.
    pub fn read(input: &mut Input) -> Result<CompactLattice> {
        let start = input.offset();
        Lattice::read(input)?.into_compact().map_err(|error| at(input, start, error))
    }

    /// As [`Lattice::write`].
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        let start = (!self.is_empty()).then_some(0);
        let strings = Some((&self.arc_strings, &self.final_strings));
        write(output, binary, Written::new(self.view(), strings, start, true))
    }
}

/// Rounds to binary32; `None` for NaN, `-inf`, and what is finite but too large.
fn narrow(value: f64) -> Option<f32> {
    let narrow = value as f32;
    (value == f64::INFINITY || narrow.is_finite()).then_some(narrow)
}
