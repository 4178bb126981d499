//! Lattices as OpenFst vector FSTs (`VectorFst::Read` and `Write`, `FstHeader`, Kaldi's `lattice-weight.h`).

use crate::error::{Result, try_reserve};
use crate::table::{Input, Output, SymbolTable};

use super::Written;
use crate::lattice::{LatticeArc, LatticeWeight, PartStrings, Parts, Strings};

const MAGIC: i32 = 2_125_659_606;
const VERSION: i32 = 2;
/// Header flags: symbol tables follow the header; states are aligned (of no effect in a vector FST).
const HAS_ISYMBOLS: i32 = 1;
const HAS_OSYMBOLS: i32 = 2;
const IS_ALIGNED: i32 = 4;

/// OpenFst's property bits (`properties.h`).
mod property {
    pub const EXPANDED: u64 = 0x1;
    pub const MUTABLE: u64 = 0x2;
    pub const ACCEPTOR: u64 = 0x1_0000;
    pub const ACYCLIC: u64 = 0x8_0000_0000;
    pub const INITIAL_ACYCLIC: u64 = 0x20_0000_0000;
    pub const TOP_SORTED: u64 = 0x40_0000_0000;
    pub const ACCESSIBLE: u64 = 0x100_0000_0000;
    pub const COACCESSIBLE: u64 = 0x400_0000_0000;
}

/// How weights of a file are laid out.
#[derive(Clone, Copy, PartialEq)]
struct ArcType {
    double: bool,
    compact: bool,
}

impl ArcType {
    fn by_name(name: &str) -> Option<ArcType> {
        match name {
            "lattice4" => Some(ArcType { double: false, compact: false }),
            "lattice8" => Some(ArcType { double: true, compact: false }),
            "compactlattice44" => Some(ArcType { double: false, compact: true }),
            "compactlattice84" => Some(ArcType { double: true, compact: true }),
            _ => None,
        }
    }
}

struct Header {
    arc_type: ArcType,
    properties: u64,
    start: Option<u32>,
    /// `None` where the header does not say: states follow until the data ends.
    num_states: Option<u64>,
}

/// Reads a vector FST, with the property bits of its head; `input` is at its magic number.
pub(super) fn read(input: &mut Input) -> Result<(Parts, u64)> {
    let header = read_header(input)?;
    let mut reader =
        Reader { input, arc_type: header.arc_type, parts: Parts::default(), strings: PartStrings::default() };
    let mut states = 0;
    while header.num_states.map_or_else(|| reader.input.at_end().map(|end| !end), |count| Ok(states < count))? {
        reader.state()?;
        states += 1;
    }
    let mut parts = reader.parts;
    parts.start = header.start;
    parts.strings = header.arc_type.compact.then_some(reader.strings);
    Ok((parts, header.properties))
}

fn read_header(input: &mut Input) -> Result<Header> {
    let start = input.offset();
    let magic = i32::from_le_bytes(input.read_array()?);
    if magic != MAGIC {
        return Err(input.format_error_at(start, format!("magic number {magic} is not OpenFst's {MAGIC}")));
    }
    let kind = read_name(input, "FST type")?;
    if kind != "vector" {
        return Err(input.format_error_at(start, format!("lattice of FST type {kind:?}; only \"vector\" is read")));
    }
    let name = read_name(input, "arc type")?;
    let Some(arc_type) = ArcType::by_name(&name) else {
        return Err(input.format_error_at(start, format!("arc type {name:?} is not that of a lattice")));
    };
    let version = i32::from_le_bytes(input.read_array()?);
    if version != VERSION {
        return Err(input.format_error_at(start, format!("vector FST of version {version}; {VERSION} is read")));
    }
    let flags = i32::from_le_bytes(input.read_array()?);
    if flags & !(HAS_ISYMBOLS | HAS_OSYMBOLS | IS_ALIGNED) != 0 {
        return Err(input.format_error_at(start, format!("unknown flags {flags:#x} in the header")));
    }
    let properties = u64::from_le_bytes(input.read_array()?);
    let at = input.offset();
    let [state, count, _arcs] = [(); 3].map(|()| input.read_array().map(i64::from_le_bytes));
    let (state, count) = (state?, count?);
    _arcs?;
    let in_range = |number: i64| (-1..=i64::from(i32::MAX)).contains(&number);
    if !in_range(state) || !in_range(count) {
        return Err(input.format_error_at(at, format!("start state {state}, {count} states")));
    }
    for flag in [HAS_ISYMBOLS, HAS_OSYMBOLS] {
        if flags & flag != 0 {
            SymbolTable::skip_binary(input)?;
        }
    }
    Ok(Header { arc_type, properties, start: u32::try_from(state).ok(), num_states: u64::try_from(count).ok() })
}

/// A length and so many bytes.
fn read_name(input: &mut Input, what: &str) -> Result<String> {
    const LONGEST: i32 = 256;
    let at = input.offset();
    let length = i32::from_le_bytes(input.read_array()?);
    if !(0..=LONGEST).contains(&length) {
        return Err(input.format_error_at(at, format!("{what} of {length} bytes")));
    }
    let bytes = input.read_bounded(length as u64, what)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

struct Reader<'a> {
    input: &'a mut Input,
    arc_type: ArcType,
    parts: Parts,
    strings: PartStrings,
}

impl Reader<'_> {
    /// Reads a state: final weight, number of arcs, arcs. Memory grows with what is there.
    fn state(&mut self) -> Result<()> {
        let weight = self.weight()?;
        if self.arc_type.compact {
            read_string(self.input, &mut self.strings.finals)?;
        }
        try_reserve(&mut self.parts.finals, 1, "states of a lattice")?;
        self.parts.finals.push(weight);
        let at = self.input.offset();
        let count = i64::from_le_bytes(self.input.read_array()?);
        if !(0..=i64::from(i32::MAX)).contains(&count) {
            return Err(self.input.format_error_at(at, format!("state with {count} arcs")));
        }
        for _ in 0..count {
            self.arc()?;
        }
        if self.parts.arcs.len() > u32::MAX as usize {
            return Err(self.input.format_error_at(at, "more than 2^32 - 1 arcs"));
        }
        try_reserve(&mut self.parts.offsets, 1, "states of a lattice")?;
        self.parts.offsets.push(self.parts.arcs.len() as u32);
        Ok(())
    }

    fn arc(&mut self) -> Result<()> {
        let at = self.input.offset();
        let ilabel = i32::from_le_bytes(self.input.read_array()?);
        let olabel = i32::from_le_bytes(self.input.read_array()?);
        let weight = self.weight()?;
        if self.arc_type.compact {
            read_string(self.input, &mut self.strings.arcs)?;
        }
        let next = i32::from_le_bytes(self.input.read_array()?);
        let Ok(next) = u32::try_from(next) else {
            return Err(self.input.format_error_at(at, format!("arc to state {next}")));
        };
        try_reserve(&mut self.parts.arcs, 1, "arcs of a lattice")?;
        self.parts.arcs.push(LatticeArc { next, ilabel, olabel, weight });
        Ok(())
    }

    fn weight(&mut self) -> Result<LatticeWeight> {
        if !self.arc_type.double {
            let graph = f32::from_le_bytes(self.input.read_array()?);
            let acoustic = f32::from_le_bytes(self.input.read_array()?);
            return Ok(LatticeWeight { graph, acoustic });
        }
        let at = self.input.offset();
        let graph = f64::from_le_bytes(self.input.read_array()?);
        let acoustic = f64::from_le_bytes(self.input.read_array()?);
        match (super::narrow(graph), super::narrow(acoustic)) {
            (Some(graph), Some(acoustic)) => Ok(LatticeWeight { graph, acoustic }),
            _ => Err(self.input.format_error_at(at, format!("cost {graph},{acoustic} is beyond binary32"))),
        }
    }
}

/// Appends one string: a length and so many 32-bit labels.
fn read_string(input: &mut Input, strings: &mut Strings) -> Result<()> {
    let at = input.offset();
    let length = i32::from_le_bytes(input.read_array()?);
    let Ok(length) = u64::try_from(length) else {
        return Err(input.format_error_at(at, format!("string of {length} labels")));
    };
    for _ in 0..length {
        strings.push_label(i32::from_le_bytes(input.read_array()?))?;
    }
    strings.end_string()
}

/// Writes a vector FST of 32-bit costs and labels.
pub(super) fn write(output: &mut Output, lattice: &Written) -> Result<()> {
    let view = lattice.view;
    write_header(output, lattice)?;
    let mut record = Vec::new();
    for state in 0..view.num_states() {
        record.clear();
        put_weight(&mut record, lattice.weight(view.finals[state]), lattice.final_string(state))?;
        let range = view.arc_range(state);
        put(&mut record, &(range.len() as i64).to_le_bytes())?;
        for arc in range {
            let LatticeArc { next, ilabel, olabel, weight } = view.arcs[arc];
            put(&mut record, &ilabel.to_le_bytes())?;
            put(&mut record, &olabel.to_le_bytes())?;
            put_weight(&mut record, lattice.weight(weight), lattice.arc_string(arc))?;
            put(&mut record, &next.to_le_bytes())?;
        }
        output.write_all(&record)?;
    }
    Ok(())
}

/// The property bits of a lattice of which nothing is known, or that it is sorted and trimmed.
pub(super) fn properties(compact: bool, sorted: bool) -> u64 {
    use property::*;
    let acceptor = if compact { ACCEPTOR } else { 0 };
    let shape = if sorted { ACYCLIC | INITIAL_ACYCLIC | TOP_SORTED | ACCESSIBLE | COACCESSIBLE } else { 0 };
    EXPANDED | MUTABLE | acceptor | shape
}

fn write_header(output: &mut Output, lattice: &Written) -> Result<()> {
    let arc_type = if lattice.strings.is_some() { "compactlattice44" } else { "lattice4" };
    output.write_all(&MAGIC.to_le_bytes())?;
    for name in ["vector", arc_type] {
        output.write_all(&(name.len() as i32).to_le_bytes())?;
        output.write_all(name.as_bytes())?;
    }
    output.write_all(&VERSION.to_le_bytes())?;
    output.write_all(&0i32.to_le_bytes())?; // flags
    output.write_all(&lattice.properties.to_le_bytes())?;
    output.write_all(&lattice.start.map_or(-1, i64::from).to_le_bytes())?;
    output.write_all(&(lattice.view.num_states() as i64).to_le_bytes())?;
    // OpenFst leaves the number of arcs 0 in vector FSTs.
    output.write_all(&0i64.to_le_bytes())
}

fn put(record: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    try_reserve(record, bytes.len(), "state of a lattice")?;
    record.extend_from_slice(bytes);
    Ok(())
}

fn put_weight(record: &mut Vec<u8>, weight: LatticeWeight, string: Option<&[i32]>) -> Result<()> {
    put(record, &weight.graph.to_le_bytes())?;
    put(record, &weight.acoustic.to_le_bytes())?;
    let Some(string) = string else { return Ok(()) };
    put(record, &(string.len() as i32).to_le_bytes())?;
    for label in string {
        put(record, &label.to_le_bytes())?;
    }
    Ok(())
}
