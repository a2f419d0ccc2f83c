//! The pages: `/metrics`, `/healthz`, `/readyz` and `/status`.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use outbox::{CursorStatus, Database};
use prometheus_client::encoding::prometheus_text;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::asked::Asked;
use super::metrics::Metrics;
use super::status::Status;
use crate::board::{Board, NotReady};
use crate::report::Report;

/// What the pages are made from.
#[derive(Debug)]
pub(crate) struct Pages {
    board: Arc<Board>,
    database: Database,
    holder: String,
    sinks: Vec<String>,
    stop: CancellationToken,
    metrics: Metrics,
    cursors: Asked<Vec<CursorStatus>>,
    report: Asked<Report>,
}

/// The body of `/readyz`.
#[derive(Debug, Serialize)]
struct Ready {
    ready: bool,
    reasons: Vec<NotReady>,
}

impl Pages {
    /// Pages about the sinks of the configuration, from what is on the board and in the
    /// database.
    pub(crate) fn new(
        board: Arc<Board>,
        database: Database,
        holder: String,
        sinks: Vec<String>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            metrics: Metrics::new(Arc::clone(&board), sinks.clone()),
            board,
            database,
            holder,
            sinks,
            stop,
            cursors: Asked::default(),
            report: Asked::default(),
        }
    }

    /// Where they are found. Other paths are not found, other methods not allowed.
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/healthz", get(healthz))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .route("/status", get(status))
            .with_state(Arc::new(self))
    }
}

/// That this is answered says it all.
async fn healthz() -> Response {
    let headers = [(CONTENT_TYPE, "text/plain"), (CACHE_CONTROL, "no-store")];
    (headers, "ok\n").into_response()
}

async fn readyz(State(pages): State<Arc<Pages>>) -> Response {
    let mut reasons = pages.board.not_ready();
    if pages.stop.is_cancelled() {
        reasons.push(NotReady {
            about: "worker",
            sink: None,
            reason: "the worker is stopping".to_owned(),
        });
    }
    let ready = reasons.is_empty();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    json(status, &Ready { ready, reasons })
}

async fn metrics(State(pages): State<Arc<Pages>>) -> Response {
    let cursors = pages.cursors.answer(pages.database.cursors()).await;
    let lag = cursors.as_ref().map(|cursors| cursors.as_slice());
    let headers = [
        (CONTENT_TYPE, prometheus_text::CONTENT_TYPE),
        (CACHE_CONTROL, "no-store"),
    ];
    (headers, pages.metrics.text(lag)).into_response()
}

async fn status(State(pages): State<Arc<Pages>>) -> Response {
    let asking = Report::of(&pages.database, &pages.sinks);
    let report = pages.report.answer(asking).await;
    let (holder, stopping) = (&pages.holder, pages.stop.is_cancelled());
    let status = Status::of(&pages.board, holder, stopping, report.as_deref());
    json(StatusCode::OK, &status)
}

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
    ];
    let text = serde_json::to_string_pretty(body).expect("what we made is JSON");
    (status, headers, text + "\n").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::{Method, Request};
    use futures_util::StreamExt;
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;
    use outbox::ConnectSettings;
    use serde_json::Value;
    use std::time::Duration;

    /// Pages over a database that refuses every connection.
    fn pages() -> (Arc<Board>, CancellationToken, Router) {
        let url = "postgres://sinks:hunter2@127.0.0.1:1/shop";
        let database = Database::lazy(&ConnectSettings {
            connect_timeout: Duration::from_millis(500),
            ..ConnectSettings::new(url.to_owned())
        });
        let (board, stop) = (Arc::new(Board::default()), CancellationToken::new());
        board.announce("orders", "kafka");
        let (sinks, holder) = (vec!["orders".to_owned()], "w-1".to_owned());
        let pages = Pages::new(Arc::clone(&board), database, holder, sinks, stop.clone());
        (board, stop, pages.router())
    }

    async fn ask(router: &Router, method: Method, path: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::empty()).unwrap();
        let service = TowerToHyperService::new(router.clone());
        let answer = service.call(request).await.unwrap();
        let status = answer.status().as_u16();
        let mut body = Vec::new();
        let mut stream = answer.into_body().into_data_stream();
        while let Some(bytes) = stream.next().await {
            body.extend(bytes.unwrap());
        }
        (status, String::from_utf8(body).unwrap())
    }

    async fn get_json(router: &Router, path: &str) -> (u16, Value) {
        let (status, body) = ask(router, Method::GET, path).await;
        (status, serde_json::from_str(&body).unwrap())
    }

    #[tokio::test]
    async fn paths_and_methods_that_are_none_are_told_so() {
        let (_, _, router) = pages();
        for path in ["/", "/metrics/", "/healthz/x", "/../metrics"] {
            assert_eq!(ask(&router, Method::GET, path).await.0, 404, "{path}");
        }
        for path in ["/metrics", "/healthz", "/readyz", "/status"] {
            for method in [Method::POST, Method::PUT, Method::DELETE] {
                assert_eq!(ask(&router, method, path).await.0, 405, "{path}");
            }
        }
        let ok = (200, "ok\n".to_owned());
        assert_eq!(ask(&router, Method::GET, "/healthz").await, ok);
    }

    #[tokio::test]
    async fn readiness_names_each_reason_against_it() {
        let (board, stop, router) = pages();
        let (status, body) = get_json(&router, "/readyz").await;
        assert_eq!((status, &body["ready"]), (503, &Value::Bool(false)));
        assert_eq!(body["reasons"][0]["about"], "database");
        board.looked_at_head(true);
        let (status, body) = get_json(&router, "/readyz").await;
        assert_eq!(
            (status, body["reasons"].as_array().unwrap().len()),
            (200, 0)
        );
        stop.cancel();
        let (status, body) = get_json(&router, "/readyz").await;
        assert_eq!(
            (status, &body["reasons"][0]["about"]),
            (503, &"worker".into())
        );
    }

    #[tokio::test]
    async fn without_a_database_there_are_pages_all_the_same_and_no_password_on_them() {
        let (board, _, router) = pages();
        board.looked_at_head(false);
        let (status, text) = ask(&router, Method::GET, "/metrics").await;
        assert_eq!(status, 200);
        assert!(
            text.contains("outbox_sinks_database_reachable 0\n"),
            "{text}"
        );
        assert!(!text.contains("lag_events"), "{text}");
        let (status, body) = get_json(&router, "/status").await;
        assert_eq!((status, body.get("sinks")), (200, None));
        assert_eq!(body["worker"]["loops"][0]["state"], "waiting");
        for shown in [text, body.to_string()] {
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
