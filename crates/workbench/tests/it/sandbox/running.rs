//! Commands that behave.

use super::{command, run, sandbox};
use workbench::sandbox::Tier;

#[tokio::test]
async fn a_command_runs_and_its_outputs_and_exit_come_back() {
    let dir = tempfile::tempdir().unwrap();
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let sandbox = sandbox(tier).await;
        let outcome = run(
            &sandbox,
            command(dir.path(), "echo out; echo err >&2; pwd; id -u; ls -la / /proc | head -30; exit 3"),
        )
        .await;
        println!("{}\n{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.starts_with("out\n"), "{}", outcome.stdout);
        assert_eq!((outcome.end.exit_code, outcome.end.signal, outcome.end.timed_out), (3, 0, false));
    }
}
