//! Minimum Bayes Risk decoding against all sentences of small lattices.
