//! Decoders: a graph, options, and the lanes that search it.

use std::ffi::{CString, c_char};
use std::sync::Arc;

use super::arg;
use super::batch;
use super::channel::{ChannelObject, koshi_channel};
use super::config::{self, Grows};
use super::decodable::rows;
use super::decoder_config::{koshi_backend, koshi_decoder_config};
use super::error::{koshi_error, koshi_status, koshi_status_code, line, ok_or_partial};
use super::graph::koshi_graph;
use super::guard;
use super::registry::{self, Kind, Opaque};
use crate::decoder::{BatchItem, Decoder};
use crate::error::{Result, try_reserve};
use crate::search::Rows;

/// A graph, options, and the lanes that search it for any number of channels.
pub struct koshi_decoder {
    _opaque: (),
}

impl Opaque for koshi_decoder {
    type Object = DecoderObject;
    const KIND: Kind = Kind::Decoder;
}

/// What a `koshi_decoder` stands for.
pub struct DecoderObject {
    pub(super) decoder: Arc<Decoder>,
    /// Why it does not run on a GPU, for C.
    why_not: CString,
}

/// What a decoder is like.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct koshi_decoder_summary {
    /// Bytes that were filled.
    pub struct_size: u32,
    /// Where it computes: KOSHI_BACKEND_CPU or KOSHI_BACKEND_CUDA.
    pub backend: i32,
    /// Channels that are advanced at the same time.
    pub num_lanes: u32,
    /// Threads over which a batch is spread on the CPU.
    pub num_threads: u32,
    /// Channels that exist now.
    pub num_channels: u32,
    /// Least number of columns that a row of log-likelihoods must have.
    pub num_columns: u32,
    /// Bytes of working space that no channel uses now.
    pub memory: u64,
    /// Why it does not compute on a GPU, in one line; empty if it does. Lives as long as the decoder.
    pub why_not_cuda: *const c_char,
}

const _: () = assert!(size_of::<koshi_decoder_summary>() == koshi_decoder_summary::FIRST_SIZE);

// SAFETY: six numbers of 4 bytes, then two fields of 8: no padding, any bytes will do.
unsafe impl Grows for koshi_decoder_summary {
    const NAME: &'static str = "koshi_decoder_summary";
    const FIRST_SIZE: usize = 40;

    fn defaults() -> koshi_decoder_summary {
        koshi_decoder_summary {
            struct_size: Self::FIRST_SIZE as u32,
            backend: 0,
            num_lanes: 0,
            num_threads: 0,
            num_channels: 0,
            num_columns: 0,
            memory: 0,
            why_not_cuda: c"".as_ptr(),
        }
    }
}

/// Rows for one channel of koshi_decoder_advance, and what became of them.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct koshi_decoder_item {
    /// The channel.
    pub channel: *mut koshi_channel,
    /// Its next rows, as for koshi_channel_push.
    pub rows: *const f32,
    /// Number of rows.
    pub frames: usize,
    /// Number of columns.
    pub dim: usize,
    /// Elements from one row to the next.
    pub stride: usize,
    /// Result: what koshi_channel_push would have answered.
    pub status: koshi_status,
    /// Must be 0.
    pub reserved: u32,
}

/// Makes a decoder over `graph` in *decoder. `config` NULL: the defaults. KOSHI_E_CONFIG names an
/// option out of its range; KOSHI_E_NO_DEVICE says why there is no GPU where one was asked for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_decoder_new(
    graph: *const koshi_graph,
    config: *const koshi_decoder_config,
    decoder: *mut *mut koshi_decoder,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let graph = registry::get(graph, "graph")?;
        // SAFETY: the header's promises on results and structs.
        let (out, config) = unsafe { (arg::out(decoder, "decoder")?, config::read_optional(config, "config")?) };
        let decoder = Decoder::new(graph, config.decoder_config()?)?;
        let why_not = line(decoder.why_not_gpu());
        out.set(registry::insert(DecoderObject { decoder, why_not })?);
        Ok(())
    })
}

/// Describes `decoder` in *info of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_decoder_info(
    decoder: *const koshi_decoder,
    info: *mut koshi_decoder_summary,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = registry::get(decoder, "decoder")?;
        // SAFETY: the header's promise on output structs.
        let out = unsafe { config::out(info, size, "info") }?;
        let decoder = &object.decoder;
        let on_gpu = decoder.backend_name() == "cuda";
        let backend = if on_gpu { koshi_backend::KOSHI_BACKEND_CUDA } else { koshi_backend::KOSHI_BACKEND_CPU };
        out.set(&koshi_decoder_summary {
            backend: backend as i32,
            num_lanes: decoder.config().num_lanes,
            num_threads: decoder.config().num_threads,
            num_channels: decoder.num_channels(),
            num_columns: decoder.graph().num_columns(),
            memory: decoder.memory() as u64,
            why_not_cuda: object.why_not.as_ptr(),
            ..koshi_decoder_summary::defaults()
        });
        Ok(())
    })
}

/// Advances `num_items` distinct channels of `decoder` by their rows, as one batch over its lanes.
/// `item_size` is `sizeof items[0]`. Each item gets its own status, and what becomes of one does not
/// touch the others: a bad channel handle, a channel that is in use or stands twice in `items`, or one
/// of another decoder is that item's matter too. KOSHI_OK if all items succeeded, else
/// KOSHI_OK_PARTIAL. KOSHI_E_ARGUMENT, _HANDLE and _UNSUPPORTED are about the call itself: then no item
/// was touched.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_decoder_advance(
    decoder: *const koshi_decoder,
    items: *mut koshi_decoder_item,
    num_items: usize,
    item_size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = registry::get(decoder, "decoder")?;
        // SAFETY: the header's promise on arrays.
        let items = unsafe { arg::items(items, num_items, item_size, "items") }?;
        let statuses = advance(&object.decoder, &items)?;
        Ok(batch::tell(&items, &statuses, |item, status| item.status = status))
    })
}

/// Runs the items that can be run, and answers the status of each.
fn advance(decoder: &Arc<Decoder>, items: &arg::Items<koshi_decoder_item>) -> Result<Vec<koshi_status>> {
    let what = "channels of a batch";
    let mut statuses = Vec::new();
    try_reserve(&mut statuses, items.len(), what)?;
    let mut jobs: Vec<(usize, Arc<ChannelObject>, Rows<'_>)> = Vec::new();
    try_reserve(&mut jobs, items.len(), what)?;
    for at in 0..items.len() {
        config::reserved(items.get(at).reserved, &format!("items[{at}]"))?;
    }
    for at in 0..items.len() {
        let item = items.get(at);
        // SAFETY: the header's promise on rows.
        let rows = unsafe { rows(item.rows, item.frames, item.dim, item.stride) };
        statuses.push(koshi_status_code::KOSHI_OK as koshi_status);
        match registry::get(item.channel, "channel").and_then(|object| Ok((at, object, rows?))) {
            Ok(job) => jobs.push(job),
            Err(error) => statuses[at] = batch::failed(at, &error),
        }
    }
    let (mut uses, mut places) = (Vec::new(), Vec::new());
    try_reserve(&mut uses, jobs.len(), what)?;
    try_reserve(&mut places, jobs.len(), what)?;
    for (at, object, rows) in &jobs {
        match object.channel.write_unqueued() {
            Ok(channel) => {
                uses.push((channel, *rows));
                places.push(*at);
            }
            Err(error) => statuses[*at] = batch::failed(*at, &error),
        }
    }
    let mut batch = Vec::new();
    try_reserve(&mut batch, uses.len(), what)?;
    batch.extend(uses.iter_mut().map(|(channel, rows)| BatchItem::new(channel, *rows)));
    decoder.advance(&mut batch)?;
    for (at, item) in places.into_iter().zip(batch) {
        let (done, frames) = (item.done, item.rows.frames());
        statuses[at] = batch::outcome(at, item.result.map(|()| ok_or_partial(done == frames)));
    }
    Ok(statuses)
}

/// Frees `decoder`, once none of its channels exists any more. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_decoder_free(decoder: *mut koshi_decoder) -> koshi_status {
    guard::free(|| registry::free(decoder, "decoder"))
}
