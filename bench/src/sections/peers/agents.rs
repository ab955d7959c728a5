//! Supervisors of agents: ours beside sandbox-agent, with the same stub agent of the Agent Client Protocol behind both, and the
//! agent alone at a pipe.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::{Rounds, lost};
use crate::daemon::Home;
use crate::emitter::Script;
use crate::machine::{cpu, status};
use crate::rivals::Rival;
use crate::sides::{GrpcSide, PipeSide, RivalSide, Side};
use crate::stats::{median, micros, millis, percentile, sorted};
use crate::table::{Goal, Table};
use crate::tokens::Tokens;

const ROUNDS: usize = 5;
const BURST: u64 = 50_000;
const STARTS: usize = 10;
const MANY: usize = 100;
const READERS: usize = 32;

pub(super) fn run(table: &mut Table) -> Result<()> {
    let mut rival = match Rival::sandbox_agent() {
        Ok(rival) => rival,
        Err(error) => {
            println!(
                "   sandbox-agent cannot be run, so P1, P3 to P5 and P7 to P13 have no rival: {error:#}"
            );
            return Ok(());
        }
    };
    let (home, campaign) = daemon()?;
    paced(table, &home, &campaign, &mut rival)?;
    burst(table, &home, &campaign, &mut rival)?;
    slow_reader(table, &home, &campaign, &mut rival)?;
    fan_out(table, &home, &campaign, &mut rival)?;
    beginnings(table, &home, &campaign, &mut rival)?;
    many(table, &home, &campaign, &mut rival)?;
    drop((home, rival));
    starts(table)
}

/// Starts a daemon with a project.
fn daemon() -> Result<(Home, String)> {
    let mut home = Home::new("peers")?;
    home.start()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let campaign = runtime.block_on(async {
        let peer = home.peer().await?;
        home.campaign(&peer).await
    })?;
    Ok((home, campaign))
}

/// P1, and the processor time of P4, for chunks that come alone.
fn paced(table: &mut Table, home: &Home, campaign: &str, rival: &mut Rival) -> Result<()> {
    let mut grpc = GrpcSide::open(home, campaign)?;
    let mut editor = PipeSide::obey_acp(home)?;
    let mut pipe = PipeSide::alone(&home.project())?;
    let mut theirs = RivalSide::open(rival.open_acp()?)?;
    for (rate, chunks, gap) in
        [("100/s", 300, Duration::from_millis(10)), ("1,000/s", 2_000, Duration::from_millis(1))]
    {
        let script = Script::paced(chunks, gap);
        let mut figures = [(); 6].map(|()| Rounds::default());
        let (mut floors, mut gone) = (Vec::new(), (0, 0));
        for round in 0..=ROUNDS {
            let floor = pipe.turn(&script)?;
            let used = (cpu(home.pid()?)?, cpu(rival.pid())?);
            let ours = grpc.turn(&script)?;
            let between = cpu(home.pid()?)?;
            let beside = theirs.turn(&script)?;
            let rival_used = cpu(rival.pid())? - used.1;
            let acp = editor.turn(&script)?;
            // The first round is a warm-up and does not count.
            if round == 0 {
                continue;
            }
            gone.0 += ours.lost(chunks) + acp.lost(chunks);
            gone.1 += beside.lost(chunks);
            let each = |used: Duration| used.as_secs_f64() * 1e6 / chunks as f64;
            let shares = |tokens: Tokens| {
                let ages = sorted(tokens.ages);
                (percentile(&ages, 0.5), percentile(&ages, 0.99))
            };
            let (ours, acp, beside) = (shares(ours), shares(acp), shares(beside));
            floors.push(shares(floor).0);
            let pairs = [
                (ours.0, beside.0),
                (ours.1, beside.1),
                (acp.0, beside.0),
                (acp.1, beside.1),
                (each(between - used.0), each(rival_used)),
                (ours.0 - floors[round - 1], beside.0 - floors[round - 1]),
            ];
            for (figure, (ours, theirs)) in figures.iter_mut().zip(pairs) {
                figure.ours.push(ours);
                figure.theirs.push(theirs);
            }
        }
        let [p50, p99, acp50, acp99, processor, added] = &figures;
        p50.lower(table, &format!("P1 chunk at {rate}, gRPC, p50"), "µs", Some(1.0));
        p99.lower(table, &format!("P1 chunk at {rate}, gRPC, p99"), "µs", Some(0.8));
        acp50.lower(table, &format!("P1 chunk at {rate}, obey acp, p50"), "µs", Some(1.3));
        acp99.lower(table, &format!("P1 chunk at {rate}, obey acp, p99"), "µs", Some(0.8));
        added.lower(
            table,
            &format!("P1 chunk at {rate}, over the bare pipe ({})", micros(median(&floors))),
            "µs",
            None,
        );
        processor.lower(table, &format!("P4 processor time of a chunk at {rate}"), "µs", None);
        lost(table, &format!("P5 chunks at {rate}"), gone.0, gone.1);
    }
    grpc.stop()
}

/// P3, and P4 in bursts.
fn burst(table: &mut Table, home: &Home, campaign: &str, rival: &mut Rival) -> Result<()> {
    let script = Script::burst(BURST);
    let (mut rates, mut costs, mut gone) = (Rounds::default(), Rounds::default(), (0, 0));
    for _ in 0..ROUNDS {
        let (mut grpc, mut theirs) = (GrpcSide::open(home, campaign)?, RivalSide::open(rival.open_acp()?)?);
        let used = cpu(home.pid()?)?;
        let ours = grpc.turn(&script)?;
        let own_cost = cpu(home.pid()?)? - used;
        let used = cpu(rival.pid())?;
        let beside = theirs.turn(&script)?;
        let rival_cost = cpu(rival.pid())? - used;
        gone.0 += ours.lost(BURST) + ours.out_of_order;
        gone.1 += beside.lost(BURST) + beside.out_of_order;
        rates.ours.push(ours.rate());
        rates.theirs.push(beside.rate());
        costs.ours.push(own_cost.as_secs_f64() * 1e6 / BURST as f64);
        costs.theirs.push(rival_cost.as_secs_f64() * 1e6 / BURST as f64);
        grpc.stop()?;
    }
    rates.higher(table, "P3 burst of 50,000 chunks", "k/s", Some(0.1));
    costs.lower(table, "P4 processor time of a chunk in a burst", "µs", Some(0.125));
    lost(table, &format!("P3 {ROUNDS} bursts of 50,000"), gone.0, gone.1);
    Ok(())
}

/// P5: a reader that reads slowly beside one that reads at once.
fn slow_reader(table: &mut Table, home: &Home, campaign: &str, rival: &mut Rival) -> Result<()> {
    const CHUNKS: u64 = 20_000;
    let script = Script::paced(CHUNKS, Duration::from_micros(100));
    let mut grpc = GrpcSide::open(home, campaign)?;
    let mut beside = grpc.beside(home)?;
    let ours = std::thread::scope(|scope| {
        // It begins to read when the other has read everything.
        grpc.prompt(&script)?;
        let fast = scope.spawn(|| grpc.read()).join().map_err(|_| anyhow!("a reader panicked"))??;
        anyhow::Ok(fast.lost(CHUNKS) + beside.read()?.lost(CHUNKS))
    })?;
    let mut theirs = RivalSide::open(rival.open_acp()?)?;
    let mut late = RivalSide::open(theirs.session().clone())?;
    let fast = theirs.turn(&script)?;
    let gone = fast.lost(CHUNKS) + late.read()?.lost(CHUNKS);
    lost(table, "P5 a reader that stalls for 2 s at 10,000/s", ours, gone);
    grpc.stop()
}

/// P12: one session to many readers.
fn fan_out(table: &mut Table, home: &Home, campaign: &str, rival: &mut Rival) -> Result<()> {
    const CHUNKS: u64 = 1_000;
    let script = Script::paced(CHUNKS, Duration::from_millis(1));
    let (mut figures, mut gone) = ([Rounds::default(), Rounds::default()], (0, 0));
    for _ in 0..3 {
        let mut first = GrpcSide::open(home, campaign)?;
        let mut readers = (1..READERS).map(|_| first.beside(home)).collect::<Result<Vec<_>>>()?;
        first.prompt(&script)?;
        readers.push(first);
        let ours = read_all(&mut readers, GrpcSide::read)?;
        if let Some(first) = readers.pop() {
            first.stop()?;
        }
        let session = rival.open_acp()?;
        let mut readers =
            (0..READERS).map(|_| RivalSide::open(session.clone())).collect::<Result<Vec<_>>>()?;
        drop(session.prompt(script.prompt()));
        let theirs = read_all(&mut readers, RivalSide::read)?;
        let sent = CHUNKS * READERS as u64;
        gone.0 += sent - ours.len() as u64;
        gone.1 += sent - theirs.len() as u64;
        for (figure, share) in figures.iter_mut().zip([0.5, 0.99]) {
            figure.ours.push(percentile(&ours, share));
            figure.theirs.push(percentile(&theirs, share));
        }
    }
    figures[0].lower(table, "P12 one session to 32 readers at 1,000/s, p50", "µs", None);
    figures[1].lower(table, "P12 one session to 32 readers at 1,000/s, p99", "µs", Some(0.1));
    lost(table, "P12 32 readers", gone.0, gone.1);
    Ok(())
}

/// Lets every reader read its turn, each on a thread of its own; returns all ages, sorted.
fn read_all<S: Send>(sides: &mut [S], read: fn(&mut S) -> Result<Tokens>) -> Result<Vec<f64>> {
    std::thread::scope(|scope| {
        let reading: Vec<_> = sides.iter_mut().map(|side| scope.spawn(move || read(side))).collect();
        let mut ages = Vec::new();
        for read in reading {
            ages.extend(read.join().map_err(|_| anyhow!("a reader panicked"))??.ages);
        }
        Ok(sorted(ages))
    })
}

/// P10 and P11: making a session, and from a prompt to the first chunk.
fn beginnings(table: &mut Table, home: &Home, campaign: &str, rival: &mut Rival) -> Result<()> {
    let script = Script::paced(1, Duration::ZERO);
    let (mut made, mut first) = (Rounds::default(), Rounds::default());
    for round in 0..=STARTS * 2 {
        let began = Instant::now();
        let mut grpc = GrpcSide::open(home, campaign)?;
        let own_made = millis(began.elapsed());
        let began = Instant::now();
        let mut theirs = RivalSide::open(rival.open_acp()?)?;
        let rival_made = millis(began.elapsed());
        let own_first = first_chunk(&mut grpc, &script)?;
        let rival_first = first_chunk(&mut theirs, &script)?;
        grpc.stop()?;
        if round > 0 {
            made.ours.push(own_made);
            made.theirs.push(rival_made);
            first.ours.push(own_first);
            first.theirs.push(rival_first);
        }
    }
    made.lower(table, "P10 making a session, until its stream is open", "ms", Some(0.4));
    first.lower(table, "P11 prompt to first chunk", "µs", Some(0.2));
    Ok(())
}

/// Returns how long after the prompt the first chunk was read, in microseconds.
fn first_chunk(side: &mut impl Side, script: &Script) -> Result<f64> {
    let began = e2e::model_server::stamp::now_ns();
    let tokens = side.turn(script)?;
    Ok(tokens.first_read_ns.saturating_sub(began) as f64 / 1e3)
}

/// P13, and the memory of P9: many sessions that stream slowly at once, each read by a thread of its own.
fn many(table: &mut Table, home: &Home, campaign: &str, rival: &mut Rival) -> Result<()> {
    const CHUNKS: u64 = 150;
    let script = Script::paced(CHUNKS, Duration::from_millis(20));
    let before = (status(home.pid()?, "VmRSS")?, status(rival.pid(), "VmRSS")?);
    let mut ours = (0..MANY).map(|_| GrpcSide::open(home, campaign)).collect::<Result<Vec<_>>>()?;
    let mut editors = (0..MANY).map(|_| PipeSide::obey_acp(home)).collect::<Result<Vec<_>>>()?;
    let mut theirs = (0..MANY).map(|_| RivalSide::open(rival.open_acp()?)).collect::<Result<Vec<_>>>()?;
    let (mut grpc, mut acp) =
        ([Rounds::default(), Rounds::default()], [Rounds::default(), Rounds::default()]);
    let mut gone = (0, 0);
    for round in 0..=3 {
        let own = play_all(&mut ours, &script)?;
        let beside = play_all(&mut theirs, &script)?;
        let edited = play_all(&mut editors, &script)?;
        if round == 0 {
            continue;
        }
        let sent = CHUNKS * MANY as u64;
        gone.0 += 2 * sent - own.len() as u64 - edited.len() as u64;
        gone.1 += sent - beside.len() as u64;
        for (at, share) in [0.5, 0.99].into_iter().enumerate() {
            grpc[at].ours.push(percentile(&own, share));
            acp[at].ours.push(percentile(&edited, share));
            for figure in [&mut grpc[at], &mut acp[at]] {
                figure.theirs.push(percentile(&beside, share));
            }
        }
    }
    grpc[0].lower(table, "P13 100 sessions at 50/s, gRPC, p50", "µs", None);
    grpc[1].lower(table, "P13 100 sessions at 50/s, gRPC, p99", "µs", Some(0.5));
    acp[0].lower(table, "P13 100 sessions at 50/s, obey acp, p50", "µs", None);
    acp[1].lower(table, "P13 100 sessions at 50/s, obey acp, p99", "µs", Some(1.0));
    lost(table, "P13 100 sessions", gone.0, gone.1);
    let grown = |pid, before: u64| {
        Ok::<f64, anyhow::Error>(status(pid, "VmRSS")?.saturating_sub(before) as f64 / 1024.0)
    };
    let memory = Rounds {
        ours: vec![grown(home.pid()?, before.0)? / 2.0],
        theirs: vec![grown(rival.pid(), before.1)?],
    };
    memory.lower(table, "P9 memory of the server for 100 sessions", "MB", Some(0.2));
    Ok(())
}

/// Runs a turn of every side at once; returns all ages, sorted.
fn play_all<S: Side + Send>(sides: &mut [S], script: &Script) -> Result<Vec<f64>> {
    let together = Barrier::new(sides.len());
    std::thread::scope(|scope| {
        let playing: Vec<_> = sides
            .iter_mut()
            .map(|side| {
                let together = &together;
                scope.spawn(move || {
                    together.wait();
                    side.turn(script)
                })
            })
            .collect();
        let mut ages = Vec::new();
        for played in playing {
            ages.extend(played.join().map_err(|_| anyhow!("a reader panicked"))??.ages);
        }
        Ok(sorted(ages))
    })
}

/// P7, P8 and the idle memory of P9: start, memory, and what `kill -9` leaves.
fn starts(table: &mut Table) -> Result<()> {
    let (mut started, mut idle) = (Rounds::default(), Rounds::default());
    for round in 0..=STARTS {
        let mut home = Home::new("peers-start")?;
        let own = home.start()?;
        let rival = Rival::sandbox_agent()?;
        std::thread::sleep(Duration::from_millis(500));
        if round > 0 {
            started.ours.push(millis(own));
            started.theirs.push(millis(rival.started));
            idle.ours.push(status(home.pid()?, "VmRSS")? as f64 / 1024.0);
            idle.theirs.push(status(rival.pid(), "VmRSS")? as f64 / 1024.0);
        }
    }
    started.lower(table, "P8 start to the first answer", "ms", Some(0.25));
    idle.lower(table, "P9 idle memory", "MB", Some(0.75));
    killed(table)
}

/// P7: how many chunks that a client had seen are gone after `kill -9` and a new start.
fn killed(table: &mut Table) -> Result<()> {
    const SEEN: u64 = 200;
    let script = Script::paced(SEEN, Duration::from_millis(2));
    let (mut home, campaign) = daemon()?;
    let mut grpc = GrpcSide::open(&home, &campaign)?;
    let seen = grpc.turn(&script)?;
    home.crash()?;
    home.start()?;
    let mut again = grpc.beside(&home)?;
    let ours = (seen.ages.len() as u64).saturating_sub(again.read()?.ages.len() as u64);
    again.stop()?;
    let mut rival = Rival::sandbox_agent()?;
    let session = rival.open_acp()?;
    let mut stream = RivalSide::open(session.clone())?;
    let had = stream.turn(&script)?.ages.len() as u64;
    rival.crash_and_restart()?;
    // It knows no session any more.
    let kept = RivalSide::open(session)
        .and_then(|mut stream| stream.read())
        .map_or(0, |found| found.ages.len() as u64);
    let goal = Goal::AtMost(0.0, "0".to_owned());
    let what = "P7 chunks a client had seen that are gone after kill -9";
    table.row(what, format!("{ours} of {SEEN}"), format!("{} of {had}", had - kept), ours as f64, goal);
    Ok(())
}
