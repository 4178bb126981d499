//! Structs shared with the kernels (`kernels/lane.cuh`), and how much memory a lane takes.

use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::search::SearchConfig;

use super::api::DevicePointer;

/// Threads of a block: `KOSHI_THREADS`.
pub(super) const THREADS: u32 = 256;

/// How a lane's launch ended: `KoshiStatus`.
pub(super) mod status {
    pub const DONE: u32 = 0;
    pub const OUTPUT_FULL: u32 = 1;
    pub const NO_TOKENS: u32 = 2;
    pub const OVERFLOW: u32 = 3;
    pub const CAPACITY: u32 = 4;
    pub const RANGE: u32 = 5;
    pub const WORKSPACE: u32 = 6;
}

/// Flags of a frame.
pub(super) const MAX_ACTIVE_HELD: u32 = 1;
pub(super) const CAPACITY_HELD: u32 = 2;

/// What a frame reports: `KoshiFrame`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct FrameReport {
    pub arcs: u64,
    pub out: u32,
    pub tokens: u32,
    pub links: u32,
    pub emitting: u32,
    pub all_tokens: u32,
    pub all_links: u32,
    pub closed: u32,
    pub flags: u32,
    pub theta: f32,
    pub wide: f32,
    pub best: f32,
    pub least: f32,
    pub cutoff: f32,
    pub next_beam: f32,
}

/// What a lane reports: `KoshiResult`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct LaneReport {
    pub frames: u32,
    pub status: u32,
    pub detail: u32,
    pub out_words: u32,
}

/// What a lane is given: `KoshiInput`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct LaneInput {
    /// Word of the input where the emitting tokens begin.
    pub emitters: u64,
    pub rows: DevicePointer,
    /// A list of phrases, or 0; with one, pairs of bias states and costs stand behind the emitting tokens.
    pub phrases: DevicePointer,
    pub num_emitters: u32,
    pub frames: u32,
    pub begin: u32,
    pub next_beam: f32,
}

/// The parameters of `koshi_k_decode`: `KoshiDecode`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct DecodeParameters {
    pub words: DevicePointer,
    pub inputs: DevicePointer,
    pub input: DevicePointer,
    pub work: DevicePointer,
    pub out: DevicePointer,
    pub frames: DevicePointer,
    pub results: DevicePointer,
    pub work_words: u64,
    pub out_words: u64,
    pub frames_per_lane: u32,
    pub num_columns: u32,
    pub wide: u32,
    pub start: u32,
    pub max_links: u32,
    pub max_tokens: u32,
    pub max_waiting: u32,
    pub hash_slots: u32,
    pub candidate_capacity: u32,
    pub token_capacity: u32,
    pub link_capacity: u32,
    pub max_active: u32,
    pub min_active: u32,
    pub beam: f32,
    pub lattice_beam: f32,
    pub beam_delta: f32,
}

/// The further parameters of `koshi_k_decode_biased`: `KoshiBias`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct BiasParameters {
    pub labels: [DevicePointer; 3],
    pub work: DevicePointer,
    pub work_words: u64,
}

/// The parameters of `koshi_k_rows`: `KoshiRows`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct RowsParameters {
    pub rows: DevicePointer,
    pub costs: DevicePointer,
    pub raw: DevicePointer,
    pub bad: DevicePointer,
    pub stride: u64,
    pub dim: u32,
    pub columns: u32,
    pub scale: f32,
    pub reserved: u32,
}

const _: () = assert!(size_of::<RowsParameters>() == 56);
const _: () = assert!(size_of::<FrameReport>() == 64);
const _: () = assert!(size_of::<LaneReport>() == 16);
const _: () = assert!(size_of::<LaneInput>() == 40);
const _: () = assert!(size_of::<BiasParameters>() == 40);
const _: () = assert!(size_of::<DecodeParameters>() == 136);

/// What `max_active` counts as for the capacities where it is larger or unbounded.
const MOST_ACTIVE: u64 = 50_000;
/// And where it is smaller.
const LEAST_ACTIVE: u64 = 1_000;
/// Tokens, and links beyond the capacities, that the working memory holds at least, where the graph has as
/// many: a closure is complete before a capacity on tokens or links is applied to it.
const CLOSURE_ROOM: u64 = 1 << 14;
/// States that a closure may have entered into the hash beyond the tokens that fit: two tiles of
/// `koshi_follow`.
const HASH_ROOM: u64 = 2 * 4 * THREADS as u64;
/// Frames at a usual rate that the output holds besides one in the worst case.
const USUAL_FRAMES: u64 = 24;
/// Frames of a launch, where their rows are not too large.
const MOST_FRAMES: usize = 64;
/// Scores of a launch and lane.
const MOST_SCORES: usize = 1 << 18;

/// Words of a link in the output.
pub(super) const LINK_WORDS: usize = 4;
/// Words of an emitting token in the input, and those that follow with phrases.
pub(super) const EMITTER_WORDS: usize = 3;
pub(super) const BIAS_WORDS: usize = 2;

/// Sizes of everything, from the options and the graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Plan {
    pub lanes: u32,
    pub candidate_capacity: u32,
    pub token_capacity: u32,
    pub link_capacity: u32,
    pub max_links: u32,
    pub max_tokens: u32,
    pub max_waiting: u32,
    pub hash_slots: u32,
    /// Frames of a launch.
    pub frames: usize,
    /// Columns that are copied: those that the graph reads.
    pub columns: usize,
    /// Words of working memory, of output, and of input, of one lane.
    pub work_words: u64,
    pub out_words: u64,
    pub input_words: u64,
    /// States that a list of phrases may have; 0 where there are no phrases.
    pub bias_states: u32,
    /// Words of the further working memory for phrases.
    pub bias_words: u64,
}

impl Plan {
    /// The capacities of rule 6 and what they take. A capacity above what the graph can make never
    /// strikes, so it takes no more memory than that.
    pub fn new(graph: &Graph, config: &SearchConfig, lanes: u32) -> Result<Plan> {
        Plan::of(graph, config, lanes, 0)
    }

    /// The same for utterances with phrases whose lists have up to `bias_states` states. Tokens are pairs then, so there
    /// may be more of everything than the graph has: as many times as there are bias states. A capacity above both
    /// what the graph has and the default is taken as the larger of the two. Nothing is smaller than with fewer states.
    pub fn biased(graph: &Graph, config: &SearchConfig, lanes: u32, bias_states: u32) -> Result<Plan> {
        Plan::of(graph, config, lanes, bias_states.checked_next_power_of_two().unwrap_or(u32::MAX).max(1))
    }

    fn of(graph: &Graph, config: &SearchConfig, lanes: u32, bias_states: u32) -> Result<Plan> {
        let times = |count: u64| count.saturating_mul(u64::from(bias_states.max(1)));
        let (states, arcs) = (u64::from(graph.num_states()), u64::from(graph.num_arcs()));
        let epsilons = u64::from(graph.num_epsilon_arcs());
        let active = u64::from(config.max_active).clamp(LEAST_ACTIVE, MOST_ACTIVE);
        let capacity = |asked: u64, default: u64, count: u64| {
            let wanted = if asked == u64::MAX { default } else { asked };
            wanted.min(times(count).min(if bias_states > 1 { count.max(default) } else { count }).max(1))
        };
        let candidates = capacity(config.candidate_capacity, 16 * active, arcs - epsilons);
        let tokens = capacity(config.token_capacity, 4 * active, states);
        let links = capacity(config.link_capacity, 20 * active, arcs);
        let (states, arcs, epsilons) = (times(states), times(arcs), times(epsilons));
        // One more for time 0, whose only candidate is no arc.
        let closed = (arcs.saturating_add(1)).min(candidates.max(links) + CLOSURE_ROOM.max(links / 2) + 1);
        // Behind the candidates, before there are other links, stands what `koshi_expand` keeps of arcs.
        let max_links = closed.max(candidates + CLOSURE_ROOM.min(arcs - epsilons));
        let max_tokens = states.min(candidates.max(tokens).max(CLOSURE_ROOM));
        let max_waiting = max_tokens.min(epsilons);
        let entered = states.min(max_tokens + HASH_ROOM);
        let slots = (max_tokens * 3 / 2).max(entered + 1).next_power_of_two().max(64);
        let too_large = || Error::Config("the capacities are too large for a GPU; set smaller ones".into());
        let small = |value: u64| u32::try_from(value).ok().filter(|&value| value < 1 << 31).ok_or_else(too_large);
        let columns = (graph.num_columns() as usize).max(1);
        let frames = (MOST_SCORES / columns).clamp(1, MOST_FRAMES);
        // When it is full the frames so far are pruned, and where that does not do the launch ends early.
        let worst = 4 * tokens + LINK_WORDS as u64 * links;
        let out_words = worst + USUAL_FRAMES.min(frames as u64 - 1) * worst.min(4 * active);
        small(out_words)?;
        let mut plan = Plan {
            lanes,
            candidate_capacity: small(candidates)?,
            token_capacity: small(tokens)?,
            link_capacity: small(links)?,
            max_links: small(max_links)?,
            max_tokens: small(max_tokens)?,
            max_waiting: small(max_waiting)?,
            hash_slots: small(slots)?,
            frames,
            columns,
            work_words: 0,
            out_words,
            input_words: 0,
            bias_states,
            bias_words: 0,
        };
        let emitter_words = EMITTER_WORDS + if bias_states > 0 { BIAS_WORDS } else { 0 };
        plan.input_words = emitter_words as u64 * tokens + (frames * columns) as u64;
        plan.work_words = plan.lane_words();
        if bias_states > 0 {
            // As `koshi_biased_lane_of` deals them out.
            plan.bias_words = slots + max_links + BIAS_WORDS as u64 * tokens;
        }
        Ok(plan)
    }

    /// As `koshi_lane_of` deals them out, to an even number.
    fn lane_words(&self) -> u64 {
        let (links, tokens, waiting) =
            (u64::from(self.max_links), u64::from(self.max_tokens), u64::from(self.max_waiting));
        let lists = 4 * waiting.max(self.token_capacity.into());
        (4 * u64::from(self.hash_slots) + 4 * links + tokens + waiting + lists).next_multiple_of(2)
    }

    /// The options with all capacities set. Those that cannot strike are at what the graph can make.
    pub fn capacities(&self, config: SearchConfig) -> SearchConfig {
        SearchConfig {
            candidate_capacity: self.candidate_capacity.into(),
            token_capacity: self.token_capacity.into(),
            link_capacity: self.link_capacity.into(),
            ..config
        }
    }

    /// Bytes of the hash of a lane, at the head of its working memory.
    pub fn hash_bytes(&self) -> usize {
        self.hash_slots as usize * 16
    }

    /// Bytes of device memory that a decoder takes, without its graph.
    pub fn device_bytes(&self) -> u64 {
        let reports = size_of::<LaneReport>() + size_of::<LaneInput>() + self.frames * size_of::<FrameReport>();
        let lane = 4 * (self.work_words + self.out_words + self.input_words + self.bias_words) + reports as u64;
        // Rows that come from device memory: of one lane, whichever it is.
        let taken = self.frames * (2 * 4 * self.columns + 8);
        u64::from(self.lanes).saturating_mul(lane).saturating_add(taken as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Columns, GraphArc, VecSource};

    fn graph(arcs: u32) -> Graph {
        let arc = |next| GraphArc { ilabel: 1, olabel: 0, weight: 0.0, next };
        let states = (0..=arcs).map(|at| (0.0, if at < arcs { vec![arc(at + 1)] } else { vec![] })).collect();
        Graph::from_source(&VecSource { start: Some(0), states }, Columns::Labels).unwrap()
    }

    /// More states and arcs of both kinds than any default capacity.
    fn large() -> Graph {
        let arc = |ilabel, next| GraphArc { ilabel, olabel: 0, weight: 0.0, next };
        let states = (0..1_500_000u32).map(|at| match at % 2 {
            0 if at < 1_000_000 => (0.0, vec![arc(1 + at as i32 % 3_000, at), arc(0, at + 1)]),
            _ if at < 1_000_000 => (0.0, vec![arc(1, at)]),
            _ => (0.0, vec![]),
        });
        Graph::from_source(&VecSource { start: Some(0), states: states.collect() }, Columns::Labels).unwrap()
    }

    #[test]
    fn a_small_graph_takes_little_and_never_strikes() {
        let plan = Plan::new(&graph(5), &SearchConfig::default(), 2).unwrap();
        assert_eq!((plan.token_capacity, plan.candidate_capacity, plan.link_capacity), (6, 5, 5));
        // Behind 5 candidates, what is kept of 5 arcs.
        assert_eq!((plan.max_links, plan.max_tokens, plan.hash_slots), (10, 6, 64));
        assert!(plan.device_bytes() < 64 << 10, "{plan:?}");
    }

    #[test]
    fn capacities_that_are_set_are_kept() {
        let config = SearchConfig { token_capacity: 3, candidate_capacity: 4, link_capacity: 2, ..Default::default() };
        let plan = Plan::new(&graph(100), &config, 1).unwrap();
        assert_eq!((plan.token_capacity, plan.candidate_capacity, plan.link_capacity), (3, 4, 2));
        assert!(plan.max_tokens == 101 && plan.max_links == 4 + 100, "the closure is complete first");
    }

    /// The figures of kernels/README.md: MB of a lane over a large graph of which each state has an epsilon arc, with 3,000
    /// columns.
    #[test]
    fn a_lane_takes_what_the_page_says() {
        for (max_active, expected) in [(10_000, 22.0), (7_000, 17.0), (2_000, 5.5)] {
            let config = SearchConfig { max_active, ..Default::default() };
            let plan = Plan::new(&large(), &config, 1).unwrap();
            let two = Plan { lanes: 2, ..plan };
            let mb = (two.device_bytes() - plan.device_bytes()) as f64 / 1e6;
            assert!((expected * 0.9..expected).contains(&mb), "{max_active}: {mb} MB, {plan:?}");
        }
    }

    #[test]
    fn lanes_multiply() {
        let bytes = |lanes| Plan::new(&graph(1000), &SearchConfig::default(), lanes).unwrap().device_bytes();
        assert_eq!(bytes(7) - bytes(6), bytes(2) - bytes(1));
        assert!(bytes(2) > 15 * bytes(1) / 8);
    }
}
