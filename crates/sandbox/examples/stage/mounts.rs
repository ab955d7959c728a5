//! Plays the daemon while something is mounted and unmounted around it, in a copy of the machine's mounts.
#![allow(unsafe_code)]

use std::path::PathBuf;

use sandbox::{Config, Output, Sandbox, Tier};

use crate::suite::{block_on, command};

/// Runs commands while something is mounted and unmounted around them, and prints what they see.
pub(crate) fn run(root: PathBuf) -> i32 {
    if let Err(error) = own_mounts() {
        println!("no mounts of our own: {error}");
        return 3;
    }
    let own = std::env::current_exe().unwrap();
    let mut config = Config::new(vec![own.into(), "sandbox-stage".into()]);
    let (beside, inside) = (root.with_file_name("beside"), root.join("inside"));
    config.read_only = vec![beside.clone()];
    let argv = vec!["cat".into(), beside.join("mark").into(), inside.join("mark").into()];
    block_on(async move {
        let sandbox = Sandbox::probe(config).await;
        if sandbox.tier() != Tier::Namespaces {
            println!("{:?}", sandbox.findings());
            return 3;
        }
        for place in [&beside, &inside].into_iter().cycle().take(8) {
            for is_mounted in [false, true, false] {
                let flags = rustix::mount::MountFlags::empty();
                if is_mounted {
                    rustix::mount::mount("tmpfs", place, "tmpfs", flags, None).unwrap();
                    std::fs::write(place.join("mark"), "mounted\n").unwrap();
                }
                // The second is one that was made after the change, and ahead.
                for _ in 0..2 {
                    let mut running = sandbox.run(command(root.clone(), argv.clone())).await.unwrap();
                    while let Some(output) = running.next().await {
                        if let Output::Stdout(chunk) | Output::Stderr(chunk) = output {
                            print!("{}", String::from_utf8_lossy(&chunk));
                        }
                    }
                }
                if is_mounted {
                    rustix::mount::unmount(place, rustix::mount::UnmountFlags::DETACH).unwrap();
                }
            }
        }
        0
    })
}

/// Leaves the machine's mounts for a copy of them, with the right to change it.
fn own_mounts() -> std::io::Result<()> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    // SAFETY: plain calls without pointers; there is one thread.
    let left = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0 || libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) == 0
    };
    if !left {
        return Err(std::io::Error::last_os_error());
    }
    if rustix::process::getuid().as_raw() != uid {
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    let private = rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", private)?)
}
