-- Whether a refresh of the tenants would find anything: schedules that changed, or a tenant whose
-- schedules could not be read the last time.
SELECT EXISTS (
    SELECT
    FROM tenantcron.tenant
    WHERE schedule_revision OPERATOR(pg_catalog.<>) synced_revision OR sync_fault IS NOT NULL
)
