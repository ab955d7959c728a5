//! Tasks whose agents are being started: who needs the session of such a task waits for it, and a cancel is remembered
//! until there is a session to cancel. In memory only: a start ends with its daemon.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The tasks of this daemon that are being started.
#[derive(Clone, Default)]
pub(crate) struct StartingTasks(Arc<Mutex<HashMap<String, StartingTask>>>);

struct StartingTask {
    /// Its agent is being started; before that, it waits for its parent.
    is_launched: bool,
    /// Its session is written down, and can be ended.
    is_recorded: bool,
    is_cancelled: bool,
    /// Dropped when the start is over.
    over: watch::Sender<()>,
}

/// What a cancel found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CancelledStart {
    /// The task is not being started.
    None,
    /// It has no session yet; the start ends with it.
    Remembered,
    /// Its agent is being started, and its session is to be ended.
    Recorded,
}

/// One start; its end is the end of the start, whatever came of it.
pub(crate) struct TaskStart {
    tasks: StartingTasks,
    id: String,
}

impl StartingTasks {
    /// Notes that a task is being started.
    pub(crate) fn begin(&self, id: &str) -> TaskStart {
        let task = StartingTask {
            is_launched: false,
            is_recorded: false,
            is_cancelled: false,
            over: watch::channel(()).0,
        };
        self.lock().insert(id.to_owned(), task);
        TaskStart { tasks: self.clone(), id: id.to_owned() }
    }

    /// Notes that a task is cancelled, and returns who has to end it.
    pub(crate) fn cancel(&self, id: &str) -> CancelledStart {
        let mut tasks = self.lock();
        let Some(task) = tasks.get_mut(id) else { return CancelledStart::None };
        task.is_cancelled = true;
        if task.is_recorded { CancelledStart::Recorded } else { CancelledStart::Remembered }
    }

    /// Whether a task is being started, or waits for its parent.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }

    /// Whether the agent of a task is being started.
    pub(crate) fn is_launched(&self, id: &str) -> bool {
        self.lock().get(id).is_some_and(|task| task.is_launched)
    }

    /// Waits until the start of a task is over; returns at once if there is none.
    pub(crate) async fn over(&self, id: &str) {
        let over = self.lock().get(id).map(|task| task.over.subscribe());
        if let Some(mut over) = over {
            // The sender is dropped, nothing is sent.
            let _ = over.changed().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, StartingTask>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TaskStart {
    /// Notes that the agent is being started now; false: the task was cancelled before.
    pub(crate) fn launch(&self) -> bool {
        let mut tasks = self.tasks.lock();
        let Some(task) = tasks.get_mut(&self.id) else { return false };
        task.is_launched = true;
        !task.is_cancelled
    }

    /// Notes that the session is written down, where a cancel finds it; true: the task was cancelled before.
    pub(crate) fn record(&self) -> bool {
        let mut tasks = self.tasks.lock();
        let Some(task) = tasks.get_mut(&self.id) else { return false };
        task.is_recorded = true;
        task.is_cancelled
    }

    /// Whether the task was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.tasks.lock().get(&self.id).is_some_and(|task| task.is_cancelled)
    }
}

impl Drop for TaskStart {
    fn drop(&mut self) {
        self.tasks.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cancel_is_remembered_until_there_is_a_session() {
        let tasks = StartingTasks::default();
        assert!(tasks.cancel("a") == CancelledStart::None && !tasks.is_launched("a"));
        tasks.over("a").await;
        let start = tasks.begin("a");
        assert!(start.launch() && tasks.is_launched("a"));
        assert_eq!(tasks.cancel("a"), CancelledStart::Remembered);
        assert!(start.record() && start.is_cancelled());
        assert_eq!(tasks.cancel("a"), CancelledStart::Recorded);
        let waiting = tasks.clone();
        let waiter = tokio::spawn(async move { waiting.over("a").await });
        tokio::task::yield_now().await;
        drop(start);
        waiter.await.unwrap();
        assert!(tasks.cancel("a") == CancelledStart::None && !tasks.contains("a"));
    }

    #[tokio::test]
    async fn a_start_that_is_given_up_is_over() {
        let tasks = StartingTasks::default();
        let start = tasks.begin("a");
        tasks.cancel("a");
        assert!(!start.launch());
        drop(start);
        tasks.over("a").await;
        assert!(!tasks.is_launched("a"));
    }
}
