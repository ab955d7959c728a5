//! Traces and logs for a collector of OpenTelemetry: OTLP as protobuf over HTTP. Which spans there are is in
//! `runtime::trace`. Secrets are removed from logs before they are sent. A collector that is slow or away delays nothing:
//! what waits is bounded, and more is dropped.

mod http_client;
mod log_records;

use std::sync::Arc;

use ::workbench::scrub::{self, Scrubber};
use anyhow::Context as _;
use config::file::telemetry::Telemetry as TelemetryConfig;
use opentelemetry::KeyValue;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{LogExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use runtime::trace::{self, TraceParent, TraceReceiver};
use tokio::runtime::Handle;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use crate::limits;
use http_client::HttpClient;
use log_records::LogRecords;

/// The two headers of W3C Trace Context.
const PARENT: &str = "traceparent";
const STATE: &str = "tracestate";

/// What sends traces and logs.
pub(crate) struct Telemetry {
    traces: SdkTracerProvider,
    logs: SdkLoggerProvider,
    scrubber: Scrubber,
}

impl Telemetry {
    /// Prepares sending, unless no endpoint is configured. Requests are made on the given runtime.
    pub(crate) fn start(config: &TelemetryConfig, runtime: &Handle) -> anyhow::Result<Option<Self>> {
        if config.endpoint.is_empty() {
            return Ok(None);
        }
        let scrubber = Scrubber::new(&scrub::Config::new()).context("telemetry: the scrubber")?;
        let client = Arc::new(HttpClient::new(runtime.clone())?);
        let base = config.endpoint.trim_end_matches('/');
        let spans = SpanExporter::builder()
            .with_http()
            .with_shared_http_client(client.clone())
            .with_endpoint(format!("{base}/v1/traces"))
            .with_timeout(limits::TELEMETRY_WAIT)
            .build()
            .context("telemetry.endpoint")?;
        let records = LogExporter::builder()
            .with_http()
            .with_shared_http_client(client)
            .with_endpoint(format!("{base}/v1/logs"))
            .with_timeout(limits::TELEMETRY_WAIT)
            .build()
            .context("telemetry.endpoint")?;
        let resource = resource();
        let traces =
            SdkTracerProvider::builder().with_resource(resource.clone()).with_batch_exporter(spans).build();
        let logs = SdkLoggerProvider::builder().with_resource(resource).with_batch_exporter(records).build();
        trace::enable(TraceReceiver { adopt, place_of });
        Ok(Some(Self { traces, logs, scrubber }))
    }

    /// Returns what takes the spans of `runtime::trace`, and no other ones: those of libraries may have anything in them.
    pub(crate) fn spans_layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.traces.tracer("obey"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_filter(filter_fn(|metadata| metadata.is_span() && metadata.target() == trace::TARGET))
    }

    /// Returns what takes the lines of the log.
    pub(crate) fn logs_layer(&self) -> LogRecords {
        LogRecords::new(&self.logs, self.scrubber.clone())
    }

    /// Sends what waits, for a bounded time. What does not arrive is lost.
    pub(crate) fn end(self) {
        let _lost = self.traces.shutdown_with_timeout(limits::TELEMETRY_END_WAIT);
        let _lost = self.logs.shutdown_with_timeout(limits::TELEMETRY_END_WAIT);
    }
}

/// Says whose traces these are. `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` go before it.
fn resource() -> Resource {
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some_and(|name| !name.is_empty());
    let builder =
        Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if named { builder.build() } else { builder.with_service_name("obey").build() }
}

/// Makes a span a part of the trace of a place.
fn adopt(span: &Span, place: &TraceParent) {
    let headers = [(PARENT.to_owned(), place.parent.clone()), (STATE.to_owned(), place.state.clone())];
    let carrier: std::collections::HashMap<String, String> = headers.into();
    // An invalid place gives an empty context, and the span begins a trace.
    let _not_sent = span.set_parent(TraceContextPropagator::new().extract(&carrier));
}

/// Returns the place of a span.
fn place_of(span: &Span) -> Option<TraceParent> {
    let mut headers = std::collections::HashMap::new();
    TraceContextPropagator::new().inject_context(&span.context(), &mut headers);
    Some(TraceParent { parent: headers.remove(PARENT)?, state: headers.remove(STATE).unwrap_or_default() })
}
