//! Numbers that differ from process to process. The standard library draws keys for its hash tables from the system, and has no other
//! source: a hash of nothing under such keys is as good as a number drawn.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A random number.
pub(crate) fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A random number below `n`.
pub(crate) fn below(n: u64) -> u64 {
    number() % n
}

/// A random text of 32 digits.
pub(crate) fn text() -> String {
    format!("{:016x}{:016x}", number(), number())
}

#[cfg(test)]
mod tests {
    #[test]
    fn texts_differ() {
        let texts: std::collections::HashSet<String> = (0..1000).map(|_| super::text()).collect();
        assert!(texts.len() == 1000 && texts.iter().all(|text| text.len() == 32));
    }
}
