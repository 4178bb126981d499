//! End points: the rules, what they found, and the segments that they close.

use super::arg;
use super::channel::{self, koshi_channel};
use super::config::{self, Grows};
use super::decoder::koshi_decoder;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::lattice::koshi_lattice;
use super::path::koshi_path;
use super::registry;
use crate::decoder::SegmentEnd;
use crate::error::{Error, Result};
use crate::search::{EndpointAction, EndpointConfig, EndpointRule, Silence};

/// What the list of silence labels is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum koshi_silence {
    /// Phones: frames whose transition-id is of one of them are silence. The graph must have been read
    /// with its transition model.
    KOSHI_SILENCE_PHONES = 0,
    /// Input labels: frames with one of them are silence.
    KOSHI_SILENCE_ILABELS = 1,
    /// Output labels: frames from the start of such a word to the next word are silence, and frames before
    /// the first word.
    KOSHI_SILENCE_OLABELS = 2,
}

/// What is done at an end point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum koshi_endpoint_action {
    /// It is noted for koshi_channel_endpoint, and the search goes on.
    KOSHI_ENDPOINT_NOTE = 0,
    /// The push stops behind the frame of the end point and answers KOSHI_OK_PARTIAL if rows are left:
    /// lattice and best path are then those up to the end point. The next push goes on behind it, or
    /// koshi_channel_begin begins anew with the rows that are left.
    /// Rows that are queued (koshi_channel_submit) are searched on when the listener's endpoint has returned;
    /// a begin forgets them, so where none may be lost take KOSHI_ENDPOINT_SEGMENT.
    KOSHI_ENDPOINT_STOP = 1,
    /// The utterance is closed there as a segment whose results koshi_channel_segment gives, and the
    /// next frame begins a new one, in the same push; no frame is lost. What is asked of the channel is
    /// then about the open segment, with times of words still counted from koshi_channel_begin.
    KOSHI_ENDPOINT_SEGMENT = 2,
}

use koshi_endpoint_action::*;
use koshi_silence::*;

/// A rule for end points. It holds where all of it does; times in seconds. +inf as a least time makes a
/// rule that never holds.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_endpoint_rule {
    /// 1: the best path must have a frame that is not silence; 0: it need not.
    pub must_contain_nonsilence: u32,
    /// Most cost of the best final token above the best token; +inf where finals do not matter. 0 or more.
    pub max_relative_cost: f32,
    /// Least silence at the end of the best path. 0 or more.
    pub min_trailing_silence: f64,
    /// Least length of the utterance. 0 or more.
    pub min_utterance_length: f64,
}

/// How end points are found. After every frame, however rows are cut into pushes, the rules are tried in
/// order on the best path without finals; the first that holds makes the end point. It is found once an
/// utterance: koshi_channel_begin, or the next segment, looks for the next one. Seconds become frames as
/// ceil(seconds / frame_shift - 1e-4), with the frame_shift of the decoder's options, which is the time
/// from one row to the next, subsampling included.
///
/// The defaults are Kaldi's: (no, 5, inf, 0), (yes, 0.5, 2, 0), (yes, 1, 8, 0), (yes, 2, inf, 0),
/// (no, 0, inf, 20), as must_contain_nonsilence, min_trailing_silence, max_relative_cost,
/// min_utterance_length. So the first one ends an utterance of nothing but silence after five seconds;
/// behind speech one of the others holds long before.
///
/// On the CPU looking costs a few microseconds a frame. On a GPU a channel that still looks for its end
/// point advances by one frame a launch instead of up to 64.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_endpoint_config {
    /// sizeof this struct.
    pub struct_size: u32,
    /// What the list of silence labels is of: a koshi_silence. Default KOSHI_SILENCE_PHONES.
    pub silence: i32,
    /// What is done at an end point: a koshi_endpoint_action. Default KOSHI_ENDPOINT_NOTE.
    pub action: i32,
    /// With KOSHI_ENDPOINT_SEGMENT, how many closed segments of a channel keep their results: the last
    /// ones, at least 1. Default 4.
    pub segments_kept: u32,
    /// The rules, numbered from 1.
    pub rules: [koshi_endpoint_rule; 5],
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_endpoint_config {
    const NAME: &'static str = "koshi_endpoint_config";
    const FIRST_SIZE: usize = 136;

    fn defaults() -> koshi_endpoint_config {
        koshi_endpoint_config {
            struct_size: size_of::<koshi_endpoint_config>() as u32,
            silence: KOSHI_SILENCE_PHONES as i32,
            action: KOSHI_ENDPOINT_NOTE as i32,
            segments_kept: 4,
            rules: EndpointRule::DEFAULTS.map(|rule| koshi_endpoint_rule {
                must_contain_nonsilence: u32::from(rule.must_contain_nonsilence),
                max_relative_cost: rule.max_relative_cost,
                min_trailing_silence: rule.min_trailing_silence,
                min_utterance_length: rule.min_utterance_length,
            }),
        }
    }
}

impl koshi_endpoint_config {
    fn endpoint_config(&self, labels: Vec<i32>) -> Result<EndpointConfig> {
        let silence = match self.silence {
            kind if kind == KOSHI_SILENCE_PHONES as i32 => Silence::Phones(labels),
            kind if kind == KOSHI_SILENCE_ILABELS as i32 => Silence::Ilabels(labels),
            kind if kind == KOSHI_SILENCE_OLABELS as i32 => Silence::Olabels(labels),
            kind => return Err(Error::Config(format!("silence is {kind}; it must be a koshi_silence"))),
        };
        let action = match self.action {
            action if action == KOSHI_ENDPOINT_NOTE as i32 => EndpointAction::Note,
            action if action == KOSHI_ENDPOINT_STOP as i32 => EndpointAction::Stop,
            action if action == KOSHI_ENDPOINT_SEGMENT as i32 => EndpointAction::Segment,
            action => return Err(Error::Config(format!("action is {action}; it must be a koshi_endpoint_action"))),
        };
        if self.segments_kept == 0 {
            return Err(Error::Config("segments_kept is 0; it must be at least 1".into()));
        }
        let mut rules = EndpointRule::DEFAULTS;
        for (number, (rule, wanted)) in (1..).zip(rules.iter_mut().zip(&self.rules)) {
            let flag = wanted.must_contain_nonsilence;
            if flag > 1 {
                let message = format!("must_contain_nonsilence of rule {number} is {flag}; it must be 0 or 1");
                return Err(Error::Config(message));
            }
            *rule = EndpointRule {
                must_contain_nonsilence: flag == 1,
                max_relative_cost: wanted.max_relative_cost,
                min_trailing_silence: wanted.min_trailing_silence,
                min_utterance_length: wanted.min_utterance_length,
            };
        }
        Ok(EndpointConfig { rules, silence, action, segments_kept: self.segments_kept })
    }
}

/// An end point.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_endpoint {
    /// Bytes that were filled.
    pub struct_size: u32,
    /// The rule that held, from 1; 0: no end point was found, and all that follows is 0.
    pub rule: u32,
    /// Frames from koshi_channel_begin to the end point.
    pub frames: u64,
    /// The same in seconds.
    pub seconds: f64,
    /// How many of the last frames are silence on the best path.
    pub trailing_silence: u64,
    /// Number of the segment that ends there, from 0; 0 without segments.
    pub segment: u64,
    /// Frames before that segment.
    pub first_frame: u64,
    /// Cost of the best final token above the best token there; +inf where none was final.
    pub relative_cost: f32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_endpoint {
    const NAME: &'static str = "koshi_endpoint";
    const FIRST_SIZE: usize = 56;

    fn defaults() -> koshi_endpoint {
        bytemuck::Zeroable::zeroed()
    }
}

fn told(end: &SegmentEnd, frame_shift: f64) -> koshi_endpoint {
    koshi_endpoint {
        struct_size: 0,
        rule: end.endpoint.rule,
        frames: end.frames(),
        seconds: end.frames() as f64 * frame_shift,
        trailing_silence: end.endpoint.trailing_silence,
        segment: end.segment,
        first_frame: end.first_frame,
        relative_cost: end.endpoint.relative_cost,
        reserved: 0,
    }
}

/// Fills *config, of `size` bytes, with the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_endpoint_config_init(
    config: *mut koshi_endpoint_config,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on structs.
    guard::call(err, || unsafe { config::init(config, size, "config") })
}

/// Lets the channels of `decoder` look for end points from their next koshi_channel_begin on. `silence`
/// lists `num_silence` phones or labels, as config->silence says; they are copied. `config` NULL: no end
/// points, as at first. KOSHI_E_CONFIG names an option out of its range; KOSHI_E_ARGUMENT a label that is
/// not above 0, a phone that the model has not, or phones where the graph was read without a model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_decoder_set_endpoint_rules(
    decoder: *const koshi_decoder,
    config: *const koshi_endpoint_config,
    silence: *const i32,
    num_silence: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = registry::get(decoder, "decoder")?;
        if config.is_null() {
            return object.decoder.set_endpoint_rules(None);
        }
        // SAFETY: the header's promises on structs and arrays.
        let (config, labels) =
            unsafe { (config::read(config, "config")?, arg::array(silence, num_silence, "silence")?) };
        let config = config.endpoint_config(arg::copy(labels, "silence")?)?;
        object.decoder.set_endpoint_rules(Some(&config))
    })
}

/// The end point of the utterance in *endpoint of `size` bytes, or a rule of 0 if none was found; with
/// segments, that of the segment that was closed last. KOSHI_E_STATE if the channel has not begun.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_endpoint(
    channel: *const koshi_channel,
    endpoint: *mut koshi_endpoint,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = channel::object(channel)?;
        // SAFETY: the header's promise on output structs.
        let out = unsafe { config::out(endpoint, size, "endpoint") }?;
        let channel = object.channel.read()?;
        let shift = channel.decoder().config().frame_shift;
        let found = channel.endpoint()?;
        out.set(&found.map_or_else(koshi_endpoint::defaults, |end| told(&end, shift)));
        Ok(())
    })
}

/// How many segments end points have closed since begin (KOSHI_ENDPOINT_SEGMENT): they are numbered from
/// 0, so this is the number of the open one. -1 for a bad handle or a channel at work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_num_segments(channel: *const koshi_channel) -> i64 {
    guard::query(-1, || Ok(i64::try_from(channel::object(channel)?.channel.read()?.num_segments()).unwrap_or(i64::MAX)))
}

/// Closed segment `number`, from 0: its end in *endpoint of `size` bytes, its best path in *path and its raw
/// lattice in *lattice, to a final state where one was reached; each may be NULL. Times of the path's words
/// count from koshi_channel_begin; in the lattice they count from the segment's first frame,
/// endpoint->first_frame. Segments are kept until the next begin, the last segments_kept of them.
/// KOSHI_E_ARGUMENT if it is not closed; KOSHI_E_STATE if it is not kept any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_segment(
    channel: *const koshi_channel,
    number: u64,
    endpoint: *mut koshi_endpoint,
    size: usize,
    path: *mut *mut koshi_path,
    lattice: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = channel::object(channel)?;
        // SAFETY: the header's promises on results and output structs.
        let (end, path, lattice) = unsafe {
            let end = if endpoint.is_null() { None } else { Some(config::out(endpoint, size, "endpoint")?) };
            (end, arg::out_optional(path, "path")?, arg::out_optional(lattice, "lattice")?)
        };
        let channel = object.channel.read()?;
        let segment = channel.segment(number)?;
        let made = match path {
            Some(out) => Some((out, registry::insert_shared::<koshi_path>(segment.best_path.clone())?)),
            None => None,
        };
        if let Some(out) = lattice {
            match registry::insert_shared::<koshi_lattice>(segment.lattice.clone()) {
                Ok(lattice) => out.set(lattice),
                Err(error) => {
                    if let Some((_, path)) = made {
                        registry::free(path, "path")?;
                    }
                    return Err(error);
                }
            }
        }
        if let Some((out, path)) = made {
            out.set(path);
        }
        if let Some(out) = end {
            out.set(&told(&segment.end, channel.decoder().config().frame_shift));
        }
        Ok(())
    })
}
