//! Lattices in another form with the same paths.

use super::arg;
use super::error::{koshi_error, koshi_status};
use super::guard;
use super::lattice::koshi_lattice;
use super::registry;
use crate::error::{Error, Result};
use crate::lattice::{CompactLattice, Lattice};

/// The lattice in raw form, in *raw: an arc for each transition-id of a compact lattice's strings, the
/// word and the costs on the first one. A copy if it is raw already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_to_raw(
    lattice: *const koshi_lattice,
    raw: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(raw, "raw") }?;
        out.set(registry::insert(Lattice::from(lattice.to_raw()?))?);
        Ok(())
    })
}

/// The lattice in compact form, in *compact: chains of a raw lattice's arcs with at most one word become one
/// arc. Words keep all of their alignments; koshi_lattice_determinize leaves each word sequence its best
/// one. A copy if it is compact already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_to_compact(
    lattice: *const koshi_lattice,
    compact: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(compact, "compact") }?;
        out.set(registry::insert(Lattice::from(lattice.to_compact()?))?);
        Ok(())
    })
}

/// The compact lattice with costs and common beginnings of strings as near to the start as they can
/// stand, in *pushed: the same words, transition-ids and, but for rounding, costs on every path. Costs are
/// pushed by their totals at `acoustic_scale`. KOSHI_E_UNSUPPORTED for a raw lattice.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_push(
    lattice: *const koshi_lattice,
    acoustic_scale: f32,
    pushed: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(pushed, "pushed") }?;
        let mut copy = compact_only(&lattice, "pushed")?;
        copy.push_strings()?;
        copy.push_weights(acoustic_scale)?;
        out.set(registry::insert(Lattice::from(copy))?);
        Ok(())
    })
}

/// The compact lattice with strings and costs pushed towards the start and equal states merged, in
/// *minimized: the same words, costs (but for rounding, and `delta`) and transition-ids with as few states
/// as a deterministic lattice can have. Costs are compared at `acoustic_scale`, within `delta` (Kaldi has
/// 1/1024). KOSHI_E_UNSUPPORTED for a raw lattice, KOSHI_E_CONFIG for a delta that is negative or not finite.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn koshi_lattice_minimize(
    lattice: *const koshi_lattice,
    acoustic_scale: f32,
    delta: f32,
    minimized: *mut *mut koshi_lattice,
    err: *mut *mut koshi_error,
) -> koshi_status {
    guard::call(err, || {
        let lattice = registry::get(lattice, "lattice")?;
        // SAFETY: the header's promise on results.
        let out = unsafe { arg::out(minimized, "minimized") }?;
        let mut copy = compact_only(&lattice, "minimized")?;
        copy.minimize(acoustic_scale, delta)?;
        out.set(registry::insert(Lattice::from(copy))?);
        Ok(())
    })
}

/// A copy of a compact lattice.
fn compact_only(lattice: &Lattice, done: &str) -> Result<CompactLattice> {
    if lattice.is_compact() {
        return lattice.to_compact();
    }
    Err(Error::Unsupported(format!("the lattice is a raw one; only compact lattices can be {done}")))
}
