//! Makes the test binary able to be a shim, as the `obey` binary is: `<test binary> shim …`.
//! Runs before main, while there is a single thread, as `enter` demands.
#![allow(unsafe_code)]

extern "C" fn enter_if_asked() {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "shim") {
        std::process::exit(crate::enter(words));
    }
}

// SAFETY: the loader calls functions listed in this section once, before main; std's arguments are set by then.
#[used]
#[unsafe(link_section = ".init_array")]
static ENTER_IF_ASKED: extern "C" fn() = enter_if_asked;
