//! Searches a small transducer given as JSON, and prints the n-best list as JSON.

mod support;
mod transducer;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use koshi::Error;
use koshi::search::Rows;
use koshi::transducer::Transducer;

use support::exit::{self, Failure};
use transducer::{Config, Document, Network, nbest};

fn main() -> ExitCode {
    exit::run("koshi-transducer", || {
        let mut config = Config::default();
        let Some(arguments) = config.options().read(1, 1)? else { return Ok(()) };
        run(&config, arguments.first().map(String::as_str).unwrap_or_default())
    })
}

fn run(config: &Config, model: &str) -> Result<(), Failure> {
    let options = config.search()?;
    let document = Document::read(model)?;
    let network = Arc::new(Network::new(document, model)?);
    if options.lm_weight != 0.0 && !network.has_lm() {
        return Err(Error::Config(format!("lm-weight is {}, but {model} has no lm_bigram", options.lm_weight)).into());
    }
    let searcher = Transducer::new(Box::new(Arc::clone(&network)))?;
    let rows = Rows::dense(network.encoder(), network.dim())?;
    let result = searcher.search(&options, &[rows])?.pop();
    let hypotheses = result.ok_or_else(|| Error::Internal("an utterance without a result".into()))??;
    if hypotheses.partial {
        log::warn!("a bound struck: the hypotheses are the best that were found within it");
    }
    let text = nbest(&hypotheses)?;
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(written.map_err(|error| Error::io("standard output", error))?)
}
