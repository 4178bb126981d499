//! End points of queued rows: the scheduler's results are those of pushes with the same rules, bit for bit,
//! and its listeners are told of each end point once, before anything behind it is searched.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use common::aloud::aloud;
use common::graph::{Rng, arc, source};
use common::random_endpoints::{Case, SHIFT};
use common::random_search::{COLUMNS, random_rows};
use koshi::Error;
use koshi::decoder::{
    BackendChoice, Channel, Decodable, Decoder, DecoderConfig, Listener, MatrixDecodable, SegmentEnd, SharedChannel,
    Source,
};
use koshi::graph::{Columns, Graph, VecSource};
use koshi::lattice::{DeterminizeConfig, Determinized, Path, RawLattice};
use koshi::search::{
    CommitConfig, CommittedLattice, EndpointAction, EndpointConfig, EndpointRule, Phrase, Rows, SearchConfig, Silence,
};

const ACTIONS: [EndpointAction; 3] = [EndpointAction::Note, EndpointAction::Stop, EndpointAction::Segment];

type Closed = (SegmentEnd, Path, RawLattice);

/// All that can be asked of a channel with end points.
#[derive(Debug, PartialEq)]
struct Results {
    frames: u64,
    end: Option<SegmentEnd>,
    segments: Vec<Closed>,
    best: [Path; 2],
    lattices: [RawLattice; 2],
    committed_frames: u64,
    committed: Vec<CommittedLattice>,
    compact: Option<[Determinized; 2]>,
}

fn segment(channel: &Channel, number: u64) -> Closed {
    let segment = channel.segment(number).unwrap();
    (segment.end, (*segment.best_path).clone(), (*segment.lattice).clone().into_raw().unwrap())
}

fn results(channel: &mut Channel) -> Results {
    let committed_frames = channel.committed_frames();
    Results {
        frames: channel.num_frames(),
        end: channel.endpoint().unwrap(),
        segments: (0..channel.num_segments()).map(|number| segment(channel, number)).collect(),
        best: [true, false].map(|use_final| channel.best_path(use_final).unwrap()),
        lattices: [true, false].map(|use_final| channel.lattice(use_final).unwrap()),
        committed_frames,
        compact: channel
            .determinize_config()
            .is_some()
            .then(|| [true, false].map(|use_final| channel.compact_lattice(use_final).unwrap())),
        committed: std::iter::from_fn(|| channel.take_committed().unwrap()).collect(),
    }
}

/// What pushes give, with the lattice where one of them stopped, and why the utterance failed.
fn pushed(channel: &mut Channel, rows: Rows<'_>) -> (Results, Option<RawLattice>, Option<String>) {
    let (mut stopped, mut failed, mut done) = (None, None, 0);
    while done < rows.frames() && failed.is_none() {
        match channel.push_rows(rows.slice(done, usize::MAX)) {
            Ok(more) => done += more,
            Err(error) => failed = Some(error.to_string()),
        }
        if failed.is_none() && done < rows.frames() {
            assert!(stopped.is_none(), "stopped once");
            stopped = Some(channel.lattice(true).unwrap());
        }
    }
    channel.finish().unwrap();
    (results(channel), stopped, failed)
}

#[derive(Clone, Debug, PartialEq)]
enum Event {
    Partial,
    Endpoint,
    Finished,
    Failed(String),
}

/// An event, with what the channel answers from inside it.
#[derive(Debug)]
struct Told {
    event: Event,
    frames: u64,
    segments: u64,
    words: Vec<i32>,
    end: Option<SegmentEnd>,
    lattice: RawLattice,
    closed: Option<Closed>,
}

/// Makes a call until no other one is in its way: a callback's turn with the channel meets a finish of the test's own
/// thread, which has its own turn where the utterance has failed, and the other way round.
fn insist<T>(call: impl Fn() -> koshi::Result<T>) -> T {
    loop {
        match call() {
            Err(Error::Busy(_)) => thread::yield_now(),
            outcome => return outcome.unwrap(),
        }
    }
}

/// A listener that notes what it is told and what it sees.
struct Ear {
    line: Weak<SharedChannel>,
    told: Mutex<Vec<Told>>,
}

impl Ear {
    fn on(line: &Arc<SharedChannel>) -> Arc<Ear> {
        let ear = Arc::new(Ear { line: Arc::downgrade(line), told: Mutex::default() });
        line.set_listener(Some(Arc::clone(&ear) as Arc<dyn Listener>)).unwrap();
        ear
    }

    fn note(&self, event: Event) {
        let line = self.line.upgrade().unwrap();
        let mut channel = insist(|| line.write());
        if channel.determinize_config().is_some() {
            channel.settle().unwrap();
        }
        let segments = channel.num_segments();
        let told = Told {
            event,
            frames: channel.num_frames(),
            segments,
            words: channel.partial().unwrap().0.olabels,
            end: channel.endpoint().unwrap(),
            lattice: channel.lattice(true).unwrap(),
            closed: segments.checked_sub(1).map(|last| segment(&channel, last)),
        };
        self.told.lock().unwrap().push(told);
    }

    fn events(&self) -> Vec<Event> {
        self.told.lock().unwrap().iter().map(|told| told.event.clone()).collect()
    }

    fn ends(&self) -> usize {
        self.events().iter().filter(|event| **event == Event::Endpoint).count()
    }
}

impl Listener for Ear {
    fn partial(&self) {
        aloud(|| self.note(Event::Partial));
    }

    fn endpoint(&self) {
        aloud(|| self.note(Event::Endpoint));
    }

    fn finished(&self) {
        aloud(|| self.note(Event::Finished));
    }

    fn failed(&self, error: &Error) {
        aloud(|| self.note(Event::Failed(error.to_string())));
    }
}

fn wait(line: &SharedChannel) -> Option<String> {
    match line.wait(Some(Duration::from_secs(60))) {
        Ok(done) => {
            assert!(done, "nothing moves");
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

/// Holds what a listener was told to what pushes give.
fn check_told(told: &[Told], action: EndpointAction, wanted: &Results, stopped: Option<&RawLattice>, name: &str) {
    let (last, before) = told.split_last().expect("an end");
    assert!(matches!(last.event, Event::Finished | Event::Failed(_)), "{name}");
    let (mut words, mut ends) = (Vec::new(), 0);
    for (at, event) in before.iter().enumerate() {
        match event.event {
            Event::Partial => {
                assert_ne!(event.words, words, "a partial without news: {name}");
                words.clone_from(&event.words);
                assert_eq!(event.segments, if action == EndpointAction::Segment { ends } else { 0 }, "{name}");
            }
            Event::Endpoint if action == EndpointAction::Segment => {
                ends += 1;
                words.clear();
                assert_eq!(event.segments, ends, "{name}");
                let closed = event.closed.as_ref().unwrap();
                assert_eq!(*closed, wanted.segments[ends as usize - 1], "{name}");
                assert_eq!((event.end, event.frames), (Some(closed.0), closed.0.frames()), "{name}");
            }
            Event::Endpoint => {
                ends += 1;
                assert_eq!(event.words, words, "its words are told before it: {name}");
                assert_eq!((event.end, at + 1 == before.len() || ends == 1), (wanted.end, true), "{name}");
                let frames = event.end.unwrap().frames();
                assert!(event.frames >= frames, "{name}");
                if action == EndpointAction::Stop {
                    assert_eq!(event.frames, frames, "nothing is searched behind it: {name}");
                    if let Some(stopped) = stopped {
                        assert_eq!(event.lattice, *stopped, "{name}");
                    }
                }
            }
            _ => panic!("{:?} comes last: {name}", event.event),
        }
    }
    let closed_last = before.last().is_some_and(|event| event.event == Event::Endpoint);
    // Without a frame there is no turn that could tell the words of epsilon arcs.
    if wanted.frames > 0 && (action != EndpointAction::Segment || !closed_last) {
        assert_eq!(last.words, words, "the last words are told: {name}");
    }
    let wanted_ends = match action {
        EndpointAction::Segment => wanted.segments.len() as u64,
        _ => u64::from(wanted.end.is_some()),
    };
    assert_eq!(ends, wanted_ends, "{name}");
}

/// Several channels at once, submitted in random pieces. Gives how many end points there were.
fn queued(backend: BackendChoice, case: u64, frames: u64, action: EndpointAction) -> u64 {
    let (case, mut rng) = Case::new(case, frames, action);
    if case.channel(backend).is_none() {
        return 0;
    }
    let data: Vec<Vec<f32>> = (0..3).map(|_| random_rows(&mut rng, frames)).chain([case.rows.clone()]).collect();
    let all: Vec<Rows<'_>> = data.iter().map(|data| Rows::dense(data, COLUMNS as usize).unwrap()).collect();
    let determinize = DeterminizeConfig { acoustic_scale: case.search.acoustic_scale, ..DeterminizeConfig::default() };
    let determinizes = rng.below(3) == 0;
    let mut found = 0;
    for chunk in [1, 7, 32] {
        let decoder = case.decoder(backend, chunk);
        let name = format!("chunks of {chunk}: {}", case.name);
        let new_channel = || {
            let mut channel = decoder.new_channel().unwrap();
            if determinizes {
                channel.set_determinize(None, &determinize).unwrap();
            }
            channel
        };
        let lines: Vec<_> = all.iter().map(|_| SharedChannel::new(new_channel()).unwrap()).collect();
        let ears: Vec<_> = lines.iter().map(Ear::on).collect();
        lines.iter().for_each(|line| line.begin().unwrap());
        let mut from = 0;
        while from < frames as usize {
            let most = 1 + rng.below(12) as usize;
            for (line, rows) in lines.iter().zip(&all) {
                // Refused where the utterance has failed already.
                let _ = line.submit(rows.slice(from, most));
            }
            from += most;
        }
        for ((line, ear), rows) in lines.iter().zip(&ears).zip(&all) {
            let mut channel = new_channel();
            channel.begin().unwrap();
            let (wanted, stopped, failed) = pushed(&mut channel, *rows);
            let _ = line.finish();
            assert_eq!(wait(line), failed, "{name}");
            if failed.is_some() {
                line.finish().unwrap();
            }
            assert_eq!(results(&mut line.write().unwrap()), wanted, "{name}");
            let told = ear.told.lock().unwrap();
            check_told(&told, action, &wanted, stopped.as_ref(), &name);
            let end = failed.map_or(Event::Finished, Event::Failed);
            assert_eq!(told.last().unwrap().event, end, "{name}");
            found += ear_ends(&told);
        }
    }
    found
}

fn ear_ends(told: &[Told]) -> u64 {
    told.iter().filter(|told| told.event == Event::Endpoint).count() as u64
}

#[test]
fn queued_end_points_are_those_of_pushes() {
    for action in ACTIONS {
        let found: u64 = (0..24).map(|case| queued(BackendChoice::Cpu, case, 30, action)).sum();
        assert!(found > 60, "{action:?}: end points: {found}");
    }
}

#[test]
fn queued_end_points_are_those_of_pushes_on_the_gpu() {
    common::gpu();
    for action in ACTIONS {
        let found: u64 = (0..3).map(|case| queued(BackendChoice::Cuda, 4_000_000 + case, 24, action)).sum();
        assert!(found > 2, "{action:?}: end points: {found}");
    }
}

const NEVER: EndpointRule = EndpointRule {
    must_contain_nonsilence: false,
    min_trailing_silence: f64::INFINITY,
    max_relative_cost: f32::INFINITY,
    min_utterance_length: 0.0,
};

/// One state with two loops: label 1 is silence, label 2 the word 7, label 3 the word 8.
fn loops() -> VecSource {
    source(Some(0), vec![(0.0, vec![arc(1, 0, 0.0, 0), arc(2, 7, 0.0, 0), arc(3, 8, 0.0, 0)])])
}

const SILENCE: [f32; 3] = [0.0, -9.0, -9.0];
const WORD: [f32; 3] = [-9.0, 0.0, -9.0];

/// An end point after `silence` silent frames.
fn silent_end(silence: u64, action: EndpointAction) -> EndpointConfig {
    let rule = EndpointRule { min_trailing_silence: silence as f64 * SHIFT, ..NEVER };
    let rules = [rule, NEVER, NEVER, NEVER, NEVER];
    EndpointConfig { rules, silence: Silence::Ilabels(vec![1]), action, segments_kept: 1000 }
}

fn decoder(chunk_frames: u32, rules: &EndpointConfig) -> Arc<Decoder> {
    let graph = Arc::new(Graph::from_source(&loops(), Columns::Labels).unwrap());
    let search = SearchConfig { lattice_beam: 12.0, ..SearchConfig::default() };
    let config = DecoderConfig {
        search,
        backend: BackendChoice::Cpu,
        num_lanes: 3,
        num_threads: 2,
        chunk_frames,
        frame_shift: SHIFT,
        ..DecoderConfig::default()
    };
    let decoder = Decoder::new(graph, config).unwrap();
    decoder.set_endpoint_rules(Some(rules)).unwrap();
    decoder
}

fn open_line(decoder: &Arc<Decoder>) -> Arc<SharedChannel> {
    let line = SharedChannel::new(decoder.new_channel().unwrap()).unwrap();
    line.begin().unwrap();
    line
}

fn rows(data: &[f32]) -> Rows<'_> {
    Rows::dense(data, 3).unwrap()
}

/// An end point in the frames before one that fails is told, wherever the chunks are cut.
#[test]
fn an_end_point_before_a_failure_is_told() {
    let mut data = [WORD, SILENCE, SILENCE, SILENCE, WORD, WORD, WORD].concat();
    data[6 * 3] = f32::NAN;
    for action in ACTIONS {
        for chunk in [1, 2, 7, 32] {
            let decoder = decoder(chunk, &silent_end(2, action));
            let line = open_line(&decoder);
            let ear = Ear::on(&line);
            line.submit(rows(&data)).unwrap();
            let failed = wait(&line).unwrap();
            assert!(failed.contains("frame 6"), "{failed}");
            assert_eq!(ear.ends(), 1, "{action:?}, chunks of {chunk}");
            assert_eq!(ear.events().last(), Some(&Event::Failed(failed)));
        }
    }
}

/// What a push finds is not told, also when rows are submitted behind it.
#[test]
fn an_end_point_of_a_push_is_not_told() {
    for action in ACTIONS {
        let decoder = decoder(4, &silent_end(2, action));
        let line = open_line(&decoder);
        let ear = Ear::on(&line);
        line.write_unqueued().unwrap().push(rows(&[WORD, SILENCE, SILENCE].concat())).unwrap();
        line.submit(rows(&[WORD, WORD].concat())).unwrap();
        assert_eq!(wait(&line), None);
        assert_eq!(ear.ends(), 0, "{action:?}");
        line.submit(rows(&[WORD, SILENCE, SILENCE].concat())).unwrap();
        line.finish().unwrap();
        assert_eq!(wait(&line), None);
        assert_eq!(ear.ends(), usize::from(action == EndpointAction::Segment), "{action:?}");
    }
}

/// A matrix that a scheduler pulls; a frame fails.
struct Pulled {
    data: Vec<f32>,
    fails: u64,
}

struct Failing<'a>(MatrixDecodable<'a>, u64);

impl Decodable for Failing<'_> {
    fn num_columns(&mut self) -> koshi::Result<usize> {
        self.0.num_columns()
    }

    fn num_frames_ready(&mut self) -> koshi::Result<u64> {
        self.0.num_frames_ready()
    }

    fn is_last_frame(&mut self, frame: u64) -> koshi::Result<bool> {
        self.0.is_last_frame(frame)
    }

    fn fills_whole_rows(&self) -> bool {
        true
    }

    fn fill_row(&mut self, frame: u64, needed: &dyn Fn(&mut [bool]), row: &mut [f32]) -> koshi::Result<()> {
        if frame == self.1 {
            return Err(Error::Callback { what: "row".into(), status: -7 });
        }
        self.0.fill_row(frame, needed, row)
    }
}

impl Source for Pulled {
    fn with(&self, body: &mut dyn FnMut(&mut dyn Decodable) -> koshi::Result<()>) -> koshi::Result<()> {
        body(&mut Failing(MatrixDecodable::new(rows(&self.data)), self.fails))
    }
}

/// Frames in front of one that cannot be pulled are searched, also those behind an end point.
#[test]
fn pulled_rows_behind_an_end_point_are_searched_before_a_failure() {
    let data = [WORD, SILENCE, SILENCE, WORD, WORD, SILENCE, SILENCE, WORD, WORD, WORD].concat();
    for action in ACTIONS {
        for chunk in [1, 3, 32] {
            for fails in [8, u64::MAX] {
                let decoder = decoder(chunk, &silent_end(2, action));
                let line = open_line(&decoder);
                let ear = Ear::on(&line);
                line.submit_from(Arc::new(Pulled { data: data.clone(), fails })).unwrap();
                insist(|| line.finish());
                let (frames, failed) = (fails.min(10), wait(&line));
                assert_eq!(failed.is_some(), fails == 8);
                line.finish().unwrap();
                let mut alone = decoder.new_channel().unwrap();
                alone.begin().unwrap();
                let (wanted, ..) = pushed(&mut alone, rows(&data).slice(0, frames as usize));
                assert_eq!(results(&mut line.write().unwrap()), wanted, "{action:?}, chunks of {chunk}");
                assert_eq!(ear.ends(), if action == EndpointAction::Segment { 2 } else { 1 });
            }
        }
    }
}

/// Words that the start state's epsilon arcs give belong to the new segment: they are told behind the end
/// point of the one before.
#[test]
fn words_of_a_new_segment_come_behind_the_end_point() {
    let start = (f32::INFINITY, vec![arc(0, 9, -1.0, 1)]);
    let loops = (0.0, vec![arc(1, 0, 0.0, 1), arc(2, 7, 0.0, 1), arc(3, 8, 0.0, 1)]);
    let graph = Arc::new(Graph::from_source(&source(Some(0), vec![start, loops]), Columns::Labels).unwrap());
    let config = DecoderConfig { backend: BackendChoice::Cpu, frame_shift: SHIFT, ..DecoderConfig::default() };
    let decoder = Decoder::new(graph, config).unwrap();
    decoder.set_endpoint_rules(Some(&silent_end(2, EndpointAction::Segment))).unwrap();
    let line = open_line(&decoder);
    let ear = Ear::on(&line);
    line.submit(rows(&[WORD, SILENCE, SILENCE, SILENCE].concat())).unwrap();
    line.finish().unwrap();
    assert_eq!(wait(&line), None);
    use Event::{Endpoint, Finished, Partial};
    assert_eq!(ear.events(), [Endpoint, Partial, Finished]);
    assert_eq!(ear.told.lock().unwrap()[1].words, [9]);
}

/// Commits and segments together: what an end point closes takes its commits with it.
#[test]
fn commits_and_segments_go_together() {
    let mut rng = Rng(7);
    let mut data = Vec::new();
    while data.len() < 3 * 3_000 {
        let label = rng.below(3) as usize;
        let row = [0, 1, 2].map(|column| if column == label { 0.0 } else { -(rng.below(24) as f32) * 0.5 });
        data.extend_from_slice(&row);
        if rng.below(700) == 0 {
            data.extend(SILENCE.repeat(8));
        }
    }
    let commit = Some(CommitConfig { frames: 300, lattice_frames: 500 });
    for action in ACTIONS {
        for chunk in [1, 7, 32, 1000] {
            let decoder = decoder(chunk, &silent_end(8, action));
            let new_channel = || {
                let mut channel = decoder.new_channel().unwrap();
                channel.set_commit(commit).unwrap();
                channel.begin().unwrap();
                channel
            };
            let wanted = pushed(&mut new_channel(), rows(&data)).0;
            assert!(wanted.committed_frames > 0 && !wanted.committed.is_empty());
            assert!(action != EndpointAction::Segment || wanted.segments.len() > 1);
            let line = SharedChannel::new(decoder.new_channel().unwrap()).unwrap();
            line.write().unwrap().set_commit(commit).unwrap();
            line.begin().unwrap();
            let frames = rows(&data).frames();
            (0..frames).step_by(500).for_each(|from| line.submit(rows(&data).slice(from, 500)).unwrap());
            line.finish().unwrap();
            assert_eq!(wait(&line), None);
            assert_eq!(results(&mut line.write().unwrap()), wanted, "{action:?}, chunks of {chunk}");
        }
    }
}

/// A listener that does something with its channel at the first end point.
struct Doer<F> {
    line: Weak<SharedChannel>,
    ends: AtomicU64,
    finished: AtomicU64,
    failed: AtomicU64,
    act: F,
}

impl<F: Fn(&Arc<SharedChannel>) + Send + Sync + 'static> Doer<F> {
    fn on(line: &Arc<SharedChannel>, act: F) -> Arc<Doer<F>> {
        let doer = Doer {
            line: Arc::downgrade(line),
            ends: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            act,
        };
        let doer = Arc::new(doer);
        line.set_listener(Some(Arc::clone(&doer) as Arc<dyn Listener>)).unwrap();
        doer
    }

    /// End points, finishes and failures that were told.
    fn told(&self) -> [u64; 3] {
        [&self.ends, &self.finished, &self.failed].map(|count| count.load(Ordering::SeqCst))
    }
}

impl<F: Fn(&Arc<SharedChannel>) + Send + Sync> Listener for Doer<F> {
    fn partial(&self) {}

    fn endpoint(&self) {
        if self.ends.fetch_add(1, Ordering::SeqCst) == 0 {
            aloud(|| (self.act)(&self.line.upgrade().unwrap()));
        }
    }

    fn finished(&self) {
        self.finished.fetch_add(1, Ordering::SeqCst);
    }

    fn failed(&self, _: &Error) {
        self.failed.fetch_add(1, Ordering::SeqCst);
    }
}

/// Begun, finished, cancelled or freed from inside the end point's callback, with rows behind it in the queue.
#[test]
fn channels_are_used_from_inside_the_end_points_callback() {
    let data = [WORD, SILENCE, SILENCE, WORD, SILENCE, SILENCE, WORD].concat();
    for action in ACTIONS {
        for chunk in [1, 32] {
            let decoder = decoder(chunk, &silent_end(2, action));
            let name = format!("{action:?}, chunks of {chunk}");
            let segments = action == EndpointAction::Segment;

            // A new utterance: what is queued is forgotten, and the end point is looked for anew.
            let line = open_line(&decoder);
            let doer = Doer::on(&line, |line| {
                line.begin().unwrap();
                line.submit(rows(&[SILENCE, SILENCE, WORD].concat())).unwrap();
                line.finish().unwrap();
            });
            line.submit(rows(&data)).unwrap();
            assert_eq!(wait(&line), None, "{name}");
            assert_eq!(doer.told(), [2, 1, 0], "{name}");
            let channel = line.read().unwrap();
            assert_eq!((channel.num_frames(), channel.num_segments()), (3, u64::from(segments)), "{name}");
            assert_eq!(channel.endpoint().unwrap().unwrap().frames(), 2, "{name}");
            drop(channel);

            // Finished behind what is queued.
            let line = open_line(&decoder);
            let doer = Doer::on(&line, |line| line.finish().unwrap());
            line.submit(rows(&data)).unwrap();
            assert_eq!(wait(&line), None, "{name}");
            assert_eq!(doer.told(), [1 + u64::from(segments), 1, 0], "{name}");
            assert_eq!(line.read().unwrap().num_frames(), 7, "{name}");

            // Cancelled: nothing behind the turn's frames is searched.
            let line = open_line(&decoder);
            let doer = Doer::on(&line, |line| line.cancel());
            line.submit(rows(&data)).unwrap();
            assert!(wait(&line).is_some(), "{name}");
            assert_eq!(doer.told(), [1, 0, 1], "{name}");
            let frames = if chunk == 1 || action != EndpointAction::Note { 3 } else { 7 };
            assert_eq!(line.read().unwrap().num_frames(), frames, "{name}");

            // Freed: nothing more is told, and the decoder has room for another one.
            let line = open_line(&decoder);
            let doer = Doer::on(&line, |line| line.close());
            line.submit(rows(&data)).unwrap();
            assert!(matches!(line.wait(Some(Duration::from_secs(60))), Err(Error::Handle(_))), "{name}");
            while line.queued_frames() > 0 {
                thread::yield_now();
            }
            assert_eq!(doer.told(), [1, 0, 0], "{name}");
            drop(line);
            assert_eq!(decoder.metrics().queued_frames, 0, "{name}");
        }
    }
}

/// Rules are those of begin, whatever other threads set them to meanwhile.
#[test]
fn rules_change_while_channels_are_at_work() {
    let few = silent_end(2, EndpointAction::Segment);
    let many = silent_end(3, EndpointAction::Segment);
    let decoder = decoder(3, &few);
    let data = [WORD, SILENCE, SILENCE, WORD, SILENCE, SILENCE, SILENCE, WORD].concat();
    let over = AtomicBool::new(false);
    // Whether somebody has met rules with so many end points.
    let met = [const { AtomicBool::new(false) }; 3];
    let deadline = Instant::now() + Duration::from_secs(120);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut flip = false;
            while !over.load(Ordering::Relaxed) {
                decoder.set_endpoint_rules(Some(if flip { &few } else { &many })).unwrap();
                flip = !flip;
                thread::sleep(Duration::from_micros(50));
            }
        });
        let users: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let line = SharedChannel::new(decoder.new_channel().unwrap()).unwrap();
                    let mut round = 0;
                    while round < 200 || met[1..].iter().any(|met| !met.load(Ordering::Relaxed)) {
                        assert!(Instant::now() < deadline, "{met:?}");
                        round += 1;
                        let ear = Doer::on(&line, |_| ());
                        line.begin().unwrap();
                        line.submit(rows(&data)).unwrap();
                        line.finish().unwrap();
                        assert_eq!(wait(&line), None);
                        let ends = line.read().unwrap().num_segments();
                        assert_eq!(ear.told(), [ends, 1, 0]);
                        met[ends as usize].store(true, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> = users.into_iter().map(|user| user.join()).collect();
        over.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
    assert!(!met[0].load(Ordering::Relaxed));
}

/// Phrases that are set while rows are queued hold from the next frame that is searched, not from the next that
/// is submitted: a turn is never cut.
#[test]
fn phrases_set_while_rows_are_queued_hold_from_the_next_turn() {
    // Labels 2 and 3 score alike; a phrase decides.
    let either = [-9.0, 0.0, -0.25];
    let decoder = decoder(4, &silent_end(50, EndpointAction::Note));
    let line = open_line(&decoder);
    let ((entered, inside), (queued, more)) = (channel(), channel());
    struct Biases(Weak<SharedChannel>, Mutex<Option<(Sender<()>, Receiver<()>)>>);
    impl Listener for Biases {
        fn partial(&self) {
            if let Some((entered, more)) = self.1.lock().unwrap().take() {
                aloud(|| {
                    entered.send(()).unwrap();
                    // Nothing of them is searched before this callback has returned.
                    more.recv_timeout(Duration::from_secs(60)).unwrap();
                    let line = self.0.upgrade().unwrap();
                    line.write().unwrap().set_bias(&[Phrase { labels: &[8], bonus: 3.0 }]).unwrap();
                });
            }
        }
        fn endpoint(&self) {}
        fn finished(&self) {}
        fn failed(&self, _: &Error) {}
    }
    line.set_listener(Some(Arc::new(Biases(Arc::downgrade(&line), Mutex::new(Some((entered, more))))))).unwrap();
    line.submit(rows(&either.repeat(4))).unwrap();
    inside.recv_timeout(Duration::from_secs(60)).unwrap();
    line.submit(rows(&either.repeat(6))).unwrap();
    line.finish().unwrap();
    queued.send(()).unwrap();
    assert_eq!(wait(&line), None);
    let words = line.read().unwrap().best_path(false).unwrap().olabels;
    assert_eq!(words, [[7; 4].as_slice(), &[8; 6]].concat());
}
