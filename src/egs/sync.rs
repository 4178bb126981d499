//! The lock and the signal of the repository, by one name: `tests/egs_repository_model.rs` puts others in their place,
//! under which every order of its threads can be tried.

pub use crate::sync::{Condvar, Mutex, MutexGuard};
