//! Transition models.

use super::registry::{Kind, Opaque};
use crate::table::Transitions;

/// A transition model: what the input labels of a graph stand for. Immutable and counted.
pub struct koshi_transitions {
    _opaque: (),
}

impl Opaque for koshi_transitions {
    type Object = Transitions;
    const KIND: Kind = Kind::Transitions;
}
