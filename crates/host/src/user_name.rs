//! The name of the user this daemon runs as, for people who read what was done. Decides nothing: rights follow the uid.

use std::ffi::CStr;
use std::sync::OnceLock;

/// Bytes for an entry of the user database: names and folders are short, and one that does not fit is shown by its number.
const ENTRY_BYTES: usize = 16 * 1024;

/// Returns the name of the user this daemon runs as; `uid N` where the system knows none. Asked once: a directory service may
/// be slow.
pub fn own_user_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| name_of(crate::own_uid()).unwrap_or_else(|| format!("uid {}", crate::own_uid())))
}

#[allow(unsafe_code)]
fn name_of(uid: u32) -> Option<String> {
    let mut buffer = vec![0_u8; ENTRY_BYTES];
    let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: the pointers are to live memory of the lengths given, and `found` is null or points to `entry` afterwards.
    let failed = unsafe {
        libc::getpwuid_r(uid, entry.as_mut_ptr(), buffer.as_mut_ptr().cast(), buffer.len(), &raw mut found)
    };
    if failed != 0 || found.is_null() {
        return None;
    }
    // SAFETY: the call succeeded, so the entry is filled and its name ends with a null byte inside the buffer.
    let name = unsafe { CStr::from_ptr((*found).pw_name) };
    Some(name.to_string_lossy().into_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_and_one_without_a_name_is_not() {
        assert_eq!(name_of(0).as_deref(), Some("root"));
        assert_eq!(name_of(4_000_000_123), None);
        assert!(!own_user_name().is_empty());
    }
}
