//! The last steps before a command, the same at every tier: limits, no rights, no new ones, Landlock, seccomp, and then
//! the command in its folder with its environment. Runs in the process that becomes the command.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::process::{Resource, Rlimit};
use rustix::thread::{CapabilitiesSecureBits as Bits, CapabilitySet, CapabilitySets};

use super::seccomp::Filters;
use super::{Fault, escape, landlock, namespaced};
use crate::order::{self, Order, Plan, Report, StageAction};
use crate::{Tier, sys};

/// Waits for an order, locks itself in and becomes the command. Returns only if that failed; `told` closes when the
/// command takes over.
pub(super) fn run(plan: &Plan, filters: &Filters, orders: File, told: File) -> i32 {
    let locked = prepare(plan, filters).and_then(|()| {
        let message = order::receive(&orders).map_err(Fault::at("order"))?;
        drop(orders);
        order::decode(&message).map_err(Fault::at("order"))
    });
    let locked = locked.and_then(|order| lock_in(plan, &order, filters).map(|()| order));
    let order = match locked {
        Ok(order) => order,
        Err(fault) => {
            order::report(&told, &fault.report());
            return 1;
        }
    };
    match &order.action {
        StageAction::Run(argv) => {
            let error = execute(&order, argv);
            order::report(&told, &Report::Unstarted { errno: error.raw_os_error().unwrap_or(0) });
            127
        }
        StageAction::Probe(canary) => {
            drop(told);
            escape::run(&order, canary)
        }
    }
}

/// What can be done before the command is known. In namespaces that is most of it: nothing that is left to do there needs
/// a right or a system call that the command must not have.
fn prepare(plan: &Plan, filters: &Filters) -> Result<(), Fault> {
    sys::reset_signals();
    let _ = rustix::process::setsid();
    rustix::process::umask(Mode::from_raw_mode(0o022));
    if plan.tier == Tier::Namespaces {
        limit(plan).map_err(Fault::at("limits"))?;
        give_up_rights()?;
        landlock::restrict_built(plan).map_err(Fault::at("Landlock"))?;
        refuse_calls(first_of(filters))?;
    }
    Ok(())
}

/// The filters that leave us what `lock_in` still needs.
fn first_of(filters: &Filters) -> &[seccompiler::BpfProgram] {
    filters.split_last().map_or(&[], |(_, first)| first)
}

fn lock_in(plan: &Plan, order: &Order, filters: &Filters) -> Result<(), Fault> {
    if plan.tier != Tier::Namespaces {
        limit(plan).map_err(Fault::at("limits"))?;
    }
    enter_folder(order).map_err(Fault::at("working directory"))?;
    sys::close_from(3, libc::CLOSE_RANGE_CLOEXEC).map_err(Fault::at("descriptors"))?;
    match plan.tier {
        Tier::Landlock => {}
        Tier::Namespaces => return refuse_calls(&filters[first_of(filters).len()..]),
        Tier::None | Tier::Refused => return Ok(()),
    }
    give_up_rights()?;
    if !landlock::restrict_real(plan, order).map_err(Fault::at("Landlock"))? {
        return Err(Fault { step: "Landlock", error: io::Error::from_raw_os_error(libc::ENOSYS) });
    }
    refuse_calls(filters)
}

pub(super) fn give_up_rights() -> Result<(), Fault> {
    bind_rights().and_then(|()| drop_rights()).map_err(Fault::at("rights"))?;
    if namespaced::has_rights().map_err(Fault::at("rights"))? {
        return Err(Fault { step: "rights", error: io::Error::from_raw_os_error(libc::EPERM) });
    }
    rustix::thread::set_no_new_privs(true).map_err(Fault::at("no new rights"))
}

pub(super) fn refuse_calls(filters: &[seccompiler::BpfProgram]) -> Result<(), Fault> {
    for program in filters {
        seccompiler::apply_filter(program)
            .map_err(|error| Fault { step: "seccomp", error: io::Error::other(error) })?;
    }
    Ok(())
}

fn limit(plan: &Plan) -> io::Result<()> {
    let limits = &plan.limits;
    let processes = match plan.tier {
        // Counted for this user namespace alone.
        Tier::Namespaces => limits.processes,
        // Counted for all processes of the user.
        Tier::Landlock | Tier::None | Tier::Refused => limits.processes + processes_of_user(),
    };
    let all = [
        (Resource::Core, Some(0)),
        (Resource::Nproc, Some(processes)),
        (Resource::Nofile, Some(limits.open_files)),
        (Resource::Fsize, Some(limits.file_bytes)),
        (Resource::Data, Some(limits.memory_bytes)),
        (Resource::As, limits.address_space_bytes),
    ];
    for (resource, most) in all {
        let Some(most) = most else { continue };
        let now = rustix::process::getrlimit(resource);
        let most = now.maximum.map_or(most, |maximum| maximum.min(most));
        rustix::process::setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Threads of the own user at the moment, as far as they can be seen.
fn processes_of_user() -> u64 {
    use std::os::unix::fs::MetadataExt;
    let uid = rustix::process::getuid().as_raw();
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let mine = entries.flatten().filter(|entry| {
        entry.file_name().as_bytes().iter().all(u8::is_ascii_digit)
            && entry.metadata().is_ok_and(|meta| meta.uid() == uid)
    });
    mine.map(|entry| std::fs::read_dir(entry.path().join("task")).map_or(1, |tasks| tasks.count() as u64))
        .sum()
}

/// Goes to the working directory without leaving the root on the way.
fn enter_folder(order: &Order) -> io::Result<()> {
    let root = rustix::fs::open(
        Path::new(&order.root),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let below = if order.cwd.is_empty() { OsStr::new(".") } else { order.cwd.as_os_str() };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let folder = rustix::fs::openat2(&root, Path::new(below), flags, Mode::empty(), resolve)?;
    rustix::process::fchdir(&folder)?;
    Ok(())
}

/// Gives up every right that is not in use: those a program could bring, and the ways to get one.
pub(super) fn bind_rights() -> io::Result<()> {
    for number in 0..64 {
        let right = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(right) {
            Ok(()) => {}
            // Behind the last right the kernel knows, or not ours to give up: then there is nothing to inherit either.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::PERM) => break,
            Err(error) => return Err(error.into()),
        }
    }
    let bits = Bits::NO_ROOT | Bits::NO_ROOT_LOCKED | Bits::NO_SETUID_FIXUP | Bits::NO_SETUID_FIXUP_LOCKED;
    let bits = bits | Bits::NO_CAP_AMBIENT_RAISE | Bits::NO_CAP_AMBIENT_RAISE_LOCKED | Bits::KEEP_CAPS_LOCKED;
    match rustix::thread::set_capabilities_secure_bits(bits) {
        // Without rights there is nothing to lock.
        Ok(()) | Err(rustix::io::Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(rustix::thread::clear_ambient_capability_set()?)
}

/// Gives up every right for good: those in use, and those that could be taken up.
pub(super) fn drop_rights() -> io::Result<()> {
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: none, permitted: none, inheritable: none },
    )?;
    Ok(())
}

/// Gives up every right for good but those by which the init keeps covers in place: to mount in its own namespaces, and to look
/// at the processes in them.
pub(super) fn keep_guarding_rights() -> io::Result<()> {
    let kept = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_PTRACE;
    let none = CapabilitySet::empty();
    rustix::thread::set_capabilities(
        None,
        CapabilitySets { effective: kept, permitted: kept, inheritable: none },
    )?;
    Ok(())
}

/// Finds the program in the `PATH` of the command and becomes it. Returns only on error.
fn execute(order: &Order, argv: &[OsString]) -> io::Error {
    let Some(program) = argv.first() else { return io::Error::from_raw_os_error(libc::EINVAL) };
    if program.as_bytes().contains(&b'/') {
        return sys::exec(program, argv, &order.env);
    }
    let mut error = io::Error::from_raw_os_error(libc::ENOENT);
    let path =
        order.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone()).unwrap_or_default();
    for folder in std::env::split_paths(&path).filter(|folder| folder.is_absolute()) {
        let candidate: PathBuf = folder.join(program);
        let tried = sys::exec(candidate.as_os_str(), argv, &order.env);
        if tried.raw_os_error() != Some(libc::ENOENT) {
            error = tried;
        }
    }
    error
}
