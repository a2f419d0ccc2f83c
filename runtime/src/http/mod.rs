//! The role `http`: metrics, health and status, for those who watch the worker.
//!
//! It reads what the loops have told on the [`board`](crate::board) and, for the lag, the
//! database. It changes nothing, holds nothing up, and ends with the worker at once: who
//! asks, however slowly, never delays a delivery or a stop.

mod asked;
mod metrics;
mod pages;
mod server;
mod status;

use std::io;
use std::net::SocketAddr;

use axum::Router;
use thiserror::Error;
use tokio::net::TcpListener;
use tracing::info;

use crate::settings::HttpSettings;
pub(crate) use pages::Pages;

/// A port that is ours.
#[derive(Debug)]
pub(crate) struct Http {
    listener: TcpListener,
}

/// The port can't be had.
#[derive(Debug, Error)]
#[error(
    "listen on {address} for HTTP: {source}: name another address in [http] listen (port 0 takes \
     any that is free), or leave the role `http` out ([worker] roles, or --role)"
)]
pub(crate) struct ListenError {
    address: SocketAddr,
    source: io::Error,
}

impl Http {
    /// Takes the port. Nobody is answered yet.
    pub(crate) async fn listen(settings: HttpSettings) -> Result<Self, ListenError> {
        let address = settings.listen;
        let told = |source| ListenError { address, source };
        let listener = TcpListener::bind(address).await.map_err(told)?;
        let address = listener.local_addr().map_err(told)?;
        info!(%address, "listening for HTTP");
        Ok(Self { listener })
    }

    /// Answers until it is dropped.
    pub(crate) async fn serve(&self, router: &Router) {
        server::serve(&self.listener, router, server::Limits::default()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_is_taken_is_told_with_every_way_out() {
        let any = "127.0.0.1:0".parse().unwrap();
        let first = Http::listen(HttpSettings { listen: any }).await.unwrap();
        let listen = first.listener.local_addr().unwrap();
        let error = Http::listen(HttpSettings { listen }).await.unwrap_err();
        let told = error.to_string();
        for part in [&listen.to_string(), "[http] listen", "port 0", "--role"] {
            assert!(told.contains(part), "{told}");
        }
    }
}
