//! Word alignment: its tables and the two ways.

use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;

use super::arg;
use super::config::{self, Grows};
use super::error::{koshi_error, koshi_status, koshi_status_code::*};
use super::guard;
use super::lattice::koshi_lattice;
use super::registry::{self, Kind, Opaque};
use super::transitions::koshi_transitions;
use crate::error::Result;
use crate::lattice::{
    AlignLexicon, AlignOutcome, Aligned, BoundaryOptions, CompactLattice, Lattice, LexiconOptions, WordBoundary,
};
use crate::table::Input;

/// Which phones begin and end words. Immutable and counted.
pub struct koshi_word_boundary {
    _opaque: (),
}

impl Opaque for koshi_word_boundary {
    type Object = WordBoundary;
    const KIND: Kind = Kind::WordBoundary;
}

/// The pronunciations of words. Immutable and counted.
pub struct koshi_align_lexicon {
    _opaque: (),
}

impl Opaque for koshi_align_lexicon {
    type Object = AlignLexicon;
    const KIND: Kind = Kind::AlignLexicon;
}

/// How far an alignment came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum koshi_alignment {
    /// Every arc is one word, or silence.
    KOSHI_ALIGNMENT_COMPLETE = 0,
    /// Aligned, but paths end within a word or within silence.
    KOSHI_ALIGNMENT_PARTIAL_WORDS = 1,
    /// Not aligned: the lattice is as it was.
    KOSHI_ALIGNMENT_NONE = 2,
}

/// Options of word alignment.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_align_options {
    /// sizeof this struct.
    pub struct_size: u32,
    /// Word on arcs of silence; 0 for none. By word boundaries only: a lexicon names its own. Default 0.
    pub silence_label: i32,
    /// Word on arcs of phones that belong to no word of the lattice; 0 for none. Default 0.
    pub partial_word_label: i32,
    /// Not 0: self-loops stand behind the transition out of their state, as graphs made with --reorder=true
    /// have it. Default 1.
    pub reorder: u32,
    /// Not 0: phones that are in no word may stand inside one too. By word boundaries only. Default 0.
    pub silence_may_be_word_internal: u32,
    /// Above 0: the lattice stays as it is once more than 1000 + this times its states would be needed.
    /// Default 1000.
    pub max_expand: f32,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_align_options {
    const NAME: &'static str = "koshi_align_options";
    const FIRST_SIZE: usize = 24;

    fn defaults() -> koshi_align_options {
        let options = BoundaryOptions::default();
        koshi_align_options {
            struct_size: size_of::<koshi_align_options>() as u32,
            silence_label: options.silence_label,
            partial_word_label: options.partial_word_label,
            reorder: u32::from(options.reorder),
            silence_may_be_word_internal: u32::from(options.silence_may_be_word_internal),
            max_expand: options.max_expand,
        }
    }
}

/// Fills *options, of `size` bytes, with the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_align_options_init(
    options: *mut koshi_align_options,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on structs.
    guard::call(err, || unsafe { config::init(options, size, "options") })
}

/// Reads a table such as Kaldi's word_boundary.int, lines of a phone and one of nonword, begin, end,
/// internal, singleton, from the file that a Kaldi rxfilename names (a path, or "command |" where commands
/// are allowed) into *boundary. KOSHI_E_IO; KOSHI_E_FORMAT names file, byte and line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_word_boundary_read(
    path: *const c_char,
    boundary: *mut *mut koshi_word_boundary,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on texts and results.
        let (path, out) = unsafe { (arg::text(path, "path")?, arg::out(boundary, "boundary")?) };
        out.set(registry::insert(WordBoundary::read_file(path)?)?);
        Ok(())
    })
}

/// As koshi_word_boundary_read, from `size` bytes at `data`, which are not needed afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_word_boundary_from_memory(
    data: *const u8,
    size: usize,
    boundary: *mut *mut koshi_word_boundary,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on arrays and results.
        let (bytes, out) = unsafe { (arg::array(data, size, "data")?, arg::out(boundary, "boundary")?) };
        let mut input = Input::from_bytes("memory", arg::copy(bytes, "data")?);
        out.set(registry::insert(WordBoundary::read(&mut input)?)?);
        Ok(())
    })
}

/// Counts `boundary` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_word_boundary_ref(boundary: *const koshi_word_boundary) -> *mut koshi_word_boundary {
    guard::query(ptr::null_mut(), || registry::count(boundary, "boundary"))
}

/// Takes back one count of `boundary`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_word_boundary_free(boundary: *mut koshi_word_boundary) -> koshi_status {
    guard::free(|| registry::free(boundary, "boundary"))
}

/// Reads a table such as Kaldi's align_lexicon.int, lines of a word, the word that will stand for it, and
/// phones (word 0 is silence), from the file that a Kaldi rxfilename names into *lexicon. KOSHI_E_IO;
/// KOSHI_E_FORMAT names file, byte and line.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_align_lexicon_read(
    path: *const c_char,
    lexicon: *mut *mut koshi_align_lexicon,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on texts and results.
        let (path, out) = unsafe { (arg::text(path, "path")?, arg::out(lexicon, "lexicon")?) };
        out.set(registry::insert(AlignLexicon::read_file(path)?)?);
        Ok(())
    })
}

/// As koshi_align_lexicon_read, from `size` bytes at `data`, which are not needed afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_align_lexicon_from_memory(
    data: *const u8,
    size: usize,
    lexicon: *mut *mut koshi_align_lexicon,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on arrays and results.
        let (bytes, out) = unsafe { (arg::array(data, size, "data")?, arg::out(lexicon, "lexicon")?) };
        let mut input = Input::from_bytes("memory", arg::copy(bytes, "data")?);
        out.set(registry::insert(AlignLexicon::read(&mut input)?)?);
        Ok(())
    })
}

/// Counts `lexicon` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_align_lexicon_ref(lexicon: *const koshi_align_lexicon) -> *mut koshi_align_lexicon {
    guard::query(ptr::null_mut(), || registry::count(lexicon, "lexicon"))
}

/// Takes back one count of `lexicon`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_align_lexicon_free(lexicon: *mut koshi_align_lexicon) -> koshi_status {
    guard::free(|| registry::free(lexicon, "lexicon"))
}

/// Aligns a lattice with its words by the kinds of phones, into *aligned: each arc is one word, or silence
/// without a word, with exactly its transition-ids; paths keep words, transition-ids and costs. A raw
/// lattice is taken in its compact form. `options` may be NULL for the defaults.
///
/// *alignment, which may be NULL, says how far it came: a koshi_alignment. If not to the end the call
/// answers KOSHI_OK_PARTIAL and logs a warning that says why: the utterance was cut off, so that the last
/// words are partial, or lattice, model and table do not fit, and *aligned is the lattice as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_align_words(
    lattice: *const koshi_lattice,
    transitions: *const koshi_transitions,
    boundary: *const koshi_word_boundary,
    options: *const koshi_align_options,
    aligned: *mut *mut koshi_lattice,
    alignment: *mut i32,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let boundary = registry::get(boundary, "boundary")?;
        let transitions = registry::get(transitions, "transitions")?;
        let by_boundary = |lattice: &CompactLattice, options: koshi_align_options| {
            let options = BoundaryOptions {
                silence_label: options.silence_label,
                partial_word_label: options.partial_word_label,
                reorder: options.reorder != 0,
                silence_may_be_word_internal: options.silence_may_be_word_internal != 0,
                max_expand: options.max_expand,
            };
            lattice.align_words(&transitions, &boundary, &options)
        };
        // SAFETY: as for the export.
        unsafe { align(lattice, options, aligned, alignment, by_boundary) }
    })
}

/// As koshi_lattice_align_words, by the pronunciations of words: each arc is a word, or silence, with exactly
/// the transition-ids of one of its pronunciations, and words become those that the lexicon has for them.
/// A path that the lexicon cannot explain is left out, unless it is the best one: then, or if a word is not
/// in the lexicon, *aligned is the lattice as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_align_words_lexicon(
    lattice: *const koshi_lattice,
    transitions: *const koshi_transitions,
    lexicon: *const koshi_align_lexicon,
    options: *const koshi_align_options,
    aligned: *mut *mut koshi_lattice,
    alignment: *mut i32,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lexicon = registry::get(lexicon, "lexicon")?;
        let transitions = registry::get(transitions, "transitions")?;
        let by_lexicon = |lattice: &CompactLattice, options: koshi_align_options| {
            let options = LexiconOptions {
                partial_word_label: options.partial_word_label,
                reorder: options.reorder != 0,
                max_expand: options.max_expand,
            };
            lattice.align_words_by_lexicon(&transitions, &lexicon, &options)
        };
        // SAFETY: as for the export.
        unsafe { align(lattice, options, aligned, alignment, by_lexicon) }
    })
}

/// What both exports do around their way.
///
/// # Safety
/// As for them.
unsafe fn align(
    lattice: *const koshi_lattice,
    options: *const koshi_align_options,
    aligned: *mut *mut koshi_lattice,
    alignment: *mut i32,
    way: impl FnOnce(&CompactLattice, koshi_align_options) -> Result<Aligned>,
) -> Result<koshi_status> {
    let lattice = registry::get(lattice, "lattice")?;
    // SAFETY: the header's promises on structs and results.
    let (options, out, outcome) = unsafe {
        let options = config::read_optional(options, "options")?;
        (options, arg::out(aligned, "aligned")?, arg::out_optional(alignment, "alignment")?)
    };
    let attempt = match &*lattice {
        Lattice::Compact(lattice) => way(lattice, options)?,
        Lattice::Raw(lattice) => way(&lattice.to_compact()?, options)?,
    };
    if let Some(why) = attempt.outcome.reason() {
        log::warn!("word alignment: {why}");
    }
    let (alignment, status) = match attempt.outcome {
        AlignOutcome::Complete => (koshi_alignment::KOSHI_ALIGNMENT_COMPLETE, KOSHI_OK),
        AlignOutcome::PartialWords(_) => (koshi_alignment::KOSHI_ALIGNMENT_PARTIAL_WORDS, KOSHI_OK_PARTIAL),
        AlignOutcome::NotAligned(_) => (koshi_alignment::KOSHI_ALIGNMENT_NONE, KOSHI_OK_PARTIAL),
    };
    let result = match alignment {
        koshi_alignment::KOSHI_ALIGNMENT_NONE => lattice,
        _ => Arc::new(Lattice::Compact(attempt.lattice)),
    };
    let handle = registry::insert_shared(result)?;
    if let Some(outcome) = outcome {
        outcome.set(alignment as i32);
    }
    out.set(handle);
    Ok(status as koshi_status)
}
