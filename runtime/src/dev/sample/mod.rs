//! Sample events: a believable day of a compute platform.
//!
//! Events come as in real life, as steps in the lives of things: a job is queued
//! before it runs, and runs before it succeeds, while other things live theirs. The
//! same seed always gives the same events. What the steps are is in [`families`],
//! what an event says about them in [`data`].

mod data;
mod families;

use fastrand::Rng;
use serde_json::Value;

use families::{FAMILIES, Family};

/// How many things live at the same time, for each generator.
const POPULATION: usize = 60;
const TENANTS: usize = 8;

/// An event that is ready to be published.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SampleEvent {
    pub(super) event_type: String,
    pub(super) tenant_id: String,
    /// `kind/id`.
    pub(super) subject: String,
    pub(super) data: Value,
}

/// A thing whose life the events tell.
#[derive(Clone, Debug)]
struct Entity {
    family: &'static Family,
    tenant: String,
    id: String,
    /// What it belongs to, of the kind that its family names.
    parent: String,
    step: usize,
}

/// An endless source of sample events.
#[derive(Debug)]
pub(super) struct Sample {
    random: Rng,
    tenants: Vec<String>,
    living: Vec<Entity>,
}

impl Sample {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        let tenants: Vec<String> = (0..TENANTS).map(|_| id("ten", &mut random)).collect();
        let living = (0..POPULATION)
            .map(|_| {
                let mut entity = born(&tenants, &mut random);
                // Some are in the middle of their lives already.
                entity.step = random.usize(..entity.family.steps.len());
                entity
            })
            .collect();
        Self {
            random,
            tenants,
            living,
        }
    }

    /// The next event.
    pub(super) fn event(&mut self) -> SampleEvent {
        let chosen = self.random.usize(..self.living.len());
        let entity = self
            .living
            .get_mut(chosen)
            .expect("the choice is below the number of the living");
        let step = entity
            .family
            .steps
            .get(entity.step)
            .expect("an entity is replaced after its last step");
        let event = SampleEvent {
            event_type: (*step).to_owned(),
            tenant_id: entity.tenant.clone(),
            subject: format!("{}/{}", entity.family.kind, entity.id),
            data: data::of(step, entity, &mut self.random),
        };
        entity.step += 1;
        if entity.step == entity.family.steps.len() {
            *entity = born(&self.tenants, &mut self.random);
        }
        event
    }

    /// The next `count` events.
    pub(super) fn events(&mut self, count: usize) -> Vec<SampleEvent> {
        (0..count).map(|_| self.event()).collect()
    }
}

/// A new thing, of a family that is as likely as its weight says.
fn born(tenants: &[String], random: &mut Rng) -> Entity {
    let total: u32 = FAMILIES.iter().map(|family| family.weight).sum();
    let mut ticket = random.u32(..total);
    let family = FAMILIES
        .iter()
        .find(|family| match ticket.checked_sub(family.weight) {
            Some(rest) => {
                ticket = rest;
                false
            }
            None => true,
        })
        .expect("the ticket is below the sum of all weights");
    Entity {
        family,
        tenant: random.choice(tenants).cloned().unwrap_or_default(),
        id: id(family.prefix, random),
        parent: id(family.parent, random),
        step: 0,
    }
}

/// An id as the platform writes them: a prefix and 26 characters of Crockford base32.
fn id(prefix: &str, random: &mut Rng) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    let random = (0..21).map(|_| {
        let letter = random.choice(ALPHABET).copied();
        char::from(letter.expect("the alphabet has letters"))
    });
    format!("{prefix}_01k5y{}", random.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};

    fn payload_bytes(event: &SampleEvent) -> usize {
        let envelope = event.event_type.len() + event.tenant_id.len() + event.subject.len() + 150;
        envelope + event.data.to_string().len()
    }

    #[test]
    fn the_same_seed_gives_the_same_events_and_another_gives_others() {
        let events = |seed| Sample::new(seed).events(500);
        assert_eq!(events(7), events(7));
        assert_ne!(events(7), events(8));
    }

    #[test]
    fn every_event_keeps_the_rules_of_publishing() {
        for event in Sample::new(1).events(20_000) {
            let SampleEvent {
                event_type,
                tenant_id,
                subject,
                ..
            } = &event;
            assert!(event_type.len() <= 128, "{event_type}");
            let parts: Vec<&str> = event_type.split('.').collect();
            assert!(
                parts.len() >= 2 && parts.iter().all(|part| !part.is_empty()),
                "{event_type}"
            );
            assert!((1..=128).contains(&tenant_id.len()), "{tenant_id}");
            assert!((1..=512).contains(&subject.len()), "{subject}");
            assert!(
                subject
                    .split_once('/')
                    .is_some_and(|(kind, id)| !kind.is_empty() && !id.is_empty())
            );
            assert!(payload_bytes(&event) <= 64 * 1024, "{event_type}");
            assert!(!event.data.to_string().contains("\\u0000"), "{event_type}");
        }
    }

    #[test]
    fn all_families_occur_and_sizes_are_mixed() {
        let events = Sample::new(2).events(20_000);
        let types: HashSet<&str> = events
            .iter()
            .map(|event| event.event_type.as_str())
            .collect();
        for family in FAMILIES {
            for step in family.steps {
                assert!(types.contains(step), "{step} never occurs");
            }
        }
        let sizes: Vec<usize> = events.iter().map(payload_bytes).collect();
        assert!(sizes.iter().any(|size| *size < 300) && sizes.iter().any(|size| *size > 2_000));
    }

    #[test]
    fn a_thing_lives_the_steps_of_its_family_in_order() {
        let mut lives: HashMap<String, Vec<String>> = HashMap::new();
        for event in Sample::new(3).events(20_000) {
            lives
                .entry(event.subject)
                .or_default()
                .push(event.event_type);
        }
        for (subject, life) in lives {
            let lived = FAMILIES
                .iter()
                .any(|family| family.steps.windows(life.len()).any(|steps| steps == life));
            assert!(lived, "{subject}: {life:?}");
        }
    }

    #[test]
    fn nothing_is_said_without_data_of_its_own() {
        for event in Sample::new(4).events(20_000) {
            assert!(
                event.data.as_object().is_some_and(|data| !data.is_empty()),
                "{}",
                event.event_type
            );
        }
    }
}
