//! Makes the data folder of a new server with `initdb`.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::Child;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::account::Account;
use super::{Binaries, DevError};

/// Runs `initdb` on `data`, which must not exist. Whoever can reach the socket is
/// trusted: the socket's folder is what keeps others out. The locale is `C`, which
/// every system has.
pub(super) async fn run(
    data: &Path,
    binaries: &Binaries,
    account: Account,
    stop: &CancellationToken,
) -> Result<(), DevError> {
    let program = binaries.program("initdb");
    let mut process = account
        .command(&program)
        .arg("-D")
        .arg(data)
        .args([
            "--username=postgres",
            "--auth-local=trust",
            "--auth-host=reject",
        ])
        .args(["--locale=C", "--encoding=UTF8", "--no-sync"])
        .stderr(Stdio::piped())
        .spawn()
        .map_err(DevError::file("run (as the server's user)", &program))?;
    let mut said = String::new();
    let mut stderr = process
        .stderr
        .take()
        .expect("stderr was asked for as a pipe");
    let ended = async {
        stderr.read_to_string(&mut said).await.ok();
        process.wait().await
    };
    let status = tokio::select! {
        status = ended => Some(status),
        () = stop.cancelled() => None,
    };
    match status {
        Some(Ok(status)) if status.success() => Ok(()),
        Some(Ok(status)) => Err(DevError::Server(format!(
            "{} failed with {status}: {}",
            program.display(),
            said.lines().map(str::trim).collect::<Vec<_>>().join("; ")
        ))),
        Some(Err(error)) => Err(DevError::file("wait for", &program)(error)),
        None => {
            end(&mut process).await;
            Err(DevError::Stopped)
        }
    }
}

/// Ends `initdb` and the server it runs inside, which form a process group: politely,
/// so that they are gone before their files are removed.
async fn end(process: &mut Child) {
    let pid = process.id().and_then(|pid| i32::try_from(pid).ok());
    let Some(group) = pid.and_then(Pid::from_raw) else {
        return;
    };
    kill_process_group(group, Signal::TERM).ok();
    if timeout(Duration::from_secs(5), process.wait())
        .await
        .is_err()
    {
        kill_process_group(group, Signal::KILL).ok();
        process.wait().await.ok();
    }
}
