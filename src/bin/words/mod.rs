//! The parts of the commands that make words of lattices.
#![allow(dead_code)] // each command uses its own part

pub mod align;
pub mod ctm;
pub mod sausage;
pub mod times;
