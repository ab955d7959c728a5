//! Secrets: of the daemon, of other sessions and projects, of the user.

use super::table::{Expect, Try, impossible, inherent};

pub(super) const ATTEMPTS: &[Try] = &[
    // What the agent is given must not hold them, sandbox or not.
    impossible("own-environment", "env; cat /proc/self/environ; cat /proc/$PPID/environ"),
    impossible("own-arguments", "cat /proc/$PPID/cmdline"),
    impossible(
        "own-descriptors",
        "for fd in /proc/$PPID/fd/*; do timeout 1 head -c 4096 $fd </dev/null 2>/dev/null | grep -a canary; done",
    ),
    // What a program with the user's rights can read anyway; of the daemon itself only root.
    impossible("environment-of-the-daemon", "tr '\\0' '\\n' < /proc/$DAEMON/environ")
        .as_root(Expect::Possible),
    inherent("environment-of-a-bystander", "tr '\\0' '\\n' < /proc/$BYSTANDER/environ"),
    inherent("home", "cat $HOME_OF_USER/secret.txt"),
    inherent("ssh-key", "cat $HOME_OF_USER/.ssh/id_test"),
    inherent("credentials-of-another-provider", "cat $HOME_OF_USER/.codex/auth.json"),
    inherent("another-project", "cat $OTHER_PROJECT/secret.txt"),
    inherent("another-project-by-link", "ln -sfn $OTHER_PROJECT/secret.txt $PROJECT/link; cat $PROJECT/link"),
    inherent(
        "another-project-by-hard-link",
        "ln -f $OTHER_PROJECT/secret.txt $PROJECT/hard && cat $PROJECT/hard",
    ),
    inherent("token", "cat $TOKEN"),
    inherent(
        "database",
        "grep -aho 'canary-said-[A-Za-z0-9]*' $DATA/obey/daemon.db $DATA/obey/daemon.db-wal",
    ),
    impossible("root-of-the-daemon", "cat /proc/$DAEMON/root$HOME_OF_USER/secret.txt")
        .as_root(Expect::Possible),
    impossible("folder-of-the-daemon", "cat /proc/$DAEMON/cwd/../home/secret.txt").as_root(Expect::Possible),
    inherent("folder-of-another-agent", "cat /proc/$OTHER_AGENT/cwd/secret.txt"),
    inherent("path-upwards", "cat $PROJECT/../home/secret.txt"),
    inherent("search-temporary-files", "cat /tmp/*/hom?/secret.txt 2>/dev/null"),
    // With the network as the user has it, which is what `--network full` says.
    inherent("loopback-server-of-the-user", "$P listen-to tcp:127.0.0.1:$BYSTANDER_PORT")
        .in_sandbox(Expect::Possible),
    inherent("abstract-socket-of-the-user", "$P listen-to abstract:bystander-$BYSTANDER_PORT"),
    inherent("socket-of-the-user", "$P listen-to unix:$RUN/secrets.sock"),
    inherent("run-a-command-by-a-server", "$P ask unix:$RUN/runner.sock 'cat $HOME/secret.txt'"),
];
