//! Writing to a pipe whose reader is gone must give an error and not end the process.

/// Runs `write` so that a broken pipe only shows as an error. Rust programs ignore SIGPIPE, but the library also lives in
/// C programs, where it kills; changing the process-wide handler there is not ours to do. So the signal is blocked in this
/// thread while it writes, and one that came from the write is taken back before the mask is restored.
#[cfg(unix)]
pub(super) fn without_sigpipe<T>(write: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    let guard = Blocked::new();
    let written = write();
    if let Some(guard) = guard {
        guard.end(written.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe));
    }
    written
}

#[cfg(not(unix))]
pub(super) fn without_sigpipe<T>(write: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    write()
}

/// SIGPIPE is blocked in this thread until the end of this value.
#[cfg(unix)]
struct Blocked {
    pipe_only: libc::sigset_t,
    before: libc::sigset_t,
}

#[cfg(unix)]
impl Blocked {
    /// `None` if the signal was already pending or the mask could not be changed: then it stays as it is.
    fn new() -> Option<Blocked> {
        // SAFETY: the sets are plain data that sigemptyset and pthread_sigmask initialise before they are read; all
        // pointers are to locals that outlive the calls.
        unsafe {
            let mut pending: libc::sigset_t = std::mem::zeroed();
            if libc::sigpending(&mut pending) != 0 || libc::sigismember(&pending, libc::SIGPIPE) == 1 {
                return None;
            }
            let mut pipe_only: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut pipe_only);
            libc::sigaddset(&mut pipe_only, libc::SIGPIPE);
            let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, &pipe_only, &mut before) == 0;
            blocked.then_some(Blocked { pipe_only, before })
        }
    }

    fn end(self, broken: bool) {
        // SAFETY: as above; sigwait is called only while the signal is pending and blocked, so it returns at once.
        unsafe {
            let mut pending: libc::sigset_t = std::mem::zeroed();
            if broken && libc::sigpending(&mut pending) == 0 && libc::sigismember(&pending, libc::SIGPIPE) == 1 {
                let mut signal = 0;
                libc::sigwait(&self.pipe_only, &mut signal);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut());
        }
    }
}
