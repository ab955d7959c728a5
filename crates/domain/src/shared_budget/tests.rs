//! Shared budgets: sums over sessions and days, which budget is used up, and what raising one means.

use super::*;

fn today(day: &str, began_s: i64, now_s: i64) -> Today {
    let yesterday = LocalDay(format!("before {day}"));
    let at = |seconds: i64| Timestamp(seconds * 1_000_000);
    Today { day: LocalDay(day.to_owned()), yesterday, began: at(began_s), now: at(now_s) }
}

fn campaign() -> CampaignId {
    CampaignId::new("c_app")
}

fn budgets(limits: &[(SharedScope, Budget)]) -> SharedBudgets {
    let usual = limits.iter().copied().collect();
    let mut budgets = SharedBudgets::default();
    budgets.configure(ConfiguredBudgets { usual, named: BTreeMap::new() });
    budgets.set_name(campaign(), "app".to_owned());
    budgets
}

fn tokens(tokens: u64) -> Budget {
    Budget { tokens: Some(tokens), ..Budget::default() }
}

fn spend(budgets: &mut SharedBudgets, campaign: Option<CampaignId>, day: &str, tokens: u64) {
    let day = LocalDay(day.to_owned());
    budgets.note(&SpendingChange { campaign, day, tokens, cost_micro_usd: 0, work_ms: 0, calls: 0 });
}

#[test]
fn a_campaign_is_used_up_by_the_sum_of_its_sessions_and_of_all_days() {
    let mut budgets = budgets(&[(SharedScope::Campaign, tokens(100))]);
    let now = today("tuesday", 0, 10);
    spend(&mut budgets, Some(campaign()), "monday", 60);
    spend(&mut budgets, None, "tuesday", 500);
    assert_eq!(budgets.used_up(Some(&campaign()), &now), None);
    spend(&mut budgets, Some(campaign()), "tuesday", 40);
    let used_up = budgets.used_up(Some(&campaign()), &now).unwrap();
    assert_eq!(used_up.what, "campaign app has used 100 of its 100 tokens");
    assert_eq!(
        (used_up.renewed.as_str(), used_up.remedy.as_str()),
        ("200 tokens", "obey campaign budget app")
    );
    assert_eq!(budgets.used_up(None, &now), None, "a session without a campaign has no share in it");
}

#[test]
fn a_day_is_used_up_for_everybody_and_the_next_one_begins_anew_whichever_way_the_clock_jumps() {
    let mut budgets = budgets(&[(SharedScope::Day, tokens(100)), (SharedScope::CampaignDay, tokens(50))]);
    spend(&mut budgets, Some(campaign()), "monday", 50);
    let monday = today("monday", 0, 10);
    assert_eq!(budgets.used_up(Some(&campaign()), &monday).unwrap().scope, SharedScope::CampaignDay);
    assert_eq!(budgets.used_up(None, &monday), None);
    spend(&mut budgets, None, "monday", 50);
    assert_eq!(budgets.used_up(None, &monday).unwrap().what, "today has used 100 of its 100 tokens");
    assert_eq!(budgets.used_up(None, &today("tuesday", 86_400, 86_401)), None);
    assert!(budgets.used_up(None, &monday).is_some(), "a clock that is set back finds the sums of its day");
}

#[test]
fn what_is_configured_for_a_campaign_goes_before_the_usual_and_what_was_set_before_both() {
    let (usual, by_name) = (tokens(10), tokens(20));
    let mut budgets = SharedBudgets::default();
    budgets.configure(ConfiguredBudgets {
        usual: BTreeMap::from([(SharedScope::Campaign, usual)]),
        named: BTreeMap::from([((SharedScope::Campaign, "app".to_owned()), by_name)]),
    });
    let day = LocalDay("monday".to_owned());
    let key = SharedBudgetKey::of(SharedScope::Campaign, Some(&campaign())).unwrap();
    assert_eq!(budgets.budget(&key, &day), usual, "its name is not known yet");
    budgets.set_name(campaign(), "app".to_owned());
    assert_eq!(budgets.budget(&key, &day), by_name);
    budgets.set(key.clone(), Budget::default());
    assert_eq!(budgets.budget(&key, &day), Budget::default(), "a limit can be removed");
    assert!(budgets.list(&today("monday", 0, 1)).is_empty());
}

#[test]
fn a_budget_raised_for_a_day_is_the_old_one_on_the_next() {
    let mut budgets = budgets(&[(SharedScope::Day, tokens(100))]);
    let key = SharedBudgetKey::of(SharedScope::Day, None).unwrap();
    budgets.set_for_day(key.clone(), LocalDay("monday".to_owned()), tokens(200));
    assert_eq!(budgets.budget(&key, &LocalDay("monday".to_owned())), tokens(200));
    assert_eq!(budgets.budget(&key, &LocalDay("tuesday".to_owned())), tokens(100));
    budgets.set(key.clone(), tokens(300));
    assert_eq!(budgets.budget(&key, &LocalDay("monday".to_owned())), tokens(300), "setting replaces raising");
}

#[test]
fn the_time_of_open_turns_counts_and_is_shared_by_them() {
    let minute = Budget { work_ms: Some(60_000), ..Budget::default() };
    let mut budgets = budgets(&[(SharedScope::Campaign, minute)]);
    for session in ["sess_1", "sess_2"] {
        budgets.set_open_turn(&SessionId::new(session), Some(&campaign()), Some(Timestamp(0)));
    }
    assert_eq!(budgets.time_left(&today("monday", 0, 10)), Some(Duration::from_secs(20)));
    assert_eq!(budgets.used_up(Some(&campaign()), &today("monday", 0, 29)), None);
    let used_up = budgets.used_up(Some(&campaign()), &today("monday", 0, 30)).unwrap();
    assert_eq!(used_up.what, "campaign app has used 1 min of its 1 min of working time");
    budgets.set_open_turn(&SessionId::new("sess_1"), Some(&campaign()), None);
    assert_eq!(budgets.used_up(Some(&campaign()), &today("monday", 0, 30)), None);
}

#[test]
fn working_time_before_midnight_belongs_to_the_day_before() {
    let (before, after) = (Spending::default(), Spending { work_ms: 3_000, calls: 1, ..Spending::default() });
    let now = today("tuesday", 100, 102);
    let changes = SpendingChange::between(&before, &after, None, &now, Some(Timestamp(99_000_000)));
    let parts: Vec<(&str, u64, u64)> =
        changes.iter().map(|change| (change.day.0.as_str(), change.work_ms, change.calls)).collect();
    assert_eq!(parts, [("before tuesday", 1_000, 0), ("tuesday", 2_000, 1)]);
}

#[test]
fn an_estimate_that_is_replaced_by_less_gives_money_back_and_a_fork_gives_nothing_back() {
    let before = Spending { tokens: 10, cost_micro_usd: 900, ..Spending::default() };
    let now = today("monday", 0, 1);
    let changes = |after| SpendingChange::between(&before, &after, None, &now, None);
    assert_eq!(changes(Spending { cost_micro_usd: 300, ..before })[0].cost_micro_usd, -600);
    assert!(changes(Spending::default()).is_empty());
    assert!(changes(before).is_empty());
}
