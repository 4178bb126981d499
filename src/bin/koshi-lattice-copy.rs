//! Copies lattices from table to table, with the command line, files and log lines of Kaldi's
//! `lattice-copy`.

mod support;

use std::collections::BTreeSet;
use std::process::ExitCode;

use koshi::lattice::StoredLatticeHolder;
use koshi::table::{Input, Rspecifier, SequentialReader, TableWriter};
use koshi::{Error, Result};

use support::exit::{self, Failure};
use support::options::Options;

const USAGE: &str = "\
Copies lattices, for example to text or from one of the two forms to the other. What is in the form
asked for stays as it is, unsorted or not; what is converted is sorted. With --include or --exclude
(not both) only some utterances are copied.

Usage: koshi-lattice-copy [options] <lattices-rspecifier> <lattices-wspecifier>

 e.g.: koshi-lattice-copy --write-compact=false ark:1.lats ark,t:text.lats

The exit status is 0 if at least one lattice was copied (with --ignore-missing also if none was) and
nothing that was read or written was broken, else 1.
";

struct Config {
    write_compact: bool,
    include: String,
    exclude: String,
    ignore_missing: bool,
}

fn main() -> ExitCode {
    exit::run("koshi-lattice-copy", || {
        let mut config =
            Config { write_compact: true, include: String::new(), exclude: String::new(), ignore_missing: false };
        let mut options = Options::new(USAGE);
        let doc = "Write the compact form; false writes the state-level form";
        options.flag("write-compact", &mut config.write_compact, doc);
        let doc = "Text file; the first word of each line is an utterance to copy";
        options.text("include", &mut config.include, doc);
        let doc = "Text file; the first word of each line is an utterance to leave out";
        options.text("exclude", &mut config.exclude, doc);
        options.flag("ignore-missing", &mut config.ignore_missing, "Exit with status 0 even if nothing was copied");
        let Some(arguments) = options.read(2, 2)? else { return Ok(()) };
        run(&config, &arguments)
    })
}

/// Which utterances are copied.
enum Choice {
    All,
    Only(BTreeSet<String>),
    Not(BTreeSet<String>),
}

impl Choice {
    fn of(config: &Config) -> Result<Choice> {
        match (config.include.as_str(), config.exclude.as_str()) {
            ("", "") => Ok(Choice::All),
            (include, "") => first_words(include).map(Choice::Only),
            ("", exclude) => first_words(exclude).map(Choice::Not),
            _ => Err(Error::Config("should not have both --exclude and --include option!".into())),
        }
    }

    fn has(&self, key: &str) -> bool {
        match self {
            Choice::All => true,
            Choice::Only(keys) => keys.contains(key),
            Choice::Not(keys) => !keys.contains(key),
        }
    }

    /// Whether no later key of a sorted table is chosen.
    fn ends_before(&self, key: &str) -> bool {
        matches!(self, Choice::Only(keys) if keys.last().is_some_and(|last| key > last.as_str()))
    }
}

fn first_words(file: &str) -> Result<BTreeSet<String>> {
    let mut input = Input::open(file)?;
    let mut words = BTreeSet::new();
    loop {
        let offset = input.offset();
        let Some(line) = input.read_line()? else { break };
        let word = line.split_ascii_whitespace().next();
        words.insert(word.ok_or_else(|| input.format_error_at(offset, "a line without an utterance"))?.to_string());
    }
    input.close()?;
    Ok(words)
}

fn run(config: &Config, arguments: &[String]) -> Result<(), Failure> {
    let argument = |at: usize| arguments.get(at).map(String::as_str).unwrap_or_default();
    let choice = Choice::of(config)?;
    let sorted = Rspecifier::parse(argument(0))?.sorted;
    let mut reader = SequentialReader::<StoredLatticeHolder>::open(argument(0))?;
    let mut writer = TableWriter::<StoredLatticeHolder>::open(argument(1))?;
    let (mut written, mut total, mut cut_short) = (0u64, 0u64, false);
    while let Some((key, lattice)) = reader.next()? {
        if sorted && choice.ends_before(&key) {
            let why = "is larger than the last key in the include list. Not reading further.";
            log::info!(target: "CopySubsetLattices", "The utterance {key} {why}");
            cut_short = true;
            break;
        }
        total += 1;
        if !choice.has(&key) {
            continue;
        }
        let lattice = if config.write_compact { lattice.into_compact() } else { lattice.into_raw() };
        writer.write(&key, &lattice.map_err(|error| error.context(format!("lattice {key}")))?)?;
        written += 1;
    }
    reader.close()?;
    writer.close()?;
    match choice {
        Choice::All => log::info!(target: "main", "Done copying {written} lattices."),
        _ if cut_short => log::info!(target: "CopySubsetLattices", "Wrote {written} utterances"),
        _ => log::info!(target: "CopySubsetLattices", "Wrote {written} out of {total} utterances."),
    }
    if written > 0 || config.ignore_missing || cut_short { Ok(()) } else { Err(Failure::Told) }
}
