//! What the metrics port serves: `/metrics` for Prometheus, `/` for people, and the numbers of that
//! page. No request changes anything. Must not know: HTTP.

use std::sync::{Arc, LazyLock};

use commands::Dispatcher;
use commands::metrics_export;

use crate::config::Metrics;
use crate::metrics_http::{Endpoint, Page};

/// The page with its style and scripts inline: a browser needs no other file of this server.
static PAGE: LazyLock<String> = LazyLock::new(|| {
    let scripts = concat!(
        include_str!("page/numbers.js"),
        include_str!("page/history.js"),
        include_str!("page/charts.js"),
        include_str!("page/tables.js"),
        include_str!("page/page.js"),
    );
    include_str!("page/page.html")
        .replace("STYLE", include_str!("page/page.css"))
        .replace("SCRIPT", &format!("\"use strict\";\n{scripts}"))
});

/// Listens and answers.
///
/// # Errors
/// When the address cannot be bound or no thread be started.
pub(crate) fn start(
    options: &Metrics,
    server: Arc<Dispatcher>,
    memory_bytes: u64,
) -> std::io::Result<Endpoint> {
    Endpoint::start(
        options,
        Box::new(move |path| page(path, &server, memory_bytes)),
    )
}

fn page(path: &str, server: &Dispatcher, memory_bytes: u64) -> Option<Page> {
    let (kind, body) = match path {
        "/metrics" => (
            "text/plain; version=0.0.4",
            metrics_export::prometheus(server),
        ),
        "/metrics.json" => {
            let mut json = String::new();
            logs::append_document(&mut json, metrics_export::page(server, memory_bytes).doc());
            ("application/json", json)
        }
        "/" => ("text/html; charset=utf-8", PAGE.clone()),
        _ => return None,
    };
    Some(Page { kind, body })
}
