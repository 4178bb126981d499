//! Structs shared with the kernels of the chain objective (`kernels/chain.cuh`, `kernels/chain_rows.cu`).

use super::api::DevicePointer;

/// Most threads of a block of the recursion: `KOSHI_CHAIN_THREADS`.
pub(super) const THREADS: u32 = 1024;

/// Threads of a block that handles a row: `KOSHI_CHAIN_ROW_THREADS`.
pub(super) const ROW_THREADS: u32 = 128;

/// An arc of a denominator graph: its probability, and the state or group at its other end.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct ChainArc {
    /// Probability.
    pub prob: f32,
    /// The other end.
    pub at: u32,
}

/// Some arcs that enter one state with one pdf, side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct ChainGroup {
    /// The first of its arcs; they end where those of the next group begin.
    pub begin: u32,
    /// The pdf.
    pub pdf: u32,
    /// The state.
    pub state: u32,
    /// Its place among the groups of its pdf, all pdfs side by side.
    pub place: u32,
}

/// What became of a sequence: `KoshiChainOutcome`.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct ChainOutcome {
    /// Sum over states of alpha times beta at the first frame.
    pub product: f64,
    /// Sum of the occupancies of the first frame.
    pub occupancy: f64,
    /// Sum of the occupancies of all frames.
    pub occupancies: f64,
    /// Sum of the squares of the scores that are finite.
    pub squares: f64,
    /// Sum of the alphas behind the last frame.
    pub prob: f32,
    /// 0.
    pub reserved: u32,
}

/// The parameters of the recursion: `KoshiChain`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct ChainParameters {
    pub initial: DevicePointer,
    pub groups: DevicePointer,
    pub arcs_in: DevicePointer,
    pub entering: DevicePointer,
    pub pdf_places: DevicePointer,
    pub arcs_out: DevicePointer,
    pub pieces: DevicePointer,
    pub leaving: DevicePointer,
    pub output: DevicePointer,
    pub lengths: DevicePointer,
    pub emissions: DevicePointer,
    pub alphas: DevicePointer,
    pub work: DevicePointer,
    pub scales: DevicePointer,
    pub outcomes: DevicePointer,
    pub stride: u64,
    pub seed: u64,
    pub num_states: u32,
    pub num_groups: u32,
    pub num_pieces: u32,
    pub num_pdfs: u32,
    pub num_sequences: u32,
    pub frames: u32,
    pub backward: u32,
    pub leak: f32,
    pub threshold: f32,
    pub reserved: u32,
}

/// The parameters of `koshi_k_chain_gather`: `KoshiChainGather`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct GatherParameters {
    pub output: DevicePointer,
    pub values: DevicePointer,
    pub offsets: DevicePointer,
    pub pdfs: DevicePointer,
    pub stride: u64,
}

/// The parameters of `koshi_k_chain_derivative`: `KoshiChainDerivative`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct DerivativeParameters {
    pub output: DevicePointer,
    pub occupancies: DevicePointer,
    pub row_weights: DevicePointer,
    pub numerator: DevicePointer,
    pub offsets: DevicePointer,
    pub pdfs: DevicePointer,
    pub deriv: DevicePointer,
    pub xent_deriv: DevicePointer,
    pub stride: u64,
    pub deriv_stride: u64,
    pub xent_stride: u64,
    pub num_pdfs: u32,
    pub ok: u32,
    pub weight: f32,
    pub l2: f32,
    pub penalty: f32,
    pub reserved: u32,
}

/// The parameters of `koshi_k_chain_add`: `KoshiChainAdd`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct AddParameters {
    pub occupancies: DevicePointer,
    pub lengths: DevicePointer,
    pub deriv: DevicePointer,
    pub deriv_stride: u64,
    pub num_pdfs: u32,
    pub num_sequences: u32,
    pub weight: f32,
    pub reserved: u32,
}

const _: () = assert!(size_of::<ChainArc>() == 8);
const _: () = assert!(size_of::<ChainGroup>() == 16);
const _: () = assert!(size_of::<ChainOutcome>() == 40);
const _: () = assert!(size_of::<ChainParameters>() == 176);
const _: () = assert!(size_of::<GatherParameters>() == 40);
const _: () = assert!(size_of::<DerivativeParameters>() == 112);
const _: () = assert!(size_of::<AddParameters>() == 48);

/// Deals out a block of device memory: one array behind the other, each at a multiple of 256 bytes.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Bytes so far. More than there can be where a size overflowed.
    pub bytes: u64,
}

impl Places {
    /// Room for as many items of `size` bytes as the product of `counts`; gives the offset.
    pub fn take(&mut self, counts: &[usize], size: usize) -> u64 {
        let bytes = counts.iter().fold(size as u64, |product, &count| product.saturating_mul(count as u64));
        let at = self.bytes;
        self.bytes = at.saturating_add(bytes).saturating_add(255) & !255;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_overlap_and_huge_ones_do_not_wrap_round() {
        let mut places = Places::default();
        assert_eq!((places.take(&[3, 5], 4), places.take(&[1], 1), places.take(&[0], 8)), (0, 256, 512));
        assert_eq!(places.bytes, 512);
        places.take(&[usize::MAX, 2], 4);
        assert!(places.bytes > u64::MAX - 256);
        places.take(&[10], 4);
        assert!(places.bytes > u64::MAX - 256);
    }
}
