//! A server that speaks just enough of S3's protocol to fail on purpose: it keeps what is put, and
//! plays the faults it was given, one for each put.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// What happens to a put.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// It is answered with this status and code, and nothing is stored.
    Answer(u16, &'static str),
    /// It is stored, and the connection ends without an answer.
    LoseAnswer,
    /// The connection ends at once.
    Close,
    /// Nothing is stored, and no answer ever comes.
    Hang,
    /// It goes well.
    None,
}

/// A put that arrived.
#[derive(Clone, Debug)]
pub(super) struct Put {
    pub(super) path: String,
    pub(super) headers: BTreeMap<String, String>,
    length: usize,
}

/// What is told of an object that is there.
#[derive(Debug)]
struct Stored {
    metadata: String,
    length: usize,
}

#[derive(Debug, Default)]
struct State {
    faults: VecDeque<Fault>,
    puts: Vec<Put>,
    stored: BTreeMap<String, Stored>,
    refuse_checksums: bool,
}

/// The server. It ends when dropped.
pub(super) struct Scripted {
    port: u16,
    state: Arc<Mutex<State>>,
    _server: JoinSet<()>,
}

impl Scripted {
    pub(super) async fn start(faults: impl IntoIterator<Item = Fault>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(State {
            faults: faults.into_iter().collect(),
            ..State::default()
        }));
        let shared = Arc::clone(&state);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                connections.spawn(async move { serve(stream, &state).await });
            }
        });
        Self {
            port,
            state,
            _server: server,
        }
    }

    /// From now on a request with one of the newer checksums is refused, as some stores do.
    pub(super) fn refuse_checksums(&self) {
        self.state().refuse_checksums = true;
    }

    pub(super) fn settings(&self) -> Value {
        json!({
            "bucket": "events", "endpoint": format!("http://127.0.0.1:{}", self.port),
            "access_key_id": "id", "secret_access_key": "secret",
        })
    }

    /// The puts so far, also those that failed.
    pub(super) fn puts(&self) -> Vec<Put> {
        self.state().puts.clone()
    }

    /// The paths of what is stored.
    pub(super) fn stored(&self) -> Vec<String> {
        self.state().stored.keys().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// Serves a connection until either side has enough of it.
async fn serve(stream: TcpStream, state: &Mutex<State>) {
    let mut stream = BufStream::new(stream);
    while let Ok((method, put)) = request(&mut stream).await {
        let head = method == "HEAD";
        let reply = if head {
            look(state, &put)
        } else {
            store(state, put)
        };
        match reply {
            Reply::Answer(answer) => {
                if stream.write_all(answer.as_bytes()).await.is_err()
                    || stream.flush().await.is_err()
                {
                    return;
                }
            }
            Reply::Close => return,
            Reply::Hang => std::future::pending().await,
        }
    }
}

enum Reply {
    Answer(String),
    Close,
    Hang,
}

async fn request(stream: &mut BufStream<TcpStream>) -> io::Result<(String, Put)> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut start = lines[0].split(' ').map(str::to_owned);
    let (method, path) = (start.next().unwrap(), start.next().unwrap());
    let headers: BTreeMap<_, _> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let path = path.split('?').next().unwrap().to_owned();
    let put = Put {
        path,
        headers,
        length,
    };
    Ok((method, put))
}

fn store(state: &Mutex<State>, put: Put) -> Reply {
    let mut state = state.lock().unwrap();
    state.puts.push(put.clone());
    let checksum = |name: &String| {
        name.starts_with("x-amz-checksum-") || name.starts_with("x-amz-sdk-checksum")
    };
    if state.refuse_checksums && put.headers.keys().any(checksum) {
        return Reply::Answer(answer(501, "NotImplemented"));
    }
    let fault = state.faults.pop_front().unwrap_or(Fault::None);
    match fault {
        Fault::Answer(status, code) => return Reply::Answer(answer(status, code)),
        Fault::Close => return Reply::Close,
        Fault::Hang => return Reply::Hang,
        Fault::LoseAnswer | Fault::None => {}
    }
    if put.headers.contains_key("if-none-match") && state.stored.contains_key(&put.path) {
        return Reply::Answer(answer(412, "PreconditionFailed"));
    }
    let metadata = put
        .headers
        .iter()
        .filter(|(name, _)| name.starts_with("x-amz-meta-"))
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = put.length;
    state.stored.insert(put.path, Stored { metadata, length });
    if matches!(fault, Fault::LoseAnswer) {
        return Reply::Close;
    }
    Reply::Answer(answer(200, ""))
}

fn look(state: &Mutex<State>, put: &Put) -> Reply {
    Reply::Answer(match state.lock().unwrap().stored.get(&put.path) {
        Some(Stored { metadata, length }) => head(200, *length, metadata),
        None => head(404, 0, ""),
    })
}

fn answer(status: u16, code: &str) -> String {
    let body = match code {
        "" => String::new(),
        code => format!("<Error><Code>{code}</Code><Message>scripted</Message></Error>"),
    };
    head(status, body.len(), "") + &body
}

fn head(status: u16, length: usize, headers: &str) -> String {
    format!("HTTP/1.1 {status} scripted\r\n{headers}content-length: {length}\r\n\r\n")
}
