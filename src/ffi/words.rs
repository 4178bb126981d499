//! Words with times and confidences.

use std::ffi::c_char;
use std::ptr;

use super::arg;
use super::buffer::koshi_buffer;
use super::config::{self, Grows};
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::lattice::koshi_lattice;
use super::registry::{self, Kind, Opaque};
use super::symbols::koshi_symbols;
use crate::error::{Error, Result};
use crate::lattice::{Alternative, Bin, CompactLattice, CtmFormat, Lattice, Word, Words, WordsConfig, WordsJson};

/// The words of an utterance with times and confidences, and what competes with them. Immutable and
/// counted.
pub struct koshi_words {
    _opaque: (),
}

impl Opaque for koshi_words {
    type Object = Words;
    const KIND: Kind = Kind::Words;
}

/// A word. Times are in frames from the start, with fractions where they are means.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_word {
    /// The word; 0 for silence.
    pub label: i32,
    /// The bin that it was taken from.
    pub bin: u32,
    /// Frames before it.
    pub start: f32,
    /// Frames that it lasts.
    pub frames: f32,
    /// Posterior probability that it was said here, 0 to 1.
    pub confidence: f32,
}

/// A place of the confusion network: places of words and places between words take turns.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_word_bin {
    /// Number of its first alternative; the likeliest stands first.
    pub first: u32,
    /// Number of alternatives.
    pub len: u32,
    /// Frames before it, the mean over its alternatives.
    pub start: f32,
    /// Frames that it lasts.
    pub frames: f32,
}

/// One of the words that compete in a bin.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_word_alternative {
    /// The word; 0 for none.
    pub label: i32,
    /// Frames before it, the mean over the paths that have it here.
    pub start: f32,
    /// Frames that it lasts.
    pub frames: f32,
    /// Posterior probability, 0 to 1; those of a bin sum to 1.
    pub posterior: f32,
}

const _: () = assert!(
    size_of::<koshi_word>() == size_of::<Word>()
        && size_of::<koshi_word_bin>() == size_of::<Bin>()
        && size_of::<koshi_word_alternative>() == size_of::<Alternative>()
        && align_of::<koshi_word>() == align_of::<Word>()
        && align_of::<koshi_word_bin>() == align_of::<Bin>()
        && align_of::<koshi_word_alternative>() == align_of::<Alternative>(),
    "words, bins and alternatives are handed out as they lie"
);

/// How words are found in a lattice.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_words_config {
    /// sizeof this struct.
    pub struct_size: u32,
    /// Not 0: the words are those of least expected error (minimum Bayes risk); 0: those of the best path.
    /// Default 1.
    pub decode_mbr: u32,
    /// Not 0: bins in which no word wins are there too, as word 0. Default 0.
    pub keep_silence: u32,
    /// Not 0: words have the times of the best path that says exactly these words, where there is one; 0: a
    /// word's times are their mean over all paths that have it in its place. Default 0.
    pub one_best_times: u32,
    /// Multiplies acoustic costs. Finite. Default 1; koshi_lattice_info tells the scale of the search.
    pub acoustic_scale: f32,
    /// Multiplies graph costs. Finite. Default 1.
    pub graph_scale: f32,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_words_config {
    const NAME: &'static str = "koshi_words_config";
    const FIRST_SIZE: usize = 24;

    fn defaults() -> koshi_words_config {
        let config = WordsConfig::default();
        koshi_words_config {
            struct_size: size_of::<koshi_words_config>() as u32,
            decode_mbr: u32::from(config.decode_mbr),
            keep_silence: u32::from(config.keep_silence),
            one_best_times: u32::from(config.one_best_times),
            acoustic_scale: config.acoustic_scale,
            graph_scale: config.graph_scale,
        }
    }
}

impl koshi_words_config {
    fn words_config(&self) -> WordsConfig {
        WordsConfig {
            acoustic_scale: self.acoustic_scale,
            graph_scale: self.graph_scale,
            decode_mbr: self.decode_mbr != 0,
            keep_silence: self.keep_silence != 0,
            one_best_times: self.one_best_times != 0,
        }
    }
}

/// How CTM lines are written.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_ctm_format {
    /// sizeof this struct.
    pub struct_size: u32,
    /// Digits behind the point of times and confidences. At most 400. Default 2.
    pub digits: u32,
    /// Not 0: confidences stand at the ends of lines. Default 1.
    pub confidences: u32,
    /// Seconds from one frame to the next. Finite, above 0. Default 0.01.
    pub frame_shift: f32,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_ctm_format {
    const NAME: &'static str = "koshi_ctm_format";
    const FIRST_SIZE: usize = 16;

    fn defaults() -> koshi_ctm_format {
        let format = CtmFormat::default();
        koshi_ctm_format {
            struct_size: size_of::<koshi_ctm_format>() as u32,
            digits: format.digits,
            confidences: u32::from(format.confidences),
            frame_shift: format.frame_shift,
        }
    }
}

/// Fills *config, of `size` bytes, with the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_words_config_init(
    config: *mut koshi_words_config,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on structs.
    guard::call(err, || unsafe { config::init(config, size, "config") })
}

/// Fills *format, of `size` bytes, with the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_ctm_format_init(
    format: *mut koshi_ctm_format,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on structs.
    guard::call(err, || unsafe { config::init(format, size, "format") })
}

/// Gives a lattice in its compact form to `ask`.
fn compact(lattice: *const koshi_lattice, ask: impl FnOnce(&CompactLattice) -> Result<Words>) -> Result<Words> {
    match &*registry::get(lattice, "lattice")? {
        Lattice::Compact(lattice) => ask(lattice),
        Lattice::Raw(lattice) => ask(&lattice.to_compact()?),
    }
}

/// The options for a lattice; NULL stands for the defaults at the scale of its search.
///
/// # Safety
/// The header's promise on structs holds for `config`.
unsafe fn read_config(config: *const koshi_words_config) -> Result<impl Fn(&CompactLattice) -> WordsConfig> {
    let given = !config.is_null();
    // SAFETY: as the caller promises.
    let config = unsafe { config::read_optional(config, "config") }?.words_config();
    Ok(move |lattice: &CompactLattice| match given {
        true => config,
        false => WordsConfig { acoustic_scale: lattice.acoustic_scale, ..config },
    })
}

/// The words of least expected error of a lattice with times and confidences, in *words (Kaldi's
/// lattice-to-ctm-conf). Times mean something in a lattice that koshi_lattice_align_words has aligned.
/// `config` may be NULL: the defaults, at the acoustic scale of the search that made the lattice (1 for one
/// that was read). A lattice without paths has no words. KOSHI_E_ARGUMENT where paths to one state differ
/// in frames, or a scale or a scaled cost is not finite.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_words(
    lattice: *const koshi_lattice,
    config: *const koshi_words_config,
    words: *mut *mut koshi_words,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on structs and results.
        let (config, out) = unsafe { (read_config(config)?, arg::out(words, "words")?) };
        out.set(registry::insert(compact(lattice, |lattice| lattice.words(&config(lattice)))?)?);
        Ok(())
    })
}

/// As koshi_lattice_words, beginning from the `len` words at `hypothesis` in place of the best path: with
/// decode_mbr 0, these words with their times and confidences; a word that the lattice does not have in
/// its place has confidence 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_words_of(
    lattice: *const koshi_lattice,
    hypothesis: *const i32,
    len: usize,
    config: *const koshi_words_config,
    words: *mut *mut koshi_words,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promises on structs, arrays and results.
        let (config, hypothesis, out) =
            unsafe { (read_config(config)?, arg::array(hypothesis, len, "hypothesis")?, arg::out(words, "words")?) };
        let found = compact(lattice, |lattice| lattice.words_of(hypothesis, &config(lattice)))?;
        out.set(registry::insert(found)?);
        Ok(())
    })
}

/// The words of the best path of an aligned lattice with the times of their arcs, in *words: confidences
/// are 1, and there are no bins. With `keep_silence` not 0, arcs without a word are there as word 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_best_words(
    lattice: *const koshi_lattice,
    acoustic_scale: f32,
    keep_silence: i32,
    words: *mut *mut koshi_words,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(words, "words") }?;
        let found = compact(lattice, |lattice| lattice.best_words(acoustic_scale, keep_silence != 0))?;
        out.set(registry::insert(found)?);
        Ok(())
    })
}

/// Hands out one of the arrays.
unsafe fn array<T>(words: *const koshi_words, len: *mut usize, choose: fn(&Words) -> &[T]) -> Result<*const T> {
    // SAFETY: the header's promise on results.
    let len = unsafe { arg::length(len) };
    let words = registry::get(words, "words")?;
    Ok(len.of(choose(&words)))
}

/// The words in order, and their number in *len, which may be NULL. NULL and 0 for a bad handle. The
/// array lives as long as the words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_words_list(words: *const koshi_words, len: *mut usize) -> *const koshi_word {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(words, len, |words| bytemuck::cast_slice(&words.words)) })
}

/// The bins of the confusion network. Otherwise as koshi_words_list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_words_bins(words: *const koshi_words, len: *mut usize) -> *const koshi_word_bin {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(words, len, |words| bytemuck::cast_slice(&words.bins)) })
}

/// The alternatives of all bins. Otherwise as koshi_words_list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_words_alternatives(
    words: *const koshi_words,
    len: *mut usize,
) -> *const koshi_word_alternative {
    // SAFETY: as for the export.
    guard::query(ptr::null(), || unsafe { array(words, len, |words| bytemuck::cast_slice(&words.alternatives)) })
}

/// Expected number of word errors, if the lattice is right about its probabilities; NaN for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_words_expected_errors(words: *const koshi_words) -> f64 {
    guard::query(f64::NAN, || Ok(registry::get(words, "words")?.expected_errors))
}

/// Lines "key 1 start duration word confidence", times in seconds, in *buffer. `format` may be NULL for
/// the defaults; without `symbols` words are written as numbers. `key` holds no white space.
/// KOSHI_E_ARGUMENT if a word has no symbol.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_words_to_ctm(
    words: *const koshi_words,
    key: *const c_char,
    format: *const koshi_ctm_format,
    symbols: *const koshi_symbols,
    buffer: *mut *mut koshi_buffer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let words = registry::get(words, "words")?;
        let symbols = registry::get_optional(symbols, "symbols")?;
        // SAFETY: the header's promises on texts, structs and results.
        let (key, format, out) =
            unsafe { (arg::text(key, "key")?, config::read_optional(format, "format")?, arg::out(buffer, "buffer")?) };
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(Error::Argument(format!("key is {key:?}; it must be a word without white space")));
        }
        let (digits, confidences) = (format.digits, format.confidences != 0);
        let format = CtmFormat { frame_shift: format.frame_shift, digits, confidences };
        out.set(registry::insert(words.to_ctm(key, &format, symbols.as_deref())?)?);
        Ok(())
    })
}

/// The words as a JSON object in *buffer: "utterance" (the key, left out where it is NULL), "words" (each
/// with "word", "text", "start", "duration", "confidence", "bin"), "expected_errors", and "bins" (each with
/// "start", "duration" and "alternatives" of "word", "text", "posterior"). Times are in seconds; "text" is
/// left out where `symbols` is NULL. KOSHI_E_ARGUMENT if a word has no symbol.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_words_to_json(
    words: *const koshi_words,
    key: *const c_char,
    frame_shift: f32,
    symbols: *const koshi_symbols,
    buffer: *mut *mut koshi_buffer,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let words = registry::get(words, "words")?;
        let symbols = registry::get_optional(symbols, "symbols")?;
        // SAFETY: the header's promises on texts and results.
        let (utterance, out) = unsafe {
            let utterance = if key.is_null() { None } else { Some(arg::text(key, "key")?) };
            (utterance, arg::out(buffer, "buffer")?)
        };
        let format = WordsJson { utterance, frame_shift, symbols: symbols.as_deref() };
        out.set(registry::insert(words.to_json(&format)?)?);
        Ok(())
    })
}

/// Counts `words` once more and returns it; NULL for a bad handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_words_ref(words: *const koshi_words) -> *mut koshi_words {
    guard::query(ptr::null_mut(), || registry::count(words, "words"))
}

/// Takes back one count of `words`; the last one frees it. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_words_free(words: *mut koshi_words) -> koshi_status {
    guard::free(|| registry::free(words, "words"))
}
