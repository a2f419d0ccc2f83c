//! One connection to NATS, which is never repaired.
//!
//! The client library reconnects by itself and then sends what it still has in its
//! queue, also what a delivery has given up. So its reconnecting is switched off: the
//! first loss ends the connection, and every acknowledgement still awaited fails at
//! once. The library has no switch for that, but it asks us which server to try next,
//! and gives up after the number of attempts we set: we name an address nobody listens
//! on, once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::{ConnectError, ConnectOptions, Event, ReconnectToServer, ServerAddr, ServerError};

use super::checked::{Auth, Config};
use super::classify::{self, Failure};
use crate::settings::Secret;
use crate::{ErrorKind, SinkError};

/// How long a server may take to answer a connection's greeting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection whose peer is silent for about three of these is ended.
const PING_INTERVAL: Duration = Duration::from_secs(10);

/// An open connection.
pub(super) struct Connection {
    pub(super) jetstream: Context,
    complaint: Arc<OnceLock<String>>,
}

impl Connection {
    /// Connects to the first server that answers. Acknowledgements and requests wait
    /// for `ack_timeout` at most.
    ///
    /// # Errors
    /// Why no server was reached: the first refusal if there was one, else the last failure.
    pub(super) async fn open(
        name: &str,
        config: &Config,
        ack_timeout: Duration,
    ) -> Result<Self, SinkError> {
        // With two crypto providers compiled in, rustls panics unless one is chosen.
        // If a choice was made already, that one stands.
        drop(rustls::crypto::ring::default_provider().install_default());
        let mut last = None;
        for server in &config.servers {
            let complaint = Arc::default();
            match connect(name, config, server, &complaint).await? {
                // Every event would be too large for it, and be given up.
                Ok(client) if client.max_payload() == 0 => {
                    let verb = format!("use {}:{}", server.host(), server.port());
                    last = Some(classify::error(Failure::NoPayload, verb));
                }
                Ok(client) => {
                    let jetstream = ContextBuilder::new()
                        .timeout(ack_timeout)
                        .ack_timeout(ack_timeout)
                        .max_ack_inflight(config.window)
                        .build(client);
                    return Ok(Self {
                        jetstream,
                        complaint,
                    });
                }
                Err(cause) => {
                    let verb = format!("connect to {}:{}", server.host(), server.port());
                    let error = classify::error(Failure::of_connect(&cause), verb);
                    // A server that would not have us is worth more words than one that
                    // is down.
                    if last.as_ref().map(SinkError::kind) != Some(ErrorKind::Misconfigured) {
                        last = Some(error.with_source(cause));
                    }
                }
            }
        }
        Err(last.expect("checked settings name at least one server"))
    }

    /// The error as it is, unless the server complained about missing permissions on
    /// this connection: a forbidden publish or request is answered with nothing else.
    pub(super) fn explain(&self, error: SinkError) -> SinkError {
        match self.complaint.get() {
            Some(text) => {
                classify::error(Failure::Forbidden, error.to_string()).with_source(text.clone())
            }
            None => error,
        }
    }
}

async fn connect(
    name: &str,
    config: &Config,
    server: &ServerAddr,
    complaint: &Arc<OnceLock<String>>,
) -> Result<Result<async_nats::Client, ConnectError>, SinkError> {
    let nobody: ServerAddr = "nats://127.0.0.1:0".parse().expect("this is an address");
    let heard = Arc::clone(complaint);
    let options = with_auth(ConnectOptions::new(), &config.auth)?
        .name(format!("outbox sink {name}"))
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .ignore_discovered_servers()
        .event_callback(move |event| {
            if let Event::ServerError(ServerError::Other(text)) = event
                && text.to_lowercase().starts_with("permissions violation")
            {
                // Only the first complaint is kept: the others follow from it.
                drop(heard.set(text));
            }
            std::future::ready(())
        })
        .max_reconnects(1);
    let (first, target, dead) = (AtomicBool::new(true), server.clone(), nobody.clone());
    let options = with_tls(options, config).reconnect_to_server_callback(move |_servers, _info| {
        let first = first.swap(false, Ordering::Relaxed);
        let addr = if first { target.clone() } else { dead.clone() };
        let delay = Some(Duration::ZERO);
        std::future::ready(Some(ReconnectToServer { addr, delay }))
    });
    Ok(options.connect([server.clone(), nobody].as_slice()).await)
}

fn with_auth(options: ConnectOptions, auth: &Auth) -> Result<ConnectOptions, SinkError> {
    let text = |secret: &Secret| secret.expose().to_owned();
    Ok(match auth {
        Auth::Nobody => options,
        Auth::User { user, password } => options.user_and_password(user.clone(), text(password)),
        Auth::Token(token) => options.token(text(token)),
        Auth::Nkey(seed) => options.nkey(text(seed).trim().to_owned()),
        // The library's own error quotes the file, so it is not passed on.
        Auth::Credentials(file) => options.credentials(file.expose()).map_err(|_| {
            SinkError::misconfigured(
                "read the credentials file",
                "credentials_file is not a file with a JWT and a seed: write it anew with `nsc generate creds`",
            )
        })?,
    })
}

fn with_tls(options: ConnectOptions, config: &Config) -> ConnectOptions {
    let Some(tls) = &config.tls else {
        return options;
    };
    let mut options = options.require_tls(true);
    if let Some(authorities) = &tls.ca_file {
        options = options.add_root_certificates(authorities.clone());
    }
    if let (Some(certificate), Some(key)) = (&tls.cert_file, &tls.key_file) {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    options
}
