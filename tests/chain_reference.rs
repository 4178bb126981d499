//! The fast recursion beside plain ones in float64: all paths of small graphs, and the log domain on larger ones. The
//! same bits in each run, on any number of threads, in any company.

#[path = "common/chain/mod.rs"]
mod chain;

use chain::{Face, Random, Rust, Scores, bytes, end_to_end, graph, supervision};
use koshi::chain::{ChainBackend, ChainConfig, DenominatorGraph, Supervision};

fn config(leak: f32) -> ChainConfig {
    ChainConfig { backend: ChainBackend::Cpu, num_threads: 1, leaky_hmm_coefficient: leak, ..ChainConfig::default() }
}

/// The graph as float64 sees it: initial probabilities, and arcs as (source, pdf, probability, destination).
struct Plain {
    initial: Vec<f64>,
    arcs: Vec<(usize, usize, f64, usize)>,
}

impl Plain {
    fn of(den: &DenominatorGraph) -> Plain {
        let mut arcs = Vec::new();
        for (source, &(begin, end)) in den.forward_transitions().iter().enumerate() {
            for arc in &den.transitions()[begin as usize..end as usize] {
                arcs.push((source, arc.pdf as usize, f64::from(arc.prob), arc.state as usize));
            }
        }
        Plain { initial: den.initial_probs().iter().map(|&prob| f64::from(prob)).collect(), arcs }
    }

    /// Sums over all paths from `state` at `frame` on, those that leap there included: the probability, and the same
    /// for each pdf of each frame that a path goes through.
    fn paths(&self, leak: f64, rows: &[&[f32]], state: usize, frame: usize, sums: &mut [Vec<f64>], so_far: f64) -> f64 {
        let leaps = self.initial.iter().enumerate().map(|(to, prob)| (to, leak * prob));
        let mut total = 0.0;
        for (state, share) in std::iter::once((state, 1.0)).chain(leaps) {
            if frame == rows.len() {
                total += so_far * share;
                continue;
            }
            for &(_, pdf, prob, next) in self.arcs.iter().filter(|arc| arc.0 == state) {
                let score = f64::from(rows[frame][pdf]).clamp(-30.0, 30.0).exp();
                let through = self.paths(leak, rows, next, frame + 1, sums, so_far * share * prob * score);
                sums[frame][pdf] += through;
                total += through;
            }
        }
        total
    }

    /// Forward-backward in the log domain: the log-probability, and the occupancies by frame and pdf.
    fn log_domain(&self, leak: f64, rows: &[&[f32]]) -> (f64, Vec<Vec<f64>>) {
        let states = self.initial.len();
        let leap = |logs: &[f64]| -> Vec<f64> {
            let all = log_sum(logs);
            logs.iter().zip(&self.initial).map(|(&log, prob)| log_sum(&[log, all + (leak * prob).ln()])).collect()
        };
        let score = |frame: usize, pdf: usize| f64::from(rows[frame][pdf]).clamp(-30.0, 30.0);
        let mut alphas = vec![leap(&self.initial.iter().map(|prob| prob.ln()).collect::<Vec<f64>>())];
        for frame in 0..rows.len() {
            let mut into = vec![Vec::new(); states];
            for &(source, pdf, prob, next) in &self.arcs {
                into[next].push(alphas[frame][source] + prob.ln() + score(frame, pdf));
            }
            alphas.push(leap(&into.iter().map(|logs| log_sum(logs)).collect::<Vec<f64>>()));
        }
        let total = log_sum(&alphas[rows.len()]);
        let mut occupancies = vec![vec![0.0; rows[0].len()]; rows.len()];
        let mut beta = vec![0.0; states];
        for frame in (0..rows.len()).rev() {
            // A leap after this frame's arc.
            let leaps: Vec<f64> =
                beta.iter().zip(&self.initial).map(|(beta, prob)| beta + (leak * prob).ln()).collect();
            let leaps = log_sum(&leaps);
            let after: Vec<f64> = beta.iter().map(|&beta| log_sum(&[beta, leaps])).collect();
            let mut out = vec![Vec::new(); states];
            for &(source, pdf, prob, next) in &self.arcs {
                let through = prob.ln() + score(frame, pdf) + after[next];
                out[source].push(through);
                occupancies[frame][pdf] += (alphas[frame][source] + through - total).exp();
            }
            beta = out.iter().map(|logs| log_sum(logs)).collect();
        }
        (total, occupancies)
    }
}

fn log_sum(logs: &[f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return most;
    }
    most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln()
}

/// The rows of one sequence.
fn rows_of(scores: &Scores, sequence: usize, sequences: usize) -> Vec<&[f32]> {
    scores.data.chunks(scores.cols).skip(sequence).step_by(sequences).collect()
}

#[test]
fn all_paths_of_small_graphs() {
    let mut random = Random(1);
    for round in 0..40 {
        let (states, pdfs, frames, n) = (1 + random.below(3), 1 + random.below(3), 1 + random.below(3), 3);
        let den = DenominatorGraph::from_source(&random.graph(states, pdfs), pdfs).unwrap();
        let scores = random.scores(n * frames, pdfs, if round % 4 == 0 { 40.0 } else { 3.0 });
        for leak in [0.0, 1e-5, 0.1, 0.7] {
            let found = Rust::denominator(&den, &config(leak), &scores, n, None).unwrap();
            let mut total = 0.0;
            for sequence in 0..n {
                let plain = Plain::of(&den);
                let rows = rows_of(&scores, sequence, n);
                let mut sums = vec![vec![0.0; pdfs]; frames];
                let mut all = 0.0;
                for (state, &prob) in plain.initial.iter().enumerate() {
                    all += plain.paths(f64::from(leak), &rows, state, 0, &mut sums, prob);
                }
                total += all.ln();
                for (frame, sums) in sums.iter().enumerate() {
                    for (pdf, sum) in sums.iter().enumerate() {
                        let deriv = f64::from(found.deriv[(frame * n + sequence) * pdfs + pdf]);
                        assert!((deriv - sum / all).abs() < 2e-6, "{deriv}, all paths {}", sum / all);
                    }
                }
            }
            assert!(found.ok && (found.value - total).abs() < 1e-5 * total.abs().max(1.0), "{} {total}", found.value);
        }
    }
}

#[test]
fn the_log_domain_on_larger_graphs() {
    let mut random = Random(2);
    for leak in [1e-5, 0.1] {
        let (states, pdfs, frames, n) = (60, 11, 30, 5);
        let den = DenominatorGraph::from_source(&random.graph(states, pdfs), pdfs).unwrap();
        let scores = random.scores(n * frames, pdfs, 6.0);
        let found = Rust::denominator(&den, &config(leak), &scores, n, None).unwrap();
        let plain = Plain::of(&den);
        let mut total = 0.0;
        for sequence in 0..n {
            let (log_prob, occupancies) = plain.log_domain(f64::from(leak), &rows_of(&scores, sequence, n));
            total += log_prob;
            for (frame, row) in occupancies.iter().enumerate() {
                for (pdf, occupancy) in row.iter().enumerate() {
                    let deriv = f64::from(found.deriv[(frame * n + sequence) * pdfs + pdf]);
                    assert!((deriv - occupancy).abs() < 1e-5, "{deriv}, log domain {occupancy}");
                }
            }
        }
        assert!(found.ok && (found.value - total).abs() < 1e-6 * total.abs(), "{} {total}", found.value);
    }
}

/// All labellings of the frames, each checked against the FST.
#[test]
fn all_paths_of_small_supervisions() {
    let each = "0 0 1 1 0.5;0 1 2 2 1;1 1 2 2 0.25;1 0 3 3;1 0 1 1 2;1 0.5;0";
    let (frames, pdfs, n) = (4, 3, 2);
    let said = Supervision::from_memory(&end_to_end([n, frames, pdfs], &[each, each])).unwrap();
    let scores = Random(3).scores(n * frames, pdfs, 3.0);
    let found = Rust::numerator(&said, &scores).unwrap();
    let fst = &said.fsts()[0];
    fn walk(
        fst: &koshi::chain::Acceptor,
        rows: &[&[f32]],
        state: usize,
        cost: f64,
        labels: &mut Vec<usize>,
        each: &mut dyn FnMut(f64, &[usize]),
    ) {
        if labels.len() == rows.len() {
            return each(-cost - f64::from(fst.finals()[state]), labels);
        }
        for arc in fst.arcs(state) {
            let pdf = arc.label as usize - 1;
            let score = f64::from(rows[labels.len()][pdf]);
            labels.push(pdf);
            walk(fst, rows, arc.next as usize, cost + f64::from(arc.cost) - score, labels, each);
            labels.pop();
        }
    }
    let mut total = 0.0;
    for sequence in 0..n {
        let rows = rows_of(&scores, sequence, n);
        let (mut all, mut sums) = (0.0, vec![0.0; frames * pdfs]);
        walk(fst, &rows, 0, 0.0, &mut Vec::new(), &mut |log, labels| {
            all += log.exp();
            labels.iter().enumerate().for_each(|(frame, pdf)| sums[frame * pdfs + pdf] += log.exp());
        });
        total += f64::ln(all);
        for (at, sum) in sums.iter().enumerate() {
            let (frame, pdf) = (at / pdfs, at % pdfs);
            let deriv = f64::from(found.deriv[(frame * n + sequence) * pdfs + pdf]);
            assert!((deriv - sum / all).abs() < 1e-6, "{deriv}, all paths {}", sum / all);
        }
    }
    assert!(found.ok && (found.value - total).abs() < 1e-9, "{} {total}", found.value);
}

#[test]
fn the_same_bits_on_any_number_of_threads() {
    let mut random = Random(4);
    let den = DenominatorGraph::from_source(&random.graph(50, 9), 9).unwrap();
    let (n, frames) = (37, 12);
    let chain: String = (0..n * frames).map(|at| format!("{at} {} {1} {1};", at + 1, at % 9 + 1)).collect();
    let said = Supervision::from_memory(&supervision([n, frames, 9], &format!("{chain}{}", n * frames))).unwrap();
    let scores = random.scores(n * frames, 9, 5.0);
    let run = |num_threads: u32| {
        let config = ChainConfig { num_threads, l2_regularize: 1e-3, ..config(0.1) };
        Rust::objf(&den, &said, &config, &scores, None).unwrap()
    };
    let first = run(1);
    assert!(first.ok);
    for threads in [1, 2, 3, 4, 8, 40, 2, 1] {
        assert_eq!(run(threads), first, "{threads} threads");
    }
}

#[test]
fn a_graph_that_cannot_be_walked_on_gives_its_average_so_far() {
    let mut source = graph(vec![vec![chain::arc(0, 1.0, 1)], vec![chain::arc(1, 1.0, 2)], vec![]]);
    source.states[2].0 = 0.0;
    let den = DenominatorGraph::from_memory(&bytes(&source), 2).unwrap();
    assert_eq!(den.initial_probs(), [1.0 / 3.0; 3]);
    // Three frames cannot be had without a leap: the probability is 0, and -10 a frame stands for it.
    let scores = Scores::dense(&[0.0; 6], 2);
    let found = Rust::denominator(&den, &config(0.0), &scores, 1, None).unwrap();
    assert!(!found.ok && found.value == -30.0 && found.deriv.iter().all(|value| *value == 0.0), "{found:?}");
    assert!(Rust::denominator(&den, &config(0.1), &scores, 1, None).unwrap().ok);
}
