//! Follows one session live for a person: shows events, asks about requests or explains how to answer them,
//! and returns everything else to its caller (`send`, `attach`, `demo`).

use std::time::Duration;

use domain::{Decision, EventKind, any_event};
use tokio::time::{Interval, MissedTickBehavior};

use crate::console::Console;
use crate::limits;
use crate::output::TextStyle;
use crate::request_prompts::{OpenRequest, RequestPrompts, TypedReply};
use crate::view::LiveView;
use client::answers::{self, AnsweredRequest, Granted, PermissionDecision};
use client::connection::Client;
use client::events::LogEvent;
use client::feed::{Feed, FeedItem};
use client::seen;
use config::failure::{Failure, Result};

/// How requests are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requests {
    /// Ask the person.
    Ask,
    /// Print the commands that answer it, and keep waiting.
    Tell,
    /// Approve permissions at once, and report that.
    Allow,
    /// Deny everything: no person is there to check.
    Deny,
}

/// What needs a decision of the caller.
#[derive(Debug)]
pub enum Happened {
    /// It was already shown.
    Event(Box<LogEvent>),
    /// A line that is not an answer.
    Line(String),
    /// The input has ended.
    InputEnded,
    Interrupt,
    /// The session has ended, and its log with it.
    SessionEnded,
}

/// A session followed live.
pub struct Conversation<'a> {
    pub console: &'a mut Console,
    pub client: Client,
    pub session: String,
    pub view: LiveView,
    pub asking: RequestPrompts,
    /// Words that are commands of the caller, also while a request waits for an answer.
    pub commands: &'static [&'static str],
    feed: Feed,
    requests: Requests,
    input_open: bool,
    ticks: Interval,
    /// After how long the end of a turn rings the terminal; `None`: nothing rings.
    ring_after: Option<Duration>,
    /// The sequence numbers of our own prompts; they need not be shown again.
    own_prompts: Vec<u64>,
}

impl<'a> Conversation<'a> {
    /// Follows a session, starting after an event.
    pub fn new(
        console: &'a mut Console,
        client: Client,
        session: String,
        after: u64,
        requests: Requests,
    ) -> Self {
        console.interrupts.listen();
        if requests == Requests::Ask {
            console.open_prompt();
        }
        // A configuration that cannot be read was reported when the daemon was looked for.
        let notices = console.config().map(|config| config.notices).unwrap_or_default();
        let ring_after = notices.bell.then(|| Duration::from_secs(notices.done_after_secs));
        let mut ticks = tokio::time::interval(limits::STATUS_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            feed: Feed::follow(&client, &session, after),
            input_open: requests == Requests::Ask,
            view: LiveView::default(),
            asking: RequestPrompts::default(),
            commands: &[],
            console,
            client,
            session,
            requests,
            ticks,
            ring_after,
            own_prompts: Vec::new(),
        }
    }

    /// Records that a prompt was sent from here.
    pub fn sent(&mut self, accepted: &wire::obey::v1::PromptResponse) {
        self.own_prompts.push(accepted.seq);
        if !self.view.is_working() {
            self.view.begin_turn();
        }
    }

    /// Handles the requests that were already pending.
    pub async fn take_up_requests(&mut self) -> Result<()> {
        for request in answers::list(&self.client, &self.session, false).await? {
            self.request_opened(OpenRequest::of_request(&request)).await?;
        }
        Ok(())
    }

    /// Waits for the next item that needs a decision. Everything else is shown and answered here.
    pub async fn next(&mut self) -> Result<Happened> {
        loop {
            tokio::select! {
                // Interrupts have priority. Events come before lines, so that a line typed after a request
                // was settled elsewhere does not answer the next one.
                biased;
                () = self.console.interrupts.next() => return Ok(Happened::Interrupt),
                item = self.feed.next() => {
                    if let Some(happened) = self.take_item(item).await? {
                        return Ok(happened);
                    }
                }
                line = self.console.input.line(), if self.input_open => {
                    if let Some(happened) = self.take_line(line).await? {
                        return Ok(happened);
                    }
                }
                _ = self.ticks.tick() => self.view.tick(&mut self.console.out)?,
            }
        }
    }

    /// Cancels the running turn.
    pub async fn cancel_turn(&mut self) -> Result<bool> {
        let request =
            wire::obey::v1::CancelTurnRequest { session_id: self.session.clone(), ..Default::default() };
        Ok(self.client.turns().cancel_turn(request).await?.into_inner().cancelled)
    }

    /// Prints a note for the person. It does not interrupt the agent's text in a pipe.
    pub fn note(&mut self, style: TextStyle, text: &str) -> Result<()> {
        self.console.out.note(style, text)
    }

    /// Handles an item of the feed. Returns what the caller must know of.
    async fn take_item(&mut self, item: Option<FeedItem>) -> Result<Option<Happened>> {
        match item {
            None => {
                self.view.close(&mut self.console.out)?;
                Ok(Some(Happened::SessionEnded))
            }
            Some(FeedItem::Failed(failure)) => Err(failure),
            Some(FeedItem::Lost) => {
                self.note(TextStyle::Warn, "connection lost; the session goes on, trying again…")?;
                Ok(None)
            }
            Some(FeedItem::Back) => {
                self.note(TextStyle::Dim, "connected again; nothing was missed")?;
                Ok(None)
            }
            Some(FeedItem::Event(event)) => {
                if self.console.out.json || !self.own_prompts.contains(&event.seq) {
                    self.view.show(&mut self.console.out, &event)?;
                }
                if matches!(event.kind, Some(EventKind::TurnEnded { .. }))
                    && self.ring_after.is_some_and(|least| self.view.last_turn_took() >= least)
                {
                    self.console.out.ring("the agent is done")?;
                }
                match &event.kind {
                    Some(EventKind::RequestOpened { request, ask, automatic: false, proposals, .. }) => {
                        if let Some(open) = OpenRequest::of_event(request.to_string(), ask, proposals) {
                            self.request_opened(open).await?;
                        }
                    }
                    Some(EventKind::RequestSettled { request, outcome, by, .. }) => {
                        self.request_settled(&request.to_string(), outcome.word(), by)?;
                    }
                    Some(EventKind::TurnEnded { .. }) => {
                        seen::mark(&self.client, &self.session, event.seq).await;
                    }
                    None
                    | Some(
                        any_event!(
                            life TurnStarted InterruptRequested MessageAdded output RequestOpened GrantsChanged
                            settings plan usage worker report
                        ),
                    ) => {}
                }
                self.console.out.ask_again()?;
                Ok(Some(Happened::Event(event)))
            }
        }
    }

    /// Handles a typed line: an answer to the open question, or a line for the caller.
    async fn take_line(&mut self, line: Option<String>) -> Result<Option<Happened>> {
        let Some(line) = line else {
            self.input_open = false;
            return Ok(Some(Happened::InputEnded));
        };
        self.console.out.answered();
        if line.split_whitespace().next().is_some_and(|word| self.commands.contains(&word)) {
            return Ok(Some(Happened::Line(line)));
        }
        let Some(reply) = self.asking.take(&line) else { return Ok(Some(Happened::Line(line))) };
        match reply {
            TypedReply::Next => {}
            TypedReply::ShowInput => self.show_detail(true)?,
            TypedReply::Edit { request } => self.edit(&request).await?,
            TypedReply::Show(lines) => {
                for line in lines {
                    self.console.out.say(TextStyle::Dim, &line)?;
                }
            }
            TypedReply::Decide { request, decision, message, grant: proposal } => {
                let grant = Granted { proposal, ..Granted::default() };
                let verdict = PermissionDecision { message, grant, ..PermissionDecision::of(decision) };
                let to =
                    AnsweredRequest { session: &self.session, request: &request, by: &self.console.person() };
                let sent = answers::decide(&self.client, to, verdict).await;
                self.answered(&request, sent)?;
            }
            TypedReply::Answer { request, answers } => {
                let to =
                    AnsweredRequest { session: &self.session, request: &request, by: &self.console.person() };
                let sent = answers::answer(&self.client, to, answers).await;
                self.answered(&request, sent)?;
            }
        }
        self.ask()?;
        Ok(None)
    }

    /// Shows the input of the request that is being asked about.
    fn show_detail(&mut self, all: bool) -> Result<()> {
        let width = self.console.out.text_width();
        let lines = self.asking.current().map(|open| open.detail(width, all)).unwrap_or_default();
        lines.iter().try_for_each(|line| self.console.out.say_rendered(line))
    }

    /// Lets the person edit the input, and allows what they made of it. Nothing is answered if it stays as it was.
    async fn edit(&mut self, request: &str) -> Result<()> {
        let Some(open) = self.asking.current().cloned() else { return Ok(()) };
        let Some((text, suffix)) = open.editable() else { return Ok(()) };
        let edited = match self.console.edit(&text, suffix).await {
            Ok(edited) => edited,
            Err(failure) => return self.console.out.say(TextStyle::Bad, &failure.for_people()),
        };
        if edited.trim_end() == text.trim_end() {
            return self.console.out.say(TextStyle::Dim, "  It was not changed; nothing is answered.");
        }
        let input = match open.edited(&edited) {
            Ok(input) => input,
            Err(problem) => {
                return self.console.out.say(TextStyle::Bad, &format!("  {problem}; type e again"));
            }
        };
        let verdict = PermissionDecision { input, ..PermissionDecision::of(Decision::AllowOnce) };
        let to = AnsweredRequest { session: &self.session, request, by: &self.console.person() };
        let sent = answers::decide(&self.client, to, verdict).await;
        self.answered(request, sent)
    }

    /// Reports the result of an answer. An answer that came too late does not end the conversation.
    fn answered(&mut self, request: &str, sent: Result<wire::obey::v1::AnswerResponse>) -> Result<()> {
        self.asking.remove(request);
        match sent {
            Ok(response) => {
                self.console.out.note(TextStyle::Dim, &format!("  {}", answers::outcome(&response)))
            }
            Err(failure) if failure.is_connection_lost() => Err(failure),
            Err(failure) => self.console.out.say(TextStyle::Warn, &format!("  {}", failure.message)),
        }
    }

    /// Handles a new request: asks, explains how to answer, denies or allows it.
    async fn request_opened(&mut self, open: OpenRequest) -> Result<()> {
        let session = self.session.clone();
        match self.requests {
            Requests::Ask => {
                if self.ring_after.is_some() {
                    self.console.out.ring(&open.summary())?;
                }
                if self.asking.add(open) {
                    self.ask()?;
                }
                Ok(())
            }
            Requests::Tell => {
                self.tell(&open)?;
                self.asking.add(open);
                Ok(())
            }
            Requests::Deny => {
                self.note(TextStyle::Warn, &format!("? {}", open.summary()))?;
                self.note(TextStyle::Dim, "  Denied: a test lets no agent do anything.")?;
                let to = AnsweredRequest { session: &session, request: &open.id, by: "obey agents test" };
                answers::decide(&self.client, to, PermissionDecision::of(Decision::Deny)).await?;
                Ok(())
            }
            Requests::Allow => {
                self.note(TextStyle::Warn, &format!("? {}", open.summary()))?;
                self.note(
                    TextStyle::Dim,
                    "  Allowed by the demo; you would answer it here, or from anywhere with:",
                )?;
                for command in open.commands(&session) {
                    self.note(TextStyle::Dim, &format!("    {command}"))?;
                }
                let allowed = PermissionDecision::of(Decision::AllowOnce);
                let to = AnsweredRequest { session: &session, request: &open.id, by: "obey demo" };
                answers::decide(&self.client, to, allowed).await?;
                Ok(())
            }
        }
    }

    /// Prints how a request can be answered. Also in quiet mode: without an answer there will be no result.
    fn tell(&mut self, open: &OpenRequest) -> Result<()> {
        if self.console.out.json {
            return Ok(());
        }
        self.console.out.say(TextStyle::Warn, &format!("? {}", client::format::one_line(&open.summary())))?;
        let width = self.console.out.text_width();
        for line in open.detail(width, false) {
            self.console.out.say_rendered(&line)?;
        }
        for command in open.commands(&self.session) {
            self.console.out.say(TextStyle::Warn, &format!("  answer with: {command}"))?;
        }
        Ok(())
    }

    /// Removes a settled request and reports its outcome.
    fn request_settled(&mut self, id: &str, outcome: &str, by: &str) -> Result<()> {
        let waiting = self.asking.all().any(|open| open.id == id);
        let asked = self.asking.remove(id);
        if asked && self.requests == Requests::Ask {
            self.console.out.withdraw()?;
        }
        if waiting {
            let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
            self.note(TextStyle::Dim, &format!("  {id} {outcome}{by}"))?;
        }
        if asked { self.ask() } else { Ok(()) }
    }

    /// Asks about the first pending request.
    pub fn ask(&mut self) -> Result<()> {
        if self.requests != Requests::Ask {
            return Ok(());
        }
        let Some((lines, prompt)) = self.asking.prompt() else { return Ok(()) };
        self.view.close(&mut self.console.out)?;
        let mut lines = lines.into_iter();
        if let Some(first) = lines.next() {
            self.console.out.say(TextStyle::Warn, &first)?;
        }
        self.show_detail(false)?;
        for line in lines {
            self.console.out.say(TextStyle::Warn, &line)?;
        }
        self.console.out.ask(&prompt)
    }
}

impl Drop for Conversation<'_> {
    fn drop(&mut self) {
        self.console.close_prompt();
    }
}

/// Returns the error for a session that ended before an awaited turn.
pub fn ended_early(session: &str) -> Failure {
    let mut failure = Failure::failed(format!("the session {session} ended before the turn did"))
        .with_hint(format!("what happened: obey session log {session}"));
    failure.exit = config::exit::Exit::TURN_FAILED;
    failure
}
