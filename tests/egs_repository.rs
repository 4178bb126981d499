//! The repository on real threads: everything arrives, once, and nobody waits for what will not come.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use koshi::egs::{ExamplesRepository, Labels, NnetExample, Refusal, Repository};

/// An example that can be told from others.
fn example(number: usize) -> NnetExample {
    let labels = Labels::simple(&[(number % 1000) as i32, (number / 1000) as i32]).unwrap();
    NnetExample { labels, left_context: 7, ..NnetExample::default() }
}

fn number(example: &NnetExample) -> usize {
    let pdf = |frame| example.label(frame).unwrap().pdf as usize;
    pdf(1) * 1000 + pdf(0)
}

/// Sends `total` examples from 4 threads to 4 others in batches of many sizes.
fn exchange(total: usize, capacity: usize) {
    const THREADS: usize = 4;
    let repository = ExamplesRepository::new(capacity);
    let seen: Vec<AtomicU32> = (0..total).map(|_| AtomicU32::new(0)).collect();
    let working = AtomicUsize::new(THREADS);
    thread::scope(|scope| {
        for producer in 0..THREADS {
            let (repository, working) = (&repository, &working);
            scope.spawn(move || {
                let mut mine = (producer..total).step_by(THREADS).peekable();
                let mut size = 1 + producer;
                while mine.peek().is_some() {
                    let mut batch: Vec<NnetExample> = mine.by_ref().take(size).map(example).collect();
                    repository.accept(&mut batch).unwrap();
                    assert!(batch.is_empty());
                    size = 1 + size * 7 % 61;
                }
                if working.fetch_sub(1, Ordering::AcqRel) == 1 {
                    repository.done();
                }
            });
        }
        for consumer in 0..THREADS {
            let (repository, seen) = (&repository, &seen);
            scope.spawn(move || {
                let mut most = 1 + consumer;
                loop {
                    let batch = repository.provide(most).unwrap();
                    assert!(batch.len() <= most);
                    if batch.is_empty() {
                        break;
                    }
                    for example in &batch {
                        assert_eq!(example.left_context, 7);
                        seen[number(example)].fetch_add(1, Ordering::Relaxed);
                    }
                    most = 1 + most * 5 % 53;
                }
            });
        }
    });
    let wrong = seen.iter().position(|count| count.load(Ordering::Relaxed) != 1);
    assert_eq!(wrong, None, "of {total} with capacity {capacity}");
    assert!(repository.provide(1).unwrap().is_empty());
}

#[test]
fn a_million_examples_arrive_once_each() {
    exchange(1_000_000, 256);
}

#[test]
fn however_little_room_there_is() {
    for capacity in [0, 1, 2, 17] {
        exchange(20_000, capacity);
    }
}

#[test]
fn order_is_kept_and_batches_may_be_split() {
    let repository = Repository::<i32>::new(3);
    repository.accept(&mut vec![1, 2, 3, 4, 5]).unwrap();
    assert_eq!(repository.provide(2).unwrap(), [1, 2]);
    assert_eq!(repository.provide(0).unwrap(), [3], "at least one");
    repository.accept(&mut vec![6]).unwrap();
    assert_eq!(repository.provide(usize::MAX).unwrap(), [4, 5, 6]);
    repository.accept(&mut vec![]).unwrap();
    repository.accept(&mut vec![7]).unwrap();
    repository.done();
    let mut late = vec![8];
    assert_eq!(repository.accept(&mut late), Err(Refusal::Done));
    assert_eq!(late, [8], "what was refused stays");
    assert_eq!(repository.provide(9).unwrap(), [7]);
    assert!(repository.provide(9).unwrap().is_empty());
    assert!(repository.provide(9).unwrap().is_empty());
}

/// Runs `body` on a thread; gives whether it had ended before `meanwhile` had run, and what it gave.
fn beside<R: Send>(body: impl FnOnce() -> R + Send, meanwhile: impl FnOnce()) -> (bool, R) {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let result = body();
            ended.store(true, Ordering::Release);
            result
        });
        thread::sleep(Duration::from_millis(50));
        let early = ended.load(Ordering::Acquire);
        meanwhile();
        (early, thread.join().unwrap())
    })
}

#[test]
fn who_brings_waits_for_room() {
    let repository = Repository::new(2);
    repository.accept(&mut vec![1, 2]).unwrap();
    let (early, result) = beside(|| repository.accept(&mut vec![3]), || assert_eq!(repository.provide(1), Ok(vec![1])));
    assert_eq!((early, result), (false, Ok(())));
    assert_eq!(repository.provide(9), Ok(vec![2, 3]));
}

#[test]
fn a_large_batch_is_not_passed_by_small_ones() {
    let repository = Repository::new(3);
    repository.accept(&mut vec![1]).unwrap();
    thread::scope(|scope| {
        let waiting = |count| {
            while repository.waiting() < count {
                thread::yield_now()
            }
        };
        scope.spawn(|| repository.accept(&mut vec![2, 3, 4]).unwrap());
        waiting(1);
        scope.spawn(|| repository.accept(&mut vec![5]).unwrap());
        waiting(2);
        assert_eq!(repository.provide(9), Ok(vec![1]), "5 would fit, but came later");
        assert_eq!(repository.provide(9), Ok(vec![2, 3, 4]));
        assert_eq!(repository.provide(9), Ok(vec![5]));
    });
}

/// Two who wait for one thing each, and one batch for both: none may be left asleep beside what is there.
#[test]
fn a_batch_wakes_all_who_can_have_a_part() {
    let repository = Repository::new(2);
    let fetched = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| fetched.fetch_add(repository.provide(1).map_or(0, |things| things.len()), Ordering::AcqRel));
        }
        thread::sleep(Duration::from_millis(50));
        repository.accept(&mut vec![1, 2]).unwrap();
        let begun = Instant::now();
        while fetched.load(Ordering::Acquire) < 2 && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        // So that a sleeper ends the test as well.
        repository.cancel();
    });
    assert_eq!(fetched.load(Ordering::Acquire), 2);
}

/// The same of room: what was fetched at once makes room for two, who come in one after the other.
#[test]
fn room_for_two_wakes_two() {
    let repository = Repository::new(2);
    repository.accept(&mut vec![1, 2]).unwrap();
    let brought = AtomicUsize::new(0);
    thread::scope(|scope| {
        for thing in [3, 4] {
            let (repository, brought) = (&repository, &brought);
            scope.spawn(move || {
                brought.fetch_add(usize::from(repository.accept(&mut vec![thing]).is_ok()), Ordering::AcqRel)
            });
        }
        thread::sleep(Duration::from_millis(50));
        assert_eq!(repository.provide(9), Ok(vec![1, 2]));
        let begun = Instant::now();
        while brought.load(Ordering::Acquire) < 2 && begun.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(1));
        }
        repository.cancel();
    });
    assert_eq!(brought.load(Ordering::Acquire), 2);
}

#[test]
fn who_fetches_waits_for_something_or_the_end() {
    let repository = Repository::new(2);
    let (early, result) = beside(|| repository.provide(5), || repository.accept(&mut vec![1]).unwrap());
    assert_eq!((early, result), (false, Ok(vec![1])));
    let (early, result) = beside(|| repository.provide(5), || repository.done());
    assert_eq!((early, result), (false, Ok(vec![])));
}

#[test]
fn all_who_wait_are_told_of_the_end() {
    let empty = Repository::<u32>::new(1);
    let full = Repository::new(1);
    full.accept(&mut vec![0]).unwrap();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(empty.provide(1), Err(Refusal::Cancelled)));
            scope.spawn(|| assert_eq!(full.accept(&mut vec![1]), Err(Refusal::Done)));
        }
        thread::sleep(Duration::from_millis(50));
        empty.cancel();
        full.done();
    });
    assert_eq!(full.provide(9), Ok(vec![0]));
    assert_eq!(empty.accept(&mut vec![1]), Err(Refusal::Cancelled));
    let dropped = std::sync::Arc::new(());
    let held = Repository::new(1);
    held.accept(&mut vec![dropped.clone()]).unwrap();
    held.cancel();
    assert_eq!(std::sync::Arc::strong_count(&dropped), 1, "what nobody fetched is dropped");
}
