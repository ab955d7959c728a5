//! The next certificate of a paired device, which renews it itself.

use std::sync::PoisonError;

use domain::{Error, ErrorCode, Timestamp};
use host::clock;

use super::{DeviceRecord, Devices, ProofHash, file, hash, limits, token};

impl Devices {
    /// Signs the next certificate of a paired device, which has proved that it has the key of the one with this fingerprint. Waits
    /// for the disk.
    pub fn renew(&self, fingerprint: &str, csr_pem: &str) -> Result<(DeviceRecord, String), Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = self.locked().all.clone();
        let refused = |why: &str| {
            let message =
                format!("{why}; pair it again: obey device add on the machine, obey device join here");
            Error::new(ErrorCode::NotAllowed, message)
        };
        let found = next.iter_mut().find(|one| one.has_certificate(fingerprint));
        let record =
            found.ok_or_else(|| refused("the certificate is not that of a device, or was replaced"))?;
        let now = clock::now();
        let is_late = |end: Timestamp| now > end.after(limits::DEVICE_LATE_RENEWAL_MAX);
        if record.is_expired(now) || record.certificate_ends_at.is_some_and(is_late) {
            return Err(refused("the certificate ended too long ago"));
        }
        let ends_at = now.after(limits::DEVICE_CERTIFICATE_LIFE);
        let signed = self.authority()?.certify_request(&record.name, csr_pem, ends_at)?;
        record.former_certificate = Some(fingerprint.to_owned());
        record.proof = ProofHash::Certificate(hash(&signed.der));
        record.certificate_ends_at = Some(ends_at);
        let renewed = record.clone();
        file::write(&self.path, &next).map_err(|error| self.unwritable(&error))?;
        self.locked().all = next;
        Ok((renewed, signed.pem))
    }
}

impl DeviceRecord {
    /// Whether this is its certificate, or the one before that may still be in use.
    fn has_certificate(&self, fingerprint: &str) -> bool {
        let is = |kept: &String| token::equal(kept.as_bytes(), fingerprint.as_bytes());
        matches!(&self.proof, ProofHash::Certificate(kept) if is(kept))
            || self.former_certificate.as_ref().is_some_and(is)
    }
}
