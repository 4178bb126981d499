//! The software CUDA device through cudarc, for one test at a time.

use std::sync::{Arc, MutexGuard};

use cudarc::driver::{
    CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DeviceRepr, DriverError, LaunchConfig, PushKernelArg,
};

use crate::common::soft::{self, Soft};

/// A device with a context and a stream, and nothing left over from the test before.
pub struct Device {
    pub soft: &'static Soft,
    pub context: Arc<CudaContext>,
    pub stream: Arc<CudaStream>,
    _alone: MutexGuard<'static, ()>,
}

/// The device with these settings changed from the usual ones.
pub fn device(settings: &str) -> Device {
    let (alone, soft) = soft::alone("source=");
    soft.configure(settings);
    let context = CudaContext::new(0).unwrap();
    // SAFETY: tests order their streams themselves.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    Device { soft, context, stream, _alone: alone }
}

#[allow(dead_code)] // each test file uses its own part
impl Device {
    /// Compiles and loads a file of kernels.
    pub fn module(&self, file: &str) -> Arc<CudaModule> {
        let ptx = cudarc::nvrtc::compile_ptx(soft::source(file)).unwrap_or_else(|error| panic!("{error:?}"));
        self.context.load_module(ptx).unwrap()
    }

    pub fn put<T: DeviceRepr>(&self, values: &[T]) -> CudaSlice<T> {
        self.stream.clone_htod(values).unwrap()
    }

    pub fn get<T: DeviceRepr>(&self, cells: &CudaSlice<T>) -> Vec<T> {
        self.stream.clone_dtoh(cells).unwrap()
    }

    /// Runs a kernel from one array to another and waits for it.
    pub fn run(
        &self,
        kernel: &CudaFunction,
        blocks: u32,
        threads: u32,
        input: &CudaSlice<u32>,
        output: &mut CudaSlice<u32>,
    ) -> Result<(), DriverError> {
        let mut launch = self.stream.launch_builder(kernel);
        launch.arg(input).arg(output);
        // SAFETY: the kernel's parameters are these two; what it does with them is what tests look at.
        unsafe { launch.launch(shape(blocks, threads, 0)) }?;
        self.stream.synchronize()
    }
}

/// A one-dimensional launch.
pub fn shape(blocks: u32, threads: u32, shared: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: shared }
}

/// Numbers that do not repeat for long.
pub fn numbers(count: usize) -> Vec<u32> {
    (0..count as u64).map(|at| ((at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32).collect()
}

/// Round-robin, reverse and ten seeds.
pub fn schedules() -> Vec<String> {
    let fixed = ["schedule=rr", "schedule=reverse"].map(str::to_string);
    fixed.into_iter().chain((0..10).map(|seed| format!("schedule=random:{seed}"))).collect()
}
