//! What all commands have in common: options as Kaldi reads them, messages in Kaldi's form,
//! exit codes, scales of costs, and work on several threads whose results stay in order.
#![allow(dead_code)] // each command uses its own part

pub mod behind;
pub mod costs;
pub mod exit;
pub mod in_order;
pub mod messages;
pub mod options;
pub mod words;
