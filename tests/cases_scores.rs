//! Rows of the list of inputs that broke other decoders: infinities, NaN, ties, strides, and
//! lattices stored out of order.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use common::graph::{Rng, arc, source};
use face::{Face, Matrix, MatrixScores, Outcome, Pull, Scores, Status, chain, graph, graph_a, open, results, solo};
use koshi::decoder::DecoderConfig;
use koshi::graph::VecSource;
use koshi::lattice::{Parts, RawLattice};
use koshi::search::SearchConfig;
use koshi::table::Output;

const INF: f32 = f32::INFINITY;

over_both_faces! {
    case_b22_unsorted_lattice_is_sorted_on_read
    case_b23_infinite_acoustic_cost
    case_b24_chunks_and_nan
    case_b25_no_surviving_tokens
    case_b26_empty_queues
    case_b28_stride
    case_b30_ties_in_every_lane
}

over_both_faces_on_gpu! {
    case_b23_infinite_acoustic_cost
    case_b24_chunks_and_nan
    case_b25_no_surviving_tokens
    case_b26_empty_queues
    case_b28_stride
    case_b30_ties_in_every_lane
}

fn config(search: SearchConfig) -> DecoderConfig {
    DecoderConfig { search, num_lanes: 2, num_threads: 1, ..DecoderConfig::default() }
}

fn labels(lattice: &RawLattice) -> Vec<i32> {
    lattice.arcs.iter().map(|arc| arc.olabel).collect()
}

/// Every frame any of `columns` labels, words that tell which.
fn loops(columns: i32) -> VecSource {
    source(Some(0), vec![(0.0, (1..=columns).map(|label| arc(label, label, 0.25, 0)).collect())])
}

fn case_b22_unsorted_lattice_is_sorted_on_read<F: Face>() {
    // By hand: start 0, its arc leads to 2, which leads back to 1.
    let text = "\n0 2 1 10 0.5,1\n2 1 2 20 0.5,1\n1 0,0\n\n";
    let lattice = F::lattice_from_memory(text.as_bytes()).unwrap();
    lattice.validate().unwrap();
    assert_eq!((labels(&lattice), lattice.arcs[1].next), (vec![10, 20], 2));
    assert_eq!(F::lattice_best_path(text.as_bytes(), 1.0).unwrap().olabels, [10, 20]);
    // A cycle has no order.
    let cyclic = "\n0 1 1 10 0.5,1\n1 2 2 20 0.5,1\n2 1 3 30 0.5,1\n2 0,0\n\n";
    let fault = F::lattice_from_memory(cyclic.as_bytes()).unwrap_err();
    assert_eq!(fault.status, Status::KOSHI_E_FORMAT);
    assert!(fault.message.contains('1') && fault.message.contains('2'), "{}", fault.message);

    // Any lattice with its states renumbered at random, in both formats.
    let mut rng = Rng(22);
    for _ in 0..50 {
        let data: Vec<f32> = (0..12).map(|_| -(rng.below(16) as f32) * 0.125).collect();
        let search = SearchConfig { lattice_beam: 2.0, ..SearchConfig::default() };
        let sorted = solo::<F>(&loops(3), &config(search), Matrix::dense(&data, 3)).lattices[0].clone();
        let n = sorted.num_states();
        let mut new: Vec<u32> = (0..n as u32).collect();
        rng.shuffle(&mut new);
        let mut old = vec![0; n];
        new.iter().enumerate().for_each(|(from, &to)| old[to as usize] = from as u32);
        let mut parts = Parts { start: Some(new[0]), ..Parts::default() };
        for &state in &old {
            let arcs = sorted
                .arcs_of(state)
                .iter()
                .map(|arc| koshi::lattice::LatticeArc { next: new[arc.next as usize], ..*arc });
            parts.arcs.extend(arcs);
            parts.offsets.push(parts.arcs.len() as u32);
            parts.finals.push(sorted.finals[state as usize]);
        }
        for binary in [true, false] {
            // Kaldi's text has no place for a start that is not its first line.
            if !binary && new[0] != 0 {
                continue;
            }
            let mut output = Output::memory();
            parts.write(&mut output, binary).unwrap();
            let bytes = output.into_bytes();
            // One state a time: there is only one order.
            assert_eq!(F::lattice_from_memory(&bytes).unwrap(), sorted);
            let whole = F::lattice_to_memory(&sorted, true).unwrap();
            assert_eq!(F::lattice_best_path(&bytes, 1.0), F::lattice_best_path(&whole, 1.0));
        }
    }
}

fn case_b23_infinite_acoustic_cost<F: Face>() {
    let two = source(Some(0), vec![(INF, vec![arc(1, 1, 0.0, 1), arc(2, 2, 0.0, 1)]), (0.0, vec![])]);
    // What is absent is absent at any scale; 0 * -inf is not NaN, and a negative scale makes no -inf of it.
    for acoustic_scale in [1.0, 0.1, 0.0, -1.0, 1e-30] {
        let config = config(SearchConfig { acoustic_scale, ..SearchConfig::default() });
        let found = solo::<F>(&two, &config, Matrix::dense(&[-INF, -1.0], 2));
        assert_eq!(found.lattices.each_ref().map(labels), [vec![2], vec![2]], "scale {acoustic_scale}");
        assert_eq!((&found.paths[0].olabels[..], found.paths[0].acoustic_cost), (&[2][..], 1.0));
    }
    // A finite score whose scaled cost overflows is as absent.
    let steep = config(SearchConfig { acoustic_scale: 10.0, ..SearchConfig::default() });
    let found = solo::<F>(&two, &steep, Matrix::dense(&[-3e38, -1.0], 2));
    assert_eq!(labels(&found.lattices[0]), [2]);
    // So are arcs and final costs of +inf, and what they alone lead to.
    let walls = source(
        Some(0),
        vec![
            (INF, vec![arc(1, 1, INF, 1), arc(1, 2, 0.0, 2), arc(0, 3, INF, 1), arc(0, 4, 0.0, 3)]),
            (0.0, vec![]),
            (0.0, vec![]),
            (INF, vec![arc(1, 5, 0.5, 2), arc(0, 6, INF, 0)]),
        ],
    );
    let found = solo::<F>(&walls, &config(SearchConfig::default()), Matrix::dense(&[-1.0], 1));
    assert_eq!(labels(&found.lattices[0]), [4, 2, 5]);
    // Everywhere in an utterance, with all tokens allowed to live (an infinite beam inside).
    let mut rng = Rng(23);
    for _ in 0..50 {
        let data: Vec<f32> = (0..40).map(|_| if rng.below(3) == 0 { -INF } else { -(rng.below(9) as f32) }).collect();
        let search = SearchConfig { lattice_beam: 100.0, min_active: 1000, link_budget: 4, ..SearchConfig::default() };
        let (_decoder, mut channel) = open::<F>(&loops(4), &config(search));
        let dead = data.chunks(4).position(|row| row.iter().all(|&ll| ll == -INF));
        let pushed = F::push(&mut channel, Matrix::dense(&data, 4));
        assert_eq!(pushed.err().map(|fault| fault.status), dead.map(|_| Status::KOSHI_E_NO_TOKENS));
        let lattice = &results::<F>(&mut channel).lattices[0];
        for (time, row) in data.chunks(4).take(dead.unwrap_or(10)).enumerate() {
            let there: Vec<i32> = (1..=4).filter(|&label| row[label as usize - 1] > -INF).collect();
            let arcs = lattice.arcs_with_source().filter(|(from, _)| lattice.times[*from as usize] as usize == time);
            assert_eq!(arcs.map(|(_, arc)| arc.olabel).collect::<Vec<i32>>(), there);
        }
    }
}

/// Scores one by one from a matrix; the callback kind that asks only for what it needs.
fn pull_single<F: Face>(channel: &mut F::Channel, matrix: Matrix) -> Outcome<u64> {
    F::pull(channel, &mut MatrixScores::new(matrix), Pull::Single, None)
}

fn case_b24_chunks_and_nan<F: Face>() {
    let mut rng = Rng(24);
    let data: Vec<f32> = (0..300).map(|_| -(rng.below(40) as f32) * 0.25).collect();
    let all = Matrix::dense(&data, 3);
    for link_budget in [1, 50, 100_000] {
        let config = config(SearchConfig { link_budget, lattice_beam: 4.0, ..SearchConfig::default() });
        let whole = solo::<F>(&loops(3), &config, all);
        for cuts in [&[50][..], &[1], &[1, 2], &[33, 34, 99], &[0, 0, 50, 50, 100]] {
            let (_decoder, mut channel) = open::<F>(&loops(3), &config);
            let mut from = 0;
            for &to in cuts.iter().chain(&[100]) {
                F::push(&mut channel, all.part(from, to)).unwrap();
                from = to;
                results::<F>(&mut channel); // looking changes nothing
            }
            F::finish(&mut channel).unwrap();
            assert_eq!(results::<F>(&mut channel), whole, "cut at {cuts:?}");
        }
    }
    let two = solo::<F>(&chain(2), &DecoderConfig::default(), Matrix::dense(&[-1.0; 4], 2));
    let (_decoder, mut channel) = open::<F>(&chain(2), &DecoderConfig::default());
    F::push(&mut channel, Matrix::dense(&[-1.0; 2], 2)).unwrap();
    F::push(&mut channel, Matrix::dense(&[-1.0; 2], 2)).unwrap();
    assert_eq!(results::<F>(&mut channel), two);

    // One bad value: the frame from the start of the utterance and the least bad column are named.
    for (bad, name) in [(f32::NAN, "NaN"), (INF, "inf"), (-f32::NAN, "NaN")] {
        for (frame, column) in [(0, 0), (0, 4), (2, 3), (60, 1)] {
            let mut data = vec![-1.0; 70 * 5];
            data[frame * 5 + column..frame * 5 + 5].fill(bad);
            let rows = Matrix::dense(&data, 5);
            let good = solo::<F>(&loops(3), &DecoderConfig::default(), rows.part(0, frame));
            let message = format!("frame {frame}, column {column}: log-likelihood {name} is not usable");
            let check = |channel: &mut F::Channel, pushed: Outcome| {
                let fault = pushed.unwrap_err();
                assert_eq!((fault.status, &fault.message), (Status::KOSHI_E_SCORES, &message));
                // All before that frame is kept; good rows are answered the same way.
                for rows in [rows.part(0, 1), rows.part(69, 70)] {
                    assert_eq!(F::push(channel, rows).unwrap_err(), fault);
                }
                assert_eq!(F::pull_matrix(channel, rows, None).unwrap_err(), fault);
                assert_eq!(results::<F>(channel), good);
                F::finish(channel).unwrap();
                assert_eq!(results::<F>(channel), good);
                F::begin(channel).unwrap();
                F::push(channel, rows.part(0, frame)).unwrap();
                assert_eq!(results::<F>(channel), good);
            };
            let (decoder, mut channel) = open::<F>(&loops(3), &DecoderConfig::default());
            let pushed = F::push(&mut channel, rows);
            check(&mut channel, pushed);
            F::begin(&mut channel).unwrap();
            F::push(&mut channel, rows.part(0, frame / 2)).unwrap();
            let pushed = F::push(&mut channel, rows.part(frame / 2, 70));
            check(&mut channel, pushed);
            F::begin(&mut channel).unwrap();
            let pulled = F::pull_matrix(&mut channel, rows, None).map(|_| ());
            check(&mut channel, pulled);
            F::begin(&mut channel).unwrap();
            let pulled = F::pull(&mut channel, &mut MatrixScores::new(rows), Pull::Rows, None).map(|_| ());
            check(&mut channel, pulled);

            // In a batch: the neighbours do not notice.
            F::begin(&mut channel).unwrap();
            let mut neighbour = F::channel(&decoder).unwrap();
            F::begin(&mut neighbour).unwrap();
            let fine = vec![-1.0; 70 * 5];
            let mut items = [(&mut neighbour, Matrix::dense(&fine, 5)), (&mut channel, rows)];
            assert_eq!(F::batch(&decoder, &mut items), [Ok(()), Err(Status::KOSHI_E_SCORES)]);
            assert_eq!(F::num_frames(&neighbour), 70);
            assert_eq!(results::<F>(&mut channel), good);

            // One by one, what nobody reads is not asked for, so only columns 0 to 2 matter.
            F::begin(&mut channel).unwrap();
            let pulled = pull_single::<F>(&mut channel, rows);
            match column {
                0..3 => assert_eq!(pulled.unwrap_err().message, message),
                _ => assert_eq!(pulled, Ok(70)),
            }
        }
    }
    // Whatever the scale: NaN and +inf are no scores, also where the search would make something of them.
    for acoustic_scale in [0.0, -0.0, -1.0, 1e-40] {
        for bad in [f32::NAN, INF] {
            let config = config(SearchConfig { acoustic_scale, ..SearchConfig::default() });
            let (_decoder, mut channel) = open::<F>(&loops(2), &config);
            let fault = F::push(&mut channel, Matrix::dense(&[-1.0, -1.0, -1.0, bad], 2)).unwrap_err();
            assert_eq!(fault.status, Status::KOSHI_E_SCORES, "{bad} at scale {acoustic_scale}");
            assert!(fault.message.starts_with("frame 1, column 1: "), "{}", fault.message);
        }
    }
    // A finite score that overflows in the bad direction is named too.
    let steep = config(SearchConfig { acoustic_scale: 10.0, ..SearchConfig::default() });
    let (_decoder, mut channel) = open::<F>(&loops(2), &steep);
    let fault = F::push(&mut channel, Matrix::dense(&[-1.0, -1.0, -1.0, 3e38], 2)).unwrap_err();
    assert_eq!(fault.status, Status::KOSHI_E_SCORES);
    assert!(fault.message.starts_with("frame 1, column 1: "), "{}", fault.message);
}

fn case_b25_no_surviving_tokens<F: Face>() {
    let defaults = DecoderConfig::default();
    let check = |source: &VecSource, data: &[f32], columns: usize, frame: usize, config: &DecoderConfig| {
        let rows = Matrix::dense(data, columns);
        let good = solo::<F>(source, config, rows.part(0, frame));
        let (decoder, mut channel) = open::<F>(source, config);
        for round in 0..4 {
            let pushed = match round {
                0 => F::push(&mut channel, rows),
                1 => (0..rows.frames).try_for_each(|frame| F::push(&mut channel, rows.part(frame, frame + 1))),
                2 => pull_single::<F>(&mut channel, rows).map(|_| ()),
                _ => {
                    let outcome = F::batch(&decoder, &mut [(&mut channel, rows)]).remove(0);
                    assert_eq!(outcome, Err(Status::KOSHI_E_NO_TOKENS));
                    F::push(&mut channel, rows) // answers the same again
                }
            };
            let fault = pushed.unwrap_err();
            assert_eq!(fault.status, Status::KOSHI_E_NO_TOKENS);
            assert_eq!(fault.message, format!("frame {frame}: no tokens survived"));
            assert_eq!(F::push(&mut channel, rows.part(0, 1)).unwrap_err(), fault);
            assert_eq!(results::<F>(&mut channel), good);
            F::finish(&mut channel).unwrap();
            assert_eq!(results::<F>(&mut channel), good);
            F::begin(&mut channel).unwrap();
        }
    };
    check(&loops(2), &[-1.0, -2.0, -INF, -INF, -1.0, -1.0], 2, 1, &defaults);
    check(&loops(2), &[-INF, -INF, -1.0, -1.0], 2, 0, &defaults);
    // Only what is reached counts: the other column does not help.
    check(&chain(2), &[-1.0, -2.0, -1.0, -INF, -1.0, -1.0], 2, 1, &defaults);
    // The graph ends; also after windows of links have been pruned.
    check(&graph_a(), &[-1.0, -1.0, -1.0], 1, 1, &defaults);
    check(&chain(130), &vec![-1.0; 140 * 130], 130, 130, &defaults);
    // Nothing leaves the start; only epsilon arcs leave it; only arcs of +inf.
    check(&source(Some(0), vec![(0.0, vec![])]), &[-1.0], 1, 0, &defaults);
    check(&source(Some(0), vec![(0.0, vec![arc(0, 1, 0.5, 1)]), (0.0, vec![])]), &[-1.0], 1, 0, &defaults);
    check(&source(Some(0), vec![(0.0, vec![arc(1, 1, INF, 0)])]), &[-1.0], 1, 0, &defaults);
}

fn case_b26_empty_queues<F: Face>() {
    // Without epsilon arcs nothing is ever queued: silent and right.
    let found = solo::<F>(&loops(2), &DecoderConfig::default(), Matrix::dense(&[-1.0, -2.0, -2.0, -1.0], 2));
    assert_eq!(found.paths[0].olabels, [1, 2]);
    // With them, after all tokens were pruned or a capacity did not hold, the channel begins anew
    // and nothing is left over, in this channel or another one of the same lane.
    let star = |columns: i32| {
        let mut states = vec![(INF, (1..=columns).map(|label| arc(label, label, 0.0, label as u32)).collect())];
        states.extend((1..=columns).map(|label| (0.0, vec![arc(0, 10 + label, 0.5, 0)])));
        source(Some(0), states)
    };
    let good_row = [-1.0, -2.0, -1.5, -1.0, -1.0];
    for search in [
        SearchConfig::default(),
        SearchConfig { token_capacity: 2, ..SearchConfig::default() },
        SearchConfig { link_capacity: 2, ..SearchConfig::default() },
        SearchConfig { candidate_capacity: 1, ..SearchConfig::default() },
    ] {
        let config = DecoderConfig { search, num_lanes: 1, num_threads: 1, ..DecoderConfig::default() };
        let (decoder, mut channel) = open::<F>(&star(5), &config);
        let mut other = F::channel(&decoder).unwrap();
        let expected = {
            let (_decoder, mut fresh) = open::<F>(&star(5), &config);
            let _ = F::push(&mut fresh, Matrix::dense(&good_row, 5));
            results::<F>(&mut fresh)
        };
        for bad in [[-INF; 5], [0.0; 5], [f32::NAN; 5]] {
            let _ = F::push(&mut channel, Matrix::dense(&good_row, 5));
            let _ = F::push(&mut channel, Matrix::dense(&bad, 5));
            for channel in [&mut channel, &mut other] {
                F::begin(channel).unwrap();
                let _ = F::push(channel, Matrix::dense(&good_row, 5));
                assert_eq!(results::<F>(channel), expected);
            }
            F::begin(&mut channel).unwrap();
        }
    }
    // "Switching models": a decoder of another graph beside it, used in turn.
    let data = [-1.0, -2.0, -1.5, -1.0, -1.0].repeat(3);
    let rows = Matrix::dense(&data, 5);
    let sources = [star(5), loops(5), chain(5)];
    let mut opened: Vec<_> = sources.iter().map(|source| open::<F>(source, &DecoderConfig::default())).collect();
    for at in 0..3 {
        opened.iter_mut().for_each(|(_, channel)| F::push(channel, rows.part(at, at + 1)).unwrap());
    }
    for ((_, channel), source) in opened.iter_mut().zip(&sources) {
        F::finish(channel).unwrap();
        assert_eq!(results::<F>(channel), solo::<F>(source, &DecoderConfig::default(), rows));
    }
}

/// A matrix that is never read outside its rows: so it claims.
struct Guarded<'a>(MatrixScores<'a>);

impl Scores for Guarded<'_> {
    fn columns(&mut self) -> usize {
        self.0.columns()
    }

    fn ready(&mut self) -> u64 {
        self.0.ready()
    }

    fn score(&mut self, frame: u64, column: usize) -> Result<f32, i32> {
        assert!(column < 3 && frame < 60);
        self.0.score(frame, column)
    }
}

fn case_b28_stride<F: Face>() {
    let mut rng = Rng(28);
    let dense: Vec<f32> = (0..180).map(|_| -(rng.below(40) as f32) * 0.25).collect();
    let config = config(SearchConfig { link_budget: 20, ..SearchConfig::default() });
    let expected = solo::<F>(&loops(3), &config, Matrix::dense(&dense, 3));
    for stride in [3, 4, 5, 64] {
        for padding in [1e30, f32::NAN, INF, -INF] {
            // The last row has no padding behind it: memory ends there.
            let mut data = vec![padding; 59 * stride + 3];
            for (frame, row) in dense.chunks(3).enumerate() {
                data[frame * stride..frame * stride + 3].copy_from_slice(row);
            }
            let data = data.into_boxed_slice();
            let rows = Matrix { data: &data, frames: 60, dim: 3, stride };
            let (decoder, mut channel) = open::<F>(&loops(3), &config);
            let mut check = |step: &dyn Fn(&mut F::Channel)| {
                F::begin(&mut channel).unwrap();
                step(&mut channel);
                F::finish(&mut channel).unwrap();
                assert_eq!(results::<F>(&mut channel), expected, "stride {stride}, padding {padding}");
            };
            check(&|channel| F::push(channel, rows).unwrap());
            check(&|channel| (0..60).for_each(|at| F::push(channel, rows.part(at, at + 1)).unwrap()));
            check(&|channel| assert_eq!(F::batch(&decoder, &mut [(channel, rows)]), [Ok(())]));
            check(&|channel| assert_eq!(F::pull_matrix(channel, rows, None), Ok(60)));
            for how in [Pull::Rows, Pull::Single] {
                let pull =
                    |channel: &mut F::Channel| F::pull(channel, &mut Guarded(MatrixScores::new(rows)), how, None);
                check(&|channel| assert_eq!(pull(channel), Ok(60)));
            }
        }
    }
    // Wider rows than the graph reads, and another width in each push.
    let mut wide = Vec::new();
    for row in dense.chunks(3) {
        wide.extend([row, &[-0.5, 7.0, -INF, 0.0]].concat());
    }
    let (_decoder, mut channel) = open::<F>(&loops(3), &config);
    for at in 0..60 {
        let dim = 3 + at % 5;
        F::push(&mut channel, Matrix { data: &wide[at * 7..], frames: 1, dim, stride: 7 }).unwrap();
    }
    assert_eq!(results::<F>(&mut channel), expected);
    // A stride below the width is refused, and so are sizes that no memory has.
    for (frames, dim, stride) in [(2, 3, 2), (1, 3, 0), (usize::MAX, 3, 3), (3, 3, usize::MAX), (0, 3, 2)] {
        let fault = F::push(&mut channel, Matrix { data: &dense, frames, dim, stride }).unwrap_err();
        assert!(matches!(fault.status, Status::KOSHI_E_SHAPE | Status::KOSHI_E_ARGUMENT), "{fault:?}");
    }
    assert_eq!(results::<F>(&mut channel), expected);
}

fn case_b30_ties_in_every_lane<F: Face>() {
    // (graph, rows, words of the winner): ties go to the smaller arc index on the way back, and to the
    // smaller graph state at the end.
    let parallel = source(Some(0), vec![(INF, vec![arc(1, 7, 0.5, 1), arc(1, 3, 0.5, 1)]), (0.0, vec![])]);
    let columns = source(Some(0), vec![(INF, vec![arc(2, 9, 0.5, 1), arc(1, 4, 0.5, 1)]), (0.0, vec![])]);
    let ends = source(Some(0), vec![(INF, vec![arc(1, 1, 0.5, 2), arc(1, 2, 0.5, 1)]), (0.0, vec![]), (0.0, vec![])]);
    let ends_by_final =
        source(Some(0), vec![(INF, vec![arc(1, 1, 0.25, 2), arc(1, 2, 0.5, 1)]), (0.5, vec![]), (0.75, vec![])]);
    // Into state 3 by an epsilon arc (arc 3) and by an emitting one (arc 1): the smaller index.
    let epsilon = source(
        Some(0),
        vec![
            (INF, vec![arc(1, 1, 0.5, 2), arc(1, 2, 1.0, 3)]),
            (INF, vec![arc(1, 0, 0.0, 1)]),
            (INF, vec![arc(0, 3, 0.5, 3)]),
            (0.0, vec![]),
        ],
    );
    let diamonds = |count: u32| {
        let mut states: Vec<(f32, Vec<_>)> = Vec::new();
        for at in 0..count {
            states.push((INF, vec![arc(1, 2, 0.25, 3 * at + 2), arc(1, 1, 0.25, 3 * at + 1)]));
            states.push((INF, vec![arc(1, 20, 0.25, 3 * at + 3)]));
            states.push((INF, vec![arc(1, 10, 0.25, 3 * at + 3)]));
        }
        states.push((0.0, vec![]));
        source(Some(0), states)
    };
    let one = [-1.0; 2];
    let many = vec![-1.0; 80];
    // In a diamond both arcs into its end tie: the first in the file leaves its state 3 n + 1.
    let diamond_words = [1, 20].repeat(20);
    for (graph_source, data, dim, winner) in [
        (&parallel, &one[..1], 1, vec![7]),
        (&columns, &one[..], 2, vec![9]),
        (&ends, &one[..1], 1, vec![2]),
        (&ends_by_final, &one[..1], 1, vec![2]),
        (&epsilon, &one[..1], 1, vec![2]),
        (&diamonds(20), &many[..40], 1, diamond_words),
    ] {
        for (num_lanes, num_threads) in [(1, 1), (8, 2)] {
            let search = SearchConfig { link_budget: 8, ..SearchConfig::default() };
            let config = DecoderConfig { search, num_lanes, num_threads, ..DecoderConfig::default() };
            let decoder = F::decoder(&graph::<F>(graph_source), &config).unwrap();
            let mut channels: Vec<F::Channel> = (0..10).map(|_| F::channel(&decoder).unwrap()).collect();
            let mut first = None;
            for _ in 0..10 {
                channels.iter_mut().for_each(|channel| F::begin(channel).unwrap());
                let mut items: Vec<_> =
                    channels.iter_mut().map(|channel| (channel, Matrix::dense(data, dim))).collect();
                assert!(F::batch(&decoder, &mut items).iter().all(Result::is_ok));
                for channel in &mut channels {
                    F::finish(channel).unwrap();
                    let found = results::<F>(channel);
                    assert_eq!(found.paths[0].olabels, winner);
                    assert_eq!(*first.get_or_insert_with(|| found.clone()), found);
                }
            }
        }
    }
}
