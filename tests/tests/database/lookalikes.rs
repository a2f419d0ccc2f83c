//! Functions that run with their owner's rights call nobody else's code.

use crate::fixture::on_each_postgres;

/// Each stands for what would fit a call in the migration better than Postgres' own,
/// were it called without its schema or with other types than it is defined for.
const LOOKALIKES: [(&str, &str, &str); 6] = [
    ("to_json(text)", "json", "'\"x\"'::json"),
    (
        "concat(text, json, text, json, text, json, text, json, text, json, text, text, text)",
        "text",
        "'{}'::text",
    ),
    (
        "jsonb_build_object(text, text, text, text, text, text, text, text, text, text, text, jsonb)",
        "jsonb",
        "'{}'::jsonb",
    ),
    ("outbox_refuse(varchar, varchar)", "void", ""),
    ("outbox_refuse(name, name)", "void", ""),
    ("outbox_refuse(text, varchar)", "void", ""),
];

/// The name, the operands' types and the result's.
const OPERATORS: [(&str, &str, &str, &str); 8] = [
    ("*", "numeric", "int4", "1790000000000::numeric"),
    ("*", "float8", "int4", "1790000000000::float8"),
    ("||", "bit", "bit", "repeat('0', 130)::varbit"),
    ("||", "text", "json", "'{}'::text"),
    ("||", "json", "text", "'{}'::text"),
    (">", "int8", "int4", "true"),
    (">", "int4", "int4", "true"),
    ("!~", "text", "varchar", "false"),
];

#[tokio::test]
async fn lookalikes_in_the_schema_are_never_called() {
    on_each_postgres(async |outbox| {
        // Roles belong to the whole server: the name is this database's.
        let role = format!("\"creator {}\"", outbox.server.name());
        outbox
            .run(&format!(
                "create role {role};
                 grant usage, create on schema {{s}} to {role};
                 create table public.called (who text, what text);
                 grant insert on public.called to public;
                 set role {role};
                 {}",
                lookalikes()
            ))
            .await;
        outbox
            .run("select {s}.outbox_publish('a.b', 't', 's', '{\"n\": 1}')")
            .await;
        outbox
            .run("select {s}.outbox_publish('a.b', 't', 's', '1'::jsonb)")
            .await;
        outbox
            .run("select {s}.outbox_record('seek', null, 'me', '{}')")
            .await;
        let mut application = outbox.application().await;
        let refused = sqlx::raw_sql(outbox.sql("select {s}.outbox_publish('bad', 't', 's')"));
        let refused = refused.execute(&mut application).await;
        let called: Vec<(String,)> = sqlx::query_as("select who || ' ' || what from public.called")
            .fetch_all(&mut application)
            .await
            .unwrap();
        assert_eq!(called, []);
        assert!(refused.is_err());
    })
    .await;
}

/// Statements that create all of them. Each notes whose rights it runs with.
fn lookalikes() -> String {
    let body = |what: &str, result: &str| {
        let what = what.replace('\'', "");
        format!(
            "language plpgsql as $$ begin
                 insert into public.called values (current_user, '{what}');
                 return {result};
             end $$;\n"
        )
    };
    let functions = LOOKALIKES.map(|(signature, returns, result)| {
        let body = body(signature, result);
        format!("create function {{s}}.{signature} returns {returns} {body}")
    });
    let operators = OPERATORS.iter().enumerate();
    let operators = operators.map(|(n, (name, left, right, result))| {
        let returns = match *name {
            "||" if *left == "bit" => "varbit",
            "||" => "text",
            "*" => left,
            _ => "bool",
        };
        let body = body(&format!("{left} {name} {right}"), result);
        format!(
            "create function {{s}}.lookalike_{n}({left}, {right}) returns {returns} {body}
             create operator {{s}}.{name} (
                 leftarg = {left}, rightarg = {right}, function = {{s}}.lookalike_{n}
             );\n"
        )
    });
    functions.into_iter().chain(operators).collect()
}
