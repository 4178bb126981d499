//! Aligns lattices with words by pronunciations, with the command line, files and log lines of Kaldi's program of that
//! name.

mod support;
mod words;

use std::process::ExitCode;

use koshi::lattice::{AlignLexicon, LexiconOptions};
use koshi::table::Transitions;

use support::exit;
use support::options::{Kind, Options};
use words::align::{OnError, run};

const USAGE: &str = "Aligns lattices with the words: each arc becomes one word, or silence, with exactly the
transition-ids of one of its pronunciations. These stand in the lexicon file, in lines
 <word-in> <word-out> <phone1> ... <phoneN>
of integers, where word-in is the word in the lattice (0 for silence without a word) and word-out the one written.

Usage: koshi-lattice-align-words-lexicon [options] <lexicon-file> <model> <lattice-rspecifier> <lattice-wspecifier>
 e.g.: koshi-lattice-align-words-lexicon align_lexicon.int final.mdl ark:1.lats ark:aligned.lats
See also: koshi-lattice-align-words, which is faster where phones tell where in a word they stand
";

fn main() -> ExitCode {
    exit::run("koshi-lattice-align-words-lexicon", || {
        let mut align = LexiconOptions { max_expand: -1.0, ..LexiconOptions::default() };
        let mut on_error = OnError { write: true, pass_through: false };
        let mut options = Options::new(USAGE);
        options.int("partial-word-label", &mut align.partial_word_label, "Word on arcs of partial words; 0 for none");
        options.flag("reorder", &mut align.reorder, "Whether self-loops stand behind the other transitions");
        options.float(
            "max-expand",
            &mut align.max_expand,
            "Above 0: most states, as a multiple of the phone lattice's",
        );
        options.flag(
            "output-error-lats",
            &mut on_error.write,
            "Whether lattices are written that end in partial words",
        );
        let doc = "Whether lattices that could not be aligned are written as they were";
        options.flag("output-if-empty", &mut on_error.pass_through, doc);
        options.ignored("test", Kind::Bool, "Tests the algorithm; its tests come with the library");
        options.ignored("allow-duplicate-paths", Kind::Bool, "Of --test");
        let Some(arguments) = options.read(4, 4)? else { return Ok(()) };
        let [lexicon, model, input, output] = arguments.as_slice() else { return Ok(()) };
        let lexicon = AlignLexicon::read_file(lexicon)?;
        let transitions = Transitions::read_file(model)?;
        run(input, output, on_error, |lattice| lattice.align_words_by_lexicon(&transitions, &lexicon, &align))
    })
}
