//! The walls themselves, tried in the sandbox with each network: calls of the kernel, the machine's devices and knobs, names
//! in the project by which other programs run code, files that would run as their owner.

use super::table::{Try, inside};

pub(super) const ATTEMPTS: &[Try] = &[
    inside("doors-of-the-kernel", "$P doors"),
    inside(
        "knobs-of-the-kernel",
        "$P open-for-writing /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/kernel/hotplug \
         /proc/sys/vm/overcommit_memory /proc/sys/net/ipv4/ip_forward /proc/sys/fs/binfmt_misc/register \
         /proc/sys/user/max_user_namespaces /proc/sysrq-trigger /proc/mtrr /proc/acpi/wakeup",
    ),
    inside(
        "control-groups",
        "$P open-for-writing /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/release_agent /sys/kernel/uevent_helper \
         /sys/power/state /sys/kernel/debug /sys/kernel/security; ls /sys/fs/cgroup 2>/dev/null && echo POSSIBLE",
    ),
    inside(
        "devices",
        "$P open-for-writing /dev/mem /dev/kmem /dev/port /dev/kmsg /dev/sda /dev/vda /dev/nvme0n1 /dev/loop-control \
         /dev/loop0 /dev/fuse /dev/net/tun /dev/kvm /dev/vsock /dev/vhost-vsock /dev/uinput /dev/input/event0 /dev/tty \
         /dev/tty0 /dev/tty1 /dev/console /dev/hpet /dev/snapshot /dev/userfaultfd /dev/mapper/control",
    ),
    inside("character-device", "mknod $PROJECT/memory c 1 1 && echo POSSIBLE; rm -f $PROJECT/memory"),
    // Their numbers can be seen where the daemon is root's; what is behind them cannot.
    inside(
        "first-process-descriptors",
        "for fd in /proc/1/fd/*; do readlink $fd && echo POSSIBLE; true < $fd && echo POSSIBLE; done",
    ),
    inside("first-process-root", "$P kernel list /proc/1/root/"),
    inside("first-process-folder", "$P kernel list /proc/1/cwd/"),
    inside(
        "first-process-mappings",
        "for map in /proc/1/map_files/*; do readlink $map && echo POSSIBLE; done; cat /proc/1/maps && echo POSSIBLE",
    ),
    inside("first-process-memory", "$P open-for-writing /proc/1/mem"),
    inside("first-process-killed", "kill -9 1; kill -STOP 1; test -d /proc/1 || echo POSSIBLE"),
    inside(
        "processes-outside",
        "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -E ' (shim|serve|bystander) ' && echo POSSIBLE; done",
    ),
    inside(
        "mounts-of-the-machine",
        "grep -E ' (/home/|/root|/var/lib|/boot|/sys) ' /proc/self/mountinfo && echo POSSIBLE",
    ),
    inside(
        "sockets-of-the-machine",
        "for s in /run/dbus /run/systemd /run/user /run/docker.sock /var/run/docker.sock /run/containerd /tmp/.X11-unix \
         /tmp/tmux-$(id -u) /run/screen /run/postgresql /var/run/nscd /run/cups /run/snapd.socket /run/udev; do test -e $s && echo POSSIBLE; done",
    ),
    inside(
        "variables-that-lead-out",
        "env | grep -E '^(SSH_AUTH_SOCK|DBUS_SESSION_BUS_ADDRESS|DISPLAY|WAYLAND_DISPLAY|TMUX|XDG_RUNTIME_DIR|DOCKER_HOST|GPG_AGENT_INFO)=' && echo POSSIBLE",
    ),
    inside(
        "temporary-files-of-the-machine",
        // The tested program itself is visible, wherever it was built.
        "ls /tmp | grep -vx -e \"$(basename $WORLD)\" -e \"$(echo $OBEY | sed -n 's|^/tmp/\\([^/]*\\)/.*|\\1|p')\" | grep . && echo POSSIBLE",
    ),
    inside("shared-memory-of-the-machine", "ls -A /dev/shm | grep . && echo POSSIBLE"),
    inside("system-v-shared-memory", "ipcs -m 2>/dev/null | grep -q 0x && echo POSSIBLE"),
    // Names by which other programs run code later: absent ones, and those that are there.
    inside("make-mcp-servers", "echo '{}' > $PROJECT/.mcp.json && echo POSSIBLE"),
    inside("make-mcp-servers-by-link", "ln -s other $PROJECT/.mcp.json && echo POSSIBLE"),
    inside(
        "make-mcp-servers-by-rename",
        "echo '{}' > $PROJECT/x; mv -T $PROJECT/x $PROJECT/.mcp.json && echo POSSIBLE; rm -f $PROJECT/x",
    ),
    inside("make-claude-settings", "echo '{}' > $PROJECT/.claude/settings.json && echo POSSIBLE"),
    inside("replace-claude-settings", "rmdir $PROJECT/.claude && mkdir $PROJECT/.claude && echo POSSIBLE"),
    inside(
        "move-claude-settings",
        "mv $PROJECT/.claude $PROJECT/away && mkdir $PROJECT/.claude && echo POSSIBLE",
    ),
    inside("make-codex-settings", "echo > $PROJECT/.codex/config.toml && echo POSSIBLE"),
    inside("make-cursor-settings", "echo > $PROJECT/.cursor/mcp.json && echo POSSIBLE"),
    inside("make-gemini-settings", "echo > $PROJECT/.gemini/settings.json && echo POSSIBLE"),
    inside("make-rules", "echo > $PROJECT/.obey/rules.toml && echo POSSIBLE"),
    inside("make-environment", "echo > $PROJECT/.envrc && echo POSSIBLE"),
    inside("make-rules-of-the-scrubber", "echo > $PROJECT/.gitleaks.toml && echo POSSIBLE"),
    inside("editor-task", "echo '{}' > $PROJECT/.vscode/tasks.json && echo POSSIBLE"),
    inside("placeholder-made-writable", "chmod 777 $PROJECT/.claude $PROJECT/.obey && echo POSSIBLE"),
    inside(
        "git-settings-by-rename",
        "cp $PROJECT/.git/config $PROJECT/.git/new && mv -f $PROJECT/.git/new $PROJECT/.git/config && echo POSSIBLE; rm -f $PROJECT/.git/new",
    ),
    inside(
        "git-settings-by-hard-link",
        "ln $PROJECT/.git/config $PROJECT/linked && echo >> $PROJECT/linked && echo POSSIBLE; rm -f $PROJECT/linked",
    ),
    inside("git-settings-of-the-tree", "echo > $PROJECT/.git/config.worktree && echo POSSIBLE"),
    inside(
        "git-hooks-moved",
        "mv -T $PROJECT/.git/hooks $PROJECT/.git/was && mkdir $PROJECT/.git/hooks && echo POSSIBLE",
    ),
    inside("project-moved", "mv $PROJECT $PROJECT-was && echo POSSIBLE"),
    // What would run as its owner, for whoever starts it.
    inside("runs-as-owner", "$P set-user-bit $PROJECT"),
    inside(
        "runs-as-owner-installed",
        "install -m 4755 /bin/true $PROJECT/s; test -u $PROJECT/s && echo POSSIBLE; rm -f $PROJECT/s",
    ),
    inside(
        "runs-as-owner-copied",
        "cp -p $(command -v su) $PROJECT/s; test -u $PROJECT/s && echo POSSIBLE; rm -f $PROJECT/s",
    ),
    inside(
        "runs-as-owner-unpacked",
        "cd $PROJECT && python3 -c 'import tarfile,io; t=tarfile.open(\"s.tar\",\"w\"); i=tarfile.TarInfo(\"s\"); i.mode=0o4755; t.addfile(i, io.BytesIO()); t.close()'; \
         tar -xpf s.tar; test -u s && echo POSSIBLE; rm -f s s.tar",
    ),
    inside(
        "group-of-a-folder",
        "mkdir -m 2755 $PROJECT/g; chmod g+s $PROJECT/g; test -g $PROJECT/g && echo POSSIBLE; rmdir $PROJECT/g",
    ),
    inside("file-with-rights", "cp /bin/true $PROJECT/c; $P capability $PROJECT/c; rm -f $PROJECT/c"),
    inside(
        "file-nobody-can-remove",
        "touch $PROJECT/i; chattr +i $PROJECT/i && echo POSSIBLE; rm -f $PROJECT/i",
    ),
    inside("hard-link-of-the-system", "ln $(command -v env) $PROJECT/e && echo POSSIBLE; rm -f $PROJECT/e"),
    inside("own-interface", "ip link add escape type dummy 2>/dev/null && echo POSSIBLE"),
];
