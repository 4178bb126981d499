//! Describes decoding graphs, checks them, and writes cache files.

mod support;

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use koshi::Error;
use koshi::graph::{Columns, Graph};
use koshi::table::Transitions;

use support::exit::{self, Failure};
use support::options::Options;

const USAGE: &str = "\
Describes a decoding graph, checks it, or writes it as a cache file that is mapped instead of read.

Usage: koshi-graph [options] info <graph>
       koshi-graph [options] check <graph>
       koshi-graph [options] cache <graph> <cache>

 e.g.: koshi-graph --model=final.mdl cache HCLG.fst HCLG.koshi

A graph is an OpenFst file of type vector or const with standard arcs, or a cache file. info prints a line for each
figure, its name first. The exit status is 0 for a graph that can be searched, else 1.
";

fn main() -> ExitCode {
    exit::run("koshi-graph", || {
        let mut model = String::new();
        let mut options = Options::new(USAGE);
        let doc = "Transition model that gives input labels their columns; without it label i reads column i - 1. \
                   A cache file can be read with the model that it was written with only";
        options.text("model", &mut model, doc);
        let Some(arguments) = options.read(2, 3)? else { return Ok(()) };
        run(&model, &arguments)
    })
}

fn run(model: &str, arguments: &[String]) -> Result<(), Failure> {
    let columns = match model {
        "" => Columns::Labels,
        model => Columns::Transitions(Arc::new(Transitions::read_file(model)?)),
    };
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["info", graph] => print_info(&read(graph, columns)?)?,
        ["check", graph] => drop(read(graph, columns)?),
        ["cache", _, "-"] => return Err(Failure::Usage("cache: a file that can be mapped has a name, not -".into())),
        ["cache", graph, cache] => read(graph, columns)?.write_cache(cache)?,
        _ => return Err(Failure::Usage("info, check or cache, and the files that it takes".into())),
    }
    Ok(())
}

fn read(path: &str, columns: Columns) -> Result<Graph, Error> {
    let graph = Graph::open(path, columns)?;
    graph.check_whole()?;
    Ok(graph)
}

fn print_info(graph: &Graph) -> Result<(), Failure> {
    let info = graph.info()?;
    let text = format!(
        "states {}\narcs {}\nepsilon-arcs {}\ninfinite-arcs {}\nfinal-states {}\nunreachable-states {}\n\
         dead-end-states {}\nlongest-epsilon-path {}\nmax-ilabel {}\nmax-olabel {}\ncolumns {}\nbytes {}\n",
        info.num_states,
        info.num_arcs,
        info.num_epsilon_arcs,
        info.num_infinite_arcs,
        info.num_finals,
        info.num_unreachable,
        info.num_dead_ends,
        info.max_level,
        info.max_ilabel,
        info.max_olabel,
        info.num_columns,
        info.memory,
    );
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(written.map_err(|error| Error::io("standard output", error))?)
}
