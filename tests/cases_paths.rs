//! Best paths, unions, depth, oracle paths and rescoring, over both faces.

mod common;
#[path = "common/face/mod.rs"]
mod face;

use face::{Face, Matrix, Status, chain, open};
use koshi::decoder::DecoderConfig;
use koshi::lattice::RawLattice;

over_both_faces! {
    case_b07_one_state
    case_b08_no_path
    case_b15_partial_lattice
    case_b20_strings
    case_b22_unsorted
    case_b35_no_weights
    nbest_by_hand
    union_by_hand
    depth_and_oracle
    rescoring
    faults
}

fn nbest<F: Face>(text: &str, n: usize) -> Vec<Vec<i32>> {
    F::lattice_nbest(text.as_bytes(), n, 1.0).unwrap().into_iter().map(|(path, _)| path.olabels).collect()
}

fn case_b07_one_state<F: Face>() {
    for text in ["0 1,2\n", "0 1,2,\n", "0 1,2,3_4\n"] {
        let found = F::lattice_nbest(text.as_bytes(), 4, 1.0).unwrap();
        assert_eq!(found.len(), 1);
        let (path, posterior) = &found[0];
        assert_eq!((path.olabels.len(), path.graph_cost, path.acoustic_cost, *posterior), (0, 1.0, 2.0, 1.0));
    }
}

fn case_b08_no_path<F: Face>() {
    // No states, and a final state out of reach: none. What lies beside it in a batch is not touched.
    let empty = F::lattice_to_memory(&RawLattice::default(), true).unwrap();
    assert!(F::lattice_nbest(&empty, 3, 1.0).unwrap().is_empty());
    assert!(nbest::<F>("0 1 1 1\n2\n", 3).is_empty());
    assert_eq!(nbest::<F>("0 1 1 1\n1\n", 3), [[1]]);
    assert!(F::lattice_nbest(&F::lattice_union(&empty, &empty).unwrap(), 3, 1.0).unwrap().is_empty());
    assert_eq!(F::lattice_depth(&empty).unwrap(), 1.0);
    assert_eq!(F::lattice_oracle(&empty, &[1]).unwrap_err().status, Status::KOSHI_E_ARGUMENT);
}

fn case_b15_partial_lattice<F: Face>() {
    // Two arcs in a row and one row of scores: no final state is reached.
    let (_decoder, mut channel) = open::<F>(&chain(2), &DecoderConfig::default());
    F::push(&mut channel, Matrix::dense(&[-1.0, -2.0], 2)).unwrap();
    F::finish(&mut channel).unwrap();
    assert_eq!(F::reached_final(&channel), Some(false));
    let lattice = F::lattice(&mut channel, true).unwrap();
    let bytes = F::lattice_to_memory(&lattice, true).unwrap();
    let found = F::lattice_nbest(&bytes, 2, 1.0).unwrap();
    assert_eq!(found.len(), 1);
    let (path, posterior) = &found[0];
    assert_eq!((path.olabels.as_slice(), path.acoustic_cost, *posterior), (&[1][..], 1.0, 1.0));
}

fn case_b20_strings<F: Face>() {
    let found = F::lattice_nbest(b"0 1 5 0,0,1_2\n1 2 6 0,0,3\n2\n", 1, 1.0).unwrap();
    assert_eq!((found[0].0.ilabels.as_slice(), found[0].0.frames.as_slice()), (&[1, 2, 3][..], &[0, 2][..]));
}

fn case_b22_unsorted<F: Face>() {
    let text = "5 2 1 7 0,1\n0 4 1 9 0,1\n2 0 1 8 0,2\n2 0 1 3 1,0\n4\n";
    assert_eq!(nbest::<F>(text, 9), [[7, 3, 9], [7, 8, 9]]);
}

fn case_b35_no_weights<F: Face>() {
    assert_eq!(F::lattice_nbest(b"0 1 1 1\n1\n", 1, 1.0).unwrap()[0].0.graph_cost, 0.0);
}

fn nbest_by_hand<F: Face>() {
    let text = "0 1 1 1 1,4\n0 1 2 2 2,1\n0 1 3 2 0,3\n1 2 4 5 0.5,0\n1 2 5 6 0.25,2\n2 0.125,0\n";
    // Costs at scale 1: "1" 5, "2" 3 both ways; "5" 0.5, "6" 2.25.
    assert_eq!(nbest::<F>(text, 9), [[2, 5], [2, 6], [1, 5], [1, 6]]);
    assert_eq!(nbest::<F>(text, 2), [[2, 5], [2, 6]]);
    assert!(nbest::<F>(text, 0).is_empty());
    let found = F::lattice_nbest(text.as_bytes(), 9, 1.0).unwrap();
    assert_eq!((found[0].0.graph_cost, found[0].0.acoustic_cost), (2.625, 1.0), "of equal paths the first");
    let sum: f64 = found.iter().map(|(_, posterior)| posterior).sum();
    assert!(sum <= 1.0 && sum > 1.0 - 1e-9);
    let ratio = found[0].1 / found[2].1;
    assert!((ratio - 2.0 * 2f64.exp()).abs() < 1e-9, "two ways of 3 against one of 5: {ratio}");
    // The acoustic scale decides: at 0 the graph costs alone.
    let words = |(path, _): (face::Words, f64)| path.olabels;
    let found = F::lattice_nbest(text.as_bytes(), 9, 0.0).unwrap();
    assert_eq!(found.into_iter().map(words).collect::<Vec<_>>(), [[2, 6], [2, 5], [1, 6], [1, 5]]);
}

fn union_by_hand<F: Face>() {
    let (one, other) = (b"0 1 1 1 1,0\n1\n", b"0 1 2 0.5,0,9\n1 0,0,8\n");
    let union = F::lattice_union(one, other).unwrap();
    let found = F::lattice_nbest(&union, 9, 1.0).unwrap();
    let costs: Vec<_> = found.iter().map(|(path, _)| (path.olabels[0], path.graph_cost, path.ilabels.len())).collect();
    assert_eq!(costs, [(2, 0.5, 2), (1, 1.0, 1)]);
}

fn depth_and_oracle<F: Face>() {
    let text = b"0 1 1 1\n0 1 2 2 0.5,0\n1 2 0 0\n2 3 1 3\n3\n";
    assert_eq!(F::lattice_depth(text).unwrap(), 1.5);
    let oracle = |words: &[i32]| F::lattice_oracle(text, words).unwrap();
    assert_eq!((oracle(&[2, 3]).0, oracle(&[2, 3]).1.olabels), (0, vec![2, 3]));
    assert_eq!((oracle(&[2]).0, oracle(&[]).0, oracle(&[9, 9, 9, 9]).0), (1, 2, 4));
    assert_eq!(oracle(&[9]).1.olabels, [1, 3], "of equal errors the cheapest");
}

const MODEL: &[u8] = b"\\data\\\nngram 1=4\nngram 2=1\n\\1-grams:\n-1 1\n-2 2\n-99 <s> -0.5\n-0.25 </s>\n\\2-grams:\n-0.125 <s> 1\n\\end\\\n";

fn rescoring<F: Face>() {
    let text = b"0 1 1 1 1,2\n0 1 2 2 0.5,2\n0 1 3 3 0,0\n1\n";
    let found = F::lattice_rescore(text, None, Some(MODEL), 1.0).unwrap();
    found.validate().unwrap();
    // "3" is not in the model. Costs are by hand, in log10.
    let bytes = F::lattice_to_memory(&found, true).unwrap();
    let paths = F::lattice_nbest(&bytes, 9, 1.0).unwrap();
    let costs = [(1, 1.0, 0.125 + 0.25), (2, 0.5, 0.5 + 2.0 + 0.25)];
    assert_eq!(paths.len(), 2);
    for ((path, _), (word, graph, log10)) in paths.iter().zip(costs) {
        assert_eq!((path.olabels.as_slice(), path.acoustic_cost), (&[word][..], 2.0));
        assert!((path.graph_cost - graph - log10 * std::f64::consts::LN_10).abs() < 1e-5, "{path:?}");
    }
    let same = F::lattice_rescore(text, Some(MODEL), Some(MODEL), 1.0).unwrap();
    assert_eq!(same.arcs.iter().map(|arc| arc.weight.graph).collect::<Vec<_>>(), [1.0, 0.5]);
    let back = F::lattice_rescore(&bytes, Some(MODEL), None, 1.0).unwrap();
    let minus = F::lattice_rescore(&bytes, None, Some(MODEL), -1.0).unwrap();
    assert_eq!(back, minus);
    assert!((back.arcs[0].weight.graph - 1.0).abs() < 1e-4);
}

fn faults<F: Face>() {
    let text = b"0 1 1 1 1,2\n1\n";
    let status = |outcome: face::Outcome<RawLattice>| outcome.unwrap_err().status;
    assert_eq!(F::lattice_nbest(text, 1, f32::NAN).unwrap_err().status, Status::KOSHI_E_ARGUMENT);
    assert_eq!(F::lattice_nbest(b"x", 1, 1.0).unwrap_err().status, Status::KOSHI_E_FORMAT);
    assert_eq!(F::lattice_oracle(text, &[0]).unwrap_err().status, Status::KOSHI_E_ARGUMENT);
    assert_eq!(status(F::lattice_rescore(text, None, Some(MODEL), f32::INFINITY)), Status::KOSHI_E_ARGUMENT);
    let fault = F::lattice_rescore(text, None, Some(b"\\data\\\nngram 1=x\n"), 1.0).unwrap_err();
    assert!(fault.status == Status::KOSHI_E_FORMAT && fault.message.contains("line 2"), "{fault:?}");
}
