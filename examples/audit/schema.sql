-- Invoices, and their history, which a trigger writes for changes from every client.

create table invoice (
    id bigint generated always as identity primary key,
    customer text not null,
    amount numeric(12, 2) not null
);

create table invoice_history (
    id bigint generated always as identity primary key,
    invoice_id bigint not null,
    operation text not null,
    changed_by text not null,
    correlation_id uuid,
    before jsonb,
    after jsonb,
    changed_at timestamptz not null default now()
);

-- Use the search path of its creator: the history of this schema, whatever the caller's path is.
create function record_invoice_change() returns trigger
language plpgsql
set search_path from current
as $$
begin
    insert into invoice_history (invoice_id, operation, changed_by, correlation_id, before, after)
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
