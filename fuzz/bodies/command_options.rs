//! Bytes taken for a file of options of a command (`--config`), and behind a NUL for words of its command line: a message, or
//! options in their ranges and the words that are arguments; what stands on the command line counts more.

#[path = "../../src/bin/support/mod.rs"]
mod support;

use support::options::{Kind, Options, Parsed, Standard};

/// What the options set.
#[derive(Clone, Debug, Default)]
struct Found {
    flag: bool,
    count: i32,
    beam: f32,
    table: String,
}

fn read(words: &[String]) -> Result<(Found, Vec<String>), String> {
    let (mut found, mut standard) = (Found::default(), Standard::default());
    let mut options = Options::new("usage");
    options.flag("allow-partial", &mut found.flag, "a flag");
    options.int("max-active", &mut found.count, "a count");
    options.float("beam", &mut found.beam, "a number");
    options.text("word-symbol-table", &mut found.table, "a name");
    options.ignored("hash-ratio", Kind::Float, "nothing");
    options.ignored("prune-interval", Kind::Int, "nothing");
    options.ignored("minimize", Kind::Bool, "nothing");
    match options.read_words(words, &mut standard)? {
        Parsed::Help(text) => {
            assert!(text.contains("--beam") && text.contains("--config"));
            Ok((Found::default(), Vec::new()))
        }
        Parsed::Arguments { arguments, .. } => Ok((found, arguments)),
    }
}

pub fn run(bytes: &[u8]) -> bool {
    let mut parts = bytes.split(|byte| *byte == 0);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("options");
    std::fs::write(&path, parts.next().unwrap_or_default()).expect("a file");
    let config = format!("--config={}", path.display());
    let words: Vec<String> = parts.filter_map(|part| String::from_utf8(part.to_vec()).ok()).collect();
    // Another file's name may be that of one that never ends.
    if words.iter().any(|word| word.to_lowercase().contains("config")) {
        return false;
    }
    let file_alone = read(std::slice::from_ref(&config));
    if let Err(why) = &file_alone {
        assert!(!why.is_empty() && why.contains("options"), "{why}");
    }
    let both = read(&[&[config][..], &words].concat());
    let words_alone = read(&words);
    // A file that is broken is one with any words but --help; and words that are refused are so behind any file.
    if let (Ok((_, left)), Ok((_, right))) = (&both, &words_alone) {
        assert_eq!(left, right);
    }
    let asks_for_help = |words: &[String]| words.iter().any(|word| word.to_lowercase().starts_with("--help"));
    if !asks_for_help(&words) {
        assert!(both.is_err() || file_alone.is_ok() && words_alone.is_ok());
    }
    // The last word of an option decides.
    let last = [&words[..0], &["--beam=7.5".to_string(), "--max_active=-3".to_string()][..]].concat();
    if file_alone.is_ok() {
        let config = format!("--config={}", path.display());
        let (found, _) = read(&[&last[..], &[config]].concat()).expect("good words");
        assert_eq!((found.beam, found.count), (7.5, -3), "the command line counts more");
    }
    both.is_ok()
}
