//! The memory cap of determinization, with an allocator that counts. A test binary of its own:
//! the count is of the whole process.

#[path = "support/shared.rs"]
mod shared;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use koshi::lattice::{
    DeterminizeConfig, Determinizer, LatticeArc, LatticeWeight, PartsBuilder, RawLattice, RawLatticeHolder,
};
use koshi::table::{Input, SequentialReader, Transitions};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
    // The default `realloc` allocates, copies and frees: both blocks count.
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most bytes held at a time while `work` ran, above those before, and allocations.
fn peak<T>(work: impl FnOnce() -> T) -> (usize, usize, T) {
    let (before, calls) = (HELD.load(Ordering::Relaxed), CALLS.load(Ordering::Relaxed));
    MOST.store(before, Ordering::Relaxed);
    let result = work();
    (MOST.load(Ordering::Relaxed) - before, CALLS.load(Ordering::Relaxed) - calls, result)
}

/// Frames of words side by side.
fn dense(frames: u32, words: i32) -> RawLattice {
    let mut builder = PartsBuilder::default();
    builder.set_start(0);
    let mut seed = 9u32;
    for frame in 0..frames {
        for word in 1..=words {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let weight = LatticeWeight { graph: (seed >> 20) as f32 / 1024.0, acoustic: 1.0 };
            let arc = LatticeArc { next: frame + 1, ilabel: word, olabel: word, weight };
            builder.add_arc(frame, arc, &[]).unwrap();
        }
    }
    builder.set_final(frames, LatticeWeight::ONE, &[]).unwrap();
    RawLattice::from_parts(builder.finish(false).unwrap()).unwrap()
}

/// Raw lattices of real speech at caps that suffice and caps that do not.
fn caps_hold() {
    let (Some(archive), Some(model)) = (
        shared::shared("realdata/prompts/kaldi/wide.raw-lattice.txt.gz"),
        shared::shared("realdata/prompts/trans.mdl"),
    ) else {
        return;
    };
    let transitions = Transitions::read_file(model.to_str().unwrap()).unwrap();
    let mut reader =
        SequentialReader::<RawLatticeHolder>::from_archive(Input::from_bytes("archive", shared::read(&archive)));
    let mut lattices = Vec::new();
    while let Some(entry) = reader.next().unwrap() {
        lattices.push(entry);
    }
    let scale = 0.066_666_7;
    for (max_mem, bound) in [(1_000_000, 3_000_000), (100_000, 2_000_000), (1_000, 2_000_000)] {
        let config = DeterminizeConfig { beam: 10.0, acoustic_scale: scale, max_mem, ..DeterminizeConfig::default() };
        let (mut most, mut partial) = (0, 0);
        for (key, lattice) in &lattices {
            let (bytes, _, found) = peak(|| lattice.determinize(Some(&transitions), &config).unwrap());
            let (best, kept) = (lattice.best_path(scale).unwrap(), found.lattice.best_path(scale).unwrap());
            assert_eq!((best.olabels, best.ilabels), (kept.olabels, kept.ilabels), "{key} at {max_mem}");
            assert!((0.0..=10.0).contains(&found.effective_beam));
            partial += usize::from(found.effective_beam < 10.0);
            most = most.max(bytes);
        }
        println!("cap {max_mem}: at most {most} bytes held, {partial} of {} lattices narrower", lattices.len());
        assert!(most < bound, "cap {max_mem}: {most} bytes");
        assert_eq!(partial > 0, max_mem < 1_000_000, "cap {max_mem}");
    }
}

/// A second utterance in the same memory asks for nothing but its result.
fn a_determinizer_keeps_its_memory() {
    let lattice = dense(60, 8);
    let config = DeterminizeConfig::default();
    let mut work = Determinizer::default();
    let (_, first, _) = peak(|| work.determinize(&lattice, None, &config).unwrap());
    let (_, second, _) = peak(|| work.determinize(&lattice, None, &config).unwrap());
    println!("{first} allocations, then {second}");
    assert!(second < 60 && second * 2 < first, "{second} allocations after {first}");
}

/// One test: another beside it would be counted too.
#[test]
fn memory() {
    a_determinizer_keeps_its_memory();
    caps_hold();
}
