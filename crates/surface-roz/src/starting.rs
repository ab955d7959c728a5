//! Tasks whose agents are being started: who needs the session of such a task waits for it, and a cancel is remembered
//! until there is something to cancel. In memory only: a start ends with its daemon.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// The tasks of this daemon that are being started.
#[derive(Clone, Default)]
pub(crate) struct StartingTasks(Arc<Mutex<HashMap<String, StartingTask>>>);

struct StartingTask {
    /// Its agent is being started; before that, it waits for its parent.
    is_launched: bool,
    is_cancelled: bool,
    /// Dropped when the start is over.
    over: watch::Sender<()>,
}

/// One start; its end is the end of the start, whatever came of it.
pub(crate) struct TaskStart {
    tasks: StartingTasks,
    id: String,
}

impl StartingTasks {
    /// Notes that a task is being started.
    pub(crate) fn begin(&self, id: &str) -> TaskStart {
        let task = StartingTask { is_launched: false, is_cancelled: false, over: watch::channel(()).0 };
        self.lock().insert(id.to_owned(), task);
        TaskStart { tasks: self.clone(), id: id.to_owned() }
    }

    /// Remembers a cancel; false: the task is not being started.
    pub(crate) fn cancel(&self, id: &str) -> bool {
        self.lock().get_mut(id).map(|task| task.is_cancelled = true).is_some()
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

    /// Ends the start; true: the task was cancelled meanwhile. A later cancel finds the session.
    pub(crate) fn finish(self) -> bool {
        self.tasks.lock().remove(&self.id).is_some_and(|task| task.is_cancelled)
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
    async fn a_cancel_is_remembered_until_the_start_is_over() {
        let tasks = StartingTasks::default();
        assert!(!tasks.cancel("a") && !tasks.is_launched("a"));
        tasks.over("a").await;
        let start = tasks.begin("a");
        assert!(start.launch() && tasks.is_launched("a"));
        assert!(tasks.cancel("a"));
        let (waiting, also) = (tasks.clone(), tasks.clone());
        let waiter = tokio::spawn(async move { waiting.over("a").await });
        tokio::task::yield_now().await;
        assert!(start.finish());
        waiter.await.unwrap();
        assert!(!also.cancel("a"));
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
