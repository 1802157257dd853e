//! A bug. What a panic says of its place is the file and the line, so that the file has the name that the suite looks for.

pub fn crash(text: &str) {
    panic!("{text}");
}
