//! PgBouncer in transaction mode: each transaction of a client may run in another session of the
//! server.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;

use super::folder::Folder;
use super::installed;
use super::port::free_port;
use super::postgres::is_root;
use super::process::{Launch, Process};

const START: Duration = Duration::from_secs(30);

/// A pooler on a port of its own.
#[derive(Debug)]
pub struct PgBouncer {
    // Declared before the folder: the pooler ends before its configuration goes.
    _process: Process,
    _folder: Folder,
    port: u16,
}

impl PgBouncer {
    /// Starts a pooler in front of a Postgres that lets everybody in, with these lines of
    /// `[pgbouncer]`.
    ///
    /// # Panics
    ///
    /// If it is not installed or does not start, with the end of its log.
    pub async fn start(target: SocketAddr, lines: &str) -> Self {
        let (folder, port) = (Folder::new("pgbouncer"), free_port());
        let text = format!(
            "[databases]\n* = host={} port={} user=postgres\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\npool_mode = transaction\n{lines}\n",
            target.ip(),
            target.port(),
        );
        std::fs::write(folder.path().join("pgbouncer.ini"), text)
            .expect("a folder of ours can be written");
        if is_root() {
            folder.give_to_nobody();
        }
        let mut process = Process::spawn(Launch {
            name: "pgbouncer",
            program: installed::path_of("PGBOUNCER"),
            args: vec!["pgbouncer.ini".into()],
            folder: folder.path(),
            as_nobody: is_root(),
        })
        .await;
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let listens = || async move {
            let connected = TcpStream::connect(addr).await;
            connected.map(drop).map_err(|error| error.to_string())
        };
        process.until_ready(START, listens).await;
        Self {
            _process: process,
            _folder: folder,
            port,
        }
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }
}
