//! The exponential of a row of scores, in plain operations that compilers turn into vector ones and that give the
//! same bits on every processor.

/// Scores are clamped to this on both sides, as in Kaldi.
pub(super) const LIMIT: f32 = 30.0;

/// `e^y` of `y` clamped to [-30, 30]; NaN counts as -30, as in Kaldi. Within 2 units in the last place.
#[inline(always)]
pub(super) fn clamped_exp(y: f32) -> f32 {
    // Coefficients of the series of e^r, which for |r| <= ln(2)/2 is exact to 3e-9 after the seventh power.
    const SERIES: [f32; 6] = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5];
    // ln 2 in two parts, the first of few enough bits that its multiples up to 44 are exact.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding and taking away 1.5 * 2^23 rounds to a whole number, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let y = if y >= -LIMIT { y } else { -LIMIT };
    let y = if y <= LIMIT { y } else { LIMIT };
    let shifted = y * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let r = (y - whole * LN2_HIGH) - whole * LN2_LOW;
    let mut sum = SERIES[0];
    for coefficient in &SERIES[1..] {
        sum = sum * r + coefficient;
    }
    let mantissa = (sum * r * r + r) + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits());
    mantissa * f32::from_bits(exponent.wrapping_add(127) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_two_units_of_the_last_place() {
        let mut y = -30.0f32;
        let mut worst = 0.0f64;
        while y <= 30.0 {
            let exact = f64::from(y).exp();
            let unit = f64::from((exact as f32).next_up()) - f64::from(exact as f32);
            worst = worst.max((f64::from(clamped_exp(y)) - exact).abs() / unit);
            y += 0.000_37;
        }
        assert!(worst < 2.0, "{worst}");
        assert!(worst > 0.4, "the measure measures: {worst}");
    }

    #[test]
    fn beyond_the_limits_and_not_numbers() {
        for (y, same) in [(31.0, 30.0), (f32::INFINITY, 30.0), (-31.0, -30.0), (f32::NEG_INFINITY, -30.0)] {
            assert_eq!(clamped_exp(y), clamped_exp(same));
        }
        assert_eq!(clamped_exp(f32::NAN), clamped_exp(-30.0));
        assert_eq!(clamped_exp(0.0), 1.0);
    }
}
