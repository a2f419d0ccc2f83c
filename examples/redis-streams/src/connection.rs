//! One connection, never repaired.
//!
//! The library's connection manager reconnects in the background and sends what it still has, which
//! the contract forbids. A plain connection ends with its first failure: whoever holds it drops it, and
//! the task that sends for it ends then, with all that it had not sent.
//!
//! The library would also log in by itself, but then tells every refusal as a wrong password, even
//! that of a server that is full. So the sink logs in with its own command.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, Value};

use crate::classify::{Failure, Trouble};
use crate::config::Config;
use crate::durability::{Durability, Facts};

/// An open connection, logged in, to a server that takes writes and keeps them.
pub(crate) struct Connection {
    redis: MultiplexedConnection,
}

impl Connection {
    /// Connects, logs in, and asks the server what it does with what it acknowledges.
    ///
    /// # Errors
    /// What stands in the way.
    pub(crate) async fn open(config: &Config) -> Result<Self, Trouble> {
        // With two crypto providers compiled in, rustls panics unless one is chosen. If a choice was
        // made already, that one stands.
        drop(rustls::crypto::ring::default_provider().install_default());
        let client = Client::open(config.server.clone())?;
        let limits = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(config.response_timeout))
            .set_response_timeout(Some(config.response_timeout));
        let connecting = client.get_multiplexed_async_connection_with_config(&limits);
        let redis = connecting.await?;
        let mut connection = Self { redis };
        connection.log_in(config).await?;
        connection.inspect(config).await?;
        Ok(connection)
    }

    /// Sends commands in one go, and returns the answers one by one, errors among them.
    ///
    /// # Errors
    /// The connection failed: nobody knows what became of the commands.
    pub(crate) async fn send(&mut self, commands: &redis::Pipeline) -> Result<Vec<Value>, Trouble> {
        let sending = self.redis.send_packed_commands(commands, 0, commands.len());
        Ok(sending.await?)
    }

    /// Whether the connection still answers, which one that was idle for long may not.
    pub(crate) async fn answers(&mut self) -> bool {
        self.ask::<()>(&redis::cmd("PING")).await.is_ok()
    }

    async fn log_in(&mut self, config: &Config) -> Result<(), Trouble> {
        if let Some(login) = &config.login {
            let mut command = redis::cmd("AUTH");
            command.arg(&login.user).arg(login.password.expose());
            self.ask::<()>(&command).await?;
        }
        if config.database != 0 {
            self.ask::<()>(redis::cmd("SELECT").arg(config.database))
                .await?;
        }
        Ok(())
    }

    async fn inspect(&mut self, config: &Config) -> Result<(), Trouble> {
        let info: String = self.ask(&redis::cmd("INFO")).await?;
        let mut settings = HashMap::new();
        if config.durability != Durability::None {
            for name in Facts::SETTINGS {
                let mut command = redis::cmd("CONFIG");
                match self
                    .ask::<HashMap<String, String>>(command.arg("GET").arg(name))
                    .await
                {
                    Ok(found) => settings.extend(found),
                    // Managed servers keep their configuration to themselves.
                    Err(trouble) if is_refusal(trouble.failure) => {}
                    Err(trouble) => return Err(trouble),
                }
            }
        }
        let facts = Facts::new(&info, settings);
        if facts.is_replica() {
            return Err(Failure::ReadOnly.into());
        }
        match facts.shortfall(config.durability) {
            Some(trouble) => Err(trouble),
            None => Ok(()),
        }
    }

    /// Asks whether the key, if it is there, is a stream.
    ///
    /// # Errors
    /// `WrongType` if it is something else.
    pub(crate) async fn check_stream(&mut self, stream: &str) -> Result<(), Trouble> {
        self.ask::<u64>(redis::cmd("XLEN").arg(stream)).await?;
        Ok(())
    }

    async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Trouble> {
        Ok(command.query_async(&mut self.redis).await?)
    }
}

const fn is_refusal(failure: Failure) -> bool {
    matches!(
        failure,
        Failure::Forbidden | Failure::UnknownCommand | Failure::Other
    )
}
