//! How one object stands in a table.

use super::basic::describe_byte;
use super::input::{Input, is_space};
use super::output::Output;
use crate::error::{Error, Result, try_push};

/// Reads and writes objects of one type as the entries of a table, or alone in a file.
pub trait Holder {
    /// The object.
    type Value;

    /// Reads one object, from right after the key and its space. Binary objects begin with the header `\0B`
    /// ([`Input::binary_header`]), without which it is text; text forms end with their line.
    fn read(input: &mut Input) -> Result<Self::Value>;

    /// Writes one object, header included ([`Output::write_header`]).
    fn write(output: &mut Output, value: &Self::Value, binary: bool) -> Result<()>;

    /// The part of an object that a script's range (`file[0:9,3:5]`) names; only some types have parts.
    fn range(value: &Self::Value, range: &str) -> Result<Self::Value> {
        let _ = value;
        Err(Error::Unsupported(format!("[{range}]: objects of this type have no ranges")))
    }
}

/// Reads the one object of a file, given by its rxfilename.
pub fn read_file<H: Holder>(rxfilename: &str) -> Result<H::Value> {
    let mut input = Input::open(rxfilename)?;
    let value = H::read(&mut input)?;
    input.close()?;
    Ok(value)
}

/// Writes one object to a file, given by its wxfilename.
pub fn write_file<H: Holder>(wxfilename: &str, value: &H::Value, binary: bool) -> Result<()> {
    let mut output = Output::create(wxfilename)?;
    H::write(&mut output, value, binary)?;
    output.close()
}

/// Passes over white space up to the end of the line, and over that; anything else there is an error.
pub(super) fn end_of_line(input: &mut Input) -> Result<()> {
    skip_blanks(input)?;
    input.expect_byte(b'\n')
}

/// Passes over white space within the line.
pub(super) fn skip_blanks(input: &mut Input) -> Result<()> {
    while let Some(byte) = input.peek()?.filter(|&b| is_space(b) && b != b'\n') {
        input.take(byte);
    }
    Ok(())
}

/// A type that Kaldi calls basic: stored as a number or a letter.
pub trait Basic: Copy {
    /// Reads one value.
    fn read(input: &mut Input, binary: bool) -> Result<Self>;
    /// Writes one value.
    fn write(self, output: &mut Output, binary: bool) -> Result<()>;
}

macro_rules! basic {
    ($($type:ty, $read:ident, $write:ident;)*) => {$(
        impl Basic for $type {
            fn read(input: &mut Input, binary: bool) -> Result<Self> {
                input.$read(binary)
            }
            fn write(self, output: &mut Output, binary: bool) -> Result<()> {
                output.$write(binary, self)
            }
        }
    )*};
}

basic! {
    i32, read_i32, write_i32;
    u32, read_u32, write_u32;
    i64, read_i64, write_i64;
    u64, read_u64, write_u64;
    f32, read_f32, write_f32;
    f64, read_f64, write_f64;
    bool, read_bool, write_bool;
}

/// One number or `bool`; in text alone on its line.
pub struct BasicHolder<T>(std::marker::PhantomData<T>);

impl<T: Basic> Holder for BasicHolder<T> {
    type Value = T;

    fn read(input: &mut Input) -> Result<T> {
        if input.binary_header()? {
            return T::read(input, true);
        }
        skip_blanks(input)?;
        if input.peek()? == Some(b'\n') {
            return Err(input.text_error("expected a value, found the end of the line"));
        }
        let value = T::read(input, false)?;
        end_of_line(input)?;
        Ok(value)
    }

    fn write(output: &mut Output, value: &T, binary: bool) -> Result<()> {
        output.write_header(binary)?;
        value.write(output, binary)?;
        if binary { Ok(()) } else { output.write_text("\n") }
    }
}

/// A list of numbers (transcriptions and alignments are such); in text one line.
pub struct BasicVectorHolder<T>(std::marker::PhantomData<T>);

/// A list of `int32`.
pub type Int32VectorHolder = BasicVectorHolder<i32>;

impl<T: Basic> Holder for BasicVectorHolder<T> {
    type Value = Vec<T>;

    fn read(input: &mut Input) -> Result<Vec<T>> {
        if input.binary_header()? {
            return read_counted(input);
        }
        let mut values = Vec::new();
        loop {
            skip_blanks(input)?;
            match input.peek()? {
                Some(b'\n') => break input.take(b'\n'),
                // A file may lack its last line end, but there must be a line.
                None if !values.is_empty() => break,
                None => return Err(input.text_error("expected a line, found the end of the data")),
                Some(_) => try_push(&mut values, T::read(input, false)?, "list")?,
            }
        }
        Ok(values)
    }

    fn write(output: &mut Output, values: &Vec<T>, binary: bool) -> Result<()> {
        output.write_header(binary)?;
        if binary {
            return write_counted(output, values);
        }
        for value in values {
            value.write(output, false)?;
        }
        output.write_text("\n")
    }
}

/// A list of lists of numbers; in text one line, each list ended by a semicolon.
pub struct BasicVectorVectorHolder<T>(std::marker::PhantomData<T>);

impl<T: Basic> Holder for BasicVectorVectorHolder<T> {
    type Value = Vec<Vec<T>>;

    fn read(input: &mut Input) -> Result<Vec<Vec<T>>> {
        let mut lists = Vec::new();
        if input.binary_header()? {
            for _ in 0..read_count(input)? {
                try_push(&mut lists, read_counted(input)?, "list of lists")?;
            }
            return Ok(lists);
        }
        let mut list = Vec::new();
        loop {
            skip_blanks(input)?;
            match input.peek()? {
                Some(b';') => {
                    input.take(b';');
                    try_push(&mut lists, std::mem::take(&mut list), "list of lists")?;
                }
                end @ (Some(b'\n') | None) if !list.is_empty() => {
                    return Err(input.text_error(format!("expected ';', found {}", describe_byte(end))));
                }
                Some(b'\n') => break input.take(b'\n'),
                None => return Err(input.text_error("expected a line end, found the end of the data")),
                Some(_) => try_push(&mut list, T::read(input, false)?, "list")?,
            }
        }
        Ok(lists)
    }

    fn write(output: &mut Output, lists: &Vec<Vec<T>>, binary: bool) -> Result<()> {
        output.write_header(binary)?;
        if binary {
            write_count(output, lists.len())?;
            return lists.iter().try_for_each(|list| write_counted(output, list));
        }
        for list in lists {
            for value in list {
                value.write(output, false)?;
            }
            output.write_text("; ")?;
        }
        output.write_text("\n")
    }
}

fn read_count(input: &mut Input) -> Result<i32> {
    let start = input.offset();
    match input.read_i32(true)? {
        count @ 0.. => Ok(count),
        count => Err(input.format_error_at(start, format!("the number of elements is {count}"))),
    }
}

/// The elements come one by one, so a lying count ends with the data.
fn read_counted<T: Basic>(input: &mut Input) -> Result<Vec<T>> {
    let mut values = Vec::new();
    for _ in 0..read_count(input)? {
        try_push(&mut values, T::read(input, true)?, "list")?;
    }
    Ok(values)
}

fn write_count(output: &mut Output, count: usize) -> Result<()> {
    let count = i32::try_from(count)
        .map_err(|_| Error::Unsupported(format!("a list of {count} elements is too long for the format")))?;
    output.write_i32(true, count)
}

fn write_counted<T: Basic>(output: &mut Output, values: &[T]) -> Result<()> {
    write_count(output, values.len())?;
    values.iter().try_for_each(|value| value.write(output, true))
}

/// One word, always in text and alone on its line.
pub struct TokenHolder;

impl Holder for TokenHolder {
    type Value = String;

    fn read(input: &mut Input) -> Result<String> {
        skip_blanks(input)?;
        let word = input.read_word()?;
        if word.is_empty() {
            return Err(input.text_error("expected a word, found the end of the line"));
        }
        end_of_line(input)?;
        Ok(word)
    }

    fn write(output: &mut Output, value: &String, _binary: bool) -> Result<()> {
        check_word(value)?;
        output.write_text(value)?;
        output.write_text("\n")
    }
}

/// Words separated by spaces, always in text, on one line.
pub struct TokenVectorHolder;

impl Holder for TokenVectorHolder {
    type Value = Vec<String>;

    fn read(input: &mut Input) -> Result<Vec<String>> {
        let Some(line) = input.read_line()? else {
            return Err(input.text_error("expected a line, found the end of the data"));
        };
        let mut words = Vec::new();
        // What is white space in C: the vertical tab too.
        let spaces = |letter: char| u8::try_from(letter).is_ok_and(is_space);
        for word in line.split(spaces).filter(|word| !word.is_empty()) {
            try_push(&mut words, word.to_string(), "list of words")?;
        }
        Ok(words)
    }

    fn write(output: &mut Output, words: &Vec<String>, _binary: bool) -> Result<()> {
        for word in words {
            check_word(word)?;
            output.write_text(word)?;
            output.write_text(" ")?;
        }
        output.write_text("\n")
    }
}

/// Keys and words of tables are not empty and have neither white space nor control characters.
pub(super) fn check_word(word: &str) -> Result<()> {
    if word.is_empty() || word.bytes().any(|b| is_space(b) || b.is_ascii_control()) {
        return Err(Error::Argument(format!("{word:?} cannot be a key or word of a table")));
    }
    Ok(())
}
