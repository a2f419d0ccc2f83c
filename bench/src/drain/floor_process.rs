//! A program that speaks the [protocol](crate::floor::protocol) of those that are measured.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// The longest that anything may take here.
const PATIENCE: Duration = Duration::from_secs(120);

/// It runs. It is killed when dropped.
#[derive(Debug)]
pub(super) struct FloorProcess {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl FloorProcess {
    /// Starts it. What it says on its standard error is for people.
    pub(super) fn spawn(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start {:?}", command.as_std().get_program()))?;
        let input = child.stdin.take().context("its input is a pipe")?;
        let output = child.stdout.take().context("its output is a pipe")?;
        let lines = BufReader::new(output).lines();
        Ok(Self {
            child,
            input,
            lines,
        })
    }

    pub(super) fn pid(&self) -> Result<u32> {
        self.child.id().context("a program that runs has a pid")
    }

    /// Waits for the line that begins with `word`, and gives the rest of it.
    pub(super) async fn until(&mut self, word: &str) -> Result<String> {
        let line = timeout(PATIENCE, self.lines.next_line())
            .await
            .with_context(|| format!("there was no `{word}` in {PATIENCE:?}"))??;
        match line.as_deref().and_then(|line| line.strip_prefix(word)) {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => bail!("it said {line:?} instead of `{word}`"),
        }
    }

    pub(super) async fn say(&mut self, word: &str) -> Result<()> {
        self.input.write_all(format!("{word}\n").as_bytes()).await?;
        Ok(self.input.flush().await?)
    }

    /// Lets it end, and waits for that.
    pub(super) async fn quit(mut self) -> Result<()> {
        self.say("quit").await?;
        let status = timeout(PATIENCE, self.child.wait())
            .await
            .context("it does not end")??;
        anyhow::ensure!(status.success(), "it failed: {status}");
        Ok(())
    }
}
