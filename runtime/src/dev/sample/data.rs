//! What an event says: data of the shape that each type has.

use fastrand::Rng;
use serde_json::{Value, json};

use super::{Entity, id};

/// The data of the event that `entity` publishes at `step`.
pub(super) fn of(step: &str, entity: &Entity, random: &mut Rng) -> Value {
    let area = step.split('.').next().unwrap_or_default();
    match area {
        "site" | "project" | "fleet" | "release" => named(step, entity, random),
        "pool" | "quota" => pool(step, entity, random),
        "reservation" => reservation(step, entity, random),
        "node" => node(step, entity, random),
        "instance" => instance(step, entity, random),
        "sandbox" => sandbox(step, entity, random),
        "job" | "stage" | "log" | "usage" | "diagnostics" => job(step, random),
        _ => operation(step, entity, random),
    }
}

fn name(random: &mut Rng) -> String {
    let first = one_of(
        random,
        &["amber", "quiet", "north", "steady", "copper", "blå", "wide"],
    );
    let second = one_of(
        random,
        &["harbor", "ridge", "meadow", "forge", "lantern", "delta"],
    );
    format!("{first}-{second}-{}", random.u16(1..1000))
}

fn one_of<'a>(random: &mut Rng, choices: &[&'a str]) -> &'a str {
    random.choice(choices).copied().unwrap_or_default()
}

fn last_part(step: &str) -> &str {
    step.rsplit('.').next().unwrap_or(step)
}

fn later(random: &mut Rng) -> String {
    format!(
        "2026-{:02}-{:02}T{:02}:{:02}:00.000Z",
        random.u8(10..=12),
        random.u8(1..=28),
        random.u8(..24),
        random.u8(..60)
    )
}

fn named(step: &str, entity: &Entity, random: &mut Rng) -> Value {
    json!({ "name": name(random), "ownerId": entity.parent, "state": last_part(step) })
}

fn pool(step: &str, entity: &Entity, random: &mut Rng) -> Value {
    match step {
        "quota.updated" => json!({
            "tenantId": entity.tenant,
            "limits": { "gpus": random.u16(1..512), "vcpus": random.u16(8..8192) },
        }),
        "quota.budget-exceeded" => json!({
            "tenantId": entity.tenant,
            "action": one_of(random, &["notify", "stop-new", "drain"]),
            // More digits than a double holds: they have to arrive as they are.
            "spentMicros": random.u64(1 << 53..),
        }),
        _ => json!({
            "name": name(random),
            "siteId": entity.parent,
            "gpu": one_of(random, &["h100-80g", "h200-141g", "b200-192g", "l40s-48g"]),
            "nodes": random.u16(1..256),
        }),
    }
}

fn reservation(step: &str, entity: &Entity, random: &mut Rng) -> Value {
    match last_part(step) {
        "placed" => json!({
            "state": "placed",
            "poolId": entity.parent,
            "gpus": 1u32 << random.u32(..7),
            "hours": random.u16(1..720),
            "priority": one_of(random, &["low", "normal", "high"]),
        }),
        "queued" => {
            json!({ "state": "queued", "poolId": entity.parent, "position": random.u16(1..40) })
        }
        "extended" => json!({ "state": "active", "poolId": entity.parent, "until": later(random) }),
        state => json!({ "state": state, "poolId": entity.parent }),
    }
}

fn node(step: &str, entity: &Entity, random: &mut Rng) -> Value {
    match step {
        "node.inventory.changed" => inventory(entity, random),
        "node.status" => json!({
            "state": "ready",
            "uptimeSeconds": random.u32(60..9_000_000),
            "load": [decimal(random), decimal(random), decimal(random)],
            "gpusInUse": random.u8(..=8),
        }),
        "node.condition.changed" => json!({
            "condition": one_of(random, &["DriverMismatch", "CertExpiring", "DaemonOutdated", "DiskPressure"]),
            "status": random.bool(),
            "reason": "reported by the hygiene sweep",
            "noSchedule": random.bool(),
        }),
        "node.cordoned" => {
            json!({ "reason": one_of(random, &["disk replacement", "firmware", "operator \"lunch\""]) })
        }
        "node.command.queued" => json!({
            "nodeId": entity.id,
            "commandId": id("cmd", random),
            "kind": one_of(random, &["drain", "reboot", "apply-mig", "collect-logs"]),
        }),
        "node.labeled" => {
            json!({ "labels": { "rack": format!("r{}", random.u8(1..40)), "zone": one_of(random, &["a", "b", "c"]) } })
        }
        "node.gpu.missing" => json!({ "index": random.u8(..8), "uuid": id("gpu", random) }),
        _ => json!({ "nodeId": entity.id, "parentId": entity.parent, "state": last_part(step) }),
    }
}

/// The largest of the samples: what a machine is made of.
fn inventory(entity: &Entity, random: &mut Rng) -> Value {
    let gpus: Vec<Value> = (0..8)
        .map(|index| {
            json!({
                "index": index,
                "uuid": id("gpu", random),
                "model": "NVIDIA H100 80GB HBM3",
                "memoryBytes": 85_520_809_984_u64,
                "busId": format!("00000000:{:02X}:00.0", random.u8(..)),
                "driver": "570.86.15",
            })
        })
        .collect();
    let disks: Vec<Value> = (0..random.u8(2..12))
        .map(|index| {
            json!({
                "device": format!("/dev/nvme{index}n1"),
                "serial": id("S", random),
                "sizeBytes": 3_840_755_982_336_u64,
                "wear": decimal(random),
            })
        })
        .collect();
    json!({ "nodeId": entity.id, "gpus": gpus, "disks": disks, "kernel": "6.8.0-51-generic" })
}

fn instance(step: &str, entity: &Entity, random: &mut Rng) -> Value {
    match last_part(step) {
        "created" => json!({
            "poolId": entity.parent,
            "name": name(random),
            "image": one_of(random, &["ubuntu-24.04", "debian-13", "fedora-43"]),
            "vcpus": random.u8(1..=64),
        }),
        "resized" => json!({ "from": { "vcpus": 4 }, "to": { "vcpus": random.u8(8..=64) } }),
        state => json!({ "state": state, "poolId": entity.parent }),
    }
}

fn sandbox(step: &str, entity: &Entity, random: &mut Rng) -> Value {
    match last_part(step) {
        "expiring" | "extended" => json!({ "expiresAt": later(random) }),
        "ready" if step == "sandbox.snapshot.ready" => json!({
            "snapshotId": id("snap", random),
            "includeMemory": random.bool(),
            "sha256": format!("{:032x}{:032x}", random.u128(..), random.u128(..)),
            "sizeBytes": random.u64(1 << 20..1 << 36),
        }),
        _ => json!({
            "templateId": id("tpl", random),
            "instanceId": entity.parent,
            "poolId": id("pool", random),
        }),
    }
}

fn job(step: &str, random: &mut Rng) -> Value {
    let stage = one_of(
        random,
        &["resolve", "prepare", "analyze", "generate", "validate"],
    );
    match step {
        "stage.progress" => {
            let total = random.u32(10..500);
            json!({ "stage": stage, "done": random.u32(..total), "total": total })
        }
        "log.batch" => {
            let lines: Vec<Value> = (0..random.u8(1..25))
                .map(|_| log_line(stage, random))
                .collect();
            json!({ "lines": lines })
        }
        "usage.recorded" => json!({ "meter": "gpu-seconds", "amount": decimal(random) }),
        "diagnostics.reported" => json!({
            "stage": stage,
            "module": name(random),
            "severity": "error",
            "message": "type `Größe` does not match\n  expected: number",
        }),
        _ if step.starts_with("stage.") => json!({ "stage": stage, "module": name(random) }),
        _ => json!({ "state": last_part(step), "attempt": random.u8(1..4) }),
    }
}

fn log_line(stage: &str, random: &mut Rng) -> Value {
    let message = one_of(
        random,
        &[
            "fetched 41 packages, reused 12",
            "module generated in 318 ms",
            "cache hit",
            "→ retrying after a transient network failure",
        ],
    );
    json!({ "time": later(random), "level": one_of(random, &["debug", "info", "warn"]), "stage": stage, "message": message })
}

fn operation(step: &str, entity: &Entity, random: &mut Rng) -> Value {
    json!({
        "state": last_part(step),
        "targetId": entity.parent,
        "requestId": id("req", random),
        "durationMs": random.u32(5..90_000),
    })
}

/// A number with two decimals.
fn decimal(random: &mut Rng) -> f64 {
    f64::from(random.u32(..10_000)) / 100.0
}
