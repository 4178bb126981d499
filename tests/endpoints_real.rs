//! End points in a real stream: the bundled prompts one behind the other, silence by the phones of the
//! transition model.

use std::path::Path;
use std::sync::Arc;

use koshi::decoder::{BackendChoice, Channel, Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::lattice::Lattice;
use koshi::search::{EndpointAction, EndpointConfig, EndpointRule, Rows, SearchConfig, Silence};
use koshi::table::{MatrixHolder, SequentialReader, Transitions};

/// SIL and SPN with and without position, as in phones.txt.
const SILENCE: std::ops::RangeInclusive<i32> = 1..=10;

/// Frames between two prompts.
const PAUSE: usize = 120;

struct Stream {
    model: Arc<Transitions>,
    decoder: Arc<Decoder>,
    rows: Vec<f32>,
    dim: usize,
}

fn stream() -> Stream {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/prompts");
    let model = Arc::new(Transitions::read_file(&data.join("trans.mdl").display().to_string()).unwrap());
    let graph = Graph::read(data.join("HCLG.fst"), Columns::Transitions(Arc::clone(&model))).unwrap();
    let (mut rows, mut dim) = (Vec::new(), 0);
    let likes = format!("ark:{}", data.join("loglikes.ark").display());
    let mut reader = SequentialReader::<MatrixHolder<f32>>::open(&likes).unwrap();
    while let Some((_, matrix)) = reader.next().unwrap() {
        dim = matrix.cols();
        rows.extend_from_slice(matrix.data());
        // The recordings are cut close: the line stays as quiet as at the end of each.
        let last = rows[rows.len() - dim..].to_vec();
        (0..PAUSE).for_each(|_| rows.extend_from_slice(&last));
    }
    let search = SearchConfig {
        beam: 13.0,
        lattice_beam: 6.0,
        max_active: 7000,
        acoustic_scale: 1.0 / 12.0,
        ..SearchConfig::default()
    };
    let config = DecoderConfig { search, backend: BackendChoice::Cpu, num_threads: 1, ..DecoderConfig::default() };
    let decoder = Decoder::new(Arc::new(graph), config).unwrap();
    Stream { model, decoder, rows, dim }
}

impl Stream {
    fn rows(&self) -> Rows<'_> {
        Rows::dense(&self.rows, self.dim).unwrap()
    }

    fn begin(&self, action: Option<EndpointAction>) -> Channel {
        let config = action.map(|action| EndpointConfig {
            rules: EndpointRule::DEFAULTS,
            silence: Silence::Phones(SILENCE.collect()),
            action,
            segments_kept: 100,
        });
        self.decoder.set_endpoint_rules(config.as_ref()).unwrap();
        let mut channel = self.decoder.new_channel().unwrap();
        channel.begin().unwrap();
        channel
    }

    /// The first of the default rules that holds, by the whole best path.
    fn rule(&self, channel: &Channel) -> Option<(u32, u64)> {
        let path = channel.best_path(false).unwrap();
        let silent = |id: &&i32| SILENCE.contains(&self.model.phone(**id).unwrap());
        let (frames, silence) = (path.ilabels.len(), path.ilabels.iter().rev().take_while(silent).count());
        let cost = channel.final_relative_cost().unwrap();
        let speech = frames > silence;
        let rules = [
            silence >= 500,
            speech && silence >= 50 && cost <= 2.0,
            speech && silence >= 100 && cost <= 8.0,
            speech && silence >= 200,
            frames >= 2000,
        ];
        rules.iter().position(|holds| *holds).map(|at| (at as u32 + 1, silence as u64))
    }
}

#[test]
fn a_stream_of_prompts_falls_into_segments() {
    let stream = stream();
    let rows = stream.rows();
    let mut channel = stream.begin(Some(EndpointAction::Segment));
    for from in (0..rows.frames()).step_by(20) {
        channel.push(rows.slice(from, 20)).unwrap();
    }
    channel.finish().unwrap();
    let count = channel.num_segments();
    let mut first = 0;
    let mut words = Vec::new();
    for number in 0..count {
        let segment = channel.segment(number).unwrap();
        assert_eq!(segment.end.first_frame as usize, first);
        // Alone, frame by frame: no rule holds before the end, and there it is the one that is named.
        let mut alone = stream.begin(None);
        let end = segment.end.frames() as usize;
        for at in first..end {
            assert_eq!(stream.rule(&alone), None, "frame {at}");
            alone.push(rows.slice(at, 1)).unwrap();
        }
        let endpoint = segment.end.endpoint;
        assert_eq!(stream.rule(&alone), Some((endpoint.rule, endpoint.trailing_silence)));
        assert_eq!(endpoint.relative_cost, alone.final_relative_cost().unwrap());
        assert_eq!(*segment.lattice, Lattice::from(alone.lattice(true).unwrap()));
        let path = alone.best_path(true).unwrap();
        assert_eq!(segment.best_path.olabels, path.olabels);
        assert!(segment.best_path.frames.iter().zip(&path.frames).all(|(ours, alone)| *ours == alone + first as u32));
        words.extend(path.olabels);
        first = end;
    }
    let open = channel.best_path(true).unwrap();
    assert_eq!(open.ilabels.len(), rows.frames() - first, "no frame is lost");
    words.extend(&open.olabels);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/prompts/expected.words.int");
    let expected = std::fs::read_to_string(data).unwrap();
    let expected = expected.lines().flat_map(|line| line.split_whitespace().skip(1)).map(|word| word.parse().unwrap());
    assert_eq!(words, expected.collect::<Vec<i32>>(), "the words of the prompts alone");
    // One of the twelve ends so that a final state is far; the next one then follows in its segment.
    assert_eq!((count, open.olabels.len()), (11, 0));
}
