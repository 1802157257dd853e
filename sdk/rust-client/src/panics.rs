//! Panics of handlers: they fail one attempt, and do not end the worker.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// In a handler: where it panicked, once it did.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Runs a handler. The error is the text of a panic and its place.
pub(crate) fn catch<T>(handler: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(install);
    PLACE.with(|place| *place.borrow_mut() = Some(String::new()));
    let result = panic::catch_unwind(AssertUnwindSafe(handler));
    let place = PLACE.with(|place| place.borrow_mut().take()).unwrap_or_default();
    result.map_err(|thrown| {
        let text = thrown.downcast_ref::<&str>().copied().map(String::from).or_else(|| thrown.downcast_ref::<String>().cloned());
        format!("panic: {}\n  at {place}", text.as_deref().unwrap_or("(its value is no text)"))
    })
}

/// Only a hook learns where a panic happened. A handler's panic is noted and not printed, because the worker reports it. All other panics
/// go to the hook that was there before.
fn install() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let ours = PLACE.with(|place| {
            let mut place = place.borrow_mut();
            if let Some(place) = &mut *place {
                *place = info.location().map_or(String::new(), |at| at.to_string());
            }
            place.is_some()
        });
        if !ours {
            before(info);
        }
    }));
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_panic_has_its_text_and_place() {
        let text = super::catch(|| panic!("no {}", 7)).map(|()| "").unwrap_err();
        assert!(text.starts_with("panic: no 7\n  at src/panics.rs:"), "{text}");
        assert_eq!(super::catch(|| 7), Ok(7));
    }
}
