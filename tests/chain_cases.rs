//! Rows of the list of inputs that broke other toolkits, chain training: each through Rust and through C, on the CPU and on
//! the software GPU.

#[path = "common/chain/mod.rs"]
mod chain;
mod common;

use chain::{Face, Found, Random, Scores, Status, arc, bytes, end_to_end, graph, supervision};
use koshi::chain::{ChainBackend, ChainConfig};

over_both_chain_faces! {
    case_b64_outputs_beyond_the_range_of_exp
    case_b65_outputs_beyond_30_are_clamped_and_penalised
    case_b66_more_than_65535_states
    case_b67_rows_that_do_not_fit
    case_b68_pdfs_that_do_not_fit
    case_b69_not_a_number
    case_b71_forward_and_backward_agree
    case_b72_epsilons_in_an_end_to_end_supervision
    case_b73_numerator_in_the_log_domain
    case_b74_gradient_by_finite_differences
    unequal_lengths_are_as_alone
    a_gpu_that_is_not_there
    derivative_weights_multiply_rows
}

const BACKENDS: [ChainBackend; 2] = [ChainBackend::Cpu, ChainBackend::Cuda];

fn config(backend: ChainBackend) -> ChainConfig {
    if backend == ChainBackend::Cuda {
        common::gpu();
    }
    ChainConfig { backend, num_threads: 1, leaky_hmm_coefficient: 0.1, ..ChainConfig::default() }
}

/// One state, a loop for each of two pdfs.
fn two_pdfs<F: Face>() -> F::Den {
    F::den(&bytes(&graph(vec![vec![arc(0, 0.5, 0), arc(1, 0.5, 0)]])), 2).unwrap()
}

/// Pdf 0 in each of three frames.
const THREE_FRAMES: &str = "0 1 1 1;1 2 1 1;2 3 1 1;3";

fn case_b64_outputs_beyond_the_range_of_exp<F: Face>(backend: ChainBackend) {
    let den = two_pdfs::<F>();
    let said = F::supervision(&supervision([1, 3, 2], THREE_FRAMES)).unwrap();
    for size in [80.0, 1e30, f32::MAX, f32::INFINITY] {
        let scores = Scores::dense(&[size, -size, -size, size, size, -size], 2);
        for l2_regularize in [0.0, 5e-5] {
            let found = F::objf(&den, &said, &ChainConfig { l2_regularize, ..config(backend) }, &scores, None).unwrap();
            assert!(found.is_finite(), "{size}: {found:?}");
            assert!(found.ok || found.value == -30.0, "{size}: {found:?}");
        }
        assert!(F::denominator(&den, &config(backend), &scores, 1, None).unwrap().is_finite(), "{size}");
        assert!(F::numerator(&said, &scores).unwrap().is_finite(), "{size}");
    }
}

fn case_b65_outputs_beyond_30_are_clamped_and_penalised<F: Face>(backend: ChainBackend) {
    let den = two_pdfs::<F>();
    let said = F::supervision(&supervision([1, 1, 2], "0 1 1 1;1")).unwrap();
    let leak = ChainConfig { leaky_hmm_coefficient: 0.0, out_of_range_regularize: 0.5, ..config(backend) };
    let found = F::objf(&den, &said, &leak, &Scores::dense(&[40.0, -40.0], 2), None).unwrap();
    // By hand: the denominator is log(0.5 e^30 + 0.5 e^-30), the numerator is not clamped.
    assert!((found.value - (40.0 - (30.0 - 2f64.ln()))).abs() < 1e-5, "{found:?}");
    // Occupancies are 1 and 0 in both; what is left is the penalty.
    assert!((found.deriv[0] + 0.5 * 10.0).abs() < 1e-5 && (found.deriv[1] - 0.5 * 10.0).abs() < 1e-5, "{found:?}");
    let edge = F::objf(&den, &said, &leak, &Scores::dense(&[30.0, -30.0], 2), None).unwrap();
    assert!(edge.deriv.iter().all(|value| value.abs() < 1e-5), "{edge:?}");
}

fn case_b66_more_than_65535_states<F: Face>(backend: ChainBackend) {
    const STATES: u32 = 65_537;
    let states = (0..STATES).map(|state| vec![arc(0, 0.5, (state + 1) % STATES)]);
    let den = F::den(&bytes(&graph(states.collect())), 1).unwrap();
    // One arc out of each state: a frame gives 0.5 e^y, and the leak doubles nothing but (1 + leak) twice.
    let found = F::denominator(&den, &config(backend), &Scores::dense(&[2.0], 1), 1, None).unwrap();
    let expected = 0.5f64.ln() + 2.0 + 2.0 * 1.1f64.ln();
    assert!((found.value - expected).abs() < 1e-5 && found.ok, "{found:?}, not {expected}");
    assert!((found.deriv[0] - 1.0).abs() < 1e-5);
}

fn case_b67_rows_that_do_not_fit<F: Face>(backend: ChainBackend) {
    let den = two_pdfs::<F>();
    let said = F::supervision(&supervision([2, 3, 2], "0 1 1 1;1 2 1 1;2 3 1 1;3 4 2 2;4 5 2 2;5 6 2 2;6")).unwrap();
    let status = |rows: usize, cols: usize| {
        let scores = Scores::dense(&vec![0.0; rows * cols], cols);
        F::objf(&den, &said, &config(backend), &scores, None).map(|found| found.ok).map_err(|fault| fault.status)
    };
    assert_eq!(status(6, 2), Ok(true));
    for (rows, cols) in [(5, 2), (7, 2), (12, 2), (6, 1), (6, 3), (4, 3)] {
        assert_eq!(status(rows, cols), Err(Status::KOSHI_E_SHAPE), "{rows} by {cols}");
    }
    let overlapping = Scores { stride: 1, ..Scores::dense(&[0.0; 12], 2) };
    assert_eq!(F::objf(&den, &said, &config(backend), &overlapping, None).unwrap_err().status, Status::KOSHI_E_SHAPE);
    for sequences in [0, 4, 5, 7, usize::MAX] {
        let scores = Scores::dense(&[0.0; 12], 2);
        let fault = F::denominator(&den, &config(backend), &scores, sequences, None).unwrap_err();
        assert_eq!(fault.status, Status::KOSHI_E_SHAPE, "{sequences}");
    }
}

fn case_b68_pdfs_that_do_not_fit<F: Face>(backend: ChainBackend) {
    let source = graph(vec![vec![arc(0, 0.5, 0), arc(4, 0.5, 0)]]);
    assert_eq!(F::den(&bytes(&source), 3).err().unwrap().status, Status::KOSHI_E_SHAPE);
    let den = F::den(&bytes(&source), 5).unwrap();
    let said = F::supervision(&supervision([1, 1, 3], "0 1 1 1;1")).unwrap();
    let fault = F::objf(&den, &said, &config(backend), &Scores::dense(&[0.0; 3], 3), None).unwrap_err();
    assert_eq!(fault.status, Status::KOSHI_E_SHAPE);
    // A supervision with a pdf that it does not have itself.
    let fault = F::supervision(&supervision([1, 1, 3], "0 1 4 4;1")).err().unwrap();
    assert_eq!(fault.status, Status::KOSHI_E_GRAPH);
}

fn case_b69_not_a_number<F: Face>(backend: ChainBackend) {
    let den = two_pdfs::<F>();
    let said = F::supervision(&supervision([1, 3, 2], THREE_FRAMES)).unwrap();
    let good = Scores::dense(&[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 2);
    let before = F::objf(&den, &said, &config(backend), &good, None).unwrap();
    assert!(before.ok);
    for frame in 0..3 {
        let mut bad = good.clone();
        bad.data[2 * frame] = f32::NAN;
        let found = F::objf(&den, &said, &config(backend), &bad, None).unwrap();
        assert!(!found.ok && found.value == -30.0 && found.weight == 3.0, "{found:?}");
        assert!(found.deriv.iter().chain(&found.xent).all(|value| *value == 0.0), "{found:?}");
        // On a pdf that was not said, it counts as -30.
        let (mut other, mut low) = (good.clone(), good.clone());
        other.data[2 * frame + 1] = f32::NAN;
        low.data[2 * frame + 1] = -30.0;
        let found = F::objf(&den, &said, &config(backend), &other, None).unwrap();
        assert_eq!(found, F::objf(&den, &said, &config(backend), &low, None).unwrap());
        assert!(found.ok && found.is_finite());
    }
    assert_eq!(F::objf(&den, &said, &config(backend), &good, None).unwrap(), before, "the graph is as good as before");
}

fn case_b71_forward_and_backward_agree<F: Face>(backend: ChainBackend) {
    // That a disagreement of more than 2 is flagged is shown beside the rule.
    let mut random = Random(71);
    for _ in 0..20 {
        let den = F::den(&bytes(&random.graph(5, 3)), 3).unwrap();
        let scores = random.scores(10, 3, 4.0);
        let found = F::denominator(&den, &config(backend), &scores, 1, None).unwrap();
        assert!(found.ok);
        for row in found.deriv.chunks(3) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{row:?}");
        }
    }
}

fn case_b72_epsilons_in_an_end_to_end_supervision<F: Face>(_: ChainBackend) {
    let fault = F::supervision(&end_to_end([1, 3, 2], &["0 1 1 1;1 1 1 1;1 2 0 0;2"])).err().unwrap();
    assert_eq!(fault.status, Status::KOSHI_E_GRAPH);
    assert!(fault.message.contains("epsilon"), "{}", fault.message);
    let fault = F::supervision(&supervision([1, 1, 2], "0 1 1 1;1 2 0 0;2")).err().unwrap();
    assert_eq!(fault.status, Status::KOSHI_E_GRAPH);
    assert!(F::supervision(&end_to_end([1, 3, 2], &["0 1 1 1;1 1 1 1;1 2 2 2;2"])).is_ok());
}

fn case_b73_numerator_in_the_log_domain<F: Face>(_: ChainBackend) {
    let frames = 400;
    let chain: String = (0..frames).map(|at| format!("{at} {} 1 1;", at + 1)).collect();
    let said = F::supervision(&supervision([1, frames, 1], &format!("{chain}{frames}"))).unwrap();
    let loops = F::supervision(&end_to_end([1, frames, 1], &["0 0 1 1;0"])).unwrap();
    let score = 1e-3f32.ln();
    for said in [said, loops] {
        let found = F::numerator(&said, &Scores::dense(&vec![score; frames], 1)).unwrap();
        assert!((found.value - f64::from(score) * frames as f64).abs() < 1e-9, "{}", found.value);
        assert!((found.value + 2763.1).abs() < 0.01 && found.ok, "{}", found.value);
        assert!(found.deriv.iter().all(|value| (value - 1.0).abs() < 1e-6));
    }
}

fn case_b74_gradient_by_finite_differences<F: Face>(backend: ChainBackend) {
    let source = graph(vec![vec![arc(0, 0.6, 0), arc(1, 0.3, 1)], vec![arc(1, 0.5, 1), arc(0, 0.4, 0)]]);
    let den = F::den(&bytes(&source), 2).unwrap();
    let joined =
        supervision([2, 2, 2], "0 1 1 1 0.5;0 2 2 2;1 3 2 2;2 3 1 1 0.25;3 4 1 1;3 5 2 2;4 6 2 2;5 6 2 2;6 0.5");
    let each = "0 0 1 1 0.5;0 1 2 2;1 1 2 2 0.25;1 0 1 1;1 0.5;0";
    let mut random = Random(74);
    for bytes in [joined, end_to_end([2, 2, 2], &[each, each])] {
        let said = F::supervision(&bytes).unwrap();
        let config = ChainConfig { l2_regularize: 0.3, ..config(backend) };
        let scores = random.scores(4, 2, 2.0);
        let value = |at: usize, by: f32| {
            let mut moved = scores.clone();
            moved.data[at] += by;
            let found = F::objf(&den, &said, &config, &moved, None).unwrap();
            (f64::from(moved.data[at]), found.value + found.l2_term)
        };
        let found = F::objf(&den, &said, &config, &scores, None).unwrap();
        for (at, &deriv) in found.deriv.iter().enumerate() {
            let ((to, above), (from, below)) = (value(at, 0.01), value(at, -0.01));
            let slope = (above - below) / (to - from);
            let error = (slope - f64::from(deriv)).abs() / slope.abs().max(0.05);
            assert!(error < 1e-3, "element {at}: {deriv}, by differences {slope}");
        }
    }
}

fn unequal_lengths_are_as_alone<F: Face>(backend: ChainBackend) {
    let mut random = Random(5);
    let den = F::den(&bytes(&random.graph(7, 4)), 4).unwrap();
    let (n, frames) = (11, 9);
    let mut scores = random.scores(n * frames, 4, 3.0);
    let lengths: Vec<u32> = (0..n).map(|_| random.below(frames + 1) as u32).collect();
    assert!(lengths.iter().min() != lengths.iter().max());
    let row = |sequence: usize, frame: usize| 4 * (frame * n + sequence);
    let mut total = 0.0;
    let mut deriv = vec![0.0; scores.data.len()];
    for (sequence, &length) in lengths.iter().enumerate() {
        for frame in length as usize..frames {
            scores.data[row(sequence, frame)..][..4].fill(f32::NAN);
        }
        if length == 0 {
            total += 1.1f64.ln();
            continue;
        }
        let own: Vec<f32> =
            (0..length as usize).flat_map(|frame| scores.data[row(sequence, frame)..][..4].to_vec()).collect();
        let found = F::denominator(&den, &config(backend), &Scores::dense(&own, 4), 1, None).unwrap();
        total += found.value;
        for (frame, values) in found.deriv.chunks(4).enumerate() {
            deriv[row(sequence, frame)..][..4].copy_from_slice(values);
        }
    }
    for num_threads in [1, 2, 3, 7] {
        let config = ChainConfig { num_threads, ..config(backend) };
        let found = F::denominator(&den, &config, &scores, n, Some(&lengths)).unwrap();
        assert!(found.ok && (found.value - total).abs() < 1e-6, "{} {total}", found.value);
        assert_eq!(found.deriv, deriv, "a sequence has the same bits in whatever company");
    }
    let long = vec![frames as u32 + 1; n];
    let fault = F::denominator(&den, &config(backend), &scores, n, Some(&long)).unwrap_err();
    assert_eq!(fault.status, Status::KOSHI_E_SHAPE);
}

fn a_gpu_that_is_not_there<F: Face>(backend: ChainBackend) {
    let config = ChainConfig { device: 99, ..config(backend) };
    let den = two_pdfs::<F>();
    let scores = Scores::dense(&[0.0, 0.0], 2);
    let found = F::denominator(&den, &config, &scores, 1, None);
    match backend {
        ChainBackend::Cuda => {
            let fault = found.unwrap_err();
            assert_eq!(fault.status, Status::KOSHI_E_NO_DEVICE);
            assert!(fault.message.contains("device is 99"), "{}", fault.message);
            // The CPU takes its place where that is allowed.
            let auto = ChainConfig { backend: ChainBackend::Auto, ..config };
            let cpu = ChainConfig { backend: ChainBackend::Cpu, ..config };
            let [auto, cpu] = [auto, cpu].map(|config| F::denominator(&den, &config, &scores, 1, None).unwrap());
            assert_eq!(auto, cpu);
        }
        _ => assert!(found.unwrap().ok),
    }
}

fn derivative_weights_multiply_rows<F: Face>(backend: ChainBackend) {
    let den = two_pdfs::<F>();
    let said = F::supervision(&supervision([1, 3, 2], THREE_FRAMES)).unwrap();
    let scores = Scores::dense(&[0.1, 40.0, -0.3, 0.4, 0.5, 0.6], 2);
    let config = ChainConfig { l2_regularize: 0.1, ..config(backend) };
    let plain = F::objf(&den, &said, &config, &scores, None).unwrap();
    let weights = [0.5, 0.0, 2.0];
    let found = F::objf(&den, &said, &config, &scores, Some(&weights)).unwrap();
    let scaled = |values: &[f32]| -> Vec<f32> {
        values.chunks(2).zip(weights).flat_map(|(row, weight)| [row[0] * weight, row[1] * weight]).collect()
    };
    let expected = Found { deriv: scaled(&plain.deriv), xent: scaled(&plain.xent), ..plain };
    assert_eq!(found, expected);
    for bad in [&[1.0, 1.0][..], &[]] {
        let fault = F::objf(&den, &said, &config, &scores, Some(bad)).unwrap_err();
        assert_eq!(fault.status, Status::KOSHI_E_SHAPE);
    }
    let fault = F::objf(&den, &said, &config, &scores, Some(&[1.0, f32::NAN, 1.0])).unwrap_err();
    assert_eq!(fault.status, Status::KOSHI_E_ARGUMENT);
}
