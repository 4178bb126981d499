//! Rule 4 of the search: which tokens of a time emit, and the beam of the next frame.
//!
//! It is Kaldi's adaptive beam (`LatticeFasterDecoder::GetCutoff`), on exact sets.

use super::SearchConfig;

/// What rule 4 says of one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Emission {
    /// Tokens with `a <= cutoff` emit.
    pub cutoff: f32,
    /// Added to the best candidate of the next frame for its `theta`.
    pub next_beam: f32,
    /// Whether `max_active` tightened the beam.
    pub max_active_held: bool,
}

impl Emission {
    /// Applies the rule to the costs `a` of all tokens of a time, least cost 0.
    /// `room` is working space; it keeps its capacity.
    pub fn of(costs: impl ExactSizeIterator<Item = f32> + Clone, config: &SearchConfig, room: &mut Vec<f32>) -> Self {
        let n = costs.len();
        let (max_active, min_active) = (config.max_active as usize, config.min_active as usize);
        let everything = Emission { cutoff: f32::INFINITY, next_beam: f32::INFINITY, max_active_held: false };
        if n <= max_active && n <= min_active {
            return everything;
        }
        // `a[k] <= beam` holds exactly when more than k costs are within the beam.
        let within = costs.clone().filter(|&a| a <= config.beam).count();
        let max_active_held = n > max_active && within > max_active;
        if !max_active_held && n <= min_active {
            return everything;
        }
        let cutoff = if max_active_held {
            nth(costs, |a| a <= config.beam, max_active, room)
        } else if min_active > 0 && within <= min_active {
            nth(costs, |a| a > config.beam, min_active - within, room)
        } else {
            return Emission { cutoff: config.beam, next_beam: config.beam, max_active_held: false };
        };
        Emission { cutoff, next_beam: cutoff + config.beam_delta, max_active_held }
    }
}

/// The `rank`-th smallest, counted from 0, of those costs that `counts` holds of. None is below 0.
fn nth(
    costs: impl ExactSizeIterator<Item = f32>,
    counts: impl Fn(f32) -> bool,
    rank: usize,
    room: &mut Vec<f32>,
) -> f32 {
    if room.len() < costs.len() {
        room.resize(costs.len(), 0.0);
    }
    // Written always, counted if it counts: no branch to mispredict.
    let mut count = 0;
    for cost in costs {
        room[count] = cost + 0.0; // never -0.0
        count += usize::from(counts(cost));
    }
    // Such floats are ordered as their bits are, which are quicker to compare.
    let bits: &mut [u32] = bytemuck::cast_slice_mut(&mut room[..count]);
    f32::from_bits(*bits.select_nth_unstable(rank).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(costs: &[f32], max_active: u32, min_active: u32) -> (f32, f32) {
        let config = SearchConfig { beam: 5.0, max_active, min_active, ..SearchConfig::default() };
        let emission = Emission::of(costs.iter().copied(), &config, &mut Vec::new());
        (emission.cutoff, emission.next_beam)
    }

    #[test]
    fn each_branch_of_the_rule() {
        let costs = [3.0, 0.0, 1.0, 8.0, 2.0];
        assert_eq!(rule(&costs, 2, 0), (2.0, 2.5), "max_active: a[2]");
        assert_eq!(rule(&costs, 100, 5), (f32::INFINITY, f32::INFINITY), "few tokens");
        assert_eq!(rule(&costs, 100, 4), (8.0, 8.5), "min_active: a[4] above the beam");
        assert_eq!(rule(&costs, 100, 3), (5.0, 5.0), "plain beam");
        assert_eq!(rule(&costs, 4, 0), (5.0, 5.0), "a[max_active] above the beam");
        assert_eq!(rule(&costs, 4, 4), (8.0, 8.5));
        assert_eq!(rule(&[0.0], 2, 0), (5.0, 5.0));
    }

    #[test]
    fn equals_the_definition_by_sorting() {
        let mut seed = 1u64;
        let mut random = move || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as u32
        };
        for _ in 0..20_000 {
            let n = 1 + random() as usize % 12;
            let mut costs: Vec<f32> = (0..n).map(|_| (random() % 16) as f32).collect();
            costs[0] = 0.0;
            let max_active = 2 + random() % 12;
            let min_active = random() % (max_active + 1);
            let mut a = costs.clone();
            a.sort_by(f32::total_cmp);
            let (max, min) = (max_active as usize, min_active as usize);
            let expected = if n > max && a[max] <= 5.0 {
                (a[max], a[max] + 0.5)
            } else if n <= min {
                (f32::INFINITY, f32::INFINITY)
            } else if min > 0 && a[min] > 5.0 {
                (a[min], a[min] + 0.5)
            } else {
                (5.0, 5.0)
            };
            assert_eq!(rule(&costs, max_active, min_active), expected, "{costs:?} {max} {min}");
        }
    }
}
