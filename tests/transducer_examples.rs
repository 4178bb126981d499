//! `examples/transducer.c` and `examples/transducer_onnx.py`: what they print is right.

mod common;

use common::c::{Language, Program};

#[test]
fn transducer_c_spells_the_word_as_it_is_spoken() {
    for language in [Language::C99, Language::Cpp17] {
        let out = Program::compile(&common::root().join("examples/transducer.c"), language).succeed(&[]);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 8 + 3 + 1, "{out}");
        assert!(lines[3].starts_with("frame 3, ") && lines[3].contains(": h@0 e@1 l@3 score "), "{out}");
        assert!(lines[8].starts_with("h@0 e@1 l@3 l@4 o@6 score "), "{out}");
        assert_eq!(lines[11], "0 states left");
    }
}

#[test]
fn transducer_onnx_agrees_with_plain_python() {
    let Some(mut python) = common::python("numpy, onnx, onnxruntime") else { return };
    let script = common::root().join("examples/transducer_onnx.py");
    let output = python.arg(script).arg(common::shared_library()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let out = String::from_utf8(output.stdout).unwrap();
    // The script compares greedy search itself.
    assert!(out.contains("0 frames, greedy: []\n") && out.contains("30 frames, beam: ["), "{out}");
    assert!(out.ends_with("0 states left\n"), "{out}");
}
