//! The calls of `chain_script` with their matrices: good ones, or with one thing wrong. What fails must not have written
//! anything; what succeeds must have written finite numbers, and those into its matrix alone.

use std::ptr;

use koshi::ffi::*;

use super::face::{Bytes, call, fill};

/// What is in results that nobody wrote.
const MARK: f64 = -777.25;

/// What is wrong with a call, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    None,
    /// A row too many, or this many.
    Rows(usize),
    Cols(usize),
    Narrow,
    NoOutput,
    Misplaced,
    Overlapping,
}

pub const FLAWS: [Flaw; 9] = [
    Flaw::Rows(1),
    Flaw::Rows(usize::MAX),
    Flaw::Rows(usize::MAX / 2),
    Flaw::Cols(1),
    Flaw::Cols(usize::MAX),
    Flaw::Narrow,
    Flaw::NoOutput,
    Flaw::Misplaced,
    Flaw::Overlapping,
];

/// A matrix with room for a row and a column more.
#[derive(Clone)]
pub struct Wide {
    data: Vec<f32>,
    pub rows: usize,
    pub cols: usize,
    pub stride: usize,
}

impl Wide {
    /// Mostly small numbers; beside the matrix lies what must not be read.
    pub fn new(rows: usize, cols: usize, stride: usize, bytes: &mut Bytes) -> Wide {
        const ODD: [f32; 6] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30, 40.0];
        let is_odd = bytes.next() >= 192;
        let mut wide = Wide::filled(rows, cols, stride, f32::NAN);
        let mut state = u32::from(bytes.next());
        for row in 0..rows {
            for col in 0..cols {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let odd = is_odd && state >> 24 >= 240;
                let odd = odd.then(|| ODD[(state >> 8) as usize % ODD.len()]);
                wide.data[row * stride + col] = odd.unwrap_or((state >> 20) as f32 / 1024.0 - 2.0);
            }
        }
        wide
    }

    fn filled(rows: usize, cols: usize, stride: usize, value: f32) -> Wide {
        Wide { data: vec![value; (rows + 1) * (stride + 1) + 1], rows, cols, stride }
    }

    fn is_inside(&self, at: usize) -> bool {
        at / self.stride < self.rows && at % self.stride < self.cols
    }

    /// The numbers, and that nothing is written beside them, or at all.
    fn written(self, may_be: bool) -> Vec<u32> {
        for (at, value) in self.data.iter().enumerate() {
            let is_kept = f64::from(*value) == MARK;
            assert!(is_kept || may_be && self.is_inside(at) && value.is_finite(), "{value} at {at}");
        }
        self.data.iter().map(|value| value.to_bits()).collect()
    }
}

/// What a call answered and wrote, as bits.
#[derive(Debug, PartialEq)]
pub struct Answer {
    pub status: koshi_status,
    pub numbers: [u64; 3],
    derivatives: [Option<Vec<u32>>; 2],
}

/// Sizes, strides and pointers of a call.
struct Call {
    output: *const f32,
    rows: usize,
    cols: usize,
    stride: usize,
    places: [Option<Wide>; 2],
    pointers: [*mut f32; 2],
    strides: [usize; 2],
    numbers: [f64; 3],
}

impl Call {
    fn new(output: &Wide, flaw: Flaw, wanted: u8) -> Call {
        let Wide { rows, cols, stride, .. } = *output;
        let data = output.data.as_ptr();
        let place = |at: usize| {
            (wanted >> at & 1 == 1).then(|| Wide::filled(rows, cols, cols + at + usize::from(wanted >> 6), MARK as f32))
        };
        let mut places = [place(0), place(1)];
        let pointers = places.each_mut().map(|place| place.as_mut().map_or(ptr::null_mut(), |p| p.data.as_mut_ptr()));
        let strides = places.each_ref().map(|place| place.as_ref().map_or(cols, |place| place.stride));
        let mut call = Call { output: data, rows, cols, stride, places, pointers, strides, numbers: [MARK; 3] };
        match flaw {
            Flaw::None => {}
            Flaw::Rows(rows) => call.rows = if rows == 1 { call.rows + 1 } else { rows },
            Flaw::Cols(cols) => call.cols = if cols == 1 { call.cols + 1 } else { cols },
            Flaw::Narrow => call.stride = cols - 1,
            Flaw::NoOutput => call.output = ptr::null(),
            Flaw::Misplaced => call.output = data.wrapping_byte_add(1),
            Flaw::Overlapping => (call.pointers[0], call.strides[0]) = (data.cast_mut(), stride),
        }
        call
    }

    fn answer(self, status: koshi_status) -> Answer {
        assert!(self.numbers.iter().all(|number| if status < 0 { *number == MARK } else { number.is_finite() }));
        // A GPU that fails may have copied a derivative before.
        let may_be = status >= 0 || status == koshi_status_code::KOSHI_E_DEVICE as koshi_status;
        let derivatives = self.places.map(|place| place.map(|place| place.written(may_be)));
        Answer { status, numbers: self.numbers.map(f64::to_bits), derivatives }
    }
}

/// A config in a room with nothing behind it.
pub struct Config([koshi_chain_config; 4]);

impl std::ops::Deref for Config {
    type Target = koshi_chain_config;
    fn deref(&self) -> &koshi_chain_config {
        &self.0[0]
    }
}

impl std::ops::DerefMut for Config {
    fn deref_mut(&mut self) -> &mut koshi_chain_config {
        &mut self.0[0]
    }
}

/// Options, seldom one that is out of its range.
pub fn config(bytes: &mut Bytes) -> Config {
    let size = size_of::<koshi_chain_config>();
    // SAFETY: room for the struct, which may be all zeros.
    let mut room = unsafe {
        let config = fill(size, |out, size, err| koshi_chain_config_init(out, size, err)).expect("the defaults");
        let nothing = std::mem::zeroed();
        Config([config, nothing, nothing, nothing])
    };
    let config = &mut room.0[0];
    let one = bytes.next();
    config.backend = koshi_backend::KOSHI_BACKEND_CPU as i32;
    config.num_threads = 1 + u32::from(one % 16 == 3);
    config.l2_regularize = f32::from(one / 3 % 3) * 0.1;
    config.leaky_hmm_coefficient = [1e-5, 0.0, 0.1][usize::from(one / 9 % 3)];
    config.randomised_penalty = u32::from(one / 27 % 2);
    config.seed = u64::from(one);
    match bytes.next() {
        255 => config.num_threads = [0, 1025, u32::MAX][bytes.below(3)],
        254 => config.l2_regularize = [f32::NAN, -1.0, 1e38][bytes.below(3)],
        253 => config.leaky_hmm_coefficient = [f32::NAN, -0.1, 1.0, 0.999_999_9][bytes.below(4)],
        252 => config.out_of_range_regularize = [f32::NAN, f32::INFINITY, 0.0, 1e38][bytes.below(4)],
        251 => config.randomised_penalty = 2,
        250 => config.struct_size = [0, 3, 63, 64, 72, 81, 160][bytes.below(7)],
        249 => config.memory = [1, 2, -1][bytes.below(3)],
        248 => config.reserved = 1,
        247 => config.backend = [3, -1][bytes.below(2)],
        _ => {}
    }
    room
}

pub fn objective(
    graph: *const koshi_den_graph,
    said: *const koshi_supervision,
    config: &Config,
    output: &Wide,
    flaw: Flaw,
    wanted: u8,
) -> Answer {
    let mut at = Call::new(output, flaw, wanted);
    let [objf, l2, weight] = &mut at.numbers;
    let ([deriv, xent], [deriv_stride, xent_stride]) = (at.pointers, at.strides);
    let (data, config) = (at.output, config.0.as_ptr());
    // SAFETY: handles may be anything; matrices of the sizes told, or sizes that are refused; places for results.
    let status = call(|err| unsafe {
        koshi_chain_objf(
            graph,
            said,
            config,
            data,
            at.rows,
            at.cols,
            at.stride,
            objf,
            l2,
            weight,
            deriv,
            deriv_stride,
            xent,
            xent_stride,
            err,
        )
    });
    at.answer(status)
}

pub fn denominator(
    graph: *const koshi_den_graph,
    config: &Config,
    sequences: usize,
    lengths: Option<&[u32]>,
    output: &Wide,
    flaw: Flaw,
    wanted: u8,
) -> Answer {
    let mut at = Call::new(output, flaw, wanted & !2);
    let (found, deriv, stride) = (&mut at.numbers[0], at.pointers[0], at.strides[0]);
    let (data, config) = (at.output, config.0.as_ptr());
    let lengths = lengths.map_or(ptr::null(), <[u32]>::as_ptr);
    // SAFETY: as above; as many lengths as sequences that are believed.
    let status = call(|err| unsafe {
        koshi_chain_denominator(
            graph, config, sequences, lengths, data, at.rows, at.cols, at.stride, found, -0.5, deriv, stride, err,
        )
    });
    at.answer(status)
}

pub fn numerator(said: *const koshi_supervision, output: &Wide, flaw: Flaw, wanted: u8) -> Answer {
    let mut at = Call::new(output, flaw, wanted & !2);
    let (found, deriv, stride) = (&mut at.numbers[0], at.pointers[0], at.strides[0]);
    // SAFETY: as above.
    let status = call(|err| unsafe {
        koshi_chain_numerator(said, at.output, at.rows, at.cols, at.stride, found, deriv, stride, err)
    });
    at.answer(status)
}

/// The penalty, which is plain arithmetic.
pub fn penalty(bytes: &mut Bytes) {
    let (rows, cols) = (1 + bytes.below(5), 1 + bytes.below(5));
    let output = Wide::new(rows, cols, cols + bytes.below(3), bytes);
    let limit = bytes.mostly(0.5, &[-1.0, f32::NAN, f32::INFINITY, 0.0]);
    let scale = bytes.mostly(0.25, &[-1.0, f32::NAN, f32::INFINITY, 0.0]);
    let flaw = match bytes.mostly(Flaw::None, &FLAWS) {
        // Any size is a good one here.
        Flaw::Rows(1) | Flaw::Cols(1) => Flaw::None,
        flaw => flaw,
    };
    let at = Call::new(&output, flaw, 1);
    let (deriv, stride) = (at.pointers[0], at.strides[0]);
    // SAFETY: as above.
    let status = call(|err| unsafe {
        koshi_chain_penalize_out_of_range(limit, scale, at.output, at.rows, at.cols, at.stride, deriv, stride, err)
    });
    let is_good = [limit, scale].iter().all(|value| *value >= 0.0 && value.is_finite());
    assert_eq!(status == 0, is_good && flaw == Flaw::None, "{flaw:?} {limit} {scale}");
    let place = at.places.into_iter().flatten().next().expect("a matrix");
    if status < 0 {
        place.written(false);
        return;
    }
    for (at, found) in place.data.iter().enumerate() {
        let value = match place.is_inside(at) {
            true => output.data[at / place.stride * output.stride + at % place.stride],
            false => 0.0,
        };
        let beyond = if value.is_finite() { value - value.clamp(-limit, limit) } else { 0.0 };
        let expected = MARK as f32 - scale * beyond;
        assert!((found - expected).abs() <= 1e-5 * expected.abs(), "{found} {expected}");
    }
}
