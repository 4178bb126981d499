//! Arrays of numbers in as few bytes as they need.

use std::borrow::Cow;
use std::ops::Range;

use super::array::Array;
use super::labels::zeros;
use crate::error::{Result, try_reserve};

/// Numbers below 2^32, all in as many bytes.
#[derive(Debug)]
pub enum Narrow {
    /// All are 0, and how many there are is not kept.
    None,
    /// In 8 bits.
    Byte(Array<u8>),
    /// In 16 bits.
    Short(Array<u16>),
    /// In 32 bits.
    Long(Array<u32>),
}

impl Narrow {
    /// `len` numbers that are 0, in `width` bytes each: 0, 1, 2 or 4.
    pub fn zeros(len: usize, width: u32, what: &str) -> Result<Narrow> {
        Ok(match width {
            0 => Narrow::None,
            1 => Narrow::Byte(zeros(len, what)?),
            2 => Narrow::Short(zeros(len, what)?),
            _ => Narrow::Long(zeros(len, what)?),
        })
    }

    /// The number at `place`.
    pub fn get(&self, place: usize) -> u32 {
        match self {
            Narrow::None => 0,
            Narrow::Byte(numbers) => u32::from(numbers[place]),
            Narrow::Short(numbers) => u32::from(numbers[place]),
            Narrow::Long(numbers) => numbers[place],
        }
    }

    /// `count` numbers from `first` on, to set them.
    #[inline(always)]
    pub fn slice(&mut self, first: usize, count: usize) -> NarrowSlice<'_> {
        let range = first..first + count;
        match self {
            Narrow::None => NarrowSlice::None,
            Narrow::Byte(numbers) => NarrowSlice::Byte(&mut numbers.own()[range]),
            Narrow::Short(numbers) => NarrowSlice::Short(&mut numbers.own()[range]),
            Narrow::Long(numbers) => NarrowSlice::Long(&mut numbers.own()[range]),
        }
    }

    /// Bytes of a number.
    pub fn width(&self) -> u32 {
        match self {
            Narrow::None => 0,
            Narrow::Byte(_) => 1,
            Narrow::Short(_) => 2,
            Narrow::Long(_) => 4,
        }
    }

    /// How many there are; 0 for [`Narrow::None`].
    pub fn len(&self) -> usize {
        match self {
            Narrow::None => 0,
            Narrow::Byte(numbers) => numbers.len(),
            Narrow::Short(numbers) => numbers.len(),
            Narrow::Long(numbers) => numbers.len(),
        }
    }

    /// The memory of those at `places`; nothing where they are not all there.
    pub fn bytes(&self, places: Range<usize>) -> &[u8] {
        match self {
            Narrow::None => &[],
            Narrow::Byte(numbers) => numbers.get(places).unwrap_or(&[]),
            Narrow::Short(numbers) => numbers.get(places).map_or(&[], bytemuck::cast_slice),
            Narrow::Long(numbers) => numbers.get(places).map_or(&[], bytemuck::cast_slice),
        }
    }

    /// The memory of them all.
    pub fn all_bytes(&self) -> &[u8] {
        self.bytes(0..self.len())
    }

    /// All of them in 32 bits.
    pub fn to_u32(&self, what: &str) -> Result<Cow<'_, [u32]>> {
        if let Narrow::Long(numbers) = self {
            return Ok(Cow::Borrowed(numbers));
        }
        let mut long = Vec::new();
        try_reserve(&mut long, self.len(), what)?;
        long.extend((0..self.len()).map(|place| self.get(place)));
        Ok(Cow::Owned(long))
    }
}

/// Some of the numbers of a [`Narrow`].
pub enum NarrowSlice<'a> {
    /// All are 0.
    None,
    /// In 8 bits.
    Byte(&'a mut [u8]),
    /// In 16 bits.
    Short(&'a mut [u16]),
    /// In 32 bits.
    Long(&'a mut [u32]),
}

impl NarrowSlice<'_> {
    /// Makes the number at `place` that which `table` has at `index`. It has to fit, and is not looked up where all are 0.
    #[inline(always)]
    pub fn set(&mut self, place: usize, table: &[u32], index: usize) {
        match self {
            NarrowSlice::None => {}
            NarrowSlice::Byte(numbers) => numbers[place] = table[index] as u8,
            NarrowSlice::Short(numbers) => numbers[place] = table[index] as u16,
            NarrowSlice::Long(numbers) => numbers[place] = table[index],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_that_were_set() {
        for (width, largest) in [(1, 0xff), (2, 0xffff), (4, u32::MAX)] {
            let table = [largest, 7, largest - 1, 1];
            let mut numbers = Narrow::zeros(9, width, "test").unwrap();
            let mut slice = numbers.slice(3, 5);
            (0..4).for_each(|at| slice.set(at, &table, at));
            let set = [0, 0, 0, largest, 7, largest - 1, 1, 0, 0];
            assert_eq!((0..9).map(|at| numbers.get(at)).collect::<Vec<_>>(), set);
            assert_eq!(&*numbers.to_u32("test").unwrap(), set);
            assert_eq!((numbers.width(), numbers.len(), numbers.all_bytes().len()), (width, 9, 9 * width as usize));
            assert_eq!(numbers.bytes(4..5)[0], 7);
            assert!(numbers.bytes(4..10).is_empty());
        }
        let mut none = Narrow::zeros(9, 0, "test").unwrap();
        none.slice(3, 5).set(1, &[], 4);
        assert_eq!((none.get(8), none.width(), none.len(), none.all_bytes().len()), (0, 0, 0, 0));
    }
}
