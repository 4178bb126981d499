//! `koshi_kaldi.hpp`: the classes of Kaldi's decoders, with OpenFst's own headers, and with stand-ins for Kaldi's.

mod common;

use std::process::{Command, Output};

use common::c::{Language, Mode, Program, has_openfst, mode, text};
use common::soft;

/// On the CPU; and with rows in the memory of a GPU and of the host, where the program finds the software device by
/// `LD_LIBRARY_PATH`.
#[test]
fn results_are_those_of_the_native_classes() {
    if !has_openfst() {
        return;
    }
    let folder = common::root().join("c-tests/kaldi");
    let include = format!("-I{}", folder.display());
    let flags: [&str; 1] = [&include];
    let program = Program::compile_with(&folder.join("decoders.cc"), Language::Cpp17, &flags, &["-lfst", "-ldl"]);
    succeeds_silently(&program.run(&[]));
    // The device's kernels run on stacks of their own, which neither sanitizers nor valgrind follow.
    if mode() == Mode::Plain {
        let mut command = Command::new(program.path());
        command.arg("cuda").current_dir(common::root());
        command.env("LD_LIBRARY_PATH", soft::build(None)).env("KOSHI_SOFT", common::with_kernels(""));
        succeeds_silently(&command.output().unwrap());
    }
}

fn succeeds_silently(output: &Output) {
    let silent = output.stdout.is_empty() && output.stderr.is_empty();
    assert!(output.status.success() && silent, "{}", text(output));
}
