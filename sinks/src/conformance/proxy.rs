//! A TCP proxy that plays the network that fails.
//!
//! It never closes its port: `Refuse` accepts and closes at once, since a port that was given
//! up could not be had back for sure. It runs on a thread of its own, because a test may block
//! its runtime while it waits for a program that talks through the proxy.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// What the proxy does with connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Forwards everything.
    Pass,
    /// Forwards everything, each piece (of up to 64 KiB) this much later, in each direction. Pieces
    /// wait for each other, so this limits throughput too.
    Latency(Duration),
    /// Closes every connection in order (FIN), open or new.
    Refuse,
    /// Ends every connection with a reset (RST), open or new.
    Reset,
    /// Accepts, keeps connections open, and forwards nothing: a server that vanished. What comes
    /// in the meantime is forwarded when the mode changes.
    Hang,
    /// Forwards what the client sends and holds the answers back. With [`Proxy::cut`] after it,
    /// the work is done and the word of it is lost.
    HoldAnswers,
    /// Forwards this many bytes from client to server on each connection, counted from the change
    /// of mode, and ends it when more come: in order for the server, with a reset for the client.
    TruncateAfter(usize),
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    mode: watch::Sender<Mode>,
    /// A change means: close what is open now.
    cuts: watch::Sender<()>,
    accepted: AtomicUsize,
}

/// A proxy on a free port of the loopback address. It ends, with all its connections, when
/// dropped. Its mode can be changed at any time and holds for connections that are open as
/// well as for new ones.
///
/// ```
/// use outbox_sinks::conformance::{Mode, Proxy};
/// use tokio::io::AsyncReadExt;
/// use tokio::net::{TcpListener, TcpStream};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let server = TcpListener::bind("127.0.0.1:0").await?;
/// let proxy = Proxy::start(server.local_addr()?).await;
/// let mut client = TcpStream::connect(proxy.addr()).await?;
/// proxy.set(Mode::Refuse);
/// assert_eq!(client.read(&mut [0; 8]).await?, 0, "the connection was closed");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
    /// Taken when the proxy is dropped.
    runtime: Option<Runtime>,
}

impl Proxy {
    /// Starts a proxy in front of `target`, in mode [`Mode::Pass`].
    ///
    /// # Panics
    /// If it can't listen.
    pub async fn start(target: SocketAddr) -> Self {
        let shared = Arc::new(Shared {
            target,
            mode: watch::Sender::new(Mode::Pass),
            cuts: watch::Sender::new(()),
            accepted: AtomicUsize::new(0),
        });
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("proxy")
            .enable_all()
            .build()
            .expect("a thread for a proxy can be started");
        let listener = runtime
            .spawn(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .await
            .expect("binding a port does not panic")
            .expect("some port of the loopback address is free");
        let addr = listener
            .local_addr()
            .expect("a bound listener has an address");
        // It ends with the runtime.
        drop(runtime.spawn(serve(listener, Arc::clone(&shared))));
        Self {
            addr,
            shared,
            runtime: Some(runtime),
        }
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Changes what happens to all connections from now on.
    pub fn set(&self, mode: Mode) {
        self.shared.mode.send_replace(mode);
    }

    /// Closes the connections that are open now; new ones are treated by the mode.
    pub fn cut(&self) {
        self.shared.cuts.send_replace(());
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Waits for nothing, as a runtime that is dropped would.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Accepts until its runtime ends, which drops the set and with it every connection.
async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        connections.spawn(connection(client, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// In order, on both sides.
    Close,
    /// With a reset on both sides.
    Reset,
    /// In order for the server, which keeps what it got; with a reset for the client.
    Truncate,
}

/// One connection, until either side, a cut or the mode ends it.
async fn connection(mut client: TcpStream, shared: Arc<Shared>) {
    let (mut cuts, mode) = (shared.cuts.subscribe(), shared.mode.subscribe());
    let mut server = None;
    let end = tokio::select! {
        biased;
        // 1. The test cuts what is open.
        _ = cuts.changed() => End::Close,
        // 2. The mode allows no connection.
        end = forbidden(mode.clone()) => end,
        // 3. Bytes go both ways until one side ends.
        end = forward(&mut client, &mut server, shared.target, mode) => end,
    };
    // A close with linger zero sends a reset, and drops what was not sent yet.
    if end != End::Close {
        drop(client.set_zero_linger());
    }
    if let (End::Reset, Some(server)) = (end, &server) {
        drop(server.set_zero_linger());
    }
}

/// Waits for a mode that ends connections.
async fn forbidden(mut mode: watch::Receiver<Mode>) -> End {
    let ending = mode
        .wait_for(|mode| matches!(mode, Mode::Refuse | Mode::Reset))
        .await;
    match ending.as_deref() {
        Ok(Mode::Reset) => End::Reset,
        _ => End::Close,
    }
}

async fn forward(
    client: &mut TcpStream,
    server: &mut Option<TcpStream>,
    target: SocketAddr,
    mode: watch::Receiver<Mode>,
) -> End {
    let Ok(connected) = TcpStream::connect(target).await else {
        return End::Close;
    };
    // Small pieces must not wait for each other; the clients under test turn this on as well.
    drop((client.set_nodelay(true), connected.set_nodelay(true)));
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.insert(connected).split();
    tokio::select! {
        end = pump(from_client, to_server, Direction::ToServer, mode.clone()) => end,
        end = pump(from_server, to_client, Direction::ToClient, mode) => end,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

/// Copies in one direction as the mode says at each piece.
async fn pump(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    direction: Direction,
    mut mode: watch::Receiver<Mode>,
) -> End {
    let mut buffer = vec![0; 64 * 1024];
    let mut since_change = 0;
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else {
            return End::Close;
        };
        if mode.has_changed().unwrap_or(false) {
            since_change = 0;
        }
        // What is held back here goes on its way when the mode allows it again.
        let held = |mode: &Mode| match direction {
            Direction::ToServer => *mode == Mode::Hang,
            Direction::ToClient => matches!(mode, Mode::Hang | Mode::HoldAnswers),
        };
        let Ok(now) = mode.wait_for(|mode| !held(mode)).await.map(|mode| *mode) else {
            return End::Close;
        };
        let mut piece = buffer.get(..count).unwrap_or_default();
        let mut truncated = false;
        if let Mode::Latency(delay) = now {
            sleep(delay).await;
        }
        if let (Mode::TruncateAfter(limit), Direction::ToServer) = (now, direction) {
            truncated = since_change + count > limit;
            piece = piece
                .get(..limit - since_change.min(limit))
                .unwrap_or(piece);
        }
        since_change += piece.len();
        if to.write_all(piece).await.is_err() {
            return End::Close;
        }
        if truncated {
            return End::Truncate;
        }
    }
}
