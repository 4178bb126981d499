//! Endless streams: committed frames and their lattices.

use std::ptr;

use super::arg;
use super::channel::{koshi_channel, object};
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::lattice::koshi_lattice;
use super::registry;
use crate::lattice::Lattice;
use crate::search::CommitConfig;

/// Bounds the memory of endless streams, for this utterance and those that follow. From time to time what
/// all paths have in common is committed: of those frames words, times and costs are kept (8 bytes a word),
/// while lattices, and the input labels of paths, begin behind them. Where paths have nothing in common for
/// `commit_frames` frames, the best path is committed all the same, and paths that part from it before are
/// dropped; koshi_search_stats counts that in forced_commits. 0 frames: nothing is committed any more (the
/// default); else 256 at least, or KOSHI_E_CONFIG. Results do not depend on backend or pushes. Turned
/// on in the middle of an utterance, it takes up what is there at least 64 frames later.
///
/// The lattices of the last `lattice_frames` committed frames are kept until
/// koshi_channel_committed_lattice hands them out; older ones are dropped. 0: none is kept. A segment that an
/// end point closes (KOSHI_ENDPOINT_SEGMENT) drops those of its frames.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_set_commit(
    channel: *mut koshi_channel,
    commit_frames: u64,
    lattice_frames: u64,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let config = (commit_frames > 0).then_some(CommitConfig { frames: commit_frames, lattice_frames });
        object(channel)?.channel.write()?.set_commit(config)
    })
}

/// Frames that have been committed since begin: lattices begin behind them. -1 for a bad handle or a
/// channel at work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_committed_frames(channel: *const koshi_channel) -> i64 {
    guard::query(-1, || Ok(i64::try_from(object(channel)?.channel.read()?.committed_frames()).unwrap_or(i64::MAX)))
}

/// The raw lattice of the oldest committed frames that have not been handed out or dropped, in *lattice, and
/// the frame where it begins in *first_frame, which may be NULL; the channel forgets it. *lattice becomes
/// NULL where there is none. Each begins in the state where the one before ends, and ends in one state, at
/// no cost; its times count from its own beginning. KOSHI_E_STATE if the channel has not begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_committed_lattice(
    channel: *mut koshi_channel,
    lattice: *mut *mut koshi_lattice,
    first_frame: *mut u64,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = object(channel)?;
        // SAFETY: the header's promise on results.
        let (out, first) = unsafe { (arg::out(lattice, "lattice")?, arg::out_optional(first_frame, "first_frame")?) };
        let Some(committed) = object.channel.write()?.take_committed()? else {
            out.set(ptr::null_mut());
            return Ok(());
        };
        out.set(registry::insert(Lattice::from(committed.lattice))?);
        if let Some(first) = first {
            first.set(committed.first_frame);
        }
        Ok(())
    })
}
