//! Lines of the log as records for a collector: the message, the level, the module and the fields, all without secrets.

use std::fmt::{Debug, Write as _};
use std::time::{Duration, UNIX_EPOCH};

use ::workbench::scrub::Scrubber;
use host::clock;
use opentelemetry::logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity};
use opentelemetry_sdk::logs::{SdkLogRecord, SdkLogger, SdkLoggerProvider};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use crate::limits;

/// Turns events of `tracing` into records.
pub(crate) struct LogRecords {
    logger: SdkLogger,
    scrubber: Scrubber,
}

impl LogRecords {
    pub(super) fn new(provider: &SdkLoggerProvider, scrubber: Scrubber) -> Self {
        Self { logger: provider.logger("obey"), scrubber }
    }
}

impl<S: Subscriber> Layer<S> for LogRecords {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut record = self.logger.create_log_record();
        let (severity, level) = severity(*metadata.level());
        record.set_severity_number(severity);
        record.set_severity_text(level);
        record.set_target(metadata.target());
        record.set_timestamp(UNIX_EPOCH + Duration::from_micros(u64::try_from(clock::now().0).unwrap_or(0)));
        event.record(&mut Fields { record: &mut record, scrubber: &self.scrubber });
        self.logger.emit(record);
    }
}

fn severity(level: Level) -> (Severity, &'static str) {
    match level {
        Level::ERROR => (Severity::Error, "ERROR"),
        Level::WARN => (Severity::Warn, "WARN"),
        Level::INFO => (Severity::Info, "INFO"),
        Level::DEBUG => (Severity::Debug, "DEBUG"),
        Level::TRACE => (Severity::Trace, "TRACE"),
    }
}

/// Copies the fields of one event.
struct Fields<'a> {
    record: &'a mut SdkLogRecord,
    scrubber: &'a Scrubber,
}

impl Fields<'_> {
    fn add_text(&mut self, field: &Field, mut text: String) {
        if let Some(clean) = self.scrubber.redacted(&text) {
            text = clean;
        }
        // Afterwards: half of a secret would not be recognized.
        text.truncate(text.floor_char_boundary(limits::TELEMETRY_TEXT_MAX_BYTES));
        match field.name() {
            "message" => self.record.set_body(AnyValue::from(text)),
            name => self.record.add_attribute(name, AnyValue::from(text)),
        }
    }
}

impl Visit for Fields<'_> {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record.add_attribute(field.name(), AnyValue::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match i64::try_from(value) {
            Ok(value) => self.record_i64(field, value),
            Err(_) => self.add_text(field, value.to_string()),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.record.add_attribute(field.name(), AnyValue::from(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = String::new();
        // Writing into a string cannot fail; a value that says so is left out.
        if write!(text, "{value:?}").is_ok() {
            self.add_text(field, text);
        }
    }
}
