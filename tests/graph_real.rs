//! The real graphs, each with its table of columns, against a plain reader.

mod common;
#[path = "common/openfst.rs"]
mod openfst;

use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use flate2::read::GzDecoder;
use koshi::graph::{Columns, Graph, GraphInfo};
use koshi::table::Transitions;

fn bytes(path: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(path).unwrap();
    if path.extension().is_some_and(|extension| extension == "gz") {
        let packed = std::mem::take(&mut bytes);
        GzDecoder::new(Cursor::new(packed)).read_to_end(&mut bytes).unwrap();
    }
    bytes
}

/// Lines of `transition-id pdf+1`.
fn columns(path: &Path) -> Columns {
    let text = std::fs::read_to_string(path).unwrap();
    let mut table = vec![-1];
    for line in text.lines() {
        let (id, column) = line.split_once(' ').unwrap();
        assert_eq!(id.parse::<usize>().unwrap(), table.len());
        table.push(column.parse::<i32>().unwrap() - 1);
    }
    Columns::Table(table)
}

/// Reads a graph of the real data with its transition model, and compares all of it with what the
/// plain reader and the plain table say.
fn graph(file: &str, model: &str, table: &str) -> Option<GraphInfo> {
    let (file, model, table) = (common::realdata(file)?, common::realdata(model)?, common::realdata(table)?);
    let (bytes, columns) = (bytes(&file), columns(&table));
    let graph = Graph::from_memory(&bytes, columns.clone()).unwrap();
    common::graph::assert_same(&graph, &openfst::read(&bytes), &columns);

    let model = Arc::new(Transitions::read_file(model.to_str().unwrap()).unwrap());
    let with_model = Graph::from_memory(&bytes, Columns::Transitions(model.clone())).unwrap();
    common::graph::assert_equal(&with_model, &graph);
    assert!(Arc::ptr_eq(with_model.transitions().unwrap(), &model));
    assert_eq!(graph.num_columns(), model.num_pdfs() as u32);
    graph.check_width(graph.num_columns() as usize).unwrap();
    Some(graph.info().unwrap())
}

/// What the four graphs share: nothing out of reach, nothing at `+inf`.
fn assert_info(info: GraphInfo, expected: [u32; 6]) {
    let found =
        [info.num_states, info.num_arcs, info.num_epsilon_arcs, info.num_finals, info.max_level, info.num_columns];
    assert_eq!(found, expected);
    assert_eq!((info.num_unreachable, info.num_dead_ends, info.num_infinite_arcs), (0, 0, 0));
}

#[test]
fn demo_and_prompts() {
    for folder in ["demo", "prompts"] {
        if let Some(info) = graph(&format!("{folder}/HCLG.fst"), &format!("{folder}/trans.mdl"), "prompts/tid2col.txt")
        {
            assert_info(info, [17_167, 42_248, 5_607, 166, 2, 601]);
        }
    }
}

#[test]
fn prompts_5k() {
    if let Some(info) = graph("prompts-5k/HCLG.fst.gz", "prompts/trans.mdl", "prompts/tid2col.txt") {
        assert_info(info, [1_809_112, 5_302_478, 200_965, 6_460, 2, 601]);
    }
}

#[test]
fn chain_ko() {
    if let Some(info) = graph("chain-ko/graph/HCLG.fst.gz", "chain-ko/graph/trans.mdl", "chain-ko/graph/tid2col.txt") {
        assert_info(info, [939_260, 3_341_954, 298_912, 33_800, 3, 2_616]);
    }
}
