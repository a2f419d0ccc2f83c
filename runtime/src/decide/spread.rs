//! Who gives a lease back, so that the sinks spread over the workers.

use outbox::Member;

/// The sink that `me` should give back, and so let another worker take, if any.
///
/// One is given back only if another worker that could run it holds at least two sinks
/// fewer: each such step makes the load more even, so it comes to an end.
#[must_use]
pub fn give_back<'m>(members: &'m [Member], me: &str) -> Option<&'m str> {
    let mine = members.iter().find(|member| member.holder == me)?;
    let others = members.iter().filter(|member| member.holder != me);
    let idlest = others
        .filter(|other| other.held.len() + 2 <= mine.held.len())
        .filter(|other| mine.held.iter().any(|sink| other.sinks.contains(sink)))
        .min_by_key(|other| (other.held.len(), &other.holder))?;
    mine.held
        .iter()
        .find(|sink| idlest.sinks.contains(sink))
        .map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member(holder: &str, sinks: &[String], held: Vec<String>) -> Member {
        Member {
            holder: holder.to_owned(),
            sinks: sinks.to_vec(),
            held,
        }
    }

    #[test]
    fn a_worker_alone_or_with_one_sink_more_keeps_what_it_has() {
        let sinks: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        let alone = [member("one", &sinks, sinks.clone())];
        assert_eq!(give_back(&alone, "one"), None);
        let even = [
            member("one", &sinks, vec!["a".to_owned(), "b".to_owned()]),
            member("two", &sinks, vec!["c".to_owned()]),
        ];
        assert_eq!(give_back(&even, "one"), None);
        assert_eq!(give_back(&even, "stranger"), None);
    }

    #[test]
    fn a_sink_goes_only_to_a_worker_that_could_run_it() {
        let sinks: Vec<String> = ["a", "b", "c"].map(str::to_owned).to_vec();
        let members = [
            member("one", &sinks, sinks.clone()),
            member("two", &["b".to_owned()], Vec::new()),
            member("three", &["x".to_owned()], Vec::new()),
        ];
        assert_eq!(give_back(&members, "one"), Some("b"));
    }

    proptest! {
        #[test]
        fn giving_back_comes_to_an_even_spread(workers in 1usize..6, sinks in 0usize..20) {
            let names: Vec<String> = (0..sinks).map(|n| format!("s{n:02}")).collect();
            let mut members: Vec<Member> = (0..workers)
                .map(|n| member(&format!("w{n}"), &names, Vec::new()))
                .collect();
            members[0].held = names;
            let mut steps = 0;
            loop {
                let step = members.iter().enumerate().find_map(|(n, member)| {
                    give_back(&members, &member.holder).map(|sink| (n, sink.to_owned()))
                });
                let Some((from, sink)) = step else { break };
                steps += 1;
                prop_assert!(steps <= sinks, "no sink goes to and fro");
                members[from].held.retain(|held| *held != sink);
                let to = members.iter_mut().min_by_key(|member| member.held.len()).unwrap();
                to.held.push(sink);
            }
            let held = members.iter().map(|member| member.held.len());
            prop_assert!(held.clone().max().unwrap() - held.min().unwrap() <= 1);
        }
    }
}
