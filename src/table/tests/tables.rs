//! Readers and writers of tables, on small files; commands are in `tests/table_commands.rs`.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tempfile::TempDir;

use super::{loaded, stored};
use crate::error::{Error, Result};
use crate::table::{
    BasicHolder, BasicVectorVectorHolder, CompressedMatrix, CompressedMatrixHolder, Holder, Input, Int32VectorHolder,
    Matrix, MatrixHolder, Method, RandomAccessReader, SequentialReader, TableWriter, TokenHolder, TokenVectorHolder,
    VectorHolder,
};

/// A folder with an archive of four numbers, in which `file` names files.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_string()
    }

    fn with(&self, name: &str, text: &str) -> String {
        fs::write(self.file(name), text).unwrap();
        self.file(name)
    }
}

fn all<H: Holder>(rspecifier: &str) -> Result<Vec<(String, H::Value)>> {
    let mut reader = SequentialReader::<H>::open(rspecifier)?;
    let mut entries = Vec::new();
    while let Some(entry) = reader.next()? {
        entries.push(entry);
    }
    assert!(reader.next()?.is_none());
    reader.close()?;
    Ok(entries)
}

fn keys<H: Holder>(rspecifier: &str) -> Result<String> {
    Ok(all::<H>(rspecifier)?.into_iter().map(|(key, _)| key).collect::<Vec<_>>().join(" "))
}

type Int = BasicHolder<i32>;

#[test]
fn holders_by_hand() {
    assert_eq!(stored::<Int>(&7, true), b"\0B\x04\x07\0\0\0");
    assert_eq!(stored::<Int>(&-7, false), b"-7 \n");
    assert_eq!(stored::<Int32VectorHolder>(&vec![1, 2], true), b"\0B\x04\x02\0\0\0\x04\x01\0\0\0\x04\x02\0\0\0");
    assert_eq!(stored::<Int32VectorHolder>(&vec![1, 2], false), b"1 2 \n");
    assert_eq!(stored::<Int32VectorHolder>(&vec![], false), b"\n");
    type Lists = BasicVectorVectorHolder<i32>;
    let lists = vec![vec![1, 2], vec![], vec![3]];
    assert_eq!(stored::<Lists>(&lists, false), b"1 2 ; ; 3 ; \n");
    let bytes = stored::<Lists>(&vec![vec![5]], true);
    assert_eq!(bytes, b"\0B\x04\x01\0\0\0\x04\x01\0\0\0\x04\x05\0\0\0");
    for binary in [true, false] {
        assert_eq!(loaded::<Lists>(&stored::<Lists>(&lists, binary)).unwrap(), lists);
    }
    assert_eq!(stored::<TokenHolder>(&"word".to_string(), true), b"word\n");
    let words = vec!["a".to_string(), "b".to_string()];
    assert_eq!(stored::<TokenVectorHolder>(&words, true), b"a b \n");
    assert_eq!(loaded::<TokenVectorHolder>(b" a\tb \n").unwrap(), words);
    assert_eq!(loaded::<Int32VectorHolder>(b" 1\t-2 ").unwrap(), [1, -2]);

    for bad in ["\n", "1 2\n", "x\n", "1", ""] {
        assert!(loaded::<Int>(bad.as_bytes()).is_err(), "{bad:?}");
    }
    for bad in ["", "1 x\n", "1.5\n"] {
        assert!(loaded::<Int32VectorHolder>(bad.as_bytes()).is_err(), "{bad:?}");
    }
    for bad in ["", "1 2\n", "1 ; 2", "1 ;"] {
        assert!(loaded::<Lists>(bad.as_bytes()).is_err(), "{bad:?}");
    }
    for bad in ["", "\n", "a b\n"] {
        assert!(loaded::<TokenHolder>(bad.as_bytes()).is_err(), "{bad:?}");
    }
    // Counts that lie, in each place.
    assert!(loaded::<Int32VectorHolder>(b"\0B\x04\xff\xff\xff\xff").is_err());
    assert!(loaded::<Int32VectorHolder>(b"\0B\x04\xff\xff\xff\x7f\x04\0\0\0\0").is_err());
    assert!(loaded::<Lists>(b"\0B\x04\xff\xff\xff\x7f\x04\0\0\0\0").is_err());
}

#[test]
fn archives_are_read_in_order() {
    let folder = Folder::new();
    let text = folder.with("text", "b 2\na  1\n\n c\t3\n");
    assert_eq!(all::<Int>(&format!("ark:{text}")).unwrap(), [("b".into(), 2), ("a".into(), 1), ("c".into(), 3)]);
    let empty = folder.with("empty", "");
    assert_eq!(keys::<Int>(&format!("ark:{empty}")).unwrap(), "");
    // An empty line of numbers is an object.
    let lines = folder.with("lines", "a\nb 1\n");
    assert_eq!(
        all::<Int32VectorHolder>(&format!("ark:{lines}")).unwrap(),
        [("a".into(), vec![]), ("b".into(), vec![1])]
    );
    // Binary and text objects may stand side by side.
    let mixed = [b"a ".to_vec(), stored::<MatrixHolder>(&matrix(1), true), b"b  [ 1 ]\n".to_vec()].concat();
    fs::write(folder.file("mixed"), mixed).unwrap();
    assert_eq!(keys::<MatrixHolder>(&format!("ark:{}", folder.file("mixed"))).unwrap(), "a b");
    for broken in ["a", "a 1\nb", "a 1\nb x\n", "a\r1\n"] {
        let file = folder.with("broken", broken);
        let error = keys::<Int>(&format!("ark:{file}")).unwrap_err();
        assert!(error.chain().contains(&file), "{}", error.chain());
        assert_eq!(keys::<Int>(&format!("ark,p:{file}")).unwrap(), if broken.contains("1\nb") { "a" } else { "" });
    }
    assert!(matches!(SequentialReader::<Int>::open("ark:/no/such/file"), Err(Error::Io { .. })));
    assert!(matches!(SequentialReader::<Int>::open("/no/such/file"), Err(Error::Argument(_))));
}

fn matrix(rows: usize) -> Matrix {
    Matrix::from_data(rows, 2, (0..2 * rows).map(|i| i as f32).collect()).unwrap()
}

/// After an error the rest of an archive makes no sense.
#[test]
fn a_broken_archive_stays_broken() {
    let folder = Folder::new();
    let file = folder.with("a", "a x\nb 1\n");
    let mut reader = SequentialReader::<Int>::open(&format!("ark:{file}")).unwrap();
    assert!(matches!(reader.next().unwrap_err().root(), Error::Format { .. }));
    assert!(matches!(reader.next(), Err(Error::State(_))));
    let mut reader = RandomAccessReader::<Int>::open(&format!("ark:{file}")).unwrap();
    assert!(matches!(reader.get("b").unwrap_err().root(), Error::Format { .. }));
    assert!(matches!(reader.get("b"), Err(Error::State(_))));
}

#[test]
fn scripts_point_to_files_offsets_and_parts() {
    let folder = Folder::new();
    let (ark, scp) = (folder.file("m.ark"), folder.file("m.scp"));
    let mut writer = TableWriter::<MatrixHolder>::open(&format!("ark,scp:{ark},{scp}")).unwrap();
    for rows in 1..=4 {
        writer.write(&format!("m{rows}"), &matrix(rows)).unwrap();
    }
    writer.close().unwrap();
    let lines = fs::read_to_string(&scp).unwrap();
    assert!(lines.starts_with(&format!("m1 {ark}:3\nm2 {ark}:")), "{lines}");
    let read = all::<MatrixHolder>(&format!("scp:{scp}")).unwrap();
    assert_eq!(read, all::<MatrixHolder>(&format!("ark:{ark}")).unwrap());
    assert_eq!(read.len(), 4);
    assert!(read.iter().enumerate().all(|(i, (key, value))| *key == format!("m{}", i + 1) && *value == matrix(i + 1)));

    let name = lines.lines().last().unwrap().strip_prefix("m4 ").unwrap();
    let parts = folder.with("parts", &format!("x  {name}[0:2] \n\ty\t{name}[1:3,1:1]\nz {name}\n"));
    let read = all::<MatrixHolder>(&format!("scp:{parts}")).unwrap();
    let expected = [matrix(3), matrix(4).range("1:3,1:1").unwrap(), matrix(4)];
    assert_eq!(read.iter().map(|(_, m)| m.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(read[1].0, "y");
    let mut reader = RandomAccessReader::<MatrixHolder>::open(&format!("scp:{parts}")).unwrap();
    assert_eq!(reader.get("y").unwrap(), Some(&expected[1]));
    assert_eq!(reader.get("x").unwrap(), Some(&expected[0]));
    reader.close().unwrap();

    let bad = folder.with("bad", &format!("x {name}[0:4]\ny {name}[0:1]\n"));
    assert!(keys::<MatrixHolder>(&format!("scp:{bad}")).unwrap_err().chain().contains("[0:4]"));
    assert_eq!(keys::<MatrixHolder>(&format!("scp,p:{bad}")).unwrap(), "y");
    assert!(matches!(all::<VectorHolder>(&format!("scp:{bad}")).unwrap_err().root(), Error::Format { .. }));
    let vector = folder.with("v", " [ 1 ]\n");
    let bad = folder.with("bad", &format!("x {vector}[0:0]\n"));
    assert!(matches!(all::<VectorHolder>(&format!("scp:{bad}")).unwrap_err().root(), Error::Unsupported(_)));
}

#[test]
fn compressed_parts_keep_their_codes() {
    let folder = Folder::new();
    let data: Vec<f32> = (0..40).map(|i| i as f32).collect();
    let whole = CompressedMatrix::compress(&data, 20, 2, 2, Method::SpeechFeature).unwrap();
    let file = folder.file("m");
    fs::write(&file, stored::<CompressedMatrixHolder>(&whole, true)).unwrap();
    let scp = folder.with("scp", &format!("a {file}[2:11,1:1]\n"));
    let read = all::<CompressedMatrixHolder>(&format!("scp:{scp}")).unwrap();
    assert_eq!(read[0].1, whole.piece(2, 10, 1, 1, false).unwrap());
}

#[test]
fn broken_scripts() {
    let folder = Folder::new();
    let good = folder.with("good", "1\n");
    let broken = folder.with("broken", "x\n");
    let scp = folder.with("scp", &format!("a {good}\nb {broken}\nc {good}.none\nd {good}\n"));
    assert!(keys::<Int>(&format!("scp:{scp}")).unwrap_err().chain().contains("entry b"));
    assert_eq!(keys::<Int>(&format!("scp,p:{scp}")).unwrap(), "a d");
    for lines in ["a\n", "\n", "a \n", "\0B"] {
        let scp = folder.with("scp", &format!("x {good}\n{lines}"));
        let error = keys::<Int>(&format!("scp:{scp}")).unwrap_err();
        assert!(matches!(error.root(), Error::Format { .. }), "{lines:?}");
        assert!(lines.starts_with('\0') || error.to_string().contains("line 2"), "{error}");
        assert_eq!(keys::<Int>(&format!("scp,p:{scp}")).unwrap(), "x");
        assert!(RandomAccessReader::<Int>::open(&format!("scp:{scp}")).is_err());
    }
}

fn get(reader: &mut RandomAccessReader<Int>, keys: &str) -> String {
    let one = |key: &str| match reader.get(key) {
        Ok(Some(value)) => value.to_string(),
        Ok(None) => "-".to_string(),
        Err(error) => match error.root() {
            Error::State(_) => "state".to_string(),
            Error::Format { .. } => "format".to_string(),
            other => other.to_string(),
        },
    };
    keys.split(' ').map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn random_access_to_archives() {
    let folder = Folder::new();
    let ordered = folder.with("ordered", "a 1\nc 3\ne 5\n");
    let tangled = folder.with("tangled", "c 3\na 1\ne 5\n");
    let twice = folder.with("twice", "a 1\nb 2\na 3\nd 4\n");
    let open = |options: &str, file: &str| RandomAccessReader::<Int>::open(&format!("ark{options}:{file}")).unwrap();
    for (options, file, asked, got) in [
        ("", &tangled, "a c e a b c", "1 3 5 1 - 3"),
        (",s", &ordered, "c a b a e f c", "3 1 - 1 5 - 3"),
        (",s,cs", &ordered, "a a b c c d e f f", "1 1 - 3 3 - 5 - -"),
        (",s,cs", &ordered, "c a e", "3 state 5"),
        (",cs", &ordered, "c a e", "3 1 5"),
        (",o", &tangled, "a a c a e c", "1 1 3 state 5 state"),
        (",s,o", &ordered, "c a e c b", "3 1 5 state -"),
        (",s", &tangled, "b", "-"),
        (",s", &tangled, "d", "format"),
        (",s,cs", &tangled, "d", "format"),
        (",s,p", &tangled, "d", "format"),
        ("", &twice, "a b a", "1 2 1"),
        ("", &twice, "d", "format"),
        (",s", &twice, "d", "format"),
    ] {
        assert_eq!(get(&mut open(options, file), asked), got, "{options} {file} {asked}");
    }
    let mut reader = open("", &tangled);
    assert!(reader.has("e").unwrap() && !reader.has("x").unwrap() && reader.has("c").unwrap());
    assert!(matches!(reader.get("a b"), Err(Error::Argument(_))));
    assert!(matches!(reader.get(""), Err(Error::Argument(_))));
    reader.close().unwrap();
    // The option p: what comes before the fault can be had, the rest is absent.
    let cut = folder.with("cut", "a 1\nb 2\nc");
    assert_eq!(get(&mut open(",p", &cut), "c b a"), "- 2 1");
    assert_eq!(get(&mut open("", &cut), "b c b"), "2 format 2");
}

#[test]
fn random_access_to_scripts() {
    let folder = Folder::new();
    let (one, two) = (folder.with("1", "1\n"), folder.with("2", "2\n"));
    let lines = format!("b {two}\na {one}\nx {one}.none\n");
    let scp = folder.with("scp", &lines);
    let open = |options: &str, file: &str| RandomAccessReader::<Int>::open(&format!("scp{options}:{file}"));
    let mut reader = open("", &scp).unwrap();
    assert_eq!(get(&mut reader, "a b c a a"), "1 2 - 1 1");
    assert!(reader.has("x").unwrap() && reader.get("x").is_err());
    let mut reader = open(",p", &scp).unwrap();
    assert!(!reader.has("x").unwrap() && reader.has("a").unwrap());
    assert_eq!(get(&mut reader, "x a"), "- 1");
    assert_eq!(get(&mut open(",o", &scp).unwrap(), "a a b a"), "1 1 2 state");
    assert!(matches!(open(",s", &scp), Err(Error::Format { .. })));
    let sorted = folder.with("sorted", &format!("a {one}\nb {two}\n"));
    assert_eq!(get(&mut open(",s,cs", &sorted).unwrap(), "b a"), "2 1");
    let twice = folder.with("twice", &format!("a {one}\na {two}\n"));
    for options in ["", ",s", ",p"] {
        assert!(open(options, &twice).err().unwrap().to_string().contains("twice"));
    }
}

#[test]
fn writers() {
    let folder = Folder::new();
    let file = folder.file("out");
    let mut writer = TableWriter::<Int>::open(&format!("ark,t,f:{file}")).unwrap();
    writer.write("a", &1).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "a 1 \n", "flushed at once");
    for bad in ["", "a b", "a\n", "a\u{7}"] {
        assert!(matches!(writer.write(bad, &1), Err(Error::Argument(_))), "{bad:?}");
    }
    writer.close().unwrap();
    let mut writer = TableWriter::<Int>::open(&format!("ark:{file}")).unwrap();
    writer.write("a", &1).unwrap();
    writer.write("é", &2).unwrap();
    writer.close().unwrap();
    assert_eq!(fs::read(&file).unwrap(), b"a \0B\x04\x01\0\0\0\xc3\xa9 \0B\x04\x02\0\0\0");
    assert_eq!(keys::<Int>(&format!("ark:{file}")).unwrap(), "a é");

    // A script says where each object goes.
    let scp = folder.with("scp", &format!("b {}\na {}\n", folder.file("b"), folder.file("a")));
    let mut writer = TableWriter::<Int>::open(&format!("scp,t:{scp}")).unwrap();
    writer.write("a", &1).unwrap();
    writer.write("b", &2).unwrap();
    assert!(matches!(writer.write("c", &2), Err(Error::Argument(_))));
    writer.close().unwrap();
    assert_eq!(fs::read_to_string(folder.file("b")).unwrap(), "2 \n");
    let mut writer = TableWriter::<Int>::open(&format!("scp,p:{scp}")).unwrap();
    writer.write("c", &3).unwrap();
    writer.close().unwrap();
    assert_eq!(keys::<Int>(&format!("scp:{scp}")).unwrap(), "b a");
    assert!(TableWriter::<Int>::open("scp:/no/such/file").is_err());
    assert!(TableWriter::<Int>::open("ark:/no/such/folder/file").is_err());
}

#[cfg(target_os = "linux")]
#[test]
fn case_b77_table_on_a_full_disk() {
    if !Path::new("/dev/full").exists() {
        return;
    }
    let mut writer = TableWriter::<CompressedMatrixHolder>::open("ark:/dev/full").unwrap();
    let matrix = CompressedMatrix::compress(&[1.0, 2.0], 1, 2, 2, Method::Auto).unwrap();
    writer.write("a", &matrix).unwrap();
    assert!(matches!(writer.close(), Err(Error::Io { .. })));
    let mut writer = TableWriter::<CompressedMatrixHolder>::open("ark,f:/dev/full").unwrap();
    assert!(matches!(writer.write("a", &matrix), Err(Error::Io { .. })));
    assert!(matches!(writer.write("b", &matrix), Err(Error::Io { .. })));
}

proptest! {
    #[test]
    fn lists_survive(lists in prop::collection::vec(prop::collection::vec(any::<i32>(), 0..6), 0..6), binary: bool) {
        prop_assert_eq!(&loaded::<BasicVectorVectorHolder<i32>>(&stored::<BasicVectorVectorHolder<i32>>(&lists, binary)).unwrap(), &lists);
        for list in &lists {
            prop_assert_eq!(&loaded::<Int32VectorHolder>(&stored::<Int32VectorHolder>(list, binary)).unwrap(), list);
        }
    }

    /// Any key that may be written is read again.
    #[test]
    fn archives_survive(entries in prop::collection::vec(("[^\\s\\p{Cc}]{1,8}", any::<i32>()), 0..8), binary: bool) {
        let folder = Folder::new();
        let file = folder.file("ark");
        let mut writer = TableWriter::<Int>::open(&format!("ark,{}:{file}", if binary { "b" } else { "t" })).unwrap();
        for (key, value) in &entries {
            writer.write(key, value).unwrap();
        }
        writer.close().unwrap();
        prop_assert_eq!(all::<Int>(&format!("ark:{file}")).unwrap(), entries);
    }
}

#[test]
fn archives_in_memory() {
    let mut reader = SequentialReader::<Int>::from_archive(Input::from_bytes("memory", &b"a 1\nb 2\n"[..]));
    assert_eq!(reader.next().unwrap(), Some(("a".to_string(), 1)));
    reader.close().unwrap();
}
