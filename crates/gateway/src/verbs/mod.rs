//! The verbs: they check what was asked, write intent durably, and wake the reconciler.

pub mod check;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod intent;
mod made_up_name;
pub mod wishes;
pub(crate) mod workspace;
