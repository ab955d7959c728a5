//! System calls that no command of an agent needs and that lead out of a sandbox, or deep into the kernel. Everything
//! else is allowed: commands are arbitrary programs. Knows only numbers; who is to be locked in is somebody else's work.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

use crate::order::Plan;
use crate::{Network, Tier};

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

/// `kexec_file_load`, which `libc` does not name for musl on this processor.
#[cfg(target_arch = "aarch64")]
const KEXEC_FILE_LOAD: c_long = 294;
#[cfg(not(target_arch = "aarch64"))]
const KEXEC_FILE_LOAD: c_long = libc::SYS_kexec_file_load;

/// Refused whatever the arguments: other processes' memory, the kernel's own doors, mounts, namespaces, keys, clocks.
const REFUSED: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_memfd_secret,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_syslog,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[c_long] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[c_long] = &[];

/// `open_tree_attr`, which the C library does not name yet; the same number on all machines.
const OPEN_TREE_ATTR: c_long = 467;

/// Without namespaces, System V's and POSIX' queues, semaphores and shared memory are the whole machine's.
const REFUSED_WITHOUT_NAMESPACES: &[c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_process_mrelease,
];

/// Calls that change another process of the same user; the argument that names it must be 0, the caller itself.
const OWN_PROCESS_ONLY: &[(c_long, u8)] = &[
    (libc::SYS_prlimit64, 0),
    (libc::SYS_sched_setaffinity, 0),
    (libc::SYS_sched_setscheduler, 0),
    (libc::SYS_sched_setparam, 0),
    (libc::SYS_sched_setattr, 0),
    (libc::SYS_setpriority, 1),
    (libc::SYS_ioprio_set, 1),
];

/// Signals, where Landlock cannot keep them inside: only a process' own group gets them.
const SIGNALS: &[c_long] = &[
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
];

const NAMESPACE_FLAGS: &[u64] = &[
    libc::CLONE_NEWNS as u64,
    libc::CLONE_NEWCGROUP as u64,
    libc::CLONE_NEWUTS as u64,
    libc::CLONE_NEWIPC as u64,
    libc::CLONE_NEWUSER as u64,
    libc::CLONE_NEWPID as u64,
    libc::CLONE_NEWNET as u64,
];

/// Terminal requests that type for the user or load kernel code. Requests have 32 bits, in a type that differs between C
/// libraries.
const TERMINAL_REQUESTS: &[u64] =
    &[libc::TIOCSTI as u32 as u64, libc::TIOCLINUX as u32 as u64, libc::TIOCSETD as u32 as u64];

/// Kinds of sockets beside streams and datagrams.
const RARE_SOCKET_TYPES: &[u64] = &[3, 4, 5, 6, 10];
const SOCKET_TYPE_MASK: u64 = 0xf;

/// Protocols above the classic range (multipath TCP, SMC), which have slipped past filters before.
const RARE_PROTOCOL_MIN: u64 = 256;

/// What a filter depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterContext {
    pub(crate) tier: Tier,
    pub(crate) network: Network,
    pub(crate) landlock_abi: i32,
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn condition(index: u8, len: Len, op: Op, value: u64) -> io::Result<SeccompCondition> {
    SeccompCondition::new(index, len, op, value).map_err(io::Error::other)
}

/// Refuses a call when all conditions hold; words are compared as the 32 bits the kernel looks at.
fn refuse_if(rules: &mut Rules, call: c_long, conditions: &[(u8, Op, u64)]) -> io::Result<()> {
    let conditions: io::Result<Vec<_>> = conditions
        .iter()
        .map(|(index, op, value)| condition(*index, Len::Dword, op.clone(), *value))
        .collect();
    rules.entry(call).or_default().push(SeccompRule::new(conditions?).map_err(io::Error::other)?);
    Ok(())
}

fn refuse(rules: &mut Rules, calls: &[c_long]) {
    for call in calls {
        // No rule means: whatever the arguments.
        rules.insert(*call, Vec::new());
    }
}

fn sockets(rules: &mut Rules, ground: FilterContext) -> io::Result<()> {
    let (inet, inet6, unix) = (libc::AF_INET as u64, libc::AF_INET6 as u64, libc::AF_UNIX as u64);
    match ground.network {
        Network::Loopback if ground.tier == Tier::Namespaces => {
            refuse_if(rules, libc::SYS_socket, &[(0, Op::Ne, inet), (0, Op::Ne, inet6)])?;
            for kind in RARE_SOCKET_TYPES {
                refuse_if(rules, libc::SYS_socket, &[(1, Op::MaskedEq(SOCKET_TYPE_MASK), *kind)])?;
            }
            refuse_if(rules, libc::SYS_socket, &[(2, Op::Ge, RARE_PROTOCOL_MIN)])?;
        }
        Network::Loopback | Network::None => refuse(rules, &[libc::SYS_socket]),
    }
    // A pair of datagram sockets can be connected again, to a socket outside.
    refuse_if(rules, libc::SYS_socketpair, &[(0, Op::Ne, unix)])?;
    for kind in RARE_SOCKET_TYPES.iter().chain(&[2]) {
        refuse_if(rules, libc::SYS_socketpair, &[(1, Op::MaskedEq(SOCKET_TYPE_MASK), *kind)])?;
    }
    Ok(())
}

/// What mounts and process numbers of its own do at the higher tier must be done by numbers here.
fn without_namespaces(rules: &mut Rules, landlock_abi: i32) -> io::Result<()> {
    refuse(rules, REFUSED_WITHOUT_NAMESPACES);
    for (call, index) in OWN_PROCESS_ONLY {
        refuse_if(rules, *call, &[(*index, Op::Ne, 0)])?;
    }
    if landlock_abi < 6 {
        refuse(rules, SIGNALS);
        refuse_if(rules, libc::SYS_kill, &[(0, Op::Ne, 0)])?;
    }
    if landlock_abi < 3 {
        // Landlock does not see files being cut to nothing before its third version.
        refuse(rules, &[libc::SYS_truncate]);
        let (mask, value) = ((libc::O_TRUNC | libc::O_ACCMODE) as u64, libc::O_TRUNC as u64);
        refuse_if(rules, libc::SYS_openat, &[(2, Op::MaskedEq(mask), value)])?;
        #[cfg(target_arch = "x86_64")]
        refuse_if(rules, libc::SYS_open, &[(1, Op::MaskedEq(mask), value)])?;
    }
    Ok(())
}

/// `fchmodat2`, which the C library does not name yet; the same number on all machines.
const FCHMODAT2: c_long = 452;

/// Mode bits by which a file runs as its owner or group whoever starts it. A file with them made inside would be a way
/// to its owner for every user outside.
const SET_ID_BITS: [u64; 2] = [libc::S_ISUID as u64, libc::S_ISGID as u64];

/// Calls that take a mode, and which argument it is.
const MODE_CALLS: &[(c_long, u8)] =
    &[(libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (FCHMODAT2, 2), (libc::SYS_mknodat, 2)];
#[cfg(target_arch = "x86_64")]
const MODE_CALLS_HERE: &[(c_long, u8)] = &[(libc::SYS_chmod, 1), (libc::SYS_creat, 1), (libc::SYS_mknod, 1)];
#[cfg(not(target_arch = "x86_64"))]
const MODE_CALLS_HERE: &[(c_long, u8)] = &[];

/// Calls that take flags and, where these make a file, a mode: the places of both.
#[cfg(target_arch = "x86_64")]
const OPEN_CALLS: &[(c_long, u8, u8)] = &[(libc::SYS_openat, 2, 3), (libc::SYS_open, 1, 2)];
#[cfg(not(target_arch = "x86_64"))]
const OPEN_CALLS: &[(c_long, u8, u8)] = &[(libc::SYS_openat, 2, 3)];

/// Lets nobody make a file that runs as its owner. `openat2` has its mode behind a pointer: see [`after_start`].
fn without_set_id(rules: &mut Rules) -> io::Result<()> {
    for bit in SET_ID_BITS {
        let set = Op::MaskedEq(bit);
        for (call, mode) in MODE_CALLS.iter().chain(MODE_CALLS_HERE) {
            refuse_if(rules, *call, &[(*mode, set.clone(), bit)])?;
        }
        for (call, flags, mode) in OPEN_CALLS {
            // Without one of these the mode is whatever the register held.
            for makes in [libc::O_CREAT as u64, libc::O_TMPFILE as u64] {
                refuse_if(rules, *call, &[(*flags, Op::MaskedEq(makes), makes), (*mode, set.clone(), bit)])?;
            }
        }
    }
    Ok(())
}

/// Programs for the kernel, in the order in which they are to be applied; the last one when nothing of ours is left to
/// be done.
pub(super) type Filters = Arc<[BpfProgram]>;

/// Refuses what the last steps before a command still need: `openat2`, whose mode no filter can see. Programs fall back
/// to `openat`.
fn after_start() -> io::Result<BpfProgram> {
    let mut unknown = Rules::new();
    refuse(&mut unknown, &[libc::SYS_openat2]);
    compile(unknown, libc::ENOSYS)
}

/// The filters made so far: the keeper makes each kind once, and its stages find them in their memory.
#[derive(Default)]
pub(super) struct Made(Vec<((Tier, Network), Filters)>);

impl Made {
    pub(super) fn filters(&mut self, plan: &Plan) -> io::Result<Filters> {
        let key = (plan.tier, plan.network);
        if let Some((_, made)) = self.0.iter().find(|(known, _)| *known == key) {
            return Ok(Arc::clone(made));
        }
        let ground = FilterContext {
            tier: plan.tier,
            network: plan.network,
            landlock_abi: crate::sys::landlock_abi(),
        };
        let made: Filters = filters(ground)?.into();
        self.0.push((key, Arc::clone(&made)));
        Ok(made)
    }
}

/// Kinds of sockets that no agent needs: raw ones and worse.
const RAW_SOCKET_TYPES: &[u64] = &[3, 4, 6, 10];

/// Builds the filters of an agent: as for commands, but with sockets. Which of them lead anywhere is decided by the
/// namespaces; names of interfaces are asked for by netlink.
pub(super) fn of_agent() -> io::Result<Filters> {
    let mut rules = everywhere()?;
    let [inet, inet6, unix, netlink] =
        [libc::AF_INET, libc::AF_INET6, libc::AF_UNIX, libc::AF_NETLINK].map(|family| family as u64);
    let others = [inet, inet6, unix, netlink].map(|family| (0, Op::Ne, family));
    refuse_if(&mut rules, libc::SYS_socket, &others)?;
    for family in [inet, inet6] {
        for kind in RAW_SOCKET_TYPES {
            let conditions = [(0, Op::Eq, family), (1, Op::MaskedEq(SOCKET_TYPE_MASK), *kind)];
            refuse_if(&mut rules, libc::SYS_socket, &conditions)?;
        }
        refuse_if(&mut rules, libc::SYS_socket, &[(0, Op::Eq, family), (2, Op::Ge, RARE_PROTOCOL_MIN)])?;
    }
    refuse_if(
        &mut rules,
        libc::SYS_socket,
        &[(0, Op::Eq, netlink), (2, Op::Ne, libc::NETLINK_ROUTE as u64)],
    )?;
    refuse_if(&mut rules, libc::SYS_socketpair, &[(0, Op::Ne, unix)])?;
    let mut unknown = Rules::new();
    refuse(&mut unknown, &[libc::SYS_clone3, libc::SYS_openat2]);
    Ok([compile(rules, libc::EPERM)?, compile(unknown, libc::ENOSYS)?].into())
}

/// What nobody inside may do, whatever its sockets.
fn everywhere() -> io::Result<Rules> {
    let mut rules = Rules::new();
    refuse(&mut rules, REFUSED);
    refuse(&mut rules, REFUSED_HERE);
    for flag in NAMESPACE_FLAGS {
        refuse_if(&mut rules, libc::SYS_clone, &[(0, Op::MaskedEq(*flag), *flag)])?;
    }
    for request in TERMINAL_REQUESTS {
        refuse_if(&mut rules, libc::SYS_ioctl, &[(1, Op::Eq, *request)])?;
    }
    without_set_id(&mut rules)?;
    refuse_if(&mut rules, libc::SYS_personality, &[(0, Op::Ne, 0), (0, Op::Ne, 0xffff_ffff)])?;
    Ok(rules)
}

/// Builds the filters, in the order in which they are to be applied.
pub(crate) fn filters(ground: FilterContext) -> io::Result<Vec<BpfProgram>> {
    let mut rules = everywhere()?;
    sockets(&mut rules, ground)?;
    let mut unknown = Rules::new();
    // Its flags are behind a pointer, where a filter cannot look; programs fall back to clone.
    refuse(&mut unknown, &[libc::SYS_clone3]);
    if ground.tier != Tier::Namespaces {
        without_namespaces(&mut rules, ground.landlock_abi)?;
    }
    Ok(vec![compile(rules, libc::EPERM)?, compile(unknown, libc::ENOSYS)?, after_start()?])
}

fn compile(rules: Rules, errno: i32) -> io::Result<BpfProgram> {
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32), ARCH);
    let program: BpfProgram = filter.map_err(io::Error::other)?.try_into().map_err(io::Error::other)?;
    Ok(without_x32(program))
}

/// Puts a check in front: x86-64 has a second set of numbers for the same calls (x32), which a list does not know.
fn without_x32(program: BpfProgram) -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32_BIT: u32 = 0x4000_0000;
    if !cfg!(target_arch = "x86_64") {
        return program;
    }
    let mut guarded = vec![
        sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_GREATER_OR_EQUAL, jt: 0, jf: 1, k: X32_BIT },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ERRNO | libc::EPERM as u32 },
    ];
    guarded.extend(program);
    guarded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_of_agents_compile_and_fit() {
        assert!(of_agent().unwrap().iter().all(|program| program.len() < 4096));
    }

    #[test]
    fn every_filter_compiles_and_fits() {
        for tier in [Tier::Namespaces, Tier::Landlock] {
            for network in [Network::None, Network::Loopback] {
                for landlock_abi in 0..=8 {
                    for program in filters(FilterContext { tier, network, landlock_abi }).unwrap() {
                        assert!(program.len() < 4096, "{} instructions", program.len());
                    }
                }
            }
        }
    }
}
