-- Invoices, and a history of them that the database writes by itself, whoever changes a row.

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

-- The search path of its maker: the history of this schema, whatever path the caller has.
create function record_invoice_change() returns trigger
language plpgsql
set search_path from current
as $$
begin
    insert into invoice_history (invoice_id, operation, changed_by, correlation_id, before, after)
    values (
        coalesce(new.id, old.id),
        lower(tg_op),
        -- Nobody said who acts: null on a new connection, empty on one that was used before.
        coalesce(nullif(current_setting('tenantcron.actor', true), ''), 'system'),
        nullif(current_setting('tenantcron.correlation_id', true), '')::uuid,
        to_jsonb(old),
        to_jsonb(new)
    );
    return null;
end
$$;

create trigger invoice_history
after insert or update or delete on invoice
for each row execute function record_invoice_change();
