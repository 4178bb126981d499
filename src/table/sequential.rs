//! Reading a table from its first entry to its last.

use super::archive;
use super::holder::Holder;
use super::input::Input;
use super::script;
use super::specifier::{Kind, Rspecifier};
use crate::error::{Error, Result};

/// Reads the entries of a table in their order.
///
/// The options `o`, `s` and `cs` promise things that sequential reading does not need; they are accepted and not checked.
pub struct SequentialReader<H: Holder> {
    source: Option<Source<H>>,
    permissive: bool,
    failed: bool,
}

enum Source<H: Holder> {
    Archive(Input),
    Script(Input, script::Loader<H>),
}

impl<H: Holder> SequentialReader<H> {
    /// Opens a table by its rspecifier.
    pub fn open(rspecifier: &str) -> Result<Self> {
        let parsed = Rspecifier::parse(rspecifier)?;
        let input = Input::open(&parsed.file)?;
        let source = match parsed.kind {
            Kind::Archive => Source::Archive(input),
            Kind::Script => Source::Script(input, script::Loader::new()),
        };
        Ok(SequentialReader { source: Some(source), permissive: parsed.permissive, failed: false })
    }

    /// Reads an archive from memory or another open input.
    pub fn from_archive(input: Input) -> Self {
        SequentialReader { source: Some(Source::Archive(input)), permissive: false, failed: false }
    }

    /// The next key and object, `None` after the last.
    ///
    /// A command whose output ends here and which failed is an error as well. With the option `p`, a script's entries that
    /// cannot be read are left out, and an archive or script ends where it is broken; a logged warning tells.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(String, H::Value)>> {
        if self.failed {
            return Err(Error::State("the table was broken at an earlier entry".to_string()));
        }
        let Some(source) = &mut self.source else { return Ok(None) };
        let found = match source {
            Source::Archive(input) => archive::read_entry::<H>(input),
            Source::Script(lines, loader) => next_of_script(lines, loader, self.permissive),
        };
        let ended = match found {
            Ok(Some(entry)) => return Ok(Some(entry)),
            Ok(None) => self.end(),
            Err(error) => {
                self.source = None;
                Err(error)
            }
        };
        match ended {
            Ok(()) => Ok(None),
            Err(error) if self.permissive && is_broken_data(&error) => {
                log::warn!("{}: the table ends here, as the option p asks", error.chain());
                Ok(None)
            }
            Err(error) => {
                self.failed = true;
                Err(error)
            }
        }
    }

    /// Ends reading before the end of the table; after it there is nothing left that could fail.
    pub fn close(mut self) -> Result<()> {
        match self.end() {
            Err(error) if self.permissive => {
                log::warn!("{}: ignored, as the option p asks", error.chain());
                Ok(())
            }
            other => other,
        }
    }

    fn end(&mut self) -> Result<()> {
        match self.source.take() {
            Some(Source::Archive(input) | Source::Script(input, _)) => input.close(),
            None => Ok(()),
        }
    }
}

fn next_of_script<H: Holder>(
    lines: &mut Input,
    loader: &mut script::Loader<H>,
    permissive: bool,
) -> Result<Option<(String, H::Value)>> {
    while let Some((key, name)) = script::read_line(lines)? {
        match loader.load(&key, &name) {
            Ok(value) => return Ok(Some((key, value))),
            Err(error) if permissive && is_broken_data(&error) => {
                log::warn!("{}: entry left out, as the option p asks", error.chain());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Whether an error lies in the data, which the option `p` forgives, and not in our means to read it.
pub(super) fn is_broken_data(error: &Error) -> bool {
    matches!(error.root(), Error::Format { .. } | Error::Io { .. } | Error::Argument(_))
}
