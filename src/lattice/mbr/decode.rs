//! The hypothesis, improved place by place, and its words.

use super::edit::{EditDistance, Share};
use super::exact_times::exact_times;
use super::word_lattice::WordLattice;
use super::{Alternative, Bin, Word, Words, WordsConfig};
use crate::error::{Error, Result, try_reserve};
use crate::lattice::CompactLattice;
use crate::lattice::best_path::check_scale;

/// Rounds after which a decoding that goes in circles ends.
const MOST_ROUNDS: u32 = 101;

const WHAT: &str = "words of a lattice";

impl CompactLattice {
    /// The words of least expected error with confidences and times, beginning from the words of the best path. An
    /// empty lattice has no words.
    ///
    /// Times are right if the lattice is aligned ([`CompactLattice::align_words`]). Time grows with arcs times words.
    /// Fails with [`Error::Argument`] where paths to one state differ in frames, a scale is not finite, or costs times
    /// scales are not.
    pub fn words(&self, config: &WordsConfig) -> Result<Words> {
        self.words_from(None, config)
    }

    /// As [`CompactLattice::words`], beginning from `hypothesis` in place of the best path: with `decode_mbr` off,
    /// the confidences of these words.
    pub fn words_of(&self, hypothesis: &[i32], config: &WordsConfig) -> Result<Words> {
        match hypothesis.iter().find(|&&word| word < 0) {
            Some(word) => Err(Error::Argument(format!("hypothesis: word {word} is negative"))),
            None => self.words_from(Some(hypothesis), config),
        }
    }

    fn words_from(&self, hypothesis: Option<&[i32]>, config: &WordsConfig) -> Result<Words> {
        check_scale(config.acoustic_scale)?;
        check_scale(config.graph_scale)?;
        if self.is_empty() {
            return Ok(Words::default());
        }
        let lattice = WordLattice::new(self, config)?;
        let mut places = match hypothesis {
            Some(words) => with_gaps(words)?,
            None => with_gaps(&lattice.best_words()?)?,
        };
        let mut distance = EditDistance::new(&lattice)?;
        let mut shares = Vec::new();
        let mut round = 0;
        let mut words = loop {
            let expected_errors = distance.measure(&places, &mut shares)?;
            let mut words = Words { expected_errors, num_frames: self.num_frames, ..Words::default() };
            add_bins(&mut words, &shares)?;
            let change = if config.decode_mbr { improve(&mut places, &words) } else { 0.0 };
            round += 1;
            if change == 0.0 || round == MOST_ROUNDS {
                break words;
            }
            places = with_gaps(&places)?;
        };
        choose_words(&mut words, &places, &shares, config)?;
        if config.one_best_times {
            exact_times(&lattice, &mut words.words)?;
        }
        Ok(words)
    }
}

/// The words with a place for insertions before, between and behind them.
fn with_gaps(words: &[i32]) -> Result<Vec<i32>> {
    let mut places = Vec::new();
    try_reserve(&mut places, words.len().saturating_mul(2).saturating_add(1), WHAT)?;
    places.push(0);
    places.extend(words.iter().filter(|&&word| word != 0).flat_map(|&word| [word, 0]));
    Ok(places)
}

/// Writes the bins, in each the likeliest first; of equal ones the higher word.
fn add_bins(words: &mut Words, shares: &[Vec<Share>]) -> Result<()> {
    try_reserve(&mut words.bins, shares.len(), WHAT)?;
    let mut times: Vec<(f32, f32)> = Vec::new();
    try_reserve(&mut times, shares.len(), WHAT)?;
    for bin in shares {
        let first = words.alternatives.len();
        try_reserve(&mut words.alternatives, bin.len(), WHAT)?;
        words.alternatives.extend(bin.iter().map(|share| {
            let posterior = share.mass as f32;
            let (start, end) = mean_times(share, posterior);
            Alternative { label: share.word, start, frames: end - start, posterior }
        }));
        let alternatives = &mut words.alternatives[first..];
        alternatives.sort_unstable_by(|a, b| b.posterior.total_cmp(&a.posterior).then(b.label.cmp(&a.label)));
        alternatives.iter_mut().for_each(|each| each.posterior = each.posterior.clamp(0.0, 1.0));
        let (start, end) = bin.iter().fold((0.0, 0.0), |(start, end), share| (start + share.start, end + share.end));
        times.push((start as f32, end as f32));
        words.bins.push(Bin { first: first as u32, len: bin.len() as u32, start: 0.0, frames: 0.0 });
    }
    // Bins that overlap meet in the middle.
    for at in 1..times.len() {
        if times[at - 1].1 > times[at].0 {
            let middle = (0.5 * (f64::from(times[at - 1].1) + f64::from(times[at].0))) as f32;
            (times[at - 1].1, times[at].0) = (middle, middle);
        }
    }
    for (bin, (start, end)) in words.bins.iter_mut().zip(times) {
        (bin.start, bin.frames) = (start, end - start);
    }
    Ok(())
}

/// Start and end of a word, the mean over the paths that have it.
fn mean_times(share: &Share, posterior: f32) -> (f32, f32) {
    if posterior > 0.0 {
        let posterior = f64::from(posterior);
        return ((share.start / posterior) as f32, (share.end / posterior) as f32);
    }
    // So unlikely that the rounded posterior is 0.
    ((share.start / share.mass) as f32, (share.end / share.mass) as f32)
}

/// Puts the likeliest word at each place. Gives a bound on the change of the expected error, 0 or below.
fn improve(places: &mut [i32], words: &Words) -> f64 {
    let mut change = 0.0;
    for (place, at) in places.iter_mut().zip(0..) {
        let alternatives = words.alternatives_of(at);
        let Some(best) = alternatives.first() else { continue };
        let now = alternatives.iter().find(|other| other.label == *place).map_or(0.0, |other| other.posterior);
        change += f64::from(now) - f64::from(best.posterior);
        *place = best.label;
    }
    change
}

/// Writes the words of the hypothesis. Words that overlap share the time in proportion to their lengths.
fn choose_words(words: &mut Words, places: &[i32], shares: &[Vec<Share>], config: &WordsConfig) -> Result<()> {
    let mut times: Vec<(f32, f32)> = Vec::new();
    for (at, &label) in places.iter().enumerate() {
        if label == 0 && !config.keep_silence {
            continue;
        }
        let alternatives = words.alternatives_of(at);
        let chosen = alternatives.iter().find(|other| other.label == label);
        // A hypothesis may have words that the lattice lacks: confidence 0, times of what stands there.
        let Some(timed) = chosen.or(alternatives.first()) else { continue };
        let confidence = chosen.map_or(0.0, |chosen| chosen.posterior);
        try_reserve(&mut times, 1, WHAT)?;
        // From the sums, since rounding the length costs a bit of the end.
        let share = shares.get(at).and_then(|bin| bin.iter().find(|share| share.word == timed.label));
        times.push(share.map_or((timed.start, timed.start), |share| mean_times(share, share.mass as f32)));
        part(&mut times);
        try_reserve(&mut words.words, 1, WHAT)?;
        words.words.push(Word { label, bin: at as u32, start: 0.0, frames: 0.0, confidence });
    }
    for (word, (start, end)) in words.words.iter_mut().zip(times) {
        (word.start, word.frames) = (start, end - start);
    }
    Ok(())
}

/// If the last two words overlap, sets them side by side.
fn part(times: &mut [(f32, f32)]) {
    let [earlier @ .., one, two] = times else { return };
    if one.1 <= two.0 {
        return;
    }
    let left = earlier.last().map_or(0.0, |word| word.1).max(one.0.min(two.0));
    let right = one.1.max(two.1);
    let (first, second) = (one.1 - one.0, two.1 - two.0);
    let middle = if first > 0.0 { left + (right - left) * first / (first + second) } else { left };
    (*one, *two) = ((left, middle), (middle, right));
}
