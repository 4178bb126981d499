//! Messages on standard error, in the form that scripts around Kaldi look for:
//! `LOG (program[version]:function():file:line) text`.
//!
//! Commands and the library both speak through the `log` crate. Its levels become Kaldi's:
//! error `ERROR`, warn `WARNING`, info `LOG`, debug `VLOG[1]`, trace `VLOG[2]`; the last two
//! only show with `--verbose=1` and `--verbose=2`.

use std::io::Write;
use std::sync::OnceLock;

use log::{Level, LevelFilter, Log, Metadata, Record};

struct Messages {
    program: &'static str,
}

static MESSAGES: OnceLock<Messages> = OnceLock::new();

/// Starts sending messages to standard error; `program` is the command's name.
pub fn start(program: &'static str) {
    let messages = MESSAGES.get_or_init(|| Messages { program });
    // A second logger is refused; there is only this one.
    if log::set_logger(messages).is_ok() {
        set_verbose(0);
    }
}

/// How much is said, as `--verbose` gives it.
pub fn set_verbose(level: i32) {
    log::set_max_level(match level {
        ..=0 => LevelFilter::Info,
        1 => LevelFilter::Debug,
        2.. => LevelFilter::Trace,
    });
}

/// Writes to standard error; where that is not possible there is nobody to tell.
pub fn print(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

impl Log for Messages {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        print(&line(self.program, record));
    }

    fn flush(&self) {}
}

fn line(program: &str, record: &Record<'_>) -> String {
    let kind = match record.level() {
        Level::Error => "ERROR",
        Level::Warn => "WARNING",
        Level::Info => "LOG",
        Level::Debug => "VLOG[1]",
        Level::Trace => "VLOG[2]",
    };
    // Commands give the name of the function as target; the library's is the path of a module.
    let function = record.target().rsplit("::").next().unwrap_or_default();
    let file = record.file().unwrap_or_default().rsplit(['/', '\\']).next().unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    format!("{kind} ({program}[{version}]:{function}():{file}:{}) {}\n", record.line().unwrap_or(0), record.args())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_form_of_kaldis() {
        let text = |level, target, file| {
            let args = format_args!("Done 3");
            let mut record = Record::builder();
            let record = record.level(level).target(target).file(Some(file)).line(Some(7)).args(args);
            line("koshi-x", &record.build())
        };
        let version = env!("CARGO_PKG_VERSION");
        let expected = format!("LOG (koshi-x[{version}]:main():koshi-x.rs:7) Done 3\n");
        assert_eq!(text(Level::Info, "main", "src/bin/koshi-x.rs"), expected);
        let expected = format!("WARNING (koshi-x[{version}]:sequential():sequential.rs:7) Done 3\n");
        assert_eq!(text(Level::Warn, "koshi::table::sequential", "src/table/sequential.rs"), expected);
    }
}
