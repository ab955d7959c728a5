//! A real browser with a page that wants in: from another origin, and by making its own name mean this machine while it
//! is open. Whatever it sends is refused, and nothing was executed.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};
use axum::Router;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use e2e::cli::Cli;
use e2e::daemon::Daemon;
use e2e::deadline::poll;
use e2e::http;
use e2e::tools;
use e2e::world::World;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// What pages are served and what they have told.
#[derive(Clone, Default)]
struct Teller(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    page: String,
    attack: String,
    going: bool,
    heard: Vec<Value>,
}

impl Teller {
    fn change<T>(&self, work: impl FnOnce(&mut Told) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Waits until a page has told something under a name.
    async fn told(&self, name: &str) -> Result<Value> {
        let look = || self.change(|told| told.heard.iter().find(|told| told["name"] == name).cloned());
        Ok(poll(&format!("what a page tells of {name}"), look).await?["value"].clone())
    }
}

/// Lets pages of every origin read the answer; it is the test's own server.
fn open(answer: impl IntoResponse) -> Response {
    let mut answer = answer.into_response();
    answer.headers_mut().insert("access-control-allow-origin", http_header("*"));
    answer
}

fn http_header(value: &'static str) -> ::http::HeaderValue {
    ::http::HeaderValue::from_static(value)
}

async fn serve(teller: Teller) -> Result<(SocketAddr, JoinHandle<()>)> {
    let router = Router::new()
        .route("/", get(async |State(teller): State<Teller>| Html(teller.change(|told| told.page.clone()))))
        .route(
            "/attack",
            get(async |State(teller): State<Teller>| Html(teller.change(|told| told.attack.clone()))),
        )
        .route(
            "/go",
            get(async |State(teller): State<Teller>| {
                open(if teller.change(|told| told.going) { "go" } else { "wait" })
            }),
        )
        .route(
            "/tell",
            post(async |State(teller): State<Teller>, body: String| {
                let value: Value = serde_json::from_str(&body).unwrap_or_default();
                teller.change(|told| told.heard.push(value));
                open("")
            }),
        )
        .with_state(teller);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let serving = tokio::spawn(async move {
        // It ends with the test.
        let _ = axum::serve(listener, router).await;
    });
    Ok((address, serving))
}

fn page(name: &str, teller: SocketAddr, port: u16, project: &str) -> Result<String> {
    let text = std::fs::read_to_string(tools::repository().join("e2e/tests/browser").join(name))?;
    let teller = format!("http://{teller}");
    Ok(text.replace("TELLER", &teller).replace("PORT", &port.to_string()).replace("PROJECT", project))
}

/// A browser of the world's own. Every name ending in `.test` is this machine's, and no other name is anything.
fn browser(world: &World) -> Result<Option<tokio::process::Command>> {
    let Some(browser) = tools::browser()? else { return Ok(None) };
    let profile = world.path("tmp/profile");
    let mut command = tokio::process::Command::from(world.command(&browser));
    // What the package would add, such as --disable-web-security, is left out on purpose.
    command
        .args(["--headless=shell", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"])
        .args(["--disable-background-networking", "--disable-component-update", "--no-pings", "--no-zygote"])
        .arg("--host-resolver-rules=MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1")
        .arg(format!("--user-data-dir={}", profile.display()))
        .env("LD_LIBRARY_PATH", browser.parent().unwrap_or(&browser).join("al2023/lib"))
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(world.path("tmp/browser.log"))?)
        .process_group(0)
        .kill_on_drop(true);
    Ok(Some(command))
}

#[tokio::test]
async fn a_real_page_on_another_origin_tries_everything_and_fails() -> Result<()> {
    let world = World::new()?;
    world.set_env("OBEY_LOG", "debug");
    let project = world.project().display().to_string();
    let (lure, teller) = (Teller::default(), Teller::default());
    let (address, luring) = serve(lure.clone()).await?;
    let (told_at, _telling) = serve(teller.clone()).await?;
    let port = address.port();
    lure.change(|told| told.page = page("rebound.html", told_at, port, &project).unwrap_or_default());
    teller.change(|told| told.attack = page("attack.html", told_at, port, &project).unwrap_or_default());
    let Some(mut command) = browser(&world)? else { return Ok(()) };
    command.args(["--remote-debugging-port=0", &format!("http://evil.test:{port}/")]);
    let mut browser = command.spawn().context("starting the browser")?;
    let seen = || std::fs::read_to_string(world.path("tmp/browser.log")).unwrap_or_default();
    let ready = teller.told("ready").await.with_context(seen)?;
    ensure!(ready == format!("http://evil.test:{port}"), "{ready}");
    // The name and the port now mean something else.
    luring.abort();
    let _ = luring.await;
    let mut daemon = Daemon::start_with(&world, &["--listen", &format!("127.0.0.1:{port}")]).await?;
    teller.change(|told| told.going = true);
    let rebound = teller.told("rebound").await.with_context(seen)?;
    for (what, outcome) in rebound.as_object().context("no outcomes")? {
        let refused = *outcome == json!(403) || *outcome == json!("refused");
        ensure!(refused, "a page whose name was made ours: {what}: {outcome}");
    }
    let attack = teller.told("attack").await.with_context(seen)?;
    for (base, outcomes) in attack.as_object().context("no outcomes")? {
        for (what, outcome) in outcomes.as_object().with_context(|| format!("{base}: {outcomes}"))? {
            // Some things are sent whatever we say; what matters is that they did nothing and told nothing.
            let harmless = ["blocked", "opaque", "sent", "sent, answer hidden"]
                .contains(&outcome.as_str().unwrap_or_default());
            ensure!(harmless, "{base}: {what}: {outcome}");
        }
    }
    let refusals = daemon.log().matches("refused a request").count();
    println!(
        "a page tried {} things; {refusals} requests came through and were refused",
        count(&attack) + count(&rebound)
    );
    ensure!(refusals >= 40, "too few came through to show anything: {refusals}\n{attack:#}");
    // Nothing was executed, nothing was made, nobody started anything.
    let cli = Cli::new(&world);
    let rows = cli.ok(&["audit", "tail", "-n", "0", "--json"]).await?.json_lines()?;
    let is_refusal = |row: &Value| row["caller"] == "stranger" && row["outcome"] == "OBEY-1002";
    ensure!(rows.iter().all(is_refusal), "{rows:#?}");
    let made: Vec<_> =
        std::fs::read_dir(world.project())?.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
    ensure!(made.iter().all(|name| !name.to_string_lossy().starts_with("made")), "{made:?}");
    // The same request from where it may come does what it says: there was something to gain.
    let body = json!({"cmd": "touch made", "session_id": "sess_page", "working_dir": project});
    let address: SocketAddr = ([127, 0, 0, 1], port).into();
    let answer = http::send(address, "POST", "/api/v1/safeexec/bash", Some(&body.to_string())).await?;
    ensure!(answer.status == 200 && world.project().join("made").exists(), "{}", answer.body);
    end(&mut browser).await;
    daemon.terminate().await?;
    daemon.assert_no_descendants().await
}

fn count(outcomes: &Value) -> usize {
    match outcomes {
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 1,
    }
}

/// Ends the browser and the processes it started.
async fn end(browser: &mut tokio::process::Child) {
    if let Some(pid) = browser.id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed())) {
        // It may have ended by itself.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    let _ = browser.wait().await;
}
