//! Lattices as text for Graphviz, to look at.

use std::fmt::Write as _;

use super::Lattice;
use crate::error::{Result, try_reserve};
use crate::table::{SymbolTable, format_general};

/// Digits of costs: enough to see which path is better.
const DIGITS: usize = 6;

impl Lattice {
    /// A graph in Graphviz's language: states with their times, final ones in double circles with their costs; arcs
    /// with word, graph and acoustic cost (without the acoustic scale), and the number of frames (in a raw lattice the
    /// input label). Words are symbols where the table has them, else numbers; silent arcs are dotted.
    ///
    /// The text is UTF-8 whatever bytes the symbols hold: what is not UTF-8 is written as U+FFFD, control characters
    /// by their numbers.
    pub fn to_dot(&self, symbols: Option<&SymbolTable>) -> Result<Vec<u8>> {
        let mut text = String::new();
        let what = "text of a lattice";
        let mut line = String::new();
        let mut add = |line: &mut String| -> Result<()> {
            text.try_reserve(line.len()).map_err(|_| crate::error::Error::NoMemory {
                what: what.to_string(),
                asked: (text.len() + line.len()) as u64,
            })?;
            text.push_str(line);
            line.clear();
            Ok(())
        };
        line.push_str("digraph lattice {\n  rankdir = LR;\n  node [shape = circle];\n");
        add(&mut line)?;
        for state in 0..self.num_states() {
            // Writing to a String does not fail.
            let _ = write!(line, "  {state} [label = \"{state}");
            if let Some(time) = self.times().get(state) {
                let _ = write!(line, "\\n@{time}");
            }
            let weight = self.finals()[state];
            if !weight.is_absent() {
                let _ = write!(line, "\\n{}, {}", cost(weight.graph), cost(weight.acoustic));
                let frames = self.final_string(state as u32).len();
                if frames > 0 {
                    let _ = write!(line, "\\n{frames} frames");
                }
                line.push_str("\", shape = doublecircle];\n");
            } else {
                line.push_str("\"];\n");
            }
            add(&mut line)?;
        }
        for state in 0..self.num_states() {
            for at in self.offsets()[state] as usize..self.offsets()[state + 1] as usize {
                let arc = self.arcs()[at];
                let _ = write!(line, "  {state} -> {} [label = \"", arc.next);
                push_word(&mut line, arc.olabel, symbols)?;
                let _ = write!(line, "\\n{}, {}\\n", cost(arc.weight.graph), cost(arc.weight.acoustic));
                match self.is_compact() {
                    true => drop(write!(line, "{} frames", self.string(at).len())),
                    false => drop(write!(line, "id {}", arc.ilabel)),
                }
                line.push_str(if arc.olabel == 0 { "\", style = dotted];\n" } else { "\"];\n" });
                add(&mut line)?;
            }
        }
        line.push_str("}\n");
        add(&mut line)?;
        Ok(text.into_bytes())
    }
}

fn cost(cost: f32) -> String {
    format_general(f64::from(cost), DIGITS)
}

/// Writes a word so that Graphviz shows it as it is, within double quotes.
fn push_word(line: &mut String, word: i32, symbols: Option<&SymbolTable>) -> Result<()> {
    let Some(name) = symbols.and_then(|table| table.name(word)) else {
        let _ = write!(line, "{word}");
        return Ok(());
    };
    let mut room: Vec<u8> = Vec::new();
    // The longest form of a byte has six.
    try_reserve(&mut room, name.len().saturating_mul(6), "text of a lattice")?;
    drop(room);
    for letter in String::from_utf8_lossy(name).chars() {
        match letter {
            '"' => line.push_str("\\\""),
            // A backslash begins an escape of a label, an ampersand an entity.
            '\\' => line.push_str("\\\\"),
            '&' => line.push_str("&amp;"),
            letter if letter.is_control() => drop(write!(line, "\\\\x{:02x}", letter as u32)),
            letter => line.push(letter),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Input;

    fn lattice(text: &[u8]) -> Lattice {
        Lattice::read(&mut Input::from_bytes("lattice", text.to_vec())).unwrap()
    }

    #[test]
    fn a_lattice_by_hand() {
        let found = lattice(b"\n0\t1\t5\t0.5,2,7_8\n0\t1\t0\t1,2,7_8\n1\t0.25,0,9\n\n").to_dot(None).unwrap();
        let wanted = r#"digraph lattice {
  rankdir = LR;
  node [shape = circle];
  0 [label = "0\n@0"];
  1 [label = "1\n@2\n0.25, 0\n1 frames", shape = doublecircle];
  0 -> 1 [label = "5\n0.5, 2\n2 frames"];
  0 -> 1 [label = "0\n1, 2\n2 frames", style = dotted];
}
"#;
        assert_eq!(String::from_utf8(found).unwrap(), wanted);
        let raw = String::from_utf8(lattice(b"\n0\t1\t3\t5\t0.5,2\n1\n\n").to_dot(None).unwrap()).unwrap();
        assert!(raw.contains("0 -> 1 [label = \"5\\n0.5, 2\\nid 3\"];"), "{raw}");
        let empty = Lattice::Raw(Default::default()).to_dot(None).unwrap();
        assert!(empty.ends_with(b"circle];\n}\n"));
    }

    #[test]
    fn symbols_of_any_bytes() {
        let table = b"q\"q 1\nb\\n 2\n&lt; 3\n\xffx 4\n\x01\x7f 5\n".to_vec();
        let symbols = SymbolTable::read(&mut Input::from_bytes("words", table)).unwrap();
        let arcs: String = (1..=6).map(|word| format!("0\t1\t{word}\t1,1,\n")).collect();
        let found = lattice(format!("\n{arcs}1\n\n").as_bytes()).to_dot(Some(&symbols)).unwrap();
        let found = String::from_utf8(found).unwrap();
        let wanted = ["q\\\"q", "b\\\\n", "&amp;lt;", "\u{fffd}x", "\\\\x01\\\\x7f", "6"];
        for word in wanted {
            assert!(found.contains(&format!("[label = \"{word}\\n1, 1\\n0 frames\"];")), "{word}: {found}");
        }
    }
}
