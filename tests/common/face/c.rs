//! The face of the exported functions, called as a C program calls them: handles, error
//! objects, borrowed arrays.

use std::ffi::{CStr, CString, c_void};
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr;

use koshi::decoder::{BackendChoice, DecoderConfig, SegmentEnd};
use koshi::ffi::*;
use koshi::lattice::{BiasCosts, LatticeArc, LatticeWeight, RawLattice};
use koshi::search::{Endpoint, EndpointAction, EndpointConfig, Phrase, SearchStats, Silence};

use super::{Face, Fault, Matrix, Outcome, Pull, Scores, Status, Words, own, with_backend};

pub struct C;

/// The enumerator of a number.
pub(super) fn code(status: koshi_status) -> Status {
    use koshi_status_code::*;
    let all = [
        KOSHI_OK,
        KOSHI_OK_PARTIAL,
        KOSHI_E_ARGUMENT,
        KOSHI_E_HANDLE,
        KOSHI_E_BUSY,
        KOSHI_E_STATE,
        KOSHI_E_CONFIG,
        KOSHI_E_UNSUPPORTED,
        KOSHI_E_IO,
        KOSHI_E_FORMAT,
        KOSHI_E_GRAPH,
        KOSHI_E_SHAPE,
        KOSHI_E_SCORES,
        KOSHI_E_NO_TOKENS,
        KOSHI_E_CAPACITY,
        KOSHI_E_FULL,
        KOSHI_E_LIMIT,
        KOSHI_E_NO_MEMORY,
        KOSHI_E_NO_DEVICE,
        KOSHI_E_DEVICE,
        KOSHI_E_CALLBACK,
        KOSHI_E_CANCELLED,
        KOSHI_E_INTERNAL,
    ];
    all.into_iter().find(|code| *code as koshi_status == status).unwrap_or_else(|| panic!("status {status}"))
}

/// A call, with the place for its error object.
pub(super) fn call(function: impl FnOnce(*mut *mut koshi_error) -> koshi_status) -> Outcome {
    let mut err: *mut koshi_error = ptr::null_mut();
    let status = code(function(&mut err));
    if status as koshi_status >= 0 {
        assert!(err.is_null(), "an error object came with success");
        return Ok(());
    }
    // SAFETY: the object of a failed call; its text lives until it is freed.
    unsafe {
        assert_eq!(koshi_error_status(err), status as koshi_status);
        let message = own(|| CStr::from_ptr(koshi_error_message(err)).to_str().unwrap().to_string());
        assert_eq!(koshi_error_free(err), 0);
        Err(Fault { status, message })
    }
}

/// A call that makes something.
fn make<T>(function: impl FnOnce(*mut *mut T, *mut *mut koshi_error) -> koshi_status) -> Outcome<*mut T> {
    let mut made: *mut T = ptr::null_mut();
    let outcome = call(|err| function(&mut made, err));
    assert_eq!(made.is_null(), outcome.is_err(), "a result is written exactly on success");
    outcome.map(|()| made)
}

/// A handle that is freed when it goes.
pub struct Handle<T> {
    pointer: *mut T,
    free: unsafe extern "C" fn(*mut T) -> koshi_status,
}

// SAFETY: the header says that handles may move between threads, and that calls which take
// a pointer to const may run together; the tests share nothing else.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Handle<T> {
    pub fn pointer(&self) -> *mut T {
        self.pointer
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: handles may be anything; this one is live.
        assert_eq!(unsafe { (self.free)(self.pointer) }, 0);
    }
}

pub(super) fn handle<T>(pointer: *mut T, free: unsafe extern "C" fn(*mut T) -> koshi_status) -> Handle<T> {
    Handle { pointer, free }
}

/// A copy of an array that the library lends.
unsafe fn copied<T: Copy, H>(
    owner: *const H,
    function: unsafe extern "C" fn(*const H, *mut usize) -> *const T,
) -> Vec<T> {
    let mut len = usize::MAX;
    // SAFETY: the array lives as long as its owner, which the caller holds.
    unsafe {
        let first = function(owner, &mut len);
        assert_ne!(len, usize::MAX, "the length is always written");
        if len == 0 { Vec::new() } else { own(|| std::slice::from_raw_parts(first, len).to_vec()) }
    }
}

fn words(path: *mut koshi_path) -> Words {
    let path = handle(path, koshi_path_free);
    // SAFETY: a live handle.
    unsafe {
        Words {
            ilabels: copied(path.pointer, koshi_path_ilabels),
            olabels: copied(path.pointer, koshi_path_olabels),
            frames: copied(path.pointer, koshi_path_frames),
            graph_cost: koshi_path_graph_cost(path.pointer),
            acoustic_cost: koshi_path_acoustic_cost(path.pointer),
            bias_cost: koshi_path_bias_cost(path.pointer),
        }
    }
}

/// A lattice read back from its handle.
fn raw(lattice: Handle<koshi_lattice>) -> Outcome<RawLattice> {
    let mut info = MaybeUninit::<koshi_lattice_summary>::zeroed();
    // SAFETY: a live handle; the struct is plain numbers and filled by the call.
    let (info, arcs, costs) = unsafe {
        let size = size_of::<koshi_lattice_summary>();
        call(|err| koshi_lattice_info(lattice.pointer, info.as_mut_ptr(), size, err))?;
        let arcs = copied(lattice.pointer, koshi_lattice_arcs);
        (info.assume_init(), arcs, copied(lattice.pointer, koshi_lattice_final_costs))
    };
    let arc = |arc: &koshi_lattice_arc| LatticeArc {
        next: arc.next,
        ilabel: arc.ilabel,
        olabel: arc.olabel,
        weight: LatticeWeight { graph: arc.graph_cost, acoustic: arc.acoustic_cost },
    };
    let cost = |cost: &koshi_lattice_cost| LatticeWeight { graph: cost.graph_cost, acoustic: cost.acoustic_cost };
    assert_eq!(info.is_compact, 0);
    assert_eq!((info.num_states as usize, info.num_arcs as usize), (costs.len(), arcs.len()));
    // SAFETY: a live handle.
    unsafe {
        Ok(RawLattice {
            bias: BiasCosts {
                arcs: copied(lattice.pointer, koshi_lattice_bias_costs),
                finals: copied(lattice.pointer, koshi_lattice_final_bias_costs),
            },
            arcs: own(|| arcs.iter().map(arc).collect()),
            offsets: copied(lattice.pointer, koshi_lattice_arc_offsets),
            finals: own(|| costs.iter().map(cost).collect()),
            times: copied(lattice.pointer, koshi_lattice_times),
            acoustic_scale: info.acoustic_scale,
            num_frames: info.num_frames,
            reached_final: info.reached_final != 0,
        })
    }
}

/// A lattice as a file's bytes.
fn bytes_of(lattice: &Handle<koshi_lattice>, binary: bool) -> Outcome<Vec<u8>> {
    let format =
        if binary { koshi_lattice_format::KOSHI_LATTICE_BINARY } else { koshi_lattice_format::KOSHI_LATTICE_TEXT };
    // SAFETY: as above.
    let made = make(|out, err| unsafe { koshi_lattice_to_memory(lattice.pointer, format as i32, out, err) })?;
    let buffer = handle(made, koshi_buffer_free);
    // SAFETY: as above; the bytes live as long as the buffer.
    unsafe {
        let size = koshi_buffer_size(buffer.pointer) as usize;
        Ok(own(|| std::slice::from_raw_parts(koshi_buffer_data(buffer.pointer), size).to_vec()))
    }
}

fn lattice(bytes: &[u8]) -> Outcome<Handle<koshi_lattice>> {
    // SAFETY: an array and its length.
    let made = make(|out, err| unsafe { koshi_lattice_from_memory(bytes.as_ptr(), bytes.len(), out, err) })?;
    Ok(handle(made, koshi_lattice_free))
}

fn config(config: &DecoderConfig) -> koshi_decoder_config {
    let mut ours = MaybeUninit::<koshi_decoder_config>::uninit();
    // SAFETY: init fills all of it.
    let mut ours = unsafe {
        let size = size_of::<koshi_decoder_config>();
        call(|err| koshi_decoder_config_init(ours.as_mut_ptr(), size, err)).unwrap();
        ours.assume_init()
    };
    let bound = |value: u64| if value == u64::MAX { 0 } else { value };
    ours.backend = match config.backend {
        BackendChoice::Auto => koshi_backend::KOSHI_BACKEND_AUTO,
        BackendChoice::Cpu => koshi_backend::KOSHI_BACKEND_CPU,
        BackendChoice::Cuda => koshi_backend::KOSHI_BACKEND_CUDA,
    } as i32;
    ours.device = config.device;
    ours.beam = config.search.beam;
    ours.lattice_beam = config.search.lattice_beam;
    ours.max_active = config.search.max_active;
    ours.min_active = config.search.min_active;
    ours.beam_delta = config.search.beam_delta;
    ours.acoustic_scale = config.search.acoustic_scale;
    ours.link_budget = config.search.link_budget;
    ours.num_lanes = config.num_lanes;
    ours.num_threads = config.num_threads;
    ours.max_channels = if config.max_channels == u32::MAX { 0 } else { config.max_channels };
    ours.frame_shift = config.frame_shift;
    ours.max_frames = bound(config.search.max_frames);
    ours.candidate_capacity = bound(config.search.candidate_capacity);
    ours.token_capacity = bound(config.search.token_capacity);
    ours.link_capacity = bound(config.search.link_capacity);
    ours.memory_limit = bound(config.search.memory_limit);
    ours.queue_frames = config.queue_frames;
    ours.chunk_frames = config.chunk_frames;
    ours.max_batch_wait = config.max_batch_wait;
    ours
}

/// End points as C sets them, and the silence labels.
fn endpoint_config(config: &EndpointConfig) -> (koshi_endpoint_config, &[i32]) {
    let mut ours = MaybeUninit::<koshi_endpoint_config>::uninit();
    // SAFETY: init fills all of it.
    let mut ours = unsafe {
        let size = size_of::<koshi_endpoint_config>();
        call(|err| koshi_endpoint_config_init(ours.as_mut_ptr(), size, err)).unwrap();
        ours.assume_init()
    };
    let (kind, labels) = match &config.silence {
        Silence::Phones(labels) => (koshi_silence::KOSHI_SILENCE_PHONES, labels),
        Silence::Ilabels(labels) => (koshi_silence::KOSHI_SILENCE_ILABELS, labels),
        Silence::Olabels(labels) => (koshi_silence::KOSHI_SILENCE_OLABELS, labels),
    };
    ours.silence = kind as i32;
    ours.action = match config.action {
        EndpointAction::Note => koshi_endpoint_action::KOSHI_ENDPOINT_NOTE,
        EndpointAction::Stop => koshi_endpoint_action::KOSHI_ENDPOINT_STOP,
        EndpointAction::Segment => koshi_endpoint_action::KOSHI_ENDPOINT_SEGMENT,
    } as i32;
    ours.segments_kept = config.segments_kept;
    for (ours, rule) in ours.rules.iter_mut().zip(&config.rules) {
        ours.must_contain_nonsilence = u32::from(rule.must_contain_nonsilence);
        ours.min_trailing_silence = rule.min_trailing_silence;
        ours.max_relative_cost = rule.max_relative_cost;
        ours.min_utterance_length = rule.min_utterance_length;
    }
    (ours, labels)
}

fn segment_end(end: &koshi_endpoint) -> SegmentEnd {
    let endpoint = Endpoint {
        rule: end.rule,
        frames: end.frames - end.first_frame,
        trailing_silence: end.trailing_silence,
        relative_cost: end.relative_cost,
    };
    SegmentEnd { segment: end.segment, first_frame: end.first_frame, endpoint }
}

/// What the callbacks below get as their user data.
struct Called<'a> {
    scores: &'a mut dyn Scores,
}

unsafe fn called<'a>(user_data: *mut c_void) -> &'a mut Called<'a> {
    // SAFETY: `pull` passes such a struct, which outlives the decodable, and callbacks run one at a time.
    unsafe { &mut *user_data.cast::<Called<'a>>() }
}

unsafe extern "C" fn one(user_data: *mut c_void, frame: i64, index: i32, out: *mut f32) -> koshi_status {
    // SAFETY: `out` is a place for the score.
    unsafe {
        match called(user_data).scores.score(frame as u64, index as usize) {
            Ok(score) => {
                *out = score;
                0
            }
            Err(status) => status,
        }
    }
}

unsafe extern "C" fn row(user_data: *mut c_void, frame: i64, row: *mut f32, dim: usize) -> koshi_status {
    for column in 0..dim {
        // SAFETY: `row` has `dim` places.
        let status = unsafe { one(user_data, frame, column as i32, row.add(column)) };
        if status < 0 {
            return status;
        }
    }
    0
}

unsafe extern "C" fn ready(user_data: *mut c_void) -> i64 {
    // SAFETY: the user data of `pull`.
    unsafe { called(user_data) }.scores.ready() as i64
}

unsafe extern "C" fn is_last(user_data: *mut c_void, frame: i64) -> i32 {
    // SAFETY: the user data of `pull`.
    i32::from(unsafe { called(user_data) }.scores.ready() as i64 == frame + 1)
}

unsafe extern "C" fn columns(user_data: *mut c_void) -> i32 {
    // SAFETY: the user data of `pull`.
    unsafe { called(user_data) }.scores.columns() as i32
}

fn advance(channel: *mut koshi_channel, decodable: *mut koshi_decodable, max_frames: Option<u64>) -> Outcome<u64> {
    let decodable = handle(decodable, koshi_decodable_free);
    let most = max_frames.map_or(-1, |frames| frames as i64);
    let mut done = u64::MAX;
    // SAFETY: live handles and a place for the result.
    let outcome = call(|err| unsafe { koshi_channel_advance(channel, decodable.pointer, most, &mut done, err) });
    assert_eq!(done == u64::MAX, outcome.is_err(), "a result is written exactly on success");
    outcome.map(|()| done)
}

// SAFETY of all below: live handles, arrays with their lengths, and places for results.
impl Face for C {
    type Graph = Handle<koshi_graph>;
    type Decoder = Handle<koshi_decoder>;
    type Channel = Handle<koshi_channel>;

    fn graph_from_memory(bytes: &[u8]) -> Outcome<Self::Graph> {
        // SAFETY: as above.
        let made =
            make(|out, err| unsafe { koshi_graph_from_memory(bytes.as_ptr(), bytes.len(), ptr::null(), out, err) })?;
        Ok(handle(made, koshi_graph_free))
    }

    fn graph_read(path: &Path, columns: Option<&[i32]>) -> Outcome<Self::Graph> {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: as above.
        let made = make(|out, err| unsafe {
            match columns {
                None => koshi_graph_read(path.as_ptr(), ptr::null(), out, err),
                Some(table) => koshi_graph_read_mapped(path.as_ptr(), table.as_ptr(), table.len(), out, err),
            }
        })?;
        Ok(handle(made, koshi_graph_free))
    }

    fn num_states(graph: &Self::Graph) -> u32 {
        let mut info = MaybeUninit::<koshi_graph_summary>::zeroed();
        let size = size_of::<koshi_graph_summary>();
        // SAFETY: as above; the struct is plain numbers.
        unsafe {
            call(|err| koshi_graph_info(graph.pointer, info.as_mut_ptr(), size, err)).unwrap();
            info.assume_init().num_states
        }
    }

    fn decoder(graph: &Self::Graph, options: &DecoderConfig) -> Outcome<Self::Decoder> {
        let config = config(&with_backend(options));
        // SAFETY: as above.
        let made = make(|out, err| unsafe { koshi_decoder_new(graph.pointer, &config, out, err) })?;
        Ok(handle(made, koshi_decoder_free))
    }

    fn default_decoder(graph: &Self::Graph) -> Outcome<Self::Decoder> {
        // "auto" looks for a GPU, once a process: the one that other tests want has to be there then.
        crate::common::gpu();
        // SAFETY: as above.
        let made = make(|out, err| unsafe { koshi_decoder_new(graph.pointer, ptr::null(), out, err) })?;
        Ok(handle(made, koshi_decoder_free))
    }

    fn channel(decoder: &Self::Decoder) -> Outcome<Self::Channel> {
        // SAFETY: as above.
        let made = make(|out, err| unsafe { koshi_channel_new(decoder.pointer, out, err) })?;
        Ok(handle(made, koshi_channel_free))
    }

    fn begin(channel: &mut Self::Channel) -> Outcome {
        // SAFETY: as above.
        call(|err| unsafe { koshi_channel_begin(channel.pointer, err) })
    }

    fn set_bias(channel: &mut Self::Channel, phrases: &[Phrase<'_>]) -> Outcome {
        let given = |phrase: &Phrase<'_>| koshi_phrase {
            labels: phrase.labels.as_ptr(),
            len: phrase.labels.len(),
            bonus: phrase.bonus,
            reserved: 0,
        };
        let given: Vec<koshi_phrase> = phrases.iter().map(given).collect();
        // SAFETY: as above.
        call(|err| unsafe { koshi_channel_set_bias(channel.pointer, given.as_ptr(), given.len(), err) })
    }

    fn push(channel: &mut Self::Channel, rows: Matrix) -> Outcome {
        let Matrix { data, frames, dim, stride } = rows;
        // SAFETY: as above.
        call(|err| unsafe { koshi_channel_push(channel.pointer, data.as_ptr(), frames, dim, stride, err) })
    }

    fn batch(decoder: &Self::Decoder, items: &mut [(&mut Self::Channel, Matrix)]) -> Vec<Result<(), Status>> {
        const UNSET: koshi_status = 12345;
        let mut batch: Vec<koshi_decoder_item> = items
            .iter()
            .map(|(channel, rows)| koshi_decoder_item {
                channel: channel.pointer,
                rows: rows.data.as_ptr(),
                frames: rows.frames,
                dim: rows.dim,
                stride: rows.stride,
                status: UNSET,
                reserved: 0,
            })
            .collect();
        let mut err: *mut koshi_error = ptr::null_mut();
        let size = size_of::<koshi_decoder_item>();
        // SAFETY: as above.
        let status = unsafe { koshi_decoder_advance(decoder.pointer, batch.as_mut_ptr(), batch.len(), size, &mut err) };
        assert!(err.is_null());
        let all = batch.iter().all(|item| item.status >= 0);
        let expected = if all { Status::KOSHI_OK } else { Status::KOSHI_OK_PARTIAL };
        assert_eq!(status, expected as koshi_status);
        batch.iter().map(|item| if item.status == 0 { Ok(()) } else { Err(code(item.status)) }).collect()
    }

    fn pull_matrix(channel: &mut Self::Channel, rows: Matrix, max_frames: Option<u64>) -> Outcome<u64> {
        let Matrix { data, frames, dim, stride } = rows;
        // SAFETY: as above; the rows outlive the decodable.
        let decodable =
            make(|out, err| unsafe { koshi_decodable_from_matrix(data.as_ptr(), frames, dim, stride, out, err) })?;
        advance(channel.pointer, decodable, max_frames)
    }

    fn pull(channel: &mut Self::Channel, scores: &mut dyn Scores, how: Pull, max_frames: Option<u64>) -> Outcome<u64> {
        let ops = koshi_decodable_ops {
            struct_size: size_of::<koshi_decodable_ops>() as u32,
            reserved: 0,
            log_likelihood: Some(one),
            frame_log_likelihoods: (how == Pull::Rows).then_some(row),
            num_frames_ready: Some(ready),
            is_last_frame: Some(is_last),
            num_indices: Some(columns),
        };
        let mut called = Called { scores };
        let user_data = (&raw mut called).cast::<c_void>();
        // SAFETY: as above; `called` outlives the decodable.
        let decodable = make(|out, err| unsafe { koshi_decodable_new(&ops, user_data, None, out, err) })?;
        advance(channel.pointer, decodable, max_frames)
    }

    fn finish(channel: &mut Self::Channel) -> Outcome {
        // SAFETY: as above.
        call(|err| unsafe { koshi_channel_finish(channel.pointer, err) })
    }

    fn cancel(channel: &Self::Channel) -> Outcome {
        // SAFETY: as above.
        call(|err| unsafe { koshi_channel_cancel(channel.pointer, err) })
    }

    fn num_frames(channel: &Self::Channel) -> u64 {
        // SAFETY: as above.
        u64::try_from(unsafe { koshi_channel_num_frames(channel.pointer) }).unwrap()
    }

    fn reached_final(channel: &Self::Channel) -> Option<bool> {
        // SAFETY: as above.
        match unsafe { koshi_channel_reached_final(channel.pointer) } {
            -1 => None,
            0 => Some(false),
            1 => Some(true),
            other => panic!("reached_final answers {other}"),
        }
    }

    fn final_relative_cost(channel: &Self::Channel) -> Option<f32> {
        // SAFETY: as above.
        Some(unsafe { koshi_channel_final_relative_cost(channel.pointer) }).filter(|cost| !cost.is_nan())
    }

    fn best_path(channel: &Self::Channel, use_final: bool) -> Outcome<Words> {
        let use_final = i32::from(use_final);
        // SAFETY: as above.
        make(|out, err| unsafe { koshi_channel_best_path(channel.pointer, use_final, out, err) }).map(words)
    }

    fn partial(channel: &Self::Channel) -> Outcome<(Words, usize)> {
        let mut stable = usize::MAX;
        // SAFETY: as above.
        let made = make(|out, err| unsafe { koshi_channel_partial(channel.pointer, out, &mut stable, err) })?;
        Ok((words(made), stable))
    }

    fn lattice(channel: &mut Self::Channel, use_final: bool) -> Outcome<RawLattice> {
        let use_final = i32::from(use_final);
        // SAFETY: as above.
        let made = make(|out, err| unsafe { koshi_channel_lattice(channel.pointer, use_final, out, err) })?;
        raw(handle(made, koshi_lattice_free))
    }

    fn stats(channel: &Self::Channel) -> Outcome<SearchStats> {
        let mut stats = MaybeUninit::<koshi_search_stats>::zeroed();
        let size = size_of::<koshi_search_stats>();
        // SAFETY: as above; the struct is plain numbers.
        let stats = unsafe {
            call(|err| koshi_channel_stats(channel.pointer, stats.as_mut_ptr(), size, err))?;
            stats.assume_init()
        };
        Ok(SearchStats {
            frames: stats.frames,
            tokens: stats.tokens,
            max_tokens: stats.max_tokens,
            arcs: stats.arcs,
            links: stats.links,
            max_active_held: stats.max_active_held,
            capacity_held: stats.capacity_held,
            effective_beam: stats.effective_beam,
            trace_links: stats.trace_links,
            memory: stats.memory,
            seconds: stats.seconds,
            links_followed: stats.links_followed,
            committed_frames: stats.committed_frames,
            forced_commits: stats.forced_commits,
            trace_bytes: stats.trace_bytes,
        })
    }

    fn set_endpoint_rules(decoder: &Self::Decoder, config: Option<&EndpointConfig>) -> Outcome {
        let Some(config) = config else {
            // SAFETY: as above.
            return call(|err| unsafe {
                koshi_decoder_set_endpoint_rules(decoder.pointer, ptr::null(), ptr::null(), 0, err)
            });
        };
        let (ours, labels) = endpoint_config(config);
        // SAFETY: as above.
        call(|err| unsafe {
            koshi_decoder_set_endpoint_rules(decoder.pointer, &ours, labels.as_ptr(), labels.len(), err)
        })
    }

    fn endpoint(channel: &Self::Channel) -> Outcome<Option<SegmentEnd>> {
        let mut found = MaybeUninit::<koshi_endpoint>::zeroed();
        let size = size_of::<koshi_endpoint>();
        // SAFETY: as above; the struct is plain numbers.
        let found = unsafe {
            call(|err| koshi_channel_endpoint(channel.pointer, found.as_mut_ptr(), size, err))?;
            found.assume_init()
        };
        if found.rule == 0 {
            assert_eq!(found, koshi_endpoint { struct_size: size as u32, ..bytemuck::Zeroable::zeroed() });
            return Ok(None);
        }
        Ok(Some(segment_end(&found)))
    }

    fn num_segments(channel: &Self::Channel) -> u64 {
        // SAFETY: as above.
        u64::try_from(unsafe { koshi_channel_num_segments(channel.pointer) }).unwrap()
    }

    fn segment(channel: &Self::Channel, number: u64) -> Outcome<(SegmentEnd, Words, RawLattice)> {
        let mut end = MaybeUninit::<koshi_endpoint>::zeroed();
        let (mut path, mut lattice) = (ptr::null_mut(), ptr::null_mut());
        let size = size_of::<koshi_endpoint>();
        // SAFETY: as above; the struct is plain numbers.
        unsafe {
            call(|err| {
                koshi_channel_segment(channel.pointer, number, end.as_mut_ptr(), size, &mut path, &mut lattice, err)
            })?;
            let lattice = raw(handle(lattice, koshi_lattice_free))?;
            Ok((segment_end(&end.assume_init()), words(path), lattice))
        }
    }

    fn lattice_from_memory(bytes: &[u8]) -> Outcome<RawLattice> {
        lattice(bytes).and_then(raw)
    }

    fn lattice_best_path(bytes: &[u8], acoustic_scale: f32) -> Outcome<Words> {
        let lattice = lattice(bytes)?;
        // SAFETY: as above.
        make(|out, err| unsafe { koshi_lattice_best_path(lattice.pointer, acoustic_scale, out, err) }).map(words)
    }

    fn lattice_prune(bytes: &[u8], beam: f32) -> Outcome<RawLattice> {
        let lattice = lattice(bytes)?;
        // SAFETY: as above.
        let made = make(|out, err| unsafe { koshi_lattice_prune(lattice.pointer, beam, 1.0, out, err) })?;
        raw(handle(made, koshi_lattice_free))
    }

    fn lattice_nbest(bytes: &[u8], n: usize, acoustic_scale: f32) -> Outcome<Vec<(Words, f64)>> {
        let lattice = lattice(bytes)?;
        // SAFETY: as above.
        let made = make(|out, err| unsafe { koshi_lattice_nbest(lattice.pointer, n, acoustic_scale, out, err) })?;
        let paths = handle(made, koshi_paths_free);
        // SAFETY: as above.
        unsafe {
            let len = koshi_paths_len(paths.pointer) as usize;
            assert!(koshi_paths_at(paths.pointer, len).is_null() && koshi_paths_posterior(paths.pointer, len).is_nan());
            let path = |at| (words(koshi_paths_at(paths.pointer, at)), koshi_paths_posterior(paths.pointer, at));
            Ok((0..len).map(path).collect())
        }
    }

    fn lattice_union(one: &[u8], other: &[u8]) -> Outcome<Vec<u8>> {
        let (one, other) = (lattice(one)?, lattice(other)?);
        // SAFETY: as above.
        let made = make(|out, err| unsafe { koshi_lattice_union(one.pointer, other.pointer, out, err) })?;
        bytes_of(&handle(made, koshi_lattice_free), true)
    }

    fn lattice_depth(bytes: &[u8]) -> Outcome<f64> {
        // SAFETY: as above.
        lattice(bytes).map(|lattice| unsafe { koshi_lattice_depth(lattice.pointer) })
    }

    fn lattice_oracle(bytes: &[u8], reference: &[i32]) -> Outcome<(u32, Words)> {
        let lattice = lattice(bytes)?;
        let (mut errors, len) = (u32::MAX, reference.len());
        // SAFETY: as above.
        let path = make(|out, err| unsafe {
            koshi_lattice_oracle(lattice.pointer, reference.as_ptr(), len, &mut errors, out, err)
        })?;
        Ok((errors, words(path)))
    }

    fn lattice_rescore(bytes: &[u8], old: Option<&[u8]>, new: Option<&[u8]>, scale: f32) -> Outcome<RawLattice> {
        let model = |bytes: Option<&[u8]>| {
            let Some(bytes) = bytes else { return Ok(handle(ptr::null_mut(), koshi_language_model_free)) };
            // SAFETY: as above.
            let made = make(|out, err| unsafe {
                koshi_language_model_from_memory(bytes.as_ptr(), bytes.len(), ptr::null(), out, err)
            })?;
            Ok(handle(made, koshi_language_model_free))
        };
        let (lattice, old, new) = (lattice(bytes)?, model(old)?, model(new)?);
        // SAFETY: as above.
        let made = make(|out, err| unsafe {
            koshi_lattice_rescore(lattice.pointer, old.pointer, new.pointer, scale, out, err)
        })?;
        raw(handle(made, koshi_lattice_free))
    }

    fn lattice_to_memory(wanted: &RawLattice, binary: bool) -> Outcome<Vec<u8>> {
        // There is no way to make a lattice of arrays in C: its own text is one that any reader takes.
        let text = own(|| super::Rust::lattice_to_memory(wanted, true))?;
        let lattice = lattice(&text)?;
        bytes_of(&lattice, binary)
    }
}
