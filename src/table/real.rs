//! The two floating-point types of Kaldi's matrices and vectors.

use std::fmt::Debug;

use super::input::Input;
use crate::error::Result;

/// `f32` or `f64`, as elements of matrices and vectors.
pub trait Real: Copy + Default + PartialEq + Debug + Send + Sync + 'static + private::Sealed {
    /// Token of a matrix of this type.
    const MATRIX: &'static str;
    /// Token of a vector of this type.
    const VECTOR: &'static str;

    /// Takes `count` bare values of this type, with the care of [`Input::read_values`].
    fn read_bare(input: &mut Input, count: u64, what: &str) -> Result<Vec<Self>>;
    /// Takes one value in text.
    fn read_text(input: &mut Input) -> Result<Self>;
    /// Appends the value's bytes.
    fn append_to(self, bytes: &mut Vec<u8>);
    /// The value as a `double`.
    fn to_f64(self) -> f64;
    /// The nearest value of this type.
    fn from_f64(value: f64) -> Self;
    /// Floats as values of this type.
    fn from_floats(floats: Vec<f32>) -> Vec<Self>;
}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

macro_rules! real {
    ($type:ty, $matrix:literal, $vector:literal, $read_text:ident, $from_floats:expr) => {
        impl Real for $type {
            const MATRIX: &'static str = $matrix;
            const VECTOR: &'static str = $vector;

            fn read_bare(input: &mut Input, count: u64, what: &str) -> Result<Vec<Self>> {
                input.read_values(count, what, <$type>::from_le_bytes)
            }
            fn read_text(input: &mut Input) -> Result<Self> {
                input.$read_text(false)
            }
            fn append_to(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn from_f64(value: f64) -> Self {
                value as $type
            }
            fn from_floats(floats: Vec<f32>) -> Vec<Self> {
                $from_floats(floats)
            }
        }
    };
}

real!(f32, "FM", "FV", read_f32, std::convert::identity);
real!(f64, "DM", "DV", read_f64, |floats: Vec<f32>| floats.into_iter().map(f64::from).collect());

/// Takes `count` bare values stored as `S` and gives them as `T`.
pub(super) fn read_as<S: Real, T: Real>(input: &mut Input, count: u64, what: &str) -> Result<Vec<T>> {
    const STEP: u64 = 1 << 13;
    if S::MATRIX == T::MATRIX {
        return T::read_bare(input, count, what);
    }
    let mut values = Vec::new();
    let mut left = count;
    while left > 0 {
        let step = left.min(STEP);
        let stored = S::read_bare(input, step, what)?;
        crate::error::try_reserve(&mut values, stored.len(), what)?;
        values.extend(stored.iter().map(|&value| T::from_f64(value.to_f64())));
        left -= step;
    }
    Ok(values)
}
