//! A relay in its folder: how one is made, administered by its owner on its own machine, and served.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use tunnel::keys::{self, KeyRequest};
use tunnel::ticket::{EnrolmentCode, RelayCode};
use wire::obey::v1::relay_service_client::RelayServiceClient;
use wire::obey::v1::{EnrolRelayRequest, EnrolRelayResponse, GetRelayStatusRequest, GetRelayStatusResponse};

use crate::authority::{Authority, write_private};
use crate::cluster::{self, Cluster};
use crate::hub::Hub;
use crate::limits;
use crate::server::Bound;
use crate::store::{MachineRecord, RelayAuditEntry, Store, UserRecord};
use crate::traffic::day_of;

const FILE: &str = "relay.db";
const OWNER: &str = "owner";

/// Where the owner's token is kept, so that the owner can ask the relay how it does.
pub(crate) const TOKEN_FILE: &str = "owner.token";

/// The settings of a relay that is not alone: where NATS is, and the name of the cluster.
const NATS: &str = "nats";
pub(crate) const CLUSTER: &str = "cluster";

/// Changed whenever the authority is, which is in a file of its own.
const AUTHORITY: &str = "authority";

/// Which authority a relay has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityPhase {
    /// The fingerprint of its key.
    pub authority: String,
    /// That of the former one, while both count, and until when they do at most.
    pub former: Option<String>,
    pub former_until: Option<Timestamp>,
}

/// What a relay counts, for its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayCounts {
    pub machines: usize,
    pub users: usize,
}

/// A relay in a folder.
pub struct Relay {
    folder: PathBuf,
    store: Store,
    authority: Authority,
}

/// What a new relay's owner needs.
pub struct Created {
    pub url: String,
    /// The certificate that clients trust.
    pub ca: PathBuf,
    pub token: String,
}

impl Relay {
    /// Makes a relay in a folder. `hosts`: further names and addresses by which it is reached; the first one is in its URL.
    /// With `nats` other relays can join it.
    pub fn create(
        folder: &Path,
        listen: SocketAddr,
        hosts: &[String],
        nats: Option<&str>,
    ) -> Result<Created, Error> {
        if nats.is_some() {
            cluster::check()?;
        }
        make_folder(folder)?;
        let authority = Authority::create(folder)?;
        let store = Store::open(&folder.join(FILE))?;
        let url = settle(&store, listen, hosts)?;
        if let Some(nats) = nats {
            store.set(NATS, nats)?;
            store.set(CLUSTER, &host::ids::unique().to_lowercase())?;
        }
        let (_, token) = store.add_user(OWNER, true)?;
        write_private(&folder.join(TOKEN_FILE), token.as_bytes())?;
        Ok(Created { url, ca: authority.certificate_file().to_owned(), token })
    }

    /// Makes a relay that is one with another, with a code that the other one printed.
    pub async fn join(
        folder: &Path,
        code: &str,
        listen: SocketAddr,
        hosts: &[String],
        nats: &str,
    ) -> Result<Created, Error> {
        cluster::check()?;
        let code = RelayCode::parse(code)?;
        make_folder(folder)?;
        let enrolled = enrol(code).await?;
        let authority = Authority::import(folder, &enrolled.authority_state)?;
        let store = Store::open(&folder.join(FILE))?;
        let url = settle(&store, listen, hosts)?;
        store.set(NATS, nats)?;
        store.set(CLUSTER, &enrolled.cluster)?;
        store.add_owner(&enrolled.owner_id, &enrolled.owner_name, &enrolled.owner_token)?;
        write_private(&folder.join(TOKEN_FILE), enrolled.owner_token.as_bytes())?;
        Ok(Created { url, ca: authority.certificate_file().to_owned(), token: enrolled.owner_token })
    }

    /// Makes a one-time code with which another relay joins this one.
    pub fn relay_code(&self) -> Result<(String, Timestamp), Error> {
        if self.store.setting(CLUSTER)?.is_none() {
            let message =
                "this relay is alone; one that others join is made with: obey relay init --nats URL";
            return Err(Error::new(ErrorCode::InvalidArgument, message));
        }
        let secret = keys::secret()?;
        let expires_at = self.store.add_relay_code(&secret)?;
        let code = RelayCode { url: self.url()?, pin: self.authority.pin(), secret };
        Ok((code.to_string(), expires_at))
    }

    /// Opens the relay in a folder.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let file = folder.join(FILE);
        if !file.exists() {
            let message =
                format!("there is no relay in {}; make one: obey relay init --listen ADDR", folder.display());
            return Err(Error::new(ErrorCode::ConfigInvalid, message));
        }
        Ok(Self {
            folder: folder.to_owned(),
            store: Store::open(&file)?,
            authority: Authority::load(folder)?,
        })
    }

    /// Returns where clients reach it.
    pub fn url(&self) -> Result<String, Error> {
        let host = self.store.setting("host")?.unwrap_or_default();
        Ok(url_of(&host, self.listen()?.port()))
    }

    pub fn listen(&self) -> Result<SocketAddr, Error> {
        let text = self.store.setting("listen")?.unwrap_or_default();
        text.parse()
            .map_err(|_| Error::new(ErrorCode::ConfigInvalid, format!("listen: {text:?} is no address")))
    }

    /// Asks the relay that is served how it does.
    pub async fn ask_status(&self) -> Result<GetRelayStatusResponse, Error> {
        let url = self.url()?;
        let token = fs::read_to_string(self.folder.join(TOKEN_FILE)).map_err(|error| {
            Error::new(ErrorCode::StorageFailed, format!("the owner's token cannot be read: {error}"))
        })?;
        let channel = tunnel::dial::connect(&url, &self.authority.pin(), None).await?;
        let mut request = tonic::Request::new(GetRelayStatusRequest {});
        if let Ok(value) = format!("Bearer {}", token.trim()).parse() {
            request.metadata_mut().insert("authorization", value);
        }
        let answered = RelayServiceClient::new(channel).get_relay_status(request).await;
        answered
            .map(tonic::Response::into_inner)
            .map_err(|status| tunnel::dial::unreachable_relay(&url, status.message()))
    }

    /// Forgets a machine, by its id or name. A relay that is served cuts it off within two seconds.
    pub fn remove_machine(&self, named: &str) -> Result<MachineRecord, Error> {
        let directory = self.store.directory();
        let found = directory.machines.values().find(|machine| machine.id == named || machine.name == named);
        let machine = found.ok_or_else(crate::status::no_machine)?;
        self.store.remove_machine(&machine.id)?;
        self.store.note("machine_removed", &machine.name, &machine.id);
        Ok(MachineRecord::clone(machine))
    }

    /// Returns the certificate that clients trust.
    pub fn ca(&self) -> &Path {
        self.authority.certificate_file()
    }

    /// Makes a one-time code with which a machine of a user joins.
    pub fn code(&self, user: Option<&str>) -> Result<(String, Timestamp), Error> {
        let directory = self.store.directory();
        let user = user.unwrap_or(OWNER);
        let found = directory.users.values().find(|one| one.name == user);
        let user = found
            .ok_or_else(|| Error::invalid("user", format!("there is no user {user:?}; obey relay users")))?;
        let secret = keys::secret()?;
        let expires_at = self.store.add_code(&secret, &user.id)?;
        let code = EnrolmentCode { url: self.url()?, pin: self.authority.pin(), secret };
        Ok((code.to_string(), expires_at))
    }

    pub fn users(&self) -> Vec<UserRecord> {
        let mut users: Vec<_> =
            self.store.directory().users.values().map(|user| UserRecord::clone(user)).collect();
        users.sort_by(|one, other| one.name.cmp(&other.name));
        users
    }

    /// Makes an account. Its token is kept nowhere.
    pub fn add_user(&self, name: &str) -> Result<(UserRecord, String), Error> {
        let added = self.store.add_user(name, false)?;
        self.store.note("user_added", name, &added.0.id);
        Ok(added)
    }

    pub fn remove_user(&self, name: &str) -> Result<UserRecord, Error> {
        let removed = self.store.remove_user(name)?;
        self.store.note("user_removed", &removed.name, &removed.id);
        Ok(removed)
    }

    pub fn machines(&self) -> Vec<MachineRecord> {
        let mut machines: Vec<_> =
            self.store.directory().machines.values().map(|machine| MachineRecord::clone(machine)).collect();
        machines.sort_by(|one, other| one.name.cmp(&other.name));
        machines
    }

    pub fn counts(&self) -> RelayCounts {
        let directory = self.store.directory();
        RelayCounts { machines: directory.machines.len(), users: directory.users.len() }
    }

    /// Makes a machine with a key of our making, for a daemon that is not ours: `cert.pem`, `key.pem` and `ca.pem` in a
    /// folder. Returns the machine's id.
    pub fn issue(&self, name: &str, out: &Path) -> Result<String, Error> {
        let directory = self.store.directory();
        let owner = directory.users.values().find(|user| user.is_owner);
        let owner = owner.ok_or_else(|| Error::new(ErrorCode::StorageFailed, "this relay has no owner"))?;
        let id = host::machine::new_machine_id();
        let request = KeyRequest::new(&id)?;
        let certificate = self.authority.sign(&id, &request.csr_pem, limits::ISSUED_LEAF_LIFE)?;
        let failed = |error: std::io::Error| {
            Error::new(ErrorCode::StorageFailed, format!("{} cannot be written: {error}", out.display()))
        };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(out).map_err(failed)?;
        write_private(&out.join("key.pem"), request.key_pem.as_bytes())?;
        write_private(&out.join("cert.pem"), certificate.pem.as_bytes())?;
        fs::copy(self.ca(), out.join("ca.pem")).map_err(failed)?;
        self.store.add_machine(&id, name, &owner.id, &certificate)?;
        self.store.note("machine_issued", name, &id);
        Ok(id)
    }

    /// Returns how many bytes one machine may exchange with its clients in a day; 0: as many as they like.
    pub fn bytes_per_day(&self) -> Result<u64, Error> {
        self.store.bytes_per_day()
    }

    /// Sets that. A relay that is served keeps to it within a second.
    pub fn set_bytes_per_day(&self, bytes: u64) -> Result<(), Error> {
        self.store.set_bytes_per_day(bytes)?;
        self.store.note("quota_set", "", &bytes.to_string());
        Ok(())
    }

    /// Returns what was done to the relay, the latest first.
    pub fn audit(&self, limit: u32) -> Result<Vec<RelayAuditEntry>, Error> {
        self.store.audit(limit)
    }

    /// Begins to exchange the authority for a new one. A relay that is served goes over within a second.
    pub fn rotate(&mut self) -> Result<AuthorityPhase, Error> {
        let next = self.authority.exchange()?;
        self.use_authority(next)
    }

    /// Completes an exchange: the former authority counts no more.
    pub fn complete_rotation(&mut self) -> Result<AuthorityPhase, Error> {
        let next = self.authority.complete()?;
        self.use_authority(next)
    }

    /// Takes over the authority that another relay of the same cluster has, with a code for a relay that it printed.
    pub async fn follow_rotation(&mut self, code: &str) -> Result<AuthorityPhase, Error> {
        let enrolled = enrol(RelayCode::parse(code)?).await?;
        let next = self.authority.follow(&enrolled.authority_state)?;
        self.use_authority(next)
    }

    fn use_authority(&mut self, authority: Authority) -> Result<AuthorityPhase, Error> {
        self.authority = authority;
        // Whoever serves the relay notices a change of its file.
        self.store.set(AUTHORITY, &self.authority.pin())?;
        let phase =
            if self.authority.former_pin().is_some() { "exchange begun" } else { "exchange complete" };
        self.store.note("authority_changed", &self.authority.pin(), phase);
        Ok(self.authority_phase())
    }

    /// Returns which authority there is, and which one still counts.
    pub fn authority_phase(&self) -> AuthorityPhase {
        AuthorityPhase {
            authority: self.authority.pin(),
            former: self.authority.former_pin(),
            former_until: self.authority.former_until(),
        }
    }

    /// Serves until `shutdown` completes. `ready` is told where it listens.
    pub async fn serve(
        self,
        shutdown: impl Future<Output = ()>,
        ready: impl FnOnce(SocketAddr),
    ) -> Result<(), Error> {
        host::machine::raise_file_limit();
        let listen = self.listen()?;
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let host = self.store.setting("host")?.unwrap_or_default();
        let hosts = self.store.setting("hosts")?.unwrap_or_default();
        names.extend(std::iter::once(host.as_str()).chain(hosts.lines()).map(str::to_owned));
        if !listen.ip().is_unspecified() {
            names.push(listen.ip().to_string());
        }
        names.retain(|name| !name.is_empty());
        names.sort();
        names.dedup();
        let bus = (self.store.setting(NATS)?, self.store.setting(CLUSTER)?);
        let hub = Hub::new(self.store, self.authority);
        let day = day_of(clock::now());
        hub.traffic.restore(hub.store.bytes_per_day()?, day, hub.store.traffic_of(day)?);
        let bound = Bound::bind(Arc::clone(&hub), listen, &names).await?;
        if let (Some(url), Some(cluster)) = bus {
            Cluster::start(&url, &cluster, &hub).await?;
        }
        ready(bound.address()?);
        bound.serve(shutdown).await;
        Ok(())
    }
}

/// Asks another relay for what both need to be one.
async fn enrol(code: RelayCode) -> Result<EnrolRelayResponse, Error> {
    let channel = tunnel::dial::connect(&code.url, &code.pin, None).await?;
    let request = EnrolRelayRequest { secret: code.secret };
    let enrolled = RelayServiceClient::new(channel).enrol_relay(request).await.map_err(|status| {
        let message = status.message().split_once(": ").map_or(status.message(), |(_, message)| message);
        Error::new(ErrorCode::RelayRefused, message)
    })?;
    Ok(enrolled.into_inner())
}

fn make_folder(folder: &Path) -> Result<(), Error> {
    if folder.join(FILE).exists() {
        let message = format!("there is a relay in {} already; serve it: obey relay serve", folder.display());
        return Err(Error::new(ErrorCode::InvalidArgument, message));
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
        Error::new(ErrorCode::StorageFailed, format!("{} cannot be made: {error}", folder.display()))
    })
}

/// Keeps where a relay listens and by which names it is reached. Returns its URL.
fn settle(store: &Store, listen: SocketAddr, hosts: &[String]) -> Result<String, Error> {
    let host = match hosts.first() {
        Some(host) => host.clone(),
        None if listen.ip().is_unspecified() => host::machine::hostname(),
        None => listen.ip().to_string(),
    };
    store.set("listen", &listen.to_string())?;
    store.set("host", &host)?;
    store.set("hosts", &hosts.join("\n"))?;
    Ok(url_of(&host, listen.port()))
}

fn url_of(host: &str, port: u16) -> String {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => format!("https://[{address}]:{port}"),
        _ => format!("https://{host}:{port}"),
    }
}
