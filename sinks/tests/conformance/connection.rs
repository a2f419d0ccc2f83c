//! A client of the ledger.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    /// Connects, and says what the ledger answered.
    pub(crate) async fn open(
        server: SocketAddr,
        place: &str,
        password: &str,
    ) -> io::Result<(Self, String)> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let stream = BufReader::new(stream);
        let mut connection = Self { stream };
        let hello = format!("OPEN {place} {password}\n");
        let answer = connection.ask(hello.as_bytes()).await?;
        Ok((connection, answer))
    }

    pub(crate) async fn put(&mut self, token: &str, body: &[u8]) -> io::Result<String> {
        let mut request = format!("PUT {token} {}\n", body.len()).into_bytes();
        request.extend_from_slice(body);
        self.ask(&request).await
    }

    pub(crate) async fn sync(&mut self) -> io::Result<String> {
        self.ask(b"SYNC\n").await
    }

    async fn ask(&mut self, request: &[u8]) -> io::Result<String> {
        self.stream.write_all(request).await?;
        let mut answer = String::new();
        match self.stream.read_line(&mut answer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(answer.trim_end().to_owned()),
        }
    }
}
