//! What the decoding gives.

/// Options of [`CompactLattice::words`](crate::lattice::CompactLattice::words); the defaults are Kaldi's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WordsConfig {
    /// Multiplies acoustic costs. Default 1; a lattice knows the scale of its search.
    pub acoustic_scale: f32,
    /// Multiplies graph costs. Default 1.
    pub graph_scale: f32,
    /// Whether the words are those of least expected error; else those of the best path. Default true.
    pub decode_mbr: bool,
    /// Whether bins in which no word wins stand in the result too, as word 0. Default false.
    pub keep_silence: bool,
    /// Whether words have the times of the best path that says exactly these words, where there is one; else, and by
    /// default, a word's times are their mean over all paths that have it in its place.
    pub one_best_times: bool,
}

impl Default for WordsConfig {
    fn default() -> WordsConfig {
        let (acoustic_scale, graph_scale) = (1.0, 1.0);
        WordsConfig { acoustic_scale, graph_scale, decode_mbr: true, keep_silence: false, one_best_times: false }
    }
}

/// A word of the result. Times are in frames from the start, with fractions where they are means.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Word {
    /// The word; 0 for silence.
    pub label: i32,
    /// The bin that it was taken from.
    pub bin: u32,
    /// Frames before it.
    pub start: f32,
    /// Frames that it lasts.
    pub frames: f32,
    /// Posterior probability that it was said here, 0 to 1.
    pub confidence: f32,
}

/// One of the words that compete in a bin.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Alternative {
    /// The word; 0 for none.
    pub label: i32,
    /// Frames before it, the mean over the paths that have it here.
    pub start: f32,
    /// Frames that it lasts.
    pub frames: f32,
    /// Posterior probability, 0 to 1; those of a bin sum to 1.
    pub posterior: f32,
}

/// A place of the confusion network. Places of words and places between words take turns.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Bin {
    /// Number of its first alternative; the likeliest stands first.
    pub first: u32,
    /// Number of alternatives.
    pub len: u32,
    /// Frames before it, the mean over its alternatives.
    pub start: f32,
    /// Frames that it lasts.
    pub frames: f32,
}

/// The words of an utterance with confidences and times, and what competes with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Words {
    /// The words in order.
    pub words: Vec<Word>,
    /// The confusion network.
    pub bins: Vec<Bin>,
    /// The alternatives of all bins.
    pub alternatives: Vec<Alternative>,
    /// Expected number of word errors, if the lattice is right about its probabilities.
    pub expected_errors: f64,
    /// Frames of the lattice.
    pub num_frames: u32,
}

impl Words {
    /// The labels in order.
    pub fn labels(&self) -> impl Iterator<Item = i32> + '_ {
        self.words.iter().map(|word| word.label)
    }

    /// The alternatives of bin number `bin`, the likeliest first; none past the last bin.
    pub fn alternatives_of(&self, bin: usize) -> &[Alternative] {
        let range = self.bins.get(bin).map(|bin| bin.first as usize..(bin.first + bin.len) as usize);
        range.and_then(|range| self.alternatives.get(range)).unwrap_or_default()
    }

    /// Mean of the confidences; NaN without words.
    pub fn mean_confidence(&self) -> f64 {
        self.words.iter().map(|word| f64::from(word.confidence)).sum::<f64>() / self.words.len() as f64
    }
}
