//! Numbers as C and C++ print them.

/// A number as C's `%.{digits}g` (and a C++ stream of that precision) prints it: `digits` significant digits, at least 1,
/// trailing zeros dropped, an exponent when it is below -4 or not below `digits`.
pub fn general(value: f64, digits: usize) -> String {
    let digits = digits.max(1);
    if value.is_nan() {
        return "nan".to_string();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_string();
    }
    let scientific = format!("{value:.*e}", digits - 1);
    // Rust prints `d.ddde-7`: the mantissa is right already, the exponent decides on the layout.
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.unsigned_abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trim_zeros(&format!("{value:.decimals$}")).to_string()
}

fn trim_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_c_prints_them() {
        for (value, digits, text) in [
            (0.0, 6, "0"),
            (-0.0, 6, "-0"),
            (1.0, 6, "1"),
            (100000.0, 6, "100000"),
            (999999.5, 6, "1e+06"),
            (1234567.0, 6, "1.23457e+06"),
            (1234567.0, 7, "1234567"),
            (12345678.0, 7, "1.234568e+07"),
            (0.0001, 6, "0.0001"),
            (0.00001, 6, "1e-05"),
            (0.00001234567, 7, "1.234567e-05"),
            (-1.5e-300, 7, "-1.5e-300"),
            (1e300, 7, "1e+300"),
            (0.1f32 as f64, 7, "0.1"),
            (0.1f32 as f64, 9, "0.100000001"),
            (3.14159274, 7, "3.141593"),
            (2.5, 1, "2"),
            (9.9999999, 7, "10"),
            (f64::INFINITY, 7, "inf"),
            (f64::NEG_INFINITY, 7, "-inf"),
            (f64::NAN, 7, "nan"),
        ] {
            assert_eq!(general(value, digits), text, "{value} {digits}");
        }
    }

    /// The C library itself is the reference.
    #[cfg(unix)]
    #[test]
    fn agrees_with_the_c_library() {
        let c = |value: f64, digits: usize| {
            let mut text = [0u8; 64];
            // SAFETY: the buffer is as long as told, and the format takes one int and one double.
            let length = unsafe {
                libc::snprintf(text.as_mut_ptr().cast(), text.len(), c"%.*g".as_ptr(), digits as libc::c_int, value)
            };
            String::from_utf8(text[..length as usize].to_vec()).unwrap()
        };
        let mut bits = 0x9E37_79B9_7F4A_7C15u64;
        for step in 0..200_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = match step % 3 {
                0 => f64::from_bits(bits),
                1 => f64::from(f32::from_bits((bits >> 32) as u32)),
                _ => (bits >> 40) as f64 / 1000.0,
            };
            if value.is_finite() {
                let digits = 1 + (bits >> 7) as usize % 9;
                assert_eq!(general(value, digits), c(value, digits), "{value:e} {digits}");
            }
        }
    }
}
