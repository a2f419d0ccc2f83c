//! The families of events, and the steps in the life of the things they are about.

/// A kind of thing and its life. Each step is published once, in this order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Family {
    /// The first part of the subject.
    pub(super) kind: &'static str,
    /// The prefix of its ids.
    pub(super) prefix: &'static str,
    /// The prefix of the ids of what it belongs to.
    pub(super) parent: &'static str,
    /// How often one is born, compared with the others.
    pub(super) weight: u32,
    /// The event types.
    pub(super) steps: &'static [&'static str],
}

const fn family(
    kind: &'static str,
    prefix: &'static str,
    parent: &'static str,
    weight: u32,
    steps: &'static [&'static str],
) -> Family {
    Family {
        kind,
        prefix,
        parent,
        weight,
        steps,
    }
}

pub(super) const FAMILIES: &[Family] = &[
    family(
        "site",
        "site",
        "op",
        1,
        &["site.created", "site.updated", "site.boot", "site.deleted"],
    ),
    family(
        "project",
        "prj",
        "ten",
        1,
        &["project.created", "project.archived"],
    ),
    family("pool", "pool", "site", 3, POOL),
    family("reservation", "rsv", "pool", 14, RESERVATION),
    family(
        "reservation",
        "rsv",
        "pool",
        3,
        &[
            "reservation.placed",
            "reservation.queued",
            "reservation.cancelled",
        ],
    ),
    family("node", "node", "site", 8, NODE),
    family("node", "node", "pool", 4, NODE_TROUBLE),
    family("command", "cmd", "node", 6, &["command.settled"]),
    family("workflow", "wf", "node", 4, WORKFLOW),
    family("instance", "ins", "pool", 10, INSTANCE),
    family("sandbox", "sbx", "ins", 10, SANDBOX),
    family(
        "fleet",
        "flt",
        "site",
        2,
        &["fleet.drifted", "fleet.converged"],
    ),
    family("rollout", "rol", "pool", 2, ROLLOUT),
    family("tunnel", "tun", "node", 2, &["tunnel.issued"]),
    family(
        "token",
        "tok",
        "site",
        2,
        &["security.join-token.created", "security.join-token.revoked"],
    ),
    family("job", "job", "app", 14, JOB),
    family("job", "job", "app", 3, JOB_FAILS),
    family(
        "release",
        "rel",
        "app",
        3,
        &[
            "release.candidate",
            "release.ready",
            "release.activated",
            "release.retired",
        ],
    ),
];

const POOL: &[&str] = &[
    "pool.created",
    "pool.offered",
    "quota.updated",
    "pool.updated",
    "quota.budget-exceeded",
    "pool.unoffered",
    "pool.archived",
];

const RESERVATION: &[&str] = &[
    "reservation.placed",
    "reservation.pending",
    "reservation.queued",
    "reservation.binding",
    "reservation.active",
    "reservation.extended",
    "reservation.released",
    "reservation.ended",
];

const NODE: &[&str] = &[
    "node.enrolled",
    "node.joined",
    "node.acceptance.started",
    "node.adopted",
    "node.connected",
    "node.inventory.changed",
    "node.status",
    "node.labeled",
    "node.command.queued",
    "node.draining",
    "node.drained",
    "node.deleted",
];

const NODE_TROUBLE: &[&str] = &[
    "node.disconnected",
    "node.unreachable",
    "node.condition.changed",
    "node.gpu.missing",
    "node.cordoned",
    "node.remediation.started",
    "node.remediation.succeeded",
    "node.uncordoned",
    "node.connected",
];

const WORKFLOW: &[&str] = &[
    "workflow.created",
    "workflow.started",
    "workflow.paused",
    "workflow.resumed",
    "workflow.completed",
];

const INSTANCE: &[&str] = &[
    "instance.created",
    "instance.scheduled",
    "instance.provisioning",
    "instance.starting",
    "instance.resized",
    "instance.stopping",
    "instance.deleting",
    "instance.deleted",
];

const SANDBOX: &[&str] = &[
    "sandbox.created",
    "sandbox.ready",
    "sandbox.exec.issued",
    "sandbox.snapshot.ready",
    "sandbox.extended",
    "sandbox.expiring",
    "sandbox.expired",
    "sandbox.deleted",
];

const ROLLOUT: &[&str] = &[
    "rollout.started",
    "rollout.paused",
    "rollout.resumed",
    "rollout.completed",
];

const JOB: &[&str] = &[
    "job.queued",
    "job.running",
    "stage.started",
    "stage.progress",
    "stage.progress",
    "log.batch",
    "stage.progress",
    "usage.recorded",
    "stage.succeeded",
    "job.succeeded",
];

const JOB_FAILS: &[&str] = &[
    "job.queued",
    "job.running",
    "stage.started",
    "log.batch",
    "diagnostics.reported",
    "stage.failed",
    "job.failed",
];
