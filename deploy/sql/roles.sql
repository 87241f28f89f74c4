-- Roles for tenantcron, each with the rights that its commands need and no others. Run it once with
-- psql, on the database, as its owner, which may create roles; rename the roles as you like, here and in
-- grants.sql. Then run `tenantcron migrate` as tenantcron_deploy, and grants.sql.
-- It may create roles for the handlers of tenants. Up to PostgreSQL 15 that right is nearly a
-- superuser's; leave it out if no handler calls connection().
CREATE ROLE tenantcron_deploy LOGIN CREATEROLE;
CREATE ROLE tenantcron_run LOGIN;
CREATE ROLE tenantcron_operate LOGIN;
CREATE ROLE tenantcron_plan LOGIN;
-- The role that requests of the API read as. `migrate` would create it if it could.
CREATE ROLE tenantcron_api NOLOGIN NOINHERIT;
GRANT tenantcron_api TO tenantcron_operate;

-- migrate creates the schema tenantcron, tenant create the schemas of tenants that are not adopted.
GRANT CREATE ON DATABASE :"DBNAME" TO tenantcron_deploy;
