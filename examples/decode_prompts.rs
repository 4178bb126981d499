//! Decodes the bundled prompts through the C functions, as a program that embeds the library
//! does, and compares the words with what was said.
//!
//! `cargo run --release --example decode_prompts`

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::ptr;
use std::time::{Duration, Instant};

use koshi::ffi::*;

/// Rows given at a time: a fifth of a second, as from a live line.
const ROWS_PER_PUSH: usize = 20;

fn main() -> ExitCode {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/prompts");
    match run(&data, &lattice_file(), &mut std::io::stdout().lock()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Beside the program, which is where cargo puts things; else where temporary files go.
fn lattice_file() -> PathBuf {
    let name = "decode_prompts.lattices.ark";
    let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join(name)));
    match beside.filter(|path| std::fs::OpenOptions::new().create(true).append(true).open(path).is_ok()) {
        Some(path) => path,
        None => std::env::temp_dir().join(name),
    }
}

/// Decodes the prompts of the folder `data`, writes their lattices to `lattices` and what there
/// is to tell to `out`. Gives the words that were found, by utterance.
pub fn run(data: &Path, lattices: &Path, out: &mut impl Write) -> Result<Vec<(String, Vec<i32>)>, String> {
    let references = read_references(&data.join("text"))?;
    let decoder = Decoder::open(data, lattices)?;
    let mut found = Vec::new();
    let (mut errors, mut spoken, mut frames, mut spent) = (0, 0, 0, Duration::ZERO);
    while let Some((key, matrix)) = decoder.next_matrix()? {
        let start = Instant::now();
        frames += decoder.decode(matrix)?;
        let words = decoder.best_words()?;
        decoder.write_lattice(&key)?;
        spent += start.elapsed();
        let said = references.get(&key).ok_or_else(|| format!("{key}: the text is missing"))?;
        let decoded = words.iter().map(|&word| decoder.name(word)).collect::<Result<Vec<_>, _>>()?;
        errors += distance(said, &decoded);
        spoken += said.len();
        tell(out, &format!("{key}\n    said     {}\n    decoded  {}\n", said.join(" "), decoded.join(" ")))?;
        found.push((key, words));
    }
    decoder.close()?;
    let (wer, seconds) = (100.0 * errors as f64 / spoken as f64, spent.as_secs_f64());
    tell(out, &format!("\nWER {wer:.1} %\n{errors} errors in {spoken} words\n"))?;
    tell(out, &format!("{frames} frames in {seconds:.3} s: {:.0} frames a second\n", frames as f64 / seconds))?;
    tell(out, &format!("lattices written to {}\n", lattices.display()))?;
    Ok(found)
}

fn tell(out: &mut impl Write, text: &str) -> Result<(), String> {
    out.write_all(text.as_bytes()).map_err(|error| format!("standard output: {error}"))
}

/// All handles that the decoding needs.
struct Decoder {
    symbols: *mut koshi_symbols,
    channel: *mut koshi_channel,
    reader: *mut koshi_matrix_reader,
    writer: *mut koshi_lattice_writer,
}

impl Decoder {
    fn open(data: &Path, lattices: &Path) -> Result<Decoder, String> {
        let file = |name: &str| text(data.join(name).display().to_string());
        let (model, graph, words) = (file("trans.mdl"), file("HCLG.fst"), file("words.txt"));
        let scores = text(format!("ark:{}", data.join("loglikes.ark").display()));
        let lattices = text(format!("ark:{}", lattices.display()));
        // SAFETY: texts outlive the calls, and results go to variables of `make`.
        unsafe {
            let transitions = make(|made, err| koshi_transitions_read(model.as_ptr(), made, err))?;
            let graph = make(|made, err| koshi_graph_read(graph.as_ptr(), transitions, made, err))?;
            let mut config = std::mem::zeroed::<koshi_decoder_config>();
            call(|err| koshi_decoder_config_init(&mut config, size_of_val(&config), err))?;
            config.beam = 13.0;
            config.lattice_beam = 6.0;
            config.max_active = 7000;
            config.acoustic_scale = 0.083333;
            let decoder = make(|made, err| koshi_decoder_new(graph, &config, made, err))?;
            let opened = Decoder {
                symbols: make(|made, err| koshi_symbols_read(words.as_ptr(), made, err))?,
                channel: make(|made, err| koshi_channel_new(decoder, made, err))?,
                reader: make(|made, err| koshi_matrix_reader_open(scores.as_ptr(), made, err))?,
                writer: make(|made, err| koshi_lattice_writer_open(lattices.as_ptr(), made, err))?,
            };
            // Each handle keeps alive what it was made from.
            koshi_transitions_free(transitions);
            koshi_graph_free(graph);
            koshi_decoder_free(decoder);
            Ok(opened)
        }
    }

    /// The next utterance of the archive and its scores.
    fn next_matrix(&self) -> Result<Option<(String, *mut koshi_matrix)>, String> {
        let mut key = ptr::null();
        // SAFETY: results go to local variables; the key is copied before the next call.
        unsafe {
            let matrix = make(|made, err| koshi_matrix_reader_next(self.reader, &mut key, made, err))?;
            Ok((!matrix.is_null()).then(|| (string(key), matrix)))
        }
    }

    /// Decodes a matrix, which is freed, a few rows at a time; gives the number of its frames.
    fn decode(&self, matrix: *mut koshi_matrix) -> Result<usize, String> {
        let (mut rows, mut columns) = (0, 0);
        // SAFETY: the matrix lives until it is freed below; each push lies inside it.
        unsafe {
            let scores = koshi_matrix_data(matrix, &mut rows, &mut columns);
            call(|err| koshi_channel_begin(self.channel, err))?;
            for first in (0..rows).step_by(ROWS_PER_PUSH) {
                let (at, count) = (scores.add(first * columns), ROWS_PER_PUSH.min(rows - first));
                call(|err| koshi_channel_push(self.channel, at, count, columns, columns, err))?;
            }
            call(|err| koshi_channel_finish(self.channel, err))?;
            koshi_matrix_free(matrix);
        }
        Ok(rows)
    }

    /// Numbers of the words on the best path.
    fn best_words(&self) -> Result<Vec<i32>, String> {
        // SAFETY: the words are copied before their path is freed.
        unsafe {
            let path = make(|made, err| koshi_channel_best_path(self.channel, 1, made, err))?;
            let mut len = 0;
            let words = koshi_path_olabels(path, &mut len);
            let words = if len == 0 { Vec::new() } else { std::slice::from_raw_parts(words, len).to_vec() };
            koshi_path_free(path);
            Ok(words)
        }
    }

    fn write_lattice(&self, key: &str) -> Result<(), String> {
        let key = text(key);
        // SAFETY: the key outlives the call.
        unsafe {
            let lattice = make(|made, err| koshi_channel_lattice(self.channel, 1, made, err))?;
            call(|err| koshi_lattice_writer_write(self.writer, key.as_ptr(), lattice, err))?;
            koshi_lattice_free(lattice);
        }
        Ok(())
    }

    /// A word in lower case.
    fn name(&self, word: i32) -> Result<String, String> {
        // SAFETY: the name lives as long as the table, and is copied.
        unsafe {
            let name = koshi_symbols_name(self.symbols, word);
            if name.is_null() { Err(format!("there is no word {word}")) } else { Ok(string(name).to_lowercase()) }
        }
    }

    /// Ends writing, and frees everything.
    fn close(self) -> Result<(), String> {
        // SAFETY: no handle is used afterwards.
        unsafe {
            let closed = call(|err| koshi_lattice_writer_close(self.writer, err));
            koshi_lattice_writer_free(self.writer);
            koshi_matrix_reader_free(self.reader);
            koshi_channel_free(self.channel);
            koshi_symbols_free(self.symbols);
            closed
        }
    }
}

/// Calls a function of the library; a failure gives the message of its error object.
fn call(function: impl FnOnce(*mut *mut koshi_error) -> koshi_status) -> Result<(), String> {
    let mut err = ptr::null_mut();
    let status = function(&mut err);
    if status >= 0 {
        return Ok(());
    }
    // SAFETY: the texts are copied before the error is freed.
    unsafe {
        let message = koshi_error_message(err);
        let message = if message.is_null() { "no message".to_string() } else { string(message) };
        koshi_error_free(err);
        Err(format!("{}: {message}", string(koshi_status_name(status))))
    }
}

/// Calls a function that makes a handle.
fn make<T>(function: impl FnOnce(*mut *mut T, *mut *mut koshi_error) -> koshi_status) -> Result<*mut T, String> {
    let mut made = ptr::null_mut();
    call(|err| function(&mut made, err))?;
    Ok(made)
}

/// A text for C; what comes after a NUL is lost, as it would be there.
fn text(rust: impl Into<Vec<u8>>) -> CString {
    let mut bytes = rust.into();
    bytes.truncate(bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len()));
    CString::new(bytes).unwrap_or_default()
}

/// A copy of a text of the library's.
///
/// # Safety
/// `text` is valid.
unsafe fn string(text: *const c_char) -> String {
    // SAFETY: as promised.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// What was said in each utterance: lines of a key and words.
fn read_references(path: &Path) -> Result<HashMap<String, Vec<String>>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let entry = |line: &str| {
        let mut words = line.split_whitespace().map(str::to_string);
        Some((words.next()?, words.map(|word| word.to_lowercase()).collect()))
    };
    Ok(text.lines().filter_map(entry).collect())
}

/// Least number of words that have to be put in, left out or changed to make one of the other.
fn distance(one: &[String], other: &[String]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (count, word) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = count + 1;
        for at in 1..row.len() {
            let changed = diagonal + usize::from(*word != other[at - 1]);
            diagonal = row[at];
            row[at] = changed.min(diagonal + 1).min(row[at - 1] + 1);
        }
    }
    row[other.len()]
}
