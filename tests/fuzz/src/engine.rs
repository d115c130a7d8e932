//! The engine over one target.

#![no_main]

use std::sync::Once;

use scry_fuzz::Target;

const TARGET: Target = scry_fuzz::named(env!("SCRY_FUZZ_TARGET"));

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // The engine's hook ends the process at every panic. Some are caught where they happen and answered for; one that
    // comes out of the target ends the process without a hook too.
    static HOOK: Once = Once::new();
    HOOK.call_once(|| drop(std::panic::take_hook()));
    (TARGET.run)(input);
});
