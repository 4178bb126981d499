//! Command lines as Kaldi's programs read them.
//!
//! Options come before the arguments: `--name=value`, upper and lower case and `_` and `-`
//! alike; a boolean is `true`, `false`, `t`, `f`, `1`, `0`, or nothing for true; `--` ends the
//! options. `--config=file` reads options from the lines of a file, `#` begins a comment;
//! what stands on the command line counts more than what stands in a file. Unknown options
//! are refused.

use std::ffi::OsString;
use std::fmt::Write as _;

use super::exit::Failure;
use super::messages;

/// Where the value of an option goes.
enum Place<'a> {
    Bool(&'a mut bool),
    Int(&'a mut i32),
    Float(&'a mut f32),
    Text(&'a mut String),
}

/// A type of values, for options whose value is not used.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A boolean.
    Bool,
    /// A whole number.
    Int,
    /// A number.
    Float,
}

enum Target<'a> {
    Place(Place<'a>),
    Ignored(Kind),
    Help,
    Config,
}

struct Entry<'a> {
    name: &'static str,
    doc: String,
    target: Target<'a>,
}

/// The options that a command knows, and where their values go.
pub struct Options<'a> {
    usage: &'static str,
    entries: Vec<Entry<'a>>,
}

/// The standard options that every command has.
#[derive(Debug)]
pub struct Standard {
    verbose: i32,
    print_args: bool,
    allow_commands: bool,
}

impl Default for Standard {
    fn default() -> Standard {
        Standard { verbose: 0, print_args: true, allow_commands: true }
    }
}

const STANDARD: &[&str] = &["allow-commands", "config", "help", "print-args", "verbose"];

impl<'a> Options<'a> {
    /// No options but the standard ones; `usage` says what the command does and takes.
    pub fn new(usage: &'static str) -> Options<'a> {
        Options { usage, entries: Vec::new() }
    }

    /// A boolean; the default is what stands in `place`.
    pub fn flag(&mut self, name: &'static str, place: &'a mut bool, doc: &str) {
        let doc = format!("{doc} (bool, default = {place})");
        self.add(name, doc, Target::Place(Place::Bool(place)));
    }

    /// A whole number; the default is what stands in `place`.
    pub fn int(&mut self, name: &'static str, place: &'a mut i32, doc: &str) {
        let doc = format!("{doc} (int, default = {place})");
        self.add(name, doc, Target::Place(Place::Int(place)));
    }

    /// A number; the default is what stands in `place`.
    pub fn float(&mut self, name: &'static str, place: &'a mut f32, doc: &str) {
        let doc = format!("{doc} (float, default = {place})");
        self.add(name, doc, Target::Place(Place::Float(place)));
    }

    /// A text; the default is what stands in `place`.
    pub fn text(&mut self, name: &'static str, place: &'a mut String, doc: &str) {
        let doc = format!("{doc} (string, default = {place:?})");
        self.add(name, doc, Target::Place(Place::Text(place)));
    }

    /// An option of Kaldi's whose value is checked for its type and has no effect here.
    pub fn ignored(&mut self, name: &'static str, kind: Kind, doc: &str) {
        self.add(name, doc.to_string(), Target::Ignored(kind));
    }

    fn add(&mut self, name: &'static str, doc: String, target: Target<'a>) {
        debug_assert!(self.entries.iter().all(|entry| entry.name != name), "--{name} is there twice");
        self.entries.push(Entry { name, doc, target });
    }

    /// Reads the command line of the process, sets the options and gives the arguments;
    /// `None` after `--help`, which has then been printed.
    ///
    /// There must be `least..=most` arguments (`usize::MAX` for any number from `least` on); without any, the usage is printed too.
    pub fn read(self, least: usize, most: usize) -> Result<Option<Vec<String>>, Failure> {
        let mut words = Vec::new();
        for (at, word) in std::env::args_os().enumerate() {
            let word = word.into_string().map_err(|word: OsString| {
                Failure::Usage(format!("argument {at} is not UTF-8: {}", word.to_string_lossy()))
            })?;
            words.push(word);
        }
        let program = if words.is_empty() { String::new() } else { words.remove(0) };
        let mut standard = Standard::default();
        let parsed = self.read_words(&words, &mut standard);
        messages::set_verbose(standard.verbose);
        koshi::table::set_allow_commands(standard.allow_commands);
        match parsed.map_err(Failure::Usage)? {
            Parsed::Help(text) => {
                messages::print(&text);
                Ok(None)
            }
            Parsed::Arguments { arguments, help } => {
                if standard.print_args {
                    messages::print(&command_line(&program, &words));
                }
                if !(least..=most).contains(&arguments.len()) {
                    if arguments.is_empty() {
                        messages::print(&help);
                    }
                    let wanted = match most {
                        usize::MAX => format!("at least {least}"),
                        most if most == least => least.to_string(),
                        most => format!("{least} to {most}"),
                    };
                    return Err(Failure::Usage(format!("{wanted} arguments are needed, {} given", arguments.len())));
                }
                Ok(Some(arguments))
            }
        }
    }

    /// As [`Options::read`], of words that come from elsewhere, and nothing is printed.
    pub fn read_words(mut self, words: &[String], standard: &'a mut Standard) -> Result<Parsed, String> {
        self.entries.sort_by_key(|entry| entry.name);
        let Standard { verbose, print_args, allow_commands } = standard;
        let doc = "Whether names of tables and files may be commands, as in \"ark:gunzip -c a.gz |\"";
        self.flag("allow-commands", allow_commands, doc);
        self.add("config", "File with options to read, may be repeated (string)".to_string(), Target::Config);
        self.add("help", "Print this text (bool)".to_string(), Target::Help);
        self.flag("print-args", print_args, "Print the command line to standard error");
        self.int("verbose", verbose, "How much is logged; 1 and 2 log more");
        let help = self.help();
        let named = words.iter().take_while(|word| *word != "--").filter_map(|word| split(word).transpose());
        if named.flatten().any(|option| option.key == "help" && option.value.is_none_or(is_true)) {
            return Ok(Parsed::Help(help));
        }
        let count = words.iter().position(|word| word == "--" || !word.starts_with("--")).unwrap_or(words.len());
        let (options, rest) = words.split_at(count);
        // Files first, so that the command line overrides them.
        for word in options {
            if let Some(Written { key, value: Some(file) }) = split(word)?.filter(|option| option.key == "config") {
                debug_assert_eq!(key, "config");
                self.read_config(file)?;
            }
        }
        for word in options {
            if let Some(option) = split(word)? {
                self.set(&option)?;
            }
        }
        Ok(Parsed::Arguments { arguments: arguments(rest)?, help })
    }

    fn read_config(&mut self, file: &str) -> Result<(), String> {
        let text = std::fs::read_to_string(file).map_err(|error| format!("--config={file}: {error}"))?;
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let at = |why: String| format!("{file}: line {}: {why}", number + 1);
            if line.is_empty() {
                continue;
            }
            match split(line).map_err(at)? {
                Some(option) if ["config", "help"].contains(&option.key.as_str()) => {
                    return Err(at(format!("--{} cannot stand in a file", option.key)));
                }
                Some(option) => self.set(&option).map_err(at)?,
                None => return Err(at(format!("expected a line such as --beam=13, found {line:?}"))),
            }
        }
        Ok(())
    }

    fn set(&mut self, option: &Written<'_>) -> Result<(), String> {
        let Written { key, value } = option;
        let entry = self.entries.iter_mut().find(|entry| entry.name == key);
        let entry = entry.ok_or_else(|| format!("there is no option --{key}"))?;
        let name = entry.name;
        let needed = || value.ok_or_else(|| format!("--{name} needs a value: --{name}=..."));
        match &mut entry.target {
            Target::Place(Place::Bool(place)) => **place = boolean(name, *value)?,
            Target::Place(Place::Int(place)) => **place = number(name, needed()?, "a whole number")?,
            Target::Place(Place::Float(place)) => **place = number(name, needed()?, "a number")?,
            Target::Place(Place::Text(place)) => **place = needed()?.to_string(),
            Target::Ignored(Kind::Bool) => drop(boolean(name, *value)?),
            Target::Ignored(Kind::Int) => drop(number::<i32>(name, needed()?, "a whole number")?),
            Target::Ignored(Kind::Float) => drop(number::<f32>(name, needed()?, "a number")?),
            // `--help=false` is all that comes here.
            Target::Help => drop(boolean(name, *value)?),
            Target::Config => drop(needed()?),
        }
        Ok(())
    }

    fn help(&self) -> String {
        let mut text = format!("\n{}\n", self.usage);
        let is_standard = |entry: &Entry| STANDARD.contains(&entry.name);
        let is_ignored = |entry: &Entry| matches!(entry.target, Target::Ignored(_));
        self.section(&mut text, "Options:", |entry| !is_standard(entry) && !is_ignored(entry));
        self.section(&mut text, "Accepted, without effect:", is_ignored);
        self.section(&mut text, "Standard options:", is_standard);
        text
    }

    fn section(&self, text: &mut String, title: &str, is_in: impl Fn(&Entry) -> bool) {
        let mut entries = self.entries.iter().filter(|entry| is_in(entry)).peekable();
        if entries.peek().is_some() {
            let _ = writeln!(text, "{title}");
            for entry in entries {
                let _ = writeln!(text, "  --{:<25} : {}", entry.name, entry.doc);
            }
            text.push('\n');
        }
    }
}

/// What a command line asks for.
pub enum Parsed {
    /// This text.
    Help(String),
    /// Work on these arguments; `help` is the text for one who gives none.
    Arguments { arguments: Vec<String>, help: String },
}

/// An option as it was written: its name in the usual form, and its value.
struct Written<'t> {
    key: String,
    value: Option<&'t str>,
}

/// `None` if the word is no option.
fn split(word: &str) -> Result<Option<Written<'_>>, String> {
    let Some(rest) = word.strip_prefix("--") else { return Ok(None) };
    let (key, value) = match rest.split_once('=') {
        Some((key, value)) => (key, Some(value.trim())),
        None => (rest, None),
    };
    if key.is_empty() {
        return Err(format!("{word}: an option has a name"));
    }
    let key = key.replace('_', "-").to_lowercase();
    Ok(Some(Written { key, value }))
}

/// What follows the options. The first `--` is only a mark; another option before it stands
/// in the wrong place.
fn arguments(rest: &[String]) -> Result<Vec<String>, String> {
    let mut arguments = Vec::new();
    let mut ended = false;
    for word in rest {
        if word == "--" && !ended {
            ended = true;
        } else if word.starts_with("--") && !ended {
            return Err(format!("{word}: options come before the arguments"));
        } else {
            arguments.push(word.clone());
        }
    }
    Ok(arguments)
}

fn is_true(value: &str) -> bool {
    boolean("", Some(value)) == Ok(true)
}

fn boolean(name: &str, value: Option<&str>) -> Result<bool, String> {
    let Some(value) = value else { return Ok(true) };
    match value.to_lowercase().as_str() {
        "true" | "t" | "1" => Ok(true),
        "false" | "f" | "0" => Ok(false),
        _ => Err(format!("--{name}={value}: expected true or false")),
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str, what: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("--{name}={value}: expected {what}"))
}

/// The command line as one could give it to a shell.
fn command_line(program: &str, words: &[String]) -> String {
    let mut line = String::new();
    for word in std::iter::once(program).chain(words.iter().map(String::as_str)) {
        let plain = |letter: char| letter.is_alphanumeric() || "[]~#^_-+=:.,/".contains(letter);
        if !word.is_empty() && word.chars().all(plain) {
            line.push_str(word);
        } else {
            let _ = write!(line, "'{}'", word.replace('\'', r"'\''"));
        }
        line.push(' ');
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq)]
    struct Found {
        yes: bool,
        count: i32,
        beam: f32,
        table: String,
        arguments: Vec<String>,
        verbose: i32,
        help: String,
    }

    fn read(words: &[&str]) -> Result<Found, String> {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        let mut found = Found::default();
        let mut standard = Standard::default();
        let mut options = Options::new("Usage: x");
        options.flag("yes-no", &mut found.yes, "Whether.");
        options.int("count", &mut found.count, "How many.");
        options.float("beam", &mut found.beam, "Beam.");
        options.text("table", &mut found.table, "Table.");
        options.ignored("hash-ratio", Kind::Float, "Of Kaldi's hash.");
        let parsed = options.read_words(&words, &mut standard)?;
        found.verbose = standard.verbose;
        match parsed {
            Parsed::Help(help) => found.help = help,
            Parsed::Arguments { arguments, .. } => found.arguments = arguments,
        }
        Ok(found)
    }

    #[test]
    fn values_of_all_types() {
        let found = read(&["--yes-no", "--count=-3", "--beam=1e1", "--table= a b ", "--verbose=2", "x", "y"]).unwrap();
        assert_eq!((found.yes, found.count, found.beam, found.table.as_str()), (true, -3, 10.0, "a b"));
        assert_eq!((found.verbose, found.arguments), (2, vec!["x".to_string(), "y".to_string()]));
    }

    #[test]
    fn names_in_other_spellings() {
        assert!(read(&["--yes_no"]).unwrap().yes);
        assert!(read(&["--Yes-No=T"]).unwrap().yes);
        assert_eq!(read(&["--hash_ratio=2"]).unwrap(), Found::default());
    }

    #[test]
    fn booleans() {
        for (word, value) in [("true", true), ("T", true), ("1", true), ("false", false), ("f", false), ("0", false)] {
            assert_eq!(read(&["--yes-no", &format!("--yes-no={word}")]).unwrap().yes, value, "{word}");
        }
        for bad in ["--yes-no=", "--yes-no=yes", "--yes-no=2"] {
            assert!(read(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn refused() {
        for bad in [
            "--other",
            "--other=1",
            "--=1",
            "--count",
            "--count=",
            "--count=1.5",
            "--count=3000000000",
            "--beam=x",
            "--table",
            "--hash-ratio=x",
            "--config",
            "--config=/nowhere/at/all",
        ] {
            assert!(read(&[bad]).is_err(), "{bad}");
        }
        assert!(read(&["x", "--beam=3"]).unwrap_err().contains("before the arguments"));
    }

    #[test]
    fn a_double_dash_ends_the_options() {
        assert_eq!(read(&["--count=1", "--", "--count=2"]).unwrap().arguments, ["--count=2"]);
        assert_eq!(read(&["x", "--", "--y", "--"]).unwrap().arguments, ["x", "--y", "--"]);
        assert_eq!(read(&["--", "--help"]).unwrap().arguments, ["--help"]);
        assert_eq!(read(&["-", "-x"]).unwrap().arguments, ["-", "-x"]);
    }

    #[test]
    fn files_of_options() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            format!("--config={}", path.display())
        };
        let one = write("one", "# all\n--count=1 # one\r\n\n  --beam = 2\n--yes_no\n");
        assert!(read(&[&one]).unwrap_err().contains("line 4"), "a blank belongs to the name");
        let one = write("one", "# all\n--count=1 # one\r\n\n  --beam= 2 \n--yes_no\n");
        let found = read(&["--count=5", &one]).unwrap();
        assert_eq!((found.count, found.beam, found.yes), (5, 2.0, true));
        let two = write("two", "--count=7\n");
        assert_eq!(read(&[&one, &two]).unwrap().count, 7);
        for bad in ["count=1\n", "--count\n", "--other=1\n", "--config=x\n", "--help\n"] {
            let bad = write("bad", bad);
            assert!(read(&[&bad]).unwrap_err().contains("bad: line 1"), "{bad}");
        }
    }

    #[test]
    fn help_lists_what_has_no_effect_apart() {
        let help = read(&["x", "--help", "--other"]).unwrap().help;
        let ignored = help.find("without effect").unwrap();
        assert!(help.find("--beam").unwrap() < ignored && help.find("--hash-ratio").unwrap() > ignored);
        assert!(help.contains("(float, default = 0)") && help.contains("Usage: x") && help.contains("--config"));
        assert_eq!(read(&["--help=false", "x"]).unwrap().arguments, ["x"]);
    }

    #[test]
    fn the_command_line_can_be_pasted() {
        let words = ["--beam=3".to_string(), "ark:gunzip -c a|".to_string(), String::new(), "it's".to_string()];
        assert_eq!(command_line("x", &words), "x --beam=3 'ark:gunzip -c a|' '' 'it'\\''s' \n");
    }
}
