//! Bytes taken for a script of calls through the C face on denominator graphs and supervisions: read (also damaged),
//! merged, written, counted and freed in any order, scored with matrices of any sizes, strides and numbers, handles that
//! are stale, of another type or wild. No call crashes or answers what the header does not know; what fails writes
//! nothing, what succeeds writes finite numbers into its matrix alone; results are those of fresh objects, with any
//! number of threads, and objective, numerator and denominator agree; no handle is left.

use std::ptr;

use koshi::ffi::*;

use super::chain_calls::{Config, FLAWS, Flaw, Wide, config, denominator, numerator, objective, penalty};
use super::face::{self, Alone, Bytes, fill, free, free_made, make};

/// More calls tell nothing new.
const MOST_CALLS: usize = 60;
/// Larger batches neither.
const MOST_ROWS: usize = 64;
const HANDLE: koshi_status = koshi_status_code::KOSHI_E_HANDLE as koshi_status;
const DEN: &[u8] = include_bytes!("../seeds/chain_files/den");
const SAID: [&[u8]; 3] = [
    include_bytes!("../seeds/chain_files/joined"),
    include_bytes!("../seeds/chain_files/end_to_end"),
    include_bytes!("../seeds/chain_files/binary"),
];
const PDFS: usize = 2;

pub fn run(bytes: &[u8]) -> bool {
    let alone = Alone::new();
    let mut script = Script::default();
    Bytes(bytes).steps(MOST_CALLS, |bytes| script.step(bytes));
    script.end();
    alone.end();
    true
}

/// Handles of each type that stand a free, and all that there ever were.
#[derive(Default)]
struct Script {
    graphs: Vec<*mut koshi_den_graph>,
    /// What each graph was read from.
    files: Vec<(*mut koshi_den_graph, Vec<u8>)>,
    said: Vec<*mut koshi_supervision>,
    handles: Vec<usize>,
}

impl Script {
    fn step(&mut self, bytes: &mut Bytes) {
        let kind = bytes.next();
        if self.graphs.is_empty() {
            self.read_graph(DEN, PDFS);
        }
        if self.said.is_empty() {
            self.read_said(SAID[bytes.below(SAID.len())]);
        }
        let (graph, said) = (self.graphs[bytes.below(self.graphs.len())], self.said[bytes.below(self.said.len())]);
        match kind % 16 {
            0 => {
                let (data, pdfs) = (damaged(DEN, bytes), bytes.mostly(PDFS, &[0, 1, 3, 1 << 40, usize::MAX]));
                self.read_graph(&data, pdfs);
            }
            1 => self.read_said(&damaged(SAID[bytes.below(SAID.len())], bytes)),
            2 => self.merge(bytes),
            3..8 => self.objective(graph, said, bytes),
            8 | 9 => self.denominator(graph, bytes),
            10 => self.numerator(said, bytes),
            11 => penalty(bytes),
            12 => self.copies(said, bytes),
            13 if self.graphs.len() > 1 => {
                free(koshi_den_graph_free, graph);
                let at = self.graphs.iter().position(|other| *other == graph).expect("one of them");
                self.graphs.remove(at);
            }
            13 => {
                // SAFETY: a live handle.
                let counted = unsafe { koshi_den_graph_ref(graph) };
                assert_eq!(counted, graph);
                self.graphs.push(counted);
            }
            14 if self.said.len() > 1 => {
                free(koshi_supervision_free, said);
                let at = self.said.iter().position(|other| *other == said).expect("one of them");
                self.said.remove(at);
            }
            _ => self.wrong_handles(graph, said, bytes),
        }
    }

    fn read_graph(&mut self, data: &[u8], pdfs: usize) {
        // SAFETY: an array with its length, a place for the result.
        let made = make(|out, err| unsafe { koshi_den_graph_from_memory(data.as_ptr(), data.len(), pdfs, out, err) });
        assert!(made.is_some() || data != DEN || pdfs != PDFS);
        if let Some(graph) = made {
            let mut len = 0;
            // SAFETY: a live handle; an array that lives as long.
            unsafe {
                let probs = koshi_den_graph_initial_probs(graph, &mut len);
                assert_eq!(koshi_den_graph_num_states(graph), len as i64);
                let probs = std::slice::from_raw_parts(probs, len);
                assert!(probs.iter().all(|prob| (0.0..=1.0).contains(prob)), "{probs:?}");
            }
            self.handles.push(graph as usize);
            self.graphs.push(graph);
            self.files.push((graph, data.to_vec()));
        }
    }

    fn read_said(&mut self, data: &[u8]) {
        // SAFETY: as above.
        let made = make(|out, err| unsafe { koshi_supervision_from_memory(data.as_ptr(), data.len(), out, err) });
        assert!(made.is_some() || !SAID.contains(&data));
        if let Some(said) = made {
            self.handles.push(said as usize);
            self.said.push(said);
        }
    }

    /// The same graph, read anew.
    fn fresh_graph(&self, graph: *mut koshi_den_graph) -> *mut koshi_den_graph {
        let (_, data) = self.files.iter().find(|(other, _)| *other == graph).expect("a graph that was read");
        let (data, size) = (data.as_ptr(), data.len());
        // SAFETY: a live handle, an array with its length, a place for the result.
        unsafe {
            let pdfs = koshi_den_graph_num_pdfs(graph) as usize;
            make(|out, err| koshi_den_graph_from_memory(data, size, pdfs, out, err)).expect("read before")
        }
    }

    fn merge(&mut self, bytes: &mut Bytes) {
        let mut parts: Vec<*const koshi_supervision> =
            (0..bytes.below(4)).map(|_| self.said[bytes.below(self.said.len())].cast_const()).collect();
        let is_bad = bytes.next() >= 240;
        if is_bad {
            parts.push(ptr::without_provenance(face::wrong(&[], bytes)));
        }
        // SAFETY: handles may be anything; an array with its length, a place for the result.
        unsafe {
            let sequences: i64 = parts.iter().map(|part| koshi_supervision_num_sequences(*part)).sum();
            let made = make(|out, err| koshi_supervision_merge(parts.as_ptr(), parts.len(), out, err));
            assert!(made.is_none() || !is_bad && !parts.is_empty());
            if let Some(merged) = made {
                assert_eq!(koshi_supervision_num_sequences(merged), sequences);
                if sequences > 16 {
                    return free(koshi_supervision_free, merged); // larger ones only take long
                }
                self.handles.push(merged as usize);
                self.said.push(merged);
            }
        }
    }

    /// What is written is read again and written the same.
    fn copies(&mut self, said: *mut koshi_supervision, bytes: &mut Bytes) {
        let binary = i32::from(bytes.next() & 1);
        // SAFETY: live handles, places for results; arrays live as long as their owners.
        unsafe {
            let written = |said| make(|out, err| koshi_supervision_to_memory(said, binary, out, err)).expect("bytes");
            let text = |buffer| {
                std::slice::from_raw_parts(koshi_buffer_data(buffer), koshi_buffer_size(buffer) as usize).to_vec()
            };
            let buffer = written(said);
            let data = text(buffer);
            let again = make(|out, err| koshi_supervision_from_memory(data.as_ptr(), data.len(), out, err));
            // Costs of seven digits may be out of range.
            assert!(again.is_some() || binary == 0, "own bytes are read");
            if let Some(again) = again {
                let other = written(again);
                assert!(text(other) == data);
                free(koshi_buffer_free, other);
                free(koshi_supervision_free, again);
            }
            free(koshi_buffer_free, buffer);
        }
    }

    /// A batch of good sizes for what was said, if it is not too large.
    fn batch(&self, said: *mut koshi_supervision, bytes: &mut Bytes) -> Option<Wide> {
        // SAFETY: a live handle.
        let (sequences, frames, pdfs) = unsafe {
            (
                koshi_supervision_num_sequences(said) as usize,
                koshi_supervision_frames_per_sequence(said) as usize,
                koshi_supervision_num_pdfs(said) as usize,
            )
        };
        let rows = sequences.checked_mul(frames).filter(|rows| *rows <= MOST_ROWS && pdfs <= 8)?;
        Some(Wide::new(rows, pdfs, pdfs + bytes.below(3), bytes))
    }

    fn objective(&mut self, graph: *mut koshi_den_graph, said: *mut koshi_supervision, bytes: &mut Bytes) {
        let Some(output) = self.batch(said, bytes) else { return };
        let rows = output.rows;
        let weights: Vec<f32> = (0..rows).map(|_| f32::from(bytes.next() % 4) * 0.5).collect();
        let mut config = config(bytes);
        if bytes.next() < 64 {
            (config.deriv_weights, config.num_deriv_weights) =
                (weights.as_ptr(), bytes.mostly(rows as u64, &[0, rows as u64 - 1, u64::MAX]));
        }
        let flaw = bytes.mostly(Flaw::None, &FLAWS);
        let wanted = bytes.next();
        let one = objective(graph, said, &config, &output, flaw, wanted);
        assert!(flaw == Flaw::None || one.status < 0);
        // SAFETY: live handles, places for results.
        unsafe {
            let fits = koshi_den_graph_num_pdfs(graph) == koshi_supervision_num_pdfs(said);
            assert!(fits || one.status < 0);
            if one.status < 0 {
                return;
            }
            config.num_threads = other_threads(&config);
            let (other, again) = (self.fresh_graph(graph), fresh_said(said));
            assert_eq!(one, objective(other, again, &config, &output, flaw, wanted));
            free(koshi_den_graph_free, other);
            free(koshi_supervision_free, again);
            // The parts give the same, where there is a result and they count alike.
            let sequences = koshi_supervision_num_sequences(said) as usize;
            let (den, num) = (
                denominator(graph, &config, sequences, None, &output, Flaw::None, 0),
                numerator(said, &output, Flaw::None, 0),
            );
            if one.status == 0 && den.status == 0 && num.status == 0 && koshi_supervision_is_end_to_end(said) == 0 {
                let weight = f64::from(koshi_supervision_weight(said));
                let [objf, ..] = one.numbers.map(f64::from_bits);
                let [num, den] = [num.numbers[0], den.numbers[0]].map(f64::from_bits);
                let sum = num - weight * den;
                assert!((objf - sum).abs() <= 1e-3 * (1.0 + num.abs() + den.abs()), "{objf} {num} {den} {weight}");
            }
        }
    }

    fn denominator(&mut self, graph: *mut koshi_den_graph, bytes: &mut Bytes) {
        let (sequences, frames) = (1 + bytes.below(4), 1 + bytes.below(5));
        // SAFETY: a live handle.
        let pdfs = unsafe { koshi_den_graph_num_pdfs(graph) } as usize;
        if pdfs > 8 {
            return;
        }
        let output = Wide::new(sequences * frames, pdfs, pdfs + bytes.below(3), bytes);
        let rows = sequences * frames;
        // As many as any number of sequences that is believed.
        let lengths: Vec<u32> = (0..=rows).map(|_| bytes.below(frames + 1) as u32).collect();
        let too_long: Vec<u32> = lengths.iter().map(|length| length + bytes.below(2) as u32).collect();
        let lengths = [None, Some(&lengths[..]), Some(&too_long[..])][bytes.below(3)];
        let (flaw, mut config) = (bytes.mostly(Flaw::None, &FLAWS), config(bytes));
        let wanted = bytes.next();
        let told = bytes.mostly(sequences, &[0, rows + 1, usize::MAX, sequences + 1]);
        // A row more may well be what so many sequences have.
        let is_good = flaw == Flaw::Rows(1) && (rows + 1).checked_rem(told) == Some(0);
        let flaw = if is_good { Flaw::None } else { flaw };
        let one = denominator(graph, &config, told, lengths, &output, flaw, wanted);
        let is_long =
            lengths.is_some_and(|lengths| told <= rows && lengths[..told].iter().any(|&l| l as usize * told > rows));
        assert!(one.status < 0 || flaw == Flaw::None && told > 0 && rows.is_multiple_of(told) && !is_long);
        if one.status >= 0 {
            config.num_threads = other_threads(&config);
            assert_eq!(one, denominator(graph, &config, told, lengths, &output, flaw, wanted));
        }
    }

    fn numerator(&mut self, said: *mut koshi_supervision, bytes: &mut Bytes) {
        let Some(output) = self.batch(said, bytes) else { return };
        let (flaw, wanted) = (bytes.mostly(Flaw::None, &FLAWS), bytes.next());
        let one = numerator(said, &output, flaw, wanted);
        assert!(flaw == Flaw::None || one.status < 0);
        if one.status >= 0 {
            let fresh = fresh_said(said);
            assert_eq!(one, numerator(fresh, &output, flaw, wanted));
            free(koshi_supervision_free, fresh);
        }
    }

    fn wrong_handles(&mut self, graph: *mut koshi_den_graph, said: *mut koshi_supervision, bytes: &mut Bytes) {
        let (one, kind) = (face::wrong(&self.handles, bytes), bytes.next());
        let is_graph = face::is_live("koshi_den_graph", one);
        let is_said = face::is_live("koshi_supervision", one);
        let (at_graph, at_said) = (one as *const koshi_den_graph, one as *const koshi_supervision);
        let output = Wide::new(2, PDFS, PDFS, &mut Bytes(&[]));
        let config = config(&mut Bytes(&[]));
        let told = |is_live: bool, status: koshi_status| assert_eq!(status == HANDLE, !is_live, "{kind}: {one:#x}");
        let mut len = 7;
        // SAFETY: handles may be anything; arrays with their lengths, places for results.
        unsafe {
            match kind % 12 {
                0 => told(is_graph, objective(at_graph, said, &config, &output, Flaw::None, 3).status),
                1 => told(is_said, objective(graph, at_said, &config, &output, Flaw::None, 3).status),
                2 => told(is_graph, denominator(at_graph, &config, 1, None, &output, Flaw::None, 3).status),
                3 => told(is_said, numerator(at_said, &output, Flaw::None, 3).status),
                4 => {
                    assert_eq!(koshi_den_graph_num_states(at_graph) >= 0, is_graph);
                    assert_eq!(koshi_den_graph_num_pdfs(at_graph) >= 0, is_graph);
                    assert_eq!(!koshi_den_graph_initial_probs(at_graph, &mut len).is_null(), is_graph);
                    assert!(is_graph || len == 0);
                }
                5 => {
                    assert_eq!(koshi_supervision_num_sequences(at_said) >= 0, is_said);
                    assert_eq!(koshi_supervision_frames_per_sequence(at_said) >= 0, is_said);
                    assert_eq!(koshi_supervision_num_pdfs(at_said) >= 0, is_said);
                    assert_eq!(koshi_supervision_is_end_to_end(at_said) >= 0, is_said);
                    assert!(is_said || koshi_supervision_weight(at_said).is_nan());
                }
                6 => {
                    let counted = koshi_den_graph_ref(at_graph);
                    assert_eq!(!counted.is_null(), is_graph);
                    free(koshi_den_graph_free, counted);
                }
                7 => {
                    let counted = koshi_supervision_ref(at_said);
                    assert_eq!(!counted.is_null(), is_said);
                    free(koshi_supervision_free, counted);
                }
                // One of the other type, or none that lives.
                8 if !is_graph => assert_eq!(koshi_den_graph_free(at_graph.cast_mut()) == 0, one == 0),
                9 if !is_said => assert_eq!(koshi_supervision_free(at_said.cast_mut()) == 0, one == 0),
                10 => {
                    let made = make(|out, err| koshi_supervision_to_memory(at_said, 1, out, err));
                    assert_eq!(made.is_some(), is_said);
                    free_made(koshi_buffer_free, made);
                }
                _ => {
                    let size = bytes.below(2 * size_of::<koshi_chain_config>());
                    fill(size, |out, size, err| koshi_chain_config_init(out, size, err));
                }
            }
        }
    }

    fn end(self) {
        self.graphs.into_iter().for_each(|graph| free(koshi_den_graph_free, graph));
        self.said.into_iter().for_each(|said| free(koshi_supervision_free, said));
    }
}

/// The bytes of a file, seldom with one of them changed or cut short.
fn damaged(data: &[u8], bytes: &mut Bytes) -> Vec<u8> {
    let mut data = data.to_vec();
    match bytes.next() {
        0..160 => {}
        160..240 => {
            let at = usize::from(bytes.next()) % data.len();
            data[at] = bytes.next();
        }
        _ => data.truncate(usize::from(bytes.next()) % data.len()),
    }
    data
}

/// Another number of threads, seldom many: they take long to make.
fn other_threads(config: &Config) -> u32 {
    if config.seed % 8 == 7 { 3 } else { 1 }
}

/// What was said, written and read anew.
fn fresh_said(said: *mut koshi_supervision) -> *mut koshi_supervision {
    // SAFETY: as above.
    unsafe {
        let buffer = make(|out, err| koshi_supervision_to_memory(said, 1, out, err)).expect("bytes");
        let (data, size) = (koshi_buffer_data(buffer), koshi_buffer_size(buffer) as usize);
        let made = make(|out, err| koshi_supervision_from_memory(data, size, out, err)).expect("own bytes are read");
        free(koshi_buffer_free, buffer);
        made
    }
}
