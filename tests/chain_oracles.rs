//! Chain training beside Kaldi: graphs, supervisions, forward-backward and objectives that it computed, on the CPU and on
//! the software GPU.
//!
//! Where Kaldi's numbers are not finite, ours must be; all others must agree.

mod common;
#[path = "support/shared.rs"]
mod shared;

use std::path::PathBuf;

use koshi::chain::{
    ChainBackend, ChainConfig, DenominatorGraph, Scores, ScoresMut, Supervision, SupervisionHolder, Transition,
    chain_objective, penalize_out_of_range,
};
use koshi::table::{Holder, Output};
use serde_json::Value;

struct Oracles {
    folder: PathBuf,
    index: Value,
}

/// An array of numpy's.
struct Npy {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Npy {
    fn floats(&self) -> Vec<f32> {
        self.bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    fn ints(&self) -> Vec<i32> {
        self.bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
    }
}

impl Oracles {
    fn open() -> Option<Oracles> {
        let folder = shared::shared("oracles/chain")?;
        let text = std::fs::read_to_string(folder.join("index.json")).unwrap();
        Some(Oracles { folder, index: serde_json::from_str(&text).unwrap() })
    }

    fn bytes(&self, name: &Value) -> Vec<u8> {
        shared::read(&self.folder.join(name.as_str().unwrap()))
    }

    fn npy(&self, name: &Value, kind: &str) -> Npy {
        let bytes = self.bytes(name);
        assert_eq!(&bytes[..8], b"\x93NUMPY\x01\0");
        let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
        let header = std::str::from_utf8(&bytes[10..end]).unwrap();
        assert!(header.contains(kind) && header.contains("'fortran_order': False"), "{header}");
        let shape = header.split_once("'shape': (").unwrap().1.split_once(')').unwrap().0;
        let shape = shape.split(',').filter_map(|size| size.trim().parse().ok()).collect();
        Npy { shape, bytes: bytes[end..].to_vec() }
    }

    fn named(&self, list: &str, name: &Value) -> &Value {
        self.index[list].as_array().unwrap().iter().find(|entry| entry["name"] == *name).unwrap()
    }

    fn graph(&self, name: &Value) -> DenominatorGraph {
        let entry = self.named("graphs", name);
        let pdfs = entry["num_pdfs"].as_u64().unwrap() as usize;
        DenominatorGraph::from_memory(&self.bytes(&entry["fst"]), pdfs).unwrap()
    }

    fn supervision(&self, name: &Value) -> Supervision {
        Supervision::from_memory(&self.bytes(&self.named("supervisions", name)["binary"])).unwrap()
    }

    fn input(&self, name: &Value) -> Input {
        let npy = self.npy(&self.named("inputs", name)["file"], "'<f4'");
        Input { rows: npy.shape[0], cols: npy.shape[1], data: npy.floats() }
    }

    fn cases(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.index["cases"].as_array().unwrap().iter().filter(move |case| case["kind"] == kind)
    }
}

struct Input {
    rows: usize,
    cols: usize,
    data: Vec<f32>,
}

impl Input {
    fn scores(&self) -> Scores<'_> {
        Scores::new(&self.data, self.rows, self.cols, self.cols).unwrap()
    }

    fn zeros(&self) -> Vec<f32> {
        vec![0.0; self.data.len()]
    }

    fn mutable<'a>(&self, data: &'a mut [f32]) -> ScoresMut<'a> {
        ScoresMut::new(data, self.rows, self.cols, self.cols).unwrap()
    }
}

/// A number of the index; "nan" and the like are texts there.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

const BACKENDS: [ChainBackend; 2] = [ChainBackend::Cpu, ChainBackend::Cuda];

fn config(case: &Value, backend: ChainBackend) -> ChainConfig {
    if backend == ChainBackend::Cuda {
        common::gpu();
    }
    let option = |name: &str| case[name].as_f64().unwrap_or(0.0) as f32;
    let drawn = case["penalty_drawn"].as_bool().unwrap_or(false);
    ChainConfig {
        backend,
        num_threads: 2,
        l2_regularize: option("l2_regularize"),
        // Kaldi applies it in half of the calls, doubled.
        out_of_range_regularize: if drawn { 2.0 * option("out_of_range_regularize") } else { 0.0 },
        leaky_hmm_coefficient: option("leaky_hmm_coefficient"),
        xent_regularize: option("xent_regularize"),
        ..ChainConfig::default()
    }
}

/// The backends agree to 1e-5, relative and absolute, wherever Kaldi's numbers are.
fn backends_agree(id: &str, cpu: &[f32], gpu: &[f32]) {
    for (at, (&cpu, &gpu)) in cpu.iter().zip(gpu).enumerate() {
        assert!(
            (cpu - gpu).abs() <= 1e-5 * cpu.abs().max(1.0),
            "{id}: element {at} is {gpu} on the GPU, {cpu} on the CPU"
        );
    }
}

fn agree(id: &str, what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!(found.is_finite(), "{id}: {what} is {found}");
    if expected.is_finite() {
        let allowed = tolerance * expected.abs().max(1.0);
        assert!((found - expected).abs() <= allowed, "{id}: {what} is {found}, Kaldi has {expected}");
    }
}

/// Derivatives agree to 1e-5 absolutely.
fn all_agree(id: &str, what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{id}: {what}");
    for (at, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        assert!(found.is_finite(), "{id}: {what}[{at}] is {found}");
        if expected.is_finite() {
            let allowed = 1e-5 * expected.abs().max(1.0);
            assert!((found - expected).abs() <= allowed, "{id}: {what}[{at}] is {found}, Kaldi has {expected}");
        }
    }
}

#[test]
fn graphs_are_laid_out_as_kaldis() {
    let Some(oracles) = Oracles::open() else { return };
    let mut checked = 0;
    for entry in oracles.index["graphs"].as_array().unwrap() {
        let graph = oracles.graph(&entry["name"]);
        let name = entry["name"].as_str().unwrap();
        assert_eq!(graph.num_states() as u64, entry["num_states"].as_u64().unwrap(), "{name}");
        assert_eq!(graph.transitions().len() as u64, entry["num_transitions"].as_u64().unwrap(), "{name}");
        if let Some(text) = entry.get("fst_text") {
            let source = koshi::graph::VecSource::from_text(name, &String::from_utf8(oracles.bytes(text)).unwrap());
            let again = DenominatorGraph::from_source(&source.unwrap(), graph.num_pdfs()).unwrap();
            assert_eq!(again.transitions().len(), graph.transitions().len(), "{name}");
        }
        if let Some(nonzero) = entry.get("initial_probs_nonzero") {
            let mut expected = vec![0.0; graph.num_states()];
            for pair in nonzero.as_array().unwrap() {
                expected[pair[0].as_u64().unwrap() as usize] = pair[1].as_f64().unwrap() as f32;
            }
            close_probs(name, graph.initial_probs(), &expected);
            checked += 1;
            continue;
        }
        let arrays = &entry["arrays"];
        for (range, name) in [
            (graph.forward_transitions(), "forward_transitions"),
            (graph.backward_transitions(), "backward_transitions"),
        ] {
            let flat: Vec<i32> = range.iter().flat_map(|&(begin, end)| [begin as i32, end as i32]).collect();
            assert_eq!(flat, oracles.npy(&arrays[name], "'<i4'").ints(), "{name}");
        }
        let pdfs = oracles.npy(&arrays["transition_pdf"], "'<i4'").ints();
        let states = oracles.npy(&arrays["transition_state"], "'<i4'").ints();
        let probs = oracles.npy(&arrays["transition_prob"], "'<f4'").floats();
        for (at, Transition { prob, pdf, state }) in graph.transitions().iter().enumerate() {
            assert_eq!((*pdf, *state), (pdfs[at], states[at]), "{name}: transition {at}");
            assert!((prob - probs[at]).abs() <= 1e-6 * probs[at], "{name}: transition {at}: {prob} {}", probs[at]);
        }
        close_probs(name, graph.initial_probs(), &oracles.npy(&arrays["initial_probs"], "'<f4'").floats());
        checked += 1;
    }
    assert!(checked >= 5);
}

fn close_probs(name: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    for (state, (&found, &expected)) in found.iter().zip(expected).enumerate() {
        assert!(found.is_finite() && (0.0..=1.0).contains(&found), "{name}: state {state}: {found}");
        let close = expected.is_nan() || (found - expected).abs() <= 1e-7;
        assert!(close, "{name}: state {state}: {found} where Kaldi has {expected}");
    }
}

#[test]
fn supervisions_are_read_written_and_merged() {
    let Some(oracles) = Oracles::open() else { return };
    for entry in oracles.index["supervisions"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        let binary = oracles.supervision(&entry["name"]);
        let text = Supervision::from_memory(&oracles.bytes(&entry["text"])).unwrap();
        assert_eq!(f64::from(binary.weight()), entry["weight"].as_f64().unwrap() as f32 as f64, "{name}");
        for (found, key) in [
            (binary.num_sequences(), "num_sequences"),
            (binary.frames_per_sequence(), "frames_per_sequence"),
            (binary.num_pdfs(), "label_dim"),
            (binary.fsts()[0].num_states(), "num_states"),
            (binary.fsts()[0].num_arcs(), "num_arcs"),
            (binary.alignment_pdfs().len(), "num_alignment_pdfs"),
        ] {
            assert_eq!(found as u64, entry[key].as_u64().unwrap(), "{name}: {key}");
        }
        assert_eq!(binary.is_end_to_end(), entry["end2end"].as_bool().unwrap(), "{name}");
        // The text has fewer digits; written once more it must be the same text.
        for (form, supervision) in [(true, &binary), (false, &text)] {
            let mut output = Output::memory();
            SupervisionHolder::write(&mut output, supervision, form).unwrap();
            let bytes = output.into_bytes();
            assert_eq!(&Supervision::from_memory(&bytes).unwrap(), supervision, "{name}");
            if !form {
                let written = String::from_utf8(bytes).unwrap();
                let kaldi = String::from_utf8(oracles.bytes(&entry["text"])).unwrap();
                assert_eq!(written.trim_end(), kaldi.trim_end(), "{name}");
            }
        }
        let Some(parts) = entry.get("merged_from") else { continue };
        let parts: Vec<Supervision> = parts.as_array().unwrap().iter().map(|part| oracles.supervision(part)).collect();
        let merged = Supervision::merge(&parts).unwrap();
        assert_eq!(merged.num_sequences(), binary.num_sequences(), "{name}");
        for (merged, kaldi) in merged.fsts().iter().zip(binary.fsts()) {
            assert_eq!(merged.num_states(), kaldi.num_states(), "{name}");
            for state in 0..kaldi.num_states() {
                assert_eq!(merged.arcs(state), kaldi.arcs(state), "{name}: state {state}");
            }
            assert_eq!(merged.finals(), kaldi.finals(), "{name}");
        }
    }
}

#[test]
fn denominators() {
    let Some(oracles) = Oracles::open() else { return };
    let mut count = 0;
    for case in oracles.cases("denominator") {
        let id = case["id"].as_str().unwrap();
        let (graph, input) = (oracles.graph(&case["graph"]), oracles.input(&case["input"]));
        let n = case["num_sequences"].as_u64().unwrap() as usize;
        let run = |backend| {
            let (mut deriv, mut log_probs) = (input.zeros(), vec![0.0; n]);
            let weight = case["deriv_weight"].as_f64().unwrap() as f32;
            let target = Some((weight, &mut input.mutable(&mut deriv)));
            let (config, places) = (config(case, backend), Some(&mut log_probs[..]));
            let found = graph.forward_backward(&config, input.scores(), n, None, target, places).unwrap();
            (found, deriv, log_probs)
        };
        let [cpu, gpu] = BACKENDS.map(run);
        assert_eq!(cpu.0.ok, gpu.0.ok, "{id}");
        agree(id, "logprob of the GPU", gpu.0.log_prob, cpu.0.log_prob, 1e-5);
        backends_agree(id, &cpu.1, &gpu.1);
        let result = &case["result"];
        for (found, deriv, log_probs) in [cpu, gpu] {
            agree(id, "logprob", found.log_prob, number(&result["logprob"]), 1e-5);
            if number(&result["logprob"]).is_finite() {
                assert_eq!(found.ok, result["backward_ok"].as_bool().unwrap(), "{id}");
            } else {
                assert!(!found.ok, "{id}");
            }
            if let Some(each) = result.get("per_sequence_logprob") {
                for (found, expected) in log_probs.iter().zip(each.as_array().unwrap()) {
                    agree(id, "logprob of a sequence", *found, number(expected), 1e-5);
                }
            }
            all_agree(id, "derivative", &deriv, &oracles.npy(&case["files"]["den_deriv"], "'<f4'").floats());
        }
        count += 1;
    }
    assert!(count > 10);
}

#[test]
fn numerators() {
    let Some(oracles) = Oracles::open() else { return };
    let mut count = 0;
    for (kind, key) in [("numerator", "logprob_weighted"), ("numerator_e2e", "logprob_unweighted")] {
        for case in oracles.cases(kind) {
            let id = case["id"].as_str().unwrap();
            let (supervision, input) = (oracles.supervision(&case["supervision"]), oracles.input(&case["input"]));
            let mut deriv = input.zeros();
            let found = supervision.forward_backward(input.scores(), Some(&mut input.mutable(&mut deriv))).unwrap();
            if case["id"] != "nan_on_num" {
                agree(id, "logprob", found.log_prob, number(&case["result"][key]), 1e-6);
            }
            let expected = oracles.npy(&case["files"]["num_deriv"], "'<f4'").floats();
            // Kaldi goes on where a score is NaN; here nothing is then added.
            let finite = expected.iter().all(|value| value.is_finite());
            assert_eq!(found.ok, finite, "{id}");
            if finite {
                all_agree(id, "derivative", &deriv, &expected);
            } else {
                assert!(deriv.iter().all(|value| *value == 0.0), "{id}");
            }
            count += 1;
        }
    }
    assert!(count > 15);
}

#[test]
fn objectives() {
    let Some(oracles) = Oracles::open() else { return };
    let mut count = 0;
    for case in oracles.cases("objf").chain(oracles.cases("objf_e2e")) {
        let id = case["id"].as_str().unwrap();
        let (graph, input) = (oracles.graph(&case["graph"]), oracles.input(&case["input"]));
        let supervision = oracles.supervision(&case["supervision"]);
        let supervision = supervision.with_weight(case["supervision_weight"].as_f64().unwrap() as f32).unwrap();
        let result = &case["result"];
        let run = |backend| {
            let (mut deriv, mut xent) = (vec![7.0; input.data.len()], vec![f32::NAN; input.data.len()]);
            let want = case["deriv_requested"].as_bool().unwrap();
            let found = chain_objective(
                &graph,
                &supervision,
                &config(case, backend),
                input.scores(),
                want.then_some(&mut input.mutable(&mut deriv)),
                Some(&mut input.mutable(&mut xent)),
                None,
            );
            (found.unwrap(), deriv, xent)
        };
        let [cpu, gpu] = BACKENDS.map(run);
        assert_eq!(cpu.0.ok, gpu.0.ok, "{id}");
        agree(id, "objf of the GPU", gpu.0.objf, cpu.0.objf, 1e-5);
        agree(id, "l2 term of the GPU", gpu.0.l2_term, cpu.0.l2_term, 1e-5);
        backends_agree(id, &cpu.1, &gpu.1);
        backends_agree(id, &cpu.2, &gpu.2);
        count += 1;
        for (found, deriv, xent) in [cpu, gpu] {
            agree(id, "l2 term", found.l2_term, number(&result["l2_term"]), 1e-5);
            agree(id, "weight", found.weight, number(&result["weight"]), 1e-6);
            if id.starts_with("nan_on_objf") {
                // Kaldi keeps a finite objective with NaN derivatives, or not: here it is always given up.
                assert!(!found.ok && found.objf == -10.0 * found.weight, "{id}: {found:?}");
                assert!(deriv.iter().chain(&xent).all(|value| value.is_finite()), "{id}");
                continue;
            }
            agree(id, "objf", found.objf, number(&result["objf"]), 1e-5);
            assert_eq!(!found.ok, result["fell_back_to_default_objf"].as_bool().unwrap(), "{id}");
            for (name, found) in [("nnet_output_deriv", &deriv), ("xent_output_deriv", &xent)] {
                if let Some(file) = case["files"].get(name) {
                    all_agree(id, name, found, &oracles.npy(file, "'<f4'").floats());
                }
            }
        }
    }
    assert!(count > 20);
}

#[test]
fn penalties() {
    let Some(oracles) = Oracles::open() else { return };
    for case in oracles.cases("penalize_out_of_range") {
        let input = oracles.input(&case["input"]);
        let mut deriv = input.zeros();
        let (limit, scale) = (case["limit"].as_f64().unwrap() as f32, case["scale"].as_f64().unwrap() as f32);
        penalize_out_of_range(limit, scale, input.scores(), &mut input.mutable(&mut deriv)).unwrap();
        let expected = oracles.npy(&case["files"]["penalty_deriv"], "'<f4'").floats();
        all_agree(case["id"].as_str().unwrap(), "penalty", &deriv, &expected);
    }
}
