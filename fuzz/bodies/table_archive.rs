//! Bytes taken for an archive of each type: an error, or entries that are found again by their keys.

use koshi::chain::SupervisionHolder;
use koshi::egs::{DiscriminativeNnetExampleHolder, NnetExampleHolder};
use koshi::lattice::{CompactLatticeHolder, LatticeHolder, RawLatticeHolder, StoredLatticeHolder};
use koshi::table::{
    BasicHolder, BasicVectorVectorHolder, Holder, Input, Int32VectorHolder, MatrixHolder, Output, SequentialReader,
    TokenHolder, TokenVectorHolder,
};

fn check<H: Holder>(bytes: &[u8]) -> bool {
    let mut taken = false;
    let mut reader = SequentialReader::<H>::from_archive(Input::from_bytes("fuzz", bytes));
    while let Ok(Some((key, value))) = reader.next() {
        taken = true;
        let mut output = Output::memory();
        // Keys and words with control characters are read but not written.
        if output.write_token(&key).and_then(|()| H::write(&mut output, &value, true)).is_ok() {
            let copy = output.into_bytes();
            let mut again = SequentialReader::<H>::from_archive(Input::from_bytes("copy", copy));
            assert_eq!(again.next().expect("own bytes are read").map(|(key, _)| key), Some(key));
        }
    }
    taken
}

pub fn run(bytes: &[u8]) -> bool {
    let taken = [
        check::<MatrixHolder>(bytes),
        check::<BasicHolder<i32>>(bytes),
        check::<BasicHolder<f32>>(bytes),
        check::<BasicHolder<bool>>(bytes),
        check::<Int32VectorHolder>(bytes),
        check::<BasicVectorVectorHolder<i32>>(bytes),
        check::<TokenHolder>(bytes),
        check::<TokenVectorHolder>(bytes),
        check::<LatticeHolder>(bytes),
        check::<RawLatticeHolder>(bytes),
        check::<CompactLatticeHolder>(bytes),
        check::<StoredLatticeHolder>(bytes),
        check::<SupervisionHolder>(bytes),
        check::<NnetExampleHolder>(bytes),
        check::<DiscriminativeNnetExampleHolder>(bytes),
    ];
    taken.contains(&true)
}
