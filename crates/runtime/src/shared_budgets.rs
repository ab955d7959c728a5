//! The budgets that sessions of this daemon share: what was spent of them, and which sessions must learn that one is used up
//! or was raised. The rules are those of `domain::shared_budget`; this adds clock, time zone and store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use domain::shared_budget::{
    ConfiguredBudgets, LocalDay, SharedBudgetKey, SharedBudgetStatus, SharedBudgets, SharedScope,
    SpendingChange, Today, UsedUpBudget,
};
use domain::{Budget, CampaignId, Error, SessionSpec, Timestamp};
use host::clock;
use jiff::ToSpan;
use jiff::tz::TimeZone;
use storage::shared_budgets::{self as rows, SetBudgetRow};
use storage::{Durability, Store};
use tokio::sync::{Notify, watch};

use crate::limits;

/// The shared budgets of this daemon. Cheap to clone.
#[derive(Clone)]
pub struct BudgetLedger {
    store: Store,
    shared: Arc<LedgerShared>,
}

struct LedgerShared {
    books: Mutex<Books>,
    /// Changes when a budget becomes used up, is no longer, or is raised.
    news: watch::Sender<u64>,
    /// Something changed that decides when working time runs out, or nobody uses the ledger any more.
    look: Arc<Notify>,
}

impl Drop for LedgerShared {
    fn drop(&mut self) {
        self.look.notify_one();
    }
}

#[derive(Default)]
struct Books {
    budgets: SharedBudgets,
    has_limits: bool,
    used_up: BTreeSet<SharedBudgetKey>,
    /// How often each budget was raised since the daemon started, and by whom last.
    raises: BTreeMap<SharedBudgetKey, (u64, String)>,
}

impl BudgetLedger {
    /// Reads what is stored. Watches the clock from then on.
    pub(crate) async fn open(store: &Store) -> Result<Self, Error> {
        let (spent, set, campaigns) = store
            .read(|connection| {
                let campaigns = storage::campaigns::list(connection)?;
                Ok((rows::spending(connection)?, rows::budgets(connection)?, campaigns))
            })
            .await?;
        let mut books = Books::default();
        spent.iter().for_each(|change| books.budgets.note(change));
        for SetBudgetRow { key, day, budget } in set {
            books.put(key, day, budget);
        }
        for campaign in campaigns {
            books.budgets.set_name(CampaignId::new(campaign.id), campaign.name);
        }
        let (news, look) = (watch::Sender::new(0), Arc::new(Notify::new()));
        let shared = Arc::new(LedgerShared { books: Mutex::new(books), news, look: Arc::clone(&look) });
        tokio::spawn(watch_time(Arc::downgrade(&shared), look));
        let ledger = Self { store: store.clone(), shared };
        ledger.refresh(&mut ledger.books());
        Ok(ledger)
    }

    /// Sets what is configured, before sessions run.
    pub(crate) fn configure(&self, configured: ConfiguredBudgets) {
        let mut books = self.books();
        books.budgets.configure(configured);
        self.refresh(&mut books);
    }

    /// Remembers the name of a campaign.
    pub(crate) fn set_name(&self, campaign: CampaignId, name: String) {
        let mut books = self.books();
        books.budgets.set_name(campaign, name);
        self.refresh(&mut books);
    }

    /// Returns what wakes a session when it must look at its shared budgets.
    pub(crate) fn news(&self) -> watch::Receiver<u64> {
        let mut news = self.shared.news.subscribe();
        news.mark_changed();
        news
    }

    /// Returns the used-up budget that a session has a share in.
    pub(crate) fn used_up(&self, spec: &SessionSpec) -> Option<UsedUpBudget> {
        let books = self.books();
        if books.used_up.is_empty() {
            return None;
        }
        books.budgets.used_up(spec.campaign_id.as_ref(), &today())
    }

    /// Returns how often the budgets that a session has a share in were raised, and by whom last.
    pub(crate) fn raises(&self, spec: &SessionSpec) -> (u64, String) {
        let books = self.books();
        let campaign = spec.campaign_id.as_ref();
        let keys = SharedScope::ALL.into_iter().filter_map(|scope| SharedBudgetKey::of(scope, campaign));
        let raised = keys.filter_map(|key| books.raises.get(&key));
        raised.fold((0, String::new()), |(sum, _), (count, by)| (sum + count, by.clone()))
    }

    /// Counts what was committed of a session: what it spent, and since when its turn is open.
    pub(crate) fn note(&self, spec: &SessionSpec, changes: &[SpendingChange], open_since: Option<Timestamp>) {
        let mut books = self.books();
        changes.iter().for_each(|change| books.budgets.note(change));
        books.budgets.set_open_turn(&spec.id, spec.campaign_id.as_ref(), open_since);
        if books.has_limits {
            self.refresh(&mut books);
        }
    }

    /// Returns every budget that limits something, with the names of its campaign.
    pub async fn list(&self) -> Result<Vec<(SharedBudgetStatus, String)>, Error> {
        self.learn_names().await?;
        let books = self.books();
        let with_name = |status: SharedBudgetStatus| (books.name_of(&status.key), status);
        Ok(books
            .budgets
            .list(&today())
            .into_iter()
            .map(with_name)
            .map(|(name, status)| (status, name))
            .collect())
    }

    /// Returns one budget, with the name of its campaign.
    pub fn status(&self, key: SharedBudgetKey) -> (SharedBudgetStatus, String) {
        let books = self.books();
        let name = books.name_of(&key);
        (books.budgets.status(key, &today()), name)
    }

    /// Sets parts of a budget until they are set again: 0 removes a limit, what is not given stays.
    pub async fn set(&self, key: SharedBudgetKey, change: Budget, by: String) -> Result<(), Error> {
        if change.is_unlimited() {
            return Err(Error::invalid("budget", "say what is to change: usd, tokens, minutes or calls"));
        }
        self.learn_names().await?;
        let budget = change.over(&self.books().budgets.budget(&key, &today().day));
        self.store_budget(key, None, budget, by).await
    }

    /// Raises a used-up budget, that of a day for this day. Does nothing if somebody was faster.
    pub(crate) async fn raise(
        &self,
        scope: SharedScope,
        spec: &SessionSpec,
        by: String,
    ) -> Result<(), Error> {
        let Some(key) = SharedBudgetKey::of(scope, spec.campaign_id.as_ref()) else { return Ok(()) };
        let today = today();
        let SharedBudgetStatus { budget, spent, .. } = self.books().budgets.status(key.clone(), &today);
        if budget.exhausted_by(&spent).is_none() {
            return Ok(());
        }
        let day = scope.is_per_day().then_some(today.day);
        self.store_budget(key, day, budget.renewed(&spent), by).await
    }

    async fn store_budget(
        &self,
        key: SharedBudgetKey,
        day: Option<LocalDay>,
        budget: Budget,
        by: String,
    ) -> Result<(), Error> {
        let row = SetBudgetRow { key: key.clone(), day: day.clone(), budget };
        self.store.write(Durability::Synced, move |connection| rows::set(connection, &row)).await?;
        let mut books = self.books();
        books.put(key.clone(), day, budget);
        let (count, last) = books.raises.entry(key).or_default();
        (*count, *last) = (*count + 1, by);
        self.refresh(&mut books);
        self.shared.news.send_modify(|version| *version += 1);
        Ok(())
    }

    async fn learn_names(&self) -> Result<(), Error> {
        let campaigns = self.store.read(storage::campaigns::list).await?;
        let mut books = self.books();
        for campaign in campaigns {
            books.budgets.set_name(CampaignId::new(campaign.id), campaign.name);
        }
        Ok(())
    }

    fn refresh(&self, books: &mut Books) {
        self.shared.refresh(books);
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.shared.books()
    }
}

impl LedgerShared {
    /// Finds out which budgets are used up now, and tells sessions if that changed.
    fn refresh(&self, books: &mut Books) {
        books.has_limits = books.budgets.has_limits();
        let used_up: BTreeSet<SharedBudgetKey> = match books.has_limits {
            true => books.budgets.used_up_keys(&today()).into_iter().collect(),
            false => BTreeSet::new(),
        };
        if used_up != books.used_up {
            books.used_up = used_up;
            self.news.send_modify(|version| *version += 1);
        }
        self.look.notify_one();
    }

    /// Returns in which time the budgets must be looked at again; none: when something changes.
    fn next_look(&self) -> Option<Duration> {
        let books = self.books();
        // What is spent is counted in whole milliseconds.
        let left = books.budgets.time_left(&today()).map(|left| left + Duration::from_millis(1));
        let left = left.unwrap_or(Duration::MAX).min(until_tomorrow());
        books.has_limits.then(|| left.min(limits::BUDGET_LOOK_WAIT))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn put(&mut self, key: SharedBudgetKey, day: Option<LocalDay>, budget: Budget) {
        match day {
            Some(day) => self.budgets.set_for_day(key, day, budget),
            None => self.budgets.set(key, budget),
        }
    }

    fn name_of(&self, key: &SharedBudgetKey) -> String {
        key.campaign.as_ref().map_or_else(String::new, |campaign| self.budgets.name_of(campaign).to_owned())
    }
}

/// Looks at the budgets when working time may have run out, when a new day begins, and once in a while for a clock that
/// jumped.
async fn watch_time(ledger: Weak<LedgerShared>, look: Arc<Notify>) {
    loop {
        let Some(wait) = ledger.upgrade().map(|shared| shared.next_look()) else { return };
        let is_due = match wait {
            None => {
                look.notified().await;
                false
            }
            Some(wait) => tokio::time::timeout(wait, look.notified()).await.is_err(),
        };
        if is_due && let Some(shared) = ledger.upgrade() {
            let mut books = shared.books();
            shared.refresh(&mut books);
        }
    }
}

/// Returns how long the user's local day still lasts.
fn until_tomorrow() -> Duration {
    let zoned = zoned(clock::now());
    let tomorrow = zoned.tomorrow().and_then(|day| day.start_of_day());
    tomorrow.map_or(Duration::MAX, |began| zoned.duration_until(&began).unsigned_abs())
}

fn zoned(moment: Timestamp) -> jiff::Zoned {
    jiff::Timestamp::from_microsecond(moment.0).unwrap_or_default().to_zoned(TimeZone::system())
}

/// Returns the user's local day at this moment.
pub(crate) fn today() -> Today {
    let now = clock::now();
    let zoned = zoned(now);
    // A day without a beginning does not exist in any time zone; the moment itself is then the safe choice.
    let began = zoned.start_of_day().map_or(now, |began| Timestamp(began.timestamp().as_microsecond()));
    let date = zoned.date();
    let yesterday = date.checked_sub(1.day()).unwrap_or(date);
    Today { day: LocalDay(date.to_string()), yesterday: LocalDay(yesterday.to_string()), began, now }
}
