//! Disks that are full, files that may not grow, and pipes that nobody reads: every writer of the library answers
//! KOSHI_E_IO, and every command ends with status 1 and a message, whatever its output is.

mod common;

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::ptr;

use common::graph::{arc, source};
use koshi::ffi::*;
use koshi::graph::{Columns, Graph};
use tempfile::TempDir;

const IO: koshi_status = koshi_status_code::KOSHI_E_IO as koshi_status;

const MODEL: &str = "<TransitionModel>\n<Topology>\n<TopologyEntry>\n<ForPhones> 1 2 3 4 5 </ForPhones>\n\
    <State> 0 <PdfClass> 0 <Transition> 0 0.5 <Transition> 1 0.5 </State>\n<State> 1 </State>\n</TopologyEntry>\n\
    </Topology>\n<Triples> 5\n1 0 0\n2 0 1\n3 0 2\n4 0 3\n5 0 4\n</Triples>\n\
    <LogProbs>\n [ 0 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 -0.7 ]\n</LogProbs>\n</TransitionModel>\n";
const LATTICE: &str = "\n0\t1\t10\t0.5,2,2_1_4\n1\t2\t11\t1,0,6_8\n1\t2\t12\t2,0,6_8\n2\t0,0,10_9\n\n";
const EXAMPLE: &str =
    "<NnetExample> <Lab1> [ 4 0 ]\n<InputFrames> [ 1 2\n 3 4 ]\n<LeftContext> 0 <SpkInfo> [ ]\n</NnetExample> ";
const DEGS: &str = "<DiscriminativeNnetExample> <Weight> 1 <NumAli> [ 4 5 ]\n\n0 1 3 1.5,-2.25,4_5\n1\n\n\
    <InputFrames> [ 1 2\n 3 4 ]\n<LeftContext> 0 <SpkInfo> [ ]\n</DiscriminativeNnetExample> ";
const SAID: &str = "<Supervision> <Weight> 1 <NumSequences> 1 <FramesPerSeq> 2 <LabelDim> 2 <End2End> F \n\
    0 1 1 1\n1 2 2 2\n2\n\n</Supervision> ";
const TRANSDUCER: &str = r#"{"vocab": 2, "dim": 1, "frames": 2, "blank": 0, "embed_last": [[0], [1]],
    "embed_prev": [[0], [1]], "joint_w": [[1, -1]], "joint_b": [0, 0], "encoder": [[0.5], [0.25]]}"#;

/// A folder of small files of each form.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        let write = |name: &str, text: &str| fs::write(place.path(name), text).unwrap();
        write("model", MODEL);
        write("lattices", &format!("a {LATTICE}b {LATTICE}"));
        write("best", "a \n0\t1\t10\t0.5,2,2_1_4\n1\n\n");
        write("references", "a 1 2\n");
        write("examples", &format!("a {EXAMPLE}"));
        write("degs", &format!("a {DEGS}"));
        write("boundary", "1 nonword\n2 begin\n3 internal\n4 end\n5 singleton\n");
        write("lexicon", "0 0 1\n10 10 2 3 4\n11 11 5\n12 12 5\n");
        write("said", SAID);
        write("output", " [\n 0 1\n 1 0 ]\n");
        write("scores", "a  [\n  0 -1 -2 -3 -4\n  0 -1 -2 -3 -4 ]\n");
        write("transducer", TRANSDUCER);
        let loops = source(Some(0), vec![(0.0, vec![arc(1, 1, 0.5, 0)])]);
        fs::write(place.path("graph"), openfst::vector(&loops, &openfst::Form::default())).unwrap();
        let den = source(Some(0), vec![(f32::INFINITY, vec![arc(1, 1, 0.7, 0), arc(2, 2, 1.4, 0)])]);
        fs::write(place.path("den"), openfst::vector(&den, &openfst::Form::default())).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

#[path = "common/openfst.rs"]
mod openfst;

fn text(text: &str) -> CString {
    CString::new(text).unwrap()
}

/// Opens a table, writes until that fails or often enough to fill any buffer, closes it; the first failure.
fn write_table<T>(
    specifier: &str,
    open: impl Fn(&CStr, *mut *mut T, *mut *mut koshi_error) -> koshi_status,
    write: impl Fn(*mut T, *mut *mut koshi_error) -> koshi_status,
    close: unsafe extern "C" fn(*mut T, *mut *mut koshi_error) -> koshi_status,
    free: unsafe extern "C" fn(*mut T) -> koshi_status,
) -> (koshi_status, String) {
    let (mut writer, mut err) = (ptr::null_mut(), ptr::null_mut());
    let mut status = open(&text(specifier), &mut writer, &mut err);
    for _ in 0..20_000 {
        if status >= 0 {
            status = write(writer, &mut err);
        }
    }
    // SAFETY: handles that were made here.
    unsafe {
        if status >= 0 {
            status = close(writer, &mut err);
        }
        let message = if err.is_null() {
            String::new()
        } else {
            CStr::from_ptr(koshi_error_message(err)).to_str().unwrap().to_string()
        };
        assert_eq!(err.is_null(), status >= 0);
        assert!(koshi_error_free(err) == 0 && free(writer) == 0);
        (status, message)
    }
}

type Write<'a> = Box<dyn Fn(&str) -> (koshi_status, String) + 'a>;

/// A writer by its functions, what is written, and arguments between name and place of its open function.
macro_rules! writer {
    ($open:ident, $write:ident, $close:ident, $free:ident, ($($value:expr),*) $(, $kind:expr)*) => {
        Box::new(move |specifier: &str| {
            write_table(
                specifier,
                // SAFETY: texts and places of this test.
                |name, out, err| unsafe { $open(name.as_ptr() $(, $kind)*, out, err) },
                // SAFETY: as above, and values that outlive the writer.
                |writer, err| unsafe { $write(writer, c"a".as_ptr(), $($value,)* err) },
                $close,
                $free,
            )
        })
    };
}

/// The writers of tables, by name.
fn writers(values: &Values) -> Vec<(&'static str, Write<'_>)> {
    const NUMBERS: [i32; 3] = [1, 2, 3];
    const NNET: i32 = koshi_egs_kind::KOSHI_EGS_NNET as i32;
    const DISCRIMINATIVE: i32 = koshi_egs_kind::KOSHI_EGS_DISCRIMINATIVE as i32;
    let integers: Write = writer!(
        koshi_int_writer_open,
        koshi_int_writer_write,
        koshi_int_writer_close,
        koshi_int_writer_free,
        (NUMBERS.as_ptr(), NUMBERS.len())
    );
    let lattices: Write = writer!(
        koshi_lattice_writer_open,
        koshi_lattice_writer_write,
        koshi_lattice_writer_close,
        koshi_lattice_writer_free,
        (values.lattice)
    );
    let examples: Write = writer!(
        koshi_egs_writer_open,
        koshi_egs_writer_write,
        koshi_egs_writer_close,
        koshi_egs_writer_free,
        (values.example),
        NNET
    );
    let degs: Write = writer!(
        koshi_egs_writer_open,
        koshi_egs_writer_write_degs,
        koshi_egs_writer_close,
        koshi_egs_writer_free,
        (values.degs),
        DISCRIMINATIVE
    );
    vec![("integers", integers), ("lattices", lattices), ("examples", examples), ("discriminative examples", degs)]
}

/// What is written.
struct Values {
    lattice: *mut koshi_lattice,
    example: *mut koshi_example,
    degs: *mut koshi_degs,
}

impl Values {
    fn new() -> Values {
        let mut values = Values { lattice: ptr::null_mut(), example: ptr::null_mut(), degs: ptr::null_mut() };
        let none = ptr::null_mut();
        // SAFETY: bytes and places of this test.
        unsafe {
            assert_eq!(koshi_lattice_from_memory(LATTICE.as_ptr(), LATTICE.len(), &mut values.lattice, none), 0);
            assert_eq!(koshi_example_from_memory(EXAMPLE.as_ptr(), EXAMPLE.len(), &mut values.example, none), 0);
            assert_eq!(koshi_degs_from_memory(DEGS.as_ptr(), DEGS.len(), &mut values.degs, none), 0);
        }
        values
    }
}

impl Drop for Values {
    fn drop(&mut self) {
        // SAFETY: made in `new`.
        unsafe {
            assert!(koshi_lattice_free(self.lattice) == 0 && koshi_example_free(self.example) == 0);
            assert_eq!(koshi_degs_free(self.degs), 0);
        }
    }
}

#[test]
fn every_writer_of_tables() {
    let place = Place::new();
    let values = Values::new();
    koshi::table::set_allow_commands(true);
    let good = |name: &str| place.path(name).display().to_string();
    let specifiers = [
        "ark:/dev/full".to_string(),
        "ark,t:/dev/full".into(),
        "ark,f:/dev/full".into(),
        format!("ark,scp:/dev/full,{}", good("scp")),
        format!("ark,scp:{},/dev/full", good("ark")),
        // Commands that end before they have read all, and that fail.
        "ark:| exec <&-; sleep 0.05".into(),
        "ark:| cat > /dev/null; exit 3".into(),
    ];
    for (name, write) in writers(&values) {
        for specifier in &specifiers {
            let (status, message) = write(specifier);
            assert_eq!(status, IO, "{name} of {specifier}: {message}");
            assert!(!message.is_empty() && !message.contains('\n'), "{name} of {specifier}: {message}");
        }
        assert_eq!(write(&format!("ark:{}", good("again"))), (0, String::new()), "{name}");
    }
    koshi::table::set_allow_commands(false);
    // The list is that of the header.
    let header = fs::read_to_string(common::root().join("include/koshi.h")).unwrap();
    let words = header.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut open: Vec<&str> = words.filter_map(|word| word.strip_suffix("_writer_open")).collect();
    open.sort_unstable();
    open.dedup();
    assert_eq!(open, ["koshi_egs", "koshi_int", "koshi_lattice"], "writers of the header");
}

#[test]
fn a_cache_of_a_graph() {
    let place = Place::new();
    let graph = Graph::open(place.path("graph").to_str().unwrap(), Columns::Labels).unwrap();
    for path in ["/dev/full", "/dev/full/cache", "/proc/cache"] {
        assert!(graph.write_cache(path).is_err(), "{path}");
    }
}

/// Commands with all their arguments; `OUT` is where they write.
const COMMANDS: &[(&str, &[&str])] = &[
    ("koshi-chain-objf", &["den", "said", "output"]),
    ("koshi-chain-objf", &["den", "said", "output", "OUT"]),
    ("koshi-compute-wer", &["ark:references", "ark:references"]),
    ("koshi-graph", &["info", "graph"]),
    ("koshi-latgen-faster-mapped", &["model", "graph", "ark:scores", "ark:OUT"]),
    ("koshi-latgen-faster-mapped", &["model", "graph", "ark:scores", "ark:/dev/null", "ark,t:OUT"]),
    ("koshi-latgen-faster-mapped", &["model", "graph", "ark:scores", "ark:/dev/null", "ark:/dev/null", "ark,t:OUT"]),
    ("koshi-lattice-1best", &["ark:lattices", "ark:OUT"]),
    ("koshi-lattice-add-penalty", &["ark:lattices", "ark:OUT"]),
    ("koshi-lattice-align-words", &["boundary", "model", "ark:lattices", "ark:OUT"]),
    ("koshi-lattice-align-words-lexicon", &["lexicon", "model", "ark:lattices", "ark:OUT"]),
    ("koshi-lattice-best-path", &["ark:lattices", "ark,t:OUT"]),
    ("koshi-lattice-best-path", &["ark:lattices", "ark:/dev/null", "ark,t:OUT"]),
    ("koshi-lattice-copy", &["ark:lattices", "ark:OUT"]),
    ("koshi-lattice-copy", &["ark:lattices", "ark,t:OUT"]),
    ("koshi-lattice-mbr-decode", &["ark:lattices", "ark:OUT"]),
    ("koshi-lattice-mbr-decode", &["ark:lattices", "", "ark:OUT"]),
    ("koshi-lattice-mbr-decode", &["ark:lattices", "", "", "ark,t:OUT"]),
    ("koshi-lattice-mbr-decode", &["ark:lattices", "", "", "", "ark,t:OUT"]),
    ("koshi-lattice-prune", &["ark:lattices", "ark:OUT"]),
    ("koshi-lattice-scale", &["ark:lattices", "ark:OUT"]),
    ("koshi-lattice-to-ctm-conf", &["ark:lattices", "OUT"]),
    ("koshi-lattice-to-nbest", &["--n=3", "ark:lattices", "ark:OUT"]),
    ("koshi-nbest-to-ctm", &["ark:best", "OUT"]),
    ("koshi-nnet-copy-egs", &["ark:examples", "ark:OUT"]),
    ("koshi-nnet-copy-egs-discriminative", &["ark:degs", "ark,t:OUT"]),
    ("koshi-transducer", &["transducer"]),
];

fn command(program: &str, words: &[&str], out: &str, place: &Path) -> Command {
    let folder = Path::new(env!("CARGO_BIN_EXE_koshi-graph")).parent().unwrap();
    let mut command = Command::new(folder.join(program));
    command.arg("--print-args=false").args(words.iter().map(|word| word.replace("OUT", out)));
    command.current_dir(place).stdin(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Status 1, by no signal, and a message.
fn failed(output: &Output, what: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.status.signal()), (Some(1), None), "{what}: {said}");
    assert!(said.contains("ERROR"), "{what}: {said}");
}

#[test]
fn every_command() {
    let place = Place::new();
    for (program, words) in COMMANDS {
        let what = format!("{program} {words:?}");
        let to_file = words.iter().any(|word| word.contains("OUT"));
        let run =
            |out: &str, stdout: Stdio| command(program, words, out, place.0.path()).stdout(stdout).output().unwrap();
        let good = run("written", Stdio::piped());
        assert!(good.status.success(), "{what}: {}", String::from_utf8_lossy(&good.stderr));
        assert!(if to_file { fs::metadata(place.path("written")).unwrap().len() > 0 } else { !good.stdout.is_empty() });
        if to_file {
            failed(&run("/dev/full", Stdio::null()), &format!("{what} to a full disk"));
        }
        // A matrix cannot go to standard output beside the line that stands there.
        if *program == "koshi-chain-objf" && to_file {
            continue;
        }
        let full = || File::options().write(true).open("/dev/full").unwrap();
        failed(&run("-", full().into()), &format!("{what} to standard output on a full disk"));
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        failed(&run("-", writer.into()), &format!("{what} to a pipe that nobody reads"));
        // A file that may not grow; the signal that comes with it is no end either.
        let _ = fs::remove_file(place.path("small"));
        let small = File::create(place.path("small")).unwrap();
        let folder = Path::new(env!("CARGO_BIN_EXE_koshi-graph")).parent().unwrap();
        let words: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace("OUT", "-"))).collect();
        let script =
            format!("ulimit -f 0; exec '{}' --print-args=false {}", folder.join(program).display(), words.join(" "));
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &script])
            .current_dir(place.0.path())
            .stdin(Stdio::null())
            .stdout(small)
            .stderr(Stdio::piped());
        failed(&shell.output().unwrap(), &format!("{what} to a file that may not grow"));
    }
    let mut programs: Vec<&str> = COMMANDS.iter().map(|command| command.0).collect();
    programs.dedup();
    let mut found: Vec<String> = fs::read_dir(common::root().join("src/bin"))
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".rs")?.to_string()))
        .collect();
    found.sort();
    assert_eq!(found, programs);
}
