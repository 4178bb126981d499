//! The HMM topology of a transition model: for each phone, its states and the transitions between them.

use super::basic::printable;
use super::input::Input;
use super::output::Output;
use crate::error::{Error, Result, try_push, try_reserve};

const WHAT: &str = "topology";

/// Pdf-class of a state that emits nothing.
const NO_PDF: i32 = -1;

/// One state of a phone's HMM.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct State {
    /// Pdf-class on entering and leaving, -1 for none.
    pub forward_class: i32,
    /// Pdf-class on the self-loop; the same as the other one in an ordinary HMM.
    pub self_loop_class: i32,
    /// Next state and initial probability of each transition.
    pub transitions: Vec<(i32, f32)>,
}

/// States of a phone, or of several; the last one is the end of the phone.
pub(super) type Entry = Vec<State>;

/// The HMMs of all phones.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Topology {
    /// Phones in ascending order.
    phones: Vec<i32>,
    /// Which entry each of them has.
    entry_of: Vec<u32>,
    entries: Vec<Entry>,
    /// Length of the table from phones to entries in binary files.
    table_length: usize,
    /// Written in the form in which self-loops have pdf-classes of their own.
    with_self_loop_classes: bool,
}

impl Topology {
    /// Phones in ascending order.
    pub(super) fn phones(&self) -> &[i32] {
        &self.phones
    }

    /// The states of a phone, `None` if it has none.
    pub(super) fn entry(&self, phone: i32) -> Option<&Entry> {
        let at = self.phones.binary_search(&phone).ok()?;
        self.entries.get(*self.entry_of.get(at)? as usize)
    }

    /// Reads a topology, `<Topology>` to `</Topology>`.
    pub(super) fn read(input: &mut Input, binary: bool) -> Result<Self> {
        input.expect_token(binary, "<Topology>")?;
        let start = input.offset();
        let topology = if binary { read_binary(input)? } else { read_text(input)? };
        topology.check().map_err(|why| input.format_error_at(start, format!("topology: {why}")))?;
        Ok(topology)
    }

    /// Writes a topology in the form in which it was read.
    pub(super) fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        output.write_token("<Topology>")?;
        if binary {
            self.write_binary(output)?
        } else {
            self.write_text(output)?
        }
        output.write_token("</Topology>")?;
        if binary { Ok(()) } else { output.write_text("\n") }
    }

    fn check(&self) -> Result<(), String> {
        if self.phones.is_empty() {
            return Err("there are no phones".to_string());
        }
        for entry in &self.entries {
            if entry.len() < 2 {
                return Err(format!("an entry has {} states; two are needed, the last one for the end", entry.len()));
            }
            if entry.last().is_some_and(|last| !last.transitions.is_empty()) {
                return Err("the last state of an entry has transitions".to_string());
            }
            for (number, state) in entry.iter().enumerate() {
                for &(next, probability) in &state.transitions {
                    if usize::try_from(next).ok().is_none_or(|next| next >= entry.len()) {
                        return Err(format!("state {number} has a transition to state {next} of {}", entry.len()));
                    }
                    if probability.is_nan() || probability <= 0.0 {
                        return Err(format!("state {number} has a transition of probability {probability}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn write_binary(&self, output: &mut Output) -> Result<()> {
        output.write_i32_vector(true, &self.phones)?;
        let count = |count: usize| {
            i32::try_from(count).map_err(|_| Error::Unsupported(format!("{count} is too many for the format")))
        };
        output.write_i32(true, count(self.table_length)?)?;
        let mut next = self.phones.iter().zip(&self.entry_of).peekable();
        for phone in 0..count(self.table_length)? {
            let entry = next.next_if(|(p, _)| **p == phone).map_or(-1, |(_, entry)| *entry as i32);
            output.write_all(&entry.to_le_bytes())?;
        }
        if self.with_self_loop_classes {
            output.write_i32(true, -1)?;
        }
        output.write_i32(true, count(self.entries.len())?)?;
        for entry in &self.entries {
            output.write_i32(true, count(entry.len())?)?;
            for state in entry {
                output.write_i32(true, state.forward_class)?;
                if self.with_self_loop_classes {
                    output.write_i32(true, state.self_loop_class)?;
                }
                output.write_i32(true, count(state.transitions.len())?)?;
                for &(next, probability) in &state.transitions {
                    output.write_i32(true, next)?;
                    output.write_f32(true, probability)?;
                }
            }
        }
        Ok(())
    }

    fn write_text(&self, output: &mut Output) -> Result<()> {
        output.write_text("\n")?;
        for (number, entry) in self.entries.iter().enumerate() {
            output.write_text("<TopologyEntry> \n<ForPhones> \n")?;
            for (phone, _) in self.phones.iter().zip(&self.entry_of).filter(|(_, of)| **of as usize == number) {
                output.write_i32(false, *phone)?;
            }
            output.write_text("\n</ForPhones> \n")?;
            for (number, state) in entry.iter().enumerate() {
                output.write_text(&format!("<State> {number} "))?;
                if state.forward_class != NO_PDF {
                    let (forward, own) = (state.forward_class, state.self_loop_class);
                    output.write_text(&match self.with_self_loop_classes {
                        false => format!("<PdfClass> {forward} "),
                        true => format!("<ForwardPdfClass> {forward} <SelfLoopPdfClass> {own} "),
                    })?;
                }
                for &(next, probability) in &state.transitions {
                    output.write_text(&format!("<Transition> {next} "))?;
                    output.write_f32(false, probability)?;
                }
                output.write_text("</State> \n")?;
            }
            output.write_text("</TopologyEntry> \n")?;
        }
        Ok(())
    }
}

/// Takes a number that counts things.
pub(super) fn read_count(input: &mut Input, binary: bool, what: &str) -> Result<i32> {
    let start = input.offset();
    match input.read_i32(binary)? {
        count @ 0.. => Ok(count),
        count => Err(input.format_error_at(start, format!("the number of {what} is {count}"))),
    }
}

fn read_binary(input: &mut Input) -> Result<Topology> {
    let at_phones = input.offset();
    let phones = input.read_i32_vector(true)?;
    let at_table = input.offset();
    let table = input.read_i32_vector(true)?;
    let mut count = input.read_i32(true)?;
    let with_self_loop_classes = count == -1;
    if with_self_loop_classes {
        count = input.read_i32(true)?;
    }
    if count < 0 {
        return Err(input.format_error(format!("the number of topology entries is {count}")));
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        let mut entry = Vec::new();
        for _ in 0..read_count(input, true, "states")? {
            try_push(&mut entry, read_state(input, with_self_loop_classes)?, WHAT)?;
        }
        try_push(&mut entries, entry, WHAT)?;
    }
    input.expect_token(true, "</Topology>")?;
    if !phones.is_sorted_by(|a, b| a < b) || phones.first().is_some_and(|&phone| phone <= 0) {
        return Err(input.format_error_at(at_phones, "the phones are not positive and in ascending order"));
    }
    let mut entry_of = Vec::new();
    try_reserve(&mut entry_of, phones.len(), WHAT)?;
    entries_of(&phones, &table, entries.len(), &mut entry_of).map_err(|why| input.format_error_at(at_table, why))?;
    Ok(Topology { phones, entry_of, entries, table_length: table.len(), with_self_loop_classes })
}

/// The entries of the phones into `entry_of`, which has room for them, from a table with a place for every phone up to the
/// last, -1 in those that do not exist.
fn entries_of(phones: &[i32], table: &[i32], num_entries: usize, entry_of: &mut Vec<u32>) -> Result<(), String> {
    for &phone in phones {
        match usize::try_from(phone).ok().and_then(|at| table.get(at)) {
            Some(&entry) if usize::try_from(entry).is_ok_and(|entry| entry < num_entries) => {
                entry_of.push(entry as u32);
            }
            _ => return Err(format!("phone {phone} has no topology entry")),
        }
    }
    if table.iter().filter(|entry| **entry != -1).count() != phones.len() {
        return Err("there are topology entries for phones that are not listed".to_string());
    }
    Ok(())
}

fn read_state(input: &mut Input, with_self_loop_class: bool) -> Result<State> {
    let forward_class = input.read_i32(true)?;
    let self_loop_class = if with_self_loop_class { input.read_i32(true)? } else { forward_class };
    let mut transitions = Vec::new();
    for _ in 0..read_count(input, true, "transitions")? {
        try_push(&mut transitions, (input.read_i32(true)?, input.read_f32(true)?), WHAT)?;
    }
    Ok(State { forward_class, self_loop_class, transitions })
}

fn read_text(input: &mut Input) -> Result<Topology> {
    let mut entries = Vec::new();
    let mut of_phones: Vec<(i32, u32)> = Vec::new();
    let mut with_self_loop_classes = false;
    loop {
        let start = input.offset();
        match input.token(false)?.as_str() {
            "</Topology>" => break,
            "<TopologyEntry>" => {}
            other => return Err(unexpected(input, start, "<TopologyEntry> or </Topology>", other)),
        }
        input.expect_token(false, "<ForPhones>")?;
        loop {
            let start = input.offset();
            let word = input.token(false)?;
            if word == "</ForPhones>" {
                break;
            }
            match word.parse() {
                Ok(phone @ 1..) => try_push(&mut of_phones, (phone, entries.len() as u32), WHAT)?,
                _ => return Err(unexpected(input, start, "a phone or </ForPhones>", &word)),
            }
        }
        try_push(&mut entries, read_text_entry(input, &mut with_self_loop_classes)?, WHAT)?;
    }
    of_phones.sort_unstable();
    if let Some(pair) = of_phones.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(input.text_error(format!("phone {} stands in the topology twice", pair[0].0)));
    }
    let (mut phones, mut entry_of) = (Vec::new(), Vec::new());
    try_reserve(&mut phones, of_phones.len(), WHAT)?;
    try_reserve(&mut entry_of, of_phones.len(), WHAT)?;
    phones.extend(of_phones.iter().map(|pair| pair.0));
    entry_of.extend(of_phones.iter().map(|pair| pair.1));
    let table_length = phones.last().map_or(0, |&last: &i32| last as usize + 1);
    Ok(Topology { phones, entry_of, entries, table_length, with_self_loop_classes })
}

fn read_text_entry(input: &mut Input, with_self_loop_classes: &mut bool) -> Result<Entry> {
    let mut entry: Entry = Vec::new();
    loop {
        let start = input.offset();
        match input.token(false)?.as_str() {
            "</TopologyEntry>" => return Ok(entry),
            "<State>" => {}
            other => return Err(unexpected(input, start, "<State> or </TopologyEntry>", other)),
        }
        let number = input.read_i32(false)?;
        if usize::try_from(number).ok() != Some(entry.len()) {
            return Err(input.text_error(format!("expected state {}, found {number}", entry.len())));
        }
        try_push(&mut entry, read_text_state(input, with_self_loop_classes)?, WHAT)?;
    }
}

/// What follows the state's number, up to `</State>`.
fn read_text_state(input: &mut Input, with_self_loop_classes: &mut bool) -> Result<State> {
    let mut state = State { forward_class: NO_PDF, self_loop_class: NO_PDF, transitions: Vec::new() };
    loop {
        let start = input.offset();
        match input.token(false)?.as_str() {
            "</State>" => return Ok(state),
            "<PdfClass>" => {
                state.forward_class = input.read_i32(false)?;
                state.self_loop_class = state.forward_class;
            }
            "<ForwardPdfClass>" => {
                *with_self_loop_classes = true;
                state.forward_class = input.read_i32(false)?;
            }
            "<SelfLoopPdfClass>" => {
                *with_self_loop_classes = true;
                state.self_loop_class = input.read_i32(false)?;
            }
            "<Transition>" => {
                try_push(&mut state.transitions, (input.read_i32(false)?, input.read_f32(false)?), WHAT)?;
            }
            other => return Err(unexpected(input, start, "<PdfClass>, <Transition> or </State>", other)),
        }
    }
}

fn unexpected(input: &Input, start: u64, expected: &str, found: &str) -> Error {
    input.text_error_at(start, format!("expected {expected}, found {}", printable(found)))
}
