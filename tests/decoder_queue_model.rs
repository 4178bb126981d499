//! The queue of a channel, the list of ready ones and that of those to be told under loom: every order in which a few
//! threads can run, up to a number of preemptions. A lost wake-up would show as threads that all wait, which loom reports.

#[path = "../src/decoder/queue.rs"]
#[allow(dead_code)]
mod queue;
#[path = "../src/decoder/ready.rs"]
#[allow(dead_code)]
mod ready;

/// What both use in place of the standard library's.
mod sync {
    pub use loom::sync::{Condvar, Mutex, MutexGuard};
}

use std::time::Duration;

use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use queue::{End, Finish, Next, Noticed, Pending, Purpose, Queue, Refusal, Telling, Waited, Wake};
use ready::Ready;

#[derive(Debug, Default)]
struct Rows(Vec<u32>);

impl Pending for Rows {
    fn frames(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a listener is told.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    /// How many rows were searched by then.
    Partial(usize),
    Endpoint(usize),
    End(End<&'static str>),
}

/// A row at which there is an end point.
const ENDPOINT: u32 = 1000;

/// A channel and the threads of its decoder. Rows are numbers, and are searched one by one; each changes the words.
struct Model {
    queue: Queue<Rows, &'static str>,
    ready: Ready<()>,
    to_tell: Ready<()>,
    searched: Mutex<Vec<u32>>,
    /// With their utterances.
    told: Mutex<Vec<(u64, Event)>>,
    /// Who is inside: 1 a reader, 100 a writer or a search.
    inside: AtomicUsize,
    /// Whether the listener is being told, which no search may see.
    telling: AtomicUsize,
    /// Whether the listener looks at the channel from inside.
    curious: bool,
}

impl Model {
    fn wake(&self, wake: Wake) {
        if wake != Wake::No {
            self.ready.put((), wake == Wake::Front);
        }
    }

    fn follow(&self, next: Next) {
        self.wake(next.search);
        if next.tell {
            self.to_tell.put((), false);
        }
    }

    fn submit(&self, row: u32) -> Result<(), Refusal<&'static str>> {
        let append = |rows: &mut Rows| {
            rows.0.push(row);
            Ok::<(), ()>(())
        };
        self.queue.submit(1, 9, append).map(|wake| self.wake(wake.unwrap()))
    }

    fn finish(&self) {
        match self.queue.finish(true, false) {
            Ok(Finish::Queued(wake)) => self.wake(wake),
            other => assert!(matches!(other, Err(Refusal::NotBegun)), "{other:?}"),
        }
    }

    /// A caller's turn, with nobody else's; `false` if another caller is in the way.
    fn turn(&self, purpose: Purpose, body: impl FnOnce()) -> bool {
        if !self.queue.enter(purpose, true) {
            return false;
        }
        let weight = if purpose == Purpose::Look { 1 } else { 100 };
        let others = self.inside.fetch_add(weight, Ordering::SeqCst);
        assert!(others < 100 && (weight == 1 || others == 0), "two at once");
        body();
        self.inside.fetch_sub(weight, Ordering::SeqCst);
        self.wake(self.queue.leave(purpose));
        true
    }

    fn begin(&self) {
        self.queue.begin();
        open(&self.queue);
    }

    /// What a thread that searches does until it is stopped.
    fn search(&self) {
        let mut taken = Vec::new();
        while self.ready.take(1, Duration::ZERO, &mut taken) {
            taken.clear();
            let Some(mut claim) = self.queue.claim() else { continue };
            assert_eq!(self.inside.fetch_add(100, Ordering::SeqCst), 0, "two at once");
            assert_eq!(self.telling.load(Ordering::SeqCst), 0, "searched while it is told");
            let mut noticed = None;
            if claim.rows.frames() > 0 {
                let row = claim.rows.0.remove(0);
                self.searched.lock().unwrap().push(row);
                noticed = Some(Noticed { partial: true, endpoint: row == ENDPOINT });
            }
            let finished = claim.rows.frames() == 0 && self.queue.ends(false);
            self.inside.fetch_sub(100, Ordering::SeqCst);
            self.follow(self.queue.searched(claim.rows, false, Ok(finished), noticed, true));
        }
    }

    /// What the thread that tells does.
    fn tell(&self) {
        let mut taken = Vec::new();
        while self.to_tell.take(1, Duration::ZERO, &mut taken) {
            taken.clear();
            let Some(Telling { noticed, utterance }) = self.queue.tell() else { continue };
            self.telling.fetch_add(1, Ordering::SeqCst);
            if self.curious {
                self.turn(Purpose::Look, || {});
            }
            let tell = |event| self.told.lock().unwrap().push((utterance, event));
            let rows = || self.searched.lock().unwrap().len();
            if noticed.partial && self.queue.is_current(utterance) {
                tell(Event::Partial(rows()));
            }
            if noticed.endpoint && self.queue.is_current(utterance) {
                tell(Event::Endpoint(rows()));
            }
            if let Some(end) = self.queue.end_to_tell(utterance) {
                tell(Event::End(end));
            }
            self.telling.fetch_sub(1, Ordering::SeqCst);
            self.follow(self.queue.told());
        }
    }
}

/// Runs `body` beside a thread that searches and one that tells in every order of the threads, with at most
/// `preemptions` in each.
fn model(preemptions: usize, body: impl Fn(&Arc<Model>) + Sync + Send + 'static) {
    model_of(preemptions, false, body);
}

fn model_of(preemptions: usize, curious: bool, body: impl Fn(&Arc<Model>) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let model = Arc::new(Model {
            queue: Queue::default(),
            ready: Ready::default(),
            to_tell: Ready::default(),
            searched: Mutex::new(Vec::new()),
            told: Mutex::new(Vec::new()),
            inside: AtomicUsize::new(0),
            telling: AtomicUsize::new(0),
            curious,
        });
        assert!(model.ready.add_seat() && model.to_tell.add_seat());
        model.begin();
        let (searches, tells) = (model.clone(), model.clone());
        let searching = thread::spawn(move || searches.search());
        let telling = thread::spawn(move || tells.tell());
        body(&model);
        model.ready.stop();
        searching.join().unwrap();
        model.to_tell.stop();
        telling.join().unwrap();
    });
}

fn searched(model: &Model) -> Vec<u32> {
    model.searched.lock().unwrap().clone()
}

/// The ends that were told, with their utterances: each behind all that was told of its utterance, and
/// utterances in order.
fn told(model: &Model) -> Vec<(u64, End<&'static str>)> {
    let all = model.told.lock().unwrap().clone();
    assert!(all.is_sorted_by_key(|(utterance, _)| *utterance), "{all:?}");
    for (at, (utterance, event)) in all.iter().enumerate() {
        let last = all.get(at + 1).is_none_or(|(next, _)| next != utterance);
        assert!(last || !matches!(event, Event::End(_)), "{all:?}");
    }
    all.into_iter()
        .filter_map(|(utterance, event)| if let Event::End(end) = event { Some((utterance, end)) } else { None })
        .collect()
}

/// Rows are searched in order, once each, and the end is told once, before the wait is over.
#[test]
fn rows_then_the_end() {
    model(3, |model| {
        model.submit(1).unwrap();
        model.submit(2).unwrap();
        model.finish();
        assert_eq!(model.submit(3), Err(Refusal::Finished));
        assert_eq!(model.queue.wait(None), Waited::Done);
        assert_eq!((searched(model), told(model)), (vec![1, 2], vec![(1, End::Finished)]));
    });
}

/// Two threads submit: each one's rows keep their order.
#[test]
fn two_submit() {
    model(2, |model| {
        let other = model.clone();
        let thread = thread::spawn(move || {
            other.submit(10).unwrap();
            other.submit(11).unwrap();
        });
        model.submit(1).unwrap();
        thread.join().unwrap();
        assert_eq!(model.queue.wait(None), Waited::Done);
        let all = searched(model);
        assert_eq!(all.len(), 3);
        assert!(all.iter().position(|row| *row == 10) < all.iter().position(|row| *row == 11));
    });
}

/// A caller that changes the channel, or looks at it, is alone with it, and no row is left behind.
#[test]
fn callers_take_turns_with_the_scheduler() {
    for purpose in [Purpose::Change, Purpose::Look] {
        model(2, move |model| {
            let other = model.clone();
            let thread = thread::spawn(move || {
                assert!(other.turn(purpose, || {}));
                other.turn(purpose, || {})
            });
            model.submit(1).unwrap();
            model.submit(2).unwrap();
            let waited = model.queue.wait(None);
            assert!(thread.join().unwrap());
            assert_eq!(waited, Waited::Done);
            assert_eq!(searched(model), [1, 2]);
        });
    }
}

/// Rows that a caller searches itself never pass those that are queued.
#[test]
fn a_push_never_passes_the_queue() {
    model(3, |model| {
        let other = model.clone();
        let thread = thread::spawn(move || other.submit(1).unwrap());
        let pushed = model.turn(Purpose::Search, || model.searched.lock().unwrap().push(7));
        thread.join().unwrap();
        assert_eq!(model.queue.wait(None), Waited::Done);
        let all = searched(model);
        assert!(if pushed { all == [7, 1] || all == [1, 7] } else { all == [1] }, "{all:?}");
    });
}

/// A cancel ends the utterance, once: with the wait over, nothing more is searched or told.
#[test]
fn cancel_at_any_moment() {
    model(2, |model| {
        let other = model.clone();
        let thread = thread::spawn(move || {
            let (cancelled, next) = other.queue.cancel("cancelled", true, || ());
            other.follow(next);
            cancelled
        });
        model.submit(1).ok();
        model.finish_if_open();
        let waited = model.queue.wait(None);
        let cancelled = thread.join().unwrap();
        let after = model.queue.wait(None);
        let end = if cancelled { End::Failed("cancelled") } else { End::Finished };
        assert_eq!(told(model), [(1, end)]);
        assert_eq!(after, if cancelled { Waited::Failed("cancelled") } else { Waited::Done });
        assert!(waited == after || waited == Waited::Done, "{waited:?}");
        assert!(cancelled || searched(model) == [1]);
    });
}

/// Whoever sees that an utterance is to stop, finds it ended; and one that begins meanwhile is cancelled altogether or not
/// at all.
#[test]
fn what_is_told_to_stop_has_ended() {
    alone(|| {
        let (queue, stop) = (Arc::new(open_queue()), Arc::new(AtomicBool::new(false)));
        let other = (queue.clone(), stop.clone());
        let thread = thread::spawn(move || {
            let (queue, stop) = other;
            let (cancelled, next) = queue.cancel("cancelled", false, || stop.store(true, Ordering::Relaxed));
            assert_eq!(next, Next::NOTHING);
            cancelled
        });
        if stop.load(Ordering::Relaxed) {
            assert_eq!(queue.wait(None), Waited::Failed("cancelled"));
        }
        queue.begin();
        stop.store(false, Ordering::Relaxed);
        let stopped = || stop.load(Ordering::Relaxed).then_some("cancelled");
        let (ended_at_once, _) = queue.open(false, stopped);
        let cancelled = thread.join().unwrap();
        let ended = queue.wait(None) == Waited::Failed("cancelled");
        assert_eq!(ended, stop.load(Ordering::Relaxed));
        assert!(!ended_at_once || ended && !cancelled, "it is counted once");
    });
}

#[test]
fn what_is_freed_while_it_begins_counts_as_freed() {
    alone(|| {
        let queue = Queue::<Rows, &'static str>::default();
        queue.begin();
        assert!(!queue.close());
        assert_eq!(queue.open(true, || Some("cancelled")), (false, Next::NOTHING));
        assert_eq!(queue.wait(None), Waited::Closed);
    });
}

impl Model {
    fn finish_if_open(&self) {
        match self.queue.finish(true, false) {
            Ok(Finish::Queued(wake)) => self.wake(wake),
            Ok(Finish::Now) => {}
            Err(refusal) => panic!("{refusal:?}"),
        }
    }
}

/// Who waits when the channel is freed is told, and nothing is searched afterwards.
#[test]
fn freed_at_any_moment() {
    model(2, |model| {
        let other = model.clone();
        let thread = thread::spawn(move || other.queue.wait(None));
        model.submit(1).unwrap();
        model.queue.close();
        assert_eq!(model.submit(2), Err(Refusal::Closed));
        let waited = thread.join().unwrap();
        assert!(matches!(waited, Waited::Closed | Waited::Done), "{waited:?}");
        assert_eq!(model.queue.wait(None), Waited::Closed);
        assert!(told(model).is_empty());
    });
}

/// A channel that is freed while it stands on the list keeps nobody out who is inside a call still.
#[test]
fn freed_while_others_look() {
    model(3, |model| {
        let other = model.clone();
        let thread = thread::spawn(move || (0..2).for_each(|_| assert!(other.turn(Purpose::Look, || {}))));
        model.submit(1).unwrap();
        model.queue.close();
        model.ready.remove(|()| true);
        thread.join().unwrap();
    });
}

/// An utterance that is begun over is forgotten: of its rows nothing is searched after the begin, and its end is told
/// only if that was on its way.
#[test]
fn begun_over_at_any_moment() {
    model(2, |model| {
        model.submit(1).unwrap();
        model.finish();
        let begun = model.turn(Purpose::Change, || {
            model.queue.begin();
            model.searched.lock().unwrap().clear();
            open(&model.queue);
        });
        assert!(begun);
        model.submit(2).unwrap();
        model.finish();
        assert_eq!(model.queue.wait(None), Waited::Done);
        assert_eq!(searched(model), [2]);
        let ends = told(model);
        assert!(ends == [(2, End::Finished)] || ends == [(1, End::Finished), (2, End::Finished)], "{ends:?}");
    });
}

/// New words are told before the wait is over, once or more often, the last time behind all rows; an end point as soon as
/// it is found, before a row behind it is searched.
#[test]
fn new_words_and_end_points_are_told() {
    model_of(2, true, |model| {
        model.submit(1).unwrap();
        model.submit(ENDPOINT).unwrap();
        model.submit(3).unwrap();
        assert_eq!(model.queue.wait(None), Waited::Done);
        assert_eq!(searched(model), [1, ENDPOINT, 3]);
        let told: Vec<Event> = model.told.lock().unwrap().iter().map(|(_, event)| event.clone()).collect();
        let (one, two, three) = (Event::Partial(1), Event::Partial(2), Event::Partial(3));
        let rest = [two, Event::Endpoint(2), three];
        assert!(told == rest || told.len() == 4 && told[0] == one && told[1..] == rest, "{told:?}");
    });
}

/// A listener that looks at its channel, beside a caller that changes it: nobody waits for ever, and nothing is left
/// untold.
#[test]
fn a_curious_listener_beside_a_caller() {
    model_of(2, true, |model| {
        let other = model.clone();
        let thread = thread::spawn(move || other.turn(Purpose::Change, || {}));
        model.submit(1).unwrap();
        model.submit(2).unwrap();
        let waited = model.queue.wait(None);
        thread.join().unwrap();
        assert_eq!(waited, Waited::Done);
        assert_eq!(searched(model), [1, 2]);
        assert_eq!(model.told.lock().unwrap().last(), Some(&(1, Event::Partial(2))));
    });
}

/// One thread alone, step by step.
fn alone(body: impl Fn() + Sync + Send + 'static) {
    loom::model(body);
}

/// Opens an utterance that nobody has cancelled.
fn open(queue: &Queue<Rows, &'static str>) {
    assert_eq!(queue.open(true, || None), (false, Next::NOTHING));
}

/// A queue with an utterance that has begun.
fn open_queue() -> Queue<Rows, &'static str> {
    let queue = Queue::default();
    queue.begin();
    open(&queue);
    queue
}

fn put(queue: &Queue<Rows, &'static str>, row: u32, most: usize) -> Result<Wake, Refusal<&'static str>> {
    let append = |rows: &mut Rows| {
        rows.0.push(row);
        Ok::<(), ()>(())
    };
    queue.submit(1, most, append).map(Result::unwrap)
}

#[test]
fn lists_are_in_order() {
    alone(|| {
        let list = Ready::default();
        (0..5).for_each(|_| assert!(list.add_seat()));
        (1..=3).for_each(|thing| list.put(thing, false));
        list.put(0, true);
        list.put(9, false);
        list.remove(|thing| *thing == 2);
        let mut taken = Vec::new();
        assert!(list.take(2, Duration::ZERO, &mut taken));
        assert_eq!(taken, [0, 1]);
        assert!(list.take(9, Duration::ZERO, &mut taken));
        assert_eq!(taken, [0, 1, 3, 9]);
        list.stop();
        assert!(!list.take(9, Duration::ZERO, &mut taken));
    });
}

/// Rows count until they are searched, so that never more are held than may be.
#[test]
fn rows_that_are_being_searched_count() {
    alone(|| {
        let queue = open_queue();
        assert_eq!((put(&queue, 1, 2), put(&queue, 2, 2)), (Ok(Wake::Back), Ok(Wake::No)));
        let mut claim = queue.claim().unwrap();
        assert_eq!((claim.rows.frames(), queue.queued()), (2, 2));
        assert_eq!(put(&queue, 3, 2), Err(Refusal::Full { queued: 2 }));
        claim.rows.0.remove(0);
        assert_eq!(queue.searched(claim.rows, false, Ok(false), None, true), Next { search: Wake::Back, tell: false });
        assert_eq!((put(&queue, 3, 2), queue.queued()), (Ok(Wake::No), 2));
    });
}

/// Rows that come between a finish's two steps are searched before it.
#[test]
fn a_finish_of_its_own_comes_behind_rows_that_came_meanwhile() {
    alone(|| {
        let queue = open_queue();
        assert_eq!(queue.finish(false, false), Ok(Finish::Now));
        assert_eq!(put(&queue, 1, 9), Ok(Wake::Back));
        assert!(!queue.finish_now());
        assert_eq!(queue.finish(false, false), Ok(Finish::Queued(Wake::No)));
    });
}

/// What was noticed of an utterance and not told is not told of the next one.
#[test]
fn news_are_of_their_own_utterance() {
    alone(|| {
        for finished in [false, true] {
            let queue = open_queue();
            assert_eq!(put(&queue, 1, 9), Ok(Wake::Back));
            let mut claim = queue.claim().unwrap();
            claim.rows.clear();
            let noticed = Some(Noticed { partial: true, endpoint: true });
            let next = queue.searched(claim.rows, false, Ok(finished), noticed, true);
            assert_eq!(next, Next { search: Wake::No, tell: true });
            assert!(queue.enter(Purpose::Change, true));
            queue.begin();
            open(&queue);
            assert_eq!(queue.leave(Purpose::Change), Wake::No);
            assert_eq!(queue.wait(None), Waited::Done);
            assert_eq!(queue.tell(), None);
        }
    });
}

/// A channel that is freed while it is to be told is told nothing more.
#[test]
fn nothing_is_told_behind_a_close() {
    alone(|| {
        let queue = open_queue();
        assert_eq!(put(&queue, 1, 9), Ok(Wake::Back));
        let mut claim = queue.claim().unwrap();
        claim.rows.clear();
        let noticed = Some(Noticed { partial: true, endpoint: true });
        let next = queue.searched(claim.rows, false, Ok(true), noticed, true);
        assert!(next.tell);
        let telling = queue.tell().unwrap();
        assert!(queue.is_current(telling.utterance));
        queue.close();
        assert!(!queue.is_current(telling.utterance));
        assert_eq!(queue.end_to_tell(telling.utterance), None);
        assert_eq!(queue.told(), Next::NOTHING);
        assert_eq!(queue.tell(), None);
    });
}
