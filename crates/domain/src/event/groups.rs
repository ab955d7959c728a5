//! The groups of event kinds. A `match` over kinds names the ones it handles and, with `any_event!`, the ones it leaves
//! out: as whole groups where it handles none of a group, else one by one. So whoever adds a kind to a group that a
//! fold handles is led there by the compiler. The tidy rule `events` refuses a wildcard in place of it.

/// A pattern for any of the groups and kinds that are listed, without a separator: `any_event!(life turn TextDelta)`.
#[macro_export]
macro_rules! any_event {
    // What became of the session and its agent.
    (@ life) => { $crate::any_event!(
        SessionCreated StatusChanged AgentStarted AgentReady AgentExited AgentLogged Restarted
    ) };
    // What was asked of the agent, and when it was done.
    (@ turn) => { $crate::any_event!(TurnStarted InterruptRequested MessageAdded TurnEnded) };
    // What the agent says and does.
    (@ output) => { $crate::any_event!(TextDelta ThinkingDelta ToolStarted ToolProgress ToolFinished) };
    // What somebody must allow or answer.
    (@ request) => { $crate::any_event!(RequestOpened RequestSettled GrantsChanged) };
    // What holds until it is changed.
    (@ settings) => { $crate::any_event!(
        Renamed TodosChanged ModeChanged PlanModeChanged ModelChanged CommandsChanged ServersChanged
        ToolsRegistered InputHolderChanged
    ) };
    // What is planned for the session, and what it may spend.
    (@ plan) => { $crate::any_event!(
        QueueChanged BudgetChanged RateLimited RateLimitEnded ArchiveChanged SessionForked
    ) };
    // What the model's context took.
    (@ usage) => { $crate::any_event!(UsageReported Compacted) };
    // What other agents do for this one.
    (@ worker) => { $crate::any_event!(WorkerStarted WorkerProgressed WorkerFinished) };
    // What is told as text.
    (@ report) => { $crate::any_event!(Notice ActivityReported Unparsed) };
    (@ $kind:ident) => { $crate::EventKind::$kind { .. } };
    ($($name:ident)+) => { $($crate::any_event!(@ $name))|+ };
}

#[cfg(test)]
mod tests {
    use crate::EventKind;

    /// Compiles only while every kind is in a group, and without a warning only while none is in two.
    #[deny(unreachable_patterns)]
    fn group(kind: &EventKind) -> &'static str {
        match kind {
            any_event!(life) => "life",
            any_event!(turn) => "turn",
            any_event!(output) => "output",
            any_event!(request) => "request",
            any_event!(settings) => "settings",
            any_event!(plan) => "plan",
            any_event!(usage) => "usage",
            any_event!(worker) => "worker",
            any_event!(report) => "report",
        }
    }

    #[test]
    fn every_kind_is_in_one_group() {
        assert_eq!(group(&EventKind::RateLimitEnded {}), "plan");
        assert_eq!(group(&EventKind::PlanModeChanged { on: true }), "settings");
    }
}
