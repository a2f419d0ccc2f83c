//! What the model checks when an event goes to the dead letters: OB-6, OB-7, OB-9 and
//! the fuse.

use outbox::{DeadLetter, Event};
use outbox_runtime::settings::OnPoison;

use super::Seen;
use crate::destination::Nature;
use crate::world::{World, number_of};

impl World {
    /// A dead letter was committed.
    pub(crate) fn was_buried(&mut self, sink: usize, letter: &DeadLetter) {
        let (event, name) = (&letter.event, self.sink_name(sink).to_owned());
        let Some(number) = number_of(event) else {
            return self.violated("OB-9", format!("a dead letter of {name} has no id"));
        };
        self.count("dead letters");
        self.is_itself(event, "a dead letter");
        self.is_one_row(sink, event);
        if letter.code.is_empty() || letter.error.is_empty() || letter.attempts == 0 {
            let seen =
                format!("the dead letter evt_{number} of {name} says too little: {letter:?}");
            self.violated("OB-7", seen);
        }
        if let Some(reason) = self.is_unjust(sink, number) {
            let (seen, nature) = (self.model.seen(sink, number), self.nature(sink, number));
            let what = format!(
                "{name} gave evt_{number} to the dead letters ({}) {reason}: {seen:?}, {nature:?}",
                letter.code
            );
            self.violated("OB-6", what);
        }
    }

    /// The nature of an event that the destination looks at now.
    pub(crate) fn meets(&mut self, sink: usize, number: usize) -> Nature {
        let nature = self.nature(sink, number);
        let undeliverable = nature == Nature::Undeliverable;
        let note = |seen: &mut Seen| seen.undeliverable = undeliverable;
        self.model.note(sink, number, note);
        nature
    }

    /// Why an event should not be a dead letter, if it should not.
    fn is_unjust(&mut self, sink: usize, number: usize) -> Option<String> {
        let plan = self.plan.sinks.get(sink)?;
        if plan.settings.poison.on_poison == OnPoison::Halt {
            return Some("although the sink has to halt".to_owned());
        }
        let (seen, wanted) = (self.model.seen(sink, number), self.attempts(sink));
        // Somebody may have seen to it since it was tried.
        if seen.undeliverable || self.nature(sink, number) == Nature::Undeliverable {
            return None;
        }
        if seen.buried.is_some_and(|at| at >= seen.since) {
            // The same settlement once more, because its answer was lost.
            return None;
        }
        let counted = seen.failures + seen.deaths;
        let Some(used_up) = seen.used_up else {
            return Some(format!(
                "after {counted} refusals alone, and {wanted} are needed"
            ));
        };
        if seen.probed_by.is_some() {
            self.count("dead letters by a probe");
            return None;
        }
        let durable = self.model.sinks.get(sink).map(|witness| &witness.durable)?;
        let neighbour = durable
            .iter()
            .find(|(step, other)| *step > used_up && *other != number);
        let Some((taken, _)) = neighbour else {
            return Some("although no neighbour went through".to_owned());
        };
        if seen.last_failure < *taken {
            return Some("without a last attempt after its neighbour".to_owned());
        }
        if seen.own_sake == 0 && seen.deaths < wanted {
            return Some("although it was never refused for its own sake".to_owned());
        }
        if seen.own_sake == 0 {
            self.count("dead letters by deaths alone");
        }
        None
    }

    /// There is one row for an event at a sink, however often it was written.
    fn is_one_row(&mut self, sink: usize, event: &Event) {
        let position = event.position();
        let same = self.letters.iter().filter(|it| it.sink == sink);
        let rows = same.filter(|it| it.event.position() == position).count();
        if rows != 1 {
            self.violated("OB-7", format!("{rows} dead letters of {position}"));
        }
    }

    /// Deliveries do not go on with more dead letters than the fuse allows. A frozen range is not cut: it may take
    /// the last one there is room for, and some more.
    pub(super) fn fuse_holds(&mut self, sink: usize, letters: &[&DeadLetter]) {
        let Some(plan) = self.plan.sinks.get(sink).filter(|_| !letters.is_empty()) else {
            return;
        };
        let (poison, frozen) = (plan.settings.poison, plan.frozen);
        let these: Vec<_> = letters.iter().map(|it| it.event.position()).collect();
        let before = self.recent_letters(sink, poison.window, &these);
        let recent = self.recent_letters(sink, poison.window, &[]);
        let (counted, max) = match frozen {
            true => (before + 1, poison.max_dead_letters),
            false => (recent, poison.max_dead_letters),
        };
        if counted > max && recent > before {
            let seen = format!("{counted} dead letters in the window, and {max} are allowed");
            self.violated("fuse", seen);
        }
    }

    /// An event is what was published, to the last digit (OB-9).
    pub(crate) fn is_itself(&mut self, event: &Event, what: &str) {
        let published = number_of(event).and_then(|number| self.outbox.event(number));
        let same = published.is_some_and(|published| {
            published.position == event.position()
                && published.event.payload() == event.payload()
                && published.event.topic() == event.topic()
        });
        if !same {
            let seen = format!("{what} is not what was published: {event:?}");
            self.violated("OB-9", seen);
        }
    }

    /// A replay was settled.
    pub(crate) fn replay_was_settled(&mut self, sink: usize, event: &Event, delivered: bool) {
        self.count(if delivered {
            "replays"
        } else {
            "replays refused"
        });
        let Some(number) = number_of(event) else {
            return;
        };
        let Some(witness) = self.model.sinks.get_mut(sink) else {
            return;
        };
        let arrived = witness.replayed.get(&number).copied().unwrap_or_default();
        if delivered && arrived == 0 {
            let seen = format!("the replay of evt_{number} is settled and never arrived");
            self.violated("OB-1", seen);
        }
    }

    /// A row was deleted: every sink must be done with it.
    pub(crate) fn was_pruned(&mut self, number: usize) {
        self.count("rows pruned");
        for sink in 0..self.cursors.len() {
            let open = self.takes(sink, number) && !self.model.seen(sink, number).is_settled();
            if open && self.cursor(sink).is_some() {
                let name = self.sink_name(sink).to_owned();
                let seen = format!("evt_{number} was deleted, and {name} still needs it");
                self.violated("OB-1", seen);
            }
        }
    }
}
