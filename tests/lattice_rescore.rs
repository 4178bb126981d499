//! Language models, and lattices rescored with them: against the formula written down, the
//! listing of all paths, and on real lattices.

#[path = "support/shared.rs"]
mod shared;
#[path = "support/small_lattices.rs"]
mod small_lattices;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use koshi::graph::{GraphArc, VecSource};
use koshi::lattice::{CompactLattice, CompactLatticeHolder, LanguageModel, Lattice, Parts, RawLattice};
use koshi::table::{Input, Output, SequentialReader, SymbolTable};
use koshi::{Error, Result};
use proptest::prelude::*;
use shared::{read, shared};
use small_lattices::*;

const ARPA: &str = "\
made by hand

\\data\\
ngram 1=4
ngram 2 = 3
ngram 3=1

\\1-grams:
-1.0\t1\t-0.5
-0.5 2 -0.25
-99 <s> -0.125
-2 </s>

\\2-grams:
-0.25 <s> 1 -0.0625
-0.75 1 2
-0.5 2 </s>

\\3-grams:
-0.125 <s> 1 2

\\end\\
";

fn model(text: &str) -> LanguageModel {
    read_model(text).unwrap()
}

fn read_model(text: &str) -> Result<LanguageModel> {
    LanguageModel::read(&mut Input::from_bytes("model", text), None)
}

fn symbols(text: &str) -> SymbolTable {
    SymbolTable::read(&mut Input::from_bytes("words", text)).unwrap()
}

fn close(cost: Option<f64>, log10: f64) {
    let cost = cost.unwrap();
    let wanted = -log10 * std::f64::consts::LN_10;
    assert!((cost - wanted).abs() < 1e-5, "{cost}, not {wanted}");
}

#[test]
fn costs_by_hand() {
    let model = model(ARPA);
    let cost = |words: &[i32]| model.cost(words).unwrap();
    close(cost(&[1, 2]), -0.25 - 0.125 - 0.5);
    // "<s> 2" is not listed: its backoff and the unigram. "2 1": the same. "1 </s>": the same.
    close(cost(&[2, 1]), -0.125 - 0.5 - 0.25 - 1.0 - 0.5 - 2.0);
    // "<s> 1 1": back to "1", and again to nothing.
    close(cost(&[1, 1, 2]), -0.25 - 0.0625 - 0.5 - 1.0 - 0.75 - 0.5);
    close(cost(&[]), -0.125 - 2.0);
    assert_eq!(cost(&[3]), None, "not listed, and no <unk>");
    assert_eq!(cost(&[1, 3, 1]), None);
}

#[test]
fn a_rescored_lattice_still_says_how_it_ended() {
    for (ended, frames) in [(true, 2), (false, 5)] {
        let mut lattice = RawLattice::default();
        if let Lattice::Raw(read) = Lattice::from_bytes(b"\n0 1 1 1 0,0\n1 2 2 2 0,0\n2 0,0\n\n").unwrap() {
            lattice = RawLattice { reached_final: ended, num_frames: frames, acoustic_scale: 0.5, ..read };
        }
        let rescored = Lattice::from(lattice).rescore(None, Some(&model(ARPA)), 1.0).unwrap();
        assert_eq!(rescored.num_states(), 3);
        assert_eq!((rescored.reached_final(), rescored.num_frames()), (ended, frames));
        assert_eq!(rescored.acoustic_scale(), 0.5);
    }
}

#[test]
fn unknown_words_have_the_probability_of_unk() {
    let text = ARPA.replace("ngram 1=4", "ngram 1=5").replace("-2 </s>\n", "-2 </s>\n-3 <unk> -0.5\n");
    let text = text.replace("ngram 2 = 3", "ngram 2=4").replace("-0.75 1 2\n", "-0.75 1 2\n-1.5 1 <unk>\n");
    let model = model(&text);
    close(model.cost(&[7]).unwrap(), -0.125 - 3.0 - 0.5 - 2.0);
    close(model.cost(&[1, 8]).unwrap(), -0.25 - 0.0625 - 1.5 - 0.5 - 2.0);
    // The symbols may have a word for it, or not.
    for table in ["<eps> 0\n<unk> 3\na 1\nb 2\n", "a 1\nb 2\n"] {
        let table = symbols(table);
        let text = text.replace(" 1 ", " a ").replace("\t1\t", "\ta\t").replace(" 2 -", " b -").replace(" 2\n", " b\n");
        let model = LanguageModel::read(&mut Input::from_bytes("x", text.replace(" 2 ", " b ")), Some(&table)).unwrap();
        close(model.cost(&[1, 2]).unwrap(), -0.25 - 0.125 - 0.5);
        close(model.cost(&[1, 8]).unwrap(), -0.25 - 0.0625 - 1.5 - 0.5 - 2.0);
        close(model.cost(&[3]).unwrap(), -0.125 - 3.0 - 0.5 - 2.0);
    }
}

#[test]
fn ngrams_of_words_without_a_symbol_are_left_out() {
    let table = symbols("<eps> 0\na 1\n");
    let text =
        "\\data\\\nngram 1=3\nngram 2=2\n\\1-grams:\n-1 a\n-1 b\n-1 </s>\n\\2-grams:\n-0.5 a b\n-0.5 b a\n\\end\\\n";
    let model = LanguageModel::read(&mut Input::from_bytes("x", text), Some(&table)).unwrap();
    close(model.cost(&[1, 1]).unwrap(), -3.0);
    // Without the words before the last one, too: "1 2" has no "1".
    let text = "\\data\\\nngram 1=2\nngram 2=1\n\\1-grams:\n-1 2\n-1 </s>\n\\2-grams:\n-0.5 1 2\n\\end\\\n";
    close(self::model(text).cost(&[2]).unwrap(), -2.0);
}

#[test]
fn forms_that_are_allowed() {
    // No <s>, no </s> of its own history, blank lines, carriage returns, fewer n-grams than said, -inf.
    let text = "\\data\\\r\nngram 1=9\r\n\r\n\\1-grams:\r\n-1 1\r\n\r\n-inf 2\r\n-0.5\t</s>\r\n\\end\\\r\nafter";
    let model = model(text);
    close(model.cost(&[1]).unwrap(), -1.5);
    assert_eq!(model.cost(&[2]).unwrap(), None);
    // A model that never ends has no sentence.
    assert_eq!(self::model("\\data\\\nngram 1=1\n\\1-grams:\n-1 1\n\\end\\\n").cost(&[1]).unwrap(), None);
}

#[test]
fn faults_are_told_with_their_line() {
    let head = "\\data\\\nngram 1=2\nngram 2=1\n\\1-grams:\n-1 1 -1\n";
    for (text, line) in [
        ("", 1),
        ("\n\n", 3),
        ("\\data", 1),
        ("\\data\\\n\\end\\\n", 2),
        ("\\data\\\nngram x=1\n", 2),
        ("\\data\\\nngram 0=1\n", 2),
        ("\\data\\\nngram 1000000000=1\n", 2),
        ("\\data\\\nngram 1=-4\n", 2),
        ("\\data\\\nngram 1=1\n\\2-grams:\n", 3),
        ("\\data\\\nngram 1=1\n", 3),
        (&format!("{head}-1\n"), 6),
        (&format!("{head}x 2\n"), 6),
        (&format!("{head}nan 2\n"), 6),
        (&format!("{head}inf 2\n"), 6),
        (&format!("{head}-1 word\n"), 6),
        (&format!("{head}-1 -2\n"), 6),
        (&format!("{head}-1 0\n"), 6),
        (&format!("{head}-1 2 x\n"), 6),
        (&format!("{head}-1 2 -1 -1\n"), 6),
        (&format!("{head}-1 1\n"), 6),
        (&format!("{head}-1 2\n-1 3\n"), 7),
        (&format!("{head}-1 2\n\\3-grams:\n"), 7),
        (&format!("{head}-1 2\n\\2-grams:\n-1 1 2 -1\n\\end\\\n"), 8),
        (&format!("{head}-1 2\n\\2-grams:\n-1 1\n\\end\\\n"), 8),
        (&format!("{head}-1 2\n\\2-grams:\n-1 1 2\n"), 9),
        (&format!("{head}-1 2\n\\2-grams:\n-1 1 2\n\\3-grams:\n"), 9),
    ] {
        let error = read_model(text).unwrap_err();
        assert!(matches!(error, Error::Format { .. }), "{text:?}: {error}");
        assert!(error.to_string().contains(&format!("line {line}:")), "{text:?}, line {line}: {error}");
    }
}

#[test]
fn a_model_cut_anywhere_is_an_error() {
    let end = ARPA.find("\\end\\").unwrap() + "\\end\\".len();
    for cut in 0..end {
        assert!(read_model(&ARPA[..cut]).is_err(), "{cut}");
    }
    read_model(&ARPA[..end]).unwrap();
}

/// An n-gram model as a table: log10 probability and backoff weight by n-gram. -1 and -2 stand
/// for begin and end.
type Table = BTreeMap<Vec<i32>, (f64, f64)>;

const BEGIN: i32 = -1;
const END: i32 = -2;

/// The formula: what is listed; else the backoff weight of the history and the same for the shorter one.
fn log10_of(table: &Table, history: &[i32], word: i32) -> f64 {
    let whole: Vec<i32> = history.iter().copied().chain([word]).collect();
    match table.get(&whole) {
        Some((probability, _)) => *probability,
        None if history.is_empty() => f64::NEG_INFINITY,
        None => table.get(history).map_or(0.0, |entry| entry.1) + log10_of(table, &history[1..], word),
    }
}

fn sentence_cost(table: &Table, order: usize, words: &[i32]) -> f64 {
    let mut history = vec![BEGIN];
    let mut sum = 0.0;
    for &word in words.iter().chain([&END]) {
        let from = history.len().saturating_sub(order - 1);
        sum += log10_of(table, &history[from..], word);
        history.push(word);
    }
    -sum * std::f64::consts::LN_10
}

fn arpa(table: &Table, order: usize) -> String {
    let of = |length: usize| table.iter().filter(move |(ngram, _)| ngram.len() == length);
    let mut text = "\\data\\\n".to_string();
    (1..=order).for_each(|length| writeln!(text, "ngram {length}={}", of(length).count()).unwrap());
    for length in 1..=order {
        writeln!(text, "\n\\{length}-grams:").unwrap();
        for (ngram, (probability, backoff)) in of(length) {
            let name = |word: &i32| match *word {
                BEGIN => "<s>".to_string(),
                END => "</s>".to_string(),
                word => word.to_string(),
            };
            let words: Vec<String> = ngram.iter().map(name).collect();
            write!(text, "{probability} {}", words.join(" ")).unwrap();
            if length < order && *backoff != 0.0 {
                write!(text, " {backoff}").unwrap();
            }
            text.push('\n');
        }
    }
    text + "\n\\end\\\n"
}

/// Random models of up to trigrams over the words 1 and 2 (3 is unknown): each n-gram's
/// beginning is listed.
fn tables() -> impl Strategy<Value = (Table, usize)> {
    let weights = prop::collection::vec((1u32..40, 0u32..20, prop::bool::ANY), 4 + 9 + 27);
    (1usize..=3, weights).prop_map(|(order, weights)| {
        let mut table = Table::new();
        let mut weights = weights.into_iter();
        let mut add = |ngram: Vec<i32>, always: bool| {
            let (probability, backoff, there) = weights.next().unwrap();
            if always || there {
                table.insert(ngram, (-f64::from(probability) / 16.0, f64::from(backoff) / 16.0 - 0.75));
            }
            always || there
        };
        let mut longest = vec![vec![BEGIN], vec![1], vec![2]];
        for word in [BEGIN, 1, 2, END] {
            add(vec![word], true);
        }
        for _ in 1..order {
            let mut longer = Vec::new();
            for before in &longest {
                for word in [1, 2, END] {
                    let ngram: Vec<i32> = before.iter().copied().chain([word]).collect();
                    if add(ngram.clone(), false) && word != END {
                        longer.push(ngram);
                    }
                }
            }
            longest = longer;
        }
        // What a sentence ends with has no backoff weight; begins are never said.
        table.iter_mut().filter(|(ngram, _)| ngram.last() == Some(&END)).for_each(|(_, entry)| entry.1 = 0.0);
        (table, order)
    })
}

/// Random grammars over the words 1 to 3, with arcs without a word that lead to higher states.
fn grammars() -> impl Strategy<Value = VecSource> {
    let arc = (0u32..5, 0u32..5, 0i32..4, -8i32..16);
    let finals = prop::collection::vec(prop::option::of(-4i32..8), 5);
    (prop::collection::vec(arc, 0..16), finals).prop_map(|(arcs, finals)| {
        let cost = |cost: Option<i32>| cost.map_or(f32::INFINITY, |cost| cost as f32 / 4.0);
        let mut source =
            VecSource { start: Some(0), states: finals.into_iter().map(|last| (cost(last), Vec::new())).collect() };
        for (from, next, olabel, weight) in arcs {
            if olabel != 0 || from < next {
                let arc = GraphArc { ilabel: olabel + 7, olabel, weight: weight as f32 / 4.0, next };
                source.states[from as usize].1.push(arc);
            }
        }
        source
    })
}

/// The best of all paths that say `words` from `state` to the end.
fn best_of_all(source: &VecSource, state: u32, words: &[i32]) -> f64 {
    let (last, arcs) = &source.states[state as usize];
    let mut best = if words.is_empty() { f64::from(*last) } else { f64::INFINITY };
    for arc in arcs {
        let rest = if arc.olabel == 0 { words } else { words.get(1..).unwrap_or_default() };
        if arc.olabel == 0 || words.first() == Some(&arc.olabel) {
            best = best.min(f64::from(arc.weight) + best_of_all(source, arc.next, rest));
        }
    }
    best
}

fn near(found: Option<f64>, wanted: f64) -> bool {
    match found {
        Some(cost) => (cost - wanted).abs() < 1e-4,
        None => wanted == f64::INFINITY,
    }
}

/// Paths by words, transition-ids and acoustic cost, each with its graph costs in order.
fn by_path(parts: &Parts) -> BTreeMap<(Vec<i32>, Vec<i32>, i64), Vec<f64>> {
    let mut paths: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    for (words, ids, graph, acoustic) in written_paths(parts) {
        paths.entry((words, ids, (acoustic * 4.0) as i64)).or_default().push(graph);
    }
    paths.values_mut().for_each(|costs| costs.sort_by(f64::total_cmp));
    paths
}

fn check_rescored(before: &Parts, after: &Parts, more: impl Fn(&[i32]) -> Option<f64>) -> Result<(), TestCaseError> {
    let mut wanted = by_path(before);
    wanted.retain(|(words, ..), _| more(words).is_some());
    let found = by_path(after);
    prop_assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for ((path, before), after) in wanted.iter().zip(found.values()) {
        prop_assert_eq!(before.len(), after.len());
        for (before, after) in before.iter().zip(after) {
            prop_assert!((before + more(&path.0).unwrap() - after).abs() < 1e-4, "{:?}", path);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ngram_costs_follow_the_formula((table, order) in tables(), words in prop::collection::vec(1i32..4, 0..6)) {
        let model = model(&arpa(&table, order));
        prop_assert!(near(model.cost(&words).unwrap(), sentence_cost(&table, order, &words)));
        // As a grammar it has the best of direct n-grams and backoffs.
        let graph = model.to_graph(0).unwrap().unwrap();
        let best = best_of_all(&graph, graph.start.unwrap(), &words);
        prop_assert!(best <= sentence_cost(&table, order, &words) + 1e-4);
        let grammar = LanguageModel::from_graph(&graph, None).unwrap();
        prop_assert!(near(grammar.cost(&words).unwrap(), best));
        // The same through a label of its own.
        let marked = model.to_graph(99).unwrap().unwrap();
        prop_assert!(marked.states.iter().flat_map(|state| &state.1).all(|arc| (arc.ilabel == 99) == (arc.olabel == 0)));
    }

    #[test]
    fn grammar_costs_are_the_best_of_all_paths(source in grammars(), words in prop::collection::vec(1i32..4, 0..6)) {
        let grammar = LanguageModel::from_graph(&source, None).unwrap();
        prop_assert!(near(grammar.cost(&words).unwrap(), best_of_all(&source, 0, &words)));
    }

    #[test]
    fn paths_change_by_new_less_old(
        raw in raw_parts(),
        compact in compact_parts(),
        (old, order) in tables(),
        new in grammars(),
        scale in prop::sample::select(vec![1.0f32, -1.0, 0.5, 0.0]),
    ) {
        let old_model = model(&arpa(&old, order));
        let new_model = LanguageModel::from_graph(&new, None).unwrap();
        let more = |words: &[i32]| {
            let (old, new) = (sentence_cost(&old, order, words), best_of_all(&new, 0, words));
            (old.is_finite() && new.is_finite()).then(|| f64::from(scale) * (new - old))
        };
        let raw = RawLattice::from_parts(raw).unwrap();
        let found = Lattice::from(raw.clone()).rescore(Some(&old_model), Some(&new_model), scale).unwrap();
        found.validate().unwrap();
        check_rescored(&parts_of_raw(&raw), &parts_of_raw(&found.into_raw().unwrap()), more)?;
        let compact = CompactLattice::from_parts(compact).unwrap();
        let lattice = Lattice::from(compact.clone());
        let found = lattice.rescore(Some(&old_model), Some(&new_model), scale).unwrap();
        found.validate().unwrap();
        check_rescored(&parts_of_compact(&compact), &parts_of_compact(&found.into_compact().unwrap()), more)?;
        // One model alone, and none.
        let only = lattice.rescore(None, Some(&old_model), scale).unwrap();
        let one = |words: &[i32]| Some(f64::from(scale) * sentence_cost(&old, order, words)).filter(|cost| !cost.is_nan() && cost.is_finite());
        let scale_0 = scale == 0.0; // 0 times infinity: the model still decides which paths there are
        if !scale_0 {
            check_rescored(&parts_of_compact(&compact), &parts_of_compact(&only.into_compact().unwrap()), one)?;
        }
        prop_assert_eq!(lattice.rescore(None, None, scale).unwrap(), lattice.clone());
        // The same out and in: the costs stay.
        let same = lattice.rescore(Some(&old_model), Some(&old_model), 1.0).unwrap();
        let known = |words: &[i32]| sentence_cost(&old, order, words).is_finite().then_some(0.0);
        check_rescored(&parts_of_compact(&compact), &parts_of_compact(&same.into_compact().unwrap()), known)?;
    }

    #[test]
    fn no_bytes_make_the_reader_panic(at in 0usize..300, bytes in prop::collection::vec(any::<u8>(), 0..4)) {
        let mut text = ARPA.as_bytes().to_vec();
        let at = at.min(text.len());
        text.splice(at..(at + bytes.len()).min(ARPA.len()), bytes);
        let _ = LanguageModel::read(&mut Input::from_bytes("model", text), None);
    }
}

#[test]
fn grammars_that_are_refused() {
    let arc = |olabel, next| GraphArc { ilabel: olabel, olabel, weight: 0.0, next };
    let source = |states: Vec<(f32, Vec<GraphArc>)>| VecSource { start: Some(0), states };
    let refused = |source: &VecSource| {
        let error = LanguageModel::from_graph(source, Some(9)).unwrap_err();
        assert!(matches!(error, Error::Graph(_)), "{error}");
        error.to_string()
    };
    assert!(refused(&VecSource::default()).contains("start"));
    assert!(refused(&VecSource { start: Some(3), ..source(vec![(0.0, vec![])]) }).contains("start"));
    assert!(refused(&source(vec![(f32::NAN, vec![])])).contains("NaN"));
    assert!(refused(&source(vec![(0.0, vec![arc(1, 5)])])).contains("leads to 5"));
    assert!(refused(&source(vec![(0.0, vec![arc(-1, 0)])])).contains("word -1"));
    refused(&source(vec![(0.0, vec![GraphArc { weight: f32::NEG_INFINITY, ..arc(1, 0) }])]));
    // Both ways to say that an arc has no word.
    for label in [0, 9] {
        assert!(refused(&source(vec![(0.0, vec![arc(label, 1)]), (0.0, vec![arc(0, 0)])])).contains("cycle"));
    }
    // A word on the cycle makes it a loop that may be said for ever.
    LanguageModel::from_graph(&source(vec![(0.0, vec![arc(1, 1)]), (0.0, vec![arc(0, 0)])]), None).unwrap();
}

#[test]
fn fst_files_and_backoff_symbols() {
    // Kaldi's G.fst: #0 in, nothing out. Here #0 stands on both sides: only the table tells.
    let arc = |ilabel, olabel, weight, next| GraphArc { ilabel, olabel, weight, next };
    let source = VecSource {
        start: Some(0),
        states: vec![(f32::INFINITY, vec![arc(1, 1, 0.5, 1), arc(3, 3, 2.0, 1)]), (0.25, vec![arc(2, 2, 1.0, 1)])],
    };
    let mut output = Output::memory();
    source.write(&mut output, true).unwrap();
    let bytes = output.into_bytes();
    let table = symbols("<eps> 0\na 1\nb 2\n#0 3\n");
    let read = |symbols| LanguageModel::read(&mut Input::from_bytes("G.fst", bytes.clone()), symbols).unwrap();
    assert_eq!(read(Some(&table)).cost(&[2]).unwrap(), Some(3.25));
    assert_eq!(read(None).cost(&[2]).unwrap(), None);
    assert_eq!(read(None).cost(&[1, 2]).unwrap(), Some(1.75));
    assert!(LanguageModel::read(&mut Input::from_bytes("cut", &bytes[..bytes.len() - 3]), None).is_err());
    assert!(read(None).to_graph(0).unwrap().is_none());
}

/// A bigram model of sentences, absolute discounting by a half.
fn bigrams(sentences: &[Vec<i32>]) -> Table {
    let (mut pairs, mut heads, mut words) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for sentence in sentences {
        let marked: Vec<i32> = [BEGIN].iter().chain(sentence).chain([&END]).copied().collect();
        for pair in marked.windows(2) {
            *pairs.entry(pair.to_vec()).or_insert(0.0) += 1.0;
            *heads.entry(pair[0]).or_insert(0.0) += 1.0;
            *words.entry(pair[1]).or_insert(0.0) += 1.0;
        }
    }
    let all: f64 = words.values().sum();
    let mut table = Table::new();
    for (&word, count) in &words {
        table.insert(vec![word], ((count / all).log10(), 0.0));
    }
    table.insert(vec![BEGIN], (-99.0, 0.0));
    for (&head, count) in &heads {
        let after: Vec<_> = pairs.iter().filter(|(pair, _)| pair[0] == head).collect();
        let left: f64 = 1.0 - after.iter().map(|(_, pair)| (*pair - 0.5) / count).sum::<f64>();
        let below: f64 = 1.0 - after.iter().map(|(pair, _)| 10f64.powf(table[&pair[1..].to_vec()].0)).sum::<f64>();
        table.get_mut(&vec![head]).unwrap().1 = (left / below).log10();
        for (pair, pair_count) in after {
            table.insert(pair.clone(), (((pair_count - 0.5) / count).log10(), 0.0));
        }
    }
    table
}

/// A model of the prompts' own texts: where it goes in and out again nothing changes, and the
/// sentences of the n-best lists change by what it says of them.
#[test]
fn real_lattices() {
    let Some(folder) = shared("realdata/prompts") else { return };
    let table = SymbolTable::read_file(folder.join("words.txt").to_str().unwrap()).unwrap();
    let text = String::from_utf8(read(&folder.join("text"))).unwrap();
    let sentence = |line: &str| line.split_whitespace().skip(1).filter_map(|word| table.find(word)).collect();
    let sentences: Vec<Vec<i32>> = text.lines().map(sentence).collect();
    let mut counts = bigrams(&sentences);
    // Other words of the lattices: as rare as they come.
    let known: BTreeSet<i32> = sentences.iter().flatten().copied().collect();
    let rare = table.iter().map(|(id, _)| id).filter(|id| *id > 0 && !known.contains(id) && *id < 586);
    counts.extend(rare.map(|id| (vec![id], (-5.0, 0.0))));
    let arpa = arpa(&counts, 2);
    let model = model(&arpa);
    let grammar = LanguageModel::from_graph(&model.to_graph(0).unwrap().unwrap(), None).unwrap();

    let lattices = read(&folder.join("kaldi/wide.compact-lattice.txt.gz"));
    let mut reader = SequentialReader::<CompactLatticeHolder>::from_archive(Input::from_bytes("lattices", lattices));
    let (mut count, mut scale) = (0, 1.0);
    while let Some((key, lattice)) = reader.next().unwrap() {
        let lattice = Lattice::from(lattice);
        let before = lattice.nbest(30, 0.066_666_7).unwrap().paths;
        for model in [&model, &grammar] {
            let added = lattice.rescore(None, Some(model), scale).unwrap();
            added.validate().unwrap();
            assert_eq!((added.num_frames(), added.reached_final()), (lattice.num_frames(), true));
            let removed = added.rescore(Some(model), None, scale).unwrap().nbest(30, 0.066_666_7).unwrap().paths;
            let same = lattice.rescore(Some(model), Some(model), scale).unwrap().nbest(30, 0.066_666_7).unwrap().paths;
            assert_eq!((removed.len(), same.len()), (before.len(), before.len()));
            let after: BTreeMap<Vec<i32>, f64> = added
                .nbest(5000, 0.066_666_7)
                .unwrap()
                .paths
                .iter()
                .map(|path| (path.olabels.clone(), path.graph_cost))
                .collect();
            for (at, path) in before.iter().enumerate() {
                let removed = removed.iter().find(|other| other.olabels == path.olabels);
                if let Some(removed) = removed {
                    assert!((removed.graph_cost - path.graph_cost).abs() < 1e-3, "{key} {at}");
                    assert_eq!(removed.ilabels, path.ilabels, "{key} {at}");
                } else {
                    assert!(at + 3 > before.len(), "{key} {at}: rounding can only change the order at the very end");
                }
                assert!((same[at].graph_cost - path.graph_cost).abs() < 1e-4, "{key} {at}");
                if let Some(cost) = after.get(&path.olabels) {
                    let more = f64::from(scale) * model.cost(&path.olabels).unwrap().unwrap();
                    assert!((cost - path.graph_cost - more).abs() < 1e-3, "{key} {at}");
                    count += 1;
                }
            }
            scale = -scale;
        }
    }
    assert!(count > 1000, "{count} sentences were compared");
}
