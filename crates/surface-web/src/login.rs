//! `PageService`: codes for pages, the keys that pages get for them, and who a caller is.

use std::sync::Arc;

use domain::{Error, ErrorCode, Timestamp};
use host::clock;
use prost_types::Timestamp as PbTimestamp;
use surface::peer::{self, Caller, KeyPlace, PageKey, Peer, Role, Via};
use surface::server::json_calls;
use surface::{access, status};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::page_service_server::PageService;

use crate::codes::CodeGives;
use crate::{Web, assets, codes, limits};

#[tonic::async_trait]
impl PageService for Web {
    async fn create_code(
        &self,
        request: Request<pb::CreateCodeRequest>,
    ) -> Result<Response<pb::CreateCodeResponse>, Status> {
        let created = self.create(&request.into_inner()).map_err(|error| status::grpc(&error))?;
        Ok(Response::new(created))
    }

    async fn login(&self, request: Request<pb::LoginRequest>) -> Result<Response<pb::LoginResponse>, Status> {
        let caller = peer::caller(request.extensions());
        let is_remote = request.extensions().get::<Peer>().is_some_and(|peer| peer.via == Via::Tls);
        // A code that leaked into a file or onto a screen must not make an agent a person. From another machine nobody is
        // known before the login.
        let is_person = matches!(
            (&caller, is_remote),
            (Caller::User | Caller::Page | Caller::Device(_), _) | (Caller::Unknown, true)
        );
        if !is_person {
            return Err(status::grpc(&codes::no_good()));
        }
        let browser = request.metadata().get("user-agent").and_then(|agent| agent.to_str().ok());
        let browser = browser_name(browser.unwrap_or_default());
        let given = self.give_key(request.into_inner(), is_remote, &browser).await;
        let given = given.map_err(|error| status::grpc(&error))?;
        let summary = access::Summary(format!("page {} ({})", given.name, given.role));
        let mut response = Response::new(given);
        response.extensions_mut().insert(summary);
        Ok(response)
    }

    async fn get_caller(
        &self,
        request: Request<pb::GetCallerRequest>,
    ) -> Result<Response<pb::GetCallerResponse>, Status> {
        let (kind, name, role) = match peer::caller(request.extensions()) {
            Caller::Device(device) => ("device", device.name, device.role),
            Caller::User => ("user", String::new(), Role::Owner),
            Caller::Page | Caller::Agent(_) | Caller::Unknown | Caller::Token | Caller::ApiKey(_) => {
                ("page", String::new(), Role::Viewer)
            }
        };
        Ok(Response::new(pb::GetCallerResponse {
            kind: kind.to_owned(),
            name,
            role: role.name().to_owned(),
            version: self.about.version.clone(),
            build: assets::BUILD.to_owned(),
            machine: self.about.machine.clone(),
            services: json_calls::descriptors().services().map(|one| one.full_name().to_owned()).collect(),
        }))
    }

    async fn logout(
        &self,
        request: Request<pb::LogoutRequest>,
    ) -> Result<Response<pb::LogoutResponse>, Status> {
        let Some(PageKey(id)) = request.extensions().get::<PageKey>().cloned() else {
            return Ok(Response::new(pb::LogoutResponse { revoked: false }));
        };
        let devices = Arc::clone(&self.about.devices);
        let revoked =
            tokio::task::spawn_blocking(move || devices.revoke(&id)).await.map_err(|error| ended(&error));
        revoked.and_then(|revoked| revoked).map_err(|error| status::grpc(&error))?;
        Ok(Response::new(pb::LogoutResponse { revoked: true }))
    }
}

impl Web {
    fn create(&self, request: &pb::CreateCodeRequest) -> Result<pb::CreateCodeResponse, Error> {
        let role = match request.role.as_str() {
            "" => Role::Owner,
            name => Role::parse(name)
                .ok_or_else(|| Error::invalid("role", "must be viewer, operator or owner"))?,
        };
        let addresses: Vec<String> = match request.pair {
            true => self.about.tls.clone(),
            false => self.about.tcp.iter().map(|address| format!("http://{address}")).collect(),
        };
        if addresses.is_empty() {
            let message = match request.pair {
                true => {
                    "no listener is for other machines and speaks TLS; add tls://ADDR to listen, see docs/config.md"
                }
                false => {
                    "the daemon listens on no TCP address, and browsers need one; see listen in docs/config.md"
                }
            };
            return Err(Error::new(ErrorCode::ConfigInvalid, message));
        }
        let (life, place) = match request.pair {
            true => (limits::PAIR_CODE_LIFE, KeyPlace::Elsewhere),
            false => (limits::CODE_LIFE, KeyPlace::HereAllowed),
        };
        let (code, expires_at) = self.codes.create(CodeGives { role, place }, life)?;
        Ok(pb::CreateCodeResponse { code, expires_at: Some(timestamp(expires_at)), addresses })
    }

    async fn give_key(
        &self,
        request: pb::LoginRequest,
        is_remote: bool,
        browser: &str,
    ) -> Result<pb::LoginResponse, Error> {
        let CodeGives { role, place } = self.codes.redeem(&request.code, is_remote, clock::now())?;
        let wish = if request.name.is_empty() { browser.to_owned() } else { plain(&request.name) };
        let devices = Arc::clone(&self.about.devices);
        let added = tokio::task::spawn_blocking(move || devices.add_page(&wish, role, place)).await;
        let (record, key) = added.map_err(|error| ended(&error))??;
        Ok(pb::LoginResponse {
            key,
            name: record.name,
            role: role.name().to_owned(),
            expires_at: record.expires_at.map(timestamp),
        })
    }
}

fn ended(error: &tokio::task::JoinError) -> Error {
    Error::new(ErrorCode::StorageFailed, "the devices cannot be changed").with_detail(error.to_string())
}

fn timestamp(at: Timestamp) -> PbTimestamp {
    let (seconds, nanos) = at.seconds_and_nanos();
    PbTimestamp { seconds, nanos }
}

/// Returns what a browser is called in lists, after what it says of itself.
fn browser_name(agent: &str) -> String {
    let browser = [
        ("Edg/", "edge"),
        ("OPR/", "opera"),
        ("Firefox/", "firefox"),
        ("Chrome/", "chrome"),
        ("Safari/", "safari"),
    ]
    .into_iter()
    .find_map(|(mark, name)| agent.contains(mark).then_some(name))
    .unwrap_or("browser");
    let system = [
        ("Android", "android"),
        ("iPhone", "iphone"),
        ("iPad", "ipad"),
        ("Windows", "windows"),
        ("Mac OS", "mac"),
        ("Linux", "linux"),
    ]
    .into_iter()
    .find_map(|(mark, name)| agent.contains(mark).then_some(name));
    system.map_or_else(|| browser.to_owned(), |system| format!("{browser}-{system}"))
}

/// Returns a name that lists can show, of what a page calls itself.
fn plain(name: &str) -> String {
    let letters = name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    let name: String = letters.take(limits::NAME_MAX_LETTERS).collect();
    let name = name.trim_matches('-');
    if name.is_empty() || name.starts_with("dev_") { "browser".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_named_after_its_browser_and_system() {
        let chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0.0.0 Safari/537.36";
        let phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 Version/19.0 Mobile/15E148 Safari/604.1";
        assert_eq!(browser_name(chrome), "chrome-linux");
        assert_eq!(browser_name(phone), "safari-iphone");
        assert_eq!(browser_name("curl/8"), "browser");
        assert_eq!(plain("  Ada's phone "), "Ada-s-phone");
        assert_eq!(plain("\u{202e}"), "browser");
    }
}
