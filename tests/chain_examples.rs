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
