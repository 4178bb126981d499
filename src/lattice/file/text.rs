//! Lattices as lines of text (Kaldi's `kaldi-lattice.cc`, OpenFst's printer).
//!
//! Raw: `state next ilabel olabel [graph,acoustic]`; compact: `state next label
//! [graph,acoustic,id_id_…]`; final state: `state [weight]`. A weight that is left out
//! costs nothing. The first line's state is the start. Fields are parted by tabs or spaces.

use std::fmt::Write as _;

use crate::error::Result;
use crate::table::{Input, Output, format_general};

use super::Written;
use crate::lattice::{LatticeArc, LatticeWeight, Parts, PartsBuilder};

/// Digits that Kaldi writes: the default of C++ streams.
pub(super) const DIGITS: usize = 6;
/// Digits inside a larger object, whose writer has asked the stream for more.
pub(super) const INNER_DIGITS: usize = 7;
/// Highest state number; OpenFst's are 32-bit and signed.
const HIGHEST_STATE: u32 = i32::MAX as u32;

/// Reads lines up to an empty one or the end; the line end before the first may be missing.
pub(super) fn read(input: &mut Input) -> Result<Parts> {
    skip_to_first_line(input)?;
    let mut reader = Reader { builder: PartsBuilder::default(), form: None, started: false, string: Vec::new() };
    loop {
        let at = input.offset();
        let Some(line) = input.read_line()? else { break };
        let mut fields = [""; 6];
        let mut count = 0;
        for field in line.split([' ', '\t', '\r']).filter(|field| !field.is_empty()) {
            fields[count.min(5)] = field;
            count += 1;
        }
        if count == 0 {
            break;
        }
        match fields.get(..count).filter(|_| count <= 5).map(|fields| reader.line(fields)) {
            Some(Ok(())) => {}
            Some(Err(Fault::Other(error))) => return Err(error),
            Some(Err(Fault::Line(fault))) => {
                return Err(input.format_error_at(at, format!("{fault} in {}", shown(&line))));
            }
            None => return Err(input.format_error_at(at, format!("{count} fields in {}", shown(&line)))),
        }
    }
    reader.builder.finish(reader.form == Some(Form::Compact))
}

/// In an archive the lines begin after the key's own line end.
fn skip_to_first_line(input: &mut Input) -> Result<()> {
    while let Some(byte) = input.peek()? {
        if byte.is_ascii_digit() {
            return Ok(());
        }
        if !byte.is_ascii_whitespace() {
            return Err(input.format_error("expected a line end before the first line of a lattice"));
        }
        input.read_byte()?;
        if byte == b'\n' {
            return Ok(());
        }
    }
    Ok(())
}

/// A line for a message: not all of a long one.
fn shown(line: &str) -> String {
    const LONGEST: usize = 60;
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{:?}…", &line[..end]),
        None => format!("{line:?}"),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Raw,
    Compact,
}

enum Fault {
    /// What is wrong with the line.
    Line(&'static str),
    /// Memory, limits.
    Other(crate::error::Error),
}

impl From<crate::error::Error> for Fault {
    fn from(error: crate::error::Error) -> Fault {
        Fault::Other(error)
    }
}

struct Reader {
    builder: PartsBuilder,
    /// Known from the first line that fits only one.
    form: Option<Form>,
    started: bool,
    string: Vec<i32>,
}

impl Reader {
    fn line(&mut self, fields: &[&str]) -> Result<(), Fault> {
        let state = state_number(fields[0])?;
        if !std::mem::replace(&mut self.started, true) {
            self.builder.set_start(state);
        }
        match *fields {
            [_] => self.builder.set_final(state, LatticeWeight::ONE, &[])?,
            [_, weight] => {
                self.set_form(form_of_weight(weight)?)?;
                let weight = self.weight(weight)?;
                self.builder.set_final(state, weight, &self.string)?;
            }
            [_, next, label] => self.arc(Form::Compact, state, next, [label, label], None)?,
            [_, next, label, weight] if weight.contains(',') => {
                self.arc(Form::Compact, state, next, [label, label], Some(weight))?;
            }
            [_, next, ilabel, olabel] => self.arc(Form::Raw, state, next, [ilabel, olabel], None)?,
            [_, next, ilabel, olabel, weight] => self.arc(Form::Raw, state, next, [ilabel, olabel], Some(weight))?,
            _ => return Err(Fault::Line("too many fields")),
        }
        Ok(())
    }

    fn arc(
        &mut self,
        form: Form,
        state: u32,
        next: &str,
        labels: [&str; 2],
        weight: Option<&str>,
    ) -> Result<(), Fault> {
        self.set_form(form)?;
        let next = state_number(next)?;
        let [ilabel, olabel] = [label(labels[0])?, label(labels[1])?];
        let weight = match weight {
            Some(weight) => self.weight(weight)?,
            None => {
                self.string.clear();
                LatticeWeight::ONE
            }
        };
        self.builder.add_arc(state, LatticeArc { next, ilabel, olabel, weight }, &self.string)?;
        Ok(())
    }

    fn set_form(&mut self, form: Form) -> Result<(), Fault> {
        match *self.form.get_or_insert(form) {
            first if first == form => Ok(()),
            _ => Err(Fault::Line("a line of the other form (raw or compact)")),
        }
    }

    /// Parses a weight of the form that is set; its string is left in `self.string`.
    fn weight(&mut self, field: &str) -> Result<LatticeWeight, Fault> {
        self.string.clear();
        let mut parts = field.splitn(3, ',');
        let (graph, acoustic) = (cost(parts.next())?, cost(parts.next())?);
        match (self.form, parts.next()) {
            (Some(Form::Compact), Some(string)) => self.parse_string(string)?,
            (Some(Form::Raw), None) => {}
            _ => return Err(Fault::Line("a weight of the other form (raw or compact)")),
        }
        Ok(LatticeWeight { graph, acoustic })
    }

    fn parse_string(&mut self, string: &str) -> Result<(), Fault> {
        for id in string.split('_').filter(|_| !string.is_empty()) {
            crate::error::try_reserve(&mut self.string, 1, "string of a lattice")?;
            self.string.push(label(id)?);
        }
        Ok(())
    }
}

fn form_of_weight(weight: &str) -> Result<Form, Fault> {
    match weight.matches(',').count() {
        1 => Ok(Form::Raw),
        2 => Ok(Form::Compact),
        _ => Err(Fault::Line("a weight that is neither graph,acoustic nor graph,acoustic,ids")),
    }
}

fn state_number(field: &str) -> Result<u32, Fault> {
    field.parse().ok().filter(|&state| state <= HIGHEST_STATE).ok_or(Fault::Line("a bad state number"))
}

fn label(field: &str) -> Result<i32, Fault> {
    field.parse().ok().filter(|&label| label >= 0).ok_or(Fault::Line("a bad label"))
}

/// A cost; written numbers beyond binary32 are refused, infinity must be spelled out.
fn cost(field: Option<&str>) -> Result<f32, Fault> {
    let bad = Fault::Line("a bad cost");
    let value: f64 = match field {
        Some("BadNumber") | None => return Err(bad),
        Some(field) => field.parse().map_err(|_| Fault::Line("a bad cost"))?,
    };
    let spelled_out = field.is_some_and(|field| field.ends_with(['f', 'F', 'y', 'Y']));
    super::narrow(value).filter(|_| value.is_finite() || spelled_out).ok_or(bad)
}

/// Writes a line end, the lines, and an empty line.
pub(super) fn write(output: &mut Output, lattice: &Written) -> Result<()> {
    output.write_all(b"\n")?;
    let mut lines = String::new();
    // As OpenFst prints: the start first, so that a reader finds it.
    let others = (0..lattice.view.num_states()).filter(|&state| Some(state as u32) != lattice.start);
    for state in lattice.start.map(|start| start as usize).into_iter().chain(others) {
        if lattice.start.is_none() {
            break;
        }
        lines.clear();
        print_state(&mut lines, lattice, state);
        output.write_all(lines.as_bytes())?;
    }
    output.write_all(b"\n")
}

fn print_state(lines: &mut String, lattice: &Written, state: usize) {
    let view = lattice.view;
    for arc in view.arc_range(state) {
        let LatticeArc { next, ilabel, olabel, weight } = view.arcs[arc];
        // Writing to a String does not fail.
        let _ = write!(lines, "{state}\t{next}\t{ilabel}");
        if lattice.strings.is_none() {
            let _ = write!(lines, "\t{olabel}");
        }
        print_weight(lines, lattice, weight, lattice.arc_string(arc));
    }
    let weight = view.finals[state];
    if !weight.is_absent() || view.arc_range(state).is_empty() {
        let _ = write!(lines, "{state}");
        print_weight(lines, lattice, weight, lattice.final_string(state));
    }
}

/// The weight and the line end; a weight that costs nothing is left out.
fn print_weight(lines: &mut String, lattice: &Written, weight: LatticeWeight, string: Option<&[i32]>) {
    let (weight, digits) = (lattice.weight(weight), lattice.digits);
    if weight != LatticeWeight::ONE || string.is_some_and(|string| !string.is_empty()) {
        let _ = write!(lines, "\t{},{}", shown_cost(weight.graph, digits), shown_cost(weight.acoustic, digits));
        if let Some(string) = string {
            lines.push(',');
            for (at, id) in string.iter().enumerate() {
                let _ = write!(lines, "{}{id}", if at > 0 { "_" } else { "" });
            }
        }
    }
    lines.push('\n');
}

fn shown_cost(cost: f32, digits: usize) -> String {
    if cost == f32::INFINITY { "Infinity".to_string() } else { format_general(f64::from(cost), digits) }
}
