//! Bytes taken for a transition model: an error, or a model whose transition-ids all make sense and which comes back from
//! what it is written as.

use koshi::table::{Holder, Input, Output, Transitions, TransitionsHolder};

/// A model's table from phones to entries reaches up to its greatest phone, in a file of few bytes too.
const MOST_PHONES: i32 = 1 << 16;

fn stored(model: &Transitions, binary: bool) -> Vec<u8> {
    let mut output = Output::memory();
    TransitionsHolder::write(&mut output, model, binary).expect("writing to memory");
    output.into_bytes()
}

pub fn run(bytes: &[u8]) -> bool {
    let Ok(model) = TransitionsHolder::read(&mut Input::from_bytes("fuzz", bytes)) else { return false };
    for id in 1..=model.num_ids() {
        assert!(model.pdf(id).is_some_and(|pdf| (pdf as i32) < model.num_pdfs()));
        assert!(model.phone(id).is_some_and(|phone| model.phones().binary_search(&phone).is_ok()));
        assert!(model.transition_state(id).is_some_and(|state| (1..=model.num_transition_states()).contains(&state)));
        assert!(model.hmm_state(id).is_some() && model.log_prob(id).is_some_and(|p| p <= 0.0));
    }
    if model.phones().last().is_some_and(|&phone| phone < MOST_PHONES) {
        for binary in [true, false] {
            let copy = stored(&model, binary);
            let again = TransitionsHolder::read(&mut Input::from_bytes("copy", &copy[..]));
            // A probability that is too small for seven digits is refused in text; nothing else may be.
            match again {
                Ok(again) => assert_eq!(stored(&again, binary), copy),
                Err(error) => assert!(!binary, "{}", error.chain()),
            }
        }
    }
    true
}
