//! Graphs in OpenFst's text form.

use std::fmt::Write as _;

use super::source::{GraphArc, Source, VecSource};
use crate::error::{Error, Result, try_reserve};

impl VecSource {
    /// Reads lines of `source next ilabel olabel [weight]` and `final-state [cost]`, fields
    /// separated by spaces or tabs; a missing weight or cost is 0. The first line's state is
    /// the start state. State numbers are kept as they are, so there may be states that no
    /// line speaks of; a number larger than the text could need is refused. Empty lines are
    /// passed over. `name` stands in [`Error::Format`], which also tells the line.
    pub fn from_text(name: &str, text: &str) -> Result<VecSource> {
        VecSource::from_text_at(name, 0, text)
    }

    /// The same for a text that begins at byte `offset` of the file.
    pub(super) fn from_text_at(name: &str, mut offset: u64, text: &str) -> Result<VecSource> {
        let mut source = VecSource::default();
        let most_states = text.len() + 1000;
        for (number, line) in text.split_inclusive('\n').enumerate() {
            let fields: Vec<&str> = line.split_ascii_whitespace().take(6).collect();
            if !fields.is_empty() {
                add_line(&mut source, &fields, most_states).map_err(|error| match error {
                    Fault::Text(message) => {
                        Error::format(name, offset, format!("line {}: {message}: {:?}", number + 1, line.trim()))
                    }
                    Fault::Other(error) => error,
                })?;
            }
            offset += line.len() as u64;
        }
        Ok(source)
    }

    /// The lines that [`VecSource::from_text`] reads: those of the start state first, and those of
    /// a final state behind its arcs, as OpenFst prints them. Nothing, where there is no start state.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let rest = (0u32..self.num_states()).filter(|&state| Some(state) != self.start);
        for state in self.start.into_iter().chain(rest) {
            for GraphArc { next, ilabel, olabel, weight } in self.arcs(state) {
                let _ = writeln!(text, "{state}\t{next}\t{ilabel}\t{olabel}\t{}", Cost(weight));
            }
            let cost = self.final_cost(state);
            // The start state needs a line even if there is nothing to say of it.
            if cost != f32::INFINITY || text.is_empty() {
                let _ = writeln!(text, "{state}\t{}", Cost(cost));
            }
        }
        text
    }
}

/// A cost with as many digits as it takes to read it back, its infinity spelt as OpenFst does.
struct Cost(f32);

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.0 {
            f32::INFINITY => f.write_str("Infinity"),
            f32::NEG_INFINITY => f.write_str("-Infinity"),
            cost => write!(f, "{cost}"),
        }
    }
}

enum Fault {
    Text(&'static str),
    Other(Error),
}

fn add_line(source: &mut VecSource, fields: &[&str], most_states: usize) -> Result<(), Fault> {
    let from = state(source, fields[0], most_states)?;
    source.start.get_or_insert(from as u32);
    match fields {
        [_] => source.states[from].0 = 0.0,
        [_, cost] => source.states[from].0 = number(cost, "not a cost")?,
        [_, next, ilabel, olabel, weight @ ..] if weight.len() <= 1 => {
            let arc = GraphArc {
                next: state(source, next, most_states)? as u32,
                ilabel: number(ilabel, "not a label")?,
                olabel: number(olabel, "not a label")?,
                weight: weight.first().map_or(Ok(0.0), |weight| number(weight, "not a weight"))?,
            };
            let arcs = &mut source.states[from].1;
            try_reserve(arcs, 1, "text graph").map_err(Fault::Other)?;
            arcs.push(arc);
        }
        _ => return Err(Fault::Text("expected 1, 2, 4 or 5 fields")),
    }
    Ok(())
}

/// The state that `field` names, made if it is not there yet.
fn state(source: &mut VecSource, field: &str, most_states: usize) -> Result<usize, Fault> {
    let state: usize = number(field, "not a state number")?;
    if state >= most_states {
        return Err(Fault::Text("a state number far above the number of states"));
    }
    if state >= source.states.len() {
        let more = state + 1 - source.states.len();
        try_reserve(&mut source.states, more, "text graph").map_err(Fault::Other)?;
        source.states.resize(state + 1, (f32::INFINITY, Vec::new()));
    }
    Ok(state)
}

fn number<T: std::str::FromStr>(field: &str, fault: &'static str) -> Result<T, Fault> {
    field.parse().map_err(|_| Fault::Text(fault))
}
