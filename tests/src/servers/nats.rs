//! NATS with JetStream.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{Client, ConnectError, ConnectOptions};
use rustix::process::Signal;

use super::folder::Folder;
use super::installed;
use super::port::free_port;
use super::process::{Launch, Process};

const START: Duration = Duration::from_secs(30);
const STOP: Duration = Duration::from_secs(20);

/// Settings for a server of one's own.
#[derive(Debug, Clone, Default)]
pub struct NatsOptions {
    login: Option<(String, String)>,
    lines: Vec<String>,
}

impl NatsOptions {
    /// Lets only this user in, with this password.
    #[must_use]
    pub fn login(mut self, user: &str, password: &str) -> Self {
        self.login = Some((user.to_owned(), password.to_owned()));
        self
    }

    /// Limits a message, headers included.
    #[must_use]
    pub fn max_payload(self, bytes: u32) -> Self {
        self.line(&format!("max_payload: {bytes}"))
    }

    /// Adds a line to the server's configuration file.
    #[must_use]
    pub fn line(mut self, line: &str) -> Self {
        self.lines.push(line.to_owned());
        self
    }

    /// Starts a server with an empty store.
    ///
    /// # Panics
    ///
    /// If the server is not installed or does not start, with the end of its log.
    pub async fn start(self) -> Nats {
        let mut nats = Nats {
            login: self.login,
            process: None,
            folder: Folder::new("nats"),
            port: free_port(),
        };
        nats.configure(&self.lines);
        nats.start_again().await;
        nats
    }
}

/// A NATS server with JetStream, on a port and with a store of its own.
#[derive(Debug)]
pub struct Nats {
    login: Option<(String, String)>,
    // Declared before the folder: the server ends before its data goes.
    process: Option<Process>,
    folder: Folder,
    port: u16,
}

impl Nats {
    /// Settings to start from.
    pub fn options() -> NatsOptions {
        NatsOptions::default()
    }

    /// Starts a server that lets everybody in.
    pub async fn start() -> Self {
        Self::options().start().await
    }

    /// Where it listens; the same after a restart.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Its URL, without user and password.
    pub fn url(&self) -> String {
        format!("nats://{}", self.addr())
    }

    /// The folder with its configuration, log and store.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Connects a client of its own.
    ///
    /// # Panics
    ///
    /// If the server does not accept it.
    pub async fn client(&self) -> Client {
        connect(self.url(), self.login.clone())
            .await
            .expect("the test's NATS accepts connections")
    }

    /// JetStream through a client of its own.
    ///
    /// # Panics
    ///
    /// If the server does not accept it.
    pub async fn jetstream(&self) -> Context {
        jetstream::new(self.client().await)
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
        assert!(self.process.is_none(), "NATS is running already");
        let mut process = Process::spawn(Launch {
            name: "nats",
            program: installed::path_of("NATS_SERVER"),
            args: vec!["-c".into(), self.folder.path().join("nats.conf").into()],
            folder: self.folder.path(),
            as_nobody: false,
        })
        .await;
        process
            .until_ready(START, || {
                let connecting = connect(self.url(), self.login.clone());
                async move {
                    let client = connecting.await.map_err(|error| error.to_string())?;
                    // JetStream recovers its streams after the port is open.
                    let account = jetstream::new(client).query_account().await;
                    account.map(drop).map_err(|error| error.to_string())
                }
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
        let mut conf = format!("listen: \"{}\"\n", self.addr());
        let store = self.folder.path().join("store");
        conf.push_str(&format!(
            "jetstream {{ store_dir: \"{}\" }}\n",
            store.display()
        ));
        if let Some((user, password)) = &self.login {
            let login = format!("authorization {{ user: \"{user}\", password: \"{password}\" }}\n");
            conf.push_str(&login);
        }
        conf.extend(lines.iter().map(|line| format!("{line}\n")));
        std::fs::write(self.folder.path().join("nats.conf"), conf)
            .expect("a folder of ours can be written");
    }
}

async fn connect(url: String, login: Option<(String, String)>) -> Result<Client, ConnectError> {
    let options = login.map_or_else(ConnectOptions::new, |(user, password)| {
        ConnectOptions::with_user_and_password(user, password)
    });
    options.connect(url).await
}
