//! A gateway that is lost in the middle of a turn: it dies and comes back as another process, or only the connection to it
//! is cut while somebody answers.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use e2e::clients::collect;
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use wire::obey::local::v1 as pb;
use wire::obey::v1 as own;

use super::{GATEWAY, Gateway};
use crate::stage::{Agent, Scenario, contents, fields, of_type, stage};

pub(super) const ALL: &[Scenario] = &[
    ("a_permission_answered_while_the_connection_is_lost_reaches_the_gateway", |agent| {
        Box::pin(a_permission_answered_while_the_connection_is_lost_reaches_the_gateway(agent))
    }),
    ("a_turn_ends_when_its_gateway_dies_and_the_next_one_works", |agent| {
        Box::pin(a_turn_ends_when_its_gateway_dies_and_the_next_one_works(agent))
    }),
    ("a_turn_that_a_gateway_took_up_unseen_is_ended", |agent| {
        Box::pin(a_turn_that_a_gateway_took_up_unseen_is_ended(agent))
    }),
];

fn gateway() -> Result<&'static Gateway> {
    GATEWAY.get().and_then(Option::as_ref).context("no gateway")
}

fn says(word: &'static str) -> impl Fn(&Value) -> bool {
    move |event| event["message"].as_str().is_some_and(|text| text.contains(word))
}

/// A way to the gateway that can be cut and mended.
struct Line {
    address: SocketAddr,
    open: Arc<watch::Sender<bool>>,
}

impl Line {
    async fn lay(port: u16) -> Result<Line> {
        let heard = TcpListener::bind("127.0.0.1:0").await?;
        let address = heard.local_addr()?;
        let open = Arc::new(watch::Sender::new(true));
        let state = Arc::clone(&open);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = heard.accept().await {
                let mut open = state.subscribe();
                tokio::spawn(async move {
                    if !*open.borrow_and_update() {
                        return;
                    }
                    let Ok(mut far) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut far) => {}
                        _ = open.changed() => {}
                    }
                });
            }
        });
        Ok(Line { address, open })
    }

    fn cut(&self) {
        self.open.send_replace(false);
    }

    fn mend(&self) {
        self.open.send_replace(true);
    }
}

async fn a_permission_answered_while_the_connection_is_lost_reaches_the_gateway(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let line = Line::lay(gateway()?.port).await?;
    let mut request = stage.new_session();
    request.provider_config.insert("gateway_url".into(), format!("ws://{}", line.address));
    let id = stage.create_as(request).await?.id;
    let steps = json!([{"tool": "exec", "input": {"command": "touch heard.txt"}}, {"text": "it was heard"}]);
    let turn = stage.send(&id, &super::script("heard", &steps)).await?;
    let request = stage.wait_for_request(&id).await?;
    line.cut();
    stage.wait_for(&id, "notice", says("OBEY-2032")).await?;
    stage.decide(&id, &request.id, own::Decision::AllowOnce).await?;
    line.mend();
    let events = collect(turn).await?;
    ensure!(contents(&events, pb::ActivityType::Completion).contains("it was heard"), "{events:#?}");
    let results = of_type(&events, pb::ActivityType::ToolResult);
    ensure!(results.len() == 1 && results[0].tool_success, "{events:#?}");
    ensure!(
        gateway()?.world.project().join("heard.txt").exists()
            || stage.world.project().join("heard.txt").exists()
    );
    ensure!(stage.requests(&id, true).await?.len() == 1, "it was asked twice");
    stage.close().await
}

async fn a_turn_ends_when_its_gateway_dies_and_the_next_one_works(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let gateway = gateway()?;
    let id = stage.create().await?;
    let steps = json!([[{"text": "half a "}, {"hang": true}]]);
    let turn = stage.send(&id, &super::script("midway", &steps)).await?;
    stage.world.model().wait_for_request(|request| request.key.contains("midway")).await?;
    gateway.end()?;
    stage.wait_for(&id, "notice", says("OBEY-2032")).await?;
    gateway.begin()?;
    gateway.wait().await?;
    // The turn's own end says why.
    let events = collect(turn).await;
    let ended = stage.wait_for(&id, "turn_ended", |_| true).await?;
    ensure!(ended["reason"] == "failed", "{ended:#} {events:#?}");
    ensure!(ended["error"].as_str().is_some_and(|error| error.contains("OBEY-2032")), "{ended:#}");
    stage.wait_for(&id, "notice", says("is back")).await?;
    let next = stage.turn(&id, &super::script("onward", &json!([{"text": "a whole answer"}]))).await?;
    ensure!(contents(&next, pb::ActivityType::Completion).contains("a whole answer"), "{next:#?}");
    let journal = stage.journal(&id).await?;
    let turns: Vec<Value> = journal.iter().filter(|event| event.r#type == "turn_ended").map(fields).collect();
    ensure!(turns.len() == 2 && turns[1]["reason"] == "completed", "{turns:#?}");
    stage.close().await
}

async fn a_turn_that_a_gateway_took_up_unseen_is_ended(agent: Agent) -> Result<()> {
    let stage = stage!(agent);
    let gateway = gateway()?;
    let line = Line::lay(gateway.port).await?;
    let mut request = stage.new_session();
    request.provider_config.insert("gateway_url".into(), format!("ws://{}", line.address));
    let id = stage.create_as(request).await?.id;
    let steps = json!([[{"text": "half a "}, {"hang": true}]]);
    let turn = stage.send(&id, &super::script("unseen", &steps)).await?;
    let model = stage.world.model();
    model.wait_for_request(|request| request.key.contains("unseen")).await?;
    line.cut();
    gateway.end()?;
    stage.wait_for(&id, "notice", says("OBEY-2032")).await?;
    gateway.begin()?;
    gateway.wait().await?;
    // It asks the model again, for nobody.
    let asks_again = |body: &Value| body.to_string().contains("interrupted by a gateway restart");
    model.wait_for_request(|request| asks_again(&request.body)).await?;
    line.mend();
    collect(turn).await.ok();
    stage.wait_for(&id, "notice", says("is back")).await?;
    let next = stage.turn(&id, &super::script("onward", &json!([{"text": "a whole answer"}]))).await?;
    ensure!(contents(&next, pb::ActivityType::Completion).contains("a whole answer"), "{next:#?}");
    stage.close().await
}
