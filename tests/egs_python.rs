//! `examples/egs_to_numpy.py` gives the arrays that the library holds. Needs Python 3 with NumPy.

mod common;

use std::process::Output;

use koshi::egs::{Label, Labels, NnetExample, NnetExampleHolder};
use koshi::table::{CompressedMatrix, Method, TableWriter};

fn python(arguments: &[&str]) -> Option<Output> {
    let mut python = common::python("numpy")?;
    Some(python.args(arguments).env("KOSHI_LIBRARY", common::shared_library()).output().unwrap())
}

/// Prints what the program saved, one array a line.
const SHOW: &str = "\
import sys, numpy
with numpy.load(sys.argv[1]) as saved:
    for name in sorted(saved):
        print(name, saved[name].dtype, saved[name].shape, saved[name].ravel().tolist())
";

#[test]
fn arrays_come_out_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let [archive, saved] = ["a.ark", "a.npz"].map(|name| folder.path().join(name).display().to_string());
    let mut labels = Labels::default();
    labels.push_frame(&[Label { pdf: 4, weight: 0.25 }, Label { pdf: 9, weight: 0.75 }]).unwrap();
    labels.push_frame(&[]).unwrap();
    let rows = [0.0, 255.0, 17.0, 3.0, 4.0, 5.0];
    let input_frames = CompressedMatrix::compress(&rows, 3, 2, 2, Method::OneByteUnsignedInteger).unwrap();
    let example = NnetExample { labels, input_frames, left_context: 1, spk_info: vec![0.5] };
    let mut writer = TableWriter::<NnetExampleHolder>::open(&format!("ark:{archive}")).unwrap();
    writer.write("utt-0", &example).unwrap();
    writer.close().unwrap();

    let program = common::root().join("examples/egs_to_numpy.py").display().to_string();
    let Some(output) = python(&[&program, &format!("ark:{archive}"), &saved]) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line = "utt-0: 2 frames, 2 labels, input 3x2, context 1 and 0, speaker vector of 1\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap(), line);
    let shown = python(&["-c", SHOW, &saved]).unwrap();
    let wanted = "\
utt-0/frames float32 (3, 2) [0.0, 255.0, 17.0, 3.0, 4.0, 5.0]
utt-0/left_context int64 () [1]
utt-0/offsets uint32 (3,) [0, 2, 2]
utt-0/pdfs int32 (2,) [4, 9]
utt-0/speaker float32 (1,) [0.5]
utt-0/weights float32 (2,) [0.25, 0.75]
";
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), wanted, "{}", String::from_utf8_lossy(&shown.stderr));

    let refused = python(&[&program, "ark:/nowhere/at/all"]).unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).starts_with("KOSHI_E_IO: /nowhere/at/all"));
}
