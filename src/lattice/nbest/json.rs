//! n-best lists as JSON.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::NBest;
use crate::error::Result;
use crate::lattice::Path;
use crate::lattice::json::{Listed, Text, check_symbols, text, written};
use crate::table::SymbolTable;

impl NBest {
    /// One object: `paths`, the best first, each with `words` (each with `word`, `text` and the `frame` where it
    /// starts), `graph_cost`, `acoustic_cost` (without the acoustic scale), `total_cost`, `posterior` and
    /// `transition_ids`; and `cut_short`. Costs are negative natural logs. Texts are left out without `symbols`;
    /// [`Error::Argument`](crate::Error::Argument) for a word that is not there.
    pub fn to_json(&self, symbols: Option<&SymbolTable>) -> Result<Vec<u8>> {
        check_symbols(self.paths.iter().flat_map(|path| path.olabels.iter().copied()), symbols)?;
        written(|serializer| {
            let mut object = serializer.serialize_map(None)?;
            let paths = self.paths.iter().zip(&self.posteriors);
            object.serialize_entry("paths", &Listed(paths.map(|(path, &posterior)| one(path, posterior, symbols))))?;
            object.serialize_entry("cut_short", &self.cut_short)?;
            object.end()
        })
    }
}

#[derive(Serialize)]
struct PathObject<'a, W> {
    words: W,
    graph_cost: f64,
    acoustic_cost: f64,
    total_cost: f64,
    posterior: f64,
    transition_ids: &'a [i32],
}

#[derive(Serialize)]
struct WordObject<'a> {
    word: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Text<'a>>,
    frame: u32,
}

fn one<'a>(path: &'a Path, posterior: f64, symbols: Option<&'a SymbolTable>) -> impl Serialize + 'a {
    let words = path.olabels.iter().zip(&path.frames);
    PathObject {
        words: Listed(words.map(move |(&word, &frame)| WordObject { word, text: text(word, symbols), frame })),
        graph_cost: path.graph_cost,
        acoustic_cost: path.acoustic_cost,
        total_cost: path.total_cost(),
        posterior,
        transition_ids: &path.ilabels,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::lattice::Lattice;
    use crate::table::{Input, SymbolTable};

    #[test]
    fn a_list_by_hand() {
        let lattice = Lattice::from_bytes(b"0 1 1 1,2,4_4\n0 1 2 2,2,5\n1 2 1 0.5,0,6\n2\n").unwrap();
        let nbest = lattice.nbest(1, 0.5).unwrap();
        let symbols = SymbolTable::read(&mut Input::from_bytes("words", "<eps> 0\nzu\"g 1\n")).unwrap();
        let value = |symbols| serde_json::from_slice::<serde_json::Value>(&nbest.to_json(symbols).unwrap()).unwrap();
        let mut wanted = json!({"paths": [{
            "words": [{"word": 1, "text": "zu\"g", "frame": 0}, {"word": 1, "text": "zu\"g", "frame": 2}],
            "graph_cost": 1.5, "acoustic_cost": 2.0, "total_cost": 2.5,
            "posterior": nbest.posteriors[0], "transition_ids": [4, 4, 6],
        }], "cut_short": false});
        assert_eq!(value(Some(&symbols)), wanted);
        for word in wanted["paths"][0]["words"].as_array_mut().unwrap() {
            word.as_object_mut().unwrap().remove("text");
        }
        assert_eq!(value(None), wanted);
        assert!(lattice.nbest(2, 0.5).unwrap().to_json(Some(&symbols)).is_err(), "2 has no symbol");
    }
}
