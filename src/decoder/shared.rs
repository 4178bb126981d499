//! A channel that callers and the decoder's own threads share.
//!
//! The locks, in the order in which they may be taken; none is held while a callback runs:
//!
//! 1. `seated`, then the scheduler's around its threads: once a channel, to start what it needs;
//! 2. the channel itself, which nobody waits for: whose turn it is, the queue says;
//! 3. `known`, at such a turn only;
//! 4. one of these, each for a few instructions and none with another: the state of the queue (`queue`), the
//!    lists of channels (`ready`), `ear` and `source`.

use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{Error, Result, try_box};
use crate::exclusive::{Exclusive, Use};
use crate::quiet::Pause;
use crate::search::Rows;

use super::Decoder;
use super::channel::{Canceller, Channel};
use super::decodable::Source;
use super::listener::{Known, Listener};
use super::queue::{End, Finish, Next, Purpose, Queue, Refusal, Telling, Waited, Wake};
use super::row_queue::RowQueue;
use super::scheduler::Role;

/// A channel with a queue. All calls may come from any thread at any time: two that do not go together are
/// not mixed, the second is answered [`Error::Busy`]. Calls on the channel itself wait while a batch that
/// it is in is searched.
pub struct SharedChannel {
    me: Weak<SharedChannel>,
    decoder: Arc<Decoder>,
    pub(super) channel: Exclusive<Box<Channel>>,
    canceller: Canceller,
    pub(super) queue: Queue<RowQueue, Arc<Error>>,
    ear: Mutex<Ear>,
    /// Told when no callback of the listener runs any more.
    quiet: Condvar,
    source: Mutex<Option<Arc<dyn Source>>>,
    /// Whether it has seats on the lists of channels.
    seated: Mutex<bool>,
    /// What the listener knows. At the turn of a search or a begin.
    known: Mutex<Known>,
}

/// Who is told.
#[derive(Default)]
struct Ear {
    listener: Option<Arc<dyn Listener>>,
    /// Whether a callback runs, of this listener or of one before.
    told: bool,
}

impl std::fmt::Debug for SharedChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedChannel").field("queue", &self.queue).finish_non_exhaustive()
    }
}

/// A caller's turn with a [`SharedChannel`].
pub struct Turn<'a, G> {
    channel: Use<'a, G>,
    /// Behind the channel, so that it is given back first.
    _entered: Entered<'a>,
}

struct Entered<'a> {
    shared: &'a SharedChannel,
    purpose: Purpose,
}

impl<G: Deref> Deref for Turn<'_, G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.channel
    }
}

impl<G: DerefMut> DerefMut for Turn<'_, G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.channel
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.shared.wake(self.shared.queue.leave(self.purpose));
    }
}

/// A turn that looks at the channel.
pub type Reading<'a> = Turn<'a, RwLockReadGuard<'a, Box<Channel>>>;
/// A turn that changes it.
pub type Writing<'a> = Turn<'a, RwLockWriteGuard<'a, Box<Channel>>>;

impl SharedChannel {
    /// Shares `channel`, which has not begun.
    pub fn new(channel: Channel) -> Result<Arc<SharedChannel>> {
        let channel = try_box(channel, "channel")?;
        Ok(Arc::new_cyclic(|me| SharedChannel {
            me: Weak::clone(me),
            decoder: Arc::clone(channel.decoder()),
            canceller: channel.canceller(),
            channel: Exclusive::new("koshi_channel", channel),
            queue: Queue::default(),
            ear: Mutex::default(),
            quiet: Condvar::new(),
            source: Mutex::new(None),
            seated: Mutex::new(false),
            known: Mutex::default(),
        }))
    }

    /// The channel, to look at: as it is after the last batch that it was in.
    pub fn read(&self) -> Result<Reading<'_>> {
        let entered = self.enter(Purpose::Look)?;
        Ok(Turn { channel: self.channel.read()?, _entered: entered })
    }

    /// The channel, to change it.
    pub fn write(&self) -> Result<Writing<'_>> {
        let entered = self.enter(Purpose::Change)?;
        Ok(Turn { channel: self.channel.write()?, _entered: entered })
    }

    /// The channel, to search rows that are not queued: [`Error::Busy`] while others are.
    pub fn write_unqueued(&self) -> Result<Writing<'_>> {
        let entered = self.enter(Purpose::Search)?;
        Ok(Turn { channel: self.channel.write()?, _entered: entered })
    }

    fn enter(&self, purpose: Purpose) -> Result<Entered<'_>> {
        // A thread that searches must not wait for another one, which may wait for it.
        if self.queue.enter(purpose, self.decoder.scheduler.role() != Some(Role::Searches)) {
            return Ok(Entered { shared: self, purpose });
        }
        Err(Error::Busy(match purpose {
            Purpose::Search => "the koshi_channel is in use by another call, or rows are queued".into(),
            _ => "the koshi_channel is in use by another call".into(),
        }))
    }

    /// Begins an utterance, from any state. What is queued is forgotten.
    pub fn begin(&self) -> Result<()> {
        let mut channel = self.write()?;
        self.queue.begin();
        self.detach();
        *self.known.lock() = Known::default();
        channel.begin()?;
        let stopped = || self.canceller.has_cancelled().then(|| Arc::new(Error::Cancelled));
        let (cancelled, next) = self.queue.open(self.has_listener(), stopped);
        drop(channel);
        self.count_cancelled(cancelled);
        self.follow(next);
        Ok(())
    }

    /// Copies `rows` into the queue. [`Error::Full`] if they do not all fit, and then none is taken;
    /// [`Error::Limit`] if they never will. [`Error::Shape`] if they are too narrow, [`Error::State`] unless
    /// open; what the utterance has failed with.
    pub fn submit(&self, rows: Rows<'_>) -> Result<()> {
        let (frames, most) = (rows.frames(), self.decoder.config().queue_frames as usize);
        if frames > 0 {
            self.decoder.graph().check_width(rows.dim())?;
        }
        if frames > most {
            return Err(Error::Limit(format!("{frames} frames at once; queue_frames is {most}")));
        }
        self.engage()?;
        let metrics = &self.decoder.scheduler.metrics;
        let append = |queue: &mut RowQueue| queue.append(rows, Instant::now(), metrics);
        let wake = self.queue.submit(frames, most, append).map_err(|refusal| {
            if let Refusal::Full { .. } = refusal {
                metrics.rejected.fetch_add(1, Ordering::Relaxed);
            }
            self.refused(refusal, frames)
        })?;
        self.wake(wake?);
        Ok(())
    }

    /// Lets the decoder's threads pull what `source` has ready. To be called again, with the same, whenever there
    /// is more.
    pub fn submit_from(&self, source: Arc<dyn Source>) -> Result<()> {
        self.engage()?;
        let before = self.source.lock().replace(source);
        drop(before);
        let wake = self.queue.poke().map_err(|refusal| {
            self.detach();
            self.refused(refusal, 0)
        })?;
        self.wake(wake);
        Ok(())
    }

    /// No more rows will come. Behind what is queued; at once if nothing is and nobody listens.
    pub fn finish(&self) -> Result<()> {
        loop {
            let (tell, poke) = (self.has_listener(), self.source.lock().is_some());
            match self.queue.finish(tell, poke).map_err(|refusal| self.refused(refusal, 0))? {
                Finish::Queued(wake) => {
                    self.wake(wake);
                    return Ok(());
                }
                Finish::Now => {
                    let mut channel = self.write()?;
                    if self.queue.finish_now() {
                        return channel.finish();
                    }
                }
            }
        }
    }

    /// Stops the utterance before its next frame, and forgets what is queued.
    pub fn cancel(&self) {
        let stop = || self.canceller.cancel();
        let (cancelled, next) = self.queue.cancel(Arc::new(Error::Cancelled), self.has_listener(), stop);
        self.count_cancelled(cancelled);
        self.detach();
        self.follow(next);
    }

    fn count_cancelled(&self, one: bool) {
        self.decoder.scheduler.metrics.cancelled.fetch_add(u64::from(one), Ordering::Relaxed);
    }

    /// Waits until all that is queued is done and told, `false` if that takes longer than `timeout`. What
    /// the utterance has failed with is an error; so is a wait from within a listener or a decodable.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        if self.decoder.scheduler.role().is_some() {
            return Err(Error::Busy("a callback of the decoder must not wait for the decoder".into()));
        }
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        match self.queue.wait(deadline) {
            Waited::Done => Ok(true),
            Waited::TimedOut => Ok(false),
            Waited::Failed(error) => Err(error.repeat()),
            Waited::Closed => Err(closed()),
        }
    }

    /// Tells `listener` from now on, in place of the one before, which is told nothing more: returns when
    /// it is let go of, or from inside at once.
    pub fn set_listener(&self, listener: Option<Arc<dyn Listener>>) -> Result<()> {
        if listener.is_some() {
            // What there is to tell later must not fail for want of a thread.
            self.engage()?;
        }
        self.replace_listener(listener);
        Ok(())
    }

    fn replace_listener(&self, listener: Option<Arc<dyn Listener>>) {
        let mut ear = self.ear.lock();
        let before = std::mem::replace(&mut ear.listener, listener);
        // A callback must not wait for its own end, nor for one that may wait for it.
        if self.decoder.scheduler.role().is_none() {
            while ear.told {
                self.quiet.wait(&mut ear);
            }
        }
        drop(ear);
        drop(before);
    }

    /// Tells the listener, if there is one.
    fn call(&self, event: impl FnOnce(&dyn Listener)) {
        let mut ear = self.ear.lock();
        let Some(listener) = ear.listener.clone() else { return };
        ear.told = true;
        drop(ear);
        let pause = Pause::enter();
        let outcome = catch_unwind(AssertUnwindSafe(|| event(&*listener)));
        drop(pause);
        if outcome.is_err() {
            log::error!("a listener panicked");
        }
        // Before others are told that it is over: if it was replaced meanwhile, this is its end.
        drop(listener);
        self.ear.lock().told = false;
        self.quiet.notify_all();
    }

    /// Frames that are queued, those of a batch that is being searched included.
    pub fn queued_frames(&self) -> usize {
        self.queue.queued()
    }

    /// Ends all use: nothing queued is searched or told any more, and the decoder has room for another
    /// channel. As for [`SharedChannel::set_listener`], the listener is let go of.
    pub fn close(&self) {
        if self.queue.close() {
            self.canceller.cancel();
        }
        self.detach();
        self.unseat();
        self.canceller.leave(&self.decoder);
        self.replace_listener(None);
    }

    fn refused(&self, refusal: Refusal<Arc<Error>>, frames: usize) -> Error {
        match refusal {
            Refusal::NotBegun => Error::State("the channel has not begun".into()),
            Refusal::Finished => Error::State("the channel is finished".into()),
            Refusal::Failed(error) => error.repeat(),
            Refusal::Closed => closed(),
            Refusal::Full { queued } => {
                let most = self.decoder.config().queue_frames;
                Error::Full(format!("{queued} frames are queued; {frames} more are above queue_frames, {most}"))
            }
        }
    }

    /// Makes sure that the decoder's threads are there and have seats for this channel.
    fn engage(&self) -> Result<()> {
        let mut seated = self.seated.lock();
        if !*seated {
            self.decoder.scheduler.seat(self.decoder.config())?;
            *seated = true;
        }
        Ok(())
    }

    fn unseat(&self) {
        self.decoder.scheduler.remove(self.me.as_ptr());
        if std::mem::take(&mut *self.seated.lock()) {
            self.decoder.scheduler.unseat();
        }
    }

    /// Lets go of the source, outside of its lock: its end may be a callback.
    pub(super) fn detach(&self) {
        let source = self.source.lock().take();
        drop(source);
    }

    pub(super) fn source(&self) -> Option<Arc<dyn Source>> {
        self.source.lock().clone()
    }

    pub(super) fn has_listener(&self) -> bool {
        self.ear.lock().listener.is_some()
    }

    pub(super) fn decoder(&self) -> &Arc<Decoder> {
        &self.decoder
    }

    pub(super) fn follow(&self, next: Next) {
        self.wake(next.search);
        if next.tell
            && let Some(me) = self.me.upgrade()
        {
            self.decoder.scheduler.put_to_tell(me);
        }
    }

    fn wake(&self, wake: Wake) {
        if wake != Wake::No
            && let Some(me) = self.me.upgrade()
        {
            self.decoder.scheduler.put(me, wake == Wake::Front);
        }
    }

    /// Whether a listener is to be told that the words are others than it knows, after a search.
    pub(super) fn has_new_words(&self, channel: &Channel) -> bool {
        let listener = self.ear.lock().listener.clone();
        if !listener.is_some_and(|listener| listener.wants_partial()) {
            return false;
        }
        self.known.lock().others(channel).unwrap_or_else(|error| {
            log::warn!("the words of a turn are not told: {}", error.chain());
            false
        })
    }

    /// Before a search: what an earlier one has noticed is known by now, unless it is still `untold`.
    pub(super) fn words_are_told(&self, channel: &Channel, untold: bool) {
        if let Err(error) = self.known.lock().told(channel, untold) {
            log::warn!("the words of a turn may be told twice: {}", error.chain());
        }
    }

    /// Tells what was noticed, and how the utterance has ended if it has.
    pub(super) fn tell(&self) {
        let Some(Telling { noticed, utterance }) = self.queue.tell() else { return };
        if noticed.partial && self.queue.is_current(utterance) {
            self.call(|listener| listener.partial());
        }
        if noticed.endpoint && self.queue.is_current(utterance) {
            self.call(|listener| listener.endpoint());
        }
        match self.queue.end_to_tell(utterance) {
            Some(End::Finished) => self.call(|listener| listener.finished()),
            Some(End::Failed(error)) => self.call(|listener| listener.failed(&error)),
            None => {}
        }
        self.follow(self.queue.told());
    }
}

impl Drop for SharedChannel {
    fn drop(&mut self) {
        self.unseat();
    }
}

fn closed() -> Error {
    Error::Handle("the channel was freed during the call".into())
}
