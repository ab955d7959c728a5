//! Doors of the kernel, and the machine's own files. Without the sandbox they are as open as the user's rights; inside, none
//! is.

use super::table::{Expect, Try, depends, impossible, inherent};

const KERNEL: &str = "how the kernel was built and configured";

pub(super) const ATTEMPTS: &[Try] = &[
    inherent("unfiltered-calls", "$P kernel unfiltered"),
    inherent("rights-by-program", "$P kernel gain-rights"),
    depends("own-users", KERNEL, "$P kernel unshare-user"),
    depends("own-users-by-clone", KERNEL, "$P kernel clone-user"),
    impossible("own-mounts", "$P kernel unshare-mount").as_root(Expect::Possible),
    impossible("own-network", "$P kernel unshare-network").as_root(Expect::Possible),
    impossible("mount", "$P kernel mount").as_root(Expect::Possible),
    impossible("open-tree", "$P kernel open-tree").as_root(Expect::Possible),
    impossible("file-system-by-handle", "$P kernel fsopen").as_root(Expect::Possible),
    impossible("change-root", "$P kernel chroot").as_root(Expect::Possible),
    impossible("namespace-of-the-first-process", "$P kernel enter-namespace /proc/1/ns/mnt")
        .as_root(Expect::Depends(KERNEL)),
    impossible("file-by-handle", "$P kernel open-by-handle")
        .as_root(Expect::Depends("the file system of the root")),
    impossible("become-another-user", "$P kernel become-user 12345").as_root(Expect::Possible),
    depends("keys", KERNEL, "$P kernel keyring"),
    depends("user-faults", KERNEL, "$P kernel userfaultfd"),
    depends("ring", KERNEL, "$P kernel io-uring"),
    depends("kernel-programs", KERNEL, "$P kernel bpf"),
    depends("terminal-input", KERNEL, "$P kernel terminal-input"),
    impossible("packets", "$P kernel packet-socket").as_root(Expect::Possible),
    impossible("raw-packets", "$P kernel raw-socket").as_root(Expect::Possible),
    impossible("shadow", "$P kernel read /etc/shadow").as_root(Expect::Possible),
    impossible("environment-of-the-first-process", "$P kernel read /proc/1/environ")
        .as_root(Expect::Depends("the first process may have none")),
    impossible("memory-of-the-kernel", "$P kernel read /proc/kcore").as_root(Expect::Depends(KERNEL)),
    impossible("disk", "mknod $PROJECT/disk b 8 0 && echo POSSIBLE; rm -f $PROJECT/disk")
        .as_root(Expect::Possible),
    inherent("write-outside", "touch $MARKS/write-outside"),
    inherent(
        "write-outside-by-link",
        "ln -sfn $MARKS $PROJECT/marks && touch $PROJECT/marks/write-outside-by-link",
    ),
    inherent("write-upwards", "touch $PROJECT/../marks/write-upwards"),
    inherent(
        "write-to-temporary-files",
        "touch $TMP_MARK && touch $MARKS/write-to-temporary-files; rm -f $TMP_MARK",
    ),
    inherent(
        "set-user-bit",
        "cp /bin/sh $PROJECT/shell && chmod 4755 $PROJECT/shell && test -u $PROJECT/shell && echo POSSIBLE; rm -f $PROJECT/shell",
    ),
    inherent(
        "set-group-bit",
        "cp /bin/sh $PROJECT/shell && chmod 2755 $PROJECT/shell && test -g $PROJECT/shell && echo POSSIBLE; rm -f $PROJECT/shell",
    ),
    impossible(
        "write-to-the-system",
        "touch /usr/bin/escape-mark && echo POSSIBLE; rm -f /usr/bin/escape-mark",
    )
    .as_root(Expect::Possible),
    inherent(
        "processes-of-others",
        "test -d /proc/$BYSTANDER && grep -qa bystander /proc/$BYSTANDER/cmdline && echo POSSIBLE",
    ),
];
