//! Examples as entries of tables.

use super::{DiscriminativeNnetExample, NnetExample};
use crate::error::Result;
use crate::table::{Holder, Input, Output};

/// Examples for cross-entropy training.
pub struct NnetExampleHolder;

/// Examples for discriminative training.
pub struct DiscriminativeNnetExampleHolder;

macro_rules! holder {
    ($holder:ty, $example:ty) => {
        impl Holder for $holder {
            type Value = $example;

            fn read(input: &mut Input) -> Result<$example> {
                let binary = input.binary_header()?;
                <$example>::read(input, binary)
            }

            fn write(output: &mut Output, value: &$example, binary: bool) -> Result<()> {
                output.write_header(binary)?;
                value.write(output, binary)
            }
        }
    };
}

holder!(NnetExampleHolder, NnetExample);
holder!(DiscriminativeNnetExampleHolder, DiscriminativeNnetExample);
