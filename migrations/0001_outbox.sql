-- The outbox, its readers' cursors and their leases.
--
-- Runs with `search_path` set to one schema (and pg_temp last), which every
-- function keeps: no caller's search_path or temporary table can mislead them.

-- The only clock that counts. It moves on within a transaction.
create function compute_now() returns timestamptz
language sql volatile parallel safe
as $$ select pg_catalog.clock_timestamp() $$;

-- Readers go by (txid, seq). `seq` alone would skip events: it is drawn at
-- insertion, and a transaction that drew a lower one may commit later.
create table outbox (
    seq bigserial not null,
    txid xid8 not null default pg_current_xact_id(),
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
create index outbox_tenant_cursor on outbox ((payload ->> 'tenantId'), txid, seq);

-- Functions without a search_path of their own are called by outbox_append alone,
-- under its search_path: setting it again would cost as much as a check.

-- `evt_` and a UUIDv7 in Crockford's base32: ids sort by the millisecond.
create function outbox_event_id() returns text
language plpgsql volatile parallel safe
as $$
declare
    ms bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint;
    uuid bytea := overlay(uuid_send(gen_random_uuid()) placing substring(int8send(ms) from 3) from 1 for 6);
    bits bit(130);
    id text := 'evt_';
begin
    uuid := set_byte(uuid, 6, 112 | (get_byte(uuid, 6) & 15));
    bits := B'00' || ('x' || encode(uuid, 'hex'))::bit(128);
    for digit in 0..25 loop
        id := id || substr(
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
    moment text := to_char(compute_now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');
    stored_bytes bigint;
    written text;
begin
    if type is null or type !~ '^[^.]+(\.[^.]+)+$' then
        perform outbox_refuse('type', 'must be area.name, with at least one dot and no empty part');
    elsif char_length(type) > 128 then
        perform outbox_refuse('type', 'must have at most 128 characters');
    elsif tenant_id is null or char_length(tenant_id) not between 1 and 128 then
        perform outbox_refuse('tenantId', 'must have 1 to 128 characters');
    elsif subject is null or char_length(subject) not between 1 and 512 then
        perform outbox_refuse('subject', 'must have 1 to 512 characters');
    elsif octet_length(data) > 65536 then
        perform outbox_refuse('payload', 'must have at most 65536 bytes');
    end if;
    data := coalesce(data, 'null');
    -- What Postgres stores can be longer than what was written: 1e3 becomes 1000.
    begin
        stored_bytes := octet_length(jsonb_build_object(
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
    written := concat(
        '{"id":', to_json(id), ',"type":', to_json(type), ',"tenantId":', to_json(tenant_id),
        ',"subject":', to_json(subject), ',"time":', to_json(moment), ',"data":', data, '}'
    );
    if greatest(stored_bytes, octet_length(written)) > 65536 then
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
    system_identifier bigint not null default (pg_control_system()).system_identifier,
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
