//! `examples/kaldi/decode_koshi.sh` in the place of a recipe's decoding script: `run.pl`, the programs that compute
//! log-likelihoods and the scoring are stand-ins, everything else is as in a recipe.

mod common;
#[path = "common/openfst.rs"]
mod openfst;

use std::fmt::Write as _;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use common::c::{Language, Program, at_hand, has_openfst, text};
use common::graph::{arc, source};
use koshi::decoder::{Decoder, DecoderConfig};
use koshi::graph::{Columns, Graph};
use koshi::lattice::{CompactLattice, CompactLatticeHolder, DeterminizeConfig};
use koshi::search::{Rows, SearchConfig};
use koshi::table::{Matrix, MatrixHolder, SequentialReader, TableWriter, Transitions};
use openfst::{Form, vector};
use tempfile::TempDir;

const SCRIPT: &str = "examples/kaldi/decode_koshi.sh";

/// Runs jobs as Kaldi's run.pl does: options in front of `JOB=1:N`, a log a job, words quoted for a shell.
const RUN_PL: &str = r#"
echo "run.pl $*" >> "$CALLS"
while [[ $1 == -* ]]; do shift 2; done
[[ $1 =~ ^JOB=([0-9]+):([0-9]+)$ ]] || exit 9
first=${BASH_REMATCH[1]} last=${BASH_REMATCH[2]} log=$2 line=
shift 2
for word in "$@"; do
    if [[ $word =~ ^[^[:space:]]+$ ]]; then line+="$word "
    elif [[ $word == *\"* ]]; then line+="'$word' "
    else line+="\"$word\" "; fi
done
for ((job = first; job <= last; job++)); do
    bash -c "set -o pipefail; ${line//JOB/$job}" > "${log//JOB/$job}" 2>&1 || exit 1
done
"#;

/// Halves of a data folder, as utils/split_data.sh makes them.
const SPLIT_DATA: &str = r#"
echo "split_data.sh $*" >> "$CALLS"
lines=$(wc -l < "$1/feats.scp")
for job in 1 2; do
    mkdir -p "$1/split$2/$job"
    for name in feats.scp cmvn.scp utt2spk; do
        sed -n "$(((job - 1) * lines / 2 + 1)),$((job * lines / 2))p" "$1/$name" > "$1/split$2/$job/$name"
    done
done
"#;

/// Features are the keys of their utterances.
const APPLY_CMVN: &str = r#"
echo "apply-cmvn $*" >> "$CALLS"
features=${*: -2:1}
cat "${features#scp:}"
"#;

const FEATURES: &str = r#"
echo "${0##*/} $*" >> "$CALLS"
cat
"#;

/// The bundled log-likelihoods of the utterances whose features come.
const COMPUTE: &str = r#"
echo "${0##*/} $*" >> "$CALLS"
model=${*: -3:1} features=${*: -2:1}
[ -f "$model" ] && [ "${*: -1}" = ark:- ] || exit 9
features=${features#ark,s,cs:}
eval "${features%|}" | while read -r key _; do cat "likes/$key"; done
"#;

/// A recipe's folder over the bundled prompts.
struct Recipe {
    folder: TempDir,
    prompts: Vec<(String, Matrix<f32>)>,
}

impl Recipe {
    fn new() -> Recipe {
        let data = common::root().join("examples/data/prompts");
        let rspecifier = format!("ark:{}", data.join("loglikes.ark").display());
        let mut reader = SequentialReader::<MatrixHolder<f32>>::open(&rspecifier).unwrap();
        let prompts: Vec<_> = std::iter::from_fn(|| reader.next().unwrap()).collect();
        let recipe = Recipe { folder: tempfile::tempdir().unwrap(), prompts };
        let programs = [
            ("run.pl", RUN_PL),
            ("split_data.sh", SPLIT_DATA),
            ("apply-cmvn", APPLY_CMVN),
            ("add-deltas", FEATURES),
            ("splice-feats", FEATURES),
            ("transform-feats", FEATURES),
            ("lattice-scale", FEATURES),
            ("gmm-compute-likes", COMPUTE),
            ("nnet3-compute", COMPUTE),
        ];
        for (name, body) in programs {
            recipe.program(&format!("bin/{name}"), body);
        }
        recipe.program("local/score.sh", "echo \"score.sh $*\" >> \"$CALLS\"");
        for (name, to) in [("HCLG.fst", "exp/tri/graph"), ("words.txt", "exp/tri/graph"), ("trans.mdl", "exp/tri")] {
            let to = recipe.path(to);
            fs::create_dir_all(&to).unwrap();
            let name_there = if name == "trans.mdl" { "final.mdl" } else { name };
            fs::copy(data.join(name), to.join(name_there)).unwrap();
        }
        recipe.write("exp/tri/cmvn_opts", "--norm-vars=false\n");
        for (key, scores) in &recipe.prompts {
            recipe.write(&format!("likes/{key}"), "");
            let to = format!("ark:{}", recipe.path(&format!("likes/{key}")).display());
            let mut writer = TableWriter::<MatrixHolder<f32>>::open(&to).unwrap();
            writer.write(key, scores).unwrap();
            writer.close().unwrap();
        }
        for name in ["feats.scp", "cmvn.scp", "utt2spk"] {
            let lines: String = recipe.prompts.iter().map(|(key, _)| format!("{key} {name}\n")).collect();
            recipe.write(&format!("data/test/{name}"), &lines);
        }
        recipe
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), content).unwrap();
    }

    fn program(&self, name: &str, body: &str) {
        self.write(name, format!("#!/usr/bin/env bash\nset -euo pipefail\n{body}"));
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, words: &[&str]) -> Output {
        let commands = Path::new(env!("CARGO_BIN_EXE_koshi-latgen-faster-mapped")).parent().unwrap();
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{}:{path}", self.path("bin").display(), commands.display());
        let mut command = Command::new(common::root().join(SCRIPT));
        command.args(words).current_dir(self.folder.path());
        command.env("PATH", path).env("CALLS", self.path("calls")).output().unwrap()
    }

    #[track_caller]
    fn succeed(&self, words: &[&str]) {
        let _ = fs::remove_file(self.path("calls"));
        let output = self.run(words);
        let log = fs::read_to_string(self.path("exp/tri/decode/log/decode.1.log")).unwrap_or_default();
        assert!(output.status.success(), "{}{log}", text(&output));
    }

    #[track_caller]
    fn refused(&self, words: &[&str], because: &str) {
        let output = self.run(words);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(String::from_utf8_lossy(&output.stderr).contains(because), "{because}: {}", text(&output));
    }

    /// The lines that stand-ins have left which begin with a program's name.
    fn calls(&self, program: &str) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap();
        calls.lines().filter(|line| line.starts_with(&format!("{program} "))).map(String::from).collect()
    }

    /// The archive of a job.
    fn archive(&self, job: usize) -> Vec<u8> {
        let file = fs::File::open(self.path(&format!("exp/tri/decode/lat.{job}.gz"))).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
        bytes
    }

    /// The lattices of a job, as the library reads them.
    fn lattices(&self, job: usize) -> Vec<(String, CompactLattice)> {
        self.write("lattices", self.archive(job));
        let name = format!("ark:{}", self.path("lattices").display());
        let mut reader = SequentialReader::<CompactLatticeHolder>::open(&name).unwrap();
        std::iter::from_fn(|| reader.next().unwrap()).collect()
    }
}

/// The library's own lattices.
fn decoded(
    prompts: &[(String, Matrix<f32>)],
    graph: Graph,
    model: Option<&Transitions>,
    search: SearchConfig,
) -> Vec<(String, CompactLattice)> {
    let determinize = DeterminizeConfig {
        beam: search.lattice_beam,
        acoustic_scale: search.acoustic_scale,
        ..DeterminizeConfig::default()
    };
    let config = DecoderConfig { search, num_lanes: 1, num_threads: 1, ..DecoderConfig::default() };
    let mut channel = Decoder::new(Arc::new(graph), config).unwrap().new_channel().unwrap();
    let decode = |(key, scores): &(String, Matrix<f32>)| {
        channel.begin().unwrap();
        channel.push(Rows::dense(scores.data(), scores.cols()).unwrap()).unwrap();
        channel.finish().unwrap();
        let raw = channel.lattice(true).unwrap();
        // As they are read: without the search's scale.
        let lattice = raw.determinize(model, &determinize).unwrap().lattice;
        (key.clone(), CompactLattice { acoustic_scale: 1.0, ..lattice })
    };
    prompts.iter().map(decode).collect()
}

fn search(beam: f32, lattice_beam: f32, acoustic_scale: f32) -> SearchConfig {
    SearchConfig { beam, lattice_beam, max_active: 7000, min_active: 200, acoustic_scale, ..SearchConfig::default() }
}

fn demo(recipe: &Recipe, search: SearchConfig) -> Vec<(String, CompactLattice)> {
    let model = Arc::new(Transitions::read_file(recipe.path("exp/tri/final.mdl").to_str().unwrap()).unwrap());
    let graph = Graph::read(recipe.path("exp/tri/graph/HCLG.fst"), Columns::Transitions(Arc::clone(&model))).unwrap();
    decoded(&recipe.prompts, graph, Some(&model), search)
}

/// What `c-tests/kaldi/print_lattices.cc` prints of lattices.
fn printed(lattices: &[(String, CompactLattice)]) -> String {
    let mut out = String::new();
    for (key, lattice) in lattices {
        writeln!(out, "{key}").unwrap();
        let weight = |out: &mut String, weight: koshi::lattice::LatticeWeight, string: &[i32]| {
            write!(out, " {:08x} {:08x}", weight.graph.to_bits(), weight.acoustic.to_bits()).unwrap();
            string.iter().for_each(|id| write!(out, " {id}").unwrap());
            writeln!(out).unwrap();
        };
        for state in 0..lattice.num_states() as u32 {
            for at in lattice.arc_range(state) {
                let arc = &lattice.arcs[at];
                write!(out, "{state} {} {} {}", arc.next, arc.olabel, arc.olabel).unwrap();
                weight(&mut out, arc.weight, lattice.arc_string(at));
            }
            let end = lattice.finals[state as usize];
            if !end.is_absent() {
                write!(out, "{state}").unwrap();
                weight(&mut out, end, lattice.final_string(state));
            }
        }
    }
    out
}

#[test]
fn a_gmms_data_in_two_jobs() {
    let recipe = Recipe::new();
    recipe.succeed(&[
        "--cmd",
        "run.pl --mem 2G",
        "--nj",
        "2",
        "--scoring-opts",
        "--min-lmwt 5",
        "exp/tri/graph",
        "data/test",
        "exp/tri/decode",
    ]);
    assert_eq!(fs::read_to_string(recipe.path("exp/tri/decode/num_jobs")).unwrap(), "2\n");
    let expected = demo(&recipe, search(13.0, 6.0, 0.083333));
    let (one, two) = (recipe.lattices(1), recipe.lattices(2));
    assert_eq!((one.len(), two.len()), (6, 6));
    assert_eq!([one, two].concat(), expected);
    let words = fs::read_to_string(common::root().join("examples/data/prompts/expected.words.int")).unwrap();
    for ((key, lattice), line) in expected.iter().zip(words.lines()) {
        let olabels = lattice.best_path(0.083333).unwrap().olabels;
        assert_eq!(format!("{key}{}", olabels.iter().map(|word| format!(" {word}")).collect::<String>()), line.trim());
    }
    for job in 1..=2 {
        let log = fs::read_to_string(recipe.path(&format!("exp/tri/decode/log/decode.{job}.log"))).unwrap();
        assert!(log.contains("Done 6 utterances, failed for 0"), "{log}");
    }
    // Kaldi's programs got what Kaldi's script gives them.
    let split = "data/test/split2/1";
    assert_eq!(
        recipe.calls("apply-cmvn")[0],
        format!(
            "apply-cmvn --norm-vars=false --utt2spk=ark:{split}/utt2spk scp:{split}/cmvn.scp scp:{split}/feats.scp ark:-"
        )
    );
    assert_eq!(recipe.calls("add-deltas").len(), 2);
    assert!(
        recipe.calls("gmm-compute-likes")[1].starts_with("gmm-compute-likes exp/tri/final.mdl ark,s,cs:apply-cmvn ")
    );
    assert!(
        recipe.calls("run.pl")[0]
            .starts_with("run.pl --mem 2G --num-threads 1 JOB=1:2 exp/tri/decode/log/decode.JOB.log ")
    );
    assert_eq!(
        recipe.calls("score.sh"),
        ["score.sh --min-lmwt 5 --cmd run.pl --mem 2G data/test exp/tri/graph exp/tri/decode"]
    );

    // OpenFst reads the archives too.
    if has_openfst() {
        let folder = common::root().join("c-tests/kaldi");
        let include = format!("-I{}", folder.display());
        let program =
            Program::compile_with(&folder.join("print_lattices.cc"), Language::Cpp17, &[&include], &["-lfst", "-ldl"]);
        let mut found = String::new();
        for job in 1..=2 {
            recipe.write("archive", recipe.archive(job));
            let archive = fs::File::open(recipe.path("archive")).unwrap();
            let output = Command::new(program.path()).stdin(archive).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output));
            found += std::str::from_utf8(&output.stdout).unwrap();
        }
        assert!(found == printed(&expected), "OpenFst reads other lattices than the library");
    }

    // Only scoring; with an other name of the model.
    fs::copy(recipe.path("exp/tri/final.mdl"), recipe.path("exp/tri/4.mdl")).unwrap();
    recipe.succeed(&["--stage", "3", "--iter", "4", "--nj", "2", "exp/tri/graph", "data/test", "exp/tri/decode"]);
    assert!(recipe.calls("run.pl").is_empty());
    assert_eq!(recipe.calls("score.sh"), ["score.sh --iter 4 --cmd run.pl data/test exp/tri/graph exp/tri/decode"]);
}

#[test]
fn features_are_made_as_the_model_has_them() {
    let recipe = Recipe::new();
    recipe.write("exp/tri/final.mat", "");
    recipe.write("exp/tri/splice_opts", "--left-context=3\n");
    recipe.write("exp/tri/fmllr/num_jobs", "2\n");
    recipe.write("exp/tri/fmllr/trans.1", "");
    let usual = ["exp/tri/graph", "data/test", "exp/tri/decode"];
    let run = |options: &[&str]| recipe.succeed(&[&["--nj", "2", "--skip-scoring", "true"], options, &usual].concat());
    run(&["--transform-dir", "exp/tri/fmllr", "--max-active", "300", "--minimize", "true"]);
    assert!(recipe.calls("add-deltas").is_empty() && recipe.calls("score.sh").is_empty());
    assert_eq!(recipe.calls("splice-feats")[0], "splice-feats --left-context=3 ark:- ark:-");
    let mut transforms = recipe.calls("transform-feats");
    transforms.sort();
    let speaker = |job: u32| {
        format!(
            "transform-feats --utt2spk=ark:data/test/split2/{job}/utt2spk ark:exp/tri/fmllr/trans.{job} ark:- ark:-"
        )
    };
    let matrix = "transform-feats exp/tri/final.mat ark:- ark:-".to_string();
    assert_eq!(transforms, [speaker(1), speaker(2), matrix.clone(), matrix]);
    let latgen = &recipe.calls("run.pl")[0];
    for option in ["--max-active=300", "--min-active=200", "--minimize=true", "--beam=13.0", "--allow-partial=true"] {
        assert!(latgen.contains(&format!(" {option} ")), "{option}: {latgen}");
    }
    run(&["--max-active", "150"]);
    assert!(recipe.calls("run.pl")[0].contains(" --max-active=150 --min-active=150 "));
    recipe.write("exp/tri/fmllr/num_jobs", "3\n");
    recipe.refused(
        &[&["--nj", "2", "--transform-dir", "exp/tri/fmllr"][..], &usual].concat(),
        "exp/tri/fmllr was made with another number of jobs",
    );
}

#[test]
fn a_chain_models_data() {
    let recipe = Recipe::new();
    recipe.write("exp/tri/frame_subsampling_factor", "3\n");
    recipe.write("ivectors/ivector_online.scp", "");
    recipe.write("ivectors/ivector_period", "10\n");
    recipe.program("steps/diagnostic/analyze_lats.sh", "echo \"analyze_lats.sh $*\" >> \"$CALLS\"");
    recipe.succeed(&[
        "--nj",
        "2",
        "--acwt",
        "0.1",
        "--post-decode-acwt",
        "10.0",
        "--beam",
        "11",
        "--extra-left-context",
        "4",
        "--online-ivector-dir",
        "ivectors",
        "--num-threads",
        "2",
        "exp/tri/graph",
        "data/test",
        "exp/tri/decode",
    ]);
    let expected = demo(&recipe, search(11.0, 8.0, 0.1));
    assert_eq!([recipe.lattices(1), recipe.lattices(2)].concat(), expected);
    assert_eq!(recipe.calls("lattice-scale"), vec!["lattice-scale --acoustic-scale=10.0 ark:- ark:-"; 2]);
    let network = recipe.calls("nnet3-compute");
    let start = "nnet3-compute --use-gpu=no --use-priors=true --online-ivectors=scp:ivectors/ivector_online.scp \
        --online-ivector-period=10 --frame-subsampling-factor=3 --frames-per-chunk=50 --extra-left-context=4 \
        --extra-right-context=0 --extra-left-context-initial=-1 --extra-right-context-final=-1 exp/tri/final.mdl ark,s,cs:";
    assert!(network.len() == 2 && network[0].starts_with(start), "{network:?}");
    assert_eq!(
        recipe.calls("analyze_lats.sh"),
        ["analyze_lats.sh --cmd run.pl --iter final exp/tri/graph exp/tri/decode"]
    );
    assert!(recipe.calls("run.pl")[0].contains(" koshi-latgen-faster-mapped --num-threads=2 --use-gpu=no "));
    recipe.succeed(&[
        "--nj",
        "2",
        "--stage",
        "2",
        "--skip-diagnostics",
        "true",
        "exp/tri/graph",
        "data/test",
        "exp/tri/decode",
    ]);
    assert!(recipe.calls("run.pl").is_empty() && recipe.calls("analyze_lats.sh").is_empty());
}

/// Labels are columns + 1, and there is no transition model.
#[test]
fn a_ctc_networks_data() {
    let recipe = Recipe::new();
    let first = vec![arc(1, 11, 0.5, 1), arc(3, 13, 1.25, 1)];
    let inf = f32::INFINITY;
    let graph = source(Some(0), vec![(inf, first), (inf, vec![arc(4, 12, 0.25, 2)]), (0.125, vec![arc(2, 0, 0.0, 2)])]);
    recipe.write("exp/tri/lang/TLG.fst", vector(&graph, &Form::default()));
    recipe.write("exp/tri/lang/words.txt", "<eps> 0\na 11\nb 12\nc 13\n");
    recipe.write("config", "beam=9\nlattice_beam=7\nskip_scoring=true\n");
    let rows = |a: f32, b: f32| {
        let rows = [[a, -4.0, b, -9.0], [-8.0, -2.0, -1.0, -0.5], [-1.0, -0.5, -3.0, -2.0]];
        Matrix::from_data(3, 4, rows.concat()).unwrap()
    };
    let prompts = [("u1".to_string(), rows(-1.0, -2.0)), ("u2".to_string(), rows(-3.0, -0.5))];
    for (job, (key, scores)) in (1..).zip(&prompts) {
        let to = format!("ark:{}", recipe.path(&format!("likes.{job}.ark")).display());
        let mut writer = TableWriter::<MatrixHolder<f32>>::open(&to).unwrap();
        writer.write(key, scores).unwrap();
        writer.close().unwrap();
    }
    let usual = ["exp/tri/lang", "data/test", "exp/tri/decode"];
    let options = ["--type", "ctc", "--nj", "2", "--config", "config"];
    recipe.succeed(&[&options[..], &["--loglikes", "ark:cat likes.JOB.ark |"], &usual].concat());
    let found = [recipe.lattices(1), recipe.lattices(2)].concat();
    let graph = Graph::read(recipe.path("exp/tri/lang/TLG.fst"), Columns::Labels).unwrap();
    assert_eq!(found, decoded(&prompts, graph, None, search(9.0, 7.0, 1.0)));
    let words: Vec<Vec<i32>> = found.iter().map(|(_, lattice)| lattice.best_path(1.0).unwrap().olabels).collect();
    assert_eq!(words, [[11, 12], [13, 12]]);
    recipe.refused(&[&options[..], &usual].concat(), "--type ctc needs --loglikes");
}

#[test]
fn what_cannot_be_is_refused() {
    let recipe = Recipe::new();
    let usual = ["exp/tri/graph", "data/test", "exp/tri/decode"];
    let refused = |options: &[&str], because: &str| recipe.refused(&[options, &usual].concat(), because);
    recipe.refused(&["exp/tri/graph", "data/test"], "decode_koshi.sh [options] <graph-dir> <data-dir> <decode-dir>");
    refused(&["--beem", "3"], "invalid option --beem");
    refused(&["--beam=3"], "options are written \"--name value\": --beam=3");
    refused(&["--skip-scoring", "yes"], "--skip-scoring is yes; it can be true or false");
    refused(&["--type", "hmm"], "--type is hmm; it can be gmm, nnet3 or ctc");
    refused(&["--iter", "7"], "no such file exp/tri/7.mdl");
    recipe.refused(&["--nj", "2", "exp/tri/none", "data/test", "exp/tri/decode"], "no such file exp/tri/none/HCLG.fst");
    // A decoder that fails ends the script, and nothing is scored.
    refused(&["--nj", "2", "--beam", "-1"], "decoding has failed");
    refused(&["--nj", "2", "--use-gpu", "perhaps"], "decoding has failed");
    assert!(recipe.calls("score.sh").is_empty());
    // So does a program that fails before or behind it, even if all bytes have come.
    recipe.program("bin/lattice-scale", "cat; exit 3");
    refused(&["--nj", "2", "--post-decode-acwt", "10.0"], "decoding has failed");
    recipe.program("bin/lattice-scale", FEATURES);
    recipe.program("bin/gmm-compute-likes", &format!("{COMPUTE}\nexit 3"));
    refused(&["--nj", "2"], "decoding has failed");
    recipe.program("bin/gmm-compute-likes", COMPUTE);
    assert!(recipe.calls("score.sh").is_empty());
    // Kaldi's pipes would take a name with a blank for two.
    fs::create_dir_all(recipe.path("exp/my tri/decode")).unwrap();
    for name in [["exp/my graph", "data/test", "exp/tri/decode"], ["exp/tri/graph", "data/my test", "exp/tri/decode"]] {
        recipe.refused(&name, "has a blank in it");
    }
    recipe.refused(&["exp/tri/graph", "data/test", "exp/my tri/decode"], "exp/my tri/decode has a blank in it");
    fs::remove_file(recipe.path("local/score.sh")).unwrap();
    refused(&["--nj", "2"], "not scoring: local/score.sh is not there");
    assert!(recipe.path("exp/tri/decode/lat.2.gz").exists());
    let help = recipe.run(&["--help"]);
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("--online-ivector-dir"));
}

#[test]
fn shellcheck_finds_nothing() {
    let output = Command::new("shellcheck").arg(SCRIPT).current_dir(common::root()).output();
    if at_hand(output.is_ok(), "shellcheck") {
        let output = output.unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }
}
