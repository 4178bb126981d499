//! The reference lists of `shared/oracles/transducer`, through the library and through the command.

mod common;
#[path = "../src/bin/transducer/network.rs"]
mod network;
#[path = "support/shared.rs"]
mod shared;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use koshi::search::Rows;
use koshi::transducer::{SearchKind, Transducer, TransducerConfig};
use network::{Document, Network};
use serde_json::Value;

const CASES: usize = 5;

fn case(at: usize) -> Option<PathBuf> {
    shared::shared(&format!("oracles/transducer/case{at}.json"))
}

fn expected(path: &Path) -> Vec<Value> {
    let document: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    document["expected"].as_array().unwrap().clone()
}

/// Holds a list to the expected one: scores to 1e-3, and the same labels, except that entries whose scores are
/// closer than 1e-4 may stand in another order.
fn assert_list(found: &[(Vec<i32>, f64)], expected: &Value, what: &str) {
    let wanted: Vec<(Vec<i32>, f64)> = expected["nbest"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let labels = entry["yseq"].as_array().unwrap().iter().skip(1);
            (labels.map(|label| label.as_i64().unwrap() as i32).collect(), entry["score"].as_f64().unwrap())
        })
        .collect();
    assert_eq!(found.len(), wanted.len(), "{what}");
    for (at, ((labels, score), (wanted_labels, wanted_score))) in found.iter().zip(&wanted).enumerate() {
        assert!((score - wanted_score).abs() < 1e-3, "{what}, entry {at}: {score} for {wanted_score}");
        let tied = |(_, other): &&(Vec<i32>, f64)| (other - wanted_score).abs() < 1e-4;
        let may_be = labels == wanted_labels || wanted.iter().filter(tied).any(|(other, _)| other == labels);
        assert!(may_be, "{what}, entry {at}: {labels:?} for {wanted_labels:?}");
    }
    let missing = wanted.iter().find(|(labels, _)| !found.iter().any(|(found, _)| found == labels));
    assert!(missing.is_none(), "{what}: {missing:?} is missing");
}

fn config(expected: &Value) -> TransducerConfig {
    let search = match expected["search"].as_str().unwrap() {
        "greedy" => SearchKind::Greedy,
        "default" => SearchKind::Default,
        "tsd" => SearchKind::Tsd,
        "alsd" => SearchKind::Alsd,
        "nsc" => SearchKind::Nsc,
        other => panic!("{other}"),
    };
    let mut config = TransducerConfig { search, ..TransducerConfig::default() };
    for (name, value) in expected.as_object().unwrap() {
        let number = || value.as_u64().unwrap() as u32;
        match name.as_str() {
            "search" => {}
            "nbest" => config.nbest = value.as_array().unwrap().len() as u32,
            "beam" => config.beam = number(),
            "lm_weight" => config.lm_weight = value.as_f64().unwrap() as f32,
            "score_norm" => config.score_norm = value.as_bool().unwrap(),
            "max_sym_exp" => config.max_sym_exp = number(),
            "u_max" => config.u_max = number(),
            "nstep" => config.nstep = number(),
            "prefix_alpha" => config.prefix_alpha = number(),
            other => panic!("{other}"),
        }
    }
    config
}

#[test]
fn the_library_gives_the_reference_lists() {
    let mut lists = 0;
    for at in 0..CASES {
        let Some(path) = case(at) else { return };
        let document = Document::read(path.to_str().unwrap()).unwrap();
        let network = Arc::new(Network::new(document, "model").unwrap());
        assert!(network.has_lm());
        let rows = Rows::dense(network.encoder(), network.dim()).unwrap();
        let transducer = Transducer::new(Box::new(Arc::clone(&network))).unwrap();
        for expected in expected(&path) {
            let config = config(&expected);
            let found = transducer.search(&config, &[rows]).unwrap().pop().unwrap().unwrap();
            let found: Vec<_> = found.list.into_iter().map(|entry| (entry.labels, entry.score)).collect();
            assert_list(&found, &expected, &format!("case {at}, {config:?}"));
            lists += 1;
        }
        assert_eq!(transducer.call_counts().states, 0);
    }
    assert!(lists > 400, "{lists}");
}

#[test]
fn the_command_gives_the_reference_lists() {
    for at in 0..CASES {
        let Some(path) = case(at) else { return };
        // Each search with each of its settings, over the cases in turn: a process takes a while to start.
        for expected in expected(&path).into_iter().skip(at).step_by(3) {
            let mut command = Command::new(env!("CARGO_BIN_EXE_koshi-transducer"));
            for (name, value) in expected.as_object().unwrap() {
                let value = match value {
                    Value::Array(list) => list.len().to_string(),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                command.arg(format!("--{}={value}", name.replace('_', "-")));
            }
            let output = command.arg(&path).output().unwrap();
            let what = format!("case {at}, {command:?}");
            assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
            let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(printed.as_object().unwrap().keys().collect::<Vec<_>>(), ["nbest"]);
            let found = printed["nbest"].as_array().unwrap().iter().map(entry).collect::<Vec<_>>();
            assert_list(&found, &expected, &what);
        }
    }
}

/// Labels and score of a printed entry, whose other fields fit them.
fn entry(printed: &Value) -> (Vec<i32>, f64) {
    let mut names: Vec<&String> = printed.as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["finished", "frames", "full_score", "labels", "normalised_score", "score"]);
    let labels: Vec<i32> = serde_json::from_value(printed["labels"].clone()).unwrap();
    let frames: Vec<u32> = serde_json::from_value(printed["frames"].clone()).unwrap();
    let score = printed["score"].as_f64().unwrap();
    let normalised = printed["normalised_score"].as_f64().unwrap();
    assert!((normalised * (labels.len() as f64 + 1.0) - score).abs() < 1e-9);
    assert!(frames.len() == labels.len() && frames.is_sorted());
    assert!(printed["finished"].is_boolean() && printed["full_score"].as_f64().unwrap() <= score);
    (labels, score)
}
