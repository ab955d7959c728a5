//! The subcommands of git that may be run, and their options. An option is listed if it neither runs a
//! program, nor writes a file it names, nor loses work, nor reaches into another repository.

use super::subcommand::{NONE, Positional, Subcommand};

/// Disable the programs that attributes name for comparing and showing files.
const NO_PROGRAMS: &[&str] = &["--no-ext-diff", "--no-textconv"];
const NO_PROGRAMS_NOR_SUBMODULES: &[&str] = &["--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty"];

const DIFF_FLAGS: &str = "--patch --no-patch --raw --patch-with-raw --patch-with-stat --numstat --shortstat \
    --name-only --name-status --summary --compact-summary --cached --staged --minimal --patience --histogram \
    --check --full-index --binary --no-renames --exit-code --quiet --ignore-all-space --ignore-space-change \
    --ignore-blank-lines --ignore-space-at-eol --ignore-cr-at-eol --text --no-prefix --function-context \
    --pickaxe-regex --pickaxe-all --merge-base --no-color --no-relative --cumulative --no-ext-diff --no-textconv \
    --indent-heuristic --no-indent-heuristic --no-color-moved --cc";
const DIFF_VALUES: &str = "--diff-filter --unified --diff-algorithm --inter-hunk-context --word-diff-regex \
    --ws-error-highlight --src-prefix --dst-prefix --line-prefix --anchored --stat-width --stat-count --stat-name-width \
    --diff-merges";
const DIFF_OPTIONAL: &str = "--stat --color --abbrev --find-renames --find-copies --find-copies-harder --word-diff \
    --color-words --relative --color-moved --dirstat --break-rewrites";
const LOG_FLAGS: &str = "--oneline --graph --all --no-decorate --first-parent --merges --no-merges --reverse --follow \
    --all-match --invert-grep --regexp-ignore-case --extended-regexp --fixed-strings --basic-regexp --topo-order \
    --date-order --author-date-order --abbrev-commit --no-abbrev-commit --left-right --left-only --right-only \
    --cherry-pick --cherry --cherry-mark --boundary --simplify-by-decoration --simplify-merges --full-history --dense \
    --sparse --source --parents --children --mailmap --use-mailmap --no-mailmap --walk-reflogs --reflog --no-notes \
    --full-diff --relative-date --count --objects --not --clear-decorations";
const LOG_VALUES: &str = "--format --since --until --after --before --author --committer --grep --max-count --skip \
    --date --glob --exclude --decorate-refs --decorate-refs-exclude --min-parents --max-parents --since-as-filter";
const LOG_OPTIONAL: &str = "--pretty --decorate --branches --tags --remotes --notes --show-notes --ancestry-path --expand-tabs --no-walk";
const REF_FLAGS: &str = "--ignore-case --no-color --omit-empty --no-column";
/// The filters take the next argument, if there is one.
const REF_VALUES: &str = "--sort --format --points-at --contains --no-contains --merged --no-merged";
const REF_OPTIONAL: &str = "--color --column";
const SEQUENCE_FLAGS: &str =
    "--abort --continue --skip --quit --no-edit --no-commit --no-gpg-sign --ff --signoff";
const FETCH_FLAGS: &str = "--all --prune --tags --no-tags --unshallow --dry-run --quiet --verbose --progress \
    --no-progress --no-recurse-submodules --keep --atomic --ipv4 --ipv6 --no-auto-maintenance --no-auto-gc";
const FETCH_VALUES: &str = "--depth --deepen --shallow-since --jobs";

/// The allowed subcommands.
pub(super) const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand {
        name: "add",
        changes: true,
        flags: &[
            "--all --update --dry-run --verbose --intent-to-add --refresh --ignore-errors --ignore-missing \
                 --no-all --ignore-removal --renormalize --sparse",
        ],
        values: &["--chmod"],
        short: "AunvN",
        ..NONE
    },
    Subcommand {
        name: "blame",
        flags: &["--root --show-stats --incremental --porcelain --line-porcelain --show-name --show-number \
                 --show-email --first-parent --no-textconv --minimal"],
        values: &["--since --date --ignore-rev"],
        optional: &["--abbrev --color-lines --color-by-age"],
        short: "bltfnsewcp",
        short_values: "L",
        short_optional: "MC",
        adds: &["--no-textconv"],
        ..NONE
    },
    Subcommand {
        name: "branch",
        changes: true,
        flags: &[
            REF_FLAGS,
            "--list --all --remotes --verbose --show-current --move --copy --delete --unset-upstream \
                 --no-track --quiet --create-reflog --no-abbrev",
        ],
        values: &[REF_VALUES, "--set-upstream-to"],
        optional: &[REF_OPTIONAL, "--track --abbrev"],
        short: "alrvqdmcti",
        short_values: "u",
        ..NONE
    },
    Subcommand { name: "cat-file", short: "tspe", ..NONE },
    Subcommand { name: "check-attr", flags: &["--all --cached"], short: "az", ..NONE },
    Subcommand {
        name: "check-ignore",
        flags: &["--quiet --verbose --non-matching --no-index"],
        short: "qvnz",
        ..NONE
    },
    Subcommand {
        name: "checkout",
        changes: true,
        flags: &[
            "--quiet --detach --no-track --guess --no-guess --progress --no-progress --no-recurse-submodules",
        ],
        values: &["--orphan"],
        optional: &["--track"],
        short: "qdt",
        short_values: "b",
        positional: Positional::NoPaths,
        ..NONE
    },
    Subcommand {
        name: "cherry-pick",
        changes: true,
        flags: &[SEQUENCE_FLAGS, "--allow-empty --allow-empty-message --keep-redundant-commits"],
        values: &["--mainline --strategy-option"],
        short: "xns",
        short_values: "mX",
        ..NONE
    },
    Subcommand {
        name: "clean",
        flags: &["--dry-run --quiet"],
        values: &["--exclude"],
        short: "ndxXq",
        short_values: "e",
        needs: "-n --dry-run",
        ..NONE
    },
    Subcommand {
        name: "clone",
        changes: true,
        flags: &[
            "--single-branch --no-single-branch --no-checkout --quiet --verbose --progress --no-tags --bare",
        ],
        values: &["--depth --branch --origin --shallow-since --jobs"],
        short: "nqvl",
        short_values: "boj",
        positional: Positional::Clone,
        ..NONE
    },
    Subcommand {
        name: "commit",
        changes: true,
        flags: &[
            "--all --amend --no-edit --allow-empty --allow-empty-message --signoff --no-signoff --quiet \
                 --dry-run --short --branch --porcelain --long --null --reset-author --no-verify --no-gpg-sign --status \
                 --no-status --only --include --no-post-rewrite",
        ],
        values: &["--message --author --date --fixup --squash --cleanup --reuse-message"],
        optional: &["--untracked-files"],
        short: "asqnzoi",
        short_values: "mC",
        short_optional: "u",
        ..NONE
    },
    Subcommand {
        name: "config",
        flags: &["--list --name-only --null --show-origin --show-scope --bool --int --path"],
        values: &["--get --get-all --type --default"],
        short: "lz",
        needs: "--list -l --get --get-all",
        positional: Positional::ConfigKey,
        ..NONE
    },
    Subcommand { name: "count-objects", flags: &["--verbose --human-readable"], short: "vH", ..NONE },
    Subcommand {
        name: "describe",
        flags: &["--all --tags --contains --debug --long --always --exact-match --first-parent"],
        values: &["--candidates --match --exclude"],
        optional: &["--abbrev"],
        ..NONE
    },
    Subcommand {
        name: "diff",
        flags: &[DIFF_FLAGS],
        values: &[DIFF_VALUES],
        optional: &[DIFF_OPTIONAL],
        short: "pusabwRWz0123",
        short_values: "USG",
        short_optional: "MCBD",
        adds: NO_PROGRAMS_NOR_SUBMODULES,
        ..NONE
    },
    Subcommand {
        name: "fetch",
        changes: true,
        flags: &[FETCH_FLAGS, "--multiple --set-upstream"],
        values: &[FETCH_VALUES],
        short: "pqvntk46",
        short_values: "j",
        positional: Positional::Remote,
        ..NONE
    },
    Subcommand {
        name: "for-each-ref",
        flags: &[REF_FLAGS],
        values: &[REF_VALUES, "--count --exclude"],
        optional: &[REF_OPTIONAL],
        ..NONE
    },
    Subcommand {
        name: "grep",
        flags: &[
            "--cached --untracked --no-exclude-standard --exclude-standard --text --ignore-case --word-regexp \
                 --invert-match --extended-regexp --basic-regexp --perl-regexp --fixed-strings --line-number --column \
                 --files-with-matches --name-only --files-without-match --null --only-matching --count --no-color \
                 --break --heading --show-function --function-context --and --or --not --all-match --quiet --full-name \
                 --recursive --no-recursive",
        ],
        values: &["--max-depth --max-count --context --after-context --before-context --threads"],
        optional: &["--color"],
        short: "aiwvhHEGPFnlLzocpWqrI",
        short_values: "emCAB",
        numbers: true,
        adds: &["--no-textconv", "--no-recurse-submodules"],
        ..NONE
    },
    Subcommand {
        name: "init",
        changes: true,
        flags: &["--quiet --bare"],
        values: &["--initial-branch --object-format"],
        short: "q",
        short_values: "b",
        positional: Positional::Folder,
        ..NONE
    },
    Subcommand {
        name: "log",
        flags: &[DIFF_FLAGS, LOG_FLAGS],
        values: &[DIFF_VALUES, LOG_VALUES],
        optional: &[DIFF_OPTIONAL, LOG_OPTIONAL],
        short: "pusabwRWziEFgmct0",
        short_values: "UnSGL",
        short_optional: "MCB",
        numbers: true,
        adds: NO_PROGRAMS,
        ..NONE
    },
    Subcommand {
        name: "ls-files",
        flags: &["--cached --deleted --modified --others --ignored --stage --unmerged --killed --directory \
                 --no-empty-directory --eol --error-unmatch --full-name --exclude-standard --deduplicate"],
        values: &["--exclude --format --with-tree"],
        optional: &["--abbrev"],
        short: "zcdmoistuvk",
        short_values: "x",
        ..NONE
    },
    Subcommand {
        name: "ls-remote",
        flags: &["--heads --branches --tags --refs --quiet --exit-code --get-url --symref"],
        values: &["--sort"],
        short: "tq",
        positional: Positional::Remote,
        ..NONE
    },
    Subcommand {
        name: "ls-tree",
        flags: &["--long --name-only --name-status --object-only --full-name --full-tree"],
        values: &["--format"],
        optional: &["--abbrev"],
        short: "drtlz",
        ..NONE
    },
    Subcommand {
        name: "merge",
        changes: true,
        flags: &[
            "--no-ff --ff --ff-only --squash --no-squash --no-commit --commit --no-edit --quiet --verbose --abort \
                 --continue --quit --stat --no-stat --signoff --no-verify --no-gpg-sign --autostash --no-autostash \
                 --allow-unrelated-histories --progress --no-progress",
        ],
        values: &["--strategy-option --into-name"],
        optional: &["--log"],
        short: "nqv",
        short_values: "mX",
        ..NONE
    },
    Subcommand {
        name: "merge-base",
        flags: &["--all --octopus --independent --is-ancestor --fork-point"],
        short: "a",
        ..NONE
    },
    Subcommand { name: "mv", changes: true, flags: &["--dry-run --verbose"], short: "knv", ..NONE },
    Subcommand {
        name: "name-rev",
        flags: &["--tags --all --name-only --no-undefined --always"],
        values: &["--refs --exclude"],
        ..NONE
    },
    Subcommand {
        name: "pull",
        changes: true,
        flags: &[
            FETCH_FLAGS,
            "--ff --ff-only --no-ff --no-rebase --no-edit --no-commit --commit --stat --no-stat \
                 --autostash --no-autostash --squash --no-verify --no-gpg-sign --set-upstream",
        ],
        values: &[FETCH_VALUES, "--strategy-option"],
        optional: &["--rebase"],
        short: "pqvtkn46",
        short_values: "jX",
        short_optional: "r",
        positional: Positional::Remote,
        ..NONE
    },
    Subcommand {
        name: "push",
        changes: true,
        flags: &[
            "--set-upstream --tags --follow-tags --dry-run --quiet --verbose --porcelain --progress --no-progress \
                 --atomic --no-verify --all --branches --ipv4 --ipv6",
        ],
        short: "unqv46",
        positional: Positional::Remote,
        ..NONE
    },
    Subcommand {
        name: "rebase",
        changes: true,
        flags: &[
            SEQUENCE_FLAGS,
            "--autostash --no-autostash --keep-base --keep-empty --no-keep-empty --quiet --verbose \
                 --stat --no-stat --no-verify --force-rebase --no-ff --fork-point --no-fork-point --update-refs \
                 --no-autosquash --show-current-patch --root",
        ],
        values: &["--onto --strategy-option --empty"],
        optional: &["--rebase-merges"],
        short: "qvn",
        short_values: "X",
        short_optional: "r",
        ..NONE
    },
    Subcommand {
        name: "reflog",
        flags: &[DIFF_FLAGS, LOG_FLAGS],
        values: &[DIFF_VALUES, LOG_VALUES],
        optional: &[DIFF_OPTIONAL, LOG_OPTIONAL],
        short: "pusabwRWziEFgmct0",
        short_values: "UnSG",
        numbers: true,
        verbs: Some("show list exists"),
        adds: NO_PROGRAMS,
        adds_with_verb: Some("show"),
        ..NONE
    },
    Subcommand {
        name: "remote",
        changes: true,
        flags: &["--verbose --all --push"],
        short: "vn",
        verbs: Some("add get-url show"),
        positional: Positional::Remote,
        ..NONE
    },
    Subcommand {
        name: "reset",
        changes: true,
        flags: &["--soft --mixed --keep --quiet --no-quiet --intent-to-add --refresh --no-refresh"],
        short: "qN",
        ..NONE
    },
    Subcommand {
        name: "restore",
        changes: true,
        flags: &["--staged --quiet"],
        values: &["--source"],
        short: "Sq",
        short_values: "s",
        needs: "--staged -S",
        ..NONE
    },
    Subcommand {
        name: "rev-list",
        flags: &[LOG_FLAGS],
        values: &[LOG_VALUES],
        optional: &[LOG_OPTIONAL, "--abbrev"],
        short: "iEFg",
        short_values: "n",
        numbers: true,
        ..NONE
    },
    Subcommand {
        name: "rev-parse",
        flags: &[
            "--verify --quiet --symbolic --symbolic-full-name --all --git-dir --absolute-git-dir --git-common-dir \
                 --is-inside-git-dir --is-inside-work-tree --is-bare-repository --is-shallow-repository --show-cdup \
                 --show-prefix --show-toplevel --show-superproject-working-tree --show-object-format",
        ],
        optional: &["--short --abbrev-ref --branches --tags --remotes --path-format"],
        short: "q",
        ..NONE
    },
    Subcommand {
        name: "revert",
        changes: true,
        flags: &[SEQUENCE_FLAGS],
        values: &["--mainline --strategy-option"],
        short: "ns",
        short_values: "mX",
        ..NONE
    },
    Subcommand {
        name: "rm",
        changes: true,
        flags: &["--cached --dry-run --quiet --ignore-unmatch"],
        short: "rnq",
        ..NONE
    },
    Subcommand {
        name: "shortlog",
        flags: &["--numbered --summary --email --no-merges --merges --all --committer"],
        values: &["--format --group --since --until --author --date"],
        short: "nsec",
        numbers: true,
        ..NONE
    },
    Subcommand {
        name: "show",
        flags: &[DIFF_FLAGS, LOG_FLAGS],
        values: &[DIFF_VALUES, LOG_VALUES],
        optional: &[DIFF_OPTIONAL, LOG_OPTIONAL],
        short: "pusabwRWzmct0",
        short_values: "UnSG",
        short_optional: "MCB",
        numbers: true,
        adds: NO_PROGRAMS,
        ..NONE
    },
    Subcommand {
        name: "show-ref",
        flags: &["--head --heads --branches --tags --verify --quiet --exists --dereference"],
        optional: &["--hash --abbrev"],
        short: "dq",
        short_optional: "s",
        ..NONE
    },
    Subcommand {
        name: "stash",
        changes: true,
        flags: &[
            "--keep-index --no-keep-index --include-untracked --index --only-untracked --staged --quiet \
                 --name-only --name-status --numstat --shortstat",
        ],
        values: &["--message"],
        optional: &["--stat"],
        short: "kuqS",
        short_values: "m",
        verbs: Some("list show push pop apply"),
        adds: NO_PROGRAMS,
        adds_with_verb: Some("show"),
        ..NONE
    },
    Subcommand {
        name: "status",
        flags: &["--short --branch --show-stash --long --no-renames --ahead-behind --no-ahead-behind --null"],
        optional: &["--porcelain --untracked-files --ignored --column --find-renames"],
        short: "sbz",
        short_optional: "u",
        adds: &["--ignore-submodules=dirty"],
        ..NONE
    },
    Subcommand {
        name: "switch",
        changes: true,
        flags: &[
            "--quiet --detach --no-track --guess --no-guess --progress --no-progress --no-recurse-submodules",
        ],
        values: &["--create --orphan"],
        optional: &["--track"],
        short: "qdt",
        short_values: "c",
        ..NONE
    },
    Subcommand {
        name: "tag",
        changes: true,
        flags: &[REF_FLAGS, "--list --annotate --no-sign --create-reflog"],
        values: &[REF_VALUES, "--message --cleanup"],
        optional: &[REF_OPTIONAL],
        short: "ali",
        short_values: "m",
        short_optional: "n",
        ..NONE
    },
    Subcommand { name: "version", flags: &["--build-options"], ..NONE },
    Subcommand {
        name: "worktree",
        flags: &["--porcelain --verbose"],
        short: "vz",
        verbs: Some("list"),
        ..NONE
    },
];
