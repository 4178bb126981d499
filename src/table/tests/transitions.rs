//! Transition models by hand; real ones are in `tests/table_real.rs`.

use super::{format_offset, loaded, stored};
use crate::error::Result;
use crate::table::{Transitions, TransitionsHolder};

/// Phones 1 and 3 with two emitting states, phone 2 with one, whose self-loop has a pdf-class of its own in `TUPLES`.
const TRIPLES: &str = "<TransitionModel> 
<Topology> 
<TopologyEntry> 
<ForPhones> 
1 3 
</ForPhones> 
<State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State> 
<State> 1 <PdfClass> 1 <Transition> 1 0.75 <Transition> 2 0.25 </State> 
<State> 2 </State> 
</TopologyEntry> 
<TopologyEntry> 
<ForPhones> 
2 
</ForPhones> 
<State> 0 <PdfClass> 0 <Transition> 1 1 </State> 
<State> 1 </State> 
</TopologyEntry> 
</Topology> 
<Triples> 4 
1 0 3 
1 1 0 
2 0 1 
3 1 0 
</Triples> 
<LogProbs> 
 [ 0 -0.5 -0.25 -1 -2 0 -3 -4 ]
</LogProbs> 
</TransitionModel> 
";

const TUPLES: &str = "<TransitionModel> 
<Topology> 
<TopologyEntry> 
<ForPhones> 
1 2 
</ForPhones> 
<State> 0 <ForwardPdfClass> 0 <SelfLoopPdfClass> 1 <Transition> 0 0.5 <Transition> 1 0.5 </State> 
<State> 1 </State> 
</TopologyEntry> 
</Topology> 
<Tuples> 2 
1 0 0 1 
2 0 2 2 
</Tuples> 
<LogProbs> 
 [ 0 -0.5 -0.5 -0.5 -0.5 ]
</LogProbs> 
</TransitionModel> 
";

fn model(text: &str) -> Result<Transitions> {
    loaded::<TransitionsHolder>(text.as_bytes())
}

#[test]
fn triples_by_hand() {
    let model = model(TRIPLES).unwrap();
    assert_eq!((model.num_ids(), model.num_pdfs(), model.num_phones(), model.num_transition_states()), (7, 4, 3, 4));
    assert_eq!(model.phones(), [1, 2, 3]);
    let each = |of: &dyn Fn(i32) -> i32| (1..=7).map(of).collect::<Vec<_>>();
    assert_eq!(each(&|id| model.pdf(id).unwrap() as i32), [3, 3, 0, 0, 1, 0, 0]);
    assert_eq!(each(&|id| model.phone(id).unwrap()), [1, 1, 1, 1, 2, 3, 3]);
    assert_eq!(each(&|id| model.hmm_state(id).unwrap()), [0, 0, 1, 1, 0, 1, 1]);
    assert_eq!(each(&|id| model.transition_state(id).unwrap()), [1, 1, 2, 2, 3, 4, 4]);
    assert_eq!(each(&|id| model.is_self_loop(id).into()), [1, 0, 1, 0, 0, 1, 0]);
    assert_eq!(each(&|id| model.is_final(id).into()), [0, 0, 0, 1, 1, 0, 1]);
    assert_eq!(each(&|id| (model.log_prob(id).unwrap() * -4.0) as i32), [2, 1, 4, 8, 0, 12, 16]);
    for id in [0, 8, -1, i32::MIN, i32::MAX] {
        assert_eq!((model.pdf(id), model.phone(id), model.hmm_state(id)), (None, None, None));
        assert_eq!((model.transition_state(id), model.log_prob(id)), (None, None));
        assert!(!model.is_self_loop(id) && !model.is_final(id));
    }
    let none = Transitions::default();
    assert_eq!((none.num_ids(), none.num_pdfs(), none.num_phones(), none.pdf(1)), (0, 0, 0, None));
}

#[test]
fn tuples_by_hand() {
    let model = model(TUPLES).unwrap();
    assert_eq!((model.num_ids(), model.num_pdfs()), (4, 3));
    assert_eq!((1..=4).map(|id| model.pdf(id).unwrap()).collect::<Vec<_>>(), [1, 0, 2, 2]);
    assert!(model.is_self_loop(1) && model.is_final(2) && model.is_self_loop(3) && model.is_final(4));
}

/// Text, to binary, to text: nothing changes. The binary bytes are those of Kaldi's form, put together by hand.
#[test]
fn both_forms_are_written_as_read() {
    for text in [TRIPLES, TUPLES] {
        let from_text = model(text).unwrap();
        assert_eq!(String::from_utf8(stored::<TransitionsHolder>(&from_text, false)).unwrap(), text);
        let binary = stored::<TransitionsHolder>(&from_text, true);
        let from_binary = loaded::<TransitionsHolder>(&binary).unwrap();
        assert_eq!(stored::<TransitionsHolder>(&from_binary, true), binary);
        assert_eq!(String::from_utf8(stored::<TransitionsHolder>(&from_binary, false)).unwrap(), text);
    }
    let int = |value: i32| [&[4u8][..], &value.to_le_bytes()].concat();
    let float = |value: f32| [&[4u8][..], &value.to_le_bytes()].concat();
    let bare = |values: &[i32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let expected = [
        b"\0B<TransitionModel> <Topology> ".to_vec(),
        int(2),
        bare(&[1, 2]),
        int(3),
        bare(&[-1, 0, 0]),
        int(-1),
        int(1),
        int(2),
        [int(0), int(1), int(2), int(0), float(0.5), int(1), float(0.5)].concat(),
        [int(-1), int(-1), int(0)].concat(),
        b"</Topology> <Tuples> ".to_vec(),
        int(2),
        [1, 0, 0, 1, 2, 0, 2, 2].into_iter().flat_map(int).collect(),
        b"</Tuples> <LogProbs> FV ".to_vec(),
        int(5),
        [0.0f32, -0.5, -0.5, -0.5, -0.5].iter().flat_map(|v| v.to_le_bytes()).collect(),
        b"</LogProbs> </TransitionModel> ".to_vec(),
    ]
    .concat();
    assert_eq!(stored::<TransitionsHolder>(&model(TUPLES).unwrap(), true), expected);
}

/// What follows the transition model in a whole acoustic model is not touched.
#[test]
fn only_the_transition_model_is_read() {
    use crate::table::{Holder, Input};
    let whole = format!("{TRIPLES}<DIMENSION> 39 <NUMPDFS> 4 ");
    let mut input = Input::from_bytes("test", whole);
    TransitionsHolder::read(&mut input).unwrap();
    assert_eq!(input.token(false).unwrap(), "<DIMENSION>");
}

#[test]
fn wrong_models() {
    for (from, to) in [
        ("<TransitionModel>", "<Nnet>"),
        ("<Topology>", "<Topo>"),
        ("<ForPhones>", "<Phones>"),
        ("1 3 ", "1 1 "),
        ("1 3 ", "1 2 "),
        ("1 3 ", "0 3 "),
        ("1 3 ", "x "),
        ("<State> 1 ", "<State> 2 "),
        ("<PdfClass> 1", "<Final>"),
        ("<Transition> 1 0.5", "<Transition> 3 0.5"),
        ("<Transition> 1 0.5", "<Transition> -1 0.5"),
        ("<Transition> 1 0.5", "<Transition> 1 0"),
        ("<State> 2 </State>", "<State> 2 <Transition> 0 1 </State>"),
        ("<Triples> 4", "<Triples> 3"),
        ("<Triples> 4", "<Triples> -4"),
        ("<Triples> 4", "<Triples> 2147483647"),
        ("<Triples>", "<Tuples>"),
        ("1 0 3 ", "4 0 3 "),
        ("1 0 3 ", "1 3 3 "),
        ("1 0 3 ", "1 -1 3 "),
        ("1 0 3 ", "1 0 -3 "),
        ("1 0 3 ", "1 0 2147483647 "),
        ("[ 0 ", "[ "),
        ("[ 0 ", "[ 0 0 "),
        ("-0.25", "0.25"),
        ("-0.25", "nan"),
        ("-0.25", "-inf"),
        ("</LogProbs>", "<LogProbs>"),
        ("</TransitionModel>", ""),
    ] {
        assert!(TRIPLES.contains(from));
        assert!(model(&TRIPLES.replacen(from, to, 1)).is_err(), "{from} {to}");
    }
    assert!(model("<TransitionModel> <Topology> </Topology> <Triples> 0 </Triples> ").is_err());
    // The first number of phone 9's line: nothing is that phone's topology.
    let error = model(&TRIPLES.replacen("3 1 0 ", "9 1 0 ", 1)).unwrap_err();
    assert!(error.to_string().contains("transition-state 4 is state 1 of phone 9"), "{error}");
    assert!(format_offset(&error) > 0);
}

/// Many transition-states with many transitions each: as many transition-ids as the product, found out before any memory
/// is asked for.
#[test]
fn transition_ids_are_counted_before_they_are_kept() {
    let arcs = "<Transition> 1 0.5 ".repeat(50_000);
    let states = "1 0 0\n".repeat(50_000);
    let text = format!(
        "<TransitionModel> <Topology> <TopologyEntry> <ForPhones> 1 </ForPhones> <State> 0 <PdfClass> 0 {arcs}</State> \
         <State> 1 </State> </TopologyEntry> </Topology> <Triples> 50000 {states} </Triples> <LogProbs> [ 0 ]\n"
    );
    let message = model(&text).unwrap_err().to_string();
    assert!(message.contains("2500000000 transition-ids are too many"), "{message}");
    let text = text.replacen("<Triples> 50000", "<Triples> 40000", 1).replacen(&states, &"1 0 0\n".repeat(40_000), 1);
    let message = model(&text).unwrap_err().to_string();
    assert!(message.contains("1 log-probabilities for 2000000000 transition-ids"), "{message}");
}
