-- Roles for tenantcron, each with only the privileges that its commands need. Run it once with psql,
-- as the owner of the database with CREATEROLE. You may rename the roles, here and in grants.sql.
-- Then run `tenantcron migrate` as tenantcron_deploy, and grants.sql.
-- CREATEROLE is for the roles of tenants' handlers. Up to PostgreSQL 15 it is nearly as powerful as
-- SUPERUSER; omit it if no handler calls connection().
CREATE ROLE tenantcron_deploy LOGIN CREATEROLE;
CREATE ROLE tenantcron_run LOGIN;
CREATE ROLE tenantcron_operate LOGIN;
CREATE ROLE tenantcron_plan LOGIN;
-- Requests of the API read as this role. `migrate` creates it if it has the privilege.
CREATE ROLE tenantcron_api NOLOGIN NOINHERIT;
GRANT tenantcron_api TO tenantcron_operate;
-- Applications that submit tasks are members: GRANT tenantcron_submit TO my_service.
CREATE ROLE tenantcron_submit NOLOGIN;

-- `migrate` creates the schema tenantcron, `tenant create` the tenants' schemas.
GRANT CREATE ON DATABASE :"DBNAME" TO tenantcron_deploy;
