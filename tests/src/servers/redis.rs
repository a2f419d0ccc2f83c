//! Redis, which keeps what it acknowledges unless told otherwise.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, RedisResult};
use rustix::process::Signal;

use super::folder::Folder;
use super::installed;
use super::port::free_port;
use super::process::{Launch, Process};

const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(20);
const ANSWER: Duration = Duration::from_secs(10);

/// Settings for a server of one's own.
#[derive(Debug, Clone, Default)]
pub struct RedisOptions {
    password: Option<String>,
    lines: Vec<String>,
}

impl RedisOptions {
    /// Lets only those in who know this password.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.line(&format!("requirepass {password}"))
    }

    /// Takes no more data than this. What it does then, it does by `maxmemory-policy`.
    #[must_use]
    pub fn max_memory(self, bytes: u64) -> Self {
        self.line(&format!("maxmemory {bytes}"))
    }

    /// Keeps nothing but what is in its memory.
    #[must_use]
    pub fn no_log(self) -> Self {
        self.line("appendonly no")
    }

    /// Adds a line to the server's configuration file; of two for the same setting the last one counts.
    #[must_use]
    pub fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// Starts a server without data.
    ///
    /// # Panics
    ///
    /// If the server is not installed or does not start, with the end of its log.
    pub async fn start(self) -> Redis {
        let mut redis = Redis {
            password: self.password,
            process: None,
            folder: Folder::new("redis"),
            port: free_port(),
        };
        redis.configure(&self.lines);
        redis.start_again().await;
        redis
    }
}

/// An entry of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisEntry {
    /// Its id within the stream.
    pub id: String,
    /// Its fields.
    pub fields: HashMap<String, String>,
}

impl RedisEntry {
    /// A field's value, or nothing if it has no such field.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }
}

/// A Redis server on a port and with a folder of its own.
#[derive(Debug)]
pub struct Redis {
    password: Option<String>,
    // Declared before the folder: the server ends before its data goes.
    process: Option<Process>,
    folder: Folder,
    port: u16,
}

impl Redis {
    /// Settings to start from: a log that is synced before every answer, and no password.
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    /// Starts a server that lets everybody in.
    pub async fn start() -> Self {
        Self::options().start().await
    }

    /// Where it listens; the same after a restart.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its URL, without the password.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// The folder with its configuration, log and data.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A connection of its own, logged in.
    ///
    /// # Panics
    ///
    /// If the server does not accept it.
    pub async fn connection(&self) -> MultiplexedConnection {
        connect(self.addr(), self.password.as_deref())
            .await
            .expect("the test's Redis accepts connections")
    }

    /// Runs a command, written as on the command line: its words have no spaces.
    ///
    /// # Panics
    ///
    /// If the server answers with an error.
    pub async fn run<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let mut words = command.split_whitespace();
        let mut command = redis::cmd(words.next().expect("a command has a name"));
        command.arg(words.collect::<Vec<_>>());
        command
            .query_async(&mut self.connection().await)
            .await
            .expect("the test's Redis takes this command")
    }

    /// Everything in a stream, in its order; nothing if there is no such stream.
    pub async fn entries(&self, stream: &str) -> Vec<RedisEntry> {
        let found: Vec<(String, HashMap<String, String>)> =
            self.run(&format!("XRANGE {stream} - +")).await;
        found
            .into_iter()
            .map(|(id, fields)| RedisEntry { id, fields })
            .collect()
    }

    /// Stops the server and waits for its end.
    ///
    /// # Panics
    ///
    /// If it is not running, or does not stop in time.
    pub async fn stop(&mut self) {
        let mut process = self
            .process
            .take()
            .expect("a server that runs can be stopped");
        process.signal(Signal::TERM);
        process.wait(STOP).await;
    }

    /// Kills the server as `kill -9` does.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub async fn kill(&mut self) {
        let mut process = self
            .process
            .take()
            .expect("a server that runs can be killed");
        process.kill().await;
    }

    /// Starts the server after [`stop`](Self::stop) or [`kill`](Self::kill): same port, same data.
    ///
    /// # Panics
    ///
    /// If it is running, or does not start.
    pub async fn start_again(&mut self) {
        assert!(self.process.is_none(), "Redis is running already");
        let mut process = Process::spawn(Launch {
            name: "redis",
            program: installed::path_of("REDIS_SERVER"),
            args: vec![self.folder.path().join("redis.conf").into()],
            folder: self.folder.path(),
            as_nobody: false,
        })
        .await;
        process
            .until_ready(START, || async {
                // While it reads its log it answers that it is loading.
                let mut connection = connect(self.addr(), self.password.as_deref())
                    .await
                    .map_err(|error| error.to_string())?;
                let ping = redis::cmd("PING");
                let answer: RedisResult<()> = ping.query_async(&mut connection).await;
                answer.map_err(|error| error.to_string())
            })
            .await;
        self.process = Some(process);
    }

    /// Freezes the server (`SIGSTOP`): connections stay open, nothing answers.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Ends [`pause`](Self::pause).
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        self.process
            .as_ref()
            .expect("a server that runs can be signalled")
            .signal(signal);
    }

    fn configure(&self, lines: &[String]) {
        let mut conf = format!(
            "bind 127.0.0.1\nport {}\ndir {}\nsave \"\"\nappendonly yes\nappendfsync always\n",
            self.port,
            self.folder.path().display()
        );
        conf.extend(lines.iter().map(|line| format!("{line}\n")));
        std::fs::write(self.folder.path().join("redis.conf"), conf)
            .expect("a folder of ours can be written");
    }
}

async fn connect(addr: SocketAddr, password: Option<&str>) -> RedisResult<MultiplexedConnection> {
    let login = password.map_or_else(String::new, |password| format!(":{password}@"));
    let client = Client::open(format!("redis://{login}{addr}"))?;
    let limits = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER))
        .set_response_timeout(Some(ANSWER));
    client
        .get_multiplexed_async_connection_with_config(&limits)
        .await
}
