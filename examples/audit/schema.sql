-- Invoices, and their history, which a trigger writes for changes from every client. The history has its
-- own schema: handlers may write each table in the schema of their tenant.

create table invoice (
    id bigint generated always as identity primary key,
    customer text not null,
    amount numeric(12, 2) not null
);

create schema audit_example_history;
create table audit_example_history.invoice (
    id bigint generated always as identity primary key,
    invoice_id bigint not null,
    operation text not null,
    changed_by text not null,
    correlation_id uuid,
    before jsonb,
    after jsonb,
    changed_at timestamptz not null default now()
);

-- With the rights of its owner, so that clients need none on the history. The path names temporary
-- objects last: they would be found first otherwise, and a client could put its own in between.
create function record_invoice_change() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    insert into audit_example_history.invoice
        (invoice_id, operation, changed_by, correlation_id, before, after)
    select
        coalesce(new.id, old.id), lower(tg_op), who.changed_by, who.correlation_id,
        to_jsonb(old), to_jsonb(new)
    from tenantcron.acting() as who;
    return null;
end
$$;

create trigger invoice_history
after insert or update or delete on invoice
for each row execute function record_invoice_change();
