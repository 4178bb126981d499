//! Word alignment by the kinds of phones (Kaldi's lat/word-align-lattice).

use super::draft::{Held, Nodes};
use super::phones::Phones;
use super::{Aligned, Attempt, PhoneKind, Stop, WordBoundary, most_states, settle};
use crate::error::{Error, Result, try_reserve};
use crate::lattice::CompactLattice;
use crate::table::Transitions;

/// Options of [`CompactLattice::align_words`]; the defaults are Kaldi's but for `max_expand`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundaryOptions {
    /// Word on arcs of silence; 0 for none. Default 0.
    pub silence_label: i32,
    /// Word on arcs of phones that belong to no word of the lattice; 0 for none. Default 0.
    pub partial_word_label: i32,
    /// Whether self-loops stand behind the transition out of their state, as graphs made with `--reorder=true` have
    /// it. Default true.
    pub reorder: bool,
    /// Whether phones that are in no word may stand inside one too. Default false.
    pub silence_may_be_word_internal: bool,
    /// Above 0: the lattice is left as it is once more than 1000 + `max_expand` * its states would be needed. Default
    /// 1000. Whatever this is, the lattice is left as it is once the states would hold more than 2^28 transition-ids
    /// and words (1 GiB), so that no lattice of a wrong model takes all memory.
    pub max_expand: f32,
}

impl Default for BoundaryOptions {
    fn default() -> BoundaryOptions {
        BoundaryOptions {
            silence_label: 0,
            partial_word_label: 0,
            reorder: true,
            silence_may_be_word_internal: false,
            max_expand: 1000.0,
        }
    }
}

impl CompactLattice {
    /// Aligns the lattice with the words by the kinds of phones: each arc of the result is one word, or silence
    /// without a word, with exactly its transition-ids. Paths keep words, transition-ids and costs (costs are summed
    /// in binary64 and rounded to binary32 an arc).
    ///
    /// A path that ends within a word, or with words that have no transition-ids, ends in an arc for what is left of
    /// each word: [`AlignOutcome::PartialWords`](super::AlignOutcome::PartialWords). Where lattice, model and table
    /// do not fit the lattice stays as it is: [`AlignOutcome::NotAligned`](super::AlignOutcome::NotAligned).
    ///
    /// Fails with [`Error::Config`] for labels below 0 or a `max_expand` of NaN.
    pub fn align_words(
        &self,
        transitions: &Transitions,
        boundary: &WordBoundary,
        options: &BoundaryOptions,
    ) -> Result<Aligned> {
        check(options.silence_label, options.partial_word_label, options.max_expand)?;
        let phones = Phones { transitions, reorder: options.reorder };
        settle(self, align(self, Aligner { phones, boundary, options }))
    }
}

/// Refuses options out of range.
pub(super) fn check(silence_label: i32, partial_word_label: i32, max_expand: f32) -> Result<()> {
    for (name, label) in [("silence-label", silence_label), ("partial-word-label", partial_word_label)] {
        if label < 0 {
            return Err(Error::Config(format!("{name} is {label}; it cannot be negative")));
        }
    }
    if max_expand.is_nan() {
        return Err(Error::Config("max-expand is not a number".to_string()));
    }
    Ok(())
}

/// What was read and not yet given out, and the state of the lattice up to which was read. The state past the last
/// one is the end.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Pending {
    state: u32,
    ids: Vec<i32>,
    words: Vec<i32>,
}

impl Held for Pending {
    fn held(&self) -> usize {
        self.ids.len() + self.words.len()
    }
}

impl Pending {
    /// After another arc was read.
    fn advanced(&self, state: u32, word: i32, ids: &[i32]) -> Result<Pending> {
        let more_words = if word == 0 { &[] } else { std::slice::from_ref(&word) };
        Ok(Pending { state, ids: joined(&self.ids, ids)?, words: joined(&self.words, more_words)? })
    }

    /// After the first `ids` transition-ids and the first `words` words were given out.
    fn without(&self, ids: usize, words: usize) -> Result<Pending> {
        let rest = |all: &[i32], from: usize| joined(all.get(from..).unwrap_or_default(), &[]);
        Ok(Pending { state: self.state, ids: rest(&self.ids, ids)?, words: rest(&self.words, words)? })
    }
}

pub(super) fn joined(first: &[i32], second: &[i32]) -> Result<Vec<i32>> {
    let mut joined = Vec::new();
    try_reserve(&mut joined, first.len() + second.len(), "transition-ids of a lattice")?;
    joined.extend_from_slice(first);
    joined.extend_from_slice(second);
    Ok(joined)
}

struct Aligner<'a> {
    phones: Phones<'a>,
    boundary: &'a WordBoundary,
    options: &'a BoundaryOptions,
}

fn align(lattice: &CompactLattice, aligner: Aligner) -> Attempt {
    let end = lattice.num_states() as u32;
    let most = most_states(aligner.options.max_expand, lattice.num_states());
    if lattice.is_empty() {
        return Ok((CompactLattice::default(), None));
    }
    let mut nodes = Nodes::new(Pending { state: 0, ids: Vec::new(), words: Vec::new() }, most)?;
    let mut partial = None;
    while let Some((pending, node)) = nodes.open.pop() {
        if let Some(given) = aligner.give_out(&pending)? {
            let next = nodes.number(pending.without(given.ids, given.words)?)?;
            nodes.draft.add_arc(node, next, given.label, pending.ids.get(..given.ids).unwrap_or_default())?;
        } else if pending.state < end {
            let state = pending.state;
            if !lattice.finals[state as usize].is_absent() {
                let next = nodes.number(pending.advanced(end, 0, lattice.final_string(state))?)?;
                nodes.draft.add_silent(node, next, lattice.finals[state as usize])?;
            }
            for index in lattice.arc_range(state) {
                let arc = lattice.arcs[index];
                let next = nodes.number(pending.advanced(arc.next, arc.olabel, lattice.arc_string(index))?)?;
                nodes.draft.add_silent(node, next, arc.weight)?;
            }
        } else if pending.ids.is_empty() && pending.words.is_empty() {
            nodes.draft.nodes[node as usize].is_final = true;
        } else {
            let (given, fault) = aligner.force_out(&pending)?;
            partial = partial.or(fault);
            let next = nodes.number(pending.without(given.ids, given.words)?)?;
            nodes.draft.add_arc(node, next, given.label, pending.ids.get(..given.ids).unwrap_or_default())?;
        }
    }
    Ok((nodes.draft.into_lattice(lattice.acoustic_scale)?, partial))
}

/// What goes onto an arc: a label, and how many of the pending transition-ids and words it takes.
struct Given {
    label: i32,
    ids: usize,
    words: usize,
}

impl Aligner<'_> {
    fn kind(&self, phone: i32) -> Result<PhoneKind, Stop> {
        let missing = || Stop::Mismatch(format!("phone {phone} is not in the word-boundary table"));
        self.boundary.kind(phone).ok_or_else(missing)
    }

    /// A whole word or silence from the front of what is pending, if it is certain to end there: something follows.
    fn give_out(&self, pending: &Pending) -> Result<Option<Given>, Stop> {
        let Some(&first) = pending.ids.first() else { return Ok(None) };
        let phone = self.phones.phone(first)?;
        let word = pending.words.first().copied();
        match (self.kind(phone)?, word) {
            (PhoneKind::NonWord, _) => {
                let end = self.phones.end(&pending.ids, 0)?;
                Ok(end.map(|ids| Given { label: self.options.silence_label, ids, words: 0 }))
            }
            (PhoneKind::Singleton, Some(label)) => {
                Ok(self.phones.end(&pending.ids, 0)?.map(|ids| Given { label, ids, words: 1 }))
            }
            (PhoneKind::Begin, Some(label)) => {
                Ok(self.word_end(&pending.ids)?.map(|ids| Given { label, ids, words: 1 }))
            }
            (PhoneKind::Singleton | PhoneKind::Begin, None) => Ok(None),
            (kind @ (PhoneKind::Internal | PhoneKind::End), _) => Err(Stop::Mismatch(format!(
                "a word begins with phone {phone} (transition-id {first}), whose kind is {}",
                kind.name()
            ))),
        }
    }

    /// How many of `ids`, which begin with the first of several phones, a word takes; `None` where they do not tell.
    fn word_end(&self, ids: &[i32]) -> Result<Option<usize>, Stop> {
        let Some(mut at) = self.phones.end(ids, 0)? else { return Ok(None) };
        while let Some(&id) = ids.get(at) {
            let phone = self.phones.phone(id)?;
            match self.kind(phone)? {
                PhoneKind::End => return self.phones.end(ids, at),
                PhoneKind::Internal => at += 1,
                PhoneKind::NonWord if self.options.silence_may_be_word_internal => at += 1,
                kind => {
                    let what =
                        format!("phone {phone} (transition-id {id}), whose kind is {}, inside a word", kind.name());
                    return Err(Stop::Mismatch(what));
                }
            }
        }
        Ok(None)
    }

    /// What the end of the lattice leaves: a last word or silence, which nothing follows; else something partial.
    fn force_out(&self, pending: &Pending) -> Result<(Given, Option<String>), Stop> {
        let all = pending.ids.len();
        let Some(&first) = pending.ids.first() else {
            let label = pending.words.first().copied().unwrap_or(0);
            let fault = format!("word {label} at the end has no transition-ids");
            return Ok((Given { label, ids: 0, words: 1 }, Some(fault)));
        };
        let kind = self.kind(self.phones.phone(first)?)?;
        if let Some(&label) = pending.words.first() {
            let fault = || format!("the last word, {label}, is cut off");
            let whole = self.is_plausible_word(&pending.ids)?;
            return Ok((Given { label, ids: all, words: 1 }, (!whole).then(fault)));
        }
        let given = |label| Given { label, ids: all, words: 0 };
        if kind != PhoneKind::NonWord {
            return Ok((given(self.options.partial_word_label), Some("the last word is cut off".to_string())));
        }
        let whole = self.phones.ends_phone(&pending.ids) && self.phones.is_one_phone(&pending.ids)?;
        let fault = || "the silence at the end is cut off".to_string();
        Ok((given(self.options.silence_label), (!whole).then(fault)))
    }

    fn is_plausible_word(&self, ids: &[i32]) -> Result<bool, Stop> {
        let (Some(&first), Some(&last)) = (ids.first(), ids.last()) else { return Ok(false) };
        let (first, last) = (self.phones.phone(first)?, self.phones.phone(last)?);
        let fits = match (self.kind(first)?, self.kind(last)?) {
            (PhoneKind::Singleton, _) => first == last,
            (PhoneKind::Begin, PhoneKind::End) => true,
            _ => false,
        };
        Ok(fits && self.phones.ends_phone(ids))
    }
}
