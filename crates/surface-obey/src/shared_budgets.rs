//! `BudgetService`: budgets that sessions share.

use domain::shared_budget::{SharedBudgetKey, SharedBudgetStatus, SharedScope};
use domain::{Budget, CampaignId, Error};
use surface::peer::Signer;
use tonic::{Request, Response, Status};
use wire::obey::v1 as pb;
use wire::obey::v1::budget_service_server::BudgetService;

use super::Obey;
use super::local::answer;

#[tonic::async_trait]
impl BudgetService for Obey {
    async fn list(
        &self,
        request: Request<pb::ListSharedBudgetsRequest>,
    ) -> Result<Response<pb::ListSharedBudgetsResponse>, Status> {
        answer(self.shared_budgets(&request.into_inner().campaign).await)
    }

    async fn set(
        &self,
        request: Request<pb::SetSharedBudgetRequest>,
    ) -> Result<Response<pb::SharedBudget>, Status> {
        let by = Signer::of(request.extensions()).name();
        answer(self.set_shared_budget(request.into_inner(), by).await)
    }
}

impl Obey {
    async fn shared_budgets(&self, campaign: &str) -> Result<pb::ListSharedBudgetsResponse, Error> {
        let budgets = self.supervisor.budgets();
        if campaign.is_empty() {
            let listed = budgets.list().await?;
            let budgets = listed.into_iter().map(|(status, name)| shared_budget(status, name)).collect();
            return Ok(pb::ListSharedBudgetsResponse { budgets });
        }
        let found = self.supervisor.campaigns().find(campaign).await?;
        let id = CampaignId::new(found.id);
        let keys = [SharedScope::Campaign, SharedScope::CampaignDay]
            .into_iter()
            .filter_map(|scope| SharedBudgetKey::of(scope, Some(&id)));
        let budgets = keys.map(|key| shared_budget(budgets.status(key).0, found.name.clone())).collect();
        Ok(pb::ListSharedBudgetsResponse { budgets })
    }

    async fn set_shared_budget(
        &self,
        request: pb::SetSharedBudgetRequest,
        by: String,
    ) -> Result<pb::SharedBudget, Error> {
        let campaign = match request.campaign.as_str() {
            "" => None,
            campaign => Some(CampaignId::new(self.supervisor.campaigns().find(campaign).await?.id)),
        };
        let scope = match (&campaign, request.per_day) {
            (None, _) => SharedScope::Day,
            (Some(_), true) => SharedScope::CampaignDay,
            (Some(_), false) => SharedScope::Campaign,
        };
        let key = SharedBudgetKey { scope, campaign };
        let change = Budget {
            tokens: request.tokens,
            cost_micro_usd: request.cost_micro_usd,
            work_ms: request.work_ms,
            calls: request.calls,
        };
        let budgets = self.supervisor.budgets();
        budgets.set(key.clone(), change, by).await?;
        let (status, name) = budgets.status(key);
        Ok(shared_budget(status, name))
    }
}

fn shared_budget(status: SharedBudgetStatus, campaign: String) -> pb::SharedBudget {
    let SharedBudgetStatus { key, budget, spent } = status;
    pb::SharedBudget {
        campaign_id: key.campaign.as_ref().map(ToString::to_string).unwrap_or_default(),
        campaign,
        per_day: key.scope.is_per_day(),
        tokens: budget.tokens,
        cost_micro_usd: budget.cost_micro_usd,
        work_ms: budget.work_ms,
        calls: budget.calls,
        spent_tokens: spent.tokens,
        spent_micro_usd: spent.cost_micro_usd,
        spent_work_ms: spent.work_ms,
        spent_calls: spent.calls,
        used_up: budget.exhausted_by(&spent).unwrap_or_default(),
    }
}
