//! The software CUDA device's self-test: each bug planted in `kernels/soft/planted.cu` is caught by the means
//! that should catch it, and the kernel without a bug by none.

mod common;
#[path = "support/soft_device.rs"]
mod soft_device;

use common::soft;
use cudarc::driver::sys::CUresult as Code;
use soft_device::{Device, device, numbers, schedules};

const PLANTED: &str = "kernels/soft/planted.cu";
const BLOCKS: usize = 3;
const THREADS: usize = 128;

/// Runs a kernel on numbers: what it wrote, or the device's report after a failure.
fn run(device: &Device, name: &str) -> Result<Vec<u32>, String> {
    let kernel = device.module(PLANTED).load_function(name).unwrap();
    let input = device.put(&numbers(BLOCKS * THREADS));
    let mut output = device.put(&vec![0; BLOCKS * THREADS]);
    match device.run(&kernel, BLOCKS as u32, THREADS as u32, &input, &mut output) {
        Ok(()) => Ok(device.get(&output)),
        Err(error) => {
            let illegal = name == "koshi_wild_pointer";
            assert_eq!(
                error.0,
                if illegal { Code::CUDA_ERROR_ILLEGAL_ADDRESS } else { Code::CUDA_ERROR_LAUNCH_FAILED }
            );
            let report = device.soft.report();
            device.soft.reset();
            Err(report)
        }
    }
}

/// Number of the line of `planted.cu` that holds the text, behind a kernel's name.
fn line(name: &str, text: &str) -> usize {
    let file = std::fs::read_to_string(common::root().join(PLANTED)).unwrap();
    let kernel = file.find(&format!(" {name}(")).unwrap();
    let place = kernel + file[kernel..].find(text).unwrap();
    file[..place].lines().count()
}

fn of_blocks(sum: impl Fn(&[u32]) -> Vec<u32>) -> Vec<u32> {
    numbers(BLOCKS * THREADS).chunks(THREADS).flat_map(sum).collect()
}

fn sums() -> Vec<u32> {
    of_blocks(|block| vec![block.iter().fold(0, |sum, value| sum.wrapping_add(*value)); THREADS])
}

fn assert_says(report: Result<Vec<u32>, String>, all: &[&str]) {
    let report = report.expect_err("the kernel must fail");
    for text in all {
        assert!(report.contains(text), "{text:?} is not in: {report}");
    }
}

#[test]
fn a_sound_kernel_is_right_under_every_schedule_and_build() {
    let device = device("");
    for schedule in schedules() {
        device.soft.configure(&schedule);
        assert_eq!(run(&device, "koshi_sound"), Ok(sums()), "{schedule}");
    }
    device.soft.configure("schedule=rr,kernels=race");
    assert_eq!(run(&device, "koshi_sound"), Ok(sums()));
}

#[test]
fn schedules_show_a_missing_barrier_and_lock_step() {
    let device = device("");
    let turned = of_blocks(|block| block.iter().rev().copied().collect());
    for (name, right) in [("koshi_missing_barrier", turned), ("koshi_lock_step", sums())] {
        let wrong = |schedule: &String| {
            device.soft.configure(schedule);
            run(&device, name).unwrap() != right
        };
        let caught: Vec<String> = schedules().into_iter().filter(wrong).collect();
        assert!(!caught.is_empty(), "{name} passes everywhere");
        assert!(caught.iter().any(|schedule| !schedule.contains("random")), "{name}: {caught:?}");
    }
}

#[test]
fn the_race_detector_shows_races_and_their_lines() {
    let device = device("kernels=race");
    for (name, lines, memory) in [
        ("koshi_missing_barrier", vec!["cells[threadIdx.x] =", "out["], "shared"),
        ("koshi_lock_step", vec!["for (unsigned half = 16"], "shared"),
        ("koshi_plain_counter", vec!["count += in"], "shared"),
        ("koshi_two_blocks", vec!["out[0] = in"], "device"),
    ] {
        let places: Vec<String> = lines.iter().map(|text| format!("planted.cu:{}", line(name, text))).collect();
        let mut says: Vec<&str> = places.iter().map(String::as_str).collect();
        let memory = format!("race in {memory} memory");
        says.push(&memory);
        assert_says(run(&device, name), &says);
    }
}

#[test]
fn no_schedule_shows_a_plain_counter() {
    let device = device("");
    for schedule in schedules() {
        device.soft.configure(&schedule);
        assert_eq!(run(&device, "koshi_plain_counter"), Ok(sums()), "so the race detector is needed");
    }
}

#[test]
fn divergent_barriers_name_the_threads() {
    let device = device("");
    let (first, second) =
        (line("koshi_divergent_barrier", "__syncthreads"), line("koshi_divergent_barrier", "out[at] = in[at] + 1") + 1);
    let says = [format!("planted.cu:{first}"), format!("planted.cu:{second}")];
    assert_says(
        run(&device, "koshi_divergent_barrier"),
        &[
            "divergent barrier",
            "thread (0, 0, 0) of block (0, 0, 0)",
            "thread (64, 0, 0) of block (0, 0, 0)",
            &says[0],
            &says[1],
        ],
    );
    assert_says(run(&device, "koshi_early_return"), &["thread (77, 0, 0) of block (0, 0, 0)", "has ended"]);
}

#[test]
fn wrong_masks_name_the_threads() {
    let device = device("");
    for schedule in schedules() {
        device.soft.configure(&schedule);
        assert_says(run(&device, "koshi_wrong_mask"), &["a shuffle", "has ended", "planted.cu:"]);
    }
    device.soft.configure("schedule=rr");
    let place = format!("planted.cu:{}", line("koshi_not_in_mask", "__shfl_sync"));
    assert_says(
        run(&device, "koshi_not_in_mask"),
        &["wrong mask", "thread (16, 0, 0) of block (0, 0, 0)", "0x0000ffff", &place],
    );
}

#[test]
fn poison_shows_shared_memory_that_nobody_set() {
    let device = device("");
    let found: Vec<Vec<u32>> = ["poison=0xcb", "poison=0x11"]
        .map(|poison| {
            device.soft.configure(poison);
            run(&device, "koshi_uninitialised").unwrap()
        })
        .into();
    assert!(found[0] != sums() && found[1] != sums() && found[0] != found[1]);
    let added = |poison: u32| sums().iter().map(|sum| sum.wrapping_add(poison)).collect::<Vec<u32>>();
    assert_eq!(found, [added(0xcbcb_cbcb), added(0x1111_1111)], "in every block, not only the first");
}

#[test]
fn a_wild_pointer_names_its_thread() {
    let device = device("");
    let says = ["thread (2, 0, 0) of block (1, 0, 0)", "touched the address"];
    assert_says(run(&device, "koshi_wild_pointer"), &says);
    assert_eq!(run(&device, "koshi_sound"), Ok(sums()), "and the process goes on");
}

#[test]
fn guards_show_an_overrun() {
    let device = device("");
    assert_says(run(&device, "koshi_overrun"), &["koshi_overrun", "after an allocation of 1536 bytes"]);
}

#[test]
fn sanitizers_show_overruns_and_wide_shifts() {
    let variables = soft::asan_variables();
    let mut variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    variables.push(("KOSHI_PLANTED", ""));
    for (name, text, says) in [
        ("koshi_sound", "", "1 passed"),
        ("koshi_overrun", "out[at + 1]", "heap-buffer-overflow"),
        ("koshi_read_overrun", "in[at + 1]", "heap-buffer-overflow"),
        ("koshi_shared_overrun", "*mine =", "global-buffer-overflow"),
        ("koshi_wide_shift", "in[at] <<", "shift exponent 32 is too large"),
    ] {
        variables.last_mut().unwrap().1 = name;
        let (succeeded, found) = soft::in_a_process_of_its_own("child_under_sanitizers", &variables);
        assert_eq!(succeeded, name == "koshi_sound", "{name}: {found}");
        assert!(found.contains(says), "{name}: {found}");
        if !succeeded {
            let place = format!("planted.cu:{}", line(name, text));
            assert!(found.contains(&place), "{name}: {place} is not in {found}");
        }
    }
}

#[test]
#[ignore = "run by sanitizers_show_overruns_and_wide_shifts, which also names the kernel"]
fn child_under_sanitizers() {
    let name = std::env::var("KOSHI_PLANTED").unwrap();
    assert_eq!(run(&device("kernels=asan"), &name), Ok(sums()));
}
