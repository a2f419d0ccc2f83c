//! What operators do by command, in the tables.

use outbox::Position;

use super::{State, World};

/// An operator's command about one sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Pause,
    Resume,
    /// Moves the cursor to just after this position.
    Seek(Position),
    /// Replays all that is dead.
    Replay,
    /// Discards the first dead letter.
    Discard,
}

impl World {
    /// Carries out a command: what the command line does in one transaction.
    pub(crate) fn order(&mut self, sink: usize, command: Command) {
        let name = self.sink_name(sink).to_owned();
        self.log(|| format!("an operator orders for {name}: {command:?}"));
        self.outbox.flush_with_write();
        let now = self.database_now();
        match command {
            Command::Replay => self.order_replays(sink),
            Command::Discard => self.discard(sink),
            Command::Pause | Command::Resume | Command::Seek(_) => {
                let Some(row) = self.cursor_mut(sink) else {
                    return;
                };
                match command {
                    Command::Pause => row.paused = Some("by hand".to_owned()),
                    Command::Seek(to) => row.seek = Some(to),
                    Command::Resume | Command::Replay | Command::Discard => row.resume(now),
                }
            }
        }
        self.operation += 1;
    }

    /// What an operator does whose sink says that its destination has lost data: the sink
    /// goes on where the destination says that its data ends.
    pub(crate) fn decide_where_to_go_on(&mut self, sink: usize) {
        let row = self.cursor(sink).filter(|row| row.seek.is_none());
        let Some(reason) = row.and_then(|row| row.stopped.clone()) else {
            return;
        };
        let told = reason.split_once("events up to ");
        let told = told.and_then(|(_, rest)| rest.split_once(" only"));
        let told = told.and_then(|(position, _)| position.parse().ok());
        self.count("decisions after lost data");
        self.order(sink, Command::Seek(told.unwrap_or(Position::BEGINNING)));
    }

    fn order_replays(&mut self, sink: usize) {
        let dead = self.letters.iter_mut();
        for letter in dead.filter(|letter| letter.sink == sink && letter.state == State::Dead) {
            letter.state = State::Replaying;
        }
    }

    fn discard(&mut self, sink: usize) {
        let first = |letter: &&mut super::Letter| {
            letter.sink == sink && matches!(letter.state, State::Dead | State::Replaying)
        };
        if let Some(letter) = self.letters.iter_mut().find(first) {
            letter.state = State::Discarded;
        }
    }
}
