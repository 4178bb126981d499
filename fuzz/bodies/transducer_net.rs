//! The networks of `transducer_script`: functions of label history and encoder row that fail, answer nonsense or call the
//! library when they are told to, and know which of their states are out.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use koshi::ffi::*;

use super::face::{call, make};

pub const VOCAB: usize = 5;
pub const ENCODER: usize = 3;
pub const OUTPUT: usize = 2;
pub const GOOD_ROWS: usize = 10;

/// Phrases; a set is so many of the first.
pub const PHRASES: [(&[i32], f32); 3] = [(&[1], 1.0), (&[3, 2], 0.5), (&[4, 4, 1], 2.0)];

/// What a call of a network does instead of its work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// Answers a negative number.
    Fails,
    /// Answers a positive number, which is as good as 0.
    Praises,
    /// NaN among the numbers.
    Nan,
    /// +inf among them.
    Infinite,
    /// Nothing is possible.
    Never,
    /// Calls the library first.
    Acts,
}

pub const FAULTS: [Fault; 7] =
    [Fault::None, Fault::Fails, Fault::Praises, Fault::Nan, Fault::Infinite, Fault::Never, Fault::Acts];

#[derive(Default)]
pub struct Net {
    /// States that are out: the history of each, and of which network it is.
    states: Mutex<HashMap<u64, (u64, bool)>>,
    made: AtomicU64,
    /// Calls until the fault, and what it is.
    left: AtomicI64,
    fault: Mutex<Fault>,
    /// What is called from inside.
    pub act: Mutex<Option<Box<dyn Fn() + Send>>>,
    pub dropped: AtomicU64,
    /// What the library did that it must not.
    wrong: Mutex<Option<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn mixed(history: u64, label: i32) -> u64 {
    (history ^ (label as u64 + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
}

/// A small number, with ties.
fn small(hash: u64) -> f32 {
    (hash >> 40) as f32 % 8.0 * 0.5
}

impl Net {
    pub fn arm(&self, calls: i64, fault: Fault) {
        self.left.store(calls, Ordering::SeqCst);
        *lock(&self.fault) = fault;
    }

    /// The fault that is still to come.
    pub fn armed(&self) -> Fault {
        if self.left.load(Ordering::SeqCst) < 0 { Fault::None } else { *lock(&self.fault) }
    }

    pub fn num_states(&self) -> u64 {
        lock(&self.states).len() as u64
    }

    /// Nothing may have gone wrong inside a callback, where nobody can panic.
    pub fn check(&self) {
        assert_eq!(*lock(&self.wrong), None);
    }

    fn complain(&self, what: String) {
        lock(&self.wrong).get_or_insert(what);
    }

    /// The fault of this call.
    fn fault(&self) -> Fault {
        if self.left.fetch_sub(1, Ordering::SeqCst) != 0 {
            return Fault::None;
        }
        let fault = *lock(&self.fault);
        if fault == Fault::Acts
            && let Some(act) = lock(&self.act).take()
        {
            act();
        }
        fault
    }

    /// Histories behind new labels; the numbers of each are `width` of `numbers`.
    unsafe fn read(
        &self,
        (states_in, labels, n): (*const u64, *const i32, usize),
        states_out: *mut u64,
        (numbers, width): (*mut f32, usize),
        is_lm: bool,
    ) -> koshi_status {
        let fault = self.fault();
        // SAFETY: the header's promise to callbacks: arrays of n, and of n rows.
        let (states_in, labels, states_out, numbers) = unsafe {
            (
                std::slice::from_raw_parts(states_in, n),
                std::slice::from_raw_parts(labels, n),
                std::slice::from_raw_parts_mut(states_out, n),
                std::slice::from_raw_parts_mut(numbers, n * width),
            )
        };
        let mut states = lock(&self.states);
        for at in 0..n {
            let (state, label) = (states_in[at], labels[at]);
            let begins = state == 0 && label == 0;
            let known = states.get(&state).filter(|(_, lm)| *lm == is_lm);
            if !(begins || known.is_some() && (1..VOCAB as i32).contains(&label)) {
                self.complain(format!("asked for state {state} and label {label}"));
            }
            let history = mixed(known.map_or(7, |(history, _)| *history), label);
            for (place, number) in numbers[at * width..][..width].iter_mut().enumerate() {
                *number = small(mixed(history, place as i32)) * if is_lm { -1.0 } else { 1.0 };
            }
            if fault == Fault::Fails {
                continue;
            }
            states_out[at] = self.made.fetch_add(1, Ordering::SeqCst) + 1;
            states.insert(states_out[at], (history, is_lm));
        }
        answer(fault, numbers)
    }

    fn release(&self, is_lm: bool, state: u64) {
        if lock(&self.states).remove(&state).is_none_or(|(_, lm)| lm != is_lm) {
            self.complain(format!("state {state} is released, which is not out"));
        }
    }
}

fn answer(fault: Fault, numbers: &mut [f32]) -> koshi_status {
    let at = numbers.len() / 2;
    match fault {
        Fault::Fails => return -7,
        Fault::Praises => return 3,
        Fault::Nan => numbers[at] = f32::NAN,
        Fault::Infinite => numbers[at] = f32::INFINITY,
        Fault::Never => numbers.fill(f32::NEG_INFINITY),
        Fault::None | Fault::Acts => {}
    }
    0
}

unsafe fn net<'a>(data: *mut c_void) -> &'a Net {
    // SAFETY: of all callbacks: the net lives until its script has ended.
    unsafe { &*data.cast::<Net>() }
}

pub unsafe extern "C" fn predict(
    data: *mut c_void,
    states_in: *const u64,
    labels: *const i32,
    n: usize,
    states_out: *mut u64,
    outputs: *mut f32,
) -> koshi_status {
    // SAFETY: as the header promises.
    unsafe { net(data).read((states_in, labels, n), states_out, (outputs, OUTPUT), false) }
}

pub unsafe extern "C" fn lm_predict(
    data: *mut c_void,
    states_in: *const u64,
    labels: *const i32,
    n: usize,
    states_out: *mut u64,
    log_probs: *mut f32,
) -> koshi_status {
    // SAFETY: as the header promises.
    unsafe { net(data).read((states_in, labels, n), states_out, (log_probs, VOCAB), true) }
}

pub unsafe extern "C" fn join(
    data: *mut c_void,
    rows: *const f32,
    outputs: *const f32,
    n: usize,
    scores: *mut f32,
) -> koshi_status {
    // SAFETY: as the header promises: n rows each.
    let (fault, rows, outputs, scores) = unsafe {
        let fault = net(data).fault();
        (
            fault,
            std::slice::from_raw_parts(rows, n * ENCODER),
            std::slice::from_raw_parts(outputs, n * OUTPUT),
            std::slice::from_raw_parts_mut(scores, n * VOCAB),
        )
    };
    for ((row, output), scores) in rows.chunks(ENCODER).zip(outputs.chunks(OUTPUT)).zip(scores.chunks_mut(VOCAB)) {
        for (label, score) in scores.iter_mut().enumerate() {
            let sum = row[label % ENCODER] * (label + 1) as f32 + output[label % OUTPUT] * 3.0;
            *score = -(sum.rem_euclid(6.5));
        }
    }
    answer(fault, scores)
}

pub unsafe extern "C" fn release(data: *mut c_void, part: koshi_transducer_part, state: u64) {
    // SAFETY: as above.
    unsafe { net(data) }.release(part == koshi_transducer_part::KOSHI_TRANSDUCER_LM, state);
}

pub unsafe extern "C" fn dropped(data: *mut c_void) {
    // SAFETY: as above.
    unsafe { net(data) }.dropped.fetch_add(1, Ordering::SeqCst);
}

pub fn ops(has_lm: bool, scores: i32) -> koshi_transducer_ops {
    koshi_transducer_ops {
        struct_size: size_of::<koshi_transducer_ops>() as u32,
        vocab_size: VOCAB as u32,
        blank: 0,
        encoder_dim: ENCODER as u32,
        output_dim: OUTPUT as u32,
        scores,
        predict: Some(predict),
        join: Some(join),
        release_state: Some(release),
        lm_predict: if has_lm { Some(lm_predict) } else { None },
    }
}

pub fn new_transducer(net: &Net, has_lm: bool, scores: i32) -> Option<*mut koshi_transducer> {
    let (ops, data) = (ops(has_lm, scores), (&raw const *net).cast_mut().cast());
    // SAFETY: a struct that the call copies; the net lives as long as the transducer.
    make(|out, err| unsafe { koshi_transducer_new(&ops, data, Some(dropped), out, err) })
}

pub fn set_bias(transducer: *const koshi_transducer, chosen: usize) {
    let phrases: Vec<koshi_phrase> = PHRASES.iter().take(chosen).map(phrase).collect();
    // SAFETY: a live handle, an array with its length.
    let set = call(|err| unsafe { koshi_transducer_set_bias(transducer, phrases.as_ptr(), phrases.len(), err) });
    assert_eq!(set, 0);
}

/// A row of the pool: good ones, then one of NaN, one of +inf, one of -inf.
pub fn row(number: usize) -> [f32; ENCODER] {
    match number.checked_sub(GOOD_ROWS) {
        None => std::array::from_fn(|column| (number * 7 + column * 5 + number * column) as f32 % 24.0 * 0.25),
        Some(0) => [1.0, f32::NAN, 1.0],
        Some(1) => [f32::INFINITY, 1.0, 1.0],
        Some(_) => [f32::NEG_INFINITY; ENCODER],
    }
}

pub fn phrase((labels, bonus): &(&[i32], f32)) -> koshi_phrase {
    koshi_phrase { labels: labels.as_ptr(), len: labels.len(), bonus: *bonus, reserved: 0 }
}
