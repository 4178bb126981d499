//! The options of the chain objective, as C sets them.

use std::ffi::c_void;
use std::ptr;

use super::arg;
use super::config::{self, Grows};
use super::decoder_config::koshi_backend::*;
use super::error::{koshi_error, koshi_status};
use super::guard;
use crate::chain::{ChainBackend, ChainConfig};
use crate::error::{Error, Result};

/// Where the matrices of a call are: network output and derivatives, all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum koshi_memory {
    /// In the memory of the host.
    KOSHI_MEMORY_HOST = 0,
    /// In memory that the GPU can read and write. Pointers to floats are then addresses of the device,
    /// CUdeviceptr, and are never read by the host.
    KOSHI_MEMORY_DEVICE = 1,
}

use koshi_memory::*;

/// The options of the chain objective. Defaults are Kaldi's.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct koshi_chain_config {
    /// sizeof this struct.
    pub struct_size: u32,
    /// Where to compute: a koshi_backend. Default KOSHI_BACKEND_AUTO: the GPU if one is usable, else the CPU,
    /// which also takes the place of a GPU that fails or lacks the memory. The first call takes the graph to
    /// the GPU.
    pub backend: i32,
    /// Index of the GPU. Default 0.
    pub device: u32,
    /// Threads over which sequences are spread on the CPU: 1 to 1024. Default by the machine. Results are
    /// the same bits with any number. Those of a GPU are the same bits in every run, and the CPU's but for
    /// roundings.
    pub num_threads: u32,
    /// Scale of the l2 penalty on the network output. 0 or more. Default 0.
    pub l2_regularize: f32,
    /// Scale of the penalty on outputs beyond -30 and 30, in the derivative only. 0 or more. Default 0.01.
    pub out_of_range_regularize: f32,
    /// How likely a leap to any state is between frames: 0 or more, below 1. Default 1e-5.
    pub leaky_hmm_coefficient: f32,
    /// Scale of the cross-entropy objective, kept for the caller: nothing here is multiplied by it. Default 0.
    pub xent_regularize: f32,
    /// 1: the out-of-range penalty is drawn as in Kaldi, nothing in half of the calls and twice the scale in
    /// the others; 0: it is applied at its scale in each. Default 0.
    pub randomised_penalty: u32,
    /// Must be 0.
    pub reserved: u32,
    /// What randomised_penalty and randomised_thresholds draw from, the same for the same number: count the
    /// calls here. Default 0.
    pub seed: u64,
    /// Factors of the rows of the derivatives that koshi_chain_objf writes, one a row; NULL for none.
    /// Default NULL.
    pub deriv_weights: *const f32,
    /// Their number. Default 0.
    pub num_deriv_weights: u64,
    /// Where the matrices are: a koshi_memory. KOSHI_MEMORY_DEVICE needs the GPU: KOSHI_E_UNSUPPORTED with
    /// KOSHI_BACKEND_CPU, and KOSHI_BACKEND_AUTO does not go to the CPU instead. deriv_weights and lengths are
    /// always in the host's memory. Default KOSHI_MEMORY_HOST.
    pub memory: i32,
    /// 1: on a GPU, occupancies below 2^-14, of which a pdf's is the sum, become 2^-14 or 0, drawn with the
    /// same mean, as Kaldi's GPU code does; 0: they are added up as they are. The CPU always does that.
    /// Default 0.
    pub randomised_thresholds: u32,
    /// The work that matrices in device memory wait for: what `stream` holds so far, a CUstream of the
    /// device's primary context, NULL for its default stream. All is written when a call returns. Default
    /// NULL.
    pub stream: *mut c_void,
}

const _: () = assert!(size_of::<koshi_chain_config>() == 80);

// SAFETY: numbers and a pointer of 4 and 8 bytes whose sum is the size, so there is no padding.
unsafe impl Grows for koshi_chain_config {
    const NAME: &'static str = "koshi_chain_config";
    const FIRST_SIZE: usize = 64;

    fn defaults() -> koshi_chain_config {
        let config = ChainConfig::default();
        koshi_chain_config {
            struct_size: size_of::<koshi_chain_config>() as u32,
            backend: match config.backend {
                ChainBackend::Auto => KOSHI_BACKEND_AUTO,
                ChainBackend::Cpu => KOSHI_BACKEND_CPU,
                ChainBackend::Cuda => KOSHI_BACKEND_CUDA,
            } as i32,
            device: config.device,
            num_threads: config.num_threads,
            l2_regularize: config.l2_regularize,
            out_of_range_regularize: config.out_of_range_regularize,
            leaky_hmm_coefficient: config.leaky_hmm_coefficient,
            xent_regularize: config.xent_regularize,
            randomised_penalty: u32::from(config.randomised_penalty),
            reserved: 0,
            seed: config.seed,
            deriv_weights: ptr::null(),
            num_deriv_weights: 0,
            memory: KOSHI_MEMORY_HOST as i32,
            randomised_thresholds: u32::from(config.randomised_thresholds),
            stream: ptr::null_mut(),
        }
    }
}

impl koshi_chain_config {
    /// The options as the library takes them; it checks the ranges.
    pub(super) fn chain_config(&self) -> Result<ChainConfig> {
        config::reserved(self.reserved, "config")?;
        let backend = match self.backend {
            value if value == KOSHI_BACKEND_AUTO as i32 => ChainBackend::Auto,
            value if value == KOSHI_BACKEND_CPU as i32 => ChainBackend::Cpu,
            value if value == KOSHI_BACKEND_CUDA as i32 => ChainBackend::Cuda,
            value => return Err(Error::Config(format!("backend is {value}; it must be a koshi_backend"))),
        };
        for (name, value) in
            [("randomised_penalty", self.randomised_penalty), ("randomised_thresholds", self.randomised_thresholds)]
        {
            if value > 1 {
                return Err(Error::Config(format!("{name} is {value}; it must be 0 or 1")));
            }
        }
        let config = ChainConfig {
            backend,
            device: self.device,
            num_threads: self.num_threads,
            l2_regularize: self.l2_regularize,
            out_of_range_regularize: self.out_of_range_regularize,
            leaky_hmm_coefficient: self.leaky_hmm_coefficient,
            xent_regularize: self.xent_regularize,
            randomised_penalty: self.randomised_penalty == 1,
            randomised_thresholds: self.randomised_thresholds == 1,
            seed: self.seed,
        };
        config.check()?;
        Ok(config)
    }

    /// Whether the matrices are in device memory, and the stream that they wait for.
    pub(super) fn device_memory(&self) -> Result<Option<usize>> {
        match self.memory {
            value if value == KOSHI_MEMORY_HOST as i32 => Ok(None),
            value if value == KOSHI_MEMORY_DEVICE as i32 => Ok(Some(self.stream as usize)),
            value => Err(Error::Config(format!("memory is {value}; it must be a koshi_memory"))),
        }
    }

    /// Factors of the rows of derivatives.
    ///
    /// # Safety
    /// The caller's array is what the struct says, for as long as it is used.
    pub(super) unsafe fn deriv_weights<'a>(&self) -> Result<Option<&'a [f32]>> {
        if self.deriv_weights.is_null() && self.num_deriv_weights == 0 {
            return Ok(None);
        }
        let len = usize::try_from(self.num_deriv_weights);
        let len = len.map_err(|_| Error::Argument("num_deriv_weights is more than memory can hold".into()))?;
        // SAFETY: by this function's own promise.
        unsafe { arg::array(self.deriv_weights, len, "deriv_weights") }.map(Some)
    }
}

/// Fills *config, of `size` bytes, with the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_chain_config_init(
    config: *mut koshi_chain_config,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on structs.
    guard::call(err, || unsafe { config::init(config, size, "config") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let config = koshi_chain_config::defaults();
        assert_eq!(config.chain_config().unwrap(), ChainConfig::default());
        // SAFETY: there are none.
        assert!(unsafe { config.deriv_weights() }.unwrap().is_none());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let defaults = koshi_chain_config::defaults();
        for bad in [
            koshi_chain_config { backend: 3, ..defaults },
            koshi_chain_config { randomised_penalty: 2, ..defaults },
            koshi_chain_config { randomised_thresholds: 2, ..defaults },
            koshi_chain_config { leaky_hmm_coefficient: 1.0, ..defaults },
        ] {
            assert!(matches!(bad.chain_config(), Err(Error::Config(_))));
        }
        let bad = koshi_chain_config { reserved: 1, ..defaults };
        assert!(matches!(bad.chain_config(), Err(Error::Unsupported(_))));
        let bad = koshi_chain_config { memory: 2, ..defaults };
        assert!(matches!(bad.device_memory(), Err(Error::Config(_))));
        let on_device = koshi_chain_config { memory: 1, stream: ptr::without_provenance_mut(5), ..defaults };
        assert_eq!((defaults.device_memory().unwrap(), on_device.device_memory().unwrap()), (None, Some(5)));
    }
}
