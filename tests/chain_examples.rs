//! `examples/chain_pytorch.py`: its derivatives are those of finite differences, by NumPy, and through PyTorch's autograd
//! where that is installed.

mod common;

#[test]
fn chain_pytorch_holds_derivatives_to_differences() {
    let Some(mut python) = common::python("numpy") else { return };
    let script = common::root().join("examples/chain_pytorch.py");
    let output = python.arg(script).arg(common::shared_library()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let out = String::from_utf8(output.stdout).unwrap();
    // The script makes the comparison itself.
    assert!(
        out.starts_with("objective ") && out.contains("\nNumPy: derivative and finite differences differ by "),
        "{out}"
    );
    let last = out.lines().last().unwrap();
    assert!(last.starts_with("PyTorch (") || last == "PyTorch is not installed: its part did not run", "{out}");
}

#[test]
fn what_is_wrong_is_an_exception() {
    const PROGRAM: &str = r#"
import sys, numpy, chain_pytorch as chain
koshi = chain.Koshi(sys.argv[1])
said = chain.supervision(koshi, chain.SMALL_SUPERVISION)
den = chain.den_graph(koshi, chain.small_den(), said.num_pdfs)
config = koshi.config(leaky_hmm_coefficient=0.1)
for attempt in [
    lambda: koshi.config(leaky=0.1),
    lambda: chain.den_graph(koshi, "/nowhere", 3),
    lambda: chain.supervision(koshi, b"xx"),
    lambda: chain.objective(koshi, den, said, config, numpy.zeros((8, 3))),
    lambda: chain.objective(koshi, den, said, koshi.config(leaky_hmm_coefficient=-1), numpy.zeros((6, 3))),
    lambda: chain.objective(koshi, said, den, config, numpy.zeros((6, 3))),
]:
    try:
        print(attempt())
    except Exception as error:
        print(type(error).__name__, str(error).split(" (0x")[0])
print(chain.objective(koshi, den, said, config, numpy.full((6, 3), numpy.nan))[3])
"#;
    let Some(printed) = common::python_over_examples("numpy", PROGRAM) else { return };
    let wanted = "\
TypeError koshi_chain_config has no field leaky
RuntimeError koshi_den_graph_read: /nowhere: opening: No such file or directory (os error 2)
RuntimeError koshi_supervision_from_memory: memory: byte 0: expected <Supervision>, found \"xx\"
RuntimeError koshi_chain_objf: the network output has 8 rows for 2 sequences of 3 frames
RuntimeError koshi_chain_objf: leaky_hmm_coefficient is -1; it must be 0 or more and below 1
RuntimeError koshi_chain_objf: graph
False
";
    assert_eq!(printed, wanted);
}
