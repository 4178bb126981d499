//! Rule 6 of the search: the largest bound under which a capacity holds.

/// The largest of `costs` such that at most `capacity` of them are `<=` it; `None` where
/// even the tied least do not fit. `costs` has more than `capacity` entries, `capacity >= 1`.
pub fn largest_fitting(costs: &mut [f32], capacity: usize) -> Option<f32> {
    let (below, &mut first_out, _) = costs.select_nth_unstable_by(capacity, f32::total_cmp);
    // All ties of the first that does not fit stay out.
    below.iter().copied().filter(|&cost| cost < first_out).max_by(f32::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::largest_fitting;

    #[test]
    fn ties_stay_out_together() {
        assert_eq!(largest_fitting(&mut [3.0, 1.0, 2.0], 2), Some(2.0));
        assert_eq!(largest_fitting(&mut [3.0, 1.0, 3.0], 2), Some(1.0));
        assert_eq!(largest_fitting(&mut [1.0, 1.0, 1.0], 2), None);
        assert_eq!(largest_fitting(&mut [0.0, -0.5, 4.0], 1), Some(-0.5));
    }
}
