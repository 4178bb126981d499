//! Tables of training examples as `egs_script` uses them: written, closed, read in order and looked up, with names that
//! are none, keys that are none, of the wrong kind and in the wrong state.

use std::ffi::{CString, c_char};
use std::path::PathBuf;
use std::ptr;

use koshi::ffi::*;

use super::egs_objects::{degs_bytes, example_bytes};
use super::face::{Bytes, call, free, make};

const KEYS: [&str; 6] = ["a", "b", "c-1", "", "two words", "\u{7f}x"];
const GOOD_KEYS: usize = 3;

/// A table that was written, or is being written.
pub struct Table {
    path: PathBuf,
    kind: i32,
    writer: Option<*mut koshi_egs_writer>,
    /// Keys and binary bytes of all that is in it; `None` where it is text, whose numbers are rounded.
    entries: Vec<(&'static str, Option<Vec<u8>>)>,
    /// Writes and the close have succeeded.
    is_whole: bool,
    is_closed: bool,
    text: bool,
}

fn c_string(text: &str) -> CString {
    CString::new(text).expect("no NUL inside")
}

impl Table {
    pub fn open(path: PathBuf, bytes: &mut Bytes) -> Option<Table> {
        let (kind, text) = (i32::from(bytes.next_bit()), bytes.next_bit());
        let kind = bytes.mostly(kind, &[-1, 2, i32::MAX]);
        let form = bytes.mostly(if text { "ark,t:" } else { "ark:" }, &["ark", "", "scp:", "x:", "ark,scp:", "ark:|"]);
        let name = c_string(&format!("{form}{}", path.display()));
        let is_good = ["ark:", "ark,t:"].contains(&form) && (0..2).contains(&kind);
        // SAFETY: a text, a place for the result.
        let made = make(|out, err| unsafe { koshi_egs_writer_open(name.as_ptr(), kind, out, err) });
        assert!(made.is_some() || !is_good);
        let writer = made?;
        if !is_good {
            // As a form with options may well be.
            free(koshi_egs_writer_free, writer);
            return None;
        }
        Some(Table { path, kind, writer: Some(writer), entries: Vec::new(), is_whole: true, is_closed: false, text })
    }

    pub fn handle(&self) -> Option<usize> {
        self.writer.map(|writer| writer as usize)
    }

    pub fn write(&mut self, example: *mut koshi_example, degs: *mut koshi_degs, bytes: &mut Bytes) {
        let Some(writer) = self.writer else { return };
        let key = bytes.below(GOOD_KEYS);
        let key = KEYS[bytes.mostly(key, &[3, 4, 5])];
        let text = c_string(key);
        let is_degs = bytes.mostly(self.kind, &[1 - self.kind]) == 1;
        // SAFETY: live handles, a text.
        let (status, data) = unsafe {
            match is_degs {
                false => {
                    (call(|err| koshi_egs_writer_write(writer, text.as_ptr(), example, err)), example_bytes(example, 1))
                }
                true => {
                    (call(|err| koshi_egs_writer_write_degs(writer, text.as_ptr(), degs, err)), degs_bytes(degs, 1))
                }
            }
        };
        let fits = (self.kind == 1) == is_degs;
        let is_good = fits && KEYS[..GOOD_KEYS].contains(&key) && !self.is_closed;
        assert!(status < 0 || is_good, "{key:?} {fits}");
        assert!(status == 0 || !is_good || data.is_none(), "{status}");
        match (status, data) {
            (0, Some(data)) => self.entries.push((key, (!self.text).then_some(data))),
            // What cannot be written may leave a broken entry behind.
            _ if is_good => self.is_whole = false,
            _ => {}
        }
    }

    pub fn close(&mut self) {
        let Some(writer) = self.writer else { return };
        // SAFETY: a live handle.
        let status = call(|err| unsafe { koshi_egs_writer_close(writer, err) });
        assert!(status == 0 || self.is_closed || !self.is_whole, "{status}");
        self.is_closed = true;
    }

    pub fn free(&mut self) {
        if let Some(writer) = self.writer.take() {
            free(koshi_egs_writer_free, writer);
        }
        self.is_closed = true;
    }

    /// What was written is read, in order, and to its end.
    pub fn read(&self, bytes: &mut Bytes) {
        if !self.is_closed || !self.is_whole {
            return;
        }
        let kind = bytes.mostly(self.kind, &[1 - self.kind, 2]);
        let name = c_string(&format!("ark:{}", self.path.display()));
        // SAFETY: a text, live handles, places for results.
        unsafe {
            let made = make(|out, err| koshi_egs_reader_open(name.as_ptr(), kind, out, err));
            assert!(made.is_some() || kind != self.kind);
            let Some(reader) = made else { return };
            let mut key: *const c_char = ptr::without_provenance(8);
            for at in 0..=self.entries.len() {
                let found = match self.kind {
                    0 => next(&mut key, |key, out, err| koshi_egs_reader_next(reader, key, out, err))
                        .map(|made| taken(made, koshi_example_free, |made| example_bytes(made, 1))),
                    _ => next(&mut key, |key, out, err| koshi_egs_reader_next_degs(reader, key, out, err))
                        .map(|made| taken(made, koshi_degs_free, |made| degs_bytes(made, 1))),
                };
                if kind != self.kind {
                    assert!(found.is_none());
                    break;
                }
                let entry = self.entries.get(at);
                // Text may round a number so that it cannot be compressed again.
                if self.text && found.is_none() {
                    break;
                }
                let found = found.expect("what was written is read");
                assert_eq!(entry.is_some(), found.is_some());
                if let (Some((wanted, data)), Some(found)) = (entry, found) {
                    assert_eq!(std::ffi::CStr::from_ptr(key).to_bytes(), wanted.as_bytes());
                    assert!(data.is_none() || *data == Some(found));
                } else {
                    assert!(key.is_null());
                }
            }
            free(koshi_egs_reader_free, reader);
        }
    }

    /// What was written is found by its key: the first of that name, with any promise that holds.
    pub fn find(&self, bytes: &mut Bytes) {
        if !self.is_closed || !self.is_whole || self.text {
            return;
        }
        let is_sorted = self.entries.windows(2).all(|two| two[0].0 < two[1].0);
        let options = if is_sorted { ["", ",s", ",s,cs", ",o"][bytes.below(4)] } else { "" };
        let is_twice = self
            .entries
            .iter()
            .enumerate()
            .any(|(at, (key, _))| self.entries[..at].iter().any(|(other, _)| other == key));
        let kind = bytes.mostly(self.kind, &[1 - self.kind]);
        let name = c_string(&format!("ark{options}:{}", self.path.display()));
        // SAFETY: a text, live handles, places for results.
        unsafe {
            let Some(table) = make(|out, err| koshi_egs_table_open(name.as_ptr(), kind, out, err)) else {
                // Empty or of the other kind.
                assert!(kind != self.kind || is_twice, "{name:?}");
                return;
            };
            for key in ["a", "b", "c-1"].into_iter().chain((bytes.next() >= 128).then_some("zz")) {
                let text = c_string(key);
                let mut none = ptr::without_provenance(8);
                let found = match self.kind {
                    0 => next(&mut none, |_, out, err| koshi_egs_table_find(table, text.as_ptr(), out, err))
                        .map(|made| taken(made, koshi_example_free, |made| example_bytes(made, 1))),
                    _ => next(&mut none, |_, out, err| koshi_egs_table_find_degs(table, text.as_ptr(), out, err))
                        .map(|made| taken(made, koshi_degs_free, |made| degs_bytes(made, 1))),
                };
                if kind == self.kind && !is_twice {
                    let entry = self.entries.iter().find(|(other, _)| *other == key);
                    assert_eq!(
                        found.expect("a good table"),
                        entry.and_then(|(_, data)| data.clone()),
                        "{name:?} {key}"
                    );
                }
            }
            free(koshi_egs_table_free, table);
        }
    }
}

/// The answer of a call that gives an entry, or NULL where there is none; `None` where it failed.
fn next<T>(
    key: &mut *const c_char,
    function: impl FnOnce(*mut *const c_char, *mut *mut T, *mut *mut koshi_error) -> koshi_status,
) -> Option<*mut T> {
    let mark = ptr::without_provenance_mut(8);
    let (mut made, before) = (mark, *key);
    let status = call(|err| function(key, &mut made, err));
    assert_eq!(made == mark, status < 0);
    assert!(status >= 0 || before == *key);
    (status >= 0).then_some(made)
}

/// What a made object is as bytes; it is freed.
fn taken<T>(
    made: *mut T,
    function: unsafe extern "C" fn(*mut T) -> koshi_status,
    bytes: impl FnOnce(*const T) -> Option<Vec<u8>>,
) -> Option<Vec<u8>> {
    if made.is_null() {
        return None;
    }
    let data = bytes(made).expect("what was read is written");
    free(function, made);
    Some(data)
}
