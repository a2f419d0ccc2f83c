//! Postgres: the oldest version that can be had (Debian's 15) and the newest (18).
//!
//! `fsync` is off: it protects against a crash of the operating system, which no test stages, and
//! costs most of the time. `kill -9` loses nothing for that, since what a process wrote survives
//! it in the kernel's memory. `synchronous_commit` and `full_page_writes` stay on, so a commit that
//! was acknowledged is written, and crash recovery does what it does in production.
//!
//! Each start makes a cluster of its own with `initdb`; a copied one would be quicker, but would
//! have the same `system_identifier`, by which the product tells clusters apart.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use sqlx::{Connection, PgConnection};
use tokio::time::{Instant, sleep};

use super::folder::Folder;
use super::installed;
use super::port::free_port;
use super::postgres_database::Database;
use super::process::{Launch, Process};

const START: Duration = Duration::from_secs(60);
const STOP: Duration = Duration::from_secs(30);

const SETTINGS: [(&str, &str); 11] = [
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("fsync", "off"),
    ("max_connections", "200"),
    ("max_prepared_transactions", "10"),
    ("shared_buffers", "64MB"),
    ("max_wal_size", "256MB"),
    ("timezone", "UTC"),
    ("log_timezone", "UTC"),
    ("log_line_prefix", "%m [%p] %a "),
    ("log_checkpoints", "off"),
];

/// Everybody may connect as anybody, but the role `with_password` (which a test that wants it
/// creates) must give its password.
const HBA: &str = "host all with_password 127.0.0.1/32 scram-sha-256\n\
                   host all all 127.0.0.1/32 trust\n\
                   host replication all 127.0.0.1/32 trust\n";

/// Which of the two installed versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostgresVersion {
    /// Debian's: 15.
    Oldest,
    /// 18.
    Newest,
}

impl PostgresVersion {
    /// Both, for tests that run against each.
    pub const ALL: [Self; 2] = [Self::Oldest, Self::Newest];

    /// Where its programs are.
    pub(super) fn bin(self) -> PathBuf {
        installed::path_of(match self {
            Self::Oldest => "POSTGRES_OLDEST_BIN",
            Self::Newest => "POSTGRES_NEWEST_BIN",
        })
    }
}

/// How a server is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Ends the sessions, rolls back, writes a checkpoint.
    Fast,
    /// Ends at once; the next start recovers as after a crash.
    Immediate,
}

/// Settings for a server of one's own.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    version: PostgresVersion,
    settings: Vec<(String, String)>,
}

impl PostgresOptions {
    /// Adds a line to `postgresql.conf`; the last one for a name counts.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes a new cluster and starts it.
    ///
    /// # Panics
    ///
    /// If the server is not installed or does not start, with the end of its log.
    pub async fn start(self) -> Postgres {
        let folder = Folder::new("postgres");
        if is_root() {
            folder.give_to_nobody();
        }
        let port = free_port();
        let mut postgres = Postgres {
            version: self.version,
            folder,
            port,
            process: None,
        };
        postgres.initialize(&self.settings).await;
        postgres.start_again().await;
        postgres
    }
}

/// A Postgres server on a port and with data of its own.
#[derive(Debug)]
pub struct Postgres {
    version: PostgresVersion,
    // Declared before the folder: the server ends before its data goes.
    process: Option<Process>,
    folder: Folder,
    port: u16,
}

impl Postgres {
    /// Settings to start from.
    pub fn options(version: PostgresVersion) -> PostgresOptions {
        PostgresOptions {
            version,
            settings: Vec::new(),
        }
    }

    /// Starts the oldest version.
    pub async fn oldest() -> Self {
        Self::options(PostgresVersion::Oldest).start().await
    }

    /// Starts the newest version.
    pub async fn newest() -> Self {
        Self::options(PostgresVersion::Newest).start().await
    }

    /// Which version this is.
    pub fn version(&self) -> PostgresVersion {
        self.version
    }

    /// Where it listens; the same after a restart.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The URL of its database `postgres`, for the superuser.
    pub fn url(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.addr())
    }

    /// Where its data and its log are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Whether it was started and not stopped.
    pub(super) fn runs(&self) -> bool {
        self.process.is_some()
    }

    /// Creates an empty database with a name of its own.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub async fn database(&self) -> Database {
        Database::create(self.addr()).await
    }

    /// Stops the server and waits for its end.
    ///
    /// # Panics
    ///
    /// If it is not running, or does not stop in time.
    pub async fn stop(&mut self, shutdown: Shutdown) {
        let mut process = self
            .process
            .take()
            .expect("a server that runs can be stopped");
        process.signal(match shutdown {
            Shutdown::Fast => Signal::INT,
            Shutdown::Immediate => Signal::QUIT,
        });
        process.wait(STOP).await;
    }

    /// Kills the server and all its backends as `kill -9` does.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub async fn kill(&mut self) {
        let mut process = self
            .process
            .take()
            .expect("a server that runs can be killed");
        let backends = children_of(process.pid());
        process.kill().await;
        for &backend in &backends {
            // It ends by itself when its parent is gone, which may be before this line.
            kill_process(backend, Signal::KILL).ok();
        }
        // A new server refuses the data folder while one of them lives.
        let deadline = Instant::now() + STOP;
        while backends
            .iter()
            .any(|&backend| test_kill_process(backend).is_ok())
        {
            assert!(
                Instant::now() < deadline,
                "a killed backend of Postgres does not go away"
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Starts the server after [`stop`](Self::stop) or [`kill`](Self::kill): same port, same data.
    ///
    /// # Panics
    ///
    /// If it is running, or does not start.
    pub async fn start_again(&mut self) {
        assert!(self.process.is_none(), "Postgres is running already");
        let mut process = Process::spawn(Launch {
            name: "postgres",
            program: self.version.bin().join("postgres"),
            args: vec!["-D".into(), self.folder.path().join("data").into()],
            folder: self.folder.path(),
            as_nobody: is_root(),
        })
        .await;
        let url = self.url();
        process
            .until_ready(START, || {
                let url = url.clone();
                async move {
                    let connection = PgConnection::connect(&url)
                        .await
                        .map_err(|error| error.to_string())?;
                    connection.close().await.map_err(|error| error.to_string())
                }
            })
            .await;
        self.process = Some(process);
    }

    /// Freezes the server and all its backends (`SIGSTOP`): connections stay open, nothing answers.
    pub fn pause(&self) {
        self.signal_all(Signal::STOP);
    }

    /// Ends [`pause`](Self::pause).
    pub fn resume(&self) {
        self.signal_all(Signal::CONT);
    }

    /// Freezes the one backend that `select pg_backend_pid()` names.
    ///
    /// # Panics
    ///
    /// If there is no such process.
    pub fn pause_backend(&self, pid: i32) {
        signal_backend(pid, Signal::STOP);
    }

    /// Ends [`pause_backend`](Self::pause_backend).
    ///
    /// # Panics
    ///
    /// If there is no such process.
    pub fn resume_backend(&self, pid: i32) {
        signal_backend(pid, Signal::CONT);
    }

    fn signal_all(&self, signal: Signal) {
        let process = self
            .process
            .as_ref()
            .expect("a server that runs can be signalled");
        // The parent first: it starts no backend while the others are stopped.
        process.signal(signal);
        for backend in children_of(process.pid()) {
            kill_process(backend, signal).ok();
        }
    }

    async fn initialize(&self, settings: &[(String, String)]) {
        let data = self.folder.path().join("data");
        let mut args = vec!["-D".into(), data.clone().into()];
        args.extend(
            [
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--no-locale",
                "--no-sync",
            ]
            .map(Into::into),
        );
        Process::run(
            Launch {
                name: "initdb",
                program: self.version.bin().join("initdb"),
                args,
                folder: self.folder.path(),
                as_nobody: is_root(),
            },
            START,
        )
        .await;
        let ours = SETTINGS.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let path = data.join("postgresql.conf");
        let mut conf = std::fs::read_to_string(&path).expect("initdb writes its settings");
        conf.push_str(&format!("\nport = {}\n", self.port));
        for (name, value) in ours.iter().chain(settings) {
            conf.push_str(&format!("{name} = '{}'\n", value.replace('\'', "''")));
        }
        std::fs::write(path, conf).expect("the data can be written");
        std::fs::write(data.join("pg_hba.conf"), HBA).expect("the data can be written");
    }
}

/// Postgres refuses to run as root.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn signal_backend(pid: i32, signal: Signal) {
    let pid = Pid::from_raw(pid).expect("a backend has a process id");
    kill_process(pid, signal).expect("the backend is alive");
}

/// The processes whose parent is `pid`.
fn children_of(pid: Pid) -> Vec<Pid> {
    let parent = pid.to_string();
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    processes
        .flatten()
        .filter(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // "pid (name) state parent …", where the name may hold anything.
            let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
            fields.split_whitespace().nth(1) == Some(&parent)
        })
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .collect()
}
