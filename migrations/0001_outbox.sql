-- The outbox, its readers' cursors and their leases.
--
-- Runs with `search_path` set to one schema (and pg_temp last), which every
-- function keeps: no caller's search_path or temporary table can mislead them.
-- Others may have the right to create things in that schema, and a function or an
-- operator of theirs that fits the arguments better than Postgres' own would run
-- with the owner's rights. So functions are called by their schema, and operators
-- too unless the operands have the very types that Postgres defines them for.

-- The only clock that counts. It moves on within a transaction.
create function compute_now() returns timestamptz
language sql volatile parallel safe
as $$ select pg_catalog.clock_timestamp() $$;

-- Readers go by (txid, seq). `seq` alone would skip events: it is drawn at
-- insertion, and a transaction that drew a lower one may commit later.
create table outbox (
    seq bigserial not null,
    txid xid8 not null default pg_catalog.pg_current_xact_id(),
    topic text not null,
    payload jsonb not null,
    created_at timestamptz not null default compute_now(),
    primary key (txid, seq)
) with (
    -- Rows come once, go once and never change. Their dead index entries are
    -- what readers would stumble over, so vacuum comes by a number of rows and
    -- not by a share of a table that may be large.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 50000
);

-- A tenant's events, in order.
create index outbox_tenant_cursor on outbox ((payload operator(pg_catalog.->>) 'tenantId'::text), txid, seq);

-- Functions without a search_path of their own are called by outbox_append alone,
-- under its search_path: setting it again would cost as much as a check.

-- `evt_` and a UUIDv7 in Crockford's base32: ids sort by the millisecond.
create function outbox_event_id() returns text
language plpgsql volatile parallel safe
as $$
declare
    ms bigint := (extract(epoch from pg_catalog.clock_timestamp())::float8 * 1000::float8)::bigint;
    uuid bytea := overlay(
        pg_catalog.uuid_send(pg_catalog.gen_random_uuid())
        placing substring(pg_catalog.int8send(ms) from 3) from 1 for 6
    );
    bits bit(130);
    id text := 'evt_';
begin
    uuid := pg_catalog.set_byte(uuid, 6, 112 | (pg_catalog.get_byte(uuid, 6) & 15));
    bits := B'00' operator(pg_catalog.||) ('x'::text || pg_catalog.encode(uuid, 'hex'))::bit(128);
    for digit in 0..25 loop
        id := id || pg_catalog.substr(
            '0123456789abcdefghjkmnpqrstvwxyz',
            1 + substring(bits from 1 + 5 * digit for 5)::integer,
            1
        );
    end loop;
    return id;
end
$$;

create function outbox_refuse(field text, rule text) returns void
language plpgsql
as $$
begin
    raise exception 'INVALID_INPUT: % %', field, rule
        using errcode = '22023', column = field, detail = rule;
end
$$;

-- Builds an event's payload and checks it: the rules are here and nowhere else
-- on the server. The outbox crate checks the same before it sends anything.
create function outbox_payload(id text, type text, tenant_id text, subject text, data text)
returns json
language plpgsql volatile
as $$
declare
    moment text := pg_catalog.to_char(compute_now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
    stored_bytes bigint;
    written text;
begin
    if type is null or type !~ '^[^.]+(\.[^.]+)+$' then
        perform outbox_refuse('type', 'must be area.name, with at least one dot and no empty part');
    elsif pg_catalog.char_length(type) > 128 then
        perform outbox_refuse('type', 'must have at most 128 characters');
    elsif tenant_id is null or pg_catalog.char_length(tenant_id) not between 1 and 128 then
        perform outbox_refuse('tenantId', 'must have 1 to 128 characters');
    elsif subject is null or pg_catalog.char_length(subject) not between 1 and 512 then
        perform outbox_refuse('subject', 'must have 1 to 512 characters');
    elsif pg_catalog.octet_length(data) > 65536 then
        perform outbox_refuse('payload', 'must have at most 65536 bytes');
    end if;
    data := coalesce(data, 'null');
    -- What Postgres stores can be longer than what was written: 1e3 becomes 1000.
    begin
        stored_bytes := pg_catalog.octet_length(pg_catalog.jsonb_build_object(
            'id', id, 'type', type, 'tenantId', tenant_id, 'subject', subject,
            'time', moment, 'data', data::jsonb
        )::text);
    exception
        when untranslatable_character then
            perform outbox_refuse('data', 'must not contain \u0000');
        when program_limit_exceeded then
            perform outbox_refuse('data', 'must not be nested too deeply or hold huge numbers');
        when data_exception then
            perform outbox_refuse('data', 'must be JSON that Postgres can store');
    end;
    written := '{"id":'::text || pg_catalog.to_json(id)::text
        || ',"type":'::text || pg_catalog.to_json(type)::text
        || ',"tenantId":'::text || pg_catalog.to_json(tenant_id)::text
        || ',"subject":'::text || pg_catalog.to_json(subject)::text
        || ',"time":'::text || pg_catalog.to_json(moment)::text
        || ',"data":'::text || data || '}'::text;
    if greatest(stored_bytes, pg_catalog.octet_length(written)) > 65536::bigint then
        perform outbox_refuse('payload', 'must have at most 65536 bytes');
    end if;
    return written::json;
end
$$;

-- Appends one event with its owner's rights: a role that may publish needs no
-- right to the table, and so can neither skip the rules nor forge a txid.
create function outbox_append(
    type text, tenant_id text, subject text, data text,
    out id text, out txid xid8, out seq bigint
)
language plpgsql volatile security definer
set search_path from current
as $$
begin
    id := outbox_event_id();
    insert into outbox as o (topic, payload)
    values (type, outbox_payload(id, type, tenant_id, subject, data))
    returning o.txid, o.seq into txid, seq;
end
$$;

-- Publishes an event in the caller's transaction and returns its id. Literals
-- and text parameters take the first form, json and jsonb expressions the others.
create function outbox_publish(type text, tenant_id text, subject text, data text default null)
returns text
language plpgsql volatile
set search_path from current
as $$ begin return (outbox_append($1, $2, $3, $4)).id; end $$;

create function outbox_publish(type text, tenant_id text, subject text, data jsonb)
returns text
language plpgsql volatile
set search_path from current
as $$ begin return (outbox_append($1, $2, $3, $4::text)).id; end $$;

create function outbox_publish(type text, tenant_id text, subject text, data json)
returns text
language plpgsql volatile
set search_path from current
as $$ begin return (outbox_append($1, $2, $3, $4::text)).id; end $$;

revoke all on function
    outbox_event_id(),
    outbox_refuse(text, text),
    outbox_payload(text, text, text, text, text),
    outbox_append(text, text, text, text),
    outbox_publish(text, text, text, text),
    outbox_publish(text, text, text, jsonb),
    outbox_publish(text, text, text, json)
from public;

-- How far each consumer of a stream has come, and what must survive a change of
-- worker. `token` is the lease's under which the row was last claimed: a save
-- under another one changes nothing. A position means something only in the
-- cluster that it comes from: a copied database is noticed by system_identifier. That is
-- 0 once the position was found beyond all transactions, until somebody seeks or adopts.
create table outbox_cursors (
    stream text not null,
    consumer text not null,
    txid xid8 not null,
    seq bigint not null,
    system_identifier bigint not null default (pg_catalog.pg_control_system()).system_identifier,
    token bigint not null,
    -- The backoff: failed deliveries in a row, and what came of the last one.
    attempts integer not null default 0,
    next_retry_at timestamptz,
    last_error_kind text,
    last_error text,
    -- The event under suspicion of being poison: how often it was refused alone.
    suspect_txid xid8,
    suspect_seq bigint,
    suspect_attempts integer,
    suspect_since timestamptz,
    suspect_stage text check (suspect_stage in ('alone', 'comparing', 'probing', 'confirming')),
    suspect_code text,
    suspect_error text,
    probe_txid xid8,
    probe_seq bigint,
    -- The end of the range that was written down before its delivery, whether that
    -- delivery is still going on, and how far every range has to be written down.
    in_hand_txid xid8,
    in_hand_seq bigint,
    delivering boolean not null default false,
    hunt_txid xid8,
    hunt_seq bigint,
    -- What operators ordered, and the last order that the owner has taken note of.
    paused_at timestamptz,
    paused_by text,
    pause_reason text,
    resumed_at timestamptz,
    seek_txid xid8,
    seek_seq bigint,
    -- For destinations that keep a position of their own, which is compared with these: when
    -- an operator last decided where the cursor goes on, in microseconds since 1970; the last
    -- event that was delivered; and the last that was ever about to be.
    generation bigint not null default 0,
    delivered_txid xid8,
    delivered_seq bigint,
    marked_txid xid8,
    marked_seq bigint,
    obeyed bigint not null default 0,
    created_at timestamptz not null default compute_now(),
    -- When the position was saved. Nothing that was published later has been passed.
    moved_at timestamptz not null default compute_now(),
    primary key (stream, consumer)
) with (fillfactor = 50);

-- Who may do what alone. A row stays when its lease is released, so that
-- tokens never repeat; `holder` is null then.
create table leases (
    name text primary key,
    holder text,
    token bigint not null,
    -- Whether the holder took it from one that had let it run out.
    abandoned boolean not null default false,
    acquired_at timestamptz not null,
    renewed_at timestamptz not null,
    expires_at timestamptz not null
) with (fillfactor = 50);

-- The workers that are alive and the sinks that each could run, so that the
-- leases can be spread over them.
create table outbox_workers (
    holder text primary key,
    sinks text[] not null,
    expires_at timestamptz not null
) with (fillfactor = 50);

-- Events that a destination would not take, with a copy of their own: retention
-- may take the original. The payload is the text as it would have been sent, unless
-- `damage` says why no text could hold it: then it is for people to read.
create table outbox_dead_letters (
    id bigint generated always as identity primary key,
    sink text not null,
    txid xid8 not null,
    seq bigint not null,
    event_id text not null,
    topic text not null,
    payload text not null,
    damage text,
    code text not null,
    error text not null,
    attempts integer not null,
    first_failed_at timestamptz not null,
    dead_lettered_at timestamptz not null default compute_now(),
    state text not null default 'dead' check (state in ('dead', 'replaying', 'replayed', 'discarded')),
    state_changed_at timestamptz not null default compute_now(),
    replays integer not null default 0,
    unique (sink, txid, seq)
);
create index outbox_dead_letters_recent on outbox_dead_letters (sink, dead_lettered_at);
-- They are counted by the state, up to a bound, however many others there are.
create index outbox_dead_letters_state on outbox_dead_letters (sink, state);
create index outbox_dead_letters_replaying on outbox_dead_letters (sink, txid, seq)
    where state operator(pg_catalog.=) 'replaying'::text;

-- What operators ordered. Ids appear in the order of commits, by outbox_record. Workers
-- look at the greatest id, and so learn at once that there is something to obey.
create table outbox_operations (
    id bigint generated always as identity primary key,
    at timestamptz not null default compute_now(),
    command text not null,
    sink text,
    by_whom text not null,
    details jsonb not null default '{}'
);

-- Adds a row with its owner's rights: an operator can add to the record and not change
-- it. Others wait until the transaction has ended, so it is the last thing in one.
create function outbox_record(command text, sink text, by_whom text, details text)
returns bigint
language plpgsql volatile security definer
set search_path from current
as $$
declare
    number bigint;
begin
    lock table outbox_operations in share row exclusive mode;
    insert into outbox_operations as o (command, sink, by_whom, details)
    values ($1, $2, $3, $4::jsonb)
    returning o.id into number;
    return number;
end
$$;

revoke all on function outbox_record(text, text, text, text) from public;
