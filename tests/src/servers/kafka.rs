//! Apache Kafka: one node that is broker and controller (KRaft).
//!
//! It has two listeners. A client that comes through the first is told to stay there. A client
//! that comes through a proxy in front of the second is told to come through the proxy again,
//! whatever it asks: so the proxy can cut it off while the test itself looks at the broker through
//! the first.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rustix::process::Signal;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use super::Proxy;
use super::folder::Folder;
use super::installed;
use super::port::free_port;
use super::process::{Launch, Process};

const START: Duration = Duration::from_secs(90);
const STOP: Duration = Duration::from_secs(60);
const CLUSTER_ID: &str = "b3V0Ym94LXNpbmtzLXRlcw";

/// What every broker has in common. One of each internal topic's partitions is enough, and a group
/// need not wait for more members.
const SETTINGS: &str = "\
process.roles=broker,controller
node.id=1
listener.security.protocol.map=DIRECT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=DIRECT
controller.listener.names=CONTROLLER
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
";

/// The flags that start a JVM soonest.
const QUICK_JVM: [&str; 2] = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/// A small heap, and what every JVM of ours has.
const JVM: [&str; 6] = [
    "-Xmx512m",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
];

/// Settings for a broker of one's own.
#[derive(Debug, Clone, Default)]
pub struct KafkaOptions {
    settings: Vec<(String, String)>,
    warm: bool,
}

impl KafkaOptions {
    /// Adds a line to the broker's properties; the last one for a name counts.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// For a broker that runs for long and is measured: its JVM compiles as it does in the field.
    #[must_use]
    pub fn warm(self) -> Self {
        Self { warm: true, ..self }
    }

    /// Starts an empty broker.
    ///
    /// # Panics
    ///
    /// If the broker is not installed or does not start, with the end of its log.
    pub async fn start(self) -> Kafka {
        self.start_advertising(free_port(), None).await
    }

    /// Starts an empty broker with a proxy in front of its second listener. The proxy's address
    /// is what the client under test bootstraps from; [`Kafka::bootstrap`] goes past it.
    ///
    /// # Panics
    ///
    /// If the broker is not installed or does not start, with the end of its log.
    pub async fn start_behind_proxy(self) -> (Kafka, Proxy) {
        let port = free_port();
        let proxy = Proxy::start((Ipv4Addr::LOCALHOST, port).into()).await;
        let kafka = self.start_advertising(port, Some(proxy.addr())).await;
        (kafka, proxy)
    }

    async fn start_advertising(self, proxied: u16, advertised: Option<SocketAddr>) -> Kafka {
        let mut kafka = Kafka {
            process: None,
            folder: Folder::new("kafka"),
            port: free_port(),
            warm: self.warm,
        };
        kafka.configure(proxied, advertised, &self.settings).await;
        kafka.start_again().await;
        kafka
    }
}

/// A Kafka broker on ports and with data of its own.
#[derive(Debug)]
pub struct Kafka {
    // Declared before the folder: the broker ends before its data goes.
    process: Option<Process>,
    folder: Folder,
    port: u16,
    warm: bool,
}

impl Kafka {
    /// Settings to start from.
    pub fn options() -> KafkaOptions {
        KafkaOptions::default()
    }

    /// Starts an empty broker.
    pub async fn start() -> Self {
        Self::options().start().await
    }

    /// Where it listens; the same after a restart.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The value of `bootstrap.servers`.
    pub fn bootstrap(&self) -> String {
        self.addr().to_string()
    }

    /// Stops the broker in order and waits for its end.
    ///
    /// # Panics
    ///
    /// If it is not running, or does not stop in time.
    pub async fn stop(&mut self) {
        let mut process = self
            .process
            .take()
            .expect("a broker that runs can be stopped");
        process.signal(Signal::TERM);
        process.wait(STOP).await;
    }

    /// Kills the broker as `kill -9` does.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub async fn kill(&mut self) {
        let mut process = self
            .process
            .take()
            .expect("a broker that runs can be killed");
        process.kill().await;
    }

    /// Starts the broker after [`stop`](Self::stop) or [`kill`](Self::kill): same port, same data.
    ///
    /// # Panics
    ///
    /// If it is running, or does not start.
    pub async fn start_again(&mut self) {
        assert!(self.process.is_none(), "Kafka is running already");
        let properties = self.folder.path().join("server.properties");
        let mut args = java_args("kafka.Kafka", &[properties.into()]);
        if !self.warm {
            args.splice(..0, QUICK_JVM.map(OsString::from));
        }
        let mut process = Process::spawn(Launch {
            name: "kafka",
            program: installed::path_of("JAVA"),
            args,
            folder: self.folder.path(),
            as_nobody: false,
        })
        .await;
        let bootstrap = self.bootstrap();
        process
            .until_ready(START, || answers(bootstrap.clone()))
            .await;
        self.process = Some(process);
    }

    /// Freezes the broker (`SIGSTOP`): connections stay open, nothing answers.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Ends [`pause`](Self::pause).
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        self.process
            .as_ref()
            .expect("a broker that runs can be signalled")
            .signal(signal);
    }

    async fn configure(
        &self,
        proxied: u16,
        advertised: Option<SocketAddr>,
        settings: &[(String, String)],
    ) {
        let (direct, controller) = (self.addr(), free_port());
        let advertised = advertised.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, proxied).into());
        let data = self.folder.path().join("data");
        let mut properties = format!(
            "{SETTINGS}\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=DIRECT://{direct},PROXIED://127.0.0.1:{proxied},\
             CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=DIRECT://{direct},PROXIED://{advertised}\n\
             log.dirs={}\n",
            data.display()
        );
        properties.extend(
            settings
                .iter()
                .map(|(name, value)| format!("{name}={value}\n")),
        );
        std::fs::write(self.folder.path().join("server.properties"), properties)
            .expect("a folder of ours can be written");
        copy(&formatted().await.path().join("data"), &data);
    }
}

/// A formatted data folder to copy: formatting takes a JVM of its own, so it is done once.
async fn formatted() -> &'static Folder {
    static FORMATTED: OnceCell<Folder> = OnceCell::const_new();
    FORMATTED
        .get_or_init(|| async {
            let folder = Folder::new("kafka-format");
            let properties = folder.path().join("server.properties");
            let data = folder.path().join("data");
            let text = format!(
                "{SETTINGS}listeners=DIRECT://127.0.0.1:1,CONTROLLER://127.0.0.1:2\n\
                 controller.quorum.voters=1@127.0.0.1:2\nlog.dirs={}\n",
                data.display()
            );
            std::fs::write(&properties, text).expect("a folder of ours can be written");
            let args = ["format", "-t", CLUSTER_ID, "-c"].map(OsString::from);
            let args: Vec<_> = args.into_iter().chain([properties.into()]).collect();
            let mut args = java_args("kafka.tools.StorageTool", &args);
            args.splice(..0, QUICK_JVM.map(OsString::from));
            let launch = Launch {
                name: "kafka-format",
                program: installed::path_of("JAVA"),
                args,
                folder: folder.path(),
                as_nobody: false,
            };
            Process::run(launch, START).await;
            folder
        })
        .await
}

/// The arguments that make a JVM run one of Kafka's classes.
pub(super) fn java_args(class: &str, args: &[OsString]) -> Vec<OsString> {
    let mut all: Vec<OsString> = JVM.map(OsString::from).to_vec();
    let libraries = installed::path_of("KAFKA_LIBS").join("*");
    all.extend(["-cp".into(), libraries.into(), class.into()]);
    all.extend(args.iter().cloned());
    all
}

/// Whether the broker has joined its cluster of one: it then lists itself.
async fn answers(bootstrap: String) -> Result<(), String> {
    // A client that meets a closed port waits longer and longer between its attempts.
    let addr = bootstrap.clone();
    tokio::net::TcpStream::connect(addr)
        .await
        .map_err(|error| error.to_string())?;
    spawn_blocking(move || {
        let client: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .create()
            .map_err(|error| error.to_string())?;
        let metadata = client
            .fetch_metadata(None, Duration::from_secs(5))
            .map_err(|error| error.to_string())?;
        match metadata.brokers().len() {
            1 => Ok(()),
            count => Err(format!("the broker lists {count} brokers")),
        }
    })
    .await
    .expect("a metadata request does not panic")
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a folder of ours can be written");
    for entry in std::fs::read_dir(from).expect("the formatted data can be read") {
        let entry = entry.expect("the formatted data can be read");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).expect("the formatted data can be copied");
        }
    }
}
