//! What the items of a batch answer, each for itself.

use super::arg::Items;
use super::error::{koshi_status, ok_or_partial, status};
use super::guard::Success;
use crate::error::{Error, Result};

/// The status of an item that failed. Its message goes to the log.
pub(super) fn failed(at: usize, error: &Error) -> koshi_status {
    log::debug!("item {at} of a batch failed: {}", error.chain());
    status(error)
}

/// The status of an item that was run.
pub(super) fn outcome(at: usize, result: Result<impl Success>) -> koshi_status {
    result.map_or_else(|error| failed(at, &error), Success::status)
}

/// Writes each item's status, and gives that of the whole call.
pub(super) fn tell<T: Copy>(
    items: &Items<T>,
    statuses: &[koshi_status],
    set: impl Fn(&mut T, koshi_status),
) -> koshi_status {
    for (at, status) in statuses.iter().enumerate() {
        items.change(at, |item| set(item, *status));
    }
    ok_or_partial(statuses.iter().all(|status| *status >= 0))
}
