//! Bytes taken for a script of calls through the C face on transducers: streams opened, pushed to, asked, committed,
//! finished, cancelled and freed in any order, whole utterances searched, networks that fail, answer NaN or call the
//! library from inside, handles that are stale, of another type or wild, sizes that are wrong. No call crashes or answers
//! what the header does not know; a stream that had good calls only gives what a fresh one gives after a plain push;
//! every state is released once, every net dropped once, and no handle is left.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use koshi::ffi::*;

use super::face::{self, Alone, Bytes, call, fill, free, free_made, make};
use super::transducer_list::{Hypothesis, read_list};
use super::transducer_net::{
    self as net, ENCODER, FAULTS, Fault, GOOD_ROWS, Net, PHRASES, VOCAB, new_transducer, ops, phrase, row, set_bias,
};

/// More calls tell nothing new.
const MOST_CALLS: usize = 120;
/// Calls from inside callbacks, of one script.
const MOST_INSIDE: i32 = 40;
const NUM_STREAMS: usize = 5;
const HANDLE: koshi_status = koshi_status_code::KOSHI_E_HANDLE as koshi_status;
const STATE: koshi_status = koshi_status_code::KOSHI_E_STATE as koshi_status;

struct Stream {
    handle: usize,
    of: usize,
    config: koshi_transducer_config,
    phrases: usize,
    /// Good rows so far; unknown once something else than a good call could have changed the stream.
    rows: Option<Vec<usize>>,
    committed: Option<Hypothesis>,
}

struct Transducer {
    handle: usize,
    net: Box<Net>,
    has_lm: bool,
    scores: i32,
    phrases: usize,
}

/// What callbacks see.
#[derive(Default)]
struct World {
    handles: Mutex<Vec<usize>>,
    inside: AtomicI32,
}

impl World {
    fn note<T>(&self, made: *mut T) -> *mut T {
        self.handles.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(made as usize);
        made
    }

    fn handles(&self) -> Vec<usize> {
        self.handles.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// One call on any handles. Whether they are what the call wants decides whether it answers KOSHI_E_HANDLE.
    fn any_call(&self, kind: u8, one: usize, two: usize) {
        let is_live = |name| face::is_live(name, one);
        let (transducer, stream, list) =
            (is_live("koshi_transducer"), is_live("koshi_transducer_stream"), is_live("koshi_hypotheses"));
        let (row, mut stable, mut len) = (row(1), 7, 7);
        // SAFETY: handles may be anything; arrays with their lengths, places for results.
        unsafe {
            let told = |is_live: bool, status: koshi_status| assert_eq!(status == HANDLE, !is_live, "{kind}: {one:#x}");
            let at = one as *mut koshi_transducer_stream;
            match kind % 16 {
                0 => told(stream, call(|err| koshi_transducer_stream_push(at, row.as_ptr(), 1, ENCODER, ENCODER, err))),
                1 => {
                    let found = make(|out, err| {
                        let status = koshi_transducer_stream_partial(at, out, &mut stable, err);
                        told(stream, status);
                        status
                    });
                    assert!(found.is_some() || stable == 7);
                    free_made(koshi_hypotheses_free, found);
                }
                2 => free_made(koshi_hypotheses_free, make(|out, err| koshi_transducer_stream_commit(at, out, err))),
                3 => free_made(koshi_hypotheses_free, make(|out, err| koshi_transducer_stream_finish(at, out, err))),
                4 => told(stream, call(|err| koshi_transducer_stream_cancel(at, err))),
                5 => {
                    let frames = koshi_transducer_stream_num_frames(at);
                    assert!(frames >= -1 && (stream || frames == -1));
                }
                6 => told(stream || one == 0, koshi_transducer_stream_free(at)),
                7 => told(transducer || one == 0, koshi_transducer_free(one as *mut _)),
                8 => told(transducer, call(|err| koshi_transducer_set_bias(one as *const _, ptr::null(), 0, err))),
                9 => {
                    let size = size_of::<koshi_transducer_calls>();
                    let counts =
                        fill(size, |out, size, err| koshi_transducer_call_counts(one as *const _, out, size, err));
                    assert_eq!(counts.is_some(), transducer);
                }
                10 => {
                    let made = make(|out, err| koshi_transducer_stream_new(one as *const _, ptr::null(), out, err));
                    assert_eq!(made.is_some(), transducer);
                    free_made(koshi_transducer_stream_free, made);
                }
                11 => {
                    let counted = koshi_hypotheses_ref(one as *const _);
                    assert_eq!(!counted.is_null(), list);
                    free(koshi_hypotheses_free, counted);
                }
                12 => {
                    let at = one as *const koshi_hypotheses;
                    assert_eq!(koshi_hypotheses_len(at) >= 0, list);
                    let labels = koshi_hypotheses_labels(at, two, &mut len);
                    assert!(!labels.is_null() || len == 0);
                    assert!(list || koshi_hypotheses_score(at, 0).is_nan() && koshi_hypotheses_finished(at, 0) == -1);
                }
                13 => {
                    let mut utterances = [utterance(&row, 1, ENCODER)];
                    let mut found = [ptr::null_mut()];
                    let size = size_of::<koshi_transducer_utterance>();
                    let (at, found) = (utterances.as_mut_ptr(), found.as_mut_ptr());
                    let searched = |err| koshi_transducer_search(one as *const _, ptr::null(), at, 1, size, found, err);
                    told(transducer, call(searched));
                    free(koshi_hypotheses_free, *found);
                    free(koshi_error_free, utterances[0].error);
                }
                14 => {
                    let mut items = [two, two].map(|stream| item(stream, &row, 1, 0));
                    let size = size_of::<koshi_transducer_item>();
                    let status =
                        call(|err| koshi_transducer_advance(one as *const _, items.as_mut_ptr(), 2, size, err));
                    told(transducer, status);
                    assert!(status < 0 || items[1].status < 0, "a stream that stands twice");
                }
                _ => assert_eq!(koshi_error_free(one as *mut _) == 0, one == 0),
            }
        }
    }
}

pub fn run(bytes: &[u8]) -> bool {
    let alone = Alone::new();
    let mut script = Script { world: Arc::default(), transducers: Vec::new(), streams: Vec::new(), lists: Vec::new() };
    Bytes(bytes).steps(MOST_CALLS, |bytes| script.step(bytes));
    script.end();
    alone.end();
    true
}

struct Script {
    world: Arc<World>,
    transducers: Vec<Transducer>,
    streams: Vec<Stream>,
    lists: Vec<*mut koshi_hypotheses>,
}

impl Script {
    fn step(&mut self, bytes: &mut Bytes) {
        let kind = bytes.next();
        if self.transducers.is_empty() {
            self.transducer(bytes);
        }
        if self.streams.is_empty() {
            self.open(bytes);
        }
        let at = bytes.below(self.streams.len().max(1));
        match kind % 32 {
            0..8 if !self.streams.is_empty() => self.push(at, bytes),
            8..11 if !self.streams.is_empty() => self.look(at),
            11..13 if !self.streams.is_empty() => self.commit(at),
            13..16 if !self.streams.is_empty() => self.finish(at),
            16 if !self.streams.is_empty() => {
                let stream = self.streams[at].handle as *mut koshi_transducer_stream;
                // SAFETY: handles may be anything.
                call(|err| unsafe { koshi_transducer_stream_cancel(stream, err) });
                self.streams[at].rows = None;
            }
            17 if !self.streams.is_empty() => self.wrong_sizes(at, bytes),
            18..20 if self.streams.len() < NUM_STREAMS => self.open(bytes),
            18..20 if !self.streams.is_empty() => {
                // A callback may have freed it.
                // SAFETY: handles may be anything.
                unsafe { koshi_transducer_stream_free(self.streams[at].handle as *mut _) };
                self.streams.remove(at);
            }
            20 if self.transducers.len() < 2 => self.transducer(bytes),
            21 | 22 => self.batch(bytes),
            23 => self.search(bytes),
            24 => self.bias(bytes),
            25..28 => self.arm(bytes),
            28 => self.bad_structs(bytes),
            _ => {
                let handles = self.world.handles();
                let (one, two) = (face::wrong(&handles, bytes), face::wrong(&handles, bytes));
                self.world.any_call(bytes.next(), one, two);
                self.forget(one);
                self.forget(two);
            }
        }
        self.transducers.iter().for_each(|transducer| transducer.net.check());
    }

    fn forget(&mut self, handle: usize) {
        self.streams.iter_mut().filter(|stream| stream.handle == handle).for_each(|stream| stream.rows = None);
        let of = self.transducers.iter().position(|transducer| transducer.handle == handle);
        if let Some(of) = of {
            self.transducers[of].phrases = usize::MAX;
        }
    }

    fn transducer(&mut self, bytes: &mut Bytes) {
        let flags = bytes.next();
        let (has_lm, scores) = (flags & 1 == 0, i32::from(flags >> 1 & 1));
        let net = Box::new(Net::default());
        let handle = new_transducer(&net, has_lm, scores).expect("good functions");
        self.world.note(handle);
        self.transducers.push(Transducer { handle: handle as usize, net, has_lm, scores, phrases: 0 });
    }

    fn open(&mut self, bytes: &mut Bytes) {
        let of = bytes.below(self.transducers.len());
        let transducer = &self.transducers[of];
        let config = config(bytes, transducer.has_lm);
        // SAFETY: handles may be anything; a struct of its size, a place for the result.
        let made =
            make(|out, err| unsafe { koshi_transducer_stream_new(transducer.handle as *const _, &config, out, err) });
        let Some(made) = made else { return };
        let phrases = transducer.phrases;
        let rows = (phrases <= PHRASES.len() && !self.is_armed()).then(Vec::new);
        let handle = self.world.note(made) as usize;
        self.streams.push(Stream { handle, of, config, phrases, rows, committed: None });
    }

    fn push(&mut self, at: usize, bytes: &mut Bytes) {
        let rows = some_rows(bytes);
        let data = data(&rows);
        let stream = self.streams[at].handle as *mut koshi_transducer_stream;
        // SAFETY: an array with its length.
        let status = call(|err| unsafe {
            koshi_transducer_stream_push(stream, data.as_ptr(), rows.len(), ENCODER, ENCODER, err)
        });
        self.pushed(at, &rows, status);
    }

    fn pushed(&mut self, at: usize, rows: &[usize], status: koshi_status) {
        let known = &mut self.streams[at].rows;
        match known {
            Some(all) if status == 0 => all.extend(rows),
            Some(_) if status == STATE => {}
            _ => *known = None,
        }
    }

    fn look(&mut self, at: usize) {
        let stream = self.streams[at].handle as *mut koshi_transducer_stream;
        let mut stable = usize::MAX;
        // SAFETY: handles may be anything, places for results.
        unsafe {
            let frames = koshi_transducer_stream_num_frames(stream);
            if let Some(rows) = &self.streams[at].rows {
                assert_eq!(frames, rows.len() as i64);
            }
            if let Some(list) = make(|out, err| koshi_transducer_stream_partial(stream, out, &mut stable, err)) {
                let found = read_list(list);
                assert!(found.first().is_some_and(|best| stable <= best.labels.len()));
                self.world.note(list);
                self.lists.push(list);
            }
        }
    }

    fn commit(&mut self, at: usize) {
        let stream = self.streams[at].handle as *mut koshi_transducer_stream;
        // SAFETY: handles may be anything, a place for the result.
        let made = make(|out, err| unsafe { koshi_transducer_stream_commit(stream, out, err) });
        let Some(list) = made else { return };
        let mut found = read_list(list);
        free(koshi_hypotheses_free, list);
        assert_eq!(found.len(), 1);
        let part = found.remove(0);
        let committed = &mut self.streams[at].committed;
        *committed = Some(committed.take().map_or(part.clone(), |before| before.then(&part)));
    }

    /// The result is that of a fresh stream, and of a search.
    fn finish(&mut self, at: usize) {
        let stream = self.streams[at].handle as *mut koshi_transducer_stream;
        // SAFETY: handles may be anything, a place for the result.
        let made = make(|out, err| unsafe { koshi_transducer_stream_finish(stream, out, err) });
        let known = self.streams[at].rows.take();
        let Some(list) = made else { return };
        let mut found = read_list(list);
        self.world.note(list);
        self.lists.push(list);
        let Stream { of, config, phrases, committed, .. } = &self.streams[at];
        let Some(rows) = known else { return };
        if let Some(committed) = committed {
            found.iter_mut().for_each(|rest| *rest = committed.clone().then(rest));
        }
        let net = Box::new(Net::default());
        let transducer = &self.transducers[*of];
        let fresh = new_transducer(&net, transducer.has_lm, transducer.scores).expect("good functions");
        let data = data(&rows);
        // SAFETY: live handles, arrays with their lengths, places for results.
        unsafe {
            set_bias(fresh, *phrases);
            let stream = make(|out, err| koshi_transducer_stream_new(fresh, config, out, err)).expect("a stream");
            let (at, frames) = (data.as_ptr(), rows.len());
            assert_eq!(call(|err| koshi_transducer_stream_push(stream, at, frames, ENCODER, ENCODER, err)), 0);
            let plain = make(|out, err| koshi_transducer_stream_finish(stream, out, err)).expect("a result");
            assert_eq!(found, read_list(plain), "{rows:?}");
            let mut utterances = [utterance(&data, rows.len(), ENCODER)];
            let mut lists = [ptr::null_mut()];
            let size = size_of::<koshi_transducer_utterance>();
            let (at, lists) = (utterances.as_mut_ptr(), lists.as_mut_ptr());
            assert!(call(|err| koshi_transducer_search(fresh, config, at, 1, size, lists, err)) >= 0);
            assert_eq!(found, read_list(*lists), "{rows:?}");
            free(koshi_hypotheses_free, *lists);
            free(koshi_hypotheses_free, plain);
            free(koshi_transducer_stream_free, stream);
            free(koshi_transducer_free, fresh);
        }
        gone(&net);
    }

    /// Refused, and nothing has changed.
    fn wrong_sizes(&mut self, at: usize, bytes: &mut Bytes) {
        let stream = self.streams[at].handle as *mut koshi_transducer_stream;
        let row = row(0);
        let (data, frames, dim, stride) = match bytes.below(8) {
            0 => (row.as_ptr(), 1, 0, 0),
            1 => (row.as_ptr(), 1, ENCODER - 1, ENCODER),
            2 => (row.as_ptr(), 1, ENCODER + 1, ENCODER + 1),
            3 => (row.as_ptr(), 2, ENCODER, ENCODER - 1),
            4 => (ptr::null(), 1, ENCODER, ENCODER),
            5 => (ptr::null(), usize::MAX, ENCODER, ENCODER),
            6 => (row.as_ptr(), usize::MAX / 8, ENCODER, 16),
            _ => (row.as_ptr().wrapping_byte_add(1), 1, ENCODER, ENCODER),
        };
        // SAFETY: what is too large, null or misaligned is refused before it is read.
        assert!(call(|err| unsafe { koshi_transducer_stream_push(stream, data, frames, dim, stride, err) }) < 0);
    }

    fn batch(&mut self, bytes: &mut Bytes) {
        if self.streams.is_empty() {
            return;
        }
        let of = bytes.below(self.transducers.len());
        let each: Vec<(usize, Vec<usize>, u32)> = (0..bytes.below(4))
            .map(|_| (bytes.below(self.streams.len()), some_rows(bytes), u32::from(bytes.next() >= 240)))
            .collect();
        let rows: Vec<Vec<f32>> = each.iter().map(|(_, rows, _)| data(rows)).collect();
        let items = each.iter().zip(&rows);
        let mut items: Vec<koshi_transducer_item> =
            items.map(|((at, rows, last), data)| item(self.streams[*at].handle, data, rows.len(), *last)).collect();
        let size = size_of::<koshi_transducer_item>();
        let transducer = self.transducers[of].handle as *const koshi_transducer;
        // SAFETY: handles may be anything; an array with its length, whose rows live.
        let status =
            call(|err| unsafe { koshi_transducer_advance(transducer, items.as_mut_ptr(), items.len(), size, err) });
        for (at, (stream, rows, last)) in each.iter().enumerate() {
            let twice = each[..at].iter().any(|(other, ..)| other == stream);
            let is_other = self.streams[*stream].of != of;
            assert!(!(status >= 0 && (is_other || twice)) || items[at].status < 0);
            if status < 0 || is_other || twice {
                continue;
            }
            self.pushed(*stream, rows, items[at].status);
            // Of a last push whose answer was that nothing more can come nothing is known.
            if *last == 1 && items[at].status < 0 {
                self.streams[*stream].rows = None;
            }
        }
    }

    fn search(&mut self, bytes: &mut Bytes) {
        let of = bytes.below(self.transducers.len());
        let config = config(bytes, self.transducers[of].has_lm);
        let each: Vec<Vec<usize>> = (0..bytes.below(4)).map(|_| some_rows(bytes)).collect();
        let data: Vec<Vec<f32>> = each.iter().map(|rows| data(rows)).collect();
        let dim = bytes.mostly(ENCODER, &[0, ENCODER - 1, usize::MAX]);
        let mut utterances: Vec<_> =
            each.iter().zip(&data).map(|(rows, data)| utterance(data, rows.len(), dim)).collect();
        let mut lists = vec![ptr::null_mut(); each.len()];
        let (at, found, size) = (utterances.as_mut_ptr(), lists.as_mut_ptr(), size_of::<koshi_transducer_utterance>());
        let transducer = self.transducers[of].handle as *const koshi_transducer;
        // SAFETY: handles may be anything; arrays with their lengths, whose rows live.
        unsafe {
            call(|err| koshi_transducer_search(transducer, &config, at, each.len(), size, found, err));
            for (list, utterance) in lists.into_iter().zip(utterances) {
                assert!(list.is_null() || utterance.status >= 0 && !read_list(list).is_empty());
                assert_eq!(utterance.error.is_null(), utterance.status >= 0);
                free(koshi_hypotheses_free, list);
                free(koshi_error_free, utterance.error);
            }
        }
    }

    fn bias(&mut self, bytes: &mut Bytes) {
        let of = bytes.below(self.transducers.len());
        let transducer = &self.transducers[of];
        let chosen = bytes.below(PHRASES.len() + 1);
        let bad: (&[i32], f32) =
            [(&[][..], 1.0), (&[0], 1.0), (&[VOCAB as i32], 1.0), (&[1], -1.0), (&[1], f32::NAN)][bytes.below(5)];
        let is_bad = bytes.next() >= 224;
        let mut phrases: Vec<koshi_phrase> = PHRASES.iter().take(chosen).map(phrase).collect();
        phrases.extend(is_bad.then(|| phrase(&bad)));
        let handle = transducer.handle as *const koshi_transducer;
        // SAFETY: handles may be anything; arrays with their lengths.
        let status = call(|err| unsafe { koshi_transducer_set_bias(handle, phrases.as_ptr(), phrases.len(), err) });
        assert!(status < 0 || !is_bad);
        if status == 0 {
            self.transducers[of].phrases = if self.is_armed() { usize::MAX } else { chosen };
        }
    }

    /// Whether what is not seen from outside may still come.
    fn is_armed(&self) -> bool {
        self.transducers.iter().any(|transducer| matches!(transducer.net.armed(), Fault::Acts | Fault::Never))
    }

    /// Some call of a net will fail, or call the library.
    fn arm(&mut self, bytes: &mut Bytes) {
        let of = bytes.below(self.transducers.len());
        let (calls, fault) = (i64::from(bytes.next() % 32), FAULTS[bytes.below(FAULTS.len())]);
        if fault == Fault::Acts {
            let handles = self.world.handles();
            let (one, two) = (face::wrong(&handles, bytes), face::wrong(&handles, bytes));
            let (kind, world) = (bytes.next(), Arc::clone(&self.world));
            let act = move || {
                if world.inside.fetch_add(1, Ordering::SeqCst) < MOST_INSIDE {
                    world.any_call(kind, one, two);
                }
            };
            *self.transducers[of].net.act.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(Box::new(act));
        }
        // What is changed from inside, or is made impossible, is not seen from outside.
        if matches!(fault, Fault::Acts | Fault::Never) {
            self.streams.iter_mut().for_each(|stream| stream.rows = None);
            self.transducers.iter_mut().for_each(|transducer| transducer.phrases = usize::MAX);
        }
        self.transducers[of].net.arm(calls, fault);
    }

    fn bad_structs(&mut self, bytes: &mut Bytes) {
        let transducer = self.transducers[0].handle as *const koshi_transducer;
        let dropped = Net::default();
        let data = (&raw const dropped).cast_mut().cast();
        let (size, number) = (usize::from(bytes.next()), [0, 1, -1, i32::MAX, 1 << 24, (1 << 24) + 1, VOCAB as i32]);
        let number = number[bytes.below(number.len())];
        // SAFETY: handles may be anything; rooms that are larger than the sizes told; places for results.
        unsafe {
            let mut room = [config(bytes, true); 8];
            room[1..].iter_mut().for_each(|behind| *behind = std::mem::zeroed());
            room[0].struct_size = size as u32;
            let made = make(|out, err| koshi_transducer_stream_new(transducer, room.as_ptr(), out, err));
            free_made(koshi_transducer_stream_free, made);
            let mut room = [ops(true, 0); 8];
            room[1..].iter_mut().for_each(|behind| *behind = std::mem::zeroed());
            match bytes.below(8) {
                0 => room[0].struct_size = size as u32,
                1 => room[0].vocab_size = number as u32,
                2 => room[0].encoder_dim = number as u32,
                3 => room[0].output_dim = number as u32,
                4 => room[0].blank = number,
                5 => room[0].scores = number,
                6 => room[0].predict = None,
                _ => room[0].join = None,
            }
            let made = make(|out, err| koshi_transducer_new(room.as_ptr(), data, Some(net::dropped), out, err));
            free_made(koshi_transducer_free, made);
            assert_eq!(dropped.dropped.load(Ordering::SeqCst), 1);
            let most = 2 * size_of::<koshi_transducer_calls>();
            fill(size.min(most), |out, size, err| koshi_transducer_call_counts(transducer, out, size, err));
            let most = 2 * size_of::<koshi_transducer_config>();
            fill(size.min(most), |out, size, err| koshi_transducer_config_init(out, size, err));
        }
    }

    /// Everything goes, and nothing of it stays.
    fn end(self) {
        // SAFETY: handles may be anything, or freed by a callback before.
        unsafe {
            for transducer in &self.transducers {
                transducer.net.arm(0, Fault::None);
                let at = transducer.handle as *const koshi_transducer;
                let size = size_of::<koshi_transducer_calls>();
                if let Some(counts) = fill(size, |out, size, err| koshi_transducer_call_counts(at, out, size, err)) {
                    assert_eq!(counts.states, transducer.net.num_states());
                }
                koshi_transducer_free(transducer.handle as *mut _);
            }
            for stream in &self.streams {
                koshi_transducer_stream_free(stream.handle as *mut _);
            }
            self.lists.iter().for_each(|list| free(koshi_hypotheses_free, *list));
        }
        for transducer in &self.transducers {
            drop(transducer.net.act.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take());
            gone(&transducer.net);
        }
    }
}

/// Nothing of a net's is in use any more.
fn gone(net: &Net) {
    net.check();
    assert_eq!((net.dropped.load(Ordering::SeqCst), net.num_states()), (1, 0), "dropped, states that are out");
}

fn config(bytes: &mut Bytes, has_lm: bool) -> koshi_transducer_config {
    let mut config = MaybeUninit::<koshi_transducer_config>::zeroed();
    let size = size_of::<koshi_transducer_config>();
    // SAFETY: room for the struct, which is plain numbers.
    let mut config = unsafe {
        assert_eq!(call(|err| koshi_transducer_config_init(config.as_mut_ptr(), size, err)), 0);
        config.assume_init()
    };
    let (one, two) = (bytes.next(), bytes.next());
    config.search = bytes.mostly(i32::from(one % 5), &[-1, 5, i32::MAX]);
    config.beam = bytes.mostly(1 + u32::from(one / 5 % 4), &[0, VOCAB as u32, u32::MAX]);
    config.max_symbols_per_frame = 1 + u32::from(one / 20 % 3);
    config.max_expansions_per_frame = bytes.mostly(1 + u32::from(two % 8), &[0, 1024, 1025]);
    config.max_sym_exp = 1 + u32::from(two / 8 % 3);
    config.u_max = bytes.mostly(u32::from(two / 24) * 3, &[0, 1, 1 << 24, (1 << 24) + 1]);
    config.nstep = 1 + u32::from(one / 60);
    config.prefix_alpha = u32::from(two % 3);
    config.lm_weight = bytes.mostly(if has_lm { f32::from(one % 3) * 0.5 } else { 0.0 }, &[0.3, f32::NAN, -1.0]);
    config.score_norm = bytes.mostly(u32::from(one & 1), &[2]);
    config.nbest = bytes.mostly(3, &[0, 1, u32::MAX]);
    config.max_cached = u32::from(two % 5);
    config.commit_frames = [0, 0, 1, 2, 5][usize::from(two) % 5];
    config
}

/// A few rows, seldom a bad one.
fn some_rows(bytes: &mut Bytes) -> Vec<usize> {
    let row = |byte: u8| match byte {
        253.. => GOOD_ROWS + usize::from(byte - 253),
        _ => usize::from(byte) % GOOD_ROWS,
    };
    (0..bytes.below(6)).map(|_| row(bytes.next())).collect()
}

fn data(rows: &[usize]) -> Vec<f32> {
    rows.iter().copied().flat_map(row).collect()
}

fn utterance(data: &[f32], frames: usize, dim: usize) -> koshi_transducer_utterance {
    koshi_transducer_utterance {
        rows: data.as_ptr(),
        frames,
        dim,
        stride: ENCODER,
        status: 0,
        reserved: 0,
        error: ptr::null_mut(),
    }
}

fn item(stream: usize, data: &[f32], frames: usize, last: u32) -> koshi_transducer_item {
    let stream = stream as *mut koshi_transducer_stream;
    koshi_transducer_item { stream, rows: data.as_ptr(), frames, dim: ENCODER, stride: ENCODER, status: 12345, last }
}
