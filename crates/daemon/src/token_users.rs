//! Resolves the users of `access.token_users`. Rejects users that a program of this user can become.

use std::collections::BTreeSet;
use std::fs;

use domain::{Error, ErrorCode};

/// Returns the user ids.
pub(super) fn resolve(users: &[String]) -> Result<BTreeSet<u32>, Error> {
    if users.is_empty() {
        return Ok(BTreeSet::new());
    }
    // A missing file has no entries.
    let (passwd, subuid) = (
        fs::read_to_string("/etc/passwd").unwrap_or_default(),
        fs::read_to_string("/etc/subuid").unwrap_or_default(),
    );
    resolve_in(users, &passwd, &subuid, host::own_uid())
}

/// Resolves users with the given contents of `/etc/passwd` and `/etc/subuid`.
fn resolve_in(users: &[String], passwd: &str, subuid: &str, own: u32) -> Result<BTreeSet<u32>, Error> {
    let own_names: Vec<&str> = entries(passwd).filter(|(_, uid)| *uid == own).map(|(name, _)| name).collect();
    users.iter().map(|user| find(user, passwd)).map(|found| {
        let uid = found?;
        if is_subordinate(uid, subuid, own, &own_names) {
            return Err(invalid(format!(
                "access.token_users: {uid} is a subordinate user of yours (/etc/subuid), which any program you run can \
                 become; name a user of somebody else"
            )));
        }
        Ok(uid)
    }).collect()
}

fn find(user: &str, passwd: &str) -> Result<u32, Error> {
    let named = || entries(passwd).find(|(name, _)| *name == user).map(|(_, uid)| uid);
    user.parse().ok().or_else(named).ok_or_else(|| {
        invalid(format!(
            "access.token_users: there is no user {user:?} in /etc/passwd; write the user's number"
        ))
    })
}

/// The names and ids of `name:password:id:…` lines.
fn entries(passwd: &str) -> impl Iterator<Item = (&str, u32)> {
    passwd.lines().filter_map(|line| {
        let mut columns = line.split(':');
        Some((columns.next()?, columns.nth(1)?.parse().ok()?))
    })
}

/// Whether a user id is in one of our `user:first:count` ranges.
fn is_subordinate(uid: u32, subuid: &str, own: u32, own_names: &[&str]) -> bool {
    let own_number = own.to_string();
    subuid.lines().any(|line| {
        let mut columns = line.split(':');
        let (Some(whose), Some(first), Some(count)) = (columns.next(), columns.next(), columns.next()) else {
            return false;
        };
        let (Ok(first), Ok(count)) = (first.parse::<u64>(), count.trim().parse::<u64>()) else {
            return false;
        };
        (whose == own_number || own_names.contains(&whose))
            && (first..first.saturating_add(count)).contains(&u64::from(uid))
    })
}

fn invalid(message: String) -> Error {
    Error::new(ErrorCode::ConfigInvalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0::/root:/bin/sh\nme:x:1000:1000::/home/me:/bin/sh\nalice:x:1001:1001::/:/bin/sh\n";
    const SUBUID: &str = "me:100000:65536\n1000:300000:10\nalice:200000:65536\n";

    fn resolved(users: &[&str]) -> Result<Vec<u32>, String> {
        let users: Vec<String> = users.iter().map(|user| (*user).to_owned()).collect();
        resolve_in(&users, PASSWD, SUBUID, 1000)
            .map(|found| found.into_iter().collect())
            .map_err(|error| error.message)
    }

    #[test]
    fn users_are_found_by_name_and_number() {
        assert_eq!(resolved(&["alice", "4711"]), Ok(vec![1001, 4711]));
        assert_eq!(resolved(&[]), Ok(vec![]));
        assert!(resolved(&["bob"]).unwrap_err().contains("no user \"bob\""));
    }

    #[test]
    fn a_user_that_a_program_of_ours_can_become_is_refused() {
        for uid in ["100000", "165535", "300009"] {
            assert!(resolved(&[uid]).unwrap_err().contains("subordinate"), "{uid}");
        }
        assert_eq!(resolved(&["200000", "165536"]), Ok(vec![165_536, 200_000]));
    }
}
