//! Commits on endless streams: against the same utterance without them, on real speech strung
//! together and on random graphs; the same on the GPU lanes.

mod common;
#[path = "support/strung.rs"]
mod strung;

use std::sync::Arc;

use common::graph::{Rng, arc, source};
use koshi::Error;
use koshi::decoder::{BackendChoice, Channel, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph, GraphArc};
use koshi::lattice::{Lattice, RawLattice};
use koshi::search::{
    CommitConfig, CommittedLattice, EndpointAction, EndpointConfig, EndpointRule, Phrase, Rows, SearchConfig, Silence,
};
use strung::{scores, speech, strung};

fn typical() -> SearchConfig {
    SearchConfig { beam: 13.0, lattice_beam: 6.0, max_active: 700, ..SearchConfig::default() }
}

fn commit(frames: u64) -> Option<CommitConfig> {
    Some(CommitConfig { frames, lattice_frames: u64::MAX })
}

fn all_committed(channel: &mut Channel) -> Vec<CommittedLattice> {
    std::iter::from_fn(|| channel.take_committed().unwrap()).collect()
}

/// The lattices one behind the other: each begins in the state where the one before ends.
fn joined(pieces: &[RawLattice]) -> RawLattice {
    let mut whole = RawLattice::default();
    let (last, before) = pieces.split_last().unwrap();
    for piece in before {
        append(&mut whole, piece);
        // Before the first list came nothing was biased.
        if !last.bias.is_empty() {
            whole.bias.arcs.resize(whole.arcs.len(), 0.0);
            whole.bias.finals.resize(whole.finals.len(), 0.0);
        }
        // The state where it ends is the first of the next piece.
        assert_eq!(piece.finals.iter().filter(|weight| !weight.is_absent()).count(), 1);
        assert!(!piece.finals.last().unwrap().is_absent() && piece.arcs_of(piece.num_states() as u32 - 1).is_empty());
        whole.finals.pop();
        whole.offsets.pop();
        whole.times.pop();
        whole.bias.finals.pop();
    }
    append(&mut whole, last);
    whole.acoustic_scale = last.acoustic_scale;
    whole.reached_final = last.reached_final;
    whole
}

fn append(whole: &mut RawLattice, piece: &RawLattice) {
    let (states, arcs) = (whole.finals.len() as u32, whole.arcs.len() as u32);
    whole.arcs.extend(piece.arcs.iter().map(|arc| koshi::lattice::LatticeArc { next: arc.next + states, ..*arc }));
    whole.offsets.pop();
    whole.offsets.extend(piece.offsets.iter().map(|offset| offset + arcs));
    whole.finals.extend_from_slice(&piece.finals);
    whole.bias.arcs.extend_from_slice(&piece.bias.arcs);
    whole.bias.finals.extend_from_slice(&piece.bias.finals);
    whole.times.extend(piece.times.iter().map(|time| time + whole.num_frames));
    whole.num_frames += piece.num_frames;
}

#[test]
fn without_forced_commits_pieces_and_rest_are_the_whole_lattice() {
    pieces_and_rest(&[(0, &[])]);
}

/// The lists of an utterance, each with the frame from which on it holds.
type Lists<'a> = [(usize, &'a [Phrase<'a>])];

#[test]
fn so_they_are_with_phrases() {
    // "the", "conference has", "press one"
    let list = [(&[487][..], 3.0), (&[97, 205], 6.0), (&[382, 338], -2.0)];
    pieces_and_rest(&[(0, &list.map(|(labels, bonus)| Phrase { labels, bonus }))]);
}

#[test]
fn so_they_are_with_lists_that_change_on_the_way() {
    let [the, has] = [(&[487][..], 3.0), (&[97, 205], 6.0)].map(|(labels, bonus)| Phrase { labels, bonus });
    pieces_and_rest(&[(0, &[]), (700, &[the]), (1050, &[has, the]), (1750, &[]), (2310, &[has])]);
}

fn pieces_and_rest(lists: &Lists<'_>) {
    let (all, dim) = scores();
    let data = strung(&all, dim, 3000);
    let decoder = speech(typical());
    let (mut whole, mut cut) = (decoder.new_channel().unwrap(), decoder.new_channel().unwrap());
    cut.set_commit(commit(1 << 40)).unwrap();
    whole.set_bias(lists[0].1).unwrap();
    cut.set_bias(lists[0].1).unwrap();
    whole.begin().unwrap();
    cut.begin().unwrap();
    let mut pieces = Vec::new();
    let (mut stable, mut committed) = (0, 0);
    for (at, part) in data.chunks(70 * dim).enumerate() {
        for (_, list) in lists[1..].iter().filter(|(frame, _)| *frame == 70 * at) {
            whole.set_bias(list).unwrap();
            cut.set_bias(list).unwrap();
        }
        whole.push(Rows::dense(part, dim).unwrap()).unwrap();
        cut.push(Rows::dense(part, dim).unwrap()).unwrap();
        if at % 3 == 0 {
            let ((theirs, their_stable), (ours, our_stable)) = (whole.partial().unwrap(), cut.partial().unwrap());
            assert_eq!((&theirs.olabels, &theirs.frames), (&ours.olabels, &ours.frames));
            assert!((theirs.graph_cost, theirs.acoustic_cost) == (ours.graph_cost, ours.acoustic_cost));
            assert_eq!(theirs.bias_cost, ours.bias_cost);
            assert_eq!(their_stable, our_stable);
            assert!(our_stable >= stable && cut.committed_frames() >= committed);
            (stable, committed) = (our_stable, cut.committed_frames());
            let skipped = theirs.ilabels.len() - ours.ilabels.len();
            assert_eq!((skipped as u64, &theirs.ilabels[skipped..]), (committed, &ours.ilabels[..]));
            for from in [1, 1 + stable / 2, 1 + stable, ours.olabels.len() + 1] {
                let ((theirs, _), (ours, _)) = (whole.partial_from(from).unwrap(), cut.partial_from(from).unwrap());
                assert_eq!((&theirs.olabels, &theirs.frames), (&ours.olabels, &ours.frames), "from {from}");
                assert_eq!(ours.olabels.first(), cut.partial().unwrap().0.olabels.get(from));
                // Frames before the next word are left out, and those that are committed.
                let rest = whole.num_frames() - committed.max(ours.frames.first().map_or(0, |&at| u64::from(at)));
                let wanted = if ours.frames.is_empty() { 0 } else { rest as usize };
                assert_eq!((ours.ilabels.len(), theirs.ilabels.ends_with(&ours.ilabels)), (wanted, true));
            }
        }
        if at % 5 == 0 {
            pieces.extend(all_committed(&mut cut));
        }
    }
    pieces.extend(all_committed(&mut cut));
    let stats = cut.stats().unwrap();
    assert_eq!((stats.forced_commits, stats.committed_frames), (0, cut.committed_frames()));
    assert!(pieces.len() > 3 && stats.committed_frames > 1500, "{} pieces, {stats:?}", pieces.len());
    assert!(stats.trace_links < whole.stats().unwrap().trace_links);
    for use_final in [true, false] {
        let mut first = 0;
        let mut lattices = Vec::new();
        for piece in &pieces {
            assert_eq!(piece.first_frame, first);
            piece.lattice.validate().unwrap();
            first += u64::from(piece.lattice.num_frames);
            lattices.push(piece.lattice.clone());
        }
        assert_eq!(first, stats.committed_frames);
        let rest = cut.lattice(use_final).unwrap();
        rest.validate().unwrap();
        assert_eq!(rest.bias.is_empty(), lists.iter().all(|(_, list)| list.is_empty()));
        lattices.push(rest);
        // Bit for bit: states and arcs are in the canonical order.
        assert!(joined(&lattices) == whole.lattice(use_final).unwrap());
        assert_eq!(cut.best_path(use_final).unwrap().olabels, whole.best_path(use_final).unwrap().olabels);
    }
}

/// What a run gives: everything that there is to compare between backends and cuts into pushes.
#[derive(Debug, PartialEq)]
struct Outcome {
    pieces: Vec<CommittedLattice>,
    rest: [RawLattice; 2],
    words: Vec<(Vec<i32>, Vec<u32>)>,
    costs: [f64; 3],
    forced: u64,
    committed: u64,
}

fn outcome(channel: &mut Channel, data: &[f32], dim: usize, lists: &Lists<'_>, chunk: usize) -> Outcome {
    channel.set_commit(commit(256)).unwrap();
    channel.set_bias(lists[0].1).unwrap();
    channel.begin().unwrap();
    let ends = lists[1..].iter().map(|(frame, _)| frame * dim).chain([data.len()]);
    for ((from, list), end) in lists.iter().zip(ends) {
        if *from > 0 {
            channel.set_bias(list).unwrap();
        }
        for part in data[from * dim..end].chunks(chunk * dim) {
            channel.push(Rows::dense(part, dim).unwrap()).unwrap();
        }
    }
    let rest = [true, false].map(|use_final| channel.lattice(use_final).unwrap());
    rest.iter().for_each(|lattice| lattice.validate().unwrap());
    let path = channel.best_path(false).unwrap();
    let stats = channel.stats().unwrap();
    Outcome {
        pieces: all_committed(channel),
        rest,
        words: vec![(path.olabels, path.frames)],
        costs: [path.graph_cost, path.acoustic_cost, path.bias_cost],
        forced: stats.forced_commits,
        committed: stats.committed_frames,
    }
}

/// A random graph twice over, behind one start: paths of equal cost keep apart for ever, so that a
/// commit is forced. Dear arcs cross over, so that links lead from tokens that are dropped then to
/// others. And rows for it.
fn apart(seed: u64, frames: usize) -> (Arc<Graph>, Vec<f32>, usize, SearchConfig) {
    let (busy, rows, dim) = Rng(900 + seed).busy();
    let count = busy.states.len() as u32;
    let mut states = vec![(0.0, vec![arc(0, 0, 0.0, 1), arc(0, 0, 0.0, 1 + count)])];
    for copy in 0..2 {
        for (at, (end, arcs)) in busy.states.iter().enumerate() {
            let moved = |one: &GraphArc, more: f32, to: u32| {
                let olabel = if one.olabel > 0 { one.olabel + 5 * copy } else { 0 };
                arc(one.ilabel, olabel, one.weight + more, one.next + 1 + count * to)
            };
            let mut both: Vec<GraphArc> = arcs.iter().map(|one| moved(one, 0.0, copy as u32)).collect();
            let across = arcs.iter().filter(|one| one.ilabel > 0 && at % 3 == 0);
            both.extend(across.map(|one| moved(one, 4.5, 1 - copy as u32)));
            states.push((*end, both));
        }
    }
    let graph = Arc::new(Graph::from_source(&source(Some(0), states), Columns::Labels).unwrap());
    let search =
        SearchConfig { beam: 9.0, lattice_beam: 6.0, max_active: 60, min_active: 0, ..SearchConfig::default() };
    (graph, rows.iter().copied().cycle().take(frames * dim).collect(), dim, search)
}

fn forced_runs(backend: BackendChoice, lists: &Lists<'_>, graphs: u64, frames: usize) {
    let mut forced = 0;
    for seed in 0..graphs {
        let (graph, data, dim, search) = apart(seed, frames);
        let config = DecoderConfig { search, num_threads: 1, num_lanes: 1, backend, ..DecoderConfig::default() };
        let cpu = DecoderConfig { backend: BackendChoice::Cpu, ..config };
        let mut plain = Decoder::new(Arc::clone(&graph), cpu).unwrap().new_channel().unwrap();
        let mut channel = Decoder::new(Arc::clone(&graph), config).unwrap().new_channel().unwrap();
        let expected = outcome(&mut plain, &data, dim, lists, 64);
        forced += expected.forced;
        // Whatever the pushes, and whatever budget of links decides when they are pruned.
        assert!(outcome(&mut channel, &data, dim, lists, 37) == expected);
        let tight = DecoderConfig { search: SearchConfig { link_budget: 300, ..search }, ..cpu };
        let mut other = Decoder::new(Arc::clone(&graph), tight).unwrap().new_channel().unwrap();
        assert!(outcome(&mut other, &data, dim, lists, frames) == expected);
        check_pieces(&expected, frames);
    }
    assert!(forced > 0, "no commit was forced");
}

/// Pieces follow each other, and their best paths are the words of the whole.
fn check_pieces(outcome: &Outcome, frames: usize) {
    let mut words = Vec::new();
    let mut first = 0;
    let mut costs = [0.0; 3];
    let lattices = outcome.pieces.iter().map(|piece| {
        assert_eq!(piece.first_frame, first);
        piece.lattice.validate().unwrap();
        first += u64::from(piece.lattice.num_frames);
        &piece.lattice
    });
    for lattice in lattices.chain([&outcome.rest[1]]).collect::<Vec<_>>() {
        let best = lattice.best_path(lattice.acoustic_scale).unwrap();
        words.extend(best.olabels);
        costs[0] += best.graph_cost;
        costs[1] += best.acoustic_cost;
        costs[2] += best.bias_cost;
    }
    assert_eq!(words, outcome.words[0].0);
    assert_eq!(first, outcome.committed);
    assert_eq!(first as usize + outcome.rest[1].num_frames as usize, frames);
    for (found, wanted) in costs.iter().zip(outcome.costs) {
        assert!((found - wanted).abs() < 1e-3 * (1.0 + wanted.abs()), "{costs:?} {:?}", outcome.costs);
    }
}

#[test]
fn forced_commits_depend_on_the_frames_alone() {
    forced_runs(BackendChoice::Cpu, &[(0, &[])], 12, 900);
}

#[test]
fn so_do_those_with_phrases() {
    // The same for both copies of the graph.
    let list = [(&[1, 2][..], 2.0), (&[6, 7], 2.0), (&[2, 3, 4], 1.5), (&[7, 8, 9], 1.5)];
    let list = list.map(|(labels, bonus)| Phrase { labels, bonus });
    forced_runs(BackendChoice::Cpu, &[(0, &list)], 6, 900);
    common::gpu();
    forced_runs(BackendChoice::Cuda, &[(0, &list)], 1, 900);
}

/// On the GPU the first list takes the utterance over to the CPU, behind a commit that was forced there.
#[test]
fn so_do_those_with_lists_that_change_on_the_way() {
    let list = [(&[1, 2][..], 2.0), (&[6, 7], 2.0), (&[2, 3, 4], 1.5), (&[7, 8, 9], 1.5)];
    let list = list.map(|(labels, bonus)| Phrase { labels, bonus });
    let lists: [(usize, &[Phrase<'_>]); 4] = [(0, &[]), (300, &list), (450, &list[..2]), (600, &[])];
    forced_runs(BackendChoice::Cpu, &lists, 6, 900);
    common::gpu();
    forced_runs(BackendChoice::Cuda, &lists, 1, 900);
}

/// Segments of 300 frames, each as an utterance of its own with the same commits.
fn segments_with_commits(backend: BackendChoice, graphs: u64, frames: usize) {
    const LENGTH: usize = 300;
    let mut forced = 0;
    for seed in 0..graphs {
        let (graph, data, dim, search) = apart(seed, frames);
        let config = DecoderConfig { search, num_threads: 1, num_lanes: 1, backend, ..DecoderConfig::default() };
        let decoder = Decoder::new(Arc::clone(&graph), config).unwrap();
        let rule = EndpointRule {
            must_contain_nonsilence: false,
            min_trailing_silence: 0.0,
            max_relative_cost: f32::INFINITY,
            min_utterance_length: LENGTH as f64 * config.frame_shift,
        };
        let rules = EndpointConfig {
            rules: [rule; EndpointRule::COUNT],
            silence: Silence::Ilabels(Vec::new()),
            action: EndpointAction::Segment,
            segments_kept: 100,
        };
        decoder.set_endpoint_rules(Some(&rules)).unwrap();
        let mut channel = decoder.new_channel().unwrap();
        channel.set_commit(commit(256)).unwrap();
        channel.begin().unwrap();
        let mut pieces = Vec::new();
        for part in data.chunks(37 * dim) {
            channel.push(Rows::dense(part, dim).unwrap()).unwrap();
            pieces.extend(all_committed(&mut channel));
        }
        assert_eq!(channel.num_segments(), (frames / LENGTH) as u64);
        forced += channel.stats().unwrap().forced_commits;

        let cpu = DecoderConfig { backend: BackendChoice::Cpu, ..config };
        let mut alone = Decoder::new(graph, cpu).unwrap().new_channel().unwrap();
        let mut wanted = Vec::new();
        for (at, part) in data.chunks(LENGTH * dim).enumerate() {
            let first = (LENGTH * at) as u32;
            let Outcome { pieces, rest: [rest, _], .. } = outcome(&mut alone, part, dim, &[(0, &[])], 64);
            wanted.extend(
                pieces
                    .into_iter()
                    .map(|piece| CommittedLattice { first_frame: piece.first_frame + u64::from(first), ..piece }),
            );
            let mut path = alone.best_path(true).unwrap();
            path.frames.iter_mut().for_each(|frame| *frame += first);
            if at < frames / LENGTH {
                let segment = channel.segment(at as u64).unwrap();
                assert_eq!(*segment.best_path, path);
                assert!(*segment.lattice == Lattice::from(rest));
            } else {
                assert_eq!(channel.best_path(true).unwrap(), path);
                assert!(channel.lattice(true).unwrap() == rest);
                assert_eq!(channel.committed_frames(), u64::from(first) + alone.committed_frames());
            }
        }
        assert!(pieces == wanted);
    }
    assert!(forced > 0, "no commit was forced");
}

#[test]
fn segments_have_the_commits_of_utterances_of_their_own() {
    segments_with_commits(BackendChoice::Cpu, 6, 620);
    common::gpu();
    segments_with_commits(BackendChoice::Cuda, 1, 620);
}

#[test]
fn forced_commits_are_the_same_on_the_gpu() {
    common::gpu();
    forced_runs(BackendChoice::Cuda, &[(0, &[])], 1, 330);
}

#[test]
fn lattices_that_nobody_takes_are_dropped() {
    let (all, dim) = scores();
    let data = strung(&all, dim, 3000);
    let mut channel = speech(typical()).new_channel().unwrap();
    channel.set_commit(Some(CommitConfig { frames: 1000, lattice_frames: 0 })).unwrap();
    channel.begin().unwrap();
    channel.push(Rows::dense(&data, dim).unwrap()).unwrap();
    assert!(channel.committed_frames() > 1000);
    assert_eq!(channel.take_committed().unwrap(), None);
    let without = channel.stats().unwrap().memory;
    channel.set_commit(Some(CommitConfig { frames: 1000, lattice_frames: 800 })).unwrap();
    channel.begin().unwrap();
    channel.push(Rows::dense(&data, dim).unwrap()).unwrap();
    assert!(channel.stats().unwrap().memory > without, "what is kept counts");
    let kept = all_committed(&mut channel);
    let frames: u64 = kept.iter().map(|piece| u64::from(piece.lattice.num_frames)).sum();
    assert!(frames > 0 && frames <= 800, "{frames}");
    let last = kept.last().unwrap();
    assert_eq!(last.first_frame + u64::from(last.lattice.num_frames), channel.committed_frames());
    // A new utterance begins without.
    channel.begin().unwrap();
    assert_eq!((channel.committed_frames(), channel.take_committed().unwrap()), (0, None));
}

#[test]
fn too_few_frames_are_refused_and_none_turns_it_off() {
    let (all, dim) = scores();
    let mut channel = speech(typical()).new_channel().unwrap();
    for frames in [0, 1, 255] {
        let config = CommitConfig { frames, lattice_frames: 0 };
        assert!(matches!(channel.set_commit(Some(config)), Err(Error::Config(_))));
    }
    assert!(matches!(channel.take_committed(), Err(Error::State(_))));
    assert_eq!(channel.committed_frames(), 0);
    channel.set_commit(commit(256)).unwrap();
    channel.set_commit(None).unwrap();
    channel.begin().unwrap();
    channel.push(Rows::dense(&strung(&all, dim, 1500), dim).unwrap()).unwrap();
    assert_eq!(channel.committed_frames(), 0);
    // Turned on in the middle, it takes up what is there.
    channel.set_commit(commit(1 << 40)).unwrap();
    channel.push(Rows::dense(&strung(&all, dim, 200), dim).unwrap()).unwrap();
    assert!(channel.committed_frames() > 500);
}

/// Without commits more times may be unpruned than are held back from them. When they are turned on on the way, the first
/// look waits until that is no longer so, and finds the same whenever the links were pruned.
#[test]
fn turned_on_in_the_middle_of_long_windows() {
    let (all, dim) = scores();
    let data = strung(&all, dim, 1200);
    let search = |link_budget| SearchConfig { beam: 11.0, lattice_beam: 11.0, link_budget, ..typical() };
    for begin in [1, 63, 100, 150, 330, 335, 384, 500] {
        let mut found = Vec::new();
        for link_budget in [200, 30_000, u32::MAX] {
            let mut channel = speech(search(link_budget)).new_channel().unwrap();
            channel.begin().unwrap();
            channel.push(Rows::dense(&data[..begin * dim], dim).unwrap()).unwrap();
            channel.set_commit(commit(256)).unwrap();
            channel.push(Rows::dense(&data[begin * dim..], dim).unwrap()).unwrap();
            channel.finish().unwrap();
            let lattice = channel.lattice(true).unwrap();
            found.push((channel.committed_frames(), all_committed(&mut channel), lattice));
        }
        assert!(found[0].0 > 700, "from frame {begin}: {}", found[0].0);
        assert!(found[0] == found[1] && found[0] == found[2], "from frame {begin}");
    }
}

/// At a forced commit the best path up to there is what a channel without commits gives then.
#[test]
fn what_is_committed_by_force_is_the_best_path_of_that_time() {
    let mut seen = 0;
    for seed in 0..12 {
        let (graph, data, dim, search) = apart(seed, 900);
        let config = DecoderConfig {
            search,
            num_threads: 1,
            num_lanes: 1,
            backend: BackendChoice::Cpu,
            ..DecoderConfig::default()
        };
        let decoder = Decoder::new(graph, config).unwrap();
        let (mut plain, mut cut) = (decoder.new_channel().unwrap(), decoder.new_channel().unwrap());
        cut.set_commit(commit(256)).unwrap();
        plain.begin().unwrap();
        cut.begin().unwrap();
        for (at, part) in data.chunks(64 * dim).enumerate() {
            let (first, rest) = part.split_at(dim);
            cut.push(Rows::dense(first, dim).unwrap()).unwrap();
            if cut.stats().unwrap().forced_commits == 0 {
                cut.push(Rows::dense(rest, dim).unwrap()).unwrap();
                plain.push(Rows::dense(part, dim).unwrap()).unwrap();
                continue;
            }
            // `plain` stands where the look was taken. No commit before changed the search.
            seen += 1;
            assert_eq!(cut.committed_frames(), 64 * at as u64 - 128);
            let best = plain.best_path(false).unwrap();
            let pieces = all_committed(&mut cut);
            let (mut words, mut ids) = (Vec::new(), Vec::new());
            for piece in &pieces {
                let path = piece.lattice.best_path(piece.lattice.acoustic_scale).unwrap();
                words.extend(path.olabels);
                ids.extend(path.ilabels);
            }
            let before = best.frames.partition_point(|&frame| u64::from(frame) < cut.committed_frames());
            assert_eq!(ids, best.ilabels[..cut.committed_frames() as usize]);
            // A word on an epsilon arc of the time itself may stand on either side.
            assert!(words.len() >= before && best.olabels.starts_with(&words));
            // All that is left goes on from there: words before it are those committed.
            let (path, stable) = cut.partial().unwrap();
            assert!(path.olabels.starts_with(&words) && stable >= words.len());
            break;
        }
    }
    assert!(seen > 0);
}

/// A commit drops tokens that no path within the beam needs from the times in front of the windows; links from them still
/// stand there, equally good ones to one token too. Stable words that are asked for only then pass over them.
#[test]
fn stable_words_pass_over_tokens_that_a_commit_has_dropped() {
    let states = vec![
        (0.0, vec![arc(1, 0, 0.0, 0), arc(2, 0, 0.0, 1)]),
        (0.0, vec![arc(3, 5, 0.0, 2), arc(3, 6, 0.0, 2)]),
        (0.0, vec![arc(4, 0, 0.0, 2)]),
    ];
    let graph = Arc::new(Graph::from_source(&source(Some(0), states), Columns::Labels).unwrap());
    let search = SearchConfig { beam: 13.0, lattice_beam: 6.0, ..SearchConfig::default() };
    let config = DecoderConfig { search, backend: BackendChoice::Cpu, num_threads: 1, ..DecoderConfig::default() };
    let decoder = Decoder::new(graph, config).unwrap();
    let mut channels = [None, commit(256)].map(|commit| {
        let mut channel = decoder.new_channel().unwrap();
        channel.set_commit(commit).unwrap();
        channel.begin().unwrap();
        channel
    });
    // Around where the first window behind the commit begins, whatever the length of windows.
    for at in 64..=192usize {
        for channel in &mut channels {
            channel.begin().unwrap();
            for frame in 0..193 {
                let score = |open: bool| if open { 0.0 } else { f32::NEG_INFINITY };
                let row = [0.0, score(frame + 1 == at), score(frame == at), score(frame < 185)];
                channel.push(Rows::dense(&row, 4).unwrap()).unwrap();
            }
        }
        let [whole, cut] = channels.each_ref().map(|channel| channel.partial().unwrap());
        assert_eq!((whole.0.olabels, whole.1), (cut.0.olabels, cut.1), "{at}");
    }
    assert!(channels[1].committed_frames() > 0 && channels[1].stats().unwrap().forced_commits == 0);
}
