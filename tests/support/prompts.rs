//! The bundled prompts: what they are, what was said, and the columns of their graph.
#![allow(dead_code)] // each test file uses its own part

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use koshi::table::{MatrixHolder, SequentialReader, Transitions};

/// An utterance.
pub struct Prompt {
    pub key: String,
    pub data: Vec<f32>,
    pub dim: usize,
}

/// A file of the prompts.
pub fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/data/prompts").join(name)
}

/// All of them.
pub fn prompts() -> &'static [Prompt] {
    static PROMPTS: LazyLock<Vec<Prompt>> = LazyLock::new(|| {
        let rspecifier = format!("ark:{}", file("loglikes.ark").display());
        let mut reader = SequentialReader::<MatrixHolder<f32>>::open(&rspecifier).unwrap();
        let mut all = Vec::new();
        while let Some((key, matrix)) = reader.next().unwrap() {
            all.push(Prompt { key, dim: matrix.cols(), data: matrix.into_data() });
        }
        assert_eq!(all.len(), 12);
        all
    });
    &PROMPTS
}

/// The column of each input label of the graph.
pub fn columns() -> Vec<i32> {
    let model = Transitions::read_file(file("trans.mdl").to_str().unwrap()).unwrap();
    (0..=model.num_ids()).map(|id| model.pdf(id).map_or(-1, |pdf| pdf as i32)).collect()
}

/// Words and what was said.
pub struct Words {
    numbers: HashMap<String, i32>,
    said: HashMap<String, String>,
}

impl Words {
    pub fn read() -> Words {
        let lines = |name: &str| fs::read_to_string(file(name)).unwrap();
        let two = |line: &str| line.split_once(' ').map(|(one, rest)| (one.to_string(), rest.trim().to_string()));
        let numbers = lines("words.txt");
        let numbers = numbers.lines().filter_map(two).map(|(word, number)| (word, number.parse().unwrap()));
        Words { numbers: numbers.collect(), said: lines("text").lines().filter_map(two).collect() }
    }

    /// The labels of some words.
    pub fn numbers(&self, text: &str) -> Vec<i32> {
        text.split_whitespace().map(|word| self.numbers[word]).collect()
    }

    /// What was said in an utterance.
    pub fn said(&self, key: &str) -> Vec<i32> {
        self.numbers(&self.said[key])
    }
}
