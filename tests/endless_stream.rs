//! Half an hour of speech in one channel: no more memory than after three minutes, by what the
//! library says and by what it has of the allocator.

mod common;
#[path = "support/noting.rs"]
mod noting;
#[path = "support/strung.rs"]
mod strung;

use koshi::lattice::DeterminizeConfig;
use koshi::search::{CommitConfig, Rows, SearchConfig};
use strung::{SCALE, model, scores, speech};

#[test]
fn half_an_hour_in_one_channel_takes_no_more_memory() {
    let (all, dim) = scores();
    let decoder = speech(SearchConfig { max_active: 300, beam: 11.0, lattice_beam: 6.0, ..SearchConfig::default() });
    let mut channel = decoder.new_channel().unwrap();
    channel.set_commit(Some(CommitConfig { frames: 1000, lattice_frames: 2000 })).unwrap();
    let config = DeterminizeConfig { beam: 6.0, acoustic_scale: SCALE, ..DeterminizeConfig::default() };
    channel.set_determinize(Some(model()), &config).unwrap();
    channel.begin().unwrap();
    let (mut frames, mut words, mut most) = (0, 0, [[0u64; 2]; 2]);
    for data in all.iter().cycle() {
        for part in data.chunks(50 * dim) {
            channel.push(Rows::dense(part, dim).unwrap()).unwrap();
            channel.settle().unwrap();
        }
        let (path, stable) = channel.partial_from(words).unwrap();
        assert!(stable >= words && words + path.olabels.len() >= stable);
        words = stable;
        let stats = channel.stats().unwrap();
        assert!(stats.frames - stats.committed_frames < 1000 + 64 + 128);
        let half = usize::from(stats.frames > 18_000);
        // Words and times of the path are kept for good: 8 bytes each, and as much in spare room.
        let kept = 32 * words as u64;
        most[half][0] = most[half][0].max(stats.memory.saturating_sub(kept));
        most[half][1] = most[half][1].max((noting::held() as u64).saturating_sub(kept));
        frames = stats.frames;
        if frames >= 180_000 {
            break;
        }
    }
    assert!(frames >= 180_000 && words > 5_000, "{frames} frames, {words} words");
    println!("{words} words, {} commits forced, memory {most:?}", channel.stats().unwrap().forced_commits);
    for (before, after) in most[0].iter().zip(most[1]) {
        assert!(after < before + before / 8, "{most:?}");
    }
    assert!(channel.compact_lattice(false).unwrap().lattice.num_frames < 1200);
}
