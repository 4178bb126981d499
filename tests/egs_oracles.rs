//! Examples that Kaldi wrote, read, cut and labelled: the same values, the same bytes.

#[path = "support/shared.rs"]
mod shared;

use std::path::{Path, PathBuf};

use koshi::egs::{
    Cut, DiscriminativeNnetExample, DiscriminativeNnetExampleHolder, Label, NnetExample, NnetExampleHolder,
};
use koshi::table::{Format, Holder, RandomAccessReader, SequentialReader, TableWriter};
use serde_json::Value;

/// The folder of the vectors and their index.
struct Oracles {
    folder: PathBuf,
    index: Value,
}

impl Oracles {
    fn open() -> Option<Oracles> {
        let folder = shared::shared("oracles/egs")?;
        let text = std::fs::read_to_string(folder.join("index.json")).unwrap();
        Some(Oracles { folder, index: serde_json::from_str(&text).unwrap() })
    }

    fn file(&self, name: &Value) -> PathBuf {
        self.folder.join(name.as_str().unwrap())
    }

    /// All entries of an archive.
    fn entries<H: Holder>(&self, name: &Value) -> Vec<(String, H::Value)> {
        entries::<H>(&format!("ark:{}", self.file(name).display()))
    }

    fn npy(&self, name: &Value) -> (Vec<usize>, Vec<f32>) {
        npy(&self.file(name))
    }
}

fn entries<H: Holder>(rspecifier: &str) -> Vec<(String, H::Value)> {
    let mut reader = SequentialReader::<H>::open(rspecifier).unwrap();
    let mut entries = Vec::new();
    while let Some(entry) = reader.next().unwrap_or_else(|error| panic!("{rspecifier}: {}", error.chain())) {
        entries.push(entry);
    }
    reader.close().unwrap();
    entries
}

/// A float32 array of numpy's: its shape and values.
fn npy(path: &Path) -> (Vec<usize>, Vec<f32>) {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\0");
    let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..end]).unwrap();
    assert!(header.contains("'<f4'") && header.contains("'fortran_order': False"), "{header}");
    let shape = header.split_once("'shape': (").unwrap().1.split_once(')').unwrap().0;
    let shape = shape.split(',').filter_map(|size| size.trim().parse().ok()).collect();
    (shape, bytes[end..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect())
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn int(value: &Value) -> i32 {
    i32::try_from(value.as_i64().unwrap()).unwrap()
}

fn float(value: &Value) -> f32 {
    value.as_f64().unwrap() as f32
}

fn floats(value: &Value) -> Vec<f32> {
    list(value).iter().map(float).collect()
}

/// Holds an example to its description; `frames` is the file of its expanded input.
fn check_example(oracles: &Oracles, found: &NnetExample, wanted: &Value, frames: &Value, key: &str) {
    assert_eq!(found.labels.num_frames() as i64, wanted["num_label_frames"].as_i64().unwrap(), "{key}");
    for (found, wanted) in found.labels.iter().zip(list(&wanted["labels"])) {
        let label = |pair: &Value| Label { pdf: int(&pair[0]), weight: float(&pair[1]) };
        assert_eq!(found, list(wanted).iter().map(label).collect::<Vec<_>>(), "{key}");
    }
    assert_eq!(found.left_context, int(&wanted["left_context"]), "{key}");
    assert_eq!(bits(&found.spk_info), bits(&floats(&wanted["spk_info"])), "{key}");
    let size = [found.input_frames.rows(), found.input_frames.cols()];
    assert_eq!(size.map(|n| n as i64), [&wanted["rows"], &wanted["cols"]].map(|n| n.as_i64().unwrap()), "{key}");
    let format = match found.input_frames.format() {
        _ if size[0] == 0 => 0,
        Format::Columns => 1,
        Format::TwoBytes => 2,
        Format::OneByte => 3,
    };
    assert_eq!(format, int(&wanted["compressed_format"]), "{key}");
    let (shape, values) = oracles.npy(frames);
    assert_eq!(shape.iter().product::<usize>(), size[0] * size[1], "{key}");
    assert_eq!(bits(found.input_frames.to_matrix().unwrap().data()), bits(&values), "{key}");
}

/// Writes the entries as one table and gives the bytes of archive and script.
fn written<H: Holder>(entries: &[(String, H::Value)], options: &str) -> (Vec<u8>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let [archive, script] = ["a.ark", "a.scp"].map(|name| folder.path().join(name).display().to_string());
    let mut writer = TableWriter::<H>::open(&format!("ark{options},scp:{archive},{script}")).unwrap();
    entries.iter().for_each(|(key, value)| writer.write(key, value).unwrap());
    writer.close().unwrap();
    (std::fs::read(&archive).unwrap(), std::fs::read_to_string(&script).unwrap(), archive)
}

fn check_written<H: Holder>(entries: &[(String, H::Value)], options: &str, path: &Path) {
    let (bytes, _, _) = written::<H>(entries, options);
    assert!(bytes == std::fs::read(path).unwrap(), "{}: other bytes", path.display());
}

/// Writes and compares binary, text and script; reads the script, in order and out of order.
fn check_tables<H: Holder>(oracles: &Oracles, section: &Value, check: impl Fn(&H::Value, &Value)) {
    let found = oracles.entries::<H>(&section["binary"]);
    let wanted = list(&section["examples"]);
    assert_eq!(found.len(), wanted.len());
    for ((key, value), wanted) in found.iter().zip(wanted) {
        assert_eq!(key, wanted["key"].as_str().unwrap());
        check(value, wanted);
    }
    check_written::<H>(&found, ",t", &oracles.file(&section["text"]));
    let (bytes, script, archive) = written::<H>(&found, "");
    assert!(bytes == std::fs::read(oracles.file(&section["binary"])).unwrap());
    let name = section["binary"].as_str().unwrap();
    assert_eq!(script.replace(&archive, name), std::fs::read_to_string(oracles.file(&section["scp"])).unwrap());

    // The script's names are relative to the folder of the vectors.
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("here.scp");
    std::fs::write(&here, script.replace(&archive, oracles.file(&section["binary"]).to_str().unwrap())).unwrap();
    let by_script = entries::<H>(&format!("scp:{}", here.display()));
    check_written::<H>(&by_script, "", &oracles.file(&section["binary"]));
    let in_archive = format!("ark:{}", oracles.file(&section["binary"]).display());
    for table in [format!("scp:{}", here.display()), in_archive.clone(), in_archive.replace("ark:", "o,ark:")] {
        let mut reader = RandomAccessReader::<H>::open(&table).unwrap();
        for wanted in wanted.iter().rev() {
            check(reader.get(wanted["key"].as_str().unwrap()).unwrap().unwrap(), wanted);
        }
        assert!(reader.get("nobody").unwrap().is_none());
    }
    let mut keys: Vec<&str> = wanted.iter().map(|wanted| wanted["key"].as_str().unwrap()).collect();
    if keys.is_sorted() {
        let mut reader = RandomAccessReader::<H>::open(&in_archive.replace("ark:", "s,cs,ark:")).unwrap();
        keys.retain(|key| reader.get(key).unwrap().is_none());
        assert!(keys.is_empty(), "{keys:?}");
    }
}

#[test]
fn examples_read_and_written() {
    let Some(oracles) = Oracles::open() else { return };
    for section in ["nnet_examples", "handmade"] {
        let section = &oracles.index[section];
        check_tables::<NnetExampleHolder>(&oracles, section, |found, wanted| {
            let key = wanted["key"].as_str().unwrap();
            check_example(&oracles, found, wanted, &wanted["frames"], key);
            // Kaldi has handmade ones with as few rows as it likes; all of these make sense.
            found.check().unwrap();
        });
    }
    // Text is compressed again as it is read.
    let text = &oracles.index["nnet_examples"];
    let found = oracles.entries::<NnetExampleHolder>(&text["text"]);
    assert_eq!(found.len(), list(&text["read_from_text"]).len());
    for ((key, found), wanted) in found.iter().zip(list(&text["read_from_text"])) {
        check_example(&oracles, found, wanted, &wanted["frames"], key);
    }
}

#[test]
fn labels_asked_and_set() {
    let Some(oracles) = Oracles::open() else { return };
    let handmade = oracles.entries::<NnetExampleHolder>(&oracles.index["handmade"]["binary"]);
    let real = oracles.entries::<NnetExampleHolder>(&oracles.index["nnet_examples"]["binary"]);
    let find = |key: &str| {
        let found = real.iter().chain(&handmade).find(|(other, _)| other == key);
        &found.unwrap_or_else(|| panic!("{key} is missing")).1
    };
    let mut asked = 0;
    for case in
        list(&oracles.index["get_label_single"]).iter().chain(list(&oracles.index["handmade"]["get_label_single"]))
    {
        let key = case["key"].as_str().unwrap();
        let frame = usize::try_from(int(&case["frame"])).unwrap();
        let wanted = Label { pdf: int(&case["pdf_id"]), weight: float(&case["weight"]) };
        assert_eq!(find(key).label(frame).unwrap(), wanted, "{key} {frame}");
        asked += 1;
    }
    assert!(asked > 60, "{asked}");

    let section = &oracles.index["set_label_single"];
    let mut changed = Vec::new();
    for case in list(&section["cases"]) {
        let mut example = find(case["source"].as_str().unwrap()).clone();
        let frame = usize::try_from(int(&case["frame"])).unwrap();
        example.set_label(frame, int(&case["pdf_id"]), float(&case["weight"])).unwrap();
        changed.push((case["key"].as_str().unwrap().to_string(), example));
    }
    check_written::<NnetExampleHolder>(&changed, "", &oracles.file(&section["binary"]));
    check_written::<NnetExampleHolder>(&changed, ",t", &oracles.file(&section["text"]));
}

#[test]
fn the_table_of_cuts() {
    let Some(oracles) = Oracles::open() else { return };
    let (mut cuts, mut refused, mut partial) = (0, 0, 0);
    for table in list(&oracles.index["truncation"]) {
        let sources = oracles.entries::<NnetExampleHolder>(&table["source_archive"]);
        let mut results = Vec::new();
        for case in list(&table["cases"]) {
            let source = &sources.iter().find(|(key, _)| *key == case["source"].as_str().unwrap()).unwrap().1;
            let cut = Cut {
                start_frame: int(&case["start_frame"]),
                num_frames: int(&case["num_frames"]),
                left_context: int(&case["left_context_arg"]),
                right_context: int(&case["right_context_arg"]),
            };
            let key = case["key"].as_str().unwrap();
            if case["aborts"].as_bool() == Some(true) {
                source.extract(cut).unwrap_err();
                refused += 1;
                continue;
            }
            let found = source.extract(cut).unwrap();
            check_example(&oracles, &found.example, &case["result"], &case["frames"], key);
            found.example.check().unwrap();
            let start = cut.start_frame.max(0) as usize;
            assert_eq!(
                found.fewer_frames,
                start as i64 + i64::from(cut.num_frames) > source.labels.num_frames() as i64
            );
            assert_eq!(found.less_left, cut.left_context > source.left_context, "{key}");
            assert_eq!(found.less_right, i64::from(cut.right_context) > source.right_context(), "{key}");
            partial += usize::from(!found.is_whole());
            cuts += 1;
            results.push((key.to_string(), found.example));
        }
        check_written::<NnetExampleHolder>(&results, ",t", &oracles.file(&table["text"]));
        // What has no row at all is in the text only: Kaldi could not read it back.
        results.retain(|(_, example)| example.input_frames.rows() > 0);
        check_written::<NnetExampleHolder>(&results, "", &oracles.file(&table["binary"]));
    }
    assert!(cuts > 35 && refused >= 3 && partial > 5, "{cuts} cuts, {refused} refused, {partial} partial");
}

#[test]
fn the_oldest_forms() {
    let Some(oracles) = Oracles::open() else { return };
    for table in list(&oracles.index["old_format"]) {
        let found = oracles.entries::<NnetExampleHolder>(&table["file"]);
        assert_eq!(found.len(), list(&table["as_read"]).len());
        for ((key, found), wanted) in found.iter().zip(list(&table["as_read"])) {
            assert_eq!(key, wanted["key"].as_str().unwrap());
            check_example(&oracles, found, wanted, &wanted["frames"], key);
        }
        for (name, options) in [("rewritten_binary", ""), ("rewritten_text", ",t")] {
            check_written::<NnetExampleHolder>(&found, options, &oracles.file(&table[name]));
        }
    }
}

fn check_discriminative(oracles: &Oracles, found: &DiscriminativeNnetExample, wanted: &Value) {
    let key = wanted["key"].as_str().unwrap();
    assert_eq!(found.weight.to_bits(), float(&wanted["weight"]).to_bits(), "{key}");
    assert_eq!(found.num_ali, list(&wanted["num_ali"]).iter().map(int).collect::<Vec<_>>(), "{key}");
    assert_eq!(found.left_context, int(&wanted["left_context"]), "{key}");
    assert_eq!(bits(&found.spk_info), bits(&floats(&wanted["spk_info"])), "{key}");
    let lattice = found.den_lat.lattice().unwrap();
    assert_eq!(lattice.num_frames as i32, int(&wanted["lattice_frames"]), "{key}");
    assert_eq!(lattice.num_states() as i32, int(&wanted["lattice_states"]), "{key}");
    assert_eq!(lattice.num_arcs() as i32, int(&wanted["lattice_arcs"]), "{key}");
    let frames = found.input_frames.matrix().unwrap();
    let (shape, values) = oracles.npy(&wanted["frames"]);
    assert_eq!([frames.rows(), frames.cols()], shape[..], "{key}");
    assert_eq!(bits(frames.data()), bits(&values), "{key}");
    found.check().unwrap();
    check_lattice(found, &std::fs::read_to_string(oracles.file(&wanted["lattice_exact"])).unwrap(), key);
}

/// Lines `source next label graph acoustic ids` and `final state graph acoustic ids`, nine digits.
fn check_lattice(found: &DiscriminativeNnetExample, text: &str, key: &str) {
    let parts = found.den_lat.parts();
    let strings = parts.strings.as_ref().unwrap();
    let mut lines = text.lines();
    let head = lines.next().unwrap();
    assert_eq!(head, format!("# start {}  states {}", parts.start.unwrap(), parts.finals.len()), "{key}");
    let joined = |string: &[i32]| string.iter().map(i32::to_string).collect::<Vec<_>>().join("_");
    let (mut arcs, mut finals) = (0, 0);
    for line in lines {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let numbers = |range: std::ops::Range<usize>| fields[range].iter().map(|f| f.parse::<f32>().unwrap());
        let ids = |at: usize| fields.get(at).copied().unwrap_or_default().to_string();
        if fields[0] == "final" {
            let state: usize = fields[1].parse().unwrap();
            let weight = parts.finals[state];
            assert_eq!(numbers(2..4).collect::<Vec<_>>(), [weight.graph, weight.acoustic], "{key}: {line}");
            assert_eq!(joined(strings.finals.get(state).unwrap()), ids(4), "{key}: {line}");
            finals += 1;
        } else {
            let arc = parts.arcs[arcs];
            let source = parts.offsets.partition_point(|&offset| offset as usize <= arcs) - 1;
            assert_eq!([source as u32, arc.next], [0, 1].map(|at| fields[at].parse::<u32>().unwrap()), "{key}: {line}");
            assert_eq!(arc.ilabel, fields[2].parse::<i32>().unwrap(), "{key}: {line}");
            assert_eq!(numbers(3..5).collect::<Vec<_>>(), [arc.weight.graph, arc.weight.acoustic], "{key}: {line}");
            assert_eq!(joined(strings.arcs.get(arcs).unwrap()), ids(5), "{key}: {line}");
            arcs += 1;
        }
    }
    assert_eq!(arcs, parts.arcs.len(), "{key}");
    assert_eq!(finals, parts.finals.iter().filter(|weight| !weight.is_absent()).count(), "{key}");
}

#[test]
fn discriminative_examples_read_and_written() {
    let Some(oracles) = Oracles::open() else { return };
    let section = &oracles.index["discriminative_examples"];
    check_tables::<DiscriminativeNnetExampleHolder>(&oracles, section, |found, wanted| {
        check_discriminative(&oracles, found, wanted);
    });
}

/// Frames in memory are compressed as they are written, in text too.
#[test]
fn discriminative_frames_before_writing() {
    let Some(oracles) = Oracles::open() else { return };
    let section = &oracles.index["discriminative_examples"];
    let mut examples = oracles.entries::<DiscriminativeNnetExampleHolder>(&section["binary"]);
    for ((_, example), wanted) in examples.iter_mut().zip(list(&section["examples"])) {
        let (shape, values) = oracles.npy(&wanted["frames_before_writing"]);
        example.input_frames = koshi::table::Matrix::from_data(shape[0], shape[1], values).unwrap().into();
    }
    check_written::<DiscriminativeNnetExampleHolder>(&examples, "", &oracles.file(&section["binary"]));
    check_written::<DiscriminativeNnetExampleHolder>(&examples, ",t", &oracles.file(&section["text"]));
}

/// Kaldi cannot read its own text: the lattice has an empty line in front of it.
#[test]
fn discriminative_text_is_read_and_comes_out_the_same() {
    let Some(oracles) = Oracles::open() else { return };
    let section = &oracles.index["discriminative_examples"];
    let binary = oracles.entries::<DiscriminativeNnetExampleHolder>(&section["binary"]);
    let text = oracles.entries::<DiscriminativeNnetExampleHolder>(&section["text"]);
    assert_eq!(binary.len(), text.len());
    for ((key, exact), (other, read)) in binary.iter().zip(&text) {
        assert_eq!(key, other);
        assert_eq!((&exact.num_ali, exact.weight, exact.left_context), (&read.num_ali, read.weight, read.left_context));
        let (exact_parts, read_parts) = (exact.den_lat.parts(), read.den_lat.parts());
        assert_eq!(exact_parts.offsets, read_parts.offsets);
        assert_eq!(exact_parts.strings, read_parts.strings);
        for (exact, read) in exact_parts.arcs.iter().zip(&read_parts.arcs) {
            assert!((exact.weight.acoustic - read.weight.acoustic).abs() <= 1e-6 * exact.weight.acoustic.abs());
        }
        read.check().unwrap();
    }
    check_written::<DiscriminativeNnetExampleHolder>(&text, ",t", &oracles.file(&section["text"]));
}
