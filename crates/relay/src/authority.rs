//! The relay's certificate authority: signs the certificates of machines, and its own for the listener. It can be exchanged for
//! another one, and both count for a while: docs/decisions/0081.

mod file;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use rcgen::string::Ia5String;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use time::OffsetDateTime;

use crate::limits;
pub(crate) use file::write_private;
use file::{AuthorityFile, FormerAuthority};

const CERTIFICATE_FILE: &str = "ca.pem";

/// The name of a relay's first authority. Later ones add the beginning of their fingerprint: OpenSSL finds an issuer by its name.
const NAME: &str = "obey relay";

/// Another name than the authority's: OpenSSL takes a certificate whose issuer has its own name for one that signed itself.
const LISTENER_NAME: &str = "obey relay listener";

/// The authority of one relay.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Signs the listener's certificate while the authorities are exchanged.
    former: Option<Issuer<'static, KeyPair>>,
    state: AuthorityFile,
    path: PathBuf,
}

/// A certificate that was signed for a machine.
pub(crate) struct MachineCertificate {
    pub(crate) pem: String,
    /// SHA-256 of it, in hexadecimal.
    pub(crate) fingerprint: String,
    pub(crate) not_after: Timestamp,
}

impl Authority {
    /// Makes the authority of a new relay.
    pub(crate) fn create(folder: &Path) -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params(NAME)?.self_signed(&key).map_err(failed)?;
        let state = AuthorityFile {
            name: NAME.to_owned(),
            key_pem: key.serialize_pem(),
            certificate_pem: certificate.pem(),
            former: None,
        };
        Self::keep(folder, state)
    }

    /// Takes over the authority of another relay, as that one exported it.
    pub(crate) fn import(folder: &Path, state: &[u8]) -> Result<Self, Error> {
        Self::keep(folder, AuthorityFile::parse(state)?)
    }

    /// Takes over what another relay of the same cluster has exchanged its authority for. One that does not follow from the
    /// authority of this relay is refused.
    pub(crate) fn follow(&self, state: &[u8]) -> Result<Self, Error> {
        let next = AuthorityFile::parse(state)?;
        let own = self.pin();
        let follows = pin_of(&next.certificate_pem).is_some_and(|pin| pin == own)
            || next.former.as_ref().and_then(|former| pin_of(&former.certificate_pem)) == Some(own);
        if !follows {
            let message = "code: the other relay's authority does not follow from this one; they are of two clusters, or \
                           this relay has missed an exchange: make it anew with obey relay join";
            return Err(Error::new(ErrorCode::RelayRefused, message));
        }
        Self::keep(self.folder(), next)
    }

    /// Returns all of it, for another relay of the same cluster.
    pub(crate) fn export(&self) -> Result<Vec<u8>, Error> {
        self.state.to_bytes()
    }

    /// Returns the folder of its relay.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    pub(crate) fn load(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(CERTIFICATE_FILE);
        Self::of(AuthorityFile::read(folder, &path)?, path)
    }

    fn of(state: AuthorityFile, path: PathBuf) -> Result<Self, Error> {
        let issuer = issuer(&state.name, &state.key_pem)?;
        let former = match &state.former {
            Some(FormerAuthority { name, key_pem: Some(key_pem), .. }) => Some(self::issuer(name, key_pem)?),
            _ => None,
        };
        Ok(Self { issuer, former, state, path })
    }

    /// Writes it, and then the certificates that clients trust.
    fn keep(folder: &Path, state: AuthorityFile) -> Result<Self, Error> {
        state.write(folder)?;
        let path = folder.join(CERTIFICATE_FILE);
        let mut trusted = state.certificate_pem.clone();
        if let Some(FormerAuthority { certificate_pem, key_pem: Some(_), .. }) = &state.former {
            trusted.push_str(certificate_pem);
        }
        fs::write(&path, trusted).map_err(|error| file::unwritable(&path, &error))?;
        Self::of(state, path)
    }

    /// Begins to exchange the authority for a new one. From now on machines get certificates of the new one, and both count.
    pub(crate) fn exchange(&self) -> Result<Self, Error> {
        if self.former.is_some() {
            let message =
                "the authority is being exchanged already; complete that first: obey relay rotate --finish";
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let key = KeyPair::generate().map_err(failed)?;
        let pin = tunnel::keys::key_pin(&key);
        let name = format!("{NAME} {}", pin.get(..8).unwrap_or_default());
        let next = Issuer::new(params(&name)?, key);
        let own = params(&name)?.self_signed(next.key()).map_err(failed)?;
        let successor = params(&name)?.signed_by(next.key(), &self.issuer).map_err(failed)?;
        let predecessor = params(&self.state.name)?.signed_by(self.issuer.key(), &next).map_err(failed)?;
        let announcement = announcement_params(&pin)?.signed_by(next.key(), &self.issuer).map_err(failed)?;
        let former = FormerAuthority {
            name: self.state.name.clone(),
            key_pem: Some(self.state.key_pem.clone()),
            certificate_pem: self.state.certificate_pem.clone(),
            successor_pem: successor.pem(),
            predecessor_pem: predecessor.pem(),
            announcement_pem: announcement.pem(),
            since: clock::now(),
        };
        let state = AuthorityFile {
            name,
            key_pem: next.key().serialize_pem(),
            certificate_pem: own.pem(),
            former: Some(former),
        };
        Self::keep(self.folder(), state)
    }

    /// Completes an exchange: the former authority's key is destroyed, and certificates that it signed are worth nothing. Those
    /// who know only its fingerprint are still led to the new one.
    pub(crate) fn complete(&self) -> Result<Self, Error> {
        if self.former.is_none() {
            let message = "the authority is not being exchanged; begin: obey relay rotate";
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let former = self.state.former.clone().map(|former| FormerAuthority { key_pem: None, ..former });
        Self::keep(self.folder(), AuthorityFile { former, ..self.state.clone() })
    }

    /// Returns when the former authority is given up; nothing where none counts.
    pub(crate) fn former_until(&self) -> Option<Timestamp> {
        let former = self.state.former.as_ref().filter(|_| self.former.is_some())?;
        Some(former.since.after(limits::EXCHANGE_LIFE))
    }

    /// Returns where its certificate is, which clients trust.
    pub(crate) fn certificate_file(&self) -> &Path {
        &self.path
    }

    /// Returns the fingerprint of its key, by which machines and devices recognize this relay.
    pub(crate) fn pin(&self) -> String {
        tunnel::keys::key_pin(self.issuer.key())
    }

    /// Returns the fingerprint of the former authority's key, while both count.
    pub(crate) fn former_pin(&self) -> Option<String> {
        self.former.as_ref().map(|former| tunnel::keys::key_pin(former.key()))
    }

    /// Whether both are the same, in the same phase of an exchange.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.state == other.state
    }

    /// Returns the authorities whose certificates count.
    pub(crate) fn roots(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        let mut roots = vec![certificate(&self.state.certificate_pem)?];
        if let (Some(_), Some(former)) = (&self.former, &self.state.former) {
            roots.push(certificate(&former.certificate_pem)?);
        }
        Ok(roots)
    }

    /// Makes the certificate of the listener, for these names and addresses. While the authorities are exchanged the former one
    /// signs it, for clients that trust its file. What follows leads those who know either fingerprint to the root they know,
    /// and tells those who know the former one of the next.
    pub(crate) fn server(
        &self,
        names: &[String],
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
        let key = KeyPair::generate().map_err(failed)?;
        let mut params = CertificateParams::new(names.to_vec()).map_err(failed)?;
        params.distinguished_name.push(DnType::CommonName, LISTENER_NAME);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let signed = params.signed_by(&key, self.former.as_ref().unwrap_or(&self.issuer)).map_err(failed)?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|error| {
            Error::new(ErrorCode::StorageFailed, "the relay's key cannot be used").with_detail(error)
        })?;
        let own = certificate(&self.state.certificate_pem)?;
        let mut chain = vec![signed.der().clone()];
        match &self.state.former {
            None => chain.push(own),
            Some(former) => {
                let (root, announcement) =
                    (certificate(&former.certificate_pem)?, certificate(&former.announcement_pem)?);
                match self.former.is_some() {
                    true => chain.extend([root, own, certificate(&former.predecessor_pem)?]),
                    false => chain.extend([own, root, certificate(&former.successor_pem)?]),
                }
                chain.push(announcement);
            }
        }
        Ok((chain, key))
    }

    /// Signs the key of a machine's request; nothing else in it counts.
    pub(crate) fn sign(
        &self,
        machine: &str,
        csr_pem: &str,
        life: Duration,
    ) -> Result<MachineCertificate, Error> {
        let mut request = CertificateSigningRequestParams::from_pem(csr_pem)
            .map_err(|_| Error::invalid("csr_pem", "is no certificate signing request as PEM"))?;
        let not_after = clock::now().after(life);
        request.params = machine_params(machine, not_after)?;
        let signed = request.signed_by(&self.issuer).map_err(failed)?;
        Ok(MachineCertificate { pem: signed.pem(), fingerprint: tunnel::keys::hash(signed.der()), not_after })
    }
}

fn issuer(name: &str, key_pem: &str) -> Result<Issuer<'static, KeyPair>, Error> {
    Ok(Issuer::new(params(name)?, KeyPair::from_pem(key_pem).map_err(failed)?))
}

fn certificate(pem: &str) -> Result<CertificateDer<'static>, Error> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| {
        Error::new(ErrorCode::ConfigInvalid, "the relay's authority holds a certificate that cannot be read")
            .with_detail(error.to_string())
    })
}

fn pin_of(pem: &str) -> Option<String> {
    tunnel::keys::certificate_pin(&certificate(pem).ok()?)
}

fn machine_params(machine: &str, not_after: Timestamp) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(Vec::<String>::new()).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, machine);
    let uri = Ia5String::try_from(format!("obey://machine/{machine}")).map_err(failed)?;
    params.subject_alt_names = vec![SanType::URI(uri)];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.not_before = at(Timestamp(
        clock::now().0.saturating_sub(i64::try_from(limits::CLOCK_SKEW.as_micros()).unwrap_or(0)),
    ))?;
    params.not_after = at(not_after)?;
    Ok(params)
}

/// What the former authority signs to say which one is next. It vouches for nothing else.
fn announcement_params(pin: &str) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(vec![tunnel::pinned::announced_name(pin)]).map_err(failed)?;
    params.distinguished_name.push(DnType::CommonName, "obey relay announcement");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn at(time: Timestamp) -> Result<OffsetDateTime, Error> {
    OffsetDateTime::from_unix_timestamp(time.seconds_and_nanos().0).map_err(|error| {
        Error::new(ErrorCode::StorageFailed, "the clock is wrong").with_detail(error.to_string())
    })
}

fn params(name: &str) -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(Vec::<String>::new()).map_err(failed)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

fn failed(error: rcgen::Error) -> Error {
    Error::new(ErrorCode::StorageFailed, "the certificate cannot be made").with_detail(error.to_string())
}

#[cfg(test)]
mod tests;
