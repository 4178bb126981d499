//! Callbacks of tests whose panics are heard.

use std::cell::Cell;
use std::io::{Write, stderr};
use std::panic::{set_hook, take_hook};
use std::process::abort;
use std::sync::Once;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// What a callback does on a thread of the library's. Were it to panic there the library would go on, and the test wait
/// for what never comes or miss nothing at all: so the panic ends the program, and says what it was past the test's
/// captured output, which nobody would get to see.
pub fn aloud<T>(callback: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if INSIDE.get() {
                let _ = writeln!(stderr(), "a callback has {panic}");
                abort();
            }
            before(panic);
        }));
    });
    let outside = INSIDE.replace(true);
    let made = callback();
    INSIDE.set(outside);
    made
}
