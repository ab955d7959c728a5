//! Identifies the folder that was registered as a campaign's root, by device and inode. The name alone is not
//! enough: anyone who may write beside the folder can give its name to another folder or to a link.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The identity of a folder, independent of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RootPin {
    device: u64,
    inode: u64,
    /// Id of the boot at which the device number was read. Device numbers may change when the machine
    /// restarts.
    boot: String,
}

impl RootPin {
    /// Reads the identity of the folder at a path.
    pub(super) fn of(path: &Path) -> std::io::Result<Self> {
        let found = path.symlink_metadata()?;
        let boot = shim::proc_table::boot_id().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { device: found.dev(), inode: found.ino(), boot })
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let device = parts.next()?.parse().ok()?;
        let inode = parts.next()?.parse().ok()?;
        Some(Self { device, inode, boot: parts.next()?.to_owned() })
    }

    pub(super) fn text(&self) -> String {
        format!("{}:{}:{}", self.device, self.inode, self.boot)
    }

    /// Returns whether the folder there now is the one that was pinned.
    pub(super) fn is_same(&self, now: &Self) -> bool {
        self.inode == now.inode && (self.device == now.device || self.boot != now.boot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_knows_its_folder_by_device_and_inode_over_restarts_of_the_machine() {
        let pin = RootPin { device: 1, inode: 2, boot: "a".to_owned() };
        assert_eq!(RootPin::parse(&pin.text()), Some(pin.clone()));
        assert_eq!(RootPin::parse("1:x:a"), None);
        assert_eq!(RootPin::parse(""), None);
        assert!(pin.is_same(&pin));
        assert!(!pin.is_same(&RootPin { inode: 3, ..pin.clone() }));
        assert!(!pin.is_same(&RootPin { device: 3, ..pin.clone() }));
        assert!(pin.is_same(&RootPin { device: 3, boot: "b".to_owned(), ..pin.clone() }));
        assert!(!pin.is_same(&RootPin { inode: 3, boot: "b".to_owned(), ..pin.clone() }));
    }
}
