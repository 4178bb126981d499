//! What is printed.

use koshi::transducer::Hypotheses;
use koshi::{Error, Result};
use serde::Serialize;

#[derive(Serialize)]
struct Printed<'a> {
    nbest: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    labels: &'a [i32],
    score: f64,
    normalised_score: f64,
    full_score: f64,
    frames: &'a [u32],
    finished: bool,
}

/// The list as a line of JSON.
pub fn nbest(hypotheses: &Hypotheses) -> Result<String> {
    let entries = hypotheses.list.iter().map(|hypothesis| Entry {
        labels: &hypothesis.labels,
        score: hypothesis.score,
        normalised_score: hypothesis.normalised_score,
        full_score: hypothesis.full_score,
        frames: &hypothesis.frames,
        finished: hypothesis.finished,
    });
    let text = serde_json::to_string(&Printed { nbest: entries.collect() });
    text.map(|text| text + "\n").map_err(|error| Error::Internal(format!("JSON: {error}")))
}
