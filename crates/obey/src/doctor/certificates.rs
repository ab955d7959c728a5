//! The certificate of listeners for other machines: whether it can be read, for how long it is valid, and whether its key
//! is private. Changes nothing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use x509_parser::pem::Pem;

use super::{Finding, clock};
use crate::limits;
use config::file::Config;
use config::file::listen;
use config::paths::Paths;

const CHECK: &str = "certificate";
const REPAIR: &str = "renew it and set tls.cert and tls.key: obey config edit";

/// Looks at the certificate and the key; nothing where neither is configured and no address needs one.
pub(super) fn examine(config: &Config, paths: &Paths) -> Option<Finding> {
    let tls = config.tls.expanded(paths);
    let (Some(cert), Some(key)) = (&tls.cert, &tls.key) else {
        let needs = |text: &String| listen::address(text).is_ok_and(|address| address.tls);
        let address = config.listen.iter().find(|text| needs(text))?;
        let message = format!("{address} needs a certificate, and none is configured");
        return Some(Finding::broken(CHECK, message, "set tls.cert and tls.key: obey config edit"));
    };
    Some(judge_key(key).unwrap_or_else(|| judge(cert, clock::now_seconds())))
}

/// Finds what is wrong with a key's file.
fn judge_key(key: &Path) -> Option<Finding> {
    let shown = key.display();
    match std::fs::metadata(key) {
        Err(error) => Some(Finding::broken(CHECK, format!("the key {shown}: {error}"), REPAIR)),
        Ok(meta) if meta.permissions().mode() & 0o077 != 0 => {
            let message = format!("others can read the key {shown}");
            Some(Finding::broken(CHECK, message, format!("chmod 600 {shown}")))
        }
        Ok(_) => None,
    }
}

/// Looks at the first certificate of a file.
fn judge(cert: &Path, now: i64) -> Finding {
    let shown = cert.display();
    let bytes = match std::fs::read(cert) {
        Ok(bytes) => bytes,
        Err(error) => return Finding::broken(CHECK, format!("{shown}: {error}"), REPAIR),
    };
    let unreadable =
        || Finding::broken(CHECK, format!("{shown} has no certificate that can be read"), REPAIR);
    let Some(Ok(pem)) = Pem::iter_from_buffer(&bytes).next() else { return unreadable() };
    let Ok(found) = pem.parse_x509() else { return unreadable() };
    let valid = found.validity();
    let (from, until) = (valid.not_before.timestamp(), valid.not_after.timestamp());
    if now < from {
        return Finding::broken(CHECK, format!("{shown} is not valid yet; see the clock too"), REPAIR);
    }
    if now >= until {
        return Finding::broken(CHECK, format!("{shown} expired on {}", valid.not_after), REPAIR);
    }
    let days = (until - now) / (24 * 3600);
    if days < limits::CERTIFICATE_DAYS_LOW {
        return Finding::warning(CHECK, format!("{shown} expires in {days} days"), REPAIR);
    }
    Finding::ok(CHECK, format!("{shown}, valid for {days} days"))
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn what_is_no_certificate_and_a_key_that_others_read_are_found() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
        std::fs::write(&cert, "nothing")?;
        std::fs::write(&key, "nothing")?;
        assert_eq!(judge(&cert, 0).state, State::Broken);
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644))?;
        assert!(judge_key(&key).is_some_and(|found| found.repair.contains("chmod 600")));
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600))?;
        assert!(judge_key(&key).is_none());
        assert!(judge_key(&folder.path().join("none")).is_some_and(|found| found.state == State::Broken));
        Ok(())
    }
}
