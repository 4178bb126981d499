//! The C face as all bodies call it: every answer is held to what the header says of any call.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock};

use koshi::ffi::*;
use koshi::graph::{GraphArc, VecSource};
use koshi::table::Output;

/// Columns of the rows; the graph reads 3 of them.
pub const DIM: usize = 4;
/// Rows to choose from: good ones, then one of NaN, one of +inf, one without any arc.
pub const GOOD_ROWS: usize = 12;

/// Statuses of the header.
const DOCUMENTED: [koshi_status; 23] = [
    0, 1, -101, -102, -103, -104, -105, -106, -201, -202, -203, -204, -301, -302, -303, -401, -402, -403, -501, -502,
    -601, -602, -701,
];

/// The answer of a call. One with an error object has it exactly on failure, and of the same status.
#[track_caller]
pub fn status(function: impl FnOnce(*mut *mut koshi_error) -> koshi_status) -> koshi_status {
    answer(function).0
}

/// The same, and why it failed.
#[track_caller]
fn answer(function: impl FnOnce(*mut *mut koshi_error) -> koshi_status) -> (koshi_status, String) {
    let mut message = String::new();
    let mut err: *mut koshi_error = ptr::null_mut();
    let status = function(&mut err);
    assert!(DOCUMENTED.contains(&status), "status {status}");
    assert_eq!(err.is_null(), status >= 0, "status {status}");
    if !err.is_null() {
        // SAFETY: the object of a failed call; its text lives until it is freed.
        unsafe {
            assert_eq!(koshi_error_status(err), status);
            message = CStr::from_ptr(koshi_error_message(err)).to_str().expect("UTF-8").to_string();
            assert!(!message.is_empty());
            if std::env::var_os("KOSHI_FUZZ_INPUT").is_some() {
                eprintln!("{}: {message}", std::panic::Location::caller());
            }
            assert_eq!(koshi_error_free(err), 0);
        }
    }
    (status, message)
}

/// The same, of a call that may be asked anything but is no fault of the library.
#[track_caller]
pub fn call(function: impl FnOnce(*mut *mut koshi_error) -> koshi_status) -> koshi_status {
    let (status, message) = answer(function);
    assert!(status != koshi_status_code::KOSHI_E_INTERNAL as koshi_status, "{message}");
    status
}

/// A call that makes something: written exactly if it says so.
#[track_caller]
pub fn make<T>(function: impl FnOnce(*mut *mut T, *mut *mut koshi_error) -> koshi_status) -> Option<*mut T> {
    let mark = ptr::without_provenance_mut(8);
    let mut made: *mut T = mark;
    let status = call(|err| function(&mut made, err));
    assert_eq!(made == mark, status < 0, "status {status}");
    assert!(!made.is_null(), "status {status}");
    (status >= 0).then_some(made)
}

/// A call that fills a struct of `size` bytes or less: exactly if it says so. Nothing behind it is touched.
#[track_caller]
pub fn fill<T: Copy>(
    size: usize,
    function: impl FnOnce(*mut T, usize, *mut *mut koshi_error) -> koshi_status,
) -> Option<T> {
    const MARK: u8 = 0xa5;
    let mut places = [MaybeUninit::<T>::uninit(); 2];
    let bytes = places.as_mut_ptr().cast::<u8>();
    assert!(size <= 2 * size_of::<T>());
    // SAFETY: the array's own bytes, all of which are set before they are read.
    unsafe {
        bytes.write_bytes(MARK, 2 * size_of::<T>());
        let status = call(|err| function(places.as_mut_ptr().cast(), size, err));
        let bytes = std::slice::from_raw_parts(bytes, 2 * size_of::<T>());
        let touched = bytes.iter().rposition(|byte| *byte != MARK).map_or(0, |last| last + 1);
        assert!(touched <= if status < 0 { 0 } else { size }, "status {status}: {touched} bytes of {size} are touched");
        (status >= 0 && size >= size_of::<T>()).then(|| places[0].assume_init())
    }
}

/// The only one who makes handles, and those that there were before: in the end there are no others.
pub struct Alone {
    _alone: MutexGuard<'static, ()>,
    before: Vec<(&'static str, usize)>,
}

impl Alone {
    pub fn new() -> Alone {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        graph();
        Alone { _alone: alone, before: live_handles() }
    }

    #[track_caller]
    pub fn end(self) {
        let mut left = live_handles();
        left.retain(|handle| !self.before.contains(handle));
        assert!(left.is_empty(), "handles are left: {left:x?}");
    }
}

/// Whether a handle is one of this type.
pub fn is_live(name: &'static str, handle: usize) -> bool {
    live_handles().contains(&(name, handle))
}

/// The bytes of a script, 0 past their end.
pub struct Bytes<'a>(pub &'a [u8]);

impl Bytes<'_> {
    pub fn next(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// Takes steps until the bytes are used up, no more than so many.
    pub fn steps(&mut self, most: usize, mut step: impl FnMut(&mut Bytes)) {
        for _ in 0..most {
            if self.0.is_empty() {
                break;
            }
            step(self);
        }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.next()) % bound
    }

    pub fn next_bit(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// Mostly the first, which is the right one.
    pub fn mostly<T: Copy>(&mut self, right: T, wrong: &[T]) -> T {
        match self.next() {
            0..224 => right,
            byte => wrong[usize::from(byte) % wrong.len()],
        }
    }
}

/// Any handle: one of `handles`, one of its bits changed, wild, none.
pub fn wrong(handles: &[usize], bytes: &mut Bytes) -> usize {
    const WILD: [usize; 8] = [0, 1, 8, usize::MAX, 1 << 63, 0x7fff_0000_0000, 1 << 56, 7 << 56];
    match bytes.next() {
        byte if byte < 16 || handles.is_empty() => WILD[usize::from(byte % 8)],
        byte @ 0..64 => handles[usize::from(byte) % handles.len()] ^ (1 << (bytes.next() % 64)),
        byte => handles[usize::from(byte) % handles.len()],
    }
}

/// Frees what lives.
#[track_caller]
pub fn free<T>(free: unsafe extern "C" fn(*mut T) -> koshi_status, handle: *mut T) {
    // SAFETY: handles may be anything.
    assert_eq!(unsafe { free(handle) }, 0);
}

/// Frees what a call made, if it did.
#[track_caller]
pub fn free_made<T>(function: unsafe extern "C" fn(*mut T) -> koshi_status, made: Option<*mut T>) {
    free(function, made.unwrap_or(ptr::null_mut()));
}

/// Epsilon arcs, ties and costs below 0.
pub fn tangle() -> VecSource {
    let arc = |ilabel, olabel, weight, next| GraphArc { ilabel, olabel, weight, next };
    let states = vec![
        (f32::INFINITY, vec![arc(1, 1, 0.5, 0), arc(0, 2, 0.25, 2), arc(2, 3, 0.5, 1), arc(3, 0, 0.5, 3)]),
        (0.5, vec![arc(2, 4, 0.25, 1), arc(0, 5, -0.25, 3), arc(3, 1, 0.0, 0)]),
        (f32::INFINITY, vec![arc(3, 2, 0.5, 1), arc(0, 0, 0.5, 1), arc(1, 6, 0.75, 2)]),
        (0.0, vec![arc(1, 1, 0.25, 0), arc(2, 2, 0.25, 2), arc(3, 3, 0.5, 3)]),
    ];
    VecSource { start: Some(0), states }
}

/// The graph of all calls.
pub fn graph() -> *mut koshi_graph {
    static GRAPH: OnceLock<usize> = OnceLock::new();
    let made = GRAPH.get_or_init(|| {
        let mut output = Output::memory();
        tangle().write(&mut output, true).expect("writing to memory");
        let bytes = output.into_bytes();
        // SAFETY: an array with its length, a place for the result.
        let made =
            make(|out, err| unsafe { koshi_graph_from_memory(bytes.as_ptr(), bytes.len(), ptr::null(), out, err) });
        made.expect("a good graph") as usize
    });
    *made as *mut koshi_graph
}

/// Few threads and lanes, on the CPU.
pub fn config() -> koshi_decoder_config {
    let mut config = MaybeUninit::<koshi_decoder_config>::zeroed();
    let size = size_of::<koshi_decoder_config>();
    // SAFETY: room for the struct, which is plain numbers.
    let mut config = unsafe {
        assert_eq!(call(|err| koshi_decoder_config_init(config.as_mut_ptr(), size, err)), 0);
        config.assume_init()
    };
    config.backend = koshi_backend::KOSHI_BACKEND_CPU as i32;
    (config.num_lanes, config.num_threads) = (1, 1);
    config
}

/// What is in the status of an item before the call.
pub const UNTOLD: koshi_status = 12345;

/// Rows of the pool for a channel, as an item of a batch.
pub fn item(channel: *mut koshi_channel, rows: &[f32]) -> koshi_decoder_item {
    let (frames, rows) = (rows.len() / DIM, rows.as_ptr());
    koshi_decoder_item { channel, rows, frames, dim: DIM, stride: DIM, status: UNTOLD, reserved: 0 }
}

/// Rows of the pool, one after the other.
pub fn rows(numbers: &[usize]) -> Vec<f32> {
    numbers.iter().copied().flat_map(row).collect()
}

/// A row of the pool.
pub fn row(number: usize) -> [f32; DIM] {
    match number.checked_sub(GOOD_ROWS) {
        None => std::array::from_fn(|column| -((number * 7 + column * 5 + number * column) as f32 % 24.0) * 0.25),
        Some(0) => [-1.0, -1.0, f32::NAN, -1.0],
        Some(1) => [f32::INFINITY, -1.0, -1.0, -1.0],
        Some(_) => [f32::NEG_INFINITY, f32::NEG_INFINITY, f32::NEG_INFINITY, 0.0],
    }
}
