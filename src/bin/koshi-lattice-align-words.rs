//! Aligns lattices with words by the kinds of phones, with the command line, files and log lines of Kaldi's program of
//! that name.

mod support;
mod words;

use std::process::ExitCode;

use koshi::lattice::{BoundaryOptions, WordBoundary};
use koshi::table::Transitions;

use support::exit;
use support::options::{Kind, Options};
use words::align::{OnError, run};

const USAGE: &str = "Aligns lattices with the words: each arc becomes one word, or silence, with exactly its
transition-ids. Which phones begin and end words stands in the word-boundary file, in lines
 <integer-phone-id> begin|end|singleton|internal|nonword

Usage: koshi-lattice-align-words [options] <word-boundary-file> <model> <lattice-rspecifier> <lattice-wspecifier>
 e.g.: koshi-lattice-align-words word_boundary.int final.mdl ark:1.lats ark:aligned.lats
See also: koshi-lattice-align-words-lexicon, for phones that do not tell where in a word they stand
";

fn main() -> ExitCode {
    exit::run("koshi-lattice-align-words", || {
        let mut align = BoundaryOptions { max_expand: 0.0, ..BoundaryOptions::default() };
        let mut output_error_lats = true;
        let mut options = Options::new(USAGE);
        options.int("silence-label", &mut align.silence_label, "Word on arcs of silence; 0 for none");
        options.int("partial-word-label", &mut align.partial_word_label, "Word on arcs of partial words; 0 for none");
        options.flag("reorder", &mut align.reorder, "Whether self-loops stand behind the other transitions");
        options.float("max-expand", &mut align.max_expand, "Above 0: most states, as a multiple of the lattice's");
        let doc = "Whether lattices are written that end in partial words, or, as they were, that do not align";
        options.flag("output-error-lats", &mut output_error_lats, doc);
        options.ignored("test", Kind::Bool, "Tests the algorithm; its tests come with the library");
        let Some(arguments) = options.read(4, 4)? else { return Ok(()) };
        let [boundary, model, input, output] = arguments.as_slice() else { return Ok(()) };
        let transitions = Transitions::read_file(model)?;
        let boundary = WordBoundary::read_file(boundary)?;
        let on_error = OnError { write: output_error_lats, pass_through: output_error_lats };
        run(input, output, on_error, |lattice| lattice.align_words(&transitions, &boundary, &align))
    })
}
