//! FSTs out of tables and other inputs that go on after them.

use super::blocks::Graph;
use super::feed::{Feed, Gather, Slice};
use super::mapped::Behind;
use super::openfst::{Kind, read_head, write_head};
use super::read::{from_bytes, name_it};
use super::records::{
    ARC, CONST_STATE, ConstRecords, VectorRecords, skip_padding, skip_vector_state, write_vector_state,
};
use super::source::{Columns, VecSource};
use crate::error::{Error, Result};
use crate::table::{Holder, Input, Output};

/// One FST, binary or text, as it stands in its file. Only its extent has been looked at;
/// all else is checked when a graph is made of it.
#[derive(Clone, Debug)]
pub struct FstBytes {
    name: String,
    /// Offset of the first byte in the file.
    at: u64,
    bytes: Vec<u8>,
    text: bool,
}

impl FstBytes {
    /// Reads one FST: the forms of [`Graph::read`], or, if it begins with white space, text up to
    /// an empty line as Kaldi writes it in text archives.
    ///
    /// The padding of an aligned FST is taken to be right for its offset in the file.
    pub fn read(input: &mut Input) -> Result<FstBytes> {
        let name = input.name().to_string();
        if input.peek()?.is_some_and(|byte| byte.is_ascii_whitespace()) {
            let (at, bytes) = read_text(input)?;
            return Ok(FstBytes { name, at, bytes, text: true });
        }
        let at = input.offset();
        let mut feed = Gather::new(input);
        take_fst(&mut feed)?;
        Ok(FstBytes { name, at, bytes: feed.into_bytes(), text: false })
    }

    /// Checks the FST and lays it out; errors as those of [`Graph::read`].
    pub fn graph(&self, columns: Columns) -> Result<Graph> {
        let graph = if self.text {
            self.to_source().and_then(|source| Graph::from_source(&source, columns))
        } else {
            from_bytes(&self.name, &self.bytes, self.at, Behind::nothing(), columns)
        };
        graph.map_err(|error| name_it(error, &self.name))
    }

    /// States and arcs, labels and numbers unchecked.
    pub fn to_source(&self) -> Result<VecSource> {
        if self.text {
            let text = std::str::from_utf8(&self.bytes).map_err(|error| {
                Error::format(&self.name, self.at + error.valid_up_to() as u64, "the text is not UTF-8")
            })?;
            return VecSource::from_text_at(&self.name, self.at, text);
        }
        let mut feed = Slice::new(&self.name, &self.bytes, self.at);
        let head = read_head(&mut feed)?;
        match head.kind {
            Kind::Const { .. } => VecSource::copy_of(&ConstRecords::new(&self.name, &head, feed, Behind::nothing())?),
            Kind::Vector => VecSource::copy_of(&VectorRecords::new(&head, feed, Behind::nothing())?),
        }
    }
}

/// Lines up to an empty one, with the offset of the first of them.
fn read_text(input: &mut Input) -> Result<(u64, Vec<u8>)> {
    if input.read_line()?.is_some_and(|line| !line.trim_ascii().is_empty()) {
        return Err(input.text_error("a text FST begins on a line of its own"));
    }
    let (at, mut text) = (input.offset(), Vec::new());
    while let Some(line) = input.read_line()? {
        if line.trim_ascii().is_empty() {
            break;
        }
        crate::error::try_reserve(&mut text, line.len() + 1, "text FST")?;
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    Ok((at, text))
}

/// Takes all bytes of one FST.
fn take_fst(feed: &mut Gather) -> Result<()> {
    let head = read_head(feed)?;
    match (head.kind, head.num_states) {
        (Kind::Const { aligned }, _) => {
            let (num_states, num_arcs) = (head.num_states.unwrap_or(0), head.num_arcs.unwrap_or(0));
            for (count, len, what) in [(num_states, CONST_STATE, "states"), (num_arcs, ARC, "arcs")] {
                if aligned {
                    skip_padding(feed)?;
                }
                feed.take(u64::from(count) * len as u64, &format!("{count} {what}"))?;
            }
        }
        (Kind::Vector, Some(num_states)) => {
            for state in 0..num_states as usize {
                skip_vector_state(feed, state)?;
            }
        }
        (Kind::Vector, None) => {
            let mut state = 0;
            while !feed.at_end()? {
                skip_vector_state(feed, state)?;
                state += 1;
            }
        }
    }
    Ok(())
}

/// FSTs as the entries of a table. They are written as `vector` FSTs without symbol tables.
pub struct FstHolder;

impl Holder for FstHolder {
    type Value = FstBytes;

    fn read(input: &mut Input) -> Result<FstBytes> {
        FstBytes::read(input)
    }

    fn write(output: &mut Output, value: &FstBytes, binary: bool) -> Result<()> {
        value.to_source()?.write(output, binary)
    }
}

impl VecSource {
    /// Writes a `vector` FST without symbol tables; in text a line end, the lines of
    /// [`VecSource::to_text`] and an empty line, as Kaldi does.
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        if !binary {
            return output.write_all(format!("\n{}\n", self.to_text()).as_bytes());
        }
        write_head(output, self.start, self.states.len() as i64)?;
        self.states.iter().try_for_each(|(cost, arcs)| write_vector_state(output, *cost, arcs))
    }
}
