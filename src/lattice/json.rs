//! Words and lattices as JSON, for programs that have no reader of Kaldi's forms.

use std::io::Write;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::{Alternative, CompactLattice, Lattice, LatticeWeight, Words};
use crate::error::{Error, Result, try_reserve};
use crate::table::SymbolTable;

/// How words are written.
#[derive(Clone, Copy)]
pub struct WordsJson<'a> {
    /// Name of the utterance; left out where there is none.
    pub utterance: Option<&'a str>,
    /// Seconds from one frame to the next.
    pub frame_shift: f32,
    /// Texts of the words; left out where there is no table.
    pub symbols: Option<&'a SymbolTable>,
}

impl Words {
    /// One object: `utterance`, `words` (each with `word`, `text`, `start`, `duration`, `confidence`, `bin`),
    /// `expected_errors`, and `bins` (each with `start`, `duration` and `alternatives`, the likeliest first, of `word`,
    /// `text`, `posterior`). Times are in seconds, multiplied in binary32. Symbols that are not UTF-8 have U+FFFD for
    /// what is not.
    ///
    /// Fails with [`Error::Config`] for a frame shift that is not finite and above 0, with [`Error::Argument`] for a
    /// word that is not in the table.
    pub fn to_json(&self, format: &WordsJson) -> Result<Vec<u8>> {
        let shift = format.frame_shift;
        if !(shift.is_finite() && shift > 0.0) {
            return Err(Error::Config(format!("frame-shift is {shift}; it must be finite and above 0")));
        }
        let alternatives = self.alternatives.iter().map(|other| other.label);
        check_symbols(self.labels().chain(alternatives), format.symbols)?;
        written(|serializer| {
            let mut object = serializer.serialize_map(None)?;
            if let Some(utterance) = format.utterance {
                object.serialize_entry("utterance", utterance)?;
            }
            let words = self.words.iter().map(|word| WordObject {
                word: word.label,
                text: text(word.label, format.symbols),
                start: shift * word.start,
                duration: shift * word.frames,
                confidence: word.confidence,
                bin: word.bin,
            });
            object.serialize_entry("words", &Listed(words))?;
            object.serialize_entry("expected_errors", &self.expected_errors)?;
            let bins = self.bins.iter().enumerate().map(|(at, bin)| BinObject {
                start: shift * bin.start,
                duration: shift * bin.frames,
                alternatives: Listed(self.alternatives_of(at).iter().map(|other| alternative(other, format.symbols))),
            });
            object.serialize_entry("bins", &Listed(bins))?;
            object.end()
        })
    }
}

impl Lattice {
    /// One object: `compact`, `num_frames`, `acoustic_scale`, `reached_final`; `states`, each with its `time` (null
    /// where paths differ) and, if a path may end there, `final` with `graph`, `acoustic` and `transition_ids`; `arcs`,
    /// each with `from`, `to`, `word`, `text`, `graph`, `acoustic` and `transition_ids`. State 0 is the start. Costs
    /// are negative natural logs, acoustic ones without the scale. Texts as in [`Words::to_json`].
    pub fn to_json(&self, symbols: Option<&SymbolTable>) -> Result<Vec<u8>> {
        check_symbols(self.arcs().iter().map(|arc| arc.olabel), symbols)?;
        written(|serializer| {
            let mut object = serializer.serialize_map(None)?;
            object.serialize_entry("compact", &self.is_compact())?;
            object.serialize_entry("num_frames", &self.num_frames())?;
            object.serialize_entry("acoustic_scale", &self.acoustic_scale())?;
            object.serialize_entry("reached_final", &self.reached_final())?;
            let states = self.finals().iter().zip(0..).map(|(weight, state)| StateObject {
                time: self.times().get(state as usize).copied(),
                last: ending(self, state, *weight),
            });
            object.serialize_entry("states", &Listed(states))?;
            let arcs = (0..self.num_states()).flat_map(|state| {
                let range = self.offsets()[state] as usize..self.offsets()[state + 1] as usize;
                range.map(move |at| arc_object(self, state, at, symbols))
            });
            object.serialize_entry("arcs", &Listed(arcs))?;
            object.end()
        })
    }
}

impl CompactLattice {
    /// As [`Lattice::to_json`].
    pub fn to_json(&self, symbols: Option<&SymbolTable>) -> Result<Vec<u8>> {
        // A copy that may fail for lack of memory.
        Lattice::Compact(self.prune(f32::INFINITY, self.acoustic_scale)?).to_json(symbols)
    }
}

#[derive(Serialize)]
struct WordObject<'a> {
    word: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    start: f32,
    duration: f32,
    confidence: f32,
    bin: u32,
}

#[derive(Serialize)]
struct BinObject<A> {
    start: f32,
    duration: f32,
    alternatives: A,
}

#[derive(Serialize)]
struct AlternativeObject<'a> {
    word: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    posterior: f32,
}

fn alternative<'a>(other: &Alternative, symbols: Option<&'a SymbolTable>) -> AlternativeObject<'a> {
    AlternativeObject { word: other.label, text: text(other.label, symbols), posterior: other.posterior }
}

#[derive(Serialize)]
struct StateObject<'a> {
    time: Option<u32>,
    #[serde(rename = "final", skip_serializing_if = "Option::is_none")]
    last: Option<FinalObject<'a>>,
}

#[derive(Serialize)]
struct FinalObject<'a> {
    graph: f32,
    acoustic: f32,
    transition_ids: &'a [i32],
}

fn ending(lattice: &Lattice, state: u32, weight: LatticeWeight) -> Option<FinalObject<'_>> {
    let LatticeWeight { graph, acoustic } = weight;
    (!weight.is_absent()).then(|| FinalObject { graph, acoustic, transition_ids: lattice.final_string(state) })
}

#[derive(Serialize)]
struct ArcObject<'a> {
    from: usize,
    to: u32,
    word: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    graph: f32,
    acoustic: f32,
    transition_ids: &'a [i32],
}

fn arc_object<'a>(lattice: &'a Lattice, from: usize, at: usize, symbols: Option<&'a SymbolTable>) -> ArcObject<'a> {
    let arc = lattice.arcs()[at];
    let LatticeWeight { graph, acoustic } = arc.weight;
    let (word, text) = (arc.olabel, text(arc.olabel, symbols));
    ArcObject { from, to: arc.next, word, text, graph, acoustic, transition_ids: lattice.string(at) }
}

/// A symbol; what is not UTF-8 in it is replaced as it is written.
pub(super) struct Text<'a>(&'a [u8]);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(self.0))
    }
}

pub(super) fn text<'a>(word: i32, symbols: Option<&'a SymbolTable>) -> Option<Text<'a>> {
    symbols.and_then(|table| table.name(word)).map(Text)
}

/// What an iterator gives, as an array.
pub(super) struct Listed<I>(pub I);

impl<I> Serialize for Listed<I>
where
    I: Iterator<Item: Serialize> + Clone,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

pub(super) fn check_symbols(words: impl Iterator<Item = i32>, symbols: Option<&SymbolTable>) -> Result<()> {
    let Some(table) = symbols else { return Ok(()) };
    for word in words {
        if table.name(word).is_none() {
            return Err(Error::Argument(format!("word {word} is not in the symbol table")));
        }
    }
    Ok(())
}

/// Bytes that ask for memory before they grow.
#[derive(Default)]
pub(super) struct Growing {
    bytes: Vec<u8>,
    refused: Option<Error>,
}

impl Write for Growing {
    fn write(&mut self, more: &[u8]) -> std::io::Result<usize> {
        if let Err(error) = try_reserve(&mut self.bytes, more.len(), "JSON text") {
            self.refused = Some(error);
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(super) type JsonResult = Result<(), serde_json::Error>;

pub(super) fn written(write: impl FnOnce(&mut serde_json::Serializer<&mut Growing>) -> JsonResult) -> Result<Vec<u8>> {
    let mut growing = Growing::default();
    let outcome = write(&mut serde_json::Serializer::new(&mut growing));
    match (outcome, growing.refused) {
        (Ok(()), _) => Ok(growing.bytes),
        (Err(_), Some(refused)) => Err(refused),
        (Err(error), None) => Err(Error::Internal(format!("writing JSON: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::table::Input;

    fn lattice() -> Lattice {
        let text = b"\n0\t1\t5\t0.5,2,7_8\n0\t1\t6\t1,2,7_8\n1\t0.25,0,9\n\n";
        Lattice::read(&mut Input::from_bytes("lattice", text.to_vec())).unwrap()
    }

    fn symbols(bytes: &[u8]) -> SymbolTable {
        SymbolTable::read(&mut Input::from_bytes("words", bytes.to_vec())).unwrap()
    }

    #[test]
    fn a_lattice_by_hand() {
        let table = symbols(b"<eps> 0\na\"b 5\n\xff\\ 6\n");
        let found: Value = serde_json::from_slice(&lattice().to_json(Some(&table)).unwrap()).unwrap();
        let arc = |word, text, graph| json!({"from": 0, "to": 1, "word": word, "text": text, "graph": graph, "acoustic": 2.0, "transition_ids": [7, 8]});
        let last = json!({"graph": 0.25, "acoustic": 0.0, "transition_ids": [9]});
        let wanted = json!({
            "compact": true, "num_frames": 3, "acoustic_scale": 1.0, "reached_final": true,
            "states": [{"time": 0}, {"time": 2, "final": last}],
            "arcs": [arc(5, "a\"b", 0.5), arc(6, "\u{fffd}\\", 1.0)],
        });
        assert_eq!(found, wanted);
        assert!(lattice().to_json(Some(&symbols(b"x 5\n"))).unwrap_err().to_string().contains("word 6 is not"));
        let empty: Value = serde_json::from_slice(&CompactLattice::default().to_json(None).unwrap()).unwrap();
        assert_eq!((&empty["states"], &empty["arcs"]), (&json!([]), &json!([])));
    }

    #[test]
    fn words_by_hand() {
        let Lattice::Compact(lattice) = lattice() else { panic!("a compact lattice") };
        let words = lattice.words(&crate::lattice::WordsConfig::default()).unwrap();
        let format = WordsJson { utterance: Some("u\"1"), frame_shift: 0.01, symbols: None };
        let found: Value = serde_json::from_slice(&words.to_json(&format).unwrap()).unwrap();
        let word = &found["words"][0];
        assert_eq!((&found["utterance"], &word["word"], &word["start"]), (&json!("u\"1"), &json!(5), &json!(0.0)));
        // Costs of 2.5 and 3: the odds are e^0.5.
        let wanted = 1.0 / (1.0 + (-0.5f64).exp());
        assert!((word["confidence"].as_f64().unwrap() - wanted).abs() < 1e-6, "{word}");
        assert!((word["duration"].as_f64().unwrap() - 0.02).abs() < 1e-6, "{word}");
        assert_eq!(found["bins"].as_array().unwrap().len(), 3);
        assert_eq!(found["bins"][1]["alternatives"].as_array().unwrap().len(), 2);
        assert!(words.to_json(&WordsJson { frame_shift: 0.0, ..format }).is_err());
    }
}
