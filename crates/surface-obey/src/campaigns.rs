//! `CampaignService`: registered project roots.

use domain::{Error, Mode};
use runtime::campaign::NewCampaign;
use storage::campaigns::{CampaignChange, CampaignRow};
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::campaign_service_server::CampaignService;

use super::local::answer;
use super::{Obey, to_wire};
use surface::access;

#[tonic::async_trait]
impl CampaignService for Obey {
    async fn add_campaign(
        &self,
        request: Request<pb::AddCampaignRequest>,
    ) -> Result<Response<pb::Campaign>, Status> {
        let request = request.into_inner();
        let summary = summary(&request.path, request.scrub, request.mode.as_deref());
        let mut response = answer(self.add(request).await)?;
        summary.map(|summary| response.extensions_mut().insert(summary));
        Ok(response)
    }

    async fn list_campaigns(
        &self,
        _request: Request<pb::ListCampaignsRequest>,
    ) -> Result<Response<pb::ListCampaignsResponse>, Status> {
        answer(self.campaigns().await)
    }

    async fn remove_campaign(
        &self,
        request: Request<pb::RemoveCampaignRequest>,
    ) -> Result<Response<pb::RemoveCampaignResponse>, Status> {
        answer(self.remove(request.into_inner()).await)
    }

    async fn set_campaign(
        &self,
        request: Request<pb::SetCampaignRequest>,
    ) -> Result<Response<pb::Campaign>, Status> {
        let request = request.into_inner();
        let summary = summary(&request.campaign, request.scrub, request.mode.as_deref());
        let mut response = answer(self.change_campaign(request).await)?;
        summary.map(|summary| response.extensions_mut().insert(summary));
        Ok(response)
    }
}

impl Obey {
    /// Registers a campaign.
    async fn add(&self, request: pb::AddCampaignRequest) -> Result<pb::Campaign, Error> {
        if request.path.is_empty() {
            return Err(Error::invalid("path", "is required"));
        }
        let mode = mode(request.mode.as_deref())?;
        let new = NewCampaign {
            id: request.id,
            name: request.name,
            path: request.path,
            description: request.description,
            scrub: request.scrub,
            mode,
        };
        let row = self.supervisor.campaigns().add(new).await?;
        self.campaign(row).await
    }

    /// Lists all campaigns.
    async fn campaigns(&self) -> Result<pb::ListCampaignsResponse, Error> {
        let mut campaigns = Vec::new();
        for row in self.supervisor.campaigns().list().await? {
            campaigns.push(self.campaign(row).await?);
        }
        Ok(pb::ListCampaignsResponse { campaigns })
    }

    /// Removes a campaign, given by id or name.
    async fn remove(&self, request: pb::RemoveCampaignRequest) -> Result<pb::RemoveCampaignResponse, Error> {
        if request.campaign.is_empty() {
            return Err(Error::invalid("campaign", "is required: an id or a name"));
        }
        let row = self.supervisor.campaigns().remove(&request.campaign).await?;
        Ok(pb::RemoveCampaignResponse { campaign: Some(self.campaign(row).await?) })
    }

    async fn change_campaign(&self, request: pb::SetCampaignRequest) -> Result<pb::Campaign, Error> {
        if request.campaign.is_empty() {
            return Err(Error::invalid("campaign", "is required: an id or a name"));
        }
        let change = CampaignChange { scrub: request.scrub, mode: mode(request.mode.as_deref())? };
        if change == CampaignChange::default() {
            return Err(Error::invalid("scrub", "or mode is required: nothing is to be changed"));
        }
        let row = self.supervisor.campaigns().change(&request.campaign, change).await?;
        self.campaign(row).await
    }

    async fn campaign(&self, row: CampaignRow) -> Result<pb::Campaign, Error> {
        let active_sessions = self.supervisor.campaigns().active_sessions(&row.id).await?;
        let warnings = self.supervisor.folder_warning(std::path::Path::new(&row.path)).into_iter().collect();
        Ok(pb::Campaign {
            id: row.id,
            name: row.name,
            path: row.path,
            description: row.description,
            created_at: Some(to_wire::timestamp(row.created_at)),
            active_sessions,
            scrub: row.scrub,
            mode: row.mode.map(Mode::name).unwrap_or_default().to_owned(),
            warnings,
        })
    }
}

/// Parses the mode of a campaign's sessions; an empty one means that the daemon's configuration decides.
fn mode(text: Option<&str>) -> Result<Option<Option<Mode>>, Error> {
    match text {
        None => Ok(None),
        Some("") => Ok(Some(None)),
        Some(text) => match Mode::parse(text) {
            Some(mode) => Ok(Some(Some(mode))),
            None => {
                let known = Mode::ALL.map(|(_, name)| name).join(", ");
                Err(Error::invalid("mode", format_args!("{text:?} is not a mode; use one of {known}")))
            }
        },
    }
}

/// What the audit says of a campaign whose sessions' secrets are kept from now on, or taken out, or whose sessions have
/// another mode.
fn summary(campaign: &str, scrub: Option<bool>, mode: Option<&str>) -> Option<access::Summary> {
    let scrub = scrub.map(|scrub| format!("scrub {}", if scrub { "on" } else { "off" }));
    // What was sent is checked before the summary is used.
    let mode = mode.map(|mode| format!("mode {}", if mode.is_empty() { "unset" } else { mode }));
    let changes: Vec<String> = scrub.into_iter().chain(mode).collect();
    let campaign: String = campaign.chars().take(surface::limits::AUDIT_CAMPAIGN_MAX_LETTERS).collect();
    (!changes.is_empty()).then(|| access::Summary(format!("{} for {campaign}", changes.join(", "))))
}
