//! Commands, run in a folder of their own.
#![allow(dead_code)] // each test uses its own part

use std::fs;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// What a run of a program left behind.
pub struct Run {
    code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    #[track_caller]
    pub fn exits(self, code: i32) -> Run {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        self
    }

    #[track_caller]
    pub fn ok(self) -> Run {
        self.exits(0)
    }

    #[track_caller]
    pub fn failed(self, because: &str) {
        self.exits(1).says(&[because]);
    }

    #[track_caller]
    pub fn says(self, texts: &[&str]) -> Run {
        for text in texts {
            assert!(self.stderr.contains(text), "{text:?} is not in:\n{}", self.stderr);
        }
        self
    }

    /// Texts of the log lines of a kind.
    pub fn lines(&self, kind: &str) -> Vec<&str> {
        let lines = self.stderr.lines().filter(|line| line.starts_with(&format!("{kind} (koshi-")));
        lines.filter_map(|line| line.split_once(") ")).map(|(_, text)| text).collect()
    }
}

pub struct Folder(TempDir);

impl Folder {
    /// An empty one.
    pub fn empty() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.0.path().join(name), content).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn run(&self, program: &str, words: &[&str]) -> Run {
        let output =
            Command::new(program).args(words).current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap();
        let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Run { code: output.status.code(), stdout, stderr }
    }
}
