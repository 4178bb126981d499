//! Tables of pairs of numbers, which times of words are given in.

use koshi::table::{Holder, Input, Output};
use koshi::{Error, Result};

/// Pairs of binary32: in binary a count and the pairs, in text a line `a b ; c d`.
pub struct TimesHolder;

impl Holder for TimesHolder {
    type Value = Vec<(f32, f32)>;

    fn read(input: &mut Input) -> Result<Self::Value> {
        let mut pairs = Vec::new();
        let mut add = |pair| {
            pairs.try_reserve(1).map_err(|_| Error::NoMemory { what: "times of words".into(), asked: 8 })?;
            pairs.push(pair);
            Ok::<(), Error>(())
        };
        if input.binary_header()? {
            let start = input.offset();
            let count = input.read_i32(true)?;
            if count < 0 {
                return Err(input.format_error_at(start, format!("{count} pairs")));
            }
            for _ in 0..count {
                add((input.read_f32(true)?, input.read_f32(true)?))?;
            }
            return Ok(pairs);
        }
        let start = input.offset();
        let line = input.read_line()?.unwrap_or_default();
        for pair in line.split(';').filter(|pair| !pair.trim().is_empty()) {
            let mut numbers = pair.split_whitespace().map(str::parse::<f32>);
            match (numbers.next(), numbers.next(), numbers.next()) {
                (Some(Ok(first)), Some(Ok(second)), None) => add((first, second))?,
                _ => return Err(input.format_error_at(start, "expected pairs of numbers with ; between them")),
            }
        }
        Ok(pairs)
    }

    fn write(output: &mut Output, pairs: &Self::Value, binary: bool) -> Result<()> {
        output.write_header(binary)?;
        if binary {
            let count = i32::try_from(pairs.len());
            output.write_i32(true, count.map_err(|_| Error::Unsupported("too many pairs for the format".into()))?)?;
        }
        for (at, &(first, second)) in pairs.iter().enumerate() {
            if !binary && at > 0 {
                output.write_text("; ")?;
            }
            output.write_f32(binary, first)?;
            output.write_f32(binary, second)?;
        }
        if binary { Ok(()) } else { output.write_text("\n") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<(f32, f32)>> {
        TimesHolder::read(&mut Input::from_bytes("times", bytes))
    }

    #[test]
    fn text_and_binary() {
        assert_eq!(read(b"1 2 ; 3.5 4\n").unwrap(), [(1.0, 2.0), (3.5, 4.0)]);
        assert_eq!(read(b"1 2 ; \n").unwrap(), [(1.0, 2.0)]);
        assert_eq!(read(b"\n").unwrap(), []);
        let mut bytes = b"\0B\x04\x01\x00\x00\x00".to_vec();
        for number in [7.0f32, 8.5] {
            bytes.push(4);
            bytes.extend(number.to_le_bytes());
        }
        assert_eq!(read(&bytes).unwrap(), [(7.0, 8.5)]);
        for bad in [&b"1 2 3\n"[..], b"1\n", b"1 x ; 2 3\n", b"\0B\x04\xff\xff\xff\xff", b"\0B\x04\xff\xff\xff\x7f"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
