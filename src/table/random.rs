//! Looking up entries of a table by their keys.

use std::collections::HashMap;

use super::archive;
use super::holder::{Holder, check_word};
use super::input::Input;
use super::script;
use super::sequential::is_broken_data;
use super::specifier::{Kind, Rspecifier};
use crate::error::{Error, Result};

/// Finds entries of a table by their keys.
///
/// An archive is read as far as a key needs and what was passed is kept, unless the options say that it is not needed:
/// `s` (the archive is sorted) tells early that a key is absent, `s,cs` (and keys are asked for in order) keeps one object
/// only, `o` (each key once) forgets an object after it was given. Broken promises are errors.
pub struct RandomAccessReader<H: Holder> {
    options: Rspecifier,
    source: Source<H>,
    /// The last key that was asked for.
    asked: Option<String>,
}

enum Source<H: Holder> {
    Archive(Archive<H>),
    Script {
        /// Names of files; `None` where the object was given with the option `o`.
        names: HashMap<String, Option<String>>,
        loader: script::Loader<H>,
        current: Option<(String, H::Value)>,
    },
}

struct Archive<H: Holder> {
    /// Gone at the end of the data.
    input: Option<Input>,
    /// Objects passed so far; `None` where one was given with the option `o`.
    seen: HashMap<String, Option<H::Value>>,
    /// The last key that was read, with the option `s`.
    last: Option<String>,
    broken: bool,
}

impl<H: Holder> RandomAccessReader<H> {
    /// Opens a table by its rspecifier; a script is read at once.
    pub fn open(rspecifier: &str) -> Result<Self> {
        let options = Rspecifier::parse(rspecifier)?;
        let source = match options.kind {
            Kind::Archive => {
                let input = Some(Input::open(&options.file)?);
                Source::Archive(Archive { input, seen: HashMap::new(), last: None, broken: false })
            }
            Kind::Script => {
                let names = script::read_all(&options.file, options.sorted)?;
                let names = names.into_iter().map(|(key, name)| (key, Some(name))).collect();
                Source::Script { names, loader: script::Loader::new(), current: None }
            }
        };
        Ok(RandomAccessReader { options, source, asked: None })
    }

    /// Whether the table has the key. A script's object is read for this only with the option `p`, under which an
    /// unreadable one counts as absent.
    pub fn has(&mut self, key: &str) -> Result<bool> {
        self.ask(key)?;
        match &self.source {
            Source::Script { names, .. } if !self.options.permissive => Ok(names.contains_key(key)),
            _ => self.find(key),
        }
    }

    /// The object of a key, `None` if the table does not have it.
    pub fn get(&mut self, key: &str) -> Result<Option<&H::Value>> {
        self.ask(key)?;
        if !self.find(key)? {
            return Ok(None);
        }
        match &mut self.source {
            Source::Archive(archive) => Ok(archive.seen.get(key).and_then(Option::as_ref)),
            Source::Script { names, current, .. } => {
                if let Some(name) = names.get_mut(key).filter(|_| self.options.once) {
                    *name = None;
                }
                Ok(current.as_ref().map(|(_, value)| value))
            }
        }
    }

    /// Ends reading.
    pub fn close(self) -> Result<()> {
        match self.source {
            Source::Archive(Archive { input: Some(input), .. }) => match input.close() {
                Err(error) if self.options.permissive => {
                    log::warn!("{}: ignored, as the option p asks", error.chain());
                    Ok(())
                }
                other => other,
            },
            _ => Ok(()),
        }
    }

    /// Notes that a key is asked for, and what the options then allow to forget.
    fn ask(&mut self, key: &str) -> Result<()> {
        check_word(key)?;
        let both_sorted = self.options.sorted && self.options.called_sorted && self.options.kind == Kind::Archive;
        if let Some(before) = self.asked.as_deref().filter(|before| *before != key) {
            if both_sorted && key < before {
                return Err(Error::State(format!(
                    "{}: the option cs is given, but the key {key} is asked for after {before}",
                    self.options.file
                )));
            }
            if let Source::Archive(Archive { seen, .. }) = &mut self.source {
                if both_sorted {
                    seen.retain(|k, _| k.as_str() >= key);
                } else if let Some(given) = seen.get_mut(before).filter(|_| self.options.once) {
                    *given = None;
                }
            }
        }
        if self.asked.as_deref() != Some(key) {
            self.asked = Some(key.to_string());
        }
        Ok(())
    }

    /// Brings the object of a key into reach; tells whether there is one.
    fn find(&mut self, key: &str) -> Result<bool> {
        let options = &self.options;
        match &mut self.source {
            Source::Archive(archive) => find_in_archive(options, archive, key),
            Source::Script { names, loader, current } => {
                let Some(name) = names.get(key) else { return Ok(false) };
                if current.as_ref().is_some_and(|(of, _)| of == key) {
                    return Ok(true);
                }
                let Some(name) = name else { return Err(asked_twice(options, key)) };
                *current = None;
                match loader.load(key, name) {
                    Ok(value) => {
                        *current = Some((key.to_string(), value));
                        Ok(true)
                    }
                    Err(error) if options.permissive && is_broken_data(&error) => {
                        log::warn!("{}: entry left out, as the option p asks", error.chain());
                        Ok(false)
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }
}

/// Reads on until the key is found, or cannot come any more.
fn find_in_archive<H: Holder>(options: &Rspecifier, archive: &mut Archive<H>, key: &str) -> Result<bool> {
    match archive.seen.get(key) {
        Some(Some(_)) => return Ok(true),
        Some(None) => return Err(asked_twice(options, key)),
        None => {}
    }
    while !(options.sorted && archive.last.as_deref().is_some_and(|last| last > key)) {
        let Some((found, value)) = archive.read_on(options)? else { return Ok(false) };
        if options.sorted {
            archive.last = Some(found.clone());
            if options.called_sorted && found.as_str() < key {
                continue;
            }
        }
        let here = found == key;
        archive.seen.insert(found, Some(value));
        if here {
            return Ok(true);
        }
    }
    Ok(false)
}

impl<H: Holder> Archive<H> {
    /// The next entry; its key must be new, and greater than the last one if the archive is said to be sorted.
    fn read_on(&mut self, options: &Rspecifier) -> Result<Option<(String, H::Value)>> {
        if self.broken {
            return Err(Error::State(format!("{}: the table was broken at an earlier entry", options.file)));
        }
        let Some(input) = &mut self.input else { return Ok(None) };
        let start = input.offset();
        let (found, value) = match archive::read_entry::<H>(input) {
            Ok(Some(entry)) => entry,
            // The end of the data: only now a command's failure shows.
            Ok(None) => return self.end(options, Input::close),
            Err(error) => return self.end(options, |_| Err(error)),
        };
        let wrong = match self.last.as_deref() {
            Some(last) if found.as_str() < last => format!("the option s is given, but {found} comes after {last}"),
            Some(last) if found == last => format!("the key {found} is given twice"),
            _ if self.seen.contains_key(&found) => format!("the key {found} is given twice"),
            _ => return Ok(Some((found, value))),
        };
        self.broken = true;
        Err(Error::format(input.name(), start, wrong))
    }

    /// Nothing more can be read; with the option `p` that is no error.
    fn end(
        &mut self,
        options: &Rspecifier,
        why: impl FnOnce(Input) -> Result<()>,
    ) -> Result<Option<(String, H::Value)>> {
        match self.input.take().map_or(Ok(()), why) {
            Ok(()) => Ok(None),
            Err(error) if options.permissive && is_broken_data(&error) => {
                log::warn!("{}: the table ends here, as the option p asks", error.chain());
                Ok(None)
            }
            Err(error) => {
                self.broken = true;
                Err(error)
            }
        }
    }
}

fn asked_twice(options: &Rspecifier, key: &str) -> Error {
    Error::State(format!("{}: the option o is given, but the key {key} is asked for again", options.file))
}
