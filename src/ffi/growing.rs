//! Compact lattices of channels, determinized while the utterance grows.

use super::arg;
use super::channel::{koshi_channel, object};
use super::determinize::koshi_determinize_config;
use super::error::{koshi_error, koshi_status, ok_or_partial};
use super::guard;
use super::lattice::koshi_lattice;
use super::registry;
use super::transitions::koshi_transitions;
use crate::lattice::{DeterminizeConfig, Lattice};

/// Lets the lattice of `channel` be determinized while the utterance grows, this one and those that
/// follow: koshi_channel_settle and koshi_channel_compact_lattice then work. `transitions` may be NULL, and
/// options are those of koshi_lattice_determinize. `config` may be NULL: the defaults, at the decoder's
/// acoustic_scale and with its lattice_beam as beam. Any state; what was settled before is done anew.
/// KOSHI_E_CONFIG where word_determinize is 0 or acoustic_scale is not the decoder's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_set_determinize(
    channel: *mut koshi_channel,
    transitions: *const koshi_transitions,
    config: *const koshi_determinize_config,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = object(channel)?;
        let transitions = registry::get_optional(transitions, "transitions")?;
        // SAFETY: the header's promise on structs.
        let given = unsafe { koshi_determinize_config::read(config) }?;
        let mut channel = object.channel.write()?;
        let search = channel.decoder().config().search;
        let (beam, acoustic_scale) = (search.lattice_beam, search.acoustic_scale);
        let config = given.unwrap_or(DeterminizeConfig { beam, acoustic_scale, ..DeterminizeConfig::default() });
        channel.set_determinize(transitions, &config)
    })
}

/// Determinizes what has become certain of the lattice since the last call, so that little is left for
/// koshi_channel_compact_lattice. To be called from time to time while rows are pushed: each second of speech,
/// say; where they are queued (koshi_channel_submit) the decoder's threads do it as they search. Results do
/// not depend on it but for paths outside the beam. KOSHI_E_STATE if the channel has not begun, or without
/// koshi_channel_set_determinize.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_settle(channel: *mut koshi_channel, err: *mut *mut koshi_error) -> koshi_status {
    guard::call(err, || object(channel)?.channel.write()?.settle())
}

/// The compact lattice now, in *lattice: one path for each word sequence of what koshi_channel_lattice gives
/// that lies within the beam, with the costs and transition-ids of its best alignment. Where rows were queued,
/// or koshi_channel_settle has been called on the way, the time does not grow with the utterance, but for
/// copying the result. Before finish too. *effective_beam, which may be NULL, and KOSHI_OK_PARTIAL are as for
/// koshi_lattice_determinize. Errors are as for koshi_channel_settle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_channel_compact_lattice(
    channel: *mut koshi_channel,
    use_final: i32,
    lattice: *mut *mut koshi_lattice,
    effective_beam: *mut f32,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let object = object(channel)?;
        // SAFETY: the header's promise on results.
        let (out, beam) =
            unsafe { (arg::out(lattice, "lattice")?, arg::out_optional(effective_beam, "effective_beam")?) };
        let mut channel = object.channel.write()?;
        let found = channel.compact_lattice(use_final != 0)?;
        let whole = channel.determinize_config().is_none_or(|config| found.effective_beam >= config.beam);
        out.set(registry::insert(Lattice::from(found.lattice))?);
        if let Some(beam) = beam {
            beam.set(found.effective_beam);
        }
        Ok(ok_or_partial(whole))
    })
}
