//! End points: the rules by which an utterance is found to have ended, tested after every frame on
//! the best path without finals. The rules are Kaldi's (`online-endpoint.h`).

use crate::error::{Error, Result, try_reserve};
use crate::graph::Graph;

/// One rule. All that it says must hold; times in seconds, `+inf` for never.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EndpointRule {
    /// Whether the best path must have a frame that is not silence.
    pub must_contain_nonsilence: bool,
    /// Least silence at the end of the best path.
    pub min_trailing_silence: f64,
    /// Most cost of the best final token above the best token; `+inf` where finals do not matter.
    pub max_relative_cost: f32,
    /// Least length of the utterance.
    pub min_utterance_length: f64,
}

const fn rule(nonsilence: bool, silence: f64, cost: f32, length: f64) -> EndpointRule {
    EndpointRule {
        must_contain_nonsilence: nonsilence,
        min_trailing_silence: silence,
        max_relative_cost: cost,
        min_utterance_length: length,
    }
}

impl EndpointRule {
    /// How many rules there are.
    pub const COUNT: usize = 5;

    /// Silence alone for five seconds; silence behind speech for half a second at a likely end, for
    /// one at a possible end, for two anywhere; twenty seconds of whatever.
    pub const DEFAULTS: [EndpointRule; Self::COUNT] = [
        rule(false, 5.0, f32::INFINITY, 0.0),
        rule(true, 0.5, 2.0, 0.0),
        rule(true, 1.0, 8.0, 0.0),
        rule(true, 2.0, f32::INFINITY, 0.0),
        rule(false, 0.0, f32::INFINITY, 20.0),
    ];

    /// Refuses values outside their ranges, naming rule `number`.
    fn check(&self, number: usize) -> Result<()> {
        let least = [
            ("min_trailing_silence", self.min_trailing_silence),
            ("max_relative_cost", f64::from(self.max_relative_cost)),
            ("min_utterance_length", self.min_utterance_length),
        ];
        match least.iter().find(|(_, value)| value.is_nan() || *value < 0.0) {
            Some((name, value)) => {
                Err(Error::Config(format!("{name} of rule {number} is {value}; it must be 0 or more")))
            }
            None => Ok(()),
        }
    }
}

/// What counts as silence.
#[derive(Clone, Debug, PartialEq)]
pub enum Silence {
    /// Frames whose transition-id is of one of these phones. The graph must have its transition model.
    Phones(Vec<i32>),
    /// Frames whose input label is one of these.
    Ilabels(Vec<i32>),
    /// Frames behind the start of one of these words, up to the next word, and those before the
    /// first word. A word starts with the frame whose arc has its label, or that follows such an arc.
    Olabels(Vec<i32>),
}

/// What is done at an end point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointAction {
    /// It is noted, and the search goes on.
    Note,
    /// The push stops behind it; the next one goes on.
    Stop,
    /// The utterance is closed there as a segment, and a new one begins with the next frame.
    Segment,
}

/// Options of end points.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointConfig {
    /// Tried in order; the first that holds is the one that is named.
    pub rules: [EndpointRule; EndpointRule::COUNT],
    /// What counts as silence.
    pub silence: Silence,
    /// What is done at an end point.
    pub action: EndpointAction,
    /// With [`EndpointAction::Segment`], how many closed segments keep their results.
    pub segments_kept: u32,
}

/// Where an utterance ends by the rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Endpoint {
    /// Which rule held, from 1.
    pub rule: u32,
    /// Frames searched by then.
    pub frames: u64,
    /// How many of the last ones are silence on the best path.
    pub trailing_silence: u64,
    /// Cost of the best final token above the best token then; `+inf` where none was final.
    pub relative_cost: f32,
}

/// Rules in frames, for one graph.
#[derive(Debug)]
pub struct EndpointRules {
    rules: [FrameRule; EndpointRule::COUNT],
    /// Silent labels in ascending order; of words, or else of frames.
    silent: Vec<i32>,
    by_word: bool,
    /// Least final cost of the graph.
    least_final: f32,
    /// What is done at an end point.
    pub action: EndpointAction,
    /// How many closed segments keep their results.
    pub segments_kept: usize,
}

#[derive(Clone, Copy, Debug)]
struct FrameRule {
    must_contain_nonsilence: bool,
    min_trailing_silence: u64,
    max_relative_cost: f32,
    min_frames: u64,
}

/// Frames that make up `seconds`, less what rounding may have added: 0.3 s are 10 frames of 0.03 s,
/// not 11.
fn frames_of(seconds: f64, frame_shift: f64) -> u64 {
    // The conversion saturates: +inf becomes the largest number, which is never reached.
    (seconds / frame_shift - 1e-4).ceil() as u64
}

impl EndpointRules {
    /// [`Error::Config`] names a rule's value out of its range, [`Error::Argument`] a label that is not
    /// positive, a phone that the model has not, or phones where there is no model.
    pub fn new(config: &EndpointConfig, frame_shift: f64, graph: &Graph) -> Result<EndpointRules> {
        for (at, rule) in config.rules.iter().enumerate() {
            rule.check(at + 1)?;
        }
        let rules = config.rules.map(|rule| FrameRule {
            must_contain_nonsilence: rule.must_contain_nonsilence,
            min_trailing_silence: frames_of(rule.min_trailing_silence, frame_shift),
            max_relative_cost: rule.max_relative_cost,
            min_frames: frames_of(rule.min_utterance_length, frame_shift),
        });
        let mut silent = match &config.silence {
            Silence::Phones(phones) => ids_of(phones, graph)?,
            Silence::Ilabels(labels) | Silence::Olabels(labels) => positive(labels)?,
        };
        silent.sort_unstable();
        Ok(EndpointRules {
            rules,
            silent,
            by_word: matches!(config.silence, Silence::Olabels(_)),
            least_final: graph.finals().iter().map(|last| last.cost).fold(f32::INFINITY, f32::min),
            action: config.action,
            segments_kept: config.segments_kept as usize,
        })
    }

    /// Whether a frame with input label `ilabel` is silence, `word` being the last word on its path.
    pub(super) fn is_silent(&self, ilabel: i32, word: Option<i32>) -> bool {
        let label = if self.by_word { word } else { Some(ilabel) };
        label.is_none_or(|label| self.silent.binary_search(&label).is_ok())
    }

    /// The first rule that holds, from 1. `within` answers whether a final token's cost above the
    /// best token is at most some value; it is asked only where that decides.
    pub(super) fn first_that_holds(&self, frames: u64, silence: u64, within: impl Fn(f32) -> bool) -> Option<u32> {
        let holds = |rule: &FrameRule| {
            (frames > silence || !rule.must_contain_nonsilence)
                && silence >= rule.min_trailing_silence
                && frames >= rule.min_frames
                && (rule.max_relative_cost == f32::INFINITY || within(rule.max_relative_cost))
        };
        (1..).zip(&self.rules).find(|(_, rule)| holds(rule)).map(|(number, _)| number)
    }

    /// Whether a token, given with its state and cost above the best, ends within `most`.
    pub(super) fn ends_within(&self, graph: &Graph, mut tokens: impl Iterator<Item = (u32, f32)>, most: f32) -> bool {
        // The sum with the least final cost bounds all sums, rounding included; finals are looked up
        // only for what is left.
        tokens.any(|(state, cost)| cost + self.least_final <= most && cost + graph.final_cost(state) <= most)
    }
}

/// The labels themselves.
fn positive(labels: &[i32]) -> Result<Vec<i32>> {
    match labels.iter().find(|label| **label <= 0) {
        Some(label) => Err(Error::Argument(format!("silence label {label} is not above 0"))),
        None => crate::error::try_copy(labels, "silence labels"),
    }
}

/// The transition-ids of some phones.
fn ids_of(phones: &[i32], graph: &Graph) -> Result<Vec<i32>> {
    let no_model = "silence by phones needs a graph that was read with its transition model; give labels";
    let model = graph.transitions().ok_or_else(|| Error::Argument(no_model.into()))?;
    if let Some(phone) = phones.iter().find(|phone| !model.phones().contains(phone)) {
        return Err(Error::Argument(format!("silence phone {phone} is not in the transition model")));
    }
    let mut ids = Vec::new();
    try_reserve(&mut ids, model.num_ids().max(0) as usize, "silence labels")?;
    ids.extend((1..=model.num_ids()).filter(|&id| model.phone(id).is_some_and(|phone| phones.contains(&phone))));
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_frames_without_an_extra_one() {
        let cases = [(0.3, 0.03, 10), (0.5, 0.01, 50), (20.0, 0.01, 2000), (0.1, 0.03, 4), (0.0, 0.01, 0)];
        for (seconds, shift, frames) in cases {
            assert_eq!(frames_of(seconds, shift), frames, "{seconds} s at {shift} s");
        }
        assert_eq!(frames_of(f64::INFINITY, 0.01), u64::MAX);
        for shift in [0.01, 0.02, 0.03, 0.04, 0.06] {
            for frames in 0..10_000u64 {
                assert_eq!(frames_of(frames as f64 * shift, shift), frames, "{frames} frames of {shift} s");
            }
        }
    }
}
