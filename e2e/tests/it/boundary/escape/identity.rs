//! Becoming somebody else: processes that hide where they come from, other users, other namespaces, the programs and files
//! that the daemon and its shims trust.

use super::table::{Expect, Try, depends, impossible, inherent, refused};

pub(super) const ATTEMPTS: &[Try] = &[
    // Ancestry.
    refused("orphan", "$P orphan \"$D session log $OTHER\""),
    refused("orphan-with-a-reaper", "$P subreaper \"$D session log $OTHER\""),
    refused("new-session", "setsid -w $D session log $OTHER"),
    refused(
        "background-of-a-dead-shell",
        "(setsid sh -c \"$D session log $OTHER\" >$PROJECT/late 2>&1; echo end >>$PROJECT/late) & wait; cat $PROJECT/late",
    ),
    refused("connection-of-the-dead", "$P passed $UNIX obey.v1.EventService/ReadEvents session_id=$OTHER"),
    refused("tcp-connection-of-the-dead", "$P passed $TCP obey.v1.EventService/ReadEvents session_id=$OTHER"),
    impossible(
        "vanishing-ancestors",
        "$P vanish $UNIX 100 /api/v1/safeexec/read '{\"session_id\":\"'$OTHER'\",\"path\":\"secret.txt\"}'",
    ),
    refused(
        "own-process-namespace",
        "unshare --user --map-root-user --pid --fork --mount-proc $D session log $OTHER 2>&1 || $D session log $OTHER",
    ),
    refused(
        "own-user-namespace",
        "unshare --user --map-root-user $D session log $OTHER 2>&1 || $D session log $OTHER",
    ),
    refused(
        "own-network-namespace",
        "unshare --user --map-root-user --net $D session log $OTHER 2>&1 || $D session log $OTHER",
    ),
    refused("without-marks", "env -i PATH=$PATH $D session log $OTHER"),
    // The daemon's own socket, which is not the one that an agent in the sandbox is given.
    refused("socket-of-the-user", "$OBEY --no-autostart --socket $SOCKET session log $OTHER")
        .in_sandbox(Expect::Impossible),
    refused("as-another-session", "OBEY_SESSION_ID=$OTHER $D session log $OTHER"),
    refused("preloaded-bridge", "LD_PRELOAD=$(ls /lib/*/libm.so.6 | head -n 1) $D session log $OTHER"),
    refused(
        "renamed-program",
        "cp $P $PROJECT/obey-daemon && exec $PROJECT/obey-daemon call $UNIX obey.v1.EventService/ReadEvents session_id=$OTHER",
    ),
    // Other users: root's agent can become anybody, and the token is readable to it.
    depends("another-user-with-the-token", "needs the right to become another user", "cp $TOKEN $TOKEN_COPY && chmod 644 $TOKEN_COPY && setpriv --reuid 12345 --regid 12345 --clear-groups $P call $TCP obey.v1.EventService/ReadEvents session_id=$OTHER token=$TOKEN_COPY")
        .as_root(Expect::Refused),
    // The shims.
    impossible("own-shim", "$P shim $DATA/obey/agents/$OWN.1/sock"),
    impossible("shim-of-another", "$P shim $DATA/obey/agents/$OTHER.1/sock"),
    impossible("shim-of-another-as-orphan", "$P orphan \"$P shim $DATA/obey/agents/$OTHER.1/sock\""),
    // Processes with the same user.
    depends("trace-bystander", "the kernel may forbid tracing", "$P kernel seize $BYSTANDER"),
    depends("trace-agent-of-another", "the kernel may forbid tracing", "$P kernel seize $OTHER_AGENT"),
    depends(
        "read-memory-of-bystander",
        "the kernel may forbid tracing",
        "$P memory-of $BYSTANDER canary-bystander",
    ),
    depends("read-memory-by-call", "the kernel may forbid tracing", "$P kernel read-memory $BYSTANDER"),
    depends("steal-descriptor", "the kernel may forbid tracing", "$P kernel steal-descriptor $BYSTANDER"),
    inherent("signal-daemon", "$P kernel signal $DAEMON"),
    inherent("signal-daemon-by-handle", "$P kernel signal-by-handle $DAEMON"),
    inherent("signal-agent-of-another", "$P kernel signal $OTHER_AGENT"),
    inherent("limit-bystander", "$P kernel limit $BYSTANDER"),
    inherent("list-root-of-bystander", "$P kernel list /proc/$BYSTANDER/root/"),
    inherent("list-descriptors-of-bystander", "$P kernel list /proc/$BYSTANDER/fd/"),
    // Files that are read later by somebody else.
    inherent(
        "hook-of-the-own-project",
        "mkdir -p $PROJECT/.git/hooks && echo true > $PROJECT/.git/hooks/post-checkout && echo POSSIBLE",
    ),
    inherent("git-runs-a-program", "git -C $PROJECT config core.fsmonitor true && echo POSSIBLE"),
    inherent(
        "replace-the-repository",
        "mv $PROJECT/.git $PROJECT/was-git && cp -r $PROJECT/was-git $PROJECT/.git && git -C $PROJECT config alias.x y \
         && echo POSSIBLE; if test -d $PROJECT/was-git; then rm -rf $PROJECT/.git; mv $PROJECT/was-git $PROJECT/.git; fi",
    ),
    inherent(
        "settings-of-an-editor",
        "mkdir -p $PROJECT/.vscode && echo '{}' > $PROJECT/.vscode/tasks.json && echo POSSIBLE",
    ),
    inherent(
        "settings-of-the-user",
        "mkdir -p $CONFIG/obey && cp $CONFIG/obey/config.toml $MARKS/settings-of-the-user",
    ),
    inherent(
        "edit-settings-of-the-user",
        "echo '# from the agent' >> $CONFIG/obey/config.toml && cp $CONFIG/obey/config.toml $MARKS/edit-settings-of-the-user",
    ),
    inherent(
        "claude-settings",
        "mkdir -p $HOME_OF_USER/.claude && touch $HOME_OF_USER/.claude/settings.json && cp $HOME_OF_USER/.claude/settings.json $MARKS/claude-settings",
    ),
    inherent("shell-start-file", "echo true >> $HOME_OF_USER/.profile && touch $MARKS/shell-start-file"),
    inherent(
        "program-on-the-path",
        "mkdir -p $HOME_OF_USER/bin && cp /bin/sh $HOME_OF_USER/bin/obey && touch $MARKS/program-on-the-path",
    ),
    inherent(
        "hook-of-another-project",
        "echo exit >> $OTHER_PROJECT/.git/hooks/pre-commit && touch $MARKS/hook-of-another-project",
    ),
    inherent("write-to-the-run-folder", "touch $RUN/obey/planted && touch $MARKS/write-to-the-run-folder"),
    inherent(
        "write-beside-the-spool-of-another",
        "touch $DATA/obey/agents/$OTHER.1/planted && touch $MARKS/write-beside-the-spool-of-another",
    ),
    inherent(
        "write-beside-the-database",
        "touch $DATA/obey/planted && touch $MARKS/write-beside-the-database",
    ),
    // Links and pipes where the daemon looks: nothing is read through them.
    refused(
        "allow-list-as-link",
        "mkdir -p $PROJECT/.campaign/settings && ln -sfn /dev/zero $PROJECT/.campaign/settings/allowlist.json; $D exec -c demo -- git --version",
    ),
    refused(
        "allow-list-as-pipe",
        "rm -f $PROJECT/.campaign/settings/allowlist.json; mkfifo $PROJECT/.campaign/settings/allowlist.json; $D exec -c demo -- git --version",
    ),
];
