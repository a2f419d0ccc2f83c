//! Which servers the tests run against, in the servers' own words.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use tokio::task::spawn_blocking;

use super::installed::path_of;
use super::kafka::java_args;
use super::postgres::PostgresVersion;

/// One server that the tests use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerVersion {
    /// The server.
    pub name: &'static str,
    /// What it says of its version.
    pub version: String,
    /// The program.
    pub program: PathBuf,
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} ({})",
            self.name,
            self.version,
            self.program.display()
        )
    }
}

/// All servers that the tests use.
///
/// # Panics
///
/// If one of them is not installed or cannot say its version.
pub async fn list() -> Vec<ServerVersion> {
    spawn_blocking(|| {
        let version = [OsString::from("--version")];
        let mut servers: Vec<_> = PostgresVersion::ALL
            .iter()
            .map(|postgres| ask("Postgres", postgres.bin().join("postgres"), &version))
            .collect();
        servers.push(ask(
            "Kafka",
            path_of("JAVA"),
            &java_args("kafka.Kafka", &version),
        ));
        servers.push(ask("NATS", path_of("NATS_SERVER"), &version));
        servers.push(ask("PgBouncer", path_of("PGBOUNCER"), &version));
        servers.push(ask("Redis", path_of("REDIS_SERVER"), &version));
        servers.push(ServerVersion {
            name: "S3",
            version: format!("s3s-fs {}", locked_version_of("s3s-fs")),
            program: "in the test process".into(),
        });
        servers
    })
    .await
    .expect("every server says its version")
}

fn ask(name: &'static str, program: PathBuf, args: &[OsString]) -> ServerVersion {
    let output = Command::new(&program).args(args).output();
    let output = output.unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said.lines().next().unwrap_or_default().trim().to_owned();
    assert!(
        output.status.success() && !version.is_empty(),
        "{name} does not say its version"
    );
    ServerVersion {
        name,
        version,
        program,
    }
}

/// A library does not say its version; the lock file does.
fn locked_version_of(library: &str) -> &'static str {
    const LOCK: &str = include_str!("../../../Cargo.lock");
    LOCK.split("[[package]]")
        .find(|package| package.contains(&format!("name = \"{library}\"\n")))
        .and_then(|package| package.split("version = \"").nth(1))
        .and_then(|rest| rest.split('"').next())
        .expect("the lock file holds every library")
}
