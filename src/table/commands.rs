//! Whether file names may run commands, and running them.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

static ALLOWED: AtomicBool = AtomicBool::new(false);

/// Allows or forbids commands (`gunzip -c a.gz |`, `| gzip -c > a.gz`) in the names of tables
/// and files, for the whole process. They are off until a program turns them on.
pub fn set_allow_commands(allow: bool) {
    ALLOWED.store(allow, Ordering::Relaxed);
}

/// Whether commands are allowed in the names of tables and files.
pub fn commands_allowed() -> bool {
    ALLOWED.load(Ordering::Relaxed)
}

/// Which end of the child is connected to us.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// Starts `sh -c command` with one end of a pipe to it; `name` is the name as the caller gave it.
pub(super) fn spawn(command: &str, direction: Direction, name: &str) -> Result<Child> {
    if !commands_allowed() {
        return Err(Error::Unsupported(format!("{name}: commands in file names are not allowed")));
    }
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command);
    match direction {
        Direction::Read => shell.stdout(Stdio::piped()),
        Direction::Write => shell.stdin(Stdio::piped()),
    };
    shell.spawn().map_err(|e| Error::io(format!("{name}: starting sh"), e))
}

/// Waits for a command and gives an error unless it ended with status 0.
pub(super) fn wait(child: &mut Child, name: &str) -> Result<()> {
    let status = child.wait().map_err(|e| Error::io(format!("{name}: waiting for the command"), e))?;
    if status.success() {
        return Ok(());
    }
    let reason = std::io::Error::other(format!("the command failed ({status})"));
    Err(Error::io(name, reason))
}
