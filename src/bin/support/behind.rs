//! Work on a thread of its own, behind the calling thread, whose results are taken in order.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use koshi::{Error, Result};

/// Items that may wait for the thread or be in its hands.
const IN_FLIGHT: usize = 3;

/// Calls `feed` with a function that takes items. They are worked on one after another on
/// another thread, while the calling thread goes on; results are handed to `finish`, on the
/// calling thread, in the order of the items. At most [`IN_FLIGHT`] items are between the two.
///
/// What was fed is finished also where `feed` fails; an error of `finish` ends it at once.
pub fn behind<I: Send, R: Send>(
    mut work: impl FnMut(I) -> R + Send,
    finish: impl FnMut(R) -> Result<()>,
    feed: impl FnOnce(&mut dyn FnMut(I) -> Result<()>) -> Result<()>,
) -> Result<()> {
    let (items, waiting) = channel::<I>();
    let (results, done) = channel();
    thread::scope(|scope| {
        // Gone when this closure ends, however it ends: that is what ends the thread.
        let items = items;
        let run = move || {
            for item in waiting {
                // A panic goes on where the results are taken; silently lost, it would stop the line.
                let result = catch_unwind(AssertUnwindSafe(|| work(item)));
                let broken = result.is_err();
                if results.send(result).is_err() || broken {
                    return;
                }
            }
        };
        let started = thread::Builder::new().name("koshi-behind".into()).spawn_scoped(scope, run);
        started.map_err(|error| Error::io("starting a thread", error))?;
        let mut line = Line { done, finish, in_flight: 0, broken: false };
        let fed = feed(&mut |item| {
            // The thread lives as long as `items`; a failed send shows as a missing result.
            let _ = items.send(item);
            line.in_flight += 1;
            line.take(IN_FLIGHT)
        });
        drop(items);
        if line.broken { fed } else { line.take(0).and(fed) }
    })
}

/// Results on their way back.
struct Line<R, F> {
    done: Receiver<thread::Result<R>>,
    finish: F,
    in_flight: usize,
    /// Whether `finish` failed.
    broken: bool,
}

impl<R, F: FnMut(R) -> Result<()>> Line<R, F> {
    /// Finishes what is done, and waits until at most `most` items are in flight.
    fn take(&mut self, most: usize) -> Result<()> {
        while self.in_flight > 0 {
            let result = match self.done.try_recv() {
                Ok(result) => result,
                Err(_) if self.in_flight <= most => return Ok(()),
                Err(_) => self.done.recv().map_err(|_| Error::Internal("the thread behind is gone".into()))?,
            };
            self.in_flight -= 1;
            let finished = (self.finish)(result.unwrap_or_else(|panic| resume_unwind(panic)));
            self.broken = finished.is_err();
            finished?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn run(count: u64, fail_at: u64, break_at: u64) -> (Vec<u64>, Result<()>) {
        let mut squares = Vec::new();
        let work = |n: u64| {
            thread::sleep(Duration::from_micros(if n.is_multiple_of(5) { 2000 } else { 10 }));
            n * n
        };
        let finish = |square| {
            squares.push(square);
            if square == break_at * break_at { Err(Error::Argument("disk full".into())) } else { Ok(()) }
        };
        let ended = behind(work, finish, |give| {
            (1..=count).try_for_each(|n| match n == fail_at {
                true => Err(Error::Argument("broken input".into())),
                false => give(n),
            })
        });
        (squares, ended)
    }

    #[test]
    fn results_keep_the_order() {
        let (squares, ended) = run(50, u64::MAX, 1000);
        assert_eq!(squares, (1..=50).map(|n| n * n).collect::<Vec<u64>>());
        ended.unwrap();
    }

    #[test]
    fn what_came_before_a_broken_input_is_finished() {
        let (squares, ended) = run(50, 20, 1000);
        assert_eq!(squares.len(), 19);
        assert!(ended.unwrap_err().to_string().contains("broken input"));
    }

    #[test]
    fn an_error_of_finish_ends_all() {
        let (squares, ended) = run(50, u64::MAX, 5);
        assert_eq!(squares.len(), 5);
        assert!(ended.unwrap_err().to_string().contains("disk full"));
        // It comes first, though the input broke meanwhile.
        let (squares, ended) = run(50, 6, 5);
        assert_eq!(squares.len(), 5);
        assert!(ended.is_err());
    }

    #[test]
    fn a_panic_is_not_lost() {
        let work = |n: u64| if n == 9 { std::panic::panic_any("nine") } else { n };
        let feed = |give: &mut dyn FnMut(u64) -> Result<()>| (1..50).try_for_each(give);
        let caught = catch_unwind(AssertUnwindSafe(|| behind(work, |_| Ok(()), feed)));
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "nine");
    }
}
