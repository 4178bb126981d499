//! Bytes taken for a language model, in ARPA's form or as a grammar: an error, or a model whose costs make sense.

use koshi::lattice::LanguageModel;
use koshi::table::{Input, SymbolTable};

const SYMBOLS: &[u8] = b"<eps> 0\n<s> 1\n</s> 2\na 3\nb 4\n<unk> 5\n#0 6\n";

pub fn run(bytes: &[u8]) -> bool {
    let symbols = SymbolTable::read(&mut Input::from_bytes("symbols", SYMBOLS)).expect("a good table");
    let mut taken = false;
    for symbols in [Some(&symbols), None] {
        let Ok(model) = LanguageModel::read(&mut Input::from_bytes("fuzz", bytes), symbols) else { continue };
        taken = true;
        for words in [&[][..], &[3], &[3, 4, 3, 3], &[i32::MAX, 5], &[0, -1]] {
            if let Ok(Some(cost)) = model.cost(words) {
                assert!(!cost.is_nan(), "{words:?}");
            }
        }
        let _ = model.to_graph(6);
    }
    taken
}
