//! Capabilities: PID 1 keeps what it needs to start processes as other users and to signal them,
//! inside its user namespace; what it starts has none and can gain none.

use std::io;

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// What PID 1 keeps.
const KEPT: CapabilitySet =
    CapabilitySet::KILL.union(CapabilitySet::SETGID).union(CapabilitySet::SETUID);

/// The kernel numbers capabilities from 0 and says `EINVAL` for the first that it does not know.
const MOST_CAPABILITIES: u32 = 64;

/// Empties the bounding and ambient sets, and keeps [`KEPT`] of the rest.
pub fn keep_few() -> io::Result<()> {
    for number in 0..MOST_CAPABILITIES {
        match remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << number)) {
            Ok(()) => {}
            Err(Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    clear_ambient_capability_set()?;
    let kept = capabilities(None)?.permitted & KEPT;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    Ok(set_capabilities(None, sets)?)
}

/// In a child, before it runs its program.
pub fn drop_all() -> io::Result<()> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(set_capabilities(None, sets)?)
}
