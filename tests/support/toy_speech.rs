//! A toy model with five phones, one of each kind, and words of them.

#![allow(dead_code)] // each test file uses its own part

use koshi::lattice::{AlignLexicon, WordBoundary};
use koshi::table::{Holder, Input, Transitions, TransitionsHolder};
use proptest::prelude::*;

/// Five phones of one emitting state: transition-ids `2 p - 1` (loop) and `2 p` (on) of phone `p`.
pub const MODEL: &str = "\
<TransitionModel>
<Topology>
<TopologyEntry>
<ForPhones> 1 2 3 4 5 </ForPhones>
<State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State>
<State> 1 </State>
</TopologyEntry>
</Topology>
<Triples> 5
1 0 0
2 0 1
3 0 2
4 0 3
5 0 4
</Triples>
<LogProbs>
 [ 0 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 ]
</LogProbs>
</TransitionModel>
";

pub const BOUNDARY: &str = "1 nonword\n2 begin\n3 internal\n4 end\n5 singleton\n";

/// Word 10 has three pronunciations, 11 one, 12 two.
pub const LEXICON: &str = "0 0 1\n10 10 2 3 4\n10 10 2 4\n10 10 2 3 3 4\n11 11 5\n12 12 2 4\n12 12 5\n";

/// Phones of the words, as in [`LEXICON`].
const WORDS: &[(i32, &[i32])] =
    &[(0, &[1]), (10, &[2, 3, 4]), (10, &[2, 4]), (10, &[2, 3, 3, 4]), (11, &[5]), (12, &[2, 4]), (12, &[5])];

pub fn transitions() -> Transitions {
    TransitionsHolder::read(&mut Input::from_bytes("model", MODEL)).unwrap()
}

pub fn boundary() -> WordBoundary {
    WordBoundary::read(&mut Input::from_bytes("boundary", BOUNDARY)).unwrap()
}

pub fn lexicon() -> AlignLexicon {
    AlignLexicon::read(&mut Input::from_bytes("lexicon", LEXICON)).unwrap()
}

/// A word, or 0 for silence, with its transition-ids.
pub type Segment = (i32, Vec<i32>);

/// A word whose phones last `frames` each: on, then loops.
pub fn said(word: i32, phones: &[i32], frames: usize) -> Segment {
    let of_phone = |&phone: &i32| std::iter::once(2 * phone).chain(std::iter::repeat_n(2 * phone - 1, frames - 1));
    (word, phones.iter().flat_map(of_phone).collect())
}

/// Whether transition-ids are all phones of a word or silence.
pub fn is_whole(ids: &[i32]) -> bool {
    let phones: Vec<i32> = ids.iter().filter(|&id| id % 2 == 0).map(|id| id / 2).collect();
    WORDS.iter().any(|(_, known)| *known == phones)
        || (phones.len() > 1 && phones[0] == 2 && phones[phones.len() - 1] == 4)
}

/// Up to six words and silences, phones of one to three frames.
pub fn sentence() -> impl Strategy<Value = Vec<Segment>> {
    let segment = (0..WORDS.len(), prop::collection::vec(1usize..4, 4)).prop_map(|(at, lengths)| {
        let (word, phones) = WORDS[at];
        let ids = phones.iter().zip(&lengths).flat_map(|(phone, frames)| said(0, &[*phone], *frames).1);
        (word, ids.collect())
    });
    prop::collection::vec(segment, 1..6)
}
