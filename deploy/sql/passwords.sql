-- Passwords of the roles of roles.sql, from the environment of psql. compose.yml runs it once, when
-- PostgreSQL creates its database. tenantcron_plan gets none, so it cannot log in with a password.
\getenv deploy DEPLOY_PASSWORD
\getenv run RUN_PASSWORD
\getenv operate OPERATE_PASSWORD
ALTER ROLE tenantcron_deploy PASSWORD :'deploy';
ALTER ROLE tenantcron_run PASSWORD :'run';
ALTER ROLE tenantcron_operate PASSWORD :'operate';
