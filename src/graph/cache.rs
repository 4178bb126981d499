//! Graphs laid out once and for all: a file that is mapped, so that it is there at once, its parts are brought in
//! as the search touches them, and processes share its memory.
//!
//! ```text
//! byte 0     Head (below), in the order of bytes of the machine that wrote it
//! then       parts, each at a multiple of 4,096, in the order of PARTS; their bytes are those of the arrays in memory
//! ```
//!
//! The head lists the pages that the first frames of a search touch (`early.rs`). They are asked for when a file is
//! opened, so that a file on disk is waited for once or twice and not once a page; nothing else is done with the list.
//!
//! The head is checked whenever a file is opened. Reading all of a large file would take far longer than its first
//! frame, so the rest is checked by `whole.rs` meanwhile. Until then its contents are not believed: whatever the
//! search reads out of it is looked up with bounds, and rows are as wide as any column of 16 bits.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use bytemuck::{Pod, Zeroable};
use twox_hash::XxHash3_64;

use super::array::Array;
use super::blocks::{FinalState, Graph, HAS_EPSILONS, PADDING_WORDS, Totals};
use super::early::{self, MOST_PAGES, Run};
use super::input_labels::{ColumnLabels, InputLabels};
use super::labels::{Bits, EpsilonPlaces, SparseLabels};
use super::mapped::{self, Mapped};
use super::narrow::Narrow;
use super::source::{ColumnMap, ColumnRule, Columns};
use super::whole::{Part, WholeCheck};
use crate::error::{Error, Result};

/// What a cache file begins with.
pub(super) const MAGIC: [u8; 8] = *b"KoshiGr\n";

/// Of the form below. A change of it, or of the blocks, takes the next number.
const VERSION: u32 = 3;

/// Says in which order the bytes of a number stand.
const ORDER: u32 = 0x0102_0304;

/// Parts begin at multiples of it.
pub(super) const PAGE: u64 = 4096;

/// What the parts hold.
const PARTS: [&str; 7] = [
    "state blocks",
    "final states",
    "ranks of input labels",
    "places of output labels",
    "ranks of output labels",
    "output labels",
    "places of epsilon arcs",
];

/// The beginning of a file. All of it is numbers without padding between them.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Head {
    magic: [u8; 8],
    version: u32,
    order: u32,
    /// XXH3 of the head with 0 in this place.
    sum: u64,
    file_len: u64,
    rule: ColumnRule,
    num_arcs: u64,
    num_epsilon_arcs: u64,
    num_infinite_arcs: u64,
    num_states: u32,
    start: u32,
    max_level: u32,
    max_ilabel: i32,
    max_olabel: i32,
    num_columns: u32,
    widest_arc: u32,
    widest_ilabel: i32,
    num_unreachable: u32,
    num_dead_ends: u32,
    /// 1 where columns take 32 bits.
    wide: u32,
    /// Bytes of an input label's rank: 0, 1, 2 or 4.
    rank_bytes: u32,
    /// 1 where some state of the file that the graph was read from has an epsilon arc before an emitting one.
    mixed: u32,
    /// 1 where output labels take 32 bits.
    long_olabels: u32,
    /// The pages that the first frames touch.
    early: [Run; MOST_PAGES],
    parts: [Extent; PARTS.len()],
}

/// Bytes of the head.
pub(super) const HEAD: usize = size_of::<Head>();

/// Where a part stands, and what its bytes add up to.
#[derive(Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct Extent {
    at: u64,
    len: u64,
    sum: u64,
}

/// For a cache that stands in no file of its own.
pub(super) fn not_a_file(name: &str) -> Error {
    Error::Unsupported(format!("{name}: a graph cache can be read from a file of its own only, which is mapped"))
}

impl Head {
    fn own_sum(&self) -> u64 {
        XxHash3_64::oneshot(bytemuck::bytes_of(&Head { sum: 0, ..*self }))
    }

    fn olabel_bytes(&self) -> u64 {
        if self.long_olabels != 0 { 4 } else { 2 }
    }

    /// What the parts of such a graph have for lengths, as far as the head tells.
    fn check(&self, name: &str, len: u64) -> Result<()> {
        let fault = |message: &str| Err(Error::format(name, 0, message));
        if self.order != ORDER {
            let message = "a graph cache of a machine with the other order of bytes; make it anew there";
            return Err(Error::Unsupported(format!("{name}: {message}")));
        }
        if self.version != VERSION {
            let message = format!("a graph cache of version {}, not {VERSION}; make it anew", self.version);
            return Err(Error::Unsupported(format!("{name}: {message}")));
        }
        if self.sum != self.own_sum() {
            return fault("the head of the graph cache is damaged: its checksum is another");
        }
        if self.file_len != len {
            let message = format!("the graph cache has {len} bytes instead of {}: it was cut short?", self.file_len);
            return Err(Error::format(name, self.file_len.min(len), message));
        }
        let mut end = size_of::<Head>() as u64;
        for part in &self.parts {
            let after = part.at.checked_add(part.len).filter(|&after| after <= len);
            match after {
                Some(after) if part.at >= end && part.at.is_multiple_of(PAGE) => end = after,
                _ => return fault("the parts of the graph cache do not fit into it"),
            }
        }
        let [words, finals, ilabels, present, ranks, olabels, places] = self.parts.map(|part| part.len);
        let bits = self.num_arcs.div_ceil(64);
        let good = self.num_states <= i32::MAX as u32
            && self.num_arcs <= u64::from(u32::MAX)
            && self.num_epsilon_arcs <= self.num_arcs
            && self.num_infinite_arcs <= self.num_arcs
            && self.num_unreachable < self.num_states
            && self.num_dead_ends <= self.num_states
            && u64::from(self.widest_arc) < self.num_arcs.max(1)
            && words.is_multiple_of(8)
            && words / 4 >= 2 * u64::from(self.num_states) + PADDING_WORDS as u64
            && words / 8 <= 1 << 31
            && u64::from(self.start & !HAS_EPSILONS) < words / 8
            && self.max_level < self.num_states
            && (self.wide != 0 || self.num_columns <= 1 << 16)
            && finals.is_multiple_of(size_of::<FinalState>() as u64)
            && finals / size_of::<FinalState>() as u64 <= u64::from(self.num_states)
            && ilabels == self.num_arcs * u64::from(self.rank_bytes)
            && present == bits * 8
            && ranks == bits * 4
            && olabels.is_multiple_of(self.olabel_bytes())
            && olabels / self.olabel_bytes() <= self.num_arcs
            && early::fit(&self.early, len.div_ceil(PAGE))
            && places == if self.mixed != 0 { bits * 8 } else { 0 };
        if good { Ok(()) } else { fault("the numbers in the head of the graph cache do not fit together") }
    }
}

/// Maps a graph that [`Graph::write_cache`] wrote. `begin` is the beginning of the file: [`HEAD`] bytes, if it has so
/// many. `columns` must be the rule that it was laid out with.
pub(super) fn open(name: &str, file: &File, begin: &[u8], columns: Columns) -> Result<Graph> {
    let head = begin.get(..HEAD).map(bytemuck::pod_read_unaligned::<Head>);
    let head = head.ok_or_else(|| Error::format(name, begin.len() as u64, "the graph cache ends within its head"))?;
    let map = Mapped::new(name, file)?;
    head.check(name, map.bytes().len() as u64)?;
    let column_map = ColumnMap::new(&columns)?;
    let rule = column_map.rule(&columns);
    if rule != head.rule {
        let (wanted, held) = (rule.name(), head.rule.name());
        let same = if wanted == held { ", another one" } else { "" };
        let message = format!("{name}: the graph cache was made with {held}, not with {wanted}{same}");
        return Err(Error::Graph(message));
    }
    let labels = Arc::new(ColumnLabels::new(&column_map)?);
    if labels.rank_bytes() != head.rank_bytes {
        return Err(Error::format(
            name,
            0,
            "the input labels of the graph cache are not those of its rule for columns",
        ));
    }
    map.expect_jumps();
    for run in head.early.iter().filter(|run| run.count != 0) {
        mapped::ask_for(file, u64::from(run.first) * PAGE, u64::from(run.count) * PAGE);
    }
    let map = Arc::new(map);
    let mut graph = arrange(&map, &head, &columns, &labels)?;
    let parts = PARTS.iter().zip(&head.parts).map(|(&name, part)| {
        let begin = part.at as usize;
        Part { name, bytes: begin..begin + part.len as usize, sum: part.sum }
    });
    let twin = arrange(&map, &head, &columns, &labels)?;
    let whole = WholeCheck::begin(name, Arc::clone(&map), parts.collect(), twin);
    if graph.wide {
        whole.wait()?; // rows of 2^32 columns cannot be had
    }
    graph.whole = Some(whole);
    Ok(graph)
}

fn arrange(map: &Arc<Mapped>, head: &Head, columns: &Columns, labels: &Arc<ColumnLabels>) -> Result<Graph> {
    fn part<T: Pod>(map: &Arc<Mapped>, at: &Extent) -> Result<Array<T>> {
        Array::mapped(map, at.at, at.len)
    }
    let [words, finals, ilabels, present, ranks, olabels, places] = &head.parts;
    let narrow = |width: u32, at: &Extent| {
        Ok(match width {
            0 => Narrow::None,
            1 => Narrow::Byte(part(map, at)?),
            2 => Narrow::Short(part(map, at)?),
            _ => Narrow::Long(part(map, at)?),
        })
    };
    let ilabel_ranks = narrow(head.rank_bytes, ilabels)?;
    let values = narrow(if head.long_olabels != 0 { 4 } else { 2 }, olabels)?;
    let epsilons =
        if head.mixed != 0 { Some(Bits { words: part(map, places)?, before: Array::default() }) } else { None };
    Ok(Graph {
        words: part(map, words)?,
        wide: head.wide != 0,
        start: head.start,
        max_level: head.max_level,
        num_states: head.num_states,
        totals: Totals {
            num_arcs: head.num_arcs,
            num_epsilon_arcs: head.num_epsilon_arcs,
            num_infinite_arcs: head.num_infinite_arcs,
            max_ilabel: head.max_ilabel,
            max_olabel: head.max_olabel,
            num_columns: head.num_columns,
            widest_arc: (head.widest_arc, head.widest_ilabel),
            mixed: head.mixed != 0,
        },
        finals: part(map, finals)?,
        ilabels: InputLabels { ranks: ilabel_ranks, labels: Arc::clone(labels) },
        olabels: SparseLabels { present: Bits { words: part(map, present)?, before: part(map, ranks)? }, values },
        epsilon_places: EpsilonPlaces { epsilons },
        transitions: columns.transitions().cloned(),
        rule: head.rule,
        out_of_reach: OnceLock::from((head.num_unreachable, head.num_dead_ends)),
        whole: None,
    })
}

impl Graph {
    /// Writes the graph as it lies in memory, to be mapped by [`Graph::read`] on machines with the same order of
    /// bytes. Whoever reads `path` meanwhile, or after a failure, finds what was there before.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Argument`] where `path` is there and is not a file; those of [`Graph::info`].
    pub fn write_cache(&self, path: impl AsRef<Path>) -> Result<()> {
        self.check_whole()?;
        let path = path.as_ref();
        let io = |doing: &str, error| Error::io(format!("{}: {doing}", path.display()), error);
        let path = match fs::metadata(path) {
            Ok(there) if !there.is_file() => {
                return Err(Error::Argument(format!("{}: there already, and not a file", path.display())));
            }
            // What a link points at is replaced, not the link.
            Ok(_) => fs::canonicalize(path).map_err(|error| io("looking at it", error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
            Err(error) => return Err(io("looking at it", error)),
        };
        let (mut head, parts) = self.parts()?;
        let fresh = Fresh::new(&path)?;
        let mut file = &fresh.file;
        let written = (|| {
            for (part, bytes) in head.parts.iter().zip(parts) {
                file.seek(SeekFrom::Start(part.at))?;
                file.write_all(bytes)?;
            }
            file.set_len(head.file_len)?; // where the last parts are empty
            file.rewind()?;
            head.sum = head.own_sum();
            file.write_all(bytemuck::bytes_of(&head))?;
            file.sync_all()
        })();
        written.map_err(|error| io("writing", error))?;
        fresh.take_the_place_of(&path)
    }

    /// The head, but for its sum, and the bytes of the parts.
    fn parts(&self) -> Result<(Head, [&[u8]; PARTS.len()])> {
        use bytemuck::cast_slice;
        let info = self.info()?;
        let places = self.epsilon_places.epsilons.as_ref().map_or(&[][..], |bits| &bits.words);
        let parts = [
            cast_slice(&self.words),
            cast_slice(&self.finals),
            self.ilabels.ranks.all_bytes(),
            cast_slice(&self.olabels.present.words),
            cast_slice(&self.olabels.present.before),
            self.olabels.values.all_bytes(),
            cast_slice(places),
        ];
        let mut end = size_of::<Head>() as u64;
        let extents = parts.map(|bytes| {
            let (at, len) = (end.next_multiple_of(PAGE), bytes.len() as u64);
            end = at + len;
            Extent { at, len, sum: XxHash3_64::oneshot(bytes) }
        });
        let head = Head {
            magic: MAGIC,
            version: VERSION,
            order: ORDER,
            sum: 0,
            file_len: end,
            rule: self.rule,
            num_arcs: self.totals.num_arcs,
            num_epsilon_arcs: self.totals.num_epsilon_arcs,
            num_infinite_arcs: self.totals.num_infinite_arcs,
            num_states: self.num_states,
            start: self.start,
            max_level: self.max_level,
            max_ilabel: self.totals.max_ilabel,
            max_olabel: self.totals.max_olabel,
            num_columns: self.totals.num_columns,
            widest_arc: self.totals.widest_arc.0,
            widest_ilabel: self.totals.widest_arc.1,
            num_unreachable: info.num_unreachable,
            num_dead_ends: info.num_dead_ends,
            wide: u32::from(self.wide),
            rank_bytes: self.ilabels.labels.rank_bytes(),
            mixed: u32::from(self.epsilon_places.epsilons.is_some()),
            long_olabels: u32::from(self.olabels.values.width() == 4),
            early: self.early_pages(extents[0].at / PAGE)?,
            parts: extents,
        };
        Ok((head, parts))
    }
}

/// A file of its own beside another, whose place it takes when it is whole. Until then dropping removes it.
struct Fresh {
    file: File,
    path: Option<PathBuf>,
}

impl Fresh {
    fn new(beside: &Path) -> Result<Fresh> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        loop {
            let mut name = beside.file_name().unwrap_or_default().to_os_string();
            name.push(format!(".{}.{}.new", process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
            let path = beside.with_file_name(name);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Fresh { file, path: Some(path) }),
                // What a process of the same number has left that was killed; or one elsewhere is writing.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io(format!("{}: making", path.display()), error)),
            }
        }
    }

    fn take_the_place_of(mut self, other: &Path) -> Result<()> {
        if let Some(path) = &self.path {
            fs::rename(path, other)
                .map_err(|error| Error::io(format!("{}: renaming to it", other.display()), error))?;
            self.path = None;
        }
        // A crash of the machine may still undo the renaming, which leaves the old file: no harm.
        Ok(())
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path); // there is an error to report already
        }
    }
}
