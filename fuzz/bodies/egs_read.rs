//! Bytes taken for training examples of both kinds: an error, or an example that comes back from what it writes, can be
//! checked and can be cut.

use koshi::egs::{Cut, DiscriminativeNnetExampleHolder, NnetExampleHolder};
use koshi::table::{Holder, Input, Output};

fn read<H: Holder>(bytes: &[u8]) -> koshi::Result<H::Value> {
    H::read(&mut Input::from_bytes("fuzz", bytes))
}

fn written<H: Holder>(value: &H::Value, binary: bool) -> koshi::Result<Vec<u8>> {
    let mut output = Output::memory();
    H::write(&mut output, value, binary)?;
    Ok(output.into_bytes())
}

/// What is written is read again and then written the same.
fn comes_back<H: Holder>(value: &H::Value) {
    let binary = written::<H>(value, true).expect("writing to memory");
    let again = read::<H>(&binary).expect("own bytes are read");
    assert!(written::<H>(&again, true).expect("writing to memory") == binary);
}

pub fn run(bytes: &[u8]) -> bool {
    let mut taken = false;
    if let Ok(example) = read::<NnetExampleHolder>(bytes) {
        taken = true;
        comes_back::<NnetExampleHolder>(&example);
        let text = written::<NnetExampleHolder>(&example, false).expect("writing to memory");
        // Values of seven digits may be too large to be compressed.
        let _ = read::<NnetExampleHolder>(&text);
        let _ = example.check();
        for frame in 0..example.labels.num_frames() {
            example.label(frame).expect("a frame that is there");
        }
        let cut = Cut { start_frame: 1, num_frames: 2, left_context: 1, right_context: 1 };
        if let Ok(extracted) = example.extract(cut) {
            comes_back::<NnetExampleHolder>(&extracted.example);
        }
    }
    if let Ok(example) = read::<DiscriminativeNnetExampleHolder>(bytes) {
        taken = true;
        let _ = example.check();
        // Frames that are not finite are read, and refused where they would have to be compressed.
        if written::<DiscriminativeNnetExampleHolder>(&example, true).is_ok() {
            comes_back::<DiscriminativeNnetExampleHolder>(&example);
        }
    }
    taken
}
