//! Tells the program when it was built, so that `obey doctor` knows a clock that stands before that; and has it linked at
//! a fixed place where shims profit from that.

use std::time::UNIX_EPOCH;
use std::{env, fs, path::Path};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=Cargo.toml");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    println!("cargo::rustc-env=OBEY_BUILT_AT={}", built_at().unwrap_or(0));
    // A program that can be loaded anywhere has its tables of addresses written anew for every process, and these pages
    // are its own: 0.9 MiB of each shim. docs/decisions/0026.
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

/// Seconds since 1970: what a reproducible build asks for, else the time a file gets that is written now.
fn built_at() -> Option<u64> {
    if let Some(asked) = env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok()) {
        return Some(asked);
    }
    let stamp = Path::new(&env::var_os("OUT_DIR")?).join("stamp");
    fs::write(&stamp, "").ok()?;
    let written = fs::metadata(stamp).ok()?.modified().ok()?;
    Some(written.duration_since(UNIX_EPOCH).ok()?.as_secs())
}
