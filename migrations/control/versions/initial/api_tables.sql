-- What the API keeps: its tokens, how often each was used of late, and the answers of writes that
-- may come twice. Counts are not worth a write to the log: after a crash they begin anew.
CREATE TABLE tenantcron.api_token (
    id varchar(16) NOT NULL,
    name varchar(128) NOT NULL,
    digest bytea NOT NULL,
    role varchar(16) NOT NULL,
    tenant_id varchar(48),
    created_by varchar(255) NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    CONSTRAINT api_token_pkey PRIMARY KEY (id),
    CONSTRAINT api_token_role_check CHECK (role IN ('viewer', 'operator', 'deployer', 'admin')),
    CONSTRAINT api_token_tenant_id_fkey FOREIGN KEY (tenant_id) REFERENCES tenantcron.tenant (id)
);
CREATE UNIQUE INDEX api_token_name_idx
    ON tenantcron.api_token (name)
    WHERE revoked_at IS NULL;
CREATE UNLOGGED TABLE tenantcron.api_usage (
    caller varchar(320) NOT NULL,
    window_start timestamptz NOT NULL,
    requests integer NOT NULL,
    CONSTRAINT api_usage_pkey PRIMARY KEY (caller)
);
CREATE TABLE tenantcron.idempotency_key (
    caller varchar(320) NOT NULL,
    key varchar(255) NOT NULL,
    request_hash varchar(64) NOT NULL,
    status smallint,
    answer text,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT idempotency_key_pkey PRIMARY KEY (caller, key)
);
CREATE INDEX idempotency_key_created_at_idx
    ON tenantcron.idempotency_key (created_at);
CREATE TRIGGER api_token_recorded
    AFTER INSERT OR UPDATE OR DELETE ON tenantcron.api_token
    FOR EACH ROW EXECUTE FUNCTION tenantcron.record_secret('api_token', 'id', 'digest');
