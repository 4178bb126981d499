//! The face of the crate's own items.

use std::sync::Arc;

use koshi::Error;
use koshi::search::Rows;
use koshi::transducer::{
    Hypotheses, Hypothesis, Model, Phrase, Stream, StreamItem, Transducer, TransducerConfig, advance,
};

use super::{Face, Fault, Item, Matrix, Outcome, Status};

pub struct Rust;

fn fault(error: Error) -> Fault {
    let status = match error.root() {
        Error::Argument(_) => Status::KOSHI_E_ARGUMENT,
        Error::State(_) => Status::KOSHI_E_STATE,
        Error::Config(_) => Status::KOSHI_E_CONFIG,
        Error::Shape(_) => Status::KOSHI_E_SHAPE,
        Error::Scores { .. } => Status::KOSHI_E_SCORES,
        Error::NoTokens { .. } => Status::KOSHI_E_NO_TOKENS,
        Error::Limit(_) => Status::KOSHI_E_LIMIT,
        Error::NoMemory { .. } => Status::KOSHI_E_NO_MEMORY,
        Error::Callback { .. } => Status::KOSHI_E_CALLBACK,
        Error::Cancelled => Status::KOSHI_E_CANCELLED,
        other => panic!("{other}"),
    };
    Fault { status, message: error.chain() }
}

fn rows<'a>(matrix: Matrix<'a>) -> Outcome<Rows<'a>> {
    Rows::new(matrix.data, matrix.frames, matrix.dim, matrix.stride).map_err(fault)
}

impl Face for Rust {
    type Transducer = Arc<Transducer>;
    type Stream = Stream;

    fn transducer(model: Arc<dyn Model>) -> Outcome<Arc<Transducer>> {
        Transducer::new(Box::new(model)).map_err(fault)
    }

    fn set_bias(transducer: &Arc<Transducer>, phrases: &[Phrase<'_>]) -> Outcome {
        transducer.set_phrases(phrases).map_err(fault)
    }

    fn search(
        transducer: &Arc<Transducer>,
        config: &TransducerConfig,
        utterances: &[Matrix<'_>],
    ) -> Outcome<Vec<Outcome<Hypotheses>>> {
        let utterances = utterances.iter().map(|matrix| rows(*matrix)).collect::<Outcome<Vec<_>>>()?;
        let results = transducer.search(config, &utterances).map_err(fault)?;
        Ok(results.into_iter().map(|result| result.map_err(fault)).collect())
    }

    fn stream(transducer: &Arc<Transducer>, config: &TransducerConfig) -> Outcome<Stream> {
        transducer.new_stream(config).map_err(fault)
    }

    fn push(stream: &mut Stream, matrix: Matrix<'_>) -> Outcome {
        stream.push(rows(matrix)?).map_err(fault)
    }

    fn partial(stream: &Stream) -> Outcome<(Hypotheses, usize)> {
        stream.partial().map_err(fault)
    }

    fn commit(stream: &mut Stream) -> Outcome<Hypothesis> {
        stream.commit().map_err(fault)
    }

    fn finish(stream: &mut Stream) -> Outcome<Hypotheses> {
        stream.finish().map_err(fault)
    }

    fn canceller(stream: &Stream) -> Box<dyn Fn() + Send + Sync> {
        let canceller = stream.canceller();
        Box::new(move || canceller.cancel())
    }

    fn advance(transducer: &Arc<Transducer>, items: Vec<Item<'_, Stream>>) -> Outcome<Vec<Outcome>> {
        let mut batch = Vec::new();
        for item in items {
            let rows = rows(item.rows)?;
            batch.push(if item.last {
                StreamItem::last(item.stream, rows)
            } else {
                StreamItem::more(item.stream, rows)
            });
        }
        advance(transducer, &mut batch).map_err(fault)?;
        let told = |item: StreamItem<'_>| item.result.map_err(|error| Fault { message: String::new(), ..fault(error) });
        Ok(batch.into_iter().map(told).collect())
    }
}
