//! The software CUDA device through cudarc, as the library uses it: `kernels/portable.cuh` under
//! every schedule and build, memory, streams, limits, failures.

mod common;

use std::sync::{Arc, Mutex, MutexGuard};

use common::soft::{self, Soft};
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, LaunchConfig, PushKernelArg};

/// The device with these settings and nothing left over, for one test at a time.
struct Device {
    soft: &'static Soft,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    _alone: MutexGuard<'static, ()>,
}

const USUAL: &str = "schedule=rr,lazy=0,poison=0xcb,devices=2,memory=4294967296,capability=75,shared=65536,\
                     kernels=plain,source=,refuse_binary=0";

fn device(settings: &str) -> Device {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let soft = soft::load(USUAL);
    soft.reset();
    soft.configure(settings);
    let context = CudaContext::new(0).unwrap();
    // SAFETY: this test orders its streams itself.
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream().unwrap();
    Device { soft, context, stream, _alone: alone }
}

impl Device {
    fn module(&self, file: &str) -> Arc<CudaModule> {
        let ptx = cudarc::nvrtc::compile_ptx(soft::source(file));
        self.context.load_module(ptx.unwrap_or_else(|error| panic!("{error:?}"))).unwrap()
    }

    fn kernel(&self, name: &str) -> CudaFunction {
        self.module("kernels/soft/self_test.cu").load_function(name).unwrap()
    }

    fn put<T: cudarc::driver::DeviceRepr>(&self, values: &[T]) -> CudaSlice<T> {
        self.stream.clone_htod(values).unwrap()
    }

    fn get<T: cudarc::driver::DeviceRepr>(&self, cells: &CudaSlice<T>) -> Vec<T> {
        self.stream.clone_dtoh(cells).unwrap()
    }
}

fn shape(blocks: u32, threads: u32, shared: u32) -> LaunchConfig {
    LaunchConfig { grid_dim: (blocks, 1, 1), block_dim: (threads, 1, 1), shared_mem_bytes: shared }
}

/// Numbers that do not repeat for long.
fn numbers(count: usize) -> Vec<u32> {
    (0..count as u64).map(|at| ((at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32).collect()
}

fn schedules() -> Vec<String> {
    let mut all = vec!["schedule=rr".to_string(), "schedule=reverse".to_string()];
    all.extend((0..10).map(|seed| format!("schedule=random:{seed}")));
    all.iter().flat_map(|schedule| [format!("{schedule},lazy=0"), format!("{schedule},lazy=1")]).collect()
}

#[test]
fn block_sums_and_extremes_are_those_of_a_plain_loop() {
    let device = device("");
    let kernel = device.kernel("koshi_test_block");
    for settings in schedules() {
        device.soft.configure(&settings);
        for threads in [32, 64, 128, 256, 1024] {
            let values = numbers(3 * threads);
            let input = device.put(&values);
            let mut before = device.put(&vec![7u32; values.len()]);
            let mut of_block = device.put(&[7u32; 12]);
            let mut wide = device.put(&[7u64; 9]);
            let mut launch = device.stream.launch_builder(&kernel);
            launch.arg(&input).arg(&mut before).arg(&mut of_block).arg(&mut wide);
            // SAFETY: the kernel's parameters, and each slice as long as it writes.
            unsafe { launch.launch(shape(3, threads as u32, 0)) }.unwrap();
            let (before, of_block, wide) = (device.get(&before), device.get(&of_block), device.get(&wide));
            for (block, values) in values.chunks(threads).enumerate() {
                let mut sum = 0u32;
                for (at, value) in values.iter().enumerate() {
                    assert_eq!(before[block * threads + at], sum, "{settings}, {threads} threads");
                    sum = sum.wrapping_add(*value);
                }
                let (least, most) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
                assert_eq!(of_block[4 * block..4 * block + 4], [sum, sum, least, most]);
                let far: Vec<u64> =
                    values.iter().enumerate().map(|(at, value)| (u64::from(*value) << 20) | at as u64).collect();
                let expected = [far.iter().sum(), *far.iter().min().unwrap(), *far.iter().max().unwrap()];
                assert_eq!(wide[3 * block..3 * block + 3], expected);
            }
        }
    }
}
