//! A small real server: it keeps entries in places, one log each, and can be crashed.
//!
//! The protocol is lines: `OPEN place password`, then any number of `PUT token bytes` with
//! so many bytes behind it, each answered with `OK` or `NO`, and `SYNC`. What was put is
//! visible at once, like a write in the page cache, and survives a crash once it was synced.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use outbox_sinks::conformance::Stored;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(crate) const PASSWORD: &str = "correct-horse-battery";

/// A body with this in it is refused.
pub(crate) const REFUSED: &str = "no-ledger-takes-this";

#[derive(Debug, Default)]
struct Log {
    entries: Vec<(String, Stored)>,
    synced: usize,
}

#[derive(Debug)]
struct State {
    places: Mutex<BTreeMap<String, Log>>,
    crashes: watch::Sender<()>,
    /// Whether an entry with a known token is dropped.
    drops: bool,
}

/// The server. It ends when dropped.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) addr: SocketAddr,
    state: Arc<State>,
    _server: JoinSet<()>,
}

impl Ledger {
    pub(crate) async fn start(drops: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::new(State {
            places: Mutex::default(),
            crashes: watch::Sender::new(()),
            drops,
        });
        let mut server = JoinSet::new();
        server.spawn(serve(listener, Arc::clone(&state)));
        Self {
            addr,
            state,
            _server: server,
        }
    }

    /// Makes a place.
    pub(crate) fn create(&self) -> String {
        let mut places = self.state.places.lock().unwrap();
        let name = format!("place-{}", places.len());
        places.insert(name.clone(), Log::default());
        name
    }

    /// What a reader sees.
    pub(crate) fn read(&self, place: &str) -> Vec<Stored> {
        let places = self.state.places.lock().unwrap();
        let entries = places[place].entries.iter();
        entries.map(|(_, stored)| stored.clone()).collect()
    }

    /// Loses what was not synced, and every connection.
    pub(crate) fn crash(&self) {
        for log in self.state.places.lock().unwrap().values_mut() {
            log.entries.truncate(log.synced);
        }
        self.state.crashes.send_replace(());
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (state, mut crashes) = (Arc::clone(&state), state.crashes.subscribe());
        connections.spawn(async move {
            tokio::select! {
                biased;
                _ = crashes.changed() => {}
                _ = talk(stream, &state) => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// One connection, until it ends or breaks the protocol.
async fn talk(stream: TcpStream, state: &State) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut stream = BufReader::new(stream);
    let mut place = String::new();
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["OPEN", name, password] => {
                name.clone_into(&mut place);
                open(state, name, password)
            }
            ["PUT", token, bytes] => {
                let mut body = vec![0; bytes.parse().ok()?];
                stream.read_exact(&mut body).await.ok()?;
                put(state, &place, token, body)
            }
            ["SYNC"] => {
                let mut places = state.places.lock().unwrap();
                let log = places.get_mut(&place)?;
                log.synced = log.entries.len();
                "OK\n"
            }
            _ => return None,
        };
        stream.write_all(answer.as_bytes()).await.ok()?;
    }
}

fn open(state: &State, name: &str, password: &str) -> &'static str {
    if password != PASSWORD {
        return "DENIED\n";
    }
    if state.places.lock().unwrap().contains_key(name) {
        "OK\n"
    } else {
        "ABSENT\n"
    }
}

/// The token is the event's id, and with a mark behind it for a replay.
fn put(state: &State, place: &str, token: &str, body: Vec<u8>) -> &'static str {
    if String::from_utf8_lossy(&body).contains(REFUSED) {
        return "NO\n";
    }
    let mut places = state.places.lock().unwrap();
    let Some(log) = places.get_mut(place) else {
        return "ABSENT\n";
    };
    let known = log.entries.iter().any(|(other, _)| other == token);
    if !(known && state.drops) {
        let id = token.split('#').next().unwrap_or(token);
        log.entries.push((token.to_owned(), Stored::new(id, body)));
    }
    "OK\n"
}
