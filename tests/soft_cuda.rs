//! The software CUDA device through cudarc, as a host sees a driver: memory, streams, launches and their
//! limits, failures. And `kernels/portable.cuh` on it, held to plain loops.

mod common;
#[path = "support/soft_device.rs"]
mod soft_device;

use std::ffi::c_void;

use common::soft;
use cudarc::driver::sys::CUresult as Code;
use cudarc::driver::{DriverError, PushKernelArg, result, sys};
use soft_device::{Device, device, numbers, schedules, shape};

const SELF_TEST: &str = "kernels/soft/self_test.cu";

/// Waits for what was asked of the stream and gives the answer's code.
fn code<T>(answer: Result<T, DriverError>) -> Code {
    answer.err().map_or(Code::CUDA_SUCCESS, |error| error.0)
}

// ---- kernels/portable.cuh ----

fn block_sums(device: &Device, threads: usize) {
    let kernel = device.module(SELF_TEST).load_function("koshi_test_block").unwrap();
    let values = numbers(3 * threads);
    let input = device.put(&values);
    let (mut before, mut of_block) = (device.put(&vec![7u32; values.len()]), device.put(&[7u32; 12]));
    let mut wide = device.put(&[7u64; 9]);
    let mut launch = device.stream.launch_builder(&kernel);
    launch.arg(&input).arg(&mut before).arg(&mut of_block).arg(&mut wide);
    // SAFETY: the kernel's parameters, and each slice as long as it writes.
    unsafe { launch.launch(shape(3, threads as u32, 0)) }.unwrap();
    device.stream.synchronize().unwrap_or_else(|_| panic!("{}", device.soft.report()));
    let (before, of_block, wide) = (device.get(&before), device.get(&of_block), device.get(&wide));
    for (block, values) in values.chunks(threads).enumerate() {
        let mut sum = 0u32;
        for (at, value) in values.iter().enumerate() {
            assert_eq!(before[block * threads + at], sum, "{threads} threads");
            sum = sum.wrapping_add(*value);
        }
        let (least, most) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
        assert_eq!(of_block[4 * block..4 * block + 4], [sum, sum, least, most]);
        let far: Vec<u64> =
            values.iter().enumerate().map(|(at, value)| (u64::from(*value) << 20) | at as u64).collect();
        assert_eq!(
            wide[3 * block..3 * block + 3],
            [far.iter().sum(), *far.iter().min().unwrap(), *far.iter().max().unwrap()]
        );
    }
}

/// What the bits of a float say of its place among the others.
fn ordered(value: f32) -> u32 {
    let bits = value.to_bits();
    if value.is_sign_negative() { !bits } else { bits | 1 << 31 }
}

fn costs(device: &Device) {
    let kernel = device.module(SELF_TEST).load_function("koshi_test_costs").unwrap();
    let edges = [0.0, -0.0, 1.0, -1.0, f32::MIN_POSITIVE, 1e-45, -1e-45, f32::MAX, f32::MIN, f32::INFINITY];
    let mut values: Vec<f32> = edges.to_vec();
    values.extend(numbers(1000).iter().map(|bits| f32::from_bits(bits << 8)).filter(|value| value.is_finite()));
    values.push(f32::NEG_INFINITY);
    values.push(f32::NEG_INFINITY);
    let input = device.put(&values);
    let (mut order, mut back) = (device.put(&vec![0u32; values.len()]), device.put(&vec![0f32; values.len()]));
    let mut least = device.put(&[u64::MAX]);
    let count = values.len() as u32;
    let mut launch = device.stream.launch_builder(&kernel);
    launch.arg(&input).arg(&count).arg(&mut order).arg(&mut back).arg(&mut least);
    // SAFETY: as above.
    unsafe { launch.launch(shape(3, 64, 0)) }.unwrap();
    device.stream.synchronize().unwrap_or_else(|_| panic!("{}", device.soft.report()));
    let (order, back) = (device.get(&order), device.get(&back));
    for (at, value) in values.iter().enumerate() {
        assert_eq!(back[at].to_bits(), value.to_bits());
        assert_eq!(order[at], ordered(*value));
    }
    // Of the two least, the one with the smaller argument.
    let place = values.len() as u64 - 2;
    assert_eq!(device.get(&least), [u64::from(ordered(f32::NEG_INFINITY)) << 32 | place]);
}

fn reversal(device: &Device) {
    let kernel = device.module(SELF_TEST).load_function("koshi_test_reverse").unwrap();
    let values = numbers(5 * 256);
    let mut cells = device.put(&values);
    let mut launch = device.stream.launch_builder(&kernel);
    launch.arg(&mut cells);
    // SAFETY: as above.
    unsafe { launch.launch(shape(5, 256, 1024)) }.unwrap();
    let expected: Vec<u32> = values.chunks(256).flat_map(|block| block.iter().rev().copied()).collect();
    device.stream.synchronize().unwrap_or_else(|_| panic!("{}", device.soft.report()));
    assert_eq!(device.get(&cells), expected);
}

/// Up to 2^32 - 2: with phrases a time may have more arcs, whose tokens are several of one state.
#[test]
fn arcs_that_can_be_numbered_in_32_bits() {
    let device = device("");
    let kernel = device.module(SELF_TEST).load_function("koshi_test_can_number").unwrap();
    for (sum, expected) in
        [(0u64, 1), (12, 1), (u64::from(u32::MAX) - 1, 1), (u64::from(u32::MAX), 0), (1 << 32, 0), (1 << 33, 0)]
    {
        for owners in [1u64, 3, 255, 256, 257, 1000] {
            // Two of them have all but a few.
            let most = (sum.min(owners * 5) / owners) as u32;
            let mut degrees = vec![most; owners as usize];
            let rest = sum - u64::from(most) * owners;
            let parts = [rest / 2, rest - rest / 2];
            for (at, part) in [(0, parts[0]), (owners as usize - 1, parts[1])] {
                let degree = u64::from(degrees[at]) + part;
                degrees[at] = degree.min(u64::from(u32::MAX)) as u32;
            }
            if degrees.iter().map(|degree| u64::from(*degree)).sum::<u64>() != sum {
                continue; // too much for so few
            }
            let input: Vec<u32> = std::iter::once(owners as u32).chain(degrees).collect();
            let mut can = device.put(&[7u32]);
            device.run(&kernel, 1, 256, &device.put(&input), &mut can).unwrap();
            assert_eq!(device.get(&can), [expected], "{sum} arcs of {owners}");
        }
    }
}

#[test]
fn portable_functions_give_what_plain_loops_give_under_every_schedule() {
    let device = device("");
    for schedule in schedules() {
        for lazy in ["lazy=0", "lazy=1"] {
            device.soft.configure(&format!("{schedule},{lazy}"));
            for threads in [32, 128, 1024] {
                block_sums(&device, threads);
            }
            costs(&device);
            reversal(&device);
        }
    }
}

#[test]
fn portable_functions_have_no_race() {
    let device = device("kernels=race");
    block_sums(&device, 256);
    costs(&device);
    reversal(&device);
}

#[test]
fn portable_functions_please_the_sanitizers() {
    let variables = soft::asan_variables();
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let (succeeded, text) = soft::in_a_process_of_its_own("child_under_sanitizers", &variables);
    assert!(succeeded && text.contains("1 passed"), "{text}");
}

#[test]
#[ignore = "run by portable_functions_please_the_sanitizers in a process with the sanitizers' libraries"]
fn child_under_sanitizers() {
    let device = device("kernels=asan");
    for schedule in ["schedule=rr", "schedule=random:1"] {
        device.soft.configure(schedule);
        block_sums(&device, 256);
        costs(&device);
        reversal(&device);
    }
}

// ---- what the scheduler counts ----

#[test]
fn steps_tell_parallel_work_from_serial() {
    let device = device("kernels=steps");
    let kernel = device.module(SELF_TEST).load_function("koshi_test_costs").unwrap();
    let values: Vec<f32> = numbers(4096).iter().map(|value| *value as f32).collect();
    let input = device.put(&values);
    let (mut order, mut back) = (device.put(&vec![0u32; values.len()]), device.put(&vec![0f32; values.len()]));
    let mut least = device.put(&[u64::MAX]);
    let mut spans = Vec::new();
    for threads in [1u32, 32, 256] {
        let count = values.len() as u32;
        let mut launch = device.stream.launch_builder(&kernel);
        launch.arg(&input).arg(&count).arg(&mut order).arg(&mut back).arg(&mut least);
        // SAFETY: as above.
        unsafe { launch.launch(shape(1, threads, 0)) }.unwrap();
        device.stream.synchronize().unwrap();
        let (steps, stats) = (device.soft.thread_steps(), device.soft.stats());
        assert_eq!(steps.len(), threads as usize);
        assert_eq!(steps.iter().sum::<u64>(), stats.work);
        assert_eq!(*steps.iter().max().unwrap(), stats.span, "no barrier, so the slowest thread's own");
        spans.push(stats.span);
    }
    // 4096, 128 and 16 values a thread.
    assert!(spans[0] > 20 * spans[1] && spans[1] > 5 * spans[2], "{spans:?}");
    assert!(spans[0] >= 4096);
}

// ---- memory ----

#[test]
fn memory_is_counted_poisoned_and_given_back() {
    let device = device("memory=1048576,poison=0x5a");
    let before = device.soft.memory_used(0);
    // SAFETY: freed below; read only after it was copied to.
    let cells = unsafe { result::malloc_sync(1 << 19) }.unwrap();
    assert_eq!(device.soft.memory_used(0), before + (1 << 19));
    assert_eq!(device.context.mem_get_info().unwrap(), ((1 << 20) - before - (1 << 19), 1 << 20));
    // SAFETY: a failed allocation gives nothing.
    assert_eq!(code(unsafe { result::malloc_sync(1 << 20) }), Code::CUDA_ERROR_OUT_OF_MEMORY);
    let mut found = [0u8; 100];
    // SAFETY: both are long enough.
    unsafe { result::memcpy_dtoh_sync(&mut found, cells + 1000) }.unwrap();
    assert_eq!(found, [0x5a; 100]);
    // SAFETY: taken above; the second time is what is tested.
    unsafe {
        result::free_sync(cells).unwrap();
        assert_eq!(code(result::free_sync(cells)), Code::CUDA_ERROR_INVALID_VALUE);
    }
    assert_eq!(device.soft.memory_used(0), before);
}

#[test]
fn copies_stay_inside_one_allocation_of_the_own_device() {
    let device = device("");
    // SAFETY: freed below.
    let cells = unsafe { result::malloc_sync(100) }.unwrap();
    let mut bytes = [1u8; 101];
    for (place, len, expected) in [
        (0, 100, Code::CUDA_SUCCESS),
        (0, 101, Code::CUDA_ERROR_INVALID_VALUE),
        (60, 40, Code::CUDA_SUCCESS),
        (60, 41, Code::CUDA_ERROR_INVALID_VALUE),
        (100, 1, Code::CUDA_ERROR_INVALID_VALUE),
    ] {
        // SAFETY: the device checks the range.
        unsafe {
            assert_eq!(code(result::memcpy_htod_sync(cells + place, &bytes[..len])), expected);
            assert_eq!(code(result::memcpy_dtoh_sync(&mut bytes[..len], cells + place)), expected);
            assert_eq!(code(result::memset_d8_sync(cells + place, 1, len)), expected);
        }
    }
    let other = cudarc::driver::CudaContext::new(1).unwrap();
    other.bind_to_thread().unwrap();
    // SAFETY: as above; then back to the device that the memory is of.
    unsafe {
        assert_eq!(code(result::memcpy_htod_sync(cells, &bytes[..1])), Code::CUDA_ERROR_INVALID_VALUE);
        device.context.bind_to_thread().unwrap();
        result::free_sync(cells).unwrap();
    }
}

// ---- streams ----

/// A pinned array of as many numbers, which its owner frees.
fn pinned(values: &[u32]) -> *mut u32 {
    // SAFETY: pinned memory of that size, then filled.
    unsafe {
        let cells = result::malloc_host(size_of_val(values), 0).unwrap().cast::<u32>();
        cells.copy_from_nonoverlapping(values.as_ptr(), values.len());
        cells
    }
}

#[test]
fn a_lazy_device_shows_what_did_not_wait() {
    let device = device("lazy=1");
    let (input, output) = (pinned(&[1, 2, 3]), pinned(&[7, 7, 7]));
    // SAFETY: the arrays live until they are freed below, and are no longer than the memory.
    unsafe {
        let cells = result::malloc_sync(12).unwrap();
        let stream = device.stream.cu_stream();
        result::memcpy_htod_async(cells, std::slice::from_raw_parts(input, 3), stream).unwrap();
        result::memcpy_dtoh_async(std::slice::from_raw_parts_mut(output, 3), cells, stream).unwrap();
        assert_eq!(std::slice::from_raw_parts(output, 3), [7, 7, 7], "nobody waited");
        *input = 4; // before the copy ran: it takes what stands there then
        device.stream.synchronize().unwrap();
        assert_eq!(std::slice::from_raw_parts(output, 3), [4, 2, 3]);

        // A pageable source is taken at once.
        let mut pageable = [5u32, 6, 7];
        result::memcpy_htod_async(cells, &pageable, stream).unwrap();
        pageable[0] = 9;
        device.stream.synchronize().unwrap();
        result::memcpy_dtoh_sync(&mut pageable, cells).unwrap();
        assert_eq!(pageable, [5, 6, 7]);

        result::free_sync(cells).unwrap();
        result::free_host(input.cast::<c_void>()).unwrap();
        result::free_host(output.cast::<c_void>()).unwrap();
    }
}

#[test]
fn streams_are_ordered_by_events_only() {
    let device = device("lazy=1");
    let output = pinned(&[0]);
    // SAFETY: as above.
    unsafe {
        let cells = result::malloc_sync(4).unwrap();
        let (writer, reader) = (device.stream.clone(), device.context.new_stream().unwrap());
        let read = |stream| {
            result::memcpy_dtoh_async(std::slice::from_raw_parts_mut(output, 1), cells, stream).unwrap();
        };
        let set = |value| result::memset_d8_async(cells, value, 4, writer.cu_stream()).unwrap();
        set(1);
        writer.synchronize().unwrap();
        set(2);
        read(reader.cu_stream());
        reader.synchronize().unwrap();
        assert_eq!(*output, 0x0101_0101, "the reader did not wait for the writer");
        let event = writer.record_event(None).unwrap();
        reader.wait(&event).unwrap();
        set(3); // after the event: not waited for
        read(reader.cu_stream());
        reader.synchronize().unwrap();
        assert_eq!(*output, 0x0202_0202);

        // Who asks for an event again and again gets there.
        let event = writer.record_event(None).unwrap();
        let asked = (0..10).position(|_| event.is_complete()).unwrap();
        assert!(asked > 0);
        result::memcpy_dtoh_sync(std::slice::from_raw_parts_mut(output, 1), cells).unwrap();
        assert_eq!(*output, 0x0303_0303);
        result::free_sync(cells).unwrap();
        result::free_host(output.cast::<c_void>()).unwrap();
    }
}

#[test]
fn memory_that_is_freed_too_soon_is_an_error() {
    let device = device("lazy=1");
    let output = pinned(&[0]);
    // SAFETY: the copy must not run on freed memory, which is what is tested.
    unsafe {
        let other = device.context.new_stream().unwrap();
        let cells = result::malloc_sync(4).unwrap();
        result::memcpy_dtoh_async(std::slice::from_raw_parts_mut(output, 1), cells, other.cu_stream()).unwrap();
        result::free_async(cells, device.stream.cu_stream()).unwrap();
        device.stream.synchronize().unwrap();
        assert_eq!(code(other.synchronize()), Code::CUDA_ERROR_ILLEGAL_ADDRESS);
        assert!(device.soft.report().contains("freed"), "{}", device.soft.report());
        device.soft.reset();
        result::free_host(output.cast::<c_void>()).unwrap();
    }
}

/// Frees at once what a queued copy still needs: its own memory, then that of the host that it writes to.
#[test]
#[ignore = "ends its process"]
fn child_that_frees_under_a_copy() {
    let device = device("lazy=1");
    let output = pinned(&[0]);
    // SAFETY: the copy must not run on freed memory, which is what is tested.
    unsafe {
        let cells = result::malloc_sync(4).unwrap();
        let to = std::slice::from_raw_parts_mut(output, 1);
        result::memcpy_dtoh_async(to, cells, device.stream.cu_stream()).unwrap();
        match std::env::var("KOSHI_FREED").unwrap().as_str() {
            "device" => result::free_sync(cells).unwrap(),
            "page-locked" => result::free_host(output.cast::<c_void>()).unwrap(),
            _ => {
                device.stream.synchronize().unwrap();
                result::free_sync(cells).unwrap();
                result::free_host(output.cast::<c_void>()).unwrap();
            }
        }
    }
}

#[test]
fn memory_that_is_freed_under_a_copy_ends_the_process() {
    for freed in ["device", "page-locked", "nothing"] {
        let (ok, text) = soft::in_a_process_of_its_own("child_that_frees_under_a_copy", &[("KOSHI_FREED", freed)]);
        assert_eq!(ok, freed == "nothing", "{text}");
        assert_eq!(text.contains(&format!("{freed} memory is freed while a copy of it is queued")), !ok, "{text}");
    }
}

// ---- launches ----

#[test]
fn launches_keep_their_limits() {
    let device = device("");
    let module = device.module(SELF_TEST);
    let (block, reverse) =
        (module.load_function("koshi_test_costs").unwrap(), module.load_function("koshi_test_reverse").unwrap());
    let cells = device.put(&numbers(256));
    let launch = |function, blocks, threads, shared| {
        let mut launch = device.stream.launch_builder(function);
        launch.arg(&cells);
        // SAFETY: only `reverse` runs, on one block of at most 256 threads.
        code(unsafe { launch.launch(shape(blocks, threads, shared)) })
    };
    assert_eq!(launch(&reverse, 1, 256, 1024), Code::CUDA_SUCCESS);
    assert_eq!(launch(&reverse, 0, 256, 1024), Code::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(launch(&reverse, 1, 0, 1024), Code::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(launch(&block, 1, 257, 0), Code::CUDA_ERROR_INVALID_VALUE, "its launch bound is 256");
    assert_eq!(launch(&block, 1, 2048, 0), Code::CUDA_ERROR_INVALID_VALUE);
    assert_eq!(launch(&reverse, 1, 256, 60000), Code::CUDA_ERROR_INVALID_VALUE);
    let most = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    assert_eq!(code(reverse.set_attribute(most, 70000)), Code::CUDA_ERROR_INVALID_VALUE);
    reverse.set_attribute(most, 60000).unwrap();
    assert_eq!(launch(&reverse, 1, 256, 60000), Code::CUDA_SUCCESS);
    assert_eq!(launch(&reverse, 1, 256, 60001), Code::CUDA_ERROR_INVALID_VALUE);
    device.stream.synchronize().unwrap();
    assert_eq!(code(module.load_function("koshi_test_nothing")), Code::CUDA_ERROR_NOT_FOUND);
}

#[test]
fn dynamic_shared_memory_ends_where_it_was_asked_to() {
    let device = device("");
    let kernel = device.module(SELF_TEST).load_function("koshi_test_reverse").unwrap();
    let mut cells = device.put(&numbers(256));
    let mut launch = device.stream.launch_builder(&kernel);
    launch.arg(&mut cells);
    // SAFETY: the last thread writes four bytes into the device's guard.
    unsafe { launch.launch(shape(1, 256, 1020)) }.unwrap();
    assert_eq!(code(device.stream.synchronize()), Code::CUDA_ERROR_LAUNCH_FAILED);
    assert!(device.soft.report().contains("1020 bytes of dynamic shared memory"), "{}", device.soft.report());
    device.soft.reset();
}

// ---- failures ----

#[test]
fn a_failed_kernel_stays_until_the_device_is_reset() {
    let device = device("");
    let kernel = device.module(SELF_TEST).load_function("koshi_test_reverse").unwrap();
    let mut cells = device.put(&numbers(256));
    device.soft.configure("fail=kernel:2:719");
    for expected in [Code::CUDA_SUCCESS, Code::CUDA_ERROR_LAUNCH_FAILED] {
        let mut launch = device.stream.launch_builder(&kernel);
        launch.arg(&mut cells);
        // SAFETY: as above.
        unsafe { launch.launch(shape(1, 256, 1024)) }.unwrap();
        assert_eq!(code(device.stream.synchronize()), expected);
    }
    // SAFETY: fails.
    assert_eq!(code(unsafe { result::malloc_sync(4) }), Code::CUDA_ERROR_LAUNCH_FAILED);
    let text = DriverError(Code::CUDA_ERROR_LAUNCH_FAILED).error_string().unwrap().to_str().unwrap();
    assert_eq!(text, "unspecified launch failure: kernel koshi_test_reverse: failed as asked");
    device.soft.reset();
    // SAFETY: freed at once.
    unsafe { result::free_sync(result::malloc_sync(4).unwrap()).unwrap() };
}

#[test]
fn the_calls_that_are_named_fail_once() {
    let device = device("fail=cuMemAlloc_v2:2:2,fail=cuMemAlloc_v2:4:1,fail=cuEventCreate:1:999");
    // SAFETY: freed at once.
    let take = || code(unsafe { result::malloc_sync(4).and_then(|cells| result::free_sync(cells)) });
    for expected in [
        Code::CUDA_SUCCESS,
        Code::CUDA_ERROR_OUT_OF_MEMORY,
        Code::CUDA_SUCCESS,
        Code::CUDA_ERROR_INVALID_VALUE,
        Code::CUDA_SUCCESS,
    ] {
        assert_eq!(take(), expected);
    }
    assert_eq!(code(device.context.new_event(None)), Code::CUDA_ERROR_UNKNOWN);
    assert_eq!(code(device.context.new_event(None)), Code::CUDA_SUCCESS);
}

/// Bytes that begin as a fatbin does.
const BINARY: [u8; 16] = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0];

#[test]
fn a_binary_image_stands_for_the_source_that_is_named() {
    let device = device("");
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("kernels.cu");
    std::fs::write(&source, soft::source(SELF_TEST)).unwrap();
    let load = || {
        // SAFETY: the device reads the first bytes of an image.
        let module = unsafe { result::module::load_data(BINARY.as_ptr().cast()) }?;
        // SAFETY: a live module.
        let found = unsafe { result::module::get_function(module, c"koshi_test_block".into()) };
        // SAFETY: unloaded once, and the function is not called.
        unsafe { result::module::unload(module) }.and(found)
    };
    assert_eq!(code(load()), Code::CUDA_ERROR_INVALID_IMAGE);
    device.soft.configure(&format!("source={}", source.display()));
    assert_eq!(code(load()), Code::CUDA_SUCCESS);
    device.soft.configure("refuse_binary=1");
    assert_eq!(code(load()), Code::CUDA_ERROR_NO_BINARY_FOR_GPU);
    // SAFETY: as above.
    let text = unsafe { result::module::load_data(c"// some text".as_ptr().cast()) };
    assert_eq!(code(text), Code::CUDA_ERROR_INVALID_PTX);
}

#[test]
fn what_the_compiler_says_is_passed_on() {
    let _device = device("");
    let refused = |text: &str| match cudarc::nvrtc::compile_ptx(text) {
        Err(cudarc::nvrtc::CompileError::CompileError { log, .. }) => log.into_string().unwrap(),
        other => panic!("{other:?}"),
    };
    let text =
        "#line 7 \"kernels/some.cu\"\nextern \"C\" __global__ void __launch_bounds__(32) k(int *x) { *x = y; }\n";
    assert!(refused(text).contains("kernels/some.cu:7"), "{}", refused(text));
    assert!(refused("int x;").contains("no entry point"));
}
