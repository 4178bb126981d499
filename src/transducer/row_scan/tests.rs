use super::super::score_row::ScoreRow;
use super::*;

fn scan_of(kind: ScoreKind, vocab_size: usize, blank: i32) -> RowScan {
    RowScan::new(&Shape { vocab_size, blank, encoder_dim: 1, output_dim: 1, scores: kind, has_lm: false }).unwrap()
}

type Scan = fn(&mut RowScan, &[f32], Wanted, &mut Vec<Top>) -> Option<Norm>;

/// All that this processor runs; the first is the plain one.
fn variants() -> Vec<(&'static str, Scan)> {
    let mut variants: Vec<(&'static str, Scan)> = vec![("plain", RowScan::scan_by::<f32, LANES>)];
    #[cfg(target_arch = "x86_64")]
    {
        if x86::has_avx2() {
            // SAFETY: the processor has it, as was just asked.
            variants.push(("avx2", |scan, row, wanted, tops| unsafe { x86::scan_avx2(scan, row, wanted, tops) }));
        }
        if x86::has_avx512() {
            // SAFETY: as above.
            variants.push(("avx512", |scan, row, wanted, tops| unsafe { x86::scan_avx512(scan, row, wanted, tops) }));
        }
    }
    variants.push(("chosen", RowScan::scan));
    variants
}

/// What all variants say, bit for bit.
fn scanned(values: &[f32], kind: ScoreKind, blank: i32, wanted: Wanted) -> Option<(Norm, Vec<Top>)> {
    let mut answers = Vec::new();
    for (name, variant) in variants() {
        let mut scan = scan_of(kind, values.len(), blank);
        let room = scan.groups.capacity();
        let before = Top { label: 77, value: 3.0 };
        let mut tops = Vec::with_capacity(1 + wanted.most());
        tops.push(before);
        let norm = variant(&mut scan, values, wanted, &mut tops);
        assert_eq!(tops.remove(0), before, "{name}: what is there stays");
        assert_eq!(scan.groups.capacity(), room, "{name}: no memory is taken");
        let bits = norm.map(|norm| [norm.max, norm.log_sum].map(f32::to_bits));
        answers.push((name, bits, norm, tops));
    }
    for (name, bits, _, tops) in &answers {
        assert_eq!((bits, tops), (&answers[0].1, &answers[0].3), "{name}");
    }
    let (.., norm, tops) = answers.swap_remove(0);
    norm.map(|norm| (norm, tops))
}

#[test]
fn exp_is_within_6e_7() {
    let mut worst = 0.0f64;
    for step in 0..1_000_000 {
        let x = -(step as f32) * 2e-5;
        let error = f64::from(exp(x)) / f64::from(x).exp() - 1.0;
        // (Far below, the product with log2 e is not more exact than its own size allows.)
        worst = worst.max((error.abs() - 1.2e-7 * f64::from(x).abs()).max(0.0));
    }
    assert!(worst <= 6e-7, "{worst}");
    assert_eq!([exp(0.0f32), exp(-0.0f32)], [1.0; 2]);
    assert!(exp(f32::NEG_INFINITY) < 2e-38);
}

/// Log-softmax by definition.
fn plain(values: &[f32]) -> Vec<f64> {
    let max = values.iter().fold(f32::NEG_INFINITY, |max, value| max.max(*value));
    let sum: f64 = values.iter().map(|value| f64::from(value - max).exp()).sum();
    values.iter().map(|value| f64::from(value - max) - sum.ln()).collect()
}

fn values(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 1e6 - 8.0
    };
    (0..count).map(|_| next()).collect()
}

const LENGTHS: [usize; 16] = [2, 3, 7, 31, 63, 64, 65, 127, 128, 255, 256, 257, 500, 1_023, 1_025, 5_000];

#[test]
fn rows_of_all_lengths_are_normalised() {
    for count in LENGTHS {
        let values = values(count, count as u32);
        let row = |kind| {
            let (norm, _) = scanned(&values, kind, 0, Wanted::Nothing).unwrap();
            ScoreRow { values: &values, norm, tops: &[] }
        };
        for (label, wanted) in plain(&values).into_iter().enumerate() {
            let found = f64::from(row(ScoreKind::Logits).log_prob(label as i32));
            assert!((found - wanted).abs() < 2e-6 * wanted.abs().max(1.0), "{count} {label}: {found} {wanted}");
        }
        assert_eq!(row(ScoreKind::LogProbs).log_prob(1), values[1]);
    }
}

#[test]
fn the_best_are_those_of_a_sorted_row() {
    for (count, blank) in [(2, 0), (3, 2), (40, 7), (500, 499), (500, -1), (2047, 64), (2048, 0), (6_500, 3_000)] {
        // Many ties; fewer; none; all the same; and each better than all before.
        let made: [Box<dyn Fn(f32, usize) -> f32>; 5] = [
            Box::new(|value, _| value.round() + 0.0),
            Box::new(|value, _| (value * 50.0).round() / 50.0 + 0.0),
            Box::new(|value, _| value),
            Box::new(|_, _| 2.5),
            Box::new(|_, at| at as f32),
        ];
        for (nth, made) in made.iter().enumerate() {
            let values: Vec<f32> =
                values(count, 5).into_iter().enumerate().map(|(at, value)| made(value, at)).collect();
            let mut sorted: Vec<i32> = (0..count as i32).filter(|label| *label != blank).collect();
            sorted.sort_by(|a, b| values[*b as usize].total_cmp(&values[*a as usize]));
            for want in [0, 1, 2, 4, 5, 16, 23, 24, 25, 63, 64, 65, count - 1] {
                let want = want.min(count - 1);
                let (_, found) = scanned(&values, ScoreKind::Logits, blank, Wanted::Best(want)).unwrap();
                let labels: Vec<i32> = found.iter().map(|top| top.label).collect();
                assert_eq!(labels, sorted[..want], "{want} of {count}, row {nth}");
                assert!(found.iter().all(|top| top.value == values[top.label as usize]));
            }
            let (_, found) = scanned(&values, ScoreKind::LogProbs, blank, Wanted::AboveBlank).unwrap();
            let blank = values.get(blank as usize).copied().unwrap_or(f32::NEG_INFINITY);
            let best = sorted.first().filter(|best| values[**best as usize] > blank);
            assert_eq!(found.iter().map(|top| top.label).collect::<Vec<_>>(), Vec::from_iter(best.copied()));
        }
    }
}

#[test]
fn what_is_forbidden_is_never_taken_and_what_is_no_number_is_refused() {
    let low = f32::NEG_INFINITY;
    for count in [4, 64, 300] {
        let mut values = vec![low; count];
        for wanted in [Wanted::Best(3), Wanted::AboveBlank] {
            let (norm, tops) = scanned(&values, ScoreKind::Logits, 0, wanted).unwrap();
            assert_eq!((ScoreRow { values: &values, norm, tops: &[] }.log_prob(3), tops.len()), (low, 0));
        }
        values[1] = 1.0;
        for wanted in [Wanted::Best(3), Wanted::AboveBlank] {
            let (norm, tops) = scanned(&values, ScoreKind::Logits, 0, wanted).unwrap();
            assert_eq!(tops.iter().map(|top| top.label).collect::<Vec<_>>(), [1]);
            let row = ScoreRow { values: &values, norm, tops: &tops };
            assert_eq!((row.log_prob(1), row.log_prob(0)), (0.0, low));
        }
    }
    for count in [9, 64, 333] {
        for (bad, others) in [f32::NAN, -f32::NAN, f32::INFINITY].into_iter().flat_map(|bad| [(bad, 0.5), (bad, low)]) {
            for at in 0..count {
                let mut values = vec![others; count];
                values[at] = bad;
                for kind in [ScoreKind::LogProbs, ScoreKind::Logits] {
                    assert!(scanned(&values, kind, 0, Wanted::Nothing).is_none(), "{bad} at {at} of {count}");
                }
            }
        }
    }
}
