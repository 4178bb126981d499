//! Bytes taken for a word-boundary table and for a lexicon: an error, or a table that answers for any phone.

use koshi::lattice::{AlignLexicon, WordBoundary};
use koshi::table::Input;

pub fn run(bytes: &[u8]) -> bool {
    let mut taken = false;
    if let Ok(table) = WordBoundary::read(&mut Input::from_bytes("fuzz", bytes)) {
        taken = true;
        let few = (1..1000).filter(|&phone| table.kind(phone).is_some()).count();
        assert!(0 < table.num_phones() && few <= table.num_phones());
        assert!([i32::MIN, -1, 0].iter().all(|&phone| table.kind(phone).is_none()));
        let _ = table.kind(i32::MAX);
    }
    if let Ok(lexicon) = AlignLexicon::read(&mut Input::from_bytes("fuzz", bytes)) {
        taken = true;
        assert!(!lexicon.is_empty());
        for word in [0, 1, 2, i32::MAX] {
            let Some((least, most)) = lexicon.num_phones(word) else { continue };
            assert!(least <= most);
            assert!(lexicon.new_word(word, &vec![1; most + 1]).is_none(), "longer than the longest");
        }
    }
    taken
}
