//! OpenFst files written by hand, and a plain reader of them.
#![allow(dead_code)] // each test file uses its own part

use koshi::graph::{GraphArc, VecSource};

/// A symbol table to embed: name, and names with their keys.
pub type Symbols<'a> = (&'a str, &'a [(&'a str, i64)]);

/// What a writer puts around states and arcs.
#[derive(Clone, Copy, Default)]
pub struct Form<'a> {
    pub input_symbols: Option<Symbols<'a>>,
    pub output_symbols: Option<Symbols<'a>>,
    /// `const`: version 2 with the flag.
    pub aligned: bool,
    /// `const`: version 1, which is aligned.
    pub version_1: bool,
    /// `vector`: -1 states in the head.
    pub open_ended: bool,
    /// `vector`: what the head says of the number of arcs.
    pub vector_arcs: i64,
}

fn string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as i32).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn symbols(bytes: &mut Vec<u8>, table: Symbols) {
    bytes.extend(0x7eb2_fb74_i32.to_le_bytes());
    string(bytes, table.0);
    let free = table.1.iter().map(|entry| entry.1 + 1).max().unwrap_or(0);
    bytes.extend(free.to_le_bytes());
    bytes.extend((table.1.len() as i64).to_le_bytes());
    for (name, key) in table.1 {
        string(bytes, name);
        bytes.extend(key.to_le_bytes());
    }
}

fn head(source: &VecSource, form: &Form, kind: &str, version: i32, counts: (i64, i64)) -> Vec<u8> {
    let mut bytes = 0x7eb2_fdd6_i32.to_le_bytes().to_vec();
    string(&mut bytes, kind);
    string(&mut bytes, "standard");
    bytes.extend(version.to_le_bytes());
    let input = i32::from(form.input_symbols.is_some());
    let output = i32::from(form.output_symbols.is_some()) << 1;
    bytes.extend((input | output | i32::from(form.aligned) << 2).to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes.extend(source.start.map_or(-1, i64::from).to_le_bytes());
    bytes.extend(counts.0.to_le_bytes());
    bytes.extend(counts.1.to_le_bytes());
    for table in [form.input_symbols, form.output_symbols].into_iter().flatten() {
        symbols(&mut bytes, table);
    }
    bytes
}

fn arc(bytes: &mut Vec<u8>, arc: &GraphArc) {
    bytes.extend(arc.ilabel.to_le_bytes());
    bytes.extend(arc.olabel.to_le_bytes());
    bytes.extend(arc.weight.to_le_bytes());
    bytes.extend(arc.next.to_le_bytes());
}

pub fn num_arcs(source: &VecSource) -> usize {
    source.states.iter().map(|state| state.1.len()).sum()
}

/// A `vector` file.
pub fn vector(source: &VecSource, form: &Form) -> Vec<u8> {
    let num_states = if form.open_ended { -1 } else { source.states.len() as i64 };
    let mut bytes = head(source, form, "vector", 2, (num_states, form.vector_arcs));
    for (cost, arcs) in &source.states {
        bytes.extend(cost.to_le_bytes());
        bytes.extend((arcs.len() as i64).to_le_bytes());
        arcs.iter().for_each(|a| arc(&mut bytes, a));
    }
    bytes
}

/// A `const` file.
pub fn constant(source: &VecSource, form: &Form) -> Vec<u8> {
    constant_at(source, form, 0)
}

/// A `const` FST whose first byte has this offset in its file.
pub fn constant_at(source: &VecSource, form: &Form, offset: usize) -> Vec<u8> {
    let version = if form.version_1 { 1 } else { 2 };
    let counts = (source.states.len() as i64, num_arcs(source) as i64);
    let mut bytes = head(source, form, "const", version, counts);
    let align = |bytes: &mut Vec<u8>| {
        if form.aligned || form.version_1 {
            bytes.resize((offset + bytes.len()).next_multiple_of(16) - offset, 0);
        }
    };
    align(&mut bytes);
    let mut first = 0u32;
    for (cost, arcs) in &source.states {
        let zeros = |label: fn(&GraphArc) -> i32| arcs.iter().filter(|arc| label(arc) == 0).count() as u32;
        bytes.extend(cost.to_le_bytes());
        for field in [first, arcs.len() as u32, zeros(|arc| arc.ilabel), zeros(|arc| arc.olabel)] {
            bytes.extend(field.to_le_bytes());
        }
        first += arcs.len() as u32;
    }
    align(&mut bytes);
    source.states.iter().flat_map(|state| &state.1).for_each(|a| arc(&mut bytes, a));
    bytes
}

/// Reads an unaligned file without symbol tables, and trusts it: for the real graphs.
pub fn read(bytes: &[u8]) -> VecSource {
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let f32_at = |at: usize| f32::from_bits(u32_at(at));
    let arc_at = |at: usize| GraphArc {
        ilabel: u32_at(at) as i32,
        olabel: u32_at(at + 4) as i32,
        weight: f32_at(at + 8),
        next: u32_at(at + 12),
    };
    let kind = &bytes[8..8 + u32_at(4) as usize];
    let mut at = 8 + kind.len() + 4 + 8 + 8 + 8;
    let (start, num_states) = (u32_at(at), u32_at(at + 8) as usize);
    at += 24;
    let states = match kind {
        b"vector" => (0..num_states)
            .map(|_| {
                let (cost, count) = (f32_at(at), u32_at(at + 4) as usize);
                let arcs = (0..count).map(|index| arc_at(at + 12 + 16 * index)).collect();
                at += 12 + 16 * count;
                (cost, arcs)
            })
            .collect(),
        b"const" => (at..)
            .step_by(20)
            .take(num_states)
            .map(|state| {
                let (first, count) = (u32_at(state + 4) as usize, u32_at(state + 8) as usize);
                let arcs = (first..first + count).map(|index| arc_at(at + 20 * num_states + 16 * index));
                (f32_at(state), arcs.collect())
            })
            .collect(),
        _ => panic!("fst type {kind:?}"),
    };
    VecSource { start: Some(start), states }
}
