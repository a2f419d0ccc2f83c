//! The one thread that starts servers.
//!
//! Each server asks the kernel to kill it when its parent dies (`setpriv --pdeathsig`), so that it
//! cannot outlive the tests even when they are killed. The kernel takes *the thread that started
//! it* for the parent: were that a test's thread, every server would die with the first test.

use std::io;
use std::process::{Child, Command};
use std::sync::{OnceLock, mpsc};
use std::thread;

use tokio::sync::oneshot;

type Job = (Command, oneshot::Sender<io::Result<Child>>);

/// Starts `command` from the thread that lives as long as the process.
pub(super) async fn spawn(command: Command) -> io::Result<Child> {
    let (answer, child) = oneshot::channel();
    jobs()
        .send((command, answer))
        .expect("the spawning thread never ends");
    child.await.expect("the spawning thread answers every job")
}

fn jobs() -> &'static mpsc::Sender<Job> {
    static JOBS: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    JOBS.get_or_init(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        thread::Builder::new()
            .name("server-spawner".to_owned())
            .spawn(move || {
                for (mut command, answer) in jobs {
                    // A test that was cancelled does not want its server any more.
                    if let Err(Ok(mut orphan)) = answer.send(command.spawn()) {
                        drop(orphan.kill());
                        drop(orphan.wait());
                    }
                }
            })
            .expect("a thread can be started");
        sender
    })
}
