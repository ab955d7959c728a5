//! What people see of sessions: a pure fold of journal events into rows of a transcript, and of session summaries
//! into groups of a list. The terminal UI and the page show the same rows; `README.md` is the contract between the
//! two folds, and `goldens/` binds them. Knows no screen, no colour, no protocol, and reads no clock.

mod call;
mod change;
mod header;
pub mod limits;
mod notices;
mod overview;
mod plan;
mod requests;
mod row;
mod summary_budget;
mod text;
mod transcript;

pub use call::{call_kind, call_text, calls_summary};
pub use change::file_changes;
pub use header::SessionHeader;
pub use overview::{Overview, SessionGroup, SessionSummary, SummaryRequest, SummaryState};
pub use plan::{PlanLine, PlanStepSummary, PlanSummary};
pub use requests::request_row;
pub use row::{
    AttachmentRow, CallRow, CallState, DiffLine, FileChange, OptionRow, ProposalRow, QuestionRow, RequestRow,
    Row, RowBody, TodoRow, TurnUsage,
};
pub use summary_budget::{BudgetPart, BudgetUnit, SummaryBudget};
pub use transcript::Transcript;
