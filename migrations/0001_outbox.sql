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
-- cluster that it comes from: a copied database is noticed by system_identifier.
create table outbox_cursors (
    stream text not null,
    consumer text not null,
    txid xid8 not null,
    seq bigint not null,
    system_identifier bigint not null default (pg_catalog.pg_control_system()).system_identifier,
    token bigint not null,
    attempts integer not null default 0,
    next_retry_at timestamptz,
    last_error_kind text,
    last_error text,
    created_at timestamptz not null default compute_now(),
    updated_at timestamptz not null default compute_now(),
    primary key (stream, consumer)
) with (fillfactor = 50);

-- Who may do what alone. A row stays when its lease is released, so that
-- tokens never repeat; `holder` is null then.
create table leases (
    name text primary key,
    holder text,
    token bigint not null,
    acquired_at timestamptz not null,
    renewed_at timestamptz not null,
    expires_at timestamptz not null
) with (fillfactor = 50);
