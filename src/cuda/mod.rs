//! Lanes on a GPU. Only this room names `cudarc`.

mod probe;

pub use probe::{DeviceInfo, devices};
