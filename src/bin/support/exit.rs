//! How a command ends: status 0 or 1, whatever happens on the way.

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicBool, Ordering};

use koshi::Error;

use super::messages;

/// Why a command ends without success.
#[derive(Debug)]
pub enum Failure {
    /// An error, still to be told.
    Error(Error),
    /// The command line was wrong, as this text says.
    Usage(String),
    /// Everything was told already.
    Told,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

/// Runs a command. Errors and panics are told on standard error and end in status 1; so do
/// the signals by which a process gives itself up (out of memory, stack overflow, a mapped
/// file that shrank).
pub fn run(program: &'static str, command: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    end_signals_with_status_1();
    keep_closed_what_came_closed();
    messages::start(program);
    match std::panic::catch_unwind(AssertUnwindSafe(command)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            match failure {
                Failure::Error(error) => log::error!(target: "main", "{}", error.chain()),
                Failure::Usage(text) => log::error!(target: "main", "{text}; --help tells how the command is used"),
                Failure::Told => {}
            }
            ExitCode::FAILURE
        }
        // The panic hook has told where and why.
        Err(_) => ExitCode::FAILURE,
    }
}

/// The system would report a process that aborts as one that a signal ended, which shells
/// turn into statuses above 128.
#[cfg(unix)]
fn end_signals_with_status_1() {
    extern "C" fn end(_: libc::c_int) {
        // SAFETY: _exit may be called from a signal handler.
        unsafe { libc::_exit(1) }
    }
    extern "C" fn lost_file(_: libc::c_int) {
        let text = b"a file was cut short, or could not be read, while it was in use\n";
        // SAFETY: write and _exit may be called from a signal handler; the text is static.
        unsafe {
            libc::write(2, text.as_ptr().cast(), text.len());
            libc::_exit(1)
        }
    }
    let handlers: [(libc::c_int, extern "C" fn(libc::c_int)); 2] = [(libc::SIGABRT, end), (libc::SIGBUS, lost_file)];
    for (signal, handler) in handlers {
        // SAFETY: the handlers only do what a signal handler may do.
        unsafe {
            libc::signal(signal, handler as *const () as libc::sighandler_t);
        }
    }
    // A file that has reached the greatest size that a process may write fails its write, as a full disk does.
    // SAFETY: ignoring a signal has no other effect.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

#[cfg(not(unix))]
fn end_signals_with_status_1() {}

/// Before `main` the Rust runtime opens /dev/null in place of a standard stream that came closed,
/// and what is written there is lost without an error. The two that carry data are made to fail
/// again: whoever reads or writes them is told.
#[cfg(target_os = "linux")]
fn keep_closed_what_came_closed() {
    use std::fs::OpenOptions;
    use std::os::fd::AsRawFd;

    for (stream, closed) in (0..).zip(&CAME_CLOSED) {
        if !closed.load(Ordering::Relaxed) {
            continue;
        }
        // The wrong way round: standard input that cannot be read, standard output that cannot be written.
        if let Ok(file) = OpenOptions::new().read(stream == 1).write(stream == 0).open("/dev/null") {
            // SAFETY: both descriptors are open, and nothing has used the stream yet.
            unsafe { libc::dup2(file.as_raw_fd(), stream) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn keep_closed_what_came_closed() {}

/// Whether standard input and output were closed when the process began.
#[cfg(target_os = "linux")]
static CAME_CLOSED: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];

/// Runs before the runtime does.
#[cfg(target_os = "linux")]
extern "C" fn look_at_standard_streams() {
    for (stream, closed) in (0..).zip(&CAME_CLOSED) {
        // SAFETY: F_GETFD only asks; it fails for a descriptor that is not open.
        closed.store(unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1, Ordering::Relaxed);
    }
}

// SAFETY: the section holds functions that are called in turn, before `main`; this one needs nothing
// of the runtime.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look_at_standard_streams;
