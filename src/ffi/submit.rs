//! Rows that are queued for the decoder's own threads.

use std::time::Duration;

use super::channel::{koshi_channel, object};
use super::decodable::{koshi_decodable, rows};
use super::error::{koshi_error, koshi_status, ok_or_partial};
use super::guard;
use super::registry;
use crate::error::{Error, Result};

/// Copies `frames` rows, as for koshi_channel_push, to the end of the channel's queue and returns. Threads of
/// the decoder's search what is queued: the channels that have waited longest first, of each at most
/// chunk_frames rows. On the CPU there are num_threads of them (but no more than num_lanes), each with a
/// channel of its own; on a GPU one, which searches num_lanes channels in a batch. They start with the first
/// channel that needs them. Results are those of koshi_channel_push, bit for bit. May be called at any time
/// from any thread; rows of several threads lie in the order of the calls. KOSHI_E_FULL if the rows do not all
/// fit in the queue: none is taken then, try again later. KOSHI_E_LIMIT if there are more than queue_frames.
/// KOSHI_E_SHAPE and KOSHI_E_STATE as for koshi_channel_push. What the utterance has failed with is answered
/// until the next begin, also KOSHI_E_SCORES and the like, which are only found in the search. While rows are
/// queued koshi_channel_push, _push_device and _advance and koshi_decoder_advance answer KOSHI_E_BUSY;
/// koshi_channel_begin forgets the rows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_submit(
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
        object.channel.submit(unsafe { self::rows(rows, frames, dim, stride) }?)
    })
}

/// Lets the decoder's threads pull from `decodable` all frames that it has ready, in turn with the other
/// channels. Returns at once; call it again, with the same decodable, whenever more frames are ready:
/// num_frames_ready is asked after each such call and after each batch that the channel was in, and at
/// koshi_channel_finish. Frame numbers count from begin. Callbacks run on the decoder's threads, those of
/// different decodables at the same time; calls on the channel wait meanwhile, or answer KOSHI_E_BUSY where
/// they come from the callback itself, as do those on other channels that are being searched. A callback that
/// fails ends the utterance with KOSHI_E_CALLBACK behind the frames before it (where an end point has stopped
/// in front of some of those, it is asked once more), a decodable that another call uses with KOSHI_E_BUSY,
/// one that was freed before the utterance was finished, cancelled or begun anew with KOSHI_E_HANDLE; its data
/// is dropped when the utterance has ended. Otherwise as koshi_channel_submit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_submit_decodable(
    channel: *mut koshi_channel,
    decodable: *mut koshi_decodable,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let (object, source) = (object(channel)?, registry::get(decodable, "decodable")?);
        object.channel.submit_from(source)
    })
}

/// Waits until all that is queued is searched, the utterance finished if koshi_channel_finish was called, and
/// the listener told. KOSHI_OK_PARTIAL if that takes longer than `timeout` seconds; 0 asks without waiting, a
/// negative one waits without bound. What the utterance has failed with is answered until the next begin:
/// KOSHI_E_SCORES, KOSHI_E_CANCELLED and so on. KOSHI_E_BUSY from within a callback that a thread of the
/// decoder's runs; KOSHI_E_HANDLE if the channel is freed meanwhile. Any number of threads may wait while
/// others use the channel.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_wait(
    channel: *mut koshi_channel,
    timeout: f64,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || Ok(ok_or_partial(object(channel)?.channel.wait(duration(timeout)?)?)))
}

/// Seconds as a duration; `None` for no bound.
fn duration(seconds: f64) -> Result<Option<Duration>> {
    if seconds.is_nan() {
        return Err(Error::Argument("timeout is not a number".into()));
    }
    // What is too long for a duration is as good as no bound.
    Ok(if seconds < 0.0 { None } else { Duration::try_from_secs_f64(seconds).ok() })
}
