//! Any order of writing, reading, disconnecting, resuming and restarting.

use std::sync::atomic::{AtomicUsize, Ordering};

use domain::Event;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Log, drain, plain, soon};
use crate::journal::{Cursor, JournalBounds};
use storage::Store;

const CASES: u32 = 1_200;

#[derive(Clone, Debug)]
enum Step {
    Append(Vec<usize>),
    /// A reader from any point, including slightly beyond the end.
    Begin {
        at: prop::sample::Index,
    },
    /// A reader takes at most this many batches.
    Read {
        reader: prop::sample::Index,
        batches: usize,
    },
    /// A reader disconnects and resumes after the last event it saw.
    Resume {
        reader: prop::sample::Index,
    },
    /// The daemon restarts; every reader has to resume.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![4 => 0..40usize, 1 => 500..1_500usize];
    prop_oneof![
        5 => vec(size, 0..12).prop_map(Step::Append),
        2 => any::<prop::sample::Index>().prop_map(|at| Step::Begin { at }),
        4 => (any::<prop::sample::Index>(), 1..4usize).prop_map(|(reader, batches)| Step::Read { reader, batches }),
        2 => any::<prop::sample::Index>().prop_map(|reader| Step::Resume { reader }),
        1 => Just(Step::Restart),
    ]
}

struct Reader {
    from: u64,
    cursor: Cursor,
    seen: Vec<Event>,
}

impl Reader {
    /// Where it resumes: after the last event it saw, otherwise where it started.
    fn last(&self) -> u64 {
        self.seen.last().map_or(self.from, |event| event.seq)
    }
}

async fn run(store: &Store, bounds: JournalBounds, id: &str, steps: &[Step]) {
    let mut log = Log::new(store, bounds, id).await;
    let mut readers: Vec<Reader> = Vec::new();
    for step in steps {
        let count = readers.len();
        match step {
            Step::Append(sizes) => log.append(sizes).await,
            Step::Begin { at } => {
                let from = at.index(log.written.len() + 4) as u64;
                readers.push(Reader { from, cursor: log.stream.read_after(from), seen: Vec::new() });
            }
            Step::Read { reader, batches } if count > 0 => {
                let reader = &mut readers[reader.index(count)];
                for _ in 0..*batches {
                    let events = soon(reader.cursor.available()).await.unwrap();
                    assert!(events.len() <= bounds.batch);
                    reader.seen.extend(plain(events));
                    assert_eq!(reader.cursor.seq(), reader.last());
                }
            }
            Step::Resume { reader } if count > 0 => {
                let reader = &mut readers[reader.index(count)];
                reader.cursor = log.stream.read_after(reader.last());
            }
            Step::Restart => {
                log.restart();
                for reader in &mut readers {
                    reader.cursor = log.stream.read_after(reader.last());
                }
            }
            Step::Read { .. } | Step::Resume { .. } => {}
        }
    }
    assert_eq!(log.stream.last_seq(), log.written.len() as u64);
    for mut reader in readers {
        reader.seen.extend(drain(&mut reader.cursor).await);
        assert_eq!(reader.seen, log.after(reader.from), "reader from {}", reader.from);
    }
}

#[test]
fn every_reader_sees_exactly_the_log_from_where_it_began() {
    let home = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let store = Store::open(&home.path().join("obey.db")).unwrap();
    let cases = AtomicUsize::new(0);
    let bounds = (1..12usize, 300..5_000usize, 1..8usize)
        .prop_map(|(tail_events, tail_bytes, batch)| JournalBounds { tail_events, tail_bytes, batch });
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    runner
        .run(&(bounds, vec(step(), 1..25)), |(bounds, steps)| {
            // One store for all cases: creating a file for each would take most of the time.
            let id = format!("sess_{}", cases.fetch_add(1, Ordering::Relaxed));
            runtime.block_on(run(&store, bounds, &id, &steps));
            Ok(())
        })
        .unwrap();
    assert!(cases.into_inner() >= 1_000);
}
