//! Bytes taken for the model of `koshi-transducer`: an error, or a model that all searches get through.

use std::sync::Arc;

use koshi::search::Rows;
use koshi::transducer::{SearchKind, Transducer, TransducerConfig};

#[path = "../../src/bin/transducer/network.rs"]
mod network;

use network::{Document, Network};

const KINDS: [SearchKind; 5] =
    [SearchKind::Greedy, SearchKind::Default, SearchKind::Tsd, SearchKind::Alsd, SearchKind::Nsc];

pub fn run(bytes: &[u8]) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.json");
    std::fs::write(&path, bytes).expect("a file");
    let name = path.to_str().expect("a name");
    let read = || Document::read(name).and_then(|document| Network::new(document, name));
    let Ok(network) = read() else { return false };
    let network = Arc::new(network);
    if network.encoder().len() > 4096 {
        return false; // larger ones tell nothing new
    }
    let Ok(rows) = Rows::dense(network.encoder(), network.dim()) else { return false };
    for search in KINDS {
        let Ok(searcher) = Transducer::new(Box::new(Arc::clone(&network))) else { return false };
        let options = TransducerConfig { search, beam: 2, ..TransducerConfig::default() };
        if let Ok(mut results) = searcher.search(&options, &[rows])
            && let Some(Ok(hypotheses)) = results.pop()
        {
            assert!(hypotheses.list.iter().all(|hypothesis| !hypothesis.score.is_nan()));
        }
    }
    true
}
