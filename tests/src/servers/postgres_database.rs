//! A database of a test's own on a Postgres server, which may be shared.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool};

/// An empty database. It is not dropped: its server's data is thrown away.
#[derive(Debug, Clone)]
pub struct Database {
    server: SocketAddr,
    name: String,
}

impl Database {
    pub(super) async fn create(server: SocketAddr) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let admin = Self {
            server,
            name: "postgres".to_owned(),
        };
        let mut connection = admin.connect().await;
        connection
            .execute(AssertSqlSafe(format!("create database {name}")))
            .await
            .expect("a database can be created");
        connection
            .close()
            .await
            .expect("a connection can be closed");
        Self { server, name }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its server listens.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// Its URL, for the superuser.
    pub fn url(&self) -> String {
        self.url_via(self.server)
    }

    /// Its URL through another address, such as a proxy's.
    pub fn url_via(&self, addr: SocketAddr) -> String {
        format!("postgres://postgres@{addr}/{}", self.name)
    }

    /// Opens one connection.
    ///
    /// # Panics
    ///
    /// If the server does not accept it.
    pub async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url())
            .await
            .expect("the test's Postgres accepts connections")
    }

    /// A pool of at most `connections`, which connects when it is used.
    ///
    /// # Panics
    ///
    /// Never: the URL is well formed.
    pub fn pool(&self, connections: u32) -> PgPool {
        PgPoolOptions::new()
            .max_connections(connections)
            .connect_lazy(&self.url())
            .expect("the URL of a test's database is well formed")
    }
}
