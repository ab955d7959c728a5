//! The keys of pages among the devices: how long they work, and which make room. Knows nothing of codes and browsers.

use domain::{Error, Timestamp};
use host::clock;

use super::super::{Role, limits};
use super::{DeviceRecord, Devices, KeyPlace, Proof, ProofKind};

impl Devices {
    /// Makes a page known under a free name that begins with `wish`, and returns its key. Pages that have expired go, and
    /// where there are [`limits::PAGES_MAX`], the one that was not seen for longest. Waits for the disk.
    pub fn add_page(&self, wish: &str, role: Role, place: KeyPlace) -> Result<(DeviceRecord, String), Error> {
        self.remove_old_pages()?;
        let life = match place {
            KeyPlace::Elsewhere => limits::PAGE_LIFE,
            KeyPlace::Here | KeyPlace::HereAllowed => limits::PAGE_HERE_UNUSED_LIFE,
        };
        let expires_at = clock::now().after(life);
        for number in 1_u32.. {
            let name = if number == 1 { wish.to_owned() } else { format!("{wish}-{number}") };
            if self.locked().all.iter().any(|one| one.name == name && one.key.is_none()) {
                continue;
            }
            return match self.add_kept(&name, role, Some(expires_at), (ProofKind::Page, place))? {
                (record, Proof::Token(key)) => Ok((record, key)),
                (_, Proof::Certificate(_)) => Err(Error::invalid("name", "is not that of a page")),
            };
        }
        Err(Error::invalid("name", "is taken"))
    }

    /// Keeps a page of this machine as long as one elsewhere, because it gets notices also while it is not open.
    pub fn keep_unused_page(&self, id: &str) {
        let mut records = self.locked();
        let is_meant = |one: &&mut DeviceRecord| one.id == id && one.proof() == ProofKind::Page;
        if let Some(page) = records.all.iter_mut().find(is_meant) {
            page.expires_at = page.expires_at.max(Some(page.added_at.after(limits::PAGE_LIFE)));
            records.unsaved = true;
        }
    }

    /// Forgets pages that have expired and, to make room for one more, those that were not seen for longest.
    fn remove_old_pages(&self) -> Result<(), Error> {
        let now = clock::now();
        let is_page = |one: &&DeviceRecord| one.proof() == ProofKind::Page;
        let mut pages: Vec<DeviceRecord> = self.locked().all.iter().filter(is_page).cloned().collect();
        pages.sort_by_key(|one| (!one.is_expired(now), one.seen_at.unwrap_or(one.added_at)));
        let surplus = (pages.len() + 1).saturating_sub(limits::PAGES_MAX);
        let expired = pages.iter().filter(|one| one.is_expired(now)).count();
        for page in pages.iter().take(surplus.max(expired)) {
            self.revoke(&page.id)?;
        }
        Ok(())
    }
}

impl DeviceRecord {
    /// Puts off the end of a page on this machine that is in use. Its key is kept by one tab and is lost with it, so that one
    /// that is not used soon is never used again; another costs one `obey web`.
    pub(super) fn renew_page(&mut self, now: Timestamp) {
        if self.proof() == ProofKind::Page && self.is_kept_here {
            let unused = now.after(limits::PAGE_HERE_UNUSED_LIFE).min(self.added_at.after(limits::PAGE_LIFE));
            self.expires_at = self.expires_at.max(Some(unused));
        }
    }
}
