//! Raw lattices of real speech, determinized by Kaldi and by us: the same word sequences, costs
//! and transition-ids, on data that is not in the repository (see `support/shared.rs`).

#[path = "support/compare_languages.rs"]
mod compare_languages;
#[path = "support/shared.rs"]
mod shared;

use std::path::PathBuf;

use compare_languages::{Comparison, alignment, compare, cost_of_alignment};
use koshi::lattice::{
    CompactLattice, CompactLatticeHolder, DeterminizeConfig, Determinizer, RawLattice, RawLatticeHolder,
};
use koshi::table::{Holder, Input, SequentialReader, Transitions};

/// One run of Kaldi's decoder over a set of utterances, both before and after determinization.
struct Setting {
    folder: &'static str,
    model: &'static str,
    name: &'static str,
    beam: f32,
    acoustic_scale: f32,
}

const TYPICAL: Setting =
    Setting { folder: "prompts", model: "trans.mdl", name: "typical", beam: 6.0, acoustic_scale: 0.083_333_3 };
const WIDE: Setting =
    Setting { folder: "prompts", model: "trans.mdl", name: "wide", beam: 10.0, acoustic_scale: 0.066_666_7 };
const CHAIN: Setting =
    Setting { folder: "chain-ko", model: "graph/trans.mdl", name: "b11u", beam: 4.0, acoustic_scale: 1.0 };

fn data(file: &str) -> Option<PathBuf> {
    shared::shared(&format!("realdata/{file}"))
}

/// All entries of an archive.
fn archive<H: Holder>(setting: &Setting, kind: &str) -> Option<Vec<(String, H::Value)>> {
    let bytes = shared::read(&data(&format!("{}/kaldi/{}.{kind}.txt.gz", setting.folder, setting.name))?);
    let mut reader = SequentialReader::<H>::from_archive(Input::from_bytes("archive", bytes));
    let mut entries = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        entries.push(entry);
    }
    Some(entries)
}

struct Utterance {
    key: String,
    raw: RawLattice,
    kaldi: CompactLattice,
    ours: CompactLattice,
}

fn determinized(setting: &Setting, phones: bool) -> Option<Vec<Utterance>> {
    let raw = archive::<RawLatticeHolder>(setting, "raw-lattice")?;
    let kaldi = archive::<CompactLatticeHolder>(setting, "compact-lattice")?;
    let model = data(&format!("{}/{}", setting.folder, setting.model))?;
    let transitions = Transitions::read_file(model.to_str().unwrap()).unwrap();
    let config = DeterminizeConfig {
        beam: setting.beam,
        acoustic_scale: setting.acoustic_scale,
        phone_determinize: phones,
        ..DeterminizeConfig::default()
    };
    let mut work = Determinizer::default();
    assert_eq!(raw.len(), kaldi.len());
    let pair = |((key, raw), (other, kaldi)): ((String, RawLattice), (String, CompactLattice))| {
        assert_eq!(key, other);
        let found = work.determinize(&raw, Some(&transitions), &config).unwrap();
        assert_eq!(found.effective_beam, setting.beam, "{key}");
        found.lattice.validate().unwrap();
        Utterance { key, raw, kaldi, ours: found.lattice }
    };
    Some(raw.into_iter().zip(kaldi).map(pair).collect())
}

/// What is told of a setting, so that its figures can be held to bounds.
#[derive(Debug, Default)]
struct Sums {
    states: [usize; 2],
    arcs: [usize; 2],
    pairs: usize,
    /// Pairs of arcs or ends with different strings.
    strings: usize,
}

/// Holds our lattices to Kaldi's. Kaldi's were made from costs of full precision and hold six
/// digits, as do the raw lattices that ours are made from, and Kaldi computes in binary32. So:
///
/// - a word sequence that only one of the two has lies outside the beam (but for its last 0.01);
/// - total costs differ by at most 1e-5 relative plus 3e-3: three times the `delta` within which
///   states of equal strings are merged;
/// - a word sequence that both have has the same transition-ids, or two that the raw lattice has
///   within 1e-3 of each other. Where on the sequence's arcs they stand may differ where what
///   lies at the very edge of the beam decides it: `strings` counts these.
fn check(setting: &Setting, phones: bool) -> Option<Sums> {
    let utterances = determinized(setting, phones)?;
    let scale = setting.acoustic_scale;
    let mut sums = Sums::default();
    for Utterance { key, raw, kaldi, ours } in &utterances {
        let Comparison { best, only, difference, strings, pairs } = compare([ours, kaldi], scale);
        sums.pairs += pairs;
        sums.strings += strings.len();
        for (side, lattice) in [ours, kaldi].into_iter().enumerate() {
            sums.states[side] += lattice.num_states();
            sums.arcs[side] += lattice.num_arcs();
        }
        let true_best = raw.best_path(scale).unwrap().total_cost();
        assert!((best[0] - true_best).abs() <= 1e-4, "{key}: best cost {} became {}", true_best, best[0]);
        for (whose, only) in ["us", "Kaldi"].into_iter().zip(&only) {
            for (words, above) in only {
                println!("{key}: only {whose} has, {above:.4} above the best: {words:?}");
                assert!(*above > f64::from(setting.beam) - 0.01, "{key}: {above} is within the beam");
            }
        }
        let tolerance = 3e-3 + 1e-5 * best[1].abs();
        let widest = difference[0].abs().max(difference[1].abs());
        assert!(widest <= tolerance, "{key}: costs differ by {difference:?}, more than {tolerance}");
        for (words, at) in &strings {
            let ids = [ours, kaldi].map(|lattice| alignment(lattice, words).unwrap());
            let costs = [0, 1].map(|side| cost_of_alignment(raw, words, &ids[side], scale).unwrap());
            println!("{key}: strings of word {at} differ, costs {costs:?}: {words:?}");
            assert!((costs[0] - costs[1]).abs() <= 1e-3, "{key}: other transition-ids for {words:?}: {costs:?}");
        }
    }
    println!("{} {}: {sums:?}, ours first", setting.folder, setting.name);
    Some(sums)
}

/// The strings of each arc show that the pass on phones is Kaldi's: without it other states
/// share a common beginning, and the strings of many arcs are others (the words, costs and
/// whole alignments are the same).
fn agrees(setting: &Setting, arcs_within: usize, strings_within: usize, strings_without_phones: usize) {
    let Some(sums) = check(setting, true) else { return };
    assert!(sums.states[0].abs_diff(sums.states[1]) <= arcs_within, "{sums:?}");
    assert!(sums.arcs[0].abs_diff(sums.arcs[1]) <= arcs_within, "{sums:?}");
    assert!(sums.strings <= strings_within, "{sums:?}");
    let without = check(setting, false).unwrap();
    assert!(without.strings >= strings_without_phones, "{without:?}");
}

/// The whole way, from scores to compact lattices, by the command: Kaldi's own lattices but for
/// the last digits of costs.
#[test]
fn the_command_writes_kaldis_compact_lattices() {
    let Some(folder) = data("prompts") else { return };
    let kaldi = archive::<CompactLatticeHolder>(&TYPICAL, "compact-lattice").unwrap();
    let out = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    for threads in ["1", "4"] {
        let lattices = out.path().join(threads);
        let status = std::process::Command::new(env!("CARGO_BIN_EXE_koshi-latgen-faster-mapped"))
            .args(["--beam=13", "--lattice-beam=6", "--max-active=7000", "--acoustic-scale=0.083333"])
            .arg(format!("--num-threads={threads}"))
            .args(["trans.mdl", "HCLG.fst", "ark:loglikes.ark", &format!("ark:{}", lattices.display())])
            .current_dir(&folder)
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        bytes.push(std::fs::read(&lattices).unwrap());
    }
    assert!(bytes[0] == bytes[1], "threads change the lattices");
    let input = Input::from_bytes("lattices", bytes.remove(0));
    let mut reader = SequentialReader::<CompactLatticeHolder>::from_archive(input);
    for (key, theirs) in kaldi {
        let (found, ours) = reader.next().unwrap().unwrap();
        assert_eq!(found, key);
        let Comparison { best, only, difference, strings, .. } = compare([&ours, &theirs], TYPICAL.acoustic_scale);
        let outside = |only: &Vec<(Vec<i32>, f64)>| only.iter().all(|(_, above)| *above > 5.99);
        assert!(only.iter().all(outside), "{key}: {only:?}");
        assert!(difference[0].abs().max(difference[1].abs()) <= 3e-3 + 1e-5 * best[1].abs(), "{key}: {difference:?}");
        assert!(strings.is_empty(), "{key}: {strings:?}");
    }
    assert!(reader.next().unwrap().is_none());
}

#[test]
fn prompts_at_the_typical_setting() {
    agrees(&TYPICAL, 0, 0, 100);
}

#[test]
fn prompts_at_the_wide_setting() {
    agrees(&WIDE, 2, 10, 500);
}

#[test]
fn chain_model() {
    agrees(&CHAIN, 100, 20, 1000);
}
