//! What may stand in which source file: waiting, starting processes, reading clocks, and
//! marks of unfinished work.

use super::rust::{has_word, lines_with_word};
use super::{Allowed, Breach, File, Tree};

/// Files outside of `agent-process`, the shim and the tests that may start a process.
pub const STARTS_PROCESSES: &[Allowed] = &[
    ("crates/cli/src/commands/conformance/acp.rs", "the checks speak to `obey acp` as an editor does"),
    ("xtask/src/tidy/dependencies.rs", "asks cargo what the program is built from"),
    ("crates/ui/src/run.rs", "starts the person's editor for a message"),
    ("bench/src/daemon.rs", "starts the daemon it measures; never part of the daemon"),
    ("bench/src/rivals.rs", "starts the programs that the daemon is compared with"),
    ("bench/src/sides.rs", "starts the clients of both sides of a comparison"),
    ("bench/src/floor.rs", "the relay the daemon is compared with starts its own agent"),
    ("bench/src/sections/everyday.rs", "git and an agent alone, beside which everyday work is measured"),
    ("bench/src/sections/workbench.rs", "plain commands and bwrap, beside which the sandbox is measured"),
    ("bench/scrub/src/beside.rs", "scanners of others, beside which the scrubber is measured"),
    ("bench/src/machine.rs", "runs itself again in a session of its own"),
    ("crates/client/src/autostart.rs", "a client starts the daemon itself, which nobody supervises"),
    ("crates/terminal/src/editor.rs", "a client opens the user's own editor and waits for it"),
    (
        "crates/daemon/src/notices.rs",
        "tells the desktop and the user's own program; bounded in time, no agent",
    ),
    ("crates/cli/src/commands/web.rs", "a client opens the page in the user's own browser"),
    (
        "crates/cli/src/programs.rs",
        "asks a program for its version and systemctl for a service, in the client",
    ),
    (
        "crates/provider-openclaw/src/gateway.rs",
        "a gateway serves every session and is nobody's agent; it ends with the daemon",
    ),
    (
        "crates/provider-scripted/src/agent.rs",
        "the scripted agent is a program of its own and leaves children behind on purpose",
    ),
    ("crates/sandbox/src/stages.rs", "starts the keeper that makes sandboxes, in a session of its own"),
    ("crates/sandbox/src/stage/escape.rs", "tries to get out of the sandbox it runs in"),
    ("crates/sandbox/examples/stage/ground.rs", "prepares what the escape suite tries to reach"),
    ("crates/sandbox/examples/stage/kernel.rs", "a probe of the escape suite"),
    ("crates/sandbox/examples/stage/processes.rs", "a probe of the escape suite"),
    ("crates/sandbox/src/write_scope.rs", "its test starts a program, which is limited too"),
    ("xtask/src/tidy/imports.rs", "asks cargo for the packages; never part of the daemon"),
    ("xtask/src/web.rs", "runs npm to build the page; never part of the daemon"),
];

/// Rules and translators are pure: nothing in them waits.
pub fn no_async(tree: &Tree) -> Vec<Breach> {
    let pure = |file: &&File| {
        file.path.starts_with("crates/domain/")
            || file.path.split(['/', '.']).any(|part| matches!(part, "from_wire" | "to_wire" | "translate"))
    };
    let mut breaches = Vec::new();
    for file in tree.rust().filter(pure) {
        for (at, line) in file.code().lines().enumerate() {
            if has_word(line, "async") || has_word(line, "await") {
                let remedy = "rules and translators are pure; wait in the caller";
                breaches.push(Breach::new("pure", file.at(at), remedy));
            }
        }
    }
    breaches
}

/// Processes are started in one place, where they get a group and are reaped.
pub fn processes(tree: &Tree, allowed: &[Allowed]) -> Vec<Breach> {
    let home = |path: &str| path.starts_with("crates/agent-process/") || path.starts_with("crates/shim/");
    let starts = |file: &File| {
        file.code().lines().position(|line| line.contains("Command::new(") && !line.contains("clap::"))
    };
    let mut breaches = Vec::new();
    for file in tree.rust().filter(|file| !home(&file.path) && !file.is_test()) {
        if let Some(at) = starts(file)
            && !allowed.iter().any(|(path, _)| *path == file.path)
        {
            let remedy = "processes are started by agent-process; or list the file with a reason";
            breaches.push(Breach::new("processes", file.at(at), remedy));
        }
    }
    for file in allowed.iter().filter_map(|(path, _)| tree.get(path)) {
        if starts(file).is_none() {
            breaches.push(Breach::new(
                "processes",
                &file.path,
                "starts nothing; take it off STARTS_PROCESSES",
            ));
        }
    }
    breaches
}

/// The wall clock is read only in files called `clock.rs`.
pub fn clocks(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in tree.rust().filter(|file| file.name() != "clock.rs" && !file.is_test()) {
        for (at, line) in file.code().lines().enumerate() {
            if line.contains("SystemTime::now") {
                breaches.push(Breach::new("clock", file.at(at), "take the time from a clock.rs"));
            }
        }
    }
    breaches
}

/// Nothing unfinished is merged.
pub fn unfinished(tree: &Tree) -> Vec<Breach> {
    let marks = [concat!("TO", "DO"), concat!("FIX", "ME")];
    let holes = ["todo!", "unimplemented!", "#[ignore"];
    let source = |file: &&File| {
        matches!(
            file.extension(),
            "rs" | "py" | "sh" | "js" | "ts" | "html" | "css" | "sql" | "toml" | "proto"
        ) || file.name() == "Makefile"
    };
    let mut breaches = Vec::new();
    for file in tree.files.iter().filter(source) {
        let remedy = "finish it, or open an issue and leave no mark";
        for mark in marks {
            breaches.extend(
                lines_with_word(&file.text, mark).map(|at| Breach::new("unfinished", file.at(at), remedy)),
            );
        }
        if file.extension() == "rs" {
            for ((at, line), whole) in file.code().lines().enumerate().zip(file.text.lines()) {
                // A test too large for every run names the run it is for; nothing else may be ignored.
                let is_for_later = |hole: &str| hole == "#[ignore" && whole.contains("make test-all");
                if holes.iter().any(|hole| line.contains(hole) && !is_for_later(hole)) {
                    breaches.push(Breach::new("unfinished", file.at(at), remedy));
                }
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(breaches: Vec<Breach>) -> Vec<String> {
        breaches.into_iter().map(|breach| breach.place).collect()
    }

    #[test]
    fn waiting_in_a_rule_or_a_translator_is_found() {
        let tree = Tree::of(&[
            ("crates/domain/src/a.rs", "// async\nasync fn f() {}"),
            ("crates/surface-obey/src/to_wire.rs", "fn f() { x.await }"),
            ("crates/surface-obey/src/service.rs", "async fn f() { x.await }"),
            ("crates/provider-claude/src/translate.rs", "fn f() { \"await\" }"),
        ]);
        assert_eq!(
            places(no_async(&tree)),
            ["crates/domain/src/a.rs:2", "crates/surface-obey/src/to_wire.rs:1"]
        );
    }

    #[test]
    fn a_process_started_elsewhere_is_found() {
        let start = "fn f() { Command::new(\"x\") }";
        let tree = Tree::of(&[
            ("crates/agent-process/src/unix.rs", start),
            ("crates/agent-process/src/lib.rs", start),
            ("crates/shim/src/launch.rs", start),
            ("crates/provider-codex/src/lib.rs", start),
            ("crates/obey/src/client.rs", start),
            ("e2e/src/daemon.rs", start),
        ]);
        assert_eq!(
            places(processes(&tree, &[("crates/obey/src/client.rs", "starts the daemon")])),
            ["crates/provider-codex/src/lib.rs:1"]
        );
        let tree = Tree::of(&[("calm.rs", "fn f() {}")]);
        assert_eq!(places(processes(&tree, &[("calm.rs", "x")])), ["calm.rs"]);
    }

    #[test]
    fn a_clock_read_elsewhere_is_found() {
        let read = "let now = SystemTime::now();";
        let tree = Tree::of(&[("crates/host/src/clock.rs", read), ("crates/storage/src/lib.rs", read)]);
        assert_eq!(places(clocks(&tree)), ["crates/storage/src/lib.rs:1"]);
    }

    #[test]
    fn marks_of_unfinished_work_are_found() {
        let mark = concat!("// TO", "DO: later");
        let tree = Tree::of(&[
            ("a.rs", mark),
            ("b.rs", "fn f() { todo!() }\n#[ignore = \"slow\"]\nfn g() { \"unimplemented!\" }"),
            ("c.py", concat!("# FIX", "ME")),
            ("d.md", mark),
            ("e.rs", "struct Todo; // todos, TODOS"),
            ("f.rs", "#[ignore = \"large: make test-all\"]\nfn f() { todo!() } // make test-all"),
        ]);
        assert_eq!(places(unfinished(&tree)), ["a.rs:1", "b.rs:1", "b.rs:2", "c.py:1", "f.rs:2"]);
    }
}
