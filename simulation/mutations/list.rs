//! What is made wrong, one line at a time.

/// One line of the sources made wrong.
#[derive(Debug)]
pub(crate) struct Mutation {
    /// What it does, and the guarantee that it breaks.
    pub(crate) name: &'static str,
    /// The file, from the root of the workspace.
    pub(crate) file: &'static str,
    /// The text that is replaced; it is there exactly once.
    pub(crate) find: &'static str,
    /// What it is replaced with.
    pub(crate) replace: &'static str,
}

const fn mutation(
    name: &'static str,
    file: &'static str,
    find: &'static str,
    replace: &'static str,
) -> Mutation {
    Mutation {
        name,
        file,
        find,
        replace,
    }
}

/// At least one for each of OB-1 to OB-8, and more for destinations that get each event
/// exactly once; and some for other promises without a number.
pub(crate) const MUTATIONS: &[Mutation] = &[
    mutation(
        "OB-1: the cursor passes what is open",
        "runtime/src/decide/queue.rs",
        "let Some(open) = self.first() else {",
        "let Some(open) = self.first().filter(|_| false) else {",
    ),
    mutation(
        "OB-1: a batch that was begun ahead counts as delivered",
        "runtime/src/feed.rs",
        "match &self.ahead {",
        "match &self.ahead.take() {",
    ),
    mutation(
        "OB-8: a batch is begun ahead before its range is written down",
        "runtime/src/tenure/deliver.rs",
        "            && self.is_unmarked()\n",
        "",
    ),
    mutation(
        "OB-1: dead letters are not written",
        "runtime/src/tenure/settle.rs",
        "            dead_letters,\n            then,",
        "            dead_letters: Vec::new(),\n            then,",
    ),
    mutation(
        "OB-1, OB-2: what was passed is saved over a seek",
        "runtime/src/tenure/mod.rs",
        "        self.save().await?;\n        let before",
        "        let before",
    ),
    mutation(
        "OB-2: a seek is followed by what was read before it",
        "runtime/src/tenure/mod.rs",
        "&& (history, position) == before",
        "&& history == before.0",
    ),
    mutation(
        "OB-3: who was told that it is fenced goes on",
        "runtime/src/hold.rs",
        "Some(Owned::No) => Err(Ended::LeaseLost),",
        "Some(Owned::No) => Ok(()),",
    ),
    mutation(
        "OB-4: halves are tried in the wrong order",
        "runtime/src/decide/queue.rs",
        "                self.push(right);\n                self.push(left);",
        "                self.push(left);\n                self.push(right);",
    ),
    mutation(
        "OB-4: the rest does not wait behind a refused event",
        "runtime/src/decide/queue.rs",
        "let Some(first) = events.next().and_then(&key) else {",
        "let Some(first) = events.next().map(|_| Cow::Borrowed(\"\")) else {",
    ),
    mutation(
        "OB-5: reading does not stop at the horizon",
        "runtime/src/feed.rs",
        "horizon: head.horizon,",
        "horizon: outbox::Txid(u64::MAX),",
    ),
    mutation(
        "OB-1: a loop before a gap takes the page after it",
        "runtime/src/head/pages.rs",
        "self.history == history && page.from <= after;",
        "self.history == history;",
    ),
    mutation(
        "OB-1: a full page is taken to end at the head",
        "runtime/src/head/pages.rs",
        "Some(newest) if at_horizon => newest,",
        "Some(newest) => newest,",
    ),
    mutation(
        "OB-1: pages of another history are kept",
        "runtime/src/head/pages.rs",
        "                ..Self::default()\n",
        "                kept: std::mem::take(&mut self.kept),\n                ..Self::default()\n",
    ),
    mutation(
        "OB-6: no neighbour has to go through",
        "runtime/src/decide/work/trial.rs",
        "        if confirmed {",
        "        if confirmed || self.used_up() {",
    ),
    mutation(
        "OB-6: no last attempt after the neighbour",
        "runtime/src/decide/work/trial.rs",
        "                self.set_stage(Stage::Confirming);\n                return Step::only(Next::Go);",
        "                return self.convict();",
    ),
    mutation(
        "OB-7: dead letters are written without the cursor's move",
        "runtime/src/tenure/settle.rs",
        "            up_to: up_to.or(passed),",
        "            up_to: up_to.or(passed).filter(|_| dead_letters.is_empty()),",
    ),
    mutation(
        "OB-8: a frozen range is not written down",
        "runtime/src/tenure/deliver.rs",
        "(of.frozen_ranges() || of.stores_position()) && self.marked != Some(end);",
        "of.stores_position() && self.marked != Some(end);",
    ),
    mutation(
        "OB-8: a range that was begun is read anew",
        "runtime/src/feed.rs",
        "exact: from.exact,",
        "exact: None,",
    ),
    mutation(
        "exactly once: what is stored is not written down before",
        "runtime/src/tenure/deliver.rs",
        "(of.frozen_ranges() || of.stores_position()) && self.marked != Some(end);",
        "of.frozen_ranges() && self.marked != Some(end);",
    ),
    mutation(
        "exactly once: the cursor does not follow",
        "runtime/src/decide/stored.rs",
        "None if position > cursor.position => Stored::Ahead(position),",
        "None if position > cursor.position => Stored::GoOn,",
    ),
    mutation(
        "exactly once: the cursor follows without remembering it",
        "runtime/src/tenure/open.rs",
        "                self.cursor.delivered = Some(position);\n",
        "",
    ),
    mutation(
        "exactly once: the cursor is compared as it was claimed",
        "runtime/src/tenure/open.rs",
        "        self.cursor.position = self.saved;\n",
        "",
    ),
    mutation(
        "exactly once: the cursor follows a position from before a seek",
        "runtime/src/decide/stored.rs",
        "if theirs.generation() < ours.generation() {",
        "if theirs.generation() < 0 {",
    ),
    mutation(
        "exactly once: lost data is never found",
        "runtime/src/decide/stored.rs",
        ".filter(|delivered| Some(*delivered) > stored)",
        ".filter(|_| false)",
    ),
    mutation(
        "exactly once: a restoration to before a seek is taken for a beginning",
        "runtime/src/decide/stored.rs",
        "return behind(cursor, None, \"nothing since the last `sinks seek`\");",
        "return Stored::GoOn;",
    ),
    mutation(
        "exactly once: what was delivered is not saved",
        "runtime/src/tenure/settle.rs",
        ".filter(|_| self.of.connector.stores_position()),",
        ".filter(|_| false),",
    ),
    mutation(
        "exactly once: a destination that failed is not asked again",
        "runtime/src/tenure/deliver.rs",
        "if usable && outcome.is_err() && self.of.connector.stores_position() {",
        "if false {",
    ),
    mutation(
        "exactly once: an open sink is kept over a seek",
        "runtime/src/tenure/mod.rs",
        "if cursor.flow != self.cursor.flow {",
        "if false {",
    ),
    mutation(
        "exactly once: a sink counts what was stored before a seek",
        "sinks/src/session.rs",
        "if theirs.generation() < ours.generation() {",
        "if theirs.generation() < 0 {",
    ),
    mutation(
        "exactly once: an older owner is not fenced off",
        "sinks/src/session.rs",
        "if (theirs.generation(), stored.token()) > (ours.generation(), self.token) {",
        "if theirs.generation() < 0 {",
    ),
    mutation(
        "exactly once: the last event that is stored is stored again",
        "sinks/src/batch.rs",
        "|event| event.position() <= position);",
        "|event| event.position() < position);",
    ),
    mutation(
        "progress: nothing more is read to compare with",
        "runtime/src/decide/work/trial.rs",
        "lacking && self.queue.payload_bytes() < MAX_OPEN",
        "lacking && self.queue.payload_bytes() > MAX_OPEN",
    ),
    mutation(
        "the fuse does not blow",
        "runtime/src/decide/fuse.rs",
        "let first = step.dead_letters.get(room)?;",
        "let first = step.dead_letters.get(room.max(1_000_000))?;",
    ),
];
