//! Vectors of floats.

use super::basic::{describe_byte, printable};
use super::holder::Holder;
use super::input::{Input, is_space};
use super::matrix::{end_of_object, write_values};
use super::output::Output;
use super::real::{Real, read_as};
use crate::error::{Error, Result, try_reserve};

/// Reads a vector: in binary `FV` or `DV`, either as either type, in text `[ 1 2 3 ]` on one line.
pub fn read_vector<T: Real>(input: &mut Input, binary: bool) -> Result<Vec<T>> {
    if !binary {
        return read_text(input);
    }
    let start = input.offset();
    let token = input.token(true)?;
    let read = match token.as_str() {
        "FV" => read_as::<f32, T>,
        "DV" => read_as::<f64, T>,
        _ => {
            let message = format!("expected a vector (FV or DV), found {}", printable(&token));
            return Err(input.format_error_at(start, message));
        }
    };
    let start = input.offset();
    let count = input.read_i32(true)?;
    let count = u64::try_from(count)
        .map_err(|_| input.format_error_at(start, format!("a vector cannot have {count} elements")))?;
    read(input, count, "vector")
}

/// Writes a vector as `FV` or `DV`, or in text with seven significant digits.
pub fn write_vector<T: Real>(output: &mut Output, values: &[T], binary: bool) -> Result<()> {
    if binary {
        let count = i32::try_from(values.len()).map_err(|_| {
            Error::Unsupported(format!("a vector of {} elements is too long for the format", values.len()))
        })?;
        output.write_token(T::VECTOR)?;
        output.write_i32(true, count)?;
        return write_values(output, values);
    }
    output.write_text(" [ ")?;
    for value in values {
        output.write_text_number(value.to_f64())?;
    }
    output.write_text("]\n")
}

fn read_text<T: Real>(input: &mut Input) -> Result<Vec<T>> {
    input.skip_space()?;
    input.expect_byte(b'[')?;
    let mut values = Vec::new();
    loop {
        match input.peek()? {
            Some(b']') => break input.take(b']'),
            // A matrix where a vector should be would else be read as a vector of all its elements.
            Some(b'\n' | b'\r') => return Err(input.text_error("a line end within a vector")),
            Some(byte) if is_space(byte) => input.take(byte),
            Some(_) => {
                let value = T::read_text(input)?;
                try_reserve(&mut values, 1, "vector")?;
                values.push(value);
            }
            None => return Err(input.text_error(format!("expected a number or ']', found {}", describe_byte(None)))),
        }
    }
    end_of_object(input)?;
    Ok(values)
}

/// Vectors as entries of tables.
pub struct VectorHolder<T = f32>(std::marker::PhantomData<T>);

impl<T: Real> Holder for VectorHolder<T> {
    type Value = Vec<T>;

    fn read(input: &mut Input) -> Result<Vec<T>> {
        let binary = input.binary_header()?;
        read_vector(input, binary)
    }

    fn write(output: &mut Output, value: &Vec<T>, binary: bool) -> Result<()> {
        output.write_header(binary)?;
        write_vector(output, value, binary)
    }
}
