//! Lets the test binary act as a shim, as the `obey` binary does: `<test binary> shim …`; and as an attacker:
//! `race …`. Runs before main, while there is a single thread, as `enter` requires.
#![allow(unsafe_code)]

extern "C" fn enter_if_asked() {
    let mut words = std::env::args_os().skip(1);
    match words.next() {
        Some(word) if word == "shim" => std::process::exit(crate::enter(words)),
        Some(word) if word == "race" => {
            let words: Vec<_> = words.collect();
            let tries = words[1].to_str().and_then(|tries| tries.parse().ok()).unwrap();
            std::process::exit(i32::from(super::race::run(words[0].as_ref(), tries).is_err()));
        }
        _ => {}
    }
}

// SAFETY: the loader calls functions listed in this section once, before main; std's arguments are set by then.
#[used]
#[unsafe(link_section = ".init_array")]
static ENTER_IF_ASKED: extern "C" fn() = enter_if_asked;
