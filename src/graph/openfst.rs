//! The head of an OpenFst file: what kind of FST follows, and how much of it.
//!
//! ```text
//! i32 magic, string fst type, string arc type, i32 version, i32 flags, u64 properties,
//! i64 start, i64 states, i64 arcs, symbol table of the input labels, of the output labels
//! ```
//!
//! All numbers are little-endian; a string is an `i32` length and its bytes; the tables
//! are there when flags 1 and 2 are set. Facts from OpenFst's `fst.h` and `symbol-table.cc`.

use super::cache;
use super::feed::Feed;
use crate::error::{Error, Result};
use crate::table::Output;

const MAGIC: i32 = 0x7eb2_fdd6;
const SYMBOLS_MAGIC: i32 = 0x7eb2_fb74;
const HAS_INPUT_SYMBOLS: i32 = 1;
const HAS_OUTPUT_SYMBOLS: i32 = 2;
const IS_ALIGNED: i32 = 4;

/// The two property bits that are always known of a `vector` FST.
const EXPANDED_AND_MUTABLE: u64 = 3;

/// Longest name of an FST or arc type that is looked at.
const LONGEST_TYPE: i32 = 256;

/// How states and arcs are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// State after state, each followed by its arcs.
    Vector,
    /// All states, then all arcs; each part begins at a multiple of 16 if `aligned`.
    Const { aligned: bool },
}

/// What the head of a file says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub kind: Kind,
    /// The start state, if there is one.
    pub start: Option<u32>,
    /// Number of states; `None` if they go on to the end of the file.
    pub num_states: Option<u32>,
    /// Number of arcs; `None` if the head does not tell.
    pub num_arcs: Option<u32>,
}

/// Reads the head, symbol tables included: the next byte is the first of the states (or
/// of the padding before them).
pub(super) fn read_head(feed: &mut impl Feed) -> Result<Head> {
    read_magic(feed)?;
    let fst_type = read_type(feed, "the fst type")?;
    let arc_type = read_type(feed, "the arc type")?;
    let version = feed.i32("the version")?;
    let flags = feed.i32("the flags")?;
    let kind = match (fst_type.as_str(), version) {
        _ if arc_type != "standard" => {
            return unsupported(feed, format!("arc type {arc_type:?} is not supported, only \"standard\""));
        }
        ("vector", 2) => Kind::Vector,
        ("const", 1) => Kind::Const { aligned: true },
        ("const", 2) => Kind::Const { aligned: flags & IS_ALIGNED != 0 },
        ("vector" | "const", _) => {
            return unsupported(feed, format!("version {version} of fst type {fst_type:?} is not supported"));
        }
        _ => {
            let advice = "only \"vector\" and \"const\" (fstconvert makes them)";
            return unsupported(feed, format!("fst type {fst_type:?} is not supported, {advice}"));
        }
    };
    feed.take(8, "the properties")?;
    let start = read_start(feed)?;
    let num_states = read_count(feed, "states", i32::MAX as u32)?;
    let num_arcs = read_count(feed, "arcs", u32::MAX)?;
    if flags & HAS_INPUT_SYMBOLS != 0 {
        skip_symbols(feed, "the input symbol table")?;
    }
    if flags & HAS_OUTPUT_SYMBOLS != 0 {
        skip_symbols(feed, "the output symbol table")?;
    }
    match (kind, num_states, num_arcs) {
        (Kind::Const { .. }, None, _) => Err(feed.fault("the head of a const fst does not tell the number of states")),
        (Kind::Const { .. }, _, None) => Err(feed.fault("the head of a const fst does not tell the number of arcs")),
        // Most writers of vector files leave a 0 there.
        (Kind::Vector, _, Some(0)) => Ok(Head { kind, start, num_states, num_arcs: None }),
        _ => Ok(Head { kind, start, num_states, num_arcs }),
    }
}

fn unsupported<T>(feed: &impl Feed, message: String) -> Result<T> {
    Err(Error::Unsupported(format!("{}: {message}", feed.name())))
}

fn read_magic(feed: &mut impl Feed) -> Result<()> {
    let at = feed.position();
    let magic = feed.i32("the magic number")?;
    if magic == MAGIC {
        return Ok(());
    }
    let found = match magic.to_le_bytes() {
        bytes if cache::MAGIC.starts_with(&bytes) => return Err(cache::not_a_file(feed.name())),
        [0x1f, 0x8b, ..] => "gzip data; it has to be unpacked first".to_string(),
        [0x7e, 0xb2, 0xfd, 0xd6] => "an OpenFst file of a big-endian machine".to_string(),
        bytes if bytes.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_whitespace()) => {
            "what looks like text; fstcompile makes a binary file of it".to_string()
        }
        _ => format!("{magic:#010x}"),
    };
    Err(Error::format(feed.name(), at, format!("expected OpenFst's magic number {MAGIC:#010x}, found {found}")))
}

fn read_type(feed: &mut impl Feed, what: &str) -> Result<String> {
    let at = feed.position();
    let len = feed.i32(what)?;
    if !(0..=LONGEST_TYPE).contains(&len) {
        return Err(Error::format(feed.name(), at, format!("{what} is said to have {len} bytes")));
    }
    Ok(String::from_utf8_lossy(feed.take(len as u64, what)?).into_owned())
}

fn read_start(feed: &mut impl Feed) -> Result<Option<u32>> {
    match feed.i64("the start state")? {
        -1 => Ok(None),
        start => match u32::try_from(start) {
            Ok(start) => Ok(Some(start)),
            Err(_) => Err(Error::Graph(format!("start state {start} is out of range"))),
        },
    }
}

fn read_count(feed: &mut impl Feed, what: &str, limit: u32) -> Result<Option<u32>> {
    let at = feed.position();
    let count = feed.i64(&format!("the number of {what}"))?;
    match u32::try_from(count) {
        Ok(count) if count <= limit => Ok(Some(count)),
        _ if count == -1 => Ok(None),
        _ if count < 0 => Err(Error::format(feed.name(), at, format!("{count} {what}"))),
        _ => Err(Error::Graph(format!("{count} {what}; the limit is {limit}"))),
    }
}

/// Passes over a symbol table: `i32` magic, string name, `i64` next free key, `i64` size,
/// then `size` times a string and an `i64` key.
fn skip_symbols(feed: &mut impl Feed, what: &str) -> Result<()> {
    let at = feed.position();
    let magic = feed.i32(what)?;
    if magic != SYMBOLS_MAGIC {
        let message = format!("expected {what}, whose magic number is {SYMBOLS_MAGIC:#010x}, found {magic:#010x}");
        return Err(Error::format(feed.name(), at, message));
    }
    feed.string(what)?;
    feed.take(8, what)?;
    let at = feed.position();
    let size = feed.i64(what)?;
    if size < 0 {
        return Err(Error::format(feed.name(), at, format!("{what} is said to have {size} symbols")));
    }
    for _ in 0..size {
        feed.string(what)?;
        feed.take(8, what)?;
    }
    Ok(())
}

/// Writes the head of a `vector` FST of standard arcs, without symbol tables.
pub(super) fn write_head(output: &mut Output, start: Option<u32>, num_states: i64) -> Result<()> {
    output.write_all(&MAGIC.to_le_bytes())?;
    for name in ["vector", "standard"] {
        output.write_all(&(name.len() as i32).to_le_bytes())?;
        output.write_all(name.as_bytes())?;
    }
    output.write_all(&2i32.to_le_bytes())?; // version
    output.write_all(&0i32.to_le_bytes())?; // flags
    output.write_all(&EXPANDED_AND_MUTABLE.to_le_bytes())?;
    output.write_all(&start.map_or(-1, i64::from).to_le_bytes())?;
    output.write_all(&num_states.to_le_bytes())?;
    output.write_all(&0i64.to_le_bytes()) // arcs: not told, as by OpenFst
}
