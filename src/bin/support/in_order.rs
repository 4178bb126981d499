//! Work on several threads whose results are taken in the order of the items.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use koshi::{Error, Result};

/// Items of each thread that may be read and not yet finished: one in work and one to follow.
const IN_FLIGHT: usize = 2;

/// Takes items from `next` until it gives `None`, works on them on `num_threads` threads, and
/// hands the results to `finish` in the order of the items. `next` and `finish` run on the
/// calling thread; with one thread everything does. At most `2 * num_threads` items are
/// between `next` and `finish` at any time, so memory is bounded.
///
/// `worker` makes each thread's own state. An error of `next` ends the work after all items
/// before it are finished; an error of `finish` ends it at once.
pub fn in_order<I: Send, R: Send, W: FnMut(I) -> R>(
    num_threads: usize,
    mut next: impl FnMut() -> Result<Option<I>>,
    worker: impl Fn() -> W + Sync,
    mut finish: impl FnMut(R) -> Result<()>,
) -> Result<()> {
    if num_threads <= 1 {
        let mut work = worker();
        while let Some(item) = next()? {
            finish(work(item))?;
        }
        return Ok(());
    }
    let (items, waiting) = channel::<(u64, I)>();
    let waiting = Mutex::new(waiting);
    let (results, done) = channel();
    thread::scope(|scope| {
        // Gone when this closure ends, however it ends: that is what ends the threads.
        let items = items;
        for number in 0..num_threads {
            let (waiting, worker, results) = (&waiting, &worker, results.clone());
            let run = move || serve(waiting, worker, |index, result| results.send((index, result)).is_ok());
            let started = thread::Builder::new().name(format!("koshi-{number}")).spawn_scoped(scope, run);
            started.map_err(|error| Error::io(format!("starting thread {} of {num_threads}", number + 1), error))?;
        }
        drop(results);
        let mut line = Line { early: BTreeMap::new(), taken: 0, given: 0 };
        let mut ended = Ok(());
        let mut more = true;
        loop {
            while more && line.given - line.taken < (IN_FLIGHT * num_threads) as u64 {
                match next() {
                    Ok(Some(item)) => {
                        // Workers live as long as `items`; a failed send shows as a missing result below.
                        let _ = items.send((line.given, item));
                        line.given += 1;
                    }
                    other => {
                        ended = other.map(|_| ());
                        more = false;
                    }
                }
            }
            match line.take(&done)? {
                Some(result) => finish(result)?,
                None => return ended,
            }
        }
    })
}

/// A thread's life: items until there are no more, or nobody wants results.
fn serve<I, R, W: FnMut(I) -> R>(
    waiting: &Mutex<Receiver<(u64, I)>>,
    worker: &impl Fn() -> W,
    give: impl Fn(u64, thread::Result<R>) -> bool,
) {
    let mut work = None;
    loop {
        let item = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((index, item)) = item else { return };
        // A panic goes on where the results are taken; silently lost, it would stop the line.
        let result = catch_unwind(AssertUnwindSafe(|| work.get_or_insert_with(worker)(item)));
        if !give(index, result) {
            return;
        }
    }
}

/// Results on their way into order.
struct Line<R> {
    /// Those that came before their turn.
    early: BTreeMap<u64, R>,
    taken: u64,
    given: u64,
}

impl<R> Line<R> {
    /// The next result in order; `None` when all are taken.
    fn take(&mut self, done: &Receiver<(u64, thread::Result<R>)>) -> Result<Option<R>> {
        if self.taken == self.given {
            return Ok(None);
        }
        while !self.early.contains_key(&self.taken) {
            let (index, result) = done.recv().map_err(|_| Error::Internal("the worker threads are gone".into()))?;
            self.early.insert(index, result.unwrap_or_else(|panic| resume_unwind(panic)));
        }
        let result = self.early.remove(&self.taken);
        self.taken += 1;
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// Slow where it hurts the order most.
    fn slow_square(n: u64) -> u64 {
        thread::sleep(Duration::from_micros(if n.is_multiple_of(7) { 3000 } else { 10 }));
        n * n
    }

    fn run(threads: usize, count: u64, fail_at: u64) -> (Vec<u64>, Result<()>, usize) {
        let (mut read, mut squares) = (0, Vec::new());
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let next = || {
            if read == fail_at {
                return Err(Error::Argument("broken input".into()));
            }
            read += 1;
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            Ok((read <= count).then_some(read))
        };
        let finish = |square| {
            inside.fetch_sub(1, Ordering::SeqCst);
            squares.push(square);
            Ok(())
        };
        let ended = in_order(threads, next, || slow_square, finish);
        (squares, ended, most.into_inner())
    }

    #[test]
    fn results_keep_the_order_and_memory_is_bounded() {
        let expected: Vec<u64> = (1..=100).map(|n| n * n).collect();
        for threads in [0, 1, 2, 5] {
            let (squares, ended, most) = run(threads, 100, u64::MAX);
            assert_eq!(squares, expected, "{threads} threads");
            assert!(ended.is_ok());
            assert!(most <= (IN_FLIGHT * threads).max(1) + 1, "{threads} threads: {most} in flight");
        }
    }

    #[test]
    fn what_came_before_a_broken_input_is_finished() {
        for threads in [1, 3] {
            let (squares, ended, _) = run(threads, 100, 20);
            assert_eq!(squares.len(), 20);
            assert!(ended.unwrap_err().to_string().contains("broken input"));
        }
    }

    #[test]
    fn an_error_of_finish_ends_all() {
        for threads in [1, 3] {
            let mut count = 0;
            let finish = |_| {
                count += 1;
                if count == 5 { Err(Error::Argument("disk full".into())) } else { Ok(()) }
            };
            let mut read = 0;
            let next = || {
                read += 1;
                Ok(Some(read))
            };
            assert!(in_order(threads, next, || slow_square, finish).is_err());
            assert_eq!(count, 5);
        }
    }

    #[test]
    fn a_panic_of_a_worker_is_not_lost() {
        let mut read = 0;
        let next = || {
            read += 1;
            Ok((read <= 50).then_some(read))
        };
        let work = || |n: u64| if n == 9 { std::panic::panic_any("nine") } else { n };
        let caught = catch_unwind(AssertUnwindSafe(|| in_order(3, next, work, |_| Ok(()))));
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "nine");
    }
}
