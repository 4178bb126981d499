//! Bytes taken for the names of tables and for a range: an error, or parts that make sense.

use koshi::table::{Rspecifier, Wspecifier, parse_range};

const ROWS: usize = 10;
const COLS: usize = 4;

pub fn run(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let read = Rspecifier::parse(text);
    if let Ok(found) = &read {
        assert!(text.ends_with(&found.file) && !found.file.ends_with(|c: char| c.is_ascii_whitespace()), "{found:?}");
        // The same options on either side, and twice.
        let kind = if text[..text.len() - found.file.len()].contains("scp") { "scp" } else { "ark" };
        let word = |is_set: bool, word: &str| if is_set { format!("{word},") } else { String::new() };
        let options = [
            word(found.once, "o"),
            word(found.sorted, "s"),
            word(found.called_sorted, "cs"),
            word(found.permissive, "p"),
            word(found.background, "bg"),
        ];
        let again = format!("{0}{kind},{0}t:{1}", options.concat(), found.file);
        assert_eq!(Rspecifier::parse(&again).expect("what was parsed, written again"), *found);
    }
    let write = Wspecifier::parse(text);
    if let Ok(found) = &write {
        let files = [found.archive.as_deref(), found.script.as_deref()];
        let file = files.into_iter().flatten().collect::<Vec<_>>().join(",");
        assert!(text.ends_with(&file) && files != [None, None], "{found:?}");
    }
    let range = parse_range(text, ROWS, COLS);
    if let Ok((rows, cols)) = &range {
        assert!(rows.start < rows.end && rows.end <= ROWS && cols.start < cols.end && cols.end <= COLS);
    }
    read.is_ok() || write.is_ok() || range.is_ok()
}
