//! What an agent leaves in its project for others to trip over: programs that git would run, and files that the daemon
//! reads. Planting is what an agent may do; the user then works in that project through the daemon, and nothing of it may
//! run or be read. Inside the sandbox some of it cannot even be planted.

use super::table::{Try, depends};

const ALLOWED: &str = "a project belongs to its agent";

/// What is planted. What git would run leaves a mark that is named `planted-…`.
pub(super) const ATTEMPTS: &[Try] = &[
    // The first, while the agent's own git still runs nothing. A repository of its own, which the project's index names: git
    // looks into it with that repository's settings.
    depends(
        "plant-repository",
        ALLOWED,
        "cd $PROJECT && mkdir nested && git init --quiet nested && git -C nested -c user.name=x -c user.email=x commit --quiet --allow-empty -m x          && git -C nested config core.fsmonitor \"touch $MARKS/planted-repository; false\" && git add nested 2>/dev/null; git ls-files --stage nested",
    ),
    depends(
        "plant-hooks",
        ALLOWED,
        "for hook in post-checkout pre-commit post-commit post-index-change reference-transaction; do printf '#!/bin/sh\\ntouch %s/planted-hook\\n' $MARKS > $PROJECT/.git/hooks/$hook && chmod +x $PROJECT/.git/hooks/$hook && echo POSSIBLE; done",
    ),
    depends(
        "plant-monitor",
        ALLOWED,
        "git -C $PROJECT config core.fsmonitor \"touch $MARKS/planted-monitor; false\" && echo POSSIBLE",
    ),
    depends(
        "plant-filter",
        ALLOWED,
        "git -C $PROJECT config filter.x.clean \"touch $MARKS/planted-filter; cat\"; git -C $PROJECT config filter.x.smudge \"touch $MARKS/planted-filter; cat\"; git -C $PROJECT config filter.x.process \"touch $MARKS/planted-filter\"; echo '* filter=x' > $PROJECT/.gitattributes",
    ),
    depends(
        "plant-alias",
        ALLOWED,
        "git -C $PROJECT config alias.st '!'\"touch $MARKS/planted-alias\" && echo POSSIBLE",
    ),
    depends(
        "plant-pager",
        ALLOWED,
        "git -C $PROJECT config core.pager \"touch $MARKS/planted-pager; cat\"; git -C $PROJECT config diff.external \"touch $MARKS/planted-differ\"; git -C $PROJECT config core.sshCommand \"touch $MARKS/planted-ssh\"",
    ),
    depends(
        "plant-include",
        ALLOWED,
        "printf '[core]\\n\\tfsmonitor = \"touch %s/planted-include; false\"\\n' $MARKS > $PROJECT/included; git -C $PROJECT config include.path ../included",
    ),
    depends(
        "plant-policies",
        ALLOWED,
        "mkdir -p $PROJECT/.obey && ln -sfn $OTHER_PROJECT/secret.txt $PROJECT/.obey/policies.toml && echo POSSIBLE",
    ),
    depends(
        "plant-rules",
        ALLOWED,
        "mkdir -p $PROJECT/.obey && printf '[[allow]]\\ntool = \"*\"\\n' > $PROJECT/.obey/rules.toml && echo POSSIBLE",
    ),
    depends("plant-change", ALLOWED, "echo changed >> $PROJECT/README.md; touch $PROJECT/new-file"),
];

/// What the user does there. Each must end, whatever it says.
pub(super) const WORK: &[&[&str]] = &[
    &["exec", "-c", "demo", "--", "git", "status"],
    &["exec", "-c", "demo", "--", "git", "diff"],
    &["exec", "-c", "demo", "--", "git", "log"],
    &["exec", "-c", "demo", "--", "git", "st"],
    &["worktree", "list"],
    &["worktree", "create", "planted"],
    &["worktree", "remove", "planted", "--force"],
    &["session", "info", "hostile"],
    &["policy", "list"],
];
