//! Version 1 of the contract with the host. The picture of the bytes is in the documentation of the host's package sdk/abi.

pub const ROWS: usize = 8;
pub const DESCRIPTORS: usize = 16;
pub const SCORES: usize = 20;
pub const NOW: usize = 24;
pub const SEED: usize = 32;
pub const WANT: usize = 40;
pub const FLAGS: usize = 44;
pub const DESCRIPTOR_SIZE: usize = 16;

pub const FLAG_DRY_RUN: u32 = 1;
pub const FLAG_SHADOW: u32 = 2;
#[cfg(not(target_arch = "wasm32"))]
pub const FLAG_NULLABLE: u32 = 1;
#[cfg(not(target_arch = "wasm32"))]
pub const FLAG_SINGLE: u32 = 2;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub enum Type {
    /// Whole numbers.
    i64 = 1,
    /// Whole numbers that are never negative.
    u32 = 2,
    /// Ids of strings.
    str = 4,
}

/// Whether there is a column of that name and type. The name of a context column begins with "context.".
pub const fn column_is(name: &str, t: Type) -> bool {
    match t {
        Type::i64 => {
            equal(name, "submission_id")
                || equal(name, "priority")
                || equal(name, "age_ms")
                || keyed(name, "meta_i64:")
                || keyed(name, "limit:")
                || keyed(name, "context.")
        }
        Type::u32 => {
            equal(name, "index")
                || equal(name, "attempts")
                || equal(name, "max_attempts")
                || equal(name, "available")
                || equal(name, "total")
                || equal(name, "skipped")
                || equal(name, "inflight_submission")
                || keyed(name, "inflight:")
        }
        Type::str => keyed(name, "meta_str:") || keyed(name, "context."),
    }
}

const fn equal(a: &str, b: &str) -> bool {
    a.len() == b.len() && begins(a.as_bytes(), b.as_bytes())
}

const fn begins(text: &[u8], with: &[u8]) -> bool {
    let mut i = 0;
    while i < with.len() {
        if i == text.len() || text[i] != with[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// Whether name is the prefix and a key: 1 to 64 of a-z A-Z 0-9 _ - and the full stop.
const fn keyed(name: &str, prefix: &str) -> bool {
    let name = name.as_bytes();
    let mut i = prefix.len();
    if !begins(name, prefix.as_bytes()) || name.len() == i || name.len() - i > 64 {
        return false;
    }
    while i < name.len() {
        if !matches!(name[i], b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.') {
            return false;
        }
        i += 1;
    }
    true
}

/// The manifest's text as the bytes of a section: each comma that the macro left before a closing bracket becomes a space.
pub const fn declared<const N: usize>(text: &str) -> [u8; N] {
    let from = text.as_bytes();
    let mut to = [0; N];
    let (mut i, mut quoted) = (0, false);
    while i < N {
        to[i] = from[i];
        if quoted && from[i] == b'\\' && i + 1 < N {
            i += 1;
            to[i] = from[i];
        } else if from[i] == b'"' {
            quoted = !quoted;
        } else if !quoted && from[i] == b',' && i + 1 < N && matches!(from[i + 1], b']' | b'}') {
            to[i] = b' ';
        }
        i += 1;
    }
    to
}
