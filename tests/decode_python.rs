//! `examples/decode.py` gives the words that Kaldi gives, on any number of threads, and errors as exceptions. Needs
//! Python 3 with NumPy.

mod common;

use std::collections::BTreeMap;
use std::process::Output;

/// Runs it, or with `-c` a program that imports it, among the prompts.
fn python(arguments: &[&str]) -> Option<Output> {
    let examples = common::root().join("examples");
    let mut python = common::python("numpy")?;
    python.env("KOSHI_LIBRARY", common::shared_library()).env("PYTHONPATH", &examples);
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    Some(python.args(arguments).current_dir(examples.join("data/prompts")).output().unwrap())
}

const FILES: [&str; 5] = ["trans.mdl", "HCLG.fst", "words.txt", "word_boundary.int", "ark:loglikes.ark"];

#[test]
fn words_of_the_prompts() {
    let program = common::root().join("examples/decode.py").display().to_string();
    let run = |first: &[&str]| {
        let output = python(&[&[program.as_str()], first, &FILES].concat())?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap())
    };
    let Some(lines) = run(&[]) else { return };
    assert_eq!(run(&["--threads=3"]).unwrap(), lines);
    let expected = std::fs::read_to_string(common::root().join("examples/data/prompts/expected.words.int")).unwrap();
    let expected: BTreeMap<&str, &str> = expected.lines().map(|line| line.split_once(' ').unwrap()).collect();
    assert_eq!(lines.lines().count(), expected.len());
    for line in lines.lines() {
        let result: serde_json::Value = serde_json::from_str(line).unwrap();
        // The first of the alternatives is the best path.
        let numbers: Vec<String> = result["alternatives"][0]["words"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| word["word"].to_string())
            .collect();
        assert_eq!(numbers.join(" "), expected[result["utterance"].as_str().unwrap()].trim(), "{line}");
        for word in result["words"].as_array().unwrap() {
            let confidence = word["confidence"].as_f64().unwrap();
            assert!(confidence > 0.0 && confidence <= 1.0001 && word["duration"].as_f64().unwrap() > 0.0, "{line}");
        }
    }
}

const MODULE: &str = r#"
import decode, numpy
decoder = decode.Decoder("trans.mdl", "HCLG.fst", "words.txt", beam=13, lattice_beam=6, acoustic_scale=1 / 12)
rows = next(decode.matrices("ark:loglikes.ark"))[1]
channel = decoder.channel()
channel.set_phrases([("has ended", 14.0)])
channel.begin()
for at in range(0, len(rows), 50):
    channel.push(rows[at : at + 50].astype(numpy.float64))
    print(*channel.partial())
channel.finish()
print([word["text"] for word in channel.result()["words"]], len(channel.result(2)["alternatives"]))
read = []
def entries():
    for at in range(9):
        read.append(at)
        yield str(at), rows[: 20 + at]
results = decoder.decode_all(entries(), threads=2)
print(next(results)[0], len(read), [key for key, _ in results])
broken = rows.copy()
broken[5, 7] = numpy.nan
for attempt in [
    lambda: channel.push(rows),
    lambda: decoder.decode(broken),
    lambda: decoder.decode(rows[:, :500]),
    lambda: decoder.decode(rows[0]),
    lambda: channel.set_phrases([("no-such-word", 1.0)]),
    lambda: decode.Decoder("nowhere.mdl", "HCLG.fst", "words.txt"),
    lambda: decode.Decoder("trans.mdl", "HCLG.fst", "words.txt", beam=-1),
    lambda: decode.Decoder("trans.mdl", "HCLG.fst", "words.txt", beams=1),
]:
    try:
        attempt()
        print("no error")
    except Exception as error:
        print(type(error).__name__, error)
"#;

#[test]
fn as_a_module() {
    let Some(output) = python(&["-c", MODULE]) else { return };
    let wanted = "\
you are no 1
you are now muted 3
you are now muted 4
['you', 'are', 'now', 'muted'] 2
0 4 ['1', '2', '3', '4', '5', '6', '7', '8']
KoshiError KOSHI_E_STATE: the channel is finished
KoshiError KOSHI_E_SCORES: frame 5, column 7: log-likelihood NaN is not usable
KoshiError KOSHI_E_SHAPE: rows have 500 columns, but arc 2091 with ilabel 4798 needs column 600
ValueError rows have 1 dimensions; they are frames x columns
ValueError 'no-such-word': not all words are in the table
KoshiError KOSHI_E_IO: nowhere.mdl: opening: No such file or directory (os error 2)
KoshiError KOSHI_E_CONFIG: beam is -1; it must be finite and above 0
TypeError koshi_decoder_config has no field beams
";
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), wanted, "{said}");
}
