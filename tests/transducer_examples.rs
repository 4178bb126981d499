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

#[test]
fn what_is_wrong_in_transducer_onnx_is_an_exception() {
    const PROGRAM: &str = r#"
import sys, tempfile, numpy, transducer_onnx as example
class Failing(example.Transducer):
    def join(self, *arguments):
        raise ValueError("no such network")
with tempfile.TemporaryDirectory() as folder:
    made = [kind(example.load(sys.argv[1]), *example.export(folder)) for kind in (example.Transducer, Failing)]
good = numpy.zeros((5, example.ENCODER_DIM))
for attempt in [
    lambda: len(made[0].search([good], search=example.TSD)),
    lambda: made[0].search([good[:, 1:], good], search=example.TSD),
    lambda: made[0].search([good[0]]),
    lambda: made[0].search([good], beams=3),
    lambda: made[1].search([good]),
]:
    try:
        print(attempt())
    except Exception as error:
        print(type(error).__name__, error, repr(error.__cause__))
print(len(made[0].states))
"#;
    let Some(printed) = common::python_over_examples("numpy, onnx, onnxruntime", PROGRAM) else { return };
    let wanted = "\
1
RuntimeError utterance 0: rows have 15 columns, the model takes 16 None
ValueError rows have 1 dimensions; they are frames x dimensions of the encoder None
TypeError koshi_transducer_config has no field beams None
RuntimeError utterance 0: join returned status -701 ValueError('no such network')
0
";
    assert_eq!(printed, wanted);
}
