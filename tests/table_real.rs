//! Kaldi's own files: score archives, transition models and symbol tables of real models.

#[path = "support/shared.rs"]
mod shared;

use koshi::table::{
    CompressedMatrixHolder, Format, Holder, Input, MatrixHolder, Output, SequentialReader, SymbolTable, TableWriter,
    Transitions, TransitionsHolder, read_file,
};

/// Archives of scores with their utterances, frames and columns, as `realdata/README.md` gives them.
const SCORES: [(&str, usize, usize, usize); 3] = [
    ("realdata/demo/loglikes.ark", 12, 0, 601),
    ("realdata/prompts/loglikes.ark", 49, 15_069, 601),
    ("realdata/chain-ko/likes/loglikes.c8.ark", 20, 5_575, 2_616),
];

#[test]
fn score_archives() {
    for (file, utterances, frames, cols) in SCORES {
        let Some(path) = shared::shared(file) else { return };
        let rspecifier = format!("ark:{}", path.display());
        let mut plain = SequentialReader::<MatrixHolder>::open(&rspecifier).unwrap();
        let mut kept = SequentialReader::<CompressedMatrixHolder>::open(&rspecifier).unwrap();
        let mut copy = Output::memory();
        let (mut seen, mut rows) = (0, 0);
        while let Some((key, matrix)) = plain.next().unwrap() {
            let (same_key, compressed) = kept.next().unwrap().unwrap();
            assert_eq!((&key, compressed.format(), matrix.cols()), (&same_key, Format::Columns, cols));
            assert_eq!(matrix, compressed.to_matrix().unwrap());
            assert!(matrix.data().iter().all(|value| value.is_finite()));
            copy.write_token(&key).unwrap();
            CompressedMatrixHolder::write(&mut copy, &compressed, true).unwrap();
            seen += 1;
            rows += matrix.rows();
        }
        assert!(kept.next().unwrap().is_none());
        assert_eq!(seen, utterances);
        assert!(frames == 0 || rows == frames);
        assert!(copy.into_bytes() == std::fs::read(&path).unwrap(), "{file}: the copy differs");
    }
}

/// An archive that is copied with its script has the same bytes, and each line of the script leads to its matrix.
#[test]
fn archives_with_scripts() {
    let Some(path) = shared::shared("realdata/demo/loglikes.ark") else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (ark, scp) = (file("a.ark"), file("a.scp"));
    let mut writer = TableWriter::<CompressedMatrixHolder>::open(&format!("ark,scp:{ark},{scp}")).unwrap();
    let mut reader = SequentialReader::<CompressedMatrixHolder>::open(&format!("ark:{}", path.display())).unwrap();
    let mut entries = Vec::new();
    while let Some((key, matrix)) = reader.next().unwrap() {
        writer.write(&key, &matrix).unwrap();
        entries.push((key, matrix));
    }
    writer.close().unwrap();
    assert!(std::fs::read(&ark).unwrap() == std::fs::read(path).unwrap());
    let mut reader = SequentialReader::<CompressedMatrixHolder>::open(&format!("scp:{scp}")).unwrap();
    for entry in entries {
        assert_eq!(reader.next().unwrap(), Some(entry));
    }
    assert!(reader.next().unwrap().is_none());
}

/// The first 257 bytes in every length: each cut inside the matrix is an error at the cut, where the option `p` sees the
/// end of the data.
#[test]
fn case_b39_cut_archives() {
    let Some(path) = shared::shared("realdata/demo/loglikes.ark") else { return };
    let bytes = std::fs::read(path).unwrap();
    for length in (1..257).chain([5_000, 50_000]) {
        let mut reader = SequentialReader::<MatrixHolder>::from_archive(Input::from_bytes("cut", &bytes[..length]));
        let error = reader.next().unwrap_err();
        assert!(error.chain().contains("cut: byte "), "{}", error.chain());
    }
}

const MODELS: [&str; 2] = ["realdata/prompts/trans.mdl", "realdata/chain-ko/graph/trans.mdl"];

#[test]
fn transition_models_are_rewritten_byte_for_byte() {
    for file in MODELS {
        let Some(path) = shared::shared(file) else { return };
        let bytes = std::fs::read(path).unwrap();
        let model = TransitionsHolder::read(&mut Input::from_bytes(file, &bytes[..])).unwrap();
        let mut output = Output::memory();
        TransitionsHolder::write(&mut output, &model, true).unwrap();
        assert!(output.into_bytes() == bytes, "{file}: the copy differs");

        // Text keeps seven digits, so one round through it changes the probabilities slightly and a second one nothing.
        let text = |model: &Transitions| {
            let mut output = Output::memory();
            TransitionsHolder::write(&mut output, model, false).unwrap();
            output.into_bytes()
        };
        let first = text(&model);
        let again = TransitionsHolder::read(&mut Input::from_bytes("text", &first[..])).unwrap();
        assert!(text(&again) == first, "{file}: text differs");
        for id in 1..=model.num_ids() {
            assert_eq!(
                (model.pdf(id), model.phone(id), model.hmm_state(id), model.is_self_loop(id), model.is_final(id)),
                (again.pdf(id), again.phone(id), again.hmm_state(id), again.is_self_loop(id), again.is_final(id))
            );
            assert!((model.log_prob(id).unwrap() - again.log_prob(id).unwrap()).abs() < 1e-5);
        }
    }
}

/// A whole acoustic model begins with the bytes of its transition model.
#[test]
fn whole_models() {
    let Some(path) = shared::shared("realdata/prompts/final.mdl") else { return };
    let whole = std::fs::read(&path).unwrap();
    let mut input = Input::from_bytes("final.mdl", &whole[..]);
    let model = TransitionsHolder::read(&mut input).unwrap();
    assert_eq!(input.token(true).unwrap(), "<DIMENSION>");
    let mut output = Output::memory();
    TransitionsHolder::write(&mut output, &model, true).unwrap();
    assert!(whole.starts_with(&output.into_bytes()));
    let model = Transitions::read_file(path.to_str().unwrap()).unwrap();
    assert_eq!((model.num_ids(), model.num_pdfs(), model.num_phones()), (5_002, 601, 166));
}

#[test]
fn columns_of_transition_ids() {
    for (model, table) in
        MODELS.into_iter().zip(["realdata/prompts/tid2col.txt", "realdata/chain-ko/graph/tid2col.txt"])
    {
        let (Some(model), Some(table)) = (shared::shared(model), shared::shared(table)) else { return };
        let model = Transitions::read_file(model.to_str().unwrap()).unwrap();
        let mut ids = 0;
        for line in std::fs::read_to_string(table).unwrap().lines() {
            let (id, column) = line.split_once(' ').unwrap();
            let (id, column): (i32, u32) = (id.parse().unwrap(), column.parse().unwrap());
            assert_eq!(model.pdf(id), Some(column - 1));
            ids += 1;
        }
        assert_eq!(model.num_ids(), ids);
    }
}

#[test]
fn symbol_tables() {
    for (file, size) in [
        ("realdata/demo/words.txt", 589),
        ("realdata/demo/phones.txt", 0),
        ("realdata/prompts-5k/words.txt", 5_155),
        ("realdata/chain-ko/graph/words.txt", 70_096),
    ] {
        let Some(path) = shared::shared(file) else { return };
        let table = SymbolTable::read_file(path.to_str().unwrap()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(size == 0 || table.size() == size, "{file}: {}", table.size());
        assert_eq!(table.size(), text.lines().count());
        for line in text.lines() {
            let (name, id) = line.split_once([' ', '\t']).unwrap();
            let id = id.parse().unwrap();
            assert_eq!((table.find(name), table.name(id)), (Some(id), Some(name.as_bytes())));
        }
    }
}

/// Errors of a file name it, with the byte.
#[test]
fn errors_name_files() {
    let Some(path) = shared::shared("realdata/prompts/trans.mdl") else { return };
    let name = path.to_str().unwrap();
    let error = read_file::<MatrixHolder>(name).unwrap_err();
    assert!(error.to_string().starts_with(&format!("{name}: byte 2: expected a matrix")), "{error}");
    let error = SymbolTable::read_file(name).unwrap_err();
    assert!(error.to_string().starts_with(name), "{error}");
}
