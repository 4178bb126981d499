//! Tests of the table room; what needs whole programs or files is in `tests/table*.rs`.

mod bytes;
