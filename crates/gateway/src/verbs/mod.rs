//! The verbs: they check what was asked, write intent durably, and wake the reconciler.

pub mod check;
pub mod wishes;
