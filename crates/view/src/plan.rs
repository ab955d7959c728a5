//! A plan as a tree: each step below the first one that it depends on. Knows no screen and no protocol.

use std::collections::HashMap;

/// A plan and how far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanSummary {
    pub id: String,
    /// `running`, `completed` or `failed`.
    pub state: String,
    pub strategy: String,
    pub steps: Vec<PlanStepSummary>,
}

/// A step of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanStepSummary {
    pub id: String,
    pub name: String,
    /// `waiting`, `running`, `succeeded`, `failed`, `cancelled`, `blocked` or `skipped`.
    pub state: String,
    /// The session that works or worked on it; empty: none yet.
    pub session: String,
    pub attempts: u32,
    pub depends_on: Vec<String>,
    /// Its result, its error, or why it was cancelled.
    pub text: String,
}

/// A line of the tree: how it is indented, and which step it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanLine {
    pub indent: String,
    pub step: usize,
}

impl PlanSummary {
    /// Returns the steps as lines of a tree.
    pub fn lines(&self) -> Vec<PlanLine> {
        let places: HashMap<&str, usize> =
            self.steps.iter().enumerate().map(|(at, step)| (step.id.as_str(), at)).collect();
        let mut below: Vec<Vec<usize>> = vec![Vec::new(); self.steps.len()];
        let mut tops = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            match step.depends_on.first().and_then(|id| places.get(id.as_str())) {
                Some(parent) => below[*parent].push(at),
                None => tops.push(at),
            }
        }
        let mut out = Vec::new();
        // Without recursion: a chain may be a thousand steps long.
        let mut pending: Vec<(usize, String, bool)> = branches(&tops, "");
        while let Some((step, indent, is_last)) = pending.pop() {
            out.push(PlanLine {
                indent: format!("{indent}{}", if is_last { "└─ " } else { "├─ " }), step
            });
            let deeper = format!("{indent}{}", if is_last { "   " } else { "│  " });
            pending.extend(branches(&below[step], &deeper));
        }
        out
    }

    /// Returns how many steps have ended, of how many.
    pub fn progress(&self) -> (usize, usize) {
        let ended = |step: &&PlanStepSummary| !matches!(step.state.as_str(), "waiting" | "running");
        (self.steps.iter().filter(ended).count(), self.steps.len())
    }
}

impl PlanStepSummary {
    /// Returns the step in words, without its text.
    pub fn describe(&self) -> String {
        let mut line = match self.name.as_str() {
            "" => format!("{} {}", self.id, self.state),
            name if name == self.id => format!("{} {}", self.id, self.state),
            name => format!("{} ({name}) {}", self.id, self.state),
        };
        if self.attempts > 1 {
            line.push_str(&format!(", attempt {}", self.attempts));
        }
        if self.depends_on.len() > 1 {
            line.push_str(&format!(", after {}", self.depends_on.join(", ")));
        }
        line
    }
}

/// Returns the places of one level, the last one first, as a stack takes them.
fn branches(places: &[usize], indent: &str) -> Vec<(usize, String, bool)> {
    let count = places.len();
    let all = places.iter().enumerate().map(|(at, place)| (*place, indent.to_owned(), at + 1 == count));
    let mut all: Vec<_> = all.collect();
    all.reverse();
    all
}
