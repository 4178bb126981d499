//! What the device hands over of the times of a launch, checked before any of its numbers is used.
//!
//! Links say all that there is to know of tokens: one is of a state of the graph, with the right mark, if a link leads to
//! it by an arc of the graph from a token that is. So times are checked one after the other, from the start state on, in
//! one walk over their links, of which those into a token stand before those that leave it. What costs add up to is not
//! found out again.

use super::layout::{CAPACITY_HELD, FrameReport, LINK_WORDS, MAX_ACTIVE_HELD};
use crate::error::{Error, Result, try_reserve};
use crate::graph::{Graph, HAS_EPSILONS};
use crate::search::{EPSILON, Link, SearchConfig};

/// Links ahead of the one at hand whose sources' blocks are asked for.
const AHEAD: usize = 8;

/// Tokens of a time: destination words, and costs before the subtraction of the least; `+inf` where a commit has
/// dropped the token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens<'a> {
    pub states: &'a [u32],
    pub alphas: &'a [f32],
}

/// One time: what stands behind `report.out`.
#[derive(Clone, Copy)]
pub(super) struct Handed<'a> {
    pub tokens: Tokens<'a>,
    /// Those of emitting arcs first.
    pub links: &'a [Link],
}

/// Why a time is refused.
type Wrong = &'static str;

/// For what a GPU has handed over that cannot be right.
#[cold]
pub fn cannot_be_right(what: &str) -> Error {
    Error::Device(format!("what the GPU has handed over cannot be right: {what}"))
}

impl<'a> Handed<'a> {
    pub fn new(report: &FrameReport, words: &'a [u32]) -> Result<Handed<'a>> {
        Handed::of(report, words).ok_or_else(|| cannot_be_right("it reports more than it has written"))
    }

    fn of(report: &FrameReport, words: &'a [u32]) -> Option<Handed<'a>> {
        let rest = words.get(report.out as usize..)?;
        let (states, rest) = rest.split_at_checked(report.tokens as usize)?;
        let (alphas, rest) = rest.split_at_checked(report.tokens as usize)?;
        let rest = rest.get(report.closed as usize..)?;
        let links = rest.get(..(report.links as usize).checked_mul(LINK_WORDS)?)?;
        let tokens = Tokens { states, alphas: bytemuck::cast_slice(alphas) };
        Some(Handed { tokens, links: bytemuck::cast_slice(links) })
    }
}

/// What a launch hands over of a lane.
#[derive(Clone, Copy)]
pub(super) struct Launch<'a> {
    pub graph: &'a Graph,
    /// The options that hold, with all capacities.
    pub config: &'a SearchConfig,
    pub reports: &'a [FrameReport],
    pub words: &'a [u32],
    /// Frames before it.
    pub frames: u64,
}

impl<'a> Launch<'a> {
    /// Refuses all of it where something cannot be right. `before` are the tokens that stood before the launch, none where
    /// it begins with time 0; `row` gives the unscaled row that led to each of its times. `reached` is working space.
    ///
    /// # Errors
    /// [`Error::Device`], with the frame and what is wrong; [`Error::NoMemory`].
    pub fn check<'r>(
        &self,
        mut before: Option<Tokens<'a>>,
        row: impl Fn(usize) -> &'r [f32],
        reached: &mut Vec<bool>,
    ) -> Result<()> {
        for (at, report) in self.reports.iter().enumerate() {
            let handed = Handed::new(report, self.words)?;
            let count = handed.tokens.states.len();
            reached.clear();
            try_reserve(reached, count, "tokens")?;
            reached.resize(count, false);
            let last = at + 1 == self.reports.len();
            let checked = check_report(report, self.config)
                .and_then(|()| check_costs(report, handed.tokens, last))
                .and_then(|()| check_links(self.graph, report, handed, before, row(at), reached));
            if let Err(what) = checked {
                let frame = before.map_or("time 0".into(), |_| format!("frame {}", self.frames + at as u64));
                return Err(cannot_be_right(what).context(frame));
            }
            before = Some(handed.tokens);
        }
        Ok(())
    }
}

fn check_report(report: &FrameReport, config: &SearchConfig) -> Result<(), Wrong> {
    let FrameReport { tokens, links, emitting, closed, all_tokens, all_links, flags, .. } = *report;
    let counts = tokens <= all_tokens && links <= all_links && emitting <= links && closed <= tokens;
    if !counts || u64::from(all_tokens) > config.token_capacity || u64::from(all_links) > config.link_capacity {
        return Err("there are more tokens or links than there may be");
    }
    if flags & !(MAX_ACTIVE_HELD | CAPACITY_HELD) != 0 {
        return Err("it sets a flag that there is not");
    }
    let FrameReport { least, best, theta, wide, cutoff, next_beam, .. } = *report;
    let ordered = f32::NEG_INFINITY < least && least <= best && best < f32::INFINITY && best <= theta && theta <= wide;
    if !(ordered && cutoff >= 0.0 && next_beam >= 0.0) {
        return Err("bounds and beams contradict each other");
    }
    Ok(())
}

/// Of the last time of a launch all tokens are there, so that one of them is the least.
fn check_costs(report: &FrameReport, tokens: Tokens, last: bool) -> Result<(), Wrong> {
    let mut least = f32::INFINITY;
    let mut good = true;
    for &alpha in tokens.alphas {
        good &= alpha >= report.least && alpha < f32::INFINITY;
        least = least.min(alpha);
    }
    match good && (!last || least == report.least) {
        true => Ok(()),
        false => Err("a token costs less than the least, or nothing that is a number"),
    }
}

/// Walks over the links and notes which tokens are reached by one that costs what they do. All of them must be, before a link
/// leaves them.
fn check_links(
    graph: &Graph,
    report: &FrameReport,
    Handed { tokens: Tokens { states, alphas }, links }: Handed,
    before: Option<Tokens>,
    row: &[f32],
    reached: &mut [bool],
) -> Result<(), Wrong> {
    match (before, states, alphas) {
        (Some(_), ..) => {}
        (None, [start, ..], [0.0, ..]) if *start == graph.start() => reached[0] = true,
        (None, ..) => return Err("it does not begin in the start state"),
    }
    let before = before.unwrap_or(Tokens { states: &[], alphas: &[] });
    let word_of = |src: u32| match src & EPSILON {
        0 => before.states.get(src as usize),
        _ => states.get((src & !EPSILON) as usize),
    };
    for (at, link) in links.iter().enumerate() {
        if let Some(&ahead) = links.get(at + AHEAD).and_then(|ahead| word_of(ahead.src)) {
            graph.prefetch(ahead & !HAS_EPSILONS);
        }
        let Link { src, arc, cost, dst } = *link;
        let is_epsilon = src & EPSILON != 0;
        let is_there = match is_epsilon {
            true => reached.get((src & !EPSILON) as usize).is_some_and(|&reached| reached),
            false => before.alphas.get(src as usize).is_some_and(|&alpha| alpha < f32::INFINITY),
        };
        let (true, Some(&source)) = (is_there, word_of(src)) else {
            return Err("a link comes from a token that is not there");
        };
        let source = source & !HAS_EPSILONS;
        let of_kind = graph.arc(source, arc).filter(|arc| arc.is_epsilon == is_epsilon);
        let (Some(on), true) = (of_kind, is_epsilon == (at >= report.emitting as usize)) else {
            return Err("a link's arc is none of its token's state, or of another kind");
        };
        // What weighs or costs infinitely much is not followed; levels rise along all epsilon arcs but those.
        let scored = || row.get(graph.column(source, arc) as usize).is_some_and(|&ll| ll > f32::NEG_INFINITY);
        if on.weight == f32::INFINITY || !(is_epsilon || scored()) {
            return Err("a link is of an arc that is not to be followed");
        }
        let to = states.get(dst as usize).zip(alphas.get(dst as usize)).filter(|(word, _)| **word == on.word);
        let Some((_, &alpha)) = to else { return Err("a link leads to a token of another state than its arc") };
        if !(cost >= alpha && cost < f32::INFINITY) {
            return Err("a link costs less than its token, or nothing that is a number");
        }
        reached[dst as usize] |= cost == alpha;
    }
    match reached.contains(&false) {
        true => Err("no link leads to a token at its cost"),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Columns, GraphArc, VecSource};

    /// Arcs by number, with labels: 0 -1-> 1, 0 -0-> 1, 1 -0-> 2, 1 -0-> 0 at +inf, 2 -1-> 0, 2 -2-> 0, 2 -1-> 1 at +inf.
    fn graph() -> Graph {
        let arc = |ilabel, next, weight| GraphArc { ilabel, olabel: 0, weight, next };
        let never = f32::INFINITY;
        let states = vec![
            (0.0, vec![arc(1, 1, 1.0), arc(0, 1, 0.5)]),
            (0.0, vec![arc(0, 2, 0.5), arc(0, 0, never)]),
            (0.0, vec![arc(1, 0, 1.0), arc(2, 0, 1.0), arc(1, 1, never)]),
        ];
        Graph::from_source(&VecSource { start: Some(0), states }, Columns::Labels).unwrap()
    }

    /// In words: tokens, their costs, room for closed ones, links.
    fn time(tokens: &[(u32, f32)], links: &[(u32, u32, f32, u32)]) -> Vec<u32> {
        let (states, costs) = (tokens.iter().map(|token| token.0), tokens.iter().map(|token| token.1.to_bits()));
        let links = links.iter().flat_map(|&(src, arc, cost, dst)| [src, arc, cost.to_bits(), dst]);
        states.chain(costs).chain([7, 7]).chain(links).collect()
    }

    /// The two frames behind a token of state 2 and one that has been dropped, but for what `change` does; the second
    /// column of their rows is out of the question.
    fn checked(change: impl FnOnce(&mut Vec<u32>, &mut [FrameReport; 2])) -> Result<()> {
        let graph = graph();
        let ids: Vec<u32> = graph.ids().collect();
        let (zero, one, two) = (ids[0] | HAS_EPSILONS, ids[1] | HAS_EPSILONS, ids[2]);
        let mut words = time(
            &[(zero, 2.0), (one, 2.5), (two, 3.0)],
            &[(0, 4, 2.0, 0), (EPSILON, 1, 2.5, 1), (EPSILON | 1, 2, 3.0, 2)],
        );
        words.extend(time(
            &[(one, 3.0), (two, 3.5), (zero, 4.0)],
            &[(0, 0, 3.0, 0), (2, 4, 4.0, 2), (EPSILON | 2, 1, 4.5, 0), (EPSILON, 2, 3.5, 1)],
        ));
        let report = FrameReport {
            tokens: 3,
            closed: 2,
            links: 3,
            emitting: 1,
            all_tokens: 4,
            all_links: 5,
            least: 2.0,
            best: 2.0,
            theta: 9.0,
            wide: 9.0,
            cutoff: f32::INFINITY,
            next_beam: f32::INFINITY,
            ..FrameReport::default()
        };
        let second = FrameReport { out: 20, links: 4, emitting: 2, least: 3.0, best: 3.0, ..report };
        let mut reports = [report, second];
        change(&mut words, &mut reports);
        let config = SearchConfig { token_capacity: 4, link_capacity: 5, ..SearchConfig::default() };
        let launch = Launch { graph: &graph, config: &config, reports: &reports, words: &words, frames: 7 };
        let before = Tokens { states: &[two, two], alphas: &[1.0, f32::INFINITY] };
        launch.check(Some(before), |_| &[0.0, f32::NEG_INFINITY], &mut Vec::new())
    }

    fn assert_refused(checked: Result<()>, reason: &str, case: &str) {
        let message = match checked {
            Err(error) if matches!(error.root(), Error::Device(_)) => error.chain(),
            other => panic!("{case}: {other:?}"),
        };
        assert!(message.contains(reason), "{case}: {message}");
    }

    #[test]
    fn what_is_right_passes() {
        checked(|_, _| ()).unwrap();
    }

    #[test]
    fn each_word_is_looked_at() {
        let cost = f32::to_bits;
        let (gone, kind, taken) = ("a token that is not there", "another kind", "not to be followed");
        let (state, least, link) = ("another state", "less than the least", "less than its token");
        let ids: Vec<u32> = graph().ids().collect();
        for (at, value, reason) in [
            // Tokens: a state without its mark, another one, one with a wrong mark, no state, none at all.
            (0, ids[0], state),
            (0, ids[1] | HAS_EPSILONS, state),
            (2, ids[2] | HAS_EPSILONS, state),
            (2, ids[2] + 1, state),
            (2, u32::MAX, state),
            // Costs, the last two of the last time, of which one must be the least.
            (3, cost(1.5), least),
            (3, cost(f32::NAN), least),
            (4, cost(f32::INFINITY), least),
            (4, cost(f32::NEG_INFINITY), least),
            (23, cost(3.25), least),
            (23, cost(2.75), least),
            (5, cost(2.75), "no link leads"),
            (4, cost(2.75), link),
            // Where links come from: no token, a dropped one, one of the other kind, a token that is reached later.
            (8, 2, gone),
            (8, 1, gone),
            (8, EPSILON, gone),
            (12, 0, kind),
            (12, EPSILON | 3, gone),
            (12, EPSILON | 2, gone),
            (12, EPSILON | 1, gone),
            // Arcs: of another state, of none, of the other kind, that are not taken.
            (9, 0, kind),
            (9, 7, kind),
            (9, u32::MAX, kind),
            (13, 0, kind),
            (13, 2, kind),
            (17, 3, taken),
            (9, 5, taken),
            (9, 6, taken),
            // Costs of links.
            (10, cost(1.75), link),
            (14, cost(f32::NAN), link),
            (38, cost(f32::INFINITY), link),
            (18, cost(3.25), "no link leads"),
            // Where they lead.
            (11, 1, state),
            (11, 3, state),
            (15, u32::MAX, state),
        ] {
            let case = format!("word {at} is {value:#x}");
            assert_refused(checked(|words, _| words[at] = value), reason, &case);
        }
    }

    #[test]
    fn each_number_of_a_report_is_looked_at() {
        let (written, counts, beams) = ("than it has written", "than there may be", "contradict");
        type Change = fn(&mut FrameReport);
        let changes: [(Change, &str); 24] = [
            (|report| report.out = 21, written),
            (|report| report.out = u32::MAX, written),
            (|report| report.tokens = 4, written),
            (|report| report.tokens = u32::MAX, written),
            (|report| report.closed = 3, written),
            (|report| report.links = u32::MAX, written),
            (|report| report.all_tokens = 2, counts),
            (|report| report.all_tokens = 5, counts),
            (|report| report.all_links = 3, counts),
            (|report| report.all_links = 6, counts),
            (|report| report.emitting = 5, counts),
            (|report| report.emitting = 1, "another kind"),
            (|report| report.links = 3, "no link leads"),
            (|report| report.flags = 4, "a flag"),
            (|report| report.least = f32::NEG_INFINITY, beams),
            (|report| report.least = f32::NAN, beams),
            (|report| report.least = 3.5, beams),
            (|report| report.best = f32::NAN, beams),
            (|report| report.theta = 2.5, beams),
            (|report| report.theta = f32::NAN, beams),
            (|report| report.wide = 8.0, beams),
            (|report| report.cutoff = -1.0, beams),
            (|report| report.cutoff = f32::NAN, beams),
            (|report| report.next_beam = f32::NAN, beams),
        ];
        for (at, (change, reason)) in changes.into_iter().enumerate() {
            assert_refused(checked(|_, reports| change(&mut reports[1])), reason, &format!("change {at}"));
        }
        assert_refused(checked(|_, reports| reports[1].out = 0), "", "the words of another time");
        assert_refused(checked(|_, reports| reports[0].theta = 1.0), "frame 7", "the frame is named");
        // More closed tokens than tokens, with words enough.
        let more = |words: &mut Vec<u32>, reports: &mut [FrameReport; 2]| {
            words.extend([0; 40]);
            reports[1].closed = 4;
        };
        assert_refused(checked(more), counts, "closed tokens");
    }

    #[test]
    fn time_0_begins_in_the_start_state() {
        let graph = graph();
        let two = graph.ids().nth(2).unwrap();
        let check = |token: (u32, f32), links: &[(u32, u32, f32, u32)]| {
            let words = time(&[token], links);
            let report = FrameReport {
                tokens: 1,
                closed: 2,
                links: links.len() as u32,
                emitting: links.len() as u32,
                all_tokens: 1,
                all_links: 1,
                least: token.1,
                best: 0.5,
                theta: 9.0,
                wide: 9.0,
                ..FrameReport::default()
            };
            let (report, config) = ([FrameReport { closed: 1, ..report }], SearchConfig::default());
            let words = [&words[..2], &words[3..]].concat();
            let launch = Launch { graph: &graph, config: &config, reports: &report, words: &words, frames: 0 };
            launch.check(None, |_| &[], &mut Vec::new())
        };
        check((graph.start(), 0.0), &[]).unwrap();
        assert_refused(check((two, 0.0), &[]), "time 0", "another state");
        assert_refused(check((graph.start(), 0.5), &[]), "start state", "another cost");
        assert_refused(check((graph.start(), 0.0), &[(0, 0, 0.0, 0)]), "not there", "a link from nowhere");
    }
}
