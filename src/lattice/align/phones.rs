//! Where phones end in a string of transition-ids.

use super::Stop;
use crate::table::Transitions;

/// A transition model, and whether self-loops stand behind the transition out of their state.
#[derive(Clone, Copy)]
pub(super) struct Phones<'a> {
    pub transitions: &'a Transitions,
    pub reorder: bool,
}

impl Phones<'_> {
    /// Phone of a transition-id.
    pub fn phone(self, id: i32) -> Result<i32, Stop> {
        self.transitions.phone(id).ok_or_else(|| {
            Stop::Mismatch(format!(
                "transition-id {id} is not in the model, which has 1 to {}",
                self.transitions.num_ids()
            ))
        })
    }

    /// Where the phone ends that begins at `from`; `None` where `ids` do not tell, since nothing follows.
    pub fn end(self, ids: &[i32], from: usize) -> Result<Option<usize>, Stop> {
        let Some(&first) = ids.get(from) else { return Ok(None) };
        let phone = self.phone(first)?;
        let mut at = from;
        let mut last = false;
        while !last {
            let Some(&id) = ids.get(at) else { return Ok(None) };
            self.check_same(phone, id)?;
            last = self.transitions.is_final(id);
            at += 1;
        }
        while self.reorder && ids.get(at).is_some_and(|&id| self.transitions.is_self_loop(id)) {
            self.check_same(phone, ids[at])?;
            at += 1;
        }
        Ok((at < ids.len()).then_some(at))
    }

    fn check_same(self, phone: i32, id: i32) -> Result<(), Stop> {
        let found = self.phone(id)?;
        if found == phone {
            return Ok(());
        }
        let what = format!("phone {found} (transition-id {id}) begins before phone {phone} has ended");
        Err(Stop::Mismatch(format!("{what}: another model, or a wrong reorder option")))
    }

    /// Whether `ids` end where a phone ends.
    pub fn ends_phone(self, ids: &[i32]) -> bool {
        let is_loop = |id: &&i32| self.reorder && self.transitions.is_self_loop(**id);
        ids.iter().rev().find(|id| !is_loop(id)).is_some_and(|&id| self.transitions.is_final(id))
    }

    /// Whether all `ids` are of one phone.
    pub fn is_one_phone(self, ids: &[i32]) -> Result<bool, Stop> {
        let Some(&first) = ids.first() else { return Ok(false) };
        let phone = self.phone(first)?;
        for &id in ids {
            if self.phone(id)? != phone {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
