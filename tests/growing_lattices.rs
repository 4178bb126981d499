//! Compact lattices that are determinized while an utterance grows, against those that are
//! determinized whole at its end; real speech, and long speech strung together from it.

mod common;
#[path = "support/compare_languages.rs"]
mod compare_languages;
#[path = "support/strung.rs"]
mod strung;

use std::sync::Arc;
use std::time::Instant;

use compare_languages::{Comparison, alignment, compare, cost_of_alignment};
use koshi::Error;
use koshi::decoder::{BackendChoice, Channel, Decoder, SharedChannel};
use koshi::lattice::{CompactLattice, DeterminizeConfig, Determinizer, RawLattice};
use koshi::search::{CommitConfig, Phrase, Rows, SearchConfig};
use strung::{SCALE, model, scores, speech_on, strung};

const BEAM: f32 = 6.0;

fn decoder(backend: BackendChoice) -> Arc<Decoder> {
    let search = SearchConfig { beam: 13.0, lattice_beam: BEAM, max_active: 700, ..SearchConfig::default() };
    speech_on(search, backend)
}

fn determinize_config() -> DeterminizeConfig {
    DeterminizeConfig { beam: BEAM, acoustic_scale: SCALE, ..DeterminizeConfig::default() }
}

/// Pushes all rows, and settles every `frames` of them.
fn push(channel: &mut Channel, data: &[f32], dim: usize, frames: usize) {
    for part in data.chunks(frames * dim) {
        channel.push(Rows::dense(part, dim).unwrap()).unwrap();
        channel.settle().unwrap();
    }
}

/// Holds the lattice to that which is determinized whole: nothing is missing within the beam, costs
/// and alignments are the same but for what `delta` allows at each merging.
fn check(raw: &RawLattice, ours: &CompactLattice, whole: &CompactLattice) -> usize {
    ours.validate().unwrap();
    let Comparison { best, only, difference, strings, pairs } = compare([ours, whole], SCALE);
    let near = 1e-5 * best[1].abs() + 3e-3;
    assert!((best[0] - best[1]).abs() < near, "{best:?}");
    let outside = |only: &Vec<(Vec<i32>, f64)>| only.iter().all(|(_, above)| *above > f64::from(BEAM) - near);
    assert!(only.iter().all(outside), "{only:?}");
    assert!(difference[0].abs().max(difference[1].abs()) < near, "{difference:?}");
    for (words, _) in strings.iter().take(20) {
        let ids = [ours, whole].map(|lattice| alignment(lattice, words).unwrap());
        let costs = [0, 1].map(|side| cost_of_alignment(raw, words, &ids[side], SCALE).unwrap());
        assert!((costs[0] - costs[1]).abs() < near, "other transition-ids for {words:?}: {costs:?}");
    }
    assert_eq!((ours.num_frames, ours.reached_final), (whole.num_frames, whole.reached_final));
    assert_eq!(ours.acoustic_scale, whole.acoustic_scale);
    pairs
}

#[test]
fn each_prompt_has_the_lattice_that_is_determinized_whole() {
    prompts_agree(BackendChoice::Cpu, &[], 12, usize::MAX);
}

#[test]
fn so_they_have_with_phrases() {
    // "the", "conference has", "press one"
    let list = [(&[487][..], 3.0), (&[97, 205], 6.0), (&[382, 338], -2.0)];
    let list = list.map(|(labels, bonus)| Phrase { labels, bonus });
    prompts_agree(BackendChoice::Cpu, &list, 12, usize::MAX);
}

#[test]
fn so_they_have_on_the_gpu() {
    common::gpu();
    prompts_agree(BackendChoice::Cuda, &[], 1, 190);
}

fn prompts_agree(backend: BackendChoice, phrases: &[Phrase<'_>], most: usize, frames: usize) {
    let (model, (all, dim)) = (model(), scores());
    let mut channel = decoder(backend).new_channel().unwrap();
    channel.set_bias(phrases).unwrap();
    let mut pairs = 0;
    for phones in [Some(&model), None] {
        channel.set_determinize(phones.cloned(), &determinize_config()).unwrap();
        for (at, data) in all.iter().take(most).enumerate() {
            channel.begin().unwrap();
            push(&mut channel, &data[..data.len().min(frames.saturating_mul(dim))], dim, [20, 1, 50, 1000][at % 4]);
            channel.finish().unwrap();
            for use_final in [true, false] {
                let raw = channel.lattice(use_final).unwrap();
                let found = channel.compact_lattice(use_final).unwrap();
                assert_eq!(found.effective_beam, BEAM);
                let whole = raw.determinize(phones.map(AsRef::as_ref), &determinize_config()).unwrap();
                assert_eq!(raw.bias.is_empty(), phrases.is_empty());
                let raw = raw.with_bias(1.0).unwrap();
                pairs += check(&raw, &found.lattice, &whole.lattice);
            }
        }
    }
    assert!(pairs > 20, "{pairs}");
}

#[test]
fn after_finish_there_is_no_more_to_do_for_a_longer_call() {
    let (model, (all, dim)) = (model(), scores());
    let mut channel = decoder(BackendChoice::Cpu).new_channel().unwrap();
    let mut work = Determinizer::default();
    let mut links = Vec::new();
    for seconds in [15, 60, 240] {
        channel.set_determinize(Some(Arc::clone(&model)), &determinize_config()).unwrap();
        channel.begin().unwrap();
        push(&mut channel, &strung(&all, dim, seconds * 100), dim, 100);
        channel.finish().unwrap();
        let since = Instant::now();
        let found = channel.compact_lattice(false).unwrap();
        let grown = since.elapsed();
        let since = Instant::now();
        let raw = channel.lattice(false).unwrap();
        let config = DeterminizeConfig { max_mem: 0, ..determinize_config() };
        let whole = work.determinize(&raw, Some(&model), &config).unwrap();
        let at_once = since.elapsed();
        links.push(channel.links_of_last_call());
        let pairs = check(&raw, &found.lattice, &whole.lattice);
        println!(
            "{seconds} s: {} links of {}, {pairs} pairs; {grown:?} from finish, whole {at_once:?}",
            links.last().unwrap(),
            raw.num_arcs()
        );
        assert!(pairs > 3 * seconds);
        if seconds > 15 {
            assert!(channel.links_of_last_call() * 4 < raw.num_arcs());
        }
    }
    // The last windows and what hangs on the last words: not more for a call of sixteen times the length.
    assert!(links[2] < 2 * links[0].max(links[1]), "{links:?}");
}

/// Where rows are queued nobody has to ask for it on the way, be they searched as they come or in one go.
#[test]
fn queued_rows_are_determinized_as_they_are_searched() {
    let (model, (all, dim)) = (model(), scores());
    let rows = strung(&all, dim, 3_000);
    let rows = Rows::dense(&rows, dim).unwrap();
    for piece in [20, 3_000] {
        let line = SharedChannel::new(decoder(BackendChoice::Cpu).new_channel().unwrap()).unwrap();
        line.write().unwrap().set_determinize(Some(Arc::clone(&model)), &determinize_config()).unwrap();
        line.begin().unwrap();
        for at in (0..3_000).step_by(piece) {
            line.submit(rows.slice(at, piece)).unwrap();
            line.wait(None).unwrap();
            let (settled, frames) = (line.read().unwrap().settled_frames(), line.read().unwrap().num_frames());
            // A piece of 50 frames, 25 behind it, and a window of 50 times or two that are not pruned yet.
            assert!(settled + 200 > frames, "{settled} of {frames}");
        }
        line.finish().unwrap();
        let mut channel = line.write().unwrap();
        let found = channel.compact_lattice(false).unwrap();
        let raw = channel.lattice(false).unwrap();
        let whole = Determinizer::default().determinize(&raw, Some(&model), &determinize_config()).unwrap();
        assert!(check(&raw, &found.lattice, &whole.lattice) > 90);
        assert!(channel.links_of_last_call() * 4 < raw.num_arcs());
    }
}

/// Set in the middle of a call, what lies behind is caught up with, a little at each turn.
#[test]
fn what_was_left_is_caught_up_with() {
    let (model, (all, dim)) = (model(), scores());
    let rows = strung(&all, dim, 2_400);
    let rows = Rows::dense(&rows, dim).unwrap();
    let line = SharedChannel::new(decoder(BackendChoice::Cpu).new_channel().unwrap()).unwrap();
    line.begin().unwrap();
    line.submit(rows.slice(0, 1_000)).unwrap();
    line.wait(None).unwrap();
    line.write().unwrap().set_determinize(Some(model), &determinize_config()).unwrap();
    let mut last = 0;
    for at in (1_000..2_400).step_by(25) {
        line.submit(rows.slice(at, 25)).unwrap();
        line.wait(None).unwrap();
        let settled = line.read().unwrap().settled_frames();
        assert!(settled >= last && settled <= last + 100, "{last}, then {settled}");
        last = settled;
    }
    assert!(last > 2_200, "{last} of 2400");
}

#[test]
fn behind_a_commit_the_lattice_begins_anew() {
    let (model, (all, dim)) = (model(), scores());
    let mut channel = decoder(BackendChoice::Cpu).new_channel().unwrap();
    channel.set_determinize(Some(Arc::clone(&model)), &determinize_config()).unwrap();
    channel.set_commit(Some(CommitConfig { frames: 1000, lattice_frames: 0 })).unwrap();
    channel.begin().unwrap();
    let mut begins = Vec::new();
    for part in strung(&all, dim, 2000).chunks(130 * dim) {
        push(&mut channel, part, dim, 65);
        let raw = channel.lattice(false).unwrap();
        let whole = raw.determinize(Some(&model), &determinize_config()).unwrap();
        check(&raw, &channel.compact_lattice(false).unwrap().lattice, &whole.lattice);
        begins.push(channel.committed_frames());
    }
    begins.dedup();
    assert!(begins.len() > 4, "{begins:?}");
}

/// All at once: commits that are forced, lists that change, other options in the middle, a row that fails.
#[test]
fn it_follows_whatever_happens_on_the_way() {
    let (model, (all, dim)) = (model(), scores());
    let has = Phrase { labels: &[97, 205], bonus: 6.0 };
    let the = Phrase { labels: &[487], bonus: 3.0 };
    let mut channel = decoder(BackendChoice::Cpu).new_channel().unwrap();
    channel.set_determinize(None, &determinize_config()).unwrap();
    channel.set_commit(Some(CommitConfig { frames: 256, lattice_frames: 0 })).unwrap();
    channel.begin().unwrap();
    let mut phones = None;
    for (at, part) in strung(&all, dim, 1500).chunks(75 * dim).enumerate() {
        match at {
            3 => channel.set_bias(&[has]).unwrap(),
            8 => channel.set_bias(&[the, has]).unwrap(),
            12 => channel.set_bias(&[]).unwrap(),
            6 | 14 => {
                phones = if at == 6 { Some(Arc::clone(&model)) } else { None };
                channel.set_determinize(phones.clone(), &determinize_config()).unwrap();
            }
            _ => {}
        }
        push(&mut channel, part, dim, 25);
        if at == 19 {
            let failed = channel.push(Rows::dense(&vec![f32::NAN; dim], dim).unwrap());
            assert!(matches!(failed, Err(Error::Scores { .. })));
        }
        channel.settle().unwrap();
        for use_final in [true, false] {
            let raw = channel.lattice(use_final).unwrap();
            let whole = raw.determinize(phones.as_deref(), &determinize_config()).unwrap();
            let found = channel.compact_lattice(use_final).unwrap();
            check(&raw.with_bias(1.0).unwrap(), &found.lattice, &whole.lattice);
        }
    }
    assert!(channel.stats().unwrap().forced_commits > 0);
}

#[test]
fn what_is_not_set_or_does_not_fit_is_refused() {
    let mut channel = decoder(BackendChoice::Cpu).new_channel().unwrap();
    assert!(matches!(channel.settle(), Err(Error::State(_))));
    channel.begin().unwrap();
    assert!(matches!(channel.settle(), Err(Error::State(_))));
    assert!(matches!(channel.compact_lattice(true), Err(Error::State(_))));
    let other = DeterminizeConfig { acoustic_scale: 0.1, ..determinize_config() };
    assert!(matches!(channel.set_determinize(None, &other), Err(Error::Config(_))));
    let words = DeterminizeConfig { word_determinize: false, ..determinize_config() };
    assert!(matches!(channel.set_determinize(None, &words), Err(Error::Config(_))));
    channel.set_determinize(None, &determinize_config()).unwrap();
    // No frame: as the raw lattice, which is empty or the epsilon path to a final.
    for use_final in [true, false] {
        let raw = channel.lattice(use_final).unwrap();
        let whole = raw.determinize(None, &determinize_config()).unwrap().lattice;
        assert_eq!(channel.compact_lattice(use_final).unwrap().lattice, whole);
    }
}
