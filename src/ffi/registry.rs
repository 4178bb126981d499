//! Live handles. A handle is a number in a pointer's clothes: what it stands for is looked
//! up here, so a wrong, stale or doubly freed one is told apart without touching memory
//! that is gone.
//!
//! ```text
//! bit 63      56 55            32 31                              0
//!     [  kind   ][     index     ][          generation            ]
//! ```
//!
//! The kind is 1 to 126, so that no handle is ever a canonical address: a program that
//! follows one faults at once. Slots lie in chunks that are never given back, each with its
//! own lock, on a cache line of its own: calls on different handles share nothing. A slot's
//! generation rises with each object; one whose generations are used up is retired.

use std::any::Any;
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};

use crate::error::{Error, Result};

const _: () = assert!(usize::BITS == 64, "a handle needs 64 bits");

/// A C type that handles point to, and what it stands for.
pub(super) trait Opaque {
    /// What a handle of this type stands for.
    type Object: Send + Sync + 'static;
    /// The type's number inside handles.
    const KIND: Kind;
}

/// The types of handles. Numbers are private to a build and may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Error = 1,
    Transitions,
    Symbols,
    Graph,
    Decodable,
    Decoder,
    Channel,
    Path,
    Lattice,
    Buffer,
    Matrix,
    MatrixReader,
    LatticeReader,
    LatticeWriter,
    IntWriter,
    WordBoundary,
    AlignLexicon,
    Words,
    Example,
    Degs,
    EgsReader,
    EgsTable,
    EgsWriter,
    ExamplesRepository,
    Paths,
    LanguageModel,
    Transducer,
    TransducerStream,
    Hypotheses,
    DenGraph,
    Supervision,
    #[cfg(test)]
    Test = 126,
}

impl Kind {
    const ALL: &[(Kind, &str)] = &[
        (Kind::Error, "koshi_error"),
        (Kind::Transitions, "koshi_transitions"),
        (Kind::Symbols, "koshi_symbols"),
        (Kind::Graph, "koshi_graph"),
        (Kind::Decodable, "koshi_decodable"),
        (Kind::Decoder, "koshi_decoder"),
        (Kind::Channel, "koshi_channel"),
        (Kind::Path, "koshi_path"),
        (Kind::Lattice, "koshi_lattice"),
        (Kind::Buffer, "koshi_buffer"),
        (Kind::Matrix, "koshi_matrix"),
        (Kind::MatrixReader, "koshi_matrix_reader"),
        (Kind::LatticeReader, "koshi_lattice_reader"),
        (Kind::LatticeWriter, "koshi_lattice_writer"),
        (Kind::IntWriter, "koshi_int_writer"),
        (Kind::WordBoundary, "koshi_word_boundary"),
        (Kind::AlignLexicon, "koshi_align_lexicon"),
        (Kind::Words, "koshi_words"),
        (Kind::Example, "koshi_example"),
        (Kind::Degs, "koshi_degs"),
        (Kind::EgsReader, "koshi_egs_reader"),
        (Kind::EgsTable, "koshi_egs_table"),
        (Kind::EgsWriter, "koshi_egs_writer"),
        (Kind::ExamplesRepository, "koshi_examples_repository"),
        (Kind::Paths, "koshi_paths"),
        (Kind::LanguageModel, "koshi_language_model"),
        (Kind::Transducer, "koshi_transducer"),
        (Kind::TransducerStream, "koshi_transducer_stream"),
        (Kind::Hypotheses, "koshi_hypotheses"),
        (Kind::DenGraph, "koshi_den_graph"),
        (Kind::Supervision, "koshi_supervision"),
        #[cfg(test)]
        (Kind::Test, "koshi_test"),
    ];

    /// Name of the C type.
    fn name(self) -> &'static str {
        Kind::named(self as u8).unwrap_or("handle")
    }

    fn named(number: u8) -> Option<&'static str> {
        Kind::ALL.iter().find(|(kind, _)| *kind as u8 == number).map(|(_, name)| *name)
    }
}

/// The parts of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    kind: u8,
    index: u32,
    generation: u32,
}

const INDEX_BITS: u32 = 24;
const MAX_SLOTS: u32 = 1 << INDEX_BITS;
const NO_SLOT: u32 = u32::MAX;
/// Slots of chunk 0; each further chunk doubles what there is.
const FIRST_CHUNK: u32 = 64;
const CHUNKS: usize = (MAX_SLOTS / FIRST_CHUNK).ilog2() as usize + 1;

impl Parts {
    fn pack(self) -> usize {
        (self.kind as usize) << 56 | (self.index as usize) << 32 | self.generation as usize
    }

    fn unpack(value: usize) -> Parts {
        Parts { kind: (value >> 56) as u8, index: (value >> 32) as u32 & (MAX_SLOTS - 1), generation: value as u32 }
    }
}

type Object = Arc<dyn Any + Send + Sync>;

struct Entry {
    object: Option<Object>,
    /// Generation of the object, or of the next one if there is none.
    generation: u32,
    /// How many frees the handle still stands.
    count: u32,
    /// Next slot of the free list.
    next_free: u32,
    kind: u8,
}

/// Two cache lines apart, since processors fetch lines in pairs.
#[repr(align(128))]
struct Slot(RwLock<Entry>);

struct FreeList {
    first: u32,
    /// Slots that exist.
    slots: u32,
}

/// A table of live handles.
struct Registry {
    chunks: [OnceLock<Vec<Slot>>; CHUNKS],
    free: Mutex<FreeList>,
}

/// The table of the process. It is never torn down: handles may outlive `main`.
static LIVE: Registry = Registry::new();

/// Registers `object` under a new handle that stands one free.
pub(super) fn insert<T: Opaque>(object: T::Object) -> Result<*mut T> {
    insert_shared::<T>(Arc::new(object))
}

/// Registers an object that others hold too.
pub(super) fn insert_shared<T: Opaque>(object: Arc<T::Object>) -> Result<*mut T> {
    LIVE.insert(T::KIND, object).map(std::ptr::without_provenance_mut)
}

/// What `handle` stands for, held until the returned count is dropped. `argument` is
/// named in the error.
#[inline]
pub(super) fn get<T: Opaque>(handle: *const T, argument: &str) -> Result<Arc<T::Object>> {
    let object = LIVE.get(T::KIND, handle.addr()).map_err(|fault| fault.error(T::KIND, argument))?;
    object.downcast().map_err(|_| Error::Internal(format!("{argument}: a handle's kind and object differ")))
}

/// As [`get`], with `None` for a null handle.
pub(super) fn get_optional<T: Opaque>(handle: *const T, argument: &str) -> Result<Option<Arc<T::Object>>> {
    if handle.is_null() { Ok(None) } else { get(handle, argument).map(Some) }
}

/// Counts `handle` once more: it then stands one more free.
pub(super) fn count<T: Opaque>(handle: *const T, argument: &str) -> Result<*mut T> {
    LIVE.count(T::KIND, handle.addr()).map_err(|fault| fault.error(T::KIND, argument))?;
    Ok(handle.cast_mut())
}

/// Takes back one count of `handle`. With the last one the handle is dead at once, and its
/// object is returned: running calls may still hold it. Null is fine.
pub(super) fn free<T: Opaque>(handle: *const T, argument: &str) -> Result<Option<Arc<T::Object>>> {
    if handle.is_null() {
        return Ok(None);
    }
    match LIVE.free(T::KIND, handle.addr()).map_err(|fault| fault.error(T::KIND, argument))? {
        None => Ok(None),
        Some(object) => {
            let object = object.downcast();
            object.map(Some).map_err(|_| Error::Internal(format!("{argument}: a handle's kind and object differ")))
        }
    }
}

/// All handles that are not freed, with the names of their types, in no order: for tests, which see by it what a call
/// has left behind.
#[doc(hidden)]
pub fn live_handles() -> Vec<(&'static str, usize)> {
    LIVE.all()
}

/// What is wrong with a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Null,
    /// Not a value that this library hands out.
    Unknown(usize),
    /// A handle of another kind.
    Kind(usize),
    /// Freed before.
    Freed(usize),
    /// Counted so often that one more would overflow.
    Count(usize),
}

impl Fault {
    #[cold]
    fn error(self, wanted: Kind, argument: &str) -> Error {
        let name = wanted.name();
        Error::Handle(match self {
            Fault::Null => format!("{argument} is NULL; it must be a {name}"),
            Fault::Unknown(value) => format!("{argument} ({value:#x}) is not a {name} of this library"),
            Fault::Kind(value) => {
                let found = Kind::named(Parts::unpack(value).kind).unwrap_or("handle of another type");
                format!("{argument} ({value:#x}) must be a {name} and is a {found}")
            }
            Fault::Freed(value) => format!("{argument} ({value:#x}) is a {name} that was freed before"),
            Fault::Count(value) => format!("{argument} ({value:#x}) is counted too often"),
        })
    }
}

impl Registry {
    const fn new() -> Registry {
        Registry {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::new(FreeList { first: NO_SLOT, slots: 0 }),
        }
    }

    /// The slot at `index`, if there is one.
    #[inline]
    fn slot(&self, index: u32) -> Option<&Slot> {
        // Chunk 0 holds slots 0..64, chunk k > 0 holds 64 << (k - 1) .. 64 << k.
        let chunk = (index / FIRST_CHUNK).checked_ilog2().map_or(0, |log| log as usize + 1);
        let start = if chunk == 0 { 0 } else { FIRST_CHUNK << (chunk - 1) };
        self.chunks.get(chunk)?.get()?.get((index - start) as usize)
    }

    fn insert(&self, kind: Kind, object: Object) -> Result<usize> {
        let mut free = self.free.lock();
        if free.first == NO_SLOT {
            self.grow(&mut free)?;
        }
        let index = free.first;
        let slot = self.slot(index).ok_or_else(|| Error::Internal("the list of free handles is broken".into()))?;
        let mut entry = slot.0.write();
        free.first = entry.next_free;
        drop(free);
        entry.object = Some(object);
        entry.kind = kind as u8;
        entry.count = 1;
        Ok(Parts { kind: kind as u8, index, generation: entry.generation }.pack())
    }

    /// Adds the next chunk and puts its slots on the free list, lowest first.
    fn grow(&self, free: &mut FreeList) -> Result<()> {
        let start = free.slots;
        if start >= MAX_SLOTS {
            return Err(Error::Limit(format!("{MAX_SLOTS} handles are in use; free some")));
        }
        let len = start.max(FIRST_CHUNK);
        let mut chunk: Vec<Slot> = Vec::new();
        chunk.try_reserve_exact(len as usize).map_err(|_| Error::NoMemory {
            what: "handles".into(),
            asked: u64::from(len) * size_of::<Slot>() as u64,
        })?;
        chunk.extend((0..len).map(|place| {
            let next_free = if place + 1 < len { start + place + 1 } else { NO_SLOT };
            Slot(RwLock::new(Entry { object: None, generation: 1, count: 0, next_free, kind: 0 }))
        }));
        let number = (start / FIRST_CHUNK).checked_ilog2().map_or(0, |log| log as usize + 1);
        let cell = self.chunks.get(number).ok_or_else(|| Error::Internal("too many chunks of handles".into()))?;
        cell.set(chunk).map_err(|_| Error::Internal("a chunk of handles came twice".into()))?;
        free.first = start;
        free.slots = start + len;
        Ok(())
    }

    fn all(&self) -> Vec<(&'static str, usize)> {
        let slots = self.free.lock().slots;
        let handle = |index: u32| {
            let entry = self.slot(index)?.0.read();
            entry.object.as_ref()?;
            let handle = Parts { kind: entry.kind, index, generation: entry.generation }.pack();
            Some((Kind::named(entry.kind)?, handle))
        };
        (0..slots).filter_map(handle).collect()
    }

    /// The slot that `value` names, if its kind is the one wanted.
    #[inline]
    fn find(&self, kind: Kind, value: usize) -> Result<(&Slot, Parts), Fault> {
        if value == 0 {
            return Err(Fault::Null);
        }
        let parts = Parts::unpack(value);
        let slot = self.slot(parts.index).ok_or(Fault::Unknown(value))?;
        if parts.kind != kind as u8 && Kind::named(parts.kind).is_none() {
            return Err(Fault::Unknown(value));
        }
        Ok((slot, parts))
    }

    #[inline]
    fn get(&self, kind: Kind, value: usize) -> Result<Object, Fault> {
        let (slot, parts) = self.find(kind, value)?;
        let entry = slot.0.read();
        let object = entry.check(kind, parts, value)?;
        Ok(Arc::clone(object))
    }

    fn count(&self, kind: Kind, value: usize) -> Result<(), Fault> {
        let (slot, parts) = self.find(kind, value)?;
        let mut entry = slot.0.write();
        entry.check(kind, parts, value)?;
        entry.count = entry.count.checked_add(1).ok_or(Fault::Count(value))?;
        Ok(())
    }

    fn free(&self, kind: Kind, value: usize) -> Result<Option<Object>, Fault> {
        let (slot, parts) = self.find(kind, value)?;
        let mut entry = slot.0.write();
        entry.check(kind, parts, value)?;
        entry.count -= 1;
        if entry.count > 0 {
            return Ok(None);
        }
        let object = entry.object.take();
        let retired = entry.generation == u32::MAX;
        if !retired {
            entry.generation += 1;
        }
        drop(entry);
        if !retired {
            // Taken in the order list, slot, as in `insert`.
            let mut free = self.free.lock();
            slot.0.write().next_free = free.first;
            free.first = parts.index;
        }
        Ok(object)
    }
}

impl Entry {
    /// The object, if `parts` name it.
    #[inline]
    fn check(&self, kind: Kind, parts: Parts, value: usize) -> Result<&Object, Fault> {
        match &self.object {
            Some(object) if parts.generation == self.generation && parts.kind == self.kind => {
                if parts.kind == kind as u8 { Ok(object) } else { Err(Fault::Kind(value)) }
            }
            _ => Err(self.fault(kind, parts, value)),
        }
    }

    /// Tells a handle that was freed from one that never was.
    #[cold]
    fn fault(&self, kind: Kind, parts: Parts, value: usize) -> Fault {
        let passed = parts.generation < self.generation || (self.generation == u32::MAX && self.object.is_none());
        match passed && parts.generation > 0 {
            true if parts.kind == kind as u8 => Fault::Freed(value),
            true => Fault::Kind(value),
            false => Fault::Unknown(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn registry() -> &'static Registry {
        Box::leak(Box::new(Registry::new()))
    }

    fn number(object: Object) -> u32 {
        *object.downcast::<u32>().unwrap()
    }

    #[test]
    fn a_handle_is_no_address_and_finds_its_object() {
        let live = registry();
        let value = live.insert(Kind::Test, Arc::new(7u32)).unwrap();
        assert!(value >> 47 != 0 && value >> 47 != 0x1ffff);
        assert_eq!(number(live.get(Kind::Test, value).unwrap()), 7);
    }

    #[test]
    fn live_handles_are_those_not_freed() {
        let live = registry();
        let values: Vec<usize> = (0..200).map(|_| live.insert(Kind::Test, Arc::new(7u32)).unwrap()).collect();
        live.count(Kind::Test, values[70]).unwrap();
        for value in [0, 70, 199].map(|at| values[at]) {
            live.free(Kind::Test, value).unwrap();
        }
        let left = values.iter().copied().filter(|value| ![values[0], values[199]].contains(value));
        assert_eq!(live.all(), left.map(|value| ("koshi_test", value)).collect::<Vec<_>>());
    }

    #[test]
    fn bad_handles_are_told_apart() {
        let live = registry();
        assert_eq!(live.get(Kind::Test, 0).unwrap_err(), Fault::Null);
        assert_eq!(live.get(Kind::Test, 0x1234).unwrap_err(), Fault::Unknown(0x1234));
        let value = live.insert(Kind::Test, Arc::new(7u32)).unwrap();
        assert_eq!(live.get(Kind::Error, value).unwrap_err(), Fault::Kind(value));
        for garbage in [1, value + 1, value ^ 1 << 40, value ^ 1 << 60, !0, 0x7fff_dead_beef_0000, value & !0xffff_ffff]
        {
            assert!(matches!(live.get(Kind::Test, garbage), Err(Fault::Unknown(_) | Fault::Kind(_))), "{garbage:#x}");
        }
        assert!(live.free(Kind::Test, value).unwrap().is_some());
        assert_eq!(live.get(Kind::Test, value).unwrap_err(), Fault::Freed(value));
        assert_eq!(live.free(Kind::Test, value).unwrap_err(), Fault::Freed(value));
        assert_eq!(live.count(Kind::Test, value).unwrap_err(), Fault::Freed(value));
        assert_eq!(live.get(Kind::Error, value).unwrap_err(), Fault::Kind(value));
        let next = live.insert(Kind::Test, Arc::new(8u32)).unwrap();
        assert_ne!(next, value, "a slot that is used again has a new generation");
        assert_eq!(live.get(Kind::Test, value).unwrap_err(), Fault::Freed(value));
    }

    #[test]
    fn counts_stand_that_many_frees() {
        let live = registry();
        let value = live.insert(Kind::Test, Arc::new(7u32)).unwrap();
        live.count(Kind::Test, value).unwrap();
        assert!(live.free(Kind::Test, value).unwrap().is_none());
        assert_eq!(number(live.get(Kind::Test, value).unwrap()), 7);
        assert!(live.free(Kind::Test, value).unwrap().is_some());
        assert_eq!(live.free(Kind::Test, value).unwrap_err(), Fault::Freed(value));
        let value = live.insert(Kind::Test, Arc::new(7u32)).unwrap();
        live.slot(Parts::unpack(value).index).unwrap().0.write().count = u32::MAX;
        assert_eq!(live.count(Kind::Test, value).unwrap_err(), Fault::Count(value));
    }

    #[test]
    fn an_object_lives_as_long_as_a_call_holds_it() {
        struct Noisy(Arc<AtomicUsize>);
        impl Drop for Noisy {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let live = registry();
        let drops = Arc::new(AtomicUsize::new(0));
        let value = live.insert(Kind::Test, Arc::new(Noisy(drops.clone()))).unwrap();
        let held = live.get(Kind::Test, value).unwrap();
        drop(live.free(Kind::Test, value).unwrap());
        assert_eq!(drops.load(Ordering::Relaxed), 0);
        drop(held);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_slot_is_retired_with_its_last_generation() {
        let live = registry();
        let value = live.insert(Kind::Test, Arc::new(1u32)).unwrap();
        let index = Parts::unpack(value).index;
        live.free(Kind::Test, value).unwrap();
        live.slot(index).unwrap().0.write().generation = u32::MAX;
        let last = live.insert(Kind::Test, Arc::new(2u32)).unwrap();
        assert_eq!(Parts::unpack(last), Parts { kind: Kind::Test as u8, index, generation: u32::MAX });
        live.free(Kind::Test, last).unwrap();
        assert_eq!(live.get(Kind::Test, last).unwrap_err(), Fault::Freed(last));
        for _ in 0..3 * FIRST_CHUNK {
            let value = live.insert(Kind::Test, Arc::new(3u32)).unwrap();
            assert_ne!(Parts::unpack(value).index, index);
        }
    }

    #[test]
    fn chunks_meet_without_gap_or_overlap() {
        let live = registry();
        let mut values = Vec::new();
        for object in 0..1000u32 {
            values.push(live.insert(Kind::Test, Arc::new(object)).unwrap());
        }
        for (object, value) in values.iter().enumerate() {
            assert_eq!(Parts::unpack(*value).index, object as u32);
            assert_eq!(number(live.get(Kind::Test, *value).unwrap()), object as u32);
        }
        assert_eq!(FIRST_CHUNK << (CHUNKS - 1), MAX_SLOTS);
    }

    #[test]
    fn frees_and_lookups_from_many_threads() {
        let live = registry();
        let drops = Arc::new(AtomicUsize::new(0));
        struct Counted(Arc<AtomicUsize>, u64);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        const ROUNDS: usize = if cfg!(miri) { 20 } else { 2000 };
        let shared: Vec<usize> = (0..ROUNDS as u64)
            .map(|at| live.insert(Kind::Test, Arc::new(Counted(drops.clone(), at))).unwrap())
            .collect();
        let frees = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for (at, &value) in shared.iter().enumerate() {
                        if let Ok(object) = live.get(Kind::Test, value) {
                            assert_eq!(object.downcast::<Counted>().unwrap().1, at as u64);
                        }
                        if live.free(Kind::Test, value).is_ok() {
                            frees.fetch_add(1, Ordering::Relaxed);
                        }
                        let own = live.insert(Kind::Test, Arc::new(at as u32)).unwrap();
                        assert_eq!(number(live.get(Kind::Test, own).unwrap()), at as u32);
                        live.free(Kind::Test, own).unwrap();
                    }
                });
            }
        });
        assert_eq!(frees.load(Ordering::Relaxed), ROUNDS);
        assert_eq!(drops.load(Ordering::Relaxed), ROUNDS);
    }
}
