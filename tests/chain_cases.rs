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
    the_weight_of_a_supervision
    a_failed_batch_keeps_its_l2_term
    the_penalty_is_drawn_once_a_call
    supervisions_that_cannot_be_merged
    supervisions_and_graphs_that_cannot_be_walked
    occupancies_of_enormous_scores
    graphs_that_end_too_soon
    merged_values_are_sums
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

/// Two sequences of two frames, with pdfs 0 and 1, joined and end-to-end.
fn two_of_two() -> [Vec<u8>; 2] {
    let each = "0 0 1 1 0.5;0 1 2 2;1 1 2 2 0.25;1 0 1 1;1 0.5;0";
    let joined = "0 1 1 1 0.5;0 2 2 2;1 3 2 2;2 3 1 1 0.25;3 4 1 1;4 5 2 2;5 0.5";
    [supervision([2, 2, 2], joined), end_to_end([2, 2, 2], &[each, each])]
}

fn with_weight(text: &[u8], weight: &str) -> Vec<u8> {
    String::from_utf8_lossy(text).replace("<Weight> 1", &format!("<Weight> {weight}")).into_bytes()
}

fn the_weight_of_a_supervision<F: Face>(backend: ChainBackend) {
    let den = two_pdfs::<F>();
    let config = ChainConfig { l2_regularize: 0.25, ..config(backend) };
    let scores = Random(11).scores(4, 2, 3.0);
    let all = F::denominator(&den, &config, &scores, 2, None).unwrap().value;
    for (text, end_to_end) in two_of_two().iter().zip([false, true]) {
        let [one, half] = ["1", "0.5"].map(|weight| F::supervision(&with_weight(text, weight)).unwrap());
        let [plain, weighted] = [&one, &half].map(|said| F::objf(&den, said, &config, &scores, None).unwrap());
        let [said, weighed] = [&one, &half].map(|said| F::numerator(said, &scores).unwrap());
        let expected = if end_to_end { said.value } else { 0.5 * said.value };
        assert!((weighed.value - expected).abs() < 1e-9, "{} {expected}", weighed.value);
        assert!((weighted.value - (expected - 0.5 * all)).abs() < 1e-5, "{} {expected} {all}", weighted.value);
        assert_eq!((weighted.weight, weighted.l2_term), (2.0, 0.5 * plain.l2_term));
        let halved = |values: &[f32]| -> Vec<f32> { values.iter().map(|value| 0.5 * value).collect() };
        assert_eq!(weighted.deriv, halved(&plain.deriv));
        assert_eq!(weighted.xent, halved(&plain.xent));
        assert_eq!(weighed.deriv, halved(&said.deriv));
    }
}

/// But for an end-to-end numerator, as in Kaldi. The penalty is gone in either.
fn a_failed_batch_keeps_its_l2_term<F: Face>(backend: ChainBackend) {
    let den = two_pdfs::<F>();
    let config = ChainConfig { l2_regularize: 0.25, out_of_range_regularize: 0.5, ..config(backend) };
    let scores = Scores::dense(&[f32::NAN, 1.0, -2.0, 40.0, 0.5, -3.0, 2.0, 1.0], 2);
    for (text, end_to_end) in two_of_two().iter().zip([false, true]) {
        let said = F::supervision(&with_weight(text, "0.5")).unwrap();
        let found = F::objf(&den, &said, &config, &scores, None).unwrap();
        assert!(!found.ok && found.value == -20.0 && found.weight == 2.0, "{found:?}");
        let scale = if end_to_end { 0.0 } else { -0.5 * 0.25 };
        let finite = scores.data.iter().map(|score| if score.is_nan() { 0.0 } else { *score });
        assert_eq!(found.deriv, finite.clone().map(|score| scale * score).collect::<Vec<f32>>());
        assert!(found.xent.iter().all(|value| *value == 0.0));
        let squares: f64 = finite.map(|score| f64::from(score * score)).sum();
        assert!((found.l2_term - 0.5 * f64::from(scale) * squares).abs() < 1e-6, "{}", found.l2_term);
    }
}

fn the_penalty_is_drawn_once_a_call<F: Face>(backend: ChainBackend) {
    let den = two_pdfs::<F>();
    let said = F::supervision(&two_of_two()[0]).unwrap();
    let scores = Scores::dense(&[40.0, 1.0, -40.0, 2.0, 3.0, 40.0, 4.0, -40.0], 2);
    let deriv = |config: &ChainConfig| F::objf(&den, &said, config, &scores, None).unwrap().deriv;
    let [none, twice] =
        [0.0, 1.0].map(|scale| deriv(&ChainConfig { out_of_range_regularize: scale, ..config(backend) }));
    assert_ne!(none, twice);
    let drawn = ChainConfig { out_of_range_regularize: 0.5, randomised_penalty: true, ..config(backend) };
    let draws: Vec<bool> = (0..32)
        .map(|seed| {
            let found = deriv(&ChainConfig { seed, ..drawn });
            assert!(found == none || found == twice, "seed {seed}: {found:?}");
            assert_eq!(found, deriv(&ChainConfig { seed, ..drawn }), "the same number draws the same");
            found == twice
        })
        .collect();
    assert!(draws.contains(&true) && draws.contains(&false), "{draws:?}");
}

fn supervisions_that_cannot_be_merged<F: Face>(_: ChainBackend) {
    let read = |text: &[u8]| F::supervision(text).unwrap();
    let [joined, loops] = two_of_two();
    let refused = |one: &[u8], other: &[u8]| F::merge(&[&read(one), &read(other)]).err().unwrap();
    for text in [&joined, &loops] {
        assert!(F::merge(&[&read(text), &read(text)]).is_ok());
        let fault = refused(text, &with_weight(text, "0.5"));
        assert!(fault.status == Status::KOSHI_E_SHAPE && fault.message.contains("weight"), "{}", fault.message);
    }
    assert_eq!(refused(&joined, &loops).status, Status::KOSHI_E_SHAPE);
    assert_eq!(refused(&loops, &joined).status, Status::KOSHI_E_SHAPE);
    let short = "0 1 1 1;1 2 2 2;2";
    let frames = refused(&supervision([2, 1, 2], short), &supervision([1, 2, 2], short));
    assert!(frames.status == Status::KOSHI_E_SHAPE && frames.message.contains("frames"), "{}", frames.message);
    let frames = refused(&loops, &end_to_end([2, 3, 2], &["0 0 1 1;0"; 2]));
    assert!(frames.status == Status::KOSHI_E_SHAPE && frames.message.contains("frames per"), "{}", frames.message);
    let pdfs = refused(&supervision([1, 2, 2], short), &supervision([1, 2, 3], short));
    assert!(pdfs.status == Status::KOSHI_E_SHAPE && pdfs.message.contains("pdfs"), "{}", pdfs.message);
    // Kaldi looks at the alignments of all but the first.
    let aligned = |text: &[u8]| {
        String::from_utf8_lossy(text).replace("</Supervision>", "<AlignmentPdfs> [ 0 1 ]\n</Supervision>").into_bytes()
    };
    assert_eq!(refused(&joined, &aligned(&joined)).status, Status::KOSHI_E_UNSUPPORTED);
    assert!(F::merge(&[&read(&loops), &read(&aligned(&loops))]).is_ok());
    assert!(F::merge(&[&read(&aligned(&joined))]).is_ok(), "one alone stays as it is");
    assert_eq!(F::merge(&[]).err().unwrap().status, Status::KOSHI_E_ARGUMENT);
}

fn supervisions_and_graphs_that_cannot_be_walked<F: Face>(_: ChainBackend) {
    for fst in [
        "0 1 1 1;1 2 1 1;1",         // arcs behind the last frame, for which there is no row
        "0 1 1 1;1 2 1 1;1;2",       // final states of two times
        "0 1 1 1;1 1 1 1;1",         // a cycle
        "0 1 1 1;0 2 1 1;1 2 1 1;2", // a state of two times
        "0 1 1 1;2 1 1 1;1",         // a state that is not reached
        "0 1 1 1;1 Infinity",        // nothing final
    ] {
        let fault = F::supervision(&supervision([1, 1, 2], fst)).err().unwrap_or_else(|| panic!("{fst} was read"));
        assert_eq!(fault.status, Status::KOSHI_E_GRAPH, "{fst}: {}", fault.message);
    }
    // What leaves a state: more than 0, less than 100, final weights included.
    let out_of = |probs: &[f32], final_cost: f32| {
        let mut source = graph(vec![probs.iter().map(|&prob| arc(0, prob, 0)).collect()]);
        source.states[0].0 = final_cost;
        F::den(&bytes(&source), 1).map(|_| ()).map_err(|fault| fault.status)
    };
    assert_eq!(out_of(&[99.0], f32::INFINITY), Ok(()));
    assert_eq!(out_of(&[50.0, 51.0], f32::INFINITY), Err(Status::KOSHI_E_GRAPH));
    assert_eq!(out_of(&[99.0], -2f32.ln()), Err(Status::KOSHI_E_GRAPH));
    assert_eq!(out_of(&[], f32::INFINITY), Err(Status::KOSHI_E_GRAPH));
    assert_eq!(out_of(&[], 0.0), Ok(()));
}

/// Sums of such scores round by more than 1: no occupancy may then be more than 1, let alone infinite.
fn occupancies_of_enormous_scores<F: Face>(backend: ChainBackend) {
    let den = two_pdfs::<F>();
    for text in two_of_two() {
        let said = F::supervision(&text).unwrap();
        for seed in 0..20 {
            for size in [1e18, 1e30, f32::MAX] {
                let scores = Random(seed).scores(4, 2, size);
                let found = F::numerator(&said, &scores).unwrap();
                assert!(found.deriv.iter().all(|value| (0.0..=2.0).contains(value)), "{found:?}");
                let config = ChainConfig { out_of_range_regularize: 0.0, ..config(backend) };
                let found = F::objf(&den, &said, &config, &scores, None).unwrap();
                assert!(found.is_finite() && found.deriv.iter().all(|value| value.abs() <= 2.0), "{found:?}");
            }
        }
    }
}

/// No path of the graph has more than two arcs, and nothing leaks: longer sequences count as -10 a frame and get no
/// derivative, whatever became of the numbers behind the frame where all was lost. Others of the batch do.
fn graphs_that_end_too_soon<F: Face>(backend: ChainBackend) {
    let mut source = graph(vec![vec![arc(0, 1.0, 1)], vec![arc(1, 1.0, 2)], vec![]]);
    source.states[2].0 = 0.0;
    let den = F::den(&bytes(&source), 2).unwrap();
    let config = ChainConfig { leaky_hmm_coefficient: 0.0, ..config(backend) };
    for frames in 3..=7 {
        let scores = Random(frames as u64).scores(2 * frames, 2, 3.0);
        let found = F::denominator(&den, &config, &scores, 2, None).unwrap();
        assert!(!found.ok && found.value == -20.0 * frames as f64, "{found:?}");
        assert!(found.deriv.iter().all(|value| *value == 0.0), "{found:?}");
        let short = F::denominator(&den, &config, &scores, 2, Some(&[2, 0])).unwrap();
        let found = F::denominator(&den, &config, &scores, 2, Some(&[2, frames as u32])).unwrap();
        assert!(short.ok && !found.ok && found.is_finite());
        // By hand: 1 of 3 starts has two arcs, and all of the third part of the other has no frame.
        let expected = f64::from(scores.data[0]) + f64::from(scores.data[5]) + (1f64 / 3.0).ln();
        assert!((short.value - expected).abs() < 1e-5, "{} {expected}", short.value);
        assert!((found.value - (expected - 10.0 * frames as f64)).abs() < 1e-5, "{} {expected}", found.value);
        assert_eq!(found.deriv, short.deriv);
        assert!((found.deriv[0] - 1.0).abs() < 1e-5 && (found.deriv[5] - 1.0).abs() < 1e-5);
    }
}

/// Final costs included. And where one sequence has no probability, nothing is added for the others either.
fn merged_values_are_sums<F: Face>(_: ChainBackend) {
    for text in two_of_two() {
        let said = F::supervision(&text).unwrap();
        let merged = F::merge(&[&said, &said, &said]).unwrap();
        let scores = Random(17).scores(4, 2, 3.0);
        let one = F::numerator(&said, &scores).unwrap();
        let rows = |values: &[f32]| -> Vec<f32> { values.chunks(4).flat_map(|frame| frame.repeat(3)).collect() };
        let three = Scores::dense(&rows(&scores.data), 2);
        let found = F::numerator(&merged, &three).unwrap();
        assert!((found.value - 3.0 * one.value).abs() < 1e-9, "{} {}", found.value, one.value);
        assert!(found.deriv.iter().zip(rows(&one.deriv)).all(|(value, one)| (value - one).abs() < 1e-6));
        let mut bad = three.clone();
        bad.data[10..12].fill(f32::NAN);
        let found = F::numerator(&merged, &bad).unwrap();
        assert!(!found.ok && found.value == -120.0 && found.deriv.iter().all(|value| *value == 0.0), "{found:?}");
    }
}
