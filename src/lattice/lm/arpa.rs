//! N-gram models in ARPA files: `\data\` with the numbers of n-grams, a section for each order with lines of
//! log10 probability, words and perhaps log10 backoff weight, `\end\`.

use crate::error::{Error, Result, try_filled};
use crate::table::{Input, SymbolTable};

use super::ngram::{Builder, Marks, NGram, Refused};

/// Longest n-grams that are read.
const HIGHEST_ORDER: usize = 64;

/// Ids of marks that the symbols do not have: no word has a negative one.
const UNKNOWN: i32 = -1;
const BEGIN: i32 = -2;
const END: i32 = -3;

/// Reads a file to its `\end\`.
pub(super) fn read(input: &mut Input, symbols: Option<&SymbolTable>) -> Result<NGram> {
    let find = |name: &str, otherwise| symbols.and_then(|symbols| symbols.find(name)).unwrap_or(otherwise);
    let marks = Marks { begin: find("<s>", BEGIN), end: find("</s>", END), unknown: UNKNOWN };
    let mut reader = Reader {
        lines: Lines { input, line: Vec::new(), number: 0, offset: 0 },
        symbols,
        builder: Builder::new(marks),
        knows_unknown: false,
        words: Vec::new(),
        left_out: 0,
    };
    let counts = reader.head()?;
    for order in 1..=counts.len() {
        reader.section(order, &counts)?;
    }
    if reader.lines.line != b"\\end\\" {
        return Err(reader.lines.fault("expected \\end\\"));
    }
    if reader.left_out > 0 {
        let (left_out, name) = (reader.left_out, reader.lines.input.name());
        log::warn!("{name}: {left_out} n-grams left out: words without a symbol, or without the n-gram before them");
    }
    reader.builder.build()
}

/// The lines that are not empty, without blanks at their ends.
struct Lines<'a> {
    input: &'a mut Input,
    line: Vec<u8>,
    number: u64,
    offset: u64,
}

impl Lines<'_> {
    /// Whether there is a next line, now in `line`.
    fn next(&mut self) -> Result<bool> {
        loop {
            (self.number, self.offset) = (self.input.line(), self.input.offset());
            let Some(line) = self.input.read_line_bytes()? else {
                self.line.clear();
                return Ok(false);
            };
            let trimmed = line.trim_ascii();
            if !trimmed.is_empty() {
                self.line.clear();
                crate::error::try_reserve(&mut self.line, trimmed.len(), "line")?;
                self.line.extend_from_slice(trimmed);
                return Ok(true);
            }
        }
    }

    /// What is wrong with the present line.
    fn fault(&self, message: impl std::fmt::Display) -> Error {
        const LONGEST: usize = 60;
        let found = match self.line.as_slice() {
            [] => "the end of the data".to_string(),
            line => format!("\"{}\"", line[..line.len().min(LONGEST)].escape_ascii()),
        };
        self.input.format_error_at(self.offset, format!("line {}: {message}, found {found}", self.number))
    }
}

struct Reader<'a> {
    lines: Lines<'a>,
    symbols: Option<&'a SymbolTable>,
    builder: Builder,
    /// Whether the word for what is unknown was met.
    knows_unknown: bool,
    words: Vec<i32>,
    left_out: u64,
}

impl Reader<'_> {
    /// Reads up to the line that begins the first section. What stands before `\data\` is a comment.
    fn head(&mut self) -> Result<Vec<u64>> {
        while self.lines.next()? && self.lines.line != b"\\data\\" {}
        if self.lines.line.is_empty() {
            return Err(self.lines.fault("expected \\data\\"));
        }
        let mut counts = Vec::new();
        while self.lines.next()? && !self.lines.line.starts_with(b"\\") {
            let Some((order, count)) = count_of(&self.lines.line) else {
                return Err(self.lines.fault("expected a number of n-grams, such as ngram 1=1000"));
            };
            if !(1..=HIGHEST_ORDER).contains(&order) {
                return Err(self.lines.fault(format!("n-grams have 1 to {HIGHEST_ORDER} words")));
            }
            if order > counts.len() {
                let more = try_filled(0, order - counts.len(), "n-gram counts")?;
                counts.extend(more);
            }
            counts[order - 1] = count;
        }
        if counts.is_empty() {
            return Err(self.lines.fault("expected the numbers of n-grams"));
        }
        Ok(counts)
    }

    /// Reads the section of one order, up to the next line that begins with a backslash.
    fn section(&mut self, order: usize, counts: &[u64]) -> Result<()> {
        let title = format!("\\{order}-grams:");
        if self.lines.line != title.as_bytes() {
            return Err(self.lines.fault(format!("expected {title}")));
        }
        let mut count = 0;
        while self.lines.next()? && !self.lines.line.starts_with(b"\\") {
            count += 1;
            if count > counts[order - 1] {
                let said = counts[order - 1];
                return Err(self.lines.fault(format!("the head speaks of {said} n-grams of {order} words; one more")));
            }
            self.ngram(order, order == counts.len())?;
        }
        if count < counts[order - 1] {
            let name = self.lines.input.name();
            log::warn!("{name}: {count} n-grams of {order} words, where the head speaks of {}", counts[order - 1]);
        }
        Ok(())
    }

    fn ngram(&mut self, order: usize, is_highest: bool) -> Result<()> {
        let line = std::mem::take(&mut self.lines.line);
        let taken = self.ngram_of(&line, order, is_highest);
        self.lines.line = line;
        match taken {
            Ok(Ok(())) => Ok(()),
            Ok(Err(Refused::Orphan)) => {
                self.left_out += 1;
                Ok(())
            }
            Ok(Err(Refused::Twice)) => Err(self.lines.fault("the n-gram comes twice")),
            Err(Fault::Line(message)) => Err(self.lines.fault(message)),
            Err(Fault::Other(error)) => Err(error),
        }
    }

    fn ngram_of(&mut self, line: &[u8], order: usize, is_highest: bool) -> Result<Result<(), Refused>, Fault> {
        let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
        let cost = cost(fields.next()).ok_or(Fault::Line("expected a log probability"))?;
        self.words.clear();
        let mut known = true;
        for field in fields.by_ref().take(order) {
            match self.word(field)? {
                Some(word) => self.words.push(word),
                None => known = false,
            }
            // At most HIGHEST_ORDER words: no need to reserve with care.
            if !known {
                break;
            }
        }
        if !known {
            return Ok(Err(Refused::Orphan));
        }
        if self.words.len() < order {
            return Err(Fault::Line("expected a log probability and as many words as the section says"));
        }
        let backoff = match fields.next() {
            None => 0.0,
            Some(_) if is_highest => return Err(Fault::Line("expected no backoff weight at the highest order")),
            field => self::cost(field).ok_or(Fault::Line("expected a backoff weight"))?,
        };
        if fields.next().is_some() {
            return Err(Fault::Line("expected no more than a log probability, words and a backoff weight"));
        }
        self.builder.add(&self.words, cost, backoff).map_err(Fault::Other)
    }

    /// The id of a word; `None` if the symbols lack it.
    fn word(&mut self, name: &[u8]) -> Result<Option<i32>, Fault> {
        let marks = &mut self.builder.marks;
        let id = match (self.symbols, name) {
            (_, b"<s>") => marks.begin,
            (_, b"</s>") => marks.end,
            (Some(symbols), b"<unk>" | b"<UNK>") => symbols.find(name).unwrap_or(UNKNOWN),
            (None, b"<unk>" | b"<UNK>") => UNKNOWN,
            (Some(symbols), _) => match symbols.find(name) {
                Some(id) => id,
                None => return Ok(None),
            },
            (None, _) => {
                let id = std::str::from_utf8(name).ok().and_then(|name| name.parse().ok()).filter(|&id| id >= 0);
                id.ok_or(Fault::Line("without symbols each word is a number"))?
            }
        };
        if id == 0 {
            return Err(Fault::Line("the word with the id 0 cannot be said"));
        }
        if matches!(name, b"<unk>" | b"<UNK>") && !std::mem::replace(&mut self.knows_unknown, true) {
            marks.unknown = id;
        }
        Ok(Some(id))
    }
}

enum Fault {
    /// What was expected of the line.
    Line(&'static str),
    /// Memory, limits.
    Other(Error),
}

/// `ngram 2 = 1000`, with or without blanks around the sign.
fn count_of(line: &[u8]) -> Option<(usize, u64)> {
    let text = std::str::from_utf8(line).ok()?;
    let (order, count) = text.strip_prefix("ngram")?.split_once('=')?;
    Some((order.trim().parse().ok()?, count.trim().parse().ok()?))
}

/// A log10 probability as a cost in natural logs; `-inf` is one, NaN and `+inf` are not.
fn cost(field: Option<&[u8]>) -> Option<f32> {
    let log: f64 = std::str::from_utf8(field?).ok()?.parse().ok()?;
    let cost = (-log * std::f64::consts::LN_10) as f32;
    // Adding +0 turns -0 into +0 and changes nothing else.
    (cost > f32::NEG_INFINITY && (cost < f32::INFINITY || log == f64::NEG_INFINITY)).then_some(cost + 0.0)
}
