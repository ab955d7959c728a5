//! Lets the test binary act as a shim, as the `obey` binary does: `<test binary> shim …`; and as a daemon
//! that can be killed: `<test binary> ingest …`. Runs before main, while there is a single thread, as
//! `shim::enter` requires.
#![allow(unsafe_code)]

use std::path::PathBuf;

/// Returns the program to use as the shim in tests.
pub(crate) fn shim_exe() -> PathBuf {
    std::env::current_exe().unwrap()
}

extern "C" fn enter_if_asked() {
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == "shim" => std::process::exit(shim::enter(words)),
        Some(word) if word == "ingest" => {
            let words: Vec<String> = words.map(|word| word.into_string().unwrap()).collect();
            super::crashes::ingest(&words);
            std::process::exit(0);
        }
        _ => {}
    }
}

// SAFETY: the loader calls functions listed in this section once, before main; std's arguments are set by then.
#[used]
#[unsafe(link_section = ".init_array")]
static ENTER_IF_ASKED: extern "C" fn() = enter_if_asked;
