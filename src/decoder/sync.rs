//! The lock and the signal of queues, by one name: `tests/decoder_queue_model.rs` puts others in their
//! place, under which every order of threads can be tried.

pub use crate::sync::{Condvar, Mutex, MutexGuard};
