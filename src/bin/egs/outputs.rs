//! The tables that are written.

use koshi::table::{Holder, TableWriter};
use koshi::{Error, Result};

/// One or more tables of the same type.
pub struct Outputs<H: Holder>(Vec<TableWriter<H>>);

impl<H: Holder> Outputs<H> {
    /// Opens them all.
    pub fn open(wspecifiers: &[String]) -> Result<Outputs<H>> {
        wspecifiers.iter().map(|name| TableWriter::open(name)).collect::<Result<_>>().map(Outputs)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Writes to one of them.
    pub fn write(&mut self, index: usize, key: &str, value: &H::Value) -> Result<()> {
        let table = self.0.get_mut(index).ok_or_else(|| Error::Internal(format!("there is no output {index}")))?;
        table.write(key, value)
    }

    /// Only now is it certain that everything was written. All are closed, whatever becomes of one.
    pub fn close(self) -> Result<()> {
        let closed: Vec<Result<()>> = self.0.into_iter().map(TableWriter::close).collect();
        closed.into_iter().collect()
    }
}
