//! Streams: one utterance each, whose encoder rows come in any number of pieces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::alsd::Alsd;
use super::base::{Base, Found, Scores, Search};
use super::batch::{self, Buffers};
use super::config::{SearchKind, TransducerConfig};
use super::default::Default as DefaultSearch;
use super::greedy::Greedy;
use super::hypotheses::{self, Hypotheses, Hypothesis};
use super::networks::Transducer;
use super::nsc::Nsc;
use super::tsd::Tsd;
use crate::error::{Error, Result, try_reserve};
use crate::search::Rows;

/// Cancels a stream from any thread.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<AtomicBool>);

impl Canceller {
    /// The stream stops before its next call of a network and answers [`Error::Cancelled`] from then on.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One utterance. However its rows are cut into pushes, and whatever else is in a batch, the
/// results are the same bits. Needs exclusive use; may move between threads.
pub struct Stream {
    transducer: Arc<Transducer>,
    base: Base,
    search: Box<dyn Search>,
    /// Why it failed: rows answer the same from then on, and the hypotheses of before can be fetched.
    failure: Option<Error>,
    /// Whether the result was fetched.
    finished: bool,
    cancelled: Arc<AtomicBool>,
    buffers: Buffers,
    found: Found,
}

impl Stream {
    pub(super) fn new(transducer: Arc<Transducer>, config: &TransducerConfig) -> Result<Stream> {
        config.check()?;
        let base = Base::new(*transducer.shape(), *config, transducer.phrases())?;
        let found = Found::new(&base.shape)?;
        let search: Box<dyn Search> = match config.search {
            SearchKind::Greedy => Box::new(Greedy::new(&base)),
            SearchKind::Default => Box::new(DefaultSearch::new(&base)?),
            SearchKind::Tsd => Box::new(Tsd::new(&base)?),
            SearchKind::Alsd => Box::new(Alsd::new(&base)?),
            SearchKind::Nsc => Box::new(Nsc::new(&base)?),
        };
        Ok(Stream {
            transducer,
            base,
            search,
            failure: None,
            finished: false,
            cancelled: Arc::default(),
            buffers: Buffers::default(),
            found,
        })
    }

    /// The transducer that made the stream.
    pub fn transducer(&self) -> &Arc<Transducer> {
        &self.transducer
    }

    /// Something to cancel the stream with while it is at work.
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.cancelled))
    }

    /// Frames that have come.
    pub fn num_frames(&self) -> u64 {
        self.base.num_frames()
    }

    /// Searches further rows, of `encoder_dim` columns, before it returns.
    ///
    /// [`Error::Shape`] and [`Error::State`] (after the end) change nothing. After any other error the
    /// utterance has failed: [`Error::Scores`] (column is the label), [`Error::NoTokens`],
    /// [`Error::Callback`], [`Error::Cancelled`], [`Error::NoMemory`], [`Error::Limit`]. All states
    /// are then handed back, and [`Stream::partial`] still tells what was found before.
    pub fn push(&mut self, rows: Rows<'_>) -> Result<()> {
        let transducer = Arc::clone(&self.transducer);
        let mut items = [StreamItem::more(self, rows)];
        advance(&transducer, &mut items)?;
        let [item] = items;
        item.result
    }

    /// The hypotheses of now, and how many labels of the first can no longer change. Costs as much as there
    /// are labels that were not committed.
    pub fn partial(&self) -> Result<(Hypotheses, usize)> {
        let hypotheses = Hypotheses::of(&self.base, &*self.search)?;
        let stable = match self.failure.is_some() || self.base.ended {
            true => hypotheses.list.first().map_or(0, |best| best.labels.len()),
            false => {
                let common = self.base.histories.depth(self.base.common(self.search.hyps()));
                common.saturating_sub(self.base.committed) as usize
            }
        };
        Ok((hypotheses, stable))
    }

    /// Takes out the labels that no longer change and whose times no longer do, with all that is told of them:
    /// each is handed out once, later results begin behind it, and its memory is used again. What is searched and
    /// every score stay as they are without this call. The score here is the sum of what these labels got.
    ///
    /// [`Error::State`] after the last rows, whose result has all that is left; after a failure the same error.
    pub fn commit(&mut self) -> Result<Hypothesis> {
        self.commit_with(Ok)
    }

    /// As [`Stream::commit`], for those who have to put the labels somewhere: where `deliver` fails nothing is
    /// taken out.
    pub fn commit_with<T>(&mut self, deliver: impl FnOnce(Hypothesis) -> Result<T>) -> Result<T> {
        if let Some(failure) = &self.failure {
            return Err(copy(failure));
        }
        if self.base.ended {
            return Err(Error::State("the stream has ended".into()));
        }
        let (trace, labels, shared) = hypotheses::shared(&self.base, &*self.search)?;
        let delivered = deliver(shared)?;
        self.base.traces.take_out(trace);
        self.base.committed = labels;
        Ok(delivered)
    }

    /// No more rows will come: the result. Hands back all states. [`Error::State`] if it was fetched before.
    pub fn finish(&mut self) -> Result<Hypotheses> {
        if self.finished {
            return Err(Error::State("the stream is finished".into()));
        }
        if !self.base.ended {
            let transducer = Arc::clone(&self.transducer);
            let nothing = Rows::new(&[], 0, 0, 0)?;
            let mut items = [StreamItem::last(self, nothing)];
            advance(&transducer, &mut items)?;
            let [item] = items;
            item.result?;
        }
        self.goes_on();
        if let Some(failure) = &self.failure {
            return Err(copy(failure));
        }
        let hypotheses = Hypotheses::of(&self.base, &*self.search)?;
        self.finished = true;
        Ok(hypotheses)
    }

    /// Takes rows in; whether it may go on to search them.
    fn accept(&mut self, rows: &Rows<'_>, last: bool) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(copy(failure));
        }
        if self.base.ended {
            return Err(Error::State("the stream has ended".into()));
        }
        if !self.goes_on() {
            return Err(Error::Cancelled);
        }
        match self.base.push(rows) {
            Ok(()) => self.base.ended = last,
            Err(error @ Error::Shape(_)) => return Err(error),
            // Rows that could not be kept are missing from now on.
            Err(error) => {
                self.fail(copy(&error));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether there is something to be scored; it stands in the base's list then.
    pub(super) fn plan(&mut self) -> bool {
        if !self.goes_on() {
            return false;
        }
        self.base.asks.clear();
        let planned = self.search.plan(&mut self.base);
        planned.unwrap_or_else(|error| {
            self.fail(error);
            false
        })
    }

    /// Goes on with the rows of scores for what it planned.
    pub(super) fn take(&mut self, rows: &[f32]) {
        let Stream { base, search, found, .. } = self;
        let outcome = found.fill(&base.shape, &base.asks, rows);
        let scores = Scores { rows, vocab_size: base.shape.vocab_size, found };
        if let Err(error) = outcome.and_then(|()| search.take(base, &scores)) {
            self.fail(error);
        }
    }

    /// Whether it has not failed.
    pub(super) fn is_open(&self) -> bool {
        self.failure.is_none()
    }

    /// Whether it has not failed, which it does here where it was cancelled: to be asked before each call of a network.
    pub(super) fn goes_on(&mut self) -> bool {
        if self.is_open() && self.cancelled.load(Ordering::Relaxed) {
            self.fail(Error::Cancelled);
        }
        self.is_open()
    }

    pub(super) fn base(&mut self) -> &mut Base {
        &mut self.base
    }

    /// Ends the utterance. All states are handed back.
    pub(super) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
        self.release_all();
    }

    fn release_all(&mut self) {
        let transducer = &self.transducer;
        self.base.histories.clear(|part, state| transducer.release(part, state));
    }

    /// Hands back the states that no hypothesis needs any more.
    pub(super) fn hand_back(&mut self) {
        let transducer = &self.transducer;
        self.base.histories.hand_back(|part, state| transducer.release(part, state));
    }

    /// Forgets rows that are not needed any more; at the end, everything but the hypotheses.
    pub(super) fn drop_rows(&mut self) {
        self.base.drop_rows_before(self.search.first_frame());
        if self.base.ended {
            self.release_all();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.release_all();
    }
}

/// A stream with rows for it, in a batch.
pub struct StreamItem<'a> {
    stream: &'a mut Stream,
    rows: Rows<'a>,
    last: bool,
    /// What became of it, once the batch has run.
    pub result: Result<()>,
}

impl<'a> StreamItem<'a> {
    /// Rows after which others may follow.
    pub fn more(stream: &'a mut Stream, rows: Rows<'a>) -> StreamItem<'a> {
        StreamItem { stream, rows, last: false, result: Ok(()) }
    }

    /// The last rows, which may be none.
    pub fn last(stream: &'a mut Stream, rows: Rows<'a>) -> StreamItem<'a> {
        StreamItem { stream, rows, last: true, result: Ok(()) }
    }
}

/// Pushes rows to many streams of `transducer` together, with as few calls of its model as if they were
/// one. Each item gets its own result; an error here is about the call itself, and then nothing
/// was done.
pub fn advance(transducer: &Arc<Transducer>, items: &mut [StreamItem<'_>]) -> Result<()> {
    let mut streams = Vec::new();
    try_reserve(&mut streams, items.len(), "streams of a batch")?;
    let mut buffers = items.first_mut().map(|item| std::mem::take(&mut item.stream.buffers)).unwrap_or_default();
    for item in items.iter_mut() {
        item.result = match Arc::ptr_eq(transducer, &item.stream.transducer) {
            true => item.stream.accept(&item.rows, item.last),
            false => Err(Error::Argument("the stream is of another transducer".into())),
        };
        if item.result.is_ok() {
            streams.push(&mut *item.stream);
        }
    }
    batch::run(transducer, &mut streams, &mut buffers);
    drop(streams);
    for item in items.iter_mut().filter(|item| item.result.is_ok()) {
        item.result = item.stream.failure.as_ref().map_or(Ok(()), |failure| Err(copy(failure)));
    }
    if let Some(item) = items.first_mut() {
        item.stream.buffers = buffers;
    }
    Ok(())
}

/// The same error once more.
pub(super) fn copy(error: &Error) -> Error {
    match error {
        Error::Scores { frame, column, value } => Error::Scores { frame: *frame, column: *column, value: *value },
        Error::NoTokens { frame } => Error::NoTokens { frame: *frame },
        Error::Callback { what, status } => Error::Callback { what: what.clone(), status: *status },
        Error::NoMemory { what, asked } => Error::NoMemory { what: what.clone(), asked: *asked },
        Error::Context { what, source } => copy(source).context(what.clone()),
        Error::Cancelled => Error::Cancelled,
        Error::Limit(why) => Error::Limit(why.clone()),
        Error::Shape(why) => Error::Shape(why.clone()),
        other => Error::Internal(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{Model, Part, ScoreKind, Shape};
    use super::*;

    /// About one label in three frames; the output is the number of labels, the row that of the frame.
    struct Steady;

    impl Model for Steady {
        fn shape(&self) -> Shape {
            let scores = ScoreKind::Logits;
            Shape { vocab_size: 4, blank: 0, encoder_dim: 1, output_dim: 1, scores, has_lm: false }
        }

        fn predict(&self, states: &[u64], labels: &[i32], out: &mut [u64], outputs: &mut [f32]) -> Result<()> {
            for (((state, label), out), output) in states.iter().zip(labels).zip(out).zip(outputs) {
                *out = if *label == 0 { 0 } else { state + 1 };
                *output = *out as f32;
            }
            Ok(())
        }

        fn join(&self, encoder: &[f32], outputs: &[f32], _: usize, scores: &mut [f32]) -> Result<()> {
            for ((frame, output), scores) in encoder.iter().zip(outputs).zip(scores.chunks_exact_mut(4)) {
                let blank = if output * 3.0 > *frame { 9.0 } else { -9.0 };
                // Late alternatives are better than early ones, so that hypotheses come to agree.
                scores.copy_from_slice(&[blank, 1.0, -6.0 + frame / 200.0, -9.0]);
            }
            Ok(())
        }

        fn release_state(&self, _: Part, _: u64) {}
    }

    /// Label 1 or 2 in frame 0, as likely as makes no difference; then label 3 in each frame, as sure after the
    /// one as after the other, and 1 that is hardly worse. After frame 300 what began with 2 is forbidden.
    struct Torn;

    impl Model for Torn {
        fn shape(&self) -> Shape {
            Steady.shape()
        }

        fn predict(&self, states: &[u64], labels: &[i32], out: &mut [u64], outputs: &mut [f32]) -> Result<()> {
            for (((state, label), out), output) in states.iter().zip(labels).zip(out).zip(outputs) {
                let (count, first) = (state & 0xffff, state >> 16);
                let first = if count == 0 { *label as u64 } else { first };
                *out = if *label == 0 { 0 } else { first << 16 | (count + 1) };
                *output = *out as f32;
            }
            Ok(())
        }

        fn join(&self, encoder: &[f32], outputs: &[f32], _: usize, scores: &mut [f32]) -> Result<()> {
            for ((frame, output), scores) in encoder.iter().zip(outputs).zip(scores.chunks_exact_mut(4)) {
                let (count, first) = (*output as u64 & 0xffff, *output as u64 >> 16);
                scores.copy_from_slice(match count > *frame as u64 {
                    true => &[9.0, -9.0, -9.0, -9.0],
                    false if count == 0 => &[-9.0, 1.0, 0.99, -9.0],
                    false => &[-9.0, -6.0, -9.0, 1.0],
                });
                if *frame > 300.0 && first == 2 {
                    scores.fill(-90.0);
                    scores[0] = f32::NEG_INFINITY;
                }
            }
            Ok(())
        }

        fn release_state(&self, _: Part, _: u64) {}
    }

    #[test]
    fn histories_follow_what_is_alive() {
        for search in [SearchKind::Default, SearchKind::Tsd, SearchKind::Alsd, SearchKind::Nsc] {
            let config =
                TransducerConfig { search, beam: 2, u_max: 9000, max_cached: 20, ..TransducerConfig::default() };
            let mut stream = Transducer::new(Box::new(Torn)).unwrap().new_stream(&config).unwrap();
            for frame in 0..600 {
                stream.push(Rows::new(&[frame as f32], 1, 1, 1).unwrap()).unwrap();
                let base = &stream.base;
                let stem = base.histories.depth(base.common(stream.search.hyps()));
                let alive: u32 = stream.search.hyps().iter().map(|hyp| hyp.labels - stem).sum();
                let histories = base.histories.len();
                // What is cached may stand a little beside what is alive.
                assert!(histories <= alive as usize + 120, "{search:?}, frame {frame}: {histories} for {alive}");
                let torn = frame > 10 && frame < 290;
                assert!(!torn || stem == 0 && histories > frame, "{search:?}, frame {frame}: both are alive: {stem}");
                assert!(frame < 400 || stem > 250, "{search:?}, frame {frame}: one of them is gone: {stem}");
            }
        }
    }

    #[test]
    fn neither_rows_nor_histories_pile_up() {
        for search in [SearchKind::Greedy, SearchKind::Default, SearchKind::Tsd, SearchKind::Alsd, SearchKind::Nsc] {
            let config = TransducerConfig { search, u_max: 1000, max_cached: 20, ..TransducerConfig::default() };
            let mut stream = Transducer::new(Box::new(Steady)).unwrap().new_stream(&config).unwrap();
            for frame in 0..900 {
                stream.push(Rows::new(&[frame as f32], 1, 1, 1).unwrap()).unwrap();
                let Base { histories, rows, .. } = &stream.base;
                assert!(rows.len() < 20, "{search:?}, frame {frame}: {} rows", rows.len());
                assert!(histories.len() < 200, "{search:?}, frame {frame}: {} histories", histories.len());
            }
            assert!(stream.partial().unwrap().0.list[0].labels.len() > 250, "{search:?}");
        }
    }
}
