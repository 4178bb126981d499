//! Writing a table.

use std::collections::HashMap;

use super::holder::{Holder, check_word, write_file};
use super::names::{self, Writable};
use super::output::Output;
use super::script;
use super::specifier::Wspecifier;
use crate::error::{Error, Result};

/// Writes the entries of a table.
///
/// Call [`TableWriter::close`]: only it reports a failure of the last writes.
pub struct TableWriter<H: Holder> {
    options: Wspecifier,
    target: Target,
    holder: std::marker::PhantomData<fn(&H::Value)>,
}

enum Target {
    Archive {
        archive: Output,
        /// The script that points into the archive, and the archive's name for it.
        script: Option<(Output, String)>,
    },
    /// Where to write each key's object.
    Script(HashMap<String, String>),
}

impl<H: Holder> TableWriter<H> {
    /// Opens a table by its wspecifier.
    pub fn open(wspecifier: &str) -> Result<Self> {
        let options = Wspecifier::parse(wspecifier)?;
        let target = match (&options.archive, &options.script) {
            (Some(archive), script) => {
                if script.is_some() && !matches!(names::writable(archive), Ok(Writable::File(_))) {
                    log::warn!("{wspecifier}: the script can only be used if the archive is a file");
                }
                let output = Output::create(archive)?;
                let script = script.as_ref().map(|script| Ok::<_, Error>((Output::create(script)?, archive.clone())));
                Target::Archive { archive: output, script: script.transpose()? }
            }
            (None, Some(script)) => Target::Script(script::read_all(script, false)?),
            (None, None) => return Err(Error::Internal("a wspecifier without a file".to_string())),
        };
        Ok(TableWriter { options, target, holder: std::marker::PhantomData })
    }

    /// Writes one entry. Keys are words: not empty, without white space.
    pub fn write(&mut self, key: &str, value: &H::Value) -> Result<()> {
        check_word(key)?;
        let binary = self.options.binary;
        match &mut self.target {
            Target::Archive { archive, script } => {
                archive.write_token(key)?;
                if let Some((script, name)) = script {
                    script.write_text(&format!("{key} {name}:{}\n", archive.offset()))?;
                }
                H::write(archive, value, binary)?;
            }
            Target::Script(files) => match files.get(key) {
                Some(file) => write_file::<H>(file, value, binary)?,
                None if self.options.permissive => {}
                None => {
                    let script = self.options.script.as_deref().unwrap_or_default();
                    return Err(Error::Argument(format!("{script}: there is no file name for the key {key}")));
                }
            },
        }
        if self.options.flush { self.flush() } else { Ok(()) }
    }

    /// Hands everything written so far to the system.
    pub fn flush(&mut self) -> Result<()> {
        if let Target::Archive { archive, script } = &mut self.target {
            archive.flush()?;
            if let Some((script, _)) = script {
                script.flush()?;
            }
        }
        Ok(())
    }

    /// Ends the table; a failure of any write that was not reported before is an error.
    pub fn close(self) -> Result<()> {
        match self.target {
            Target::Archive { archive, script } => {
                let archive = archive.close();
                let script = script.map_or(Ok(()), |(script, _)| script.close());
                archive.and(script)
            }
            Target::Script(_) => Ok(()),
        }
    }
}
