//! Word alignment by pronunciations (Kaldi's lat/word-align-lattice-lexicon and lat/phone-align-lattice).
//!
//! First the lattice is brought into phones: an arc for each, words at whichever. Then words and silences are taken
//! from the front of what is pending wherever the lexicon has them with the phones there. Each thing may be taken only
//! where it became possible (its first word or its last phone is fresh), else one path would come out several times.

use super::by_boundary::{check, joined};
use super::draft::{Draft, DraftArc, Held, Nodes};
use super::phones::Phones;
use super::{AlignLexicon, Aligned, Attempt, Stop, most_states, settle};
use crate::error::{Result, try_reserve};
use crate::lattice::CompactLattice;
use crate::lattice::best_path::backward;
use crate::table::Transitions;

/// Options of [`CompactLattice::align_words_by_lexicon`]; the defaults are Kaldi's but for `max_expand`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LexiconOptions {
    /// Word on arcs of phones at the end that belong to no word; 0 for none. Default 0.
    pub partial_word_label: i32,
    /// As [`BoundaryOptions::reorder`](super::BoundaryOptions::reorder). Default true.
    pub reorder: bool,
    /// As [`BoundaryOptions::max_expand`](super::BoundaryOptions::max_expand), for each state of the lattice of
    /// phones. Default 1000.
    pub max_expand: f32,
}

impl Default for LexiconOptions {
    fn default() -> LexiconOptions {
        LexiconOptions { partial_word_label: 0, reorder: true, max_expand: 1000.0 }
    }
}

impl CompactLattice {
    /// Aligns the lattice with the words by their pronunciations: each arc of the result is a word, or silence, with
    /// exactly the transition-ids of one of its pronunciations. Words become the new words that the lexicon names.
    ///
    /// As in Kaldi, a path that the lexicon cannot explain is left out while others remain; but if the best path is
    /// among those, if a word is not in the lexicon, or if lattice and model do not fit, the lattice stays as it is:
    /// [`AlignOutcome::NotAligned`](super::AlignOutcome::NotAligned). Where no path comes to a proper end, what is
    /// left is forced out at the ends: [`AlignOutcome::PartialWords`](super::AlignOutcome::PartialWords).
    ///
    /// Fails with [`Error::Config`](crate::Error::Config) for labels below 0 or a `max_expand` of NaN.
    pub fn align_words_by_lexicon(
        &self,
        transitions: &Transitions,
        lexicon: &AlignLexicon,
        options: &LexiconOptions,
    ) -> Result<Aligned> {
        check(0, options.partial_word_label, options.max_expand)?;
        let phones = Phones { transitions, reorder: options.reorder };
        settle(self, align(self, phones, lexicon, options))
    }
}

fn align(lattice: &CompactLattice, phones: Phones, lexicon: &AlignLexicon, options: &LexiconOptions) -> Attempt {
    if lattice.is_empty() {
        return Ok((CompactLattice::default(), None));
    }
    let most = most_states(options.max_expand, lattice.num_states());
    let (phone_lattice, cut_off) = into_phones(lattice, phones, most)?;
    let most = most_states(options.max_expand, phone_lattice.nodes.len());
    let words = Words { input: &phone_lattice, phones, lexicon, options, most };
    let (draft, partial) = words.align()?;
    let aligned = draft.into_lattice(lattice.acoustic_scale)?;
    let cost = |lattice: &CompactLattice| -> Result<f64> {
        let least = backward(lattice.view(), lattice.acoustic_scale)?;
        Ok(least.first().copied().unwrap_or(f64::INFINITY))
    };
    let before = cost(lattice)?;
    let scaled = CompactLattice { acoustic_scale: lattice.acoustic_scale, ..aligned };
    let after = cost(&scaled)?;
    // Costs are rounded an arc.
    if (after - before).abs() <= 1e-3 + 1e-5 * before.abs() {
        return Ok((scaled, partial.or(cut_off)));
    }
    Err(Stop::Mismatch("the lexicon has no pronunciations for the best path".to_string()))
}

const WHAT: &str = "states of an aligned lattice";

/// Transition-ids and words that were read and not yet given out.
#[derive(PartialEq, Eq, Hash)]
struct Unparted {
    state: u32,
    ids: Vec<i32>,
    words: Vec<i32>,
}

impl Held for Unparted {
    fn held(&self) -> usize {
        self.ids.len() + self.words.len()
    }
}

/// The lattice with an arc for each phone: label 0, or the first pending word. What remains at a path's end is one
/// arc, and what is wrong with it is told.
fn into_phones(lattice: &CompactLattice, phones: Phones, most: Option<usize>) -> Result<(Draft, Option<String>), Stop> {
    let end = lattice.num_states() as u32;
    let mut cut_off = None;
    let mut nodes = Nodes::new(Unparted { state: 0, ids: Vec::new(), words: Vec::new() }, most)?;
    while let Some((pending, node)) = nodes.open.pop() {
        let whole = phones.end(&pending.ids, 0)?;
        let give = match whole {
            Some(ids) => Some(ids),
            // Words without phones of their own must not pile up.
            None if pending.words.len() > 1 => Some(0),
            None if pending.state < end => None,
            None if pending.ids.is_empty() && pending.words.is_empty() => {
                nodes.draft.nodes[node as usize].is_final = true;
                continue;
            }
            None => {
                let whole = phones.is_one_phone(&pending.ids)? && phones.ends_phone(&pending.ids);
                if !whole && !pending.ids.is_empty() {
                    cut_off = Some("the last phone is cut off".to_string());
                }
                Some(pending.ids.len())
            }
        };
        match give {
            Some(ids) => {
                let (front, rest) = pending.ids.split_at(ids.min(pending.ids.len()));
                let (label, words) = pending.words.split_first().map_or((0, &[][..]), |(&word, rest)| (word, rest));
                let next = Unparted { state: pending.state, ids: joined(rest, &[])?, words: joined(words, &[])? };
                let next = nodes.number(next)?;
                nodes.draft.add_arc(node, next, label, front)?;
            }
            None => {
                let state = pending.state;
                let arcs = lattice.arc_range(state).map(|at| (lattice.arcs[at].next, lattice.arcs[at], at));
                for (next, arc, at) in arcs {
                    let word = if arc.olabel == 0 { &[] } else { std::slice::from_ref(&arc.olabel) };
                    let ids = joined(&pending.ids, lattice.arc_string(at))?;
                    let next = nodes.number(Unparted { state: next, ids, words: joined(&pending.words, word)? })?;
                    nodes.draft.add_silent(node, next, arc.weight)?;
                }
                if !lattice.finals[state as usize].is_absent() {
                    let ids = joined(&pending.ids, lattice.final_string(state))?;
                    let next = nodes.number(Unparted { state: end, ids, words: joined(&pending.words, &[])? })?;
                    nodes.draft.add_silent(node, next, lattice.finals[state as usize])?;
                }
            }
        }
    }
    Ok((nodes.draft, cut_off))
}

/// Which phones at the front of those pending were not looked at before.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Fresh {
    None,
    /// All of them together: the last one came just now.
    Whole,
    /// Any number of them: some before them were taken just now.
    Any,
}

/// Phones with their transition-ids, and words, that were read and not yet given out.
#[derive(PartialEq, Eq, Hash)]
struct Pending {
    /// Node of the lattice of phones.
    node: u32,
    phones: Vec<i32>,
    /// Where the transition-ids of each phone end.
    ends: Vec<u32>,
    ids: Vec<i32>,
    words: Vec<i32>,
    fresh_phones: Fresh,
    fresh_word: bool,
}

impl Held for Pending {
    fn held(&self) -> usize {
        self.ids.len() + self.words.len() + self.phones.len() + self.ends.len()
    }
}

impl Pending {
    fn empty(node: u32) -> Pending {
        let (phones, ends, ids, words) = Default::default();
        Pending { node, phones, ends, ids, words, fresh_phones: Fresh::None, fresh_word: false }
    }

    fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.words.is_empty()
    }

    /// Transition-ids of the first `phones` phones.
    fn front(&self, phones: usize) -> &[i32] {
        let end = phones.checked_sub(1).and_then(|last| self.ends.get(last)).map_or(0, |&end| end as usize);
        self.ids.get(..end).unwrap_or_default()
    }

    /// After another arc of the lattice of phones was read.
    fn advanced(&self, arc: &DraftArc, ids: &[i32], phone: Option<i32>) -> Result<Pending> {
        let word = arc.label.filter(|&word| word != 0);
        let mut next = Pending {
            node: arc.next,
            phones: joined(&self.phones, phone.as_slice())?,
            ends: Vec::new(),
            ids: joined(&self.ids, ids)?,
            words: joined(&self.words, word.as_slice())?,
            fresh_phones: if phone.is_some() { Fresh::Whole } else { Fresh::None },
            fresh_word: word.is_some() && self.words.is_empty(),
        };
        try_reserve(&mut next.ends, self.ends.len() + 1, "phones of a lattice")?;
        next.ends.extend_from_slice(&self.ends);
        if phone.is_some() {
            next.ends.push(next.ids.len() as u32);
        }
        Ok(next)
    }

    /// After `phones` phones and, unless it is silence, the first word were given out.
    fn taken(&self, phones: usize, is_silence: bool) -> Result<Pending> {
        let front = self.front(phones).len();
        let rest = joined(self.phones.get(phones..).unwrap_or_default(), &[])?;
        let words = joined(self.words.get(usize::from(!is_silence)..).unwrap_or_default(), &[])?;
        let mut ends = Vec::new();
        try_reserve(&mut ends, rest.len(), "phones of a lattice")?;
        ends.extend(self.ends.iter().skip(phones).map(|&end| end - front as u32));
        // A word without phones makes the phones fresh for the silence that may follow it.
        let fresh_phones = if rest.is_empty() || (phones == 0 && is_silence) { Fresh::None } else { Fresh::Any };
        Ok(Pending {
            node: self.node,
            phones: rest,
            ends,
            ids: joined(self.ids.get(front..).unwrap_or_default(), &[])?,
            fresh_word: !is_silence && !words.is_empty(),
            words,
            fresh_phones,
        })
    }
}

struct Words<'a> {
    input: &'a Draft,
    phones: Phones<'a>,
    lexicon: &'a AlignLexicon,
    options: &'a LexiconOptions,
    most: Option<usize>,
}

impl Words<'_> {
    fn align(&self) -> Result<(Draft, Option<String>), Stop> {
        let mut nodes = Nodes::new(Pending::empty(0), self.most)?;
        let mut ends = Vec::new();
        let mut ended = false;
        while let Some((pending, node)) = nodes.open.pop() {
            self.give_out_silence(&pending, node, &mut nodes)?;
            self.give_out_word(&pending, node, &mut nodes)?;
            self.advance(&pending, node, &mut nodes)?;
            if self.input.nodes[pending.node as usize].is_final {
                if pending.is_empty() {
                    nodes.draft.nodes[node as usize].is_final = true;
                    ended = true;
                }
                try_reserve(&mut ends, 1, WHAT)?;
                ends.push((pending, node));
            }
        }
        if ended {
            return Ok((nodes.draft, None));
        }
        for (pending, node) in ends {
            // What could be given out in the usual way must not come a second time.
            if nodes.draft.nodes[node as usize].arcs.iter().all(|arc| arc.label.is_none()) {
                self.force_out(&pending, node, &mut nodes.draft)?;
            }
        }
        Ok((nodes.draft, Some("no path ends with a whole word".to_string())))
    }

    fn give_out_silence(&self, pending: &Pending, node: u32, nodes: &mut Nodes<Pending>) -> Result<(), Stop> {
        let Some((least, most)) = self.lexicon.num_phones(0) else { return Ok(()) };
        let there = pending.phones.len();
        let range = match pending.fresh_phones {
            Fresh::Any => least..=most.min(there),
            Fresh::Whole if (least..=most).contains(&there) => there..=there,
            _ => return Ok(()),
        };
        for phones in range {
            self.take(pending, node, 0, phones, nodes)?;
        }
        Ok(())
    }

    fn give_out_word(&self, pending: &Pending, node: u32, nodes: &mut Nodes<Pending>) -> Result<(), Stop> {
        let Some(&word) = pending.words.first() else { return Ok(()) };
        let Some((least, most)) = self.lexicon.num_phones(word) else {
            return Err(Stop::Mismatch(format!("word {word} is not in the lexicon")));
        };
        let there = pending.phones.len();
        let range = match pending.fresh_phones {
            _ if pending.fresh_word => least..=most.min(there),
            Fresh::Any => least..=most.min(there),
            Fresh::Whole if (least..=most).contains(&there) => there..=there,
            _ => return Ok(()),
        };
        for phones in range {
            self.take(pending, node, word, phones, nodes)?;
        }
        Ok(())
    }

    /// Gives out `word` (0 for silence) with the first `phones` phones, if the lexicon has it so.
    fn take(
        &self,
        pending: &Pending,
        node: u32,
        word: i32,
        phones: usize,
        nodes: &mut Nodes<Pending>,
    ) -> Result<(), Stop> {
        let front = pending.phones.get(..phones).unwrap_or_default();
        let Some(label) = self.lexicon.new_word(word, front) else { return Ok(()) };
        let next = nodes.number(pending.taken(phones, word == 0)?)?;
        Ok(nodes.draft.add_arc(node, next, label, pending.front(phones))?)
    }

    /// Reads the arcs of the lattice of phones, unless nothing can come of what is pending then.
    fn advance(&self, pending: &Pending, node: u32, nodes: &mut Nodes<Pending>) -> Result<(), Stop> {
        if let Some(&word) = pending.words.first()
            && !pending.phones.is_empty()
            && !self.lexicon.goes_on(&pending.phones, word)
        {
            return Ok(());
        }
        for arc in &self.input.nodes[pending.node as usize].arcs {
            let ids = self.input.ids(arc);
            let phone = ids.first().map(|&id| self.phones.phone(id)).transpose()?;
            let next = nodes.number(pending.advanced(arc, ids, phone)?)?;
            nodes.draft.add_silent(node, next, arc.weight)?;
        }
        Ok(())
    }

    /// An arc for all phones with the first word, and one for each further word.
    fn force_out(&self, pending: &Pending, node: u32, draft: &mut Draft) -> Result<()> {
        let label = pending.words.first().copied().unwrap_or(self.options.partial_word_label);
        let mut at = draft.add_node()?;
        draft.add_arc(node, at, label, &pending.ids)?;
        for &word in pending.words.iter().skip(1) {
            let next = draft.add_node()?;
            draft.add_arc(at, next, word, &[])?;
            at = next;
        }
        draft.nodes[at as usize].is_final = true;
        Ok(())
    }
}
