//! `CampaignService`: registered project roots.

use domain::Error;
use runtime::campaign::NewCampaign;
use storage::campaigns::CampaignRow;
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
        let summary = request.scrub.map(|scrub| scrub_summary(&request.path, scrub));
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
        let summary = request.scrub.map(|scrub| scrub_summary(&request.campaign, scrub));
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
        let new = NewCampaign {
            id: request.id,
            name: request.name,
            path: request.path,
            description: request.description,
            scrub: request.scrub,
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
        let Some(scrub) = request.scrub else {
            return Err(Error::invalid("scrub", "is required: nothing else can be set"));
        };
        let row = self.supervisor.campaigns().set_scrub(&request.campaign, scrub).await?;
        self.campaign(row).await
    }

    async fn campaign(&self, row: CampaignRow) -> Result<pb::Campaign, Error> {
        let active_sessions = self.supervisor.campaigns().active_sessions(&row.id).await?;
        Ok(pb::Campaign {
            id: row.id,
            name: row.name,
            path: row.path,
            description: row.description,
            created_at: Some(to_wire::timestamp(row.created_at)),
            active_sessions,
            scrub: row.scrub,
        })
    }
}

/// What the audit says of a campaign whose sessions' secrets are kept from now on, or taken out.
fn scrub_summary(campaign: &str, scrub: bool) -> access::Summary {
    let campaign: String = campaign.chars().take(surface::limits::AUDIT_CAMPAIGN_MAX_LETTERS).collect();
    access::Summary(format!("scrub {} for {campaign}", if scrub { "on" } else { "off" }))
}
