//! The workbench: a command in the sandbox compared with plain fork and exec and with `bwrap`, REST calls per
//! second, searching a hundred thousand memories, and the daemon's memory for a gigabyte of output.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::daemon::Home;
use crate::machine;
use crate::stats::{median, mib, millis, per_second, percentile, sorted};
use crate::table::{Goal, Table};

const ROUNDS: usize = 5;
const EXECS: usize = 100;
/// The maximum cost of a sandboxed command relative to a plain one, and relative to bwrap.
const PLAIN_MOST: f64 = 5.0;
const BWRAP_MOST: f64 = 0.7;

const CALLS_AT_ONCE: usize = 32;
const CALLS_TIME: Duration = Duration::from_secs(5);
const CALLS_LEAST: f64 = 10_000.0;

const MEMORIES: usize = 100_000;
const SEARCHES: usize = 300;
const SEARCH_MOST_MS: f64 = 20.0;

const OUTPUT_BYTES: u64 = 1 << 30;
const OUTPUT_MOST_KIB: f64 = 32.0 * 1024.0;

/// A persistent connection, as clients use it.
struct Rest {
    stream: TcpStream,
    address: SocketAddr,
    buffer: Vec<u8>,
}

impl Rest {
    async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, address, buffer: Vec::new() })
    }

    async fn post(&mut self, path: &str, body: &Value) -> Result<Value> {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await?;
        let answer = self.answer().await?;
        let value: Value = serde_json::from_slice(&answer)?;
        ensure!(value["error"].is_null(), "{path}: {value}");
        Ok(value)
    }

    /// Reads one response with a known length.
    async fn answer(&mut self) -> Result<Vec<u8>> {
        loop {
            let end = self.buffer.windows(4).position(|window| window == b"\r\n\r\n");
            if let Some(end) = end {
                let head = String::from_utf8_lossy(&self.buffer[..end]).to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let length: usize = length.context("an answer without a length")?.trim().parse()?;
                if self.buffer.len() >= end + 4 + length {
                    let body = self.buffer[end + 4..end + 4 + length].to_vec();
                    self.buffer.drain(..end + 4 + length);
                    return Ok(body);
                }
            }
            let mut piece = [0; 16 * 1024];
            let read = self.stream.read(&mut piece).await?;
            ensure!(read > 0, "the daemon hung up");
            self.buffer.extend_from_slice(&piece[..read]);
        }
    }
}

/// A daemon on a port, and a session on its project.
async fn serving(name: &str) -> Result<(Home, SocketAddr, String)> {
    let mut home = Home::new(name)?;
    home.listen_on_a_port();
    home.start()?;
    let address = home.address()?;
    let started = Rest::connect(address)
        .await?
        .post("/api/v1/session/start", &json!({"project_path": home.project()}))
        .await?;
    let session = started["session_id"].as_str().context("no session")?.to_owned();
    Ok((home, address, session))
}

pub(crate) async fn exec(table: &mut Table) -> Result<()> {
    let (_home, address, session) = serving("exec").await?;
    let mut rest = Rest::connect(address).await?;
    let request = json!({"session_id": session, "cmd": "true"});
    let (mut ours, mut plain, mut bwrap) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        plain.push(each(|| run(&mut Command::new("/bin/true")))?);
        if has_bwrap() {
            bwrap.push(each(|| run(&mut bwrapped()))?);
        }
        let began = Instant::now();
        for _ in 0..EXECS {
            rest.post("/api/v1/safeexec/bash", &request).await?;
        }
        ours.push(millis(began.elapsed()) / EXECS as f64);
    }
    let words = |took: &[f64]| format!("{:.2} ms", median(took));
    let ratios: Vec<f64> = ours.iter().zip(&plain).map(|(ours, plain)| ours / plain).collect();
    table.ratio("SafeExec of true, beside fork+exec", words(&ours), words(&plain), &ratios, Some(PLAIN_MOST));
    if !bwrap.is_empty() {
        let ratios: Vec<f64> = ours.iter().zip(&bwrap).map(|(ours, bwrap)| ours / bwrap).collect();
        table.ratio("SafeExec of true, beside bwrap", words(&ours), words(&bwrap), &ratios, Some(BWRAP_MOST));
    }
    Ok(())
}

/// Milliseconds per run, averaged over many.
fn each(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let began = Instant::now();
    for _ in 0..EXECS {
        work()?;
    }
    Ok(millis(began.elapsed()) / EXECS as f64)
}

fn run(command: &mut Command) -> Result<()> {
    let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    ensure!(done.success(), "{command:?} failed");
    Ok(())
}

fn has_bwrap() -> bool {
    run(&mut bwrapped()).is_ok()
}

/// The bwrap command line for about the same isolation.
fn bwrapped() -> Command {
    let mut command = Command::new("bwrap");
    command.args(["--unshare-all", "--new-session", "--die-with-parent", "--ro-bind", "/usr", "/usr"]);
    for (link, to) in [("/bin", "usr/bin"), ("/lib", "usr/lib"), ("/lib64", "usr/lib64")] {
        command.args(["--symlink", to, link]);
    }
    command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/bash", "-c", "true"]);
    command
}

pub(crate) async fn calls(table: &mut Table) -> Result<()> {
    let (_home, address, session) = serving("calls").await?;
    let request = json!({"session_id": session, "action": "ls -la"});
    let mut callers = tokio::task::JoinSet::new();
    let began = Instant::now();
    for _ in 0..CALLS_AT_ONCE {
        let request = request.clone();
        callers.spawn(async move {
            let mut rest = Rest::connect(address).await?;
            let mut count = 0u64;
            while began.elapsed() < CALLS_TIME {
                rest.post("/api/v1/policy/check", &request).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let mut total = 0;
    while let Some(count) = callers.join_next().await {
        total += count??;
    }
    let rate = total as f64 / began.elapsed().as_secs_f64();
    let goal = Goal::AtLeast(CALLS_LEAST, per_second(CALLS_LEAST));
    table.row("REST calls, each checked and recorded", per_second(rate), String::new(), rate, goal);
    Ok(())
}

pub(crate) async fn memories(table: &mut Table) -> Result<()> {
    let (mut home, address, session) = serving("memories").await?;
    let mut rest = Rest::connect(address).await?;
    for number in 0..SEEDS.len() {
        rest.post("/api/v1/memory/store", &memory(&session, number)).await?;
    }
    home.end()?;
    multiply(&mut Connection::open(home.database())?).context("making memories")?;
    home.start()?;
    let mut rest = Rest::connect(home.address()?).await?;
    let search = |query: &str| json!({"session_id": session, "query": query, "min_confidence": 0.0});
    // The first search loads them.
    rest.post("/api/v1/memory/search", &search("warm up")).await?;
    let mut took = Vec::with_capacity(SEARCHES);
    for number in 0..SEARCHES {
        let query = format!("{} {}", SEEDS[number % SEEDS.len()], number % 97);
        let began = Instant::now();
        rest.post("/api/v1/memory/search", &search(&query)).await?;
        took.push(millis(began.elapsed()));
    }
    let took = sorted(took);
    let p99 = percentile(&took, 0.99);
    let words = format!("p50 {:.1} ms, p99 {p99:.1} ms", percentile(&took, 0.5));
    let goal = Goal::AtMost(SEARCH_MOST_MS, format!("{SEARCH_MOST_MS} ms"));
    table.row("search of 100,000 memories", words, String::new(), p99, goal);
    Ok(())
}

const SEEDS: &[&str] = &[
    "database connection pool runs empty under load",
    "login token expires before the refresh",
    "flaky browser test waits for an element",
    "docker image too large for the registry",
    "kubernetes rollout hangs on readiness probe",
    "memory leak in the request cache",
    "parser fails on utf8 byte order mark",
    "retry with backoff after rate limit",
    "certificate chain incomplete on the proxy",
    "race between two writers of the index",
];

fn memory(session: &str, number: usize) -> Value {
    let seed = SEEDS[number % SEEDS.len()];
    json!({"session_id": session, "title": format!("{seed} {number}"), "description": seed,
        "content": format!("What helped in case {number}: {seed}"), "outcome": "success"})
}

/// Copies the existing memories, each copy with different words in the full-text index.
fn multiply(database: &mut Connection) -> Result<()> {
    let transaction = database.transaction()?;
    let first: i64 = transaction.query_row("SELECT count(*) FROM bench_memories", [], |row| row.get(0))?;
    for number in first..MEMORIES as i64 {
        let from = number % first + 1;
        transaction
            .prepare_cached(
                "INSERT INTO bench_memories (id, tenant, team, project, title, description, content, outcome, confidence,
                    tags, origin, session, created_at, held_at, model, vector)
                 SELECT 'mem_copy' || ?2, tenant, team, project, title, description, content, outcome, confidence, tags,
                    origin, session, created_at, held_at, model, vector FROM bench_memories WHERE key = ?1",
            )?
            .execute([from, number])?;
        let key = transaction.last_insert_rowid();
        let seed = SEEDS[usize::try_from(from - 1)? % SEEDS.len()];
        transaction
            .prepare_cached(
                "INSERT INTO bench_memory_words (rowid, title, description, content, tags) VALUES (?1, ?2, ?3, ?4, '')",
            )?
            .execute(rusqlite::params![key, format!("{seed} {}", number % 997), seed, format!("case {number}")])?;
    }
    Ok(transaction.commit()?)
}

pub(crate) async fn output(table: &mut Table) -> Result<()> {
    let (home, address, session) = serving("output").await?;
    let mut rest = Rest::connect(address).await?;
    rest.post("/api/v1/safeexec/bash", &json!({"session_id": session, "cmd": "seq 1 200000"})).await?;
    let pid = home.pid()?;
    let before = machine::status(pid, "RssAnon")?;
    let command = format!("yes 'cc -O2 -c src/main.c -o main.o  # 0.3 s' | head -c {OUTPUT_BYTES}");
    let request = json!({"session_id": session, "cmd": command, "timeout": 300});
    let began = Instant::now();
    let mut most = before;
    let mut look = tokio::time::interval(Duration::from_millis(20));
    let sending = rest.post("/api/v1/safeexec/bash", &request);
    tokio::pin!(sending);
    let answer = loop {
        tokio::select! {
            answer = &mut sending => break answer?,
            _ = look.tick() => most = most.max(machine::status(pid, "RssAnon")?),
        }
    };
    ensure!(answer["exit_code"] == 0, "{answer}");
    let rate = OUTPUT_BYTES as f64 / 1e6 / began.elapsed().as_secs_f64();
    let grown = most.saturating_sub(before);
    let words = format!("{} at {rate:.0} MB/s", mib(grown));
    let goal = Goal::AtMost(OUTPUT_MOST_KIB, "32 MiB".to_owned());
    table.row("memory for 1 GB of output", words, String::new(), grown as f64, goal);
    Ok(())
}
