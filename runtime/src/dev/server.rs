//! A private Postgres server for development and tests.
//!
//! It listens on a Unix socket in a folder that only its own user may enter, and on no
//! port: so there is no port to lose to another program and no password to leak, and
//! nobody else on the machine can connect. Data on it is for throwing away: it does
//! not wait for the disk, so a crash of the machine may damage it.
//!
//! It never outlives its owner. [`Server::stop`] ends it in good order. If the value is
//! dropped or the process is killed, a small shell that waits at the other end of a
//! pipe sees the pipe close, and tells the server to stop. (A parent-death signal
//! would be simpler, but it follows the thread that started the server, not the
//! process, and exists on Linux only.) If even that shell is killed, the next start
//! finds the server and ends it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, ChildStdin};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::account::Account;
use super::folder::{self, Folder, Found};
use super::leftover::{self, Postmaster};
use super::{Binaries, DevError, initdb};

/// How long a server may take until it takes connections; recovery after a crash counts.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// Tells the server to stop (a fast shutdown) when the pipe to its owner closes.
const WATCHER: &str = "trap '' INT TERM HUP; read -r line; kill -INT \"$1\"";

/// A running server. See the module for what ends it.
#[derive(Debug)]
pub struct Server {
    process: Child,
    /// The near end of the watcher's pipe: closed when this value or the process ends.
    _alive: Option<ChildStdin>,
    watcher: Child,
    socket: PathBuf,
    notes: Vec<String>,
    folder: Folder,
}

impl Server {
    /// Starts a server in `dir`, which is made if it does not exist. Data of an earlier
    /// start in the same folder is used again, or replaced if it can't be.
    ///
    /// # Errors
    /// When the folder is in use or holds other people's files, when Postgres does not
    /// start, and [`DevError::Stopped`] if `stop` is cancelled first. Nothing is left
    /// running then, and nothing half made.
    pub async fn start(
        dir: &Path,
        binaries: &Binaries,
        stop: &CancellationToken,
    ) -> Result<Self, DevError> {
        let account = Account::for_server()?;
        let folder = Folder::take(dir, account)?;
        let mut notes = Vec::new();
        if let Some(data) = folder.earlier_data()
            && let Some(pid) = leftover::stop(&data).await?
        {
            notes.push(format!(
                "stopped the server that an earlier run left behind (process {pid})"
            ));
        }
        folder.discard();
        match folder.found(binaries.major()) {
            Found::Usable(server) => {
                match Running::start(&folder, &server, binaries, account, stop).await {
                    Ok(running) => return Ok(running.into_server(folder, notes)),
                    Err(DevError::Server(why)) => {
                        notes.push(format!(
                            "made the server's data anew, since it did not start: {why}"
                        ));
                    }
                    Err(error) => return Err(error),
                }
            }
            Found::Unusable(why) => notes.push(format!("made the server's data anew, since {why}")),
            Found::Nothing => {}
        }
        folder.clear()?;
        let server = create(&folder, binaries, account, stop).await?;
        if !server.starts_with(folder.path()) {
            notes.push(format!(
                "the server's data is in {}, since the folder's path is too long or closed to the server's user",
                server.display()
            ));
        }
        let running = Running::start(&folder, &server, binaries, account, stop).await?;
        Ok(running.into_server(folder, notes))
    }

    /// The URL of a database on this server, as `psql` and sqlx read it. It holds no
    /// password, since the socket needs none.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let (database, socket) = (escape(database), escape(&self.socket.to_string_lossy()));
        format!("postgres://postgres@localhost/{database}?host={socket}&sslmode=disable")
    }

    /// The folder it was started in, as an absolute path.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// What was unusual about the start, as sentences for the user.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The pid of the server's main process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.process.id()
    }

    /// Waits until the server ends by itself, which it should not.
    pub async fn ended(&mut self) -> DevError {
        // An error here means that it can't be waited for: then it is gone as well.
        self.process.wait().await.ok();
        DevError::Server(format!(
            "the Postgres server ended by itself: {}",
            last_words(&self.folder.log())
        ))
    }

    /// Ends the server: connections are closed, and it shuts down in good order.
    ///
    /// # Errors
    /// If it had to be killed.
    pub async fn stop(mut self) -> Result<(), DevError> {
        let result = shut_down(&mut self.process).await;
        // Only now, so that the watcher is there until the server is gone.
        self.watcher.start_kill().ok();
        self.watcher.wait().await.ok();
        result
    }
}

/// A server process together with its watcher.
struct Running {
    process: Child,
    watcher: Child,
    socket: PathBuf,
}

impl Running {
    async fn start(
        folder: &Folder,
        server: &Path,
        binaries: &Binaries,
        account: Account,
        stop: &CancellationToken,
    ) -> Result<Self, DevError> {
        let log = folder.log();
        let output = File::create(&log).map_err(DevError::file("create", &log))?;
        let errors = output.try_clone().map_err(DevError::file("open", &log))?;
        let mut process = account
            .command(binaries.program("postgres"))
            .arg("-D")
            .arg(folder::data(server))
            .args(settings(server))
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(DevError::file("run", binaries.program("postgres")))?;
        let watcher = match watch(&process, account) {
            Ok(watcher) => watcher,
            Err(error) => {
                shut_down(&mut process).await.ok();
                return Err(error);
            }
        };
        let mut running = Self {
            watcher,
            process,
            socket: server.to_owned(),
        };
        let ready = tokio::select! {
            ready = running.ready(server, &log) => ready,
            () = stop.cancelled() => Err(DevError::Stopped),
        };
        if let Err(error) = ready {
            // What went wrong first is what the user has to hear of.
            shut_down(&mut running.process).await.ok();
            running.watcher.start_kill().ok();
            running.watcher.wait().await.ok();
            return Err(error);
        }
        Ok(running)
    }

    /// Waits until the server says in its `postmaster.pid` that it takes connections.
    async fn ready(&mut self, server: &Path, log: &Path) -> Result<(), DevError> {
        let data = folder::data(server);
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            let ended = self.process.try_wait();
            if !matches!(ended, Ok(None)) {
                return Err(DevError::Server(format!(
                    "Postgres did not start: {}",
                    last_words(log)
                )));
            }
            let pid = self.process.id().and_then(|pid| i32::try_from(pid).ok());
            if Postmaster::read(&data).is_some_and(|it| it.ready && Some(it.pid) == pid) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(DevError::Server(format!(
                    "Postgres did not take connections within {} s: {}",
                    START_PATIENCE.as_secs(),
                    last_words(log)
                )));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn into_server(mut self, folder: Folder, notes: Vec<String>) -> Server {
        Server {
            _alive: self.watcher.stdin.take(),
            process: self.process,
            watcher: self.watcher,
            socket: self.socket,
            notes,
            folder,
        }
    }
}

async fn create(
    folder: &Folder,
    binaries: &Binaries,
    account: Account,
    stop: &CancellationToken,
) -> Result<PathBuf, DevError> {
    let server = folder.prepare().await?;
    match initdb::run(&folder::data(&server), binaries, account, stop).await {
        Ok(()) => folder.finish(),
        Err(error) => {
            folder.discard();
            Err(error)
        }
    }
}

fn settings(server: &Path) -> Vec<String> {
    // A list of folders, so the path is quoted as one name.
    let socket = server.to_string_lossy().replace('"', "\"\"");
    [
        "listen_addresses=",
        &format!("unix_socket_directories=\"{socket}\""),
        "unix_socket_permissions=0700",
        "port=5432",
        "fsync=off",
        "full_page_writes=off",
        "logging_collector=off",
        "log_destination=stderr",
    ]
    .into_iter()
    .flat_map(|setting| ["-c".to_owned(), setting.to_owned()])
    .collect()
}

fn watch(process: &Child, account: Account) -> Result<Child, DevError> {
    let pid = process.id().map(|pid| pid.to_string()).unwrap_or_default();
    account
        .command("/bin/sh")
        .args(["-c", WATCHER, "sh", &pid])
        .stdin(Stdio::piped())
        .spawn()
        .map_err(DevError::file("run", "/bin/sh"))
}

/// A fast shutdown, then an immediate one, then the end by force.
async fn shut_down(process: &mut Child) -> Result<(), DevError> {
    for (signal, patience) in [
        (Signal::INT, Duration::from_secs(10)),
        (Signal::QUIT, Duration::from_secs(5)),
    ] {
        let pid = process.id().and_then(|pid| i32::try_from(pid).ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            return Ok(());
        };
        // It may have ended on its own: the wait tells.
        kill_process(pid, signal).ok();
        if timeout(patience, process.wait()).await.is_ok() {
            return Ok(());
        }
    }
    process.kill().await.ok();
    Err(DevError::Server(
        "the Postgres server did not shut down and had to be killed".to_owned(),
    ))
}

/// The last lines of the server's log, for an error's sentence.
fn last_words(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().rev().take(4).collect();
    let lines: Vec<&str> = lines.into_iter().rev().map(str::trim).collect();
    if lines.is_empty() {
        return format!("it says nothing in {}", log.display());
    }
    format!("{} (from {})", lines.join("; "), log.display())
}

/// Percent-encodes what a URL gives a meaning of its own; slashes stay readable.
fn escape(text: &str) -> String {
    use std::fmt::Write;
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => write!(out, "%{byte:02X}").expect("a String takes all"),
        }
        out
    })
}
