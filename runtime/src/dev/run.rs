//! The run itself: start, publish and deliver, drain, verify, stop.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::Postgres;
use sqlx::migrate::MigrateDatabase;
use tokio::time::{Instant, interval_at, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::ledger::Ledger;
use super::progress::{Figures, Progress};
use super::publishers::Load;
use super::verify::{self, Summary};
use super::{Binaries, DevError, Lookup, Server, output, worker};

const DATABASE: &str = "outbox";

/// How long the drain waits without seeing a single delivery.
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);

/// What `sinks dev` is told.
#[derive(Clone, Debug)]
pub struct DevOptions {
    /// The folder that holds everything, made if it does not exist.
    pub dir: PathBuf,
    /// The output file; `events.ndjson` in the folder if `None`.
    pub output: Option<PathBuf>,
    /// How long to publish; until told to stop if `None`.
    pub duration: Option<Duration>,
    /// Events published a second.
    pub rate: NonZeroU32,
    /// Where to look for Postgres.
    pub lookup: Lookup,
}

impl DevOptions {
    /// The folder unless another is chosen.
    pub const DEFAULT_DIR: &str = ".outbox-dev";
    /// The rate unless another is chosen, in events a second.
    pub const DEFAULT_RATE: NonZeroU32 = NonZeroU32::new(500).expect("500 is not zero");
}

/// Runs `sinks dev`: publishes and delivers until the time is over or `stop` is
/// cancelled, then drains, compares and stops everything. Tells its story on standard
/// error. A stop before anything was published gives an empty summary.
///
/// # Errors
/// What kept the run from its end. What the comparison found is no error: it is in
/// [`Summary::problems`].
pub async fn run(options: &DevOptions, stop: &CancellationToken) -> Result<Summary, DevError> {
    let binaries = Binaries::find(&options.lookup)?;
    let mut progress = Progress::start();
    progress.say(&format!(
        "starting Postgres {} (of {}) in {}",
        binaries.major(),
        binaries.folder().display(),
        options.dir.display()
    ));
    let mut server = match Server::start(&options.dir, &binaries, stop).await {
        Ok(server) => server,
        Err(DevError::Stopped) => return Ok(Summary::default()),
        Err(error) => return Err(error),
    };
    for note in server.notes() {
        progress.say(&format!("note: {note}"));
    }
    let url = server.url(DATABASE);
    let dir = server.dir().to_owned();
    let outcome = tokio::select! {
        outcome = session(options, &dir, url, stop, &mut progress) => outcome,
        error = server.ended() => Err(error),
    };
    let outcome = match outcome {
        // Clients may notice that the server is gone before we do.
        Err(DevError::Database { .. }) => timeout(Duration::from_secs(1), server.ended())
            .await
            .map_or(outcome, Err),
        outcome => outcome,
    };
    progress.end();
    let stopped = server.stop().await;
    let summary = outcome?;
    stopped?;
    Ok(summary)
}

/// Everything that happens while the server runs.
async fn session(
    options: &DevOptions,
    dir: &Path,
    url: String,
    stop: &CancellationToken,
    progress: &mut Progress,
) -> Result<Summary, DevError> {
    let output = options.output.clone();
    let output = output::prepare(&output.unwrap_or_else(|| dir.join("events.ndjson")))?;
    let database = tokio::select! {
        database = fresh_database(&url) => database?,
        () = stop.cancelled() => return Ok(Summary::default()),
    };
    introduce(options, dir, &url, &output, progress);

    let run = Run {
        ledger: Arc::default(),
        delivered: Arc::default(),
    };
    let worker_stop = CancellationToken::new();
    let worker = worker::run(
        database.clone(),
        &output,
        Arc::clone(&run.delivered),
        worker_stop.clone(),
    );
    tokio::pin!(worker);
    tokio::select! {
        () = &mut worker => return Err(DevError::Worker),
        result = run.publish_and_drain(options, url, stop, progress) => result?,
    }
    worker_stop.cancel();
    worker.await;

    let dead_letters = worker::dead_letters(&database).await?;
    verify::compare(&output, &run.ledger.take(), dead_letters)
        .map_err(DevError::file("read", &output))
}

/// Each run has a database of its own: what an earlier one left undelivered, and its
/// cursor, are none of this run's business.
async fn fresh_database(url: &str) -> Result<outbox::Database, DevError> {
    Postgres::force_drop_database(url)
        .await
        .map_err(DevError::database("remove the database of an earlier run"))?;
    Postgres::create_database(url)
        .await
        .map_err(DevError::database("create a database"))?;
    worker::database(url).await
}

fn introduce(options: &DevOptions, dir: &Path, url: &str, output: &Path, progress: &mut Progress) {
    let until = match options.duration {
        Some(duration) => format!("for {} s, or until Ctrl-C", duration.as_secs_f64()),
        None => "until Ctrl-C".to_owned(),
    };
    for line in [
        format!("folder    {}", dir.display()),
        format!("database  psql '{url}'"),
        format!("output    {}", output.display()),
        format!("running   {} events/s {until}", options.rate),
    ] {
        progress.say(&line);
    }
}

/// The figures of a run in progress.
struct Run {
    ledger: Arc<Ledger>,
    delivered: Arc<AtomicU64>,
}

impl Run {
    fn figures(&self) -> Figures {
        Figures {
            // Delivered first: so the difference is never below zero.
            delivered: self.delivered.load(Ordering::Relaxed),
            published: self.ledger.committed(),
        }
    }

    async fn publish_and_drain(
        &self,
        options: &DevOptions,
        url: String,
        stop: &CancellationToken,
        progress: &mut Progress,
    ) -> Result<(), DevError> {
        progress.restart();
        let load_stop = CancellationToken::new();
        let load = Load {
            url,
            rate: options.rate,
            ledger: Arc::clone(&self.ledger),
            stop: load_stop.clone(),
        };
        let published = async {
            let ending = async {
                until_over(options.duration, stop).await;
                load_stop.cancel();
            };
            tokio::join!(load.run(), ending).0
        };
        tokio::select! {
            result = published => result?,
            never = self.show(progress) => match never {},
        }
        let caught_up = tokio::select! {
            caught_up = self.caught_up() => caught_up,
            never = self.show(progress) => match never {},
        };
        progress.show(self.figures());
        progress.end();
        if !caught_up {
            progress.say(&format!(
                "nothing was delivered for {} s: giving up on the rest",
                DRAIN_PATIENCE.as_secs()
            ));
        }
        Ok(())
    }

    async fn show(&self, progress: &mut Progress) -> Infallible {
        let period = progress.interval();
        let mut ticks = interval_at(Instant::now() + period, period);
        loop {
            ticks.tick().await;
            progress.show(self.figures());
        }
    }

    /// Waits until everything published is delivered. `false` if that does not happen.
    async fn caught_up(&self) -> bool {
        let mut seen = self.figures().delivered;
        let mut deadline = Instant::now() + DRAIN_PATIENCE;
        loop {
            let figures = self.figures();
            if figures.delivered >= figures.published {
                return true;
            }
            if figures.delivered > seen {
                seen = figures.delivered;
                deadline = Instant::now() + DRAIN_PATIENCE;
            }
            if Instant::now() >= deadline {
                return false;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

async fn until_over(duration: Option<Duration>, stop: &CancellationToken) {
    let time_is_over = async {
        match duration {
            Some(duration) => sleep(duration).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = time_is_over => {}
        () = stop.cancelled() => {}
    }
}
