//! Words with confidences and times by Minimum Bayes Risk decoding.
//!
//! H. Xu, D. Povey, L. Mangu, J. Zhu, "Minimum Bayes Risk decoding and system combination based on a recursion for
//! edit distance", Computer Speech and Language, 2011; with the sums, ties and roundings of Kaldi's lat/sausages, so
//! that the same lattice gives the same figures.
//!
//! - `word_lattice`: the lattice as the method sees it;
//! - `edit`: expected edit distance to a hypothesis, and who contributes to each of its places (figures 4 and 5);
//! - `decode`: the hypothesis, improved place by place (figure 6), and its words;
//! - `exact_times`: where the words stand on one path;
//! - `words`, `ctm`: the result, and its form as a file.

mod ctm;
mod decode;
mod edit;
mod exact_times;
mod word_lattice;
mod words;

pub use ctm::CtmFormat;
pub use words::{Alternative, Bin, Word, Words, WordsConfig};
