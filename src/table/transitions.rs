//! The transition model: what a transition-id stands for.

use super::holder::Holder;
use super::input::Input;
use super::output::Output;
use super::topology::{Topology, read_count};
use super::vector::{read_vector, write_vector};
use crate::error::{Error, Result, try_push, try_reserve};

/// The transition model of an acoustic model.
///
/// A *transition-state* is a state of a phone's HMM together with its pdfs; its transitions are numbered through as
/// *transition-ids*, from 1. Pdfs count from 0, phones, transition-states and transition-ids from 1, HMM states from 0.
#[derive(Debug, Default)]
pub struct Transitions {
    topology: Topology,
    tuples: Vec<Tuple>,
    /// Written as `<Tuples>`, in which self-loops have pdfs of their own, rather than as `<Triples>`.
    with_self_loop_pdfs: bool,
    /// By transition-id; the first one is unused.
    log_probs: Vec<f32>,
    ids: Vec<Id>,
    num_pdfs: u32,
}

/// A transition-state.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tuple {
    phone: i32,
    hmm_state: i32,
    forward_pdf: i32,
    self_loop_pdf: i32,
}

/// What is asked of a transition-id.
#[derive(Clone, Copy, Debug)]
struct Id {
    pdf: u32,
    /// Counted from 0.
    transition_state: u32,
    is_self_loop: bool,
    is_final: bool,
}

impl Transitions {
    /// Number of transition-ids; they run from 1 to this.
    pub fn num_ids(&self) -> i32 {
        self.ids.len() as i32
    }

    /// Number of pdfs: one more than the greatest.
    pub fn num_pdfs(&self) -> i32 {
        self.num_pdfs as i32
    }

    /// Number of phones.
    pub fn num_phones(&self) -> i32 {
        self.topology.phones().len() as i32
    }

    /// The phones in ascending order.
    pub fn phones(&self) -> &[i32] {
        self.topology.phones()
    }

    /// Number of transition-states; they run from 1 to this.
    pub fn num_transition_states(&self) -> i32 {
        self.tuples.len() as i32
    }

    fn id(&self, id: i32) -> Option<&Id> {
        self.ids.get(usize::try_from(id).ok()?.checked_sub(1)?)
    }

    fn tuple(&self, id: i32) -> Option<&Tuple> {
        self.tuples.get(self.id(id)?.transition_state as usize)
    }

    /// Pdf of a transition-id, `None` outside `1..=num_ids`.
    pub fn pdf(&self, id: i32) -> Option<u32> {
        Some(self.id(id)?.pdf)
    }

    /// Phone of a transition-id, `None` outside `1..=num_ids`.
    pub fn phone(&self, id: i32) -> Option<i32> {
        Some(self.tuple(id)?.phone)
    }

    /// State within the phone's HMM of a transition-id, `None` outside `1..=num_ids`.
    pub fn hmm_state(&self, id: i32) -> Option<i32> {
        Some(self.tuple(id)?.hmm_state)
    }

    /// Transition-state of a transition-id, `None` outside `1..=num_ids`.
    pub fn transition_state(&self, id: i32) -> Option<i32> {
        Some(self.id(id)?.transition_state as i32 + 1)
    }

    /// Whether a transition-id stays in its HMM state; false outside `1..=num_ids`.
    pub fn is_self_loop(&self, id: i32) -> bool {
        self.id(id).is_some_and(|id| id.is_self_loop)
    }

    /// Whether a transition-id leads to the last state of the phone's HMM and so ends the phone; false outside
    /// `1..=num_ids`.
    pub fn is_final(&self, id: i32) -> bool {
        self.id(id).is_some_and(|id| id.is_final)
    }

    /// Natural log-probability of a transition-id, `None` outside `1..=num_ids`.
    pub fn log_prob(&self, id: i32) -> Option<f32> {
        self.id(id)?;
        self.log_probs.get(usize::try_from(id).ok()?).copied()
    }

    /// Reads the model from a file given by its rxfilename: a transition model alone, or a whole acoustic model
    /// (`final.mdl`, in which a GMM or a network follows, which is not read).
    pub fn read_file(rxfilename: &str) -> Result<Self> {
        super::holder::read_file::<TransitionsHolder>(rxfilename)
    }

    /// Reads the model, `<TransitionModel>` to `</TransitionModel>`; nothing behind it is touched.
    pub fn read(input: &mut Input, binary: bool) -> Result<Self> {
        input.expect_token(binary, "<TransitionModel>")?;
        let topology = Topology::read(input, binary)?;
        let (tuples, with_self_loop_pdfs) = read_tuples(input, binary)?;
        let start = input.offset();
        let wrong = |input: &Input, why| input.format_error_at(start, why);
        let num_ids = count_ids(&topology, &tuples).map_err(|why| wrong(input, why))?;
        input.expect_token(binary, "<LogProbs>")?;
        let start = input.offset();
        let log_probs: Vec<f32> = read_vector(input, binary)?;
        // Only now: a short file may claim more transition-ids than fit any memory.
        if log_probs.len() as u64 != num_ids + 1 {
            let message = format!("{} log-probabilities for {num_ids} transition-ids", log_probs.len());
            return Err(input.format_error_at(start, message));
        }
        if let Some(id) = log_probs.iter().skip(1).position(|p| !(p.is_finite() && *p <= 0.0)) {
            let message = format!("transition-id {} has the log-probability {}", id + 1, log_probs[id + 1]);
            return Err(input.format_error_at(start, message));
        }
        input.expect_token(binary, "</LogProbs>")?;
        input.expect_token(binary, "</TransitionModel>")?;
        let ids = number_ids(&topology, &tuples, num_ids as usize)?;
        let num_pdfs = tuples.iter().map(|t| t.forward_pdf.max(t.self_loop_pdf) as u32 + 1).max().unwrap_or(0);
        Ok(Transitions { topology, tuples, with_self_loop_pdfs, log_probs, ids, num_pdfs })
    }

    /// Writes the model, in the forms in which it was read.
    pub fn write(&self, output: &mut Output, binary: bool) -> Result<()> {
        let line_end = if binary { "" } else { "\n" };
        let token = |output: &mut Output, token: &str| {
            output.write_token(token)?;
            output.write_text(line_end)
        };
        token(output, "<TransitionModel>")?;
        self.topology.write(output, binary)?;
        let (open, close) = match self.with_self_loop_pdfs {
            true => ("<Tuples>", "</Tuples>"),
            false => ("<Triples>", "</Triples>"),
        };
        output.write_token(open)?;
        let count = i32::try_from(self.tuples.len());
        output.write_i32(binary, count.map_err(|_| Error::Unsupported("too many transition-states".to_string()))?)?;
        output.write_text(line_end)?;
        for tuple in &self.tuples {
            output.write_i32(binary, tuple.phone)?;
            output.write_i32(binary, tuple.hmm_state)?;
            output.write_i32(binary, tuple.forward_pdf)?;
            if self.with_self_loop_pdfs {
                output.write_i32(binary, tuple.self_loop_pdf)?;
            }
            output.write_text(line_end)?;
        }
        token(output, close)?;
        token(output, "<LogProbs>")?;
        write_vector(output, &self.log_probs, binary)?;
        token(output, "</LogProbs>")?;
        token(output, "</TransitionModel>")
    }
}

/// Reads the transition-states; tells whether they have pdfs of their own for self-loops.
fn read_tuples(input: &mut Input, binary: bool) -> Result<(Vec<Tuple>, bool)> {
    let with_self_loop_pdfs = input.peek_token(binary)?.as_deref() == Some("<Tuples>");
    let (open, close) = if with_self_loop_pdfs { ("<Tuples>", "</Tuples>") } else { ("<Triples>", "</Triples>") };
    input.expect_token(binary, open)?;
    let mut tuples = Vec::new();
    for _ in 0..read_count(input, binary, "transition-states")? {
        let start = input.offset();
        let (phone, hmm_state) = (input.read_i32(binary)?, input.read_i32(binary)?);
        let forward_pdf = input.read_i32(binary)?;
        let self_loop_pdf = if with_self_loop_pdfs { input.read_i32(binary)? } else { forward_pdf };
        // One less than the greatest, so that the number of pdfs is an int32 as well.
        if !(0..i32::MAX).contains(&forward_pdf) || !(0..i32::MAX).contains(&self_loop_pdf) {
            let message = format!("a transition-state has the pdfs {forward_pdf} and {self_loop_pdf}");
            return Err(input.format_error_at(start, message));
        }
        try_push(&mut tuples, Tuple { phone, hmm_state, forward_pdf, self_loop_pdf }, "transition-states")?;
    }
    input.expect_token(binary, close)?;
    Ok((tuples, with_self_loop_pdfs))
}

/// The transitions of a transition-state: next HMM state and whether the phone ends there.
fn transitions_of<'a>(
    topology: &'a Topology,
    tuple: &Tuple,
) -> Option<impl ExactSizeIterator<Item = (i32, bool)> + 'a> {
    let entry = topology.entry(tuple.phone)?;
    let state = entry.get(usize::try_from(tuple.hmm_state).ok()?)?;
    let last = entry.len() as i32 - 1;
    Some(state.transitions.iter().map(move |&(next, _)| (next, next == last)))
}

/// Checks every transition-state against the topology and counts the transition-ids.
fn count_ids(topology: &Topology, tuples: &[Tuple]) -> Result<u64, String> {
    let mut count = 0;
    for (number, tuple) in tuples.iter().enumerate() {
        let transitions = transitions_of(topology, tuple).ok_or_else(|| {
            let Tuple { phone, hmm_state, .. } = tuple;
            format!("transition-state {} is state {hmm_state} of phone {phone}, which does not exist", number + 1)
        })?;
        count += transitions.len() as u64;
    }
    match count {
        0 => Err("there are no transition-ids".to_string()),
        1..=0x7fff_fffe => Ok(count),
        _ => Err(format!("{count} transition-ids are too many")),
    }
}

fn number_ids(topology: &Topology, tuples: &[Tuple], count: usize) -> Result<Vec<Id>> {
    let mut ids = Vec::new();
    try_reserve(&mut ids, count, "transition-ids")?;
    for (number, tuple) in tuples.iter().enumerate() {
        for (next, is_final) in transitions_of(topology, tuple).into_iter().flatten() {
            let is_self_loop = next == tuple.hmm_state;
            let pdf = if is_self_loop { tuple.self_loop_pdf } else { tuple.forward_pdf };
            ids.push(Id { pdf: pdf as u32, transition_state: number as u32, is_self_loop, is_final });
        }
    }
    Ok(ids)
}

/// The transition model as the object at the beginning of a file.
pub struct TransitionsHolder;

impl Holder for TransitionsHolder {
    type Value = Transitions;

    fn read(input: &mut Input) -> Result<Transitions> {
        let binary = input.binary_header()?;
        Transitions::read(input, binary)
    }

    fn write(output: &mut Output, value: &Transitions, binary: bool) -> Result<()> {
        output.write_header(binary)?;
        value.write(output, binary)
    }
}
