//! Channels: one utterance after another, from rows to words and lattices.

use std::ffi::c_void;
use std::sync::Arc;

use super::arg;
use super::config::{self, Grows};
use super::decodable::{koshi_decodable, rows};
use super::decoder::koshi_decoder;
use super::error::{koshi_error, koshi_status, ok_or_partial};
use super::guard;
use super::lattice::koshi_lattice;
use super::path::koshi_path;
use super::phrases::{self, koshi_phrase};
use super::registry::{self, Kind, Opaque};
use crate::cuda::DeviceRows;
use crate::decoder::SharedChannel;
use crate::error::Result;
use crate::lattice::Lattice;

/// One utterance at a time: new, then open from koshi_channel_begin to koshi_channel_finish, then finished
/// until the next begin. Cheap when idle. One call at a time may change it. Rows are searched by the thread
/// that pushes them (koshi_channel_push, koshi_channel_advance), or queued and searched by a thread of the
/// decoder's (koshi_channel_submit); calls on the channel then wait while it is searched, a chunk of rows, and
/// see it as it is behind that.
pub struct koshi_channel {
    _opaque: (),
}

impl Opaque for koshi_channel {
    type Object = ChannelObject;
    const KIND: Kind = Kind::Channel;
}

/// What a `koshi_channel` stands for.
pub struct ChannelObject {
    pub(super) channel: Arc<SharedChannel>,
}

impl Drop for ChannelObject {
    fn drop(&mut self) {
        self.channel.close();
    }
}

/// Counts of a channel since koshi_channel_begin, over all its segments. They are of the channel alone,
/// whatever its neighbours do.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_search_stats {
    /// Bytes that were filled.
    pub struct_size: u32,
    /// Least beam that was in force for a frame; +inf before any.
    pub effective_beam: f32,
    /// Frames searched.
    pub frames: u64,
    /// Tokens made, over all times.
    pub tokens: u64,
    /// Largest number of tokens at one time.
    pub max_tokens: u64,
    /// Arcs looked at, emitting and epsilon.
    pub arcs: u64,
    /// Links made, before any pruning.
    pub links: u64,
    /// Frames on which max_active tightened the beam.
    pub max_active_held: u64,
    /// Frames on which a capacity tightened it.
    pub capacity_held: u64,
    /// Links of the trace that are held now.
    pub trace_links: u64,
    /// Bytes that tokens, links, trace, phrases and remembered best path hold now. The last is not counted
    /// against memory_limit.
    pub memory: u64,
    /// Seconds spent searching, by the wall clock.
    pub seconds: f64,
    /// Links followed back for best paths, partial results and end points.
    pub links_followed: u64,
    /// Frames that have been committed; see koshi_channel_set_commit.
    pub committed_frames: u64,
    /// Commits at a token that not all paths went through.
    pub forced_commits: u64,
    /// Those bytes of memory that the trace holds: what an utterance grows by. Divided by frames, less those
    /// that have been committed, they are its bytes a frame.
    pub trace_bytes: u64,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_search_stats {
    const NAME: &'static str = "koshi_search_stats";
    const FIRST_SIZE: usize = 88;

    fn defaults() -> koshi_search_stats {
        bytemuck::Zeroable::zeroed()
    }
}

pub(super) fn object(channel: *const koshi_channel) -> Result<Arc<ChannelObject>> {
    registry::get(channel, "channel")
}

/// Makes a channel of `decoder` in *channel. KOSHI_E_LIMIT when max_channels exist.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_new(
    decoder: *const koshi_decoder,
    channel: *mut *mut koshi_channel,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let decoder = registry::get(decoder, "decoder")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(channel, "channel") }?;
        let channel = SharedChannel::new(decoder.decoder.new_channel()?)?;
        out.set(registry::insert(ChannelObject { channel })?);
        Ok(())
    })
}

/// Begins a new utterance, from any state. Results of the one before are gone, its segments and what is queued
/// too. End points are found by the rules that the decoder has now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_begin(channel: *mut koshi_channel, err: *mut *mut koshi_error) -> koshi_status {
    guard::call(err, || object(channel)?.channel.begin())
}

/// Makes phrases of output labels more likely, or less by a bonus below 0, in this channel; those of an
/// earlier call are forgotten, and with `num_phrases` 0 there are none. They are copied. In an
/// utterance that has begun they hold from the next frame on that is searched, also where that one is
/// queued already (koshi_channel_submit): what was held of an earlier list's bonuses is given back
/// there. Search and pruning go by the biased costs; paths and lattices have the bias apart from their
/// graph costs (koshi_path_bias_cost, koshi_lattice_bias_costs). A channel without phrases gives the
/// same bits as if this function did not exist. On a GPU a list takes device memory from the call on in
/// an utterance that has begun, otherwise from koshi_channel_begin on, and the decoder's first list, or
/// one much larger than all before, more of it for all lanes (koshi_decoder_summary counts both):
/// KOSHI_E_NO_MEMORY, from either call, where there is too little.
/// KOSHI_E_CONFIG names a phrase without labels, with a label below 1, or with a bonus out of its range;
/// KOSHI_E_LIMIT if all have more than 2^24 labels together. On an error nothing has changed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_set_bias(
    channel: *mut koshi_channel,
    phrases: *const koshi_phrase,
    num_phrases: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = object(channel)?;
        // SAFETY: the header's promise on arrays.
        let phrases = unsafe { phrases::read(phrases, num_phrases) }?;
        object.channel.write()?.set_bias(&phrases)
    })
}

/// Searches `frames` rows of `dim` log-likelihoods, `stride` elements apart, before it returns. However
/// an utterance is cut into pushes, its results are the same. The rows are not needed afterwards.
/// KOSHI_OK_PARTIAL where an end point has stopped it before the last row (KOSHI_ENDPOINT_STOP):
/// koshi_channel_num_frames says how far it came, and the rows that are left are the caller's to push.
/// KOSHI_E_STATE unless open; KOSHI_E_SHAPE names arc, label and width where the graph needs more
/// columns; KOSHI_E_SCORES for NaN or +inf (-inf: no such arc in that frame), with frame and column;
/// KOSHI_E_NO_TOKENS and KOSHI_E_CAPACITY with the frame; KOSHI_E_LIMIT; KOSHI_E_CANCELLED. Everything
/// before a frame that fails is kept. After _SCORES, _NO_TOKENS, _CAPACITY and _CANCELLED pushes answer
/// the same until the next begin, while results can be fetched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_push(
    channel: *mut koshi_channel,
    rows: *const f32,
    frames: usize,
    dim: usize,
    stride: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = object(channel)?;
        // SAFETY: the header's promise on rows.
        let rows = unsafe { self::rows(rows, frames, dim, stride) }?;
        let done = object.channel.write_unqueued()?.push_rows(rows)?;
        Ok(ok_or_partial(done == frames))
    })
}

/// The same as koshi_channel_push for `frames` rows in the memory of the decoder's GPU: `rows` is the
/// address of the first element, a CUdeviceptr. They are read behind the work that `stream` holds so far:
/// a CUstream of the device's primary context, or NULL for its default stream. The call returns when they
/// have been searched. KOSHI_E_UNSUPPORTED where the decoder computes on the CPU; KOSHI_E_ARGUMENT where the
/// driver knows that the GPU cannot reach the first or the last element; KOSHI_E_DEVICE names what the
/// driver answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_push_device(
    channel: *mut koshi_channel,
    rows: u64,
    frames: usize,
    dim: usize,
    stride: usize,
    stream: *mut c_void,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let rows = DeviceRows { at: rows, frames, dim, stride, stream: stream as usize };
        // SAFETY: the header's promise on rows and streams.
        let done = unsafe { object(channel)?.channel.write_unqueued()?.push_device(rows) }?;
        Ok(ok_or_partial(done == frames))
    })
}

/// Pulls frames from `decodable` while they are ready, at most `max_frames` of them (negative: no
/// bound), and writes how many were searched to *frames_decoded, which may be NULL. Frame numbers count
/// from begin. An end point that stops a push stops it too. Otherwise as koshi_channel_push; a callback
/// that fails is KOSHI_E_CALLBACK, and the call can be made again. Callbacks run on this thread.
/// KOSHI_E_BUSY if another call uses the decodable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_advance(
    channel: *mut koshi_channel,
    decodable: *mut koshi_decodable,
    max_frames: i64,
    frames_decoded: *mut u64,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let (object, scores) = (object(channel)?, registry::get(decodable, "decodable")?);
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out_optional(frames_decoded, "frames_decoded") }?;
        let mut channel = object.channel.write_unqueued()?;
        let most = u64::try_from(max_frames).ok();
        let done = scores.with(|decodable| channel.advance(decodable, most))?;
        if let Some(out) = out {
            out.set(done);
        }
        Ok(())
    })
}

/// No more rows will come. Results can be fetched until the next begin. Behind rows that are queued: returns
/// at once then, koshi_channel_wait returns when it is done, and results meanwhile are those of what is
/// searched. So does a channel with a listener, which is told.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_finish(channel: *mut koshi_channel, err: *mut *mut koshi_error) -> koshi_status {
    guard::call(err, || object(channel)?.channel.finish())
}

/// Stops the utterance before its next frame: pushes, also one that is at work, answer
/// KOSHI_E_CANCELLED until the next begin. What is queued is forgotten at once. May be called at any time
/// from any thread, and never answers KOSHI_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_cancel(channel: *mut koshi_channel, err: *mut *mut koshi_error) -> koshi_status {
    guard::call(err, || {
        object(channel)?.channel.cancel();
        Ok(())
    })
}

/// Frames searched since begin, those of closed segments too; -1 for a bad handle or a channel at work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_num_frames(channel: *const koshi_channel) -> i64 {
    guard::query(-1, || Ok(i64::try_from(object(channel)?.channel.read()?.num_frames()).unwrap_or(i64::MAX)))
}

/// 1 if a token of the last time is in a final state, 0 if none is; -1 for a bad handle, a channel at
/// work or one that has not begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_reached_final(channel: *const koshi_channel) -> i32 {
    guard::query(-1, || Ok(i32::from(object(channel)?.channel.read()?.reached_final()?)))
}

/// Cost of the best final token above the best token, final costs included; +inf if none is final; NaN
/// where koshi_channel_reached_final answers -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_final_relative_cost(channel: *const koshi_channel) -> f32 {
    guard::query(f32::NAN, || object(channel)?.channel.read()?.final_relative_cost())
}

/// The best path now, in *path: to the best final token if `use_final` is not 0 and one is reached,
/// else to the best token. Before finish too. KOSHI_E_STATE if the channel has not begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_best_path(
    channel: *const koshi_channel,
    use_final: i32,
    path: *mut *mut koshi_path,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = object(channel)?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(path, "path") }?;
        let best = object.channel.read()?.best_path(use_final != 0)?;
        out.set(registry::insert(best)?);
        Ok(())
    })
}

/// The best path to the best token now, in *path, and in *stable_words, which may be NULL, how many of
/// its words can no longer change: that number never falls before the next begin (or the next segment),
/// and those words stay.
/// Cheap enough for every push: what is searched since the last call is followed back, and labels of
/// the whole path are copied. Without `stable_words` only the best path is, not those of all tokens.
/// KOSHI_E_STATE if the channel has not begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_partial(
    channel: *const koshi_channel,
    path: *mut *mut koshi_path,
    stable_words: *mut usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promise on results.
        unsafe { partial(channel, 0, path, stable_words) }
    })
}

/// As koshi_channel_partial, without what the caller has already: *path is the best path without its
/// first `from_word` words, and without the frames before the next word. So a call costs what is new,
/// however long the utterance. *stable_words counts from the first word, costs are those of the whole
/// path. A `from_word` of at most the *stable_words of an earlier call skips words that stay; where the
/// best path has fewer words, *path has none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_partial_words(
    channel: *const koshi_channel,
    from_word: usize,
    path: *mut *mut koshi_path,
    stable_words: *mut usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        // SAFETY: the header's promise on results.
        unsafe { partial(channel, from_word, path, stable_words) }
    })
}

unsafe fn partial(
    channel: *const koshi_channel,
    from_word: usize,
    path: *mut *mut koshi_path,
    stable_words: *mut usize,
) -> Result<()> {
    let object = object(channel)?;
    // SAFETY: the header's promise on results.
    let (out, stable) = unsafe { (arg::out(path, "path")?, arg::out_optional(stable_words, "stable_words")?) };
    let channel = object.channel.read()?;
    let path = channel.partial_path(from_word)?;
    let words = stable.as_ref().map(|_| channel.stable_words()).transpose()?;
    drop(channel);
    out.set(registry::insert(path)?);
    if let (Some(stable), Some(words)) = (stable, words) {
        stable.set(words);
    }
    Ok(())
}

/// The raw lattice now, in *lattice: what finish would give if no more rows came. If `use_final` is not
/// 0 and a last token is final, only final ones end paths; else all last tokens do. It begins behind the
/// frames that koshi_channel_committed_frames tells. KOSHI_E_STATE if the channel has not begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_lattice(
    channel: *mut koshi_channel,
    use_final: i32,
    lattice: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = object(channel)?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(lattice, "lattice") }?;
        let raw = object.channel.write()?.lattice(use_final != 0)?;
        out.set(registry::insert(Lattice::from(raw))?);
        Ok(())
    })
}

/// The best path of koshi_channel_best_path as a raw lattice of that one path, in *lattice: labels and
/// costs of each of its arcs, and its final cost. It begins where koshi_channel_lattice begins.
/// KOSHI_E_STATE if the channel has not begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_best_path_lattice(
    channel: *const koshi_channel,
    use_final: i32,
    lattice: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = object(channel)?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(lattice, "lattice") }?;
        let raw = object.channel.read()?.best_lattice(use_final != 0)?;
        out.set(registry::insert(Lattice::from(raw))?);
        Ok(())
    })
}

/// Counts of `channel` since begin, in *stats of `size` bytes. KOSHI_E_STATE if it has not begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_stats(
    channel: *const koshi_channel,
    stats: *mut koshi_search_stats,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = object(channel)?;
        // SAFETY: the header's promise on output structs.
        let out = unsafe { config::out(stats, size, "stats") }?;
        let found = object.channel.read()?.stats()?;
        out.set(&koshi_search_stats {
            struct_size: 0,
            effective_beam: found.effective_beam,
            frames: found.frames,
            tokens: found.tokens,
            max_tokens: found.max_tokens,
            arcs: found.arcs,
            links: found.links,
            max_active_held: found.max_active_held,
            capacity_held: found.capacity_held,
            trace_links: found.trace_links,
            memory: found.memory,
            seconds: found.seconds,
            links_followed: found.links_followed,
            committed_frames: found.committed_frames,
            forced_commits: found.forced_commits,
            trace_bytes: found.trace_bytes,
        });
        Ok(())
    })
}

/// Frees `channel`. A call that is at work on it ends first and is not waited for. Rows that are queued are
/// not searched; waits until no callback of its listener runs, unless called from inside a callback, and none
/// follows: a callback must not wait for the thread that frees its channel. Calls that come later, also from
/// inside that last callback, answer KOSHI_E_HANDLE. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_free(channel: *mut koshi_channel) -> koshi_status {
    guard::free(|| {
        let object = registry::free(channel, "channel")?;
        if let Some(object) = &object {
            object.channel.close();
        }
        Ok(object)
    })
}
