//! The development server against the real Postgres of this machine.
#![cfg(test)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use outbox_runtime::dev::{Binaries, DevError, Lookup, Server};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

fn binaries() -> Binaries {
    let lookup = Lookup {
        named: std::env::var_os("SINKS_PG_BIN").map(PathBuf::from),
        path: std::env::var_os("PATH"),
    };
    Binaries::find(&lookup).unwrap()
}

/// A folder that the server's user can get into, as a checkout usually is.
fn open_folder() -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

async fn start(dir: &Path) -> Result<Server, DevError> {
    Server::start(dir, &binaries(), &CancellationToken::new()).await
}

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

async fn number(connection: &mut PgConnection, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

/// Whether the process is there and not only waiting to be collected.
fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

async fn ends(pid: u32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(15);
    while is_alive(pid) {
        if Instant::now() > deadline {
            return false;
        }
        sleep(Duration::from_millis(20)).await;
    }
    true
}

fn kill(pid: u32, signal: &str) {
    let status = Command::new("kill")
        .args([signal, &pid.to_string()])
        .status();
    assert!(status.unwrap().success());
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_server_starts_takes_connections_and_stops() {
    let parent = open_folder();
    let server = start(&parent.path().join("dev")).await.unwrap();
    assert_eq!(server.notes(), [""; 0]);
    let mut connection = connect(&server.url("postgres")).await;
    assert_eq!(number(&mut connection, "select 41::int8 + 1").await, 42);

    // It stops although a client is connected.
    let pid = server.pid().unwrap();
    let stopping = Instant::now();
    server.stop().await.unwrap();
    assert!(stopping.elapsed() < Duration::from_secs(5));
    assert!(!is_alive(pid));
    assert!(connection.ping().await.is_err());
    let made = names(&parent.path().join("dev"));
    assert_eq!(made, ["postgres.log", "server", "sinks-dev.lock"]);
}

#[tokio::test]
async fn a_second_start_uses_the_data_again() {
    let dir = open_folder();
    let server = start(dir.path()).await.unwrap();
    let mut connection = connect(&server.url("postgres")).await;
    sqlx::query("create table kept as select 7::int8 as n")
        .execute(&mut connection)
        .await
        .unwrap();
    server.stop().await.unwrap();

    let server = start(dir.path()).await.unwrap();
    let mut connection = connect(&server.url("postgres")).await;
    assert_eq!(number(&mut connection, "select n from kept").await, 7);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_second_server_in_the_folder_is_refused_and_the_first_goes_on() {
    let dir = open_folder();
    let first = start(dir.path()).await.unwrap();
    let said = start(dir.path()).await.unwrap_err().to_string();
    let pid = format!("process {}", std::process::id());
    assert!(
        said.contains("already running") && said.contains(&pid),
        "{said}"
    );
    connect(&first.url("postgres")).await;
    first.stop().await.unwrap();
}

#[tokio::test]
async fn damaged_data_is_made_anew_and_the_user_is_told() {
    let dir = open_folder();
    start(dir.path()).await.unwrap().stop().await.unwrap();
    let data = dir.path().join("server/data");
    fs::write(data.join("global/pg_control"), "garbage").unwrap();

    let server = start(dir.path()).await.unwrap();
    let notes = server.notes().join("\n");
    assert!(
        notes.contains("anew") && notes.contains("pg_control"),
        "{notes}"
    );
    connect(&server.url("postgres")).await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_dropped_server_stops_by_itself_and_the_next_start_waits_for_it() {
    let dir = open_folder();
    let server = start(dir.path()).await.unwrap();
    let pid = server.pid().unwrap();
    drop(server);
    let server = start(dir.path()).await.unwrap();
    assert!(!is_alive(pid));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_stop_during_the_start_leaves_no_process_and_nothing_half_made() {
    let binaries = binaries();
    for millis in [0, 30, 300, 900, 1500] {
        let dir = open_folder();
        let stop = CancellationToken::new();
        let start = Server::start(dir.path(), &binaries, &stop);
        let cancel = async {
            sleep(Duration::from_millis(millis)).await;
            stop.cancel();
        };
        match tokio::join!(start, cancel).0 {
            Err(DevError::Stopped) => {}
            Ok(server) => server.stop().await.unwrap(),
            Err(error) => panic!("{error}"),
        }
        let names = names(dir.path());
        assert!(
            !names.contains(&"server.new".to_owned()),
            "after {millis} ms: {names:?}"
        );
        assert_eq!(
            processes_naming(dir.path()),
            Vec::<String>::new(),
            "after {millis} ms"
        );
    }
}

/// The command lines of all processes that name the folder.
fn processes_naming(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().unwrap();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(dir))
        .collect()
}

#[tokio::test]
async fn a_folder_closed_to_the_servers_user_still_works() {
    let dir = TempDir::new().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let server = start(&dir.path().join("dev")).await.unwrap();
    connect(&server.url("postgres")).await;
    server.stop().await.unwrap();

    let server = start(&dir.path().join("dev")).await.unwrap();
    let elsewhere = dir.path().join("dev/server").canonicalize().unwrap();
    server.stop().await.unwrap();
    if !elsewhere.starts_with(dir.path()) {
        fs::remove_dir_all(elsewhere).unwrap();
    }
}

#[tokio::test]
async fn a_path_with_spaces_quotes_and_letters_of_all_kinds_works() {
    let parent = open_folder();
    let server = start(&parent.path().join("a \"b\", 'c' & größe?#%41"))
        .await
        .unwrap();
    connect(&server.url("postgres")).await;
    server.stop().await.unwrap();
}

/// Not a test of its own: the process that the next two tests kill.
#[tokio::test]
#[ignore = "run by the tests that kill it"]
async fn holds_a_server() {
    let dir = std::env::var_os("SINKS_TEST_DIR").expect("the test that runs this sets the folder");
    let server = start(Path::new(&dir)).await.unwrap();
    fs::write(
        Path::new(&dir).join("pid"),
        server.pid().unwrap().to_string(),
    )
    .unwrap();
    sleep(Duration::from_secs(120)).await;
}

/// Starts a process that holds a server in the folder; returns both pids.
async fn another_process(dir: &Path) -> (std::process::Child, u32) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "holds_a_server", "--ignored"])
        .env("SINKS_TEST_DIR", dir)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let pid = timeout(Duration::from_secs(60), async {
        loop {
            match fs::read_to_string(dir.join("pid")).map(|text| text.parse()) {
                Ok(Ok(pid)) => return pid,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    });
    (child, pid.await.unwrap())
}

#[tokio::test]
async fn the_server_ends_when_its_owner_is_killed() {
    let dir = open_folder();
    let (mut owner, server) = another_process(dir.path()).await;
    assert!(is_alive(server));
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(ends(server).await, "the server outlived its owner");
}

#[tokio::test]
async fn a_server_that_was_left_behind_is_stopped_by_the_next_start() {
    let dir = open_folder();
    let (mut owner, left_behind) = another_process(dir.path()).await;
    kill(watcher_of(left_behind), "-KILL");
    owner.kill().unwrap();
    owner.wait().unwrap();
    sleep(Duration::from_millis(300)).await;
    assert!(is_alive(left_behind), "without its watcher it goes on");

    let server = start(dir.path()).await.unwrap();
    assert!(!is_alive(left_behind));
    let notes = server.notes().join("\n");
    assert!(
        notes.contains("left behind") && notes.contains(&left_behind.to_string()),
        "{notes}"
    );
    server.stop().await.unwrap();
}

fn watcher_of(server: u32) -> u32 {
    let suffix = format!("\0sh\0{server}\0");
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let pid = entry.file_name().to_str()?.parse().ok()?;
            line.ends_with(suffix.as_bytes()).then_some(pid)
        })
        .next()
        .unwrap()
}
