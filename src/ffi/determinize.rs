//! Determinization and minimization of lattices.

use super::arg;
use super::config::{self, Grows};
use super::error::{koshi_error, koshi_status, ok_or_partial};
use super::guard;
use super::lattice::koshi_lattice;
use super::registry;
use super::transitions::koshi_transitions;
use crate::error::{Error, Result};
use crate::lattice::{DeterminizeConfig, Lattice};

/// The options of koshi_lattice_determinize. Defaults are Kaldi's.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct koshi_determinize_config {
    /// sizeof this struct.
    pub struct_size: u32,
    /// Word sequences whose best path costs at most this more than the best of all are kept. 0 or more,
    /// +inf too. Default 10.
    pub beam: f32,
    /// Scale of acoustic costs wherever costs are compared; the result is without it. Finite. Default 1;
    /// koshi_lattice_info tells that of the search, at which the best path stays the best.
    pub acoustic_scale: f32,
    /// 1: a first pass on words and phones, where transitions are given; 0: not. Default 1.
    pub phone_determinize: u32,
    /// 1: a pass on words; 0: not, and then the result is not deterministic. Default 1.
    pub word_determinize: u32,
    /// 1: the result is minimized as by koshi_lattice_minimize; 0: not. Default 0.
    pub minimize: u32,
    /// Costs within this count as equal where states are merged. 0 or more. Default 1/1024.
    pub delta: f32,
    /// Always 0.
    pub reserved: u32,
    /// Bytes that a pass may hold before it makes do with a smaller beam; 0 for no cap. Default 50000000.
    pub max_mem: u64,
}

// SAFETY: Pod says that there is no padding and that any bytes will do.
unsafe impl Grows for koshi_determinize_config {
    const NAME: &'static str = "koshi_determinize_config";
    const FIRST_SIZE: usize = 40;

    fn defaults() -> koshi_determinize_config {
        let config = DeterminizeConfig::default();
        koshi_determinize_config {
            struct_size: size_of::<koshi_determinize_config>() as u32,
            beam: config.beam,
            acoustic_scale: config.acoustic_scale,
            phone_determinize: u32::from(config.phone_determinize),
            word_determinize: u32::from(config.word_determinize),
            minimize: u32::from(config.minimize),
            delta: config.delta,
            reserved: 0,
            max_mem: config.max_mem,
        }
    }
}

impl koshi_determinize_config {
    /// The options at `config`, none if it is null.
    ///
    /// # Safety
    /// As for [`config::read`].
    pub(super) unsafe fn read(config: *const koshi_determinize_config) -> Result<Option<DeterminizeConfig>> {
        if config.is_null() {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { config::read(config, "config") }?.config().map(Some)
    }

    /// The options as the library takes them; it checks the ranges.
    fn config(&self) -> Result<DeterminizeConfig> {
        config::reserved(self.reserved, "config")?;
        let flag = |name: &str, value: u32| match value {
            0 | 1 => Ok(value == 1),
            _ => Err(Error::Config(format!("{name} is {value}; it must be 0 or 1"))),
        };
        Ok(DeterminizeConfig {
            beam: self.beam,
            acoustic_scale: self.acoustic_scale,
            phone_determinize: flag("phone_determinize", self.phone_determinize)?,
            word_determinize: flag("word_determinize", self.word_determinize)?,
            minimize: flag("minimize", self.minimize)?,
            delta: self.delta,
            max_mem: self.max_mem,
        })
    }
}

/// Fills *config, of `size` bytes, with the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_determinize_config_init(
    config: *mut koshi_determinize_config,
    size: usize,
    err: *mut *mut koshi_error,
) -> koshi_status {
    // SAFETY: the header's promise on structs.
    guard::call(err, || unsafe { config::init(config, size, "config") })
}

/// The compact lattice with one path for each word sequence of `lattice` within the beam, with the costs
/// and transition-ids of its best alignment, in *determinized: deterministic on words, free of epsilons,
/// as Kaldi's DeterminizeLatticePhonePrunedWrapper makes it. A compact lattice goes through its raw form.
/// Without `transitions` (NULL) there is no pass on phones. `config` may be NULL: the defaults, at the
/// acoustic scale of the search that made the lattice (1 for one that was read).
///
/// KOSHI_OK_PARTIAL if the memory did not suffice for the beam: *effective_beam is the one within which the
/// result is whole, and the best path is in it always. Else *effective_beam is the beam. It may be NULL.
/// KOSHI_E_CONFIG; KOSHI_E_ARGUMENT for a transition-id that the model has not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_determinize(
    lattice: *const koshi_lattice,
    transitions: *const koshi_transitions,
    config: *const koshi_determinize_config,
    determinized: *mut *mut koshi_lattice,
    effective_beam: *mut f32,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        let transitions = registry::get_optional(transitions, "transitions")?;
        // SAFETY: the header's promise on structs.
        let given = unsafe { koshi_determinize_config::read(config) }?;
        let acoustic_scale = lattice.acoustic_scale();
        let config = given.unwrap_or(DeterminizeConfig { acoustic_scale, ..DeterminizeConfig::default() });
        // SAFETY: the header's promise on results.
        let (out, beam) =
            unsafe { (arg::out(determinized, "determinized")?, arg::out_optional(effective_beam, "effective_beam")?) };
        let found = lattice.determinize(transitions.as_deref(), &config)?;
        out.set(registry::insert(Lattice::from(found.lattice))?);
        if let Some(beam) = beam {
            beam.set(found.effective_beam);
        }
        Ok(ok_or_partial(found.effective_beam >= config.beam))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let config = koshi_determinize_config::defaults();
        assert_eq!(config.config().unwrap(), DeterminizeConfig::default());
        assert_eq!(size_of::<koshi_determinize_config>(), koshi_determinize_config::FIRST_SIZE);
    }

    #[test]
    fn flags_are_0_or_1_and_reserved_is_0() {
        let defaults = koshi_determinize_config::defaults();
        let config = koshi_determinize_config { minimize: 2, ..defaults };
        assert!(matches!(config.config(), Err(Error::Config(_))));
        let config = koshi_determinize_config { reserved: 1, ..defaults };
        assert!(matches!(config.config(), Err(Error::Unsupported(_))));
    }
}
