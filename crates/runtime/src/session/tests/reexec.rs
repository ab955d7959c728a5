//! Lets the test binary act as a shim, as the `obey` binary does: `<test binary> shim …`. Runs before main, while there is a
//! single thread, as `shim::enter` requires.
#![allow(unsafe_code)]

use std::path::PathBuf;

/// Returns the program to use as the shim in tests.
pub(crate) fn shim_exe() -> PathBuf {
    std::env::current_exe().unwrap()
}

extern "C" fn enter_if_asked() {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "shim") {
        std::process::exit(shim::enter(words));
    }
}

// SAFETY: the loader calls functions listed in this section once, before main; std's arguments are set by then.
#[used]
#[unsafe(link_section = ".init_array")]
static ENTER_IF_ASKED: extern "C" fn() = enter_if_asked;
