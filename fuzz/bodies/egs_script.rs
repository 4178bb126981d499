//! Bytes taken for a script of calls through the C face on training examples of both kinds: made, changed, cut, written to
//! tables, read and looked up there, handed through repositories, with parts that do not fit, names and keys that are
//! none, and handles that are stale, of another type or wild. No call crashes or answers what the header does not know;
//! what was written is read again, a repository gives each example once and in order, and no handle is left.

use std::collections::VecDeque;
use std::ptr;

use koshi::ffi::*;
use tempfile::TempDir;

use super::egs_objects::{cut, degs, degs_bytes, example, example_bytes, look_at_degs, look_at_example};
use super::egs_tables::Table;
use super::face::{self, Alone, Bytes, call, fill, free, make};

/// More calls tell nothing new.
const MOST_CALLS: usize = 100;
const MOST_TABLES: usize = 3;
const HANDLE: koshi_status = koshi_status_code::KOSHI_E_HANDLE as koshi_status;
const STATE: koshi_status = koshi_status_code::KOSHI_E_STATE as koshi_status;
const CANCELLED: koshi_status = koshi_status_code::KOSHI_E_CANCELLED as koshi_status;

struct Repository {
    handle: *mut koshi_examples_repository,
    capacity: usize,
    inside: VecDeque<*mut koshi_example>,
    is_done: bool,
    is_cancelled: bool,
}

/// Objects that the script owns, and all handles that there ever were.
#[derive(Default)]
struct Script {
    examples: Vec<*mut koshi_example>,
    degs: Vec<*mut koshi_degs>,
    repositories: Vec<Repository>,
    tables: Vec<Table>,
    folder: Option<TempDir>,
    handles: Vec<usize>,
}

pub fn run(bytes: &[u8]) -> bool {
    let alone = Alone::new();
    let mut script = Script::default();
    Bytes(bytes).steps(MOST_CALLS, |bytes| script.step(bytes));
    script.end();
    alone.end();
    true
}

impl Script {
    fn step(&mut self, bytes: &mut Bytes) {
        let kind = bytes.next();
        if self.examples.is_empty() {
            self.new_example(&mut Bytes(&[]));
        }
        if self.degs.is_empty() {
            self.new_degs(&mut Bytes(&[]));
        }
        let (at, other) = (bytes.below(self.examples.len()), bytes.below(self.degs.len()));
        let (example, degs) = (self.examples[at], self.degs[other]);
        match kind % 32 {
            0..4 => self.new_example(bytes),
            4..6 => self.new_degs(bytes),
            6 => look_at_example(example, bytes),
            7 => look_at_degs(degs, bytes),
            8 | 9 => {
                if let Some(made) = cut(example, bytes) {
                    self.own(made);
                }
            }
            10 => set_label(example, bytes),
            11 => {
                free(koshi_example_free, example);
                self.examples.swap_remove(at);
            }
            12 => {
                free(koshi_degs_free, degs);
                self.degs.swap_remove(other);
            }
            13 => {
                // SAFETY: a live handle.
                assert_eq!(unsafe { koshi_degs_ref(degs) }, degs);
                self.degs.push(degs);
            }
            14 if self.tables.len() < MOST_TABLES => self.open_table(bytes),
            15..20 if !self.tables.is_empty() => {
                let table = bytes.below(self.tables.len());
                self.tables[table].write(example, degs, bytes);
            }
            20..24 if !self.tables.is_empty() => {
                let table = bytes.below(self.tables.len());
                let table = &mut self.tables[table];
                match kind % 32 {
                    20 => table.close(),
                    21 => table.free(),
                    22 => table.read(bytes),
                    _ => table.find(bytes),
                }
            }
            24 if self.repositories.len() < 2 => self.new_repository(bytes),
            25..30 if !self.repositories.is_empty() => {
                let repository = bytes.below(self.repositories.len());
                match kind % 32 {
                    25 | 26 => self.accept(repository, at, bytes),
                    27 => self.provide(repository, bytes),
                    28 => self.beside(repository, at, bytes),
                    _ => self.close_repository(repository, bytes),
                }
            }
            30 => self.bad_structs(bytes),
            _ => self.wrong_handle(bytes),
        }
    }

    fn own(&mut self, example: *mut koshi_example) {
        self.handles.push(example as usize);
        self.examples.push(example);
    }

    fn new_example(&mut self, bytes: &mut Bytes) {
        if let Some(example) = example(bytes) {
            self.own(example);
        }
    }

    fn new_degs(&mut self, bytes: &mut Bytes) {
        if let Some(degs) = degs(bytes) {
            self.handles.push(degs as usize);
            self.degs.push(degs);
        }
    }

    fn open_table(&mut self, bytes: &mut Bytes) {
        let folder = self.folder.get_or_insert_with(|| tempfile::tempdir().expect("a folder"));
        let path = folder.path().join(format!("{}.ark", self.handles.len()));
        if let Some(table) = Table::open(path, bytes) {
            self.handles.extend(table.handle());
            self.tables.push(table);
        }
    }

    fn new_repository(&mut self, bytes: &mut Bytes) {
        let capacity = bytes.below(4);
        // SAFETY: a place for the result.
        let made = make(|out, err| unsafe { koshi_examples_repository_new(capacity, out, err) });
        let handle = made.expect("a repository");
        self.handles.push(handle as usize);
        let (is_done, is_cancelled) = (false, false);
        self.repositories.push(Repository { handle, capacity, inside: VecDeque::new(), is_done, is_cancelled });
    }

    /// A few examples that there is room for, seldom one twice or none at all.
    fn accept(&mut self, repository: usize, at: usize, bytes: &mut Bytes) {
        let count = bytes.below(3).min(self.examples.len() - at);
        let mut given: Vec<_> = self.examples[at..at + count].to_vec();
        match bytes.next() {
            255 => given.extend(given.first().copied()),
            254 => given.push(face::wrong(&[], bytes) as *mut _),
            _ => {}
        }
        let is_good = given.len() == count || count == 0 && given.is_empty();
        let known = &mut self.repositories[repository];
        let has_room = known.inside.is_empty() || known.inside.len() + given.len() <= known.capacity;
        if !(has_room || known.is_done || known.is_cancelled || !is_good) {
            return; // it would wait for ever
        }
        let (handle, data, len) = (known.handle, given.as_ptr(), given.len());
        // SAFETY: handles may be anything; an array with its length.
        let status = call(|err| unsafe { koshi_examples_repository_accept(handle, data, len, err) });
        let expected = match (is_good, known.is_cancelled, known.is_done) {
            (false, ..) => {
                assert!(status < 0);
                return;
            }
            (true, true, _) => CANCELLED,
            (true, false, true) => STATE,
            (true, false, false) => 0,
        };
        assert!(status == expected || given.is_empty(), "{status}");
        if status == 0 {
            known.inside.extend(given);
            self.examples.drain(at..at + count);
        }
    }

    fn provide(&mut self, repository: usize, bytes: &mut Bytes) {
        let known = &mut self.repositories[repository];
        let most = 1 + bytes.below(3);
        let most = bytes.mostly(most, &[0]);
        if known.inside.is_empty() && !known.is_done && !known.is_cancelled && most > 0 {
            return; // it would wait for ever
        }
        let mark = ptr::without_provenance_mut(8);
        let (mut found, mut count) = ([mark; 4], 77);
        let (handle, data) = (known.handle, found.as_mut_ptr());
        // SAFETY: a live handle; an array with room for as many, a place for the result.
        let status = call(|err| unsafe { koshi_examples_repository_provide(handle, data, most, &mut count, err) });
        if status < 0 {
            assert!(count == 77 && found == [mark; 4] && (most == 0 || known.is_cancelled));
            return;
        }
        let wanted: Vec<_> = known.inside.drain(..most.min(known.inside.len())).collect();
        assert!(found[..count] == wanted && found[count..].iter().all(|rest| *rest == mark));
        self.examples.extend(wanted);
    }

    /// One thread brings, and may have to wait; this one makes room, or ends it all.
    fn beside(&mut self, repository: usize, at: usize, bytes: &mut Bytes) {
        let known = &mut self.repositories[repository];
        let (handle, given) = (known.handle as usize, self.examples[at] as usize);
        let how = bytes.below(3);
        let (mut found, mut count) = ([ptr::null_mut(); 8], 0);
        let status = std::thread::scope(|scope| {
            let brings = scope.spawn(move || {
                let given = given as *mut koshi_example;
                // SAFETY: a live handle until it ends; an array with its length.
                call(|err| unsafe { koshi_examples_repository_accept(handle as *const _, &given, 1, err) })
            });
            std::thread::yield_now();
            let handle = handle as *mut koshi_examples_repository;
            // SAFETY: as above; an array with room for as many, a place for the result.
            unsafe {
                match how {
                    0 => assert_eq!(call(|err| koshi_examples_repository_cancel(handle, err)), 0),
                    // What is inside makes room, and else there is room.
                    _ if !known.inside.is_empty() && !known.is_cancelled => {
                        let data = found.as_mut_ptr();
                        let status = call(|err| koshi_examples_repository_provide(handle, data, 8, &mut count, err));
                        assert_eq!(status, 0);
                    }
                    _ => {}
                }
            }
            brings.join().expect("no panic")
        });
        if status == 0 {
            known.inside.push_back(self.examples.swap_remove(at));
        }
        let wanted: Vec<_> = known.inside.drain(..count).collect();
        assert!(found[..count] == wanted);
        self.examples.extend(wanted);
        if how == 0 {
            known.is_cancelled = true;
            known.inside.clear(); // freed with them
        }
    }

    fn close_repository(&mut self, repository: usize, bytes: &mut Bytes) {
        let known = &mut self.repositories[repository];
        let handle = known.handle;
        // SAFETY: a live handle.
        unsafe {
            match bytes.below(3) {
                0 => {
                    assert_eq!(call(|err| koshi_examples_repository_done(handle, err)), 0);
                    known.is_done = true;
                }
                1 => {
                    assert_eq!(call(|err| koshi_examples_repository_cancel(handle, err)), 0);
                    known.is_cancelled = true;
                    known.inside.clear();
                }
                _ => {
                    free(koshi_examples_repository_free, handle);
                    self.repositories.swap_remove(repository);
                }
            }
        }
    }

    fn bad_structs(&mut self, bytes: &mut Bytes) {
        let (example, degs) = (self.examples[0], self.degs[0]);
        let size = |most: usize, bytes: &mut Bytes| usize::from(bytes.next()).min(2 * most);
        // SAFETY: live handles, places of the sizes told.
        unsafe {
            let told = size(size_of::<koshi_example_parts>(), bytes);
            fill(told, |out, size, err| koshi_example_parts_init(out, size, err));
            let told = size(size_of::<koshi_degs_parts>(), bytes);
            fill(told, |out, size, err| koshi_degs_parts_init(out, size, err));
            let told = size(size_of::<koshi_example_summary>(), bytes);
            fill(told, |out, size, err| koshi_example_info(example, out, size, err));
            let told = size(size_of::<koshi_degs_summary>(), bytes);
            fill(told, |out, size, err| koshi_degs_info(degs, out, size, err));
        }
    }

    /// A handle of any kind, given where one of another kind belongs, or one that lives.
    fn wrong_handle(&mut self, bytes: &mut Bytes) {
        let (one, kind) = (face::wrong(&self.handles, bytes), bytes.next());
        let is_live = |name| face::is_live(name, one);
        let (example, degs) = (is_live("koshi_example"), is_live("koshi_degs"));
        let (writer, repository) = (is_live("koshi_egs_writer"), is_live("koshi_examples_repository"));
        let told = |is_live: bool, status: koshi_status| assert_eq!(status == HANDLE, !is_live, "{kind}: {one:#x}");
        let (mut len, mut key, mut none) = (7, ptr::null(), ptr::null_mut());
        // SAFETY: handles may be anything, places for results.
        unsafe {
            let (at_example, at_degs) = (one as *mut koshi_example, one as *mut koshi_degs);
            match kind % 20 {
                0 => assert_eq!(example_bytes(at_example, 1).is_some(), example),
                1 => assert!(degs || degs_bytes(at_degs, 1).is_none()),
                2 => assert_eq!(!koshi_example_label_offsets(at_example, &mut len).is_null(), example),
                3 => assert!(example || koshi_example_labels(at_example, &mut len).is_null() && len == 0),
                4 => assert!(
                    example || koshi_example_frames(at_example, &mut len, ptr::null_mut()).is_null() && len == 0
                ),
                5 => assert!(degs || koshi_degs_frames(at_degs, &mut len, ptr::null_mut()).is_null() && len == 0),
                6 => assert!(degs || koshi_degs_weight(at_degs).is_nan()),
                7 => told(example, call(|err| koshi_example_check(at_example, err))),
                8 => told(degs, call(|err| koshi_degs_check(at_degs, err))),
                9 => {
                    let counted = koshi_degs_ref(at_degs);
                    assert_eq!(!counted.is_null(), degs);
                    free(koshi_degs_free, counted);
                }
                10 if !example => assert_eq!(koshi_example_free(at_example) == 0, one == 0),
                11 if !degs => assert_eq!(koshi_degs_free(at_degs) == 0, one == 0),
                12 if !writer => {
                    told(false, call(|err| koshi_egs_writer_close(one as *mut _, err)));
                    assert_eq!(koshi_egs_writer_free(one as *mut _) == 0, one == 0);
                }
                13 => told(false, call(|err| koshi_egs_reader_next(one as *mut _, &mut key, &mut none, err))),
                14 => told(false, call(|err| koshi_egs_table_find(one as *mut _, c"a".as_ptr(), &mut none, err))),
                15 if !repository => {
                    told(false, call(|err| koshi_examples_repository_cancel(one as *const _, err)));
                    assert_eq!(koshi_examples_repository_free(one as *mut _) == 0, one == 0);
                }
                16 if !writer => {
                    told(false, call(|err| koshi_egs_writer_write(one as *mut _, c"a".as_ptr(), at_example, err)));
                }
                17 if !repository => {
                    let (data, count) = (&mut none, &mut len);
                    told(false, call(|err| koshi_examples_repository_provide(one as *const _, data, 1, count, err)));
                }
                18 => assert_eq!(koshi_egs_reader_free(one as *mut _) == 0, one == 0),
                _ => assert_eq!(koshi_egs_table_free(one as *mut _) == 0, one == 0),
            }
        }
        assert!(key.is_null() && none.is_null());
    }

    /// Everything goes, and with a repository all that is in it.
    fn end(mut self) {
        self.tables.iter_mut().for_each(Table::free);
        self.repositories.iter().for_each(|known| free(koshi_examples_repository_free, known.handle));
        self.examples.iter().for_each(|example| free(koshi_example_free, *example));
        self.degs.iter().for_each(|degs| free(koshi_degs_free, *degs));
    }
}

fn set_label(example: *mut koshi_example, bytes: &mut Bytes) {
    let (frame, pdf) = (bytes.below(4), i32::from(bytes.next()));
    let (mut found, mut weight) = (77, 77.0);
    // SAFETY: a live handle, places for results.
    unsafe {
        let status = call(|err| koshi_example_set_label(example, frame, pdf, 0.5, err));
        let asked = call(|err| koshi_example_label(example, frame, &mut found, &mut weight, err));
        assert_eq!(status, asked);
    }
    assert!(weight == 77.0 || (found, weight) == (pdf, 0.5));
}
