//! The recursion over a few sequences side by side, innermost in every array, so that each step is one vector operation.
//!
//! `a` and `b` are Kaldi's alphas and betas, float32, each divided by the sum of the frame before; sums over arcs are
//! taken in pairs (float32) that are added up in float64, as Kaldi's GPU kernels do it, and sums over states in
//! float64. Nothing here depends on the number of lanes: a sequence's bits are its own.

use super::exp::clamped_exp;
use super::groups::Groups;
use super::scores::Scores;
use crate::cuda::ChainArc as Arc;

/// What is computed, and over which part of a batch.
pub(super) struct Task<'a> {
    pub groups: &'a Groups,
    pub initial: &'a [f32],
    pub leak: f32,
    pub scores: Scores<'a>,
    pub num_sequences: usize,
    pub frames: usize,
    /// Frames of each sequence, where they are not all of them.
    pub lengths: Option<&'a [u32]>,
    pub backward: bool,
}

/// What became of one sequence.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub log_prob: f64,
    /// Whether everything was a number: probabilities above 0, occupancies finite.
    pub usable: bool,
    /// Sum over states of alpha times beta at the first frame; 1 but for rounding.
    pub product: f64,
    /// Sum of the occupancies of the first frame; 1 but for rounding.
    pub occupancy: f64,
}

/// Arrays that one thread works in.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Alphas of this frame and of the next.
    pub alpha: Vec<f32>,
    pub next: Vec<f32>,
    /// What the groups carried in each frame.
    pub carried: Vec<f32>,
    /// What a unit in a group is worth later on.
    pub worth: Vec<f32>,
}

/// Runs the recursion for the sequences from `first` on, one a lane; lanes beyond the last sequence are idle. Behind
/// it, `emissions` holds the occupancies of pdfs by frame, pdf and lane (of usable sequences), if they were wanted.
pub(super) fn run<const W: usize>(
    task: &Task,
    first: usize,
    emissions: &mut [f32],
    outcomes: &mut [Outcome],
    scratch: &mut Scratch,
) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, as was just asked.
        return unsafe { run_avx2::<W>(task, first, emissions, outcomes, scratch) };
    }
    run_plain::<W>(task, first, emissions, outcomes, scratch);
}

/// The same code for wider vectors. Without fused multiplications the bits are the same.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn run_avx2<const W: usize>(
    task: &Task,
    first: usize,
    emissions: &mut [f32],
    outcomes: &mut [Outcome],
    scratch: &mut Scratch,
) {
    run_plain::<W>(task, first, emissions, outcomes, scratch);
}

#[inline(always)]
fn run_plain<const W: usize>(
    task: &Task,
    first: usize,
    emissions: &mut [f32],
    outcomes: &mut [Outcome],
    scratch: &mut Scratch,
) {
    let mut lengths = [0; W];
    for (lane, length) in lengths.iter_mut().enumerate().take(task.num_sequences.saturating_sub(first)) {
        *length = task.lengths.map_or(task.frames, |lengths| lengths[first + lane] as usize);
    }
    let mut tile = Tile {
        task,
        lengths,
        emissions: emissions.as_chunks_mut::<W>().0,
        alpha: scratch.alpha.as_chunks_mut::<W>().0,
        next: scratch.next.as_chunks_mut::<W>().0,
        carried: scratch.carried.as_chunks_mut::<W>().0,
        worth: scratch.worth.as_chunks_mut::<W>().0,
        prob: [0.0; W],
        log_prob: [0.0; W],
        usable: [true; W],
        product: [0.0; W],
        occupancy: [0.0; W],
    };
    tile.fill_emissions(first);
    tile.forward();
    if task.backward {
        tile.backward();
    }
    for (lane, outcome) in outcomes.iter_mut().enumerate() {
        *outcome = Outcome {
            log_prob: tile.log_prob[lane],
            usable: tile.usable[lane],
            product: tile.product[lane],
            occupancy: tile.occupancy[lane],
        };
    }
}

struct Tile<'a, const W: usize> {
    task: &'a Task<'a>,
    /// Frames of each lane.
    lengths: [usize; W],
    emissions: &'a mut [[f32; W]],
    alpha: &'a mut [[f32; W]],
    next: &'a mut [[f32; W]],
    carried: &'a mut [[f32; W]],
    worth: &'a mut [[f32; W]],
    /// Sum of the alphas behind the last frame.
    prob: [f32; W],
    log_prob: [f64; W],
    usable: [bool; W],
    product: [f64; W],
    occupancy: [f64; W],
}

impl<const W: usize> Tile<'_, W> {
    /// Exponentials of the scores, by frame, pdf and lane; 0 where a lane has no frame.
    #[inline(always)]
    fn fill_emissions(&mut self, first: usize) {
        let task = self.task;
        let pdfs = task.scores.cols();
        for (frame, block) in self.emissions.chunks_exact_mut(pdfs).enumerate() {
            for lane in (0..W).filter(|&lane| frame < self.lengths[lane]) {
                let row = task.scores.row(frame * task.num_sequences + first + lane);
                block.iter_mut().zip(row).for_each(|(lanes, &score)| lanes[lane] = score);
            }
            for lanes in block.iter_mut() {
                for value in lanes {
                    *value = clamped_exp(*value);
                }
            }
            for lane in (0..W).filter(|&lane| frame >= self.lengths[lane]) {
                block.iter_mut().for_each(|lanes| lanes[lane] = 0.0);
            }
        }
    }

    #[inline(always)]
    fn forward(&mut self) {
        let task = self.task;
        let (pdfs, groups) = (task.scores.cols(), task.groups.len());
        let mut sum = [0.0f64; W];
        for (lanes, &prob) in self.alpha.iter_mut().zip(task.initial) {
            *lanes = [prob; W];
            add(&mut sum, lanes);
        }
        for frame in 0..=task.frames {
            let total = narrow(&sum);
            self.add_leak(&total);
            self.note_ends(frame);
            if frame == task.frames {
                break;
            }
            let scale = self.frame_scale(frame, &total);
            let emissions = &mut self.emissions[frame * pdfs..][..pdfs];
            for lanes in emissions.iter_mut() {
                for lane in 0..W {
                    lanes[lane] *= scale[lane];
                }
            }
            let carried = &mut self.carried[if task.backward { frame * groups } else { 0 }..][..groups];
            sum = step_forward(task.groups, self.alpha, self.next, emissions, carried);
            std::mem::swap(&mut self.alpha, &mut self.next);
        }
    }

    /// Lets each state be reached from anywhere with a small probability.
    #[inline(always)]
    fn add_leak(&mut self, total: &[f32; W]) {
        let mut leak = [0.0f32; W];
        for lane in 0..W {
            leak[lane] = self.task.leak * total[lane];
        }
        for (lanes, &prob) in self.alpha.iter_mut().zip(self.task.initial) {
            for lane in 0..W {
                lanes[lane] += prob * leak[lane];
            }
        }
    }

    /// Takes the probability of sequences that end here.
    #[inline(always)]
    fn note_ends(&mut self, frame: usize) {
        if !self.lengths.contains(&frame) {
            return;
        }
        let mut sum = [0.0f64; W];
        self.alpha.iter().for_each(|lanes| add(&mut sum, lanes));
        for lane in (0..W).filter(|&lane| self.lengths[lane] == frame) {
            let prob = sum[lane] as f32;
            self.prob[lane] = prob;
            self.usable[lane] &= is_usable(prob);
            self.log_prob[lane] += f64::from(prob).ln();
        }
    }

    /// What a frame is divided by to keep numbers in range, as a factor; 0 where a lane has no such frame.
    #[inline(always)]
    fn frame_scale(&mut self, frame: usize, total: &[f32; W]) -> [f32; W] {
        let mut scale = [0.0f32; W];
        for lane in (0..W).filter(|&lane| frame < self.lengths[lane]) {
            scale[lane] = 1.0 / total[lane];
            self.usable[lane] &= is_usable(total[lane]) && is_usable(scale[lane]);
            // What was really multiplied in, so that its rounding is undone.
            self.log_prob[lane] -= f64::from(scale[lane]).ln();
        }
        scale
    }

    #[inline(always)]
    fn backward(&mut self) {
        let task = self.task;
        let (pdfs, groups) = (task.scores.cols(), task.groups.len());
        // The alphas are done with.
        let beta = &mut *self.alpha;
        beta.fill([0.0; W]);
        for frame in (0..=task.frames).rev() {
            for lane in (0..W).filter(|&lane| self.lengths[lane] == frame) {
                let share = if self.usable[lane] { 1.0 / self.prob[lane] } else { 0.0 };
                beta.iter_mut().for_each(|lanes| lanes[lane] = share);
            }
            if frame == 0 {
                break;
            }
            add_leak_backward(beta, task.initial, task.leak);
            let emissions = &mut self.emissions[(frame - 1) * pdfs..][..pdfs];
            let carried = &self.carried[(frame - 1) * groups..][..groups];
            let occupancy = occupancies(task.groups, beta, emissions, carried, self.worth);
            for (usable, occupancy) in self.usable.iter_mut().zip(occupancy) {
                *usable &= occupancy.is_finite();
            }
            self.occupancy = occupancy;
            step_backward(task.groups, self.worth, beta);
        }
        let total = task.initial.iter().map(|&prob| f64::from(prob)).sum::<f64>() as f32;
        for (lanes, &prob) in beta.iter().zip(task.initial) {
            let alpha = prob + prob * (task.leak * total);
            for (product, beta) in self.product.iter_mut().zip(lanes) {
                *product += f64::from(alpha * beta);
            }
        }
    }
}

pub(super) fn is_usable(value: f32) -> bool {
    value > 0.0 && value.is_finite()
}

#[inline(always)]
fn add<const W: usize>(sum: &mut [f64; W], lanes: &[f32; W]) {
    for lane in 0..W {
        sum[lane] += f64::from(lanes[lane]);
    }
}

/// Rounded to float32. (An array's own `map` is a call for each, which costs more than the sum.)
#[inline(always)]
fn narrow<const W: usize>(sum: &[f64; W]) -> [f32; W] {
    let mut lanes = [0.0f32; W];
    for lane in 0..W {
        lanes[lane] = sum[lane] as f32;
    }
    lanes
}

/// The sum over arcs of probability times what stands at their other end. Of up to two pairs it is taken in float32:
/// rounding a sum of two float32 to float64 first changes nothing.
#[inline(always)]
fn weigh<const W: usize>(arcs: &[Arc], ends: &[[f32; W]], weighed: &mut [f32; W]) {
    let end = |arc: &Arc| &ends[arc.at as usize];
    match arcs {
        [one] => {
            let first = end(one);
            for lane in 0..W {
                weighed[lane] = first[lane] * one.prob;
            }
        }
        [one, two] => {
            let (first, second) = (end(one), end(two));
            for lane in 0..W {
                weighed[lane] = first[lane] * one.prob + second[lane] * two.prob;
            }
        }
        [one, two, three] => {
            let (first, second, third) = (end(one), end(two), end(three));
            for lane in 0..W {
                weighed[lane] = (first[lane] * one.prob + second[lane] * two.prob) + third[lane] * three.prob;
            }
        }
        [one, two, three, four] => {
            let (first, second, third, fourth) = (end(one), end(two), end(three), end(four));
            for lane in 0..W {
                weighed[lane] = (first[lane] * one.prob + second[lane] * two.prob)
                    + (third[lane] * three.prob + fourth[lane] * four.prob);
            }
        }
        _ => *weighed = narrow(&weigh_many(arcs, ends)),
    }
}

/// The same over any number of arcs.
#[inline(always)]
fn weigh_many<const W: usize>(arcs: &[Arc], ends: &[[f32; W]]) -> [f64; W] {
    let mut sum = [0.0f64; W];
    let (pairs, odd) = arcs.as_chunks::<2>();
    for [one, two] in pairs {
        let (first, second) = (&ends[one.at as usize], &ends[two.at as usize]);
        for lane in 0..W {
            sum[lane] += f64::from(first[lane] * one.prob + second[lane] * two.prob);
        }
    }
    for arc in odd {
        let end = &ends[arc.at as usize];
        for lane in 0..W {
            sum[lane] += f64::from(end[lane] * arc.prob);
        }
    }
    sum
}

/// One frame forward: alphas of the next frame and their sum, and what each group carries.
#[inline(always)]
fn step_forward<const W: usize>(
    groups: &Groups,
    alpha: &[[f32; W]],
    next: &mut [[f32; W]],
    emissions: &[[f32; W]],
    carried: &mut [[f32; W]],
) -> [f64; W] {
    let mut total = [0.0f64; W];
    for (bounds, state) in groups.entering_offsets.windows(2).zip(next.iter_mut()) {
        let entering = &groups.entering[bounds[0] as usize..bounds[1] as usize];
        for group in entering {
            let mut weighed = [0.0f32; W];
            weigh(&groups.arcs_in[group.begin as usize..group.end as usize], alpha, &mut weighed);
            let emission = &emissions[group.pdf as usize];
            let carried = &mut carried[group.group as usize];
            for lane in 0..W {
                carried[lane] = weighed[lane] * emission[lane];
            }
        }
        match entering {
            [one] => *state = carried[one.group as usize],
            [one, two] => {
                let (mut sum, second) = (carried[one.group as usize], carried[two.group as usize]);
                for lane in 0..W {
                    sum[lane] += second[lane];
                }
                *state = sum;
            }
            several => {
                let mut sum = [0.0f64; W];
                several.iter().for_each(|group| add(&mut sum, &carried[group.group as usize]));
                *state = narrow(&sum);
            }
        }
        add(&mut total, state);
    }
    total
}

#[inline(always)]
fn add_leak_backward<const W: usize>(beta: &mut [[f32; W]], initial: &[f32], leak: f32) {
    let mut sum = [0.0f64; W];
    for (lanes, &prob) in beta.iter().zip(initial) {
        for lane in 0..W {
            sum[lane] += f64::from(prob * lanes[lane]);
        }
    }
    let mut share = [0.0f32; W];
    for lane in 0..W {
        share[lane] = (sum[lane] * f64::from(leak)) as f32;
    }
    for lanes in beta {
        for lane in 0..W {
            lanes[lane] += share[lane];
        }
    }
}

/// Occupancies of pdfs in a frame, which take the place of its emissions, and their sum; and what a unit in each
/// group is worth.
#[inline(always)]
fn occupancies<const W: usize>(
    groups: &Groups,
    beta: &[[f32; W]],
    emissions: &mut [[f32; W]],
    carried: &[[f32; W]],
    worth: &mut [[f32; W]],
) -> [f64; W] {
    let mut total = [0.0f64; W];
    for (bounds, place) in groups.pdf_offsets.windows(2).zip(emissions) {
        let (begin, end) = (bounds[0] as usize, bounds[1] as usize);
        let emission = *place;
        let mut sum = [0.0f64; W];
        let states = &groups.states[begin..end];
        for ((&state, carried), worth) in states.iter().zip(&carried[begin..end]).zip(&mut worth[begin..end]) {
            // Loops of one result each, on copies: that is what becomes vector operations.
            let (beta, carried) = (beta[state as usize], *carried);
            let mut values = [0.0f32; W];
            for lane in 0..W {
                values[lane] = beta[lane] * emission[lane];
            }
            *worth = values;
            for lane in 0..W {
                values[lane] = carried[lane] * beta[lane];
            }
            add(&mut sum, &values);
        }
        *place = narrow(&sum);
        add(&mut total, place);
    }
    total
}

#[inline(always)]
fn step_backward<const W: usize>(groups: &Groups, worth: &[[f32; W]], beta: &mut [[f32; W]]) {
    for (bounds, state) in groups.out_offsets.windows(2).zip(beta) {
        weigh(&groups.arcs_out[bounds[0] as usize..bounds[1] as usize], worth, state);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Sums of few terms are what they are in float64, also where one is far below the other and where results lie
        /// below the least normal number.
        #[test]
        fn few_arcs_are_weighed_as_many(
            ends in proptest::collection::vec((0u32..0x7f00_0000, 0u32..0x3f80_0000), 0..7),
        ) {
            let arcs: Vec<Arc> =
                (0..).zip(&ends).map(|(at, &(_, prob))| Arc { at, prob: f32::from_bits(prob) }).collect();
            let ends: Vec<[f32; 1]> = ends.iter().map(|&(end, _)| [f32::from_bits(end)]).collect();
            let mut weighed = [0.0];
            weigh(&arcs, &ends, &mut weighed);
            prop_assert_eq!(weighed[0].to_bits(), narrow(&weigh_many(&arcs, &ends))[0].to_bits());
        }
    }
}
