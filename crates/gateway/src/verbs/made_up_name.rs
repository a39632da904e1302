//! Names for sandboxes that were given none: two words and a number, easy to say and to type.

const QUALITIES: [&str; 32] = [
    "amber", "bold", "brisk", "calm", "clear", "coral", "crisp", "dusty", "early", "even", "fair",
    "fleet", "gentle", "golden", "grand", "hazel", "keen", "level", "light", "lively", "lucid",
    "mellow", "merry", "noble", "plain", "quick", "quiet", "rosy", "sandy", "steady", "sunny",
    "warm",
];

const THINGS: [&str; 32] = [
    "acorn", "anchor", "basin", "beacon", "birch", "bridge", "brook", "canyon", "cedar", "cliff",
    "cove", "delta", "dune", "fern", "field", "harbor", "hill", "island", "lagoon", "lake",
    "maple", "meadow", "mesa", "oasis", "pebble", "pier", "reef", "ridge", "river", "shore",
    "tide", "valley",
];

/// A name from random bytes: about a million different ones.
pub(super) fn made_up(random: [u8; 4]) -> String {
    let quality = QUALITIES[usize::from(random[0]) % QUALITIES.len()];
    let thing = THINGS[usize::from(random[1]) % THINGS.len()];
    let number = u16::from_le_bytes([random[2], random[3]]) % 1000;
    format!("{quality}-{thing}-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_made_up_name_is_a_valid_name() {
        for first in 0..=255 {
            let name = made_up([first, 255 - first, first, 7]);
            assert!(name.parse::<sandkeep_core::Name>().is_ok(), "{name}");
        }
    }
}
