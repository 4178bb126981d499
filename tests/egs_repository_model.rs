//! The repository under loom: every order in which a few threads can run, up to a number of preemptions. A lost
//! wake-up would show as threads that all wait, which loom reports.

#[path = "../src/egs/repository.rs"]
#[allow(dead_code)]
mod repository;

/// What `repository` uses in place of the standard library's.
mod sync {
    pub use loom::sync::{Condvar, Mutex, MutexGuard};
}

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use repository::{Refusal, Repository};

fn model(body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(body);
}

/// Fetches until the end.
fn fetch(repository: &Repository<u32>, most: usize) -> Vec<u32> {
    let mut all = Vec::new();
    loop {
        let batch = repository.provide(most).unwrap();
        if batch.is_empty() {
            return all;
        }
        all.extend(batch);
    }
}

/// Two who bring, two who fetch, room for one: the last who brings says that it was the last.
#[test]
fn two_bring_and_two_fetch() {
    model(|| {
        let repository = Arc::new(Repository::new(1));
        let working = Arc::new(AtomicUsize::new(2));
        let producers = [10, 20].map(|thing| {
            let (repository, working) = (repository.clone(), working.clone());
            thread::spawn(move || {
                repository.accept(&mut vec![thing]).unwrap();
                if working.fetch_sub(1, Ordering::AcqRel) == 1 {
                    repository.done();
                }
            })
        });
        let other = repository.clone();
        let consumer = thread::spawn(move || fetch(&other, 1));
        let mut all = fetch(&repository, 1);
        all.extend(consumer.join().unwrap());
        producers.into_iter().for_each(|producer| producer.join().unwrap());
        all.sort_unstable();
        assert_eq!(all, [10, 20]);
    });
}

/// Batches of two with no room for more than one of them, which two threads fetch one by one.
#[test]
fn batches_are_split() {
    model(|| {
        let repository = Arc::new(Repository::new(0));
        let other = repository.clone();
        let producer = thread::spawn(move || {
            other.accept(&mut vec![1, 2]).unwrap();
            other.accept(&mut vec![3]).unwrap();
            other.done();
        });
        let other = repository.clone();
        let consumer = thread::spawn(move || fetch(&other, 1));
        let mine = fetch(&repository, 1);
        let theirs = consumer.join().unwrap();
        producer.join().unwrap();
        assert!(mine.is_sorted() && theirs.is_sorted());
        let mut all = [mine, theirs].concat();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3]);
    });
}

/// Whoever waits when all is cancelled is told, on either side.
#[test]
fn cancelling_wakes_all() {
    model(|| {
        let repository = Arc::new(Repository::new(1));
        let other = repository.clone();
        let producer = thread::spawn(move || {
            let mut batch = vec![1];
            let first = other.accept(&mut batch);
            (first, other.accept(&mut vec![2]), batch.len())
        });
        let other = repository.clone();
        let consumer = thread::spawn(move || other.provide(1));
        repository.cancel();
        let (first, second, left) = producer.join().unwrap();
        // Without anyone who fetches, both could not be accepted.
        assert_eq!(first.is_err(), left == 1);
        assert!(first != Err(Refusal::Done) && second != Err(Refusal::Done));
        match consumer.join().unwrap() {
            Ok(batch) => assert!(batch == [1] || batch == [2]),
            Err(refusal) => assert_eq!(refusal, Refusal::Cancelled),
        }
        assert_eq!(repository.accept(&mut vec![3]), Err(Refusal::Cancelled));
    });
}
