//! Streams of a transducer: one utterance each, row by row.

use std::sync::Arc;

use super::arg;
use super::batch;
use super::config;
use super::decodable::rows;
use super::error::{koshi_error, koshi_status, koshi_status_code};
use super::guard;
use super::hypotheses::koshi_hypotheses;
use super::registry::{self, Kind, Opaque};
use super::transducer::{handle, koshi_transducer};
use super::transducer_config::koshi_transducer_config;
use crate::error::{Error, Result, try_reserve};
use crate::exclusive::Exclusive;
use crate::search::Rows;
use crate::transducer::{Canceller, Hypotheses, Stream, StreamItem, Transducer, advance};

/// One utterance of a transducer, whose encoder rows come piece by piece. One call at a time may change it.
pub struct koshi_transducer_stream {
    _opaque: (),
}

impl Opaque for koshi_transducer_stream {
    type Object = StreamObject;
    const KIND: Kind = Kind::TransducerStream;
}

/// What a `koshi_transducer_stream` stands for.
pub struct StreamObject {
    stream: Exclusive<Stream>,
    /// Works while the stream is in use.
    canceller: Canceller,
}

fn object(stream: *const koshi_transducer_stream) -> Result<Arc<StreamObject>> {
    registry::get(stream, "stream")
}

/// Makes a stream of `transducer` in *stream, ready for rows. `config` NULL: the defaults. KOSHI_E_CONFIG
/// names an option out of its range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_stream_new(
    transducer: *const koshi_transducer,
    config: *const koshi_transducer_config,
    stream: *mut *mut koshi_transducer_stream,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let transducer = registry::get(transducer, "transducer")?;
        // SAFETY: the header's promises on results and structs.
        let (out, config) = unsafe { (arg::out(stream, "stream")?, config::read_optional(config, "config")?) };
        let made = transducer.new_stream(&config.transducer_config()?)?;
        let canceller = made.canceller();
        out.set(registry::insert(StreamObject { stream: Exclusive::new("koshi_transducer_stream", made), canceller })?);
        Ok(())
    })
}

/// Searches `frames` encoder rows of `dim` columns, `stride` elements apart, before it returns. However an
/// utterance is cut into pushes, its result is the same. The rows are not needed afterwards.
/// KOSHI_E_SHAPE if `dim` is not the transducer's encoder_dim, and KOSHI_E_STATE after finish: nothing
/// changes. KOSHI_E_SCORES for NaN or +inf, with frame and label (as column); KOSHI_E_NO_TOKENS if nothing is
/// allowed in a frame; KOSHI_E_CALLBACK; KOSHI_E_CANCELLED; KOSHI_E_LIMIT; KOSHI_E_NO_MEMORY: the
/// utterance has failed, its states are released, and pushes answer the same, while
/// koshi_transducer_stream_partial still tells what was found before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_stream_push(
    stream: *mut koshi_transducer_stream,
    rows: *const f32,
    frames: usize,
    dim: usize,
    stride: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = object(stream)?;
        // SAFETY: the header's promise on rows.
        let rows = unsafe { self::rows(rows, frames, dim, stride) }?;
        object.stream.write()?.push(rows)
    })
}

/// The hypotheses now, in *hypotheses, and in *stable_labels, which may be NULL, how many labels of the first
/// can no longer change. At any time, also after a failure. Costs as much as there are labels that
/// koshi_transducer_stream_commit has not taken out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_stream_partial(
    stream: *const koshi_transducer_stream,
    hypotheses: *mut *mut koshi_hypotheses,
    stable_labels: *mut usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = object(stream)?;
        // SAFETY: the header's promise on results.
        let (out, stable) =
            unsafe { (arg::out(hypotheses, "hypotheses")?, arg::out_optional(stable_labels, "stable_labels")?) };
        let (found, labels) = object.stream.read()?.partial()?;
        let (list, _) = handle(found)?;
        out.set(list);
        if let Some(stable) = stable {
            stable.set(labels);
        }
        Ok(())
    })
}

/// Takes out the labels that all hypotheses share with their frames, so that nothing about them can change
/// any more: a list of one hypothesis in *hypotheses, which may have no labels. Each label is handed out once;
/// partial results and the result begin behind it, and its memory is used again. The search and the scores of
/// later results, which are about the whole utterance, are as without this call. So an endless stream needs
/// bounded memory if this is called now and then, with commit_frames set. The scores of *hypotheses are the
/// sums of what its labels got. KOSHI_E_STATE after finish or the last rows; after a failure as
/// koshi_transducer_stream_push.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_stream_commit(
    stream: *mut koshi_transducer_stream,
    hypotheses: *mut *mut koshi_hypotheses,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = object(stream)?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(hypotheses, "hypotheses") }?;
        let list = |found| Hypotheses { list: vec![found], partial: false };
        let (list, _) = object.stream.write()?.commit_with(|found| handle(list(found)))?;
        out.set(list);
        Ok(())
    })
}

/// No more rows will come: the result, in *hypotheses. All states are released. KOSHI_OK_PARTIAL if
/// max_expansions_per_frame struck, or if no hypothesis could be finished and the best unfinished ones are
/// the result. KOSHI_E_STATE after a finish that gave a result; otherwise as koshi_transducer_stream_push.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_stream_finish(
    stream: *mut koshi_transducer_stream,
    hypotheses: *mut *mut koshi_hypotheses,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = object(stream)?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(hypotheses, "hypotheses") }?;
        let found = object.stream.write()?.finish()?;
        let (list, status) = handle(found)?;
        out.set(list);
        Ok(status)
    })
}

/// Stops the utterance before its next call of a network: pushes and finish, also one that is at work, answer
/// KOSHI_E_CANCELLED from then on. May be called at any time from any thread, and never answers
/// KOSHI_E_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_stream_cancel(
    stream: *mut koshi_transducer_stream,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        object(stream)?.canceller.cancel();
        Ok(())
    })
}

/// Frames pushed; -1 for a bad handle or a stream at work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_stream_num_frames(stream: *const koshi_transducer_stream) -> i64 {
    guard::query(-1, || Ok(i64::try_from(object(stream)?.stream.read()?.num_frames()).unwrap_or(i64::MAX)))
}

/// Frees `stream` and releases its states. A call that is at work on it ends first and is not waited for.
/// NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_stream_free(stream: *mut koshi_transducer_stream) -> koshi_status {
    guard::free(|| registry::free(stream, "stream"))
}

/// Rows for one stream of koshi_transducer_advance, and what became of them.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct koshi_transducer_item {
    /// The stream.
    pub stream: *mut koshi_transducer_stream,
    /// Its next rows, as for koshi_transducer_stream_push.
    pub rows: *const f32,
    /// Number of rows.
    pub frames: usize,
    /// Number of columns.
    pub dim: usize,
    /// Elements from one row to the next.
    pub stride: usize,
    /// Result: what koshi_transducer_stream_push would have answered.
    pub status: koshi_status,
    /// 1 if these are the last rows, so that finish has nothing left to search; else 0.
    pub last: u32,
}

/// Pushes rows to `num_items` distinct streams of `transducer` together, with as few calls of the networks as
/// if they were one. `item_size` is `sizeof items[0]`. Each item gets its own status, and what becomes of
/// one does not touch the others: a bad handle, a stream that is in use or stands twice in `items`, or one of
/// another transducer is that item's matter too. KOSHI_OK if all items succeeded, else KOSHI_OK_PARTIAL. A
/// negative status is about the call itself: then no item was touched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_transducer_advance(
    transducer: *const koshi_transducer,
    items: *mut koshi_transducer_item,
    num_items: usize,
    item_size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let transducer = registry::get(transducer, "transducer")?;
        // SAFETY: the header's promise on arrays.
        let items = unsafe { arg::items(items, num_items, item_size, "items") }?;
        let statuses = push_all(&transducer, &items)?;
        Ok(batch::tell(&items, &statuses, |item, status| item.status = status))
    })
}

/// Runs the items that can be run, and answers the status of each.
fn push_all(transducer: &Arc<Transducer>, items: &arg::Items<koshi_transducer_item>) -> Result<Vec<koshi_status>> {
    let what = "streams of a batch";
    let mut statuses = Vec::new();
    try_reserve(&mut statuses, items.len(), what)?;
    let mut jobs: Vec<(usize, Arc<StreamObject>, Rows<'_>, bool)> = Vec::new();
    try_reserve(&mut jobs, items.len(), what)?;
    for at in 0..items.len() {
        let item = items.get(at);
        if item.last > 1 {
            return Err(Error::Argument(format!("items[{at}]: last is {}; it must be 0 or 1", item.last)));
        }
        // SAFETY: the header's promise on rows.
        let rows = unsafe { rows(item.rows, item.frames, item.dim, item.stride) };
        statuses.push(koshi_status_code::KOSHI_OK as koshi_status);
        match object(item.stream).and_then(|object| Ok((at, object, rows?, item.last == 1))) {
            Ok(job) => jobs.push(job),
            Err(error) => statuses[at] = batch::failed(at, &error),
        }
    }
    let (mut uses, mut batch) = (Vec::new(), Vec::new());
    try_reserve(&mut uses, jobs.len(), what)?;
    try_reserve(&mut batch, jobs.len(), what)?;
    for (at, object, rows, last) in &jobs {
        match object.stream.write() {
            Ok(stream) => uses.push((*at, stream, *rows, *last)),
            Err(error) => statuses[*at] = batch::failed(*at, &error),
        }
    }
    for (at, stream, rows, last) in &mut uses {
        let item = if *last { StreamItem::last(stream, *rows) } else { StreamItem::more(stream, *rows) };
        batch.push((*at, item));
    }
    let (places, mut batch): (Vec<usize>, Vec<StreamItem<'_>>) = batch.into_iter().unzip();
    advance(transducer, &mut batch)?;
    for (at, item) in places.into_iter().zip(batch) {
        statuses[at] = batch::outcome(at, item.result);
    }
    Ok(statuses)
}
