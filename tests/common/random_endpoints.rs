//! Random graphs with rows and rules of end points.
#![allow(dead_code)] // each test file uses its own part

use std::sync::Arc;

use super::graph::Rng;
use super::random_search::{COLUMNS, random_config, random_graph, random_rows};
use super::reference::Reference;
use koshi::decoder::{BackendChoice, Channel, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph, VecSource};
use koshi::lattice::Path;
use koshi::search::{Endpoint, EndpointAction, EndpointConfig, EndpointRule, Rows, SearchConfig, Silence};

pub const SHIFT: f64 = 0.03;

/// Rules whose times are some frames, less or more than a rounding error.
fn random_rules(rng: &mut Rng) -> [EndpointRule; EndpointRule::COUNT] {
    [(); EndpointRule::COUNT].map(|()| {
        let frames = |rng: &mut Rng, most: u64| match rng.below(4) {
            0 => 0.0,
            1 if rng.below(4) == 0 => f64::INFINITY,
            _ => rng.below(most) as f64 * SHIFT,
        };
        EndpointRule {
            must_contain_nonsilence: rng.below(2) == 0,
            min_trailing_silence: frames(rng, 5) + SHIFT,
            max_relative_cost: [0.0, 1.0, 4.0, f32::INFINITY][rng.below(4) as usize],
            min_utterance_length: frames(rng, 12),
        }
    })
}

fn random_silence(rng: &mut Rng) -> Silence {
    let labels = |rng: &mut Rng, most: u64| (1..=most as i32).filter(|_| rng.below(2) == 0).collect();
    if rng.below(2) == 0 { Silence::Ilabels(labels(rng, COLUMNS)) } else { Silence::Olabels(labels(rng, 4)) }
}

/// A graph, rows and rules.
pub struct Case {
    pub name: String,
    pub source: VecSource,
    pub search: SearchConfig,
    pub rows: Vec<f32>,
    pub config: EndpointConfig,
}

impl Case {
    pub fn new(case: u64, frames: u64, action: EndpointAction) -> (Case, Rng) {
        let mut rng = Rng(case.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let source = random_graph(&mut rng);
        let search = SearchConfig { candidate_capacity: u64::MAX, ..random_config(&mut rng) };
        let rows = random_rows(&mut rng, frames);
        let (rules, silence) = (random_rules(&mut rng), random_silence(&mut rng));
        let config = EndpointConfig { rules, silence, action, segments_kept: 1000 };
        let name = format!("case {case}: {source:?} {search:?} {config:?}");
        (Case { name, source, search, rows, config }, rng)
    }

    pub fn rows(&self) -> Rows<'_> {
        Rows::dense(&self.rows, COLUMNS as usize).unwrap()
    }

    /// A decoder with these rules, whose queues are searched in chunks of `chunk_frames`.
    pub fn decoder(&self, backend: BackendChoice, chunk_frames: u32) -> Arc<Decoder> {
        let graph = Arc::new(Graph::from_source(&self.source, Columns::Labels).unwrap());
        let config = DecoderConfig {
            search: self.search,
            backend,
            num_lanes: 2,
            num_threads: 1,
            frame_shift: SHIFT,
            chunk_frames,
            ..DecoderConfig::default()
        };
        let decoder = Decoder::new(graph, config).unwrap();
        decoder.set_endpoint_rules(Some(&self.config)).unwrap();
        decoder
    }

    /// A channel that has begun, if the graph lets it.
    pub fn channel(&self, backend: BackendChoice) -> Option<Channel> {
        let mut channel = self.decoder(backend, 32).new_channel().unwrap();
        channel.begin().ok().map(|()| channel)
    }
}

/// Silence at the end of a path, frame by frame from its first.
pub fn trailing_silence(path: &Path, silence: &Silence) -> u64 {
    let silent = |frame: usize| match silence {
        Silence::Ilabels(labels) => labels.contains(&path.ilabels[frame]),
        Silence::Olabels(labels) => {
            let words = path.frames.iter().filter(|&&start| start as usize <= frame).count();
            words == 0 || labels.contains(&path.olabels[words - 1])
        }
        Silence::Phones(_) => unreachable!(),
    };
    (0..path.ilabels.len()).fold(0, |silence, frame| if silent(frame) { silence + 1 } else { 0 })
}

/// The rules as their definition reads.
pub fn holds(rule: &EndpointRule, frames: u64, silence: u64, relative_cost: f32) -> bool {
    let reached = |frames: u64, seconds: f64| frames as f64 >= (seconds / SHIFT - 1e-4).ceil();
    (!rule.must_contain_nonsilence || frames > silence)
        && reached(silence, rule.min_trailing_silence)
        && relative_cost <= rule.max_relative_cost
        && reached(frames, rule.min_utterance_length)
}

/// The end point at the reference's last time, if the rules hold there.
pub fn endpoint(reference: &Reference, config: &EndpointConfig) -> Option<Endpoint> {
    let (frames, relative_cost) = (reference.tokens.len() as u64 - 1, reference.final_relative_cost());
    let silence = trailing_silence(&reference.whole_best_path(), &config.silence);
    let rule = config.rules.iter().position(|rule| holds(rule, frames, silence, relative_cost))?;
    Some(Endpoint { rule: rule as u32 + 1, frames, trailing_silence: silence, relative_cost })
}
